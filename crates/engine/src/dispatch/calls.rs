//! The effects of system calls on the threads that make them: block, park, wake, hand over.
//! SPEC: drmemtrace.md#scheduling-threads-onto-cores.

use super::state::{Dispatcher, Head};
use quipu_model::ThreadId;
use quipu_model::lens::ThreadEvent;

impl Dispatcher {
    /// Parks a thread that was already in a parking call when tracing began.
    pub(super) fn begin_parked(&mut self, thread: usize) {
        let blocked = self.options.block_units(self.options.max_block_us).max(1);
        let state = &mut self.threads[thread];
        state.is_parked = true;
        if !self.options.waits_forever {
            state.blocked = blocked;
        }
        // The call itself is among its first records and must not park it again.
        state.skips_park = true;
    }

    /// Whether a thread leaves its core at this record because of its last call, and for how long it blocks. Further records
    /// of a call follow it, so the thread leaves at the first instruction after them.
    pub(super) fn leaves_call(&mut self, core: usize, thread: usize, head: &Head) -> (bool, u64) {
        let state = &self.threads[thread];
        let is_behind = (state.in_call || state.in_blocking_call) && head.is_instr;
        // Traced kernel code belongs to the call.
        if !is_behind || self.cores[core].in_kernel {
            return (false, 0);
        }
        let leaves = if state.switch_to.is_some() || state.is_parked {
            (true, 0)
        } else if state.blocked > 0 {
            (true, state.blocked)
        } else {
            self.blocks(thread)
        };
        let state = &mut self.threads[thread];
        state.in_call = false;
        state.in_blocking_call = false;
        state.clock_before_call = 0;
        state.timeout = 0;
        leaves
    }

    /// Whether a call took so long that its thread left the processor, and for how long it blocks in the schedule.
    fn blocks(&self, thread: usize) -> (bool, u64) {
        let (state, options) = (&self.threads[thread], &self.options);
        if !self.frames_calls {
            // QUIRK: the threshold is used in place of the latency, and as units of time although it is in microseconds.
            return (state.in_blocking_call, options.blocking_us);
        }
        let latency = state.clock.saturating_sub(state.clock_before_call);
        let threshold = if state.in_blocking_call { options.blocking_us } else { options.call_us };
        (latency >= threshold, options.block_units(latency))
    }

    /// Updates the thread's state from a record.
    pub(super) fn event(&mut self, core: usize, thread: usize, event: Option<(ThreadEvent, u64)>) {
        let Some((what, value)) = event else { return };
        let state = &mut self.threads[thread];
        match what {
            ThreadEvent::Syscall => {
                state.in_call = true;
                state.clock_before_call = state.clock;
            }
            ThreadEvent::MayBlock => {
                state.in_blocking_call = true;
                state.clock_before_call = state.clock;
            }
            ThreadEvent::Timeout => state.timeout = value,
            ThreadEvent::SwitchTo if self.options.direct => {
                self.cores[core].told.direct_requests += 1;
                let target = self.by_number.get(&ThreadId { workload: state.workload, tid: value });
                if let Some(target) = target {
                    state.switch_to = Some(*target);
                }
                self.park(core, thread);
            }
            ThreadEvent::Park if self.options.direct => self.park(core, thread),
            ThreadEvent::Wake if self.options.direct => {
                if let Some(target) = self.by_number.get(&ThreadId { workload: state.workload, tid: value }) {
                    self.wake(core, *target);
                }
            }
            _ => {}
        }
    }

    /// Parks a thread, with the timeout of its call if it has one.
    fn park(&mut self, core: usize, thread: usize) {
        let state = &mut self.threads[thread];
        if std::mem::take(&mut state.skips_park) {
            return;
        }
        state.is_parked = true;
        if !self.options.waits_forever && state.timeout == 0 {
            // The schedule differs from the recorded one, so the thread that should wake it may have done so already.
            state.timeout = self.options.max_block_us.max(1);
        }
        if state.timeout > 0 {
            // 0 would mean that it waits without a limit.
            state.blocked = self.options.block_units(state.timeout).max(1);
            state.blocked_at = self.cores[core].time;
        }
    }

    /// Wakes a thread. If it is not parked, its next parking call will have no effect.
    fn wake(&mut self, core: usize, target: usize) {
        let state = &mut self.threads[target];
        if state.is_over {
            return;
        }
        if !state.is_parked {
            state.skips_park = true;
            return;
        }
        state.is_parked = false;
        if self.unpark(target) {
            let home = self.threads[target].last_home.unwrap_or(core);
            self.line_up(home, target);
        } else if let Some(home) = self.threads[target].home {
            self.threads[target].blocked = 0;
            self.cores[home].is_fresh = true;
        } else {
            self.threads[target].blocked = 0;
        }
    }
}
