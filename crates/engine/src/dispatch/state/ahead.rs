//! Turns without decisions, many at once: computing how many there are, and accounting for them.

use super::super::lane::Plain;
use super::super::options::Quantum;
use super::Dispatcher;

impl Dispatcher {
    /// The records that the thread on `core` can deliver without a decision, and the maximum number of turns for that, if
    /// time advances by at most `pace` with each turn; `None` if the next turn needs a decision.
    pub(in super::super) fn certain_run(
        &self,
        core: usize,
        thread: usize,
        pace: u64,
    ) -> Option<(Plain, u64)> {
        let (state, thread) = (&self.cores[core], &self.threads[thread]);
        if state.first_time == 0 || state.looks || state.kernel_ends {
            return None;
        }
        let until_instr = (thread.in_call || thread.in_blocking_call) && !state.in_kernel;
        match self.options.quantum {
            Quantum::Instrs(quantum) => {
                let instrs = quantum.saturating_sub(thread.instrs);
                Some((Plain { instrs, until_instr }, u64::MAX))
            }
            Quantum::Micros(quantum) => {
                let time = self.time_at(core, pace);
                let ran = thread.ran.saturating_add(time.saturating_sub(thread.since));
                let turns = self.options.units(quantum).saturating_sub(ran) / pace.max(1);
                Some((Plain { instrs: u64::MAX, until_instr }, turns))
            }
        }
    }

    /// Accounts for records that `core` has delivered of a thread, with this many instructions; the last record was at
    /// `time`.
    pub(in super::super) fn ran(&mut self, core: usize, thread: usize, instrs: u64, time: u64) {
        self.cores[core].time = time;
        self.cores[core].instrs += instrs;
        let state = &mut self.threads[thread];
        match self.options.quantum {
            Quantum::Instrs(_) => state.instrs += instrs,
            Quantum::Micros(_) => {
                state.ran += time.saturating_sub(state.since);
                state.since = time;
            }
        }
    }

    /// The number of consecutive turns at which a core that found no work surely stays idle, if time advances by at most
    /// `pace` with each; 0 if it must look for work.
    pub(in super::super) fn certain_rests(&self, core: usize, pace: u64) -> u64 {
        let state = &self.cores[core];
        if !state.looks
            || state.thread.is_some()
            || state.is_fresh
            || state.time == 0
            || self.last_rebalance == 0
        {
            return 0;
        }
        // The time at the core's next turn.
        let time = self.time_at(core, pace);
        let turns_until = |moment: u64| moment.saturating_sub(time) / pace.max(1);
        let rebalance =
            self.last_rebalance.saturating_add(self.options.units(self.options.rebalance_us).max(1));
        let mut turns = turns_until(rebalance);
        if !state.queue.is_empty() && self.options.at_random {
            // Each look rolls the dice, so looks cannot be skipped.
            return 0;
        }
        if state.queue.is_empty() {
            let every = self.options.steal_idles;
            if every > 0 {
                let behind = state.idles_in_a_row % every;
                turns = turns.min(if behind == 0 { 0 } else { every - behind });
            }
        }
        for waiting in state.queue.iter() {
            let thread = &self.threads[waiting.thread];
            if thread.blocked == 0 || thread.blocked_at == 0 {
                return 0;
            }
            turns = turns.min(turns_until(thread.blocked_at.saturating_add(thread.blocked)));
        }
        turns
    }

    /// Accounts for this many idle turns of `core`; the last was at `time`.
    pub(in super::super) fn rested(&mut self, core: usize, turns: u64, time: u64) {
        let state = &mut self.cores[core];
        state.idles += turns;
        if state.queue.is_empty() && self.options.steal_idles > 0 {
            state.idles_in_a_row += turns;
        }
        state.time = time;
    }
}
