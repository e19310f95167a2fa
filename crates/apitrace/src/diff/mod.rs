//! `diff`: compares two traces call by call.
//!
//! There are three passes: each call of both traces is hashed to a key (`keys`, 8 bytes a call); the keys are aligned
//! (`align`, linear space); then both traces are read again side by side along the alignment, calls are compared value by
//! value (`compare`), with addresses and names of objects matched as they appear (`rename`), and a [`Show`] reports the
//! differences. So memory is 8 bytes for each call of both traces, plus some for each difference and each name, whatever the
//! calls contain. Calls that stand side by side are compared by value, so a collision of keys cannot hide a difference.
//!
//! [`print`](mod@print) writes differences as Quipu's text and JSON, [`original`] as apitrace does, and [`lines`] compares
//! dumps line by line, as apitrace does with the help of `diff`. SPEC: apitrace.md#comparing.

mod compare;
mod keys;
pub mod lines;
pub mod original;
pub mod print;
mod rename;

use crate::callset::CallSet;
use crate::pattern;
use crate::reader::CallReader;
use crate::record::VERSION_PROPERTIES;
use crate::trace::{self, ApiTrace};
pub use compare::Difference;
use compare::{Side as CallSide, compare};
use keys::{Functions, function_of, key};
use quipu_model::align::{Run, align, forget_end};
use quipu_model::damaged::Reading;
use quipu_model::options::{Kind, OptionSpec};
use quipu_model::trace::settled;
use quipu_model::transform::{CompareJob, Compared, Comparison, Progress, TransformInfo};
use quipu_model::values::Call;
use quipu_model::{Batch, Columns, Error, Finding, Found, Reader, Result, Scan, ShardId, ThreadId, Trace};
use regex_lite::Regex;
use rename::Renamer;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

/// The comparison of this format.
#[derive(Debug)]
pub struct Diff;

const WHAT: &str = "Comparison";
const CALLS: OptionSpec =
    OptionSpec::new("calls", Kind::Set, "*", "Only these calls of both traces.").repeated().group(WHAT);
const OLD_CALLS: OptionSpec =
    OptionSpec::new("old-calls", Kind::Set, "", "Only these calls of the old trace.").repeated().group(WHAT);
const NEW_CALLS: OptionSpec =
    OptionSpec::new("new-calls", Kind::Set, "", "Only these calls of the new trace.").repeated().group(WHAT);
const IGNORE: OptionSpec =
    OptionSpec::new("ignore", Kind::Text, "", "Ignore functions whose names match this regular expression.")
        .value("REGEX")
        .group(WHAT);
const NAMES: OptionSpec = OptionSpec::new(
    "names",
    Kind::Choice(&["renamed", "exact", "ignored"]),
    "renamed",
    "How to compare addresses and names of objects.",
)
.value("renamed|exact|ignored")
.group(WHAT);
const CONTEXT: OptionSpec =
    OptionSpec::new("context", Kind::Count, "3", "Number of equal calls to show around differences.")
        .short('U');

static INFO: TransformInfo = TransformInfo {
    name: "diff",
    title: "what differs between two traces, call by call",
    options: &[CALLS, OLD_CALLS, NEW_CALLS, IGNORE, NAMES, CONTEXT],
};

/// The comparison of addresses and names of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// The first two that appear in the same place are matched, and must stay matched.
    Renamed,
    /// They must be equal.
    Exact,
    /// They are all considered equal.
    Ignored,
}

/// Selects the calls to compare, and defines which values are equal.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Comparison of addresses and names of objects.
    pub names: Names,
    /// Whether one NaN equals another.
    pub nan_is_equal: bool,
    /// Calls of the old and of the new trace to compare; all if `None`.
    pub calls: [Option<CallSet>; 2],
    /// Threads whose calls are compared; all if empty.
    pub threads: Vec<ThreadId>,
    /// Names of functions to ignore.
    pub ignored: &'static [&'static str],
    /// Functions to ignore, as a pattern for their names.
    pub ignore: Option<Regex>,
}

impl Rules {
    /// Quipu's own rules: all calls, with names renamed.
    pub fn ours() -> Rules {
        Rules {
            names: Names::Renamed,
            nan_is_equal: true,
            calls: [None, None],
            threads: Vec::new(),
            ignored: &[],
            ignore: None,
        }
    }

    /// Whether the rules select a call, by number, flags and thread; the function is checked separately.
    fn counts(&self, side: Side, call: &Call) -> bool {
        self.calls[side as usize].as_ref().is_none_or(|calls| calls.has(call.number, call.flags))
            && (self.threads.is_empty() || self.threads.contains(&call.thread.into()))
    }
}

/// Identifies one of the two traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    Old,
    New,
}

/// A call within its batch.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The batch that contains the call.
    pub batch: &'a Batch,
    /// The call's row in the batch.
    pub row: u32,
}

impl<'a> At<'a> {
    fn side(&self) -> Option<CallSide<'a>> {
        let call = self.batch.values.calls.get(self.row as usize)?;
        Some(CallSide { call, values: &self.batch.values, types: &self.batch.types })
    }

    fn name(&self) -> &'a [u8] {
        let function = self.side().and_then(|side| side.types.function(side.call.function));
        function.map_or(&[], |function| &function.name)
    }
}

/// Receives the outcome of a comparison, call by call.
pub trait Show {
    /// The traces' properties differ. apitrace ignores properties; so does this default.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn property(&mut self, _name: &[u8], _old: Option<&[u8]>, _new: Option<&[u8]>) -> Result<()> {
        Ok(())
    }

    /// Two calls are equal.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn same(&mut self, old: At<'_>, new: At<'_>) -> Result<()>;

    /// Two calls of one function differ.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn changed(&mut self, old: At<'_>, new: At<'_>, difference: &Difference) -> Result<()>;

    /// A call of the old trace is missing in the new one.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn deleted(&mut self, old: At<'_>) -> Result<()>;

    /// A call of the new trace was not in the old one.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn inserted(&mut self, new: At<'_>) -> Result<()>;

    /// The comparison is complete.
    ///
    /// # Errors
    /// If the output cannot be written.
    fn end(&mut self, summary: &Summary) -> Result<()>;
}

/// Numbers of equal and different calls.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Calls that are in both.
    pub same: u64,
    /// Calls of one function that differ.
    pub changed: u64,
    /// Calls that are in the old trace only.
    pub deleted: u64,
    /// Calls that are in the new trace only.
    pub inserted: u64,
    /// Properties that differ, whether or not they are shown.
    pub properties: u64,
    /// Outcome of reading the old trace and the new one.
    pub readings: [Reading; 2],
}

impl Summary {
    /// True if nothing differs.
    pub fn is_same(&self) -> bool {
        self.changed == 0 && self.deleted == 0 && self.inserted == 0 && self.properties == 0
    }
}

/// Compares two traces. If one cannot be read to its end, compares and shows the part before the error, and puts the error
/// into the summary.
///
/// # Errors
/// Errors of opening and showing.
pub fn diff(
    old: &ApiTrace,
    new: &ApiTrace,
    rules: &Rules,
    show: &mut dyn Show,
    progress: &dyn Progress,
) -> Result<Summary> {
    // The second pass reads only data that the first one found intact.
    let keys = |trace, side| settled(trace, || false, || keys_of(trace, rules, side, progress));
    let ((olds, old_reading), (news, new_reading)) = (keys(old, Side::Old)?, keys(new, Side::New)?);
    let mut runs = align(&olds, &news);
    forget_end(&mut runs, old_reading.error.is_some(), new_reading.error.is_some());
    let mut walk = Walk {
        has_marks: [old, new].iter().all(|trace| trace.header().version >= VERSION_PROPERTIES),
        old: Calls::new(old, rules, Side::Old)?,
        new: Calls::new(new, rules, Side::New)?,
        rules,
        renamer: Renamer::default(),
        found: Difference::default(),
        summary: Summary::default(),
        show,
    };
    walk.properties(old, new)?;
    let (mut a, mut b) = (0usize, 0usize);
    let mut runs = runs.into_iter().peekable();
    while let Some(run) = runs.next() {
        progress.go_on()?;
        match run {
            Run::Equal(n) => {
                walk.both(n)?;
                (a, b) = (a + n as usize, b + n as usize); // Lengths of slices.
            }
            Run::Insert(n) => {
                walk.inserted(n)?;
                b += n as usize;
            }
            Run::Delete(n) => {
                let n_new = match runs.peek() {
                    Some(Run::Insert(n)) => *n,
                    _ => 0,
                };
                if n_new == 0 {
                    walk.deleted(n)?;
                } else {
                    runs.next();
                    let functions =
                        |keys: &[u64]| keys.iter().map(|key| function_of(*key)).collect::<Vec<_>>();
                    let olds = functions(&olds[a..a + n as usize]);
                    let news = functions(&news[b..b + n_new as usize]);
                    walk.replaced(&align(&olds, &news))?;
                }
                (a, b) = (a + n as usize, b + n_new as usize);
            }
        }
    }
    let Walk { mut summary, show, .. } = walk;
    summary.readings = [old_reading, new_reading];
    show.end(&summary)?;
    Ok(summary)
}

/// The keys of all selected calls, and the outcome of reading them. This pass reads everything, so it finds everything that
/// is wrong with a trace.
fn keys_of(
    trace: &ApiTrace,
    rules: &Rules,
    side: Side,
    progress: &dyn Progress,
) -> Result<(Vec<u64>, Reading)> {
    let mut found = begun(trace);
    let mut functions = Functions::default();
    let mut keys = Vec::new();
    let mut reader = reader(trace)?;
    let error = loop {
        let batch = match reader.read() {
            Ok(Some(batch)) => batch,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        progress.go_on()?;
        progress.advance(batch.values.calls.len() as u64, 0);
        batch.findings.drain(..).for_each(|finding| found.push(finding));
        for call in &batch.values.calls {
            if rules.counts(side, call) {
                keys.extend(key(call, &batch.values, &batch.types, &mut functions, rules, side));
            }
        }
    };
    Ok((keys, ended(found, error)))
}

/// The findings from opening a trace.
fn begun(trace: &ApiTrace) -> Found {
    let mut found = Found::default();
    trace.meta().findings.iter().cloned().for_each(|finding| found.push(finding));
    found
}

/// The outcome of a reading with these findings and this error.
fn ended(found: Found, error: Option<Error>) -> Reading {
    Reading { findings: found.into_vec(), error: error.map(Into::into), doubtful_from: None }
}

fn reader(trace: &ApiTrace) -> Result<CallReader> {
    let scan = Scan { ahead: true, ..Scan::new(ShardId(0)).columns(Columns::CALL_VALUES) };
    CallReader::new(trace.sound(), &scan)
}

/// Iterates over the selected calls of a trace.
struct Calls<'r> {
    reader: CallReader,
    rules: &'r Rules,
    side: Side,
    functions: Functions,
    /// The row after the current call in the current batch.
    row: usize,
}

impl<'r> Calls<'r> {
    fn new(trace: &ApiTrace, rules: &'r Rules, side: Side) -> Result<Calls<'r>> {
        Ok(Calls { reader: reader(trace)?, rules, side, functions: Functions::default(), row: 0 })
    }

    /// Advances to the next selected call; returns its row.
    fn next(&mut self) -> Result<u32> {
        loop {
            let batch = self.reader.batch();
            while let Some(call) = batch.values.calls.get(self.row) {
                self.row += 1;
                let is_wanted = self.rules.counts(self.side, call);
                let function = self.functions.get(call.function, &batch.types, self.rules);
                if is_wanted && function.is_some_and(|function| !function.is_ignored) {
                    return Ok(self.row as u32 - 1); // A batch has few.
                }
            }
            self.row = 0;
            match self.reader.read()? {
                Some(_) => {}
                None => return Err(Error::truncated("the trace changed while it was read")),
            }
        }
    }

    fn at(&mut self, row: u32) -> At<'_> {
        At { batch: self.reader.batch(), row }
    }
}

/// State of the side-by-side pass over both traces.
struct Walk<'r> {
    /// Whether both streams can mark calls that the tracer made up; they can from the version on that has properties.
    has_marks: bool,
    old: Calls<'r>,
    new: Calls<'r>,
    rules: &'r Rules,
    renamer: Renamer,
    found: Difference,
    summary: Summary,
    show: &'r mut dyn Show,
}

impl Walk<'_> {
    /// Compares the properties; streams before version 6 have none.
    fn properties(&mut self, old: &ApiTrace, new: &ApiTrace) -> Result<()> {
        if [old, new].iter().any(|trace| trace.header().version < VERSION_PROPERTIES) {
            return Ok(());
        }
        // Of properties with the same name, the last counts.
        let all = |trace: &ApiTrace| trace.header().properties.iter().cloned().collect::<BTreeMap<_, _>>();
        let (old, new) = (all(old), all(new));
        let names: BTreeSet<&Vec<u8>> = old.keys().chain(new.keys()).collect();
        for name in names {
            let (old, new) = (old.get(name).map(|value| &value[..]), new.get(name).map(|value| &value[..]));
            if old != new {
                self.summary.properties += 1;
                self.show.property(name, old, new)?;
            }
        }
        Ok(())
    }

    /// Compares `n` pairs of calls whose keys, or at least their functions, are equal.
    fn both(&mut self, n: u64) -> Result<()> {
        for _ in 0..n {
            let (old_row, new_row) = (self.old.next()?, self.new.next()?);
            let old = At { batch: self.old.reader.batch(), row: old_row };
            let new = At { batch: self.new.reader.batch(), row: new_row };
            // The hashes of two functions may collide, though rarely.
            if old.name() != new.name() {
                self.summary.deleted += 1;
                self.summary.inserted += 1;
                self.show.deleted(old)?;
                self.show.inserted(new)?;
                continue;
            }
            let (Some(a), Some(b)) = (old.side(), new.side()) else { continue };
            if let Some(function) = self.old.functions.get(a.call.function, a.types, self.rules) {
                compare(a, b, function, self.rules, &mut self.renamer, &mut self.found);
                self.found.fake &= self.has_marks;
            }
            if self.found.is_none() {
                self.summary.same += 1;
                self.show.same(old, new)?;
            } else {
                self.summary.changed += 1;
                self.show.changed(old, new, &self.found)?;
            }
        }
        Ok(())
    }

    fn deleted(&mut self, n: u64) -> Result<()> {
        for _ in 0..n {
            let row = self.old.next()?;
            self.summary.deleted += 1;
            self.show.deleted(self.old.at(row))?;
        }
        Ok(())
    }

    fn inserted(&mut self, n: u64) -> Result<()> {
        for _ in 0..n {
            let row = self.new.next()?;
            self.summary.inserted += 1;
            self.show.inserted(self.new.at(row))?;
        }
        Ok(())
    }

    /// Handles a run of replaced calls, aligned by their functions.
    fn replaced(&mut self, runs: &[Run]) -> Result<()> {
        for run in runs {
            match *run {
                Run::Equal(n) => self.both(n)?,
                Run::Delete(n) => self.deleted(n)?,
                Run::Insert(n) => self.inserted(n)?,
            }
        }
        Ok(())
    }
}

impl Comparison for Diff {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn run(&self, job: &CompareJob<'_>, progress: &dyn Progress, out: &mut dyn Write) -> Result<Compared> {
        let options = job.options;
        let mut rules = Rules::ours();
        for (spec, sides) in [(&CALLS, &[0, 1][..]), (&OLD_CALLS, &[0]), (&NEW_CALLS, &[1])] {
            for text in options.texts(spec) {
                for side in sides {
                    rules.calls[*side].get_or_insert_default().add(text)?;
                }
            }
        }
        rules.ignore = pattern(options, &IGNORE)?;
        rules.names = match options.word(&NAMES) {
            "exact" => Names::Exact,
            "ignored" => Names::Ignored,
            _ => Names::Renamed,
        };
        rules.threads.clone_from(&job.opening.threads);
        let (old, new) = match (trace::open(job.old, job.opening), trace::open(job.new, job.opening)) {
            (Ok(old), Ok(new)) => (old, new),
            // Both traces are damaged: the error must report the loss of each.
            (Err(old), Err(new)) if new.is_damage() && old.to_string() != new.to_string() => {
                return Err(old.after(vec![Finding::of_end(&new)]));
            }
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        let context = options.count(&CONTEXT);
        let summary = if job.json {
            diff(&old, &new, &rules, &mut print::Json::new(out)?, progress)?
        } else {
            let mut show = print::Text::new(out, &job.paint, context, [job.old.name(), job.new.name()])?;
            diff(&old, &new, &rules, &mut show, progress)?
        };
        Ok(Compared { is_same: summary.is_same(), readings: summary.readings })
    }
}
