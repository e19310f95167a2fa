//! Reads small parts of guest memory that callbacks do not pass.

use std::sync::atomic::{AtomicU64, Ordering};

/// Offset from a guest address to the host address; all ones while unknown.
static BASE: AtomicU64 = AtomicU64::new(u64::MAX);

/// Derives the offset from the host address and the guest address of an instruction.
pub(crate) fn note(host: u64, guest: u64) {
    if host != 0 && BASE.load(Ordering::Relaxed) == u64::MAX {
        BASE.store(host.wrapping_sub(guest), Ordering::Relaxed);
    }
}

/// Offset from a guest address to the host address, once known.
pub(crate) fn base() -> Option<u64> {
    Some(BASE.load(Ordering::Relaxed)).filter(|base| *base != u64::MAX)
}

/// Reads a number of 4 or 8 bytes at a guest address; `None` if it is not mapped.
pub(crate) fn read(addr: u64, n_bytes: usize) -> Option<u64> {
    let mut bytes = [0_u8; 8];
    let wanted = bytes.get_mut(..n_bytes)?;
    (copy(addr, wanted)? == n_bytes).then(|| u64::from_le_bytes(bytes))
}

/// Reads a string shorter than `most` bytes, without its terminator.
pub(crate) fn string(addr: u64, most: usize) -> Option<Vec<u8>> {
    /// Copies do not cross page boundaries, since the next page may not be mapped.
    const PAGE_BYTES: u64 = 4096;
    let mut all = Vec::new();
    while all.len() < most {
        let at = addr.wrapping_add(all.len() as u64);
        let mut piece = [0; 256];
        let room = (PAGE_BYTES - at % PAGE_BYTES).min(piece.len() as u64) as usize;
        let n = copy(at, &mut piece[..room])?;
        let piece = piece.get(..n).filter(|piece| !piece.is_empty())?;
        match piece.iter().position(|byte| *byte == 0) {
            Some(end) => {
                all.extend_from_slice(&piece[..end]);
                return Some(all);
            }
            None => all.extend_from_slice(piece),
        }
    }
    None
}

/// Copies guest memory as far as it is mapped; returns the number of bytes.
fn copy(addr: u64, bytes: &mut [u8]) -> Option<usize> {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = base()?.wrapping_add(addr) as *mut libc::c_void;
    let remote = libc::iovec { iov_base: remote, iov_len: bytes.len() };
    // SAFETY: The system copies to a buffer of this length, and refuses if the source is not mapped.
    #[allow(unsafe_code)]
    let n = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    usize::try_from(n).ok()
}
