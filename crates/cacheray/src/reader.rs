//! One sequential read: records in, batches out.

use crate::decode::{Layout, access_thread, address, record, size, with_layout};
use crate::feed::Feed;
use crate::record::{Dialect, KIND_MASK, Record, WRITE};
use crate::table::{self, Records, Row};
use quipu_model::batch::Span;
use quipu_model::lens::{AccessKind, RegionEvent, ThreadEvent};
use quipu_model::{Batch, Columns, Error, Place, Reader, Result, Scan, TableBuf, Window};
use quipu_source::Container;
use rustc_hash::FxHashSet;
use std::ops::Range;

/// A batch ends when names of types take so many bytes, however few records they belong to.
const MAX_NAMES_BYTES: usize = 1 << 20;
/// Accesses that are judged together. PERF: decode_into_lenses.
const BLOCK: usize = 16;
/// Threads whose beginning is remembered; of more, a beginning may be told twice.
const MAX_THREADS: usize = 1 << 20;

/// A read of records.
#[derive(Debug)]
pub struct RecordReader {
    dialect: Dialect,
    feed: Feed,
    batch: Batch,
    columns: Columns,
    /// Whether flags are counted, which no lens shows.
    counts_flags: bool,
    batch_records: usize,
    /// The records that are wanted, counted from 0.
    wanted: Range<u64>,
    /// Records delivered or passed over.
    n_records: u64,
    threads: FxHashSet<u64>,
    /// What the next read fails with.
    fault: Option<Error>,
    is_over: bool,
}

impl RecordReader {
    /// Begins to read.
    ///
    /// # Errors
    /// `Unsupported` for windows of what the format does not have; what the source says.
    pub fn new(container: &Container, dialect: Dialect, scan: &Scan) -> Result<RecordReader> {
        let wanted = match &scan.window {
            Window::All => 0..u64::MAX,
            Window::Records(range) => range.clone(),
            Window::Instrs(_) => {
                return Err(Error::unsupported("traces of format cacheray have no instructions to count"));
            }
            Window::Clock(_) => return Err(Error::unsupported("traces of format cacheray have no clock")),
        };
        let wanted = wanted.start..wanted.end.min(wanted.start.saturating_add(scan.most));
        let rows = |_: &usize| Box::new(Records::default()) as Box<dyn TableBuf>;
        let tables = scan.tables.iter().filter(|table| **table == 0).map(rows);
        Ok(RecordReader {
            dialect,
            feed: Feed::new(container, &scan.stream())?,
            batch: Batch { tables: tables.collect(), ..Batch::default() },
            columns: scan.columns,
            counts_flags: scan.beyond,
            batch_records: scan.batch_records.max(1) as usize,
            is_over: wanted.is_empty(),
            wanted,
            n_records: 0,
            threads: FxHashSet::default(),
            fault: None,
        })
    }

    /// Passes over records that are not wanted, but for regions: those that stay live have their types in the window as well.
    fn skip<L: Layout>(&mut self) -> Result<()> {
        let has_regions = self.columns.has(Columns::REGIONS);
        // Only annotations bring names.
        let mut has_room = n_name_bytes(&self.batch) < MAX_NAMES_BYTES;
        while self.n_records < self.wanted.start
            && self.batch.regions.len() < self.batch_records
            && has_room
            && self.feed.ready::<L>(self.n_records)?
        {
            let Ok((record, length)) = record::<L>(self.feed.unused()) else { break };
            if has_regions && !matches!(record, Record::Access(_)) {
                region(&mut self.batch, &record, 0);
                has_room = n_name_bytes(&self.batch) < MAX_NAMES_BYTES;
            }
            self.feed.use_up(length);
            self.n_records += 1;
        }
        Ok(())
    }

    /// Collects records of one thread until the batch is full or the data ends.
    fn collect<L: Layout>(&mut self) -> Result<()> {
        self.batch.clear();
        self.batch.span = Span { first_record: self.n_records.max(self.wanted.start), ..Span::default() };
        self.skip::<L>()?;
        if !self.batch.regions.is_empty() {
            self.batch.span.offset = self.feed.offset();
            return Ok(());
        }
        let first_record = self.n_records;
        let n_wanted =
            usize::try_from(self.wanted.end - first_record.min(self.wanted.end)).unwrap_or(usize::MAX);
        let room = self.batch_records.min(n_wanted);
        let (mut n, mut thread) = (0, 0);
        let (mut offset, mut failed) = (None, Ok(()));
        let mut has_room = n_name_bytes(&self.batch) < MAX_NAMES_BYTES;
        while n < room && has_room {
            if n > 0 {
                let n_run = self.accesses::<L>(thread, n, room - n, first_record);
                n += n_run;
                if n == room {
                    break;
                }
            }
            match self.feed.ready::<L>(first_record + n as u64) {
                Ok(true) => {}
                Ok(false) => {
                    self.is_over = true;
                    break;
                }
                // The records before it are delivered first.
                Err(error) => {
                    failed = Err(error);
                    break;
                }
            }
            let Ok((first, length)) = record::<L>(self.feed.unused()) else { break };
            let is_access = matches!(first, Record::Access(_));
            // What is behind damage begins a batch, so that offsets can be counted from the first record.
            if n > 0 && (first.thread() != thread || self.feed.has_findings()) {
                break;
            }
            if n == 0 {
                thread = first.thread();
                offset = Some(self.feed.offset());
            }
            if is_access {
                let n_run = self.accesses::<L>(thread, n, room - n, first_record);
                n += n_run;
                if n_run > 0 {
                    continue;
                }
                // One with values that no program has, among others that make sense.
                self.push_accesses::<L>(1, thread, n, first_record);
                n += 1;
                continue;
            }
            annotation(&mut self.batch, self.columns, &first, n as u32, first_record); // At most a batch.
            has_room = n_name_bytes(&self.batch) < MAX_NAMES_BYTES;
            self.feed.use_up(length);
            n += 1;
        }
        if n > 0 {
            self.begin_thread(thread);
        }
        self.n_records = first_record + n as u64;
        self.batch.span = Span {
            first_record,
            records: n as u32, // At most as many as a batch may have.
            thread: thread.into(),
            offset: offset.unwrap_or_else(|| self.feed.offset()),
            ..Span::default()
        };
        failed
    }

    /// Notes that a thread has records, the first time.
    fn begin_thread(&mut self, thread: u64) {
        if self.columns.has(Columns::THREADS) && self.threads.insert(thread) {
            if self.threads.len() > MAX_THREADS {
                self.threads.clear();
            }
            self.batch.threads.at.push(0);
            self.batch.threads.what.push(ThreadEvent::Start);
            self.batch.threads.value.push(0);
        }
    }

    /// Takes the accesses of a thread that come next, as many as are whole and there is room for. PERF: a pass over the
    /// bytes for each column; the bytes are few enough to stay at hand.
    #[inline]
    fn accesses<L: Layout>(&mut self, thread: u64, at: usize, room: usize, first_record: u64) -> usize {
        let n_bytes = L::DIALECT.access_bytes();
        let bytes = self.feed.unused();
        let n_whole = (bytes.len() / n_bytes).min(room);
        let mut rest = bytes.get(..n_whole * n_bytes).unwrap_or(&[]);
        // Others are looked at one by one.
        while let Some((block, behind)) = rest.split_at_checked(BLOCK * n_bytes)
            && are_usual::<L>(block, thread)
        {
            rest = behind;
        }
        let n_rest = rest.len() / n_bytes;
        let n_more =
            rest.chunks_exact(n_bytes).position(|bytes| !are_usual::<L>(bytes, thread)).unwrap_or(n_rest);
        let n = n_whole - n_rest + n_more;
        self.push_accesses::<L>(n, thread, at, first_record);
        n
    }

    /// Adds so many accesses of a thread, which are at hand, to the batch.
    #[inline]
    fn push_accesses<L: Layout>(&mut self, n: usize, thread: u64, at: usize, first_record: u64) {
        let n_bytes = L::DIALECT.access_bytes();
        let bytes = self.feed.unused();
        let records = bytes.get(..n * n_bytes).unwrap_or(&[]).chunks_exact(n_bytes);
        let Batch { accesses, tables, beyond, .. } = &mut self.batch;
        if self.columns.has(Columns::ACCESSES) {
            accesses.at.extend(at as u32..(at + n) as u32); // At most a batch.
            accesses.addr.extend(records.clone().map(address::<L>));
            accesses.size.extend(records.clone().map(|bytes| u32::from(size::<L>(bytes))));
            accesses.kind.extend(records.clone().map(|bytes| {
                if bytes.first().is_some_and(|tag| tag & WRITE != 0) {
                    AccessKind::Write
                } else {
                    AccessKind::Read
                }
            }));
        }
        if self.counts_flags {
            let n_flagged =
                records.clone().filter(|bytes| bytes.first().is_some_and(|tag| tag & !KIND_MASK != 0));
            let n_flagged = n_flagged.count() as u64;
            match beyond.first_mut() {
                Some(count) => *count += n_flagged,
                None => beyond.push(n_flagged),
            }
        }
        for rows in tables.iter_mut().filter_map(|table| table.get_mut::<Records>()) {
            let fields =
                |bytes: &[u8]| (bytes.first().copied().unwrap_or(0), address::<L>(bytes), size::<L>(bytes));
            table::push_accesses(first_record + at as u64 + 1, thread, records.clone().map(fields), rows);
        }
        self.feed.use_up(n * n_bytes);
    }
}

/// Whether all of some bytes are accesses of a thread with values that make sense. PERF: what is odd about any of them is
/// collected without a branch (decode_into_lenses).
#[inline(always)]
fn are_usual<L: Layout>(bytes: &[u8], thread: u64) -> bool {
    let (mut tags, mut threads, mut addrs, mut sizes) = (0, 0, 0, 0);
    for bytes in bytes.chunks_exact(L::DIALECT.access_bytes()) {
        tags |= bytes.first().copied().unwrap_or(KIND_MASK);
        threads |= access_thread::<L>(bytes) ^ thread;
        // The upper 16 bits are all 0 or all 1: one more is 0 or 1.
        addrs |= address::<L>(bytes).wrapping_add(1 << 48) >> 48;
        sizes |= u32::from(size::<L>(bytes)).wrapping_sub(1);
    }
    tags & KIND_MASK <= WRITE && threads == 0 && addrs <= 1 && sizes <= u32::from(u8::MAX)
}

/// Bytes of the names of types that a batch has.
fn n_name_bytes(batch: &Batch) -> usize {
    let records = batch.tables.first().and_then(|table| table.get::<Records>());
    let n_in_table = records.map_or(0, |rows| rows.type_name.values.n_bytes());
    batch.regions.type_name.n_bytes().max(n_in_table)
}

/// Adds an annotation to a batch.
fn annotation(batch: &mut Batch, columns: Columns, record: &Record<'_>, at: u32, first_record: u64) {
    if columns.has(Columns::REGIONS) {
        region(batch, record, at);
    }
    let (element_bytes, n_elements, type_name) = match record {
        Record::Add(add) => (add.element_bytes, add.n_elements, Some(add.name)),
        Record::Remove(_) | Record::Access(_) => (0, 0, None),
    };
    let row = Row {
        record: first_record + u64::from(at) + 1,
        thread: record.thread(),
        tag: record.tag(),
        addr: record.addr(),
        element_bytes,
        n_elements,
        type_name,
    };
    for rows in batch.tables.iter_mut().filter_map(|table| table.get_mut::<Records>()) {
        table::push(&row, rows);
    }
}

/// Adds what an annotation says of regions.
fn region(batch: &mut Batch, record: &Record<'_>, at: u32) {
    let regions = &mut batch.regions;
    let (what, element_bytes, n_elements, name) = match record {
        Record::Add(add) => (RegionEvent::Add, add.element_bytes, add.n_elements, add.name),
        Record::Remove(_) | Record::Access(_) => (RegionEvent::Remove, 0, 0, &[][..]),
    };
    regions.at.push(at);
    regions.what.push(what);
    regions.addr.push(record.addr());
    regions.element_bytes.push(element_bytes.into());
    regions.n_elements.push(n_elements.into());
    regions.type_name.push(name);
}
impl Reader for RecordReader {
    fn read(&mut self) -> Result<Option<&mut Batch>> {
        loop {
            if let Some(error) = self.fault.take() {
                self.is_over = true;
                self.batch.clear();
                let place = Place { record: Some(self.n_records), ..Place::default() };
                return Err(error.at(&place));
            }
            if self.is_over || self.n_records >= self.wanted.end {
                self.batch.clear();
                self.batch.span.records = 0;
                return Ok(None);
            }
            let collected = with_layout!(self.dialect, L => self.collect::<L>());
            self.fault = collected.err();
            self.batch.findings = self.feed.take_findings();
            let Batch { span, findings, regions, .. } = &self.batch;
            if span.records > 0 || !findings.is_empty() || !regions.is_empty() {
                return Ok(Some(&mut self.batch));
            }
        }
    }

    fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }
}
