//! Computations of SVE and SME instructions by the architecture's encoding groups, since no disassembler here names them.
//!
//! Widths depend on the vector length, which only the processor's configuration gives, except where the destination is a
//! general register or a single element.

use super::Word;
use crate::Operation::{self, Add, Divide, Move, Multiply, Other, Shift, Subtract};
use crate::work::Work;

/// Instructions of one encoding group.
struct Row {
    mask: u32,
    value: u32,
    operation: Operation,
    is_float: bool,
    arity: u8,
    bytes: Bytes,
}

/// Size of the destination.
#[derive(Clone, Copy)]
enum Bytes {
    /// The size of a vector, a predicate or a tile.
    Configured,
    /// This number of bytes on every processor.
    Fixed(u16),
    /// The size of an element, given by bits 23 and 22.
    Element,
    /// The size of the general register that holds an element.
    General,
}

use Bytes::{Configured, Element, Fixed, General};

/// Returns the row of a group whose upper bits are like `pattern`: `x` matches either value, and blanks are ignored.
const fn row(pattern: &str, operation: Operation, arity: u8) -> Row {
    let (pattern, mut mask, mut value) = (pattern.as_bytes(), 0, 0);
    let (mut at, mut bit) = (0, 32);
    while at < pattern.len() {
        if pattern[at] != b' ' {
            bit -= 1;
            if pattern[at] != b'x' {
                mask |= 1 << bit;
                value |= ((pattern[at] == b'1') as u32) << bit;
            }
        }
        at += 1;
    }
    Row { mask, value, operation, is_float: false, arity, bytes: Configured }
}

const fn float(pattern: &str, operation: Operation, arity: u8) -> Row {
    Row { is_float: true, ..row(pattern, operation, arity) }
}

impl Row {
    const fn of(self, bytes: Bytes) -> Row {
        Row { bytes, ..self }
    }
}

/// All groups; the first match wins. Instructions that match no row are memory accesses, or unknown here.
const ROWS: &[Row] = &[
    // Integers, predicated.
    row("00000100 xx0 00000 000", Add, 2),
    row("00000100 xx0 00xxx 000", Subtract, 2),
    row("00000100 xx0 0110x 000", Subtract, 2),
    row("00000100 xx0 01xxx 000", Other, 2),
    row("00000100 xx0 100xx 000", Multiply, 2),
    row("00000100 xx0 101xx 000", Divide, 2),
    row("00000100 xx0 11xxx 000", Other, 2),
    row("00000100 xx0 0000x 001", Add, 1).of(Fixed(8)),
    row("00000100 xx0 10xxx 001", Move, 1),
    row("00000100 xx0 x1xxx 001", Other, 1).of(Element),
    row("00000100 xx0 xxxxx 01x", Multiply, 3),
    row("00000100 xx0 xxxxx 11x", Multiply, 3),
    row("00000100 xx0 xxxxx 100", Shift, 2),
    row("00000100 xx0 10111 101", Subtract, 1),
    row("00000100 xx0 10110 101", Other, 1),
    row("00000100 xx0 10xxx 101", Move, 1),
    float("00000100 xx0 11100 101", Other, 1),
    float("00000100 xx0 11101 101", Subtract, 1),
    row("00000100 xx0 11xxx 101", Other, 1),
    // Integers, unpredicated; addresses.
    row("00000100 xx1 xxxxx 000000", Add, 2),
    row("00000100 xx1 xxxxx 000001", Subtract, 2),
    row("00000100 xx1 xxxxx 00010x", Add, 2),
    row("00000100 xx1 xxxxx 00011x", Subtract, 2),
    row("00000100 xx1 xxxxx 001100", Other, 2),
    row("00000100 xx1 xxxxx 001101", Shift, 3),
    row("00000100 xx1 xxxxx 00111x", Other, 3),
    row("00000100 xx1 xxxxx 0100", Other, 2),
    row("00000100 101 11111 0101", Other, 1).of(Fixed(8)),
    row("00000100 0x1 xxxxx 0101", Add, 2).of(Fixed(8)),
    row("00000100 xx1 xxxxx 011", Multiply, 2),
    row("00000100 xx1 xxxxx 100", Shift, 2),
    row("00000100 xx1 xxxxx 1010", Add, 2),
    float("00000100 xx1 xxxxx 101100", Other, 2),
    float("00000100 xx1 xxxxx 101110", Other, 1),
    row("00000100 xx1 xxxxx 101111", Move, 1),
    // Counts of elements.
    row("00000100 xx1 1xxxx 110000", Add, 2),
    row("00000100 xx1 1xxxx 110001", Subtract, 2),
    row("00000100 xx1 0xxxx 11000x", Add, 2),
    row("00000100 xx1 0xxxx 11001x", Subtract, 2),
    row("00000100 xx1 0xxxx 111000", Other, 1).of(Fixed(8)),
    row("00000100 xx1 1xxxx 111000", Add, 2).of(Fixed(8)),
    row("00000100 xx1 1xxxx 111001", Subtract, 2).of(Fixed(8)),
    row("00000100 xx1 0xxxx 111101", Add, 2).of(Fixed(4)),
    row("00000100 xx1 0xxxx 111111", Subtract, 2).of(Fixed(4)),
    row("00000100 xx1 xxxxx 11110x", Add, 2).of(Fixed(8)),
    row("00000100 xx1 xxxxx 11111x", Subtract, 2).of(Fixed(8)),
    // Constants and permutations.
    row("00000101 11 0000", Move, 1),
    row("00000101 xx 0000", Other, 2),
    float("00000101 xx01 xxxx 110", Move, 1),
    row("00000101 xx01 xxxx 0xx", Move, 1),
    row("00000101 xx1 xxxxx 000", Move, 3),
    row("00000101 xx1 xxxxx 001100", Move, 2),
    row("00000101 xx1 xxxxx 00101x", Move, 3),
    row("00000101 xx1 x0100 001110", Move, 2),
    row("00000101 xx1 xxxxx 001", Move, 1),
    row("00000101 xx1 1xxxx 010000", Move, 1),
    row("00000101 xx1 0xxxx 010", Move, 2),
    row("00000101 xx1 xxxxx 011", Move, 2),
    row("00000101 xx1 0001x 100", Move, 1).of(Element),
    row("00000101 xx1 00111 100", Other, 1),
    row("00000101 xx1 0101x 100", Move, 2).of(Element),
    row("00000101 xx1 0100x 100", Move, 2),
    row("00000101 xx1 0110x 100", Move, 2),
    row("00000101 xx1 xxxxx 100", Move, 1),
    row("00000101 xx1 0000x 101", Move, 1).of(General),
    row("00000101 xx1 1000x 101", Move, 2).of(General),
    row("00000101 xx1 xxxxx 101", Move, 1),
    row("00000101 xx1 xxxxx 11", Move, 2),
    // Comparisons, predicates.
    row("00100100", Other, 2),
    row("00100101 xx0 xxxxx x0", Other, 2),
    row("00100101 xx01 xxxx x1", Other, 1),
    row("00100101 0000 xxxx 01 xxxx 1 xxxx 1", Move, 2),
    row("00100101 xx00 xxxx x1", Other, 2),
    row("00100101 xx1 xxxxx 00", Subtract, 2),
    row("00100101 xx1 xxxxx 01", Move, 2),
    row("00100101 xx1 00xxx 10", Other, 1).of(Fixed(8)),
    row("00100101 xx1 01xxx 1001", Move, 1),
    row("00100101 xx1 0110x 10000", Add, 2),
    row("00100101 xx1 0100x 10000", Add, 2),
    row("00100101 xx1 0101x 10000", Subtract, 2),
    row("00100101 xx1 01100 10001", Add, 2).of(Fixed(8)),
    row("00100101 xx1 01101 10001", Subtract, 2).of(Fixed(8)),
    row("00100101 xx1 01001 100010", Add, 2).of(Fixed(4)),
    row("00100101 xx1 01011 100010", Subtract, 2).of(Fixed(4)),
    row("00100101 xx1 0100x 10001", Add, 2).of(Fixed(8)),
    row("00100101 xx1 0101x 10001", Subtract, 2).of(Fixed(8)),
    // With constants.
    row("00100101 xx1 00000 11", Add, 2),
    row("00100101 xx1 0010x 11", Add, 2),
    row("00100101 xx1 00xxx 11", Subtract, 2),
    row("00100101 xx1 01xxx 11", Other, 2),
    row("00100101 xx1 10xxx 11", Multiply, 2),
    float("00100101 xx1 11xx1 11", Move, 1),
    row("00100101 xx1 11xx0 11", Move, 1),
    // SVE2: products, sums that widen, narrow, saturate.
    row("01000100 xx0 xxxxx 0", Multiply, 3),
    row("01000100 xx0 0xxxx 100", Shift, 2),
    row("01000100 xx0 1xx0x 100", Add, 2),
    row("01000100 xx0 1xx1x 100", Subtract, 2),
    row("01000100 xx0 10001 101", Add, 2),
    row("01000100 xx0 101xx 101", Other, 2),
    row("01000100 xx0 0010x 101", Add, 2),
    row("01000100 xx0 01001 101", Subtract, 1),
    row("01000100 xx0 0xxxx 101", Other, 1),
    row("01000100 xx0 xxxxx 11000", Other, 3),
    row("01000100 xx0 xxxxx 11001", Multiply, 3),
    row("01000100 xx0 xxxxx 111", Move, 2),
    row("01000100 xx1 xxxxx 11", Multiply, 2),
    row("01000100 xx1", Multiply, 3),
    row("01000101 xx0 xxxxx 00x0", Add, 2),
    row("01000101 xx0 xxxxx 00x1", Subtract, 2),
    row("01000101 xx0 xxxxx 0100", Add, 2),
    row("01000101 xx0 xxxxx 0101", Subtract, 2),
    row("01000101 xx0 xxxxx 011", Multiply, 2),
    row("01000101 xx0 xxxxx 10000", Add, 2),
    row("01000101 xx0 xxxxx 10001", Subtract, 2),
    row("01000101 xx0 xxxxx 10010", Other, 3),
    row("01000101 xx0 xxxxx 10011", Multiply, 3),
    row("01000101 xx0 xxxxx 1010", Shift, 2),
    row("01000101 xx0 xxxxx 1011", Other, 2),
    row("01000101 xx0 xxxxx 1100", Add, 3),
    row("01000101 0x0 xxxxx 11010", Add, 3),
    row("01000101 1x0 xxxxx 11010", Subtract, 3),
    row("01000101 xx0 xxxxx 11011", Add, 3),
    row("01000101 xx0 xxxxx 1110", Shift, 3),
    row("01000101 xx0 xxxxx 11110", Shift, 3),
    row("01000101 xx0 xxxxx 11111", Add, 3),
    row("01000101 xx1 xxxxx 00", Shift, 2),
    row("01000101 xx1 xxxxx 010", Move, 1),
    row("01000101 xx1 xxxxx 0110", Add, 2),
    row("01000101 xx1 xxxxx 0111", Subtract, 2),
    row("01000101 xx1 00000 111", Other, 1),
    row("01000101 xx1 xxxxx 1", Other, 2),
    // Floating point.
    float("01100100 xx0 xxxxx 0", Multiply, 3),
    float("01100100 xx0 0000x 100", Add, 3),
    float("01100100 xx0 10000 100", Add, 2),
    float("01100100 xx0 101xx 100", Other, 2),
    float("01100100 xx0 xxxxx 101", Move, 1),
    float("01100100 xx1 xxxxx 001000", Multiply, 2),
    float("01100100 xx1 xxxxx 001001", Other, 3),
    float("01100100 xx1", Multiply, 3),
    float("01100101 xx0 xxxxx 000000", Add, 2),
    float("01100101 xx0 xxxxx 000001", Subtract, 2),
    float("01100101 xx0 xxxxx 00001x", Multiply, 2),
    float("01100101 xx0 xxxxx 000", Other, 2),
    float("01100101 xx0 00000 001", Add, 1).of(Element),
    float("01100101 xx0 001xx 001", Other, 1).of(Element),
    float("01100101 xx0 0111x 001", Other, 1),
    row("01100101 xx0 100xx 001", Subtract, 2),
    float("01100101 xx0 11000 001", Add, 2).of(Element),
    row("01100101 xx0 xxxxx 11x xxxxxxxx1", Other, 2),
    row("01100101 xx0 xxxxx x1", Subtract, 2),
    float("01100101 xx0 10xxx 100", Multiply, 3),
    float("01100101 xx0 11000 100", Add, 2),
    float("01100101 xx0 11010 100", Multiply, 2),
    float("01100101 xx0 110x1 100", Subtract, 2),
    float("01100101 xx0 00000 100", Add, 2),
    float("01100101 xx0 00010 100", Multiply, 2),
    float("01100101 xx0 000x1 100", Subtract, 2),
    float("01100101 xx0 01000 100", Subtract, 2),
    float("01100101 xx0 01010 100", Multiply, 2),
    float("01100101 xx0 0110x 100", Divide, 2),
    float("01100101 xx0 xxxxx 100", Other, 2),
    float("01100101 xx0 010xx 101", Move, 1),
    float("01100101 xx0 0xxxx 101", Other, 1),
    float("01100101 xx0 10xxx 101", Move, 1),
    row("01100101 000 11xxx 101", Other, 1),
    row("01100101 xx0 11xxx 101", Move, 1),
    float("01100101 xx1", Multiply, 3),
    // SME: outer products, sums of tiles, moves from and to tiles.
    float("1000000x 1", Multiply, 3),
    row("1010000x 1", Multiply, 3),
    row("11000000 1x 01000x", Add, 2),
    row("11000000 xx 0000", Move, 1),
];

/// Returns the computation of an SVE or SME instruction.
pub(super) fn of(word: Word) -> Option<Work> {
    let row = ROWS.iter().find(|row| word.is(row.mask, row.value))?;
    let element = 1 << word.bits(23, 22);
    let bytes = match row.bytes {
        Configured => 0,
        Fixed(bytes) => bytes,
        Element => element,
        General => 4.max(element),
    };
    Some(Work { operation: row.operation, is_float: row.is_float, bytes, arity: row.arity })
}
