//! `trim`: a part of a trace as a trace of its own, or several parts as windows.

use super::{CHUNK_INSTRS, Work};
use crate::edits::{Position, Trim};
use quipu_model::options::Kind;
use quipu_model::trace::PARTS_COUNT_ALL;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed};
use quipu_model::{Error, ErrorKind, OptionSpec, Options, Result, Trace, Window};
use std::ops::{Range, RangeInclusive};

const PART: &str = "Range";
/// Options with units other than records.
const NOT_RECORDS: &[&str] = &["skip-instrs", "take-instrs", "since", "until", "instrs"];
/// Options with units other than a number of instructions.
const NOT_INSTRS: &[&str] = &["since", "until", "instrs"];

const SKIP: OptionSpec = OptionSpec::new("skip", Kind::Count, "0", "skip this many records at the start")
    .group(PART)
    .excludes(NOT_RECORDS);
const TAKE: OptionSpec =
    OptionSpec::new("take", Kind::Count, "", "keep this many records").group(PART).excludes(NOT_RECORDS);
const SKIP_INSTRS: OptionSpec =
    OptionSpec::new("skip-instrs", Kind::Count, "0", "skip this many instructions at the start")
        .group(PART)
        .excludes(NOT_INSTRS);
const TAKE_INSTRS: OptionSpec =
    OptionSpec::new("take-instrs", Kind::Count, "", "keep this many instructions")
        .group(PART)
        .excludes(NOT_INSTRS);
const SINCE: OptionSpec = OptionSpec::new("since", Kind::Count, "", "start at this timestamp")
    .value("CLOCK")
    .group(PART)
    .excludes(&["instrs"]);
const UNTIL: OptionSpec = OptionSpec::new("until", Kind::Count, "", "end before this timestamp")
    .value("CLOCK")
    .group(PART)
    .excludes(&["instrs"]);
const INSTRS: OptionSpec = OptionSpec::new(
    "instrs",
    Kind::Range,
    "",
    "keep these instructions, counted from 0: `A..B` excludes B; several ranges become windows of the new trace, numbered \
     from 0 in its order; ranges that overlap or touch are joined",
)
.listed()
.group(PART);
const PER_THREAD: OptionSpec = OptionSpec::flag(
    "per-thread",
    "count from the beginning of each thread instead of along the sequence of all threads",
)
.group(PART);

/// A part of a trace.
#[derive(Debug)]
pub struct TrimTransform;

static INFO: TransformInfo = TransformInfo {
    name: "trim",
    title: "a part of a trace as a trace of its own, or several as windows",
    options: &[SKIP, TAKE, SKIP_INSTRS, TAKE_INSTRS, SINCE, UNTIL, INSTRS, PER_THREAD, CHUNK_INSTRS],
};

impl Transform for TrimTransform {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn lacks(&self, option: &str) -> Option<&'static str> {
        matches!(option, "calls" | "frames" | "setup")
            .then_some("there are instructions here, and no calls of graphics")
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        let windows = windows(job.options)?;
        let is_per_thread = job.options.flag(&PER_THREAD);
        let work = Work::begin(job, progress)?;
        if is_per_thread && !work.has_files_of_threads() {
            let what = "`--per-thread`: files of this trace hold several threads, which have no beginning of their own";
            return Err(Error::usage(what).hint("take them apart first: quipu split"));
        }
        let (unit, parts) = parts(&windows, is_per_thread, &work)?;
        let edit_of = |shard: usize| Some(Trim::new(unit, parts.get(shard).cloned().unwrap_or_default()));
        // If files hold several threads, records of the other threads are counted, too.
        let counts_others = !job.opening.threads.is_empty() && !work.has_files_of_threads();
        work.rewrite_threads(&work.options()?, &edit_of, true).map_err(|error| match error.kind() {
            ErrorKind::Missing if counts_others => error.hint(PARTS_COUNT_ALL),
            _ => error,
        })
    }
}

/// The parts that the options select.
fn windows(options: &Options) -> Result<Vec<Window>> {
    let end = |start: u64, n: Option<u64>| n.map_or(u64::MAX, |n| start.saturating_add(n));
    let ranges: Vec<RangeInclusive<u64>> = options.ranges(&INSTRS).collect();
    if !ranges.is_empty() {
        return Ok(joined(&ranges).into_iter().map(Window::Instrs).collect());
    }
    let given = |specs: [&OptionSpec; 2]| specs.iter().any(|spec| options.has(spec));
    if given([&SKIP_INSTRS, &TAKE_INSTRS]) {
        let start = options.count(&SKIP_INSTRS);
        return Ok(vec![Window::Instrs(start..end(start, options.number(&TAKE_INSTRS)))]);
    }
    if given([&SINCE, &UNTIL]) {
        let until = options.number(&UNTIL).unwrap_or(u64::MAX);
        return Ok(vec![Window::Clock(options.count(&SINCE)..until)]);
    }
    if given([&SKIP, &TAKE]) {
        let start = options.count(&SKIP);
        return Ok(vec![Window::Records(start..end(start, options.number(&TAKE)))]);
    }
    Err(Error::usage("no part is named")
        .hint("say --skip or --take, --skip-instrs or --take-instrs, --since or --until, or --instrs"))
}

/// The ranges to keep of each file, and their unit.
fn parts(
    windows: &[Window],
    is_per_thread: bool,
    work: &Work<'_>,
) -> Result<(Position, Vec<Vec<Range<u64>>>)> {
    let n_files = work.trace.shards().len();
    let mut unit = Position::Records;
    let mut parts = vec![Vec::new(); n_files];
    for window in windows {
        let of_files = if is_per_thread {
            vec![window.clone(); n_files]
        } else {
            work.job.sequence.parts(&work.trace, window)?
        };
        for (parts, window) in parts.iter_mut().zip(of_files) {
            let (of_file, range) = match window {
                Window::All => (Position::Records, 0..u64::MAX),
                Window::Records(range) => (Position::Records, range),
                Window::Instrs(range) => (Position::Instrs, range),
                Window::Clock(range) => (Position::Clock, range),
            };
            unit = of_file;
            parts.push(range);
        }
    }
    Ok((unit, parts))
}

/// Sorts ranges and merges those that overlap or touch.
fn joined(ranges: &[RangeInclusive<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> =
        ranges.iter().map(|range| *range.start()..range.end().saturating_add(1)).collect();
    sorted.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match joined.last_mut().filter(|last| range.start <= last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => joined.push(range),
        }
    }
    joined
}
