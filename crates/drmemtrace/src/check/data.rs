//! Accesses: their number and size must match the instruction before them.

use super::checker::{Checker, on};
use super::facts::{Facts, flag};
use super::rules::Rule;
use crate::record::Entry;

/// A count that stands for any number of accesses.
const FREE: i32 = 1 << 30;

/// Accesses that the last instruction may still make.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    /// Reads and writes still allowed.
    pub(super) reads: i32,
    pub(super) writes: i32,
    /// True if the accesses must follow.
    pub(super) is_owed: bool,
    /// Bytes of each read or write; 0 if any size is accepted.
    read_bytes: u16,
    write_bytes: u16,
}

impl Data {
    /// Any accesses are accepted.
    pub(super) const FREE: Data =
        Data { reads: FREE, writes: FREE, is_owed: false, read_bytes: 0, write_bytes: 0 };
}

impl Checker {
    #[inline]
    pub(super) fn read(&mut self, entry: &Entry, at: usize) {
        self.records += 1;
        if self.attention & on::FOR_DATA != 0 {
            self.at = at;
            self.attend_data();
        }
        self.data.reads -= 1;
        let size = entry.size.get();
        if (self.data.reads < 0) | ((size != self.data.read_bytes) & (self.data.read_bytes != 0)) {
            self.at = at;
            self.odd_read(size);
        }
    }

    #[inline]
    pub(super) fn write(&mut self, entry: &Entry, at: usize) {
        self.records += 1;
        if self.attention & on::FOR_DATA != 0 {
            self.at = at;
            self.attend_data();
        }
        self.data.writes -= 1;
        let size = entry.size.get();
        if (self.data.writes < 0) | ((size != self.data.write_bytes) & (self.data.write_bytes != 0)) {
            self.at = at;
            self.odd_write(size);
        }
    }

    /// Handles an access while bits of `attention` are set.
    #[cold]
    fn attend_data(&mut self) {
        self.attend_record();
        let attention = self.attention;
        if attention & on::FIRST != 0 && !self.policy.filetype.is_ifiltered() {
            self.tell(Rule::DataAlone, || "an access stands before any instruction".to_owned());
        }
        if attention & on::NO_DATA != 0 {
            let what = if self.in_kernel { "kernel code" } else { "the trace" };
            self.tell(Rule::DataBit, || format!("{what} has no data, says the file type"));
        }
        let is_behind = self.last_marker.0 + 1 == self.records && !self.policy.filetype.is_ifiltered();
        if attention & on::FUNCTION != 0 && is_behind {
            self.tell(Rule::FunctionBeforeData, || "a function marker stands before the access".to_owned());
        }
        self.attention &= !on::FUNCTION;
        if attention & on::EXITED != 0 {
            self.after_exit();
        }
    }

    /// Handles a read beyond the expected number, or of another size than the operands.
    #[cold]
    fn odd_read(&mut self, size: u16) {
        if self.data.reads < 0 {
            let is_free = !self.policy.data || (self.in_kernel && self.prev.flags & flag::KERNEL_READS != 0);
            self.data.reads = if is_free { FREE } else { 0 };
            if !is_free {
                let pc = self.prev.pc;
                self.tell(Rule::TooManyReads, || {
                    format!("the instruction at {pc:#x} has fewer operands to read")
                });
            }
        } else {
            self.odd_size(size, self.data.read_bytes, "reads");
        }
    }

    #[cold]
    fn odd_write(&mut self, size: u16) {
        if self.data.writes < 0 {
            let is_free = !self.policy.data || (self.in_kernel && self.prev.flags & flag::KERNEL_WRITES != 0);
            self.data.writes = if is_free { FREE } else { 0 };
            if !is_free {
                let pc = self.prev.pc;
                self.tell(Rule::TooManyWrites, || {
                    format!("the instruction at {pc:#x} has fewer operands to write")
                });
            }
        } else {
            self.odd_size(size, self.data.write_bytes, "writes");
        }
    }

    fn odd_size(&mut self, size: u16, expected: u16, what: &str) {
        // The expected size was set for the instruction in `prev`.
        let pc = self.prev.pc;
        self.tell(Rule::AccessSize, || {
            format!("the instruction at {pc:#x} {what} `{expected}` bytes, the record has `{size}`")
        });
    }

    /// Sets the number of accesses that may follow an instruction.
    #[inline]
    pub(super) fn expect_data(&mut self, facts: &Facts) {
        let is_counted = self.policy.data && facts.flags & (flag::VALID | flag::UNCOUNTED) == flag::VALID;
        if is_counted && self.attention & on::NO_DATA == 0 {
            let count = |n: u8| if n == u8::MAX { FREE } else { i32::from(n) };
            (self.data.reads, self.data.writes) = (count(facts.reads), count(facts.writes));
            (self.data.read_bytes, self.data.write_bytes) = (facts.read_bytes, facts.write_bytes);
            // Kernel code of emulators has prefetches without an access.
            let is_free = self.in_kernel && facts.flags & flag::PREFETCH != 0;
            if self.in_kernel && facts.flags & (flag::KERNEL_READS | flag::KERNEL_WRITES) != 0 {
                self.relax_data(facts);
            }
            self.data.is_owed = facts.flags & flag::OPTIONAL == 0 && !is_free;
        } else {
            self.data = Data::FREE;
        }
    }

    /// Relaxes the expectations for instructions that save or restore state in kernel code: they may make one access of any
    /// size or several. Emulators record one access for each register, templates one for all.
    #[cold]
    fn relax_data(&mut self, facts: &Facts) {
        self.data.reads = self.data.reads.min(1);
        self.data.read_bytes = 0;
        if facts.flags & flag::KERNEL_WRITES != 0 {
            self.data.writes = self.data.writes.min(1);
            self.data.write_bytes = 0;
        }
    }

    /// Reports the accesses that the last instruction did not make.
    #[cold]
    pub(super) fn missing_data(&mut self) {
        let (reads, writes, pc) = (self.data.reads, self.data.writes, self.prev.pc);
        // An unlimited count requires no accesses.
        if (1..FREE / 2).contains(&reads) {
            self.tell(Rule::MissingReads, || format!("the instruction at {pc:#x} lacks `{reads}` reads"));
        }
        if (1..FREE / 2).contains(&writes) {
            self.tell(Rule::MissingWrites, || format!("the instruction at {pc:#x} lacks `{writes}` writes"));
        }
        self.data.is_owed = false;
    }

    /// True if accesses of the last instruction are still missing.
    pub(super) fn owes_data(&self) -> bool {
        self.data.is_owed && (self.data.reads | self.data.writes) > 0
    }
}
