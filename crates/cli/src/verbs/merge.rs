//! `quipu merge`: all threads in one file.

use quipu::model::OptionSpec;
use quipu_console::Common;
use quipu_console::flags::{Flagged, Flags};
use quipu_console::input::Stored;
use quipu_console::rewrite::{self, EXIT_CODES, Output};
use quipu_console::screen::{Outcome, Result, Screen};

/// Write a trace as one file in which all threads take turns
///
/// Threads come in the order of their clock readings. Such a file has no chunks, because who runs is not repeated in
/// them: it can be read from its beginning only, but also through a pipe.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,
    #[command(flatten)]
    flags: Flags<MergeFlags>,
    #[command(flatten)]
    output: Output,
}

/// The options of all formats whose traces can be merged.
struct MergeFlags;

impl Flagged for MergeFlags {
    fn specs() -> Vec<OptionSpec> {
        rewrite::options_of(NAME)
    }
}

/// What formats call it.
const NAME: &str = "merge";

const EXAMPLES: &str = "\
Examples:
  quipu merge trace.dir -o all.trace.gz
";

fn help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    rewrite::run(NAME, &options.input, options.flags.given(), &options.output.target(), common, screen)
}
