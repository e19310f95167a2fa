//! Raw folders: what the tracer leaves before conversion, shown word by word.
//!
//! A raw trace stands for instructions without having them: only the tracer's converter, with the traced binaries available,
//! can make a trace of it. What can be shown are the words, the modules that they point into, and the traced functions.
//! SPEC: drmemtrace.md#raw-folders.

mod rows;
pub mod word;

use crate::funclist;
use crate::listing::{file_name, is_raw};
use crate::record::Marker;
use quipu_model::finding::source_rule;
use quipu_model::trace::DumpForm;
use quipu_model::{Error, Found, Place, Result, Severity};
use quipu_source::{Ahead, Source, StreamOptions};
use rows::Quoted;
use std::io::Write;
use std::ops::Range;
use word::{GENERATED, Word};

/// Bytes of a word.
const WORD_BYTES: usize = 8;
/// Lines are handed on in parts of about this size.
const PART_BYTES: usize = 64 << 10;
/// A module list longer than this is not read on.
const MAX_LIST_BYTES: usize = 16 << 20;

/// The files of a raw folder.
#[derive(Debug, Default)]
pub struct RawFolder {
    /// Words of the threads, by name.
    pub threads: Vec<Source>,
    /// The module list.
    pub modules: Option<Source>,
    /// The list of traced functions.
    pub functions: Option<Source>,
}

/// Finds the files of a raw trace: a file of words, the folder that holds such files, or the one above.
///
/// # Errors
/// `Missing` if there are none; `Io` where a folder cannot be listed.
pub fn list(source: &Source) -> Result<RawFolder> {
    if !source.is_folder() {
        return Ok(RawFolder { threads: vec![source.clone()], ..RawFolder::default() });
    }
    let below = source.child("raw").filter(Source::is_folder);
    for folder in [Some(source.clone()), below].into_iter().flatten() {
        let files = folder.files()?;
        let threads: Vec<Source> =
            files.into_iter().filter(|file| !file.is_folder() && is_raw(file_name(file))).collect();
        if !threads.is_empty() {
            let child = |name: &str| folder.child(name).filter(|file| !file.is_folder());
            return Ok(RawFolder {
                threads,
                modules: child("modules.log"),
                functions: child("funclist.log"),
            });
        }
    }
    Err(Error::missing("the folder holds no raw files").in_file(source.name()))
}

/// Writes the modules, the functions and the words with these positions (counted over all files) as lines; words of one
/// file follow a line with its name. For programs there are rows of words only, each with its file's name and, of code, the
/// path of its module. What is wrong is found, and reading continues with the next file.
///
/// # Errors
/// What reading the list of modules or opening a file gives.
pub fn dump(
    folder: &RawFolder,
    wanted: Range<u64>,
    form: DumpForm,
    out: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<Found> {
    let mut found = Found::default();
    let modules = match &folder.modules {
        Some(source) => modules(source)?,
        None => Vec::new(),
    };
    let mut text = Vec::new();
    match form {
        DumpForm::Text => preface(folder, &modules, &mut found, &mut text),
        DumpForm::Csv => text.extend_from_slice(rows::CSV_HEAD),
        DumpForm::Json => {}
    }
    let quoted = modules.iter().map(|path| Quoted::new(path, form)).collect();
    let shown = Shown { wanted, form, modules, quoted };
    let mut position = 0;
    for source in &folder.threads {
        if position >= shown.wanted.end {
            break;
        }
        if form == DumpForm::Text {
            line(&mut text, format_args!("file {}", file_name(source)));
        }
        let mut lines = Lines { text: &mut text, out: &mut *out };
        if !dump_file(source, &shown, &mut position, &mut lines, &mut found)? {
            return Ok(found);
        }
    }
    out(&text);
    Ok(found)
}

/// What of the words is shown, and how.
struct Shown {
    wanted: Range<u64>,
    form: DumpForm,
    modules: Vec<String>,
    /// The same, ready to stand in rows.
    quoted: Vec<Quoted>,
}

/// The modules and functions, for people.
fn preface(folder: &RawFolder, modules: &[String], found: &mut Found, text: &mut Vec<u8>) {
    for (number, path) in modules.iter().enumerate() {
        line(text, format_args!("module {number:5}  {path}"));
    }
    match folder.functions.as_ref().map(funclist::read) {
        Some(Ok(functions)) => {
            for function in functions {
                let names = function.names.join(", ");
                let id = function.id;
                line(text, format_args!("function {id:3}  {names} ({} arguments)", function.n_args));
            }
        }
        Some(Err(error)) => found.add("drmemtrace/function-list", Severity::Warning, || {
            (error.place().clone(), error.message().to_owned())
        }),
        None => {}
    }
}

/// Writing to memory cannot fail.
fn line(text: &mut Vec<u8>, line: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{line}");
}

/// Lines on their way out.
struct Lines<'o> {
    text: &'o mut Vec<u8>,
    out: &'o mut dyn FnMut(&[u8]) -> bool,
}

impl Lines<'_> {
    /// Hands on what there is if it is enough; false if no more is wanted.
    fn pass_on(&mut self) -> bool {
        if self.text.len() < PART_BYTES {
            return true;
        }
        let is_wanted = (self.out)(self.text);
        self.text.clear();
        is_wanted
    }
}

/// The paths of a module list, by position.
///
/// A row is a position, five more fields and perhaps a custom field, which says how many bytes it holds, and the path.
/// Those bytes may be anything, lines' ends included.
fn modules(source: &Source) -> Result<Vec<String>> {
    Ok(parse_modules(&source.head(MAX_LIST_BYTES)?))
}

/// Fields of a row before the custom field or the path.
const MODULE_FIELDS: usize = 6;

fn parse_modules(bytes: &[u8]) -> Vec<String> {
    let mut paths = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or(rest);
        let number = line.split(|byte| *byte == b',').next().unwrap_or(line);
        let is_row = !number.trim_ascii().is_empty() && number.trim_ascii().iter().all(u8::is_ascii_digit);
        let commas = line.iter().enumerate().filter(|(_, byte)| **byte == b',').map(|(at, _)| at);
        let end_of_fields = commas.clone().nth(MODULE_FIELDS - 1);
        let (true, Some(end)) = (is_row, end_of_fields) else {
            rest = rest.get(line.len() + 1..).unwrap_or(&[]);
            continue;
        };
        let path_at = custom_end(rest, end + 1).unwrap_or(end + 1);
        let tail = rest.get(path_at..).unwrap_or(&[]);
        let path = tail.split(|byte| *byte == b'\n').next().unwrap_or(tail);
        paths.push(String::from_utf8_lossy(path.trim_ascii()).escape_debug().to_string());
        rest = tail.get(path.len() + 1..).unwrap_or(&[]);
    }
    paths
}

/// Where the custom field `v#1,<size>,<bytes>` that begins at `at` ends, if there is one.
fn custom_end(row: &[u8], at: usize) -> Option<usize> {
    let field = row.get(at..)?.trim_ascii_start();
    let start = row.len() - field.len();
    let size_and_bytes = field.strip_prefix(b"v#1,")?;
    let digits = size_and_bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let size: usize = std::str::from_utf8(&size_and_bytes[..digits]).ok()?.parse().ok()?;
    (size_and_bytes.get(digits) == Some(&b',')).then_some(())?;
    start.checked_add(b"v#1,".len() + digits + 1)?.checked_add(size)
}

/// False if no more is wanted.
fn dump_file(
    source: &Source,
    shown: &Shown,
    position: &mut u64,
    lines: &mut Lines<'_>,
    found: &mut Found,
) -> Result<bool> {
    let container = source.container()?;
    let options = StreamOptions { ahead: Ahead::Inline, ..StreamOptions::default() };
    let mut stream = container.stream(container.all_members(), &options)?;
    let (mut block, mut offset, mut last) = (Vec::new(), 0u64, None);
    let Shown { wanted, form, modules, quoted } = shown;
    let name = Quoted::new(file_name(source), *form);
    let mut high = None;
    let place = |offset: u64| Place {
        file: Some(source.name().to_owned()),
        offset: Some(offset),
        ..Place::default()
    };
    loop {
        match stream.next(&mut block) {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) => {
                found.add(source_rule(error.kind()), Severity::Error, || {
                    (Place::from(&error), error.what().to_owned())
                });
                return Ok(true);
            }
        }
        if !lines.pass_on() {
            return Ok(false);
        }
        let (words, rest) = block.as_chunks::<WORD_BYTES>();
        for bytes in words {
            let raw = u64::from_le_bytes(*bytes);
            let word = Word::decode(raw);
            if offset == 0 && !matches!(word, Word::Header { .. }) {
                let message = format!("the first word is no header but `{raw:#018x}`");
                found.add("drmemtrace/raw-no-header", Severity::Error, || (place(0), message));
            }
            if *position >= wanted.end {
                return Ok(true);
            }
            if wanted.contains(position) {
                // Writing to memory cannot fail.
                if *form == DumpForm::Text {
                    let _ = write!(lines.text, "{offset:12}  {raw:016x}  {:<10} ", word.name());
                    let _ = describe(word, high, modules, lines.text);
                } else {
                    let _ = rows::row((&name, offset, raw), (word, high), quoted, *form, lines.text);
                }
            }
            high = match word {
                Word::Marker { kind: Marker::SPLIT_VALUE, value } => Some(value),
                _ => None,
            };
            offset += WORD_BYTES as u64;
            *position += 1;
            last = Some(word);
        }
        if !rest.is_empty() {
            let message = format!("`{}` bytes are left over, a word has `{WORD_BYTES}`", rest.len());
            found.add("drmemtrace/raw-cut", Severity::Error, || (place(offset), message));
            return Ok(true);
        }
    }
    if last != Some(Word::Footer) {
        let message = "the file ends without a footer".to_owned();
        found.add("drmemtrace/raw-no-footer", Severity::Error, || (place(offset), message));
    }
    Ok(true)
}

/// The meaning of a word, and the end of its line. `high` is the upper half of a marker's value, if it stood right before.
fn describe(word: Word, high: Option<u64>, modules: &[String], out: &mut Vec<u8>) -> std::io::Result<()> {
    match word {
        Word::Address(addr) => writeln!(out, "{addr:#x}"),
        Word::Block { module: GENERATED, offset, instrs } => {
            writeln!(out, "{instrs} instructions of generated code #{offset}")
        }
        Word::Block { module, offset, instrs } => {
            let path = usize::try_from(module).ok().and_then(|module| modules.get(module));
            let name = path.map_or("", |path| path.rsplit(['/', '\\']).next().unwrap_or(path));
            writeln!(out, "{instrs} instructions at module {module} {name}+{offset:#x}")
        }
        Word::Thread(id) | Word::Process(id) | Word::Clock(id) => writeln!(out, "{id}"),
        Word::TopPc(pc) => writeln!(out, "{pc:#x}"),
        Word::Header { version, filetype } => {
            let names: Vec<&str> = filetype.names().collect();
            writeln!(out, "version {version}, file type {:#x} ({})", filetype.0, names.join(", "))
        }
        Word::Footer => writeln!(out),
        Word::Marker { kind, value } => {
            let value = high.map_or(value, |high| (high << 32) | (value & 0xffff_ffff));
            match kind.name() {
                Some(name) => writeln!(out, "{name} {value:#x}"),
                None => writeln!(out, "marker {} {value:#x}", kind.0),
            }
        }
        Word::Access { kind, size } => match kind.name() {
            Some(name) => writeln!(out, "{name} of {size} bytes"),
            None => writeln!(out, "type {} of {size} bytes", kind.0),
        },
        Word::Base(addr) => writeln!(out, "{addr:#x}"),
        Word::Extended(code) => writeln!(out, "code {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_fields_may_hold_anything() {
        let list = b"Module Table: version 4, count 3\nColumns: id, containing_id, start, end, entry, offset, path\n  \
            0,   0, 0x4, 0x5, 0x4, 0, v#1,0, /bin/a\n  1, 1, 0x1, 0x2, 0x1, 0, v#1,7,x,\n,2\x00y [vdso]\n\
            2, 2, 0x1, 0x2, 0x1, 0, /lib/\x1bb\n";
        assert_eq!(parse_modules(list), ["/bin/a", "[vdso]", "/lib/\\u{1b}b"]);
    }

    #[test]
    fn lists_that_are_none_have_no_modules() {
        for list in [&b""[..], b"\n\n", b"1,2", b",,,,,,,,", b"1,1,1,1,1,1,v#1,99999999999999999999,x"] {
            assert!(parse_modules(list).len() <= 1);
        }
    }
}
