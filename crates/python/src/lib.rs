//! The native half of the Python module `quipu`.
//!
//! What Python says better stands in `python/quipu`: names of methods made of descriptions, conversions of arguments, tables for
//! notebooks. Here is what has to be fast or typed: traces, rows, results, verbs, recording, writing, hooks.
//!
//! | file | what |
//! |---|---|
//! | `trace` | opened traces, what they have, analyses |
//! | `rows` | rows of tables and lenses, as streams of Arrow and batch by batch |
//! | `batch` | one batch, and its columns as NumPy and Python see them |
//! | `value` | values of Arrow as objects of Python |
//! | `capsule` | Arrow's C interface in capsules, the only unsafe code |
//! | `outcome` | what analyses leave |
//! | `verb` | verbs of the command line, and the command line itself |
//! | `record` | recording programs |
//! | `write` | columns into a stream that describes itself |
//! | `events` | workload events into hooks written in Python |
//! | `watch` | work without the interpreter's lock, with its signals and its progress |
//! | `fault` | errors as exceptions |
//!
//! All that is structured and small crosses as JSON, which Python reads in one call.

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

// PERF: batches are given away and freed elsewhere, half a megabyte a column. The system's allocator maps each anew, and
// touching its pages costs as much as what is written there.
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
