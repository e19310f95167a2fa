//! `quipu report`: what is in a trace, on one screen or as a page for a browser.

use crate::Common;
use crate::about;
use crate::input::Input;
use crate::page::{self, PageOptions};
use crate::screen::{Outcome, Result, Screen};
use crate::session::{self, Verdict};
use quipu::engine::{Planned, plan};
use quipu::model::doc::Document;
use quipu::model::pass::Detail;
use quipu::model::{Args, ErrorKind, Report, Tool, Trace, Window};
use serde_json::{Map, Value};

/// Say what is in a trace, on one screen
///
/// What it is and what it carries, its threads and their schedule, what kinds of instructions it executes, how its
/// branches go, how much memory it touches over time, and where it is hot. All of it in one read of the trace.
///
/// With `--html` the same goes to a page for a browser, in full and with charts: the schedule, memory in use, a heat map
/// of addresses over time, reuse distances, tables that sort. The page is one file that needs no network.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,
    /// Print JSON: one object, with each analysis under its name in `results`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    page: PageOptions,
}

const AFTER_HELP: &str = "\
Examples:
  quipu report trace.zip
  quipu report --html trace.html trace.zip
  quipu report --json trace.dir | jq .results.counts
  zcat trace.gz | quipu report

Exit codes:
  0  done
  1  done, and something is wrong with the trace, or the run was interrupted
  2  could not read it";

/// Analyses that a page shows and a screen does not: they take longer, or are nothing without a drawing.
const ONLY_ON_PAGES: &[&str] = &["heatmap", "reuse-distance"];

/// Rows of lists of the largest, where there is room for them.
const ROWS_ON_PAGES: &str = "100";

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    options.page.check(options.json)?;
    let trace = options.input.open()?;
    let planned = plan_report(&*trace, options.page.is_wanted(), common, screen)?;
    let names: Vec<&str> = planned.iter().map(|planned| planned.info.name).collect();
    let extent = options.input.extent(Window::All);
    let outcome = session::analyse(&*trace, planned, &extent, common, screen)?;
    let verdict = Verdict::new(&*trace, outcome.findings, outcome.error, outcome.cancelled);
    if let Some(path) = &options.page.html {
        let documents = page_documents(&*trace, &outcome.reports, &verdict);
        page::write(path, &options.input, &*trace, &documents, screen)?;
    }
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
    } else if !options.page.is_wanted() {
        let about = about::document(&options.input.name(), &*trace, Detail::Brief);
        let results = outcome.reports.iter().map(|report| report.document(Detail::Brief));
        let documents: Vec<Document> =
            std::iter::once(about).chain(results.filter(|document| !document.blocks.is_empty())).collect();
        screen.documents(&documents)?;
    }
    Ok(verdict.tell(screen))
}

/// The sections of a page: the numbers that say most, what the trace is, what is wrong with it, and each analysis in full.
fn page_documents(trace: &dyn Trace, reports: &[Box<dyn Report>], verdict: &Verdict) -> Vec<Document> {
    let opening =
        [page::figures(reports), about::document("Trace", trace, Detail::Full), page::verdict(verdict)];
    let told = reports.iter().filter(|report| !report.document(Detail::Brief).blocks.is_empty());
    let documents = opening.into_iter().chain(told.map(|report| report.document(Detail::Full)));
    documents.filter(|document| !document.blocks.is_empty()).collect()
}

/// All analyses that belong into a report and that this trace can be given to.
fn plan_report(trace: &dyn Trace, for_page: bool, common: &Common, screen: &Screen) -> Result<Vec<Planned>> {
    let belongs =
        |tool: &dyn Tool| tool.info().in_report || for_page && ONLY_ON_PAGES.contains(&tool.info().name);
    let mut planned = Vec::new();
    for tool in quipu::tools_of(trace.meta().format).filter(|tool| belongs(*tool)) {
        let mut args = Args::default();
        if for_page && tool.info().options.iter().any(|option| option.name == "top") {
            args.set("top", ROWS_ON_PAGES);
        }
        match plan(tool, &args, trace) {
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
