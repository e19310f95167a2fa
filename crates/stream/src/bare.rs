//! Metadata records without frames, which precede the data in a plain DTrace buffer, under a reserved id.
//!
//! Layout of each: the id `FFFFFFFF`, a time in two words, CRC-32C of type, length and payload, type (1 a record, 2 and 3
//! the beginning and end of a snapshot, 4 a loss), length, payload, zeros up to a multiple of 4. DTrace's own records follow
//! them.

use quipu_wire::cbor::{self, Value};
use quipu_wire::crc32c;

/// Bytes before the payload.
const HEAD_BYTES: usize = 24;

/// The id that no DTrace record has.
const RESERVED: u32 = u32::MAX;

/// Reads the metadata records at the beginning of a little-endian buffer and returns them with the offset of DTrace's own
/// records. `None` if the buffer does not begin with such a record, or if one of them is damaged.
#[must_use]
pub fn records(bytes: &[u8]) -> Option<(Vec<Value>, usize)> {
    const RECORD: u32 = 1;
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let mut records = Vec::new();
    let mut at = 0;
    while word(at) == Some(RESERVED) {
        let len = word(at + 20)? as usize;
        let end = at.checked_add(HEAD_BYTES)?.checked_add(len)?;
        let guarded = bytes.get(at + 16..end)?;
        if crc32c(guarded) != word(at + 12)? {
            return None;
        }
        if word(at + 16)? == RECORD {
            records.push(cbor::decode(&bytes[at + HEAD_BYTES..end]).ok()?.value);
        }
        at = end.next_multiple_of(4);
    }
    (at > 0).then_some((records, at))
}
