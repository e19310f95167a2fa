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
use quipu_capfile::pack::{Packed, Table, pack};

/// Room for the table, the head of a chunk and its cells.
const SCRATCH_BYTES: usize = size_of::<Table>() + EXTENT_HEAD_BYTES + BUFFER_BYTES;
/// How often the end of a thread is put off, so that what destructors do is recorded: one less than the C library calls them.
const N_PUT_OFF: u32 = 3;

/// The buffer that was mapped last; each knows the one before. Buffers stay mapped as long as the process lives.
static NEWEST: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// Threads so far.
static N_THREADS: AtomicU64 = AtomicU64::new(0);

/// Offsets in the head of a buffer that mean something to this process only.
mod private {
    /// The buffer that was mapped before it.
    pub(super) const OLDER: usize = 104;
}

/// The head of a buffer, or of a chunk in the making.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent(*mut u8);

impl Extent {
    /// # Safety
    /// `base` is aligned to 8, and has [`EXTENT_HEAD_BYTES`] that are accessed by atomics only, as long as this is used.
    pub(crate) unsafe fn at(base: *mut u8) -> Extent {
        Extent(base)
    }

    /// An 8-byte field.
    fn field<'a>(self, offset: usize) -> &'a AtomicU64 {
        // SAFETY: whatever the offset is, these 8 bytes lie in the head, which is as `at` says.
        unsafe { &*self.0.add(offset & (EXTENT_HEAD_BYTES - 8)).cast::<AtomicU64>() }
    }
}

/// Forgets what the parent had, in a process that was forked.
pub(crate) fn forget() {
    NEWEST.store(null_mut(), Ordering::SeqCst);
    N_THREADS.store(0, Ordering::SeqCst);
    let thread = this();
    thread.buffer.set(null_mut());
    thread.seq.set(0);
    thread.put_aside.set(PARKED as u64);
    thread.cursor.store(PARKED as u64, Ordering::Relaxed);
}

/// Makes room for cells; false if there is none, now or ever: then what was to be put is not recorded.
#[cold]
#[inline(never)]
pub(crate) fn refill() -> bool {
    let thread = this();
    if thread.inside.get() > 0 || thread.ignoring.get() > 0 || process::is_off() {
        thread.cursor.store(PARKED as u64, Ordering::Relaxed);
        return false;
    }
    let quiet = Quiet::begin();
    let cursor = thread.cursor.load(Ordering::Relaxed) as usize;
    let at_end = cursor & (BUFFER_BYTES - 1) >= CELLS_END;
    // A handler may have come here between the claim and the line above.
    let is_there = !at_end || turn_over(thread);
    quiet.end();
    is_there
}

/// Gives the thread an empty buffer; with signals blocked, as all that follows.
fn turn_over(thread: &Thread) -> bool {
    thread.inside.set(thread.inside.get() + 1);
    let begun = if !process::is_open() {
        false
    } else if thread.buffer.get().is_null() {
        begin_thread(thread)
    } else {
        match write_out(thread, CELLS_END) {
            Kept::Written => begin_buffer(thread, Extent(thread.buffer.get())),
            // A caller below us on this stack claimed a cell and has not written it: a handler interrupted it. The buffer
            // stays as it is, for that cell will be written there, and readers find buffers as well as chunks.
            Kept::Unfinished => claim_buffer(thread),
            Kept::Nothing => false,
        }
    };
    if !begun {
        thread.cursor.store(PARKED as u64, Ordering::Relaxed);
    }
    thread.inside.set(thread.inside.get() - 1);
    begun
}

/// The first that a thread records.
fn begin_thread(thread: &Thread) -> bool {
    if thread.scratch.get().is_null() {
        let Some(scratch) = process::map_memory(SCRATCH_BYTES) else {
            process::give_up(b"no memory for a thread");
            return false;
        };
        thread.scratch.set(scratch);
    }
    thread.number.set(N_THREADS.fetch_add(1, Ordering::SeqCst) + 1);
    // SAFETY: a question without arguments.
    thread.tid.set(unsafe { libc::syscall(libc::SYS_gettid) } as u64);
    thread.seq.set(0);
    if !claim_buffer(thread) {
        return false;
    }
    process::call_at_end_of_thread();
    put_sync(sync::START, own_name(), 0, [thread.ticket.take(), 0]);
    if thread.number.get() == 1 {
        modules::tell(true);
    }
    true
}

/// What the C library calls this thread.
fn own_name() -> u64 {
    // SAFETY: a question without arguments.
    unsafe { libc::pthread_self() }
}

/// The end of a thread; called by the C library, as often as it cares to if [`process::call_at_end_of_thread`] was called again.
pub(crate) extern "C" fn end_thread(_: *mut libc::c_void) {
    let thread = this();
    if thread.n_ends.get() < N_PUT_OFF {
        thread.n_ends.set(thread.n_ends.get() + 1);
        process::call_at_end_of_thread();
        return;
    }
    thread.n_ends.set(0);
    if thread.buffer.get().is_null() {
        return;
    }
    put_sync(sync::END, own_name(), 0, [0, 0]);
    let quiet = Quiet::begin();
    thread.inside.set(thread.inside.get() + 1);
    let cursor = thread.cursor.swap(PARKED as u64, Ordering::Relaxed) as usize;
    let base = thread.buffer.get();
    if !base.is_null() && cursor & !(BUFFER_BYTES - 1) == base as usize {
        let end = (cursor & (BUFFER_BYTES - 1)).min(CELLS_END);
        if !matches!(write_out(thread, end), Kept::Nothing) {
            let buffer = Extent(base);
            buffer.field(extent::TAG).store(0, Ordering::SeqCst);
            buffer.field(extent::STATE).store(FREE, Ordering::SeqCst);
        }
    }
    thread.buffer.set(null_mut());
    // SAFETY: it was mapped by `begin_thread`, and nothing of it is used any more.
    unsafe { process::unmap(thread.scratch.replace(null_mut()), SCRATCH_BYTES) };
    thread.inside.set(thread.inside.get() - 1);
    quiet.end();
}

/// Gives the thread a buffer that no thread has, or a new one.
fn claim_buffer(thread: &Thread) -> bool {
    let mut base = NEWEST.load(Ordering::Acquire);
    while !base.is_null() {
        let buffer = Extent(base);
        let state = buffer.field(extent::STATE);
        if state.compare_exchange(FREE, ACTIVE, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            return begin_buffer(thread, buffer);
        }
        base = buffer.field(private::OLDER).load(Ordering::Relaxed) as *mut u8;
    }
    let Some(offset) = process::claim_extent(BUFFER_BYTES as u64, PAGE_BYTES) else { return false };
    let Some(buffer) = process::map_buffer(offset) else { return false };
    buffer.field(extent::OFFSET).store(offset, Ordering::Relaxed);
    buffer.field(extent::BYTES).store(BUFFER_BYTES as u64, Ordering::Relaxed);
    buffer.field(extent::STATE).store(ACTIVE, Ordering::Relaxed);
    buffer.field(extent::MAGIC).store(BUFFER_MAGIC, Ordering::SeqCst);
    let older = process::header(header::BUFFERS).swap(offset, Ordering::SeqCst);
    buffer.field(extent::NEXT).store(older, Ordering::Relaxed);
    let mut newest = NEWEST.load(Ordering::Acquire);
    loop {
        buffer.field(private::OLDER).store(newest as u64, Ordering::Relaxed);
        match NEWEST.compare_exchange(newest, buffer.0, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => break,
            Err(now) => newest = now,
        }
    }
    begin_buffer(thread, buffer)
}

/// Begins a buffer anew, whose cells are all written out or belong to no thread.
fn begin_buffer(thread: &Thread, buffer: Extent) -> bool {
    // From here to the last line the buffer holds nothing that a reader of the file would take for cells.
    buffer.field(extent::TAG).store(0, Ordering::SeqCst);
    let generation = buffer.field(extent::GENERATION).fetch_add(1, Ordering::SeqCst) + 1;
    if generation.is_multiple_of(0xffff) {
        // Tags begin anew, and cells that are as old as that may be left.
        // SAFETY: the buffer is mapped as long as the process lives, and these cells belong to this thread alone.
        unsafe { buffer.0.add(EXTENT_HEAD_BYTES).write_bytes(0, CELLS_END - EXTENT_HEAD_BYTES) };
    }
    buffer.field(extent::THREAD).store(thread.number.get(), Ordering::Relaxed);
    buffer.field(extent::TID).store(thread.tid.get(), Ordering::Relaxed);
    buffer.field(extent::SEQ).store(thread.seq.get(), Ordering::Relaxed);
    buffer.field(extent::STAMP).store(thread.stamp.get(), Ordering::Relaxed);
    buffer.field(extent::TICKS).store(process::ticks(), Ordering::Relaxed);
    buffer.field(extent::TAG).store(tag(generation), Ordering::SeqCst);
    thread.seq.set(thread.seq.get() + 1);
    thread.buffer.set(buffer.0);
    thread.cursor.store(buffer.0 as u64 + EXTENT_HEAD_BYTES as u64, Ordering::Relaxed);
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
fn write_out(thread: &Thread, end: usize) -> Kept {
    let (base, scratch) = (thread.buffer.get(), thread.scratch.get());
    let n_cells = (end - EXTENT_HEAD_BYTES) / CELL_BYTES;
    let tag = Extent(base).field(extent::TAG).load(Ordering::Relaxed);
    // SAFETY: the cells of a buffer, which is mapped as long as the process lives, and aligned. Only this thread and its
    // handlers write them, and none of those runs until this is over.
    let words =
        unsafe { core::slice::from_raw_parts(base.add(EXTENT_HEAD_BYTES).cast::<[u64; 2]>(), n_cells) };
    // SAFETY: the scratch has `SCRATCH_BYTES`, room for these three one after the other; it is this thread's, signals are
    // blocked, and no other reference into it exists. It was zeros at first, which a table may consist of.
    let (table, chunk, payload) = unsafe {
        let chunk = scratch.add(size_of::<Table>());
        let payload = core::slice::from_raw_parts_mut(chunk.add(EXTENT_HEAD_BYTES), BUFFER_BYTES);
        (&mut *scratch.cast::<Table>(), chunk, payload)
    };
    let payload = &mut payload[..n_cells * CELL_BYTES];
    let (Packed { n_bytes, n_holes }, encoding) = match pack(words, tag, table, payload) {
        Some(packed) => (packed, PACKED),
        None => (Packed { n_bytes: payload.len(), n_holes: put_plain(words, tag, payload) }, PLAIN),
    };
    if n_holes > 0 && end == CELLS_END {
        return Kept::Unfinished;
    }
    let n_bytes = EXTENT_HEAD_BYTES + n_bytes;
    let Some(offset) = process::claim_chunk(n_bytes as u64) else { return Kept::Nothing };
    // SAFETY: the head of the chunk is a multiple of 8 bytes after a page's beginning, and no reference is left to it.
    let head = unsafe { Extent::at(chunk) };
    for at in (0..EXTENT_HEAD_BYTES).step_by(8) {
        head.field(at).store(Extent(base).field(at).load(Ordering::Relaxed), Ordering::Relaxed);
    }
    head.field(extent::MAGIC).store(CHUNK_MAGIC, Ordering::Relaxed);
    head.field(extent::OFFSET).store(offset, Ordering::Relaxed);
    head.field(extent::BYTES).store(n_bytes as u64, Ordering::Relaxed);
    head.field(extent::CELLS).store(n_cells as u64, Ordering::Relaxed);
    head.field(extent::ENCODING).store(encoding, Ordering::Relaxed);
    // SAFETY: the head, and after it the payload; no more than its length was written.
    let bytes = unsafe { core::slice::from_raw_parts(chunk, n_bytes) };
    if process::write_at(bytes, offset) { Kept::Written } else { Kept::Nothing }
}

/// Copies cells as they are, without tags, and returns how many were never written.
fn put_plain(words: &[[u64; 2]], tag: u64, out: &mut [u8]) -> usize {
    let mut n_holes = 0;
    for ([word, side], out) in words.iter().zip(out.chunks_exact_mut(CELL_BYTES)) {
        let mut cell = Cell { word: *word, side: side & LOW };
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
