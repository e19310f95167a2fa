//! The reads of a session: their progress, cancellation and findings.

use quipu_engine::{Progress, Watch};
use quipu_model::{Error, Found};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Outcome of a read.
pub(super) struct Ended {
    pub(super) found: Found,
    pub(super) error: Option<Error>,
    /// Whether rows proved damaged after they had been delivered.
    pub(super) is_doubtful: bool,
}

/// Findings about traces while a query was answered, and data that could not be read.
#[derive(Debug, Default)]
pub struct Losses {
    /// Findings about the traces.
    pub found: Found,
    /// The error of the first part that could not be read to its end.
    pub error: Option<Error>,
    /// Whether rows in the answer proved damaged later, by a checksum after them. If the query is repeated, the answer leaves
    /// them out.
    pub is_doubtful: bool,
    /// Tables that were learned by reading, with their names for further queries.
    pub learned: Vec<String>,
}

/// The reads of a session.
#[derive(Debug, Default)]
pub(super) struct Readings {
    state: Mutex<State>,
    n_threads: AtomicUsize,
    is_cancelled: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    watches: Vec<Arc<Watch>>,
    losses: Losses,
}

impl Readings {
    /// Creates the state; each read uses `n_threads` threads, or as many as there are cores if that is 0.
    pub(super) fn new(n_threads: usize) -> Readings {
        Readings { n_threads: AtomicUsize::new(n_threads), ..Readings::default() }
    }

    pub(super) fn n_threads(&self) -> usize {
        self.n_threads.load(Ordering::Relaxed)
    }

    /// Registers a read that begins.
    pub(super) fn begin(&self, watch: &Arc<Watch>) {
        if self.is_cancelled.load(Ordering::Relaxed) {
            watch.cancel();
        }
        self.lock().watches.push(watch.clone());
    }

    /// Records the outcome of a read.
    pub(super) fn end(&self, _: &Arc<Watch>, ended: Ended) {
        let mut state = self.lock();
        ended.found.into_vec().into_iter().for_each(|finding| state.losses.found.push(finding));
        state.losses.error = state.losses.error.take().or(ended.error);
        state.losses.is_doubtful |= ended.is_doubtful;
    }

    /// Forgets the reads of the previous query and returns their findings.
    pub(super) fn take(&self) -> Losses {
        let mut state = self.lock();
        state.watches.clear();
        self.is_cancelled.store(false, Ordering::Relaxed);
        std::mem::take(&mut state.losses)
    }

    /// Cancels all reads of the current query, also those that begin later.
    pub(super) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.lock().watches.iter().for_each(|watch| watch.cancel());
    }

    /// Progress of all reads together.
    pub(super) fn progress(&self) -> Progress {
        let state = self.lock();
        let all = state.watches.iter().map(|watch| watch.progress());
        all.fold(Progress::default(), |sum, one| Progress {
            records: sum.records + one.records,
            packed_bytes: sum.packed_bytes + one.packed_bytes,
            total_packed_bytes: match (sum.total_packed_bytes, one.total_packed_bytes) {
                (Some(sum), Some(one)) => Some(sum + one),
                (sum, one) => sum.or(one),
            },
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
