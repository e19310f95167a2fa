//! Describes metadata record by record: producers, clocks, streams, schemas, types, probes and other properties of a stream.

use crate::trace::StreamTrace;
use quipu_model::trace::Carried;
use quipu_model::{Result, result};
use quipu_source::Source;
use quipu_stream::frame::encoding;
use quipu_stream::json::of_cbor;
use quipu_stream::wire::cbor::Value as Cbor;
use serde_json::{Map, Value, json};

/// Kinds of metadata records: number, name, and the names of their keys from 1 on.
const KINDS: &[(u64, &str, &[&str])] = &[
    (
        1,
        "producer",
        &[
            "",
            "program",
            "uuid",
            "host",
            "os",
            "arch",
            "byte_order",
            "address_bits",
            "page_bytes",
            "boot",
            "pid",
            "argv",
            "start_ns",
            "zone_s",
            "zone",
            "labels",
        ],
    ),
    (2, "clock", &["id", "name", "ticks_per_s", "unix_ns", "uncertainty_ns", "flags", "source"]),
    (3, "stream", &["number", "name", "clock", "cpu", "pid", "tid", "format", "policy", "original"]),
    (4, "type", &["id", "name", "kind", "of", "parts"]),
    (5, "schema", &["id", "name", "fields", "fixed_bytes", "probe", "format", "category", "native", "flags"]),
    (6, "format", &["id", "text", "dialect"]),
    (7, "probe", &["id", "provider", "module", "function", "name"]),
    (8, "aggregation", &["id", "name", "keys", "value_offset", "function", "parameters", "mode", "enabling"]),
    (9, "table", &["id", "name", "first", "values"]),
    (10, "module", &["id", "path", "start", "size", "file_offset", "build", "pid", "from", "until"]),
    (11, "symbols", &["", "", "object", "symbols", "pid"]),
    (12, "setting", &["", "name", "value"]),
    (13, "encoding", &["id", "name", "version", "based_on", "parameters", "described"]),
    (14, "note", &["", "text", "severity"]),
    (15, "enabling", &["id", "probe", "uarg", "size", "actions"]),
    (16, "kernel-aggregation", &["id", "enabling", "variable", "size", "records", "name"]),
];

/// Keys of a field.
const FIELD: &[&str] = &["name", "type", "offset", "role", "unit", "flags", "native"];

/// Names of the kinds of types, from 1 on.
const TYPES: &[&str] = &[
    "uint",
    "sint",
    "float",
    "bool",
    "char",
    "string",
    "bytes",
    "enum",
    "flags",
    "struct",
    "array",
    "vector",
    "optional",
    "variant",
    "pointer",
    "address",
    "stack",
    "timestamp",
    "reference",
    "bit fields",
    "opaque",
    "alias",
];

/// Names of roles, from 1 on.
const ROLES: &[&str] = &[
    "timestamp",
    "cpu",
    "pid",
    "tid",
    "pc",
    "address",
    "access size",
    "access kind",
    "call",
    "returned",
    "argument",
    "function",
    "duration",
    "system call",
    "bytes transferred",
    "count",
    "severity",
    "probe",
];

/// Returns the name of an encoding of data.
pub fn encoding_name(number: u16) -> &'static str {
    match number {
        encoding::PLAIN => "plain rows",
        encoding::PACKED => "packed rows",
        encoding::ARROW => "Arrow",
        encoding::RUNS => "packed rows with repetitions",
        encoding::DTRACE => "DTrace buffers",
        encoding::DTRACE_LINUX => "DTrace samples",
        encoding::DRMEMTRACE => "drmemtrace",
        encoding::CACHERAY => "Cacheray",
        encoding::PRISM => "Prism, fixed form",
        encoding::APITRACE => "apitrace",
        encoding::PRISM_VARIABLE => "Prism, variable form",
        encoding::EXECUTIONS => "executions",
        encoding::LINES => "lines of text",
        encoding::RAW_WORDS => "raw words of drmemtrace",
        encoding::CELLS => "cells",
        encoding::JSON => "JSON lines",
        encoding::AGGREGATIONS => "aggregations",
        encoding::DTRACE_AGGREGATIONS => "DTrace aggregations",
        _ => "unknown",
    }
}

fn name_of(names: &[&str], number: u64, first: u64) -> Value {
    let at = number.checked_sub(first).and_then(|at| usize::try_from(at).ok());
    at.and_then(|at| names.get(at)).map_or_else(|| number.into(), |name| (*name).into())
}

fn value_of(value: &Cbor) -> Value {
    serde_json::from_str(&of_cbor(value).to_string()).unwrap_or(Value::Null)
}

/// Converts a map with numeric keys to one with names, which start at the key `first`.
fn named(
    map: &Cbor,
    names: &[&str],
    first: u64,
    convert: &dyn Fn(&str, &Cbor) -> Value,
) -> Map<String, Value> {
    let Cbor::Map(pairs) = map else { return Map::new() };
    let mut all = Map::new();
    for (key, value) in pairs {
        let number = key.as_u64();
        if number == Some(0) && first > 0 {
            continue;
        }
        let name = number
            .and_then(|number| names.get(usize::try_from(number.checked_sub(first)?).ok()?))
            .filter(|name| !name.is_empty());
        match name {
            Some(name) => all.insert((*name).to_owned(), convert(name, value)),
            None => all.insert(of_cbor(key).to_string(), value_of(value)),
        };
    }
    all
}

fn field(value: &Cbor) -> Value {
    let convert = |name: &str, value: &Cbor| match (name, value.as_u64()) {
        ("role", Some(role)) => name_of(ROLES, role, 1),
        _ => value_of(value),
    };
    Value::Object(named(value, FIELD, 0, &convert))
}

/// A metadata record with names for its keys; `None` if it is not a map.
fn record(value: &Cbor) -> Option<(String, Map<String, Value>)> {
    let kind = value.get(0)?.as_u64()?;
    let known = KINDS.iter().find(|(number, ..)| *number == kind);
    let (name, keys) =
        known.map_or((format!("kind {kind}"), &[][..]), |(_, name, keys)| ((*name).to_owned(), keys));
    let convert = |key: &str, value: &Cbor| match (key, value.as_array(), value.as_u64()) {
        ("fields" | "keys", Some(fields), _) => fields.iter().map(field).collect(),
        ("kind", _, Some(number)) => name_of(TYPES, number, 1),
        _ => value_of(value),
    };
    Some((name, named(value, keys, 1, &convert)))
}

/// Describes all metadata of a stream, for programs: `epochs`, a list with `producer`, `epoch` and `records`, each with its
/// `ordinal`, its kind as `record`, whether it `is_used`, and its fields; `clocks`, `losses`, `attachments`, `remarks`
/// between records, with their `producer`, `stream`, `time`, `text` and the number of records before them, `unread_frames`,
/// which may contain more remarks, and `unwritten_bytes`.
///
/// # Errors
/// If the source cannot be read.
pub fn json(trace: &StreamTrace) -> Result<Value> {
    let epochs = trace.epochs().iter().map(|((producer, epoch), metadata)| {
        let records = metadata.entries().map(|(ordinal, entry)| {
            let mut all = Map::new();
            all.insert("ordinal".to_owned(), result::json(&ordinal));
            let read = quipu_stream::wire::cbor::decode(&entry.bytes).ok();
            match read.as_ref().and_then(|item| record(&item.value)) {
                Some((kind, rest)) => {
                    all.insert("record".to_owned(), result::json(&kind));
                    all.insert("is_used".to_owned(), entry.record.is_some().into());
                    all.extend(rest);
                }
                None => drop(all.insert("record".to_owned(), Value::Null)),
            }
            Value::Object(all)
        });
        json!({ "producer": format!("{producer:016x}"), "epoch": epoch, "records": records.collect::<Vec<_>>() })
    });
    let session = trace.session();
    let clocks = session.clocks().into_iter().map(|clock| {
        json!({
            "producer": format!("{:016x}", clock.from.0),
            "clock": clock.clock,
            "ticks": clock.ticks,
            "unix_ns": clock.unix_ns.to_string(),
            "uncertainty_ns": clock.uncertainty_ns,
        })
    });
    let losses = session.losses().into_iter().map(|(stream, loss)| {
        json!({
            "cause": quipu_stream::loss::cause_name(loss.cause).map_or_else(|| loss.cause.into(), Value::from),
            "stream": loss.stream.unwrap_or(stream),
            "records": loss.records,
            "bytes": loss.bytes,
            "text": loss.text,
        })
    });
    let attachments = session.attachments().iter().map(|attachment| {
        json!({
            "name": attachment.name,
            "media": attachment.media,
            "bytes": attachment.len_bytes,
            "is_complete": attachment.is_complete(),
        })
    });
    let remarks = trace.remarks()?;
    let all_remarks = remarks.all.iter().map(|remark| {
        json!({
            "producer": format!("{:016x}", remark.producer),
            "stream": remark.stream,
            "records_before": remark.record,
            "time": remark.time,
            "text": remark.text,
        })
    });
    Ok(json!({
        "epochs": epochs.collect::<Vec<_>>(),
        "clocks": clocks.collect::<Vec<_>>(),
        "losses": losses.collect::<Vec<_>>(),
        "attachments": attachments.collect::<Vec<_>>(),
        "remarks": all_remarks.collect::<Vec<_>>(),
        "unread_frames": remarks.n_unread_frames,
        "unwritten_bytes": trace.unwritten_bytes(),
    }))
}

/// Describes the traces that a stream carries: `carries`, a list with the `format` (`null` if only the files show it) and the
/// `files` of each trace, each with its `name` and `bytes`.
///
/// # Errors
/// If the source cannot be read.
pub fn carried_json(carried: &[Carried]) -> Result<Value> {
    let one = |carried: &Carried| -> Result<Value> {
        let mut files = Vec::new();
        list_files(&carried.source, "", &mut files)?;
        Ok(json!({ "format": carried.format, "files": files }))
    };
    carried.iter().map(one).collect::<Result<Vec<_>>>().map(Value::Array)
}

fn list_files(source: &Source, prefix: &str, files: &mut Vec<Value>) -> Result<()> {
    let base = source.name().rsplit('/').next().unwrap_or_default();
    if !source.is_folder() {
        files.push(json!({ "name": format!("{prefix}{base}"), "bytes": source.size_bytes() }));
        return Ok(());
    }
    for file in source.files()? {
        let base = file.name().rsplit('/').next().unwrap_or_default();
        let inner = if file.is_folder() { format!("{prefix}{base}/") } else { prefix.to_owned() };
        list_files(&file, &inner, files)?;
    }
    Ok(())
}

/// Formats [`carried_json()`]'s result for people: a line for each trace and for each of its files.
pub fn carried_lines(carried: &Value) -> String {
    let mut out = String::new();
    for trace in carried.as_array().into_iter().flatten() {
        let format = trace["format"].as_str().unwrap_or("whose format its files tell");
        out.push_str(&format!("carries a trace: {format}\n"));
        for file in trace["files"].as_array().into_iter().flatten() {
            out.push_str(&format!("  {}  {} bytes\n", plain(&file["name"]), file["bytes"]));
        }
    }
    out
}

/// Formats `all`, the result of [`json()`], for people: a line for each record.
pub fn lines(all: &Value) -> String {
    let mut out = String::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for epoch in list(&all["epochs"]) {
        out.push_str(&format!("producer {}, epoch {}\n", plain(&epoch["producer"]), epoch["epoch"]));
        for record in list(&epoch["records"]) {
            let Value::Object(record) = record else { continue };
            let kind = record.get("record").map_or_else(String::new, plain);
            out.push_str(&format!("{:>6}  {kind:<12}", plain(&record["ordinal"])));
            if record.get("is_used") == Some(&Value::Bool(false)) {
                out.push_str("  (not used)");
            }
            let mut fields = Vec::new();
            for (key, value) in
                record.iter().filter(|(key, _)| !matches!(&***key, "ordinal" | "record" | "is_used"))
            {
                match value.as_array().filter(|_| matches!(&**key, "fields" | "keys")) {
                    Some(items) => fields = items.clone(),
                    None => out.push_str(&format!("  {key}={}", plain(value))),
                }
            }
            out.push('\n');
            for field in fields {
                let Value::Object(field) = field else { continue };
                let name = field.get("name").map_or_else(String::new, plain);
                out.push_str(&format!("                      {name}"));
                for (key, value) in field.iter().filter(|(key, _)| *key != "name") {
                    out.push_str(&format!("  {key}={}", plain(value)));
                }
                out.push('\n');
            }
        }
    }
    for (title, key) in
        [("clock", "clocks"), ("loss", "losses"), ("attachment", "attachments"), ("remark", "remarks")]
    {
        for item in list(&all[key]) {
            let Value::Object(item) = item else { continue };
            out.push_str(title);
            for (key, value) in item.iter().filter(|(_, value)| !value.is_null()) {
                out.push_str(&format!("  {key}={}", plain(value)));
            }
            out.push('\n');
        }
    }
    if all["unread_frames"] != 0 {
        let n = &all["unread_frames"];
        out.push_str(&format!(
            "{n} more frames may have remarks between their records: quipu view shows them\n"
        ));
    }
    out
}

/// A value on one line. Texts have quotes only if they are empty or contain quotes or control characters.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() && text.chars().all(|c| !c.is_control() && c != '"') => {
            text.clone()
        }
        other => other.to_string(),
    }
}
