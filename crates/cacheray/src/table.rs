//! Records as rows of a table.

use crate::record::{ATOMIC, KIND_MASK, UNALIGNED};
use quipu_model::column::{Maybe, Strings};
use quipu_model::rows;
use quipu_model::schema::{Names, Role, Storage, Type, Unit};
use std::sync::{Arc, LazyLock};

/// Names of the kinds of records, by tag without flags.
pub static KINDS: &[&str] = &["read", "write", "add", "remove"];

static KIND_NAMES: LazyLock<Arc<Names>> = LazyLock::new(|| {
    let names = Names::dense(Storage::U8, KINDS);
    names.with_group("access", &["read", "write"]).with_group("annotation", &["add", "remove"]).shared()
});

rows! {
    /// One row for each record, with all that a record has.
    pub struct Records: "records" derived "records in the order of the file" {
        record: Vec<u64>, role(Role::RECORD) => "position in the file, from 1";
        thread("tid"): Vec<u64>, role(Role::THREAD) => "thread";
        kind("type"): Vec<u8> as Type::Enum(KIND_NAMES.clone()), role(Role::ACCESS_KIND) => "kind of the record";
        atomic: Vec<u8> as Type::Bool => "an atomic operation made the access";
        unaligned: Vec<u8> as Type::Bool => "the compiler could not prove that the access is aligned";
        addr: Vec<u64> as Type::Address, role(Role::ADDRESS) => "first byte";
        size: Vec<u8>, role(Role::SIZE), unit(Unit::BYTES) => "bytes accessed; 0 for annotations";
        element_bytes: Vec<u32>, unit(Unit::BYTES) => "bytes of an annotated element";
        n_elements("elements"): Vec<u32> => "annotated elements";
        type_name: Maybe<Strings> => "name of the elements' type";
    }
}

/// The tag of a record: its kind with its flags.
pub(crate) fn tag(kind: u8, atomic: u8, unaligned: u8) -> u8 {
    kind | if atomic == 0 { 0 } else { ATOMIC } | if unaligned == 0 { 0 } else { UNALIGNED }
}

/// One annotation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub(crate) record: u64,
    pub(crate) thread: u64,
    pub(crate) tag: u8,
    pub(crate) addr: u64,
    pub(crate) element_bytes: u32,
    pub(crate) n_elements: u32,
    /// The name of the elements' type, if it gives one.
    pub(crate) type_name: Option<&'a [u8]>,
}

/// Adds an annotation's row.
pub(crate) fn push(row: &Row<'_>, rows: &mut Records) {
    push_plain(row.record, row.thread, [(row.tag, row.addr, 0)].into_iter(), rows);
    rows.element_bytes.push(row.element_bytes);
    rows.n_elements.push(row.n_elements);
    match row.type_name {
        Some(name) => rows.type_name.push_text(name),
        None => rows.type_name.push_missing(1),
    }
}

/// Adds rows of accesses: tag, address and size of each. PERF: a column at a time (`view`).
pub(crate) fn push_accesses(
    first_record: u64,
    thread: u64,
    accesses: impl ExactSizeIterator<Item = (u8, u64, u8)> + Clone,
    rows: &mut Records,
) {
    let n = accesses.len();
    push_plain(first_record, thread, accesses, rows);
    rows.element_bytes.extend(std::iter::repeat_n(0, n));
    rows.n_elements.extend(std::iter::repeat_n(0, n));
    rows.type_name.push_missing(n);
}

/// Adds what rows of all kinds have.
fn push_plain(
    first_record: u64,
    thread: u64,
    records: impl ExactSizeIterator<Item = (u8, u64, u8)> + Clone,
    rows: &mut Records,
) {
    let n = records.len();
    rows.record.extend((first_record..).take(n));
    rows.thread.extend(std::iter::repeat_n(thread, n));
    rows.kind.extend(records.clone().map(|(tag, ..)| tag & KIND_MASK));
    rows.atomic.extend(records.clone().map(|(tag, ..)| u8::from(tag & ATOMIC != 0)));
    rows.unaligned.extend(records.clone().map(|(tag, ..)| u8::from(tag & UNALIGNED != 0)));
    rows.addr.extend(records.clone().map(|(_, addr, _)| addr));
    rows.size.extend(records.map(|(.., size)| size));
}
