//! `quipu convert --to FORMAT`: a trace in another format. The plan is printed before anything is read, the report at the
//! end.

use quipu::engine::{ConversionPlan, convert, plan_conversion};
use quipu::model::convert::{self, RecordJob, RecordWriter};
use quipu::model::doc::{Block, Cell, Document, Grid};
use quipu::model::fresh::{check_file, folder_beside};
use quipu::model::transform::refuse_container;
use quipu::model::{Columns, Error, Format, Given, Options, Trace, result};
use quipu::source::Source;
use quipu_console::Common;
use quipu_console::input::Opening;
use quipu_console::number;
use quipu_console::rewrite::{self, Target};
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::{self, Verdict};
use serde_json::Map;
use std::path::Path;

/// Options for writing another format.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Conversion")]
pub(crate) struct Conversion {
    /// Write the records in this format, as far as it can hold them; `quipu formats` lists the formats that can be written
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<String>,
    /// Exit with 1 if anything was dropped, changed or invented
    #[arg(long, requires = "to")]
    lossless: bool,
    /// An option of the output format, such as `dialect=be64`; may be repeated
    #[arg(id = "set", long = "set", value_name = "NAME=VALUE", value_parser = number::key_value)]
    given: Vec<(String, String)>,
}

impl Conversion {
    /// Whether any loss is an error.
    pub(crate) fn is_lossless(&self) -> bool {
        self.lossless
    }

    /// Options for the writer of the format.
    pub(crate) fn given(&self) -> Given {
        self.given.iter().cloned().collect()
    }
}

/// The format with this name.
///
/// # Errors
/// `Usage` for an unknown name.
pub(crate) fn format(name: &str) -> Result<&'static dyn Format> {
    let found = quipu::FORMATS.iter().copied().find(|format| format.info().name == name);
    Ok(found.ok_or_else(|| {
        let names: Vec<_> = quipu::FORMATS.iter().map(|format| format.info().name).collect();
        Error::usage(format!("no format is called `{name}`")).hint(format!("formats: {}", names.join(", ")))
    })?)
}

/// The usual extension of a format's files.
fn ending(format: &dyn Format) -> &'static str {
    format.info().extensions.first().copied().unwrap_or("trace")
}

/// The format that a file name asks for by its extension: one that writes its streams itself, and takes records of other
/// formats.
pub(crate) fn format_of_name(path: &Path) -> Option<&'static dyn Format> {
    let ending = path.extension()?.to_str()?;
    let writes = |format: &&dyn Format| format.record_writer().is_some() && quipu::writes_streams(*format);
    let mut all = quipu::FORMATS.iter().copied().filter(writes);
    all.find(|format| format.info().extensions.contains(&ending))
}

/// Converts a trace and reports the outcome. A `runner` replaces the format's writer.
pub(crate) fn run(
    trace: &dyn Trace,
    to: &'static dyn Format,
    runner: Option<&'static dyn RecordWriter>,
    options: &Conversion,
    given: &Given,
    (target, opening, common): (&Target, &Opening, &Common),
    screen: &Screen,
) -> Result<Outcome> {
    let name = to.info().name;
    let Some(writer) = runner.or(to.record_writer()) else {
        let others = quipu::FORMATS.iter().filter(|format| format.record_writer().is_some());
        let others: Vec<_> = others.map(|format| format.info().name).collect();
        return Err(Error::unsupported(format!("records of other formats cannot become those of {name}"))
            .hint(format!("formats that take records of others: {}", others.join(", ")))
            .into());
    };
    let from = &trace.meta().format;
    let source = quipu::FORMATS.iter().find(|format| format.info().name == from);
    let beyond = source.map_or(&[][..], |format| format.info().beyond_lenses);
    let asked = Options::parse(&format!("format {name}"), writer.info().options, given)?;
    let plan = plan_conversion(trace, name, writer, beyond);
    let plan = plan.map_err(|error| session::not_for_trace(error, trace, screen))?;
    tell_plan(&plan, from, name, screen);
    // A stream is made from a file, unless the format writes streams itself.
    let way = match quipu::is_stream_name(&target.path) && !quipu::writes_streams(to) {
        true => {
            refuse_container(target.container.as_deref())?;
            check_file(&target.path, target.force.into())?;
            Some(folder_beside(&target.path)?)
        }
        false => None,
    };
    let file = way.as_ref().map(|way| way.path().join(format!("trace.{}", ending(to))));
    let job = RecordJob {
        trace,
        columns: Columns::NONE,
        options: &asked,
        output: file.as_deref().unwrap_or(&target.path),
        replace: target.force,
        container: target.container.as_deref(),
        // A stream has a compression level of its own.
        level: if way.is_some() { None } else { target.level },
        damaged: target.damaged,
        strict: opening.strict,
    };
    let converted = session::watched(screen, |watch| convert(&plan, writer, &job, beyond, watch));
    let converted = match converted {
        Ok(converted) => converted,
        Err(error) => return Err(rewrite::undone(rewrite::of_target(error, &target.path))),
    };
    if let Some(file) = &file {
        let source = Source::open(file).map_err(Error::from)?;
        let opening = Opening { strict: opening.strict, ..Opening::default() };
        let into = quipu::into_stream(to);
        rewrite::transform_into(&*into, &source, &opening, &Options::default(), target, common, screen)?;
    }
    let screen = &screen.beside_for(&target.path, target.json);
    let doubtful_from = converted.reading.doubtful_from;
    let verdict = Verdict::from(converted.reading);
    verdict.say_lost(screen);
    rewrite::say_doubtful(&target.path, doubtful_from, screen);
    let lines = converted.ledger.lines();
    if target.json {
        let mut answer = Map::new();
        answer.insert("output".into(), rewrite::written_to(&target.path));
        answer.insert("from".into(), result::json(from));
        answer.insert("to".into(), name.into());
        answer.extend(converted.facts.iter().map(|fact| (fact.key.clone().into_owned(), fact.json())));
        answer.insert("lossless".into(), converted.ledger.is_lossless().into());
        answer.insert("ledger".into(), result::json(&lines));
        answer.insert("doubtful_from".into(), doubtful_from.into());
        session::add_reading(&verdict.findings, verdict.error.as_deref(), &mut answer);
        screen.json(&answer.into())?;
    } else if !screen.is_quiet() {
        let rows = lines.iter().map(|line| {
            let is_counted = !converted.uncounted.contains(&line.what);
            let count = if is_counted { Cell::Count(line.count) } else { Cell::Empty };
            vec![line.outcome.name().into(), count, line.what.clone().into()]
        });
        let head = ["outcome", "count", "what"].map(str::to_owned).into();
        let document = Document::new(format!("{}: {from} as {name}", rewrite::title(&target.path)))
            .with(Block::Grid(Grid { title: String::new(), head, rows: rows.collect(), more: 0 }));
        screen.documents([&document])?;
    }
    let outcome = verdict.tell(screen);
    let is_lossless = lines.iter().all(|line| line.outcome == convert::Outcome::Kept);
    Ok(if options.is_lossless() && !is_lossless { outcome.and(Outcome::Flawed) } else { outcome })
}

/// Prints on standard error what will be carried over, dropped and made up.
fn tell_plan(plan: &ConversionPlan, from: &str, to: &str, screen: &Screen) {
    if screen.is_quiet() {
        return;
    }
    screen.say(format_args!("plan: {from} to {to}"));
    screen.say(format_args!("  carried over: {}", plan.carried));
    if !plan.dropped.is_empty() {
        screen.say(format_args!("  no room for:  {}", plan.dropped.join(", ")));
    }
    if !plan.made_up.is_empty() {
        screen.say(format_args!("  made up:      {}", plan.made_up.join(", ")));
    }
    if !plan.perhaps_made_up.is_empty() {
        let what = plan.perhaps_made_up.join(", ");
        screen.say(format_args!("  made up where the trace does not say it: {what}"));
    }
}
