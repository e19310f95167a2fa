//! Opens a large file by its indexes: lists the frames without reading all of them.
//!
//! An index is a hint. Each header is checked when its frame is read, and metadata frames are read and checked here. Where a
//! chain of indexes breaks off, the rest of the file is scanned.

use crate::frame::{HEADER_BYTES, Header, SMALLEST_FRAME, TRAILER, TRAILER_BYTES, encoding, kind};
use crate::input::Input;
use crate::scan::FrameAt;
use crate::session::{INDEX_ENTRY_BYTES, INDEX_HEAD_BYTES};
use quipu_wire::crc32c;
use std::io;

/// The entry of an index for one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Offset of the frame in the file.
    pub offset: u64,
    /// Length of the frame in bytes.
    pub len_bytes: u32,
    /// Kind, see [`kind`].
    pub kind: u8,
    /// Codec, see [`crate::frame::codec`].
    pub codec: u8,
    /// Encoding, see [`encoding`].
    pub encoding: u16,
    /// The first 8 bytes of the producer's UUID.
    pub producer: u64,
    /// Stream of the producer.
    pub stream: u32,
    /// Number of records in the frame.
    pub records: u32,
    /// Smallest and largest time in the frame.
    pub times: (u64, u64),
    /// Sequence number in the stream.
    pub seq: u64,
}

impl Entry {
    fn read(index_at: u64, bytes: &[u8]) -> Option<Entry> {
        let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        Some(Entry {
            offset: index_at.checked_sub(u64_at(0)?)?,
            len_bytes: u32_at(8)?,
            kind: *bytes.get(12)?,
            codec: *bytes.get(13)?,
            encoding: u16::from_le_bytes([*bytes.get(14)?, *bytes.get(15)?]),
            producer: u64_at(16)?,
            stream: u32_at(24)?,
            records: u32_at(28)?,
            times: (u64_at(32)?, u64_at(40)?),
            seq: u64_at(48)?,
        })
    }

    /// The frame, with the header fields that an index has: the epoch and the fields needed to read the payload are missing.
    /// `None` if the length is too short for a frame.
    #[must_use]
    pub fn frame(&self) -> Option<FrameAt> {
        let stored_len = self.len_bytes.checked_sub(SMALLEST_FRAME as u32)?;
        let header = Header {
            kind: self.kind,
            codec: self.codec,
            words: (HEADER_BYTES / 8) as u8, // 12.
            encoding: self.encoding,
            stored_len,
            producer: self.producer,
            stream: self.stream,
            records: self.records,
            seq: self.seq,
            ts_first: self.times.0,
            ts_last: self.times.1,
            ..Header::default()
        };
        Some(FrameAt { offset: self.offset, header })
    }
}

/// The frames of a file, from its indexes, in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    /// All frames except index frames, and END frames that no index lists.
    pub entries: Vec<Entry>,
    /// Offsets of the frames that no index lists: the indexes themselves, and END frames that lead to one.
    pub others: Vec<u64>,
}

impl Directory {
    /// Follows the chain of indexes from the end of a file of `size` bytes. `None` if the chain does not lead back to the
    /// first byte of the file. In a file of several streams, each has to have an index.
    ///
    /// # Errors
    /// Returns an error if the input cannot be read.
    pub fn read(input: &mut impl Input, size: u64) -> io::Result<Option<Directory>> {
        let mut parts: Vec<Vec<Entry>> = Vec::new();
        let mut others = Vec::new();
        let mut end = size;
        while end > 0 {
            let Some(last) = frame_before(input, end)? else { return Ok(None) };
            let mut index_at = match last.header.kind {
                kind::INDEX => Some(last.offset),
                kind::END => end_index(input, &last)?,
                _ => None,
            };
            if last.header.kind == kind::END {
                others.push(last.offset);
            }
            let mut first = None;
            while let Some(at) = index_at {
                let Some((entries, back)) = read_index(input, at)? else { return Ok(None) };
                first = entries.first().map(|entry| entry.offset).or(first);
                parts.push(entries);
                others.push(at);
                // Distances only lead backwards, so the loop ends.
                index_at = if back == 0 { None } else { at.checked_sub(back) };
            }
            match first.filter(|first| *first < end) {
                Some(first) => end = first,
                None => return Ok(None),
            }
        }
        parts.reverse();
        others.reverse();
        Ok(Some(Directory { entries: parts.concat(), others }))
    }

    /// The first frame of a stream that may have records at or after a time: its index in `entries`.
    #[must_use]
    pub fn seek_time(&self, producer: u64, stream: u32, time: u64) -> Option<usize> {
        self.entries.iter().position(|entry| {
            entry.kind == kind::DATA
                && (entry.producer, entry.stream) == (producer, stream)
                && entry.times.1 >= time
        })
    }

    /// The frame with data record number `record`, counted over all streams: its index in `entries`, and the number of
    /// records in the frame before that one.
    #[must_use]
    pub fn seek_record(&self, record: u64) -> Option<(usize, u64)> {
        let mut before = 0;
        for (at, entry) in self.entries.iter().enumerate().filter(|(_, entry)| entry.kind == kind::DATA) {
            let n = u64::from(entry.records);
            if record < before + n {
                return Some((at, record - before));
            }
            before += n;
        }
        None
    }
}

/// The frame whose header is at `offset`; `None` if there is no valid header.
///
/// # Errors
/// Returns an error if the input cannot be read.
pub fn frame_at(input: &mut impl Input, offset: u64) -> io::Result<Option<FrameAt>> {
    let bytes = input.get(offset, 512)?;
    let header = bytes.starts_with(&crate::frame::SYNC).then(|| Header::read(bytes)).and_then(Result::ok);
    Ok(header.filter(Header::is_within_limits).map(|header| FrameAt { offset, header }))
}

/// The header bytes of a frame after the first 96, which indexes do not have. Empty if there are none.
///
/// # Errors
/// Returns an error if the input cannot be read.
pub fn extension(input: &mut impl Input, offset: u64) -> io::Result<Vec<u8>> {
    let Some(frame) = frame_at(input, offset)? else { return Ok(Vec::new()) };
    let len = usize::from(frame.header.words) * 8;
    Ok(input.get(offset, len)?.get(HEADER_BYTES..len).unwrap_or_default().to_vec())
}

/// The frame whose trailer ends at `end`.
fn frame_before(input: &mut impl Input, end: u64) -> io::Result<Option<FrameAt>> {
    let Some(at) = end.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    let trailer = input.get(at, TRAILER_BYTES)?;
    let Some(trailer) = trailer.first_chunk::<TRAILER_BYTES>() else { return Ok(None) };
    let len = u64::from(u32::from_le_bytes([trailer[0], trailer[1], trailer[2], trailer[3]]));
    if trailer[4..] != TRAILER || len < SMALLEST_FRAME || len > end {
        return Ok(None);
    }
    let frame = frame_at(input, end - len)?;
    Ok(frame.filter(|frame| frame.header.frame_len() == len))
}

/// The payload of a frame that is neither compressed nor masked, if its checksum is right.
fn plain_payload<'a>(input: &'a mut impl Input, frame: &FrameAt) -> io::Result<Option<&'a [u8]>> {
    let len = frame.header.stored_len as usize; // Within the limits.
    let bytes = input.get(frame.payload_at(), len)?;
    let is_plain = frame.header.codec == 0 && frame.header.mask == 0;
    Ok(bytes.get(..len).filter(|bytes| is_plain && crc32c(bytes) == frame.header.payload_crc))
}

/// Offset of the last index, from the payload of an END frame.
fn end_index(input: &mut impl Input, end: &FrameAt) -> io::Result<Option<u64>> {
    let Some(payload) = plain_payload(input, end)? else { return Ok(None) };
    let map = quipu_wire::cbor::decode(payload).ok();
    let back = map.and_then(|map| map.value.get(3)?.as_u64()).filter(|back| *back > 0);
    Ok(back.and_then(|back| end.offset.checked_sub(back)))
}

/// The entries of an index, and the distance back to the index before it (0: none).
pub(crate) fn read_index(input: &mut impl Input, at: u64) -> io::Result<Option<(Vec<Entry>, u64)>> {
    let Some(frame) = frame_at(input, at)? else { return Ok(None) };
    if frame.header.kind != kind::INDEX || frame.header.encoding != encoding::INDEX {
        return Ok(None);
    }
    let Some(payload) = plain_payload(input, &frame)? else { return Ok(None) };
    let (Some(head), Some(entries)) =
        (payload.first_chunk::<INDEX_HEAD_BYTES>(), payload.get(INDEX_HEAD_BYTES..))
    else {
        return Ok(None);
    };
    let [c0, c1, c2, c3, _, _, _, _, back @ ..] = *head;
    let back = u64::from_le_bytes(back);
    let count = u64::from(u32::from_le_bytes([c0, c1, c2, c3]));
    // An empty index names no frame from which the walk could continue.
    if count == 0 || entries.len() as u64 != count * INDEX_ENTRY_BYTES as u64 {
        return Ok(None);
    }
    let entries = entries.chunks_exact(INDEX_ENTRY_BYTES).map(|entry| Entry::read(at, entry));
    Ok(entries.collect::<Option<Vec<Entry>>>().map(|entries| (entries, back)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_of_nothing_or_with_a_wrong_count_is_none() {
        let read = |count: u32, n_entries: usize| {
            let mut payload = [count.to_le_bytes(), [0; 4], [0; 4], [0; 4]].concat();
            payload.resize(INDEX_HEAD_BYTES + n_entries * INDEX_ENTRY_BYTES, 0);
            let mut header = Header { kind: kind::INDEX, encoding: encoding::INDEX, ..Header::default() };
            let mut file = Vec::new();
            let raw_len = payload.len() as u32;
            crate::frame::write_frame(&mut header, raw_len, &mut payload, &mut file).unwrap();
            read_index(&mut &file[..], 0).unwrap().map(|(entries, _)| entries.len())
        };
        assert_eq!((read(2, 2), read(0, 0), read(1, 2), read(3, 2)), (Some(2), None, None, None));
    }
}
