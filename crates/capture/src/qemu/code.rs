//! Blocks as the emulator translates them: their instructions, decoded once, as the entries to write.

use quipu_drmemtrace::record::{Entry, Type};
use quipu_isa::{Access, Class, DecodeError, Decoder, Instr};
use quipu_ring::qemu::MAX_INSTRS;
use std::sync::{Arc, PoisonError, RwLock};

/// A block that the plugin described.
#[derive(Debug)]
pub(crate) struct Block {
    /// Address of the first instruction.
    pub(crate) pc: u64,
    /// Address after the last instruction.
    pub(crate) end: u64,
    pub(crate) ops: Vec<Op>,
    /// One entry per instruction. A conditional jump has the type for an unknown outcome.
    pub(crate) entries: Vec<Entry>,
    /// How the last instruction leaves the block.
    pub(crate) exit: Exit,
    /// Whether accesses of some instructions are split into pieces.
    pub(crate) has_pieces: bool,
    /// Number of instructions that access memory whenever they are executed.
    pub(crate) n_owing: u32,
    /// Position of the last of them, counted from 1; 0 if there is none.
    pub(crate) last_owing: u16,
}

/// An instruction.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) bytes: [u8; 16],
    pub(crate) len: u8,
    /// Whether it accesses memory, or has a memory operand, whenever it is executed.
    pub(crate) owes: bool,
    /// Whether the emulator reports its accesses.
    pub(crate) is_reported: bool,
    /// Whether it always reads, and whether it always writes.
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    /// Bit 0: it has operands to read, bit 1: to write; both are set if this is unknown.
    pub(crate) directions: u8,
    /// Whether it may raise a signal without an access: a division, a trap, an unknown instruction.
    pub(crate) may_trap: bool,
    /// Whether it is a string operation with a repeat prefix.
    pub(crate) repeats: bool,
    /// Whether it makes at most one access in each direction, in one piece.
    pub(crate) is_plain: bool,
    /// Operands to which split accesses belong; `None` if each access is an operand of its own.
    pub(crate) operands: Option<Box<Operands>>,
}

/// Memory operands of an instruction with split accesses: the size of each in bytes, in the order of access; 0 if unknown.
#[derive(Debug, Default)]
pub(crate) struct Operands {
    pub(crate) reads: Vec<u16>,
    pub(crate) writes: Vec<u16>,
}

/// How control leaves a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// To the instruction after it.
    Through,
    /// To the address in the encoding.
    Direct(u64),
    /// To the address in the encoding, or to the next instruction.
    Conditional(u64),
    /// To any address.
    Indirect,
    /// Unknown: there is no decoder for the architecture or the instruction.
    Unknown,
}

impl Block {
    /// Parses a description: the words after the first. `None` if it is invalid. Without accesses, no instruction owes any.
    pub(crate) fn new(words: &[u64], decoder: Option<&mut Decoder>, has_accesses: bool) -> Option<Block> {
        let (pc, counts) = (*words.first()?, *words.get(1)?);
        let (n, n_bytes) = (counts as u32 as usize, (counts >> 32) as usize);
        if n == 0 || n > MAX_INSTRS || n_bytes > 16 * n {
            return None;
        }
        let rest: Vec<u8> = words.get(2..)?.iter().flat_map(|word| word.to_le_bytes()).collect();
        let lens = rest.get(..n)?;
        let mut bytes = rest.get(n.div_ceil(8) * 8..)?.get(..n_bytes)?;
        let mut block = Block {
            pc,
            end: pc,
            ops: Vec::with_capacity(n),
            entries: Vec::with_capacity(n),
            exit: Exit::Through,
            has_pieces: false,
            n_owing: 0,
            last_owing: 0,
        };
        let mut decoder = decoder;
        for (i, len) in lens.iter().enumerate() {
            let (code, later) = bytes.split_at_checked(usize::from(*len))?;
            bytes = later;
            let decoded = decoder.as_mut().map(|decoder| decoder.decode(block.end, code));
            let is_last = i + 1 == n;
            if is_last && i > 0 && decoded == Some(Err(DecodeError::Truncated)) {
                // The emulator starts to translate an instruction that crosses a page boundary, and then translates it again
                // in a block of its own.
                break;
            }
            let instr = decoded.and_then(Result::ok);
            block.push(code, instr.as_ref(), is_last, has_accesses);
        }
        Some(block)
    }

    fn push(&mut self, code: &[u8], instr: Option<&Instr>, is_last: bool, has_accesses: bool) {
        let len = code.len().min(16);
        let mut op = Op {
            bytes: [0; 16],
            len: len as u8, // At most 16.
            owes: false,
            is_reported: true,
            reads: false,
            writes: false,
            directions: 3,
            may_trap: true,
            repeats: false,
            is_plain: false,
            operands: None,
        };
        op.bytes[..len].copy_from_slice(&code[..len]);
        let mut kind = Type::INSTR;
        if let Some(instr) = instr {
            kind = kind_of(instr);
            fill(&mut op, instr);
            if !has_accesses {
                (op.owes, op.reads, op.writes, op.operands) = (false, false, false, None);
            }
            if is_last {
                self.exit = exit_of(instr);
            }
        } else if is_last {
            self.exit = Exit::Unknown;
        }
        if op.owes {
            self.n_owing += 1;
            self.last_owing = self.ops.len() as u16 + 1; // At most `MAX_INSTRS`.
        }
        self.has_pieces |= op.operands.is_some();
        self.entries.push(Entry::new(kind, u16::from(op.len), self.end));
        self.end = self.end.wrapping_add(u64::from(op.len));
        self.ops.push(op);
    }

    /// Address of an instruction.
    pub(crate) fn pc_of(&self, index: usize) -> u64 {
        self.entries.get(index).map_or(self.end, |entry| entry.addr.get())
    }
}

/// The entry type of an instruction.
fn kind_of(instr: &Instr) -> Type {
    match instr.class {
        Class::DirectJump => Type::INSTR_DIRECT_JUMP,
        Class::IndirectJump => Type::INSTR_INDIRECT_JUMP,
        Class::ConditionalJump => Type::INSTR_CONDITIONAL_JUMP,
        Class::DirectCall => Type::INSTR_DIRECT_CALL,
        Class::IndirectCall => Type::INSTR_INDIRECT_CALL,
        Class::Return => Type::INSTR_RETURN,
        Class::Syscall if instr.opcode.name() == "sysenter" => Type::INSTR_SYSENTER,
        _ => Type::INSTR,
    }
}

fn exit_of(instr: &Instr) -> Exit {
    match (instr.class, instr.target) {
        (Class::DirectJump | Class::DirectCall, Some(target)) => Exit::Direct(target),
        (Class::ConditionalJump, Some(target)) => Exit::Conditional(target),
        (Class::IndirectJump | Class::IndirectCall | Class::Return, _) => Exit::Indirect,
        (Class::Other | Class::Syscall | Class::Trap, _) => Exit::Through,
        _ => Exit::Unknown,
    }
}

/// Fills in the expected accesses from the operands.
fn fill(op: &mut Op, instr: &Instr) {
    let name = instr.opcode.name();
    op.may_trap =
        instr.class == Class::Trap || name.contains("div") || name.starts_with("ud") || name == "hlt";
    op.repeats = instr.repeated;
    let mems = instr.mems();
    // For instructions with scalable vectors, only the class is known.
    if !matches!(name, "sve" | "sme" | "unknown") {
        op.directions = u8::from(instr.reads_memory()) | u8::from(instr.writes_memory()) << 1;
    }
    let is_scattered = name.contains("gather") || name.contains("scatter");
    let is_sure = (!instr.conditional || name.starts_with("set")) && !instr.repeated && !is_scattered;
    op.owes = is_sure && !mems.is_empty();
    op.is_reported = is_reported(name);
    op.reads = op.owes && instr.reads_memory();
    op.writes = op.owes && instr.writes_memory();
    if is_scattered {
        return;
    }
    let sizes = |is_meant: fn(Access) -> bool| -> Vec<u16> {
        mems.iter().filter(|mem| is_meant(mem.access)).map(|mem| mem.bytes).collect()
    };
    let operands = Operands { reads: sizes(Access::is_read), writes: sizes(Access::is_write) };
    let is_plain = |sizes: &[u16]| match sizes {
        [] => true,
        [bytes] => matches!(bytes, 1 | 2 | 4 | 8),
        _ => false,
    };
    if is_plain(&operands.reads) && is_plain(&operands.writes) && !is_split(name) {
        op.is_plain = true;
    } else {
        op.operands = Some(Box::new(operands));
    }
}

/// Whether the emulator reports accesses of this instruction to plugins.
fn is_reported(name: &str) -> bool {
    !matches!(name, "sve" | "sme" | "unknown" | "dc")
}

/// Whether the emulator may split accesses to operands of 8 bytes or less: instructions with several registers, and
/// byte-wise stores.
fn is_split(name: &str) -> bool {
    const PAIRS: [&str; 11] =
        ["ldp", "stp", "ldnp", "stnp", "ldpsw", "stgp", "ldxp", "ldaxp", "stxp", "stlxp", "maskmovq"];
    let is_structure = |name: &str| {
        let rest = name.strip_prefix("ld").or_else(|| name.strip_prefix("st"));
        rest.is_some_and(|rest| rest.starts_with(['1', '2', '3', '4']))
    };
    PAIRS.contains(&name) || name.starts_with("casp") || is_structure(name)
}

/// All blocks described so far, by number.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    known: RwLock<Vec<Option<Arc<Block>>>>,
}

impl Blocks {
    /// Adds a block.
    pub(crate) fn insert(&self, number: u32, block: Block) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let at = number as usize;
        if known.len() <= at {
            known.resize(at + 1, None);
        }
        known[at] = Some(Arc::new(block));
    }

    /// The block with this number, if it has been described.
    pub(crate) fn get(&self, number: u32) -> Option<Arc<Block>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(number as usize)?.clone()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use quipu_isa::{Arch, Syntax};

    /// A block of x86-64 instructions, as described by the plugin.
    pub(crate) fn block(pc: u64, instrs: &[&[u8]]) -> Block {
        let n_bytes: usize = instrs.iter().map(|instr| instr.len()).sum();
        let mut bytes: Vec<u8> = instrs.iter().map(|instr| instr.len() as u8).collect();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend(instrs.iter().flat_map(|instr| instr.iter().copied()));
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let mut words = vec![pc, instrs.len() as u64 | (n_bytes as u64) << 32];
        words.extend(bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())));
        Block::new(&words, Some(&mut Decoder::new(Arch::X86_64, Syntax::Att).unwrap()), true).unwrap()
    }

    #[test]
    fn a_description_becomes_instructions_with_what_they_owe() {
        // push %rbp; movups (%rdi),%xmm0; jne back to the start.
        let block = block(0x1000, &[&[0x55], &[0x0f, 0x10, 0x07], &[0x75, 0xfa]]);
        assert_eq!((block.end, block.exit), (0x1006, Exit::Conditional(0x1000)));
        assert_eq!((block.n_owing, block.last_owing), (2, 2));
        assert_eq!(block.entries[2], Entry::new(Type::INSTR_CONDITIONAL_JUMP, 2, 0x1004));
        assert!(block.ops[0].operands.is_none() && block.ops[0].writes);
        assert_eq!(block.ops[1].operands.as_ref().unwrap().reads, [16]);
    }

    #[test]
    fn the_beginning_of_an_instruction_on_the_next_page_is_none() {
        // nop; the first two bytes of a call.
        let block = block(0x1ffd, &[&[0x90], &[0xe8, 0x00]]);
        assert_eq!((block.ops.len(), block.end, block.exit), (1, 0x1ffe, Exit::Through));
    }

    #[test]
    fn descriptions_that_make_no_sense_are_none() {
        for words in [&[][..], &[0x1000], &[0x1000, 0], &[0x1000, 1 << 40 | 1], &[0x1000, 5 << 32 | 1, 9]] {
            assert!(Block::new(words, None, true).is_none(), "{words:?}");
        }
    }
}
