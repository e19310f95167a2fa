//! A selection bound to a trace: the table or lens, its columns, and the parts of the trace that need not be read.

use super::told::{is_plain, told};
use super::{RowOrder, Selection};
use crate::merge::Merge;
use crate::units::{Unit, pieces, whole_shards};
use crate::watch::Watch;
use crate::window::{Part, resolve};
use quipu_model::row_source::{LentRows, RowSource, positions};
use quipu_model::schema::{Field, Role, Schema, SchemaKey, Storage};
use quipu_model::trace::settled;
use quipu_model::{
    Accept, Batch, Chosen, Columns, Condition, Error, Predicate, Result, Scan, Shard, ShardId, ShardKind,
    Span, TableBuf, Trace, Window,
};
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// A selection bound to one trace.
pub(super) struct Wanted {
    /// All columns of the table or lens.
    pub(super) inner: Arc<Schema>,
    /// The columns that are delivered.
    pub(super) schema: Arc<Schema>,
    /// Positions of the delivered columns in `inner`.
    pub(super) fields: Vec<usize>,
    /// Selects the rows.
    pub(super) chosen: Chosen,
    /// Template for the scans of all shards and pieces.
    pub(super) template: Scan,
    /// Approximate number of rows in a batch.
    pub(super) batch_rows: usize,
    /// Whether all delivered columns are self-contained already.
    pub(super) is_plain: bool,
    /// Position of the lens; `None` for a table.
    lens: Option<usize>,
    /// Shards whose rows are wanted; all if empty.
    shards: Vec<ShardId>,
    /// Packed numbers of threads whose rows are wanted; all if empty.
    threads: Vec<u64>,
    part: Wish,
    /// Whether positions of records are delivered or used in conditions.
    has_positions: bool,
    /// The column with the positions of records.
    record: Option<usize>,
}

/// The part of the trace that is read.
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
        let source = RowSource::find(trace, &selection.table)?;
        let RowSource { table, lens, schema: inner } = source.clone();
        if lens.is_none() {
            refuse_part(&inner, &selection.window)?;
        }
        let predicate = selection.predicate.clone().narrowed(&inner);
        let chosen = Chosen::new(&predicate, &inner)?;
        let fields: Vec<usize> = match &selection.fields {
            Some(names) => names.iter().map(|name| inner.column_named(name)).collect::<Result<_>>()?,
            None => {
                let is_filled = |at: &usize| source.is_filled(*at, trace);
                (0..inner.fields.len()).filter(is_filled).collect()
            }
        };
        if let Some((_, twice)) = fields.iter().enumerate().find(|(at, field)| fields[..*at].contains(field))
        {
            let name = &inner.fields[*twice].name;
            return Err(Error::usage(format!("column `{name}` is asked for twice")));
        }
        let looked_at: Vec<usize> = fields.iter().copied().chain(chosen.columns()).collect();
        let columns = source.columns(&looked_at, &predicate, trace)?;
        let is_instr = |at: &usize| inner.fields[*at].role == Some(Role::INSTR);
        let counts_instrs = looked_at.iter().any(is_instr) || matches!(selection.window, Window::Instrs(_));
        let is_position = |at: &usize| matches!(inner.fields[*at].role, Some(Role::RECORD | Role::INSTR));
        let told_fields: Vec<Field> = fields.iter().map(|at| told(&inner.fields[*at])).collect();
        let schema = Schema { fields: told_fields, ..(*inner).clone() };
        let batch_records = selection.batch_rows.clamp(256, 1 << 16);
        Ok(Wanted {
            part: part(trace, &inner, lens, selection, &predicate),
            threads: threads(&inner, lens, &predicate),
            shards: selection.shards.clone(),
            has_positions: looked_at.iter().any(is_position),
            record: inner.position_of(Role::RECORD),
            is_plain: fields.iter().all(|at| is_plain(&inner.fields[*at].ty)),
            template: Scan {
                tables: table.into_iter().collect(),
                batch_records,
                only: only(trace, &inner, selection, &predicate),
                counts_instrs,
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

    /// Position of the lens; `None` for a table.
    pub(super) fn lens(&self) -> Option<usize> {
        self.lens
    }

    /// Whether positions of records are delivered or used in conditions.
    pub(super) fn has_positions(&self) -> bool {
        self.has_positions
    }

    /// The template for one read that serves all of these.
    pub(super) fn template_of(all: &[Arc<Wanted>]) -> Scan {
        let mut template = Scan { counts_instrs: false, ..Scan::new(ShardId(0)) };
        for (at, wanted) in all.iter().enumerate() {
            let Scan { columns, tables, batch_records, only, counts_instrs, .. } = &wanted.template;
            template.columns |= *columns;
            template.tables.extend(tables);
            template.counts_instrs |= *counts_instrs;
            template.batch_records =
                if at == 0 { *batch_records } else { template.batch_records.max(*batch_records) };
            // Rows that one table does not need may be needed for another.
            template.only = if all.len() == 1 { only.clone() } else { Vec::new() };
        }
        template
    }

    /// Approximate size of a batch in bytes.
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

    /// The units for workers to read, and the errors of finding them.
    pub(super) fn units(&self, trace: &dyn Trace, watch: &Watch) -> Result<(Vec<Unit>, Vec<Error>)> {
        let resolve_part = || match &self.part {
            Wish::OfSequence(window) => resolve(trace, window, watch),
            Wish::OfEach(window) => Ok(Part::same(trace, window)),
        };
        let mut part = settled(trace, || watch.is_cancelled(), resolve_part)?;
        let errors = std::mem::take(&mut part.errors);
        let shards = trace.shards();
        // A piece does not know how many records come before it.
        let mut units = match self.is_whole() && !self.has_positions {
            true => pieces(shards),
            false => whole_shards(shards, &part),
        };
        units.retain(|unit| self.may_have(&shards[unit.shard as usize]));
        Ok((units, errors))
    }

    /// Merges the shards by time.
    pub(super) fn merge<'t>(
        &self,
        trace: &'t dyn Trace,
        template: &Scan,
        watch: &Watch,
    ) -> Result<Merge<'t>> {
        let window = self.window();
        // Otherwise, positions count records of other shards too.
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

    /// The part of the trace, or of each of its shards, that is read.
    pub(super) fn window(&self) -> &Window {
        let (Wish::OfSequence(window) | Wish::OfEach(window)) = &self.part;
        window
    }

    fn is_whole(&self) -> bool {
        *self.window() == Window::All
    }

    /// False if no row of the shard can pass.
    fn may_have(&self, shard: &Shard) -> bool {
        if !self.shards.is_empty() && !self.shards.contains(&shard.id) {
            return false;
        }
        let thread = shard.thread.filter(|_| shard.kind == ShardKind::Thread);
        self.threads.is_empty() || thread.is_none_or(|thread| self.threads.contains(&thread.packed()))
    }

    /// The rows of a batch with all their columns; `None` if the batch lacks the table. In batches that came over a relay,
    /// the rows of a lens are the first table. `records` is filled if positions are used.
    pub(super) fn rows_of<'b>(
        &self,
        batch: &'b Batch,
        is_relayed: bool,
        records: &'b mut Vec<u64>,
    ) -> Option<LentRows<'b>> {
        let Some(lens) = self.lens else {
            return Some(LentRows::of_table(&**batch.tables.first()?));
        };
        let rows: &dyn TableBuf = match is_relayed {
            true => &**batch.tables.first()?,
            false => batch.lenses().nth(lens)?.1,
        };
        records.clear();
        if self.has_positions || !self.is_whole() {
            positions(&batch.span, rows, records);
        }
        Some(LentRows::of_lens(&batch.span, rows, records))
    }

    /// Removes rows of records that are outside `records`, the wanted ones of the batch, or before a window. Rows that a jump
    /// repeats stand for earlier records, and stay.
    pub(super) fn keep_records(
        &self,
        table: &LentRows<'_>,
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

/// The names by which rows of a trace can be requested: its native tables known so far, then the lenses that it can fill,
/// each as `lens.NAME`.
///
/// # Errors
/// Errors of reading, if a schema has to be read first.
pub fn row_names(trace: &dyn Trace) -> Result<Vec<String>> {
    Ok(RowSource::all(trace)?.iter().map(RowSource::full_name).collect())
}

/// The threads whose files are the only ones to read; empty if unknown, because the meaning of a learned column depends on
/// the trace.
fn threads(schema: &Schema, lens: Option<usize>, predicate: &Predicate) -> Vec<u64> {
    let is_known = lens.is_some() || schema.key == SchemaKey::default();
    let threads = predicate.threads.iter().filter(|_| is_known);
    threads.map(|thread| thread.packed()).collect()
}

/// Conditions on columns of numbers, by which readers may skip rows.
fn only(trace: &dyn Trace, schema: &Schema, selection: &Selection, predicate: &Predicate) -> Vec<Condition> {
    // Positions along the sequence include the records of earlier shards, and a trace that is made from others may number
    // threads differently from them.
    if selection.order == RowOrder::Time || trace.origin().is_some() {
        return Vec::new();
    }
    let is_range = |condition: &&Condition| matches!(condition.accept, Accept::Between(_));
    let mut all: Vec<Condition> = predicate.columns.iter().filter(is_range).cloned().collect();
    let mut add = |role, range: Option<RangeInclusive<u64>>| {
        // Rows without a value may have a 0 in the column, so a range that includes 0 is not used.
        let range = range.filter(|range| *range.start() > 0);
        if let (Some(at), Some(range)) = (schema.position_of(role), range) {
            let accept = Accept::Between((*range.start()).into()..=(*range.end()).into());
            all.push(Condition { column: schema.fields[at].name.to_string(), accept });
        }
    };
    let packed = || predicate.threads.iter().map(|thread| thread.packed());
    add(Role::THREAD, packed().min().zip(packed().max()).map(|(least, most)| least..=most));
    add(Role::TIME, predicate.time.clone());
    add(Role::PC, predicate.pc.clone());
    all
}

/// The part of the trace outside which no row passes.
fn part(
    trace: &dyn Trace,
    schema: &Schema,
    lens: Option<usize>,
    selection: &Selection,
    predicate: &Predicate,
) -> Wish {
    if selection.window != Window::All {
        return Wish::OfSequence(selection.window.clone());
    }
    // A trace that is derived from another may have different windows.
    let is_own = trace.origin().is_none() && trace.shards().iter().all(|shard| shard.kind != ShardKind::Core);
    let has_clock = trace.meta().clock.is_some() && schema.position_of(Role::TIME).is_some();
    // Before the first clock reading, rows have the time 0 and are in no window.
    let time = predicate.time.as_ref().filter(|time| *time.start() > 0);
    if let Some(time) = time.filter(|_| is_own && has_clock) {
        return Wish::OfEach(Window::Clock(*time.start()..time.end().saturating_add(1)));
    }
    let record = schema.position_of(Role::RECORD).map(|at| &schema.fields[at].name);
    let of_record = predicate.columns.iter().find_map(|condition| match &condition.accept {
        Accept::Between(range) if Some(condition.column.as_str()) == record.map(|name| &**name) => {
            Some(range)
        }
        _ => None,
    });
    // A window adds or loses events at its borders: threads that begin there, earlier regions, calls without their beginning.
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

/// Refuses a window for a table whose rows are not records.
///
/// # Errors
/// `Usage` if the table is such a table, and the window is not the whole trace.
pub fn refuse_part(schema: &Schema, window: &Window) -> Result<()> {
    if schema.is_derived() || *window == Window::All {
        return Ok(());
    }
    let what =
        format!("rows of table `{}` are no records, which parts of a trace are counted in", schema.name);
    Err(Error::usage(what).hint("choose a part of a table that is derived from it"))
}
