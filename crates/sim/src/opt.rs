//! Belady's policy: the line that is used again last, or never, is evicted. No policy that has to bring in what it misses has
//! fewer misses, so it bounds all others.
//!
//! It looks into the future; but which accesses are hits can be told when they come, without looking ahead. Count the
//! accesses to one set. A line that is used at `a` and again at `b` is a hit at `b` if it was kept over the accesses between,
//! and at each of these one way goes to the line accessed there. So of `w` ways, `w - 1` keep lines over stretches of time,
//! and Belady's choice keeps a stretch unless that many others, all ending earlier, are in its way at some moment. That is the
//! greedy way to give stretches to `w - 1` keepers: in the order of their ends, each to the keeper who has become free last among
//! those that are free when it begins. A keeper is known by the end of its last stretch alone.
//!
//! So there is one pass, and memory is that of the distinct lines and of the ways, not of the trace. What cannot be told at once
//! is which line a miss drives out: that is decided by the future. Hence caches whose losses matter to others
//! (inclusive, exclusive, coherent) cannot have this policy; `spec` sees to it.

use crate::sets::{Lines, Slot};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// What stands for any line that was evicted, where it does not matter which.
const SOME_LINE: u64 = 0;

/// One cache under Belady's policy.
#[derive(Clone, Debug)]
pub(crate) struct Opt {
    /// When each line was last used, in accesses to its set, counted from 1.
    last: HashMap<u64, u64, FxBuildHasher>,
    /// For each set, how many accesses there were.
    times: Box<[u64]>,
    /// For each set, when each of its keepers became free, the last one first.
    keepers: Box<[u64]>,
    /// For each set, how many places have ever had a line.
    filled: Box<[u32]>,
    ways: usize,
    mask: u64,
}

impl Opt {
    pub(crate) fn new(sets: usize, ways: usize) -> Opt {
        Opt {
            last: HashMap::default(),
            times: vec![0; sets].into(),
            keepers: vec![0; sets * (ways - 1)].into(),
            filled: vec![0; sets].into(),
            ways,
            mask: sets as u64 - 1,
        }
    }

    fn index(&self, line: u64) -> usize {
        (line & self.mask) as usize // Below the number of sets.
    }

    /// Whether a line used at `then` is still there at `now`; if so, a keeper has held it until now.
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

    /// True if the line would be a hit now.
    pub(crate) fn contains(&self, line: u64) -> bool {
        let Some(then) = self.last.get(&line) else { return false };
        let (set, n_keepers) = (self.index(line), self.ways - 1);
        let keepers = &self.keepers[set * n_keepers..(set + 1) * n_keepers];
        *then == self.times[set] || keepers.iter().any(|free| *free <= then + 1)
    }

    /// Takes the line out; true if it would have been a hit.
    pub(crate) fn remove(&mut self, line: u64) -> bool {
        let was_there = self.contains(line);
        self.last.remove(&line);
        was_there
    }

    /// Every line that would be a hit.
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

    /// Belady's policy by looking ahead: of the lines held, the one whose next use is farthest is evicted.
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
            lines in prop::collection::vec(0..24u64, 0..400), sets in 0..3u32, ways in 1..7usize
        ) {
            let sets = 1 << sets;
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
