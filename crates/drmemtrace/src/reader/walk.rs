//! Walks to the start of a window, and repeats there what a jump repeats. SPEC: drmemtrace.md#starting-elsewhere.

use super::EntryReader;
use crate::decode::{Limits, Sink, Stop};
use crate::lens::Walking;
use crate::record::{ENTRY_BYTES, Entry, Marker};
use quipu_model::{Result, Window};

/// Work that remains before records are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// Nothing.
    Done,
    /// Walk to the start of a window; afterwards repeat clock and processor if `repeat`.
    To { limits: Limits, repeat: bool },
}

impl EntryReader {
    /// Walks to the start of the window. False if the trace ends before.
    pub(super) fn walk(&mut self) -> Result<bool> {
        let Walk::To { limits, repeat } = self.walk else { return Ok(true) };
        loop {
            if self.used >= self.batch.block.len() && !self.interp.has_waiting() {
                let before = self.block.map(|block| block.member);
                if !self.next_block()? {
                    return Ok(false);
                }
                let member = self.block.map(|block| block.member);
                if repeat && member != before && member == self.chunk_of(limits.instrs) {
                    // A file that is read from its start counts clock readings as if its chunks had been skipped by a jump.
                    self.interp.n_timestamps = 0;
                }
            }
            let block = std::mem::take(&mut self.batch.block);
            let entries = Entry::slice(&block[self.used..]).0;
            let start = self.used;
            let mut sink = Walking { fill: &mut self.fill, batch: &mut self.batch };
            self.interp.begin_batch();
            let (n, stop) = self.interp.run(entries, &limits, &mut sink);
            self.batch.block = block;
            self.used += n * ENTRY_BYTES;
            if self.keeps_lead {
                self.keep_lead(start);
            }
            self.place_findings(start);
            match stop {
                Stop::End | Stop::Thread | Stop::Process | Stop::Clock => {}
                Stop::Records | Stop::Instrs | Stop::ClockLimit => break,
            }
        }
        self.walk = Walk::Done;
        self.interp.begin_batch();
        self.instrs_before = self.interp.instrs;
        self.clocks_before = self.interp.n_timestamps;
        if repeat && self.interp.records > 0 {
            self.repeat_clock_and_cpu();
        }
        // Repeated markers that take the numbers of real records count as those.
        let is_real = self.interp.batch_len() > 1;
        let before = if is_real { self.interp.batch_start } else { self.interp.records };
        self.limits.records = self.limits.records.min(before.saturating_add(self.most));
        Ok(true)
    }

    /// The chunk, other than the first, at which a jump to this instruction begins to read, whether or not this file is read
    /// from there.
    fn chunk_of(&self, instr: u64) -> Option<u32> {
        let last = (self.file.container.members().len() as u64).checked_sub(1)?;
        let chunk = instr.checked_div(self.file.header.chunk_instrs)?.min(last);
        u32::try_from(chunk).ok().filter(|chunk| *chunk > 0)
    }

    /// Puts the latest clock reading and processor first after a jump to an instruction. They are numbered as DynamoRIO
    /// numbers them: as the two records before the instruction if a clock reading was read on the way, else both as the last
    /// record.
    fn repeat_clock_and_cpu(&mut self) {
        let last = self.interp.records;
        let before =
            if self.interp.n_timestamps > 0 { last.saturating_sub(2) } else { last.saturating_sub(1) };
        self.interp.batch_start = before;
        self.interp.batch_tid = self.interp.tid;
        self.interp.batch_pid = self.interp.pid;
        let (timestamp, cpu) = (self.interp.timestamp, self.interp.cpu);
        let mut filling = self.fill.into_batch(&mut self.batch, self.memrefs_rows);
        self.interp.records = last.min(before + 1);
        Sink::marker(&mut filling, &self.interp, Marker::TIMESTAMP, timestamp);
        self.interp.records = last;
        Sink::marker(&mut filling, &self.interp, Marker::CPU_ID, cpu);
        drop(filling);
        if self.keeps_lead {
            self.repeated =
                Some(self.append_markers([(Marker::TIMESTAMP, timestamp), (Marker::CPU_ID, cpu)]));
        }
    }
}

/// Limits of the records to hand out, and the walk to the first of them.
pub(super) fn window_limits(window: &Window) -> (Limits, Walk) {
    let none = Limits::NONE;
    match window {
        Window::All => (none, Walk::Done),
        Window::Records(range) => {
            let walk = Limits { records: range.start, ..none };
            let walk = if range.start == 0 { Walk::Done } else { Walk::To { limits: walk, repeat: false } };
            (Limits { records: range.end, ..none }, walk)
        }
        Window::Instrs(range) => {
            let walk = Limits { instrs: range.start, ..none };
            let walk = if range.start == 0 { Walk::Done } else { Walk::To { limits: walk, repeat: true } };
            (Limits { instrs: range.end, ..none }, walk)
        }
        Window::Clock(range) => {
            let walk = Limits { clock: range.start, ..none };
            (Limits { clock: range.end, ..none }, Walk::To { limits: walk, repeat: false })
        }
    }
}
