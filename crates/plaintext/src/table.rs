//! Records as rows of a table.

use crate::{din, lackey};
use quipu_model::schema::{Names, Role, Storage, Type, Unit};
use quipu_model::{TableBuf, rows};
use quipu_records::lines::{Language, Row};
use quipu_records::print::Form;
use std::sync::{Arc, LazyLock};

rows! {
    /// One row for each record that lackey prints.
    pub struct LackeyRecords: "records" derived "records in the order of the file" {
        record: Vec<u64>, role(Role::RECORD) => "position among the records, from 1";
        line: Vec<u64> => "line of the file, from 1";
        kind("type"): Vec<u8> as Type::Enum(LACKEY_KINDS.clone()), role(Role::ACCESS_KIND) => "kind of the record";
        addr: Vec<u64> as Type::Address, role(Role::ADDRESS) => "first byte";
        size: Vec<u32>, role(Role::SIZE), unit(Unit::BYTES) => "bytes of the instruction or the access";
        pc: Vec<u64> as Type::Address, role(Role::PC) => "address of the instruction, or of the one that makes the access";
    }
}

rows! {
    /// One row for each record that Dinero reads.
    pub struct DinRecords: "records" derived "records in the order of the file" {
        record: Vec<u64>, role(Role::RECORD) => "position among the records, from 1";
        line: Vec<u64> => "line of the file, from 1";
        kind("type"): Vec<u8> as Type::Enum(DIN_KINDS.clone()), role(Role::ACCESS_KIND) => "kind of the record";
        addr: Vec<u64> as Type::Address, role(Role::ADDRESS) => "first byte";
        size: Vec<u32>, missing(0u32), role(Role::SIZE), unit(Unit::BYTES) => "bytes accessed, if known";
    }
}

static LACKEY_KINDS: LazyLock<Arc<Names>> = LazyLock::new(|| kinds(&lackey::LANGUAGE, lackey::GROUPS));
static DIN_KINDS: LazyLock<Arc<Names>> = LazyLock::new(|| kinds(&din::LANGUAGE, din::GROUPS));

/// Words that each stand for several kinds of records.
pub(crate) type Groups = &'static [(&'static str, &'static [&'static str])];

/// The names of a format's kinds of records.
fn kinds(language: &Language, groups: Groups) -> Arc<Names> {
    let names = Names::dense(Storage::U8, language.kinds);
    groups.iter().fold(names, |names, (word, kinds)| names.with_group(*word, kinds)).shared()
}

/// Columns of printed rows, for both tables.
pub(crate) static FORMS: &[Form] = &[
    Form::new("record", "record", 12),
    Form::new("line", "line", 11),
    Form::new("type", "kind", 10).apart(),
    Form::new("addr", "address", 18),
    Form::new("size", "size", 6).unless_zero(),
];

/// Adds rows; see [`Language::push`].
pub(crate) fn push(first_record: u64, rows: &[Row], pcs: &[u64], to: &mut dyn TableBuf) {
    let (record, line, kind, addr, size) = if let Some(to) = to.get_mut::<LackeyRecords>() {
        to.pc.extend_from_slice(pcs);
        (&mut to.record, &mut to.line, &mut to.kind, &mut to.addr, &mut to.size)
    } else if let Some(to) = to.get_mut::<DinRecords>() {
        (&mut to.record, &mut to.line, &mut to.kind, &mut to.addr, &mut to.size)
    } else {
        return;
    };
    record.extend((first_record + 1..).take(rows.len()));
    line.extend(rows.iter().map(|row| row.line));
    kind.extend(rows.iter().map(|row| row.record.kind));
    addr.extend(rows.iter().map(|row| row.record.addr));
    size.extend(rows.iter().map(|row| row.record.size));
}
