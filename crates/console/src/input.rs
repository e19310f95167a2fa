//! Options that say which trace to open, and how.

use crate::between::BetweenMarks;
use crate::follow::Grown;
use crate::number;
use crate::sched;
use crate::screen::Result;
use crate::session::Extent;
use clap::builder::PossibleValuesParser;
use quipu::engine::Between;
use quipu::model::trace::PARTS_COUNT_ALL;
use quipu::model::{Columns, Error, OpenOptions, ShardKind, ThreadId, Trace, Window};
use quipu::source::Source;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// How to open a trace, whatever verb it is for.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Opening {
    /// Only these threads; `1:TID` names a thread of the first additional trace. In files that mix threads, --skip and --take
    /// count the records of all threads
    #[arg(id = "thread", long, value_name = "TID", value_delimiter = ',', help_heading = "Reading")]
    pub threads: Vec<ThreadId>,
    /// Set an option of the trace's format; `quipu formats` lists them
    #[arg(id = "open", long, value_name = "KEY=VALUE", value_parser = number::key_value, help_heading = "Reading")]
    pub given: Vec<(String, String)>,
    /// Read the trace as this format instead of detecting it
    #[arg(long, value_name = "NAME", value_parser = formats(), help_heading = "Reading")]
    pub format: Option<String>,
    /// Stop at the first error instead of continuing after it
    #[arg(long, help_heading = "Reading")]
    pub strict: bool,
}

/// The parser for the names of formats.
fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(quipu::FORMATS.iter().map(|format| format.info().name))
}

impl Opening {
    /// Converts the flags to the library's options.
    pub fn options(&self) -> OpenOptions {
        OpenOptions {
            format: self.format.clone(),
            given: self.given.iter().cloned().collect(),
            threads: self.threads.clone(),
            shards: Vec::new(),
        }
    }

    /// Opens the trace at `path`.
    ///
    /// # Errors
    /// Errors of the library; also `Usage` if the trace would be read from a terminal.
    pub fn open(&self, path: &Path) -> Result<Box<dyn Trace>> {
        Ok(quipu::open(&source(path)?, &self.options())?)
    }

    /// Opens a trace at `path` that is still being written, in its current state.
    ///
    /// # Errors
    /// As [`Opening::open`].
    pub fn open_growing(&self, path: &Path) -> Result<Grown> {
        let options = self.options();
        let recognised = quipu::recognise(&source(path)?, &options)?;
        let carrier_has_ended = recognised.carrier.as_ref().map(quipu::Carrier::has_ended);
        Ok(Grown { trace: recognised.open(&options)?, carrier_has_ended })
    }
}

/// Index of the table to show to people: the first one that is derived from the stored records.
pub fn derived_table(trace: &dyn Trace) -> quipu::model::Result<usize> {
    trace.tables()?.iter().position(|schema| schema.is_derived()).ok_or_else(|| {
        Error::unsupported(format!(
            "this trace of format {} has no table of records to print",
            trace.meta().format
        ))
    })
}

/// How threads are arranged, for verbs that look at records and not at files.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Arranging {
    /// Order threads by the cores that they ran on when traced, or schedule them onto simulated cores
    #[arg(long, value_name = "ORDER", value_parser = ORDERS, help_heading = "Reading")]
    order: Option<String>,
    /// Set an option of `--order scheduled`; an unknown NAME lists all
    #[arg(long = "sched", value_name = "NAME=VALUE", value_parser = number::key_value, help_heading = "Reading")]
    sched: Vec<(String, String)>,
    #[command(flatten)]
    between: BetweenMarks,
}

/// The default order: as threads are stored.
const THREADS: &str = "threads";
/// The order in which the traced cores ran the threads.
const CORES: &str = "cores";
/// The order of a simulated schedule.
const SCHEDULED: &str = "scheduled";
/// All orders.
const ORDERS: [&str; 3] = [THREADS, CORES, SCHEDULED];

impl Arranging {
    /// Takes the order out, for an analysis that gives the option another meaning.
    pub fn take_order(&mut self) -> Option<String> {
        self.order.take()
    }

    /// Checks that the order is one of those for threads, for verbs whose parser accepts any word.
    ///
    /// # Errors
    /// `Usage` otherwise.
    pub fn check_order(&self) -> quipu::model::Result<()> {
        match &self.order {
            Some(order) if !ORDERS.contains(&order.as_str()) => {
                Err(Error::usage(format!("invalid value '{order}' for '--order <ORDER>'"))
                    .hint(format!("possible values: {}; members only for `layout`", ORDERS.join(", "))))
            }
            _ => Ok(()),
        }
    }

    /// True if threads are not read in their stored order.
    pub fn rearranges(&self) -> bool {
        self.order.as_ref().is_some_and(|order| order != THREADS)
    }

    /// True if only parts of the trace are read, those between marks.
    pub fn is_part(&self) -> bool {
        self.between.is_part()
    }

    /// Opens the trace at `path`. If threads are scheduled and the settings do not say otherwise, there are `cores` cores.
    ///
    /// # Errors
    /// As [`Opening::open`]; `Usage` for settings of a schedule without one; errors of arranging.
    pub fn open(&self, path: &Path, opening: &Opening, cores: Option<usize>) -> Result<Box<dyn Trace>> {
        self.open_source(&source(path)?, opening, cores)
    }

    /// Opens the trace in `source`, as [`Arranging::open`] does.
    ///
    /// # Errors
    /// As [`Arranging::open`].
    pub fn open_source(
        &self,
        source: &Source,
        opening: &Opening,
        cores: Option<usize>,
    ) -> Result<Box<dyn Trace>> {
        let is_scheduled = self.order.as_deref() == Some(SCHEDULED);
        if !self.sched.is_empty() && !is_scheduled {
            return Err(Error::usage("`--sched` says how threads are scheduled onto cores")
                .hint("add --order scheduled")
                .into());
        }
        let trace = quipu::open(&self.between.spooled(source)?, &opening.options())?;
        if !self.rearranges() {
            return Ok(self.between.of(trace)?);
        }
        check_threads(&*trace, &opening.threads)?;
        if is_scheduled {
            return Ok(quipu::engine::dispatch(
                self.between.of(trace)?,
                sched::options(&self.sched.iter().cloned().collect(), cores)?,
            )?);
        }
        Ok(self.between.of(trace.by_core()?)?)
    }
}

/// The order of records that are printed: a schedule of our own has none.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RecordOrder {
    /// Order threads by the cores that they ran on when traced
    #[arg(long, value_name = "ORDER", value_parser = [THREADS, CORES], help_heading = "Reading")]
    order: Option<String>,
    #[command(flatten)]
    between: BetweenMarks,
}

impl RecordOrder {
    /// True if threads are not read in their stored order.
    pub fn rearranges(&self) -> bool {
        self.order.as_ref().is_some_and(|order| order != THREADS)
    }

    /// The marks between which parts of the trace are read, if only parts are.
    pub fn marks(&self) -> Option<&Between> {
        self.between.marks()
    }

    /// True if only parts of the trace are read, those between marks.
    pub fn is_part(&self) -> bool {
        self.between.is_part()
    }

    /// Opens a trace and arranges its threads.
    ///
    /// # Errors
    /// As [`Arranging::open`].
    pub fn open(&self, stored: &Stored) -> Result<Box<dyn Trace>> {
        let (order, between) = (self.order.clone(), self.between.clone());
        let arranging = Arranging { order, sched: Vec::new(), between };
        arranging.open(&stored.path, &stored.opening, None)
    }
}

/// One trace, how to open it, and how its threads are arranged.
#[derive(Clone, Debug, clap::Args)]
pub struct Input {
    #[command(flatten)]
    /// Which trace, and how it is opened.
    pub stored: Stored,
    #[command(flatten)]
    /// How its threads are arranged.
    pub arranging: Arranging,
}

impl Input {
    /// Opens the trace and arranges its threads.
    ///
    /// # Errors
    /// As [`Opening::open`].
    pub fn open(&self) -> Result<Box<dyn Trace>> {
        self.open_onto(None)
    }

    /// Opens the trace; scheduled threads get this many cores by default.
    ///
    /// # Errors
    /// As [`Arranging::open`].
    pub fn open_onto(&self, cores: Option<usize>) -> Result<Box<dyn Trace>> {
        self.arranging.open(&self.stored.path, &self.stored.opening, cores)
    }

    /// The part to analyse: this window of the chosen threads.
    pub fn extent(&self, window: Window) -> Extent {
        let Opening { threads, strict, .. } = &self.stored.opening;
        // A new arrangement already contains only the chosen threads.
        let threads = if self.arranging.rearranges() { Vec::new() } else { threads.clone() };
        let is_part = self.arranging.is_part();
        Extent { window, strict: *strict, threads, is_part, ..Extent::default() }
    }

    /// The name of the trace in messages.
    pub fn name(&self) -> String {
        self.stored.name()
    }
}

/// One trace as stored in its files, and how to open it.
#[derive(Clone, Debug, clap::Args)]
pub struct Stored {
    /// A file, a folder, or `-` for standard input
    #[arg(value_name = "TRACE", default_value = "-", hide_default_value = true)]
    pub path: PathBuf,
    #[command(flatten)]
    /// How the trace is opened.
    pub opening: Opening,
}

/// Opens the source at `path`; `-` is standard input.
///
/// # Errors
/// Errors of the library; `Usage` if standard input is a terminal.
pub fn source(path: &Path) -> Result<Source> {
    if path == Path::new("-") && std::io::stdin().is_terminal() {
        return Err(Error::usage("no trace is given, and standard input is a terminal")
            .hint("name a file or a folder, or send a trace into standard input")
            .into());
    }
    Ok(Source::open(path).map_err(Error::from)?)
}

impl Stored {
    /// Opens the source.
    ///
    /// # Errors
    /// As for [`source`].
    pub fn source(&self) -> Result<Source> {
        source(&self.path)
    }

    /// Opens the trace for the analysis `tool`, spooled if that or the caller (`is_read_again`) reads it more than once, and
    /// returns its carrier if it is inside another trace.
    ///
    /// # Errors
    /// Errors of opening.
    pub fn open_for(
        &self,
        tool: &str,
        is_read_again: bool,
    ) -> Result<(Box<dyn Trace>, Option<quipu::Carrier>)> {
        let options = self.opening.options();
        let mut found = quipu::recognise(&self.source()?, &options)?;
        let tool = quipu::tool(tool, found.format.info().name);
        if is_read_again || tool.is_ok_and(|tool| tool.reads_again()) {
            found = found.spooled()?;
        }
        Ok((found.open(&options)?, found.carrier))
    }

    /// The name of the trace in messages.
    pub fn name(&self) -> String {
        name(&self.path)
    }
}

/// Checks that something was read of every chosen thread; if only a part of the trace was read, of at least one.
///
/// # Errors
/// `Missing` if threads are `absent` from a trace whose files mix threads. A thread with a file of its own counts as present,
/// whatever was read of it.
pub fn check_present(
    trace: &dyn Trace,
    chosen: &[ThreadId],
    absent: &[ThreadId],
    is_part: bool,
) -> quipu::model::Result<()> {
    if is_part && absent.len() < chosen.len() {
        return Ok(());
    }
    let has_file = |tid: ThreadId| {
        trace.shards().iter().any(|shard| shard.kind == ShardKind::Thread && shard.thread == Some(tid))
    };
    let Some(tid) = absent.iter().find(|tid| !has_file(**tid)) else { return Ok(()) };
    Err(match is_part {
        true => Error::missing(format!("this part of the trace has nothing of thread `{tid}`"))
            .hint(PARTS_COUNT_ALL),
        false => Error::missing(format!("the trace has no thread `{tid}`"))
            .hint("`quipu analyze schedule` lists its threads"),
    })
}

/// Checks that the trace contains no threads other than those chosen when opening it.
///
/// # Errors
/// `Unsupported` if a file mixes threads, since an analysis would count all of them.
pub fn check_threads(trace: &dyn Trace, threads: &[ThreadId]) -> quipu::model::Result<()> {
    if threads.is_empty() || trace.shards().iter().all(|shard| shard.kind == ShardKind::Thread) {
        return Ok(());
    }
    // `trim` selects single calls; `split` separates the files of other traces.
    let verb = if trace.columns().has(Columns::CALLS) { "trim" } else { "split" };
    Err(Error::unsupported("files of this trace hold several threads, which are analysed together only")
        .hint(format!(
            "leave out the choice of threads, or write those wanted first: `quipu {verb} --thread`"
        )))
}

/// The name of the trace at `path` in messages.
pub fn name(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}
