//! The sums of counting, by window, by thread and by shard, and how those of neighbours are merged.

use super::pcs::PcSet;
use crate::record::FileType;
use quipu_model::executed::ExecutedCount;
use rustc_hash::{FxHashMap, FxHashSet};

/// Counts of one window of one thread; all but the distinct addresses are plain sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Addresses of fetched instructions.
    pub(crate) pcs: PcSet,
    /// The sums, by [`Sum`].
    pub(crate) sums: [u64; N_SUMS],
}

macro_rules! sums {
    ($($name:ident = $value:literal;)*) => {
        /// Position of each sum in [`Sums::sums`].
        #[allow(missing_docs)] // The names are those of the report's fields, documented there.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(crate) enum Sum { $($name = $value,)* }
        /// Number of sums.
        pub(crate) const N_SUMS: usize = [$(Sum::$name),*].len();
    };
}

sums! {
    Instrs = 0;
    NoFetch = 1;
    Loads = 2;
    Stores = 3;
    Prefetches = 4;
    KernelInstrs = 5;
    KernelNoFetch = 6;
    InstrFlushes = 7;
    DataFlushes = 8;
    Timestamps = 9;
    Idles = 10;
    Waits = 11;
    KernelTransfers = 12;
    HardwareTransfers = 13;
    FuncIds = 14;
    FuncRetaddrs = 15;
    FuncArgs = 16;
    FuncRetvals = 17;
    PhysicalPairs = 18;
    PhysicalMissing = 19;
    Syscalls = 20;
    BlockingSyscalls = 21;
    Skipped = 22;
    Others = 23;
    Encodings = 24;
}

impl Sums {
    pub(super) fn add(&mut self, sum: Sum, n: u64) {
        self.sums[sum as usize] += n;
    }

    /// Adds another window's counts.
    pub(crate) fn merge(&mut self, other: &Sums) {
        for (mine, theirs) in self.sums.iter_mut().zip(other.sums) {
            *mine += theirs;
        }
        self.pcs.merge(&other.pcs);
    }
}

/// One tracing window; traces without windows have one without a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WindowSums {
    /// Its number, once a marker stated it.
    pub(crate) id: Option<u64>,
    /// Its counts.
    pub(crate) sums: Sums,
}

/// One thread of a mixed stream, or all of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The thread; in a core's file, the first thread.
    pub(crate) tid: u64,
    /// Its windows, in order.
    pub(crate) windows: Vec<WindowSums>,
}

impl Part {
    pub(super) fn new(tid: u64) -> Part {
        Part { tid, windows: vec![WindowSums::default()] }
    }

    pub(super) fn current(&mut self) -> &mut Sums {
        if self.windows.is_empty() {
            self.windows.push(WindowSums::default());
        }
        let last = self.windows.len() - 1;
        &mut self.windows[last].sums
    }
}

/// The sums of a shard, or of a run of its chunks.
#[derive(Default)]
pub(crate) struct Counted {
    /// Counts by thread; one part unless the stream mixes threads.
    pub(crate) parts: Vec<Part>,
    /// Threads that have records, without the idle one.
    pub(crate) tids: FxHashSet<u64>,
    /// All file-type bits in any header.
    pub(crate) filetype: FileType,
    /// Executed instructions of each thread, filtered or not, between its first and last marker that count them.
    pub(crate) executed: Executed,
}

/// Executed instructions by thread, as markers count them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Executed(FxHashMap<u64, ExecutedCount>);

impl Executed {
    /// Adds a marker's count.
    pub(super) fn add(&mut self, tid: u64, n: u64) {
        self.0.entry(tid).or_default().add(n);
    }

    pub(super) fn merge(&mut self, other: &Executed) {
        for (tid, count) in &other.0 {
            self.0.entry(*tid).or_default().merge(count);
        }
    }

    /// Number of instructions that a thread executed; `None` if markers do not state it.
    pub(super) fn of(&self, tid: u64) -> Option<u64> {
        self.0.get(&tid)?.instructions()
    }

    /// The sum for all these threads; `None` unless it is known for each of them.
    pub(super) fn of_all(&self, tids: &FxHashSet<u64>) -> Option<u64> {
        ExecutedCount::of_all(tids.iter().map(|tid| self.of(*tid)))
    }
}

impl Counted {
    /// Adds the counts of the chunks right after these.
    pub(crate) fn append(&mut self, later: Counted) {
        self.tids.extend(later.tids);
        self.filetype = self.filetype.or(later.filetype);
        self.executed.merge(&later.executed);
        for part in later.parts {
            let mine = match self.parts.iter_mut().find(|mine| mine.tid == part.tid) {
                Some(mine) => mine,
                None => {
                    self.parts.push(Part { tid: part.tid, windows: Vec::new() });
                    continue_with_last(&mut self.parts)
                }
            };
            for window in part.windows {
                match mine.windows.last_mut() {
                    // A window without a number continues the one before.
                    Some(last) if window.id.is_none() || window.id == last.id => {
                        last.sums.merge(&window.sums)
                    }
                    _ => mine.windows.push(window),
                }
            }
        }
    }
}

/// The last part, which was just pushed.
fn continue_with_last(parts: &mut [Part]) -> &mut Part {
    let last = parts.len() - 1;
    &mut parts[last]
}
