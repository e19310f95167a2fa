//! x86, 32 and 64 bits: iced-x86's model of an instruction in our words.
//!
//! iced knows which registers, flags and memory an instruction touches, implicit ones included; this file only
//! translates. What categories an instruction has is decided next door, in `categories`.

mod categories;
mod dependencies;
mod work;

use std::fmt::Write as _;

use iced_x86::{
    Code, Decoder, DecoderError, DecoderOptions, FlowControl, Formatter, FormatterOptions, GasFormatter,
    Instruction, InstructionInfoFactory, IntelFormatter, MemorySizeOptions, Mnemonic, OpAccess, OpKind,
    Register, RflagsBits, UsedMemory,
};

use crate::regdeps::Operands;
use crate::registers::{
    X86_BND, X86_CR, X86_DR, X86_K, X86_MM, X86_RIP, X86_SEG, X86_ST, X86_TMM, X86_TR, X86_VEC,
};
use crate::{Access, Class, DecodeError, Instr, Mem, Opcode, Reg, Syntax, Work};

/// The flags that arithmetic sets and branches read.
const ARITHMETIC: u32 =
    RflagsBits::CF | RflagsBits::PF | RflagsBits::AF | RflagsBits::ZF | RflagsBits::SF | RflagsBits::OF;

/// Bytes of the longest instruction.
const MAX_LEN: usize = 15;

/// Column of the first operand, as GNU objdump pads mnemonics.
const OPERAND_COLUMN: u32 = 7;

/// A decoder for one width and one syntax.
pub(crate) struct X86 {
    bits: u32,
    syntax: Syntax,
    info: InstructionInfoFactory,
    bases: categories::Bases,
    known: work::Known,
}

impl X86 {
    /// `bits` is 32 or 64.
    pub(crate) fn new(bits: u32, syntax: Syntax) -> X86 {
        X86 {
            bits,
            syntax,
            info: InstructionInfoFactory::new(),
            bases: categories::Bases::new(),
            known: work::Known::default(),
        }
    }

    pub(crate) fn decode(&mut self, pc: u64, bytes: &[u8]) -> Result<Instr, DecodeError> {
        let code = self.instruction(pc, bytes)?;
        // At most MAX_LEN.
        let mut instr = Instr::new(code.len() as u8, Opcode::new(format_args!("{:?}", code.mnemonic())));
        instr.class = class(&code);
        instr.target = target(&code);
        // A system call saves and restores all flags, which is no dependency.
        let flags = if instr.class == Class::Syscall { 0 } else { ARITHMETIC };
        instr.reads_flags = code.rflags_read() & flags != 0;
        instr.writes_flags = code.rflags_modified() & flags != 0;
        instr.repeated = code.is_string_instruction() && (code.has_rep_prefix() || code.has_repne_prefix());
        instr.conditional = instr.class == Class::ConditionalJump
            || code.condition_code() != iced_x86::ConditionCode::None
            || code.op_mask() != Register::None;
        let info = self.info.info(&code);
        for used in info.used_registers() {
            let Some(reg) = register(used.register()) else { continue };
            let (reads, writes) = directions(used.access());
            if reads {
                instr.reads.insert(reg);
            }
            if writes {
                instr.writes.insert(reg);
            }
        }
        // Sources come before destinations.
        let is_write = |used: &&UsedMemory| directions(used.access()) == (false, true);
        let used = info.used_memory();
        for used in used.iter().filter(|used| !is_write(used)).chain(used.iter().filter(is_write)) {
            instr.push_mem(memory(&code, used, self.bits));
        }
        if let Some(access) = hint(code.mnemonic()) {
            instr.mems = Instr::new(0, instr.opcode).mems;
            instr.push_mem(hinted(&code, access, self.bits));
        }
        let base = self.bases.get(&code, &instr);
        instr.categories = categories::of(&code, &instr, base);
        Ok(instr)
    }

    /// What an instruction computes, which was decoded to `instr`.
    pub(crate) fn work(&mut self, instr: &Instr, pc: u64, bytes: &[u8]) -> Option<Work> {
        let code = self.instruction(pc, bytes).ok()?;
        work::of(&code, instr, self.info.info(&code), &mut self.known)
    }

    /// Appends the text; false if the bytes are no instruction.
    pub(crate) fn text(&mut self, pc: u64, bytes: &[u8], out: &mut String) -> bool {
        let Ok(code) = self.instruction(pc, bytes) else { return false };
        // iced's formatters cannot move between threads, so they are made where they are used.
        match self.syntax {
            Syntax::Att => write(GasFormatter::new(), &code, out),
            Syntax::Intel => write(IntelFormatter::new(), &code, out),
        }
        true
    }

    /// The instruction in the terms of REGDEPS.
    pub(crate) fn operands(&mut self, pc: u64, bytes: &[u8]) -> Result<Operands, DecodeError> {
        let code = self.instruction(pc, bytes)?;
        let mut bare = code;
        bare.set_op_mask(Register::None);
        let unmasked = self.info.info(&bare).op0_access();
        Ok(dependencies::operands(&code, unmasked, self.info.info(&code)))
    }

    fn instruction(&self, pc: u64, bytes: &[u8]) -> Result<Instruction, DecodeError> {
        let decode = |bytes: &[u8]| {
            let mut decoder = Decoder::with_ip(self.bits, bytes, pc, DecoderOptions::MPX);
            let code = decoder.decode();
            (code, decoder.last_error())
        };
        match decode(bytes) {
            (code, DecoderError::None) => Ok(code),
            (_, DecoderError::NoMoreBytes) => {
                // iced reads on before it refuses an operation: see whether more bytes could have helped.
                let mut padded = [0; MAX_LEN];
                padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                match decode(&padded).1 {
                    DecoderError::None => Err(DecodeError::Truncated),
                    _ => Err(DecodeError::Invalid),
                }
            }
            _ => Err(DecodeError::Invalid),
        }
    }
}

fn write(mut formatter: impl Formatter, code: &Instruction, out: &mut String) {
    like_objdump(formatter.options_mut());
    // What the encoding holds is shown, even a scale of one and a displacement of zero.
    formatter.options_mut().set_always_show_scale(code.memory_index() != Register::None);
    formatter.options_mut().set_show_zero_displacements(code.memory_displ_size() != 0);
    let start = out.len();
    formatter.format(code, out);
    // Operations on the stack have one width in 64-bit code, so objdump stopped naming it.
    for (long, short) in [("callq ", "call  "), ("jmpq ", "jmp  "), ("pushq ", "push  "), ("popq ", "pop  ")]
    {
        if out[start..].starts_with(long) {
            out.replace_range(start..start + long.len(), short);
        }
    }
    if code.is_ip_rel_memory_operand() {
        // Writing to a string cannot fail.
        _ = write!(out, "        # {:#x}", code.ip_rel_memory_address());
    }
}

/// Numbers as `0x1f`, targets absolute, mnemonics padded.
fn like_objdump(options: &mut FormatterOptions) {
    options.set_first_operand_char_index(OPERAND_COLUMN);
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_uppercase_keywords(true);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_branch_leading_zeros(false);
    options.set_space_after_operand_separator(false);
    options.set_rip_relative_addresses(true);
    options.set_memory_size_options(MemorySizeOptions::Always);
    options.set_show_branch_size(false);
}

fn class(code: &Instruction) -> Class {
    match code.code() {
        Code::Int_imm8 if code.immediate8() == 0x80 => return Class::Syscall,
        Code::Syscall | Code::Sysenter => return Class::Syscall,
        _ => {}
    }
    match code.flow_control() {
        FlowControl::Next => Class::Other,
        FlowControl::UnconditionalBranch => Class::DirectJump,
        FlowControl::IndirectBranch => Class::IndirectJump,
        FlowControl::ConditionalBranch => Class::ConditionalJump,
        FlowControl::XbeginXabortXend if code.mnemonic() == Mnemonic::Xbegin => Class::ConditionalJump,
        FlowControl::XbeginXabortXend => Class::Other,
        FlowControl::Return => Class::Return,
        FlowControl::Call if code.is_call_near() || code.is_call_far() => Class::DirectCall,
        FlowControl::IndirectCall => Class::IndirectCall,
        // Calls into a hypervisor come back like a trap.
        FlowControl::Call | FlowControl::Interrupt | FlowControl::Exception => Class::Trap,
    }
}

/// The place in the encoding that a direct branch goes to. Far pointers carry a segment: no flat address.
fn target(code: &Instruction) -> Option<u64> {
    match code.op0_kind() {
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 if code.op_count() > 0 => {
            Some(code.near_branch_target())
        }
        _ => None,
    }
}

/// Whether the access reads, and whether it writes.
fn directions(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::None | OpAccess::NoMemAccess => (false, false),
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write | OpAccess::CondWrite => (false, true),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
    }
}

fn memory(code: &Instruction, used: &UsedMemory, bits: u32) -> Mem {
    let access = match directions(used.access()) {
        // These also look at the header of the area they write. QUIRK: DynamoRIO calls them plain writes.
        (true, true) if saves_state(code.mnemonic()) => Access::Write,
        (true, true) => Access::ReadWrite,
        (false, true) => Access::Write,
        _ => Access::Read,
    };
    // Of a repeated operation iced leaves the size open, because the count is; ours is that of one iteration.
    let bytes = match used.memory_size().size() {
        0 if code.is_string_instruction() => code.memory_size().size(),
        bytes => bytes,
    };
    let (base, index) = (register(used.base()), register(used.index()));
    Mem {
        segment: meaningful_segment(used.segment(), bits),
        base,
        index,
        scale: used.scale() as u8,
        disp: displacement(used.displacement(), base.or(index).is_some(), bits),
        bytes: bytes as u16,
        access,
    }
}

/// A displacement as a signed number. iced keeps it in as many bits as addresses have; alone it is an address.
fn displacement(stored: u64, relative: bool, bits: u32) -> i64 {
    if relative && bits == 32 { i64::from((stored as u32).cast_signed()) } else { stored.cast_signed() }
}

/// The family that writes an extended-state area.
fn saves_state(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{Xsave, Xsave64, Xsavec, Xsavec64, Xsaveopt, Xsaveopt64, Xsaves, Xsaves64};
    matches!(mnemonic, Xsave | Xsave64 | Xsavec | Xsavec64 | Xsaveopt | Xsaveopt64 | Xsaves | Xsaves64)
}

/// In 64-bit code only `fs` and `gs` have a base.
fn meaningful_segment(segment: Register, bits: u32) -> Option<Reg> {
    match segment {
        Register::FS | Register::GS => register(segment),
        _ if bits == 64 => None,
        _ => register(segment),
    }
}

/// Operations that name a cache line instead of data.
fn hint(mnemonic: Mnemonic) -> Option<Access> {
    match mnemonic {
        Mnemonic::Prefetch
        | Mnemonic::Prefetchit0
        | Mnemonic::Prefetchit1
        | Mnemonic::Prefetchnta
        | Mnemonic::Prefetcht0
        | Mnemonic::Prefetcht1
        | Mnemonic::Prefetcht2
        | Mnemonic::Prefetchw
        | Mnemonic::Prefetchwt1 => Some(Access::Prefetch),
        Mnemonic::Cldemote | Mnemonic::Clflush | Mnemonic::Clflushopt | Mnemonic::Clwb => Some(Access::Flush),
        _ => None,
    }
}

/// The memory operand of a hint, which iced does not count as memory used.
fn hinted(code: &Instruction, access: Access, bits: u32) -> Mem {
    // For pc-relative operands iced gives the absolute address as displacement.
    let base = if code.is_ip_rel_memory_operand() { None } else { register(code.memory_base()) };
    let index = register(code.memory_index());
    Mem {
        segment: meaningful_segment(code.memory_segment(), bits),
        base,
        index,
        scale: code.memory_index_scale() as u8,
        disp: displacement(code.memory_displacement64(), base.or(index).is_some(), bits),
        bytes: 1,
        access,
    }
}

/// Our number for a register's container.
fn register(register: Register) -> Option<Reg> {
    // The numbers of each class are below 32.
    let number = register.number() as u8;
    let first = match register {
        Register::None => return None,
        r if r.is_gpr() => return Some(Reg(register.full_register().number() as u8)),
        r if r.is_ip() => return Some(Reg(X86_RIP)),
        r if r.is_segment_register() => X86_SEG,
        r if r.is_mm() => X86_MM,
        r if r.is_vector_register() => X86_VEC,
        r if r.is_st() => X86_ST,
        r if r.is_k() => X86_K,
        r if r.is_cr() => X86_CR,
        r if r.is_dr() => X86_DR,
        r if r.is_tr() => X86_TR,
        r if r.is_bnd() => X86_BND,
        r if r.is_tmm() => X86_TMM,
        _ => return None,
    };
    Some(Reg(first + number))
}
