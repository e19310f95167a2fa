//! Recognises the format of a source, and explains why if there is none.

use crate::FORMATS;
use crate::strangers;
use crate::within::{Within, others, with_trace};
use quipu_model::trace::Carried;
use quipu_model::{Confidence, Error, ErrorKind, Finding, Format, Loss, OpenOptions, Place, Result, Trace};
use quipu_source::{Ahead, Codec, Source, StreamOptions};
use std::path::Path;
use std::sync::Arc;

/// Bytes that an error shows of a source that no format recognises.
const SHOWN_BYTES: usize = 16;

/// Entries that an error shows of a folder.
const SHOWN_ENTRIES: usize = 4;

/// Inflated bytes that are searched for damage if no format is recognised.
const MAX_SEARCHED_BYTES: u64 = 256 << 20;

/// Returns the format with the highest confidence that `source` is one of its traces; among equals, the first. Formats after
/// one that is [sure](Confidence::Sure) are not asked, since each would inflate the head of the file again.
pub fn probe(source: &Source) -> Option<&'static dyn Format> {
    let mut best: Option<(&dyn Format, Confidence)> = None;
    for format in FORMATS {
        let confidence = format.probe(source);
        if confidence == Confidence::Sure {
            return Some(*format);
        }
        if confidence > best.map_or(Confidence::No, |(_, other)| other) {
            best = Some((*format, confidence));
        }
    }
    let far = || FORMATS.iter().copied().find(|format| format.probe_far(source) > Confidence::No);
    best.map(|(format, _)| format).or_else(far)
}

/// Returns the format called `name`.
///
/// # Errors
/// `Usage` if there is none; the hint lists all formats.
pub fn format_named(name: &str) -> Result<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.info().name == name).ok_or_else(|| {
        let known: Vec<&str> = FORMATS.iter().map(|format| format.info().name).collect();
        Error::usage(format!("there is no format `{name}`")).hint(format!("formats: {}", known.join(", ")))
    })
}

/// Returns the format to read `source` as: the one that `options` name, otherwise the one that recognises it.
///
/// # Errors
/// `Usage` if there is no format of that name.
pub fn format_of(source: &Source, options: &OpenOptions) -> Result<Option<&'static dyn Format>> {
    match &options.format {
        Some(name) => format_named(name).map(Some),
        None => Ok(probe(source)),
    }
}

/// Maximum nesting of traces inside others.
const MAX_DEPTH: usize = 4;

/// A recognised trace: its bytes, its format, and its carrier.
#[derive(Clone)]
pub struct Recognised {
    /// The bytes of the trace: the source itself, or a source inside its carrier.
    pub source: Source,
    /// The format to read them with: one that recognises them or was asked for.
    pub format: &'static dyn Format,
    /// The carrier, if the trace is inside another source.
    pub carrier: Option<Carrier>,
}

/// A source that carries a trace.
#[derive(Clone)]
pub struct Carrier {
    /// The bytes of the carrier.
    pub source: Source,
    /// The format of the carrier.
    pub format: &'static dyn Format,
    /// Findings about the carrier, as far as they are known without reading the trace.
    pub findings: Arc<[Finding]>,
    /// True if the reader of the trace locates all losses itself, so that other findings imply no loss.
    pub is_counted: bool,
}

/// Recognises a source, or the trace that it carries: a trace may be inside a stream. A format in `options` applies to the
/// carried trace, unless it is that of the carrier.
///
/// # Errors
/// `Usage` if there is no format of the requested name; as for [`open`] if no format recognises the source; errors of reading
/// a carrier.
pub fn recognise(source: &Source, options: &OpenOptions) -> Result<Recognised> {
    let Found { source, format, carrier } = find(source, options)?;
    match format {
        Some(format) => Ok(Recognised { source, format, carrier }),
        None => {
            let error = unknown(&source)?;
            let more = carrier.map(|carrier| others(&carrier.findings, &[], Some(&error)));
            Err(error.after(more.unwrap_or_default()))
        }
    }
}

/// A source whose format may be unknown.
struct Found {
    source: Source,
    format: Option<&'static dyn Format>,
    carrier: Option<Carrier>,
}

fn find(source: &Source, options: &OpenOptions) -> Result<Found> {
    let mut found = Found { source: source.clone(), format: format_of(source, options)?, carrier: None };
    for _ in 0..MAX_DEPTH {
        let carrier = match (found.format, &options.format) {
            (Some(format), None) if format.carries() => format,
            (Some(format), Some(_)) if !format.carries() => match carrier_of(&found.source) {
                Some(carrier) => carrier,
                None => break,
            },
            _ => break,
        };
        // The source is examined before it is read, so a pipe must be spooled.
        let spooled = found.source.spooled()?;
        let mut carried = carrier.carried(&spooled)?;
        if carried.len() > 1 {
            choose(&mut carried, &spooled, options)?;
        }
        let Some(inner) = carried.pop() else {
            found.source = spooled;
            break;
        };
        let format = match (&options.format, &inner.format) {
            // The carrier states the format, so the bytes need not be examined.
            (None, Some(_)) if is_unreadable(&inner.source) => None,
            (None, Some(name)) => FORMATS.iter().copied().find(|format| format.info().name == name),
            _ => format_of(&inner.source, options)?,
        };
        let (findings, is_counted) = (inner.findings, inner.is_counted);
        let carrier = Carrier { source: spooled, format: carrier, findings, is_counted };
        found = Found { source: inner.source, format, carrier: Some(carrier) };
    }
    Ok(found)
}

/// Chooses one of several traces in a carrier: the one of the requested format.
///
/// # Errors
/// `Unsupported` unless exactly one trace has that format.
fn choose(carried: &mut Vec<Carried>, source: &Source, options: &OpenOptions) -> Result<()> {
    let mut names: Vec<String> =
        carried.iter().map(|trace| trace.format.clone().unwrap_or("unknown".into())).collect();
    names.sort();
    carried.retain(|trace| options.format.is_some() && trace.format == options.format);
    if carried.len() == 1 {
        return Ok(());
    }
    let what = format!("`{}` traces in one stream: {}", names.len(), names.join(", "));
    let hint =
        "name the format of one of them with --format, or take the stream apart: quipu split --format stream";
    Err(Error::unsupported(what).in_file(source.name()).hint(hint))
}

/// True if damage makes the first byte of a file unreadable.
fn is_unreadable(source: &Source) -> bool {
    !source.is_folder() && source.head(1).is_err_and(|error| Error::from(error).is_damage())
}

/// Returns the source of a trace whose format is known: the one at `path`, or the one that it carries.
///
/// # Errors
/// `Io` or `Missing` if there is nothing to open; errors of reading a carrier.
pub fn source_at(path: &Path) -> Result<Source> {
    let source = Source::open(path)?;
    if carrier_of(&source).is_none() {
        return Ok(source);
    }
    let found = find(&source, &OpenOptions::default())?;
    if found.carrier.is_some() && found.format.is_none() {
        return Err(unknown(&found.source)?);
    }
    Ok(found.source)
}

/// Returns the format that is sure that `source` is one of its traces and that can carry others.
pub(crate) fn carrier_of(source: &Source) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.carries() && format.probe(source) == Confidence::Sure)
}

/// Opens the trace that `source` is or carries, whatever its format, or as the format that `options` name.
///
/// # Errors
/// `Usage` if there is no format of the requested name. `Unsupported` if no format recognises the source; the message says
/// what was found instead. `Malformed` or `Truncated`, with the place, if that is because its packing is damaged. Otherwise
/// errors of the format.
pub fn open(source: &Source, options: &OpenOptions) -> Result<Box<dyn Trace>> {
    recognise(source, options)?.open(options)
}

impl Recognised {
    /// Opens the trace.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open(&self, options: &OpenOptions) -> Result<Box<dyn Trace>> {
        let Some(carrier) = &self.carrier else { return self.format.open(&self.source, options) };
        // Without records, the format might not be recognised from the bytes.
        let said = OpenOptions { format: Some(self.format.info().name.to_owned()), ..options.clone() };
        match self.format.open(&self.source, &said) {
            Ok(trace) => Ok(Box::new(Within::new(trace, carrier, self.format, &self.source))),
            // The format is known, so damage to the first bytes is reported as for any other trace.
            Err(error) if matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Truncated) => {
                let more = others(&carrier.findings, &[], Some(&error));
                let what = format!("nothing of the trace can be read: {}", error.message());
                let is_more = !self.source.is_folder()
                    && self.source.container().is_ok_and(|inner| inner.next_readable(0, 0).is_some());
                Err(all_lost(what, error, is_more).after(more))
            }
            Err(error) => Err(error),
        }
    }

    /// Extends the findings about the carrier by those of reading the trace. The trace is read only if the carrier is
    /// damaged.
    pub fn with_trace(&self, of_carrier: Vec<Finding>, options: &OpenOptions) -> Vec<Finding> {
        match &self.carrier {
            Some(_) => with_trace(of_carrier, self.format, &self.source, options),
            None => of_carrier,
        }
    }

    /// Findings about the carrier, except those that reading the trace has reported itself.
    pub fn beside(&self, found: &[Finding], error: Option<&Error>) -> Vec<Finding> {
        self.carrier.as_ref().map_or_else(Vec::new, |carrier| others(&carrier.findings, found, error))
    }

    /// Prepares for reading more than once: only the beginning of a pipe was examined, and its contents are copied to a
    /// temporary file.
    ///
    /// # Errors
    /// If there is no room for the contents of a pipe.
    pub fn spooled(self) -> Result<Recognised> {
        Ok(Recognised { source: self.source.spooled()?, ..self })
    }
}

/// Opens the trace at `path`: a file, a folder, a pipe, or `-` for standard input.
///
/// # Errors
/// As for [`open`]; also `Io` or `Missing` if there is nothing to open.
pub fn open_path(path: &Path, options: &OpenOptions) -> Result<Box<dyn Trace>> {
    open(&Source::open(path)?, options)
}

/// Maximum number of bytes that formats examine to recognise a file.
const PROBED_BYTES: usize = 1 << 16;

/// A hint for text that no format recognises.
const TEXT: &str = "tables in text, such as CSV, have to become Parquet or Arrow first; ";

/// A hint for sources that no format recognises.
const FORCED: &str = "a format can be forced: --format NAME";

/// The error for a source that no format recognises.
#[cold]
fn unknown(source: &Source) -> Result<Error> {
    let within = traces_within(source);
    if !within.is_empty() {
        let shown: Vec<String> = within.iter().take(SHOWN_ENTRIES).map(|path| format!("`{path}`")).collect();
        let more = if within.len() > shown.len() { ", …" } else { "" };
        return Ok(Error::new(ErrorKind::Unsupported, format!("a folder of `{}` traces", within.len()))
            .in_file(source.name())
            .hint(format!("open one of them: {}{more}", shown.join(", "))));
    }
    if let Some(error) = damage_of(source)? {
        return Ok(error.in_file(source.name()).hint(FORCED));
    }
    // Formats skip what they cannot read. If the source cannot be read, that is the reason why none recognises it.
    if source.can_seek() && !source.is_folder() {
        source.head(PROBED_BYTES)?;
    }
    let found = if source.is_folder() { describe_folder(source)? } else { describe_file(source)? };
    let head = if source.is_folder() { None } else { Some(source.head(strangers::HEAD_BYTES)?) };
    let kind = head.as_ref().and_then(|head| strangers::advice(head, source.name()));
    let is_text = head.is_some_and(|head| !as_text(&head).is_empty());
    let hint = kind.unwrap_or_else(|| {
        let titles: Vec<String> =
            FORMATS.iter().map(|format| format!("{}: {}", format.info().name, format.info().title)).collect();
        let text = if is_text { TEXT } else { "" };
        format!("{text}{FORCED}; known formats are {}", titles.join("; "))
    });
    Ok(Error::new(ErrorKind::Unsupported, format!("no known trace format: {found}"))
        .in_file(source.name())
        .hint(hint))
}

/// The traces directly inside a folder that is not itself a trace, for example one for each process.
fn traces_within(source: &Source) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(source.name()) else { return Vec::new() };
    let folders = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    let mut found: Vec<String> = folders
        .filter(|path| Source::open(path).is_ok_and(|within| probe(&within).is_some()))
        .map(|path| path.display().to_string())
        .collect();
    found.sort();
    found
}

fn describe_folder(source: &Source) -> Result<String> {
    let entries = source.files()?;
    if entries.is_empty() {
        return Ok("the folder is empty".to_owned());
    }
    let base = |name: &str| {
        Path::new(name).file_name().map_or(name.to_owned(), |n| n.to_string_lossy().into_owned())
    };
    let shown: Vec<String> =
        entries.iter().take(SHOWN_ENTRIES).map(|entry| format!("`{}`", base(entry.name()))).collect();
    let more = entries.len() - shown.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Ok(format!("a folder with {}{more}", shown.join(", ")))
}

fn describe_file(source: &Source) -> Result<String> {
    let codec = source.container()?.codec();
    let head = source.head(SHOWN_BYTES)?;
    let packed = if codec == Codec::Plain { "" } else { " after inflating" };
    if head.is_empty() {
        return Ok(match packed {
            "" => "the file is empty".to_owned(),
            _ => format!("a {} file with nothing in it", codec.name()),
        });
    }
    let hex: Vec<String> = head.iter().map(|byte| format!("{byte:02x}")).collect();
    let kind = if codec == Codec::Plain { "a file" } else { codec.name() };
    Ok(format!("{kind} that begins with `{}`{}{packed}", hex.join(" "), as_text(&head)))
}

/// The damage to a packed file that no format recognises: damage is reported rather than a guess about the contents.
///
/// A pipe cannot be read again, so only an error in its first block is found.
fn damage_of(source: &Source) -> Result<Option<Error>> {
    if source.is_folder() {
        return Ok(None);
    }
    let container = match source.container().map_err(Error::from) {
        Ok(container) => container,
        Err(error) if error.is_damage() => {
            let what = format!("nothing of the file can be read: {}", error.message());
            return Ok(Some(all_lost(what, error, false)));
        }
        Err(error) => return Err(error),
    };
    let codec = container.codec().name();
    // A container of plain bytes may be damaged, if the bytes have a carrier.
    let is_as_it_lies = container.codec() == Codec::Plain && source.path().is_some();
    if is_as_it_lies || !source.can_seek() {
        return Ok(None);
    }
    let options = StreamOptions { ahead: Ahead::Inline, ..StreamOptions::default() };
    let mut stream = container.stream(container.all_members(), &options)?;
    let (mut block, mut n_bytes) = (Vec::new(), 0);
    while n_bytes < MAX_SEARCHED_BYTES {
        match stream.next(&mut block) {
            Ok(None) => return Ok(None),
            Ok(Some(_)) => n_bytes += block.len() as u64,
            Err(cause) => {
                let error = Error::from(cause);
                let what = match n_bytes {
                    0 if container.codec() == Codec::Plain => {
                        format!("nothing of the file can be read: {}", error.message())
                    }
                    0 => format!("a {codec} file that cannot be inflated at all: {}", error.message()),
                    _ => format!(
                        "a damaged {codec} file, in whose first bytes no format is recognised: {}",
                        error.message()
                    ),
                };
                // The container is known, so damage to its bytes is reported as for any other trace.
                if !error.is_damage() {
                    return Ok(Some(Error::new(error.kind(), what).at(error.place()).because(error)));
                }
                let is_more = container.next_readable(0, 0).is_some();
                return Ok(Some(all_lost(what, error, is_more)));
            }
        }
    }
    Ok(None)
}

/// The error for a file without any readable record, wherever the damage is. `is_more` if readable bytes follow those that
/// the carrier has lost.
fn all_lost(what: String, cause: Error, is_more: bool) -> Error {
    let is_carried = cause.of_source().is_some_and(|source| source.carrier().is_some());
    let place = match is_carried {
        true => cause.place().clone(),
        false => Place { offset: Some(0), ..cause.place().clone() },
    };
    let loss = match is_carried && !is_more {
        true => cause.loss_or_rest(),
        false => Loss::from(place.clone()),
    };
    Error::new(ErrorKind::Damaged, what).at(&place).losing(loss).because(cause)
}

/// The bytes as quoted text, if they are ASCII text.
fn as_text(head: &[u8]) -> String {
    if head.iter().all(|byte| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\n' | b'\r' | b'\t')) {
        format!(" ({:?})", String::from_utf8_lossy(head))
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(bytes: &[u8]) -> Error {
        match open(&Source::from_bytes("in", bytes.to_vec()), &OpenOptions::default()) {
            Err(error) => error,
            Ok(_) => panic!("recognised as a trace"),
        }
    }

    #[test]
    fn the_error_for_an_unknown_file_shows_how_it_begins() {
        let error = refusal(b"#!/bin/sh\nexit 0\n");
        assert_eq!(
            error.to_string(),
            "in: no known trace format: a file that begins with `23 21 2f 62 69 6e 2f 73 68 0a 65 78 69 74 20 30` \
             (\"#!/bin/sh\\nexit 0\")"
        );
        assert!(error.advice().is_some_and(|advice| advice.contains("drmemtrace: ")), "{error:?}");
        let advice = |bytes: &[u8]| refusal(bytes).advice().unwrap_or_default().to_owned();
        assert!(advice(b"a,b\n1,2\n").contains("CSV"), "{}", advice(b"a,b\n1,2\n"));
        let program = advice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0");
        assert_eq!(program, "this is a program or library: `quipu record -- in` makes a trace of a program");
    }

    #[test]
    fn a_file_that_cannot_be_inflated_is_not_called_empty() {
        // The head of a zstd frame, and of a block of 16 bytes that is missing.
        let cut = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 0x10, 0x81, 0, 0];
        let error = refusal(&cut);
        assert_eq!(
            error.to_string(),
            "in: offset 0x0: a zstd file that cannot be inflated at all: the zstd data is cut short"
        );
        assert_eq!((error.kind(), error.loss().is_some()), (ErrorKind::Damaged, true));
    }

    #[test]
    fn all_of_a_damaged_file_that_no_format_knows_is_lost() {
        let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1];
        // A stored block of 40,000 bytes, and a wrong checksum.
        file.extend(40_000u16.to_le_bytes());
        file.extend((!40_000u16).to_le_bytes());
        file.extend([0xee; 40_000]);
        file.extend([1, 2, 3, 4]);
        file.extend(40_000u32.to_le_bytes());
        let error = refusal(&file);
        assert_eq!((error.kind(), error.place().offset), (ErrorKind::Damaged, Some(0)), "{error}");
        assert_eq!(error.loss().and_then(|loss| loss.stopped.offset), Some(0), "{error}");
    }

    #[test]
    fn an_empty_file_is_called_empty() {
        assert_eq!(refusal(b"").to_string(), "in: no known trace format: the file is empty");
    }
}
