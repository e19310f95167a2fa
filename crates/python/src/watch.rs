//! Runs work without the interpreter's lock. The calling thread waits, checks for signals, and reports progress.

use crate::fault::panicked;
use pyo3::prelude::*;
use quipu::engine::{Progress, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Interval of checks for signals.
const GLANCE: Duration = Duration::from_millis(50);
/// Interval of progress reports.
const TELLING: Duration = Duration::from_millis(100);

/// Runs work on a separate thread without the interpreter's lock. A signal whose handler raises an exception, such as Ctrl-C,
/// cancels the work, and the exception is raised after the work has ended. `progress`, if given, is called with records,
/// bytes processed, and total bytes or `None`.
///
/// # Errors
/// Exceptions raised by a signal handler or by `progress`.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    watch: &Arc<Watch>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let is_done = AtomicBool::new(false);
    let caller = thread::current();
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let done = work();
            is_done.store(true, Ordering::Release);
            caller.unpark();
            done
        });
        let (mut raised, mut told) = (None, Instant::now());
        // A worker that panics does not set `is_done`.
        while !is_done.load(Ordering::Acquire) && !worker.is_finished() {
            py.detach(|| thread::park_timeout(GLANCE));
            let mut looked = py.check_signals();
            if let Some(progress) = progress.filter(|_| looked.is_ok() && told.elapsed() >= TELLING) {
                looked = tell(progress, watch.progress());
                told = Instant::now();
            }
            if let (Err(error), None) = (looked, &raised) {
                watch.cancel();
                raised = Some(error);
            }
        }
        let done = py.detach(|| worker.join());
        if let (Some(progress), None) = (progress, &raised) {
            raised = tell(progress, watch.progress()).err();
        }
        match (raised, done) {
            (Some(error), _) => Err(error),
            (None, Ok(done)) => Ok(done),
            (None, Err(_)) => Err(panicked(py)),
        }
    })
}

/// Reports the progress of work.
pub(crate) fn tell(progress: &Bound<'_, PyAny>, now: Progress) -> PyResult<()> {
    progress.call1((now.records, now.packed_bytes, now.total_packed_bytes)).map(drop)
}
