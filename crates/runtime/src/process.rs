//! The process: its file, its start, fork and exit.
//!
//! The file is opened once, at the start or with the first record, whichever comes first. From then on, nothing has to be
//! done for the records to be readable: not at exit, and not by a process that is killed or replaces itself.

use crate::buffer::{self, Buffer, Quiet, set_signals};
use crate::settings::{
    self, ANALYSIS, BEGINS_PAUSED, FOLLOWS, MAX_BYTES, PATH_BYTES, expand, string, variable,
};
use crate::thread::{forget_stamps, last_stamp, put_sync, this};
use crate::{checksum, live};
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use quipu_cells::cell::sync;
use quipu_cells::describe::{
    DESCRIPTION, DESCRIPTION_CRC, META_VERSION, N_DESCRIBED, N_OF_PROCESS, Process, Writer, schema,
};
use quipu_cells::layout::{
    BUFFER_BYTES, FRAME_ALIGN, FRAME_BYTES, Frame, HEADER_BYTES, OPEN as OPEN_STATE, SYNC, TRAILER_BYTES,
    encoding, flag, kind, open as head, process,
};

const NEW: u32 = 0;
const OPENING: u32 = 1;
const OPEN: u32 = 2;
const OFF: u32 = 3;

static STAGE: AtomicU32 = AtomicU32::new(NEW);
static FD: AtomicI32 = AtomicI32::new(-1);
/// The first page of the file, mapped from the time the file is open until the process ends; null before.
static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());
/// Number of rows on the page.
static N_ROWS: AtomicU64 = AtomicU64::new(0);
/// Offset of the next frame.
static END: AtomicU64 = AtomicU64::new(0);
/// The process that the file belongs to.
static PID: AtomicU64 = AtomicU64::new(0);
/// Monotonic clock at the beginning of the recording, in ns.
static BEGAN: AtomicU64 = AtomicU64::new(0);
/// The first 8 bytes of the recording's UUID.
static PRODUCER: AtomicU64 = AtomicU64::new(0);
/// The ordinal of the next metadata record.
static N_META: AtomicU64 = AtomicU64::new(0);
/// Number of frames in the file, and of records in them.
static N_FRAMES: AtomicU64 = AtomicU64::new(0);
static N_RECORDS: AtomicU64 = AtomicU64::new(0);
/// Number of threads that are writing a frame.
static N_WRITERS: AtomicU64 = AtomicU64::new(0);
/// True once the end is written or left out: no thread begins another frame.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);
/// True once a thread is about to end the stream.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// The key whose destructor is called at the end of threads.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);
/// The process that this one was forked from, if that was traced; otherwise 0.
static PARENT: AtomicU64 = AtomicU64::new(0);
/// True if nothing is recorded any more.
pub(crate) fn is_off() -> bool {
    STAGE.load(Ordering::Relaxed) == OFF
}

/// True while another process has paused the recording.
pub(crate) fn is_paused() -> bool {
    page(process::CONTROL).is_some_and(|control| control.load(Ordering::Relaxed) == process::PAUSED)
}

/// The process that the file belongs to.
pub(crate) fn pid() -> u64 {
    PID.load(Ordering::Relaxed)
}

/// False in a child that borrows the memory of its parent.
pub(crate) fn is_own() -> bool {
    pid() == own_pid()
}

/// Ends recording without a message, because nothing takes it.
pub(crate) fn turn_off() {
    STAGE.store(OFF, Ordering::SeqCst);
}

/// The identifier of the recording in frames.
pub(crate) fn producer() -> u64 {
    PRODUCER.load(Ordering::Relaxed)
}

/// The ordinal for a metadata record about to be written.
pub(crate) fn next_ordinal() -> u32 {
    N_META.fetch_add(1, Ordering::SeqCst) as u32 // One for each thread.
}

/// Time since the recording began, in ns.
pub(crate) fn ns() -> u64 {
    clock(libc::CLOCK_MONOTONIC).saturating_sub(BEGAN.load(Ordering::Relaxed))
}

/// The 8-byte field of the page at an offset; `None` if no file was ever open.
fn page(offset: usize) -> Option<&'static AtomicU64> {
    let base = PAGE.load(Ordering::Acquire);
    // SAFETY: not null, so it is a page that is mapped until the process ends; for any offset, the word lies in it. Everyone
    // accesses it atomically.
    (!base.is_null()).then(|| unsafe { &*base.add(offset / 8 % (process::PAGE_BYTES / 8)) })
}

/// Stores words on the page from an offset on.
fn put_on_page(offset: usize, bytes: &[u8]) {
    for (nth, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
        if let Some(field) = page(offset + 8 * nth) {
            field.store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
    }
}

/// Adds a row about the process to the page.
fn note(what: u64) {
    const HEAD: u64 = (process::ROW_BYTES as u64) << 32;
    let nth = N_ROWS.fetch_add(1, Ordering::SeqCst) as usize; // Few.
    if nth >= process::MAX_ROWS {
        return;
    }
    let row = process::FIRST_ROW + nth * process::ROW_BYTES;
    let put = |offset: usize, value: u64| {
        if let Some(field) = page(row + offset) {
            field.store(value, Ordering::SeqCst);
        }
    };
    // Readers treat an unfinished row as padding; storing its schema completes it.
    put(0, HEAD);
    put(8, last_stamp());
    put(process::WHAT, what);
    put(process::NS, ns());
    put(process::PID, pid());
    put(process::PARENT, PARENT.load(Ordering::Relaxed));
    put(0, HEAD | u64::from(schema::PROCESS));
}

fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills in the structure.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Reports on standard error why recording stops, and stops it.
pub(crate) fn give_up(why: &[u8]) {
    if STAGE.swap(OFF, Ordering::SeqCst) != OFF {
        print(&[b"quipu: ", why, b"; nothing more is recorded\n"]);
    }
}

/// Prints a message on standard error.
fn say(what: &[u8]) {
    print(&[b"quipu: ", what, b"\n"]);
}

fn print(texts: &[&[u8]]) {
    for text in texts {
        // SAFETY: writes bytes of our own.
        unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
    }
}

/// Opens the file if that was not done; false if there is none.
pub(crate) fn is_open() -> bool {
    loop {
        match STAGE.compare_exchange(NEW, OPENING, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => {
                let is_open = open();
                let _ = STAGE.compare_exchange(
                    OPENING,
                    if is_open { OPEN } else { OFF },
                    Ordering::SeqCst,
                    Ordering::SeqCst,
                );
                return is_open;
            }
            Err(OPEN) => return true,
            Err(OPENING) => {
                // SAFETY: no arguments. Another thread is opening the file; it waits for no other thread.
                unsafe { libc::sched_yield() };
            }
            Err(_) => return false,
        }
    }
}

/// Opens the file; called by only one thread.
fn open() -> bool {
    // A child of a process that sends does so, too.
    if live::is_on() || settings::names_analysis() {
        return send();
    }
    if !settings::read() {
        return false;
    }
    let mut path = [0; PATH_BYTES];
    let mut is_said = false;
    for attempt in 1..=99 {
        if !expand(attempt, PARENT.load(Ordering::Relaxed) != 0, &mut path) {
            give_up(b"the path in QUIPU_OUT is too long");
            return false;
        }
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC;
        // SAFETY: a path that ends in a zero.
        let fd = unsafe { libc::open(path.as_ptr().cast(), flags, 0o666) };
        if fd < 0 {
            give_up(b"cannot make the file that QUIPU_OUT names");
            return false;
        }
        match look(fd) {
            Found::Ours => return take(fd),
            Found::InUse => {}
            Found::Foreign if is_said => {}
            Found::Foreign => {
                is_said = true;
                say(b"the file that QUIPU_OUT names is no recording and stays; another name is used");
            }
        }
        // SAFETY: it was opened above, and nothing else has it.
        unsafe { libc::close(fd) };
    }
    give_up(b"the file that QUIPU_OUT names is in use");
    false
}

/// Begins to send to an analysis; false if it takes nothing.
fn send() -> bool {
    if !live::is_on() {
        FOLLOWS.store(variable(c"QUIPU_FOLLOW_FORK") != Some(b"0"), Ordering::Relaxed);
        let drops = variable(c"QUIPU_PRISM_DROP") == Some(b"1");
        if !string(ANALYSIS).is_some_and(|path| live::connect(path, drops)) {
            return false;
        }
    }
    PID.store(own_pid(), Ordering::Relaxed);
    BEGAN.store(clock(libc::CLOCK_MONOTONIC), Ordering::Relaxed);
    live::begin(BEGAN.load(Ordering::Relaxed));
    HAS_ENDED.store(false, Ordering::SeqCst);
    IS_ENDING.store(false, Ordering::SeqCst);
    register();
    true
}

/// The kind of an existing file with the name for the recording.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// Empty, or an earlier recording, which is overwritten.
    Ours,
    /// A recording that another process is writing, or that this process wrote before it replaced itself.
    InUse,
    /// Something else, which is not touched.
    Foreign,
}

/// Examines a file that was opened.
fn look(fd: c_int) -> Found {
    // SAFETY: a query about a file that is open.
    let is_locked = unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) } == 0;
    if !is_locked && errno() == libc::EWOULDBLOCK {
        return Found::InUse;
    }
    let mut words = [0_u64; (process::FIRST_ROW + process::MAX_ROWS * process::ROW_BYTES) / 8];
    // SAFETY: the buffer has that many bytes.
    let n = unsafe { libc::pread(fd, words.as_mut_ptr().cast(), size_of_val(&words), 0) };
    // An empty file, one that cannot be read at an offset, or a page whose process was killed before it had begun.
    if n <= 0 || words.iter().all(|word| *word == 0) {
        return Found::Ours;
    }
    let page = Frame::page(0).header();
    let [sync, start, ..] = page.as_chunks::<8>().0 else { return Found::Foreign };
    let is_page = words[0] == u64::from_le_bytes(*sync) && words[1] == u64::from_le_bytes(*start);
    if !is_page || n != size_of_val(&words) as isize {
        return Found::Foreign;
    }
    let (rows, _) = words[process::FIRST_ROW / 8..].as_chunks::<{ process::ROW_BYTES / 8 }>();
    let is_row = |row: &&[u64; process::ROW_BYTES / 8]| row[0] as u32 == schema::PROCESS;
    let mut rows = rows.iter().filter(is_row).map(|row| (row[process::WHAT / 8], row[process::PID / 8]));
    let is_of_others = rows.next().is_none_or(|(_, pid)| pid != own_pid());
    match is_of_others || rows.any(|(what, _)| what == process::EXITED) {
        true => Found::Ours,
        false => Found::InUse,
    }
}

pub(crate) fn own_pid() -> u64 {
    // SAFETY: a query without arguments.
    unsafe { libc::getpid() as u64 }
}

fn errno() -> c_int {
    // SAFETY: `errno` of this thread.
    unsafe { *libc::__errno_location() }
}

/// Begins the recording in an open file.
fn take(fd: c_int) -> bool {
    // Uses a high number, away from those that programs give to files that they think are theirs.
    // SAFETY: the file is open, and nothing else uses it.
    let high = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 512) };
    let fd = if high >= 0 {
        // SAFETY: nothing else has it.
        unsafe { libc::close(fd) };
        high
    } else {
        fd
    };
    // SAFETY: the file is open.
    let is_new = may_reach(process::PAGE_BYTES as u64)
        && unsafe { libc::ftruncate(fd, 0) == 0 && libc::ftruncate(fd, process::PAGE_BYTES as i64) == 0 };
    // SAFETY: a new map at an address of the system's choice touches nothing that exists.
    let base = unsafe {
        libc::mmap(
            null_mut(),
            process::PAGE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            fd,
            0,
        )
    };
    if !is_new || base == libc::MAP_FAILED || !reserve(fd, 0, process::PAGE_BYTES as u64) {
        give_up(b"cannot map the file that QUIPU_OUT names");
        return false;
    }
    PAGE.store(base.cast(), Ordering::Release);
    FD.store(fd, Ordering::Release);
    begin();
    register();
    true
}

/// Causes functions of ours to be called at the end of threads, and before and after a fork.
fn register() {
    if KEY.load(Ordering::Relaxed) == u32::MAX {
        let mut key = 0;
        // SAFETY: writes a number of ours; the function lives as long as the process, because such a library is never
        // unloaded.
        if unsafe { libc::pthread_key_create(&raw mut key, Some(buffer::end_thread)) } == 0 {
            KEY.store(key, Ordering::Relaxed);
        }
        // SAFETY: as above.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
        // SAFETY: as above. What was asked for first is called last.
        unsafe { __cxa_at_quick_exit(at_quick_exit, null_mut()) };
    }
}

/// Writes the beginning of a recording: metadata, and the page of the process, whose sync word is stored last.
fn begin() {
    let uuid = identify();
    let (low, _) = uuid.as_chunks::<8>();
    PRODUCER.store(low.first().map_or(0, |bytes| u64::from_le_bytes(*bytes)), Ordering::Relaxed);
    PID.store(own_pid(), Ordering::Relaxed);
    BEGAN.store(clock(libc::CLOCK_MONOTONIC), Ordering::Relaxed);
    for (counter, value) in [
        (&N_ROWS, 0),
        (&N_WRITERS, 0),
        (&N_RECORDS, 0),
        (&N_FRAMES, 0),
        (&N_META, META_VERSION.into()),
        (&END, process::PAGE_BYTES as u64),
    ] {
        counter.store(value, Ordering::SeqCst);
    }
    HAS_ENDED.store(false, Ordering::SeqCst);
    IS_ENDING.store(false, Ordering::SeqCst);
    let mut own = Writer::<256>::new();
    own.of_process(&Process {
        uuid,
        pid: own_pid(),
        start_ns: clock(libc::CLOCK_REALTIME),
        program: settings::program_name(),
    });
    let meta = Frame { kind: kind::META, encoding: encoding::CBOR, producer: producer(), ..Frame::default() };
    let of_process = Frame {
        flags: flag::SNAPSHOT_START,
        len: own.bytes().len() as u32, // At most 256.
        meta_version: N_OF_PROCESS,
        records: N_OF_PROCESS,
        payload_crc: checksum::of(own.bytes()),
        ..meta
    };
    let described = Frame {
        flags: flag::SNAPSHOT_END,
        len: DESCRIPTION.len() as u32, // A few thousand.
        meta_version: META_VERSION,
        records: N_DESCRIBED,
        seq: 1,
        payload_crc: DESCRIPTION_CRC,
        ..meta
    };
    put_meta(&of_process, own.bytes());
    put_meta(&described, &DESCRIPTION);
    let page = Frame::page(producer());
    put_on_page(SYNC.len(), &page.header()[SYNC.len()..]);
    put_on_page(process::PAGE_BYTES - TRAILER_BYTES, &page.trailer());
    put_on_page(head::SEQ, &process::SEQ.to_le_bytes());
    put_on_page(head::META_VERSION, &u64::from(META_VERSION).to_le_bytes());
    put_on_page(head::STATE, &OPEN_STATE.to_le_bytes());
    note(process::BEGAN);
    if BEGINS_PAUSED.load(Ordering::Relaxed) {
        put_on_page(process::CONTROL, &process::PAUSED.to_le_bytes());
    }
    put_on_page(0, &SYNC);
}

/// Writes a frame of metadata. If there is no room, it is left out: the limit of the file was noted before.
fn put_meta(frame: &Frame, payload: &[u8]) {
    const MAX_BYTES: usize = HEADER_BYTES + DESCRIPTION.len().next_multiple_of(8) + 256 + TRAILER_BYTES;
    let mut bytes = [0; MAX_BYTES];
    let bytes = frame.put(payload, &mut bytes);
    put_frame(bytes, 0);
}

/// 16 bytes that are unique to the recording: a random UUID, or, if no random numbers are available, process and time.
fn identify() -> [u8; 16] {
    let mut uuid = [0_u8; 16];
    // SAFETY: writes as many bytes as the buffer has.
    let n = unsafe { libc::getrandom(uuid.as_mut_ptr().cast(), uuid.len(), libc::GRND_NONBLOCK) };
    if n != uuid.len() as isize {
        uuid[..8].copy_from_slice(&clock(libc::CLOCK_REALTIME).to_le_bytes());
        uuid[8..]
            .copy_from_slice(&(own_pid() << 32 | clock(libc::CLOCK_MONOTONIC) & 0xffff_ffff).to_le_bytes());
    }
    // Version 4, variant 1.
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

/// Whether the program may have files of this length: writing beyond the limit would end it with a signal.
fn may_reach(end: u64) -> bool {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: writes one structure; a failure leaves it unchanged.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur == libc::RLIM_INFINITY || end <= limit.rlim_cur
}

/// Allocates these bytes on the disk, so that a store to them cannot fail later.
fn reserve(fd: c_int, offset: u64, n_bytes: u64) -> bool {
    if !may_reach(offset + n_bytes) {
        return false;
    }
    loop {
        // SAFETY: the file is open.
        if unsafe { libc::fallocate(fd, 0, offset as i64, n_bytes as i64) } == 0 {
            return true;
        }
        match errno() {
            libc::EINTR => {}
            libc::EOPNOTSUPP | libc::ENOSYS => break,
            _ => return false,
        }
    }
    let zeros = [0_u8; 4096];
    (offset..offset + n_bytes).step_by(zeros.len()).all(|offset| {
        let n_bytes = (zeros.len() as u64).min(n_bytes) as usize;
        // SAFETY: at most as many bytes as the buffer has.
        let n = unsafe { libc::pwrite(fd, zeros.as_ptr().cast(), n_bytes, offset as i64) };
        n == n_bytes as isize
    })
}

/// Claims room at the end of the file; `None` if the file may not grow that much.
fn claim(n_bytes: u64, align: u64) -> Option<u64> {
    let max_bytes = MAX_BYTES.load(Ordering::Relaxed);
    let mut now = END.load(Ordering::SeqCst);
    loop {
        let start = now.next_multiple_of(align);
        let next = start + n_bytes;
        if max_bytes != 0 && next > max_bytes {
            return None;
        }
        match END.compare_exchange(now, next, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => return Some(start),
            Err(other) => now = other,
        }
    }
}

/// Stops recording, because the file has its maximum size.
fn size_reached() {
    if STAGE.swap(OFF, Ordering::SeqCst) != OFF {
        note(process::SIZE_REACHED);
    }
}

/// Claims room for a buffer, allocated on the disk.
pub(crate) fn claim_room(n_bytes: u64, align: u64) -> Option<u64> {
    let Some(start) = claim(n_bytes, align) else {
        size_reached();
        return None;
    };
    if !reserve(FD.load(Ordering::Acquire), start, n_bytes) {
        disk_full();
        return None;
    }
    Some(start)
}

/// Whether the program has exited by itself: threads that still run leave their cells in open buffers, because nothing
/// follows the end of a stream.
pub(crate) fn has_ended() -> bool {
    HAS_ENDED.load(Ordering::SeqCst)
}

/// Writes a frame with `n_records` records after all others; false if that fails. Signals must be blocked.
pub(crate) fn put_frame(bytes: &[u8], n_records: u64) -> bool {
    N_WRITERS.fetch_add(1, Ordering::SeqCst);
    // The end waits for threads that count themselves before this, and comes after them.
    if has_ended() {
        N_WRITERS.fetch_sub(1, Ordering::SeqCst);
        return false;
    }
    let is_written = match claim(bytes.len() as u64, FRAME_ALIGN) {
        Some(offset) => write_frame(bytes, offset),
        None => {
            size_reached();
            false
        }
    };
    if is_written {
        N_FRAMES.fetch_add(1, Ordering::SeqCst);
        N_RECORDS.fetch_add(n_records, Ordering::SeqCst);
    }
    N_WRITERS.fetch_sub(1, Ordering::SeqCst);
    is_written
}

/// Writes a frame, with its sync word last and separately, as one aligned word: until then, readers of the file find zeros
/// there, while the system copies the rest and also if the process is killed meanwhile.
fn write_frame(bytes: &[u8], offset: u64) -> bool {
    let (sync, rest) = bytes.split_at(SYNC.len());
    write_at(rest, offset + SYNC.len() as u64) && write_at(sync, offset)
}

fn disk_full() {
    note(process::DISK_FULL);
    give_up(b"the disk is full");
}

/// Writes bytes into the file; false if that fails.
fn write_at(bytes: &[u8], offset: u64) -> bool {
    let fd = FD.load(Ordering::Acquire);
    if !may_reach(offset + bytes.len() as u64) {
        disk_full();
        return false;
    }
    let mut done = 0;
    while let Some(rest @ [_, ..]) = bytes.get(done..) {
        // SAFETY: as many bytes as there are.
        let n = unsafe { libc::pwrite(fd, rest.as_ptr().cast(), rest.len(), offset as i64 + done as i64) };
        match n {
            1.. => done += n as usize,
            _ if n < 0 && errno() == libc::EINTR => {}
            _ => {
                disk_full();
                return false;
            }
        }
    }
    true
}

/// Maps zeroed memory with these rights; not from the program's heap, whose functions may be its own. `None` on failure.
fn map(n_bytes: usize, rights: c_int) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new map at an address of the system's choice touches nothing that exists.
    let base = unsafe { libc::mmap(null_mut(), n_bytes, rights, flags, -1, 0) };
    (base != libc::MAP_FAILED).then_some(base.cast())
}

/// Maps zeroed memory for private use; `None` on failure.
pub(crate) fn map_memory(n_bytes: usize) -> Option<*mut u8> {
    map(n_bytes, libc::PROT_READ | libc::PROT_WRITE)
}

/// Unmaps memory.
///
/// # Safety
/// It was mapped here, in whole pages, and nothing uses it any more.
pub(crate) unsafe fn unmap(base: *mut u8, n_bytes: usize) {
    // SAFETY: by this function's contract.
    unsafe { libc::munmap(base.cast(), n_bytes) };
}

/// Maps a buffer at an address that is a multiple of `BUFFER_BYTES`: the file's part at this offset, or private memory.
pub(crate) fn map_buffer(offset: Option<u64>) -> Option<Buffer> {
    let Some(room) = map(2 * BUFFER_BYTES, libc::PROT_NONE) else {
        give_up(b"no memory for a thread");
        return None;
    };
    let (flags, fd) = match offset {
        Some(_) => (libc::MAP_SHARED, FD.load(Ordering::Acquire)),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    let before = room.align_offset(BUFFER_BYTES);
    let base = room.wrapping_add(before);
    // SAFETY: the `before` bytes, those of the buffer, and the rest were mapped above, as whole pages that nothing uses. The
    // part of the buffer that the file does not cover stays reserved: nothing accesses it, and nothing else is put there.
    let mapped = unsafe {
        if before > 0 {
            unmap(room, before);
        }
        unmap(base.add(BUFFER_BYTES), BUFFER_BYTES - before);
        libc::mmap(
            base.cast(),
            FRAME_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            flags | libc::MAP_FIXED,
            fd,
            offset.unwrap_or(0) as i64,
        )
    };
    if mapped == libc::MAP_FAILED {
        give_up(b"cannot map a buffer");
        return None;
    }
    // SAFETY: aligned to a page, and never unmapped; bytes of the file are allocated on the disk, and all accesses are atomic.
    Some(unsafe { Buffer::at(mapped.cast()) })
}

/// Causes [`buffer::end_thread`] to be called when this thread ends.
pub(crate) fn call_at_end_of_thread() {
    // SAFETY: the key was made when the file was opened, or is invalid, which is refused; the value only has to be non-null.
    unsafe {
        libc::pthread_setspecific(KEY.load(Ordering::Relaxed), core::ptr::from_ref(this()).cast());
    }
}

/// Records the fork and blocks signals: no handler may record in a child that still has its parent's buffer.
extern "C" fn before_fork() {
    put_sync(sync::FORK, 0, 0, [0, 0]);
    this().signals.set(set_signals(u64::MAX));
}

extern "C" fn after_fork() {
    set_signals(this().signals.get());
}

extern "C" fn in_child() {
    if STAGE.load(Ordering::SeqCst) != OFF {
        PARENT.store(pid(), Ordering::SeqCst);
        // The page of the parent, which stays mapped, does not control this process; it begins as its parent is.
        BEGINS_PAUSED.store(is_paused(), Ordering::Relaxed);
        PAGE.store(null_mut(), Ordering::SeqCst);
        // SAFETY: the file that the parent has open too; nothing here uses it any more.
        unsafe { libc::close(FD.swap(-1, Ordering::SeqCst)) };
        buffer::forget();
        forget_stamps();
        STAGE.store(if FOLLOWS.load(Ordering::Relaxed) { NEW } else { OFF }, Ordering::SeqCst);
    }
    set_signals(this().signals.get());
}

/// Notes that the program exited by itself, and ends the stream.
fn mark_end() {
    if STAGE.load(Ordering::SeqCst) != OPEN || pid() != own_pid() || IS_ENDING.swap(true, Ordering::SeqCst) {
        return;
    }
    note(process::EXITED);
    // A handler that recorded now might wait for the code that it interrupted.
    let quiet = Quiet::begin();
    if live::is_on() {
        HAS_ENDED.store(true, Ordering::SeqCst);
        live::close();
        return quiet.end();
    }
    // Buffers of other threads stay open: those threads still run.
    buffer::close();
    HAS_ENDED.store(true, Ordering::SeqCst);
    let mut n_rounds = 0;
    while N_WRITERS.load(Ordering::SeqCst) > 0 && n_rounds < MAX_WAITS {
        // SAFETY: no arguments.
        unsafe { libc::sched_yield() };
        n_rounds += 1;
    }
    // Even without an end with the number of frames, a reader finds the row above.
    if N_WRITERS.load(Ordering::SeqCst) == 0 {
        put_end();
    }
    quiet.end();
}

/// Maximum number of times that the end of a stream waits for threads that are writing frames.
const MAX_WAITS: u32 = 1000;

/// Writes the end of the stream with the numbers of frames and records, while no thread writes another frame.
fn put_end() {
    const MAX_BYTES: usize = 32;
    let mut end = Writer::<MAX_BYTES>::new();
    end.end(N_FRAMES.load(Ordering::SeqCst), N_RECORDS.load(Ordering::SeqCst));
    let payload = end.bytes();
    let frame = Frame {
        kind: kind::END,
        encoding: encoding::END,
        len: payload.len() as u32, // At most `MAX_BYTES`.
        producer: producer(),
        meta_version: N_META.load(Ordering::SeqCst) as u32,
        // After the page, which also has a sequence number of this stream.
        seq: process::SEQ + 1,
        times: [last_stamp(); 2],
        payload_crc: checksum::of(payload),
        ..Frame::default()
    };
    let mut bytes = [0; HEADER_BYTES + MAX_BYTES + TRAILER_BYTES];
    let bytes = frame.put(payload, &mut bytes);
    if let Some(offset) = claim(bytes.len() as u64, FRAME_ALIGN) {
        write_frame(bytes, offset);
    }
}

extern "C" fn at_start() {
    buffer::refill();
}

extern "C" fn at_exit() {
    mark_end();
}

/// Exit by `quick_exit`, which calls no destructors.
extern "C" fn at_quick_exit(_: *mut c_void) {
    mark_end();
}

// SAFETY: declared as in the ABI of C++, which the C library has for C's `at_quick_exit`, too.
unsafe extern "C" {
    fn __cxa_at_quick_exit(function: extern "C" fn(*mut c_void), library: *mut c_void) -> c_int;
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

/// Exit without destructors.
#[unsafe(no_mangle)]
extern "C" fn _exit(code: c_int) -> ! {
    mark_end();
    // SAFETY: ends the process; if the first call did not, the second instruction does.
    unsafe {
        libc::syscall(libc::SYS_exit_group, code);
        core::arch::asm!("ud2", options(noreturn, nostack));
    }
}

/// The same by its name in the C standard.
#[unsafe(no_mangle)]
extern "C" fn _Exit(code: c_int) -> ! {
    _exit(code)
}
