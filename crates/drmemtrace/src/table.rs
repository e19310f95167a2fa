//! The native tables: `entries`, which is lossless, and `memrefs`, the records as tools see them.

use crate::record::{Entry, MARKER_NAMES, TYPE_NAMES, Type};
use quipu_model::column::Maybe;
use quipu_model::lens::NO_CODE;
use quipu_model::schema::{Names, Role, Schema, Storage, Type as Column, Unit};
use quipu_model::{Error, Result, TableBuf, rows};
use std::sync::{Arc, LazyLock};
use zerocopy::IntoBytes;

/// Words that stand for several types, with these types.
const FAMILIES: &[(&str, &[&str])] = &[
    (
        "instr",
        &[
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
    ),
    (
        "branch",
        &[
            "direct_jump",
            "indirect_jump",
            "conditional_jump",
            "direct_call",
            "indirect_call",
            "return",
            "taken_jump",
            "untaken_jump",
        ],
    ),
    ("data", &["read", "write"]),
    ("flush", &["instr_flush", "data_flush"]),
    (
        "prefetch",
        &[
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
    ),
];

static TYPES: LazyLock<Arc<Names>> = LazyLock::new(|| {
    let names = Names::dense(Storage::U16, TYPE_NAMES);
    FAMILIES.iter().fold(names, |names, (word, types)| names.with_group(*word, types)).shared()
});
static MARKERS: LazyLock<Arc<Names>> = LazyLock::new(|| Names::dense(Storage::U16, MARKER_NAMES).shared());

/// The names of types, together with words that stand for several.
pub fn types() -> &'static Names {
    &TYPES
}

rows! {
    /// The entries as stored; bytes → rows → bytes is the identity.
    pub struct Entries: "entries" exact "The entries as stored." {
        kind("type"): Vec<u16> as Column::Enum(TYPES.clone()) => "Type of the entry.";
        size: Vec<u16> => "Bytes, or the marker kind, or the number of encoding bytes.";
        addr: Vec<u64>, hex() => "Address, value, or encoding bytes (little-endian).";
    }
}

rows! {
    /// The records as tools see them: hidden entries are folded into the records they belong to.
    pub struct Memrefs: "memrefs" derived "The records as tools see them.", len code, codes code {
        record: Vec<u64>, role(Role::RECORD) => "Record ordinal in the shard, from 1.";
        instr: Vec<u64>, role(Role::INSTR) => "Instructions up to and including this record.";
        pid: Vec<u64>, role(Role::PROCESS) => "Process.";
        tid: Vec<u64>, role(Role::THREAD) => "Thread, with the workload in the top 16 bits.";
        kind("type"): Vec<u16> as Column::Enum(TYPES.clone()), role(Role::ACCESS_KIND) => "Type of the record.";
        marker: Vec<u16> as Column::Enum(MARKERS.clone()), missing(NO_MARKER)
            => "Kind of a marker; empty for other records.";
        size: Vec<u64>, missing(0u64), role(Role::SIZE), unit(Unit::BYTES) => "Bytes accessed or fetched.";
        addr: Maybe<Vec<u64>> as Column::Address, role(Role::ADDRESS) => "Address accessed or fetched.";
        pc: Vec<u64> as Column::Address, missing(0u64), role(Role::PC)
            => "Address of the instruction that made the access; for an instruction, its own address.";
        target: Vec<u64> as Column::Address, missing(0u64) => "Target of an indirect branch, if recorded.";
        value: Maybe<Vec<u64>>, hex() => "Value of a marker.";
        code: Vec<u32> as Column::Code, missing(NO_CODE) => "Encoding of the instruction, if known.";
        new_encoding: Vec<u8> as Column::Bool => "Whether the encoding is given at this record.";
        kernel: Vec<u8> as Column::Bool => "Whether the record is in a kernel region.";
        time: Vec<u64>, missing(0u64), role(Role::TIME), unit(Unit::MICROSECONDS)
            => "Latest clock reading of the thread: microseconds since 1601.";
    }
}

/// All tables, in the order that scans number them.
pub fn tables() -> Vec<Arc<Schema>> {
    vec![Entries::table_schema().clone(), Memrefs::table_schema().clone()]
}

/// Empty rows of the table with this number, if there is one.
pub fn table(number: usize) -> Option<Box<dyn TableBuf>> {
    match number {
        ENTRIES_TABLE => Some(Box::new(Entries::default())),
        MEMREFS_TABLE => Some(Box::new(Memrefs::default())),
        _ => None,
    }
}

/// Position of [`Entries`] among the tables.
pub const ENTRIES_TABLE: usize = 0;
/// Position of [`Memrefs`] among the tables.
pub const MEMREFS_TABLE: usize = 1;

/// The `marker` column of records other than markers.
pub const NO_MARKER: u16 = u16::MAX;

/// Appends entries to rows of [`Entries`].
pub fn push_entries(entries: &[Entry], rows: &mut dyn TableBuf) {
    if let Some(rows) = rows.get_mut::<Entries>() {
        rows.kind.extend(entries.iter().map(|entry| entry.kind.get()));
        rows.size.extend(entries.iter().map(|entry| entry.size.get()));
        rows.addr.extend(entries.iter().map(|entry| entry.addr.get()));
    }
}

/// The bytes of rows of [`Entries`]: the inverse of [`push_entries`].
///
/// # Errors
/// `Usage` for rows of another table.
pub fn to_bytes(rows: &dyn TableBuf) -> Result<Vec<u8>> {
    let Some(rows) = rows.get::<Entries>() else {
        return Err(Error::usage(format!("rows of table `{}` cannot become entries", rows.schema().name)));
    };
    let mut bytes = Vec::with_capacity(rows.len() * size_of::<Entry>());
    for ((kind, size), addr) in rows.kind.iter().zip(&rows.size).zip(&rows.addr) {
        bytes.extend_from_slice(Entry::new(Type(*kind), *size, *addr).as_bytes());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_hold_the_types_that_they_are_named_for() {
        let of = |is_member: fn(Type) -> bool| -> Vec<u64> {
            (0..50).filter(|kind| is_member(Type(*kind))).map(u64::from).collect()
        };
        for (word, is_member) in [
            ("instr", Type::is_instr as fn(Type) -> bool),
            ("branch", |kind| kind.is_instr() && kind != Type::INSTR && kind != Type::INSTR_SYSENTER),
            ("prefetch", Type::is_prefetch),
        ] {
            assert_eq!(types().group(word).unwrap(), of(is_member), "{word}");
        }
        for (_, names) in FAMILIES {
            assert!(names.iter().all(|name| types().number(name).is_some()), "{names:?}");
        }
    }
}
