//! Layout of the shared memory, word for word. A loom model has the same parts on the heap.

use crate::sync::{AtomicU32, AtomicU64};

/// Value of `Head::state` while the recorder listens.
pub(crate) const OPEN: u32 = 1;

/// Dimensions of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of threads that can record at the same time.
    pub n_slots: u32,
    /// Words in the ring of each thread, a power of two and at least 8192.
    pub ring_words: u64,
    /// Words of the heap of names, a power of two and at least 512; 0 for no heap.
    pub heap_words: u64,
}

/// Number of words of a note between recorder and producers; each front end defines their meaning.
pub const NOTE_WORDS: usize = 4;

/// A cache line of its own, so that writes of one side do not invalidate what the other side reads.
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
    /// Start time of the recorder, so that another process with the same id is not taken for it; 0 if unknown.
    pub(crate) recorder_start: u64,
    /// Note of the recorder to producers.
    pub(crate) note: [u64; NOTE_WORDS],
    /// [`OPEN`] while the recorder listens.
    pub(crate) state: Line<AtomicU32>,
    /// Source of numbers for producers, shared by all processes.
    pub(crate) next_id: Line<AtomicU64>,
    /// Number of threads that found no free slot.
    pub(crate) n_refused: AtomicU64,
    /// Changes when a slot is claimed or left.
    pub(crate) bell: Line<AtomicU32>,
    /// 1 while a recorder that reads all slots sleeps.
    pub(crate) sleeps: Line<AtomicU32>,
}

/// The state of a slot; 384 bytes.
#[derive(Default)]
#[repr(C)]
pub(crate) struct SlotHead {
    /// A [`SlotState`](crate::SlotState) as a number.
    pub(crate) state: Line<AtomicU32>,
    pub(crate) pid: AtomicU32,
    pub(crate) tid: AtomicU32,
    /// Start time of the thread, so that another thread with the same id is not taken for it; 0 if unknown.
    pub(crate) start: AtomicU64,
    /// Note of the producer to the recorder.
    pub(crate) note: [AtomicU64; NOTE_WORDS],
    /// Amount that the producer could not write, in a unit that it defines.
    pub(crate) n_dropped: AtomicU64,
    /// Number of words written since the memory was created; written by the producer.
    pub(crate) tail: Line<AtomicU64>,
    /// Number of words read; written by the consumer.
    pub(crate) head: Line<AtomicU64>,
    /// 1 while the consumer sleeps.
    pub(crate) reader_sleeps: AtomicU32,
    /// 1 while the producer waits for room.
    pub(crate) writer_sleeps: Line<AtomicU32>,
}
