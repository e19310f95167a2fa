//! Programs that send workload events themselves: they run with back ends that take the events as they come.

use crate::child::Child;
use quipu_model::{Error, Given, Result};
use quipu_prism::delivery::producer::ENVIRONMENT;
use quipu_prism::delivery::receiver::Wish;
use quipu_prism::live::{Done, Live};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitStatus};

/// Runs a program whose events go through back ends; says how it ended.
///
/// # Errors
/// What back ends and the system say; then nothing is written.
pub fn run(command: &[OsString], given: &Given, output: &Path, replace: bool) -> Result<(Done, ExitStatus)> {
    let [program, arguments @ ..] = command else { return Err(Error::usage("no program is named")) };
    let live = Live::begin(given, output, replace)?;
    let mut command = Command::new(program);
    command.args(arguments).env(ENVIRONMENT, live.path());
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
/// cancelled. `ready` gets the path that the environment variable `QUIPU_PRISM` of front ends has to name.
///
/// # Errors
/// What back ends and the system say; then nothing is written.
pub fn listen(
    given: &Given,
    output: &Path,
    replace: bool,
    ready: impl FnOnce(&Path),
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Done> {
    let live = Live::begin(given, output, replace)?;
    ready(live.path());
    live.run(&mut |seen| match (is_cancelled(), seen.n_producers) {
        (true, _) => Wish::End,
        (false, 0) => Wish::Wait,
        (false, _) => Wish::Drain,
    })
}
