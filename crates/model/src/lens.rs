//! The lenses: shared column groups that analyses read, whatever the format.
//!
//! Each lens is a set of parallel vectors, and a [`Table`](crate::Table). `at` is the index of the record inside the batch
//! (0 … `span.records`), so it orders rows across lenses. Columns that were not asked for stay empty; see
//! [`Columns`].
//!
//! `for_each_lens!` is the only list of lenses. From it come the column sets, the fields of a batch, the copying of rows, and
//! the words in which a conversion reports dropped rows.

use crate::Columns;
use crate::column::{Cells, CellsRef, Column, ColumnRef, Lists, Maybe, Store, Strings};
use crate::rows;
use crate::schema::{Names, Role, Storage, Type, Unit};
use std::ops::Range;
use std::sync::{Arc, LazyLock};
use zerocopy::{Immutable, IntoBytes};

/// Calls a macro with the list of lenses: the field of a batch, the type of its rows, and the columns. Each column set has
/// its bit, its stable name and, if conversions count it, the words for its rows or for the detail that it adds.
/// `before_next` marks rows that are placed at the record that follows them.
macro_rules! for_each_lens {
    ($then:ident) => {
        $then! {
            /// Memory accesses.
            accesses: Accesses {
                /// Rows of the accesses lens with `at`, `addr`, `size`, `kind`.
                ACCESSES = 0 "accesses" "accesses";
                /// The instruction that made each access.
                ACCESS_PC = 1 "accesses.pc" "PCs of accesses";
                /// Instruction fetches among the accesses, in program order.
                ACCESS_FETCH = 2 "accesses.fetch";
            }
            /// Executed instructions.
            instrs: Instrs {
                /// Rows of the instrs lens with `at`, `pc`, `size`, `flags`.
                INSTRS = 8 "instrs" "instructions";
                /// The kind of control flow of each instruction.
                INSTR_CLASS = 9 "instrs.class" "classes of instructions";
                /// Whether each branch was taken.
                INSTR_TAKEN = 10 "instrs.taken" "outcomes of branches";
                /// Target address of each indirect branch.
                INSTR_TARGET = 11 "instrs.target" "targets of branches";
                /// The bytes of each instruction, as an index into the batch's code table.
                INSTR_CODE = 12 "instrs.code" "bytes of instructions";
            }
            /// Function and system calls.
            calls: Calls before_next {
                /// Rows of the calls lens: functions and system calls entered and left, with arguments and results.
                CALLS = 16 "calls" "calls";
                /// The calls of the batch with all their values, whatever their shape.
                CALL_VALUES = 17 "calls.values";
            }
            /// The life of threads.
            threads: Threads {
                /// Rows of the threads lens: start, stop, clock ticks, cpus, idling.
                THREADS = 24 "threads" "events of threads";
                /// The time of day, among the rows of the threads lens.
                THREAD_CLOCK = 25 "threads.clock" "readings of the clock";
                /// The processor, among the rows of the threads lens.
                THREAD_CPU = 26 "threads.cpu" "numbers of processors";
            }
            /// Named moments.
            marks: Marks {
                /// Rows of the marks lens: named moments with a value.
                MARKS = 32 "marks" "marks";
                /// The text of each mark that the program set by name.
                MARK_TEXT = 33 "marks.text";
            }
            /// Regions of memory with types.
            regions: Regions {
                /// Rows of the regions lens: memory whose type is known.
                REGIONS = 40 "regions" "regions of types";
            }
        }
    };
}
pub(crate) use for_each_lens;

macro_rules! named_u8 {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $value:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoBytes, Immutable)]
        #[repr(u8)]
        pub enum $name { $($(#[$vdoc])* $variant = $value,)* }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The stable name, as output uses it.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }

            /// All names, for schemas.
            pub fn names() -> Arc<Names> {
                static NAMES: LazyLock<Arc<Names>> =
                    LazyLock::new(|| Names::dense(Storage::U8, &[$($text),*]).shared());
                NAMES.clone()
            }
        }

        impl Store for Vec<$name> {
            fn ty() -> Type {
                Type::Enum($name::names())
            }

            fn n_values(&self) -> usize {
                self.len()
            }

            fn lend(&self) -> ColumnRef<'_> {
                ColumnRef::of(CellsRef::U8(self.as_slice().as_bytes()))
            }

            fn give(self) -> Column {
                // In place: both have one byte per value.
                Column { cells: Cells::U8(self.into_iter().map(|cell| cell as u8).collect()), valid: None }
            }

            fn cut(&mut self, rows: usize) {
                self.truncate(rows);
            }

            #[inline]
            fn append(&mut self, from: &Self, rows: Range<usize>) {
                self.extend_from_slice(from.get(rows).unwrap_or(&[]));
            }
        }
    };
}

named_u8! {
    /// The effect of an access on memory.
    AccessKind {
        /// A load.
        Read = 0 "read",
        /// A store.
        Write = 1 "write",
        /// A software prefetch of data.
        Prefetch = 2 "prefetch",
        /// A software prefetch of instructions.
        PrefetchInstr = 3 "prefetch-instr",
        /// A flush of data cache lines.
        FlushData = 4 "flush-data",
        /// A flush of instruction cache lines.
        FlushInstr = 5 "flush-instr",
        /// An instruction fetch; only with [`Columns::ACCESS_FETCH`](crate::Columns::ACCESS_FETCH).
        Fetch = 6 "fetch",
    }
}

impl AccessKind {
    /// True if the access flushes lines out of caches.
    pub const fn is_flush(self) -> bool {
        matches!(self, AccessKind::FlushData | AccessKind::FlushInstr)
    }
}

/// The largest access that analyses and simulators accept, in bytes. No instruction touches more at once; a trace that claims
/// so is damaged, and following it line by line would take gigabytes. Flushes may be larger.
pub const MAX_ACCESS_BYTES: u32 = 1 << 20;

/// The largest range of memory that one record may read or write, in bytes, in formats that have such records: a copy or a
/// fill. Readers put it into the lens in pieces of at most [`MAX_ACCESS_BYTES`]. The runtime that records programs splits
/// larger ranges itself, so one that is larger is damaged, and a few bytes of file could claim all of memory with it.
pub const MAX_RANGE_BYTES: u64 = 16 << 20;

rows! {
    /// Memory accesses.
    pub struct Accesses: "accesses" derived "Memory accesses.", len addr {
        at: Vec<u32> => "Record index inside the batch.";
        addr: Vec<u64> as Type::Address, role(Role::ADDRESS) => "First byte touched.";
        size: Vec<u32>, missing(0u32), role(Role::SIZE), unit(Unit::BYTES)
            => "Bytes touched, if the trace has the size. Flushes of more than 4 GiB saturate.";
        kind: Vec<AccessKind>, role(Role::ACCESS_KIND) => "Kind of the access.";
        pc: Vec<u64> as Type::Address, role(Role::PC)
            => "Address of the instruction that made the access; for a fetch, of the instruction itself.";
    }
}

impl Accesses {
    /// True if an access other than a flush has more than [`MAX_ACCESS_BYTES`].
    // PERF: almost no batch has one, and the first look over the sizes alone is vectorised.
    #[inline]
    pub fn has_oversized(&self) -> bool {
        self.size.iter().fold(0, |most, size| most.max(*size)) > MAX_ACCESS_BYTES
            && (0..self.size.len()).any(|row| self.is_oversized(row))
    }

    fn is_oversized(&self, row: usize) -> bool {
        self.size.get(row).is_some_and(|size| *size > MAX_ACCESS_BYTES)
            && !self.kind.get(row).is_some_and(|kind| kind.is_flush())
    }

    /// Keeps these rows only, which ascend.
    pub fn keep_rows(&mut self, rows: &[u32]) {
        let all = std::mem::take(self);
        for run in rows.chunk_by(|row, next| *next == row + 1) {
            let start = run.first().map_or(0, |row| *row as usize); // Widening.
            self.append(&all, start..start + run.len(), |code| code);
        }
    }

    /// Removes accesses, other than flushes, of more than [`MAX_ACCESS_BYTES`]. Calls `removed` with the record index inside
    /// the batch and the size of each.
    #[cold]
    pub fn remove_oversized(&mut self, mut removed: impl FnMut(u32, u32)) {
        let all = std::mem::take(self);
        for row in 0..all.size.len() {
            match all.is_oversized(row) {
                true => removed(all.at.get(row).copied().unwrap_or(0), all.size[row]),
                false => self.append(&all, row..row + 1, |code| code),
            }
        }
    }
}

named_u8! {
    /// The kind of control flow of an instruction.
    InstrClass {
        /// Falls through.
        Other = 0 "non-branch",
        /// Always jumps to a fixed address.
        DirectJump = 1 "direct-jump",
        /// Jumps to a computed address.
        IndirectJump = 2 "indirect-jump",
        /// Jumps to a fixed address or falls through.
        ConditionalJump = 3 "conditional-jump",
        /// Calls a fixed address.
        DirectCall = 4 "direct-call",
        /// Calls a computed address.
        IndirectCall = 5 "indirect-call",
        /// Returns.
        Return = 6 "return",
        /// Enters the kernel by `sysenter`, after which execution does not continue with the next instruction.
        Sysenter = 7 "sysenter",
    }
}

impl InstrClass {
    /// True for all classes that may divert control flow.
    pub const fn is_branch(self) -> bool {
        !matches!(self, InstrClass::Other | InstrClass::Sysenter)
    }

    /// True if the target is computed at run time.
    pub const fn is_indirect(self) -> bool {
        matches!(self, InstrClass::IndirectJump | InstrClass::IndirectCall | InstrClass::Return)
    }
}

named_u8! {
    /// Whether a branch was taken.
    Taken {
        /// It fell through, or is not a branch.
        No = 0 "no",
        /// It was taken.
        Yes = 1 "yes",
        /// The trace does not say.
        Unknown = 2 "unknown",
    }
}

/// Bits of [`Instrs::flags`].
pub mod instr_flags {
    /// A further iteration of a string loop: executed, but not fetched again. It does not count as an instruction.
    pub const NO_FETCH: u8 = 1;
    /// Executed in a kernel region.
    pub const KERNEL: u8 = 2;
    /// The trace states the encoding anew at this instruction.
    pub const NEW_CODE: u8 = 4;

    /// The names of the bits, for schemas.
    pub(super) fn names() -> std::sync::Arc<super::Names> {
        let names = [(NO_FETCH, "no-fetch"), (KERNEL, "kernel"), (NEW_CODE, "new-code")];
        let names = names.map(|(bit, name)| (u64::from(bit), name));
        super::Names::new(super::Storage::U8, names).shared()
    }
}

/// The value of [`Instrs::code`] if the trace has no encoding for the instruction.
pub const NO_CODE: u32 = u32::MAX;

rows! {
    /// Executed instructions. A scan's [`Columns`] say which columns are filled; `flags` has the bits of
    /// [`instr_flags`], `code` an index into [`Batch::codes`](crate::Batch::codes) or [`NO_CODE`].
    pub struct Instrs: "instrs" derived "Executed instructions.", len pc, codes code {
        at: Vec<u32> => "Record index inside the batch.";
        pc: Vec<u64> as Type::Address, role(Role::PC) => "Address of the instruction.";
        size: Vec<u16>, unit(Unit::BYTES) => "Length in bytes.";
        flags: Vec<u8> as Type::Flags(instr_flags::names())
            => "Flags: executed again without a fetch, executed in the kernel, encoding given at this record.";
        class: Vec<InstrClass> => "Kind of control flow.";
        taken: Vec<Taken> => "Whether a branch was taken.";
        target: Vec<u64> as Type::Address, missing(0u64)
            => "Target of an indirect branch.";
        code: Vec<u32> as Type::Code, missing(NO_CODE)
            => "Encoding, if the trace has it.";
    }
}

named_u8! {
    /// Whether a function is entered or left.
    CallEdge {
        /// Entered, with arguments.
        Enter = 0 "enter",
        /// Left, with a result.
        Leave = 1 "leave",
    }
}

rows! {
    /// Functions and system calls entered and left, with values as recorded. The names of functions are in
    /// [`Meta::functions`](crate::Meta::functions), or among the types of a batch.
    pub struct Calls: "calls" derived "Functions and system calls entered and left.", len function {
        at: Vec<u32> => "Index of the record that *follows* the call's values (they may take several records).";
        function: Vec<u64>, role(Role::FUNCTION)
            => "The trace's id of the function.";
        edge: Vec<CallEdge> => "Entered or left.";
        return_to: Vec<u64> as Type::Address, missing(0u64) => "Return address, if known.";
        result: Maybe<Vec<u64>>, role(Role::RETURNED) => "Result of a function that is left, if known.";
        args: Lists, role(Role::ARGUMENT) => "The arguments.";
    }
}

named_u8! {
    /// An event in the life of a thread, or of the core that runs it.
    ThreadEvent {
        /// The thread's first record; the value is its process.
        Start = 0 "start",
        /// The thread ends.
        Stop = 1 "stop",
        /// A clock reading; the value is in the unit of [`Meta::clock`](crate::Meta::clock).
        Clock = 2 "clock",
        /// The value is the processor that runs the thread from now on.
        Cpu = 3 "cpu",
        /// The core has nothing to run for one unit of time.
        Idle = 4 "idle",
        /// The core waits for another core for one unit of time.
        Wait = 5 "wait",
        /// The thread enters the kernel with a system call; the value is the call's number.
        Syscall = 6 "syscall",
        /// The system call may block.
        MayBlock = 7 "may-block",
        /// A signal or interrupt interrupts the thread at the PC in the value.
        Interrupt = 8 "interrupt",
        /// The thread returns from a signal or interrupt.
        Resume = 9 "resume",
        /// The previous call failed; the value is the error number.
        Failed = 10 "failed",
        /// Kernel code of the system call begins; the value is the call's number.
        KernelEnter = 11 "kernel-enter",
        /// Kernel code of the system call ends.
        KernelLeave = 12 "kernel-leave",
        /// The thread asks for the thread in the value to run in its place.
        SwitchTo = 13 "switch-to",
        /// The call suspends its thread until another thread wakes it or its timeout expires.
        Park = 14 "park",
        /// The call wakes the thread in the value.
        Wake = 15 "wake",
        /// The timeout of the call, in the clock's ticks.
        Timeout = 16 "timeout",
    }
}

rows! {
    /// Events of threads and of the cores that run them. The thread itself is [`Span::thread`](crate::Span::thread); each
    /// [`ThreadEvent`] says what its value is.
    pub struct Threads: "threads" derived "Events of threads and of the cores that run them.", len what {
        at: Vec<u32> => "Record index inside the batch.";
        what: Vec<ThreadEvent> => "Kind of the event.";
        value: Vec<u64>
            => "Value of the event: the process of a start, a clock reading, the number of a processor, system call or \
                thread, or an address.";
    }
}

impl Threads {
    /// The columns that stand for rows of one event each, with that event.
    pub const OF_COLUMNS: [(Columns, ThreadEvent); 2] =
        [(Columns::THREAD_CLOCK, ThreadEvent::Clock), (Columns::THREAD_CPU, ThreadEvent::Cpu)];

    /// Removes all rows of an event and returns their number.
    pub fn remove(&mut self, event: ThreadEvent) -> u64 {
        let (n_rows, mut n_kept) = (self.len(), 0);
        for row in 0..n_rows {
            if self.what[row] != event {
                self.at[n_kept] = self.at[row];
                self.what[n_kept] = self.what[row];
                self.value[n_kept] = self.value[row];
                n_kept += 1;
            }
        }
        self.truncate(n_kept);
        (n_rows - n_kept) as u64
    }
}

rows! {
    /// Named moments with a value. [`Trace::mark_name`](crate::Trace::mark_name) has the names.
    pub struct Marks: "marks" derived "Named moments with a value.", len kind {
        at: Vec<u32> => "Record index inside the batch.";
        kind: Vec<u32> => "Number of the mark's name.";
        value: Vec<u64> => "The value.";
        text: Strings => "Text of a mark that the program set; empty for other marks.";
    }
}

named_u8! {
    /// A change of a memory region.
    RegionEvent {
        /// From now on it holds elements of a type.
        Add = 0 "add",
        /// From now on nothing is known about the region that begins there.
        Remove = 1 "remove",
    }
}

rows! {
    /// Memory regions whose type becomes known or unknown. If regions overlap, an address belongs to the one that was added
    /// last; a removal ends the one that was added last among those that begin at its address.
    ///
    /// Regions belong to memory, not to the part of a trace that is read: regions of records before a window, and of threads
    /// that were not asked for, come in batches without records ([`Batch::leave_regions`](crate::Batch::leave_regions)).
    pub struct Regions: "regions" derived "Regions of memory whose type becomes known or unknown.", len what {
        at: Vec<u32> => "Record index inside the batch.";
        what: Vec<RegionEvent> => "Whether the region is added or removed.";
        addr: Vec<u64> as Type::Address, role(Role::ADDRESS) => "First byte of the region.";
        element_bytes: Vec<u64>, missing(0u64), unit(Unit::BYTES)
            => "Bytes of an element, as stated in the trace; empty for a removal.";
        n_elements: Vec<u64>, missing(0u64) => "Number of elements; empty for a removal.";
        type_name: Strings as Type::Bytes
            => "Name of the elements' type, as stated in the trace; empty for a removal.";
    }
}
