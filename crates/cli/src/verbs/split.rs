//! `quipu split`: one file for each thread.

use quipu::drmemtrace::write::Sharding;
use quipu_console::Common;
use quipu_console::edit::{self, EXIT_CODES, Output};
use quipu_console::input::Stored;
use quipu_console::screen::{Outcome, Result, Screen};

/// Write a trace with one file for each thread
///
/// Takes apart files in which several threads take turns, and files of cores. Threads come in the order of their clock
/// readings, so files of cores come apart exactly if threads change there at clock readings, as they do in those that
/// `quipu convert --sharding cores` writes. Encodings that a core's file lacks are taken from the others; idle time of cores
/// is left out.
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
  quipu split legacy.trace.gz -o threads.dir
  quipu split cores.dir -o threads.dir --container zip
";

fn help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let opened = edit::open(&options.input, "split")?;
    edit::reshard(&options.input, &options.output, &opened, Sharding::Threads, common, screen)
}
