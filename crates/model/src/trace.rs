//! The interface of a trace format: recognise, open, describe, split into shards, read.

use crate::columns::Columns;
use crate::convert::RecordWriter;
use crate::error::{Error, Result};
use crate::finding::{Finding, RuleInfo};
use crate::options::{Given, OptionSpec, Options};
use crate::pass::Tool;
use crate::print::{Printer, RowForm};
use crate::schema::Schema;
use crate::table::TableBuf;
use crate::thread::ThreadId;
use crate::transform::{Comparison, Transform};
use quipu_source::Source;
use std::any::Any;
use std::borrow::Cow;
use std::convert::Infallible;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

mod meta;
mod reading;

pub use meta::{Carries, Clock, Fact, Function, Meta, Recorded, Surveyed, filtered_sentence};
pub use reading::{Cut, Dispatched, Reader, Rounds, Scan, Window};

/// A trace format, as a static value. The program accesses formats only through this trait.
pub trait Format: Sync {
    /// Name, title and options.
    fn info(&self) -> &'static FormatInfo;

    /// Says how sure this format is that `source` is one of its traces. Reads a few bytes at most.
    fn probe(&self, source: &Source) -> Confidence;

    /// Like [`probe`](Format::probe), but may read megabytes. Called only for sources that no format recognises by their
    /// first bytes.
    fn probe_far(&self, source: &Source) -> Confidence {
        let _ = source;
        Confidence::No
    }

    /// Opens a trace: reads headers, not records.
    fn open(&self, source: &Source, options: &OpenOptions) -> Result<Box<dyn Trace>>;

    /// True if a file of this name in a folder counts as part of one of its traces, whatever its content.
    fn claims(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// The folder whose files are read when `folder` is opened: itself, or a folder in it.
    fn folder_read(&self, folder: &Source) -> Source {
        folder.clone()
    }

    /// Analyses that need this format's native records.
    fn tools(&self) -> &'static [&'static dyn Tool] {
        &[]
    }

    /// True if traces of the format may contain traces of other formats; see [`Format::carried`].
    fn carries(&self) -> bool {
        false
    }

    /// The traces of other formats that `source` carries, if it has no records besides; empty if it is a trace of this
    /// format.
    ///
    /// # Errors
    /// Errors of reading.
    fn carried(&self, source: &Source) -> Result<Vec<Carried>> {
        let _ = source;
        Ok(Vec::new())
    }

    /// Files outside of `source` that opening it also reads. They must be copied along with the trace.
    ///
    /// # Errors
    /// Errors of reading.
    fn beside(&self, source: &Source) -> Result<Vec<Source>> {
        let _ = source;
        Ok(Vec::new())
    }

    /// The trace's description of itself, record by record, for formats that describe themselves.
    ///
    /// # Errors
    /// `Unsupported` if traces of the format do not describe themselves; errors of opening.
    fn describe(&self, source: &Source, options: &OpenOptions) -> Result<Description> {
        let _ = options;
        let message = format!("traces of format {} do not describe themselves", self.info().name);
        Err(Error::unsupported(message).in_file(source.name()))
    }

    /// Transforms of its traces (parts, edits, texts), named after the verbs.
    fn transforms(&self) -> &'static [&'static dyn Transform] {
        &[]
    }

    /// The comparison of two of its traces; `None` if the format has none.
    fn comparison(&self) -> Option<&'static dyn Comparison> {
        None
    }

    /// The writer that converts records of other formats into this one; `None` if the format has none.
    fn record_writer(&self) -> Option<&'static dyn RecordWriter> {
        None
    }

    /// The writer that runs records of any format through its back ends, which write a folder; `None` if the format has none.
    /// Traces of the format itself go through its transform called `run`.
    fn runner(&self) -> Option<&'static dyn RecordWriter> {
        None
    }

    /// The rules for its traces, in the order of the manual: all that findings refer to, and all that the tool `check`
    /// checks.
    fn rules(&self) -> &'static [RuleInfo] {
        &[]
    }
}

/// A trace that another file carries.
#[derive(Clone, Debug)]
pub struct Carried {
    /// Name of its format, if the carrying file states it.
    pub format: Option<String>,
    /// The bytes of the trace.
    pub source: Source,
    /// Findings about the carrying file, as far as they are known without reading the carried trace.
    pub findings: Arc<[Finding]>,
    /// Whether reading reports every loss at its place, so that the other findings of the carrying file are not about missing
    /// data.
    pub is_counted: bool,
}

/// The result of [`Format::describe`].
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Text for people: one line for each record.
    pub text: String,
    /// JSON for programs.
    pub json: serde_json::Value,
    /// Faults of the description.
    pub findings: Vec<Finding>,
}

/// The description of a format, available without opening a trace.
#[derive(Debug)]
pub struct FormatInfo {
    /// Short name, as on the command line.
    pub name: &'static str,
    /// One line for people.
    pub title: &'static str,
    /// Usual file name extensions.
    pub extensions: &'static [&'static str],
    /// Kinds of content that no lens shows and that conversion to another format therefore drops, in the words of the ledger.
    pub beyond_lenses: &'static [&'static str],
    /// The page that describes the format, relative to the repository's root.
    pub doc: &'static str,
    /// Options for opening its traces.
    pub options: &'static [OptionSpec],
    /// Options for printing its records.
    pub print_options: &'static [OptionSpec],
}

impl FormatInfo {
    /// Checks the options for opening a trace.
    ///
    /// # Errors
    /// As [`Options::parse`].
    pub fn opening(&self, options: &OpenOptions) -> Result<Options> {
        Options::parse(&format!("format {}", self.name), self.options, &options.given)
    }

    /// Checks that a source is a file, for formats whose traces are single files.
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

    /// Checks the options for printing records.
    ///
    /// # Errors
    /// As [`Options::parse`].
    pub fn printing(&self, options: &PrintOptions) -> Result<Options> {
        Options::parse(&format!("format {}", self.name), self.print_options, &options.given)
    }
}

/// The confidence of a format that a source is one of its traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// It is not.
    No,
    /// The content allows it; a name or a single header field suggests it.
    Maybe,
    /// The format has no signature, but a series of values makes sense.
    Likely,
    /// The content proves it.
    Sure,
}

/// Options for opening a trace.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Name of the format to read the source as, without recognition; if `None`, the format that recognises the source.
    pub format: Option<String>,
    /// Options for the format; see [`FormatInfo::options`].
    pub given: Given,
    /// The threads to read; all if empty.
    pub threads: Vec<ThreadId>,
    /// The shards to read, by position; all if empty.
    pub shards: Vec<u32>,
}

/// An opened trace: describes itself, its columns and its shards, and starts reads. Cheap to open, immutable, shared by
/// threads.
pub trait Trace: Send + Sync {
    /// The trace's metadata.
    fn meta(&self) -> &Meta;

    /// The parts that can be read on their own, in the trace's order.
    fn shards(&self) -> &[Shard];

    /// The shard with this number.
    ///
    /// # Errors
    /// `Usage` if the trace has no such shard.
    fn shard(&self, id: ShardId) -> Result<&Shard> {
        let shard = self.shards().get(id.0 as usize);
        shard.ok_or_else(|| Error::usage(format!("the trace has no shard {}", id.0)))
    }

    /// The lens columns that this trace can fill.
    fn columns(&self) -> Columns;

    /// The native tables known so far. Scans refer to them by position.
    ///
    /// # Errors
    /// Errors of reading, if a schema has to be read first.
    fn tables(&self) -> Result<Vec<Arc<Schema>>>;

    /// Reads the whole trace to learn tables that cannot be known otherwise. [`tables`](Trace::tables) then also lists these,
    /// after those known before. Does nothing for formats without such tables.
    ///
    /// # Errors
    /// `Unsupported` for a trace that can be read only once; errors of reading.
    fn learn(&self) -> Result<()> {
        Ok(())
    }

    /// Positions of the tables that hold details of the rows of a table, field by field. Each row of the table has at most
    /// one row among them, which has the same record number. Conditions on rows also apply to these details
    /// ([`Sieve`](crate::Sieve)).
    fn details(&self, _table: usize) -> Range<usize> {
        0..0
    }

    /// Starts one sequential read.
    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>>;

    /// Creates a printer of records for people, which prints rows of the first *derived* table.
    fn printer(&self, options: &PrintOptions) -> Result<Box<dyn Printer>>;

    /// A window that contains everything printed with these options, if the trace can quickly jump to it; otherwise
    /// everything.
    ///
    /// # Errors
    /// `Usage` if an option is wrong.
    fn narrow(&self, _options: &PrintOptions) -> Result<Window> {
        Ok(Window::All)
    }

    /// Creates a printer of records as JSON objects, one on each line, for formats whose records hold more than the columns
    /// of a table.
    fn json_printer(&self, _options: &PrintOptions) -> Result<Option<Box<dyn Printer>>> {
        Ok(None)
    }

    /// The format's way of selecting rows and of writing values, where the schema does not determine it.
    ///
    /// # Errors
    /// `Usage` if an option is wrong.
    fn row_form(&self, _options: &PrintOptions) -> Result<Option<Box<dyn RowForm>>> {
        Ok(None)
    }

    /// Reads the whole trace once to learn facts that its header does not state; does nothing for formats where the header
    /// says enough or reading is slow. If `is_cancelled` becomes true, the facts are about the part read so far. Call
    /// [`surveyed`] instead.
    fn survey(&self, _is_cancelled: &dyn Fn() -> bool) -> Surveyed {
        Surveyed::default()
    }

    /// The concrete trace, for tools of the same format.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// The trace whose records this one delivers in another order, or in part; `None` for a trace that reads files itself.
    fn origin(&self) -> Option<&dyn Trace> {
        None
    }

    /// The same records, arranged by the cores that they ran on according to the trace: each shard is a core. There are no
    /// records for idle time.
    ///
    /// # Errors
    /// `Unsupported` or `Missing` if the trace does not say on which cores its threads ran.
    fn by_core(&self) -> Result<Box<dyn Trace>> {
        Err(Error::unsupported(format!("traces of format {} cannot be arranged by core", self.meta().format)))
    }

    /// Reads all shards at once, as cores that run side by side. Only for traces in which one scheduler decides what each
    /// core runs; `None` for traces whose shards are read separately. A window of instructions or of time applies to each
    /// scheduled thread.
    ///
    /// # Errors
    /// As for [`scan`](Trace::scan).
    fn rounds(&self, scan: &Scan) -> Result<Option<Box<dyn Rounds + '_>>> {
        let _ = scan;
        Ok(None)
    }

    /// Converts native records of threads into those of cores; `None` if the format has no such records, so that a trace
    /// scheduled onto cores has no native records.
    fn core_form(&self) -> Option<&'static dyn CoreForm> {
        None
    }

    /// Number of times that readers of this trace delivered data that a later checksum proved damaged. If it grows while the
    /// trace is read, results from the batches are invalid; repeating the same scans leaves the damaged data out.
    fn n_delivered_damaged(&self) -> u64 {
        self.origin().map_or(0, Trace::n_delivered_damaged)
    }

    /// The programs and libraries in the memory of the traced processes, as far as the trace states them; empty for formats
    /// that do not. If the list is damaged, the damaged part is missing.
    fn modules(&self) -> Vec<Module> {
        self.origin().map_or_else(Vec::new, Trace::modules)
    }

    /// The name of a kind of mark.
    fn mark_name(&self, kind: u32) -> Cow<'static, str> {
        self.origin().map_or_else(|| Cow::Owned(format!("mark {kind}")), |trace| trace.mark_name(kind))
    }
}

/// A program or library, or a part of it, at the address where it was loaded in the traced process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Addresses that it occupied in memory.
    pub addresses: Range<u64>,
    /// Relation between these addresses and those in its file.
    pub placed: Placed,
    /// Path of its file on the traced machine.
    pub path: PathBuf,
    /// Build id of its file, if the trace states it: another build of it has other addresses.
    pub build_id: Option<Vec<u8>>,
}

/// The relation between addresses in a file and in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// This offset was added to each address of the file.
    By(u64),
    /// The lowest address of the file became this one.
    From(u64),
}

/// The message if a part of a trace contains no record of the selected threads.
pub const PARTS_COUNT_ALL: &str =
    "where a file holds several threads, parts count the records of all; take it apart first: quipu split";

/// Calls `read`, and calls it again if data proved damaged after it had been delivered ([`Trace::n_delivered_damaged`]). The
/// result of the previous call is dropped, and the new read leaves that damage out. Each read gets past the damage that the
/// previous one found, so this ends. A cancelled read is not repeated.
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

/// Surveys a whole trace ([`Trace::survey`]), without data that proved damaged later.
pub fn surveyed(trace: &(impl Trace + ?Sized), is_cancelled: &dyn Fn() -> bool) -> Surveyed {
    let read = || Ok::<_, Infallible>(trace.survey(is_cancelled));
    let Ok(surveyed) = settled(trace, is_cancelled, read);
    surveyed
}

/// Like [`settled`], for part of a trace, such as one of its files: `n_damaged` counts how often that part delivered damaged
/// data.
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

/// Native records in the form of a file for a core on which several threads run.
pub trait CoreForm: Send + Sync {
    /// Writes the records that precede those of a thread to which the core switches; nothing if `records` begin with a
    /// header, which names the thread.
    fn turn(&self, thread: ThreadId, process: u64, records: &[u8], out: &mut Vec<u8>);

    /// Writes one record of an idle core.
    fn rest(&self, out: &mut Vec<u8>);

    /// Changes records of a thread into records of this core, with clock readings replaced by `clock` if it is given.
    fn adopt(&self, records: &mut [u8], core: u64, clock: Option<u64>);

    /// The same for the last `n` rows of a native table, which get the ordinals in `at`.
    fn adopt_rows(&self, rows: &mut dyn TableBuf, n: usize, at: CoreRow);

    /// Appends one row of an idle core to a native table.
    ///
    /// # Errors
    /// `Unsupported` for a table without such rows.
    fn rest_row(&self, rows: &mut dyn TableBuf, at: CoreRow) -> Result<()>;
}

/// The position of a row of a native table after its record has become one of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreRow {
    /// Ordinal of its record, counted from 1.
    pub record: u64,
    /// Number of instructions up to and including that record.
    pub instr: u64,
    /// The core.
    pub core: u64,
    /// The core's clock, if the record is a clock reading.
    pub clock: Option<u64>,
}

/// Options for printing records.
#[derive(Clone, Debug, Default)]
pub struct PrintOptions {
    /// Syntax of disassembly; the architecture's usual one if `None`.
    pub syntax: Option<quipu_isa::Syntax>,
    /// Whether to also print what is usually left out.
    pub verbose: bool,
    /// Options for the format; see [`FormatInfo::print_options`].
    pub given: Given,
}

/// Number of a shard: its position in [`Trace::shards`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u32);

/// The common property of the records of a shard.
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
    /// Number of the shard.
    pub id: ShardId,
    /// Name for people: the file.
    pub name: String,
    /// The common property of its records.
    pub kind: ShardKind,
    /// Its first (often its only) thread, if known.
    pub thread: Option<ThreadId>,
    /// The process of that thread, if known.
    pub process: Option<u64>,
    /// Number of the core, if the shard is a core with a known number.
    pub core: Option<u64>,
    /// Number of pieces that can be read independently (at least 1). A shard of kind `Core` is always read as a whole.
    pub pieces: u32,
    /// Size on disk in bytes, if known.
    pub packed_bytes: Option<u64>,
    /// A lower bound for the clock readings of its records, if one is known without reading them.
    pub begins: Option<u64>,
    /// Identifies the shard while the trace grows, if its name may change meanwhile.
    pub key: Option<u128>,
}

impl Shard {
    /// The core's number in results, if the shard is a core: its own number, or that of the shard if the former is unknown.
    pub fn core_number(&self) -> Option<u64> {
        (self.kind == ShardKind::Core).then(|| self.core.unwrap_or(u64::from(self.id.0)))
    }
}
