//! All reads of a session share a watch and a list of findings.

use quipu_engine::{Progress, Watch};
use quipu_model::{Error, Found};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a read went.
pub(super) struct Ended {
    pub(super) found: Found,
    pub(super) error: Option<Error>,
    /// Rows that were handed out have proved damaged.
    pub(super) is_doubtful: bool,
}

/// What was found wrong with traces while a query was answered.
#[derive(Debug, Default)]
pub struct Losses {
    /// What they did wrong.
    pub found: Found,
    /// The first part that could not be read to its end.
    pub error: Option<Error>,
    /// Rows that the answer is made of have proved damaged since, by a checksum that stood after them: the question, asked again,
    /// is answered without them.
    pub is_doubtful: bool,
    /// Tables that reading has taught, by the names that further questions may use.
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
    /// Each read takes as many threads; 0 for as many as there are cores.
    pub(super) fn new(n_threads: usize) -> Readings {
        Readings { n_threads: AtomicUsize::new(n_threads), ..Readings::default() }
    }

    pub(super) fn n_threads(&self) -> usize {
        self.n_threads.load(Ordering::Relaxed)
    }

    /// Notes a read that begins.
    pub(super) fn begin(&self, watch: &Arc<Watch>) {
        if self.is_cancelled.load(Ordering::Relaxed) {
            watch.cancel();
        }
        self.lock().watches.push(watch.clone());
    }

    /// Notes how a read ended.
    pub(super) fn end(&self, _: &Arc<Watch>, ended: Ended) {
        let mut state = self.lock();
        ended.found.into_vec().into_iter().for_each(|finding| state.losses.found.push(finding));
        state.losses.error = state.losses.error.take().or(ended.error);
        state.losses.is_doubtful |= ended.is_doubtful;
    }

    /// Forgets the reads of the question before, and gives what they found.
    pub(super) fn take(&self) -> Losses {
        let mut state = self.lock();
        state.watches.clear();
        self.is_cancelled.store(false, Ordering::Relaxed);
        std::mem::take(&mut state.losses)
    }

    /// Ends all reads.
    pub(super) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        self.lock().watches.iter().for_each(|watch| watch.cancel());
    }

    /// How far all reads together have come.
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
