//! Transforms and comparisons: what a format makes of its traces beside reading them.
//!
//! A verb that changes or compares traces finds what a format offers by name, hands over what the user said as options, and
//! shows the facts that come back; it knows no format.

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

/// What is known of a transform or a comparison without opening a trace.
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
    /// Checks what is given for traces of `format`.
    ///
    /// # Errors
    /// As [`Options::parse`].
    pub fn parse(&self, format: &str, given: &Given) -> Result<Options> {
        Options::parse(&format!("`{}` of {format} traces", self.name), self.options, given)
    }
}

/// One thing that can be made of a trace: another trace, or its text.
pub trait Transform: Sync {
    /// Name, title and options.
    fn info(&self) -> &'static TransformInfo;

    /// True if it reads the source more than once, which a pipe cannot, where it is asked for this.
    fn reads_again(&self, options: &Options) -> bool {
        let _ = options;
        false
    }

    /// Why it has no option of this name, where other formats' transforms of the same name have one.
    fn lacks(&self, option: &str) -> Option<&'static str> {
        let _ = option;
        None
    }

    /// Does it. The output appears under its name when all of it is written, and not at all after an error.
    ///
    /// # Errors
    /// For damage of the trace, unless [`TransformJob::damaged`] keeps what is made of it.
    /// `Usage` if an option is wrong, or the output exists and may not be replaced; what reading and writing
    /// say; `Io` if the progress wants an end.
    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed>;
}

/// What is to be transformed, and what is to come of it.
#[derive(Clone, Copy)]
pub struct TransformJob<'a> {
    /// What is read.
    pub source: &'a Source,
    /// How it is opened.
    pub opening: &'a OpenOptions,
    /// What the user said; see [`TransformInfo::options`].
    pub options: &'a Options,
    /// What is written.
    pub output: &'a Path,
    /// Whether a file of that name may be replaced.
    pub replace: bool,
    /// The container that was asked for, by its name; the format's usual one, or what the name of the output tells, if
    /// none was.
    pub container: Option<&'a str>,
    /// How hard to pack; the usual if `None`.
    pub level: Option<u32>,
    /// Whether what is made of a damaged trace is kept.
    pub damaged: Damaged,
    /// Whether the first damage is an error of its own.
    pub strict: bool,
    /// Threads that may work; 0 for as many as there are cores.
    pub threads: usize,
    /// What knows the sequence of all threads.
    pub sequence: &'a dyn Sequence,
}

/// What knows the sequence of all threads of a trace by time, which formats do not.
pub trait Sequence: Sync {
    /// What each shard contributes to a window of the sequence: a window of each, in their order.
    ///
    /// # Errors
    /// What reading says that has to be read to know it; `Io` if the caller wants an end.
    fn parts(&self, trace: &dyn Trace, window: &Window) -> Result<Vec<Window>>;
}

/// A sequence of one shard, where nothing has to be known of others.
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

/// How to pack what goes into containers of any format: as asked for by name, or else as the name of the output ends, or else
/// not at all.
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
    Ok(PackOptions { packing, level: level.map(|level| level as u8) }) // A level that there is.
}

/// A level as it was asked for.
///
/// # Errors
/// `Usage` if the container has no such level, or none to choose from.
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

/// What came of a transform.
#[derive(Clone, Debug, Default)]
pub struct Transformed {
    /// What was done, in the format's own words.
    pub facts: Vec<Fact>,
    /// What people see of it in place of the facts, where these are no lines.
    pub shown: Vec<Block>,
    /// From which record on what was written is doubtful, file by file; that of a single file may stand in `reading`.
    pub doubtful: Vec<Doubtful>,
    /// How reading went.
    pub reading: Reading,
    /// What the caller may not expect of the result: that nothing was chosen, nothing was replaced.
    pub notes: Vec<String>,
    /// True if it is not what the program did, whatever the findings are.
    pub is_flawed: bool,
}

/// A file that is doubtful from a record on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubtful {
    /// Its name in the folder that was written; `None` for the output itself.
    pub file: Option<String>,
    /// The number of records before the first damage.
    pub from: u64,
}

/// Compares two traces of one format.
pub trait Comparison: Sync {
    /// Name, title and options.
    fn info(&self) -> &'static TransformInfo;

    /// Writes what differs. An error that ends reading stands in what is given back.
    ///
    /// # Errors
    /// `Usage` if an option is wrong; what opening and writing say.
    fn run(&self, job: &CompareJob<'_>, progress: &dyn Progress, out: &mut dyn Write) -> Result<Compared>;
}

/// What is to be compared, and how the answer looks.
#[derive(Clone, Copy, Debug)]
pub struct CompareJob<'a> {
    /// The old trace.
    pub old: &'a Source,
    /// The new one.
    pub new: &'a Source,
    /// How both are opened.
    pub opening: &'a OpenOptions,
    /// What the user said; see [`TransformInfo::options`].
    pub options: &'a Options,
    /// Colours of the text.
    pub paint: Paint,
    /// Whether the answer is for programs: a JSON object a line.
    pub json: bool,
}

/// What came of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Compared {
    /// True if nothing differs.
    pub is_same: bool,
    /// How reading the old trace and the new one went: of one that could not be read to its end, the rest was compared.
    pub readings: [Reading; 2],
}

/// Receives how far work is, and may end it.
pub trait Progress: Sync {
    /// `records` more records and `packed_bytes` more packed bytes of the source are done.
    fn advance(&self, records: u64, packed_bytes: u64);

    /// How many packed bytes the whole work has; `None` if that is not known.
    fn expect(&self, packed_bytes: Option<u64>) {
        let _ = packed_bytes;
    }

    /// True if the caller wants the work to end.
    fn is_cancelled(&self) -> bool;

    /// Nothing, or the error of work that was ended.
    ///
    /// # Errors
    /// `Io` if the caller wants the work to end.
    fn go_on(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::new(ErrorKind::Io, "interrupted")) } else { Ok(()) }
    }
}

/// Reports nothing.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Progress for Silent {
    fn advance(&self, _: u64, _: u64) {}

    fn is_cancelled(&self) -> bool {
        false
    }
}
