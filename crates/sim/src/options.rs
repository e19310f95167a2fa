//! Options that several tools of this crate have, and what their values mean.

use crate::extent::{Extent, Warmup};
use crate::place::Placing;
use crate::spec::{Policy, Prefetch};
use quipu_model::trace::SettingInfo;
use quipu_model::{Args, Error, Result, ShardKind, Trace, number};

/// One option.
pub(crate) const fn option(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    doc: &'static str,
) -> SettingInfo {
    SettingInfo { name, value, default, doc }
}

pub(crate) const CORES: SettingInfo = option("cores", "N", "4", "cores of the machine");
pub(crate) const LINE_SIZE: SettingInfo =
    option("line-size", "BYTES", "64", "bytes in a line, a power of two");
pub(crate) const L1I_SIZE: SettingInfo =
    option("l1i-size", "BYTES", "32K", "size of each first instruction cache, with K, M or G");
pub(crate) const L1I_ASSOC: SettingInfo = option("l1i-assoc", "N", "8", "its ways");
pub(crate) const L1D_SIZE: SettingInfo = option("l1d-size", "BYTES", "32K", "size of each first data cache");
pub(crate) const L1D_ASSOC: SettingInfo = option("l1d-assoc", "N", "8", "its ways");
pub(crate) const LL_SIZE: SettingInfo = option("ll-size", "BYTES", "8M", "size of the shared last cache");
pub(crate) const LL_ASSOC: SettingInfo = option("ll-assoc", "N", "16", "its ways");
pub(crate) const POLICY: SettingInfo =
    option("policy", "NAME", "LRU", "LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM or OPT");
pub(crate) const PREFETCHER: SettingInfo =
    option("prefetcher", "NAME", "nextline", "of first data caches: none, nextline, stride or stream");
pub(crate) const COHERENCE: SettingInfo =
    option("coherence", "", "false", "a write takes the line away from other cores' caches");
pub(crate) const SKIP_REFS: SettingInfo =
    option("skip-refs", "N", "0", "leave out so many records first; markers never count");
pub(crate) const WARMUP_REFS: SettingInfo =
    option("warmup-refs", "N", "0", "warm up with so many records, then begin the statistics");
pub(crate) const WARMUP_FRACTION: SettingInfo =
    option("warmup-fraction", "SHARE", "0", "warm up until the last caches are filled so far, 0.0 to 1.0");
pub(crate) const SIM_REFS: SettingInfo =
    option("sim-refs", "N", "all", "simulate so many records behind the warm-up");
pub(crate) const RESET_AT: SettingInfo = option(
    "reset-at",
    "POINTS",
    "none",
    "begin the statistics anew, lines stay: behind so many instructions, or at each mark of a name; several with commas",
);
pub(crate) const CPU_SCHEDULING: SettingInfo =
    option("cpu-scheduling", "", "false", "threads run on the processors that the trace names");
pub(crate) const CAUSES: SettingInfo =
    option("causes", "", "false", "divide misses: first met, too small, too few ways");
pub(crate) const TOP: SettingInfo = option("top", "N", "10", "how many instructions to list that miss most");

pub(crate) const BINARY: SettingInfo =
    option("binary", "FILE", "none", "the program, whose debug information says types and variables");
pub(crate) const TYPES: SettingInfo =
    option("types", "FILE", "none", "a file of types, as Cacheray's extractor writes it");
pub(crate) const CONFIG: SettingInfo = option(
    "config",
    "FILE",
    "none",
    "a configuration file of drmemtrace's simulator; it says all of the caches",
);
pub(crate) const BASE: SettingInfo =
    option("base", "ADDR", "0", "where the program was loaded, if not where its file says");

/// How threads come to cores.
pub(crate) fn placing(is_by_processor: bool) -> Placing {
    if is_by_processor { Placing::Processors } else { Placing::Fewest }
}

/// How many instructions to list.
pub(crate) fn top(args: &Args) -> Result<usize> {
    Ok(usize::try_from(args.number("top", 10)?).unwrap_or(usize::MAX))
}

/// How many cores there are.
pub(crate) fn cores(args: &Args, default: usize) -> Result<usize> {
    Ok(usize::try_from(args.number("cores", default as u64)?).unwrap_or(usize::MAX))
}

/// Which records count.
pub(crate) fn extent(args: &Args) -> Result<Extent> {
    Ok(Extent {
        skip: args.number("skip-refs", 0)?,
        warmup: warmup(args.number("warmup-refs", 0)?, share(args, "warmup-fraction", 0.0)?)?,
        take: match args.get("sim-refs") {
            None | Some("all") => None,
            Some(_) => Some(args.number("sim-refs", 0)?),
        },
    })
}

/// A warm-up of so many records, or up to this share.
pub(crate) fn warmup(refs: u64, fraction: f64) -> Result<Warmup> {
    match (refs, fraction > 0.0) {
        (0, false) => Ok(Warmup::None),
        (0, true) => Ok(Warmup::Fraction(fraction)),
        (refs, false) => Ok(Warmup::Refs(refs)),
        _ => Err(Error::usage("`warmup-refs` and `warmup-fraction` exclude each other")),
    }
}

/// A number from 0 to 1.
pub(crate) fn share(args: &Args, name: &str, default: f64) -> Result<f64> {
    let Some(text) = args.get(name) else { return Ok(default) };
    let parsed = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    parsed.ok_or_else(|| {
        Error::usage(format!("option `{name}` wants a number from 0.0 to 1.0, found `{text}`"))
    })
}

/// A number of bytes.
pub(crate) fn size(args: &Args, name: &str, default: u64) -> Result<u64> {
    let Some(text) = args.get(name) else { return Ok(default) };
    number::bytes(text).map_err(|_| {
        Error::usage(format!("option `{name}` wants a number of bytes such as 32768 or 32K, found `{text}`"))
    })
}

/// The replacement policy.
pub(crate) fn policy(args: &Args, default: Policy) -> Result<Policy> {
    let Some(text) = args.get("policy") else { return Ok(default) };
    Policy::named(text).ok_or_else(|| {
        let known = Policy::NAMES.map(|(name, _)| name).join(", ");
        Error::usage(format!("option `policy` is `{text}`, allowed: {known}"))
    })
}

/// The prefetcher of first data caches.
pub(crate) fn prefetcher(args: &Args, default: Prefetch) -> Result<Prefetch> {
    let Some(text) = args.get("prefetcher") else { return Ok(default) };
    Prefetch::named(text).ok_or_else(|| {
        let known = Prefetch::NAMES.map(|(name, _)| name).join(", ");
        Error::usage(format!("option `prefetcher` is `{text}`, allowed: {known}"))
    })
}

/// The options for a trace: a machine for one that is arranged by core has as many cores, unless they say how many.
pub fn fit_cores(args: &Args, trace: &dyn Trace) -> Args {
    let mut args = args.clone();
    if is_by_core(trace) && args.get(CORES.name).is_none() {
        args.set(CORES.name, trace.shards().len().to_string());
    }
    args
}

/// What is wrong with a machine, told by the options that describe it.
pub(crate) fn in_options(error: &Error) -> Error {
    const NAMES: [(&str, &str); 8] = [
        ("cache `L1I0`, key size", "option `l1i-size`"),
        ("cache `L1I0`, key assoc", "option `l1i-assoc`"),
        ("cache `L1D0`, key size", "option `l1d-size`"),
        ("cache `L1D0`, key assoc", "option `l1d-assoc`"),
        ("cache `LL`, key size", "option `ll-size`"),
        ("cache `LL`, key assoc", "option `ll-assoc`"),
        ("key num_cores", "option `cores`"),
        ("key line_size", "option `line-size`"),
    ];
    let message = error.message();
    let policy = message.split_once(", key replace_policy").map(|(_, rest)| format!("option `policy`{rest}"));
    let of = |(key, option): &(&str, &str)| Some(format!("{option}{}", message.strip_prefix(key)?));
    let told = NAMES.iter().find_map(of).or(policy);
    Error::new(error.kind(), told.unwrap_or_else(|| message.to_owned()))
}

/// How the threads of `trace` come to cores, where `wanted` is asked for: in a trace of cores, each is a core of the machine.
///
/// # Errors
/// `Unsupported` if processors that the trace names are to arrange a trace that is arranged by core.
pub(crate) fn placed(wanted: Placing, trace: &dyn Trace) -> Result<Placing> {
    match (is_by_core(trace), wanted) {
        (false, wanted) => Ok(wanted),
        (true, Placing::Processors) => Err(Error::unsupported(
            "`cpu-scheduling` puts threads on processors, and this trace is arranged by core: each of its cores is one of the machine",
        )
        .hint("leave it out")),
        (true, _) => Ok(Placing::Shards),
    }
}

/// True if each shard of a trace is a core.
pub(crate) fn is_by_core(trace: &dyn Trace) -> bool {
    let shards = trace.shards();
    !shards.is_empty() && shards.iter().all(|shard| shard.kind == ShardKind::Core)
}
