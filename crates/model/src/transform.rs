//! Transforms and comparisons: what a format can do with its traces apart from reading them.
//!
//! A verb that changes or compares traces looks up the format's transform by name, passes it the user's options, and shows
//! the facts that it returns. The verb itself knows no format.

use crate::damaged::{Damaged, Reading};
use crate::doc::Block;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Given, OptionSpec, Options};
use crate::print::Paint;
use crate::trace::{Fact, OpenOptions, Trace, Window};
use quipu_source::{PackOptions, Packing, Source};
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::Path;

/// The description of a transform or a comparison, available without opening a trace.
#[derive(Debug)]
pub struct TransformInfo {
    /// The verb: `trim`, `edit`, `disassemble`, …
    pub name: &'static str,
    /// One line for people.
    pub title: &'static str,
    /// Its options.
    pub options: &'static [OptionSpec],
}

impl TransformInfo {
    /// Checks the options given for traces of `format`.
    ///
    /// # Errors
    /// As [`Options::parse`].
    pub fn parse(&self, format: &str, given: &Given) -> Result<Options> {
        Options::parse(&format!("`{}` of {format} traces", self.name), self.options, given)
    }
}

/// An operation that makes another file of a trace: a changed trace, or its text.
pub trait Transform: Sync {
    /// Name, title and options.
    fn info(&self) -> &'static TransformInfo;

    /// True if it reads the source more than once with these options, which is impossible for a pipe.
    fn reads_again(&self, options: &Options) -> bool {
        let _ = options;
        false
    }

    /// The reason why it has no option of this name although transforms of the same name in other formats have one; `None` if
    /// there is no particular reason.
    fn lacks(&self, option: &str) -> Option<&'static str> {
        let _ = option;
        None
    }

    /// Runs the transform. The output appears under its name once it is complete, and never after an error.
    ///
    /// # Errors
    /// Damage of the trace, unless [`TransformJob::damaged`] keeps the output. `Usage` if an option is wrong, or if the
    /// output exists and may not be replaced. `Io` if the caller cancels. Errors of reading and writing.
    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed>;
}

/// A request for a transform: input, options and output.
#[derive(Clone, Copy)]
pub struct TransformJob<'a> {
    /// The trace to read.
    pub source: &'a Source,
    /// Options for opening it.
    pub opening: &'a OpenOptions,
    /// Options that the user gave; see [`TransformInfo::options`].
    pub options: &'a Options,
    /// Path of the output.
    pub output: &'a Path,
    /// Whether an existing file of that name may be replaced.
    pub replace: bool,
    /// Name of the container that was asked for. If `None`, the name of the output decides, or else the format's usual
    /// container is used.
    pub container: Option<&'a str>,
    /// Compression level; the container's default if `None`.
    pub level: Option<u32>,
    /// Whether the output is kept if the input proves damaged.
    pub damaged: Damaged,
    /// Whether the first damage ends the transform with an error of its own.
    pub strict: bool,
    /// Number of threads to use; 0 for as many as there are cores.
    pub threads: usize,
    /// Maps windows of the merged sequence of all threads to windows of shards.
    pub sequence: &'a dyn Sequence,
}

/// Knows the sequence of all threads of a trace by time, which formats do not know.
pub trait Sequence: Sync {
    /// The window of each shard, in order, that a window of the sequence covers.
    ///
    /// # Errors
    /// Errors of the reading that this needs; `Io` if the caller cancels.
    fn parts(&self, trace: &dyn Trace, window: &Window) -> Result<Vec<Window>>;
}

/// The sequence of a trace with a single shard, whose windows need no mapping.
#[derive(Clone, Copy, Debug)]
pub struct OneShard;

impl Sequence for OneShard {
    fn parts(&self, trace: &dyn Trace, window: &Window) -> Result<Vec<Window>> {
        match trace.shards().len() {
            1 => Ok(vec![window.clone()]),
            _ => Err(Error::unsupported("threads in files of their own have no sequence here")),
        }
    }
}

/// The packing for an output in a container: the one asked for by name, or else the one that the file name ending of the
/// output means, or else none.
///
/// # Errors
/// `Usage` if there is no such container or level.
pub fn packing_for(container: Option<&str>, level: Option<u32>, output: &Path) -> Result<PackOptions> {
    let packing = match container {
        Some(name) => Packing::named(name).ok_or_else(|| {
            let names: Vec<&str> = Packing::ALL.iter().map(|packing| packing.name()).collect();
            Error::usage(format!("no container is called `{name}`"))
                .hint(format!("containers: {}", names.join(", ")))
        })?,
        None => {
            let name = output.file_name().map(|name| name.to_string_lossy().into_owned());
            name.and_then(|name| Packing::of_file_name(&name)).unwrap_or(Packing::Plain)
        }
    };
    let levels = packing.levels().map(|levels| u32::from(*levels.start())..=u32::from(*levels.end()));
    let level = check_level(level, levels, packing.name())?;
    Ok(PackOptions { packing, level: level.map(|level| level as u8) }) // The level was checked.
}

/// Refuses a container for an output that is a stream, whose frames are compressed one by one.
///
/// # Errors
/// `Usage` if a container is asked for.
pub fn refuse_container(container: Option<&str>) -> Result<()> {
    match container {
        None => Ok(()),
        Some(container) => {
            let what = format!("a stream is written without a container; `{container}` was asked for");
            Err(Error::usage(what))
        }
    }
}

/// Checks a requested level against those of a container.
///
/// # Errors
/// `Usage` if the container has no such level, or no levels at all.
pub fn check_level(
    level: Option<u32>,
    levels: Option<RangeInclusive<u32>>,
    container: &str,
) -> Result<Option<u32>> {
    match (level, levels) {
        (Some(_), None) => Err(Error::usage(format!("`--level`: there are no levels of {container}"))),
        (Some(level), Some(levels)) if !levels.contains(&level) => {
            let (least, most) = (levels.start(), levels.end());
            Err(Error::usage(format!(
                "`--level`: expected {least} to {most} for {container}, found `{level}`"
            )))
        }
        _ => Ok(level),
    }
}

/// The result of a transform.
#[derive(Clone, Debug, Default)]
pub struct Transformed {
    /// Facts about what was done, in the format's own words.
    pub facts: Vec<Fact>,
    /// Blocks to show to people in place of the facts, if these do not fit on lines.
    pub shown: Vec<Block>,
    /// For each output file, the record from which on it is doubtful; for a single file, this may be in `reading` instead.
    pub doubtful: Vec<Doubtful>,
    /// The outcome of reading.
    pub reading: Reading,
    /// Warnings about the result, for example that nothing was selected or nothing was replaced.
    pub notes: Vec<String>,
    /// True if the output does not represent what the program did, whatever the findings are.
    pub is_flawed: bool,
}

/// A file that is doubtful from some record onwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubtful {
    /// Name of the file in the output folder; `None` for the output itself.
    pub file: Option<String>,
    /// Number of records before the first damage.
    pub from: u64,
}

/// Compares two traces of one format.
pub trait Comparison: Sync {
    /// Name, title and options.
    fn info(&self) -> &'static TransformInfo;

    /// Writes the differences. An error that ends reading is part of the result, not an error of this function.
    ///
    /// # Errors
    /// `Usage` if an option is wrong; errors of opening and writing.
    fn run(&self, job: &CompareJob<'_>, progress: &dyn Progress, out: &mut dyn Write) -> Result<Compared>;
}

/// A request for a comparison: both traces, options and the form of the answer.
#[derive(Clone, Copy, Debug)]
pub struct CompareJob<'a> {
    /// The old trace.
    pub old: &'a Source,
    /// The new trace.
    pub new: &'a Source,
    /// Options for opening both.
    pub opening: &'a OpenOptions,
    /// Options that the user gave; see [`TransformInfo::options`].
    pub options: &'a Options,
    /// Colours of the answer as text.
    pub paint: Paint,
    /// Whether the answer is for programs: one JSON object on each line.
    pub json: bool,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// True if there are no differences.
    pub is_same: bool,
    /// The outcome of reading the old trace and the new one. If one could not be read to its end, the part before was
    /// compared.
    pub readings: [Reading; 2],
}

/// Receives progress, and can cancel the work.
pub trait Progress: Sync {
    /// Reports that `records` more records and `packed_bytes` more packed bytes of the source are done.
    fn advance(&self, records: u64, packed_bytes: u64);

    /// Sets the packed bytes of the whole work; `None` if unknown.
    fn expect(&self, packed_bytes: Option<u64>) {
        let _ = packed_bytes;
    }

    /// True if the caller wants to cancel the work.
    fn is_cancelled(&self) -> bool;

    /// Returns an error if the caller has cancelled the work.
    ///
    /// # Errors
    /// `Io` if the caller has cancelled the work.
    fn go_on(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::new(ErrorKind::Io, "interrupted")) } else { Ok(()) }
    }
}

/// Ignores progress and never cancels.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Progress for Silent {
    fn advance(&self, _: u64, _: u64) {}

    fn is_cancelled(&self) -> bool {
        false
    }
}
