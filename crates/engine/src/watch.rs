//! Progress and cancellation, shared between a run and those who watch it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a run and its watchers share. May be a `static`, so that a signal handler can reach it.
///
/// A run looks at the flag once per batch, and counts once per many batches: no record ever touches it.
#[derive(Debug, Default)]
pub struct Watch {
    cancelled: AtomicBool,
    records: AtomicU64,
    packed_bytes: AtomicU64,
    /// 0 if unknown: an empty trace has no progress to show either.
    total_packed_bytes: AtomicU64,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records read, those that a window skips included.
    pub records: u64,
    /// Bytes on disk worked through, about; 0 as long as that is unknown.
    pub packed_bytes: u64,
    /// How many of them there are, if known.
    pub total_packed_bytes: Option<u64>,
}

impl Watch {
    /// Nothing done, nothing cancelled.
    pub const fn new() -> Watch {
        Watch {
            cancelled: AtomicBool::new(false),
            records: AtomicU64::new(0),
            packed_bytes: AtomicU64::new(0),
            total_packed_bytes: AtomicU64::new(0),
        }
    }

    /// Asks the run to end with what it knows. Safe in a signal handler.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// True after the first request.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// How far the run has come.
    pub fn progress(&self) -> Progress {
        let total = self.total_packed_bytes.load(Ordering::Relaxed);
        let done = self.packed_bytes.load(Ordering::Relaxed);
        Progress {
            records: self.records.load(Ordering::Relaxed),
            packed_bytes: if total == 0 { done } else { done.min(total) },
            total_packed_bytes: (total > 0).then_some(total),
        }
    }

    /// Says how much there is to do.
    pub fn expect(&self, packed_bytes: Option<u64>) {
        self.total_packed_bytes.store(packed_bytes.unwrap_or(0), Ordering::Relaxed);
    }

    /// Says how much more was done. Not for each record.
    pub fn advance(&self, records: u64, packed_bytes: u64) {
        self.records.fetch_add(records, Ordering::Relaxed);
        self.packed_bytes.fetch_add(packed_bytes, Ordering::Relaxed);
    }
}

/// How many batches a [`Tally`] counts before it tells the watch.
const BATCHES_PER_REPORT: u32 = 64;

/// One thread's own count, told to the watch now and then.
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

    /// Counts a batch; true if now is the time to [`flush`](Tally::flush).
    pub(crate) fn batch(&mut self, records: u32) -> bool {
        self.batches += 1;
        self.records += u64::from(records);
        self.batches >= BATCHES_PER_REPORT
    }

    /// Tells the watch; `packed_bytes` is how far the thread's present unit has come in all.
    pub(crate) fn flush(&mut self, packed_bytes: u64) {
        let more = packed_bytes.saturating_sub(self.packed_bytes);
        self.watch.advance(self.records, more);
        self.batches = 0;
        self.records = 0;
        self.packed_bytes += more;
    }
}
