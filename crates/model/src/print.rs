//! Printing native records for people.

use crate::batch::Batch;
use crate::error::Error;

/// Prints rows of a format's derived table as lines of text, in the form that the format's users know.
pub trait Printer: Send {
    /// Writes the lines before the first record.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// Prints the rows of `batch.tables[0]` whose indexes are in `rows` (ascending). `ordinals` is added to the ordinals of
    /// records and instructions, so that positions in a merged stream can be printed: see [`Ordinals`].
    fn print(&mut self, batch: &Batch, rows: &[u32], ordinals: Ordinals, paint: &Paint, out: &mut Vec<u8>);

    /// Keeps the rows of `batch.tables[0]` that the printer's own options select, and of these the first `most`. For callers
    /// that count the printed rows; [`Printer::print`] prints no other rows in any case.
    fn choose(&mut self, _batch: &Batch, rows: &mut Vec<u32>, most: usize) {
        rows.truncate(most);
    }

    /// Number of rows so far that the user's options select, but that are only printed on request.
    fn n_left_out(&self) -> u64 {
        0
    }

    /// True if no further record will be printed, so that reading may stop.
    fn is_done(&self) -> bool {
        false
    }

    /// The reason why a record could not be printed in full, returned once; for example, a file for part of it could not be
    /// written.
    fn failure(&mut self) -> Option<Error> {
        None
    }

    /// Writes the lines after the last record.
    fn end(&mut self, out: &mut Vec<u8>);
}

/// A format's additions to the printing of rows of its tables.
///
/// Columns say which record a row belongs to. A form selects rows by conditions in the format's own words, and writes values
/// of arbitrary shape ([`Type::Value`](crate::schema::Type::Value)) in the format's way.
pub trait RowForm: Send {
    /// Removes the rows of `batch.tables[0]` that are not to be printed.
    fn choose(&mut self, batch: &Batch, rows: &mut Vec<u32>);

    /// True if no further row will be printed.
    fn is_done(&self) -> bool;

    /// Appends a value of a row as JSON; `node` is the value's first node.
    fn json(&mut self, batch: &Batch, row: u32, node: u32, out: &mut Vec<u8>);

    /// Appends a value of a row as text for people; `node` is the value's first node.
    fn text(&mut self, batch: &Batch, row: u32, node: u32, out: &mut Vec<u8>);

    /// The reason why a value could not be written in full, returned once.
    fn failure(&mut self) -> Option<Error>;
}

/// Offsets for the ordinals of a batch: 0 for a shard read alone; in a merged stream, the difference between the position in
/// the stream and the position in the shard (wrapping).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ordinals {
    /// Added to record ordinals.
    pub records: u64,
    /// Added to instruction ordinals.
    pub instrs: u64,
}

/// Strings to write around each class of text: terminal colour sequences, or nothing.
///
/// All colours of the program come from here, because a terminal lets only these through: see [`Paint::map`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paint {
    /// Before headings and names of functions.
    pub bold: &'static str,
    /// Before ordinals and thread names.
    pub dim: &'static str,
    /// Before instruction text.
    pub code: &'static str,
    /// Before data accesses.
    pub data: &'static str,
    /// Before markers.
    pub mark: &'static str,
    /// Before literals.
    pub literal: &'static str,
    /// Before errors.
    pub fault: &'static str,
    /// After any of them.
    pub reset: &'static str,
}

impl Paint {
    /// No colour.
    pub const PLAIN: Paint =
        Paint { bold: "", dim: "", code: "", data: "", mark: "", literal: "", fault: "", reset: "" };
    /// The sixteen colours that every terminal has.
    pub const ANSI: Paint = Paint {
        bold: "\x1b[1m",
        dim: "\x1b[2m",
        code: "\x1b[32m",
        data: "\x1b[36m",
        mark: "\x1b[33m",
        literal: "\x1b[34m",
        fault: "\x1b[31m",
        reset: "\x1b[0m",
    };

    /// The strings after `change`: a stream that must tell them from texts of traces gives them a form of its own.
    #[must_use]
    pub fn map(self, change: impl Fn(&'static str) -> &'static str) -> Paint {
        let Paint { bold, dim, code, data, mark, literal, fault, reset } = self;
        Paint {
            bold: change(bold),
            dim: change(dim),
            code: change(code),
            data: change(data),
            mark: change(mark),
            literal: change(literal),
            fault: change(fault),
            reset: change(reset),
        }
    }
}
