//! Workload events of programs, for back ends that process them as they arrive, and for files.
//!
//! Programs send their events themselves, or front ends observe them.

use crate::child::{Child, Prints};
use crate::limits::Limits;
use crate::record::{FrontEnd, Observation, Way};
use crate::tsan::runtime::{is_instrumented, load_for_libraries};
use quipu_model::trace::Fact;
use quipu_model::{Error, Given, Result};
pub use quipu_prism::Detail as Level;
use quipu_prism::delivery::receiver::Wish;
pub use quipu_prism::leave_standard_output;
use quipu_prism::live::Live;
pub use quipu_prism::live::{Delivery, Done};
use quipu_prism::observed::Destination;
pub use quipu_prism::observed::level;
use quipu_ring::prism::DROP;
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
    /// Where the program's standard output goes.
    pub prints: Prints,
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

/// Options for observing a program.
#[derive(Clone, Copy, Debug)]
pub struct How<'a> {
    /// The part of the execution to observe.
    pub limits: &'a Limits,
    /// Whether children created by `fork` are observed, too.
    pub follows_forks: bool,
    /// Whether events are lost, and counted, where back ends are slower than the program.
    pub drops: bool,
    /// Where the program's standard output goes.
    pub prints: Prints,
}

/// Runs a program under a front end and passes its events on; also returns its exit status. `None` if the front end makes
/// events of its recordings only.
///
/// # Errors
/// `Usage` if the program cannot send events, or the front end lacks an option; `Missing` if the front end cannot be used
/// here; errors of the destination and the system.
pub fn observe(
    front_end: &FrontEnd,
    command: &[OsString],
    how: How<'_>,
    to: Destination<'_>,
) -> Result<Option<(Done, ExitStatus)>> {
    let How { limits, follows_forks, drops, prints } = how;
    match (front_end.events.way, to) {
        (Way::Observed(observe), _) => {
            observe(&Observation { command, limits, follows_forks, drops, prints, to }).map(Some)
        }
        (Way::Sent, _) if !is_instrumented(command) => {
            Err(Error::usage(format!("the program does not send events for `--with {}`", front_end.name))
                .hint("compile it with `quipu cc` or `quipu c++`, or use --with qemu"))
        }
        (Way::Sent, Destination::Backends { given, output, replace }) => {
            let job = Job { given, delivery: &Delivery::Quipu, output, replace, prints };
            let words = command;
            let (mut done, status) = run_prepared(words, job, |command| {
                // A program that writes a recording sends nothing.
                command.env_remove("QUIPU_OUT");
                load_for_libraries(words, command);
                command.env("QUIPU_FOLLOW_FORK", if follows_forks { "1" } else { "0" });
                command.env(DROP, if drops { "1" } else { "0" });
            })?;
            let what = "the program sent no events; compile it with this version of `quipu cc`";
            refuse_nothing(&mut done, what);
            Ok(Some((done, status)))
        }
        (Way::Sent | Way::Stored, Destination::File { .. }) => {
            Err(Error::unsupported(format!("`--events`: not with {}", front_end.name))
                .hint("record it without `--events`, and convert the recording into a file of events"))
        }
        (Way::Stored, Destination::Backends { .. }) => Ok(None),
    }
}

/// Runs a program and passes its events to back ends; also returns its exit status. For a front end of Prism, `{}` in the
/// arguments is replaced by the folder of delivery.
///
/// # Errors
/// Errors of back ends and the system; nothing is written in that case.
pub fn run(command: &[OsString], job: Job<'_>) -> Result<(Done, ExitStatus)> {
    let is_own = *job.delivery == Delivery::Quipu;
    let (mut done, status) = run_prepared(command, job, |_| {})?;
    if is_own {
        let what = "the program sent no events; observe it with `--with qemu`, or compile it with `quipu cc`";
        refuse_nothing(&mut done, what);
    }
    Ok((done, status))
}

/// Adds a loss if no front end has sent anything.
fn refuse_nothing(done: &mut Done, what: &str) {
    let is_none = |fact: &Fact| fact.key == "front_ends" && fact.value.as_u64() == Some(0);
    if done.losses.is_empty() && done.facts.iter().any(is_none) {
        done.losses.push(what.to_owned());
    }
}

/// The same, after `prepare` has changed the program's environment.
fn run_prepared(
    command: &[OsString],
    job: Job<'_>,
    prepare: impl FnOnce(&mut Command),
) -> Result<(Done, ExitStatus)> {
    let [program, arguments @ ..] = command else { return Err(Error::usage("no program is named")) };
    let live = job.begin()?;
    let mut command = Command::new(program);
    match live.environment() {
        Some(variable) => command.args(arguments).env(variable, live.path()),
        None => command.args(arguments.iter().map(|argument| filled(argument, live.path()))),
    };
    prepare(&mut command);
    let mut child = Child::start(command, job.prints)?;
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
