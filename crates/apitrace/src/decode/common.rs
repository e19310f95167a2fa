//! The common case of an event, in as few steps as possible. `None` for anything long, rare, new or incomplete; the general
//! decoder then reads the event again, handles all cases and reports errors.
//!
//! PERF: numbers are taken from eight bytes at once, and only offsets are passed on (`decode`, `info`).

use super::signatures::{Signatures, Space};
use crate::record::*;
use quipu_model::values::{Kind, NO_TYPE, Node};

/// The eight bytes at `at` as a little-endian number.
#[inline(always)]
pub(super) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}

/// Masks the highest bit of each byte.
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// The uint at `at`, if it has at most eight bytes, and the offset of the byte after it.
#[inline(always)]
pub(super) fn uint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let word = word(bytes, at)?;
    if word & 0x80 == 0 {
        return Some((word & 0x7f, at + 1));
    }
    let (number, len) = long_uint(word);
    (len > 0).then_some((number, at + len))
}

/// The uint at the front of eight bytes, and its length in bytes; the length is 0 if it exceeds eight.
#[inline(never)]
fn long_uint(word: u64) -> (u64, usize) {
    let ends = !word & HIGH_BITS;
    if ends == 0 {
        return (0, 0);
    }
    let n_bits = ends.trailing_zeros() + 1; // 8, 16, … 64.
    let sevens = word & !HIGH_BITS & (u64::MAX >> (64 - n_bits));
    let pairs = sevens & 0x007f_007f_007f_007f | (sevens & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    (fours & 0x0fff_ffff | (fours & 0x0fff_ffff_0000_0000) >> 4, n_bits as usize / 8)
}

/// The beginning of an event that enters a call.
pub(super) struct Entry {
    pub(super) thread: u64,
    pub(super) function: u32,
    /// Offset of the details.
    pub(super) at: usize,
}

/// Reads the entry of a call at `at`; `None` if the function is not known yet.
#[inline(always)]
pub(super) fn entry(input: &[u8], at: usize, version: u64, signatures: &Signatures) -> Option<Entry> {
    if version < VERSION_THREADS || *input.get(at)? != EVENT_ENTER {
        return None;
    }
    let (thread, at) = uint(input, at + 1)?;
    let (id, at) = uint(input, at)?;
    Some(Entry { thread, function: signatures.known(Space::Function, id)?, at })
}

/// Offset of the details of leaving, if the event at `at` leaves the call with this number.
#[inline(always)]
pub(super) fn leaving(input: &[u8], at: usize, number: u64) -> Option<usize> {
    if *input.get(at)? != EVENT_LEAVE {
        return None;
    }
    let (left, at) = uint(input, at + 1)?;
    (left == number).then_some(at)
}

/// A detail of an event.
pub(super) enum Detail {
    End,
    /// An argument; its index is below 128.
    Arg(u32),
    Result,
}

/// The detail at `at`, and the offset of its value.
#[inline(always)]
pub(super) fn detail(input: &[u8], at: usize) -> Option<(Detail, usize)> {
    match *input.get(at)? {
        DETAIL_END => Some((Detail::End, at + 1)),
        DETAIL_ARG => {
            let index = *input.get(at + 1)?;
            (index < 0x80).then_some((Detail::Arg(index.into()), at + 2))
        }
        DETAIL_RESULT => Some((Detail::Result, at + 1)),
        _ => None,
    }
}

/// The value at `at`, if it is a scalar, and the offset of the next byte.
#[inline(always)]
pub(super) fn scalar(input: &[u8], at: usize, signatures: &Signatures) -> Option<(Node, usize)> {
    let (kind, payload, next) = match *input.get(at)? {
        TAG_NULL => (Kind::Null, 0, at + 1),
        TAG_FALSE => (Kind::False, 0, at + 1),
        TAG_TRUE => (Kind::True, 0, at + 1),
        TAG_FLOAT => (Kind::Float, word(input, at + 1)? & 0xffff_ffff, at + 5),
        TAG_DOUBLE => (Kind::Double, word(input, at + 1)?, at + 9),
        tag @ (TAG_UNSIGNED | TAG_NEGATIVE | TAG_POINTER) => {
            let (number, next) = uint(input, at + 1)?;
            let kind = match tag {
                TAG_UNSIGNED => Kind::Unsigned,
                TAG_NEGATIVE => Kind::Negative,
                _ => Kind::Pointer,
            };
            (kind, number, next)
        }
        TAG_ENUM if signatures.has_whole_enums() => {
            let (id, at) = uint(input, at + 1)?;
            let ty = signatures.known(Space::Enum, id)?;
            let tag = *input.get(at)?;
            let (size, next) = uint(input, at + 1)?;
            let payload = match tag {
                TAG_UNSIGNED => size,
                TAG_NEGATIVE => size.wrapping_neg(),
                _ => return None,
            };
            return Some((Node { kind: Kind::Enum, ty, payload }, next));
        }
        TAG_BITMASK => {
            let (id, at) = uint(input, at + 1)?;
            let ty = signatures.known(Space::Bitmask, id)?;
            let (payload, next) = uint(input, at)?;
            return Some((Node { kind: Kind::Flags, ty, payload }, next));
        }
        _ => return None,
    };
    Some((Node { kind, ty: NO_TYPE, payload }, next))
}

/// The string or raw memory at `at`: its kind, its bytes, and the offset of the next byte.
#[inline]
pub(super) fn bytes(input: &[u8], at: usize) -> Option<(Kind, &[u8], usize)> {
    let kind = match *input.get(at)? {
        TAG_STRING => Kind::Text,
        TAG_BLOB => Kind::Blob,
        _ => return None,
    };
    let (len, start) = uint(input, at + 1)?;
    let end = start.checked_add(usize::try_from(len).ok()?)?;
    Some((kind, input.get(start..end)?, end))
}

/// Number of elements of the list at `at`, and the offset of the first.
#[inline]
pub(super) fn list(input: &[u8], at: usize) -> Option<(u64, usize)> {
    if *input.get(at)? != TAG_ARRAY {
        return None;
    }
    uint(input, at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Cursor;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_those_of_a_cursor(bytes: [u8; 12], n_long in 0usize..11) {
            let mut bytes = bytes;
            bytes[..n_long].iter_mut().for_each(|byte| *byte |= 0x80);
            let mut cursor = Cursor::new(&bytes, 0);
            let slow = cursor.uint().ok().map(|number| (number, cursor.at()));
            match uint(&bytes, 0) {
                Some(fast) => prop_assert_eq!(Some(fast), slow),
                None => prop_assert!(slow.is_none_or(|(_, end)| end > 8)),
            }
        }
    }
}
