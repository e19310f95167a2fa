//! The two sides of a slot.

use crate::layout::{NOTE_WORDS, SlotHead};
use crate::map::{Shared, sleep_on, wake};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

/// Mask of the bits of a slot's state that give the [`SlotState`]. While the slot is claimed, the other bits are the id of
/// the claiming process.
const STATE_BITS: u32 = 3;
/// State of a slot that a producer has claimed but not written to.
const CLAIMED: u32 = 1;

/// Number of words after which a producer checks whether the recorder still listens.
const STRETCH_WORDS: u64 = 4096;
/// Time that a producer waits for room before it checks whether the recorder is alive.
const PATIENCE: Duration = Duration::from_millis(20);

/// State of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// No owner.
    Free,
    /// A producer has claimed it but not written to it.
    Claimed,
    /// A thread writes to it.
    Live,
    /// The thread has left; its words have yet to be read.
    Left,
}

impl SlotState {
    fn of(number: u32) -> SlotState {
        match number & STATE_BITS {
            0 => SlotState::Free,
            CLAIMED => SlotState::Claimed,
            2 => SlotState::Live,
            _ => SlotState::Left,
        }
    }
}

/// Properties of a producer that claims a slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct Claim {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Start time of the thread, see [`crate::life`]; 0 if unknown.
    pub start: u64,
    /// Note to the recorder.
    pub note: [u64; NOTE_WORDS],
    /// Whether to allocate the ring's memory at once: if there is not enough, the claim fails, where otherwise a later write
    /// would kill the process.
    pub reserves: bool,
}

/// The writing side of a slot, used by one thread.
#[derive(Debug)]
pub struct Producer<'s> {
    shared: &'s Shared,
    slot: &'s SlotHead,
    words: *const AtomicU64,
    mask: u64,
    tail: u64,
    /// Number of written words up to which the other side need not be checked.
    limit: u64,
}

impl std::fmt::Debug for SlotHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (pid, tid) = (self.pid.load(Ordering::Relaxed), self.tid.load(Ordering::Relaxed));
        f.debug_struct("SlotHead").field("pid", &pid).field("tid", &tid).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for crate::layout::Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Head").finish_non_exhaustive()
    }
}

/// The state of a slot that a process has claimed. It is one word, so that the owner is known whenever the process ends.
fn claimed_by(pid: u32) -> u32 {
    // Process ids have at most 22 bits.
    pid << 2 | CLAIMED
}

impl<'s> Producer<'s> {
    /// Claims a slot for thread `tid` of process `pid`; `None` if all are taken, which is counted, or if the recorder has
    /// closed.
    pub fn claim(shared: &'s Shared, pid: u32, tid: u32) -> Option<Producer<'s>> {
        Producer::claim_for(shared, &Claim { pid, tid, ..Claim::default() })
    }

    /// Claims a slot with all properties of the producer.
    pub fn claim_for(shared: &'s Shared, claim: &Claim) -> Option<Producer<'s>> {
        if !shared.is_open() {
            return None;
        }
        for index in 0..shared.shape().n_slots {
            let (slot, first) = shared.slot(index)?;
            let state = &slot.state.0;
            if state.load(Ordering::Relaxed) != 0
                || state
                    .compare_exchange(0, claimed_by(claim.pid), Ordering::Acquire, Ordering::Relaxed)
                    .is_err()
            {
                continue;
            }
            slot.pid.store(claim.pid, Ordering::Relaxed);
            slot.tid.store(claim.tid, Ordering::Relaxed);
            slot.start.store(claim.start, Ordering::Relaxed);
            for (word, said) in slot.note.iter().zip(claim.note) {
                word.store(said, Ordering::Relaxed);
            }
            slot.n_dropped.store(0, Ordering::Relaxed);
            if claim.reserves && shared.reserve_ring(index).is_err() {
                state.store(0, Ordering::Release);
                break;
            }
            let tail = slot.tail.0.load(Ordering::Relaxed);
            state.store(2, Ordering::Release);
            shared.ring_bell();
            let mask = shared.shape().ring_words - 1;
            return Some(Producer { shared, slot, words: first, mask, tail, limit: tail });
        }
        shared.head().n_refused.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Writes and publishes a word. Does nothing and returns false if recording has ended.
    #[inline(always)]
    pub fn push(&mut self, word: u64) -> bool {
        if self.tail == self.limit && !self.make_room(1) {
            return false;
        }
        self.put(word);
        self.publish();
        true
    }

    /// Writes up to 4096 words, which the consumer sees completely or not at all. Returns false if recording has ended.
    pub fn push_group(&mut self, words: &[u64]) -> bool {
        let n = words.len() as u64;
        if n > STRETCH_WORDS || (self.limit - self.tail < n && !self.make_room(n)) {
            return false;
        }
        self.put_all(words);
        self.publish();
        true
    }

    /// Number of words written so far.
    pub fn position(&self) -> u64 {
        self.tail
    }

    /// Changes a word of the note to the recorder. There is no effect if it has no such word.
    pub fn set_note(&self, at: usize, word: u64) {
        if let Some(note) = self.slot.note.get(at) {
            note.store(word, Ordering::Release);
        }
    }

    /// Adds to the amount that this producer could not write, in a unit that it defines.
    pub fn drop_some(&self, n: u64) {
        self.slot.n_dropped.fetch_add(n, Ordering::Relaxed);
    }

    /// Whether writing `n` words would not wait: there is room for them, or recording has ended.
    #[inline]
    pub fn has_room(&mut self, n: u64) -> bool {
        self.limit - self.tail >= n || self.look_for_room(n)
    }

    #[cold]
    fn look_for_room(&mut self, n: u64) -> bool {
        self.wake_reader();
        let room = self.mask + 1 - (self.tail - self.slot.head.0.load(Ordering::SeqCst));
        let is_open = self.shared.is_open();
        if is_open && room >= n {
            self.limit = self.tail + room.min(STRETCH_WORDS.max(n));
        }
        room >= n || !is_open
    }

    /// True if the next [`Producer::push`] checks the other side; a good time for other periodic work.
    #[inline(always)]
    pub fn is_at_stretch(&self) -> bool {
        self.tail == self.limit
    }

    #[inline(always)]
    fn put(&mut self, word: u64) {
        // SAFETY: The ring has `mask + 1` words, and the map lives as long as `shared`, which is borrowed.
        #[allow(unsafe_code)]
        unsafe {
            (*self.words.add((self.tail & self.mask) as usize)).store(word, Ordering::Relaxed);
        }
        self.tail += 1;
    }

    #[cfg(not(loom))]
    fn put_all(&mut self, words: &[u64]) {
        let at = (self.tail & self.mask) as usize;
        let (first, second) = words.split_at(words.len().min((self.mask + 1) as usize - at));
        for (at, words) in [(at, first), (0, second)] {
            // SAFETY: The words end within the ring, whose map lives as long as `shared`; the consumer does not read them
            // before `tail` has passed them.
            #[allow(unsafe_code)]
            unsafe {
                let to = self.words.add(at).cast_mut().cast::<u64>();
                std::ptr::copy_nonoverlapping(words.as_ptr(), to, words.len());
            }
        }
        self.tail += words.len() as u64;
    }

    /// Does the same word by word, so that loom sees each write.
    #[cfg(loom)]
    fn put_all(&mut self, words: &[u64]) {
        words.iter().for_each(|word| self.put(*word));
    }

    #[inline(always)]
    fn publish(&self) {
        self.slot.tail.0.store(self.tail, Ordering::Release);
    }

    /// Waits until there is room for `n` words; false if there never will be.
    #[cold]
    fn make_room(&mut self, n: u64) -> bool {
        self.wake_reader();
        let most = self.mask + 1;
        loop {
            if !self.shared.is_open() {
                self.limit = self.tail;
                return false;
            }
            self.slot.writer_sleeps.0.store(1, Ordering::SeqCst);
            let room = most - (self.tail - self.slot.head.0.load(Ordering::SeqCst));
            if room >= n {
                self.slot.writer_sleeps.0.store(0, Ordering::Relaxed);
                self.limit = self.tail + room.min(STRETCH_WORDS.max(n));
                return true;
            }
            sleep_on(&self.slot.writer_sleeps.0, 1, PATIENCE);
            if !self.shared.has_recorder() {
                self.shared.close();
            }
        }
    }

    /// Wakes the consumer if it sleeps, for words that should not wait.
    pub fn wake_reader(&self) {
        let sleeps = &self.slot.reader_sleeps;
        if sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0 {
            wake(sleeps);
        }
    }

    /// Leaves the slot to the consumer, which frees it when everything is read. In a forked child, do not call this for a
    /// producer of the parent, but forget it.
    pub fn leave(self) {
        self.slot.state.0.store(3, Ordering::Release);
        self.wake_reader();
        self.shared.ring_bell();
    }
}

/// Invalid data that a producer published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadGroup {
    /// More words than fit into the ring.
    Published {
        /// Number of words published, according to the producer.
        n_words: u64,
        /// Words of the ring.
        room: u64,
    },
    /// A group longer than the maximum, or than the published words.
    Length {
        /// Words of the group, including the first.
        n_words: u64,
        /// Number of words published.
        n_published: u64,
    },
}

/// The reading side of a slot.
#[derive(Debug)]
pub struct Consumer<'s> {
    slot: &'s SlotHead,
    words: *const AtomicU64,
    mask: u64,
    head: u64,
}

// SAFETY: The pointer is into memory shared by processes. Access to it is atomic, except for copies of words between `head`
// and `tail`, which are published, and which a correct producer does not touch. An incorrect producer can only change what is
// copied: words are valid with any bits, and are not trusted.
#[allow(unsafe_code)]
unsafe impl Send for Consumer<'_> {}

impl<'s> Consumer<'s> {
    /// Creates the consumer of slot `index`; `None` if there is no such slot. A slot must not have two consumers.
    pub fn new(shared: &'s Shared, index: u32) -> Option<Consumer<'s>> {
        let (slot, first) = shared.slot(index)?;
        let head = slot.head.0.load(Ordering::Relaxed);
        Some(Consumer { slot, words: first, mask: shared.shape().ring_words - 1, head })
    }

    /// Returns the state of the slot.
    pub fn state(&self) -> SlotState {
        SlotState::of(self.slot.state.0.load(Ordering::Acquire))
    }

    /// Process id and thread id of the owner.
    pub fn owner(&self) -> (u32, u32) {
        (self.slot.pid.load(Ordering::Relaxed), self.slot.tid.load(Ordering::Relaxed))
    }

    /// Start time of the owning thread; 0 if unknown.
    pub fn start(&self) -> u64 {
        self.slot.start.load(Ordering::Relaxed)
    }

    /// Note of the producer.
    pub fn note(&self) -> [u64; NOTE_WORDS] {
        std::array::from_fn(|at| self.slot.note[at].load(Ordering::Relaxed))
    }

    /// Amount that the producer could not write.
    pub fn n_dropped(&self) -> u64 {
        self.slot.n_dropped.load(Ordering::Relaxed)
    }

    /// Whether there are words to read.
    pub fn has_words(&self) -> bool {
        self.slot.tail.0.load(Ordering::SeqCst) != self.head
    }

    /// Number of words read so far.
    pub fn position(&self) -> u64 {
        self.head
    }

    /// Number of words published so far.
    pub fn published(&self) -> u64 {
        self.slot.tail.0.load(Ordering::SeqCst)
    }

    /// Replaces `out` with the next group, whose first word has the number of following words in its low 16 bits; false if
    /// nothing was published.
    ///
    /// # Errors
    /// If the producer published invalid data: more words than fit into the ring, or part of a group. Nothing is read then.
    pub fn take_group(&mut self, out: &mut Vec<u64>) -> Result<bool, BadGroup> {
        out.clear();
        let tail = self.slot.tail.0.load(Ordering::Acquire);
        let n_published = tail.wrapping_sub(self.head);
        if n_published == 0 {
            return Ok(false);
        }
        if n_published > self.mask + 1 {
            return Err(BadGroup::Published { n_words: n_published, room: self.mask + 1 });
        }
        let at = (self.head & self.mask) as usize;
        // SAFETY: The word is in the ring of `mask + 1` words, and the map lives as long as the memory that is borrowed.
        #[allow(unsafe_code)]
        let first = unsafe { (*self.words.add(at)).load(Ordering::Relaxed) };
        let n_words = (first & 0xffff) + 1;
        if n_words > n_published.min(STRETCH_WORDS) {
            return Err(BadGroup::Length { n_words, n_published });
        }
        self.take(out, n_words as usize);
        Ok(true)
    }

    /// Skips all published words.
    pub fn pass_over(&mut self) {
        self.head = self.slot.tail.0.load(Ordering::Acquire);
        self.slot.head.0.store(self.head, Ordering::Release);
    }

    /// Appends up to `most` published words to `out`, frees their room in the ring, and returns their number.
    pub fn take(&mut self, out: &mut Vec<u64>, most: usize) -> usize {
        let tail = self.slot.tail.0.load(Ordering::Acquire);
        // A corrupt producer cannot cause a read beyond the ring.
        let n = tail.wrapping_sub(self.head).min(self.mask + 1).min(most as u64);
        out.reserve(n as usize);
        let from = self.head & self.mask;
        let first = n.min(self.mask + 1 - from);
        for (from, n) in [(from, first), (0, n - first)] {
            self.copy(from, n, out);
        }
        if n > 0 {
            self.head += n;
            self.slot.head.0.store(self.head, Ordering::Release);
            fence(Ordering::SeqCst);
            let sleeps: &AtomicU32 = &self.slot.writer_sleeps.0;
            // Waking the writer is not worth it for little room; it checks by itself now and then.
            let left = tail.wrapping_sub(self.head);
            if left <= self.mask / 2
                && sleeps.load(Ordering::Relaxed) != 0
                && sleeps.swap(0, Ordering::Relaxed) != 0
            {
                wake(sleeps);
            }
        }
        n as usize
    }

    /// Appends `n` published words from `from` on, which end within the ring.
    #[cfg(not(loom))]
    fn copy(&self, from: u64, n: u64, out: &mut Vec<u64>) {
        let n = n as usize;
        out.reserve(n);
        // SAFETY: The words are in the ring of `mask + 1` words, whose map lives as long as the memory that is borrowed, and
        // `out` has room for them. The producer published them and does not touch them before `head` has passed them; if it
        // does nevertheless, arbitrary bits are copied, which are valid words. No reference into the ring is created.
        #[allow(unsafe_code)]
        unsafe {
            let from = self.words.add(from as usize).cast::<u64>();
            std::ptr::copy_nonoverlapping(from, out.as_mut_ptr().add(out.len()), n);
            out.set_len(out.len() + n);
        }
    }

    /// Does the same word by word, so that loom sees each read.
    #[cfg(loom)]
    fn copy(&self, from: u64, n: u64, out: &mut Vec<u64>) {
        // SAFETY: As above; the words of a model are in one vector.
        #[allow(unsafe_code)]
        out.extend(
            (from..from + n).map(|at| unsafe { (*self.words.add(at as usize)).load(Ordering::Relaxed) }),
        );
    }

    /// Sleeps until there are words to read or the slot is left, but no longer than `most`.
    pub fn wait(&self, most: Duration) {
        self.slot.reader_sleeps.store(1, Ordering::SeqCst);
        let is_idle = self.slot.tail.0.load(Ordering::SeqCst) == self.head
            && SlotState::of(self.slot.state.0.load(Ordering::SeqCst)) == SlotState::Live;
        if is_idle {
            sleep_on(&self.slot.reader_sleeps, 1, most);
        }
        self.slot.reader_sleeps.store(0, Ordering::Relaxed);
    }

    /// Frees the slot if it was claimed by a process that ended before it wrote anything; returns whether it was.
    pub fn free_if_claimed_by_dead(&self, is_alive: impl FnOnce(u32) -> bool) -> bool {
        let state = self.slot.state.0.load(Ordering::Acquire);
        if state & STATE_BITS != CLAIMED || is_alive(state >> 2) {
            return false;
        }
        self.slot.state.0.compare_exchange(state, 0, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Frees the slot for the next claim. Call it when the thread has left or died, and everything is read.
    pub fn free(self) {
        self.slot.head.0.store(self.slot.tail.0.load(Ordering::Relaxed), Ordering::Relaxed);
        self.slot.state.0.store(0, Ordering::Release);
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    fn shared() -> Shared {
        Shared::create(Shape { n_slots: 2, ring_words: 1 << 13, heap_words: 0 }).unwrap()
    }

    #[test]
    fn words_come_out_as_they_went_in_through_a_ring_that_is_smaller() {
        let shared = shared();
        let path = std::ffi::CString::new(shared.path().unwrap()).unwrap();
        let other = Shared::open(&path).unwrap();
        let n = 1_000_000_u64;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut producer = Producer::claim(&other, 7, 8).unwrap();
                for word in 0..n {
                    if word % 5 == 0 {
                        assert!(producer.push_group(&[word, word + n]));
                    } else {
                        assert!(producer.push(word));
                    }
                }
                producer.leave();
            });
            let (mut words, mut seen) = (Vec::new(), 0);
            while shared.bell() == 0 {
                shared.wait_for_bell(0, PATIENCE);
            }
            let mut consumer = Consumer::new(&shared, 0).unwrap();
            assert_eq!(consumer.owner(), (7, 8));
            loop {
                let is_last = consumer.state() == SlotState::Left;
                consumer.take(&mut words, 1000);
                for word in words.drain(..) {
                    if word < n {
                        assert_eq!(word, seen);
                        seen += 1;
                    } else {
                        assert_eq!(word, seen - 1 + n);
                    }
                }
                if is_last && consumer.take(&mut words, 1) == 0 {
                    break;
                }
                consumer.wait(PATIENCE);
            }
            assert_eq!(seen, n);
            consumer.free();
        });
    }

    #[test]
    fn a_slot_that_was_freed_is_claimed_again_and_a_third_thread_is_counted() {
        let shared = shared();
        let first = Producer::claim(&shared, 1, 1).unwrap();
        let _second = Producer::claim(&shared, 1, 2).unwrap();
        assert!(Producer::claim(&shared, 1, 3).is_none());
        assert_eq!(shared.n_refused(), 1);
        first.leave();
        let consumer = Consumer::new(&shared, 0).unwrap();
        assert_eq!(consumer.state(), SlotState::Left);
        consumer.free();
        assert!(Producer::claim(&shared, 1, 4).is_some());
    }

    #[test]
    fn a_slot_that_a_dead_process_claimed_is_freed() {
        let shared = shared();
        let (slot, _) = shared.slot(0).unwrap();
        slot.state.0.store(claimed_by(4711), Ordering::Relaxed);
        let consumer = Consumer::new(&shared, 0).unwrap();
        assert_eq!(consumer.state(), SlotState::Claimed);
        assert!(!consumer.free_if_claimed_by_dead(|pid| pid == 4711));
        assert!(consumer.free_if_claimed_by_dead(|pid| pid != 4711));
        assert_eq!(consumer.state(), SlotState::Free);
        let producer = Producer::claim(&shared, 4711, 1).unwrap();
        assert!(!consumer.free_if_claimed_by_dead(|_| false), "one that writes is not touched");
        producer.leave();
    }

    #[test]
    fn a_producer_goes_on_without_a_recorder() {
        let shared = shared();
        let mut producer = Producer::claim(&shared, 1, 1).unwrap();
        assert!((0..1 << 13).all(|word| producer.push(word)), "as many as fit");
        shared.close();
        assert!(!producer.push(1), "instead of waiting for room");
        assert!(Producer::claim(&shared, 1, 2).is_none());
    }

    #[test]
    fn a_producer_knows_whether_it_would_wait_and_can_change_its_note() {
        let shared = shared();
        let mut producer = Producer::claim(&shared, 1, 1).unwrap();
        assert!(producer.has_room(1 << 13) && !producer.has_room((1 << 13) + 1));
        assert!(producer.push_group(&[1, 2]));
        assert!(producer.has_room((1 << 13) - 2) && !producer.has_room((1 << 13) - 1));
        producer.set_note(2, producer.position());
        producer.set_note(NOTE_WORDS, 7);
        let mut consumer = Consumer::new(&shared, 0).unwrap();
        assert_eq!((consumer.note(), consumer.published()), ([0, 0, 2, 0], 2));
        consumer.take(&mut Vec::new(), 2);
        assert!(producer.has_room(1 << 13));
    }

    #[test]
    fn a_full_ring_is_known_without_waiting() {
        let shared = shared();
        let mut producer = Producer::claim(&shared, 1, 1).unwrap();
        let mut n = 0;
        while producer.has_room(1000) {
            assert!((0..1000).all(|word| producer.push(word)));
            n += 1000;
        }
        assert_eq!(n, 8000, "as many as fit");
        let (mut consumer, mut words) = (Consumer::new(&shared, 0).unwrap(), Vec::new());
        assert_eq!(consumer.take(&mut words, 1000), 1000);
        assert!(producer.has_room(1000) && !producer.has_room(2000));
        shared.close();
        assert!(producer.has_room(3000), "nothing waits any more");
        assert!(!producer.push_group(&[0; 3000]));
    }

    #[test]
    fn what_is_no_shared_memory_is_refused() {
        let file = c"/proc/self/exe";
        assert!(Shared::open(file).is_err());
        let shape = Shape::default();
        assert!(Shared::create(Shape { n_slots: 0, ..shape }).is_err());
        assert!(Shared::create(Shape { ring_words: 1000, ..shape }).is_err());
        assert!(Shared::create(Shape { heap_words: 1000, ..shape }).is_err());
    }
}
