//! A tool meets a trace: what it will read, with which options.

use quipu_model::{Columns, DynPass, Given, Reads, Result, Tool, ToolInfo, Trace};

/// A tool bound to a trace: what it will ask for, and an empty pass.
pub struct Planned {
    /// The tool.
    pub info: &'static ToolInfo,
    /// What it reads: all that it needs, and what the trace has of the rest.
    pub reads: Reads,
    /// The pass that all work is forked from.
    pub pass: Box<dyn DynPass>,
}

impl Planned {
    /// A pass that reads columns of lenses, in the order that its tool declares.
    pub fn new(info: &'static ToolInfo, columns: Columns, pass: Box<dyn DynPass>) -> Planned {
        Planned { info, reads: Reads { columns, tables: Vec::new(), order: info.order }, pass }
    }
}

/// Binds a tool to a trace.
///
/// # Errors
/// `Missing` if the trace lacks what the tool needs, `Usage` for options that the tool does not have and values that they
/// cannot have.
pub fn plan(tool: &dyn Tool, given: &Given, trace: &dyn Trace) -> Result<Planned> {
    let info = tool.info();
    let options = info.parse(given)?;
    let reads = tool.reads(&options, trace)?;
    Ok(Planned { info, reads, pass: tool.build(&options, trace)? })
}
