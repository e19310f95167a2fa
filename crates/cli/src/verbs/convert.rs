//! `quipu convert`: the same trace in another container.

use crate::Common;
use crate::edit::{self, EXIT_CODES, Output};
use crate::input::Input;
use crate::screen::{Outcome, Result, Screen};
use quipu::apitrace::trace::{self as api, ApiTrace};
use quipu::apitrace::write::RepackOptions;
use quipu::drmemtrace::write::{NoEdit, Sharding};
use quipu::model::Error;
use quipu::model::doc::{Block, Cell, Document};
use quipu::source::{Packing, Source};
use serde_json::json;
use std::path::Path;

/// Write a trace again: in another container, in other chunks
///
/// The entries stay as they are, but for those that only the chunks of an archive need: footers, ordinals, and what
/// each chunk repeats. The stream of a trace of graphics calls stays as it is, byte for byte. A folder gets both schedule files, made from the entries, and a copy of what lay beside the traces.
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
  quipu convert game.trace -o smaller.trace.br
  quipu convert trace.dir -o finer.dir --chunk-instrs 1M --level 9
";

fn help() -> String {
    format!("{EXAMPLES}{EXIT_CODES}")
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    if let Some(trace) = api_trace(&options.input)? {
        return repack(&trace, options, screen);
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

/// The trace of graphics calls that the input is, if it is one. A pipe is left alone: it can be looked at once.
fn api_trace(input: &Input) -> Result<Option<ApiTrace>> {
    if input.path == Path::new("-") {
        return Ok(None);
    }
    let source = Source::open(&input.path).map_err(Error::from)?;
    let is_one = quipu::probe(&source).is_some_and(|format| format.info().name == quipu::apitrace::INFO.name);
    Ok(if is_one { Some(api::open(&source, &input.opening.options())?) } else { None })
}

/// The containers of such a trace have names that are ours, and Brotli, which a name may ask for.
fn repack(trace: &ApiTrace, options: &Options, screen: &Screen) -> Result<Outcome> {
    let output = &options.output;
    output.refuse_stdout()?;
    if options.sharding.is_some() || output.chunk_instrs.is_some() {
        return Err(Error::usage("traces of graphics calls have no such files or chunks").into());
    }
    let name = output.path.to_string_lossy();
    let packing = match output.container.or_else(|| Packing::of_file_name(&name)) {
        None if name.ends_with(".br") => api::Packing::Brotli,
        None | Some(Packing::Zstd) => api::Packing::SeekableZstd,
        Some(Packing::Snappy) => api::Packing::Snappy,
        Some(Packing::Gzip) => api::Packing::Gzip,
        Some(Packing::Plain) => api::Packing::Plain,
        Some(other @ (Packing::Zip | Packing::Lz4)) => {
            return Err(Error::usage(format!("apitrace cannot read {}", other.name()))
                .hint("containers of such traces: zstd, snappy, gzip, plain; Brotli for names that end in `.br`")
                .into());
        }
    };
    let how = RepackOptions { packing, level: output.level.map(u32::from), replace: output.force };
    let written = quipu::apitrace::write::repack(trace, &output.path, &how)?;
    if output.json {
        screen.json(&json!({
            "output": output.path.display().to_string(),
            "container": packing.name(),
            "stream_bytes": written.stream_bytes,
            "packed_bytes": written.packed_bytes,
        }))?;
    } else if !screen.is_quiet() {
        let sizes = format!(
            "{} on disk, {} inflated",
            quipu_view::bytes_text(written.packed_bytes),
            quipu_view::bytes_text(written.stream_bytes)
        );
        let facts = vec![
            ("container".to_owned(), vec![Cell::Text(packing.name().to_owned())]),
            ("size".to_owned(), vec![Cell::Text(sizes)]),
        ];
        screen.documents([&Document::new(name.into_owned()).with(Block::Facts(facts))])?;
    }
    Ok(screen.findings(&written.findings))
}
