//! Programs that send workload events themselves: they run with back ends that take the events as they come.

use crate::child::Child;
use quipu_model::{Error, ErrorKind, Given, Result};
use quipu_prism::delivery::receiver::Wish;
pub use quipu_prism::leave_standard_output;
pub use quipu_prism::live::Delivery;
use quipu_prism::live::{Done, Live};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// A front end of Prism under `quipu run`, for its help.
pub const EXAMPLE: &str = "  quipu run --backend stgen -o traces.dir --delivery prism -- \\
      valgrind --tool=sigrind --ipc-dir={} ./program
";

/// What stands for Prism's folder in the arguments of a front end.
const FOLDER: &str = "{}";

/// Where events come from, and where what is made of them goes.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The options of `run`.
    pub given: &'a Given,
    /// How events are delivered.
    pub delivery: &'a Delivery,
    /// The folder that is written; without a name, tools print.
    pub output: &'a Path,
    /// Whether a folder of that name may be replaced.
    pub replace: bool,
    /// Whether standard output is for the answer alone: what the program prints goes to standard error.
    pub is_out_taken: bool,
}

impl Job<'_> {
    fn begin(&self) -> Result<Live> {
        Live::begin(self.given, self.delivery, self.output, self.replace)
    }
}

/// An argument with the folder where `{}` stands.
fn filled(argument: &OsStr, folder: &Path) -> OsString {
    let (bytes, wanted) = (argument.as_bytes(), FOLDER.as_bytes());
    let (mut filled, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        if bytes[at..].starts_with(wanted) {
            filled.extend_from_slice(folder.as_os_str().as_bytes());
            at += wanted.len();
        } else {
            filled.push(bytes[at]);
            at += 1;
        }
    }
    OsString::from_vec(filled)
}

/// Runs a program whose events go through back ends; says how it ended. Of a front end of Prism, `{}` in the arguments is the
/// folder of delivery.
///
/// # Errors
/// What back ends and the system say; then nothing is written.
pub fn run(command: &[OsString], job: Job<'_>) -> Result<(Done, ExitStatus)> {
    let [program, arguments @ ..] = command else { return Err(Error::usage("no program is named")) };
    let live = job.begin()?;
    let mut command = Command::new(program);
    match live.environment() {
        Some(variable) => command.args(arguments).env(variable, live.path()),
        None => command.args(arguments.iter().map(|argument| filled(argument, live.path()))),
    };
    if job.is_out_taken {
        let error = io::stderr().as_fd().try_clone_to_owned();
        let error = error.map_err(|cause| {
            Error::new(ErrorKind::Io, format!("standard error cannot be shared: {cause}"))
        })?;
        command.stdout(Stdio::from(error));
    }
    let mut child = Child::start(command)?;
    let mut status = None;
    let done = live.run(&mut |_| {
        if status.is_none() {
            status = child.ended();
        }
        // Its children may still send events.
        if status.is_some() { Wish::Drain } else { Wish::Wait }
    });
    let status = child.wait()?;
    Ok((done?, status))
}

/// Takes the events of front ends that others run, from the first that comes to the end of the last, or until that is
/// cancelled. `ready` gets the environment variable of front ends and the path that it has to name, or Prism's folder alone.
///
/// # Errors
/// What back ends and the system say; then nothing is written.
pub fn listen(
    job: Job<'_>,
    ready: impl FnOnce(Option<&str>, &Path),
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Done> {
    let live = job.begin()?;
    ready(live.environment(), live.path());
    live.run(&mut |seen| match (is_cancelled(), seen.n_producers) {
        (true, _) => Wish::End,
        (false, 0) => Wish::Wait,
        (false, _) => Wish::Drain,
    })
}
