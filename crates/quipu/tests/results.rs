//! Results of all tools over traces of all formats: JSON, tables and descriptions agree, and all tables convert to Arrow
//! record batches.

use quipu::engine::{RunOptions, Watch, plan, run};
use quipu::model::column::{CellsRef, ColumnRef};
use quipu::model::result::{Kind, Shape, What};
use quipu::model::schema::Type;
use quipu::model::{Field, OpenOptions, Report, Table, Tool};
use quipu_testkit::fixtures;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Small traces; together they have something for every tool.
const TRACES: &[&str] = &[
    "drmemtrace/as_traced",
    "drmemtrace/func-trace",
    "drmemtrace/mock_syscall",
    "drmemtrace/thr",
    "drmemtrace/thr.core_sharded_kernel",
    "drmemtrace/tiny.physical",
    "drmemtrace/chase-snappy",
    "apitrace/glxgears-300.trace",
    "apitrace/kinds-backtrace.trace",
    "apitrace/tri_glsl.trace",
    "cacheray/mt-interleaved.cut.trace",
    "cacheray/structs.trace",
    "lackey/mixed.lackey",
    "din/labels.din",
    "dtrace/classic/quantize_pack",
    "prism/prodcons.prism",
    "stream/agg-rows.quipu",
    "columnar/shapes.parquet",
    "columnar/mixed.arrow",
];

/// Options that make results larger.
const SWITCHES: &[&str] = &["per-thread", "causes", "coherence"];

/// Calls `check` with each report.
fn reports(mut check: impl FnMut(&'static dyn Tool, &dyn Report, &str)) {
    for name in TRACES {
        let trace = quipu::open_path(&fixtures("").join(name), &OpenOptions::default()).unwrap();
        for tool in quipu::tools_of(&trace.meta().format) {
            let has = |name: &&str| tool.info().options.iter().any(|option| option.name == *name);
            let switches: Vec<&str> = SWITCHES.iter().copied().filter(has).collect();
            let n_runs = if switches.is_empty() { 1 } else { 2 };
            for is_on in [false, true].into_iter().take(n_runs) {
                let args =
                    switches.iter().map(|name| (*name, if is_on { "true" } else { "false" })).collect();
                // The trace may lack what the tool needs, or an option may be required.
                let Ok(planned) = plan(tool, &args, &*trace) else { continue };
                let watch = Watch::new();
                let outcome =
                    run(&*trace, vec![planned], &RunOptions { threads: 1, ..RunOptions::new(&watch) });
                let outcome =
                    outcome.unwrap_or_else(|error| panic!("{} of {name}: {error}", tool.info().name));
                check(tool, &*outcome.reports[0], name);
            }
        }
    }
}

/// Compares printed results with their descriptions: each key, each cell, each row.
struct Compared {
    /// Keys that were printed, by tool and type.
    printed: BTreeSet<(String, String, String)>,
    /// By table, the path to each cell within its row, and its value in JSON, unless it is only in tables.
    cells: BTreeMap<String, Vec<(String, Option<Value>)>>,
}

impl Compared {
    /// Walks an object of this shape. Its cells belong to table `table`, and `way` is the path to it within a row.
    fn object(&mut self, json: &Value, shape: &Shape, table: &str, way: &str, tool: &str) {
        let object = json.as_object().unwrap_or_else(|| panic!("{table}{way}: no object: {json}"));
        let keys = shape.keys();
        for key in object.keys() {
            assert!(
                keys.iter().any(|(member, _)| member.marks.key == key),
                "{tool}: `{key}` is not described"
            );
        }
        for (member, is_sure) in &keys {
            let key = member.marks.key;
            assert!(!is_sure || object.contains_key(key), "{tool}: `{key}` of {} is not printed", shape.name);
            if object.contains_key(key) {
                self.printed.insert((tool.to_owned(), shape.name.to_owned(), key.to_owned()));
            }
            if member.marks.is_only_in_tables {
                assert!(!object.contains_key(key), "{tool}: `{key}` of {} is in JSON", shape.name);
                self.cell(table, &format!("{way}{key}"), None);
                continue;
            }
            let value = object.get(key).unwrap_or(&Value::Null);
            self.value(value, &member.kind, table, &format!("{way}{key}"), tool);
        }
    }

    fn value(&mut self, json: &Value, kind: &Kind, table: &str, way: &str, tool: &str) {
        match kind.what {
            What::Cell(_) => self.cell(table, way, Some(json)),
            What::Fields(shape) | What::Items(shape) if json.is_null() => self.nothing(&shape(), table, way),
            What::Fields(shape) => self.object(json, &shape(), table, &format!("{way}."), tool),
            What::Items(shape) => {
                let (items, shape) = (json.as_array().unwrap(), shape());
                assert_eq!(items.len(), shape.members.len(), "{tool}: {way}");
                for (item, member) in items.iter().zip(&shape.members) {
                    self.value(item, &member.kind, table, &format!("{way}.{}", member.marks.key), tool);
                }
            }
            What::Rows(shape) => {
                let table = format!("{table}.{way}");
                for item in json.as_array().into_iter().flatten() {
                    self.object(item, &shape(), &table, "", tool);
                }
            }
        }
    }

    /// Adds the cells of a missing structure.
    fn nothing(&mut self, shape: &Shape, table: &str, way: &str) {
        for member in &shape.members {
            let way =
                if member.marks.is_flat { way.to_owned() } else { format!("{way}.{}", member.marks.key) };
            match member.kind.what {
                What::Cell(_) => self.cell(table, &way, Some(&Value::Null)),
                What::Fields(shape) | What::Items(shape) => self.nothing(&shape(), table, &way),
                What::Rows(_) => {}
            }
        }
    }

    fn cell(&mut self, table: &str, way: &str, json: Option<&Value>) {
        self.cells.entry(table.to_owned()).or_default().push((way.to_owned(), json.cloned()));
    }
}

/// Converts a cell to JSON.
fn json_of(column: ColumnRef<'_>, field: &Field, row: usize) -> Value {
    if column.is_missing(field.missing, row) {
        return Value::Null;
    }
    let number = column.number(row);
    match &field.ty {
        Type::Text => String::from_utf8(column.bytes(row).to_vec()).unwrap().into(),
        Type::Bool => (number != 0).into(),
        Type::F64 => f64::from_bits(number).into(),
        Type::I64 => (number as i64).into(),
        Type::Address => format!("{number:#x}").into(),
        Type::List(item) => {
            let (items, range) = column.items(row).unwrap();
            range.map(|at| json_of(items.as_ref(), item, at)).collect()
        }
        _ => number.into(),
    }
}

#[test]
fn json_and_tables_have_what_is_described() {
    let mut printed = BTreeSet::new();
    reports(|tool, report, trace| {
        let name = tool.info().name;
        let mut compared = Compared { printed: BTreeSet::new(), cells: BTreeMap::new() };
        let shape = tool.result();
        compared.object(&report.json(), &shape, name, "", name);
        printed.extend(compared.printed);
        for table in report.tables(name) {
            let schema = table.schema().clone();
            let printed = compared.cells.remove(&*schema.name).unwrap_or_default();
            let n_own = printed.len().checked_div(table.n_rows()).unwrap_or(0);
            assert_eq!(n_own * table.n_rows(), printed.len(), "{trace}: rows of {}", schema.name);
            assert!(n_own <= schema.fields.len());
            let own = schema.fields.len() - n_own..schema.fields.len();
            for (at, (way, json)) in printed.iter().enumerate() {
                let position = own.start + at % n_own;
                let field = &schema.fields[position];
                assert_eq!(field.name, *way, "{trace}: {}", schema.name);
                let Some(json) = json else { continue };
                let cell = json_of(table.column(position), field, at / n_own);
                // An omitted workload is the first one; a thread in a list is a text or a number.
                let same = cell == *json
                    || json.is_null() && cell == 0
                    || json.is_array()
                        && cell.to_string().replace('"', "") == json.to_string().replace('"', "");
                assert!(same, "{trace}: {way} of {}: {cell} in the table, {json} in JSON", schema.name);
            }
        }
        assert!(compared.cells.is_empty(), "{trace}: no tables for {:?}", compared.cells.keys());
    });
    // A description of a key is useless if the key never appears.
    for tool in quipu::FORMATS.iter().flat_map(|format| quipu::tools_of(format.info().name)) {
        let (name, shape) = (tool.info().name, tool.result());
        let any = printed.iter().any(|(tool, ..)| tool == name);
        assert!(any || name == "layout", "no trace for `{name}`");
        assert!(!shape.members.is_empty() && !shape.about().is_empty(), "{name}");
    }
}

#[test]
fn all_results_become_arrow() {
    use arrow_array::Array;
    use quipu_arrow::{Encoder, Interop};
    let mut n_values: BTreeMap<String, usize> = BTreeMap::new();
    reports(|tool, report, trace| {
        for table in report.tables(tool.info().name) {
            let (schema, n_rows) = (table.schema().clone(), table.n_rows());
            let rows = Encoder::new(&schema, Interop::Any, &[])
                .and_then(|mut encoder| encoder.encode(Box::new(table)))
                .unwrap_or_else(|error| panic!("{trace}: {}: {error}", schema.name));
            assert_eq!(
                (rows.num_rows(), rows.num_columns()),
                (n_rows, schema.fields.len()),
                "{}",
                schema.name
            );
            for field in &schema.fields {
                let n = n_rows - rows.column_by_name(&field.name).unwrap().logical_null_count();
                *n_values.entry(format!("{} {}", schema.name, field.name)).or_default() += n;
            }
        }
    });
    for column in [
        "hot.lines addr",
        "hot.threads.lines thread",
        "caches.caches causes.compulsory",
        "tlbs.caches miss_rate",
        "check.rules rule",
    ] {
        assert!(n_values.get(column).is_some_and(|n| *n > 0), "{column} of {:?}", n_values.keys());
    }
}

#[test]
fn rows_begin_with_the_keys_of_what_they_belong_to() {
    let mut seen = BTreeSet::new();
    reports(|tool, report, _| {
        for table in report.tables(tool.info().name) {
            let schema = table.schema();
            let names: Vec<&str> = schema.fields.iter().map(|field| &*field.name).collect();
            let distinct: BTreeSet<&&str> = names.iter().collect();
            assert_eq!(distinct.len(), names.len(), "{}: {names:?}", schema.name);
            let is_whole = (0..names.len()).all(|at| match table.column(at).cells {
                CellsRef::Constant(..) => false,
                cells => cells.len() == table.n_rows(),
            });
            assert!(is_whole, "{}", schema.name);
            seen.insert((schema.name.to_string(), names[..names.len().min(3)].join(" ")));
        }
    });
    for (table, first) in [
        ("mix.threads.parts", "thread workload name"),
        ("reuse-distance.shards.histogram", "shard thread workload"),
        ("syscalls.syscalls.errors", "number error name"),
        ("types.types.fields", "name path type"),
        ("counts.shards.windows", "shard thread workload"),
        ("sweep.points", "level size assoc"),
    ] {
        assert!(seen.contains(&(table.to_owned(), first.to_owned())), "{table} {first}: {seen:?}");
    }
}
