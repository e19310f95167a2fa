//! What a tool leaves of a trace, without the engine.

use quipu_model::trace::settled;
use quipu_model::{DynPass, Given, Report, Result, Scan, ShardId, Tool, Trace};
use std::collections::BTreeMap;

/// The report of a tool over all of a trace, shard by shard, as what it is.
///
/// # Panics
/// If reading or the tool fails, or the report is of another type.
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

/// Records of a batch for [`broken_rules`]: few, so that what stands in one batch often does not.
const FEW_RECORDS: u32 = 3;

/// The rules that a trace breaks, as a tool `check` says: how often, and the offset of the first violation that has one.
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

/// What a tool says, without what proves damaged, as every verb does.
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
    // As the engine does it: what is built is only forked, and what it holds itself is lost.
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
