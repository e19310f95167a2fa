//! Records programs.

use crate::fault::Raise;
use crate::watch::watched;
use pyo3::prelude::*;
use quipu::engine::Watch;
use quipu::model::{Error, result};
use quipu::source::{PackOptions, Packing};
use quipu_capture::limits::Limits;
use quipu_capture::record::{Job, Prints, front_end};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Runs a program and records what it does. Gives the path of the trace, and what came of it as JSON.
#[pyfunction]
#[pyo3(signature = (command, output, front_end_name, force, container, level, max_size, max_instrs, start_after_instrs,
                    start_at_function, windows, follow_fork))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn record(
    py: Python<'_>,
    command: Vec<Vec<u8>>,
    output: Option<Vec<u8>>,
    front_end_name: &str,
    force: bool,
    container: &str,
    level: u8,
    max_size: Option<u64>,
    max_instrs: Option<u64>,
    start_after_instrs: Option<u64>,
    start_at_function: Option<String>,
    windows: Option<(u64, u64)>,
    follow_fork: bool,
) -> PyResult<(PathBuf, String)> {
    let packing = Packing::named(container)
        .ok_or_else(|| Error::usage(format!("no container is called `{container}`")))
        .raise(py)?;
    let job = Job {
        command: command.into_iter().map(OsString::from_vec).collect(),
        output: output.map(|path| PathBuf::from(OsString::from_vec(path))),
        replace: force.into(),
        prints: Prints::Here,
        limits: Limits {
            most_bytes: max_size,
            most_instrs: max_instrs,
            start_after: start_after_instrs,
            start_at: start_at_function,
            windows,
            ..Limits::default()
        },
        follows_forks: follow_fork,
        pack: PackOptions { packing, level: Some(level) },
        n_bytes: Arc::default(),
    };
    let watch = Arc::new(Watch::new());
    let done = watched(py, &watch, None, || {
        let front_end = front_end(front_end_name, &job.command)?;
        (front_end.record)(&job)
    })?;
    let summary = done.raise(py)?;
    let processes: Vec<_> = summary
        .processes
        .iter()
        .map(|process| {
            serde_json::json!({
                "name": process.name,
                "pid": process.pid,
                "path": process.path.display().to_string(),
                "threads": process.threads,
                "instructions": process.instrs,
                "records": process.records,
                "bytes": process.bytes,
            })
        })
        .collect();
    let about = serde_json::json!({
        "exit_code": summary.status.code(),
        "signal": summary.status.signal(),
        "is_limited": summary.is_limited,
        "findings": result::json(&summary.findings),
        "processes": processes,
    });
    Ok((summary.path, about.to_string()))
}
