//! Records as rows of a table.

use crate::record::{ATOMIC, KIND_MASK, UNALIGNED};
use quipu_model::table::Width;
use quipu_model::trace::Family;
use quipu_model::values::NO_NODE;
use quipu_model::{Column, ColumnSchema, ColumnType, Rows, TableSchema};
use std::borrow::Cow;

/// The tables of a trace, as [`Trace::tables`](quipu_model::Trace::tables) lists them.
pub static TABLES: &[&TableSchema] = &[&RECORDS];

/// Names of the kinds of records, by tag without flags.
pub static KINDS: &[&str] = &["read", "write", "add", "remove"];

/// Words that stand for several kinds of records.
pub static FAMILIES: &[Family] = &[
    Family { word: "access", names: &["read", "write"] },
    Family { word: "annotation", names: &["add", "remove"] },
];

/// One row for each record, with all that a record has.
pub static RECORDS: TableSchema = TableSchema {
    name: Cow::Borrowed("records"),
    derived: true,
    columns: Cow::Borrowed(&[
        column("record", Width::U64, ColumnType::Count, "position in the file, from 1"),
        column("tid", Width::U64, ColumnType::Count, "thread"),
        column("type", Width::U8, ColumnType::Name(KINDS), "kind of the record"),
        column("atomic", Width::U8, ColumnType::Flag, "an atomic operation made the access"),
        column(
            "unaligned",
            Width::U8,
            ColumnType::Flag,
            "the compiler could not prove that the access is aligned",
        ),
        column("addr", Width::U64, ColumnType::Hex, "first byte"),
        column("size", Width::U8, ColumnType::Count, "bytes accessed; 0 for annotations"),
        column("element_bytes", Width::U32, ColumnType::Count, "bytes of an annotated element"),
        column("elements", Width::U32, ColumnType::Count, "annotated elements"),
        column("type_name", Width::U32, ColumnType::Text, "name of the elements' type"),
    ]),
    doc: Cow::Borrowed("records in the order of the file"),
};

const fn column(name: &'static str, width: Width, kind: ColumnType, doc: &'static str) -> ColumnSchema {
    ColumnSchema::new(name, width, kind, doc)
}

/// The tag of a record: its kind with its flags.
pub(crate) fn tag(kind: u8, atomic: u8, unaligned: u8) -> u8 {
    kind | if atomic == 0 { 0 } else { ATOMIC } | if unaligned == 0 { 0 } else { UNALIGNED }
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) record: u64,
    pub(crate) thread: u64,
    pub(crate) tag: u8,
    pub(crate) addr: u64,
    pub(crate) size: u8,
    pub(crate) element_bytes: u32,
    pub(crate) n_elements: u32,
    pub(crate) type_name: u32,
}

/// Adds an annotation's row.
pub(crate) fn push(row: &Row, rows: &mut Rows) {
    push_accesses(row.record, row.thread, [(row.tag, row.addr, row.size)].into_iter(), rows);
    for (i, column) in rows.columns.iter_mut().enumerate().skip(7) {
        let value = match i {
            7 => row.element_bytes,
            8 => row.n_elements,
            _ => row.type_name,
        };
        if let Column::U32(values) = column
            && let Some(last) = values.last_mut()
        {
            *last = value;
        }
    }
}

/// Adds rows of accesses: tag, address and size of each. PERF: a column at a time (`view`).
pub(crate) fn push_accesses(
    first_record: u64,
    thread: u64,
    accesses: impl ExactSizeIterator<Item = (u8, u64, u8)> + Clone,
    rows: &mut Rows,
) {
    let n = accesses.len();
    for (i, column) in rows.columns.iter_mut().enumerate() {
        match (i, column) {
            (0, Column::U64(records)) => records.extend((first_record..).take(n)),
            (1, Column::U64(threads)) => threads.extend(std::iter::repeat_n(thread, n)),
            (2, Column::U8(kinds)) => kinds.extend(accesses.clone().map(|(tag, ..)| tag & KIND_MASK)),
            (3, Column::U8(flags)) => {
                flags.extend(accesses.clone().map(|(tag, ..)| u8::from(tag & ATOMIC != 0)));
            }
            (4, Column::U8(flags)) => {
                flags.extend(accesses.clone().map(|(tag, ..)| u8::from(tag & UNALIGNED != 0)));
            }
            (5, Column::U64(addrs)) => addrs.extend(accesses.clone().map(|(_, addr, _)| addr)),
            (6, Column::U8(sizes)) => sizes.extend(accesses.clone().map(|(.., size)| size)),
            (7 | 8, Column::U32(numbers)) => numbers.extend(std::iter::repeat_n(0, n)),
            (9, Column::U32(names)) => names.extend(std::iter::repeat_n(NO_NODE, n)),
            _ => {}
        }
    }
}
