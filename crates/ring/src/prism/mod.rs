//! The words of workload events: chunks, and the writer that makes them.
//!
//! A recorder asks for fields of events (*terms*); each producer answers in its slot with those that it gives, and sends no
//! others. It collects events in one of Prism's two encodings and publishes them in chunks, each a group of its ring: all of
//! a chunk can be read, or nothing of it.
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
//! A writer notices that its process is a child that `fork` made: it then forgets what it collected, which is its parent's,
//! and claims a ring of its own.
//!
//! SPEC: prism.md#delivery

mod encode;
mod fork;
mod writer;

use crate::{NOTE_WORDS, Shape};

pub use encode::{Compute, Control};
pub use writer::{Connection, Options, Put, Refused, Writer};

/// Version of the terms and chunks.
pub const PROTOCOL: u16 = 1;
/// The variable of the environment that says where the memory is.
pub const ENVIRONMENT: &str = "QUIPU_PRISM";
/// How large the memory is: 256 producers with 256 KiB each, and 4 MiB of names. What is not used takes no memory.
pub const SHAPE: Shape = Shape { n_slots: 256, ring_words: 1 << 15, heap_words: 1 << 19 };
/// Most words of a chunk.
pub const CHUNK_WORDS: usize = 4096;
/// Words before the events of a chunk.
pub const CHUNK_HEAD_WORDS: usize = 3;
/// The kind of chunks that have events.
pub const KIND_EVENTS: u8 = 1;
/// Flag of a chunk: there is a clock reading for each event.
pub const FLAG_CLOCKS: u8 = 1;

/// In the place of fields: a recorder does not want events of the kind, so that producers send none. Swaps are sent
/// nevertheless.
pub const OFF: u8 = 0x01;

/// How events are encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Encoding {
    /// 18 bytes for each event.
    Fixed = 1,
    /// 1 to 258 bytes for each event.
    Variable = 2,
}

/// What a recorder asks for, or a producer gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Version of the protocol.
    pub version: u16,
    /// Encodings: bits of [`Encoding`].
    pub encodings: u8,
    /// Fields of accesses, computations, control flow, synchronization and contexts, as configuration events have them; or
    /// [`OFF`].
    pub fields: [u8; 5],
}

impl Terms {
    /// As a word of a note: a byte for each kind, one for encodings, two for the version.
    #[must_use]
    pub fn pack(self) -> u64 {
        let [memory, compute, control, sync, context] = self.fields;
        let low = [memory, compute, control, sync, context, self.encodings, 0, 0];
        u64::from_le_bytes(low) | u64::from(self.version) << 48
    }

    /// What a word of a note says.
    #[must_use]
    pub fn unpack(word: u64) -> Terms {
        let [memory, compute, control, sync, context, encodings, ..] = word.to_le_bytes();
        let fields = [memory, compute, control, sync, context];
        Terms { version: (word >> 48) as u16, encodings, fields }
    }
}

/// What a producer says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Said {
    /// What it gives.
    pub terms: Terms,
    /// The thread that its events belong to until a swap says otherwise.
    pub thread: u64,
}

impl Said {
    /// As the note of a slot.
    #[must_use]
    pub fn pack(self) -> [u64; NOTE_WORDS] {
        [self.terms.pack(), self.thread, 0, 0]
    }

    /// What the note of a slot says.
    #[must_use]
    pub fn unpack(note: [u64; NOTE_WORDS]) -> Said {
        Said { terms: Terms::unpack(note[0]), thread: note[1] }
    }
}

/// What the first two words of a chunk say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkHead {
    /// [`KIND_EVENTS`], or a kind of a later version.
    pub kind: u8,
    /// See [`FLAG_CLOCKS`].
    pub flags: u8,
    /// How many events there are.
    pub n_events: u32,
    /// Their bytes.
    pub event_bytes: u32,
    /// Bytes of names.
    pub name_bytes: u16,
    /// References to names of the heap.
    pub n_references: u16,
}

impl ChunkHead {
    /// The words of a chunk of `n_words`.
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

    /// What the first two words of a chunk say.
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

    /// Words that a chunk of this head has.
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
