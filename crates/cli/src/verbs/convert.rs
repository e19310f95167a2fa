//! `quipu convert`: the same trace in another container.

use crate::Common;
use crate::edit::{self, EXIT_CODES, Output};
use crate::input::Input;
use crate::screen::{Outcome, Result, Screen};
use quipu::drmemtrace::write::NoEdit;

/// Write a trace again: in another container, in other chunks
///
/// The entries stay as they are, but for those that only the chunks of an archive need: footers, ordinals, and what
/// each chunk repeats. A folder gets both schedule files, made from the entries, and a copy of what lay beside the traces.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    output: Output,
}

const EXAMPLES: &str = "\
Examples:
  quipu convert trace.gz -o trace.zip
  quipu convert trace.dir -o faster.dir --container lz4
  quipu convert trace.dir -o finer.dir --chunk-instrs 1M --level 9
";

fn help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let opened = edit::open(&options.input)?;
    edit::rewrite(&options.input, &options.output, &opened, &|_| Some(NoEdit), common, screen)
}
