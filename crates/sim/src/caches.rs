//! `caches`: hits and misses of a machine's caches for the trace.
//!
//! All accesses run through a hierarchy of caches in the order of time: instruction fetches through the core's instruction
//! cache, data through its data cache, and misses of these through the caches below. By default there are four cores, each
//! with an 8-way instruction cache and an 8-way data cache of 32 KiB (data misses prefetch the next line), and one shared
//! 16-way cache of 8 MiB; lines have 64 bytes and the least recently used one is evicted. (SPEC: drmemtrace.md#simulators.)
//!
//! A thread is placed on the core with the fewest live threads at its first record, and stays there until it ends; in a
//! trace of cores, each shard is a core. An access that straddles lines counts on each line. Prefetches are counted
//! separately. `quipu sim cache` is the same analysis with its own flags, and takes configuration files; `machine` names that
//! of a real processor. Lines have the size that the trace has recorded, unless `line-size` is given.
//!
//! Sources of misses are listed by instruction, by function (the code from a called address on, if the trace has instruction
//! classes) and by line; `top=0` omits these lists and what follows from instructions, which is faster.
//!
//! If the trace has kernel code, each level also has the hits and misses of the kernel's accesses: those of instructions in the
//! kernel and of their data.
//!
//! With `binary` or `types`, misses are also reported by field, as by the tool `types`.
//!
//! Memory grows with the number of distinct lines and instructions that miss.
//!
//! * **Needs** `accesses`; `instrs` with `reset-at` numbers; `threads.cpu` with `cpu-scheduling`.
//!   Uses `accesses.fetch`, without which instruction caches see prefetches only, and `accesses.pc`; `regions` if there are
//!   types.

use crate::config::{self, Config};
use crate::options::{
    BASE, BINARY, CAUSES, COHERENCE, CORES, CPU_SCHEDULING, EVICTIONS, L1D_ASSOC, L1D_SIZE, L1I_ASSOC,
    L1I_SIZE, LINE_SIZE, LL_ASSOC, LL_SIZE, MACHINE, MISS_FILE, POLICY, PREFETCHER, RESET_AT, SIM_REFS,
    SKIP_REFS, TOP, TYPES, WARMUP_FRACTION, WARMUP_REFS, fit_trace, in_options, policy, prefetcher,
};
use crate::simulate::{FUNCTIONS, OPTIONAL, Setup};
use crate::spec::{Policy, Usual};
use quipu_model::result::{Fields, Shape};
use quipu_model::{Columns, DynPass, Error, Needs, Options, Order, Result, Tool, ToolInfo, Trace};

/// The tool `caches`.
#[derive(Debug)]
pub struct Caches;

/// Static description of the tool.
pub static INFO: ToolInfo = ToolInfo {
    name: "caches",
    summary: "hits and misses of a machine's caches for the trace",
    needs: Needs {
        format: None,
        required: Columns::ACCESSES,
        optional: OPTIONAL.or(FUNCTIONS).or(Columns::MARKS),
    },
    order: Order::Time,
    options: &[
        CORES,
        LINE_SIZE,
        L1I_SIZE,
        L1I_ASSOC,
        L1D_SIZE,
        L1D_ASSOC,
        LL_SIZE,
        LL_ASSOC,
        POLICY,
        PREFETCHER,
        COHERENCE,
        MACHINE,
        SKIP_REFS,
        WARMUP_REFS,
        WARMUP_FRACTION,
        SIM_REFS,
        RESET_AT,
        CPU_SCHEDULING,
        CAUSES,
        TOP,
        BINARY,
        TYPES,
        BASE,
    ],
    in_report: false,
};

impl Tool for Caches {
    fn result(&self) -> Shape {
        crate::Simulated::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let options = &fit_trace(options, trace);
        settings(options, None)?.pass(options, INFO.name, trace)
    }
}

/// Builds settings from options. The caches and lines of a configuration, which may also be that of the option `machine`,
/// override options; its record counts are overridden by them.
///
/// # Errors
/// `Usage` for an invalid value, and for a configuration without caches.
pub fn settings(options: &Options, config: Option<Config>) -> Result<Setup> {
    let config = config.map_or_else(|| config::preset(options), |config| Ok(Some(config)))?;
    let machine = match &config {
        Some(config) => config.caches()?,
        None => Usual {
            cores: options.length(&CORES),
            line_bytes: options.count(&LINE_SIZE),
            l1i: (options.count(&L1I_SIZE), options.count(&L1I_ASSOC)),
            l1d: (options.count(&L1D_SIZE), options.count(&L1D_ASSOC)),
            ll: (options.count(&LL_SIZE), options.count(&LL_ASSOC)),
            policy: policy(options, &POLICY),
            data_prefetch: prefetcher(options),
            coherent: options.flag(&COHERENCE),
            miss_file: options.text(&MISS_FILE).map(str::to_owned),
        }
        .spec(),
    };
    // A configuration was checked when it was parsed.
    machine.layout().map_err(|error| in_options(&error))?;
    let evictions = options.text(&EVICTIONS).map(str::to_owned);
    if evictions.is_some() && machine.caches.iter().any(|cache| cache.policy == Policy::Opt) {
        return Err(Error::usage(
            "OPT decides later which lines to evict, so it goes with no list of evictions",
        ));
    }
    Ok(Setup { evictions, ..Setup::new(options, config, machine, false)? })
}
