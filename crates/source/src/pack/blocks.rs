//! Packing of one block of plain bytes into one block of packed bytes. State is kept between blocks only to avoid
//! allocations.

use std::borrow::Cow;
use std::collections::HashMap;

use flate2::{Compress, Compression, FlushCompress, Status};
use libdeflater::{CompressionLvl, Compressor};

use super::fast::Fast;
use crate::error::{Error, ErrorKind, Result};

/// The operation to perform on a block.
#[derive(Debug)]
pub(super) enum Work {
    /// A complete gzip member.
    Gzip,
    /// A complete deflate stream.
    DeflateWhole,
    /// A part of a deflate stream, which may refer to the bytes in `before`.
    DeflatePart {
        /// Up to 32 KiB right before the block; the fastest level ignores them.
        before: Vec<u8>,
        /// Whether the stream ends with this part.
        is_last: bool,
    },
    /// LZ4 blocks of a frame.
    Lz4,
    /// Snappy chunks.
    Snappy,
    /// A Zstandard frame.
    Zstd,
}

/// Size of the largest block in our LZ4 frames, as their header states it.
pub(super) const LZ4_BLOCK_BYTES: usize = 256 << 10;
/// Upper limit of the snappy framing format on the bytes in a chunk.
const SNAPPY_CHUNK_BYTES: usize = 65536;
/// Maximum distance of a match in deflate.
pub(super) const WINDOW_BYTES: usize = 32 << 10;
/// The level at which our own deflate is used for parts.
const FASTEST: u8 = 1;
/// Flag of a block in an LZ4 frame: the block is stored uncompressed.
const LZ4_STORED: u32 = 1 << 31;

/// The compressors of one thread.
#[derive(Default)]
pub(super) struct Compressors {
    /// Compressors for whole deflate streams, by level.
    whole: HashMap<u8, Compressor>,
    fast: Option<Fast>,
    snappy: Option<snap::raw::Encoder>,
    zstd: HashMap<u8, zstd::bulk::Compressor<'static>>,
    /// Output buffer for a part of a deflate stream. PERF: kept, because zeroing it for each part took 2 % of rewriting a
    /// trace.
    room: Vec<u8>,
}

impl Compressors {
    /// Packs `plain` and appends the result to `out`.
    pub(super) fn pack(&mut self, work: &Work, level: u8, plain: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match work {
            Work::Gzip => {
                let compressor = self.whole(level);
                let start = out.len();
                out.resize(start + compressor.gzip_compress_bound(plain.len()), 0);
                let packed = compressor.gzip_compress(plain, &mut out[start..]).map_err(|_| no_room())?;
                out.truncate(start + packed);
            }
            Work::DeflateWhole => {
                let compressor = self.whole(level);
                let start = out.len();
                out.resize(start + compressor.deflate_compress_bound(plain.len()), 0);
                let packed = compressor.deflate_compress(plain, &mut out[start..]).map_err(|_| no_room())?;
                out.truncate(start + packed);
            }
            Work::DeflatePart { before, is_last } => {
                self.deflate_part(before, *is_last, level, plain, out)?
            }
            Work::Lz4 => plain.chunks(LZ4_BLOCK_BYTES).for_each(|block| lz4_block(block, out)),
            Work::Snappy => {
                for chunk in plain.chunks(SNAPPY_CHUNK_BYTES) {
                    self.snappy_chunk(chunk, out)?;
                }
            }
            Work::Zstd => self.zstd_frame(level, plain, out)?,
        }
        Ok(())
    }

    fn whole(&mut self, level: u8) -> &mut Compressor {
        let new = || Compressor::new(CompressionLvl::new(i32::from(level)).unwrap_or_default());
        self.whole.entry(level).or_insert_with(new)
    }

    fn deflate_part(
        &mut self,
        before: &[u8],
        is_last: bool,
        level: u8,
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if level <= FASTEST {
            self.fast.get_or_insert_default().deflate(plain, is_last, out);
            return Ok(());
        }
        // A new compressor for each part: a reset one remembers enough of earlier parts to pack this one differently, and the
        // output must not depend on which thread packed what.
        let mut compress = Compress::new(Compression::new(u32::from(level)), false);
        if !before.is_empty() {
            compress.set_dictionary(before).map_err(|error| broken(&error))?;
        }
        let flush = if is_last { FlushCompress::Finish } else { FlushCompress::Sync };
        // Everything in one call, with enough room. The output of zlib-rs depends on the room that it is given, so the room
        // is always the same, whatever the size of the vector was.
        let n_room = plain.len() + plain.len() / 8 + 1024;
        if self.room.len() < n_room {
            self.room.resize(n_room, 0);
        }
        let status =
            compress.compress(plain, &mut self.room[..n_room], flush).map_err(|error| broken(&error))?;
        let packed = compress.total_out() as usize; // Not more than the room.
        let is_complete = match is_last {
            true => status == Status::StreamEnd,
            false => compress.total_in() == plain.len() as u64 && packed < n_room,
        };
        if !is_complete {
            return Err(no_room());
        }
        out.extend_from_slice(&self.room[..packed]);
        Ok(())
    }

    fn snappy_chunk(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let at = out.len();
        out.extend_from_slice(&[0; 8]);
        out.resize(at + 8 + snap::raw::max_compress_len(plain.len()), 0);
        let encoder = self.snappy.get_or_insert_with(snap::raw::Encoder::new);
        let n_packed = encoder.compress(plain, &mut out[at + 8..]).map_err(|error| broken(&error))?;
        // Data that hardly shrinks is stored, because that is faster to read.
        let is_stored = n_packed >= plain.len() - plain.len() / 8;
        if is_stored {
            out.truncate(at + 8);
            out.extend_from_slice(plain);
        } else {
            out.truncate(at + 8 + n_packed);
        }
        let len = ((out.len() - at - 4) as u32).to_le_bytes(); // At most 65536 and a checksum.
        out[at..at + 4].copy_from_slice(&[u8::from(is_stored), len[0], len[1], len[2]]);
        let crc = crc32c::crc32c(plain).rotate_right(15).wrapping_add(0xa282_ead8);
        out[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
        Ok(())
    }

    fn zstd_frame(&mut self, level: u8, plain: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let compressor = match self.zstd.entry(level) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => {
                let mut compressor =
                    zstd::bulk::Compressor::new(i32::from(level)).map_err(|error| broken(&error))?;
                compressor.include_checksum(true).map_err(|error| broken(&error))?;
                new.insert(compressor)
            }
        };
        let start = out.len();
        out.resize(start + zstd::zstd_safe::compress_bound(plain.len()), 0);
        let packed =
            compressor.compress_to_buffer(plain, &mut out[start..]).map_err(|error| broken(&error))?;
        out.truncate(start + packed);
        Ok(())
    }
}

fn lz4_block(plain: &[u8], out: &mut Vec<u8>) {
    let at = out.len();
    out.resize(at + 4 + lz4_flex::block::get_maximum_output_size(plain.len()), 0);
    match lz4_flex::block::compress_into(plain, &mut out[at + 4..]) {
        Ok(n_packed) if n_packed < plain.len() => {
            out.truncate(at + 4 + n_packed);
            out[at..at + 4].copy_from_slice(&(n_packed as u32).to_le_bytes()); // At most 256 KiB.
        }
        _ => {
            out.truncate(at + 4);
            out[at..at + 4].copy_from_slice(&(plain.len() as u32 | LZ4_STORED).to_le_bytes());
            out.extend_from_slice(plain);
        }
    }
}

#[cold]
fn no_room() -> Error {
    Error::new(ErrorKind::Internal, "a compressor wants more room than it may need")
}

#[cold]
fn broken(error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Internal, Cow::Owned(format!("a compressor failed: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_block_becomes_does_not_depend_on_where_it_is_put_or_what_was_packed_before() {
        let block = |seed: u64| -> Vec<u8> {
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as u8 % 7
            };
            (0..300_000).map(|_| next()).collect()
        };
        let (plain, other) = (block(1), block(2));
        let work = |is_last| Work::DeflatePart { before: other[..WINDOW_BYTES].to_vec(), is_last };
        for level in [1, 2, 6, 9] {
            for is_last in [false, true] {
                let mut expected = Vec::new();
                Compressors::default().pack(&work(is_last), level, &plain, &mut expected).unwrap();
                let mut used = Compressors::default();
                for room in [0, 100, 1 << 16, 1 << 20, 1 << 22] {
                    let mut out = Vec::with_capacity(room);
                    used.pack(&work(is_last), level, &other, &mut out).unwrap();
                    out.clear();
                    used.pack(&work(is_last), level, &plain, &mut out).unwrap();
                    assert!(out == expected, "level {level}, {room} bytes of room");
                }
            }
        }
    }
}
