//! Registers and source sizes of an AArch64 instruction in the terms of REGDEPS, under the register numbers of DynamoRIO's
//! converter.
//!
//! SPEC: drmemtrace.md#regdeps-encodings.
//!
//! The registers are those of [`decode`](super::decode): for loads and stores from the fields of the encoding, for other
//! instructions from the operands of yaxpeax-arm. The zero register is no dependency and has no number here. Of scalable
//! vectors and matrices, only the address of a load or store is known.

use yaxpeax_arm::armv8::a64::{Instruction, Operand, SIMDSizeCode, SizeCode};

use super::data::{has_destination, keeps_destination};
use super::{Group, Word, ZERO, name};
use crate::regdeps::Operands;
use crate::registers::{A64_PRED, A64_VEC};
use crate::{Access, Categories, DecodeError, Instr, Reg};

/// First number of each group of registers. The stack pointer follows the general ones, as in our own numbers.
const GENERAL: u8 = 2;
const VECTOR: u8 = 35;

/// System registers that programs may use, each as the fields `op0` to `op2` of its name, and its number.
const SYSTEM: [(u32, u8); 11] = [
    (system(3, 4, 2, 0), 67),   // nzcv
    (system(3, 4, 4, 0), 68),   // fpcr
    (system(3, 4, 4, 1), 69),   // fpsr
    (system(3, 0, 0, 1), 80),   // ctr_el0
    (system(3, 0, 0, 7), 81),   // dczid_el0
    (system(3, 2, 4, 0), 82),   // rndr
    (system(3, 2, 4, 1), 83),   // rndrrs
    (system(3, 14, 0, 0), 104), // cntfrq_el0
    (system(3, 13, 0, 2), 179), // tpidr_el0
    (system(3, 13, 0, 3), 180), // tpidrro_el0
    (system(3, 14, 0, 2), 199), // cntvct_el0: no register has number 187
];

/// Returns bits 19 to 5 of `mrs` and `msr` for the register `S3_op1_Cn_Cm_op2`.
const fn system(op1: u32, n: u32, m: u32, op2: u32) -> u32 {
    1 << 14 | op1 << 11 | n << 7 | m << 3 | op2
}

/// Returns the registers and sizes of the operands of the instruction at the front of `bytes`; `instr` is its decoded form.
pub(crate) fn operands(instr: &Instr, bytes: &[u8]) -> Result<Operands, DecodeError> {
    let word = Word::from_bytes(bytes)?;
    let mut operands = Operands::default();
    instr.writes.iter().for_each(|reg| operands.write(number(reg)));
    instr.reads.iter().for_each(|reg| operands.read(number(reg), 0));
    // The encoding groups put clearing of a block under branches, and an atomic update under loads or stores only. In
    // REGDEPS only the category shows an access to memory.
    if instr.reads_memory() {
        operands.category(Categories::LOAD);
    }
    if instr.writes_memory() {
        operands.category(Categories::STORE);
    }
    let group = word.group();
    match (group, name(word)) {
        (Group::Memory, _) => operands.source(memory_bytes(word, instr)),
        (Group::Scalable | Group::Matrix, _) | (_, None) => {}
        // Cache maintenance uses its register as an address.
        (Group::Branch, _) if !instr.mems().is_empty() => {}
        (_, Some(named)) => operands.source(named_bytes(&named, group, instr)),
    }
    if word.is(0xffd0_0000, 0xd510_0000) {
        // msr, or mrs with bit 21
        let name = word.bits(19, 5);
        let register = SYSTEM.iter().find(|(field, _)| *field == name).map(|(_, number)| *number);
        if word.bit(21) {
            operands.read(register, 8);
            operands.source(8);
        } else {
            operands.write(register);
        }
    }
    Ok(operands)
}

/// Returns the REGDEPS number of a register.
fn number(reg: Reg) -> Option<u8> {
    match reg.0 {
        general @ 0..A64_VEC => Some(GENERAL + general),
        vector @ A64_VEC..A64_PRED => Some(VECTOR + (vector - A64_VEC)),
        _ => None,
    }
}

/// Returns the bytes of the largest source of a load or store: data from memory, data to memory, or a base that is changed.
/// Registers that are only part of an address do not count.
fn memory_bytes(word: Word, instr: &Instr) -> usize {
    let from_memory = instr.mems().iter().filter(|mem| mem.access.is_read()).map(|mem| mem.bytes);
    let mut most = usize::from(from_memory.max().unwrap_or(0));
    let moved = instr.mems().first().filter(|mem| mem.access.is_write());
    let bytes = moved.map_or(0, |mem| usize::from(mem.bytes));
    let is_vector = word.bit(26);
    let is_structure = is_vector && word.bits(29, 28) == 0;
    let is_lane = is_structure && word.bit(24);
    let is_pair = word.bits(29, 28) == 0b10 || (!is_vector && word.is(0x3fa0_0000, 0x0820_0000));
    most = most.max(match (bytes, is_vector) {
        // A lane is part of a register, and the operand names the whole register.
        _ if is_lane && (moved.is_some() || instr.reads.iter().any(is_vector_register)) => 16,
        (0, _) => 0,
        (_, true) if is_structure => {
            if word.bit(30) {
                16
            } else {
                8
            }
        }
        (_, true) if is_pair => bytes / 2,
        (_, true) => bytes,
        // General registers are named as words or double words.
        (_, false) if is_pair => (bytes / 2).clamp(4, 8),
        (_, false) => bytes.clamp(4, 8),
    });
    let base = instr.mems().first().and_then(|mem| mem.base);
    let changes_base = base.is_some_and(|base| instr.writes.contains(base));
    let is_load = instr.mems().first().is_some_and(|mem| mem.access == Access::Read);
    // A load into its own base counts as no change of the base: its form of indexing tells it from a load that changes one.
    let is_same = is_load && !is_vector && base == Some(Reg(word.reg(0))) && word.reg(0) != ZERO;
    if changes_base && !is_same { most.max(8) } else { most }
}

fn is_vector_register(reg: Reg) -> bool {
    (A64_VEC..A64_PRED).contains(&reg.0)
}

/// Returns the bytes of the largest source operand of an instruction other than a load or store.
fn named_bytes(named: &Instruction, group: Group, instr: &Instr) -> usize {
    let opcode = instr.opcode.name();
    let immediate = matches!(named.operands[1], Operand::Imm16(_) | Operand::ImmShift(..));
    let is_source = |i: usize, operand: &Operand| {
        i > 0
            || !has_destination(opcode, group)
            || matches!(operand, Operand::SIMDRegisterElementsLane(..))
            || keeps_destination(opcode, immediate)
    };
    let sources = named.operands.iter().enumerate().filter(|(i, operand)| is_source(*i, operand));
    sources.map(|(_, operand)| bytes(operand)).max().unwrap_or(0)
}

/// Returns the bytes of an operand; for a constant, those of its field. A vector register counts whole even if only one lane
/// is named.
fn bytes(operand: &Operand) -> usize {
    match *operand {
        Operand::Register(size, _)
        | Operand::RegisterOrSP(size, _)
        | Operand::RegisterPair(size, _)
        | Operand::RegShift(_, _, size, _) => match size {
            SizeCode::W => 4,
            SizeCode::X => 8,
        },
        Operand::SIMDRegister(size, _)
        | Operand::SIMDRegisterElements(size, ..)
        | Operand::SIMDRegisterGroup(size, ..) => match size {
            SIMDSizeCode::B => 1,
            SIMDSizeCode::H => 2,
            SIMDSizeCode::S => 4,
            SIMDSizeCode::D => 8,
            SIMDSizeCode::Q => 16,
        },
        Operand::SIMDRegisterElementsLane(..)
        | Operand::SIMDRegisterElementsMultipleLane(..)
        | Operand::SIMDRegisterGroupLane(..) => 16,
        Operand::Imm16(_) | Operand::ImmShift(..) => 2,
        Operand::Immediate(_)
        | Operand::Imm64(_)
        | Operand::ImmediateDouble(_)
        | Operand::ImmShiftMSL(..) => 1,
        _ => 0,
    }
}
