//! The batch: what one read delivers.

use crate::code::CodeTable;
use crate::columns::Columns;
use crate::dicts::Dicts;
use crate::error::Place;
use crate::finding::{Finding, Found, Severity};
use crate::lens::{MAX_ACCESS_BYTES, for_each_lens};
use crate::table::TableBuf;
use crate::thread::ThreadId;
use crate::values::{Types, Values};
use std::ops::Range;

/// Where a batch came from. One batch never mixes threads: a reader cuts where the thread changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The shard, counted from 0 in [`Trace::shards`](crate::Trace::shards).
    pub shard: u32,
    /// The piece of the shard that the batch starts in, counted from 0.
    pub piece: u32,
    /// How many records stand before this batch in the shard: the first record has ordinal `first_record + 1`.
    pub first_record: u64,
    /// How many records the batch has.
    pub records: u32,
    /// How many instructions stand before this batch in the shard.
    pub first_instr: u64,
    /// How many instructions the batch has.
    pub instrs: u32,
    /// The thread of all records; the default if the trace does not say.
    pub thread: ThreadId,
    /// Its process; 0 if the trace does not say.
    pub process: u64,
    /// The processor that runs the thread at the batch's end, if the trace has said so.
    pub cpu: Option<u64>,
    /// The last clock reading at or before the batch's end; 0 before the first.
    pub clock: u64,
    /// If batches are cut at [clock readings](crate::Cut::clock): the clock that this batch opens a segment with, `None` if
    /// it continues with the segment before. A read that begins in the middle of a segment (after a window's skip) has that
    /// segment's own reading, or `None` if the reader does not know it: a merge delivers that rest first.
    pub opens: Option<u64>,
    /// Byte offset of the first record in the inflated stream of `member`.
    pub offset: u64,
    /// The archive member that the batch starts in, counted from 0.
    pub member: u32,
}

/// What the writer of a trace remarked between two records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remark {
    /// How many records of the batch stand before it.
    pub at: u32,
    /// Its reading of the trace's clock.
    pub clock: u64,
    /// What it says.
    pub text: String,
}

/// The rule that accesses of more than [`MAX_ACCESS_BYTES`] break.
const OVERSIZED: &str = "engine/oversized-access";

macro_rules! batch {
    ($(
        $(#[$doc:meta])*
        $field:ident: $Rows:ident $($before_next:ident)? { $(#[$all:meta])* $ROWS:ident = $($columns:tt)* }
    )*) => {
        /// About a thousand records of one thread, as columns. Columns that were not asked for are empty.
        #[derive(Debug, Default)]
        pub struct Batch {
            /// Where the batch came from.
            pub span: Span,
            /// The buffer that the native records stand in; use [`Batch::raw`].
            pub block: Vec<u8>,
            /// Which part of `block` is this batch.
            pub raw: Range<usize>,
            /// The instructions met so far in this read; rows point into it.
            pub codes: CodeTable,
            $($(#[$doc])* pub $field: crate::lens::$Rows,)*
            /// Calls with all their values, of formats that have such.
            pub values: Values,
            /// The types met so far in this read; values point into it.
            pub types: Types,
            /// The dictionaries that columns of tables point into, as far as they have grown in this read.
            pub dicts: Dicts,
            /// Native tables, in the order of [`Scan::tables`](crate::Scan::tables).
            pub tables: Vec<Box<dyn TableBuf>>,
            /// What the trace did wrong in or before this batch.
            pub findings: Vec<Finding>,
            /// What the writer of the trace remarked between records; nothing that analyses count.
            pub remarks: Vec<Remark>,
            /// How much there is that no lens shows, in the order of
            /// [`FormatInfo::beyond_lenses`](crate::trace::FormatInfo::beyond_lenses); empty unless
            /// [`Scan::beyond`](crate::Scan::beyond) asks for it and the format counts such.
            pub beyond: Vec<u64>,
        }

        /// Where the next records of a batch begin in the rows of each lens.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Cursor {
            /// The next record.
            pub record: u32,
            $($(#[$doc])* pub $field: usize,)*
        }

        impl Cursor {
            /// Where a record of a batch begins.
            pub fn at(batch: &Batch, record: u32) -> Cursor {
                Cursor {
                    record,
                    $($field: batch.$field.at.partition_point(|at| *at < record),)*
                }
            }
        }

        impl Batch {
            /// The rows of each lens, in the order of [`Columns::LENSES`].
            pub fn lenses(&self) -> impl Iterator<Item = (&[u32], &dyn TableBuf)> {
                [$((&self.$field.at[..], &self.$field as &dyn TableBuf),)*].into_iter()
            }

            /// All rows: those of each lens, then the native tables.
            pub fn all_tables(&self) -> impl Iterator<Item = &dyn TableBuf> {
                self.lenses().map(|(_, rows)| rows).chain(self.tables.iter().map(|table| &**table))
            }

            /// Copies the next `n` records to the end of another batch, those rows that are wanted, and moves the cursor
            /// past them. `rename` says what an index into the code table is called there.
            pub fn copy_records(
                &self,
                cursor: &mut Cursor,
                n: u32,
                to: &mut Batch,
                wanted: Columns,
                rename: impl Fn(u32) -> u32,
            ) {
                let (start, end) = (cursor.record, cursor.record + n);
                let first = to.span.records;
                $(
                    let end_of_rows = batch!(@end self end $($before_next)?);
                    let rows = rows_before(&self.$field.at, cursor.$field, end_of_rows);
                    if wanted.has(Columns::$ROWS) && !rows.is_empty() {
                        let n_before = to.$field.at.len();
                        to.$field.append(&self.$field, rows.clone(), &rename);
                        to.$field.at[n_before..].iter_mut().for_each(|at| *at = *at - start + first);
                    }
                    cursor.$field = rows.end;
                )*
                cursor.record = end;
                to.span.records += n;
            }

            /// Removes the records from `cursor` on.
            pub fn truncate(&mut self, cursor: &Cursor) {
                $(self.$field.truncate(cursor.$field);)*
                self.span.records = cursor.record;
            }

            /// The rows of a lens, by its position, taken out without a copy; none stay.
            pub fn take_lens(&mut self, nth: usize) -> Option<Box<dyn TableBuf>> {
                let mut at = 0_usize..;
                $(if at.next() == Some(nth) {
                    return Some(Box::new(std::mem::take(&mut self.$field)));
                })*
                None
            }

            /// Removes the rows of all lenses, keeping buffers.
            fn clear_lenses(&mut self) {
                $(self.$field.clear();)*
            }
        }
    };
    (@end $self:ident $end:ident) => { $end };
    // A call stands at the record that follows; one at the very end has none.
    (@end $self:ident $end:ident before_next) => {
        if $end == $self.span.records { $end.saturating_add(1) } else { $end }
    };
}

for_each_lens!(batch);

/// The rows from `start` on of records before `end`.
fn rows_before(at: &[u32], start: usize, end: u32) -> Range<usize> {
    // Mostly the records in question are few, and there are about as many rows.
    let near = start + (at.len() - start).min(8);
    match at[start..near].iter().position(|at| *at >= end) {
        Some(n) => start..start + n,
        None => start..near + at[near..].partition_point(|at| *at < end),
    }
}

impl Batch {
    /// The native records' own bytes, whole records only; empty unless
    /// [`Columns::RAW`](crate::Columns::RAW) was asked for. What a format writes ahead of a record to complete it stands in
    /// the same batch as the record.
    pub fn raw(&self) -> &[u8] {
        self.block.get(self.raw.clone()).unwrap_or(&[])
    }

    /// Drops all records but keeps region changes and findings. Callers that skip a batch, because it is of another thread or
    /// before a window, still need its region changes to know the types of memory.
    pub fn leave_regions(&mut self) {
        let (regions, findings) = (std::mem::take(&mut self.regions), std::mem::take(&mut self.findings));
        self.clear();
        (self.regions, self.findings) = (regions, findings);
        self.regions.at.fill(0);
        (self.span.records, self.span.instrs, self.raw) = (0, 0, 0..0);
    }

    /// Removes accesses that are too large to be true ([`MAX_ACCESS_BYTES`]) and reports each as a finding at its record.
    /// Whatever feeds batches to analyses calls this first. Readers that meet such sizes in their own bytes leave nothing to do:
    /// they report the place in the file ([`oversized`]).
    #[inline]
    pub fn refuse_oversized(&mut self) {
        if self.accesses.has_oversized() {
            self.remove_oversized();
        }
    }

    #[cold]
    fn remove_oversized(&mut self) {
        let (span, findings) = (&self.span, &mut self.findings);
        let mut found = Found::default();
        self.accesses.remove_oversized(|at, size| {
            let record = Some(span.first_record + u64::from(at));
            found.push(oversized(size, Place { record, ..Place::default() }));
        });
        findings.extend(found.into_vec());
    }

    /// Removes all rows, keeping buffers, the block, and what grows within one read: the code table, the types, the
    /// dictionaries.
    pub fn clear(&mut self) {
        self.clear_lenses();
        self.values.clear();
        self.tables.iter_mut().for_each(|table| table.clear());
        self.findings.clear();
        self.remarks.clear();
        self.beyond.clear();
    }
}

/// The finding of an access that is too large to be true ([`MAX_ACCESS_BYTES`]), and left out.
#[cold]
pub fn oversized(size: u32, place: Place) -> Finding {
    let message = format!(
        "an access of {size} bytes, more than the {MAX_ACCESS_BYTES} that one can have: it is left out"
    );
    Finding::new(OVERSIZED, Severity::Error, place, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lens::{AccessKind, CallEdge, RegionEvent, ThreadEvent};

    /// Three records, each with a row of each lens.
    fn full() -> Batch {
        let mut batch = Batch::default();
        batch.span.records = 3;
        for at in 0..3 {
            let (accesses, instrs, calls) = (&mut batch.accesses, &mut batch.instrs, &mut batch.calls);
            accesses.at.push(at);
            accesses.addr.push(at.into());
            instrs.at.push(at);
            instrs.pc.push(at.into());
            instrs.code.push(at);
            // It stands at the record that follows.
            calls.at.push(at + 1);
            calls.function.push(at.into());
            calls.edge.push(CallEdge::Enter);
            calls.args.push([u64::from(at)]);
            batch.threads.at.push(at);
            batch.threads.what.push(ThreadEvent::Idle);
            batch.threads.value.push(at.into());
            batch.marks.at.push(at);
            batch.marks.kind.push(at);
            batch.regions.at.push(at);
            batch.regions.what.push(RegionEvent::Add);
            batch.regions.type_name.push(&[at as u8]);
        }
        batch
    }

    #[test]
    fn records_are_copied_with_their_rows_in_every_lens() {
        let (from, mut to) = (full(), Batch::default());
        let mut cursor = Cursor::at(&from, 1);
        from.copy_records(&mut cursor, 1, &mut to, Columns::OF_LENSES, |code| code + 10);
        from.copy_records(&mut cursor, 1, &mut to, Columns::OF_LENSES, |code| code + 10);
        for (lens, (at, rows)) in Columns::LENSES.iter().zip(to.lenses()) {
            // The first call stands at the second record, and is copied with that.
            let expected: &[u32] = if lens.rows == Columns::CALLS { &[0, 1, 2] } else { &[0, 1] };
            assert_eq!((at, rows.n_rows()), (expected, expected.len()), "{}", lens.words);
        }
        assert_eq!((&to.instrs.code[..], to.calls.args.get(2)), (&[11, 12][..], &[2][..]));
        assert_eq!((to.regions.type_name.get(1), to.span.records), (&[2][..], 2));

        to.truncate(&Cursor::at(&to, 1));
        assert!(to.lenses().all(|(_, rows)| rows.n_rows() == 1));
        let mut none = Batch::default();
        from.copy_records(&mut Cursor::default(), 3, &mut none, Columns::NONE, |code| code);
        assert!(none.lenses().all(|(_, rows)| rows.n_rows() == 0));
        none.truncate(&Cursor::default());
        assert_eq!((0..7).map_while(|nth| Some(to.take_lens(nth)?.n_rows())).collect::<Vec<_>>(), [1; 6]);
        assert!(to.lenses().all(|(_, rows)| rows.n_rows() == 0));
    }

    #[test]
    fn only_accesses_beyond_the_limit_are_refused_and_flushes_never() {
        let rows = [
            (AccessKind::Read, MAX_ACCESS_BYTES),
            (AccessKind::Write, MAX_ACCESS_BYTES + 1),
            (AccessKind::FlushData, u32::MAX),
            (AccessKind::FlushInstr, u32::MAX),
            (AccessKind::Fetch, u32::MAX),
            (AccessKind::Read, 0),
        ];
        let mut batch = Batch::default();
        batch.span.first_record = 100;
        for (at, (kind, size)) in rows.into_iter().enumerate() {
            batch.accesses.at.push(at as u32);
            batch.accesses.addr.push(0x1000 * at as u64);
            batch.accesses.kind.push(kind);
            batch.accesses.size.push(size);
        }
        batch.refuse_oversized();
        let left = &batch.accesses;
        assert_eq!(left.at, [0, 2, 3, 5]);
        assert_eq!(left.addr, [0, 0x2000, 0x3000, 0x5000]);
        assert_eq!(left.size, [MAX_ACCESS_BYTES, u32::MAX, u32::MAX, 0]);
        assert_eq!(left.kind.len(), 4);
        assert!(left.pc.is_empty(), "a column that nobody asked for stays empty");
        let places: Vec<_> = batch.findings.iter().map(|found| (&*found.rule, found.place.record)).collect();
        assert_eq!(places, [(OVERSIZED, Some(101)), (OVERSIZED, Some(104))]);

        batch.refuse_oversized();
        assert_eq!((batch.accesses.len(), batch.findings.len()), (4, 2), "a second call finds nothing");
    }
}
