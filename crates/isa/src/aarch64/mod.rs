//! AArch64 (A64): one 32-bit word per instruction.
//!
//! Two sources, chosen for what each does well. The word's own fields say, by the architecture's top-level
//! encoding groups, where an instruction branches and what memory it touches (`memory`), and its categories
//! (`categories`), and what scalable and atomic ones compute (`scalable`, `work`). `dependencies` puts it in the
//! terms of REGDEPS. yaxpeax-arm names the operation and its register operands (`data`) and prints it (`text`).
//!
//! yaxpeax-arm knows Armv8 with Advanced SIMD, but not the latest extensions and no scalable vectors. What it does
//! not know reads `.inst 0x…`, and its operation `unknown`, `sve` or `sme`. Such an instruction still has its
//! class and categories; a load or store has its memory operands, of unknown size if the vector length decides;
//! other registers are missing. Only words in the reserved groups are errors.

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

/// Bytes of an instruction.
const LEN: u8 = 4;

/// The general register that is no register: reads as zero, forgets writes.
const ZERO: u8 = 31;

/// One instruction word with its fields.
#[derive(Clone, Copy)]
struct Word(u32);

impl Word {
    /// The instruction at the front of `bytes`.
    fn from_bytes(bytes: &[u8]) -> Result<Word, DecodeError> {
        let word = bytes.first_chunk::<4>().ok_or(DecodeError::Truncated)?;
        Ok(Word(u32::from_le_bytes(*word)))
    }

    /// Bits `high` down to `low`, both counted in.
    fn bits(self, high: u32, low: u32) -> u32 {
        (self.0 >> low) & (u32::MAX >> (31 - (high - low)))
    }

    fn bit(self, n: u32) -> bool {
        self.0 >> n & 1 == 1
    }

    /// Bits `high` down to `low` as a signed number.
    fn signed(self, high: u32, low: u32) -> i64 {
        let shift = 31 - (high - low);
        i64::from((self.bits(high, low) << shift).cast_signed() >> shift)
    }

    /// The register number in the five bits from `low`.
    fn reg(self, low: u32) -> u8 {
        // Five bits fit.
        self.bits(low + 4, low) as u8
    }

    /// Whether all bits of `mask` are as in `value`.
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
        // Its text knows the hints by name.
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

/// What an instruction computes, which was decoded to `instr`.
pub(crate) fn work(instr: &Instr, bytes: &[u8]) -> Option<Work> {
    let word = Word::from_bytes(bytes).ok()?;
    match word.group() {
        Group::Scalable | Group::Matrix => scalable::of(word),
        Group::Memory => work::of_atomic(word),
        group => work::of(&name(word)?, group, instr),
    }
}

/// The instruction as yaxpeax-arm sees it.
fn name(word: Word) -> Option<Instruction> {
    let named = InstDecoder::default().decode(&mut U8Reader::new(&word.0.to_le_bytes())).ok()?;
    // Some words without a meaning come back as an instruction of that name.
    (named.opcode != a64::Opcode::Invalid).then_some(named)
}

/// Class, target and implicit registers of the branch group.
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
        // Branches to registers: bits 24–21 tell which, the same with and without authentication.
        0b110 if word.bit(25) => match word.bits(24, 21) {
            0b0000 | 0b1000 => instr.class = Class::IndirectJump,
            0b0001 | 0b1001 => {
                instr.class = Class::IndirectCall;
                link(instr);
            }
            0b0010 | 0b0100 | 0b0101 => instr.class = Class::Return,
            _ => {}
        },
        // Exceptions: svc, or one that no program returns from by itself.
        0b110 if !word.bit(24) => {
            instr.class = if word.is(0xffe0_001f, 0xd400_0001) { Class::Syscall } else { Class::Trap };
        }
        _ => {}
    }
    instr.conditional = instr.class == Class::ConditionalJump;
}
