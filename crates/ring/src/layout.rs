//! The layout of the shared memory, word for word; a model has the same parts on the heap.

use crate::sync::{AtomicU32, AtomicU64};

/// The recorder listens.
pub(crate) const OPEN: u32 = 1;

/// How large the memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Threads that can record at a time.
    pub n_slots: u32,
    /// Words in the ring of each, a power of two and at least 8192.
    pub ring_words: u64,
    /// Words of the heap of names, a power of two and at least 512, or 0 if there is none.
    pub heap_words: u64,
}

/// Words that recorder and producers leave for each other; each front end says what they mean.
pub const NOTE_WORDS: usize = 4;

/// A cache line, so that neither side's writes take away what the other reads.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct Line<T>(pub(crate) T);

#[cfg_attr(loom, allow(dead_code))] // A model has one version, and no numbers.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Head {
    pub(crate) magic: u64,
    pub(crate) version: u32,
    pub(crate) n_slots: u32,
    pub(crate) ring_words: u64,
    pub(crate) heap_words: u64,
    pub(crate) recorder: u32,
    pub(crate) unused: u32,
    /// When the recorder started, so that another process of its number is not taken for it; 0 if that is unknown.
    pub(crate) recorder_start: u64,
    /// What the recorder says to producers.
    pub(crate) note: [u64; NOTE_WORDS],
    /// [`OPEN`] as long as the recorder listens.
    pub(crate) state: Line<AtomicU32>,
    /// Numbers for whatever producers number, shared by all processes.
    pub(crate) next_id: Line<AtomicU64>,
    /// Threads that found no slot.
    pub(crate) n_refused: AtomicU64,
    /// Changes when a slot is claimed or left.
    pub(crate) bell: Line<AtomicU32>,
    /// 1 while a recorder that reads all slots sleeps.
    pub(crate) sleeps: Line<AtomicU32>,
}

/// The state of one slot; 384 bytes.
#[derive(Default)]
#[repr(C)]
pub(crate) struct SlotHead {
    /// A number of [`SlotState`](crate::SlotState).
    pub(crate) state: Line<AtomicU32>,
    pub(crate) pid: AtomicU32,
    pub(crate) tid: AtomicU32,
    /// When the thread started, so that another one of its number is not taken for it; 0 if that is unknown.
    pub(crate) start: AtomicU64,
    /// What the producer says to the recorder.
    pub(crate) note: [AtomicU64; NOTE_WORDS],
    /// What the producer could not write, in a unit of its own.
    pub(crate) n_dropped: AtomicU64,
    /// Words written since the memory was made; by the producer.
    pub(crate) tail: Line<AtomicU64>,
    /// Words read; by the consumer.
    pub(crate) head: Line<AtomicU64>,
    /// 1 while the consumer sleeps.
    pub(crate) reader_sleeps: AtomicU32,
    /// 1 while the producer waits for room.
    pub(crate) writer_sleeps: Line<AtomicU32>,
}
