//! Who a file is about: a thread, a core, or all threads one after the other.
//!
//! The files of a trace are read together, in the order of their clock readings; what lies between two readings stays
//! together (spec 9). Each stretch goes to the file of its core, of its thread, or to the only one (spec 10). The order is
//! that of the readings, so files of cores come apart exactly if threads changed there at clock readings, as they do in
//! those written here.

use super::codes::Codes;
use super::edit::NoEdit;
use super::fresh::{Fresh, cannot};
use super::rewrite::{ChunkRule, Rewriter};
use super::{BUFFER_BYTES, Counts, Feed, FileSummary, Observer, Summary, WriteOptions, close, folder};
use crate::record::{Entry, FileType, IDLE_THREAD, Marker, Type};
use crate::trace::DrmemTrace;
use quipu_model::{Error, Finding, Result};
use quipu_source::{Packer, Pool, Source};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a file is to be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharding {
    /// One thread.
    Threads,
    /// One core, as the processor markers say.
    Cores,
    /// All threads: there is one file.
    Stream,
}

/// Entries that are looked at to find the processor behind a clock reading.
const LOOK_AHEAD: usize = 8;

/// Writes a trace again, split in another way. A folder is written, but for [`Sharding::Stream`], which is a file.
///
/// # Errors
/// What reading or writing says; `Unsupported` for templates and for cores that the trace does not name; `Io` if the
/// observer cancels it.
pub fn reshard(
    trace: &DrmemTrace,
    source: &Source,
    path: &Path,
    sharding: Sharding,
    options: &WriteOptions,
    observer: &dyn Observer,
) -> Result<Summary> {
    let files = trace.files();
    let has = |bits: FileType| files.iter().any(|file| file.header.filetype.any(bits));
    if has(FileType::KERNEL_SYSCALL_TRACE_TEMPLATES) {
        return Err(Error::unsupported("templates of kernel code have no threads"));
    }
    if sharding == Sharding::Cores
        && (has(FileType::CORE_SHARDED) || files.iter().any(|f| f.header.version < 2))
    {
        return Err(Error::unsupported(
            "only files of threads, of version 2 or later, become files of cores",
        ));
    }
    let pool = options.pool()?;
    let mut findings = Vec::new();
    let mut inputs = (0..files.len()).map(|shard| Input::new(trace, shard)).collect::<Result<Vec<_>>>()?;
    let target = match sharding {
        Sharding::Stream => {
            let (fresh, file) = Fresh::file(path, options.replace)?;
            Target { fresh, folder: PathBuf::new(), only: Some(file) }
        }
        _ => {
            let (fresh, folder) = Fresh::folder(path, options.replace)?;
            Target { fresh, folder, only: None }
        }
    };
    let header = &files[0].header;
    let mut rule = options.chunk_rule(header);
    if sharding == Sharding::Stream {
        // Who runs is not repeated in chunks: several threads are one.
        rule = ChunkRule { instrs: 0, marker: None, insert: false };
    }
    let mut outputs = Outputs {
        target,
        sharding,
        rule,
        options,
        pool,
        stem: stem(files[0].container.source()),
        version: header.version,
        open: BTreeMap::new(),
    };
    for input in &mut inputs {
        input.fill(options.strict, observer, &mut findings)?;
    }
    // The next in time; of equals, the first. Folders have few thousand files, so a look at each is quick enough beside
    // a stretch of entries, which is long.
    while let Some(next) =
        (0..inputs.len()).filter(|i| !inputs[*i].is_done()).min_by_key(|i| (inputs[*i].time(), *i))
    {
        let input = &mut inputs[next];
        input.run_stretch(&mut outputs, options.strict, observer, &mut findings)?;
    }
    let read = inputs.iter().fold(Counts::default(), |sum, input| sum.plus(input.read));
    let mut summary = outputs.finish(source)?;
    if let Some(first) = summary.files.first_mut() {
        first.read = read;
    }
    summary.findings = findings;
    Ok(summary)
}

/// The name of the traced program's files without thread and ending: `drmemtrace.threadsig`.
fn stem(source: &Source) -> String {
    let name = crate::listing::file_name(source);
    name.split('.')
        .take_while(|part| !part.bytes().all(|byte| byte.is_ascii_digit()))
        .take(2)
        .collect::<Vec<_>>()
        .join(".")
}

/// One file that is read.
struct Input {
    feed: Feed,
    /// Entries at hand, without what only chunks need; those before `next` are done.
    entries: Vec<Entry>,
    next: usize,
    is_over: bool,
    repeats: bool,
    codes: Codes,
    /// An instruction's encoding and branch target, as long as it has not come.
    group: Vec<Entry>,
    tid: u64,
    pid: u64,
    /// What the header says, in its order, up to the first clock reading of each thread.
    header: Vec<Entry>,
    in_header: bool,
    cpu: Option<u64>,
    time: u64,
    read: Counts,
}

impl Input {
    fn new(trace: &DrmemTrace, shard: usize) -> Result<Input> {
        Ok(Input {
            feed: Feed::new(trace, shard)?,
            entries: Vec::new(),
            next: 0,
            is_over: false,
            repeats: false,
            codes: Codes::small(),
            group: Vec::new(),
            tid: 0,
            pid: 0,
            header: Vec::new(),
            in_header: true,
            cpu: None,
            time: 0,
            read: Counts::default(),
        })
    }

    fn is_done(&self) -> bool {
        self.is_over && self.next >= self.entries.len()
    }

    /// Makes sure that some entries are at hand, if there are any.
    fn fill(&mut self, strict: bool, observer: &dyn Observer, findings: &mut Vec<Finding>) -> Result<()> {
        while !self.is_over && self.entries.len() - self.next < LOOK_AHEAD {
            self.entries.drain(..self.next);
            self.next = 0;
            match self.feed.next(strict, observer, findings)? {
                None => self.is_over = true,
                Some(part) => {
                    self.read.entries += part.entries.len() as u64;
                    for entry in part.entries {
                        let (records, instrs) = super::chunks::weight(entry);
                        self.read.records += records;
                        self.read.instrs += instrs;
                        if is_of_chunks(entry, &mut self.repeats, &mut self.codes) {
                            continue;
                        }
                        self.entries.push(*entry);
                    }
                }
            }
        }
        Ok(())
    }

    /// When the next stretch is: its clock reading, which for the first stands behind the header.
    fn time(&self) -> u64 {
        let rest = self.entries.get(self.next..).unwrap_or_default();
        let clock = rest.iter().find(|entry| entry.is_marker(Marker::TIMESTAMP));
        clock.map_or(self.time, |entry| entry.addr.get())
    }

    /// The processor that is named behind a clock reading.
    fn cpu_ahead(&self) -> Option<u64> {
        let rest = self.entries.get(self.next..).unwrap_or_default();
        let ahead = rest.iter().take(LOOK_AHEAD).find(|entry| entry.is_marker(Marker::CPU_ID));
        ahead.map(|entry| entry.addr.get())
    }

    /// Hands out everything up to the next clock reading behind this one.
    fn run_stretch(
        &mut self,
        outputs: &mut Outputs<'_>,
        strict: bool,
        observer: &dyn Observer,
        findings: &mut Vec<Finding>,
    ) -> Result<()> {
        let mut has_begun = false;
        loop {
            self.fill(strict, observer, findings)?;
            let Some(entry) = self.entries.get(self.next).copied() else { return Ok(()) };
            if entry.is_marker(Marker::TIMESTAMP) {
                if has_begun {
                    return Ok(());
                }
                has_begun = true;
                self.time = entry.addr.get();
                self.cpu = self.cpu_ahead().or(self.cpu);
            }
            self.next += 1;
            self.take(&entry, outputs)?;
        }
    }

    /// Sends one entry where it belongs.
    fn take(&mut self, entry: &Entry, outputs: &mut Outputs<'_>) -> Result<()> {
        let kind = entry.kind();
        let marker = (kind == Type::MARKER).then(|| Marker(entry.size.get()));
        match (kind, marker) {
            (Type::HEADER, _) => {
                self.in_header = true;
                self.header.clear();
                return Ok(());
            }
            (Type::THREAD, _) => {
                self.tid = entry.addr.get();
                return Ok(());
            }
            (Type::PID, _) => {
                self.pid = entry.addr.get();
                return Ok(());
            }
            // Every file gets its own at its end.
            (Type::FOOTER, _) => return Ok(()),
            (_, Some(marker)) if self.in_header && is_of_header(marker) => {
                self.header.push(*entry);
                return Ok(());
            }
            (_, Some(marker)) if is_of_header(marker) => return Ok(()),
            (_, Some(Marker::CORE_IDLE | Marker::CORE_WAIT)) => return Ok(()),
            (_, Some(Marker::BRANCH_TARGET)) | (Type::ENCODING, _) => {
                self.group.push(*entry);
                if self.group.len() > 64 {
                    self.group.clear();
                }
                return Ok(());
            }
            _ => self.in_header = false,
        }
        let out = outputs.of(self)?;
        if kind.is_any_instr() && entry.size.get() > 0 {
            let mut group = std::mem::take(&mut self.group);
            self.complete(entry, &mut group, &out.rewriter);
            out.rewriter.push(&group)?;
            group.clear();
            self.group = group;
        }
        out.rewriter.push(std::slice::from_ref(entry))
    }

    /// Gives an instruction the encoding that readers of `out` lack, and takes from it what they have.
    fn complete(&mut self, instr: &Entry, group: &mut Vec<Entry>, out: &Rewriter<BufWriter<File>, NoEdit>) {
        let (pc, size) = (instr.addr.get(), instr.size.get());
        let pieces: Vec<Entry> =
            group.iter().filter(|entry| entry.kind() == Type::ENCODING).copied().collect();
        if pieces.is_empty() {
            if let Some((known, target_first)) = self.codes.get(pc, size)
                && !out.has_encoding(pc, size, known)
            {
                let at = if target_first { group.len() } else { 0 };
                group.splice(at..at, known.iter().copied());
            }
            return;
        }
        let target_first = group.first().is_some_and(|first| first.kind() != Type::ENCODING);
        let was_known = self.codes.knows(pc);
        let is_news = self.codes.learn(pc, size, &pieces, target_first);
        if !(was_known && is_news) && out.has_encoding(pc, size, &pieces) {
            group.retain(|entry| entry.kind() != Type::ENCODING);
        }
    }
}

/// True for what only the chunks of the source need.
fn is_of_chunks(entry: &Entry, repeats: &mut bool, codes: &mut Codes) -> bool {
    if entry.kind() != Type::MARKER {
        return false;
    }
    match Marker(entry.size.get()) {
        Marker::CHUNK_FOOTER => true,
        Marker::RECORD_ORDINAL => {
            codes.next_read_chunk();
            *repeats = true;
            true
        }
        Marker::TIMESTAMP => *repeats,
        Marker::CPU_ID => std::mem::take(repeats),
        _ => false,
    }
}

/// True for markers that say something of the whole trace.
fn is_of_header(marker: Marker) -> bool {
    matches!(
        marker,
        Marker::VERSION
            | Marker::FILETYPE
            | Marker::CACHE_LINE_SIZE
            | Marker::CHUNK_INSTR_COUNT
            | Marker::PAGE_SIZE
            | Marker::VECTOR_LENGTH
    )
}

/// Where the files go.
struct Target {
    fresh: Fresh,
    folder: PathBuf,
    /// The file, if there is only one.
    only: Option<File>,
}

/// The files that are written, by thread, by processor, or one.
struct Outputs<'o> {
    target: Target,
    sharding: Sharding,
    rule: ChunkRule,
    options: &'o WriteOptions,
    pool: Arc<Pool>,
    stem: String,
    version: u64,
    open: BTreeMap<u64, Output>,
}

struct Output {
    rewriter: Rewriter<BufWriter<File>, NoEdit>,
    name: String,
    path: PathBuf,
    /// Who runs, and who ever did.
    thread: Option<u64>,
    seen: FxHashSet<u64>,
}

impl Outputs<'_> {
    /// The file that the input's present entries go to, with its thread at work.
    fn of(&mut self, input: &mut Input) -> Result<&mut Output> {
        let key = match self.sharding {
            Sharding::Threads => input.tid,
            Sharding::Stream => 0,
            Sharding::Cores => input.cpu.filter(|cpu| *cpu != u64::MAX).ok_or_else(|| {
                Error::unsupported("the trace does not say on which processors its threads ran")
            })?,
        };
        if !self.open.contains_key(&key) {
            let output = self.begin(key)?;
            self.open.insert(key, output);
        }
        let Some(output) = self.open.get_mut(&key) else {
            return Err(Error::new(quipu_model::ErrorKind::Internal, "a file that was opened is gone"));
        };
        if output.thread != Some(input.tid) {
            output.switch(input, self.sharding, self.version)?;
        }
        Ok(output)
    }

    fn begin(&mut self, key: u64) -> Result<Output> {
        let packing = self.options.pack.packing;
        let name = match self.sharding {
            Sharding::Threads => format!("{}.{key:05}.0000.trace", self.stem),
            Sharding::Cores => format!("drmemtrace.core.{key:06}.trace"),
            Sharding::Stream => String::new(),
        };
        let name = folder::renamed(&name, packing);
        let path = self.target.folder.join(&name);
        let file = match self.target.only.take() {
            Some(file) => file,
            None => File::create_new(&path).map_err(|cause| cannot("create", &path, cause))?,
        };
        let (small, buffer_bytes) = (self.sharding != Sharding::Stream, BUFFER_BYTES);
        let buffer_bytes = if small { buffer_bytes / 16 } else { buffer_bytes };
        let packer =
            Packer::new(BufWriter::with_capacity(buffer_bytes, file), &self.pool, &self.options.pack);
        let packer = if small { packer.in_small_blocks() } else { packer };
        let rewriter = Rewriter::new(packer, NoEdit, self.rule)?;
        let rewriter = if small { rewriter.small() } else { rewriter };
        Ok(Output { rewriter, name, path, thread: None, seen: FxHashSet::default() })
    }

    fn finish(self, source: &Source) -> Result<Summary> {
        let mut summary = Summary::default();
        let mut schedules = Vec::new();
        for output in self.open.into_values() {
            let rewritten = output.rewriter.finish(true)?;
            summary.files.push(FileSummary {
                source: source.name().to_owned(),
                name: Some(output.name),
                read: Counts::default(),
                written: rewritten.written,
                dropped_records: 0,
                packed_bytes: rewritten.packed.packed_bytes,
                members: rewritten.packed.members,
            });
            schedules.push(rewritten.schedule);
            close(rewritten.out, &output.path)?;
        }
        if summary.files.is_empty() {
            return Err(Error::missing("nothing of the trace is left to write"));
        }
        if self.sharding != Sharding::Stream {
            folder::write_schedules(&self.target.folder, schedules, &self.pool)?;
            if source.is_folder() {
                folder::copy_beside(source, &self.target.folder)?;
            }
        }
        self.target.fresh.commit()?;
        Ok(summary)
    }
}

impl Output {
    /// Writes that another thread runs from here on: its whole header the first time, its ids later (spec 10).
    fn switch(&mut self, input: &Input, sharding: Sharding, version: u64) -> Result<()> {
        let is_first = self.thread.is_none();
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
        self.rewriter.push(&entries)
    }
}

/// A marker of the header, as it has to be in the new file.
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
