//! `quipu merge`: all threads in one file.

use quipu::model::{Confidence, Error, ErrorKind, Format, OptionSpec};
use quipu::source::Source;
use quipu_console::Common;
use quipu_console::flags::{Flagged, Flags};
use quipu_console::input::{self, Stored};
use quipu_console::rewrite::{self, EXIT_CODES, Output};
use quipu_console::screen::{Outcome, Result, Screen};
use std::path::PathBuf;

/// Merge the threads of a trace into one file, in time order
///
/// Threads are interleaved by their timestamps. The file has no chunks, because chunks would not repeat which thread runs: it
/// can only be read from its beginning, but also through a pipe.
///
/// Several streams, such as those of several hosts, are merged into one with the frames of all producers in time order. In
/// formats whose traces are folders, several files are read as one folder.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,
    /// More files of the same trace, or more streams
    #[arg(value_name = "MORE")]
    more: Vec<PathBuf>,
    #[command(flatten)]
    flags: Flags<MergeFlags>,
    #[command(flatten)]
    output: Output,
}

/// Options of all formats whose traces can be merged.
struct MergeFlags;

impl Flagged for MergeFlags {
    fn specs() -> Vec<OptionSpec> {
        rewrite::options_of(NAME)
    }
}

/// Name of the transform in each format.
const NAME: &str = "merge";

const EXAMPLES: &str = "\
Examples:
  quipu merge trace.dir -o all.trace.gz
  quipu merge host-a.quipu host-b.quipu -o both.quipu
";

fn help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let (given, target) = (options.flags.given(), options.output.target());
    if options.more.is_empty() {
        return rewrite::run(NAME, &options.input, given, &target, common, screen);
    }
    rewrite::refuse_stdout(&target)?;
    let paths = || std::iter::once(&options.input.path).chain(&options.more);
    if let Some(folder) = paths().find(|path| path.is_dir()) {
        let what = format!("{} is a folder, and several files are merged", folder.display());
        return Err(Error::usage(what).hint("name the files, or one folder alone").into());
    }
    let files = paths().map(|path| Ok(input::source(path)?.spooled().map_err(Error::from)?));
    let files = files.collect::<Result<Vec<_>>>()?;
    // Streams are merged as streams, regardless of their contents.
    let is_of = |format: &&&dyn Format| {
        format.carries() && files.iter().all(|file| format.probe(file) == Confidence::Sure)
    };
    let mut opening = options.input.opening.clone();
    let carrier = quipu::FORMATS.iter().find(is_of).map(|format| format.info().name.to_owned());
    opening.format = opening.format.or(carrier);
    let names: Vec<String> = paths().map(|path| input::name(path)).collect();
    let all = Source::of_files(names.join(", "), files);
    let recognised = quipu::recognise(&all, &opening.options()).map_err(|error| match error.kind() {
        ErrorKind::Unsupported => error.hint(
            "several files are merged if they are streams, or the files of one trace: put them into a folder that has all that the \
             trace has, and merge that",
        ),
        _ => error,
    })?;
    rewrite::done(rewrite::of_recognised(NAME, recognised, &opening, given, &target, common, screen))
}
