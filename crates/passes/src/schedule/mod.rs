//! `schedule`: when threads and cores run: processors, system calls, busy and idle time.
//!
//! For each thread: records, instructions, first and last clock reading, the processors it ran on, *migrations* (the
//! processor differs from the one before, within a shard), *slices* (how often a shard switches to the thread; 1 if each
//! thread has its own file), system calls, those among them that may block, *interrupts* (signals and the like), and idle
//! and wait records.
//!
//! **Busy time** comes from clock readings, which are recorded at the start of each traced buffer and, in newer traces, before
//! and after each system call. A *thread* counts as busy between two readings, unless they enclose a system call that may
//! block: then that time counts as idle. If both such a call and other records lie between two readings, as in older traces,
//! the division is unknown: the time counts as busy, and also as *unclear*. A thread that was preempted, or that the tracer
//! itself delayed, looks busy. In a trace with a file for each *core*, the time between two readings is divided by the share
//! of idle and wait records between them: the core counts as busy first, then as idle. Time before the first and after the
//! last reading does not count; a clock that runs backwards adds nothing; readings of 0 and 2^64-1 and processor 2^64-1 are
//! ignored. (SPEC: drmemtrace.md#grammar-of-a-file, drmemtrace.md#core-sharded-files.)
//!
//! For a trace with a file for each core, the tool also reports on the cores. A *context switch* is where a core leaves a
//! thread for another one or becomes idle; it is *voluntary* if a system call or the thread's end follows the last
//! instruction outside the kernel, and *direct* if it goes to the thread that the previous one requested. A *migration* is
//! the arrival of a thread that last ran on another core, by the clock. *Latencies* of system calls are those of `syscalls`,
//! divided by whether a context switch followed; they mean little if a scheduler generated the clock, as in files written by
//! DynamoRIO's scheduler. A core's *schedule* is a string: a capital letter for each switch to a thread, a small letter for
//! every `letter` further instructions, `_` for idling and `-` for waiting; it ends at 2^20 letters. A trace that is arranged
//! by core as recorded (`--order cores`) has no idle records, so a core looks busy until its next thread.
//! (SPEC: drmemtrace.md#analysis-tools.)
//!
//! The chart divides the time from first to last reading into at most `steps` steps of equal width, a power of two in ticks,
//! that begin at multiples of it. Memory grows with the number of threads and of context switches, 16 bytes each.
//!
//! * **Needs** `threads`; uses `threads.clock`, `threads.cpu`, and `instrs` where shards are cores.
//! * **Options** `letter` (instructions, idle or wait records per letter, default 500,000), `steps` (of the chart, at most
//!   4096, default 64), `per-thread` (no effect: threads are always listed).

mod cores;
mod lane;
mod show;
mod switching;

pub use switching::{Bin, CallBins, CoreSums, CoreSwitching, SwitchOut, Switching, ThreadBins};

use crate::axis::Axis;
use crate::keyed::Keyed;
use crate::split::ALWAYS_PER_THREAD;
use cores::{CoreWatch, Letters};
use lane::{Lane, LaneOf, Ticks};
use quipu_model::ThreadId;
use quipu_model::lens::{ThreadEvent, Threads};
use quipu_model::options::Kind;
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Needs, OptionSpec, Options, Order, Pass, Report, Result, Shard, Tool, ToolInfo,
    Trace,
};
use std::collections::BTreeSet;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The tool `schedule`.
#[derive(Debug)]
pub struct Schedule;

static INFO: ToolInfo = ToolInfo {
    name: "schedule",
    summary: "when threads and cores run: processors, system calls, busy and idle time",
    needs: Needs {
        format: None,
        required: Columns::THREADS,
        optional: Columns::THREAD_CLOCK.or(Columns::THREAD_CPU).or(Columns::INSTRS),
    },
    order: Order::Pieces,
    options: &[LETTER, STEPS, ALWAYS_PER_THREAD],
    in_report: true,
};

/// Option: number of instructions, idle or wait records for each letter of a core's schedule.
const LETTER: OptionSpec = OptionSpec::new(
    "letter",
    Kind::Count,
    "500000",
    "how many instruction, idle or wait records each letter of a core's schedule stands for",
);

/// Option: maximum number of steps of time.
const STEPS: OptionSpec =
    OptionSpec::new("steps", Kind::Count, "64", "maximum number of steps of the chart of threads or cores");

/// Limit of that option: each lane has a number for each step.
const MAX_STEPS: u64 = 4096;

impl Tool for Schedule {
    fn result(&self) -> Shape {
        Schedules::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let cores = trace.shards().iter().map(Shard::core_number).collect();
        let clock_per_second = trace.meta().clock.map(|clock| clock.per_second);
        let letter = options.count(&LETTER);
        let arranged = &trace.meta().arranged;
        let letters = Letters::new(letter, arranged);
        let steps = options.count(&STEPS).clamp(1, MAX_STEPS);
        Ok(Box::new(Watch::new(Arc::new(Known { cores, clock_per_second, letters, steps }))))
    }
}

result! {
    /// When threads and cores ran.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Schedules {
        pub clock_per_second: Option<u64> => "Ticks of the clock in a second.";
        pub first_clock: Option<u64> => "Smallest clock reading.";
        pub last_clock: Option<u64> => "Largest clock reading.";
        pub threads: Vec<ThreadTimes> => "Threads in order of first appearance.";
        pub cores: Vec<CoreTimes> => "Cores, by shard.";
        pub steps: Steps => "Steps of time of the `busy` lists.";
        pub switching: Option<Switching> => "Context switches; null unless the trace has a file for each core.";
    }
}

result! {
    /// Steps of time.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Steps {
        pub start: u64 => "Clock at the start of the first step, at or before the first reading.";
        pub ticks: u64 => "Ticks in a step.";
        pub count: u64 => "Number of steps.";
    }
}

result! {
    /// One thread.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ThreadTimes {
        pub thread: ThreadId, flat => "The thread.";
        pub process: u64 => "Process of the thread.";
        pub records: u64 => "Records.";
        pub instructions: u64 => "Instructions.";
        pub first_clock: Option<u64> => "Smallest clock reading.";
        pub last_clock: Option<u64> => "Largest clock reading.";
        pub cpus: BTreeSet<u64> => "Processors it ran on.";
        pub slices: u64 => "How often a shard switched to the thread.";
        pub migrations: u64 => "Changes of processor within a shard.";
        pub syscalls: u64 => "System calls.";
        pub may_block: u64 => "System calls that may block.";
        pub interrupts: u64 => "Signals and interrupts.";
        pub idles: u64 => "Idle records.";
        pub waits: u64 => "Wait records.";
        pub busy_ticks: u64 => "Ticks in which the thread was busy.";
        pub idle_ticks: u64 => "Ticks in system calls that may block.";
        pub unclear_ticks: u64 => "Ticks that count as busy but may have been idle.";
        pub busy: Vec<u64> => "Busy ticks of each step.";
    }
}

result! {
    /// One core.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct CoreTimes {
        pub shard: u32 => "Number of the core's shard.";
        pub core: u64 => "Number of the core, if the trace has it, otherwise of the shard.";
        pub records: u64 => "Records.";
        pub instructions: u64 => "Instructions.";
        pub slices: u64 => "How often the core switched to a thread.";
        pub idles: u64 => "Idle records.";
        pub waits: u64 => "Wait records.";
        pub busy_ticks: u64 => "Ticks in which the core was busy.";
        pub idle_ticks: u64 => "Ticks in which the core was idle or waiting.";
        pub busy: Vec<u64> => "Busy ticks of each step.";
    }
}

/// An unknown processor or clock. (SPEC: drmemtrace.md#schedule-files.)
const UNKNOWN: u64 = u64::MAX;

/// Facts that are known before reading.
struct Known {
    /// The number of the core of each shard, if the shard is one.
    cores: Vec<Option<u64>>,
    clock_per_second: Option<u64>,
    /// The letters in the schedules of cores.
    letters: Letters,
    /// Maximum number of steps of time.
    steps: u64,
}

/// Activity of one thread in one shard, except for its lane.
#[derive(Clone, Debug, Default)]
struct Doings {
    process: u64,
    records: u64,
    instrs: u64,
    slices: u64,
    clocks: Option<(u64, u64)>,
    cpus: BTreeSet<u64>,
    /// First and last processor.
    cpu_ends: Option<(u64, u64)>,
    migrations: u64,
    syscalls: u64,
    may_block: u64,
    interrupts: u64,
    idles: u64,
    waits: u64,
}

impl Doings {
    fn on_cpu(&mut self, cpu: u64) {
        self.run_on(cpu, cpu);
        self.cpus.insert(cpu);
    }

    /// Continues on further processors: `first` is the first of them, `last` the last.
    fn run_on(&mut self, first: u64, last: u64) {
        let Some((start, end)) = self.cpu_ends else {
            self.cpu_ends = Some((first, last));
            return;
        };
        self.migrations += u64::from(end != first);
        self.cpu_ends = Some((start, last));
    }

    fn read_clock(&mut self, first: u64, last: u64) {
        let (lo, hi) = self.clocks.unwrap_or((first, last));
        self.clocks = Some((lo.min(first), hi.max(last)));
    }

    /// Appends the activity of the same thread after this, in the same shard.
    fn append(&mut self, later: Doings) {
        if let Some((first, last)) = later.cpu_ends {
            self.run_on(first, last);
        }
        self.add(later);
    }

    /// Adds the activity of the same thread in another shard.
    fn add(&mut self, other: Doings) {
        if let Some((first, last)) = other.clocks {
            self.read_clock(first, last);
        }
        self.cpus.extend(other.cpus);
        self.records += other.records;
        self.instrs += other.instrs;
        self.slices += other.slices;
        self.migrations += other.migrations;
        self.syscalls += other.syscalls;
        self.may_block += other.may_block;
        self.interrupts += other.interrupts;
        self.idles += other.idles;
        self.waits += other.waits;
    }
}

/// The key of a lane: a thread of a shard, or a shard that is a core.
type LaneKey = (u32, Option<ThreadId>);

/// An event, or several of one kind in consecutive records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    what: ThreadEvent,
    /// The value of the (first) event.
    value: u64,
    /// The record of the first.
    at: u32,
    /// Number of events.
    n: u64,
}

/// The events of a batch; idle records in a row are combined, and so are wait records, if no other record is between them.
/// PERF: a core is idle for thousands of records.
fn runs(events: &Threads) -> impl Iterator<Item = Run> {
    let mut row = 0;
    std::iter::from_fn(move || {
        let (what, value, at) = (*events.what.get(row)?, *events.value.get(row)?, *events.at.get(row)?);
        let n = match what {
            ThreadEvent::Idle | ThreadEvent::Wait => {
                let rest = events.what[row..].iter().zip(&events.at[row..]).zip(at..);
                rest.take_while(|((other, theirs), record)| **other == what && *theirs == record).count()
            }
            _ => 1,
        };
        row += n;
        Some(Run { what, value, at, n: n as u64 })
    })
}

/// The pass.
struct Watch {
    known: Arc<Known>,
    /// Activity by shard and thread.
    doings: Keyed<(u32, ThreadId), Doings>,
    lanes: Keyed<LaneKey, Lane>,
    /// First and last thread of each shard's part.
    ends: Keyed<u32, (ThreadId, ThreadId)>,
    /// Switches of the shards that are cores.
    cores: Keyed<u32, CoreWatch>,
}

impl Watch {
    fn new(known: Arc<Known>) -> Watch {
        Watch {
            known,
            doings: Keyed::default(),
            lanes: Keyed::default(),
            ends: Keyed::default(),
            cores: Keyed::default(),
        }
    }

    fn is_core(&self, shard: u32) -> bool {
        self.known.cores.get(shard as usize).copied().flatten().is_some()
    }
}

impl Pass for Watch {
    fn fork(&self, _shard: &Shard) -> Watch {
        Watch::new(Arc::clone(&self.known))
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        let span = &batch.span;
        if span.records == 0 {
            return Ok(());
        }
        let (shard, thread) = (span.shard, span.thread);
        let is_core = self.is_core(shard);
        if is_core {
            self.cores.entry(shard, || CoreWatch::new(self.known.letters.clone())).consume(batch);
        }
        let steps = self.known.steps;
        let doings = self.doings.entry((shard, thread), Doings::default);
        let ends = self.ends.entry(shard, || {
            doings.slices += 1;
            (thread, thread)
        });
        if ends.1 != thread {
            ends.1 = thread;
            doings.slices += 1;
        }
        let lane = match is_core {
            true => self.lanes.entry((shard, None), || Lane::new(LaneOf::Core, steps)),
            false => self.lanes.entry((shard, Some(thread)), || Lane::new(LaneOf::Thread, steps)),
        };
        doings.process = span.process;
        doings.records += u64::from(span.records);
        doings.instrs += u64::from(span.instrs);
        for Run { what, value, at, n } in runs(&batch.threads) {
            let record = span.first_record + u64::from(at);
            match what {
                ThreadEvent::Clock if value != 0 && value != UNKNOWN => {
                    lane.read_clock(value, record);
                    doings.read_clock(value, value);
                }
                ThreadEvent::Cpu if value != UNKNOWN => doings.on_cpu(value),
                ThreadEvent::Idle => {
                    lane.idle(n);
                    doings.idles += n;
                }
                ThreadEvent::Wait => {
                    lane.idle(n);
                    doings.waits += n;
                }
                ThreadEvent::Syscall => doings.syscalls += 1,
                ThreadEvent::MayBlock => {
                    lane.may_block(record);
                    doings.may_block += 1;
                }
                ThreadEvent::Interrupt => doings.interrupts += 1,
                ThreadEvent::Start | ThreadEvent::Stop | ThreadEvent::Resume => {}
                ThreadEvent::Failed
                | ThreadEvent::KernelEnter
                | ThreadEvent::KernelLeave
                | ThreadEvent::SwitchTo
                | ThreadEvent::Park
                | ThreadEvent::Wake
                | ThreadEvent::Timeout => {}
                ThreadEvent::Clock | ThreadEvent::Cpu => {} // Unknown.
            }
        }
        Ok(())
    }

    fn merge(&mut self, later: Watch) -> Result<()> {
        self.doings.merge(later.doings, Doings::append);
        self.lanes.merge(later.lanes, Lane::append);
        // A core is never divided, so there are no two parts to merge.
        self.cores.merge(later.cores, |_, _| ());
        for (shard, (first, last)) in later.ends.into_items() {
            let mut is_new = false;
            let ends = self.ends.entry(shard, || {
                is_new = true;
                (first, last)
            });
            if !is_new && ends.1 == first {
                // The thread continues across the border: both sides have counted the slice.
                self.doings.entry((shard, first), Doings::default).slices -= 1;
            }
            ends.1 = last;
        }
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        let number = |shard: u32| self.known.cores.get(shard as usize).copied().flatten().unwrap_or(0);
        let watched = self.cores.into_items().into_iter();
        let switching = cores::finish(watched.map(|(shard, core)| (shard, number(shard), core)).collect());
        let steps = self.known.steps;
        let lanes = self.lanes.into_items();
        let axis = lanes.iter().fold(Axis::up_to(steps), |axis, (_, lane)| axis.joined(lane.axis()));
        let mut cores = Keyed::<u32, CoreTimes>::default();
        for &((shard, thread), ref lane) in &lanes {
            if thread.is_none() {
                let Ticks { busy: busy_ticks, idle: idle_ticks, .. } = lane.ticks();
                let busy = lane.busy_on(axis);
                cores.entry(shard, || CoreTimes {
                    shard,
                    core: number(shard),
                    busy_ticks,
                    idle_ticks,
                    busy,
                    ..CoreTimes::default()
                });
            }
        }
        // A thread may run in several shards: their lanes are overlaid.
        let mut threads = Keyed::<ThreadId, (Doings, Lane)>::default();
        let nobody = || (Doings::default(), Lane::new(LaneOf::Thread, steps));
        for ((shard, thread), doings) in self.doings.into_items() {
            if let Some(Some(_)) = self.known.cores.get(shard as usize) {
                let core =
                    cores.entry(shard, || CoreTimes { shard, core: number(shard), ..CoreTimes::default() });
                core.records += doings.records;
                core.instructions += doings.instrs;
                core.slices += if thread.is_idle() { 0 } else { doings.slices };
                core.idles += doings.idles;
                core.waits += doings.waits;
            }
            if !thread.is_idle() {
                let (known, _) = threads.entry(thread, nobody);
                known.process = doings.process;
                known.add(doings);
            }
        }
        for ((_, thread), lane) in &lanes {
            if let Some(thread) = thread.filter(|thread| !thread.is_idle()) {
                threads.entry(thread, nobody).1.lay_over(lane);
            }
        }
        let has_cores = !cores.is_empty();
        let threads = threads.into_items().into_iter().map(|(thread, (doings, lane))| {
            let busy = if has_cores { Vec::new() } else { lane.busy_on(axis) };
            ThreadTimes::new(thread, doings, lane.ticks(), busy)
        });
        Ok(Box::new(Schedules {
            clock_per_second: self.known.clock_per_second,
            first_clock: axis.ends().map(|(first, _)| first),
            last_clock: axis.ends().map(|(_, last)| last),
            threads: threads.collect(),
            cores: cores.into_items().into_iter().map(|(_, core)| core).collect(),
            steps: Steps { start: axis.start(), ticks: axis.width(), count: axis.len() as u64 },
            switching,
        }))
    }
}

impl ThreadTimes {
    fn new(thread: ThreadId, doings: Doings, ticks: Ticks, busy: Vec<u64>) -> ThreadTimes {
        ThreadTimes {
            thread,
            process: doings.process,
            records: doings.records,
            instructions: doings.instrs,
            first_clock: doings.clocks.map(|(first, _)| first),
            last_clock: doings.clocks.map(|(_, last)| last),
            cpus: doings.cpus,
            slices: doings.slices,
            migrations: doings.migrations,
            syscalls: doings.syscalls,
            may_block: doings.may_block,
            interrupts: doings.interrupts,
            idles: doings.idles,
            waits: doings.waits,
            busy_ticks: ticks.busy,
            idle_ticks: ticks.idle,
            unclear_ticks: ticks.unclear,
            busy,
        }
    }
}
