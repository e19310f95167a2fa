//! The tool `check`: tests whether all rows of all files can be read.

use crate::rules;
use quipu_model::check::{self, FoundCheck};
use quipu_model::{Columns, ToolInfo};

/// The tool `check` for Parquet and Arrow files.
pub static CHECK: FoundCheck = FoundCheck {
    info: &INFO,
    rules: rules::RULES,
    opening: |trace, _| Ok(trace.meta().findings.clone()),
    reads_tables: true,
};

static INFO: ToolInfo = check::info(
    "columnar",
    Columns::NONE,
    Columns::OF_LENSES,
    &check::options("look only at footers and heads, without unpacking rows"),
);
