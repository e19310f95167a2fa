//! `quipu report`: summarises a trace on one screen or as an HTML page.

use crate::about;
use crate::compare;
use crate::naming;
use crate::page::{self, PageOptions};
use crate::summary;
use crate::typing::{Typing, give, give_places};
use quipu::engine::{Planned, plan, tables};
use quipu::model::doc::Document;
use quipu::model::pass::Detail;
use quipu::model::{ColumnTable, Error, ErrorKind, Given, Report, Tool, Trace, Window};
use quipu_console::Common;
use quipu_console::input::{Input, Stored};
use quipu_console::parts::CsvOption;
use quipu_console::screen::{Outcome, Result, Screen, Stop};
use quipu_console::session::{self, Verdict};
use quipu_console::simulation::{self, Served};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Summarise a trace on one screen
///
/// Prints format and contents, threads and their schedule, instruction mix, branch behaviour, memory footprint over time, and
/// hot spots, all from one read of the trace. Then simulates the first ten million records on a machine of four cores with
/// default caches and TLBs.
///
/// With `--html`, the same goes to an HTML page, in full and with charts: schedule, memory in use, a heat map of addresses
/// over time, reuse distances, sortable tables. The page is one file that needs no network.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    input: Input,
    /// Second trace: prints the most important numbers of both, and how they change from TRACE to NEW
    #[arg(value_name = "NEW", conflicts_with = "html")]
    new: Option<PathBuf>,
    /// Further traces, only to say which verbs take many
    #[arg(value_name = "MORE", hide = true)]
    more: Vec<PathBuf>,
    /// Print JSON: one object, with each analysis under its name in `results`; of two traces, the reports `old` and `new`, and
    /// `changes`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    csv: CsvOption,
    #[command(flatten)]
    page: PageOptions,
    #[command(flatten)]
    typing: Typing,
    /// Skip the simulation of the default caches and TLBs
    #[arg(long)]
    no_machine: bool,
}

const AFTER_HELP: &str = "\
Examples:
  quipu report trace.zip
  quipu report --html trace.html trace.zip
  quipu report --json trace.dir | jq .results.counts
  quipu report before.trace after.trace
  quipu report --csv=counts.shards trace.dir
  zcat trace.gz | quipu report

Exit codes:
  0  done
  1  done, and something is wrong with the trace, or the run was interrupted
  2  could not read it";

/// Analyses on pages only: they take longer, or need a drawing.
const ONLY_ON_PAGES: &[&str] = &["heatmap", "reuse-distance", "miss-ratio"];

/// Options on pages, for analyses that have them: rows in top lists and steps of time, for which pages have room, and the
/// number of lines that suffices for a curve.
const OPTIONS_ON_PAGES: &[(&str, &str)] = &[("top", "100"), ("steps", "512"), ("sample", "8192")];

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    options.page.check(options.json || options.csv.is_wanted())?;
    if !options.more.is_empty() {
        let error = Error::usage("a report is about one trace, or compares two");
        return Err(error
            .hint("`quipu info --summary TRACE…` and `quipu check --summary TRACE…` print a line for each of many")
            .into());
    }
    if let Some(new) = &options.new {
        let input = &options.input;
        if *new == input.stored.path && new == Path::new("-") {
            return Err(Error::usage("standard input is one trace, and two are compared").into());
        }
        let stored = Stored { path: new.clone(), ..input.stored.clone() };
        let new = Input { stored, ..input.clone() };
        let sides = [read(input, options, common, screen)?, read(&new, options, common, screen)?];
        let form = summary::Form { json: options.json, csv: &options.csv };
        return compare::print(&sides, form, screen);
    }
    let told = read(&options.input, options, common, screen)?;
    told.verdict.say_lost(screen);
    let Told { trace, reports, machine, verdict, .. } = &told;
    if options.page.is_wanted() {
        let mut documents = page_documents(&**trace, reports, machine, verdict);
        naming::name_code(&mut documents, &**trace);
        page::write(&options.page, &options.input, &**trace, &documents, screen)?;
    }
    if options.json {
        screen.json(&told.json())?;
    } else if let Some(text) = options.csv.text("", || told.tables())? {
        screen.text(&text)?;
    } else if !options.page.is_wanted() {
        let about = about::document(&told.name, &**trace, Detail::Brief);
        let results = reports.iter().map(|report| report.document(Detail::Brief));
        let all = std::iter::once(about).chain(results).chain(documents_of(machine, Detail::Brief));
        let mut documents: Vec<Document> = all.filter(|document| !document.blocks.is_empty()).collect();
        naming::name_code(&mut documents, &**trace);
        screen.documents(&documents)?;
    }
    Ok(verdict.tell(screen))
}

/// What a report has to say about a trace.
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) trace: Box<dyn Trace>,
    /// Names of the analyses.
    pub(crate) names: Vec<&'static str>,
    pub(crate) reports: Vec<Box<dyn Report>>,
    /// Number of records read.
    pub(crate) records: u64,
    pub(crate) machine: Served,
    pub(crate) verdict: Verdict,
}

/// Runs the analyses of a report, and the default machine.
fn read(input: &Input, options: &Options, common: &Common, screen: &Screen) -> Result<Told> {
    let trace = input.open()?;
    let planned = plan_report(&*trace, options, common, screen)?;
    let names: Vec<&'static str> = planned.iter().map(|planned| planned.info.name).collect();
    let extent = input.extent(Window::All);
    let outcome = session::analyse(&*trace, planned, &extent, common, screen)?;
    let mut machine = match options.no_machine || outcome.cancelled {
        true => Served::default(),
        false => serve(input, options, &*trace, outcome.records, common, screen)?,
    };
    // The machine reads the trace again; an error that occurs only then is just as serious.
    let error = outcome.error.or(machine.error.take());
    let cancelled = outcome.cancelled || machine.cancelled;
    let verdict = Verdict::new(&*trace, outcome.findings, error, cancelled);
    let (reports, records) = (outcome.reports, outcome.records);
    Ok(Told { name: input.name(), trace, names, reports, records, machine, verdict })
}

impl Told {
    /// The tables of all analyses.
    fn tables(&self) -> Vec<ColumnTable> {
        let mut all = tables(&self.name, &self.names, &self.reports, &[]);
        all.extend(tables(&self.name, &self.machine.names, &self.machine.reports, &[]));
        all
    }

    /// The report as JSON.
    pub(crate) fn json(&self) -> Value {
        let Told { name, trace, names, reports, machine, verdict, .. } = self;
        let results: Map<String, Value> = names
            .iter()
            .zip(reports)
            .chain(machine.names.iter().zip(&machine.reports))
            .map(|(name, report)| ((*name).to_owned(), report.json()))
            .collect();
        let mut answer = Map::new();
        answer.insert("about".into(), about::json(name, &**trace));
        answer.insert("results".into(), results.into());
        answer.insert("machine_records".into(), machine.records.into());
        verdict.add_to(&mut answer);
        answer.into()
    }
}

/// Sections of a page: the most important numbers, the description of the trace, its faults, and each analysis in full.
fn page_documents(
    trace: &dyn Trace,
    reports: &[Box<dyn Report>],
    machine: &Served,
    verdict: &Verdict,
) -> Vec<Document> {
    let told = reports.iter().filter(|report| !report.document(Detail::Brief).blocks.is_empty());
    let told: Vec<Document> = told.map(|report| report.document(Detail::Full)).collect();
    let machine = documents_of(machine, Detail::Full);
    let figures = page::figures(trace, reports, &told, &machine);
    let opening = [figures, about::document("Trace", trace, Detail::Full), page::verdict(verdict)];
    let documents = opening.into_iter().chain(told).chain(machine);
    documents.filter(|document| !document.blocks.is_empty()).collect()
}

/// All analyses of the report that this trace supports.
fn plan_report(
    trace: &dyn Trace,
    options: &Options,
    common: &Common,
    screen: &Screen,
) -> Result<Vec<Planned>> {
    let for_page = options.page.is_wanted();
    let belongs =
        |tool: &dyn Tool| tool.info().in_report || for_page && ONLY_ON_PAGES.contains(&tool.info().name);
    let mut planned = Vec::new();
    for tool in quipu::tools_of(&trace.meta().format).filter(|tool| belongs(*tool)) {
        let mut given = Given::default();
        for (name, value) in OPTIONS_ON_PAGES.iter().filter(|_| for_page) {
            if tool.info().options.iter().any(|option| option.name == *name) {
                given.add(*name, *value);
            }
        }
        give(&options.typing, tool.info(), &mut given);
        give_places(&options.input.stored.path, tool.info(), &mut given);
        match plan(tool, &given, trace) {
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

/// Documents of the results of the default machine.
fn documents_of(served: &Served, detail: Detail) -> Vec<Document> {
    let documents = served.reports.iter().map(|report| report.document(detail));
    let titled = documents.map(|document| Document { title: served.title(&document.title), ..document });
    titled.filter(|document| !document.blocks.is_empty()).collect()
}

/// Simulates the first records of a trace on caches and TLBs of a default machine.
fn serve(
    input: &Input,
    options: &Options,
    trace: &dyn Trace,
    n_records: u64,
    common: &Common,
    screen: &Screen,
) -> Result<Served> {
    let left_out = |error: Error| {
        if common.verbose {
            screen.say(format_args!("left out: {error}"));
        }
        Ok(Served::default())
    };
    let path = &input.stored.path;
    let is_kept = std::fs::metadata(path).is_ok_and(|meta| meta.is_file() || meta.is_dir());
    if path == Path::new("-") || !is_kept {
        return left_out(Error::unsupported(
            "what comes through a pipe is read once, and runs on no machine",
        ));
    }
    // Faults of the trace have been reported by the analyses; the machine simulates what can be read.
    let quiet = Common { verbose: false, ..common.clone() };
    let top = if options.page.is_wanted() { 10 } else { 0 };
    let served = simulation::serve(top, n_records, trace, |planned, window| {
        let extent = match window {
            // Windows count along the whole trace, and what is read of it may begin anywhere.
            Window::Records(range) if input.arranging.is_part() => {
                session::Extent { most_records: range.end, ..input.extent(Window::All) }
            }
            window => input.extent(window),
        };
        let extent = session::Extent { strict: false, ..extent };
        match session::analyse(trace, planned, &extent, &quiet, screen) {
            Err(Stop::Fault(error)) if error.kind() == ErrorKind::Unsupported => Ok(Err(error)),
            outcome => outcome.map(Ok),
        }
    });
    served?.or_else(left_out)
}
