//! Feeds events of any trace to the hooks of a program that uses this crate, without files and loaded libraries.
//!
//! Events of an opened stream are passed on unchanged ([`events`]); for other formats, the front end makes events of records
//! ([`ToSink`]).

use crate::drive::{Job, each_batch};
use crate::fault::said;
use crate::front::{COLUMNS, Front};
use crate::hooks::Sink;
use crate::trace;
use quipu_model::convert::{Ledger, RecordJob, RecordSink, RecordWriter, RecordWriterInfo};
use quipu_model::damaged::{Damaged, Reading};
use quipu_model::trace::Fact;
use quipu_model::transform::Progress;
use quipu_model::{Columns, Error, ErrorKind, OpenOptions, Result, Window};
use quipu_source::Source;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Passes all events of a stream to a sink that has been started. Damaged parts are skipped.
///
/// # Errors
/// Returns errors of opening and reading, and of the sink.
pub fn events(
    source: &Source,
    opening: &OpenOptions,
    strict: bool,
    progress: &dyn Progress,
    sink: &mut dyn Sink,
) -> Result<Reading> {
    let trace = trace::open(source, opening)?;
    let mut n_events = 0;
    let job = Job { opening, damaged: Damaged::Keep, strict, window: Window::All, keeps_bytes: false };
    each_batch(&trace, job, progress, |batch, _| {
        sink.take(batch).map_err(said)?;
        n_events += batch.events.len() as u64;
        Ok(n_events)
    })
    .map_err(|error| error.in_file(source.name()))
}

/// Makes events from records, for a sink that has been started.
#[derive(Debug)]
pub struct ToSink<S> {
    sink: Arc<Mutex<S>>,
    has_begun: AtomicBool,
}

impl<S> ToSink<S> {
    /// Feeds this sink.
    pub fn new(sink: Arc<Mutex<S>>) -> ToSink<S> {
        ToSink { sink, has_begun: AtomicBool::new(false) }
    }
}

static INFO: RecordWriterInfo =
    RecordWriterInfo { required: Columns::NONE, taken: COLUMNS, made_up: &[], options: &[] };

impl<S: Sink + Send + 'static> RecordWriter for ToSink<S> {
    fn info(&self) -> &'static RecordWriterInfo {
        &INFO
    }

    fn begin(&self, job: &RecordJob<'_>) -> Result<Box<dyn RecordSink>> {
        // Events that the sink has taken cannot be taken back.
        if self.has_begun.swap(true, Ordering::Relaxed) {
            let what = "events have proved damaged after they were handed out: read again, they are left out";
            return Err(Error::new(ErrorKind::Damaged, what));
        }
        let front = Front::new(job.trace, job.columns);
        Ok(Box::new(Feeding { front, sink: self.sink.clone(), n_events: 0 }))
    }
}

/// A feed in progress.
struct Feeding<S> {
    front: Front,
    sink: Arc<Mutex<S>>,
    n_events: u64,
}

impl<S> Feeding<S> {
    fn lock(&self) -> MutexGuard<'_, S> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Sink> RecordSink for Feeding<S> {
    fn take(&mut self, batch: &quipu_model::Batch, ledger: &mut Ledger) -> Result<()> {
        let Feeding { front, sink, n_events } = self;
        let events = front.take(batch, ledger);
        if !events.events.is_empty() {
            *n_events += events.events.len() as u64;
            sink.lock().unwrap_or_else(PoisonError::into_inner).take(events).map_err(said)?;
        }
        Ok(())
    }

    fn n_written(&self) -> u64 {
        self.n_events
    }

    fn end(&mut self, _: &mut Ledger) -> Result<()> {
        self.lock().finish().map_err(said)
    }

    fn commit(self: Box<Self>) -> Result<Vec<Fact>> {
        Ok(vec![Fact::new("events", "events", self.n_events)])
    }
}
