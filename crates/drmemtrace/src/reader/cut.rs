//! Ends of batches: before instructions of certain ordinals, and never between a record and the entries that belong to it.
//!
//! Encodings, branch targets, and the entries that name a thread complete the record after them. Readers of raw entries get
//! them together with that record, so that each batch can be understood by itself.

use super::EntryReader;
use crate::record::{ENTRY_BYTES, Entry, Marker, Type};
use quipu_source::BlockAt;
use std::num::NonZeroU64;
use std::ops::Range;
use zerocopy::IntoBytes;

/// Batches that end right before every N instructions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Intervals {
    every: NonZeroU64,
    /// The instruction before which the batch ends, counted from 0; `None` before the first batch.
    end: Option<u64>,
    /// The instruction before which the read ends.
    window_end: u64,
}

impl Intervals {
    pub(super) fn new(every: NonZeroU64, window_end: u64) -> Intervals {
        Intervals { every, end: None, window_end }
    }

    /// The instruction before which the next batch ends, if `instr` is the next one.
    pub(super) fn limit(&mut self, instr: u64) -> u64 {
        let end = self.end.unwrap_or(self.end_from(instr));
        self.end = Some(end);
        self.window_end.min(end)
    }

    /// The end of the interval that `instr` falls into.
    fn end_from(&self, instr: u64) -> u64 {
        (instr / self.every + 1).saturating_mul(self.every.get())
    }
}

impl EntryReader {
    /// Continues to the next interval; false if the read ends here.
    pub(super) fn begin_interval(&mut self) -> bool {
        let instrs = self.interp.instrs;
        match &mut self.intervals {
            Some(intervals) if instrs < intervals.window_end => {
                intervals.end = Some(intervals.end_from(instrs));
                true
            }
            _ => false,
        }
    }

    /// Finds the entries right before `used` that belong to the next record. `start` is the position in the block at which
    /// the batch, or the walk, began. Returns the range of the batch's own entries.
    pub(super) fn keep_lead(&mut self, start: usize) -> Range<usize> {
        let first = start.saturating_sub(self.lead);
        let block = self.batch.block.get(first..self.used).unwrap_or(&[]);
        let goes_on = self.resumes && !self.ended;
        let n = if self.done && !goes_on {
            0
        } else {
            Entry::slice(block).0.iter().rev().take_while(|entry| is_ahead(entry)).count()
        };
        self.lead = n * ENTRY_BYTES;
        let end = self.used - self.lead;
        self.held.clear();
        if self.used >= self.batch.block.len() {
            self.held.extend_from_slice(&self.batch.block[end..self.used]);
            self.lead = 0;
        }
        first.min(end)..end
    }

    /// Appends markers to the block, where they stay until the next batch; returns their range.
    pub(super) fn append_markers(&mut self, markers: [(Marker, u64); 2]) -> Range<usize> {
        let start = self.batch.block.len();
        for (kind, value) in markers {
            let entry = Entry { kind: Type::MARKER.0.into(), size: kind.0.into(), addr: value.into() };
            self.batch.block.extend_from_slice(entry.as_bytes());
        }
        start..self.batch.block.len()
    }

    /// Puts the entries held from the previous block in front of the new one.
    pub(super) fn prepend_held(&mut self, at: &mut BlockAt) {
        let n_bytes = (self.held.len() / ENTRY_BYTES * self.file.entry_bytes) as u64;
        self.lead = 0;
        if let Some(offset) = at.offset.checked_sub(n_bytes).filter(|_| n_bytes > 0) {
            at.offset = offset;
            self.lead = self.held.len();
            self.batch.block.splice(0..0, self.held.drain(..));
            self.used = self.lead;
        }
        self.held.clear();
    }
}

/// True for entries that complete the record after them.
fn is_ahead(entry: &Entry) -> bool {
    match entry.kind() {
        Type::ENCODING | Type::THREAD | Type::PID => true,
        Type::MARKER => entry.size.get() == Marker::BRANCH_TARGET.0,
        _ => false,
    }
}
