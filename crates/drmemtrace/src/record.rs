//! The drmemtrace entry: 12 bytes on disk, and the names of its types, marker kinds and file-type bits.
//!
//! This file knows bytes and nothing else: no files, no state. The layout is described in
//! docs/formats/drmemtrace.md, sections *The entry*, *Markers* and *File-type bits*.

use quipu_model::ThreadId;
use quipu_model::lens::AccessKind;
use zerocopy::byteorder::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// One entry as stored: little-endian, no padding, no alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Entry {
    /// Type of the entry; see [`Type`].
    pub kind: U16,
    /// Bytes accessed, instruction length, marker kind or number of encoding bytes, depending on the type.
    pub size: U16,
    /// Address, value or encoding bytes, depending on the type.
    pub addr: U64,
}

/// Bytes of an entry written by a 64-bit tracer.
pub const ENTRY_BYTES: usize = 12;
/// Bytes of an entry written by a 32-bit tracer, whose `addr` has four bytes.
pub const ENTRY_BYTES_32: usize = 8;

const _: () = assert!(size_of::<Entry>() == ENTRY_BYTES);

impl Entry {
    /// An entry from its three fields.
    pub fn new(kind: Type, size: u16, addr: u64) -> Entry {
        Entry { kind: U16::new(kind.0), size: U16::new(size), addr: U64::new(addr) }
    }

    /// All bytes zero.
    pub(crate) const ZERO: Entry = Entry { kind: U16::ZERO, size: U16::ZERO, addr: U64::ZERO };

    /// A marker.
    pub fn marker(kind: Marker, value: u64) -> Entry {
        Entry::new(Type::MARKER, kind.0, value)
    }

    /// True for a marker of this kind.
    #[inline]
    pub fn is_marker(&self, kind: Marker) -> bool {
        self.kind() == Type::MARKER && self.size.get() == kind.0
    }

    /// The type.
    #[inline]
    pub fn kind(&self) -> Type {
        Type(self.kind.get())
    }

    /// Views whole entries at the front of `bytes`; also returns the rest (less than one entry).
    pub fn slice(bytes: &[u8]) -> (&[Entry], &[u8]) {
        let whole = bytes.len() / ENTRY_BYTES * ENTRY_BYTES;
        let (front, rest) = bytes.split_at(whole);
        // The length is a multiple of the size and there is no alignment, so the view cannot fail.
        (<[Entry]>::ref_from_bytes(front).unwrap_or(&[]), rest)
    }
}

/// The type of an entry: a number with names for the known values. Unknown ones are kept as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Type(pub u16);

macro_rules! types {
    ($($(#[$doc:meta])* $name:ident = $value:literal $text:literal;)*) => {
        impl Type {
            $($(#[$doc])* pub const $name: Type = Type($value);)*
        }
        /// Names of the entry types in order of their numbers, as tables print them.
        pub const TYPE_NAMES: &[&str] = &[$($text),*];
    };
}

types! {
    /// A load.
    READ = 0 "read";
    /// A store.
    WRITE = 1 "write";
    /// A prefetch of no particular kind.
    PREFETCH = 2 "prefetch";
    /// Prefetch for reading into level 1.
    PREFETCH_READ_L1 = 3 "prefetch_read_l1";
    /// Prefetch for reading into level 2.
    PREFETCH_READ_L2 = 4 "prefetch_read_l2";
    /// Prefetch for reading into level 3.
    PREFETCH_READ_L3 = 5 "prefetch_read_l3";
    /// Non-temporal prefetch.
    PREFETCHNTA = 6 "prefetchnta";
    /// Prefetch for reading.
    PREFETCH_READ = 7 "prefetch_read";
    /// Prefetch for writing.
    PREFETCH_WRITE = 8 "prefetch_write";
    /// Prefetch of instructions.
    PREFETCH_INSTR = 9 "prefetch_instr";
    /// An instruction other than a branch.
    INSTR = 10 "instr";
    /// A direct jump.
    INSTR_DIRECT_JUMP = 11 "direct_jump";
    /// An indirect jump.
    INSTR_INDIRECT_JUMP = 12 "indirect_jump";
    /// A conditional jump whose outcome is not recorded.
    INSTR_CONDITIONAL_JUMP = 13 "conditional_jump";
    /// A direct call.
    INSTR_DIRECT_CALL = 14 "direct_call";
    /// An indirect call.
    INSTR_INDIRECT_CALL = 15 "indirect_call";
    /// A return.
    INSTR_RETURN = 16 "return";
    /// Up to eight instructions in a row; only from the online tracer.
    INSTR_BUNDLE = 17 "instr_bundle";
    /// Flush of instruction lines.
    INSTR_FLUSH = 18 "instr_flush";
    /// End of a long instruction flush.
    INSTR_FLUSH_END = 19 "instr_flush_end";
    /// Flush of data lines.
    DATA_FLUSH = 20 "data_flush";
    /// End of a long data flush.
    DATA_FLUSH_END = 21 "data_flush_end";
    /// The thread of the following entries.
    THREAD = 22 "thread";
    /// End of a thread.
    THREAD_EXIT = 23 "thread_exit";
    /// The process of the current thread.
    PID = 24 "pid";
    /// First entry of a trace.
    HEADER = 25 "header";
    /// Last entry of a trace.
    FOOTER = 26 "footer";
    /// A prefetch by the hardware; only simulators create it, files never contain it.
    HARDWARE_PREFETCH = 27 "hardware_prefetch";
    /// A marker; see [`Marker`].
    MARKER = 28 "marker";
    /// A further iteration of a string loop.
    INSTR_NO_FETCH = 29 "instr_no_fetch";
    /// An instruction or a further iteration of the one before; only from the online tracer.
    INSTR_MAYBE_FETCH = 30 "instr_maybe_fetch";
    /// `sysenter`.
    INSTR_SYSENTER = 31 "sysenter";
    /// Non-temporal prefetch for reading into level 1.
    PREFETCH_READ_L1_NT = 32 "prefetch_read_l1_nt";
    /// Non-temporal prefetch for reading into level 2.
    PREFETCH_READ_L2_NT = 33 "prefetch_read_l2_nt";
    /// Non-temporal prefetch for reading into level 3.
    PREFETCH_READ_L3_NT = 34 "prefetch_read_l3_nt";
    /// Prefetch of instructions into level 1.
    PREFETCH_INSTR_L1 = 35 "prefetch_instr_l1";
    /// Non-temporal prefetch of instructions into level 1.
    PREFETCH_INSTR_L1_NT = 36 "prefetch_instr_l1_nt";
    /// Prefetch of instructions into level 2.
    PREFETCH_INSTR_L2 = 37 "prefetch_instr_l2";
    /// Non-temporal prefetch of instructions into level 2.
    PREFETCH_INSTR_L2_NT = 38 "prefetch_instr_l2_nt";
    /// Prefetch of instructions into level 3.
    PREFETCH_INSTR_L3 = 39 "prefetch_instr_l3";
    /// Non-temporal prefetch of instructions into level 3.
    PREFETCH_INSTR_L3_NT = 40 "prefetch_instr_l3_nt";
    /// Prefetch for writing into level 1.
    PREFETCH_WRITE_L1 = 41 "prefetch_write_l1";
    /// Non-temporal prefetch for writing into level 1.
    PREFETCH_WRITE_L1_NT = 42 "prefetch_write_l1_nt";
    /// Prefetch for writing into level 2.
    PREFETCH_WRITE_L2 = 43 "prefetch_write_l2";
    /// Non-temporal prefetch for writing into level 2.
    PREFETCH_WRITE_L2_NT = 44 "prefetch_write_l2_nt";
    /// Prefetch for writing into level 3.
    PREFETCH_WRITE_L3 = 45 "prefetch_write_l3";
    /// Non-temporal prefetch for writing into level 3.
    PREFETCH_WRITE_L3_NT = 46 "prefetch_write_l3_nt";
    /// Up to eight bytes of the encoding of the next instruction.
    ENCODING = 47 "encoding";
    /// A conditional jump that was taken.
    INSTR_TAKEN_JUMP = 48 "taken_jump";
    /// A conditional jump that fell through.
    INSTR_UNTAKEN_JUMP = 49 "untaken_jump";
}

/// The lens kind of an access type; types other than accesses map to prefetches and are never passed.
pub(crate) const fn access_kind(kind: Type) -> AccessKind {
    match kind {
        Type::READ => AccessKind::Read,
        Type::WRITE => AccessKind::Write,
        // QUIRK: of all instruction prefetches, DynamoRIO counts only this one on the instruction side.
        Type::PREFETCH_INSTR => AccessKind::PrefetchInstr,
        Type::INSTR_FLUSH => AccessKind::FlushInstr,
        Type::DATA_FLUSH => AccessKind::FlushData,
        _ => AccessKind::Prefetch,
    }
}

/// Number of known types; a larger type is damage or from a newer version.
pub const N_TYPES: u16 = TYPE_NAMES.len() as u16; // 50.

impl Type {
    /// True for fetched instructions, not for no-fetch iterations.
    #[inline]
    pub const fn is_instr(self) -> bool {
        matches!(self.0, 10..=16 | 31 | 48 | 49)
    }

    /// True for fetched instructions and no-fetch iterations.
    #[inline]
    pub const fn is_any_instr(self) -> bool {
        self.is_instr() || matches!(self.0, 29 | 30)
    }

    /// True for software and hardware prefetches of any kind.
    #[inline]
    pub const fn is_prefetch(self) -> bool {
        matches!(self.0, 2..=9 | 27 | 32..=46)
    }

    /// True for branches whose target is computed.
    #[inline]
    pub const fn is_indirect_branch(self) -> bool {
        matches!(self.0, 12 | 15 | 16)
    }

    /// The name, if the type is known.
    pub fn name(self) -> Option<&'static str> {
        TYPE_NAMES.get(usize::from(self.0)).copied()
    }
}

/// The kind of a marker: a number with names for the known values. Unknown ones are kept as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Marker(pub u16);

macro_rules! markers {
    ($($(#[$doc:meta])* $name:ident = $value:literal $text:literal;)*) => {
        impl Marker {
            $($(#[$doc])* pub const $name: Marker = Marker($value);)*
        }
        /// Names of the marker kinds in order of their numbers, as tables print them.
        pub const MARKER_NAMES: &[&str] = &[$($text),*];
    };
}

markers! {
    /// A signal or the like interrupts the program; the interrupted PC (a module offset before version 3).
    KERNEL_EVENT = 0 "kernel_event";
    /// Return from a handler; the PC after the system call that returns.
    KERNEL_XFER = 1 "kernel_xfer";
    /// Microseconds since 1601 UTC.
    TIMESTAMP = 2 "timestamp";
    /// The processor; all ones if unknown.
    CPU_ID = 3 "cpu_id";
    /// The function that the next three kinds refer to.
    FUNC_ID = 4 "func_id";
    /// Return address at a function's entry.
    FUNC_RETADDR = 5 "func_retaddr";
    /// One argument.
    FUNC_ARG = 6 "func_arg";
    /// The result.
    FUNC_RETVAL = 7 "func_retval";
    /// High half of a value; raw files only.
    SPLIT_VALUE = 8 "split_value";
    /// File-type bits; see [`FileType`].
    FILETYPE = 9 "filetype";
    /// Bytes in a cache line.
    CACHE_LINE_SIZE = 10 "cache_line_size";
    /// Unfiltered instructions so far, in filtered traces.
    INSTRUCTION_COUNT = 11 "instruction_count";
    /// Version of the format.
    VERSION = 12 "version";
    /// PC at which a restartable sequence was aborted.
    RSEQ_ABORT = 13 "rseq_abort";
    /// Number of the tracing window.
    WINDOW_ID = 14 "window_id";
    /// A physical address; the virtual one follows.
    PHYSICAL_ADDRESS = 15 "physical_address";
    /// A virtual address without translation.
    PHYSICAL_ADDRESS_NOT_AVAILABLE = 16 "physical_address_not_available";
    /// The virtual address of the physical one before.
    VIRTUAL_ADDRESS = 17 "virtual_address";
    /// Bytes in a page.
    PAGE_SIZE = 18 "page_size";
    /// Index of a traced system call; raw files only.
    SYSCALL_IDX = 19 "syscall_idx";
    /// Instructions in a chunk.
    CHUNK_INSTR_COUNT = 20 "chunk_instr_count";
    /// Last entry of each chunk but the last; its number.
    CHUNK_FOOTER = 21 "chunk_footer";
    /// First entry of each chunk but the first: visible records before it. Hidden.
    RECORD_ORDINAL = 22 "record_ordinal";
    /// The point where filtering stopped.
    FILTER_ENDPOINT = 23 "filter_endpoint";
    /// End of the restartable sequence that begins here.
    RSEQ_ENTRY = 24 "rseq_entry";
    /// Number of the system call.
    SYSCALL = 25 "syscall";
    /// The system call may block.
    MAYBE_BLOCKING_SYSCALL = 26 "maybe_blocking_syscall";
    /// Kernel code of a system call begins.
    SYSCALL_TRACE_START = 27 "syscall_trace_start";
    /// Kernel code of a system call ends.
    SYSCALL_TRACE_END = 28 "syscall_trace_end";
    /// Target of the next indirect branch. Hidden.
    BRANCH_TARGET = 29 "branch_target";
    /// Error number of a failed system call.
    SYSCALL_FAILED = 30 "syscall_failed";
    /// The thread switches to the one in the value.
    DIRECT_THREAD_SWITCH = 31 "direct_thread_switch";
    /// The core waits for another core.
    CORE_WAIT = 32 "core_wait";
    /// The core is idle.
    CORE_IDLE = 33 "core_idle";
    /// Kernel code of a context switch begins.
    CONTEXT_SWITCH_START = 34 "context_switch_start";
    /// Kernel code of a context switch ends.
    CONTEXT_SWITCH_END = 35 "context_switch_end";
    /// Bytes in a vector register.
    VECTOR_LENGTH = 36 "vector_length";
    /// The thread parks itself.
    SYSCALL_UNSCHEDULE = 37 "syscall_unschedule";
    /// The thread wakes the one in the value.
    SYSCALL_SCHEDULE = 38 "syscall_schedule";
    /// Timeout of a blocking call in microseconds.
    SYSCALL_ARG_TIMEOUT = 39 "syscall_arg_timeout";
    /// Number of the signal.
    SIGNAL_NUMBER = 40 "signal_number";
    /// First bytes of an instruction that did not retire.
    UNCOMPLETED_INSTRUCTION = 41 "uncompleted_instruction";
    /// Raw files only.
    MIDBLOCK_END_PC = 42 "midblock_end_pc";
    /// An interrupt; the interrupted PC.
    HARDWARE_EVENT = 43 "hardware_event";
    /// Return from an interrupt.
    HARDWARE_CONTEXT_RETURN = 44 "hardware_context_return";
    /// Raw files only.
    KERNEL_EVENT_RAW = 45 "kernel_event_raw";
    /// An access that the tracer could not place.
    SKIPPED_MEMREF = 46 "skipped_memref";
}

impl Marker {
    /// The name, if the kind is known.
    pub fn name(self) -> Option<&'static str> {
        MARKER_NAMES.get(usize::from(self.0)).copied()
    }
}

/// The file-type bits (value of [`Marker::FILETYPE`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileType(pub u64);

macro_rules! bits {
    ($($(#[$doc:meta])* $name:ident = $value:literal $text:literal;)*) => {
        impl FileType {
            $($(#[$doc])* pub const $name: FileType = FileType($value);)*
            const NAMES: &'static [(FileType, &'static str)] = &[$((FileType::$name, $text)),*];
        }
    };
}

bits! {
    /// Deprecated: instructions and data are filtered.
    FILTERED = 0x1 "filtered";
    /// The tracer elided no addresses.
    NO_OPTIMIZATIONS = 0x2 "no-optimizations";
    /// No data records.
    INSTRUCTION_ONLY = 0x4 "instruction-only";
    /// AArch64.
    ARCH_AARCH64 = 0x8 "aarch64";
    /// 32-bit Arm.
    ARCH_ARM32 = 0x10 "arm32";
    /// 32-bit x86.
    ARCH_X86_32 = 0x20 "x86-32";
    /// x86-64.
    ARCH_X86_64 = 0x40 "x86-64";
    /// Instructions that hit a small cache are missing.
    IFILTERED = 0x80 "i-filtered";
    /// Data records that hit a small cache are missing.
    DFILTERED = 0x100 "d-filtered";
    /// Instruction bytes are present.
    ENCODINGS = 0x200 "encodings";
    /// System calls are numbered.
    SYSCALL_NUMBERS = 0x400 "syscall-numbers";
    /// System calls that may block are marked.
    BLOCKING_SYSCALLS = 0x800 "blocking-syscalls";
    /// Kernel code of system calls is present.
    KERNEL_SYSCALLS = 0x1000 "kernel-syscalls";
    /// A filtered part, then an unfiltered one.
    BIMODAL_FILTERED_WARMUP = 0x2000 "bimodal-filtered-warmup";
    /// A file of kernel code to inject, not a trace.
    KERNEL_SYSCALL_TRACE_TEMPLATES = 0x4000 "kernel-templates";
    /// Kernel code has instructions only.
    KERNEL_SYSCALL_INSTR_ONLY = 0x8000 "kernel-instr-only";
    /// Each file holds the records of one core.
    CORE_SHARDED = 0x10000 "core-sharded";
    /// Encodings use the synthetic instruction set.
    ARCH_REGDEPS = 0x20000 "regdeps";
    /// Interrupts are included.
    WHOLE_SYSTEM = 0x40000 "whole-system";
}

impl FileType {
    /// True if any bit of `other` is set.
    pub const fn any(self, other: FileType) -> bool {
        self.0 & other.0 != 0
    }

    /// The union of both sets of bits.
    pub const fn or(self, other: FileType) -> FileType {
        FileType(self.0 | other.0)
    }

    /// True if instructions are filtered.
    pub const fn is_ifiltered(self) -> bool {
        self.any(FileType::FILTERED.or(FileType::IFILTERED))
    }

    /// True if data records are filtered.
    pub const fn is_dfiltered(self) -> bool {
        self.any(FileType::FILTERED.or(FileType::DFILTERED))
    }

    /// True if the file may hold kernel code.
    pub const fn has_kernel(self) -> bool {
        self.any(
            FileType::KERNEL_SYSCALLS
                .or(FileType::KERNEL_SYSCALL_INSTR_ONLY)
                .or(FileType::KERNEL_SYSCALL_TRACE_TEMPLATES)
                .or(FileType::WHOLE_SYSTEM),
        )
    }

    /// The architecture of the encodings, if one is named.
    pub fn arch(self) -> Option<quipu_isa::Arch> {
        use quipu_isa::Arch;
        [
            (FileType::ARCH_REGDEPS, Arch::Regdeps),
            (FileType::ARCH_X86_64, Arch::X86_64),
            (FileType::ARCH_X86_32, Arch::X86_32),
            (FileType::ARCH_AARCH64, Arch::Aarch64),
            (FileType::ARCH_ARM32, Arch::Arm32),
        ]
        .into_iter()
        .find(|(bit, _)| self.any(*bit))
        .map(|(_, arch)| arch)
    }

    /// The names of the bits that are set, in order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        FileType::NAMES.iter().filter(move |(bit, _)| self.any(*bit)).map(|(_, name)| *name)
    }
}

/// The thread id for a file that is read as a workload: the workload is in the bits above the number. An id that already has
/// a workload keeps it unless one is given.
pub(crate) fn of_workload(workload: u16, tid: u64) -> u64 {
    match ThreadId::from_packed(tid) {
        thread if workload == 0 || thread.is_idle() => tid,
        thread => ThreadId { workload, ..thread }.packed(),
    }
}

/// The newest version whose rules are known.
pub const NEWEST_VERSION: u64 = 7;
/// From this version on, kernel event values are absolute addresses.
pub const VERSION_KERNEL_PC: u64 = 3;
/// From this version on, branches carry their outcome and target.
pub const VERSION_BRANCH_INFO: u64 = 5;
/// From this version on, clock and processor stand before and after each system call.
pub const VERSION_FREQUENT_TIMESTAMPS: u64 = 6;
/// Microseconds between 1601 and 1970, the start of the Unix clock.
pub const UNIX_EPOCH_MICROS: u64 = 11_644_473_600_000_000;
/// Function ids from here on are system calls in traces of 64-bit programs.
pub const SYSCALL_FUNC_BASE: u64 = 0x1_0000_0000;
/// The same for traces of 32-bit programs.
pub const SYSCALL_FUNC_BASE_32: u64 = 0x1_0000;
/// The thread id of an idle core.
pub const IDLE_THREAD: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_of_a_real_file_are_a_header_and_a_version() {
        let bytes = [25, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0x1c, 0, 12, 0, 6, 0, 0, 0, 0, 0, 0, 0, 9];
        let (entries, rest) = Entry::slice(&bytes);
        assert_eq!(entries, [Entry::new(Type::HEADER, 0, 6), Entry::new(Type::MARKER, Marker::VERSION.0, 6)]);
        assert_eq!(rest, [9]);
    }

    #[test]
    fn names_stand_at_their_numbers() {
        assert_eq!(Type::INSTR_UNTAKEN_JUMP.name(), Some("untaken_jump"));
        assert_eq!(Type(50).name(), None);
        assert_eq!(Marker::SKIPPED_MEMREF.name(), Some("skipped_memref"));
        assert_eq!(N_TYPES, 50);
    }

    #[test]
    fn instruction_sets_are_those_of_the_format() {
        let instrs: Vec<u16> = (0..60).filter(|&t| Type(t).is_instr()).collect();
        assert_eq!(instrs, [10, 11, 12, 13, 14, 15, 16, 31, 48, 49]);
        let prefetches: Vec<u16> = (0..60).filter(|&t| Type(t).is_prefetch()).collect();
        assert_eq!(prefetches, (2..=9).chain([27]).chain(32..=46).collect::<Vec<_>>());
    }
}
