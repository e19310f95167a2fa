//! [`Shared`] of a model: the same parts on the heap, of one process, where a sleeper lets others run and looks again.
//!
//! `map` is what it stands for. Only what the two sides call is here.

use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

pub(crate) const OPEN: u32 = 1;

/// How large the memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Threads that can record at a time.
    pub n_slots: u32,
    /// Words in the ring of each, a power of two.
    pub ring_words: u64,
}

#[derive(Default)]
pub(crate) struct Line<T>(pub(crate) T);

#[derive(Default)]
pub(crate) struct Head {
    pub(crate) state: Line<AtomicU32>,
    pub(crate) n_refused: AtomicU64,
    bell: Line<AtomicU32>,
}

#[derive(Default)]
pub(crate) struct SlotHead {
    pub(crate) state: Line<AtomicU32>,
    pub(crate) pid: AtomicU32,
    pub(crate) tid: AtomicU32,
    pub(crate) tail: Line<AtomicU64>,
    pub(crate) head: Line<AtomicU64>,
    pub(crate) reader_sleeps: AtomicU32,
    pub(crate) writer_sleeps: Line<AtomicU32>,
}

/// The memory of both sides.
#[derive(Debug)]
pub struct Shared {
    shape: Shape,
    head: Head,
    slots: Vec<(SlotHead, Vec<AtomicU64>)>,
}

impl Shared {
    /// Makes the memory. A model's rings are as small as it likes.
    pub fn create(shape: Shape) -> Shared {
        let head = Head::default();
        head.state.0.store(OPEN, Ordering::Relaxed);
        let words = || (0..shape.ring_words).map(|_| AtomicU64::default()).collect();
        let slots = (0..shape.n_slots).map(|_| (SlotHead::default(), words())).collect();
        Shared { shape, head, slots }
    }

    /// How large it is.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Tells producers to go on without recording.
    pub fn close(&self) {
        self.head.state.0.store(0, Ordering::Release);
    }

    /// True as long as the recorder wants words.
    pub fn is_open(&self) -> bool {
        self.head.state.0.load(Ordering::Relaxed) == OPEN
    }

    pub(crate) fn has_recorder(&self) -> bool {
        true
    }

    /// Threads that could not record because all slots were taken.
    pub fn n_refused(&self) -> u64 {
        self.head.n_refused.load(Ordering::Relaxed)
    }

    /// Changes whenever a slot is claimed or left.
    pub fn bell(&self) -> u32 {
        self.head.bell.0.load(Ordering::Acquire)
    }

    pub(crate) fn ring_bell(&self) {
        self.head.bell.0.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    pub(crate) fn slot(&self, index: u32) -> Option<(&SlotHead, &AtomicU64)> {
        let (head, words) = self.slots.get(index as usize)?;
        Some((head, words.first()?))
    }
}

/// Lets others run: a sleeper looks again, no matter which thread woke it, so that a model finds waits that nothing ends.
pub(crate) fn sleep_on(_: &AtomicU32, _: u32, _: Duration) {
    loom::thread::yield_now();
}

/// Nothing: sleepers look by themselves.
pub(crate) fn wake(_: &AtomicU32) {}
