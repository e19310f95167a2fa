//! Passing batches of rows from workers to a consumer, in the order of units or as they come, with a limit on waiting
//! batches.

use super::RowBatch;
use quipu_model::{Error, Finding};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A message of a worker.
pub(super) enum Message {
    /// Rows of the selection with this index.
    Rows(usize, RowBatch),
    /// Findings about the trace.
    Found(Vec<Finding>),
    /// The rest of a unit cannot be read because of this error.
    Lost(Error),
}

/// The queue between workers and the consumer.
pub(super) struct Exchange {
    n_units: usize,
    /// Whether messages of a unit wait for those of all previous units.
    is_ordered: bool,
    /// Maximum number of waiting messages; the unit that is due may have as many again.
    room: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Waiting messages by unit; if order does not matter, all are under number 0.
    waiting: BTreeMap<usize, VecDeque<Message>>,
    n_waiting: usize,
    /// The unit whose messages are being taken.
    due: usize,
    /// Units from the due one onwards that have been read to their end.
    ended: BTreeSet<usize>,
    is_stopped: bool,
}

impl Exchange {
    pub(super) fn new(n_units: usize, is_ordered: bool, room: usize) -> Exchange {
        Exchange { n_units, is_ordered, room, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Adds a message of a unit as soon as there is room; false if it is no longer wanted.
    pub(super) fn push(&self, unit: usize, message: Message) -> bool {
        let lane = if self.is_ordered { unit } else { 0 };
        let mut state = self.lock();
        loop {
            if state.is_stopped {
                return false;
            }
            // The due unit has room of its own; otherwise the other units could block it.
            let n_own = state.waiting.get(&lane).map_or(0, VecDeque::len);
            if state.n_waiting < self.room || (lane == state.due && n_own < self.room) {
                state.waiting.entry(lane).or_default().push_back(message);
                state.n_waiting += 1;
                self.changed.notify_all();
                return true;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Marks a unit as having no more messages.
    pub(super) fn end(&self, unit: usize) {
        self.lock().ended.insert(unit);
        self.changed.notify_all();
    }

    /// Waits for the next message; `None` after the last.
    pub(super) fn pop(&self) -> Option<Message> {
        let mut state = self.lock();
        loop {
            if state.is_stopped {
                return None;
            }
            let due = state.due;
            if let Some(message) = state.waiting.get_mut(&due).and_then(VecDeque::pop_front) {
                state.n_waiting -= 1;
                self.changed.notify_all();
                return Some(message);
            }
            let is_over =
                if self.is_ordered { due >= self.n_units } else { state.ended.len() >= self.n_units };
            if is_over {
                return None;
            }
            if self.is_ordered && state.ended.remove(&due) {
                state.waiting.remove(&due);
                state.due += 1;
                self.changed.notify_all();
                continue;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Stops the exchange: all waiting workers return.
    pub(super) fn stop(&self) {
        let mut state = self.lock();
        state.is_stopped = true;
        state.waiting.clear();
        self.changed.notify_all();
    }

    /// No code panics under the lock, so a poisoned one still guards a consistent state.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
