//! `quipu convert`: the same trace in another container.

use crate::Common;
use crate::edit::{self, EXIT_CODES, Output};
use crate::input::Input;
use crate::rewrite::{self, Recognised};
use crate::screen::{Outcome, Result, Screen};
use quipu::drmemtrace::write::{NoEdit, Sharding};
use quipu::model::edit::Settings;
use quipu::model::{Edit, Error};

/// Write a trace again: in another container, in other chunks
///
/// The entries stay as they are, but for those that only the chunks of an archive need: footers, ordinals, and what
/// each chunk repeats. The stream of a trace of graphics calls stays as it is, byte for byte. A folder gets both schedule files, made from the entries, and a copy of what lay beside the traces.
///
/// Files of cores hold the turns of threads as they were recorded. Kernel code of other context switches, which files of
/// threads may have, is left out of them.
#[derive(Debug, clap::Args)]
#[command(after_help = help(), mut_arg("order", |arg| arg.hide(true)),
          mut_arg("sched", |arg| arg.hide(true)))]
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
  quipu convert game.trace -o smaller.trace.br
  quipu convert trace.dir -o finer.dir --chunk-instrs 1M --level 9
";

fn help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    if let Some((recognised, edit)) = rewrite::own(&options.input, "convert")? {
        return repack(&recognised, edit, options, common, screen);
    }
    let opened = edit::open(&options.input)?;
    if let Some(files) = options.sharding {
        let sharding = match files {
            Files::Threads => Sharding::Threads,
            Files::Cores => Sharding::Cores,
        };
        return edit::reshard(&options.input, &options.output, &opened, sharding, common, screen);
    }
    if options.input.opening.threads.is_empty() || opened.has_files_of_threads() {
        return edit::rewrite(&options.input, &options.output, &opened, &|_| Some(NoEdit), common, screen);
    }
    edit::rewrite_threads(
        &options.input,
        &options.output,
        &opened,
        (&|_| Some(NoEdit), false),
        common,
        screen,
    )
}

/// Formats that copy their streams as they are have neither files of threads nor chunks.
fn repack(
    recognised: &Recognised,
    edit: &dyn Edit,
    options: &Options,
    common: &Common,
    screen: &Screen,
) -> Result<Outcome> {
    let Options { input, output, sharding } = options;
    if sharding.is_some() || output.chunk_instrs.is_some() {
        let format = recognised.format.info().name;
        return Err(Error::usage(format!("traces of format {format} have no such files or chunks")).into());
    }
    let target = rewrite::Target::from(output);
    rewrite::run(edit, &recognised.source, &input.opening, &Settings::default(), &target, common, screen)
}
