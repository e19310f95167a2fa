//! Every table and lens of every format survives a round trip through Arrow and Parquet.

use arrow_array::Array;
use arrow_ipc::reader::{FileReader, StreamReader};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use quipu::engine::{Selection, row_names, rows};
use quipu::model::column::Column;
use quipu::model::{ColumnTable, Error, Schema, Table, Trace};
use quipu_arrow::{Decoder, Encoder, Form, Interop, Packing, Sink};
use quipu_testkit::described::DescribedTrace;
use quipu_testkit::fixtures;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

/// A trace with columns of all types and all representations of missing values.
const ALL_TYPES: &str = "described
table all columns of all types
field bool bool
field u8 u8
field u16 u16 missing=65535
field u32 u32
field u64 u64
field i8 i8
field i16 i16
field i32 i32
field i64 i64 optional
field f32 f32
field f64 f64
field fixed fixed:2
field address address
field time time:1
field enum enum:u16 names=1:one,900:many
field flags flags:u8 names=1:a,2:b
field dict dict:3
field text text optional
field bytes bytes
field list list:i32
field struct struct:a=u8,b=text
row 1 2 65535 4 5 -6 -7 -8 - 0.5 -0.25 ab 0x10 99 900 3 word - raw 1,-2 7;x
row 0 0 7 0 0 0 0 0 -9 0 0 cd 0 0 3 0 other text raw - 0;y
";

fn traces() -> Vec<(PathBuf, Arc<dyn Trace>)> {
    let described = DescribedTrace::parse(ALL_TYPES.as_bytes()).unwrap();
    let described: Arc<dyn Trace> = Arc::new(described);
    let calls = fixtures("apitrace/kinds.trace");
    let opened = quipu::open_path(&calls, &quipu::model::OpenOptions::default()).unwrap();
    let more = [(PathBuf::from("all types"), described), (calls, Arc::from(opened))];
    crate::rows::traces().into_iter().chain(more).collect()
}

/// Names of the rows of a trace, including learned tables, but only some of those tables.
fn names(trace: &dyn Trace) -> Vec<String> {
    trace.learn().unwrap();
    let (lenses, tables): (Vec<_>, Vec<_>) =
        row_names(trace).unwrap().into_iter().partition(|name| name.starts_with("lens."));
    tables.into_iter().take(12).chain(lenses).collect()
}

fn append(all: &mut [Column], columns: Vec<Column>) {
    for (to, from) in all.iter_mut().zip(columns) {
        to.extend_rows(from.as_ref(), 0..from.len());
    }
}

fn empty(schema: &Schema) -> Vec<Column> {
    schema.fields.iter().map(Column::new).collect()
}

/// All rows of a table or lens.
fn plain(trace: &Arc<dyn Trace>, name: &str) -> Result<ColumnTable, Error> {
    let mut stream = rows(trace.clone(), &Selection::new(name))?;
    let mut table = ColumnTable::new(stream.schema().clone());
    for batch in &mut stream {
        append(&mut table.columns, Box::new(batch?).into_columns());
    }
    Ok(table)
}

/// Writes all rows of a table or lens to a file, in small batches.
fn written(trace: &Arc<dyn Trace>, name: &str, form: Form, interop: Interop) -> Vec<u8> {
    let stream = rows(trace.clone(), &Selection { batch_rows: 300, ..Selection::new(name) }).unwrap();
    let mut encoder = Encoder::new(stream.schema(), interop, &[]).unwrap();
    let mut sink = Sink::new(form, encoder.schema(), Packing::default(), Vec::new()).unwrap();
    for batch in stream {
        let batch =
            encoder.encode(Box::new(batch.unwrap())).unwrap_or_else(|error| panic!("{name}: {error}"));
        sink.write(&batch).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    sink.finish().unwrap()
}

/// Reads the rows of a file.
fn read(bytes: Vec<u8>, form: Form) -> (Arc<Schema>, Vec<Column>) {
    let (schema, batches): (_, Vec<_>) = match form {
        Form::Parquet => {
            let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).unwrap();
            (reader.schema().clone(), reader.build().unwrap().map(Result::unwrap).collect())
        }
        Form::File => {
            let reader = FileReader::try_new(Cursor::new(bytes), None).unwrap();
            (reader.schema(), reader.map(Result::unwrap).collect())
        }
        Form::Stream => {
            let reader = StreamReader::try_new(Cursor::new(bytes), None).unwrap();
            (reader.schema(), reader.map(Result::unwrap).collect())
        }
    };
    let decoder = Decoder::new(&schema, "").unwrap();
    let mut all = empty(decoder.schema());
    batches.iter().for_each(|batch| append(&mut all, decoder.decode(batch).unwrap().columns));
    (decoder.schema().clone(), all)
}

#[test]
fn all_tables_and_lenses_come_back_from_arrow_and_parquet() {
    let ways = [
        (Form::Stream, Interop::Any),
        (Form::File, Interop::Any),
        (Form::Parquet, Interop::Any),
        (Form::Parquet, Interop::Spark),
    ];
    let (mut seen, mut lenses) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    for (path, trace) in traces() {
        for name in names(&*trace) {
            let expected = plain(&trace, &name).unwrap();
            for (form, interop) in ways {
                let (schema, columns) = read(written(&trace, &name, form, interop), form);
                let what = format!("{}: {name} as {form:?} for {interop:?}", path.display());
                assert_eq!(&schema, expected.schema(), "{what}");
                for ((field, found), column) in schema.fields.iter().zip(&columns).zip(&expected.columns) {
                    assert!(found == column, "{what}, {}: {found:?} instead of {column:?}", field.name);
                }
            }
            if name.starts_with("lens.") {
                *lenses.entry(name.clone()).or_default() += expected.n_rows();
            }
            seen.insert(format!("{} {name}", trace.meta().format));
        }
    }
    for lens in crate::rows::LENSES {
        assert!(lenses[&format!("lens.{lens}")] > 0, "no trace fills {lens}");
    }
    assert!(seen.contains("described all") && seen.contains("cacheray records"), "{seen:?}");
    assert!(seen.iter().any(|name| name.starts_with("apitrace call.")), "{seen:?}");
}

#[test]
fn what_is_missing_is_null() {
    let described: Arc<dyn Trace> = Arc::new(DescribedTrace::parse(ALL_TYPES.as_bytes()).unwrap());
    let stream = rows(described, &Selection::new("all")).unwrap();
    let mut encoder = Encoder::new(stream.schema(), Interop::Any, &[]).unwrap();
    let mut nulls = BTreeMap::new();
    for batch in stream {
        let batch = encoder.encode(Box::new(batch.unwrap())).unwrap();
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            *nulls.entry(field.name().clone()).or_insert(0) += column.logical_null_count();
        }
    }
    let missing: Vec<_> =
        nulls.iter().filter(|(_, n)| **n > 0).map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(missing, [("i64", 1), ("text", 1), ("u16", 1)]);
}
