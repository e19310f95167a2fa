//! Recognising and opening a trace.

use crate::din::{DIALECT, WORD};
use crate::language::{Head, Language, Means};
use crate::print::RecordPrinter;
use crate::reader::{Dialect, Lines, RecordReader};
use crate::survey;
use quipu_model::schema::Schema;
use quipu_model::trace::{PrintOptions, Surveyed};
use quipu_model::{
    Columns, Confidence, Error, Meta, OpenOptions, Options, Printer, Reader, Result, Scan, Shard, ShardId,
    ShardKind, Trace,
};
use quipu_source::{Container, Source};
use std::any::Any;
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

/// Bytes that are looked at to recognise a trace: some hundred lines.
const PROBED_BYTES: usize = 16 << 10;

/// How sure it is that a source is a trace of a format.
pub(crate) fn probe(source: &Source, language: &Language) -> Confidence {
    if source.is_folder() {
        return Confidence::No;
    }
    head(source, language).map_or(Confidence::No, |head| head.confidence)
}

/// What the beginning tells.
fn head(source: &Source, language: &Language) -> Result<Head> {
    let head = source.head(PROBED_BYTES)?;
    let name = source.path().and_then(Path::file_name).map(|name| name.to_string_lossy());
    Ok((language.recognise)(&head, head.len() < PROBED_BYTES, name.as_deref()))
}

/// An opened trace.
#[derive(Debug)]
pub struct PlainTextTrace {
    container: Container,
    dialect: Dialect,
    meta: Meta,
    shards: Vec<Shard>,
}

/// Opens the trace at `source`.
///
/// # Errors
/// `Usage` if an option is wrong; `Unsupported` for a folder; what the source has to say.
pub(crate) fn open(
    source: &Source,
    options: &OpenOptions,
    language: &'static Language,
) -> Result<PlainTextTrace> {
    let format = language.info.name;
    let opening = language.info.opening(options)?;
    let extended = match opening.word(&DIALECT) {
        "din" => Some(false),
        "xdin" => Some(true),
        _ => None,
    };
    let word_bytes = if format == "din" { word_bytes(&opening)? } else { 0 };
    if source.is_folder() {
        return Err(
            Error::unsupported(format!("a trace of format {format} is a file")).in_file(source.name())
        );
    }
    let head = head(source, language)?;
    let lines = match (format, extended.unwrap_or(head.is_extended)) {
        ("lackey", _) => Lines::Lackey,
        (_, false) => Lines::Din,
        (_, true) => Lines::ExtendedDin,
    };
    let container = source.container()?;
    container.deliver_sound_only();
    let dialect = Dialect { language, lines, word_bytes, process: head.process };
    let shards = vec![Shard {
        id: ShardId(0),
        name: source.name().to_owned(),
        kind: ShardKind::Mixed,
        process: (head.process > 0).then_some(head.process),
        pieces: 1,
        packed_bytes: container.size_bytes(),
        ..Shard::default()
    }];
    let meta = Meta {
        format: format.into(),
        title: language.info.title.to_owned(),
        n_files: 1,
        packed_bytes: container.size_bytes(),
        facts: head.facts,
        carries: head.carries,
        instrs: head.instrs,
        data: head.data,
        ..Meta::default()
    };
    Ok(PlainTextTrace { container, dialect, meta, shards })
}

/// How large words are.
fn word_bytes(opening: &Options) -> Result<u32> {
    match u32::try_from(opening.count(&WORD)) {
        Ok(bytes) if bytes <= MAX_WORD => Ok(bytes),
        _ => {
            let found = opening.word(&WORD);
            Err(Error::usage(format!("option `word` wants a power of two up to {MAX_WORD}, found `{found}`")))
        }
    }
}

/// No word has more bytes.
const MAX_WORD: u32 = 64;

impl PlainTextTrace {
    /// The opened file.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// Begins a read whose kind is known.
    ///
    /// # Errors
    /// As [`Trace::scan`].
    pub fn read(&self, scan: &Scan) -> Result<RecordReader> {
        if scan.shard != ShardId(0) {
            return Err(Error::usage(format!("the trace has no shard {}", scan.shard.0)));
        }
        RecordReader::new(&self.container, self.dialect, scan)
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }
}

impl Trace for PlainTextTrace {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn columns(&self) -> Columns {
        self.dialect.language.columns
    }

    fn tables(&self) -> Result<Vec<Arc<Schema>>> {
        Ok(vec![(self.dialect.language.table)().schema().clone()])
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        Ok(Box::new(self.read(scan)?))
    }

    fn printer(&self, options: &PrintOptions) -> Result<Box<dyn Printer>> {
        let language = self.dialect.language;
        language.info.printing(options)?;
        let instr = language.means.iter().position(|means| *means == Means::Instr);
        Ok(Box::new(RecordPrinter {
            kinds: language.kinds,
            instr: instr.map_or(u64::MAX, |kind| kind as u64),
        }))
    }

    fn survey(&self) -> Surveyed {
        survey::survey(self)
    }

    fn n_delivered_damaged(&self) -> u64 {
        self.container.n_delivered_damaged()
    }

    fn mark_name(&self, kind: u32) -> Cow<'static, str> {
        let name = self.dialect.language.kinds.get(kind as usize); // Widening.
        name.map_or_else(|| Cow::Owned(format!("mark {kind}")), |name| Cow::Borrowed(*name))
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}
