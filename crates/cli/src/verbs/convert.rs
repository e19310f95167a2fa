//! `quipu convert`: the same trace in another container, or records in another format.

use crate::captured;
use crate::conversion;
use crate::recording;
use quipu::engine::InTime;
use quipu::model::transform::TransformJob;
use quipu::model::{Damaged, Error, Format, Given, OptionSpec, Trace, Transform};
use quipu_capture::tsan::MADE;
use quipu_console::flags::{Flagged, Flags};
use quipu_console::input::{Opening, Stored};
use quipu_console::rewrite::{self, Answer, EXIT_CODES, Output, Target, Watched};
use quipu_console::screen::{Outcome, Result, Screen, Stop};
use quipu_console::{Common, session, terminal};
use quipu_query::Form;
use quipu_query::export::{self, Export};
use std::path::Path;
use std::sync::Arc;

/// Rewrite a trace: another container, other chunks, another format
///
/// The entries stay the same, except those that only the chunks of an archive need (footers, ordinals, and what each chunk
/// repeats), and except for `--format-version`. A version is raised only if no information has to be invented: traces of
/// version 1 do not name their architecture, and those before version 6 do not record when system calls began and ended. The
/// stream of a trace of graphics calls is copied byte for byte. A folder gets both schedule files, made from the entries, and
/// a copy of the files next to the traces.
///
/// From the recording of a program that was compiled with `quipu cc`, `--to cacheray` makes a trace with types, taken from
/// debug information and from the program itself. The recording holds more: program counters, calls, locks, threads.
///
/// A folder whose name ends in .parquet gets every table and lens of the trace, one file per shard, for DuckDB, pandas, Spark
/// and other readers of Parquet. A name that ends in .arrow or .arrows gets one table as an Arrow file or stream, and `-`
/// writes such a stream to a pipe.
///
/// Files of cores hold the turns of threads as they were recorded, without the kernel code of other context switches that
/// files of threads may have.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,
    #[command(flatten)]
    flags: Flags<ConvertFlags>,
    #[command(flatten)]
    conversion: conversion::Conversion,
    /// Map the names of sources that were moved since a recorded program was compiled (--to cacheray): old prefix and new
    /// prefix
    #[arg(long, value_name = "FROM=TO", help_heading = "Conversion")]
    source_map: Vec<String>,
    #[command(flatten)]
    output: Output,
}

/// Options of all formats whose traces can be rewritten.
struct ConvertFlags;

impl Flagged for ConvertFlags {
    fn specs() -> Vec<OptionSpec> {
        let mut specs = rewrite::options_of(NAME);
        specs.extend_from_slice(&export::OPTIONS);
        specs
    }
}

/// Name of the transform in each format.
const NAME: &str = "convert";

const EXAMPLES: &str = "\
Examples:
  quipu convert trace.gz -o trace.zip
  quipu convert trace.dir -o faster.dir --container lz4
  quipu convert trace.dir -o cores.dir --sharding cores
  quipu convert old.dir -o new.dir --format-version 7
  quipu convert game.trace -o smaller.trace.br
  quipu convert trace.dir -o trace.quipu
  quipu convert trace.dir -o tables.parquet
  quipu convert trace.dir -o rows.parquet --table lens.accesses,memrefs --interop spark
  quipu convert trace.dir -o writes.parquet --table lens.accesses --where \"kind = 'write'\"
  quipu convert trace.dir -o - --table lens.accesses | python3 count.py
  quipu convert trace.dir -o finer.dir --chunk-instrs 1M --level 9
";

fn help() -> String {
    let mut help = EXAMPLES.to_owned();
    help.push_str(&format!("  quipu convert prog.quipu -o prog.trace --to {MADE}\n"));
    for format in quipu::FORMATS.iter().filter(|format| format.record_writer().is_some()) {
        let info = format.info();
        let ending = info.extensions.first().unwrap_or(&"trace");
        help.push_str(&format!(
            "  quipu convert other.trace -o records.{ending} --to {} --lossless\n",
            info.name
        ));
    }
    help + EXIT_CODES
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let (input, target) = (&options.input, options.output.target());
    let mut given = options.flags.given().clone();
    if options.conversion.to.is_none() && options.conversion.given().is_empty() {
        if target.path == Path::new("-") {
            return into_pipe(input, &given, &target, common, screen);
        }
        if let Some(form) = export::form_of_name(&target.path) {
            let export = Export { open: quipu::open, form };
            // A carrier is opened together with its trace: a fault in the carrier is also a fault of the rows.
            let source = input.source()?.spooled().map_err(Error::from)?;
            let opening = &input.opening;
            let format = quipu::recognise(&source, &opening.options())?.format;
            let parsed = export.info().parse(format.info().name, &given)?;
            return rewrite::done(rewrite::make(&export, &source, opening, &parsed, &target, common, screen));
        }
    }
    rewrite::refuse_stdout(&target)?;
    let recognised = rewrite::recognise(&input.path, &input.opening)?;
    let to = match &options.conversion.to {
        Some(name) => Some(conversion::format(name)?),
        None => conversion::format_of_name(&target.path),
    };
    let to = to.filter(|to| recognised.format.info().name != to.info().name);
    let source_map = recording::source_map(&options.source_map)?;
    let (set, opening) = divided(options.conversion.given(), &input.opening, recognised.format, to);
    let opening = &opening;
    given.extend(set);
    if let Some(to) = to {
        // A recording has more than lenses have columns for: the types of allocations. Further requests, such as a lossless
        // conversion, concern lenses.
        let is_plain = given.is_empty() && !options.conversion.is_lossless();
        let is_recording = is_plain && input.opening.format.is_none() && captured::is_capture(&input.path);
        if is_recording && to.info().name == MADE && !quipu::is_stream_name(&target.path) {
            return recording::make(&input.path, &target, &source_map, screen);
        }
        refuse_source_map(&source_map)?;
        let trace = recognised.open(&opening.options())?;
        let how = (&target, opening, common);
        return conversion::run(&*trace, to, None, &options.conversion, &given, how, screen);
    }
    refuse_source_map(&source_map)?;
    rewrite::done(rewrite::of_recognised(NAME, recognised, opening, &given, &target, common, screen))
}

/// # Errors
/// `Usage` if sources are mapped for a trace whose types do not come from sources.
fn refuse_source_map(source_map: &[(String, String)]) -> Result<()> {
    if source_map.is_empty() {
        return Ok(());
    }
    Err(Error::usage(format!(
        "`--source-map` is for recordings of programs of `quipu cc` that become traces of format {MADE}"
    ))
    .hint(format!("`quipu convert PROG.quipu -o PROG.trace --to {MADE} --source-map FROM=TO`"))
    .into())
}

/// Writes a table to standard output as a stream of Arrow while reading it; messages go to standard error.
fn into_pipe(
    input: &Stored,
    given: &Given,
    target: &Target,
    common: &Common,
    screen: &Screen,
) -> Result<Outcome> {
    let export = Export { open: quipu::open, form: Form::Stream };
    let recognised = rewrite::recognise(&input.path, &input.opening)?.spooled()?;
    let parsed = export.info().parse(recognised.format.info().name, given)?;
    let opening = input.opening.options();
    let trace: Arc<dyn Trace> = Arc::from(recognised.open(&opening)?);
    let mut answer = Answer::new(terminal::stdout());
    let written = session::watched(screen, |watch| {
        let job = TransformJob {
            source: &recognised.source,
            opening: &opening,
            options: &parsed,
            output: Path::new("-"),
            replace: false,
            container: target.container.as_deref(),
            level: target.level,
            // Output to a pipe cannot be undone, so, as with printed rows, the message says from which row on it is
            // doubtful.
            damaged: Damaged::Keep,
            strict: input.opening.strict,
            threads: common.threads.map_or(0, usize::from),
            sequence: &InTime(watch),
        };
        export::into_pipe(trace, &job, &Watched(watch), &mut answer)
    });
    let written = match answer.judge(written) {
        Err(Stop::Fault(error) | Stop::Damage(error, _)) => {
            return Err(Stop::of_reading(error, "printing stopped there"));
        }
        written => written?,
    };
    // Standard output is in use, even if JSON is requested.
    rewrite::tell(written, Path::new(""), target.json, &screen.beside(Path::new("")))
}

/// Divides the options of `--set` between the writer and the reader. An option that only the trace's own format has is for
/// reading, like `--open`.
fn divided(
    set: Given,
    opening: &Opening,
    from: &dyn Format,
    to: Option<&'static dyn Format>,
) -> (Given, Opening) {
    let mut opening = opening.clone();
    let writes: &[OptionSpec] = match to {
        Some(to) => to.record_writer().map_or(&[], |writer| writer.info().options),
        None => {
            let own = from.transforms().iter().find(|transform| transform.info().name == NAME);
            own.map_or(&[], |transform| transform.info().options)
        }
    };
    let has = |options: &[OptionSpec], name: &str| options.iter().any(|option| option.name == name);
    let (read, written): (Vec<_>, Vec<_>) =
        set.into_iter().partition(|(name, _)| has(from.info().options, name) && !has(writes, name));
    opening.given.extend(read);
    (written.into_iter().collect(), opening)
}
