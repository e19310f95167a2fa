//! `quipu info`: descriptions of traces, with a quick read of the whole trace where headers contain little.

use crate::about;
use crate::captured::{self, is_capture};
use crate::summary::{self, Summary};
use quipu::model::pass::Detail;
use quipu::model::trace::{Surveyed, surveyed};
use quipu::model::{Error, Found};
use quipu_console::input::{self, Arranging, Opening, check_threads};
use quipu_console::parts::CsvOption;
use quipu_console::screen::{Outcome, Result, Screen, Stop};
use quipu_console::session::{self, Verdict};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Say what traces are
///
/// Reads their headers; and all of a trace whose header tells little of it, such as one of graphics calls, or of a
/// recording that an instrumented program left, or that proves damaged when it is opened: to say what is lost. Of a stream, all
/// frames are read.
///
/// Where headers are enough, compressed bodies are not inflated, so that damage within them goes unnoticed here; `quipu check`
/// reads everything.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, mut_arg("csv", |csv| csv.help(CSV_HELP)))]
pub(crate) struct Options {
    /// Files, folders, or `-` for standard input
    #[arg(value_name = "TRACE", default_value = "-", hide_default_value = true)]
    paths: Vec<PathBuf>,
    /// Print JSON: one object, or a list for several traces and with --summary
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    csv: CsvOption,
    /// Print a line for each trace: format, number of records, threads and findings. Reads the traces, unless --quick
    #[arg(long)]
    summary: bool,
    /// Read headers only
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    opening: Opening,
    #[command(flatten)]
    arranging: Arranging,
}

const CSV_HELP: &str = "Print comma-separated values: the lines of --summary";

const AFTER_HELP: &str = "\
Examples:
  quipu info trace.zip
  quipu info --json traces/*.zip
  quipu info --summary traces/*.zip
  quipu info --columns trace,records,threads traces/*.zip

Exit codes:
  0  done
  1  done, and something is wrong with a trace, or nothing of it can be read, or the run was interrupted
  2  a trace could not be opened";

/// Describes each trace. An error with one trace does not prevent the descriptions of the others.
pub(crate) fn run(options: &Options, screen: &Screen) -> Result<Outcome> {
    if options.summary || options.csv.is_wanted() {
        let form = summary::Form { json: options.json, csv: &options.csv };
        return summary::print(&options.paths, form, screen, &|path| summarise(path, options, screen));
    }
    let mut outcome = Outcome::Fine;
    let mut fault = None;
    let (mut documents, mut values, mut verdicts) = (Vec::new(), Vec::new(), Vec::new());
    for path in &options.paths {
        let is_plain = options.opening.format.is_none() && !options.arranging.is_part();
        if is_plain && is_capture(path) {
            let info = captured::info(path, options.quick)?;
            verdicts.push(Verdict { findings: info.findings, ..Verdict::default() });
            documents.push(info.document);
            values.push(info.value);
            continue;
        }
        let opened = options.arranging.open(path, &options.opening, None).and_then(|trace| {
            check_threads(&*trace, &options.opening.threads)?;
            Ok(trace)
        });
        match opened {
            Ok(trace) => {
                let name = input::name(path);
                let (surveyed, is_cancelled) = match options.quick {
                    true => (Surveyed::default(), false),
                    false => session::watched(screen, |watch| {
                        (surveyed(&*trace, &|| watch.is_cancelled()), watch.is_cancelled())
                    }),
                };
                let Surveyed { facts, findings, error } = surveyed;
                let mut found = Found::default();
                findings.into_iter().for_each(|finding| found.push(finding));
                let verdict = Verdict::new(&*trace, found, error, is_cancelled);
                if options.json {
                    let mut value = about::json_with(&name, &*trace, &facts);
                    if let Value::Object(value) = &mut value {
                        session::add_reading(&verdict.findings, verdict.error.as_deref(), value);
                    }
                    values.push(value);
                } else {
                    documents.push(about::document_with(&name, &*trace, Detail::Full, &facts));
                }
                verdicts.push(verdict);
                if is_cancelled {
                    break;
                }
            }
            Err(Stop::Fault(error)) => {
                // All errors except the last are printed here; the verb returns the last one.
                if let Some(error) = fault.replace(error) {
                    screen.complain(&error);
                }
            }
            Err(Stop::Damage(error, _)) => {
                // If nothing can be read, the error is its description.
                let mut value = Map::from_iter([("trace".to_owned(), input::name(path).into())]);
                session::add_undone(&error, &mut value);
                values.push(value.into());
                let error = Some(Arc::new(error));
                verdicts.push(Verdict { error, meaning: "nothing is described", ..Verdict::default() });
            }
            Err(stop) => return Err(stop),
        }
    }
    verdicts.iter().for_each(|verdict| verdict.say_lost(screen));
    if !options.json {
        screen.documents(&documents)?;
    } else if let ([value], [_]) = (values.as_slice(), options.paths.as_slice()) {
        screen.json(value)?;
    } else {
        screen.json(&values.into())?;
    }
    for verdict in verdicts {
        outcome = outcome.and(verdict.tell(screen));
    }
    match fault {
        Some(error) => Err(Stop::Fault(error)),
        None => Ok(outcome),
    }
}

/// Describes a trace in one line of a summary.
fn summarise(path: &Path, options: &Options, screen: &Screen) -> Result<(Summary, Outcome)> {
    let source = input::source(path)?;
    // The survey reads again what was read to count records.
    let source = if options.quick { source } else { source.spooled().map_err(Error::from)? };
    let trace = options.arranging.open_source(&source, &options.opening, None)?;
    check_threads(&*trace, &options.opening.threads)?;
    let name = input::name(path);
    if !options.quick {
        return Ok(summary::read(&*trace, name, screen));
    }
    let verdict = Verdict::new(&*trace, Found::default(), None, false);
    let mut summary = Summary::of(name, &*trace);
    summary.add(&verdict.findings);
    Ok((summary, summary::outcome(&verdict)))
}
