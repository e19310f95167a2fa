//! Members that are inflated in one call instead of block by block.
//!
//! For a reader with large blocks, that is nearly twice as fast; the reader keeps the inflated bytes until it has delivered
//! them. A reader with small blocks is one of thousands, and neither those bytes nor a decompressor for each of them would
//! fit into memory: the state of a decompressor alone takes 50 KiB or more. So such a reader borrows the decompressor of its
//! thread, and packs the bytes again, block by block, that it has not delivered yet.

use std::cell::RefCell;

use libdeflater::Decompressor;

use crate::codec::Codec;
use crate::container::{Member, Method};
use crate::inflate::{End, Expected, Inflater};
use crate::pack::Fast;
use crate::packed::Packed;

/// Members up to this inflated size are inflated in one call, into a buffer of that size. PERF: docs/performance.md,
/// "Decompression".
const MAX_WHOLE_BYTES: usize = 4 << 20;
/// Deflate never needs more than this for that many bytes, whatever a directory states.
const MAX_WHOLE_PACKED_BYTES: usize = MAX_WHOLE_BYTES + (64 << 10);
/// From this block size on, a reader is assumed to have memory for [`MAX_WHOLE_BYTES`].
const FULL_BLOCK_BYTES: usize = 64 << 10;
/// Smaller blocks are not worth packing: their readers only look at the first one.
const MIN_BLOCK_BYTES: usize = 4 << 10;
/// Members with fewer blocks than this are inflated in one call, whatever the block size.
const FEW_BLOCKS: usize = 4;
/// Upper limit on the packed bytes of a member that one of thousands of readers may keep: less than a decompressor in
/// mid-stream.
const MAX_KEPT_BYTES: usize = 40 << 10;
/// Initial size of the buffer that all readers of a thread inflate into.
const FIRST_BYTES: usize = 256 << 10;

/// Inflates small members in one call.
#[derive(Default)]
pub(crate) struct Whole {
    decompressor: Option<Decompressor>,
    /// The bytes of a member that is larger than a block.
    bytes: Vec<u8>,
    kept: Kept,
}

/// The blocks of a member that have not been delivered yet, each packed separately.
#[derive(Default)]
struct Kept {
    packed: Box<[u8]>,
    /// End of each block in `packed`.
    ends: Box<[u32]>,
    /// Inflated size of the member.
    len: usize,
}

/// A member that is inflated in one call, and the offset up to which it has been delivered.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) codec: Codec,
    pub(crate) expected: Expected,
    pub(crate) packed_len: Option<u64>,
    pub(crate) offset: u64,
}

/// The outcome of inflating a member in one call.
pub(crate) enum Filled {
    /// The next block of the member: its length, and whether the member ends with it.
    Block(usize, End),
    /// Nothing was delivered, and the cursor has not moved: the member is damaged, or its stated size or checksum is wrong.
    Doubtful,
    /// Nothing was delivered, and the cursor has not moved: the member must be inflated block by block.
    Unfit,
}

/// State that the readers with small blocks of one thread share.
#[derive(Default)]
struct Shared {
    decompressor: Option<Decompressor>,
    inflater: Inflater,
    bytes: Vec<u8>,
    packer: Option<Fast>,
    /// Packed blocks are collected here and then copied: vectors growing in each reader would leave holes in memory between
    /// them.
    packed: Vec<u8>,
}

thread_local! {
    static SHARED: RefCell<Shared> = RefCell::default();
}

/// True if a member of an archive should be inflated in one call.
pub(crate) fn suits_member(member: &Member, block_bytes: usize) -> bool {
    let (max, max_packed) = match block_bytes {
        FULL_BLOCK_BYTES.. => (MAX_WHOLE_BYTES, MAX_WHOLE_PACKED_BYTES),
        MIN_BLOCK_BYTES.. => (MAX_WHOLE_BYTES, MAX_KEPT_BYTES),
        _ => (FEW_BLOCKS * block_bytes, MAX_KEPT_BYTES),
    };
    member.method == Method::Deflate
        && member.crc32.is_some()
        && member.len.is_some_and(|len| (1..=max as u64).contains(&len))
        && member.packed_len.is_some_and(|len| len <= max_packed as u64)
}

/// True if a single file of this size should be inflated in one call.
pub(crate) fn suits_file(codec: Codec, size: Option<u64>, block_bytes: usize) -> bool {
    codec != Codec::Plain
        && (MIN_BLOCK_BYTES..FULL_BLOCK_BYTES).contains(&block_bytes)
        && size.is_some_and(|size| size <= MAX_KEPT_BYTES as u64)
}

impl Whole {
    /// Inflates the member whose bytes begin at the cursor, unless it has been inflated already, and delivers its next block.
    pub(crate) fn fill(
        &mut self,
        packed: &mut Packed,
        member: Progress,
        block: &mut Vec<u8>,
        block_bytes: usize,
    ) -> Filled {
        let Ok(offset) = usize::try_from(member.offset) else { return Filled::Doubtful };
        if block_bytes < FULL_BLOCK_BYTES {
            return SHARED.with_borrow_mut(|shared| match offset {
                0 => self.kept.fill_first(shared, packed, member, block, block_bytes),
                _ => self.kept.fill_next(shared, offset, block, block_bytes),
            });
        }
        if offset == 0 {
            let is_one = member.expected.len.is_some_and(|len| len <= block_bytes as u64);
            let out = if is_one { &mut *block } else { &mut self.bytes };
            let decompressor = self.decompressor.get_or_insert_default();
            if !inflate_member(decompressor, packed, member, out) {
                return Filled::Doubtful;
            }
            if is_one {
                return Filled::Block(block.len(), End::Done);
            }
        }
        let Some(rest) = self.bytes.get(offset..) else { return Filled::Doubtful };
        let part = &rest[..rest.len().min(block_bytes)];
        block.resize(part.len(), 0);
        block.copy_from_slice(part);
        Filled::Block(part.len(), if part.len() == rest.len() { End::Done } else { End::More })
    }
}

impl Kept {
    /// Inflates a member, delivers its first block and packs the others.
    fn fill_first(
        &mut self,
        shared: &mut Shared,
        packed: &mut Packed,
        member: Progress,
        block: &mut Vec<u8>,
        block_bytes: usize,
    ) -> Filled {
        let at = packed.at();
        if member.codec == Codec::Zip {
            let decompressor = shared.decompressor.get_or_insert_default();
            if !inflate_member(decompressor, packed, member, &mut shared.bytes) {
                return Filled::Doubtful;
            }
        } else if !inflate_file(&mut shared.inflater, member.codec, packed, &mut shared.bytes) {
            return back(packed, at);
        }
        packed.shrink();
        let (first, rest) = shared.bytes.split_at(shared.bytes.len().min(block_bytes));
        let packer = shared.packer.get_or_insert_default();
        shared.packed.clear();
        let mut ends = Vec::with_capacity(rest.len().div_ceil(block_bytes));
        for part in rest.chunks(block_bytes) {
            packer.deflate(part, true, &mut shared.packed);
            ends.push(shared.packed.len() as u32); // Hardly more than the limit below.
            if shared.packed.len() > MAX_KEPT_BYTES {
                return back(packed, at);
            }
        }
        *self = Kept { packed: shared.packed.as_slice().into(), ends: ends.into(), len: shared.bytes.len() };
        block.clear();
        block.extend_from_slice(first);
        Filled::Block(first.len(), if rest.is_empty() { End::Done } else { End::More })
    }

    /// Delivers a block that was packed again: any but the first.
    fn fill_next(
        &mut self,
        shared: &mut Shared,
        offset: usize,
        block: &mut Vec<u8>,
        block_bytes: usize,
    ) -> Filled {
        let Some(number) = (offset / block_bytes).checked_sub(1) else { return Filled::Doubtful };
        let start = number.checked_sub(1).map_or(Some(&0), |before| self.ends.get(before));
        let range = start.zip(self.ends.get(number)).map(|(start, end)| *start as usize..*end as usize);
        let Some(part) = range.and_then(|range| self.packed.get(range)) else { return Filled::Doubtful };
        let n = self.len.saturating_sub(offset).min(block_bytes);
        block.resize(n, 0);
        let decompressor = shared.decompressor.get_or_insert_default();
        if decompressor.deflate_decompress(part, block) != Ok(n) {
            return Filled::Doubtful;
        }
        let is_last = number + 1 == self.ends.len();
        if is_last {
            *self = Kept::default();
        }
        Filled::Block(n, if is_last { End::Done } else { End::More })
    }
}

/// Moves the cursor back to the beginning of the member's bytes.
fn back(packed: &mut Packed, at: u64) -> Filled {
    if packed.seek(at).is_ok() { Filled::Unfit } else { Filled::Doubtful }
}

/// Inflates a member of an archive and consumes its packed bytes. False, without consuming any, if it does not match its
/// stated size or checksum.
fn inflate_member(
    decompressor: &mut Decompressor,
    packed: &mut Packed,
    member: Progress,
    out: &mut Vec<u8>,
) -> bool {
    let len = member.expected.len.and_then(|len| usize::try_from(len).ok());
    let packed_len = member.packed_len.and_then(|len| usize::try_from(len).ok());
    let (Some(len), Some(packed_len)) = (len, packed_len) else { return false };
    let Some(input) = packed.fill(packed_len).ok().and_then(|input| input.get(..packed_len)) else {
        return false;
    };
    out.resize(len, 0);
    if decompressor.deflate_decompress(input, out) != Ok(len)
        || Some(libdeflater::crc32(out)) != member.expected.crc32
    {
        return false;
    }
    packed.consume(packed_len);
    true
}

/// Inflates a single file. False if it is larger than [`MAX_WHOLE_BYTES`] or anything is wrong with it.
fn inflate_file(inflater: &mut Inflater, codec: Codec, packed: &mut Packed, out: &mut Vec<u8>) -> bool {
    if inflater.restart(codec).is_err() {
        return false;
    }
    let mut n_bytes = 0;
    while n_bytes < MAX_WHOLE_BYTES {
        if out.len() <= n_bytes {
            out.resize((2 * n_bytes).clamp(FIRST_BYTES, MAX_WHOLE_BYTES), 0);
        }
        let (n_more, end) = inflater.inflate(packed, &mut out[n_bytes..]);
        n_bytes += n_more;
        match end {
            End::More => {}
            End::Done => {
                out.truncate(n_bytes);
                return true;
            }
            End::Fault(_) => return false,
        }
    }
    false
}
