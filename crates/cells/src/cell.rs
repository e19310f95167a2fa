//! Cells: 16-byte units of recordings. SPEC: stream.md#cells.
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
//! The second word is written last. Its tag identifies the current use of the buffer: a cell with any other tag was not
//! written, whatever else it contains. A code below 256 is an access. Other codes have their kind in the upper byte, and in
//! the lower byte the number of continuation cells, each of which has 64 + 48 bits of payload.

/// Bytes of a cell.
pub const CELL_BYTES: usize = 16;
/// Mask of the lower 48 bits.
pub const LOW: u64 = (1 << 48) - 1;
/// Bytes of text in a continuation cell.
pub const TEXT_BYTES: usize = 14;
/// The largest range of memory that the runtime records as one access. It records a larger one as several.
pub const MAX_RANGE_BYTES: u64 = 16 << 20;

/// A cell without its tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The first word.
    pub word: u64,
    /// The lower 48 bits of the second word.
    pub side: u64,
}

impl Cell {
    /// A cell that was claimed but never written.
    pub const HOLE: Cell = Cell { word: (kind::HOLE as u64) << 56, side: 0 };

    /// The code, which identifies the kind of cell.
    pub const fn code(self) -> u16 {
        (self.word >> 48) as u16
    }

    /// The value: the lower 48 bits of the first word.
    pub const fn value(self) -> u64 {
        self.word & LOW
    }

    /// Number of continuation cells.
    pub const fn n_following(self) -> usize {
        if self.word >> 56 == 0 { 0 } else { (self.word >> 48) as usize & 0xff }
    }
}

/// Bits in the codes of accesses.
pub mod access {
    /// Logarithm of the size in bytes, 0 to 4.
    pub const SIZE_LOG2: u16 = 0x07;
    /// A store.
    pub const WRITE: u16 = 0x10;
    /// The compiler could not prove that the access is aligned.
    pub const UNALIGNED: u16 = 0x20;
    /// An access to a volatile object.
    pub const VOLATILE: u16 = 0x40;
    /// An access to a pointer to a virtual table.
    pub const VPTR: u16 = 0x80;
}

/// Kinds of other cells, in the upper byte of a code. "Cell 1: a; b" gives the word and the side of the first continuation
/// cell.
pub mod kind {
    /// Padding in a buffer that has too few cells left.
    pub const PAD: u8 = 1;
    /// A function was entered: value = the caller's address; side = within the function.
    pub const ENTER: u8 = 2;
    /// A function was left.
    pub const LEAVE: u8 = 3;
    /// An atomic operation. Cell 1: stamp; order, operation, size, success.
    pub const ATOMIC: u8 = 4;
    /// An access of any size up to [`super::MAX_RANGE_BYTES`]. Cell 1: size; code of an access and upper 16 bits of the address.
    pub const RANGE: u8 = 5;
    /// Memory was allocated: value = address. Cell 1: stamp; call ([`super::heap`]). Cell 2: bytes of an element; elements.
    pub const ALLOC: u8 = 6;
    /// Memory is about to be freed: value = address. Cell 1: stamp; call ([`super::heap`]).
    pub const RELEASE: u8 = 7;
    /// Memory was given a type: value = address. Cell 1: stamp; bytes of its name. Cell 2: bytes of an element; elements.
    /// Name.
    pub const TYPED: u8 = 8;
    /// Memory no longer has a type: value = address. Cell 1: stamp; –.
    pub const UNTYPED: u8 = 9;
    /// Synchronization of threads: value = an object. Cell 1: stamp; operation ([`super::sync`]). Cell 2: two more values.
    pub const SYNC: u8 = 10;
    /// A text: value = the address that it belongs to. Cell 1: which ([`super::text`]); its bytes. Text.
    pub const TEXT: u8 = 11;
    /// A module of the program: value = its load address. Cell 1: bytes of memory; bytes of its path. Path.
    pub const MODULE: u8 = 12;
    /// A cell that was claimed but never written. Occurs only in closed frames, not in buffers.
    pub const HOLE: u8 = 255;
}

/// Calls that allocate or release memory.
pub mod heap {
    /// `malloc`, `free`.
    pub const MALLOC: u64 = 0;
    /// `calloc`.
    pub const CALLOC: u64 = 1;
    /// `realloc`.
    pub const REALLOC: u64 = 2;
    /// `aligned_alloc` and similar calls.
    pub const ALIGNED: u64 = 3;
    /// `operator new`, `operator delete`.
    pub const NEW: u64 = 4;
    /// A `realloc` that failed: the old memory remains allocated.
    pub const REALLOC_FAILED: u64 = 5;
}

/// Atomic operations: byte 0 of the side of the first continuation cell. Byte 1 is the logarithm of the size, byte 2 the
/// order, byte 3 the order on failure; byte 4 is 1 if a compare-exchange succeeded.
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
    /// Compare-exchange with a pointer to the expected value; cell 2 contains that pointer.
    pub const COMPARE: u8 = 10;
}

/// Operations of `SYNC` cells: the side of the first continuation cell.
pub mod sync {
    /// A thread started: object = its `pthread_t`; values: its ticket (from [`CREATE`]), the lowest address of the memory of
    /// its stack, which ends at its `pthread_t`. Both are 0 if unknown.
    pub const START: u64 = 1;
    /// A thread ended; value: its `pthread_t`.
    pub const END: u64 = 2;
    /// A thread is about to be created; value: its ticket.
    pub const CREATE: u64 = 3;
    /// A thread was joined.
    pub const JOIN: u64 = 4;
    /// A lock was acquired; value: 1 for reading, 2 for a try-lock.
    pub const LOCK: u64 = 5;
    /// A lock is about to be released.
    pub const UNLOCK: u64 = 6;
    /// A try-lock failed.
    pub const LOCK_FAILED: u64 = 7;
    /// A thread is about to wait for a condition; value: the lock.
    pub const WAIT: u64 = 8;
    /// A wait for a condition ended; values: the lock, the result.
    pub const WOKEN: u64 = 9;
    /// A condition is about to be signalled.
    pub const SIGNAL: u64 = 10;
    /// A condition is about to be broadcast.
    pub const BROADCAST: u64 = 11;
    /// A thread arrived at a barrier.
    pub const ARRIVE: u64 = 12;
    /// A thread passed a barrier.
    pub const PASS: u64 = 13;
    /// A semaphore is about to be posted.
    pub const POST: u64 = 14;
    /// A semaphore was decremented.
    pub const TAKE: u64 = 15;
    /// Annotation by the program: happens before.
    pub const RELEASE: u64 = 16;
    /// Annotation by the program: happens after.
    pub const ACQUIRE: u64 = 17;
    /// A fence between threads; value: its order.
    pub const FENCE: u64 = 18;
    /// A fence against signal handlers; value: its order.
    pub const SIGNAL_FENCE: u64 = 19;
    /// A custom lock of the program was created; value: its flags.
    pub const MUTEX_CREATE: u64 = 20;
    /// A custom lock of the program was destroyed; value: its flags.
    pub const MUTEX_DESTROY: u64 = 21;
    /// A fiber was created.
    pub const FIBER_CREATE: u64 = 22;
    /// A fiber was destroyed.
    pub const FIBER_DESTROY: u64 = 23;
    /// The thread continues as another fiber; value: flags.
    pub const FIBER_SWITCH: u64 = 24;
    /// The process was forked; the child has its own file.
    pub const FORK: u64 = 25;
    /// The program suspended recording.
    pub const PAUSE: u64 = 26;
    /// Recording resumed; value: [`AFTER_GAP`] if not the program had suspended it.
    pub const RESUME: u64 = 27;
    /// A place of the thread was saved (`setjmp`, `getcontext`): object = where.
    pub const CONTEXT_SAVE: u64 = 28;
    /// The thread is about to continue at a place that was saved (`longjmp`, `setcontext`).
    pub const CONTEXT_RESTORE: u64 = 29;
    /// A place became the beginning of another stack (`makecontext`); value: the place to continue at when that is at its
    /// end, or 0.
    pub const CONTEXT_MAKE: u64 = 30;

    /// The value of [`RESUME`] after a gap that the program knows nothing of: functions were entered and left meanwhile.
    pub const AFTER_GAP: u64 = 1;
}

/// Kinds of `TEXT` cells.
pub mod text {
    /// Name of the thread.
    pub const THREAD: u64 = 1;
    /// Name of a fiber.
    pub const FIBER: u64 = 2;
    /// A mark that the program has set.
    pub const MARK: u64 = 3;
}
