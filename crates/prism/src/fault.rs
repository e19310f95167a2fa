//! What can be wrong with a stream, and why a run ends.

pub use quipu_hooks::{Error, Result};
use quipu_model::ErrorKind;
use std::fmt;

/// What is wrong, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The first byte of the event, counted from the beginning of the stream.
    pub offset: u64,
    /// What is wrong there.
    pub what: Wrong,
}

/// What is wrong with an event or a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Wrong {
    /// The bytes end within an event or buffer.
    Truncated,
    /// A kind of the variable encoding whose length is unknown.
    UnknownKind(u8),
    /// A type of context whose length is unknown.
    UnknownContext(u8),
    /// A configuration event for a kind that does not exist.
    UnknownConfig(u8),
    /// A buffer announces more events than it has room for.
    TooManyEvents(u64),
    /// A buffer announces more bytes of names than it has room for.
    TooManyNames(u64),
    /// A name reaches beyond its buffer.
    NameBeyond {
        /// Where it begins.
        index: u32,
        /// How long it is, with the byte that ends it.
        len: u32,
        /// How many bytes the buffer has.
        used: u32,
    },
    /// A name without the zero that ends it.
    NameOpen,
    /// An event has what an encoding or level of detail has no room for.
    NoRoom(&'static str),
    /// A size that the variable encoding has no room for.
    NoSize(u16),
    /// A level of detail asks for what an event has not.
    Missing(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {:#x}: {}", self.offset, self.what)
    }
}

impl Wrong {
    /// What is wrong, in words.
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

/// An error of a file, as those who write files say it.
pub(crate) fn of_file(error: quipu_model::Error) -> Error {
    Error::other(error)
}

/// An error of a run, as verbs say it.
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
