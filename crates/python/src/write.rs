//! Columns into a stream that describes itself. What other formats have room for is made of it by a conversion.

use crate::batch::Batch;
use crate::fault::Raise;
use crate::watch::watched;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use pyo3::prelude::*;
use quipu::engine::Watch;
use quipu::model::fresh::{Fresh, Replace, cannot};
use quipu::model::{Error, Result};
use quipu_stream::record::Body;
use quipu_stream::spec::{FieldSpec, SchemaSpec, Ty};
use quipu_stream::wire::record::{Clock, field_flag, role};
use quipu_stream::write::{Options, Writer};
use std::ffi::OsString;
use std::io::BufWriter;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The column that says when a record was.
const TIME: &str = "time";
/// The number of the clock, which streams are read by unless they say another one.
const CLOCK: u32 = 1;
/// Names beyond this number are texts.
const MAX_NAMES: usize = 1 << 16;

/// Columns whose names say what they are for lenses.
const ROLES: [(&str, u32); 15] = [
    ("cpu", role::CPU),
    ("pid", role::PID),
    ("tid", role::TID),
    ("pc", role::PC),
    ("addr", role::ADDRESS),
    ("size", role::ACCESS_SIZE),
    ("kind", role::ACCESS_KIND),
    ("call", role::CALL),
    ("returned", role::RETURNED),
    ("argument", role::ARGUMENT),
    ("function", role::FUNCTION),
    ("duration", role::DURATION),
    ("syscall", role::SYSCALL),
    ("bytes", role::TRANSFERRED),
    ("count", role::COUNT),
];

/// Writes the rows of batches as records of one kind; how many there were. `roles` names what columns are for whose own names
/// do not say it; with `per_second`, times are ticks of a clock.
#[pyfunction]
#[pyo3(signature = (path, table, batches, roles, per_second, force))]
pub(crate) fn write_stream(
    py: Python<'_>,
    path: Vec<u8>,
    table: String,
    batches: Vec<PyRef<'_, Batch>>,
    roles: Vec<(String, String)>,
    per_second: Option<u64>,
    force: bool,
) -> PyResult<u64> {
    let path = PathBuf::from(OsString::from_vec(path));
    let batches: Vec<RecordBatch> = batches.iter().map(|batch| batch.0.clone()).collect();
    let watch = Arc::new(Watch::new());
    let written = watched(py, &watch, None, || {
        write(&path, &table, &batches, &roles, per_second, Replace::from(force), &watch)
    })?;
    written.raise(py)
}

/// A column on its way.
struct Source {
    position: usize,
    /// Where its values stand in the body.
    at: usize,
    /// The names of a column of names, whose positions are written.
    names: Vec<String>,
}

fn write(
    path: &Path,
    table: &str,
    batches: &[RecordBatch],
    roles: &[(String, String)],
    per_second: Option<u64>,
    replace: Replace,
    watch: &Watch,
) -> Result<u64> {
    let Some(first) = batches.first() else { return Err(Error::usage("there are no columns to write")) };
    let schema = first.schema();
    let mut spec = SchemaSpec::new(table);
    let (mut sources, mut time) = (Vec::new(), None);
    for (position, field) in schema.fields().iter().enumerate() {
        let name = field.name();
        if name == TIME {
            time = Some(position);
            continue;
        }
        let names = names_of(batches, position);
        let ty = type_of(name, field.data_type(), names.as_deref())?;
        let role = role_of(name, roles)?;
        let flags = if role == Some(role::ADDRESS) || role == Some(role::PC) { field_flag::DELTA } else { 0 };
        spec.fields.push(FieldSpec { name: name.clone(), ty, offset: None, role, unit: None, flags });
        sources.push(Source { position, at: 0, names: names.unwrap_or_default() });
    }
    if let Some((unknown, _)) = roles.iter().find(|(name, _)| schema.index_of(name).is_err()) {
        return Err(Error::usage(format!("there is no column `{unknown}` that could have a role")));
    }
    let mut end = 0;
    for (source, field) in sources.iter_mut().zip(&spec.fields) {
        let (size, align) = field.ty.size_align();
        source.at = u32::next_multiple_of(end, align) as usize;
        end = u32::next_multiple_of(end, align) + size;
    }
    let (fresh, file) = Fresh::file(path, replace)?;
    let failed = |cause| cannot("write", path, cause);
    let writer = Writer::new(BufWriter::new(file), Options::new("quipu for Python"));
    if let Some(per_second) = per_second {
        let clock = Clock { id: CLOCK, ticks_per_s: per_second, ..Clock::default() };
        writer.define(clock).map_err(failed)?;
    }
    let id = writer.schema(&spec).map_err(failed)?;
    let mut stream = writer.stream(1).map_err(failed)?;
    let (fixed, mut n_rows) = (spec.fixed_bytes() as usize, 0);
    for batch in batches {
        if batch.schema_ref().fields().len() != schema.fields().len() {
            return Err(Error::usage("batches have other columns than the first"));
        }
        let cells = sources.iter().map(|source| Cells::of(batch.column(source.position), source));
        let cells = cells.collect::<Result<Vec<_>>>()?;
        let times = time.map(|position| numbers(TIME, batch.column(position))).transpose()?;
        for row in 0..batch.num_rows() {
            let now = times.as_ref().map_or(n_rows, |times| times[row]);
            stream
                .row(id, now, fixed, |body| cells.iter().for_each(|cells| cells.put(row, body)))
                .map_err(failed)?;
            n_rows += 1;
        }
        if watch.is_cancelled() {
            return Err(Error::new(quipu::model::ErrorKind::Io, "interrupted"));
        }
    }
    stream.finish().map_err(failed)?;
    writer.finish().map_err(failed)?;
    drop(writer);
    fresh.commit()?;
    Ok(n_rows)
}

/// What a column is for lenses.
fn role_of(name: &str, roles: &[(String, String)]) -> Result<Option<u32>> {
    let known = |wanted: &str| ROLES.iter().find(|(role, _)| *role == wanted).map(|(_, number)| *number);
    match roles.iter().find(|(column, _)| column == name) {
        None => Ok(known(name)),
        Some((_, role)) if role.is_empty() => Ok(None),
        Some((_, role)) => known(role).map(Some).ok_or_else(|| {
            let all: Vec<&str> = ROLES.iter().map(|(role, _)| *role).collect();
            Error::usage(format!("there is no role `{role}`")).hint(format!("roles: {}", all.join(", ")))
        }),
    }
}

/// The distinct texts of a column of few, in the order in which they come.
fn names_of(batches: &[RecordBatch], position: usize) -> Option<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for batch in batches {
        let dictionary = batch.column(position).as_any_dictionary_opt()?;
        let values = dictionary.values().as_string_opt::<i32>()?;
        for text in values.iter().flatten() {
            if !names.iter().any(|known| known == text) {
                names.push(text.to_owned());
            }
        }
        if names.len() > MAX_NAMES {
            return None;
        }
    }
    Some(names)
}

fn type_of(name: &str, ty: &DataType, names: Option<&[String]>) -> Result<Ty> {
    if let Some(names) = names {
        let numbered = (0..).zip(names.iter().cloned()).collect();
        return Ok(Ty::Enum { name: name.to_owned(), base: Box::new(Ty::Uint(32)), names: numbered });
    }
    Ok(match ty {
        DataType::UInt64 if name == "addr" || name == "pc" => Ty::Address,
        DataType::UInt8 => Ty::Uint(8),
        DataType::UInt16 => Ty::Uint(16),
        DataType::UInt32 => Ty::Uint(32),
        DataType::UInt64 => Ty::Uint(64),
        DataType::Int8 => Ty::Sint(8),
        DataType::Int16 => Ty::Sint(16),
        DataType::Int32 => Ty::Sint(32),
        DataType::Int64 => Ty::Sint(64),
        DataType::Float32 => Ty::Float(32),
        DataType::Float64 => Ty::Float(64),
        DataType::Boolean => Ty::Bool,
        DataType::Utf8 => Ty::Text,
        DataType::Binary => Ty::Bytes,
        other => {
            return Err(Error::unsupported(format!("column `{name}` has values of type {other}"))
                .hint("numbers, truth values, texts, bytes and dictionaries of texts can be written"));
        }
    })
}

/// The values of a column in one batch.
enum Cells<'b> {
    /// Numbers of `width` bytes.
    Numbers {
        at: usize,
        width: usize,
        values: Vec<u64>,
    },
    Texts(usize, &'b arrow_array::StringArray),
    Bytes(usize, &'b arrow_array::BinaryArray),
}

impl<'b> Cells<'b> {
    fn of(array: &'b ArrayRef, source: &Source) -> Result<Cells<'b>> {
        let at = source.at;
        if let Some(dictionary) = array.as_any_dictionary_opt() {
            let wrong = || Error::unsupported("names are texts");
            let texts = dictionary.values().as_string_opt::<i32>().ok_or_else(wrong)?;
            let known = |text: Option<&str>| source.names.iter().position(|name| Some(name.as_str()) == text);
            let numbered: Vec<u64> = texts.iter().map(|text| known(text).unwrap_or(0) as u64).collect();
            let keys = dictionary.normalized_keys();
            let values = keys.into_iter().map(|key| numbered.get(key).copied().unwrap_or(0)).collect();
            return Ok(Cells::Numbers { at, width: 4, values });
        }
        Ok(match array.data_type() {
            DataType::Utf8 => Cells::Texts(at, array.as_string()),
            DataType::Binary => Cells::Bytes(at, array.as_binary()),
            ty => {
                let width = ty.primitive_width().unwrap_or(1);
                Cells::Numbers { at, width, values: numbers("", array)? }
            }
        })
    }

    fn put(&self, row: usize, body: &mut Body<'_>) {
        match self {
            Cells::Numbers { at, width, values } => body.put(*at, &values[row].to_le_bytes()[..*width]),
            Cells::Texts(at, texts) => body.append(*at, texts.value(row).as_bytes(), texts.value(row).len()),
            Cells::Bytes(at, bytes) => body.append(*at, bytes.value(row), bytes.value(row).len()),
        }
    }
}

/// The bits of all numbers of a column; zero where there is none.
fn numbers(name: &str, array: &ArrayRef) -> Result<Vec<u64>> {
    macro_rules! bits {
        ($ty:ty, $bits:expr) => {
            array.as_primitive::<$ty>().iter().map(|value| value.map_or(0, $bits)).collect()
        };
    }
    Ok(match array.data_type() {
        DataType::UInt8 => bits!(UInt8Type, u64::from),
        DataType::UInt16 => bits!(UInt16Type, u64::from),
        DataType::UInt32 => bits!(UInt32Type, u64::from),
        DataType::UInt64 => bits!(UInt64Type, |value| value),
        // The bits stay.
        DataType::Int8 => bits!(Int8Type, |value| value as u64),
        DataType::Int16 => bits!(Int16Type, |value| value as u64),
        DataType::Int32 => bits!(Int32Type, |value| value as u64),
        DataType::Int64 => bits!(Int64Type, |value| value as u64),
        DataType::Float32 => bits!(Float32Type, |value| u64::from(value.to_bits())),
        DataType::Float64 => bits!(Float64Type, f64::to_bits),
        DataType::Boolean => array.as_boolean().iter().map(|value| u64::from(value == Some(true))).collect(),
        other => return Err(Error::usage(format!("column `{name}` wants numbers, found {other}"))),
    })
}
