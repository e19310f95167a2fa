//! Threads that work through numbered units and merge the results strictly in order.
//!
//! Units are handed out in order. A result is merged as soon as all earlier ones have been; any free worker merges, outside
//! the lock, but only one at a time. No worker starts a unit too far ahead of the merge, so results never pile up.

use quipu_model::{Error, ErrorKind, Result};
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Number of units, for each thread, that may be begun or done ahead of the merge.
const LEAD_UNITS_PER_THREAD: usize = 3;

/// A request: `n_units` units on `threads` threads.
pub(crate) struct Work<'w, T> {
    pub(crate) n_units: usize,
    pub(crate) threads: usize,
    /// Processes one unit. An error ends the whole work; the function should give up early if the `Gate` is shut.
    pub(crate) unit: &'w (dyn Fn(usize, &Gate) -> Result<T> + Sync),
    /// Merges the result of the next unit.
    pub(crate) merge: &'w (dyn Fn(&mut T, T) -> Result<()> + Sync),
    /// True once no further unit should begin; units that have begun are still merged.
    pub(crate) is_stopped: &'w (dyn Fn() -> bool + Sync),
}

/// Lets units find out whether their result is still wanted.
pub(crate) struct Gate {
    first_failed: AtomicUsize,
}

impl Gate {
    /// True if an earlier unit has failed, so that the result of this one cannot matter.
    pub(crate) fn is_shut(&self, unit: usize) -> bool {
        self.first_failed.load(Ordering::Relaxed) < unit
    }

    fn fail(&self, unit: usize) {
        self.first_failed.fetch_min(unit, Ordering::Relaxed);
    }
}

struct State<T> {
    /// The next unit to begin.
    next: usize,
    /// The next unit to merge.
    due: usize,
    /// Results that are not merged yet.
    done: BTreeMap<usize, Result<T>>,
    merged: Option<T>,
    is_merging: bool,
    failure: Option<Error>,
}

impl<T: Send> Work<'_, T> {
    /// Works until all units are merged, one has failed, or the work is stopped. `None` if no unit was done.
    ///
    /// # Errors
    /// The error of the first unit, in order, that failed; a panic becomes an internal error.
    pub(crate) fn run(&self) -> Result<Option<T>> {
        let pool = Pool {
            work: self,
            gate: Gate { first_failed: AtomicUsize::new(usize::MAX) },
            state: Mutex::new(State {
                next: 0,
                due: 0,
                done: BTreeMap::new(),
                merged: None,
                is_merging: false,
                failure: None,
            }),
            changed: Condvar::new(),
        };
        let helpers = self.threads.min(self.n_units).saturating_sub(1);
        std::thread::scope(|scope| {
            for _ in 0..helpers {
                // If a helper cannot be started, the others just take longer.
                let _ = std::thread::Builder::new()
                    .name("quipu-work".into())
                    .spawn_scoped(scope, || pool.serve());
            }
            pool.serve();
        });
        let state = pool.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        match state.failure {
            Some(error) => Err(error),
            None => Ok(state.merged),
        }
    }
}

struct Pool<'w, T> {
    work: &'w Work<'w, T>,
    gate: Gate,
    state: Mutex<State<T>>,
    changed: Condvar,
}

impl<T: Send> Pool<'_, T> {
    /// The loop of each thread: merges a due result, or else begins a unit, or else waits, until nothing is left.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if state.failure.is_some() {
                return;
            }
            if !state.is_merging
                && let due = state.due
                && let Some(result) = state.done.remove(&due)
            {
                state = self.merge(state, result);
            } else if self.is_over(&state) {
                return;
            } else if state.next < state.due + LEAD_UNITS_PER_THREAD * self.work.threads.max(1) {
                state = self.begin(state);
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// True if no unit is left to begin. Workers merge the units that have begun.
    fn is_over(&self, state: &State<T>) -> bool {
        state.next >= self.work.n_units || self.gate.is_shut(state.next) || (self.work.is_stopped)()
    }

    fn begin<'a>(&'a self, mut state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
        let unit = state.next;
        state.next += 1;
        drop(state);
        let result = catch(|| (self.work.unit)(unit, &self.gate));
        if result.is_err() {
            self.gate.fail(unit);
        }
        let mut state = self.lock();
        state.done.insert(unit, result);
        self.changed.notify_all();
        state
    }

    fn merge<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<T>>,
        result: Result<T>,
    ) -> MutexGuard<'a, State<T>> {
        state.is_merging = true;
        let merged = state.merged.take();
        drop(state);
        let merged = result.and_then(|later| match merged {
            None => Ok(later),
            Some(mut merged) => catch(|| (self.work.merge)(&mut merged, later).map(|()| merged)),
        });
        let mut state = self.lock();
        state.is_merging = false;
        state.due += 1;
        match merged {
            Ok(merged) => state.merged = Some(merged),
            Err(error) => {
                self.gate.fail(0);
                state.failure = Some(error);
            }
        }
        self.changed.notify_all();
        state
    }

    /// No code panics under the lock, so a poisoned one still guards a consistent state.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a closure; a panic becomes an internal error.
pub(crate) fn catch<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    // State that the panic left inconsistent is dropped together with the work.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = message(&*panic);
        Err(Error::new(ErrorKind::Internal, format!("a part of the work panicked: {text}")))
    })
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}
