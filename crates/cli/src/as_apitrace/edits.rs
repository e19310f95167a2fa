//! `repack`, `trim` and `sed`: the original's verbs that write traces.
//!
//! They write what apitrace writes: snappy, with a return for each call that never returned; an existing file is replaced.
//! Of a damaged trace, they write the calls before the damage.

use super::{open, unknown};
use crate::rewrite::Watched;
use crate::screen::{Outcome, Result, Screen, Stop};
use crate::session::{self, Verdict};
use quipu::apitrace::callset::CallSet;
use quipu::apitrace::edits::sed::{Placed, Replacer, with_properties};
use quipu::apitrace::edits::substitute::{Reach, Rule};
use quipu::apitrace::edits::trim::{Chooser, Selection, Until};
use quipu::apitrace::edits::{CallEdit, rewrite};
use quipu::apitrace::encode::Incomplete;
use quipu::apitrace::trace::Packing;
use quipu::apitrace::write::{self, WriteOptions};
use quipu::model::{Damaged, Error};
use std::path::Path;

/// How the original writes.
const ORIGINAL: WriteOptions = WriteOptions {
    packing: Packing::Snappy,
    replace: true,
    incomplete: Incomplete::Completed,
    damaged: Damaged::Keep,
    ..WriteOptions::USUAL
};

/// `repack [-s | -b[=Q] | -z[=Q] | --zlib] IN OUT`.
pub(super) fn repack(args: &[String], screen: &Screen) -> Result<Outcome> {
    let (mut packing, mut level, mut files) = (Packing::Snappy, None, Vec::new());
    for arg in args {
        let (name, value) =
            arg.split_once('=').map_or((arg.as_str(), None), |(name, value)| (name, Some(value)));
        packing = match name {
            "-s" | "--snappy" => Packing::Snappy,
            "-b" | "--brotli" => Packing::Brotli,
            "-z" | "--zstd" => Packing::SeekableZstd,
            "-g" | "--zlib" => Packing::Gzip,
            _ if arg.starts_with('-') => return Err(unknown("repack", arg)),
            _ => {
                files.push(arg.as_str());
                continue;
            }
        };
        if let Some(value) = value {
            let wrong = || Error::usage(format!("`{arg}` has a level that is no number"));
            level = Some(value.parse().map_err(|_| wrong())?);
        }
    }
    let [from, to] = files[..] else {
        return Err(Error::usage("two files are wanted: the trace, and what to write").into());
    };
    let Some(trace) = open(from, screen) else { return Ok(Outcome::Flawed) };
    let options = WriteOptions { packing, level, ..ORIGINAL };
    let done =
        session::watched(screen, |watch| write::repack(&trace, Path::new(to), &options, &Watched(watch)))?;
    Ok(Verdict::from(done.reading).tell(screen))
}

/// `trim [--calls=SET] [--frames=SET] [--thread=N] [-o FILE] TRACE`.
pub(super) fn trim(args: &[String], screen: &Screen) -> Result<Outcome> {
    let mut selection = Selection { until: Until::FirstBehind, ..Selection::all() };
    let mut files = Files::default();
    let mut words = Words::new("trim", args);
    while let Some((name, word)) = words.next_option() {
        match name.as_str() {
            "--calls" => selection.calls.get_or_insert_default().add(&words.value()?)?,
            "--frames" => selection.frames.get_or_insert_default().add(&words.value()?)?,
            "--thread" => {
                let value = words.value()?;
                let thread = value.parse::<u64>();
                let thread = thread
                    .map_err(|_| Error::usage(format!("`--thread` wants a number, found `{value}`")))?;
                selection.threads.push(thread.into());
            }
            "-o" | "--output" => files.output = Some(words.value()?),
            _ => files.take("trim", word)?,
        }
    }
    // A set of calls or frames that is not given has nothing in it if the other is.
    match (&selection.calls, &selection.frames) {
        (Some(_), None) => selection.frames = Some(CallSet::default()),
        (None, Some(_)) => selection.calls = Some(CallSet::default()),
        _ => {}
    }
    files.write("trim", "Trimmed", &[], &mut Chooser::new(selection), screen)
}

/// `sed [-e s/A/B/] [--property=NAME=VALUE] [--calls=SET] [-o FILE] TRACE`.
pub(super) fn sed(args: &[String], screen: &Screen) -> Result<Outcome> {
    let mut replacer = Replacer::default();
    let (mut properties, mut files) = (Vec::new(), Files::default());
    let mut words = Words::new("sed", args);
    while let Some((name, word)) = words.next_option() {
        match name.as_str() {
            "-e" => {
                let rule = Rule::parse(&words.value()?, false)?;
                replacer.rules.push(Placed { rule, args: Vec::new(), reach: Reach::Original });
            }
            "--property" => properties.push(words.value()?),
            "--calls" => replacer.calls.get_or_insert_default().add(&words.value()?)?,
            "-o" | "--output" => files.output = Some(words.value()?),
            _ => files.take("sed", word)?,
        }
    }
    files.write("sed", "Edited", &properties, &mut replacer, screen)
}

/// The trace and what is to be written.
#[derive(Default)]
struct Files {
    input: Option<String>,
    output: Option<String>,
}

impl Files {
    /// Takes a word that is no known option: the trace.
    fn take(&mut self, verb: &str, word: String) -> Result<()> {
        if word.starts_with('-') && word.len() > 1 {
            return Err(unknown(verb, &word));
        }
        match self.input.replace(word) {
            None => Ok(()),
            Some(_) => Err(Error::usage("one trace is wanted").into()),
        }
    }

    /// Writes the calls as an edit leaves them, and says where, in the original's words.
    fn write(
        self,
        verb: &str,
        word: &str,
        properties: &[String],
        edit: &mut dyn CallEdit,
        screen: &Screen,
    ) -> Result<Outcome> {
        let Some(input) = self.input else { return Err(Error::usage("no trace is given").into()) };
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
        crate::screen::eprint(&format!("{word} trace is available as {output}\n"));
        Ok(outcome)
    }
}

/// The words of a command line; an option's value stands behind `=`, or is the next word.
struct Words<'a> {
    verb: &'static str,
    rest: std::slice::Iter<'a, String>,
    option: String,
    value: Option<String>,
}

impl<'a> Words<'a> {
    fn new(verb: &'static str, args: &'a [String]) -> Words<'a> {
        Words { verb, rest: args.iter(), option: String::new(), value: None }
    }

    /// The next word: what stands in front of its `=`, and all of it.
    fn next_option(&mut self) -> Option<(String, String)> {
        let word = self.rest.next()?;
        let is_long = word.starts_with("--");
        (self.option, self.value) = match word.split_once('=') {
            Some((name, value)) if is_long => (name.to_owned(), Some(value.to_owned())),
            _ => (word.clone(), None),
        };
        Some((self.option.clone(), word.clone()))
    }

    /// The value of the option at hand.
    fn value(&mut self) -> Result<String> {
        self.value.take().or_else(|| self.rest.next().cloned()).ok_or_else(|| -> Stop {
            Error::usage(format!("apitrace {}: `{}` needs a value", self.verb, self.option)).into()
        })
    }
}
