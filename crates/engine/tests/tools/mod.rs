//! Tools for tests of the engine: each records what it sees, in an order that reveals any mistake.

use quipu_engine::Watch;
use quipu_model::ReportBody;
use quipu_model::doc::Document;
use quipu_model::options::Kind;
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Error, Needs, OptionSpec, Options, Order, Pass, Report, Result, Shard, Tool,
    ToolInfo, Trace,
};

/// Lists the values of marks, thread by thread as they come. Its merge is associative, but depends on the order.
pub(crate) struct Marks(ToolInfo);

const LIMIT: OptionSpec = OptionSpec::new("limit", Kind::Count, "none", "");
const CANCEL_AT: OptionSpec = OptionSpec::new("cancel-at", Kind::Count, "none", "").value("MARK");
const ENOUGH: OptionSpec = OptionSpec::new("enough", Kind::Count, "none", "");

const fn marks(order: Order) -> Marks {
    Marks(ToolInfo {
        name: "marks",
        summary: "",
        needs: Needs { format: None, required: Columns::MARKS, optional: Columns::THREADS },
        order,
        options: &[LIMIT, CANCEL_AT, ENOUGH],
        in_report: false,
    })
}

pub(crate) static PIECES: Marks = marks(Order::Pieces);
pub(crate) static SHARDS: Marks = marks(Order::Shards);
pub(crate) static TIME: Marks = marks(Order::Time);

/// Lists the sizes of accesses, one tool for each order.
pub(crate) static SIZES: [Marks; 3] = [sizes(Order::Pieces), sizes(Order::Shards), sizes(Order::Time)];

const fn sizes(order: Order) -> Marks {
    let needs = Needs { format: None, required: Columns::ACCESSES, optional: Columns::NONE };
    Marks(ToolInfo { name: "sizes", needs, ..marks(order).0 })
}

/// The watch of the one run that cancels itself.
pub(crate) static STOP: Watch = Watch::new();

impl Tool for Marks {
    fn result(&self) -> Shape {
        MarksReport::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        // The tests use only the statics above.
        [&PIECES, &SHARDS, &TIME]
            .into_iter()
            .chain(&SIZES)
            .find(|tool| (tool.0.order, tool.0.name) == (self.0.order, self.0.name))
            .map(|tool| &tool.0)
            .unwrap()
    }

    fn build(&self, options: &Options, _trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        Ok(Box::new(MarksPass {
            values: Vec::new(),
            limit: options.number(&LIMIT).unwrap_or(u64::MAX),
            cancel_at: options.number(&CANCEL_AT).unwrap_or(u64::MAX),
            enough: options.number(&ENOUGH).unwrap_or(u64::MAX),
        }))
    }
}

struct MarksPass {
    values: Vec<u64>,
    /// More marks than this are an error.
    limit: u64,
    /// The mark that cancels the run observed by [`STOP`].
    cancel_at: u64,
    /// After this many marks the pass has enough.
    enough: u64,
}

impl Pass for MarksPass {
    fn fork(&self, _shard: &Shard) -> MarksPass {
        MarksPass { values: Vec::new(), ..*self }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        self.values.extend_from_slice(&batch.marks.value);
        self.values.extend(batch.accesses.size.iter().map(|size| u64::from(*size)));
        if self.values.contains(&self.cancel_at) {
            STOP.cancel();
        }
        if self.values.len() as u64 > self.limit {
            return Err(Error::limit("marks", self.values.len() as u64, self.limit));
        }
        Ok(())
    }

    fn has_enough(&self) -> bool {
        self.values.len() as u64 >= self.enough
    }

    fn merge(&mut self, later: MarksPass) -> Result<()> {
        self.values.extend(later.values);
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        Ok(Box::new(MarksReport { values: self.values }))
    }
}

result! {
    /// The marks.
    #[derive(Debug)]
    pub struct MarksReport {
        pub values: Vec<u64> => "Their values.";
    }
}

impl ReportBody for MarksReport {
    fn document(&self, _detail: Detail) -> Document {
        Document::new("marks")
    }
}
