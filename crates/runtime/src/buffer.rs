//! What happens when a buffer is full, and when a thread begins and ends.
//!
//! All of this runs with signals blocked, and once for some ten thousand accesses.

use crate::thread::{PARKED, Thread, put_sync, this};
use crate::{modules, process};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use quipu_capfile::cell::{CELL_BYTES, Cell, LOW, sync};
use quipu_capfile::layout::{
    ACTIVE, BUFFER_BYTES, BUFFER_MAGIC, CELLS_END, CHUNK_MAGIC, EXTENT_HEAD_BYTES, FREE, PACKED, PAGE_BYTES,
    PLAIN, extent, header, tag,
};
use quipu_capfile::pack::{Table, pack};

/// Room for the table, the head of a chunk and its cells.
const SCRATCH_BYTES: usize = size_of::<Table>() + EXTENT_HEAD_BYTES + BUFFER_BYTES;
/// How often the end of a thread is put off, so that what destructors do is recorded: one less than the C library calls them.
const N_PUT_OFF: u32 = 3;

/// The buffer that was mapped last; each knows the one before.
static NEWEST: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// Threads so far.
static N_THREADS: AtomicU64 = AtomicU64::new(0);

/// Offsets in the head of a buffer that mean something to this process only.
mod private {
    /// The buffer that was mapped before it.
    pub(super) const OLDER: usize = 104;
}

/// An 8-byte field.
///
/// SAFETY: `base` is mapped, and `offset` lies in its head.
pub(crate) unsafe fn field<'a>(base: *mut u8, offset: usize) -> &'a AtomicU64 {
    &*base.add(offset).cast::<AtomicU64>()
}

/// Forgets what the parent had, in a process that was forked.
pub(crate) fn forget() {
    NEWEST.store(null_mut(), Ordering::SeqCst);
    N_THREADS.store(0, Ordering::SeqCst);
    let thread = this();
    // SAFETY: this thread's own, signals are blocked.
    unsafe {
        (*thread).buffer = null_mut();
        (*thread).seq = 0;
        (*thread).put_aside = PARKED as u64;
        (*thread).cursor.store(PARKED as u64, Ordering::Relaxed);
    }
}

/// Makes room for cells; false if there is none, now or ever: then what was to be put is not recorded.
#[cold]
#[inline(never)]
pub(crate) fn refill() -> bool {
    let thread = this();
    // SAFETY: this thread's own; from the second line on no handler comes in between.
    unsafe {
        if (*thread).inside > 0 || (*thread).ignoring > 0 || process::is_off() {
            (*thread).cursor.store(PARKED as u64, Ordering::Relaxed);
            return false;
        }
        let quiet = Quiet::begin();
        let cursor = (*thread).cursor.load(Ordering::Relaxed) as usize;
        let at_end = cursor & (BUFFER_BYTES - 1) >= CELLS_END;
        // A handler may have come here between the claim and the line above.
        let is_there = !at_end || turn_over(&mut *thread);
        quiet.end();
        is_there
    }
}

/// Gives the thread an empty buffer.
unsafe fn turn_over(thread: &mut Thread) -> bool {
    thread.inside += 1;
    let begun = if !process::is_open(thread) {
        false
    } else if thread.buffer.is_null() {
        begin_thread(thread)
    } else {
        let kept = write_out(thread, CELLS_END);
        match kept {
            Kept::Written => begin_buffer(thread, thread.buffer),
            // Somebody below us on this stack claimed a cell and has not written it: a handler interrupted it. The buffer
            // stays as it is, for that cell will be written there, and readers find buffers as well as chunks.
            Kept::Unfinished => claim_buffer(thread),
            Kept::Nothing => false,
        }
    };
    if !begun {
        thread.cursor.store(PARKED as u64, Ordering::Relaxed);
    }
    thread.inside -= 1;
    begun
}

/// The first that a thread records.
unsafe fn begin_thread(thread: &mut Thread) -> bool {
    if thread.scratch.is_null() {
        let scratch = libc::mmap(
            null_mut(),
            SCRATCH_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if scratch == libc::MAP_FAILED {
            process::give_up(b"no memory for a thread");
            return false;
        }
        thread.scratch = scratch.cast();
    }
    thread.number = N_THREADS.fetch_add(1, Ordering::SeqCst) + 1;
    thread.tid = libc::syscall(libc::SYS_gettid) as u64;
    thread.seq = 0;
    if !claim_buffer(thread) {
        return false;
    }
    process::call_at_end_of_thread(thread);
    let ticket = core::mem::take(&mut thread.ticket);
    put_sync(sync::START, libc::pthread_self(), 0, [ticket, 0]);
    if thread.number == 1 {
        modules::tell(true);
    }
    true
}

/// The end of a thread; called by the C library, as often as it cares to if [`process::call_at_end_of_thread`] was called again.
pub(crate) unsafe extern "C" fn end_thread(_: *mut libc::c_void) {
    let thread = &mut *this();
    if thread.n_ends < N_PUT_OFF {
        thread.n_ends += 1;
        process::call_at_end_of_thread(thread);
        return;
    }
    thread.n_ends = 0;
    if thread.buffer.is_null() {
        return;
    }
    put_sync(sync::END, libc::pthread_self(), 0, [0, 0]);
    let quiet = Quiet::begin();
    thread.inside += 1;
    let cursor = thread.cursor.swap(PARKED as u64, Ordering::Relaxed) as usize;
    let base = thread.buffer;
    if !base.is_null() && cursor & !(BUFFER_BYTES - 1) == base as usize {
        let end = (cursor & (BUFFER_BYTES - 1)).min(CELLS_END);
        if !matches!(write_out(thread, end), Kept::Nothing) {
            field(base, extent::TAG).store(0, Ordering::SeqCst);
            field(base, extent::STATE).store(FREE, Ordering::SeqCst);
        }
    }
    thread.buffer = null_mut();
    libc::munmap(thread.scratch.cast(), SCRATCH_BYTES);
    thread.scratch = null_mut();
    thread.inside -= 1;
    quiet.end();
}

/// Gives the thread a buffer that nobody has, or a new one.
unsafe fn claim_buffer(thread: &mut Thread) -> bool {
    let mut base = NEWEST.load(Ordering::Acquire);
    while !base.is_null() {
        let state = field(base, extent::STATE);
        if state.compare_exchange(FREE, ACTIVE, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            return begin_buffer(thread, base);
        }
        base = field(base, private::OLDER).load(Ordering::Relaxed) as *mut u8;
    }
    let Some(offset) = process::claim_extent(BUFFER_BYTES as u64, PAGE_BYTES) else { return false };
    let Some(base) = process::map_buffer(offset) else { return false };
    field(base, extent::OFFSET).store(offset, Ordering::Relaxed);
    field(base, extent::BYTES).store(BUFFER_BYTES as u64, Ordering::Relaxed);
    field(base, extent::STATE).store(ACTIVE, Ordering::Relaxed);
    field(base, extent::MAGIC).store(BUFFER_MAGIC, Ordering::SeqCst);
    let older = process::header(header::BUFFERS).swap(offset, Ordering::SeqCst);
    field(base, extent::NEXT).store(older, Ordering::Relaxed);
    let mut newest = NEWEST.load(Ordering::Acquire);
    loop {
        field(base, private::OLDER).store(newest as u64, Ordering::Relaxed);
        match NEWEST.compare_exchange(newest, base, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => break,
            Err(now) => newest = now,
        }
    }
    begin_buffer(thread, base)
}

/// Begins a buffer anew, whose cells are all written out or nobody's.
unsafe fn begin_buffer(thread: &mut Thread, base: *mut u8) -> bool {
    // From here to the last line the buffer holds nothing that a reader of the file would take for cells.
    field(base, extent::TAG).store(0, Ordering::SeqCst);
    let generation = field(base, extent::GENERATION).fetch_add(1, Ordering::SeqCst) + 1;
    if generation % 0xffff == 0 {
        // Tags begin anew, and cells that are as old as that may be left.
        base.add(EXTENT_HEAD_BYTES).write_bytes(0, CELLS_END - EXTENT_HEAD_BYTES);
    }
    field(base, extent::THREAD).store(thread.number, Ordering::Relaxed);
    field(base, extent::TID).store(thread.tid, Ordering::Relaxed);
    field(base, extent::SEQ).store(thread.seq, Ordering::Relaxed);
    field(base, extent::STAMP).store(thread.stamp, Ordering::Relaxed);
    field(base, extent::TICKS).store(process::ticks(), Ordering::Relaxed);
    field(base, extent::TAG).store(tag(generation), Ordering::SeqCst);
    thread.seq += 1;
    thread.buffer = base;
    thread.cursor.store(base as u64 + EXTENT_HEAD_BYTES as u64, Ordering::Relaxed);
    true
}

/// What became of a buffer's cells.
enum Kept {
    /// They stand in a chunk.
    Written,
    /// Some are still to be written into the buffer.
    Unfinished,
    /// They do not fit into the file.
    Nothing,
}

/// Writes the cells of the thread's buffer up to `end` into a chunk. At the end of a thread, those that were never written
/// are left out; in a full buffer they are waited for.
unsafe fn write_out(thread: &mut Thread, end: usize) -> Kept {
    let base = thread.buffer;
    let n_cells = (end - EXTENT_HEAD_BYTES) / CELL_BYTES;
    let tag = field(base, extent::TAG).load(Ordering::Relaxed);
    let words = base.add(EXTENT_HEAD_BYTES).cast::<[AtomicU64; 2]>();
    let mut n_holes = 0;
    let cells = (0..n_cells).map(|nth| {
        // SAFETY: the cells of a buffer of this thread.
        let [word, side] = &*words.add(nth);
        let side = side.load(Ordering::Acquire);
        if side & !LOW == tag {
            Cell { word: word.load(Ordering::Relaxed), side: side & LOW }
        } else {
            n_holes += 1;
            Cell::HOLE
        }
    });
    let table = &mut *thread.scratch.cast::<Table>();
    let chunk = thread.scratch.add(size_of::<Table>());
    let payload = core::slice::from_raw_parts_mut(chunk.add(EXTENT_HEAD_BYTES), BUFFER_BYTES);
    let packed = pack(cells, table, &mut payload[..n_cells * CELL_BYTES]);
    let (n_bytes, encoding) = match packed {
        Some(n_bytes) => (n_bytes, PACKED),
        None => {
            n_holes = put_plain(words, tag, &mut payload[..n_cells * CELL_BYTES]);
            (n_cells * CELL_BYTES, PLAIN)
        }
    };
    if n_holes > 0 && end == CELLS_END {
        return Kept::Unfinished;
    }
    let n_bytes = EXTENT_HEAD_BYTES + n_bytes;
    let Some(offset) = process::claim_chunk(n_bytes as u64) else { return Kept::Nothing };
    core::ptr::copy_nonoverlapping(base, chunk, EXTENT_HEAD_BYTES);
    field(chunk, extent::MAGIC).store(CHUNK_MAGIC, Ordering::Relaxed);
    field(chunk, extent::OFFSET).store(offset, Ordering::Relaxed);
    field(chunk, extent::BYTES).store(n_bytes as u64, Ordering::Relaxed);
    field(chunk, extent::CELLS).store(n_cells as u64, Ordering::Relaxed);
    field(chunk, extent::ENCODING).store(encoding, Ordering::Relaxed);
    if process::write_at(chunk, n_bytes, offset) { Kept::Written } else { Kept::Nothing }
}

/// Copies cells as they are, without tags, and returns how many were never written.
unsafe fn put_plain(words: *const [AtomicU64; 2], tag: u64, out: &mut [u8]) -> usize {
    let mut n_holes = 0;
    for (nth, out) in out.chunks_exact_mut(CELL_BYTES).enumerate() {
        let [word, side] = &*words.add(nth);
        let side = side.load(Ordering::Acquire);
        let mut cell = Cell { word: word.load(Ordering::Relaxed), side: side & LOW };
        if side & !LOW != tag {
            cell = Cell::HOLE;
            n_holes += 1;
        }
        let (first, second) = out.split_at_mut(8);
        first.copy_from_slice(&cell.word.to_le_bytes());
        second.copy_from_slice(&cell.side.to_le_bytes());
    }
    n_holes
}

/// While it lives, no signal handler runs on this thread.
pub(crate) struct Quiet {
    signals: u64,
    errno: i32,
}

impl Quiet {
    /// Blocks all signals.
    pub(crate) fn begin() -> Quiet {
        // SAFETY: `errno` of this thread.
        let errno = unsafe { *libc::__errno_location() };
        Quiet { signals: set_signals(u64::MAX), errno }
    }

    /// As it was before.
    pub(crate) fn end(self) {
        set_signals(self.signals);
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.errno };
    }
}

/// Blocks these signals and no others; returns which were blocked before.
pub(crate) fn set_signals(blocked: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: the kernel reads and writes 8 bytes. The C library's own call leaves out signals that it needs; those are
    // blocked here, too, for a moment.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const blocked, &raw mut before, 8);
    }
    before
}
