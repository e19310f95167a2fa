//! Traces in brief, a line for each, for folders full of them.

use quipu::engine::Watch;
use quipu::model::doc::{Block, Cell, Document, Grid};
use quipu::model::number::counted;
use quipu::model::trace::{Fact, surveyed};
use quipu::model::{Columns, Error, Finding, Found, Scan, Severity, ShardKind, ThreadId, Trace, result};
use quipu_console::input;
use quipu_console::parts::CsvOption;
use quipu_console::screen::{Outcome, Result, Screen, Stop};
use quipu_console::session;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

result! {
    /// Traces in brief.
    struct Summaries {
        traces: Vec<Summary> => "The traces.";
    }
}

result! {
    /// A trace in brief.
    #[derive(Debug, Default)]
    pub(crate) struct Summary {
        pub(crate) trace: String => "Path of the trace.";
        pub(crate) format: Option<String> => "Name of its format; null if it cannot be opened.";
        pub(crate) records: Option<u64> => "Number of records; null if they were not counted.";
        pub(crate) threads: Option<u64> => "Number of threads; null if the trace does not say.";
        pub(crate) errors: u64 => "Number of errors found in it.";
        pub(crate) warnings: u64 => "Number of warnings.";
        pub(crate) notes: u64 => "Number of notes.";
        pub(crate) packed_bytes: Option<u64> => "Size on disk; null if it is unknown.";
        pub(crate) error: Option<String> => "Why it was not read to its end; null if it was.";
    }
}

/// Form of an answer: that for people, unless another one is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form<'a> {
    pub(crate) json: bool,
    pub(crate) csv: &'a CsvOption,
}

impl Summary {
    /// What the header of a trace says.
    pub(crate) fn of(name: String, trace: &dyn Trace) -> Summary {
        let meta = trace.meta();
        Summary {
            trace: name,
            format: Some(meta.format.to_string()),
            packed_bytes: meta.disk_bytes.or(meta.packed_bytes),
            threads: n_threads(trace, &meta.facts, &BTreeSet::new()),
            ..Summary::default()
        }
    }

    /// Counts the threads of a trace whose header does not say how many it has, as [`read`] does. Only a read of its own can:
    /// readers deliver threads to those who ask for them, which rules do not.
    pub(crate) fn count_threads(&mut self, trace: &dyn Trace, screen: &Screen) {
        if self.threads.is_some() {
            return;
        }
        self.threads = session::watched(screen, |watch| {
            let facts = surveyed(trace, &|| watch.is_cancelled()).facts;
            // Where a survey counts them, no further read is needed.
            let of_records = || n_threads(trace, &facts, &Met::of(trace, watch).threads);
            n_threads(trace, &facts, &BTreeSet::new()).or_else(of_records)
        });
    }

    /// Adds findings.
    pub(crate) fn add<'f>(&mut self, findings: impl IntoIterator<Item = &'f Finding>) {
        findings.into_iter().for_each(|finding| self.add_count(finding.severity, finding.count));
    }

    /// Adds this many findings of a severity.
    pub(crate) fn add_count(&mut self, severity: Severity, n: u64) {
        let all = match severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
            Severity::Note => &mut self.notes,
        };
        *all = all.saturating_add(n);
    }

    /// The findings in words.
    fn findings(&self) -> String {
        let kinds = [(self.errors, "error"), (self.warnings, "warning"), (self.notes, "note")];
        let mut words: Vec<String> =
            kinds.iter().filter(|(n, _)| *n > 0).map(|(n, what)| counted(*n, what)).collect();
        if self.error.is_some() {
            words.push(if self.format.is_some() { "not read to its end" } else { "not opened" }.to_owned());
        }
        if words.is_empty() { "none".to_owned() } else { words.join(", ") }
    }

    fn row(&self) -> Vec<Cell> {
        let count = |n: Option<u64>| n.map_or(Cell::Empty, Cell::Count);
        vec![
            Cell::Text(self.trace.clone()),
            Cell::Text(self.format.clone().unwrap_or_default()),
            count(self.records),
            count(self.threads),
            Cell::Text(self.findings()),
            self.packed_bytes.map_or(Cell::Empty, Cell::Bytes),
        ]
    }
}

/// Prints a line for each trace, which `read` summarises. A trace that cannot be opened has a line as well, and does not
/// prevent those of the others.
///
/// # Errors
/// The last error of opening; errors of writing.
pub(crate) fn print<'p>(
    paths: impl IntoIterator<Item = &'p PathBuf>,
    form: Form<'_>,
    screen: &Screen,
    read: &dyn Fn(&Path) -> Result<(Summary, Outcome)>,
) -> Result<Outcome> {
    let (mut traces, mut outcome, mut fault) = (Vec::new(), Outcome::Fine, None);
    for path in paths {
        let lost = |error: &Error| Summary {
            trace: input::name(path),
            error: Some(error.to_string()),
            ..Summary::default()
        };
        match read(path) {
            Ok((summary, of_trace)) => {
                traces.push(summary);
                outcome = outcome.and(of_trace);
            }
            Err(Stop::Fault(error)) => {
                traces.push(lost(&error));
                // All errors except the last are printed here; the verb returns the last one.
                if let Some(error) = fault.replace(error) {
                    screen.complain(&error);
                }
            }
            Err(Stop::Damage(error, _)) => {
                traces.push(Summary { errors: 1, ..lost(&error) });
                screen.complain(&error);
                outcome = outcome.and(Outcome::of_flaw(error.needs_newer()));
            }
            Err(stop) => return Err(stop),
        }
    }
    let summaries = Summaries { traces };
    if form.json {
        screen.json(&result::json(&summaries.traces))?;
    } else if let Some(text) = form.csv.text("summary.traces", || result::tables("summary", &summaries))? {
        screen.text(&text)?;
    } else {
        let head = ["trace", "format", "records", "threads", "findings", "size"].map(str::to_owned).into();
        let rows = summaries.traces.iter().map(Summary::row).collect();
        let grid = Grid { title: String::new(), head, rows, more: 0 };
        screen.documents([&Document::new("Traces").with(Block::Grid(grid))])?;
    }
    fault.map_or(Ok(outcome), |error| Err(Stop::Fault(error)))
}

/// What one read of all records met.
#[derive(Default)]
struct Met {
    records: u64,
    threads: BTreeSet<ThreadId>,
    found: Found,
    /// The first error, if a part could not be read to its end.
    error: Option<Error>,
}

impl Met {
    fn of(trace: &dyn Trace, watch: &Watch) -> Met {
        let mut met = Met::default();
        let Met { records, threads, found, error } = &mut met;
        for shard in trace.shards() {
            let scan = Scan::new(shard.id).columns(trace.columns());
            let read = trace.scan(&scan).and_then(|mut reader| {
                found.read_until(&mut *reader, &|| watch.is_cancelled(), |batch| {
                    *records += u64::from(batch.span.records);
                    threads.insert(batch.span.thread);
                    Ok(())
                })
            });
            if error.is_none() {
                *error = read.err();
            }
        }
        met
    }
}

/// Reads a whole trace: counts records and threads, and adds findings and the first error to its summary.
pub(crate) fn read(trace: &dyn Trace, name: String, screen: &Screen) -> (Summary, Outcome) {
    let mut summary = Summary::of(name, trace);
    let (met, facts, is_cancelled) = session::watched(screen, |watch| {
        let met = Met::of(trace, watch);
        (met, surveyed(trace, &|| watch.is_cancelled()).facts, watch.is_cancelled())
    });
    summary.records = Some(met.records);
    summary.threads = n_threads(trace, &facts, &met.threads);
    let verdict = session::Verdict::new(trace, met.found, met.error, is_cancelled);
    summary.add(&verdict.findings);
    summary.error = why(&verdict);
    let outcome = outcome(&verdict);
    (summary, outcome)
}

/// Why reading ended early; `None` if it did not.
pub(crate) fn why(verdict: &session::Verdict) -> Option<String> {
    let cancelled = verdict.cancelled.then(|| "interrupted".to_owned());
    verdict.error.as_ref().map(|error| error.to_string()).or(cancelled)
}

/// The outcome of a verdict that is not told.
pub(crate) fn outcome(verdict: &session::Verdict) -> Outcome {
    let of_error = verdict.error.as_ref().is_some_and(|error| error.needs_newer());
    let needs_newer = of_error || verdict.findings.iter().any(Finding::needs_newer);
    if verdict.is_of_whole() { Outcome::Fine } else { Outcome::of_flaw(needs_newer) }
}

/// Number of threads: as the trace says, or those that have files, or those that were `met`.
fn n_threads(trace: &dyn Trace, facts: &[Fact], met: &BTreeSet<ThreadId>) -> Option<u64> {
    let said = facts.iter().find(|fact| fact.key == "threads").and_then(|fact| fact.value.as_u64());
    let of_files = || {
        let shards = trace.shards();
        let is_all = !shards.is_empty() && shards.iter().all(|shard| shard.kind == ShardKind::Thread);
        let threads: BTreeSet<ThreadId> = shards.iter().filter_map(|shard| shard.thread).collect();
        is_all.then_some(threads.len() as u64)
    };
    let of_records = || {
        let is_known = !met.is_empty() && trace.columns().has(Columns::THREADS);
        is_known.then_some(met.len() as u64)
    };
    said.or_else(of_files).or_else(of_records)
}
