//! `caches`: how a machine's caches serve the trace.
//!
//! All accesses run through a hierarchy of caches in the order of time: instruction fetches through the instruction cache of
//! the core, data through its data cache, and what these miss through the caches behind them. Unless told otherwise there
//! are four cores with 32 KiB of eight ways for instructions and as much for data, whose misses fetch the next line as well,
//! over one shared cache of 8 MiB and sixteen ways; lines have 64 bytes and the one not used for longest gives way.
//! (SPEC: docs/formats/drmemtrace.md, *simulators*.)
//!
//! A thread runs on the core with the fewest live threads when it first does something, and stays there until it ends; in a
//! trace of cores, each shard is a core. An access that straddles a border counts on each line. Prefetches are counted apart.
//! `quipu sim cache` is the same analysis with flags of its own, and takes configuration files.
//!
//! Memory grows with the distinct lines that miss and the distinct instructions that miss.
//!
//! * **Needs** `accesses`; `instrs` if records are left out, warm up or are limited; `threads.cpu` with `cpu-scheduling`.
//!   Uses `accesses.fetch`, without which instruction caches see prefetches only, and `accesses.pc`.
//! * **JSON** [`Simulated`](crate::Simulated).

use crate::config::{self, Config};
use crate::extent::{Extent, Warmup};
use crate::place::Placing;
use crate::simulate::{OPTIONAL, Settings, Simulation};
use crate::spec::{Policy, Prefetch, Usual};
use quipu_model::trace::SettingInfo;
use quipu_model::{Args, Columns, DynPass, Error, Needs, Order, Result, Tool, ToolInfo, Trace};

/// The tool `caches`.
#[derive(Debug)]
pub struct Caches;

/// What is known of the tool without a trace.
pub static INFO: ToolInfo = ToolInfo {
    name: "caches",
    summary: "how a machine's caches serve the trace",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: OPTIONAL.or(Columns::INSTRS) },
    order: Order::Time,
    options: &[
        option("cores", "N", "4", "cores of the machine"),
        option("line-size", "BYTES", "64", "bytes in a line, a power of two"),
        option("l1i-size", "BYTES", "32K", "size of each first instruction cache, with K, M or G"),
        option("l1i-assoc", "N", "8", "its ways"),
        option("l1d-size", "BYTES", "32K", "size of each first data cache"),
        option("l1d-assoc", "N", "8", "its ways"),
        option("ll-size", "BYTES", "8M", "size of the shared last cache"),
        option("ll-assoc", "N", "16", "its ways"),
        option("policy", "NAME", "LRU", "LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP or RANDOM"),
        option("prefetcher", "NAME", "nextline", "of first data caches: none, nextline, stride or stream"),
        option("coherence", "", "false", "a write takes the line away from other cores' caches"),
        SKIP_REFS,
        WARMUP_REFS,
        option(
            "warmup-fraction",
            "SHARE",
            "0",
            "warm up until the last caches are filled so far, 0.0 to 1.0",
        ),
        SIM_REFS,
        CPU_SCHEDULING,
        option("causes", "", "false", "divide misses: first met, too small, too few ways"),
        TOP,
    ],
    in_report: false,
};

const fn option(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    doc: &'static str,
) -> SettingInfo {
    SettingInfo { name, value, default, doc }
}

pub(crate) const SKIP_REFS: SettingInfo =
    option("skip-refs", "N", "0", "leave out so many records first; markers never count");
pub(crate) const WARMUP_REFS: SettingInfo =
    option("warmup-refs", "N", "0", "warm up with so many records, then begin the statistics");
pub(crate) const SIM_REFS: SettingInfo =
    option("sim-refs", "N", "all", "simulate so many records behind the warm-up");
pub(crate) const CPU_SCHEDULING: SettingInfo =
    option("cpu-scheduling", "", "false", "threads run on the processors that the trace names");
pub(crate) const TOP: SettingInfo = option("top", "N", "10", "how many instructions to list that miss most");

impl Tool for Caches {
    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, args: &Args, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let settings = settings(args, None)?.fitted(trace);
        settings.columns(INFO.name, trace)?;
        Ok(Box::new(Simulation::new(settings, None)?))
    }
}

/// The settings that options ask for. What a configuration says of caches and lines goes before options; what it says of
/// records goes behind them.
///
/// # Errors
/// `Usage` for a value that makes no sense.
pub fn settings(args: &Args, config: Option<Config>) -> Result<Settings> {
    let usual = Usual::default();
    let cores = args.number("cores", usual.cores as u64)?;
    let machine = match &config {
        Some(config) => config.machine.clone(),
        None => Usual {
            cores: usize::try_from(cores).unwrap_or(usize::MAX),
            line_bytes: args.number("line-size", usual.line_bytes)?,
            l1i: (size(args, "l1i-size", usual.l1i.0)?, args.number("l1i-assoc", usual.l1i.1)?),
            l1d: (size(args, "l1d-size", usual.l1d.0)?, args.number("l1d-assoc", usual.l1d.1)?),
            ll: (size(args, "ll-size", usual.ll.0)?, args.number("ll-assoc", usual.ll.1)?),
            policy: policy(args, usual.policy)?,
            data_prefetch: prefetcher(args, usual.data_prefetch)?,
            coherent: args.flag("coherence"),
            miss_file: args.get("miss-file").map(str::to_owned),
        }
        .spec(),
    };
    let mut extent = extent(args)?;
    let mut cpu_scheduling = args.flag("cpu-scheduling");
    if let Some(config) = config {
        if args.get("skip-refs").is_none() {
            extent.skip = config.skip_refs;
        }
        if extent.warmup == Warmup::None {
            extent.warmup = warmup(config.warmup_refs, config.warmup_fraction)?;
        }
        extent.take = extent.take.or(config.sim_refs);
        cpu_scheduling |= config.cpu_scheduling;
    }
    machine.layout()?;
    Ok(Settings {
        machine,
        is_tlb: false,
        extent,
        placing: if cpu_scheduling { Placing::Processors } else { Placing::Fewest },
        causes: args.flag("causes"),
        top: usize::try_from(args.number("top", 10)?).unwrap_or(usize::MAX),
        strides: None,
        physical: None,
    })
}

/// Which records count.
pub(crate) fn extent(args: &Args) -> Result<Extent> {
    let fraction = match args.get("warmup-fraction") {
        None => 0.0,
        Some(text) => match text.parse() {
            Ok(share) if (0.0..=1.0).contains(&share) => share,
            _ => {
                let message =
                    format!("option `warmup-fraction` wants a number from 0.0 to 1.0, found `{text}`");
                return Err(Error::usage(message));
            }
        },
    };
    Ok(Extent {
        skip: args.number("skip-refs", 0)?,
        warmup: warmup(args.number("warmup-refs", 0)?, fraction)?,
        take: match args.get("sim-refs") {
            None | Some("all") => None,
            Some(_) => Some(args.number("sim-refs", 0)?),
        },
    })
}

fn warmup(refs: u64, fraction: f64) -> Result<Warmup> {
    match (refs, fraction > 0.0) {
        (0, false) => Ok(Warmup::None),
        (0, true) => Ok(Warmup::Fraction(fraction)),
        (refs, false) => Ok(Warmup::Refs(refs)),
        _ => Err(Error::usage("`warmup-refs` and `warmup-fraction` exclude each other")),
    }
}

fn size(args: &Args, name: &str, default: u64) -> Result<u64> {
    let Some(text) = args.get(name) else { return Ok(default) };
    config::size(text).ok_or_else(|| {
        Error::usage(format!("option `{name}` wants a number of bytes such as 32768 or 32K, found `{text}`"))
    })
}

pub(crate) fn policy(args: &Args, default: Policy) -> Result<Policy> {
    let Some(text) = args.get("policy") else { return Ok(default) };
    Policy::named(text).ok_or_else(|| {
        let known = Policy::NAMES.map(|(name, _)| name).join(", ");
        Error::usage(format!("option `policy` is `{text}`, allowed: {known}"))
    })
}

fn prefetcher(args: &Args, default: Prefetch) -> Result<Prefetch> {
    let Some(text) = args.get("prefetcher") else { return Ok(default) };
    Prefetch::named(text).ok_or_else(|| {
        let known = Prefetch::NAMES.map(|(name, _)| name).join(", ");
        Error::usage(format!("option `prefetcher` is `{text}`, allowed: {known}"))
    })
}
