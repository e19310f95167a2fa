//! The result of a simulation: counts of each cache.
//!
//! `make` takes them from a machine, `document` lays them out for people.

mod document;
mod make;

pub(crate) use document::COMPULSORY;
pub(crate) use make::{Told, data_level_names, data_levels, make};

use crate::fields::MissingField;
use crate::physical::Translation;
use crate::place::Placing;
use crate::recording::Recording;
use quipu_model::ThreadId;
use quipu_model::result;
use quipu_model::result::{Cells, Fields, Hex, Kind, Value};
use serde::{Serialize, Serializer};

result! {
    /// How caches or TLBs served a trace.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Simulated {
        pub line_size: u64 => "Bytes in a line, or in a page for TLBs.";
        pub recorded: Recording => "What the trace has of fetches and data.";
        pub instructions: Option<u64> =>
            "Instructions simulated with statistics; `null` if the trace has none.";
        pub executed: Option<u64> =>
            "Instructions that were executed meanwhile: as many, unless the trace is filtered; then what its \
             marks count, or `null`.";
        pub accesses: u64 =>
            "Accesses simulated with statistics, fetches, prefetches and flushes among them.";
        pub incomplete: Vec<String> =>
            "Why the result is incomplete, in sentences: a warm-up that did not end, pages without a physical \
             address. Empty if it is complete.";
        pub rollovers: u64, perhaps =>
            "How often TLBs were emptied because more processes came than page numbers leave room for; left \
             out if never.";
        pub cores: Vec<CoreCounts> => "The cores.";
        pub caches: Vec<CacheCounts> => "The caches, as the machine lists them.";
        pub levels: Vec<LevelCounts> =>
            "The same, those of one level and type taken together, from the cores to memory, without those \
             that nothing can come to.";
        pub threads: Vec<ThreadCounts> => "The threads, in order of appearance.";
        pub missing: Vec<MissingPc> => "The instructions that miss most, those that reach memory first.";
        pub more_missing: u64 => "How many further instructions miss.";
        pub missing_functions: Vec<MissingAt> =>
            "The functions that miss most, by the address that is called.";
        pub more_missing_functions: u64 => "How many further functions miss.";
        pub outside_functions: u64 => "Misses, in first and last caches, of instructions in no function.";
        pub missing_lines: Vec<MissingAt> => "The lines, or pages, that are missed most.";
        pub more_missing_lines: u64 => "How many further ones are missed.";
        pub missing_fields: Option<Vec<MissingField>>, perhaps =>
            "With types, the fields that miss most; left out without.";
        pub more_missing_fields: Option<u64>, perhaps =>
            "How many further fields miss; left out without types.";
        pub coherence: Option<Coherence> => "What coherence cost; `null` without coherence.";
        pub translation: Option<Translation> =>
            "What became of virtual addresses; `null` if they were used as they are.";
        pub stages: Vec<StageCounts> =>
            "With reset points, what lies between them, the last stage (which all other counts are about) at \
             the end; else empty.";
    } beside {
        pub is_tlb: bool => "True for TLBs.";
        pub is_part: bool => "True if a part of the records is left out, or only warms up.";
        pub placing: Placing => "How threads came to cores.";
        pub data_levels: Vec<String> => "The levels that their misses are counted at.";
    }
}

result! {
    /// What lies between two points at which statistics begin anew.
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
        pub threads: u64 => "Threads that were ever placed here.";
        pub processors: Vec<u64> => "Processors of the trace that are played here.";
        pub instruction_cache: usize => "Its first instruction cache, as a position in `caches`.";
        pub data_cache: usize => "Its first data cache, as a position in `caches`.";
    }
}

result! {
    /// One cache.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct CacheCounts {
        pub name: String => "Its name.";
        pub size: u64 => "Size in bytes; for TLBs, bytes that its entries reach.";
        pub entries: u64, only_in_tables => "Lines that it can hold, or pages that a TLB can.";
        pub line_size: u64, only_in_tables => "Bytes in one.";
        pub assoc: u64 => "Lines in a set.";
        pub policy: &'static str => "Which line is evicted.";
        pub coherent: bool => "True if it takes part in coherence.";
        pub inclusive: bool => "True if it holds every line of its children.";
        pub exclusive: bool => "True if it holds no line of its children.";
        pub parent: Option<String> => "The cache that it asks; `null` for memory.";
        pub hits: u64 => "Accesses found.";
        pub misses: u64 => "Accesses not found.";
        pub miss_rate: Option<f64>, only_in_tables => "Misses as a share of both; none if nothing came.";
        pub compulsory_misses: u64 => "Misses, also of prefetches, of lines that never missed here before.";
        pub parent_invalidations: u64 => "Lines taken away because an inclusive parent lost them.";
        pub write_invalidations: u64 => "Lines taken away by another core's write.";
        pub exclusive_invalidations: u64 => "Lines taken away because they went down to a child.";
        pub flushes: u64 => "Flushes that came by.";
        pub prefetch_hits: u64 => "Prefetches found.";
        pub prefetch_misses: u64 => "Prefetches not found.";
        pub child_hits: u64 => "Accesses found nearer to a core.";
        pub bytes_in: u64 =>
            "Bytes that came from the next level: misses and prefetches not found, in whole lines.";
        pub causes: Option<[u64; 3]> as Causes =>
            "Misses of accesses by cause: compulsory, capacity, conflict; `null` unless asked for with `causes`.";
        pub warmup: Option<WarmupCounts> =>
            "Hits and misses before the statistics; `null` without warm-up. If it did not end, those up to \
             the end, and all other counts are 0.";
    }
}

/// Misses by cause: a list, whose items become columns in tables.
#[derive(Debug)]
pub(crate) struct Causes<'a, T>(&'a T);

result! {
    /// The items of that list.
    #[derive(Debug)]
    struct CauseColumns {
        compulsory: u64 => "Misses of lines that were never referenced before.";
        capacity: u64 => "Misses that a fully associative cache of the same size would have, too.";
        conflict: u64 => "Misses that it would not have.";
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
    /// What a cache counted before the statistics.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct WarmupCounts {
        pub hits: u64 => "Accesses found.";
        pub misses: u64 => "Accesses not found.";
    }
}

result! {
    /// The caches of one level and type.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct LevelCounts {
        pub name: String => "What their names have in common.";
        pub caches: u64 => "How many they are.";
        pub hits: u64 => "Accesses found.";
        pub misses: u64 => "Accesses not found.";
        pub miss_rate: Option<f64> => "Misses as a share of what came here; `null` if nothing came.";
        pub mpki: Option<f64> =>
            "Misses for a thousand instructions; `null` if it is not known how many were executed.";
        pub bytes_in: u64 => "Bytes that came from the next level.";
        pub prefetch_hits: u64 => "Prefetches found.";
        pub prefetch_misses: u64 => "Prefetches not found.";
        pub causes: Option<[u64; 3]> as Causes => "Misses by cause; `null` unless asked for.";
    }
}

result! {
    /// One thread.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct ThreadCounts {
        pub thread: ThreadId, flat => "The thread.";
        pub hits: u64 => "Accesses found in the first caches.";
        pub misses: u64 => "Accesses not found there.";
        pub last_level_misses: u64 => "Accesses that no cache had.";
    }
}

result! {
    /// One instruction that misses.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct MissingPc {
        pub pc: u64 as Hex => "The instruction.";
        pub first_level_misses: u64 => "Accesses not found in a first cache.";
        pub last_level_misses: u64 => "Accesses that no cache had.";
    }
}

result! {
    /// A function or line.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct MissingAt {
        pub addr: u64 as Hex => "Its first address.";
        pub first_level_misses: u64 => "Accesses not found in a first cache.";
        pub last_level_misses: u64 => "Accesses that no cache had.";
    }
}

result! {
    /// What coherence cost.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Coherence {
        pub writes: u64 => "Writes that reached the snoop filter.";
        pub invalidations: u64 => "Copies that other caches lost to a write.";
        pub writebacks: u64 => "Written lines that went to the next level.";
    }
}

/// `part` divided by `whole`; `None` if `whole` is 0.
pub(crate) fn rate(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
