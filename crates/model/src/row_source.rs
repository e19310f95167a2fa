//! Sources of rows: a native table, or a lens with additional columns in front.
//!
//! Everything that reads rows by name uses this, so that all have the same columns by the same names: other programs
//! (`quipu_engine::rows`), analyses over any table, expressions.

use crate::batch::{Batch, Span};
use crate::column::{CellsRef, ColumnRef};
use crate::columns::Columns;
use crate::error::{Error, Result};
use crate::predicate::{Accept, Predicate};
use crate::schema::{Field, Role, Schema, Type};
use crate::table::TableBuf;
use crate::trace::Trace;
use std::sync::Arc;

/// Number of columns added in front of those of a lens: shard, record, thread, process.
pub const N_OWN: usize = 4;

/// Prefix of a name that always means a lens.
const OF_LENS: &str = "lens.";

/// A table or a lens.
#[derive(Clone, Debug)]
pub struct RowSource {
    /// Position of the table in `Trace::tables`; `None` for a lens.
    pub table: Option<usize>,
    /// The position of the lens in [`Columns::LENSES`]; `None` for a table.
    pub lens: Option<usize>,
    /// The columns, including those added in front.
    pub schema: Arc<Schema>,
}

impl RowSource {
    /// Finds a table or lens by name. If a table and a lens have the same name, the table is found; `lens.NAME` always means
    /// the lens.
    ///
    /// # Errors
    /// As [`find_table`].
    pub fn find(trace: &dyn Trace, name: &str) -> Result<RowSource> {
        let lens = |name: &str| lenses().find(|lens| lens.schema.name == name);
        if let Some(found) = name.strip_prefix(OF_LENS).and_then(lens) {
            return Ok(found);
        }
        let is_table = trace.tables()?.iter().any(|schema| schema.name == name);
        match lens(name).filter(|_| !is_table) {
            Some(found) => Ok(found),
            None => {
                let (table, schema) = find_table(trace, name)?;
                Ok(RowSource { table: Some(table), lens: None, schema })
            }
        }
    }

    /// All tables known so far, and all lenses that the trace can fill.
    ///
    /// # Errors
    /// Errors of reading, if a schema has to be read first.
    pub fn all(trace: &dyn Trace) -> Result<Vec<RowSource>> {
        let table = |(table, schema)| RowSource { table: Some(table), lens: None, schema };
        let tables = trace.tables()?.into_iter().enumerate().map(table);
        let is_filled =
            |lens: &RowSource| lens.lens.is_some_and(|lens| trace.columns().has(Columns::LENSES[lens].rows));
        Ok(tables.chain(lenses().filter(is_filled)).collect())
    }

    /// A name with which [`find`](RowSource::find) finds exactly this source.
    pub fn full_name(&self) -> String {
        match self.lens {
            Some(_) => format!("{OF_LENS}{}", self.schema.name),
            None => self.schema.name.to_string(),
        }
    }

    /// The lens column to request for the field at this position; `None` if nothing has to be requested.
    pub fn column_of(&self, position: usize) -> Option<Columns> {
        self.lens?;
        let field = self.schema.fields.get(position).filter(|_| position >= N_OWN)?;
        Columns::named(&format!("{}.{}", self.schema.name, field.name))
    }

    /// True if the trace can fill the field at this position.
    pub fn is_filled(&self, position: usize, trace: &dyn Trace) -> bool {
        self.column_of(position).is_none_or(|column| trace.columns().has(column))
    }

    /// The lens columns to request for these fields of the rows that a predicate may select; none for a table.
    ///
    /// # Errors
    /// `Missing` if the trace lacks a column.
    pub fn columns(&self, fields: &[usize], predicate: &Predicate, trace: &dyn Trace) -> Result<Columns> {
        let Some(lens) = self.lens else { return Ok(Columns::NONE) };
        let rows = rows_of_lens(lens, trace, predicate);
        let columns = fields.iter().filter_map(|at| self.column_of(*at)).fold(rows, Columns::or);
        let lacks = columns.minus(trace.columns());
        if !lacks.is_empty() {
            let what =
                format!("rows of `{}` need {lacks}, which this trace does not carry", self.schema.name);
            return Err(Error::missing(what));
        }
        Ok(columns)
    }

    /// The rows of a lens in a batch; `records` holds their record positions. `None` for a table.
    pub fn of_lens<'b>(&self, batch: &'b Batch, records: &'b [u64]) -> Option<LentRows<'b>> {
        let rows = batch.lenses().nth(self.lens?)?.1;
        Some(LentRows::of_lens(&batch.span, rows, records))
    }
}

/// All lenses, with the columns added in front.
fn lenses() -> impl Iterator<Item = RowSource> {
    let none = Batch::default();
    let all: Vec<RowSource> = none
        .lenses()
        .enumerate()
        .map(|(lens, (_, rows))| RowSource {
            table: None,
            lens: Some(lens),
            schema: lens_schema(rows.schema()),
        })
        .collect();
    all.into_iter()
}

/// Replaces `records` by the positions, counted from 1, of the records that the rows of a lens belong to.
pub fn positions(span: &Span, rows: &dyn TableBuf, records: &mut Vec<u64>) {
    let at = rows.column(0);
    records.clear();
    records
        .extend((0..rows.n_rows()).map(|row| span.first_record.wrapping_add(at.number(row)).wrapping_add(1)));
}

/// The rows of a table or lens in one batch, with the columns added in front of a lens.
#[derive(Clone, Copy)]
pub struct LentRows<'b> {
    own: Option<[ColumnRef<'b>; N_OWN]>,
    rows: &'b dyn TableBuf,
}

impl std::fmt::Debug for LentRows<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LentRows").field("n_rows", &self.n_rows()).finish_non_exhaustive()
    }
}

impl<'b> LentRows<'b> {
    /// Rows of a table.
    pub fn of_table(rows: &'b dyn TableBuf) -> LentRows<'b> {
        LentRows { own: None, rows }
    }

    /// Rows of a lens. `records` holds the positions of their records; it may be empty if that column is not read.
    pub fn of_lens(span: &Span, rows: &'b dyn TableBuf, records: &'b [u64]) -> LentRows<'b> {
        LentRows { own: Some(own(span, records, rows.n_rows())), rows }
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.rows.n_rows()
    }

    /// The column at this position of the [schema](RowSource::schema).
    pub fn column(&self, position: usize) -> ColumnRef<'b> {
        match &self.own {
            None => self.rows.column(position),
            Some(own) => match own.get(position) {
                Some(column) => *column,
                // The first column of a lens is the record index in the batch, which the added columns replace.
                None => self.rows.column(position - N_OWN + 1),
            },
        }
    }
}

/// The columns added in front of those of a lens.
pub fn own<'b>(span: &Span, records: &'b [u64], n_rows: usize) -> [ColumnRef<'b>; N_OWN] {
    let constant = |number| ColumnRef::of(CellsRef::Constant(number, n_rows));
    [
        constant(span.shard.into()),
        ColumnRef::of(CellsRef::U64(records)),
        constant(span.thread.packed()),
        constant(span.process),
    ]
}

fn own_fields() -> [Field; N_OWN] {
    [
        Field::new("shard", Type::U64, "Position of the shard in the trace, from 0."),
        Field::new("record", Type::U64, "Record ordinal, from 1.").role(Role::RECORD),
        Field::new("tid", Type::U64, "Thread, with the workload in the top 16 bits.").role(Role::THREAD),
        Field::new("pid", Type::U64, "Process; 0 if the trace does not say.").role(Role::PROCESS),
    ]
}

/// The schema of a lens, or of rows like those of a lens, with the added columns in place of the record index in the batch.
pub fn lens_schema(lens: &Schema) -> Arc<Schema> {
    let fields = own_fields().into_iter().chain(lens.fields.iter().skip(1).cloned());
    Arc::new(Schema { fields: fields.collect(), ..lens.clone() })
}

/// The columns to request for rows of a lens: all rows that the trace has, but instruction fetches only if the predicate
/// names them.
fn rows_of_lens(lens: usize, trace: &dyn Trace, predicate: &Predicate) -> Columns {
    let rows = Columns::LENSES[lens].rows;
    let is_fetch = |name: &String| name == "fetch";
    let of_column = predicate
        .columns
        .iter()
        .any(|condition| matches!(&condition.accept, Accept::Texts(texts) if texts.iter().any(is_fetch)));
    let mut more = Columns::THREAD_CLOCK | Columns::THREAD_CPU;
    let of_filter = predicate.filter.as_ref().is_some_and(|filter| filter.0.has_text("fetch"));
    if predicate.kinds.iter().any(is_fetch) || of_column || of_filter {
        more |= Columns::ACCESS_FETCH;
    }
    let of_lens = match rows {
        Columns::THREADS => Columns::THREAD_CLOCK | Columns::THREAD_CPU,
        Columns::ACCESSES => Columns::ACCESS_FETCH,
        _ => Columns::NONE,
    };
    rows | more.and(of_lens).and(trace.columns())
}

/// Finds a table by name. Tables that must be learned from the whole trace are learned only if no known table has the name.
///
/// # Errors
/// `Usage` if there is no such table; errors of learning.
pub fn find_table(trace: &dyn Trace, name: &str) -> Result<(usize, Arc<Schema>)> {
    let find = || -> Result<Option<(usize, Arc<Schema>)>> {
        Ok(trace.tables()?.into_iter().enumerate().find(|(_, schema)| schema.name == name))
    };
    if let Some(found) = find()? {
        return Ok(found);
    }
    trace.learn()?;
    match find()? {
        Some(found) => Ok(found),
        None => Err(unknown_table(name, &trace.tables()?)),
    }
}

/// Upper limit on the tables that an error names.
const MAX_NAMED: usize = 12;

/// The error for an unknown table; it suggests the tables whose names contain this one, or else the first ones.
fn unknown_table(name: &str, known: &[Arc<Schema>]) -> Error {
    let word = name.to_lowercase();
    let near: Vec<&str> =
        known.iter().map(|table| &*table.name).filter(|table| table.to_lowercase().contains(&word)).collect();
    let all = || known.iter().map(|table| &*table.name).collect();
    let named: Vec<&str> = if near.is_empty() { all() } else { near };
    let more = match named.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        n => format!(", and {n} more"),
    };
    let named = named[..named.len().min(MAX_NAMED)].join(", ");
    Error::usage(format!("the trace has no table `{name}`")).hint(format!("tables: {named}{more}"))
}
