//! The LZ4 frame format (version 1.6.x of its description), frame after frame.
//!
//! ```text
//! 04 22 4d 18 | FLG BD [content size u64] [dictionary u32] HC | blocks | 0 u32 [content checksum u32]
//! block: size u32 (top bit: stored) | bytes [checksum u32]
//! 5x 2a 4d 18 | size u32 | bytes                              a frame to be skipped
//! ```
//!
//! A frame parser of our own over the block decoder of lz4_flex: the latter's frame reader treats a file that is truncated
//! between two blocks as complete, and does not say where a fault is.

use xxhash_rust::xxh32::{Xxh32, xxh32};

use super::blocks::{Block, Blocks};
use super::{cut, skip, take, unreadable};
use crate::error::Error;
use crate::packed::Packed;

const CUT: &str = "the LZ4 data is cut short";
/// Maximum distance to earlier blocks to which a block may refer.
const WINDOW_BYTES: usize = 64 << 10;

/// The state of the frame reader.
#[derive(Default)]
pub(crate) struct Lz4 {
    frame: Option<Frame>,
    /// The current block.
    block: Block,
    /// The bytes before the current block, to which linked blocks may refer.
    history: Vec<u8>,
    n_frames: u64,
    /// Inflated bytes of the frames that ended correctly.
    n_vouched: u64,
    /// Whether the current frame has its only checksum at its end.
    is_open: bool,
}

/// The contents of a frame header, and the running checksum.
struct Frame {
    linked: bool,
    block_checksums: bool,
    content_checksum: Option<Xxh32>,
    content_size: Option<u64>,
    max_block_bytes: usize,
    len: u64,
}

impl Blocks for Lz4 {
    fn block(&mut self) -> &mut Block {
        &mut self.block
    }

    /// Processes a frame header, a block, or the end of a frame.
    fn advance(&mut self, packed: &mut Packed) -> Result<bool, Error> {
        match self.frame.take() {
            None => {
                if self.n_frames > 0 && packed.fill(1).map_err(unreadable)?.is_empty() {
                    return Ok(false);
                }
                self.frame = read_frame_header(packed)?;
                self.is_open = self
                    .frame
                    .as_ref()
                    .is_some_and(|frame| frame.content_checksum.is_some() && !frame.block_checksums);
                self.n_frames += 1;
                self.remember_nothing();
            }
            Some(mut frame) => {
                if self.next_block(packed, &mut frame)? {
                    self.frame = Some(frame);
                }
            }
        }
        Ok(true)
    }
}

impl Lz4 {
    pub(super) fn vouched(&self, n_bytes: u64) -> u64 {
        if self.is_open { self.n_vouched } else { n_bytes }
    }

    fn remember_nothing(&mut self) {
        self.block.clear();
        self.history.clear();
    }

    /// Inflates the next block; false at the end of the frame, after its checksum has been verified.
    fn next_block(&mut self, packed: &mut Packed, frame: &mut Frame) -> Result<bool, Error> {
        const STORED: u32 = 1 << 31;
        let at = packed.at();
        let size = u32::from_le_bytes(take(packed, CUT)?);
        if size == 0 {
            frame.end(packed)?;
            self.n_vouched += frame.len;
            self.is_open = false;
            self.remember_nothing();
            return Ok(false);
        }
        let body_bytes = (size & !STORED) as usize;
        if body_bytes > frame.max_block_bytes {
            let what = format!(
                "an LZ4 block has `{body_bytes}` bytes, its frame allows `{}`",
                frame.max_block_bytes
            );
            return Err(Error::malformed(what).at_packed(at));
        }
        self.keep_history(frame);
        let checksum_bytes = if frame.block_checksums { 4 } else { 0 };
        let shown = packed.fill(body_bytes + checksum_bytes).map_err(unreadable)?;
        if shown.len() < body_bytes + checksum_bytes {
            return Err(cut(packed, CUT));
        }
        let (body, rest) = shown.split_at(body_bytes);
        if let Some(stored) =
            rest.first_chunk().map(|sum| u32::from_le_bytes(*sum)).filter(|_| frame.block_checksums)
        {
            let found = xxh32(body, 0);
            if stored != found {
                return Err(Error::checksum("xxHash-32 of a block", stored, found).at_packed(at));
            }
        }
        if size & STORED != 0 {
            self.block.bytes.extend_from_slice(body);
        } else {
            self.block.bytes.resize(frame.max_block_bytes, 0);
            let unpacked = match self.history.is_empty() {
                true => lz4_flex::block::decompress_into(body, &mut self.block.bytes),
                false => {
                    lz4_flex::block::decompress_into_with_dict(body, &mut self.block.bytes, &self.history)
                }
            };
            match unpacked {
                Ok(len) => self.block.bytes.truncate(len),
                Err(why) => {
                    self.block.clear();
                    return Err(Error::malformed(format!("bad LZ4 block: {why}")).at_packed(at));
                }
            }
        }
        packed.consume(body_bytes + checksum_bytes);
        frame.len += self.block.bytes.len() as u64;
        if let Some(hash) = &mut frame.content_checksum {
            hash.update(&self.block.bytes);
        }
        Ok(true)
    }

    /// Clears the block; if blocks are linked, moves the last bytes before the next one into `history`.
    fn keep_history(&mut self, frame: &Frame) {
        if frame.linked && self.block.bytes.len() >= WINDOW_BYTES {
            // The usual case: the block fills the window, so the buffers are swapped and the surplus is dropped.
            std::mem::swap(&mut self.block.bytes, &mut self.history);
            let surplus = self.history.len() - WINDOW_BYTES;
            self.history.drain(..surplus);
        } else if frame.linked {
            let surplus = (self.history.len() + self.block.bytes.len()).saturating_sub(WINDOW_BYTES);
            self.history.drain(..surplus);
            self.history.extend_from_slice(&self.block.bytes);
        }
        self.block.clear();
    }
}

impl Frame {
    fn end(&self, packed: &mut Packed) -> Result<(), Error> {
        let at = packed.at();
        if let Some(size) = self.content_size.filter(|size| *size != self.len) {
            let what = format!("the frame inflates to `{}` bytes, its header says `{size}`", self.len);
            return Err(Error::malformed(what).at_packed(at));
        }
        if let Some(hash) = &self.content_checksum {
            let stored = u32::from_le_bytes(take(packed, CUT)?);
            if stored != hash.digest() {
                return Err(Error::checksum("xxHash-32", stored, hash.digest()).at_packed(at));
            }
        }
        Ok(())
    }
}

/// Reads a frame header; `None` if the frame was a skippable one.
fn read_frame_header(packed: &mut Packed) -> Result<Option<Frame>, Error> {
    let at = packed.at();
    match u32::from_le_bytes(take(packed, CUT)?) {
        0x184d_2204 => {}
        0x184d_2a50..=0x184d_2a5f => {
            let len_bytes = u32::from_le_bytes(take(packed, CUT)?);
            skip(packed, u64::from(len_bytes), CUT)?;
            return Ok(None);
        }
        _ => return Err(Error::malformed("no LZ4 frame where one is expected").at_packed(at)),
    }
    let mut described = [0; 14];
    let [flags, sizes]: [u8; 2] = take(packed, CUT)?;
    [described[0], described[1]] = [flags, sizes];
    let mut n_described = 2;
    let has_size = flags & 1 << 3 != 0;
    let has_dictionary = flags & 1 != 0;
    for n_bytes in [8 * usize::from(has_size), 4 * usize::from(has_dictionary)] {
        for byte in &mut described[n_described..n_described + n_bytes] {
            [*byte] = take(packed, CUT)?;
        }
        n_described += n_bytes;
    }
    let [stored] = take(packed, CUT)?;
    let found = (xxh32(&described[..n_described], 0) >> 8) as u8;
    let version_and_reserved_bits = (flags >> 6, flags & 2, sizes & 0x8f);
    let max_block_bytes = match sizes >> 4 {
        exponent @ 4..=7 => 1 << (8 + 2 * exponent),
        _ => 0,
    };
    if stored != found || version_and_reserved_bits != (1, 0, 0) || max_block_bytes == 0 {
        return Err(Error::malformed("bad LZ4 frame header").at_packed(at));
    }
    if has_dictionary {
        return Err(Error::unsupported("the LZ4 frame needs a dictionary").at_packed(at));
    }
    let [_, _, size @ .., _, _, _, _] = described;
    Ok(Some(Frame {
        linked: flags & 1 << 5 == 0,
        block_checksums: flags & 1 << 4 != 0,
        content_checksum: (flags & 1 << 2 != 0).then(|| Xxh32::new(0)),
        content_size: has_size.then(|| u64::from_le_bytes(size)),
        max_block_bytes,
        len: 0,
    }))
}
