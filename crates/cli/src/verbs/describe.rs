//! `quipu describe`: prints the metadata of a self-describing trace.

use quipu::model::{Error, Finding};
use quipu_console::input::Stored;
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::{self, Verdict};
use serde_json::Value;
use std::io::Write;

/// Print the metadata of a self-describing trace
///
/// Prints producers, clocks, streams, schemas, types, probes and all other records that hold no data. The whole trace is read
/// and checked for errors.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,
    /// Print JSON: one object
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  quipu describe run.quipu
  quipu describe --json run.quipu

Exit codes:
  0  done
  1  done, and something is wrong with the trace
  2  the trace could not be opened, or does not describe itself";

pub(crate) fn run(options: &Options, screen: &Screen) -> Result<Outcome> {
    let source = options.input.source()?;
    let opening = options.input.opening.options();
    let format = quipu::format_of(&source, &opening)?.ok_or_else(|| {
        Error::unsupported("no known format describes itself like this").in_file(source.name())
    })?;
    let mut description = format.describe(&source, &opening)?;
    if description.findings.iter().any(Finding::is_damage)
        && let Ok(inside) = quipu::recognise(&source, &opening)
    {
        description.findings = inside.with_trace(description.findings, &opening);
    }
    if options.json {
        if let Value::Object(answer) = &mut description.json {
            session::add_reading(&description.findings, None, answer);
        }
        screen.json(&description.json)?;
    } else {
        quipu_console::terminal::stdout().write_all(description.text.as_bytes())?;
    }
    let findings = description.findings;
    Ok(Verdict { findings, meaning: "the description may lack records", ..Verdict::default() }.tell(screen))
}
