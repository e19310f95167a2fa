//! Raw folders: the tracer's output before conversion, as a format of its own.
//!
//! A raw trace refers to instructions without containing them: only the tracer's converter, with the traced binaries
//! available, can turn it into a trace. Quipu can show the words, the modules that they point into, and the traced
//! functions.
//! SPEC: drmemtrace.md#raw-folders.

mod codec;
pub(crate) mod modules;
pub(crate) mod rules;
mod table;
pub mod word;

pub use codec::Codec;
pub use table::Words;

use crate::funclist;
use crate::listing::{self, file_name, is_raw};
use codec::START_BYTES;
use quipu_model::trace::{Carries, Fact, Recorded};
use quipu_model::{
    Confidence, Error, Finding, Format, FormatInfo, Meta, OpenOptions, Result, RuleInfo, Severity, Tool,
    Trace,
};
use quipu_records::trace::{File, FlatTrace};
use quipu_source::Source;
use std::sync::Arc;
use word::Word;

/// The format, as registered in the list of formats.
pub static RAW: Raw = Raw;

/// The type of [`RAW`].
#[derive(Debug)]
pub struct Raw;

/// Facts about the format that need no trace.
static INFO: FormatInfo = FormatInfo {
    name: "drmemtrace-raw",
    title: "what DynamoRIO's tracer leaves to be converted",
    extensions: &["raw"],
    beyond_lenses: &["words other than markers"],
    doc: "docs/formats/drmemtrace.md",
    options: &[],
    print_options: &[],
};

/// A module list is read up to this length.
pub(crate) const MAX_LIST_BYTES: usize = 16 << 20;

static TOOLS: &[&dyn Tool] = &[&codec::CHECK];

impl Format for Raw {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn probe(&self, source: &Source) -> Confidence {
        if source.is_folder() {
            // If a folder holds both, the converted trace takes precedence.
            let is_converted = listing::list(source).is_ok();
            let is_raw = !is_converted && list(source).is_ok();
            return if is_raw { Confidence::Sure } else { Confidence::No };
        }
        // PERF: the tracer names all its files like this, and probing others would inflate each of them once more
        // (`opening`).
        if !is_raw(file_name(source)) {
            return Confidence::No;
        }
        let begins = source.head(START_BYTES).is_ok_and(|head| begins_like_raw(&head));
        if begins { Confidence::Sure } else { Confidence::Maybe }
    }

    fn open(&self, source: &Source, options: &OpenOptions) -> Result<Box<dyn Trace>> {
        Ok(Box::new(open(source, options)?))
    }

    fn tools(&self) -> &'static [&'static dyn Tool] {
        TOOLS
    }

    fn beside(&self, source: &Source) -> Result<Vec<Source>> {
        let folder = list(source)?;
        Ok(folder.modules.into_iter().chain(folder.functions).collect())
    }

    fn rules(&self) -> &'static [RuleInfo] {
        rules::RULES
    }
}

/// True if these are the first words of a raw file: a header of a known version, and a word that names the thread.
fn begins_like_raw(head: &[u8]) -> bool {
    let mut words = words(head);
    let is_header =
        matches!(words.next(), Some(Word::Header { version, .. }) if (1..=MAX_VERSION).contains(&version));
    is_header && words.any(|word| matches!(word, Word::Thread(_)))
}

/// The largest version of raw files that is taken for a real one.
const MAX_VERSION: u64 = 64;

/// The words in a slice of bytes.
fn words(bytes: &[u8]) -> impl Iterator<Item = Word> {
    bytes.as_chunks().0.iter().map(|bytes| Word::decode(u64::from_le_bytes(*bytes)))
}

/// The files of a raw trace.
#[derive(Debug, Default)]
struct RawFolder {
    /// Files with the words of the threads, by name.
    threads: Vec<Source>,
    modules: Option<Source>,
    functions: Option<Source>,
}

/// Finds the files of a raw trace: a file of words, the folder that holds such files, or the one above.
///
/// # Errors
/// `Missing` if there are none; `Io` where a folder cannot be listed.
fn list(source: &Source) -> Result<RawFolder> {
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

/// An opened raw trace: a shard for each file.
pub type RawTrace = FlatTrace<Codec>;

/// Opens a tracer's raw output: a file, the folder of such files, or the folder above.
///
/// # Errors
/// `Missing` if there are no raw files; errors of the sources.
pub fn open(source: &Source, options: &OpenOptions) -> Result<RawTrace> {
    INFO.opening(options)?;
    let folder = list(source)?;
    let modules = match &folder.modules {
        Some(list) => match list.head(MAX_LIST_BYTES) {
            Ok(text) => modules::parse(&text).into_iter().map(|row| row.path).collect(),
            // The container reports the error; the words can be read without the list.
            Err(error) if error.carrier().is_some() => Vec::new(),
            Err(error) => return Err(error.into()),
        },
        None => Vec::new(),
    };
    let mut findings = Vec::new();
    let functions = match folder.functions.as_ref().map(funclist::read) {
        Some(Ok(functions)) => functions,
        Some(Err(error)) => {
            let message = error.message().to_owned();
            let place = error.place().clone();
            findings.push(Finding::new("drmemtrace/function-list", Severity::Warning, place, message));
            Vec::new()
        }
        None => Vec::new(),
    };
    let meta = Meta {
        facts: vec![Fact::new("modules", "modules", &modules)],
        functions,
        carries: vec![
            Carries::new(
                "instructions",
                false,
                "blocks of modules stand for them: `drraw2trace` makes the trace",
            ),
            Carries::new("data-accesses", false, "addresses without sizes"),
            Carries::new("threads", true, ""),
        ],
        instrs: Recorded::Nothing,
        data: Recorded::Nothing,
        findings,
        ..Meta::default()
    };
    let files: Vec<File> = folder.threads.iter().map(file).collect();
    FlatTrace::of_files(&files, Codec { modules: Arc::new(modules) }, meta)
}

/// A file of words with its thread and process.
fn file(source: &Source) -> File {
    let head = source.head(START_BYTES).unwrap_or_default();
    let thread = first_thread(&head).map(Into::into);
    File { source: source.clone(), thread, process: first_process(&head) }
}

/// The thread that the first of these words name.
fn first_thread(bytes: &[u8]) -> Option<u64> {
    first_words(bytes).find_map(|word| match word {
        Word::Thread(id) => Some(id),
        _ => None,
    })
}

/// The process that they name.
fn first_process(bytes: &[u8]) -> Option<u64> {
    first_words(bytes).find_map(|word| match word {
        Word::Process(id) => Some(id),
        _ => None,
    })
}

/// The leading words that name a file's thread and process.
fn first_words(bytes: &[u8]) -> impl Iterator<Item = Word> {
    words(&bytes[..bytes.len().min(START_BYTES)])
}
