//! Reading one core: one reader for each thread that ran there, each with its own position, in turns.

use super::{Core, Segment, unreached};
use crate::reader::EntryReader;
use crate::record::{ENTRY_BYTES, Entry, FileType, Marker, Type};
use crate::table::{Memrefs, table};
use crate::trace::File;
use quipu_model::{Batch, Code, CodeTable, Columns, Cut, Error, Reader, Result, Scan, Span, Window};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// A read of one core.
pub(super) struct CoreReader {
    files: Arc<[Arc<File>]>,
    core: Arc<Core>,
    /// Batches end before every N instructions of the core.
    cut_instrs: Option<NonZeroU64>,
    scan: Scan,
    /// Readers of the threads so far, by file.
    lanes: FxHashMap<usize, Lane>,
    /// Index of the current segment.
    at: usize,
    /// True if the next batch is the first of its segment.
    turned: bool,
    /// Records and instructions of the core before the current batch.
    records: u64,
    instrs: u64,
    /// Records and instructions wanted of the core.
    wanted: (Range<u64>, Range<u64>),
    /// Records to read from the first wanted instruction on; `None` once that is reached or if it does not apply.
    most: Option<u64>,
    /// Range of clock readings whose records are wanted.
    clock: Range<u64>,
    /// The latest clock reading on the core. Records that a thread continues with belong to it, whatever the thread read
    /// before.
    now: u64,
    /// True if spans state the clock reading that a segment begins with.
    opens: bool,
    batch: Batch,
    /// Indexes in the core's own code table.
    codes: FxHashMap<Code, u32>,
    /// For each file, the first instruction of the first segment that begins after the file's end, and the number of such
    /// segments.
    unreached: BTreeMap<usize, (u64, u64)>,
}

/// A thread's reader, and a map from its code indexes to those of the core.
struct Lane {
    reader: EntryReader,
    codes: Vec<u32>,
}

/// A range without limits.
const ALL: Range<u64> = 0..u64::MAX;

impl CoreReader {
    pub(super) fn new(files: Arc<[Arc<File>]>, core: Arc<Core>, scan: &Scan) -> Result<CoreReader> {
        let (mut wanted, clock) = match &scan.window {
            Window::All => ((ALL, ALL), ALL),
            Window::Records(range) => ((range.clone(), ALL), ALL),
            Window::Instrs(range) => ((ALL, range.clone()), ALL),
            Window::Clock(range) => ((ALL, ALL), range.clone()),
        };
        let mut most = None;
        match &scan.window {
            _ if scan.most == u64::MAX => {}
            Window::Clock(_) => {
                return Err(Error::unsupported(
                    "a trace arranged by core has no limit of records after a skip of time",
                ));
            }
            // The number of records before the window is not known yet.
            Window::Instrs(_) => most = Some(scan.most),
            _ => wanted.0.end = wanted.0.end.min(wanted.0.start.saturating_add(scan.most)),
        }
        let tables = scan.tables.iter().filter_map(|number| table(*number)).collect();
        Ok(CoreReader {
            batch: Batch { tables, ..Batch::default() },
            files,
            core,
            // Ordinals of instructions are the core's, so batches are cut here.
            cut_instrs: scan.cut.instrs,
            scan: Scan {
                window: Window::All,
                pieces: None,
                ahead: false,
                most: u64::MAX,
                // With windows of time, no batch may span a clock reading.
                cut: Cut { instrs: None, clock: scan.cut.clock || clock != ALL, ..scan.cut },
                // The core's table is filled from those of the readers.
                codes: None,
                ..scan.clone()
            },
            lanes: FxHashMap::default(),
            at: 0,
            turned: true,
            records: 0,
            instrs: 0,
            wanted,
            most,
            opens: scan.cut.clock,
            clock,
            now: 0,
            codes: FxHashMap::default(),
            unreached: BTreeMap::new(),
        })
    }

    /// Ensures that the segment's thread has a reader positioned at the segment's start.
    fn open(&mut self, segment: &Segment) -> Result<()> {
        if !self.lanes.contains_key(&segment.file) {
            let file = &self.files[segment.file];
            let pieces = file.pieces_from(segment.instrs.start);
            let reader = EntryReader::new(Arc::clone(file), &Scan { pieces, ..self.scan.clone() })?;
            self.lanes.insert(segment.file, Lane { reader: reader.counting(), codes: Vec::new() });
        }
        if self.turned
            && segment.instrs.start > 0
            && let Some(lane) = self.lanes.get_mut(&segment.file)
        {
            lane.reader.walk_to_instr(segment.instrs.start)?;
        }
        Ok(())
    }

    /// Limits of the segment's reader, in its own records and instructions, and whether the records up to there are wanted.
    fn limits(&self, lane: &Lane, segment: &Segment) -> (u64, u64, bool) {
        let (records, instrs) = &self.wanted;
        let is_wanted = self.records >= records.start && self.instrs >= instrs.start;
        let goal = |range: &Range<u64>, so_far: u64| {
            let bound = if so_far < range.start { range.start } else { range.end };
            bound.saturating_sub(so_far)
        };
        let (record, instr) = lane.reader.position();
        let record_goal = record.saturating_add(goal(records, self.records));
        let instr_goal = instr.max(segment.instrs.start).saturating_add(goal(instrs, self.instrs));
        let cut_goal = self.cut_instrs.map_or(u64::MAX, |every| {
            instr.max(segment.instrs.start).saturating_add(every.get() - self.instrs % every)
        });
        (record_goal, instr_goal.min(cut_goal).min(segment.instrs.end), is_wanted)
    }

    fn is_over(&self) -> bool {
        let (records, instrs) = &self.wanted;
        let instrs_over = self.instrs > instrs.end || (self.turned && self.instrs == instrs.end);
        let clock_over = Window::ends_at_clock(self.clock.end, self.now);
        self.at >= self.core.segments.len() || self.records >= records.end || instrs_over || clock_over
    }

    /// Fills a batch without records, after all others, with the findings about unreached stretches. Returns false if there
    /// are none.
    fn tell_unreached(&mut self) -> bool {
        if self.at < self.core.segments.len() || self.unreached.is_empty() {
            return false;
        }
        self.batch.clear();
        self.batch.block.clear();
        self.batch.raw = 0..0;
        let span = &mut self.batch.span;
        (span.first_record, span.records) = (self.records, 0);
        (span.first_instr, span.instrs) = (self.instrs, 0);
        span.opens = None;
        for (file, (start, count)) in std::mem::take(&mut self.unreached) {
            let instrs = self.lanes.get(&file).map_or(0, |lane| lane.reader.position().1);
            self.batch.findings.push(unreached(&self.files[file], start, instrs, count));
        }
        true
    }

    /// Turns the lane's batch into one of the core. False if none of it is wanted.
    fn take(&mut self, segment: &Segment, is_wanted: bool) -> bool {
        let Some(lane) = self.lanes.get_mut(&segment.file) else { return false };
        let theirs = lane.reader.batch();
        // The block and the codes stay with their reader.
        std::mem::swap(&mut self.batch, theirs);
        std::mem::swap(&mut self.batch.block, &mut theirs.block);
        std::mem::swap(&mut self.batch.codes, &mut theirs.codes);
        lane.learn(&mut self.batch.codes, &mut self.codes);
        if self.scan.columns.has(Columns::RAW) {
            let entries = theirs_raw(lane.reader.batch(), &self.batch.raw);
            copy_entries(
                entries,
                &self.batch.span,
                self.turned && segment.instrs.start > 0,
                &mut self.batch.block,
            );
        }
        let lane = &*lane;
        let rename = |code: &mut u32| *code = lane.codes.get(*code as usize).copied().unwrap_or(*code);
        let batch = &mut self.batch;
        batch.instrs.code.iter_mut().for_each(rename);
        let span = &mut batch.span;
        let (records, instrs) =
            (self.records.wrapping_sub(span.first_record), self.instrs.wrapping_sub(span.first_instr));
        for rows in batch.tables.iter_mut().filter_map(|table| table.get_mut::<Memrefs>()) {
            rows.record.iter_mut().for_each(|record| *record = record.wrapping_add(records));
            rows.instr.iter_mut().for_each(|instr| *instr = instr.wrapping_add(instrs));
            rows.code.iter_mut().for_each(rename);
        }
        // Damage in other parts of the thread is reported with the core that it ran on there.
        batch.findings.retain(|finding| {
            finding
                .place
                .instr
                .is_none_or(|instr| (segment.instrs.start..=segment.instrs.end).contains(&instr))
        });
        span.shard = self.scan.shard.0;
        span.piece = 0;
        span.first_record = self.records;
        span.first_instr = self.instrs;
        batch.raw = if self.scan.columns.has(Columns::RAW) { 0..batch.block.len() } else { 0..0 };
        self.now = self.now.max(span.clock);
        let is_before_end = !Window::ends_at_clock(self.clock.end, self.now);
        let is_wanted = is_wanted && self.now >= self.clock.start && is_before_end;
        if span.records > 0 {
            span.opens = match self.opens {
                true if self.turned => span.opens.or(Some(span.clock)),
                true => span.opens,
                false => None,
            };
            self.turned = false;
        }
        self.records += u64::from(span.records);
        self.instrs += u64::from(span.instrs);
        is_wanted || (span.records == 0 && !batch.findings.is_empty())
    }
}

impl Lane {
    /// Assigns indexes in the core's code table to the instructions that are new in the reader's.
    fn learn(&mut self, table: &mut CodeTable, known: &mut FxHashMap<Code, u32>) {
        let theirs = &self.reader.batch().codes;
        for code in theirs.as_slice().get(self.codes.len()..).unwrap_or(&[]) {
            let index = *known.entry(*code).or_insert_with(|| table.push(*code));
            self.codes.push(index);
        }
    }
}

/// The entries of a batch whose columns were moved out while its block stayed.
fn theirs_raw<'b>(theirs: &'b Batch, raw: &Range<usize>) -> &'b [Entry] {
    Entry::slice(theirs.block.get(raw.clone()).unwrap_or(&[])).0
}

/// Copies entries of a thread into the block of a core: after entries that name the thread, if the core switches to it, and
/// with the file type of core-sharded files. SPEC: drmemtrace.md#core-sharded-files.
fn copy_entries(entries: &[Entry], span: &Span, turns: bool, block: &mut Vec<u8>) {
    block.clear();
    if turns {
        for (kind, value) in [(Type::THREAD, span.thread.packed()), (Type::PID, span.process)] {
            let entry = Entry { kind: kind.0.into(), size: 0.into(), addr: value.into() };
            block.extend_from_slice(entry.as_bytes());
        }
    }
    let start = block.len();
    block.extend_from_slice(entries.as_bytes());
    if span.first_instr > 0 {
        return;
    }
    // Headers stand before the first instruction.
    let is_filetype = |entry: &&Entry| entry.kind() == Type::MARKER && entry.size.get() == Marker::FILETYPE.0;
    if let Some(at) = entries.iter().position(|entry| is_filetype(&entry)) {
        let value = entries[at].addr.get() | FileType::CORE_SHARDED.0;
        let end = start + (at + 1) * ENTRY_BYTES;
        block[end - size_of::<u64>()..end].copy_from_slice(&value.to_le_bytes());
    }
}

impl Reader for CoreReader {
    fn read(&mut self) -> Result<Option<&mut Batch>> {
        while !self.is_over() {
            if self.instrs >= self.wanted.1.start
                && let Some(most) = self.most.take()
            {
                self.wanted.0.end = self.records.saturating_add(most);
            }
            let segment = self.core.segments[self.at].clone();
            self.open(&segment)?;
            let Some(lane) = self.lanes.get(&segment.file) else { break };
            let (records, instrs, is_wanted) = self.limits(lane, &segment);
            let Some(lane) = self.lanes.get_mut(&segment.file) else { break };
            lane.reader.limit(records, instrs);
            lane.reader.limit_records(self.scan.batch_records);
            let has_batch = lane.reader.read()?.is_some();
            if has_batch {
                if self.take(&segment, is_wanted) {
                    return Ok(Some(&mut self.batch));
                }
            } else {
                let (_, instr) = lane.reader.position();
                let at_end = lane.reader.is_at_end();
                if at_end && instr < segment.last_start {
                    self.unreached.entry(segment.file).or_insert((segment.last_start, 0)).1 += 1;
                }
                if at_end || instr >= segment.instrs.end {
                    self.at += 1;
                    self.turned = true;
                } else if is_wanted {
                    // The window ended, not the segment.
                    break;
                }
            }
        }
        Ok(if self.tell_unreached() { Some(&mut self.batch) } else { None })
    }

    fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    fn limit_records(&mut self, records: u32) {
        // Each thread's reader takes it over before it reads.
        self.scan.batch_records = records.max(1);
    }
}
