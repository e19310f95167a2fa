//! The state of checking one shard, and the loop over its entries.
//!
//! The common entries (instructions that follow each other, their accesses) are judged here in a few comparisons; all that
//! is out of the ordinary raises a bit in `attention`, and the files of the groups look at it. A rule is judged where the
//! original judges it, so that places agree with what it prints.

use super::calls::Calls;
use super::chunks::Chunks;
use super::facts::{Facts, Table, flag, plain_kind};
use super::flow::Prev;
use super::headers::Headers;
use super::kernel::Kernel;
use super::log::{Log, Violation};
use super::rules::Rule;
use super::signals::Signals;
use super::time::Time;
use crate::record::{Entry, FileType, IDLE_THREAD, Marker, Type};
use quipu_model::code::MAX_CODE_BYTES;
use quipu_model::{Batch, Finding, Place, ShardKind};
use std::sync::Arc;

/// What is known of a shard before it is read.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) kind: ShardKind,
    pub(super) thread: Option<u64>,
    /// The thread of the first records.
    pub(super) first_thread: u64,
    /// What the header says, as far as it could be read when the trace was opened.
    pub(super) version: u64,
    pub(super) filetype: FileType,
    pub(super) chunk_instrs: u64,
    /// Names of the archive's members; one empty name if it is none.
    pub(super) members: Vec<String>,
    pub(super) is_archive: bool,
    pub(super) entry_bytes: u64,
    /// Instructions are decoded if the trace has encodings.
    pub(super) decode: bool,
    /// Points of the schedule are kept.
    pub(super) schedule: bool,
}

/// What the file type and the version make of the rules.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policy {
    pub(super) filetype: FileType,
    pub(super) version: u64,
    /// Encodings are promised and looked at.
    pub(super) codes: bool,
    /// Accesses are counted against operands.
    pub(super) data: bool,
    pub(super) regdeps: bool,
    pub(super) template: bool,
    pub(super) core: bool,
    /// All ones where flow is judged.
    pub(super) flow_mask: u64,
}

/// Bits of `attention`.
pub(super) mod on {
    /// The next record is of another thread than the last one.
    pub(in crate::check) const THREAD: u32 = 1;
    /// An encoding waits for its instruction.
    pub(in crate::check) const ENCODING: u32 = 1 << 1;
    /// A branch target waits for its branch.
    pub(in crate::check) const TARGET: u32 = 1 << 2;
    /// The last record is a function marker.
    pub(in crate::check) const FUNCTION: u32 = 1 << 3;
    /// The last record is a physical address.
    pub(in crate::check) const PHYSICAL: u32 = 1 << 4;
    /// There was no instruction yet.
    pub(in crate::check) const FIRST: u32 = 1 << 5;
    /// The thread has ended.
    pub(in crate::check) const EXITED: u32 = 1 << 6;
    /// No data may come.
    pub(in crate::check) const NO_DATA: u32 = 1 << 7;
    /// An interruption, or the return from one, came since the last instruction.
    pub(in crate::check) const TRANSFER: u32 = 1 << 8;
    /// A clock reading came since the last instruction.
    pub(in crate::check) const CLOCK: u32 = 1 << 9;
    /// The window changed since the last instruction.
    pub(in crate::check) const WINDOW: u32 = 1 << 10;
    /// A system call waits for its number.
    pub(in crate::check) const SYSCALL: u32 = 1 << 11;
    /// Something about the kernel code of a system call must be settled at the next instruction.
    pub(in crate::check) const KERNEL: u32 = 1 << 12;
    /// A restartable sequence is executed.
    pub(in crate::check) const RSEQ: u32 = 1 << 13;
    /// The file has ended.
    pub(in crate::check) const FOOTER: u32 = 1 << 14;
    /// A new chunk has begun, and its first three entries are due.
    pub(in crate::check) const SEAM: u32 = 1 << 15;
    /// A processor must follow.
    pub(in crate::check) const PROCESSOR: u32 = 1 << 16;
    /// The header is not over.
    pub(in crate::check) const HEADER: u32 = 1 << 17;
    /// What an instruction need not look at.
    pub(in crate::check) const NOT_FOR_INSTRS: u32 = NO_DATA;
    /// What an access must look at.
    pub(in crate::check) const FOR_DATA: u32 = THREAD
        | ENCODING
        | FUNCTION
        | PHYSICAL
        | FIRST
        | EXITED
        | NO_DATA
        | FOOTER
        | SEAM
        | PROCESSOR
        | HEADER;
}

/// As many accesses as anybody likes.
pub(super) const FREE: i32 = 1 << 30;

/// Checking one shard.
pub(super) struct Checker {
    pub(super) about: Arc<About>,
    pub(super) policy: Policy,
    pub(super) attention: u32,
    /// Visible records and instructions so far.
    pub(super) records: u64,
    pub(super) instrs: u64,
    /// Where the next instruction should be, as far as the bits of `next_mask` go.
    pub(super) next_pc: u64,
    pub(super) next_mask: u64,
    pub(super) prev: Prev,
    pub(super) in_kernel: bool,
    /// Accesses still allowed to the last instruction, and whether they are owed.
    left_reads: i32,
    left_writes: i32,
    is_owed: bool,
    read_bytes: u16,
    write_bytes: u16,
    /// The chunk, counted from 1, whose encodings are good.
    chunk: u32,
    table: Table,
    encoding: [u8; MAX_CODE_BYTES],
    encoding_len: usize,
    /// Where a long flush began.
    flush: Option<u64>,
    pub(super) target: u64,
    /// Ordinal of the latest marker, and its kind; the one before.
    last_marker: (u64, Marker),
    last_marker_but_one: (u64, Marker),
    physical: u64,
    /// Thread of the coming records, and of the last one.
    pub(super) tid: u64,
    pub(super) seen_tid: u64,
    pub(super) headers: Headers,
    pub(super) chunks: Chunks,
    pub(super) time: Time,
    pub(super) kernel: Kernel,
    pub(super) signals: Signals,
    pub(super) calls: Calls,
    pub(super) log: Log,
    /// Where the entries being read stand.
    at: usize,
    offset: u64,
    member: u32,
}

impl Checker {
    pub(super) fn new(about: Arc<About>, log: Log) -> Checker {
        let thread = about.first_thread;
        let is_core = about.kind == ShardKind::Core;
        Checker {
            policy: Policy { core: is_core, flow_mask: u64::MAX, ..Policy::default() },
            attention: on::FIRST | on::HEADER,
            records: 0,
            instrs: 0,
            next_pc: 0,
            next_mask: 0,
            prev: Prev::NONE,
            in_kernel: false,
            left_reads: FREE,
            left_writes: FREE,
            is_owed: false,
            read_bytes: 0,
            write_bytes: 0,
            chunk: 1,
            table: Table::new(),
            encoding: [0; MAX_CODE_BYTES],
            encoding_len: 0,
            flush: None,
            target: 0,
            last_marker: (0, Marker(u16::MAX)),
            last_marker_but_one: (0, Marker(u16::MAX)),
            physical: 0,
            tid: thread,
            seen_tid: thread,
            headers: Headers::default(),
            chunks: Chunks::default(),
            time: Time::default(),
            kernel: Kernel::default(),
            signals: Signals::default(),
            calls: Calls::default(),
            log,
            at: 0,
            offset: 0,
            member: 0,
            about,
        }
    }

    /// Takes in a batch of raw entries and what the reader found.
    pub(super) fn consume(&mut self, batch: &Batch) {
        for finding in &batch.findings {
            let mut finding = finding.clone();
            if finding.place.record.is_some() {
                // The reader of raw entries does not count what it found; where it tells of it, all before was counted.
                (finding.place.record, finding.place.instr) = (Some(self.records), Some(self.instrs));
            }
            self.log.take(&finding, self.about.first_thread, self.about.id);
            self.resume_after(&finding);
        }
        let span = &batch.span;
        let entries = Entry::slice(batch.raw()).0;
        if entries.is_empty() {
            return;
        }
        (self.offset, self.at) = (span.offset, 0);
        if span.member != self.member {
            self.member = span.member;
            self.enter_member();
        }
        self.run(entries);
    }

    /// Nothing is known of what a gap swallowed.
    fn resume_after(&mut self, finding: &Finding) {
        let is_gap = finding.rule.starts_with("source/") || finding.rule == "drmemtrace/chunk-cut";
        if is_gap && finding.severity == quipu_model::Severity::Error {
            self.lose_header();
            self.forget();
            self.chunks.resync = true;
            self.attention &= on::FIRST | on::NO_DATA | on::THREAD;
            (self.is_owed, self.left_reads, self.left_writes) = (false, FREE, FREE);
            self.encoding_len = 0;
            self.kernel = Kernel::default();
            self.in_kernel = false;
        }
    }

    /// A new chunk: encodings count anew, unless the file need not repeat them.
    fn enter_member(&mut self) {
        self.enter_chunk(self.member);
        if !self.policy.core && !self.policy.template {
            self.chunk = self.member.saturating_add(1);
        }
    }

    fn run(&mut self, entries: &[Entry]) {
        let mut start = 0;
        while start < entries.len() {
            start = match self.policy.codes {
                true => self.run_as::<true>(entries, start),
                false => self.run_as::<false>(entries, start),
            };
        }
    }

    /// Takes entries from `start` on until the policy changes; returns where to go on.
    fn run_as<const CODES: bool>(&mut self, entries: &[Entry], start: usize) -> usize {
        for (at, entry) in entries.iter().enumerate().skip(start) {
            match entry.kind.get() {
                0 | 2..=9 | 32..=46 => self.read(entry, at),
                1 => self.write(entry, at),
                10..=16 | 29..=31 | 48 | 49 => self.instr::<CODES>(entry, at),
                47 => self.encoding(entry, at),
                28 => {
                    self.at = at;
                    self.marker(Marker(entry.size.get()), entry.addr.get());
                    if self.policy.codes != CODES {
                        return at + 1;
                    }
                }
                _ => {
                    self.at = at;
                    self.rare(entry);
                    if self.policy.codes != CODES {
                        return at + 1;
                    }
                }
            }
        }
        entries.len()
    }

    #[inline]
    fn read(&mut self, entry: &Entry, at: usize) {
        self.records += 1;
        if self.attention & on::FOR_DATA != 0 {
            self.at = at;
            self.attend_data();
        }
        self.left_reads -= 1;
        let size = entry.size.get();
        if (self.left_reads < 0) | ((size != self.read_bytes) & (self.read_bytes != 0)) {
            self.at = at;
            self.odd_read(size);
        }
    }

    #[inline]
    fn write(&mut self, entry: &Entry, at: usize) {
        self.records += 1;
        if self.attention & on::FOR_DATA != 0 {
            self.at = at;
            self.attend_data();
        }
        self.left_writes -= 1;
        let size = entry.size.get();
        if (self.left_writes < 0) | ((size != self.write_bytes) & (self.write_bytes != 0)) {
            self.at = at;
            self.odd_write(size);
        }
    }

    /// A read that is one too many, or of another size than the operands.
    #[cold]
    fn odd_read(&mut self, size: u16) {
        if self.left_reads < 0 {
            let is_free = !self.policy.data || (self.in_kernel && self.prev.flags & flag::KERNEL_READS != 0);
            self.left_reads = if is_free { FREE } else { 0 };
            if !is_free {
                let pc = self.prev.pc;
                self.tell(Rule::TooManyReads, || {
                    format!("the instruction at {pc:#x} has fewer operands to read")
                });
            }
        } else {
            self.odd_size(size, self.read_bytes, "reads");
        }
    }

    #[cold]
    fn odd_write(&mut self, size: u16) {
        if self.left_writes < 0 {
            let is_free = !self.policy.data || (self.in_kernel && self.prev.flags & flag::KERNEL_WRITES != 0);
            self.left_writes = if is_free { FREE } else { 0 };
            if !is_free {
                let pc = self.prev.pc;
                self.tell(Rule::TooManyWrites, || {
                    format!("the instruction at {pc:#x} has fewer operands to write")
                });
            }
        } else {
            self.odd_size(size, self.write_bytes, "writes");
        }
    }

    fn odd_size(&mut self, size: u16, expected: u16, what: &str) {
        // What the expected size is of was said of the same instruction.
        let pc = self.prev.pc;
        self.tell(Rule::AccessSize, || {
            format!("the instruction at {pc:#x} {what} `{expected}` bytes, the record has `{size}`")
        });
    }

    /// An access while something is out of the ordinary.
    #[cold]
    fn attend_data(&mut self) {
        self.attend_record();
        let attention = self.attention;
        if attention & on::FIRST != 0 {
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

    /// What any visible record settles that `attention` has waiting; `records` counts it already.
    pub(super) fn attend_record(&mut self) {
        let attention = self.attention;
        if attention & on::THREAD != 0 {
            self.turn(false);
        }
        if attention & on::ENCODING != 0 {
            self.lone_encoding();
        }
        if attention & on::PHYSICAL != 0 {
            self.lone_physical();
        }
        if attention & (on::HEADER | on::FOOTER | on::SEAM | on::PROCESSOR) != 0 {
            self.attend_frame(None);
        }
    }

    #[cold]
    fn lone_physical(&mut self) {
        self.attention &= !on::PHYSICAL;
        self.tell(Rule::PhysicalAlone, || "no virtual address follows the physical one".to_owned());
    }

    #[cold]
    fn lone_encoding(&mut self) {
        self.attention &= !on::ENCODING;
        self.encoding_len = 0;
        self.tell(Rule::EncodingAlone, || "no instruction follows the encoding".to_owned());
    }

    #[inline]
    fn instr<const CODES: bool>(&mut self, entry: &Entry, at: usize) {
        let (kind, size, pc) = (entry.kind.get(), entry.size.get(), entry.addr.get());
        if size == 0 {
            // A filtered trace names the instruction of the data that follows, without executing it.
            self.attention &= !on::FIRST;
            return;
        }
        self.records += 1;
        self.instrs += u64::from(kind != Type::INSTR_NO_FETCH.0);
        let mut facts = Facts::default();
        if !CODES {
            self.attention &= !on::ENCODING;
        } else {
            facts = *self.table.get(pc);
            let is_known = (facts.chunk == self.chunk)
                & (u16::from(facts.size) == size)
                & (facts.kind == plain_kind(kind))
                & (self.attention & on::ENCODING == 0);
            if !is_known {
                self.at = at;
                facts = self.resolve(kind, pc, size);
            }
            if self.is_owed & ((self.left_reads | self.left_writes) > 0) {
                self.at = at;
                self.missing_data();
            }
        }
        let misses = (pc ^ self.next_pc) & self.next_mask;
        let mut target = 0;
        if (misses != 0) | (self.attention & !on::NOT_FOR_INSTRS != 0) {
            self.at = at;
            target = self.attend_instr(kind, size, pc, &facts, misses != 0);
        }
        if CODES {
            self.expect_data(&facts);
            if facts.flags & flag::SPECIAL != 0 {
                self.special(&facts);
            }
        }
        let next = pc.wrapping_add(u64::from(size));
        self.prev = Prev { pc, target, size, kind, flags: facts.flags, kernel: self.in_kernel };
        if kind == Type::INSTR.0 || kind == Type::INSTR_NO_FETCH.0 {
            (self.next_pc, self.next_mask) = (next, self.policy.flow_mask);
        } else {
            self.at = at;
            self.branch(&facts, target);
        }
    }

    /// How many accesses may follow an instruction.
    #[inline]
    fn expect_data(&mut self, facts: &Facts) {
        let is_counted = self.policy.data && facts.flags & (flag::VALID | flag::UNCOUNTED) == flag::VALID;
        if is_counted && self.attention & on::NO_DATA == 0 {
            let count = |n: u8| if n == u8::MAX { FREE } else { i32::from(n) };
            (self.left_reads, self.left_writes) = (count(facts.reads), count(facts.writes));
            (self.read_bytes, self.write_bytes) = (facts.read_bytes, facts.write_bytes);
            // Kernel code of emulators has prefetches without an access.
            let is_free = self.in_kernel && facts.flags & flag::PREFETCH != 0;
            self.is_owed = facts.flags & flag::OPTIONAL == 0 && !is_free;
        } else {
            (self.left_reads, self.left_writes, self.is_owed) = (FREE, FREE, false);
            (self.read_bytes, self.write_bytes) = (0, 0);
        }
    }

    /// The last instruction did not do what it owes.
    #[cold]
    pub(super) fn missing_data(&mut self) {
        let (reads, writes, pc) = (self.left_reads, self.left_writes, self.prev.pc);
        // Of a free count nothing is owed.
        if (1..FREE / 2).contains(&reads) {
            self.tell(Rule::MissingReads, || format!("the instruction at {pc:#x} lacks `{reads}` reads"));
        }
        if (1..FREE / 2).contains(&writes) {
            self.tell(Rule::MissingWrites, || format!("the instruction at {pc:#x} lacks `{writes}` writes"));
        }
        self.is_owed = false;
    }

    /// True if the last instruction still owes accesses.
    pub(super) fn owes_data(&self) -> bool {
        self.is_owed && (self.left_reads | self.left_writes) > 0
    }

    /// Takes in the encoding that was given, or the lack of one, or a change of the instruction's type.
    #[cold]
    fn resolve(&mut self, kind: u16, pc: u64, size: u16) -> Facts {
        if self.attention & on::ENCODING != 0 {
            self.attention &= !on::ENCODING;
            let len = std::mem::take(&mut self.encoding_len);
            let bytes = self.encoding;
            let given = self.table.set(pc, size, kind, &bytes[..len.min(MAX_CODE_BYTES)], self.chunk);
            self.judge_encoding(pc, size, len, given);
        } else {
            let known = *self.table.get(pc);
            let is_given = known.chunk == self.chunk;
            if !is_given {
                if known.chunk == 0 {
                    self.no_encoding(pc);
                    self.table.set_bare(pc, size, kind, self.chunk);
                } else {
                    self.tell(Rule::ChunkEncoding, || {
                        format!("the chunk does not give the encoding of {pc:#x}")
                    });
                    self.table.renew(pc, self.chunk);
                }
            } else if u16::from(known.size) != size && self.policy.core {
                // Another core was given the code that stands there now.
                self.table.set_bare(pc, size, kind, self.chunk);
            } else if u16::from(known.size) != size && known.flags & flag::VALID != 0 {
                let old = known.size;
                self.tell(Rule::EncodingLength, || {
                    format!("instruction of `{size}` bytes at {pc:#x} has an encoding of `{old}` bytes")
                });
            }
        }
        if !self.policy.regdeps && !self.table.is_kind(pc, kind) && !self.in_kernel {
            self.tell(Rule::InstrType, || {
                let name = Type(kind).name().unwrap_or("unknown");
                format!("the encoding at {pc:#x} is no `{name}`")
            });
        }
        *self.table.get(pc)
    }

    /// Chooses the decoder for the file type.
    pub(super) fn choose_decoder(&mut self) {
        let arch = if self.policy.codes { self.policy.filetype.arch() } else { None };
        if arch != self.table.arch() {
            let decoder = arch.and_then(|arch| quipu_isa::Decoder::new(arch, quipu_isa::Syntax::Att).ok());
            self.table.decode_with(decoder);
        }
    }

    fn encoding(&mut self, entry: &Entry, at: usize) {
        self.at = at;
        let n = usize::from(entry.size.get());
        let start = if self.attention & on::ENCODING == 0 { 0 } else { self.encoding_len };
        let end = start + n;
        if self.attention & on::HEADER != 0 {
            self.attend_frame(None);
        }
        self.see_encoding();
        self.attention |= on::ENCODING;
        if n > 8 || end > MAX_CODE_BYTES {
            self.tell(Rule::EncodingTooLong, || {
                format!("an encoding of `{end}` bytes in pieces of at most 8, limit `{MAX_CODE_BYTES}`")
            });
            self.encoding_len = start;
            return;
        }
        self.encoding[start..end].copy_from_slice(&entry.addr.get().to_le_bytes()[..n]);
        self.encoding_len = end;
    }

    /// Entries that come once in a while.
    #[cold]
    fn rare(&mut self, entry: &Entry) {
        let (kind, value, size) = (entry.kind(), entry.addr.get(), entry.size.get());
        match kind {
            Type::THREAD => {
                self.tid = value;
                self.set_turn();
                self.attention &= !on::FOOTER;
            }
            Type::PID => self.process(),
            Type::HEADER => self.header(value),
            Type::FOOTER => self.footer(),
            Type::THREAD_EXIT => {
                self.records += 1;
                self.tid = value;
                self.set_turn();
                self.attend_record();
                self.exit();
            }
            Type::INSTR_FLUSH | Type::DATA_FLUSH if size == 0 => self.flush = Some(value),
            Type::INSTR_FLUSH | Type::DATA_FLUSH => self.read(entry, self.at),
            Type::INSTR_FLUSH_END | Type::DATA_FLUSH_END => {
                if self.flush.take().is_none_or(|start| start > value) {
                    self.tell(Rule::FlushEnd, || {
                        format!("a flush ends at {value:#x} that began nowhere before")
                    });
                }
                self.read(entry, self.at);
            }
            Type::INSTR_BUNDLE => {
                let n = u64::from(size).min(8);
                self.tell(Rule::OnlineType, || "a bundle of instructions".to_owned());
                self.records += n;
                self.instrs += n;
                self.forget();
            }
            Type::HARDWARE_PREFETCH => {
                self.tell(Rule::OnlineType, || "a prefetch by hardware".to_owned());
                self.read(entry, self.at);
            }
            // The reader tells of unknown ones.
            _ => {}
        }
    }

    fn set_turn(&mut self) {
        self.attention &= !on::THREAD;
        if self.tid != self.seen_tid {
            self.attention |= on::THREAD;
        }
    }

    /// A record of another thread than the one before.
    pub(super) fn turn(&mut self, by_switch: bool) {
        self.attention &= !on::THREAD;
        let (tid, from) = (self.tid, self.seen_tid);
        self.seen_tid = tid;
        match self.about.kind {
            ShardKind::Thread => {
                if self.about.thread.is_some_and(|own| own != tid) && !self.headers.is_lost {
                    self.tell(Rule::WrongThread, || {
                        format!("a record of thread `{tid}` in another thread's file")
                    });
                }
            }
            ShardKind::Core => {
                if self.policy.filetype.any(FileType::KERNEL_SYSCALLS) && !by_switch {
                    self.tell(Rule::SwitchTraceMissing, || match from {
                        IDLE_THREAD => format!("the core turns to thread `{tid}` without kernel code"),
                        from => format!("the core turns from thread `{from}` to `{tid}` without kernel code"),
                    });
                }
            }
            ShardKind::Mixed => self.turn_headers(from, tid),
        }
        self.forget();
    }

    /// The core has nothing to run.
    fn idle(&mut self) {
        self.records += 1;
        if self.seen_tid != IDLE_THREAD {
            self.seen_tid = IDLE_THREAD;
            self.attention |= on::THREAD;
        }
    }

    /// What stood before has nothing to do with what comes: another thread, or a gap.
    pub(super) fn forget(&mut self) {
        self.prev = Prev::NONE;
        self.next_mask = 0;
        self.signals = Signals::default();
        self.calls = Calls::default();
        self.kernel.forget();
        self.attention &= !(on::RSEQ | on::TRANSFER | on::FUNCTION | on::PHYSICAL | on::SYSCALL);
    }

    /// A marker, hidden ones included.
    fn marker(&mut self, kind: Marker, value: u64) {
        match kind {
            Marker::CORE_IDLE => return self.idle(),
            Marker::BRANCH_TARGET => return self.branch_target(value),
            Marker::RECORD_ORDINAL => return self.record_ordinal(value),
            Marker::TIMESTAMP | Marker::CPU_ID if self.is_repeated(kind, value) => return,
            _ => {}
        }
        self.records += 1;
        let before = self.attention;
        if before & on::THREAD != 0 {
            self.turn(kind == Marker::CONTEXT_SWITCH_START);
        }
        if before & on::PHYSICAL != 0 && kind == Marker::VIRTUAL_ADDRESS {
            self.attention &= !on::PHYSICAL;
            if (value ^ self.physical) & 0xfff != 0 {
                let physical = self.physical;
                self.tell(Rule::PhysicalOffset, || {
                    format!("physical {physical:#x} is not virtual {value:#x}")
                });
            }
        }
        if before & on::ENCODING != 0 {
            self.lone_encoding();
        }
        if self.attention & on::PHYSICAL != 0 {
            self.lone_physical();
        }
        if before & (on::FOOTER | on::SEAM | on::PROCESSOR) != 0 {
            self.attend_frame(Some(kind));
        }
        self.attention &= !on::FUNCTION;
        self.rseq_marker(kind, value);
        self.syscall_interval(kind);
        match kind {
            Marker::TIMESTAMP => self.timestamp(value),
            Marker::CPU_ID => self.cpu(value),
            Marker::WINDOW_ID => self.window(value),
            Marker::VERSION
            | Marker::FILETYPE
            | Marker::CACHE_LINE_SIZE
            | Marker::PAGE_SIZE
            | Marker::CHUNK_INSTR_COUNT
            | Marker::VECTOR_LENGTH => self.header_marker(kind, value),
            Marker::CHUNK_FOOTER => self.chunk_footer(value),
            Marker::INSTRUCTION_COUNT => self.instr_count(value),
            Marker::FILTER_ENDPOINT => self.endpoint(),
            Marker::SYSCALL => self.syscall(value),
            Marker::MAYBE_BLOCKING_SYSCALL => self.blocking(),
            Marker::FUNC_ID | Marker::FUNC_RETADDR | Marker::FUNC_ARG | Marker::FUNC_RETVAL => {
                self.function(kind, value);
            }
            Marker::SYSCALL_TRACE_START => self.syscall_trace_start(value),
            Marker::SYSCALL_TRACE_END => self.syscall_trace_end(value),
            Marker::CONTEXT_SWITCH_START => self.switch_start(value),
            Marker::CONTEXT_SWITCH_END => self.switch_end(),
            Marker::KERNEL_EVENT | Marker::HARDWARE_EVENT => self.interruption(kind, value),
            Marker::KERNEL_XFER | Marker::HARDWARE_CONTEXT_RETURN => self.resumption(kind, value),
            Marker::SIGNAL_NUMBER => self.signal_number(),
            Marker::PHYSICAL_ADDRESS => {
                self.physical = value;
                self.attention |= on::PHYSICAL;
            }
            Marker::KERNEL_EVENT_RAW | Marker::SPLIT_VALUE | Marker::MIDBLOCK_END_PC => self.raw_marker(kind),
            Marker(47..=100) => {
                self.tell(Rule::UnknownMarker, || format!("marker kind `{}` is reserved", kind.0));
            }
            _ => {}
        }
        if self.policy.regdeps {
            self.regdeps_marker(kind, value);
        }
        self.last_marker_but_one = self.last_marker;
        self.last_marker = (self.records, kind);
    }

    /// True if the record before the one being judged is a marker of this kind.
    pub(super) fn follows(&self, kind: Marker) -> bool {
        self.last_marker == (self.records - 1, kind)
    }

    /// True if the two records before the one being judged are markers of these kinds.
    pub(super) fn follows_both(&self, first: Marker, second: Marker) -> bool {
        self.follows(second) && self.records >= 2 && self.last_marker_but_one == (self.records - 2, first)
    }

    /// Where the entry being judged stands.
    fn place(&self) -> Place {
        let member = self.about.members.get(self.member as usize).filter(|name| !name.is_empty());
        Place {
            file: Some(self.about.name.clone()),
            member: member.cloned(),
            offset: Some(self.offset + self.at as u64 * self.about.entry_bytes),
            record: Some(self.records),
            instr: Some(self.instrs),
        }
    }

    /// What was found, in the order of the file: what the reader says of a batch came before all that is in it.
    pub(super) fn into_log(mut self) -> Log {
        let members = &self.about.members;
        self.log.kept.sort_by_key(|violation| {
            let Place { member, offset, .. } = &violation.finding.place;
            let position = member.as_ref().and_then(|name| members.iter().position(|known| known == name));
            (position.unwrap_or(0), offset.unwrap_or(0))
        });
        self.log
    }

    /// A violation at the entry being judged.
    #[cold]
    pub(super) fn tell(&mut self, rule: Rule, message: impl FnOnce() -> String) {
        self.tell_as(rule, 0, message);
    }

    /// A violation that the original words in the `which`th way.
    #[cold]
    pub(super) fn tell_as(&mut self, rule: Rule, which: usize, message: impl FnOnce() -> String) {
        if !self.log.count(rule, 1) {
            return;
        }
        let info = rule.info();
        let finding = Finding {
            rule: info.name,
            severity: info.severity,
            place: self.place(),
            message: message(),
            count: 1,
        };
        let violation = Violation {
            finding,
            original: info.original.get(which).copied().unwrap_or(""),
            thread: self.seen_tid,
            shard: self.about.id,
            since_clock: self.instrs - self.time.instrs_at_clock.min(self.instrs),
            clock: self.time.last,
        };
        self.log.keep(rule, violation);
    }
}
