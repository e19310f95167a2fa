//! Context switches of one core, record by record.
//!
//! The rules are those of docs/formats/drmemtrace.md, *schedule_stats*. A core's records are read completely and in order:
//! the engine never divides a shard that is a core.

use super::switching::{Bin, CallBins, CoreSums, CoreSwitching, Histogram, SwitchOut, Switching, ThreadBins};
use super::{Run, UNKNOWN, runs};
use quipu_model::lens::{ThreadEvent, instr_flags};
use quipu_model::{Batch, ThreadId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// User instructions in a bin.
const INSTRS_BIN: u64 = 50_000;
/// Ticks in a bin.
const TICKS_BIN: u64 = 5;
/// Maximum number of slice ends that are listed.
const MAX_LISTED: usize = 24;
/// Maximum number of letters of a schedule; with more switches, the string is of no use.
const MAX_LETTERS: usize = 1 << 20;
/// The clock reading, perhaps a window, the processor, then the call. (SPEC: drmemtrace.md#grammar-of-a-file.)
const FRAME_RECORDS: u64 = 4;

/// The letters for threads, and the amount that each represents.
#[derive(Clone, Debug)]
pub(super) struct Letters {
    /// Number of instructions, idles or waits that one letter represents.
    every: u64,
    /// Positions of the files of threads that were arranged onto cores.
    positions: Arc<BTreeMap<ThreadId, usize>>,
}

impl Default for Letters {
    fn default() -> Letters {
        Letters::new(1, &[])
    }
}

impl Letters {
    pub(super) fn new(every: u64, arranged: &[ThreadId]) -> Letters {
        let positions = arranged.iter().enumerate().map(|(position, thread)| (*thread, position));
        Letters { every: every.max(1), positions: Arc::new(positions.collect()) }
    }

    /// The letter of a thread, counted from 0. QUIRK: DynamoRIO's `schedule_stats` takes the position of its file modulo 26,
    /// and in files of cores the packed id.
    pub(super) fn of(&self, thread: ThreadId) -> u8 {
        let word = self.positions.get(&thread).map_or(thread.packed(), |position| *position as u64);
        (word % 26) as u8 // Below 26.
    }
}

/// The current activity of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Doing {
    /// It has not begun, or waits for another core.
    #[default]
    Nothing,
    Idling,
    Running(ThreadId),
}

/// The system call that the running thread is in.
#[derive(Clone, Copy, Debug)]
struct Call {
    number: u64,
    before: Option<u64>,
    after: Option<u64>,
}

impl Call {
    fn latency(self) -> Option<u64> {
        // A clock that runs backwards is damaged; latencies are never negative.
        Some(self.after?.saturating_sub(self.before?))
    }
}

/// State of one core.
#[derive(Clone, Debug, Default)]
pub(super) struct CoreWatch {
    letters: Letters,
    sums: CoreSums,
    threads: BTreeSet<ThreadId>,
    slices: Histogram,
    thread_slices: BTreeMap<ThreadId, Histogram>,
    switched: BTreeMap<u64, Histogram>,
    others: BTreeMap<u64, Histogram>,
    schedule: String,
    listed: Vec<SwitchOut>,
    /// Clock reading and thread of the beginning of each slice, for counting migrations.
    arrivals: Vec<(u64, ThreadId)>,
    doing: Doing,
    /// Instructions, idles or waits since the last letter.
    since_letter: u64,
    /// User instructions of the slice.
    user_instrs: u64,
    start_instr: u64,
    saw_call: bool,
    saw_exit: bool,
    asked_for: Option<u64>,
    call: Option<Call>,
    /// The latest clock reading, and its record.
    clock: Option<(u64, u64)>,
    idles_since_clock: u64,
}

impl CoreWatch {
    pub(super) fn new(letters: Letters) -> CoreWatch {
        CoreWatch { letters, ..CoreWatch::default() }
    }

    pub(super) fn consume(&mut self, batch: &Batch) {
        let span = &batch.span;
        let (rows, events) = (&batch.instrs, &batch.threads);
        let me = if span.thread.is_idle() { Doing::Idling } else { Doing::Running(span.thread) };
        let (mut row, mut next) = (0, 0);
        // The ordinal of a record counts the record itself.
        let ordinal = |row: usize, at: u32| {
            let is_instr = rows.at.get(row) == Some(&at) && rows.flags[row] & instr_flags::NO_FETCH == 0;
            span.first_instr + fetched(&rows.flags[..row]) + u64::from(is_instr)
        };
        for Run { what, value, at, n } in runs(events) {
            let end = row + rows.at[row..].partition_point(|instr| *instr < at);
            if at > next {
                self.turn_to(me, || ordinal(row, next));
            }
            self.run(&rows.flags[row..end]);
            row = end;
            next = at + n as u32; // At most the number of records.
            match what {
                ThreadEvent::Idle => self.idle(n),
                ThreadEvent::Wait => self.wait(n),
                _ => {
                    self.turn_to(me, || ordinal(row, at));
                    self.event(what, value, span.first_record + u64::from(at));
                }
            }
        }
        if next < span.records {
            self.turn_to(me, || ordinal(row, next));
            self.run(rows.flags.get(row..).unwrap_or(&[]));
        }
    }

    fn run(&mut self, flags: &[u8]) {
        let instrs = fetched(flags);
        if instrs == 0 {
            return;
        }
        self.sums.instructions += instrs;
        self.sums.idle_ticks_before_last_instr = self.sums.idle_ticks;
        self.saw_exit = false;
        if let Doing::Running(thread) = self.doing {
            self.since_letter += instrs;
            while self.since_letter >= self.letters.every {
                self.write(b'a' + self.letters.of(thread));
                self.since_letter -= self.letters.every;
            }
        }
        let user = flags.iter().filter(|flags| **flags & (instr_flags::NO_FETCH | instr_flags::KERNEL) == 0);
        let user = user.count() as u64;
        if user > 0 {
            if let Some(call) = self.call.take()
                && let Some(latency) = call.latency()
            {
                self.others.entry(call.number).or_default().add(latency, TICKS_BIN);
            }
            self.user_instrs += user;
            self.saw_call = false;
            self.asked_for = None;
        }
    }

    fn idle(&mut self, n: u64) {
        let is_new = self.doing != Doing::Idling;
        self.turn_to(Doing::Idling, || 0);
        self.sums.idles += n;
        self.idles_since_clock += n;
        self.rest(is_new, b'_', n);
    }

    fn wait(&mut self, n: u64) {
        let is_new = self.doing != Doing::Nothing || self.sums.waits == 0;
        self.turn_to(Doing::Nothing, || 0);
        self.sums.waits += n;
        self.idles_since_clock += n;
        self.rest(is_new, b'-', n);
    }

    /// Writes a letter at the beginning of a rest, and for every N records of it.
    fn rest(&mut self, is_new: bool, letter: u8, n: u64) {
        if is_new {
            self.write(letter);
            self.since_letter = 0;
        }
        self.since_letter += n - u64::from(is_new);
        while self.since_letter >= self.letters.every {
            self.write(letter);
            self.since_letter -= self.letters.every;
        }
    }

    fn write(&mut self, letter: u8) {
        if self.schedule.len() < MAX_LETTERS {
            self.schedule.push(char::from(letter));
        }
    }

    fn event(&mut self, what: ThreadEvent, value: u64, record: u64) {
        match what {
            ThreadEvent::Syscall => {
                self.sums.syscalls += 1;
                self.saw_call = true;
                let fresh = |(_, read): &(u64, u64)| record.saturating_sub(*read) <= FRAME_RECORDS;
                let before = self.clock.filter(fresh).map(|(clock, _)| clock);
                self.call = Some(Call { number: value, before, after: None });
            }
            ThreadEvent::MayBlock => {
                self.sums.may_block += 1;
                self.saw_call = true;
            }
            ThreadEvent::SwitchTo => {
                self.sums.direct_requests += 1;
                self.asked_for = Some(value);
            }
            ThreadEvent::Clock if value != 0 && value != UNKNOWN => self.read_clock(value, record),
            ThreadEvent::Stop => self.saw_exit = true,
            _ => {}
        }
    }

    fn read_clock(&mut self, clock: u64, record: u64) {
        if let Some(call) = &mut self.call {
            call.after = Some(clock);
        }
        if let Some((last, at)) = self.clock {
            let ticks = clock.saturating_sub(last);
            let records = record.saturating_sub(at).max(1);
            let idles = self.idles_since_clock.min(records);
            let idle = (u128::from(ticks) * u128::from(idles) / u128::from(records)) as u64; // At most `ticks`.
            self.sums.idle_ticks = self.sums.idle_ticks.saturating_add(idle);
            self.sums.busy_ticks = self.sums.busy_ticks.saturating_add(ticks - idle);
        }
        self.clock = Some((clock, record));
        self.idles_since_clock = 0;
    }

    /// Sets the activity of the core from here on; `ordinal` gives that of its instruction here.
    fn turn_to(&mut self, next: Doing, ordinal: impl FnOnce() -> u64) {
        if next == self.doing {
            return;
        }
        if let Doing::Running(thread) = self.doing {
            self.leave(thread, next);
        }
        self.user_instrs = 0;
        self.doing = next;
        if let Doing::Running(thread) = next {
            self.start_instr = ordinal().max(1);
            self.threads.insert(thread);
            self.arrivals.push((self.clock.map_or(0, |(clock, _)| clock), thread));
            self.write(b'A' + self.letters.of(thread));
            self.since_letter = 0;
        }
    }

    /// Ends the slice of `thread`.
    fn leave(&mut self, thread: ThreadId, next: Doing) {
        self.sums.switches += 1;
        let voluntary = self.saw_call || self.saw_exit;
        let direct = self.asked_for.is_some_and(
            |asked| matches!(next, Doing::Running(next) if next == ThreadId { tid: asked, ..thread }),
        );
        self.sums.voluntary += u64::from(voluntary);
        self.sums.direct += u64::from(direct);
        let call = self.call.take();
        let latency = call.and_then(Call::latency);
        if let (Some(call), Some(latency)) = (call, latency) {
            self.switched.entry(call.number).or_default().add(latency, TICKS_BIN);
        }
        self.slices.add(self.user_instrs, INSTRS_BIN);
        self.thread_slices.entry(thread).or_default().add(self.user_instrs, INSTRS_BIN);
        if self.listed.len() < MAX_LISTED {
            self.listed.push(SwitchOut {
                thread,
                start_instr: self.start_instr,
                instructions: self.user_instrs,
                syscall: call.map(|call| call.number),
                latency,
                voluntary,
                direct,
            });
        }
    }
}

fn fetched(flags: &[u8]) -> u64 {
    flags.iter().filter(|flags| **flags & instr_flags::NO_FETCH == 0).count() as u64
}

/// The result for all cores; `cores` has the shard, the number and the state of each core.
pub(super) fn finish(mut cores: Vec<(u32, u64, CoreWatch)>) -> Option<Switching> {
    cores.sort_by_key(|(shard, ..)| *shard);
    count_migrations(&mut cores);
    let mut all = CoreWatch::default();
    let mut homes: BTreeMap<ThreadId, u64> = BTreeMap::new();
    for (.., core) in &cores {
        for thread in &core.threads {
            *homes.entry(*thread).or_insert(0) += 1;
        }
        all.add(core);
    }
    let mut cores_per_thread = Histogram::default();
    homes.values().for_each(|n| cores_per_thread.add(*n, 1));
    let ratio = |count: fn(&CoreSums) -> u64| {
        let counts = || cores.iter().map(|(.., core)| count(&core.sums));
        let (least, most) = (counts().min()?, counts().max()?);
        (least > 0).then(|| most as f64 / least as f64)
    };
    if cores.is_empty() {
        return None;
    }
    let activity_ratio = ratio(|sums| sums.instructions + sums.idles);
    let instruction_ratio = ratio(|sums| sums.instructions);
    Some(Switching {
        activity_ratio,
        instruction_ratio,
        total: all.into_sums(),
        cores_per_thread: cores_per_thread.bins(1),
        cores: cores
            .into_iter()
            .map(|(shard, core, mut watch)| CoreSwitching {
                shard,
                core,
                schedule: std::mem::take(&mut watch.schedule),
                more: watch.sums.switches - watch.listed.len() as u64,
                switch_outs: std::mem::take(&mut watch.listed),
                sums: watch.into_sums(),
            })
            .collect(),
    })
}

/// Merges histograms by key.
fn merge<K: Copy + Ord>(mine: &mut BTreeMap<K, Histogram>, theirs: &BTreeMap<K, Histogram>) {
    for (key, histogram) in theirs {
        mine.entry(*key).or_default().merge(histogram);
    }
}

/// Counts migrations: a thread that comes to a core after it ran on another has migrated; the order is that of the clock.
fn count_migrations(cores: &mut [(u32, u64, CoreWatch)]) {
    let arrivals = cores.iter().enumerate().flat_map(|(index, (.., core))| {
        core.arrivals.iter().map(move |(clock, thread)| (*clock, index, *thread))
    });
    let mut arrivals: Vec<(u64, usize, ThreadId)> = arrivals.collect();
    arrivals.sort();
    let mut homes: BTreeMap<ThreadId, usize> = BTreeMap::new();
    for (_, index, thread) in arrivals {
        if homes.insert(thread, index).is_some_and(|home| home != index) {
            cores[index].2.sums.migrations += 1;
        }
    }
}

impl CoreWatch {
    /// Adds the counts of another core.
    fn add(&mut self, other: &CoreWatch) {
        self.threads.extend(&other.threads);
        self.slices.merge(&other.slices);
        merge(&mut self.thread_slices, &other.thread_slices);
        merge(&mut self.switched, &other.switched);
        merge(&mut self.others, &other.others);
        let (sums, more) = (&mut self.sums, &other.sums);
        sums.instructions += more.instructions;
        sums.idles += more.idles;
        sums.waits += more.waits;
        sums.switches += more.switches;
        sums.voluntary += more.voluntary;
        sums.direct += more.direct;
        sums.direct_requests += more.direct_requests;
        sums.syscalls += more.syscalls;
        sums.may_block += more.may_block;
        sums.migrations += more.migrations;
        sums.busy_ticks = sums.busy_ticks.saturating_add(more.busy_ticks);
        sums.idle_ticks = sums.idle_ticks.saturating_add(more.idle_ticks);
        sums.idle_ticks_before_last_instr =
            sums.idle_ticks_before_last_instr.saturating_add(more.idle_ticks_before_last_instr);
    }

    fn into_sums(self) -> CoreSums {
        let calls = |histograms: BTreeMap<u64, Histogram>| {
            let bins =
                |(number, histogram): (u64, Histogram)| CallBins { number, bins: histogram.bins(TICKS_BIN) };
            histograms.into_iter().map(bins).collect()
        };
        let threads = self.thread_slices.into_iter();
        let of_thread = |(thread, histogram): (ThreadId, Histogram)| ThreadBins {
            thread,
            bins: histogram.bins(INSTRS_BIN),
        };
        let slice_instrs: Vec<Bin> = self.slices.bins(INSTRS_BIN);
        CoreSums {
            threads: self.threads.into_iter().collect(),
            slice_instrs,
            thread_slice_instrs: threads.map(of_thread).collect(),
            switched_latencies: calls(self.switched),
            other_latencies: calls(self.others),
            ..self.sums
        }
    }
}
