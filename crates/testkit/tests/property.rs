//! The property of tools holds for a correct one and fails for faulty ones.

use quipu_model::ReportBody;
use quipu_model::doc::Document;
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Given, Needs, Options, Order, Pass, Report, Result, Shard, Tool, ToolInfo,
    Trace, Window,
};
use quipu_testkit::{MemoryTrace, same_outcome, same_report_for_any_threads};

/// Counts something of each batch.
struct Count {
    info: &'static ToolInfo,
    of: fn(&Batch) -> u64,
}

const INFO: ToolInfo = ToolInfo {
    name: "count",
    summary: "",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: Columns::NONE },
    order: Order::Pieces,
    options: &[],
    in_report: false,
};

static PIECES: ToolInfo = INFO;
static TIME: ToolInfo = ToolInfo { order: Order::Time, ..INFO };

impl Tool for Count {
    fn result(&self) -> Shape {
        CountReport::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        self.info
    }

    fn build(&self, _options: &Options, _trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        Ok(Box::new(CountPass { of: self.of, total: 0 }))
    }
}

struct CountPass {
    of: fn(&Batch) -> u64,
    total: u64,
}

impl Pass for CountPass {
    fn fork(&self, _shard: &Shard) -> CountPass {
        CountPass { of: self.of, total: 0 }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        self.total += (self.of)(batch);
        Ok(())
    }

    fn merge(&mut self, later: CountPass) -> Result<()> {
        self.total += later.total;
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        Ok(Box::new(CountReport { total: self.total }))
    }
}

result! {
    /// A sum over records.
    pub struct CountReport {
        pub total: u64 => "The sum.";
    }
}

impl ReportBody for CountReport {
    fn document(&self, _detail: Detail) -> Document {
        Document::new(self.total.to_string())
    }
}

fn bytes_touched(batch: &Batch) -> u64 {
    batch.accesses.size.iter().map(|size| u64::from(*size)).sum()
}

#[test]
fn a_sum_over_records_is_the_same_for_any_threads() {
    for seed in 0..3 {
        let trace = MemoryTrace::random(seed, 4, 2000);
        for info in [&PIECES, &TIME] {
            let tool = Count { info, of: bytes_touched };
            same_report_for_any_threads(&trace, &tool);
            same_outcome(&trace, &tool, &Given::default(), &Window::Records(500..3000));
            same_outcome(&trace, &tool, &Given::default(), &Window::Instrs(500..3000));
        }
    }
}

#[test]
#[should_panic(expected = "the outcome differs with batches of 1")]
fn a_tool_that_counts_batches_is_found_out() {
    same_report_for_any_threads(&MemoryTrace::random(1, 2, 2000), &Count { info: &PIECES, of: |_| 1 });
}

#[test]
#[should_panic(expected = "tool `count` fails: tool `count` needs accesses")]
fn a_tool_that_fails_is_no_proof() {
    let trace = MemoryTrace::random(1, 1, 10).with_columns(Columns::INSTRS);
    same_report_for_any_threads(&trace, &Count { info: &PIECES, of: bytes_touched });
}
