//! Every table and lens of every format becomes Arrow's record batches by its schema alone.

use quipu::model::{Batch, OpenOptions, Scan, ShardId, TableBuf};
use quipu_testkit::arrow::{Context, null_count, record_batch, schema};
use quipu_testkit::described::DescribedTrace;
use quipu_testkit::fixtures;
use std::collections::BTreeMap;

/// One trace of each format, and one that describes itself with columns of all types.
fn traces() -> Vec<Box<dyn quipu::model::Trace>> {
    let open = |path: &str| quipu::open_path(&fixtures("").join(path), &OpenOptions::default()).unwrap();
    let paths = [
        "drmemtrace/tiny.func",
        "apitrace/kinds.trace",
        "cacheray/shapes.trace",
        "lackey/mixed.lackey",
        "din/labels.din",
    ];
    paths.into_iter().map(open).chain([described()]).collect()
}

fn described() -> Box<dyn quipu::model::Trace> {
    let text = "described
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
    Box::new(DescribedTrace::parse(text.as_bytes()).unwrap())
}

/// Turns what a batch has in a table into a record batch, and says how many rows have a value in each column.
fn to_arrow(table: Box<dyn TableBuf>, batch: &Batch) -> BTreeMap<String, usize> {
    let (arrow, n_rows, name) = (schema(&*table), table.n_rows(), table.schema().name.clone());
    let rows = record_batch(table, Context(batch)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!((rows.num_rows(), rows.schema().as_ref()), (n_rows, &arrow), "{name}");
    let columns = arrow.fields().iter().map(|field| field.name().clone());
    columns.map(|column| (column.clone(), n_rows - null_count(&rows, &column).unwrap())).collect()
}

#[test]
fn all_tables_and_lenses_become_arrow() {
    let mut seen: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for trace in traces() {
        let format = trace.meta().format.clone();
        trace.learn().unwrap();
        let tables = trace.tables().unwrap();
        for (number, schema) in tables.iter().enumerate() {
            let columns = if number == 0 { trace.columns() } else { quipu::model::Columns::NONE };
            let scan = Scan { tables: vec![number], ..Scan::new(ShardId(0)) }.columns(columns);
            let mut reader = trace.scan(&scan).unwrap();
            let Some(batch) = reader.read().unwrap() else { continue };
            let (rows, lenses) = (std::mem::take(&mut batch.tables), batch.take_lenses().collect::<Vec<_>>());
            for table in rows {
                let values = to_arrow(table, batch);
                assert_eq!(values.len(), schema.fields.len());
                seen.insert(format!("{format} {}", schema.name), values);
            }
            for lens in lenses {
                let name = format!("lens {}", lens.schema().name);
                let values = seen.entry(name).or_default();
                for (column, n) in to_arrow(lens, batch) {
                    *values.entry(column).or_default() += n;
                }
            }
        }
    }
    for lens in ["accesses", "instrs", "calls", "threads", "marks", "regions"] {
        let values = &seen[&format!("lens {lens}")];
        assert!(values["at"] > 0, "no trace fills {lens}");
    }
    let all = &seen["described all"];
    let missing: Vec<&str> =
        all.iter().filter(|(_, n)| **n == 1).map(|(column, _)| column.as_str()).collect();
    assert_eq!((all.len(), missing), (21, vec!["i64", "text", "u16"]));
    assert!(seen["cacheray records"]["type_name"] < seen["cacheray records"]["record"]);
    assert!(seen["drmemtrace memrefs"]["marker"] < seen["drmemtrace memrefs"]["record"]);
    assert!(seen.keys().any(|name| name.starts_with("apitrace call.")), "{:?}", seen.keys());
}
