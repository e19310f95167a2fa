//! `quipu disassemble`: a trace as text that can be edited.

use quipu::model::Given;
use quipu_console::Common;
use quipu_console::input::Stored;
use quipu_console::rewrite::{self, EXIT_CODES, Keeping, Target};
use quipu_console::screen::{Outcome, Result, Screen};
use std::path::PathBuf;

/// Write a trace as editable text, for `quipu assemble`
///
/// The text represents every byte of the decompressed trace, event by event, with the types of values. Raw memory of more
/// than a few bytes goes to files in a folder next to it, `PATH.blobs`. Assembling the unchanged text restores the same
/// stream. The grammar is in docs/formats/apitrace.md, "Text and back".
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,
    /// Output text
    #[arg(short, long, value_name = "PATH", help_heading = "Writing")]
    output: PathBuf,
    /// Overwrite an existing text and its folder of raw memory
    #[arg(long, help_heading = "Writing")]
    force: bool,
    #[command(flatten)]
    keeping: Keeping,
    /// Print a summary as JSON
    #[arg(long, help_heading = "Writing")]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  quipu disassemble game.trace -o game.txt
  quipu assemble game.txt -o edited.trace
";

/// The end of the help text.
fn after_help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let target = Target {
        path: options.output.clone(),
        force: options.force,
        container: None,
        level: None,
        json: options.json,
        damaged: options.keeping.into(),
    };
    rewrite::run("disassemble", &options.input, &Given::default(), &target, common, screen)
}
