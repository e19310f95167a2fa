//! A tool meets a trace: what it will read, with which options.

use quipu_model::{Columns, DynPass, Given, Result, Tool, ToolInfo, Trace};

/// A tool bound to a trace: the columns that it will ask for and an empty pass.
pub struct Planned {
    /// The tool.
    pub info: &'static ToolInfo,
    /// What it reads: all that it needs, and what the trace has of the rest.
    pub columns: Columns,
    /// The pass that all work is forked from.
    pub pass: Box<dyn DynPass>,
}

/// Binds a tool to a trace.
///
/// # Errors
/// `Missing` if the trace lacks what the tool needs, `Usage` for options that the tool does not have and values that they
/// cannot have.
pub fn plan(tool: &dyn Tool, given: &Given, trace: &dyn Trace) -> Result<Planned> {
    let info = tool.info();
    let options = info.parse(given)?;
    let columns = info.needs.of(info.name, trace)?;
    Ok(Planned { info, columns, pass: tool.build(&options, trace)? })
}
