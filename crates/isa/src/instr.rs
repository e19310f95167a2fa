//! One decoded instruction: everything that analyses need, except its text.

use crate::{Arch, Categories, Opcode, Reg, RegSet};

/// The effects of an instruction, as a plain value that is copied freely and owns no allocation. Decode each distinct
/// instruction once and keep this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instr {
    /// Bytes of the encoding. For REGDEPS this is the length of the synthetic encoding, not of the real instruction that it
    /// replaces.
    pub len: u8,
    /// Its effect on the flow of control.
    pub class: Class,
    /// The operation's name.
    pub opcode: Opcode,
    /// The kinds of work it does.
    pub categories: Categories,
    /// Registers read, including those of addresses and of implicit operands.
    pub reads: RegSet,
    /// Registers written, including those written only if a condition holds.
    pub writes: RegSet,
    /// Whether it depends on arithmetic flags (x86 CF PF AF ZF SF OF; AArch64 NZCV).
    pub reads_flags: bool,
    /// Whether it changes arithmetic flags, or leaves them undefined.
    pub writes_flags: bool,
    /// Whether its effect depends on a condition: conditional branches, `cmov`, `csel`, masked vector work.
    pub conditional: bool,
    /// Whether it is a string operation that repeats (`rep`, `repne`). Its memory operands are those of one iteration.
    pub repeated: bool,
    /// Target of a direct jump, conditional jump or call, computed from the pc. Always `None` for REGDEPS.
    pub target: Option<u64>,
    /// REGDEPS: bytes of the largest source operand, `None` if the size code is unknown. Other architectures: `None`.
    pub operation_bytes: Option<u16>,
    pub(crate) mems: MemList,
}

impl Instr {
    /// Maximum number of memory operands kept. Only x86 `enter` with a nesting level above six has more; the rest are
    /// dropped.
    pub const MAX_MEMS: usize = 8;

    /// Returns an instruction without effects, to be filled in.
    pub(crate) fn new(len: u8, opcode: Opcode) -> Instr {
        Instr {
            len,
            class: Class::Other,
            opcode,
            categories: Categories::UNCATEGORIZED,
            reads: RegSet::EMPTY,
            writes: RegSet::EMPTY,
            reads_flags: false,
            writes_flags: false,
            conditional: false,
            repeated: false,
            target: None,
            operation_bytes: None,
            mems: MemList { len: 0, mems: [Mem::NONE; Instr::MAX_MEMS] },
        }
    }

    /// The memory operands, including implicit ones such as the stack of a push, in the order of access as far as the
    /// decoder knows it.
    pub fn mems(&self) -> &[Mem] {
        self.mems.mems.get(..usize::from(self.mems.len)).unwrap_or_default()
    }

    /// Whether it reads any memory operand (prefetches and flushes do not count).
    pub fn reads_memory(&self) -> bool {
        self.mems().iter().any(|mem| mem.access.is_read())
    }

    /// Whether it writes any memory operand.
    pub fn writes_memory(&self) -> bool {
        self.mems().iter().any(|mem| mem.access.is_write())
    }

    /// Whether it may leave the fall-through path. System calls do not count.
    pub fn is_branch(&self) -> bool {
        self.class.is_branch()
    }

    pub(crate) fn push_mem(&mut self, mem: Mem) {
        if let Some(slot) = self.mems.mems.get_mut(usize::from(self.mems.len)) {
            *slot = mem;
            self.mems.len += 1;
        }
    }
}

/// Memory operands, stored inline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemList {
    len: u8,
    mems: [Mem; Instr::MAX_MEMS],
}

/// The effect of an instruction on the flow of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Class {
    /// Continues to the next instruction.
    Other,
    /// Always jumps, to a target in the encoding.
    DirectJump,
    /// Always jumps, to a target from a register or memory.
    IndirectJump,
    /// Jumps to a target in the encoding, or continues.
    ConditionalJump,
    /// Calls a target in the encoding.
    DirectCall,
    /// Calls a target from a register or memory.
    IndirectCall,
    /// Returns from a call, an interrupt or an exception.
    Return,
    /// Enters the kernel for a service: `syscall`, `sysenter`, `int 0x80`, `svc`.
    Syscall,
    /// Raises a trap: other `int`s, `brk`, `hvc`, undefined-instruction traps.
    Trap,
    /// REGDEPS: a branch, or a system call, of unknown kind.
    UnknownBranch,
}

impl Class {
    /// The class in words, such as `conditional jump`.
    pub fn name(self) -> &'static str {
        match self {
            Class::Other => "other",
            Class::DirectJump => "jump",
            Class::IndirectJump => "indirect jump",
            Class::ConditionalJump => "conditional jump",
            Class::DirectCall => "call",
            Class::IndirectCall => "indirect call",
            Class::Return => "return",
            Class::Syscall => "syscall",
            Class::Trap => "trap",
            Class::UnknownBranch => "branch",
        }
    }

    /// Whether it may leave the fall-through path by a jump, call or return.
    pub fn is_branch(self) -> bool {
        !matches!(self, Class::Other | Class::Syscall | Class::Trap | Class::UnknownBranch)
    }
}

/// One memory operand: its address, size and direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mem {
    /// x86 segment register if its base matters (`fs`, `gs`; any in 32-bit code).
    pub segment: Option<Reg>,
    /// Base register.
    pub base: Option<Reg>,
    /// Index register. A vector register here means gather or scatter: one address per element.
    pub index: Option<Reg>,
    /// Factor by which the index is multiplied.
    pub scale: u8,
    /// Displacement that is added. Without a base it is the absolute address: pc-relative operands are already resolved.
    pub disp: i64,
    /// Bytes accessed (of one element for gather and scatter); 0 if the size depends on the processor's configuration
    /// (`xsave`, `dc zva`, scalable vectors).
    pub bytes: u16,
    /// Direction of the access.
    pub access: Access,
}

impl Mem {
    pub(crate) const NONE: Mem =
        Mem { segment: None, base: None, index: None, scale: 1, disp: 0, bytes: 0, access: Access::Read };

    /// Whether the operand names one address per vector element.
    pub fn is_gather(&self, arch: Arch) -> bool {
        [self.base, self.index].into_iter().flatten().any(|reg| reg.is_vector(arch))
    }
}

/// The kind of access to a memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Read, perhaps only if a condition holds.
    Read,
    /// Written, perhaps only if a condition holds.
    Write,
    /// Read, then written.
    ReadWrite,
    /// Address given as a hint; no data is read.
    Prefetch,
    /// A cache line is written back or invalidated.
    Flush,
}

impl Access {
    /// Whether the instruction gets data from memory.
    pub fn is_read(self) -> bool {
        matches!(self, Access::Read | Access::ReadWrite)
    }

    /// Whether the instruction puts data into memory.
    pub fn is_write(self) -> bool {
        matches!(self, Access::Write | Access::ReadWrite)
    }
}
