//! Tables of any sort as Arrow's record batches: the proof that their schemas say all that other programs need.
//!
//! Vectors change hands without a copy, but for columns of bits and of decoded names. This is not the library's door to Arrow.

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::UInt32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, RecordBatch, RecordBatchOptions, StringArray, StructArray,
    UInt8Array, UInt16Array, UInt32Array, UInt64Array, new_null_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field as ArrowField, Fields, Schema as ArrowSchema};
use quipu_model::column::{Bits, Cells, Column};
use quipu_model::schema::{Field, Missing, Names, Storage, Type};
use quipu_model::{Batch, Table, TableBuf};
use std::collections::HashMap;
use std::sync::Arc;

/// What indexes of columns point into: dictionaries, instructions, functions.
#[derive(Clone, Copy)]
pub struct Context<'a>(pub &'a Batch);

impl Context<'_> {
    /// The text that an index of a column stands for.
    fn text(self, ty: &Type, index: u32) -> Option<String> {
        let batch = self.0;
        match ty {
            Type::Dict(dict) => batch.dicts.get(*dict, index).map(lossy),
            Type::Function => batch.types.function(index).map(|function| lossy(&function.name)),
            Type::Code => batch.codes.get(index).map(|code| code.bytes().iter().map(hex).collect()),
            _ => None,
        }
    }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

fn hex(byte: &u8) -> String {
    format!("{byte:02x}")
}

/// The schema of a table.
pub fn schema(table: &dyn Table) -> ArrowSchema {
    let schema = table.schema();
    let mut about = HashMap::from([("name".to_owned(), schema.name.to_string())]);
    about.insert("doc".to_owned(), schema.doc.to_string());
    ArrowSchema::new_with_metadata(schema.fields.iter().map(field).collect::<Fields>(), about)
}

fn field(field: &Field) -> ArrowField {
    let mut about = HashMap::from([("doc".to_owned(), field.doc.to_string())]);
    about.extend(field.role.map(|role| ("role".to_owned(), role.0.to_string())));
    about.extend(field.unit.0.as_ref().map(|unit| ("unit".to_owned(), unit.to_string())));
    // A column that was not asked for has no values, so that any may be missing.
    ArrowField::new(field.name.as_ref(), data_type(&field.ty), true).with_metadata(about)
}

fn names_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8))
}

/// What values of a type are called there.
pub fn data_type(ty: &Type) -> DataType {
    match ty {
        Type::Bool => DataType::Boolean,
        Type::Enum(_) | Type::Dict(_) | Type::Function | Type::Code => names_type(),
        Type::Text => DataType::Utf8,
        Type::Bytes => DataType::Binary,
        Type::List(item) => DataType::List(Arc::new(field(item))),
        Type::Struct(members) => DataType::Struct(members.iter().map(field).collect()),
        _ => match ty.storage() {
            Storage::U8 => DataType::UInt8,
            Storage::U16 => DataType::UInt16,
            Storage::U32 => DataType::UInt32,
            Storage::I8 => DataType::Int8,
            Storage::I16 => DataType::Int16,
            Storage::I32 => DataType::Int32,
            Storage::I64 => DataType::Int64,
            Storage::F32 => DataType::Float32,
            Storage::F64 => DataType::Float64,
            Storage::Fixed(width) => DataType::FixedSizeBinary(width as i32), // Widths are small.
            _ => DataType::UInt64,
        },
    }
}

/// All rows of a table.
///
/// # Errors
/// If the columns are not what the schema says.
pub fn record_batch(table: Box<dyn TableBuf>, context: Context<'_>) -> Result<RecordBatch, ArrowError> {
    let (arrow, fields, n_rows) = (schema(&*table), table.schema().clone(), table.n_rows());
    record_batch_of(arrow, &fields.fields, table.into_columns(), n_rows, context)
}

/// All rows of columns with these fields.
///
/// # Errors
/// If the columns are not what the fields say.
pub fn record_batch_of(
    schema: ArrowSchema,
    fields: &[Field],
    columns: Vec<Column>,
    n_rows: usize,
    context: Context<'_>,
) -> Result<RecordBatch, ArrowError> {
    let arrays = fields.iter().zip(columns).map(|(field, column)| array(field, column, n_rows, context));
    let options = RecordBatchOptions::new().with_row_count(Some(n_rows));
    RecordBatch::try_new_with_options(Arc::new(schema), arrays.collect::<Result<_, _>>()?, &options)
}

/// Which rows have a value, if not all.
fn nulls(field: &Field, column: &Column) -> Option<NullBuffer> {
    match field.missing {
        Missing::Never => None,
        Missing::Is(sentinel) => {
            let cells = column.as_ref();
            Some((0..cells.len()).map(|row| cells.number(row) != sentinel).collect::<Vec<bool>>().into())
        }
        Missing::Bitmap => column.valid.as_ref().map(|bits| NullBuffer::new(bit_buffer(bits))),
    }
}

fn bit_buffer(bits: &Bits) -> BooleanBuffer {
    BooleanBuffer::new(Buffer::from_vec(bits.words().to_vec()), 0, bits.len())
}

/// Names of numbers as a dictionary; numbers without a name are written.
fn named(
    numbers: impl Iterator<Item = Option<u64>>,
    text: impl Fn(u64) -> Option<String>,
) -> Result<ArrayRef, ArrowError> {
    let mut names = StringDictionaryBuilder::<UInt32Type>::new();
    for number in numbers {
        names.append_option(number.map(|number| text(number).unwrap_or_else(|| number.to_string())));
    }
    Ok(Arc::new(names.finish()))
}

fn enum_text(names: &Names, number: u64) -> Option<String> {
    names.get(number).map(str::to_owned)
}

/// A column of `n_rows` values; one that was not asked for has none in any row.
fn array(field: &Field, column: Column, n_rows: usize, context: Context<'_>) -> Result<ArrayRef, ArrowError> {
    if column.is_empty() && n_rows > 0 {
        return Ok(new_null_array(&data_type(&field.ty), n_rows));
    }
    let nulls = nulls(field, &column);
    let number = |row: usize| {
        let cells = column.as_ref();
        (!cells.is_missing(field.missing, row)).then(|| cells.number(row))
    };
    match &field.ty {
        Type::Bool => {
            let bits = (0..column.len()).map(|row| column.as_ref().number(row) != 0).collect();
            return Ok(Arc::new(BooleanArray::new(bits, nulls)));
        }
        Type::Enum(names) => return named((0..column.len()).map(number), |number| enum_text(names, number)),
        Type::Dict(_) | Type::Function | Type::Code => {
            let text = |number| context.text(&field.ty, u32::try_from(number).ok()?);
            return named((0..column.len()).map(number), text);
        }
        _ => {}
    }
    Ok(match column.cells {
        Cells::U8(cells) => Arc::new(UInt8Array::new(cells.into(), nulls)),
        Cells::U16(cells) => Arc::new(UInt16Array::new(cells.into(), nulls)),
        Cells::U32(cells) => Arc::new(UInt32Array::new(cells.into(), nulls)),
        Cells::U64(cells) => Arc::new(UInt64Array::new(cells.into(), nulls)),
        Cells::I8(cells) => Arc::new(Int8Array::new(cells.into(), nulls)),
        Cells::I16(cells) => Arc::new(Int16Array::new(cells.into(), nulls)),
        Cells::I32(cells) => Arc::new(Int32Array::new(cells.into(), nulls)),
        Cells::I64(cells) => Arc::new(Int64Array::new(cells.into(), nulls)),
        Cells::F32(cells) => Arc::new(Float32Array::new(cells.into(), nulls)),
        Cells::F64(cells) => Arc::new(Float64Array::new(cells.into(), nulls)),
        Cells::Fixed { width, bytes } => {
            Arc::new(FixedSizeBinaryArray::try_new(width as i32, bytes.into(), nulls)?) // Widths are small.
        }
        Cells::Strings(strings) => {
            let (offsets, bytes) = strings.into_parts();
            let offsets = offset_buffer(offsets);
            match field.ty {
                Type::Text => Arc::new(StringArray::try_new(offsets, bytes.into(), nulls)?),
                _ => Arc::new(BinaryArray::try_new(offsets, bytes.into(), nulls)?),
            }
        }
        Cells::Nested { offsets, items } => {
            let Type::List(item) = &field.ty else { return Err(mismatch(field)) };
            let n_items = items.len();
            let values = array(item, *items, n_items, context)?;
            Arc::new(ListArray::try_new(Arc::new(self::field(item)), offset_buffer(offsets), values, nulls)?)
        }
        Cells::Members(columns) => {
            let Type::Struct(members) = &field.ty else { return Err(mismatch(field)) };
            let values =
                members.iter().zip(columns).map(|(member, column)| array(member, column, n_rows, context));
            let fields = members.iter().map(self::field).collect();
            Arc::new(StructArray::try_new_with_length(
                fields,
                values.collect::<Result<_, _>>()?,
                nulls,
                n_rows,
            )?)
        }
    })
}

/// Offsets; there is one even without rows.
fn offset_buffer(offsets: Vec<i32>) -> OffsetBuffer<i32> {
    if offsets.is_empty() {
        OffsetBuffer::new_empty()
    } else {
        OffsetBuffer::new(ScalarBuffer::from(offsets))
    }
}

fn mismatch(field: &Field) -> ArrowError {
    ArrowError::SchemaError(format!("column `{}` has other values than its type says", field.name))
}

/// How many values of a column are missing.
pub fn null_count(batch: &RecordBatch, column: &str) -> Option<usize> {
    batch.column_by_name(column).map(Array::logical_null_count)
}
