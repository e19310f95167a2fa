//! Rows of tables and lenses, as Arrow streams or batch by batch.

use crate::batch::Batch;
use crate::capsule;
use crate::fault::{Raise, raised};
use crate::watch::{tell, watched};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use quipu::engine::{RowBatch, RowStream, Selection, Watch, row_schema, rows};
use quipu::model::{Error, ErrorKind, Found, Result, Severity, Table, Trace, result};
use quipu_arrow::{Encoder, Interop};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Interval of checks for signals and of progress reports.
const GLANCE: Duration = Duration::from_millis(50);
/// Number of batches that are read ahead of the consumer.
const MAX_WAITING: usize = 3;

/// Locks a mutex, even if a thread that held it panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Problems found in a trace while its rows were read.
#[derive(Debug, Default)]
struct Losses {
    found: Found,
    error: Option<Error>,
    /// True if rows turned out to be damaged after they were delivered.
    is_doubtful: bool,
}

impl Losses {
    fn of(stream: RowStream) -> Losses {
        let is_doubtful = stream.has_delivered_damaged();
        let (found, error) = stream.into_losses();
        Losses { found, error, is_doubtful }
    }

    /// The reason why the delivered rows are incomplete or wrong; `None` if they are neither.
    fn fault(&self) -> Option<Error> {
        let findings = || self.found.as_slice().to_vec();
        if self.is_doubtful {
            let what = "rows have proved damaged after they were handed out: read again, they are left out";
            return Some(Error::new(ErrorKind::Damaged, what).with_findings(findings()));
        }
        if let Some(error) = &self.error {
            let again = Error::new(error.kind(), error.message()).at(error.place());
            return Some(again.with_findings(findings()));
        }
        let worst = self.found.as_slice().iter().find(|finding| finding.severity == Severity::Error)?;
        Some(Error::new(ErrorKind::Damaged, worst.message.clone()).at(&worst.place).with_findings(findings()))
    }
}

/// Chosen rows of a trace. Nothing is read before they are asked for, and each time anew.
#[pyclass(frozen, module = "quipu._native")]
pub(crate) struct Rows {
    trace: Arc<dyn Trace>,
    selection: Selection,
    /// Whether a damaged trace ends the rows without an exception.
    keeps_damaged: bool,
    schema: SchemaRef,
    losses: Arc<Mutex<Losses>>,
}

impl Rows {
    /// # Errors
    /// `Usage` for an unknown table or column, or an invalid condition; `Missing` for data that the trace lacks.
    pub(crate) fn new(trace: Arc<dyn Trace>, selection: Selection, keeps_damaged: bool) -> Result<Rows> {
        let schema = Encoder::new(&*row_schema(&*trace, &selection)?, Interop::Any, &[])?.schema().clone();
        Ok(Rows { trace, selection, keeps_damaged, schema, losses: Arc::default() })
    }

    fn begin(&self) -> Result<Reading> {
        let stream = rows(self.trace.clone(), &self.selection)?;
        let encoder = Encoder::new(stream.schema(), Interop::Any, &[])?;
        *lock(&self.losses) = Losses::default();
        let schema = encoder.schema().clone();
        Ok(Reading {
            stream: Some(stream),
            encoder,
            schema,
            keeps_damaged: self.keeps_damaged,
            losses: self.losses.clone(),
        })
    }
}

/// A single read of rows.
struct Reading {
    /// `None` after the last row.
    stream: Option<RowStream>,
    encoder: Encoder,
    schema: SchemaRef,
    keeps_damaged: bool,
    losses: Arc<Mutex<Losses>>,
}

impl Reading {
    fn next_rows(&mut self) -> Option<Result<RowBatch>> {
        let error = match self.stream.as_mut()?.next() {
            Some(Ok(rows)) => return Some(Ok(rows)),
            Some(Err(error)) => Some(error),
            None => None,
        };
        let losses = Losses::of(self.stream.take()?);
        let fault = losses.fault();
        *lock(&self.losses) = losses;
        error.or(fault.filter(|_| !self.keeps_damaged)).map(Err)
    }

    fn count_rows(&mut self) -> Result<u64> {
        let mut n_rows = 0;
        while let Some(rows) = self.next_rows() {
            n_rows += rows?.n_rows() as u64;
        }
        Ok(n_rows)
    }
}

impl Iterator for Reading {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let rows = self.next_rows()?;
        Some(rows.and_then(|rows| self.encoder.encode(Box::new(rows))))
    }
}

/// Adapts a read to Arrow's interface for readers.
struct ArrowReading(Reading);

impl Iterator for ArrowReading {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.0.next()?;
        Some(next.map_err(|error| ArrowError::ExternalError(error.to_string().into())))
    }
}

impl RecordBatchReader for ArrowReading {
    fn schema(&self) -> SchemaRef {
        self.0.schema.clone()
    }
}

#[pymethods]
impl Rows {
    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// What was found wrong with the trace by the last read, as JSON.
    fn findings(&self) -> String {
        result::json(lock(&self.losses).found.as_slice()).to_string()
    }

    /// Why the last read did not bring all rows, as an exception; `None` if it did.
    fn fault(&self, py: Python<'_>) -> Option<PyErr> {
        let fault = lock(&self.losses).fault();
        fault.map(|error| raised(py, &error))
    }

    /// A batch of these columns without rows.
    fn empty(&self) -> Batch {
        Batch(RecordBatch::new_empty(self.schema.clone()))
    }

    /// Reads all rows, and says how many there are.
    #[pyo3(signature = (progress = None))]
    fn count(&self, py: Python<'_>, progress: Option<Bound<'_, PyAny>>) -> PyResult<u64> {
        let watch = Arc::new(Watch::new());
        let mut reading = watched(py, &watch, None, || self.begin())?.raise(py)?;
        let watch = reading.stream.as_ref().map_or(watch, |stream| stream.watch().clone());
        let counted = watched(py, &watch, progress.as_ref(), || reading.count_rows())?;
        counted.raise(py)
    }

    /// Begins a read, batch by batch.
    #[pyo3(signature = (progress = None))]
    fn batches(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<Batches> {
        let watch = Arc::new(Watch::new());
        let mut reading = watched(py, &watch, None, || self.begin())?.raise(py)?;
        let watch = reading.stream.as_ref().map(|stream| stream.watch().clone()).unwrap_or(watch);
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let worker = std::thread::Builder::new().name("quipu-python".to_owned()).spawn(move || {
            // The read ends if the consumer is gone.
            for batch in &mut reading {
                if sender.send(batch).is_err() {
                    return;
                }
            }
        });
        worker
            .map_err(|cause| Error::new(ErrorKind::Io, format!("no thread can be started: {cause}")))
            .raise(py)?;
        Ok(Batches {
            receiver: Mutex::new(Some(receiver)),
            watch,
            progress,
            told: Mutex::new(Instant::now()),
        })
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, &self.schema)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let watch = Arc::new(Watch::new());
        let reading = watched(py, &watch, None, || self.begin())?.raise(py)?;
        capsule::stream(py, Box::new(ArrowReading(reading)))
    }
}

/// Batches as they are read, ahead of who takes them.
#[pyclass(frozen, module = "quipu._native")]
pub(crate) struct Batches {
    /// `None` once the read is over.
    receiver: Mutex<Option<Receiver<Result<RecordBatch>>>>,
    watch: Arc<Watch>,
    progress: Option<Py<PyAny>>,
    told: Mutex<Instant>,
}

impl Batches {
    fn tell(&self, py: Python<'_>, is_last: bool) -> PyResult<()> {
        let Some(progress) = &self.progress else { return Ok(()) };
        let is_time = {
            let mut told = lock(&self.told);
            let is_time = is_last || told.elapsed() >= GLANCE;
            if is_time {
                *told = Instant::now();
            }
            is_time
        };
        if is_time { tell(progress.bind(py), self.watch.progress()) } else { Ok(()) }
    }

    /// Cancels the read.
    fn end(&self) {
        self.watch.cancel();
        drop(lock(&self.receiver).take());
    }
}

#[pymethods]
impl Batches {
    fn __iter__(this: Py<Batches>) -> Py<Batches> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        loop {
            let next =
                py.detach(|| lock(&self.receiver).as_ref().map(|receiver| receiver.recv_timeout(GLANCE)));
            let done = match next {
                None => return Ok(None),
                Some(Ok(Ok(batch))) => return self.tell(py, false).map(|()| Some(Batch(batch))),
                Some(Ok(Err(error))) => Err(raised(py, &error)),
                Some(Err(RecvTimeoutError::Disconnected)) => self.tell(py, true).map(|()| None),
                Some(Err(RecvTimeoutError::Timeout)) => {
                    match py.check_signals().and_then(|()| self.tell(py, false)) {
                        Ok(()) => continue,
                        Err(error) => Err(error),
                    }
                }
            };
            py.detach(|| self.end());
            return done;
        }
    }

    /// Ends the read before its end.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.end());
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.end();
    }
}
