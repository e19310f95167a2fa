//! Words as rows of a table.

use super::word::{GENERATED, Word};
use crate::record::FileType;
use quipu_model::column::{Maybe, Strings};
use quipu_model::schema::{Names, Role, Storage, Type, Unit};
use quipu_model::{TableBuf, rows};
use quipu_records::print::Form;
use std::io::Write as _;
use std::sync::{Arc, LazyLock};

/// Names of the sorts of words, in the order of [`Word::sort`].
pub(super) static SORTS: &[&str] = &[
    "address",
    "block",
    "thread",
    "process",
    "timestamp",
    "pc-top",
    "header",
    "footer",
    "marker",
    "access",
    "base",
    "extended",
];

static SORT_NAMES: LazyLock<Arc<Names>> = LazyLock::new(|| Names::dense(Storage::U8, SORTS).shared());

rows! {
    /// One row for each word.
    pub struct Words: "words" derived "words in the order of each file" {
        record: Vec<u64>, role(Role::RECORD) => "position in the file, from 1";
        offset: Vec<u64>, unit(Unit::BYTES) => "offset of the word in the inflated file";
        thread("tid"): Vec<u64>, role(Role::THREAD) => "thread";
        kind("type"): Vec<u8> as Type::Enum(SORT_NAMES.clone()) => "kind of the word";
        word: Vec<u64> as Type::Address => "the word itself";
        value: Maybe<Vec<u64>> as Type::Address
            => "value of the word: an address, an id, a clock reading, a marker's value, the offset of a block in its \
                module, the bytes of an access, or file-type bits";
        name: Maybe<Strings> => "name of the marker or of the access, or its number";
        module: Maybe<Vec<u32>> => "position of the block's module in the list; empty for generated code";
        path: Maybe<Strings> => "path of the module";
        instrs: Maybe<Vec<u32>> => "instructions of the block";
        version: Maybe<Vec<u64>> => "version of the header";
    }
}

/// A word with its position and context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'a> {
    pub(super) record: u64,
    pub(super) offset: u64,
    pub(super) thread: u64,
    pub(super) raw: u64,
    pub(super) word: Word,
    /// The path of the block's module.
    pub(super) path: Option<&'a str>,
}

/// Adds a row.
pub(super) fn push(row: &Row<'_>, to: &mut Words) {
    to.record.push(row.record);
    to.offset.push(row.offset);
    to.thread.push(row.thread);
    to.kind.push(row.word.sort());
    to.word.push(row.raw);
    let value = match row.word {
        Word::Address(value)
        | Word::Base(value)
        | Word::TopPc(value)
        | Word::Thread(value)
        | Word::Process(value)
        | Word::Clock(value)
        | Word::Extended(value)
        | Word::Block { offset: value, .. }
        | Word::Marker { value, .. }
        | Word::Access { size: value, .. } => Some(value),
        Word::Header { filetype, .. } => Some(filetype.0),
        Word::Footer => None,
    };
    to.value.push(value);
    match row.word {
        Word::Marker { kind, .. } => push_name(kind.name(), kind.0, &mut to.name),
        Word::Access { kind, .. } => push_name(kind.name(), kind.0, &mut to.name),
        _ => to.name.push_missing(1),
    }
    let (module, instrs) = match row.word {
        // 16 and 12 bits.
        Word::Block { module, instrs, .. } => {
            ((module != GENERATED).then_some(module as u32), Some(instrs as u32))
        }
        _ => (None, None),
    };
    to.module.push(module);
    match row.path {
        Some(path) => to.path.push_text(path.as_bytes()),
        None => to.path.push_missing(1),
    }
    to.instrs.push(instrs);
    to.version.push(match row.word {
        Word::Header { version, .. } => Some(version),
        _ => None,
    });
}

fn push_name(name: Option<&str>, number: u16, to: &mut Maybe<Strings>) {
    match name {
        Some(name) => to.push_text(name.as_bytes()),
        None => to.push_text(number.to_string().as_bytes()),
    }
}

/// The layout in which rows are printed.
///
/// ```text
///       record      offset  word              sort        meaning
///            1           0  c408000000000e40  header      version 8, file type 0xe40 (…)
/// ```
pub(super) static FORMS: &[Form] = &[
    Form::new("record", "record", 12),
    Form::new("offset", "offset", 11),
    Form::new("tid", "thread", 9),
    Form::new("word", "word", 16).apart(),
    Form::new("type", "sort", 10).apart(),
    Form::new("value", "meaning", 0),
];

/// Prints words with all their digits, and values by their meaning.
pub(super) fn own_cell(table: &dyn TableBuf, row: usize, column: &str, out: &mut Vec<u8>) -> bool {
    let Some(rows) = table.get::<Words>() else { return false };
    // Writing to a vector cannot fail.
    let _ = match column {
        "word" => write!(out, "{:016x}", rows.word[row]),
        "value" => meaning(rows, row, out),
        _ => return false,
    };
    true
}

/// Prints the meaning of a word.
fn meaning(rows: &Words, row: usize, out: &mut Vec<u8>) -> std::io::Result<()> {
    let name = || String::from_utf8_lossy(rows.name.get(row).unwrap_or_default());
    let number = rows.value.get(row).unwrap_or_default();
    match Word::decode(rows.word[row]) {
        Word::Address(addr) | Word::Base(addr) | Word::TopPc(addr) => write!(out, "{addr:#x}"),
        Word::Block { module: GENERATED, offset, instrs } => {
            write!(out, "{instrs} instructions of generated code #{offset}")
        }
        Word::Block { module, offset, instrs } => {
            let path = String::from_utf8_lossy(rows.path.get(row).unwrap_or_default());
            let file = path.rsplit(['/', '\\']).next().unwrap_or_default();
            write!(out, "{instrs} instructions at module {module} {file}+{offset:#x}")
        }
        Word::Thread(id) | Word::Process(id) | Word::Clock(id) => write!(out, "{id}"),
        Word::Header { version, filetype } => write_header(version, filetype, out),
        Word::Footer => Ok(()),
        Word::Marker { kind, .. } if kind.name().is_none() => write!(out, "marker {} {number:#x}", kind.0),
        Word::Marker { .. } => write!(out, "{} {number:#x}", name()),
        Word::Access { kind, size } if kind.name().is_none() => {
            write!(out, "type {} of {size} bytes", kind.0)
        }
        Word::Access { size, .. } => write!(out, "{} of {size} bytes", name()),
        Word::Extended(code) => write!(out, "code {code}"),
    }
}

fn write_header(version: u64, filetype: FileType, out: &mut Vec<u8>) -> std::io::Result<()> {
    let names: Vec<&str> = filetype.names().collect();
    write!(out, "version {version}, file type {:#x} ({})", filetype.0, names.join(", "))
}
