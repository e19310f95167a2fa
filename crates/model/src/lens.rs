//! The lenses: shared column groups that analyses read, whatever the format.
//!
//! Each lens is a set of parallel vectors. `at` is the index of the record inside the batch (0 … `span.records`),
//! so it orders rows across lenses. Columns that were not asked for stay empty; see [`Columns`](crate::Columns).

macro_rules! named_u8 {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $value:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$vdoc])* $variant = $value,)* }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The stable name, as output uses it.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }
    };
}

named_u8! {
    /// What an access does to memory.
    AccessKind {
        /// A load.
        Read = 0 "read",
        /// A store.
        Write = 1 "write",
        /// A software prefetch of data.
        Prefetch = 2 "prefetch",
        /// A software prefetch of instructions.
        PrefetchInstr = 3 "prefetch-instr",
        /// Lines of data are flushed.
        FlushData = 4 "flush-data",
        /// Lines of instructions are flushed.
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

/// The most bytes of an access that analyses and simulators take. No instruction touches more at once; a trace that
/// says otherwise is damaged, and following it line by line would take gigabytes. Flushes may be larger.
pub const MAX_ACCESS_BYTES: u32 = 1 << 20;

/// Memory accesses.
#[derive(Clone, Debug, Default)]
pub struct Accesses {
    /// Record index inside the batch.
    pub at: Vec<u32>,
    /// First byte touched.
    pub addr: Vec<u64>,
    /// Bytes touched; 0 if the trace does not know. Flushes beyond 4 GiB saturate.
    pub size: Vec<u32>,
    /// What the access does.
    pub kind: Vec<AccessKind>,
    /// The instruction that made it; for a fetch, the instruction itself. Needs `ACCESS_PC`.
    pub pc: Vec<u64>,
}

impl Accesses {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.addr.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.addr.is_empty()
    }

    /// True if an access, flushes excepted, has more than [`MAX_ACCESS_BYTES`].
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

    /// Removes the accesses, flushes excepted, that have more than [`MAX_ACCESS_BYTES`], and calls `removed` with the
    /// record index inside the batch and the size of each.
    #[cold]
    pub fn remove_oversized(&mut self, mut removed: impl FnMut(u32, u32)) {
        let keep: Vec<bool> = (0..self.size.len()).map(|row| !self.is_oversized(row)).collect();
        for (row, _) in keep.iter().enumerate().filter(|(_, keep)| !**keep) {
            removed(self.at.get(row).copied().unwrap_or(0), self.size[row]);
        }
        retain(&mut self.at, &keep);
        retain(&mut self.addr, &keep);
        retain(&mut self.size, &keep);
        retain(&mut self.kind, &keep);
        retain(&mut self.pc, &keep);
    }

    /// Removes all rows, keeping the buffers.
    pub fn clear(&mut self) {
        self.at.clear();
        self.addr.clear();
        self.size.clear();
        self.kind.clear();
        self.pc.clear();
    }
}

/// Drops the rows that `keep` does not want; a column that was not asked for stays empty.
fn retain<T>(column: &mut Vec<T>, keep: &[bool]) {
    let mut keep = keep.iter();
    column.retain(|_| keep.next().is_none_or(|keep| *keep));
}

named_u8! {
    /// What sort of control flow an instruction is.
    InstrClass {
        /// Falls through.
        Other = 0 "non-branch",
        /// Always goes to a fixed place.
        DirectJump = 1 "direct-jump",
        /// Goes to a computed place.
        IndirectJump = 2 "indirect-jump",
        /// Goes to a fixed place or falls through.
        ConditionalJump = 3 "conditional-jump",
        /// Calls a fixed place.
        DirectCall = 4 "direct-call",
        /// Calls a computed place.
        IndirectCall = 5 "indirect-call",
        /// Returns.
        Return = 6 "return",
        /// Enters the kernel by `sysenter`, whose return does not come behind it.
        Sysenter = 7 "sysenter",
    }
}

impl InstrClass {
    /// True for all classes that may leave the straight line.
    pub const fn is_branch(self) -> bool {
        !matches!(self, InstrClass::Other | InstrClass::Sysenter)
    }

    /// True if the place is computed at run time.
    pub const fn is_indirect(self) -> bool {
        matches!(self, InstrClass::IndirectJump | InstrClass::IndirectCall | InstrClass::Return)
    }
}

named_u8! {
    /// Whether a branch left the straight line.
    Taken {
        /// It fell through, or is no branch.
        No = 0 "no",
        /// It was taken.
        Yes = 1 "yes",
        /// The trace does not say.
        Unknown = 2 "unknown",
    }
}

/// Bits of [`Instrs::flags`].
pub mod instr_flags {
    /// A further iteration of a string loop: executed, but not fetched again. Not counted as an instruction.
    pub const NO_FETCH: u8 = 1;
    /// Executed in a kernel region.
    pub const KERNEL: u8 = 2;
    /// The trace gave the encoding anew right here.
    pub const NEW_CODE: u8 = 4;
}

/// The value of [`Instrs::code`] where the trace has no encoding.
pub const NO_CODE: u32 = u32::MAX;

/// Executed instructions.
#[derive(Clone, Debug, Default)]
pub struct Instrs {
    /// Record index inside the batch.
    pub at: Vec<u32>,
    /// Address of the instruction.
    pub pc: Vec<u64>,
    /// Length in bytes.
    pub size: Vec<u16>,
    /// Bits of [`instr_flags`].
    pub flags: Vec<u8>,
    /// Control flow. Needs `INSTR_CLASS`.
    pub class: Vec<InstrClass>,
    /// Outcome of branches. Needs `INSTR_TAKEN`.
    pub taken: Vec<Taken>,
    /// Where an indirect branch went; 0 elsewhere. Needs `INSTR_TARGET`.
    pub target: Vec<u64>,
    /// Index into [`Batch::codes`](crate::Batch::codes), or [`NO_CODE`]. Needs `INSTR_CODE`.
    pub code: Vec<u32>,
}

impl Instrs {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.pc.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.pc.is_empty()
    }

    /// Removes all rows, keeping the buffers.
    pub fn clear(&mut self) {
        self.at.clear();
        self.pc.clear();
        self.size.clear();
        self.flags.clear();
        self.class.clear();
        self.taken.clear();
        self.target.clear();
        self.code.clear();
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

/// Functions and system calls entered and left, with values as the trace has them.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// Index of the record that *follows* the call's values (they may take several records).
    pub at: Vec<u32>,
    /// The trace's id of the function; [`Meta::functions`](crate::Meta::functions) has the names.
    pub function: Vec<u64>,
    /// Entered or left.
    pub edge: Vec<CallEdge>,
    /// Return address where known, else 0.
    pub return_to: Vec<u64>,
    /// The result, for [`CallEdge::Leave`], else 0.
    pub result: Vec<u64>,
    /// Where each row's arguments end in [`Calls::args`]; they begin where the row before ends.
    pub args_end: Vec<u32>,
    /// The arguments of all rows.
    pub args: Vec<u64>,
}

impl Calls {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.function.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.function.is_empty()
    }

    /// The arguments of row `row`.
    pub fn args_of(&self, row: usize) -> &[u64] {
        let start = if row == 0 { 0 } else { self.args_end[row - 1] as usize };
        &self.args[start..self.args_end[row] as usize]
    }

    /// Removes all rows, keeping the buffers.
    pub fn clear(&mut self) {
        self.at.clear();
        self.function.clear();
        self.edge.clear();
        self.return_to.clear();
        self.result.clear();
        self.args_end.clear();
        self.args.clear();
    }
}

named_u8! {
    /// What happens to a thread, or to the core that runs it.
    ThreadEvent {
        /// The thread's first record; the value is its process.
        Start = 0 "start",
        /// The thread ends.
        Stop = 1 "stop",
        /// The value is the clock, in the unit of [`Meta::clock`](crate::Meta::clock).
        Clock = 2 "clock",
        /// The value is the processor that runs the thread from here on.
        Cpu = 3 "cpu",
        /// The core has nothing to run for one unit of time.
        Idle = 4 "idle",
        /// The core waits for another core for one unit of time.
        Wait = 5 "wait",
        /// The thread enters the kernel with the call whose number is the value.
        Syscall = 6 "syscall",
        /// That call may block.
        MayBlock = 7 "may-block",
        /// A signal or interrupt takes the thread away from the PC in the value.
        Interrupt = 8 "interrupt",
        /// The thread returns from a signal or interrupt.
        Resume = 9 "resume",
        /// The call before failed; the value is the error's number.
        Failed = 10 "failed",
        /// Kernel code of the call whose number is the value begins.
        KernelEnter = 11 "kernel-enter",
        /// That kernel code ends.
        KernelLeave = 12 "kernel-leave",
        /// The thread asks that the thread in the value run in its place.
        SwitchTo = 13 "switch-to",
        /// The call puts its thread to rest until another thread wakes it or its timeout is over.
        Park = 14 "park",
        /// The call wakes the thread in the value.
        Wake = 15 "wake",
        /// The timeout of the call, in the clock's ticks.
        Timeout = 16 "timeout",
    }
}

/// The life of threads and what runs them. The thread itself is [`Span::thread`](crate::Span::thread).
#[derive(Clone, Debug, Default)]
pub struct Threads {
    /// Record index inside the batch.
    pub at: Vec<u32>,
    /// What happens.
    pub what: Vec<ThreadEvent>,
    /// Its value; see [`ThreadEvent`].
    pub value: Vec<u64>,
}

impl Threads {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.what.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.what.is_empty()
    }

    /// Removes all rows, keeping the buffers.
    pub fn clear(&mut self) {
        self.at.clear();
        self.what.clear();
        self.value.clear();
    }
}

/// Named moments with a value.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// Record index inside the batch.
    pub at: Vec<u32>,
    /// What was marked; [`Trace::mark_name`](crate::Trace::mark_name) has the name.
    pub kind: Vec<u32>,
    /// The value.
    pub value: Vec<u64>,
}

impl Marks {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }

    /// Removes all rows, keeping the buffers.
    pub fn clear(&mut self) {
        self.at.clear();
        self.kind.clear();
        self.value.clear();
    }
}

named_u8! {
    /// What happens to a region of memory.
    RegionEvent {
        /// From here on it holds elements of a type.
        Add = 0 "add",
        /// From here on nothing is known of what begins there.
        Remove = 1 "remove",
    }
}

/// Regions of memory whose type is known from here on, or no more. Where regions lie over each other, an address belongs to the
/// one that was added last; a removal ends the one that was added last of those that begin at its address.
///
/// Regions belong to memory, not to what is read of a trace: those of records before a window, and of threads that nobody asked
/// for, come in batches of no records ([`Batch::leave_regions`](crate::Batch::leave_regions)).
#[derive(Clone, Debug, Default)]
pub struct Regions {
    /// Record index inside the batch.
    pub at: Vec<u32>,
    /// What happens.
    pub what: Vec<RegionEvent>,
    /// First byte of the region.
    pub addr: Vec<u64>,
    /// Bytes of an element, as the trace has it; 0 for a removal.
    pub element_bytes: Vec<u64>,
    /// Number of elements; 0 for a removal.
    pub n_elements: Vec<u64>,
    /// Name of the elements' type: a text among the nodes of [`Batch::values`](crate::Batch::values), or
    /// [`NO_NODE`](crate::values::NO_NODE) for a removal.
    pub type_name: Vec<u32>,
}

impl Regions {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.what.len()
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.what.is_empty()
    }

    /// Removes all rows, keeping the buffers.
    pub fn clear(&mut self) {
        self.at.clear();
        self.what.clear();
        self.addr.clear();
        self.element_bytes.clear();
        self.n_elements.clear();
        self.type_name.clear();
    }
}
