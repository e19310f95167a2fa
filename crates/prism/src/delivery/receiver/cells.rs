//! Cells of programs compiled with instrumentation: those that wait to become events, and their order.
//!
//! Threads of a program stamp what others may see: synchronization and atomic operations. Cells with stamps become events in
//! the order of the stamps, as far as they were published, so that a thread that takes a lock comes after the one that gave
//! it back.

use super::{CHUNKS_IN_TURN, End, Lane, Reading, Run, SlotState};
use crate::delivery::fault::Wrong;
use crate::fault::Result;
use crate::front::cells::{CELL_WORDS, creation, is_access, n_cells, stamp};
use crate::hooks::Sink;
use quipu_model::ThreadId;
use quipu_ring::prism::{CHUNK_HEAD_WORDS, ChunkHead, KIND_EVENTS};
use quipu_ring::{BadGroup, Shared};

/// The cells of a chunk that are not events yet.
#[derive(Debug)]
pub(super) struct Pending {
    /// The thread of the cells; its workload is the number of its program.
    pub(super) thread: ThreadId,
    /// The chunk as it was taken from the ring.
    pub(super) words: Vec<u64>,
    /// The first word that is not an event yet.
    at: usize,
    /// The next event with a stamp: where it ends, and the stamp.
    next: Option<(usize, u64)>,
    /// The number of the thread's creation, before its first cells became events.
    begins: Option<Option<u64>>,
    /// The number of the thread in events; 0 before it has any.
    pub(super) number: u64,
    /// Number of events made.
    pub(super) n_events: u64,
}

impl Pending {
    /// Nothing of this thread yet.
    pub(super) fn new(thread: ThreadId) -> Pending {
        let begins = Some(None);
        Pending { thread, words: Vec::new(), at: 0, next: None, begins, number: 0, n_events: 0 }
    }

    /// True if all cells have become events.
    pub(super) fn is_empty(&self) -> bool {
        self.at >= self.words.len()
    }

    /// Begins with the chunk that was put into `words`.
    ///
    /// # Errors
    /// If it is not a chunk of whole cells. There is nothing pending then.
    pub(super) fn begin(&mut self) -> std::result::Result<(), Wrong> {
        let checked = check(&self.words);
        if checked.is_err() {
            self.words.clear();
        }
        (self.at, self.next) = (CHUNK_HEAD_WORDS.min(self.words.len()), None);
        if let Some(begun) = &mut self.begins {
            *begun = creation(&self.words[self.at..]);
        }
        checked
    }

    /// The end of the next event with a stamp, and the stamp; `None` if the chunk has no more.
    pub(super) fn next(&mut self) -> Option<(usize, u64)> {
        if self.next.is_none_or(|(end, _)| end <= self.at) {
            self.next = None;
            let mut at = self.at;
            while let Some(word) = self.words.get(at) {
                let end = at + CELL_WORDS * n_cells(*word);
                if let Some(stamp) = stamp(*word, self.words.get(at + CELL_WORDS).copied()) {
                    self.next = Some((end, stamp));
                    break;
                }
                at = end;
            }
        }
        self.next
    }

    /// The number of the creation of a thread that begins, and the words up to `end`, which become events now; `None` for
    /// all of them.
    pub(super) fn pass(&mut self, end: Option<usize>) -> (Option<u64>, &[u64]) {
        let end = end.unwrap_or(self.words.len()).min(self.words.len());
        let words = self.words.get(self.at..end).unwrap_or_default();
        self.at = end;
        (self.begins.take().flatten(), words)
    }
}

impl Lane<'_> {
    pub(super) fn pending(&mut self) -> Option<&mut Pending> {
        match &mut self.reading {
            Some(Reading::Cells(pending)) => Some(pending),
            _ => None,
        }
    }
}

impl Run<'_> {
    /// The number of the program of a process that sends cells, whose threads share a number.
    pub(super) fn program(&mut self, process: u32, shared: u64) -> u16 {
        if let Some(number) = self.programs.get(&(process, shared)) {
            return *number;
        }
        let number = self.n_programs;
        self.n_programs = number.wrapping_add(1);
        // After that many programs, the first ones have ended.
        self.programs.retain(|_, known| *known != number);
        self.cells.forget(number);
        self.programs.insert((process, shared), number);
        number
    }

    /// Delivers the events of some chunks of cells; returns whether there were any.
    pub(super) fn turn_of_cells(&mut self, slot: usize, sink: &mut dyn Sink) -> Result<bool> {
        for n in 0..CHUNKS_IN_TURN {
            let (has_left, is_there) = self.load(slot)?;
            if !is_there {
                let is_dead = self.lanes[slot].as_ref().is_some_and(|lane| lane.is_dead);
                if has_left || is_dead {
                    self.end(slot, if has_left { End::Left } else { End::Died })?;
                }
                return Ok(n > 0);
            }
            self.deliver_cells(slot, sink)?;
        }
        Ok(true)
    }

    /// Takes the next chunk of a producer of cells, if none is pending. Returns whether the producer has left, and whether a
    /// chunk is pending.
    fn load(&mut self, slot: usize) -> Result<(bool, bool)> {
        let Some(lane) = &mut self.lanes[slot] else { return Ok((false, false)) };
        let Some(Reading::Cells(pending)) = &mut lane.reading else { return Ok((false, false)) };
        if !pending.is_empty() {
            return Ok((false, true));
        }
        let consumer = &mut lane.consumer;
        // The state is read first, as in `turn`.
        let (has_left, at, taken) = self.memory.look(|_| {
            let has_left = consumer.state() == SlotState::Left;
            (has_left, consumer.position(), consumer.take_group(&mut pending.words))
        })?;
        let wrong = match taken {
            Ok(false) => return Ok((has_left, false)),
            Ok(true) => pending.begin().err(),
            Err(bad) => Some(Wrong::Group(bad)),
        };
        match wrong {
            Some(wrong) => {
                lane.stop(at, wrong);
                Ok((false, false))
            }
            None => Ok((false, true)),
        }
    }

    /// Delivers the events of all pending cells of a producer, and before them those of other threads of its program with
    /// earlier stamps.
    pub(super) fn deliver_cells(&mut self, slot: usize, sink: &mut dyn Sink) -> Result<()> {
        let Some(thread) = self.thread_of(slot) else { return Ok(()) };
        // A thread that began since the last look may have ended before what this chunk has: it was joined there.
        let bell = self.memory.look(Shared::bell)?;
        self.open_new(bell)?;
        let is_other = |other: &usize| {
            *other != slot && self.thread_of(*other).is_some_and(|it| it.workload == thread.workload)
        };
        let others: Vec<usize> = (0..self.lanes.len()).filter(is_other).collect();
        loop {
            let next = match self.lanes[slot].as_mut().and_then(Lane::pending) {
                Some(pending) if !pending.is_empty() => {
                    if others.is_empty() {
                        None
                    } else {
                        pending.next()
                    }
                }
                _ => break,
            };
            if let Some((_, stamp)) = next {
                self.deliver_earlier(&others, stamp, sink)?;
            }
            self.pass(slot, next.map(|(end, _)| end), sink)?;
        }
        self.hand_over(sink)
    }

    /// The thread of a producer of cells.
    fn thread_of(&self, slot: usize) -> Option<ThreadId> {
        match &self.lanes.get(slot)?.as_ref()?.reading {
            Some(Reading::Cells(pending)) => Some(pending.thread),
            _ => None,
        }
    }

    /// Delivers the events of these producers up to the last one with an earlier stamp, of what they have published until
    /// now.
    fn deliver_earlier(&mut self, slots: &[usize], stamp: u64, sink: &mut dyn Sink) -> Result<()> {
        let mut published = Vec::with_capacity(slots.len());
        for slot in slots {
            published.push(match &self.lanes[*slot] {
                Some(lane) => self.memory.look(|_| lane.consumer.published())?,
                None => 0,
            });
        }
        loop {
            let mut first: Option<(u64, usize, usize)> = None;
            for (slot, published) in slots.iter().zip(&published) {
                let Some((end, other)) = self.next_stamp(*slot, *published, sink)? else { continue };
                if other < stamp && first.is_none_or(|(least, ..)| other < least) {
                    first = Some((other, *slot, end));
                }
            }
            let Some((_, slot, end)) = first else { return Ok(()) };
            self.pass(slot, Some(end), sink)?;
        }
    }

    /// The end of the next event with a stamp of a producer, and the stamp, among the words that it had `published`. Delivers
    /// chunks without stamps before it.
    fn next_stamp(
        &mut self,
        slot: usize,
        published: u64,
        sink: &mut dyn Sink,
    ) -> Result<Option<(usize, u64)>> {
        loop {
            let Some(lane) = &mut self.lanes[slot] else { return Ok(None) };
            let position = lane.consumer.position();
            let Some(pending) = lane.pending() else { return Ok(None) };
            if pending.is_empty() {
                if position >= published || !self.load(slot)?.1 {
                    return Ok(None);
                }
                continue;
            }
            if let Some(next) = pending.next() {
                return Ok(Some(next));
            }
            self.pass(slot, None, sink)?;
        }
    }

    /// Makes the events of pending cells up to a word of the chunk, or of all of them.
    fn pass(&mut self, slot: usize, end: Option<usize>, sink: &mut dyn Sink) -> Result<()> {
        let Some(thread) = self.thread_of(slot) else { return Ok(()) };
        // A batch has events of one thread.
        if self.cells.current() != Some(thread) {
            self.hand_over(sink)?;
        }
        let Some(pending) = self.lanes[slot].as_mut().and_then(Lane::pending) else { return Ok(()) };
        let n_before = self.cells.batch().events.len() as u64;
        let (creation, words) = pending.pass(end);
        self.cells.take(thread, creation, words);
        pending.number = self.cells.batch().thread.unwrap_or(0);
        pending.n_events += self.cells.batch().events.len() as u64 - n_before;
        Ok(())
    }

    /// Gives the sink the events that were made of cells.
    fn hand_over(&mut self, sink: &mut dyn Sink) -> Result<()> {
        if self.cells.batch().events.is_empty() {
            return Ok(());
        }
        sink.take(self.cells.batch())?;
        self.cells.clear();
        let (shared, n_threads) = (self.memory.shared, self.cells.n_threads());
        // Other producers have other numbers of threads.
        let n_ids = self.memory.look(|_| {
            shared.keep_ids_below(n_threads);
            shared.n_ids()
        })?;
        self.cells.keep_numbers(n_ids);
        Ok(())
    }
}

/// Checks that a chunk has whole cells.
fn check(words: &[u64]) -> std::result::Result<(), Wrong> {
    let n_published = words.len() as u64;
    let [first, second, ..] = words else {
        return Err(Wrong::ChunkLength { announced: 0, found: n_published });
    };
    // The producer may have changed the length in the head since the chunk was copied.
    let n_words = (first & 0xffff) + 1;
    if n_words != n_published {
        return Err(Wrong::Group(BadGroup::Length { n_words, n_published }));
    }
    let head = ChunkHead::unpack(*first, *second);
    if head.kind != KIND_EVENTS {
        return Err(Wrong::UnknownChunk(head.kind));
    }
    let is_cells = head.flags == 0 && head.name_bytes == 0 && head.n_references == 0;
    let cell_bytes = 8 * CELL_WORDS;
    if head.n_words() != words.len() || !is_cells || !(head.event_bytes as usize).is_multiple_of(cell_bytes) {
        return Err(Wrong::ChunkLength { announced: head.n_words() as u64, found: n_published });
    }
    let (mut at, mut found) = (CHUNK_HEAD_WORDS, 0_u64);
    while let Some(word) = words.get(at) {
        // PERF: most cells are accesses, which have no cells of their own after them; a branch lets the processor go on before
        // it has read the word.
        at += if is_access(*word) { CELL_WORDS } else { CELL_WORDS * n_cells(*word) };
        found += 1;
    }
    if at != words.len() || found != u64::from(head.n_events) {
        return Err(Wrong::EventCount { announced: head.n_events, found });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chunk of these words of cells.
    fn chunk(n_events: u32, cells: &[u64]) -> Vec<u64> {
        let event_bytes = 8 * cells.len() as u32;
        let head =
            ChunkHead { kind: KIND_EVENTS, flags: 0, n_events, event_bytes, name_bytes: 0, n_references: 0 };
        let mut words = vec![0; 3];
        words.extend_from_slice(cells);
        let n_words = words.len();
        words[..2].copy_from_slice(&head.pack(n_words));
        words
    }

    /// The first word of an event.
    fn head(kind: u8, n_following: u64) -> u64 {
        u64::from(kind) << 56 | n_following << 48
    }

    #[test]
    fn cells_stop_at_each_stamp() {
        use quipu_cells::cell::kind::{ATOMIC, SYNC};
        let mut pending = Pending::new(ThreadId { workload: 0, tid: 7 });
        assert!(pending.is_empty());
        let start = [head(SYNC, 2), 0, 5, quipu_cells::cell::sync::START, 3, 0];
        let access = [0x1000, 0x40];
        let atomic = [head(ATOMIC, 1), 0, 9, 0];
        pending.words = chunk(4, &[&start[..], &access, &atomic, &access].concat());
        pending.begin().unwrap();
        assert_eq!(pending.next(), Some((9, 5)));
        assert_eq!(pending.pass(Some(9)), (Some(3), &start[..]));
        assert_eq!(pending.next(), Some((15, 9)));
        assert_eq!(pending.pass(Some(15)), (None, &[&access[..], &atomic].concat()[..]));
        assert_eq!((pending.next(), pending.is_empty()), (None, false));
        assert_eq!(pending.pass(None), (None, &access[..]));
        assert!(pending.is_empty());
    }

    #[test]
    fn what_is_not_whole_cells_is_refused() {
        let access = [0x1000, 0x40];
        let of = |words: Vec<u64>| {
            let mut pending = Pending::new(ThreadId { workload: 0, tid: 7 });
            pending.words = words;
            let begun = pending.begin();
            assert!(begun.is_err() == pending.is_empty());
            begun
        };
        assert_eq!(of(chunk(1, &access)), Ok(()));
        assert_eq!(of(chunk(2, &access)), Err(Wrong::EventCount { announced: 2, found: 1 }));
        let cut = head(quipu_cells::cell::kind::SYNC, 2);
        assert_eq!(of(chunk(1, &[cut, 0])), Err(Wrong::EventCount { announced: 1, found: 1 }));
        assert_eq!(of(chunk(1, &access[..1])), Err(Wrong::ChunkLength { announced: 4, found: 4 }));
        assert_eq!(of(vec![0]), Err(Wrong::ChunkLength { announced: 0, found: 1 }));
    }
}
