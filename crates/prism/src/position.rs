//! Where a reader is in a stream, and which fields it finds there, whatever the encoding.

use crate::batch::Batch;
use crate::event::Event;

/// The place of the next event.
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

    /// Whether an event can be in the batch: not if it begins another thread's and the batch has some.
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

    /// Moves after the events of the batch, which have this many bytes.
    #[inline]
    pub(crate) fn pass(&mut self, batch: &Batch, bytes: usize) {
        self.ordinal += batch.events.len() as u64;
        self.offset += bytes as u64;
    }
}

/// Whether a byte of fields has this one.
#[inline]
pub(crate) fn has(fields: u8, field: u8) -> bool {
    fields & field != 0
}
