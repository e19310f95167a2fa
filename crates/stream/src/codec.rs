//! Compression of payloads: LZ4 blocks and Zstandard frames, with output of exactly the announced length.

use crate::frame::{Header, codec};
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe;

/// Compression method of payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// No compression.
    None,
    /// LZ4, for busy hosts.
    Lz4,
    /// Zstandard at a level.
    Zstd(i32),
}

impl Codec {
    /// The codec number in frame headers.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Codec::None => codec::NONE,
            Codec::Lz4 => codec::LZ4,
            Codec::Zstd(_) => codec::ZSTD,
        }
    }
}

/// Compresses payloads and reuses its memory from one to the next.
pub struct PayloadPacker {
    codec: Codec,
    zstd: Option<Compressor<'static>>,
}

impl std::fmt::Debug for PayloadPacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PayloadPacker").field(&self.codec).finish()
    }
}

impl PayloadPacker {
    /// A packer for `codec`.
    ///
    /// # Errors
    /// Returns an error if Zstandard does not accept the level.
    pub fn new(codec: Codec) -> std::io::Result<PayloadPacker> {
        let zstd = match codec {
            Codec::Zstd(level) => Some(Compressor::new(level)?),
            Codec::None | Codec::Lz4 => None,
        };
        Ok(PayloadPacker { codec, zstd })
    }

    /// Writes the compressed form of `raw` to `out` and returns the codec's number, or `codec::NONE` if compression gains
    /// nothing.
    ///
    /// # Errors
    /// If Zstandard fails.
    pub fn pack(&mut self, raw: &[u8], out: &mut Vec<u8>) -> std::io::Result<u8> {
        out.clear();
        match (&mut self.zstd, self.codec) {
            (Some(zstd), _) => {
                out.reserve(zstd_safe::compress_bound(raw.len()));
                zstd.compress_to_buffer(raw, out)?;
            }
            (None, Codec::Lz4) => {
                out.resize(lz4_flex::block::get_maximum_output_size(raw.len()), 0);
                let n = lz4_flex::block::compress_into(raw, out).map_err(std::io::Error::other)?;
                out.truncate(n);
            }
            (None, _) => {
                out.extend_from_slice(raw);
                return Ok(codec::NONE);
            }
        }
        if out.len() < raw.len() {
            return Ok(self.codec.number());
        }
        out.clear();
        out.extend_from_slice(raw);
        Ok(codec::NONE)
    }
}

/// Decompresses payloads and reuses its memory from one to the next.
#[derive(Default)]
pub struct Unpacker {
    zstd: Option<Decompressor<'static>>,
    unmasked: Vec<u8>,
    raw: Vec<u8>,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Unpacker")
    }
}

/// Why a payload could not be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadFault {
    /// The codec is unknown.
    UnknownCodec,
    /// The data is not valid for the codec, or its length differs from the header's.
    Invalid,
}

impl Unpacker {
    /// The result of the last [`Unpacker::unpack`], which must have been called for the same frame.
    #[must_use]
    pub fn again<'a>(&'a self, header: &Header, stored: &'a [u8]) -> &'a [u8] {
        match (header.codec, header.mask) {
            (codec::NONE, 0) => stored,
            (codec::NONE, _) => &self.unmasked,
            _ => self.raw.get(..header.raw_len as usize).unwrap_or_default(),
        }
    }

    /// Decompresses the payload of a frame from its stored bytes.
    ///
    /// # Errors
    /// See [`PayloadFault`].
    pub fn unpack<'a>(&'a mut self, header: &Header, stored: &'a [u8]) -> Result<&'a [u8], PayloadFault> {
        let Unpacker { zstd, unmasked, raw } = self;
        let stored = if header.mask == 0 {
            stored
        } else {
            unmasked.clear();
            unmasked.extend(stored.iter().map(|byte| byte ^ header.mask));
            unmasked.as_slice()
        };
        let len = header.raw_len as usize; // Checked against the limits.
        match header.codec {
            codec::NONE if stored.len() == len => return Ok(stored),
            codec::LZ4 => {
                if raw.len() < len {
                    raw.resize(len, 0);
                }
                let n = lz4_flex::block::decompress_into(stored, &mut raw[..len]);
                if n.is_ok_and(|n| n == len) {
                    return Ok(&raw[..len]);
                }
            }
            codec::ZSTD => {
                // A payload is exactly one Zstandard frame: not several, and not a skippable one.
                let magic = stored.get(..4) == Some(&[0x28, 0xB5, 0x2F, 0xFD]);
                if !magic || zstd_safe::find_frame_compressed_size(stored) != Ok(stored.len()) {
                    return Err(PayloadFault::Invalid);
                }
                let zstd = match zstd {
                    Some(zstd) => zstd,
                    None => zstd.insert(Decompressor::new().map_err(|_| PayloadFault::Invalid)?),
                };
                raw.clear();
                raw.reserve(len);
                // The capacity may exceed `len`, so the length of the output is compared.
                if zstd.decompress_to_buffer(stored, raw).is_ok_and(|n| n == len) {
                    return Ok(raw);
                }
            }
            codec::NONE => {}
            _ => return Err(PayloadFault::UnknownCodec),
        }
        Err(PayloadFault::Invalid)
    }
}
