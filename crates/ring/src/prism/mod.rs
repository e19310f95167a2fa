//! The words of workload events: chunks, and the writer that produces them.
//!
//! A recorder requests fields of events (*terms*). Each producer answers in its slot with the fields that it provides, and
//! sends no others. It collects events in one of Prism's two encodings, and publishes them in chunks. A chunk is a group of
//! the ring, so it can be read completely or not at all.
//!
//! ```text
//! word 0      words that follow 16 | kind 8 | flags 8 | events 32
//! word 1      bytes of events 32 | bytes of names 16 | references 16
//! word 2      clock of the first event, 0 if there is none
//! then        events, names (fixed encoding only), each filled up with zeros to a word
//! then        references: position of a context in the bytes of events << 32 | number of its name in the heap
//! then        a clock reading for each event, if the flag says so
//! ```
//!
//! A writer detects that its process is a forked child. It then discards the events it collected, which belong to the parent,
//! and claims a ring of its own.
//!
//! SPEC: prism.md#delivery

mod encode;
mod fork;
mod writer;

use crate::{NOTE_WORDS, Shape};

pub use encode::{Compute, Control};
pub use writer::{Connection, Options, Put, Refused, Writer};

/// Version of terms and chunks.
pub const PROTOCOL: u16 = 1;
/// Environment variable with the path of the memory.
pub const ENVIRONMENT: &str = "QUIPU_PRISM";
/// Dimensions of the memory: 256 producers with 256 KiB each, and 4 MiB of names. Unused parts take no memory.
pub const SHAPE: Shape = Shape { n_slots: 256, ring_words: 1 << 15, heap_words: 1 << 19 };
/// Maximum number of words of a chunk.
pub const CHUNK_WORDS: usize = 4096;
/// Number of words before the events of a chunk.
pub const CHUNK_HEAD_WORDS: usize = 3;
/// Kind of chunks that contain events.
pub const KIND_EVENTS: u8 = 1;
/// Flag of chunks with a clock reading for each event.
pub const FLAG_CLOCKS: u8 = 1;

/// In place of fields: the recorder does not want events of this kind, so producers send none. Swaps are sent nevertheless.
pub const OFF: u8 = 0x01;

/// In place of an [`Encoding`], as a bit of [`Terms::encodings`]: a program compiled with instrumentation sends its cells,
/// from which the recorder makes events. The bytes of events in a chunk are whole cells of 16 bytes, and the producer's
/// number in [`Said::thread`] is the same for all threads of a program.
pub const CELLS: u8 = 4;
/// Word of a producer's note: the number of words that it had written when it last sent all that it had. If nothing was
/// written since, nothing is missing, even if the producer ends without leaving.
pub const SETTLED: usize = 2;
/// Environment variable: with the value 1, producers that can do so drop events while their ring is full, and count them,
/// instead of waiting.
pub const DROP: &str = "QUIPU_PRISM_DROP";

/// Encoding of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Encoding {
    /// 18 bytes for each event.
    Fixed = 1,
    /// 1 to 258 bytes for each event.
    Variable = 2,
}

/// The fields that a recorder requests, or that a producer provides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Version of the protocol.
    pub version: u16,
    /// Encodings: bits of [`Encoding`].
    pub encodings: u8,
    /// Fields of accesses, computations, control flow, synchronization and contexts, with the bits of configuration events;
    /// or [`OFF`].
    pub fields: [u8; 5],
}

impl Terms {
    /// Packs terms into a word of a note: a byte for each kind, one for encodings, two for the version.
    #[must_use]
    pub fn pack(self) -> u64 {
        let [memory, compute, control, sync, context] = self.fields;
        let low = [memory, compute, control, sync, context, self.encodings, 0, 0];
        u64::from_le_bytes(low) | u64::from(self.version) << 48
    }

    /// Unpacks a word of a note.
    #[must_use]
    pub fn unpack(word: u64) -> Terms {
        let [memory, compute, control, sync, context, encodings, ..] = word.to_le_bytes();
        let fields = [memory, compute, control, sync, context];
        Terms { version: (word >> 48) as u16, encodings, fields }
    }
}

/// A producer's note.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Said {
    /// The terms that it provides.
    pub terms: Terms,
    /// The thread of its events until a swap changes it.
    pub thread: u64,
}

impl Said {
    /// Packs this into the note of a slot.
    #[must_use]
    pub fn pack(self) -> [u64; NOTE_WORDS] {
        [self.terms.pack(), self.thread, 0, 0]
    }

    /// Unpacks the note of a slot.
    #[must_use]
    pub fn unpack(note: [u64; NOTE_WORDS]) -> Said {
        Said { terms: Terms::unpack(note[0]), thread: note[1] }
    }
}

/// The first two words of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkHead {
    /// [`KIND_EVENTS`], or a kind of a later version.
    pub kind: u8,
    /// See [`FLAG_CLOCKS`].
    pub flags: u8,
    /// Number of events.
    pub n_events: u32,
    /// Bytes of events.
    pub event_bytes: u32,
    /// Bytes of names.
    pub name_bytes: u16,
    /// Number of references to names in the heap.
    pub n_references: u16,
}

impl ChunkHead {
    /// Packs this into the first two words of a chunk of `n_words`.
    #[must_use]
    pub fn pack(self, n_words: usize) -> [u64; 2] {
        let first = (n_words - 1) as u64 // At most `CHUNK_WORDS`.
            | u64::from(self.kind) << 16
            | u64::from(self.flags) << 24
            | u64::from(self.n_events) << 32;
        let second = u64::from(self.event_bytes)
            | u64::from(self.name_bytes) << 32
            | u64::from(self.n_references) << 48;
        [first, second]
    }

    /// Unpacks the first two words of a chunk.
    #[must_use]
    pub fn unpack(first: u64, second: u64) -> ChunkHead {
        ChunkHead {
            kind: (first >> 16) as u8,
            flags: (first >> 24) as u8,
            n_events: (first >> 32) as u32,
            event_bytes: second as u32,
            name_bytes: (second >> 32) as u16,
            n_references: (second >> 48) as u16,
        }
    }

    /// Number of words of a chunk with this head.
    #[must_use]
    pub fn n_words(self) -> usize {
        let clocks = if self.flags & FLAG_CLOCKS != 0 { self.n_events as usize } else { 0 };
        CHUNK_HEAD_WORDS
            + (self.event_bytes as usize).div_ceil(8)
            + usize::from(self.name_bytes).div_ceil(8)
            + usize::from(self.n_references)
            + clocks
    }
}
