//! The recorded program as a child process. While it runs, the recorder forwards its own signals to it.

use quipu_model::{Error, ErrorKind, Result};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Signals that the recorder forwards to the program.
const PASSED_ON: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// Process id of the program that gets signals; 0 for none.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// The signal that is not forwarded, but turns recording on and off; 0 for none.
static KEPT: AtomicI32 = AtomicI32::new(0);
/// How often it arrived.
static N_KEPT: AtomicU64 = AtomicU64::new(0);

/// Keeps a signal from programs that are started from now on.
pub(crate) fn keep(signal: Option<libc::c_int>) {
    KEPT.store(signal.unwrap_or(0), Ordering::Relaxed);
}

/// Number of such signals so far.
pub(crate) fn n_kept() -> u64 {
    N_KEPT.load(Ordering::Relaxed)
}

/// Where the standard output of a recorded program goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prints {
    /// To the standard output of this process.
    #[default]
    Here,
    /// To the standard error of this process, whose standard output is for the answer.
    BesideTheAnswer,
}

/// The running program.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
    /// Signal dispositions before the program was started.
    before: Before,
}

/// Saved signal dispositions, which are restored on drop.
#[derive(Debug)]
struct Before(Vec<(libc::c_int, libc::sigaction)>);

impl Child {
    /// Starts a command with the recorder's own streams, except as `prints` says, and forwards signals to it from then on.
    ///
    /// # Errors
    /// `Io` if it cannot be started.
    pub(crate) fn start(mut command: Command, prints: Prints) -> Result<Child> {
        if prints == Prints::BesideTheAnswer {
            command.stdout(std::io::stderr());
        }
        let child = command.spawn().map_err(|cause| {
            Error::new(ErrorKind::Io, format!("cannot start `{}`", command.get_program().to_string_lossy()))
                .because(cause)
        })?;
        CHILD.store(child.id().cast_signed(), Ordering::Relaxed);
        let before = PASSED_ON.map(|signal| (signal, pass_on(signal)));
        Ok(Child { process: child, before: Before(before.into()) })
    }

    /// Process id of the program.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Exit status of the program, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Waits for the program to end.
    ///
    /// # Errors
    /// `Io` if the system reports no such child.
    pub(crate) fn wait(&mut self) -> Result<ExitStatus> {
        let status = self.process.wait();
        // The process id may be reused soon, so the recorder handles signals itself again from here on.
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
    // SAFETY: `before` is a disposition that the system returned.
    #[allow(unsafe_code)]
    unsafe {
        libc::sigaction(signal, before, std::ptr::null_mut());
    }
}

/// Forwards a signal from now on, or counts it; returns its disposition before.
fn pass_on(signal: libc::c_int) -> libc::sigaction {
    let is_kept = signal == KEPT.load(Ordering::Relaxed);
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
        if is_kept { on_kept } else { on_signal };
    // SAFETY: All other fields of the structure may be zero; the handler has the signature that the flags require, and calls
    // only async-signal-safe functions.
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

/// Counts a signal: one instruction, which is async-signal-safe.
extern "C" fn on_kept(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    N_KEPT.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let child = CHILD.load(Ordering::Relaxed);
    // SAFETY: The system passes a valid `siginfo_t`; `kill` is async-signal-safe.
    #[allow(unsafe_code)]
    unsafe {
        // Signals from a terminal go to its whole process group, so the program gets them anyway.
        if child > 0 && (*info).si_code <= 0 {
            libc::kill(child, signal);
        }
    }
}
