//! Which categories an x86 instruction has.

use iced_x86::Instruction;

use crate::{Categories, Instr};

/// The categories of `code`, whose memory operands are already in `instr`.
pub(crate) fn of(_code: &Instruction, instr: &Instr) -> Categories {
    let mut categories = Categories::UNCATEGORIZED;
    if instr.reads_memory() {
        categories |= Categories::LOAD;
    }
    if instr.writes_memory() {
        categories |= Categories::STORE;
    }
    categories
}
