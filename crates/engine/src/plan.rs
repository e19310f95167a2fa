//! A tool meets a trace: what it will read, with which options.

use quipu_model::{Args, Columns, DynPass, Error, Result, Tool, ToolInfo, Trace};

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
/// `Missing` if the trace lacks what the tool needs, `Usage` for options that the tool does not have, and what the
/// tool has to say about the values of the others.
pub fn plan(tool: &dyn Tool, args: &Args, trace: &dyn Trace) -> Result<Planned> {
    let info = tool.info();
    check_options(info, args)?;
    let columns = info.needs.of(info.name, trace)?;
    Ok(Planned { info, columns, pass: tool.build(args, trace)? })
}

fn check_options(info: &ToolInfo, args: &Args) -> Result<()> {
    let unknown = args.names().find(|given| !info.options.iter().any(|option| option.name == *given));
    let Some(unknown) = unknown else { return Ok(()) };
    let known: Vec<&str> = info.options.iter().map(|option| option.name).collect();
    let advice = if known.is_empty() {
        format!("tool `{}` has no options", info.name)
    } else {
        format!("options of this tool: {}", known.join(", "))
    };
    Err(Error::usage(format!("tool `{}` has no option `{unknown}`", info.name)).hint(advice))
}
