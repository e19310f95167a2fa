//! [`Shared`] for loom models: the same parts on the heap of one process. A sleeper yields and checks again.
//!
//! Replaces `map`, with only the functions that the two sides call.

use crate::heap::Heap;
use crate::layout::{Head, OPEN, Shape, SlotHead};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

/// The memory of both sides.
#[derive(Debug)]
pub struct Shared {
    shape: Shape,
    head: Head,
    slots: Vec<(SlotHead, Vec<AtomicU64>)>,
    heap: Vec<AtomicU64>,
}

impl Shared {
    /// Creates the memory. Rings of a model may be arbitrarily small.
    pub fn create(shape: Shape) -> Shared {
        let head = Head::default();
        head.state.0.store(OPEN, Ordering::Relaxed);
        let words = |n| (0..n).map(|_| AtomicU64::default()).collect();
        let slots = (0..shape.n_slots).map(|_| (SlotHead::default(), words(shape.ring_words))).collect();
        Shared { shape, head, slots, heap: words(shape.heap_words) }
    }

    /// The heap of names; `None` if there is none.
    pub fn heap(&self) -> Option<Heap<'_>> {
        Heap::new(&self.heap)
    }

    pub(crate) fn reserve_ring(&self, _: u32) -> std::io::Result<()> {
        Ok(())
    }

    /// Sleeps until [`Shared::wake_recorder`] or a bell. There is no timeout, so that a model finds sleepers that are never
    /// woken.
    pub fn sleep(&self, _: Duration, has_work: impl FnOnce() -> bool) {
        let sleeps = &self.head.sleeps.0;
        sleeps.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !has_work() {
            while sleeps.load(Ordering::Relaxed) == 1 {
                loom::thread::yield_now();
            }
        }
        sleeps.store(0, Ordering::Relaxed);
    }

    /// Wakes a recorder that reads all slots.
    pub fn wake_recorder(&self) {
        fence(Ordering::SeqCst);
        let sleeps = &self.head.sleeps.0;
        if sleeps.load(Ordering::Relaxed) != 0 {
            sleeps.swap(0, Ordering::Relaxed);
        }
    }

    /// Returns the shape of the memory.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Tells producers to continue without recording.
    pub fn close(&self) {
        self.head.state.0.store(0, Ordering::Release);
    }

    /// True while the recorder listens.
    pub fn is_open(&self) -> bool {
        self.head.state.0.load(Ordering::Relaxed) == OPEN
    }

    pub(crate) fn has_recorder(&self) -> bool {
        true
    }

    /// Number of threads that could not record because all slots were taken.
    pub fn n_refused(&self) -> u64 {
        self.head.n_refused.load(Ordering::Relaxed)
    }

    /// A value that changes whenever a slot is claimed or left.
    pub fn bell(&self) -> u32 {
        self.head.bell.0.load(Ordering::Acquire)
    }

    pub(crate) fn ring_bell(&self) {
        self.head.bell.0.fetch_add(1, Ordering::Release);
        self.wake_recorder();
    }

    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    pub(crate) fn slot(&self, index: u32) -> Option<(&SlotHead, &AtomicU64)> {
        let (head, words) = self.slots.get(index as usize)?;
        Some((head, words.first()?))
    }
}

/// Yields: a sleeper checks again, whichever thread woke it, so that a model finds waits that never end.
pub(crate) fn sleep_on(_: &AtomicU32, _: u32, _: Duration) {
    loom::thread::yield_now();
}

/// Does nothing: sleepers check by themselves.
pub(crate) fn wake(_: &AtomicU32) {}
