//! A batch of rows, and its columns for NumPy and Python.

use crate::{capsule, value};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, PrimitiveArray, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use pyo3::exceptions::{PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList};
use std::sync::Arc;

/// Rows as columns. Any library that takes Arrow's capsules takes it without a copy.
#[pyclass(frozen, module = "quipu._native")]
#[derive(Clone)]
pub(crate) struct Batch(pub(crate) RecordBatch);

impl From<RecordBatch> for Batch {
    fn from(batch: RecordBatch) -> Batch {
        Batch(batch)
    }
}

#[pymethods]
impl Batch {
    /// How many rows there are.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// What the schema says beside its columns: the name of the table, its description.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (key, value) in self.0.schema_ref().metadata() {
            all.set_item(key, value)?;
        }
        Ok(all)
    }

    /// A column by its name.
    fn column(&self, name: &str) -> PyResult<Values> {
        let known = || self.column_names().join(", ");
        let array = self.0.column_by_name(name);
        let array =
            array.ok_or_else(|| PyKeyError::new_err(format!("no column `{name}`; columns: {}", known())))?;
        Ok(Values(array.clone()))
    }

    /// The first rows.
    fn head(&self, rows: usize) -> Batch {
        Batch(self.0.slice(0, rows.min(self.0.num_rows())))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::schema(py, self.0.schema_ref())
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema);
        capsule::array(py, &self.0)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        capsule::stream(py, Box::new(batches))
    }
}

/// The values of one column.
#[pyclass(frozen, module = "quipu._native")]
pub(crate) struct Values(ArrayRef);

#[pymethods]
impl Values {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// What they are: `number`, which moments and durations are, too, `days`, `bool`, `names`, or `other`.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.data_type() {
            DataType::Boolean => "bool",
            DataType::Dictionary(..) => "names",
            DataType::Date32 => "days",
            ty if type_of(ty).is_some() => "number",
            _ => "other",
        }
    }

    /// How many rows have no value.
    #[getter]
    fn null_count(&self) -> usize {
        self.0.logical_null_count()
    }

    /// Where NumPy finds the numbers: it sees them where they are.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let ty = type_of(self.0.data_type());
        let (text, width) =
            ty.ok_or_else(|| PyTypeError::new_err("only numbers can be seen where they are"))?;
        let data = self.0.to_data();
        let start = data.buffers().first().map_or(0, |buffer| buffer.as_ptr() as usize);
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", (self.0.len(),))?;
        interface.set_item("typestr", text)?;
        interface.set_item("data", (start + data.offset() * width, true))?;
        Ok(interface)
    }

    /// A byte for each row: 1 where it has no value.
    fn nulls<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        // A dictionary's value may itself be null.
        let none = self.0.logical_nulls();
        let is_null = |row| none.as_ref().is_some_and(|none| none.is_null(row));
        let nulls: Vec<u8> = (0..self.0.len()).map(|row| u8::from(is_null(row))).collect();
        PyBytes::new(py, &nulls)
    }

    /// A byte for each truth value.
    fn truths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bits = self.0.as_boolean_opt().ok_or_else(|| PyTypeError::new_err("no truth values"))?;
        let bytes: Vec<u8> = bits.values().iter().map(u8::from).collect();
        Ok(PyBytes::new(py, &bytes))
    }

    /// The numbers of names, and the names.
    fn named(&self) -> PyResult<(Values, Values)> {
        let any = self.0.as_any_dictionary_opt().ok_or_else(|| PyTypeError::new_err("no names"))?;
        // The keys alone, without the dictionary.
        let DataType::Dictionary(key, _) = self.0.data_type() else {
            return Err(PyTypeError::new_err("no names"));
        };
        let keys = match key.as_ref() {
            DataType::Int8 => keys::<Int8Type>(&self.0),
            DataType::Int16 => keys::<Int16Type>(&self.0),
            DataType::Int32 => keys::<Int32Type>(&self.0),
            DataType::Int64 => keys::<Int64Type>(&self.0),
            DataType::UInt8 => keys::<UInt8Type>(&self.0),
            DataType::UInt16 => keys::<UInt16Type>(&self.0),
            DataType::UInt32 => keys::<UInt32Type>(&self.0),
            _ => keys::<UInt64Type>(&self.0),
        };
        Ok((Values(keys), Values(any.values().clone())))
    }

    /// The values as objects of Python; `None` where there is none.
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        value::list(py, &self.0)
    }
}

fn keys<K: ArrowDictionaryKeyType>(array: &ArrayRef) -> ArrayRef {
    Arc::new(array.as_dictionary::<K>().keys().clone())
}

/// NumPy's type string for a numeric type, and its width in bytes.
fn type_of(ty: &DataType) -> Option<(&'static str, usize)> {
    Some(match ty {
        DataType::UInt8 => ("|u1", 1),
        DataType::UInt16 => ("<u2", 2),
        DataType::UInt32 => ("<u4", 4),
        DataType::UInt64 => ("<u8", 8),
        DataType::Int8 => ("|i1", 1),
        DataType::Int16 => ("<i2", 2),
        DataType::Int32 => ("<i4", 4),
        DataType::Int64 => ("<i8", 8),
        DataType::Float32 => ("<f4", 4),
        DataType::Float64 => ("<f8", 8),
        DataType::Date32 => ("<i4", 4),
        DataType::Date64 => ("<M8[ms]", 8),
        DataType::Timestamp(TimeUnit::Second, _) => ("<M8[s]", 8),
        DataType::Timestamp(TimeUnit::Millisecond, _) => ("<M8[ms]", 8),
        DataType::Timestamp(TimeUnit::Microsecond, _) => ("<M8[us]", 8),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => ("<M8[ns]", 8),
        DataType::Duration(TimeUnit::Second) => ("<m8[s]", 8),
        DataType::Duration(TimeUnit::Millisecond) => ("<m8[ms]", 8),
        DataType::Duration(TimeUnit::Microsecond) => ("<m8[us]", 8),
        DataType::Duration(TimeUnit::Nanosecond) => ("<m8[ns]", 8),
        _ => return None,
    })
}

/// A batch of columns, each a name, what NumPy calls its type, and its bytes; of texts, the type is `text`.
#[pyfunction]
pub(crate) fn from_columns(columns: Vec<(String, String, Bound<'_, PyAny>)>) -> PyResult<Batch> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::<ArrayRef>::new());
    for (name, text, values) in columns {
        if text == "text" {
            let texts = StringArray::from(values.extract::<Vec<String>>()?);
            fields.push(Field::new(name, DataType::Utf8, false));
            arrays.push(Arc::new(texts));
            continue;
        }
        let bytes = values.extract::<&[u8]>()?;
        macro_rules! numbers {
            ($ty:ty, $width:literal) => {{
                let values = ScalarBuffer::new(Buffer::from_slice_ref(bytes), 0, bytes.len() / $width);
                Arc::new(PrimitiveArray::<$ty>::new(values, None)) as ArrayRef
            }};
        }
        let array = match text.get(1..).unwrap_or_default() {
            "b1" => Arc::new(bytes.iter().map(|byte| Some(*byte != 0)).collect::<BooleanArray>()),
            "u1" => numbers!(UInt8Type, 1),
            "u2" => numbers!(UInt16Type, 2),
            "u4" => numbers!(UInt32Type, 4),
            "u8" => numbers!(UInt64Type, 8),
            "i1" => numbers!(Int8Type, 1),
            "i2" => numbers!(Int16Type, 2),
            "i4" => numbers!(Int32Type, 4),
            "i8" => numbers!(Int64Type, 8),
            "f4" => numbers!(Float32Type, 4),
            "f8" => numbers!(Float64Type, 8),
            other => {
                return Err(PyTypeError::new_err(format!("column `{name}`: no numbers of type {other}")));
            }
        };
        fields.push(Field::new(name, array.data_type().clone(), false));
        arrays.push(array);
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
    batch.map(Batch).map_err(|error| PyValueError::new_err(error.to_string()))
}
