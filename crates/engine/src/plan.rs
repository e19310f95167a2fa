//! Binding a tool to a trace: the columns and tables that it will read, and its options.

use quipu_model::{Columns, DynPass, Given, Reads, Result, Tool, ToolInfo, Trace};

/// A tool bound to a trace: the request for data, and an empty pass.
pub struct Planned {
    /// The tool.
    pub info: &'static ToolInfo,
    /// The columns and tables to read: all that the tool requires, and those optional ones that the trace has.
    pub reads: Reads,
    /// The pass that all forks are made from.
    pub pass: Box<dyn DynPass>,
}

impl Planned {
    /// Creates a plan for a pass that reads columns of lenses, in the order that its tool declares.
    pub fn new(info: &'static ToolInfo, columns: Columns, pass: Box<dyn DynPass>) -> Planned {
        Planned { info, reads: Reads { columns, tables: Vec::new(), order: info.order }, pass }
    }
}

/// Binds a tool to a trace.
///
/// # Errors
/// `Missing` if the trace lacks something that the tool needs; `Usage` for options that the tool does not have, and for
/// invalid values.
pub fn plan(tool: &dyn Tool, given: &Given, trace: &dyn Trace) -> Result<Planned> {
    let info = tool.info();
    let options = info.parse(given)?;
    let reads = tool.reads(&options, trace)?;
    Ok(Planned { info, reads, pass: tool.build(&options, trace)? })
}
