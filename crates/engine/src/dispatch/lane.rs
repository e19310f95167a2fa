//! The threads of a trace, each read at its own position.

use super::state::{Head, Heads, Known};
use quipu_model::lens::{ThreadEvent, instr_flags};
use quipu_model::trace::Clock;
use quipu_model::{Cursor, Error, Finding, Reader, TableBuf};
use std::collections::VecDeque;

/// One thread that is being read.
struct Lane {
    /// `None` after the thread's end.
    reader: Option<Box<dyn Reader>>,
    at: Cursor,
    /// The last clock reading, in microseconds.
    clock: u64,
    /// Bytes of the native records up to and including the next record.
    raw: Vec<u8>,
}

/// All threads, with the findings and errors of reading them.
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    /// Ticks of the trace's clock per second.
    per_second: u64,
    pub(super) findings: Vec<Finding>,
    pub(super) errors: VecDeque<Error>,
    /// Bytes on disk that finished threads have consumed.
    packed_bytes: u64,
    /// Whether native records are delivered.
    has_raw: bool,
}

/// A limit on the records that a thread can deliver without a decision of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plain {
    /// Upper limit on instructions.
    pub(super) instrs: u64,
    /// Whether it must stop before the first instruction.
    pub(super) until_instr: bool,
}

/// The instructions in a run of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Number of instructions, without the last record.
    pub(super) instrs: u64,
    /// Whether the last record is an instruction.
    pub(super) ends_in_instr: bool,
}

/// Whether a record with this event may make the scheduler decide something.
fn decides(what: ThreadEvent) -> bool {
    matches!(
        what,
        ThreadEvent::Clock
            | ThreadEvent::Syscall
            | ThreadEvent::MayBlock
            | ThreadEvent::KernelEnter
            | ThreadEvent::KernelLeave
            | ThreadEvent::SwitchTo
            | ThreadEvent::Park
            | ThreadEvent::Wake
            | ThreadEvent::Timeout
    )
}

fn is_fetched(flags: u8) -> bool {
    flags & instr_flags::NO_FETCH == 0
}

impl Lanes {
    pub(super) fn new(readers: Vec<Box<dyn Reader>>, clock: Option<Clock>) -> Lanes {
        let lanes = readers.into_iter().map(|reader| Lane {
            reader: Some(reader),
            at: Cursor::default(),
            clock: 0,
            raw: Vec::new(),
        });
        Lanes {
            lanes: lanes.collect(),
            per_second: clock.map_or(1_000_000, |clock| clock.per_second.max(1)),
            findings: Vec::new(),
            errors: VecDeque::new(),
            packed_bytes: 0,
            has_raw: false,
        }
    }

    /// Also delivers native records; `known` is the knowledge about the threads from an earlier look.
    pub(super) fn with_raw(mut self, known: &[Known]) -> Lanes {
        self.has_raw = true;
        for (lane, known) in self.lanes.iter_mut().zip(known) {
            lane.clock = known.clock;
        }
        self
    }

    /// Moves the native records up to and including the thread's next record to `out`.
    pub(super) fn take_raw(&mut self, thread: usize, out: &mut Vec<u8>) {
        out.append(&mut self.lanes[thread].raw);
    }

    /// The native records that [`take_raw`](Lanes::take_raw) would take.
    pub(super) fn raw(&self, thread: usize) -> &[u8] {
        &self.lanes[thread].raw
    }

    /// Converts ticks of the trace's clock to microseconds.
    fn micros(&self, ticks: u64) -> u64 {
        if self.per_second == 1_000_000 {
            return ticks;
        }
        let micros = u128::from(ticks) * 1_000_000 / u128::from(self.per_second);
        u64::try_from(micros).unwrap_or(u64::MAX)
    }

    /// Converts microseconds to ticks of the trace's clock.
    pub(super) fn ticks(&self, micros: u64) -> u64 {
        if self.per_second == 1_000_000 {
            return micros;
        }
        let ticks = u128::from(micros) * u128::from(self.per_second) / 1_000_000;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// Examines the first records of all threads, up to the first instruction or access.
    pub(super) fn begin(&mut self) -> Vec<Known> {
        (0..self.lanes.len()).map(|thread| self.known(thread)).collect()
    }

    fn known(&mut self, thread: usize) -> Known {
        let mut known = Known { first_clock: u64::MAX, ..Known::default() };
        if !self.fill(thread) {
            return known;
        }
        let Some(reader) = &mut self.lanes[thread].reader else { return known };
        let batch = reader.batch();
        known.thread = batch.span.thread;
        let firsts = [batch.instrs.at.first(), batch.accesses.at.first()];
        let end = firsts.into_iter().flatten().min().copied().unwrap_or(u32::MAX);
        let events = batch.threads.at.iter().zip(&batch.threads.what).zip(&batch.threads.value);
        let mut readings = Vec::new();
        for ((_, what), value) in events.take_while(|((at, _), _)| **at < end) {
            match what {
                ThreadEvent::Clock if is_known(*value) => readings.push(*value),
                ThreadEvent::Park => known.begins_parked = true,
                ThreadEvent::Stop => break,
                _ => {}
            }
            // QUIRK: a second reading ends this examination, yet it is the one that determines the thread's turn.
            if known.begins_parked || readings.len() == 2 {
                break;
            }
        }
        if let (Some(first), Some(last)) = (readings.first(), readings.last()) {
            known.first_clock = self.micros(*first);
            known.clock = self.micros(*last);
        }
        self.lanes[thread].clock = known.clock;
        known
    }

    /// Makes the thread's batch hold its next record; false at the thread's end.
    fn fill(&mut self, thread: usize) -> bool {
        let lane = &mut self.lanes[thread];
        let Some(reader) = &mut lane.reader else { return false };
        if lane.at.record < reader.batch().span.records {
            return true;
        }
        loop {
            match reader.read() {
                Ok(Some(batch)) => {
                    self.findings.append(&mut batch.findings);
                    lane.at = Cursor::default();
                    if self.has_raw {
                        lane.raw.extend_from_slice(batch.raw());
                    }
                    if batch.span.records > 0 {
                        return true;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    self.errors.push_back(error);
                    break;
                }
            }
        }
        self.packed_bytes += reader.packed_bytes().unwrap_or(0);
        lane.reader = None;
        false
    }

    /// Number of records in the current batch, at most `most`, that the thread can deliver without a decision.
    pub(super) fn plain(&mut self, thread: usize, plain: Plain, most: u32) -> u32 {
        let lane = &mut self.lanes[thread];
        let Some(reader) = &mut lane.reader else { return 0 };
        let (batch, at) = (reader.batch(), lane.at);
        let mut end = batch.span.records.min(at.record.saturating_add(most));
        let events = batch.threads.at[at.threads..].iter().zip(&batch.threads.what[at.threads..]);
        for (event, what) in events {
            if *event >= end {
                break;
            }
            if decides(*what) {
                end = *event;
                break;
            }
        }
        let allowed = if plain.until_instr { 0 } else { plain.instrs };
        let rows = &batch.instrs.at[at.instrs..];
        if allowed < rows.len() as u64 {
            let fetched =
                rows.iter().zip(&batch.instrs.flags[at.instrs..]).filter(|(_, flags)| is_fetched(**flags));
            // `allowed` is below the number of rows, so the cast loses nothing.
            if let Some((instr, _)) = fetched.take_while(|(row, _)| **row < end).nth(allowed as usize) {
                end = *instr;
            }
        }
        end.saturating_sub(at.record)
    }

    /// The instructions in the thread's next `n` records.
    pub(super) fn load(&mut self, thread: usize, n: u32) -> Load {
        let lane = &mut self.lanes[thread];
        let Some(reader) = &mut lane.reader else { return Load::default() };
        let (batch, at) = (reader.batch(), lane.at);
        let last = (at.record + n).saturating_sub(1);
        let rows = &batch.instrs.at[at.instrs..];
        let flags = &batch.instrs.flags[at.instrs..];
        let before = rows.partition_point(|row| *row < last);
        Load {
            instrs: flags[..before].iter().filter(|flags| is_fetched(**flags)).count() as u64,
            ends_in_instr: rows.get(before) == Some(&last) && is_fetched(flags[before]),
        }
    }

    /// The batch that holds the thread's next record, and the position of that record.
    pub(super) fn batch(&mut self, thread: usize) -> Option<(&mut quipu_model::Batch, &mut Cursor)> {
        let lane = &mut self.lanes[thread];
        let reader = lane.reader.as_mut()?;
        Some((reader.batch(), &mut lane.at))
    }

    /// Empty native tables like those of the threads.
    pub(super) fn fresh_tables(&mut self) -> Vec<Box<dyn TableBuf>> {
        let mut readers = self.lanes.iter_mut().filter_map(|lane| lane.reader.as_mut());
        readers
            .next()
            .map_or_else(Vec::new, |reader| reader.batch().tables.iter().map(|table| table.fresh()).collect())
    }

    /// Sets the thread's clock, in microseconds.
    pub(super) fn set_clock(&mut self, thread: usize, micros: u64) {
        self.lanes[thread].clock = micros;
    }

    pub(super) fn packed_bytes(&self) -> u64 {
        let open = self.lanes.iter().filter_map(|lane| lane.reader.as_ref()?.packed_bytes());
        open.fold(self.packed_bytes, u64::saturating_add)
    }
}

impl Heads for Lanes {
    fn head(&mut self, thread: usize) -> Option<Head> {
        if !self.fill(thread) {
            return None;
        }
        let clock = self.lanes[thread].clock;
        let (batch, at) = self.batch(thread)?;
        let record = at.record;
        let is_instr = batch.instrs.at.get(at.instrs) == Some(&record)
            && batch.instrs.flags.get(at.instrs).is_some_and(|flags| is_fetched(*flags));
        let threads = &batch.threads;
        let here = threads.at[at.threads..].iter().take_while(|row| **row == record).count();
        let event = (at.threads..at.threads + here)
            .map(|row| (threads.what[row], threads.value[row]))
            .find(|(what, _)| decides(*what));
        let clock = match event {
            Some((ThreadEvent::Clock, ticks)) if is_known(ticks) => self.micros(ticks),
            _ => clock,
        };
        let event = match event {
            Some((ThreadEvent::Timeout, ticks)) => Some((ThreadEvent::Timeout, self.micros(ticks))),
            event => event,
        };
        Some(Head { is_instr, event, clock })
    }
}

/// True if a clock reading is valid: formats use 0 and all ones for missing readings.
fn is_known(ticks: u64) -> bool {
    ticks != 0 && ticks != u64::MAX
}
