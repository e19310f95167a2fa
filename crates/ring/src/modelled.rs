//! [`Shared`] of a model: the same parts on the heap, of one process, where a sleeper lets others run and looks again.
//!
//! `map` is what it stands for. Only what the two sides call is here.

use crate::layout::{Head, OPEN, Shape, SlotHead};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

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
