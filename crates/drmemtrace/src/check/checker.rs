//! The state of checking one shard, and the loop over its entries.
//!
//! The common entries (consecutive instructions and their accesses) are checked here with a few comparisons. Anything
//! unusual sets a bit in `attention`, and the files of the groups handle it. A rule is checked at the same entry as in
//! DynamoRIO's checker, so that places agree with its output.

use super::calls::Calls;
use super::chunks::Chunks;
use super::data::Data;
use super::facts::{Facts, Table, flag, plain_kind};
use super::flow::Prev;
use super::headers::Headers;
use super::kernel::Kernel;
use super::log::Log;
use super::range::{Part, Progress};
use super::rules::Rule;
use super::signals::Signals;
use super::time::Time;
use crate::decode::WRONG_ORDINAL;
use crate::record::{Entry, FileType, Marker, Type};
use crate::trace::File;
use quipu_model::code::MAX_CODE_BYTES;
use quipu_model::{Batch, Finding, ShardKind};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Facts about a shard that are known before it is read.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    pub(super) id: u32,
    pub(super) name: String,
    pub(super) kind: ShardKind,
    pub(super) thread: Option<u64>,
    /// The thread of the first records.
    pub(super) first_thread: u64,
    /// The version that the first entry states.
    pub(super) stated: Option<u64>,
    /// Version from the header, as far as it could be read when the trace was opened.
    pub(super) version: u64,
    pub(super) filetype: FileType,
    pub(super) chunk_instrs: u64,
    /// Names of the archive's members; a single empty name if the file is not an archive.
    pub(super) members: Vec<String>,
    pub(super) is_archive: bool,
    pub(super) entry_bytes: u64,
    /// True if instructions are decoded, provided that the trace has encodings.
    pub(super) decode: bool,
    /// True if points of the schedule are kept.
    pub(super) schedule: bool,
    /// True if the shard is assembled from parts of files: its header may be in another shard, and threads may start in the
    /// middle.
    pub(super) is_cut: bool,
    /// For such a shard, version and file type of each thread, if the files differ.
    pub(super) of_threads: Arc<FxHashMap<u64, (u64, FileType)>>,
    /// Only violations within this part are reported; `None` for all of the shard.
    pub(super) part: Option<Part>,
    /// The file, if the shard is one file: its readers report seams whose counts differ.
    pub(super) file: Option<Arc<File>>,
}

/// Choices that follow from the file type and the version.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policy {
    pub(super) filetype: FileType,
    pub(super) version: u64,
    /// True if the trace promises encodings and they are checked.
    pub(super) codes: bool,
    /// True if accesses are compared with the operands of their instruction.
    pub(super) data: bool,
    pub(super) regdeps: bool,
    pub(super) template: bool,
    pub(super) core: bool,
    /// All ones if control flow is checked, else 0.
    pub(super) flow_mask: u64,
}

/// Bits of `attention`.
pub(super) mod on {
    /// The next record belongs to another thread than the last one.
    pub(in crate::check) const THREAD: u32 = 1;
    /// An encoding was read, but its instruction was not yet.
    pub(in crate::check) const ENCODING: u32 = 1 << 1;
    /// A branch target was read, but its branch was not yet.
    pub(in crate::check) const TARGET: u32 = 1 << 2;
    /// The last record is a function marker.
    pub(in crate::check) const FUNCTION: u32 = 1 << 3;
    /// The last record is a physical address.
    pub(in crate::check) const PHYSICAL: u32 = 1 << 4;
    /// No instruction was read yet.
    pub(in crate::check) const FIRST: u32 = 1 << 5;
    /// The thread has ended.
    pub(in crate::check) const EXITED: u32 = 1 << 6;
    /// Data accesses are not allowed.
    pub(in crate::check) const NO_DATA: u32 = 1 << 7;
    /// An interruption, or the return from one, came since the last instruction.
    pub(in crate::check) const TRANSFER: u32 = 1 << 8;
    /// A clock reading came since the last instruction.
    pub(in crate::check) const CLOCK: u32 = 1 << 9;
    /// The window changed since the last instruction.
    pub(in crate::check) const WINDOW: u32 = 1 << 10;
    /// A system call was executed, but its number was not read yet.
    pub(in crate::check) const SYSCALL: u32 = 1 << 11;
    /// The next instruction must settle something about the kernel code of a system call.
    pub(in crate::check) const KERNEL: u32 = 1 << 12;
    /// A restartable sequence is being executed.
    pub(in crate::check) const RSEQ: u32 = 1 << 13;
    /// The footer of the file was read.
    pub(in crate::check) const FOOTER: u32 = 1 << 14;
    /// A new chunk has begun, and its first three entries are expected.
    pub(in crate::check) const SEAM: u32 = 1 << 15;
    /// A processor marker must follow.
    pub(in crate::check) const PROCESSOR: u32 = 1 << 16;
    /// The header has not ended.
    pub(in crate::check) const HEADER: u32 = 1 << 17;
    /// Bits that an instruction ignores.
    pub(in crate::check) const NOT_FOR_INSTRS: u32 = NO_DATA;
    /// Bits that an access must handle.
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

/// State of checking one shard.
pub(super) struct Checker {
    pub(super) about: Arc<About>,
    pub(super) policy: Policy,
    pub(super) attention: u32,
    /// Visible records and instructions so far.
    pub(super) records: u64,
    pub(super) instrs: u64,
    /// Records of an idle core.
    pub(super) idles: u64,
    /// Records and instructions that gaps swallowed; the ordinals after a gap include them.
    pub(super) lost: (u64, u64),
    /// Expected address of the next instruction, in the bits that `next_mask` selects.
    pub(super) next_pc: u64,
    pub(super) next_mask: u64,
    pub(super) prev: Prev,
    pub(super) in_kernel: bool,
    /// Accesses that the last instruction may still make.
    pub(super) data: Data,
    /// The chunk, counted from 1, whose encodings are valid.
    pub(super) chunk: u32,
    pub(super) table: Table,
    /// The encoding whose instruction was not read yet.
    pub(super) encoding: [u8; MAX_CODE_BYTES],
    pub(super) encoding_len: usize,
    /// First address of a flush that spans several entries.
    flush: Option<u64>,
    pub(super) target: u64,
    /// Ordinal and kind of the latest marker that is not a chunk footer, then of the one before it. A footer after a marker
    /// counts as if it came before the marker.
    pub(super) last_marker: (u64, Marker),
    pub(super) last_marker_but_one: (u64, Marker),
    pub(super) physical: u64,
    /// Thread of the next records, and of the last one.
    pub(super) tid: u64,
    pub(super) seen_tid: u64,
    pub(super) headers: Headers,
    pub(super) chunks: Chunks,
    pub(super) time: Time,
    pub(super) kernel: Kernel,
    pub(super) signals: Signals,
    pub(super) calls: Calls,
    pub(super) log: Log,
    pub(super) progress: Progress,
    /// Position of the current entry in the batch, then offset and member of the batch.
    pub(super) at: usize,
    pub(super) offset: u64,
    pub(super) member: u32,
}

impl Checker {
    pub(super) fn new(about: Arc<About>, log: Log) -> Checker {
        let thread = about.first_thread;
        let is_core = about.kind == ShardKind::Core;
        let mut checker = Checker {
            policy: Policy { core: is_core, flow_mask: u64::MAX, ..Policy::default() },
            attention: on::FIRST | on::HEADER,
            records: 0,
            instrs: 0,
            idles: 0,
            lost: (0, 0),
            next_pc: 0,
            next_mask: 0,
            prev: Prev::NONE,
            in_kernel: false,
            data: Data::FREE,
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
            progress: Progress::default(),
            at: 0,
            offset: 0,
            member: 0,
            about,
        };
        if checker.about.is_cut {
            checker.begin_cut();
        }
        checker
    }

    /// Starts in the middle of a file: apart from the header, nothing is known about the records before the first one.
    fn begin_cut(&mut self) {
        self.lose_header();
        self.attention = 0;
        self.chunks.resync = true;
        self.kernel.lose();
    }

    /// Checks a batch of raw entries and takes over the reader's findings.
    pub(super) fn consume(&mut self, batch: &Batch) {
        for finding in &batch.findings {
            if self.is_in_part() {
                self.log.take(finding, self.about.first_thread, self.about.id);
            }
            self.resume_after(finding);
        }
        let span = &batch.span;
        let entries = Entry::slice(batch.raw()).0;
        if entries.is_empty() {
            return;
        }
        if self.about.is_cut && self.records == 0 {
            // A thread that starts in the middle continues the ordinals of its file.
            (self.records, self.instrs) = (span.first_record, span.first_instr);
            self.lost = (self.records, self.instrs);
        }
        (self.offset, self.at) = (span.offset, 0);
        // The first chunk that the file still has need not be chunk 0.
        let is_late = self.chunks.resync && self.records == 0;
        if span.member != self.member || is_late {
            self.member = span.member;
            self.enter_member();
        }
        match self.about.part {
            None => {
                self.run(entries);
                // Violations found at the end of the trace are placed at its last entry, however the batches are divided.
                self.at = entries.len() - 1;
            }
            Some(part) => self.run_part(entries, part),
        }
    }

    /// Resets the expectations that a gap invalidates.
    fn resume_after(&mut self, finding: &Finding) {
        let own = ["drmemtrace/chunk-cut", "drmemtrace/nonsense", "drmemtrace/missing-chunk", WRONG_ORDINAL];
        // Findings about the container have rules of their own.
        let is_gap =
            finding.loss.is_some() || finding.rule.starts_with("source/") || own.contains(&&*finding.rule);
        if is_gap && finding.severity == quipu_model::Severity::Error {
            self.lose_header();
            self.forget();
            self.chunks.resync = true;
            self.attention &= on::FIRST | on::NO_DATA | on::THREAD;
            self.data = Data::FREE;
            self.encoding_len = 0;
            self.kernel.lose();
            self.in_kernel = false;
        }
    }

    /// Begins a chunk: each encoding must appear again, unless the file need not repeat encodings.
    fn enter_member(&mut self) {
        self.enter_chunk(self.member);
        if !self.policy.core && !self.policy.template {
            self.chunk = self.member.saturating_add(1);
        }
    }

    pub(super) fn run(&mut self, entries: &[Entry]) {
        let mut start = 0;
        while start < entries.len() {
            start = match self.policy.codes {
                true => self.run_as::<true>(entries, start),
                false => self.run_as::<false>(entries, start),
            };
        }
    }

    /// Checks entries from `start` on until the policy changes; returns the position to continue from.
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

    /// Handles the bits of `attention` that any visible record settles; `records` includes that record already.
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

    #[inline]
    fn instr<const CODES: bool>(&mut self, entry: &Entry, at: usize) {
        let (kind, size, pc) = (entry.kind.get(), entry.size.get(), entry.addr.get());
        if size == 0 {
            // A filtered trace names the instruction of the following data without executing it.
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
            if self.data.is_owed & ((self.data.reads | self.data.writes) > 0) {
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

    /// Handles rare entries.
    #[cold]
    fn rare(&mut self, entry: &Entry) {
        let (kind, value, size) = (entry.kind(), entry.addr.get(), entry.size.get());
        match kind {
            Type::THREAD => {
                self.tid = value;
                self.set_turn();
                self.attention &= !on::FOOTER;
                if self.about.is_cut {
                    // Targets and encodings may belong to an instruction that the part leaves out.
                    self.attention &= !(on::TARGET | on::ENCODING);
                    self.encoding_len = 0;
                }
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
            // The reader reports unknown types.
            _ => {}
        }
    }
}
