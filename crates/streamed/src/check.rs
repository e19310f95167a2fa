//! `check`: every rule that a stream must follow, and where it does not.
//!
//! Readers report what is wrong with frames and their records; this adds what only a look at all headers tells, where the trace
//! was opened by its index. Memory does not grow.

use crate::rules;
use crate::trace::StreamTrace;
use quipu_model::check::{self, CheckReport, CheckedRecords, FoundPass};
use quipu_model::pass::Needs;
use quipu_model::result::{Fields, Shape};
use quipu_model::{Columns, DynPass, Options, Order, Result, Tool, ToolInfo, Trace};

/// The tool `check` of streams.
#[derive(Debug)]
pub struct Check;

static CHECK_INFO: ToolInfo = ToolInfo {
    name: "check",
    summary: "whether a trace follows the rules of its format, and where not",
    needs: Needs { format: Some("stream"), required: Columns::NONE, optional: Columns::ACCESSES },
    order: Order::Shards,
    options: &check::options("look only at frames and headers, without decoding records"),
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
        let opening = StreamTrace::of(trace)?.findings_of_frames(!options.flag(&check::NO_DECODE))?;
        Ok(Box::new(FoundPass::new(options, rules::RULES, &opening)?))
    }
}
