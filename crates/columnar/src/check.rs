//! `check`: whether all rows of all files can be read.

use crate::rules;
use quipu_model::check::{self, CheckReport, CheckedRecords, FoundPass};
use quipu_model::pass::Needs;
use quipu_model::result::{Fields, Shape};
use quipu_model::{Columns, DynPass, Options, Order, Result, Tool, ToolInfo, Trace};

/// The tool `check` of files of Parquet and Arrow.
#[derive(Debug)]
pub struct Check;

static CHECK_INFO: ToolInfo = ToolInfo {
    name: "check",
    summary: "whether a trace follows the rules of its format, and where not",
    needs: Needs { format: Some("columnar"), required: Columns::NONE, optional: Columns::OF_LENSES },
    order: Order::Shards,
    options: &check::options("look only at footers and heads, without unpacking rows"),
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
        Ok(Box::new(FoundPass::new(options, rules::RULES, &trace.meta().findings)?))
    }
}
