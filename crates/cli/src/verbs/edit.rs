//! `quipu edit`: a trace with some values replaced.

use quipu::model::OptionSpec;
use quipu_console::Common;
use quipu_console::flags::{Flagged, Flags};
use quipu_console::input::Stored;
use quipu_console::rewrite::{self, EXIT_CODES, Output};
use quipu_console::screen::{Outcome, Result, Screen};

/// Replace values in a trace: strings, names, flags, addresses, numbers
///
/// Each `--replace s/A/B/` replaces values that equal A as a whole: strings, names of enumerations and flags, and addresses
/// (`0x…`). `/` may be any character, and either side may be `@file(PATH)` for the contents of a file. If `--arg` names
/// arguments, plain numbers are replaced too. `--set ARG=VALUE` sets values whatever they were. Raw memory is not changed;
/// use `quipu disassemble` for that. All calls are written, numbered in the order of their completion.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,
    #[command(flatten)]
    flags: Flags<EditFlags>,
    #[command(flatten)]
    output: Output,
}

/// Options of all formats whose traces can be edited.
struct EditFlags;

impl Flagged for EditFlags {
    fn specs() -> Vec<OptionSpec> {
        rewrite::options_of(NAME)
    }
}

/// Name of the transform in each format.
const NAME: &str = "edit";

const EXAMPLES: &str = "\
Examples:
  quipu edit -e s/GL_TRIANGLES/GL_POINTS/ --calls 0-100 game.trace -o points.trace
  quipu edit -r -e 's/#version 1[0-9]+/#version 330/' --arg string game.trace -o newer.trace
  quipu edit --set swap_interval=0 --function SwapInterval game.trace -o fast.trace
";

/// The end of the help text.
fn after_help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    rewrite::run(NAME, &options.input, options.flags.given(), &options.output.target(), common, screen)
}
