//! Builds results from machines: counts of each cache, and sums over levels and stages.

use super::{
    CacheCounts, Coherence, CoreCounts, LevelCounts, MissingAt, MissingPc, Simulated, StageCounts,
    ThreadCounts, WarmupCounts, rate,
};
use crate::describe::describe;
use crate::fields::MissingField;
use crate::machine::{Counts, Machine};
use crate::over_time::OverTime;
use crate::physical::Translation;
use crate::place::Placement;
use crate::recording::Recording;
use crate::resets::Stage;
use crate::simulate::Setup;
use crate::simulate::sources::{Pair, Sources};
use crate::spec::{CacheSpec, Inclusion, Role};
use quipu_model::trace::Recorded;
/// Facts that a simulation has noted in addition to the machine's counts.
pub(crate) struct Told {
    pub(crate) warmup: Option<Vec<(u64, u64)>>,
    pub(crate) instrs: u64,
    /// Instructions executed, as far as marks count them.
    pub(crate) executed: Option<u64>,
    pub(crate) accesses: u64,
    pub(crate) translation: Option<Translation>,
    pub(crate) incomplete: Vec<String>,
    pub(crate) rollovers: u64,
    pub(crate) sources: Sources,
    pub(crate) threads: Vec<ThreadCounts>,
    pub(crate) stages: Vec<Stage>,
    /// Hits and misses of each cache by kernel code, if there were any.
    pub(crate) kernel: Option<Vec<(u64, u64)>>,
    /// The fields with most misses, and the number of further fields that miss.
    pub(crate) fields: Option<(Vec<MissingField>, u64)>,
    pub(crate) over_time: Option<OverTime>,
}

/// Builds the result of a simulation.
pub(crate) fn make(settings: &Setup, machine: &Machine, placement: &Placement, mut told: Told) -> Simulated {
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
    let (lines, n_others) = told.sources.take_lines(settings.top);
    let (missing, more_missing) = most_missing(told.sources.pcs, settings.top);
    let missing = missing.into_iter().map(|(pc, first_level_misses, last_level_misses)| MissingPc {
        pc,
        first_level_misses,
        last_level_misses,
    });
    let at = |(addr, first_level_misses, last_level_misses)| MissingAt {
        addr,
        first_level_misses,
        last_level_misses,
    };
    let (functions, more_missing_functions) = most_missing(functions, settings.top);
    let (missing_fields, more_missing_fields) = told.fields.unzip();
    let shift = spec.line_bytes.trailing_zeros();
    let lines = lines.into_iter().map(|(line, misses)| (line << shift, misses));
    let (lines, more_missing_lines) = most_missing(lines, settings.top);
    let more_missing_lines = more_missing_lines + n_others;
    let recorded = settings.recording;
    let instructions = (recorded.instrs != Recorded::Nothing).then_some(told.instrs);
    let executed = if recorded.instrs == Recorded::All { instructions } else { told.executed };
    let groups = groups(&spec.caches, recorded);
    let over_time = told.over_time.map(|over_time| over_time.steps(first_and_last(&groups, &spec.caches)));
    Simulated {
        line_size: spec.line_bytes,
        machine: describe(settings.name.as_deref(), spec, settings.is_tlb),
        is_tlb: settings.is_tlb,
        is_part: !settings.extent.is_all(),
        recorded,
        instructions,
        executed,
        incomplete: told.incomplete,
        rollovers: told.rollovers,
        translation: told.translation,
        accesses: told.accesses,
        placing: placement.placing(),
        cores: cores.collect(),
        levels: groups
            .iter()
            .map(|(height, group)| LevelCounts {
                kernel: told.kernel.as_deref().map(|counts| sum_of(group, counts)),
                ..level(*height, group, &caches, executed)
            })
            .collect(),
        stages: stages(&groups, told.stages),
        caches,
        threads: told.threads,
        missing: missing.collect(),
        more_missing,
        missing_functions: functions.into_iter().map(at).collect(),
        more_missing_functions,
        outside_functions: outside.iter().sum(),
        missing_lines: lines.into_iter().map(at).collect(),
        more_missing_lines,
        missing_fields,
        data_levels: data_level_names(&spec.caches),
        over_time,
        more_missing_fields,
        coherence: machine.coherence().map(|of| Coherence {
            writes: of.writes,
            invalidations: of.invalidations,
            writebacks: of.writebacks,
        }),
    }
}

/// The entries with most misses, as address, misses of first and of last caches; sorted by misses of last caches first. Also
/// returns the number of entries left out.
fn most_missing(all: impl IntoIterator<Item = (u64, Pair)>, top: usize) -> (Vec<(u64, u64, u64)>, u64) {
    let mut all: Vec<(u64, u64, u64)> =
        all.into_iter().map(|(addr, [first, last])| (addr, first, last)).collect();
    all.sort_unstable_by_key(|(addr, first, last)| (u64::MAX - last, u64::MAX - first, *addr));
    let more = all.len().saturating_sub(top) as u64;
    all.truncate(top);
    (all, more)
}

fn cache_counts(cache: &CacheSpec, counts: Counts, line_bytes: u64) -> CacheCounts {
    let entries = cache.bytes / line_bytes.max(1);
    let smallest = cache.pages.iter().copied().min().unwrap_or(line_bytes);
    CacheCounts {
        name: cache.name.clone(),
        size: entries.saturating_mul(smallest),
        entries,
        line_size: smallest,
        assoc: cache.ways,
        policy: cache.policy.name(),
        coherent: false,
        inclusive: cache.inclusion == Inclusion::Inclusive,
        exclusive: cache.inclusion == Inclusion::Exclusive,
        parent: cache.parent.clone(),
        hits: counts.hits,
        misses: counts.misses,
        miss_rate: rate(counts.misses, counts.hits + counts.misses),
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

fn stages(groups: &[(usize, Vec<usize>)], stages: Vec<Stage>) -> Vec<StageCounts> {
    let of = |stage: Stage| StageCounts {
        instructions: stage.instrs,
        accesses: stage.accesses,
        levels: groups.iter().map(|(_, group)| sum_of(group, &stage.counts)).collect(),
    };
    stages.into_iter().map(of).collect()
}

/// Hits and misses of a group of caches, from those of each cache.
fn sum_of(group: &[usize], counts: &[(u64, u64)]) -> WarmupCounts {
    let counts = group.iter().map(|cache| counts[*cache]);
    let (hits, misses) = counts.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
    WarmupCounts { hits, misses }
}

/// Caches by level and type, each group with its height above the cores; groups for which the trace has no records are left
/// out.
pub(crate) fn groups(specs: &[CacheSpec], recorded: Recording) -> Vec<(usize, Vec<usize>)> {
    let mut groups: Vec<((usize, u8), Vec<usize>)> = Vec::new();
    for (i, spec) in specs.iter().enumerate() {
        let is_used = match spec.role {
            Role::Instruction => recorded.fetches != Recorded::Nothing,
            Role::Data => recorded.data != Recorded::Nothing,
            Role::Unified => true,
        };
        if !is_used {
            continue;
        }
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

/// The groups of first and of last caches, whose single misses are known, with their names.
fn first_and_last(
    groups: &[(usize, Vec<usize>)],
    specs: &[CacheSpec],
) -> impl Iterator<Item = (String, Vec<usize>)> {
    let is_known = move |group: &[usize]| {
        group.iter().all(|cache| specs[*cache].parent.is_none() || height(specs, *cache) == 0)
    };
    groups.iter().filter(move |(_, group)| is_known(group)).map(move |(height, group)| {
        (level_name(*height, group.iter().map(|cache| specs[*cache].name.as_str())), group.clone())
    })
}

/// Groups of caches that data goes through.
fn data_groups(specs: &[CacheSpec]) -> Vec<(usize, Vec<usize>)> {
    let takes_data = |group: &[usize]| group.iter().all(|cache| specs[*cache].role != Role::Instruction);
    groups(specs, Recording::default()).into_iter().filter(|(_, group)| takes_data(group)).collect()
}

/// Level of each cache that data goes through, counted among those.
pub(crate) fn data_levels(specs: &[CacheSpec]) -> Vec<Option<usize>> {
    let mut levels = vec![None; specs.len()];
    for (level, (_, group)) in data_groups(specs).into_iter().enumerate() {
        group.into_iter().for_each(|cache| levels[cache] = Some(level));
    }
    levels
}

/// Names of these levels.
pub(crate) fn data_level_names(specs: &[CacheSpec]) -> Vec<String> {
    let name = |(height, group): (usize, Vec<usize>)| {
        level_name(height, group.iter().map(|cache| specs[*cache].name.as_str()))
    };
    data_groups(specs).into_iter().map(name).collect()
}

/// Common prefix of the names of caches at one height.
pub(crate) fn level_name<'a>(height: usize, mut names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let is_one = names.len() == 1;
    let mut name = names.next().unwrap_or("");
    for other in names {
        let common = name.char_indices().zip(other.chars()).find(|((_, a), b)| a != b);
        name = &name[..common.map_or(name.len().min(other.len()), |((at, _), _)| at)];
    }
    // With a single core, the core's number is meaningless.
    let name = match is_one {
        true if height == 0 => name.trim_end_matches('0'),
        true => name.strip_suffix("-0").unwrap_or(name),
        false => name,
    };
    let name = name.trim_end_matches('-');
    if name.is_empty() { format!("level {}", height + 1) } else { name.to_owned() }
}

fn level(height: usize, group: &[usize], counts: &[CacheCounts], instrs: Option<u64>) -> LevelCounts {
    let sum = |of: fn(&CacheCounts) -> u64| group.iter().map(|cache| of(&counts[*cache])).sum::<u64>();
    let (hits, misses) = (sum(|cache| cache.hits), sum(|cache| cache.misses));
    let causes = group.iter().map(|cache| counts[*cache].causes).reduce(|a, b| {
        let (a, b) = (a?, b?);
        Some([a[0] + b[0], a[1] + b[1], a[2] + b[2]])
    });
    LevelCounts {
        name: level_name(height, group.iter().map(|cache| counts[*cache].name.as_str())),
        caches: group.len() as u64,
        hits,
        misses,
        miss_rate: rate(misses, hits + misses),
        mpki: instrs.and_then(|instrs| Some(1000.0 * rate(misses, instrs)?)),
        bytes_in: sum(|cache| cache.bytes_in),
        prefetch_hits: sum(|cache| cache.prefetch_hits),
        prefetch_misses: sum(|cache| cache.prefetch_misses),
        causes: causes.flatten(),
        kernel: None,
    }
}

/// Distance from the cores. The machine has been checked, so there are no cycles.
fn height(specs: &[CacheSpec], at: usize) -> usize {
    let name = Some(&specs[at].name);
    let below = specs.iter().enumerate().filter(|(_, spec)| spec.parent.as_ref() == name);
    below.map(|(child, _)| height(specs, child) + 1).max().unwrap_or(0)
}
