//! The batch: the records and rows that one read delivers.

use crate::code::CodeTable;
use crate::columns::Columns;
use crate::dicts::Dicts;
use crate::error::Place;
use crate::finding::{Finding, Found, Severity};
use crate::lens::{MAX_ACCESS_BYTES, for_each_lens};
use crate::loss::{Amount, Loss};
use crate::table::TableBuf;
use crate::thread::ThreadId;
use crate::values::{Types, Values};
use std::ops::Range;

/// The origin of a batch. One batch never mixes threads: a reader ends a batch where the thread changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The shard, counted from 0 in [`Trace::shards`](crate::Trace::shards).
    pub shard: u32,
    /// The piece of the shard that the batch starts in, counted from 0.
    pub piece: u32,
    /// Number of records before this batch in the shard: the first record has ordinal `first_record + 1`.
    pub first_record: u64,
    /// Number of records in the batch.
    pub records: u32,
    /// Number of instructions before this batch in the shard.
    pub first_instr: u64,
    /// Number of instructions in the batch.
    pub instrs: u32,
    /// The thread of all records; the default if the trace does not state it.
    pub thread: ThreadId,
    /// The process of that thread; 0 if the trace does not state it.
    pub process: u64,
    /// The processor that runs the thread at the batch's end, if the trace states it.
    pub cpu: Option<u64>,
    /// The last clock reading at or before the batch's end; 0 before the first.
    pub clock: u64,
    /// If batches are cut at [clock readings](crate::Cut::clock): the clock reading with which this batch opens a segment, or
    /// `None` if it continues the previous one. A read that begins in the middle of a segment (after a window's skip) has
    /// that segment's own reading, or `None` if the reader does not know it: a merge delivers that remainder first.
    pub opens: Option<u64>,
    /// Byte offset of the first record in the inflated stream of `member`.
    pub offset: u64,
    /// The archive member that the batch starts in, counted from 0.
    pub member: u32,
}

/// A remark that the writer of a trace left between two records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remark {
    /// Number of records of the batch before the remark.
    pub at: u32,
    /// The trace's clock reading at the remark.
    pub clock: u64,
    /// The text of the remark.
    pub text: String,
}

/// The rule that an access of more than [`MAX_ACCESS_BYTES`] breaks, or a range of more than
/// [`MAX_RANGE_BYTES`](crate::lens::MAX_RANGE_BYTES).
pub const OVERSIZED: &str = "engine/oversized-access";

macro_rules! batch {
    ($(
        $(#[$doc:meta])*
        $field:ident: $Rows:ident $($before_next:ident)? { $(#[$all:meta])* $ROWS:ident = $($columns:tt)* }
    )*) => {
        /// About a thousand records of one thread, as columns. Columns that were not asked for are empty.
        #[derive(Debug, Default)]
        pub struct Batch {
            /// Origin of the batch.
            pub span: Span,
            /// Buffer that contains the bytes of the native records; read them with [`Batch::raw`].
            pub block: Vec<u8>,
            /// The range of `block` that belongs to this batch.
            pub raw: Range<usize>,
            /// The distinct instructions seen so far in this read; rows refer to them by index.
            pub codes: CodeTable,
            $($(#[$doc])* pub $field: crate::lens::$Rows,)*
            /// Calls with all their values, for formats that have such calls.
            pub values: Values,
            /// The types seen so far in this read; values refer to them by index.
            pub types: Types,
            /// The dictionaries of this read so far; columns of tables refer to their texts by index.
            pub dicts: Dicts,
            /// Native tables, in the order of [`Scan::tables`](crate::Scan::tables).
            pub tables: Vec<Box<dyn TableBuf>>,
            /// Faults of the trace in or before this batch.
            pub findings: Vec<Finding>,
            /// Remarks of the trace's writer between records. Analyses do not count them.
            pub remarks: Vec<Remark>,
            /// Amounts of content that no lens shows, in the order of
            /// [`FormatInfo::beyond_lenses`](crate::trace::FormatInfo::beyond_lenses). Empty unless
            /// [`Scan::beyond`](crate::Scan::beyond) asks for them and the format counts them.
            pub beyond: Vec<u64>,
        }

        /// Position of the next record to copy, with the index of its first row in each lens.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Cursor {
            /// Index of the next record.
            pub record: u32,
            $($(#[$doc])* pub $field: usize,)*
        }

        impl Cursor {
            /// The cursor at a record of a batch.
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

            /// Appends the next `n` records to another batch and moves the cursor past them. Only lenses whose rows are in
            /// `wanted` are copied; `rename` maps an index into this code table to one into the table of `to`.
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

            /// Removes the records from `cursor` onwards.
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

            /// Removes the rows of all lenses but keeps their buffers.
            fn clear_lenses(&mut self) {
                $(self.$field.clear();)*
            }
        }
    };
    (@end $self:ident $end:ident) => { $end };
    // A call is placed at the record that follows it; for a call at the very end there is no such record.
    (@end $self:ident $end:ident before_next) => {
        if $end == $self.span.records { $end.saturating_add(1) } else { $end }
    };
}

for_each_lens!(batch);

/// The range of rows from index `start` that belong to records before `end`.
fn rows_before(at: &[u32], start: usize, end: u32) -> Range<usize> {
    // Usually only a few records are asked for, with about one row each, so a linear look at the first few rows comes first.
    let near = start + (at.len() - start).min(8);
    match at[start..near].iter().position(|at| *at >= end) {
        Some(n) => start..start + n,
        None => start..near + at[near..].partition_point(|at| *at < end),
    }
}

impl Batch {
    /// The bytes of the native records, whole records only; empty unless [`Columns::RAW`](crate::Columns::RAW) was asked for.
    /// Bytes that a format writes before a record to complete it are in the same batch as the record.
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
    /// Must be called before a batch reaches an analysis. Readers that find such sizes in their own bytes remove them
    /// themselves, because they can report the offset in the file ([`oversized`]).
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
            let place = Place { record, ..Place::default() };
            found.push(oversized(size.into(), MAX_ACCESS_BYTES.into(), place));
        });
        findings.extend(found.into_vec());
    }

    /// Removes all rows but keeps buffers, the block, and the data that grows during a read: code table, types, dictionaries.
    pub fn clear(&mut self) {
        self.clear_lenses();
        self.values.clear();
        self.tables.iter_mut().for_each(|table| table.clear());
        self.findings.clear();
        self.remarks.clear();
        self.beyond.clear();
    }
}

/// The finding for an access that is too large to be true and was left out. `most` is the limit that it exceeds:
/// [`MAX_ACCESS_BYTES`] or [`MAX_RANGE_BYTES`](crate::lens::MAX_RANGE_BYTES). The record at `place` counts as lost.
#[cold]
pub fn oversized(size: u64, most: u64, place: Place) -> Finding {
    let message =
        format!("an access of {size} bytes, more than the {most} that one can have: it is left out");
    let resumed = Some(place.clone());
    let loss = Loss { records: Amount::Exactly(1), resumed, ..Loss::from(place.clone()) };
    Finding::new(OVERSIZED, Severity::Error, place, message).losing(loss)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lens::{AccessKind, CallEdge, RegionEvent, ThreadEvent};
    use crate::loss::Lost;

    /// A batch of three records, with one row of each lens for each.
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
            // A call is placed at the record that follows it.
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
            // The first call is placed at the second record, and is copied together with that.
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
        let lost = Lost::of(&batch.findings, None).sum().unwrap();
        assert_eq!((lost.records, lost.stopped.record), (Amount::Exactly(2), Some(101)));

        batch.refuse_oversized();
        assert_eq!((batch.accesses.len(), batch.findings.len()), (4, 2), "a second call finds nothing");
    }
}
