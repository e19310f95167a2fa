//! Dumps of the buffers of the fixed encoding: the contents of shared memory, one buffer after the other.
//!
//! A buffer is two words (number of events, bytes of names), the events, the names. Copying a buffer keeps all bytes.

use crate::batch::Batch;
use crate::detail::Detail;
use crate::fault::{Fault, Wrong};
use crate::fixed::{Decoder, EVENT_BYTES, Encoder, MEMORY, NAME_BYTES, SLOTS, SYNC};

/// Bytes before the events of a buffer.
pub const HEADER_BYTES: usize = 16;

/// Maximum size of a buffer in bytes.
pub(crate) const MAX_BYTES: usize = HEADER_BYTES + SLOTS * EVENT_BYTES + NAME_BYTES;

/// Size in bytes of the buffer at the beginning of `bytes`, limited to the maximum; `None` if its head is incomplete.
pub(crate) fn needed(bytes: &[u8]) -> Option<usize> {
    let word = |at: usize| {
        let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
        word.map(u64::from_le_bytes)
    };
    let (count, used) = (word(0)?.min(SLOTS as u64), word(8)?.min(NAME_BYTES as u64));
    Some(HEADER_BYTES + count as usize * EVENT_BYTES + used as usize) // Both are small.
}

/// Whether a buffer with events may begin here, or the dump ends. Zeros are rejected, because they also occur among events.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    let Some((head, rest)) = bytes.split_at_checked(HEADER_BYTES) else { return bytes.is_empty() };
    let word = |at: usize| head[at..].first_chunk().map_or(u64::MAX, |word| u64::from_le_bytes(*word));
    let is_tag = |tag: &u8| (MEMORY..=SYNC).contains(tag);
    (1..=SLOTS as u64).contains(&word(0)) && word(8) <= NAME_BYTES as u64 && rest.first().is_none_or(is_tag)
}

/// A buffer of a dump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer<'a> {
    /// The events, [`EVENT_BYTES`] each, unused bytes included.
    pub events: &'a [u8],
    /// The names to which the events refer.
    pub names: &'a [u8],
}

impl<'a> Buffer<'a> {
    /// Reads the buffer at the beginning of `bytes`, which are at `offset` in the dump.
    ///
    /// # Errors
    /// Returns an error if it announces more than a buffer has room for, or the bytes end within it.
    pub fn read(bytes: &'a [u8], offset: u64) -> Result<Buffer<'a>, Fault> {
        let fault = |what| Fault { offset, what };
        let word = |at: usize| {
            let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
            word.map(u64::from_le_bytes).ok_or(fault(Wrong::Truncated))
        };
        let (count, used) = (word(0)?, word(8)?);
        if count > SLOTS as u64 {
            return Err(fault(Wrong::TooManyEvents(count)));
        }
        if used > NAME_BYTES as u64 {
            return Err(fault(Wrong::TooManyNames(used)));
        }
        let names = HEADER_BYTES + count as usize * EVENT_BYTES; // At most `SLOTS`.
        let end = names + used as usize; // At most `NAME_BYTES`.
        let truncated = fault(Wrong::Truncated);
        Ok(Buffer {
            events: bytes.get(HEADER_BYTES..names).ok_or(truncated)?,
            names: bytes.get(names..end).ok_or(truncated)?,
        })
    }

    /// Size of the buffer in a dump, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        HEADER_BYTES + self.events.len() + self.names.len()
    }

    /// Whether the buffer has no events.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Writes the buffer exactly as it was read.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&((self.events.len() / EVENT_BYTES) as u64).to_le_bytes());
        out.extend_from_slice(&(self.names.len() as u64).to_le_bytes());
        out.extend_from_slice(self.events);
        out.extend_from_slice(self.names);
    }
}

/// Reads a dump in batches.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    buffer: Buffer<'a>,
    decoder: Decoder,
    offset: u64,
    buffers: u64,
}

impl<'a> Reader<'a> {
    /// Reads `bytes`, written by a front end that fills these fields.
    #[must_use]
    pub fn new(bytes: &'a [u8], detail: Detail) -> Reader<'a> {
        let buffer = Buffer { events: &[], names: &[] };
        Reader { bytes, buffer, decoder: Decoder::new(detail), offset: 0, buffers: 0 }
    }

    /// Number of buffers begun so far.
    #[must_use]
    pub fn buffers(&self) -> u64 {
        self.buffers
    }

    /// Offset of the next event or buffer.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.decoder.offset()
    }

    /// Fills the batch; returns whether there were events.
    ///
    /// # Errors
    /// Returns an error if the next event or buffer is malformed. The next call skips a malformed event; a malformed buffer
    /// ends the dump.
    pub fn read(&mut self, batch: &mut Batch) -> Result<bool, Fault> {
        while self.buffer.events.is_empty() {
            self.decoder.skip(self.buffer.names.len() as u64);
            self.buffer.names = &[];
            if self.bytes.is_empty() {
                batch.clear();
                return Ok(false);
            }
            let buffer = match Buffer::read(self.bytes, self.offset) {
                Ok(buffer) => buffer,
                Err(fault) => {
                    self.bytes = &[];
                    return Err(fault);
                }
            };
            self.bytes = &self.bytes[buffer.len()..];
            self.offset += buffer.len() as u64;
            self.buffers += 1;
            self.decoder.skip(HEADER_BYTES as u64);
            self.buffer = buffer;
        }
        let result = self.decoder.decode(self.buffer.events, self.buffer.names, batch);
        let taken = match result {
            Ok(count) => count,
            Err(_) => {
                self.decoder.pass_over();
                1
            }
        };
        self.buffer.events = &self.buffer.events[taken * EVENT_BYTES..];
        result.map(|_| true)
    }
}

/// Appends the events of an encoder as a buffer, and clears the encoder.
pub fn flush(encoder: &mut Encoder, out: &mut Vec<u8>) {
    Buffer { events: &encoder.events, names: &encoder.names }.write(out);
    encoder.clear();
}
