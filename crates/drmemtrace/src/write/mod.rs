//! Writing traces: entries in, files and folders out.
//!
//! ```text
//! EntryReader ─▶ Rewriter: joins the source's chunks, edits, cuts new chunks ─▶ Packer ─▶ a file, renamed when complete
//! ```
//!
//! | file | what |
//! |---|---|
//! | [`mod@rewrite`] | one file's entries, taken apart and put together |
//! | [`edit`] | the decisions of an edit |
//! | [`frames`] | the running thread, in files in which threads take turns |
//! | [`import`] | records of other formats |
//! | [`mod@reshard`] | files of threads, files of cores, one stream |
//! | `appended` | a file that is open only while it is written to |
//! | `chunks`, `codes` | chunks, and the entries that each must repeat |
//! | `raise` | later versions of the format |
//! | `known` | encodings that files of cores leave out |
//! | [`cores`] | files of cores that threads are scheduled onto |
//! | [`folder`] | names, schedules |
//! | [`threads`] | files of threads that are being recorded |
//!
//! SPEC: drmemtrace.md#writing, drmemtrace.md#editing.

mod appended;
mod chunks;
mod codes;
pub mod cores;
pub mod edit;
pub mod folder;
pub mod frames;
pub mod import;
mod known;
mod raise;
pub mod reshard;
pub mod rewrite;
pub mod threads;

pub use chunks::Counts;
pub(crate) use chunks::weight;
pub use edit::{At, EntryEdit, NoEdit};
pub use frames::{Framed, Threads};
pub use quipu_model::fresh::Replace;
pub use reshard::{Sharding, reshard};
pub use rewrite::{ChunkRule, Rewriter, Rewritten};

use crate::header::Header;
use crate::record::{Entry, FileType};
use crate::schedule::Recording;
use crate::seams::Counter;
use crate::trace::{DrmemTrace, File};
use known::Known;
use quipu_model::damaged::{Intake, Reading, SoFar, earlier};
use quipu_model::fresh::{Fresh, cannot};
use quipu_model::trace::settled_by;
use quipu_model::transform::Progress;
use quipu_model::{
    Batch, Columns, Damaged, Error, ErrorKind, Finding, Found, Result, Scan, Severity, ShardId, Trace,
};
use quipu_source::{Codec, OutputFile, PackOptions, Packer, Packing, Pool, Source};
use raise::Raiser;
use rustc_hash::FxHashMap;
use std::io::{BufWriter, Seek, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of files that are read at a time: each takes a few megabytes.
const MAX_FILES_AT_ONCE: usize = 8;
/// Maximum number of files read at once for which each may have a thread that inflates ahead.
const MAX_READ_AHEAD: usize = 16;
/// PERF: a smaller file is inflated faster than a thread for it starts.
const WORTH_A_THREAD_BYTES: u64 = 32 << 10;
/// Total buffer size of the files that are read at once, unless each would have less than [`MIN_BUFFER_BYTES`].
const SHARED_BUFFER_BYTES: usize = 40 << 20;
const MIN_BUFFER_BYTES: usize = 16 << 10;
/// Number of bytes that are collected before the system is asked to write them.
const BUFFER_BYTES: usize = 256 << 10;

/// Options for writing.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Container and level.
    pub pack: PackOptions,
    /// Instructions in each chunk of an archive; `None` for the size stated in the source.
    pub chunk_instrs: Option<u64>,
    /// Number of threads that compress; 0 for one per core.
    pub threads: usize,
    /// Whether the first violation in the source is an error.
    pub strict: bool,
    /// Whether the output of a damaged source is kept.
    pub damaged: Damaged,
    /// Whether an existing output may be replaced.
    pub replace: Replace,
    /// Version to raise files to; `None` for that of the source. Not for [`mod@reshard`].
    pub version: Option<u64>,
}

impl WriteOptions {
    /// Archives with the source's chunks at the usual level; nothing is replaced.
    pub fn new() -> WriteOptions {
        WriteOptions {
            pack: PackOptions::new(Packing::Zip),
            chunk_instrs: None,
            threads: 0,
            strict: false,
            damaged: Damaged::Refuse,
            replace: Replace::Never,
            version: None,
        }
    }

    /// The initial state for reading the source of an output.
    fn intake(&self) -> Intake {
        Intake::new(self.damaged).strict(self.strict)
    }

    pub(crate) fn pool(&self) -> Result<Arc<Pool>> {
        let n_cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Pool::new(if self.threads == 0 { n_cores() } else { self.threads })?)
    }

    /// The rule for cutting a file with this header into chunks.
    pub(crate) fn chunk_rule(&self, header: &Header) -> ChunkRule {
        let wanted = self.chunk_instrs.filter(|instrs| *instrs > 0);
        let has_marker = header.chunk_instrs > 0;
        let is_template = header.filetype.any(FileType::KERNEL_SYSCALL_TRACE_TEMPLATES);
        // Without the marker, the number of instructions in a chunk is unknown. Streams of several threads are older than
        // the marker, and so are the first versions.
        let may_have = has_marker || (header.version >= 2 && !header.is_mixed && !is_template);
        let is_archive = self.pack.packing == Packing::Zip;
        let marker = wanted.filter(|_| may_have);
        let instrs = match (is_archive, has_marker) {
            (false, _) => 0,
            (true, true) => marker.unwrap_or(header.chunk_instrs),
            (true, false) => marker.unwrap_or(0),
        };
        ChunkRule { instrs, marker, insert: !has_marker && is_archive && marker.is_some() }
    }
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions::new()
    }
}

/// The packing that is most like that of a trace's first file.
pub fn same_packing(trace: &DrmemTrace) -> Packing {
    let codec = trace.files().first().map_or(Codec::Zip, |file| file.container.codec());
    match codec {
        Codec::Zip | Codec::Zlib => Packing::Zip,
        Codec::Gzip => Packing::Gzip,
        Codec::Lz4 => Packing::Lz4,
        Codec::Snappy => Packing::Snappy,
        Codec::Zstd => Packing::Zstd,
        Codec::Plain | Codec::SnappyChunks | Codec::Brotli => Packing::Plain,
    }
}

/// Summary of one file.
#[derive(Clone, Debug)]
pub struct FileSummary {
    /// Name of the source file.
    pub source: String,
    /// Name of the output file; `None` if nothing was left.
    pub name: Option<String>,
    /// Amounts read, and the part of them that was not written; `None` for a file that was written from several files.
    pub taken: Option<Taken>,
    /// Amounts written.
    pub written: Counts,
    /// Number of bytes written.
    pub packed_bytes: u64,
    /// Members of the archive, else 1.
    pub members: u64,
    /// The number of records in it before the first damage of the source; `None` if the source is whole.
    pub doubtful_from: Option<u64>,
}

/// Amounts taken from a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Amounts read.
    pub read: Counts,
    /// Records that were read and not written, apart from those in `layout_records`.
    pub dropped_records: u64,
    /// Records that belong to the layout of the source files: footers of chunks, and, for a trace that is split in another
    /// way, headers of threads. The output has its own.
    pub layout_records: u64,
    /// Instructions that were read and not written.
    pub dropped_instrs: u64,
}

impl Taken {
    /// The sum of both.
    pub fn plus(self, other: Taken) -> Taken {
        Taken {
            read: self.read.plus(other.read),
            dropped_records: self.dropped_records + other.dropped_records,
            layout_records: self.layout_records + other.layout_records,
            dropped_instrs: self.dropped_instrs + other.dropped_instrs,
        }
    }
}

/// Summary of an edit.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// File by file: in the order of the source, or of threads or cores if the files are split by these.
    pub files: Vec<FileSummary>,
    /// Amounts taken from all of the source.
    pub taken: Taken,
    /// Findings about the source.
    pub findings: Vec<Finding>,
}

impl Summary {
    /// The summary of these files, each written from one of the source.
    fn of(files: Vec<FileSummary>, findings: Vec<Finding>) -> Summary {
        let taken = files.iter().filter_map(|file| file.taken).fold(Taken::default(), Taken::plus);
        Summary { files, taken, findings }
    }

    /// Total amounts written.
    pub fn written(&self) -> Counts {
        let kept = self.files.iter().filter(|file| file.name.is_some());
        kept.fold(Counts::default(), |sum, file| sum.plus(file.written))
    }

    /// Records that were written without having been read: those of the layout, such as headers and footers of chunks.
    pub fn made_records(&self) -> u64 {
        let Taken { read, dropped_records, layout_records, .. } = self.taken;
        (self.written().records + dropped_records + layout_records).saturating_sub(read.records)
    }

    /// Bytes of the traces that were written, without the files beside them.
    pub fn packed_bytes(&self) -> u64 {
        self.files.iter().filter(|file| file.name.is_some()).map(|file| file.packed_bytes).sum()
    }
}

/// Rewrites one file of a trace into `packer`.
///
/// # Errors
/// Errors of reading or writing, and damage of the source unless `options` keep the output of a damaged source; `Io` if
/// `progress` cancels it.
pub fn rewrite_file<W: Write + Seek, E: EntryEdit>(
    trace: &DrmemTrace,
    shard: usize,
    packer: Packer<W>,
    edit: E,
    options: &WriteOptions,
    progress: &dyn Progress,
) -> Result<(Rewritten<W>, Reading)> {
    rewrite_knowing(trace, shard, packer, edit, (options, None), progress)
}

/// As [`rewrite_file`]; `known` has the encodings that the file may lack.
fn rewrite_knowing<W: Write + Seek, E: EntryEdit>(
    trace: &DrmemTrace,
    shard: usize,
    packer: Packer<W>,
    edit: E,
    (options, known): (&WriteOptions, Option<&Arc<Known>>),
    progress: &dyn Progress,
) -> Result<(Rewritten<W>, Reading)> {
    let file = trace.files().get(shard).ok_or_else(|| Error::usage("the trace has no such file"))?;
    let rule = options.chunk_rule(&file.header);
    let verbatim_members = has_own_members(file) && options.pack.packing == Packing::Zip;
    let mut rewriter = Rewriter::new(packer, edit, rule)?.knowing(known.cloned());
    let mut intake = options.intake();
    let mut feed = Feed::new(trace, shard)?;
    let mut member = None;
    // A pipe is read once: of its members, only those before the current one proved good.
    let can_read_again = file.container.source().can_seek();
    let (mut so_far, mut member_at_hand) = (SoFar::default(), None);
    let in_file = |cause: Error| cause.in_file(&file.name);
    let raiser = options.version.map(|version| Raiser::new(&file.header, version)).transpose();
    let mut raiser = raiser.map_err(in_file)?.flatten();
    // A raised file has other records than its source.
    let mut counter = Counter::of(file);
    if raiser.is_none() {
        rewriter = rewriter.comparing(file);
    }
    if file.first_chunk() > 0 {
        rewriter.begin_without_first_chunk(&file.header)?;
    }
    let mut raised = Vec::new();
    while let Some(part) = feed.next(progress, so_far, &mut intake)? {
        if member_at_hand != Some(part.member) {
            member_at_hand = Some(part.member);
            so_far.n_vouched = so_far.n_written;
            so_far.n_agreed = so_far.n_written;
        }
        if verbatim_members && member != Some(part.member) {
            member = Some(part.member);
            if let Some(raiser) = &mut raiser {
                raised.clear();
                raiser.finish(&mut raised).map_err(in_file)?;
                rewriter.push(&raised)?;
            }
            let names = file.container.members();
            rewriter.member(names.get(part.member as usize).map_or("", |member| &member.name))?;
        }
        if let Some(raiser) = &mut raiser {
            counter.take(&part, file);
            raised.clear();
            raiser.push(part.entries, &mut raised).map_err(in_file)?;
            rewriter.push(&raised)?;
        } else {
            rewriter.begin(&part);
            rewriter.push(part.entries)?;
        }
        if let Some(fault) = rewriter.fault() {
            return Err(fault.in_file(&file.name));
        }
        so_far.n_written = rewriter.n_written();
        if can_read_again {
            so_far.n_vouched = so_far.n_written;
        }
    }
    let Some(mut raiser) = raiser else { return Ok((rewriter.finish(!verbatim_members)?, intake.finish())) };
    raised.clear();
    raiser.finish(&mut raised).map_err(in_file)?;
    rewriter.push(&raised)?;
    let mut rewritten = rewriter.finish(!verbatim_members)?;
    // The rewriter only saw the raised entries.
    rewritten.read.entries = raiser.n_read;
    rewritten.read.records += raiser.n_dropped;
    rewritten.read.instrs += raiser.n_dropped_instrs;
    rewritten.dropped_records += raiser.n_dropped;
    Ok((rewritten, intake.finish()))
}

/// True if the members of a file are independent sequences instead of chunks of one.
fn has_own_members(file: &File) -> bool {
    file.header.chunk_instrs == 0 && file.container.members().len() > 1
}

/// The entries of one file, part by part.
pub(crate) struct Feed {
    reader: Box<dyn quipu_model::Reader>,
    told_bytes: u64,
}

/// Some entries in a row.
pub(crate) struct Part<'a> {
    pub(crate) entries: &'a [Entry],
    pub(crate) member: u32,
    /// Offset of the first entry in the member.
    pub(crate) offset: u64,
    /// Whether damage was found right before, or within.
    pub(crate) is_after_damage: bool,
}

impl Feed {
    pub(crate) fn new(trace: &DrmemTrace, shard: usize) -> Result<Feed> {
        Feed::among(trace, shard, 1)
    }

    /// A feed for one of `n` files that are read at once and share the available memory.
    pub(crate) fn among(trace: &DrmemTrace, shard: usize, n: usize) -> Result<Feed> {
        let id = ShardId(shard as u32); // No folder holds 2^32 files.
        let scan = Scan::new(id).columns(Columns::RAW);
        let packed_bytes = trace.files().get(shard).and_then(|file| file.container.size_bytes());
        let scan = Scan {
            ahead: n <= MAX_READ_AHEAD && packed_bytes.is_none_or(|bytes| bytes >= WORTH_A_THREAD_BYTES),
            buffer_bytes: scan.buffer_bytes.min((SHARED_BUFFER_BYTES / n.max(1)).max(MIN_BUFFER_BYTES)),
            ..scan
        };
        Ok(Feed { reader: trace.scan(&scan)?, told_bytes: 0 })
    }

    /// The entries of the current part, once more.
    pub(crate) fn present(&mut self) -> &[Entry] {
        Entry::slice(self.reader.batch().raw()).0
    }

    /// The findings of the next part, for a caller that needs nothing else any more.
    fn rest(&mut self, progress: &dyn Progress) -> Result<Option<Vec<Finding>>> {
        if progress.is_cancelled() {
            return Err(interrupted());
        }
        Ok(self.reader.read()?.map(|batch| std::mem::take(&mut batch.findings)))
    }

    /// The next part that has entries. Findings go to `intake`, which may end reading; `so_far` is the amount written of the
    /// parts before.
    pub(crate) fn next(
        &mut self,
        progress: &dyn Progress,
        so_far: SoFar,
        intake: &mut Intake,
    ) -> Result<Option<Part<'_>>> {
        if progress.is_cancelled() {
            return Err(interrupted());
        }
        let mut is_after_damage = false;
        loop {
            let Some(batch) = self.reader.read()? else { return Ok(None) };
            is_after_damage |= batch.findings.iter().any(|finding| finding.severity == Severity::Error);
            if let Err(refused) = intake.take(&mut batch.findings, so_far) {
                return Err(intake.read_on(refused, || self.rest(progress)));
            }
            if !batch.raw.is_empty() {
                break;
            }
        }
        let bytes = self.reader.packed_bytes().unwrap_or(0);
        let batch = self.reader.batch();
        let entries = Entry::slice(batch.raw()).0;
        progress.advance(entries.len() as u64, bytes.saturating_sub(self.told_bytes));
        self.told_bytes = self.told_bytes.max(bytes);
        let (member, offset) = (batch.span.member, batch.span.offset);
        Ok(Some(Part { entries, member, offset, is_after_damage }))
    }
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Io, "interrupted: nothing was written")
}

/// Rewrites a trace: a file to a file, or a folder to a folder with a file for each that has something left, with both
/// schedule files and the files beside the traces.
///
/// `edit_of` gives the edit of each file, or `None` to leave it out. The output gets its name when all of it is complete.
///
/// # Errors
/// Errors of reading or writing, and damage of the trace unless `options` keep the output of a damaged source; `Usage` if
/// there is something at `path` that may not be replaced; `Io` if `progress` cancels it.
pub fn rewrite<E: EntryEdit>(
    trace: &DrmemTrace,
    source: &Source,
    path: &Path,
    options: &WriteOptions,
    edit_of: &(dyn Fn(usize) -> Option<E> + Sync),
    progress: &dyn Progress,
) -> Result<Summary> {
    with_all_damage(trace, options, progress, &|shard| edit_of(shard).is_some(), || {
        trace.check_lone()?;
        match source.is_folder() {
            true => rewrite_folder(trace, source, path, options, edit_of, progress),
            false => rewrite_lone(trace, path, options, &|| edit_of(0), progress),
        }
    })
}

fn rewrite_lone<E: EntryEdit>(
    trace: &DrmemTrace,
    path: &Path,
    options: &WriteOptions,
    edit: &dyn Fn() -> Option<E>,
    progress: &dyn Progress,
) -> Result<Summary> {
    let pool = options.pool()?;
    let (fresh, out) = Fresh::file(path, options.replace)?;
    let edit = || edit().ok_or_else(nothing_left);
    let (rewritten, reading) =
        rewrite_soundly(trace, 0, (&*out, path), &edit, &pool, options, None, progress)?;
    // A file without entries would not be a trace under its new name either.
    let is_empty = rewritten.read.entries == 0;
    let reading = reading.or_doubtful_from(judge_opening(trace, options)?);
    if is_empty || rewritten.written.records == 0 && rewritten.read.records > 0 {
        return Err(nothing_left_of(&reading));
    }
    let doubtful_from = reading.doubtful_from;
    let file =
        FileSummary { doubtful_from, ..summarise(&trace.files()[0], Some(last_part(path)), &rewritten) };
    drop(out);
    fresh.commit()?;
    Ok(Summary::of(vec![file], reading.findings))
}

fn rewrite_folder<E: EntryEdit>(
    trace: &DrmemTrace,
    source: &Source,
    path: &Path,
    options: &WriteOptions,
    edit_of: &(dyn Fn(usize) -> Option<E> + Sync),
    progress: &dyn Progress,
) -> Result<Summary> {
    let pool = options.pool()?;
    let wants_known = !E::IS_NONE && Known::is_needed(trace.files());
    let known = if wants_known { Some(Arc::new(Known::collect(trace, &pool, progress)?)) } else { None };
    let (fresh, folder) = Fresh::folder(path, options.replace, &folder::is_part_of_a_trace)?;
    let opened = damaged_at_opening(trace);
    let write_one = |shard: usize| -> Result<Option<One>> {
        let Some(edit) = edit_of(shard) else { return Ok(None) };
        let source = &trace.files()[shard];
        let name = edit.file_name(&renamed_file(source, options.pack.packing));
        let path = folder.join(&name);
        let out = folder.create(&path)?;
        let edit = || edit_of(shard).ok_or_else(nothing_left);
        let (rewritten, reading) =
            rewrite_soundly(trace, shard, (&*out, &path), &edit, &pool, options, known.as_ref(), progress)?;
        let is_empty = rewritten.read.entries == 0;
        let is_left = !is_empty && (E::IS_NONE || rewritten.written.instrs > 0 || rewritten.read.instrs == 0);
        let doubtful_from = earlier(reading.doubtful_from, opened.get(&source.name).copied());
        let summary = FileSummary { doubtful_from, ..summarise(source, is_left.then_some(name), &rewritten) };
        let schedule = rewritten.schedule;
        if !is_left {
            std::fs::remove_file(&path).map_err(|cause| cannot("remove", &path, cause))?;
        }
        Ok(Some(One { summary, findings: reading.findings, schedule: is_left.then_some(schedule) }))
    };
    let n_files = trace.files().len();
    let ones = side_by_side(n_files, pool.n_threads().min(MAX_FILES_AT_ONCE), &write_one)?;
    let (mut files, mut findings, mut schedules) = (Vec::new(), Vec::new(), Vec::new());
    for one in ones.into_iter().flatten() {
        files.push(one.summary);
        findings.extend(one.findings);
        schedules.extend(one.schedule);
    }
    let opened = judge_opening(trace, options)?;
    if schedules.is_empty() {
        let doubtful_from = files
            .iter()
            .filter_map(|file| file.doubtful_from)
            .fold(opened, |first, of| earlier(first, Some(of)));
        return Err(nothing_left_of(&Reading { findings, doubtful_from, ..Reading::default() }));
    }
    findings.extend(folder::write_schedules(&folder, schedules, &pool)?);
    folder::copy_beside(source, &folder)?;
    fresh.commit()?;
    Ok(Summary::of(files, findings))
}

/// Evaluates the findings from opening a trace, once all files are read, as reading describes the loss better. Returns the
/// record from which the output is doubtful.
///
/// # Errors
/// For damage, unless the output is kept.
pub(crate) fn judge_opening(trace: &DrmemTrace, options: &WriteOptions) -> Result<Option<u64>> {
    let mut intake = options.intake();
    intake.take(&mut trace.meta().findings.clone(), SoFar::default())?;
    Ok(intake.finish().doubtful_from)
}

/// The files that opening a trace found damaged, each with the number of records before the damage, which is 0. A missing
/// file makes all others doubtful.
fn damaged_at_opening(trace: &DrmemTrace) -> FxHashMap<String, u64> {
    let errors = trace.meta().findings.iter().filter(|finding| finding.severity == Severity::Error);
    let names: Vec<&str> = errors.filter_map(|finding| finding.place.file.as_deref()).collect();
    let files = || trace.files().iter().map(|file| &file.name);
    let concerns_all = names.iter().any(|name| files().all(|file| file != name));
    files().filter(|file| concerns_all || names.contains(&&***file)).map(|file| (file.clone(), 0)).collect()
}

/// Runs `work` on the files of a trace that `is_read` selects. An error about damage lists the damage in all of them, rather
/// than only in the file at which the work ended, in the words of a reader that counts records; the findings from opening
/// the trace come first.
pub(crate) fn with_all_damage<T>(
    trace: &DrmemTrace,
    options: &WriteOptions,
    progress: &dyn Progress,
    is_read: &dyn Fn(usize) -> bool,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let opening = &trace.meta().findings;
    work().map_err(|error| {
        if !error.is_damage() {
            return error;
        }
        // In strict runs only the first damage is reported, and a pipe was consumed.
        let can_read_again = trace.files().iter().all(|file| file.container.source().can_seek());
        let shards = (0..trace.files().len()).filter(|shard| is_read(*shard));
        let error = match options.strict || !can_read_again {
            true => error,
            false => of_all_files(trace, error, shards, progress),
        };
        match error.findings().starts_with(opening) {
            true => error,
            false => error.after(opening.clone()),
        }
    })
}

/// The same error with the findings of all these files in place of its own.
fn of_all_files(
    trace: &DrmemTrace,
    error: Error,
    shards: impl Iterator<Item = usize>,
    progress: &dyn Progress,
) -> Error {
    let mut found = Found::default();
    for shard in shards {
        // Raw entries are handed out uncounted; a reader that counts compares the numbers that chunks state.
        let scan = Scan::new(ShardId(shard as u32)).columns(Columns::NONE); // No folder holds 2^32 files.
        let go_on = |_: &mut Batch| if progress.is_cancelled() { Err(interrupted()) } else { Ok(()) };
        match trace.scan(&scan).and_then(|mut reader| found.read(&mut *reader, go_on)) {
            Err(end) if !end.is_damage() => return end,
            // The loss of the error itself is not repeated.
            Err(end) if end.to_string() != error.to_string() => found.push(Finding::of_end(&end)),
            Ok(()) | Err(_) => {}
        }
    }
    match found.is_empty() {
        true => error,
        false => error.with_findings(found.into_vec()),
    }
}

fn nothing_left() -> Error {
    Error::missing("nothing of the trace is left to write")
}

/// The error for an empty output, which may be due to damage of the whole source.
fn nothing_left_of(reading: &Reading) -> Error {
    reading.nothing_left().unwrap_or_else(nothing_left)
}

/// Rewrites one file to `out`, and repeats that if some of the output proved damaged later.
#[expect(clippy::too_many_arguments, reason = "two callers, which have all of these")]
fn rewrite_soundly<E: EntryEdit>(
    trace: &DrmemTrace,
    shard: usize,
    (mut out, path): (&std::fs::File, &Path),
    edit: &dyn Fn() -> Result<E>,
    pool: &Arc<Pool>,
    options: &WriteOptions,
    known: Option<&Arc<Known>>,
    progress: &dyn Progress,
) -> Result<(Rewritten<()>, Reading)> {
    let file = &trace.files()[shard];
    let mut is_again = false;
    settled_by(
        || file.n_delivered_damaged(),
        // A cancelled read is an error.
        || false,
        || {
            if std::mem::replace(&mut is_again, true) {
                let emptied = out.set_len(0).and_then(|()| out.rewind());
                emptied.map_err(|cause| cannot("write", path, cause))?;
            }
            let packer = Packer::new(BufWriter::with_capacity(BUFFER_BYTES, out), pool, &options.pack);
            let (rewritten, reading) =
                rewrite_knowing(trace, shard, packer, edit()?, (options, known), progress)?;
            let (mut written, rewritten) = rewritten.split();
            written.flush().map_err(|cause| cannot("write", path, cause))?;
            Ok((rewritten, reading))
        },
    )
}

/// The result for one file of a folder.
struct One {
    summary: FileSummary,
    findings: Vec<Finding>,
    schedule: Option<Recording>,
}

fn renamed_file(file: &File, packing: Packing) -> String {
    folder::renamed(crate::listing::file_name(file.container.source()), packing)
}

fn last_part(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn summarise<W>(source: &File, name: Option<String>, rewritten: &Rewritten<W>) -> FileSummary {
    let read = rewritten.read;
    let (dropped_records, kept) = match name {
        Some(_) => (rewritten.dropped_records, rewritten.written.instrs),
        None => (read.records.saturating_sub(rewritten.layout_records), 0),
    };
    let taken = Taken {
        read,
        dropped_records,
        layout_records: rewritten.layout_records,
        dropped_instrs: read.instrs.saturating_sub(kept),
    };
    FileSummary {
        source: source.name.clone(),
        name,
        taken: Some(taken),
        written: rewritten.written,
        packed_bytes: rewritten.packed.packed_bytes,
        members: rewritten.packed.members,
        doubtful_from: None,
    }
}

/// Flushes everything to the system, which may report only now that there is no room.
pub(crate) fn close(mut out: BufWriter<OutputFile>, path: &Path) -> Result<()> {
    out.flush().map_err(|cause| cannot("write", path, cause))
}

/// Runs `work` for 0, 1, … on several threads, and returns the results in that order, or the first error.
pub(crate) fn side_by_side<T: Send>(
    n: usize,
    n_threads: usize,
    work: &(dyn Fn(usize) -> Result<T> + Sync),
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<T>)>> = Mutex::new(Vec::with_capacity(n));
    std::thread::scope(|scope| {
        for _ in 0..n_threads.clamp(1, n.max(1)) {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= n {
                        return;
                    }
                    let result = work(i);
                    if result.is_err() {
                        // The rest is not needed.
                        next.store(n, Ordering::Relaxed);
                    }
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((i, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}
