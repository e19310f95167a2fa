//! `check`: every rule that a capture must follow, and where it does not.
//!
//! Readers report faults in buffers; opening the capture reports drops. Memory does not grow.

use crate::rules;
use quipu_model::check::{self, FoundCheck};
use quipu_model::{Columns, ToolInfo};

/// The tool `check` of captures.
pub static CHECK: FoundCheck = FoundCheck {
    info: &INFO,
    rules: rules::RULES,
    opening: |trace, _| Ok(trace.meta().findings.clone()),
    reads_tables: false,
};

static INFO: ToolInfo = check::info(
    "dtrace",
    Columns::NONE,
    Columns::MARKS,
    &check::options("report only what opening finds, without reading records"),
);
