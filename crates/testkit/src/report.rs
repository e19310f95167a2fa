//! What a tool leaves of a trace, without the engine.

use quipu_model::{Args, DynPass, Report, Result, Scan, Tool, Trace};

/// The report of a tool over all of a trace, shard by shard, as what it is.
///
/// # Panics
/// If reading or the tool fails, or the report is of another type.
pub fn report_of<R: Clone + 'static>(tool: &dyn Tool, args: &Args, trace: &dyn Trace) -> R {
    let name = tool.info().name;
    let report = match run(tool, args, trace) {
        Ok(report) => report,
        Err(error) => panic!("tool `{name}` fails: {error}"),
    };
    match report.as_any().downcast_ref::<R>() {
        Some(report) => report.clone(),
        None => panic!("tool `{name}` leaves another report"),
    }
}

fn run(tool: &dyn Tool, args: &Args, trace: &dyn Trace) -> Result<Box<dyn Report>> {
    let needs = &tool.info().needs;
    // As the engine does it: what is built is only forked, and what it holds itself is lost.
    let seed = tool.build(args, trace)?;
    let mut all: Option<Box<dyn DynPass>> = None;
    for shard in trace.shards() {
        let mut pass = seed.fork(shard);
        let mut reader = trace.scan(&Scan::new(shard.id).columns(needs.required | needs.optional))?;
        while let Some(batch) = reader.read()? {
            pass.consume(batch)?;
        }
        match &mut all {
            Some(all) => all.merge(pass)?,
            None => all = Some(pass),
        }
    }
    all.unwrap_or(seed).finish()
}
