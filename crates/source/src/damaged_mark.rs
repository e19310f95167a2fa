//! Recognises packed files with damaged magic bytes, from the fields after them.
//!
//! Such a file is opened with its codec, so that reading it reports the damaged magic bytes. Otherwise each format would see
//! packed bytes and report that it does not know them.

use xxhash_rust::xxh32::xxh32;

use crate::codec::{Codec, SNIFF_BYTES, begins_a_stream};

/// Number of bytes that a deflate stream must yield before an error for the file to count as gzip: other bytes fail earlier.
const MIN_DEFLATED_BYTES: u64 = 16;

/// The codec whose magic bytes are at the start of `head` with exactly one error, if the fields after them look like those of
/// that codec.
pub(crate) fn codec_behind(head: &[u8]) -> Option<Codec> {
    let is_near = |mark: &[u8]| n_wrong(head, mark) == Some(1);
    if is_near(&[0x1f, 0x8b, 8]) && begins_gzip(head) {
        Some(Codec::Gzip)
    } else if is_near(b"PK\x03\x04") && begins_zip(head) {
        Some(Codec::Zip)
    } else if is_near(&[0x04, 0x22, 0x4d, 0x18]) && begins_lz4(head) {
        Some(Codec::Lz4)
    } else if is_near(&[0x28, 0xb5, 0x2f, 0xfd]) && begins_zstd(head) {
        Some(Codec::Zstd)
    } else if is_near(b"\xff\x06\0\0sNaPpY") {
        Some(Codec::Snappy)
    } else if is_near(b"at") && matches!(head, [_, _, _, _, _, 0..=3, block @ ..] if begins_a_stream(block)) {
        Some(Codec::SnappyChunks)
    } else {
        None
    }
}

/// Number of bytes in which `head` differs from `mark`; `None` if `head` is shorter.
fn n_wrong(head: &[u8], mark: &[u8]) -> Option<usize> {
    let start = head.get(..mark.len())?;
    Some(start.iter().zip(mark).filter(|(found, expected)| found != expected).count())
}

/// True if the fixed gzip header has legal flags and the data after it inflates.
fn begins_gzip(head: &[u8]) -> bool {
    const OTHER_FIELDS: u8 = !NAME;
    const NAME: u8 = 1 << 3;
    let [_, _, _, flags, _, _, _, _, extra_flags, _, rest @ ..] = head else { return false };
    if flags & OTHER_FIELDS != 0 || !matches!(extra_flags, 0 | 2 | 4) {
        return false;
    }
    let name_bytes = match flags & NAME {
        0 => Some(0),
        _ => rest.iter().position(|byte| *byte == 0).map(|end| end + 1),
    };
    let Some(data) = name_bytes.and_then(|n_bytes| rest.get(n_bytes..)) else { return false };
    let mut probe = flate2::Decompress::new(false);
    let mut out = [0; SNIFF_BYTES];
    let status = probe.decompress(data, &mut out, flate2::FlushDecompress::None);
    status.is_ok() && probe.total_out() >= MIN_DEFLATED_BYTES
}

/// True if the header of a member has a known version, known flags and a known method, and its name is text.
fn begins_zip(head: &[u8]) -> bool {
    const NAME_AT: usize = 30;
    const NEWEST_VERSION: u8 = 63;
    let [_, _, _, _, version, _, _, flags, method, 0, ..] = head else { return false };
    let (Some(len), Some(name)) = (head.get(26..28), head.get(NAME_AT..)) else { return false };
    let len = usize::from(u16::from_le_bytes([len[0], len[1]]));
    let is_text = |byte: &u8| *byte >= b' ';
    *version <= NEWEST_VERSION
        && flags & 0xf0 == 0
        && matches!(method, 0 | 8)
        && len > 0
        && !name.is_empty()
        && name.iter().take(len).all(is_text)
}

/// True if the checksum of the frame header is right.
fn begins_lz4(head: &[u8]) -> bool {
    let Some(flags) = head.get(4) else { return false };
    let n_described = 2 + 8 * usize::from(flags >> 3 & 1) + 4 * usize::from(flags & 1);
    let described = head.get(4..4 + n_described);
    let found = described.map(|described| (xxh32(described, 0) >> 8) as u8); // The second byte is stored.
    flags >> 6 == 1 && found.is_some() && found == head.get(4 + n_described).copied()
}

/// True if the frame header has no reserved bit set, and the first block has a legal type and size.
fn begins_zstd(head: &[u8]) -> bool {
    const RESERVED: u8 = 1 << 3;
    const MAX_BLOCK_BYTES: u32 = 128 << 10;
    let Some(descriptor) = head.get(4) else { return false };
    let is_single = descriptor >> 5 & 1 == 1;
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size_bytes = match descriptor >> 6 {
        0 => usize::from(is_single),
        exponent => 1 << exponent,
    };
    let at = 5 + usize::from(!is_single) + dictionary_bytes + size_bytes;
    let Some([low, middle, high]) = head.get(at..at + 3) else { return false };
    let block = u32::from_le_bytes([*low, *middle, *high, 0]);
    descriptor & RESERVED == 0 && block >> 1 & 3 != 3 && block >> 3 <= MAX_BLOCK_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_bytes_are_not_taken_for_damaged_marks() {
        let texts: [&[u8]; 6] = [
            b"it is said that gzip, zip and zstd have marks, and this text has none of them",
            b"PKcs7 is no archive, and neither is this text, however long it may become here",
            &[0x19, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0x1c, 0, 12, 0, 6, 0, 0, 0, 0, 0, 0, 0],
            &[0x04, 0x22, 0x4d, 0x19, 0x64, 0x40, 0xff, 0, 0, 0, 0],
            &[0x1f, 0x8b, 9, 0, 0, 0, 0, 0, 0, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            b"",
        ];
        for text in texts {
            assert_eq!(codec_behind(text), None, "{}", text.escape_ascii());
        }
        // Any two consecutive bytes may occur at the start of random data.
        let mut state = 1u64;
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..64)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect();
            assert_eq!(codec_behind(&bytes), None, "{bytes:x?}");
        }
    }
}
