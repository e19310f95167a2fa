//! Converts Arrow values to Python objects.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

/// Converts all values of a column; nulls become `None`.
pub(crate) fn list<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    match array.data_type() {
        // Convert each value of the dictionary once.
        DataType::Dictionary(..) => {
            let names = array.as_any_dictionary();
            let values = self::list(py, names.values())?;
            // With an empty dictionary, all rows are null.
            let keys = if values.is_empty() { Vec::new() } else { names.normalized_keys() };
            for row in 0..array.len() {
                match keys.get(row).filter(|_| array.is_valid(row)) {
                    Some(key) => list.append(values.get_item(*key)?)?,
                    None => list.append(py.None())?,
                }
            }
        }
        _ => {
            for row in 0..array.len() {
                list.append(object(py, array, row)?)?;
            }
        }
    }
    Ok(list)
}

/// Converts one value.
fn object<'py>(py: Python<'py>, array: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    if array.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    macro_rules! number {
        ($ty:ty) => {
            array.as_primitive::<$ty>().value(row).into_pyobject(py)?.into_any()
        };
    }
    macro_rules! decimal {
        ($ty:ty, $scale:expr) => {{
            let value = array.as_primitive::<$ty>().value(row);
            let text = <$ty>::format_decimal(value, <$ty>::MAX_PRECISION, *$scale);
            py.import("decimal")?.getattr("Decimal")?.call1((text,))?
        }};
    }
    // `quipu._values` converts counts of ticks.
    macro_rules! moment {
        ($make:literal, $ty:ty, $($more:expr),*) => {{
            let ticks = i64::from(array.as_primitive::<$ty>().value(row));
            py.import("quipu._values")?.getattr($make)?.call1((ticks, $($more),*))?
        }};
    }
    Ok(match array.data_type() {
        DataType::Null => py.None().into_bound(py),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::Float16 => {
            array.as_primitive::<Float16Type>().value(row).to_f64().into_pyobject(py)?.into_any()
        }
        DataType::Float32 => number!(Float32Type),
        DataType::Float64 => number!(Float64Type),
        DataType::Decimal32(_, scale) => decimal!(Decimal32Type, scale),
        DataType::Decimal64(_, scale) => decimal!(Decimal64Type, scale),
        DataType::Decimal128(_, scale) => decimal!(Decimal128Type, scale),
        DataType::Decimal256(_, scale) => decimal!(Decimal256Type, scale),
        DataType::Boolean => array.as_boolean().value(row).into_pyobject(py)?.to_owned().into_any(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into_pyobject(py)?.into_any(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).into_pyobject(py)?.into_any(),
        DataType::Utf8View => array.as_string_view().value(row).into_pyobject(py)?.into_any(),
        DataType::Binary => PyBytes::new(py, array.as_binary::<i32>().value(row)).into_any(),
        DataType::LargeBinary => PyBytes::new(py, array.as_binary::<i64>().value(row)).into_any(),
        DataType::BinaryView => PyBytes::new(py, array.as_binary_view().value(row)).into_any(),
        DataType::FixedSizeBinary(_) => PyBytes::new(py, array.as_fixed_size_binary().value(row)).into_any(),
        DataType::Date32 => moment!("date_of", Date32Type, 1),
        DataType::Date64 => moment!("date_of", Date64Type, 86_400_000),
        DataType::Time32(TimeUnit::Second) => moment!("time_of", Time32SecondType, 1),
        DataType::Time32(_) => moment!("time_of", Time32MillisecondType, 1000),
        DataType::Time64(TimeUnit::Microsecond) => moment!("time_of", Time64MicrosecondType, 1_000_000),
        DataType::Time64(_) => moment!("time_of", Time64NanosecondType, 1_000_000_000),
        DataType::Timestamp(unit, zone) => {
            let zone = zone.as_deref();
            match unit {
                TimeUnit::Second => moment!("moment_of", TimestampSecondType, 1, zone),
                TimeUnit::Millisecond => moment!("moment_of", TimestampMillisecondType, 1000, zone),
                TimeUnit::Microsecond => moment!("moment_of", TimestampMicrosecondType, 1_000_000, zone),
                TimeUnit::Nanosecond => moment!("moment_of", TimestampNanosecondType, 1_000_000_000, zone),
            }
        }
        DataType::Duration(TimeUnit::Second) => moment!("duration_of", DurationSecondType, 1),
        DataType::Duration(TimeUnit::Millisecond) => moment!("duration_of", DurationMillisecondType, 1000),
        DataType::Duration(TimeUnit::Microsecond) => {
            moment!("duration_of", DurationMicrosecondType, 1_000_000)
        }
        DataType::Duration(_) => moment!("duration_of", DurationNanosecondType, 1_000_000_000),
        DataType::Dictionary(..) => {
            let names = array.as_any_dictionary();
            object(py, names.values(), names.normalized_keys()[row])?
        }
        DataType::List(_) => list(py, &array.as_list::<i32>().value(row))?.into_any(),
        DataType::LargeList(_) => list(py, &array.as_list::<i64>().value(row))?.into_any(),
        DataType::ListView(_) => list(py, &array.as_list_view::<i32>().value(row))?.into_any(),
        DataType::LargeListView(_) => list(py, &array.as_list_view::<i64>().value(row))?.into_any(),
        DataType::FixedSizeList(..) => list(py, &array.as_fixed_size_list().value(row))?.into_any(),
        DataType::Struct(fields) => {
            let members = PyDict::new(py);
            for (field, member) in fields.iter().zip(array.as_struct().columns()) {
                members.set_item(field.name(), object(py, member, row)?)?;
            }
            members.into_any()
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let [keys, values] = entries.columns() else {
                return Err(PyTypeError::new_err("a map has keys and values"));
            };
            let pairs = PyList::empty(py);
            for at in 0..entries.len() {
                pairs.append((object(py, keys, at)?, object(py, values, at)?))?;
            }
            pairs.into_any()
        }
        // Intervals and unions, which do not occur in tables of traces.
        ty => {
            let what = format!("values of type {ty} have no form in Python; a CAST to VARCHAR has one");
            return Err(PyTypeError::new_err(what));
        }
    })
}
