//! A machine in a sentence, for reports: numbers of misses mean little without the caches that they are of.

use crate::recording::Recording;
use crate::report::{groups, level_name};
use crate::spec::{CacheSpec, Inclusion, MachineSpec, Prefetch};
use quipu_model::number::counted;

/// Describes a machine of caches, or of TLBs: `4 cores; L1I: 32 KiB, 8-way LRU; …; lines of 64 bytes`. `name` is that of its
/// configuration.
pub(crate) fn describe(name: Option<&str>, spec: &MachineSpec, is_tlb: bool) -> String {
    let cores = counted(spec.cores as u64, "core");
    let mut parts = vec![match name {
        Some(name) => format!("{name}: {cores}"),
        None => cores,
    }];
    parts.extend(each_level(spec, is_tlb));
    let sizes: Vec<String> = spec.page_sizes().into_iter().map(size).collect();
    parts.push(match is_tlb {
        true => format!("pages of {}", sizes.join(" and ")),
        false => format!("lines of {} bytes", spec.line_bytes),
    });
    if spec.coherent {
        parts.push("coherent".to_owned());
    }
    parts.join("; ")
}

/// Describes the caches or TLBs of each level, those that are alike once.
pub(crate) fn each_level(spec: &MachineSpec, is_tlb: bool) -> Vec<String> {
    let mut parts = Vec::new();
    let served = served(spec);
    for (height, group) in groups(&spec.caches, Recording::default()) {
        // Caches of one level and type can still differ.
        let mut kinds: Vec<(usize, Vec<&str>)> = Vec::new();
        for at in group {
            let name = spec.caches[at].name.as_str();
            let is_same =
                |of: usize| served[of] == served[at] && is_alike(&spec.caches[of], &spec.caches[at]);
            match kinds.iter_mut().find(|(of, _)| is_same(*of)) {
                Some((_, names)) => names.push(name),
                None => kinds.push((at, vec![name])),
            }
        }
        for (at, names) in kinds {
            let name = level_name(height, names.into_iter());
            parts.push(format!("{name}: {}", of_cache(&spec.caches[at], spec, served[at], is_tlb)));
        }
    }
    parts
}

/// Whether two caches differ in their place only.
fn is_alike(one: &CacheSpec, other: &CacheSpec) -> bool {
    let of = |cache: &CacheSpec| (cache.bytes, cache.ways, cache.policy, cache.prefetch, cache.inclusion);
    of(one) == of(other) && one.pages == other.pages
}

/// Number of cores that each cache serves.
fn served(spec: &MachineSpec) -> Vec<usize> {
    let mut served = vec![0; spec.caches.len()];
    let Ok(layout) = spec.layout() else { return served };
    // The core that was counted last, so that the two sides of a core count once.
    let mut last = vec![None; spec.caches.len()];
    for core in 0..spec.cores {
        for first in layout.first.iter().skip(core).step_by(spec.cores).flatten() {
            let mut at = Some(*first);
            while let Some(cache) = at {
                if last[cache].replace(core) != Some(core) {
                    served[cache] += 1;
                }
                at = layout.parent[cache];
            }
        }
    }
    served
}

fn of_cache(cache: &CacheSpec, spec: &MachineSpec, served: usize, is_tlb: bool) -> String {
    let lines = cache.bytes / spec.line_bytes.max(1);
    let mut text = if is_tlb { format!("{lines} entries") } else { size(cache.bytes) };
    let ways = match cache.ways {
        1 => "direct-mapped".to_owned(),
        ways if ways == lines => "fully associative".to_owned(),
        ways => format!("{ways}-way"),
    };
    text += &format!(", {ways} {}", cache.policy.name());
    text += match cache.prefetch {
        Prefetch::None => "",
        Prefetch::NextLine => ", next-line prefetcher",
        Prefetch::Stride => ", stride prefetcher",
        Prefetch::Stream => ", stream prefetcher",
    };
    text += match cache.inclusion {
        Inclusion::Free => "",
        Inclusion::Inclusive => ", inclusive",
        Inclusion::Exclusive => ", exclusive",
    };
    if !cache.pages.is_empty() && !spec.large.is_empty() {
        let pages: Vec<String> = cache.pages.iter().map(|bytes| size(*bytes)).collect();
        text += &format!(", for pages of {}", pages.join(" and "));
    }
    match served {
        0 | 1 => {}
        all if all == spec.cores => text += ", shared by all cores",
        n => text += &format!(", shared by {n} cores"),
    }
    text
}

/// A size in the largest unit that fits: `1.5 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")];
    let (unit, name) = units.into_iter().find(|(unit, _)| bytes >= *unit).unwrap_or((1, "B"));
    format!("{} {name}", bytes as f64 / unit as f64) // Exact for every size that a cache has.
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::spec::Usual;

    #[test]
    fn the_usual_machine_is_described() {
        assert_eq!(
            describe(None, &Usual::default().spec(), false),
            "4 cores; L1I: 32 KiB, 8-way LRU; L1D: 32 KiB, 8-way LRU, next-line prefetcher; LL: 8 MiB, 16-way LRU, \
             shared by all cores; lines of 64 bytes"
        );
        let one = Usual { cores: 1, coherent: true, ..Usual::default() };
        assert!(describe(None, &one.spec(), false).starts_with("1 core; L1I: 32 KiB, 8-way LRU; L1D: "));
        assert!(
            describe(None, &one.spec(), false)
                .ends_with("LL: 8 MiB, 16-way LRU; lines of 64 bytes; coherent")
        );
    }

    #[test]
    fn shared_caches_and_tlbs_of_some_pages_are_described() {
        let text = "num_cores 4 large_pages { size 2M from 0x200000 to 0x400000 }\n\
                    L1 { shared_by 2 size 48K assoc 12 parent L2 }\nL2 { size 96K assoc 1536 exclusive true }\n\
                    SMALL { shared_by 1 entries 64 assoc 4 pages 4K parent BOTH }\n\
                    LARGE { shared_by 1 entries 8 assoc full pages 2M parent BOTH }\n\
                    BOTH { shared_by 2 entries 96 assoc 6 pages 4K,2M replace_policy LFU }\n";
        let config = config::parse(text, "c").unwrap();
        assert_eq!(
            describe(Some("c"), &config.machine, false),
            "c: 4 cores; L1: 48 KiB, 12-way LRU, shared by 2 cores; L2: 96 KiB, fully associative LRU, exclusive, shared \
             by all cores; lines of 64 bytes"
        );
        assert_eq!(
            describe(None, &config.tlbs(4096).unwrap(), true),
            "4 cores; SMALL: 64 entries, 4-way LRU, for pages of 4 KiB; LARGE: 8 entries, fully associative LRU, for \
             pages of 2 MiB; BOTH: 96 entries, 6-way LFU, for pages of 4 KiB and 2 MiB, shared by 2 cores; pages of 4 \
             KiB and 2 MiB"
        );
    }
}
