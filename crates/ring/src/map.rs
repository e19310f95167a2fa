//! Maps the memory that recorder and traced process share.
//!
//! Both sides are built from this file and `layout.rs`. [`VERSION`] changes with the layout, and a producer of another
//! version is refused.

use crate::heap::{Heap, MIN_HEAP_WORDS};
use crate::layout::{Head, NOTE_WORDS, OPEN, Shape, SlotHead};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use std::ffi::CStr;
use std::io;
use std::mem::offset_of;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::time::Duration;

/// The first eight bytes of the memory: `QUIPURNG`.
const MAGIC: u64 = u64::from_le_bytes(*b"QUIPURNG");
/// Version of the layout.
const VERSION: u32 = 4;
/// Bytes before the slot heads.
const HEAD_BYTES: usize = 4096;
/// Maximum number of slots.
const MAX_SLOTS: u32 = 1 << 16;
/// Minimum number of words of a ring: the longest group must fit in it several times.
const MIN_WORDS: u64 = 1 << 13;

impl Default for Shape {
    /// 512 threads with 2 MiB each. Unused parts take no memory.
    fn default() -> Shape {
        Shape { n_slots: 512, ring_words: 1 << 18, heap_words: 0 }
    }
}

impl Shape {
    fn is_valid(&self) -> bool {
        (1..=MAX_SLOTS).contains(&self.n_slots)
            && self.ring_words.is_power_of_two()
            && (MIN_WORDS..=1 << 30).contains(&self.ring_words)
            && (self.heap_words == 0
                || self.heap_words.is_power_of_two() && (MIN_HEAP_WORDS..=1 << 28).contains(&self.heap_words))
    }

    fn rings_at(&self) -> usize {
        (HEAD_BYTES + self.n_slots as usize * size_of::<SlotHead>()).next_multiple_of(HEAD_BYTES)
    }

    fn heap_at(&self) -> usize {
        self.rings_at() + self.n_slots as usize * self.ring_words as usize * 8
    }

    fn n_bytes(&self) -> usize {
        self.heap_at() + self.heap_words as usize * 8
    }
}

// The layout is described in docs/formats/prism.md.
const _: () = {
    assert!(size_of::<Head>() <= HEAD_BYTES && align_of::<SlotHead>() == 64);
    assert!(offset_of!(Head, heap_words) == 24 && offset_of!(Head, recorder) == 32);
    assert!(offset_of!(Head, recorder_start) == 40 && offset_of!(Head, note) == 48);
    assert!(offset_of!(Head, state) == 128 && offset_of!(Head, next_id) == 192);
    assert!(offset_of!(Head, n_refused) == 256 && offset_of!(Head, bell) == 320);
    assert!(offset_of!(Head, sleeps) == 384);
    assert!(size_of::<SlotHead>() == 384 && offset_of!(SlotHead, pid) == 64);
    assert!(offset_of!(SlotHead, start) == 72 && offset_of!(SlotHead, note) == 80);
    assert!(offset_of!(SlotHead, n_dropped) == 112 && offset_of!(SlotHead, tail) == 128);
    assert!(offset_of!(SlotHead, head) == 192 && offset_of!(SlotHead, writer_sleeps) == 320);
};

/// The mapped memory, for either side.
#[derive(Debug)]
pub struct Shared {
    base: NonNull<u8>,
    shape: Shape,
    /// The file, on the side that created it.
    file: Option<OwnedFd>,
}

// SAFETY: The map lives as long as the value, and its address may be used by any thread. Access is atomic, except for fields
// of `Head` that are written before others map the memory, and for published words of rings and the heap: these are copied,
// are valid with any bits, and are not trusted.
#[allow(unsafe_code)]
unsafe impl Send for Shared {}
// SAFETY: As above.
#[allow(unsafe_code)]
unsafe impl Sync for Shared {}

impl Shared {
    /// Creates the memory, for a recorder.
    ///
    /// # Errors
    /// Errors of the system; `InvalidInput` for an invalid shape.
    pub fn create(shape: Shape) -> io::Result<Shared> {
        // SAFETY: The name is a constant string; the descriptor is checked, and has no other owner.
        #[allow(unsafe_code)]
        let file = unsafe {
            let fd = libc::memfd_create(c"quipu".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        Shared::create_in(file, shape, [0; NOTE_WORDS])
    }

    /// Creates the memory in an empty file that is open for reading and writing, with a note to producers.
    ///
    /// # Errors
    /// Errors of the system; `InvalidInput` for an invalid shape.
    pub fn create_in(file: OwnedFd, shape: Shape, note: [u64; NOTE_WORDS]) -> io::Result<Shared> {
        if !shape.is_valid() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such shape of shared memory"));
        }
        // SAFETY: The descriptor is open; the length is at most 2^50.
        #[allow(unsafe_code)]
        if unsafe { libc::ftruncate(file.as_raw_fd(), shape.n_bytes() as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let base = map(&file, shape.n_bytes())?;
        let shared = Shared { base, shape, file: Some(file) };
        // If memory is short, this returns an error, instead of a signal later.
        shared.reserve(0..shape.rings_at())?;
        shared.reserve(shape.heap_at()..shape.n_bytes())?;
        let head = base.as_ptr().cast::<Head>();
        let recorder = std::process::id();
        // SAFETY: The map is large enough, new, and not known to anything else; zeros are a valid `Head`.
        #[allow(unsafe_code)]
        unsafe {
            (*head).magic = MAGIC;
            (*head).version = VERSION;
            (*head).n_slots = shape.n_slots;
            (*head).ring_words = shape.ring_words;
            (*head).heap_words = shape.heap_words;
            (*head).recorder = recorder;
            (*head).recorder_start = crate::life::started(recorder, recorder).unwrap_or(0);
            (*head).note = note;
            (*head).state.0.store(OPEN, Ordering::Release);
        }
        Ok(shared)
    }

    /// The path by which processes of the same user reach the memory while the recorder lives; `None` on the side that opened
    /// it.
    pub fn path(&self) -> Option<String> {
        let fd = self.file.as_ref()?.as_raw_fd();
        Some(format!("/proc/{}/fd/{fd}", std::process::id()))
    }

    /// Maps memory that a recorder created.
    ///
    /// # Errors
    /// Errors of the system; `InvalidData` if it is not such memory, or has another version.
    pub fn open(path: &CStr) -> io::Result<Shared> {
        // SAFETY: `path` is null-terminated; the descriptor is checked, and has no other owner.
        #[allow(unsafe_code)]
        let file = unsafe {
            let fd = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "no shared memory of this version");
        let mut begin = [0_u8; 32];
        // SAFETY: The buffer has as many bytes as requested.
        #[allow(unsafe_code)]
        let n = unsafe { libc::pread(file.as_raw_fd(), begin.as_mut_ptr().cast(), begin.len(), 0) };
        let word = |at: usize| {
            begin.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
        };
        let (magic, numbers, ring_words, heap_words) = (word(0), word(8), word(16), word(24));
        // Version and number of slots are the halves of one word.
        let (version, n_slots) = (numbers as u32, (numbers >> 32) as u32);
        let shape = Shape { n_slots, ring_words, heap_words };
        if n != 32 || magic != MAGIC || version != VERSION || !shape.is_valid() {
            return Err(wrong());
        }
        // SAFETY: `stat` consists of numbers, which may be zero, and is filled by the call.
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

    /// Returns the shape of the memory.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Tells producers to continue without recording.
    pub fn close(&self) {
        self.head().state.0.store(0, Ordering::Release);
    }

    /// True while the recorder listens.
    pub fn is_open(&self) -> bool {
        self.head().state.0.load(Ordering::Relaxed) == OPEN
    }

    /// True if the process that created the memory is alive.
    pub(crate) fn has_recorder(&self) -> bool {
        crate::life::is_alive(self.head().recorder, self.head().recorder_start)
    }

    /// Returns the note of the recorder to producers.
    pub fn note(&self) -> [u64; NOTE_WORDS] {
        self.head().note
    }

    /// The address range of the memory, for code that handles faults after another process has truncated its file.
    pub fn addresses(&self) -> Range<*const u8> {
        let base = self.base.as_ptr().cast_const();
        base..base.wrapping_add(self.shape.n_bytes())
    }

    /// The heap of names; `None` if there is none.
    pub fn heap(&self) -> Option<Heap<'_>> {
        if self.shape.heap_words == 0 {
            return None;
        }
        // SAFETY: The heap is inside the map, whose length fits this shape, is page-aligned, and consists of atomics, which
        // are valid with any bits.
        #[allow(unsafe_code)]
        let words = unsafe {
            let first = self.base.as_ptr().add(self.shape.heap_at()).cast::<AtomicU64>();
            std::slice::from_raw_parts(first, self.shape.heap_words as usize)
        };
        Heap::new(words)
    }

    /// Makes the system allocate the memory of a ring, so that writing to it later raises no signal if memory is short.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub(crate) fn reserve_ring(&self, index: u32) -> io::Result<()> {
        let ring_bytes = self.shape.ring_words as usize * 8;
        let at = self.shape.rings_at() + index as usize * ring_bytes;
        self.reserve(at..at + ring_bytes)
    }

    fn reserve(&self, bytes: Range<usize>) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: The range is inside the map, which is page-aligned; the call changes no bytes.
        #[allow(unsafe_code)]
        let answer = unsafe {
            let first = self.base.as_ptr().add(bytes.start).cast();
            libc::madvise(first, bytes.len(), libc::MADV_POPULATE_WRITE)
        };
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            _ if answer == 0 => Ok(()),
            // The call needs Linux 5.14.
            Some(libc::EINVAL) => Ok(()),
            // A write would raise SIGBUS.
            Some(libc::EFAULT) => Err(io::ErrorKind::StorageFull.into()),
            _ => Err(error),
        }
    }

    /// Sleeps until [`Shared::wake_recorder`] or a bell, but no longer than `most`. Does not sleep if `has_work` returns
    /// true; it is called after producers can see that the recorder is about to sleep.
    pub fn sleep(&self, most: Duration, has_work: impl FnOnce() -> bool) {
        let sleeps = &self.head().sleeps.0;
        sleeps.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if !has_work() {
            sleep_on(sleeps, 1, most);
        }
        sleeps.store(0, Ordering::Relaxed);
    }

    /// Wakes a recorder that reads all slots, if it sleeps, to read the words published before.
    #[inline]
    pub fn wake_recorder(&self) {
        fence(Ordering::SeqCst);
        let sleeps = &self.head().sleeps.0;
        if sleeps.load(Ordering::Relaxed) != 0 && sleeps.swap(0, Ordering::Relaxed) != 0 {
            wake(sleeps);
        }
    }

    /// Returns a number that no other caller gets, counting from 0.
    pub fn next_id(&self) -> u64 {
        self.head().next_id.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes [`Shared::next_id`] return only numbers from `n` on.
    pub fn keep_ids_below(&self, n: u64) {
        self.head().next_id.0.fetch_max(n, Ordering::Relaxed);
    }

    /// The number that [`Shared::next_id`] returns next.
    pub fn n_ids(&self) -> u64 {
        self.head().next_id.0.load(Ordering::Relaxed)
    }

    /// Number of threads that could not record because all slots were taken.
    pub fn n_refused(&self) -> u64 {
        self.head().n_refused.load(Ordering::Relaxed)
    }

    /// Sleeps until a slot is claimed or left, but no longer than `most`. `seen` is the value of [`Shared::bell`] before the
    /// slots were examined.
    pub fn wait_for_bell(&self, seen: u32, most: Duration) {
        sleep_on(&self.head().bell.0, seen, most);
    }

    /// A value that changes whenever a slot is claimed or left.
    pub fn bell(&self) -> u32 {
        self.head().bell.0.load(Ordering::Acquire)
    }

    /// Changes the bell and wakes the threads that wait for it.
    pub fn ring_bell(&self) {
        self.head().bell.0.fetch_add(1, Ordering::Release);
        wake(&self.head().bell.0);
        self.wake_recorder();
    }

    pub(crate) fn head(&self) -> &Head {
        // SAFETY: The map begins with a page-aligned `Head` and lives as long as `self`; fields that change are atomic.
        #[allow(unsafe_code)]
        unsafe {
            self.base.cast::<Head>().as_ref()
        }
    }

    /// The head of slot `index` and the first word of its ring; `None` if there is no such slot.
    pub(crate) fn slot(&self, index: u32) -> Option<(&SlotHead, &AtomicU64)> {
        if index >= self.shape.n_slots {
            return None;
        }
        let index = index as usize;
        let ring_at = self.shape.rings_at() + index * self.shape.ring_words as usize * 8;
        // SAFETY: Both are inside the map, whose length fits this shape, are aligned, and are atomics.
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
        // SAFETY: The map has this length and is owned by `self`; producers and consumers borrow from `self`, so none is
        // left.
        #[allow(unsafe_code)]
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.shape.n_bytes());
        }
    }
}

fn map(file: &OwnedFd, n_bytes: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: A new map at an address of the system's choice affects nothing that exists.
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

/// Sleeps while the word has this value, but no longer than `most`; may return early.
pub(crate) fn sleep_on(word: &AtomicU32, value: u32, most: Duration) {
    let most = libc::timespec {
        tv_sec: most.as_secs() as libc::time_t,
        tv_nsec: most.subsec_nanos() as libc::c_long,
    };
    // SAFETY: The word stays in shared memory during the call; the time is a local value.
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

/// Wakes all threads that sleep on the word, in any process.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: The word stays in shared memory during the call.
    #[allow(unsafe_code)]
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}
