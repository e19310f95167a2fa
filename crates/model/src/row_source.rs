//! Where rows come from: a native table, or a lens with what stands before its columns.
//!
//! Readers of rows name a table or lens, and have the same columns by the same names, all of them: other programs
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

/// Columns that stand before those of a lens: the shard, the record, the thread, the process.
pub const N_OWN: usize = 4;

/// A name that begins so is one of a lens.
const OF_LENS: &str = "lens.";

/// A table or lens.
#[derive(Clone, Debug)]
pub struct RowSource {
    /// The number of the table; `None` for a lens.
    pub table: Option<usize>,
    /// The position of the lens in [`Columns::LENSES`]; `None` for a table.
    pub lens: Option<usize>,
    /// All columns.
    pub schema: Arc<Schema>,
}

impl RowSource {
    /// The table or lens of a name. Where both have it, the table is meant; `lens.NAME` is always the lens.
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

    /// The tables that are known now, and the lenses that the trace can fill.
    ///
    /// # Errors
    /// What reading says, where a schema has to be read first.
    pub fn all(trace: &dyn Trace) -> Result<Vec<RowSource>> {
        let table = |(table, schema)| RowSource { table: Some(table), lens: None, schema };
        let tables = trace.tables()?.into_iter().enumerate().map(table);
        let is_filled =
            |lens: &RowSource| lens.lens.is_some_and(|lens| trace.columns().has(Columns::LENSES[lens].rows));
        Ok(tables.chain(lenses().filter(is_filled)).collect())
    }

    /// The name by which [`find`](RowSource::find) has it, whatever else has the name.
    pub fn full_name(&self) -> String {
        match self.lens {
            Some(_) => format!("{OF_LENS}{}", self.schema.name),
            None => self.schema.name.to_string(),
        }
    }

    /// The column that has to be asked for to fill a field; `None` where nothing has to be.
    pub fn column_of(&self, position: usize) -> Option<Columns> {
        self.lens?;
        let field = self.schema.fields.get(position).filter(|_| position >= N_OWN)?;
        Columns::named(&format!("{}.{}", self.schema.name, field.name))
    }

    /// True if the trace can fill a field.
    pub fn is_filled(&self, position: usize, trace: &dyn Trace) -> bool {
        self.column_of(position).is_none_or(|column| trace.columns().has(column))
    }

    /// What has to be asked for to have these fields of the rows that a predicate may choose; nothing for a table.
    ///
    /// # Errors
    /// `Missing` for what the trace does not carry.
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

    /// The rows of a lens in a batch, whose columns `records` precedes; `None` for a table.
    pub fn of_lens<'b>(&self, batch: &'b Batch, records: &'b [u64]) -> Option<LentRows<'b>> {
        let rows = batch.lenses().nth(self.lens?)?.1;
        Some(LentRows::of_lens(&batch.span, rows, records))
    }
}

/// All lenses.
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

/// Fills `records` with the positions of the records that the rows of a lens belong to, counted from 1.
pub fn positions(span: &Span, rows: &dyn TableBuf, records: &mut Vec<u64>) {
    let at = rows.column(0);
    records.clear();
    records
        .extend((0..rows.n_rows()).map(|row| span.first_record.wrapping_add(at.number(row)).wrapping_add(1)));
}

/// Rows of one batch, with what stands before the columns of a lens.
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

    /// Rows of a lens. `records` has the positions of their records, or nothing if no one looks at them.
    pub fn of_lens(span: &Span, rows: &'b dyn TableBuf, records: &'b [u64]) -> LentRows<'b> {
        LentRows { own: Some(own(span, records, rows.n_rows())), rows }
    }

    /// How many rows there are.
    pub fn n_rows(&self) -> usize {
        self.rows.n_rows()
    }

    /// The column at this position of the [schema](RowSource::schema).
    pub fn column(&self, position: usize) -> ColumnRef<'b> {
        match &self.own {
            None => self.rows.column(position),
            Some(own) => match own.get(position) {
                Some(column) => *column,
                // The first column of a lens is the position in the batch.
                None => self.rows.column(position - N_OWN + 1),
            },
        }
    }
}

/// What stands before the columns of a lens.
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

/// All columns of a lens, or of rows like one, for readers that do not know which batch a row is of.
pub fn lens_schema(lens: &Schema) -> Arc<Schema> {
    let fields = own_fields().into_iter().chain(lens.fields.iter().skip(1).cloned());
    Arc::new(Schema { fields: fields.collect(), ..lens.clone() })
}

/// What has to be asked for to have rows of a lens: all that the trace has, but fetches only where they are asked for.
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

/// The table of a name. Those that the trace teaches are learned only if no other has the name.
///
/// # Errors
/// `Usage` if there is none; what learning says.
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

/// How many tables an error names.
const MAX_NAMED: usize = 12;

/// The error for a table that is not there; proposes those with the name in theirs, or else the first.
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
