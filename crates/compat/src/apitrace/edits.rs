//! `repack`, `trim` and `sed`: apitrace's verbs that write traces.
//!
//! They write what apitrace writes: compressed with snappy, and with a return added for each call that never returned; an
//! existing file is replaced. From a damaged trace, they write the calls before the damage.

use super::open;
use super::options::Words;
use quipu::apitrace::callset::CallSet;
use quipu::apitrace::edits::sed::{Placed, Replacer, with_properties};
use quipu::apitrace::edits::substitute::{Reach, Rule};
use quipu::apitrace::edits::trim::{Chooser, Selection, Until};
use quipu::apitrace::edits::{CallEdit, rewrite};
use quipu::apitrace::encode::Incomplete;
use quipu::apitrace::pack::levels;
use quipu::apitrace::trace::Packing;
use quipu::apitrace::write::{self, WriteOptions};
use quipu::model::{Damaged, Error};
use quipu_console::rewrite::Watched;
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::{self, Verdict};
use std::path::Path;

/// Write options that match apitrace.
const ORIGINAL: WriteOptions = WriteOptions {
    packing: Packing::Snappy,
    replace: true,
    incomplete: Incomplete::Completed,
    damaged: Damaged::Keep,
    ..WriteOptions::USUAL
};

/// `repack [-s | -b | --brotli=Q | -z | --zstd=Q | --zlib] IN OUT`.
pub(super) fn repack(words: Words, screen: &Screen) -> Result<Outcome> {
    let (mut packing, mut level) = (Packing::Snappy, None);
    for (name, value) in &words.options {
        packing = match name.as_str() {
            "brotli" => Packing::Brotli,
            "zstd" => Packing::SeekableZstd,
            "zlib" => Packing::Gzip,
            _ => Packing::Snappy,
        };
        level = match value {
            None => None,
            Some(value) => match level_of(packing, name, value)? {
                Some(level) => Some(level),
                None => return Ok(Outcome::Flawed),
            },
        };
    }
    let [from, to] = &words.files[..] else {
        return Err(Error::usage("two files are wanted: the trace, and what to write").into());
    };
    let Some(trace) = open(from, screen) else { return Ok(Outcome::Flawed) };
    let options = WriteOptions { packing, level, ..ORIGINAL };
    let done =
        session::watched(screen, |watch| write::repack(&trace, Path::new(to), &options, &Watched(watch)))?;
    Ok(Verdict::from(done.reading).tell(screen))
}

/// Parses the level of an option. An unsupported level gives `None` and apitrace's message.
fn level_of(packing: Packing, name: &str, value: &str) -> Result<Option<u32>> {
    let wrong = |_| Error::usage(format!("`--{name}={value}` has a level that is no number"));
    let level: i64 = value.parse().map_err(wrong)?;
    let Some((levels, _)) = levels(packing) else { return Ok(None) };
    let level = u32::try_from(level).ok().filter(|level| levels.contains(level));
    if level.is_none() {
        let (least, most) = (levels.start(), levels.end());
        quipu_console::screen::eprint(&format!("error: {name} quality must be between {least} and {most}\n"));
    }
    Ok(level)
}

/// `trim [--calls=SET] [--frames=SET] [--thread=N] [-o FILE] TRACE`.
pub(super) fn trim(words: Words, screen: &Screen) -> Result<Outcome> {
    let mut selection = Selection { until: Until::FirstBehind, ..Selection::all() };
    let mut output = None;
    for (name, value) in words.options {
        let value = value.unwrap_or_default();
        match name.as_str() {
            "calls" => selection.calls.get_or_insert_default().add(&value)?,
            "frames" => selection.frames.get_or_insert_default().add(&value)?,
            "thread" => {
                let thread = value.parse::<u64>();
                let thread = thread
                    .map_err(|_| Error::usage(format!("`--thread` wants a number, found `{value}`")))?;
                selection.threads.push(thread.into());
            }
            _ => output = Some(value),
        }
    }
    let files = Files::new(words.files, output)?;
    // If only one of the two sets is given, the other is empty.
    match (&selection.calls, &selection.frames) {
        (Some(_), None) => selection.frames = Some(CallSet::default()),
        (None, Some(_)) => selection.calls = Some(CallSet::default()),
        _ => {}
    }
    files.write("trim", "Trimmed", &[], &mut Chooser::new(selection), screen)
}

/// `sed [-e s/A/B/] [--property=NAME=VALUE] [--calls=SET] [-o FILE] TRACE`.
pub(super) fn sed(words: Words, screen: &Screen) -> Result<Outcome> {
    let mut replacer = Replacer::default();
    let (mut properties, mut output) = (Vec::new(), None);
    for (name, value) in words.options {
        let value = value.unwrap_or_default();
        match name.as_str() {
            "e" => {
                let rule = Rule::parse(&value, false)?;
                replacer.rules.push(Placed { rule, args: Vec::new(), reach: Reach::Original });
            }
            "property" => properties.push(value),
            "calls" => replacer.calls.get_or_insert_default().add(&value)?,
            _ => output = Some(value),
        }
    }
    Files::new(words.files, output)?.write("sed", "Edited", &properties, &mut replacer, screen)
}

/// The input trace and the output.
struct Files {
    input: String,
    output: Option<String>,
}

impl Files {
    fn new(files: Vec<String>, output: Option<String>) -> Result<Files> {
        let mut files = files.into_iter();
        match (files.next(), files.next()) {
            (Some(input), None) => Ok(Files { input, output }),
            (None, _) => Err(Error::usage("no trace is given").into()),
            (Some(_), Some(_)) => Err(Error::usage("one trace is wanted").into()),
        }
    }

    /// Writes the edited calls, and reports the output path in apitrace's words.
    fn write(
        self,
        verb: &str,
        word: &str,
        properties: &[String],
        edit: &mut dyn CallEdit,
        screen: &Screen,
    ) -> Result<Outcome> {
        let input = self.input;
        let Some(trace) = open(&input, screen) else { return Ok(Outcome::Flawed) };
        let output = self.output.unwrap_or_else(|| {
            let stem = input.rsplit_once('.').map_or(input.as_str(), |(stem, _)| stem);
            format!("{stem}-{verb}.trace")
        });
        let header = with_properties(trace.header(), properties.iter().map(String::as_str))?;
        let done = session::watched(screen, |watch| {
            rewrite(&trace, &header, Path::new(&output), &ORIGINAL, edit, &Watched(watch))
        })?;
        let outcome = Verdict::from(done.written.reading).tell(screen);
        quipu_console::screen::eprint(&format!("{word} trace is available as {output}\n"));
        Ok(outcome)
    }
}
