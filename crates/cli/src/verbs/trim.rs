//! `quipu trim`: a part of a trace as a trace of its own.

use quipu::model::{Error, OptionSpec};
use quipu_console::flags::{Flagged, Flags};
use quipu_console::input::Stored;
use quipu_console::rewrite::{self, EXIT_CODES, Output};
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::{BetweenMarks, Common};
use std::path::Path;

/// Extract a range of a trace as a new trace, or several ranges as windows
///
/// Records and instructions count along the sequence of all threads by time, as for `quipu view`, or from the beginning of
/// each thread. A range begins and ends right before an instruction that is not kernel code, so instructions keep their data,
/// and system calls their markers and kernel code; if there are several ranges, none ends with a branch, because its
/// successor follows it. Threads without records in the ranges are dropped.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,
    #[command(flatten)]
    between: BetweenMarks,
    #[command(flatten)]
    flags: Flags<TrimFlags>,
    #[command(flatten)]
    output: Output,
}

/// Options of all formats whose traces can be trimmed.
struct TrimFlags;

impl Flagged for TrimFlags {
    fn specs() -> Vec<OptionSpec> {
        rewrite::options_of(NAME)
    }
}

/// Name of the transform in each format.
const NAME: &str = "trim";

const EXAMPLES: &str = "\
Examples:
  quipu trim --skip-instrs 1M --take-instrs 100k trace.dir -o part.dir
  quipu trim --instrs 0..10k,500k..510k --per-thread trace.dir -o windows.dir
  quipu trim --between begin,end run.quipu -o part.quipu
  quipu trim --frames 100-109 --setup game.trace -o ten-frames.trace
  quipu trim --since 13352268558646120 --until 13352268558646661 trace.zip -o part.zip
";

fn help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let mut given = options.flags.given().clone();
    if options.between.is_part() {
        // The marks are looked for first, and then the trace is read again.
        if options.input.path == Path::new("-") {
            let error = Error::usage("what comes through a pipe is read once, and marks need two reads");
            return Err(error.hint("write it to a file first").into());
        }
        let trace = options.input.opening.open(&options.input.path)?;
        if let Some(range) = options.between.only_range(&*trace)? {
            given.add("skip", range.start.to_string());
            if range.end < u64::MAX {
                given.add("take", (range.end - range.start).to_string());
            }
        }
    }
    rewrite::run(NAME, &options.input, &given, &options.output.target(), common, screen)
}
