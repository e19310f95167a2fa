//! Sending to an analysis that takes the cells while the program runs, through the rings of `quipu-ring`, in place of a file.
//!
//! Threads write their cells into buffers as they do for a file, but these are private memory. Full buffers, and what was
//! written before a thread gives something to others or waits for them, go to the ring of the thread. The analysis makes
//! events of the cells; kinds of cells that no event is made from stay here.
//!
//! A thread sends only its own cells, except where the program ends or is replaced: then one thread sends those of all.
//!
//! SPEC: prism.md#cells

use crate::buffer::{self, Buffer, Quiet};
use crate::next::{Next, passed_on};
use crate::process;
use crate::thread::{Thread, this};
use core::cell::Cell as Own;
use core::ffi::{CStr, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use quipu_cells::cell::{CELL_BYTES, LOW, kind, sync};
use quipu_cells::layout::{CELLS_END, CELLS_START};
use quipu_ring::prism::{
    CELLS, CHUNK_HEAD_WORDS, CHUNK_WORDS, ChunkHead, KIND_EVENTS, OFF, PROTOCOL, SETTLED, Said, Terms,
};
use quipu_ring::{Claim, Producer, Shared, life};

/// The rings; null if this process sends nothing. The memory stays mapped, also in children.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(null_mut());
/// The terms of this program's threads.
static TERMS: AtomicU64 = AtomicU64::new(0);
/// A number that the threads of this program share, and no other program of the process has.
static PROGRAM: AtomicU64 = AtomicU64::new(0);
/// The kinds of cells that are sent, as bits; bit 0 stands for accesses.
static WANTED: AtomicU32 = AtomicU32::new(0);
/// Whether cells are dropped and counted while a ring is full, in place of waiting.
static DROPS: AtomicBool = AtomicBool::new(false);
/// The lane that was made last; each refers to the one before it. Lanes are never unmapped.
static NEWEST: AtomicPtr<Lane> = AtomicPtr::new(null_mut());

/// Bits of the fields of accesses that cells have: type, size, address.
const MEMORY_FIELDS: u8 = 0xe0;
/// Bytes of a lane, and after it a chunk under construction.
const LANE_BYTES: usize = size_of::<Lane>() + 8 * CHUNK_WORDS;
/// Number of times that a thread lets others run first, while one of them is sending.
const MAX_YIELDS: u32 = 1000;
/// Number of milliseconds that the end of the program then waits for a thread that is sending to a slower analysis.
const MAX_NAPS: u32 = 5000;

/// The way of a thread's cells from its buffer to its ring.
///
/// The thread that has set `is_busy` may use the rest: the owner, or one that ends the program.
struct Lane {
    older: *mut Lane,
    /// Room for a chunk under construction.
    chunk: *mut u64,
    is_taken: AtomicBool,
    is_busy: AtomicBool,
    buffer: Own<*mut u8>,
    /// Offset in the buffer of the first cell that was not sent.
    sent: Own<usize>,
    producer: Own<Option<Producer<'static>>>,
}

/// Treatment of a cell that was claimed but is not written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hole {
    /// Nothing was claimed from there on, or an interrupted caller is about to write it: send what is before it.
    Ends,
    /// The buffer is about to be used again: count the cell as lost.
    IsLost,
}

/// The outcome for a thread that sent all that it had.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It continues or ends without notice: nothing is missing in either case.
    MayEnd,
    /// It sends nothing more.
    Ends,
}

/// Whether this process sends its cells.
pub(crate) fn is_on() -> bool {
    !SHARED.load(Ordering::Relaxed).is_null()
}

/// The rings.
fn shared() -> Option<&'static Shared> {
    // SAFETY: null, or memory that `connect` has filled and that is never unmapped or changed.
    unsafe { SHARED.load(Ordering::Acquire).as_ref() }
}

/// Maps the rings at this path; false if the analysis takes nothing. Called once, by only one thread.
pub(crate) fn connect(path: &CStr, drops: bool) -> bool {
    let Ok(shared) = Shared::open(path) else {
        process::give_up(b"cannot open the memory that QUIPU_PRISM names");
        return false;
    };
    let asked = Terms::unpack(shared.note()[0]);
    if asked.version != PROTOCOL || asked.encodings & CELLS == 0 {
        process::give_up(b"the analysis that QUIPU_PRISM names is of another version");
        return false;
    }
    if !shared.is_open() {
        return false;
    }
    let given = |asked: u8, can: u8| if asked & OFF != 0 { OFF } else { asked & can };
    let [memory, _, _, sync, context] = asked.fields;
    let (memory, context) = (given(memory, MEMORY_FIELDS), given(context, !OFF));
    let fields = [memory, OFF, OFF, given(sync, !OFF), context];
    TERMS.store(Terms { version: PROTOCOL, encodings: CELLS, fields }.pack(), Ordering::Relaxed);
    // Threads begin, end and create others whether or not synchronization is wanted.
    let mut wanted = 1_u32 << kind::SYNC;
    if memory & OFF == 0 {
        wanted |= 1 | 1 << kind::RANGE | 1 << kind::ATOMIC;
    }
    if context & OFF == 0 {
        wanted |= 1 << kind::ENTER | 1 << kind::LEAVE | 1 << kind::MODULE;
    }
    WANTED.store(wanted, Ordering::Relaxed);
    DROPS.store(drops, Ordering::Relaxed);
    let Some(place) = process::map_memory(size_of::<Shared>()) else { return false };
    // SAFETY: that many bytes, aligned to a page, and nothing else uses them.
    unsafe { place.cast::<Shared>().write(shared) };
    SHARED.store(place.cast(), Ordering::Release);
    true
}

/// Begins a program, at its start or in a forked child: `number` is one that no earlier program of the process had.
pub(crate) fn begin(number: u64) {
    PROGRAM.store(number, Ordering::Relaxed);
}

/// Leaves the lanes to the parent, in a forked child.
pub(crate) fn forget() {
    NEWEST.store(null_mut(), Ordering::SeqCst);
    if is_on() {
        // The memory stays mapped: it is a copy, and the parent uses its own.
        this().scratch.set(null_mut());
    }
}

/// A lane that no thread has, or a new one.
fn claim_lane() -> Option<&'static Lane> {
    let mut lane = NEWEST.load(Ordering::Acquire);
    // SAFETY: null, or a lane, which is never unmapped; only its cells change, and only through shared references.
    while let Some(found) = unsafe { lane.as_ref() } {
        if !found.is_taken.swap(true, Ordering::AcqRel) {
            return Some(found);
        }
        lane = found.older;
    }
    let base = process::map_memory(LANE_BYTES)?.cast::<Lane>();
    let mut newest = NEWEST.load(Ordering::Acquire);
    loop {
        let new = Lane {
            older: newest,
            chunk: base.wrapping_add(1).cast(),
            is_taken: AtomicBool::new(true),
            is_busy: AtomicBool::new(false),
            buffer: Own::new(null_mut()),
            sent: Own::new(CELLS_START),
            producer: Own::new(None),
        };
        // SAFETY: as many bytes as were mapped, aligned to a page; nothing else knows them before the exchange succeeds.
        unsafe { base.write(new) };
        match NEWEST.compare_exchange(newest, base, Ordering::SeqCst, Ordering::Acquire) {
            // SAFETY: written above, and never unmapped.
            Ok(_) => return Some(unsafe { &*base }),
            Err(now) => newest = now,
        }
    }
}

/// Gives a thread that begins a ring, to which the cells of its buffer go; false if there is none, which the analysis counts.
/// The thread then does nothing more.
pub(crate) fn claim(thread: &Thread) -> bool {
    let is_claimed = claim_ring(thread).is_some_and(|producer| {
        let Some(lane) = claim_lane() else {
            producer.leave();
            return false;
        };
        if !lane.begin() {
            // Another thread is ending the program.
            producer.leave();
            return false;
        }
        lane.buffer.set(thread.buffer.get());
        lane.sent.set(CELLS_START);
        lane.producer.set(Some(producer));
        lane.end();
        thread.scratch.set(core::ptr::from_ref(lane).cast_mut().cast());
        true
    });
    if !is_claimed {
        // Otherwise, each of its hooks would try again.
        thread.ignoring.set(thread.ignoring.get() + 1);
    }
    is_claimed
}

fn claim_ring(thread: &Thread) -> Option<Producer<'static>> {
    let (pid, tid) = (process::pid() as u32, thread.tid.get() as u32); // Ids have at most 22 bits.
    let terms = Terms::unpack(TERMS.load(Ordering::Relaxed));
    let claim = Claim {
        pid,
        tid,
        start: life::started(pid, tid).unwrap_or(0),
        note: Said { terms, thread: PROGRAM.load(Ordering::Relaxed) }.pack(),
        reserves: true,
    };
    Producer::claim_for(shared()?, &claim)
}

/// The lane of a thread that sends its cells, once it has begun.
fn lane_of(thread: &Thread) -> Option<&'static Lane> {
    // SAFETY: in a process that sends, the field is null or the thread's lane, which is never unmapped.
    if is_on() { unsafe { thread.scratch.get().cast::<Lane>().as_ref() } } else { None }
}

impl Lane {
    /// Begins to use the lane; false if another thread is ending the program.
    fn begin(&self) -> bool {
        !self.is_busy.swap(true, Ordering::Acquire)
    }

    /// Begins to use the lane when the thread that is sending has finished; false if that takes too long.
    fn begin_after_others(&self, then: Then) -> bool {
        for _ in 0..MAX_YIELDS {
            if self.begin() {
                return true;
            }
            // SAFETY: no arguments.
            unsafe { libc::sched_yield() };
        }
        // After the end of the program, threads finish a buffer and begin no other, but each waits for room in its ring.
        let n_naps = if then == Then::Ends { MAX_NAPS } else { 0 };
        for _ in 0..n_naps {
            if self.begin() {
                return true;
            }
            let nap = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            // SAFETY: reads one structure. Unlike the C library's function, the system call does not end a cancelled thread.
            unsafe { libc::syscall(libc::SYS_nanosleep, &raw const nap, null_mut::<libc::timespec>()) };
        }
        false
    }

    fn end(&self) {
        self.is_busy.store(false, Ordering::Release);
    }

    /// Sends the cells that were written into the buffer. The lane must be busy. False if the analysis takes nothing more.
    fn send(&self, hole: Hole) -> bool {
        let (base, Some(mut producer)) = (self.buffer.get(), self.producer.take()) else { return false };
        if base.is_null() {
            self.producer.set(Some(producer));
            return true;
        }
        // SAFETY: the buffer of the lane is mapped for as long as the process lives; everything accesses it atomically.
        let buffer = unsafe { Buffer::at(base) };
        // SAFETY: `claim_lane` mapped that many words after the lane; only the caller, who made the lane busy, uses them, and
        // any bits are valid.
        let chunk = unsafe { core::slice::from_raw_parts_mut(self.chunk, CHUNK_WORDS) };
        let (tag, wanted) = (buffer.tag(), WANTED.load(Ordering::Relaxed));
        let (mut at, mut n_words, mut n_events) = (self.sent.get(), CHUNK_HEAD_WORDS, 0_u32);
        let mut is_taken = true;
        while at < CELLS_END && is_taken {
            // PERF: most cells are plain accesses, which are copied here; all else, and full chunks, below.
            if wanted & 1 != 0 {
                while at < CELLS_END && n_words + 2 <= CHUNK_WORDS {
                    let (word, side) = buffer.cell(at);
                    if word >> 56 != 0 || side & !LOW != tag {
                        break;
                    }
                    chunk[n_words] = word;
                    chunk[n_words + 1] = side & LOW;
                    n_words += 2;
                    n_events += 1;
                    at += CELL_BYTES;
                }
                if at >= CELLS_END {
                    break;
                }
            }
            let (word, side) = buffer.cell(at);
            let n_cells = 1 + if word >> 56 == 0 { 0 } else { (word >> 48) as usize & 0xff };
            let end = at + n_cells * CELL_BYTES;
            let is_whole = |at: usize| buffer.cell(at).1 & !LOW == tag;
            if side & !LOW != tag
                || n_cells > 1
                    && (end > CELLS_END || !(at + CELL_BYTES..end).step_by(CELL_BYTES).all(is_whole))
            {
                if hole == Hole::Ends {
                    break;
                }
                producer.drop_some(1);
                at += CELL_BYTES;
                continue;
            }
            if wanted >> (word >> 56).min(31) & 1 != 0 {
                if n_words + 2 * n_cells > CHUNK_WORDS {
                    is_taken = push(&mut producer, chunk, n_words, n_events);
                    (n_words, n_events) = (CHUNK_HEAD_WORDS, 0);
                }
                chunk[n_words] = word;
                chunk[n_words + 1] = side & LOW;
                n_words += 2;
                for at in (at + CELL_BYTES..end).step_by(CELL_BYTES) {
                    let (word, side) = buffer.cell(at);
                    chunk[n_words] = word;
                    chunk[n_words + 1] = side & LOW;
                    n_words += 2;
                }
                n_events += 1;
            }
            at = end;
        }
        self.sent.set(at);
        if is_taken && n_events > 0 {
            is_taken = push(&mut producer, chunk, n_words, n_events);
        }
        self.producer.set(Some(producer));
        if !is_taken {
            process::turn_off();
        }
        is_taken
    }

    /// Sends what there is, and notes what follows. The lane must be busy.
    fn finish(&self, then: Then) {
        let is_taken = self.send(Hole::Ends);
        let Some(producer) = self.producer.take() else { return };
        match then {
            Then::Ends => return producer.leave(),
            Then::MayEnd if is_taken => producer.set_note(SETTLED, producer.position()),
            Then::MayEnd => {}
        }
        self.producer.set(Some(producer));
    }
}

/// Publishes a chunk with a head for `n_events`; false if the analysis takes nothing more. Waits while the ring is full, or
/// counts the events as dropped.
fn push(producer: &mut Producer<'static>, chunk: &mut [u64], n_words: usize, n_events: u32) -> bool {
    let head = ChunkHead {
        kind: KIND_EVENTS,
        flags: 0,
        n_events,
        event_bytes: 8 * (n_words - CHUNK_HEAD_WORDS) as u32, // At most a chunk.
        name_bytes: 0,
        n_references: 0,
    };
    chunk[..2].copy_from_slice(&head.pack(n_words));
    chunk[2] = 0;
    if DROPS.load(Ordering::Relaxed) && !producer.has_room(n_words as u64) {
        producer.drop_some(n_events.into());
        return true;
    }
    let is_taken = producer.push_group(&chunk[..n_words]);
    if let Some(shared) = shared() {
        shared.wake_recorder();
    }
    is_taken
}

/// Sends a full buffer and begins it again. Signals must be blocked.
pub(crate) fn turn_over(thread: &Thread) -> bool {
    let Some(lane) = lane_of(thread) else { return false };
    if !lane.begin() {
        return false;
    }
    // SAFETY: the buffer of a thread is mapped for as long as the process lives.
    let begun =
        lane.send(Hole::IsLost) && buffer::begin_buffer(thread, unsafe { Buffer::at(lane.buffer.get()) });
    lane.sent.set(CELLS_START);
    lane.end();
    begun
}

/// Sends what this thread has, so that it is not missing while the thread waits, or where others continue.
pub(crate) fn flush() {
    let thread = this();
    let Some(lane) = lane_of(thread) else { return };
    // After the end of the program, one thread sends what all have.
    if thread.inside.get() > 0 || process::is_off() || process::has_ended() {
        return;
    }
    let quiet = Quiet::begin();
    thread.inside.set(thread.inside.get() + 1);
    if lane.begin() {
        lane.send(Hole::Ends);
        lane.end();
    }
    thread.inside.set(thread.inside.get() - 1);
    quiet.end();
}

/// Sends what a thread has at its end, and frees its ring and its lane. Signals must be blocked, and its buffer must be free
/// afterwards.
pub(crate) fn end_thread(thread: &Thread) {
    let Some(lane) = lane_of(thread) else { return };
    thread.scratch.set(null_mut());
    // If another thread is ending the program, it keeps the lane.
    if lane.begin() {
        lane.finish(Then::Ends);
        lane.buffer.set(null_mut());
        lane.end();
        lane.is_taken.store(false, Ordering::Release);
    }
}

/// Sends what all threads have, before this thread ends the program. Signals must be blocked.
pub(crate) fn close() {
    finish_all(Then::Ends);
}

/// Sends what all threads have.
fn finish_all(then: Then) {
    let mut lane = NEWEST.load(Ordering::Acquire);
    // SAFETY: as in `claim_lane`.
    while let Some(found) = unsafe { lane.as_ref() } {
        lane = found.older;
        if !found.begin_after_others(then) {
            continue;
        }
        if found.is_taken.load(Ordering::Acquire) {
            found.finish(then);
        }
        // The others continue to run, and would send what follows the end.
        if then != Then::Ends {
            found.end();
        }
    }
}

/// Sends what all threads have, before the program is replaced or ends without the functions that it calls at its end.
fn before_end() {
    let thread = this();
    // A child of `vfork` borrows the memory of its parent, which sends it.
    if !is_on() || !process::is_own() || thread.inside.get() > 0 || process::is_off() {
        return;
    }
    // Everything was sent already.
    if process::has_ended() {
        return;
    }
    let quiet = Quiet::begin();
    thread.inside.set(thread.inside.get() + 1);
    finish_all(Then::MayEnd);
    thread.inside.set(thread.inside.get() - 1);
    quiet.end();
}

/// Whether others may see what a thread did before this operation.
pub(crate) fn gives(what: u64) -> bool {
    matches!(
        what,
        sync::UNLOCK
            | sync::WAIT
            | sync::SIGNAL
            | sync::BROADCAST
            | sync::ARRIVE
            | sync::POST
            | sync::RELEASE
            | sync::CREATE
    )
}

/// In place of a function that does not exist.
extern "C" fn fail() -> c_int {
    -1
}

/// Functions that replace or end the program: what was not sent would be lost. Any arguments, also in registers that count
/// them, are passed on.
macro_rules! last {
    ($($name:ident => $ours:ident = $text:literal;)*) => {$(
        passed_on!($name, $ours);

        /// Sends what there is, and returns the function that the program calls.
        extern "C" fn $ours() -> *mut c_void {
            static NEXT: Next = Next::new($text);
            before_end();
            let next = NEXT.get();
            if next.is_null() { (fail as extern "C" fn() -> c_int) as *mut c_void } else { next }
        }
    )*};
}

last! {
    execve => next_execve = c"execve";
    execv => next_execv = c"execv";
    execvp => next_execvp = c"execvp";
    execvpe => next_execvpe = c"execvpe";
    execl => next_execl = c"execl";
    execlp => next_execlp = c"execlp";
    execle => next_execle = c"execle";
    fexecve => next_fexecve = c"fexecve";
    abort => next_abort = c"abort";
}
