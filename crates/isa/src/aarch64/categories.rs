//! Categories of AArch64 instructions, chosen so that counts agree with DynamoRIO's.
//!
//! DynamoRIO (commit 05e316505beb) classifies by encoding groups alone, and so does this file.
//! QUIRK: moves count as math, system instructions and `nop` as branches, Advanced SIMD as neither math nor floating point,
//! an atomic update as either a load or a store by its acquire bit. The memory operands give the memory that is really read
//! and written.

use super::{Group, Word};
use crate::Categories;

/// Returns the categories of an instruction word.
pub(super) fn of(word: Word) -> Categories {
    match word.group() {
        // DynamoRIO omits two of the three reserved groups; they hold no valid instruction.
        Group::Reserved => Categories::UNCATEGORIZED,
        Group::Matrix | Group::Scalable => Categories::SIMD,
        Group::Immediate | Group::Register => Categories::MATH,
        Group::Branch => Categories::BRANCH,
        Group::Memory => memory(word),
        Group::Vector => vector(word),
    }
}

fn memory(word: Word) -> Categories {
    let opc = word.bits(23, 22);
    let vector = word.bit(26);
    let store = match word.bits(29, 28) {
        // Accesses of one register. With both bits set it is an authenticated load.
        0b11 if word.bit(10) && word.bit(21) => false,
        0b11 => opc == 0 || (opc == 0b10 && vector),
        // Exclusives, structures, pairs.
        0b00 | 0b10 => !word.bit(22),
        // Literals, then unscaled ordered accesses, then memory tags.
        _ if !word.bit(24) => false,
        _ if !word.bit(21) => opc == 0,
        _ => !((opc == 0b01 || opc == 0b11) && word.bits(11, 10) == 0),
    };
    let direction = if store { Categories::STORE } else { Categories::LOAD };
    if vector { direction.with(Categories::SIMD).with(Categories::FP) } else { direction }
}

fn vector(word: Word) -> Categories {
    const FP: Categories = Categories::FP;
    let op = word.bits(31, 28);
    // Advanced SIMD, scalar forms included.
    if op & 0b1001 == 0 || op & 0b0101 == 0b0101 {
        return Categories::SIMD;
    }
    // Cryptography.
    if op == 0b1100 {
        return FP.with(Categories::MATH);
    }
    if op & 0b0101 != 0b0001 {
        return FP;
    }
    // Scalar floating point: operations with three sources first, then the others by ever lower bits.
    if word.bit(24) {
        return FP.with(Categories::MATH);
    }
    let below = word.bits(18, 10);
    if !word.bit(21) || below & 0b11_1111 == 0 {
        return FP.with(Categories::CONVERT);
    }
    let is_move = below & 0b1_1000 == 0 && (below & 0b100 != 0 || below & 0b11 == 0b11);
    FP.with(if is_move { Categories::MOVE } else { Categories::MATH })
}
