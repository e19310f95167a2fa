//! `quipu merge`: all threads in one file.

use quipu::drmemtrace::write::Sharding;
use quipu_console::Common;
use quipu_console::edit::{self, EXIT_CODES, Output};
use quipu_console::input::Stored;
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
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  quipu merge trace.dir -o all.trace.gz
";

fn help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let opened = edit::open(&options.input, "merge")?;
    edit::reshard(&options.input, &options.output, &opened, Sharding::Stream, common, screen)
}
