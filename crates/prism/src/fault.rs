//! Faults of a stream, and the reasons for which a run ends.

pub use quipu_hooks::{Error, Result};
use quipu_model::ErrorKind;
use std::fmt;

/// A fault and its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Offset of the first byte of the event in the stream.
    pub offset: u64,
    /// The fault.
    pub what: Wrong,
}

/// A fault of an event or a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Wrong {
    /// The bytes end within an event or buffer.
    Truncated,
    /// A kind of the variable encoding, with unknown length.
    UnknownKind(u8),
    /// A type of context, with unknown length.
    UnknownContext(u8),
    /// A configuration event for a kind that does not exist.
    UnknownConfig(u8),
    /// A buffer that announces more events than it has room for.
    TooManyEvents(u64),
    /// A buffer that announces more bytes of names than it has room for.
    TooManyNames(u64),
    /// A name that reaches beyond its buffer.
    NameBeyond {
        /// Index of its first byte.
        index: u32,
        /// Its length, with the terminating zero.
        len: u32,
        /// Bytes of names in the buffer.
        used: u32,
    },
    /// A name without its terminating zero.
    NameOpen,
    /// An event with something that the encoding or the level of detail cannot represent.
    NoRoom(&'static str),
    /// A size that the variable encoding cannot represent.
    NoSize(u16),
    /// An event lacks a field that the level of detail requires.
    Missing(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {:#x}: {}", self.offset, self.what)
    }
}

impl Wrong {
    /// The fault as text.
    #[cold]
    pub(crate) fn sentence(self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Wrong::Truncated => f.write_str("the stream ends within an event or buffer"),
            Wrong::UnknownKind(kind) => {
                write!(f, "unknown kind {kind}, whose length is unknown")
            }
            Wrong::UnknownContext(kind) => {
                write!(f, "unknown type {kind} of a context, whose length is unknown")
            }
            Wrong::UnknownConfig(kind) => write!(f, "configuration of the unknown kind {kind}"),
            Wrong::TooManyEvents(count) => {
                write!(f, "a buffer of {count} events, where it has room for {}", crate::fixed::SLOTS)
            }
            Wrong::TooManyNames(bytes) => {
                write!(
                    f,
                    "a buffer of {bytes} bytes of names, where it has room for {}",
                    crate::fixed::NAME_BYTES
                )
            }
            Wrong::NameBeyond { index, len, used } => {
                write!(f, "a name of {len} bytes at {index}, where the buffer has {used} bytes")
            }
            Wrong::NameOpen => f.write_str("a name that no zero ends"),
            Wrong::NoRoom(what) => write!(f, "no room for {what}"),
            Wrong::NoSize(bytes) => {
                let room = "the variable encoding has room for powers of two up to 128";
                write!(f, "no room for a size of {bytes} bytes: {room}")
            }
            Wrong::Missing(what) => write!(f, "the event has no {what}"),
        }
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::other(fault)
    }
}

impl From<crate::delivery::Fault> for Error {
    fn from(fault: crate::delivery::Fault) -> Error {
        Error::other(fault)
    }
}

/// Converts an error of writing a file.
pub(crate) fn of_file(error: quipu_model::Error) -> Error {
    Error::other(error)
}

/// Converts an error of a run to the model's error, for verbs.
pub(crate) fn said(error: Error) -> quipu_model::Error {
    let error = match error {
        Error::Stop(message) => return quipu_model::Error::unsupported(message),
        Error::Io { path, error } => {
            return quipu_model::Error::new(ErrorKind::Io, "cannot be written")
                .in_file(path.display().to_string())
                .because(error);
        }
        Error::Other(error) => error,
        other => return quipu_model::Error::unsupported(other.to_string()),
    };
    match error.downcast::<quipu_model::Error>().map(|error| *error) {
        Ok(error) => error,
        Err(error) => match error.downcast_ref::<Fault>() {
            Some(fault) => (*fault).into(),
            None => quipu_model::Error::malformed(error.to_string()),
        },
    }
}
