//! `quipu convert`: the same trace in another container.

use crate::conversion;
use quipu::drmemtrace::write::{NoEdit, Sharding};
use quipu::model::{Edit, Error};
use quipu_console::Common;
use quipu_console::edit::{self, EXIT_CODES, Output};
use quipu_console::input::Stored;
use quipu_console::rewrite::{self, Recognised};
use quipu_console::screen::{Outcome, Result, Screen};

/// Write a trace again: in another container, in other chunks
///
/// The entries stay as they are, but for those that only the chunks of an archive need: footers, ordinals, and what
/// each chunk repeats, and where a later version of the format is asked for. A version is raised only where nothing has to be
/// made up: traces of version 1 do not name their architecture, and those before version 6 do not tell when system calls
/// began and ended. The stream of a trace of graphics calls stays as it is, byte for byte. A folder gets both schedule files,
/// made from the entries, and a copy of what lay beside the traces.
///
/// Files of cores hold the turns of threads as they were recorded. Kernel code of other context switches, which files of
/// threads may have, is left out of them.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,
    /// What each file is to be about; as in the source if not said
    #[arg(long, value_name = "WHAT", help_heading = "Writing")]
    sharding: Option<Files>,
    /// Version of the format: a later one than the source's, at most 7, as far as the trace tells what that needs
    #[arg(long, value_name = "N|source", value_parser = version, default_value = "source", help_heading = "Writing")]
    format_version: Version,
    #[command(flatten)]
    conversion: conversion::Conversion,
    #[command(flatten)]
    output: Output,
}

/// Version of the format to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// As it is.
    Source,
    /// Raised to this.
    Number(u64),
}

fn version(text: &str) -> std::result::Result<Version, String> {
    match text.parse() {
        Ok(number @ 2..=7) => Ok(Version::Number(number)),
        _ if text == "source" => Ok(Version::Source),
        _ => Err("expected 2 to 7, or source".to_owned()),
    }
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
  quipu convert old.dir -o new.dir --format-version 7
  quipu convert app.cacheray -o trace.zip --to drmemtrace
  quipu convert trace.zip -o app.trace --to cacheray --set dialect=be64 --lossless
  quipu convert game.trace -o smaller.trace.br
  quipu convert trace.dir -o finer.dir --chunk-instrs 1M --level 9
";

fn help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let source = options.input.source()?;
    if let Some(name) = &options.conversion.to {
        let to = conversion::format(name)?;
        let from = quipu::format_of(&source, &options.input.opening.options())?;
        if from.is_none_or(|format| format.info().name != to.info().name) {
            options.refuse_files_and_versions(to.info().name)?;
            let target = rewrite::Target::from(&options.output);
            let trace = quipu::open(&source, &options.input.opening.options())?;
            let strict = options.input.opening.strict;
            return conversion::run(&*trace, to, &options.conversion, (&target, strict), screen);
        }
    }
    if let Some((recognised, edit)) = rewrite::own(&source, &options.input.opening, "convert")? {
        return repack(&recognised, edit, options, common, screen);
    }
    let opened = edit::open_source(source, &options.input, "convert")?;
    let mut output = options.output.clone();
    if let Version::Number(number) = options.format_version {
        output.version = Some(number);
    }
    if let Some(files) = options.sharding {
        if output.version.is_some() {
            return Err(Error::usage("`--format-version` and `--sharding`: one at a time")
                .hint("raise the version first, then split what was written")
                .into());
        }
        let sharding = match files {
            Files::Threads => Sharding::Threads,
            Files::Cores => Sharding::Cores,
        };
        return edit::reshard(&options.input, &output, &opened, sharding, common, screen);
    }
    if options.input.opening.threads.is_empty() || opened.has_files_of_threads() {
        return edit::rewrite(&options.input, &output, &opened, &|_| Some(NoEdit), common, screen);
    }
    edit::rewrite_threads(&options.input, &output, &opened, (&|_| Some(NoEdit), false), common, screen)
}

/// Formats that copy their streams as they are have neither files of threads nor chunks.
fn repack(
    recognised: &Recognised,
    edit: &dyn Edit,
    options: &Options,
    common: &Common,
    screen: &Screen,
) -> Result<Outcome> {
    options.refuse_files_and_versions(recognised.format.info().name)?;
    let target = rewrite::Target::from(&options.output);
    let given = options.conversion.given();
    rewrite::run(edit, &recognised.source, &options.input.opening, &given, &target, common, screen)
}

impl Options {
    /// Refuses what only files of entries have.
    fn refuse_files_and_versions(&self, format: &str) -> Result<()> {
        let Options { output, sharding, format_version, .. } = self;
        if sharding.is_some() || output.chunk_instrs.is_some() || *format_version != Version::Source {
            let what =
                format!("traces of format {format} are written without such files, chunks or versions");
            return Err(Error::usage(what).into());
        }
        Ok(())
    }
}
