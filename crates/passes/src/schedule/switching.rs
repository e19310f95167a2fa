//! What the cores of a trace did: context switches, their reasons, and what lies between them.

use quipu_model::{ThreadId, thread};
use serde::Serialize;
use std::collections::BTreeMap;

/// What the cores did, in all and one by one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Switching {
    /// All cores together.
    pub total: CoreSums,
    /// On how many cores threads ran: bins of one.
    pub cores_per_thread: Vec<Bin>,
    /// Instructions and idle records of the core with most, to that with fewest; null if a core has none.
    pub activity_ratio: Option<f64>,
    /// The same of instructions alone.
    pub instruction_ratio: Option<f64>,
    /// Each core.
    pub cores: Vec<CoreSwitching>,
}

/// What one core did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoreSwitching {
    /// Number of the shard that holds it.
    pub shard: u32,
    /// Number of the core, if the trace knows it, else that of the shard.
    pub core: u64,
    /// Its sums.
    #[serde(flatten)]
    pub sums: CoreSums,
    /// Who ran: a capital letter for each thread that the core turned to (of threads that were arranged onto cores,
    /// the position of its file modulo 26; of files of cores, its number modulo 26), small ones for as many further
    /// instructions as `letter` says, `_` for idling and `-` for waiting.
    pub schedule: String,
    /// How the first stretches ended.
    pub switch_outs: Vec<SwitchOut>,
    /// How many stretches ended that are not listed.
    pub more: u64,
}

/// Counts of one core, or of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CoreSums {
    /// Threads that ran, in ascending order: numbers, or texts as `W1.T5747` of threads of further traces.
    #[serde(serialize_with = "thread::numbers")]
    pub threads: Vec<ThreadId>,
    /// Instructions, those of the kernel included.
    pub instructions: u64,
    /// Idle records.
    pub idles: u64,
    /// Wait records.
    pub waits: u64,
    /// How often a thread was left for another or for idling.
    pub switches: u64,
    /// Those behind a system call or the thread's end.
    pub voluntary: u64,
    /// Those to the thread that was asked for.
    pub direct: u64,
    /// How often a thread asked for another.
    pub direct_requests: u64,
    /// System calls.
    pub syscalls: u64,
    /// System calls that may block.
    pub may_block: u64,
    /// How often a thread came that had run on another core.
    pub migrations: u64,
    /// Ticks of the clock in which the core was busy.
    pub busy_ticks: u64,
    /// Ticks in which it was idle.
    pub idle_ticks: u64,
    /// Of these, the ones before its last instruction.
    pub idle_ticks_before_last_instr: u64,
    /// User instructions of each stretch that ended: bins of 50,000.
    pub stretch_instrs: Vec<Bin>,
    /// The same for each thread.
    pub thread_stretch_instrs: Vec<ThreadBins>,
    /// Latencies of system calls behind which the core was switched: bins of 5 ticks.
    pub switched_latencies: Vec<CallBins>,
    /// Latencies of the others.
    pub other_latencies: Vec<CallBins>,
}

/// Values that fall into one bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// The smallest.
    pub from: u64,
    /// Behind the largest.
    pub to: u64,
    /// How many.
    pub count: u64,
}

/// Values of one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ThreadBins {
    /// The thread.
    #[serde(flatten)]
    pub thread: ThreadId,
    /// Its values.
    pub bins: Vec<Bin>,
}

/// Values of one system call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CallBins {
    /// Number of the call.
    pub number: u64,
    /// Its values.
    pub bins: Vec<Bin>,
}

/// How a stretch of a thread on a core ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SwitchOut {
    /// The thread.
    #[serde(flatten)]
    pub thread: ThreadId,
    /// Ordinal of the core's instruction at which the stretch began, from 1.
    pub start_instr: u64,
    /// User instructions of the stretch.
    pub instructions: u64,
    /// The system call that it ended in; null if none.
    pub syscall: Option<u64>,
    /// Its latency in ticks; null if not known.
    pub latency: Option<u64>,
    /// Whether the thread gave way itself.
    pub voluntary: bool,
    /// Whether the next thread is the one that it asked for.
    pub direct: bool,
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
