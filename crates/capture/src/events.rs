//! Programs that send workload events themselves: they run with back ends that process the events as they arrive.

use crate::child::{Child, Prints};
use quipu_model::{Error, Given, Result};
use quipu_prism::delivery::receiver::Wish;
pub use quipu_prism::leave_standard_output;
pub use quipu_prism::live::Delivery;
use quipu_prism::live::{Done, Live};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, ExitStatus};

/// Example of a front end of Prism under `quipu run`, for the help text.
pub const EXAMPLE: &str = "  quipu run --backend stgen -o traces.dir --delivery prism -- \\
      valgrind --tool=sigrind --ipc-dir={} ./program
";

/// Placeholder for Prism's folder in the arguments of a front end.
const FOLDER: &str = "{}";

/// Source of events, and destination of the results.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The options of `run`.
    pub given: &'a Given,
    /// How events are delivered.
    pub delivery: &'a Delivery,
    /// The folder to write; if empty, tools print.
    pub output: &'a Path,
    /// Whether an existing folder of that name may be replaced.
    pub replace: bool,
    /// Whether standard output is reserved for results: the program's output goes to standard error.
    pub is_out_taken: bool,
}

impl Job<'_> {
    fn begin(&self) -> Result<Live> {
        Live::begin(self.given, self.delivery, self.output, self.replace)
    }
}

/// An argument with each `{}` replaced by the folder.
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

/// Runs a program and passes its events to back ends; also returns its exit status. For a front end of Prism, `{}` in the
/// arguments is replaced by the folder of delivery.
///
/// # Errors
/// Errors of back ends and the system; nothing is written in that case.
pub fn run(command: &[OsString], job: Job<'_>) -> Result<(Done, ExitStatus)> {
    let [program, arguments @ ..] = command else { return Err(Error::usage("no program is named")) };
    let live = job.begin()?;
    let mut command = Command::new(program);
    match live.environment() {
        Some(variable) => command.args(arguments).env(variable, live.path()),
        None => command.args(arguments.iter().map(|argument| filled(argument, live.path()))),
    };
    let prints = if job.is_out_taken { Prints::BesideTheAnswer } else { Prints::Here };
    let mut child = Child::start(command, prints)?;
    let mut status = None;
    let done = live.run(&mut |_| {
        if status.is_none() {
            status = child.ended();
        }
        // Children of the program may still send events.
        if status.is_some() { Wish::Drain } else { Wish::Wait }
    });
    let status = child.wait()?;
    Ok((done?, status))
}

/// Processes the events of front ends that are started separately, from the first that arrives until the last one ends or
/// this is cancelled. Calls `ready` with the environment variable of front ends and the path to set it to, or with Prism's
/// folder only.
///
/// # Errors
/// Errors of back ends and the system; nothing is written in that case.
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
