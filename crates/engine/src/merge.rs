//! Many shards as one sequence of batches, merged by time: threads and cores alike.
//!
//! A shard is cut into segments, each opened by a clock reading. The merge always continues with the shard whose next segment
//! opens earliest (if several do, with the first in the trace's order), and stays with it to the end of the segment. Batches
//! are lent by their readers, never copied.

use crate::feed::is_misuse;
use crate::units::is_empty;
use crate::watch::Watch;
use crate::window::{self, Part, Position};
use quipu_model::print::Ordinals;
use quipu_model::{Batch, Cut, Error, Reader, Result, Scan, Shard, Span, Trace, Window};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Approximate limit on the buffers of all readers of one merge, in bytes.
const MERGE_BUFFER_BYTES: usize = 40 << 20;
/// Lower limit on the buffers of one reader: with less, it would spend its time refilling.
const MIN_BUFFER_BYTES: usize = 16 << 10;
/// Approximate limit on the records in the batches of all readers of one merge.
const MERGE_BATCH_RECORDS: u32 = 128 << 10;
/// Lower limit on the records in a batch: with fewer, the overhead of each batch dominates.
const MIN_BATCH_RECORDS: u32 = 128;
/// Upper limit on the readers that decompress ahead: with more, there would be too many threads.
const MAX_READERS_AHEAD: usize = 16;

/// A trace as one sequence of batches. The module's documentation describes the order.
pub struct Merge<'t> {
    trace: &'t dyn Trace,
    template: Scan,
    lanes: Vec<Lane>,
    /// Shards that wait for their turn, by the clock reading with which their batch opens a segment; those without a reader
    /// by a lower bound for their first reading.
    waiting: BinaryHeap<Reverse<(u64, u32)>>,
    /// The shard of the batch that was delivered last.
    current: Option<u32>,
    /// The position of the next batch in the sequence.
    position: Position,
    /// The end of the window in the sequence.
    end: Position,
    /// True once the end is reached.
    over: bool,
    /// Errors from before the first batch.
    failed: VecDeque<Error>,
    /// Whether records that windows leave out count in positions.
    counts_skipped: bool,
}

/// One shard of the merge.
struct Lane {
    window: Window,
    /// Maximum number of records of the window to read.
    most: u64,
    /// `None` before the shard's first turn and after its end.
    reader: Option<Box<dyn Reader>>,
    /// The position in the shard up to which the sequence has counted.
    seen: Position,
    closed: bool,
}

/// One batch of the sequence, lent by the merge until the next one.
#[derive(Debug)]
pub struct Merged<'m> {
    /// The batch. Its findings are for the caller to take.
    pub batch: &'m mut Batch,
    /// Offsets from the batch's ordinals, which count in the shard, to those in the sequence. The latter count everything
    /// before the batch, read or skipped, as far as the readers know it.
    pub ordinals: Ordinals,
    /// The records of the batch that are wanted: all of them, except in the last batch of a window.
    pub records: Range<u32>,
}

impl<'t> Merge<'t> {
    /// Makes all shards of a read keep their instructions in one table if there are many shards: files of one program hold
    /// mostly the same ones. For callers that only look instructions up by index.
    pub fn sharing_codes(trace: &dyn Trace, template: Scan) -> Scan {
        let codes = (trace.shards().len() > MAX_READERS_AHEAD).then(Arc::default);
        Scan { codes, ..template }
    }

    /// Begins to read all shards of `trace`, with the columns, tables, window and sizes of `template`. Its shard and pieces
    /// are ignored, and its buffer size is divided among the readers.
    ///
    /// A window of records or instructions applies to the sequence, and this function reads what it skips, without columns.
    /// `watch` can cancel that, and the merge is then empty. For a trace of one shard, the window is passed to the shard's
    /// reader, so that the format can jump.
    ///
    /// # Errors
    /// For wrong use only. Errors of reading a shard are reported by [`read`](Merge::read).
    pub fn new(trace: &'t dyn Trace, template: &Scan, watch: &Watch) -> Result<Merge<'t>> {
        let mut end = Position::MAX;
        let part = match &template.window {
            window if is_empty(window) => Part::nothing(trace),
            Window::Records(range) if trace.shards().len() > 1 => {
                end.records = range.end;
                window::resolve(trace, &Window::Records(range.start..u64::MAX), watch)?
            }
            Window::Instrs(range) if trace.shards().len() > 1 => {
                end.instrs = range.end;
                window::resolve(trace, &Window::Instrs(range.start..u64::MAX), watch)?
            }
            window => Part::same(trace, window),
        };
        let mut merge = Merge::over(trace, template, part)?;
        merge.end = end;
        Ok(merge)
    }

    /// Begins to read the same window, that of `template`, of each shard. Records that it leaves out are not counted, so the
    /// sequence begins with the first record and instruction that it delivers.
    ///
    /// # Errors
    /// For wrong use only. Errors of reading a shard are reported by [`read`](Merge::read).
    pub fn of_each_shard(trace: &'t dyn Trace, template: &Scan) -> Result<Merge<'t>> {
        Merge::begin(trace, template, Part::same(trace, &template.window), false)
    }

    /// Like [`of_each_shard`](Merge::of_each_shard), but only the first `most` records of the sequence. This function finds
    /// out which these are by a read without columns, which `watch` can cancel.
    ///
    /// # Errors
    /// As for [`of_each_shard`](Merge::of_each_shard).
    pub fn first_of_each_shard(
        trace: &'t dyn Trace,
        template: &Scan,
        most: u64,
        watch: &Watch,
    ) -> Result<Merge<'t>> {
        let part = window::first_of(trace, &template.window, most, watch)?;
        Merge::begin(trace, template, part, false)
    }

    /// Begins to read a given part of each shard.
    pub(crate) fn over(trace: &'t dyn Trace, template: &Scan, part: Part) -> Result<Merge<'t>> {
        Merge::begin(trace, template, part, true)
    }

    fn begin(trace: &'t dyn Trace, template: &Scan, part: Part, counts_skipped: bool) -> Result<Merge<'t>> {
        let wanted = part.windows.iter().filter(|window| !is_empty(window)).count();
        let lanes = part.windows.into_iter().zip(part.most).zip(part.before);
        let lanes = lanes.map(|((window, most), seen)| Lane {
            closed: is_empty(&window),
            window,
            most,
            reader: None,
            seen,
        });
        let lanes: Vec<Lane> = lanes.collect();
        let mut merge = Merge {
            trace,
            template: divided(template, wanted),
            position: lanes.iter().fold(Position::default(), |sum, lane| sum.plus(lane.seen)),
            lanes,
            waiting: BinaryHeap::new(),
            current: None,
            end: Position::MAX,
            over: false,
            failed: part.errors.into(),
            counts_skipped,
        };
        merge.line_up()?;
        Ok(merge)
    }

    /// Returns the next batch of the sequence, or `None` at its end.
    ///
    /// # Errors
    /// An error that ends reading one shard. The caller may stop, or continue with the other shards.
    pub fn read(&mut self) -> Result<Option<Merged<'_>>> {
        if let Some(error) = self.failed.pop_front() {
            return Err(error);
        }
        if self.over {
            return Ok(None);
        }
        let Some(shard) = self.next_shard()? else { return Ok(None) };
        let index = shard as usize;
        let span = self.lanes[index].batch().span;
        self.skip_to(shard, &span);
        let Some(records) = self.wanted(shard)? else { return Ok(None) };
        let mut before = self.position;
        self.lanes[index].seen = Position::behind(&span);
        if !self.counts_skipped && is_repeated(self.lanes[index].batch()) {
            // It repeats a record that was left out, so it gets the ordinal of the previous record.
            before.records = before.records.wrapping_sub(u64::from(span.records));
        } else {
            self.position = before.plus(Position::of(&span));
        }
        self.current = Some(shard);
        let ordinals = Ordinals {
            records: before.records.wrapping_sub(span.first_record),
            instrs: before.instrs.wrapping_sub(span.first_instr),
        };
        Ok(Some(Merged { batch: self.lanes[index].batch(), ordinals, records }))
    }

    /// Approximate share of the trace that has been read, by bytes on disk; `None` if their number is unknown. This visits
    /// each shard, so do not call it for every batch.
    pub fn share(&self) -> Option<f64> {
        let total =
            self.trace.shards().iter().try_fold(0, |sum: u64, shard| sum.checked_add(shard.packed_bytes?))?;
        (total > 0).then(|| (self.packed_bytes() as f64 / total as f64).min(1.0))
    }

    /// Approximate number of bytes on disk that have been read.
    pub(crate) fn packed_bytes(&self) -> u64 {
        let lanes = self.lanes.iter().zip(self.trace.shards());
        lanes.map(|(lane, shard)| lane.packed_bytes(shard)).fold(0, u64::saturating_add)
    }

    /// Puts all shards into the queue, each with its first batch. Among shards whose first clock reading is known, only the
    /// first is opened here, which finds wrong use; many thousands of them may be read one after the other.
    fn line_up(&mut self) -> Result<()> {
        let open: Vec<u32> =
            (0..).zip(&self.lanes).filter(|(_, lane)| !lane.closed).map(|(i, _)| i).collect();
        for (nth, shard) in open.into_iter().enumerate() {
            if let Some(begins) = self.begins(shard).filter(|_| nth > 0) {
                self.waiting.push(Reverse((begins, shard)));
                continue;
            }
            match self.open(shard) {
                Ok(()) => {}
                Err(error) if is_misuse(&error) => return Err(error),
                Err(error) => self.failed.push_back(error),
            }
        }
        Ok(())
    }

    /// A lower bound for the clock readings of a shard, if it is read from its beginning.
    fn begins(&self, shard: u32) -> Option<u64> {
        let is_from_start = match &self.lanes[shard as usize].window {
            Window::All => true,
            Window::Records(range) => range.start == 0,
            Window::Instrs(_) | Window::Clock(_) => false,
        };
        self.trace.shards()[shard as usize].begins.filter(|_| is_from_start)
    }

    /// Reads the first batch of a shard and puts the shard into the queue.
    fn open(&mut self, shard: u32) -> Result<()> {
        if self.advance(shard)? {
            let span = self.lanes[shard as usize].batch().span;
            // What the window left out of this shard comes before everything else.
            self.skip_to(shard, &span);
            // A shard that begins inside a segment comes first.
            self.waiting.push(Reverse((span.opens.unwrap_or(0), shard)));
        }
        Ok(())
    }

    /// The shard that has the next batch; its reader holds that batch.
    fn next_shard(&mut self) -> Result<Option<u32>> {
        if let Some(shard) = self.current.take()
            && self.advance(shard)?
        {
            match self.lanes[shard as usize].batch().span.opens {
                Some(clock) => self.waiting.push(Reverse((clock, shard))),
                None => return Ok(Some(shard)),
            }
        }
        while let Some(Reverse((_, shard))) = self.waiting.pop() {
            if self.lanes[shard as usize].reader.is_some() {
                return Ok(Some(shard));
            }
            // The shard's first record may be the next one of the sequence.
            self.open(shard)?;
        }
        Ok(None)
    }

    /// Reads the next batch of a shard, opening the shard first if needed; false at its end.
    fn advance(&mut self, shard: u32) -> Result<bool> {
        let lane = &mut self.lanes[shard as usize];
        let more = match &mut lane.reader {
            Some(reader) => reader.read().map(|batch| batch.is_some()),
            None => {
                let id = self.trace.shards()[shard as usize].id;
                let most = lane.most.min(self.template.most);
                let scan = Scan { shard: id, window: lane.window.clone(), most, ..self.template.clone() };
                self.trace
                    .scan(&scan)
                    .and_then(|reader| lane.reader.insert(reader).read().map(|batch| batch.is_some()))
            }
        };
        if !matches!(more, Ok(true)) {
            // Drop the reader's buffers at once: thousands of shards may end early.
            lane.reader = None;
            lane.closed = true;
        }
        more
    }

    /// The records of the shard's batch that are before the end of the window; `None` if there are none.
    fn wanted(&mut self, shard: u32) -> Result<Option<Range<u32>>> {
        let span = self.lanes[shard as usize].batch().span;
        let left = self.end.records.saturating_sub(self.position.records);
        let instrs_left = self.end.instrs.saturating_sub(self.position.instrs);
        let mut n_records = u32::try_from(left).unwrap_or(u32::MAX).min(span.records);
        if instrs_left < u64::from(span.instrs) {
            let end = window::record_of_instr(self.trace, &span, instrs_left)?;
            n_records =
                n_records.min(u32::try_from(end.saturating_sub(span.first_record)).unwrap_or(u32::MAX));
        }
        self.over = n_records < span.records || left == u64::from(n_records);
        Ok((n_records > 0 || span.records == 0).then_some(0..n_records))
    }

    /// Counts the records that the shard's reader left out before its batch, if such records count.
    fn skip_to(&mut self, shard: u32, span: &Span) {
        let skipped = self.lanes[shard as usize].skip_to(Position::before(span));
        if self.counts_skipped {
            self.position = self.position.plus(skipped);
        }
    }

    /// The shards that are merged.
    pub(crate) fn shards(&self) -> &'t [Shard] {
        self.trace.shards()
    }

    /// True if the shard has no more batches.
    pub(crate) fn is_over(&self, shard: u32) -> bool {
        self.lanes[shard as usize].closed
    }
}

/// True if a batch repeats records because of a jump: it then has more rows than records.
fn is_repeated(batch: &Batch) -> bool {
    batch.tables.first().is_some_and(|rows| rows.n_rows() > batch.span.records as usize)
}

impl Lane {
    /// The batch that was read last. Only for lanes that are in the queue or have their turn.
    fn batch(&mut self) -> &mut Batch {
        self.reader.as_mut().expect("a shard in the merge has a reader").batch()
    }

    /// Counts what the reader left out before its batch, and returns how much that was.
    fn skip_to(&mut self, position: Position) -> Position {
        let more = position.minus(self.seen);
        self.seen = self.seen.plus(more);
        more
    }

    fn packed_bytes(&self, shard: &Shard) -> u64 {
        match &self.reader {
            Some(reader) => reader.packed_bytes().unwrap_or(0),
            None if self.closed => shard.packed_bytes.unwrap_or(0),
            None => 0,
        }
    }
}

/// A template for the read of each shard, with sizes that keep all of them together within limits.
pub(crate) fn divided(template: &Scan, at_once: usize) -> Scan {
    let at_once = at_once.max(1);
    let most_records = MERGE_BATCH_RECORDS / u32::try_from(at_once).unwrap_or(u32::MAX);
    Scan {
        pieces: None,
        // PERF: a shard that is not merged with others needs no batch for each clock reading; 10 M records of DTrace with
        // distinct times took 34 s to print in batches of one record.
        cut: Cut { clock: at_once > 1 || template.cut.clock, ..template.cut },
        ahead: template.ahead && at_once <= MAX_READERS_AHEAD,
        buffer_bytes: template.buffer_bytes.min((MERGE_BUFFER_BYTES / at_once).max(MIN_BUFFER_BYTES)),
        batch_records: template.batch_records.min(most_records.max(MIN_BATCH_RECORDS)),
        ..template.clone()
    }
}
