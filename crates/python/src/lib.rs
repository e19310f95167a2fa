//! The native half of the Python module `quipu`.
//!
//! The parts that are better written in Python are in `python/quipu`: methods generated from descriptions, conversions of
//! arguments, tables for notebooks. This crate has the parts that must be fast or typed: traces, rows, results, verbs,
//! recording, writing, hooks.
//!
//! | file | what |
//! |---|---|
//! | `trace` | open traces: metadata, analyses |
//! | `rows` | rows of tables and lenses, as streams of Arrow and batch by batch |
//! | `batch` | a batch, and its columns for NumPy and Python |
//! | `value` | Arrow values as Python objects |
//! | `capsule` | Arrow's C interface in capsules, the only unsafe code |
//! | `outcome` | results of analyses |
//! | `verb` | verbs of the command line, and the command line itself |
//! | `record` | recording programs |
//! | `write` | writes columns as a self-describing stream |
//! | `events` | passes workload events to hooks written in Python |
//! | `watch` | runs work without the interpreter's lock, with signals and progress |
//! | `fault` | errors as exceptions |
//!
//! Small structured data are passed as JSON, which Python parses in one call.

#![warn(missing_docs)]

mod batch;
mod capsule;
mod events;
mod fault;
mod outcome;
mod record;
mod rows;
mod trace;
mod value;
mod verb;
mod watch;
mod write;

use pyo3::prelude::*;

// PERF: batches are handed to Python and freed later, with half a megabyte per column. The system's allocator would map each
// anew, and touching its pages costs as much as writing the data.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The native half of `quipu`; use that.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("HAS_SQL", cfg!(feature = "sql"))?;
    module.add_class::<trace::Trace>()?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<rows::Batches>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<batch::Values>()?;
    module.add_class::<outcome::Outcome>()?;
    module.add_function(wrap_pyfunction!(trace::open, module)?)?;
    module.add_function(wrap_pyfunction!(trace::every_tool, module)?)?;
    module.add_function(wrap_pyfunction!(capsule::batches_of, module)?)?;
    module.add_function(wrap_pyfunction!(capsule::joined, module)?)?;
    module.add_function(wrap_pyfunction!(batch::from_columns, module)?)?;
    module.add_function(wrap_pyfunction!(verb::main, module)?)?;
    module.add_function(wrap_pyfunction!(verb::answer, module)?)?;
    module.add_function(wrap_pyfunction!(verb::verbs, module)?)?;
    module.add_function(wrap_pyfunction!(record::record, module)?)?;
    module.add_function(wrap_pyfunction!(write::write_stream, module)?)?;
    Ok(())
}
