//! `quipu recover`: what can be saved of a damaged trace.

use quipu::model::OptionSpec;
use quipu_console::Common;
use quipu_console::flags::{Flagged, Flags};
use quipu_console::input::Stored;
use quipu_console::rewrite::{self, Target};
use quipu_console::screen::{Outcome, Result, Screen};

/// Write what can be saved of a damaged trace
///
/// For traces of graphics calls that were cut, have chunks that cannot be read, or were written by two processes at once,
/// as when a traced program forks. Reading continues after damage where functions are known again and the numbers of calls agree;
/// what is lost is said. A stream that is whole in itself is copied as it is, byte for byte; one with gaps is written
/// anew, with calls numbered on.
///
/// A file with several streams gives the one with most calls, unless `--stream` says which.
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

Nothing appears under the name given before all of it is written.

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
