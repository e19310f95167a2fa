//! Arrow's C interface in capsules: <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>.
//!
//! `pyo3-arrow` would bring classes for all of Arrow, with casts, time zones and NumPy's interface; only four capsules are
//! needed here.

use crate::batch::Batch;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::{Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, Schema};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::CStr;
use std::sync::Mutex;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

fn wrong(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A schema for `__arrow_c_schema__`.
pub(crate) fn schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowSchema::try_from(schema).map_err(wrong)?, SCHEMA)
}

/// A schema and a batch for `__arrow_c_array__`.
pub(crate) fn array<'py>(
    py: Python<'py>,
    batch: &RecordBatch,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let (array, _) = to_ffi(&StructArray::from(batch.clone()).to_data()).map_err(wrong)?;
    let array: FFI_ArrowArray = array;
    Ok((schema(py, batch.schema_ref())?, PyCapsule::new_with_value(py, array, ARRAY)?))
}

/// Batches for `__arrow_c_stream__`.
pub(crate) fn stream(
    py: Python<'_>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// Batches of one schema as one stream.
#[pyfunction]
pub(crate) fn joined<'py>(
    py: Python<'py>,
    batches: Vec<PyRef<'py, Batch>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let Some(first) = batches.first() else {
        return Err(PyValueError::new_err("no batches, and so no schema"));
    };
    let schema = first.0.schema();
    let all: Vec<_> = batches.iter().map(|batch| Ok(batch.0.clone())).collect();
    stream(py, Box::new(RecordBatchIterator::new(all, schema)))
}

/// All batches of an object that has `__arrow_c_stream__`, whatever library made it.
#[pyfunction]
pub(crate) fn batches_of(object: &Bound<'_, PyAny>) -> PyResult<Vec<Batch>> {
    let py = object.py();
    let made = object.call_method0("__arrow_c_stream__")?;
    let capsule = made.cast::<PyCapsule>().map_err(|_| PyTypeError::new_err("no stream of Arrow"))?;
    let pointer = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule with this name contains a stream, according to the interface. `from_raw` moves the stream out of the
    // capsule and leaves it empty, so that the destructor of the capsule releases nothing.
    #[allow(unsafe_code)]
    let reader = unsafe { ArrowArrayStreamReader::from_raw(pointer.as_ptr()) }.map_err(wrong)?;
    // An Arrow stream may be read by any thread, but only by one at a time.
    let reader = Mutex::new(reader);
    let batches = py.detach(|| {
        let reader = reader.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let schema = reader.schema();
        let mut batches = reader.collect::<Result<Vec<RecordBatch>, ArrowError>>()?;
        // An empty batch keeps the schema if there are no rows.
        if batches.is_empty() {
            batches.push(RecordBatch::new_empty(schema));
        }
        Ok(batches)
    });
    Ok(batches.map_err(wrong)?.into_iter().map(Batch::from).collect())
}
