//! Copying some records of a batch to the end of another, column by column.

use quipu_model::{Batch, Columns, Rows};
use std::ops::Range;

/// Where the next records of a batch begin in its columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) record: u32,
    accesses: usize,
    pub(super) instrs: usize,
    calls: usize,
    pub(super) threads: usize,
    marks: usize,
}

impl Cursor {
    /// Goes on by `n` records, and copies them to the end of `to` where that is wanted. `rename` says what an index into
    /// the code table is called there.
    pub(super) fn copy(
        &mut self,
        from: &Batch,
        n: u32,
        to: &mut Batch,
        wanted: Columns,
        rename: impl Fn(u32) -> u32,
    ) {
        let (start, end) = (self.record, self.record + n);
        let first = to.span.records;
        let renumber = |at: &u32| at - start + first;
        let rows = rows(&from.accesses.at, self.accesses, end);
        if wanted.has(Columns::ACCESSES) {
            let (source, target) = (&from.accesses, &mut to.accesses);
            target.at.extend(source.at[rows.clone()].iter().map(renumber));
            target.addr.extend_from_slice(&source.addr[rows.clone()]);
            target.size.extend_from_slice(&source.size[rows.clone()]);
            target.kind.extend_from_slice(&source.kind[rows.clone()]);
            extend(&mut target.pc, &source.pc, &rows);
        }
        self.accesses = rows.end;
        let rows = self::rows(&from.instrs.at, self.instrs, end);
        if wanted.has(Columns::INSTRS) {
            let (source, target) = (&from.instrs, &mut to.instrs);
            target.at.extend(source.at[rows.clone()].iter().map(renumber));
            target.pc.extend_from_slice(&source.pc[rows.clone()]);
            target.size.extend_from_slice(&source.size[rows.clone()]);
            target.flags.extend_from_slice(&source.flags[rows.clone()]);
            extend(&mut target.class, &source.class, &rows);
            extend(&mut target.taken, &source.taken, &rows);
            extend(&mut target.target, &source.target, &rows);
            let codes = source.code.get(rows.clone()).unwrap_or(&[]);
            target.code.extend(codes.iter().map(|code| rename(*code)));
        }
        self.instrs = rows.end;
        // A call stands at the record behind it; one at the very end has none.
        let behind = if end == from.span.records { end.saturating_add(1) } else { end };
        let rows = self::rows(&from.calls.at, self.calls, behind);
        if wanted.has(Columns::CALLS) {
            for row in rows.clone() {
                let (source, target) = (&from.calls, &mut to.calls);
                target.at.push(renumber(&source.at[row]));
                target.function.push(source.function[row]);
                target.edge.push(source.edge[row]);
                target.return_to.push(source.return_to[row]);
                target.result.push(source.result[row]);
                target.args.extend_from_slice(source.args_of(row));
                target.args_end.push(target.args.len() as u32); // Bounded by the batch it came from.
            }
        }
        self.calls = rows.end;
        let rows = self::rows(&from.threads.at, self.threads, end);
        if wanted.has(Columns::THREADS) {
            let (source, target) = (&from.threads, &mut to.threads);
            target.at.extend(source.at[rows.clone()].iter().map(renumber));
            target.what.extend_from_slice(&source.what[rows.clone()]);
            target.value.extend_from_slice(&source.value[rows.clone()]);
        }
        self.threads = rows.end;
        let rows = self::rows(&from.marks.at, self.marks, end);
        if wanted.has(Columns::MARKS) {
            let (source, target) = (&from.marks, &mut to.marks);
            target.at.extend(source.at[rows.clone()].iter().map(renumber));
            target.kind.extend_from_slice(&source.kind[rows.clone()]);
            target.value.extend_from_slice(&source.value[rows.clone()]);
        }
        self.marks = rows.end;
        self.record = end;
        to.span.records += n;
    }

    /// The rows of a native table that stand for the next record: one, or all of a batch that has more rows than records,
    /// since a skip repeats records there.
    pub(super) fn rows_of_next(&self, from: &Rows, n_records: u32) -> Range<usize> {
        match from.len() > n_records as usize {
            true => 0..from.len(),
            false => self.record as usize..self.record as usize + 1,
        }
    }
}

/// The rows from `start` on of records before `end`.
fn rows(at: &[u32], start: usize, end: u32) -> Range<usize> {
    // Mostly the records in question are few, and there are about as many rows.
    let near = start + (at.len() - start).min(8);
    match at[start..near].iter().position(|at| *at >= end) {
        Some(n) => start..start + n,
        None => start..near + at[near..].partition_point(|at| *at < end),
    }
}

/// A column that need not be there.
fn extend<T: Copy>(target: &mut Vec<T>, source: &[T], rows: &Range<usize>) {
    target.extend_from_slice(source.get(rows.clone()).unwrap_or(&[]));
}

/// Moves the last record of a batch to the end of another, of the same thread.
pub(super) fn move_last(from: &mut Batch, to: &mut Batch, all: Columns) {
    let last = from.span.records.saturating_sub(1);
    let mut cursor = Cursor {
        record: last,
        accesses: from.accesses.at.partition_point(|at| *at < last),
        instrs: from.instrs.at.partition_point(|at| *at < last),
        calls: from.calls.at.partition_point(|at| *at < last),
        threads: from.threads.at.partition_point(|at| *at < last),
        marks: from.marks.at.partition_point(|at| *at < last),
    };
    let start = cursor;
    cursor.copy(from, 1, to, all, |code| code);
    truncate(from, &start);
}

/// Removes the records from `cursor` on.
fn truncate(batch: &mut Batch, cursor: &Cursor) {
    let accesses = &mut batch.accesses;
    accesses.at.truncate(cursor.accesses);
    accesses.addr.truncate(cursor.accesses);
    accesses.size.truncate(cursor.accesses);
    accesses.kind.truncate(cursor.accesses);
    accesses.pc.truncate(cursor.accesses);
    let instrs = &mut batch.instrs;
    instrs.at.truncate(cursor.instrs);
    instrs.pc.truncate(cursor.instrs);
    instrs.size.truncate(cursor.instrs);
    instrs.flags.truncate(cursor.instrs);
    instrs.class.truncate(cursor.instrs);
    instrs.taken.truncate(cursor.instrs);
    instrs.target.truncate(cursor.instrs);
    instrs.code.truncate(cursor.instrs);
    let calls = &mut batch.calls;
    let n_args = cursor.calls.checked_sub(1).map_or(0, |row| calls.args_end[row] as usize);
    calls.at.truncate(cursor.calls);
    calls.function.truncate(cursor.calls);
    calls.edge.truncate(cursor.calls);
    calls.return_to.truncate(cursor.calls);
    calls.result.truncate(cursor.calls);
    calls.args_end.truncate(cursor.calls);
    calls.args.truncate(n_args);
    let threads = &mut batch.threads;
    threads.at.truncate(cursor.threads);
    threads.what.truncate(cursor.threads);
    threads.value.truncate(cursor.threads);
    let marks = &mut batch.marks;
    marks.at.truncate(cursor.marks);
    marks.kind.truncate(cursor.marks);
    marks.value.truncate(cursor.marks);
    batch.span.records = cursor.record;
}
