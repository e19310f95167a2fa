//! What a simulation leaves: counts of each cache.
//!
//! `make` takes them from a machine, `document` says what people see of them.

mod document;
mod make;

pub(crate) use document::FIRST_MET;
pub(crate) use make::{Told, data_level_names, data_levels, make};

use crate::fields::MissingField;
use crate::physical::Translation;
use crate::place::Placing;
use crate::recording::Recording;
use quipu_model::ThreadId;
use serde::{Serialize, Serializer};

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// How caches or TLBs served a trace.
///
/// JSON: `line_size`, `recorded` (`fetches` and `data`, each `all`, `filtered` or `nothing`), `instructions` and `executed`
/// (`null` where unknown), `accesses`, `incomplete` (list of sentences), `cores` (list of [`CoreCounts`]), `caches` (list of
/// [`CacheCounts`]), `levels` (list of [`LevelCounts`]), `threads` (list of [`ThreadCounts`]), `missing` (list of
/// [`MissingPc`]), `more_missing`, `missing_functions` (list of [`MissingAt`]), `more_missing_functions`, `outside_functions`,
/// `missing_lines` (list of [`MissingAt`]), `more_missing_lines`, with types also `missing_fields` (list of
/// [`MissingField`]) and `more_missing_fields`, `coherence` ([`Coherence`] or `null`), `translation` ([`Translation`], or
/// `null` with virtual addresses), `stages` (list of [`StageCounts`], empty without reset points), `rollovers` if there
/// were any. Levels that nothing can come to, since
/// the trace has no fetches or no data, are left out of `levels`; `caches` has all of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulated {
    /// Bytes in a line, or in a page for TLBs.
    pub line_size: u64,
    /// True for TLBs.
    #[serde(skip)]
    pub is_tlb: bool,
    /// True if a part of the records is left out, or only warms up.
    #[serde(skip)]
    pub is_part: bool,
    /// What the trace has of fetches and data.
    #[serde(serialize_with = "names")]
    pub recorded: Recording,
    /// Instructions simulated with statistics; `null` if the trace has none.
    pub instructions: Option<u64>,
    /// Instructions that were executed meanwhile: as many, unless the trace is filtered; then what its marks count, or `null`.
    pub executed: Option<u64>,
    /// Accesses simulated with statistics, fetches, prefetches and flushes among them.
    pub accesses: u64,
    /// Why this is not what was asked for, in sentences: a warm-up that did not end, addresses that nobody told. Empty if it is.
    pub incomplete: Vec<String>,
    /// How often TLBs were emptied because more processes came than page numbers leave room for; left out if never.
    #[serde(skip_serializing_if = "is_zero")]
    pub rollovers: u64,
    /// How threads came to cores.
    #[serde(skip)]
    pub placing: Placing,
    /// The cores.
    pub cores: Vec<CoreCounts>,
    /// The caches, as the machine lists them.
    pub caches: Vec<CacheCounts>,
    /// The same, those of one level and type taken together, from the cores to memory, without those that nothing can come to.
    pub levels: Vec<LevelCounts>,
    /// The threads, in order of appearance.
    pub threads: Vec<ThreadCounts>,
    /// The instructions that miss most, those that reach memory first.
    pub missing: Vec<MissingPc>,
    /// How many further instructions miss.
    pub more_missing: u64,
    /// The functions that miss most, by the address that is called.
    pub missing_functions: Vec<MissingAt>,
    /// How many further functions miss.
    pub more_missing_functions: u64,
    /// Misses, in first and last caches, of instructions in no function.
    pub outside_functions: u64,
    /// The lines, or pages, that are missed most.
    pub missing_lines: Vec<MissingAt>,
    /// How many further ones are missed.
    pub more_missing_lines: u64,
    /// With types, the fields that miss most; left out without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_fields: Option<Vec<MissingField>>,
    /// The levels that their misses are counted at.
    #[serde(skip)]
    pub data_levels: Vec<String>,
    /// How many further fields miss; left out without types.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_missing_fields: Option<u64>,
    /// What coherence cost; `null` without coherence.
    pub coherence: Option<Coherence>,
    /// What became of virtual addresses; `null` if they were used as they are.
    pub translation: Option<Translation>,
    /// With reset points, what lies between them, the last stage (which all other counts are about) at the end; else empty.
    pub stages: Vec<StageCounts>,
}

/// What lies between two points at which statistics begin anew.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct StageCounts {
    /// Instructions.
    pub instructions: u64,
    /// Accesses.
    pub accesses: u64,
    /// Hits and misses of each level, as `levels` lists them.
    pub levels: Vec<WarmupCounts>,
}

/// One core.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CoreCounts {
    /// Threads that were ever placed here.
    pub threads: u64,
    /// Processors of the trace that are played here.
    pub processors: Vec<u64>,
    /// Its first instruction cache, as a position in `caches`.
    pub instruction_cache: usize,
    /// Its first data cache, as a position in `caches`.
    pub data_cache: usize,
}

/// One cache.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CacheCounts {
    /// Its name.
    pub name: String,
    /// Size in bytes; for TLBs, bytes that its entries reach.
    pub size: u64,
    /// Lines in a set.
    pub assoc: u64,
    /// Which line gives way.
    pub policy: &'static str,
    /// True if it takes part in coherence.
    pub coherent: bool,
    /// True if it holds every line of its children.
    pub inclusive: bool,
    /// True if it holds no line of its children.
    pub exclusive: bool,
    /// The cache that it asks; `null` for memory.
    pub parent: Option<String>,
    /// Accesses found.
    pub hits: u64,
    /// Accesses not found.
    pub misses: u64,
    /// Misses, also of prefetches, of lines that never missed here before.
    pub compulsory_misses: u64,
    /// Lines taken away because an inclusive parent lost them.
    pub parent_invalidations: u64,
    /// Lines taken away by another core's write.
    pub write_invalidations: u64,
    /// Lines taken away because they went down to a child.
    pub exclusive_invalidations: u64,
    /// Flushes that came by.
    pub flushes: u64,
    /// Prefetches found.
    pub prefetch_hits: u64,
    /// Prefetches not found.
    pub prefetch_misses: u64,
    /// Accesses found nearer to a core.
    pub child_hits: u64,
    /// Bytes that came from the next level: misses and prefetches not found, in whole lines.
    pub bytes_in: u64,
    /// Misses of accesses by cause: never met before, too small, too few ways; `null` unless asked for with `causes`.
    pub causes: Option<[u64; 3]>,
    /// Hits and misses before the statistics; `null` without warm-up. If it did not end, those up to the end, and all other
    /// counts are 0.
    pub warmup: Option<WarmupCounts>,
}

/// What a cache counted before the statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WarmupCounts {
    /// Accesses found.
    pub hits: u64,
    /// Accesses not found.
    pub misses: u64,
}

/// The caches of one level and type.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LevelCounts {
    /// What their names have in common.
    pub name: String,
    /// How many they are.
    pub caches: u64,
    /// Accesses found.
    pub hits: u64,
    /// Accesses not found.
    pub misses: u64,
    /// Misses as a share of what came here; `null` if nothing came.
    pub miss_rate: Option<f64>,
    /// Misses for a thousand instructions; `null` if it is not known how many were executed.
    pub mpki: Option<f64>,
    /// Bytes that came from the next level.
    pub bytes_in: u64,
    /// Prefetches found.
    pub prefetch_hits: u64,
    /// Prefetches not found.
    pub prefetch_misses: u64,
    /// Misses by cause; `null` unless asked for.
    pub causes: Option<[u64; 3]>,
}

/// One thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ThreadCounts {
    /// The thread.
    #[serde(flatten)]
    pub thread: ThreadId,
    /// Accesses found in the first caches.
    pub hits: u64,
    /// Accesses not found there.
    pub misses: u64,
    /// Accesses that no cache had.
    pub last_misses: u64,
}

/// One instruction that misses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MissingPc {
    /// The instruction.
    #[serde(serialize_with = "hex")]
    pub pc: u64,
    /// Accesses not found in a first cache.
    pub first_misses: u64,
    /// Accesses that no cache had.
    pub last_misses: u64,
}

/// A function or line.
///
/// JSON: `addr` (hex string), `first_misses`, `last_misses`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MissingAt {
    /// Its first address.
    #[serde(serialize_with = "hex")]
    pub addr: u64,
    /// Accesses not found in a first cache.
    pub first_misses: u64,
    /// Accesses that no cache had.
    pub last_misses: u64,
}

/// What coherence cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Coherence {
    /// Writes that reached the snoop filter.
    pub writes: u64,
    /// Copies that other caches lost to a write.
    pub invalidations: u64,
    /// Written lines that went to the next level.
    pub writebacks: u64,
}

fn hex<S: Serializer>(addr: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{addr:#x}"))
}

pub(crate) fn names<S: Serializer>(recorded: &Recording, serializer: S) -> Result<S::Ok, S::Error> {
    let [fetches, data] = [recorded.fetches, recorded.data].map(|of| of.name());
    serde_json::json!({ "fetches": fetches, "data": data }).serialize(serializer)
}

/// `part` of `whole`; `None` if there is no whole.
pub(crate) fn rate(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
