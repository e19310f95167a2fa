//! Zip archives: their members, and where they are.
//!
//! A reader of our own rather than a crate, because the same strict parser has to serve three ways into an archive: the
//! central directory; the walk over local headers if the directory is missing or wrong; and the same walk on a pipe. Crates
//! for zip files only offer the first.
//!
//! ```text
//! local header, name, extra, data [, descriptor]    } once per member
//! central header, name, extra, comment              } once per member
//! [zip64 end record, zip64 locator,] end record, comment
//! ```
//!
//! The layout is that of PKWARE's APPNOTE, sections 4.3 to 4.5; all integers are little-endian.

mod directory;
mod local;

use std::io;

use crate::container::{Member, Method, Refusal};
use crate::error::Error;
use crate::packed::Packed;

pub(crate) use local::{LocalHeader, Next, find_local_header, next_local, read_descriptor};

/// Read size for indexing, which hops over the file: small reads waste least.
pub(crate) const INDEX_READ_BYTES: usize = 4 << 10;

const LOCAL: [u8; 4] = *b"PK\x03\x04";
const CENTRAL: [u8; 4] = *b"PK\x01\x02";
const END: [u8; 4] = *b"PK\x05\x06";
const END64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR64: [u8; 4] = *b"PK\x06\x07";
const DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";

/// Number of bytes in a local header before the name.
const LOCAL_BYTES: usize = 30;

const FLAG_ENCRYPTED: u16 = 1;
/// Sizes and checksum come after the data instead of before it.
const FLAG_DESCRIPTOR: u16 = 1 << 3;
/// Sections 4.4.4: strong encryption, and a masked central directory.
const FLAGS_STRONG: u16 = 1 << 6 | 1 << 13;

/// Damage at further places is not listed one by one.
const MAX_DAMAGE: usize = 100;

/// The members of an archive in file order, and the damage of the archive.
pub(crate) struct Index {
    pub(crate) members: Vec<Member>,
    pub(crate) damage: Vec<Error>,
}

/// Lists the members: from the central directory if it is there and consistent, otherwise from the local headers.
///
/// Fails only if the system does.
pub(crate) fn index(packed: &mut Packed) -> io::Result<Index> {
    match directory::read(packed)? {
        Ok(members) => Ok(Index { members, damage: Vec::new() }),
        Err(reason) => {
            let mut found = local::walk(packed)?;
            found.damage.insert(0, reason);
            Ok(found)
        }
    }
}

fn method(number: u16) -> Method {
    match number {
        0 => Method::Stored,
        8 => Method::Deflate,
        other => Method::Other(other),
    }
}

fn refusal(flags: u16) -> Option<Refusal> {
    (flags & (FLAG_ENCRYPTED | FLAGS_STRONG) != 0).then_some(Refusal::Encrypted)
}

/// Reads an integer at a fixed offset; callers have checked the length of `bytes`.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Applies the zip64 extra field: it has 64-bit values for those of `values` that are all ones, in this order.
///
/// False if a value is all ones but the field does not contain it.
fn widen(mut extra: &[u8], values: &mut [&mut u64]) -> bool {
    const ZIP64: u16 = 1;
    const ALL_ONES: u64 = u32::MAX as u64;
    if values.iter().all(|value| **value != ALL_ONES) {
        return true;
    }
    while let Some((head, rest)) = extra.split_first_chunk::<4>() {
        let len_bytes = usize::from(u16_at(head, 2));
        let Some((mut field, rest)) = rest.split_at_checked(len_bytes) else { return false };
        extra = rest;
        if u16_at(head, 0) != ZIP64 {
            continue;
        }
        for value in values.iter_mut().filter(|value| ***value == ALL_ONES) {
            let Some((wide, rest)) = field.split_first_chunk::<8>() else { return false };
            **value = u64::from_le_bytes(*wide);
            field = rest;
        }
        return true;
    }
    false
}
