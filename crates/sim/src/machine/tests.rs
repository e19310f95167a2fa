//! Invariants of hierarchies on random accesses: inclusion, exclusion, coherence, sums; and the causes of misses.

use super::*;
use crate::spec::{CacheSpec, Inclusion, MachineSpec, Policy, Prefetch, Role, Usual};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Two cores with small first caches, a second cache each, and one shared last cache.
fn three_levels(inclusion: Inclusion, policy: Policy, prefetch: Prefetch, coherent: bool) -> MachineSpec {
    let mut caches = Vec::new();
    for core in 0..2 {
        for (name, role) in [("L1I", Role::Instruction), ("L1D", Role::Data)] {
            caches.push(CacheSpec {
                role,
                core: Some(core),
                parent: Some(format!("L2{core}")),
                policy,
                prefetch: if role == Role::Data { prefetch } else { Prefetch::None },
                ..CacheSpec::new(format!("{name}{core}"), 256, 2)
            });
        }
        let parent = Some("LLC".to_owned());
        caches.push(CacheSpec { parent, inclusion, policy, ..CacheSpec::new(format!("L2{core}"), 1024, 4) });
    }
    caches.push(CacheSpec { inclusion, policy, ..CacheSpec::new("LLC", 2048, 4) });
    MachineSpec { coherent, seed: 3, ..MachineSpec::new(2, 64, caches) }
}

fn index(spec: &MachineSpec, name: &str) -> usize {
    spec.caches.iter().position(|cache| cache.name == name).expect("a cache of the machine")
}

/// Core, kind, address, size.
type Access = (usize, AccessKind, u64, u32);

fn accesses(with_flushes: bool) -> impl Strategy<Value = Vec<Access>> {
    let kinds = if with_flushes { AccessKind::ALL.len() } else { 4 };
    let kind = (0..=kinds).prop_map(move |i| {
        let all = AccessKind::ALL;
        if with_flushes { all[i.min(all.len() - 1)] } else { [all[0], all[1], all[1], all[2], all[6]][i] }
    });
    let access = (0..2usize, kind, 0..80u64, 0..8u64, prop_oneof![4 => 1..8u32, 1 => 64..200u32]);
    let access = access.prop_map(|(core, kind, line, byte, size)| (core, kind, line * 64 + byte, size));
    prop::collection::vec(access, 0..300)
}

fn policies() -> impl Strategy<Value = Policy> {
    // The last one is Belady's, which is not allowed in all combinations.
    (0..Policy::NAMES.len() - 1).prop_map(|i| Policy::NAMES[i].1)
}

fn prefetchers() -> impl Strategy<Value = Prefetch> {
    (0..Prefetch::NAMES.len()).prop_map(|i| Prefetch::NAMES[i].1)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn inclusive_parents_hold_what_their_children_hold(
        accesses in accesses(false), policy in policies(), prefetch in prefetchers(), coherent: bool
    ) {
        let spec = three_levels(Inclusion::Inclusive, policy, prefetch, coherent);
        let mut machine = Machine::new(&spec, Watch::default()).unwrap();
        for (core, kind, addr, size) in accesses {
            machine.access(core, kind, addr, size, addr >> 7);
            for (at, cache) in machine.caches.iter().enumerate() {
                if let Some(parent) = cache.parent {
                    let held = machine.lines(parent);
                    prop_assert!(machine.lines(at).iter().all(|line| held.contains(line)));
                }
            }
        }
    }

    #[test]
    fn exclusive_parents_hold_nothing_that_their_children_hold(
        accesses in accesses(false), policy in policies(), prefetch in prefetchers()
    ) {
        let spec = three_levels(Inclusion::Exclusive, policy, prefetch, false);
        let mut machine = Machine::new(&spec, Watch::default()).unwrap();
        // Two caches below one parent may share a line and so leave a copy in the parent. One core that only reads data uses
        // one cache.
        let single = accesses.into_iter().filter(|(core, kind, _, _)| *core == 0 && *kind != AccessKind::Fetch);
        for (core, kind, addr, size) in single {
            machine.access(core, kind, addr, size, addr >> 7);
            for (at, cache) in machine.caches.iter().enumerate() {
                if let Some(parent) = cache.parent {
                    let held = machine.lines(parent);
                    prop_assert!(machine.lines(at).iter().all(|line| !held.contains(line)));
                }
            }
        }
    }

    #[test]
    fn a_write_leaves_no_copy_elsewhere_and_the_filter_knows_every_copy(
        accesses in accesses(false), inclusive: bool, policy in policies(), prefetch in prefetchers()
    ) {
        let inclusion = if inclusive { Inclusion::Inclusive } else { Inclusion::Free };
        let spec = three_levels(inclusion, policy, prefetch, true);
        let mut machine = Machine::new(&spec, Watch::default()).unwrap();
        let seconds = [index(&spec, "L20"), index(&spec, "L21")];
        for (core, kind, addr, size) in accesses {
            machine.access(core, kind, addr, size, addr >> 7);
            if kind == AccessKind::Write {
                // Lines before the last may have been evicted again; the other core holds none of them.
                for line in addr >> 6..=(addr + u64::from(size) - 1) >> 6 {
                    prop_assert!(!machine.holds(seconds[1 - core], line));
                }
            }
            for line in 0..90 {
                let sharers = machine.sharers(line);
                for second in seconds {
                    prop_assert!(!machine.holds(second, line) || sharers.contains(&second));
                }
            }
        }
    }

    #[test]
    fn parents_are_asked_what_children_miss(
        accesses in accesses(true), policy in policies(), prefetch in prefetchers()
    ) {
        let spec = three_levels(Inclusion::Free, policy, prefetch, false);
        let mut machine = Machine::new(&spec, Watch { causes: true, log: true, ..Watch::default() }).unwrap();
        let mut n_lines = 0;
        for (core, kind, addr, size) in accesses {
            machine.access(core, kind, addr, size, addr >> 7);
            if matches!(kind, AccessKind::Fetch | AccessKind::Read | AccessKind::Write) {
                n_lines += ((addr + u64::from(size) - 1) >> 6) - (addr >> 6) + 1;
            }
        }
        let logged: Vec<Miss> = machine.take_misses().collect();
        let counts = |name: &str| machine.counts(index(&spec, name));
        let sum = |names: &[&str], of: fn(&Counts) -> u64| names.iter().map(|name| of(&counts(name))).sum::<u64>();
        let firsts = ["L1I0", "L1D0", "L1I1", "L1D1"];
        prop_assert_eq!(sum(&firsts, |of| of.hits + of.misses), n_lines);
        prop_assert_eq!(counts("L20").hits + counts("L20").misses, sum(&firsts[..2], |of| of.misses));
        prop_assert_eq!(sum(&["LLC"], |of| of.hits + of.misses), sum(&["L20", "L21"], |of| of.misses));
        let prefetches = sum(&["L20", "L21"], |of| of.prefetch_misses);
        prop_assert_eq!(sum(&["LLC"], |of| of.prefetch_hits + of.prefetch_misses), prefetches);
        for cache in 0..spec.caches.len() {
            let of = machine.counts(cache);
            prop_assert_eq!(of.causes.iter().sum::<u64>(), of.misses);
        }
        let of_last = logged.iter().filter(|miss| miss.cache as usize == index(&spec, "LLC")).count() as u64;
        prop_assert_eq!(of_last, counts("LLC").misses + counts("LLC").prefetch_misses);
    }

    #[test]
    fn many_accesses_at_once_do_what_they_do_one_by_one(
        accesses in accesses(true), policy in 0..Policy::NAMES.len(), prefetch in prefetchers(),
        shape in 0..5usize, causes: bool, is_demand_only: bool
    ) {
        let policy = Policy::NAMES[policy].1;
        let mut spec = three_levels(Inclusion::Free, policy, prefetch, false);
        match shape {
            // Fully associative and direct-mapped caches.
            1 => spec.caches.iter_mut().for_each(|cache| cache.ways = cache.bytes / 64),
            2 => spec.caches.iter_mut().for_each(|cache| cache.ways = 1),
            3 => {
                let unified = |core| {
                    let name = format!("L1{core}");
                    let parent = (core == 0).then(|| "L2".to_owned());
                    CacheSpec { core: Some(core), parent, policy, prefetch, ..CacheSpec::new(name, 512, 2) }
                };
                let last = CacheSpec { policy, prefetch, ..CacheSpec::new("L2", 1024, 4) };
                spec.caches = vec![unified(0), unified(1), last];
            }
            // One set more than a power of two in each cache.
            4 => spec.caches.iter_mut().for_each(|cache| cache.bytes += 64 * cache.ways),
            _ => {}
        }
        let watch = Watch { causes, log: true, all: true, evictions: false };
        let mut single = Machine::new(&spec, watch).unwrap();
        let mut many = single.clone();
        let mut runs = accesses.chunk_by(|a, b| a.0 == b.0);
        prop_assert!(many.streams.is_some());
        runs.try_for_each(|run| -> Result<(), TestCaseError> {
            let core = run[0].0;
            let kind: Vec<AccessKind> = run.iter().map(|access| access.1).collect();
            let addr: Vec<u64> = run.iter().map(|access| access.2).collect();
            let size: Vec<u32> = run.iter().map(|access| access.3).collect();
            let pc: Vec<u64> = addr.iter().map(|addr| addr >> 7).collect();
            for (i, kind) in kind.iter().enumerate() {
                if !is_demand_only || matches!(kind, AccessKind::Fetch | AccessKind::Read | AccessKind::Write) {
                    let n_logged = single.misses.len();
                    single.access(core, *kind, addr[i], size[i], pc[i]);
                    single.number(n_logged, i);
                }
            }
            many.run(core, Rows { kind: &kind, addr: &addr, size: &size, pc: &pc, is_demand_only });
            for cache in 0..spec.caches.len() {
                prop_assert_eq!(single.counts(cache), many.counts(cache));
                prop_assert_eq!(single.caches[cache].ledger.loaded, many.caches[cache].ledger.loaded);
                let lines = |machine: &Machine| machine.lines(cache).into_iter().collect::<BTreeSet<_>>();
                prop_assert_eq!(lines(&single), lines(&many));
            }
            let by_cache = |misses: std::vec::Drain<'_, Miss>| {
                let mut misses: Vec<Miss> = misses.collect();
                misses.sort_by_key(|miss| miss.cache);
                misses
            };
            prop_assert_eq!(by_cache(single.take_misses()), by_cache(many.take_misses()));
            Ok(())
        })?;
    }

    #[test]
    fn evictions_and_write_backs_are_those_of_two_plain_levels(
        accesses in prop::collection::vec((0..24u64, any::<bool>()), 0..300)
    ) {
        let parent = Some("L2".to_owned());
        let first = CacheSpec { core: Some(0), parent, ..CacheSpec::new("L1", 4 * 64, 2) };
        let caches = vec![first, CacheSpec::new("L2", 6 * 64, 2)];
        let spec = MachineSpec::new(1, 64, caches);
        let mut machine = Machine::new(&spec, Watch { evictions: true, ..Watch::default() }).unwrap();
        let mut expected = Vec::new();
        // Lines of each set of each level, the most recently used first, and whether each is dirty.
        let mut levels = [vec![Vec::<(u64, bool)>::new(); 2], vec![Vec::new(); 3]];
        for (line, is_write) in accesses {
            let kind = if is_write { AccessKind::Write } else { AccessKind::Read };
            machine.access(0, kind, line * 64, 8, line);
            let [l1, l2] = &mut levels;
            let of_l1 = (line % 2) as usize;
            if let Some(at) = l1[of_l1].iter().position(|held| held.0 == line) {
                let (_, is_dirty) = l1[of_l1].remove(at);
                l1[of_l1].insert(0, (line, is_dirty || is_write));
                continue;
            }
            let set = &mut l2[(line % 3) as usize];
            let held = set.iter().position(|held| held.0 == line).map(|at| set.remove(at));
            set.insert(0, held.unwrap_or((line, false)));
            if set.len() > 2 {
                let (victim, is_dirty) = set.pop().unwrap();
                expected.push((1_u32, victim * 64, is_dirty, line));
            }
            l1[of_l1].insert(0, (line, is_write));
            if l1[of_l1].len() > 2 {
                let (victim, is_dirty) = l1[of_l1].pop().unwrap();
                expected.push((0_u32, victim * 64, is_dirty, line));
                let below = l2[(victim % 3) as usize].iter_mut().find(|held| held.0 == victim);
                if let Some(held) = below.filter(|_| is_dirty) {
                    held.1 = true;
                }
            }
        }
        let evictions: Vec<Eviction> = machine.take_evictions().collect();
        prop_assert!(evictions.iter().all(|of| of.left == Left::Replaced));
        let found = evictions.iter().map(|of| (of.cache, of.addr, of.is_written_back, of.pc));
        let found: Vec<_> = found.collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn pages_of_several_sizes_go_to_the_tlbs_that_hold_them(
        accesses in prop::collection::vec((0..3u64, 0..0x80u64, 1..0x30u32), 0..300)
    ) {
        let text = "num_cores 1 large_pages { size 64K from 0x40000 to 0x80000 }\n\
                    SMALL { shared_by 1 entries 4 assoc 2 pages 4K parent BOTH }\n\
                    LARGE { shared_by 1 entries 2 assoc full pages 64K parent SOME }\n\
                    SOME { shared_by 1 entries 1 assoc 1 pages 2M,4K parent BOTH }\n\
                    BOTH { shared_by 1 entries 6 assoc 2 pages 4K,64K }\n";
        let spec = crate::config::parse(text, "c").unwrap().tlbs(4096).unwrap();
        let mut machine = Machine::new(&spec, Watch::default()).unwrap();
        let mut tlbs = [PlainTlb::new(2, 2), PlainTlb::new(1, 2), PlainTlb::new(3, 2)];
        for (space, page, n) in accesses {
            let (addr, size) = (page << 12 | 0xf00, n << 8);
            machine.set_space(space);
            let rows = Rows {
                kind: &[AccessKind::Read],
                addr: &[addr],
                size: &[size],
                pc: &[],
                is_demand_only: true,
            };
            machine.run(0, rows);
            let mut at = addr;
            while at < addr + u64::from(size) {
                let is_large = (0x4_0000..0x8_0000).contains(&at);
                let shift = if is_large { 16 } else { 12 };
                let number = at >> shift | u64::from(is_large) << 52 | space << 53;
                if !tlbs[usize::from(is_large)].touch(number) {
                    tlbs[2].touch(number);
                }
                at = ((at >> shift) + 1) << shift;
            }
        }
        for (name, plain) in ["SMALL0", "LARGE0", "BOTH0"].into_iter().zip(&tlbs) {
            let of = machine.counts(index(&spec, name));
            prop_assert_eq!((of.hits, of.misses), (plain.hits, plain.misses), "{}", name);
        }
        // It holds no large pages, so it passes these on.
        let some = machine.counts(index(&spec, "SOME0"));
        prop_assert_eq!((some.hits, some.misses), (0, 0));
    }

    #[test]
    fn logs_and_causes_do_not_change_the_counts(
        accesses in accesses(true), policy in policies(), inclusive: bool, coherent: bool
    ) {
        let inclusion = if inclusive { Inclusion::Inclusive } else { Inclusion::Exclusive };
        let spec = three_levels(inclusion, policy, Prefetch::NextLine, coherent);
        let mut plain = Machine::new(&spec, Watch::default()).unwrap();
        let watch = Watch { causes: true, log: true, evictions: true, ..Watch::default() };
        let mut watched = Machine::new(&spec, watch).unwrap();
        for (core, kind, addr, size) in accesses {
            plain.access(core, kind, addr, size, 0);
            watched.access(core, kind, addr, size, 0);
        }
        for cache in 0..spec.caches.len() {
            let causes = plain.counts(cache).causes;
            prop_assert_eq!(plain.counts(cache), Counts { causes, ..watched.counts(cache) });
        }
        prop_assert_eq!(plain.coherence(), watched.coherence());
    }
}

#[test]
fn the_remainder_selects_the_set_if_their_number_is_no_power_of_two() {
    // Three sets of two ways: lines 0, 3, 6 and 9 share one.
    let mut machine = one(6 * 64, 2);
    for line in [0u64, 3, 1, 2, 4, 0, 6, 0, 3] {
        machine.access(0, AccessKind::Read, line * 64, 1, 0);
    }
    // 0 hits before and after 6 replaces 3.
    assert_eq!((machine.counts(0).hits, machine.counts(0).misses), (2, 7));
    let mut lines = machine.lines(0);
    lines.sort_unstable();
    assert_eq!(lines, [0, 1, 2, 3, 4]);
}

/// Cache, first address, reason and write-back of the lines that left caches since the last call.
fn left(machine: &mut Machine) -> Vec<(u32, u64, Left, bool)> {
    machine.take_evictions().map(|of| (of.cache, of.addr, of.left, of.is_written_back)).collect()
}

#[test]
fn lines_leave_caches_for_reasons() {
    let watch = Watch { evictions: true, ..Watch::default() };
    let first = |core: usize, bytes: u64| CacheSpec {
        core: Some(core),
        parent: Some("L2".to_owned()),
        ..CacheSpec::new(format!("L1{core}"), bytes, 1)
    };
    let of = |inclusion: Inclusion| {
        let caches = [first(0, 64), first(1, 64), CacheSpec { inclusion, ..CacheSpec::new("L2", 128, 1) }];
        MachineSpec { coherent: true, ..MachineSpec::new(2, 64, caches.into()) }
    };
    // Two sets of one way; both first caches have one line.
    let mut machine = Machine::new(&of(Inclusion::Inclusive), watch).unwrap();
    machine.access(0, AccessKind::Write, 0, 8, 0);
    assert_eq!(left(&mut machine), []);
    machine.access(1, AccessKind::Read, 128, 8, 0);
    // Line 2 replaces line 0 in the second level; the first cache writes its line to memory.
    assert_eq!(left(&mut machine), [(2, 0, Left::Replaced, false), (0, 0, Left::Inclusion, true)]);
    machine.access(0, AccessKind::Write, 128, 8, 0);
    assert_eq!(left(&mut machine), [(1, 128, Left::Coherence, false)]);
    machine.access(0, AccessKind::Read, 64, 8, 0);
    // The line is written to the second level, which writes it on when it is flushed.
    assert_eq!(left(&mut machine), [(0, 128, Left::Replaced, true)]);
    machine.access(0, AccessKind::FlushData, 0, 256, 0);
    let flushed = [(0, 64, Left::Flush, false), (2, 64, Left::Flush, false), (2, 128, Left::Flush, true)];
    assert_eq!(left(&mut machine), flushed);

    let mut machine = Machine::new(&of(Inclusion::Exclusive), watch).unwrap();
    machine.access(0, AccessKind::Write, 0, 8, 0);
    machine.access(0, AccessKind::Read, 64, 8, 0);
    // The second level takes what the first one loses, and stays dirty.
    assert_eq!(left(&mut machine), [(0, 0, Left::Replaced, true)]);
    machine.access(0, AccessKind::Read, 0, 8, 0);
    assert_eq!(left(&mut machine), [(2, 0, Left::Exclusion, false), (0, 64, Left::Replaced, false)]);
    machine.access(0, AccessKind::FlushData, 0, 8, 0);
    assert_eq!(left(&mut machine), [(0, 0, Left::Flush, true)]);
}

/// A TLB under LRU, as plainly as can be.
struct PlainTlb {
    sets: Vec<Vec<u64>>,
    ways: usize,
    hits: u64,
    misses: u64,
}

impl PlainTlb {
    fn new(sets: usize, ways: usize) -> PlainTlb {
        PlainTlb { sets: vec![Vec::new(); sets], ways, hits: 0, misses: 0 }
    }

    /// Uses a page; returns whether it was there.
    fn touch(&mut self, page: u64) -> bool {
        let n_sets = self.sets.len() as u64;
        let set = &mut self.sets[(page % n_sets) as usize];
        let held = set.iter().position(|held| *held == page);
        set.insert(0, page);
        match held {
            Some(at) => {
                set.remove(at + 1);
                self.hits += 1;
            }
            None => {
                set.truncate(self.ways);
                self.misses += 1;
            }
        }
        held.is_some()
    }
}

#[test]
fn cores_that_share_a_first_cache_find_each_others_lines() {
    let first = CacheSpec {
        core: Some(0),
        n_cores: 2,
        parent: Some("L2".to_owned()),
        ..CacheSpec::new("L1", 512, 2)
    };
    let third = CacheSpec { core: Some(2), parent: Some("L2".to_owned()), ..CacheSpec::new("M1", 512, 2) };
    let caches = vec![first, third, CacheSpec::new("L2", 1024, 4)];
    for coherent in [false, true] {
        let caches = caches.clone();
        let spec = MachineSpec { coherent, ..MachineSpec::new(3, 64, caches) };
        let mut machine = Machine::new(&spec, Watch::default()).unwrap();
        for (core, kind) in
            [(0, AccessKind::Write), (1, AccessKind::Read), (2, AccessKind::Write), (1, AccessKind::Read)]
        {
            machine.access(core, kind, 0x1000, 8, 0);
        }
        let counts = |cache: usize| (machine.counts(cache).hits, machine.counts(cache).misses);
        // With coherence, the write of core 2 takes the line from the first two.
        let shared = if coherent { (1, 2) } else { (2, 1) };
        assert_eq!((counts(0), counts(1)), (shared, (0, 1)));
    }
}

/// A machine of one core with one cache of this size.
fn one(bytes: u64, ways: u64) -> Machine {
    let cache = CacheSpec { core: Some(0), ..CacheSpec::new("L1", bytes, ways) };
    let spec = MachineSpec::new(1, 64, vec![cache]);
    Machine::new(&spec, Watch { causes: true, ..Watch::default() }).unwrap()
}

#[test]
fn an_access_counts_on_each_line_that_it_touches() {
    let mut machine = one(4096, 4);
    machine.access(0, AccessKind::Read, 0x103f, 2, 0);
    machine.access(0, AccessKind::Read, 0x1000, 0, 0);
    machine.access(0, AccessKind::Read, 0x1001, 0, 0);
    machine.access(0, AccessKind::Read, 0, 0, 0);
    machine.access(0, AccessKind::Read, u64::MAX, 8, 0);
    assert_eq!((machine.counts(0).hits, machine.counts(0).misses), (1, 2));
}

#[test]
fn misses_have_a_cause() {
    // Two sets of one way: lines 0 and 2 conflict although the cache has room for both.
    let mut machine = one(128, 1);
    for line in [0u64, 2, 0] {
        machine.access(0, AccessKind::Read, line * 64, 1, 0);
    }
    assert_eq!(machine.counts(0).causes, [2, 0, 1]);
    // A third line exceeds the two lines of the cache: a capacity miss.
    for line in [1u64, 3, 0] {
        machine.access(0, AccessKind::Read, line * 64, 1, 0);
    }
    assert_eq!(machine.counts(0).causes, [4, 0, 1], "the set of even lines still holds line 0");
    for line in [2u64, 1] {
        machine.access(0, AccessKind::Read, line * 64, 1, 0);
    }
    assert_eq!(machine.counts(0).causes, [4, 2, 1]);
}

#[test]
fn a_flush_takes_the_lines_of_its_range_out_of_all_levels() {
    let spec = Usual { cores: 1, data_prefetch: Prefetch::None, ..Usual::default() }.spec();
    let mut machine = Machine::new(&spec, Watch::default()).unwrap();
    for line in 0..4u64 {
        machine.access(0, AccessKind::Read, line * 64, 8, 0);
    }
    machine.access(0, AccessKind::FlushData, 64, 65, 0);
    let (data, last) = (index(&spec, "L1D0"), index(&spec, "LL"));
    for cache in [data, last] {
        let mut lines = machine.lines(cache);
        lines.sort_unstable();
        assert_eq!(lines, [0, 3]);
        assert_eq!(machine.counts(cache).flushes, 1);
    }
    machine.access(0, AccessKind::FlushData, 0, u32::MAX, 0);
    assert!(machine.lines(data).is_empty() && machine.lines(last).is_empty());
}

#[test]
fn address_spaces_do_not_share_pages() {
    let cache = CacheSpec { core: Some(0), ..CacheSpec::new("TLB", 32 * 4096, 32) };
    let spec = MachineSpec::new(1, 4096, vec![cache]);
    let mut machine = Machine::new(&spec, Watch::default()).unwrap();
    for space in [1, 2, 1] {
        machine.set_space(space);
        machine.access(0, AccessKind::Read, 0x7000, 8, 0);
    }
    assert_eq!((machine.counts(0).hits, machine.counts(0).misses), (1, 2));
}

#[test]
fn counts_begin_anew_while_lines_stay() {
    let mut machine = one(4096, 4);
    machine.access(0, AccessKind::Write, 0x1000, 8, 0);
    machine.reset_counts();
    machine.access(0, AccessKind::Read, 0x1000, 8, 0);
    assert_eq!((machine.counts(0).hits, machine.counts(0).misses), (1, 0));
}
