//! Work without the interpreter's lock. The thread that asked for it waits, looks for signals, and tells of progress.

use crate::fault::panicked;
use pyo3::prelude::*;
use quipu::engine::{Progress, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a signal waits.
const GLANCE: Duration = Duration::from_millis(50);
/// How often progress is said.
const TELLING: Duration = Duration::from_millis(100);

/// Does some work on a thread of its own, which has no lock. A signal whose handler raises, such as Ctrl-C, cancels it, and
/// is raised when it has ended. `progress`, if there is one, is called with records, bytes done, and bytes in all or `None`.
///
/// # Errors
/// What a handler of a signal or `progress` raises.
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
        // A worker that panics says nothing.
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

/// Tells how far work is.
pub(crate) fn tell(progress: &Bound<'_, PyAny>, now: Progress) -> PyResult<()> {
    progress.call1((now.records, now.packed_bytes, now.total_packed_bytes)).map(drop)
}
