//! Decodes entries to the records that tools see: the reading rules as one state machine.
//!
//! Entries go in, calls on a [`Sink`] come out; no files, no buffers, and no error stops it. Violations in the entry stream
//! go to [`Sink::finding`], and reading continues with the next entry, which is always a safe point because all entries have
//! one width. The rules are described in docs/formats/drmemtrace.md, section *Reading*.

mod markers;
mod plain;

pub use plain::{Place, Stretch};

use crate::header::Header;
use crate::record::{Entry, FileType, IDLE_THREAD, Marker, N_TYPES, Type};
use quipu_model::Severity;
use quipu_model::code::MAX_CODE_BYTES;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// Receives the decoded records, one call per visible record. `cx` already counts the record.
pub trait Sink {
    /// An instruction, or a further iteration of a string loop.
    fn instr(&mut self, cx: &Interp, instr: Instr<'_>);
    /// A load, store, prefetch or complete flush; its instruction is at `cx.pc`.
    fn data(&mut self, cx: &Interp, kind: Type, addr: u64, size: u64);
    /// A visible marker.
    fn marker(&mut self, cx: &Interp, kind: Marker, value: u64);
    /// The end of thread `cx.tid`.
    fn exit(&mut self, cx: &Interp);
    /// Consumes a run of plain entries from the front of `entries` at once, if the sink can, and returns their number.
    fn stretch(&mut self, _: &mut Interp, _: &[Entry], _: &Limits) -> usize {
        0
    }
    /// A violation at entry `index` of the slice being read.
    fn finding(&mut self, cx: &Interp, index: usize, rule: &'static str, severity: Severity, message: String);
}

/// An instruction that is passed to a sink.
#[derive(Clone, Copy, Debug)]
pub struct Instr<'a> {
    /// One of the instruction types; [`Type::INSTR_NO_FETCH`] for a further iteration.
    pub kind: Type,
    /// Address.
    pub pc: u64,
    /// Length in bytes.
    pub size: u16,
    /// Target of an indirect branch, if recorded, else 0.
    pub target: u64,
    /// Encoding, if the trace gives it at this execution.
    pub encoding: Option<&'a [u8]>,
    /// Index of its entry in the slice being read; `None` for an instruction of a bundle, which never has an encoding.
    pub index: Option<usize>,
}

/// Limits of one [`Interp::run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Stop when this many records are counted.
    pub records: u64,
    /// Stop when the current batch has this many records.
    pub batch: u64,
    /// Stop before the next instruction when this many are counted.
    pub instrs: u64,
    /// Stop before each visible clock reading but the first.
    pub at_clock: bool,
    /// Stop before a visible clock reading that is not below this; before none if it is `u64::MAX`.
    pub clock: u64,
}

impl Limits {
    /// No limit.
    pub const NONE: Limits =
        Limits { records: u64::MAX, batch: u64::MAX, instrs: u64::MAX, at_clock: false, clock: u64::MAX };
}

/// Why [`Interp::run`] stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All entries are used up.
    End,
    /// A limit of records is reached.
    Records,
    /// The instruction limit is reached; the next entry (or the one after its encoding) is an instruction.
    Instrs,
    /// The next visible record belongs to another thread.
    Thread,
    /// The thread belongs to another process from here on.
    Process,
    /// The next visible record is a clock reading.
    Clock,
    /// The next visible record is a clock reading not below [`Limits::clock`].
    ClockLimit,
}

/// True for the types that may come before the first record of a trace.
fn is_header(kind: Type) -> bool {
    matches!(kind, Type::HEADER | Type::MARKER | Type::THREAD | Type::PID)
}

/// Kernel regions that are open. Delimiting markers belong to their region.
#[derive(Clone, Copy, Debug, Default)]
struct Kernel {
    syscall: bool,
    switch: bool,
    interrupts: u32,
}

impl Kernel {
    fn is_open(self) -> bool {
        self.syscall || self.switch || self.interrupts > 0
    }
}

/// A record that has no entry of its own, or that is held back.
#[derive(Clone, Copy, Debug)]
enum Queued {
    Marker(u16, u64),
    BundledInstr(u8),
}

/// The rule for entries that are accepted although they are odd. Only some readers check them, so it is a warning; `check`
/// has a rule for each kind.
pub const ODD_ENTRIES: &str = "drmemtrace/odd-entries";

/// The rule for chunks whose record count differs from their entries. Every reader that counts records checks it, and every
/// ordinal after a jump to such a chunk is wrong: an error.
pub const WRONG_ORDINAL: &str = "drmemtrace/record-ordinal";

/// No trace has this many records; larger ordinals are damage, and counting on from them would overflow.
pub const MAX_ORDINAL: u64 = 1 << 62;

/// Limit of held header markers before the process; more than this is not a header.
const MAX_HEADER_MARKERS: usize = 64;

/// Minimum length of a run of plain entries that made [`Sink::stretch`] worth calling.
const WORTHWHILE: usize = 8;
/// Number of entries that are decoded one by one before the next call of [`Sink::stretch`], if the last was not worthwhile.
const UNASKED: u32 = 8;

/// The state of reading one shard.
#[derive(Debug)]
pub struct Interp {
    /// Current thread.
    pub tid: u64,
    /// Process of the current thread.
    pub pid: u64,
    /// Visible records so far.
    pub records: u64,
    /// Instructions so far.
    pub instrs: u64,
    /// Address of the latest instruction entry: the instruction of the data records that follow.
    pub pc: u64,
    /// The latest clock reading, 0 before the first.
    pub timestamp: u64,
    /// The latest processor.
    pub cpu: u64,
    /// Number of visible clock readings so far.
    pub n_timestamps: u64,
    /// Version of the format, from the header.
    pub version: u64,
    /// File-type bits.
    pub filetype: FileType,
    /// Instructions in a chunk; 0 if the header does not say.
    pub chunk_instrs: u64,
    /// True if the record being passed to the sink is in a kernel region.
    pub is_kernel: bool,
    /// Thread of the current batch.
    pub batch_tid: u64,
    /// Process of the current batch.
    pub batch_pid: u64,
    /// Records before the current batch.
    pub batch_start: u64,
    /// True if the current batch holds the first record of its thread.
    pub batch_starts_thread: bool,
    /// True if the next record ordinal in the stream is taken over without a check.
    pub resync: bool,
    /// True once the first entry was read.
    started: bool,
    in_header: bool,
    queue: VecDeque<Queued>,
    pids: FxHashMap<u64, u64>,
    fresh: Option<u64>,
    prev_instr: u64,
    next_pc: u64,
    pending: [u8; MAX_CODE_BYTES],
    pending_len: usize,
    branch_target: u64,
    flush: Option<u64>,
    repeated: FxHashSet<u64>,
    kernel: Kernel,
}

impl Interp {
    /// The state before the first entry of a shard.
    pub fn new() -> Interp {
        Interp {
            tid: 0,
            pid: 0,
            records: 0,
            instrs: 0,
            pc: 0,
            timestamp: 0,
            cpu: u64::MAX,
            n_timestamps: 0,
            version: 0,
            filetype: FileType::default(),
            chunk_instrs: 0,
            is_kernel: false,
            batch_tid: 0,
            batch_pid: 0,
            batch_start: 0,
            batch_starts_thread: false,
            resync: false,
            started: false,
            in_header: true,
            queue: VecDeque::new(),
            pids: FxHashMap::default(),
            fresh: None,
            prev_instr: 0,
            next_pc: 0,
            pending: [0; MAX_CODE_BYTES],
            pending_len: 0,
            branch_target: 0,
            flush: None,
            repeated: FxHashSet::default(),
            kernel: Kernel::default(),
        }
    }

    /// The state at the start of chunk number `chunk` of a file.
    pub fn at_chunk(header: &Header, chunk: u64) -> Interp {
        let mut interp = Interp::new();
        interp.know_header(header);
        // Chunks hold a known number of instructions each; a product out of range is nonsense in the header.
        interp.instrs = chunk.checked_mul(header.chunk_instrs).filter(|n| *n < MAX_ORDINAL).unwrap_or(0);
        interp.resync = true;
        interp
    }

    /// Takes over a header that was read separately: the entries that hold it are skipped, or lost.
    pub fn know_header(&mut self, header: &Header) {
        // Where threads take turns, the file's first thread may not be the one that runs here.
        if !(header.is_mixed || header.filetype.any(FileType::CORE_SHARDED)) {
            self.tid = header.tid;
            self.pid = header.pid;
            self.pids.insert(header.tid, header.pid);
        }
        self.version = header.version;
        self.filetype = header.filetype;
        self.chunk_instrs = header.chunk_instrs;
        self.started = true;
        self.in_header = false;
    }

    /// Drops the state that does not survive a gap in the stream; the next chunk's ordinals are taken over without a check.
    pub fn resume_after_gap(&mut self, instrs: Option<u64>) {
        self.pending_len = 0;
        self.flush = None;
        self.branch_target = 0;
        self.resync = true;
        self.instrs = instrs.filter(|n| *n < MAX_ORDINAL).unwrap_or(self.instrs);
    }

    /// Starts a batch: the next visible record decides its thread.
    pub fn begin_batch(&mut self) {
        self.batch_start = self.records;
        self.batch_starts_thread = false;
    }

    /// Records an instruction that was counted elsewhere, for the entries that depend on it.
    pub fn executed(&mut self, pc: u64, size: u16) {
        self.prev_instr = pc;
        self.next_pc = pc.wrapping_add(u64::from(size));
    }

    /// True if the next instruction, clock reading or processor can be taken as it is: no encoding is pending, and no
    /// repeated values are expected after a chunk's seam.
    pub fn is_plain(&self) -> bool {
        self.pending_len == 0 && self.repeated.is_empty()
    }

    /// True while a kernel region is open.
    pub fn in_kernel(&self) -> bool {
        self.kernel.is_open()
    }

    /// Ends the header: there is none, or no more of it.
    pub fn end_header(&mut self) {
        self.in_header = false;
    }

    /// True if records are queued that belong to earlier entries, of the header or of a bundle.
    pub fn has_waiting(&self) -> bool {
        !self.in_header && !self.queue.is_empty()
    }

    /// Records in the current batch so far.
    pub fn batch_len(&self) -> u64 {
        self.records - self.batch_start
    }

    /// Reads entries from the front of `entries` until they are used up or a limit is reached. Returns the number of entries
    /// used and the reason for stopping; call again with the rest.
    pub fn run<S: Sink>(&mut self, entries: &[Entry], limits: &Limits, sink: &mut S) -> (usize, Stop) {
        if let Some(stop) = self.drain(limits, sink) {
            return (0, stop);
        }
        let (mut index, mut patience) = (0, 0_u32);
        while index < entries.len() {
            if patience == 0 {
                let n = sink.stretch(self, &entries[index..], limits);
                index += n;
                // Where plain entries are rare, trying at each entry costs more than it saves.
                patience = if n < WORTHWHILE { UNASKED } else { 1 };
                continue;
            }
            patience -= 1;
            let entry = &entries[index];
            if self.in_header && !is_header(entry.kind()) {
                self.in_header = false;
                if let Some(stop) = self.drain(limits, sink) {
                    return (index, stop);
                }
            }
            let kind = entry.kind();
            let stop = match kind.0 {
                0..=9 | 27 | 32..=46 => self.data(entry, limits, sink),
                10..=16 | 29..=31 | 48 | 49 => self.instr(entry, index, limits, sink),
                47 => {
                    self.encoding(entry, index, sink);
                    None
                }
                28 => self.marker(entry, index, limits, sink),
                _ => self.rare(entry, index, limits, sink),
            };
            if let Some(stop) = stop {
                return (index, stop);
            }
            if !self.queue.is_empty()
                && let Some(stop) = self.drain(limits, sink)
            {
                return (index + 1, stop);
            }
            index += 1;
        }
        (entries.len(), Stop::End)
    }

    /// Returns the reason if a record of `tid` may not be counted now; otherwise makes it part of the batch.
    #[inline]
    fn blocked(&mut self, tid: u64, limits: &Limits) -> Option<Stop> {
        if self.records >= limits.records || self.records - self.batch_start >= limits.batch {
            return Some(Stop::Records);
        }
        if self.records == self.batch_start {
            self.batch_tid = tid;
            self.batch_pid = if tid == IDLE_THREAD { 0 } else { self.pid };
            if self.fresh == Some(tid) {
                self.fresh = None;
                self.batch_starts_thread = true;
            }
            None
        } else if tid != self.batch_tid {
            Some(Stop::Thread)
        } else {
            None
        }
    }

    #[inline]
    fn data<S: Sink>(&mut self, entry: &Entry, limits: &Limits, sink: &mut S) -> Option<Stop> {
        let stop = self.blocked(self.tid, limits);
        if stop.is_none() {
            self.records += 1;
            self.is_kernel = self.kernel.is_open();
            sink.data(self, entry.kind(), entry.addr.get(), u64::from(entry.size.get()));
        }
        stop
    }

    #[inline]
    fn instr<S: Sink>(&mut self, entry: &Entry, index: usize, limits: &Limits, sink: &mut S) -> Option<Stop> {
        let (mut kind, pc, size) = (entry.kind(), entry.addr.get(), entry.size.get());
        if size == 0 {
            // A filtered trace names the instruction of the following data without executing it.
            self.pc = pc;
            return None;
        }
        if kind == Type::INSTR_MAYBE_FETCH {
            kind = if pc == self.prev_instr { Type::INSTR_NO_FETCH } else { Type::INSTR };
        }
        let fetched = kind != Type::INSTR_NO_FETCH;
        if fetched && self.instrs >= limits.instrs {
            return Some(Stop::Instrs);
        }
        if let Some(stop) = self.blocked(self.tid, limits) {
            return Some(stop);
        }
        let len = std::mem::take(&mut self.pending_len);
        if len != 0 && len != usize::from(size) && !self.filetype.any(FileType::ARCH_REGDEPS) {
            sink.finding(
                self,
                index,
                ODD_ENTRIES,
                Severity::Warning,
                format!("instruction of `{size}` bytes at {pc:#x} has an encoding of `{len}` bytes"),
            );
        }
        let target = if kind.is_indirect_branch() { std::mem::take(&mut self.branch_target) } else { 0 };
        let instr = Instr { kind, pc, size, target, encoding: None, index: Some(index) };
        self.execute(instr, len, sink);
        None
    }

    /// Counts an instruction and passes it to the sink; its encoding is the first `len` pending bytes.
    #[inline]
    fn execute<S: Sink>(&mut self, instr: Instr<'_>, len: usize, sink: &mut S) {
        self.pc = instr.pc;
        self.executed(instr.pc, instr.size);
        self.records += 1;
        self.instrs += u64::from(instr.kind != Type::INSTR_NO_FETCH);
        self.is_kernel = self.kernel.is_open();
        let bytes = self.pending;
        let encoding = if len == 0 { None } else { Some(&bytes[..len.min(MAX_CODE_BYTES)]) };
        sink.instr(self, Instr { encoding, ..instr });
    }

    fn encoding<S: Sink>(&mut self, entry: &Entry, index: usize, sink: &mut S) {
        let n = usize::from(entry.size.get());
        let end = self.pending_len + n;
        if n > 8 || end > MAX_CODE_BYTES {
            sink.finding(
                self,
                index,
                ODD_ENTRIES,
                Severity::Warning,
                format!("an encoding of `{end}` bytes in pieces of at most 8, limit `{MAX_CODE_BYTES}`"),
            );
            self.pending_len = 0;
            return;
        }
        let bytes = entry.addr.get().to_le_bytes();
        self.pending[self.pending_len..end].copy_from_slice(&bytes[..n]);
        self.pending_len = end;
    }

    /// Handles rare entries.
    #[cold]
    fn rare<S: Sink>(&mut self, entry: &Entry, index: usize, limits: &Limits, sink: &mut S) -> Option<Stop> {
        let (kind, value, size) = (entry.kind(), entry.addr.get(), entry.size.get());
        match kind {
            Type::THREAD => {
                // Records before the first thread count as thread 0; a batch begins where that thread begins after them.
                let is_batched = self.records != self.batch_start && self.batch_tid == value;
                if is_batched && !self.pids.contains_key(&value) {
                    return Some(Stop::Thread);
                }
                self.tid = value;
                match self.pids.get(&value) {
                    Some(pid) => self.pid = *pid,
                    None => {
                        self.pid = 0;
                        self.pids.insert(value, 0);
                        self.fresh = Some(value);
                    }
                }
            }
            Type::PID => {
                // A batch has one process. No tracer writes this in the middle of a thread, but damage does.
                let is_batched = self.records != self.batch_start && self.batch_tid == self.tid;
                if is_batched && self.batch_pid != value {
                    return Some(Stop::Process);
                }
                self.pid = value;
                self.pids.insert(self.tid, value);
                self.in_header = false;
            }
            Type::HEADER => {
                if !self.started {
                    self.version = value;
                }
            }
            Type::FOOTER => {}
            Type::THREAD_EXIT => {
                self.in_header = false;
                if let Some(stop) = self.drain(limits, sink) {
                    return Some(stop);
                }
                if self.records != self.batch_start && value != self.batch_tid {
                    return Some(Stop::Thread);
                }
                self.tid = value;
                if let Some(stop) = self.blocked(value, limits) {
                    return Some(stop);
                }
                self.records += 1;
                self.is_kernel = self.kernel.is_open();
                sink.exit(self);
            }
            Type::INSTR_BUNDLE => {
                let lengths = value.to_le_bytes();
                let n = usize::from(size).min(lengths.len());
                self.queue.extend(lengths[..n].iter().map(|len| Queued::BundledInstr(*len)));
            }
            Type::INSTR_FLUSH | Type::DATA_FLUSH if size == 0 => self.flush = Some(value),
            Type::INSTR_FLUSH | Type::DATA_FLUSH => return self.data(entry, limits, sink),
            Type::INSTR_FLUSH_END | Type::DATA_FLUSH_END => {
                return self.flush_end(entry, index, limits, sink);
            }
            _ => {
                let message = format!("entry type `{}` is unknown; the types end at {}", kind.0, N_TYPES - 1);
                sink.finding(self, index, "drmemtrace/unknown-type", Severity::Error, message);
            }
        }
        self.started = true;
        None
    }

    /// Handles the second half of a flush that is too long for one entry.
    fn flush_end<S: Sink>(
        &mut self,
        entry: &Entry,
        index: usize,
        limits: &Limits,
        sink: &mut S,
    ) -> Option<Stop> {
        if let Some(stop) = self.blocked(self.tid, limits) {
            return Some(stop);
        }
        let end = entry.addr.get();
        let start = self.flush.take().filter(|start| *start <= end);
        if start.is_none() {
            let message = format!("a flush ends at {end:#x} that began nowhere before");
            sink.finding(self, index, ODD_ENTRIES, Severity::Warning, message);
        }
        let kind = if entry.kind() == Type::INSTR_FLUSH_END { Type::INSTR_FLUSH } else { Type::DATA_FLUSH };
        let start = start.unwrap_or(end);
        self.records += 1;
        self.is_kernel = self.kernel.is_open();
        sink.data(self, kind, start, end - start);
        None
    }

    /// Passes on the queued records: header markers once their process is known, and the instructions of a bundle.
    fn drain<S: Sink>(&mut self, limits: &Limits, sink: &mut S) -> Option<Stop> {
        if self.in_header {
            return None;
        }
        while let Some(queued) = self.queue.front().copied() {
            let stop = match queued {
                Queued::Marker(kind, value) => self.show(Marker(kind), value, limits, sink),
                Queued::BundledInstr(_) if self.instrs >= limits.instrs => Some(Stop::Instrs),
                Queued::BundledInstr(len) => {
                    let stop = self.blocked(self.tid, limits);
                    if stop.is_none() {
                        let (pc, size) = (self.next_pc, u16::from(len));
                        let instr =
                            Instr { kind: Type::INSTR, pc, size, target: 0, encoding: None, index: None };
                        self.execute(instr, 0, sink);
                    }
                    stop
                }
            };
            if stop.is_some() {
                return stop;
            }
            self.queue.pop_front();
        }
        None
    }
}

impl Default for Interp {
    fn default() -> Interp {
        Interp::new()
    }
}
