//! Signals that ask this process to end, so that it can clean up before it does.
//!
//! What a shell was told to ignore stays ignored: SIGHUP under `nohup`, SIGINT of a job in the background.

use std::io::{self, Read};
use std::os::fd::IntoRawFd;
use std::sync::atomic::{AtomicI32, Ordering};

/// What asks a process to end.
const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Where the handler writes the number of the signal; -1 before that is known.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// Runs `work` in a thread of its own for each signal that asks the process to end, with the number of the signal, until
/// [`end_by`] ends it. A limit on the size of files makes writing fail instead of ending the process. To be called once.
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
    // What is written beyond a limit on the size of files is an error of that write, not the end. Programs that are started find
    // the signal as it usually is, since a handler does not outlive that.
    let ignored = [(libc::SIGXFSZ, ignore as extern "C" fn(libc::c_int))];
    for (signal, handler) in
        ENDING.map(|signal| (signal, on_signal as extern "C" fn(libc::c_int))).into_iter().chain(ignored)
    {
        // SAFETY: The structures may be zero but for what is set; the handler has the signature that its flags say, and
        // does only what a handler may.
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

/// Ends the process by this signal, so that its parent sees what ended it.
pub fn end_by(signal: i32) -> ! {
    // SAFETY: The structure may be zero; both calls are made with numbers alone.
    #[allow(unsafe_code)]
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &action, std::ptr::null_mut());
        libc::kill(libc::getpid(), signal);
    }
    // Only a blocked signal does not end the process at once.
    std::process::exit(128 + signal)
}

/// Does nothing, so that the call that caused the signal fails with its error.
extern "C" fn ignore(_: libc::c_int) {}

extern "C" fn on_signal(signal: libc::c_int) {
    let byte = signal as u8; // Signals are small numbers.
    // SAFETY: Writing to a descriptor is allowed in a handler; the byte lives on its stack. `errno` is put back, since the
    // thread may be about to read it.
    #[allow(unsafe_code)]
    unsafe {
        let errno = errno_place();
        let before = *errno;
        libc::write(PIPE.load(Ordering::Acquire), (&raw const byte).cast(), 1);
        *errno = before;
    }
}

/// Where this thread's `errno` is.
#[allow(unsafe_code)]
unsafe fn errno_place() -> *mut libc::c_int {
    // SAFETY: It only answers.
    unsafe {
        #[cfg(target_os = "linux")]
        return libc::__errno_location();
        #[cfg(not(target_os = "linux"))]
        return libc::__error();
    }
}
