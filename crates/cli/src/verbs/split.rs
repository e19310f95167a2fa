//! `quipu split`: one file for each thread.

use quipu::model::OptionSpec;
use quipu_console::Common;
use quipu_console::flags::{Flagged, Flags};
use quipu_console::input::Stored;
use quipu_console::rewrite::{self, EXIT_CODES, Output};
use quipu_console::screen::{Outcome, Result, Screen};

/// Split a trace into one file per thread
///
/// Splits files that mix threads, and files of cores. Records are ordered by timestamps, so files of cores are split exactly
/// if threads change at timestamps, as in those that `quipu convert --sharding cores` writes. Encodings that a core's file
/// lacks are taken from the others; idle time of cores is dropped.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,
    #[command(flatten)]
    flags: Flags<SplitFlags>,
    #[command(flatten)]
    output: Output,
}

/// Options of all formats whose traces can be split.
struct SplitFlags;

impl Flagged for SplitFlags {
    fn specs() -> Vec<OptionSpec> {
        rewrite::options_of(NAME)
    }
}

/// Name of the transform in each format.
const NAME: &str = "split";

const EXAMPLES: &str = "\
Examples:
  quipu split legacy.trace.gz -o threads.dir
  quipu split cores.dir -o threads.dir --container zip
";

fn help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    rewrite::run(NAME, &options.input, options.flags.given(), &options.output.target(), common, screen)
}
