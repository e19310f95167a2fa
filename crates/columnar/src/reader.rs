//! Reads rows of several files as batches that bring rows of the same record together again.
//!
//! Each table and lens is in a file of its own; the files share positions of records. A batch takes the rows of the next
//! records from all files, and ends where the thread changes or where the scan asks for a cut.

mod windows;

use crate::cursor::{Chunk, Cursor, Numbering, Wish};
use crate::lens::{Codes, Context, Filling, thread};
use crate::rules;
use crate::trace::{Opened, PIECE_RECORDS, Rows, no_table, thread_of};
use quipu_arrow::read::Wanted;
use quipu_model::batch::Span;
use quipu_model::lens::ThreadEvent;
use quipu_model::table::ColumnTable;
use quipu_model::{
    Accept, Batch, Columns, Condition, Cut, Error, Finding, Reader, Result, Scan, ShardKind, ThreadId, Window,
};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;
use windows::{instrs_before, records_of_clock, records_of_instrs};

/// Longest run of records without rows that is delivered in batches of the requested size; batches of a longer run have up to
/// `LARGE_STEP` records.
const MAX_STEPS: u64 = 1 << 24;
/// Maximum number of records in a shard.
pub(crate) const MAX_RECORDS: u64 = 1 << 48;
/// Maximum number of records without rows in one batch.
const LARGE_STEP: u64 = 1 << 30;
/// Maximum number of threads whose processes are remembered.
const MAX_THREADS: usize = 1 << 20;

/// The purpose for which rows of a file are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// To fill the table at this position of the scan.
    Table(usize),
    /// To fill this lens.
    Lens(Columns),
    /// To count instructions.
    Count,
    /// To follow the clock and the processor.
    State,
    /// To find the thread or the time of each record.
    Threads,
}

#[derive(Debug)]
struct Part {
    what: What,
    cursor: Cursor,
}

impl Part {
    /// True if each row has the position of its own record. A call has that of the record after it.
    fn tells_records(&self) -> bool {
        self.cursor.numbering != Numbering::None && self.what != What::Lens(Columns::CALLS)
    }

    /// The end of the run of records from `start` on that each have a row, or the first record with a row if `start` has
    /// none.
    fn run_from(&self, start: u64) -> u64 {
        let mut next = start;
        for chunk in &self.cursor.queue {
            let records = &chunk.records[chunk.at..chunk.n_rows];
            let (Some(first), Some(last)) = (records.first(), records.last()) else { continue };
            if *first != next {
                return if next == start { *first } else { next };
            }
            let n = records.len() as u64;
            if last - first != n - 1 {
                let end = (next..).zip(records).find(|(expected, record)| expected != *record);
                return end.map_or(u64::MAX, |(expected, _)| expected);
            }
            next += n;
        }
        u64::MAX
    }

    /// Calls `take` with the next rows of records before `end`.
    fn take(&mut self, end: u64, take: &mut dyn FnMut(&Chunk, Range<usize>) -> Result<()>) -> Result<()> {
        for chunk in &mut self.cursor.queue {
            let rows = chunk.at..chunk.row_at(end);
            let is_all = rows.end == chunk.n_rows;
            if !rows.is_empty() {
                take(chunk, rows.clone())?;
                chunk.at = rows.end;
            }
            if !is_all {
                break;
            }
        }
        self.cursor.tidy();
        Ok(())
    }
}

/// Reads a shard in batches.
#[derive(Debug)]
pub struct BatchReader {
    opened: Arc<Opened>,
    shard: usize,
    parts: Vec<Part>,
    batch: Batch,
    wanted: Columns,
    /// Requested records.
    window: Range<u64>,
    /// The next record to deliver.
    next: u64,
    most: u64,
    batch_records: u64,
    cut: Cut,
    is_mixed: bool,
    is_core: bool,
    thread: Option<ThreadId>,
    processes: FxHashMap<ThreadId, u64>,
    clock: u64,
    cpu: Option<u64>,
    /// Whether there was a clock reading.
    has_clock: bool,
    /// Whether records were delivered.
    is_opened: bool,
    n_instrs: u64,
    codes: Codes,
    findings: Vec<Finding>,
    told: Vec<Finding>,
    is_begun: bool,
    is_over: bool,
}

/// Turns ranges of numbers into conditions for the file. Other conditions, and those on columns that `column` does not find,
/// are left out.
fn wanted_of(only: &[Condition], column: impl Fn(&str) -> Option<usize>) -> Vec<Wanted> {
    let wanted = |condition: &Condition| match &condition.accept {
        Accept::Between(accepts) => {
            let column = column(&condition.column)?;
            Some(Wanted { column, accepts: accepts.clone(), ascends_to: None })
        }
        _ => None,
    };
    only.iter().filter_map(wanted).collect()
}

/// Starts to read columns of a shard's file. Returns `None` if the shard has no such file, or if the file cannot be used, which
/// adds a finding.
#[expect(clippy::too_many_arguments, reason = "each of them is another thing that a read needs")]
fn part(
    rows: &Rows,
    shard: usize,
    what: What,
    columns: Vec<usize>,
    window: Range<u64>,
    wanted: Vec<Wanted>,
    threads: bool,
    findings: &mut Vec<Finding>,
) -> Option<Part> {
    let file = rows.file(shard)?;
    let opened = match file.open() {
        Ok(opened) => opened,
        Err(error) => {
            findings.push(rules::unreadable(file.name(), &error));
            return None;
        }
    };
    let is_like = opened.schema().fields.len() == rows.schema.fields.len()
        && opened
            .schema()
            .fields
            .iter()
            .zip(&rows.schema.fields)
            .all(|(a, b)| a.name == b.name && a.ty == b.ty);
    if !is_like {
        let error = Error::malformed("the file has other columns than the first of its table");
        let place = quipu_model::Place { file: Some(file.name().to_owned()), ..Default::default() };
        findings.push(rules::lost(&rules::COLUMNS, &error.at(&place), None, true));
        return None;
    }
    let wish = Wish {
        columns,
        numbering: rows.numbering,
        thread: rows.thread.filter(|_| threads),
        process: rows.process.filter(|_| threads),
        window,
        wanted,
    };
    Some(Part { what, cursor: Cursor::new(opened, file.name(), wish) })
}

impl BatchReader {
    /// Starts a read.
    ///
    /// # Errors
    /// `Usage` for a shard or table that does not exist; `Missing` for a window of instructions or clock readings if the trace
    /// has none.
    pub(crate) fn new(opened: &Arc<Opened>, scan: &Scan) -> Result<BatchReader> {
        let shard = scan.shard.0 as usize;
        let about = opened
            .shards
            .get(shard)
            .ok_or_else(|| Error::usage(format!("the trace has no shard {shard}")))?;
        let mut findings = Vec::new();
        let mut window = match &scan.window {
            Window::All => 0..u64::MAX,
            Window::Records(range) => range.clone(),
            Window::Instrs(range) => records_of_instrs(opened, shard, range, &mut findings)?,
            Window::Clock(range) => records_of_clock(opened, shard, range, &mut findings)?,
        };
        if let Some(pieces) = &scan.pieces {
            let edge = |piece: u32| match piece >= about.pieces {
                true => u64::MAX,
                false => u64::from(piece) * PIECE_RECORDS,
            };
            window = edge(pieces.start)..edge(pieces.end);
            if pieces.start >= about.pieces {
                window = 0..0;
            }
        }
        let is_mixed = about.kind != ShardKind::Thread;
        let wanted = scan.columns;
        let has_lens = wanted.any(Columns::OF_LENSES) || scan.tables.is_empty();
        let mut parts = Vec::new();
        let mut tables: Vec<Box<dyn quipu_model::TableBuf>> = Vec::new();
        for (place, table) in scan.tables.iter().enumerate() {
            let rows = opened.tables.get(*table).ok_or_else(no_table)?;
            tables.push(Box::new(ColumnTable::new(rows.schema.clone())));
            let columns = (0..rows.schema.fields.len()).collect();
            let wanted = wanted_of(&scan.only, |name| rows.schema.position(name));
            parts.extend(part(
                rows,
                shard,
                What::Table(place),
                columns,
                window.clone(),
                wanted,
                is_mixed,
                &mut findings,
            ));
        }
        let of_fetches = Columns::ACCESSES | Columns::ACCESS_FETCH;
        for lens in Columns::LENSES.iter().map(|lens| lens.rows) {
            let Some((filling, rows)) = opened.lens(lens) else { continue };
            let is_wanted = wanted.has(lens);
            let from_start = 0..window.end;
            let (what, columns, window) = match lens {
                Columns::INSTRS if is_wanted || wanted.has(of_fetches) => {
                    (What::Lens(lens), filling.needed(wanted), window.clone())
                }
                Columns::INSTRS if has_lens && scan.counts_instrs || scan.cut.instrs.is_some() => {
                    (What::Count, filling.counting(), window.clone())
                }
                Columns::THREADS if is_wanted => (What::Lens(lens), filling.needed(wanted), from_start),
                Columns::THREADS if has_lens || scan.cut.clock => {
                    (What::State, filling.needed(wanted), from_start)
                }
                Columns::REGIONS if is_wanted => (What::Lens(lens), filling.needed(wanted), from_start),
                _ if is_wanted => (What::Lens(lens), filling.needed(wanted), window.clone()),
                _ => continue,
            };
            let wanted = match what {
                What::Lens(_) => wanted_of(&scan.only, |name| filling.passable(name)),
                _ => Vec::new(),
            };
            parts.extend(part(rows, shard, what, columns, window, wanted, is_mixed, &mut findings));
        }
        let tells = |part: &Part| {
            matches!(part.what, What::Table(_)) && part.cursor.thread.is_some() && part.tells_records()
        };
        if is_mixed && !parts.iter().any(tells) {
            let is_spine = |rows: &&Rows| {
                rows.thread.is_some() && rows.numbering != Numbering::None && rows.file(shard).is_some()
            };
            let rows = opened.tables.iter().find(is_spine);
            parts.extend(rows.and_then(|rows| {
                let (window, none) = (window.clone(), Vec::new());
                part(rows, shard, What::Threads, Vec::new(), window, none, true, &mut findings)
            }));
        }
        let mut reader = BatchReader {
            opened: opened.clone(),
            shard,
            parts,
            batch: Batch {
                tables,
                codes: quipu_model::CodeTable::sharing(scan.codes.clone()),
                ..Batch::default()
            },
            wanted,
            next: window.start,
            most: scan.most,
            batch_records: u64::from(scan.batch_records.max(1)),
            cut: scan.cut,
            is_mixed,
            is_core: about.kind == ShardKind::Core,
            thread: None,
            processes: FxHashMap::default(),
            clock: 0,
            cpu: None,
            has_clock: false,
            is_opened: false,
            n_instrs: 0,
            codes: Codes::default(),
            findings,
            told: Vec::new(),
            is_begun: false,
            is_over: window.is_empty() || scan.most == 0,
            window,
        };
        if wanted.has(Columns::CALLS) {
            for function in &opened.functions {
                reader.batch.types.push(function.clone());
            }
        }
        let counts = scan.counts_instrs
            && reader.parts.iter().any(|part| matches!(part.what, What::Count | What::Lens(Columns::INSTRS)));
        if reader.next > 0 && counts && scan.pieces.is_none() {
            reader.n_instrs = instrs_before(opened, shard, reader.next, &mut reader.findings)?;
        }
        Ok(reader)
    }

    /// Takes over the findings of the parts.
    fn take_findings(&mut self) {
        let mut found: Vec<Finding> = Vec::new();
        for part in &mut self.parts {
            found.append(&mut part.cursor.findings);
        }
        for finding in found {
            // Two parts may read the same file; its damage is reported once.
            if !self.told.iter().any(|known| known.is_same_fault(&finding)) {
                self.told.push(finding.clone());
                self.findings.push(finding);
            }
        }
    }

    /// The thread of the next record, and its process if known.
    fn next_thread(&self) -> (ThreadId, Option<u64>) {
        let about = &self.opened.shards[self.shard];
        if !self.is_mixed {
            return (thread_of(about), about.process);
        }
        let mut first: Option<(u64, bool, ThreadId, Option<u64>)> = None;
        for part in &self.parts {
            let (Some(record), Some(at)) = (part.cursor.next_record(), part.cursor.thread) else { continue };
            let Some(chunk) = part.cursor.queue.front() else { continue };
            // Rows before the window say nothing about the next record.
            if record < self.next {
                continue;
            }
            let id = thread(chunk.columns[at].as_ref().number(chunk.at));
            let process = part.cursor.process.map(|at| chunk.columns[at].as_ref().number(chunk.at));
            let is_loose = !part.tells_records();
            let is_better = match &first {
                None => true,
                Some((best, was_loose, _, known)) => {
                    (record, is_loose) < (*best, *was_loose)
                        || (record, is_loose) == (*best, *was_loose) && known.is_none() && process.is_some()
                }
            };
            if is_better {
                first = Some((record, is_loose, id, process));
            }
        }
        match (first, self.thread) {
            (Some((record, is_loose, id, process)), before) => match before {
                // Records without rows belong to the thread before them.
                Some(before) if record > self.next && !is_loose => (before, None),
                _ => (id, process),
            },
            (None, Some(before)) => (before, None),
            (None, None) => (thread_of(about), about.process),
        }
    }

    /// Returns where the batch that begins at the next record must end, at most `limit`, and the clock reading that opens a
    /// segment in it, if any.
    fn end(&self, mut limit: u64, thread_now: ThreadId) -> (u64, Option<u64>) {
        let start = self.next;
        // Rows of such a table have no position but that in their batch.
        for part in self.parts.iter().filter(|part| matches!(part.what, What::Table(_))) {
            if part.cursor.numbering == Numbering::Rows {
                limit = limit.min(part.run_from(start));
            }
        }
        if self.is_mixed {
            for part in self.parts.iter().filter(|part| part.tells_records()) {
                let Some(at) = part.cursor.thread else { continue };
                'rows: for chunk in &part.cursor.queue {
                    let column = chunk.columns[at].as_ref();
                    for row in chunk.row_at(start)..chunk.n_rows {
                        let record = chunk.records[row];
                        if record >= limit {
                            break 'rows;
                        }
                        if thread(column.number(row)) != thread_now && record > start {
                            limit = record;
                            break 'rows;
                        }
                    }
                }
            }
        }
        let mut opens = None;
        if self.cut.clock {
            // Records before the first reading belong to its segment.
            let mut has_clock = self.has_clock;
            for part in &self.parts {
                if !matches!(part.what, What::State | What::Lens(Columns::THREADS)) {
                    continue;
                }
                let Some((filling, _)) = self.opened.lens(Columns::THREADS) else { continue };
                'clocks: for chunk in &part.cursor.queue {
                    for row in chunk.row_at(start)..chunk.n_rows {
                        let record = chunk.records[row];
                        if record >= limit {
                            break 'clocks;
                        }
                        match filling.event(chunk, row) {
                            Some((ThreadEvent::Clock, reading)) if record == start || !has_clock => {
                                opens = Some(reading);
                                has_clock = true;
                            }
                            Some((ThreadEvent::Clock, _)) => {
                                limit = record;
                                break 'clocks;
                            }
                            _ => {}
                        }
                    }
                }
            }
        }
        if let Some(n) = self.cut.instrs {
            let mut ordinal = self.n_instrs;
            for part in &self.parts {
                if !matches!(part.what, What::Count | What::Lens(Columns::INSTRS)) {
                    continue;
                }
                let Some((filling, _)) = self.opened.lens(Columns::INSTRS) else { continue };
                'instrs: for chunk in &part.cursor.queue {
                    for row in chunk.row_at(start)..chunk.n_rows {
                        let record = chunk.records[row];
                        if record >= limit {
                            break 'instrs;
                        }
                        if filling.is_fetched(chunk, row) {
                            if ordinal.is_multiple_of(n.get()) && record > start {
                                limit = record;
                                break 'instrs;
                            }
                            ordinal += 1;
                        }
                    }
                }
            }
        }
        (limit, opens)
    }

    /// Fills the batch with the next records; false if there was nothing to add.
    fn step(&mut self) -> Result<bool> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        let wish = self.batch_records.min(self.most).min(u32::MAX.into());
        let mut limit = self.next.saturating_add(wish).min(self.window.end);
        for part in &mut self.parts {
            if part.cursor.numbering != Numbering::None {
                // A call has the position of the record that follows it.
                part.cursor.load_until(limit.saturating_add(1))?;
            }
        }
        self.take_findings();
        if is_first && self.next > 0 && self.before_window()? {
            return Ok(true);
        }
        let of_records = || self.parts.iter().filter(|part| part.cursor.numbering != Numbering::None);
        let is_loaded = of_records().all(|part| part.cursor.is_over());
        let mut is_last = false;
        if is_loaded {
            let last = |part: &Part| {
                let last = part
                    .cursor
                    .queue
                    .back()
                    .and_then(|chunk| chunk.records.get(chunk.n_rows.checked_sub(1)?));
                last.map_or(0, |record| record + u64::from(part.tells_records()))
            };
            let said = self.opened.records[self.shard].unwrap_or(0).min(MAX_RECORDS).min(self.window.end);
            let end = of_records().map(last).max().unwrap_or(0).max(said).max(self.next);
            let is_bare = of_records().all(|part| part.cursor.queue.is_empty());
            if is_bare && end - self.next > MAX_STEPS {
                limit = self.next.saturating_add(self.most.min(LARGE_STEP));
            }
            is_last = limit >= end;
            limit = limit.min(end);
        } else {
            for part in of_records() {
                limit = limit.min(part.cursor.complete_until().max(self.next + 1));
            }
        }
        // A long run of records without rows is delivered in large steps.
        let next = of_records().filter_map(|part| part.cursor.next_record()).min();
        if next.is_some_and(|next| next.saturating_sub(self.next) > MAX_STEPS) {
            let gap = next.map_or(0, |next| next - self.next);
            limit = self.next + gap.min(self.most).min(LARGE_STEP);
            limit = limit.min(self.window.end);
            is_last = false;
        }
        let (id, process) = self.next_thread();
        let (end, opens) = self.end(limit, id);
        is_last &= end == limit;
        let n_records = end - self.next;
        let clock_before = self.clock;
        let filled = self.fill(end, id, is_last)?;
        self.has_clock |= opens.is_some() || self.clock != 0;
        let is_turn = self.is_core && self.thread.is_some_and(|before| before != id);
        let opens = match () {
            () if n_records == 0 => None,
            // A read that begins within a segment gets the reading of that segment.
            () if !self.is_opened => opens.or(Some(clock_before)),
            () if is_turn => opens.or(Some(self.clock)),
            () => opens,
        };
        self.is_opened |= n_records > 0;
        let n_free = self.fill_free()?;
        if let Some(process) = process
            && (self.processes.len() < MAX_THREADS || self.processes.contains_key(&id))
        {
            self.processes.insert(id, process);
        }
        let about = &self.opened.shards[self.shard];
        let process = process.or_else(|| self.processes.get(&id).copied()).or(about.process);
        self.batch.span = Span {
            shard: self.shard as u32, // It was a `u32` in the scan.
            first_record: self.next,
            records: n_records as u32, // At most `wish` or `LARGE_STEP`.
            first_instr: self.n_instrs,
            instrs: filled.n_instrs.min(u32::MAX.into()) as u32,
            thread: id,
            process: process.unwrap_or(0),
            cpu: self.cpu,
            clock: self.clock,
            opens: opens.filter(|_| self.cut.clock),
            ..Span::default()
        };
        self.n_instrs += filled.n_instrs;
        self.thread = Some(id);
        self.next = end;
        self.most = self.most.saturating_sub(n_records);
        let is_done = self.most == 0 || self.next >= self.window.end || is_last;
        if is_done && n_free == 0 {
            self.is_over = true;
        }
        Ok(n_records > 0 || n_free > 0 || filled.n_rows > 0)
    }

    /// Reads the state at the start of the window: the clock, the processor, regions of memory. True if the batch has regions.
    fn before_window(&mut self) -> Result<bool> {
        let start = self.next;
        let BatchReader { opened, parts, batch, wanted, codes, clock, cpu, .. } = self;
        let mut has_regions = false;
        for part in parts {
            let lens = match part.what {
                What::Lens(Columns::REGIONS) => Columns::REGIONS,
                What::State | What::Lens(Columns::THREADS) => Columns::THREADS,
                _ => continue,
            };
            let Some((filling, _)) = opened.lens(lens) else { continue };
            // These parts are read from the beginning of the shard.
            loop {
                part.take(start, &mut |chunk, rows| {
                    for row in rows {
                        if lens == Columns::REGIONS {
                            has_regions = true;
                            filling.push(batch, 0, chunk, row, &mut Context { wanted: *wanted, codes });
                        } else {
                            note(filling, chunk, row, clock, cpu);
                        }
                    }
                    Ok(())
                })?;
                if part.cursor.is_over() || part.cursor.complete_until() >= start {
                    break;
                }
                part.cursor.load_until(start)?;
            }
            part.cursor.load_until(start)?;
        }
        self.has_clock |= self.clock != 0;
        self.batch.span = Span {
            shard: self.shard as u32,
            first_record: start,
            first_instr: self.n_instrs,
            ..Span::default()
        };
        Ok(has_regions)
    }

    /// Moves rows of records before `end` into the batch.
    fn fill(&mut self, end: u64, id: ThreadId, is_last: bool) -> Result<Filled> {
        let start = self.next;
        let BatchReader { opened, parts, batch, wanted, codes, clock, cpu, is_mixed, .. } = self;
        let wanted = *wanted;
        let with_fetches = wanted.has(Columns::ACCESSES | Columns::ACCESS_FETCH);
        let mut filled = Filled::default();
        if with_fetches {
            let n = fetches(opened, parts, batch, wanted, codes, start..end)?;
            filled.n_instrs += n;
            filled.n_rows += batch.accesses.at.len();
        }
        for part in parts.iter_mut() {
            let of_thread = part.cursor.thread;
            match part.what {
                What::Table(place) => {
                    if part.cursor.numbering == Numbering::None {
                        continue;
                    }
                    let Some(table) =
                        batch.tables.get_mut(place).and_then(|table| table.get_mut::<ColumnTable>())
                    else {
                        continue;
                    };
                    part.take(end, &mut |chunk, rows| {
                        filled.n_rows += rows.len();
                        append(table, chunk, rows);
                        Ok(())
                    })?;
                }
                What::Threads => part.take(end, &mut |_, _| Ok(()))?,
                What::Count => {
                    let Some((filling, _)) = opened.lens(Columns::INSTRS) else { continue };
                    part.take(end, &mut |chunk, rows| {
                        filled.n_instrs += rows.filter(|row| filling.is_fetched(chunk, *row)).count() as u64;
                        Ok(())
                    })?;
                }
                What::State => {
                    let Some((filling, _)) = opened.lens(Columns::THREADS) else { continue };
                    part.take(end, &mut |chunk, rows| {
                        rows.for_each(|row| note(filling, chunk, row, clock, cpu));
                        Ok(())
                    })?;
                }
                What::Lens(Columns::CALLS) => {
                    let Some((filling, _)) = opened.lens(Columns::CALLS) else { continue };
                    let mut push = |chunk: &Chunk, rows: Range<usize>| {
                        filled.n_rows += rows.len();
                        for row in rows {
                            let at = (chunk.records[row].min(end) - start.min(chunk.records[row])) as u32;
                            filling.push(batch, at, chunk, row, &mut Context { wanted, codes });
                        }
                        Ok(())
                    };
                    part.take(end, &mut push)?;
                    // A call has the position of the next record. After the last record there is none, and after the last
                    // record of a thread it belongs to another thread.
                    if is_last {
                        part.take(u64::MAX, &mut push)?;
                    } else if *is_mixed && let Some(at) = of_thread {
                        let is_ours = |chunk: &Chunk| {
                            chunk.records[chunk.at] == end
                                && thread(chunk.columns[at].as_ref().number(chunk.at)) == id
                        };
                        while part.cursor.queue.front().is_some_and(is_ours) {
                            if let Some(chunk) = part.cursor.queue.front_mut() {
                                push(chunk, chunk.at..chunk.at + 1)?;
                                chunk.at += 1;
                            }
                            part.cursor.tidy();
                        }
                    }
                }
                What::Lens(lens) => {
                    let Some((filling, _)) = opened.lens(lens) else { continue };
                    part.take(end, &mut |chunk, rows| {
                        filled.n_rows += rows.len();
                        for row in rows {
                            let at = (chunk.records[row] - start.min(chunk.records[row])) as u32;
                            if lens == Columns::THREADS {
                                note(filling, chunk, row, clock, cpu);
                            }
                            if lens == Columns::INSTRS {
                                filled.n_instrs += u64::from(filling.is_fetched(chunk, row));
                            }
                            filling.push(batch, at, chunk, row, &mut Context { wanted, codes });
                        }
                        Ok(())
                    })?;
                }
            }
        }
        Ok(filled)
    }

    /// Moves rows that belong to no record into the batch; returns their number.
    fn fill_free(&mut self) -> Result<usize> {
        let mut n_rows = 0;
        let most = self.batch_records as usize;
        for part in self.parts.iter_mut() {
            let What::Table(place) = part.what else { continue };
            if part.cursor.numbering != Numbering::None || !part.cursor.load_some() {
                continue;
            }
            let table = self.batch.tables.get_mut(place).and_then(|table| table.get_mut::<ColumnTable>());
            let (Some(table), Some(chunk)) = (table, part.cursor.queue.front_mut()) else { continue };
            let rows = chunk.at..chunk.n_rows.min(chunk.at + most);
            n_rows += rows.len();
            append(table, chunk, rows.clone());
            chunk.at = rows.end;
            part.cursor.tidy();
        }
        self.take_findings();
        Ok(n_rows)
    }
}

/// Number of instructions and rows that a batch was filled with.
#[derive(Default)]
struct Filled {
    n_instrs: u64,
    n_rows: usize,
}

fn append(table: &mut ColumnTable, chunk: &Chunk, rows: Range<usize>) {
    for (to, from) in table.columns.iter_mut().zip(&chunk.columns) {
        to.extend_rows(from.as_ref(), rows.clone());
    }
}

fn note(filling: &Filling, chunk: &Chunk, row: usize, clock: &mut u64, cpu: &mut Option<u64>) {
    match filling.event(chunk, row) {
        Some((ThreadEvent::Clock, reading)) => *clock = reading,
        Some((ThreadEvent::Cpu, number)) => *cpu = Some(number),
        _ => {}
    }
}

/// Fills accesses, including instruction fetches, and instructions; returns the number of instructions that were fetched.
fn fetches(
    opened: &Opened,
    parts: &mut [Part],
    batch: &mut Batch,
    wanted: Columns,
    codes: &mut Codes,
    records: Range<u64>,
) -> Result<u64> {
    let of = |parts: &[Part], lens| parts.iter().position(|part| part.what == What::Lens(lens));
    let (instrs, accesses) = (of(parts, Columns::INSTRS), of(parts, Columns::ACCESSES));
    let next = |parts: &[Part], at: Option<usize>| {
        let record = at.and_then(|at| parts[at].cursor.next_record());
        record.filter(|record| *record < records.end)
    };
    let mut n_instrs = 0;
    loop {
        let (of_instr, of_access) = (next(parts, instrs), next(parts, accesses));
        // An instruction is fetched before it accesses anything.
        let is_instr = match (of_instr, of_access) {
            (None, None) => return Ok(n_instrs),
            (Some(instr), Some(access)) => instr <= access,
            (instr, _) => instr.is_some(),
        };
        let (at, end) = match is_instr {
            true => (instrs, of_access.map_or(records.end, |access| access + 1)),
            false => (accesses, of_instr.unwrap_or(records.end)),
        };
        let lens = if is_instr { Columns::INSTRS } else { Columns::ACCESSES };
        let (Some(at), Some((filling, _))) = (at, opened.lens(lens)) else { return Ok(n_instrs) };
        parts[at].take(end.min(records.end), &mut |chunk, rows| {
            for row in rows {
                let at = (chunk.records[row] - records.start.min(chunk.records[row])) as u32;
                if is_instr {
                    n_instrs += u64::from(filling.is_fetched(chunk, row));
                }
                filling.push(batch, at, chunk, row, &mut Context { wanted, codes });
            }
            Ok(())
        })?;
    }
}

impl Reader for BatchReader {
    fn read(&mut self) -> Result<Option<&mut Batch>> {
        self.batch.clear();
        self.batch.span = Span { shard: self.shard as u32, first_record: self.next, ..Span::default() };
        let mut has_rows = false;
        while !has_rows && !self.is_over {
            has_rows = self.step()?;
        }
        self.take_findings();
        if !has_rows && self.findings.is_empty() {
            return Ok(None);
        }
        self.batch.findings.append(&mut self.findings);
        Ok(Some(&mut self.batch))
    }

    fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    fn limit_records(&mut self, records: u32) {
        self.batch_records = records.max(1).into();
    }

    fn packed_bytes(&self) -> Option<u64> {
        Some(self.parts.iter().map(|part| part.cursor.n_bytes).sum())
    }
}
