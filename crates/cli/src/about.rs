//! Descriptions of traces, as documents and as JSON.

use quipu::model::doc::{Block, Cell, Document};
use quipu::model::number::counted;
use quipu::model::pass::Detail;
use quipu::model::result;
use quipu::model::trace::{Carries, Clock, Fact, Function};
use quipu::model::{Shard, ShardKind, Trace};
use serde::Serialize;
use serde_json::{Map, Value};

/// Describes a trace: its format, size, contents, and what it lacks. With full detail, includes facts specific to its
/// format.
pub(crate) fn document(name: &str, trace: &dyn Trace, detail: Detail) -> Document {
    document_with(name, trace, detail, &[])
}

/// The same with additional facts.
pub(crate) fn document_with(name: &str, trace: &dyn Trace, detail: Detail, more: &[Fact]) -> Document {
    let meta = trace.meta();
    let mut facts: Vec<(String, Vec<Cell>)> = Vec::new();
    let mut fact = |label: &str, cells: Vec<Cell>| facts.push((label.to_owned(), cells));
    let version = meta.version.as_ref().map(|version| format!(" version {version}")).unwrap_or_default();
    fact("format", vec![Cell::Text(format!("{}{version}: {}", meta.format, meta.title))]);
    fact("architecture", vec![Cell::Text(meta.arch.map_or("not said".to_owned(), |arch| arch.to_string()))]);
    fact("parts", vec![Cell::Text(parts(trace))]);
    fact("size", vec![Cell::Text(size(trace))]);
    if let Some(geometry) = geometry(trace) {
        fact("memory", vec![Cell::Text(geometry)]);
    }
    if let Some(date) = recorded(trace) {
        fact("recorded", vec![Cell::Text(date)]);
    }
    for known in meta.facts.iter().filter(|_| detail == Detail::Full).chain(more) {
        let text = words(known);
        if !text.is_empty() {
            fact(&known.label, vec![Cell::Text(text)]);
        }
    }
    let carried: Vec<String> =
        meta.carries.iter().filter(|item| item.has).map(|item| noted("✓", item)).collect();
    let lacking: Vec<String> =
        meta.carries.iter().filter(|item| !item.has).map(|item| noted("✗", item)).collect();
    let mut document = Document::new(name).with(Block::Facts(facts));
    for line in [carried, lacking] {
        if !line.is_empty() {
            document.blocks.push(Block::Note(line.join("  ")));
        }
    }
    document
}

fn noted(sign: &str, item: &quipu::model::trace::Carries) -> String {
    // Non-breaking spaces keep the sign and the words on one line.
    let words = item.what.replace(' ', "\u{a0}");
    if item.note.is_empty() {
        format!("{sign}\u{a0}{words}")
    } else {
        format!("{sign}\u{a0}{words}\u{a0}({})", item.note.replace(' ', "\u{a0}"))
    }
}

/// The parts of a trace: number of threads, cores or streams, and of files.
fn parts(trace: &dyn Trace) -> String {
    let of_kind = |kind| trace.shards().iter().filter(|shard| shard.kind == kind).count() as u64;
    let kinds = [
        (ShardKind::Thread, "thread", ""),
        (ShardKind::Core, "core", ""),
        (ShardKind::Mixed, "stream", " of mixed threads"),
    ];
    let mut parts: Vec<String> = kinds
        .into_iter()
        .map(|(kind, what, which)| (of_kind(kind), what, which))
        .filter(|(n, ..)| *n > 0)
        .map(|(n, what, which)| format!("{}{which}", counted(n, what)))
        .collect();
    parts.push(format!("in {}", counted(trace.meta().n_files, "file")));
    parts.join(" ")
}

fn size(trace: &dyn Trace) -> String {
    let meta = trace.meta();
    let bytes = |bytes: Option<u64>| bytes.map(quipu_view::bytes_text);
    // A trace carried by a stream may be compressed again in it; the inflated size is then that of its own container.
    let (packed, inflated) = match meta.disk_bytes {
        Some(on_disk) if Some(on_disk) != meta.packed_bytes => {
            (Some(on_disk), meta.inflated_bytes.or(meta.packed_bytes))
        }
        _ => (meta.packed_bytes, meta.inflated_bytes),
    };
    match (bytes(packed), bytes(inflated)) {
        (Some(packed), Some(inflated)) => format!("{packed} on disk, {inflated} inflated"),
        (Some(packed), None) => format!("{packed} on disk"),
        (None, Some(inflated)) => format!("{inflated} inflated"),
        (None, None) => "unknown".to_owned(),
    }
}

fn geometry(trace: &dyn Trace) -> Option<String> {
    let meta = trace.meta();
    let line = meta.line_bytes.map(|bytes| format!("lines of {}", quipu_view::bytes_text(bytes)));
    let page = meta.page_bytes.map(|bytes| format!("pages of {}", quipu_view::bytes_text(bytes)));
    let known: Vec<String> = [line, page].into_iter().flatten().collect();
    (!known.is_empty()).then(|| known.join(", "))
}

/// Time of recording: the fact `first_timestamp`, a reading of the trace's clock, if the clock gives the time of day.
fn recorded(trace: &dyn Trace) -> Option<String> {
    let clock = trace.meta().clock?;
    let first = trace.meta().facts.iter().find(|fact| fact.key == "first_timestamp")?.value.as_u64()?;
    let ticks = first.checked_sub(clock.unix_epoch?)?;
    Some(quipu_view::date_text(ticks / clock.per_second.max(1)))
}

/// A fact as short text.
pub(crate) fn words(fact: &Fact) -> String {
    let least = if fact.is_least { "at least " } else { "" };
    format!("{least}{}", plain(&fact.value))
}

/// A value as short text.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.as_u64().map_or(number.to_string(), quipu_view::grouped),
        Value::Bool(truth) => if *truth { "yes" } else { "no" }.to_owned(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(items) => {
            items.iter().map(|(key, item)| format!("{key} {}", plain(item))).collect::<Vec<_>>().join(", ")
        }
    }
}

/// The description of a trace as JSON. Unknown values are `null`.
#[derive(Serialize)]
struct Header<'a> {
    trace: &'a str,
    format: &'a str,
    title: &'a str,
    version: Option<&'a str>,
    arch: Option<&'static str>,
    clock: Option<Clock>,
    line_bytes: Option<u64>,
    page_bytes: Option<u64>,
    files: u64,
    packed_bytes: Option<u64>,
    inflated_bytes: Option<u64>,
    carries: &'a [Carries],
    columns: Vec<&'static str>,
    tables: Vec<&'a str>,
    /// Facts specific to the format.
    facts: Map<String, Value>,
    functions: &'a [Function],
    shards: Vec<Part<'a>>,
}

/// A shard as JSON.
#[derive(Serialize)]
struct Part<'a> {
    name: &'a str,
    kind: ShardKind,
    thread: Option<u64>,
    process: Option<u64>,
    pieces: u32,
    packed_bytes: Option<u64>,
    /// Number of an additional trace that is read together with the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    workload: Option<u16>,
}

impl<'a> Part<'a> {
    fn of(shard: &'a Shard) -> Part<'a> {
        Part {
            name: &shard.name,
            kind: shard.kind,
            thread: shard.thread.map(|thread| thread.tid),
            process: shard.process,
            pieces: shard.pieces,
            packed_bytes: shard.packed_bytes,
            workload: shard.thread.map(|thread| thread.workload).filter(|workload| *workload > 0),
        }
    }
}

/// The description of a trace as JSON, as `info --quick --json` prints it, without findings of reading.
pub fn json(name: &str, trace: &dyn Trace) -> Value {
    json_with(name, trace, &[])
}

/// The same with additional facts.
pub(crate) fn json_with(name: &str, trace: &dyn Trace, more: &[Fact]) -> Value {
    let (meta, tables) = (trace.meta(), trace.tables().unwrap_or_default());
    result::json(&Header {
        trace: name,
        format: &meta.format,
        title: &meta.title,
        version: meta.version.as_deref(),
        arch: meta.arch.map(|arch| arch.name()),
        clock: meta.clock,
        line_bytes: meta.line_bytes,
        page_bytes: meta.page_bytes,
        files: meta.n_files,
        packed_bytes: meta.disk_bytes.or(meta.packed_bytes),
        inflated_bytes: meta.inflated_bytes,
        carries: &meta.carries,
        columns: trace.columns().names().collect(),
        tables: tables.iter().map(|table| &*table.name).collect(),
        facts: meta.facts.iter().chain(more).map(|fact| (fact.key.to_string(), fact.json())).collect(),
        functions: &meta.functions,
        shards: trace.shards().iter().map(Part::of).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_count_that_stopped_is_said_to_be_the_least() {
        let lines = Fact::counted_up_to("lines", "lines", 16_777_216, 16_777_216);
        assert_eq!(
            (words(&lines), lines.json()),
            ("at least 16,777,216".to_owned(), json!({ "at_least": 16_777_216 }))
        );
        let lines = Fact::counted_up_to("lines", "lines", 7, 8);
        assert_eq!((words(&lines), lines.json()), ("7".to_owned(), json!(7)));
        let kinds = |kinds| Fact::new("by_kind", "kinds", kinds);
        assert_eq!(words(&kinds(json!({ "read": 1, "write": 2 }))), "read 1, write 2");
        // A trace may have a type with this name.
        assert_eq!(words(&kinds(json!({ "at_least": 3 }))), "at_least 3");
    }
}
