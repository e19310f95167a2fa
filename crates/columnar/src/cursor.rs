//! Reads the rows of one file in the order of their records.
//!
//! Groups and pages are not decompressed if the file's statistics show that they have no record of the window or no row that
//! meets the conditions. A damaged group is skipped from the damage on.

use crate::reader::MAX_RECORDS;
use crate::rules;
use quipu_arrow::read::{Choice, GroupRows, RowFile, Rows, Wanted};
use quipu_model::column::Column;
use quipu_model::{Error, Finding, Place, Result};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// With this many waiting rows, no more are loaded. It is an error if all of them belong to one record.
const MAX_WAITING: usize = 1 << 20;

/// How rows of a file are assigned to records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// The column with this index has the position of the record, counted from 1.
    Column(usize),
    /// Each row is a record; its position is that of the row in the file.
    Rows,
    /// Rows belong to no record.
    None,
}

/// Loaded rows of a file.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) columns: Vec<Column>,
    pub(crate) n_rows: usize,
    /// Position of each row's record, counted from 0, ascending; empty if rows belong to no record.
    pub(crate) records: Vec<u64>,
    /// Index of the next row to deliver.
    pub(crate) at: usize,
}

impl Chunk {
    /// Index of the first undelivered row whose record is not before `record`.
    pub(crate) fn row_at(&self, record: u64) -> usize {
        if self.records.is_empty() {
            return self.at;
        }
        self.at + self.records[self.at..].partition_point(|of| *of < record)
    }
}

/// A sequential read of a file.
#[derive(Debug)]
pub(crate) struct Cursor {
    file: Arc<RowFile>,
    name: String,
    columns: Vec<usize>,
    pub(crate) numbering: Numbering,
    /// Columns with the thread and the process of a row.
    pub(crate) thread: Option<usize>,
    pub(crate) process: Option<usize>,
    /// Requested records; rows of others are skipped.
    window: Range<u64>,
    /// Conditions on rows. Rows that do not meet them may be skipped.
    wanted: Vec<Wanted>,
    groups: Range<usize>,
    n_flaws_told: usize,
    rows: Option<Begun>,
    /// Number of rows of the file before the next ones to load.
    n_before: u64,
    pub(crate) queue: VecDeque<Chunk>,
    last: u64,
    is_over: bool,
    has_told_order: bool,
    pub(crate) findings: Vec<Finding>,
    /// Compressed bytes of the rows chosen so far, estimated from the sizes of their groups.
    pub(crate) n_bytes: u64,
}

/// The group that is being read.
#[derive(Debug)]
struct Begun {
    group: usize,
    rows: GroupRows,
    /// Whether no later group has records of the window.
    is_last: bool,
}

/// Columns, numbering, window and conditions that a read of a file asks for.
#[derive(Clone, Debug)]
pub(crate) struct Wish {
    pub(crate) columns: Vec<usize>,
    pub(crate) numbering: Numbering,
    pub(crate) thread: Option<usize>,
    pub(crate) process: Option<usize>,
    pub(crate) window: Range<u64>,
    pub(crate) wanted: Vec<Wanted>,
}

impl Cursor {
    pub(crate) fn new(file: &Arc<RowFile>, name: &str, wish: Wish) -> Cursor {
        let Wish { mut columns, numbering, thread, process, window, mut wanted } = wish;
        columns.extend(wanted.iter().map(|wanted| wanted.column));
        if let Numbering::Column(column) = numbering {
            columns.push(column);
            if window != (0..u64::MAX) {
                // The column counts from 1.
                let accepts = i128::from(window.start) + 1..=window.end.into();
                wanted.push(Wanted { column, accepts, ascends_to: Some(MAX_RECORDS.into()) });
            }
        }
        columns.extend(thread.into_iter().chain(process));
        columns.sort_unstable();
        columns.dedup();
        Cursor {
            groups: 0..file.groups().len(),
            n_flaws_told: 0,
            file: file.clone(),
            name: name.to_owned(),
            columns,
            numbering,
            thread,
            process,
            window,
            wanted,
            rows: None,
            n_before: 0,
            queue: VecDeque::new(),
            last: 0,
            is_over: false,
            has_told_order: false,
            findings: Vec::new(),
            n_bytes: 0,
        }
    }

    /// True if all rows were loaded.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The record of the next row, counted from 0; `None` if no row is loaded or rows belong to no record.
    pub(crate) fn next_record(&self) -> Option<u64> {
        let chunk = self.queue.front()?;
        chunk.records.get(chunk.at).copied()
    }

    /// The record up to which all rows are loaded, exclusive: more rows of this record may follow.
    pub(crate) fn complete_until(&self) -> u64 {
        if self.is_over { u64::MAX } else { self.last }
    }

    /// Loads rows until those of all records before `end` are loaded, or too many rows wait.
    ///
    /// # Errors
    /// `Limit` if a record has too many rows.
    pub(crate) fn load_until(&mut self, end: u64) -> Result<()> {
        while !self.is_over && self.last < end {
            let n_waiting: usize = self.queue.iter().map(|chunk| chunk.n_rows - chunk.at).sum();
            if n_waiting >= MAX_WAITING {
                let is_one = self.next_record() == Some(self.last);
                if is_one {
                    let error = Error::limit("rows of a record", n_waiting as u64, MAX_WAITING as u64);
                    return Err(error.in_file(&*self.name));
                }
                break;
            }
            self.load();
        }
        Ok(())
    }

    /// Loads the next rows of a file whose rows belong to no record; false if none are left.
    pub(crate) fn load_some(&mut self) -> bool {
        while self.queue.is_empty() && !self.is_over {
            self.load();
        }
        !self.queue.is_empty()
    }

    /// Drops chunks whose rows have all been delivered.
    pub(crate) fn tidy(&mut self) {
        while self.queue.front().is_some_and(|chunk| chunk.at >= chunk.n_rows) {
            self.queue.pop_front();
        }
    }

    /// Loads some rows.
    fn load(&mut self) {
        let Some(Begun { group, rows, is_last }) = &mut self.rows else { return self.begin() };
        let (group, is_last) = (*group, *is_last);
        match rows.next_rows() {
            Ok(Some(rows)) => self.take(group, rows),
            Ok(None) => {
                self.rows = None;
                self.is_over |= is_last;
            }
            Err(error) => {
                self.rows = None;
                self.lose(group, &error);
            }
        }
    }

    /// Starts the next group if it may have records of the window.
    fn begin(&mut self) {
        let next = self.groups.next();
        self.tell_flaws(next);
        let Some(group) = next else {
            self.is_over = true;
            return;
        };
        let about = self.file.groups()[group];
        self.n_before = about.first_row;
        let chosen = match self.choose(group) {
            Ok(chosen) => chosen,
            Err(error) => return self.lose(group, &error),
        };
        if chosen.rows.as_ref().is_some_and(Vec::is_empty) {
            self.is_over = chosen.is_last;
            return;
        }
        if let Some(first) = chosen.rows.as_ref().and_then(|rows| rows.first()) {
            self.n_before = about.first_row.saturating_add(first.start);
        }
        self.n_bytes += match u128::from(about.n_rows) {
            0 => about.n_bytes,
            all => (u128::from(about.n_bytes) * u128::from(chosen.n_rows(about.n_rows)) / all) as u64, // A share.
        };
        match self.file.read(group, &self.columns, &chosen) {
            Ok(rows) => {
                self.findings.extend(rows.flaws().iter().map(rules::of_flaw));
                self.rows = Some(Begun { group, rows, is_last: chosen.is_last });
            }
            Err(error) => self.lose(group, &error),
        }
    }

    /// Returns the rows of a group that may belong to records of the window and meet the conditions.
    fn choose(&self, group: usize) -> Result<Choice> {
        let about = self.file.groups()[group];
        let of_window = |record: u64| record.saturating_sub(about.first_row).min(about.n_rows);
        let rows = of_window(self.window.start)..of_window(self.window.end);
        let is_counted = self.numbering == Numbering::Rows;
        if is_counted && rows.is_empty() {
            return Ok(Choice { rows: Some(Vec::new()), is_last: false });
        }
        let mut chosen = self.file.choose(group, &self.wanted)?;
        if is_counted && self.file.has_choice() && rows != (0..about.n_rows) {
            chosen.keep(&[rows]);
        }
        Ok(chosen)
    }

    /// Reports the flaws of the file before group `next`, or all that are left if it is `None`.
    fn tell_flaws(&mut self, next: Option<usize>) {
        let flaws = &self.file.flaws()[self.n_flaws_told..];
        let n = flaws.partition_point(|flaw| next.is_none_or(|next| flaw.n_groups_before <= next));
        self.findings.extend(flaws[..n].iter().map(rules::of_flaw));
        self.n_flaws_told += n;
    }

    /// Reports that the rest of a group is lost.
    #[cold]
    fn lose(&mut self, group: usize, error: &Error) {
        let about = self.file.groups()[group];
        let end = about.first_row.saturating_add(about.n_rows);
        let n_rows = (self.numbering == Numbering::Rows).then(|| end.saturating_sub(self.n_before));
        let record = match self.numbering {
            Numbering::Rows => Some(self.n_before + 1),
            Numbering::Column(_) if self.last > 0 => Some(self.last + 1),
            _ => None,
        };
        let place =
            Place { file: Some(self.name.clone()), offset: Some(about.offset), record, ..Place::default() };
        let error = Error::new(error.kind(), error.message_and_cause()).at(&error.place().clone().or(&place));
        let is_end = self.groups.is_empty();
        self.findings.push(rules::lost(&rules::GROUP, &error, n_rows, is_end));
    }

    /// Queues decoded rows of a group, with the positions of their records.
    fn take(&mut self, group: usize, rows: Rows) {
        let Rows { n_rows, rows, columns } = rows;
        let first_row = self.file.groups()[group].first_row;
        let end = rows.last().map_or(0, |rows| rows.end);
        self.n_before = first_row.saturating_add(end);
        let mut records: Vec<u64> = match self.numbering {
            Numbering::None => Vec::new(),
            Numbering::Rows => rows.into_iter().flatten().map(|row| first_row.saturating_add(row)).collect(),
            Numbering::Column(at) => {
                let column = columns[at].as_ref();
                (0..n_rows).map(|row| column.number(row).saturating_sub(1)).collect()
            }
        };
        let mut last = self.last;
        for record in &mut records {
            if *record < last || *record >= MAX_RECORDS {
                if !self.has_told_order {
                    self.has_told_order = true;
                    let place = Place {
                        file: Some(self.name.clone()),
                        record: Some(record.saturating_add(1)),
                        ..Place::default()
                    };
                    let number = record.saturating_add(1);
                    let what = match *record < last {
                        true => format!("record `{number}` stands after record `{}`", last + 1),
                        false => format!("record `{number}` is beyond the `{MAX_RECORDS}` that there may be"),
                    };
                    self.findings.push(rules::ORDER.broken(place, what));
                }
                *record = last;
            }
            last = *record;
        }
        self.last = last;
        let mut chunk = Chunk { columns, n_rows, records, at: 0 };
        if self.numbering != Numbering::None {
            chunk.at = chunk.row_at(self.window.start);
            // Rows after the window are not needed, and the rest of the file has only such rows.
            let end = chunk.row_at(self.window.end);
            if end < chunk.n_rows {
                chunk.n_rows = end;
                self.is_over = true;
                self.rows = None;
            }
        }
        if chunk.at < chunk.n_rows {
            self.queue.push_back(chunk);
        }
    }
}
