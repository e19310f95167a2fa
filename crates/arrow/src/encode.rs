//! Columns of tables as Arrow's arrays.

use crate::fault::of_arrow;
use crate::names::NamedColumn;
use crate::schema::{Interop, arrow_field, arrow_schema};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, RecordBatch, RecordBatchOptions, StringArray, StructArray,
    UInt8Array, UInt16Array, UInt32Array, UInt64Array, new_null_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{Field as ArrowField, SchemaRef};
use quipu_model::column::{Bits, Cells, Column};
use quipu_model::schema::{Field, Missing, Type};
use quipu_model::{Error, ErrorKind, Result, Schema, Table};
use std::sync::Arc;

/// Turns rows of one schema into record batches, one after the other. All batches share one dictionary for each column with
/// named numbers.
#[derive(Debug)]
pub struct Encoder {
    schema: SchemaRef,
    fields: Vec<Field>,
    ways: Vec<Way>,
    interop: Interop,
}

/// How a column is encoded, with its dictionary.
#[derive(Debug)]
enum Way {
    Plain,
    Named(Box<NamedColumn>),
    /// Lists and structures, with the encodings of their items or members.
    Inner(Vec<Way>),
}

impl Way {
    fn of(field: &Field) -> Way {
        match &field.ty {
            Type::Enum(names) => Way::Named(Box::new(NamedColumn::new(names.clone()))),
            Type::List(item) => Way::Inner(vec![Way::of(item)]),
            Type::Struct(members) => Way::Inner(members.iter().map(Way::of).collect()),
            _ => Way::Plain,
        }
    }
}

impl Encoder {
    /// Creates an encoder for rows of this schema.
    ///
    /// # Errors
    /// As [`arrow_schema()`].
    pub fn new(schema: &Schema, interop: Interop, about: &[(&str, String)]) -> Result<Encoder> {
        Ok(Encoder {
            schema: Arc::new(arrow_schema(schema, interop, about)?),
            ways: schema.fields.iter().map(Way::of).collect(),
            fields: schema.fields.clone(),
            interop,
        })
    }

    /// The schema of all batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Converts all rows of a table that has the encoder's schema.
    ///
    /// # Errors
    /// `Internal` if the columns do not match the schema.
    pub fn encode(&mut self, table: Box<dyn Table>) -> Result<RecordBatch> {
        let n_rows = table.n_rows();
        let mut arrays = Vec::with_capacity(self.fields.len());
        for (at, column) in table.into_columns().into_iter().enumerate() {
            let (Some(field), Some(way)) = (self.fields.get(at), self.ways.get_mut(at)) else { break };
            arrays.push(array(field, self.schema.field(at), column, n_rows, way, self.interop)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(n_rows));
        RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)
            .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
    }
}

/// Marks the rows that have a value; `None` if all have one.
fn nulls(field: &Field, column: &Column) -> Option<NullBuffer> {
    match field.missing {
        Missing::Never => None,
        Missing::Is(sentinel) => {
            let cells = column.as_ref();
            let bits = BooleanBuffer::collect_bool(cells.len(), |row| cells.number(row) != sentinel);
            Some(NullBuffer::new(bits)).filter(|nulls| nulls.null_count() > 0)
        }
        Missing::Bitmap => column.valid.as_ref().map(|bits| NullBuffer::new(bit_buffer(bits))),
    }
}

fn bit_buffer(bits: &Bits) -> BooleanBuffer {
    BooleanBuffer::new(Buffer::from_vec(bits.words().to_vec()), 0, bits.len())
}

/// Converts a column to an array of `n_rows` values. If the column was not read, no row has a value.
fn array(
    field: &Field,
    arrow: &ArrowField,
    column: Column,
    n_rows: usize,
    way: &mut Way,
    interop: Interop,
) -> Result<ArrayRef> {
    if column.is_empty()
        && n_rows > 0
        && !matches!(&column.cells, Cells::Members(members) if members.is_empty())
    {
        return Ok(new_null_array(arrow.data_type(), n_rows));
    }
    let nulls = nulls(field, &column);
    let wrong = |_| mismatch(field);
    if let (Type::Enum(_), Way::Named(named)) = (&field.ty, &mut *way) {
        let cells = column.as_ref();
        return match &column.cells {
            Cells::U8(cells) => named.encode(cells.iter().map(|cell| u64::from(*cell)), nulls),
            _ => named.encode((0..cells.len()).map(|row| cells.number(row)), nulls),
        };
    }
    if field.ty == Type::Bool {
        let cells = column.as_ref();
        let bits = BooleanBuffer::collect_bool(cells.len(), |row| cells.number(row) != 0);
        return Ok(Arc::new(BooleanArray::new(bits, nulls)));
    }
    let signed = interop == Interop::Spark;
    Ok(match column.cells {
        Cells::U8(cells) if signed => {
            Arc::new(Int16Array::new(cells.into_iter().map(i16::from).collect(), nulls))
        }
        Cells::U16(cells) if signed => {
            Arc::new(Int32Array::new(cells.into_iter().map(i32::from).collect(), nulls))
        }
        Cells::U32(cells) if signed => {
            Arc::new(Int64Array::new(cells.into_iter().map(i64::from).collect(), nulls))
        }
        // The bits do not change.
        Cells::U64(cells) if signed => {
            Arc::new(Int64Array::new(cells.into_iter().map(|cell| cell as i64).collect(), nulls))
        }
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
            let width = i32::try_from(width).map_err(|_| mismatch(field))?;
            Arc::new(FixedSizeBinaryArray::try_new(width, bytes.into(), nulls).map_err(wrong)?)
        }
        Cells::Strings(strings) => {
            let (offsets, bytes) = strings.into_parts();
            let offsets = offset_buffer(offsets);
            match field.ty {
                Type::Text => text_array(offsets, bytes, nulls),
                _ => Arc::new(BinaryArray::try_new(offsets, bytes.into(), nulls).map_err(wrong)?),
            }
        }
        Cells::Nested { offsets, items } => {
            let (Type::List(item), Way::Inner(ways)) = (&field.ty, way) else { return Err(mismatch(field)) };
            let (n_items, inner) = (items.len(), Arc::new(arrow_field(item, interop)?));
            let Some(way) = ways.first_mut() else { return Err(mismatch(field)) };
            let values = array(item, &inner, *items, n_items, way, interop)?;
            Arc::new(ListArray::try_new(inner, offset_buffer(offsets), values, nulls).map_err(of_arrow)?)
        }
        Cells::Members(columns) => {
            let (Type::Struct(members), Way::Inner(ways)) = (&field.ty, way) else {
                return Err(mismatch(field));
            };
            let arrow_schema::DataType::Struct(fields) = arrow.data_type() else {
                return Err(mismatch(field));
            };
            let mut values = Vec::with_capacity(columns.len());
            for (((member, column), way), inner) in members.iter().zip(columns).zip(ways).zip(fields) {
                values.push(array(member, inner, column, n_rows, way, interop)?);
            }
            let made = StructArray::try_new_with_length(fields.clone(), values, nulls, n_rows);
            Arc::new(made.map_err(of_arrow)?)
        }
    })
}

/// Converts texts. A trace may put any bytes into a column of texts; Arrow requires UTF-8.
fn text_array(offsets: OffsetBuffer<i32>, bytes: Vec<u8>, nulls: Option<NullBuffer>) -> ArrayRef {
    let bytes = Buffer::from_vec(bytes);
    if let Ok(array) = StringArray::try_new(offsets.clone(), bytes.clone(), nulls.clone()) {
        return Arc::new(array);
    }
    let text = |row: usize| {
        let (start, end) = (offsets[row] as usize, offsets[row + 1] as usize);
        let is_valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        is_valid.then(|| String::from_utf8_lossy(bytes.get(start..end).unwrap_or(&[])))
    };
    Arc::new((0..offsets.len() - 1).map(text).collect::<StringArray>())
}

/// Converts offsets. Arrow requires one offset even without rows.
fn offset_buffer(offsets: Vec<i32>) -> OffsetBuffer<i32> {
    if offsets.is_empty() {
        OffsetBuffer::new_empty()
    } else {
        OffsetBuffer::new(ScalarBuffer::from(offsets))
    }
}

fn mismatch(field: &Field) -> Error {
    let what = format!("column `{}` has other values than its type says", field.name);
    Error::new(ErrorKind::Internal, what)
}
