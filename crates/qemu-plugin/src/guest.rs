//! A little of the guest's memory, for what callbacks do not give.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is added to a guest's address to get the emulator's own; all ones as long as nobody knows.
static BASE: AtomicU64 = AtomicU64::new(u64::MAX);

/// Notes where an instruction lies for the emulator and for the guest.
pub(crate) fn note(host: u64, guest: u64) {
    if host != 0 && BASE.load(Ordering::Relaxed) == u64::MAX {
        BASE.store(host.wrapping_sub(guest), Ordering::Relaxed);
    }
}

/// Reads a number of 4 or 8 bytes, if there is one at this address of the guest.
pub(crate) fn read(addr: u64, n_bytes: usize) -> Option<u64> {
    let base = BASE.load(Ordering::Relaxed);
    let mut bytes = [0_u8; 8];
    let n_bytes = n_bytes.min(8);
    if base == u64::MAX {
        return None;
    }
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: n_bytes };
    let remote = libc::iovec { iov_base: base.wrapping_add(addr) as *mut libc::c_void, iov_len: n_bytes };
    // SAFETY: The system copies into our buffer of this length, and refuses where there is nothing to copy from.
    #[allow(unsafe_code)]
    let n = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    (n == n_bytes as isize).then(|| u64::from_le_bytes(bytes))
}
