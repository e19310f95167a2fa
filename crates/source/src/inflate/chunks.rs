//! Raw snappy blocks, each preceded by its length, as apitrace writes them: no checksums, no framing.
//!
//! ```text
//! 61 74  then chunks:  length u32 | one raw snappy block of that many bytes
//! ```
//!
//! A length of 0 ends the data, unless a block follows: then the length is wrong. SPEC: apitrace.md#containers.

use super::blocks::{Block, Blocks};
use super::{cut, take, unreadable};
use crate::error::{Error, ErrorKind};
use crate::packed::Packed;

/// Generous limit on the packed length of a chunk: the tracer's own chunks have 1.2 MB at most.
const MAX_PACKED_CHUNK_BYTES: usize = 64 << 20;
/// Upper limit on the bytes that snappy makes of one byte: a copy of 64 bytes takes three.
const MAX_EXPANSION: usize = 22;

/// Number of bytes from which tracers make a chunk, and the most that snappy may need for it.
const USUAL_CHUNK_BYTES: usize = 1 << 20;
const USUAL_PACKED_BYTES: usize = 32 + USUAL_CHUNK_BYTES + USUAL_CHUNK_BYTES / 6;

/// Bytes after the end of the data count as a block only if they inflate to at least this many.
const MIN_BEHIND_END_BYTES: usize = 256;

const MARK: [u8; 2] = *b"at";

const CUT: &str = "the snappy data is cut short";

/// The state between chunks or within one.
#[derive(Default)]
pub(crate) struct Chunks {
    /// The current chunk.
    chunk: Block,
    begun: bool,
    decoder: snap::raw::Decoder,
    n_chunks: u64,
    /// Whether reading began in the middle, so that the numbers of chunks are unknown.
    is_midway: bool,
}

impl Chunks {
    /// Expects a chunk first instead of the magic bytes.
    pub(super) fn skip_head(&mut self) {
        (self.begun, self.is_midway) = (true, true);
    }
}

impl Blocks for Chunks {
    fn block(&mut self) -> &mut Block {
        &mut self.chunk
    }

    /// Reads one chunk.
    fn advance(&mut self, packed: &mut Packed) -> Result<bool, Error> {
        self.chunk.clear();
        if !self.begun {
            let at = packed.at();
            let mark = take::<2>(packed, CUT)?;
            self.begun = true;
            if mark != MARK {
                let what = format!("bad mark of snappy chunks: `{}`", mark.escape_ascii());
                return Err(Error::malformed(what).at_packed(at));
            }
        }
        let at = packed.at();
        if packed.fill(1).map_err(unreadable)?.is_empty() {
            return Ok(false);
        }
        let len_bytes = u32::from_le_bytes(take(packed, CUT)?) as usize;
        // Unknown if reading began in the middle.
        let number = (!self.is_midway).then_some(self.n_chunks);
        if len_bytes == 0 {
            let shown = packed.fill(USUAL_PACKED_BYTES).map_err(unreadable)?;
            let Some(n_packed) = self.whole_block(shown, MIN_BEHIND_END_BYTES) else { return Ok(false) };
            self.chunk.fault = Some(wrong_length(number, len_bytes, n_packed).at_packed(at));
            return Ok(true);
        }
        if len_bytes > MAX_PACKED_CHUNK_BYTES {
            let what = format!(
                "{} has `{len_bytes}` bytes, the limit is `{MAX_PACKED_CHUNK_BYTES}`",
                chunk_name(number)
            );
            // The block itself states where it ends, so nothing after it is mistaken for a part of it.
            let shown = packed.fill(USUAL_PACKED_BYTES).map_err(unreadable)?;
            inflate_prefix(&shown[..shown.len().min(USUAL_PACKED_BYTES)], &mut self.chunk.bytes);
            self.chunk.fault = Some(Error::new(ErrorKind::Limit, what).at_packed(at));
            return Ok(true);
        }
        let left = packed.left().map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
        let shown = packed.fill(len_bytes.min(left)).map_err(unreadable)?;
        let Some(body) = shown.get(..len_bytes) else {
            // The part of the chunk that is there is good.
            inflate_prefix(shown, &mut self.chunk.bytes);
            let n_shown = shown.len();
            packed.consume(n_shown);
            // The place where the chunk begins, because its length may be what is wrong.
            self.chunk.fault = Some(Error::new(cut(packed, CUT).kind(), CUT).at_packed(at));
            return Ok(true);
        };
        let unpacked = match snap::raw::decompress_len(body) {
            Ok(len) if len > body.len().saturating_mul(MAX_EXPANSION) => {
                Err("its length is more than its bytes can make".to_owned())
            }
            Ok(len) => {
                self.chunk.bytes.resize(len, 0);
                let unpacked = self.decoder.decompress(body, &mut self.chunk.bytes);
                unpacked.map(drop).map_err(|why| why.to_string())
            }
            Err(why) => Err(why.to_string()),
        };
        if let Err(why) = unpacked {
            self.chunk.clear();
            // The block may be complete, and its length too small.
            let shown = packed.fill(len_bytes.max(USUAL_PACKED_BYTES)).map_err(unreadable)?;
            if let Some(n_packed) = self.whole_block(shown, 1).filter(|n_packed| *n_packed > len_bytes) {
                self.chunk.fault = Some(wrong_length(number, len_bytes, n_packed).at_packed(at));
                return Ok(true);
            }
            self.chunk.clear();
            inflate_prefix(&shown[..len_bytes.min(shown.len())], &mut self.chunk.bytes);
            let what = format!("bad snappy block in {}: {why}", chunk_name(number));
            self.chunk.fault = Some(Error::malformed(what).at_packed(at));
        }
        packed.consume(len_bytes);
        self.n_chunks += 1;
        Ok(true)
    }
}

impl Chunks {
    /// Inflates the block at the start of `bytes` to exactly the length that it states, if that works and it states at least
    /// `min_bytes`. Returns the packed size of the block.
    fn whole_block(&mut self, bytes: &[u8], min_bytes: usize) -> Option<usize> {
        let len = snap::raw::decompress_len(bytes).ok().filter(|len| *len >= min_bytes)?;
        if len > USUAL_PACKED_BYTES.min(bytes.len().saturating_mul(MAX_EXPANSION)) {
            return None;
        }
        let n_packed = inflate_up_to(bytes, len, &mut self.chunk.bytes);
        if self.chunk.bytes.len() == len {
            return Some(n_packed);
        }
        self.chunk.clear();
        None
    }
}

fn wrong_length(number: Option<u64>, stated: usize, found: usize) -> Error {
    let chunk = chunk_name(number);
    Error::malformed(format!("the length of {chunk} is wrong: it says `{stated}` bytes, and takes `{found}`"))
}

fn chunk_name(number: Option<u64>) -> String {
    number.map_or("a chunk".to_owned(), |number| format!("chunk `{number}`"))
}

/// Inflates the beginning of a truncated or damaged block as far as possible: at most to the length that it states, unless
/// that is less than what tracers write or more than its bytes can make.
fn inflate_prefix(block: &[u8], out: &mut Vec<u8>) {
    let stated = snap::raw::decompress_len(block).unwrap_or(0);
    let most = stated.min(block.len().saturating_mul(MAX_EXPANSION)).max(USUAL_CHUNK_BYTES);
    inflate_up_to(block, most, out);
}

/// Inflates the beginning of a block up to `most` bytes, as far as possible; returns the number of bytes of the block that
/// this takes.
fn inflate_up_to(block: &[u8], most: usize, out: &mut Vec<u8>) -> usize {
    let Some(header) = block.iter().take(5).position(|byte| byte & 0x80 == 0) else { return 0 };
    let mut rest = &block[header + 1..];
    while out.len() < most
        && let Some((&tag, behind)) = rest.split_first()
    {
        rest = behind;
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0usize, |n, byte| n << 8 | usize::from(*byte));
        let n_extra = match tag & 3 {
            0 if tag >> 2 >= 60 => usize::from(tag >> 2) - 59,
            0 => 0,
            1 => 1,
            2 => 2,
            _ => 4,
        };
        let Some((extra, behind)) = rest.split_at_checked(n_extra) else { break };
        rest = behind;
        let room = most - out.len();
        if tag & 3 == 0 {
            let len = if n_extra == 0 { usize::from(tag >> 2) } else { number(extra) } + 1;
            let literal = &rest[..len.min(rest.len()).min(room)];
            out.extend_from_slice(literal);
            rest = &rest[literal.len()..];
            continue;
        }
        let (len, offset) = match tag & 3 {
            1 => (usize::from(tag >> 2 & 7) + 4, usize::from(tag >> 5) << 8 | number(extra)),
            _ => (usize::from(tag >> 2) + 1, number(extra)),
        };
        if offset == 0 || offset > out.len() {
            break;
        }
        // Source and copy may overlap: the copy then repeats itself.
        for _ in 0..len.min(room) {
            out.push(out[out.len() - offset]);
        }
    }
    block.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_beginning_of_a_block_inflates_to_a_beginning_of_its_bytes() {
        let bytes: Vec<u8> =
            (0..20_000u32).flat_map(|i| [(i / 7) as u8, (i * i % 11) as u8, b'a', b'a']).collect();
        let block = snap::raw::Encoder::new().compress_vec(&bytes).unwrap();
        let mut longest = 0;
        for len in 0..=block.len() {
            let mut out = Vec::new();
            inflate_prefix(&block[..len], &mut out);
            assert!(bytes.starts_with(&out), "{len}");
            assert!(out.len() >= longest, "{len}");
            longest = out.len();
        }
        assert_eq!(longest, bytes.len());
    }
}
