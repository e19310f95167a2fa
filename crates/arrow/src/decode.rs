//! Arrow's arrays as columns of tables.

use crate::names::number;
use crate::schema::table_schema;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema as ArrowSchema};
use quipu_model::column::{Cells, Column, Strings};
use quipu_model::schema::{Field, Missing, Storage, Type};
use quipu_model::table::ColumnTable;
use quipu_model::{Error, ErrorKind, Result, Schema};
use std::sync::Arc;

/// Turns record batches of one schema into rows of a table.
#[derive(Clone, Debug)]
pub struct Decoder {
    schema: Arc<Schema>,
}

impl Decoder {
    /// Creates a decoder for batches of this schema. `name` is the table's name if the schema has none.
    ///
    /// # Errors
    /// As [`table_schema`].
    pub fn new(schema: &ArrowSchema, name: &str) -> Result<Decoder> {
        Ok(Decoder { schema: Arc::new(table_schema(schema, name)?) })
    }

    /// The schema of the rows.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Converts the rows of a batch.
    ///
    /// # Errors
    /// `Damaged` if the columns do not match the schema.
    pub fn decode(&self, batch: &RecordBatch) -> Result<ColumnTable> {
        let mut table = ColumnTable::new(self.schema.clone());
        if batch.num_columns() != table.columns.len() {
            return Err(Error::new(ErrorKind::Damaged, "a batch has other columns than its schema"));
        }
        for ((to, field), from) in table.columns.iter_mut().zip(&self.schema.fields).zip(batch.columns()) {
            append(to, field, from)?;
        }
        Ok(table)
    }
}

/// Converts an array to a column.
///
/// # Errors
/// `Damaged` if the values do not match the field.
pub(crate) fn column_of(field: &Field, from: &ArrayRef) -> Result<Column> {
    let mut column = Column::new(field);
    append(&mut column, field, from)?;
    Ok(column)
}

/// Appends all values of an array to an empty column.
fn append(to: &mut Column, field: &Field, from: &ArrayRef) -> Result<()> {
    let wrong = || {
        let message = format!("column `{}` has values of type {}", field.name, from.data_type());
        Error::new(ErrorKind::Damaged, message)
    };
    let n_rows = from.len();
    let is_null = |row: usize| from.is_null(row);
    match (&field.ty, &mut to.cells) {
        (Type::Bool, Cells::U8(cells)) => {
            let bits = from.as_boolean_opt().ok_or_else(wrong)?;
            cells.extend((0..n_rows).map(|row| u8::from(!is_null(row) && bits.value(row))));
        }
        (Type::Enum(names), _) => {
            let texts = Texts::of(from).ok_or_else(wrong)?;
            // Each entry of a dictionary is looked up once.
            let of_entry: Vec<Option<u64>> = (0..texts.n_entries())
                .map(|at| texts.entry(at).and_then(|text| number(names, text)))
                .collect();
            for row in 0..n_rows {
                let value = match is_null(row) {
                    true => none(field.missing),
                    false => {
                        texts.at(row).and_then(|at| of_entry.get(at).copied().flatten()).ok_or_else(wrong)?
                    }
                };
                push_number(&mut to.cells, value, &wrong)?;
            }
        }
        (Type::Text, Cells::Strings(strings)) => match Texts::of(from) {
            Some(texts) => {
                for row in 0..n_rows {
                    let text = texts.at(row).filter(|_| !is_null(row)).and_then(|at| texts.entry(at));
                    push_text(strings, text.unwrap_or_default().as_bytes())?;
                }
            }
            None => decimals(strings, from).ok_or_else(wrong)?,
        },
        (Type::Bytes, Cells::Strings(strings)) => {
            let value = |row: usize| match from.data_type() {
                DataType::LargeBinary => from.as_binary_opt::<i64>().map(|all| all.value(row)),
                DataType::BinaryView => from.as_binary_view_opt().map(|all| all.value(row)),
                _ => from.as_binary_opt::<i32>().map(|all| all.value(row)),
            };
            for row in 0..n_rows {
                let bytes = if is_null(row) { &[] } else { value(row).ok_or_else(wrong)? };
                push_text(strings, bytes)?;
            }
        }
        (Type::Fixed(width), Cells::Fixed { bytes: to, .. }) => {
            let bytes = from.as_fixed_size_binary_opt().ok_or_else(wrong)?;
            for row in 0..n_rows {
                match is_null(row) {
                    true => to.resize(to.len() + *width as usize, 0),
                    false => to.extend_from_slice(bytes.value(row)),
                }
            }
        }
        (Type::List(item), Cells::Nested { offsets, items }) => {
            let (all, values) = list_parts(from).ok_or_else(wrong)?;
            let (first, last) = (all[0], all[all.len() - 1]);
            // Arrow's offsets are never negative and never decrease.
            let (start, n) = (first as usize, last.saturating_sub(first) as usize);
            append(items, item, &values.slice(start, n))?;
            if n_rows > 0 {
                let offset = |offset: &i64| i32::try_from(offset - first).map_err(|_| wrong());
                for one in &all {
                    offsets.push(offset(one)?);
                }
            }
        }
        (Type::Struct(members), Cells::Members(columns)) => {
            let fields = from.as_struct_opt().ok_or_else(wrong)?;
            if fields.num_columns() != members.len() || fields.num_columns() == 0 {
                return Err(wrong());
            }
            for ((to, member), from) in columns.iter_mut().zip(members.iter()).zip(fields.columns()) {
                append(to, member, from)?;
            }
        }
        (ty, cells) => numbers(cells, ty.storage(), from, field.missing).ok_or_else(wrong)?,
    }
    if let Some(valid) = &mut to.valid {
        match from.logical_nulls() {
            None => valid.push_all(true, n_rows),
            Some(nulls) => nulls.iter().for_each(|is_valid| valid.push(is_valid)),
        }
    }
    Ok(())
}

/// The number stored for a row without a value.
fn none(missing: Missing) -> u64 {
    match missing {
        Missing::Is(sentinel) => sentinel,
        Missing::Never | Missing::Bitmap => 0,
    }
}

fn push_number(cells: &mut Cells, number: u64, wrong: &dyn Fn() -> Error) -> Result<()> {
    match cells {
        Cells::U8(cells) => cells.push(u8::try_from(number).map_err(|_| wrong())?),
        Cells::U16(cells) => cells.push(u16::try_from(number).map_err(|_| wrong())?),
        Cells::U32(cells) => cells.push(u32::try_from(number).map_err(|_| wrong())?),
        Cells::U64(cells) => cells.push(number),
        _ => return Err(wrong()),
    }
    Ok(())
}

/// Maximum bytes of text that are appended to a column at once: its offsets have 31 bits.
const MAX_TEXT_BYTES: usize = 1 << 30;

fn push_text(strings: &mut Strings, bytes: &[u8]) -> Result<()> {
    let n_bytes = strings.n_bytes().saturating_add(bytes.len());
    if n_bytes > MAX_TEXT_BYTES {
        return Err(Error::limit("bytes of texts in a batch", n_bytes as u64, MAX_TEXT_BYTES as u64));
    }
    strings.push(bytes);
    Ok(())
}

/// Appends numbers with decimal places as texts.
fn decimals(strings: &mut Strings, from: &ArrayRef) -> Option<()> {
    for row in 0..from.len() {
        let text = match from.data_type() {
            _ if from.is_null(row) => String::new(),
            DataType::Decimal128(..) => from.as_primitive_opt::<Decimal128Type>()?.value_as_string(row),
            DataType::Decimal256(..) => from.as_primitive_opt::<Decimal256Type>()?.value_as_string(row),
            _ => return None,
        };
        strings.push(text.as_bytes());
    }
    Some(())
}

/// Offsets of the lists, including the end of the last one, and the items of all lists.
fn list_parts(from: &ArrayRef) -> Option<(Vec<i64>, ArrayRef)> {
    if let Some(lists) = from.as_list_opt::<i32>() {
        return Some((
            lists.value_offsets().iter().map(|at| i64::from(*at)).collect(),
            lists.values().clone(),
        ));
    }
    if let Some(lists) = from.as_list_opt::<i64>() {
        return Some((lists.value_offsets().to_vec(), lists.values().clone()));
    }
    let lists = from.as_fixed_size_list_opt()?;
    let offsets = (0..=lists.len()).map(|row| row as i64 * i64::from(lists.value_length()));
    Some((offsets.collect(), lists.values().clone()))
}

/// Texts, stored one per row or as entries of a dictionary.
struct Texts<'a> {
    keys: Option<Keys<'a>>,
    entries: Entries<'a>,
}

/// Dictionary index of each row.
enum Keys<'a> {
    I32(&'a arrow_array::Int32Array),
    /// Indexes of another width; negative for a row without a value.
    Other(Vec<i64>),
}

enum Entries<'a> {
    Short(&'a arrow_array::StringArray),
    Long(&'a arrow_array::LargeStringArray),
    View(&'a arrow_array::StringViewArray),
}

impl<'a> Texts<'a> {
    fn of(array: &'a ArrayRef) -> Option<Texts<'a>> {
        if let Some(dictionary) = array.as_dictionary_opt::<Int32Type>() {
            let entries = Entries::of(dictionary.values())?;
            return Some(Texts { keys: Some(Keys::I32(dictionary.keys())), entries });
        }
        match array.as_any_dictionary_opt() {
            Some(dictionary) => {
                let mut keys = Cells::I64(Vec::new());
                let rows: ArrayRef = arrow_array::make_array(dictionary.keys().to_data());
                numbers(&mut keys, Storage::I64, &rows, Missing::Is(u64::MAX))?;
                let Cells::I64(keys) = keys else { return None };
                let entries = Entries::of(dictionary.values())?;
                Some(Texts { keys: Some(Keys::Other(keys)), entries })
            }
            None => Some(Texts { keys: None, entries: Entries::of(array)? }),
        }
    }

    fn n_entries(&self) -> usize {
        match &self.entries {
            Entries::Short(all) => all.len(),
            Entries::Long(all) => all.len(),
            Entries::View(all) => all.len(),
        }
    }

    fn entry(&self, at: usize) -> Option<&'a str> {
        let is_there = at < self.n_entries();
        match &self.entries {
            Entries::Short(all) => (is_there && all.is_valid(at)).then(|| all.value(at)),
            Entries::Long(all) => (is_there && all.is_valid(at)).then(|| all.value(at)),
            Entries::View(all) => (is_there && all.is_valid(at)).then(|| all.value(at)),
        }
    }

    fn at(&self, row: usize) -> Option<usize> {
        match &self.keys {
            Some(Keys::I32(keys)) => keys.is_valid(row).then(|| usize::try_from(keys.value(row)).ok())?,
            Some(Keys::Other(keys)) => usize::try_from(*keys.get(row)?).ok(),
            None => Some(row),
        }
    }
}

impl<'a> Entries<'a> {
    fn of(array: &'a ArrayRef) -> Option<Entries<'a>> {
        match array.data_type() {
            DataType::Utf8 => array.as_string_opt::<i32>().map(Entries::Short),
            DataType::LargeUtf8 => array.as_string_opt::<i64>().map(Entries::Long),
            DataType::Utf8View => array.as_string_view_opt().map(Entries::View),
            _ => None,
        }
    }
}

/// Converts dates and times to plain integers.
fn plain_numbers(from: &ArrayRef) -> Option<ArrayRef> {
    let plain = match from.data_type() {
        DataType::Date32 | DataType::Time32(_) => DataType::Int32,
        DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) | DataType::Duration(_) => {
            DataType::Int64
        }
        _ => return None,
    };
    let data = from.to_data().into_builder().data_type(plain).build().ok()?;
    Some(arrow_array::make_array(data))
}

/// Appends the bits of numbers of any width; returns `None` if the array does not hold numbers.
fn numbers(cells: &mut Cells, storage: Storage, from: &ArrayRef, missing: Missing) -> Option<()> {
    let plain = plain_numbers(from);
    let from = plain.as_ref().unwrap_or(from);
    if let (Storage::F32, Cells::F32(to), DataType::Float16) = (storage, &mut *cells, from.data_type()) {
        let halves = from.as_primitive_opt::<Float16Type>()?;
        to.extend(halves.iter().map(|half| half.map_or(0.0, |half| half.to_f32())));
        return Some(());
    }
    macro_rules! from_array {
        ($to:expr, $ty:ty, $($Arrow:ident),*) => {
            match from.data_type() {
                $(DataType::$Arrow => {
                    let array = from.as_primitive_opt::<arrow_type!($Arrow)>()?;
                    // Programs without unsigned numbers write the same bits as signed ones.
                    match array.nulls() {
                        None => $to.extend(array.values().iter().map(|value| *value as $ty)),
                        Some(nulls) => $to.extend(array.values().iter().enumerate().map(|(row, value)| {
                            if nulls.is_valid(row) { *value as $ty } else { none(missing) as $ty }
                        })),
                    }
                })*
                _ => return None,
            }
        };
    }
    macro_rules! arrow_type {
        (UInt8) => {
            UInt8Type
        };
        (UInt16) => {
            UInt16Type
        };
        (UInt32) => {
            UInt32Type
        };
        (UInt64) => {
            UInt64Type
        };
        (Int8) => {
            Int8Type
        };
        (Int16) => {
            Int16Type
        };
        (Int32) => {
            Int32Type
        };
        (Int64) => {
            Int64Type
        };
        (Float32) => {
            Float32Type
        };
        (Float64) => {
            Float64Type
        };
    }
    macro_rules! whole {
        ($to:expr, $ty:ty) => {
            from_array!($to, $ty, UInt8, UInt16, UInt32, UInt64, Int8, Int16, Int32, Int64)
        };
    }
    match (storage, cells) {
        (Storage::U8, Cells::U8(to)) => whole!(to, u8),
        (Storage::U16, Cells::U16(to)) => whole!(to, u16),
        (Storage::U32, Cells::U32(to)) => whole!(to, u32),
        (Storage::U64, Cells::U64(to)) => whole!(to, u64),
        (Storage::I8, Cells::I8(to)) => whole!(to, i8),
        (Storage::I16, Cells::I16(to)) => whole!(to, i16),
        (Storage::I32, Cells::I32(to)) => whole!(to, i32),
        (Storage::I64, Cells::I64(to)) => whole!(to, i64),
        (Storage::F32, Cells::F32(to)) => from_array!(to, f32, Float32),
        (Storage::F64, Cells::F64(to)) => from_array!(to, f64, Float64),
        _ => return None,
    }
    Some(())
}
