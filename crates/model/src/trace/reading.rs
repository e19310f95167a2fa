//! Reads of a trace: requests, windows, and the readers that fulfil them.

use super::ShardId;
use crate::batch::Batch;
use crate::code::SharedCodes;
use crate::columns::Columns;
use crate::error::Result;
use crate::predicate::Condition;
use quipu_source::{Ahead, StreamOptions};
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

/// A request to read: one sequential read over one shard that produces only what was asked for.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The shard to read.
    pub shard: ShardId,
    /// The pieces to read; all if `None`. A range cannot be combined with a window.
    pub pieces: Option<Range<u32>>,
    /// Lens columns to fill, and whether raw bytes are wanted.
    pub columns: Columns,
    /// Tables to fill, as positions in [`Trace::tables`](super::Trace::tables).
    pub tables: Vec<usize>,
    /// The part of the shard to read.
    pub window: Window,
    /// Maximum number of records of the window to read. Records that a jump into the middle repeats at the start do not
    /// count.
    pub most: u64,
    /// Whether to count content that no lens shows, for [`Batch::beyond`].
    pub beyond: bool,
    /// What rows of the table or lens must have to be of use: a reader may leave out others, if it knows a way not to read
    /// them. All that is said of records stays, and with it the positions of the rows that are left.
    pub only: Vec<Condition>,
    /// Whether spans must have numbers of instructions. If not, a reader that would have to read more than the columns for
    /// them may leave them 0.
    pub counts_instrs: bool,
    /// Where batches end.
    pub cut: Cut,
    /// Maximum number of records in a batch with rows. A run of records without rows may be one batch.
    pub batch_records: u32,
    /// Whether to decompress ahead on separate threads; useless if other shards keep all cores busy.
    pub ahead: bool,
    /// Approximate limit on the bytes of buffers; small when many shards are read at once.
    pub buffer_bytes: usize,
    /// A table in which many reads keep their instructions together. For callers that only look instructions up by index.
    pub codes: Option<Arc<SharedCodes>>,
}

impl Scan {
    /// Reads all of `shard` in batches of about a thousand records, without columns.
    pub fn new(shard: ShardId) -> Scan {
        Scan {
            shard,
            pieces: None,
            columns: Columns::NONE,
            tables: Vec::new(),
            window: Window::All,
            most: u64::MAX,
            beyond: false,
            only: Vec::new(),
            counts_instrs: true,
            cut: Cut::SIZE,
            batch_records: 1024,
            ahead: false,
            buffer_bytes: 4 << 20,
            codes: None,
        }
    }

    /// Options for reading the shard's bytes sequentially within the limit on buffers.
    pub fn stream(&self) -> StreamOptions {
        let block_bytes = (self.buffer_bytes / 8).clamp(16 << 10, 256 << 10);
        let ahead = if self.ahead { Ahead::Thread { blocks: 4 } } else { Ahead::Inline };
        StreamOptions { block_bytes, ahead, workers: 1 }
    }

    /// Sets the columns to fill.
    pub fn columns(mut self, columns: Columns) -> Scan {
        self.columns = columns;
        self
    }
}

/// The part of a shard to read: everything, or a half-open range of records, instructions or clock ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// Everything.
    #[default]
    All,
    /// Records by ordinal, counted from 0: `2..5` is the third to the fifth.
    Records(Range<u64>),
    /// Instructions by ordinal, counted from 0, together with the records that belong to them.
    Instrs(Range<u64>),
    /// Records between two clock readings. The end is excluded, but `u64::MAX` as end means no end.
    Clock(Range<u64>),
}

impl Window {
    /// True if `reading` ends a clock window whose end is `end`. Cores that never ran have readings of all ones, so no
    /// reading ends a window whose end is `u64::MAX`.
    #[inline]
    pub fn ends_at_clock(end: u64, reading: u64) -> bool {
        reading >= end && end != u64::MAX
    }
}

/// Places where batches end, in addition to ending when they are full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Before each clock reading: for merging shards by time, and for intervals of time.
    pub clock: bool,
    /// Before each instruction whose ordinal, counted from 0, is a multiple of this.
    pub instrs: Option<NonZeroU64>,
    /// At each change of thread, even in a read of native bytes only; other batches never mix threads anyway.
    pub threads: bool,
}

impl Cut {
    /// Only when they are full.
    pub const SIZE: Cut = Cut { clock: false, instrs: None, threads: false };
    /// Also before each clock reading.
    pub const CLOCK: Cut = Cut { clock: true, ..Cut::SIZE };
}

/// One sequential read in progress.
pub trait Reader: Send {
    /// Returns the next batch, or `None` at the end. The batch belongs to the reader and is valid until the next call; the
    /// caller may take vectors out of it.
    ///
    /// A batch may have no records and only carry findings. After an error the read is over.
    fn read(&mut self) -> Result<Option<&mut Batch>>;

    /// The batch that the last [`read`](Reader::read) returned; an empty one before the first. A merge of many readers
    /// inspects a batch first and hands it on later.
    fn batch(&mut self) -> &mut Batch;

    /// Limits the batches of further calls of [`read`](Reader::read) to this many records, as
    /// [`Scan::batch_records`] does from the start: a caller for whom something begins at a certain record lets a batch end
    /// there.
    fn limit_records(&mut self, records: u32);

    /// Approximate number of bytes on disk that this read has consumed so far; for progress only. `None` if unknown.
    fn packed_bytes(&self) -> Option<u64> {
        None
    }
}

/// A read of cores that run side by side, one record each at every step.
pub trait Rounds {
    /// Returns the next records of all cores, or `None` at the end: one batch for each core, in the order in which they take
    /// turns, all with the same number of records. The first records of all cores come before the second of any. The batches
    /// are valid until the next call.
    ///
    /// # Errors
    /// An error that ends reading one thread. Reading may continue with the other threads.
    fn read(&mut self) -> Result<Option<&mut [Batch]>>;

    /// Limits the batches of the next call of [`read`](Rounds::read): it stops before a step that could give a core more
    /// records than its entry in `of_each`, or all cores together more than `in_all`, but never before the first step.
    /// Records of idle cores do not count.
    fn limit_records(&mut self, of_each: &[u64], in_all: u64);

    /// Statistics of the scheduler so far, for each core.
    fn dispatched(&self) -> Vec<Dispatched>;

    /// See [`Reader::packed_bytes`].
    fn packed_bytes(&self) -> u64;
}

/// Statistics of a scheduler for one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dispatched {
    /// Switches from one thread to another.
    pub thread_to_thread: u64,
    /// Switches from a thread to idling.
    pub thread_to_idle: u64,
    /// Switches from idling to a thread.
    pub idle_to_thread: u64,
    /// Decisions to continue with the same thread.
    pub same_thread: u64,
    /// Threads that had used up their quantum.
    pub preemptions: u64,
    /// Threads that moved to another core.
    pub migrations: u64,
    /// Threads that this core, having no work, took from another core.
    pub steals: u64,
    /// Times that waiting threads were redistributed among cores.
    pub rebalances: u64,
    /// Threads that were not run because enough cores were busy.
    pub limited: u64,
    /// Requests to continue with a certain thread.
    pub direct_requests: u64,
    /// Direct requests that were met.
    pub direct_switches: u64,
}

impl Dispatched {
    /// The sum of both.
    pub fn plus(self, other: Dispatched) -> Dispatched {
        Dispatched {
            thread_to_thread: self.thread_to_thread + other.thread_to_thread,
            thread_to_idle: self.thread_to_idle + other.thread_to_idle,
            idle_to_thread: self.idle_to_thread + other.idle_to_thread,
            same_thread: self.same_thread + other.same_thread,
            preemptions: self.preemptions + other.preemptions,
            migrations: self.migrations + other.migrations,
            steals: self.steals + other.steals,
            rebalances: self.rebalances + other.rebalances,
            limited: self.limited + other.limited,
            direct_requests: self.direct_requests + other.direct_requests,
            direct_switches: self.direct_switches + other.direct_switches,
        }
    }
}
