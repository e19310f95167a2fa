//! `quipu view`: records as lines.

use crate::captured::{self, is_capture};
use quipu::engine::{self, Doubtful, Merge, PrintJob};
use quipu::expr::Where;
use quipu::isa::Syntax;
use quipu::model::number::counted;
use quipu::model::trace::PrintOptions;
use quipu::model::{
    ErrorKind, Given, OptionSpec, Predicate, Printer, Schema, Sieve, ThreadId, Trace, Window,
};
use quipu_console::Common;
use quipu_console::flags::{self, Flagged, Flags};
use quipu_console::follow::{self, FollowJob, Followed};
use quipu_console::input::{RecordOrder, Stored, check_present, derived_table};
use quipu_console::number;
use quipu_console::rewrite;
use quipu_console::screen::{Outcome, Result, Screen, Stop};
use quipu_console::session::{self, OF_RECORDS, Verdict};
use quipu_console::stream;
use quipu_view::{LineForm, RowLines};
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Print records, one per line
///
/// Threads are interleaved by their timestamps. The range is selected first, then records in it: --take says how many records
/// are read, --limit how many are printed. For the recording of an instrumented program, everything is printed: accesses,
/// calls, locks, allocations with their callers, each with its source location.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,
    #[command(flatten)]
    arranging: RecordOrder,

    /// Print JSON, one object per line
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV
    #[arg(long)]
    csv: bool,
    /// Print rows of this table, as CSV, or as JSON with --json: a native table of the format, or one learned from the trace,
    /// such as `call.FUNCTION` with the arguments of a function as columns; an unknown name lists the tables
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Print only these columns of the table, in this order, as CSV, or as JSON with --json; an unknown name lists the columns
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    columns: Vec<String>,
    /// Also print what is left out by default: calls of little interest, such as queries for errors
    #[arg(long)]
    all: bool,
    /// Print records as they are written, until the writer ends the trace or the run is interrupted, in order within each
    /// stream or file. For growing streams: their rows, and the traces that they carry, except formats whose record order is
    /// only known at the end
    #[arg(long, conflicts_with_all = ["skip", "take", "skip_instrs", "take_instrs", "since", "until", "order"],
          conflicts_with_all = ["between", "limit"])]
    follow: bool,
    /// Syntax of x86 instructions
    #[arg(long, value_name = "SYNTAX", value_parser = ["att", "intel"])]
    syntax: Option<String>,

    /// Skip this many records at the start
    #[arg(long, value_name = "N", value_parser = number::number, help_heading = "Range",
          conflicts_with_all = ["skip_instrs", "since", "until"])]
    skip: Option<u64>,
    /// Read only this many records; those to print are selected among them, and --limit counts what is printed
    #[arg(long, value_name = "N", value_parser = number::number, help_heading = "Range",
          conflicts_with = "take_instrs")]
    take: Option<u64>,
    /// Skip this many instructions at the start, with the records that belong to them
    #[arg(long, value_name = "N", value_parser = number::number, help_heading = "Range",
          conflicts_with_all = ["since", "until"])]
    skip_instrs: Option<u64>,
    /// Read this many instructions
    #[arg(long, value_name = "N", value_parser = number::number, help_heading = "Range",
          conflicts_with_all = ["skip", "since", "until"])]
    take_instrs: Option<u64>,
    /// Start at this timestamp
    #[arg(long, value_name = "CLOCK", value_parser = number::number, help_heading = "Range")]
    since: Option<u64>,
    /// End before this timestamp
    #[arg(long, value_name = "CLOCK", value_parser = number::number, help_heading = "Range")]
    until: Option<u64>,

    /// Only records of this kind, such as read, write, instr, marker, or the name of a marker
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',', help_heading = "Selection")]
    kinds: Vec<String>,
    /// Only records of instructions at these addresses: `A..B` excludes B; or one address
    #[arg(long, value_name = "A..B", value_parser = number::range, help_heading = "Selection")]
    pc: Option<RangeInclusive<u64>>,
    /// Only records that touch one of these addresses
    #[arg(long, value_name = "A..B", value_parser = number::range, help_heading = "Selection")]
    addr: Option<RangeInclusive<u64>>,
    /// Only records for which this SQL expression is true, over the columns of the printed table, such as `type = 'write' AND
    /// size >= 8`; `docs/expressions.md` has the grammar
    #[arg(long = "where", value_name = "EXPR", help_heading = "Selection")]
    condition: Option<String>,

    /// Print at most this many of the selected records, and then stop reading; --take limits what is read instead
    #[arg(long, value_name = "N", value_parser = number::number, help_heading = "Selection")]
    limit: Option<u64>,

    #[command(flatten)]
    form: Calls,
}

/// How to print calls, for traces that hold calls.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Printing of calls")]
struct Calls {
    #[command(flatten)]
    flags: Flags<PrintFlags>,
    /// Allow files of raw memory to replace others
    #[arg(long, requires = "blobs")]
    force: bool,
}

/// Print options of all formats.
struct PrintFlags;

impl Flagged for PrintFlags {
    fn specs() -> Vec<OptionSpec> {
        let mut specs = flags::union(quipu::FORMATS.iter().map(|format| format.info().print_options));
        // All verbs that write files share this flag.
        specs.retain(|spec| spec.name != REPLACE);
        specs
    }
}

/// The option set by `--force`.
const REPLACE: &str = "replace";

impl Calls {
    /// Options for the format's printer.
    fn given(&self) -> Given {
        let mut given = self.flags.given().clone();
        given.extend(self.force.then_some((REPLACE, "yes")));
        given
    }
}

const AFTER_HELP: &str = "\
Numbers may be decimal (1234567 or 1,234,567), hex (0x1000), or have a suffix (10k, 4Ki, 2M).

Examples:
  quipu view --take 20 trace.zip
  quipu view --thread 872884 --kind write --addr 0x7f0000000000..0x7fffffffffff trace.dir
  quipu view --skip-instrs 1M --take-instrs 100 --syntax intel trace.dir
  quipu view --take 40 app.1234.5678.dir/raw
  quipu view --json --kind timestamp trace.zip | jq -r .value
  quipu view --where 'size > 8 OR line(addr) = 0x7f0000000040' trace.zip
  quipu view --grep '^glUniform' --calls 0-1000 --thread-ids game.trace
  quipu view --frames 7000-7001 game.trace
  quipu view --kind write --limit 10 trace.zip
  quipu view --columns pc,text,addr --limit 10 trace.zip
  quipu view --table args --kind text game.trace
  quipu view --kind alloc,lock,unlock prog.quipu
  quipu view --between begin,end prog.quipu
  quipu view --table call.glDrawElements --json --frames 0-99 game.trace
  quipu view --follow --json run.quipu

Exit codes:
  0  done
  1  done, and something is wrong with the trace, or the run was interrupted
  2  could not read it";

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    if options.follow {
        return follow(options, common, screen);
    }
    if options.lists_events()
        && is_capture(&options.input.path)
        && let Some(outcome) = view_capture(options, screen)?
    {
        return Ok(outcome);
    }
    let trace = options.arranging.open(&options.input)?;
    let table = options.table(&*trace);
    let (table, schema) = table.map_err(|error| session::not_for_trace(error, &*trace, screen))?;
    // Rearranging reads only the selected threads, so none of them has to be awaited.
    let opening = &options.input.opening;
    let awaited: &[ThreadId] = if options.arranging.rearranges() { &[] } else { &opening.threads };
    let print = options.print_options(common);
    let printer = options.printer(&*trace, &schema, &print)?;
    let job = PrintJob {
        sieve: Sieve::new(&options.predicate()?, &*trace, table)?,
        window: match options.window() {
            Window::All => trace.narrow(&print)?,
            window => window,
        },
        paint: screen.paint(),
        strict: opening.strict,
        limit: options.take_in_window(),
        most_rows: options.limit,
        awaited,
        ..PrintJob::new(&*trace, table, &print, printer)?
    };
    let started = Instant::now();
    let shown = session::watched(screen, |watch| {
        let merge = Merge::new(&*trace, &Merge::sharing_codes(&*trace, job.scan()), watch)?;
        stream::print(job, merge, watch, quipu_console::terminal::stdout(), screen.is_quiet())
    })?;
    quipu_console::terminal::stdout().write_all(&shown.end)?;
    let is_part =
        options.arranging.is_part() || options.window() != Window::All || options.take_in_window().is_some();
    check_present(&*trace, awaited, &shown.absent, is_part)?;
    if common.verbose {
        session::say_speed(shown.records, None, started.elapsed(), screen);
    }
    let verdict = Verdict::new(&*trace, shown.found, shown.error, shown.cancelled);
    let verdict = verdict.meaning(if shown.is_stopped { "printing stopped there" } else { OF_RECORDS });
    verdict.say_lost(screen);
    if let Some(Doubtful { file, from }) = shown.doubtful {
        // With a single file, the message need not name it.
        let file =
            file.filter(|_| trace.shards().len() > 1).map(|file| format!("{file}: ")).unwrap_or_default();
        screen.say_error(format_args!("{file}{}", rewrite::doubt(from, "printed")));
    }
    let outcome = verdict.tell(screen);
    say_left_out(shown.left_out, screen);
    let is_empty = shown.left_out == 0 && !shown.has_printed && shown.end.is_empty();
    if is_empty && outcome == Outcome::Fine && options.selects(is_part)? {
        screen.say(format_args!("no record of the trace is selected"));
    }
    Ok(outcome)
}

/// Reports the calls that are only printed on request.
fn say_left_out(n: u64, screen: &Screen) {
    if n > 0 {
        let (calls, are) = (counted(n, "call"), if n == 1 { "is" } else { "are" });
        screen.say(format_args!("{calls} of little interest {are} left out; --all prints them, too"));
    }
}

/// Prints a trace that is still being written.
fn follow(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let stored = &options.input;
    let print = options.print_options(common);
    let open = || match stored.opening.open_growing(&stored.path) {
        Ok(trace) => Ok(Some(trace)),
        Err(error) if is_early(&stored.path, &error) => Ok(None),
        Err(error) => Err(error),
    };
    let printer = |trace: &dyn Trace| {
        let (table, schema) = options.table(trace)?;
        Ok((table, engine::or_own(options.printer(trace, &schema, &print)?, trace, &print)?))
    };
    let job = FollowJob {
        path: &stored.path,
        open: &open,
        printer: &printer,
        predicate: options.predicate()?,
        paint: screen.paint(),
    };
    let mut out = quipu_console::terminal::stdout();
    let Followed { found, error, cancelled, n_left_out, trace, .. } =
        session::watched(screen, |watch| follow::follow(&job, watch, &mut out))?;
    let Some(trace) = trace else { return Ok(Outcome::Flawed) };
    let verdict = Verdict::new(&*trace, found, error, cancelled).meaning(OF_RECORDS);
    verdict.say_lost(screen);
    let outcome = verdict.tell(screen);
    say_left_out(n_left_out, screen);
    Ok(outcome)
}

/// First bytes of a stream.
const SYNC: &[u8] = b"\xF5QPU1\r\n\x1A";

/// A smaller file may be the beginning of a stream.
const EARLY_BYTES: u64 = 4096;

/// Whether a file that cannot be opened is the beginning of a stream that is still being written: an empty file,
/// preallocated space, a part of the first frame, or whole frames that are not enough yet. An error that asks for another
/// program is final.
fn is_early(path: &Path, error: &Stop) -> bool {
    let is_file = std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() < EARLY_BYTES);
    let Some(bytes) = std::fs::read(path).ok().filter(|_| is_file) else { return false };
    let is_final = matches!(error, Stop::Fault(error) if error.kind() == ErrorKind::Unsupported);
    let is_begun = bytes.starts_with(SYNC) || SYNC.starts_with(&bytes);
    let is_room = bytes.iter().all(|byte| *byte == 0);
    // SPEC: stream.md#frames. Bytes 16 to 19 have the length of the payload, byte 11 that of the header in words.
    let is_one = bytes.first_chunk::<20>().is_some_and(|head| {
        let len = u64::from(u32::from_le_bytes([head[16], head[17], head[18], head[19]]));
        (8 * u64::from(head[11]) + len).next_multiple_of(8) + 8 <= bytes.len() as u64
    });
    is_room || is_begun && !(is_one && is_final) && !has_ended(path)
}

/// Whether an empty trace will stay empty because its carrier has ended.
fn has_ended(path: &Path) -> bool {
    let ended = quipu_console::input::source(path).and_then(|source| Ok(quipu::carrier_has_ended(&source)?));
    matches!(ended, Ok(Some(true)))
}

impl Options {
    /// Whether no option requires tables of a trace, so that the events of a recording can be listed.
    fn lists_events(&self) -> bool {
        let asks = [
            self.input.opening.format.is_some(),
            self.csv,
            self.table.is_some(),
            !self.columns.is_empty(),
            self.syntax.is_some(),
            self.skip_instrs.is_some() || self.take_instrs.is_some(),
            self.since.is_some() || self.until.is_some(),
            self.arranging.rearranges(),
            self.condition.is_some(),
            !self.form.given().is_empty(),
        ];
        !asks.contains(&true)
    }
}

/// Lists the events of an instrumented program, with their source locations. `None` if parts of it are wanted between marks
/// other than those that it set itself.
fn view_capture(options: &Options, screen: &Screen) -> Result<Option<Outcome>> {
    let parts = match options.arranging.marks() {
        None => Vec::new(),
        Some(marks) => match captured::parts(&options.input.path, marks)? {
            Some(parts) => parts,
            None => return Ok(None),
        },
    };
    let choice = captured::Choice {
        skip: options.skip.unwrap_or(0),
        take: options.take.unwrap_or(u64::MAX),
        most_printed: options.limit.unwrap_or(u64::MAX),
        kinds: &options.kinds,
        threads: &options.input.opening.threads,
        pc: options.pc.as_ref(),
        addr: options.addr.as_ref(),
        parts: &parts,
    };
    let form = if options.json { captured::Form::Json } else { captured::Form::Text };
    let findings = captured::view(&options.input.path, &choice, form)?;
    Ok(Some(Verdict { findings, meaning: OF_RECORDS, ..Verdict::default() }.tell(screen)))
}

impl Options {
    /// Whether options select some of the records, so that none may be left; `is_part` if a range does. A limit of 0 asks
    /// for none.
    fn selects(&self, is_part: bool) -> quipu::model::Result<bool> {
        let chooses = self.predicate()? != Predicate::default() || !self.form.given().is_empty();
        Ok((is_part || chooses) && self.limit != Some(0) && self.take != Some(0))
    }

    /// The table to print: the requested one, or the default for people. Tables learned from the trace are read only if no
    /// other table has the name.
    fn table(&self, trace: &dyn Trace) -> quipu::model::Result<(usize, Arc<Schema>)> {
        let Some(name) = &self.table else {
            let table = derived_table(trace)?;
            return Ok((table, trace.tables()?[table].clone()));
        };
        let (table, schema) = engine::find_table(trace, name)?;
        engine::refuse_part(&schema, &self.window())?;
        Ok((table, schema))
    }

    fn predicate(&self) -> quipu::model::Result<Predicate> {
        let filter = self.condition.as_deref().map(Where::new).transpose()?.map(Where::filter);
        Ok(Predicate {
            // Opening skips files of other threads; files with several threads are filtered here.
            threads: self.input.opening.threads.clone(),
            kinds: self.kinds.clone(),
            pc: self.pc.clone(),
            addr: self.addr.clone(),
            time: None,
            columns: Vec::new(),
            filter,
        })
    }

    fn window(&self) -> Window {
        let end = |start: u64, n: Option<u64>| n.map_or(u64::MAX, |n| start.saturating_add(n));
        if self.skip_instrs.is_some() || self.take_instrs.is_some() {
            let start = self.skip_instrs.unwrap_or(0);
            Window::Instrs(start..end(start, self.take_instrs))
        } else if self.since.is_some() || self.until.is_some() {
            Window::Clock(self.since.unwrap_or(0)..self.until.unwrap_or(u64::MAX))
        } else if self.skip.is_some() || self.take.is_some() {
            let start = self.skip.unwrap_or(0);
            Window::Records(start..end(start, self.take))
        } else {
            Window::All
        }
    }

    /// Number of records to read in the window, if the window does not limit it.
    fn take_in_window(&self) -> Option<u64> {
        match self.window() {
            Window::Instrs(_) | Window::Clock(_) => self.take,
            Window::All | Window::Records(_) => None,
        }
    }

    /// The printer for rows in a form other than the trace's own.
    fn printer(
        &self,
        trace: &dyn Trace,
        schema: &Schema,
        print: &PrintOptions,
    ) -> Result<Option<Box<dyn Printer>>> {
        let form = match (self.json, self.csv) {
            (true, _) => LineForm::Json,
            (_, true) => LineForm::Csv,
            _ if self.table.is_some() || !self.columns.is_empty() => LineForm::Csv,
            _ => return Ok(None),
        };
        let is_own = self.json && self.table.is_none() && self.columns.is_empty();
        if let (true, Some(printer)) = (is_own, trace.json_printer(print)?) {
            return Ok(Some(printer));
        }
        let (arch, syntax) = (trace.meta().arch, print.syntax.unwrap_or_default());
        let lines = match self.columns.as_slice() {
            [] => RowLines::new(schema, form, arch, syntax),
            names => RowLines::of_columns(schema, names, form, arch, syntax)?,
        };
        Ok(Some(Box::new(lines.with(trace.row_form(print)?))))
    }

    fn print_options(&self, common: &Common) -> PrintOptions {
        let syntax = match self.syntax.as_deref() {
            Some("intel") => Some(Syntax::Intel),
            Some(_) => Some(Syntax::Att),
            None => None,
        };
        PrintOptions { syntax, verbose: common.verbose || self.all, given: self.form.given() }
    }
}
