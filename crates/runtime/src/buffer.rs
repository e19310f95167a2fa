//! Handles full buffers, and the beginning and end of threads.
//!
//! All of this runs with signals blocked, about once for ten thousand accesses, but for the look at the last events.

use crate::thread::{PARKED, Thread, put_sync, this};
use crate::{checksum, live, modules, process, settings};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use quipu_cells::cell::{self, CELL_BYTES, LOW, sync};
use quipu_cells::describe::{META_VERSION, Writer};
use quipu_cells::event::count;
use quipu_cells::layout::{
    BUFFER_BYTES, CELLS_END, CELLS_START, FRAME_BYTES, Frame, HEADER_BYTES, MAX_PACKED_BYTES, OPEN,
    PACKED_HEAD_BYTES, PAGE_BYTES, SYNC, TRAILER_BYTES, VACANT, encoding, kind, open, packed_head, tag,
};
use quipu_cells::pack::{Packed, Table, pack};

/// Maximum size of the frame as which a buffer is written.
const MAX_FRAME_BYTES: usize =
    (HEADER_BYTES + PACKED_HEAD_BYTES + MAX_PACKED_BYTES).next_multiple_of(8) + TRAILER_BYTES;
/// Room for the table and a frame. Most of it is never touched, so it takes no memory.
const SCRATCH_BYTES: usize = size_of::<Table>() + MAX_FRAME_BYTES;
/// Number of times that the end of a thread is postponed, so that accesses in destructors are recorded: one less than the
/// number of times the C library calls them.
const N_PUT_OFF: u32 = 3;

/// The buffer that was mapped last; each refers to the one before it. Buffers stay mapped for the lifetime of the process.
static NEWEST: AtomicPtr<u8> = AtomicPtr::new(null_mut());
/// Number of threads so far.
static N_THREADS: AtomicU64 = AtomicU64::new(0);

/// The gap of a thread that ends when the recording is resumed.
pub(crate) const UNTIL_RESUMED: u64 = u64::MAX;

/// Whether a thread owns the buffer.
const FREE: u64 = 0;
const TAKEN: u64 = 1;

/// Offset between the cells of a buffer and its trailer: address of the buffer that was mapped before it, only meaningful to
/// this process.
const OLDER: usize = CELLS_END;

/// An open frame of the file, mapped at a multiple of [`BUFFER_BYTES`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer(*mut u8);

impl Buffer {
    /// # Safety
    /// `base` is aligned to 8 and has [`FRAME_BYTES`] bytes, for as long as this is used. Bytes outside of the cells are only
    /// accessed atomically.
    pub(crate) unsafe fn at(base: *mut u8) -> Buffer {
        Buffer(base)
    }

    /// The 8-byte field at an offset.
    fn field<'a>(self, offset: usize) -> &'a AtomicU64 {
        // SAFETY: for any offset, these 8 bytes lie in the frame (see `at`), at a multiple of 8.
        unsafe { &*self.0.add((offset & !7).min(FRAME_BYTES - 8)).cast::<AtomicU64>() }
    }

    /// The tag of its valid cells.
    pub(crate) fn tag(self) -> u64 {
        self.field(open::TAG).load(Ordering::Relaxed)
    }

    /// The two words of the cell at an offset; if the second has the tag, both are written.
    #[inline]
    pub(crate) fn cell(self, offset: usize) -> (u64, u64) {
        let side = self.field(offset + 8).load(Ordering::Acquire);
        (self.field(offset).load(Ordering::Relaxed), side)
    }

    /// Stores words from an offset on.
    fn put(self, offset: usize, bytes: &[u8]) {
        for (nth, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
            self.field(offset + 8 * nth).store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
    }
}

/// Resets the state inherited from the parent, in a forked process.
pub(crate) fn forget() {
    NEWEST.store(null_mut(), Ordering::SeqCst);
    N_THREADS.store(0, Ordering::SeqCst);
    let thread = this();
    thread.buffer.set(null_mut());
    thread.seq.set(0);
    thread.put_aside.set(PARKED as u64);
    thread.gap.set(0);
    live::forget();
    thread.cursor.store(PARKED as u64, Ordering::Relaxed);
}

/// Makes room for cells. False if there is no room, now or permanently: then the cells are not recorded.
#[cold]
#[inline(never)]
pub(crate) fn refill() -> bool {
    let thread = this();
    if thread.inside.get() > 0 || thread.ignoring.get() > 0 || process::is_off() {
        thread.cursor.store(PARKED as u64, Ordering::Relaxed);
        if process::is_off() && thread.inside.get() == 0 && thread.ignoring.get() == 0 {
            lose(thread);
        }
        return false;
    }
    if stays_away(thread) {
        return false;
    }
    let quiet = Quiet::begin();
    let cursor = thread.cursor.load(Ordering::Relaxed) as usize;
    let at_end = cursor & (BUFFER_BYTES - 1) >= CELLS_END;
    // A handler may have refilled the buffer between the claim and the line above.
    let is_there = !at_end || turn_over(thread);
    if !is_there && process::is_off() {
        lose(thread);
    }
    quiet.end();
    is_there
}

/// Whether a thread stays in a gap of the recording and this event with it. This is fast: nothing is blocked for it.
fn stays_away(thread: &Thread) -> bool {
    let gap = thread.gap.get();
    let is_over = match gap {
        0 => true,
        _ if process::is_paused() => false,
        UNTIL_RESUMED | 1 => true,
        n_left => {
            thread.gap.set(n_left - 1);
            false
        }
    };
    let cursor = thread.cursor.load(Ordering::Relaxed);
    let parks = |from| {
        thread.cursor.compare_exchange(from, PARKED as u64, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    };
    // The cursor of a parked thread is in no buffer. If a handler has moved it meanwhile, the caller handles that.
    !is_over && cursor < BUFFER_BYTES as u64 && parks(cursor)
}

/// Whether a gap begins or lasts, now that the thread's buffer is full. It stays open, where readers find it.
fn begins_gap(thread: &Thread) -> bool {
    if process::is_paused() {
        thread.gap.set(UNTIL_RESUMED);
        return true;
    }
    let Some((n_buffers, n_left_out)) = settings::windows() else { return false };
    // The sequence number of the next frame; the description of the thread has the first.
    let n_begun = thread.seq.get().saturating_sub(1);
    if thread.gap.get() > 0 || thread.buffer.get().is_null() || !n_begun.is_multiple_of(n_buffers) {
        return false;
    }
    thread.gap.set(n_left_out);
    true
}

/// Counts an event that is not recorded because the file cannot grow. The counter is in the head of the thread's last buffer,
/// which stays open.
fn lose(thread: &Thread) {
    const ONE: u64 = 1 << 32;
    let base = thread.buffer.get();
    if base.is_null() {
        return;
    }
    let lost = Buffer(base).field(open::LOST);
    let now = lost.load(Ordering::Relaxed);
    // A value with all bits set means "many".
    if now < u64::MAX - (ONE - 1) {
        lost.store(now + ONE, Ordering::Relaxed);
    }
}

/// Gives the thread an empty buffer. Signals must be blocked, here and in the functions below.
fn turn_over(thread: &Thread) -> bool {
    thread.inside.set(thread.inside.get() + 1);
    let begun = if !process::is_open() || begins_gap(thread) {
        false
    } else if process::has_ended() {
        begin_late(thread)
    } else if thread.buffer.get().is_null() {
        begin_thread(thread)
    } else if live::is_on() {
        live::turn_over(thread)
    } else {
        match write_out(thread, CELLS_END) {
            Kept::Written => begin_buffer(thread, Buffer(thread.buffer.get())),
            // A caller below us on this stack claimed a cell and has not written it: a handler interrupted it. The buffer
            // stays unchanged, because the cell will be written there, and readers find open frames as well as closed ones.
            Kept::Unfinished => claim_buffer(thread),
            Kept::Nothing => false,
        }
    };
    if !begun {
        thread.cursor.store(PARKED as u64, Ordering::Relaxed);
    } else if thread.gap.take() > 0 {
        put_sync(sync::RESUME, 0, 0, [sync::AFTER_GAP, 0]);
    }
    thread.inside.set(thread.inside.get() - 1);
    begun
}

/// After the end of the stream, the thread that ended it records into an open buffer as long as there is room; other threads
/// leave their cells in theirs.
fn begin_late(thread: &Thread) -> bool {
    let buffer = Buffer(thread.buffer.get());
    !buffer.0.is_null()
        && buffer.field(open::STATE).load(Ordering::Relaxed) == VACANT
        && begin_buffer(thread, buffer)
}

/// Closes the buffer of the thread that is about to end the stream. Signals must be blocked.
pub(crate) fn close() {
    let thread = this();
    let base = thread.buffer.get();
    let cursor = thread.cursor.load(Ordering::Relaxed) as usize;
    // If the thread ignores its accesses, its cursor is elsewhere, and the buffer stays open.
    if thread.inside.get() > 0 || base.is_null() || cursor & !(BUFFER_BYTES - 1) != base as usize {
        return;
    }
    thread.inside.set(thread.inside.get() + 1);
    thread.cursor.store(PARKED as u64, Ordering::Relaxed);
    let end = (cursor & (BUFFER_BYTES - 1)).min(CELLS_END);
    match write_out(thread, end) {
        Kept::Written => Buffer(base).field(open::STATE).store(VACANT, Ordering::SeqCst),
        Kept::Unfinished | Kept::Nothing => thread.cursor.store(cursor as u64, Ordering::Relaxed),
    }
    thread.inside.set(thread.inside.get() - 1);
}

/// Gives a thread that records for the first time its number, description and first buffer.
fn begin_thread(thread: &Thread) -> bool {
    if thread.scratch.get().is_null() && !live::is_on() {
        let Some(scratch) = process::map_memory(SCRATCH_BYTES) else {
            process::give_up(b"no memory for a thread");
            return false;
        };
        thread.scratch.set(scratch);
    }
    thread.number.set(N_THREADS.fetch_add(1, Ordering::SeqCst) + 1);
    // SAFETY: a query without arguments.
    thread.tid.set(unsafe { libc::syscall(libc::SYS_gettid) } as u64);
    if !live::is_on() && !describe(thread) || !claim_buffer(thread) {
        return false;
    }
    if live::is_on() && !live::claim(thread) {
        free(thread);
        return false;
    }
    process::call_at_end_of_thread();
    put_sync(sync::START, own_name(), 0, [thread.ticket.take(), thread.stack.take()]);
    if thread.number.get() == 1 {
        modules::tell(true);
    }
    true
}

/// Writes the description of a thread's stream: the first frame of that stream.
fn describe(thread: &Thread) -> bool {
    const MAX_BYTES: usize = 32;
    let number = thread.number.get() as u32; // Fewer threads than a process can have numbers for.
    let mut record = Writer::<MAX_BYTES>::new();
    record.stream(number, process::pid(), thread.tid.get());
    let payload = record.bytes();
    let frame = Frame {
        kind: kind::META,
        encoding: encoding::CBOR,
        len: payload.len() as u32, // At most `MAX_BYTES`.
        producer: process::producer(),
        stream: number,
        meta_version: process::next_ordinal() + 1,
        records: 1,
        payload_crc: checksum::of(payload),
        ..Frame::default()
    };
    let mut bytes = [0; HEADER_BYTES + MAX_BYTES + TRAILER_BYTES];
    let bytes = frame.put(payload, &mut bytes);
    thread.seq.set(1);
    process::put_frame(bytes, 0)
}

/// The C library's identifier of this thread.
pub(crate) fn own_name() -> u64 {
    // SAFETY: a query without arguments.
    unsafe { libc::pthread_self() }
}

/// Whether more than one thread has recorded something.
pub(crate) fn are_several() -> bool {
    N_THREADS.load(Ordering::Relaxed) > 1
}

/// Whether one of the last two events of this thread is this access to a range, recorded by a compiler's hook, and nothing has
/// been recorded since.
pub(crate) fn was_hooked(addr: u64, size: u64, flags: u16) -> bool {
    const EVENT_BYTES: usize = 2 * CELL_BYTES;
    let thread = this();
    let (cursor, base) = (thread.cursor.load(Ordering::Relaxed) as usize, thread.buffer.get());
    let end = cursor & (BUFFER_BYTES - 1);
    let is_in_buffer = !base.is_null() && cursor == base as usize + end && end <= CELLS_END;
    if !is_in_buffer || thread.after_range.get() != cursor as u64 {
        return false;
    }
    let buffer = Buffer(base);
    let tag = buffer.tag();
    let head = u64::from(cell::kind::RANGE) << 56 | 1 << 48 | addr & LOW;
    let rest = (size, tag | addr >> 48 << 16 | u64::from(flags));
    let is_it = |start: usize| {
        start >= CELLS_START
            && buffer.cell(start).0 == head
            && buffer.cell(start).1 & !LOW == tag
            && buffer.cell(start + CELL_BYTES) == rest
    };
    // The second is one only if it is a range, too, so that its first cell is this far from the end.
    is_it(end.saturating_sub(EVENT_BYTES)) || is_it(end.saturating_sub(2 * EVENT_BYTES))
}

/// Handles the end of a thread. The C library calls it again, up to its limit, if [`process::call_at_end_of_thread`] was
/// called again.
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
    if live::is_on() {
        live::end_thread(thread);
        free(thread);
    } else if !base.is_null() && cursor & !(BUFFER_BYTES - 1) == base as usize {
        let end = (cursor & (BUFFER_BYTES - 1)).min(CELLS_END);
        // Other buffers stay open, where readers find them.
        if matches!(write_out(thread, end), Kept::Written) {
            free(thread);
        }
    }
    thread.buffer.set(null_mut());
    let scratch = thread.scratch.replace(null_mut());
    if !scratch.is_null() {
        // SAFETY: it was mapped by `begin_thread`, and nothing uses it any more.
        unsafe { process::unmap(scratch, SCRATCH_BYTES) };
    }
    thread.inside.set(thread.inside.get() - 1);
    quiet.end();
}

/// Leaves the thread's buffer, whose cells are needed no more, to other threads.
fn free(thread: &Thread) {
    let base = thread.buffer.replace(null_mut());
    if !base.is_null() {
        let buffer = Buffer(base);
        buffer.field(open::STATE).store(VACANT, Ordering::SeqCst);
        buffer.field(open::OWNER).store(FREE, Ordering::SeqCst);
    }
}

/// Gives the thread a buffer that no thread owns, or a new one.
fn claim_buffer(thread: &Thread) -> bool {
    let mut base = NEWEST.load(Ordering::Acquire);
    while !base.is_null() {
        let buffer = Buffer(base);
        let owner = buffer.field(open::OWNER);
        if owner.compare_exchange(FREE, TAKEN, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
            return begin_buffer(thread, buffer);
        }
        base = buffer.field(OLDER).load(Ordering::Relaxed) as *mut u8;
    }
    let offset = if live::is_on() { None } else { process::claim_room(FRAME_BYTES as u64, PAGE_BYTES) };
    if offset.is_none() && !live::is_on() {
        return false;
    }
    let Some(buffer) = process::map_buffer(offset) else { return false };
    let frame = Frame {
        kind: kind::OPEN,
        encoding: encoding::CELLS,
        len: (FRAME_BYTES - HEADER_BYTES - TRAILER_BYTES) as u32,
        producer: process::producer(),
        ..Frame::default()
    };
    buffer.field(open::OWNER).store(TAKEN, Ordering::Relaxed);
    buffer.put(SYNC.len(), &frame.header()[SYNC.len()..]);
    buffer.put(FRAME_BYTES - TRAILER_BYTES, &frame.trailer());
    // From now on, this is a frame of the file, a vacant one.
    buffer.field(0).store(u64::from_le_bytes(SYNC), Ordering::SeqCst);
    let mut newest = NEWEST.load(Ordering::Acquire);
    loop {
        buffer.field(OLDER).store(newest as u64, Ordering::Relaxed);
        match NEWEST.compare_exchange(newest, buffer.0, Ordering::SeqCst, Ordering::Acquire) {
            Ok(_) => break,
            Err(now) => newest = now,
        }
    }
    begin_buffer(thread, buffer)
}

/// Reuses a buffer whose cells are all written out or belong to no thread.
pub(crate) fn begin_buffer(thread: &Thread, buffer: Buffer) -> bool {
    // From here to the last store of the state, the buffer holds nothing that a reader of the file would take for cells.
    buffer.field(open::STATE).store(VACANT, Ordering::SeqCst);
    let generation = buffer.field(open::GENERATION).fetch_add(1, Ordering::SeqCst) + 1;
    if generation.is_multiple_of(0xffff) {
        // Tags start over, and cells of the same tag may be left from the last time.
        // SAFETY: the buffer is mapped for the lifetime of the process, and these cells belong to this thread alone.
        unsafe { buffer.0.add(CELLS_START).write_bytes(0, CELLS_END - CELLS_START) };
    }
    buffer.field(open::SEQ).store(thread.seq.get(), Ordering::Relaxed);
    buffer.field(open::META_VERSION).store(META_VERSION.into(), Ordering::Relaxed);
    buffer.field(open::TS_FIRST).store(thread.stamp.load(Ordering::Relaxed), Ordering::Relaxed);
    buffer.field(open::NS).store(process::ns(), Ordering::Relaxed);
    buffer.field(open::EXTRA).store(0, Ordering::Relaxed);
    buffer.field(open::TAG).store(tag(generation), Ordering::Relaxed);
    buffer.field(open::STATE).store(OPEN | thread.number.get() << 32, Ordering::SeqCst);
    thread.seq.set(thread.seq.get() + 1);
    thread.buffer.set(buffer.0);
    thread.cursor.store(buffer.0 as u64 + CELLS_START as u64, Ordering::Relaxed);
    true
}

/// Outcome of writing out a buffer's cells.
enum Kept {
    /// The cells are in a closed frame.
    Written,
    /// Some cells are not written into the buffer yet.
    Unfinished,
    /// There is no room for them in the file.
    Nothing,
}

/// Writes the cells of the thread's buffer up to `end` as a closed frame. At the end of a thread, cells that were never
/// written are left out; a full buffer has to wait for them.
fn write_out(thread: &Thread, end: usize) -> Kept {
    let (base, scratch) = (thread.buffer.get(), thread.scratch.get());
    let buffer = Buffer(base);
    let field = |offset| buffer.field(offset).load(Ordering::Relaxed);
    let n_cells = (end - CELLS_START) / CELL_BYTES;
    // SAFETY: the cells of a buffer, which is mapped for the lifetime of the process, and aligned. Only this thread and its
    // handlers write them, and no handler runs until this is over.
    let words = unsafe { core::slice::from_raw_parts(base.add(CELLS_START).cast::<[u64; 2]>(), n_cells) };
    // SAFETY: the scratch has `SCRATCH_BYTES`, room for these two one after the other; it belongs to this thread, signals are
    // blocked, and no other reference into it exists. It was zeros at first, which are valid for a table.
    let (table, out) = unsafe {
        let out = scratch.add(size_of::<Table>());
        (&mut *scratch.cast::<Table>(), core::slice::from_raw_parts_mut(out, MAX_FRAME_BYTES))
    };
    let (header, payload) = out.split_at_mut(HEADER_BYTES);
    let (head, tokens) = payload.split_at_mut(PACKED_HEAD_BYTES);
    let tag = field(open::TAG);
    // The output has room for any cells.
    let Some(Packed { n_bytes, n_holes }) = pack(words, tag, table, tokens) else { return Kept::Nothing };
    if n_holes > 0 && end == CELLS_END {
        return Kept::Unfinished;
    }
    let n_records = match n_holes {
        0 => (n_cells as u32).wrapping_sub(field(open::EXTRA) as u32),
        _ => count(words, tag),
    };
    head.copy_from_slice(&packed_head(n_cells, field(open::NS)));
    let len = PACKED_HEAD_BYTES + n_bytes;
    let frame = Frame {
        kind: kind::DATA,
        encoding: encoding::CELLS,
        len: len as u32, // At most `MAX_FRAME_BYTES`.
        producer: process::producer(),
        stream: thread.number.get() as u32, // As in `describe`.
        meta_version: META_VERSION,
        records: n_records,
        seq: field(open::SEQ),
        times: [field(open::TS_FIRST), thread.stamp.load(Ordering::Relaxed)],
        payload_crc: checksum::of(&payload[..len]),
        ..Frame::default()
    };
    header.copy_from_slice(&frame.header());
    let bytes = &mut out[..frame.bytes()];
    let (rest, trailer) =
        bytes[HEADER_BYTES + len..].split_at_mut(frame.bytes() - TRAILER_BYTES - HEADER_BYTES - len);
    rest.fill(0);
    trailer.copy_from_slice(&frame.trailer());
    if process::put_frame(bytes, n_records.into()) { Kept::Written } else { Kept::Nothing }
}

/// Blocks all signals from `begin` to `end`, so that no signal handler runs on this thread.
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

    /// Restores the earlier signal mask and `errno`.
    pub(crate) fn end(self) {
        set_signals(self.signals);
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.errno };
    }
}

/// Blocks exactly these signals; returns those that were blocked before.
pub(crate) fn set_signals(blocked: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: the kernel reads and writes 8 bytes. The C library's own function leaves out signals that it needs; here, they
    // are also blocked, for a moment.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const blocked, &raw mut before, 8);
    }
    before
}
