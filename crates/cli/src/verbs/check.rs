//! `quipu check`: checks a trace against the rules of its format.

use super::formats::OWN;
use crate::summary::{self, Summary};
use quipu::engine::plan;
use quipu::model::check::{RULES, SKIP_RULES};
use quipu::model::doc::{Block, Cell, Document, Grid};
use quipu::model::pass::Detail;
use quipu::model::result;
use quipu::model::result::json;
use quipu::model::{
    Error, Finding, Format, Given, Lost, OpenOptions, OptionSpec, Report, RuleInfo, Severity,
};
use quipu_console::Common;
use quipu_console::flags::{self, Flagged, Flags};
use quipu_console::input::{Stored, check_threads};
use quipu_console::parts::CsvOption;
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::{self, Extent, Verdict, lost_json};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Check a trace against the rules of its format
///
/// The whole trace is read, whatever is found. Each violation has a rule, a severity and a place. The first violations of
/// each rule are listed, all are counted. docs/checks.md explains the rules.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, mut_arg("csv", |csv| csv.help(CSV_HELP)))]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,
    /// Further traces, for --summary
    #[arg(value_name = "MORE", requires = "summary")]
    more: Vec<PathBuf>,
    /// Print JSON: one object with findings and counts; with --summary a list
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    csv: CsvOption,
    /// Print a line for each trace: format, number of records, threads and findings
    #[arg(long, conflicts_with_all = ["list", "explain"])]
    summary: bool,
    #[command(flatten)]
    flags: Flags<CheckFlags>,
    /// List all rules and exit
    #[arg(long, conflicts_with = "explain")]
    list: bool,
    /// Explain a rule and exit
    #[arg(long, value_name = "RULE")]
    explain: Option<String>,
}

/// Options of the tools called `check` in all formats.
struct CheckFlags;

impl Flagged for CheckFlags {
    fn specs() -> Vec<OptionSpec> {
        let tools = quipu::FORMATS.iter().flat_map(|format| format.tools()).map(|tool| tool.info());
        flags::union(tools.filter(|info| info.name == NAME).map(|info| info.options))
    }
}

/// Name of the tool in each format.
const NAME: &str = "check";

/// The rule for unreadable parts, which exists for every format.
const UNREADABLE: &str = "engine/unreadable";

const CSV_HELP: &str =
    "Print comma-separated values: a line for each finding, or the rows of TABLE, such as `check.rules`";

const AFTER_HELP: &str = "\
Examples:
  quipu check trace.zip
  quipu check --json --max-per-rule 100 trace.dir
  quipu check --skip-rule function-return,signal-return trace.dir
  quipu check --csv trace.zip > findings.csv
  quipu check --summary traces/*.zip
  quipu check --explain pc-discontinuity

Exit codes:
  0  done, and there are no errors
  1  done, and there are errors, or the run was interrupted
  2  could not do it";

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    if options.list {
        return list(options, screen);
    }
    if let Some(name) = &options.explain {
        return explain(name, options, screen);
    }
    if options.summary {
        let paths = std::iter::once(&options.input.path).chain(&options.more);
        let form = summary::Form { json: options.json, csv: &options.csv };
        return summary::print(paths, form, screen, &|path| summarise(path, options, common, screen));
    }
    let Some(checked) = check(&options.input, options, common, screen)? else { return Ok(Outcome::Fine) };
    checked.all.say_lost(screen);
    let lost = checked.all.lost();
    let Checked { report, carrier, mut found, all, unreadable, outcome, .. } = checked;
    let (carrier, of_carrier) = carrier.map(|carrier| (carrier.report, carrier.verdict)).unzip();
    let verdict = Verdict { findings: unreadable, ..all };
    let tables = || {
        let of_carrier = carrier.iter().flat_map(|carrier| carrier.tables("carrier"));
        report.tables(NAME).into_iter().chain(of_carrier).collect()
    };
    if options.json {
        let mut answer = answer(&options.input.name(), report.json(), &verdict, &lost);
        if let (Some(carrier), Value::Object(answer)) = (&carrier, &mut answer) {
            if let Some(Value::Array(findings)) = answer.get_mut("findings") {
                findings.splice(0..0, found.iter().map(json));
            }
            answer.insert("carrier".into(), carrier.json());
        }
        screen.json(&answer)?;
    } else if let Some(text) = options.csv.text("check.findings", tables)? {
        screen.text(&text)?;
    } else {
        found.extend(report.findings());
        screen.list_findings(&found)?;
        let of_carrier = carrier.as_ref().map(|carrier| {
            let mut document = carrier.document(Detail::Full);
            document.title = "Check of what carries it".into();
            // A carrier may contain nothing but frames.
            if carrier.json()["records"] == 0 {
                match carrier.findings().is_empty() {
                    true => {
                        let said = "Its frames were checked: nothing in them breaks a rule.";
                        document.blocks = vec![Block::Note(said.into())];
                    }
                    false => document.blocks.retain(|block| !matches!(block, Block::Facts(_))),
                }
            }
            document
        });
        screen.documents([Some(report.document(Detail::Full)), of_carrier].iter().flatten())?;
    }
    let of_carrier = of_carrier.map_or(Outcome::Fine, |verdict| verdict.tell(screen));
    Ok(verdict.tell(screen).and(outcome).and(of_carrier))
}

/// Result of checking a trace and its carrier.
struct Checked {
    report: Box<dyn Report>,
    carrier: Option<OfCarrier>,
    /// Findings about the carrier that are not reported for the trace.
    found: Vec<Finding>,
    /// The verdict on reading the trace, with all findings of the reader.
    all: Verdict,
    /// Findings about parts that could not be read, if they are asked for. The report has those of the reader.
    unreadable: Vec<Finding>,
    /// Outcome of the rules.
    outcome: Outcome,
    /// What the header says, and how many records were read.
    header: Summary,
}

/// Checks a trace and its carrier; `None` if there is no result, because it was cancelled.
fn check(input: &Stored, options: &Options, common: &Common, screen: &Screen) -> Result<Option<Checked>> {
    let (trace, carrier) = input.open_for(NAME, options.summary)?;
    let carrier = match carrier {
        Some(carrier) => check_carrier(&carrier, options, common, screen)?,
        None => None,
    };
    check_threads(&*trace, &input.opening.threads)?;
    let mut header = Summary::of(input.name(), &*trace);
    let tool = quipu::tool(NAME, &trace.meta().format)?;
    let of_carrier = carrier.as_ref().map(|carrier| carrier.format);
    let planned = vec![plan(tool, &options.given(|rule| !is_of(of_carrier, rule), |_| true), &*trace)?];
    let extent = Extent { strict: input.opening.strict, ..Extent::default() };
    let outcome = session::analyse(&*trace, planned, &extent, common, screen)?;
    header.records = Some(outcome.records);
    if options.summary && !outcome.cancelled {
        header.count_threads(&*trace, screen);
    }
    let all = Verdict::new(&*trace, outcome.findings.clone(), outcome.error, outcome.cancelled);
    let of_rules = Outcome::of(&outcome.reports);
    let of_rules = carrier
        .as_ref()
        .map_or(of_rules, |carrier| of_rules.and(Outcome::of(std::slice::from_ref(&carrier.report))));
    let Some(report) = outcome.reports.into_iter().next() else { return Ok(None) };
    // A read may also count the records of headers.
    header.records = report.json()["records"].as_u64().or(header.records);
    // The tool reports the reader's findings itself, so only parts that could not be read at all remain.
    let engine = outcome.findings.as_slice().iter().filter(|finding| finding.rule == UNREADABLE);
    let unreadable = engine.filter(|finding| options.wants(finding)).cloned().collect();
    // Faults of the carrier that already caused findings in the trace are reported once, with the place in the trace.
    let of_trace = report.findings();
    let is_met = |of: &Finding| {
        let of_error = all.error.as_ref().is_some_and(|error| error.is_same_fault(of));
        of_error || of_trace.iter().any(|known| known.is_same_fault(of))
    };
    let mut found: Vec<Finding> = carrier.iter().flat_map(|carrier| carrier.report.findings()).collect();
    found.retain(|of| !is_met(of));
    for of in &mut found {
        if let Some(met) = all.findings.iter().find(|met| met.is_same_fault(of)) {
            of.clone_from(met);
        }
    }
    Ok(Some(Checked { report, carrier, found, all, unreadable, outcome: of_rules, header }))
}

/// Checks a trace for a line of a summary.
fn summarise(path: &Path, options: &Options, common: &Common, screen: &Screen) -> Result<(Summary, Outcome)> {
    let input = Stored { path: path.to_owned(), opening: options.input.opening.clone() };
    let Some(checked) = check(&input, options, common, screen)? else {
        return Ok((Summary { trace: input.name(), ..Summary::default() }, Outcome::Fine));
    };
    let Checked { report, carrier, found, all, unreadable, outcome, mut header } = checked;
    // Rules count all violations; the findings list the first ones.
    for rule in report.json()["rules"].as_array().into_iter().flatten() {
        let severities = [Severity::Note, Severity::Warning, Severity::Error];
        let severity = severities.into_iter().find(|severity| rule["severity"] == severity.name());
        header.add_count(severity.unwrap_or(Severity::Error), rule["count"].as_u64().unwrap_or(0));
    }
    header.add(found.iter().chain(&unreadable));
    header.error = summary::why(&all);
    let verdict = Verdict { findings: unreadable, ..all };
    let of_carrier = carrier.map_or(Outcome::Fine, |carrier| summary::outcome(&carrier.verdict));
    Ok((header, summary::outcome(&verdict).and(outcome).and(of_carrier)))
}

/// Result of checking the carrier of a trace.
struct OfCarrier {
    format: &'static dyn Format,
    report: Box<dyn Report>,
    /// Shows whether it was read to its end.
    verdict: Verdict,
}

/// Whether a rule of this name belongs to the format of the carrier.
fn is_of(carrier: Option<&dyn Format>, rule: &str) -> bool {
    carrier.is_some_and(|format| format.rules().iter().any(|own| own.is_called(rule)))
}

/// Checks the carrier of a trace by its own rules. Returns `None` if only other rules are requested.
fn check_carrier(
    carrier: &quipu::Carrier,
    options: &Options,
    common: &Common,
    screen: &Screen,
) -> Result<Option<OfCarrier>> {
    let format = carrier.format;
    let is_asked = |rule: &str| is_of(Some(format), rule);
    if options.names(&RULES).next().is_some() && !options.names(&RULES).any(is_asked) {
        return Ok(None);
    }
    let trace = format.open(&carrier.source, &OpenOptions::default())?;
    let tool = quipu::tool(NAME, format.info().name)?;
    // Options that select a part refer to the carried trace.
    let has = |option: &str| tool.info().options.iter().any(|own| own.name == option);
    let planned = vec![plan(tool, &options.given(|rule| is_of(Some(format), rule), has), &*trace)?];
    let extent = Extent { strict: options.input.opening.strict, ..Extent::default() };
    let outcome = session::analyse(&*trace, planned, &extent, common, screen)?;
    let verdict = Verdict::new(&*trace, outcome.findings, outcome.error, outcome.cancelled);
    // The tool reports the reader's findings itself.
    let verdict = Verdict { findings: Vec::new(), ..verdict };
    Ok(outcome.reports.into_iter().next().map(|report| OfCarrier { format, report, verdict }))
}

impl Options {
    /// The rules that an option lists.
    fn names(&self, option: &OptionSpec) -> impl Iterator<Item = &str> {
        self.flags.given().iter().filter(|(name, _)| *name == option.name).map(|(_, rule)| rule)
    }

    /// Options for the tool: of the listed rules its own, and of the other options those that it has.
    fn given(&self, is_own: impl Fn(&str) -> bool, has: impl Fn(&str) -> bool) -> Given {
        let mut given = Given::default();
        for (name, value) in self.flags.given().iter().filter(|(name, _)| has(name)) {
            if ![RULES.name, SKIP_RULES.name].contains(&name) || is_own(value) {
                given.add(name, value);
            }
        }
        // An empty list would mean all rules.
        if self.names(&RULES).next().is_some() && !self.names(&RULES).any(is_own) {
            given.add(RULES.name, UNREADABLE);
        }
        given
    }

    /// Whether a finding that was not made by the tool is requested.
    fn wants(&self, finding: &Finding) -> bool {
        let is_called = |name: &str| rules().any(|rule| rule.name == finding.rule && rule.is_called(name));
        let mut asked = self.names(&RULES).peekable();
        (asked.peek().is_none() || asked.any(is_called)) && !self.names(&SKIP_RULES).any(is_called)
    }
}

/// The tool's result, preceded by the trace's name and followed by what could not be read.
fn answer(name: &str, result: Value, verdict: &Verdict, lost: &Lost) -> Value {
    let mut answer = Map::new();
    answer.insert("trace".into(), name.into());
    if let Value::Object(result) = result {
        answer.extend(result);
    }
    if let Some(Value::Array(findings)) = answer.get_mut("findings") {
        findings.extend(verdict.findings.iter().map(json));
    }
    answer.insert("complete".into(), verdict.is_complete().into());
    answer.insert("error".into(), verdict.error_json());
    answer.insert("lost".into(), lost_json(lost));
    answer.into()
}

/// The rules of all formats.
fn rules() -> impl Iterator<Item = &'static RuleInfo> {
    quipu::FORMATS.iter().flat_map(|format| format.rules())
}

result! {
    /// The rules of all formats.
    struct AllRules {
        rules: Vec<Listed> => "The rules.";
    }
}

result! {
    /// A rule.
    struct Listed {
        rule: &'static str => "Name of the rule.";
        severity: &'static str => "Severity of its findings.";
        group: &'static str => "What it is about.";
        summary: &'static str => "What must hold.";
    }
}

fn list(options: &Options, screen: &Screen) -> Result<Outcome> {
    if options.json {
        screen.json(&json(&rules().collect::<Vec<_>>()))?;
        return Ok(Outcome::Fine);
    }
    let rule = |rule: &'static RuleInfo| Listed {
        rule: rule.name,
        severity: rule.severity.name(),
        group: rule.group,
        summary: rule.summary,
    };
    let tables = || result::tables(OWN, &AllRules { rules: rules().map(rule).collect() });
    if let Some(text) = options.csv.text("quipu.rules", tables)? {
        screen.text(&text)?;
        return Ok(Outcome::Fine);
    }
    let mut documents: Vec<Document> = Vec::new();
    for rule in rules() {
        let row = vec![rule.name.into(), rule.severity.name().into(), Cell::from(rule.summary)];
        match documents.last_mut() {
            Some(Document { title, blocks, .. }) if title == rule.group => {
                if let Some(Block::Grid(grid)) = blocks.first_mut() {
                    grid.rows.push(row);
                }
            }
            _ => {
                let head = ["rule", "severity", "what must hold"].map(str::to_owned).to_vec();
                let grid = Grid { title: String::new(), head, rows: vec![row], more: 0 };
                documents.push(Document::new(rule.group).with(Block::Grid(grid)));
            }
        }
    }
    screen.documents(&documents)?;
    Ok(Outcome::Fine)
}

fn explain(name: &str, options: &Options, screen: &Screen) -> Result<Outcome> {
    let Some(rule) = rules().find(|rule| rule.is_called(name)) else {
        return Err(Error::usage(format!("there is no rule `{name}`"))
            .hint("`quipu check --list` has all rules")
            .into());
    };
    if options.json {
        screen.json(&json(rule))?;
        return Ok(Outcome::Fine);
    }
    let mut document = Document::new(format!("{} ({})", rule.name, rule.severity.name()))
        .with(Block::Note(rule.summary.to_owned()));
    if !rule.doc.is_empty() {
        document = document.with(Block::Note(rule.doc.to_owned()));
    }
    if !rule.original.is_empty() {
        let texts = rule
            .original
            .iter()
            .map(|text| ("the format's checker says".to_owned(), vec![Cell::Text((*text).to_owned())]));
        document = document.with(Block::Facts(texts.collect()));
    }
    screen.documents([&document])?;
    Ok(Outcome::Fine)
}
