//! The program as a child of the recorder: signals that the recorder gets are the program's.

use quipu_model::{Error, ErrorKind, Result};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};

/// Signals that are passed on when somebody sends them to the recorder.
const PASSED_ON: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// Whom signals are passed on to; 0 for nobody.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// The running program.
#[derive(Debug)]
pub(crate) struct Child(std::process::Child);

impl Child {
    /// Starts a command with the recorder's own streams. From then on signals are passed on to it.
    ///
    /// # Errors
    /// `Io` if it cannot be started.
    pub(crate) fn start(mut command: Command) -> Result<Child> {
        let child = command.spawn().map_err(|cause| {
            Error::new(ErrorKind::Io, format!("cannot start `{}`", command.get_program().to_string_lossy()))
                .because(cause)
        })?;
        CHILD.store(child.id().cast_signed(), Ordering::Relaxed);
        for signal in PASSED_ON {
            pass_on(signal);
        }
        Ok(Child(child))
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// `Io` if the system does not know it.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        let status = self.0.wait();
        CHILD.store(0, Ordering::Relaxed);
        status.map_err(|cause| Error::new(ErrorKind::Io, "cannot wait for the program").because(cause))
    }
}

fn pass_on(signal: libc::c_int) {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_signal;
    // SAFETY: The structure may be zero but for what is set; the handler has the signature that its flags say, and does
    // only what a handler may.
    #[allow(unsafe_code)]
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(signal, &action, std::ptr::null_mut());
    }
}

extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let child = CHILD.load(Ordering::Relaxed);
    // SAFETY: The system gives a valid description; sending a signal is allowed in a handler.
    #[allow(unsafe_code)]
    unsafe {
        // What a terminal sends, it sends to the program as well.
        if child > 0 && (*info).si_code <= 0 {
            libc::kill(child, signal);
        }
    }
}
