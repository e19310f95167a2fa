//! A sequential read over the members of a container, block by block.

use std::fmt;
use std::ops::Range;

use crate::ahead::Ahead as Lanes;
use crate::container::Container;
use crate::error::Result;
use crate::sequence::Sequence;

/// Options for block size and reading ahead.
///
/// Maximum memory for each stream: the blocks that are read ahead, and for each worker one block, a quarter of a block (but 4
/// to 128 KiB) of packed bytes, about 50 KiB of decompressor state, and 4 MiB while members of up to that size are inflated
/// in one call into smaller blocks. If blocks are smaller than 64 KiB, such members are packed again and take at most 40 KiB
/// instead of the decompressor's state. LZ4 and Zstandard add what their frames require: usually 0.2 to 8 MiB, at most 13 and
/// 128 MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// Size of a block in bytes. Blocks have exactly this size, except the last of each member and one that ends before a
    /// fault. 0 counts as 1.
    pub block_bytes: usize,
    /// Whether and how to read ahead.
    pub ahead: Ahead,
    /// Number of threads that read ahead. More than one only helps for an archive of many small members, because members are
    /// delivered in order. 0 counts as 1; a pipe has one.
    pub workers: usize,
}

/// The thread that decompresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// The caller's thread, within [`Stream::next`].
    Inline,
    /// Separate threads of the stream.
    Thread {
        /// Maximum number of finished blocks that wait for the caller, over all workers; at least one for each.
        blocks: usize,
    },
}

impl Default for StreamOptions {
    /// Blocks of 192 KiB (whole 12-byte records, and fits into the second-level cache), eight of them ahead, one worker.
    fn default() -> StreamOptions {
        StreamOptions { block_bytes: 192 << 10, ahead: Ahead::Thread { blocks: 8 }, workers: 1 }
    }
}

/// The position of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockAt {
    /// Index of the member in [`Container::members`]; on a pipe, members are counted from 0.
    pub member: u32,
    /// Offset of the block's first byte in the inflated member.
    pub offset: u64,
    /// Whether this block is the last of its member, and the member is sound: its checksum, if it has one, was verified.
    ///
    /// A member that ends in a fault has no last block; the error takes its place.
    pub last: bool,
}

/// A sequential read over a range of members; see [`Container::stream`].
///
/// Owned and `Send`: it keeps its source alive.
///
/// ```
/// use quipu_source::{Ahead, Source, StreamOptions};
///
/// # fn main() -> quipu_source::Result<()> {
/// let container = Source::from_bytes("greeting", *b"hello, world").container()?;
/// let options = StreamOptions { block_bytes: 5, ahead: Ahead::Inline, ..StreamOptions::default() };
/// let mut stream = container.stream(container.all_members(), &options)?;
/// let mut block = Vec::new();
/// let mut blocks = Vec::new();
/// while let Some(at) = stream.next(&mut block)? {
///     blocks.push((at.offset, String::from_utf8_lossy(&block).into_owned(), at.last));
/// }
/// assert_eq!(blocks, [(0, "hello".into(), false), (5, ", wor".into(), false), (10, "ld".into(), true)]);
/// # Ok(())
/// # }
/// ```
pub struct Stream(Reading);

enum Reading {
    Inline(Box<Sequence>),
    Ahead(Box<Lanes>),
}

impl Stream {
    pub(crate) fn new(
        container: Container,
        members: Range<usize>,
        options: &StreamOptions,
    ) -> Result<Stream> {
        Stream::of(container, members, None, options)
    }

    /// A stream over the only member of a file, starting from a place in the middle.
    pub(crate) fn from_place(
        container: Container,
        packed_at: u64,
        options: &StreamOptions,
    ) -> Result<Stream> {
        Stream::of(container, 0..1, Some(packed_at), options)
    }

    fn of(
        container: Container,
        members: Range<usize>,
        place: Option<u64>,
        options: &StreamOptions,
    ) -> Result<Stream> {
        let sequence = |first_skipped: usize, step: usize| {
            let members = members.start.saturating_add(first_skipped)..members.end;
            let origin = container.origin()?;
            let sequence = Sequence::new(container.clone(), origin, members, step, options.block_bytes);
            Ok(match place {
                Some(packed_at) => sequence.begin_at(packed_at),
                None => sequence,
            })
        };
        let Ahead::Thread { blocks } = options.ahead else {
            return Ok(Stream(Reading::Inline(Box::new(sequence(0, 1)?))));
        };
        let can_seek = container.source().can_seek();
        let n_members = members.end.saturating_sub(members.start).max(1);
        let n_workers = if can_seek { options.workers.clamp(1, n_members) } else { 1 };
        let sequences = (0..n_workers).map(|lane| sequence(lane, n_workers)).collect::<Result<Vec<_>>>()?;
        let blocks_per_lane = (blocks / n_workers).max(1);
        Ok(Stream(Reading::Ahead(Box::new(Lanes::new(sequences, blocks_per_lane, can_seek)))))
    }

    /// Puts the next block into `block`; returns `None` if there are no more.
    ///
    /// The vector is swapped or refilled, regardless of its content; passing the same one each time saves allocations, and
    /// not clearing it saves zeroing it again. Blocks never span members; an empty member gives one empty block, and so does
    /// an empty file.
    ///
    /// # Errors
    /// Bytes inflated before a fault are delivered first, as a shorter block (formats with their own blocks, LZ4, snappy and
    /// Zstandard, lose the block with the fault). A deflated member of an archive whose checksum is wrong gives only the
    /// error if it is inflated in one call, or once [`Container::good_until`] knows about it: any of its bytes may be wrong.
    /// The next call returns the error, once, with file, member, offset and packed offset. After that, reading continues with
    /// the next member, if any, and in a carried file with the next bytes that are there ([`Container::next_readable`]). An
    /// `Io` or `Internal` error ends the stream. `block` is unspecified after an error.
    #[allow(clippy::should_implement_trait)] // An iterator could not lend and recycle blocks.
    pub fn next(&mut self, block: &mut Vec<u8>) -> Result<Option<BlockAt>> {
        match &mut self.0 {
            Reading::Inline(sequence) => sequence.next(block),
            Reading::Ahead(lanes) => lanes.next(block),
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Reading::Inline(_) => "Stream(inline)",
            Reading::Ahead(_) => "Stream(ahead)",
        })
    }
}
