//! Faults in the data of another process, and their places.

use quipu_ring::prism::PROTOCOL;
use quipu_ring::{BadGroup, BadName};
use std::fmt;
use std::path::PathBuf;

/// A fault and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Where the fault is.
    pub place: Place,
    /// The fault.
    pub what: Wrong,
}

/// Place of a fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A file, FIFO or folder.
    File(PathBuf),
    /// The ring of a producer.
    Ring {
        /// Number of the ring, from 0.
        ring: u32,
        /// Words read from the ring before the fault, since the producer began.
        word: u64,
    },
    /// A buffer of one of Prism's channels.
    Buffer {
        /// The file with the buffer.
        file: PathBuf,
        /// Number of buffers of the channel before this one.
        n_before: u64,
    },
}

/// A kind of fault.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Wrong {
    /// The file was truncated while it was mapped.
    Cut,
    /// A producer uses another version of the protocol.
    Version(u16),
    /// A producer announces no encoding, several, or an unknown one.
    Encoding(u8),
    /// A producer published an invalid group.
    Group(BadGroup),
    /// A chunk of an unknown kind.
    UnknownChunk(u8),
    /// A chunk whose head does not agree with its length.
    ChunkLength {
        /// Length according to the head, in words.
        announced: u64,
        /// Actual length in words.
        found: u64,
    },
    /// A chunk whose number of events differs from its head.
    EventCount {
        /// Number of events according to the head.
        announced: u32,
        /// Number of events found.
        found: u64,
    },
    /// A reference to a name that is not at a context event with a name.
    Reference {
        /// Position of the reference in the events, in bytes.
        at: u32,
    },
    /// A name number that is not in the heap.
    Name {
        /// The number.
        number: u32,
        /// The reason.
        why: BadName,
    },
    /// A malformed event.
    Event(crate::fault::Fault),
    /// No front end opened a FIFO.
    NotOpened,
    /// A front end opened one FIFO of a channel and closed it without opening this one.
    HalfOpened,
    /// The FIFO ended without the number that ends a channel.
    NoEnd,
    /// The run ended before the front end ended the channel.
    StillOpen,
    /// A buffer number out of range.
    BufferNumber(u32),
    /// A buffer out of turn that had not been filled before.
    OutOfTurn {
        /// The buffer whose turn it is.
        expected: u32,
        /// The buffer that was announced.
        found: u32,
    },
    /// A buffer that was filled again, out of turn.
    FilledTwice {
        /// The buffer whose turn it is.
        expected: u32,
        /// The buffer that was announced.
        found: u32,
    },
    /// The file ends before the end of a buffer's contents.
    Short {
        /// Length that the file needs, in bytes.
        needed: u64,
        /// Length of the file in bytes.
        found: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::File(path) => write!(f, "{}: {}", path.display(), self.what),
            Place::Ring { ring, word } => write!(f, "ring {ring}, word {word:#x}: {}", self.what),
            Place::Buffer { file, n_before } => {
                write!(f, "{}, buffer {n_before} of its channel: {}", file.display(), self.what)
            }
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Cut => f.write_str("the file was cut while it was mapped"),
            Wrong::Version(found) => {
                write!(f, "the producer speaks version {found} of the protocol, not {PROTOCOL}")
            }
            Wrong::Encoding(bits) => write!(f, "the producer has no known encoding, but `{bits:#x}`"),
            Wrong::Group(BadGroup::Published { n_words, room }) => {
                write!(f, "the producer says to have published {n_words} words, where a ring has {room}")
            }
            Wrong::Group(BadGroup::Length { n_words, n_published }) => {
                write!(f, "a chunk of {n_words} words, where {n_published} were published")
            }
            Wrong::UnknownChunk(kind) => write!(f, "a chunk of the unknown kind {kind}"),
            Wrong::ChunkLength { announced, found } => {
                write!(f, "a chunk of {found} words, whose head says {announced}")
            }
            Wrong::EventCount { announced, found } => {
                write!(f, "a chunk of {found} events, whose head says {announced}")
            }
            Wrong::Reference { at } => {
                write!(f, "a reference to a name at {at:#x}, where no context has one")
            }
            Wrong::Name { number, why: BadName::Number { n_words } } => {
                write!(f, "the name {number}, where the heap has {n_words} words of names")
            }
            Wrong::Name { number, why: BadName::Length(bytes) } => {
                write!(f, "the name {number} of {bytes} bytes, which the heap has no room for")
            }
            Wrong::Event(fault) => fault.fmt(f),
            Wrong::NotOpened => f.write_str("no front end opened this FIFO"),
            Wrong::HalfOpened => {
                f.write_str("the front end closed the other FIFO of the channel without opening this one")
            }
            Wrong::NoEnd => f.write_str(
                "the front end closed the FIFO without ending the channel: it was killed, or crashed",
            ),
            Wrong::StillOpen => f.write_str("the run ended before the front end ended the channel"),
            Wrong::BufferNumber(number) => write!(f, "buffer {number}, where there are 8"),
            Wrong::OutOfTurn { expected, found } => {
                write!(f, "buffer {found} was filled, where it is the turn of buffer {expected}")
            }
            Wrong::FilledTwice { expected, found } => write!(
                f,
                "buffer {found} was filled twice, where it is the turn of buffer {expected}: the traced program made a \
                 child by fork, and both fill the same buffers"
            ),
            Wrong::Short { needed, found } => {
                write!(f, "the file ends at {found:#x}, where the buffer ends at {needed:#x}")
            }
        }
    }
}

impl std::error::Error for Fault {}
