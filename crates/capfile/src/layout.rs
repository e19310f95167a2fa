//! Where things stand in a capture file. SPEC: capture.md#layout.
//!
//! The file is a page of header and then *extents*, claimed one after the other by moving [`header::END`] on. An extent is a
//! *buffer*, which a thread of the program writes cells into, or a *chunk*, what a buffer held when it was full.
//! All integers are little-endian and aligned.

/// First bytes of a file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"QUIPUCAP");
/// Version of all that is described here.
pub const VERSION: u64 = 1;
/// Bytes of the header; the first extent follows.
pub const HEADER_BYTES: u64 = 4096;
/// Extents begin at multiples of this.
pub const EXTENT_ALIGN: u64 = 64;
/// Buffers begin at multiples of this, so that they can be mapped.
pub const PAGE_BYTES: u64 = 4096;

/// Offsets of 8-byte fields in the header.
pub mod header {
    /// [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// [`super::VERSION`].
    pub const VERSION: usize = 8;
    /// Where the next extent begins.
    pub const END: usize = 16;
    /// The process.
    pub const PID: usize = 24;
    /// Bits of [`super::state`].
    pub const STATE: usize = 32;
    /// Wall clock at the start, in ns since 1970.
    pub const START_NS: usize = 40;
    /// Monotonic clock at the start, in ns.
    pub const START_TICKS: usize = 48;
    /// Monotonic clock at the end, in ns; 0 before.
    pub const END_TICKS: usize = 56;
    /// The process that this one was forked from and that was traced, too; 0 for none.
    pub const PARENT: usize = 72;
    /// Where the newest buffer stands; 0 for none.
    pub const BUFFERS: usize = 104;
    /// The file may not grow beyond this; 0 for any size.
    pub const MAX_BYTES: usize = 112;
}

/// What became of the program: bits of [`header::STATE`].
pub mod state {
    /// It ended of its own will.
    pub const EXITED: u64 = 1;
    /// The file reached the size it may have; what came later was not recorded.
    pub const LIMIT: u64 = 2;
    /// The disk was full; what came later was not recorded.
    pub const DISK_FULL: u64 = 4;
}

/// First bytes of a buffer.
pub const BUFFER_MAGIC: u64 = u64::from_le_bytes(*b"QUIPUBUF");
/// First bytes of a chunk.
pub const CHUNK_MAGIC: u64 = u64::from_le_bytes(*b"QUIPUCHK");

/// Offsets of 8-byte fields at the start of an extent; those of buffers and chunks agree up to [`extent::TICKS`].
pub mod extent {
    /// [`super::BUFFER_MAGIC`] or [`super::CHUNK_MAGIC`].
    pub const MAGIC: usize = 0;
    /// Where in the file it stands: tells an extent from bytes that look like one.
    pub const OFFSET: usize = 8;
    /// Its bytes, with this head.
    pub const BYTES: usize = 16;
    /// Number of the thread, counted from 1 in order of start.
    pub const THREAD: usize = 24;
    /// The kernel's number of the thread.
    pub const TID: usize = 32;
    /// Number among the thread's chunks, from 0.
    pub const SEQ: usize = 40;
    /// Stamp before its first cell.
    pub const STAMP: usize = 48;
    /// Monotonic clock when it was begun, in ns.
    pub const TICKS: usize = 56;

    /// Chunks: cells that it holds.
    pub const CELLS: usize = 64;
    /// Chunks: how they are written, [`super::PLAIN`] or [`super::PACKED`].
    pub const ENCODING: usize = 72;

    /// Buffers: what the upper 16 bits of valid cells are, shifted to their place; 0 while there are none.
    pub const TAG: usize = 64;
    /// Buffers: how often it was begun; the tag is made of it.
    pub const GENERATION: usize = 72;
    /// Buffers: [`super::FREE`] or [`super::ACTIVE`].
    pub const STATE: usize = 80;
    /// Buffers: where the one claimed before it stands; 0 for none.
    pub const NEXT: usize = 88;
}

/// Bytes of the head of an extent; the payload follows.
pub const EXTENT_HEAD_BYTES: usize = 128;

/// State of a buffer: free.
pub const FREE: u64 = 0;
/// State of a buffer: a thread writes into it.
pub const ACTIVE: u64 = 1;

/// Encoding of a chunk: its cells as they are, without tags.
pub const PLAIN: u64 = 0;
/// Encoding of a chunk: see [`crate::pack`].
pub const PACKED: u64 = 1;

/// Bytes of a buffer, and what its address is a multiple of: the address of a cell tells its buffer.
pub const BUFFER_BYTES: usize = 256 << 10;
/// Where the cells of a buffer end. The rest is room for a cursor that ran past.
pub const CELLS_END: usize = BUFFER_BYTES - (32 << 10);
/// Cells of a buffer.
pub const BUFFER_CELLS: usize = (CELLS_END - EXTENT_HEAD_BYTES) / crate::cell::CELL_BYTES;

/// The tag of a buffer that was begun for the `generation`-th time, in its place in a cell; never 0.
pub const fn tag(generation: u64) -> u64 {
    (1 + generation % 0xffff) << 48
}
