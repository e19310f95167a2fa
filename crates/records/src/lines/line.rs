//! What a line of a trace can be.

use crate::lines::number::NoNumber;

/// A line that is an access or an event, as it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The address.
    pub addr: u64,
    /// Bytes; 0 if the line does not say.
    pub size: u32,
    /// The kind, as a position in the format's list of kinds.
    pub kind: u8,
}

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A record.
    Record(Record),
    /// Something else that belongs there and says nothing of accesses.
    Other,
    /// A message of Valgrind, with the process that it is of.
    Message(u64, &'a [u8]),
    /// None of these.
    Bad(Fault),
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not begin as a record does.
    Kind,
    /// The record has no address, or one that is no number.
    Address,
    /// The address does not fit into 64 bits.
    AddressTooLarge,
    /// The record has no size, or one that is no number.
    Size,
    /// The size does not fit into 32 bits.
    SizeTooLarge,
    /// Something follows the record.
    Rest,
    /// The line is so long that it is none.
    Long,
}

impl Fault {
    /// What people are told.
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

    /// The fault of an address.
    pub fn of_address(why: NoNumber) -> Fault {
        match why {
            NoNumber::Digits => Fault::Address,
            NoNumber::TooLarge => Fault::AddressTooLarge,
        }
    }

    /// The fault of a size.
    pub fn of_size(why: NoNumber) -> Fault {
        match why {
            NoNumber::Digits => Fault::Size,
            NoNumber::TooLarge => Fault::SizeTooLarge,
        }
    }
}

/// How lines read. Both ways give the same of a line; the quick one knows only how programs usually write it.
pub trait Grammar {
    /// Takes the line that `bytes` begin with, if it is written as usual: the record, and the bytes of the line with its
    /// end. `None` says nothing.
    fn quick(bytes: &[u8]) -> Option<(Record, usize)>;

    /// Reads a line, without its end.
    fn line(text: &[u8]) -> Line<'_>;
}

/// This many zero bytes in a row are no text.
const ZERO_RUN: usize = 4;

/// Whether a line has a run of zero bytes.
pub(crate) fn has_zeros(text: &[u8]) -> bool {
    memchr::memmem::find(text, &[0; ZERO_RUN]).is_some()
}

/// The first word of a text, and what stands after it; blanks before both are left out.
pub fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = text.trim_ascii_start();
    let end = text.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim_ascii_start())
}
