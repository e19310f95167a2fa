//! `check`: whether all rows of all files can be read.

use crate::rules;
use quipu_model::check::{self, FoundCheck, NO_DECODE};
use quipu_model::pass::{DynPass, Reads};
use quipu_model::result::Shape;
use quipu_model::{Columns, Options, Result, Tool, ToolInfo, Trace};

/// The tool `check` of files of Parquet and Arrow.
pub static CHECK: Check = Check(FoundCheck {
    info: &INFO,
    rules: rules::RULES,
    opening: |trace, _| Ok(trace.meta().findings.clone()),
});

static INFO: ToolInfo = check::info(
    "columnar",
    Columns::NONE,
    Columns::OF_LENSES,
    &check::options("look only at footers and heads, without unpacking rows"),
);

/// The type of [`CHECK`].
#[derive(Debug)]
pub struct Check(FoundCheck);

impl Tool for Check {
    fn info(&self) -> &'static ToolInfo {
        self.0.info()
    }

    fn result(&self) -> Shape {
        self.0.result()
    }

    /// Tables are read, too: a page that no lens needs may be damaged.
    fn reads(&self, options: &Options, trace: &dyn Trace) -> Result<Reads> {
        let tables = if options.flag(&NO_DECODE) { 0 } else { trace.tables()?.len() };
        let columns = INFO.needs.of(INFO.name, trace)?;
        Ok(Reads { columns, tables: (0..tables).collect(), order: INFO.order })
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        self.0.build(options, trace)
    }
}
