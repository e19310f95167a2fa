//! Open frames, as a program lays them out in a file that it has mapped: room with a final header and trailer, whose payload
//! changes in place.
//!
//! This module neither maps files nor shares memory. It defines the bytes, and the order in which a program has to store
//! them. SPEC: stream.md#open-frames.

use crate::frame::{self, HEADER_BYTES, Header, encoding, kind};
use crate::session::OPEN_HEAD_BYTES;
use quipu_wire::{crc32c, crc32c_append};

/// An open frame with room for `room` bytes of rows, a multiple of 8. Header and trailer are final; the payload is zeros,
/// which means vacant.
#[must_use]
pub fn vacant(producer: u64, epoch: u32, room: u32) -> Vec<u8> {
    let len = OPEN_HEAD_BYTES as u32 + room.next_multiple_of(8);
    let header = Header {
        kind: kind::OPEN,
        words: (HEADER_BYTES / 8) as u8, // 12.
        encoding: encoding::PLAIN,
        producer,
        epoch,
        stored_len: len,
        raw_len: len,
        ..Header::default()
    };
    let mut out = header.to_bytes().to_vec();
    out.resize(HEADER_BYTES + len as usize, 0);
    frame::finish(&header, &mut out);
    out
}

/// Fields at the head of a room when it is begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begin {
    /// Stream.
    pub stream: u32,
    /// The sequence number of the rows as a frame.
    pub seq: u64,
    /// Number of metadata records needed to read the rows.
    pub meta_version: u32,
    /// Number of records lost before these rows.
    pub lost: u32,
    /// Smallest time, if known; otherwise 0.
    pub ts_first: u64,
}

/// Begins a room: zeroes its rows and sets the state to vacant, then writes the head, and last stores state and stream in
/// one word.
pub fn begin(payload: &mut [u8], begin: &Begin) {
    payload.fill(0);
    let mut put = |at: usize, bytes: &[u8]| payload[at..at + bytes.len()].copy_from_slice(bytes);
    put(8, &begin.seq.to_le_bytes());
    put(16, &begin.meta_version.to_le_bytes());
    put(20, &begin.lost.to_le_bytes());
    put(24, &begin.ts_first.to_le_bytes());
    const OPEN: u64 = 1;
    put(0, &(OPEN | u64::from(begin.stream) << 32).to_le_bytes());
}

/// Stores a record at offset `at` of the rows: first the size, then time and body, and last the schema, which makes the
/// record valid. Returns the offset of the next record, or `None` if there is no room.
pub fn store(payload: &mut [u8], at: usize, schema: u32, time: u64, body: &[u8]) -> Option<usize> {
    let size = (16 + body.len()).next_multiple_of(8);
    let row = payload.get_mut(OPEN_HEAD_BYTES + at..OPEN_HEAD_BYTES + at + size)?;
    row[4..8].copy_from_slice(&u32::try_from(size).ok()?.to_le_bytes());
    row[8..16].copy_from_slice(&time.to_le_bytes());
    row[16..16 + body.len()].copy_from_slice(body);
    row[..4].copy_from_slice(&schema.to_le_bytes());
    Some(at + size)
}

/// Closes a room in place: from now on a checksum guards its contents.
pub fn close(payload: &mut [u8], used: u32, records: u32, ts_last: u64) {
    payload[32..40].copy_from_slice(&ts_last.to_le_bytes());
    payload[40..44].copy_from_slice(&used.to_le_bytes());
    payload[44..48].copy_from_slice(&records.to_le_bytes());
    const CLOSED: u32 = 2;
    // The checksum covers the head in its final form.
    let mut head = [0; 48];
    head.copy_from_slice(&payload[..48]);
    head[..4].copy_from_slice(&CLOSED.to_le_bytes());
    let rows = &payload[OPEN_HEAD_BYTES..OPEN_HEAD_BYTES + used as usize];
    let crc = crc32c_append(crc32c(&head), rows);
    payload[48..52].copy_from_slice(&crc.to_le_bytes());
    payload[..4].copy_from_slice(&CLOSED.to_le_bytes());
}
