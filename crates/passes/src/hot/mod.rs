//! `hot`: the instructions executed most, and the lines of data used most.
//!
//! *Instructions*: executions of each distinct instruction, further iterations of string loops included. Where the trace
//! carries encodings, an address whose bytes change counts as several instructions, and each is shown disassembled.
//!
//! *Lines*: reads and writes of each cache line of data; an access that straddles a border counts on each line
//! that it touches, prefetches and flushes do not count.
//!
//! Memory grows with the number of distinct instructions and lines, not with the length of the trace.
//!
//! * **Needs** `instrs` or `accesses`; uses both and `instrs.code`.
//! * **Options** `top` (rows in each list, default 10), `line-size` (bytes, default 64), `syntax` (of x86 disassembly,
//!   `att` or `intel`, default `att`).
//! * **JSON** [`Hottest`].

use crate::executed::PerCode;
use crate::lines::Lines;
use crate::number::{hex, share, share_cell};
use crate::split::to_json;
use crate::tally::{Map, Tally, top_by};
use quipu_isa::{Arch, Decoder, Syntax};
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::lens::{AccessKind, NO_CODE};
use quipu_model::pass::Detail;
use quipu_model::trace::SettingInfo;
use quipu_model::{
    Args, Batch, Code, Columns, DynPass, Error, Needs, Order, Pass, Report, Result, Shard, Tool, ToolInfo,
    Trace,
};
use serde::Serialize;
use std::any::Any;
use std::cmp::Reverse;

#[cfg(test)]
mod tests;

/// The tool `hot`.
#[derive(Debug)]
pub struct Hot;

static INFO: ToolInfo = ToolInfo {
    name: "hot",
    summary: "the instructions executed most and the lines of data used most",
    needs: Needs {
        format: None,
        required: Columns::NONE,
        optional: Columns::INSTRS.or(Columns::INSTR_CODE).or(Columns::ACCESSES),
    },
    order: Order::Pieces,
    options: &[
        SettingInfo { name: "top", value: "N", default: "10", doc: "how many rows each list has" },
        SettingInfo {
            name: "line-size",
            value: "BYTES",
            default: "64",
            doc: "bytes in a line, a power of two",
        },
        SettingInfo {
            name: "syntax",
            value: "NAME",
            default: "att",
            doc: "of x86 disassembly: att or intel",
        },
    ],
    in_report: true,
};

impl Tool for Hot {
    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, args: &Args, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let has = trace.columns();
        if !has.any(Columns::INSTRS | Columns::ACCESSES) {
            let message = "tool `hot` needs instrs or accesses, and this trace carries neither";
            return Err(Error::missing(message));
        }
        let syntax = match args.get("syntax") {
            None => Syntax::default(),
            Some(name) => name
                .parse()
                .map_err(|error| Error::usage(format!("option `syntax`: {error}, found `{name}`")))?,
        };
        let options = Options {
            top: usize::try_from(args.number("top", 10)?).unwrap_or(usize::MAX),
            lines: Lines::new(args.power_of_two("line-size", 64)?),
            syntax,
            arch: trace.meta().arch,
            has_instrs: has.has(Columns::INSTRS),
            has_codes: has.has(Columns::INSTRS | Columns::INSTR_CODE),
            has_accesses: has.has(Columns::ACCESSES),
        };
        Ok(Box::new(Heat::new(options)))
    }
}

/// The hottest instructions and lines.
///
/// JSON: `executed`, `distinct_instructions`, `instructions` (list of [`HotInstr`]), `line_size`, `accesses`, `distinct_lines`,
/// `lines` (list of [`HotLine`]).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Hottest {
    /// Executed instructions; none if the trace has no instructions.
    pub executed: Option<u64>,
    /// Distinct instructions.
    pub distinct_instructions: u64,
    /// Those executed most, most first; equal counts by ascending address, then by bytes.
    pub instructions: Vec<HotInstr>,
    /// Bytes in a line.
    pub line_size: u64,
    /// Reads and writes on all lines, those that straddle counted on each; none if the trace has no accesses.
    pub accesses: Option<u64>,
    /// Distinct lines of data.
    pub distinct_lines: u64,
    /// Those used most, most first; equal counts by ascending address.
    pub lines: Vec<HotLine>,
}

/// One instruction.
///
/// JSON: `pc` (hex string), `text` (null if not known), `count`, `share`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HotInstr {
    /// Its address.
    #[serde(serialize_with = "hex")]
    pub pc: u64,
    /// Its disassembly.
    pub text: Option<String>,
    /// How often it was executed.
    pub count: u64,
    /// Share of all executed instructions, 0 to 1.
    pub share: f64,
}

/// One line of data.
///
/// JSON: `addr` (hex string), `reads`, `writes`, `share`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HotLine {
    /// The address at which it begins.
    #[serde(serialize_with = "hex")]
    pub addr: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Share of all reads and writes, 0 to 1.
    pub share: f64,
}

#[derive(Clone, Copy)]
struct Options {
    top: usize,
    lines: Lines,
    syntax: Syntax,
    arch: Option<Arch>,
    has_instrs: bool,
    has_codes: bool,
    has_accesses: bool,
}

/// The pass.
struct Heat {
    options: Options,
    /// Executions in the reads of this very pass.
    open: PerCode<Code>,
    /// Executions in passes merged into this one.
    codes: Map<Code, u64>,
    /// Executions of instructions without encoding.
    pcs: Tally<u64>,
    reads: Tally<u64>,
    writes: Tally<u64>,
}

impl Heat {
    fn new(options: Options) -> Heat {
        Heat {
            options,
            open: PerCode::default(),
            codes: Map::default(),
            pcs: Tally::default(),
            reads: Tally::default(),
            writes: Tally::default(),
        }
    }

    fn settle(&mut self) {
        let codes = &mut self.codes;
        std::mem::take(&mut self.open).drain(|code, count| *codes.entry(code).or_insert(0) += count);
    }
}

impl Pass for Heat {
    fn fork(&self, _shard: &Shard) -> Heat {
        Heat::new(self.options)
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        let instrs = &batch.instrs;
        if !self.options.has_codes {
            instrs.pc.iter().for_each(|&pc| self.pcs.add(pc));
        } else if self.open.consume(batch, |code| *code) > 0 {
            let without = instrs.pc.iter().zip(&instrs.code).filter(|(_, code)| **code == NO_CODE);
            without.for_each(|(&pc, _)| self.pcs.add(pc));
        }
        let (lines, accesses) = (self.options.lines, &batch.accesses);
        for ((&addr, &size), &kind) in accesses.addr.iter().zip(&accesses.size).zip(&accesses.kind) {
            match kind {
                AccessKind::Read => lines.each(addr, size, |line| self.reads.add(line)),
                AccessKind::Write => lines.each(addr, size, |line| self.writes.add(line)),
                _ => {}
            }
        }
        Ok(())
    }

    fn merge(&mut self, mut later: Heat) -> Result<()> {
        later.settle();
        for (code, count) in later.codes {
            *self.codes.entry(code).or_insert(0) += count;
        }
        self.pcs.merge(later.pcs);
        self.reads.merge(later.reads);
        self.writes.merge(later.writes);
        Ok(())
    }

    fn finish(mut self) -> Result<Box<dyn Report>> {
        self.settle();
        let Options { top, lines, syntax, arch, .. } = self.options;
        let without = self.pcs.into_map().into_iter().map(|(pc, count)| (Code::new(pc, 0, &[]), count));
        let executed: Vec<(Code, u64)> = self.codes.into_iter().chain(without).collect();
        let n_executed = executed.iter().map(|(_, count)| count).sum();
        let distinct_instructions = executed.len() as u64;
        let hottest =
            top_by(executed, top, |(code, count)| (Reverse(*count), code.pc, code.bytes().to_vec()));
        let mut decoder = arch.and_then(|arch| Decoder::new(arch, syntax).ok());

        let mut used: Map<u64, (u64, u64)> =
            self.reads.into_map().into_iter().map(|(line, reads)| (line, (reads, 0))).collect();
        for (line, writes) in self.writes.into_map() {
            used.entry(line).or_insert((0, 0)).1 = writes;
        }
        let n_accesses = used.values().map(|(reads, writes)| reads + writes).sum();
        let distinct_lines = used.len() as u64;
        let busiest = top_by(used.into_iter().collect(), top, |&(line, (reads, writes))| {
            (Reverse(reads + writes), line)
        });

        Ok(Box::new(Hottest {
            executed: self.options.has_instrs.then_some(n_executed),
            distinct_instructions,
            instructions: hottest
                .into_iter()
                .map(|(code, count)| HotInstr {
                    pc: code.pc,
                    text: text_of(decoder.as_mut(), &code),
                    count,
                    share: share(count, n_executed),
                })
                .collect(),
            line_size: lines.bytes(),
            accesses: self.options.has_accesses.then_some(n_accesses),
            distinct_lines,
            lines: busiest
                .into_iter()
                .map(|(line, (reads, writes))| HotLine {
                    addr: lines.addr(line),
                    reads,
                    writes,
                    share: share(reads + writes, n_accesses),
                })
                .collect(),
        }))
    }
}

fn text_of(decoder: Option<&mut Decoder>, code: &Code) -> Option<String> {
    let decoder = decoder.filter(|_| !code.bytes().is_empty())?;
    let mut text = String::new();
    decoder.text(code.pc, code.bytes(), &mut text);
    Some(text.trim_end().to_owned())
}

/// How many rows of each list a brief document shows.
const BRIEF_ROWS: usize = 5;

impl Report for Hottest {
    fn json(&self) -> serde_json::Value {
        to_json(self)
    }

    fn document(&self, detail: Detail) -> Document {
        let shown = if detail == Detail::Brief { BRIEF_ROWS } else { usize::MAX };
        let mut document = Document::new("Hottest");
        // A brief document has no empty lists.
        let is_shown = |n_rows: u64| detail == Detail::Full || n_rows > 0;
        if let Some(executed) = self.executed.filter(|_| is_shown(self.distinct_instructions)) {
            document.blocks.push(Block::Grid(self.instr_grid(executed, shown)));
        }
        if self.accesses.is_some() && is_shown(self.distinct_lines) {
            document.blocks.push(Block::Grid(self.line_grid(shown)));
        }
        document
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Hottest {
    fn instr_grid(&self, executed: u64, shown: usize) -> Grid {
        let row = |instr: &HotInstr| {
            let text = instr.text.clone().map_or(Cell::Empty, Cell::Code);
            vec![Cell::Addr(instr.pc), Cell::Count(instr.count), share_cell(instr.count, executed), text]
        };
        let rows: Vec<_> = self.instructions.iter().take(shown).map(row).collect();
        Grid {
            title: "instructions".to_owned(),
            head: ["pc", "executed", "share", "instruction"].map(str::to_owned).into(),
            more: self.distinct_instructions - rows.len() as u64,
            rows,
        }
    }

    fn line_grid(&self, shown: usize) -> Grid {
        let row = |line: &HotLine| {
            vec![
                Cell::Addr(line.addr),
                Cell::Count(line.reads),
                Cell::Count(line.writes),
                Cell::Share(line.share),
            ]
        };
        let rows: Vec<_> = self.lines.iter().take(shown).map(row).collect();
        Grid {
            title: format!("data lines of {} bytes", self.line_size),
            head: ["line", "reads", "writes", "share"].map(str::to_owned).into(),
            more: self.distinct_lines - rows.len() as u64,
            rows,
        }
    }
}
