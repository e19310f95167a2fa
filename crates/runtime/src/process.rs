//! The process: its file, its start, what happens when it forks and when it exits.
//!
//! The file is opened once, at the start or with the first record, whatever comes first. From then on nothing has to be
//! done for what is recorded to be found: not at exit, not by a process that is killed or replaces itself.

use crate::buffer::{self, Extent, set_signals};
use crate::thread::{forget_stamps, put_sync, text_at, this};
use core::ffi::{CStr, c_int};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use quipu_capfile::cell::sync;
use quipu_capfile::layout::{
    BUFFER_BYTES, EXTENT_ALIGN, HEADER_BYTES, MAGIC, VERSION, header as offset_of, state,
};

/// Longest path of a file.
const PATH_BYTES: usize = 4096;
/// What a file is called by default: the program and its process.
const DEFAULT_PATTERN: &[u8] = b"%n.%p.qcap";

const NEW: u32 = 0;
const OPENING: u32 = 1;
const OPEN: u32 = 2;
const OFF: u32 = 3;

static STAGE: AtomicU32 = AtomicU32::new(NEW);
static FD: AtomicI32 = AtomicI32::new(-1);
/// What stands for the file's header as long as no file is open.
static NO_HEADER: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];
static HEADER: AtomicPtr<AtomicU64> = AtomicPtr::new((&raw const NO_HEADER).cast_mut().cast());
/// Called at the end of threads.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);
/// The process that this one was forked from, if that was traced.
static PARENT: AtomicU64 = AtomicU64::new(0);
/// Whether forked processes are traced.
static FOLLOWS: AtomicBool = AtomicBool::new(true);
static MAX_BYTES: AtomicU64 = AtomicU64::new(0);

/// What the environment asked for, kept because programs change their environment and folder.
static mut PATTERN: [u8; PATH_BYTES] = [0; PATH_BYTES];
static PATTERN_BYTES: AtomicUsize = AtomicUsize::new(0);

/// True if nothing is recorded any more.
pub(crate) fn is_off() -> bool {
    STAGE.load(Ordering::Relaxed) == OFF
}

/// An 8-byte field of the file's header; one that is not seen when no file was ever open.
pub(crate) fn header(offset: usize) -> &'static AtomicU64 {
    // SAFETY: one of the 16 words above, or one of the first of the file's header, which is mapped from the time the file is open
    // until the process ends. All access them by atomics.
    unsafe { &*HEADER.load(Ordering::Acquire).add(offset / 8 % NO_HEADER.len()) }
}

/// The monotonic clock in ns.
pub(crate) fn ticks() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills in the structure.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Says on standard error why no more is recorded, and records no more.
pub(crate) fn give_up(why: &[u8]) {
    if STAGE.swap(OFF, Ordering::SeqCst) == OFF {
        return;
    }
    for text in [b"quipu: ", why, b"; nothing more is recorded\n"] {
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
                // SAFETY: no arguments. Another thread opens, which waits for no other.
                unsafe { libc::sched_yield() };
            }
            Err(_) => return false,
        }
    }
}

/// Opens the file; by one thread alone.
fn open() -> bool {
    if PATTERN_BYTES.load(Ordering::Relaxed) == 0 && !read_environment() {
        return false;
    }
    let mut path = [0; PATH_BYTES];
    for attempt in 1..=99 {
        if !expand(attempt, &mut path) {
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
        if is_ours(fd) {
            return take(fd);
        }
        // SAFETY: it was opened above, and nothing else has it.
        unsafe { libc::close(fd) };
    }
    give_up(b"the file that QUIPU_OUT names is in use");
    false
}

/// What the environment asks for; false if that is nothing.
fn read_environment() -> bool {
    let pattern = variable(c"QUIPU_OUT").unwrap_or(DEFAULT_PATTERN);
    if pattern.is_empty() || pattern == b"off" {
        return false;
    }
    FOLLOWS.store(variable(c"QUIPU_FOLLOW_FORK") != Some(b"0"), Ordering::Relaxed);
    let number = variable(c"QUIPU_MAX_BYTES").unwrap_or(b"0");
    let number = core::str::from_utf8(number).ok().and_then(|text| text.parse().ok());
    MAX_BYTES.store(number.unwrap_or(0), Ordering::Relaxed);
    let bytes = &raw mut PATTERN;
    // SAFETY: the thread that opens the file is alone here, and readers come after it.
    let bytes = unsafe { &mut *bytes };
    let mut kept = Path { bytes, n_bytes: 0 };
    let mut folder = [0_u8; PATH_BYTES];
    // SAFETY: a buffer of as many bytes.
    let has_folder =
        pattern[0] != b'/' && unsafe { !libc::getcwd(folder.as_mut_ptr().cast(), PATH_BYTES).is_null() };
    if has_folder && let Ok(folder) = CStr::from_bytes_until_nul(&folder) {
        for &byte in folder.to_bytes() {
            // The folder's own name is no pattern.
            kept.text(if byte == b'%' { b"%%" } else { core::slice::from_ref(&byte) });
        }
        kept.text(b"/");
    }
    kept.text(pattern);
    if kept.n_bytes > PATH_BYTES {
        give_up(b"the path in QUIPU_OUT is too long");
        return false;
    }
    PATTERN_BYTES.store(kept.n_bytes, Ordering::Relaxed);
    true
}

/// A variable of the environment; to be used at once, before the program changes it.
fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: both are C strings. The program could take the second away only while the file is being opened, which is before its
    // first instruction but for what its own constructors do on other threads.
    unsafe { text_at(libc::getenv(name.as_ptr())) }
}

/// The path that the pattern gives, with the process where the pattern does not have it and the plain name is taken.
fn expand(attempt: u64, path: &mut [u8; PATH_BYTES]) -> bool {
    let pattern = &raw const PATTERN;
    // SAFETY: the thread that opens the file is alone here, and wrote it before.
    let pattern = unsafe { &*pattern };
    let pattern = &pattern[..PATTERN_BYTES.load(Ordering::Relaxed)];
    let pid = own_pid();
    // SAFETY: the C library's own string.
    let name = unsafe { text_at(program_invocation_short_name) }.unwrap_or_default();
    let mut out = Path { bytes: path, n_bytes: 0 };
    let mut has_pid = false;
    let mut pattern = pattern.iter();
    while let Some(&byte) = pattern.next() {
        match (byte, pattern.as_slice().first()) {
            (b'%', Some(b'p')) => {
                out.number(pid);
                has_pid = true;
            }
            (b'%', Some(b'n')) => out.text(name),
            (b'%', Some(b'%')) => out.text(b"%"),
            _ => {
                out.text(&[byte]);
                continue;
            }
        }
        pattern.next();
    }
    let mut attempt = attempt;
    if !has_pid {
        if PARENT.load(Ordering::Relaxed) != 0 {
            attempt += 1;
        }
        if attempt > 1 {
            out.text(b".");
            out.number(pid);
            attempt -= 1;
        }
    }
    if attempt > 1 {
        out.text(b".");
        out.number(attempt);
    }
    out.text(&[0]);
    out.n_bytes <= PATH_BYTES
}

// SAFETY: declared as in C.
unsafe extern "C" {
    static program_invocation_short_name: *const core::ffi::c_char;
}

/// Text that is put together.
struct Path<'a> {
    bytes: &'a mut [u8; PATH_BYTES],
    n_bytes: usize,
}

impl Path<'_> {
    fn text(&mut self, text: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.n_bytes..self.n_bytes + text.len()) {
            room.copy_from_slice(text);
        }
        self.n_bytes += text.len();
    }

    fn number(&mut self, number: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut rest = number;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.text(&digits[at..]);
    }
}

/// True if no other process writes the file, and this process did not either before it replaced itself.
fn is_ours(fd: c_int) -> bool {
    // SAFETY: a question about a file that is open.
    let is_locked = unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) } == 0;
    if !is_locked && errno() == libc::EWOULDBLOCK {
        return false;
    }
    let mut words = [0_u64; 5];
    // SAFETY: the buffer has as many bytes.
    let n = unsafe { libc::pread(fd, words.as_mut_ptr().cast(), size_of_val(&words), 0) };
    if n != size_of_val(&words) as isize || words[0] != MAGIC {
        return true;
    }
    words[offset_of::PID / 8] != own_pid() || words[offset_of::STATE / 8] & state::EXITED != 0
}

fn own_pid() -> u64 {
    // SAFETY: a question without arguments.
    unsafe { libc::getpid() as u64 }
}

fn errno() -> c_int {
    // SAFETY: `errno` of this thread.
    unsafe { *libc::__errno_location() }
}

/// Begins the file.
fn take(fd: c_int) -> bool {
    // Far from the numbers that programs give to files that they think are theirs.
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
    let is_new = unsafe { libc::ftruncate(fd, 0) == 0 && libc::ftruncate(fd, HEADER_BYTES as i64) == 0 };
    // SAFETY: a new map at a place of the system's choice touches nothing that exists.
    let base = unsafe {
        libc::mmap(
            null_mut(),
            HEADER_BYTES as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            fd,
            0,
        )
    };
    if !is_new || base == libc::MAP_FAILED || !reserve(fd, 0, HEADER_BYTES) {
        give_up(b"cannot map the file that QUIPU_OUT names");
        return false;
    }
    HEADER.store(base.cast(), Ordering::Release);
    FD.store(fd, Ordering::Release);
    for (offset, value) in [
        (offset_of::VERSION, VERSION),
        (offset_of::END, HEADER_BYTES),
        (offset_of::PID, own_pid()),
        (offset_of::START_NS, clock(libc::CLOCK_REALTIME)),
        (offset_of::START_TICKS, ticks()),
        (offset_of::PARENT, PARENT.load(Ordering::Relaxed)),
        (offset_of::MAX_BYTES, MAX_BYTES.load(Ordering::Relaxed)),
        (offset_of::MAGIC, MAGIC),
    ] {
        header(offset).store(value, Ordering::SeqCst);
    }
    if KEY.load(Ordering::Relaxed) == u32::MAX {
        let mut key = 0;
        // SAFETY: writes a number of ours; the function lives as long as the process, for a library like this is never unloaded.
        if unsafe { libc::pthread_key_create(&raw mut key, Some(buffer::end_thread)) } == 0 {
            KEY.store(key, Ordering::Relaxed);
        }
        // SAFETY: as above.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    }
    true
}

/// Makes sure that the disk has these bytes, so that a store to them cannot fail later.
fn reserve(fd: c_int, offset: u64, n_bytes: u64) -> bool {
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
        // SAFETY: as many bytes as the buffer has, or fewer.
        let n = unsafe { libc::pwrite(fd, zeros.as_ptr().cast(), n_bytes, offset as i64) };
        n == n_bytes as isize
    })
}

/// Room at the end of the file; `None` if it may not grow that much.
fn claim(n_bytes: u64, align: u64) -> Option<u64> {
    let max_bytes = MAX_BYTES.load(Ordering::Relaxed);
    let end = header(offset_of::END);
    let mut now = end.load(Ordering::SeqCst);
    loop {
        let start = now.next_multiple_of(align);
        let next = (start + n_bytes).next_multiple_of(EXTENT_ALIGN);
        if max_bytes != 0 && next > max_bytes {
            header(offset_of::STATE).fetch_or(state::LIMIT, Ordering::SeqCst);
            STAGE.store(OFF, Ordering::SeqCst);
            return None;
        }
        match end.compare_exchange(now, next, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => return Some(start),
            Err(other) => now = other,
        }
    }
}

/// Room for a buffer, which the disk has.
pub(crate) fn claim_extent(n_bytes: u64, align: u64) -> Option<u64> {
    let start = claim(n_bytes, align)?;
    if !reserve(FD.load(Ordering::Acquire), start, n_bytes) {
        disk_full();
        return None;
    }
    Some(start)
}

/// Room for a chunk.
pub(crate) fn claim_chunk(n_bytes: u64) -> Option<u64> {
    claim(n_bytes, EXTENT_ALIGN)
}

fn disk_full() {
    header(offset_of::STATE).fetch_or(state::DISK_FULL, Ordering::SeqCst);
    give_up(b"the disk is full");
}

/// Writes bytes into the file; false if that cannot be done.
pub(crate) fn write_at(bytes: &[u8], offset: u64) -> bool {
    let fd = FD.load(Ordering::Acquire);
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

/// Memory of zeros, with these rights; not of the program's heap, whose functions may be its own. `None` if there is none.
fn map(n_bytes: usize, rights: c_int) -> Option<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new map at a place of the system's choice touches nothing that exists.
    let base = unsafe { libc::mmap(null_mut(), n_bytes, rights, flags, -1, 0) };
    (base != libc::MAP_FAILED).then_some(base.cast())
}

/// Memory of zeros for us alone; `None` if there is none.
pub(crate) fn map_memory(n_bytes: usize) -> Option<*mut u8> {
    map(n_bytes, libc::PROT_READ | libc::PROT_WRITE)
}

/// Gives memory back.
///
/// # Safety
/// It was mapped here, whole pages of it, and nothing uses it any more.
pub(crate) unsafe fn unmap(base: *mut u8, n_bytes: usize) {
    // SAFETY: as the caller says.
    unsafe { libc::munmap(base.cast(), n_bytes) };
}

/// Maps a buffer of the file at an address that is a multiple of its size.
pub(crate) fn map_buffer(offset: u64) -> Option<Extent> {
    let Some(room) = map(2 * BUFFER_BYTES, libc::PROT_NONE) else {
        give_up(b"no memory for a thread");
        return None;
    };
    let before = room.align_offset(BUFFER_BYTES);
    let base = room.wrapping_add(before);
    // SAFETY: `before` bytes, those of the buffer, and the rest are what was mapped above, whole pages that nothing uses.
    let mapped = unsafe {
        if before > 0 {
            unmap(room, before);
        }
        unmap(base.add(BUFFER_BYTES), BUFFER_BYTES - before);
        libc::mmap(
            base.cast(),
            BUFFER_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED,
            FD.load(Ordering::Acquire),
            offset as i64,
        )
    };
    if mapped == libc::MAP_FAILED {
        give_up(b"cannot map a part of the file that QUIPU_OUT names");
        return None;
    }
    // SAFETY: aligned to a page, and never unmapped; the disk has these bytes of the file, and what accesses them uses atomics.
    Some(unsafe { Extent::at(mapped.cast()) })
}

/// Has [`buffer::end_thread`] called when this thread ends.
pub(crate) fn call_at_end_of_thread() {
    // SAFETY: the key was made when the file was opened, or is none, which is refused; the value is only looked at for being
    // there.
    unsafe {
        libc::pthread_setspecific(KEY.load(Ordering::Relaxed), HEADER.load(Ordering::Relaxed).cast());
    }
}

/// No handler may record in a child that has not yet let go of its parent's buffer.
extern "C" fn before_fork() {
    put_sync(sync::FORK, 0, 0, [0, 0]);
    this().signals.set(set_signals(u64::MAX));
}

extern "C" fn after_fork() {
    set_signals(this().signals.get());
}

extern "C" fn in_child() {
    if STAGE.load(Ordering::SeqCst) != OFF {
        PARENT.store(header(offset_of::PID).load(Ordering::Relaxed), Ordering::SeqCst);
        // SAFETY: the file that the parent has open, too; nothing here uses it any more.
        unsafe { libc::close(FD.swap(-1, Ordering::SeqCst)) };
        buffer::forget();
        forget_stamps();
        STAGE.store(if FOLLOWS.load(Ordering::Relaxed) { NEW } else { OFF }, Ordering::SeqCst);
    }
    set_signals(this().signals.get());
}

/// Marks that the program ended of its own will.
fn mark_end() {
    if STAGE.load(Ordering::SeqCst) != OPEN || header(offset_of::PID).load(Ordering::Relaxed) != own_pid() {
        return;
    }
    header(offset_of::END_TICKS).store(ticks(), Ordering::SeqCst);
    header(offset_of::STATE).fetch_or(state::EXITED, Ordering::SeqCst);
}

extern "C" fn at_start() {
    buffer::refill();
}

extern "C" fn at_exit() {
    mark_end();
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

/// The end that calls no destructors.
#[unsafe(no_mangle)]
extern "C" fn _exit(code: c_int) -> ! {
    mark_end();
    // SAFETY: ends the process; if that did not happen, the other does.
    unsafe {
        libc::syscall(libc::SYS_exit_group, code);
        core::arch::asm!("ud2", options(noreturn, nostack));
    }
}

/// The same by its name in C.
#[unsafe(no_mangle)]
extern "C" fn _Exit(code: c_int) -> ! {
    _exit(code)
}
