//! Detects that this process is a forked child: by a page that the system clears in children.

use crate::sync::{AtomicU32, Ordering};
use std::sync::atomic::AtomicPtr;

/// The first word of the page; null until it is needed.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
/// Replaces the page on systems that cannot clear pages (before Linux 4.14); process ids are compared there.
static NO_PAGE: AtomicU32 = AtomicU32::new(1);
/// The last generation number used. A child starts with that of its parent.
static LAST: AtomicU32 = AtomicU32::new(1);

/// Identifies the process that something belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Generation {
    word: &'static AtomicU32,
    number: u32,
    /// Process id.
    pub(super) pid: u32,
}

impl Generation {
    /// Returns the generation of the calling process.
    pub(super) fn now() -> Generation {
        let word = page();
        let mut number = word.load(Ordering::Relaxed);
        if number == 0 {
            number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            if let Err(other) = word.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
                number = other;
            }
        }
        Generation { word, number, pid: std::process::id() }
    }

    /// True if the calling process is a forked child of the one that this belongs to. Costs one load.
    #[inline(always)]
    pub(super) fn is_over(&self) -> bool {
        self.word.load(Ordering::Relaxed) != self.number
    }

    /// Does the same on systems without such a page, too; costs a system call.
    pub(super) fn is_over_surely(&self) -> bool {
        self.is_over() || std::process::id() != self.pid
    }
}

/// Returns the first word of the page, which is created once.
fn page() -> &'static AtomicU32 {
    let known = PAGE.load(Ordering::Acquire);
    // SAFETY: The pointer is null or points to a page that is never unmapped.
    #[allow(unsafe_code)]
    if let Some(word) = unsafe { known.as_ref() } {
        return word;
    }
    let Some(made) = make_page() else { return &NO_PAGE };
    match PAGE.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: The page was just created, contains zeros, and is never unmapped.
        #[allow(unsafe_code)]
        Ok(_) => unsafe { &*made },
        // Another thread was faster; the new page is leaked.
        // SAFETY: As above.
        #[allow(unsafe_code)]
        Err(other) => unsafe { &*other },
    }
}

fn make_page() -> Option<*mut AtomicU32> {
    const PAGE_BYTES: usize = 4096;
    // SAFETY: A new map at an address of the system's choice affects nothing that exists; the advice applies to that map.
    #[allow(unsafe_code)]
    unsafe {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let page = libc::mmap(std::ptr::null_mut(), PAGE_BYTES, rights, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return None;
        }
        if libc::madvise(page, PAGE_BYTES, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, PAGE_BYTES);
            return None;
        }
        Some(page.cast())
    }
}
