//! Taking records of another format: what can be carried over, what is lost, and the book that is kept of it.
//!
//! An [`RecordWriter`] says which columns of the lenses its format has room for. The engine makes a plan of that before
//! anything is read, hands over the batches, and shows the [`Ledger`] at the end: nothing is left out or made up without
//! being written there.

use crate::batch::Batch;
use crate::columns::Columns;
use crate::damaged::Damaged;
use crate::error::Result;
use crate::options::{OptionSpec, Options};
use crate::trace::{Fact, Meta, Trace};
use std::path::Path;

/// How a format takes records of others.
pub trait RecordWriter: Sync {
    /// What it takes.
    fn info(&self) -> &'static RecordWriterInfo;

    /// Begins a trace with what `job` says; records come to what is returned.
    ///
    /// # Errors
    /// `Usage` if an option is wrong, or the output exists and may not be replaced; `Io` if it cannot be made.
    fn begin(&self, job: &RecordJob<'_>) -> Result<Box<dyn RecordSink>>;
}

/// What a format has room for.
#[derive(Debug)]
pub struct RecordWriterInfo {
    /// Columns without which there is nothing to write.
    pub required: Columns,
    /// Columns that it has room for.
    pub taken: Columns,
    /// All that it may have to write although a source does not say it. The engine refuses a line of the ledger that says
    /// otherwise.
    pub made_up: &'static [MadeUp],
    /// Its options.
    pub options: &'static [OptionSpec],
}

/// Something that is written although a source may not say it.
#[derive(Clone, Copy, Debug)]
pub struct MadeUp {
    /// What, in the words of the ledger.
    pub what: &'static str,
    /// When a source says it.
    pub said: Said,
}

/// When a source says what a format must write.
#[derive(Clone, Copy, Debug)]
pub enum Said {
    /// If it carries one of these columns.
    By(Columns),
    /// If this holds of what it says of itself.
    InHeader(fn(&Meta) -> bool),
    /// Only its records show whether it does.
    ByRecords,
}

/// What is written, and where.
#[derive(Clone, Copy)]
pub struct RecordJob<'a> {
    /// The trace that records come from.
    pub trace: &'a dyn Trace,
    /// The columns that come.
    pub columns: Columns,
    /// What the user said; see [`RecordWriterInfo::options`].
    pub options: &'a Options,
    /// What is written.
    pub output: &'a Path,
    /// Whether a file of that name may be replaced.
    pub replace: bool,
    /// The container that was asked for, by its name.
    pub container: Option<&'a str>,
    /// How hard to pack; the usual if `None`.
    pub level: Option<u32>,
    /// Whether what is made of a damaged trace is kept.
    pub damaged: Damaged,
    /// Whether the first damage is an error of its own.
    pub strict: bool,
}

/// A trace in the making.
pub trait RecordSink {
    /// Takes a batch, in the order of time; what it has no room for goes into the ledger.
    ///
    /// # Errors
    /// What writing says.
    fn take(&mut self, batch: &Batch, ledger: &mut Ledger) -> Result<()>;

    /// The number of records written so far.
    fn n_written(&self) -> u64;

    /// Takes in that no more comes; what the end of the trace needs goes into the ledger.
    ///
    /// # Errors
    /// What writing says; then there is no trace.
    fn end(&mut self, ledger: &mut Ledger) -> Result<()>;

    /// Gives the trace its name.
    ///
    /// # Errors
    /// What writing says; then there is no trace.
    fn commit(self: Box<Self>) -> Result<Vec<Fact>>;
}

/// What became of something in a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It was carried over as it is.
    Kept,
    /// It was written in another way, from which it cannot be told exactly what it was.
    Changed,
    /// It was left out.
    Dropped,
    /// The source does not say it, and the target must.
    MadeUp,
}

impl Outcome {
    /// Stable name.
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
    /// What it is about.
    pub what: String,
    /// What became of it.
    pub outcome: Outcome,
    /// How often.
    pub count: u64,
}

/// The book of a conversion: what became of everything, in the order in which it came up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    lines: Vec<LedgerLine>,
}

impl Ledger {
    /// Adds to a line; nothing if the count is 0.
    pub fn add(&mut self, what: &str, outcome: Outcome, count: u64) {
        if count == 0 {
            return;
        }
        match self.lines.iter_mut().find(|line| line.outcome == outcome && line.what == what) {
            Some(line) => line.count += count,
            None => self.lines.push(LedgerLine { what: what.to_owned(), outcome, count }),
        }
    }

    /// The lines: what was kept first, then what was changed, dropped, made up.
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
