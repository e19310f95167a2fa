//! The part of the execution to record: its start, windows, and limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Limits set by the user. Instructions are counted over all threads, in the order in which the recorder reads them; for a
/// program with one thread this is exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Stop recording when all files together have this many bytes.
    pub most_bytes: Option<u64>,
    /// Stop recording after this many instructions.
    pub most_instrs: Option<u64>,
    /// Skip this many instructions first.
    pub start_after: Option<u64>,
    /// Start counting at the first execution of this function of the program.
    pub start_at: Option<String>,
    /// `(n, period)`: record the first `n` of every `period` instructions.
    pub windows: Option<(u64, u64)>,
}

/// Which part of a run of instructions to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of it, in the window with this number.
    All(u64),
    Nothing,
    /// Some; ask [`Gate::window_of`] for each instruction.
    Some,
}

/// Tracks the limits for all threads.
#[derive(Debug)]
pub(crate) struct Gate {
    limits: Limits,
    /// Whether there are no limits, so that nothing has to be counted.
    pub(crate) is_open: bool,
    /// Address of the function at which counting starts; 0 until it is known.
    start_pc: AtomicU64,
    has_begun: AtomicBool,
    n_seen: AtomicU64,
    n_taken: AtomicU64,
    /// Bytes of all files so far.
    n_bytes: Arc<AtomicU64>,
    is_over: AtomicBool,
}

impl Gate {
    /// A gate for files whose bytes are counted in `n_bytes`.
    pub(crate) fn new(limits: &Limits, n_bytes: Arc<AtomicU64>) -> Gate {
        let counts_none = Limits { most_bytes: None, ..limits.clone() } == Limits::default();
        Gate {
            limits: limits.clone(),
            is_open: counts_none,
            start_pc: AtomicU64::new(0),
            has_begun: AtomicBool::new(limits.start_at.is_none()),
            n_seen: AtomicU64::new(0),
            n_taken: AtomicU64::new(0),
            n_bytes,
            is_over: AtomicBool::new(false),
        }
    }

    /// Counter of the bytes in all files.
    pub(crate) fn bytes(&self) -> Arc<AtomicU64> {
        self.n_bytes.clone()
    }

    /// Whether windows are recorded.
    pub(crate) fn has_windows(&self) -> bool {
        self.limits.windows.is_some()
    }

    /// Sets the address of the function at which counting starts.
    pub(crate) fn start_at(&self, pc: u64) {
        self.start_pc.store(pc, Ordering::Relaxed);
    }

    /// Whether recording has to stop.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Stops recording if the files have become too large.
    pub(crate) fn weigh(&self) {
        if self.limits.most_bytes.is_some_and(|most| self.n_bytes.load(Ordering::Relaxed) >= most) {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// Whether counting has started.
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

    /// Counts `n` instructions; returns the number of the first, and which of them to record.
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

    /// The window of one instruction, numbered from what [`Gate::pass`] returned with [`Wanted::Some`]; `None` if it is not
    /// recorded.
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

    /// Number and window of each recorded instruction, for blocks of these lengths.
    fn wanted(limits: Limits, blocks: &[u64]) -> Vec<(u64, u64)> {
        let gate = Gate::new(&limits, Arc::default());
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
