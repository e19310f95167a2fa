//! `quipu run`: events through back ends, each of which writes files, and through tools of users.

use crate::conversion::{self, Conversion};
use quipu::model::{Error, OptionSpec};
use quipu_console::Common;
use quipu_console::flags::{Flagged, Flags};
use quipu_console::input::Stored;
use quipu_console::rewrite::{self, EXIT_CODES, Output};
use quipu_console::screen::{Outcome, Result, Screen};
use std::path::{Path, PathBuf};

/// Run back ends over the events of a trace
///
/// Writes a folder with the files of the back end; with several back ends, each has a folder of its own in it. Workload events
/// are taken as they are. Those of other traces are made of their records: instructions with what they compute, loads and
/// stores, branches, calls of thread libraries; what has no event is listed.
///
/// A tool of your own is a library that takes the events (docs/hooks.md). It prints its results, and needs `--output` only if it
/// writes files.
#[derive(Debug, clap::Args)]
#[command(after_help = help(), mut_arg("output", optional))]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,
    #[command(flatten)]
    flags: Flags<RunFlags>,
    #[command(flatten)]
    output: Output,
}

/// The options of all formats whose traces can be run.
struct RunFlags;

impl Flagged for RunFlags {
    fn specs() -> Vec<OptionSpec> {
        rewrite::options_of(NAME)
    }
}

/// What formats call it.
const NAME: &str = "run";

const EXAMPLES: &str = "\
Examples:
  quipu run --backend stgen events.quipu -o traces.dir
  quipu run --backend stgen,c=10,l=textv2 trace.dir -o traces.dir
  quipu run --backend simplecount --backend sigilclassic events.quipu -o results.dir
  quipu run --tool target/release/libmine.so trace.dir
";

fn help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

/// What tools print needs no folder.
fn optional(output: clap::Arg) -> clap::Arg {
    let help = "The folder to write; if not said, tools print their results and write no files";
    output.required(false).default_value("-").hide_default_value(true).help(help)
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let (input, mut target, given) = (&options.input, options.output.target(), options.flags.given());
    if target.path == Path::new("-") {
        target.path = PathBuf::new();
    }
    let recognised = rewrite::recognise(&input.path, &input.opening)?;
    if recognised.format.transforms().iter().any(|transform| transform.info().name == NAME) {
        let made = rewrite::of_recognised(NAME, recognised, &input.opening, given, &target, common, screen);
        return rewrite::done(made);
    }
    let mut all = quipu::FORMATS.iter().copied().filter_map(|format| Some((format, format.runner()?)));
    let (to, runner) = all.next().ok_or_else(|| Error::unsupported("no format has back ends"))?;
    let trace = quipu::open(&recognised.source, &input.opening.options())?;
    let how = (&target, &input.opening, common);
    conversion::run(&*trace, to, Some(runner), &Conversion::default(), given, how, screen)
}
