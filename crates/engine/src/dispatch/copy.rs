//! Copying of single records from one batch to another.

use quipu_model::{Batch, Columns, Cursor, TableBuf};
use std::ops::Range;

/// The rows of a native table for the next record: one, or all rows of a batch that has more rows than records, because a
/// skip repeats records there.
pub(super) fn rows_of_next(cursor: &Cursor, from: &dyn TableBuf, n_records: u32) -> Range<usize> {
    match from.n_rows() > n_records as usize {
        true => 0..from.n_rows(),
        false => cursor.record as usize..cursor.record as usize + 1,
    }
}

/// Moves the last record of a batch to the end of another batch of the same thread.
pub(super) fn move_last(from: &mut Batch, to: &mut Batch, all: Columns) {
    let start = Cursor::at(from, from.span.records.saturating_sub(1));
    from.copy_records(&mut start.clone(), 1, to, all, |code| code);
    from.truncate(&start);
}
