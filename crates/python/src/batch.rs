//! One batch of rows, and its columns as NumPy and Python see them.

use crate::capsule;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch, RecordBatchIterator};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema};
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

    /// What they are: `number`, `bool`, `names`, `text`, `bytes`, or `other`.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.data_type() {
            DataType::Boolean => "bool",
            DataType::Dictionary(..) => "names",
            DataType::Utf8 | DataType::LargeUtf8 => "text",
            DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => "bytes",
            ty if type_of(ty).is_some() => "number",
            _ => "other",
        }
    }

    /// How many rows have no value.
    #[getter]
    fn null_count(&self) -> usize {
        self.0.null_count()
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
        let nulls: Vec<u8> = (0..self.0.len()).map(|row| u8::from(self.0.is_null(row))).collect();
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
        // The numbers alone, without the names beside them.
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
        let list = PyList::empty(py);
        for row in 0..self.0.len() {
            list.append(object(py, &self.0, row)?)?;
        }
        Ok(list)
    }
}

fn keys<K: ArrowDictionaryKeyType>(array: &ArrayRef) -> ArrayRef {
    Arc::new(array.as_dictionary::<K>().keys().clone())
}

/// What NumPy calls numbers of a type, and how many bytes each has.
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
        _ => return None,
    })
}

/// A value as an object of Python.
fn object<'py>(py: Python<'py>, array: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if array.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    macro_rules! number {
        ($ty:ty) => {
            array.as_primitive::<$ty>().value(row).into_pyobject(py)?.into_any()
        };
    }
    Ok(match array.data_type() {
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::Float32 => number!(Float32Type),
        DataType::Float64 => number!(Float64Type),
        DataType::Boolean => array.as_boolean().value(row).into_pyobject(py)?.to_owned().into_any(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into_pyobject(py)?.into_any(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).into_pyobject(py)?.into_any(),
        DataType::Binary => PyBytes::new(py, array.as_binary::<i32>().value(row)).into_any(),
        DataType::LargeBinary => PyBytes::new(py, array.as_binary::<i64>().value(row)).into_any(),
        DataType::FixedSizeBinary(_) => PyBytes::new(py, array.as_fixed_size_binary().value(row)).into_any(),
        DataType::Dictionary(..) => {
            let names = array.as_any_dictionary();
            object(py, names.values(), names.normalized_keys()[row])?
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            let list = PyList::empty(py);
            for at in 0..items.len() {
                list.append(object(py, &items, at)?)?;
            }
            list.into_any()
        }
        DataType::Struct(fields) => {
            let members = PyDict::new(py);
            for (field, member) in fields.iter().zip(array.as_struct().columns()) {
                members.set_item(field.name(), object(py, member, row)?)?;
            }
            members.into_any()
        }
        ty => return Err(PyTypeError::new_err(format!("values of type {ty} have no form in Python"))),
    })
}

/// A batch of columns of numbers, each a name, what NumPy calls its type, and its bytes.
#[pyfunction]
pub(crate) fn from_bytes(columns: Vec<(String, String, Bound<'_, PyBytes>)>) -> PyResult<Batch> {
    let (mut fields, mut arrays) = (Vec::new(), Vec::<ArrayRef>::new());
    for (name, text, bytes) in columns {
        let bytes = bytes.as_bytes();
        macro_rules! numbers {
            ($ty:ty, $width:literal) => {{
                let values = ScalarBuffer::new(Buffer::from_slice_ref(bytes), 0, bytes.len() / $width);
                Arc::new(PrimitiveArray::<$ty>::new(values, None)) as ArrayRef
            }};
        }
        let array = match text.get(1..).unwrap_or_default() {
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
