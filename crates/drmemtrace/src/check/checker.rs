//! The state of checking one shard, and the loop over its entries.
//!
//! The common entries (instructions that follow each other, their accesses) are judged here in a few comparisons; all that
//! is out of the ordinary raises a bit in `attention`, and the files of the groups look at it. A rule is judged where the
//! original judges it, so that places agree with what it prints.

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

/// What is known of a shard before it is read.
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
    /// The shard is pieced together of parts of files: what headers say may stand elsewhere, and threads begin in their
    /// middle.
    pub(super) is_cut: bool,
    /// Of such a shard, version and file type of each thread, where files differ.
    pub(super) of_threads: Arc<FxHashMap<u64, (u64, FileType)>>,
    /// Only violations in this part are reported.
    pub(super) part: Option<Part>,
    /// The file, if the shard is one: its readers report seams that do not fit.
    pub(super) file: Option<Arc<File>>,
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

/// Checking one shard.
pub(super) struct Checker {
    pub(super) about: Arc<About>,
    pub(super) policy: Policy,
    pub(super) attention: u32,
    /// Visible records and instructions so far.
    pub(super) records: u64,
    pub(super) instrs: u64,
    /// Records of a core that rests.
    pub(super) idles: u64,
    /// How many of them gaps swallowed: the ordinals after a gap count them.
    pub(super) lost: (u64, u64),
    /// Where the next instruction should be, as far as the bits of `next_mask` go.
    pub(super) next_pc: u64,
    pub(super) next_mask: u64,
    pub(super) prev: Prev,
    pub(super) in_kernel: bool,
    /// Accesses that the last instruction may still do.
    pub(super) data: Data,
    /// The chunk, counted from 1, whose encodings are good.
    pub(super) chunk: u32,
    pub(super) table: Table,
    /// The encoding that waits for its instruction.
    pub(super) encoding: [u8; MAX_CODE_BYTES],
    pub(super) encoding_len: usize,
    /// Where a long flush began.
    flush: Option<u64>,
    pub(super) target: u64,
    /// Ordinal of the latest marker that is no footer of a chunk, and its kind; the one before. Footers after them
    /// count as if they stood before.
    pub(super) last_marker: (u64, Marker),
    pub(super) last_marker_but_one: (u64, Marker),
    pub(super) physical: u64,
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
    pub(super) progress: Progress,
    /// Where the entries being read stand.
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

    /// Nothing is known of what stands before the first record but what the header says.
    fn begin_cut(&mut self) {
        self.lose_header();
        self.attention = 0;
        self.chunks.resync = true;
        self.kernel.lose();
    }

    /// Takes in a batch of raw entries and what the reader found.
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
            // A thread that begins late has the ordinals of its file.
            (self.records, self.instrs) = (span.first_record, span.first_instr);
            self.lost = (self.records, self.instrs);
        }
        (self.offset, self.at) = (span.offset, 0);
        // The first chunk that is there need not be the first.
        let is_late = self.chunks.resync && self.records == 0;
        if span.member != self.member || is_late {
            self.member = span.member;
            self.enter_member();
        }
        match self.about.part {
            None => {
                self.run(entries);
                // What the end of the trace settles stands with its last entry, wherever the batches end.
                self.at = entries.len() - 1;
            }
            Some(part) => self.run_part(entries, part),
        }
    }

    /// Nothing is known of what a gap swallowed.
    fn resume_after(&mut self, finding: &Finding) {
        let own = ["drmemtrace/chunk-cut", "drmemtrace/nonsense", "drmemtrace/missing-chunk", WRONG_ORDINAL];
        // What carries the trace has rules of its own.
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

    /// A new chunk: encodings count anew, unless the file need not repeat them.
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

    /// Entries that come once in a while.
    #[cold]
    fn rare(&mut self, entry: &Entry) {
        let (kind, value, size) = (entry.kind(), entry.addr.get(), entry.size.get());
        match kind {
            Type::THREAD => {
                self.tid = value;
                self.set_turn();
                self.attention &= !on::FOOTER;
                if self.about.is_cut {
                    // What stood before an instruction that a part leaves out.
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
            // The reader tells of unknown ones.
            _ => {}
        }
    }
}
