//! From records to lens columns and `memrefs` rows: a [`Sink`] that appends to a batch.

mod plain;

use crate::codes::{CodeMap, FRONT, SMALL_FRONT};
use crate::decode::{Instr, Interp, Limits, ODD_ENTRIES, Sink, Stretch};
use crate::record::{Entry, FileType, Marker, Type, VERSION_BRANCH_INFO, access_kind};
use crate::table::{Memrefs, NO_MARKER};
use quipu_model::finding::KEPT_PER_RULE;
use quipu_model::lens::{AccessKind, CallEdge, InstrClass, NO_CODE, Taken, ThreadEvent, instr_flags};
use quipu_model::{Batch, Columns, Severity};

/// A finding before its place is known: entry index, record, instruction, rule, severity, message.
#[derive(Debug)]
pub struct RawFinding {
    /// Index of the entry in the slice given to [`Interp::run`].
    pub index: usize,
    /// Record ordinal of the reader at the finding.
    pub record: u64,
    /// Instruction ordinal of the reader at the finding.
    pub instr: u64,
    /// Name of the rule.
    pub rule: &'static str,
    /// Severity.
    pub severity: Severity,
    /// Message.
    pub message: String,
}

/// At most this many findings of one rule are held until their places are known. No read keeps more of a rule, so findings
/// that are dropped here are dropped wherever batches end.
const MAX_WAITING: usize = KEPT_PER_RULE as usize;

/// The records of a traced call so far.
#[derive(Debug, Default)]
struct CallGroup {
    id: u64,
    return_to: u64,
    args: Vec<u64>,
    result: Option<u64>,
}

/// Fills the columns asked for; lives as long as the read.
#[derive(Debug)]
pub struct Fill {
    columns: Columns,
    memrefs: Option<Memrefs>,
    codes: CodeMap,
    needs_codes: bool,
    call: Option<CallGroup>,
    /// Buffer for runs of plain entries; `None` when thousands of files are read at once.
    stretch: Option<Box<Stretch>>,
    /// Findings of the current run, for the reader to place.
    pub findings: Vec<RawFinding>,
    /// Rule, severity and number of findings that were dropped because too many were held.
    pub dropped: Vec<(&'static str, Severity, u64)>,
}

impl Fill {
    /// A sink for these columns, and for `memrefs` rows if `memrefs`, that may use about `buffer_bytes`.
    pub fn new(columns: Columns, memrefs: bool, buffer_bytes: usize) -> Fill {
        let needs_codes = memrefs || columns.has(Columns::INSTR_CODE);
        let n_slots = match needs_codes {
            true if buffer_bytes >= 1 << 20 => FRONT,
            true => SMALL_FRONT,
            false => 1,
        };
        Fill {
            columns,
            memrefs: memrefs.then(Memrefs::default),
            codes: CodeMap::new(n_slots),
            needs_codes,
            call: None,
            stretch: (buffer_bytes >= 1 << 20).then(Box::default),
            findings: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// True if the limit of held findings of this rule is not reached, so that its message is worth formatting.
    fn is_kept(&self, rule: &'static str) -> bool {
        self.findings.iter().filter(|finding| finding.rule == rule).count() < MAX_WAITING
    }

    /// Keeps a finding, or only counts it if too many of its rule are held.
    #[cold]
    fn keep(&mut self, cx: &Interp, index: usize, rule: &'static str, severity: Severity, message: String) {
        let finding = RawFinding { index, record: cx.records, instr: cx.instrs, rule, severity, message };
        if self.is_kept(rule) {
            self.findings.push(finding);
        } else if let Some((_, _, n)) = self.dropped.iter_mut().find(|(rule, _, _)| *rule == finding.rule) {
            *n += 1;
        } else {
            self.dropped.push((finding.rule, finding.severity, 1));
        }
    }

    /// Binds the sink to `batch`; `table` is the position of the `memrefs` rows in the batch.
    pub fn into_batch<'a>(&'a mut self, batch: &'a mut Batch, table: Option<usize>) -> Filling<'a> {
        if let (Some(memrefs), Some(table)) = (&mut self.memrefs, table) {
            *memrefs = batch.tables[table].get_mut().map(std::mem::take).unwrap_or_default();
        }
        Filling { fill: self, batch, table }
    }
}

/// [`Fill`] bound to one batch; dropping it leaves the rows in the batch.
pub struct Filling<'a> {
    fill: &'a mut Fill,
    batch: &'a mut Batch,
    table: Option<usize>,
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        if let (Some(memrefs), Some(table)) = (&mut self.fill.memrefs, self.table)
            && let Some(rows) = self.batch.tables[table].get_mut()
        {
            *rows = std::mem::take(memrefs);
        }
    }
}

/// Position of the current record in the batch.
#[inline]
fn at(cx: &Interp) -> u32 {
    (cx.records - 1 - cx.batch_start) as u32 // Batches are far smaller than 2^32 records.
}

fn class(kind: Type) -> InstrClass {
    match kind {
        Type::INSTR_DIRECT_JUMP => InstrClass::DirectJump,
        Type::INSTR_INDIRECT_JUMP => InstrClass::IndirectJump,
        Type::INSTR_CONDITIONAL_JUMP | Type::INSTR_TAKEN_JUMP | Type::INSTR_UNTAKEN_JUMP => {
            InstrClass::ConditionalJump
        }
        Type::INSTR_DIRECT_CALL => InstrClass::DirectCall,
        Type::INSTR_INDIRECT_CALL => InstrClass::IndirectCall,
        Type::INSTR_RETURN => InstrClass::Return,
        Type::INSTR_SYSENTER => InstrClass::Sysenter,
        _ => InstrClass::Other,
    }
}

fn taken(kind: Type) -> Taken {
    match kind {
        Type::INSTR_CONDITIONAL_JUMP => Taken::Unknown,
        Type::INSTR_TAKEN_JUMP => Taken::Yes,
        _ if class(kind).is_branch() && kind != Type::INSTR_UNTAKEN_JUMP => Taken::Yes,
        _ => Taken::No,
    }
}

impl Filling<'_> {
    /// Appends the fields that all `memrefs` rows have.
    #[inline]
    fn row(memrefs: &mut Memrefs, cx: &Interp, kind: Type, size: u64, addr: Option<u64>, pc: u64) {
        memrefs.record.push(cx.records);
        memrefs.instr.push(cx.instrs);
        memrefs.pid.push(cx.batch_pid);
        memrefs.tid.push(cx.batch_tid);
        memrefs.kind.push(kind.0);
        memrefs.size.push(size);
        memrefs.addr.push(addr);
        memrefs.pc.push(pc);
        memrefs.kernel.push(u8::from(cx.is_kernel));
        memrefs.time.push(cx.timestamp);
    }

    /// Appends the fields that only some `memrefs` rows have.
    #[inline]
    fn rest(
        memrefs: &mut Memrefs,
        marker: Option<(Marker, u64)>,
        target: u64,
        code: u32,
        new_encoding: bool,
    ) {
        let (marker, value) = marker.map_or((NO_MARKER, None), |(kind, value)| (kind.0, Some(value)));
        memrefs.marker.push(marker);
        memrefs.value.push(value);
        memrefs.target.push(target);
        memrefs.code.push(code);
        memrefs.new_encoding.push(u8::from(new_encoding));
    }

    /// Ends the open call, before the record at `at`.
    #[cold]
    fn end_call(&mut self, at: u32) {
        let Some(call) = self.fill.call.take() else { return };
        let calls = &mut self.batch.calls;
        calls.at.push(at);
        calls.function.push(call.id);
        calls.edge.push(if call.result.is_some() { CallEdge::Leave } else { CallEdge::Enter });
        calls.return_to.push(call.return_to);
        calls.result.push(call.result);
        calls.args.push(call.args);
    }

    /// Ends an open call after the records so far, which are a thread's last, or its last before a clock reading.
    pub fn end_call_here(&mut self, cx: &Interp) {
        self.end_call((cx.records - cx.batch_start) as u32); // Bounded by the records in a batch.
    }

    /// Reports an instruction without the encoding that the trace promises. The message is not formatted once too many are
    /// held.
    #[cold]
    fn no_encoding(&mut self, cx: &Interp, index: usize, pc: u64) {
        let message = if self.fill.is_kept(ODD_ENTRIES) {
            format!("instruction at {pc:#x} was never given an encoding")
        } else {
            String::new()
        };
        self.finding(cx, index, ODD_ENTRIES, Severity::Warning, message);
    }

    /// Handles a marker for the calls lens.
    fn call_marker(&mut self, cx: &Interp, kind: Marker, value: u64) {
        match (kind, &mut self.fill.call) {
            (Marker::FUNC_ID, _) => {
                self.end_call(at(cx));
                self.fill.call = Some(CallGroup { id: value, ..CallGroup::default() });
            }
            (Marker::FUNC_RETADDR, Some(call)) => call.return_to = value,
            (Marker::FUNC_ARG, Some(call)) if call.args.len() < MAX_CALL_ARGS => call.args.push(value),
            (Marker::FUNC_RETVAL, Some(call)) => call.result = Some(value),
            (Marker::FUNC_RETADDR | Marker::FUNC_ARG | Marker::FUNC_RETVAL, _) => {}
            _ => self.end_call(at(cx)),
        }
    }

    /// Handles a marker for the threads lens.
    fn thread_marker(&mut self, cx: &Interp, kind: Marker, value: u64) {
        let what = match kind {
            Marker::TIMESTAMP => ThreadEvent::Clock,
            Marker::CPU_ID if value != u64::MAX => ThreadEvent::Cpu,
            Marker::CORE_IDLE => ThreadEvent::Idle,
            Marker::CORE_WAIT => ThreadEvent::Wait,
            Marker::SYSCALL => ThreadEvent::Syscall,
            Marker::MAYBE_BLOCKING_SYSCALL => ThreadEvent::MayBlock,
            Marker::KERNEL_EVENT | Marker::HARDWARE_EVENT => ThreadEvent::Interrupt,
            Marker::KERNEL_XFER | Marker::HARDWARE_CONTEXT_RETURN => ThreadEvent::Resume,
            Marker::SYSCALL_FAILED => ThreadEvent::Failed,
            Marker::SYSCALL_TRACE_START => ThreadEvent::KernelEnter,
            Marker::SYSCALL_TRACE_END => ThreadEvent::KernelLeave,
            Marker::DIRECT_THREAD_SWITCH => ThreadEvent::SwitchTo,
            Marker::SYSCALL_UNSCHEDULE => ThreadEvent::Park,
            Marker::SYSCALL_SCHEDULE => ThreadEvent::Wake,
            Marker::SYSCALL_ARG_TIMEOUT => ThreadEvent::Timeout,
            _ => return,
        };
        // On Linux the bits above the processor's 12 are the NUMA node.
        let value = if what == ThreadEvent::Cpu { value & 0xfff } else { value };
        let threads = &mut self.batch.threads;
        threads.at.push(at(cx));
        threads.what.push(what);
        threads.value.push(value);
    }
}

/// Maximum number of recorded arguments of a call; further ones are dropped.
const MAX_CALL_ARGS: usize = 256;

impl Sink for Filling<'_> {
    #[inline]
    fn stretch(&mut self, cx: &mut Interp, entries: &[Entry], limits: &Limits) -> usize {
        let needs_codes_only = self.fill.needs_codes && !self.fill.columns.has(Columns::INSTRS);
        if self.fill.memrefs.is_some() || self.fill.call.is_some() || needs_codes_only {
            return 0;
        }
        let Some(mut stretch) = self.fill.stretch.take() else { return 0 };
        let n = self.fill_stretch(&mut stretch, cx, entries, limits);
        self.fill.stretch = Some(stretch);
        n
    }

    #[inline]
    fn instr(&mut self, cx: &Interp, instr: Instr<'_>) {
        if self.fill.call.is_some() {
            self.end_call(at(cx));
        }
        let columns = self.fill.columns;
        let is_new = instr.encoding.is_some();
        let mut code = NO_CODE;
        if self.fill.needs_codes {
            code = match instr.encoding {
                Some(bytes) => self.fill.codes.set(instr.pc, instr.size, bytes, &mut self.batch.codes),
                None => self.fill.codes.get(instr.pc, instr.size, &self.batch.codes),
            };
            if code == NO_CODE
                && let Some(index) = instr.index
                && cx.filetype.any(FileType::ENCODINGS)
                && !cx.filetype.any(FileType::CORE_SHARDED.or(FileType::KERNEL_SYSCALL_TRACE_TEMPLATES))
                && !self.fill.codes.knows(instr.pc, &self.batch.codes)
            {
                self.no_encoding(cx, index, instr.pc);
            }
        }
        let fetched = instr.kind != Type::INSTR_NO_FETCH;
        if columns.has(Columns::INSTRS) {
            let rows = &mut self.batch.instrs;
            rows.at.push(at(cx));
            rows.pc.push(instr.pc);
            rows.size.push(instr.size);
            let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
            rows.flags.push(
                flag(!fetched, instr_flags::NO_FETCH)
                    | flag(cx.is_kernel, instr_flags::KERNEL)
                    | flag(is_new, instr_flags::NEW_CODE),
            );
            if columns.has(Columns::INSTR_CLASS) {
                rows.class.push(class(instr.kind));
            }
            if columns.has(Columns::INSTR_TAKEN) {
                rows.taken.push(taken(instr.kind));
            }
            if columns.has(Columns::INSTR_TARGET) {
                rows.target.push(instr.target);
            }
            if columns.has(Columns::INSTR_CODE) {
                rows.code.push(code);
            }
        }
        if fetched && columns.has(Columns::ACCESS_FETCH) {
            let rows = &mut self.batch.accesses;
            rows.at.push(at(cx));
            rows.addr.push(instr.pc);
            rows.size.push(u32::from(instr.size));
            rows.kind.push(AccessKind::Fetch);
            if columns.has(Columns::ACCESS_PC) {
                rows.pc.push(instr.pc);
            }
        }
        if let Some(memrefs) = &mut self.fill.memrefs {
            Self::row(memrefs, cx, instr.kind, u64::from(instr.size), Some(instr.pc), instr.pc);
            // Before version 5 a target of 0 means nothing; the printer knows the version.
            let target = if cx.version >= VERSION_BRANCH_INFO { instr.target } else { 0 };
            Self::rest(memrefs, None, target, code, is_new);
        }
    }

    #[inline]
    fn data(&mut self, cx: &Interp, kind: Type, addr: u64, size: u64) {
        if self.fill.call.is_some() {
            self.end_call(at(cx));
        }
        if self.fill.columns.has(Columns::ACCESSES) {
            let rows = &mut self.batch.accesses;
            rows.at.push(at(cx));
            rows.addr.push(addr);
            rows.size.push(u32::try_from(size).unwrap_or(u32::MAX));
            rows.kind.push(access_kind(kind));
            if self.fill.columns.has(Columns::ACCESS_PC) {
                rows.pc.push(cx.pc);
            }
        }
        if let Some(memrefs) = &mut self.fill.memrefs {
            Self::row(memrefs, cx, kind, size, Some(addr), cx.pc);
            Self::rest(memrefs, None, 0, NO_CODE, false);
        }
    }

    fn marker(&mut self, cx: &Interp, kind: Marker, value: u64) {
        let columns = self.fill.columns;
        if columns.has(Columns::CALLS) {
            self.call_marker(cx, kind, value);
        }
        if columns.has(Columns::THREADS) {
            self.thread_marker(cx, kind, value);
        }
        if columns.has(Columns::MARKS) {
            let marks = &mut self.batch.marks;
            marks.at.push(at(cx));
            marks.kind.push(u32::from(kind.0));
            marks.value.push(value);
        }
        if let Some(memrefs) = &mut self.fill.memrefs {
            Self::row(memrefs, cx, Type::MARKER, 0, None, 0);
            Self::rest(memrefs, Some((kind, value)), 0, NO_CODE, false);
        }
    }

    fn exit(&mut self, cx: &Interp) {
        if self.fill.call.is_some() {
            self.end_call(at(cx));
        }
        if self.fill.columns.has(Columns::THREADS) {
            let threads = &mut self.batch.threads;
            threads.at.push(at(cx));
            threads.what.push(ThreadEvent::Stop);
            threads.value.push(0);
        }
        if let Some(memrefs) = &mut self.fill.memrefs {
            Self::row(memrefs, cx, Type::THREAD_EXIT, 0, None, 0);
            Self::rest(memrefs, None, 0, NO_CODE, false);
        }
    }

    #[cold]
    fn finding(
        &mut self,
        cx: &Interp,
        index: usize,
        rule: &'static str,
        severity: Severity,
        message: String,
    ) {
        self.fill.keep(cx, index, rule, severity, message);
    }
}

/// A sink for walking to the start of a window: it keeps encodings and findings, and makes no rows.
pub struct Walking<'a> {
    /// Keeps encodings and findings.
    pub fill: &'a mut Fill,
    /// The batch whose code table grows.
    pub batch: &'a mut Batch,
}

impl Sink for Walking<'_> {
    fn instr(&mut self, _: &Interp, instr: Instr<'_>) {
        if self.fill.needs_codes
            && let Some(bytes) = instr.encoding
        {
            self.fill.codes.set(instr.pc, instr.size, bytes, &mut self.batch.codes);
        }
    }

    fn data(&mut self, _: &Interp, _: Type, _: u64, _: u64) {}

    fn marker(&mut self, _: &Interp, _: Marker, _: u64) {}

    fn exit(&mut self, _: &Interp) {}

    fn finding(
        &mut self,
        cx: &Interp,
        index: usize,
        rule: &'static str,
        severity: Severity,
        message: String,
    ) {
        self.fill.keep(cx, index, rule, severity, message);
    }
}
