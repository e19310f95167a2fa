//! Places in a packed file where inflating may begin: snappy chunks and Zstandard frames.
//!
//! They are found by walking over the lengths in the file, without inflating anything and without trusting a table that may
//! be wrong. Where the lengths of snappy chunks make no sense, the walk searches for the next place where they do, so that
//! data after damage is also found.

use crate::codec::Codec;
use crate::container::Container;
use crate::error::{Error, Result};
use crate::packed::Packed;
use std::io;

/// A place where inflating may begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Landmark {
    /// Offset in the file.
    pub packed_at: u64,
    /// Offset in the inflated stream.
    pub at: u64,
    /// Inflated bytes up to the next landmark, as stated in the file.
    pub len: u64,
    /// Whether bytes before it belong to no landmark: the number of inflated bytes missing there is unknown.
    pub is_behind_gap: bool,
    /// Whether the file states a wrong length for the data here, and nothing else is wrong with it: inflating it yields all
    /// of its bytes, and then a fault.
    pub is_mended: bool,
}

/// Upper limit on landmarks; for files with more, none are known.
const MAX_LANDMARKS: usize = 1 << 22;
/// Upper limit on the packed size of a snappy chunk: more than any tracer writes.
const MAX_PACKED_CHUNK_BYTES: u64 = 64 << 20;
/// Upper limit on the bytes that snappy makes of one byte.
const MAX_EXPANSION: u64 = 22;
/// Upper limit on the size of chunks that are checked for a wrong length.
const MAX_MENDED_BYTES: u64 = 4 << 20;
/// Number of bytes of a file that are examined together.
const LOOK_BYTES: usize = 4 << 10;
/// Distance after damage within which the next chunk is searched.
const MAX_SEARCH_BYTES: u64 = 256 << 20;

const ZSTD_MAGIC: u32 = 0xfd2f_b528;

impl Container {
    /// The places where inflating may begin, in the order of the file: empty for pipes and for codecs without such places,
    /// and a single one for plain files. Walks over the file once and keeps the result.
    ///
    /// # Errors
    /// `Io` if the file cannot be read.
    pub fn landmarks(&self) -> Result<&[Landmark]> {
        if let Some(known) = self.known_landmarks().get() {
            return Ok(known);
        }
        let found = self.find_landmarks()?;
        Ok(self.known_landmarks().get_or_init(|| found))
    }

    fn find_landmarks(&self) -> Result<Vec<Landmark>> {
        if !self.source().can_seek() {
            return Ok(Vec::new());
        }
        let mut packed = Packed::with_request(self.origin()?, LOOK_BYTES);
        let found = match self.codec() {
            Codec::Plain => {
                let len = packed.size().unwrap_or(0);
                Ok(vec![Landmark { len, ..Landmark::default() }])
            }
            Codec::SnappyChunks => snappy(&mut packed),
            Codec::Zstd => zstd(&mut packed),
            _ => Ok(Vec::new()),
        };
        found.map_err(|cause| Error::io("cannot read", cause).in_file(self.shared_name()))
    }
}

/// Packed and inflated length from the head of a chunk; `None` if they are impossible.
fn chunk_head(packed: &mut Packed, at: u64) -> io::Result<Option<(u64, u64)>> {
    let size = packed.size().unwrap_or(0);
    packed.seek(at)?;
    let shown = packed.fill(9)?;
    let Some((len, rest)) = shown.split_first_chunk::<4>() else { return Ok(None) };
    let packed_len = u64::from(u32::from_le_bytes(*len));
    if packed_len == 0 || packed_len > MAX_PACKED_CHUNK_BYTES || at + 4 + packed_len > size {
        return Ok(None);
    }
    let mut len = 0u64;
    for (i, byte) in rest.iter().take(5).enumerate() {
        len |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            let can_be = len > 0 && len <= packed_len * MAX_EXPANSION && packed_len <= 32 + len + len / 6;
            return Ok(can_be.then_some((packed_len, len)));
        }
    }
    Ok(None)
}

fn snappy(packed: &mut Packed) -> io::Result<Vec<Landmark>> {
    let size = packed.size().unwrap_or(0);
    let mut landmarks = Vec::new();
    let (mut at, mut inflated, mut is_behind_gap) = (2, 0, false);
    // The start of the previous chunk: if no chunk follows it, its own length may be wrong.
    let mut before = 1;
    while at < size && landmarks.len() < MAX_LANDMARKS {
        match chunk_head(packed, at)? {
            Some((packed_len, len)) => {
                landmarks.push(landmark(at, inflated, len, is_behind_gap));
                is_behind_gap = false;
                before = at;
                at += 4 + packed_len;
                inflated += len;
            }
            None => match next_chunk(packed, before + 1)? {
                Some(next) => {
                    is_behind_gap = match (whole_block(packed, at, next)?, landmarks.last_mut()) {
                        (Some(len), _) => {
                            let mended = landmark(at, inflated, len, is_behind_gap);
                            landmarks.push(Landmark { is_mended: true, ..mended });
                            inflated += len;
                            false
                        }
                        (None, Some(last)) => {
                            last.is_mended = whole_block(packed, last.packed_at, next)? == Some(last.len);
                            !last.is_mended
                        }
                        (None, None) => true,
                    };
                    (before, at) = (next, next);
                }
                None => {
                    // The last chunk may be truncated, and is read as far as possible.
                    if may_be_cut(packed, at)? {
                        landmarks.push(landmark(at, inflated, 0, is_behind_gap));
                    }
                    break;
                }
            },
        }
    }
    if landmarks.len() == MAX_LANDMARKS {
        landmarks.clear();
    }
    Ok(landmarks)
}

fn landmark(packed_at: u64, at: u64, len: u64, is_behind_gap: bool) -> Landmark {
    Landmark { packed_at, at, len, is_behind_gap, is_mended: false }
}

/// Inflated size of the block of the chunk at `at`, if the block takes all bytes up to `end`, whatever length is stated
/// before it.
fn whole_block(packed: &mut Packed, at: u64, end: u64) -> io::Result<Option<u64>> {
    let len = end.saturating_sub(at + 4);
    if len == 0 || len > MAX_MENDED_BYTES {
        return Ok(None);
    }
    packed.seek(at + 4)?;
    let len = len as usize; // Within the limit.
    let Some(block) = packed.fill(len)?.get(..len) else { return Ok(None) };
    let can_be = snap::raw::decompress_len(block).is_ok_and(|n| n as u64 <= len as u64 * MAX_EXPANSION);
    let inflated = can_be.then(|| snap::raw::Decoder::new().decompress_vec(block).ok()).flatten();
    Ok(inflated.filter(|bytes| !bytes.is_empty()).map(|bytes| bytes.len() as u64))
}

/// True if a chunk seems to begin here that the end of the file truncates.
fn may_be_cut(packed: &mut Packed, at: u64) -> io::Result<bool> {
    let left = packed.size().unwrap_or(0) - at;
    packed.seek(at)?;
    let Some(len) = packed.fill(4)?.first_chunk::<4>().copied() else { return Ok(false) };
    let packed_len = u64::from(u32::from_le_bytes(len));
    // A number much larger than any chunk is not a length.
    Ok(packed_len > left - 4 && packed_len <= 2 << 20)
}

/// The next place from `at` on where two chunks seem to follow each other, or a chunk ends the file.
fn next_chunk(packed: &mut Packed, at: u64) -> io::Result<Option<u64>> {
    let size = packed.size().unwrap_or(0);
    let end = size.min(at.saturating_add(MAX_SEARCH_BYTES));
    let mut window = vec![0; 64 << 10];
    let mut start = at;
    while start < end {
        packed.seek(start)?;
        let n = packed.read(&mut window)?;
        for (i, head) in window[..n].windows(9).enumerate() {
            // Nearly all chunks inflate to one mebibyte and are smaller when packed; this keeps the search fast.
            let [_, _, _, high, ..] = head else { continue };
            if *high != 0 {
                continue;
            }
            let here = start + i as u64;
            if let Some((packed_len, len)) = chunk_head(packed, here)? {
                let behind = here + 4 + packed_len;
                let is_likely = packed_len > 16 && (len == 1 << 20 || behind == size);
                if is_likely && (behind == size || chunk_head(packed, behind)?.is_some()) {
                    return Ok(Some(here));
                }
            }
        }
        if n < 9 {
            break;
        }
        start += n as u64 - 8;
    }
    Ok(None)
}

fn zstd(packed: &mut Packed) -> io::Result<Vec<Landmark>> {
    let mut landmarks = Vec::new();
    let (mut at, mut inflated, mut is_behind_gap) = (0, 0, false);
    while landmarks.len() < MAX_LANDMARKS {
        match frame(packed, at)? {
            Some(Frame { packed_len, len: Some(len) }) => {
                if len > 0 {
                    landmarks.push(landmark(at, inflated, len, is_behind_gap));
                    is_behind_gap = false;
                }
                at += packed_len;
                inflated += len;
            }
            // A frame without a stated size makes the inflated offsets after it unknown.
            Some(Frame { len: None, .. }) => {
                landmarks.push(landmark(at, inflated, 0, is_behind_gap));
                return Ok(landmarks);
            }
            None => match next_frame(packed, at + 1)? {
                Some(next) => (at, is_behind_gap) = (next, true),
                None => return Ok(landmarks),
            },
        }
    }
    Ok(Vec::new())
}

/// A Zstandard frame: its packed size, and its inflated size if it is stated; the latter is 0 for skippable frames.
struct Frame {
    packed_len: u64,
    len: Option<u64>,
}

/// Walks over a frame; `None` if there is no frame, or if it is truncated.
fn frame(packed: &mut Packed, at: u64) -> io::Result<Option<Frame>> {
    packed.seek(at)?;
    let shown = packed.fill(18)?;
    let Some((magic, rest)) = shown.split_first_chunk::<4>() else { return Ok(None) };
    let magic = u32::from_le_bytes(*magic);
    if magic & 0xffff_fff0 == 0x184d_2a50 {
        let Some(len) = rest.first_chunk::<4>() else { return Ok(None) };
        let packed_len = 8 + u64::from(u32::from_le_bytes(*len));
        return Ok(Some(Frame { packed_len, len: Some(0) }));
    }
    let Some((&descriptor, rest)) = rest.split_first() else { return Ok(None) };
    if magic != ZSTD_MAGIC || descriptor & 0x08 != 0 {
        return Ok(None);
    }
    let is_single = descriptor & 0x20 != 0;
    let n_dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let n_len = match descriptor >> 6 {
        0 => usize::from(is_single),
        1 => 2,
        2 => 4,
        _ => 8,
    };
    let n_before = usize::from(!is_single) + n_dictionary;
    let Some(len_bytes) = rest.get(n_before..n_before + n_len) else { return Ok(None) };
    let number = len_bytes.iter().rev().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
    let len = match n_len {
        0 => None,
        2 => Some(number + 256),
        _ => Some(number),
    };
    let mut end = at + 5 + (n_before + n_len) as u64;
    loop {
        packed.seek(end)?;
        let Some([a, b, c]) = packed.fill(3)?.first_chunk::<3>().copied() else { return Ok(None) };
        let head = u32::from_le_bytes([a, b, c, 0]);
        let block_len = match head >> 1 & 3 {
            1 => 1,
            3 => return Ok(None),
            _ => u64::from(head >> 3),
        };
        end += 3 + block_len;
        if head & 1 != 0 {
            break;
        }
    }
    end += if descriptor & 4 != 0 { 4 } else { 0 };
    // A stated size larger than the bytes can make is wrong: a block of two bytes may stand for 128 KiB.
    let can_be = len.is_none_or(|len| len <= (end - at).saturating_mul(128 << 10));
    Ok((can_be && end <= packed.size().unwrap_or(0)).then_some(Frame { packed_len: end - at, len }))
}

/// The next place from `at` on where a complete frame begins.
fn next_frame(packed: &mut Packed, at: u64) -> io::Result<Option<u64>> {
    let end = packed.size().unwrap_or(0).min(at.saturating_add(MAX_SEARCH_BYTES));
    let mut window = vec![0; 64 << 10];
    let mut start = at;
    while start < end {
        packed.seek(start)?;
        let n = packed.read(&mut window)?;
        for (i, bytes) in window[..n].windows(4).enumerate() {
            let here = start + i as u64;
            if bytes == ZSTD_MAGIC.to_le_bytes() && frame(packed, here)?.is_some() {
                return Ok(Some(here));
            }
        }
        if n < 4 {
            break;
        }
        start += n as u64 - 3;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;
    use crate::stream::{Ahead, StreamOptions};

    fn parts() -> Vec<Vec<u8>> {
        (1..6u32).map(|i| (0..(1u32 << 20)).map(|n| (n / (7 * i)) as u8).collect()).collect()
    }

    fn snappy_file(parts: &[Vec<u8>]) -> Vec<u8> {
        let mut file = b"at".to_vec();
        for part in parts {
            let block = snap::raw::Encoder::new().compress_vec(part).unwrap();
            file.extend((block.len() as u32).to_le_bytes());
            file.extend(block);
        }
        file
    }

    fn zstd_file(parts: &[Vec<u8>]) -> Vec<u8> {
        parts.iter().flat_map(|part| zstd::bulk::compress(part, 1).unwrap()).collect()
    }

    fn rest(container: &Container, landmark: &Landmark) -> Vec<u8> {
        let options = StreamOptions { block_bytes: 100_000, ahead: Ahead::Inline, workers: 1 };
        let mut stream = container.stream_at(landmark.packed_at, &options).unwrap();
        let (mut block, mut bytes) = (Vec::new(), Vec::new());
        while stream.next(&mut block).unwrap().is_some() {
            bytes.extend_from_slice(&block);
        }
        bytes
    }

    #[test]
    fn from_each_landmark_on_the_rest_can_be_read() {
        let parts = parts();
        let all = parts.concat();
        for file in [snappy_file(&parts), zstd_file(&parts), all.clone()] {
            let container = Source::from_bytes("memory", file).container().unwrap();
            let landmarks = container.landmarks().unwrap();
            assert!(landmarks.len() == parts.len() || container.codec() == Codec::Plain);
            for landmark in landmarks {
                assert!(rest(&container, landmark) == all[landmark.at as usize..]);
            }
        }
    }

    #[test]
    fn a_length_that_cannot_be_is_passed_over() {
        let parts = parts();
        let mut file = snappy_file(&parts);
        let container = |file: &[u8]| Source::from_bytes("memory", file).container().unwrap();
        let whole = container(&file).landmarks().unwrap().to_vec();
        let third = whole[2].packed_at as usize;
        file[third..third + 4].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
        let found = container(&file).landmarks().unwrap().to_vec();
        let places = |landmarks: &[Landmark]| landmarks.iter().map(|l| l.packed_at).collect::<Vec<_>>();
        let starts = |landmarks: &[Landmark]| landmarks.iter().map(|l| l.at).collect::<Vec<_>>();
        // The block itself is complete, so everything is where it was.
        assert_eq!((places(&found), starts(&found)), (places(&whole), starts(&whole)));
        let mended = |landmarks: &[Landmark]| landmarks.iter().position(|l| l.is_mended);
        assert_eq!((mended(&whole), mended(&found)), (None, Some(2)));
        assert!(!found.iter().any(|l| l.is_behind_gap));
        // Damage of the block itself makes a gap.
        file[third + 4..third + 40].fill(0xff);
        let found = container(&file).landmarks().unwrap().to_vec();
        let mut expected = places(&whole);
        expected.remove(2);
        assert_eq!(places(&found), expected);
        assert_eq!((found.iter().filter(|l| l.is_behind_gap).count(), mended(&found)), (1, None));
    }

    #[test]
    fn any_damage_leaves_landmarks_inside_the_file() {
        let parts: Vec<Vec<u8>> = (0..4u8).map(|i| vec![i; 3000]).collect();
        for file in [snappy_file(&parts), zstd_file(&parts)] {
            for at in 0..file.len() {
                for flip in [1, 0x80, 0xff] {
                    let mut file = file.clone();
                    file[at] ^= flip;
                    let size = file.len() as u64;
                    let source = Source::from_bytes("memory", file);
                    let Ok(container) = source.container() else { continue };
                    let landmarks = container.landmarks().unwrap();
                    assert!(landmarks.iter().all(|l| l.packed_at <= size), "{at}");
                }
            }
        }
    }
}
