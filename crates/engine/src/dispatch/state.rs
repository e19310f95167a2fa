//! The scheduler as a state machine that determines the next thread of each core. It reads nothing and knows no batches.
//!
//! Cores take turns. At each turn a core delivers one record of its thread, or is idle. The decision depends on the record
//! that the thread would deliver next: it is examined before it is delivered, and examined again when the thread comes back.
//! Decisions are made where threads enter blocking calls (`calls`), where a quantum is over, and where a thread ends;
//! `choose` selects the next thread. SPEC: drmemtrace.md#scheduling-threads-onto-cores.

mod ahead;
mod balance;

use super::options::{CoreTime, DispatchOptions, Quantum};
use super::queue::{Dice, Queue, Rank, Waiting};
use balance::{End, Why};
use quipu_model::ThreadId;
use quipu_model::lens::ThreadEvent;
use quipu_model::trace::Dispatched;
use std::collections::HashMap;

/// The next record of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Whether the record is an instruction.
    pub(super) is_instr: bool,
    /// Its event of threads and calls, if that matters to the scheduler, with its value.
    pub(super) event: Option<(ThreadEvent, u64)>,
    /// The thread's last clock reading, including this record's, in microseconds.
    pub(super) clock: u64,
}

/// Access to the next record of each thread.
pub(super) trait Heads {
    /// The next record of thread `thread`; `None` at its end.
    fn head(&mut self, thread: usize) -> Option<Head>;
}

/// The outcome of a core's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It delivers the next record of this thread.
    Run(usize),
    /// It is idle.
    Rest,
    /// The whole run is over.
    Over,
}

/// Facts about a thread that are known before it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) thread: ThreadId,
    /// Its first clock reading.
    pub(super) first_clock: u64,
    /// The last clock reading before its first instruction.
    pub(super) clock: u64,
    /// Whether it begins parked, because it was in a parking call when tracing began.
    pub(super) begins_parked: bool,
}

/// The state of one thread.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadState {
    pub(super) workload: u16,
    priority: i32,
    base_clock: u64,
    pub(super) clock: u64,
    pub(super) is_over: bool,
    /// Instructions run in the current quantum.
    pub(super) instrs: u64,
    /// Time run in the current quantum, up to `since`.
    pub(super) ran: u64,
    pub(super) since: u64,
    /// Time that it blocks, counted from `blocked_at`; 0 if it does not block.
    pub(super) blocked: u64,
    pub(super) blocked_at: u64,
    /// Parked until another thread wakes it; if it has a timeout, `blocked` holds that.
    pub(super) is_parked: bool,
    /// Another thread woke it before it parked, so the next parking call has no effect.
    pub(super) skips_park: bool,
    /// The thread that it asked to run in its place.
    pub(super) switch_to: Option<usize>,
    pub(super) timeout: u64,
    pub(super) in_call: bool,
    pub(super) in_blocking_call: bool,
    pub(super) clock_before_call: u64,
    last_run: u64,
    /// The core on which it runs or waits.
    pub(super) home: Option<usize>,
    /// The previous value of `home`.
    pub(super) last_home: Option<usize>,
}

/// The state of one core.
#[derive(Clone, Debug, Default)]
pub(super) struct CoreState {
    pub(super) thread: Option<usize>,
    pub(super) queue: Queue,
    turns: u64,
    /// Whether it looks for work at each turn.
    pub(super) looks: bool,
    pub(super) time: u64,
    first_time: u64,
    pub(super) instrs: u64,
    pub(super) idles: u64,
    pub(super) idles_in_a_row: u64,
    pub(super) in_kernel: bool,
    /// Whether kernel code ends after the current record.
    pub(super) kernel_ends: bool,
    /// Whether a thread has joined the queue since the core last looked.
    pub(super) is_fresh: bool,
    pub(super) told: Dispatched,
}

/// The result of choosing a core's next thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pick {
    Thread(usize),
    Rest,
    Over,
}

/// The scheduler.
#[derive(Debug)]
pub(super) struct Dispatcher {
    pub(super) options: DispatchOptions,
    pub(super) threads: Vec<ThreadState>,
    pub(super) cores: Vec<CoreState>,
    /// Parked threads without a timeout.
    parked: Queue,
    parked_turns: u64,
    /// Instructions run on all cores.
    pub(super) instrs: u64,
    live: usize,
    /// Number of cores that run a thread.
    busy: usize,
    last_rebalance: u64,
    pub(super) by_number: HashMap<ThreadId, usize>,
    dice: Dice,
    /// Whether clock readings surround system calls, so that latencies are known.
    pub(super) frames_calls: bool,
}

impl Dispatcher {
    /// Creates the scheduler and distributes the threads to the cores.
    pub(super) fn new(options: DispatchOptions, known: &[Known], frames_calls: bool) -> Dispatcher {
        let mut bases: HashMap<u16, u64> = HashMap::new();
        for thread in known {
            let base = bases.entry(thread.thread.workload).or_insert(u64::MAX);
            *base = thread.first_clock.min(*base);
        }
        let priorities: HashMap<ThreadId, i32> = options.priorities.iter().copied().collect();
        let threads = known.iter().map(|thread| ThreadState {
            workload: thread.thread.workload,
            priority: priorities.get(&thread.thread).copied().unwrap_or(0),
            base_clock: bases.get(&thread.thread.workload).copied().unwrap_or(0),
            clock: thread.clock,
            ..ThreadState::default()
        });
        let threads: Vec<ThreadState> = threads.collect();
        let by_number = known.iter().enumerate().map(|(i, thread)| (thread.thread, i));
        let mut dispatcher = Dispatcher {
            live: threads.len(),
            threads,
            cores: vec![CoreState::default(); options.cores],
            parked: Queue::default(),
            parked_turns: 0,
            instrs: 0,
            busy: 0,
            last_rebalance: 0,
            by_number: by_number.collect(),
            dice: Dice::new(options.layout_seed.unsigned_abs()),
            options,
            frames_calls,
        };
        for (i, thread) in known.iter().enumerate() {
            if thread.begins_parked && dispatcher.options.direct {
                dispatcher.begin_parked(i);
            }
        }
        dispatcher.lay_out();
        dispatcher
    }

    fn lay_out(&mut self) {
        let mut order = Queue::default();
        for thread in 0..self.threads.len() {
            order.push(Waiting { thread, rank: self.rank(thread, thread as u64) });
        }
        let n_cores = self.cores.len();
        let mut next = 0;
        while let Some(first) = order.pop_first() {
            let core = if self.options.layout_seed < 0 {
                next += 1;
                (next - 1) % n_cores
            } else {
                (self.dice.roll() % n_cores as u64) as usize // Below the number of cores.
            };
            self.line_up(core, first.thread);
        }
        self.rebalance(0);
        for core in 0..n_cores {
            match self.take(core, Some(core), End::First) {
                (Some(thread), _) => self.set_thread(core, Some(thread)),
                (None, _) => {
                    self.steal(core);
                }
            }
        }
    }

    fn rank(&self, thread: usize, turn: u64) -> Rank {
        let state = &self.threads[thread];
        let progress = if self.options.by_clock { state.clock.saturating_sub(state.base_clock) } else { 0 };
        Rank { priority: state.priority, progress, turn }
    }

    /// Takes `core`'s turn.
    pub(super) fn step(&mut self, core: usize, heads: &mut impl Heads) -> Step {
        let time = self.time_at(core, 0);
        let state = &mut self.cores[core];
        state.time = time;
        if state.first_time == 0 {
            state.first_time = time;
        }
        if state.looks {
            match self.next_thread(core, 0, heads) {
                Pick::Thread(_) => self.cores[core].looks = false,
                Pick::Rest => return Step::Rest,
                Pick::Over => return Step::Over,
            }
        }
        if self.cores[core].thread.is_none() {
            match self.rest_or_steal(core, None) {
                Pick::Thread(_) => {}
                Pick::Rest => return Step::Rest,
                Pick::Over => return Step::Over,
            }
        }
        while let Some(thread) = self.cores[core].thread {
            if self.threads[thread].since == 0 {
                self.threads[thread].since = time;
            }
            let Some(head) = self.head(thread, heads) else {
                if self.ends(thread) {
                    return Step::Over;
                }
                match self.next_thread(core, 0, heads) {
                    Pick::Thread(_) => continue,
                    Pick::Rest => return Step::Rest,
                    Pick::Over => return Step::Over,
                }
            };
            let ran_since = self.threads[thread].since;
            self.track_kernel(core, head.event);
            let (mut switches, blocked) = self.leaves_call(core, thread, &head);
            self.event(core, thread, head.event);
            let is_preempted = self.ends_quantum(core, thread, head.is_instr, time);
            switches |= is_preempted;
            if switches {
                match self.next_thread(core, blocked, heads) {
                    Pick::Thread(_) => {}
                    Pick::Rest => return Step::Rest,
                    Pick::Over => return Step::Over,
                }
                if self.cores[core].thread != Some(thread) {
                    if !is_preempted {
                        // The record will be examined and counted again when the thread comes back.
                        let state = &mut self.threads[thread];
                        match self.options.quantum {
                            Quantum::Instrs(_) => {
                                state.instrs = state.instrs.saturating_sub(u64::from(head.is_instr));
                            }
                            Quantum::Micros(_) => state.ran = state.ran.saturating_sub(time - ran_since),
                        }
                    }
                    continue;
                }
            }
            self.instrs += u64::from(head.is_instr);
            self.cores[core].instrs += u64::from(head.is_instr);
            return Step::Run(thread);
        }
        Step::Rest
    }

    /// The time of a core's next turn, if that comes `later` units from now.
    pub(super) fn time_at(&self, core: usize, later: u64) -> u64 {
        let core = &self.cores[core];
        let instrs = match self.options.time {
            CoreTime::Shared => self.instrs,
            CoreTime::Own => core.instrs,
        };
        1 + instrs + core.idles + later
    }

    /// The largest amount by which a core's time may advance between two of its turns.
    pub(super) fn pace(&self) -> u64 {
        match self.options.time {
            CoreTime::Shared => 1 + self.cores.iter().filter(|core| core.thread.is_some()).count() as u64,
            CoreTime::Own => 1,
        }
    }

    /// Examines a thread's next record; `None` if the thread is over.
    fn head(&mut self, thread: usize, heads: &mut impl Heads) -> Option<Head> {
        if self.threads[thread].is_over {
            return None;
        }
        let head = heads.head(thread)?;
        self.threads[thread].clock = head.clock;
        Some(head)
    }

    fn track_kernel(&mut self, core: usize, event: Option<(ThreadEvent, u64)>) {
        let core = &mut self.cores[core];
        if core.kernel_ends {
            core.in_kernel = false;
            core.kernel_ends = false;
        }
        match event {
            Some((ThreadEvent::KernelEnter, _)) => core.in_kernel = true,
            Some((ThreadEvent::KernelLeave, _)) => core.kernel_ends = true,
            _ => {}
        }
    }

    /// Counts a record towards the quantum. True if the quantum is over, so that the record belongs to the next one.
    fn ends_quantum(&mut self, core: usize, thread: usize, is_instr: bool, time: u64) -> bool {
        let state = &mut self.threads[thread];
        match self.options.quantum {
            Quantum::Instrs(quantum) => {
                state.instrs += u64::from(is_instr);
                if !is_instr || state.instrs <= quantum || self.cores[core].in_kernel {
                    return false;
                }
                state.instrs = 0;
            }
            Quantum::Micros(quantum) => {
                state.ran += time.saturating_sub(state.since);
                state.since = time;
                let is_up = state.ran as f64 / self.options.units_per_us >= quantum as f64;
                if !is_up || !is_instr || self.cores[core].in_kernel {
                    return false;
                }
                state.ran = 0;
            }
        }
        self.cores[core].told.preemptions += 1;
        true
    }

    /// Chooses the next thread of `core`; the thread that ran blocks for `blocked`.
    fn next_thread(&mut self, core: usize, blocked: u64, heads: &mut impl Heads) -> Pick {
        let before = self.cores[core].thread;
        loop {
            let thread = match self.choose(core, blocked, before) {
                Pick::Thread(thread) => thread,
                none => return none,
            };
            if self.head(thread, heads).is_some() {
                let told = &mut self.cores[core].told;
                match before {
                    Some(before) if before == thread => told.same_thread += 1,
                    Some(_) => told.thread_to_thread += 1,
                    None => {
                        told.idle_to_thread += 1;
                        self.cores[core].idles_in_a_row = 0;
                    }
                }
                self.set_thread(core, Some(thread));
                return Pick::Thread(thread);
            }
            if self.ends(thread) {
                return Pick::Over;
            }
        }
    }

    /// Marks a thread as having no more records; true if that ends the whole run.
    fn ends(&mut self, thread: usize) -> bool {
        if self.threads[thread].is_over {
            return false;
        }
        self.threads[thread].is_over = true;
        self.live -= 1;
        self.is_over()
    }

    fn is_over(&self) -> bool {
        self.live <= (self.threads.len() as f64 * self.options.end_share) as usize
    }

    /// Chooses the next thread of `core`, which ran `before`.
    fn choose(&mut self, core: usize, blocked: u64, before: Option<usize>) -> Pick {
        let time = self.cores[core].time;
        if self.last_rebalance == 0 {
            self.last_rebalance = time;
        } else if time.saturating_sub(self.last_rebalance)
            >= self.options.units(self.options.rebalance_us).max(1)
        {
            self.rebalance(core);
        }
        if let Some(before) = before
            && blocked > 0
            && self.threads[before].blocked == 0
        {
            self.threads[before].blocked = blocked;
            self.threads[before].blocked_at = time;
        }
        if let Some(before) = before
            && let Some(target) = self.threads[before].switch_to.take()
        {
            if self.takes_over(core, target) {
                self.cores[core].told.direct_switches += 1;
                return Pick::Thread(target);
            }
            // The target runs elsewhere; it must not wait for a wake-up that it has missed.
            self.threads[target].skips_park = true;
        }
        if self.cores[core].queue.is_empty() && blocked == 0 {
            return match before {
                Some(before) if !self.threads[before].is_over && !self.threads[before].is_parked => {
                    Pick::Thread(before)
                }
                before => self.rest_or_steal(core, before),
            };
        }
        self.set_thread(core, None);
        match self.take(core, Some(core), End::First) {
            (Some(thread), _) => Pick::Thread(thread),
            (None, Why::Blocked) => {
                self.cores[core].looks = true;
                self.cores[core].told.thread_to_idle += u64::from(before.is_some());
                Pick::Rest
            }
            (None, Why::Nobody) => self.rest_or_steal(core, before),
        }
    }

    /// Removes a thread from the queue in which it waits, if any, so that `core` can run it; false if it does not wait.
    fn takes_over(&mut self, core: usize, target: usize) -> bool {
        let mut came_from = None;
        if let Some(home) = self.threads[target].home
            && self.cores[home].queue.remove(target)
        {
            let state = &mut self.threads[target];
            if state.blocked > 0 {
                state.blocked = 0;
                state.is_parked = false;
            }
            came_from = Some(Some(home));
        }
        if came_from.is_none() && self.parked.remove(target) {
            self.threads[target].is_parked = false;
            came_from = Some(self.threads[target].last_home);
        }
        let Some(home) = came_from else { return false };
        self.cores[core].told.migrations += u64::from(home.is_some_and(|home| home != core));
        true
    }

    /// For a core whose queue is empty: takes a thread from another core, or else stays idle.
    fn rest_or_steal(&mut self, core: usize, before: Option<usize>) -> Pick {
        if self.live == 0 || self.is_over() {
            return Pick::Over;
        }
        if let Some(thread) = self.steal(core) {
            return Pick::Thread(thread);
        }
        self.cores[core].looks = true;
        self.cores[core].told.thread_to_idle += u64::from(before.is_some());
        self.set_thread(core, None);
        self.cores[core].idles += 1;
        Pick::Rest
    }

    /// Puts a thread into a queue: that of the core, or that of parked threads.
    pub(super) fn line_up(&mut self, core: usize, thread: usize) {
        if self.threads[thread].is_parked && self.threads[thread].blocked == 0 {
            self.parked_turns += 1;
            let rank = self.rank(thread, self.parked_turns);
            self.parked.push(Waiting { thread, rank });
            self.threads[thread].last_home = Some(core);
            self.threads[thread].home = None;
            return;
        }
        self.cores[core].turns += 1;
        let rank = self.rank(thread, self.cores[core].turns);
        let state = &mut self.cores[core];
        state.queue.push(Waiting { thread, rank });
        state.is_fresh = true;
        self.threads[thread].home = Some(core);
    }

    /// Removes a thread from the parked ones; false if it is not among them.
    pub(super) fn unpark(&mut self, thread: usize) -> bool {
        self.parked.remove(thread)
    }

    /// Makes a core run another thread, or none; the thread that ran before waits.
    fn set_thread(&mut self, core: usize, thread: Option<usize>) {
        let time = self.cores[core].time;
        let before = self.cores[core].thread;
        if before == thread {
            return;
        }
        if let Some(before) = before {
            self.threads[before].last_run = time;
            if !self.threads[before].is_over {
                self.line_up(core, before);
            }
            self.busy -= 1;
        }
        self.cores[core].thread = thread;
        if let Some(thread) = thread {
            self.threads[thread].home = Some(core);
            self.threads[thread].since = time;
            self.busy += 1;
        }
    }
}
