//! Converts errors of the libraries to exceptions of `quipu`.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use quipu::model::{Error, ErrorKind, result};

/// Converts an error to an exception, whose class depends on the kind of error, with its place, hint and findings.
#[cold]
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, error).unwrap_or_else(|fault| fault)
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let place = error.place();
    let about = PyDict::new(py);
    about.set_item("file", place.file.as_deref())?;
    about.set_item("member", place.member.as_deref())?;
    about.set_item("offset", place.offset)?;
    about.set_item("record", place.record)?;
    about.set_item("instr", place.instr)?;
    about.set_item("hint", error.advice())?;
    let findings = result::json(error.findings()).to_string();
    let make = py.import("quipu._errors")?.getattr("_made")?;
    let made = make.call1((error.kind().name(), error.message(), error.to_string(), about, findings))?;
    Ok(PyErr::from_value(made))
}

/// The exception for a worker thread that panicked.
#[cold]
pub(crate) fn panicked(py: Python<'_>) -> PyErr {
    raised(py, &Error::new(ErrorKind::Internal, "a thread of Quipu panicked"))
}

/// The exception for a closed trace.
#[cold]
pub(crate) fn closed() -> PyErr {
    PyRuntimeError::new_err("the trace is closed")
}

/// Converts results of the libraries to results for Python.
pub(crate) trait Raise<T> {
    /// Returns the value, or the error as an exception.
    fn raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> Raise<T> for quipu::model::Result<T> {
    fn raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raised(py, &error))
    }
}
