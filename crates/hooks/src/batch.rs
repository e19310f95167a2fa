//! Batches of events, all of one thread.

use crate::event::{Event, Name};

/// Maximum number of events in a batch: the same as in a buffer of the fixed encoding.
pub const BATCH_EVENTS: usize = 4096;

/// Events of one thread, in order, with their names. Readers reuse a batch, so that no event allocates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Batch {
    /// The thread, if a swap has named it.
    pub thread: Option<u64>,
    /// The position of the first event in the stream, from 0.
    pub first: u64,
    /// The events.
    pub events: Vec<Event>,
    /// A clock reading for each event, or empty.
    pub clocks: Vec<u64>,
    /// The bytes of all names.
    pub names: Vec<u8>,
}

/// The position of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct At {
    /// Its thread, if a swap has named it.
    pub thread: Option<u64>,
    /// Its position in the stream, from 0.
    pub ordinal: u64,
    /// Its clock reading, if the front end has a clock.
    pub clock: Option<u64>,
}

impl Batch {
    /// Removes all events.
    pub fn clear(&mut self) {
        self.events.clear();
        self.clocks.clear();
        self.names.clear();
    }

    /// The bytes of a name; empty if it belongs to another batch.
    #[must_use]
    pub fn name(&self, name: Name) -> &[u8] {
        let start = name.start as usize; // At least 32 bits.
        self.names.get(start..start + name.len as usize).unwrap_or_default()
    }

    /// Adds a name to the batch.
    pub fn add_name(&mut self, bytes: &[u8]) -> Name {
        let start = self.names.len() as u32; // A batch has at most 4096 names of 4096 bytes.
        self.names.extend_from_slice(bytes);
        Name { start, len: bytes.len() as u32 }
    }

    /// The position of the event at `index`.
    #[must_use]
    #[inline]
    pub fn at(&self, index: usize) -> At {
        At { thread: self.thread, ordinal: self.first + index as u64, clock: self.clocks.get(index).copied() }
    }
}
