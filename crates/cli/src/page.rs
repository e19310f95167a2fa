//! Results as a page for a browser: the parts around the analyses' documents, and writing the file.

use crate::about;
use quipu::model::doc::{Block, Cell, Document, Figure, Grid};
use quipu::model::fresh::{self, Replace};
use quipu::model::harmless::shell_word;
use quipu::model::number::counted;
use quipu::model::trace::Fact;
use quipu::model::{Error, Report, Trace};
use quipu::passes::{PerShard, PerThread, branches, functions, mix, reuse_distance, schedule, working_set};
use quipu::sim::TypeReport;
use quipu_console::input::Input;
use quipu_console::screen::{Result, Screen};
use quipu_console::session::Verdict;
use quipu_console::terminal::{self, is_piped_stdout};
use quipu_view::{PageFrame, bytes_text, grouped, html_page, ticks_text};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The option of verbs that can write a page.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct PageOptions {
    /// Write a self-contained HTML page instead of text; `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Overwrite existing output files
    #[arg(long)]
    pub(crate) force: bool,
}

impl PageOptions {
    pub(crate) fn is_wanted(&self) -> bool {
        self.html.is_some()
    }

    /// Checks, before long work, that standard output gets only one result and that the page can be written.
    ///
    /// # Errors
    /// `Usage` if standard output would get both a page and JSON; those of [`fresh::check_file`].
    pub(crate) fn check(&self, json: bool) -> quipu::model::Result<()> {
        let is_stdout = |path: &Path| path == Path::new("-") || is_piped_stdout(path);
        if json && self.html.as_deref().is_some_and(is_stdout) {
            return Err(Error::usage("a page and JSON cannot both go to standard output")
                .hint("name a file for one of them: `--html FILE`"));
        }
        match &self.html {
            Some(path) if path != Path::new("-") => fresh::check_file(path, self.force.into()),
            _ => Ok(()),
        }
    }
}

/// Writes the page of these documents if one was requested, to standard output for `-`, and reports where it is.
///
/// The file appears either complete or not at all: the page is written to a temporary file, which is renamed.
pub(crate) fn write(
    options: &PageOptions,
    input: &Input,
    trace: &dyn Trace,
    documents: &[Document],
    screen: &Screen,
) -> Result<()> {
    let Some(path) = &options.html else { return Ok(()) };
    let place = (&**path, Replace::from(options.force));
    let (name, kind) = (input.name(), &trace.meta().title);
    // The last component of the path is the title; the whole path is shown below it.
    let title = input.stored.path.file_name().map(|last| last.to_string_lossy().into_owned());
    match title.filter(|title| *title != name && *title != "-") {
        Some(title) => write_titled(place, &title, &format!("{name}: {kind}"), documents, screen),
        None => write_titled(place, &name, kind, documents, screen),
    }
}

fn write_titled(
    (path, replace): (&Path, Replace),
    title: &str,
    subtitle: &str,
    documents: &[Document],
    screen: &Screen,
) -> Result<()> {
    let footer =
        concat!("Made by Quipu ", env!("CARGO_PKG_VERSION"), ". Nothing on this page comes from a network.");
    let command = command_line(std::env::args_os().skip(1));
    let page = html_page(documents, &PageFrame { title, subtitle, footer, command: &command });
    if path == Path::new("-") {
        return Ok(terminal::stdout().write_all(page.as_bytes())?);
    }
    fresh::put(path, page.as_bytes(), replace)?;
    let size = bytes_text(page.len() as u64);
    screen.say(format_args!("page: {} ({size}); a browser opens it from there", path.display()));
    Ok(())
}

/// The program's command line with these arguments, as a shell takes it.
fn command_line(args: impl Iterator<Item = impl AsRef<OsStr>>) -> String {
    let mut line = "quipu".to_owned();
    for arg in args {
        line.push(' ');
        line.push_str(&shell_word(&arg.as_ref().to_string_lossy()));
    }
    line
}

/// Microseconds in a second.
const MICROS: u64 = 1_000_000;

/// Maximum number of figures at the top of a page.
const MAX_FIGURES: usize = 24;

/// The most important numbers of a trace, from it and its reports: what it executed or called, the facts that its family
/// counts among them, the figures of its own analyses (`told`), threads and memory, and the figures of the default machine.
pub(crate) fn figures(
    trace: &dyn Trace,
    reports: &[Box<dyn Report>],
    told: &[Document],
    machine: &[Document],
) -> Document {
    let mut figures = executed(reports);
    let is_executed = !figures.is_empty();
    figures.extend(trace.meta().facts.iter().filter(|fact| fact.is_headline).filter_map(headline));
    figures.extend(figures_of(told));
    if !is_executed {
        figures.extend(accessed_or_called(reports));
    }
    figures.extend(scheduled(reports));
    figures.extend(figures_of(machine));
    // Several analyses may count the same; the first says it.
    let mut labels = std::collections::HashSet::new();
    figures.retain(|figure| labels.insert(figure.label.clone()));
    figures.truncate(MAX_FIGURES);
    let mut document = Document::new("");
    document.terms = told.iter().chain(machine).flat_map(|of| of.terms.clone()).collect();
    if figures.is_empty() { document } else { document.with(Block::Figures(figures)) }
}

/// A fact as a figure, unless it is a count of nothing.
fn headline(fact: &Fact) -> Option<Figure> {
    let value = match fact.value.as_u64() {
        Some(0) => return None,
        Some(n) => Cell::Count(n),
        None => Cell::Text(about::words(fact)),
    };
    Some(Figure { label: fact.label.to_string(), value, note: String::new() })
}

/// The figures in these documents.
fn figures_of(documents: &[Document]) -> Vec<Figure> {
    let blocks = documents.iter().flat_map(|document| &document.blocks);
    let figures = blocks.filter_map(|block| match block {
        Block::Figures(figures) => Some(figures),
        _ => None,
    });
    figures.flatten().cloned().collect()
}

/// Accesses, types and calls of a trace without instructions.
fn accessed_or_called(reports: &[Box<dyn Report>]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut figure = |label: &str, count: u64| {
        if count > 0 {
            figures.push(Figure { label: label.to_owned(), value: Cell::Count(count), note: String::new() });
        }
    };
    if let Some(types) = find::<TypeReport>(reports) {
        let used = types.types.iter().filter(|row| row.numbers.accesses > 0).count() as u64;
        figure("types", used + types.more_types);
    }
    if let Some(reuse) = find::<PerShard<reuse_distance::Distances>>(reports) {
        figure("accesses", reuse.total.accesses);
    }
    if let Some(functions) = find::<functions::FunctionCounts>(reports) {
        figure("calls", functions.functions.iter().map(|function| function.calls).sum());
    }
    figures
}

/// Instructions, loads and stores, and branches.
fn executed(reports: &[Box<dyn Report>]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut figure = |label: &str, value, note: String| {
        figures.push(Figure { label: label.to_owned(), value, note });
    };
    if let Some(mix) = find::<PerThread<mix::InstructionMix>>(reports) {
        let (mix, filtered) = (&mix.total, mix.filtered);
        let label = filtered.fetched_instructions();
        let length = mix.mean_length.map_or_else(String::new, |length| format!("{length:.2} bytes each"));
        figure(label, Cell::Count(mix.instructions), length);
        for (label, count, each) in [
            ("loads", mix.loads, mix.loads_per_instruction),
            ("stores", mix.stores, mix.stores_per_instruction),
        ] {
            if let (Some(count), Some(each)) = (count, each) {
                let label = filtered.of_data(label);
                figure(&label, Cell::Count(count), format!("{each:.3} for each of these instructions"));
            }
        }
    }
    if let Some(branches) = find::<PerThread<branches::BranchCounts>>(reports) {
        let conditional = &branches.total.conditional;
        let taken = conditional.taken_rate.map(|rate| {
            let known = match conditional.unknown {
                0 => "conditional branches".to_owned(),
                _ => counted(conditional.taken + conditional.not_taken, "conditional branch"),
            };
            format!("{:.1} % of {known} taken", rate * 100.0)
        });
        figure("branches", Cell::Count(branches.total.branches), taken.unwrap_or_default());
    }
    figures
}

/// Threads, time and memory touched.
fn scheduled(reports: &[Box<dyn Report>]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut figure = |label: &str, value, note: String| {
        figures.push(Figure { label: label.to_owned(), value, note });
    };
    if let Some(schedule) = find::<schedule::Schedules>(reports) {
        let n_cpus = schedule
            .threads
            .iter()
            .flat_map(|thread| &thread.cpus)
            .collect::<std::collections::BTreeSet<_>>();
        let cpus = match n_cpus.len() as u64 {
            0 => String::new(),
            n => format!("on {}", counted(n, "processor")),
        };
        figure("threads", Cell::Count(schedule.threads.len() as u64), cpus);
        let span = schedule.first_clock.zip(schedule.last_clock);
        if let Some(((first, last), per_second)) = span.zip(schedule.clock_per_second) {
            figure("time span", duration(last - first, per_second), String::new());
        }
        let syscalls: u64 = schedule.threads.iter().map(|thread| thread.syscalls).sum();
        if syscalls > 0 {
            let blocking: u64 = schedule.threads.iter().map(|thread| thread.may_block).sum();
            figure("system calls", Cell::Count(syscalls), format!("{} may block", grouped(blocking)));
        }
    }
    if let Some(touched) = find::<PerThread<working_set::Footprints>>(reports) {
        let touched = &touched.total;
        let bytes = |lines: u64| Cell::Bytes(lines.saturating_mul(touched.line_size));
        let lines = |lines: u64| format!("{} of {} bytes", counted(lines, "line"), touched.line_size);
        let touched = touched.total.lines;
        figure("data touched", bytes(touched.data), lines(touched.data));
        // A trace without fetches does not show the addresses of instructions, which is not a count of 0.
        if touched.instr > 0 {
            figure("code touched", bytes(touched.instr), lines(touched.instr));
        }
    }
    figures
}

/// A duration in ticks. Short ones of fine clocks are texts, because whole microseconds would round them.
fn duration(ticks: u64, per_second: u64) -> Cell {
    let per_micro = per_second / MICROS;
    let micros = u128::from(ticks) * u128::from(MICROS) / u128::from(per_second.max(1));
    match u64::try_from(micros) {
        Ok(micros) if ticks == 0 || per_micro <= 1 || micros >= 1000 => Cell::Micros(micros),
        _ => Cell::Text(ticks_text(ticks, per_second)),
    }
}

fn find<R: 'static>(reports: &[Box<dyn Report>]) -> Option<&R> {
    reports.iter().find_map(|report| report.as_any().downcast_ref())
}

/// What was wrong with the trace, and whether all of it was read; without blocks if there was nothing wrong.
pub(crate) fn verdict(verdict: &Verdict) -> Document {
    let mut document = Document::new("What is wrong");
    if verdict.cancelled {
        document.blocks.push(Block::Note("Interrupted: this page is about the part that was read.".into()));
    }
    let lost = verdict.lost();
    if !lost.is_nothing() {
        document.blocks.push(Block::Note(format!("{lost}; the numbers of this page are about the rest.")));
    }
    if let Some(error) = verdict.error.as_deref() {
        document.blocks.push(Block::Note(format!("Not all of the trace could be read: {error}")));
    }
    if !verdict.findings.is_empty() {
        let rows = verdict.findings.iter().map(|finding| {
            vec![
                finding.severity.name().into(),
                finding.rule.as_ref().into(),
                Cell::Count(finding.count),
                Cell::Text(finding.message.clone()),
                Cell::Text(finding.place.to_string()),
            ]
        });
        document.blocks.push(Block::Grid(Grid {
            title: String::new(),
            head: ["severity", "rule", "times", "what", "first at"].map(str::to_owned).into(),
            rows: rows.collect(),
            more: 0,
        }));
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_quoted_for_a_shell() {
        let args = ["report", "--html", "a b.html", "it's", "", "traces/x.zip", "$HOME"];
        assert_eq!(
            command_line(args.iter()),
            r"quipu report --html 'a b.html' 'it'\''s' '' traces/x.zip '$HOME'"
        );
    }
}
