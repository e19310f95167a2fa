//! Recognising the compression of a file from its first bytes alone.

use crate::damaged_mark::codec_behind;

/// The outermost packing of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Not packed, or packed in a way that this crate does not recognise.
    Plain,
    /// RFC 1952, any number of members one after another.
    Gzip,
    /// RFC 1950.
    Zlib,
    /// A zip archive; its members are stored or deflated.
    Zip,
    /// The LZ4 frame format.
    Lz4,
    /// The snappy framing format, with the private chunk kinds that drmemtrace adds (docs/formats/drmemtrace.md).
    Snappy,
    /// Raw snappy blocks, each preceded by its length, as apitrace writes them (docs/formats/apitrace.md).
    SnappyChunks,
    /// Zstandard frames (RFC 8878).
    Zstd,
    /// Brotli (RFC 7932). It cannot be distinguished from other bytes, so it is never recognised: see
    /// [`Source::container_as`](crate::Source::container_as).
    Brotli,
}

/// Number of bytes with which [`Codec::of`] is certain; fewer are fine at the end of a file.
pub(crate) const SNIFF_BYTES: usize = 512;

impl Codec {
    /// A short lower-case name: `plain`, `gzip`, `zlib`, `zip`, `lz4`, `snappy`, `snappy chunks`, `zstd`, `brotli`.
    pub fn name(self) -> &'static str {
        match self {
            Codec::Plain => "plain",
            Codec::Gzip => "gzip",
            Codec::Zlib => "zlib",
            Codec::Zip => "zip",
            Codec::Lz4 => "lz4",
            Codec::Snappy => "snappy",
            Codec::SnappyChunks => "snappy chunks",
            Codec::Zstd => "zstd",
            Codec::Brotli => "brotli",
        }
    }

    /// True if bytes may prove damaged after they have been delivered, because their checksum comes after them.
    pub fn vouches_late(self) -> bool {
        !matches!(self, Codec::Plain | Codec::Snappy | Codec::SnappyChunks)
    }

    /// Recognises a codec from the first bytes of a file. Magic bytes with one error still count if the fields after them
    /// look like those of the codec; reading then reports the damaged magic bytes.
    pub fn of(head: &[u8]) -> Codec {
        match head {
            [0x1f, 0x8b, 8, ..] => Codec::Gzip,
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => Codec::Zip,
            [0x04, 0x22, 0x4d, 0x18, ..] => Codec::Lz4,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Codec::Zstd,
            [0xff, 6, 0, 0, b's', b'N', b'a', b'P', b'p', b'Y', ..] => Codec::Snappy,
            // The length of the first chunk distinguishes it from text; a file that ends within the length has nothing else.
            [b'a', b't', ..] if head.len() < 6 => Codec::SnappyChunks,
            [b'a', b't', _, _, _, 0..=3, ..] => Codec::SnappyChunks,
            // If the length is damaged, the chunk itself must begin as all first chunks do.
            [b'a', b't', _, _, _, _, block @ ..] if begins_a_stream(block) => Codec::SnappyChunks,
            // A skippable frame. LZ4 and Zstandard share these numbers, so what follows decides.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, a, b, c, d, rest @ ..] => {
                let len_bytes = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
                match rest.get(len_bytes..).map(Codec::of) {
                    Some(Codec::Lz4) => Codec::Lz4,
                    _ => Codec::Zstd,
                }
            }
            _ if looks_like_zlib(head) => Codec::Zlib,
            _ => codec_behind(head).unwrap_or(Codec::Plain),
        }
    }
}

/// True if a snappy block here begins with a literal whose first byte is a version that apitrace writes: text has no such
/// bytes.
pub(crate) fn begins_a_stream(block: &[u8]) -> bool {
    const NEWEST_VERSION: u8 = 6;
    let Some(n_len) = block.iter().take(5).position(|byte| byte & 0x80 == 0) else { return false };
    matches!(block[n_len + 1..], [tag, 0..=NEWEST_VERSION, ..] if tag & 3 == 0 && tag >> 2 < 60)
}

/// Zlib has weak magic bytes, so the first block must also inflate.
fn looks_like_zlib(head: &[u8]) -> bool {
    let [cmf, flg, ..] = *head else { return false };
    let deflate_with_window = cmf & 0x0f == 8 && cmf >> 4 <= 7;
    let no_dictionary = flg & 0x20 == 0;
    if !deflate_with_window || !no_dictionary || u16::from_be_bytes([cmf, flg]) % 31 != 0 {
        return false;
    }
    let mut probe = flate2::Decompress::new(true);
    let mut out = [0; SNIFF_BYTES];
    let status =
        probe.decompress(&head[..head.len().min(SNIFF_BYTES)], &mut out, flate2::FlushDecompress::None);
    // A stream that ends within `head` with a wrong checksum is still a damaged zlib stream.
    status.is_ok() || probe.total_out() > 0 && probe.total_in() as usize + 4 >= head.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magic_bytes_decide() {
        let cases: &[(&[u8], Codec)] = &[
            (b"", Codec::Plain),
            (&[0x19, 0, 0, 0, 7, 0], Codec::Plain),
            (&[0x1f, 0x8b, 8, 0], Codec::Gzip),
            (&[0x1f, 0x8b], Codec::Plain),
            (b"PK\x03\x04....", Codec::Zip),
            (b"PK\x05\x06....", Codec::Zip),
            (b"PKzip notes", Codec::Plain),
            (&[0x04, 0x22, 0x4d, 0x18], Codec::Lz4),
            (&[0x28, 0xb5, 0x2f, 0xfd], Codec::Zstd),
            (b"\xff\x06\x00\x00sNaPpY", Codec::Snappy),
            (b"at", Codec::SnappyChunks),
            (b"at\xc7\x02\0\0\xca\x06", Codec::SnappyChunks),
            (b"at\xff\xff\xff\x7f\x80\x80\x40\x78\x06\x06", Codec::SnappyChunks),
            (b"at\xff\xff\xff\x7f\x80\x80\x40\x78text", Codec::Plain),
            (b"attention", Codec::Plain),
            (b"at the 6th attempt <", Codec::Plain),
            (b"\x50\x2a\x4d\x18\x02\0\0\0ab\x04\x22\x4d\x18", Codec::Lz4),
            (b"\x50\x2a\x4d\x18\x02\0\0\0ab\x28\xb5\x2f\xfd", Codec::Zstd),
            (b"\x50\x2a\x4d\x18\xff\xff\xff\xff", Codec::Zstd),
        ];
        for (head, codec) in cases {
            assert_eq!(Codec::of(head), *codec, "{head:x?}");
        }
    }

    #[test]
    fn text_that_starts_like_zlib_is_plain() {
        assert_eq!(Codec::of(b"x^2 + y^2 = z^2, said the \xff\xff\xff file"), Codec::Plain);
    }
}
