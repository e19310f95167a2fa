//! `filter`: a trace without some of its records.

use super::{CHUNK_INSTRS, Work};
use crate::edits::filter::KernelCode;
use crate::edits::{Filter, FilterSpec};
use crate::record::{Marker, Type};
use crate::table;
use crate::trace::DrmemTrace;
use quipu_model::options::Kind;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed};
use quipu_model::{Error, OptionSpec, Options, Result, ShardKind, Trace, number};
use std::sync::Arc;

const LEFT_OUT: &str = "Removal";
const CHANGED: &str = "Changes";

const DROP: OptionSpec = OptionSpec::new(
    "drop",
    Kind::Text,
    "",
    "remove records of these kinds, such as read, prefetch, data, flush",
)
.value("KIND")
.listed()
.group(LEFT_OUT);
const DROP_MARKER: OptionSpec =
    OptionSpec::new("drop-marker", Kind::Text, "", "remove markers of these kinds, by name or number")
        .value("MARKER")
        .listed()
        .group(LEFT_OUT);
const KEEP_MARKER: OptionSpec = OptionSpec::new(
    "keep-marker",
    Kind::Text,
    "",
    "keep only markers of these kinds, and those that a trace, or the flow of its instructions, requires",
)
.value("MARKER")
.listed()
.group(LEFT_OUT);
const ADDR: OptionSpec =
    OptionSpec::new("addr", Kind::Range, "", "keep only accesses that touch one of these addresses")
        .listed()
        .group(LEFT_OUT);
const FUNCTION: OptionSpec =
    OptionSpec::new("function", Kind::Count, "", "keep only the markers of these functions")
        .value("ID")
        .listed()
        .group(LEFT_OUT);
const CACHE: OptionSpec = OptionSpec::new(
    "cache",
    Kind::Bytes,
    "none",
    "remove accesses that hit a direct-mapped cache of this many bytes",
)
.group(LEFT_OUT);
const ICACHE: OptionSpec = OptionSpec::new(
    "icache",
    Kind::Bytes,
    "none",
    "remove instructions that hit a direct-mapped cache of this many bytes; markers count all of them",
)
.group(LEFT_OUT);
const INSTR_ONLY: OptionSpec = OptionSpec::flag("instr-only", "remove all data").group(LEFT_OUT);
const DROP_KERNEL: OptionSpec = OptionSpec::new(
    "drop-kernel",
    Kind::Choice(&["all", "all-but-syscalls"]),
    "none",
    "remove kernel code: all of it, or all except that of system calls",
)
.value("WHICH")
.bare("all")
.group(LEFT_OUT);
const NO_ENCODINGS: OptionSpec = OptionSpec::flag("no-encodings", "remove the bytes of instructions")
    .group(LEFT_OUT)
    .excludes(&["regdeps", "until"]);
const UNTIL: OptionSpec = OptionSpec::new(
    "until",
    Kind::Count,
    "",
    "stop filtering at this timestamp, or at the end of the file; keep everything later",
)
.value("CLOCK")
.group(LEFT_OUT);
const REGDEPS: OptionSpec = OptionSpec::flag(
    "regdeps",
    "replace the bytes of instructions by their dependencies, and remove what published traces of this kind lack: \
     processors, kernel code, and markers of system calls, signals and functions except futex; for x86 and AArch64",
)
.group(CHANGED)
.excludes(&["until"]);
const RENAME_THREAD: OptionSpec = OptionSpec::new("rename-thread", Kind::Text, "", "give threads other ids")
    .value("OLD=NEW")
    .listed()
    .group(CHANGED);
const SET_MARKER: OptionSpec =
    OptionSpec::new("set-marker", Kind::Text, "", "give all markers of a kind this value")
        .value("MARKER=VALUE")
        .listed()
        .group(CHANGED);

/// A trace without some of its records.
#[derive(Debug)]
pub struct FilterTransform;

static INFO: TransformInfo = TransformInfo {
    name: "filter",
    title: "a trace without some of its records",
    options: &[
        DROP,
        DROP_MARKER,
        KEEP_MARKER,
        ADDR,
        FUNCTION,
        CACHE,
        ICACHE,
        INSTR_ONLY,
        DROP_KERNEL,
        NO_ENCODINGS,
        UNTIL,
        REGDEPS,
        RENAME_THREAD,
        SET_MARKER,
        CHUNK_INSTRS,
    ],
};

impl Transform for FilterTransform {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        let spec = Arc::new(spec(job.options)?);
        let work = Work::begin(job, progress)?;
        check_names(&pairs(job.options)?, &work.trace)?;
        // All filters are made before anything is written, so that an error in one is reported at once.
        for file in work.trace.files() {
            Filter::new(spec.clone(), file.header.filetype)?;
        }
        let threads = &job.opening.threads;
        let edit_of = |shard: usize| {
            let header = &work.trace.files().get(shard)?.header;
            let filter = Filter::new(spec.clone(), header.filetype).ok()?;
            Some(filter.with_turns(header.is_mixed && threads.len() != 1))
        };
        let options = work.options()?;
        if threads.is_empty() || work.has_files_of_threads() {
            return work.rewrite(&options, &edit_of);
        }
        work.rewrite_threads(&options, &edit_of, false)
    }
}

/// Rejects renames that give two threads of the source the same id.
///
/// # Errors
/// `Missing` if no thread has the old id; `Usage` if two threads would have the same new one.
fn check_names(renames: &[(u64, u64)], trace: &DrmemTrace) -> Result<()> {
    // The threads of files with several threads are not known beforehand; they only appear in the records.
    let is_known = trace.shards().iter().all(|shard| shard.kind == ShardKind::Thread);
    let tids: Vec<u64> = trace.shards().iter().filter_map(|shard| Some(shard.thread?.packed())).collect();
    for (i, (old, new)) in renames.iter().enumerate() {
        let (before, pair) = (&renames[..i], format!("`--rename-thread {old}={new}`"));
        if is_known && !tids.contains(old) {
            return Err(Error::missing(format!("{pair}: the trace has no thread {old}")));
        }
        if before.iter().any(|(other, _)| other == old) {
            return Err(Error::usage(format!("{pair}: thread {old} has got a name already")));
        }
        if before.iter().any(|(_, other)| other == new) {
            return Err(Error::usage(format!("{pair}: another thread is given {new} already")));
        }
        // The id of a renamed thread is free for another.
        if old != new && tids.contains(new) && !renames.iter().any(|(other, _)| other == new) {
            return Err(Error::usage(format!("{pair}: the trace has a thread {new} already")));
        }
    }
    Ok(())
}

/// The filters that the options select.
fn spec(options: &Options) -> Result<FilterSpec> {
    let markers = |spec: &OptionSpec| -> Result<Vec<u16>> {
        options.texts(spec).map(|text| marker(spec, text)).collect()
    };
    let keep = markers(&KEEP_MARKER)?;
    let functions: Vec<u64> = options.numbers(&FUNCTION).collect();
    let marker_values = options.texts(&SET_MARKER).map(marker_value).collect::<Result<Vec<_>>>()?;
    let mut spec = FilterSpec {
        stop_timestamp: options.number(&UNTIL),
        data_cache_bytes: options.number(&CACHE),
        instr_cache_bytes: options.number(&ICACHE),
        drop_markers: markers(&DROP_MARKER)?.into_iter().collect(),
        keep_markers: (!keep.is_empty()).then(|| keep.into_iter().collect()),
        addrs: options.ranges(&ADDR).collect(),
        drop_encodings: options.flag(&NO_ENCODINGS),
        instr_only: options.flag(&INSTR_ONLY),
        keep_functions: (!functions.is_empty()).then(|| functions.into_iter().collect()),
        marker_values: marker_values.into_iter().collect(),
        kernel: match options.text(&DROP_KERNEL) {
            None => KernelCode::Keep,
            Some("all") => KernelCode::Drop,
            Some(_) => KernelCode::DropButSyscalls,
        },
        rename_threads: pairs(options)?.into_iter().collect(),
        ..FilterSpec::default()
    };
    if options.flag(&REGDEPS) {
        spec.publish_regdeps();
    }
    for word in options.texts(&DROP) {
        match types(word) {
            Some(types) => spec.drop_types.extend(types),
            None => {
                let known = table::types().groups().map(|(word, _)| word).collect::<Vec<_>>().join(", ");
                return Err(Error::usage(format!("`--drop`: there are no records of kind `{word}`")).hint(
                    format!("kinds are the types of records, and {known}; markers have --drop-marker"),
                ));
            }
        }
    }
    Ok(spec)
}

/// The entry types that a word stands for: a name or a family. Types that frame a trace are excluded.
fn types(word: &str) -> Option<Vec<u16>> {
    let names = table::types();
    let narrow = |number: &u64| *number as u16; // There are fifty.
    if let Some(numbers) = names.group(word) {
        let mut types: Vec<u16> = numbers.iter().map(narrow).collect();
        // A long flush has two entries.
        if word == "flush" {
            types.extend([Type::INSTR_FLUSH_END.0, Type::DATA_FLUSH_END.0]);
        }
        return Some(types);
    }
    let frame = [Type::HEADER, Type::FOOTER, Type::THREAD, Type::PID, Type::THREAD_EXIT, Type::MARKER];
    names
        .number(word)
        .as_ref()
        .map(narrow)
        .filter(|number| frame.iter().all(|kind| kind.0 != *number))
        .map(|number| vec![number])
}

/// A kind of marker, by name or number.
fn marker(spec: &OptionSpec, text: &str) -> Result<u16> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let named = (0..100).find(|kind| Marker(*kind).name() == Some(text));
    named
        .ok_or_else(|| Error::usage(format!("option `{}`: there are no markers of kind `{text}`", spec.name)))
}

fn marker_value(text: &str) -> Result<(u16, u64)> {
    let (kind, value) = both(&SET_MARKER, text)?;
    // An unknown processor is -1.
    let value = match value.parse::<i64>() {
        Ok(negative @ ..0) => negative as u64,
        _ => count(&SET_MARKER, value)?,
    };
    Ok((marker(&SET_MARKER, kind)?, value))
}

/// Old and new ids of threads.
fn pairs(options: &Options) -> Result<Vec<(u64, u64)>> {
    let pair = |text| {
        let (old, new) = both(&RENAME_THREAD, text)?;
        Ok((count(&RENAME_THREAD, old)?, count(&RENAME_THREAD, new)?))
    };
    options.texts(&RENAME_THREAD).map(pair).collect()
}

/// Both sides of `OLD=NEW`.
fn both<'t>(spec: &OptionSpec, text: &'t str) -> Result<(&'t str, &'t str)> {
    text.split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| Error::usage(format!("option `{}` wants {}, found `{text}`", spec.name, spec.value)))
}

fn count(spec: &OptionSpec, text: &str) -> Result<u64> {
    number::worded(text).map_err(|why| Error::usage(format!("option `{}`: {why}", spec.name)))
}
