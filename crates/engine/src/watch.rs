//! Progress and cancellation, shared between a run and its observers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// State shared by a run and its observers. May be a `static`, so that a signal handler can reach it.
///
/// A run checks the flag once for each batch, and updates counts once for many batches; no per-record work touches it.
#[derive(Debug, Default)]
pub struct Watch {
    cancelled: AtomicBool,
    records: AtomicU64,
    packed_bytes: AtomicU64,
    /// 0 if unknown; an empty trace has no progress to show either.
    total_packed_bytes: AtomicU64,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of records read, including those that a window skips.
    pub records: u64,
    /// Approximate number of bytes on disk that have been read; 0 as long as that is unknown.
    pub packed_bytes: u64,
    /// Total number of bytes on disk to read, if known.
    pub total_packed_bytes: Option<u64>,
}

impl Watch {
    /// A watch without progress that is not cancelled.
    pub const fn new() -> Watch {
        Watch {
            cancelled: AtomicBool::new(false),
            records: AtomicU64::new(0),
            packed_bytes: AtomicU64::new(0),
            total_packed_bytes: AtomicU64::new(0),
        }
    }

    /// Asks the run to end with the results so far. Safe to call in a signal handler.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// True after the first call of [`cancel`](Watch::cancel).
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// The progress of the run so far.
    pub fn progress(&self) -> Progress {
        let total = self.total_packed_bytes.load(Ordering::Relaxed);
        let done = self.packed_bytes.load(Ordering::Relaxed);
        Progress {
            records: self.records.load(Ordering::Relaxed),
            packed_bytes: if total == 0 { done } else { done.min(total) },
            total_packed_bytes: (total > 0).then_some(total),
        }
    }

    /// Sets the total number of packed bytes; `None` if unknown.
    pub fn expect(&self, packed_bytes: Option<u64>) {
        self.total_packed_bytes.store(packed_bytes.unwrap_or(0), Ordering::Relaxed);
    }

    /// Adds to the progress. Not meant to be called for each record.
    pub fn advance(&self, records: u64, packed_bytes: u64) {
        self.records.fetch_add(records, Ordering::Relaxed);
        self.packed_bytes.fetch_add(packed_bytes, Ordering::Relaxed);
    }
}

/// Number of batches that a [`Tally`] counts before it updates the watch.
const BATCHES_PER_REPORT: u32 = 64;

/// A thread's own counts, which it adds to the watch from time to time.
pub(crate) struct Tally<'w> {
    watch: &'w Watch,
    batches: u32,
    records: u64,
    packed_bytes: u64,
}

impl<'w> Tally<'w> {
    pub(crate) fn new(watch: &'w Watch) -> Tally<'w> {
        Tally { watch, batches: 0, records: 0, packed_bytes: 0 }
    }

    /// Counts a batch; true if it is time to [`flush`](Tally::flush).
    pub(crate) fn batch(&mut self, records: u32) -> bool {
        self.batches += 1;
        self.records += u64::from(records);
        self.batches >= BATCHES_PER_REPORT
    }

    /// Adds the counts to the watch; `packed_bytes` is the progress within the thread's current unit.
    pub(crate) fn flush(&mut self, packed_bytes: u64) {
        let more = packed_bytes.saturating_sub(self.packed_bytes);
        self.watch.advance(self.records, more);
        self.batches = 0;
        self.records = 0;
        self.packed_bytes += more;
    }
}
