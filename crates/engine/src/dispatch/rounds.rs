//! Batches of all cores, step by step, from batches of all threads.
//!
//! Between two decisions of the scheduler, only positions and counts change. So where the next steps of all cores are certain
//! (each runs plain records, or surely stays idle), the records of these steps are copied at once; only steps at which some
//! core has something to decide are taken one by one.

use super::clock::CoreClock;
use super::copy::move_last;
use super::lane::{Lanes, Load};
use super::options::CoreTime;
use super::state::{Dispatcher, Heads, Step};
use quipu_model::lens::ThreadEvent;
use quipu_model::trace::{CoreForm, Dispatched, Rounds};
use quipu_model::{Batch, Code, CodeTable, Columns, Result, Span, ThreadId};
use std::collections::HashMap;

/// Upper limit on the steps in a round.
const MAX_STEPS: u32 = 1024;
/// The pseudo-process of an idle core.
const IDLE_PROCESS: u64 = u64::MAX;

/// The code table of one core, which unites those of its threads.
#[derive(Default)]
pub(super) struct Codes {
    known: HashMap<Code, u32>,
    /// For each thread, the core's index of each of its codes.
    names: Vec<Vec<u32>>,
    /// The table, while it is not lent with a batch.
    pub(super) table: CodeTable,
}

impl Codes {
    /// The core's index for a code of a thread.
    pub(super) fn name(&self, thread: usize, code: u32) -> u32 {
        self.names.get(thread).and_then(|names| names.get(code as usize)).copied().unwrap_or(code)
    }

    /// Adds the codes of a thread's batch that are new.
    pub(super) fn learn(&mut self, thread: usize, batch: &Batch) {
        if self.names.len() <= thread {
            self.names.resize_with(thread + 1, Vec::new);
        }
        let names = &mut self.names[thread];
        for code in batch.codes.as_slice().get(names.len()..).unwrap_or(&[]) {
            names.push(*self.known.entry(*code).or_insert_with(|| self.table.push(*code)));
        }
    }
}

/// State of the records that a core has delivered.
#[derive(Clone, Copy, Debug, Default)]
struct Delivered {
    records: u64,
    instrs: u64,
    clock: CoreClock,
    /// Whether the last record was an instruction.
    last_is_instr: bool,
    /// Number of bytes of the last record's native form.
    last_raw: usize,
    /// The thread of the last native record; `None` after idle records.
    raw_thread: Option<usize>,
}

/// A read of all cores.
pub(super) struct CoreRounds {
    dispatcher: Dispatcher,
    lanes: Lanes,
    /// Columns to fill for each record.
    wanted: Columns,
    /// The format's form of native records for cores, if native records are wanted.
    form: Option<&'static dyn CoreForm>,
    delivered: Vec<Delivered>,
    codes: Vec<Codes>,
    /// Records of each core since the last round, in the order of turns, as in `next` and `round`. PERF: batches are large,
    /// so the lists are swapped, not their contents.
    now: Vec<Batch>,
    /// Records that belong to the round after `now`.
    next: Vec<Batch>,
    /// The round that is lent to the caller.
    round: Vec<Batch>,
    /// Number of steps in `now`.
    steps: u32,
    /// Limits on the records of each core in a round (empty if there are none), and of all cores together.
    most_of_each: Vec<u64>,
    most_in_all: u64,
    /// Instructions in the next records of each core.
    loads: Vec<Load>,
    is_over: bool,
    #[cfg(test)]
    way: Way,
}

/// The way in which tests want steps to be taken.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Together,
    OneByOne,
}

impl CoreRounds {
    #[cfg(test)]
    pub(super) fn set_way(&mut self, way: Way) {
        self.way = way;
    }

    pub(super) fn new(
        dispatcher: Dispatcher,
        lanes: Lanes,
        wanted: Columns,
        form: Option<&'static dyn CoreForm>,
    ) -> CoreRounds {
        let n_cores = dispatcher.cores.len();
        let batches = || (0..n_cores).map(|_| Batch::default()).collect();
        CoreRounds {
            delivered: vec![Delivered::default(); n_cores],
            codes: (0..n_cores).map(|_| Codes::default()).collect(),
            now: batches(),
            next: batches(),
            round: batches(),
            steps: 0,
            most_of_each: Vec::new(),
            most_in_all: u64::MAX,
            loads: vec![Load::default(); n_cores],
            is_over: false,
            #[cfg(test)]
            way: Way::Together,
            dispatcher,
            lanes,
            wanted,
            form,
        }
    }

    /// The cores in the order of their turns. QUIRK: DynamoRIO begins with the second.
    fn turns(&self) -> impl Iterator<Item = usize> + use<> {
        let n_cores = self.now.len();
        (1..=n_cores).map(move |turn| turn % n_cores)
    }

    /// The position of a core in the order of turns, and so of its batches.
    fn place(&self, core: usize) -> usize {
        core.checked_sub(1).unwrap_or(self.now.len() - 1)
    }

    /// The number of further steps that certainly keep within the limits on the round's records. A core that is idle remains
    /// so until the end of the round.
    fn allowed_steps(&self) -> u32 {
        let is_running = |core: &usize| match self.steps {
            0 => self.dispatcher.cores[*core].thread.is_some(),
            _ => !self.now[self.place(*core)].span.thread.is_idle(),
        };
        let (mut most, mut n_running) = (u64::from(MAX_STEPS.saturating_sub(self.steps)), 0);
        for core in (0..self.now.len()).filter(is_running) {
            n_running += 1;
            if let Some(records) = self.most_of_each.get(core) {
                most = most.min(records.saturating_sub(u64::from(self.steps)));
            }
        }
        if let Some(records) = self.most_in_all.checked_div(n_running) {
            most = most.min(records.saturating_sub(u64::from(self.steps)));
        }
        // Every round has at least one step.
        most.max(u64::from(self.steps == 0)) as u32 // At most `MAX_STEPS`.
    }

    /// The number of steps, at most `steps`, that are certain for all cores.
    fn certain_steps(&mut self, mut steps: u32) -> u32 {
        #[cfg(test)]
        if self.way == Way::OneByOne {
            return 0;
        }
        let pace = self.dispatcher.pace();
        for core in 0..self.now.len() {
            let certain = match self.dispatcher.cores[core].thread {
                Some(thread) => match self.dispatcher.certain_run(core, thread, pace) {
                    Some((plain, turns)) if self.goes_on(core, thread) => {
                        let most = steps.min(u32::try_from(turns).unwrap_or(u32::MAX));
                        self.lanes.plain(thread, plain, most)
                    }
                    _ => 0,
                },
                None if self.rests_on(core) => {
                    u32::try_from(self.dispatcher.certain_rests(core, pace)).unwrap_or(u32::MAX)
                }
                None => 0,
            };
            steps = steps.min(certain);
            if steps == 0 {
                break;
            }
        }
        steps
    }

    /// True if the thread's next record belongs to the batch that the core has begun.
    fn goes_on(&mut self, core: usize, thread: usize) -> bool {
        let span = self.now[self.place(core)].span;
        if span.records == 0 {
            return true;
        }
        let Some((batch, _)) = self.lanes.batch(thread) else { return false };
        let theirs = batch.span;
        (span.thread, span.process) == (theirs.thread, theirs.process)
    }

    fn rests_on(&self, core: usize) -> bool {
        let span = self.now[self.place(core)].span;
        span.records == 0 || span.thread.is_idle()
    }

    /// Takes steps in which no core has anything to decide.
    fn go_on(&mut self, steps: u32) {
        for (core, load) in self.loads.iter_mut().enumerate() {
            let thread = self.dispatcher.cores[core].thread;
            *load = thread.map_or(Load::default(), |thread| self.lanes.load(thread, steps));
        }
        // Instructions before the last step, plus, further down, those before a core's own turn in it.
        let mut instrs = self.loads.iter().map(|load| load.instrs).sum::<u64>();
        for core in self.turns() {
            let load = self.loads[core];
            let time = match self.dispatcher.options.time {
                CoreTime::Shared => self.dispatcher.time_at(core, instrs),
                CoreTime::Own => self.dispatcher.time_at(core, load.instrs),
            };
            let last = u64::from(load.ends_in_instr);
            match self.dispatcher.cores[core].thread {
                Some(thread) => {
                    self.dispatcher.ran(core, thread, load.instrs + last, time);
                    self.deliver(core, thread, steps, load.instrs + last, Side::Now);
                }
                None => {
                    let turns = u64::from(steps);
                    self.dispatcher.rested(core, turns, time + turns - 1);
                    self.rest(core, steps, Side::Now);
                }
            }
            instrs += last;
        }
        self.dispatcher.instrs += instrs;
        self.steps += steps;
    }

    /// Takes one step. True if the round ends before this step, or everything ends with it.
    fn step(&mut self) -> bool {
        let mut splits = false;
        for core in self.turns() {
            match self.dispatcher.step(core, &mut self.lanes) {
                Step::Run(thread) => {
                    let is_new = !self.goes_on(core, thread);
                    splits |= is_new;
                    self.take_record(core, thread, if is_new { Side::Next } else { Side::Now });
                }
                Step::Rest => {
                    let is_new = !self.rests_on(core);
                    splits |= is_new;
                    self.rest(core, 1, if is_new { Side::Next } else { Side::Now });
                    self.delivered[core].last_is_instr = false;
                }
                Step::Over => {
                    self.is_over = true;
                    break;
                }
            }
        }
        if splits {
            for core in 0..self.now.len() {
                let place = self.place(core);
                let (now, next) = (&mut self.now[place], &mut self.next[place]);
                if now.span.records > self.steps {
                    let instrs = u32::from(self.delivered[core].last_is_instr);
                    next.span = Span { records: 0, instrs, ..now.span };
                    now.span.instrs -= instrs;
                    move_last(now, next, self.wanted);
                    let at = now.block.len().saturating_sub(self.delivered[core].last_raw);
                    next.block.extend(now.block.drain(at..));
                }
            }
        }
        self.steps += 1;
        splits || self.is_over
    }

    /// Delivers one record, which may be a clock reading.
    fn take_record(&mut self, core: usize, thread: usize, side: Side) {
        let Some(head) = self.lanes.head(thread) else { return };
        self.delivered[core].last_is_instr = head.is_instr;
        self.deliver(core, thread, 1, u64::from(head.is_instr), side);
        let Some((ThreadEvent::Clock, ticks)) = head.event else { return };
        self.lanes.set_clock(thread, head.clock);
        let now = self.delivered[core].clock.read(ticks, core, &self.dispatcher, &self.lanes);
        let place = self.place(core);
        let batch = match side {
            Side::Now => &mut self.now[place],
            Side::Next => &mut self.next[place],
        };
        batch.span.clock = now;
        if let Some(form) = self.form {
            let at = batch.block.len().saturating_sub(self.delivered[core].last_raw);
            form.adopt(&mut batch.block[at..], core as u64, Some(now));
        }
        let last = batch.span.records.saturating_sub(1);
        let threads = &mut batch.threads;
        for row in (0..threads.at.len()).rev().take_while(|row| threads.at[*row] == last) {
            if threads.what[row] == ThreadEvent::Clock {
                threads.value[row] = now;
            }
        }
    }

    /// Copies records of a thread to the batch of its core.
    fn deliver(&mut self, core: usize, thread: usize, n: u32, instrs: u64, side: Side) {
        let place = self.place(core);
        let Some((batch, at)) = self.lanes.batch(thread) else { return };
        let to = match side {
            Side::Now => &mut self.now[place],
            Side::Next => &mut self.next[place],
        };
        if to.span.records == 0 {
            to.span = batch.span;
            (to.span.records, to.span.instrs) = (0, 0);
            to.span.clock = self.delivered[core].clock.latest().unwrap_or(0);
        }
        let codes = &mut self.codes[core];
        if self.wanted.has(Columns::INSTR_CODE) {
            codes.learn(thread, batch);
        }
        let first_event = to.threads.len();
        let names = codes.names.get(thread).map_or(&[][..], Vec::as_slice);
        batch.copy_records(at, n, to, self.wanted, |code| names.get(code as usize).copied().unwrap_or(code));
        to.span.instrs += instrs as u32; // Not more than the records.
        if let Some(form) = self.form {
            let (delivered, start) = (&mut self.delivered[core], to.block.len());
            if delivered.raw_thread.replace(thread) != Some(thread) {
                form.turn(to.span.thread, to.span.process, self.lanes.raw(thread), &mut to.block);
            }
            self.lanes.take_raw(thread, &mut to.block);
            // Chunks begin with a copy of the last clock reading; the core's own reading replaces it.
            form.adopt(&mut to.block[start..], core as u64, delivered.clock.latest());
            delivered.last_raw = to.block.len() - start;
        }
        let events = to.threads.what[first_event..].iter().zip(&mut to.threads.value[first_event..]);
        for (_, value) in events.filter(|(what, _)| **what == ThreadEvent::Cpu) {
            *value = core as u64;
        }
    }

    /// Delivers idle records of a core.
    fn rest(&mut self, core: usize, n: u32, side: Side) {
        let place = self.place(core);
        let to = match side {
            Side::Now => &mut self.now[place],
            Side::Next => &mut self.next[place],
        };
        if to.span.records == 0 {
            to.span = Span {
                thread: ThreadId::IDLE,
                process: IDLE_PROCESS,
                clock: self.delivered[core].clock.latest().unwrap_or(0),
                ..Span::default()
            };
        }
        if self.wanted.has(Columns::THREADS) {
            let start = to.span.records;
            let events = &mut to.threads;
            events.at.extend(start..start + n);
            events.what.resize(events.what.len() + n as usize, ThreadEvent::Idle);
            events.value.resize(events.value.len() + n as usize, 0);
        }
        to.span.records += n;
        if let Some(form) = self.form {
            let delivered = &mut self.delivered[core];
            delivered.raw_thread = None;
            for _ in 0..n {
                let start = to.block.len();
                form.rest(&mut to.block);
                delivered.last_raw = to.block.len() - start;
            }
        }
    }

    /// Takes the code tables back that were lent with the last round.
    fn take_back(&mut self) {
        for (place, core) in self.turns().enumerate() {
            let table = std::mem::take(&mut self.round[place].codes);
            if !table.is_empty() {
                self.codes[core].table = table;
            }
        }
    }

    /// Turns the records since the last round into the round to lend.
    fn lend(&mut self) -> &mut [Batch] {
        std::mem::swap(&mut self.round, &mut self.now);
        std::mem::swap(&mut self.now, &mut self.next);
        for batch in &mut self.next {
            batch.clear();
            batch.block.clear();
            batch.span = Span::default();
        }
        let turns = self.turns();
        for (place, core) in turns.enumerate() {
            let batch = &mut self.round[place];
            batch.codes = std::mem::take(&mut self.codes[core].table);
            batch.raw = 0..batch.block.len();
            let (span, delivered) = (&mut batch.span, &mut self.delivered[core]);
            span.shard = core as u32; // At most `MAX_DISPATCH_CORES`.
            span.piece = 0;
            span.first_record = delivered.records;
            span.first_instr = delivered.instrs;
            span.cpu = Some(core as u64);
            span.opens = None;
            delivered.records += u64::from(span.records);
            delivered.instrs += u64::from(span.instrs);
        }
        self.steps = self.now.iter().map(|batch| batch.span.records).max().unwrap_or(0);
        if let Some(batch) = self.round.first_mut() {
            batch.findings.append(&mut self.lanes.findings);
        }
        &mut self.round
    }
}

/// The round that a record belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Now,
    Next,
}

impl Rounds for CoreRounds {
    fn read(&mut self) -> Result<Option<&mut [Batch]>> {
        self.take_back();
        if let Some(error) = self.lanes.errors.pop_front() {
            return Err(error);
        }
        // If a round was cut short, what is left over is delivered as a round of its own.
        while !self.is_over {
            let allowed = self.allowed_steps();
            if allowed == 0 {
                break;
            }
            let steps = self.certain_steps(allowed);
            if steps > 0 {
                self.go_on(steps);
            } else if self.step() {
                break;
            }
        }
        let is_empty = |batches: &[Batch]| batches.iter().all(|batch| batch.span.records == 0);
        if self.is_over && is_empty(&self.now) && is_empty(&self.next) && self.lanes.findings.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.lend()))
    }

    fn limit_records(&mut self, of_each: &[u64], in_all: u64) {
        of_each.clone_into(&mut self.most_of_each);
        self.most_in_all = in_all;
    }

    fn dispatched(&self) -> Vec<Dispatched> {
        self.dispatcher.cores.iter().map(|core| core.told).collect()
    }

    fn packed_bytes(&self) -> u64 {
        self.lanes.packed_bytes()
    }
}
