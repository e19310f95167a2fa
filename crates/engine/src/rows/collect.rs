//! Collecting rows from the batches of a reader: selected, reduced to the wanted columns, joined to batches of a useful size.

use super::RowBatch;
use super::exchange::Message;
use super::told::{Context, is_plain, tell};
use super::wanted::Wanted;
use quipu_model::column::{Cells, Column};
use quipu_model::print::{Ordinals, RowForm};
use quipu_model::row_source::{N_OWN, own};
use quipu_model::schema::{Missing, Role};
use quipu_model::trace::PrintOptions;
use quipu_model::{Batch, Beside, Result, Trace};
use std::ops::Range;
use std::sync::Arc;

/// Limit on the bytes in a column of texts; a batch ends when one exceeds it.
const MAX_TEXT_BYTES: usize = 64 << 20;

/// Collects batches of rows.
pub(super) struct Collector {
    wanted: Arc<Wanted>,
    /// The index of its selection.
    nth: usize,
    /// The format's way of writing values of arbitrary shape.
    form: Option<Box<dyn RowForm>>,
    /// Indexes of the selected rows of the current batch.
    rows: Vec<u32>,
    /// Positions of the records that rows of a lens belong to.
    records: Vec<u64>,
    /// The columns of the batch being collected.
    columns: Vec<Column>,
    n_rows: usize,
    /// Whether positions count along the sequence of all shards.
    counts_along: bool,
}

impl Collector {
    /// Creates an empty collector.
    ///
    /// # Errors
    /// An error of the format's [`RowForm`].
    pub(super) fn new(trace: &dyn Trace, nth: usize, wanted: &Arc<Wanted>) -> Result<Collector> {
        let form = if wanted.is_plain { None } else { trace.row_form(&PrintOptions::default())? };
        let columns = wanted.schema.fields.iter().map(Column::new).collect();
        Ok(Collector {
            wanted: wanted.clone(),
            nth,
            form,
            rows: Vec::new(),
            records: Vec::new(),
            columns,
            n_rows: 0,
            counts_along: false,
        })
    }

    /// Makes positions count along the sequence of all shards. Rows of a lens are then expected as the first table of each
    /// batch.
    pub(super) fn counts_along(&mut self) {
        self.counts_along = true;
    }

    /// Takes the rows of some of a batch's records, and the findings of the batch, and sends batches that are full. False if
    /// they are no longer wanted. If the selection is a table, it is the first of the batch.
    ///
    /// # Errors
    /// The reason why a value could not be written.
    pub(super) fn take(
        &mut self,
        batch: &mut Batch,
        ordinals: Ordinals,
        records: Range<u32>,
        send: &mut dyn FnMut(Message) -> bool,
    ) -> Result<bool> {
        if !batch.findings.is_empty() && !send(Message::Found(std::mem::take(&mut batch.findings))) {
            return Ok(false);
        }
        let wanted = self.wanted.clone();
        let ordinals = if self.counts_along { ordinals } else { Ordinals::default() };
        let mut chosen = std::mem::take(&mut self.rows);
        let all = {
            let Some(table) = wanted.rows_of(batch, self.counts_along, &mut self.records) else {
                return Ok(true);
            };
            let column = |at| table.column(at);
            let beside = Beside::of(batch, ordinals);
            wanted.chosen.choose_from(table.n_rows(), column, beside, &mut chosen)?;
            wanted.keep_records(&table, &batch.span, records, &mut chosen);
            chosen.len() == table.n_rows()
        };
        let is_large = chosen.len() >= wanted.batch_rows / 2;
        if all && is_large && self.n_rows == 0 && wanted.is_plain {
            self.move_all(batch, chosen.len());
        } else if !chosen.is_empty() {
            self.copy(batch, &chosen);
        }
        let added = self.n_rows - chosen.len().min(self.n_rows)..self.n_rows;
        self.shift(ordinals, added);
        self.rows = chosen;
        if let Some(failure) = self.form.as_mut().and_then(|form| form.failure()) {
            return Err(failure);
        }
        let is_full = self.n_rows >= wanted.batch_rows || self.columns.iter().any(is_heavy);
        Ok(!is_full || self.flush(send))
    }

    /// Sends the rows collected so far; false if they are no longer wanted.
    pub(super) fn flush(&mut self, send: &mut dyn FnMut(Message) -> bool) -> bool {
        if self.n_rows == 0 {
            return true;
        }
        let fresh = self.wanted.schema.fields.iter().map(Column::new).collect();
        let columns = std::mem::replace(&mut self.columns, fresh);
        let n_rows = std::mem::take(&mut self.n_rows);
        send(Message::Rows(self.nth, RowBatch::new(self.wanted.schema.clone(), columns, n_rows)))
    }

    /// Moves all rows of a batch without copying; the reader gets new buffers.
    fn move_all(&mut self, batch: &mut Batch, n_rows: usize) {
        let wanted = &self.wanted;
        let (own, lens) = match wanted.lens() {
            None => (Vec::new(), None),
            Some(lens) => (own_columns(batch, &self.records, n_rows, wanted), Some(lens)),
        };
        let rows = match lens.filter(|_| !self.counts_along) {
            Some(lens) => batch.take_lens(lens),
            None => batch.tables.first_mut().map(|table| {
                let fresh = table.fresh();
                std::mem::replace(table, fresh)
            }),
        };
        // The first column of a lens is the record index in the batch.
        let rows = rows.map(|rows| rows.into_columns()).unwrap_or_default();
        let rows = rows.into_iter().skip(usize::from(lens.is_some()));
        let mut columns: Vec<Option<Column>> = own.into_iter().chain(rows).map(Some).collect();
        for ((to, position), field) in self.columns.iter_mut().zip(&wanted.fields).zip(&wanted.schema.fields)
        {
            if let Some(column) = columns.get_mut(*position).and_then(Option::take) {
                *to = column;
            }
            pad(to, field.missing, n_rows);
        }
        self.n_rows = n_rows;
    }

    /// Appends copies of some rows of a batch.
    fn copy(&mut self, batch: &Batch, rows: &[u32]) {
        let wanted = self.wanted.clone();
        let Some(table) = wanted.rows_of(batch, self.counts_along, &mut self.records) else { return };
        self.n_rows += rows.len();
        for ((to, position), told) in self.columns.iter_mut().zip(&wanted.fields).zip(&wanted.schema.fields) {
            let (field, from) = (&wanted.inner.fields[*position], table.column(*position));
            if is_plain(&field.ty) {
                runs(rows).for_each(|run| to.extend_rows(from, run));
            } else {
                let mut indexes = Column::new(field);
                runs(rows).for_each(|run| indexes.extend_rows(from, run));
                let form = self.form.as_deref_mut();
                let texts = tell(indexes, field, &mut Context { batch, form, rows });
                to.extend_rows(texts.as_ref(), 0..texts.len());
            }
            pad(to, told.missing, self.n_rows);
        }
    }

    /// Turns positions in a shard into positions in the sequence.
    fn shift(&mut self, ordinals: Ordinals, rows: Range<usize>) {
        for (column, field) in self.columns.iter_mut().zip(&self.wanted.schema.fields) {
            let more = match field.role {
                Some(Role::RECORD) => ordinals.records,
                Some(Role::INSTR) => ordinals.instrs,
                _ => 0,
            };
            if let (true, Cells::U64(cells)) = (more != 0, &mut column.cells) {
                let cells = cells.get_mut(rows.clone()).into_iter().flatten();
                cells.for_each(|cell| *cell = cell.wrapping_add(more));
            }
        }
    }
}

/// The columns added in front of those of a lens.
fn own_columns(batch: &Batch, records: &[u64], n_rows: usize, wanted: &Wanted) -> Vec<Column> {
    let copy = |(field, from)| {
        let mut column = Column::new(field);
        column.extend_rows(from, 0..n_rows);
        column
    };
    wanted.inner.fields[..N_OWN].iter().zip(own(&batch.span, records, n_rows)).map(copy).collect()
}

/// Appends rows without a value to a column that was not filled.
fn pad(column: &mut Column, missing: Missing, n_rows: usize) {
    (column.len()..n_rows).for_each(|_| column.push_missing(missing));
}

/// Groups consecutive rows into ranges.
fn runs(rows: &[u32]) -> impl Iterator<Item = Range<usize>> {
    rows.chunk_by(|row, next| *next == row + 1).map(|run| {
        let start = run[0] as usize;
        start..start + run.len()
    })
}

/// True if a column holds so much text that the batch should end.
fn is_heavy(column: &Column) -> bool {
    match &column.cells {
        Cells::Strings(strings) => strings.n_bytes() > MAX_TEXT_BYTES,
        Cells::Nested { items, .. } => items.len() > MAX_TEXT_BYTES / 8 || is_heavy(items),
        Cells::Members(members) => members.iter().any(is_heavy),
        _ => false,
    }
}
