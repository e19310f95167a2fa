//! Parses the launcher's command line: options with a single dash, each value in an argument of its own.
//!
//! As in the launcher, `--option` means `-option`, `-no_option` and `-nooption` switch off, and a later option overrides an
//! earlier one. Unlike in the launcher, unknown options and malformed numbers are always errors.

use super::Tool;
use quipu::engine::{CoreTime, DispatchOptions, Quantum};
use quipu::isa::Syntax;
use quipu::model::{Error, Result};
use quipu::source::Reading;
use quipu_console::simulation::Surroundings;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Most threads that the launcher uses by default.
const MAX_OWN_JOBS: usize = 16;

/// Parsed arguments of the launcher.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) path: PathBuf,
    /// Additional traces, each a workload of its own.
    pub(super) also: Vec<String>,
    pub(super) tools: Vec<Tool>,
    /// Threads to read; all if empty.
    pub(super) threads: Vec<u64>,
    /// Shards to read; all if empty.
    pub(super) shards: Vec<u32>,
    pub(super) skip_instrs: u64,
    pub(super) skip_records: u64,
    pub(super) skip_to_timestamp: u64,
    /// Number of instructions to read; `None` for all.
    pub(super) instrs: Option<u64>,
    /// Number of records to read; `None` for all.
    pub(super) records: Option<u64>,
    /// The launcher's option: -1 for as many threads as cores, 0 for the main thread only.
    jobs: i64,
    pub(super) line_size: u64,
    pub(super) report_top: u64,
    pub(super) syntax: Option<Syntax>,
    /// A syntax of DynamoRIO that was requested and that `view` does not support.
    pub(super) other_syntax: Option<String>,
    /// Whether `func_view` prints each call.
    pub(super) show_calls: bool,
    /// Whether `invariant_checker` stops at the first violation.
    pub(super) stops_at_violation: bool,
    /// Whether results are requested by core.
    pub(super) by_core: bool,
    /// Whether an option selected results by thread or by core.
    pub(super) chose_sharding: bool,
    /// How threads are scheduled onto cores, if requested; its number of cores is ignored.
    pub(super) dispatch: DispatchOptions,
    /// Whether the quantum is a time.
    quantum_is_time: bool,
    quantum: u64,
    /// Options of the cache simulator.
    pub(super) cache_options: Vec<(&'static str, String)>,
    /// Options of the TLB simulator.
    pub(super) tlb_options: Vec<(&'static str, String)>,
    /// Files for simulators.
    pub(super) surroundings: Surroundings,
    /// The recorded schedule that assigns threads to cores.
    pub(super) cpu_schedule: Option<PathBuf>,
    /// Number of cores requested.
    pub(super) cores: Option<u64>,
    /// Instructions, idle or wait records per letter of a printed schedule.
    pub(super) print_every: u64,
    pub(super) verbose: u64,
    /// Length of an interval in microseconds; 0 for none.
    pub(super) interval_us: u64,
    /// Length of an interval in instructions; 0 for none.
    pub(super) interval_instrs: u64,
    /// Launcher options that correspond to options of our tools, by our names.
    pub(super) tool_options: Vec<(&'static str, String)>,
    /// Whether `reuse_distance` prints its histogram.
    pub(super) reuse_histogram: bool,
}

/// Type of an option's value, and the function that stores it.
#[derive(Clone, Copy)]
enum Setter {
    Text(fn(&mut Draft, &str) -> Result<()>),
    /// A plain number.
    Number(fn(&mut Draft, u64)),
    /// A number that may end in `K`, `M` or `G`, for powers of two.
    Size(fn(&mut Draft, u64)),
    /// A switch: on with its name, off with its name after `no_` or `no`.
    Flag(fn(&mut Draft, bool)),
}

/// Supported options with all their names.
const OPTIONS: &[(&[&str], Setter)] = &[
    (&["indir"], Setter::Text(|draft, value| draft.set_path(value))),
    (&["multi_indir"], Setter::Text(|draft, value| draft.set_paths(value))),
    (&["infile"], Setter::Text(|draft, value| draft.set_path(value))),
    (&["tool", "simulator_type"], Setter::Text(|draft, value| draft.set_tools(value))),
    (
        &["only_thread"],
        Setter::Number(|draft, tid| draft.choose_threads(if tid == 0 { vec![] } else { vec![tid] })),
    ),
    (
        &["only_threads"],
        Setter::Text(|draft, value| list(value).map(|threads| draft.choose_threads(threads))),
    ),
    (&["only_shards"], Setter::Text(|draft, value| draft.choose_shards(value))),
    (&["skip_instrs"], Setter::Size(|draft, n| draft.request.skip_instrs = n)),
    (&["skip_records"], Setter::Size(|draft, n| draft.request.skip_records = n)),
    (&["skip_to_timestamp"], Setter::Number(|draft, clock| draft.request.skip_to_timestamp = clock)),
    (&["exit_after_instrs"], Setter::Size(|draft, n| draft.request.instrs = (n > 0).then_some(n))),
    (&["exit_after_records"], Setter::Size(|draft, n| draft.request.records = (n > 0).then_some(n))),
    (&["jobs"], Setter::Text(|draft, value| draft.set_jobs(value))),
    (&["line_size"], Setter::Number(|draft, bytes| draft.request.line_size = bytes)),
    (&["report_top"], Setter::Number(|draft, n| draft.request.report_top = n)),
    (&["view_syntax"], Setter::Text(|draft, value| draft.set_syntax(value))),
    (&["cores"], Setter::Number(|draft, n| draft.request.cores = Some(n))),
    (&["verbose"], Setter::Number(|draft, n| draft.request.verbose = n)),
    (&["abort_on_invariant_error"], Setter::Flag(|draft, is_on| draft.request.stops_at_violation = is_on)),
    (&["show_func_trace"], Setter::Flag(|draft, is_on| draft.request.show_calls = is_on)),
    (&["core_sharded"], Setter::Flag(|draft, is_on| draft.choose_sharding(is_on, CoreTime::Own))),
    (&["core_serial"], Setter::Flag(|draft, is_on| draft.choose_sharding(is_on, CoreTime::Shared))),
    (&["sched_quantum"], Setter::Number(|draft, n| draft.request.quantum = n)),
    (&["sched_time"], Setter::Flag(|draft, is_on| draft.request.quantum_is_time = is_on)),
    (&["sched_order_time"], Setter::Flag(|draft, is_on| draft.dispatch().by_clock = is_on)),
    (&["sched_syscall_switch_us"], Setter::Number(|draft, n| draft.dispatch().call_us = n)),
    (&["sched_blocking_switch_us"], Setter::Number(|draft, n| draft.dispatch().blocking_us = n)),
    (&["sched_block_scale"], Setter::Text(|draft, value| set_real(value, &mut draft.dispatch().block_scale))),
    (&["sched_block_max_us"], Setter::Number(|draft, n| draft.dispatch().max_block_us = n)),
    (&["sched_infinite_timeouts"], Setter::Flag(|draft, is_on| draft.dispatch().waits_forever = is_on)),
    (
        &["sched_time_units_per_us"],
        Setter::Text(|draft, value| set_real(value, &mut draft.dispatch().units_per_us)),
    ),
    (&["sched_migration_threshold_us"], Setter::Number(|draft, n| draft.dispatch().migration_us = n)),
    (&["sched_rebalance_period_us"], Setter::Number(|draft, n| draft.dispatch().rebalance_us = n)),
    (&["sched_steal_attempt_period"], Setter::Number(|draft, n| draft.dispatch().steal_idles = n)),
    (
        &["sched_exit_if_fraction_inputs_left"],
        Setter::Text(|draft, value| set_real(value, &mut draft.dispatch().end_share)),
    ),
    (&["sched_random_initial_layout"], Setter::Text(|draft, value| draft.set_layout(value))),
    (
        &["sched_max_cores"],
        Setter::Number(|draft, n| draft.dispatch().busy_cores = usize::try_from(n).unwrap_or(usize::MAX)),
    ),
    (&["sched_randomize"], Setter::Flag(|draft, is_on| draft.dispatch().at_random = is_on)),
    (&["sched_disable_direct_switches"], Setter::Flag(|draft, is_off| draft.dispatch().direct = !is_off)),
    (&["L1I_size"], Setter::Size(|draft, n| draft.tell_caches("l1i-size", n))),
    (&["L1I_assoc"], Setter::Number(|draft, n| draft.tell_caches("l1i-assoc", n))),
    (&["L1D_size"], Setter::Size(|draft, n| draft.tell_caches("l1d-size", n))),
    (&["L1D_assoc"], Setter::Number(|draft, n| draft.tell_caches("l1d-assoc", n))),
    (&["LL_size"], Setter::Size(|draft, n| draft.tell_caches("ll-size", n))),
    (&["LL_assoc"], Setter::Number(|draft, n| draft.tell_caches("ll-assoc", n))),
    (&["LL_miss_file"], Setter::Text(|draft, value| draft.tell_caches_text("miss-file", value))),
    (&["miss_count_threshold"], Setter::Number(|draft, n| draft.tell_caches("count", n))),
    (&["miss_frac_threshold"], Setter::Text(|draft, value| draft.tell_caches_text("share", value))),
    (&["confidence_threshold"], Setter::Text(|draft, value| draft.tell_caches_text("confidence", value))),
    (&["replace_policy"], Setter::Text(|draft, value| draft.tell_caches_text("policy", value))),
    (&["data_prefetcher"], Setter::Text(|draft, value| draft.tell_caches_text("prefetcher", value))),
    (&["coherence", "coherent"], Setter::Flag(|draft, is_on| draft.tell_caches("coherence", is_on))),
    (&["config_file"], Setter::Text(|draft, value| draft.set_config(value))),
    (&["TLB_L1I_entries"], Setter::Number(|draft, n| draft.tell_tlbs("l1i-entries", n))),
    (&["TLB_L1I_assoc"], Setter::Number(|draft, n| draft.tell_tlbs("l1i-assoc", n))),
    (&["TLB_L1D_entries"], Setter::Number(|draft, n| draft.tell_tlbs("l1d-entries", n))),
    (&["TLB_L1D_assoc"], Setter::Number(|draft, n| draft.tell_tlbs("l1d-assoc", n))),
    (&["TLB_L2_entries"], Setter::Number(|draft, n| draft.tell_tlbs("l2-entries", n))),
    (&["TLB_L2_assoc"], Setter::Number(|draft, n| draft.tell_tlbs("l2-assoc", n))),
    (&["TLB_replace_policy"], Setter::Text(|draft, value| draft.tell_tlbs_text("policy", value))),
    (&["page_size"], Setter::Size(|draft, n| draft.tell_tlbs("page-size", n))),
    (&["skip_refs"], Setter::Size(|draft, n| draft.tell_simulators("skip-refs", n))),
    (&["warmup_refs"], Setter::Size(|draft, n| draft.tell_simulators("warmup-refs", n))),
    (&["warmup_fraction"], Setter::Text(|draft, value| draft.tell_caches_text("warmup-fraction", value))),
    (&["sim_refs"], Setter::Size(|draft, n| draft.tell_simulators("sim-refs", n))),
    (&["cpu_scheduling"], Setter::Flag(|draft, is_on| draft.tell_simulators("cpu-scheduling", is_on))),
    (&["use_physical"], Setter::Flag(|draft, is_on| draft.request.surroundings.physical = is_on)),
    (&["v2p_file"], Setter::Text(|draft, value| draft.set_pages(value))),
    (&["cpu_schedule_file"], Setter::Text(|draft, value| draft.set_cpu_schedule(value))),
    (&["schedule_stats_print_every"], Setter::Size(|draft, n| draft.request.print_every = n)),
    (&["interval_microseconds"], Setter::Size(|draft, n| draft.request.interval_us = n)),
    (&["interval_instr_count"], Setter::Size(|draft, n| draft.request.interval_instrs = n)),
    (&["reuse_distance_threshold"], Setter::Number(|draft, n| draft.tell_tools("threshold", n.to_string()))),
    (&["reuse_distance_limit"], Setter::Number(|draft, n| draft.tell_tools("limit", n.to_string()))),
    (&["reuse_distance_histogram"], Setter::Flag(|draft, on| draft.request.reuse_histogram = on)),
    (&["reuse_histogram_bin_multiplier"], Setter::Text(|draft, value| draft.set_bins(value))),
    (&["funclist_file"], Setter::Text(|_, value| must_exist(value))),
    // These options do not influence the results of our tools.
    (&["reuse_skip_dist"], Setter::Number(|_, _| ())),
    (&["reuse_verify_skip"], Setter::Flag(|_, _| ())),
    (&["module_file"], Setter::Text(|_, _| Ok(()))),
    (&["alt_module_dir"], Setter::Text(|_, _| Ok(()))),
    (&["offline"], Setter::Flag(|_, _| ())),
    (&["disable_optimizations"], Setter::Flag(|_, _| ())),
    (&["test_mode"], Setter::Flag(|draft, is_on| draft.is_tested = is_on)),
];

/// A request while it is being parsed.
struct Draft {
    request: Request,
    n_paths: u32,
    n_choices: u32,
    /// Whether `invariant_checker` runs after all other tools.
    is_tested: bool,
}

impl Request {
    /// Parses the launcher's arguments, without the program's name.
    pub(super) fn parse(args: &[String]) -> Result<Request> {
        let mut draft = Draft { request: Request::new(), n_paths: 0, n_choices: 0, is_tested: false };
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let name =
                arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')).filter(|name| !name.is_empty());
            let name =
                name.ok_or_else(|| Error::usage(format!("expected an option of drmemtrace, found `{arg}`")))?;
            let (setter, is_on) = find(name).ok_or_else(|| unknown_option(arg))?;
            let mut value = || {
                rest.next().ok_or_else(|| Error::usage(format!("option `{arg}` of drmemtrace wants a value")))
            };
            match setter {
                Setter::Text(set) => set(&mut draft, value()?).map_err(|error| in_option(arg, &error))?,
                Setter::Number(set) => set(&mut draft, number(arg, value()?)?),
                Setter::Size(set) => set(&mut draft, size(arg, value()?)?),
                Setter::Flag(set) => set(&mut draft, is_on),
            }
        }
        draft.finish()
    }

    fn new() -> Request {
        Request {
            path: PathBuf::new(),
            also: Vec::new(),
            tools: Vec::new(),
            threads: Vec::new(),
            shards: Vec::new(),
            skip_instrs: 0,
            skip_records: 0,
            skip_to_timestamp: 0,
            instrs: None,
            records: None,
            jobs: -1,
            line_size: 64,
            report_top: 10,
            syntax: None,
            other_syntax: None,
            show_calls: true,
            stops_at_violation: true,
            by_core: false,
            chose_sharding: false,
            dispatch: DispatchOptions::default(),
            quantum_is_time: false,
            quantum: 20_000_000,
            cache_options: Vec::new(),
            tlb_options: Vec::new(),
            surroundings: Surroundings::default(),
            cpu_schedule: None,
            cores: None,
            print_every: 500_000,
            verbose: 0,
            interval_us: 0,
            interval_instrs: 0,
            tool_options: vec![("bins", "1".to_owned())],
            reuse_histogram: false,
        }
    }

    /// Value of an option of the cache simulator.
    pub(super) fn cache_option(&self, name: &str) -> Option<&str> {
        self.cache_options.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Whether to read by core, because this was requested or all tools prefer it; and which clock the cores use.
    ///
    /// # Errors
    /// `Usage` if no option decides and the tools prefer different things.
    pub(super) fn cores_wanted(&self) -> Result<Option<CoreTime>> {
        let follows_processors = self.cache_option("cpu-scheduling") == Some("true");
        if self.chose_sharding || follows_processors {
            // Time is that of the whole stream if one worker simulates all cores.
            let time = if self.is_one_stream() { CoreTime::Shared } else { self.dispatch.time };
            return Ok(self.by_core.then_some(time));
        }
        match self.tools.iter().filter(|tool| tool.prefers_cores()).count() {
            0 => Ok(None),
            n if n < self.tools.len() => {
                Err(Error::usage("the tools differ in what they prefer, threads or cores")
                    .hint("say -core_serial or -no_core_serial"))
            }
            // Simulators share state between cores, so one thread has to run them.
            _ if self.tools.iter().any(|tool| *tool != Tool::ScheduleStats) => Ok(Some(CoreTime::Shared)),
            _ => Ok(Some(CoreTime::Own)),
        }
    }

    /// Whether the launcher reads threads interleaved: because it was requested, or because a tool cannot read them in
    /// parallel.
    pub(super) fn is_interleaved(&self) -> bool {
        let wants_all = |tool: &Tool| match tool {
            Tool::FuncView => self.show_calls,
            tool => tool.is_serial(),
        };
        self.jobs == 0 || self.tools.iter().any(wants_all)
    }

    /// Whether the launcher has a single worker, which reads threads or cores as one stream.
    pub(super) fn is_one_stream(&self) -> bool {
        self.is_interleaved() || (self.by_core && self.dispatch.time == CoreTime::Shared)
    }

    /// Whether only a part of the threads, or of the cores' records, is requested.
    pub(super) fn is_of_part(&self) -> bool {
        self.skip_instrs > 0
            || self.skip_records > 0
            || self.skip_to_timestamp > 0
            || self.instrs.is_some()
            || self.records.is_some()
    }

    /// Whether `view` is the only tool.
    pub(super) fn only_views(&self) -> bool {
        self.tools.iter().all(|tool| *tool == Tool::View)
    }

    /// Number of workers that the launcher would use to read shards in parallel.
    pub(super) fn workers(&self, limit: Option<NonZeroUsize>) -> usize {
        self.threads_to_use(limit).map_or(1, usize::from)
    }

    /// Number of threads to use: from the launcher's option, otherwise from `limit`, otherwise the launcher's default.
    pub(super) fn threads_to_use(&self, limit: Option<NonZeroUsize>) -> Option<NonZeroUsize> {
        match usize::try_from(self.jobs) {
            Ok(jobs) => NonZeroUsize::new(jobs.max(1)),
            Err(_) if limit.is_some() => limit,
            Err(_) => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                NonZeroUsize::new(cores.min(MAX_OWN_JOBS))
            }
        }
    }
}

impl Draft {
    fn set_path(&mut self, value: &str) -> Result<()> {
        self.n_paths += 1;
        // All files in a folder belong to the trace.
        Reading::keep(Path::new(value));
        self.request.path = PathBuf::from(value);
        Ok(())
    }

    /// Parses folders separated by colons. The launcher supports several only for scheduling onto cores.
    fn set_paths(&mut self, value: &str) -> Result<()> {
        let mut paths = value.split(':').filter(|path| !path.is_empty());
        self.set_path(paths.next().unwrap_or_default())?;
        self.request.also = paths.map(str::to_owned).collect();
        self.request.also.iter().for_each(|path| Reading::keep(Path::new(path)));
        Ok(())
    }

    fn set_cpu_schedule(&mut self, value: &str) -> Result<()> {
        Reading::keep(Path::new(value));
        self.request.cpu_schedule = Some(PathBuf::from(value));
        Ok(())
    }

    fn set_tools(&mut self, value: &str) -> Result<()> {
        self.request.tools =
            value.split(':').filter(|name| !name.is_empty()).map(tool).collect::<Result<_>>()?;
        Ok(())
    }

    fn choose_threads(&mut self, threads: Vec<u64>) {
        self.n_choices += 1;
        self.request.threads = threads;
    }

    fn choose_shards(&mut self, value: &str) -> Result<()> {
        self.n_choices += 1;
        let shards = list(value)?.into_iter().map(|shard| u32::try_from(shard).unwrap_or(u32::MAX));
        self.request.shards = shards.collect();
        Ok(())
    }

    fn set_jobs(&mut self, value: &str) -> Result<()> {
        self.request.jobs =
            value.parse().map_err(|_| Error::usage(format!("expected a number, found `{value}`")))?;
        Ok(())
    }

    fn set_syntax(&mut self, value: &str) -> Result<()> {
        let (syntax, other) = match value {
            "att" => (Some(Syntax::Att), None),
            "intel" => (Some(Syntax::Intel), None),
            // The launcher's default names one syntax per architecture.
            "att/arm/dr/riscv" => (None, None),
            // DynamoRIO accepts each of these for any architecture. Only mnemonics and operands look different.
            "arm" | "dr" | "riscv" => (None, Some(value.to_owned())),
            // QUIRK: DynamoRIO silently replaces an unknown name by its default.
            _ => {
                return Err(Error::unsupported(format!("syntax `{value}` is not available"))
                    .hint("available are att, intel, dr, arm and riscv"));
            }
        };
        (self.request.syntax, self.request.other_syntax) = (syntax, other);
        Ok(())
    }

    fn choose_sharding(&mut self, by_core: bool, time: CoreTime) {
        if by_core {
            self.request.dispatch.time = time;
        }
        self.request.by_core = by_core;
        self.request.chose_sharding = true;
    }

    fn dispatch(&mut self) -> &mut DispatchOptions {
        &mut self.request.dispatch
    }

    fn set_layout(&mut self, value: &str) -> Result<()> {
        self.request.dispatch.layout_seed =
            value.parse().map_err(|_| Error::usage(format!("expected a number, found `{value}`")))?;
        Ok(())
    }

    fn tell_caches(&mut self, name: &'static str, value: impl ToString) {
        tell(&mut self.request.cache_options, name, value.to_string());
    }

    fn tell_caches_text(&mut self, name: &'static str, value: &str) -> Result<()> {
        self.tell_caches(name, value);
        Ok(())
    }

    fn tell_tlbs(&mut self, name: &'static str, value: impl ToString) {
        tell(&mut self.request.tlb_options, name, value.to_string());
    }

    fn tell_tlbs_text(&mut self, name: &'static str, value: &str) -> Result<()> {
        self.tell_tlbs(name, value);
        Ok(())
    }

    fn tell_simulators(&mut self, name: &'static str, value: impl ToString) {
        let value = value.to_string();
        self.tell_caches(name, &value);
        self.tell_tlbs(name, value);
    }

    fn set_config(&mut self, value: &str) -> Result<()> {
        self.request.surroundings.config = Some(PathBuf::from(value));
        Ok(())
    }

    fn set_pages(&mut self, value: &str) -> Result<()> {
        Reading::keep(Path::new(value));
        self.request.surroundings.pages = Some(PathBuf::from(value));
        Ok(())
    }

    fn tell_tools(&mut self, name: &'static str, value: String) {
        tell(&mut self.request.tool_options, name, value);
    }

    fn set_bins(&mut self, value: &str) -> Result<()> {
        let factor = value.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor >= 1.0);
        factor.ok_or_else(|| Error::usage(format!("expected a factor of 1 or more, found `{value}`")))?;
        self.tell_tools("bins", value.to_owned());
        Ok(())
    }

    fn finish(self) -> Result<Request> {
        let Draft { mut request, n_paths, n_choices, is_tested } = self;
        if n_paths == 0 {
            return Err(Error::usage("-indir, -multi_indir or -infile is required")
                .hint("running programs is not available"));
        }
        if n_paths > 1 {
            return Err(Error::usage("only one of -indir, -multi_indir and -infile can be set"));
        }
        if !request.also.is_empty() && n_choices > 0 {
            return Err(Error::usage("threads and shards cannot be chosen with -multi_indir"));
        }
        if n_choices > 1 {
            return Err(Error::usage("only one of -only_thread, -only_threads and -only_shards can be set"));
        }
        let skips = [request.skip_instrs, request.skip_records, request.skip_to_timestamp];
        if skips.iter().filter(|skip| **skip > 0).count() > 1 {
            return Err(Error::usage(
                "only one of -skip_instrs, -skip_records and -skip_to_timestamp can be used at a time",
            ));
        }
        if request.interval_us > 0 && request.interval_instrs > 0 {
            return Err(Error::usage(
                "only one of -interval_microseconds and -interval_instr_count can be set",
            ));
        }
        request.dispatch.quantum = match request.quantum_is_time {
            true => Quantum::Micros(request.quantum),
            false => Quantum::Instrs(request.quantum),
        };
        if request.tools.is_empty() {
            request.tools.push(Tool::CacheSimulator);
        }
        if is_tested {
            request.tools.push(Tool::InvariantChecker);
        }
        let counts_refs = ["skip-refs", "sim-refs", "warmup-refs", "warmup-fraction"]
            .iter()
            .any(|name| request.cache_option(name).is_some_and(|value| value != "0"));
        if counts_refs && (request.instrs.is_some() || request.records.is_some()) {
            return Err(Error::usage(
                "-exit_after_instrs and -exit_after_records do not go with -sim_refs, -skip_refs, -warmup_refs and \
                 -warmup_fraction",
            ));
        }
        Ok(request)
    }
}

/// Parses a floating-point number.
fn set_real(value: &str, to: &mut f64) -> Result<()> {
    *to = value.parse().map_err(|_| Error::usage(format!("expected a number, found `{value}`")))?;
    Ok(())
}

/// The list next to the trace is used anyway; a different one must at least exist, so that a misspelt name is an error.
fn must_exist(path: &str) -> Result<()> {
    Reading::keep(Path::new(path));
    match std::fs::metadata(path) {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::usage(format!("{path}: {error}"))),
    }
}

/// Sets an option, overriding an earlier one.
fn tell(options: &mut Vec<(&'static str, String)>, name: &'static str, value: String) {
    options.retain(|(known, _)| *known != name);
    options.push((name, value));
}

/// The option with this name, and whether the name switches it on.
fn find(name: &str) -> Option<(Setter, bool)> {
    let has = |name: &str| OPTIONS.iter().find(|(names, _)| names.contains(&name)).map(|(_, setter)| *setter);
    match has(name) {
        Some(setter) => Some((setter, true)),
        None => {
            let off = name.strip_prefix("no_").or_else(|| name.strip_prefix("no"))?;
            let setter = has(off).filter(|setter| matches!(setter, Setter::Flag(_)))?;
            Some((setter, false))
        }
    }
}

/// Whether the option with this name takes a value; `None` if there is no such option.
pub(super) fn takes_value(name: &str) -> Option<bool> {
    find(name).map(|(setter, _)| !matches!(setter, Setter::Flag(_)))
}

/// Options of drmemtrace that are refused, with the reasons.
const REFUSED: &[(&str, &str)] = &[
    ("sched_switch_file", "no kernel code of switches is put into a trace"),
    ("sched_syscall_file", "no kernel code of system calls is put into a trace"),
    ("syscall_template_file", "no kernel code of system calls is put into a trace"),
    (
        "record_file",
        "schedules are not recorded; `-tool record_filter -core_sharded` writes what each core does",
    ),
    ("replay_file", "schedules are not replayed; `-cpu_schedule_file` reads the one that was traced"),
    ("add_noise_generator", "nothing is put into a trace that the program did not do"),
    (
        "chunk_instr_count",
        "chunks are written as large as those of the trace; `quipu convert --chunk-instrs` changes them",
    ),
    ("compress", "files are packed as those of the trace; `quipu convert --container` packs them otherwise"),
    ("scale_timers", "times are those of the trace"),
    ("scale_timeouts", "times are those of the trace"),
    (
        "max_load_imbalance",
        "cores advance side by side, always by the same number of records or instructions",
    ),
];

/// The error for an option that is refused by name; `None` for all others.
pub(super) fn refused_option(arg: &str) -> Option<Error> {
    let name = arg.trim_start_matches('-');
    let name = name.strip_prefix("no_").unwrap_or(name);
    let (_, why) = REFUSED.iter().find(|(known, _)| *known == name)?;
    Some(Error::unsupported(format!("option `{arg}` of drmemtrace is not available")).hint(*why))
}

fn unknown_option(arg: &str) -> Error {
    if let Some(refused) = refused_option(arg) {
        return refused;
    }
    let known: Vec<String> = OPTIONS.iter().map(|(names, _)| format!("-{}", names[0])).collect();
    Error::unsupported(format!("option `{arg}` of drmemtrace is not available"))
        .hint(format!("available are {}", known.join(", ")))
}

fn tool(name: &str) -> Result<Tool> {
    Tool::ALL
        .iter()
        .find(|(_, known)| *known == name)
        .map(|(tool, _)| *tool)
        .ok_or_else(|| unknown_tool(name))
}

fn unknown_tool(name: &str) -> Error {
    let known: Vec<&str> = Tool::ALL.iter().map(|(_, name)| *name).collect();
    Error::unsupported(format!("tool `{name}` of drmemtrace is not available"))
        .hint(format!("available with -tool are {}", known.join(", ")))
}

/// Adds the option's name to an error, unless the error already names its subject.
fn in_option(arg: &str, error: &Error) -> Error {
    let wrapped = Error::new(error.kind(), format!("option `{arg}`: {}", error.message()));
    match error.advice() {
        Some(advice) => wrapped.hint(advice),
        None => wrapped,
    }
}

fn number(arg: &str, value: &str) -> Result<u64> {
    quipu_console::number::number(value)
        .map_err(|_| Error::usage(format!("option `{arg}` wants a number, found `{value}`")))
}

fn size(arg: &str, value: &str) -> Result<u64> {
    let (digits, factor) = match value.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (&value[..at], 1 << 10),
        Some((at, 'M' | 'm')) => (&value[..at], 1 << 20),
        Some((at, 'G' | 'g')) => (&value[..at], 1 << 30),
        _ => (value, 1),
    };
    number(arg, digits)?
        .checked_mul(factor)
        .ok_or_else(|| Error::usage(format!("option `{arg}` wants a number of 64 bits, found `{value}`")))
}

fn list(value: &str) -> Result<Vec<u64>> {
    value
        .split(',')
        .map(|item| {
            item.parse().map_err(|_| Error::usage(format!("expected numbers with commas, found `{value}`")))
        })
        .collect()
}

/// The value of an option: the next argument.
pub(super) fn find_value<'a>(arg: &str, value: Option<&'a String>) -> Result<&'a str> {
    let missing = || Error::usage(format!("option `{arg}` of drmemtrace wants a value"));
    value.map(String::as_str).ok_or_else(missing)
}

/// Parses a number; a negative one stands for its bits in two's complement.
pub(super) fn number_of(arg: &str, text: &str) -> Result<u64> {
    let negative = text.strip_prefix('-').and_then(|digits| digits.parse::<u64>().ok());
    match negative {
        Some(n) => Ok(n.wrapping_neg()),
        None => number(arg, text),
    }
}

/// Parses numbers separated by commas.
pub(super) fn list_of(arg: &str, text: &str) -> Result<Vec<u64>> {
    text.split(',').filter(|part| !part.is_empty()).map(|part| number_of(arg, part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request> {
        Request::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn check(line: &str, expected: Request) {
        assert_eq!(parse(line).unwrap(), expected, "{line}");
    }

    fn refused(line: &str, message: &str) {
        assert_eq!(parse(line).unwrap_err().message(), message, "{line}");
    }

    fn viewing(path: &str) -> Request {
        Request { path: path.into(), tools: vec![Tool::View], ..Request::new() }
    }

    #[test]
    fn options_have_one_dash_or_two_and_values_of_their_own() {
        check("-indir d -tool view", viewing("d"));
        let by_threads = Request { chose_sharding: true, ..viewing("d") };
        check("--indir d --tool view -no_core_sharded --nocore_serial", by_threads);
        let request = Request { verbose: 2, cores: Some(8), ..viewing("f") };
        check("-simulator_type view -infile f -verbose 2 -cores 8", request);
    }

    #[test]
    fn switches_have_names_for_on_and_off() {
        let on = Request { reuse_histogram: true, ..viewing("d") };
        check("-indir d -tool view -reuse_distance_histogram", on);
        check("-indir d -tool view -reuse_distance_histogram -noreuse_distance_histogram", viewing("d"));
    }

    #[test]
    fn options_of_tools_are_told_by_our_names() {
        let options = |tool_options: &[(&'static str, &str)]| {
            let tool_options = tool_options.iter().map(|(name, value)| (*name, (*value).to_owned()));
            Request { tool_options: tool_options.collect(), ..viewing("d") }
        };
        check(
            "-indir d -tool view -reuse_distance_threshold 7 -reuse_distance_limit 5 -reuse_distance_limit 6",
            options(&[("bins", "1"), ("threshold", "7"), ("limit", "6")]),
        );
        check("-indir d -tool view -reuse_histogram_bin_multiplier 1.5", options(&[("bins", "1.5")]));
        refused(
            "-indir d -tool view -reuse_histogram_bin_multiplier 0.5",
            "option `-reuse_histogram_bin_multiplier`: expected a factor of 1 or more, found `0.5`",
        );
    }

    #[test]
    fn tools_are_joined_by_colons() {
        let request = Request { tools: vec![Tool::OpcodeMix, Tool::Histogram], ..viewing("d") };
        check("-indir d -tool opcode_mix:histogram", request);
    }

    #[test]
    fn switches_are_on_by_their_name_and_off_behind_no() {
        let chosen = Request { chose_sharding: true, ..viewing("d") };
        let dispatch = DispatchOptions { time: CoreTime::Own, ..DispatchOptions::default() };
        let by_core = Request { by_core: true, dispatch, ..chosen.clone() };
        check("-indir d -tool view -core_sharded", by_core);
        check("-indir d -tool view -core_serial -no_core_serial", chosen);
        check("-indir d -tool view -no_show_func_trace", Request { show_calls: false, ..viewing("d") });
    }

    #[test]
    fn counts_may_have_suffixes_for_powers_of_two() {
        let request = Request { skip_instrs: 2048, records: Some(3 << 20), ..viewing("d") };
        check("-indir d -tool view -skip_instrs 2K -exit_after_records 3m", request);
    }

    #[test]
    fn simulators_have_options_of_their_own() {
        check("-indir d", Request { tools: vec![Tool::CacheSimulator], ..viewing("d") });
        let line =
            "-indir d -tool cache:TLB -L1D_size 4K -TLB_L2_assoc 8 -warmup_refs 10 -config_file c -coherence";
        let own = |name, value: &str| (name, value.to_owned());
        let expected = Request {
            tools: vec![Tool::CacheSimulator, Tool::TlbSimulator],
            cache_options: vec![own("l1d-size", "4096"), own("warmup-refs", "10"), own("coherence", "true")],
            tlb_options: vec![own("l2-assoc", "8"), own("warmup-refs", "10")],
            surroundings: Surroundings { config: Some("c".into()), ..Surroundings::default() },
            ..viewing("d")
        };
        check(line, expected);
    }

    #[test]
    fn threads_and_shards_are_lists() {
        check("-indir d -tool view -only_threads 7,9", Request { threads: vec![7, 9], ..viewing("d") });
        check("-indir d -tool view -only_shards 1,0", Request { shards: vec![1, 0], ..viewing("d") });
        refused(
            "-indir d -tool view -only_thread 7 -only_shards 1",
            "only one of -only_thread, -only_threads and -only_shards can be set",
        );
    }

    #[test]
    fn jobs_below_zero_mean_all_cores_and_zero_means_serial() {
        let jobs = |n: i64| Request { jobs: n, ..viewing("d") };
        check("-indir d -tool view -jobs 0", jobs(0));
        let counts = |jobs| Request { tools: vec![Tool::BasicCounts], ..jobs };
        assert!(counts(jobs(0)).is_interleaved() && !counts(jobs(1)).is_interleaved());
        assert!(jobs(1).is_interleaved());
        assert!(jobs(-1).threads_to_use(None).is_some());
    }

    #[test]
    fn the_limit_of_threads_holds_unless_jobs_are_named() {
        let jobs = |n: i64| Request { jobs: n, ..viewing("d") };
        let one = NonZeroUsize::new(1);
        assert_eq!(jobs(-1).threads_to_use(one), one);
        assert_eq!(jobs(3).threads_to_use(one), NonZeroUsize::new(3));
    }

    #[test]
    fn every_syntax_of_the_launcher_is_taken() {
        for name in ["arm", "dr", "riscv"] {
            check(
                &format!("-indir d -tool view -view_syntax {name}"),
                Request { other_syntax: Some(name.to_owned()), ..viewing("d") },
            );
        }
        check("-indir d -tool view -view_syntax arm -view_syntax att/arm/dr/riscv", viewing("d"));
        refused(
            "-indir d -tool view -view_syntax none",
            "option `-view_syntax`: syntax `none` is not available",
        );
    }

    #[test]
    fn what_is_not_available_is_named() {
        refused("-indir d -tool view -ipc_name x", "option `-ipc_name` of drmemtrace is not available");
        refused("-indir d -tool view -indir=d", "option `-indir=d` of drmemtrace is not available");
        refused("-indir d -tool view:TLBs", "option `-tool`: tool `TLBs` of drmemtrace is not available");
        refused("-tool view", "-indir, -multi_indir or -infile is required");
        let several = Request { also: vec!["e".to_owned(), "f".to_owned()], ..viewing("d") };
        check("-multi_indir d:e:f -tool view", several);
        refused(
            "-multi_indir d:e -tool view -only_thread 7",
            "threads and shards cannot be chosen with -multi_indir",
        );
        refused("-indir d -tool view app", "expected an option of drmemtrace, found `app`");
        refused("-indir d -tool", "option `-tool` of drmemtrace wants a value");
        refused("-indir d -tool view -line_size x", "option `-line_size` wants a number, found `x`");
    }

    #[test]
    fn a_test_checks_behind_all_other_tools() {
        let request = Request { tools: vec![Tool::View, Tool::InvariantChecker], ..viewing("d") };
        check("-indir d -tool view -offline -test_mode", request);
        check("-indir d -tool view -test_mode -no_test_mode", viewing("d"));
    }

    #[test]
    fn intervals_may_have_suffixes() {
        check(
            "-indir d -tool view -interval_microseconds 1M",
            Request { interval_us: 1 << 20, ..viewing("d") },
        );
    }

    #[test]
    fn only_one_skip_is_taken() {
        refused(
            "-indir d -tool view -skip_instrs 1 -skip_records 1",
            "only one of -skip_instrs, -skip_records and -skip_to_timestamp can be used at a time",
        );
    }
}
