//! The output files: of threads, of cores, or a single one.

use super::Sharding;
use super::encodings::Encodings;
use super::input::Input;
use crate::record::{Entry, FileType, IDLE_THREAD, Marker, Type};
use crate::write::appended::Appended;
use crate::write::chunks::weight;
use crate::write::edit::NoEdit;
use crate::write::known::Known;
use crate::write::rewrite::{ChunkRule, Rewriter};
use crate::write::{BUFFER_BYTES, FileSummary, Summary, WriteOptions, folder, last_part, nothing_left_of};
use quipu_model::damaged::{Intake, Reading};
use quipu_model::fresh::{Folder, cannot};
use quipu_model::{Error, Result};
use quipu_source::{OutputFile, Packer, Pool, Source};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of pending entries at which they are passed to the writer.
const MAX_PENDING: usize = 1 << 10;

/// The place of the output files.
pub(super) struct Target {
    pub(super) folder: Folder,
    /// The file and its final name, if there is only one.
    pub(super) only: Option<(PathBuf, OutputFile)>,
}

impl Target {
    /// The same target, emptied.
    pub(super) fn again(&self) -> Result<Target> {
        let only = match &self.only {
            None => {
                let folder: &Path = &self.folder;
                let list = || -> io::Result<Vec<_>> { std::fs::read_dir(folder)?.collect() };
                for entry in list().map_err(|cause| cannot("list", folder, cause))? {
                    let path = entry.path();
                    std::fs::remove_file(&path).map_err(|cause| cannot("remove", &path, cause))?;
                }
                None
            }
            Some((path, file)) => {
                let emptied = || -> io::Result<OutputFile> {
                    file.set_len(0)?;
                    let mut file = file.try_clone()?;
                    file.rewind()?;
                    Ok(file)
                };
                let file = emptied().map_err(|cause| cannot("write", path, cause))?;
                Some((path.clone(), file))
            }
        };
        Ok(Target { folder: self.folder.clone(), only })
    }
}

/// The output files, by thread, by processor, or a single one.
pub(super) struct Outputs<'o> {
    pub(super) target: Target,
    pub(super) sharding: Sharding,
    pub(super) rule: ChunkRule,
    pub(super) options: &'o WriteOptions,
    pub(super) pool: Arc<Pool>,
    pub(super) stem: String,
    pub(super) version: u64,
    /// True if the source consists of files of cores.
    pub(super) is_of_cores: bool,
    /// The only threads that are written; empty for all.
    pub(super) threads: FxHashSet<u64>,
    /// Encodings of files of cores.
    pub(super) known: Option<Known>,
    /// Encodings of all other files.
    pub(super) encodings: Encodings,
    pub(super) open: BTreeMap<u64, Output>,
    /// The core that each thread ran on last.
    pub(super) last_core: FxHashMap<u64, u64>,
    /// True if the trace is damaged: files that begin now are doubtful from their first record on.
    pub(super) is_doubtful: bool,
    /// True if the trace can be read only once.
    pub(super) is_pipe: bool,
}

/// An output file: the only one, or one of many, which cannot all be open.
enum Out {
    Only(OutputFile),
    OfMany(Appended),
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Out::Only(file) => file.write(bytes),
            Out::OfMany(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Out::Only(file) => file.flush(),
            Out::OfMany(file) => file.flush(),
        }
    }
}

impl Seek for Out {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Out::Only(file) => file.seek(to),
            Out::OfMany(file) => file.seek(to),
        }
    }
}

pub(super) struct Output {
    rewriter: Rewriter<BufWriter<Out>, NoEdit>,
    /// Entries that were not passed to the writer yet. None is an encoding, as the writer is asked which ones its readers
    /// know.
    pending: Vec<Entry>,
    name: String,
    path: PathBuf,
    /// The running thread, then all threads that ever ran.
    thread: Option<u64>,
    seen: FxHashSet<u64>,
    /// Threads that exited.
    exited: FxHashSet<u64>,
    /// Number of records in it when the first damage was found.
    doubtful_from: Option<u64>,
}

impl Outputs<'_> {
    /// True if the thread has no file yet, or no place in the only one, so that its header would come first.
    pub(super) fn is_new(&self, tid: u64) -> bool {
        match self.sharding {
            Sharding::Threads => !self.open.contains_key(&tid),
            Sharding::Stream => self.open.get(&0).is_none_or(|output| !output.seen.contains(&tid)),
            Sharding::Cores => false,
        }
    }

    /// True if the thread is written at all.
    pub(super) fn is_wanted(&self, tid: u64) -> bool {
        self.threads.is_empty() || self.threads.contains(&tid)
    }

    /// Notes the position of each file when the first damage is found. Everything from a pipe may be damaged; and if the
    /// damage lies before the place where it was detected, so may everything written since `marks`, which identify files by
    /// their keys.
    pub(super) fn note_damage(&mut self, intake: &Intake, marks: &[(u64, u64)]) {
        if intake.is_damaged() && !std::mem::replace(&mut self.is_doubtful, true) {
            let (is_pipe, is_before) = (self.is_pipe, intake.is_damaged_before());
            for (key, output) in &mut self.open {
                let mark = marks.iter().find(|(marked, _)| is_before && marked == key);
                let n_good = mark.map_or(output.n_written(), |(_, n_written)| *n_written);
                output.doubtful_from = Some(if is_pipe { 0 } else { n_good });
            }
        }
    }

    fn key(&self, input: &Input) -> Option<u64> {
        match self.sharding {
            Sharding::Threads => Some(input.tid),
            Sharding::Stream => Some(0),
            Sharding::Cores => input.cpu.filter(|cpu| *cpu != u64::MAX),
        }
    }

    /// True if readers of the input's current output know these pieces as the encoding at `pc`.
    pub(super) fn has_encoding(&self, input: &Input, pc: u64, size: u16, pieces: &[Entry]) -> bool {
        let output = self.key(input).and_then(|key| self.open.get(&key));
        output.is_some_and(|output| output.rewriter.has_encoding(pc, size, pieces))
    }

    /// The output of the input's current entries, switched to the input's thread.
    pub(super) fn of(&mut self, input: &mut Input) -> Result<&mut Output> {
        let key = self.key(input).ok_or_else(|| {
            Error::unsupported("the trace does not say on which processors its threads ran")
        })?;
        if !self.open.contains_key(&key) {
            let output = self.begin(key)?;
            self.open.insert(key, output);
        }
        let Some(output) = self.open.get_mut(&key) else {
            return Err(Error::new(quipu_model::ErrorKind::Internal, "a file that was opened is gone"));
        };
        if input.last != Some((input.tid, key)) {
            input.last = Some((input.tid, key));
            if !input.marks.iter().any(|(marked, _)| *marked == key) {
                input.marks.push((key, output.n_written()));
            }
            let last = self.last_core.insert(input.tid, key);
            let was_away = self.sharding == Sharding::Cores && last.is_some_and(|last| last != key);
            if was_away && output.thread == Some(input.tid) {
                // The thread went elsewhere, no other came, and it is back: the core was idle meanwhile.
                output.write(&[Entry::marker(Marker::CORE_IDLE, 0)])?;
                output.thread = None;
            }
        }
        if output.thread != Some(input.tid) {
            output.switch(input, self.sharding, self.version)?;
        }
        Ok(output)
    }

    fn begin(&mut self, key: u64) -> Result<Output> {
        let (name, path, file) = match self.target.only.take() {
            Some((path, file)) => (last_part(&path), path, Out::Only(file)),
            None => {
                let name = match self.sharding {
                    Sharding::Cores => format!("drmemtrace.core.{key:06}.trace"),
                    Sharding::Threads | Sharding::Stream => format!("{}.{key:05}.0000.trace", self.stem),
                };
                let name = folder::renamed(&name, self.options.pack.packing);
                let path = self.target.folder.join(&name);
                let file = Appended::create_new(&path).map_err(|cause| cannot("write", &path, cause))?;
                (name, path, Out::OfMany(file))
            }
        };
        let (small, buffer_bytes) = (self.sharding != Sharding::Stream, BUFFER_BYTES);
        let buffer_bytes = if small { buffer_bytes / 16 } else { buffer_bytes };
        let packer =
            Packer::new(BufWriter::with_capacity(buffer_bytes, file), &self.pool, &self.options.pack);
        let packer = if small { packer.in_small_blocks() } else { packer };
        let rewriter = Rewriter::new(packer, NoEdit, self.rule)?;
        let rewriter = if small { rewriter.small() } else { rewriter };
        Ok(Output {
            rewriter,
            pending: Vec::new(),
            name,
            path,
            thread: None,
            seen: FxHashSet::default(),
            exited: FxHashSet::default(),
            doubtful_from: self.is_doubtful.then_some(0),
        })
    }

    /// Ends all files.
    pub(super) fn finish(self, source: &Source, reading: Reading) -> Result<Summary> {
        let mut summary = Summary::default();
        let mut schedules = Vec::new();
        for mut output in self.open.into_values() {
            if self.sharding != Sharding::Cores && self.is_of_cores {
                output.end_threads()?;
            }
            output.write(&[])?;
            let rewritten = output.rewriter.finish(true)?;
            let doubtful_from = output.doubtful_from.filter(|good| *good < rewritten.written.records);
            summary.files.push(FileSummary {
                source: source.name().to_owned(),
                name: Some(output.name),
                taken: None,
                written: rewritten.written,
                packed_bytes: rewritten.packed.packed_bytes,
                members: rewritten.packed.members,
                doubtful_from,
            });
            schedules.push(rewritten.schedule);
            let mut out = rewritten.out;
            out.flush().map_err(|cause| cannot("write", &output.path, cause))?;
        }
        if summary.files.is_empty() {
            return Err(nothing_left_of(&reading));
        }
        summary.findings = reading.findings;
        if self.sharding != Sharding::Stream {
            summary.findings.extend(folder::write_schedules(&self.target.folder, schedules, &self.pool)?);
            if source.is_folder() {
                folder::copy_beside(source, &self.target.folder)?;
            }
        }
        Ok(summary)
    }
}

impl Output {
    fn n_written(&self) -> u64 {
        self.rewriter.n_written() + self.pending.iter().map(|entry| weight(entry).0).sum::<u64>()
    }

    /// Appends an entry of the running thread, with the encoding and the branch target in front of it.
    pub(super) fn push(&mut self, group: &[Entry], entry: &Entry) -> Result<()> {
        if entry.kind() == Type::THREAD_EXIT {
            self.exited.insert(entry.addr.get());
        }
        self.pending.extend_from_slice(group);
        self.pending.push(*entry);
        let has_encoding = group.iter().any(|entry| entry.kind() == Type::ENCODING);
        if has_encoding || self.pending.len() >= MAX_PENDING { self.write(&[]) } else { Ok(()) }
    }

    /// Passes the pending entries, and then these, to the writer.
    pub(super) fn write(&mut self, entries: &[Entry]) -> Result<()> {
        self.rewriter.push(&self.pending)?;
        self.pending.clear();
        self.rewriter.push(entries)
    }

    /// Writes missing exits: on a core, threads may end where the trace was cut; in other files each has an exit.
    fn end_threads(&mut self) -> Result<()> {
        let mut left: Vec<u64> = self.seen.difference(&self.exited).copied().collect();
        left.sort_unstable();
        for tid in left {
            if self.thread != Some(tid) {
                self.write(&[Entry::new(Type::THREAD, 4, tid)])?;
                self.thread = Some(tid);
            }
            self.write(&[Entry::new(Type::THREAD_EXIT, 4, tid)])?;
        }
        Ok(())
    }

    /// Writes that another thread runs from here on: its whole header the first time, its ids later (spec 10).
    fn switch(&mut self, input: &Input, sharding: Sharding, version: u64) -> Result<()> {
        let is_first = self.seen.is_empty();
        let is_new = self.seen.insert(input.tid);
        self.thread = Some(input.tid);
        let mut entries = Vec::new();
        let wants_header = is_first || (is_new && sharding == Sharding::Cores);
        let ids = |size| [Entry::new(Type::THREAD, size, input.tid), Entry::new(Type::PID, size, input.pid)];
        if wants_header {
            entries.push(Entry::new(Type::HEADER, 0, version));
            let is_early =
                |entry: &&Entry| entry.is_marker(Marker::VERSION) || entry.is_marker(Marker::FILETYPE);
            let of_header = |entry: &Entry| header_entry(entry, sharding);
            entries.extend(input.header.iter().filter(is_early).filter_map(of_header));
            entries.extend(ids(4));
            entries.extend(input.header.iter().filter(|entry| !is_early(entry)).filter_map(of_header));
        } else if sharding == Sharding::Stream {
            entries.extend(ids(4));
        } else if input.tid != IDLE_THREAD {
            entries.extend(ids(0));
        }
        self.write(&entries)
    }
}

/// A marker of the header as the new file needs it; `None` to leave it out.
fn header_entry(entry: &Entry, sharding: Sharding) -> Option<Entry> {
    let mut entry = *entry;
    if entry.is_marker(Marker::FILETYPE) {
        let bits = entry.addr.get();
        entry.addr.set(match sharding {
            Sharding::Cores => bits | FileType::CORE_SHARDED.0,
            _ => bits & !FileType::CORE_SHARDED.0,
        });
    }
    (sharding != Sharding::Stream || !entry.is_marker(Marker::CHUNK_INSTR_COUNT)).then_some(entry)
}
