//! The snappy framing format, with the private chunk kinds of drmemtrace.
//!
//! ```text
//! kind u8 | length u24 | body
//! ff  stream identifier, body `sNaPpY`: first, and may come again
//! 00  CRC-32C (masked) of the inflated bytes, snappy block     02  the same without the CRC
//! 01  CRC-32C (masked), bytes as they are                      03  the same without the CRC
//! fe  padding          80-fd  may be skipped                   others are faults
//! ```
//!
//! SPEC: drmemtrace.md#containers.

use super::blocks::{Block, Blocks};
use super::{cut, skip, take, unreadable};
use crate::error::{Error, ErrorKind};
use crate::packed::Packed;

/// Upper limit on the inflated size of a chunk.
const MAX_CHUNK_BYTES: usize = 65536;
/// Worst case of a snappy block of that size: a sixth more, and a constant (snap's own bound).
const MAX_PACKED_CHUNK_BYTES: usize = 32 + MAX_CHUNK_BYTES + MAX_CHUNK_BYTES / 6;

/// Kind of chunks that only fill up a file.
const PADDING: u8 = 0xfe;

const CUT: &str = "the snappy data is cut short";

/// The state between chunks or within one.
#[derive(Default)]
pub(crate) struct Snappy {
    /// The current chunk; a chunk with a wrong checksum delivers no bytes.
    chunk: Block,
    identified: bool,
    has_data: bool,
    /// Kind and place of the first skipped chunk, other than padding.
    skipped: Option<(u8, u64)>,
}

impl Blocks for Snappy {
    fn block(&mut self) -> &mut Block {
        &mut self.chunk
    }

    /// Reads one chunk.
    fn advance(&mut self, packed: &mut Packed) -> Result<bool, Error> {
        self.chunk.clear();
        let at = packed.at();
        if packed.fill(1).map_err(unreadable)?.is_empty() {
            // No program writes a file of nothing but skippable chunks: a wrong bit turns a chunk of data into one.
            return match self.skipped.take().filter(|_| !self.has_data) {
                Some((kind, at)) => {
                    let what = format!("no data but a snappy chunk of the unused kind `{kind:#04x}`");
                    Err(Error::malformed(what).at_packed(at))
                }
                None => Ok(false),
            };
        }
        let [kind, l0, l1, l2] = take(packed, CUT)?;
        let len_bytes = u32::from_le_bytes([l0, l1, l2, 0]) as usize;
        match kind {
            0xff => {
                if len_bytes != 6 || take::<6>(packed, CUT)? != *b"sNaPpY" {
                    return Err(Error::malformed("bad snappy stream identifier").at_packed(at));
                }
                self.identified = true;
            }
            0x00..=0x03 if self.identified => {
                self.has_data = true;
                self.data_chunk(packed, kind, len_bytes)?;
            }
            0x80..=0xfe => {
                if kind != PADDING {
                    self.skipped.get_or_insert((kind, at));
                }
                skip(packed, len_bytes as u64, CUT)?;
            }
            kind => {
                return Err(
                    Error::malformed(format!("unknown snappy chunk kind `{kind:#04x}`")).at_packed(at)
                );
            }
        }
        Ok(true)
    }
}

impl Snappy {
    fn data_chunk(&mut self, packed: &mut Packed, kind: u8, len_bytes: usize) -> Result<(), Error> {
        let (is_packed, has_crc) = (kind & 1 == 0, kind < 2);
        let at = packed.at();
        let crc = match has_crc {
            true if len_bytes < 4 => {
                return Err(Error::malformed("a snappy chunk is too short").at_packed(at));
            }
            true => Some(u32::from_le_bytes(take(packed, CUT)?)),
            false => None,
        };
        let body_bytes = len_bytes - if has_crc { 4 } else { 0 };
        let limit = if is_packed { MAX_PACKED_CHUNK_BYTES } else { MAX_CHUNK_BYTES };
        if body_bytes > limit {
            let what = format!("a snappy chunk has `{body_bytes}` bytes, the limit is `{limit}`");
            return Err(Error::new(ErrorKind::Malformed, what).at_packed(at));
        }
        let shown = packed.fill(body_bytes).map_err(unreadable)?;
        let Some(body) = shown.get(..body_bytes) else {
            return Err(cut(packed, CUT));
        };
        if is_packed {
            let len = snap::raw::decompress_len(body).ok().filter(|len| *len <= MAX_CHUNK_BYTES);
            let len = len.ok_or_else(|| Error::malformed("bad length of a snappy block").at_packed(at))?;
            self.chunk.bytes.resize(len, 0);
            let unpacked = snap::raw::Decoder::new().decompress(body, &mut self.chunk.bytes);
            if let Err(why) = unpacked {
                self.chunk.clear();
                return Err(Error::malformed(format!("bad snappy block: {why}")).at_packed(at));
            }
        } else {
            self.chunk.bytes.extend_from_slice(body);
        }
        packed.consume(body_bytes);
        let found = masked_crc32c(&self.chunk.bytes);
        match crc.filter(|crc| *crc != found) {
            Some(crc) => {
                self.chunk.clear();
                Err(Error::checksum("masked CRC-32C", crc, found).at_packed(at))
            }
            None => Ok(()),
        }
    }
}

/// The framing format stores checksums rotated and shifted, so that data that contains its own checksum stays random.
fn masked_crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}
