//! How much is recorded: where it begins, windows, and when it is enough.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a user asked for. Instructions are counted over all threads, in the order in which they are read; for a program
/// of one thread that is exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all files after which recording stops.
    pub most_bytes: Option<u64>,
    /// Instructions after which recording stops.
    pub most_instrs: Option<u64>,
    /// Instructions before recording begins.
    pub start_after: Option<u64>,
    /// The function of the program with whose first execution counting begins.
    pub start_at: Option<String>,
    /// `(n, period)`: record the first `n` of every `period` instructions.
    pub windows: Option<(u64, u64)>,
}

/// What of a stretch of instructions is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of it, in this window.
    All(u64),
    Nothing,
    /// Each has to be asked for.
    Some,
}

/// The limits at work, shared by all threads.
#[derive(Debug)]
pub(crate) struct Gate {
    limits: Limits,
    /// Nothing has to be counted.
    pub(crate) is_open: bool,
    /// Address of the function with which counting begins, once it is known; 0 before.
    start_pc: AtomicU64,
    has_begun: AtomicBool,
    n_seen: AtomicU64,
    n_taken: AtomicU64,
    /// Bytes of all files.
    n_bytes: std::sync::Arc<AtomicU64>,
    is_over: AtomicBool,
}

impl Gate {
    pub(crate) fn new(limits: &Limits) -> Gate {
        let counts_none = Limits { most_bytes: None, ..limits.clone() } == Limits::default();
        Gate {
            limits: limits.clone(),
            is_open: counts_none,
            start_pc: AtomicU64::new(0),
            has_begun: AtomicBool::new(limits.start_at.is_none()),
            n_seen: AtomicU64::new(0),
            n_taken: AtomicU64::new(0),
            n_bytes: std::sync::Arc::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Where bytes of files are counted.
    pub(crate) fn bytes(&self) -> std::sync::Arc<AtomicU64> {
        self.n_bytes.clone()
    }

    /// True if windows are recorded.
    pub(crate) fn has_windows(&self) -> bool {
        self.limits.windows.is_some()
    }

    /// Tells where the function lies with which counting begins.
    pub(crate) fn start_at(&self, pc: u64) {
        self.start_pc.store(pc, Ordering::Relaxed);
    }

    /// True if recording is to stop.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Looks whether the files have become too large.
    pub(crate) fn weigh(&self) {
        if self.limits.most_bytes.is_some_and(|most| self.n_bytes.load(Ordering::Relaxed) >= most) {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// True once the function with which counting begins was executed.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }

    /// Starts counting if one of `pcs` is the start function; returns its index.
    pub(crate) fn begins(&self, mut pcs: impl Iterator<Item = u64>) -> Option<usize> {
        let start = self.start_pc.load(Ordering::Relaxed);
        let at = pcs.position(|pc| pc == start).filter(|_| start != 0)?;
        self.has_begun.store(true, Ordering::Relaxed);
        Some(at)
    }

    /// Counts `n` instructions; gives the number of the first, and whether they are wanted.
    pub(crate) fn pass(&self, n: u64) -> (u64, Wanted) {
        let first = self.n_seen.fetch_add(n, Ordering::Relaxed);
        let after = self.limits.start_after.unwrap_or(0);
        if first + n <= after {
            return (first, Wanted::Nothing);
        }
        if first < after {
            return (first, Wanted::Some);
        }
        let wanted = match self.limits.windows {
            None => Wanted::All(0),
            Some((of, every)) => {
                let (from, to) = ((first - after) % every, (first - after) % every + n);
                match (from < of, to) {
                    (true, to) if to <= of => Wanted::All((first - after) / every),
                    (false, to) if to <= every => Wanted::Nothing,
                    _ => Wanted::Some,
                }
            }
        };
        if matches!(wanted, Wanted::All(_))
            && let Some(most) = self.limits.most_instrs
        {
            let taken = self.n_taken.fetch_add(n, Ordering::Relaxed);
            if taken + n > most {
                self.n_taken.fetch_sub(n, Ordering::Relaxed);
                return (first, Wanted::Some);
            }
            if taken + n == most {
                self.is_over.store(true, Ordering::Relaxed);
            }
        }
        (first, wanted)
    }

    /// The window of one instruction, whose number [`Gate::pass`] gave with [`Wanted::Some`]; `None` if it is
    /// not wanted.
    pub(crate) fn window_of(&self, number: u64) -> Option<u64> {
        let at = number.checked_sub(self.limits.start_after.unwrap_or(0))?;
        let window = match self.limits.windows {
            None => 0,
            Some((of, every)) if at % every < of => at / every,
            Some(_) => return None,
        };
        if let Some(most) = self.limits.most_instrs {
            let taken = self.n_taken.fetch_add(1, Ordering::Relaxed) + 1;
            if taken >= most {
                self.is_over.store(true, Ordering::Relaxed);
            }
            if taken > most {
                return None;
            }
        }
        Some(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of instructions that are wanted, of blocks of these lengths.
    fn wanted(limits: Limits, blocks: &[u64]) -> Vec<(u64, u64)> {
        let gate = Gate::new(&limits);
        let mut all = Vec::new();
        for n in blocks {
            match gate.pass(*n) {
                (_, Wanted::Nothing) => {}
                (first, Wanted::All(window)) => all.extend((first..first + n).map(|at| (at, window))),
                (first, Wanted::Some) => {
                    all.extend((first..first + n).filter_map(|at| Some((at, gate.window_of(at)?))));
                }
            }
        }
        all
    }

    #[test]
    fn a_start_and_an_end_are_exact_within_blocks() {
        let limits = Limits { start_after: Some(5), most_instrs: Some(6), ..Limits::default() };
        let expected: Vec<(u64, u64)> = (5..11).map(|at| (at, 0)).collect();
        for blocks in [vec![1; 20], vec![3; 7], vec![20], vec![5, 6, 9], vec![4, 1, 5, 10]] {
            assert_eq!(wanted(limits.clone(), &blocks), expected, "{blocks:?}");
        }
    }

    #[test]
    fn windows_come_again_whatever_the_blocks() {
        let limits = Limits { windows: Some((2, 5)), start_after: Some(1), ..Limits::default() };
        let expected = [(1, 0), (2, 0), (6, 1), (7, 1), (11, 2), (12, 2)];
        for blocks in [vec![1; 14], vec![14], vec![3; 5], vec![1, 2, 3, 2, 3, 2]] {
            assert_eq!(wanted(limits.clone(), &blocks), expected, "{blocks:?}");
        }
    }
}
