//! Results as tables, including the results of parts.

use crate::parts::Part;
use quipu_model::column::{Cells, Column};
use quipu_model::schema::{Fidelity, Field, Missing, Type};
use quipu_model::{ColumnTable, Report, Schema, Table};
use std::sync::Arc;

/// Columns that precede those of results of parts, so that no analysis has to know about parts.
const OF_PART: [&str; 5] = ["trace", "interval", "core", "thread", "workload"];

/// The tables of all results; each table is named after its tool. If there are results of parts, rows begin with the columns
/// `trace`, `interval`, `core`, `thread` and `workload` (for further traces); those of the whole come first and only have the
/// trace's name. If a table has a column with one of these names, that keeps its name, and the added one is called
/// `part.thread` and so on.
pub fn tables(trace: &str, tools: &[&str], reports: &[Box<dyn Report>], parts: &[Part]) -> Vec<ColumnTable> {
    let mut tables = Vec::new();
    for (at, (tool, report)) in tools.iter().zip(reports).enumerate() {
        let whole = report.tables(tool);
        if parts.is_empty() {
            tables.extend(whole);
            continue;
        }
        let of_parts: Vec<(&Part, Vec<ColumnTable>)> =
            parts.iter().filter_map(|part| Some((part, part.reports.get(at)?.tables(tool)))).collect();
        for (position, of_whole) in whole.into_iter().enumerate() {
            let mut joined = ColumnTable::new(Arc::new(schema(of_whole.schema())));
            append(&mut joined, &of_whole, [Some(Cell::Text(trace)), None, None, None, None]);
            for (part, of_part) in &of_parts {
                if let Some(of_part) = of_part.get(position) {
                    append(&mut joined, of_part, cells(trace, part));
                }
            }
            tables.push(joined);
        }
    }
    tables
}

/// A cell that all rows of a part have in common.
#[derive(Clone, Copy)]
enum Cell<'a> {
    Text(&'a str),
    Number(u64),
}

fn cells<'a>(trace: &'a str, part: &Part) -> [Option<Cell<'a>>; 5] {
    let interval = part.interval.map(|interval| interval.number);
    let (tid, workload) =
        (part.thread.map(|thread| thread.tid), part.thread.map(|thread| thread.workload.into()));
    let [interval, core, tid, workload] =
        [interval, part.core, tid, workload].map(|number| number.map(Cell::Number));
    [Some(Cell::Text(trace)), interval, core, tid, workload]
}

/// The schema of a table with the columns of parts in front.
fn schema(of: &Schema) -> Schema {
    let field = |name: &&'static str| {
        let is_taken = of.fields.iter().any(|field| field.name == *name);
        let named = if is_taken { format!("part.{name}").into() } else { (*name).into() };
        let (ty, doc) = match *name {
            "trace" => (Type::Text, "The trace."),
            "interval" => (Type::U64, "Number of the interval, from 1; null for the whole trace."),
            "core" => (Type::U64, "Number of the core; null for the whole trace."),
            "thread" => (Type::U64, "Thread of the interval; null for the whole trace."),
            _ => (Type::U64, "Number of the thread's trace, if several are read."),
        };
        Field { name: named, ..Field::new("", ty, doc).optional() }
    };
    let fields = OF_PART.iter().map(field).chain(of.fields.iter().cloned()).collect();
    Schema::new(of.name.clone(), Fidelity::Derived, of.doc.clone(), fields)
}

/// Appends the rows of a table, after the cells of their part.
fn append(to: &mut ColumnTable, from: &ColumnTable, part: [Option<Cell<'_>>; 5]) {
    let rows = from.n_rows();
    let (of_part, own) = to.columns.split_at_mut(part.len());
    for (column, cell) in of_part.iter_mut().zip(part) {
        (0..rows).for_each(|_| push(column, cell));
    }
    for (column, from) in own.iter_mut().zip(&from.columns) {
        column.extend_rows(from.as_ref(), 0..rows);
    }
}

fn push(column: &mut Column, cell: Option<Cell<'_>>) {
    let pushed = match (cell, &column.cells) {
        (Some(Cell::Text(text)), Cells::Strings(_)) => column.push_bytes(text.as_bytes()),
        (Some(Cell::Number(number)), Cells::U64(_)) => column.push(number),
        _ => {
            column.push_missing(Missing::Bitmap);
            Ok(())
        }
    };
    // The column was made for such cells, so this cannot fail.
    drop(pushed);
}
