//! `quipu diff`: compares two traces.

use quipu::model::Error;
use quipu::model::OptionSpec;
use quipu::model::damaged::Reading;
use quipu::model::transform::CompareJob;
use quipu_console::comparison::{COMPARED, SIDES, tell};
use quipu_console::flags::{self, Flagged, Flags};
use quipu_console::input::Opening;
use quipu_console::rewrite::{self, Answer, Watched};
use quipu_console::screen::{Outcome, Result, Screen, Stop};
use quipu_console::session;
use serde_json::{Map, Value};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Compare two traces and print the differences
///
/// Calls of the whole traces are aligned and compared value by value. Addresses and object names that first appear in the
/// same place are considered the same, so two runs of one program are equal unless they did different things; NaN equals
/// itself. `-` marks a call that only the old trace has, `+` one that only the new trace has, `|` one that changed. In
/// streams of rows, records are compared stream by stream, by schema and text. Memory: 8 bytes for each call or record of
/// both traces, and some for each difference and each address.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Old trace; `-` for standard input
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// New trace; `-` for standard input
    #[arg(value_name = "NEW")]
    new: PathBuf,
    #[command(flatten)]
    opening: Opening,
    /// Print JSON, one object per line: each difference, a summary, and the outcome of reading each trace
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    flags: Flags<DiffOptions>,
}

/// Options of all formats whose traces can be compared.
struct DiffOptions;

impl Flagged for DiffOptions {
    fn specs() -> Vec<OptionSpec> {
        let comparisons = quipu::FORMATS.iter().filter_map(|format| format.comparison());
        flags::union(comparisons.map(|comparison| comparison.info().options))
    }
}

const AFTER_HELP: &str = "\
Examples:
  quipu diff before.trace after.trace
  quipu diff --json --calls 0-5000 before.trace after.trace
  quipu diff --ignore '^glGet' --names exact before.trace after.trace

Exit codes:
  0  nothing differs
  1  something differs, or a trace is damaged
  2  could not do it, or a newer quipu is needed to read on";

pub(crate) fn run(options: &Options, screen: &Screen) -> Result<Outcome> {
    if options.old == options.new && options.old == Path::new("-") {
        return Err(Error::usage("standard input is one trace, and two are compared").into());
    }
    let old = rewrite::recognise(&options.old, &options.opening)?.spooled()?;
    let new = rewrite::recognise(&options.new, &options.opening)?.spooled()?;
    let Some(comparison) = old.format.comparison() else {
        return Err(rewrite::without(old.format, "diff", |format| format.comparison().is_some()).into());
    };
    let names = [old.format, new.format].map(|format| format.info().name);
    if names[0] != names[1] {
        let what = format!("the old trace is of format {}, the new one of format {}", names[0], names[1]);
        let error = Error::usage(what).hint("traces of one format can be compared");
        let opening = options.opening.options();
        let found = [&old, &new].map(|trace| trace.open(&opening).map(|trace| trace.meta().findings.clone()));
        let found = found.into_iter().flatten().flatten().collect::<Vec<_>>();
        return Err(session::not_for(error, &found));
    }
    let opening = options.opening.options();
    let job = CompareJob {
        old: &old.source,
        new: &new.source,
        opening: &opening,
        options: &comparison.info().parse(names[0], options.flags.given())?,
        paint: screen.paint(),
        json: options.json,
    };
    let mut answer = Answer::new(BufWriter::new(quipu_console::terminal::stdout()));
    let compared = session::watched(screen, |watch| comparison.run(&job, &Watched(watch), &mut answer));
    let mut compared = match answer.judge(compared) {
        Err(Stop::Fault(error) | Stop::Damage(error, _)) => {
            return Err(Stop::of_reading(error, "nothing was compared"));
        }
        compared => compared?,
    };
    for (reading, recognised) in compared.readings.iter_mut().zip([&old, &new]) {
        let more = recognised.beside(&reading.findings, reading.error.as_deref());
        reading.findings.splice(0..0, more);
    }
    if options.json {
        let lines = SIDES.iter().zip([&options.old, &options.new]).zip(&compared.readings);
        let lines = lines.map(|((side, path), reading)| reading_json(side, path, reading));
        screen.text(&lines.map(|line| format!("{line}\n")).collect::<String>())?;
    }
    // If parts are missing, equality of the parts that were read does not make the traces equal.
    let told = tell(compared.readings, COMPARED, screen);
    Ok(if compared.is_same { told } else { told.and(Outcome::Flawed) })
}

/// The outcome of reading one of the traces. Keys: `op` (`reading`), `trace` (`old` or `new`), `path`, `complete`, `error`,
/// `findings`, `lost`.
fn reading_json(side: &str, path: &Path, reading: &Reading) -> Value {
    let mut line = Map::new();
    line.insert("op".into(), "reading".into());
    line.insert("trace".into(), side.into());
    line.insert("path".into(), path.display().to_string().into());
    line.insert("complete".into(), reading.error.is_none().into());
    session::add_reading(&reading.findings, reading.error.as_deref(), &mut line);
    line.into()
}
