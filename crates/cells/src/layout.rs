//! The layout of recordings: frames of a stream, in a file that the program has mapped. SPEC: stream.md#cells.
//!
//! A recording begins with the process page, an open frame of plain rows: how the process began and how it ended. The
//! metadata follow, then the data of threads: open frames, which are the buffers to which threads write cells, and closed
//! frames with the contents of full buffers. All integers are little-endian and aligned.

use crate::checksum;

/// The bytes at the beginning of every frame.
pub const SYNC: [u8; 8] = [0xf5, 0x51, 0x50, 0x55, 0x31, 0x0d, 0x0a, 0x1a];
/// The bytes at the end of every frame.
pub const TRAILER: [u8; 4] = *b"QPUE";
/// Bytes of a frame header.
pub const HEADER_BYTES: usize = 96;
/// Bytes of a frame trailer.
pub const TRAILER_BYTES: usize = 8;
/// Bytes of the head of an open frame's payload.
pub const OPEN_HEAD_BYTES: usize = 64;

/// Kinds of frames.
pub mod kind {
    /// Metadata records.
    pub const META: u8 = 1;
    /// Data records.
    pub const DATA: u8 = 2;
    /// End of a producer.
    pub const END: u8 = 5;
    /// A buffer that a program is still writing.
    pub const OPEN: u8 = 9;
}

/// Encodings of payloads.
pub mod encoding {
    /// CBOR items.
    pub const CBOR: u16 = 1;
    /// Plain rows.
    pub const PLAIN: u16 = 16;
    /// Payload of an end.
    pub const END: u16 = 81;
    /// Cells: a private encoding, which each recording describes ([`crate::describe`]).
    pub const CELLS: u16 = 0xce11;
}

/// Flags of frames.
pub mod flag {
    /// The first frame of a snapshot.
    pub const SNAPSHOT_START: u16 = 2;
    /// The last frame of a snapshot.
    pub const SNAPSHOT_END: u16 = 4;
}

/// The header of an uncompressed frame, without fixed fields and its own checksum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Frame {
    /// See [`kind`].
    pub kind: u8,
    /// See [`encoding`].
    pub encoding: u16,
    /// See [`flag`].
    pub flags: u16,
    /// Bytes of the payload.
    pub len: u32,
    /// The first 8 bytes of the producer's UUID.
    pub producer: u64,
    /// Number of the stream, among those of the producer.
    pub stream: u32,
    /// Number of metadata records that a reader needs, or knows after this frame.
    pub meta_version: u32,
    /// Number of records in the payload.
    pub records: u32,
    /// Number of the frame in its stream.
    pub seq: u64,
    /// Smallest and largest time of the records.
    pub times: [u64; 2],
    /// CRC-32C of the payload; 0 in open frames.
    pub payload_crc: u32,
}

impl Frame {
    /// Encodes the header.
    #[must_use]
    pub fn header(&self) -> [u8; HEADER_BYTES] {
        let mut all = [0; HEADER_BYTES];
        all[..8].copy_from_slice(&SYNC);
        all[8..12].copy_from_slice(&[1, self.kind, 0, (HEADER_BYTES / 8) as u8]); // 12.
        all[12..14].copy_from_slice(&self.encoding.to_le_bytes());
        all[14..16].copy_from_slice(&self.flags.to_le_bytes());
        all[16..20].copy_from_slice(&self.len.to_le_bytes());
        all[20..24].copy_from_slice(&self.len.to_le_bytes());
        all[24..32].copy_from_slice(&self.producer.to_le_bytes());
        all[32..36].copy_from_slice(&self.stream.to_le_bytes());
        all[40..44].copy_from_slice(&self.meta_version.to_le_bytes());
        all[44..48].copy_from_slice(&self.records.to_le_bytes());
        all[48..56].copy_from_slice(&self.seq.to_le_bytes());
        all[56..64].copy_from_slice(&self.times[0].to_le_bytes());
        all[64..72].copy_from_slice(&self.times[1].to_le_bytes());
        all[84..88].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = checksum::of(&all[..92]);
        all[92..].copy_from_slice(&crc.to_le_bytes());
        all
    }

    /// Bytes of the whole frame.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        (HEADER_BYTES + self.len as usize).next_multiple_of(8) + TRAILER_BYTES
    }

    /// Encodes the trailer.
    #[must_use]
    pub fn trailer(&self) -> [u8; TRAILER_BYTES] {
        let mut trailer = [0; TRAILER_BYTES];
        trailer[..4].copy_from_slice(&(self.bytes() as u32).to_le_bytes()); // A few hundred thousand.
        trailer[4..].copy_from_slice(&TRAILER);
        trailer
    }

    /// Writes the whole frame, whose payload has [`Frame::len`] bytes, to the front of `zeros`, and returns that part.
    ///
    /// # Panics
    /// If `zeros` is too small.
    pub fn put<'a>(&self, payload: &[u8], zeros: &'a mut [u8]) -> &'a [u8] {
        let n_bytes = self.bytes();
        zeros[..HEADER_BYTES].copy_from_slice(&self.header());
        zeros[HEADER_BYTES..][..payload.len()].copy_from_slice(payload);
        zeros[n_bytes - TRAILER_BYTES..n_bytes].copy_from_slice(&self.trailer());
        &zeros[..n_bytes]
    }

    /// The header of the process page, with which a recording begins.
    #[must_use]
    pub fn page(producer: u64) -> Frame {
        Frame {
            kind: kind::OPEN,
            encoding: encoding::PLAIN,
            len: (process::PAGE_BYTES - HEADER_BYTES - TRAILER_BYTES) as u32, // Less than a page.
            producer,
            ..Frame::default()
        }
    }
}

/// Offsets of fields in an open frame.
pub mod open {
    use super::HEADER_BYTES;

    /// State and stream number, stored together.
    pub const STATE: usize = HEADER_BYTES;
    /// Number of the frame that the cells will become.
    pub const SEQ: usize = HEADER_BYTES + 8;
    /// Number of metadata records that a reader needs, in the lower half of 8 bytes.
    pub const META_VERSION: usize = HEADER_BYTES + 16;
    /// In the upper half of the same 8 bytes: number of later records of the thread that were lost because the file could not
    /// grow.
    pub const LOST: usize = META_VERSION;
    /// A time before the first cell: the previous stamp of the thread.
    pub const TS_FIRST: usize = HEADER_BYTES + 24;
    /// The tag: the upper 16 bits of valid cells, in place.
    pub const TAG: usize = HEADER_BYTES + 56;
    /// Time when the buffer was begun, in ns since the recording began.
    pub const NS: usize = HEADER_BYTES + 64;
    /// Number of times the buffer was begun, from which the tag is derived.
    pub const GENERATION: usize = HEADER_BYTES + 72;
    /// For the program itself: whether a thread owns the buffer.
    pub const OWNER: usize = HEADER_BYTES + 80;
    /// For the program itself: number of continuation cells and of padding cells.
    pub const EXTRA: usize = HEADER_BYTES + 88;
}

/// State of an open frame that is empty.
pub const VACANT: u64 = 0;
/// State of an open frame that is being written.
pub const OPEN: u64 = 1;

/// Size and alignment of a buffer in memory; the address of a cell determines its buffer.
pub const BUFFER_BYTES: usize = 256 << 10;
/// Bytes of a buffer in the file: an open frame. The rest of its memory catches cursors that run past the end.
pub const FRAME_BYTES: usize = BUFFER_BYTES - (32 << 10);
/// Offset of the first cell in a buffer.
pub const CELLS_START: usize = HEADER_BYTES + OPEN_HEAD_BYTES + CELLS_HEAD_BYTES;
/// End of the cells; the trailer follows.
pub const CELLS_END: usize = FRAME_BYTES - 2 * TRAILER_BYTES;
/// Number of cells in a buffer.
pub const BUFFER_CELLS: usize = (CELLS_END - CELLS_START) / crate::cell::CELL_BYTES;
/// Bytes before the cells of an open frame, after the head that all open frames have.
pub const CELLS_HEAD_BYTES: usize = 32;
/// Alignment of buffers in the file, so that they can be mapped.
pub const PAGE_BYTES: u64 = 4096;
/// Alignment of other frames.
pub const FRAME_ALIGN: u64 = 8;

/// Bytes before the tokens of a closed frame.
pub const PACKED_HEAD_BYTES: usize = 16;
/// Maximum bytes of the tokens of a closed frame.
pub const MAX_PACKED_BYTES: usize = crate::pack::most_bytes(BUFFER_CELLS);

/// Encodes the head of a closed frame's payload: the number of cells, and when the buffer was begun, in ns since the
/// recording began.
///
/// No payload may contain the bytes with which a frame begins; all of these are larger than 0. The head cannot, since the
/// last four bytes of the small number and the last byte of the time are zeros. For tokens, see [`crate::pack`].
#[must_use]
pub fn packed_head(n_cells: usize, ns: u64) -> [u8; PACKED_HEAD_BYTES] {
    let mut head = [0; PACKED_HEAD_BYTES];
    head[..4].copy_from_slice(&(n_cells as u32).to_le_bytes()); // At most `BUFFER_CELLS`.
    head[8..].copy_from_slice(&(ns & ((1 << 56) - 1)).to_le_bytes());
    head
}

/// Splits a closed frame's payload into the number of cells, the time, and the tokens; `None` if it is malformed.
#[must_use]
pub fn read_packed(payload: &[u8]) -> Option<(usize, u64, &[u8])> {
    let (head, tokens) = payload.split_at_checked(PACKED_HEAD_BYTES)?;
    let (words, _) = head.as_chunks::<8>();
    let [n_cells, ns] = words.try_into().ok()?;
    let n_cells = usize::try_from(u64::from_le_bytes(n_cells)).ok()?;
    (n_cells <= BUFFER_CELLS).then_some((n_cells, u64::from_le_bytes(ns), tokens))
}

/// The tag of a buffer that was begun for the `generation`-th time, in place; never 0.
#[must_use]
pub const fn tag(generation: u64) -> u64 {
    (1 + generation % 0xffff) << 48
}

/// The page with which a recording begins: an open frame of stream 0, with plain rows about the process.
pub mod process {
    use super::{HEADER_BYTES, OPEN_HEAD_BYTES};

    /// Offset of the word by which other processes control the recording: 0, or [`PAUSED`]. Its lower half is the checksum
    /// of a page that is closed, which this one never is.
    pub const CONTROL: usize = HEADER_BYTES + 48;
    /// The process records nothing more, from the time when a buffer of a thread is full, until the word is 0 again.
    pub const PAUSED: u64 = 1 << 32;
    /// Bytes of the page.
    pub const PAGE_BYTES: usize = 4096;
    /// Bytes of a row: schema, size, time, and the four fields below.
    pub const ROW_BYTES: usize = 48;
    /// Offset of the first row.
    pub const FIRST_ROW: usize = HEADER_BYTES + OPEN_HEAD_BYTES;
    /// Maximum number of rows: one for the start, and one for each kind of end.
    pub const MAX_ROWS: usize = 4;
    /// Frame number of these rows in stream 0, after the metadata.
    pub const SEQ: u64 = 2;
    /// Offset in a row: what happened.
    pub const WHAT: usize = 16;
    /// Offset in a row: ns since the recording began.
    pub const NS: usize = 24;
    /// Offset in a row: process id.
    pub const PID: usize = 32;
    /// Offset in a row: id of the process that it was forked from, if that was recorded; otherwise 0.
    pub const PARENT: usize = 40;

    /// The recording began.
    pub const BEGAN: u64 = 0;
    /// The program exited normally.
    pub const EXITED: u64 = 1;
    /// The file reached its maximum size; later events were not recorded.
    pub const SIZE_REACHED: u64 = 2;
    /// The disk was full; later events were not recorded.
    pub const DISK_FULL: u64 = 3;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_a_frame_of_whole_cells() {
        let frame = Frame {
            len: (FRAME_BYTES - HEADER_BYTES - TRAILER_BYTES) as u32,
            kind: kind::OPEN,
            ..Frame::default()
        };
        assert_eq!(frame.bytes(), FRAME_BYTES);
        assert_eq!((CELLS_END - CELLS_START) % crate::cell::CELL_BYTES, 0);
        assert_eq!(CELLS_START % 64, 0);
        const { assert!(CELLS_END + TRAILER_BYTES <= FRAME_BYTES) };
        const { assert!(process::FIRST_ROW + process::MAX_ROWS * process::ROW_BYTES < process::PAGE_BYTES) };
    }
}
