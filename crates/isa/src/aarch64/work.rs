//! Computations of AArch64 instructions: operation by name; width, format and sources from yaxpeax-arm's operands. Atomic
//! updates are recognized by their encoding.

use yaxpeax_arm::armv8::a64::{Instruction, Operand, SIMDSizeCode, SizeCode};

use super::data::{has_destination, keeps_destination};
use super::{Group, Word};
use crate::work::{Operations, Work, named};
use crate::{Class, Instr, Operation};

/// Number of the zero register in yaxpeax-arm's operands.
const ZERO_REGISTER: u16 = super::ZERO as u16;

/// Operations by patterns of architectural names.
const OPERATIONS: &Operations = &[
    (Operation::Other, "fmax* fmin* smax* smin* umax* umin* cmtst cmeq cmge cmgt cmhi cmhs cmle cmlt"),
    (
        Operation::Multiply,
        "mul mla mls madd msub smadd* umadd* smsub* umsub* fmul* fmadd fmsub fnmadd fnmsub fnmul fmla* fmls*",
    ),
    (
        Operation::Multiply,
        "smul* umul* sqdmul* sqrdml* sqrdmul* smlal* umlal* smlsl* umlsl* sqdmlal* sqdmlsl* pmul* sdot udot fcmla",
    ),
    (Operation::Multiply, "usdot sudot smmla ummla usmmla bfdot bfmmla bfmlal*"),
    (Operation::Divide, "sdiv udiv fdiv"),
    (
        Operation::Shift,
        "lslv lsrv asrv rorv ubfm sbfm shl sshl* ushl* sshr ushr srshr urshr ssra usra srsra ursra shrn* rshrn*",
    ),
    (
        Operation::Shift,
        "sqshl* uqshl* sqrshl* uqrshl* sqshrn* uqshrn* sqrshrn* uqrshrn* sqshrun* sqrshrun* srshl urshl sli sri extr",
    ),
    (
        Operation::Subtract,
        "sub subs sbc sbcs ccmp fsub fabd fcmp fcmpe fccmp fccmpe neg fneg ssubl* usubl* ssubw* usubw* subhn* rsubhn*",
    ),
    (Operation::Subtract, "sqsub uqsub shsub uhsub sqneg sabd* uabd* fcm??"),
    (
        Operation::Add,
        "add adds adc adcs ccmn adr adrp fadd addp addv faddp saddl* uaddl* saddw* uaddw* addhn* raddhn* sqadd uqadd shadd",
    ),
    (
        Operation::Add,
        "uhadd srhadd urhadd suqadd usqadd saddlp uaddlp sadalp uadalp saddlv uaddlv saba* uaba* fcadd",
    ),
    (
        Operation::Move,
        "mov movz movn movk fmov csel fcsel dup ins smov umov rev* ext tbl tbx trn1 trn2 uzp1 uzp2 zip1 zip2 xtn* sqxtn* uqxtn*",
    ),
    (Operation::Move, "sqxtun* sxtl* uxtl* fcvt* scvtf ucvtf fjcvtzs movi mvni"),
];

/// Returns the computation of an atomic update of memory, as for `xadd` and `cmpxchg` of x86. A swap computes nothing, as
/// `xchg` with memory.
pub(super) fn of_atomic(word: Word) -> Option<Work> {
    let work = |operation, is_float, bytes, arity| Some(Work { operation, is_float, bytes, arity });
    let bytes = 1 << word.bits(31, 30);
    let (is_vector, operation) = (word.bit(26), word.bits(14, 12));
    match () {
        // cas: the value in memory, the expected one and the new one.
        () if word.is(0x3fa0_7c00, 0x08a0_7c00) => work(Operation::Subtract, false, bytes, 3),
        // casp
        () if word.is(0xbfa0_7c00, 0x0820_7c00) => work(Operation::Subtract, false, 8 * bytes, 3),
        // ldclrp, ldsetp
        () if word.is(0xff20_fc00, 0x1920_1000) || word.is(0xff20_fc00, 0x1920_3000) => {
            work(Operation::Other, false, 16, 2)
        }
        // ldadd, then ldclr, ldeor, ldset, ldsmax, ldsmin, ldumax, ldumin. For floating-point numbers there are only sums,
        // minima and maxima.
        () if word.is(0x3b20_8c00, 0x3820_0000) => match (operation, is_vector) {
            (0, _) => work(Operation::Add, is_vector, bytes, 2),
            (1..4, true) => None,
            _ => work(Operation::Other, is_vector, bytes, 2),
        },
        () => None,
    }
}

/// Returns the computation of an instruction of these groups.
pub(super) fn of(named_as: &Instruction, group: Group, instr: &Instr) -> Option<Work> {
    if instr.class != Class::Other || !matches!(group, Group::Immediate | Group::Register | Group::Vector) {
        return None;
    }
    let opcode = instr.opcode;
    let name = opcode.name();
    let has_destination = has_destination(name, group);
    let first = &named_as.operands[0];
    let bytes = match has_destination {
        true => bytes(first),
        false => named_as.operands.iter().map(bytes).max().unwrap_or(0),
    };
    let immediate = matches!(named_as.operands[1], Operand::Imm16(_) | Operand::ImmShift(..));
    let is_lane = matches!(first, Operand::SIMDRegisterElementsLane(..));
    let keeps = has_destination && !is_lane && keeps_destination(name, immediate);
    let skip = usize::from(has_destination);
    let n_registers = named_as.operands.iter().skip(skip).filter(|operand| is_register(operand)).count();
    // Position and length of a bit field count as one constant. The constant of a conditional comparison is the value of the
    // flags if the condition fails: it is not an operand.
    let is_conditional = matches!(name, "ccmp" | "ccmn" | "fccmp" | "fccmpe") && n_registers == 2;
    let has_constant = !is_conditional && named_as.operands.iter().skip(skip).any(is_constant);
    let count = n_registers + usize::from(has_constant) + usize::from(keeps);
    // A copy of a register is `orr` with the zero register; a copy of a vector is `orr` of that vector with itself.
    let is_same = group == Group::Vector && named_as.operands[1] == named_as.operands[2];
    let is_copy =
        name == "orr" && (is_same || matches!(named_as.operands[1], Operand::Register(_, ZERO_REGISTER)));
    let operation = named(OPERATIONS, name).unwrap_or(Operation::Other);
    Some(Work {
        operation: if is_copy { Operation::Move } else { operation },
        is_float: is_float(name, first, group, has_destination),
        bytes,
        arity: if is_copy { 1 } else { count.clamp(1, 4) as u8 },
    })
}

/// Whether the result consists of floating-point numbers, or, if it is only flags, whether the operands do.
fn is_float(name: &str, first: &Operand, group: Group, has_destination: bool) -> bool {
    let into_general = has_destination
        && matches!(first, Operand::Register(..) | Operand::RegisterOrSP(..) | Operand::RegisterPair(..));
    if group != Group::Vector || into_general {
        return false;
    }
    if name == "scvtf" || name == "ucvtf" || name.starts_with("bf") {
        return true;
    }
    // Conversions to integers, and comparisons of elements, whose results are masks.
    let is_integer = matches!(name.as_bytes(), [b'f', b'c', b'v', b't', _, b's' | b'u', ..])
        || matches!(name, "fcmeq" | "fcmge" | "fcmgt" | "fcmle" | "fcmlt" | "facge" | "facgt");
    name.starts_with('f') && !is_integer
}

fn is_register(operand: &Operand) -> bool {
    matches!(
        operand,
        Operand::Register(..)
            | Operand::RegisterOrSP(..)
            | Operand::RegisterPair(..)
            | Operand::RegShift(..)
            | Operand::SIMDRegister(..)
            | Operand::SIMDRegisterElements(..)
            | Operand::SIMDRegisterElementsLane(..)
            | Operand::SIMDRegisterElementsMultipleLane(..)
            | Operand::SIMDRegisterGroup(..)
            | Operand::SIMDRegisterGroupLane(..)
    )
}

fn is_constant(operand: &Operand) -> bool {
    !is_register(operand) && !matches!(operand, Operand::Nothing | Operand::ConditionCode(_))
}

/// Returns the bytes of an operand: of one element if a lane is named, otherwise of the whole vector.
fn bytes(operand: &Operand) -> u16 {
    let general = |size: SizeCode| match size {
        SizeCode::W => 4,
        SizeCode::X => 8,
    };
    match *operand {
        Operand::Register(size, _) | Operand::RegisterOrSP(size, _) => general(size),
        Operand::RegShift(_, _, size, _) => general(size),
        Operand::RegisterPair(size, _) => 2 * general(size),
        Operand::SIMDRegister(size, _) | Operand::SIMDRegisterElements(size, ..) => simd(size),
        Operand::SIMDRegisterElementsLane(_, _, element, _) => simd(element),
        Operand::SIMDRegisterElementsMultipleLane(size, ..) => simd(size),
        Operand::SIMDRegisterGroup(size, _, _, count) => simd(size) * u16::from(count),
        _ => 0,
    }
}

fn simd(size: SIMDSizeCode) -> u16 {
    match size {
        SIMDSizeCode::B => 1,
        SIMDSizeCode::H => 2,
        SIMDSizeCode::S => 4,
        SIMDSizeCode::D => 8,
        SIMDSizeCode::Q => 16,
    }
}
