//! The decoded form of a frame: rows of each schema as columns, and the side records between them.

use crate::column::Column;
use crate::decode::ROW_HEAD_BYTES;
use crate::schema::Schema;
use quipu_wire::cbor::Value;
use std::sync::Arc;

/// Number of tables that a batch may keep allocated from frame to frame.
const MAX_KEPT: usize = 256;

/// Rows of one schema, in the order of the frame.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The schema of the rows.
    pub schema: Arc<Schema>,
    /// Position of each row among the data records of its frame.
    pub ordinals: Vec<u32>,
    /// Time of each row, in ticks of the stream's clock.
    pub times: Vec<u64>,
    /// A column for each field.
    pub columns: Vec<Column>,
    /// For plain rows: the offset of each row's body in the payload. If `is_numbers`, only for rows that are not in the
    /// columns yet.
    pub(crate) bodies: Vec<u32>,
    /// Whether all fields are numbers for which any bytes are a valid value.
    pub(crate) is_numbers: bool,
}

impl Rows {
    fn new(schema: Arc<Schema>) -> Rows {
        let columns = schema.fields.iter().map(|field| Column::new(&field.layout)).collect();
        let is_numbers = schema.fields.iter().all(|field| field.layout.is_plain_number());
        Rows { schema, ordinals: Vec::new(), times: Vec::new(), columns, bodies: Vec::new(), is_numbers }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Makes room for `n` more rows of numbers.
    pub(crate) fn reserve(&mut self, n: usize) {
        self.ordinals.reserve(n);
        self.times.reserve(n);
        self.columns.iter_mut().for_each(|column| column.reserve(n));
    }

    /// Adds plain rows that all have `size` bytes and one schema of numbers; `first` is the ordinal of the first row.
    pub(crate) fn extend_alike(&mut self, rows: &[u8], size: usize, first: u32) {
        let n = rows.len() / size;
        self.ordinals.extend(first..first + n as u32); // Payloads have at most 256 MiB.
        self.times.extend(
            rows.chunks_exact(size).map(|row| {
                row.get(8..16).and_then(|time| time.try_into().ok()).map_or(0, u64::from_le_bytes)
            }),
        );
        for (column, field) in self.columns.iter_mut().zip(&self.schema.fields) {
            let at = ROW_HEAD_BYTES + field.field.offset.unwrap_or_default() as usize;
            column.extend_alike(rows, size, at);
        }
    }

    fn clear(&mut self) {
        self.ordinals.clear();
        self.times.clear();
        self.bodies.clear();
        self.columns.iter_mut().for_each(Column::clear);
    }
}

/// A record between the data records of a frame of plain rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Side {
    /// A loss.
    Loss(Value),
    /// A correlation of clocks.
    Clock(Value),
    /// A remark.
    Remark(Remark),
}

/// A remark of the writer between two records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remark {
    /// Number of data records of the frame before the remark.
    pub ordinal: u32,
    /// Its time, in ticks of the stream's clock.
    pub time: u64,
    /// The text of the remark.
    pub text: String,
}

/// The decoded rows of a frame, or of a part of it.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    tables: Vec<Rows>,
    /// The table of each row, in the order of the frame.
    order: Vec<u32>,
    /// Records between the data records.
    pub side: Vec<Side>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Drops all rows and side records, and keeps the memory.
    pub fn clear(&mut self) {
        if self.tables.len() > MAX_KEPT {
            self.tables.clear();
        }
        self.tables.iter_mut().for_each(Rows::clear);
        self.order.clear();
        self.side.clear();
    }

    /// The tables that have rows.
    pub fn tables(&self) -> impl Iterator<Item = &Rows> {
        self.tables.iter().filter(|rows| !rows.is_empty())
    }

    /// Number of rows in all tables.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.tables.iter().map(Rows::len).sum()
    }

    /// All rows in the order of the frame: table and row.
    pub fn in_order(&self) -> impl Iterator<Item = (&Rows, usize)> {
        let mut next = vec![0; self.tables.len()];
        self.order.iter().map(move |table| {
            let table = *table as usize;
            let row = next[table];
            next[table] += 1;
            (&self.tables[table], row)
        })
    }

    /// The table of each row, in the order of the frame, as a place for [`Batch::table`]. Rows of one table are in their own
    /// order.
    #[must_use]
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Returns the table at a place.
    ///
    /// # Panics
    /// Panics if `place` is not less than [`Batch::n_tables`].
    #[must_use]
    pub fn table(&self, place: u32) -> &Rows {
        &self.tables[place as usize]
    }

    /// Number of places of tables, including tables without rows.
    #[must_use]
    pub fn n_tables(&self) -> usize {
        self.tables.len()
    }

    /// The number of the table of a schema, which is added if the batch has none yet.
    pub(crate) fn slot(&mut self, schema: &Arc<Schema>) -> usize {
        if let Some(slot) = self.tables.iter().position(|rows| Arc::ptr_eq(&rows.schema, schema)) {
            return slot;
        }
        self.tables.push(Rows::new(Arc::clone(schema)));
        self.tables.len() - 1
    }

    pub(crate) fn rows_mut(&mut self, slot: usize) -> &mut Rows {
        &mut self.tables[slot]
    }

    pub(crate) fn all_rows_mut(&mut self) -> &mut [Rows] {
        &mut self.tables
    }

    pub(crate) fn push_order(&mut self, slot: usize) {
        self.order.push(slot as u32); // Fewer than a frame has bytes.
    }

    /// The table of a schema, for decoders of private encodings. After adding rows to tables, they call [`Batch::settle`].
    pub fn table_mut(&mut self, schema: &Arc<Schema>) -> &mut Rows {
        let slot = self.slot(schema);
        &mut self.tables[slot]
    }

    /// Puts the rows of all tables in the order of their ordinals.
    pub fn settle(&mut self) {
        let mut with_rows = self.tables.iter().enumerate().filter(|(_, rows)| !rows.is_empty());
        if let (Some((slot, rows)), None) = (with_rows.next(), with_rows.next()) {
            self.order.clear();
            self.order.resize(rows.len(), slot as u32); // Fewer than a frame has bytes.
            return;
        }
        let n = self.tables.iter().filter_map(|rows| rows.ordinals.last()).max().map_or(0, |last| last + 1);
        const NONE: u32 = u32::MAX;
        self.order.clear();
        self.order.resize(n as usize, NONE);
        for (slot, rows) in self.tables.iter().enumerate() {
            for ordinal in &rows.ordinals {
                self.order[*ordinal as usize] = slot as u32; // Fewer than a frame has bytes.
            }
        }
        self.order.retain(|slot| *slot != NONE);
    }
}
