//! `check`: every rule that a capture must follow, and where it does not.
//!
//! Readers report what is wrong with buffers; opening reports drops. Memory does not grow.

use crate::rules;
use crate::trace::DtraceTrace;
use quipu_model::check::{self, CheckReport, CheckedRecords, FoundPass};
use quipu_model::pass::Needs;
use quipu_model::result::{Fields, Shape};
use quipu_model::{Columns, DynPass, Options, Order, Result, Tool, ToolInfo, Trace};

/// The tool `check` of captures.
#[derive(Debug)]
pub struct Check;

static CHECK_INFO: ToolInfo = ToolInfo {
    name: "check",
    summary: "whether a trace follows the rules of its format, and where not",
    needs: Needs { format: Some("dtrace"), required: Columns::NONE, optional: Columns::MARKS },
    order: Order::Shards,
    options: &check::options("report only what opening finds, without reading records"),
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
        let findings = &DtraceTrace::of(trace)?.meta().findings;
        Ok(Box::new(FoundPass::new(options, rules::RULES, findings)?))
    }
}
