//! Registers and source sizes of an x86 instruction in the terms of REGDEPS.
//!
//! As in DynamoRIO, dependencies are those of the operands as the instruction set lists them, not those of the result: `xor`
//! of a register with itself reads it, and a conditional move does not read its destination.

use iced_x86::{
    Code, EncodingKind, Instruction, InstructionInfo, MemorySize, Mnemonic, OpAccess, OpKind, Register,
};

use crate::regdeps::Operands;

/// First number of each group of registers.
const GENERAL: u8 = 2;
const MMX: u8 = 18;
const STACK: u8 = 26;
const SEGMENT: u8 = 34;
const DEBUG: u8 = 40;
const CONTROL: u8 = 56;
const VECTOR: u8 = 72;
const MASK: u8 = 104;
const BOUND: u8 = 112;

/// Returns the registers and sizes of the operands. `unmasked` is the access to the first operand without a mask, since a
/// destination does not become a source through elements that a mask keeps.
pub(super) fn operands(code: &Instruction, unmasked: OpAccess, info: &InstructionInfo) -> Operands {
    let mut operands = Operands::default();
    let mnemonic = code.mnemonic();
    if let Some(register) = hinted(mnemonic) {
        operands.read(number(register), 4);
        return operands;
    }
    if code.is_string_instruction()
        && (code.has_rep_prefix() || code.has_repne_prefix())
        && code.rflags_modified() & super::ARITHMETIC != 0
    {
        // Every iteration except the first depends on the preceding comparison.
        operands.read_flags();
    }
    let n_operands = code.op_count();
    let mut explicit = [Register::None; 5];
    let is_same = n_operands >= 2
        && code.op_kind(0) == OpKind::Register
        && code.op_kind(1) == OpKind::Register
        && code.op_register(0) == code.op_register(1);
    for i in 0..n_operands {
        let access = if i == 0 { unmasked } else { info.op_access(i) };
        let (mut reads, mut writes) = directions(access);
        match code.op_kind(i) {
            OpKind::Register => {
                let register = code.op_register(i);
                explicit[i as usize % explicit.len()] = register;
                if access == OpAccess::None || is_same && i == 0 && writes && is_idiom(mnemonic) {
                    // iced treats the operand as unused, because the result does not depend on it or the instruction has no
                    // effect.
                    reads = true;
                }
                if i == 0 && keeps_destination(code) {
                    (reads, writes) = (false, true);
                }
                if reads {
                    operands.read(number(register), register_bytes(code, register));
                }
                if writes && access != OpAccess::None {
                    operands.write(number(register));
                }
            }
            OpKind::Immediate8 | OpKind::Immediate8to16 | OpKind::Immediate8to32 | OpKind::Immediate8to64 => {
                operands.source(1);
            }
            OpKind::Immediate8_2nd => operands.source(1),
            OpKind::Immediate16 => operands.source(2),
            OpKind::Immediate32 | OpKind::Immediate32to64 => operands.source(4),
            OpKind::Immediate64 => operands.source(8),
            OpKind::Memory => {
                let names = [code.memory_base(), code.memory_index()];
                for register in names.into_iter().filter(|register| !register.is_ip()) {
                    operands.read(number(register), 0);
                }
                if matches!(code.memory_segment(), Register::FS | Register::GS) {
                    operands.read(number(code.memory_segment()), 0);
                }
                let is_hint = access == OpAccess::NoMemAccess || access == OpAccess::None;
                if (reads || is_hint) && mnemonic != Mnemonic::Lea {
                    operands.source(memory_bytes(code));
                }
            }
            _ => {}
        }
    }
    if code.encoding() == EncodingKind::EVEX && code.op_mask() == Register::None && takes_mask(mnemonic) {
        // Without a mask, DynamoRIO lists the first mask register, which stands for no mask.
        operands.read(Some(MASK), 0);
    }
    if mnemonic == Mnemonic::Leave {
        // The stack pointer is copied from the frame pointer, but the operands also list its old value.
        operands.read(number(Register::RSP), 8);
    }
    if matches!(mnemonic, Mnemonic::Vzeroupper | Mnemonic::Vzeroall) {
        return operands;
    }
    if code.is_string_instruction() {
        // The memory operands list their segments, even where these have no effect.
        for i in 0..n_operands {
            match code.op_kind(i) {
                OpKind::MemoryESDI | OpKind::MemoryESEDI | OpKind::MemoryESRDI => {
                    operands.read(number(Register::ES), 0);
                }
                OpKind::MemorySegSI | OpKind::MemorySegESI | OpKind::MemorySegRSI => {
                    operands.read(number(code.memory_segment()), 0);
                }
                _ => {}
            }
        }
    }
    floating_stack(code, &mut operands);
    for used in info.used_registers() {
        let register = used.register();
        let full = register.full_register();
        if register.is_segment_register() && !matches!(register, Register::FS | Register::GS) {
            // In 32-bit code every access has a segment, which its operand does not list.
            continue;
        }
        let (mut reads, writes) = directions(used.access());
        if explicit.iter().any(|named| *named != Register::None && named.full_register() == full)
            && !is_stack(full)
        {
            // The explicit operand decides whether the register is read. An implicit write counts in addition.
            reads = false;
        }
        let is_address =
            [code.memory_base(), code.memory_index()].iter().any(|name| name.full_register() == full);
        if reads {
            let is_address = is_address || register.is_segment_register();
            let bytes = match mnemonic {
                _ if is_address => 0,
                // `cdqe` shares a row of DynamoRIO's table with `cwde`, and the row lists the source of `cwde`.
                Mnemonic::Cdqe => 2,
                _ => register.size(),
            };
            operands.read(number(register), bytes);
        }
        if writes {
            operands.write(number(register));
        }
    }
    for used in info.used_memory() {
        if directions(used.access()).0 && used.memory_size() != MemorySize::Unknown {
            operands.source(used.memory_size().size());
        }
    }
    operands
}

/// Adds the registers of the x87 stack that an operation uses without naming them. Register names count from the top of the
/// stack, so that equal names mean the same register only until a push or pop. DynamoRIO ignores this.
fn floating_stack(code: &Instruction, operands: &mut Operands) {
    use Mnemonic::*;
    const NONE: &[u8] = &[];
    let (top, both): (&[u8], &[u8]) = (&[0], &[0, 1]);
    let (reads, writes) = match code.mnemonic() {
        Fld | Fild | Fbld | Fld1 | Fldl2t | Fldl2e | Fldpi | Fldlg2 | Fldln2 | Fldz => (NONE, top),
        Fst | Fstp | Fist | Fistp | Fisttp | Fbstp | Ftst | Fxam => (top, NONE),
        // Their forms with registers name all registers that they use.
        Fcom | Fcomp | Ficom | Ficomp if code.op0_kind() == OpKind::Memory => (top, NONE),
        Fadd | Fmul | Fsub | Fsubr | Fdiv | Fdivr | Fiadd | Fimul | Fisub | Fisubr | Fidiv | Fidivr
            if code.op0_kind() == OpKind::Memory =>
        {
            (top, top)
        }
        Fcompp | Fucompp => (both, NONE),
        Fchs | Fabs | Fsqrt | Frndint | Fsin | Fcos | F2xm1 => (top, top),
        Fprem | Fprem1 | Fscale => (both, top),
        Fpatan | Fyl2x | Fyl2xp1 => (both, both),
        Fptan | Fsincos | Fxtract => (top, both),
        _ => return,
    };
    reads.iter().for_each(|n| operands.read(Some(STACK + n), 10));
    writes.iter().for_each(|n| operands.write(Some(STACK + n)));
}

fn is_stack(register: Register) -> bool {
    register == Register::RSP
}

fn is_idiom(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{Pxor, Sbb, Sub, Vpxor, Vxorpd, Vxorps, Xor, Xorpd, Xorps};
    matches!(mnemonic, Xor | Sub | Sbb | Pxor | Xorps | Xorpd | Vpxor | Vxorps | Vxorpd)
}

/// Whether an operation keeps part of its destination, or all of it if a condition fails, while DynamoRIO does not list the
/// destination as read.
fn keeps_destination(code: &Instruction) -> bool {
    use Mnemonic::{Movhlps, Movhpd, Movhps, Movlhps, Movlpd, Movlps, Vpternlogd};
    let mnemonic = code.mnemonic();
    if matches!(mnemonic, Movhpd | Movhps | Movlpd | Movlps | Movhlps | Movlhps | Vpternlogd) {
        return true;
    }
    let name = format!("{mnemonic:?}");
    let is_gather = || name.starts_with("Vgather") || name.starts_with("Vpgather");
    name.starts_with("Cmov") || name.starts_with("Cvtsi2s") || is_gather()
}

/// Returns the register in the last byte of a hint. Processors that do not know the hint, and DynamoRIO, take that register
/// as the operand of a no-op.
fn hinted(mnemonic: Mnemonic) -> Option<Register> {
    match mnemonic {
        Mnemonic::Endbr64 => Some(Register::EDX),
        Mnemonic::Endbr32 => Some(Register::EBX),
        _ => None,
    }
}

/// Whether an EVEX instruction takes a mask: those that move single elements do not.
fn takes_mask(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{Vmovd, Vmovq, Vpextrb, Vpextrd, Vpextrq, Vpextrw, Vpinsrb, Vpinsrd, Vpinsrq, Vpinsrw};
    !matches!(
        mnemonic,
        Vmovd | Vmovq | Vpextrb | Vpextrd | Vpextrq | Vpextrw | Vpinsrb | Vpinsrd | Vpinsrq | Vpinsrw
    )
}

/// Bytes of a memory operand.
fn memory_bytes(code: &Instruction) -> usize {
    // In DynamoRIO's tables the operand of a no-op has a fixed size, whatever its prefixes.
    if code.mnemonic() == Mnemonic::Nop { 4 } else { code.memory_size().size() }
}

/// Returns the bytes of a register that are a source. A scalar operation takes only the lowest element of a vector register.
fn register_bytes(code: &Instruction, register: Register) -> usize {
    use Mnemonic::{Movd, Movq, Pextrq, Pinsrq, Vmovd, Vmovq, Vpbroadcastb, Vpbroadcastw, Vpextrq, Vpinsrq};
    let to_general = matches!(code.code(), Code::Movq_rm64_xmm | Code::EVEX_Vmovq_rm64_xmm);
    match code.mnemonic() {
        // DynamoRIO's table has one row for both widths.
        Movq | Vmovq if to_general => 4,
        Vpbroadcastb | Vpbroadcastw if register.is_gpr() => 8,
        Movd | Vmovd if register.is_xmm() => 4,
        Movq | Vmovq | Pinsrq | Vpinsrq | Pextrq | Vpextrq if register.is_xmm() => 8,
        mnemonic if register.is_xmm() => scalar_bytes(mnemonic).unwrap_or(16),
        _ => register.size(),
    }
}

/// Returns the bytes of the element that a scalar floating-point operation takes, from its name.
fn scalar_bytes(mnemonic: Mnemonic) -> Option<usize> {
    let name = format!("{mnemonic:?}").to_ascii_lowercase();
    let bare = name.strip_prefix('v').unwrap_or(&name);
    match () {
        () if bare.starts_with('p') => None,
        () if bare.ends_with("sd") || bare.contains("sd2") => Some(8),
        () if bare.ends_with("ss") || bare.contains("ss2") => Some(4),
        () => None,
    }
}

fn directions(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write | OpAccess::CondWrite => (false, true),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        OpAccess::None | OpAccess::NoMemAccess => (false, false),
    }
}

/// Returns the REGDEPS number of the register that contains this one; `None` if it has none.
fn number(register: Register) -> Option<u8> {
    let number = register.number() as u8; // Below 32 in each group.
    match register {
        Register::None => None,
        r if r.is_gpr() => Some(GENERAL + r.full_register().number() as u8),
        r if r.is_vector_register() => Some(VECTOR + number),
        r if r.is_mm() => Some(MMX + number),
        r if r.is_st() => Some(STACK + number),
        r if r.is_segment_register() => Some(SEGMENT + number),
        r if r.is_k() => Some(MASK + number),
        r if r.is_dr() => Some(DEBUG + number),
        r if r.is_cr() => Some(CONTROL + number),
        r if r.is_bnd() => Some(BOUND + number),
        _ => None,
    }
}
