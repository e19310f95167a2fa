//! AArch64 (A64): one 32-bit word per instruction.
//!
//! Two sources are combined. The fields of the word, read by the architecture's top-level encoding groups, give branches and
//! memory accesses (`memory`), categories (`categories`), and the computation of scalable and atomic instructions
//! (`scalable`, `work`). `dependencies` describes the instruction in the terms of REGDEPS. yaxpeax-arm names the operation
//! and its register operands (`data`), and prints the instruction (`text`).
//!
//! yaxpeax-arm knows Armv8 with Advanced SIMD, but neither the latest extensions nor scalable vectors. An instruction that
//! it does not know prints as `.inst 0x…`, and its operation is `unknown`, `sve` or `sme`. Such an instruction still has its
//! class and categories, and a load or store has its memory operands (of unknown size if it depends on the vector length);
//! its other registers are missing. Only words in the reserved groups are errors.

mod categories;
mod data;
mod dependencies;
mod memory;
mod scalable;
mod text;
mod work;

use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64::{self, InstDecoder, Instruction};

use crate::registers::A64_LR;
use crate::{Class, DecodeError, Instr, Opcode, Reg, Work};

pub(crate) use dependencies::operands;
pub(crate) use text::text;

/// Bytes of every instruction.
const LEN: u8 = 4;

/// Number of the zero register among the general registers: it reads as zero, and writes to it are discarded.
const ZERO: u8 = 31;

/// One instruction word, with access to its fields.
#[derive(Clone, Copy)]
struct Word(u32);

impl Word {
    /// Reads the instruction word at the front of `bytes`.
    fn from_bytes(bytes: &[u8]) -> Result<Word, DecodeError> {
        let word = bytes.first_chunk::<4>().ok_or(DecodeError::Truncated)?;
        Ok(Word(u32::from_le_bytes(*word)))
    }

    /// Returns bits `high` to `low`, both inclusive.
    fn bits(self, high: u32, low: u32) -> u32 {
        (self.0 >> low) & (u32::MAX >> (31 - (high - low)))
    }

    fn bit(self, n: u32) -> bool {
        self.0 >> n & 1 == 1
    }

    /// Returns bits `high` to `low`, both inclusive, as a signed number.
    fn signed(self, high: u32, low: u32) -> i64 {
        let shift = 31 - (high - low);
        i64::from((self.bits(high, low) << shift).cast_signed() >> shift)
    }

    /// Returns the register number in the five bits from `low` up.
    fn reg(self, low: u32) -> u8 {
        // A five-bit number fits.
        self.bits(low + 4, low) as u8
    }

    /// Whether the word equals `value` in all bits of `mask`.
    fn is(self, mask: u32, value: u32) -> bool {
        self.0 & mask == value
    }

    fn group(self) -> Group {
        match self.bits(28, 25) {
            0b0000 if self.bit(31) => Group::Matrix,
            0b0000 | 0b0001 | 0b0011 => Group::Reserved,
            0b0010 => Group::Scalable,
            0b1000 | 0b1001 => Group::Immediate,
            0b1010 | 0b1011 => Group::Branch,
            0b0100 | 0b0110 | 0b1100 | 0b1110 => Group::Memory,
            0b0101 | 0b1101 => Group::Register,
            _ => Group::Vector,
        }
    }
}

/// The architecture's top-level encoding groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    /// Reserved encodings, `udf` among them.
    Reserved,
    /// SME.
    Matrix,
    /// SVE.
    Scalable,
    /// Data processing with an immediate.
    Immediate,
    /// Branches, exceptions and system instructions.
    Branch,
    /// Loads and stores.
    Memory,
    /// Data processing with registers.
    Register,
    /// Scalar floating point and Advanced SIMD.
    Vector,
}

/// Decodes the instruction at the front of `bytes`.
pub(crate) fn decode(pc: u64, bytes: &[u8]) -> Result<Instr, DecodeError> {
    let word = Word::from_bytes(bytes)?;
    let group = word.group();
    let named = name(word);
    let opcode = match (&named, group) {
        // yaxpeax-arm names the hints in its text only.
        (Some(named), _) if named.opcode == a64::Opcode::HINT => Opcode::new(named),
        (Some(named), _) => Opcode::new(named.opcode),
        (None, Group::Scalable) => Opcode::new("sve"),
        (None, Group::Matrix) => Opcode::new("sme"),
        (None, Group::Reserved) => return Err(DecodeError::Invalid),
        (None, _) => Opcode::new("unknown"),
    };
    let mut instr = Instr::new(LEN, opcode);
    instr.categories = categories::of(word);
    match group {
        Group::Memory | Group::Scalable => memory::fill(word, pc, &mut instr),
        Group::Branch => {
            branch(word, pc, &mut instr);
            memory::fill_cache_operation(word, &mut instr);
        }
        _ => {}
    }
    if let (Some(named), false) = (&named, group == Group::Memory) {
        data::fill_registers(named, group, &mut instr);
    }
    data::fill_flags(word, &mut instr);
    Ok(instr)
}

/// Returns the computation of an instruction; `instr` is its decoded form.
pub(crate) fn work(instr: &Instr, bytes: &[u8]) -> Option<Work> {
    let word = Word::from_bytes(bytes).ok()?;
    match word.group() {
        Group::Scalable | Group::Matrix => scalable::of(word),
        Group::Memory => work::of_atomic(word),
        group => work::of(&name(word)?, group, instr),
    }
}

/// Decodes the word with yaxpeax-arm; `None` if it does not know the instruction.
fn name(word: Word) -> Option<Instruction> {
    let named = InstDecoder::default().decode(&mut U8Reader::new(&word.0.to_le_bytes())).ok()?;
    // Some unallocated words come back as an instruction named `Invalid`.
    (named.opcode != a64::Opcode::Invalid).then_some(named)
}

/// Sets class, target and implicit registers of an instruction of the branch group.
fn branch(word: Word, pc: u64, instr: &mut Instr) {
    let to = |offset: i64| Some(pc.wrapping_add_signed(offset * 4));
    let link = |instr: &mut Instr| instr.writes.insert(Reg(A64_LR));
    match word.bits(31, 29) {
        // b, bl
        0b000 | 0b100 => {
            instr.class = if word.bit(31) { Class::DirectCall } else { Class::DirectJump };
            instr.target = to(word.signed(25, 0));
            if word.bit(31) {
                link(instr);
            }
        }
        // cbz, cbnz, tbz, tbnz
        0b001 | 0b101 => {
            instr.class = Class::ConditionalJump;
            instr.target = to(if word.bit(25) { word.signed(18, 5) } else { word.signed(23, 5) });
        }
        // b.cond, bc.cond
        0b010 if !word.bit(25) => {
            instr.class = Class::ConditionalJump;
            instr.target = to(word.signed(23, 5));
        }
        // Branches to registers: bits 24–21 give the kind, with and without authentication alike.
        0b110 if word.bit(25) => match word.bits(24, 21) {
            0b0000 | 0b1000 => instr.class = Class::IndirectJump,
            0b0001 | 0b1001 => {
                instr.class = Class::IndirectCall;
                link(instr);
            }
            0b0010 | 0b0100 | 0b0101 => instr.class = Class::Return,
            _ => {}
        },
        // Exceptions: svc, or one that a program does not return from by itself.
        0b110 if !word.bit(24) => {
            instr.class = if word.is(0xffe0_001f, 0xd400_0001) { Class::Syscall } else { Class::Trap };
        }
        _ => {}
    }
    instr.conditional = instr.class == Class::ConditionalJump;
}
