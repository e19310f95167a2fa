//! Checks of headers, of the ends of threads and files, and of the bits of the file type.

use super::checker::{Checker, on};
use super::rules::Rule;
use crate::header::newer_version;
use crate::record::{FileType, Marker, NEWEST_VERSION};
use quipu_model::ShardKind;
use rustc_hash::FxHashMap;

/// State of the header, and of the threads after it.
#[derive(Clone, Debug, Default)]
pub(super) struct Headers {
    /// The version that the latest header states.
    stated: Option<u64>,
    /// Values of the first header of the trace: version, file type, line, page, chunk.
    first: [Option<u64>; 5],
    has_version: bool,
    has_filetype: bool,
    has_process: bool,
    /// True if a record came before the process.
    is_late: bool,
    /// True if damage swallowed the header, or part of it: its values are unknown.
    pub(super) is_lost: bool,
    has_line: bool,
    has_page: bool,
    /// True if filtering stopped, for all threads that take turns.
    has_endpoint: bool,
    /// State of the current thread.
    pub(super) own: OfThread,
    /// State of the other threads so far, if the shard mixes threads.
    others: FxHashMap<u64, OfThread>,
    /// Instructions before this trace; the file may hold other traces before it.
    instrs_before: u64,
}

/// State that the checks at the end of a thread need.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfThread {
    has_exit: bool,
    has_instr_count: bool,
    instr_count: u64,
    pub(super) n_syscalls: u64,
    pub(super) has_blocking: bool,
    /// True if the thread has ended and nothing came after.
    has_ended: bool,
}

/// The architectures that a file type may name.
const ARCHS: FileType =
    FileType::ARCH_AARCH64.or(FileType::ARCH_ARM32).or(FileType::ARCH_X86_32).or(FileType::ARCH_X86_64);

impl Checker {
    /// Handles a header: of the file, of a thread of a core, or of another trace.
    pub(super) fn header(&mut self, version: u64) {
        if self.headers.stated.is_some() && self.about.kind != ShardKind::Core {
            if self.has_sequences() {
                // The file has several sequences, which are checked together at the end.
                if self.owes_data() {
                    self.missing_data();
                }
            } else {
                if self.attention & on::FOOTER == 0 {
                    self.tell(Rule::NoFooter, || {
                        "a further header follows without a footer before".to_owned()
                    });
                }
                self.end_trace();
            }
            self.headers = Headers { instrs_before: self.instrs, ..Default::default() };
            self.chunks.restart(self.instrs);
            self.time.restart();
            self.forget();
            self.attention = on::FIRST;
        }
        self.attention &= !on::FOOTER;
        self.attention |= on::HEADER;
        self.headers.stated = Some(version);
        (self.headers.has_version, self.headers.has_filetype) = (false, false);
        (self.headers.has_process, self.headers.is_late) = (false, false);
        self.policy.version = version;
        self.judge_version(version);
    }

    /// True for archives of templates: each member is a sequence with its own header, and only the last one has the end of a
    /// trace.
    fn has_sequences(&self) -> bool {
        self.policy.template && self.about.is_archive
    }

    /// Handles a gap, which may have swallowed the header: the values read when the trace was opened are used instead.
    pub(super) fn lose_header(&mut self) {
        if self.headers.is_lost || (self.headers.has_line && self.headers.has_page) {
            return;
        }
        self.headers.is_lost = true;
        self.attention &= !on::HEADER;
        if self.policy.version == 0 {
            self.policy.version = self.about.version;
        }
        if !self.headers.has_filetype {
            self.filetype(self.about.filetype);
        }
        self.chunks.size = self.about.chunk_instrs;
    }

    fn judge_version(&mut self, version: u64) {
        // The version in the file's own header was reported when the file was opened.
        if version > NEWEST_VERSION && version != self.about.version {
            self.tell(Rule::NewerVersion, || newer_version(version));
        }
    }

    /// Handles the process, which ends the header.
    pub(super) fn process(&mut self) {
        if self.headers.is_late && !self.headers.has_process && self.headers.stated.is_some() {
            self.tell(Rule::HeaderOrder, || "records stand before the process".to_owned());
        }
        self.headers.has_process = true;
        if self.attention & on::HEADER != 0 {
            self.end_header();
        }
    }

    fn end_header(&mut self) {
        self.attention &= !on::HEADER;
        let Some(version) = self.headers.stated.filter(|version| *version >= 2) else { return };
        if !self.headers.has_version {
            self.tell(Rule::VersionMissing, || {
                format!("no version marker follows the header of version `{version}`")
            });
        }
        if !self.headers.has_filetype {
            self.tell(Rule::FiletypeMissing, || "no file type follows the header".to_owned());
        }
    }

    /// Checks elements between records that are due, or over. `kind` is that of the record, if it is a marker.
    #[cold]
    pub(super) fn attend_frame(&mut self, kind: Option<Marker>) {
        let attention = self.attention;
        if attention & on::HEADER != 0 && kind.is_none() {
            self.end_header();
            self.headers.is_late = true;
            if !self.headers.has_process {
                self.tell(Rule::NoProcess, || "a record stands before any process".to_owned());
            }
        }
        if attention & on::FOOTER != 0 {
            self.attention &= !on::FOOTER;
            if !self.policy.core {
                self.tell(Rule::AfterFooter, || "a record follows the footer".to_owned());
            }
        }
        if attention & on::SEAM != 0 {
            self.attention &= !on::SEAM;
            self.tell(Rule::ChunkStart, || {
                "the chunk does not begin with its record ordinal, the clock and the processor".to_owned()
            });
        }
        if attention & on::PROCESSOR != 0 && kind != Some(Marker::WINDOW_ID) {
            self.attention &= !on::PROCESSOR;
            if kind != Some(Marker::CPU_ID) {
                self.tell(Rule::ProcessorMissing, || "no processor follows the clock reading".to_owned());
            }
        }
    }

    /// Checks the markers of a header.
    pub(super) fn header_marker(&mut self, kind: Marker, value: u64) {
        let (at, what) = match kind {
            Marker::VERSION => (0, "version"),
            Marker::FILETYPE => (1, "file type"),
            Marker::CACHE_LINE_SIZE => (2, "line size"),
            Marker::PAGE_SIZE => (3, "page size"),
            Marker::CHUNK_INSTR_COUNT => (4, "chunk size"),
            _ => return self.vector_length(value),
        };
        let which = [1, 0, 2, 3, 4][at];
        match self.headers.first[at] {
            None => self.headers.first[at] = Some(value),
            Some(first) if first != value => {
                self.tell_as(Rule::HeaderChanges, which, || {
                    format!("the {what} is `{value:#x}` here, `{first:#x}` at first")
                });
            }
            Some(_) => {}
        }
        match kind {
            Marker::VERSION => self.version(value),
            Marker::FILETYPE => self.filetype(FileType(value)),
            Marker::CACHE_LINE_SIZE => self.headers.has_line = true,
            Marker::PAGE_SIZE => self.headers.has_page = true,
            _ => self.chunks.size = value,
        }
    }

    fn version(&mut self, value: u64) {
        self.headers.has_version = true;
        let is_reported = self.headers.stated == self.about.stated && value == self.about.version;
        if let Some(stated) = self.headers.stated.filter(|stated| *stated != value && !is_reported) {
            self.tell(Rule::VersionMismatch, || {
                format!("the marker says version `{value}`, the header `{stated}`")
            });
            self.judge_version(value);
        }
        self.policy.version = value;
    }

    /// Takes over the file type, which selects the rules that apply.
    pub(super) fn filetype(&mut self, filetype: FileType) {
        self.headers.has_filetype = true;
        let is_regdeps = filetype.any(FileType::ARCH_REGDEPS);
        let n_archs = (filetype.0 & ARCHS.0).count_ones();
        if is_regdeps && n_archs > 0 {
            self.tell(Rule::RegdepsArch, || format!("file type {:#x} names an architecture too", filetype.0));
        } else if n_archs > 1 {
            self.tell(Rule::SeveralArchs, || {
                format!("file type {:#x} names `{n_archs}` architectures", filetype.0)
            });
        }
        if filetype.any(FileType::WHOLE_SYSTEM) && filetype.any(FileType::KERNEL_SYSCALLS) {
            self.tell(Rule::KernelAndWholeSystem, || format!("file type {:#x} has both bits", filetype.0));
        }
        let policy = &mut self.policy;
        policy.filetype = filetype;
        policy.codes = self.about.decode && filetype.any(FileType::ENCODINGS);
        policy.regdeps = is_regdeps;
        policy.template = filetype.any(FileType::KERNEL_SYSCALL_TRACE_TEMPLATES);
        policy.core = self.about.kind == ShardKind::Core || filetype.any(FileType::CORE_SHARDED);
        policy.flow_mask = if filetype.is_ifiltered() { 0 } else { u64::MAX };
        policy.data = policy.codes
            && !filetype.is_ifiltered()
            && !filetype.is_dfiltered()
            && !filetype.any(FileType::INSTRUCTION_ONLY);
        self.choose_decoder();
        self.allow_data();
    }

    /// Sets whether data accesses may follow.
    pub(super) fn allow_data(&mut self) {
        let filetype = self.policy.filetype;
        let without = filetype.any(FileType::INSTRUCTION_ONLY)
            || (self.kernel.syscall && filetype.any(FileType::KERNEL_SYSCALL_INSTR_ONLY));
        self.attention = if without { self.attention | on::NO_DATA } else { self.attention & !on::NO_DATA };
    }

    fn vector_length(&mut self, value: u64) {
        let is_arm = self.policy.filetype.any(FileType::ARCH_AARCH64);
        if !is_arm && !self.policy.regdeps {
            self.tell_as(Rule::VectorLength, 1, || "vector lengths are of AArch64 only".to_owned());
        } else if value == 0 || value > 256 || !value.is_multiple_of(16) {
            self.tell(Rule::VectorLength, || format!("a vector has `{value}` bytes"));
        }
    }

    pub(super) fn instr_count(&mut self, value: u64) {
        let last = self.headers.own.instr_count;
        if value < last {
            self.tell(Rule::InstrCountDecreases, || format!("`{value}` instructions after `{last}`"));
        }
        self.headers.own.has_instr_count = true;
        self.headers.own.instr_count = value;
    }

    pub(super) fn endpoint(&mut self) {
        self.headers.has_endpoint = true;
        if !self.policy.filetype.any(FileType::BIMODAL_FILTERED_WARMUP) {
            self.tell(Rule::EndpointBit, || "the file type has no bit 0x2000".to_owned());
        }
    }

    pub(super) fn raw_marker(&mut self, kind: Marker) {
        // DynamoRIO's checker tests one of them.
        let which = usize::from(kind != Marker::KERNEL_EVENT_RAW);
        self.tell_as(Rule::RawMarker, which, || {
            format!("marker `{}` belongs to raw files", kind.name().unwrap_or("unknown"))
        });
    }

    /// Handles the end of a thread.
    pub(super) fn exit(&mut self) {
        let filetype = self.policy.filetype;
        self.headers.own.has_exit = true;
        self.kernel.is_exit_due = false;
        if self.headers.is_lost {
            // On a core, other threads continue.
            if !self.policy.core {
                self.attention |= on::EXITED;
            }
            return;
        }
        if filetype.is_ifiltered() && !self.headers.own.has_instr_count {
            self.tell(Rule::InstrCountMissing, || "the thread has no instruction counts".to_owned());
        }
        if !self.headers.has_line {
            self.tell(Rule::LineSizeMissing, || "the thread has no cache-line size".to_owned());
        }
        if !self.headers.has_page {
            self.tell(Rule::PageSizeMissing, || "the thread has no page size".to_owned());
        }
        let has_numbers = filetype.any(FileType::SYSCALL_NUMBERS);
        if self.headers.own.n_syscalls > 0 && !has_numbers {
            let n = self.headers.own.n_syscalls;
            self.tell(Rule::SyscallNumbersBit, || {
                format!("`{n}` system calls are numbered, says no file-type bit")
            });
        }
        if self.headers.own.has_blocking && !filetype.any(FileType::BLOCKING_SYSCALLS) {
            self.tell(Rule::BlockingBit, || {
                "calls that may block are marked, says no file-type bit".to_owned()
            });
        }
        if self.about.kind == ShardKind::Thread {
            self.judge_endpoint();
        }
        let has_none = self.prev.is_none() && (self.policy.core || self.instrs == self.headers.instrs_before);
        if has_none && !filetype.is_ifiltered() && !self.policy.template {
            self.tell(Rule::NoInstructions, || "the thread executed nothing".to_owned());
        }
        if self.in_kernel {
            self.tell(Rule::KernelOpen, || "the thread ends inside kernel code".to_owned());
        }
        // On a core, kernel code may still run for a thread that has ended.
        if !self.policy.core {
            self.attention |= on::EXITED;
        }
    }

    fn judge_endpoint(&mut self) {
        let is_due = self.policy.filetype.any(FileType::BIMODAL_FILTERED_WARMUP) && !self.headers.is_lost;
        if is_due && !self.headers.has_endpoint {
            self.tell(Rule::EndpointMissing, || "filtering stops nowhere".to_owned());
        }
    }

    /// Switches to another thread of a mixed shard and restores its state.
    pub(super) fn turn_headers(&mut self, from: u64, to: u64) {
        self.headers.own.has_ended = self.attention & on::EXITED != 0;
        let next = self.headers.others.remove(&to).unwrap_or_default();
        let last = std::mem::replace(&mut self.headers.own, next);
        self.headers.others.insert(from, last);
        self.attention &= !on::EXITED;
        if next.has_ended {
            self.attention |= on::EXITED;
        }
    }

    /// Reports a record of a thread that has ended.
    #[cold]
    pub(super) fn after_exit(&mut self) {
        self.attention &= !on::EXITED;
        let tid = self.seen_tid;
        self.tell(Rule::AfterExit, || format!("thread `{tid}` has ended before"));
    }

    pub(super) fn footer(&mut self) {
        if self.attention & on::FOOTER != 0 && !self.policy.core {
            self.tell(Rule::AfterFooter, || "a second footer follows the footer".to_owned());
        }
        self.attention |= on::FOOTER;
    }

    /// Ends the trace: at the end of its file, or because another trace follows in the same file.
    pub(super) fn end_trace(&mut self) {
        if self.records == 0 {
            return;
        }
        if self.policy.template {
            self.end_templates();
        }
        if self.about.kind != ShardKind::Thread {
            // One thread may end before filtering does, which stops for all.
            self.judge_endpoint();
        }
        if !self.policy.core {
            let own = [(self.seen_tid, self.headers.own)];
            let others = self.headers.others.iter().filter(|_| !self.has_sequences());
            let all = own.into_iter().chain(others.map(|(tid, of)| (*tid, *of)));
            let mut open: Vec<u64> = all.filter(|(_, of)| !of.has_exit).map(|(tid, _)| tid).collect();
            open.sort_unstable();
            for tid in open {
                self.tell(Rule::ExitMissing, || format!("the exit of thread `{tid}` is missing"));
            }
        }
        if self.owes_data() {
            self.missing_data();
        }
        self.end_chunks();
    }
}
