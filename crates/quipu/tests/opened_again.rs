//! Tables and lenses written as files open like the trace they came from: same rows, same results of analyses, same parts.

use quipu::columnar::trace::ColumnarTrace;
use quipu::engine::{RunOptions, Selection, Watch, plan, row_names, rows, run};
use quipu::model::column::Column;
use quipu::model::transform::{OneShard, Progress, Silent, TransformJob};
use quipu::model::{
    Accept, ColumnTable, Condition, Damaged, Error, Given, OpenOptions, Options, Predicate, Scan, Table,
    Trace, Transform, Window,
};
use quipu::source::Source;
use quipu_query::Form;
use quipu_query::export::{Export, OPTIONS};
use quipu_testkit::fixtures;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Exports a trace to a folder or file.
fn written(source: &Path, form: Form, given: &[(&str, &str)], to: &Path) {
    let export = Export { open: |source, options| quipu::open(source, options), form };
    let given: Given = given.iter().copied().collect();
    let job = TransformJob {
        source: &Source::open(source).unwrap(),
        opening: &OpenOptions::default(),
        options: &Options::parse("export", &OPTIONS, &given).unwrap(),
        output: to,
        replace: false,
        container: None,
        level: None,
        damaged: Damaged::Keep,
        strict: false,
        threads: 1,
        sequence: &OneShard,
    };
    export.run(&job, &Silent).unwrap_or_else(|error| panic!("{}: {error}", source.display()));
}

/// Adds up what is done.
#[derive(Default)]
struct Adding {
    records: AtomicU64,
}

impl Progress for Adding {
    fn advance(&self, records: u64, _: u64) {
        self.records.fetch_add(records, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        false
    }
}

#[test]
fn a_folder_is_written_in_one_read() {
    let place = tempfile::tempdir().unwrap();
    for (name, n_records) in [("drmemtrace/threadsig.x64", 600_000), ("cacheray/shapes.trace", 0)] {
        let (path, to) = (fixtures(name), place.path().join("t.parquet"));
        let export = Export { open: |source, options| quipu::open(source, options), form: Form::Parquet };
        let job = TransformJob {
            source: &Source::open(&path).unwrap(),
            opening: &OpenOptions::default(),
            options: &Options::parse("export", &OPTIONS, &Given::default()).unwrap(),
            output: &to,
            replace: false,
            container: None,
            level: None,
            damaged: Damaged::Refuse,
            strict: false,
            threads: 1,
            sequence: &OneShard,
        };
        let progress = Adding::default();
        export.run(&job, &progress).unwrap();
        let trace = opened(&path);
        let mut stream = rows(trace.clone(), &Selection::new(row_names(&*trace).unwrap().remove(0))).unwrap();
        for rows in stream.by_ref() {
            rows.unwrap();
        }
        let read = stream.watch().progress().records;
        let told = progress.records.into_inner();
        assert!(told <= read && read >= n_records, "{name}: {told} records were read, of {read}");
        assert!(2 * told > read || n_records == 0, "{name}: {told} records were read, of {read}");
        std::fs::remove_dir_all(&to).unwrap();
    }
}

fn opened(path: &Path) -> Arc<dyn Trace> {
    Arc::from(quipu::open_path(path, &OpenOptions::default()).unwrap_or_else(|error| panic!("{error}")))
}

/// All rows of a selection.
fn all(trace: &Arc<dyn Trace>, selection: &Selection) -> Result<ColumnTable, Error> {
    let mut stream = rows(trace.clone(), selection)?;
    let mut table = ColumnTable::new(stream.schema().clone());
    for batch in &mut stream {
        for (to, from) in table.columns.iter_mut().zip(Box::new(batch?).into_columns()) {
            to.extend_rows(from.as_ref(), 0..from.len());
        }
    }
    Ok(table)
}

/// Describes the first row in which two columns differ.
fn differs(a: &Column, b: &Column) -> String {
    let rows = a.len().max(b.len());
    let row = (0..rows).find(|row| {
        let cell = |column: &Column| {
            let one = column.as_ref();
            (one.number(*row), one.bytes(*row).to_vec(), one.items(*row).map(|(_, range)| range.len()))
        };
        cell(a) != cell(b)
    });
    let row = row.unwrap_or(rows);
    format!(
        "{} and {} rows, row {row}: {:#x} and {:#x}",
        a.len(),
        b.len(),
        a.as_ref().number(row),
        b.as_ref().number(row)
    )
}

/// Traces to test: some of each format, including damaged ones.
fn traces() -> Vec<(PathBuf, Arc<dyn Trace>)> {
    let all = crate::rows::traces().into_iter().filter(|(_, trace)| trace.meta().format != "columnar");
    let more = ["drmemtrace/thr.core_sharded_kernel", "apitrace/tri.trace", "stream/two-producers.quipu"];
    let more = more.map(|name| (fixtures(name), opened(&fixtures(name))));
    all.chain(more).collect()
}

#[test]
fn all_tables_and_lenses_of_every_trace_are_there_again_with_the_same_rows() {
    let place = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    let mut n_compared = 0;
    for (at, (path, trace)) in traces().into_iter().enumerate() {
        let to = place.path().join(format!("{at}.parquet"));
        written(&path, Form::Parquet, &[], &to);
        let again = opened(&to);
        let names = row_names(&*trace).unwrap();
        let found = row_names(&*again).unwrap();
        for name in &names {
            let what = format!("{}: {name}", path.display());
            if !found.contains(name) {
                wrong.push(format!("{what} is not there"));
                continue;
            }
            let selection = Selection { threads: 1, ..Selection::new(name.as_str()) };
            let (old, new) = (all(&trace, &selection).unwrap(), all(&again, &selection).unwrap());
            if old.schema() != new.schema() {
                wrong.push(format!("{what}: {:?} instead of {:?}", new.schema(), old.schema()));
                continue;
            }
            for (at, field) in old.schema().fields.iter().enumerate() {
                n_compared += 1;
                if old.columns[at] != new.columns[at] {
                    wrong.push(format!(
                        "{what}.{}: {}",
                        field.name,
                        differs(&old.columns[at], &new.columns[at])
                    ));
                }
            }
        }
        let (old, new) = (trace.meta(), again.meta());
        if (&old.arch, &old.clock, &old.functions, old.line_bytes)
            != (&new.arch, &new.clock, &new.functions, new.line_bytes)
        {
            wrong.push(format!("{}: what the trace says of itself", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{} of {n_compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(n_compared > 300, "{n_compared}");
}

/// Results of the tools that need no particular format: their JSON, or why they cannot run.
fn said(trace: &dyn Trace, threads: usize) -> Vec<(String, Result<serde_json::Value, String>)> {
    let tools = quipu::tools_of("columnar").filter(|tool| tool.info().needs.format.is_none());
    let run_one = |tool: &'static dyn quipu::model::Tool| {
        let planned = plan(tool, &Given::default(), trace).map_err(|error| error.to_string())?;
        let watch = Watch::new();
        let options = RunOptions { threads, ..RunOptions::new(&watch) };
        let outcome = run(trace, vec![planned], &options).map_err(|error| error.to_string())?;
        Ok(outcome.reports[0].json())
    };
    tools.map(|tool| (tool.info().name.to_owned(), run_one(tool))).collect()
}

#[test]
fn analyses_of_lenses_give_the_same_numbers() {
    let place = tempfile::tempdir().unwrap();
    let (mut wrong, mut n_same) = (Vec::new(), 0);
    for (at, (path, trace)) in traces().into_iter().enumerate() {
        let to = place.path().join(format!("{at}.parquet"));
        written(&path, Form::Parquet, &[], &to);
        let again = opened(&to);
        for ((tool, old), (_, new)) in said(&*trace, 1).into_iter().zip(said(&*again, 2)) {
            match (old, new) {
                (Ok(old), Ok(new)) if old == new => n_same += 1,
                (Ok(old), Ok(new)) => {
                    let (old, new) = (old.to_string(), new.to_string());
                    let at =
                        old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count().saturating_sub(60);
                    let part = |text: &str| text.chars().skip(at).take(160).collect::<String>();
                    wrong.push(format!(
                        "{} {tool}: {} instead of {}",
                        path.display(),
                        part(&new),
                        part(&old)
                    ));
                }
                // Values of calls are not exported.
                (Ok(_), Err(error)) if error.contains("calls.values") => {}
                (Ok(_), Err(error)) => wrong.push(format!("{} {tool}: {error}", path.display())),
                (Err(_), _) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong, {n_same} right:\n{}", wrong.len(), wrong.join("\n"));
    assert!(n_same > 100, "{n_same}");
}

#[test]
fn parts_of_a_trace_are_those_of_the_original() {
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("t.parquet");
    let path = fixtures("drmemtrace/thr");
    written(&path, Form::Parquet, &[], &to);
    let (trace, again) = (opened(&path), opened(&to));
    let thread = trace.shards()[1].thread.unwrap();
    let clock = 0..u64::MAX;
    for name in ["memrefs", "lens.accesses", "lens.instrs", "lens.threads", "lens.marks"] {
        for window in [Window::Records(100..1000), Window::Instrs(50..700), Window::Clock(clock.clone())] {
            let selection = Selection { window, threads: 1, ..Selection::new(name) };
            let (old, new) = (all(&trace, &selection).unwrap(), all(&again, &selection).unwrap());
            for (field, (a, b)) in old.schema().fields.iter().zip(old.columns.iter().zip(&new.columns)) {
                assert!(a == b, "{name} {:?} {}: {}", selection.window, field.name, differs(a, b));
            }
        }
        let predicate = Predicate { threads: vec![thread], ..Predicate::default() };
        let selection = Selection { predicate, threads: 1, ..Selection::new(name) };
        let (old, new) = (all(&trace, &selection).unwrap(), all(&again, &selection).unwrap());
        assert!(old == new && new.n_rows() > 0, "{name} of a thread");
    }
}

/// A file with groups of a thousand rows and pages of a hundred: its path, and its rows.
fn many(folder: &Path, has_positions: bool) -> (PathBuf, ColumnTable) {
    use quipu::model::schema::{Fidelity, Role, Type};
    let path = folder.join(if has_positions { "many.parquet" } else { "rows.parquet" });
    let mut fields = vec![
        quipu::model::Field::new("addr", Type::Address, "").role(Role::ADDRESS),
        quipu::model::Field::new("time", Type::Time { clock: 1 }, "").role(Role::TIME).missing(0_u64),
        quipu::model::Field::new("note", Type::Text, ""),
    ];
    if has_positions {
        fields.push(quipu::model::Field::new("record", Type::U64, "").role(Role::RECORD));
    }
    let schema = quipu::model::Schema::new("many", Fidelity::Derived, "", fields);
    let mut encoder = quipu_arrow::Encoder::new(&schema, quipu_arrow::Interop::Any, &[]).unwrap();
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_max_row_group_row_count(Some(1000))
        .set_data_page_row_count_limit(100)
        .set_write_batch_size(100)
        .set_dictionary_enabled(false)
        .build();
    let file = std::fs::File::create(&path).unwrap();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(file, encoder.schema().clone(), Some(properties)).unwrap();
    let mut table = ColumnTable::new(Arc::new(schema));
    for n in 0..10_000_u64 {
        // Addresses begin anew with each group.
        table.columns[0].push(0xffff_ffff_0000_0000 + (n % 1000) * 64).unwrap();
        table.columns[1].push(if n % 7 == 0 { 0 } else { 5000 + n / 2 }).unwrap();
        table.columns[2].push_bytes(format!("row {n}").as_bytes()).unwrap();
        if has_positions {
            table.columns[3].push(2 * n + 1).unwrap();
        }
    }
    let mut copy = ColumnTable::new(table.schema().clone());
    for (to, from) in copy.columns.iter_mut().zip(&table.columns) {
        to.extend_rows(from.as_ref(), 0..from.len());
    }
    writer.write(&encoder.encode(Box::new(table)).unwrap()).unwrap();
    writer.close().unwrap();
    (path, copy)
}

/// How many groups and pages were unpacked so far.
fn unpacked(trace: &dyn Trace) -> (u64, u64) {
    let own = trace.as_any().unwrap().downcast_ref::<ColumnarTrace>().unwrap();
    (own.n_groups_read(), own.n_pages_read())
}

#[test]
fn instructions_are_read_for_accesses_only_if_their_numbers_are_wanted() {
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("t.parquet");
    written(&fixtures("drmemtrace/thr"), Form::Parquet, &[], &to);
    let n_groups = |window| {
        let again = opened(&to);
        let before = unpacked(&*again).0;
        let fields = Some(vec!["addr".to_owned()]);
        let selection = Selection { window, fields, threads: 1, ..Selection::new("lens.accesses") };
        assert!(all(&again, &selection).unwrap().n_rows() > 0);
        unpacked(&*again).0 - before
    };
    let (plain, numbered) = (n_groups(Window::All), n_groups(Window::Instrs(0..u64::MAX)));
    assert!(0 < plain && plain < numbered, "{plain} {numbered}");
}

#[test]
fn groups_and_pages_outside_of_a_range_are_not_unpacked() {
    let place = tempfile::tempdir().unwrap();
    for has_positions in [true, false] {
        let (path, written) = many(place.path(), has_positions);
        let (n_columns, step) = (written.columns.len() as u64, if has_positions { 2 } else { 1 });
        let trace = quipu::open_path(&path, &OpenOptions::default()).unwrap();
        let read = |window: Window| {
            let before = unpacked(&*trace);
            let scan = Scan { tables: vec![0], window, ..Scan::new(trace.shards()[0].id) };
            let mut reader = trace.scan(&scan).unwrap();
            let mut table = ColumnTable::new(written.schema().clone());
            while let Some(batch) = reader.read().unwrap() {
                assert_eq!(batch.findings, []);
                for (at, to) in table.columns.iter_mut().enumerate() {
                    to.extend_rows(batch.tables[0].column(at), 0..batch.tables[0].n_rows());
                }
            }
            let after = unpacked(&*trace);
            (table, after.0 - before.0, (after.1 - before.1) / n_columns)
        };
        // Rows, and how many groups and pages of each column they are in.
        for (rows, n_groups, n_pages) in [
            (4_500..5_500, 2, 10),
            (4_550..4_560, 1, 1),
            (3_999..4_001, 2, 2),
            (9_999..10_000, 1, 1),
            (0..1, 1, 1),
            (0..10_000, 10, 100),
        ] {
            let window = rows.start as u64 * step..rows.end as u64 * step;
            let (table, groups, pages) = read(Window::Records(window));
            assert_eq!((groups, pages), (n_groups, n_pages), "{rows:?}, positions: {has_positions}");
            for (to, from) in table.columns.iter().zip(&written.columns) {
                let mut part = to.clone();
                part.truncate(0);
                part.extend_rows(from.as_ref(), rows.clone());
                assert!(*to == part, "{rows:?}: {}", differs(to, &part));
            }
        }
        assert_eq!(read(Window::All).0.n_rows(), 10_000);
    }
}

#[test]
fn conditions_on_numbers_leave_pages_packed() {
    let place = tempfile::tempdir().unwrap();
    for has_positions in [true, false] {
        let (path, written) = many(place.path(), has_positions);
        let start = 0xffff_ffff_0000_0000_i128;
        // Each group has the addresses once, in one page or two; each time is that of two rows.
        for (column, range, n_groups, n_pages) in [
            ("addr", start + 64 * 510..=start + 64 * 520, 10, 10),
            ("addr", start + 64 * 599..=start + 64 * 600, 10, 20),
            ("addr", 0..=start - 1, 0, 0),
            ("time", 7010..=7020, 1, 1),
            ("time", 5499..=5500, 2, 2),
        ] {
            let trace = opened(&path);
            let condition = Condition { column: column.into(), accept: Accept::Between(range.clone()) };
            let mut predicate = Predicate::default();
            match column {
                "time" => predicate.time = Some(*range.start() as u64..=*range.end() as u64),
                _ => predicate.columns.push(condition),
            }
            let some = all(&trace, &Selection { predicate, threads: 1, ..Selection::new("many") }).unwrap();
            let at = written.schema().position(column).unwrap();
            let from = written.columns[at].as_ref();
            let rows: Vec<usize> = (0..10_000)
                .filter(|row| !from.is_missing(written.schema().fields[at].missing, *row))
                .filter(|row| range.contains(&i128::from(from.number(*row))))
                .collect();
            assert_eq!(some.n_rows(), rows.len(), "{column} {range:?}");
            for (to, from) in some.columns.iter().zip(&written.columns) {
                for (nth, row) in rows.iter().enumerate() {
                    let (to, from) = (to.as_ref(), from.as_ref());
                    let cell = |column: quipu::model::ColumnRef<'_>, row| {
                        (column.number(row), column.bytes(row).to_vec())
                    };
                    assert_eq!(cell(to, nth), cell(from, *row), "{column} {range:?}, row {row}");
                }
            }
            let (groups, pages) = unpacked(&*trace);
            let n_columns = written.columns.len() as u64;
            assert_eq!((groups, pages), (n_groups, n_pages * n_columns), "{column} {range:?}");
        }
    }
}

#[test]
fn a_condition_on_positions_becomes_a_window() {
    let place = tempfile::tempdir().unwrap();
    let (path, _) = many(place.path(), true);
    let trace = opened(&path);
    let condition = Condition { column: "record".into(), accept: Accept::Between(6_001..=6_001) };
    let predicate = Predicate { columns: vec![condition], ..Predicate::default() };
    let one = all(&trace, &Selection { predicate, ..Selection::new("many") }).unwrap();
    assert_eq!((one.n_rows(), one.columns[2].as_ref().bytes(0)), (1, &b"row 3000"[..]));
    assert_eq!(unpacked(&*trace), (1, 4));
}

#[test]
fn files_of_one_table_open_with_it() {
    let place = tempfile::tempdir().unwrap();
    let path = fixtures("drmemtrace/small");
    let trace = opened(&path);
    for (form, name) in [(Form::File, "x.arrow"), (Form::Stream, "x.arrows")] {
        for table in ["memrefs", "lens.accesses"] {
            let to = place.path().join(format!("{table}.{name}"));
            written(&path, form, &[("table", table)], &to);
            let again = opened(&to);
            assert_eq!(row_names(&*again).unwrap()[0], table, "{name}");
            let selection = Selection { threads: 1, ..Selection::new(table) };
            let (old, new) = (all(&trace, &selection).unwrap(), all(&again, &selection).unwrap());
            for (field, (a, b)) in old.schema().fields.iter().zip(old.columns.iter().zip(&new.columns)) {
                // A file is a single shard, whatever shards its rows come from.
                let is_same = a == b || table != "memrefs" && ["shard", "record"].contains(&&*field.name);
                assert!(is_same, "{table} as {name}, {}: {}", field.name, differs(a, b));
            }
        }
    }
}

#[test]
fn rows_go_into_a_stream_and_back() {
    let place = tempfile::tempdir().unwrap();
    for name in ["cacheray/shapes.trace", "drmemtrace/small", "stream/all-types.quipu", "lackey/mixed.lackey"]
    {
        let first = place.path().join("a.parquet");
        let _ = std::fs::remove_dir_all(&first);
        written(&fixtures(name), Form::Parquet, &[], &first);
        let (stream, second) = (place.path().join("b.quipu"), place.path().join("c.parquet"));
        let _ = (std::fs::remove_file(&stream), std::fs::remove_dir_all(&second));
        let transform = quipu::format_named("columnar").unwrap().transforms()[0];
        let job = TransformJob {
            source: &Source::open(&first).unwrap(),
            opening: &OpenOptions::default(),
            options: &Options::default(),
            output: &stream,
            replace: false,
            container: None,
            level: None,
            damaged: Damaged::Refuse,
            strict: false,
            threads: 1,
            sequence: &OneShard,
        };
        transform.run(&job, &Silent).unwrap_or_else(|error| panic!("{name}: {error}"));
        written(&stream, Form::Parquet, &[], &second);
        let (old, new) = (opened(&first), opened(&second));
        assert_eq!(opened(&stream).meta().findings, [], "{name}");
        for schema in old.tables().unwrap() {
            let selection = |name: &str| Selection { threads: 1, ..Selection::new(name) };
            let known = new.tables().unwrap();
            // The stream's table of all records may already have the first name.
            let called = [schema.name.to_string(), format!("{}@2", schema.name)];
            let own = |table: &&Arc<quipu::model::Schema>| {
                called.iter().any(|name| *name == table.name)
                    && schema.fields.iter().skip(2).all(|field| table.position(&field.name).is_some())
            };
            let found =
                known.iter().rev().find(own).unwrap_or_else(|| panic!("{name}: {called:?} of {known:?}"));
            let (a, b) =
                (all(&old, &selection(&schema.name)).unwrap(), all(&new, &selection(&found.name)).unwrap());
            assert_eq!(a.n_rows(), b.n_rows(), "{name} {}", schema.name);
            for (at, field) in schema.fields.iter().enumerate() {
                let twice = format!("{}@2", field.name);
                let there = found.position(&twice).or_else(|| found.position(&field.name)).unwrap();
                let (x, y) = (a.columns[at].as_ref(), b.columns[there].as_ref());
                let other = &found.fields[there];
                for row in 0..a.n_rows() {
                    let cell = |column: quipu::model::ColumnRef<'_>, missing| match column
                        .is_missing(missing, row)
                    {
                        true => None,
                        false => Some((column.number(row), column.bytes(row).to_vec())),
                    };
                    let (x, y) = (cell(x, field.missing), cell(y, other.missing));
                    assert_eq!(x, y, "{name} {}.{} row {row}", schema.name, field.name);
                }
            }
        }
    }
}
