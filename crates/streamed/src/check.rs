//! `check`: every rule that a stream must follow, and where it does not.
//!
//! Readers report faults of frames and their records; for a trace that was opened by its index, this tool adds faults that
//! only a read of all headers shows. Memory does not grow.

use crate::rules;
use crate::trace::StreamTrace;
use quipu_model::check::{self, FoundCheck};
use quipu_model::{Columns, ToolInfo};

/// The tool `check` of streams.
pub static CHECK: FoundCheck = FoundCheck {
    info: &INFO,
    rules: rules::RULES,
    opening: |trace, decodes| StreamTrace::of(trace)?.findings_of_frames(decodes),
    reads_tables: false,
};

static INFO: ToolInfo = check::info(
    "stream",
    Columns::NONE,
    Columns::ACCESSES,
    &check::options("look only at frames and headers, without decoding records"),
);
