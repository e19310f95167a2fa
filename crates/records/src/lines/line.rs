//! The kinds of lines in a trace.

use crate::lines::number::NoNumber;

/// An access or an event, as its line describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The address.
    pub addr: u64,
    /// Size in bytes; 0 if the line does not contain it.
    pub size: u32,
    /// The kind, as an index into the format's list of kinds.
    pub kind: u8,
}

/// A parsed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A record.
    Record(Record),
    /// A valid line without information about accesses.
    Other,
    /// A message of Valgrind, with its process.
    Message(u64, &'a [u8]),
    /// A malformed line.
    Bad(Fault),
}

/// The reason why a line is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin like a record.
    Kind,
    /// The address is missing or not a number.
    Address,
    /// The address does not fit into 64 bits.
    AddressTooLarge,
    /// The size is missing or not a number.
    Size,
    /// The size does not fit into 32 bits.
    SizeTooLarge,
    /// There is text after the record.
    Rest,
    /// The line is too long for a record.
    Long,
}

impl Fault {
    /// The reason, for messages.
    pub fn what(self) -> &'static str {
        match self {
            Fault::Kind => "it does not begin as a record does",
            Fault::Address => "an address in hex digits is missing",
            Fault::AddressTooLarge => "the address has more than 64 bits",
            Fault::Size => "a size is missing",
            Fault::SizeTooLarge => "the size has more than 32 bits",
            Fault::Rest => "something follows the record",
            Fault::Long => "it is too long",
        }
    }

    /// The fault for an address that cannot be parsed.
    pub fn of_address(why: NoNumber) -> Fault {
        match why {
            NoNumber::Digits => Fault::Address,
            NoNumber::TooLarge => Fault::AddressTooLarge,
        }
    }

    /// The fault for a size that cannot be parsed.
    pub fn of_size(why: NoNumber) -> Fault {
        match why {
            NoNumber::Digits => Fault::Size,
            NoNumber::TooLarge => Fault::SizeTooLarge,
        }
    }
}

/// A parser of lines. Both functions give the same result for a line; the quick one only handles the form that programs
/// usually write.
pub trait Grammar {
    /// Parses the line at the front of `bytes`, if it has the usual form: returns the record, and the length of the line with
    /// its end. `None` means that [`line`](Grammar::line) must decide.
    fn quick(bytes: &[u8]) -> Option<(Record, usize)>;

    /// Parses a line, without its end.
    fn line(text: &[u8]) -> Line<'_>;
}

/// A text does not contain this many consecutive zero bytes.
const ZERO_RUN: usize = 4;

/// Whether a line has a run of zero bytes.
pub(crate) fn has_zeros(text: &[u8]) -> bool {
    memchr::memmem::find(text, &[0; ZERO_RUN]).is_some()
}

/// The first word of a text, and the text after it, both without leading blanks.
pub fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim_ascii_start())
}
