//! The result of a simulation: counts of each cache.
//!
//! `make` takes them from a machine, `document` lays them out for people.

mod document;
mod make;

pub(crate) use document::COMPULSORY;
pub(crate) use make::{Told, data_level_names, data_levels, groups, level_name, make};

use crate::fields::MissingField;
use crate::over_time::MissSteps;
use crate::physical::Translation;
use crate::place::Placing;
use crate::recording::Recording;
use quipu_model::ThreadId;
use quipu_model::result;
use quipu_model::result::{Cells, Fields, Hex, Kind, Value};
use serde::{Serialize, Serializer};

result! {
    /// Hits and misses of caches or TLBs for a trace.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Simulated {
        pub line_size: u64 => "Bytes in a line, or in a page for TLBs; with pages of several sizes, in the smallest.";
        pub machine: String => "The machine, in words.";
        pub recorded: Recording => "Completeness of fetches and data in the trace.";
        pub instructions: Option<u64> =>
            "Instructions simulated with statistics; `null` if the trace has none.";
        pub executed: Option<u64> =>
            "Instructions executed in the simulated part: the same number, unless the trace is filtered; then the number \
             that its marks give, or `null`.";
        pub accesses: u64 =>
            "Accesses simulated with statistics, including fetches, prefetches and flushes.";
        pub incomplete: Vec<String> =>
            "Reasons why the result is incomplete, in sentences: a warm-up that did not end, pages without a physical \
             address. Empty if it is complete.";
        pub rollovers: u64, perhaps =>
            "Number of times that TLBs were emptied because the process numbers ran out; left out if 0.";
        pub cores: Vec<CoreCounts> => "Cores.";
        pub caches: Vec<CacheCounts> => "Caches, in the order of the machine.";
        pub levels: Vec<LevelCounts> =>
            "Sums over all caches of one level and type, from the cores to memory; caches that no access can reach are \
             left out.";
        pub threads: Vec<ThreadCounts> => "Threads, in order of appearance.";
        pub missing: Vec<MissingPc> => "Instructions with the most misses, by misses of all caches first.";
        pub more_missing: u64 => "Number of further instructions with misses.";
        pub missing_functions: Vec<MissingAt> =>
            "Functions with the most misses, by the address called.";
        pub more_missing_functions: u64 => "Number of further functions with misses.";
        pub outside_functions: u64 => "Misses, in first and last caches, of instructions in no function.";
        pub missing_lines: Vec<MissingAt> => "Lines, or pages, with the most misses.";
        pub more_missing_lines: u64 => "Number of further lines or pages with misses.";
        pub missing_fields: Option<Vec<MissingField>>, perhaps =>
            "Fields with the most misses; left out without types.";
        pub more_missing_fields: Option<u64>, perhaps =>
            "Number of further fields with misses; left out without types.";
        pub coherence: Option<Coherence> => "Counts of coherence; `null` without coherence.";
        pub translation: Option<Translation> =>
            "Translation of virtual addresses; `null` if they were used untranslated.";
        pub stages: Vec<StageCounts> =>
            "With reset points, the stages between them; the last one, which all other counts describe, comes last. \
             Otherwise empty.";
    } beside {
        pub is_tlb: bool => "Whether these are TLBs.";
        pub is_part: bool => "Whether some records were skipped or used for warm-up only.";
        pub placing: Placing => "Placement of threads on cores.";
        pub data_levels: Vec<String> => "Levels at which misses of fields are counted.";
        pub over_time: Option<MissSteps> => "Misses along the trace, if requested.";
    }
}

result! {
    /// Counts between two points at which statistics are reset.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct StageCounts {
        pub instructions: u64 => "Instructions.";
        pub accesses: u64 => "Accesses.";
        pub levels: Vec<WarmupCounts> => "Hits and misses of each level, as `levels` lists them.";
    }
}

result! {
    /// One core.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct CoreCounts {
        pub threads: u64 => "Threads that were placed on this core.";
        pub processors: Vec<u64> => "Processors of the trace that are simulated by this core.";
        pub instruction_cache: usize => "Position of its first instruction cache in `caches`.";
        pub data_cache: usize => "Position of its first data cache in `caches`.";
    }
}

result! {
    /// One cache.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct CacheCounts {
        pub name: String => "Name of the cache.";
        pub size: u64 =>
            "Size in bytes; for TLBs, bytes covered by all entries, each with the smallest page that it can hold.";
        pub entries: u64, only_in_tables => "Capacity in lines; for TLBs, in pages.";
        pub line_size: u64, only_in_tables => "Bytes in a line or page.";
        pub assoc: u64 => "Associativity: lines in a set.";
        pub policy: &'static str => "Replacement policy.";
        pub coherent: bool => "Whether the cache takes part in coherence.";
        pub inclusive: bool => "Whether it holds every line of its children.";
        pub exclusive: bool => "Whether it holds no line of its children.";
        pub parent: Option<String> => "Cache of the next level; `null` for memory.";
        pub hits: u64 => "Accesses that hit.";
        pub misses: u64 => "Accesses that missed.";
        pub miss_rate: Option<f64>, only_in_tables => "Share of accesses that missed; null without accesses.";
        pub compulsory_misses: u64 => "Misses, including those of prefetches, of lines that never missed here before.";
        pub parent_invalidations: u64 => "Lines invalidated because an inclusive parent lost them.";
        pub write_invalidations: u64 => "Lines invalidated by another core's write.";
        pub exclusive_invalidations: u64 => "Lines removed because they moved to a child of an exclusive cache.";
        pub flushes: u64 => "Flushes that reached the cache.";
        pub prefetch_hits: u64 => "Prefetches that hit.";
        pub prefetch_misses: u64 => "Prefetches that missed.";
        pub child_hits: u64 => "Hits in caches nearer to the cores.";
        pub bytes_in: u64 =>
            "Bytes read from the next level: misses of accesses and prefetches, in whole lines.";
        pub causes: Option<[u64; 3]> as Causes =>
            "Misses of accesses by cause: compulsory, capacity, conflict; `null` unless asked for with `causes`.";
        pub warmup: Option<WarmupCounts> =>
            "Hits and misses of the warm-up; `null` without one. If it did not end, it covers the whole trace, and all \
             other counts are 0.";
    }
}

/// Misses by cause: a list, whose items become columns in tables.
#[derive(Debug)]
pub(crate) struct Causes<'a, T>(&'a T);

result! {
    /// Items of the list of causes.
    #[derive(Debug)]
    struct CauseColumns {
        compulsory: u64 => "Misses of lines that were never referenced before.";
        capacity: u64 => "Misses that a fully associative cache of the same size would also have.";
        conflict: u64 => "Misses that a fully associative cache of the same size would not have.";
    }
}

impl Serialize for Causes<'_, Option<[u64; 3]>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl Value for Causes<'_, Option<[u64; 3]>> {
    const N_CELLS: usize = CauseColumns::N_CELLS;

    fn kind() -> Kind {
        Kind::items(CauseColumns::shape).or_nothing()
    }

    fn cells(&self, cells: &mut Cells<'_>) {
        let columns =
            self.0.map(|[compulsory, capacity, conflict]| CauseColumns { compulsory, capacity, conflict });
        columns.cells(cells);
    }
}

result! {
    /// Hits and misses of a cache or level during the warm-up or a stage, or by kernel code.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct WarmupCounts {
        pub hits: u64 => "Accesses that hit.";
        pub misses: u64 => "Accesses that missed.";
    }
}

result! {
    /// The caches of one level and type.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct LevelCounts {
        pub name: String => "Common part of the caches' names.";
        pub caches: u64 => "Number of caches.";
        pub hits: u64 => "Accesses that hit.";
        pub misses: u64 => "Accesses that missed.";
        pub miss_rate: Option<f64> => "Share of accesses that missed; `null` without accesses.";
        pub mpki: Option<f64> =>
            "Misses per 1,000 instructions; `null` if the number of executed instructions is unknown.";
        pub bytes_in: u64 => "Bytes read from the next level.";
        pub prefetch_hits: u64 => "Prefetches that hit.";
        pub prefetch_misses: u64 => "Prefetches that missed.";
        pub causes: Option<[u64; 3]> as Causes => "Misses by cause; `null` without `causes`.";
        pub kernel: Option<WarmupCounts>, perhaps =>
            "Hits and misses of accesses by kernel code, which `hits` and `misses` include; left out if there were none, or \
             with `top=0`.";
    }
}

result! {
    /// One thread.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct ThreadCounts {
        pub thread: ThreadId, flat => "The thread.";
        pub hits: u64 => "Accesses that hit a first cache.";
        pub misses: u64 => "Accesses that missed the first cache.";
        pub last_level_misses: u64 => "Accesses that missed all caches.";
    }
}

result! {
    /// One instruction that misses.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct MissingPc {
        pub pc: u64 as Hex => "Address of the instruction.";
        pub first_level_misses: u64 => "Accesses that missed a first cache.";
        pub last_level_misses: u64 => "Accesses that missed all caches.";
    }
}

result! {
    /// A function or line.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct MissingAt {
        pub addr: u64 as Hex => "First address of the function or line.";
        pub first_level_misses: u64 => "Accesses that missed a first cache.";
        pub last_level_misses: u64 => "Accesses that missed all caches.";
    }
}

result! {
    /// Counts of coherence.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Coherence {
        pub writes: u64 => "Writes that reached the snoop filter.";
        pub invalidations: u64 => "Copies in other caches invalidated by writes.";
        pub writebacks: u64 => "Dirty lines written back to the next level.";
    }
}

/// `part` divided by `whole`; `None` if `whole` is 0.
pub(crate) fn rate(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
