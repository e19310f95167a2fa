//! Options shared by several tools of this crate, and their interpretation.

use crate::extent::{Extent, Warmup};
use crate::place::Placing;
use crate::spec::{Policy, Prefetch};
use quipu_model::options::Kind;
use quipu_model::{Error, OptionSpec, Options, Result, ShardKind, Trace};
use std::ops::RangeInclusive;

const CACHES: &str = "Caches";
const OF_MACHINE: &str = "Machine";
const PART: &str = "Range";
const TYPING: &str = "Types";
/// Options of caches that a machine of a real processor makes itself.
const CACHE_OPTIONS: &[&str] = &[
    "line-size",
    "l1i-size",
    "l1i-assoc",
    "l1d-size",
    "l1d-assoc",
    "ll-size",
    "ll-assoc",
    "policy",
    "prefetcher",
    "coherence",
];
/// Options that cannot be combined with `warmup-fraction`.
const REFS: &[&str] = &["warmup-refs"];

/// An option with its heading.
pub(crate) const fn option(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    doc: &'static str,
    group: &'static str,
) -> OptionSpec {
    OptionSpec::new(name, kind, default, doc).group(group)
}

pub(crate) const CORES: OptionSpec = option("cores", Kind::Count, "4", "cores of the machine", OF_MACHINE);
pub(crate) const LINE_SIZE: OptionSpec =
    option("line-size", Kind::Bytes, "64", "bytes in a line, a power of two", CACHES);
pub(crate) const L1I_SIZE: OptionSpec =
    option("l1i-size", Kind::Bytes, "32K", "size of each L1 instruction cache, with K, M or G", CACHES);
pub(crate) const L1I_ASSOC: OptionSpec = option("l1i-assoc", Kind::Count, "8", "its associativity", CACHES);
pub(crate) const L1D_SIZE: OptionSpec =
    option("l1d-size", Kind::Bytes, "32K", "size of each L1 data cache", CACHES);
pub(crate) const L1D_ASSOC: OptionSpec = option("l1d-assoc", Kind::Count, "8", "its associativity", CACHES);
pub(crate) const LL_SIZE: OptionSpec =
    option("ll-size", Kind::Bytes, "8M", "size of the shared last-level cache", CACHES);
pub(crate) const LL_ASSOC: OptionSpec = option("ll-assoc", Kind::Count, "16", "its associativity", CACHES);
pub(crate) const POLICY: OptionSpec = option(
    "policy",
    Kind::Choice(&["LRU", "LFU", "FIFO", "BIT_PLRU", "TREE_PLRU", "RRIP", "RANDOM", "OPT"]),
    "LRU",
    "replacement policy: LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM or OPT",
    CACHES,
);
pub(crate) const PREFETCHER: OptionSpec = option(
    "prefetcher",
    Kind::Choice(&["none", "nextline", "stride", "stream"]),
    "nextline",
    "prefetcher of L1 data caches: none, nextline, stride or stream",
    CACHES,
);
pub(crate) const COHERENCE: OptionSpec =
    OptionSpec::flag("coherence", "invalidate written lines in other cores' caches").group(CACHES);
/// The machine of a real processor.
pub const MACHINE: OptionSpec = option(
    "machine",
    Kind::Text,
    "none",
    "machine of a real processor, such as amd-zen3; `quipu sim --machine list` lists them with their sources",
    OF_MACHINE,
)
.excludes(CACHE_OPTIONS);
pub(crate) const PAGE_SIZE: OptionSpec =
    option("page-size", Kind::Bytes, "4K", "page size, a power of two, such as 4K, 2M or 1G", "TLBs");
/// File for the misses of the last cache; only for commands that write it.
pub const MISS_FILE: OptionSpec = option(
    "miss-file",
    Kind::Path,
    "none",
    "write each miss of the last-level cache to this gzip file: process, PC, address",
    CACHES,
)
.excludes(&["machine"]);
/// File for the lines that leave caches; only for commands that write it.
pub const EVICTIONS: OptionSpec = option(
    "evictions",
    Kind::Path,
    "none",
    "write each line that leaves a cache to this file of comma-separated values: process, PC, cache, address, reason, and \
     whether it is written back",
    CACHES,
);
pub(crate) const SKIP_REFS: OptionSpec =
    option("skip-refs", Kind::Count, "0", "skip this many records first; markers do not count", PART);
pub(crate) const WARMUP_REFS: OptionSpec = option(
    "warmup-refs",
    Kind::Count,
    "0",
    "warm up with this many records, then start the statistics",
    PART,
);
pub(crate) const WARMUP_FRACTION: OptionSpec = option(
    "warmup-fraction",
    Kind::Share,
    "0",
    "warm up until this share of the last-level caches is filled, 0.0 to 1.0",
    PART,
)
.excludes(REFS);
pub(crate) const SIM_REFS: OptionSpec =
    option("sim-refs", Kind::Count, "all", "simulate this many records after the warm-up", PART);
pub(crate) const RESET_AT: OptionSpec = option(
    "reset-at",
    Kind::Text,
    "none",
    "reset the statistics but keep the lines: after this many instructions, or at each mark of a name; comma-separated",
    PART,
)
.value("POINTS");
pub(crate) const CPU_SCHEDULING: OptionSpec =
    OptionSpec::flag("cpu-scheduling", "run threads on the processors that the trace names")
        .group(OF_MACHINE);
pub(crate) const CAUSES: OptionSpec =
    OptionSpec::flag("causes", "classify misses as compulsory, capacity or conflict");
pub(crate) const TOP: OptionSpec =
    option("top", Kind::Count, "10", "how many instructions with most misses to list", "");

/// The program whose debug information describes types and variables.
pub const BINARY: OptionSpec = option(
    "binary",
    Kind::Path,
    "none",
    "program whose debug information describes types and variables",
    TYPING,
);
/// A file of types.
pub const TYPES: OptionSpec = option(
    "types",
    Kind::Path,
    "none",
    "file of types from Cacheray's extractor; used for types that the program lacks",
    TYPING,
);
/// A file of the places where regions were allocated.
pub const PLACES: OptionSpec = option(
    "places",
    Kind::Path,
    "none",
    "file that says where regions were allocated, as recording writes it beside a trace: `NAME.places`",
    TYPING,
);
pub(crate) const CONFIG: OptionSpec = option(
    "config",
    Kind::Path,
    "none",
    "configuration file of drmemtrace's simulator; it defines all caches",
    "",
)
.excludes(&["machine"]);
/// Load address of the program.
pub const BASE: OptionSpec = option(
    "base",
    Kind::Count,
    "0",
    "load address of the program, if it differs from that in its file",
    TYPING,
)
.value("ADDR")
.needs("binary");

/// How threads are assigned to cores.
pub(crate) fn placing(is_by_processor: bool) -> Placing {
    if is_by_processor { Placing::Processors } else { Placing::Fewest }
}

/// The range of records that counts.
pub(crate) fn extent(options: &Options) -> Result<Extent> {
    Ok(Extent {
        skip: options.count(&SKIP_REFS),
        warmup: warmup(options.count(&WARMUP_REFS), options.share(&WARMUP_FRACTION))?,
        take: options.number(&SIM_REFS),
    })
}

/// A warm-up of this many records, or up to this share of filled lines.
pub(crate) fn warmup(refs: u64, fraction: f64) -> Result<Warmup> {
    match (refs, fraction > 0.0) {
        (0, false) => Ok(Warmup::None),
        (0, true) => Ok(Warmup::Fraction(fraction)),
        (refs, false) => Ok(Warmup::Refs(refs)),
        _ => Err(Error::usage("`warmup-refs` and `warmup-fraction` exclude each other")),
    }
}

/// The replacement policy that an option names.
pub(crate) fn policy(options: &Options, spec: &OptionSpec) -> Policy {
    Policy::named(options.word(spec)).unwrap_or(Policy::Lru)
}

/// The prefetcher of first data caches.
pub(crate) fn prefetcher(options: &Options) -> Prefetch {
    Prefetch::named(options.word(&PREFETCHER)).unwrap_or(Prefetch::NextLine)
}

/// Adapts options to a trace, as far as they do not say otherwise: if it is arranged by core, the machine has as many cores,
/// and lines and pages have the sizes that the trace has recorded.
pub fn fit_trace(options: &Options, trace: &dyn Trace) -> Options {
    let mut options = options.clone();
    let cores = is_by_core(trace).then(|| trace.shards().len() as u64);
    let pages = plausible(trace.meta().page_bytes, 1024..=1 << 30);
    for (spec, recorded) in [(&CORES, cores), (&LINE_SIZE, recorded_line(trace)), (&PAGE_SIZE, pages)] {
        if let Some(recorded) = recorded.filter(|_| !options.has(spec)) {
            // A number is always valid.
            let _ = options.put(spec, &recorded.to_string());
        }
    }
    options
}

/// Size of lines that a trace has recorded.
pub(crate) fn recorded_line(trace: &dyn Trace) -> Option<u64> {
    plausible(trace.meta().line_bytes, 16..=4096)
}

/// A recorded size; other sizes than these are those of a damaged trace.
fn plausible(bytes: Option<u64>, sizes: RangeInclusive<u64>) -> Option<u64> {
    bytes.filter(|bytes| bytes.is_power_of_two() && sizes.contains(bytes))
}

/// Rewrites an error about a machine in terms of the options that describe it.
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

/// How threads of `trace` are assigned to cores if the options request `wanted`: in a trace of cores, each is a core of the
/// machine.
///
/// # Errors
/// `Unsupported` if threads of a trace that is arranged by core should be placed by processor.
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

/// Whether each shard of a trace is a core.
pub(crate) fn is_by_core(trace: &dyn Trace) -> bool {
    let shards = trace.shards();
    !shards.is_empty() && shards.iter().all(|shard| shard.kind == ShardKind::Core)
}
