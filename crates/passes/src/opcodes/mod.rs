//! `opcodes`: how often each operation is executed.
//!
//! Counts every executed instruction, further iterations of string loops included, by the operation that its bytes
//! decode to. Names are those of Quipu's decoders: Intel's mnemonics in lower case for x86, the architecture's own names
//! (not the aliases) for AArch64. Instructions that cannot be decoded count as `undecoded`; so does every
//! instruction of a REGDEPS trace, whose synthetic encodings have no operation. (SPEC: drmemtrace.md#opcode_mix;
//! other decoders may divide operations differently.)
//!
//! Each distinct instruction is decoded once; memory grows with their number.
//!
//! * **Needs** `instrs`, `instrs.code`, and a trace that says its architecture.
//! * **Options** `per-thread`.

use crate::executed::{Executed, Kinds};
use crate::filtered::Filtered;
use crate::number::share_cell;
use crate::split::{Answer, PER_THREAD, Part, PerThread, Split};
use crate::tally::Map;
use quipu_isa::{Arch, Decoder, Syntax};
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::{Batch, Columns, DynPass, Error, Needs, Options, Order, Result, Tool, ToolInfo, Trace};
use std::cmp::Reverse;

#[cfg(test)]
mod tests;

/// The tool `opcodes`.
#[derive(Debug)]
pub struct Opcodes;

/// Columns that every tool needs to decode each instruction.
pub(crate) const DECODING: Needs =
    Needs { format: None, required: Columns::INSTRS.or(Columns::INSTR_CODE), optional: Columns::NONE };

static INFO: ToolInfo = ToolInfo {
    name: "opcodes",
    summary: "how often each operation is executed",
    needs: DECODING,
    order: Order::Pieces,
    options: &[PER_THREAD],
    in_report: false,
};

impl Tool for Opcodes {
    fn result(&self) -> Shape {
        PerThread::<OpcodeMix>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        Ok(Box::new(Split::new(ByOpcode(Executed::new(decodable(INFO.name, trace)?)), options, trace)))
    }
}

/// The trace's architecture, or an error if `tool` cannot decode its instructions.
pub(crate) fn decodable(tool: &str, trace: &dyn Trace) -> Result<Arch> {
    let arch = trace.meta().arch.ok_or_else(|| {
        Error::missing(format!("tool `{tool}` needs to know the architecture, which this trace does not say"))
    })?;
    match Decoder::new(arch, Syntax::default()) {
        Ok(_) => Ok(arch),
        Err(error) => Err(Error::unsupported(format!("tool `{tool}`: {error}"))),
    }
}

result! {
    /// How often each operation was executed.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OpcodeMix {
        pub executed: u64 => "Executed instructions, further iterations of string loops included.";
        pub undecoded: u64 =>
            "Executed instructions of unknown operation: undecodable, REGDEPS, or without encoding.";
        pub without_encoding: u64 => "Those among `undecoded` without an encoding in the trace.";
        pub opcodes: Vec<OpcodeCount> => "Operations, most frequent first; equal counts by name.";
    }
}

result! {
    /// One operation.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OpcodeCount {
        pub opcode: String => "Name of the operation.";
        pub count: u64 => "Number of executions.";
    }
}

#[derive(Clone)]
struct ByOpcode(Executed);

impl Part for ByOpcode {
    type Answer = OpcodeMix;

    fn consume(&mut self, batch: &Batch) {
        self.0.consume(batch);
    }

    fn merge(&mut self, later: ByOpcode) {
        self.0.merge(later.0);
    }

    fn answer(self) -> OpcodeMix {
        OpcodeMix::new(&self.0.finish())
    }
}

impl OpcodeMix {
    fn new(kinds: &Kinds) -> OpcodeMix {
        let mut undecoded = kinds.without;
        let mut by_opcode = Map::default();
        for (kind, count) in &kinds.counts {
            match kind.opcode {
                Some(opcode) => *by_opcode.entry(opcode).or_insert(0) += count,
                None => undecoded += count,
            }
        }
        let mut opcodes: Vec<_> = by_opcode.into_iter().collect();
        opcodes.sort_unstable_by_key(|&(opcode, count)| (Reverse(count), opcode));
        OpcodeMix {
            executed: undecoded + opcodes.iter().map(|(_, count)| count).sum::<u64>(),
            undecoded,
            without_encoding: kinds.without,
            opcodes: opcodes
                .into_iter()
                .map(|(opcode, count)| OpcodeCount { opcode: opcode.name().to_owned(), count })
                .collect(),
        }
    }
}

/// Number of operations in a brief document.
const BRIEF_ROWS: usize = 8;

impl Answer for OpcodeMix {
    fn document(&self, detail: Detail, filtered: Filtered) -> Document {
        let shown =
            if detail == Detail::Brief { BRIEF_ROWS.min(self.opcodes.len()) } else { self.opcodes.len() };
        let row = |opcode: &OpcodeCount| {
            vec![
                Cell::Code(opcode.opcode.clone()),
                Cell::Count(opcode.count),
                share_cell(opcode.count, self.executed),
            ]
        };
        let facts = vec![
            (filtered.executed_instructions().to_owned(), vec![Cell::Count(self.executed)]),
            ("undecoded".to_owned(), vec![Cell::Count(self.undecoded)]),
        ];
        let grid = Grid {
            title: String::new(),
            head: ["operation", filtered.executed(), filtered.share_of_executed()].map(str::to_owned).into(),
            rows: self.opcodes.iter().take(shown).map(row).collect(),
            more: (self.opcodes.len() - shown) as u64,
        };
        Document::new("Operations").with(Block::Facts(facts)).with(Block::Grid(grid))
    }
}
