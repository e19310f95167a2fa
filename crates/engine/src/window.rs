//! Mapping of a part of the merged sequence to parts of the shards.
//!
//! "Skip a thousand records" means a thousand of the sequence. One read without columns, which costs little more than
//! inflating, finds out how many of them belong to each shard. Then the wanted part is read by windows of the shards, in any
//! order and on as many threads as suits, and formats can jump to it.

use crate::merge::Merge;
use crate::watch::{Tally, Watch};
use quipu_model::lens::{ThreadEvent, instr_flags};
use quipu_model::transform::Sequence;
use quipu_model::{Batch, Columns, Error, Result, Scan, ShardId, Span, Trace, Window};

/// A position in a shard or in the sequence: the number of records and instructions before it. Also used for amounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) records: u64,
    pub(crate) instrs: u64,
}

impl Position {
    pub(crate) const MAX: Position = Position { records: u64::MAX, instrs: u64::MAX };

    /// The start of a batch in its shard.
    pub(crate) fn before(span: &Span) -> Position {
        Position { records: span.first_record, instrs: span.first_instr }
    }

    /// The number of records and instructions in a batch.
    pub(crate) fn of(span: &Span) -> Position {
        Position { records: u64::from(span.records), instrs: u64::from(span.instrs) }
    }

    /// The end of a batch in its shard.
    pub(crate) fn behind(span: &Span) -> Position {
        Position::before(span).plus(Position::of(span))
    }

    /// The sum of both. Readers take ordinals from the trace, which may be wrong, so sums saturate.
    pub(crate) fn plus(self, other: Position) -> Position {
        Position {
            records: self.records.saturating_add(other.records),
            instrs: self.instrs.saturating_add(other.instrs),
        }
    }

    /// The difference, saturating at 0.
    pub(crate) fn minus(self, other: Position) -> Position {
        Position {
            records: self.records.saturating_sub(other.records),
            instrs: self.instrs.saturating_sub(other.instrs),
        }
    }
}

/// A part of a trace, given for each shard.
pub(crate) struct Part {
    /// The window of each shard.
    pub(crate) windows: Vec<Window>,
    /// Maximum number of records to read of each window.
    pub(crate) most: Vec<u64>,
    /// The number of records and instructions of each shard that are known to come before its window.
    pub(crate) before: Vec<Position>,
    /// Errors of finding the windows.
    pub(crate) errors: Vec<Error>,
    pub(crate) cancelled: bool,
}

impl Part {
    /// The same window of every shard.
    pub(crate) fn same(trace: &dyn Trace, window: &Window) -> Part {
        let n_shards = trace.shards().len();
        Part {
            windows: vec![window.clone(); n_shards],
            most: vec![u64::MAX; n_shards],
            before: vec![Position::default(); n_shards],
            errors: Vec::new(),
            cancelled: false,
        }
    }

    /// The same part for a repeated read, without the errors, which have been reported.
    pub(crate) fn again(&self) -> Part {
        let (windows, most, before) = (self.windows.clone(), self.most.clone(), self.before.clone());
        Part { windows, most, before, errors: Vec::new(), cancelled: self.cancelled }
    }

    /// An empty window of every shard.
    pub(crate) fn nothing(trace: &dyn Trace) -> Part {
        Part::same(trace, &Window::Records(0..0))
    }
}

/// Finds which part of each shard contributes to the first `most` records of the sequence made of the same window of every
/// shard.
pub(crate) fn first_of(trace: &dyn Trace, window: &Window, most: u64, watch: &Watch) -> Result<Part> {
    let mut part = Part::same(trace, window);
    if most == u64::MAX {
        return Ok(part);
    }
    // Records that a skip repeats are recognised by the events of their thread.
    let columns = Columns::THREADS.and(trace.columns());
    let template = Scan { window: window.clone(), ..Scan::new(ShardId(0)).columns(columns) };
    let mut merge = Merge::of_each_shard(trace, &template)?;
    let (mut left, mut tally) = (most, Tally::new(watch));
    part.most.fill(0);
    while left > 0 && !watch.is_cancelled() {
        let batch = match merge.read() {
            Ok(Some(merged)) => merged.batch,
            Ok(None) => break,
            Err(error) => {
                part.errors.push(error);
                continue;
            }
        };
        let Span { shard, records, .. } = batch.span;
        let counted = u64::from(records).saturating_sub(is_repeated(batch).into()).min(left);
        left -= counted;
        part.most[shard as usize] += counted;
        if tally.batch(records) {
            tally.flush(0);
        }
    }
    part.cancelled = watch.is_cancelled();
    for (window, most) in part.windows.iter_mut().zip(&part.most) {
        if *most == 0 {
            *window = Window::Records(0..0);
        }
    }
    Ok(part)
}

/// True for a record with both a clock reading and a processor: a skip of instructions repeats these.
pub(crate) fn is_repeated(batch: &Batch) -> bool {
    let has_both =
        |what: &[ThreadEvent]| what.contains(&ThreadEvent::Clock) && what.contains(&ThreadEvent::Cpu);
    batch.threads.at.iter().filter(|at| **at == 0).count() >= 2 && {
        let of_first = batch.threads.at.partition_point(|at| *at == 0);
        has_both(&batch.threads.what[..of_first])
    }
}

/// Finds the part of each shard that contributes to a window of the sequence.
///
/// Reads from the start of the trace to the end of the window, or to its start if it has no end. A window of time, and any
/// window of a trace with one shard, needs no such read.
pub(crate) fn resolve(trace: &dyn Trace, window: &Window, watch: &Watch) -> Result<Part> {
    let bounds = match window {
        Window::All | Window::Clock(_) => return Ok(Part::same(trace, window)),
        _ if trace.shards().len() == 1 => return Ok(Part::same(trace, window)),
        Window::Records(range) => [Bound::Record(range.start), Bound::Record(range.end)],
        Window::Instrs(range) => [Bound::Instr(range.start), Bound::Instr(range.end)],
    };
    let [start, end] = bounds;
    let mut walk = Walk::new(trace, watch)?;
    if !walk.to(start)? {
        return Ok(Part { errors: walk.errors, cancelled: walk.cancelled, ..Part::nothing(trace) });
    }
    let before = walk.seen.clone();
    let ends: Vec<u64> = if end.is_none() {
        (0..).zip(&before).map(|(shard, seen)| walk.end_of(shard, seen)).collect()
    } else {
        walk.to(end)?;
        walk.seen.iter().map(|seen| seen.records).collect()
    };
    Ok(Part {
        windows: before.iter().zip(ends).map(|(seen, end)| Window::Records(seen.records..end)).collect(),
        most: vec![u64::MAX; before.len()],
        before,
        errors: walk.errors,
        cancelled: walk.cancelled,
    })
}

/// The part of each shard, in order, that contributes to a window of the merged sequence.
///
/// # Errors
/// Errors of the reading that this needs; `Io` if the watch was cancelled.
pub fn parts(trace: &dyn Trace, window: &Window, watch: &Watch) -> Result<Vec<Window>> {
    let part = resolve(trace, window, watch)?;
    if part.cancelled {
        return Err(Error::new(quipu_model::ErrorKind::Io, "interrupted: nothing was written"));
    }
    match part.errors.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(part.windows),
    }
}

/// The sequence of all threads as the engine merges it, for transforms of formats.
#[derive(Debug)]
pub struct InTime<'w>(pub &'w Watch);

impl Sequence for InTime<'_> {
    fn parts(&self, trace: &dyn Trace, window: &Window) -> Result<Vec<Window>> {
        parts(trace, window, self.0)
    }
}

/// One end of a window of the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    Record(u64),
    /// Right before the instruction with this ordinal, counted from 0; records before the first instruction belong to it.
    Instr(u64),
}

impl Bound {
    /// True if the bound is unlimited.
    fn is_none(self) -> bool {
        matches!(self, Bound::Record(u64::MAX) | Bound::Instr(u64::MAX))
    }
}

/// A read along the sequence without columns.
struct Walk<'t> {
    trace: &'t dyn Trace,
    watch: &'t Watch,
    tally: Tally<'t>,
    merge: Merge<'t>,
    /// Position in each shard that the walk has reached.
    seen: Vec<Position>,
    /// Position in the sequence that the walk has reached.
    total: Position,
    /// The batch in which the walk currently is.
    batch: Option<Span>,
    errors: Vec<Error>,
    cancelled: bool,
}

impl<'t> Walk<'t> {
    fn new(trace: &'t dyn Trace, watch: &'t Watch) -> Result<Walk<'t>> {
        let template = Scan { ahead: true, ..Scan::new(ShardId(0)) };
        Ok(Walk {
            trace,
            watch,
            tally: Tally::new(watch),
            merge: Merge::over(trace, &template, Part::same(trace, &Window::All))?,
            seen: vec![Position::default(); trace.shards().len()],
            total: Position::default(),
            batch: None,
            errors: Vec::new(),
            cancelled: false,
        })
    }

    /// Moves to a bound; false if the trace ends before it.
    fn to(&mut self, bound: Bound) -> Result<bool> {
        if matches!(bound, Bound::Instr(0)) {
            return Ok(true);
        }
        while !matches!(bound, Bound::Record(record) if record <= self.total.records) {
            let Some(span) = self.batch()? else { return Ok(false) };
            if let Some(step) = self.step_inside(&span, bound)? {
                let seen = &mut self.seen[span.shard as usize];
                *seen = seen.plus(step);
                self.total = self.total.plus(step);
                return Ok(true);
            }
            let seen = &mut self.seen[span.shard as usize];
            self.total = self.total.plus(Position::behind(&span).minus(*seen));
            *seen = Position::behind(&span);
            self.batch = None;
        }
        Ok(true)
    }

    /// The current batch, or the next one if that is used up; `None` at the end.
    fn batch(&mut self) -> Result<Option<Span>> {
        while self.batch.is_none() {
            if self.watch.is_cancelled() {
                self.cancelled = true;
                return Ok(None);
            }
            match self.merge.read() {
                Ok(Some(merged)) => {
                    let span = merged.batch.span;
                    if self.tally.batch(span.records) {
                        self.tally.flush(0);
                    }
                    // A batch that only carries findings from the end of a shard has no position.
                    if span.records == 0 {
                        continue;
                    }
                    self.seen[span.shard as usize] = Position::before(&span);
                    self.total = Position {
                        records: span.first_record.wrapping_add(merged.ordinals.records),
                        instrs: span.first_instr.wrapping_add(merged.ordinals.instrs),
                    };
                    self.batch = Some(span);
                }
                Ok(None) => return Ok(None),
                Err(error) => self.errors.push(error),
            }
        }
        Ok(self.batch)
    }

    /// The distance from here to the bound, if the bound is inside this batch.
    fn step_inside(&self, span: &Span, bound: Bound) -> Result<Option<Position>> {
        let seen = self.seen[span.shard as usize];
        let left = Position::behind(span).minus(seen);
        match bound {
            Bound::Record(record) => {
                let records = record.saturating_sub(self.total.records);
                // The number of instructions does not matter, because only records are counted.
                Ok((records < left.records).then_some(Position { records, instrs: 0 }))
            }
            Bound::Instr(instr) => {
                let instrs = instr.saturating_sub(self.total.instrs);
                if instrs >= left.instrs {
                    return Ok(None);
                }
                let done = seen.instrs.saturating_sub(span.first_instr);
                let record = record_of_instr(self.trace, span, done.saturating_add(instrs))?;
                Ok(Some(Position { records: record.saturating_sub(seen.records), instrs }))
            }
        }
    }

    /// The end of a shard for a window without end: the current position if the shard is known to be over.
    fn end_of(&self, shard: u32, seen: &Position) -> u64 {
        if self.merge.is_over(shard) { seen.records } else { u64::MAX }
    }
}

/// The ordinal in its shard, counted from 0, of the record that is instruction `instr` of a batch.
///
/// The batch was read without columns, so its records are read again; this happens once for each end of a window.
pub(crate) fn record_of_instr(trace: &dyn Trace, span: &Span, mut instr: u64) -> Result<u64> {
    if !trace.columns().has(Columns::INSTRS) {
        return Err(Error::missing("a window of instructions needs instrs, which this trace does not carry"));
    }
    let Position { records: end, .. } = Position::behind(span);
    let shard = trace.shards()[span.shard as usize].id;
    let window = Window::Records(span.first_record..end);
    let mut reader = trace.scan(&Scan { window, ..Scan::new(shard).columns(Columns::INSTRS) })?;
    while let Some(batch) = reader.read()? {
        let rows = batch.instrs.at.iter().zip(&batch.instrs.flags);
        for (at, _) in rows.filter(|(_, flags)| *flags & instr_flags::NO_FETCH == 0) {
            if instr == 0 {
                return Ok(batch.span.first_record.saturating_add(u64::from(*at)).min(end));
            }
            instr -= 1;
        }
    }
    Ok(end)
}
