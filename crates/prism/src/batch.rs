//! Batches of events, all of one thread.

use crate::event::{Event, Name};

/// How many events a batch has at most: as many as a buffer of the fixed encoding.
pub const BATCH_EVENTS: usize = 4096;

/// Events of one thread, in order, with their names. Readers fill one batch again and again, so that no event allocates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    /// The thread, if a swap said which.
    pub thread: Option<u64>,
    /// The position of the first event in the stream, from 0.
    pub first: u64,
    /// The events.
    pub events: Vec<Event>,
    /// A clock reading for each event, or none at all.
    pub clocks: Vec<u64>,
    /// Bytes of names.
    pub names: Vec<u8>,
}

/// Where an event stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct At {
    /// Its thread, if a swap said which.
    pub thread: Option<u64>,
    /// Its position in the stream, from 0.
    pub ordinal: u64,
    /// When it was, if the front end has a clock.
    pub clock: Option<u64>,
}

impl Batch {
    /// Drops all events.
    pub fn clear(&mut self) {
        self.events.clear();
        self.clocks.clear();
        self.names.clear();
    }

    /// The bytes of a name; none if it is of another batch.
    #[must_use]
    pub fn name(&self, name: Name) -> &[u8] {
        let start = name.start as usize; // At least 32 bits.
        self.names.get(start..start + name.len as usize).unwrap_or_default()
    }

    /// Adds a name.
    pub fn add_name(&mut self, bytes: &[u8]) -> Name {
        let start = self.names.len() as u32; // A batch has at most 4096 names of 4096 bytes.
        self.names.extend_from_slice(bytes);
        Name { start, len: bytes.len() as u32 }
    }

    /// Where the event at `index` stands.
    #[must_use]
    #[inline]
    pub fn at(&self, index: usize) -> At {
        At { thread: self.thread, ordinal: self.first + index as u64, clock: self.clocks.get(index).copied() }
    }
}

/// Where a reader is in a stream, whatever the encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Position {
    pub(crate) thread: Option<u64>,
    pub(crate) ordinal: u64,
    pub(crate) offset: u64,
}

impl Position {
    /// Empties a batch that is filled from here.
    pub(crate) fn begin(&self, batch: &mut Batch) {
        batch.clear();
        batch.thread = self.thread;
        batch.first = self.ordinal;
    }

    /// Takes an event into the batch, unless it begins another thread's and the batch has some: then nothing changes.
    #[inline]
    pub(crate) fn take(&mut self, batch: &mut Batch, event: Event, bytes: usize) -> bool {
        if let Some(thread) = event.swap()
            && self.thread != Some(thread)
        {
            if !batch.events.is_empty() {
                return false;
            }
            self.thread = Some(thread);
            batch.thread = Some(thread);
        }
        batch.events.push(event);
        self.ordinal += 1;
        self.offset += bytes as u64;
        true
    }
}
