//! Movement of waiting threads between the queues of cores: taken by a core without work, or redistributed evenly.

use super::super::queue::Waiting;
use super::Dispatcher;

impl Dispatcher {
    /// On every N-th idle record, tries to take a thread from another core and makes `core` run it.
    pub(super) fn steal(&mut self, core: usize) -> Option<usize> {
        let every = self.options.steal_idles;
        if every == 0 {
            return None;
        }
        let tries = self.cores[core].idles_in_a_row.is_multiple_of(every);
        self.cores[core].idles_in_a_row += 1;
        let n_cores = self.cores.len();
        for other in (1..n_cores).filter(|_| tries).map(|i| (core + i) % n_cores) {
            if let (Some(thread), _) = self.take(other, Some(core), End::First) {
                self.set_thread(core, Some(thread));
                self.cores[core].told.steals += 1;
                return Some(thread);
            }
        }
        None
    }

    /// Removes the first thread that may run from the queue of `from`: for the core `to`, or for redistribution if `None`.
    pub(super) fn take(&mut self, from: usize, to: Option<usize>, end: End) -> (Option<usize>, Why) {
        let time = self.cores[from].time;
        let (mut skipped, mut blocked) = (Vec::new(), Vec::new());
        let mut found = None;
        loop {
            let queue = &mut self.cores[from].queue;
            let next = match end {
                End::Last => queue.pop_last(),
                End::First if self.options.at_random => queue.pop_any(self.dice.roll()),
                End::First => queue.pop_first(),
            };
            let Some(next) = next else { break };
            let state = &mut self.threads[next.thread];
            if state.blocked > 0 && !self.options.waits_forever && state.blocked_at == 0 {
                // It was parked at the start, before time began.
                state.blocked_at = time;
            }
            let elapsed = time.checked_sub(state.blocked_at).filter(|_| time > 0);
            if state.blocked > 0 && elapsed.is_none_or(|elapsed| elapsed < state.blocked) {
                blocked.push(next.thread);
                continue;
            }
            state.blocked = 0;
            state.is_parked = false;
            if self.may_go(next.thread, from, to, time) {
                found = Some(next.thread);
                break;
            }
            skipped.push(next);
        }
        let why = if found.is_none() && !blocked.is_empty() { Why::Blocked } else { Why::Nobody };
        if why == Why::Blocked
            && let Some(to) = to
        {
            // QUIRK: a core that looks in vain at another core whose threads all block is idle for twice as long.
            self.cores[to].idles += 1;
        }
        // Both go back in the order of threads. Those that still block get new turns, which puts them after threads of the
        // same priority and progress.
        skipped.sort_unstable_by_key(|waiting: &Waiting| waiting.thread);
        skipped.into_iter().for_each(|waiting| self.cores[from].queue.push(waiting));
        blocked.sort_unstable();
        blocked.into_iter().for_each(|thread| self.line_up(from, thread));
        if to == Some(from) {
            self.cores[from].is_fresh = false;
        }
        if let Some(thread) = found {
            let state = &mut self.threads[thread];
            state.is_parked = false;
            state.last_home = state.home;
            state.home = to;
        }
        (found, why)
    }

    /// True if a thread that does not block may run on core `to`.
    fn may_go(&mut self, thread: usize, from: usize, to: Option<usize>, time: u64) -> bool {
        if self.options.busy_cores > 0 && self.busy >= self.options.busy_cores {
            self.cores[from].told.limited += 1;
            return false;
        }
        if to == Some(from) {
            return true;
        }
        let state = &mut self.threads[thread];
        if state.last_run == 0 {
            // It has never run: treat it as if it had run at the very beginning.
            state.last_run = self.cores[from].first_time;
        }
        let threshold = self.options.units(self.options.migration_us);
        let has_cooled = time > state.last_run && time - state.last_run >= threshold;
        if self.options.migration_us > 0 && time > 0 && !has_cooled {
            return false;
        }
        self.cores[from].told.migrations += u64::from(time > 0);
        true
    }

    /// Redistributes waiting threads evenly.
    pub(super) fn rebalance(&mut self, core: usize) {
        self.last_rebalance = self.cores[core].time;
        self.cores[core].told.rebalances += 1;
        let mut moving = Vec::new();
        if self.live == self.parked.len() {
            // The thread that should have woken them missed them, and no other thread is left to do so.
            while let Some(waiting) = self.parked.pop_first() {
                self.threads[waiting.thread].is_parked = false;
                moving.push(waiting.thread);
            }
        }
        let most = self.live.div_ceil(self.cores.len());
        for round in 0.. {
            for i in 0..self.cores.len() {
                while round == 0 && self.cores[i].queue.len() > most {
                    let (Some(thread), _) = self.take(i, None, End::Last) else { break };
                    moving.push(thread);
                }
                while self.cores[i].queue.len() < most
                    && let Some(thread) = moving.pop()
                {
                    self.line_up(i, thread);
                }
            }
            if moving.is_empty() {
                return;
            }
        }
    }
}

/// The end of a queue to take from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    First,
    Last,
}

/// The reason why no thread was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// All threads in the queue block.
    Blocked,
    /// No thread may move or run.
    Nobody,
}
