//! What a trace format offers: recognise, open, describe, split into shards, read.

use crate::batch::Batch;
use crate::code::SharedCodes;
use crate::columns::Columns;
use crate::convert::RecordWriter;
use crate::error::{Error, Result};
use crate::finding::{Finding, RuleInfo};
use crate::options::{Given, OptionSpec, Options};
use crate::pass::Tool;
use crate::predicate::Condition;
use crate::print::{Printer, RowForm};
use crate::result;
use crate::schema::{Schema, Text};
use crate::table::TableBuf;
use crate::thread::ThreadId;
use crate::transform::{Comparison, Transform};
use quipu_isa::Arch;
use quipu_source::{Ahead, Source, StreamOptions};
use serde::Serialize;
use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// One trace format, as one static value. The program knows formats only through this.
pub trait Format: Sync {
    /// Name, title and options.
    fn info(&self) -> &'static FormatInfo;

    /// Says how sure this format is that `source` is one of its traces; reads a few bytes at most.
    fn probe(&self, source: &Source) -> Confidence;

    /// The same for a source that no format recognises by its first bytes: only those pay for a look at megabytes.
    fn probe_far(&self, source: &Source) -> Confidence {
        let _ = source;
        Confidence::No
    }

    /// Opens a trace: reads headers, not records.
    fn open(&self, source: &Source, options: &OpenOptions) -> Result<Box<dyn Trace>>;

    /// True if a file of this name in a folder is taken for a part of one of its traces, whatever it holds.
    fn claims(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// The folder whose files are read where `folder` is opened: itself, or one that lies in it.
    fn folder_read(&self, folder: &Source) -> Source {
        folder.clone()
    }

    /// Analyses that need this format's native records.
    fn tools(&self) -> &'static [&'static dyn Tool] {
        &[]
    }

    /// True if traces of the format may carry those of others: see [`Format::carried`].
    fn carries(&self) -> bool {
        false
    }

    /// The traces of other formats that `source` carries and that are all it has; none if it is a trace of this format.
    ///
    /// # Errors
    /// What reading says.
    fn carried(&self, source: &Source) -> Result<Vec<Carried>> {
        let _ = source;
        Ok(Vec::new())
    }

    /// Files outside of `source` that opening it reads, too. They go along where the trace is put elsewhere.
    ///
    /// # Errors
    /// What reading says.
    fn beside(&self, source: &Source) -> Result<Vec<Source>> {
        let _ = source;
        Ok(Vec::new())
    }

    /// What a trace says of itself record by record, where it describes itself.
    ///
    /// # Errors
    /// `Unsupported` if traces of the format do not; what opening says.
    fn describe(&self, source: &Source, options: &OpenOptions) -> Result<Description> {
        let _ = options;
        let message = format!("traces of format {} do not describe themselves", self.info().name);
        Err(Error::unsupported(message).in_file(source.name()))
    }

    /// What can be made of its traces: parts, edits, texts, by the names of the verbs.
    fn transforms(&self) -> &'static [&'static dyn Transform] {
        &[]
    }

    /// How two of its traces are compared, if that is known.
    fn comparison(&self) -> Option<&'static dyn Comparison> {
        None
    }

    /// How it takes records of other formats, if it can.
    fn record_writer(&self) -> Option<&'static dyn RecordWriter> {
        None
    }

    /// How records of any format are run through its back ends, which write a folder, if it has such. Traces of its own are run
    /// by its transform of the name `run`.
    fn runner(&self) -> Option<&'static dyn RecordWriter> {
        None
    }

    /// The rules that its traces must follow, in the order of the manual: all that findings may name, and all that the
    /// tool `check` looks at.
    fn rules(&self) -> &'static [RuleInfo] {
        &[]
    }
}

/// A trace that another one carries.
#[derive(Clone, Debug)]
pub struct Carried {
    /// Name of its format, if that is said.
    pub format: Option<String>,
    /// Its bytes.
    pub source: Source,
    /// What is wrong with what carries it, as far as that is known without reading what is carried.
    pub findings: Arc<[Finding]>,
    /// Reading says of all that is lost where it stood: other findings are about nothing that is missing.
    pub is_counted: bool,
}

/// What [`Format::describe`] gives.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// For people: a line for each record.
    pub text: String,
    /// For programs.
    pub json: serde_json::Value,
    /// What is wrong with it.
    pub findings: Vec<Finding>,
}

/// What is known of a format without opening a trace.
#[derive(Debug)]
pub struct FormatInfo {
    /// Short name, as on the command line.
    pub name: &'static str,
    /// One line for people.
    pub title: &'static str,
    /// Usual endings of file names.
    pub extensions: &'static [&'static str],
    /// What its traces may hold that no lens shows, so that no other format gets it: for the ledger of conversions.
    pub beyond_lenses: &'static [&'static str],
    /// The page that describes the format, relative to the repository's root.
    pub doc: &'static str,
    /// Options with which its traces are opened.
    pub options: &'static [OptionSpec],
    /// Options with which its records are printed.
    pub print_options: &'static [OptionSpec],
}

impl FormatInfo {
    /// Checks what a trace is to be opened with.
    ///
    /// # Errors
    /// As [`Options::parse`].
    pub fn opening(&self, options: &OpenOptions) -> Result<Options> {
        Options::parse(&format!("format {}", self.name), self.options, &options.given)
    }

    /// Makes sure that a source is one file, for formats whose traces are.
    ///
    /// # Errors
    /// `Unsupported` for a folder.
    pub fn refuse_folder(&self, source: &Source) -> Result<()> {
        if source.is_folder() {
            let what = format!("a trace of format {} is a file", self.name);
            return Err(Error::unsupported(what).in_file(source.name()));
        }
        Ok(())
    }

    /// Checks what records are to be printed with.
    ///
    /// # Errors
    /// As [`Options::parse`].
    pub fn printing(&self, options: &PrintOptions) -> Result<Options> {
        Options::parse(&format!("format {}", self.name), self.print_options, &options.given)
    }
}

/// How sure a format is that a source is one of its traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// It is not.
    No,
    /// Nothing speaks against it; a name or a lone header field speaks for it.
    Maybe,
    /// It has no mark, but its values make sense, one after the other.
    Likely,
    /// The content says so.
    Sure,
}

/// How to open a trace.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Name of the format to read the source as, whatever it looks like; if `None`, the format that recognises it.
    pub format: Option<String>,
    /// Options for the format; see [`FormatInfo::options`].
    pub given: Given,
    /// Only these threads (all if empty).
    pub threads: Vec<ThreadId>,
    /// Only these shards, by position (all if empty).
    pub shards: Vec<u32>,
}

/// An opened trace: what it is, what it can show, how it splits. Cheap to open, immutable, shared by threads.
pub trait Trace: Send + Sync {
    /// What the trace says of itself.
    fn meta(&self) -> &Meta;

    /// The parts that can be read alone, in the trace's own order.
    fn shards(&self) -> &[Shard];

    /// One of them.
    ///
    /// # Errors
    /// `Usage` if the trace has no such shard.
    fn shard(&self, id: ShardId) -> Result<&Shard> {
        let shard = self.shards().get(id.0 as usize);
        shard.ok_or_else(|| Error::usage(format!("the trace has no shard {}", id.0)))
    }

    /// The lens columns that this very trace can fill.
    fn columns(&self) -> Columns;

    /// The native tables, as far as they are known now; scans name them by their positions.
    ///
    /// # Errors
    /// What reading says, where a schema has to be read first.
    fn tables(&self) -> Result<Vec<Arc<Schema>>>;

    /// Learns the tables that only reading the whole trace teaches; [`tables`](Trace::tables) lists them from then on, after
    /// those that it had. Nothing for formats without such.
    ///
    /// # Errors
    /// `Unsupported` for what can be read only once; what reading says.
    fn learn(&self) -> Result<()> {
        Ok(())
    }

    /// The tables that say field by field what rows of this one say, by their positions: each row of it has at most one such row,
    /// which has the same number of its record. Rows are chosen by what stands there, too ([`Sieve`](crate::Sieve)).
    fn details(&self, _table: usize) -> Range<usize> {
        0..0
    }

    /// Starts one sequential read.
    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>>;

    /// Prints records as people read them; prints rows of the first *derived* table.
    fn printer(&self, options: &PrintOptions) -> Result<Box<dyn Printer>>;

    /// The part of the trace outside which nothing is printed with these options, where the trace knows a quick way to
    /// it.
    ///
    /// # Errors
    /// `Usage` if an option is wrong.
    fn narrow(&self, _options: &PrintOptions) -> Result<Window> {
        Ok(Window::All)
    }

    /// Prints records as JSON objects, one a line, where a record has more to it than the columns of a table.
    fn json_printer(&self, _options: &PrintOptions) -> Result<Option<Box<dyn Printer>>> {
        Ok(None)
    }

    /// How rows of tables are chosen, and values in them written, where the schema does not say all of it.
    ///
    /// # Errors
    /// `Usage` if an option is wrong.
    fn row_form(&self, _options: &PrintOptions) -> Result<Option<Box<dyn RowForm>>> {
        Ok(None)
    }

    /// Reads the whole trace once for what its header does not say, where that is quick and the header says little; nothing
    /// for formats whose headers say enough. If `is_cancelled` becomes true, facts are about the part before. Callers want
    /// [`surveyed`].
    fn survey(&self, _is_cancelled: &dyn Fn() -> bool) -> Surveyed {
        Surveyed::default()
    }

    /// The concrete trace, for tools of its own format.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// The trace whose records this one delivers in another order, or in part; `None` for one that reads files itself.
    fn origin(&self) -> Option<&dyn Trace> {
        None
    }

    /// The same records arranged by the cores that they ran on, as recorded: each shard is a core. A core that rests has
    /// no records for it.
    ///
    /// # Errors
    /// `Unsupported` or `Missing` where the trace does not tell which cores its threads ran on.
    fn by_core(&self) -> Result<Box<dyn Trace>> {
        Err(Error::unsupported(format!("traces of format {} cannot be arranged by core", self.meta().format)))
    }

    /// Reads all shards at once, as cores that run side by side, where only that makes sense: where one scheduler decides
    /// what each of them runs. `None` where shards are read by themselves. A window of instructions or of time is one of each
    /// thread that the scheduler is given.
    ///
    /// # Errors
    /// As for [`scan`](Trace::scan).
    fn rounds(&self, scan: &Scan) -> Result<Option<Box<dyn Rounds + '_>>> {
        let _ = scan;
        Ok(None)
    }

    /// How native records of threads become those of cores; `None` if there is no such form, so that what schedules
    /// threads onto cores has no native records.
    fn core_form(&self) -> Option<&'static dyn CoreForm> {
        None
    }

    /// How often readers of this trace have delivered what proved damaged later, by a checksum after it. If it grows while
    /// the trace is read, whatever was made of the batches is worth nothing; the same scans, begun anew, leave the damage out.
    fn n_delivered_damaged(&self) -> u64 {
        0
    }

    /// The programs and libraries that the traced processes had in memory, as far as the trace says it; nothing for formats
    /// that do not. What is wrong with such a list leaves it short.
    fn modules(&self) -> Vec<Module> {
        self.origin().map_or_else(Vec::new, Trace::modules)
    }

    /// The name of a kind of mark.
    fn mark_name(&self, kind: u32) -> Cow<'static, str> {
        Cow::Owned(format!("mark {kind}"))
    }
}

/// A program or library, or one part of it, where it lay while it was traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its bytes in memory.
    pub addresses: Range<u64>,
    /// What leads from these addresses to those of its file.
    pub placed: Placed,
    /// Its file, on the machine that was traced.
    pub path: PathBuf,
}

/// How addresses of a file became those of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// This was added to each.
    By(u64),
    /// The lowest of them came here.
    From(u64),
}

/// Said where a part of a trace has nothing of the threads that were chosen.
pub const PARTS_COUNT_ALL: &str =
    "where a file holds several threads, parts count the records of all; take it apart first: quipu split";

/// Reads something, and once more without the damage if some of what was read proved damaged later
/// ([`Trace::n_delivered_damaged`]); what comes of the read before is dropped. Each read finds all damage that the one before has
/// let it reach, so this ends. A read that was cancelled is not begun anew.
///
/// # Errors
/// Those of `read`.
pub fn settled<T, E>(
    trace: &(impl Trace + ?Sized),
    is_cancelled: impl Fn() -> bool,
    read: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    settled_by(|| trace.n_delivered_damaged(), is_cancelled, read)
}

/// What only reading a whole trace shows ([`Trace::survey`]), without what proved damaged later.
pub fn surveyed(trace: &(impl Trace + ?Sized), is_cancelled: &dyn Fn() -> bool) -> Surveyed {
    let read = || Ok::<_, Infallible>(trace.survey(is_cancelled));
    let Ok(surveyed) = settled(trace, is_cancelled, read);
    surveyed
}

/// The same for a part of a trace, such as one of its files: `n_damaged` says how often that delivered what proved damaged.
///
/// # Errors
/// Those of `read`.
pub fn settled_by<T, E>(
    n_damaged: impl Fn() -> u64,
    is_cancelled: impl Fn() -> bool,
    mut read: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    loop {
        let before = n_damaged();
        let done = read()?;
        if n_damaged() == before || is_cancelled() {
            return Ok(done);
        }
    }
}

/// How native records look in a file of a core that several threads run on.
pub trait CoreForm: Send + Sync {
    /// Writes what stands before the records of a thread that the core turns to; nothing if they begin with a header, which
    /// names the thread.
    fn turn(&self, thread: ThreadId, process: u64, records: &[u8], out: &mut Vec<u8>);

    /// Writes one record of a core that rests.
    fn rest(&self, out: &mut Vec<u8>);

    /// Makes records of a thread those of this core, with clock readings replaced by `clock` if there is one.
    fn adopt(&self, records: &mut [u8], core: u64, clock: Option<u64>);

    /// The same for the last `n` rows of a native table, which get the ordinals of `at`.
    fn adopt_rows(&self, rows: &mut dyn TableBuf, n: usize, at: CoreRow);

    /// Appends one row of a core that rests to a native table.
    ///
    /// # Errors
    /// `Unsupported` for a table without such rows.
    fn rest_row(&self, rows: &mut dyn TableBuf, at: CoreRow) -> Result<()>;
}

/// Where a row of a native table stands once its record is one of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreRow {
    /// Its record, counted from 1.
    pub record: u64,
    /// Instructions up to and including that record.
    pub instr: u64,
    /// The core.
    pub core: u64,
    /// The core's clock, where the record is a clock reading.
    pub clock: Option<u64>,
}

/// How to print records.
#[derive(Clone, Debug, Default)]
pub struct PrintOptions {
    /// Syntax of disassembly; the architecture's usual one if `None`.
    pub syntax: Option<quipu_isa::Syntax>,
    /// Whether to print what is usually left out.
    pub verbose: bool,
    /// Options for the format; see [`FormatInfo::print_options`].
    pub given: Given,
}

/// What a trace says of itself.
#[derive(Clone, Debug, Default)]
pub struct Meta {
    /// Name of the format.
    pub format: Text,
    /// One line for people: what sort of trace it is.
    pub title: String,
    /// Version of the format, in its own words.
    pub version: Option<String>,
    /// Architecture of the instructions, if known.
    pub arch: Option<Arch>,
    /// What the clock counts.
    pub clock: Option<Clock>,
    /// Bytes in a cache line of the traced machine.
    pub line_bytes: Option<u64>,
    /// Bytes in a page of the traced machine.
    pub page_bytes: Option<u64>,
    /// How many files there are.
    pub n_files: u64,
    /// Size as the container has it, which progress is measured by, if known.
    pub packed_bytes: Option<u64>,
    /// Size on disk, if known and another one: where the trace stands in a stream, that of its frames.
    pub disk_bytes: Option<u64>,
    /// Size of the inflated streams, if the containers say it.
    pub inflated_bytes: Option<u64>,
    /// Traced functions and system calls with their names.
    pub functions: Vec<Function>,
    /// The threads that were arranged onto cores, in the order of their files; empty if shards are files themselves.
    pub arranged: Vec<ThreadId>,
    /// Further facts, in the format's own words.
    pub facts: Vec<Fact>,
    /// What the trace carries and what it lacks.
    pub carries: Vec<Carries>,
    /// How many of the instructions that were executed the trace has.
    pub instrs: Recorded,
    /// How many of the accesses to data it has.
    pub data: Recorded,
    /// Whether its writer has ended it, if traces of the format say so; it may still be written.
    pub is_ended: Option<bool>,
    /// What was odd when opening.
    pub findings: Vec<Finding>,
}

/// What reading a whole trace told of it.
#[derive(Debug, Default)]
pub struct Surveyed {
    /// Facts, in the format's own words.
    pub facts: Vec<Fact>,
    /// What was odd.
    pub findings: Vec<Finding>,
    /// What kept it from being read to its end; facts are about the part before.
    pub error: Option<Error>,
}

/// What a clock counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Clock {
    /// Ticks in a second.
    pub per_second: u64,
    /// The clock's value at the start of 1970 UTC, if it tells the time of day.
    pub unix_epoch: Option<u64>,
    /// Whether readings stand before and after each system call, so that its latency is known.
    #[serde(skip)]
    pub frames_calls: bool,
}

/// A traced function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Function {
    /// The trace's id.
    pub id: u64,
    /// Its names; several if they are aliases, sorted.
    pub names: Vec<String>,
    /// How many arguments are recorded.
    #[serde(rename = "args")]
    pub n_args: u64,
    /// True if it never returns.
    pub noret: bool,
    /// Which of several traces names it, counted from 0: each has ids of its own.
    #[serde(skip_serializing_if = "is_first")]
    pub workload: u16,
}

/// Whether a workload is the first one, which JSON does not mention.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_first(workload: &u16) -> bool {
    *workload == 0
}

/// One fact about a trace.
#[derive(Clone, Debug)]
pub struct Fact {
    /// Stable name, as in JSON.
    pub key: Text,
    /// Label for people.
    pub label: Text,
    /// The value.
    pub value: serde_json::Value,
    /// The value is a number that counting reached when it ended; there may be more.
    pub is_least: bool,
}

impl Fact {
    /// A fact that is known.
    pub fn new(key: impl Into<Text>, label: impl Into<Text>, value: impl Serialize) -> Fact {
        Fact { key: key.into(), label: label.into(), value: result::json(&value), is_least: false }
    }

    /// A count, if counting ends at `limit`.
    pub fn counted_up_to(key: impl Into<Text>, label: impl Into<Text>, n: u64, limit: u64) -> Fact {
        Fact { is_least: n >= limit, ..Fact::new(key, label, n) }
    }

    /// The value for programs: of a number that may be more, an object with `at_least`.
    pub fn json(&self) -> serde_json::Value {
        if self.is_least {
            result::json(&BTreeMap::from([("at_least", &self.value)]))
        } else {
            self.value.clone()
        }
    }
}

/// How much of what happened a trace has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recorded {
    /// All of it.
    #[default]
    All,
    /// What missed a small cache that was simulated while tracing.
    Filtered,
    /// Nothing.
    Nothing,
}

impl Recorded {
    /// The stable name, as output uses it.
    pub const fn name(self) -> &'static str {
        match self {
            Recorded::All => "all",
            Recorded::Filtered => "filtered",
            Recorded::Nothing => "nothing",
        }
    }
}

crate::result_names!(Recorded);

/// What a trace lacks that was filtered while it was traced, as the beginning of a sentence; `None` if nothing was.
pub fn filtered_sentence(fetches: Recorded, data: Recorded) -> Option<String> {
    let what = match (fetches, data) {
        (Recorded::Filtered, Recorded::Filtered) => "fetches and accesses to data",
        (Recorded::Filtered, _) => "fetches",
        (_, Recorded::Filtered) => "accesses to data",
        _ => return None,
    };
    Some(format!("filtered while it was traced: {what} that a small cache had are not in it"))
}

/// One sort of information that a trace may carry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Carries {
    /// Stable name: `data-accesses`, `encodings`, …
    pub what: Text,
    /// Whether this trace has it.
    pub has: bool,
    /// A word on how or why, or empty.
    pub note: Text,
}

impl Carries {
    /// One sort of information, whether the trace has it, and a note.
    pub fn new(what: impl Into<Text>, has: bool, note: impl Into<Text>) -> Carries {
        Carries { what: what.into(), has, note: note.into() }
    }
}

/// Number of a shard: its position in [`Trace::shards`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u32);

/// What the records of a shard have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShardKind {
    /// One thread.
    #[default]
    Thread,
    /// One core, with the threads that ran on it.
    Core,
    /// Several threads in one stream.
    Mixed,
}

impl ShardKind {
    /// The stable name, as output uses it.
    pub const fn name(self) -> &'static str {
        match self {
            ShardKind::Thread => "thread",
            ShardKind::Core => "core",
            ShardKind::Mixed => "mixed",
        }
    }
}

crate::result_names!(ShardKind);

/// The smallest part of a trace that is complete in itself.
#[derive(Clone, Debug, Default)]
pub struct Shard {
    /// Its number.
    pub id: ShardId,
    /// Name for people: the file.
    pub name: String,
    /// What its records have in common.
    pub kind: ShardKind,
    /// Its first (often only) thread, if known.
    pub thread: Option<ThreadId>,
    /// The process of that thread, if known.
    pub process: Option<u64>,
    /// Number of the core, if it is one and its number is known.
    pub core: Option<u64>,
    /// How many pieces can be read independently (at least 1). A core is read as one, whatever this says.
    pub pieces: u32,
    /// Size on disk, if known.
    pub packed_bytes: Option<u64>,
    /// A reading of the trace's clock that none of its records comes before, if one is known without reading them.
    pub begins: Option<u64>,
    /// What tells it from other shards while the trace grows, if its name may change then.
    pub key: Option<u128>,
}

impl Shard {
    /// The number by which results call the core, if the shard is one: its own, or that of the shard if it is not known.
    pub fn core_number(&self) -> Option<u64> {
        (self.kind == ShardKind::Core).then(|| self.core.unwrap_or(u64::from(self.id.0)))
    }
}

/// What to read: one sequential read over one shard, producing only what was asked for.
#[derive(Clone, Debug)]
pub struct Scan {
    /// Which shard.
    pub shard: ShardId,
    /// Which pieces of it; all if `None`. A range that is not all excludes a window.
    pub pieces: Option<Range<u32>>,
    /// Lens columns to fill, and whether raw bytes are wanted.
    pub columns: Columns,
    /// Tables to fill, as positions in [`Trace::tables`].
    pub tables: Vec<usize>,
    /// The part of the shard wanted.
    pub window: Window,
    /// How many records of the window to read at most. What a jump into the middle repeats on top does not count.
    pub most: u64,
    /// Whether to count what no lens shows, for [`Batch::beyond`].
    pub beyond: bool,
    /// What rows of the table or lens must have to be of use: a reader may leave out others, if it knows a way not to read
    /// them. All that is said of records stays, and with it the positions of the rows that are left.
    pub only: Vec<Condition>,
    /// Where batches end.
    pub cut: Cut,
    /// Most records in a batch.
    pub batch_records: u32,
    /// Whether decompression runs ahead on threads of its own; pointless where other shards keep all cores busy.
    pub ahead: bool,
    /// How many bytes of buffers the read may use, about; readers of many shards at once get little.
    pub buffer_bytes: usize,
    /// Where many reads keep their instructions together. For callers that look instructions up by index and nothing else.
    pub codes: Option<Arc<SharedCodes>>,
}

impl Scan {
    /// Reads all of `shard` in batches of about a thousand records, without columns.
    pub fn new(shard: ShardId) -> Scan {
        Scan {
            shard,
            pieces: None,
            columns: Columns::NONE,
            tables: Vec::new(),
            window: Window::All,
            most: u64::MAX,
            beyond: false,
            only: Vec::new(),
            cut: Cut::SIZE,
            batch_records: 1024,
            ahead: false,
            buffer_bytes: 4 << 20,
            codes: None,
        }
    }

    /// How a reader of the bytes of a shard, one after the other, stays within these buffers.
    pub fn stream(&self) -> StreamOptions {
        let block_bytes = (self.buffer_bytes / 8).clamp(16 << 10, 256 << 10);
        let ahead = if self.ahead { Ahead::Thread { blocks: 4 } } else { Ahead::Inline };
        StreamOptions { block_bytes, ahead, workers: 1 }
    }

    /// The same read with these columns.
    pub fn columns(mut self, columns: Columns) -> Scan {
        self.columns = columns;
        self
    }
}

/// Which part of a shard: everything, or a half-open range of records, instructions or clock ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// Everything.
    #[default]
    All,
    /// Records by ordinal, counted from 0: `2..5` is the third to the fifth.
    Records(Range<u64>),
    /// Instructions by ordinal, counted from 0, with the records that belong to them.
    Instrs(Range<u64>),
    /// Records between two clock readings; the end is excluded, but an end of `u64::MAX` is none.
    Clock(Range<u64>),
}

impl Window {
    /// True if a clock reading ends a window of time that ends at `end`. Cores that never ran have readings of all ones, so
    /// no reading ends a window whose end is `u64::MAX`.
    #[inline]
    pub fn ends_at_clock(end: u64, reading: u64) -> bool {
        reading >= end && end != u64::MAX
    }
}

/// Where batches end besides where they are full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Before each clock reading: for merging shards by time, and for intervals of time.
    pub clock: bool,
    /// Right before each instruction whose ordinal, counted from 0, is a multiple of this.
    pub instrs: Option<NonZeroU64>,
    /// Where the thread changes, even in a read of nothing but native bytes; other batches never mix threads anyway.
    pub threads: bool,
}

impl Cut {
    /// By size only.
    pub const SIZE: Cut = Cut { clock: false, instrs: None, threads: false };
    /// Also before each clock reading.
    pub const CLOCK: Cut = Cut { clock: true, ..Cut::SIZE };
}

/// One sequential read in progress.
pub trait Reader: Send {
    /// The next batch, or `None` at the end. The batch belongs to the reader and is valid until the next call;
    /// the caller may take vectors out of it.
    ///
    /// A batch may be empty of records and carry findings only. After an error the read is over.
    fn read(&mut self) -> Result<Option<&mut Batch>>;

    /// The batch that the last [`read`](Reader::read) delivered, once more; an empty one before the first. A merge of
    /// many readers looks at a batch first and hands it on later.
    fn batch(&mut self) -> &mut Batch;

    /// How many bytes of the source this read has used up so far, as they lie on disk, about; for progress only.
    /// `None` if that is unknown.
    fn packed_bytes(&self) -> Option<u64> {
        None
    }
}

/// Cores that run side by side, one record each at every step.
pub trait Rounds {
    /// What all cores did next, or `None` at the end: a batch of each, in the order in which they take turns, all of as
    /// many records. The first records of all of them come before the second of any. Batches are valid until the next call.
    ///
    /// # Errors
    /// What a reader could not go on after. It ends that thread only: reading may go on.
    fn read(&mut self) -> Result<Option<&mut [Batch]>>;

    /// Bounds what the next call of [`read`](Rounds::read) delivers: it ends before a step that could give a core more records
    /// than `of_each` has for it, or all cores together more than `in_all`, but not before the first step. Rests do not count.
    fn limit_records(&mut self, of_each: &[u64], in_all: u64);

    /// What the scheduler has done with each core so far, by core.
    fn dispatched(&self) -> Vec<Dispatched>;

    /// See [`Reader::packed_bytes`].
    fn packed_bytes(&self) -> u64;
}

/// What a scheduler did with one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dispatched {
    /// Switches from one thread to another.
    pub thread_to_thread: u64,
    /// Switches from a thread to idling.
    pub thread_to_idle: u64,
    /// Switches from idling to a thread.
    pub idle_to_thread: u64,
    /// Decisions to go on with the same thread.
    pub same_thread: u64,
    /// Threads that had used up their quantum.
    pub preemptions: u64,
    /// Threads that went to another core.
    pub migrations: u64,
    /// Threads that a core without work took from another core.
    pub steals: u64,
    /// Times when the threads that wait were spread anew.
    pub rebalances: u64,
    /// Threads that were not run because enough cores were busy.
    pub limited: u64,
    /// Requests to go on with a certain thread.
    pub direct_requests: u64,
    /// Those of them that were met.
    pub direct_switches: u64,
}

impl Dispatched {
    /// Both together.
    pub fn plus(self, other: Dispatched) -> Dispatched {
        Dispatched {
            thread_to_thread: self.thread_to_thread + other.thread_to_thread,
            thread_to_idle: self.thread_to_idle + other.thread_to_idle,
            idle_to_thread: self.idle_to_thread + other.idle_to_thread,
            same_thread: self.same_thread + other.same_thread,
            preemptions: self.preemptions + other.preemptions,
            migrations: self.migrations + other.migrations,
            steals: self.steals + other.steals,
            rebalances: self.rebalances + other.rebalances,
            limited: self.limited + other.limited,
            direct_requests: self.direct_requests + other.direct_requests,
            direct_switches: self.direct_switches + other.direct_switches,
        }
    }
}
