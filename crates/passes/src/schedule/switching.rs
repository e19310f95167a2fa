//! The result for the cores of a trace: context switches, their reasons, and the slices between them.

use quipu_model::ThreadId;
use quipu_model::result;
use quipu_model::result::ThreadNames;
use std::collections::BTreeMap;

result! {
    /// What the cores did, in all and one by one.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Switching {
        pub total: CoreSums => "All cores together.";
        pub cores_per_thread: Vec<Bin> => "On how many cores threads ran: bins of one.";
        pub activity_ratio: Option<f64> =>
            "Instructions and idle records of the core with most, to that with fewest; null if a core has \
             none.";
        pub instruction_ratio: Option<f64> => "The same of instructions alone.";
        pub cores: Vec<CoreSwitching> => "Each core.";
    }
}

result! {
    /// What one core did.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CoreSwitching {
        pub shard: u32, key => "Number of the shard that holds it.";
        pub core: u64, key => "Number of the core, if the trace knows it, else that of the shard.";
        pub sums: CoreSums, flat => "Its sums.";
        pub schedule: String =>
            "Who ran: a capital letter for each thread that the core turned to (of threads that were \
             arranged onto cores, the position of its file modulo 26; of files of cores, its number modulo \
             26), small ones for as many further instructions as `letter` says, `_` for idling and `-` for \
             waiting.";
        pub switch_outs: Vec<SwitchOut> => "How the first slices ended.";
        pub more: u64 => "How many slices ended that are not listed.";
    }
}

result! {
    /// Counts of one core, or of all.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct CoreSums {
        pub threads: Vec<ThreadId> as ThreadNames =>
            "Threads that ran, in ascending order: numbers, or texts as `W1.T5747` of threads of further \
             traces.";
        pub instructions: u64 => "Instructions, those of the kernel included.";
        pub idles: u64 => "Idle records.";
        pub waits: u64 => "Wait records.";
        pub switches: u64 => "How often a thread was left for another or for idling.";
        pub voluntary: u64 => "Those after a system call or the thread's end.";
        pub direct: u64 => "Those to the thread that was asked for.";
        pub direct_requests: u64 => "How often a thread asked for another.";
        pub syscalls: u64 => "System calls.";
        pub may_block: u64 => "System calls that may block.";
        pub migrations: u64 => "How often a thread came that had run on another core.";
        pub busy_ticks: u64 => "Ticks of the clock in which the core was busy.";
        pub idle_ticks: u64 => "Ticks in which it was idle.";
        pub idle_ticks_before_last_instr: u64 => "Of these, the ones before its last instruction.";
        pub slice_instrs: Vec<Bin> => "User instructions of each time slice that ended: bins of 50,000.";
        pub thread_slice_instrs: Vec<ThreadBins> => "The same for each thread.";
        pub switched_latencies: Vec<CallBins> =>
            "Latencies of system calls after which the core was switched: bins of 5 ticks.";
        pub other_latencies: Vec<CallBins> => "Latencies of the others.";
    }
}

result! {
    /// Values that fall into one bin.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Bin {
        pub from: u64 => "The smallest.";
        pub to: u64 => "After the largest.";
        pub count: u64 => "How many.";
    }
}

result! {
    /// Values of one thread.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ThreadBins {
        pub thread: ThreadId, flat, key => "The thread.";
        pub bins: Vec<Bin> => "Its values.";
    }
}

result! {
    /// Values of one system call.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CallBins {
        pub number: u64, key => "Number of the call.";
        pub bins: Vec<Bin> => "Its values.";
    }
}

result! {
    /// How a slice of a thread on a core ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SwitchOut {
        pub thread: ThreadId, flat => "The thread.";
        pub start_instr: u64 => "Ordinal of the core's instruction at which the slice began, from 1.";
        pub instructions: u64 => "User instructions of the slice.";
        pub syscall: Option<u64> => "The system call that it ended in; null if none.";
        pub latency: Option<u64> => "Its latency in ticks; null if not known.";
        pub voluntary: bool => "Whether the thread yielded by itself.";
        pub direct: bool => "Whether the next thread is the one that it asked for.";
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
