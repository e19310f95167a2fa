//! Chunks: their size, their numbers, and the entries that each must begin with.

use super::checker::{Checker, on};
use super::rules::Rule;
use crate::decode::MAX_ORDINAL;
use crate::record::Marker;
use crate::trace::chunk_number_of;

/// State of the chunk checks.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunks {
    /// Instructions in a chunk; 0 if the header does not say.
    pub(super) size: u64,
    /// Instructions before the current chunk.
    start: u64,
    /// The number that the next footer must carry.
    next: u64,
    /// Threads whose next clock reading and processor only repeat the values from before the seam.
    repeated: Vec<u64>,
    /// True after a gap: the next ordinal cannot be checked and is taken as it is.
    pub(super) resync: bool,
    /// True if the repeated values are checked: they directly follow a seam that was read completely.
    is_judged: bool,
}

impl Chunks {
    /// Starts over for another trace in the same file.
    pub(super) fn restart(&mut self, instrs: u64) {
        *self = Chunks { start: instrs, ..Chunks::default() };
    }
}

impl Checker {
    /// Begins the next member of the archive.
    pub(super) fn enter_chunk(&mut self, member: u32) {
        if !self.about.is_archive || self.policy.template {
            return;
        }
        self.attention |= on::SEAM;
        if self.chunks.resync {
            let name = self.about.members.get(member as usize).map(|name| &**name);
            let chunk = chunk_number_of(member, name);
            let instrs = chunk.checked_mul(self.chunks.size).filter(|n| *n < MAX_ORDINAL);
            let instrs = instrs.unwrap_or(self.instrs);
            self.lost.1 += instrs.saturating_sub(self.instrs);
            self.instrs = instrs;
            self.chunks.start = self.instrs;
            self.chunks.next = chunk;
        }
    }

    /// Checks the number of records before the chunk, which the chunk states.
    pub(super) fn record_ordinal(&mut self, value: u64) {
        self.attention &= !on::SEAM;
        self.chunks.is_judged = !self.chunks.resync;
        if std::mem::take(&mut self.chunks.resync) {
            let records = if value < MAX_ORDINAL { value } else { self.records };
            self.lost.0 += records.saturating_sub(self.records);
            self.records = records;
        } else if value != self.records {
            let records = self.records;
            if let Some(file) = &self.about.file {
                // A counting reader reads the trace again and reports the loss.
                file.seams.compare(records, value);
                return self.repeat();
            }
            self.tell(Rule::RecordOrdinal, || {
                format!("the chunk counts `{value}` records before it, the entries `{records}`")
            });
        }
        self.repeat();
    }

    fn repeat(&mut self) {
        if !self.chunks.repeated.contains(&self.tid) {
            self.chunks.repeated.push(self.tid);
        }
    }

    /// True if a clock reading or processor only repeats the last value from before a seam.
    pub(super) fn is_repeated(&mut self, kind: Marker, value: u64) -> bool {
        if self.chunks.size == 0 || self.chunks.repeated.is_empty() {
            return false;
        }
        let Some(at) = self.chunks.repeated.iter().position(|tid| *tid == self.tid) else { return false };
        let (last, what) = match kind {
            Marker::CPU_ID => {
                self.chunks.repeated.swap_remove(at);
                (self.time.cpu, "processor")
            }
            _ => (Some(self.time.last), "clock"),
        };
        if self.chunks.is_judged && last.is_some_and(|last| last != value) {
            self.tell(Rule::ChunkStart, || {
                let last = last.unwrap_or(0);
                format!("the chunk begins with {what} `{value}`, the last one was `{last}`")
            });
        }
        if !self.chunks.is_judged {
            match kind {
                Marker::CPU_ID => self.time.cpu = Some(value),
                _ => self.time.last = value,
            }
        }
        true
    }

    pub(super) fn chunk_footer(&mut self, value: u64) {
        let next = self.chunks.next;
        if value != next {
            self.tell(Rule::ChunkOrdinal, || format!("chunk footer `{value}`, expected `{next}`"));
        }
        self.chunks.next = value.wrapping_add(1);
        let (size, n) = (self.chunks.size, self.instrs - self.chunks.start);
        // A chunk with a gap was not counted completely.
        if !self.policy.template && !self.chunks.resync && (n != size || size == 0) {
            self.tell(Rule::ChunkInstrs, || {
                format!("the chunk has `{n}` instructions, the header says `{size}`")
            });
        }
        self.chunks.start = self.instrs;
        self.repeat();
    }

    /// Checks the last chunk, which may be shorter than the others but not longer.
    pub(super) fn end_chunks(&mut self) {
        let (size, n) = (self.chunks.size, self.instrs - self.chunks.start.min(self.instrs));
        if self.about.is_archive && !self.policy.template && size > 0 && n > size {
            self.tell_as(Rule::ChunkInstrs, 1, || {
                format!("the last chunk has `{n}` instructions, the header says `{size}`")
            });
        }
    }
}
