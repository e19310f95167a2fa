//! `syscalls`: which system calls are made, how they end, and how long they take.
//!
//! For each number: *calls*; *failed* calls, by error; calls that *may block*; calls after which another thread ran on the
//! core before this one continued (*switched*; only in traces with a file for each core, if the thread continues on the same
//! core); the *latency*, from the clock reading right before the call to the first one after it; and if the trace has the
//! kernel's code, the number of calls recorded with it, and its instructions, without further iterations of string loops.
//!
//! A latency is measured only if both readings belong to the call: the first at most four records before it, and the second
//! before the thread's next instruction outside the kernel. Traces before version 6 have no such readings. The latency
//! includes time in which the thread was blocked or preempted, and the tracer's overhead. The histogram has a bin for 0
//! ticks, one for 1, one for 2 to 3, one for 4 to 7, and so on. Errors before the first call of a thread count as *unknown*;
//! in a trace with a file for each core, as errors of the core's latest call, if there is one.
//! (SPEC: drmemtrace.md#grammar-of-a-file, drmemtrace.md#analysis-tools.)
//!
//! Names are those of Linux on the trace's architecture. A trace does not say which system it is from: for another system, use
//! the numbers only. Memory grows with the number of distinct calls and errors, and of threads.
//!
//! * **Needs** `threads`; uses `threads.clock`, `instrs`.
//! * **Options** `per-thread`.

mod latency;
mod names;
mod show;
mod timing;

pub use latency::{Latency, LatencyBin};
pub use names::{error as error_name, syscall as syscall_name};

use crate::keyed::Keyed;
use crate::split::{PER_THREAD, Part, PerThread, Split};
use crate::tally::Map;
use latency::Latencies;
use quipu_isa::Arch;
use quipu_model::lens::{ThreadEvent, instr_flags};
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Needs, Options, Order, Result, ShardKind, ThreadId, Tool, ToolInfo, Trace,
};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
pub(crate) use timing::Timing;

#[cfg(test)]
mod tests;

/// The tool `syscalls`.
#[derive(Debug)]
pub struct Syscalls;

static INFO: ToolInfo = ToolInfo {
    name: "syscalls",
    summary: "which system calls are made, how they end, how long they take",
    needs: Needs {
        format: None,
        required: Columns::THREADS,
        optional: Columns::THREAD_CLOCK.or(Columns::INSTRS),
    },
    order: Order::Shards,
    options: &[PER_THREAD],
    in_report: false,
};

impl Tool for Syscalls {
    fn result(&self) -> Shape {
        PerThread::<SyscallCounts>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let meta = trace.meta();
        let empty = Watch {
            cores: trace.shards().iter().map(|shard| shard.kind == ShardKind::Core).collect(),
            arch: meta.arch,
            clock_per_second: meta.clock.map(|clock| clock.per_second),
            calls: Map::default(),
            threads: Keyed::default(),
            latest_on_core: None,
            unknown: BTreeMap::new(),
        };
        Ok(Box::new(Split::new(empty, options, trace)))
    }
}

result! {
    /// System calls of a trace or thread.
    #[derive(Clone, Debug, PartialEq)]
    pub struct SyscallCounts {
        pub calls: u64 => "System calls.";
        pub failed: u64 => "System calls that failed.";
        pub clock_per_second: Option<u64> =>
            "Ticks of the clock in a second, for latencies; null if not known.";
        pub syscalls: Vec<SyscallCount> =>
            "System calls by number, most frequent first; equal counts by ascending number.";
        pub unknown_errors: Vec<ErrorCount> =>
            "Failures of unknown calls, by error as in `syscalls`.";
    }
}

result! {
    /// The calls of one number.
    #[derive(Clone, Debug, PartialEq)]
    pub struct SyscallCount {
        pub number: u64, key => "Number of the system call.";
        pub name: Option<&'static str> => "Name of the call on Linux.";
        pub calls: u64 => "Number of calls.";
        pub failed: u64 => "Calls that failed.";
        pub errors: Vec<ErrorCount> => "Failures by error, most frequent first; equal counts by ascending number.";
        pub may_block: u64 => "Calls that may block, as the trace says.";
        pub switched: u64 => "Calls after which another thread ran before this one continued.";
        pub latency: Option<Latency> => "Latency of the calls; null if no call has one.";
        pub kernel: Option<KernelCode> => "Kernel code of the calls; null if the trace has none.";
    }
}

result! {
    /// Failures with one error.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ErrorCount {
        pub error: u64 => "Number of the error.";
        pub name: Option<&'static str> => "Name of the error on Linux.";
        pub count: u64 => "Number of failures.";
    }
}

result! {
    /// Recorded kernel code of one system call.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct KernelCode {
        pub recorded: u64 => "Number of calls recorded with kernel code.";
        pub instructions: u64 => "Kernel instructions, summed over these calls.";
    }
}

/// Calls of one number so far.
#[derive(Clone, Debug, Default)]
struct Call {
    calls: u64,
    errors: BTreeMap<u64, u64>,
    may_block: u64,
    switched: u64,
    latencies: Latencies,
    recorded: u64,
    instrs: u64,
}

/// State of a thread.
#[derive(Clone, Debug, Default)]
struct Thread {
    timing: Timing,
    /// The number of its latest call.
    latest: Option<u64>,
    /// The call whose kernel code is being read.
    kernel: Option<u64>,
    /// The record after its latest batch.
    end: u64,
}

/// The analysis of one trace or thread.
#[derive(Clone)]
struct Watch {
    /// For each shard, whether it is a core.
    cores: Arc<[bool]>,
    arch: Option<Arch>,
    clock_per_second: Option<u64>,
    calls: Map<u64, Call>,
    threads: Keyed<ThreadId, Thread>,
    /// The latest call in the shard, if that is a core.
    latest_on_core: Option<u64>,
    /// Failures of unknown calls.
    unknown: BTreeMap<u64, u64>,
}

impl Part for Watch {
    type Answer = SyscallCounts;

    fn consume(&mut self, batch: &Batch) {
        let span = &batch.span;
        let is_core = self.cores.get(span.shard as usize) == Some(&true);
        let thread = self.threads.entry(span.thread, Thread::default);
        if let Some(number) = thread.timing.open()
            && span.first_record > thread.end
            && is_core
        {
            self.calls.entry(number).or_default().switched += 1;
        }
        thread.end = span.first_record + u64::from(span.records);
        let (rows, events) = (&batch.instrs, &batch.threads);
        let mut row = 0;
        for ((&what, &value), &at) in events.what.iter().zip(&events.value).zip(&events.at) {
            let end = row + rows.at[row..].partition_point(|instr| *instr < at);
            thread.run(&rows.flags[row..end], &mut self.calls);
            row = end;
            let record = span.first_record + u64::from(at);
            match what {
                ThreadEvent::Clock => {
                    if let Some((number, ticks)) = thread.timing.read_clock(value, record) {
                        self.calls.entry(number).or_default().latencies.add(ticks);
                    }
                }
                ThreadEvent::Syscall => {
                    thread.timing.call(value, record);
                    thread.latest = Some(value);
                    self.latest_on_core = is_core.then_some(value);
                    self.calls.entry(value).or_default().calls += 1;
                }
                ThreadEvent::MayBlock => {
                    if let Some(number) = thread.timing.open() {
                        self.calls.entry(number).or_default().may_block += 1;
                    }
                }
                ThreadEvent::Failed => {
                    // A thread that came from another core made its call there; DynamoRIO attributes its error to the last
                    // call on this core.
                    let errors = match thread.latest.or(self.latest_on_core) {
                        Some(number) => &mut self.calls.entry(number).or_default().errors,
                        None => &mut self.unknown,
                    };
                    *errors.entry(value).or_insert(0) += 1;
                }
                ThreadEvent::KernelEnter => {
                    self.calls.entry(value).or_default().recorded += 1;
                    thread.kernel = Some(value);
                }
                ThreadEvent::KernelLeave => thread.kernel = None,
                _ => {}
            }
        }
        thread.run(rows.flags.get(row..).unwrap_or(&[]), &mut self.calls);
    }

    fn merge(&mut self, later: Watch) {
        for (number, call) in later.calls {
            self.calls.entry(number).or_default().add(call);
        }
        for (error, count) in later.unknown {
            *self.unknown.entry(error).or_insert(0) += count;
        }
        // The state of a thread at the end of one shard does not carry over to the next.
        self.threads = Keyed::default();
        self.latest_on_core = None;
    }

    fn answer(self) -> SyscallCounts {
        let mut syscalls: Vec<SyscallCount> =
            self.calls.into_iter().map(|(number, call)| call.count(number, self.arch)).collect();
        syscalls.sort_unstable_by_key(|call| (Reverse(call.calls), call.number));
        SyscallCounts {
            calls: syscalls.iter().map(|call| call.calls).sum(),
            failed: syscalls.iter().map(|call| call.failed).sum(),
            clock_per_second: self.clock_per_second,
            syscalls,
            unknown_errors: counts(&self.unknown),
        }
    }
}

impl Thread {
    /// Handles the instructions between two events.
    fn run(&mut self, flags: &[u8], calls: &mut Map<u64, Call>) {
        if let Some(number) = self.kernel {
            let fetched = flags.iter().filter(|flags| **flags & instr_flags::NO_FETCH == 0).count();
            calls.entry(number).or_default().instrs += fetched as u64;
        }
        self.timing.run(flags);
    }
}

impl Call {
    fn add(&mut self, other: Call) {
        self.calls += other.calls;
        for (error, count) in other.errors {
            *self.errors.entry(error).or_insert(0) += count;
        }
        self.may_block += other.may_block;
        self.switched += other.switched;
        self.latencies.merge(other.latencies);
        self.recorded += other.recorded;
        self.instrs += other.instrs;
    }

    fn count(self, number: u64, arch: Option<Arch>) -> SyscallCount {
        SyscallCount {
            number,
            name: names::syscall(arch, number),
            calls: self.calls,
            failed: self.errors.values().sum(),
            errors: counts(&self.errors),
            may_block: self.may_block,
            switched: self.switched,
            latency: self.latencies.finish(),
            kernel: (self.recorded > 0)
                .then_some(KernelCode { recorded: self.recorded, instructions: self.instrs }),
        }
    }
}

fn counts(errors: &BTreeMap<u64, u64>) -> Vec<ErrorCount> {
    let mut counts: Vec<ErrorCount> = errors
        .iter()
        .map(|(&error, &count)| ErrorCount { error, name: names::error(error), count })
        .collect();
    counts.sort_by_key(|count| (Reverse(count.count), count.error));
    counts
}
