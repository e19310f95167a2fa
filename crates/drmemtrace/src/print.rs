//! Records as people read them: the column layout of DynamoRIO's `view` (docs/formats/drmemtrace.md, section
//! *Viewing*), with disassembly in the architecture's usual syntax.

mod numbers;

use crate::INFO;
use crate::asm::AsmCache;
use crate::record::{
    IDLE_THREAD, Marker, NEWEST_VERSION, SYSCALL_FUNC_BASE, SYSCALL_FUNC_BASE_32, Type, VERSION_BRANCH_INFO,
    VERSION_KERNEL_PC,
};
use crate::table::Memrefs;
use crate::trace::File;
use numbers::{Prefix, append, decimal, hex, hex16, push_paint, right};
use quipu_isa::{Arch, Syntax};
use quipu_model::print::Ordinals;
use quipu_model::trace::PrintOptions;
use quipu_model::{Batch, Paint, Printer, Result, Span, ThreadId};
use rustc_hash::FxHashMap;
use std::io::Write as _;
use std::sync::Arc;

/// Blanks between the thread and the bytes of an instruction that need a second line.
const CONTINUATION_BLANKS: usize = 44;
const DASHES: &[u8] = b"------------------------------------------------------------\n";

/// Prints rows of the `memrefs` table.
pub struct MemrefPrinter {
    asm: AsmCache,
    versions: Versions,
    /// Version of the rows being printed.
    version: u64,
    /// Shard whose code table the rows refer to.
    home: u32,
    syscall_base: u64,
    n_instrs: u64,
    previous: Option<(u64, u64)>,
    last_window: Option<u64>,
    held: Option<Held>,
    columns: Prefix,
    names: Vec<[u8; 12]>,
}

/// The format version of each record's file: a folder may hold files of several versions, and so may traces that are read
/// together.
#[derive(Debug)]
pub(crate) struct Versions {
    of_shards: Vec<u64>,
    /// By thread, if the files differ: on cores, shards are not files.
    of_threads: FxHashMap<u64, u64>,
}

impl Versions {
    /// Versions of these files, whose shards have the versions `of_shards`.
    pub(crate) fn of(files: &[Arc<File>], of_shards: Vec<u64>) -> Versions {
        let version = |file: &Arc<File>| file.header.version;
        let is_one = files.windows(2).all(|pair| version(&pair[0]) == version(&pair[1]));
        let of_threads = files.iter().filter(|_| !is_one).map(|file| (file.header.tid, version(file)));
        Versions { of_shards, of_threads: of_threads.collect() }
    }

    fn of_batch(&self, span: &Span) -> u64 {
        let of_shard = || self.of_shards.get(span.shard as usize).copied();
        let of_thread = || self.of_threads.get(&span.thread.packed()).copied();
        let is_one = self.of_threads.is_empty();
        if is_one { of_shard() } else { of_thread().or_else(of_shard) }.unwrap_or(NEWEST_VERSION)
    }
}

/// A clock reading that is held back, because a change of window right after it is printed before it.
struct Held {
    record: u64,
    instr: u64,
    tid: u64,
    value: u64,
}

impl MemrefPrinter {
    /// A printer for a trace whose records have these format versions.
    ///
    /// # Errors
    /// `Usage` for an option that the format does not have.
    pub(crate) fn new(
        arch: Option<Arch>,
        versions: Versions,
        options: &PrintOptions,
    ) -> Result<MemrefPrinter> {
        INFO.printing(options)?;
        let is_32_bit = arch.and_then(Arch::pointer_bytes) == Some(4);
        Ok(MemrefPrinter {
            asm: AsmCache::new(arch, options.syntax.unwrap_or(Syntax::Att)),
            versions,
            version: NEWEST_VERSION,
            home: 0,
            syscall_base: if is_32_bit { SYSCALL_FUNC_BASE_32 } else { SYSCALL_FUNC_BASE },
            n_instrs: 0,
            previous: None,
            last_window: None,
            held: None,
            columns: Prefix::new(),
            names: (0..64).map(|kind| padded_name(Type(kind))).collect(),
        })
    }

    /// The ordinals and the thread, preceded by a line of dashes where the thread changes or records are left out.
    fn prefix(&mut self, record: u64, instr: u64, tid: u64, paint: &Paint, out: &mut Vec<u8>) {
        if let Some((last_record, last_tid)) = self.previous
            // QUIRK: DynamoRIO does not treat the thread of an idle core as a thread, so no line separates it from the next.
            && ((tid != last_tid && last_tid != IDLE_THREAD) || record.wrapping_sub(last_record) > 1)
        {
            out.extend_from_slice(DASHES);
        }
        self.previous = Some((record, tid));
        self.columns.print(record, instr, tid, paint, out);
    }

    fn print_held(&mut self, paint: &Paint, out: &mut Vec<u8>) {
        if let Some(Held { record, instr, tid, value }) = self.held.take() {
            self.prefix(record, instr, tid, paint, out);
            push_paint(paint.mark, out);
            out.extend_from_slice(b"<marker: timestamp ");
            decimal(value, out);
            out.push(b'>');
            push_paint(paint.reset, out);
            out.push(b'\n');
        }
    }

    fn instr(
        &mut self,
        cols: &Memrefs,
        row: usize,
        batch: &Batch,
        ordinals: Ordinals,
        paint: &Paint,
        out: &mut Vec<u8>,
    ) {
        let kind = Type(cols.kind[row]);
        self.n_instrs += 1;
        self.access(cols, row, out);
        push_paint(paint.code, out);
        let text = batch.codes.get(cols.code[row]).map(|code| self.asm.get(self.home, cols.code[row], code));
        let mut more: &[u8] = &[];
        match text {
            Some((first, rest)) => {
                out.extend_from_slice(first);
                more = rest;
                match kind {
                    Type::INSTR_TAKEN_JUMP => out.extend_from_slice(b" (taken)"),
                    Type::INSTR_UNTAKEN_JUMP => out.extend_from_slice(b" (untaken)"),
                    _ => {}
                }
            }
            None => out.extend_from_slice(words_for(kind).as_bytes()),
        }
        if kind.is_indirect_branch() && self.version >= VERSION_BRANCH_INFO {
            out.extend_from_slice(b" (target 0x");
            hex(cols.target[row], out);
            out.push(b')');
        }
        push_paint(paint.reset, out);
        out.push(b'\n');
        for line in more.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let record = cols.record[row].wrapping_add(ordinals.records);
            let instr = cols.instr[row].wrapping_add(ordinals.instrs);
            self.columns.print(record, instr, cols.tid[row], paint, out);
            out.extend(std::iter::repeat_n(b' ', CONTINUATION_BLANKS));
            out.extend_from_slice(line);
            out.push(b'\n');
        }
    }

    /// Appends name, size and address, as for instructions and data.
    #[inline]
    fn access(&self, cols: &Memrefs, row: usize, out: &mut Vec<u8>) {
        let name = self.names.get(usize::from(cols.kind[row])).unwrap_or(&[b' '; 12]);
        let (size, address) = (cols.size[row], hex16(cols.addr.values[row]));
        if size < 10 {
            // PERF: this covers nearly all rows.
            append(out, *b"             0 byte(s) @ 0x0000000000000000 ", |text| {
                text[..12].copy_from_slice(name);
                text[13] = b'0' + size as u8;
                text[27..43].copy_from_slice(&address);
            });
        } else {
            out.extend_from_slice(name);
            right(size, 2, out);
            out.extend_from_slice(b" byte(s) @ 0x");
            out.extend_from_slice(&address);
            out.push(b' ');
        }
    }

    fn marker(&self, kind: Marker, value: u64, tid: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"<marker: ");
        let old = self.version < VERSION_KERNEL_PC;
        // Writing to a vector cannot fail.
        let _ = match kind {
            Marker::VERSION => write!(out, "version {value}"),
            Marker::FILETYPE => write!(out, "filetype {value:#x}"),
            Marker::TIMESTAMP => write!(out, "timestamp {value}"),
            Marker::CPU_ID => {
                let ThreadId { workload, tid } = ThreadId::from_packed(tid);
                let _ = write!(out, "W{workload}.T{tid} on core ");
                if value == u64::MAX { write!(out, "unknown") } else { write!(out, "{value}") }
            }
            Marker::WINDOW_ID => write!(out, "window {value}"),
            Marker::KERNEL_EVENT if old => {
                write!(out, "kernel xfer from module offset +{value:#x} to handler")
            }
            Marker::KERNEL_EVENT => write!(out, "kernel xfer from {value:#x} to handler"),
            Marker::KERNEL_XFER if old => write!(out, "syscall xfer from module offset +{value:#x}"),
            Marker::KERNEL_XFER => write!(out, "syscall xfer from {value:#x}"),
            Marker::SIGNAL_NUMBER => write!(out, "signal #{value}"),
            Marker::RSEQ_ABORT => write!(out, "rseq abort from {value:#x} to handler"),
            Marker::RSEQ_ENTRY => write!(out, "rseq entry with end at {value:#x}"),
            Marker::INSTRUCTION_COUNT => write!(out, "instruction count {value}"),
            Marker::CACHE_LINE_SIZE => write!(out, "cache line size {value}"),
            Marker::PAGE_SIZE => write!(out, "page size {value}"),
            Marker::CHUNK_INSTR_COUNT => write!(out, "chunk instruction count {value}"),
            Marker::CHUNK_FOOTER => write!(out, "chunk footer #{value}"),
            Marker::FILTER_ENDPOINT => write!(out, "filter endpoint"),
            Marker::PHYSICAL_ADDRESS => write!(out, "physical address for following virtual: {value:#x}"),
            Marker::VIRTUAL_ADDRESS => write!(out, "virtual address for prior physical: {value:#x}"),
            Marker::PHYSICAL_ADDRESS_NOT_AVAILABLE => {
                write!(out, "physical address not available for {value:#x}")
            }
            Marker::FUNC_ID if value >= self.syscall_base => {
                write!(out, "function==syscall #{}", value - self.syscall_base)
            }
            Marker::FUNC_ID => write!(out, "function #{value}"),
            Marker::FUNC_RETADDR => write!(out, "function return address {value:#x}"),
            Marker::FUNC_ARG => write!(out, "function argument {value:#x}"),
            Marker::FUNC_RETVAL => write!(out, "function return value {value:#x}"),
            Marker::SYSCALL_FAILED => write!(out, "system call failed: {value}"),
            Marker::RECORD_ORDINAL => write!(out, "record ordinal {value:#x}"),
            Marker::SYSCALL => write!(out, "system call {value}"),
            Marker::MAYBE_BLOCKING_SYSCALL => write!(out, "maybe-blocking system call"),
            Marker::DIRECT_THREAD_SWITCH => write!(out, "direct switch to thread {value}"),
            Marker::SYSCALL_UNSCHEDULE => write!(out, "current thread going unscheduled"),
            Marker::SYSCALL_SCHEDULE => write!(out, "re-schedule thread {value}"),
            Marker::SYSCALL_ARG_TIMEOUT => write!(out, "syscall timeout arg {value}"),
            Marker::SYSCALL_TRACE_START => write!(out, "trace start for system call number {value}"),
            Marker::SYSCALL_TRACE_END => write!(out, "trace end for system call number {value}"),
            Marker::CONTEXT_SWITCH_START => write!(out, "trace start for context switch type {value}"),
            Marker::CONTEXT_SWITCH_END => write!(out, "trace end for context switch type {value}"),
            Marker::BRANCH_TARGET => write!(out, "indirect branch target {value:#x}"),
            Marker::CORE_WAIT => write!(out, "wait for another core"),
            Marker::CORE_IDLE => write!(out, "core is idle"),
            Marker::VECTOR_LENGTH => write!(out, "vector length {value} bytes"),
            Marker::UNCOMPLETED_INSTRUCTION => write!(out, "uncompleted instruction, encoding {value:#x}"),
            Marker::HARDWARE_EVENT => write!(out, "hardware xfer from {value:#x} to handler"),
            Marker::HARDWARE_CONTEXT_RETURN => write!(out, "hardware context return"),
            Marker::SKIPPED_MEMREF => write!(out, "skipped memref {value:#x}"),
            Marker(kind) => write!(out, "type {kind}; value {value}"),
        };
        out.push(b'>');
    }
}

impl Printer for MemrefPrinter {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Output format:\n<--record#-> <--instr#->: <Wrkld.Tid> <record details>\n");
        out.extend_from_slice(DASHES);
    }

    fn print(&mut self, batch: &Batch, rows: &[u32], ordinals: Ordinals, paint: &Paint, out: &mut Vec<u8>) {
        let Some(cols) = batch.tables.first().and_then(|table| table.get::<Memrefs>()) else { return };
        self.home = batch.codes.home(batch.span.shard);
        self.version = self.versions.of_batch(&batch.span);
        for &row in rows {
            let row = row as usize;
            if row >= cols.code.len() {
                break;
            }
            let kind = Type(cols.kind[row]);
            let record = cols.record[row].wrapping_add(ordinals.records);
            let instr = cols.instr[row].wrapping_add(ordinals.instrs);
            let (tid, marker, value) = (cols.tid[row], Marker(cols.marker[row]), cols.value.values[row]);
            if kind == Type::MARKER && marker == Marker::TIMESTAMP {
                self.print_held(paint, out);
                self.held = Some(Held { record, instr, tid, value });
                continue;
            }
            if self.held.is_some() {
                if kind == Type::MARKER && marker == Marker::WINDOW_ID && self.last_window != Some(value) {
                    self.last_window = Some(value);
                    out.extend_from_slice(DASHES);
                }
                self.print_held(paint, out);
            }
            self.prefix(record, instr, tid, paint, out);
            match kind {
                Type::MARKER => {
                    push_paint(paint.mark, out);
                    self.marker(marker, value, tid, out);
                    push_paint(paint.reset, out);
                    out.push(b'\n');
                }
                Type::THREAD_EXIT => {
                    let ThreadId { workload, tid } = ThreadId::from_packed(tid);
                    let _ = writeln!(out, "<thread W{workload}.T{tid} exited>");
                }
                _ if kind.is_any_instr() => self.instr(cols, row, batch, ordinals, paint, out),
                _ if usize::from(kind.0) < self.names.len() => {
                    push_paint(paint.data, out);
                    self.access(cols, row, out);
                    append(out, *b"by PC 0x0000000000000000", |text| {
                        text[8..].copy_from_slice(&hex16(cols.pc[row]));
                    });
                    push_paint(paint.reset, out);
                    out.push(b'\n');
                }
                _ => {
                    let _ = writeln!(out, "<entry type {}>", kind.0);
                }
            }
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.print_held(&Paint::PLAIN, out);
        out.extend_from_slice(b"View tool results:\n");
        right(self.n_instrs, 15, out);
        out.extend_from_slice(b" : total instructions\n");
    }
}

/// The text for an instruction whose bytes are unknown.
fn words_for(kind: Type) -> &'static str {
    match kind {
        Type::INSTR_DIRECT_JUMP => "jump",
        Type::INSTR_INDIRECT_JUMP => "indirect jump",
        Type::INSTR_CONDITIONAL_JUMP => "conditional jump",
        Type::INSTR_TAKEN_JUMP => "taken conditional jump",
        Type::INSTR_UNTAKEN_JUMP => "untaken conditional jump",
        Type::INSTR_DIRECT_CALL => "call",
        Type::INSTR_INDIRECT_CALL => "indirect call",
        Type::INSTR_RETURN => "return",
        Type::INSTR_NO_FETCH => "non-fetched instruction",
        Type::INSTR_SYSENTER => "sysenter",
        _ => "non-branch",
    }
}

/// The name of a record's type in this layout, padded to its column.
fn padded_name(kind: Type) -> [u8; 12] {
    let name = match kind {
        _ if kind.is_instr() => "ifetch",
        Type::READ => "read",
        Type::WRITE => "write",
        Type::INSTR_NO_FETCH => "non-fetched",
        Type::INSTR_FLUSH => "iflush",
        Type::DATA_FLUSH => "dflush",
        Type::PREFETCH => "pref",
        Type::PREFETCH_READ_L1 => "pref-r-L1",
        Type::PREFETCH_READ_L2 => "pref-r-L2",
        Type::PREFETCH_READ_L3 => "pref-r-L3",
        Type::PREFETCHNTA => "pref-NTA",
        Type::PREFETCH_READ => "pref-r",
        Type::PREFETCH_WRITE => "pref-w",
        Type::PREFETCH_INSTR => "pref-i",
        Type::PREFETCH_READ_L1_NT => "pref-r-L1-NT",
        Type::PREFETCH_READ_L2_NT => "pref-r-L2-NT",
        Type::PREFETCH_READ_L3_NT => "pref-r-L3-NT",
        Type::PREFETCH_INSTR_L1 => "pref-i-L1",
        Type::PREFETCH_INSTR_L1_NT => "pref-i-L1-NT",
        Type::PREFETCH_INSTR_L2 => "pref-i-L2",
        Type::PREFETCH_INSTR_L2_NT => "pref-i-L2-NT",
        Type::PREFETCH_INSTR_L3 => "pref-i-L3",
        Type::PREFETCH_INSTR_L3_NT => "pref-i-L3-NT",
        Type::PREFETCH_WRITE_L1 => "pref-w-L1",
        Type::PREFETCH_WRITE_L1_NT => "pref-w-L1-NT",
        Type::PREFETCH_WRITE_L2 => "pref-w-L2",
        Type::PREFETCH_WRITE_L2_NT => "pref-w-L2-NT",
        Type::PREFETCH_WRITE_L3 => "pref-w-L3",
        Type::PREFETCH_WRITE_L3_NT => "pref-w-L3-NT",
        Type::HARDWARE_PREFETCH => "pref-HW",
        _ => "",
    };
    let mut padded = [b' '; 12];
    padded[..name.len()].copy_from_slice(name.as_bytes());
    padded
}
