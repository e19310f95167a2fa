//! The position of a reader in a stream, for both encodings, and a test for fields.

use crate::batch::Batch;
use crate::event::Event;

/// The position of the next event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Position {
    pub(crate) thread: Option<u64>,
    pub(crate) ordinal: u64,
    pub(crate) offset: u64,
}

impl Position {
    /// Clears a batch and sets its thread and first ordinal.
    pub(crate) fn begin(&self, batch: &mut Batch) {
        batch.clear();
        batch.thread = self.thread;
        batch.first = self.ordinal;
    }

    /// Whether an event belongs to the batch: a swap to another thread does not if the batch has events already.
    #[inline]
    pub(crate) fn enters(&mut self, batch: &mut Batch, event: &Event) -> bool {
        if let Some(thread) = event.swap()
            && self.thread != Some(thread)
        {
            if !batch.events.is_empty() {
                return false;
            }
            self.thread = Some(thread);
            batch.thread = Some(thread);
        }
        true
    }

    /// Moves past the events of the batch, which have this many bytes.
    #[inline]
    pub(crate) fn pass(&mut self, batch: &Batch, bytes: usize) {
        self.ordinal += batch.events.len() as u64;
        self.offset += bytes as u64;
    }
}

/// Whether a set of fields has this field.
#[inline]
pub(crate) fn has(fields: u8, field: u8) -> bool {
    fields & field != 0
}
