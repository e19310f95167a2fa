//! Folds everything that a reader delivers into numbers, by which two readings can be compared, and checks on the way that
//! the reader keeps the promises of the model.

use quipu_model::column::CellsRef;
use quipu_model::print::{Ordinals, Paint, Printer};
use quipu_model::schema::Type;
use quipu_model::trace::{PrintOptions, settled};
use quipu_model::values::{Kind, NO_NODE, Values};
use quipu_model::{Batch, ColumnRef, Columns, Error, Field, Found, Result, Scan, TableBuf, Trace};

/// The result of one read of one shard.
#[derive(Debug, Default)]
pub struct Reading {
    /// A hash for each record: all rows of all lenses that belong to it, its thread, its ordinal.
    pub records: Vec<u64>,
    /// Number of instructions.
    pub instrs: u64,
    /// A hash for each column of each table, in the order of the rows.
    pub columns: Vec<u64>,
    /// A hash of the raw bytes, in order.
    pub raw: u64,
    /// A hash of the records as printed.
    pub text: u64,
    /// The findings of all batches together, as text.
    pub findings: Vec<String>,
    /// The error that ended the read early.
    pub error: Option<Error>,
    /// True if the read was stopped because there were too many records.
    pub stopped: bool,
}

/// Options of a reading.
#[derive(Clone, Debug)]
pub struct ReadingOptions {
    /// The scan; its columns and tables are replaced by everything that the trace has.
    pub scan: Scan,
    /// Number of records after which to stop: a small file may inflate to a huge one.
    pub max_records: usize,
    /// How much to read.
    pub depth: Depth,
}

/// The data that a reading compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// All lenses.
    Lenses,
    /// All lenses, the tables, the raw bytes, and the records as printed. Several times slower.
    Everything,
}

impl Reading {
    /// Reads a shard to its end, its fault, or the limit. If the trace reports that delivered bytes later proved damaged, the
    /// shard is read again, as every verb does: only the first read of such a file delivers them.
    ///
    /// # Errors
    /// If the read cannot begin.
    ///
    /// # Panics
    /// If a batch breaks a promise of the model.
    pub fn of(trace: &dyn Trace, options: &ReadingOptions) -> Result<Reading> {
        settled(trace, || false, || Reading::once(trace, options))
    }

    fn once(trace: &dyn Trace, options: &ReadingOptions) -> Result<Reading> {
        let mut scan = Scan { columns: trace.columns(), tables: Vec::new(), ..options.scan.clone() };
        let mut printer = None;
        if options.depth == Depth::Everything {
            let tables = trace.tables()?;
            let derived = |table: &usize| tables[*table].is_derived();
            scan.columns |= Columns::RAW;
            scan.tables = (0..tables.len()).collect();
            // Printers print the first table.
            scan.tables.sort_by_key(|table| !derived(table));
            if scan.tables.first().is_some_and(derived) {
                printer = Some(trace.printer(&PrintOptions::default())?);
            }
        }
        let mut reader = trace.scan(&scan)?;
        let mut fold = Fold { printer, ..Fold::default() };
        loop {
            match reader.read() {
                Ok(Some(batch)) => {
                    check(batch, &scan);
                    // A run of records without rows may be longer than all that is compared.
                    let room = options.max_records.saturating_sub(fold.reading.records.len());
                    fold.add(batch, room.max(scan.batch_records as usize));
                }
                Ok(None) => break,
                Err(error) => {
                    fold.reading.error = Some(error);
                    break;
                }
            }
            if fold.reading.records.len() >= options.max_records {
                fold.reading.stopped = true;
                break;
            }
        }
        Ok(fold.finish(options.max_records))
    }

    /// True if the reader reported an error or a finding.
    pub fn complains(&self) -> bool {
        self.error.is_some() || !self.findings.is_empty()
    }

    /// Panics with the first difference to another reading of the same shard.
    ///
    /// # Panics
    /// If there is a difference.
    pub fn assert_same(&self, other: &Reading, how: &str) {
        let first = self.records.iter().zip(&other.records).position(|(ours, theirs)| ours != theirs);
        assert_eq!(first, None, "{how}: this is the first record that differs (counted from 0)");
        assert_eq!(self.records.len(), other.records.len(), "{how}: count of records");
        if self.stopped || other.stopped {
            return;
        }
        assert_eq!(self.instrs, other.instrs, "{how}: count of instructions");
        assert_eq!(self.columns, other.columns, "{how}: columns of tables");
        assert_eq!(self.raw, other.raw, "{how}: raw bytes");
        assert_eq!(self.text, other.text, "{how}: records as printed");
        assert_eq!(self.findings, other.findings, "{how}: findings");
        let error = |reading: &Reading| reading.error.as_ref().map(ToString::to_string);
        assert_eq!(error(self), error(other), "{how}: error");
    }
}

/// A reading under construction.
#[derive(Default)]
struct Fold {
    reading: Reading,
    /// The hash of rows that belong to the next record: calls refer to the record after them.
    last: u64,
    raw: ByteFold,
    printer: Option<Box<dyn Printer>>,
    out: Vec<u8>,
    text: ByteFold,
    /// Counts of violations may be split between batches; all readers of batches add them up.
    found: Found,
}

impl Fold {
    /// Adds a batch, at most `most` of its records.
    fn add(&mut self, batch: &mut Batch, most: usize) {
        let n_records = (batch.span.records as usize).min(most);
        let first = self.reading.records.len();
        self.reading.records.resize(first + n_records + 1, 0);
        let records = &mut self.reading.records[first..];
        fold_lenses(batch, records);
        records[0] = records[0].wrapping_add(self.last);
        self.last = records[n_records];
        self.reading.records.pop();
        self.reading.instrs += u64::from(batch.span.instrs);
        let n_columns = batch.tables.iter().map(|rows| rows.schema().fields.len()).sum();
        self.reading.columns.resize(n_columns, 0);
        let mut hashes = self.reading.columns.iter_mut();
        for rows in &batch.tables {
            fold_table(&**rows, batch, &mut hashes);
        }
        self.raw.add(batch.raw());
        if let (Some(printer), Some(table)) = (&mut self.printer, batch.tables.first()) {
            let rows: Vec<u32> = (0..u32::try_from(table.n_rows()).unwrap_or(u32::MAX)).collect();
            printer.print(batch, &rows, Ordinals::default(), &Paint::PLAIN, &mut self.out);
            self.text.add(&self.out);
            self.out.clear();
        }
        batch.findings.drain(..).for_each(|finding| self.found.push(finding));
    }

    fn finish(mut self, max_records: usize) -> Reading {
        self.reading.records.truncate(max_records);
        self.reading.raw = self.raw.finish();
        self.reading.text = self.text.finish();
        self.reading.findings = self.found.into_vec().iter().map(ToString::to_string).collect();
        self.reading
    }
}

/// Adds each row of each lens to the hash of its record.
fn fold_lenses(batch: &Batch, records: &mut [u64]) {
    let span = &batch.span;
    let thread = mix(span.thread.tid ^ mix(span.process ^ mix(u64::from(span.thread.workload))));
    for (record, at) in records.iter_mut().zip(0..u64::from(span.records)) {
        *record = mix(thread ^ span.first_record.wrapping_add(at));
    }
    for (lens, (at, rows)) in (1u64..).zip(batch.lenses()) {
        // In a batch without records, rows belong to records before a window.
        if span.records == 0 {
            continue;
        }
        // The first column is the index of the record itself.
        for (position, field) in rows.schema().fields.iter().enumerate().skip(1) {
            let column = rows.column(position);
            for (row, at) in at.iter().enumerate().take(column.len()) {
                let value = fold_cell(mix(lens << 8 | position as u64), field, column, row, batch);
                let record = &mut records[*at as usize];
                *record = record.wrapping_add(mix(value));
            }
        }
    }
}

/// Folds the rows of a table.
fn fold_table<'h>(rows: &dyn TableBuf, batch: &Batch, hashes: &mut impl Iterator<Item = &'h mut u64>) {
    for ((position, field), hash) in rows.schema().fields.iter().enumerate().zip(hashes) {
        let column = rows.column(position);
        for row in 0..rows.n_rows() {
            *hash = fold_cell(*hash, field, column, row, batch);
        }
    }
}

/// Folds a cell: instructions, values and texts by content instead of by index.
fn fold_cell(hash: u64, field: &Field, column: ColumnRef<'_>, row: usize, batch: &Batch) -> u64 {
    let number = column.number(row);
    let index = u32::try_from(number).ok();
    match &field.ty {
        _ if column.is_missing(field.missing, row) => mix(hash ^ u64::MAX),
        Type::Code => match index.and_then(|index| batch.codes.get(index)) {
            Some(code) => fold_bytes(mix(hash ^ code.pc), code.bytes()),
            None => mix(hash ^ number),
        },
        Type::Value => fold_value(hash, &batch.values, index.unwrap_or(NO_NODE)),
        Type::Dict(dict) => {
            let text = index.and_then(|index| batch.dicts.get(*dict, index));
            fold_bytes(mix(hash ^ 1), text.unwrap_or(&[]))
        }
        Type::Text | Type::Bytes | Type::Fixed(_) => fold_bytes(mix(hash ^ 1), column.bytes(row)),
        Type::List(item) => match column.items(row) {
            Some((items, range)) => {
                range.fold(mix(hash ^ 2), |hash, at| fold_cell(hash, item, items.as_ref(), at, batch))
            }
            None => mix(hash ^ 2),
        },
        Type::Struct(members) => match column.cells {
            CellsRef::Members(columns) => {
                members.iter().zip(columns).fold(mix(hash ^ 3), |hash, (member, column)| {
                    fold_cell(hash, member, column.as_ref(), row, batch)
                })
            }
            _ => mix(hash ^ 3),
        },
        _ => mix(hash ^ number),
    }
}

/// Folds a value by content instead of by index.
fn fold_value(hash: u64, values: &Values, node: u32) -> u64 {
    let end = if node == NO_NODE { node } else { values.behind(node) };
    (node..end).fold(mix(hash), |hash, at| {
        let node = values.node(at);
        let hash = mix(hash ^ (node.kind as u64) << 32 ^ u64::from(node.ty));
        let text = if matches!(node.kind, Kind::Text | Kind::Blob | Kind::Wide) {
            values.bytes_of(node)
        } else {
            &[]
        };
        fold_bytes(mix(hash ^ node.bits()), text)
    })
}

/// Folds bytes, eight at a time; the result does not depend on how they are divided.
#[derive(Default)]
struct ByteFold {
    hash: u64,
    /// The bytes that do not fill a word yet.
    rest: u64,
    n_rest: u32,
}

impl ByteFold {
    fn add(&mut self, bytes: &[u8]) {
        let n_head = if self.n_rest == 0 { 0 } else { bytes.len().min(8 - self.n_rest as usize) }; // Below 8.
        let (head, body) = bytes.split_at(n_head);
        let (words, tail) = body.as_chunks::<8>();
        self.add_slowly(head);
        for word in words {
            self.hash = mix(self.hash ^ u64::from_le_bytes(*word));
        }
        self.add_slowly(tail);
    }

    fn add_slowly(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.rest |= u64::from(*byte) << (8 * self.n_rest);
            self.n_rest += 1;
            if self.n_rest == 8 {
                self.hash = mix(self.hash ^ self.rest);
                (self.rest, self.n_rest) = (0, 0);
            }
        }
    }

    fn finish(&self) -> u64 {
        mix(self.hash ^ self.rest) ^ u64::from(self.n_rest)
    }
}

fn fold_bytes(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| mix(hash ^ u64::from(*byte)))
}

/// Panics if a batch breaks a promise of [`Scan`] or [`Batch`].
fn check(batch: &Batch, scan: &Scan) {
    let span = &batch.span;
    let has_rows = batch.tables.iter().any(|table| table.n_rows() > 0)
        || batch.lenses().any(|(_, rows)| rows.n_rows() > 0)
        || !batch.raw().is_empty();
    assert!(
        span.records <= scan.batch_records || !has_rows,
        "a batch has {} of {} records",
        span.records,
        scan.batch_records
    );
    assert!(span.instrs <= span.records, "{} instrs among {} records", span.instrs, span.records);
    assert_eq!(span.shard, scan.shard.0, "a batch is of the shard asked for");
    for (at, rows) in batch.lenses() {
        let (name, n_rows) = (&rows.schema().name, rows.n_rows());
        assert_eq!(at.len(), n_rows, "column at of {name}");
        assert!(at.is_sorted(), "rows of {name} are in the order of records");
        // A call belongs to the record that follows it.
        let end = span.records.saturating_add(u32::from(name == "calls")).max(u32::from(name == "regions"));
        assert!(at.last().is_none_or(|last| *last < end), "rows of {name} belong to records of the batch");
        for (position, field) in rows.schema().fields.iter().enumerate() {
            let len = rows.column(position).len();
            assert!(len == n_rows || len == 0, "column {} of {name}", field.name);
        }
    }
    for rows in &batch.tables {
        let schema = rows.schema();
        let n_columns = schema.fields.len();
        let lengths = (0..n_columns).map(|position| rows.column(position).len());
        assert!(lengths.into_iter().all(|len| len == rows.n_rows()), "columns of {}", schema.name);
    }
}

/// Spreads the bits of a number over all 64 bits.
fn mix(value: u64) -> u64 {
    crate::Rng::new(value).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_fold_to_the_same_number_however_they_are_cut() {
        let bytes: Vec<u8> = (0..100).collect();
        let fold = |parts: &[&[u8]]| {
            let mut fold = ByteFold::default();
            parts.iter().for_each(|part| fold.add(part));
            fold.finish()
        };
        let whole = fold(&[&bytes]);
        for cut in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(cut);
            assert_eq!(fold(&[head, tail]), whole, "cut at {cut}");
            assert_eq!(fold(&[head, &tail[..tail.len().min(3)], &tail[tail.len().min(3)..]]), whole);
        }
        assert_ne!(fold(&[&bytes[..99]]), whole);
        assert_ne!(fold(&[&[0]]), fold(&[&[0, 0]]));
    }
}
