//! Writes columns as a self-describing stream. Other formats are made from it by conversion.

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
use quipu::model::lens::AccessKind;
use quipu::model::{Error, Result};
use quipu_stream::record::Body;
use quipu_stream::spec::{FieldSpec, SchemaSpec, Ty};
use quipu_stream::wire::record::{Clock, field_flag, role};
use quipu_stream::write::{Options, Writer};
use quipu_streamed::schema::access_kind_of;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::BufWriter;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The column with the times of records.
const TIME: &str = "time";
/// Number of the clock; streams use clock 1 by default.
const CLOCK: u32 = 1;
/// Maximum number of names in an enumeration; with more, the column is written as texts.
const MAX_NAMES: usize = 1 << 16;

/// Column names that imply a role.
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

/// A column to write.
struct Source {
    position: usize,
    /// Offset of its values in the body of a record.
    at: usize,
    /// For a column of names: the names, whose indices are written.
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
    let is_other = |batch: &RecordBatch| {
        let pairs = batch.schema_ref().fields().iter().zip(schema.fields());
        batch.num_columns() != schema.fields().len()
            || pairs
                .into_iter()
                .any(|(one, other)| (one.name(), one.data_type()) != (other.name(), other.data_type()))
    };
    if batches.iter().any(is_other) {
        return Err(Error::usage("batches have other columns than the first"));
    }
    let mut spec = SchemaSpec::new(table);
    let (mut sources, mut time) = (Vec::new(), None);
    for (position, field) in schema.fields().iter().enumerate() {
        let name = field.name();
        if name == TIME {
            check_values(name, position, batches)?;
            check_times(position, batches)?;
            time = Some(position);
            continue;
        }
        let role = role_of(name, roles)?;
        // A null size is written as 0, which means unknown.
        if role != Some(role::ACCESS_SIZE) {
            check_values(name, position, batches)?;
        }
        if let Some(role) = role {
            check_role(name, position, role, batches)?;
        }
        let names = names_of(batches, position, role.is_some());
        let ty = type_of(name, field.data_type(), names.as_deref())?;
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

/// The role of a column, for lenses.
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

/// Checks that every row has a value: plain numbers in a stream cannot be null.
fn check_values(name: &str, position: usize, batches: &[RecordBatch]) -> Result<()> {
    let mut before = 0;
    for batch in batches {
        let column = batch.column(position);
        if let Some(nulls) = column.logical_nulls().filter(|nulls| nulls.null_count() > 0) {
            let row = before + (0..column.len()).find(|row| nulls.is_null(*row)).unwrap_or(0);
            return Err(Error::usage(format!("column `{name}` has no value in row {row}"))
                .hint("leave these rows out, or fill them with a value of your own"));
        }
        before += column.len();
    }
    Ok(())
}

/// The texts of a column, in any of Arrow's text types; `None` for other types.
fn texts(array: &ArrayRef) -> Option<Vec<Option<&str>>> {
    Some(match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().collect(),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().collect(),
        DataType::Utf8View => array.as_string_view().iter().collect(),
        _ => return None,
    })
}

/// The bytes of a column, in any of Arrow's binary types; `None` for other types.
fn bytes(array: &ArrayRef) -> Option<Vec<Option<&[u8]>>> {
    Some(match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().iter().collect(),
        DataType::LargeBinary => array.as_binary::<i64>().iter().collect(),
        DataType::BinaryView => array.as_binary_view().iter().collect(),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().iter().collect(),
        _ => return None,
    })
}

/// The distinct texts of a column in order of appearance, if it is to be written as names: a dictionary column, or a text
/// column with a role, since lenses show numbers and their names. `None` if there are too many.
fn names_of(batches: &[RecordBatch], position: usize, is_lens: bool) -> Option<Vec<String>> {
    let mut names = Names::default();
    for batch in batches {
        let column = batch.column(position);
        match column.as_any_dictionary_opt() {
            Some(dictionary) => {
                texts(dictionary.values())?.into_iter().flatten().for_each(|text| names.add(text))
            }
            None if is_lens => texts(column)?.into_iter().flatten().for_each(|text| names.add(text)),
            None => return None,
        }
        if names.all.len() > MAX_NAMES {
            return None;
        }
    }
    Some(names.all)
}

/// Collects distinct texts.
#[derive(Default)]
struct Names {
    all: Vec<String>,
    known: HashSet<String>,
}

impl Names {
    fn add(&mut self, text: &str) {
        if !self.known.contains(text) {
            self.known.insert(text.to_owned());
            self.all.push(text.to_owned());
        }
    }
}

/// Checks that values of a column with a role are what lenses expect.
fn check_role(name: &str, position: usize, role: u32, batches: &[RecordBatch]) -> Result<()> {
    let other = format!("a column of another meaning has no role: roles={{\"{name}\": \"\"}}");
    let mut before = 0;
    for batch in batches {
        let column = batch.column(position);
        let texts = Cells::texts_of(column);
        let has_names = matches!(role, role::ACCESS_KIND | role::FUNCTION | role::CALL | role::SYSCALL);
        let ty = column.data_type();
        if !(ty.is_integer() || *ty == DataType::Boolean || has_names && texts.is_some()) {
            let names = if has_names { ", or names" } else { "" };
            let text = format!("column `{name}` wants whole numbers{names}, found values of type {ty}");
            return Err(Error::usage(text).hint(other));
        }
        if role == role::ACCESS_KIND
            && let Some((row, found)) = unknown_kind(column, texts.as_deref())?
        {
            let all: Vec<&str> = AccessKind::ALL.iter().map(|kind| kind.name()).collect();
            let row = before + row;
            let text = format!("column `{name}` has `{found}` in row {row}, which is no kind of access");
            let hint = format!("kinds, by name or by number from 0: {}; {other}", all.join(", "));
            return Err(Error::usage(text).hint(hint));
        }
        before += column.len();
    }
    Ok(())
}

/// The first value that is not an access kind, and its row.
fn unknown_kind(column: &ArrayRef, texts: Option<&[Option<&str>]>) -> Result<Option<(usize, String)>> {
    Ok(match texts {
        Some(texts) => {
            let mut texts = texts.iter().map(|text| text.unwrap_or_default()).enumerate();
            texts.find(|(_, text)| access_kind_of(text).is_none()).map(|(row, text)| (row, text.to_owned()))
        }
        None => {
            let mut numbers = numbers("", column)?.into_iter().enumerate();
            let unknown = numbers.find(|(_, number)| *number >= AccessKind::ALL.len() as u64);
            let signed = column.data_type().is_signed_integer();
            let text =
                |number: u64| if signed { number.cast_signed().to_string() } else { number.to_string() };
            unknown.map(|(row, number)| (row, text(number)))
        }
    })
}

/// Checks that times are whole numbers and not negative.
fn check_times(position: usize, batches: &[RecordBatch]) -> Result<()> {
    let mut before = 0;
    for batch in batches {
        let column = batch.column(position);
        if !column.data_type().is_integer() {
            let found = column.data_type();
            let text = format!("column `{TIME}` wants whole numbers, ticks of the clock, found {found}");
            return Err(Error::usage(text));
        }
        let times = numbers(TIME, column)?;
        let negative = times.iter().position(|time| time.cast_signed() < 0);
        if let Some(row) = negative.filter(|_| column.data_type().is_signed_integer()) {
            let (time, row_of_all) = (times[row].cast_signed(), before + row);
            return Err(Error::usage(format!(
                "column `{TIME}` has `{time}` in row {row_of_all}: times are from 0"
            )));
        }
        before += column.len();
    }
    Ok(())
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
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Ty::Text,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            Ty::Bytes
        }
        // Too many names for an enumeration.
        DataType::Dictionary(_, values)
            if matches!(**values, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) =>
        {
            Ty::Text
        }
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
    Texts(usize, Vec<Option<&'b str>>),
    Bytes(usize, Vec<Option<&'b [u8]>>),
}

impl<'b> Cells<'b> {
    fn of(array: &'b ArrayRef, source: &Source) -> Result<Cells<'b>> {
        let at = source.at;
        if !source.names.is_empty() {
            let numbers: HashMap<&str, u64> = source.names.iter().map(String::as_str).zip(0..).collect();
            let texts = Cells::texts_of(array).unwrap_or_default();
            let number = |text: &Option<&str>| text.and_then(|text| numbers.get(text)).copied().unwrap_or(0);
            return Ok(Cells::Numbers { at, width: 4, values: texts.iter().map(number).collect() });
        }
        if let Some(texts) = Cells::texts_of(array) {
            return Ok(Cells::Texts(at, texts));
        }
        if let Some(bytes) = bytes(array) {
            return Ok(Cells::Bytes(at, bytes));
        }
        let width = array.data_type().primitive_width().unwrap_or(1);
        Ok(Cells::Numbers { at, width, values: numbers("", array)? })
    }

    /// The text of each row of a text or dictionary column.
    fn texts_of(array: &'b ArrayRef) -> Option<Vec<Option<&'b str>>> {
        let Some(dictionary) = array.as_any_dictionary_opt() else { return texts(array) };
        let names = texts(dictionary.values())?;
        // With an empty dictionary, all rows are null.
        if names.is_empty() {
            return Some(vec![None; array.len()]);
        }
        Some(dictionary.normalized_keys().into_iter().map(|key| names.get(key).copied().flatten()).collect())
    }

    fn put(&self, row: usize, body: &mut Body<'_>) {
        match self {
            Cells::Numbers { at, width, values } => body.put(*at, &values[row].to_le_bytes()[..*width]),
            Cells::Texts(at, texts) => {
                let text = texts[row].unwrap_or_default();
                body.append(*at, text.as_bytes(), text.len());
            }
            Cells::Bytes(at, bytes) => {
                let bytes = bytes[row].unwrap_or_default();
                body.append(*at, bytes, bytes.len());
            }
        }
    }
}

/// The bits of all numbers of a column, extended to 64 bits; 0 for nulls.
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
        // Sign-extended.
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
