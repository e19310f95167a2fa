//! Registers and flags that AArch64 instructions other than loads and stores use.
//!
//! The first operand is the destination, the others are sources. Exceptions are listed here by name.

use yaxpeax_arm::armv8::a64::{Instruction, Operand};

use super::{Group, Word, ZERO};
use crate::registers::{A64_LR, A64_SP, A64_VEC};
use crate::{Class, Instr, Reg};

/// Adds the registers of `named` to `instr`, whose class is already set.
pub(super) fn fill_registers(named: &Instruction, group: Group, instr: &mut Instr) {
    let name = instr.opcode;
    let name = name.name();
    for (i, operand) in named.operands.iter().enumerate() {
        let destination = i == 0 && has_destination(name, group);
        let partial = matches!(operand, Operand::SIMDRegisterElementsLane(..));
        let immediate = matches!(named.operands[1], Operand::Imm16(_) | Operand::ImmShift(..));
        for reg in registers(operand) {
            if destination {
                instr.writes.insert(reg);
            }
            if !destination || partial || keeps_destination(name, immediate) {
                instr.reads.insert(reg);
            }
        }
    }
    if instr.class == Class::Return && named.operands[0] == Operand::Nothing && name.starts_with("reta") {
        instr.reads.insert(Reg(A64_LR));
        instr.reads.insert(Reg(A64_SP));
    }
    // These authenticate the return address with the stack pointer as modifier.
    if matches!(
        name,
        "paciasp" | "pacibsp" | "autiasp" | "autibsp" | "paciaz" | "pacibz" | "autiaz" | "autibz"
    ) {
        instr.reads.insert(Reg(A64_LR));
        instr.writes.insert(Reg(A64_LR));
        if name.ends_with("sp") {
            instr.reads.insert(Reg(A64_SP));
        }
    }
}

/// Sets the use of the condition flags, and whether the effect depends on a condition.
pub(super) fn fill_flags(word: Word, instr: &mut Instr) {
    let opcode = instr.opcode;
    let name = opcode.name();
    let conditional_compare = matches!(name, "ccmp" | "ccmn" | "fccmp" | "fccmpe");
    let select = matches!(name, "csel" | "csinc" | "csinv" | "csneg" | "fcsel");
    // msr nzcv and mrs nzcv
    let (to_flags, from_flags) = (word.is(0xffff_ffe0, 0xd51b_4200), word.is(0xffff_ffe0, 0xd53b_4200));
    // cfinv, xaflag, axflag
    let inverts = word.is(0xffff_ff1f, 0xd500_401f) && word.bits(7, 5) < 3;
    let with_carry = matches!(name, "adc" | "adcs" | "sbc" | "sbcs");
    instr.conditional |= conditional_compare || select;
    instr.writes_flags = conditional_compare
        || to_flags
        || inverts
        || matches!(name, "adds" | "subs" | "ands" | "bics" | "adcs" | "sbcs" | "subps")
        || matches!(name, "fcmp" | "fcmpe" | "setf8" | "setf16" | "rmif");
    instr.reads_flags = conditional_compare
        || select
        || with_carry
        || from_flags
        || inverts
        || name.starts_with("b.")
        || name.starts_with("bc.");
}

/// Whether the first operand is written.
pub(super) fn has_destination(name: &str, group: Group) -> bool {
    match group {
        Group::Branch => matches!(name, "mrs" | "sysl"),
        _ => !matches!(
            name,
            "ccmp" | "ccmn" | "fcmp" | "fcmpe" | "fccmp" | "fccmpe" | "setf8" | "setf16" | "rmif"
        ),
    }
}

/// Whether part of the destination's old value goes into the new one. `immediate`: the first source is a constant.
pub(super) fn keeps_destination(name: &str, immediate: bool) -> bool {
    let any = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    match name {
        "movk" | "bfm" | "sli" | "sri" | "bsl" | "bit" | "bif" | "tbx" | "suqadd" | "usqadd" | "aese"
        | "aesd" => true,
        "orr" | "bic" => immediate,
        "sha1h" => false,
        // Narrowing into the upper half.
        _ if name.ends_with("n2") => true,
        _ => {
            any(&["mla", "mls", "aba", "adal", "sha1", "sha256", "sha512", "sm3tt", "sm3part", "sm4e"])
                || name.ends_with("dot")
                || name.ends_with("sra")
        }
    }
}

/// Returns the registers that an operand names, without the zero register.
fn registers(operand: &Operand) -> impl Iterator<Item = Reg> + use<> {
    let none = [None; 4];
    let general = |n: u16| (n != u16::from(ZERO)).then_some(n as u8);
    let vectors = |first: u16, count: u8| -> [Option<u8>; 4] {
        std::array::from_fn(|i| {
            (i < usize::from(count)).then_some(A64_VEC + ((first as u8).wrapping_add(i as u8) & 31))
        })
    };
    let list = match *operand {
        Operand::Register(_, n) | Operand::RegShift(_, _, _, n) => [general(n), None, None, None],
        Operand::RegisterOrSP(_, n) => [Some(n as u8), None, None, None],
        Operand::RegisterPair(_, n) => [general(n), general(n.wrapping_add(1)), None, None],
        Operand::SIMDRegister(_, n)
        | Operand::SIMDRegisterElements(_, n, _)
        | Operand::SIMDRegisterElementsLane(_, n, _, _)
        | Operand::SIMDRegisterElementsMultipleLane(_, n, _, _, _) => vectors(n, 1),
        Operand::SIMDRegisterGroup(_, n, _, count) | Operand::SIMDRegisterGroupLane(n, _, count, _) => {
            vectors(n, count)
        }
        _ => none,
    };
    list.into_iter().flatten().map(Reg)
}
