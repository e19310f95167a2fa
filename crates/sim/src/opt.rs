//! Belady's policy: evicts the line whose next use is farthest in the future. No policy that must fill every miss has fewer
//! misses, so it is a lower bound for all others.
//!
//! The policy looks into the future, but hits can be recognised when they happen. Count the accesses to one set. A line that
//! is used at `a` and again at `b` is a hit at `b` if it was kept over the accesses in between, and each of these needs one
//! way for the line accessed. So of `w` ways, `w - 1` keep lines over stretches of time, and Belady's choice keeps a stretch
//! unless `w - 1` others that all end earlier overlap it at some moment. This equals the greedy assignment of stretches to
//! `w - 1` keepers: in the order of their ends, each goes to the keeper that became free last among those that are free at
//! its beginning. The end of its last stretch is all that has to be stored of a keeper.
//!
//! So a single pass is enough, and memory grows with the distinct lines and the ways, not with the trace. The line that a
//! miss evicts remains unknown, because it depends on the future. Therefore caches whose evictions affect others (inclusive,
//! exclusive, coherent) cannot use this policy; `spec` checks that.

use crate::sets::{Lines, Slot};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// Stands for any evicted line, where it does not matter which.
const SOME_LINE: u64 = 0;

/// A cache under Belady's policy.
#[derive(Clone, Debug)]
pub(crate) struct Opt {
    /// Last use of each line, as a count of accesses to its set from 1.
    last: HashMap<u64, u64, FxBuildHasher>,
    /// Number of accesses to each set.
    times: Box<[u64]>,
    /// Time at which each keeper of each set became free, latest first.
    keepers: Box<[u64]>,
    /// Number of ways of each set that have ever held a line.
    filled: Box<[u32]>,
    ways: usize,
    n_sets: u64,
}

impl Opt {
    pub(crate) fn new(sets: usize, ways: usize) -> Opt {
        Opt {
            last: HashMap::default(),
            times: vec![0; sets].into(),
            keepers: vec![0; sets * (ways - 1)].into(),
            filled: vec![0; sets].into(),
            ways,
            n_sets: sets as u64,
        }
    }

    fn index(&self, line: u64) -> usize {
        // Below the number of sets. A division is slow even beside the look-ups of this policy.
        let is_power = self.n_sets.is_power_of_two();
        (if is_power { line & (self.n_sets - 1) } else { line % self.n_sets }) as usize
    }

    /// Whether a line used at `then` is still held at `now`; if so, assigns a keeper to it for that stretch.
    fn keep(&mut self, set: usize, then: u64, now: u64) -> bool {
        if then + 1 == now {
            return true;
        }
        let n_keepers = self.ways - 1;
        let keepers = &mut self.keepers[set * n_keepers..(set + 1) * n_keepers];
        // Stretches that only touch do not conflict: a keeper that becomes free at `then + 1` can take this one.
        let at = keepers.partition_point(|free| *free > then + 1);
        if at == n_keepers {
            return false;
        }
        keepers.copy_within(..at, 1);
        keepers[0] = now;
        true
    }

    /// Whether an access to the line would hit now.
    pub(crate) fn contains(&self, line: u64) -> bool {
        let Some(then) = self.last.get(&line) else { return false };
        let (set, n_keepers) = (self.index(line), self.ways - 1);
        let keepers = &self.keepers[set * n_keepers..(set + 1) * n_keepers];
        *then == self.times[set] || keepers.iter().any(|free| *free <= then + 1)
    }

    /// Removes the line; returns whether it would have hit.
    pub(crate) fn remove(&mut self, line: u64) -> bool {
        let was_there = self.contains(line);
        self.last.remove(&line);
        was_there
    }

    /// All lines that would hit.
    pub(crate) fn lines(&self) -> Vec<u64> {
        self.last.keys().copied().filter(|line| self.contains(*line)).collect()
    }
}

impl Lines for Opt {
    fn touch(&mut self, line: u64) -> Option<Slot> {
        let set = self.index(line);
        let now = self.times[set] + 1;
        let then = *self.last.get(&line)?;
        if !self.keep(set, then, now) {
            return None;
        }
        self.times[set] = now;
        self.last.insert(line, now);
        Some(Slot(0))
    }

    fn again(&mut self, _slot: Slot, _times: u64) {}

    fn choose(&mut self, _line: u64) -> Slot {
        Slot(0)
    }

    fn fill(&mut self, line: u64, _slot: Slot, _reused: bool) -> Option<u64> {
        let set = self.index(line);
        self.times[set] += 1;
        self.last.insert(line, self.times[set]);
        let filled = &mut self.filled[set];
        let was_full = u64::from(*filled) >= self.ways as u64;
        *filled += u32::from(!was_full);
        was_full.then_some(SOME_LINE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Belady's policy with look-ahead: evicts the line whose next use is farthest away.
    fn plain(lines: &[u64], sets: u64, ways: usize) -> Vec<bool> {
        let mut held: Vec<Vec<u64>> = vec![Vec::new(); sets as usize];
        let next_use = |line: u64, from: usize| lines[from..].iter().position(|next| *next == line);
        let mut hits = Vec::new();
        for (i, line) in lines.iter().enumerate() {
            let set = &mut held[(line % sets) as usize];
            hits.push(set.contains(line));
            if set.contains(line) {
                continue;
            }
            if set.len() == ways {
                let farthest =
                    (0..ways).max_by_key(|at| next_use(set[*at], i).unwrap_or(usize::MAX)).expect("a way");
                set.remove(farthest);
            }
            set.push(*line);
        }
        hits
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

        #[test]
        fn each_access_is_a_hit_if_and_only_if_it_is_with_a_look_ahead(
            lines in prop::collection::vec(0..24u64, 0..400), sets in 1..6usize, ways in 1..7usize
        ) {
            let mut opt = Opt::new(sets, ways);
            let hits: Vec<bool> = lines
                .iter()
                .map(|line| {
                    let is_hit = opt.touch(*line).is_some();
                    if !is_hit {
                        let slot = opt.choose(*line);
                        opt.fill(*line, slot, false);
                    }
                    is_hit
                })
                .collect();
            prop_assert_eq!(hits, plain(&lines, sets as u64, ways));
        }
    }

    #[test]
    fn a_line_taken_out_is_a_miss_and_leaves_room() {
        let mut opt = Opt::new(1, 2);
        for line in [1, 2] {
            assert!(opt.touch(line).is_none());
            opt.fill(line, Slot(0), false);
        }
        assert!(opt.remove(1) && !opt.remove(1) && opt.contains(2));
        assert_eq!(opt.lines(), [2]);
        assert!(opt.touch(1).is_none());
    }
}
