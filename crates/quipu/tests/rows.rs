//! Rows of every table and lens of real traces: `rows` returns the same rows as readers, for all formats, and skipped parts
//! contain no wanted rows.

use quipu::engine::{RowOrder, Selection, rows};
use quipu::model::schema::{Role, Type};
use quipu::model::{
    Accept, Beside, Chosen, Condition, Error, Field, OpenOptions, Predicate, Scan, Table, Trace,
};
use quipu_testkit::{cases, fixtures};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of traces of a format.
const MAX_TRACES: usize = 5;

/// Maximum size of a file.
const MAX_BYTES: u64 = 50_000;

/// Traces of all formats: files and folders of the repository, and cases.
pub(crate) fn traces() -> Vec<(PathBuf, Arc<dyn Trace>)> {
    let mut traces = Vec::new();
    for name in quipu::FORMATS.iter().map(|format| format.info().name) {
        let mut opened = Vec::new();
        open_all(name, &fixtures(name), &mut opened);
        cases::inputs(name).iter().for_each(|input| open_all(name, input, &mut opened));
        assert!(!opened.is_empty(), "no trace of {name}");
        traces.append(&mut opened);
    }
    traces
}

/// Opens a trace, or those inside a folder that is not itself a trace.
fn open_all(format: &str, path: &Path, opened: &mut Vec<(PathBuf, Arc<dyn Trace>)>) {
    let is_small = path.is_dir() || path.metadata().is_ok_and(|about| about.len() < MAX_BYTES);
    if opened.len() >= MAX_TRACES || !is_small {
        return;
    }
    match quipu::open_path(path, &OpenOptions::default()) {
        // A folder of many traces may be recognised as another format.
        Ok(trace) if path.is_file() || trace.meta().format == format => {
            opened.push((path.to_owned(), Arc::from(trace)));
        }
        _ => {
            let entries = std::fs::read_dir(path).into_iter().flatten();
            let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
            paths.sort();
            paths.iter().for_each(|path| open_all(format, path, opened));
        }
    }
}

/// The rows of a selection as sorted lines, and whether all of the trace could be read.
fn lines(trace: &Arc<dyn Trace>, selection: &Selection) -> Result<(Vec<String>, bool), Error> {
    let mut stream = rows(trace.clone(), selection)?;
    let mut lines = Vec::new();
    for batch in &mut stream {
        let batch = batch?;
        lines.extend((0..batch.n_rows()).map(|row| line(&batch, row)));
    }
    let is_whole = stream.error().is_none() && stream.found().is_empty();
    Ok((lines, is_whole))
}

fn line(table: &dyn Table, row: usize) -> String {
    let cell = |(at, field): (usize, &Field)| {
        let column = table.column(at);
        assert_eq!(column.len(), table.n_rows(), "{} {}", table.schema().name, field.name);
        match &field.ty {
            _ if column.is_missing(field.missing, row) => "-".to_owned(),
            Type::Bytes | Type::Text => String::from_utf8_lossy(column.bytes(row)).into_owned(),
            _ => column.number(row).to_string(),
        }
    };
    table.schema().fields.iter().enumerate().map(cell).collect::<Vec<_>>().join("|")
}

/// Number of rows that readers return of a table, in all shards together.
fn n_rows(trace: &dyn Trace, table: usize) -> usize {
    let mut n = 0;
    for shard in trace.shards() {
        let Ok(mut reader) = trace.scan(&Scan { tables: vec![table], ..Scan::new(shard.id) }) else {
            continue;
        };
        while let Ok(Some(batch)) = reader.read() {
            n += batch.tables[0].n_rows();
        }
    }
    n
}

pub(crate) const LENSES: &[&str] = &["accesses", "instrs", "calls", "threads", "marks", "regions"];

fn names(trace: &dyn Trace) -> Vec<String> {
    trace.learn().unwrap();
    // Tables of calls are alike, so a few suffice.
    let tables = trace.tables().unwrap().into_iter().map(|schema| schema.name.to_string()).take(12);
    tables.chain(LENSES.iter().map(|name| format!("lens.{name}"))).collect()
}

#[test]
fn all_rows_come_in_any_order_and_number_of_threads() {
    let mut seen = BTreeSet::new();
    for (path, trace) in traces() {
        for name in names(&*trace) {
            let one = Selection { threads: 1, ..Selection::new(name.as_str()) };
            let Ok((expected, _)) = lines(&trace, &one) else {
                assert!(name.starts_with("lens."), "{}: {name}", path.display());
                continue;
            };
            if !name.starts_with("lens.") {
                let table = trace.tables().unwrap().iter().position(|schema| *schema.name == *name).unwrap();
                assert_eq!(expected.len(), n_rows(&*trace, table), "{}: {name}", path.display());
            }
            let many = Selection { threads: 4, batch_rows: 50, buffer_bytes: 1 << 14, ..one };
            assert_eq!(lines(&trace, &many).unwrap().0, expected, "{}: {name}", path.display());
            let mut sorted = expected.clone();
            sorted.sort();
            let any = Selection { order: RowOrder::Any, ..many.clone() };
            let mut found = lines(&trace, &any).unwrap().0;
            found.sort();
            assert_eq!(found, sorted, "{}: {name}", path.display());
            // Without position columns, pieces are read independently.
            let schema = rows(trace.clone(), &many).unwrap().schema().clone();
            let is_position = |field: &&Field| matches!(field.role, Some(Role::RECORD | Role::INSTR));
            let fields: Vec<String> = schema
                .fields
                .iter()
                .filter(|field| !is_position(field))
                .map(|field| field.name.to_string())
                .collect();
            let count = |order| {
                let few = Selection { fields: Some(fields.clone()), order, ..many.clone() };
                let mut found = lines(&trace, &few).unwrap().0;
                found.sort();
                found
            };
            assert_eq!(count(RowOrder::Trace), count(RowOrder::Time), "{}: {name}", path.display());
            seen.insert(format!("{} {name}", trace.meta().format));
        }
    }
    for lens in LENSES.iter().filter(|lens| **lens != "regions") {
        assert!(seen.iter().any(|name| name.ends_with(lens)), "{lens}: {seen:?}");
    }
}

/// The rows of a table that pass, selected from all of its rows.
fn sieved(trace: &Arc<dyn Trace>, name: &str, predicate: &Predicate) -> Vec<String> {
    let selection = Selection { threads: 1, ..Selection::new(name) };
    let mut stream = rows(trace.clone(), &selection).unwrap();
    let chosen = Chosen::new(predicate, stream.schema()).unwrap();
    let (mut passed, mut lines) = (Vec::new(), Vec::new());
    for batch in &mut stream {
        let batch = batch.unwrap();
        chosen.choose(&batch, Beside::default(), &mut passed).unwrap();
        lines.extend(passed.iter().map(|row| line(&batch, *row as usize)));
    }
    lines
}

#[test]
fn what_is_passed_over_has_no_rows_that_were_wanted() {
    let (mut n_narrowed, mut wrong) = (0, Vec::new());
    for (path, trace) in traces() {
        for name in names(&*trace) {
            let Ok(mut stream) = rows(trace.clone(), &Selection::new(name.as_str())) else { continue };
            let schema = stream.schema().clone();
            let range = |role: Role, stream: &mut dyn Iterator<Item = quipu::model::Result<_>>| {
                let position = schema.position_of(role)?;
                let numbers: Vec<u64> = stream
                    .filter_map(Result::ok)
                    .flat_map(|batch: quipu::engine::RowBatch| {
                        let column = batch.column(position);
                        (0..batch.n_rows()).map(|row| column.number(row)).collect::<Vec<_>>()
                    })
                    .collect();
                let (least, most) = (*numbers.iter().min()?, *numbers.iter().max()?);
                let quarter = (most - least) / 4;
                Some(least + quarter..=most - quarter)
            };
            let mut predicates = Vec::new();
            if let Some(range) = range(Role::RECORD, &mut stream) {
                let column = schema.fields[schema.position_of(Role::RECORD).unwrap()].name.to_string();
                let accept = Accept::Between((*range.start()).into()..=(*range.end()).into());
                let columns = vec![Condition { column, accept }];
                predicates.push(Predicate { columns, ..Predicate::default() });
            }
            let mut again = rows(trace.clone(), &Selection::new(name.as_str())).unwrap();
            predicates.extend(
                range(Role::TIME, &mut again)
                    .map(|range| Predicate { time: Some(range), ..Predicate::default() }),
            );
            if schema.position_of(Role::THREAD).is_some()
                && let Some(thread) = trace.shards().iter().find_map(|shard| shard.thread)
            {
                predicates.push(Predicate { threads: vec![thread], ..Predicate::default() });
            }
            for predicate in predicates {
                let selection = Selection { predicate: predicate.clone(), ..Selection::new(name.as_str()) };
                let (found, _) = lines(&trace, &selection)
                    .unwrap_or_else(|error| panic!("{}: {name}: {predicate:?}: {error}", path.display()));
                let expected = sieved(&trace, &name, &predicate);
                if found != expected {
                    let firsts = found.iter().zip(&expected).find(|(a, b)| a != b);
                    let (n_found, n_expected) = (found.len(), expected.len());
                    wrong.push(format!(
                        "{}: {name}: {predicate:?}: {n_found} for {n_expected} rows, {firsts:?}",
                        path.display()
                    ));
                }
                n_narrowed += usize::from(!found.is_empty());
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n_narrowed > 100, "{n_narrowed}");
}
