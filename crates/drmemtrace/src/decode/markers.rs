//! Markers: which are visible, and which change the state of the reader. SPEC: drmemtrace.md#reading.

use super::{Interp, Limits, MAX_HEADER_MARKERS, MAX_ORDINAL, Queued, Sink, Stop, WRONG_ORDINAL};
use crate::header::newer_version;
use crate::record::{Entry, FileType, IDLE_THREAD, Marker, NEWEST_VERSION};
use quipu_model::{Severity, Window};

impl Interp {
    pub(super) fn marker<S: Sink>(
        &mut self,
        entry: &Entry,
        index: usize,
        limits: &Limits,
        sink: &mut S,
    ) -> Option<Stop> {
        let (kind, value) = (Marker(entry.size.get()), entry.addr.get());
        if self.in_header {
            self.learn(kind, value, index, sink);
            self.queue.push_back(Queued::Marker(kind.0, value));
            if self.queue.len() > MAX_HEADER_MARKERS {
                self.in_header = false;
            }
            return None;
        }
        match kind {
            Marker::BRANCH_TARGET => {
                self.branch_target = value;
                return None;
            }
            Marker::RECORD_ORDINAL => {
                self.record_ordinal(value, index, sink);
                return None;
            }
            Marker::TIMESTAMP | Marker::CPU_ID if self.is_repeated(kind, value) => return None,
            Marker::VERSION | Marker::FILETYPE | Marker::CHUNK_INSTR_COUNT => {
                // A marker that has to wait for the next batch is handled again then, and learned at that time.
                if let Some(stop) = self.blocked(self.tid, limits) {
                    return Some(stop);
                }
                self.learn(kind, value, index, sink)
            }
            _ => {}
        }
        self.show(kind, value, limits, sink)
    }

    /// Passes a visible marker to the sink, or returns the reason why it cannot yet.
    pub(super) fn show<S: Sink>(
        &mut self,
        kind: Marker,
        value: u64,
        limits: &Limits,
        sink: &mut S,
    ) -> Option<Stop> {
        if kind == Marker::TIMESTAMP {
            if Window::ends_at_clock(limits.clock, value) {
                return Some(Stop::ClockLimit);
            }
            if limits.at_clock && self.n_timestamps > 0 && self.records != self.batch_start {
                return Some(Stop::Clock);
            }
        }
        let tid = if kind == Marker::CORE_IDLE { IDLE_THREAD } else { self.tid };
        if let Some(stop) = self.blocked(tid, limits) {
            return Some(stop);
        }
        self.records += 1;
        let before = self.kernel.is_open();
        match kind {
            Marker::TIMESTAMP => {
                self.timestamp = value;
                self.n_timestamps += 1;
            }
            Marker::CPU_ID => self.cpu = value,
            Marker::SYSCALL_TRACE_START => self.kernel.syscall = true,
            Marker::SYSCALL_TRACE_END => self.kernel.syscall = false,
            Marker::CONTEXT_SWITCH_START => self.kernel.switch = true,
            Marker::CONTEXT_SWITCH_END => self.kernel.switch = false,
            Marker::HARDWARE_EVENT => self.kernel.interrupts = self.kernel.interrupts.saturating_add(1),
            Marker::HARDWARE_CONTEXT_RETURN => {
                self.kernel.interrupts = self.kernel.interrupts.saturating_sub(1)
            }
            Marker::CHUNK_FOOTER => {
                self.repeated.insert(self.tid);
            }
            _ => {}
        }
        self.is_kernel = before || self.kernel.is_open();
        sink.marker(self, kind, value);
        None
    }

    /// Takes over the value of a header marker.
    fn learn<S: Sink>(&mut self, kind: Marker, value: u64, index: usize, sink: &mut S) {
        match kind {
            Marker::VERSION => self.version = value,
            Marker::FILETYPE => self.filetype = FileType(value),
            Marker::CHUNK_INSTR_COUNT => self.chunk_instrs = value,
            _ => return,
        }
        // The version in the file's own header was reported when the file was opened.
        if kind == Marker::VERSION && value > NEWEST_VERSION && self.started {
            let what = newer_version(value);
            sink.finding(self, index, "drmemtrace/newer-version", Severity::Warning, what);
        }
    }

    /// Handles the first entry of a chunk, which states the number of records before it; a clock reading and a processor
    /// that only repeat the last ones follow.
    fn record_ordinal<S: Sink>(&mut self, value: u64, index: usize, sink: &mut S) {
        self.repeated.insert(self.tid);
        if self.resync && self.batch_len() == 0 && value < MAX_ORDINAL {
            self.records = value;
            self.batch_start = value;
            self.resync = false;
        } else if value != self.records {
            let message =
                format!("the chunk counts `{value}` records before it, the entries `{}`", self.records);
            sink.finding(self, index, WRONG_ORDINAL, Severity::Error, message);
        }
    }

    /// True if a clock reading or processor only repeats the last value from before a chunk's seam.
    fn is_repeated(&mut self, kind: Marker, value: u64) -> bool {
        if self.chunk_instrs == 0 || self.repeated.is_empty() {
            return false;
        }
        if !self.repeated.contains(&self.tid) {
            return false;
        }
        if kind == Marker::CPU_ID {
            self.repeated.remove(&self.tid);
            self.cpu = value;
        } else if self.timestamp == 0 {
            self.timestamp = value;
        }
        true
    }
}
