//! Batches of rows on their way from workers to who takes them, unit by unit or as they come, never too many at once.

use super::RowBatch;
use quipu_model::{Error, Finding};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What a worker has to say.
pub(super) enum Message {
    /// Of the selection with this number.
    Rows(usize, RowBatch),
    /// What was found wrong with the trace.
    Found(Vec<Finding>),
    /// The rest of a unit cannot be read.
    Lost(Error),
}

/// Where workers leave messages.
pub(super) struct Exchange {
    n_units: usize,
    /// Whether messages of a unit wait for those of all units before it.
    is_ordered: bool,
    /// How many messages may wait, besides as many of the unit whose turn it is.
    room: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Messages that wait, by unit; all under the first number where order does not matter.
    waiting: BTreeMap<usize, VecDeque<Message>>,
    n_waiting: usize,
    /// The unit whose messages are taken.
    due: usize,
    /// Units that were read to their end, from the one that is due on.
    ended: BTreeSet<usize>,
    is_stopped: bool,
}

impl Exchange {
    pub(super) fn new(n_units: usize, is_ordered: bool, room: usize) -> Exchange {
        Exchange { n_units, is_ordered, room, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Leaves a message of a unit, as soon as there is room; false if it is no longer wanted.
    pub(super) fn push(&self, unit: usize, message: Message) -> bool {
        let lane = if self.is_ordered { unit } else { 0 };
        let mut state = self.lock();
        loop {
            if state.is_stopped {
                return false;
            }
            // The unit that is due has room of its own, or all others could keep it waiting.
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

    /// Says that a unit has no more messages.
    pub(super) fn end(&self, unit: usize) {
        self.lock().ended.insert(unit);
        self.changed.notify_all();
    }

    /// The next message, once it is there; `None` after the last.
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

    /// Lets all go home.
    pub(super) fn stop(&self) {
        let mut state = self.lock();
        state.is_stopped = true;
        state.waiting.clear();
        self.changed.notify_all();
    }

    /// Nothing panics under the lock, so a poisoned one holds a whole state all the same.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
