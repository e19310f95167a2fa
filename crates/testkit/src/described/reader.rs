//! Reads a trace that describes itself.

use super::parse::{self, Line};
use quipu_model::lens::AccessKind;
use quipu_model::schema::{Role, Schema};
use quipu_model::{
    Batch, ColumnTable, Columns, Error, Finding, Place, Reader, Result, Scan, Severity, Table, TableBuf,
    Window,
};
use std::sync::Arc;

/// A read of rows of one table.
#[derive(Debug)]
pub(super) struct DescribedReader {
    lines: Arc<[Line]>,
    /// Index of the next line.
    at: usize,
    /// The table whose rows are records.
    table: usize,
    /// The rows of the batch.
    rows: ColumnTable,
    columns: Columns,
    batch_records: u32,
    wanted: std::ops::Range<u64>,
    n_records: u64,
    batch: Batch,
}

impl DescribedReader {
    pub(super) fn new(lines: Arc<[Line]>, schemas: &[Arc<Schema>], scan: &Scan) -> Result<DescribedReader> {
        let has_addresses = |schema: &Arc<Schema>| schema.position_of(Role::ADDRESS).is_some();
        let table = match scan.tables[..] {
            [] => schemas.iter().position(has_addresses).unwrap_or(0),
            [table] => table,
            _ => return Err(Error::unsupported("one table of such a trace is read at a time")),
        };
        let schema = schemas.get(table).ok_or_else(|| Error::usage("the trace has no such table"))?;
        let rows = ColumnTable::new(schema.clone());
        let tables = scan.tables.iter().map(|_| rows.fresh()).collect();
        let wanted = match &scan.window {
            Window::Records(range) => range.clone(),
            _ => 0..u64::MAX,
        };
        Ok(DescribedReader {
            lines,
            at: 0,
            table,
            rows,
            columns: scan.columns,
            batch_records: scan.batch_records.max(1),
            wanted,
            n_records: 0,
            batch: Batch { tables, ..Batch::default() },
        })
    }

    fn row(&mut self, cells: &[String]) -> Result<()> {
        let DescribedReader { rows, batch, .. } = self;
        let schema = rows.schema().clone();
        for ((column, field), cell) in rows.columns.iter_mut().zip(&schema.fields).zip(cells) {
            parse::push(column, field, cell, &mut |dict, text| batch.dicts.push(dict, text.as_bytes()))?;
        }
        let last = rows.n_rows() - 1;
        let number = |role| {
            let position = schema.position_of(role)?;
            let (column, missing) = (rows.column(position), schema.fields[position].missing);
            (!column.is_missing(missing, last)).then(|| column.number(last))
        };
        if let (true, Some(addr)) = (self.columns.has(Columns::ACCESSES), number(Role::ADDRESS)) {
            let accesses = &mut batch.accesses;
            let is_write = number(Role::ACCESS_KIND) == Some(1);
            accesses.at.push(batch.span.records);
            accesses.addr.push(addr);
            accesses.size.push(number(Role::SIZE).and_then(|size| u32::try_from(size).ok()).unwrap_or(0));
            accesses.kind.push(if is_write { AccessKind::Write } else { AccessKind::Read });
        }
        batch.span.records += 1;
        Ok(())
    }
}

impl Reader for DescribedReader {
    fn read(&mut self) -> Result<Option<&mut Batch>> {
        self.batch.clear();
        self.rows.clear();
        self.batch.span = quipu_model::Span { first_record: self.n_records, ..Default::default() };
        let lines = self.lines.clone();
        while self.batch.span.records < self.batch_records
            && let Some(line) = lines.get(self.at)
        {
            self.at += 1;
            match line {
                // A rule that was unknown before the trace was read.
                Line::Finding(rule, message) => {
                    let place = Place { record: Some(self.n_records), ..Place::default() };
                    let rule = format!("described/{rule}");
                    self.batch.findings.push(Finding::new(rule, Severity::Error, place, message.clone()));
                }
                Line::Row(table, cells) if *table == self.table => {
                    self.n_records += 1;
                    if self.wanted.contains(&(self.n_records - 1)) {
                        self.row(cells)?;
                    }
                }
                Line::Row(..) => {}
            }
        }
        if let Some(rows) = self.batch.tables.first_mut().and_then(|table| table.get_mut()) {
            std::mem::swap(rows, &mut self.rows);
        }
        let is_over = self.batch.span.records == 0 && self.batch.findings.is_empty();
        Ok((!is_over).then_some(&mut self.batch))
    }

    fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    fn limit_records(&mut self, records: u32) {
        self.batch_records = records.max(1);
    }
}
