//! x86, 32 and 64 bits: translates iced-x86's model of an instruction into that of this crate.
//!
//! iced knows the registers, flags and memory that an instruction touches, including implicit ones; this file only
//! translates. Categories are assigned in `categories`.

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

/// The flags that arithmetic sets and conditional branches read.
const ARITHMETIC: u32 =
    RflagsBits::CF | RflagsBits::PF | RflagsBits::AF | RflagsBits::ZF | RflagsBits::SF | RflagsBits::OF;

/// Bytes of the longest instruction.
const MAX_LEN: usize = 15;

/// Column of the first operand, to which GNU objdump pads mnemonics.
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
    /// Returns a decoder; `bits` is 32 or 64.
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
        // A system call saves and restores all flags, which does not count as a dependency.
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

    /// Returns the computation of an instruction; `instr` is its decoded form.
    pub(crate) fn work(&mut self, instr: &Instr, pc: u64, bytes: &[u8]) -> Option<Work> {
        let code = self.instruction(pc, bytes).ok()?;
        work::of(&code, instr, self.info.info(&code), &mut self.known)
    }

    /// Appends the disassembly; returns false if the bytes are not an instruction.
    pub(crate) fn text(&mut self, pc: u64, bytes: &[u8], out: &mut String) -> bool {
        let Ok(code) = self.instruction(pc, bytes) else { return false };
        // iced's formatters cannot move between threads, so they are made where they are used.
        match self.syntax {
            Syntax::Att => write(GasFormatter::new(), &code, out),
            Syntax::Intel => write(IntelFormatter::new(), &code, out),
        }
        true
    }

    /// Returns the registers and sizes of the operands in the terms of REGDEPS.
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
                // iced reads further bytes before it rejects an operation, so check whether more bytes could have helped.
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
    // Show everything that is encoded, even a scale of one and a displacement of zero.
    formatter.options_mut().set_always_show_scale(code.memory_index() != Register::None);
    formatter.options_mut().set_show_zero_displacements(code.memory_displ_size() != 0);
    let start = out.len();
    formatter.format(code, out);
    // Stack operations have only one width in 64-bit code, so current objdump prints no suffix.
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

/// Sets numbers as `0x1f`, absolute targets and padded mnemonics.
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
        // Hypervisor calls return in the same way as traps.
        FlowControl::Call | FlowControl::Interrupt | FlowControl::Exception => Class::Trap,
    }
}

/// Returns the target in the encoding of a direct branch. Far pointers carry a segment, so they have no flat address.
fn target(code: &Instruction) -> Option<u64> {
    match code.op0_kind() {
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 if code.op_count() > 0 => {
            Some(code.near_branch_target())
        }
        _ => None,
    }
}

/// Returns whether the access reads, and whether it writes.
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
        // These also read the header of the area that they write. QUIRK: DynamoRIO treats them as plain writes.
        (true, true) if saves_state(code.mnemonic()) => Access::Write,
        (true, true) => Access::ReadWrite,
        (false, true) => Access::Write,
        _ => Access::Read,
    };
    // For a repeated operation iced leaves the size open, as it does not know the count; this crate gives the size of one
    // iteration.
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

/// Returns a displacement as a signed number. iced stores it with the width of an address; without a base it is an address.
fn displacement(stored: u64, relative: bool, bits: u32) -> i64 {
    if relative && bits == 32 { i64::from((stored as u32).cast_signed()) } else { stored.cast_signed() }
}

/// Whether the instruction belongs to the family that writes an extended-state area.
fn saves_state(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{Xsave, Xsave64, Xsavec, Xsavec64, Xsaveopt, Xsaveopt64, Xsaves, Xsaves64};
    matches!(mnemonic, Xsave | Xsave64 | Xsavec | Xsavec64 | Xsaveopt | Xsaveopt64 | Xsaves | Xsaves64)
}

/// Returns the segment register if its base matters; in 64-bit code only `fs` and `gs` have a base.
fn meaningful_segment(segment: Register, bits: u32) -> Option<Reg> {
    match segment {
        Register::FS | Register::GS => register(segment),
        _ if bits == 64 => None,
        _ => register(segment),
    }
}

/// Returns the access of operations that name a cache line instead of data; `None` for all others.
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

/// Returns the memory operand of a hint, which iced does not count as memory used.
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

/// Returns this crate's number for the register that contains this one.
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
