//! DynamoRIO's drmemtrace launcher, implemented with our own tools.
//!
//! `args` parses the launcher's command line, one file per tool prints its results, and this file translates the command
//! line into a run and the results into lines on standard error, where the launcher prints everything.
//! SPEC: drmemtrace.md#analysis-tools.

mod args;
mod counts;
mod extent;
mod functions;
mod hash_order;
mod histogram;
mod intervals;
mod invariants;
mod mix;
mod record_filter;
mod reuse;
mod schedule;
mod simulators;
mod syscalls;

use args::Request;
use extent::Extent;
use functions::CallLines;
use quipu::drmemtrace::trace::DrmemTrace;
use quipu::engine::{self, CoreTime, DispatchOptions, Division, Merge, Part, PrintJob, WindowOf, plan};
use quipu::isa::Arch;
use quipu::model::ThreadId;
use quipu::model::fresh::Replace;
use quipu::model::trace::PrintOptions;
use quipu::model::{
    Columns, Error, ErrorKind, Given, OpenOptions, Report, Scan, ShardId, ShardKind, Trace, Window,
};
use quipu::passes::categories::CategorySets;
use quipu::passes::histogram::LineHistogram;
use quipu::passes::opcodes::OpcodeMix;
use quipu::passes::reuse_distance::Distances;
use quipu::passes::reuse_time::Times;
use quipu::passes::schedule::Schedules;
use quipu::passes::syscalls::SyscallCounts;
use quipu::passes::{PerShard, PerThread};
use quipu::sim::Simulated;
use quipu_console::Common;
use quipu_console::input;
use quipu_console::places::refuse_text_among;
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::{self, Verdict};
use quipu_console::simulation::{self, Surroundings};
use quipu_console::stream;
use reuse::Rows;
use simulators::{CACHE_NAMES, TLB_NAMES, in_their_words};
use std::io::Write;
use std::path::Path;

/// Separator between the results of two tools.
const SEPARATOR: &str = "\n===========================================================================\n";

/// Lines of calls are written once this many bytes are buffered.
const CALLS_BYTES: usize = 64 << 10;

/// A tool of the launcher that we can emulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    View,
    BasicCounts,
    OpcodeMix,
    Histogram,
    SyscallMix,
    FuncView,
    ReuseDistance,
    ReuseTime,
    InvariantChecker,
    CacheSimulator,
    TlbSimulator,
    MissAnalyzer,
    ScheduleStats,
}

impl Tool {
    /// All tools with their names.
    const ALL: &'static [(Tool, &'static str)] = &[
        (Tool::View, "view"),
        (Tool::BasicCounts, "basic_counts"),
        (Tool::OpcodeMix, "opcode_mix"),
        (Tool::Histogram, "histogram"),
        (Tool::SyscallMix, "syscall_mix"),
        (Tool::FuncView, "func_view"),
        (Tool::ReuseDistance, "reuse_distance"),
        (Tool::ReuseTime, "reuse_time"),
        (Tool::InvariantChecker, "invariant_checker"),
        (Tool::CacheSimulator, "cache_simulator"),
        (Tool::CacheSimulator, "drcachesim"),
        (Tool::CacheSimulator, "cache"),
        (Tool::TlbSimulator, "TLB_simulator"),
        (Tool::TlbSimulator, "TLB"),
        (Tool::MissAnalyzer, "miss_analyzer"),
        (Tool::ScheduleStats, "schedule_stats"),
    ];

    /// Whether the launcher's tool needs all threads interleaved, as one stream.
    fn is_serial(self) -> bool {
        matches!(
            self,
            Tool::View | Tool::FuncView | Tool::CacheSimulator | Tool::TlbSimulator | Tool::MissAnalyzer
        )
    }

    /// Whether its results are by core by default.
    fn prefers_cores(self) -> bool {
        matches!(self, Tool::CacheSimulator | Tool::TlbSimulator | Tool::MissAnalyzer | Tool::ScheduleStats)
    }

    /// Our own tools whose results it prints.
    fn ours(self) -> &'static [&'static str] {
        match self {
            Tool::View => &[],
            Tool::BasicCounts => &["counts"],
            Tool::OpcodeMix => &["opcodes", "categories"],
            Tool::Histogram => &["histogram"],
            Tool::SyscallMix => &["syscalls"],
            Tool::FuncView => &["functions"],
            Tool::ReuseDistance => &["reuse-distance"],
            Tool::ReuseTime => &["reuse-time"],
            Tool::InvariantChecker => &["check"],
            Tool::CacheSimulator => &["caches"],
            Tool::TlbSimulator => &["tlbs"],
            Tool::MissAnalyzer => &["misses"],
            Tool::ScheduleStats => &["schedule"],
        }
    }
}

/// Runs the launcher's command line with these arguments.
pub fn run(args: &[String], common: &Common, screen: &Screen) -> Result<Outcome> {
    if record_filter::is_meant(args) {
        return record_filter::run(args, common, screen);
    }
    let mut request = Request::parse(args)?;
    let options = OpenOptions {
        threads: request.threads.iter().map(|tid| ThreadId::from_packed(*tid)).collect(),
        shards: request.shards.clone(),
        ..OpenOptions::default()
    };
    let options = with_schedule(&options, &request);
    if let Some(file) = request.cache_option("miss-file") {
        let inputs: Vec<&Path> =
            std::iter::once(&*request.path).chain(request.also.iter().map(Path::new)).collect();
        refuse_text_among(&inputs, Path::new(file))?;
    }
    let trace = quipu::open_path(&request.path, &options)?;
    input::check_threads(&*trace, &options.threads)?;
    let is_typed = is_typed(&*trace);
    let asked = request.clone();
    let trace = begun(trace, &options, &mut request)?;
    let of_threads = trace.shards().iter().any(|shard| shard.kind != ShardKind::Core);
    let cores = of_threads.then(|| request.cores_wanted()).transpose()?.flatten();
    let (trace, sequence, extent) = match cores {
        Some(_) if request.cpu_schedule.is_some() => {
            let trace = by_core(&*trace, &request)?;
            let extent = Extent::of(&request, &*trace, false)?;
            (trace, None, extent)
        }
        Some(time) => {
            let extent = Extent::of(&request, &*trace, true)?;
            let dispatch = dispatch_options(time, &request)?;
            if request.only_views() {
                (engine::dispatch_in_sequence(trace, dispatch)?, None, extent)
            } else {
                // `view` reads the trace separately.
                let again =
                    || begun(quipu::open_path(&request.path, &options)?, &options, &mut asked.clone());
                let shown = request.tools.contains(&Tool::View).then(again).transpose()?;
                let sequence = shown.map(|again| engine::dispatch_in_sequence(again, dispatch.clone()));
                (engine::dispatch(trace, dispatch)?, sequence.transpose()?, extent)
            }
        }
        None => {
            let extent = Extent::of(&request, &*trace, false)?;
            (trace, None, extent)
        }
    };
    let division = intervals::division(&request, &*trace)?;
    let mut text = Vec::new();
    let mut verdict = Verdict::default();
    let mut view_end = Vec::new();
    let mut is_violated = false;
    if request.tools.contains(&Tool::View) {
        say_syntax(&request, &*trace, screen);
        let trace = sequence.as_deref().unwrap_or(&*trace);
        verdict = view(trace, &extent, &request, screen, &mut view_end)?;
    }
    if request.tools.contains(&Tool::FuncView) && request.show_calls {
        print_calls(&*trace, &extent, screen)?;
    }
    // Tools that print at the end share one read; records and calls are printed before.
    let names: Vec<&'static str> = request.tools.iter().flat_map(|tool| tool.ours()).copied().collect();
    let mut results = Results::default();
    let mut dispatched = Vec::new();
    if !names.is_empty() {
        let common = Common { threads: request.threads_to_use(common.threads), ..common.clone() };
        // The check of a part depends on the records before it, so it is read without a window.
        let (checks, others) = match extent.is_whole() {
            true => (Vec::new(), names),
            false => names.into_iter().partition(|name| *name == "check"),
        };
        if !others.is_empty() {
            let outcome = analyse(&*trace, &others, &extent, division, &request, &common, screen)?;
            dispatched = outcome.dispatched;
            results = Results { names: others, reports: outcome.reports, parts: outcome.parts };
            verdict = verdict.and(Verdict::new(&*trace, outcome.findings, outcome.error, outcome.cancelled));
        }
        if !checks.is_empty() {
            let outcome = analyse(&*trace, &checks, &extent, Division::default(), &request, &common, screen)?;
            results.names.extend(checks);
            results.reports.extend(outcome.reports);
            verdict = verdict.and(Verdict::new(&*trace, outcome.findings, outcome.error, outcome.cancelled));
        }
    }
    verdict.say_lost(screen);
    for (i, tool) in request.tools.iter().enumerate() {
        if i > 0 {
            text.extend_from_slice(SEPARATOR.as_bytes());
        }
        match tool {
            Tool::View => text.extend_from_slice(&view_end),
            Tool::BasicCounts => counts::write(results.get("counts")?, is_typed, &mut text),
            Tool::OpcodeMix => {
                let opcodes: &PerThread<OpcodeMix> = results.get("opcodes")?;
                let categories: &PerThread<CategorySets> = results.get("categories")?;
                mix::write(&opcodes.total, &categories.total, &mut text);
            }
            Tool::Histogram => {
                let lines: &PerThread<LineHistogram> = results.get("histogram")?;
                histogram::write(&lines.total, request.report_top, &mut text);
            }
            Tool::SyscallMix => {
                let calls: &PerThread<SyscallCounts> = results.get("syscalls")?;
                syscalls::write(&calls.total, &mut text);
            }
            Tool::FuncView => functions::write(results.get("functions")?, &mut text),
            Tool::ReuseDistance => {
                let distances: &PerShard<Distances> = results.get("reuse-distance")?;
                let rows = if request.reuse_histogram { Rows::All } else { Rows::Few };
                reuse::write_distances(distances, request.report_top, rows, &mut text);
            }
            Tool::ReuseTime => {
                let times: &PerShard<Times> = results.get("reuse-time")?;
                let rows = if request.verbose > 0 { Rows::All } else { Rows::Few };
                reuse::write_times(times, rows, &mut text);
            }
            Tool::InvariantChecker => {
                let report = results.get("check")?;
                let is_whole = verdict.is_of_whole();
                verdict = verdict.and(invariants::unknown_errors(report));
                let stops = request.stops_at_violation;
                if invariants::write(report, (&*trace, is_whole), stops, &mut text) {
                    is_violated = true;
                    if request.stops_at_violation {
                        // DynamoRIO aborts here, regardless of other tools.
                        break;
                    }
                }
            }
            Tool::CacheSimulator => {
                let caches = results.get("caches")?;
                say_untold(caches, screen);
                simulators::write_caches(caches, &mut text);
            }
            Tool::TlbSimulator => {
                let tlbs = results.get("tlbs")?;
                say_untold(tlbs, screen);
                simulators::write_tlbs(tlbs, &mut text);
            }
            Tool::MissAnalyzer => {
                let file = request.cache_option("miss-file");
                simulators::write_misses(results.get("misses")?, file, &mut text)?;
            }
            Tool::ScheduleStats => {
                let schedules: &Schedules = results.get("schedule")?;
                let switching = schedules.switching.as_ref().ok_or_else(needs_cores)?;
                if dispatched.is_empty() && !of_threads {
                    dispatched = schedule::taken_on(switching.cores.len(), request.workers(common.threads));
                }
                schedule::write(switching, &dispatched, request.verbose, &mut text);
            }
        }
    }
    let is_aborted = is_violated && request.stops_at_violation;
    if !division.is_none() && !is_aborted {
        intervals::write(&request, &results, &mut text)?;
    }
    quipu_console::terminal::stderr().write_all(&text)?;
    Ok(verdict.tell(screen).and(if is_violated { Outcome::Flawed } else { Outcome::Fine }))
}

/// The same options with the schedule file and additional traces of the request.
fn with_schedule(options: &OpenOptions, request: &Request) -> OpenOptions {
    let given = request
        .cpu_schedule
        .iter()
        .map(|path| ("cpu-schedule".to_owned(), path.to_string_lossy().into_owned()))
        .chain((!request.also.is_empty()).then(|| ("also".to_owned(), request.also.join(":"))));
    OpenOptions { given: given.collect(), ..options.clone() }
}

/// Prints once what DynamoRIO prints at each access.
fn say_untold(result: &Simulated, screen: &Screen) {
    if let Some(of) = result.translation.filter(|of| of.untranslated > 0) {
        screen.say(format_args!(
            "Missing physical address marker for {} of {} accesses",
            of.untranslated, of.accesses
        ));
    }
}

/// Notes that instructions are printed in a different syntax than requested. REGDEPS always uses DynamoRIO's syntax.
fn say_syntax(request: &Request, trace: &dyn Trace, screen: &Screen) {
    if let Some(name) = &request.other_syntax
        && trace.meta().arch != Some(Arch::Regdeps)
    {
        screen.say(format_args!(
            "note: instructions are printed in the usual syntax of their architecture, not in DynamoRIO's `{name}`"
        ));
    }
}

/// False if a file of a drmemtrace trace lacks its file type.
fn is_typed(trace: &dyn Trace) -> bool {
    let of_format = trace.as_any().and_then(|trace| trace.downcast_ref::<DrmemTrace>());
    of_format.is_none_or(DrmemTrace::is_typed)
}

/// The trace from the requested time on, if a schedule gives the position of each thread at that time. Threads that have
/// ended before are left out. Removes the options that this handles from the request.
fn begun(
    trace: Box<dyn Trace>,
    options: &OpenOptions,
    request: &mut Request,
) -> quipu::model::Result<Box<dyn Trace>> {
    if request.skip_to_timestamp == 0 || request.cpu_schedule.is_none() {
        return Ok(trace);
    }
    let native = trace.as_any().and_then(|trace| trace.downcast_ref::<DrmemTrace>());
    let native =
        native.ok_or_else(|| Error::unsupported("only traces of drmemtrace come with a schedule file"))?;
    let (threads, skips) = native.instrs_before(request.skip_to_timestamp)?.into_iter().unzip();
    let trace = quipu::open_path(&request.path, &OpenOptions { threads, ..options.clone() })?;
    (request.skip_to_timestamp, request.cpu_schedule) = (0, None);
    Ok(engine::begin_at(trace, skips))
}

/// The trace arranged by the cores of its recorded schedule.
fn by_core(trace: &dyn Trace, request: &Request) -> quipu::model::Result<Box<dyn Trace>> {
    let trace = trace.by_core()?;
    let n_cores = trace.shards().len() as u64;
    match request.cores {
        Some(cores) if cores != n_cores => {
            Err(Error::usage(format!("the schedule has {n_cores} cores, and -cores asks for {cores}")))
        }
        _ => Ok(trace),
    }
}

/// The threads of a trace with their native records, scheduled onto cores; and the requested part.
fn scheduled(request: &mut Request, options: &OpenOptions) -> quipu::model::Result<(Box<dyn Trace>, Extent)> {
    let trace = begun(quipu::open_path(&request.path, &with_schedule(options, request))?, options, request)?;
    let extent = Extent::of(request, &*trace, true)?;
    let dispatch = DispatchOptions { native: true, ..dispatch_options(request.dispatch.time, request)? };
    Ok((engine::dispatch(trace, dispatch)?, extent))
}

/// How the threads of the trace are scheduled onto cores.
fn dispatch_options(time: CoreTime, request: &Request) -> quipu::model::Result<DispatchOptions> {
    let configured = match &request.surroundings.config {
        Some(path) => Some(simulation::cores_of(path)? as u64),
        None => None,
    };
    let cores = request.cores.or(configured).unwrap_or(4);
    let cores = usize::try_from(cores).unwrap_or(usize::MAX);
    let native = request.tools.iter().any(|tool| matches!(tool, Tool::BasicCounts | Tool::InvariantChecker));
    Ok(DispatchOptions { cores, time, native, ..request.dispatch.clone() })
}

/// The error if threads have files of their own and a tool needs cores.
fn needs_cores() -> Error {
    Error::unsupported("schedule_stats tells of cores, and this run is by thread")
        .hint("leave out -no_core_sharded and -no_core_serial, and threads are scheduled onto cores")
}

/// Prints records on standard error; the tool's final output goes to `end`.
fn view(
    trace: &dyn Trace,
    extent: &Extent,
    request: &Request,
    screen: &Screen,
    end: &mut Vec<u8>,
) -> Result<Verdict> {
    let table = input::derived_table(trace)?;
    let options = PrintOptions { syntax: request.syntax, ..PrintOptions::default() };
    let job = PrintJob { limit: extent.limit, ..PrintJob::new(trace, table, &options, None)? };
    let shown = session::watched(screen, |watch| {
        let merge = extent.merge(trace, Merge::sharing_codes(trace, job.scan()), watch)?;
        stream::print(job, merge, watch, quipu_console::terminal::stderr(), true)
    })?;
    end.extend(&shown.end);
    let verdict = Verdict::new(trace, shown.found, shown.error, shown.cancelled);
    verdict.say_lost(screen);
    Ok(verdict)
}

/// Prints each call on standard error, in the order of the clock. Faults of the trace are left to the following analysis to
/// report.
fn print_calls(trace: &dyn Trace, extent: &Extent, screen: &Screen) -> Result<()> {
    let columns = Columns::CALLS | Columns::THREADS;
    let scan = Scan { columns, ahead: true, ..Scan::new(ShardId(0)) };
    session::watched(screen, |watch| {
        let mut lines = CallLines::new(trace.meta());
        let (mut stderr, mut text) = (quipu_console::terminal::stderr(), Vec::new());
        if let Some(mut rounds) = extent.rounds_of(trace, scan.clone())? {
            while !watch.is_cancelled() {
                match rounds.read() {
                    Ok(Some(batches)) => lines.write_round(batches, &mut text),
                    Ok(None) => break,
                    Err(_) => continue,
                }
                stderr.write_all(&text)?;
                text.clear();
            }
            lines.end_line(&mut text);
            stderr.write_all(&text)?;
            return Ok(());
        }
        let mut merge = extent.limited_merge(trace, scan, watch)?;
        while !watch.is_cancelled() {
            match merge.read() {
                Ok(Some(merged)) => lines.write(merged.batch, &mut text),
                Ok(None) => break,
                // The error ends only this thread.
                Err(_) => continue,
            }
            if text.len() >= CALLS_BYTES {
                stderr.write_all(&text)?;
                text.clear();
            }
        }
        lines.end_line(&mut text);
        stderr.write_all(&text)?;
        Ok(())
    })
}

/// Runs our tools with the launcher's options.
fn analyse(
    trace: &dyn Trace,
    names: &[&str],
    extent: &Extent,
    division: Division,
    request: &Request,
    common: &Common,
    screen: &Screen,
) -> Result<engine::Outcome> {
    let mut planned = Vec::new();
    // QUIRK: DynamoRIO prints the counts of a warm-up that does not end.
    let around =
        Surroundings { counts_cold: true, replace: Replace::Allowed, ..request.surroundings.clone() };
    for name in names {
        let tool = quipu::tool(name, &trace.meta().format)?;
        let mut given = Given::default();
        let sizes = [
            ("line-size", request.line_size),
            ("top", request.report_top),
            ("letter", request.print_every),
            ("max-per-rule", invariants::MAX_LINES),
        ];
        let sizes = sizes.map(|(key, value)| (key, value.to_string()));
        for (key, value) in sizes.iter().chain(&request.tool_options) {
            if tool.info().options.iter().any(|option| option.name == *key) {
                given.add(*key, value.as_str());
            }
        }
        planned.push(match *name {
            "caches" => {
                let mut given = given_of(request, &request.cache_options);
                given.add("line-size", request.line_size.to_string());
                simulation::plan_caches(&given, &around, trace)
                    .map_err(|error| in_their_words(&error, CACHE_NAMES))?
            }
            "tlbs" => {
                let around = Surroundings { config: None, ..around.clone() };
                let mut given = given_of(request, &request.tlb_options);
                // DynamoRIO's pages do not depend on the trace.
                if given.last("page-size").is_none() {
                    given.add("page-size", "4K");
                }
                simulation::plan_tlbs(&given, &around, trace)
                    .map_err(|error| in_their_words(&error, TLB_NAMES))?
            }
            "misses" => {
                // The miss file is for the hints instead.
                let options = request.cache_options.iter().filter(|(name, _)| *name != "miss-file");
                let mut given = given_of(request, &options.cloned().collect::<Vec<_>>());
                given.add("line-size", request.line_size.to_string());
                simulation::plan_misses(&given, &around, trace)
                    .map_err(|error| in_their_words(&error, CACHE_NAMES))?
            }
            "check" => {
                extent.part_options(trace)?.into_iter().for_each(|(name, n)| given.add(name, n.to_string()));
                plan(tool, &given, trace)?
            }
            _ => plan(tool, &given, trace)?,
        });
    }
    if names.contains(&"check") {
        // The options set the start of scheduled threads; only records from there on are checked.
        let (window, window_of) = match extent.is_scheduled && extent.is_of_threads() {
            true => (extent.window.clone(), extent.window_of),
            false => (Window::All, WindowOf::Sequence),
        };
        let extent = session::Extent { division, window, window_of, ..session::Extent::default() };
        return session::analyse(trace, planned, &extent, common, screen);
    }
    let extent = session::Extent {
        window: extent.window.clone(),
        window_of: extent.window_of,
        most_records: extent.most_records(),
        most_records_of: extent.limit_of,
        division,
        ..session::Extent::default()
    };
    session::analyse(trace, planned, &extent, common, screen)
}

/// Options of a simulator, by name.
fn given_of(request: &Request, options: &[(&'static str, String)]) -> Given {
    let mut given = Given::default();
    // The launcher's machine has four cores, regardless of the trace.
    given.add("cores", request.cores.unwrap_or(4).to_string());
    // The launcher does not attribute misses.
    given.add("top", "0");
    options.iter().for_each(|(name, value)| given.add(*name, value.as_str()));
    given
}

/// Results of our tools, by name.
#[derive(Default)]
struct Results {
    names: Vec<&'static str>,
    reports: Vec<Box<dyn Report>>,
    parts: Vec<Part>,
}

impl Results {
    /// The result of the tool called `name`, which is of type `R`.
    fn get<R: 'static>(&self, name: &str) -> quipu::model::Result<&R> {
        self.among(&self.reports, name)
    }

    /// The same for each of these parts.
    fn of_parts<'p, R: 'static>(&self, name: &str, parts: &[&'p Part]) -> quipu::model::Result<Vec<&'p R>> {
        parts.iter().map(|part| self.among(&part.reports, name)).collect()
    }

    fn among<'r, R: 'static>(
        &self,
        reports: &'r [Box<dyn Report>],
        name: &str,
    ) -> quipu::model::Result<&'r R> {
        let position = self.names.iter().position(|known| *known == name);
        position
            .and_then(|position| reports.get(position)?.as_any().downcast_ref())
            .ok_or_else(|| Error::new(ErrorKind::Internal, format!("tool `{name}` left another report")))
    }
}
