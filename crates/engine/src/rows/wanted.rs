//! What is read for a selection: the table or lens, its columns, and what of the trace need not be read at all.

use super::told::{is_plain, told};
use super::{RowOrder, Selection};
use crate::merge::Merge;
use crate::units::{Unit, pieces, whole_shards};
use crate::watch::Watch;
use crate::window::{Part, resolve};
use quipu_model::column::CellsRef;
use quipu_model::schema::{Field, Role, Schema, SchemaKey, Storage, Type};
use quipu_model::trace::settled;
use quipu_model::{
    Accept, Batch, Chosen, ColumnRef, Columns, Error, Predicate, Result, Scan, Shard, ShardId, ShardKind,
    Span, TableBuf, Trace, Window,
};
use std::ops::Range;
use std::sync::Arc;

/// Columns that stand before those of a lens: the shard, the record, the thread, the process.
pub(super) const N_OWN: usize = 4;

/// A name that begins so is one of a lens.
const OF_LENS: &str = "lens.";

/// A selection, made ready for one trace.
pub(super) struct Wanted {
    /// All columns of what is read.
    pub(super) inner: Arc<Schema>,
    /// The columns that are delivered.
    pub(super) schema: Arc<Schema>,
    /// Where those stand among all.
    pub(super) fields: Vec<usize>,
    /// Which rows pass.
    pub(super) chosen: Chosen,
    /// What each read has.
    pub(super) template: Scan,
    /// How many rows a batch has, about.
    pub(super) batch_rows: usize,
    /// All columns that are delivered stand for themselves.
    pub(super) is_plain: bool,
    /// The lens that is read, by its position; a table if `None`.
    lens: Option<usize>,
    /// Rows of other shards are not wanted; all are if it is empty.
    shards: Vec<ShardId>,
    /// Rows of other threads are not wanted, by the packed number; all are if it is empty.
    threads: Vec<u64>,
    part: Wish,
    /// Positions of records are delivered or looked at.
    has_positions: bool,
    /// The column with the positions of records.
    record: Option<usize>,
}

/// Which part of the trace is read.
enum Wish {
    /// A window of the sequence of all shards.
    OfSequence(Window),
    /// The same window of each shard.
    OfEach(Window),
}

impl Wanted {
    /// # Errors
    /// See [`rows`](super::rows).
    pub(super) fn new(trace: &dyn Trace, selection: &Selection) -> Result<Wanted> {
        let (table, lens, inner) = find(trace, &selection.table)?;
        if lens.is_none() {
            refuse_part(&inner, &selection.window)?;
        }
        let chosen = Chosen::new(&selection.predicate, &inner)?;
        let of_field = |at: usize| lens.and_then(|_| column_of(&inner, at));
        let fields: Vec<usize> = match &selection.fields {
            Some(names) => names.iter().map(|name| inner.column_named(name)).collect::<Result<_>>()?,
            None => {
                let is_filled = |at: &usize| of_field(*at).is_none_or(|column| trace.columns().has(column));
                (0..inner.fields.len()).filter(is_filled).collect()
            }
        };
        if let Some((_, twice)) = fields.iter().enumerate().find(|(at, field)| fields[..*at].contains(field))
        {
            let name = &inner.fields[*twice].name;
            return Err(Error::usage(format!("column `{name}` is asked for twice")));
        }
        let looked_at: Vec<usize> = fields.iter().copied().chain(chosen.columns()).collect();
        let columns = match lens {
            None => Columns::NONE,
            Some(lens) => {
                let rows = rows_of_lens(lens, trace, &selection.predicate);
                let columns = looked_at.iter().filter_map(|at| of_field(*at)).fold(rows, Columns::or);
                let lacks = columns.minus(trace.columns());
                if !lacks.is_empty() {
                    let what =
                        format!("rows of `{}` need {lacks}, which this trace does not carry", inner.name);
                    return Err(Error::missing(what));
                }
                columns
            }
        };
        let is_position = |at: &usize| matches!(inner.fields[*at].role, Some(Role::RECORD | Role::INSTR));
        let told_fields: Vec<Field> = fields.iter().map(|at| told(&inner.fields[*at])).collect();
        let schema = Schema { fields: told_fields, ..(*inner).clone() };
        let batch_records = selection.batch_rows.clamp(256, 1 << 16);
        Ok(Wanted {
            part: part(trace, &inner, lens, selection),
            threads: threads(&inner, lens, &selection.predicate),
            shards: selection.shards.clone(),
            has_positions: looked_at.iter().any(is_position),
            record: inner.position_of(Role::RECORD),
            is_plain: fields.iter().all(|at| is_plain(&inner.fields[*at].ty)),
            template: Scan {
                tables: table.into_iter().collect(),
                batch_records,
                ..Scan::new(ShardId(0)).columns(columns)
            },
            batch_rows: selection.batch_rows.max(1) as usize,
            schema: Arc::new(schema),
            inner,
            fields,
            chosen,
            lens,
        })
    }

    /// The lens that is read, by its position.
    pub(super) fn lens(&self) -> Option<usize> {
        self.lens
    }

    /// What a batch takes, about.
    pub(super) fn bytes_per_batch(&self) -> usize {
        let width = |field: &Field| match field.ty.storage() {
            Storage::U8 | Storage::I8 => 1,
            Storage::U16 | Storage::I16 => 2,
            Storage::U32 | Storage::I32 | Storage::F32 => 4,
            Storage::U64 | Storage::I64 | Storage::F64 => 8,
            Storage::Fixed(width) => width as usize,
            Storage::Strings | Storage::Nested | Storage::Members => 32,
        };
        self.batch_rows * self.schema.fields.iter().map(width).sum::<usize>().max(1)
    }

    /// What workers read, and what went wrong while that was found out.
    pub(super) fn units(&self, trace: &dyn Trace, watch: &Watch) -> Result<(Vec<Unit>, Vec<Error>)> {
        let resolve_part = || match &self.part {
            Wish::OfSequence(window) => resolve(trace, window, watch),
            Wish::OfEach(window) => Ok(Part::same(trace, window)),
        };
        let mut part = settled(trace, || watch.is_cancelled(), resolve_part)?;
        let errors = std::mem::take(&mut part.errors);
        let shards = trace.shards();
        // A piece does not know which records stand before it.
        let mut units = match self.is_whole() && !self.has_positions {
            true => pieces(shards),
            false => whole_shards(shards, &part),
        };
        units.retain(|unit| self.may_have(&shards[unit.shard as usize]));
        Ok((units, errors))
    }

    /// The shards in the order of time.
    pub(super) fn merge<'t>(
        &self,
        trace: &'t dyn Trace,
        template: &Scan,
        watch: &Watch,
    ) -> Result<Merge<'t>> {
        let window = self.window();
        // What stands before in other shards counts for positions.
        if self.is_whole() && !self.has_positions {
            let mut part = Part::same(trace, &Window::All);
            for (window, shard) in part.windows.iter_mut().zip(trace.shards()) {
                if !self.may_have(shard) {
                    *window = Window::Records(0..0);
                }
            }
            return Merge::over(trace, template, part);
        }
        Merge::new(trace, &Scan { window: window.clone(), ..template.clone() }, watch)
    }

    /// The part of the trace, or of each of its shards, that is read; nothing outside is.
    pub(super) fn window(&self) -> &Window {
        let (Wish::OfSequence(window) | Wish::OfEach(window)) = &self.part;
        window
    }

    fn is_whole(&self) -> bool {
        *self.window() == Window::All
    }

    /// False if the shard has no rows that pass.
    fn may_have(&self, shard: &Shard) -> bool {
        if !self.shards.is_empty() && !self.shards.contains(&shard.id) {
            return false;
        }
        let thread = shard.thread.filter(|_| shard.kind == ShardKind::Thread);
        self.threads.is_empty() || thread.is_none_or(|thread| self.threads.contains(&thread.packed()))
    }

    /// The rows of a batch with all their columns; `None` if it has none of the table. A lens stands as the first table of
    /// batches that came over a relay. `records` is filled where positions are looked at.
    pub(super) fn rows_of<'b>(
        &self,
        batch: &'b Batch,
        is_relayed: bool,
        records: &'b mut Vec<u64>,
    ) -> Option<Rows<'b>> {
        let Some(lens) = self.lens else {
            return Some(Rows { own: None, rows: &**batch.tables.first()? });
        };
        let rows: &dyn TableBuf = match is_relayed {
            true => &**batch.tables.first()?,
            false => batch.lenses().nth(lens)?.1,
        };
        records.clear();
        if self.has_positions || !self.is_whole() {
            let at = rows.column(0);
            let first = batch.span.first_record;
            records.extend((0..rows.n_rows()).map(|row| first.wrapping_add(at.number(row)).wrapping_add(1)));
        }
        Some(Rows { own: Some(own(&batch.span, records, rows.n_rows())), rows })
    }

    /// Leaves out rows of records that are not among those of the batch that are wanted, or that stand before a window. Rows
    /// that a jump repeats stand for records before it, and stay.
    pub(super) fn keep_records(
        &self,
        table: &Rows<'_>,
        span: &Span,
        records: Range<u32>,
        rows: &mut Vec<u32>,
    ) {
        // Regions of records before a window come in batches without records.
        let is_of_regions = self.lens.is_some_and(|lens| Columns::LENSES[lens].rows == Columns::REGIONS);
        if is_of_regions && span.records == 0 && !self.is_whole() {
            rows.clear();
        }
        if records == (0..span.records) {
            return;
        }
        match self.record {
            Some(position) => {
                let column = table.column(position);
                let end = span.first_record.saturating_add(u64::from(records.end));
                rows.retain(|row| column.number(*row as usize) <= end);
            }
            None if table.n_rows() <= span.records as usize => rows.retain(|row| records.contains(row)),
            None => {}
        }
    }
}

/// Rows of one batch, with what stands before the columns of a lens.
pub(super) struct Rows<'b> {
    own: Option<[ColumnRef<'b>; N_OWN]>,
    rows: &'b dyn TableBuf,
}

impl<'b> Rows<'b> {
    pub(super) fn n_rows(&self) -> usize {
        self.rows.n_rows()
    }

    pub(super) fn column(&self, position: usize) -> ColumnRef<'b> {
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
pub(super) fn own<'b>(span: &Span, records: &'b [u64], n_rows: usize) -> [ColumnRef<'b>; N_OWN] {
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

/// The table or lens of a name: the number of the table or that of the lens, and all columns.
fn find(trace: &dyn Trace, name: &str) -> Result<(Option<usize>, Option<usize>, Arc<Schema>)> {
    let lens = |name: &str| {
        let none = Batch::default();
        let found = none.lenses().enumerate().find(|(_, (_, rows))| rows.schema().name == name);
        found.map(|(number, (_, rows))| (None, Some(number), lens_schema(rows.schema())))
    };
    if let Some(found) = name.strip_prefix(OF_LENS).and_then(lens) {
        return Ok(found);
    }
    let is_table = trace.tables()?.iter().any(|schema| schema.name == name);
    match lens(name).filter(|_| !is_table) {
        Some(found) => Ok(found),
        None => find_table(trace, name).map(|(table, schema)| (Some(table), None, schema)),
    }
}

/// The names by which rows of a trace are asked for: its native tables, as far as they are known now, then the lenses that it can
/// fill, each as `lens.NAME`.
///
/// # Errors
/// What reading says, where a schema has to be read first.
pub fn row_names(trace: &dyn Trace) -> Result<Vec<String>> {
    let mut names: Vec<String> = trace.tables()?.iter().map(|schema| schema.name.to_string()).collect();
    let none = Batch::default();
    let all = Columns::LENSES.iter().zip(none.lenses());
    let filled = all.filter(|(info, _)| trace.columns().has(info.rows));
    names.extend(filled.map(|(_, (_, rows))| format!("{OF_LENS}{}", rows.schema().name)));
    Ok(names)
}

/// All columns of a lens, for readers that do not know which batch a row is of.
fn lens_schema(lens: &Schema) -> Arc<Schema> {
    let fields = own_fields().into_iter().chain(lens.fields.iter().skip(1).cloned());
    Arc::new(Schema { fields: fields.collect(), ..lens.clone() })
}

/// The column that has to be asked for to fill a field of a lens.
fn column_of(lens: &Schema, position: usize) -> Option<Columns> {
    let field = lens.fields.get(position).filter(|_| position >= N_OWN)?;
    Columns::named(&format!("{}.{}", lens.name, field.name))
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
    if predicate.kinds.iter().any(is_fetch) || of_column {
        more |= Columns::ACCESS_FETCH;
    }
    let of_lens = match rows {
        Columns::THREADS => Columns::THREAD_CLOCK | Columns::THREAD_CPU,
        Columns::ACCESSES => Columns::ACCESS_FETCH,
        _ => Columns::NONE,
    };
    rows | more.and(of_lens).and(trace.columns())
}

/// Which threads' rows pass, where a file of another thread has none: for columns whose meaning is known without a trace.
fn threads(schema: &Schema, lens: Option<usize>, predicate: &Predicate) -> Vec<u64> {
    let is_known = lens.is_some() || schema.key == SchemaKey::default();
    let threads = predicate.threads.iter().filter(|_| is_known);
    threads.map(|thread| thread.packed()).collect()
}

/// The part of the trace outside which no row passes.
fn part(trace: &dyn Trace, schema: &Schema, lens: Option<usize>, selection: &Selection) -> Wish {
    if selection.window != Window::All {
        return Wish::OfSequence(selection.window.clone());
    }
    // Traces that others are made of may have windows of their own.
    let is_own = trace.origin().is_none() && trace.shards().iter().all(|shard| shard.kind != ShardKind::Core);
    let has_clock = trace.meta().clock.is_some() && schema.position_of(Role::TIME).is_some();
    // Before the first reading rows say 0, and are in no window.
    let time = selection.predicate.time.as_ref().filter(|time| *time.start() > 0);
    if let Some(time) = time.filter(|_| is_own && has_clock) {
        return Wish::OfEach(Window::Clock(*time.start()..time.end().saturating_add(1)));
    }
    let record = schema.position_of(Role::RECORD).map(|at| &schema.fields[at].name);
    let of_record = selection.predicate.columns.iter().find_map(|condition| match &condition.accept {
        Accept::Between(range) if Some(condition.column.as_str()) == record.map(|name| &**name) => {
            Some(range)
        }
        _ => None,
    });
    // A window has events of its own: threads that begin there, regions of before, calls without their beginning.
    let is_free = lens.is_none_or(|lens| {
        let rows = Columns::LENSES[lens].rows;
        [Columns::ACCESSES, Columns::INSTRS, Columns::MARKS].contains(&rows)
    });
    match of_record {
        Some(range) if is_own && is_free && schema.is_derived() => {
            let number = |number: i128| u64::try_from(number.max(0)).unwrap_or(u64::MAX);
            let window = Window::Records(number(range.start().saturating_sub(1))..number(*range.end()));
            match selection.order {
                RowOrder::Time => Wish::OfSequence(window),
                RowOrder::Trace | RowOrder::Any => Wish::OfEach(window),
            }
        }
        _ => Wish::OfEach(Window::All),
    }
}

/// Refuses a part of a table whose rows are no records.
///
/// # Errors
/// `Usage` if the table is such, and the window is not all of the trace.
pub fn refuse_part(schema: &Schema, window: &Window) -> Result<()> {
    if schema.is_derived() || *window == Window::All {
        return Ok(());
    }
    let what =
        format!("rows of table `{}` are no records, which parts of a trace are counted in", schema.name);
    Err(Error::usage(what).hint("choose a part of a table that is derived from it"))
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
