//! `check`: every rule that a capture must follow, and where it does not.
//!
//! Readers report what is wrong with buffers; opening reports drops. Memory does not grow.

use crate::rules;
use crate::trace::DtraceTrace;
use quipu_model::check::{self, CheckLog, CheckReport, CheckedRecords};
use quipu_model::pass::Needs;
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Error, Options, Order, Pass, Report, Result, Shard, Tool, ToolInfo, Trace,
};

/// The tool `check` of captures.
#[derive(Debug)]
pub struct Check;

static CHECK_INFO: ToolInfo = ToolInfo {
    name: "check",
    summary: "whether a trace follows the rules of its format, and where not",
    needs: Needs { format: Some("dtrace"), required: Columns::NONE, optional: Columns::MARKS },
    order: Order::Shards,
    options: &check::options("read records; without, only what opening finds is reported"),
    in_report: false,
};

impl Tool for Check {
    fn result(&self) -> Shape {
        CheckReport::<CheckedRecords>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &CHECK_INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let Some(opened) = trace.as_any().and_then(|trace| trace.downcast_ref::<DtraceTrace>()) else {
            return Err(Error::missing("this is no trace of format dtrace"));
        };
        let log = CheckLog::new(options, rules::RULES, &opened.meta().findings)?;
        Ok(Box::new(CheckPass { log, n_records: 0 }))
    }
}

/// Counts records and collects what readers find.
struct CheckPass {
    log: CheckLog,
    n_records: u64,
}

impl Pass for CheckPass {
    fn fork(&self, _: &Shard) -> CheckPass {
        CheckPass { log: self.log.fork(), n_records: 0 }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        self.n_records += u64::from(batch.span.records);
        batch.findings.iter().for_each(|finding| self.log.take(finding.clone()));
        Ok(())
    }

    fn merge(&mut self, later: CheckPass) -> Result<()> {
        self.log.merge(later.log);
        self.n_records += later.n_records;
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        Ok(Box::new(CheckReport::of_records(&self.log.close(), self.n_records)))
    }
}
