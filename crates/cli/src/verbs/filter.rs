//! `quipu filter`: a trace without some of its records.

use quipu::model::OptionSpec;
use quipu_console::Common;
use quipu_console::flags::{Flagged, Flags};
use quipu_console::input::Stored;
use quipu_console::rewrite::{self, EXIT_CODES, Output};
use quipu_console::screen::{Outcome, Result, Screen};

/// Remove some of the records of a trace
///
/// With several options, a record is removed if any of them removes it. The encoding of a removed instruction is moved to the
/// next one at its address, and the file type says what is missing.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,
    #[command(flatten)]
    flags: Flags<FilterFlags>,
    #[command(flatten)]
    output: Output,
}

/// Options of all formats whose traces can be filtered.
struct FilterFlags;

impl Flagged for FilterFlags {
    fn specs() -> Vec<OptionSpec> {
        rewrite::options_of(NAME)
    }
}

/// Name of the transform in each format.
const NAME: &str = "filter";

const EXAMPLES: &str = "\
Examples:
  quipu filter --cache 32Ki trace.dir -o misses.dir
  quipu filter --drop prefetch --drop-marker func_id,func_arg,func_retval trace.zip -o less.zip
  quipu filter --regdeps trace.dir -o public.dir
";

fn help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    rewrite::run(NAME, &options.input, options.flags.given(), &options.output.target(), common, screen)
}
