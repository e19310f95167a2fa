//! What each thread has, and how cells are put.
//!
//! Room is claimed by moving the thread's cursor with one instruction, so that a signal handler that comes between any two others
//! claims room after it and tears nothing. The second word of a cell has the tag of its buffer and is written last, so that
//! who reads the file knows which cells are there, whenever the program died. The address of a cell tells its buffer, so
//! that a hook needs nothing but the cursor. A cursor at the end of a buffer, or of none, leads to [`buffer::refill`].

use crate::buffer;
use core::arch::{asm, global_asm};
use core::cell::Cell as Own;
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicU64, Ordering};
use quipu_cells::cell::{CELL_BYTES, Cell, LOW, kind};
use quipu_cells::layout::{BUFFER_BYTES, CELLS_END, open};

/// The cursor of a thread that does not record: as at the end of a buffer.
pub(crate) const PARKED: usize = CELLS_END;

/// What a thread has. Its bytes are 0 at first, but for the cursor.
///
/// Only this thread and its signal handlers reach it. All of it can be changed through shared references, because a function that
/// has one may call another that changes it, and so may a handler; a handler leaves as it found it what the code that it
/// interrupted may be about to change, but for the cursor, which moves by one instruction, and what goes with it.
#[repr(C)]
pub(crate) struct Thread {
    /// Where the next cell goes.
    pub(crate) cursor: AtomicU64,
    /// The buffer that cells go to; null if there is none.
    pub(crate) buffer: Own<*mut u8>,
    /// Room to pack a buffer in.
    pub(crate) scratch: Own<*mut u8>,
    /// Number of the thread, from 1.
    pub(crate) number: Own<u64>,
    /// The kernel's.
    pub(crate) tid: Own<u64>,
    /// Number of the next frame.
    pub(crate) seq: Own<u64>,
    /// The stamp taken last.
    pub(crate) stamp: AtomicU64,
    /// What the one who made this thread calls it.
    pub(crate) ticket: Own<u64>,
    /// Where `operator new` was called that calls `malloc` now; 0 if none did.
    pub(crate) new_pc: Own<u64>,
    /// Where `operator delete` was called that calls `free` now; 0 if none did.
    pub(crate) delete_pc: Own<u64>,
    /// The cursor of a thread that ignores what it does.
    pub(crate) put_aside: Own<u64>,
    /// Signals that were blocked before a fork.
    pub(crate) signals: Own<u64>,
    /// The runtime itself is at work: what it calls is not recorded.
    pub(crate) inside: Own<u32>,
    /// How many begins of ignoring have no end yet.
    pub(crate) ignoring: Own<u32>,
    /// The fiber that runs; 0 for the thread's own.
    pub(crate) fiber: Own<u64>,
    /// A function after one of ours is being looked up.
    pub(crate) resolving: Own<u32>,
    /// How often the end of the thread was put off.
    pub(crate) n_ends: Own<u32>,
}

const _: () = assert!(size_of::<Thread>() <= 128);

// Compilers make a call of each use of a variable of a thread in a library; this one is reached by two instructions
// ("initial exec"), which is what the hooks are worth.
global_asm!(
    ".pushsection .tdata.quipu_rt_thread,\"awT\",@progbits",
    ".balign 64",
    ".globl quipu_rt_thread",
    ".hidden quipu_rt_thread",
    ".type quipu_rt_thread,@object",
    ".size quipu_rt_thread,128",
    "quipu_rt_thread:",
    ".quad {parked}",
    ".zero 120",
    ".popsection",
    parked = const PARKED,
);

/// What this thread has.
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
    // SAFETY: 128 bytes that were made above, aligned to 64; zeros and the cursor are valid for every field. They
    // are there as long as the thread, and the reference cannot leave it, for `Own` is of one thread. There is no other kind
    // of reference.
    unsafe { &*thread }
}

/// Claims cells and returns the address of the first, which may lie after the end of the buffer.
#[inline]
fn claim(n_cells: usize) -> usize {
    let at: usize;
    // SAFETY: the cursor is this thread's own; the one instruction that changes it cannot be interrupted half-way.
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

/// Writes a cell that was claimed: the word with the tag last.
///
/// # Safety
/// `at` lies among the cells of a buffer that is mapped, and was claimed by this caller.
#[inline]
unsafe fn write(at: usize, cell: Cell) {
    let tag = ((at & !(BUFFER_BYTES - 1)) + open::TAG) as *const AtomicU64;
    // SAFETY: a buffer stands at a multiple of its size, so the first is in the head of the one that has `at`; both are
    // mapped, as the caller says, for as long as the process lives, and aligned. They are accessed by atomics only.
    let (tag, words) = unsafe { (&*tag, &*(at as *const [AtomicU64; 2])) };
    words[0].store(cell.word, Ordering::Relaxed);
    words[1].store(tag.load(Ordering::Relaxed) | cell.side & LOW, Ordering::Release);
}

/// Counts cells of the buffer that has `at` which are no events of their own: before they are written, so that a handler that
/// comes between finds them unwritten or counted.
///
/// # Safety
/// As for [`write`].
#[inline]
unsafe fn count_extra(at: usize, n_cells: usize) {
    let extra = (at & !(BUFFER_BYTES - 1)) + open::EXTRA;
    // SAFETY: the field lies in the head of the buffer, as the tag in `write` does, and is aligned. Only this thread changes
    // it, by one instruction that cannot be interrupted half-way.
    unsafe {
        asm!("add qword ptr [{extra}], {n}", extra = in(reg) extra, n = in(reg) n_cells, options(nostack))
    };
}

/// Records a cell that has none that follow.
#[inline]
pub(crate) fn put_one(cell: Cell) {
    let at = claim(1);
    if at & (BUFFER_BYTES - 1) >= CELLS_END {
        return put_later(cell);
    }
    // SAFETY: the cursor points into a buffer whenever it is not at its end.
    unsafe { write(at, cell) };
}

/// The rest of [`put_one`] at the end of a buffer; apart, so that hooks have nothing to put aside for it.
#[cold]
#[inline(never)]
pub(crate) fn put_later(cell: Cell) {
    if buffer::refill() {
        put(&[cell]);
    }
}

/// Records cells that belong together, 256 at most.
pub(crate) fn put(cells: &[Cell]) {
    loop {
        let at = claim(cells.len());
        let offset = at & (BUFFER_BYTES - 1);
        if offset + cells.len() * CELL_BYTES <= CELLS_END {
            // SAFETY: as in `put_one`.
            unsafe { count_extra(at, cells.len() - 1) };
            for (nth, cell) in cells.iter().enumerate() {
                // SAFETY: as in `put_one`, and all of them end before the end.
                unsafe { write(at + nth * CELL_BYTES, *cell) };
            }
            return;
        }
        // What was claimed has to be filled, for an unwritten cell means that a hook is about to write it.
        if offset < CELLS_END {
            // SAFETY: what was claimed begins before the end, in a buffer.
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

/// Counts what happens, over all threads.
static STAMP: AtomicU64 = AtomicU64::new(0);

/// A stamp: larger than all that were given out before.
///
/// What another thread may see afterwards is stamped before it is done, what this thread learned of others after.
pub(crate) fn stamp() -> u64 {
    let stamp = STAMP.fetch_add(1, Ordering::SeqCst) + 1;
    // A handler that came between has a larger one, which stays.
    this().stamp.fetch_max(stamp, Ordering::Relaxed);
    stamp
}

/// The stamp that was given out last.
pub(crate) fn last_stamp() -> u64 {
    STAMP.load(Ordering::SeqCst)
}

/// Begins anew, in a process that was forked.
pub(crate) fn forget_stamps() {
    STAMP.store(0, Ordering::SeqCst);
}

/// Records what threads do to each other, after or before it is done: see [`stamp`].
pub(crate) fn put_sync(what: u64, object: u64, pc: u64, values: [u64; 2]) {
    let stamp = stamp();
    let values = Cell { word: values[0], side: values[1] & LOW };
    put(&[head(kind::SYNC, 2, object, pc), Cell { word: stamp, side: what }, values]);
}

/// Records an event that ends in a text; as much of it is kept as an event has room for.
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
    // The second cell of every event with a text has its length.
    cells[1].side = text.len() as u64;
    put(&cells[..n_cells]);
}

/// The bytes of a C string, without its end; `None` for null.
///
/// # Safety
/// `text` is null, or a C string that stays as it is while what is returned is used.
pub(crate) unsafe fn text_at<'a>(text: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: not null, so it is as the caller says.
    if text.is_null() { None } else { Some(unsafe { CStr::from_ptr(text) }.to_bytes()) }
}

/// Begins to ignore what this thread does; nests.
pub(crate) fn ignore() {
    let thread = this();
    thread.ignoring.set(thread.ignoring.get() + 1);
    if thread.ignoring.get() == 1 {
        // Taken away by one instruction, so no handler writes where it was meanwhile.
        thread.put_aside.set(thread.cursor.swap(PARKED as u64, Ordering::Relaxed));
    }
}

/// Ends what [`ignore`] began.
pub(crate) fn heed() {
    let thread = this();
    let Some(n_left) = thread.ignoring.get().checked_sub(1) else { return };
    thread.ignoring.set(n_left);
    if n_left == 0 {
        thread.cursor.store(thread.put_aside.get(), Ordering::Relaxed);
    }
}
