//! The program as a child of the recorder: while it runs, signals that the recorder gets are the program's.

use quipu_model::{Error, ErrorKind, Result};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};

/// Signals that the recorder passes on to the program when it receives them.
const PASSED_ON: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// Whom signals are passed on to; 0 for no process.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// The running program.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
    /// What was done about signals before.
    before: Before,
}

/// What was done about signals; comes back when this is dropped.
#[derive(Debug)]
struct Before(Vec<(libc::c_int, libc::sigaction)>);

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
        let before = PASSED_ON.map(|signal| (signal, pass_on(signal)));
        Ok(Child { process: child, before: Before(before.into()) })
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// `Io` if the system does not know it.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        let status = self.process.wait();
        // Another may have its number soon; from here on a signal is the recorder's again.
        CHILD.store(0, Ordering::Relaxed);
        self.before.0.drain(..).for_each(|(signal, before)| put_back(signal, &before));
        status.map_err(|cause| Error::new(ErrorKind::Io, "cannot wait for the program").because(cause))
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|(signal, before)| put_back(signal, &before));
    }
}

fn put_back(signal: libc::c_int, before: &libc::sigaction) {
    // SAFETY: It is what the system gave.
    #[allow(unsafe_code)]
    unsafe {
        libc::sigaction(signal, before, std::ptr::null_mut());
    }
}

/// Passes a signal on from now on; returns what was done about it before.
fn pass_on(signal: libc::c_int) -> libc::sigaction {
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_signal;
    // SAFETY: The structure may be zero but for what is set; the handler has the signature that its flags say, and does
    // only what a handler may.
    #[allow(unsafe_code)]
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &action, &mut before);
        before
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
