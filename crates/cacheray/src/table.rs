//! Records as rows of a table.

use crate::record::{ATOMIC, KIND_MASK, READ, UNALIGNED, WRITE};
use quipu_model::column::{Maybe, Strings};
use quipu_model::schema::{Names, Role, Storage, Type, Unit};
use quipu_model::{TableBuf, rows};
use quipu_records::print::Form;
use std::io::Write as _;
use std::sync::{Arc, LazyLock};

/// Names of the kinds of records, by tag without flags.
pub static KINDS: &[&str] = &["read", "write", "add", "remove"];

static KIND_NAMES: LazyLock<Arc<Names>> = LazyLock::new(|| {
    let names = Names::dense(Storage::U8, KINDS);
    names.with_group("access", &["read", "write"]).with_group("annotation", &["add", "remove"]).shared()
});

rows! {
    /// One row for each record, with all of its fields.
    pub struct Records: "records" derived "records in the order of the file" {
        record: Vec<u64>, role(Role::RECORD) => "position in the file, from 1";
        thread("tid"): Vec<u64>, role(Role::THREAD) => "thread";
        kind("type"): Vec<u8> as Type::Enum(KIND_NAMES.clone()), role(Role::ACCESS_KIND) => "kind of the record";
        atomic: Vec<u8> as Type::Bool => "whether the access is atomic";
        unaligned: Vec<u8> as Type::Bool => "whether the compiler could not prove that the access is aligned";
        addr: Vec<u64> as Type::Address, role(Role::ADDRESS) => "first byte";
        size: Vec<u8>, missing(0u8), role(Role::SIZE), unit(Unit::BYTES) => "bytes accessed; empty for annotations";
        element_bytes: Vec<u32>, missing(0u32), unit(Unit::BYTES) => "bytes per annotated element";
        n_elements("elements"): Vec<u32>, missing(0u32) => "number of annotated elements";
        type_name: Maybe<Strings> => "name of the elements' type";
    }
}

/// Columns of printed rows.
///
/// ```text
///       record  thread  kind                              address   size  type
///            1       0  add                        0x55c97748d490     24  struct.Basic
///            2       0  write                      0x55c97748d490      4
/// ```
pub(crate) static FORMS: &[Form] = &[
    Form::new("record", "record", 12),
    Form::new("tid", "thread", 7),
    Form::new("type", "kind", 22).apart(),
    Form::new("addr", "address", 18),
    Form::new("size", "size", 6),
    Form::new("type_name", "type", 0).apart(),
];

/// Writes cells with a form of their own: kinds with their flags; annotations with the size and number of elements.
pub(crate) fn own_cell(table: &dyn TableBuf, row: usize, column: &str, out: &mut Vec<u8>) -> bool {
    let Some(rows) = table.get::<Records>() else { return false };
    let is_access = matches!(rows.kind[row], READ | WRITE);
    let name = rows.type_name.get(row);
    // Writing to a vector cannot fail.
    let _ = match (column, name) {
        ("type", _) => {
            let kind = KINDS.get(usize::from(rows.kind[row])).copied().unwrap_or("?");
            let flag = |is_set: u8, text: &'static str| if is_set == 0 { "" } else { text };
            let (atomic, unaligned) =
                (flag(rows.atomic[row], " atomic"), flag(rows.unaligned[row], " unaligned"));
            write!(out, "{kind}{atomic}{unaligned}")
        }
        ("size", _) if is_access => return false,
        ("size", Some(_)) => write!(out, "{}", rows.element_bytes[row]),
        ("type_name", Some(name)) if !is_access => {
            let name = String::from_utf8_lossy(name);
            match rows.n_elements[row] {
                1 => write!(out, "{name}"),
                n_elements => write!(out, "{name} × {n_elements}"),
            }
        }
        ("size" | "type_name", _) => Ok(()),
        _ => return false,
    };
    true
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
    /// The name of the elements' type; `None` if the annotation has none.
    pub(crate) type_name: Option<&'a [u8]>,
}

/// Adds a row for an annotation.
pub(crate) fn push(row: &Row<'_>, rows: &mut Records) {
    push_plain(row.record, row.thread, [(row.tag, row.addr, 0)].into_iter(), rows);
    rows.element_bytes.push(row.element_bytes);
    rows.n_elements.push(row.n_elements);
    match row.type_name {
        Some(name) => rows.type_name.push_text(name),
        None => rows.type_name.push_missing(1),
    }
}

/// Adds rows for accesses: tag, address and size of each. PERF: fills one column at a time (`view`).
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

/// Fills the columns that rows of all kinds have.
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
