//! Frames: the header of 96 bytes, its constants and limits, and writing a payload as a frame.
//!
//! SPEC: stream.md#frames.

use quipu_wire::{crc32c, crc32c_append};
use std::io;

/// The first bytes of a frame. No stored payload contains them, except payloads of open frames, which are never masked.
pub const SYNC: [u8; 8] = [0xF5, 0x51, 0x50, 0x55, 0x31, 0x0D, 0x0A, 0x1A];

/// The last bytes of a frame.
pub const TRAILER: [u8; 4] = *b"QPUE";

/// Length of a header in bytes, without an extension.
pub const HEADER_BYTES: usize = 96;

/// Bytes of a trailer: the frame's length and [`TRAILER`].
pub const TRAILER_BYTES: usize = 8;

/// Length in bytes of a frame without payload.
pub const SMALLEST_FRAME: u64 = (HEADER_BYTES + TRAILER_BYTES) as u64;

/// The frame version that this crate reads and writes.
pub const VERSION: u8 = 1;

/// Value of `lost` in a frame if the number is unknown or larger.
pub const LOST_MANY: u32 = u32::MAX;

/// Readers refuse frames with a larger stored payload.
pub const MAX_STORED_BYTES: u32 = 64 << 20;

/// Readers refuse frames with a larger decompressed payload.
pub const MAX_RAW_BYTES: u32 = 256 << 20;

/// Kinds of frames.
pub mod kind {
    /// Padding, to be skipped.
    pub const PAD: u8 = 0;
    /// Metadata records.
    pub const META: u8 = 1;
    /// Data records.
    pub const DATA: u8 = 2;
    /// A loss.
    pub const LOSS: u8 = 3;
    /// Positions of earlier frames.
    pub const INDEX: u8 = 4;
    /// The end of a producer.
    pub const END: u8 = 5;
    /// Aggregations.
    pub const AGG: u8 = 6;
    /// A correlation of clocks.
    pub const CLOCK: u8 = 7;
    /// A piece of an attachment.
    pub const BLOB: u8 = 8;
    /// A buffer that a program is still writing.
    pub const OPEN: u8 = 9;
}

/// Codecs of payloads.
pub mod codec {
    /// Not compressed.
    pub const NONE: u8 = 0;
    /// One LZ4 block.
    pub const LZ4: u8 = 1;
    /// One Zstandard frame.
    pub const ZSTD: u8 = 2;
}

/// Encodings of payloads.
pub mod encoding {
    /// No payload.
    pub const NONE: u16 = 0;
    /// CBOR items.
    pub const CBOR: u16 = 1;
    /// Plain rows.
    pub const PLAIN: u16 = 16;
    /// Packed rows.
    pub const PACKED: u16 = 17;
    /// A complete Arrow IPC stream.
    pub const ARROW: u16 = 18;
    /// Packed rows with repetitions.
    pub const RUNS: u16 = 19;
    /// The first encoding number for bodies of other formats.
    pub const FIRST_FOREIGN: u16 = 32;
    /// A DTrace principal buffer.
    pub const DTRACE: u16 = 32;
    /// Samples of DTrace on Linux.
    pub const DTRACE_LINUX: u16 = 33;
    /// Entries of drmemtrace.
    pub const DRMEMTRACE: u16 = 34;
    /// Records of Cacheray.
    pub const CACHERAY: u16 = 35;
    /// Event slots of Prism in their fixed form.
    pub const PRISM: u16 = 36;
    /// Events of apitrace.
    pub const APITRACE: u16 = 37;
    /// Events of Prism in their variable form, beginning with the configuration.
    pub const PRISM_VARIABLE: u16 = 38;
    /// Reserved for executions.
    pub const EXECUTIONS: u16 = 39;
    /// Lines of text.
    pub const LINES: u16 = 40;
    /// Raw words of DynamoRIO's tracer, before conversion.
    pub const RAW_WORDS: u16 = 41;
    /// The last encoding number for bodies of other formats.
    pub const LAST_FOREIGN: u16 = 41;
    /// Rows as JSON lines.
    pub const JSON: u16 = 48;
    /// Rows of aggregations.
    pub const AGGREGATIONS: u16 = 64;
    /// A DTrace aggregation buffer.
    pub const DTRACE_AGGREGATIONS: u16 = 65;
    /// An index.
    pub const INDEX: u16 = 80;
    /// An end.
    pub const END: u16 = 81;
    /// The first private encoding; all larger numbers are private too.
    pub const FIRST_PRIVATE: u16 = 0x8000;
    /// Cells of programs that record themselves: a private encoding that this crate can decode.
    pub const CELLS: u16 = quipu_cells::layout::encoding::CELLS;
}

/// Flags of frames.
pub mod flag {
    /// A reader that does not understand the frame must stop.
    pub const CRITICAL: u16 = 1;
    /// The first frame of a snapshot.
    pub const SNAPSHOT_START: u16 = 2;
    /// The last frame of a snapshot.
    pub const SNAPSHOT_END: u16 = 4;
    /// Times in the frame may decrease.
    pub const UNORDERED: u16 = 8;
}

/// The header of a frame, without sync bytes, version and header checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// See [`kind`].
    pub kind: u8,
    /// See [`codec`].
    pub codec: u8,
    /// Length of the header in words of 8 bytes.
    pub words: u8,
    /// See [`encoding`].
    pub encoding: u16,
    /// See [`flag`].
    pub flags: u16,
    /// Payload bytes as stored.
    pub stored_len: u32,
    /// Payload bytes after decompression.
    pub raw_len: u32,
    /// The first 8 bytes of the producer's UUID.
    pub producer: u64,
    /// Stream of the producer.
    pub stream: u32,
    /// Epoch of the producer.
    pub epoch: u32,
    /// Number of metadata records needed to read this frame; for META frames: the number known after it.
    pub meta_version: u32,
    /// Data records in the payload.
    pub records: u32,
    /// Sequence number among the frames of this producer and stream.
    pub seq: u64,
    /// Smallest time in the frame, in ticks of the stream's clock.
    pub ts_first: u64,
    /// Largest time in the frame, in ticks of the stream's clock.
    pub ts_last: u64,
    /// Distance in bytes back to the first frame of the last snapshot; 0 if there is none, or it is unknown.
    pub meta_back: u64,
    /// Data records of this stream known to be lost since its previous frame.
    pub lost: u32,
    /// CRC-32C of the stored payload.
    pub payload_crc: u32,
    /// The byte that every stored byte was XORed with.
    pub mask: u8,
}

/// Reason why bytes that begin with [`SYNC`] are not a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// The bytes end within the header.
    Cut,
    /// The checksum or the length of the header is wrong.
    Damaged,
    /// The frame has another version.
    Version(u8),
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Whether these bytes are the trailer of a frame with this header.
pub(crate) fn is_trailer_of(header: &Header, bytes: &[u8]) -> bool {
    let len = (header.frame_len() as u32).to_le_bytes(); // Within the limits.
    bytes.len() == TRAILER_BYTES && bytes[..4] == len && bytes[4..] == TRAILER
}

impl Header {
    /// Reads the header at the front of `bytes`, which have to begin with [`SYNC`].
    ///
    /// # Errors
    /// See [`HeaderFault`].
    pub fn read(bytes: &[u8]) -> Result<Header, HeaderFault> {
        let words = *bytes.get(11).ok_or(HeaderFault::Cut)?;
        if !(12..=64).contains(&words) {
            return Err(HeaderFault::Damaged);
        }
        let len = usize::from(words) * 8;
        let all = bytes.get(..len).ok_or(HeaderFault::Cut)?;
        if crc32c_append(crc32c(&all[..92]), &all[HEADER_BYTES..]) != u32_at(all, 92) {
            return Err(HeaderFault::Damaged);
        }
        if all[8] != VERSION {
            return Err(HeaderFault::Version(all[8]));
        }
        let u16_at = |at: usize| u16::from_le_bytes([all[at], all[at + 1]]);
        Ok(Header {
            kind: all[9],
            codec: all[10],
            words,
            encoding: u16_at(12),
            flags: u16_at(14),
            stored_len: u32_at(all, 16),
            raw_len: u32_at(all, 20),
            producer: u64_at(all, 24),
            stream: u32_at(all, 32),
            epoch: u32_at(all, 36),
            meta_version: u32_at(all, 40),
            records: u32_at(all, 44),
            seq: u64_at(all, 48),
            ts_first: u64_at(all, 56),
            ts_last: u64_at(all, 64),
            meta_back: u64_at(all, 72),
            lost: u32_at(all, 80),
            payload_crc: u32_at(all, 84),
            mask: all[88],
        })
    }

    /// The stored form of the header, without an extension.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut all = [0; HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| all[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &SYNC);
        put(8, &[VERSION, self.kind, self.codec, (HEADER_BYTES / 8) as u8]); // 12.
        put(12, &self.encoding.to_le_bytes());
        put(14, &self.flags.to_le_bytes());
        put(16, &self.stored_len.to_le_bytes());
        put(20, &self.raw_len.to_le_bytes());
        put(24, &self.producer.to_le_bytes());
        put(32, &self.stream.to_le_bytes());
        put(36, &self.epoch.to_le_bytes());
        put(40, &self.meta_version.to_le_bytes());
        put(44, &self.records.to_le_bytes());
        put(48, &self.seq.to_le_bytes());
        put(56, &self.ts_first.to_le_bytes());
        put(64, &self.ts_last.to_le_bytes());
        put(72, &self.meta_back.to_le_bytes());
        put(80, &self.lost.to_le_bytes());
        put(84, &self.payload_crc.to_le_bytes());
        put(88, &[self.mask]);
        let crc = crc32c(&all[..92]);
        all[92..].copy_from_slice(&crc.to_le_bytes());
        all
    }

    /// The stored form of the header with an [extension](Extension), whose length has to be a multiple of 8 and at most 416.
    #[must_use]
    pub fn to_bytes_with(&self, extension: &[u8]) -> Vec<u8> {
        let mut all = self.to_bytes().to_vec();
        all[11] += (extension.len() / 8) as u8; // At most 52.
        let crc = crc32c_append(crc32c(&all[..92]), extension);
        all[92..].copy_from_slice(&crc.to_le_bytes());
        all.extend_from_slice(extension);
        all
    }

    /// Length of the header in bytes, extension included.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        u64::from(self.words) * 8
    }

    /// Length of the whole frame in bytes.
    #[must_use]
    pub fn frame_len(&self) -> u64 {
        (self.len_bytes() + u64::from(self.stored_len)).next_multiple_of(8) + TRAILER_BYTES as u64
    }

    /// Whether the frame is within the limits that readers enforce.
    #[must_use]
    pub fn is_within_limits(&self) -> bool {
        let (stored, raw) = (u64::from(self.stored_len), u64::from(self.raw_len));
        let makes_records = self.encoding == encoding::RUNS || self.encoding >= encoding::FIRST_PRIVATE;
        let max_records = if makes_records { raw.max(1 << 24) } else { raw };
        self.stored_len <= MAX_STORED_BYTES
            && self.raw_len <= MAX_RAW_BYTES
            && (self.codec == codec::NONE || raw <= 1024 * stored + (4 << 20))
            // A metadata item has at least one byte. Other kinds do not use this number.
            && (u64::from(self.records) <= max_records
                || !matches!(self.kind, kind::META | kind::DATA | kind::AGG))
    }

    /// Whether a flag is set.
    #[must_use]
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Whether the kind allows the encoding, and this crate can decode it or return its payload undecoded.
    #[must_use]
    pub fn is_known_encoding(&self) -> bool {
        match self.kind {
            kind::META | kind::LOSS | kind::CLOCK | kind::BLOB => self.encoding == encoding::CBOR,
            kind::DATA => {
                use encoding::{CELLS, JSON, PACKED, PLAIN, RUNS};
                matches!(self.encoding, PLAIN | PACKED | RUNS | JSON | CELLS) || self.is_foreign()
            }
            kind::AGG => matches!(self.encoding, encoding::AGGREGATIONS | encoding::DTRACE_AGGREGATIONS),
            kind::INDEX => self.encoding == encoding::INDEX,
            kind::END => self.encoding == encoding::END,
            kind::OPEN => matches!(self.encoding, encoding::PLAIN | encoding::CELLS),
            _ => true,
        }
    }

    /// Whether the payload belongs to another format and is returned undecoded.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        match self.kind {
            kind::DATA => (encoding::FIRST_FOREIGN..=encoding::LAST_FOREIGN).contains(&self.encoding),
            kind::AGG => self.encoding == encoding::DTRACE_AGGREGATIONS,
            _ => false,
        }
    }
}

/// Header fields of a body beyond the first 96 bytes, from which reading can continue if earlier frames are lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extension {
    /// Payload bytes of the stream in the frames before this one.
    pub bytes_before: u64,
    /// Records of the stream in the frames before this one.
    pub records_before: u64,
    /// State of the body's format at the start of the frame; at most 400 bytes.
    pub state: Vec<u8>,
}

impl Extension {
    /// Reads the bytes after the first 96 of a header; `None` if there are fewer than 16.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Extension> {
        (bytes.len() >= 16).then(|| Extension {
            bytes_before: u64_at(bytes, 0),
            records_before: u64_at(bytes, 8),
            state: bytes[16..].to_vec(),
        })
    }

    /// The stored form, with a length that is a multiple of 8.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut all = [self.bytes_before.to_le_bytes(), self.records_before.to_le_bytes()].concat();
        all.extend_from_slice(&self.state[..self.state.len().min(400)]);
        all.resize(all.len().next_multiple_of(8), 0);
        all
    }
}

/// The smallest mask with which `stored` does not contain [`SYNC`]; 0 if it does not contain it as it is. `None` if none of
/// the 256 masks works, for which a payload has to be crafted.
#[must_use]
pub fn mask_for(stored: &[u8]) -> Option<u8> {
    if memchr::memmem::find(stored, &SYNC).is_none() {
        return Some(0);
    }
    // With mask m, the sync bytes occur where `stored` has SYNC ^ m: adjacent bytes differ as they do in SYNC.
    let mut used = [false; 256];
    for window in stored.windows(SYNC.len()) {
        let mask = window[0] ^ SYNC[0];
        if window.iter().zip(SYNC).all(|(byte, sync)| byte ^ sync == mask) {
            used[usize::from(mask)] = true;
        }
    }
    (0..=u8::MAX).find(|mask| !used[usize::from(*mask)])
}

/// Appends a whole frame. The lengths, the mask and the checksums in `header` are set here; the caller sets the rest.
///
/// # Errors
/// Fails as [`seal`] does.
pub fn write_frame(
    header: &mut Header,
    raw_len: u32,
    stored: &mut [u8],
    out: &mut Vec<u8>,
) -> io::Result<()> {
    seal(header, raw_len, stored)?;
    out.extend_from_slice(&header.to_bytes());
    out.extend_from_slice(stored);
    finish(header, out);
    Ok(())
}

/// Masks a stored payload and sets the header fields that depend on it. Another thread may then write the frame.
///
/// # Errors
/// Returns an error if no mask hides the sync bytes, or if the lengths exceed the limits that readers enforce.
pub fn seal(header: &mut Header, raw_len: u32, stored: &mut [u8]) -> io::Result<()> {
    let refused = |why: &'static str| io::Error::new(io::ErrorKind::InvalidInput, why);
    header.words = (HEADER_BYTES / 8) as u8; // 12.
    header.stored_len = u32::try_from(stored.len()).unwrap_or(u32::MAX);
    header.raw_len = raw_len;
    if !header.is_within_limits() {
        return Err(refused("a payload beyond the limits of a frame"));
    }
    header.mask = mask_for(stored).ok_or_else(|| refused("a payload whose sync bytes no mask hides"))?;
    if header.mask != 0 {
        stored.iter_mut().for_each(|byte| *byte ^= header.mask);
    }
    header.payload_crc = crc32c(stored);
    Ok(())
}

/// Appends the bytes after the payload of a frame: padding and trailer.
pub(crate) fn finish(header: &Header, out: &mut Vec<u8>) {
    let stored = header.stored_len as usize; // 32 bits.
    out.resize(out.len() + stored.next_multiple_of(8) - stored, 0);
    out.extend_from_slice(&(header.frame_len() as u32).to_le_bytes()); // Within the limits.
    out.extend_from_slice(&TRAILER);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written_and_each_flipped_bit_is_noticed() {
        let header = Header {
            kind: kind::DATA,
            words: 12,
            encoding: 16,
            producer: 7,
            seq: 9,
            lost: 3,
            ..Header::default()
        };
        let bytes = header.to_bytes();
        assert_eq!(Header::read(&bytes), Ok(header));
        for bit in 64..HEADER_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::read(&flipped).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_longer_header_is_read_and_its_rest_is_guarded() {
        let header = Header { words: 13, ..Header::default() };
        let mut bytes = [header.to_bytes().as_slice(), &[1; 8]].concat();
        bytes[11] = 13;
        let crc = crc32c_append(crc32c(&bytes[..92]), &bytes[96..]);
        bytes[92..96].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Header::read(&bytes), Ok(header));
        bytes[100] ^= 1;
        assert_eq!(Header::read(&bytes), Err(HeaderFault::Damaged));
        assert_eq!(Header::read(&bytes[..96]), Err(HeaderFault::Cut));
    }

    #[test]
    fn an_extension_is_read_as_it_was_written() {
        let header = Header { kind: kind::DATA, encoding: 36, ..Header::default() };
        let extension = Extension { bytes_before: 7, records_before: 9, state: vec![1; 24] };
        let bytes = header.to_bytes_with(&extension.to_bytes());
        assert_eq!(Header::read(&bytes), Ok(Header { words: 17, ..header }));
        assert_eq!(Extension::read(&bytes[HEADER_BYTES..]), Some(extension));
        let longest = Extension { state: vec![1; 500], ..Extension::default() }.to_bytes();
        let bytes = header.to_bytes_with(&longest);
        assert_eq!((bytes.len(), Header::read(&bytes).map(|header| header.words)), (512, Ok(64)));
    }

    #[test]
    fn the_smallest_mask_that_hides_every_sync_is_taken() {
        assert_eq!(mask_for(b"nothing"), Some(0));
        assert_eq!(mask_for(&SYNC), Some(1));
        let masked = |mask: u8| SYNC.map(|byte| byte ^ mask);
        let payload = [masked(0), masked(1), masked(2)].concat();
        assert_eq!(mask_for(&payload), Some(3));
        let mut hostile: Vec<u8> = (0..=u8::MAX).flat_map(masked).collect();
        assert_eq!(mask_for(&hostile), None);
        assert!(seal(&mut Header::default(), 2048, &mut hostile).is_err());
    }
}
