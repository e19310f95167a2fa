//! A decoder of Arrow bodies (encoding 18) for this example: rows of integers, such as those of the samples.
//!
//! The crate of the container only knows the number of the encoding. `quipu-streamed` brings the decoder of all types, in a
//! layer above, on which a program of this crate cannot depend.
//!
//! SPEC: stream.md#rows

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_ipc::reader::StreamReader as IpcReader;
use quipu_stream::batch::Batch;
use quipu_stream::column::Column;
use quipu_stream::decode::{Registry, RowDecoder};
use quipu_stream::frame::{Header, encoding};
use quipu_stream::meta::Metadata;
use std::sync::Arc;

/// Name of the column with the times.
const TIMES: &str = "_ts";
/// Key of the Arrow metadata that holds the number of the schema.
const SCHEMA: &str = "quipu.schema";

/// The decoders of this example.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.register(encoding::ARROW, Arc::new(ArrowRows));
    registry
}

/// Decodes complete Arrow streams, each with the rows of one schema.
struct ArrowRows;

impl RowDecoder for ArrowRows {
    fn decode(&self, _: &Header, payload: &[u8], metadata: &Metadata, batch: &mut Batch) -> (u64, bool) {
        let Ok(reader) = IpcReader::try_new(payload, None) else { return (0, false) };
        let arrow = reader.schema();
        let id = arrow.metadata().get(SCHEMA).and_then(|id| id.parse().ok());
        // Rows of an undescribed schema are skipped, like those of unknown encodings.
        let Some(schema) = id.and_then(|id| metadata.schema(id)) else { return (0, true) };
        let rows = batch.table_mut(schema);
        let mut is_whole = rows.columns.iter().all(is_of_integers);
        for part in reader {
            let Some(part) = part.ok().filter(|_| is_whole) else {
                is_whole = false;
                break;
            };
            let numbers = |name: &str| part.column_by_name(name).and_then(numbers);
            let fields = schema.fields.iter().map(|field| numbers(&field.field.name));
            let (Some(times), Some(fields)) = (numbers(TIMES), fields.collect::<Option<Vec<_>>>()) else {
                is_whole = false;
                break;
            };
            let first = rows.ordinals.len() as u32; // Fewer rows than a frame has bytes.
            rows.ordinals.extend(first..first + times.len() as u32);
            rows.times.extend(times.iter().map(|time| *time as u64)); // Times are unsigned.
            rows.columns.iter_mut().zip(&fields).for_each(|(column, numbers)| extend(column, numbers));
        }
        let n = rows.len() as u64;
        batch.settle();
        (n, is_whole)
    }
}

/// The numbers of a column of integers; `None` for a column of another type.
fn numbers(column: &ArrayRef) -> Option<Vec<i128>> {
    macro_rules! first_of {
        ($($ty:ty),*) => {
            None$(.or_else(|| {
                let column = column.as_primitive_opt::<$ty>()?;
                Some(column.values().iter().map(|number| i128::from(*number)).collect())
            }))*
        };
    }
    first_of!(UInt8Type, UInt16Type, UInt32Type, UInt64Type, Int8Type, Int16Type, Int32Type, Int64Type)
}

/// Whether a field holds integers of at most 64 bits.
fn is_of_integers(column: &Column) -> bool {
    use Column::{I8, I16, I32, I64, U8, U16, U32, U64};
    matches!(column, U8(_) | U16(_) | U32(_) | U64(_) | I8(_) | I16(_) | I32(_) | I64(_))
}

/// Appends numbers to a column that [is of integers](is_of_integers), each cut to the width of the field.
fn extend(column: &mut Column, numbers: &[i128]) {
    macro_rules! cut {
        ($all:expr, $ty:ty) => {
            $all.extend(numbers.iter().map(|number| *number as $ty))
        };
    }
    match column {
        Column::U8(all) => cut!(all, u8),
        Column::U16(all) => cut!(all, u16),
        Column::U32(all) => cut!(all, u32),
        Column::U64(all) => cut!(all, u64),
        Column::I8(all) => cut!(all, i8),
        Column::I16(all) => cut!(all, i16),
        Column::I32(all) => cut!(all, i32),
        Column::I64(all) => cut!(all, i64),
        _ => {}
    }
}
