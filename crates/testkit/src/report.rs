//! Reports of tools on traces, without the engine.

use quipu_model::trace::settled;
use quipu_model::{DynPass, Given, Report, Result, Scan, ShardId, Tool, Trace};
use std::collections::BTreeMap;

/// The report of a tool on a whole trace, shard by shard, as its concrete type.
///
/// # Panics
/// If reading or the tool fails, or the report has another type.
pub fn report_of<R: Clone + 'static>(tool: &dyn Tool, given: &Given, trace: &dyn Trace) -> R {
    let name = tool.info().name;
    let report = match run(tool, given, trace, Scan::new(ShardId(0)).batch_records) {
        Ok(report) => report,
        Err(error) => panic!("tool `{name}` fails: {error}"),
    };
    match report.as_any().downcast_ref::<R>() {
        Some(report) => report.clone(),
        None => panic!("tool `{name}` leaves another report"),
    }
}

/// Records in a batch for [`broken_rules`]: few, so that related records are often in different batches.
const FEW_RECORDS: u32 = 3;

/// The rules that a trace breaks according to a tool `check`: the number of violations, and the smallest known offset of one.
///
/// # Panics
/// If reading or the tool fails, or its JSON has no `rules`.
pub fn broken_rules(tool: &dyn Tool, trace: &dyn Trace) -> BTreeMap<String, (u64, Option<u64>)> {
    let report = match run(tool, &Given::default(), trace, FEW_RECORDS) {
        Ok(report) => report,
        Err(error) => panic!("checking fails: {error}"),
    };
    let (json, findings) = (report.json(), report.findings());
    let Some(rules) = json["rules"].as_array() else { panic!("a check without rules: {json}") };
    let of = |rule: &serde_json::Value| {
        let name = rule["rule"].as_str().unwrap_or_default();
        let offsets = findings.iter().filter(|finding| finding.rule == name);
        let first = offsets.filter_map(|finding| finding.place.offset).min();
        (name.to_owned(), (rule["count"].as_u64().unwrap_or(0), first))
    };
    rules.iter().map(of).collect()
}

/// Runs a tool on a trace; reads again if delivered data proved damaged, as every verb does.
fn run(tool: &dyn Tool, given: &Given, trace: &dyn Trace, batch_records: u32) -> Result<Box<dyn Report>> {
    settled(trace, || false, || run_once(tool, given, trace, batch_records))
}

fn run_once(
    tool: &dyn Tool,
    given: &Given,
    trace: &dyn Trace,
    batch_records: u32,
) -> Result<Box<dyn Report>> {
    let needs = &tool.info().needs;
    // As in the engine, the pass that `build` returns is only forked, and its own state is dropped.
    let seed = tool.build(&tool.info().parse(given)?, trace)?;
    let mut all: Option<Box<dyn DynPass>> = None;
    for shard in trace.shards() {
        let mut pass = seed.fork(shard);
        let scan = Scan::new(shard.id).columns(needs.required | needs.optional);
        let mut reader = trace.scan(&Scan { batch_records, ..scan })?;
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
