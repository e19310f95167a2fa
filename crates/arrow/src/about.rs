//! A trace's description as one JSON object in the metadata of files.

use quipu_isa::Arch;
use quipu_model::trace::{Carries, Clock, Function, Recorded, ShardKind};
use quipu_model::values::Type;
use quipu_model::{Columns, Error, ErrorKind, Meta, Result, Scan, Shard, ShardId, ThreadId, Trace};
use rustc_hash::FxHashSet;
use serde_json::{Value, json};

/// Kinds of marks from this number on are written without their names.
const MAX_NAMED_MARKS: u32 = 4096;

/// Maximum number of shards that are written.
const MAX_SHARDS: usize = 1 << 20;

/// Description of a trace whose rows are stored in files.
#[derive(Debug, Default)]
pub struct About {
    /// The trace's own metadata, except that the format is that of the files.
    pub meta: Meta,
    /// Name of the format that the trace was converted from.
    pub origin: String,
    /// Shards of the trace.
    pub shards: Vec<Shard>,
    /// Lens columns that the trace could fill.
    pub columns: Columns,
    /// Numbers and names of kinds of marks.
    pub marks: Vec<(u32, String)>,
    /// Ids and names of the functions that the trace's records define.
    pub defined: Vec<(u64, String)>,
}

/// Maximum number of functions that are written.
const MAX_DEFINED: usize = 1 << 20;

/// Returns the functions that records of a trace define, in the order of their definitions, without those that the trace's
/// header names. This reads all calls.
///
/// # Errors
/// `Io` if the caller cancels. Damage is not reported again: the read of the calls has reported it.
pub fn defined(trace: &dyn Trace, is_cancelled: &dyn Fn() -> bool) -> Result<Vec<(u64, String)>> {
    let (mut functions, mut known) = (Vec::new(), FxHashSet::default());
    if !trace.columns().has(Columns::CALLS) {
        return Ok(functions);
    }
    for shard in trace.shards() {
        let Ok(mut reader) = trace.scan(&Scan::new(shard.id).columns(Columns::CALLS)) else { continue };
        let mut n_types = 0;
        while let Ok(Some(batch)) = reader.read() {
            if is_cancelled() {
                return Err(Error::new(ErrorKind::Io, "interrupted"));
            }
            let types = batch.types.as_slice();
            for ty in types.get(n_types..).unwrap_or(&[]) {
                if let Type::Function(function) = &**ty
                    && functions.len() < MAX_DEFINED
                    && known.insert(function.id)
                {
                    functions.push((function.id, String::from_utf8_lossy(&function.name).into_owned()));
                }
            }
            n_types = types.len();
        }
    }
    Ok(functions)
}

/// Describes a trace; `defined` has the functions that its records define.
pub fn about(trace: &dyn Trace, defined: &[(u64, String)]) -> Value {
    let meta = trace.meta();
    let recorded = |recorded: Recorded| recorded.name();
    let clock = meta.clock.map(|clock| {
        json!({
            "per_second": clock.per_second,
            "unix_epoch": clock.unix_epoch,
            "frames_calls": clock.frames_calls,
        })
    });
    let shard = |shard: &Shard| {
        json!({
            "name": shard.name,
            "kind": shard.kind.name(),
            "workload": shard.thread.map(|thread| thread.workload),
            "thread": shard.thread.map(|thread| thread.tid),
            "process": shard.process,
            "core": shard.core,
        })
    };
    let function = |function: &Function| {
        json!({
            "id": function.id,
            "names": function.names,
            "args": function.n_args,
            "noret": function.noret,
            "workload": function.workload,
        })
    };
    let is_unnamed =
        |kind: u32, name: &str| name.strip_prefix("mark ").is_some_and(|n| n == kind.to_string());
    let marks = (0..MAX_NAMED_MARKS).map(|kind| (kind, trace.mark_name(kind).into_owned()));
    let marks = marks.filter(|(kind, name)| !is_unnamed(*kind, name)).map(|(kind, name)| json!([kind, name]));
    json!({
        "format": meta.format,
        "title": meta.title,
        "version": meta.version,
        "arch": meta.arch.map(Arch::name),
        "clock": clock,
        "line_bytes": meta.line_bytes,
        "page_bytes": meta.page_bytes,
        "instrs": recorded(meta.instrs),
        "data": recorded(meta.data),
        "columns": trace.columns().names().collect::<Vec<_>>(),
        "carries": meta.carries,
        "functions": meta.functions.iter().map(function).collect::<Vec<_>>(),
        "defined": defined.iter().map(|(id, name)| json!([id, name])).collect::<Vec<_>>(),
        "marks": marks.collect::<Vec<_>>(),
        "shards": trace.shards().iter().map(shard).collect::<Vec<_>>(),
    })
}

/// Parses the output of [`about`]. A key that is missing leaves its value unknown.
pub fn parse(value: &Value) -> About {
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    let recorded = |key: &str| {
        let all = [Recorded::All, Recorded::Filtered, Recorded::Nothing];
        all.into_iter().find(|recorded| value[key] == recorded.name()).unwrap_or_default()
    };
    let clock = value["clock"].as_object().and_then(|clock| {
        Some(Clock {
            per_second: clock.get("per_second")?.as_u64()?,
            unix_epoch: clock.get("unix_epoch").and_then(Value::as_u64),
            frames_calls: clock.get("frames_calls").and_then(Value::as_bool).unwrap_or(false),
        })
    });
    let list = |key: &str| value[key].as_array().map_or(&[][..], Vec::as_slice);
    let carries = list("carries").iter().filter_map(|one| {
        let text = |key: &str| one[key].as_str().map(str::to_owned);
        Some(Carries::new(text("what")?, one["has"].as_bool()?, text("note").unwrap_or_default()))
    });
    let functions = list("functions").iter().filter_map(|one| {
        Some(Function {
            id: one["id"].as_u64()?,
            names: strings(&one["names"]),
            n_args: one["args"].as_u64().unwrap_or(0),
            noret: one["noret"].as_bool().unwrap_or(false),
            workload: small(&one["workload"]),
        })
    });
    let shards = list("shards").iter().take(MAX_SHARDS).zip(0..).map(|(one, id)| Shard {
        id: ShardId(id),
        name: one["name"].as_str().unwrap_or_default().to_owned(),
        kind: [ShardKind::Thread, ShardKind::Core, ShardKind::Mixed]
            .into_iter()
            .find(|kind| one["kind"] == kind.name())
            .unwrap_or(ShardKind::Mixed),
        thread: one["thread"].as_u64().map(|tid| ThreadId { workload: small(&one["workload"]), tid }),
        process: one["process"].as_u64(),
        core: one["core"].as_u64(),
        pieces: 1,
        ..Shard::default()
    });
    let columns = strings(&value["columns"]);
    let columns = columns.iter().filter_map(|name| Columns::named(name)).fold(Columns::NONE, Columns::or);
    let marks = list("marks")
        .iter()
        .filter_map(|one| Some((u32::try_from(one[0].as_u64()?).ok()?, one[1].as_str()?.to_owned())));
    let defined = list("defined").iter().take(MAX_DEFINED);
    let defined = defined.filter_map(|one| Some((one[0].as_u64()?, one[1].as_str()?.to_owned())));
    About {
        defined: defined.collect(),
        meta: Meta {
            title: text("title").unwrap_or_default(),
            version: text("version"),
            arch: text("arch").and_then(|arch| arch.parse().ok()),
            clock,
            line_bytes: value["line_bytes"].as_u64(),
            page_bytes: value["page_bytes"].as_u64(),
            functions: functions.collect(),
            carries: carries.collect(),
            instrs: recorded("instrs"),
            data: recorded("data"),
            ..Meta::default()
        },
        origin: text("format").unwrap_or_default(),
        shards: shards.collect(),
        columns,
        marks: marks.collect(),
    }
}

fn small(value: &Value) -> u16 {
    value.as_u64().and_then(|number| u16::try_from(number).ok()).unwrap_or(0)
}

fn strings(value: &Value) -> Vec<String> {
    let texts = value.as_array().into_iter().flatten();
    texts.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}
