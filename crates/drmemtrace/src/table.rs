//! The native tables: `entries`, which is lossless, and `memrefs`, the records as tools see them.

use crate::record::{Entry, MARKER_NAMES, TYPE_NAMES, Type};
use quipu_model::table::{ColumnSchema, ColumnType, Width};
use quipu_model::trace::Family;
use quipu_model::{Column, Error, Result, Rows, TableSchema};
use std::borrow::Cow;
use zerocopy::IntoBytes;

const fn column(name: &'static str, width: Width, kind: ColumnType, doc: &'static str) -> ColumnSchema {
    ColumnSchema::new(name, width, kind, doc)
}

/// The entries as stored; bytes → rows → bytes is the identity.
pub static ENTRIES: TableSchema = TableSchema {
    name: Cow::Borrowed("entries"),
    derived: false,
    columns: Cow::Borrowed(&[
        column("type", Width::U16, ColumnType::Name(TYPE_NAMES), "Type of the entry."),
        column(
            "size",
            Width::U16,
            ColumnType::Count,
            "Bytes, or the marker kind, or the number of encoding bytes.",
        ),
        column("addr", Width::U64, ColumnType::Hex, "Address, value, or encoding bytes (little-endian)."),
    ]),
    doc: Cow::Borrowed("The entries as stored."),
};

/// The records as tools see them: hidden entries are folded into the records they belong to.
pub static MEMREFS: TableSchema = TableSchema {
    name: Cow::Borrowed("memrefs"),
    derived: true,
    columns: Cow::Borrowed(&[
        column("record", Width::U64, ColumnType::Count, "Record ordinal in the shard, from 1."),
        column("instr", Width::U64, ColumnType::Count, "Instructions up to and including this record."),
        column("pid", Width::U64, ColumnType::Count, "Process."),
        column("tid", Width::U64, ColumnType::Count, "Thread, with the workload in the top 16 bits."),
        column("type", Width::U16, ColumnType::Name(TYPE_NAMES), "Type of the record."),
        column("marker", Width::U16, ColumnType::Name(MARKER_NAMES), "Kind of a marker; 65535 elsewhere."),
        column("size", Width::U64, ColumnType::Count, "Bytes accessed or fetched; 0 for markers."),
        column("addr", Width::U64, ColumnType::Hex, "Address accessed or fetched; 0 for markers."),
        column(
            "pc",
            Width::U64,
            ColumnType::Hex,
            "Instruction of a data access; its own address for an instruction.",
        ),
        column("target", Width::U64, ColumnType::Hex, "Where an indirect branch went, if recorded, else 0."),
        column("value", Width::U64, ColumnType::Hex, "Value of a marker."),
        column("code", Width::U32, ColumnType::Code, "The instruction, where its bytes are known."),
        column("new_encoding", Width::U8, ColumnType::Flag, "The trace gave the encoding right here."),
        column("kernel", Width::U8, ColumnType::Flag, "The record is in a kernel region."),
        column(
            "time",
            Width::U64,
            ColumnType::Count,
            "Latest clock reading of the thread: microseconds since 1601.",
        ),
    ]),
    doc: Cow::Borrowed("The records as tools see them."),
};

/// All tables, in the order that scans number them.
pub static TABLES: &[&TableSchema] = &[&ENTRIES, &MEMREFS];
/// Position of [`ENTRIES`] in [`TABLES`].
pub const ENTRIES_TABLE: usize = 0;
/// Position of [`MEMREFS`] in [`TABLES`].
pub const MEMREFS_TABLE: usize = 1;
/// Words that stand for several types, for whoever chooses rows by their kind.
pub static FAMILIES: &[Family] = &[
    Family {
        word: "instr",
        names: &[
            "instr",
            "direct_jump",
            "indirect_jump",
            "conditional_jump",
            "direct_call",
            "indirect_call",
            "return",
            "sysenter",
            "taken_jump",
            "untaken_jump",
        ],
    },
    Family {
        word: "branch",
        names: &[
            "direct_jump",
            "indirect_jump",
            "conditional_jump",
            "direct_call",
            "indirect_call",
            "return",
            "taken_jump",
            "untaken_jump",
        ],
    },
    Family { word: "data", names: &["read", "write"] },
    Family { word: "flush", names: &["instr_flush", "data_flush"] },
    Family {
        word: "prefetch",
        names: &[
            "prefetch",
            "prefetch_read_l1",
            "prefetch_read_l2",
            "prefetch_read_l3",
            "prefetchnta",
            "prefetch_read",
            "prefetch_write",
            "prefetch_instr",
            "hardware_prefetch",
            "prefetch_read_l1_nt",
            "prefetch_read_l2_nt",
            "prefetch_read_l3_nt",
            "prefetch_instr_l1",
            "prefetch_instr_l1_nt",
            "prefetch_instr_l2",
            "prefetch_instr_l2_nt",
            "prefetch_instr_l3",
            "prefetch_instr_l3_nt",
            "prefetch_write_l1",
            "prefetch_write_l1_nt",
            "prefetch_write_l2",
            "prefetch_write_l2_nt",
            "prefetch_write_l3",
            "prefetch_write_l3_nt",
        ],
    },
];

/// The `marker` column of a record that is no marker.
pub const NO_MARKER: u16 = u16::MAX;

/// Appends entries to rows of [`ENTRIES`].
pub fn push_entries(entries: &[Entry], rows: &mut Rows) {
    if let [Column::U16(kind), Column::U16(size), Column::U64(addr)] = rows.columns.as_mut_slice() {
        kind.extend(entries.iter().map(|entry| entry.kind.get()));
        size.extend(entries.iter().map(|entry| entry.size.get()));
        addr.extend(entries.iter().map(|entry| entry.addr.get()));
    }
}

/// The bytes of rows of [`ENTRIES`]: the inverse of [`push_entries`].
pub fn to_bytes(rows: &Rows) -> Result<Vec<u8>> {
    let [Column::U16(kind), Column::U16(size), Column::U64(addr)] = rows.columns.as_slice() else {
        return Err(Error::usage(format!("rows of table `{}` cannot become entries", rows.schema.name)));
    };
    let mut bytes = Vec::with_capacity(kind.len() * size_of::<Entry>());
    for ((kind, size), addr) in kind.iter().zip(size).zip(addr) {
        bytes.extend_from_slice(Entry::new(Type(*kind), *size, *addr).as_bytes());
    }
    Ok(bytes)
}

/// The columns of [`MEMREFS`] by name, so that the filling loop pushes into plain vectors.
#[derive(Clone, Debug, Default)]
pub struct Memrefs {
    /// Record ordinal in the shard.
    pub record: Vec<u64>,
    /// Instruction ordinal.
    pub instr: Vec<u64>,
    /// Process.
    pub pid: Vec<u64>,
    /// Thread.
    pub tid: Vec<u64>,
    /// Type.
    pub kind: Vec<u16>,
    /// Marker kind, or [`NO_MARKER`].
    pub marker: Vec<u16>,
    /// Bytes.
    pub size: Vec<u64>,
    /// Address.
    pub addr: Vec<u64>,
    /// Instruction.
    pub pc: Vec<u64>,
    /// Target of an indirect branch.
    pub target: Vec<u64>,
    /// Value of a marker.
    pub value: Vec<u64>,
    /// Index into the code table.
    pub code: Vec<u32>,
    /// 1 if the encoding is new here.
    pub new_encoding: Vec<u8>,
    /// 1 in a kernel region.
    pub kernel: Vec<u8>,
    /// Latest clock reading.
    pub time: Vec<u64>,
}

impl Memrefs {
    /// Moves the columns out of `rows`, which must be of [`MEMREFS`]; gives empty ones otherwise.
    pub fn take(rows: &mut Rows) -> Memrefs {
        let mut columns = std::mem::take(&mut rows.columns).into_iter();
        let u64s = |columns: &mut dyn Iterator<Item = Column>| match columns.next() {
            Some(Column::U64(values)) => values,
            _ => Vec::new(),
        };
        let (record, instr, pid, tid) =
            (u64s(&mut columns), u64s(&mut columns), u64s(&mut columns), u64s(&mut columns));
        let u16s = |columns: &mut dyn Iterator<Item = Column>| match columns.next() {
            Some(Column::U16(values)) => values,
            _ => Vec::new(),
        };
        let (kind, marker) = (u16s(&mut columns), u16s(&mut columns));
        let (size, addr, pc, target, value) = (
            u64s(&mut columns),
            u64s(&mut columns),
            u64s(&mut columns),
            u64s(&mut columns),
            u64s(&mut columns),
        );
        let code = match columns.next() {
            Some(Column::U32(values)) => values,
            _ => Vec::new(),
        };
        let u8s = |columns: &mut dyn Iterator<Item = Column>| match columns.next() {
            Some(Column::U8(values)) => values,
            _ => Vec::new(),
        };
        let (new_encoding, kernel) = (u8s(&mut columns), u8s(&mut columns));
        let time = u64s(&mut columns);
        Memrefs {
            record,
            instr,
            pid,
            tid,
            kind,
            marker,
            size,
            addr,
            pc,
            target,
            value,
            code,
            new_encoding,
            kernel,
            time,
        }
    }

    /// Moves the columns back into `rows`.
    pub fn give(self, rows: &mut Rows) {
        rows.columns = vec![
            Column::U64(self.record),
            Column::U64(self.instr),
            Column::U64(self.pid),
            Column::U64(self.tid),
            Column::U16(self.kind),
            Column::U16(self.marker),
            Column::U64(self.size),
            Column::U64(self.addr),
            Column::U64(self.pc),
            Column::U64(self.target),
            Column::U64(self.value),
            Column::U32(self.code),
            Column::U8(self.new_encoding),
            Column::U8(self.kernel),
            Column::U64(self.time),
        ];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_hold_the_types_that_they_are_named_for() {
        let names = |word: &str| FAMILIES.iter().find(|family| family.word == word).unwrap().names.to_vec();
        let of = |is_member: fn(Type) -> bool| -> Vec<&str> {
            (0..50).map(Type).filter(|kind| is_member(*kind)).filter_map(Type::name).collect()
        };
        assert_eq!(names("instr"), of(Type::is_instr));
        assert_eq!(
            names("branch"),
            of(|kind| kind.is_instr() && kind != Type::INSTR && kind != Type::INSTR_SYSENTER)
        );
        assert_eq!(names("prefetch"), of(Type::is_prefetch));
    }

    #[test]
    fn taking_and_giving_back_keeps_every_column_at_its_place() {
        let mut rows = Rows::new(&MEMREFS);
        for (i, column) in rows.columns.iter_mut().enumerate() {
            column.push(i as u64).unwrap();
        }
        let before = rows.clone();
        let memrefs = Memrefs::take(&mut rows);
        assert_eq!((memrefs.record[0], memrefs.code[0], memrefs.time[0]), (0, 11, 14));
        memrefs.give(&mut rows);
        assert_eq!(rows, before);
    }
}
