//! State of each thread, and writing of cells.
//!
//! Room is claimed by moving the thread's cursor with one instruction, so that a signal handler that runs between any two
//! instructions claims room after it and overwrites nothing. The second word of a cell has the tag of its buffer and is
//! written last, so that readers of the file know which cells are complete, whenever the program died. The address of a cell
//! determines its buffer, so that a hook needs nothing but the cursor. A cursor at the end of a buffer, or without one, leads
//! to [`buffer::refill`].

use crate::{buffer, live, threads};
use core::arch::{asm, global_asm};
use core::cell::Cell as Own;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicU64, Ordering};
use quipu_cells::cell::{CELL_BYTES, Cell, LOW, kind};
use quipu_cells::layout::{BUFFER_BYTES, CELLS_END, open};

/// The cursor of a thread that does not record: as at the end of a buffer.
pub(crate) const PARKED: usize = CELLS_END;

/// State of a thread. Its bytes are 0 at first, except for the cursor.
///
/// Only this thread and its signal handlers access it. All of it can be changed through shared references, because a function
/// that has one may call another that changes it, and so may a handler. A handler restores everything that the interrupted
/// code may be about to change, except for the cursor, which moves by one instruction, and the state that belongs to it.
#[repr(C)]
pub(crate) struct Thread {
    /// Address of the next cell.
    pub(crate) cursor: AtomicU64,
    /// The buffer that receives the cells; null if there is none.
    pub(crate) buffer: Own<*mut u8>,
    /// Memory for packing a buffer.
    pub(crate) scratch: Own<*mut u8>,
    /// Number of the thread in this recording, from 1.
    pub(crate) number: Own<u64>,
    /// The kernel's thread id.
    pub(crate) tid: Own<u64>,
    /// Sequence number of the next frame.
    pub(crate) seq: Own<u64>,
    /// The stamp taken last.
    pub(crate) stamp: AtomicU64,
    /// The number that the creating thread gave to this one.
    pub(crate) ticket: Own<u64>,
    /// Caller of the `operator new` that is calling `malloc`; 0 if there is none.
    pub(crate) new_pc: Own<u64>,
    /// Caller of the `operator delete` that is calling `free`; 0 if there is none.
    pub(crate) delete_pc: Own<u64>,
    /// The saved cursor of a thread that ignores its accesses.
    pub(crate) put_aside: Own<u64>,
    /// Signals that were blocked before a fork.
    pub(crate) signals: Own<u64>,
    /// Not 0 while the runtime itself is at work: its own calls are not recorded.
    pub(crate) inside: Own<u32>,
    /// Nesting depth of ignoring.
    pub(crate) ignoring: Own<u32>,
    /// The fiber that runs; 0 for the thread's own stack.
    pub(crate) fiber: Own<u64>,
    /// Not 0 while a function after one of ours is being looked up.
    pub(crate) resolving: Own<u32>,
    /// Number of times that the end of the thread was postponed.
    pub(crate) n_ends: Own<u32>,
    /// In a gap of the recording: the number of events that are still left out, or [`buffer::UNTIL_RESUMED`]. Otherwise 0.
    pub(crate) gap: Own<u64>,
    /// Lowest address of its stack; 0 if unknown.
    pub(crate) stack: Own<u64>,
    /// The cursor after the last range that a compiler's hook recorded.
    pub(crate) after_range: Own<u64>,
}

const _: () = assert!(size_of::<Thread>() <= 192);

// In a library, compilers make a call for each use of a thread-local variable; two instructions reach this one ("initial
// exec"). The speed of the hooks depends on that.
global_asm!(
    ".pushsection .tdata.quipu_rt_thread,\"awT\",@progbits",
    ".balign 64",
    ".globl quipu_rt_thread",
    ".hidden quipu_rt_thread",
    ".type quipu_rt_thread,@object",
    ".size quipu_rt_thread,192",
    "quipu_rt_thread:",
    ".quad {parked}",
    ".zero 184",
    ".popsection",
    parked = const PARKED,
);

/// State of the current thread.
#[inline]
pub(crate) fn this() -> &'static Thread {
    let thread: *const Thread;
    // SAFETY: reads the thread's own pointer and a constant that the linker or loader filled in.
    unsafe {
        asm!(
            "mov {thread}, qword ptr fs:[0]",
            "add {thread}, qword ptr [rip + quipu_rt_thread@GOTTPOFF]",
            thread = out(reg) thread,
            options(nostack, readonly, pure),
        );
    }
    // SAFETY: the 192 bytes made above, aligned to 64; zeros and the cursor are valid for every field. They exist as long as
    // the thread, and the reference cannot leave the thread, because `Own` is not `Sync`. There are no mutable references to
    // it.
    unsafe { &*thread }
}

/// Claims cells and returns the address of the first, which may be beyond the end of the buffer.
#[inline]
fn claim(n_cells: usize) -> usize {
    let at: usize;
    // SAFETY: the cursor belongs to this thread; the one instruction that changes it cannot be interrupted half-way.
    unsafe {
        asm!(
            "mov {offset}, qword ptr [rip + quipu_rt_thread@GOTTPOFF]",
            "xadd qword ptr fs:[{offset}], {at}",
            offset = out(reg) _,
            at = inout(reg) n_cells * CELL_BYTES => at,
            options(nostack),
        );
    }
    at
}

/// Writes a claimed cell: the word with the tag last.
///
/// # Safety
/// `at` lies among the cells of a mapped buffer, and was claimed by this caller.
#[inline]
unsafe fn write(at: usize, cell: Cell) {
    let tag = ((at & !(BUFFER_BYTES - 1)) + open::TAG) as *const AtomicU64;
    // SAFETY: a buffer is at a multiple of its size, so the tag is in the head of the buffer with `at`; both are mapped, by
    // this function's contract, for the lifetime of the process, and aligned. They are only accessed atomically.
    let (tag, words) = unsafe { (&*tag, &*(at as *const [AtomicU64; 2])) };
    words[0].store(cell.word, Ordering::Relaxed);
    words[1].store(tag.load(Ordering::Relaxed) | cell.side & LOW, Ordering::Release);
}

/// Counts cells in the buffer with `at` that do not begin an event. To be called before they are written, so that a handler
/// that runs in between finds them unwritten or counted.
///
/// # Safety
/// As for [`write`].
#[inline]
unsafe fn count_extra(at: usize, n_cells: usize) {
    let extra = (at & !(BUFFER_BYTES - 1)) + open::EXTRA;
    // SAFETY: the field lies in the head of the buffer, like the tag in `write`, and is aligned. Only this thread changes it,
    // by one instruction that cannot be interrupted half-way.
    unsafe {
        asm!("add qword ptr [{extra}], {n}", extra = in(reg) extra, n = in(reg) n_cells, options(nostack))
    };
}

/// Records an event of one cell.
#[inline]
pub(crate) fn put_one(cell: Cell) {
    let at = claim(1);
    if at & (BUFFER_BYTES - 1) >= CELLS_END {
        return put_later(cell);
    }
    // SAFETY: the cursor points into a buffer unless it is at its end.
    unsafe { write(at, cell) };
}

/// Completes [`put_one`] at the end of a buffer; separate, so that hooks need not save registers for it.
#[cold]
#[inline(never)]
pub(crate) fn put_later(cell: Cell) {
    if buffer::refill() {
        put(&[cell]);
    }
}

/// Records cells that belong together, at most 256.
pub(crate) fn put(cells: &[Cell]) {
    loop {
        let at = claim(cells.len());
        let offset = at & (BUFFER_BYTES - 1);
        if offset + cells.len() * CELL_BYTES <= CELLS_END {
            // SAFETY: as in `put_one`.
            unsafe { count_extra(at, cells.len() - 1) };
            for (nth, cell) in cells.iter().enumerate() {
                // SAFETY: as in `put_one`, and all of them lie before the end.
                unsafe { write(at + nth * CELL_BYTES, *cell) };
            }
            return;
        }
        // Claimed cells have to be filled, because an unwritten cell means that a hook is about to write it.
        if offset < CELLS_END {
            // SAFETY: the claimed cells begin before the end, in a buffer.
            unsafe { count_extra(at, (CELLS_END - offset) / CELL_BYTES) };
        }
        for offset in (offset..CELLS_END).step_by(CELL_BYTES) {
            // SAFETY: these cells were claimed above.
            unsafe { write((at & !(BUFFER_BYTES - 1)) + offset, head(kind::PAD, 0, 0, 0)) };
        }
        if !buffer::refill() {
            return;
        }
    }
}

/// The first cell of an event.
#[inline]
pub(crate) fn head(kind: u8, n_following: usize, value: u64, pc: u64) -> Cell {
    Cell { word: u64::from(kind) << 56 | (n_following as u64) << 48 | value & LOW, side: pc & LOW }
}

/// Number of stamps given out so far, over all threads.
static STAMP: AtomicU64 = AtomicU64::new(0);

/// Takes a stamp, larger than all earlier ones.
///
/// An action that other threads may see is stamped before it is done; one that learns something from others, after it.
pub(crate) fn stamp() -> u64 {
    let stamp = STAMP.fetch_add(1, Ordering::SeqCst) + 1;
    // A handler that ran in between has a larger one, which stays.
    this().stamp.fetch_max(stamp, Ordering::Relaxed);
    stamp
}

/// The last stamp given out.
pub(crate) fn last_stamp() -> u64 {
    STAMP.load(Ordering::SeqCst)
}

/// Resets the stamps, in a forked process.
pub(crate) fn forget_stamps() {
    STAMP.store(0, Ordering::SeqCst);
}

/// Records an event between threads, before or after it happens: see [`stamp`].
pub(crate) fn put_sync(what: u64, object: u64, pc: u64, values: [u64; 2]) {
    let stamp = stamp();
    let values = Cell { word: values[0], side: values[1] & LOW };
    put(&[head(kind::SYNC, 2, object, pc), Cell { word: stamp, side: what }, values]);
    if live::is_on() && live::gives(what) && threads::are_several() {
        live::flush();
    }
}

/// Records an event that ends in a text, which is cut to the room that an event has.
pub(crate) fn put_text(event: &[Cell], text: &[u8]) {
    use quipu_cells::cell::TEXT_BYTES;
    use quipu_cells::event::text_cell;
    let mut cells = [Cell::default(); 256];
    cells[..event.len()].copy_from_slice(event);
    let text = &text[..text.len().min((256 - event.len()) * TEXT_BYTES)];
    let mut n_cells = event.len();
    for part in text.chunks(TEXT_BYTES) {
        cells[n_cells] = text_cell(part);
        n_cells += 1;
    }
    cells[0].word |= (n_cells as u64 - 1) << 48;
    // The second cell of every event with a text contains its length.
    cells[1].side = text.len() as u64;
    put(&cells[..n_cells]);
}

/// The bytes of a C string, without its end; `None` for null.
///
/// # Safety
/// `text` is null, or a C string that does not change while the result is used.
pub(crate) unsafe fn text_at<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: not null, so it is a C string by this function's contract.
    if text.is_null() { None } else { Some(unsafe { CStr::from_ptr(text) }.to_bytes()) }
}

/// Begins to ignore what this thread does; can be nested.
pub(crate) fn ignore() {
    let thread = this();
    thread.ignoring.set(thread.ignoring.get() + 1);
    if thread.ignoring.get() == 1 {
        // The cursor is exchanged in one instruction, so no handler uses the old one meanwhile.
        thread.put_aside.set(thread.cursor.swap(PARKED as u64, Ordering::Relaxed));
    }
}

/// Ends the effect of [`ignore`].
pub(crate) fn heed() {
    let thread = this();
    let Some(n_left) = thread.ignoring.get().checked_sub(1) else { return };
    thread.ignoring.set(n_left);
    if n_left == 0 {
        thread.cursor.store(thread.put_aside.get(), Ordering::Relaxed);
    }
}
