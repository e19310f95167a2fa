//! What an analysis is: forked for each piece of a trace, fed batches, merged in the trace's order, rendered once.

use crate::batch::Batch;
use crate::columns::Columns;
use crate::doc::Document;
use crate::error::{Error, Result};
use crate::finding::{Finding, Severity};
use crate::options::{Given, OptionSpec, Options};
use crate::result::{Fields, Shape, json, tables};
use crate::row_tool::RowTool;
use crate::table::ColumnTable;
use crate::trace::{Shard, Trace};
use std::any::Any;

/// An analysis at work.
///
/// `merge` is associative and is called in the order of shards and pieces, so an answer never depends on the number
/// of threads.
pub trait Pass: Send + Sized + 'static {
    /// An empty pass with the same options for one piece of `shard`. The engine runs forks only: state that is kept in the pass
    /// that [`Tool::build`] returned never reaches the result.
    fn fork(&self, shard: &Shard) -> Self;

    /// Takes in one batch. One virtual call each; the loop over rows is inside.
    fn consume(&mut self, batch: &Batch) -> Result<()>;

    /// Takes in what several cores did side by side, a batch of each, of as many records: the first record of each came
    /// before the second of any. Only passes of order [`Time`](Order::Time) are given that, all others each core alone.
    ///
    /// # Errors
    /// `Unsupported` unless a pass says otherwise: a pass that wants the order of time must know what to make of cores side
    /// by side.
    fn consume_in_step(&mut self, batches: &[Batch]) -> Result<()> {
        let _ = batches;
        Err(Error::unsupported("this analysis takes threads one after the other, not cores side by side")
            .hint("leave out the scheduler"))
    }

    /// True if nothing that comes can change the result any more. Reading may then stop; it need not.
    fn has_enough(&self) -> bool {
        false
    }

    /// Adds what a pass saw that read the records right after this one's.
    fn merge(&mut self, later: Self) -> Result<()>;

    /// The result.
    fn finish(self) -> Result<Box<dyn Report>>;
}

/// A [`Pass`] as a trait object; implemented for every pass.
pub trait DynPass: Send {
    /// See [`Pass::fork`].
    fn fork(&self, shard: &Shard) -> Box<dyn DynPass>;
    /// See [`Pass::consume`].
    fn consume(&mut self, batch: &Batch) -> Result<()>;
    /// See [`Pass::consume_in_step`].
    fn consume_in_step(&mut self, batches: &[Batch]) -> Result<()>;
    /// See [`Pass::has_enough`].
    fn has_enough(&self) -> bool;
    /// See [`Pass::merge`]. An internal error if `later` is another sort of pass.
    fn merge(&mut self, later: Box<dyn DynPass>) -> Result<()>;
    /// See [`Pass::finish`].
    fn finish(self: Box<Self>) -> Result<Box<dyn Report>>;
    /// For the downcast inside `merge`.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<P: Pass> DynPass for P {
    fn fork(&self, shard: &Shard) -> Box<dyn DynPass> {
        Box::new(Pass::fork(self, shard))
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        Pass::consume(self, batch)
    }

    fn consume_in_step(&mut self, batches: &[Batch]) -> Result<()> {
        Pass::consume_in_step(self, batches)
    }

    fn has_enough(&self) -> bool {
        Pass::has_enough(self)
    }

    fn merge(&mut self, later: Box<dyn DynPass>) -> Result<()> {
        let later = later
            .into_any()
            .downcast::<P>()
            .map_err(|_| Error::new(crate::ErrorKind::Internal, "two different passes cannot merge"))?;
        Pass::merge(self, *later)
    }

    fn finish(self: Box<Self>) -> Result<Box<dyn Report>> {
        Pass::finish(*self)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The registered face of a pass.
pub trait Tool: Sync {
    /// Name, needs and options.
    fn info(&self) -> &'static ToolInfo;

    /// What its result has.
    fn result(&self) -> Shape;

    /// What it reads of a trace with these options.
    ///
    /// # Errors
    /// `Missing` if the trace lacks what it needs; `Usage` for a table or column that there is not.
    fn reads(&self, options: &Options, trace: &dyn Trace) -> Result<Reads> {
        let _ = options;
        let info = self.info();
        Ok(Reads { columns: info.needs.of(info.name, trace)?, tables: Vec::new(), order: info.order })
    }

    /// The pass, ready to be forked, for one trace.
    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>>;

    /// What it can hand on row by row while it reads, besides its result.
    fn rows(&self) -> Option<&'static dyn RowTool> {
        None
    }

    /// True if what it says of a part of a trace means nothing, so that it must see whole shards, undivided.
    fn wants_whole_traces(&self) -> bool {
        false
    }

    /// True if it reads the trace more than once, which a pipe cannot.
    fn reads_again(&self) -> bool {
        false
    }

    /// True if who asks for the analysis called `tool` of this trace should be told this as well: what a format's own
    /// companions of a trace have to say to it.
    fn accompanies(&self, tool: &str, trace: &dyn Trace) -> bool {
        let _ = (tool, trace);
        false
    }
}

/// What is known of a tool without opening a trace.
#[derive(Debug)]
pub struct ToolInfo {
    /// Name, as on the command line.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// What the tool needs of a trace.
    pub needs: Needs,
    /// How it must see the trace.
    pub order: Order,
    /// Its options.
    pub options: &'static [OptionSpec],
    /// Whether `report` shows its brief document.
    pub in_report: bool,
}

impl ToolInfo {
    /// Checks what is given to the tool.
    ///
    /// # Errors
    /// As [`Options::parse`].
    pub fn parse(&self, given: &Given) -> Result<Options> {
        Options::parse(&format!("tool `{}`", self.name), self.options, given)
    }
}

/// What a tool needs of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Only this format, for tools on native records.
    pub format: Option<&'static str>,
    /// Columns without which it cannot work.
    pub required: Columns,
    /// Columns that it uses where a trace has them.
    pub optional: Columns,
}

impl Needs {
    /// The columns to ask of `trace`, or an error that names what is missing.
    pub fn of(&self, tool: &str, trace: &dyn Trace) -> Result<Columns> {
        if let Some(format) = self.format
            && format != trace.meta().format
        {
            return Err(Error::missing(format!(
                "tool `{tool}` reads {format} traces only; this one is {}",
                trace.meta().format
            )));
        }
        let missing = self.required.minus(trace.columns());
        if !missing.is_empty() {
            let error =
                Error::missing(format!("tool `{tool}` needs {missing}, which this trace does not carry"));
            let is_stored = trace.origin().is_none_or(|origin| !origin.columns().has(missing));
            return Err(if is_stored {
                error
            } else {
                error.hint("the threads as recorded carry it: leave their order as it is")
            });
        }
        Ok(self.required | self.optional.and(trace.columns()))
    }
}

/// What a pass reads of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reads {
    /// Columns of lenses.
    pub columns: Columns,
    /// Tables, by their positions in [`Trace::tables`]. They stand among the tables of each batch, with those of others.
    pub tables: Vec<usize>,
    /// How it must see the trace.
    pub order: Order,
}

/// How a pass must see the trace, from loose to strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Any pieces, merged in order.
    Pieces,
    /// Each shard from its beginning to its end.
    Shards,
    /// One stream, merged by time.
    Time,
}

/// What a pass leaves: a structure of [`result!`](crate::result!), and how people see it.
pub trait ReportBody: Fields + Send + 'static {
    /// The result for people.
    fn document(&self, detail: Detail) -> Document;

    /// What was found wrong with the trace, where the pass looks for that.
    fn findings(&self) -> Vec<Finding> {
        Vec::new()
    }

    /// True if the pass judged the trace and found errors, listed among the findings or only counted.
    fn is_flawed(&self) -> bool {
        self.findings().iter().any(|finding| finding.severity == Severity::Error)
    }
}

/// A [`ReportBody`] as a trait object; implemented for every one of them.
pub trait Report: Send + 'static {
    /// The result as tables, the first of which is called `name`; see [`tables`].
    fn tables(&self, name: &str) -> Vec<ColumnTable>;

    /// The result as JSON. Its keys are stable.
    fn json(&self) -> serde_json::Value;

    /// See [`ReportBody::document`].
    fn document(&self, detail: Detail) -> Document;

    /// See [`ReportBody::findings`].
    fn findings(&self) -> Vec<Finding>;

    /// See [`ReportBody::is_flawed`].
    fn is_flawed(&self) -> bool;

    /// For callers that know the concrete report.
    fn as_any(&self) -> &dyn Any;
}

impl<B: ReportBody> Report for B {
    fn tables(&self, name: &str) -> Vec<ColumnTable> {
        tables(name, self)
    }

    fn json(&self) -> serde_json::Value {
        json(self)
    }

    fn document(&self, detail: Detail) -> Document {
        ReportBody::document(self, detail)
    }

    fn findings(&self) -> Vec<Finding> {
        ReportBody::findings(self)
    }

    fn is_flawed(&self) -> bool {
        ReportBody::is_flawed(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// How much a document shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The few lines that belong on one screen with others.
    Brief,
    /// Everything.
    Full,
}
