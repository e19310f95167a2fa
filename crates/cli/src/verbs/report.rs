//! `quipu report`: what is in a trace, on one screen.

use crate::Common;
use crate::about;
use crate::input::Input;
use crate::screen::{Outcome, Result, Screen};
use crate::session::{self, Extent, Verdict};
use quipu::engine::{Planned, plan};
use quipu::model::doc::Document;
use quipu::model::pass::Detail;
use quipu::model::{Args, ErrorKind, Trace, Window};
use serde_json::{Map, Value};

/// Say what is in a trace, on one screen
///
/// What it is and what it carries, its threads and their schedule, what kinds of instructions it executes, how its
/// branches go, how much memory it touches over time, and where it is hot. All of it in one read of the trace.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,
    /// Print JSON: one object, with each analysis under its name in `results`
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  quipu report trace.zip
  quipu report --json trace.dir | jq .results.counts
  zcat trace.gz | quipu report

Exit codes:
  0  done
  1  done, and something is wrong with the trace, or the run was interrupted
  2  could not read it";

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let trace = options.input.open_to_analyse()?;
    let planned = plan_report(&*trace, common, screen)?;
    let names: Vec<&str> = planned.iter().map(|planned| planned.info.name).collect();
    let extent = Extent { window: Window::All, strict: options.input.opening.strict };
    let outcome = session::analyse(&*trace, planned, &extent, common, screen)?;
    let verdict = Verdict::new(&*trace, outcome.findings, outcome.error, outcome.cancelled);
    if options.json {
        let results: Map<String, Value> = names
            .iter()
            .zip(&outcome.reports)
            .map(|(name, report)| ((*name).to_owned(), report.json()))
            .collect();
        let mut answer = Map::new();
        answer.insert("about".into(), about::json(&options.input.name(), &*trace));
        answer.insert("results".into(), results.into());
        verdict.add_to(&mut answer);
        screen.json(&answer.into())?;
    } else {
        let about = about::document(&options.input.name(), &*trace, Detail::Brief);
        let results = outcome.reports.iter().map(|report| report.document(Detail::Brief));
        let documents: Vec<Document> =
            std::iter::once(about).chain(results.filter(|document| !document.blocks.is_empty())).collect();
        screen.documents(&documents)?;
    }
    Ok(verdict.tell(screen))
}

/// All analyses that belong into a report and that this trace can be given to.
fn plan_report(trace: &dyn Trace, common: &Common, screen: &Screen) -> Result<Vec<Planned>> {
    let mut planned = Vec::new();
    for tool in quipu::tools_of(trace.meta().format).filter(|tool| tool.info().in_report) {
        match plan(tool, &Args::default(), trace) {
            Ok(ready) => planned.push(ready),
            Err(error) if matches!(error.kind(), ErrorKind::Missing | ErrorKind::Unsupported) => {
                if common.verbose {
                    screen.say(format_args!("left out: {error}"));
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(planned)
}
