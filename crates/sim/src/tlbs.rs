//! `tlbs`: hits and misses of a machine's TLBs for the trace.
//!
//! Each core has a first-level TLB for instructions and one for data, both fully associative with 32 entries, and a 4-way
//! second-level TLB of 1024 entries below both; the least frequently used entry is evicted. Pages of different processes are
//! distinct. Fetches, reads and writes go through the TLBs; prefetches and flushes do not. An access that straddles pages
//! counts on each page. (SPEC: drmemtrace.md#simulators.)
//!
//! Threads are placed on cores as in `caches`. `quipu sim tlb` is the same analysis with its own flags, and takes
//! configuration files, also for pages of several sizes; `machine` names that of a real processor. Pages have the size that
//! the trace has recorded, unless `page-size` is given.
//!
//! * **Needs** `accesses`; `instrs` with `reset-at` numbers; `threads.cpu` with `cpu-scheduling`.
//!   Uses `accesses.fetch`, without which instruction TLBs have no accesses, and `accesses.pc`.

use crate::config::{self, Config};
use crate::options::{
    CAUSES, CORES, CPU_SCHEDULING, MACHINE, PAGE_SIZE, POLICY, RESET_AT, SIM_REFS, SKIP_REFS, TOP,
    WARMUP_REFS, fit_trace, in_options, option, policy,
};
use crate::simulate::{FUNCTIONS, OPTIONAL, Setup};
use crate::spec::{CacheSpec, MAX_CORES, MachineSpec, Policy, Role};
use quipu_model::options::Kind;
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Columns, DynPass, Error, Needs, OptionSpec, Options, Order, Result, Tool, ToolInfo, Trace,
};

/// The tool `tlbs`.
#[derive(Debug)]
pub struct Tlbs;

const TLBS: &str = "TLBs";
const L1I_ENTRIES: OptionSpec =
    option("l1i-entries", Kind::Count, "32", "entries of each L1 instruction TLB", TLBS);
const L1I_WAYS: OptionSpec = option("l1i-assoc", Kind::Count, "32", "its associativity", TLBS);
const L1D_ENTRIES: OptionSpec = option("l1d-entries", Kind::Count, "32", "entries of each L1 data TLB", TLBS);
const L1D_WAYS: OptionSpec = option("l1d-assoc", Kind::Count, "32", "its associativity", TLBS);
const L2_ENTRIES: OptionSpec = option("l2-entries", Kind::Count, "1024", "entries of each L2 TLB", TLBS);
const L2_WAYS: OptionSpec = option("l2-assoc", Kind::Count, "4", "its associativity", TLBS);
const TLB_POLICY: OptionSpec = POLICY.default("LFU").group(TLBS);
const TLB_MACHINE: OptionSpec = MACHINE.excludes(&[
    "l1i-entries",
    "l1i-assoc",
    "l1d-entries",
    "l1d-assoc",
    "l2-entries",
    "l2-assoc",
    "policy",
]);

/// Static description of the tool.
pub static INFO: ToolInfo = ToolInfo {
    name: "tlbs",
    summary: "hits and misses of a machine's TLBs for the trace",
    needs: Needs {
        format: None,
        required: Columns::ACCESSES,
        optional: OPTIONAL.or(FUNCTIONS).or(Columns::MARKS),
    },
    order: Order::Time,
    options: &[
        CORES,
        PAGE_SIZE,
        L1I_ENTRIES,
        L1I_WAYS,
        L1D_ENTRIES,
        L1D_WAYS,
        L2_ENTRIES,
        L2_WAYS,
        TLB_POLICY,
        TLB_MACHINE,
        SKIP_REFS,
        WARMUP_REFS,
        SIM_REFS,
        RESET_AT,
        CPU_SCHEDULING,
        CAUSES,
        TOP,
    ],
    in_report: false,
};

impl Tool for Tlbs {
    fn result(&self) -> Shape {
        crate::Simulated::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let options = &fit(options, None, trace);
        settings(options, None)?.pass(options, INFO.name, trace)
    }
}

/// Adapts options to a configuration, which may also be that of the option `machine`, and a trace, as far as they do not say
/// otherwise: pages have the size that the configuration says, or else that which the trace has recorded.
pub fn fit(options: &Options, config: Option<&Config>, trace: &dyn Trace) -> Options {
    let mut options = options.clone();
    // `settings` says what is wrong with the name of a machine.
    let preset = config::preset(&options).ok().flatten();
    let config = config.or(preset.as_ref());
    if let Some(bytes) = config.and_then(|config| config.page_bytes).filter(|_| !options.has(&PAGE_SIZE)) {
        // A number is always valid.
        let _ = options.put(&PAGE_SIZE, &bytes.to_string());
    }
    fit_trace(&options, trace)
}

/// Builds settings from options. The TLBs of a configuration, which may also be that of the option `machine`, override
/// options, except for the size of pages; its record counts are overridden by them.
///
/// # Errors
/// `Usage` for an invalid value, and for a configuration without TLBs.
pub fn settings(options: &Options, config: Option<Config>) -> Result<Setup> {
    let page_bytes = options.count(&PAGE_SIZE);
    if !page_bytes.is_power_of_two() || page_bytes < 64 {
        let page = options.word(&PAGE_SIZE);
        return Err(Error::usage(format!(
            "option `page-size` wants a power of two, 64 or more, found `{page}`"
        )));
    }
    let config = config.map_or_else(|| config::preset(options), |config| Ok(Some(config)))?;
    let machine = match &config {
        Some(config) => config.tlbs(page_bytes)?,
        None => usual(options, page_bytes)?,
    };
    Setup::new(options, config, machine, true)
}

/// The two levels of TLBs that options describe.
fn usual(options: &Options, page_bytes: u64) -> Result<MachineSpec> {
    let cores = options.length(&CORES);
    let sides = [
        ("L1I", "l1i", Role::Instruction, L1I_ENTRIES, L1I_WAYS),
        ("L1D", "l1d", Role::Data, L1D_ENTRIES, L1D_WAYS),
        ("LL", "l2", Role::Unified, L2_ENTRIES, L2_WAYS),
    ];
    let policy = policy(options, &TLB_POLICY);
    let mut tlbs = Vec::new();
    for (name, key, role, entries, ways) in sides {
        let (entries, ways) = (options.count(&entries), options.count(&ways));
        let Some(bytes) = entries.checked_mul(page_bytes) else {
            return Err(Error::usage(format!("option `{key}-entries` is too large: `{entries}`")));
        };
        let wrong = |what: &str, found: u64, allowed: &str| {
            Err(Error::usage(format!("option `{key}-{what}`: found `{found}`, allowed: {allowed}")))
        };
        if entries == 0 {
            return wrong("entries", entries, "1 or more");
        }
        if ways == 0 || (policy == Policy::TreePlru && !ways.is_power_of_two()) {
            let allowed = if ways == 0 { "1 or more" } else { "a power of two, with TREE_PLRU" };
            return wrong("assoc", ways, allowed);
        }
        if !entries.is_multiple_of(ways) {
            return wrong("entries", entries, &format!("a multiple of `{key}-assoc`, which is {ways}"));
        }
        tlbs.push((name, role, CacheSpec { policy, role, ..CacheSpec::new("", bytes, ways) }));
    }
    let mut caches = Vec::new();
    for core in 0..cores.min(MAX_CORES + 1) {
        for (name, role, tlb) in &tlbs {
            let is_first = *role != Role::Unified;
            caches.push(CacheSpec {
                name: format!("{name}{core}"),
                core: is_first.then_some(core),
                parent: is_first.then(|| format!("LL{core}")),
                ..tlb.clone()
            });
        }
    }
    let machine = MachineSpec::new(cores, page_bytes, caches);
    machine.layout().map_err(|error| in_options(&error))?;
    Ok(machine)
}
