//! Handles signals that ask this process to end, so that it can clean up before it does.
//!
//! Signals that the process ignored at its start stay ignored: SIGHUP under `nohup`, SIGINT of a background job.

use std::io::{self, Read};
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicI32, Ordering};

/// Signals that ask a process to end.
const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Descriptor to which the handler writes the number of the signal; -1 before it is set.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// Runs `work` in its own thread for each signal that asks the process to end, with the number of the signal, until the
/// process ends with [`end_by`]. Exceeding the limit on file sizes makes writes fail instead of ending the process. Call
/// this once.
///
/// # Errors
/// If the system has no descriptors or threads left.
pub fn on_ending(work: impl Fn(i32) + Send + 'static) -> io::Result<()> {
    let (mut reader, writer) = io::pipe()?;
    PIPE.store(writer.into_raw_fd(), Ordering::Release);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut signal = [0];
        while reader.read_exact(&mut signal).is_ok() {
            work(signal[0].into());
        }
    })?;
    // Exceeding the limit on file sizes makes the write fail instead of ending the process. Started programs get the default
    // action of this signal, because handlers do not survive `exec`.
    let ignored = [(libc::SIGXFSZ, ignore as extern "C" fn(libc::c_int))];
    for (signal, handler) in
        ENDING.map(|signal| (signal, on_signal as extern "C" fn(libc::c_int))).into_iter().chain(ignored)
    {
        // SAFETY: All other fields of the structures may be zero; the handler has the signature that its flags require, and
        // calls only async-signal-safe functions.
        #[allow(unsafe_code)]
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut before);
            if before.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
    Ok(())
}

/// Ends the process with this signal, so that its parent sees which signal ended it.
pub fn end_by(signal: i32) -> ! {
    // SAFETY: The structure may be zero; all other arguments are plain numbers.
    #[allow(unsafe_code)]
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &action, std::ptr::null_mut());
        libc::kill(libc::getpid(), signal);
    }
    // Reached only if the signal is blocked.
    std::process::exit(128 + signal)
}

/// Does nothing, so that the call that caused the signal fails with its error.
extern "C" fn ignore(_: libc::c_int) {}

extern "C" fn on_signal(signal: libc::c_int) {
    let byte = signal as u8; // Signals are small numbers.
    // SAFETY: `write` is async-signal-safe, and the byte lives on the handler's stack. `errno` is restored, because the
    // interrupted thread may be about to read it.
    #[allow(unsafe_code)]
    unsafe {
        let errno = errno_place();
        let before = *errno;
        libc::write(PIPE.load(Ordering::Acquire), (&raw const byte).cast(), 1);
        *errno = before;
    }
}

/// Address of this thread's `errno`.
#[allow(unsafe_code)]
unsafe fn errno_place() -> *mut libc::c_int {
    // SAFETY: The function only returns an address.
    unsafe {
        #[cfg(target_os = "linux")]
        return libc::__errno_location();
        #[cfg(not(target_os = "linux"))]
        return libc::__error();
    }
}
