//! A body that needs a library is read by a registered decoder; without one it is counted and skipped.

use crate::vectors::{FOLDER, bytes, differences, findings_differ, parsed, summary_of};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_ipc::reader::StreamReader as IpcReader;
use quipu_stream::batch::Batch;
use quipu_stream::column::Column;
use quipu_stream::decode::{Registry, RowDecoder};
use quipu_stream::frame::{Header, encoding};
use quipu_stream::meta::Metadata;
use quipu_stream::reader::StreamReader;
use quipu_stream::summary;
use std::sync::Arc;

/// Decodes Arrow streams of unsigned numbers, as the sample has them: times in `_ts`, fields by name, the schema's id as
/// metadata.
struct Arrow;

impl RowDecoder for Arrow {
    fn decode(&self, _: &Header, payload: &[u8], metadata: &Metadata, batch: &mut Batch) -> (u64, bool) {
        let Ok(reader) = IpcReader::try_new(payload, None) else { return (0, false) };
        let arrow = reader.schema();
        let id = arrow.metadata().get("quipu.schema").and_then(|id| id.parse().ok());
        let Some(schema) = id.and_then(|id| metadata.schema(id)) else { return (0, true) };
        let rows = batch.table_mut(schema);
        for part in reader {
            let Ok(part) = part else { return (rows.len() as u64, false) };
            let first = rows.ordinals.len() as u32;
            rows.ordinals.extend(first..first + part.num_rows() as u32);
            rows.times.extend(numbers(&part, "_ts"));
            for (column, field) in rows.columns.iter_mut().zip(&schema.fields) {
                let values = numbers(&part, &field.field.name);
                match column {
                    Column::U8(all) => all.extend(values.map(|n| n as u8)),
                    Column::U16(all) => all.extend(values.map(|n| n as u16)),
                    Column::U32(all) => all.extend(values.map(|n| n as u32)),
                    Column::U64(all) => all.extend(values),
                    other => panic!("the sample has no such column: {other:?}"),
                }
            }
        }
        let n = rows.len() as u64;
        batch.settle();
        (n, true)
    }
}

/// Iterates over a column of unsigned numbers.
fn numbers<'a>(part: &'a RecordBatch, name: &str) -> Box<dyn Iterator<Item = u64> + 'a> {
    let column = part.column_by_name(name).unwrap();
    match column.data_type().primitive_width().unwrap() {
        1 => Box::new(column.as_primitive::<UInt8Type>().values().iter().map(|n| u64::from(*n))),
        2 => Box::new(column.as_primitive::<UInt16Type>().values().iter().map(|n| u64::from(*n))),
        4 => Box::new(column.as_primitive::<UInt32Type>().values().iter().map(|n| u64::from(*n))),
        _ => Box::new(column.as_primitive::<UInt64Type>().values().iter().copied()),
    }
}

#[test]
fn a_body_of_arrow_is_read_by_a_decoder_that_is_registered() {
    let text = std::fs::read_to_string(format!("{FOLDER}/arrow-body.quipu.expect.json")).unwrap();
    let wanted = serde_json::from_str(&text).unwrap();
    let mut registry = Registry::default();
    registry.register(encoding::ARROW, Arc::new(Arrow));
    let bytes = bytes("arrow-body");
    let mut reader = StreamReader::new(&bytes[..]).with_registry(registry);
    let said = parsed(&summary::of(&mut reader).unwrap());
    assert_eq!(said["records"].as_array().unwrap().len(), 5);
    assert_eq!(differences("arrow-body", &said, &wanted), [""; 0]);
}

#[test]
fn a_body_of_arrow_without_a_decoder_is_counted_and_skipped() {
    let summary = summary_of(&bytes("arrow-body"));
    let wanted = serde_json::json!([{"name": "unknown-encoding", "offset": 520, "records": 5}]);
    assert_eq!(findings_differ(&summary["findings"], &wanted), None);
}
