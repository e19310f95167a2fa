//! Cells: 16 bytes each, which everything is written in. SPEC: stream.md#cells.
//!
//! ```text
//!  63        48 47                                             0
//! ┌────────────┬────────────────────────────────────────────────┐
//! │ code       │ value: an address                              │  first word
//! ├────────────┼────────────────────────────────────────────────┤
//! │ tag        │ side: the program counter                      │  second word
//! └────────────┴────────────────────────────────────────────────┘
//! ```
//!
//! The second word is written last, and its tag is that of the buffer's current use: a cell whose tag is another one was not
//! written, whatever else stands there. A code below 256 is an access; others have their kind in the upper byte and, in the
//! lower one, how many cells follow that belong to them. Those have 64 + 48 bits of their own.

/// Bytes of a cell.
pub const CELL_BYTES: usize = 16;
/// The lower 48 bits.
pub const LOW: u64 = (1 << 48) - 1;
/// Bytes of text in a cell that follows.
pub const TEXT_BYTES: usize = 14;

/// A cell without its tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The first word.
    pub word: u64,
    /// The lower 48 bits of the second.
    pub side: u64,
}

impl Cell {
    /// A cell that was claimed and never written.
    pub const HOLE: Cell = Cell { word: (kind::HOLE as u64) << 56, side: 0 };

    /// The code: what the cell is.
    pub const fn code(self) -> u16 {
        (self.word >> 48) as u16
    }

    /// The value: the lower 48 bits of the first word.
    pub const fn value(self) -> u64 {
        self.word & LOW
    }

    /// How many cells follow that belong to it.
    pub const fn n_following(self) -> usize {
        if self.word >> 56 == 0 { 0 } else { (self.word >> 48) as usize & 0xff }
    }
}

/// Codes of accesses: bits.
pub mod access {
    /// Logarithm of the size in bytes, 0 to 4.
    pub const SIZE_LOG2: u16 = 0x07;
    /// A store.
    pub const WRITE: u16 = 0x10;
    /// The compiler could not prove that it is aligned.
    pub const UNALIGNED: u16 = 0x20;
    /// To a volatile object.
    pub const VOLATILE: u16 = 0x40;
    /// To the pointer to a virtual table.
    pub const VPTR: u16 = 0x80;
}

/// Kinds of other cells: the upper byte of a code.
pub mod kind {
    /// Fills a buffer that has too few cells left.
    pub const PAD: u8 = 1;
    /// A function was entered: value = the caller's address; side = within the function.
    pub const ENTER: u8 = 2;
    /// A function was left.
    pub const LEAVE: u8 = 3;
    /// An atomic operation. Cell 1: stamp; order, operation, size, success.
    pub const ATOMIC: u8 = 4;
    /// An access of any size. Cell 1: size; code of an access and upper 16 bits of the address.
    pub const RANGE: u8 = 5;
    /// Memory was allocated: value = address. Cell 1: stamp; which call. Cell 2: bytes of an element; elements.
    pub const ALLOC: u8 = 6;
    /// Memory is to be freed: value = address. Cell 1: stamp; which call.
    pub const RELEASE: u8 = 7;
    /// Memory has a type: value = address. Cell 1: stamp; bytes of its name. Cell 2: bytes of an element; elements. Name.
    pub const TYPED: u8 = 8;
    /// Memory has no type any more: value = address. Cell 1: stamp; –.
    pub const UNTYPED: u8 = 9;
    /// Threads and what they wait for: value = an object. Cell 1: stamp; what. Cell 2: two more values.
    pub const SYNC: u8 = 10;
    /// A text: value = an address that it belongs to. Cell 1: which; its bytes. Text.
    pub const TEXT: u8 = 11;
    /// A module of the program: value = where it was loaded. Cell 1: bytes that it takes; bytes of its path. Path.
    pub const MODULE: u8 = 12;
    /// Was claimed and never written. Never stands in a buffer, only in a frame that was closed.
    pub const HOLE: u8 = 255;
}

/// Which call allocated or released.
pub mod heap {
    /// `malloc`, `free`.
    pub const MALLOC: u64 = 0;
    /// `calloc`.
    pub const CALLOC: u64 = 1;
    /// `realloc`.
    pub const REALLOC: u64 = 2;
    /// `aligned_alloc` and its kin.
    pub const ALIGNED: u64 = 3;
    /// `operator new`, `operator delete`.
    pub const NEW: u64 = 4;
    /// `realloc` that failed: the old memory is still there.
    pub const REALLOC_FAILED: u64 = 5;
}

/// Operations of atomics: byte 0 of the side of their second cell. Byte 1 is the logarithm of the size, byte 2 the order, byte 3
/// that of a failure, byte 4 is 1 if a compare-exchange succeeded.
pub mod atomic {
    /// `load`.
    pub const LOAD: u8 = 0;
    /// `store`.
    pub const STORE: u8 = 1;
    /// `exchange`.
    pub const EXCHANGE: u8 = 2;
    /// `fetch_add`.
    pub const ADD: u8 = 3;
    /// `fetch_sub`.
    pub const SUB: u8 = 4;
    /// `fetch_and`.
    pub const AND: u8 = 5;
    /// `fetch_or`.
    pub const OR: u8 = 6;
    /// `fetch_xor`.
    pub const XOR: u8 = 7;
    /// `fetch_nand`.
    pub const NAND: u8 = 8;
    /// Compare-exchange that returns the old value.
    pub const COMPARE_VAL: u8 = 9;
    /// Compare-exchange with a pointer to what is expected; cell 2 has that pointer.
    pub const COMPARE: u8 = 10;
}

/// What a `SYNC` says: the side of its second cell.
pub mod sync {
    /// A thread begins; values: its ticket (what [`CREATE`] gave), its `pthread_t`.
    pub const START: u64 = 1;
    /// A thread ends; value: its `pthread_t`.
    pub const END: u64 = 2;
    /// A thread is to be made; value: its ticket.
    pub const CREATE: u64 = 3;
    /// A thread was joined.
    pub const JOIN: u64 = 4;
    /// A lock was taken; value: 1 for reading, 2 for one that was tried.
    pub const LOCK: u64 = 5;
    /// A lock is to be given back.
    pub const UNLOCK: u64 = 6;
    /// A lock was tried and not taken.
    pub const LOCK_FAILED: u64 = 7;
    /// A condition is to be waited for; value: the lock.
    pub const WAIT: u64 = 8;
    /// The wait for a condition is over; values: the lock, the result.
    pub const WOKEN: u64 = 9;
    /// A condition is to be signalled.
    pub const SIGNAL: u64 = 10;
    /// A condition is to be signalled to all.
    pub const BROADCAST: u64 = 11;
    /// A barrier is reached.
    pub const ARRIVE: u64 = 12;
    /// A barrier was passed.
    pub const PASS: u64 = 13;
    /// A semaphore is to be posted.
    pub const POST: u64 = 14;
    /// A semaphore was taken.
    pub const TAKE: u64 = 15;
    /// What the program says: happens before.
    pub const RELEASE: u64 = 16;
    /// What the program says: happens after.
    pub const ACQUIRE: u64 = 17;
    /// A fence between threads; value: its order.
    pub const FENCE: u64 = 18;
    /// A fence against signal handlers; value: its order.
    pub const SIGNAL_FENCE: u64 = 19;
    /// A lock of the program's own was made; value: its flags.
    pub const MUTEX_CREATE: u64 = 20;
    /// A lock of the program's own was destroyed; value: its flags.
    pub const MUTEX_DESTROY: u64 = 21;
    /// A fiber was made.
    pub const FIBER_CREATE: u64 = 22;
    /// A fiber was destroyed.
    pub const FIBER_DESTROY: u64 = 23;
    /// The thread continues as another fiber; value: flags.
    pub const FIBER_SWITCH: u64 = 24;
    /// The process was forked; the child has a file of its own.
    pub const FORK: u64 = 25;
    /// Recording was suspended by the program.
    pub const PAUSE: u64 = 26;
    /// Recording continues.
    pub const RESUME: u64 = 27;
}

/// Which text a `TEXT` is.
pub mod text {
    /// The name of the thread.
    pub const THREAD: u64 = 1;
    /// The name of a fiber.
    pub const FIBER: u64 = 2;
    /// What the program wants to find again: a mark.
    pub const MARK: u64 = 3;
}
