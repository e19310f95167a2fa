//! Opening a trace: its files become shards, and its header becomes the trace's properties.

mod beside;
mod facts;
mod file;

use crate::cores::{self, CoreTrace};
use crate::header::Header;
use crate::listing::{self, Listing};
use crate::print::{MemrefPrinter, Versions};
use crate::raw::{MAX_LIST_BYTES, modules};
use crate::reader::EntryReader;
use crate::record::{ENTRY_BYTES, ENTRY_BYTES_32, FileType, Marker};
use crate::schedule::{self, Stretch};
use crate::table::tables;
use crate::{ALSO, CPU_SCHEDULE, INFO};
use beside::{SCHEDULE_FILE, Wanted, by_file, functions_of};
use facts::{columns, meta, shard};
pub use file::File;
pub(crate) use file::{chunk_number_of, n_delivered_damaged};
use file::{is_core_or_mixed, open_file};
use quipu_isa::Arch;
use quipu_model::finding::source_rule;
use quipu_model::schema::Schema;
use quipu_model::trace::{CoreForm, PrintOptions, Surveyed};
use quipu_model::{
    Columns, Error, ErrorKind, Finding, Found, Meta, Module, OpenOptions, Place, Printer, Reader, Result,
    Scan, Severity, Shard, ThreadId, Trace,
};
use quipu_source::Source;
use rustc_hash::{FxHashMap, FxHashSet};
use std::any::Any;
use std::borrow::Cow;
use std::collections::hash_map;
use std::sync::Arc;

/// An opened drmemtrace trace.
#[derive(Debug)]
pub struct DrmemTrace {
    files: Vec<Arc<File>>,
    shards: Vec<Shard>,
    meta: Meta,
    columns: Columns,
    serial_schedule: Option<Source>,
    cpu_schedule: Option<Source>,
    /// The module lists of all traces that are read together.
    module_lists: Vec<Source>,
    /// True if `cpu_schedule` was given by name rather than found beside the trace.
    is_schedule_named: bool,
    is_whole: bool,
    n_workloads: usize,
}

/// Opens the trace at `source`.
pub fn open(source: &Source, options: &OpenOptions) -> Result<DrmemTrace> {
    let opening = INFO.opening(options)?;
    let entry_bytes = if opening.word(&crate::ENTRY_BYTES) == "8" { ENTRY_BYTES_32 } else { ENTRY_BYTES };
    let mut listing = listing::list(source)?;
    let mut findings = std::mem::take(&mut listing.findings);
    let is_wanted = |header: &Header| {
        options.threads.is_empty()
            || is_core_or_mixed(header)
            || options.threads.contains(&ThreadId::from_packed(header.tid))
    };
    let (mut files, mut tids) = (Vec::new(), FxHashSet::default());
    let mut first_type = FileType::default();
    for (index, file) in listing.files.iter().enumerate() {
        if !options.shards.is_empty() && !options.shards.iter().any(|shard| *shard as usize == index) {
            continue;
        }
        let file = match open_file(file, entry_bytes, 0) {
            Ok(file) => file,
            // The carrier has lost the file of one thread; the others are complete.
            Err(error) if listing.files.len() > 1 && is_lost_by_carrier(&error) => {
                findings.extend(error.of_source().map(|cause| lost_file(&error, cause)));
                continue;
            }
            Err(error) => return Err(error),
        };
        tids.insert(file.header.tid);
        first_type = first_type.or(file.header.filetype);
        if is_wanted(&file.header) {
            findings.extend(file.findings());
            files.push(file);
        }
    }
    let mut functions = functions_of(&listing, 0, &mut findings);
    let also = opening.text(&ALSO).unwrap_or_default().split(':').filter(|path| !path.is_empty());
    let mut module_lists = Vec::from_iter(listing.modules.take());
    let mut n_workloads = 1;
    for path in also {
        if !options.shards.is_empty() {
            return Err(Error::unsupported("files of several traces together cannot be chosen"));
        }
        let workload = u16::try_from(n_workloads)
            .map_err(|_| Error::limit("traces together", n_workloads as u64 + 1, u64::from(u16::MAX) + 1))?;
        let mut further = listing::list(&Source::open(path.as_ref())?)?;
        findings.append(&mut further.findings);
        let mut further_type = FileType::default();
        for file in &further.files {
            let file = open_file(file, entry_bytes, workload)?;
            tids.insert(file.header.tid);
            further_type = further_type.or(file.header.filetype);
            if is_wanted(&file.header) {
                findings.extend(file.findings());
                files.push(file);
            }
        }
        check_alike((source.name(), first_type), (path, further_type))?;
        functions.append(&mut functions_of(&further, workload, &mut findings));
        module_lists.extend(further.modules);
        n_workloads += 1;
        // The files beside one trace do not cover the others.
        (listing.serial_schedule, listing.cpu_schedule) = (None, None);
    }
    if files.is_empty() {
        return Err(beside::nothing_of(&options.threads, &tids).in_file(source.name()));
    }
    findings.extend(repeated_files(&files));
    let shards = files.iter().enumerate().map(|(index, file)| shard(index, file)).collect();
    let filetype = FileType(files.iter().fold(0, |bits, file| bits | file.header.filetype.0));
    let columns = columns(filetype, &files);
    let is_complete = options.shards.is_empty() && n_workloads == 1;
    let is_complete = is_complete && source.is_folder();
    let has_threads = files.iter().all(|file| !is_core_or_mixed(&file.header));
    let has_cores = listing.files.len() == files.len()
        && files.iter().all(|file| file.header.filetype.any(FileType::CORE_SHARDED));
    let wanted = Wanted {
        threads: &options.threads,
        present: (is_complete && has_threads).then_some(&tids),
        cores: (is_complete && has_cores).then(|| listing.files.iter().map(listing::core_in_name).collect()),
    };
    let meta = meta(&files, filetype, columns, functions, findings, (&listing, &wanted));
    let is_whole = n_workloads == 1 && files.len() == listing.files.len();
    let Listing { serial_schedule, mut cpu_schedule, .. } = listing;
    let named = opening.path(&CPU_SCHEDULE);
    if let Some(path) = named {
        cpu_schedule = Some(Source::open(path)?);
    }
    Ok(DrmemTrace {
        files,
        shards,
        meta,
        columns,
        serial_schedule,
        cpu_schedule,
        module_lists,
        is_schedule_named: named.is_some(),
        is_whole,
        n_workloads,
    })
}

/// Reports files with the header of an earlier file: a thread begins once, so the later one is a copy. Its records are kept
/// and count twice, as in DynamoRIO's tools.
fn repeated_files(files: &[Arc<File>]) -> Vec<Finding> {
    let mut firsts: FxHashMap<(u64, u64, u64), &str> = FxHashMap::default();
    let mut found = Found::default();
    for file in files.iter().filter(|file| !is_core_or_mixed(&file.header)) {
        let Header { tid, pid, first_timestamp: Some(start), .. } = file.header else { continue };
        let first = match firsts.entry((tid, pid, start)) {
            hash_map::Entry::Occupied(first) => *first.get(),
            hash_map::Entry::Vacant(none) => {
                none.insert(&file.name);
                continue;
            }
        };
        let message = format!(
            "thread `{}` begins at `{start}` in `{first}` too: its records count twice",
            ThreadId::from_packed(tid)
        );
        let place = Place { file: Some(file.name.clone()), ..Place::default() };
        found.push(Finding::new("drmemtrace/repeated-file", Severity::Warning, place, message));
    }
    found.into_vec()
}

/// Checks that a further trace can be read with the first one, each given by name: code of one trace must not be decoded as
/// the other's, and threads must not be taken for cores.
///
/// # Errors
/// `Unsupported` for traces of several architectures, or of threads and of cores.
fn check_alike(first: (&str, FileType), further: (&str, FileType)) -> Result<()> {
    let arch = |filetype: FileType| filetype.arch().map_or("no known architecture", Arch::name);
    let sort = |filetype: FileType| match filetype.any(FileType::CORE_SHARDED) {
        true => "cores",
        false => "threads",
    };
    let ((name, filetype), (other_name, other)) = (first, further);
    // The first versions do not state the architecture, and have no code to decode.
    let is_without = |filetype: FileType| filetype.arch().is_none() && !filetype.any(FileType::ENCODINGS);
    if filetype.arch() != other.arch() && !is_without(filetype) && !is_without(other) {
        return Err(Error::unsupported(format!(
            "`{other_name}` is of {}, and `{name}` of {}: they cannot be read together",
            arch(other),
            arch(filetype)
        )));
    }
    if sort(filetype) != sort(other) {
        return Err(Error::unsupported(format!(
            "`{other_name}` has files of {}, and `{name}` of {}: they cannot be read together",
            sort(other),
            sort(filetype)
        )));
    }
    Ok(())
}

/// True if a file cannot be opened because of damage to its carrier.
fn is_lost_by_carrier(error: &Error) -> bool {
    error.of_source().is_some_and(|cause| cause.carrier().is_some())
}

/// The finding for a file that its carrier has lost.
fn lost_file(error: &Error, cause: &quipu_source::Error) -> Finding {
    let place = error.place().clone();
    Finding::new(source_rule(cause.kind()), Severity::Error, place, String::new()).by_carrier(cause)
}

impl DrmemTrace {
    /// The opened files, one for each shard.
    pub fn files(&self) -> &[Arc<File>] {
        &self.files
    }

    /// Checks that this is one trace rather than several read together.
    ///
    /// # Errors
    /// `Unsupported` for several traces.
    pub(crate) fn check_lone(&self) -> Result<()> {
        match self.n_workloads {
            1 => Ok(()),
            n => Err(Error::unsupported(format!("this is for one trace, and `{n}` are read together"))),
        }
    }

    /// True if each file gives its file type.
    pub fn is_typed(&self) -> bool {
        self.files.iter().all(|file| file.header.is_typed)
    }

    /// True if no file of the trace was left out.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// `serial_schedule.bin…`, if it lies beside the trace.
    pub fn serial_schedule(&self) -> Option<&Source> {
        self.serial_schedule.as_ref()
    }

    /// The threads that still run after `time`, each with the number of its instructions before it, from the schedule file
    /// that was given when the trace was opened.
    ///
    /// # Errors
    /// `Missing` if no schedule file was given, or no thread runs after `time`; `Unsupported` for files of several threads;
    /// errors of reading the file.
    pub fn instrs_before(&self, time: u64) -> Result<Vec<(ThreadId, u64)>> {
        self.check_lone()?;
        if self.files.iter().any(|file| file.holds_several_threads()) {
            return Err(Error::unsupported(
                "a schedule says where threads are whose files hold one thread each",
            ));
        }
        let Some(source) = self.cpu_schedule.as_ref().filter(|_| self.is_schedule_named) else {
            return Err(Error::missing(
                "where threads are at a given time stands in a schedule file, and none is named",
            ));
        };
        let mut stretches = named_stretches(source)?;
        stretches.sort_by_key(|stretch| (stretch.timestamp.get(), stretch.start_instr.get()));
        let mut by_thread: FxHashMap<u64, Vec<Stretch>> = FxHashMap::default();
        for stretch in stretches {
            by_thread.entry(stretch.thread.get()).or_default().push(stretch);
        }
        let before = |file: &Arc<File>| {
            let stretches = by_thread.get(&file.header.tid)?;
            let instrs = schedule::starts::instrs_before(file, stretches, time)?;
            Some((ThreadId::from_packed(file.header.tid), instrs))
        };
        let found: Vec<(ThreadId, u64)> = self.files.iter().filter_map(before).collect();
        if found.is_empty() {
            return Err(Error::missing(format!("no thread runs after `{time}`, as the schedule says"))
                .in_file(source.name()));
        }
        Ok(found)
    }

    /// `cpu_schedule.bin.zip`, if it lies beside the trace.
    pub fn cpu_schedule(&self) -> Option<&Source> {
        self.cpu_schedule.as_ref()
    }

    /// The stretches of threads on processors, from the trace's own markers; for threads without markers, from the file
    /// beside the trace.
    ///
    /// Markers take precedence because the file omits a thread's return to a processor that no other thread had in between.
    fn recorded_stretches(
        &self,
        beside: Option<&Source>,
        findings: &mut Vec<Finding>,
    ) -> Result<Vec<Stretch>> {
        let mut stretches = match cores::recorded(&self.files) {
            Ok(schedule) => schedule.cpus.into_values().flatten().collect(),
            // Too many to be kept; the data of the file is better than nothing.
            Err(error) if error.kind() == ErrorKind::Limit && beside.is_some() => Vec::new(),
            Err(error) => return Err(error),
        };
        let known: FxHashSet<u64> = stretches.iter().map(|stretch| stretch.thread.get()).collect();
        if self.files.iter().all(|file| known.contains(&file.header.tid)) {
            return Ok(stretches);
        }
        // The schedule file is normally optional; here the arrangement depends on it, so a fault in it is an error.
        for finding in findings.iter_mut().filter(|finding| finding.rule == SCHEDULE_FILE) {
            finding.severity = Severity::Error;
        }
        let Some(source) = beside else { return Ok(stretches) };
        // Opening the trace has already reported that it cannot be read.
        let members = schedule::read(source).unwrap_or_default();
        let n_known = stretches.len();
        let others = members.into_iter().flat_map(|(_, stretches)| stretches);
        stretches.extend(others.filter(|stretch| !known.contains(&stretch.thread.get())));
        if stretches.len() > n_known {
            findings.push(by_file(source));
        }
        Ok(stretches)
    }
}

/// The stretches of the schedule file that the user gave.
fn named_stretches(source: &Source) -> Result<Vec<Stretch>> {
    let members = schedule::read(source)?;
    let stretches: Vec<Stretch> = members.into_iter().flat_map(|(_, stretches)| stretches).collect();
    if stretches.is_empty() {
        return Err(Error::missing("the schedule names no stretch").in_file(source.name()));
    }
    Ok(stretches)
}

impl Trace for DrmemTrace {
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

    fn modules(&self) -> Vec<Module> {
        let read =
            |list: &Source| list.head(MAX_LIST_BYTES).map(|text| modules::modules(&modules::parse(&text)));
        self.module_lists.iter().filter_map(|list| read(list).ok()).flatten().collect()
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        let shard = self.shard(scan.shard)?;
        Ok(Box::new(EntryReader::new(self.files[shard.id.0 as usize].clone(), scan)?))
    }

    fn printer(&self, options: &PrintOptions) -> Result<Box<dyn Printer>> {
        let versions = self.files.iter().map(|file| file.header.version).collect();
        Ok(Box::new(MemrefPrinter::new(self.meta.arch, Versions::of(&self.files, versions), options)?))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn by_core(&self) -> Result<Box<dyn Trace>> {
        self.check_lone()?;
        if self.files.iter().any(|file| file.holds_several_threads()) {
            return Err(Error::unsupported(
                "files of this trace hold several threads or a core each already",
            ));
        }
        let mut meta = self.meta.clone();
        meta.arranged = self.shards.iter().map(|shard| shard.thread.unwrap_or_default()).collect();
        let stretches = match &self.cpu_schedule {
            Some(named) if self.is_schedule_named => named_stretches(named)?,
            beside => self.recorded_stretches(beside.as_ref(), &mut meta.findings)?,
        };
        Ok(Box::new(CoreTrace::new(&self.files, meta, self.columns, stretches)?))
    }

    fn core_form(&self) -> Option<&'static dyn CoreForm> {
        Some(&cores::FORM)
    }

    /// Headers suffice, except that the loss from damage found at opening is only known after reading.
    fn survey(&self, is_cancelled: &dyn Fn() -> bool) -> Surveyed {
        let mut surveyed = Surveyed::default();
        let is_open = |finding: &Finding| finding.severity == Severity::Error && finding.loss.is_none();
        if !self.meta.findings.iter().any(is_open) {
            return surveyed;
        }
        let mut found = Found::default();
        for shard in &self.shards {
            let mut read = || {
                let mut reader = self.scan(&Scan::new(shard.id).columns(Columns::NONE))?;
                found.read_until(&mut *reader, is_cancelled, |_| Ok(()))
            };
            if let Err(error) = read() {
                surveyed.error.get_or_insert(error);
            }
        }
        surveyed.findings = found.into_vec();
        surveyed
    }

    fn n_delivered_damaged(&self) -> u64 {
        n_delivered_damaged(&self.files)
    }

    fn mark_name(&self, kind: u32) -> Cow<'static, str> {
        mark_name(kind)
    }
}

/// The name of a kind of marker.
pub(crate) fn mark_name(kind: u32) -> Cow<'static, str> {
    match u16::try_from(kind).ok().and_then(|kind| Marker(kind).name()) {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(format!("marker {kind}")),
    }
}
