//! Conversion from another format: what can be carried over, what is lost, and the ledger of both.
//!
//! A [`RecordWriter`] declares which lens columns its format has room for. The engine plans the conversion from that before
//! it reads anything, hands over the batches, and shows the [`Ledger`] at the end: everything left out or made up must be
//! entered there.

use crate::batch::Batch;
use crate::columns::Columns;
use crate::damaged::Damaged;
use crate::error::Result;
use crate::options::{OptionSpec, Options};
use crate::trace::{Fact, Meta, Trace};
use std::path::Path;

/// The side of a format that writes records of other formats.
pub trait RecordWriter: Sync {
    /// Describes what the format can take.
    fn info(&self) -> &'static RecordWriterInfo;

    /// Begins a trace as `job` describes; the returned sink takes the records.
    ///
    /// # Errors
    /// `Usage` if an option is wrong, or if the output exists and may not be replaced; `Io` if the output cannot be created.
    fn begin(&self, job: &RecordJob<'_>) -> Result<Box<dyn RecordSink>>;
}

/// The description of a format as the target of conversions: its room, and the content that it must make up.
#[derive(Debug)]
pub struct RecordWriterInfo {
    /// Columns that a source must have.
    pub required: Columns,
    /// Columns that the format has room for.
    pub taken: Columns,
    /// Everything that the format may have to write although the source does not state it. The engine rejects a ledger line
    /// about anything else that was made up.
    pub made_up: &'static [MadeUp],
    /// Options of the conversion into this format.
    pub options: &'static [OptionSpec],
}

/// Something that must be written although the source may not state it.
#[derive(Clone, Copy, Debug)]
pub struct MadeUp {
    /// A description, in the words of the ledger.
    pub what: &'static str,
    /// The condition under which a source does state it.
    pub said: Said,
}

/// The condition under which a source states what a format must write.
#[derive(Clone, Copy, Debug)]
pub enum Said {
    /// The source fills one of these columns.
    By(Columns),
    /// This predicate holds for the source's description of itself.
    InHeader(fn(&Meta) -> bool),
    /// Only the records show whether the source states it.
    ByRecords,
}

/// A conversion: what to write, and where.
#[derive(Clone, Copy)]
pub struct RecordJob<'a> {
    /// The trace that records come from.
    pub trace: &'a dyn Trace,
    /// The columns that the batches will have.
    pub columns: Columns,
    /// Options that the user gave; see [`RecordWriterInfo::options`].
    pub options: &'a Options,
    /// Path of the output.
    pub output: &'a Path,
    /// Whether an existing file of that name may be replaced.
    pub replace: bool,
    /// Name of the container that was asked for; the format's own choice if `None`.
    pub container: Option<&'a str>,
    /// Compression level; the container's default if `None`.
    pub level: Option<u32>,
    /// Whether the output is kept if the input proves damaged.
    pub damaged: Damaged,
    /// Whether the first damage ends the conversion with an error of its own.
    pub strict: bool,
}

/// A trace that is being written.
pub trait RecordSink {
    /// Takes a batch, in order of time. What the format has no room for goes into the ledger.
    ///
    /// # Errors
    /// Errors of writing.
    fn take(&mut self, batch: &Batch, ledger: &mut Ledger) -> Result<()>;

    /// The number of records written so far.
    fn n_written(&self) -> u64;

    /// Ends the trace after the last batch. What the end of the trace needs goes into the ledger.
    ///
    /// # Errors
    /// Errors of writing; then no trace is made.
    fn end(&mut self, ledger: &mut Ledger) -> Result<()>;

    /// Gives the finished trace its name. Returns facts about it.
    ///
    /// # Errors
    /// Errors of writing; then no trace is made.
    fn commit(self: Box<Self>) -> Result<Vec<Fact>>;
}

/// The outcome of a conversion for one kind of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Carried over unchanged.
    Kept,
    /// Written in another form, from which the value in the source cannot be recovered exactly.
    Changed,
    /// Left out.
    Dropped,
    /// The source does not state it, but the target must contain it.
    MadeUp,
}

impl Outcome {
    /// The stable name of the outcome.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Kept => "kept",
            Outcome::Changed => "changed",
            Outcome::Dropped => "dropped",
            Outcome::MadeUp => "made up",
        }
    }
}

crate::result_names!(Outcome);

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LedgerLine {
    /// The content that the line is about.
    pub what: String,
    /// The outcome for it.
    pub outcome: Outcome,
    /// Number of times.
    pub count: u64,
}

/// The ledger of a conversion: the outcome for everything, in the order in which it came up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    lines: Vec<LedgerLine>,
}

impl Ledger {
    /// Adds `count` to a line, creating it if needed; does nothing if the count is 0.
    pub fn add(&mut self, what: &str, outcome: Outcome, count: u64) {
        if count == 0 {
            return;
        }
        match self.lines.iter_mut().find(|line| line.outcome == outcome && line.what == what) {
            Some(line) => line.count += count,
            None => self.lines.push(LedgerLine { what: what.to_owned(), outcome, count }),
        }
    }

    /// The lines: first what was kept, then what was changed, dropped, made up.
    pub fn lines(&self) -> Vec<LedgerLine> {
        let mut lines = self.lines.clone();
        lines.sort_by_key(|line| line.outcome);
        lines
    }

    /// True if nothing was changed, dropped or made up.
    pub fn is_lossless(&self) -> bool {
        self.lines.iter().all(|line| line.outcome == Outcome::Kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_summed_and_sorted_by_fate() {
        let mut ledger = Ledger::default();
        ledger.add("prefetches", Outcome::Dropped, 2);
        ledger.add("reads", Outcome::Kept, 1);
        ledger.add("nothing", Outcome::Dropped, 0);
        assert!(!ledger.is_lossless());
        ledger.add("prefetches", Outcome::Dropped, 3);
        let lines: Vec<_> = ledger.lines().into_iter().map(|line| (line.what, line.count)).collect();
        assert_eq!(lines, [("reads".to_owned(), 1), ("prefetches".to_owned(), 5)]);
    }
}
