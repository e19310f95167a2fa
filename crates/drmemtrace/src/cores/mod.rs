//! A trace arranged by the cores that its threads ran on.
//!
//! Each shard is a core: the stretches of threads that ran on it, in order, taken from the trace's own processor markers or
//! from a schedule file. Nothing is invented: a core that was idle between two stretches has no records for that. Stretches
//! are cut at instructions, as in the schedule, so records between the last instruction of a stretch and the first of the
//! next belong to the former. Raw entries are those of the threads; each stretch begins with entries that name its thread,
//! as in core-sharded files. SPEC: drmemtrace.md#schedule-files.

mod form;
mod reader;

pub(crate) use form::FORM;

use crate::print::{MemrefPrinter, Versions};
use crate::record::{Entry, VERSION_BRANCH_INFO};
use crate::schedule::{MAX_POINTS, Recorder, Schedule, Stretch};
use crate::table::{ENTRIES_TABLE, tables};
use crate::trace::File;
use quipu_model::ThreadId;
use quipu_model::schema::Schema;
use quipu_model::trace::PrintOptions;
use quipu_model::{
    Columns, Error, Finding, Meta, Place, Printer, Reader, Result, Scan, Severity, Shard, ShardId, ShardKind,
    Trace,
};
use quipu_source::{Ahead, StreamOptions};
use reader::CoreReader;
use rustc_hash::FxHashMap;
use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A range of instructions of one file that ran on a core without interruption.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    file: usize,
    instrs: Range<u64>,
    /// First instruction of the last stretch that was merged into the segment.
    last_start: u64,
}

/// One core and its segments, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Core {
    cpu: u64,
    segments: Vec<Segment>,
}

/// A trace whose shards are cores.
#[derive(Debug)]
pub(crate) struct CoreTrace {
    files: Arc<[Arc<File>]>,
    cores: Vec<Arc<Core>>,
    shards: Vec<Shard>,
    meta: Meta,
    columns: Columns,
}

impl CoreTrace {
    /// The files of the threads.
    pub(crate) fn files(&self) -> &[Arc<File>] {
        &self.files
    }

    /// Arranges the files of a trace, one for each thread, by the stretches of all processors.
    ///
    /// # Errors
    /// `Missing` without stretches of these threads.
    pub(crate) fn new(
        files: &[Arc<File>],
        mut meta: Meta,
        columns: Columns,
        stretches: Vec<Stretch>,
    ) -> Result<CoreTrace> {
        let cores = plan(files, stretches, &mut meta.findings);
        if cores.is_empty() {
            return Err(Error::missing("the trace does not say which processors its threads ran on"));
        }
        meta.title.push_str(", by core");
        meta.arranged = files.iter().map(|file| ThreadId::from_packed(file.header.tid)).collect();
        let shard = |(index, core): (usize, &Core)| Shard {
            id: ShardId(index as u32), // As many as distinct processors.
            name: format!("core {}", core.cpu),
            kind: ShardKind::Core,
            core: Some(core.cpu),
            pieces: 1,
            ..Shard::default()
        };
        Ok(CoreTrace {
            files: files.into(),
            shards: cores.iter().enumerate().map(shard).collect(),
            cores: cores.into_iter().map(Arc::new).collect(),
            meta,
            columns,
        })
    }
}

/// The schedule that the processor markers of the files record.
///
/// # Errors
/// `Limit` for more markers than are kept; errors of opening the files.
pub(crate) fn recorded(files: &[Arc<File>]) -> Result<Schedule> {
    let mut recordings = Vec::new();
    let mut room = MAX_POINTS;
    for file in files {
        let mut recorder = Recorder::up_to(room);
        let options = StreamOptions { ahead: Ahead::Inline, ..StreamOptions::default() };
        let mut stream = file.container.stream(file.container.all_members(), &options)?;
        let (mut block, mut wide) = (Vec::new(), Vec::new());
        // Damage ends the recording of a file; the read itself will report it.
        while let Ok(Some(_)) = stream.next(&mut block) {
            recorder.take(Entry::slice(file.entries(&block, &mut wide)).0);
            if recorder.is_full() {
                return Err(Error::limit(
                    "processor markers to arrange by core",
                    MAX_POINTS as u64 + 1,
                    MAX_POINTS as u64,
                )
                .in_file(&file.name));
            }
        }
        let recording = recorder.finish();
        room -= recording.len();
        recordings.push(recording);
    }
    Ok(Schedule::full(recordings))
}

/// Turns stretches, in any order, into segments of each core.
fn plan(files: &[Arc<File>], mut stretches: Vec<Stretch>, findings: &mut Vec<Finding>) -> Vec<Core> {
    let by_thread: FxHashMap<u64, usize> =
        files.iter().enumerate().map(|(index, file)| (file.header.tid, index)).collect();
    stretches.sort_by_key(|stretch| (stretch.timestamp.get(), stretch.start_instr.get()));
    // Clock and processor of each file's stretches, by first instruction.
    let mut starts: Vec<BTreeMap<u64, (u64, u64)>> = vec![BTreeMap::new(); files.len()];
    let mut counted = vec![Counted::default(); files.len()];
    let mut falls: Vec<Fall> = vec![Fall::default(); files.len()];
    for stretch in &stretches {
        let Some(&index) = by_thread.get(&stretch.thread.get()) else { continue };
        let (start, fell_from) = counted[index].start(&files[index], stretch);
        if let Some(before) = fell_from {
            falls[index].add(before, start);
        }
        // If two stretches begin at one instruction, the later one wins.
        starts[index].insert(start, (stretch.timestamp.get(), stretch.cpu.get()));
    }
    let mut cores: BTreeMap<u64, Vec<(u64, Segment)>> = BTreeMap::new();
    for (file, starts) in starts.into_iter().enumerate() {
        if starts.is_empty() {
            findings.push(unscheduled(&files[file]));
        }
        findings.extend(falls[file].finding(&files[file]));
        // The instructions of a thread stay in order whatever the clock of a broken schedule says: each file is read
        // forwards, so instructions placed earlier would be lost.
        let mut now = 0;
        let starts: Vec<(u64, (u64, u64))> = starts.into_iter().collect();
        for (i, &(start, (clock, cpu))) in starts.iter().enumerate() {
            // Instructions before the first known stretch belong to it.
            let first = if i == 0 { 0 } else { start };
            let end = starts.get(i + 1).map_or(u64::MAX, |(next, _)| *next);
            now = clock.max(now);
            let segment = Segment { file, instrs: first..end, last_start: start };
            cores.entry(cpu).or_default().push((now, segment));
        }
    }
    cores
        .into_iter()
        .map(|(cpu, mut segments)| {
            segments.sort_by_key(|(clock, segment)| (*clock, segment.file, segment.instrs.start));
            let segments = segments.into_iter().map(|(_, segment)| segment);
            Core { cpu, segments: joined(segments) }
        })
        .collect()
}

/// Converts the instruction counts of one file's stretches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    last: u64,
    chunks: u64,
}

impl Counted {
    /// The first instruction of the file's next stretch, counted from the beginning of the file; also the previous count if
    /// the counts decrease for no known reason.
    pub(crate) fn start(&mut self, file: &File, stretch: &Stretch) -> (u64, Option<u64>) {
        let start = stretch.start_instr.get();
        let before = std::mem::replace(&mut self.last, start);
        if file.header.version < VERSION_BRANCH_INFO {
            // Old files count within chunks: where the count decreases, a chunk border was passed.
            self.chunks += u64::from(start < before);
            return (start.saturating_add(self.chunks.saturating_mul(file.header.chunk_instrs)), None);
        }
        (start, (start < before).then_some(before))
    }
}

/// Merges segments that continue the one before them.
fn joined(segments: impl Iterator<Item = Segment>) -> Vec<Segment> {
    let mut joined: Vec<Segment> = Vec::new();
    for segment in segments {
        match joined.last_mut() {
            Some(last) if last.file == segment.file && last.instrs.end == segment.instrs.start => {
                last.instrs.end = segment.instrs.end;
                last.last_start = segment.last_start;
            }
            _ => joined.push(segment),
        }
    }
    joined
}

/// Number of times that the stretches of a thread go back while time advances.
#[derive(Clone, Copy, Debug, Default)]
struct Fall {
    count: u64,
    /// The first time: the instruction before and after.
    first: (u64, u64),
}

impl Fall {
    fn add(&mut self, from: u64, to: u64) {
        if self.count == 0 {
            self.first = (from, to);
        }
        self.count += 1;
    }

    fn finding(&self, file: &File) -> Option<Finding> {
        let (from, to) = self.first;
        (self.count > 0).then(|| Finding {
            rule: "drmemtrace/schedule-backwards".into(),
            severity: Severity::Error,
            place: Place { file: Some(file.name.clone()), ..Place::default() },
            message: format!(
                "the schedule has thread {} go back from instruction `{from}` to `{to}` while time advances",
                ThreadId::from_packed(file.header.tid)
            ),
            count: self.count,
            loss: None,
            is_stated: false,
            doubtful_from: None,
        })
    }
}

/// The finding for stretches of a file that begin after its last instruction.
fn unreached(file: &File, first_start: u64, instrs: u64, count: u64) -> Finding {
    Finding {
        rule: "drmemtrace/schedule-unreached".into(),
        severity: Severity::Error,
        place: Place { file: Some(file.name.clone()), ..Place::default() },
        message: format!(
            "the schedule has a stretch of thread {} begin after instruction `{first_start}`, the thread has `{instrs}`",
            ThreadId::from_packed(file.header.tid)
        ),
        count,
        loss: None,
        is_stated: false,
        doubtful_from: None,
    }
}

fn unscheduled(file: &File) -> Finding {
    Finding {
        rule: "drmemtrace/schedule-thread".into(),
        severity: Severity::Error,
        place: Place { file: Some(file.name.clone()), ..Place::default() },
        message: format!(
            "the schedule does not know thread {}; its records are left out",
            ThreadId::from_packed(file.header.tid)
        ),
        count: 1,
        loss: None,
        is_stated: false,
        doubtful_from: None,
    }
}

impl Trace for CoreTrace {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn columns(&self) -> Columns {
        self.columns
    }

    fn tables(&self) -> Result<Vec<Arc<Schema>>> {
        Ok(tables())
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        let core = &self.cores[self.shard(scan.shard)?.id.0 as usize];
        if scan.tables.contains(&ENTRIES_TABLE) {
            return Err(Error::unsupported("a trace arranged by core has no entries of its own to number"));
        }
        Ok(Box::new(CoreReader::new(Arc::clone(&self.files), Arc::clone(core), scan)?))
    }

    fn printer(&self, options: &PrintOptions) -> Result<Box<dyn Printer>> {
        // One tracer traces all threads of a process.
        let version = self.files.iter().map(|file| file.header.version).max().unwrap_or(0);
        let versions = Versions::of(&self.files, vec![version; self.shards.len()]);
        Ok(Box::new(MemrefPrinter::new(self.meta.arch, versions, options)?))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn n_delivered_damaged(&self) -> u64 {
        crate::trace::n_delivered_damaged(&self.files)
    }

    fn mark_name(&self, kind: u32) -> Cow<'static, str> {
        crate::trace::mark_name(kind)
    }
}
