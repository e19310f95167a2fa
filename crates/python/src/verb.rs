//! Verbs of the command line in this process, and the command line itself.

use crate::fault::raised;
use crate::watch::watched;
use pyo3::prelude::*;
use quipu::engine::Watch;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;
use std::sync::Arc;

/// Arguments as `OsString`s, after the name of the program.
fn arguments(args: Vec<Vec<u8>>) -> Vec<OsString> {
    std::iter::once(OsString::from("quipu")).chain(args.into_iter().map(OsString::from_vec)).collect()
}

/// Runs the command line with the standard streams of this process and its signals, and gives the exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, args: Vec<Vec<u8>>) -> u8 {
    let code = py.detach(|| quipu_cli::run(arguments(args)));
    // `ExitCode` has no accessor, but can be compared.
    (0..=u8::MAX).find(|known| ExitCode::from(*known) == code).unwrap_or(2)
}

/// Runs a verb; gives the exit code, standard output and standard error.
///
/// An error is an exception, but that of a damaged trace where the verb has an answer to it.
#[pyfunction]
#[pyo3(signature = (args, progress = None))]
pub(crate) fn answer(
    py: Python<'_>,
    args: Vec<Vec<u8>>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<(u8, Vec<u8>, Vec<u8>)> {
    let watch = Arc::new(Watch::new());
    let answered = watched(py, &watch, progress.as_ref(), || quipu_cli::answer(arguments(args), &watch))?;
    match answered.error {
        Some(error) => Err(raised(py, &error)),
        None => Ok((answered.code, answered.out, answered.err)),
    }
}

/// The verbs with their options, as JSON: for stubs and documentation.
#[pyfunction]
pub(crate) fn verbs() -> String {
    let command = quipu_cli::command();
    let verbs = command.get_subcommands().map(|verb| {
        let options = verb.get_arguments().filter_map(|arg| {
            let name = arg.get_long()?.to_owned();
            Some(serde_json::json!({
                "name": name,
                "takes_value": arg.get_action().takes_values(),
                "help": arg.get_help().map(ToString::to_string),
            }))
        });
        serde_json::json!({
            "name": verb.get_name(),
            "about": verb.get_about().map(ToString::to_string),
            "options": options.collect::<Vec<_>>(),
        })
    });
    serde_json::Value::from(verbs.collect::<Vec<_>>()).to_string()
}
