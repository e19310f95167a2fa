//! Prints the results of `cache_simulator`, `TLB_simulator` and `miss_analyzer`. SPEC: drmemtrace.md#simulators.

use super::counts::line;
use super::hash_order;
use quipu::model::fresh::{self, Replace};
use quipu::model::{Error, Result};
use quipu::sim::misses::{Hint, Misses};
use quipu::sim::{CacheCounts, CoreCounts, Placing, Simulated};
use std::collections::{BTreeSet, HashMap};

/// Names of cache options in our messages, with the launcher's spelling.
pub(super) const CACHE_NAMES: &[(&str, &str)] = &[
    ("`policy`", "`-replace_policy`"),
    ("`prefetcher`", "`-data_prefetcher`"),
    ("`warmup-fraction`", "`-warmup_fraction`"),
    ("`warmup-refs`", "`-warmup_refs`"),
    ("`cpu-scheduling`", "`-cpu_scheduling`"),
    ("`share`", "`-miss_frac_threshold`"),
    ("`confidence`", "`-confidence_threshold`"),
    ("`l1i-size`", "`-L1I_size`"),
    ("`l1i-assoc`", "`-L1I_assoc`"),
    ("`l1d-size`", "`-L1D_size`"),
    ("`l1d-assoc`", "`-L1D_assoc`"),
    ("`ll-size`", "`-LL_size`"),
    ("`ll-assoc`", "`-LL_assoc`"),
    ("`line-size`", "`-line_size`"),
    ("`cores`", "`-cores`"),
];

/// The same for TLBs.
pub(super) const TLB_NAMES: &[(&str, &str)] = &[
    ("`policy`", "`-TLB_replace_policy`"),
    ("`page-size`", "`-page_size`"),
    ("`cpu-scheduling`", "`-cpu_scheduling`"),
    ("`l1i-entries`", "`-TLB_L1I_entries`"),
    ("`l1d-entries`", "`-TLB_L1D_entries`"),
    ("`l2-entries`", "`-TLB_L2_entries`"),
    ("`l1i-assoc`", "`-TLB_L1I_assoc`"),
    ("`l1d-assoc`", "`-TLB_L1D_assoc`"),
    ("`l2-assoc`", "`-TLB_L2_assoc`"),
    ("`cores`", "`-cores`"),
];

/// Rewrites our error with the launcher's spelling of options. Messages about configuration files begin with the file's name
/// and are not changed.
pub(super) fn in_their_words(error: &Error, names: &[(&str, &str)]) -> Error {
    let mut message = error.message().to_owned();
    if ["option ", "cache ", "key ", "`"].iter().any(|start| message.starts_with(start)) {
        names.iter().for_each(|(ours, theirs)| message = message.replace(ours, theirs));
    }
    let wrapped = Error::new(error.kind(), message).at(error.place());
    match error.advice() {
        Some(advice) => wrapped.hint(advice),
        None => wrapped,
    }
}

/// Prints the result of `cache_simulator`.
pub(super) fn write_caches(result: &Simulated, out: &mut Vec<u8>) {
    line(out, format_args!("Cache simulation results:"));
    for (i, core) in result.cores.iter().enumerate() {
        write_core(i, core, result.placing, out);
        if is_idle(core, result.placing) {
            continue;
        }
        let [instr, data] = [core.instruction_cache, core.data_cache];
        if instr == data {
            let cache = &result.caches[instr];
            line(out, format_args!("  unified {} ({}) stats:", cache.name, description(cache, result)));
            write_counts(cache, "    ", true, out);
        } else {
            for cache in [instr, data].map(|cache| &result.caches[cache]) {
                line(out, format_args!("  {} ({}) stats:", cache.name, description(cache, result)));
                write_counts(cache, "    ", true, out);
            }
        }
    }
    let of_cores: BTreeSet<usize> =
        result.cores.iter().flat_map(|core| [core.instruction_cache, core.data_cache]).collect();
    let of_name: HashMap<&str, (usize, &CacheCounts)> =
        result.caches.iter().enumerate().map(|(i, cache)| (cache.name.as_str(), (i, cache))).collect();
    let names: Vec<&str> = result.caches.iter().map(|cache| cache.name.as_str()).collect();
    for is_last in [false, true] {
        let is_wanted = |name: &str| {
            let (i, cache) = of_name[name];
            !of_cores.contains(&i) && cache.parent.is_none() == is_last
        };
        for (_, cache) in hash_order::order(&names, is_wanted).into_iter().map(|name| of_name[name]) {
            line(out, format_args!("{} ({}) stats:", cache.name, description(cache, result)));
            write_counts(cache, "    ", true, out);
        }
    }
    if let Some(coherence) = &result.coherence {
        line(out, format_args!("Coherence stats:"));
        let mut row = |name: &str, count: u64| line(out, format_args!("    {name:<18}{count:>20}"));
        row("Total writes:", coherence.writes);
        row("Invalidations:", coherence.invalidations);
        row("Writebacks:", coherence.writebacks);
    }
}

/// Prints the result of `TLB_simulator`.
pub(super) fn write_tlbs(result: &Simulated, out: &mut Vec<u8>) {
    line(out, format_args!("TLB simulation results:"));
    for (i, core) in result.cores.iter().enumerate() {
        write_core(i, core, result.placing, out);
        if is_idle(core, result.placing) {
            continue;
        }
        let (instr, data) = (&result.caches[core.instruction_cache], &result.caches[core.data_cache]);
        let second = result.caches.iter().find(|tlb| instr.parent.as_ref() == Some(&tlb.name));
        for (name, tlb) in [("L1I", Some(instr)), ("L1D", Some(data)), ("LL", second)] {
            if let Some(tlb) = tlb {
                line(out, format_args!("  {name} stats:"));
                write_counts(tlb, "    ", false, out);
            }
        }
    }
}

/// Prints the result of `miss_analyzer`, and writes it to `file` as comma-separated values.
pub(super) fn write_misses(result: &Misses, file: Option<&str>, out: &mut Vec<u8>) -> Result<()> {
    line(out, format_args!("Cache miss analyzer results:"));
    let mut rows = Vec::new();
    for Hint { pc, stride, .. } in &result.hints {
        line(out, format_args!("pc={pc:#x}, stride={stride}, locality=nta"));
        line(&mut rows, format_args!("{pc:#x},{stride},nta"));
    }
    file.map_or(Ok(()), |file| fresh::put(file.as_ref(), &rows, Replace::Allowed))
}

fn write_core(i: usize, core: &CoreCounts, placing: Placing, out: &mut Vec<u8>) {
    if placing == Placing::Fewest {
        return line(out, format_args!("Core #{i} ({} thread(s))", core.threads));
    }
    let processors: Vec<String> = core.processors.iter().map(|processor| format!("#{processor}")).collect();
    let n = processors.len();
    let processors = processors.join(", ");
    match placing {
        Placing::Processors if n == 0 => line(out, format_args!("Core #{i} (0 traced CPU(s))")),
        Placing::Processors => line(out, format_args!("Core #{i} ({n} traced CPU(s): {processors})")),
        _ => line(out, format_args!("Core #{i} (traced CPU(s): {processors})")),
    }
}

/// Whether a core never ran anything; no further lines are printed for it.
fn is_idle(core: &CoreCounts, placing: Placing) -> bool {
    match placing {
        Placing::Fewest => core.threads == 0,
        Placing::Processors | Placing::Shards => core.processors.is_empty(),
    }
}

fn description(cache: &CacheCounts, result: &Simulated) -> String {
    let CacheCounts { size, assoc, policy, coherent, inclusive, exclusive, .. } = cache;
    let mut text = format!("size={size}, assoc={assoc}, block={}, {policy}", result.line_size);
    for (is_so, word) in [(coherent, ", coherent"), (inclusive, ", inclusive"), (exclusive, ", exclusive")] {
        if *is_so {
            text.push_str(word);
        }
    }
    text
}

/// QUIRK: DynamoRIO divides in single precision, which changes the second decimal if it is close to a half.
fn percent(n: u64, all: u64) -> String {
    format!("{:.2}%", f64::from(n as f32 * 100.0 / all as f32))
}

fn write_counts(cache: &CacheCounts, indent: &str, is_cache: bool, out: &mut Vec<u8>) {
    let mut row = |name: &str, count: u64| {
        // Label and number share 38 columns; a label longer than 18 takes some of the number's.
        let width = 38usize.saturating_sub(name.len().max(18));
        line(out, format_args!("{indent}{name:<18}{count:>width$}"));
    };
    // QUIRK: DynamoRIO's TLBs warm up, but never print the counts of the warm-up.
    if let Some(warmup) = cache.warmup.as_ref().filter(|_| is_cache) {
        row("Warmup hits:", warmup.hits);
        row("Warmup misses:", warmup.misses);
    }
    row("Hits:", cache.hits);
    row("Misses:", cache.misses);
    row("Compulsory misses:", cache.compulsory_misses);
    if is_cache && cache.coherent {
        row("Parent invalidations:", cache.parent_invalidations);
        row("Write invalidations:", cache.write_invalidations);
    } else {
        let invalidations =
            cache.parent_invalidations + cache.write_invalidations + cache.exclusive_invalidations;
        row("Invalidations:", invalidations);
    }
    if cache.flushes > 0 {
        row("Flushes:", cache.flushes);
    }
    if cache.prefetch_hits + cache.prefetch_misses > 0 {
        row("Prefetch hits:", cache.prefetch_hits);
        row("Prefetch misses:", cache.prefetch_misses);
    }
    let has_children = cache.child_hits > 0;
    let mut rate = |name: &str, all: u64| {
        // DynamoRIO prints no rate if there are no accesses.
        if all > 0 {
            let share = percent(cache.misses, all);
            let width = 39usize.saturating_sub(name.len().max(18));
            line(out, format_args!("{indent}{name:<18}{share:>width$}"));
        }
    };
    let here = cache.hits + cache.misses;
    rate(if has_children { "Local miss rate:" } else { "Miss rate:" }, here);
    if has_children {
        let mut row = |name: &str, count: u64| line(out, format_args!("{indent}{name:<18}{count:>20}"));
        row("Child hits:", cache.child_hits);
        let share = percent(cache.misses, here + cache.child_hits);
        line(out, format_args!("{indent}{:<18}{share:>21}", "Total miss rate:"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_divided_in_single_precision() {
        let (n, all) = (671155_u32, 2340558_u32);
        assert_eq!(format!("{:.2}%", 100.0 * f64::from(n) / f64::from(all)), "28.67%");
        assert_eq!(percent(n.into(), all.into()), "28.68%");
    }

    #[test]
    fn a_core_without_cpus_has_no_colon() {
        let core = |processors: &[u64]| {
            let caches = CoreCounts {
                threads: 1,
                processors: processors.to_vec(),
                instruction_cache: 0,
                data_cache: 0,
            };
            let mut text = Vec::new();
            write_core(2, &caches, Placing::Processors, &mut text);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(core(&[]), "Core #2 (0 traced CPU(s))\n");
        assert_eq!(core(&[3, 7]), "Core #2 (2 traced CPU(s): #3, #7)\n");
    }
}
