//! The result for the cores of a trace: context switches, their reasons, and the slices between them.

use quipu_model::ThreadId;
use quipu_model::result;
use quipu_model::result::ThreadNames;
use std::collections::BTreeMap;

result! {
    /// Context switches of all cores, and of each.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Switching {
        pub total: CoreSums => "All cores together.";
        pub cores_per_thread: Vec<Bin> => "Number of cores that each thread ran on, in bins of 1.";
        pub activity_ratio: Option<f64> =>
            "Instructions plus idle records: the largest sum of a core divided by the smallest; null if a core has \
             none.";
        pub instruction_ratio: Option<f64> => "The same ratio for instructions alone.";
        pub cores: Vec<CoreSwitching> => "Each core.";
    }
}

result! {
    /// Context switches of one core.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CoreSwitching {
        pub shard: u32, key => "Number of the core's shard.";
        pub core: u64, key => "Number of the core, if the trace has it, otherwise of the shard.";
        pub sums: CoreSums, flat => "Sums of the core.";
        pub schedule: String =>
            "Schedule: a capital letter for each switch to a thread (for threads arranged onto cores, the position of \
             the thread's file modulo 26; for files of cores, its number modulo 26), a small letter for every `letter` \
             further instructions, `_` for idling and `-` for waiting.";
        pub switch_outs: Vec<SwitchOut> => "Ends of the first slices.";
        pub more: u64 => "Number of further slices, which are not listed.";
    }
}

result! {
    /// Counts of one core, or of all.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct CoreSums {
        pub threads: Vec<ThreadId> as ThreadNames =>
            "Threads that ran, in ascending order: numbers, or texts such as `W1.T5747` for threads of further traces.";
        pub instructions: u64 => "Instructions, including the kernel's.";
        pub idles: u64 => "Idle records.";
        pub waits: u64 => "Wait records.";
        pub switches: u64 => "Context switches: from a thread to another one or to idling.";
        pub voluntary: u64 => "Switches after a system call or the thread's end.";
        pub direct: u64 => "Switches to the thread that was requested.";
        pub direct_requests: u64 => "Requests by a thread to run another.";
        pub syscalls: u64 => "System calls.";
        pub may_block: u64 => "System calls that may block.";
        pub migrations: u64 => "Arrivals of a thread that last ran on another core.";
        pub busy_ticks: u64 => "Ticks of the clock in which the core was busy.";
        pub idle_ticks: u64 => "Ticks in which it was idle.";
        pub idle_ticks_before_last_instr: u64 => "Idle ticks before the core's last instruction.";
        pub slice_instrs: Vec<Bin> => "User instructions of each slice that ended, in bins of 50,000.";
        pub thread_slice_instrs: Vec<ThreadBins> => "User instructions of each slice that ended, by thread.";
        pub switched_latencies: Vec<CallBins> =>
            "Latencies of system calls followed by a context switch, in bins of 5 ticks.";
        pub other_latencies: Vec<CallBins> => "Latencies of other system calls, in bins of 5 ticks.";
    }
}

result! {
    /// One bin of a histogram.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Bin {
        pub from: u64 => "Smallest value of the bin.";
        pub to: u64 => "End of the bin, exclusive.";
        pub count: u64 => "Number of values.";
    }
}

result! {
    /// A histogram for one thread.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ThreadBins {
        pub thread: ThreadId, flat, key => "The thread.";
        pub bins: Vec<Bin> => "Bins of the thread's values.";
    }
}

result! {
    /// A histogram for one system call.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CallBins {
        pub number: u64, key => "Number of the call.";
        pub bins: Vec<Bin> => "Bins of the call's values.";
    }
}

result! {
    /// How a slice of a thread on a core ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SwitchOut {
        pub thread: ThreadId, flat => "The thread.";
        pub start_instr: u64 => "Ordinal of the core's instruction at which the slice began, from 1.";
        pub instructions: u64 => "User instructions of the slice.";
        pub syscall: Option<u64> => "Number of the system call at its end; null if none.";
        pub latency: Option<u64> => "Latency of that call in ticks; null if not known.";
        pub voluntary: bool => "Whether the switch was voluntary.";
        pub direct: bool => "Whether the next thread is the one that was requested.";
    }
}

/// A histogram with bins of equal width.
#[derive(Clone, Debug, Default)]
pub(super) struct Histogram(BTreeMap<u64, u64>);

impl Histogram {
    pub(super) fn add(&mut self, value: u64, width: u64) {
        *self.0.entry(value / width).or_insert(0) += 1;
    }

    pub(super) fn merge(&mut self, other: &Histogram) {
        for (bin, count) in &other.0 {
            *self.0.entry(*bin).or_insert(0) += count;
        }
    }

    pub(super) fn bins(&self, width: u64) -> Vec<Bin> {
        let bin = |(bin, count): (&u64, &u64)| {
            let from = bin * width;
            Bin { from, to: from.saturating_add(width), count: *count }
        };
        self.0.iter().map(bin).collect()
    }
}
