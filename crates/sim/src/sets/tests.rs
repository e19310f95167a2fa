//! Compares each policy with a slow, direct implementation of its description (SPEC: drmemtrace.md#simulators), on random
//! uses, misses and invalidations.

use super::*;
use crate::spec::Rrip;
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};

/// One set, implemented directly from the description.
struct Plain {
    policy: Policy,
    lines: Vec<Option<u64>>,
    /// Counters of LRU and RRIP, use counts of LFU.
    numbers: Vec<u64>,
    queue: VecDeque<usize>,
    bits: Vec<bool>,
    /// For each range of ways, whether its upper half was used last.
    halves: HashMap<(usize, usize), bool>,
}

/// The cycle of predictions, shared by all sets.
struct Cycle {
    long_at: Vec<bool>,
    position: usize,
}

impl Cycle {
    fn new(rrip: Rrip) -> Cycle {
        let mut longs = 0;
        let long_at = (0..u64::from(rrip.period)).map(|i| {
            let is_long = (i + 1) * u64::from(rrip.long_per_period) > longs * u64::from(rrip.period);
            longs += u64::from(is_long);
            is_long
        });
        Cycle { long_at: long_at.collect(), position: 0 }
    }

    fn next(&mut self) -> bool {
        let is_long = self.long_at[self.position];
        self.position = (self.position + 1) % self.long_at.len();
        is_long
    }
}

impl Plain {
    fn new(policy: Policy, ways: usize) -> Plain {
        let number = match policy {
            Policy::Lru => 1,
            Policy::Rrip(rrip) => (1 << rrip.bits) - 1,
            _ => 0,
        };
        Plain {
            policy,
            lines: vec![None; ways],
            numbers: vec![number; ways],
            queue: (0..ways).collect(),
            bits: vec![false; ways],
            halves: HashMap::new(),
        }
    }

    fn find(&self, line: u64) -> Option<usize> {
        self.lines.iter().position(|held| *held == Some(line))
    }

    fn used(&mut self, way: usize, hit: bool, cycle: &mut Cycle) {
        let ways = self.lines.len();
        match self.policy {
            Policy::Lru => {
                if self.numbers[way] != 0 {
                    let own = self.numbers[way];
                    for other in 0..ways {
                        if other != way && self.numbers[other] <= own {
                            self.numbers[other] += 1;
                        }
                    }
                    self.numbers[way] = 0;
                }
            }
            Policy::Lfu => self.numbers[way] += 1,
            Policy::Rrip(rrip) => {
                let distant = (1 << rrip.bits) - 1;
                self.numbers[way] = match hit {
                    true => 0,
                    false => distant - u64::from(cycle.next()),
                };
            }
            Policy::BitPlru => {
                self.bits[way] = true;
                if self.bits.iter().all(|bit| *bit) {
                    self.bits.fill(false);
                    self.bits[way] = true;
                }
            }
            Policy::TreePlru => {
                let (mut low, mut high) = (0, ways);
                while high - low > 1 {
                    let middle = (low + high) / 2;
                    self.halves.insert((low, high), way >= middle);
                    if way >= middle { low = middle } else { high = middle }
                }
            }
            Policy::Fifo | Policy::Random | Policy::Opt => {}
        }
    }

    /// Ways of a full set that the policy allows to evict.
    fn victims(&self) -> Vec<usize> {
        let ways = self.lines.len();
        let first = |best: u64| vec![self.numbers.iter().position(|number| *number == best).unwrap()];
        match self.policy {
            Policy::Lru | Policy::Rrip(_) => first(*self.numbers.iter().max().unwrap()),
            Policy::Lfu => first(*self.numbers.iter().min().unwrap()),
            Policy::Fifo => vec![self.queue[0]],
            Policy::Random | Policy::Opt => (0..ways).collect(),
            Policy::BitPlru if ways == 1 => vec![0],
            Policy::BitPlru => (0..ways).filter(|way| !self.bits[*way]).collect(),
            Policy::TreePlru => {
                let (mut low, mut high) = (0, ways);
                while high - low > 1 {
                    let middle = (low + high) / 2;
                    let upper_last = self.halves.get(&(low, high)).copied().unwrap_or(true);
                    // A new tree points at the lower half.
                    if upper_last { high = middle } else { low = middle }
                }
                vec![low]
            }
        }
    }

    fn evict(&mut self, way: usize) {
        match self.policy {
            Policy::Lfu => self.numbers[way] = 0,
            Policy::Rrip(rrip) => {
                let add = (1 << rrip.bits) - 1 - self.numbers[way];
                self.numbers.iter_mut().for_each(|number| *number += add);
            }
            Policy::Fifo => {
                self.queue.retain(|queued| *queued != way);
                self.queue.push_back(way);
            }
            Policy::BitPlru => self.bits[way] = false,
            _ => {}
        }
    }

    fn remove(&mut self, way: usize) {
        self.lines[way] = None;
        match self.policy {
            Policy::Lru => self.numbers[way] = self.numbers.iter().max().unwrap() + 1,
            Policy::Lfu => self.numbers[way] = 0,
            Policy::Rrip(rrip) => self.numbers[way] = (1 << rrip.bits) - 1,
            Policy::BitPlru => self.bits[way] = false,
            _ => {}
        }
    }
}

/// An event in a cache.
#[derive(Clone, Copy, Debug)]
enum Event {
    Use(u64),
    /// A miss during which the parent invalidates another line.
    UseLosing(u64, u64),
    Remove(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        12 => (0..40u64).prop_map(Event::Use),
        1 => (0..40u64, 0..40u64).prop_map(|(line, lost)| Event::UseLosing(line, lost)),
        1 => (0..40u64).prop_map(Event::Remove),
    ];
    prop::collection::vec(event, 0..400)
}

fn check(policy: Policy, sets: usize, ways: usize, events: &[Event]) {
    let mut store = Store::new(policy, sets, ways, 7);
    let mut plain: Vec<Plain> = (0..sets).map(|_| Plain::new(policy, ways)).collect();
    let mut cycle = Cycle::new(if let Policy::Rrip(rrip) = policy { rrip } else { Rrip::DEFAULT });
    for event in events {
        match *event {
            Event::Remove(line) => {
                let set = &mut plain[line as usize % sets];
                let way = set.find(line);
                assert_eq!(store.remove(line), way.is_some());
                way.into_iter().for_each(|way| set.remove(way));
            }
            Event::Use(line) => access(&mut store, &mut plain, &mut cycle, line, None),
            Event::UseLosing(line, lost) => access(&mut store, &mut plain, &mut cycle, line, Some(lost)),
        }
        let mut held = store.lines();
        let mut expected: Vec<u64> =
            plain.iter().flat_map(|set| set.lines.iter().flatten().copied()).collect();
        held.sort_unstable();
        expected.sort_unstable();
        assert_eq!(held, expected, "{policy:?}");
        assert!((0..40).all(|line| store.contains(line) == expected.contains(&line)));
    }
}

fn access(store: &mut Store, plain: &mut [Plain], cycle: &mut Cycle, line: u64, lost: Option<u64>) {
    let sets = plain.len();
    let at = line as usize % sets;
    let way = plain[at].find(line);
    assert_eq!(store.touch(line), way.is_some());
    if let Some(way) = way {
        return plain[at].used(way, true, cycle);
    }
    let before = store.lines();
    let slot = store.choose(line);
    let empty = plain[at].lines.iter().position(Option::is_none);
    let mut allowed = empty.map_or_else(|| plain[at].victims(), |empty| vec![empty]);
    if allowed.len() == 1 {
        plain[at].evict(allowed[0]);
    }
    if let Some(lost) = lost.filter(|lost| *lost != line) {
        let set = &mut plain[lost as usize % sets];
        let way = set.find(lost);
        assert_eq!(store.remove(lost), way.is_some());
        way.into_iter().for_each(|way| set.remove(way));
        if allowed.len() > 1 && way.is_some() && lost as usize % sets == at {
            // The random choice may have picked the line that is invalidated.
            allowed.extend(way);
        }
    }
    let victim = store.fill(line, slot, false);
    let now = store.lines();
    let gone = before.into_iter().find(|held| !now.contains(held) && Some(*held) != lost);
    assert_eq!(victim, gone);
    let set = &mut plain[at];
    let way = match victim {
        Some(victim) => set.find(victim).expect("a line that was there"),
        None if allowed.len() == 1 => allowed[0],
        None => set.lines.iter().position(Option::is_none).expect("the place of the line that was lost"),
    };
    assert!(allowed.contains(&way), "{:?}", set.policy);
    if allowed.len() > 1 {
        set.evict(way);
    }
    set.lines[way] = Some(line);
    set.used(way, false, cycle);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn every_policy_does_what_its_description_says(events in events(), shape in 0usize..11) {
        let (sets, ways) = [(1usize, 1usize), (1, 4), (2, 8), (4, 2), (2, 3), (1, 17), (2, 16), (3, 4), (6, 2), (7, 1), (5, 3)][shape];
        let rrip = Rrip { bits: 2, period: 5, long_per_period: 2 };
        let policies = Policy::NAMES.iter().map(|(_, policy)| *policy).chain([Policy::Rrip(rrip)]);
        let fits = |policy: &Policy| *policy != Policy::TreePlru || ways.is_power_of_two();
        // Belady's policy has its own test in `opt`.
        for policy in policies.filter(|policy| *policy != Policy::Opt && fits(policy)) {
            check(policy, sets, ways, &events);
        }
    }
}
