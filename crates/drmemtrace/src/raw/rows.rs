//! Words as rows for programs: JSON, an object a line, or CSV.
//!
//! The columns are the same in both: the file's name, the offset of the word in it, the word, what sort of word it is, its
//! value (an address, an id, a clock reading, the value of a marker, the offset of a block in its module, the bytes of an
//! access, file-type bits), the name of the marker or the access, the module's position in the list and its path, the
//! number of instructions, and the version. What a word does not have is `null`, or empty.

use super::word::{GENERATED, Word};
use quipu_model::harmless::csv_cell;
use quipu_model::trace::DumpForm;
use std::io::Write;

/// The first line of CSV.
pub(super) const CSV_HEAD: &[u8] = b"file,offset,word,sort,value,name,module,path,instrs,version\n";

/// A text, ready to stand in a row.
#[derive(Debug)]
pub(super) struct Quoted(String);

impl Quoted {
    pub(super) fn new(text: &str, form: DumpForm) -> Quoted {
        Quoted(match form {
            DumpForm::Csv => {
                let mut cell = Vec::new();
                csv_cell(text.as_bytes(), false, &mut cell);
                String::from_utf8_lossy(&cell).into_owned()
            }
            DumpForm::Text => text.to_owned(),
            DumpForm::Json => serde_json::Value::from(text).to_string(),
        })
    }
}

/// What a word has of the columns.
#[derive(Debug, Default)]
struct Fields<'a> {
    value: Option<u64>,
    name: Option<&'static str>,
    /// A number that has no name.
    nameless: Option<u16>,
    module: Option<u64>,
    path: Option<&'a Quoted>,
    instrs: Option<u64>,
    version: Option<u64>,
}

fn fields(word: Word, high: Option<u64>, modules: &[Quoted]) -> Fields<'_> {
    let value = |value| Fields { value: Some(value), ..Fields::default() };
    match word {
        Word::Address(addr) | Word::Base(addr) | Word::TopPc(addr) => value(addr),
        Word::Thread(id) | Word::Process(id) | Word::Clock(id) | Word::Extended(id) => value(id),
        Word::Block { module, offset, instrs } => Fields {
            module: (module != GENERATED).then_some(module),
            path: usize::try_from(module).ok().and_then(|module| modules.get(module)),
            instrs: Some(instrs),
            ..value(offset)
        },
        Word::Header { version, filetype } => Fields { version: Some(version), ..value(filetype.0) },
        Word::Footer => Fields::default(),
        Word::Marker { kind, value: low } => Fields {
            name: kind.name(),
            nameless: kind.name().is_none().then_some(kind.0),
            ..value(high.map_or(low, |high| (high << 32) | (low & 0xffff_ffff)))
        },
        Word::Access { kind, size } => {
            Fields { name: kind.name(), nameless: kind.name().is_none().then_some(kind.0), ..value(size) }
        }
    }
}

/// Appends the row of a word. `high` is the upper half of a marker's value, if it stood right before.
pub(super) fn row(
    (file, offset, raw): (&Quoted, u64, u64),
    (word, high): (Word, Option<u64>),
    modules: &[Quoted],
    form: DumpForm,
    out: &mut Vec<u8>,
) -> std::io::Result<()> {
    let fields = fields(word, high, modules);
    let (is_json, sort) = (form == DumpForm::Json, word.name());
    let (nothing, quote) = if is_json { ("null", "\"") } else { ("", "") };
    let key = |out: &mut Vec<u8>, name: &str| {
        if is_json { write!(out, ",\"{name}\":") } else { write!(out, ",") }
    };
    if is_json {
        write!(out, "{{\"file\":")?;
    }
    write!(out, "{}", file.0)?;
    key(out, "offset")?;
    write!(out, "{offset}")?;
    key(out, "word")?;
    write!(out, "{quote}{raw:#018x}{quote}")?;
    key(out, "sort")?;
    write!(out, "{quote}{sort}{quote}")?;
    key(out, "value")?;
    match fields.value {
        Some(value) => write!(out, "{quote}{value:#x}{quote}")?,
        None => write!(out, "{nothing}")?,
    }
    key(out, "name")?;
    match (fields.name, fields.nameless) {
        (Some(name), _) => write!(out, "{quote}{name}{quote}")?,
        (None, Some(number)) => write!(out, "{quote}{number}{quote}")?,
        (None, None) => write!(out, "{nothing}")?,
    }
    for (name, number) in [("module", fields.module), ("path", None)] {
        key(out, name)?;
        match (number, fields.path.filter(|_| name == "path")) {
            (Some(number), _) => write!(out, "{number}")?,
            (None, Some(path)) => write!(out, "{}", path.0)?,
            (None, None) => write!(out, "{nothing}")?,
        }
    }
    for (name, number) in [("instrs", fields.instrs), ("version", fields.version)] {
        key(out, name)?;
        match number {
            Some(number) => write!(out, "{number}")?,
            None => write!(out, "{nothing}")?,
        }
    }
    writeln!(out, "{}", if is_json { "}" } else { "" })
}
