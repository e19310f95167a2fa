//! Maps the memory that recorder and traced process share.
//!
//! Both sides are built from this file and `layout.rs`; [`VERSION`] changes when the layout does, and a producer of another
//! version is refused.

use crate::layout::{Head, OPEN, Shape, SlotHead};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::time::Duration;

/// The first eight bytes: `QUIPURNG`.
const MAGIC: u64 = u64::from_le_bytes(*b"QUIPURNG");
/// Version of the layout.
const VERSION: u32 = 2;
/// Bytes before the heads of slots.
const HEAD_BYTES: usize = 4096;
/// More slots than this make no sense.
const MAX_SLOTS: u32 = 1 << 16;
/// Fewest words of a ring: the longest group must fit in several times.
const MIN_WORDS: u64 = 1 << 13;

impl Default for Shape {
    /// 512 threads with 2 MiB each. What is not used takes no memory.
    fn default() -> Shape {
        Shape { n_slots: 512, ring_words: 1 << 18 }
    }
}

impl Shape {
    fn is_valid(&self) -> bool {
        (1..=MAX_SLOTS).contains(&self.n_slots)
            && self.ring_words.is_power_of_two()
            && (MIN_WORDS..=1 << 30).contains(&self.ring_words)
    }

    fn rings_at(&self) -> usize {
        (HEAD_BYTES + self.n_slots as usize * size_of::<SlotHead>()).next_multiple_of(HEAD_BYTES)
    }

    fn n_bytes(&self) -> usize {
        self.rings_at() + self.n_slots as usize * self.ring_words as usize * 8
    }
}

const _: () = assert!(size_of::<Head>() <= HEAD_BYTES && align_of::<SlotHead>() == 64);

/// The mapped memory, of either side.
#[derive(Debug)]
pub struct Shared {
    base: NonNull<u8>,
    shape: Shape,
    /// The file, on the side that made it.
    file: Option<OwnedFd>,
}

// SAFETY: All access to the memory goes through atomics, but for the fields of `Head` that are written before anybody
// else maps it.
#[allow(unsafe_code)]
unsafe impl Send for Shared {}
// SAFETY: As above.
#[allow(unsafe_code)]
unsafe impl Sync for Shared {}

impl Shared {
    /// Makes the memory, for a recorder.
    ///
    /// # Errors
    /// What the system says; `InvalidInput` for a shape that cannot be.
    pub fn create(shape: Shape) -> io::Result<Shared> {
        if !shape.is_valid() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such shape of shared memory"));
        }
        // SAFETY: The name is a constant string; the descriptor is checked and owned by nobody else.
        #[allow(unsafe_code)]
        let file = unsafe {
            let fd = libc::memfd_create(c"quipu".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: The descriptor is open; the length is at most 2^50.
        #[allow(unsafe_code)]
        if unsafe { libc::ftruncate(file.as_raw_fd(), shape.n_bytes() as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let base = map(&file, shape.n_bytes())?;
        let head = base.as_ptr().cast::<Head>();
        // SAFETY: The map is large enough, new, and known to nobody else; all of `Head` is valid as zeros.
        #[allow(unsafe_code)]
        unsafe {
            (*head).magic = MAGIC;
            (*head).version = VERSION;
            (*head).n_slots = shape.n_slots;
            (*head).ring_words = shape.ring_words;
            (*head).recorder = std::process::id();
            (*head).state.0.store(OPEN, Ordering::Release);
        }
        Ok(Shared { base, shape, file: Some(file) })
    }

    /// The path by which traced processes of the same user reach the memory as long as the recorder lives; on the side
    /// that made it.
    pub fn path(&self) -> Option<String> {
        let fd = self.file.as_ref()?.as_raw_fd();
        Some(format!("/proc/{}/fd/{fd}", std::process::id()))
    }

    /// Maps memory that a recorder made.
    ///
    /// # Errors
    /// What the system says; `InvalidData` for something else, or that of another version.
    pub fn open(path: &CStr) -> io::Result<Shared> {
        // SAFETY: `path` is a string with its end; the descriptor is checked and owned by nobody else.
        #[allow(unsafe_code)]
        let file = unsafe {
            let fd = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "no shared memory of this version");
        let mut begin = [0_u8; 24];
        // SAFETY: The buffer has as many bytes as are asked for.
        #[allow(unsafe_code)]
        let n = unsafe { libc::pread(file.as_raw_fd(), begin.as_mut_ptr().cast(), begin.len(), 0) };
        let word = |at: usize| {
            begin.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
        };
        let (magic, numbers, ring_words) = (word(0), word(8), word(16));
        // Version and slots are the halves of one word.
        let (version, n_slots) = (numbers as u32, (numbers >> 32) as u32);
        let shape = Shape { n_slots, ring_words };
        if n != 24 || magic != MAGIC || version != VERSION || !shape.is_valid() {
            return Err(wrong());
        }
        // SAFETY: `stat` is plain numbers, which may be zero, and is filled by the call.
        #[allow(unsafe_code)]
        let n_bytes = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            if libc::fstat(file.as_raw_fd(), &mut stat) == 0 { stat.st_size } else { 0 }
        };
        if usize::try_from(n_bytes).unwrap_or(0) < shape.n_bytes() {
            return Err(wrong());
        }
        Ok(Shared { base: map(&file, shape.n_bytes())?, shape, file: None })
    }

    /// How large it is.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Tells producers to go on without recording.
    pub fn close(&self) {
        self.head().state.0.store(0, Ordering::Release);
    }

    /// True as long as the recorder wants words.
    pub fn is_open(&self) -> bool {
        self.head().state.0.load(Ordering::Relaxed) == OPEN
    }

    /// True if the process that made the memory is there.
    pub(crate) fn has_recorder(&self) -> bool {
        let recorder = self.head().recorder as libc::pid_t;
        // SAFETY: Signal 0 is none: it only asks.
        #[allow(unsafe_code)]
        let answer = unsafe { libc::kill(recorder, 0) };
        answer == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
    }

    /// A number that nobody else was given, from 0 on.
    pub fn next_id(&self) -> u64 {
        self.head().next_id.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Threads that could not record because all slots were taken.
    pub fn n_refused(&self) -> u64 {
        self.head().n_refused.load(Ordering::Relaxed)
    }

    /// Sleeps until a slot is claimed or left, but no longer than `most`; `seen` is what [`Shared::bell`] gave before the
    /// slots were looked at.
    pub fn wait_for_bell(&self, seen: u32, most: Duration) {
        sleep_on(&self.head().bell.0, seen, most);
    }

    /// Changes whenever a slot is claimed or left.
    pub fn bell(&self) -> u32 {
        self.head().bell.0.load(Ordering::Acquire)
    }

    /// Wakes the waiter for the bell.
    pub fn ring_bell(&self) {
        self.head().bell.0.fetch_add(1, Ordering::Release);
        wake(&self.head().bell.0);
    }

    pub(crate) fn head(&self) -> &Head {
        // SAFETY: The map begins with a `Head`, aligned to a page, and lives as long as `self`; what changes is atomic.
        #[allow(unsafe_code)]
        unsafe {
            self.base.cast::<Head>().as_ref()
        }
    }

    /// The head of slot `index` and the first word of its ring; `None` past the last.
    pub(crate) fn slot(&self, index: u32) -> Option<(&SlotHead, &AtomicU64)> {
        if index >= self.shape.n_slots {
            return None;
        }
        let index = index as usize;
        let ring_at = self.shape.rings_at() + index * self.shape.ring_words as usize * 8;
        // SAFETY: Both lie inside the map, whose length was made or checked for this shape, are aligned, and are atomics.
        #[allow(unsafe_code)]
        unsafe {
            let head = self.base.as_ptr().add(HEAD_BYTES + index * size_of::<SlotHead>()).cast::<SlotHead>();
            let ring = self.base.as_ptr().add(ring_at).cast::<AtomicU64>();
            Some((&*head, &*ring))
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: The map is ours and of this length; sides borrow from `self`, so none is left.
        #[allow(unsafe_code)]
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.shape.n_bytes());
        }
    }
}

fn map(file: &OwnedFd, n_bytes: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: A new map at a place of the system's choice touches nothing that exists.
    #[allow(unsafe_code)]
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            n_bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            file.as_raw_fd(),
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(base.cast()).ok_or_else(|| io::Error::other("memory mapped at address zero"))
}

/// Sleeps as long as the word has this value, but no longer than `most`; may come back early.
pub(crate) fn sleep_on(word: &AtomicU32, value: u32, most: Duration) {
    let most = libc::timespec {
        tv_sec: most.as_secs() as libc::time_t,
        tv_nsec: most.subsec_nanos() as libc::c_long,
    };
    // SAFETY: The word lives in shared memory for the whole call; the time is a value of ours.
    #[allow(unsafe_code)]
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            &most as *const libc::timespec,
        );
    }
}

/// Wakes all that sleep on the word, in any process.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: The word lives in shared memory for the whole call.
    #[allow(unsafe_code)]
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}
