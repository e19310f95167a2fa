//! Opening a trace: its files become shards, its header becomes what the trace says of itself.

use crate::cores::{self, CoreTrace};
use crate::header::{self, Header};
use crate::listing::{self, Listing};
use crate::print::{MemrefPrinter, Versions};
use crate::reader::EntryReader;
use crate::record::{
    ENTRY_BYTES, ENTRY_BYTES_32, Entry, FileType, Marker, UNIX_EPOCH_MICROS, VERSION_BRANCH_INFO,
    VERSION_FREQUENT_TIMESTAMPS, of_workload,
};
use crate::schedule::{self, Stretch};
use crate::seams::Seams;
use crate::table::tables;
use crate::{ALSO, CPU_SCHEDULE, INFO, funclist, widen};
use quipu_isa::Arch;
use quipu_model::ThreadId;
use quipu_model::finding::source_rule;
use quipu_model::schema::Schema;
use quipu_model::trace::{Carries, Clock, CoreForm, Fact, Function, PrintOptions, Recorded, Surveyed};
use quipu_model::{
    Amount, Columns, Error, ErrorKind, Finding, Found, Loss, Meta, OpenOptions, Place, Printer, Reader,
    Result, Scan, Severity, Shard, ShardId, ShardKind, Trace,
};
use quipu_source::{Ahead, Container, Source, StreamOptions};
use rustc_hash::{FxHashMap, FxHashSet};
use std::any::Any;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, hash_map};
use std::ops::Range;
use std::sync::Arc;

/// How many bytes of a file are looked at for its header; a real one takes about 300.
const HEADER_BYTES: usize = 64 * ENTRY_BYTES;
/// How far is looked for a second thread: further than a tracer's buffers of 64 KiB reach when converted.
const MIXED_BYTES: usize = 1 << 20;
/// Chunks are joined into pieces of at least this many inflated bytes, so that a piece outweighs its set-up.
const MIN_PIECE_BYTES: u64 = 1 << 19;

/// One file of a trace, shared by the trace and its readers.
#[derive(Debug)]
pub struct File {
    /// The opened container.
    pub container: Container,
    /// Name of the file.
    pub name: String,
    /// What its first entries say.
    pub header: Header,
    /// Bytes of an entry on disk.
    pub entry_bytes: usize,
    /// Members of each piece.
    pub pieces: Vec<Range<usize>>,
    /// True if reading may start at any chunk.
    pub can_jump: bool,
    /// Which of several traces it belongs to, counted from 0. SPEC: drmemtrace.md#view.
    pub workload: u16,
    /// Whether its chunks count the same as its readers.
    pub(crate) seams: Seams,
}

/// An opened drmemtrace trace.
#[derive(Debug)]
pub struct DrmemTrace {
    files: Vec<Arc<File>>,
    shards: Vec<Shard>,
    meta: Meta,
    columns: Columns,
    serial_schedule: Option<Source>,
    cpu_schedule: Option<Source>,
    /// True if `cpu_schedule` was named, not found beside the trace.
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
        let file = open_file(file, entry_bytes, 0)?;
        tids.insert(file.header.tid);
        first_type = first_type.or(file.header.filetype);
        if is_wanted(&file.header) {
            findings.extend(file.findings());
            files.push(file);
        }
    }
    let mut functions = functions_of(&listing, 0, &mut findings);
    let also = opening.text(&ALSO).unwrap_or_default().split(':').filter(|path| !path.is_empty());
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
            further_type = further_type.or(file.header.filetype);
            if is_wanted(&file.header) {
                findings.extend(file.findings());
                files.push(file);
            }
        }
        check_alike((source.name(), first_type), (path, further_type))?;
        functions.append(&mut functions_of(&further, workload, &mut findings));
        n_workloads += 1;
        // What lies beside one of them says nothing of the others.
        (listing.serial_schedule, listing.cpu_schedule) = (None, None);
    }
    if files.is_empty() {
        return Err(
            Error::missing("no file of the trace has the threads or shards asked for").in_file(source.name())
        );
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
        is_schedule_named: named.is_some(),
        is_whole,
        n_workloads,
    })
}

/// Files whose headers are those of an earlier file: a thread begins once, so the later one is a copy. Their records stay, and
/// count twice, as in DynamoRIO's tools.
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

/// The functions that the list beside a trace names; a list that cannot be read is told.
fn functions_of(listing: &Listing, workload: u16, findings: &mut Vec<Finding>) -> Vec<Function> {
    match listing.functions.as_ref().map(funclist::read) {
        Some(Ok(mut functions)) => {
            functions.iter_mut().for_each(|function| function.workload = workload);
            functions
        }
        Some(Err(error)) => {
            findings.push(beside(&error, "drmemtrace/function-list"));
            Vec::new()
        }
        None => Vec::new(),
    }
}

/// Makes sure that a further trace can be read with the first one, each given by name: code of one trace must
/// not be decoded as the other's, nor threads be taken for cores.
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
    // The first versions do not say, and have no code to decode.
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

fn open_file(source: &Source, entry_bytes: usize, workload: u16) -> Result<Arc<File>> {
    let container = source.container()?;
    container.deliver_sound_only();
    let mut head = head(source, &container, HEADER_BYTES)?;
    if entry_bytes == ENTRY_BYTES_32 {
        head = widen::widened(&head);
    }
    let mut header = header::read(Entry::slice(&head).0);
    if header.chunk_instrs == 0 && head.len() >= HEADER_BYTES {
        // A stream of the first versions may hold several threads, which take turns after a buffer each.
        head = self::head(source, &container, MIXED_BYTES)?;
        if entry_bytes == ENTRY_BYTES_32 {
            head = widen::widened(&head);
        }
        header = header::read(Entry::slice(&head).0);
    }
    header.tid = of_workload(workload, header.tid);
    let name = source.name().to_owned();
    let (pieces, can_jump, seams) = (vec![container.all_members()], false, Seams::default());
    let mut file = Arc::new(File { container, name, header, entry_bytes, pieces, can_jump, workload, seams });
    let chunk_instrs = match file.lacks_first_chunk(Entry::slice(&head).0) {
        true => EntryReader::instrs_in_first_member(&file)?,
        false => None,
    };
    // Only this function holds it yet.
    if let Some(file) = Arc::get_mut(&mut file) {
        file.header.chunk_instrs = chunk_instrs.unwrap_or(file.header.chunk_instrs);
        file.can_jump = self::can_jump(&file.container, &file.header);
        file.pieces = self::pieces(&file.container, file.can_jump);
    }
    Ok(file)
}

/// The first bytes of a file: of its first member that holds something.
fn head(source: &Source, container: &Container, n_bytes: usize) -> Result<Vec<u8>> {
    let head = source.head(n_bytes)?;
    let members = container.members();
    let first = members.iter().position(|member| member.len != Some(0));
    let Some(first) = first.filter(|first| *first > 0 && head.is_empty() && source.can_seek()) else {
        return Ok(head);
    };
    let options = StreamOptions { ahead: Ahead::Inline, ..StreamOptions::default() };
    let mut stream = container.stream(first..first + 1, &options)?;
    let (mut head, mut block) = (Vec::new(), Vec::new());
    // Damage is reported by who reads the file.
    while head.len() < n_bytes && matches!(stream.next(&mut block), Ok(Some(_))) {
        head.extend_from_slice(&block);
    }
    head.truncate(n_bytes);
    Ok(head)
}

impl File {
    /// What opening it found wrong.
    fn findings(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> = self.container.damage().iter().map(container_finding).collect();
        findings.extend(self.header.findings(&self.name));
        findings
    }

    /// The number of the chunk that a member is, which its name says.
    pub fn chunk_number(&self, member: u32) -> u64 {
        let name = |at: u32| self.container.members().get(at as usize).map(|member| &*member.name);
        chunk_number_of(member, name(member))
    }

    /// True if the file begins with a chunk after the first, whose `head` gives its ordinal in place of a header.
    fn lacks_first_chunk(&self, head: &[Entry]) -> bool {
        self.header.stated.is_none()
            && self.chunk_number(self.first_member()) > 0
            && head.first().is_some_and(|first| first.is_marker(Marker::RECORD_ORDINAL))
    }

    /// The number of the first chunk that is there; the header stands in chunk 0.
    pub(crate) fn first_chunk(&self) -> u64 {
        match self.header.chunk_instrs > 0 && self.header.stated.is_none() {
            true => self.chunk_number(self.first_member()),
            false => 0,
        }
    }

    /// True if nothing is in a member.
    pub(crate) fn is_empty_member(&self, member: u32) -> bool {
        self.container.members().get(member as usize).is_some_and(|member| member.len == Some(0))
    }

    /// The first member that holds something; else the first.
    pub(crate) fn first_member(&self) -> u32 {
        let n_members = self.container.members().len() as u32; // No archive has 2^32 members.
        (0..n_members).find(|member| !self.is_empty_member(*member)).unwrap_or(0)
    }

    /// The last member before another that holds something.
    pub(crate) fn member_before(&self, member: u32) -> Option<u32> {
        (0..member).rev().find(|member| !self.is_empty_member(*member))
    }

    /// How many chunks are missing right before a member. Those whose members are empty are missing, too.
    pub(crate) fn n_missing_before(&self, member: u32) -> u64 {
        match self.member_before(member) {
            None => self.first_chunk(),
            Some(last) if self.header.chunk_instrs > 0 => {
                self.chunk_number(member).saturating_sub(self.chunk_number(last).saturating_add(1))
            }
            Some(_) => 0,
        }
    }

    /// How often bytes of the file proved damaged after they were delivered. Nothing of a pipe can be read again.
    pub(crate) fn n_delivered_damaged(&self) -> u64 {
        match self.container.source().can_seek() {
            true => self.container.n_delivered_damaged() + u64::from(self.seams.is_doubted()),
            false => 0,
        }
    }
}

/// The number of the chunk that a member of this name is; its position if the name says none.
pub(crate) fn chunk_number_of(member: u32, name: Option<&str>) -> u64 {
    let number = name.and_then(|name| name.strip_prefix("chunk.")?.parse().ok());
    // A number that is lower than the position is made up.
    number.filter(|number| *number >= u64::from(member)).unwrap_or(member.into())
}

/// How often bytes of files that can be read again proved damaged after they were delivered.
pub(crate) fn n_delivered_damaged(files: &[Arc<File>]) -> u64 {
    files.iter().map(|file| file.n_delivered_damaged()).sum()
}

fn is_core_or_mixed(header: &Header) -> bool {
    header.is_mixed || header.filetype.any(FileType::CORE_SHARDED)
}

/// True if reading may start at any member of a file.
///
/// It may at the chunks of a thread's file: each repeats the clock, the processor, its record ordinal and the encodings,
/// and holds a known number of instructions. What a chunk does not repeat is who runs (core-sharded and mixed files), open
/// kernel regions and the window: such files are read from the start.
fn can_jump(container: &Container, header: &Header) -> bool {
    container.members().len() > 1
        && header.chunk_instrs > 0
        && !header.has_windows
        && !is_core_or_mixed(header)
        && !header.filetype.has_kernel()
}

/// Splits the members of a file into runs that can be read independently.
fn pieces(container: &Container, can_jump: bool) -> Vec<Range<usize>> {
    let members = container.members();
    if !can_jump {
        return vec![container.all_members()];
    }
    let mut pieces = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, member) in members.iter().enumerate() {
        bytes += member.len.unwrap_or(MIN_PIECE_BYTES);
        if bytes >= MIN_PIECE_BYTES || index + 1 == members.len() {
            pieces.push(start..index + 1);
            (start, bytes) = (index + 1, 0);
        }
    }
    pieces
}

fn shard(index: usize, file: &File) -> Shard {
    let header = &file.header;
    let kind = if header.filetype.any(FileType::CORE_SHARDED) {
        ShardKind::Core
    } else if header.is_mixed {
        ShardKind::Mixed
    } else {
        ShardKind::Thread
    };
    Shard {
        id: ShardId(index as u32), // No folder holds 2^32 files.
        name: file.name.clone(),
        kind,
        thread: (kind != ShardKind::Core).then_some(ThreadId::from_packed(header.tid)),
        process: (kind != ShardKind::Core).then_some(header.pid),
        core: None,
        pieces: file.pieces.len() as u32, // At most one for each half megabyte.
        packed_bytes: file.container.size_bytes(),
    }
}

/// A broken file beside the trace is no reason not to read the trace.
fn beside(error: &Error, rule: &'static str) -> Finding {
    let (place, message) = (error.place().clone(), error.message().to_owned());
    Finding::new(rule, Severity::Warning, place, message)
}

fn container_finding(error: &quipu_source::Error) -> Finding {
    Finding {
        rule: source_rule(error.kind()).into(),
        severity: Severity::Error,
        place: Place::from(error),
        message: error.what().to_owned(),
        count: 1,
        loss: None,
        doubtful_from: None,
    }
}

fn has_branch_info(filetype: FileType, files: &[Arc<File>]) -> bool {
    !filetype.is_ifiltered() && files.iter().all(|file| file.header.version >= VERSION_BRANCH_INFO)
}

fn columns(filetype: FileType, files: &[Arc<File>]) -> Columns {
    let mut columns = Columns::RAW
        | Columns::ACCESSES
        | Columns::ACCESS_PC
        | Columns::ACCESS_FETCH
        | Columns::INSTRS
        | Columns::INSTR_CLASS
        | Columns::CALLS
        | Columns::THREADS
        | Columns::THREAD_CLOCK
        | Columns::THREAD_CPU
        | Columns::MARKS;
    if has_branch_info(filetype, files) {
        columns |= Columns::INSTR_TAKEN | Columns::INSTR_TARGET;
    }
    if filetype.any(FileType::ENCODINGS) {
        columns |= Columns::INSTR_CODE;
    }
    columns
}

/// What a trace with these file-type bits carries and lacks.
fn carries(filetype: FileType, columns: Columns, functions: &[Function]) -> Vec<Carries> {
    let has = |what, has, note| Carries::new(what, has, note);
    let data = !filetype.any(FileType::INSTRUCTION_ONLY);
    vec![
        has("instructions", true, if filetype.is_ifiltered() { "filtered" } else { "" }),
        has("data accesses", data, if data && filetype.is_dfiltered() { "filtered" } else { "" }),
        has(
            "encodings",
            filetype.any(FileType::ENCODINGS),
            if filetype.any(FileType::ARCH_REGDEPS) { "dependencies only" } else { "" },
        ),
        has("branch outcomes", columns.has(Columns::INSTR_TAKEN), ""),
        has("indirect targets", columns.has(Columns::INSTR_TARGET), ""),
        has("system call numbers", filetype.any(FileType::SYSCALL_NUMBERS), ""),
        has("blocking calls", filetype.any(FileType::BLOCKING_SYSCALLS), ""),
        has(
            "kernel code",
            filetype.has_kernel(),
            if filetype.any(FileType::KERNEL_SYSCALL_INSTR_ONLY) { "instructions only" } else { "" },
        ),
        has("function names", !functions.is_empty(), ""),
    ]
}

fn meta(
    files: &[Arc<File>],
    filetype: FileType,
    columns: Columns,
    functions: Vec<Function>,
    mut findings: Vec<Finding>,
    (listing, wanted): (&Listing, &Wanted<'_>),
) -> Meta {
    let versions = files.iter().map(|file| file.header.version);
    let mut versions: Vec<u64> = versions.filter(|version| header::is_possible_version(*version)).collect();
    versions.sort_unstable();
    versions.dedup();
    let mut facts = vec![
        Fact::new("filetype", "file type", format!("{:#x}", filetype.0)),
        Fact::new("filetype_names", "file type bits", filetype.names().collect::<Vec<_>>()),
    ];
    let first = |get: fn(&Header) -> Option<u64>| files.iter().find_map(|file| get(&file.header));
    if let Some(bytes) = first(|header| header.vector_bytes) {
        facts.push(Fact::new("vector_bytes", "vector length", bytes));
    }
    if let Some(chunk) = first(|header| Some(header.chunk_instrs).filter(|n| *n > 0)) {
        facts.push(Fact::new("chunk_instrs", "instructions per chunk", chunk));
    }
    if let Some(start) = files.iter().filter_map(|file| file.header.first_timestamp).min() {
        facts.push(Fact::new("first_timestamp", "first timestamp", start));
    }
    let containers: Vec<&str> = {
        let mut names: Vec<&str> = files.iter().map(|file| file.container.codec().name()).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    facts.push(Fact::new("containers", "containers", containers));
    facts.push(Fact::new(
        "chunks",
        "chunks",
        files.iter().map(|f| f.container.members().len()).sum::<usize>(),
    ));
    facts.extend(schedule_facts(listing, wanted, &mut findings));
    let inflated: Option<u64> = files
        .iter()
        .map(|file| match file.container.is_indexed() {
            true => file.container.members().iter().map(|member| member.len).sum::<Option<u64>>(),
            false => None,
        })
        .sum::<Option<u64>>();
    Meta {
        format: INFO.name.into(),
        title: title(filetype),
        // None is known where headers are damaged, which findings say.
        version: Some(versions.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
            .filter(|versions| !versions.is_empty()),
        arch: filetype.arch(),
        clock: Some(Clock {
            per_second: 1_000_000,
            unix_epoch: Some(UNIX_EPOCH_MICROS),
            frames_calls: files.iter().all(|file| file.header.version >= VERSION_FREQUENT_TIMESTAMPS),
        }),
        line_bytes: first(|header| header.line_bytes),
        page_bytes: first(|header| header.page_bytes),
        n_files: files.len() as u64,
        packed_bytes: files.iter().map(|file| file.container.size_bytes()).sum(),
        inflated_bytes: inflated,
        carries: carries(filetype, columns, &functions),
        instrs: if filetype.is_ifiltered() { Recorded::Filtered } else { Recorded::All },
        data: match (filetype.any(FileType::INSTRUCTION_ONLY), filetype.is_dfiltered()) {
            (true, _) => Recorded::Nothing,
            (false, true) => Recorded::Filtered,
            (false, false) => Recorded::All,
        },
        functions,
        arranged: Vec::new(),
        facts,
        findings,
    }
}

fn title(filetype: FileType) -> String {
    let mut title = String::from("instruction and memory trace");
    if filetype.any(FileType::INSTRUCTION_ONLY) {
        title = "instruction trace".to_owned();
    }
    if filetype.any(FileType::KERNEL_SYSCALL_TRACE_TEMPLATES) {
        title = "templates of kernel code".to_owned();
    }
    if filetype.any(FileType::CORE_SHARDED) {
        title.push_str(", one file per core");
    }
    title
}

/// The rule of schedule files that cannot be read.
const SCHEDULE_FILE: &str = "drmemtrace/schedule-file";

/// What to say where threads are arranged by the schedule file beside the trace.
fn by_file(source: &Source) -> Finding {
    Finding {
        rule: "drmemtrace/schedule-source".into(),
        severity: Severity::Note,
        place: Place { file: Some(source.name().to_owned()), ..Place::default() },
        message: "the trace's own processor markers do not tell where all threads ran; this file tells of the others"
            .to_owned(),
        count: 1,
        loss: None,
        doubtful_from: None,
    }
}

/// Which threads or cores should have files.
struct Wanted<'w> {
    /// Those that were chosen; all if empty.
    threads: &'w [ThreadId],
    /// Those that have files; `None` if files were left out.
    present: Option<&'w FxHashSet<u64>>,
    /// The numbers in the names of files of cores, where there are any; `None` if files are of threads, or were left out.
    cores: Option<Vec<Option<u64>>>,
}

impl Wanted<'_> {
    /// Threads of a schedule without files. Only files of threads say in their headers whose they are.
    fn missing_files(&self, source: &Source, members: &[(String, Vec<Stretch>)]) -> Option<Finding> {
        let present = self.present?;
        let mut missing: BTreeMap<u64, u64> = BTreeMap::new();
        for stretch in members.iter().flat_map(|(_, stretches)| stretches) {
            let tid = stretch.thread.get();
            let is_wanted = self.threads.is_empty() || self.threads.contains(&ThreadId::from_packed(tid));
            if is_wanted && !present.contains(&tid) {
                let n_instrs = missing.entry(tid).or_default();
                *n_instrs = stretch.start_instr.get().max(*n_instrs);
            }
        }
        let (first, n_instrs) = (missing.keys().next()?, missing.values().sum());
        let message = match missing.len() {
            1 => format!("thread `{first}` has no file"),
            n => format!("`{n}` threads have no files, the first of them `{first}`"),
        };
        let place = Place { file: Some(source.name().to_owned()), ..Place::default() };
        let loss = Loss { instrs: Amount::AtLeast(n_instrs), ..Loss::default() };
        Some(Finding::new(MISSING_FILE, Severity::Error, place, message).losing(loss))
    }
}

impl Wanted<'_> {
    /// Cores of a schedule without files. Files of cores do not say in their headers whose they are, and are only counted.
    fn missing_cores(&self, source: &Source, members: &[(String, Vec<Stretch>)]) -> Option<Finding> {
        let files = self.cores.as_ref()?;
        let stretches = members.iter().flat_map(|(_, stretches)| stretches);
        let cores: BTreeSet<u64> = stretches.map(|stretch| stretch.cpu.get()).collect();
        let n_missing = cores.len().checked_sub(files.len()).filter(|n| *n > 0)?;
        // The number of a core may be that of its file, or it is counted from 0 there.
        let absent: Vec<u64> = cores.iter().copied().filter(|core| !files.contains(&Some(*core))).collect();
        let message = match (n_missing, absent.first().filter(|_| absent.len() == n_missing)) {
            (1, Some(core)) => format!("core `{core}` has no file"),
            (n, Some(core)) => format!("`{n}` cores have no files, the first of them `{core}`"),
            (_, None) => format!("`{}` cores have stretches, and `{}` have files", cores.len(), files.len()),
        };
        let place = Place { file: Some(source.name().to_owned()), ..Place::default() };
        Some(Finding::new(MISSING_FILE, Severity::Error, place, message).losing(Loss::default()))
    }
}

/// The rule of files that should be there.
const MISSING_FILE: &str = "drmemtrace/missing-file";

/// What the schedule files beside the trace say; a broken one is a finding, not a failure.
fn schedule_facts(listing: &Listing, wanted: &Wanted<'_>, findings: &mut Vec<Finding>) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut read = |source: &Option<Source>| match source.as_ref().map(schedule::read) {
        Some(Ok(members)) => Some(members),
        Some(Err(error)) => {
            findings.push(beside(&error, SCHEDULE_FILE));
            None
        }
        None => None,
    };
    let serial = read(&listing.serial_schedule);
    let cpus = read(&listing.cpu_schedule);
    let named = [(&listing.serial_schedule, &serial), (&listing.cpu_schedule, &cpus)];
    let schedule = named.into_iter().find_map(|(source, members)| source.as_ref().zip(members.as_ref()));
    if let Some((source, members)) = schedule {
        findings.extend(wanted.missing_files(source, members));
        findings.extend(wanted.missing_cores(source, members));
    }
    if let Some(members) = serial {
        let n: usize = members.iter().map(|(_, stretches)| stretches.len()).sum();
        facts.push(Fact::new("serial_schedule_stretches", "stretches in the serial schedule", n));
    }
    if let Some(members) = cpus {
        let cpus = members.iter().filter(|(_, stretches)| !stretches.is_empty()).count();
        facts.push(Fact::new("schedule_cpus", "processors in the schedule", cpus));
    }
    facts
}

impl DrmemTrace {
    /// The opened files, one for each shard.
    pub fn files(&self) -> &[Arc<File>] {
        &self.files
    }

    /// Makes sure that this is one trace, and not several read together.
    ///
    /// # Errors
    /// `Unsupported` for several.
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

    /// The threads that still run after `time`, each with how many of its instructions come before it, as the schedule
    /// file says that was named when the trace was opened.
    ///
    /// # Errors
    /// `Missing` if no schedule file was named, or no thread runs after `time`; `Unsupported` for files of several
    /// threads; what reading the file says.
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

    /// Which thread ran where, as the trace's own markers tell; of threads without any, as the file beside the trace does.
    ///
    /// The markers come first because the file leaves out a thread's return to a processor that no other thread had in between.
    fn recorded_stretches(
        &self,
        beside: Option<&Source>,
        findings: &mut Vec<Finding>,
    ) -> Result<Vec<Stretch>> {
        let mut stretches = match cores::recorded(&self.files) {
            Ok(schedule) => schedule.cpus.into_values().flatten().collect(),
            // Too many to be kept: what the file has is better than nothing.
            Err(error) if error.kind() == ErrorKind::Limit && beside.is_some() => Vec::new(),
            Err(error) => return Err(error),
        };
        let known: FxHashSet<u64> = stretches.iter().map(|stretch| stretch.thread.get()).collect();
        if self.files.iter().all(|file| known.contains(&file.header.tid)) {
            return Ok(stretches);
        }
        // What is only beside the trace otherwise is what the arrangement comes from.
        for finding in findings.iter_mut().filter(|finding| finding.rule == SCHEDULE_FILE) {
            finding.severity = Severity::Error;
        }
        let Some(source) = beside else { return Ok(stretches) };
        // That it cannot be read was told when the trace was opened.
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

/// The stretches of a schedule that the user has named.
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

    /// Headers tell enough, but of damage that opening found only reading says what it loses.
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

impl File {
    /// True if the file holds several threads, one after the other or in turns.
    pub(crate) fn holds_several_threads(&self) -> bool {
        is_core_or_mixed(&self.header)
    }

    /// True if a thread has no business in the file: one that was taken for the file of another.
    pub(crate) fn is_stranger(&self, tid: u64) -> bool {
        !self.holds_several_threads() && self.header.is_header && tid != self.header.tid
    }

    /// Judges the thread that a raw entry names. Where it is none of the file's, the file is read again by a reader that knows
    /// records and says so, as with seams ([`crate::seams`]).
    pub(crate) fn meet_thread(&self, tid: u64) {
        if self.is_stranger(tid) {
            self.seams.doubt();
        }
    }

    /// The bytes of a block of the file as entries of 12 bytes.
    pub(crate) fn entries<'b>(&self, block: &'b [u8], wide: &'b mut Vec<u8>) -> &'b [u8] {
        if self.entry_bytes == ENTRY_BYTES {
            return block;
        }
        wide.clear();
        widen::widen(block, wide);
        wide
    }

    /// The pieces from the one that holds the instruction with this ordinal, counted from 0; `None` for all of them.
    pub(crate) fn pieces_from(&self, instr: u64) -> Option<Range<u32>> {
        if !self.can_jump || instr == 0 {
            return None;
        }
        let member = usize::try_from(instr / self.header.chunk_instrs).ok()?;
        let piece = self.pieces.partition_point(|members| members.end <= member);
        (piece < self.pieces.len()).then_some(piece as u32..self.pieces.len() as u32) // At most one for each half megabyte.
    }
}
