//! What a simulation leaves: counts of each cache, and what they say to people.

use crate::machine::{Counts, Machine};
use crate::place::{Placement, Placing};
use crate::resets::Stage;
use crate::simulate::Settings;
use crate::simulate::sources::{Pair, Sources};
use crate::spec::{CacheSpec, Inclusion, Role};
use quipu_model::Report;
use quipu_model::batch::{is_first_workload, thread_name};
use quipu_model::doc::{Block, Cell, Document, Figure, Grid};
use quipu_model::pass::Detail;
use serde::{Serialize, Serializer};
use std::any::Any;

/// How caches or TLBs served a trace.
///
/// JSON: `line_size`, `instructions`, `accesses`, `coherent`, `cores` (list of [`CoreCounts`]), `caches` (list of
/// [`CacheCounts`]), `levels` (list of [`LevelCounts`]), `threads` (list of [`ThreadCounts`]), `missing` (list of
/// [`MissingPc`]), `more_missing`, `missing_functions` (list of [`MissingAt`]), `more_missing_functions`, `outside_functions`,
/// `missing_lines` (list of [`MissingAt`]), `more_missing_lines`, `coherence` ([`Coherence`] or `null`), `stages` (list of [`StageCounts`], empty without reset points).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulated {
    /// Bytes in a line, or in a page for TLBs.
    pub line_size: u64,
    /// True for TLBs.
    #[serde(skip)]
    pub is_tlb: bool,
    /// Instructions simulated with statistics.
    pub instructions: u64,
    /// Accesses simulated with statistics, fetches, prefetches and flushes among them.
    pub accesses: u64,
    /// How threads came to cores.
    #[serde(skip)]
    pub placing: Placing,
    /// The cores.
    pub cores: Vec<CoreCounts>,
    /// The caches, as the machine lists them.
    pub caches: Vec<CacheCounts>,
    /// The same, those of one level and type taken together, from the cores to memory.
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
    /// What coherence cost; `null` without coherence.
    pub coherence: Option<Coherence>,
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
    /// Hits and misses before the statistics; `null` without warm-up.
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
    /// Misses as a share of what came here.
    pub miss_rate: f64,
    /// Misses for a thousand instructions.
    pub mpki: f64,
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
    pub thread: u64,
    /// Which of several traces it belongs to; left out for the first.
    #[serde(skip_serializing_if = "is_first_workload")]
    pub workload: u16,
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

/// What a simulation has noted besides the machine.
pub(crate) struct Told {
    pub(crate) warmup: Option<Vec<(u64, u64)>>,
    pub(crate) instrs: u64,
    pub(crate) accesses: u64,
    pub(crate) sources: Sources,
    pub(crate) threads: Vec<ThreadCounts>,
    pub(crate) stages: Vec<Stage>,
}

/// The result of a simulation.
pub(crate) fn make(settings: &Settings, machine: &Machine, placement: &Placement, told: Told) -> Simulated {
    let spec = &settings.machine;
    let caches: Vec<CacheCounts> = spec
        .caches
        .iter()
        .enumerate()
        .map(|(i, cache)| CacheCounts {
            warmup: told.warmup.as_ref().map(|all| WarmupCounts { hits: all[i].0, misses: all[i].1 }),
            causes: settings.causes.then(|| machine.counts(i).causes),
            coherent: machine.is_coherent(i),
            ..cache_counts(cache, machine.counts(i), spec.line_bytes)
        })
        .collect();
    let cores = placement.cores().iter().enumerate().map(|(core, load)| {
        let [instruction_cache, data_cache] = machine.first_caches(core);
        let processors = load.processors.clone();
        CoreCounts { threads: load.threads, processors, instruction_cache, data_cache }
    });
    let (functions, outside) = told.sources.functions();
    let (missing, more_missing) = most_missing(told.sources.pcs, settings.top);
    let missing = missing.into_iter().map(|(pc, first_misses, last_misses)| MissingPc {
        pc,
        first_misses,
        last_misses,
    });
    let at = |(addr, first_misses, last_misses)| MissingAt { addr, first_misses, last_misses };
    let (functions, more_missing_functions) = most_missing(functions, settings.top);
    let shift = spec.line_bytes.trailing_zeros();
    let lines = told.sources.lines.into_iter().map(|(line, misses)| (line << shift, misses));
    let (lines, more_missing_lines) = most_missing(lines, settings.top);
    Simulated {
        line_size: spec.line_bytes,
        is_tlb: settings.is_tlb,
        instructions: told.instrs,
        accesses: told.accesses,
        placing: placement.placing(),
        cores: cores.collect(),
        levels: levels(&spec.caches, &caches, told.instrs),
        stages: stages(&spec.caches, told.stages),
        caches,
        threads: told.threads,
        missing: missing.collect(),
        more_missing,
        missing_functions: functions.into_iter().map(at).collect(),
        more_missing_functions,
        outside_functions: outside.iter().sum(),
        missing_lines: lines.into_iter().map(at).collect(),
        more_missing_lines,
        coherence: machine.coherence().map(|of| Coherence {
            writes: of.writes,
            invalidations: of.invalidations,
            writebacks: of.writebacks,
        }),
    }
}

/// Those with the most misses, as address, misses of first and of last caches; those that reach memory first. And how many
/// there are besides.
fn most_missing(all: impl IntoIterator<Item = (u64, Pair)>, top: usize) -> (Vec<(u64, u64, u64)>, u64) {
    let mut all: Vec<(u64, u64, u64)> =
        all.into_iter().map(|(addr, [first, last])| (addr, first, last)).collect();
    all.sort_unstable_by_key(|(addr, first, last)| (u64::MAX - last, u64::MAX - first, *addr));
    let more = all.len().saturating_sub(top) as u64;
    all.truncate(top);
    (all, more)
}

fn cache_counts(cache: &CacheSpec, counts: Counts, line_bytes: u64) -> CacheCounts {
    CacheCounts {
        name: cache.name.clone(),
        size: cache.bytes,
        assoc: cache.ways,
        policy: cache.policy.name(),
        coherent: false,
        inclusive: cache.inclusion == Inclusion::Inclusive,
        exclusive: cache.inclusion == Inclusion::Exclusive,
        parent: cache.parent.clone(),
        hits: counts.hits,
        misses: counts.misses,
        compulsory_misses: counts.compulsory,
        parent_invalidations: counts.parent_invalidations,
        write_invalidations: counts.write_invalidations,
        exclusive_invalidations: counts.exclusive_invalidations,
        flushes: counts.flushes,
        prefetch_hits: counts.prefetch_hits,
        prefetch_misses: counts.prefetch_misses,
        child_hits: counts.child_hits,
        bytes_in: (counts.misses + counts.prefetch_misses).saturating_mul(line_bytes),
        causes: None,
        warmup: None,
    }
}

/// Takes caches of one height and type together.
fn levels(specs: &[CacheSpec], counts: &[CacheCounts], instrs: u64) -> Vec<LevelCounts> {
    let of = |(height, group): (usize, Vec<usize>)| level(height, &group, counts, instrs);
    groups(specs).into_iter().map(of).collect()
}

fn stages(specs: &[CacheSpec], stages: Vec<Stage>) -> Vec<StageCounts> {
    let groups = groups(specs);
    let sum = |stage: &Stage, group: &[usize]| {
        let counts = group.iter().map(|cache| stage.counts[*cache]);
        let (hits, misses) = counts.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        WarmupCounts { hits, misses }
    };
    let of = |stage: Stage| StageCounts {
        instructions: stage.instrs,
        accesses: stage.accesses,
        levels: groups.iter().map(|(_, group)| sum(&stage, group)).collect(),
    };
    stages.into_iter().map(of).collect()
}

/// The caches of one height and type, with the height.
fn groups(specs: &[CacheSpec]) -> Vec<(usize, Vec<usize>)> {
    let mut groups: Vec<((usize, u8), Vec<usize>)> = Vec::new();
    for (i, spec) in specs.iter().enumerate() {
        let role = match spec.role {
            Role::Instruction => 0,
            Role::Data => 1,
            Role::Unified => 2,
        };
        let key = (height(specs, i), role);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(i),
            None => groups.push((key, vec![i])),
        }
    }
    groups.sort_by_key(|(key, _)| *key);
    groups.into_iter().map(|((height, _), group)| (height, group)).collect()
}

fn level(height: usize, group: &[usize], counts: &[CacheCounts], instrs: u64) -> LevelCounts {
    let mut name = counts[group[0]].name.as_str();
    for other in group.iter().map(|cache| counts[*cache].name.as_str()) {
        let common = name.char_indices().zip(other.chars()).find(|((_, a), b)| a != b);
        name = &name[..common.map_or(name.len().min(other.len()), |((at, _), _)| at)];
    }
    // A machine of one core has nothing to compare the core's number with.
    let name = if group.len() == 1 && height == 0 { name.trim_end_matches('0') } else { name };
    let sum = |of: fn(&CacheCounts) -> u64| group.iter().map(|cache| of(&counts[*cache])).sum::<u64>();
    let (hits, misses) = (sum(|cache| cache.hits), sum(|cache| cache.misses));
    let causes = group.iter().map(|cache| counts[*cache].causes).reduce(|a, b| {
        let (a, b) = (a?, b?);
        Some([a[0] + b[0], a[1] + b[1], a[2] + b[2]])
    });
    LevelCounts {
        name: if name.is_empty() { format!("level {}", height + 1) } else { name.to_owned() },
        caches: group.len() as u64,
        hits,
        misses,
        miss_rate: rate(misses, hits + misses),
        mpki: 1000.0 * rate(misses, instrs),
        bytes_in: sum(|cache| cache.bytes_in),
        prefetch_hits: sum(|cache| cache.prefetch_hits),
        prefetch_misses: sum(|cache| cache.prefetch_misses),
        causes: causes.flatten(),
    }
}

/// Steps from the cores. The machine has been checked, so there is no circle.
fn height(specs: &[CacheSpec], at: usize) -> usize {
    let name = Some(&specs[at].name);
    let below = specs.iter().enumerate().filter(|(_, spec)| spec.parent.as_ref() == name);
    below.map(|(child, _)| height(specs, child) + 1).max().unwrap_or(0)
}

/// `part` of `whole`, 0 if there is no whole.
fn rate(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl Report for Simulated {
    fn json(&self) -> serde_json::Value {
        // A plain structure of numbers, strings and lists always has a JSON form.
        serde_json::to_value(self).unwrap_or_default()
    }

    fn document(&self, detail: Detail) -> Document {
        let title = if self.is_tlb { "TLBs" } else { "Caches" };
        let mut document = Document::new(title);
        if self.accesses == 0 {
            return document;
        }
        document.blocks.push(Block::Figures(self.figures()));
        document.blocks.push(Block::Grid(self.level_grid()));
        if detail == Detail::Brief {
            return document;
        }
        if let Some(coherence) = &self.coherence {
            document.blocks.push(Block::Facts(vec![
                ("writes seen by the snoop filter".into(), vec![Cell::Count(coherence.writes)]),
                ("copies lost to a write".into(), vec![Cell::Count(coherence.invalidations)]),
                ("written lines sent on".into(), vec![Cell::Count(coherence.writebacks)]),
            ]));
        }
        if !self.stages.is_empty() {
            document.blocks.push(Block::Grid(self.stage_grid()));
        }
        document.blocks.push(Block::Grid(self.cache_grid()));
        if self.threads.len() > 1 {
            document.blocks.push(Block::Grid(self.thread_grid()));
        }
        if !self.missing.is_empty() {
            document.blocks.push(Block::Grid(self.missing_grid()));
        }
        if !self.missing_functions.is_empty() {
            let title = "functions that miss most, by the address that is called";
            let (rows, more) = (&self.missing_functions, self.more_missing_functions);
            document.blocks.push(Block::Grid(missing_at(title, "function", rows, more)));
        }
        if !self.missing_lines.is_empty() {
            let (title, head) = match self.is_tlb {
                true => ("pages that are missed most", "page"),
                false => ("lines that are missed most", "line"),
            };
            let (rows, more) = (&self.missing_lines, self.more_missing_lines);
            document.blocks.push(Block::Grid(missing_at(title, head, rows, more)));
        }
        document
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Simulated {
    fn figures(&self) -> Vec<Figure> {
        let figure = |level: &LevelCounts| Figure {
            label: format!("{} miss rate", level.name),
            value: Cell::Share(level.miss_rate),
            note: format!("{:.2} misses for 1,000 instructions", level.mpki),
        };
        self.levels.iter().map(figure).collect()
    }

    fn level_grid(&self) -> Grid {
        let causes = self.levels.iter().any(|level| level.causes.is_some());
        let mut head = vec![
            "level",
            "caches",
            "hits",
            "misses",
            "miss rate",
            "MPKI",
            "prefetches",
            "read from next level",
        ];
        if causes {
            head.extend(["first met", "too small", "too few ways"]);
        }
        let row = |level: &LevelCounts| {
            let mut row = vec![
                Cell::from(level.name.as_str()),
                Cell::Count(level.caches),
                Cell::Count(level.hits),
                Cell::Count(level.misses),
                Cell::Share(level.miss_rate),
                Cell::Real(level.mpki, 2),
                Cell::Count(level.prefetch_hits + level.prefetch_misses),
                Cell::Bytes(level.bytes_in),
            ];
            row.extend(level.causes.iter().flatten().map(|count| Cell::Count(*count)));
            row
        };
        Grid {
            title: String::new(),
            head: head.into_iter().map(str::to_owned).collect(),
            rows: self.levels.iter().map(row).collect(),
            more: 0,
        }
    }

    fn stage_grid(&self) -> Grid {
        let head = ["stage", "instructions", "accesses"].map(str::to_owned).into_iter();
        let rates = self.levels.iter().map(|level| format!("{} miss rate", level.name));
        let row = |(i, stage): (usize, &StageCounts)| {
            let first = [i as u64 + 1, stage.instructions, stage.accesses].map(Cell::Count);
            let rates = stage.levels.iter().map(|of| Cell::Share(rate(of.misses, of.hits + of.misses)));
            first.into_iter().chain(rates).collect()
        };
        Grid {
            title: "between reset points".to_owned(),
            head: head.chain(rates).collect(),
            rows: self.stages.iter().enumerate().map(row).collect(),
            more: 0,
        }
    }

    fn cache_grid(&self) -> Grid {
        let row = |cache: &CacheCounts| {
            let came = cache.hits + cache.misses;
            vec![
                Cell::from(cache.name.as_str()),
                Cell::Bytes(cache.size),
                Cell::Count(cache.assoc),
                Cell::from(cache.policy),
                Cell::Count(cache.hits),
                Cell::Count(cache.misses),
                Cell::Share(rate(cache.misses, came)),
                Cell::Count(cache.compulsory_misses),
                Cell::Count(
                    cache.parent_invalidations + cache.write_invalidations + cache.exclusive_invalidations,
                ),
            ]
        };
        let head =
            ["cache", "size", "ways", "policy", "hits", "misses", "miss rate", "first met", "invalidated"];
        let used = self.caches.iter().filter(|cache| cache.hits + cache.misses + cache.prefetch_misses > 0);
        Grid {
            title: "each that was used".into(),
            head: head.map(str::to_owned).into(),
            rows: used.map(row).collect(),
            more: 0,
        }
    }

    fn thread_grid(&self) -> Grid {
        let row = |of: &ThreadCounts| {
            vec![
                Cell::from(thread_name(of.thread)),
                Cell::Count(of.hits),
                Cell::Count(of.misses),
                Cell::Share(rate(of.misses, of.hits + of.misses)),
                Cell::Count(of.last_misses),
            ]
        };
        let head = ["thread", "hits", "misses", "miss rate", "not in any cache"];
        Grid {
            title: "threads, in their first caches".into(),
            head: head.map(str::to_owned).into(),
            rows: self.threads.iter().take(MAX_THREADS).map(row).collect(),
            more: self.threads.len().saturating_sub(MAX_THREADS) as u64,
        }
    }

    fn missing_grid(&self) -> Grid {
        let row = |of: &MissingPc| {
            vec![Cell::Addr(of.pc), Cell::Count(of.last_misses), Cell::Count(of.first_misses)]
        };
        Grid {
            title: "instructions that miss most".into(),
            head: ["instruction", "not in any cache", "not in a first cache"].map(str::to_owned).into(),
            rows: self.missing.iter().map(row).collect(),
            more: self.more_missing,
        }
    }
}

/// Functions or lines that miss.
fn missing_at(title: &str, head: &str, rows: &[MissingAt], more: u64) -> Grid {
    let row =
        |of: &MissingAt| vec![Cell::Addr(of.addr), Cell::Count(of.last_misses), Cell::Count(of.first_misses)];
    Grid {
        title: title.into(),
        head: [head, "not in any cache", "not in a first cache"].map(str::to_owned).into(),
        rows: rows.iter().map(row).collect(),
        more,
    }
}

/// So many threads are listed for people.
const MAX_THREADS: usize = 64;
