//! The places of hot instructions and lines: basic blocks, functions and pages.
//!
//! Everything is derived from complete counts of single addresses. So it costs little while the trace is read, and the
//! borders between pieces of the trace have no effect.

use crate::filtered::Filtered;
use crate::lines::Lines;
use crate::number::{share, share_cell};
use crate::tally::{Map, Tally, top_by};
use quipu_isa::Decoder;
use quipu_model::doc::{Block, Cell, Grid};
use quipu_model::lens::{InstrClass, instr_flags};
use quipu_model::result;
use quipu_model::result::Hex;
use quipu_model::{Batch, Code};
use std::cmp::Reverse;

/// Maximum distance of an instruction from the called address to count as part of the function: 1 MiB.
const MAX_FUNCTION_BYTES: u64 = 1 << 20;

result! {
    /// Basic blocks and functions of a trace.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HotCode {
        pub distinct_blocks: u64 => "Basic blocks.";
        pub blocks: Vec<HotBlock> =>
            "Blocks with the most executed instructions, by count; equal counts by ascending address.";
        pub distinct_functions: u64 => "Distinct addresses called.";
        pub functions: Vec<HotFunction> =>
            "Functions with the most executed instructions, by count; equal counts by ascending address.";
        pub outside_functions: u64 => "Executed instructions that belong to no function.";
        pub calls_to_unknown: u64 =>
            "Calls whose target is neither in the trace nor in the instruction's bytes.";
    }
}

result! {
    /// One basic block.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct HotBlock {
        pub pc: u64 as Hex => "Address of its first instruction.";
        pub instructions: u64 => "Instructions in it.";
        pub bytes: u64 => "Length of the block in bytes.";
        pub executions: u64 => "Executions of the block.";
        pub executed: u64 => "Instructions executed in it, iterations of string loops included.";
        pub share: f64 => "Share of all executed instructions, 0 to 1.";
    }
}

result! {
    /// One function: the code from a called address up to the next one.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct HotFunction {
        pub pc: u64 as Hex => "Address called.";
        pub calls: u64 => "Number of calls.";
        pub executed: u64 =>
            "Instructions executed from this address up to the next called one, without those of callees.";
        pub share: f64 => "Share of all executed instructions, 0 to 1.";
    }
}

result! {
    /// One page.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct HotPage {
        pub addr: u64 as Hex => "Address at which the page begins.";
        pub executed: u64 => "Instructions executed whose first byte lies in it.";
        pub reads: u64 => "Reads, counted once for every line of the page that they touch.";
        pub writes: u64 => "Writes, counted once for every line of the page that they touch.";
        pub share: f64 => "Share of all executed instructions, reads and writes, 0 to 1.";
    }
}

/// Counts of control flow, in addition to executions.
#[derive(Clone, Default)]
pub(super) struct Flow {
    /// Addresses of branches of any sort.
    branches: Tally<u64>,
    /// Further iterations of string loops, by address.
    iterations: Tally<u64>,
    /// Number of calls by called address.
    callees: Tally<u64>,
    /// Calls whose targets are not in the trace, by the call's own address.
    unknown: Tally<u64>,
}

/// Executions at one address.
struct Spot {
    pc: u64,
    bytes: u64,
    executed: u64,
    /// Executions without further iterations of string loops.
    fetched: u64,
    is_branch: bool,
}

impl Flow {
    pub(super) fn consume(&mut self, batch: &Batch) {
        let instrs = &batch.instrs;
        for (row, (&class, &pc)) in instrs.class.iter().zip(&instrs.pc).enumerate() {
            if class.is_branch() {
                self.branches.add(pc);
                if matches!(class, InstrClass::DirectCall | InstrClass::IndirectCall) {
                    match instrs.target.get(row) {
                        None | Some(0) => self.unknown.add(pc),
                        Some(&target) => self.callees.add(target),
                    }
                }
            }
        }
        for (&flags, &pc) in instrs.flags.iter().zip(&instrs.pc) {
            if flags & instr_flags::NO_FETCH != 0 {
                self.iterations.add(pc);
            }
        }
    }

    pub(super) fn merge(&mut self, later: Flow) {
        self.branches.merge(later.branches);
        self.iterations.merge(later.iterations);
        self.callees.merge(later.callees);
        self.unknown.merge(later.unknown);
    }

    /// Derives blocks and functions from all executions.
    pub(super) fn finish(
        self,
        executed: &[(Code, u64)],
        decoder: Option<&mut Decoder>,
        top: usize,
    ) -> HotCode {
        let n_executed = executed.iter().map(|(_, count)| count).sum();
        let (callees, calls_to_unknown) =
            resolve(self.callees.into_map(), self.unknown.into_map(), executed, decoder);
        let spots = spots(executed, &self.branches.into_map(), &self.iterations.into_map());
        let blocks = blocks(&spots, n_executed);
        let (functions, outside_functions) = functions(&spots, callees, n_executed);
        HotCode {
            distinct_blocks: blocks.len() as u64,
            blocks: top_by(blocks, top, |block| (Reverse(block.executed), block.pc)),
            distinct_functions: functions.len() as u64,
            functions: top_by(functions, top, |function| (Reverse(function.executed), function.pc)),
            outside_functions,
            calls_to_unknown,
        }
    }
}

/// Adds calls whose target is encoded in the instruction; returns all callees and the number of calls that remain.
fn resolve(
    mut callees: Map<u64, u64>,
    mut unknown: Map<u64, u64>,
    executed: &[(Code, u64)],
    mut decoder: Option<&mut Decoder>,
) -> (Map<u64, u64>, u64) {
    // If the bytes changed, the call is searched for in all versions; the order must not depend on how the work was divided.
    let mut codes: Vec<&Code> =
        executed.iter().map(|(code, _)| code).filter(|code| unknown.contains_key(&code.pc)).collect();
    codes.sort_unstable_by_key(|code| (code.pc, code.bytes()));
    for code in codes {
        let instr = decoder.as_mut().and_then(|decoder| decoder.decode(code.pc, code.bytes()).ok());
        if let Some(target) = instr.and_then(|instr| instr.target)
            && let Some(calls) = unknown.remove(&code.pc)
        {
            *callees.entry(target).or_insert(0) += calls;
        }
    }
    (callees, unknown.into_values().sum())
}

/// Executions by ascending address.
fn spots(executed: &[(Code, u64)], branches: &Map<u64, u64>, iterations: &Map<u64, u64>) -> Vec<Spot> {
    let mut by_pc: Map<u64, Spot> = Map::default();
    for (code, count) in executed {
        let pc = code.pc;
        let is_branch = branches.contains_key(&pc);
        let spot = by_pc.entry(pc).or_insert(Spot { pc, bytes: 0, executed: 0, fetched: 0, is_branch });
        spot.bytes = spot.bytes.max(u64::from(code.size));
        spot.executed += count;
    }
    let mut spots: Vec<Spot> = by_pc.into_values().collect();
    for spot in &mut spots {
        let repeated = iterations.get(&spot.pc).copied().unwrap_or(0);
        spot.fetched = spot.executed.saturating_sub(repeated);
    }
    spots.sort_unstable_by_key(|spot| spot.pc);
    spots
}

fn blocks(spots: &[Spot], n_executed: u64) -> Vec<HotBlock> {
    let is_one = |spot: &Spot, next: &Spot| {
        !spot.is_branch && spot.pc.checked_add(spot.bytes) == Some(next.pc) && spot.fetched == next.fetched
    };
    let block = |spots: &[Spot]| {
        let executed = spots.iter().map(|spot| spot.executed).sum();
        spots.first().map(|first| HotBlock {
            pc: first.pc,
            instructions: spots.len() as u64,
            bytes: spots.iter().map(|spot| spot.bytes).sum(),
            executions: first.fetched,
            executed,
            share: share(executed, n_executed),
        })
    };
    spots.chunk_by(is_one).filter_map(block).collect()
}

/// All functions, and the number of executed instructions that belong to none.
fn functions(spots: &[Spot], callees: Map<u64, u64>, n_executed: u64) -> (Vec<HotFunction>, u64) {
    let mut functions: Vec<HotFunction> =
        callees.into_iter().map(|(pc, calls)| HotFunction { pc, calls, executed: 0, share: 0.0 }).collect();
    functions.sort_unstable_by_key(|function| function.pc);
    let mut outside = 0;
    let mut next = 0;
    for spot in spots {
        while functions.get(next).is_some_and(|function| function.pc <= spot.pc) {
            next += 1;
        }
        match next.checked_sub(1).and_then(|last| functions.get_mut(last)) {
            Some(function) if spot.pc - function.pc < MAX_FUNCTION_BYTES => {
                function.executed += spot.executed;
            }
            _ => outside += spot.executed,
        }
    }
    for function in &mut functions {
        function.share = share(function.executed, n_executed);
    }
    (functions, outside)
}

/// All pages, from executions and from the reads and writes of each line.
pub(super) fn pages(
    executed: &[(Code, u64)],
    lines: impl Iterator<Item = (u64, u64, u64)>,
    pages: Lines,
) -> Vec<HotPage> {
    let mut by_page: Map<u64, HotPage> = Map::default();
    let mut total = 0;
    let mut add = |addr: u64, executed: u64, reads: u64, writes: u64| {
        let addr = pages.addr(pages.line(addr));
        let page =
            by_page.entry(addr).or_insert(HotPage { addr, executed: 0, reads: 0, writes: 0, share: 0.0 });
        page.executed += executed;
        page.reads += reads;
        page.writes += writes;
        total += executed + reads + writes;
    };
    executed.iter().for_each(|(code, count)| add(code.pc, *count, 0, 0));
    lines.for_each(|(addr, reads, writes)| add(addr, 0, reads, writes));
    let mut all: Vec<HotPage> = by_page.into_values().collect();
    for page in &mut all {
        page.share = share(page.uses(), total);
    }
    all
}

impl HotPage {
    /// Executed instructions, reads and writes of the page.
    pub(super) fn uses(&self) -> u64 {
        self.executed + self.reads + self.writes
    }
}

impl HotCode {
    /// Both lists as tables.
    pub(super) fn blocks(&self, executed: u64, filtered: Filtered) -> [Block; 2] {
        let block = |block: &HotBlock| {
            vec![
                Cell::Addr(block.pc),
                Cell::Count(block.instructions),
                Cell::Count(block.executions),
                Cell::Count(block.executed),
                share_cell(block.executed, executed),
            ]
        };
        let function = |function: &HotFunction| {
            vec![
                Cell::Addr(function.pc),
                Cell::Count(function.calls),
                Cell::Count(function.executed),
                share_cell(function.executed, executed),
            ]
        };
        [
            Block::Grid(Grid {
                title: "basic blocks".to_owned(),
                head: ["pc", "instructions", "executions", filtered.executed(), filtered.share_of_executed()]
                    .map(str::to_owned)
                    .into(),
                rows: self.blocks.iter().map(block).collect(),
                more: self.distinct_blocks - self.blocks.len() as u64,
            }),
            Block::Grid(Grid {
                title: "functions, by the addresses that are called".to_owned(),
                head: ["pc", "calls", filtered.executed(), filtered.share_of_executed()]
                    .map(str::to_owned)
                    .into(),
                rows: self.functions.iter().map(function).collect(),
                more: self.distinct_functions - self.functions.len() as u64,
            }),
        ]
    }
}
