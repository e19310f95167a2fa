//! Parameters of the scheduler of threads onto cores. SPEC: drmemtrace.md#scheduling-threads-onto-cores.

use quipu_model::{Error, Result, ThreadId};

/// Upper limit on the number of cores; more are a mistake.
pub const MAX_DISPATCH_CORES: usize = 1024;

/// The time slice of a thread while others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantum {
    /// After this many instructions.
    Instrs(u64),
    /// After this many microseconds of simulated time.
    Micros(u64),
}

/// The instructions that a core's time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreTime {
    /// Those of all cores, as in DynamoRIO when one thread simulates all cores (`-core_serial`).
    Shared,
    /// Its own, as in DynamoRIO when a thread simulates each core (`-core_sharded`).
    Own,
}

/// How threads are scheduled onto cores.
///
/// Simulated time advances by one unit with each instruction, and for each core with each of its own idle records; all
/// options in microseconds are multiplied by [`units_per_us`](DispatchOptions::units_per_us).
#[derive(Clone, Debug, PartialEq)]
pub struct DispatchOptions {
    /// Number of cores.
    pub cores: usize,
    /// The instructions that a core's time counts.
    pub time: CoreTime,
    /// The time slice of a thread while others wait.
    pub quantum: Quantum,
    /// Units of time in a simulated microsecond.
    pub units_per_us: f64,
    /// Whether, among threads of the same priority, the one with the earliest clock runs first; otherwise the one that has
    /// waited longest does.
    pub by_clock: bool,
    /// Latency from which a call is treated as blocking although it is not marked as possibly blocking.
    pub call_us: u64,
    /// Latency from which a call that is marked as possibly blocking is treated as blocking.
    pub blocking_us: u64,
    /// Factor from a blocking call's latency in the trace to that in the schedule.
    pub block_scale: f64,
    /// Upper limit on the time that a call blocks.
    pub max_block_us: u64,
    /// Whether a thread that waits for another one without a timeout waits without limit.
    pub waits_forever: bool,
    /// A thread that ran more recently than this does not move to another core.
    pub migration_us: u64,
    /// Interval at which waiting threads are redistributed evenly.
    pub rebalance_us: u64,
    /// A core without work looks for some at other cores every N idle records; never if 0.
    pub steal_idles: u64,
    /// Whether the next thread is picked from the queue at random instead of from its front.
    pub at_random: bool,
    /// Whether threads' requests to park, and to run a certain other thread, are followed.
    pub direct: bool,
    /// The run ends when at most this share of all threads is left.
    pub end_share: f64,
    /// Seed for distributing threads to cores at the start; if negative, they are dealt out in turn.
    pub layout_seed: i64,
    /// Maximum number of cores that may be busy at once; all if 0.
    pub busy_cores: usize,
    /// Priorities of threads; higher ones run first, and the default is 0.
    pub priorities: Vec<(ThreadId, i32)>,
    /// Whether native records are delivered, if the format has a form of them for cores. This is slow, because records are
    /// then passed to cores one by one.
    pub native: bool,
}

impl Default for DispatchOptions {
    fn default() -> DispatchOptions {
        DispatchOptions {
            cores: 4,
            time: CoreTime::Shared,
            quantum: Quantum::Instrs(20_000_000),
            units_per_us: 1000.0,
            by_clock: true,
            call_us: 30_000_000,
            blocking_us: 600,
            block_scale: 0.1,
            max_block_us: 2500,
            waits_forever: false,
            migration_us: 500,
            rebalance_us: 50_000,
            steal_idles: 10_000,
            at_random: false,
            direct: true,
            end_share: 0.1,
            layout_seed: 1,
            busy_cores: 0,
            priorities: Vec::new(),
            native: false,
        }
    }
}

impl DispatchOptions {
    /// Checks that the options are consistent.
    ///
    /// # Errors
    /// `Usage` that says what is wrong.
    pub fn check(&self) -> Result<()> {
        if self.cores == 0 || self.cores > MAX_DISPATCH_CORES {
            return Err(Error::usage(format!(
                "threads can be scheduled onto 1 to {MAX_DISPATCH_CORES} cores, found {}",
                self.cores
            )));
        }
        let scales = [("time units per microsecond", self.units_per_us), ("block scale", self.block_scale)];
        for (name, scale) in scales {
            if !(scale.is_finite() && scale > 0.0) {
                return Err(Error::usage(format!("{name} must be above 0, found `{scale}`")));
            }
        }
        if !(0.0..=1.0).contains(&self.end_share) {
            let found = self.end_share;
            return Err(Error::usage(format!("a share of threads lies between 0 and 1, found `{found}`")));
        }
        if matches!(self.quantum, Quantum::Instrs(0) | Quantum::Micros(0)) {
            return Err(Error::usage("a quantum of nothing never ends"));
        }
        Ok(())
    }

    /// Converts simulated microseconds to units of time.
    pub(super) fn units(&self, micros: u64) -> u64 {
        (micros as f64 * self.units_per_us) as u64 // Saturates.
    }

    /// The time, in units, that a call blocks which took this many microseconds in the trace.
    pub(super) fn block_units(&self, micros: u64) -> u64 {
        let scaled = (micros as f64 * self.block_scale) as u64;
        self.units(scaled.min(self.max_block_us))
    }
}
