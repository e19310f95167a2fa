//! FIFOs: created for the user alone, and polled without a thread.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// Creates a FIFO that only the user can open.
///
/// # Errors
/// Errors of the system.
pub fn make(path: &Path) -> io::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `path` is a null-terminated string.
    #[allow(unsafe_code)]
    let answer = unsafe { libc::mkfifo(path.as_ptr(), 0o600) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Result of waiting for a FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// There are bytes to read.
    Bytes,
    /// All writers have closed it, and all bytes were read.
    Closed,
    /// Neither yet.
    No,
}

/// Waits until one of these FIFOs has bytes or was closed, but no longer than `most`, and writes the state of each to
/// `ready`. A FIFO that no writer has opened yet counts as [`Ready::No`].
///
/// # Errors
/// Errors of the system.
pub fn wait(fifos: &[BorrowedFd<'_>], most: Duration, ready: &mut Vec<Ready>) -> io::Result<()> {
    let mut polled: Vec<libc::pollfd> = fifos
        .iter()
        .map(|fifo| libc::pollfd { fd: fifo.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let most = libc::c_int::try_from(most.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: The pointer and the length are those of the vector, whose elements the call fills.
    #[allow(unsafe_code)]
    let answer = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, most) };
    if answer < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    ready.clear();
    ready.extend(polled.iter().map(|fifo| match fifo.revents {
        bits if bits & libc::POLLIN != 0 => Ready::Bytes,
        bits if bits & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 => Ready::Closed,
        _ => Ready::No,
    }));
    Ok(())
}

/// The flag for opening a FIFO without waiting for its other end.
pub const NON_BLOCKING: i32 = libc::O_NONBLOCK;
