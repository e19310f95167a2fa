//! Misses along the trace: for each cache, in steps of equally many accesses.
//!
//! The length of the trace is unknown until its end, so steps begin with one access each, and double whenever there would be
//! too many. Memory is constant.

/// Maximum number of steps.
const MAX_STEPS: usize = 128;

/// Misses of each cache, step by step.
#[derive(Clone, Debug)]
pub(crate) struct OverTime {
    n_caches: usize,
    /// A step is this power of two of accesses.
    shift: u32,
    /// Number of accesses so far.
    accesses: u64,
    /// For each step that misses, those of each cache.
    misses: Vec<u64>,
}

impl OverTime {
    pub(crate) fn new(n_caches: usize) -> OverTime {
        OverTime { n_caches, shift: 0, accesses: 0, misses: Vec::new() }
    }

    /// Counts a miss of the access that is `row` accesses after those so far.
    pub(crate) fn miss(&mut self, cache: u32, row: u32) {
        let at = self.accesses + u64::from(row);
        while at >> self.shift >= MAX_STEPS as u64 {
            self.fold();
        }
        let start = (at >> self.shift) as usize * self.n_caches; // Below `MAX_STEPS`.
        if self.misses.len() < start + self.n_caches {
            self.misses.resize(start + self.n_caches, 0);
        }
        if let Some(count) = self.misses.get_mut(start + cache as usize) {
            *count += 1;
        }
    }

    /// Moves on by some accesses, after their misses were counted.
    pub(crate) fn advance(&mut self, n_accesses: u64) {
        self.accesses += n_accesses;
    }

    /// Makes one step of every two.
    fn fold(&mut self) {
        let (n, n_steps) = (self.n_caches, self.misses.len() / self.n_caches.max(1));
        for step in 0..n_steps.div_ceil(2) {
            for cache in 0..n {
                let of = |step: usize| self.misses.get(step * n + cache).copied().unwrap_or(0);
                let sum = of(2 * step) + of(2 * step + 1);
                self.misses[step * n + cache] = sum;
            }
        }
        self.misses.truncate(n_steps.div_ceil(2) * n);
        self.shift += 1;
    }

    /// The misses of these groups of caches; those of further caches are left out.
    pub(crate) fn steps(mut self, groups: impl Iterator<Item = (String, Vec<usize>)>) -> MissSteps {
        let n_steps = |shift: u32, accesses: u64| accesses.div_ceil(1 << shift);
        while n_steps(self.shift, self.accesses) > MAX_STEPS as u64 {
            self.fold();
        }
        let n_steps = n_steps(self.shift, self.accesses) as usize; // At most `MAX_STEPS`.
        let of_step = |step: usize, caches: &[usize]| -> u64 {
            caches.iter().filter_map(|cache| self.misses.get(step * self.n_caches + cache)).sum()
        };
        let levels = groups.map(|(name, caches)| {
            let misses = (0..n_steps).map(|step| of_step(step, &caches)).collect();
            LevelSteps { name, misses }
        });
        MissSteps { accesses: self.accesses, step: 1 << self.shift, levels: levels.collect() }
    }
}

/// Misses of each level of caches along the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissSteps {
    /// Number of accesses.
    pub accesses: u64,
    /// Accesses in a step; the last step may have fewer.
    pub step: u64,
    /// Misses of each level.
    pub levels: Vec<LevelSteps>,
}

/// Misses of one level of caches along the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelSteps {
    /// Name of the level.
    pub name: String,
    /// Misses of accesses in each step.
    pub misses: Vec<u64>,
}

impl MissSteps {
    /// Whether there is something to draw.
    pub(crate) fn is_drawn(&self) -> bool {
        self.levels.iter().any(|level| level.misses.len() > 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(over_time: OverTime) -> MissSteps {
        let groups = [("L1".to_owned(), vec![0, 1]), ("LL".to_owned(), vec![2])];
        over_time.steps(groups.into_iter())
    }

    #[test]
    fn misses_of_every_access_are_in_the_step_of_that_access() {
        for n in [1u64, 2, 127, 128, 129, 1000, 100_000] {
            let mut over_time = OverTime::new(3);
            // Every third access misses one of two first caches, and every sixth the last one; ten accesses at a time.
            let mut at = 0;
            while at < n {
                let some = 10.min(n - at);
                for row in 0..some {
                    if (at + row).is_multiple_of(3) {
                        over_time.miss(u32::from((at + row).is_multiple_of(2)), row as u32);
                    }
                    if (at + row).is_multiple_of(6) {
                        over_time.miss(2, row as u32);
                    }
                }
                over_time.advance(some);
                at += some;
            }
            let steps = steps(over_time);
            assert_eq!(steps.accesses, n);
            let n_steps = n.div_ceil(steps.step);
            assert!(
                n_steps <= MAX_STEPS as u64 && (n_steps > MAX_STEPS as u64 / 2 || steps.step == 1),
                "{n}"
            );
            for (level, every) in steps.levels.iter().zip([3, 6]) {
                let of = |step: u64| {
                    let within = step * steps.step..n.min((step + 1) * steps.step);
                    within.filter(|at| at.is_multiple_of(every)).count() as u64
                };
                let expected: Vec<u64> = (0..n_steps).map(of).collect();
                assert_eq!(level.misses, expected, "{} of {n}", level.name);
            }
        }
    }

    #[test]
    fn a_trace_without_misses_has_steps_of_zeros() {
        let mut over_time = OverTime::new(3);
        over_time.advance(300);
        let steps = steps(over_time);
        assert_eq!((steps.step, steps.accesses), (4, 300));
        assert!(steps.levels.iter().all(|level| level.misses == [0; 75]));
        assert!(!MissSteps::default().is_drawn());
    }
}
