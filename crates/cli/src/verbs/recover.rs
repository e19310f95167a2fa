//! `quipu recover`: writes the readable part of a damaged trace.

use quipu::model::OptionSpec;
use quipu_console::Common;
use quipu_console::flags::{Flagged, Flags};
use quipu_console::input::Stored;
use quipu_console::rewrite::{self, Target};
use quipu_console::screen::{Outcome, Result, Screen};

/// Recover the readable part of a damaged trace
///
/// For traces of graphics calls that are truncated, have unreadable chunks, or were written by two processes at once, as when
/// a traced program forks. Reading resumes after damage where functions are known again and call numbers agree; losses are
/// reported. A complete stream is copied byte for byte; one with gaps is rewritten with consecutive call numbers.
///
/// From a file with several streams, the one with most calls is recovered, unless `--stream` selects another.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,
    #[command(flatten)]
    flags: Flags<RecoverFlags>,
    #[command(flatten)]
    target: Target,
}

/// Options of all formats whose traces can be recovered.
struct RecoverFlags;

impl Flagged for RecoverFlags {
    fn specs() -> Vec<OptionSpec> {
        rewrite::options_of(NAME)
    }
}

/// Name of the transform in each format.
const NAME: &str = "recover";

const AFTER_HELP: &str = "\
Examples:
  quipu recover broken.trace -o saved.trace
  quipu recover --stream 0 forked.trace -o child.trace

The output appears under its name only when it is complete.

Exit codes:
  0  done, and nothing was wrong with the trace
  1  done, and something is lost
  2  could not do it; nothing was written";

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let (input, given, target) = (&options.input, options.flags.given(), &options.target);
    rewrite::refuse_stdout(target)?;
    let recognised = rewrite::recognise(&input.path, &input.opening)?;
    rewrite::of_recognised(NAME, recognised, &input.opening, given, target, common, screen)
}
