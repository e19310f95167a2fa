//! Prints the results of `opcode_mix`. Names of operations, and distinctions between them, are those of our own decoder;
//! totals and sets of categories are the launcher's.

use super::counts::line;
use quipu::passes::categories::CategorySets;
use quipu::passes::opcodes::OpcodeMix;

pub(super) fn write(opcodes: &OpcodeMix, categories: &CategorySets, out: &mut Vec<u8>) {
    line(out, format_args!("Opcode mix tool results:"));
    line(out, format_args!("{:15} : total executed instructions", opcodes.executed));
    // Undecodable instructions have the lowest number of all operations, so they come first among ties.
    let undecoded = (opcodes.undecoded > 0).then_some((opcodes.undecoded, "<undecoded>"));
    let named = opcodes.opcodes.iter().map(|opcode| (opcode.count, opcode.opcode.as_str()));
    let mut rows: Vec<(u64, &str)> = undecoded.into_iter().chain(named).collect();
    rows.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    for (count, name) in rows {
        line(out, format_args!("{count:15} : {name:>9}"));
    }
    line(out, format_args!(""));
    line(out, format_args!("{:15} : sets of categories", categories.sets.len()));
    for set in &categories.sets {
        line(out, format_args!("{:15} : {:>9}", set.count, set.categories.to_string()));
    }
}
