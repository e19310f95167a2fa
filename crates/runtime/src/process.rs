//! The process: its file, its start, what happens when it forks and when it exits.
//!
//! The file is opened once, at the start or with the first record, whatever comes first. From then on nothing has to be
//! done for what is recorded to be found: not at exit, not by a process that is killed or replaces itself.

use crate::buffer::{self, field, set_signals};
use crate::thread::{Thread, forget_stamps, put_sync, this};
use core::ffi::{CStr, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use quipu_capfile::cell::sync;
use quipu_capfile::layout::{
    BUFFER_BYTES, EXTENT_ALIGN, HEADER_BYTES, MAGIC, VERSION, header as offset_of, state,
};

/// Longest path of a file.
const PATH_BYTES: usize = 4096;
/// What a file is called if nobody says so: the program and its process.
const DEFAULT_PATTERN: &[u8] = b"%n.%p.qcap";

const NEW: u32 = 0;
const OPENING: u32 = 1;
const OPEN: u32 = 2;
const OFF: u32 = 3;

static STAGE: AtomicU32 = AtomicU32::new(NEW);
static FD: AtomicI32 = AtomicI32::new(-1);
static HEADER: AtomicPtr<u8> = AtomicPtr::new(null_mut());
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

/// An 8-byte field of the file's header; only when the file is open.
pub(crate) fn header(offset: usize) -> &'static AtomicU64 {
    // SAFETY: mapped from the time the file is open until the process ends.
    unsafe { field(HEADER.load(Ordering::Acquire), offset) }
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
pub(crate) fn is_open(_: &Thread) -> bool {
    loop {
        match STAGE.compare_exchange(NEW, OPENING, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => {
                // SAFETY: this thread alone opens.
                let is_open = unsafe { open() };
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
                // SAFETY: no arguments. Another thread opens, which waits for nobody.
                unsafe { libc::sched_yield() };
            }
            Err(_) => return false,
        }
    }
}

unsafe fn open() -> bool {
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
        let fd = libc::open(path.as_ptr().cast(), flags, 0o666);
        if fd < 0 {
            give_up(b"cannot make the file that QUIPU_OUT names");
            return false;
        }
        if is_ours(fd) {
            return take(fd);
        }
        libc::close(fd);
    }
    give_up(b"the file that QUIPU_OUT names is in use");
    false
}

/// What the environment asks for; false if that is nothing.
unsafe fn read_environment() -> bool {
    let pattern = variable(c"QUIPU_OUT").unwrap_or(DEFAULT_PATTERN);
    if pattern.is_empty() || pattern == b"off" {
        return false;
    }
    FOLLOWS.store(variable(c"QUIPU_FOLLOW_FORK") != Some(b"0"), Ordering::Relaxed);
    let number = variable(c"QUIPU_MAX_BYTES").unwrap_or(b"0");
    let number = core::str::from_utf8(number).ok().and_then(|text| text.parse().ok());
    MAX_BYTES.store(number.unwrap_or(0), Ordering::Relaxed);
    // The thread that opens the file is alone here.
    let bytes = &raw mut PATTERN;
    let mut kept = Path { bytes: &mut *bytes, n_bytes: 0 };
    let mut folder = [0_u8; PATH_BYTES];
    if pattern[0] != b'/' && !libc::getcwd(folder.as_mut_ptr().cast(), PATH_BYTES).is_null() {
        for &byte in CStr::from_ptr(folder.as_ptr().cast()).to_bytes() {
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

unsafe fn variable(name: &CStr) -> Option<&'static [u8]> {
    let value = libc::getenv(name.as_ptr());
    if value.is_null() { None } else { Some(CStr::from_ptr(value).to_bytes()) }
}

/// The path that the pattern gives, with the process where the pattern does not have it and the plain name is taken.
unsafe fn expand(attempt: u64, path: &mut [u8; PATH_BYTES]) -> bool {
    let kept = &raw const PATTERN;
    let pattern = &(&*kept)[..PATTERN_BYTES.load(Ordering::Relaxed)];
    let pid = libc::getpid() as u64;
    let name = CStr::from_ptr(program_invocation_short_name).to_bytes();
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

/// True if nobody else writes the file, and this process did not either before it replaced itself.
unsafe fn is_ours(fd: c_int) -> bool {
    if libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) != 0 && *libc::__errno_location() == libc::EWOULDBLOCK {
        return false;
    }
    let mut words = [0_u64; 5];
    if libc::pread(fd, words.as_mut_ptr().cast(), 40, 0) != 40 || words[0] != MAGIC {
        return true;
    }
    words[offset_of::PID / 8] != libc::getpid() as u64 || words[offset_of::STATE / 8] & state::EXITED != 0
}

/// Begins the file.
unsafe fn take(fd: c_int) -> bool {
    // Far from the numbers that programs give to files that they think are theirs.
    let high = libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 512);
    let fd = if high >= 0 {
        libc::close(fd);
        high
    } else {
        fd
    };
    let mapped = libc::ftruncate(fd, 0) == 0 && libc::ftruncate(fd, HEADER_BYTES as i64) == 0;
    let base = libc::mmap(
        null_mut(),
        HEADER_BYTES as usize,
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED,
        fd,
        0,
    );
    if !mapped || base == libc::MAP_FAILED || !reserve(fd, 0, HEADER_BYTES) {
        give_up(b"cannot map the file that QUIPU_OUT names");
        return false;
    }
    HEADER.store(base.cast(), Ordering::Release);
    FD.store(fd, Ordering::Release);
    for (offset, value) in [
        (offset_of::VERSION, VERSION),
        (offset_of::END, HEADER_BYTES),
        (offset_of::PID, libc::getpid() as u64),
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
        if libc::pthread_key_create(&raw mut key, Some(buffer::end_thread)) == 0 {
            KEY.store(key, Ordering::Relaxed);
        }
        libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child));
    }
    true
}

/// Makes sure that the disk has these bytes, so that a store to them cannot fail later.
unsafe fn reserve(fd: c_int, offset: u64, n_bytes: u64) -> bool {
    loop {
        if libc::fallocate(fd, 0, offset as i64, n_bytes as i64) == 0 {
            return true;
        }
        match *libc::__errno_location() {
            libc::EINTR => {}
            libc::EOPNOTSUPP | libc::ENOSYS => break,
            _ => return false,
        }
    }
    let zeros = [0_u8; 4096];
    (offset..offset + n_bytes).step_by(zeros.len()).all(|offset| {
        let n_bytes = (zeros.len() as u64).min(n_bytes) as usize;
        libc::pwrite(fd, zeros.as_ptr().cast(), n_bytes, offset as i64) == n_bytes as isize
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
    // SAFETY: the file is open.
    if unsafe { !reserve(FD.load(Ordering::Acquire), start, n_bytes) } {
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
pub(crate) unsafe fn write_at(bytes: *const u8, n_bytes: usize, offset: u64) -> bool {
    let fd = FD.load(Ordering::Acquire);
    let mut done = 0;
    while done < n_bytes {
        let n = libc::pwrite(fd, bytes.add(done).cast(), n_bytes - done, offset as i64 + done as i64);
        match n {
            1.. => done += n as usize,
            _ if n < 0 && *libc::__errno_location() == libc::EINTR => {}
            _ => {
                disk_full();
                return false;
            }
        }
    }
    true
}

/// Maps a buffer of the file at an address that is a multiple of its size.
pub(crate) unsafe fn map_buffer(offset: u64) -> Option<*mut u8> {
    let room = libc::mmap(
        null_mut(),
        2 * BUFFER_BYTES,
        libc::PROT_NONE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        -1,
        0,
    );
    if room == libc::MAP_FAILED {
        give_up(b"no memory for a thread");
        return None;
    }
    let base = (room as usize).next_multiple_of(BUFFER_BYTES);
    let before = base - room as usize;
    if before > 0 {
        libc::munmap(room, before);
    }
    libc::munmap((base + BUFFER_BYTES) as *mut c_void, BUFFER_BYTES - before);
    let mapped = libc::mmap(
        base as *mut c_void,
        BUFFER_BYTES,
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_FIXED,
        FD.load(Ordering::Acquire),
        offset as i64,
    );
    if mapped == libc::MAP_FAILED {
        give_up(b"cannot map a part of the file that QUIPU_OUT names");
        return None;
    }
    Some(mapped.cast())
}

/// Has [`buffer::end_thread`] called when this thread ends.
pub(crate) unsafe fn call_at_end_of_thread(_: &Thread) {
    libc::pthread_setspecific(KEY.load(Ordering::Relaxed), HEADER.load(Ordering::Relaxed).cast());
}

/// No handler may record in a child that has not yet let go of its parent's buffer.
unsafe extern "C" fn before_fork() {
    put_sync(sync::FORK, 0, 0, [0, 0]);
    let before = set_signals(u64::MAX);
    (*this()).signals = before;
}

unsafe extern "C" fn after_fork() {
    set_signals((*this()).signals);
}

unsafe extern "C" fn in_child() {
    if STAGE.load(Ordering::SeqCst) != OFF {
        PARENT.store(header(offset_of::PID).load(Ordering::Relaxed), Ordering::SeqCst);
        libc::close(FD.swap(-1, Ordering::SeqCst));
        buffer::forget();
        forget_stamps();
        STAGE.store(if FOLLOWS.load(Ordering::Relaxed) { NEW } else { OFF }, Ordering::SeqCst);
    }
    set_signals((*this()).signals);
}

/// Marks that the program ended of its own will.
unsafe fn mark_end() {
    if STAGE.load(Ordering::SeqCst) != OPEN
        || header(offset_of::PID).load(Ordering::Relaxed) != libc::getpid() as u64
    {
        return;
    }
    header(offset_of::END_TICKS).store(ticks(), Ordering::SeqCst);
    header(offset_of::STATE).fetch_or(state::EXITED, Ordering::SeqCst);
}

unsafe extern "C" fn at_start() {
    buffer::refill();
}

unsafe extern "C" fn at_exit() {
    mark_end();
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: unsafe extern "C" fn() = at_start;

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: unsafe extern "C" fn() = at_exit;

/// The end that calls no destructors.
#[unsafe(no_mangle)]
unsafe extern "C" fn _exit(code: c_int) -> ! {
    mark_end();
    libc::syscall(libc::SYS_exit_group, code);
    core::arch::asm!("ud2", options(noreturn, nostack));
}

/// The same by its name in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn _Exit(code: c_int) -> ! {
    _exit(code)
}
