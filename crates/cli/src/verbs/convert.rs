//! `quipu convert`: the same trace in another container.

use crate::Common;
use crate::edit::{self, EXIT_CODES, Output};
use crate::input::Input;
use crate::screen::{Outcome, Result, Screen};
use quipu::drmemtrace::write::{NoEdit, Sharding};

/// Write a trace again: in another container, in other chunks
///
/// The entries stay as they are, but for those that only the chunks of an archive need: footers, ordinals, and what
/// each chunk repeats. A folder gets both schedule files, made from the entries, and a copy of what lay beside the traces.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,
    /// What each file is to be about; as in the source if not said
    #[arg(long, value_name = "WHAT", help_heading = "Writing")]
    sharding: Option<Files>,
    #[command(flatten)]
    output: Output,
}

/// What a file is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Files {
    /// One thread
    Threads,
    /// One core, on which threads take turns as they were recorded
    Cores,
}

const EXAMPLES: &str = "\
Examples:
  quipu convert trace.gz -o trace.zip
  quipu convert trace.dir -o faster.dir --container lz4
  quipu convert trace.dir -o cores.dir --sharding cores
  quipu convert trace.dir -o finer.dir --chunk-instrs 1M --level 9
";

fn help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let opened = edit::open(&options.input)?;
    if let Some(files) = options.sharding {
        let sharding = match files {
            Files::Threads => Sharding::Threads,
            Files::Cores => Sharding::Cores,
        };
        return edit::reshard(&options.input, &options.output, &opened, sharding, common, screen);
    }
    edit::rewrite(&options.input, &options.output, &opened, &|_| Some(NoEdit), common, screen)
}
