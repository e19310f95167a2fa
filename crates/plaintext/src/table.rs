//! Records as rows of a table.

use crate::din;
use crate::lackey;
use crate::line::Record;
use quipu_model::table::Width;
use quipu_model::{Column, ColumnSchema, ColumnType, Rows, TableSchema};
use std::borrow::Cow;

/// The tables of what lackey prints.
pub(crate) static LACKEY_TABLES: &[&TableSchema] = &[&LACKEY_RECORDS];
/// The tables of what Dinero reads.
pub(crate) static DIN_TABLES: &[&TableSchema] = &[&DIN_RECORDS];

const RECORD: ColumnSchema =
    column("record", Width::U64, ColumnType::Count, "position among the records, from 1");
const LINE: ColumnSchema = column("line", Width::U64, ColumnType::Count, "line of the file, from 1");
const ADDR: ColumnSchema = column("addr", Width::U64, ColumnType::Hex, "first byte");

/// One row for each record that lackey prints.
pub static LACKEY_RECORDS: TableSchema = TableSchema {
    name: Cow::Borrowed("records"),
    derived: true,
    columns: Cow::Borrowed(&[
        RECORD,
        LINE,
        column("type", Width::U8, ColumnType::Name(lackey::LANGUAGE.kinds), "kind of the record"),
        ADDR,
        column("size", Width::U32, ColumnType::Count, "bytes of the instruction or the access"),
        column("pc", Width::U64, ColumnType::Hex, "the instruction, or the one that makes the access"),
    ]),
    doc: Cow::Borrowed("records in the order of the file"),
};

/// One row for each record that Dinero reads.
pub static DIN_RECORDS: TableSchema = TableSchema {
    name: Cow::Borrowed("records"),
    derived: true,
    columns: Cow::Borrowed(&[
        RECORD,
        LINE,
        column("type", Width::U8, ColumnType::Name(din::LANGUAGE.kinds), "kind of the record"),
        ADDR,
        column("size", Width::U32, ColumnType::Count, "bytes; 0 if nothing says"),
    ]),
    doc: Cow::Borrowed("records in the order of the file"),
};

const fn column(name: &'static str, width: Width, kind: ColumnType, doc: &'static str) -> ColumnSchema {
    ColumnSchema::new(name, width, kind, doc)
}

/// A record with what stands around it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    pub(crate) record: Record,
    /// The line of the file, from 1.
    pub(crate) line: u64,
}

/// Adds rows, the first of which is the record at `first_record`, counted from 0; `pcs` has a number for each where the
/// format has such a column.
pub(crate) fn push(first_record: u64, rows: &[Row], pcs: &[u64], to: &mut Rows) {
    for (i, column) in to.columns.iter_mut().enumerate() {
        match (i, column) {
            (0, Column::U64(records)) => records.extend((first_record + 1..).take(rows.len())),
            (1, Column::U64(lines)) => lines.extend(rows.iter().map(|row| row.line)),
            (2, Column::U8(kinds)) => kinds.extend(rows.iter().map(|row| row.record.kind)),
            (3, Column::U64(addrs)) => addrs.extend(rows.iter().map(|row| row.record.addr)),
            (4, Column::U32(sizes)) => sizes.extend(rows.iter().map(|row| row.record.size)),
            (5, Column::U64(column)) => column.extend_from_slice(pcs),
            _ => {}
        }
    }
}
