//! What a scheduler of threads on cores can be told. SPEC: drmemtrace.md#scheduling-threads-onto-cores.

use quipu_model::{Error, Result, ThreadId};

/// More cores than this are a mistake.
pub const MAX_DISPATCH_CORES: usize = 1024;

/// When a thread has run long enough while others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantum {
    /// After this many instructions.
    Instrs(u64),
    /// After this many microseconds of simulated time.
    Micros(u64),
}

/// Whose instructions a core's time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreTime {
    /// Those of all cores, as DynamoRIO has it where one thread plays them all (`-core_serial`).
    Shared,
    /// Its own, as DynamoRIO has it where each is played by a thread (`-core_sharded`).
    Own,
}

/// How threads come to cores.
///
/// Simulated time advances by one unit with each instruction, and for each core with each of its own idle records; all
/// options in microseconds are multiplied by [`units_per_us`](DispatchOptions::units_per_us).
#[derive(Clone, Debug, PartialEq)]
pub struct DispatchOptions {
    /// How many cores there are.
    pub cores: usize,
    /// Whose instructions a core's time counts.
    pub time: CoreTime,
    /// How long a thread runs while others wait.
    pub quantum: Quantum,
    /// Units of time in a simulated microsecond.
    pub units_per_us: f64,
    /// Whether, of threads of one priority, the one with the earliest clock runs first; otherwise the one that waits longest
    /// does.
    pub by_clock: bool,
    /// A call that is not said to block is taken for one that does from this latency on.
    pub call_us: u64,
    /// A call that may block is taken for one that does from this latency on.
    pub blocking_us: u64,
    /// What share of its latency in the trace a blocking call takes here.
    pub block_scale: f64,
    /// No call blocks longer than this.
    pub max_block_us: u64,
    /// Whether a thread that waits for another without a timeout waits for ever.
    pub waits_forever: bool,
    /// A thread that ran less long ago does not go to another core.
    pub migration_us: u64,
    /// How often the threads that wait are spread evenly.
    pub rebalance_us: u64,
    /// A core without work looks for some at others every N idle records; never if 0.
    pub steal_idles: u64,
    /// Whether any thread that waits may be next, instead of the first.
    pub at_random: bool,
    /// Whether requests of threads for a certain other one to run, and to be put to rest, are followed.
    pub direct: bool,
    /// The run ends when no more than this share of all threads is left.
    pub end_share: f64,
    /// The seed of the first layout of threads on cores; in turns if negative.
    pub layout_seed: i64,
    /// How many cores may be busy at once; all if 0.
    pub busy_cores: usize,
    /// Threads that go before others (or after them, if negative).
    pub priorities: Vec<(ThreadId, i32)>,
    /// Whether native records are delivered, where the format has a form of them for cores. It takes time: records go to
    /// cores one by one.
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
    /// Makes sure that the options hold together.
    ///
    /// # Errors
    /// `Usage` with what is wrong.
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

    /// Simulated microseconds as units of time.
    pub(super) fn units(&self, micros: u64) -> u64 {
        (micros as f64 * self.units_per_us) as u64 // Saturates.
    }

    /// How long a call blocks that took this many microseconds in the trace, in units of time.
    pub(super) fn block_units(&self, micros: u64) -> u64 {
        let scaled = (micros as f64 * self.block_scale) as u64;
        self.units(scaled.min(self.max_block_us))
    }
}
