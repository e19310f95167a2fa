//! Results of analyses: as JSON, as tables, and as documents for people.

use crate::batch::Batch;
use crate::fault::Raise;
use crate::rows::lock;
use pyo3::prelude::*;
use quipu::engine::{self, Part, RunOptions, tables};
use quipu::model::doc::Document;
use quipu::model::{ErrorKind, Report, Result, Table, Trace};
use quipu_arrow::{Encoder, Interop};
use quipu_console::parts;
use quipu_console::session::Verdict;
use quipu_console::simulation::{self, Served};
use quipu_view::{Look, Overflow, PageFrame, html_page, paint};
use serde_json::Map;
use std::sync::Mutex;

/// The results of analyses that shared one read.
#[pyclass(frozen, module = "quipu._native")]
pub(crate) struct Outcome {
    /// Name of the trace in messages.
    name: String,
    names: Vec<&'static str>,
    /// The results. A mutex, since reports cannot be shared between threads.
    inner: Mutex<Inner>,
}

/// Results of the default machine of a report for the beginning of a trace. Its reports are the last ones among those of the
/// analyses.
pub(crate) struct Machine {
    n_reports: usize,
    served: Served,
}

impl Machine {
    /// Simulates the beginning of a trace on the default machine, after the analyses; its results are appended to theirs.
    pub(crate) fn serve(
        names: &mut Vec<&'static str>,
        outcome: &mut engine::Outcome,
        trace: &dyn Trace,
        options: &RunOptions<'_>,
    ) -> Result<Machine> {
        if outcome.cancelled {
            return Ok(Machine { n_reports: 0, served: Served::default() });
        }
        // The analyses have reported damage to the trace; the machine simulates what can be read.
        let served = simulation::serve(0, outcome.records, trace, |planned, window| {
            let options = RunOptions {
                threads: options.threads,
                window,
                threads_wanted: options.threads_wanted.clone(),
                ..RunOptions::new(options.watch)
            };
            match engine::run(trace, planned, &options) {
                Err(error) if error.kind() == ErrorKind::Unsupported => Ok(Err(error)),
                outcome => outcome.map(Ok),
            }
        });
        let mut served = served?.unwrap_or_default();
        let n_reports = served.reports.len();
        names.append(&mut served.names);
        outcome.reports.append(&mut served.reports);
        outcome.error = outcome.error.take().or(served.error.take());
        outcome.cancelled |= served.cancelled;
        Ok(Machine { n_reports, served })
    }
}

struct Inner {
    reports: Vec<Box<dyn Report>>,
    machine: Option<Machine>,
    parts: Vec<Part>,
    is_divided: bool,
    verdict: Verdict,
}

impl Outcome {
    pub(crate) fn new(
        name: &str,
        names: Vec<&'static str>,
        trace: &dyn Trace,
        outcome: engine::Outcome,
        is_divided: bool,
        machine: Option<Machine>,
    ) -> Outcome {
        let verdict = Verdict::new(trace, outcome.findings, outcome.error, outcome.cancelled);
        let inner = Inner { reports: outcome.reports, machine, parts: outcome.parts, is_divided, verdict };
        Outcome { name: name.to_owned(), names, inner: Mutex::new(inner) }
    }

    fn documents(&self) -> Vec<Document> {
        let inner = lock(&self.inner);
        let n_of_machine = inner.machine.as_ref().map_or(0, |machine| machine.n_reports);
        let (reports, of_machine) = inner.reports.split_at(inner.reports.len() - n_of_machine);
        let mut documents = parts::documents(reports, &inner.parts);
        if let Some(machine) = &inner.machine {
            let served = parts::documents(of_machine, &[]).into_iter();
            let titled = served.map(|of| Document { title: machine.served.title(&of.title), ..of });
            documents.extend(titled);
        }
        documents
    }
}

/// Converts a table to a batch.
fn batch(table: impl Table + 'static) -> Result<Batch> {
    let mut encoder = Encoder::new(table.schema(), Interop::Any, &[])?;
    encoder.encode(Box::new(table)).map(Batch)
}

#[pymethods]
impl Outcome {
    /// The names of the analyses.
    #[getter]
    fn names(&self) -> Vec<&'static str> {
        self.names.clone()
    }

    /// The results as `quipu analyze --json` prints them.
    fn json(&self, py: Python<'_>) -> String {
        py.detach(|| {
            let inner = lock(&self.inner);
            let mut answer = Map::new();
            answer.insert("trace".into(), self.name.clone().into());
            answer.insert("results".into(), parts::results(&self.names, &inner.reports));
            if inner.is_divided {
                answer.insert("parts".into(), parts::json(&self.names, &inner.parts));
            }
            if let Some(machine) = &inner.machine {
                answer.insert("machine_records".into(), machine.served.records.into());
            }
            inner.verdict.add_to(&mut answer);
            serde_json::Value::from(answer).to_string()
        })
    }

    /// The tables of all results, each with its name.
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<(String, Batch)>> {
        let made = py.detach(|| {
            let inner = lock(&self.inner);
            let all = tables(&self.name, &self.names, &inner.reports, &inner.parts);
            let named = all.into_iter().map(|table| Ok((table.schema().name.to_string(), batch(table)?)));
            named.collect::<Result<Vec<_>>>()
        });
        made.raise(py)
    }

    /// Whether all of the trace was read.
    #[getter]
    fn complete(&self) -> bool {
        lock(&self.inner).verdict.is_complete()
    }

    /// Whether an analysis judged the trace and found errors.
    #[getter]
    fn flawed(&self) -> bool {
        lock(&self.inner).reports.iter().any(|report| report.is_flawed())
    }

    /// A sentence if not all of the trace is in the results.
    fn fault(&self) -> Option<String> {
        let inner = lock(&self.inner);
        let (lost, error) = (inner.verdict.lost(), inner.verdict.error.clone());
        let is_nothing = lost.is_nothing();
        match error {
            Some(error) if is_nothing => Some(format!("not all of the trace was read: {error}")),
            _ if !is_nothing => Some(format!("{lost}; the numbers are about the rest")),
            _ => None,
        }
    }

    /// The results as people read them.
    fn text(&self, py: Python<'_>) -> String {
        py.detach(|| {
            let look = Look { overflow: Overflow::Run, ..Look::page(100) };
            let mut text = String::new();
            for (at, document) in self.documents().iter().enumerate() {
                if at > 0 {
                    text.push('\n');
                }
                paint(document, &look, &mut text);
            }
            text
        })
    }

    /// The results as a page for a browser, with the charts of the report.
    fn page(&self, py: Python<'_>, title: &str) -> String {
        py.detach(|| {
            let footer = concat!("Made by Quipu ", env!("CARGO_PKG_VERSION"), ".");
            html_page(&self.documents(), &PageFrame { title, footer, ..PageFrame::default() })
        })
    }
}
