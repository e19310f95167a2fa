//! Sequential reading of a stream of a producer, or some of its frames: frames in, batches out.

use crate::aggregations;
use crate::bytes::{SourceInput, unreadable};
use crate::column::{extend, number, plain};
use crate::functions;
use crate::lens::{self, Running};
use crate::parts::{Part, Piece};
use crate::rules;
use crate::schema::{Means, N_OWN, RECORDS};
use crate::trace::Opened;
use quipu_cells::cell::{self, Cell};
use quipu_cells::event::{self, Event};
use quipu_model::aggregations::Aggregations;
use quipu_model::batch::{self, Span};
use quipu_model::column::Cells;
use quipu_model::lens::{MAX_RANGE_BYTES, ThreadEvent};
use quipu_model::values::{FunctionType, Type};
use quipu_model::{
    Batch, ColumnTable, Columns, Error, Finding, Place, Reader, Result, Scan, ShardId, TableBuf, ThreadId,
    Window,
};
use quipu_stream::batch::{Remark, Rows, Side};
use quipu_stream::cells;
use quipu_stream::finding;
use quipu_stream::index::frame_at;
use quipu_stream::loss::{Loss, LostAfter};
use quipu_stream::meta::Metadata;
use quipu_stream::scan::FrameAt;
use quipu_stream::survey::is_same;
use quipu_stream::wire::record::{field_flag, role};
use quipu_stream::wire::types::Type as Described;
use quipu_stream::work::Worker;
use quipu_stream::{json, text};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use std::sync::Arc;

/// Threads whose start is remembered. With more, a start may be reported twice.
const MAX_THREADS: usize = 1 << 20;
/// Code addresses remembered with their functions, and functions remembered as named.
const MAX_FUNCTIONS: usize = 1 << 20;
/// A batch ends after a record that brings it to this many further pieces of ranges, each of a megabyte. A run is interrupted
/// between batches, so thousands of large ranges must not share one.
const MAX_FURTHER_PIECES: usize = 63;

/// A read of records.
#[derive(Debug)]
pub struct RowReader {
    opened: Arc<Opened>,
    shard: u32,
    input: SourceInput,
    worker: Worker,
    /// Frames not yet read.
    left: Range<usize>,
    /// The frame that is being decoded.
    current: Option<Current>,
    /// Decoded rows not yet delivered: positions in their order.
    rows: Range<usize>,
    /// For each table of the decoded batch, the number of rows delivered.
    delivered: Vec<usize>,
    /// For each table of the decoded batch, the table of the trace.
    tables: Vec<Option<usize>>,
    /// Whether some access of the decoded batch may be too large to be true.
    has_oversized: bool,
    batch: Batch,
    wanted: Vec<usize>,
    columns: Columns,
    counts_beyond: bool,
    /// Whether rows of aggregations are still to come: a read of the last piece of the first shard delivers them.
    has_aggregations: bool,
    window: Window,
    most: u64,
    batch_records: u32,
    cuts_at_clock: bool,
    /// Whether skipped records may change regions of memory.
    has_regions: bool,
    threads: FxHashSet<u64>,
    /// Start addresses of functions, by the code addresses of calls.
    functions: FxHashMap<u64, u64>,
    /// Functions whose names were delivered.
    named: FxHashSet<u64>,
    running: Running,
    findings: Vec<Finding>,
    holes: FxHashSet<(u64, u32)>,
    packed_bytes: u64,
    /// Remarks not yet delivered, each with the number of records of the shard before it.
    remarks: Vec<(u64, Remark)>,
    /// Losses that are recorded between rows since the last frame began: offset of the frame, and number of records.
    lost_since: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Current {
    frame: FrameAt,
    metadata: Arc<Metadata>,
    /// Number of records of the stream before the frame.
    before: u64,
    records: u64,
    is_open: bool,
}

impl RowReader {
    /// Begins to read.
    ///
    /// # Errors
    /// `Unsupported` for windows of instructions; otherwise if the source cannot be read.
    pub(crate) fn new(opened: &Arc<Opened>, scan: &Scan) -> Result<RowReader> {
        if matches!(scan.window, Window::Instrs(_)) {
            return Err(Error::unsupported("traces of format stream have no instructions to count"));
        }
        let n = opened.parts[scan.shard.0 as usize].pieces.len();
        let left = match &scan.pieces {
            Some(pieces) => (pieces.start as usize).min(n)..(pieces.end as usize).min(n),
            None => 0..n,
        };
        let schemas = &opened.tables.schemas;
        let table = |table: &usize| {
            let schema = schemas.get(*table).ok_or_else(|| Error::usage("the trace has no such table"))?;
            Ok(match opened.tables.aggregations == Some(*table) {
                true => Box::new(Aggregations::default()) as Box<dyn TableBuf>,
                false => Box::new(ColumnTable::new(schema.clone())),
            })
        };
        let tables = scan.tables.iter().map(table).collect::<Result<Vec<_>>>()?;
        let is_over = scan.most == 0 || matches!(&scan.window, Window::Records(range) if range.is_empty());
        let is_last = scan.pieces.as_ref().is_none_or(|pieces| pieces.end as usize >= n);
        let has_aggregations = scan.shard == ShardId(0)
            && is_last
            && (scan.beyond || opened.tables.aggregations.is_some_and(|own| scan.tables.contains(&own)));
        Ok(RowReader {
            opened: Arc::clone(opened),
            shard: scan.shard.0,
            input: opened.input()?,
            worker: Worker::with_registry(crate::bodies::registry()),
            left: if is_over { 0..0 } else { left },
            current: None,
            rows: 0..0,
            delivered: Vec::new(),
            tables: Vec::new(),
            has_oversized: false,
            batch: Batch { tables, ..Batch::default() },
            wanted: scan.tables.clone(),
            columns: scan.columns,
            counts_beyond: scan.beyond,
            has_aggregations,
            window: scan.window.clone(),
            most: scan.most,
            batch_records: scan.batch_records.max(1),
            cuts_at_clock: scan.cut.clock,
            has_regions: scan.columns.has(Columns::REGIONS)
                && opened.tables.any(|means| means.region.is_some()),
            threads: FxHashSet::default(),
            functions: FxHashMap::default(),
            named: FxHashSet::default(),
            running: Running::default(),
            findings: Vec::new(),
            holes: FxHashSet::default(),
            packed_bytes: 0,
            remarks: Vec::new(),
            lost_since: None,
        })
    }

    /// Whether a frame may contain records of the window.
    fn may_have_wanted(&self, piece: &Piece, before: u64) -> bool {
        let header = &piece.frame.header;
        // Regions describe memory, so a window also needs those before it.
        let is_after = matches!(&self.window, Window::Records(range) if before >= range.end);
        if self.has_regions && !is_after {
            return true;
        }
        // The records of an open frame are known only after reading it.
        if piece.open.is_some() {
            return true;
        }
        match &self.window {
            Window::Records(range) => before < range.end && before + u64::from(header.records) > range.start,
            Window::Clock(range) => {
                let part = &self.opened.parts[self.shard as usize];
                let (first, last) = (part.clock(header.ts_first), part.clock(header.ts_last));
                last >= range.start && (first < range.end || range.end == u64::MAX)
            }
            Window::All | Window::Instrs(_) => true,
        }
    }

    fn find(&mut self, found: &finding::Finding, record: u64) {
        self.findings.push(rules::finding(found, &self.opened.name, Some(record)));
    }

    fn unreadable(&self, cause: std::io::Error) -> Error {
        unreadable(&self.opened.name, cause)
    }

    /// Begins the next frame that may contain wanted records; false if there is none.
    fn begin_next(&mut self) -> Result<bool> {
        while let Some(at) = self.left.next() {
            let part = &self.opened.parts[self.shard as usize];
            let (piece, before) = (part.pieces[at], part.before[at]);
            if self.may_have_wanted(&piece, before) {
                // The header of this frame states the losses before it.
                self.lost_since = None;
                let is_begun = self.begin(&piece, before)?;
                if self.opened.is_wide() {
                    self.input.shrink();
                }
                if is_begun {
                    return Ok(true);
                }
            }
        }
        let part = &self.opened.parts[self.shard as usize];
        let (is_end, stream) = (self.left.end >= part.pieces.len(), part.stream);
        if let Some((offset, n)) = self.lost_since.take().filter(|_| is_end) {
            let file = Some(self.opened.name.clone());
            let place = Place { file, offset: Some(offset), ..Place::default() };
            let lost = LostAfter {
                producer: part.producer,
                stream,
                is_named: true,
                offset,
                records: n,
                bytes: None,
                of_copy: None,
            };
            self.findings.push(rules::lost_at_end(&lost, place));
        }
        Ok(false)
    }

    /// Collects losses that are recorded between rows.
    fn note_losses(&mut self) {
        let Some(current) = &self.current else { return };
        let stream = self.worker.header().stream;
        for side in &self.worker.batch().side {
            let Side::Loss(map) = side else { continue };
            let loss = Loss::read(map).filter(|loss| loss.stream.unwrap_or(stream) == stream);
            if let Some(n) = loss.and_then(|loss| loss.records).filter(|n| *n > 0) {
                let (_, before) = self.lost_since.unwrap_or_default();
                self.lost_since = Some((current.frame.offset, before.saturating_add(n)));
            }
        }
    }

    /// Collects remarks that are recorded between rows.
    fn note_remarks(&mut self) {
        let Some(current) = &self.current else { return };
        for side in &self.worker.batch().side {
            if let Side::Remark(remark) = side {
                self.remarks.push((current.before + u64::from(remark.ordinal), remark.clone()));
            }
        }
    }

    fn begin(&mut self, piece: &Piece, before: u64) -> Result<bool> {
        let mut frame = piece.frame;
        if piece.open.is_none() {
            // An index entry lacks part of the header, and may be wrong.
            let there = frame_at(&mut self.input, frame.offset).map_err(|cause| self.unreadable(cause))?;
            match there.filter(|there| is_same(&there.header, &frame.header)) {
                Some(there) => frame = there,
                None => {
                    self.find_no_frame(&frame, before)?;
                    return Ok(false);
                }
            }
        }
        let begun = match &piece.open {
            Some(head) => self.worker.begin_open(&frame, head, &mut self.input),
            None => self.worker.begin(&frame, &mut self.input),
        };
        self.packed_bytes += frame.header.frame_len();
        let mut is_loss_said = false;
        if let Err(fault) = begun.map_err(|cause| self.unreadable(cause))? {
            if fault.name == "torn-frame" {
                self.find_no_frame(&frame, before)?;
                return Ok(false);
            }
            self.find(&fault, before);
            let header = frame.header;
            // The losses before a damaged frame add to those of its own records.
            if header.lost > 0 && piece.open.is_none() {
                let place = self.place(frame.offset, before);
                self.findings.push(rules::lost(header.lost, header.stream, place));
                is_loss_said = true;
            }
            let copy =
                self.opened.look.survey.copies.get(&(header.producer, header.stream, header.seq)).copied();
            let Some(copy) = copy.filter(|_| fault.name == "payload-crc" && piece.open.is_none()) else {
                return Ok(false);
            };
            if self.worker.begin(&copy, &mut self.input).map_err(|cause| self.unreadable(cause))?.is_err() {
                return Ok(false);
            }
            self.find(&finding::Finding::at("late-frame", copy.offset), before);
            frame = copy;
        }
        let header = *self.worker.header();
        let epoch = (header.producer, header.epoch);
        let metadata = self.opened.epochs.get(&epoch).cloned().unwrap_or_default();
        if header.lost > 0 && !is_loss_said {
            let place = self.place(frame.offset, before);
            self.findings.push(match piece.open {
                None => rules::lost(header.lost, header.stream, place),
                // No frame follows an open buffer.
                Some(_) => rules::lost_beside(header.lost, header.stream, place),
            });
        }
        if let Some(have) = metadata.first_unknown_below(header.meta_version)
            && self.holes.insert(epoch)
        {
            let hole = finding::Finding::new("metadata-gap").with("first_offset", frame.offset);
            self.find(&hole.with("have", have).with("need", header.meta_version), before);
        }
        let is_open = piece.open.is_some();
        let records = header.records.into();
        self.current = Some(Current { frame, metadata, before, records, is_open });
        Ok(true)
    }

    /// Reports an index entry that does not point at a frame.
    #[cold]
    fn find_no_frame(&mut self, frame: &FrameAt, record: u64) -> Result<()> {
        // A look at all headers gives the reason, the index the number of lost records.
        let look = self.opened.look.of_headers()?;
        let is_here =
            |found: &&finding::Finding| found.number("offset") == Some(frame.offset) && found.loses();
        let said = look.survey.session.findings.iter().find(is_here).cloned();
        if look.stop().is_some_and(|stop| Some(stop) == said.as_ref()) {
            // A frame that cannot be understood may change the meaning of those after it.
            self.left = 0..0;
        }
        let said = said.unwrap_or_else(|| finding::Finding::at("records-undecodable", frame.offset));
        self.find(&said.with("records", frame.header.records), record);
        Ok(())
    }

    fn place(&self, offset: u64, record: u64) -> Place {
        Place {
            file: Some(self.opened.name.clone()),
            offset: Some(offset),
            record: Some(record),
            ..Place::default()
        }
    }

    /// Decodes more rows; false at the end.
    fn decode_more(&mut self) -> Result<bool> {
        loop {
            if self.current.is_none() && !self.begin_next()? {
                return Ok(false);
            }
            let Some(current) = &mut self.current else { return Ok(false) };
            let mut findings = Vec::new();
            let more = self.worker.next(&mut current.metadata, &mut findings);
            let record = current.before;
            findings.iter().for_each(|found| self.find(found, record));
            if more {
                self.note_losses();
                self.note_remarks();
                self.settle();
                return Ok(true);
            }
            self.end_frame(record);
            self.current = None;
        }
    }

    /// Appends the cells of the next frame, which must contain nothing else. Returns when the frame was begun, in ns since
    /// the recording began; `None` at the end.
    pub(crate) fn next_cells(&mut self, to: &mut Vec<Cell>) -> Result<Option<u64>> {
        if !self.begin_next()? {
            return Ok(None);
        }
        let before = to.len();
        let body = self.worker.current();
        let (ns, read) = (cells::begun(&body), cells::read(&body, to));
        let Some(current) = self.current.take() else { return Ok(Some(ns)) };
        let is_named = cells::is_named(&current.metadata);
        if !is_named {
            to.truncate(before);
        }
        let (offset, record) = (current.frame.offset, current.before);
        if is_named && !read.is_whole {
            self.find(&finding::Finding::at("payload-invalid", offset), record);
        }
        let missing = match current.is_open {
            true => read.lost,
            false => current.records.saturating_sub(cells::count(&to[before..])),
        };
        if missing > 0 {
            let lost = finding::Finding::at("records-undecodable", offset);
            self.find(&lost.with("records", missing), record);
        }
        for (n_events, size) in oversized_ranges(&to[before..]) {
            let place = self.place(offset, current.before + n_events);
            self.findings.push(batch::oversized(size, MAX_RANGE_BYTES, place));
        }
        Ok(Some(ns))
    }

    /// Returns the findings since the last call. They name files of a folder.
    pub(crate) fn take_findings(&mut self) -> Vec<Finding> {
        let mut findings = std::mem::take(&mut self.findings);
        self.opened.look.name_files(&mut findings);
        findings
    }

    /// Prepares decoded rows for delivery.
    fn settle(&mut self) {
        let decoded = self.worker.batch();
        self.rows = 0..decoded.order().len();
        self.delivered.clear();
        self.delivered.resize(decoded.n_tables(), 0);
        self.tables.clear();
        let header = self.worker.header();
        let epoch = (header.producer, header.epoch);
        self.has_oversized = false;
        for place in 0..decoded.n_tables() {
            let rows = decoded.table(place as u32); // A frame has fewer.
            let table = self.opened.tables.find(epoch, rows.schema.id());
            self.has_oversized |=
                table.is_some_and(|table| lens::has_oversized(&self.opened.tables.means[table], rows));
            self.tables.push(table);
        }
    }

    /// Reports the decoder's findings about the current frame.
    fn end_frame(&mut self, record: u64) {
        let Some(current) = &self.current else { return };
        let (offset, records, is_open) = (current.frame.offset, current.records, current.is_open);
        let outcome = self.worker.outcome();
        let missing = if is_open { outcome.undecoded } else { records.saturating_sub(outcome.decoded) };
        let mut found = Vec::new();
        if outcome.has_invalid {
            found.push(finding::Finding::at("record-invalid", offset));
        }
        if outcome.is_broken {
            found.push(finding::Finding::at("payload-invalid", offset));
        }
        if outcome.time_fell {
            found.push(finding::Finding::at("time-order", offset));
        }
        if missing > 0 {
            found.push(finding::Finding::at("records-undecodable", offset).with("records", missing));
        }
        found.iter().for_each(|found| self.find(found, record));
    }

    /// Appends the rows of aggregations, which belong to no record, after the last record. False if there are none.
    fn close(&mut self) -> Result<bool> {
        let opened = Arc::clone(&self.opened);
        let Some(own) = opened.tables.aggregations.filter(|_| std::mem::take(&mut self.has_aggregations))
        else {
            return Ok(false);
        };
        let (variables, findings) = aggregations::variables(&opened)?;
        let is_new =
            |found: &Finding| found.place.offset.is_none_or(|offset| !opened.found_at.contains(&offset));
        self.findings.extend(findings.into_iter().filter(is_new));
        for (buffer, wanted) in self.batch.tables.iter_mut().zip(&self.wanted) {
            if let Some(rows) = buffer.get_mut::<Aggregations>().filter(|_| *wanted == own) {
                aggregations::append(&variables, rows);
            }
        }
        if self.counts_beyond {
            let n_keys = variables.iter().map(|variable| variable.keys.len() as u64).sum();
            self.batch.beyond = vec![n_keys, 0];
        }
        Ok(true)
    }

    /// Delivers the next decoded rows; false if none of them is wanted.
    fn fill(&mut self) -> Result<bool> {
        let RowReader { opened, worker, batch, rows, delivered, tables, functions, named, .. } = self;
        let part = &opened.parts[self.shard as usize];
        let Some(current) = &self.current else { return Ok(false) };
        let decoded = worker.batch();
        let order = decoded.order();
        let none = Arc::<Means>::default();
        let means_of = |place: u32| match tables[place as usize] {
            Some(table) => &opened.tables.means[table],
            None => &none,
        };
        let thread_of = |place: u32, row: usize| {
            means_of(place)
                .thread
                .map_or(part.thread, |field| number(&decoded.table(place).columns[field], row))
        };
        // Skip rows before the window.
        let mut first = None;
        while let Some(place) = order.get(rows.start).copied() {
            let (table, row) = (decoded.table(place), delivered[place as usize]);
            let ordinal = current.before + u64::from(table.ordinals[row]);
            if is_wanted(&self.window, ordinal, part.clock(table.times[row])) {
                first = Some((place, row, ordinal));
                break;
            }
            if matches!(&self.window, Window::Records(range) if ordinal >= range.end) {
                (rows.start, self.left) = (rows.end, 0..0);
                self.remarks.clear();
                return Ok(!batch.regions.is_empty());
            }
            lens::region(batch, self.columns, 0, means_of(place), table, row);
            delivered[place as usize] += 1;
            rows.start += 1;
        }
        let Some((place, row, first_record)) = first else {
            // Region changes are delivered even without records.
            return Ok(!batch.regions.is_empty());
        };
        let thread = thread_of(place, row);
        let first_time = part.clock(decoded.table(place).times[row]);
        let opens_segment = self.cuts_at_clock;
        let process = means_of(place)
            .process
            .map_or(part.process, |field| number(&decoded.table(place).columns[field], row));
        let starts: Vec<usize> = delivered.clone();
        let begin = rows.start;
        let limit = u64::from(self.batch_records).min(self.most);
        let has_lens = self.columns.any(Columns::OF_LENSES);
        let (mut at, mut n_beyond, mut n_further) = (0_u32, 0, 0);
        while u64::from(at) < limit
            && n_further < MAX_FURTHER_PIECES
            && let Some(place) = order.get(rows.start).copied()
        {
            let (table, row) = (decoded.table(place), delivered[place as usize]);
            let time = part.clock(table.times[row]);
            let ordinal = current.before + u64::from(table.ordinals[row]);
            let is_next = ordinal == first_record + u64::from(at)
                && is_wanted(&self.window, ordinal, time)
                && thread_of(place, row) == thread
                && !(opens_segment && time != first_time);
            if !is_next {
                break;
            }
            let means = means_of(place);
            let oversized = if self.has_oversized { lens::oversized(means, table, row) } else { None };
            if let Some((size, most)) = oversized {
                // Every read reports it, with or without lenses: all verbs say the same of a trace.
                let place = Place {
                    file: Some(opened.name.clone()),
                    offset: Some(current.frame.offset),
                    record: Some(ordinal),
                    ..Place::default()
                };
                self.findings.push(batch::oversized(size, most, place));
            }
            if has_lens {
                if self.columns.has(Columns::THREADS) {
                    if at == 0 && self.threads.len() < MAX_THREADS && self.threads.insert(thread) {
                        lens::thread(batch, at, ThreadEvent::Start, process);
                    }
                    let is_tick = time != self.running.clock || (at == 0 && first_record == 0);
                    if is_tick && self.columns.has(Columns::THREAD_CLOCK) {
                        lens::thread(batch, at, ThreadEvent::Clock, time);
                    }
                }
                let number_of = tables[place as usize].unwrap_or(RECORDS) as u32; // Few.
                let n_accesses = batch.accesses.at.len();
                if oversized.is_none() {
                    lens::record(batch, self.columns, (at, number_of), means, table, row);
                }
                n_further += batch.accesses.at.len().saturating_sub(n_accesses + 1);
                if means.is_code && self.columns.has(Columns::CALLS) && means.is_call() {
                    name_function(opened, part.producer, batch, functions, named);
                }
            }
            if self.counts_beyond {
                let is_known = tables[place as usize].is_some();
                n_beyond += if is_known { means.n_beyond } else { table.schema.fields.len() as u64 };
            }
            let cpu = means.cpu.map(|field| number(&table.columns[field], row)).or(part.cpu);
            if cpu != self.running.cpu {
                self.running.cpu = cpu;
                if self.columns.has(Columns::THREAD_CPU)
                    && let Some(cpu) = cpu
                {
                    lens::thread(batch, at, ThreadEvent::Cpu, cpu);
                }
            }
            self.running.clock = time;
            delivered[place as usize] += 1;
            rows.start += 1;
            at += 1;
        }
        batch.span = Span {
            shard: self.shard,
            first_record,
            records: at,
            thread: ThreadId::from(thread),
            process,
            cpu: self.running.cpu,
            clock: self.running.clock,
            opens: opens_segment.then_some(first_time),
            offset: current.frame.offset,
            ..Span::default()
        };
        self.most -= u64::from(at);
        if self.counts_beyond {
            batch.beyond = vec![0, n_beyond];
        }
        if !self.remarks.is_empty() {
            // A remark directly before the next record is delivered with that record.
            let end = first_record + u64::from(at);
            let n = self.remarks.partition_point(|(place, _)| *place < end);
            let taken = self.remarks.drain(..n).filter(|(place, _)| *place >= first_record);
            batch.remarks.extend(taken.map(|(place, remark)| {
                let clock = part.clock(remark.time);
                quipu_model::Remark { at: (place - first_record) as u32, clock, text: remark.text }
            }));
        }
        for (buffer, wanted) in batch.tables.iter_mut().zip(&self.wanted) {
            let Some(buffer) = buffer.get_mut::<ColumnTable>() else { continue };
            if *wanted == RECORDS {
                let places = &order[begin..rows.start];
                all_records(buffer, places, decoded, &starts, current, part, &thread_of)?;
            } else {
                for (place, table) in tables.iter().enumerate() {
                    if *table == Some(*wanted) {
                        let rows = starts[place]..delivered[place];
                        // A frame has fewer tables.
                        own_rows(buffer, decoded.table(place as u32), rows, current)?;
                    }
                }
            }
        }
        Ok(at > 0)
    }
}

/// The ranges of memory among cells that are too large to be true, each with the number of events before it and its size.
fn oversized_ranges(cells: &[Cell]) -> Vec<(u64, u64)> {
    // PERF: the cell after that of a range has its size, so events are decoded only if some pair of cells looks like one.
    let is_suspect =
        |pair: &[Cell]| pair[0].code() >> 8 == u16::from(cell::kind::RANGE) && pair[1].word > MAX_RANGE_BYTES;
    let mut found = Vec::new();
    if !cells.windows(2).any(is_suspect) {
        return found;
    }
    let (mut rest, mut text, mut n_events) = (cells, Vec::new(), 0);
    while !rest.is_empty() {
        let (event, n_cells) = event::decode(rest, &mut text);
        if let Event::Access(access) = &event
            && access.size > MAX_RANGE_BYTES
        {
            found.push((n_events, access.size));
        }
        n_events += u64::from(event != Event::Pad);
        rest = rest.get(n_cells..).unwrap_or_default();
    }
    found
}

/// Replaces the code address of the last call by the start of its function, and delivers the function's name the first time.
fn name_function(
    opened: &Arc<Opened>,
    producer: u64,
    batch: &mut Batch,
    known: &mut FxHashMap<u64, u64>,
    named: &mut FxHashSet<u64>,
) {
    let Some(function) = batch.calls.function.last_mut() else { return };
    if let Some(start) = known.get(function) {
        *function = *start;
        return;
    }
    let address = *function;
    if let Some((start, name)) = functions::at(opened, producer, address) {
        *function = start;
        if named.len() < MAX_FUNCTIONS && named.insert(start) {
            let (name, args) = (name.as_bytes().to_vec(), Vec::new());
            batch.types.push(Arc::new(Type::Function(FunctionType { id: start, name, args, flags: 0 })));
        }
    }
    if known.len() < MAX_FUNCTIONS {
        known.insert(address, *function);
    }
}

/// Whether a record is in a window.
pub(crate) fn is_wanted(window: &Window, ordinal: u64, time: u64) -> bool {
    match window {
        Window::All | Window::Instrs(_) => true,
        Window::Records(range) => range.contains(&ordinal),
        Window::Clock(range) => time >= range.start && !Window::ends_at_clock(range.end, time),
    }
}

/// Appends rows of the table of all records.
fn all_records(
    buffer: &mut ColumnTable,
    places: &[u32],
    decoded: &quipu_stream::batch::Batch,
    starts: &[usize],
    current: &Current,
    part: &Part,
    thread_of: &dyn Fn(u32, usize) -> u64,
) -> Result<()> {
    let mut next: FxHashMap<u32, usize> = FxHashMap::default();
    for place in places {
        let row = next.entry(*place).or_insert(starts[*place as usize]);
        let table = decoded.table(*place);
        let record = current.before + u64::from(table.ordinals[*row]) + 1;
        let numbers = [record, table.times[*row], part.stream.into(), thread_of(*place, *row)];
        for (column, number) in buffer.columns.iter_mut().zip(numbers) {
            column.push(number)?;
        }
        let said = text::of_record(table, *row, &current.metadata).unwrap_or_else(|| said(table, *row));
        buffer.columns[N_OWN + 2].push_bytes(table.schema.name().as_bytes())?;
        buffer.columns[N_OWN + 3].push_bytes(said.as_bytes())?;
        *row += 1;
    }
    Ok(())
}

/// A record as text, field by field.
fn said(table: &Rows, row: usize) -> String {
    let mut out = String::new();
    for (column, field) in table.columns.iter().zip(&table.schema.fields) {
        if !out.is_empty() {
            out.push(' ');
        }
        let value = json::value(column, &field.layout, row);
        let is_hex = matches!(field.layout.ty, Described::Address { .. } | Described::Pointer { .. })
            || matches!(field.field.role, Some(role::ADDRESS | role::PC))
            || field.field.flags.unwrap_or_default() & field_flag::HEXADECIMAL != 0;
        out.push_str(&field.field.name);
        out.push('=');
        match value {
            json::Json::Int(n) if is_hex && n >= 0 => out.push_str(&format!("{n:#x}")),
            other => out.push_str(&plain(&other)),
        }
    }
    out
}

/// Appends rows of the table of a schema.
fn own_rows(buffer: &mut ColumnTable, table: &Rows, rows: Range<usize>, current: &Current) -> Result<()> {
    let (own, fields) = buffer.columns.split_at_mut(N_OWN);
    if let Cells::U64(records) = &mut own[0].cells {
        records.extend(table.ordinals[rows.clone()].iter().map(|at| current.before + u64::from(*at) + 1));
    }
    if let Cells::U64(times) = &mut own[1].cells {
        times.extend_from_slice(&table.times[rows.clone()]);
    }
    for ((to, from), field) in fields.iter_mut().zip(&table.columns).zip(&table.schema.fields) {
        extend(to, from, &field.layout, rows.clone(), &current.metadata)?;
    }
    Ok(())
}

impl Reader for RowReader {
    fn read(&mut self) -> Result<Option<&mut Batch>> {
        self.batch.clear();
        self.batch.span = Span { shard: self.shard, ..Span::default() };
        loop {
            if self.most == 0 {
                (self.rows, self.left, self.current) = (0..0, 0..0, None);
                self.remarks.clear();
            }
            let has_rows = !self.rows.is_empty() && self.fill()?;
            if has_rows {
                break;
            }
            // Findings made before the records of a frame come with them; later ones come in a batch of their own.
            if self.rows.is_empty() && !self.decode_more()? {
                let last = self.remarks.drain(..).map(|(_, remark)| {
                    let clock = self.opened.parts[self.shard as usize].clock(remark.time);
                    quipu_model::Remark { at: 0, clock, text: remark.text }
                });
                self.batch.remarks.extend(last);
                if !self.close()? && self.findings.is_empty() && self.batch.remarks.is_empty() {
                    return Ok(None);
                }
                break;
            }
        }
        let mut findings = self.take_findings();
        self.batch.findings.append(&mut findings);
        Ok(Some(&mut self.batch))
    }

    fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    fn limit_records(&mut self, records: u32) {
        self.batch_records = records.max(1);
    }

    fn packed_bytes(&self) -> Option<u64> {
        Some(self.packed_bytes)
    }
}
