//! Printing native records as people read them.

use crate::batch::Batch;
use crate::error::Error;

/// Prints rows of a format's derived table as text lines, the way the format's users know them.
pub trait Printer: Send {
    /// The lines before the first record.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// Prints the rows of `batch.tables[0]` whose numbers are in `rows` (ascending). `base` is the number of
    /// records and instructions printed as ordinals instead of the shard's own: see [`Ordinals`].
    fn print(&mut self, batch: &Batch, rows: &[u32], ordinals: Ordinals, paint: &Paint, out: &mut Vec<u8>);

    /// True if no record to come will be printed, so that reading may stop.
    fn is_done(&self) -> bool {
        false
    }

    /// Whether it writes what [`Paint`] says. What others print has no colours but those that the trace itself has in its
    /// texts.
    fn paints(&self) -> bool {
        true
    }

    /// What kept a record from being printed in full, once: a file that a part of it should go to, say.
    fn failure(&mut self) -> Option<Error> {
        None
    }

    /// The lines after the last record.
    fn end(&mut self, out: &mut Vec<u8>);
}

/// What a format adds to the printing of rows of its tables.
///
/// Tables say by their columns which record a row belongs to; what of a trace is to be printed may be said in the format's
/// own words, and values of any shape ([`Type::Value`](crate::schema::Type::Value)) are written in its own way.
pub trait RowForm: Send {
    /// Takes out those of the rows of `batch.tables[0]` that are not to be printed.
    fn choose(&mut self, batch: &Batch, rows: &mut Vec<u32>);

    /// True if no row to come will be printed.
    fn is_done(&self) -> bool;

    /// Appends a value of a row, as JSON: its first node is given.
    fn json(&mut self, batch: &Batch, row: u32, node: u32, out: &mut Vec<u8>);

    /// Appends a value of a row as people read it: its first node is given.
    fn text(&mut self, batch: &Batch, row: u32, node: u32, out: &mut Vec<u8>);

    /// What kept a value from being written in full, once.
    fn failure(&mut self) -> Option<Error>;
}

/// What to add to the ordinals of a batch: 0 for a shard read alone; in a merged stream, the difference between the
/// position in the stream and the position in the shard (wrapping).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ordinals {
    /// Added to record ordinals.
    pub records: u64,
    /// Added to instruction ordinals.
    pub instrs: u64,
}

/// What to write around each sort of text: terminal colour sequences, or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paint {
    /// Before ordinals and thread names.
    pub dim: &'static str,
    /// Before instruction text.
    pub code: &'static str,
    /// Before data accesses.
    pub data: &'static str,
    /// Before markers.
    pub mark: &'static str,
    /// After any of them.
    pub reset: &'static str,
}

impl Paint {
    /// No colour.
    pub const PLAIN: Paint = Paint { dim: "", code: "", data: "", mark: "", reset: "" };
    /// The sixteen colours that every terminal has.
    pub const ANSI: Paint =
        Paint { dim: "\x1b[2m", code: "\x1b[32m", data: "\x1b[36m", mark: "\x1b[33m", reset: "\x1b[0m" };
}
