//! `hot`: the most executed instructions, basic blocks and functions, and the most used data lines and pages.
//!
//! *Instructions*: executions of each distinct instruction, further iterations of string loops included. Where the trace
//! carries encodings, an address whose bytes change counts as several instructions, and each is shown disassembled.
//!
//! *Lines*: reads and writes of each cache line of data; an access that straddles lines counts on each of them,
//! prefetches and flushes do not count.
//!
//! *Basic blocks*: runs of adjacent instructions, each fetched as often as the one before, that end with a branch of any kind.
//! Where control enters or leaves within a run, the numbers of fetches differ, so a block ends there too. Two blocks are
//! taken for one only if control leaves at that place (by signals) exactly as often as it enters.
//!
//! *Functions*: the target addresses of calls, taken from the trace or from the bytes of the call, with the number of
//! calls. An executed instruction belongs to the nearest such address at or below its own, if that is less than 1 MiB away.
//! This uses neither symbols nor stacks: code that is only jumped to (tail calls, outlined parts) counts for the function
//! before it in memory, and callees do not count for their callers. For functions that the tracer itself recorded, see
//! [`functions`](crate::functions), which lists callers and callees.
//!
//! *Pages*: executed instructions by their first byte, and the reads and writes of the page's lines.
//!
//! `per-thread` adds the same lists for each thread, from its own instructions, calls and accesses. Executions, calls, reads
//! and writes of an instruction, address, line or page add up to those of the whole trace; the division into blocks and
//! functions may differ, because each thread enters and calls other addresses.
//!
//! Memory grows with the number of distinct instructions and lines, not with the length of the trace; with `per-thread`, with
//! those of each thread. If threads share a file, each also has a count for every distinct instruction of the file.
//!
//! * **Needs** `instrs` or `accesses`; uses both, `instrs.code`, `instrs.class` (without it there are neither
//!   blocks nor functions) and `instrs.target`.
//! * **Options** `top` (rows in each list, default 10), `line-size` (bytes, default 64), `page-size` (bytes, default 4096,
//!   at least `line-size`), `syntax` (of x86 disassembly,
//!   `att` or `intel`, default `att`), `per-thread`.

mod places;

use crate::executed::PerCode;
use crate::filtered::Filtered;
use crate::lines::{LINE_SIZE, Lines, PAGE_SIZE, gather};
use crate::number::{share, share_cell};
use crate::split::{Answer, PER_THREAD, Part, PerThread, Split};
use crate::tally::{Map, Tally, top_by};
use places::Flow;
pub use places::{HotBlock, HotCode, HotFunction, HotPage};
use quipu_isa::{Arch, Decoder, Syntax};
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::lens::{AccessKind, NO_CODE};
use quipu_model::options::Kind;
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Hex, Shape};
use quipu_model::{
    Batch, Code, Columns, DynPass, Error, Needs, OptionSpec, Options, Order, Result, Spans, Tool, ToolInfo,
    Trace,
};
use std::cmp::Reverse;

#[cfg(test)]
mod tests;

/// The tool `hot`.
#[derive(Debug)]
pub struct Hot;

const TOP: OptionSpec = OptionSpec::new("top", Kind::Count, "10", "how many rows each list has");
const SYNTAX: OptionSpec =
    OptionSpec::new("syntax", Kind::Text, "att", "syntax of x86 disassembly: att or intel");

static INFO: ToolInfo = ToolInfo {
    name: "hot",
    summary: "most executed instructions, blocks and functions, most used lines and pages",
    needs: Needs {
        format: None,
        required: Columns::NONE,
        optional: Columns::INSTRS
            .or(Columns::INSTR_CODE)
            .or(Columns::INSTR_CLASS)
            .or(Columns::INSTR_TARGET)
            .or(Columns::ACCESSES),
    },
    order: Order::Pieces,
    options: &[TOP, LINE_SIZE, PAGE_SIZE, SYNTAX, PER_THREAD],
    in_report: true,
};

impl Tool for Hot {
    fn result(&self) -> Shape {
        PerThread::<Hottest>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let has = trace.columns();
        if !has.any(Columns::INSTRS | Columns::ACCESSES) {
            let message = "tool `hot` needs instrs or accesses, and this trace carries neither";
            return Err(Error::missing(message));
        }
        let syntax = match options.text(&SYNTAX) {
            None => Syntax::default(),
            Some(name) => name
                .parse()
                .map_err(|error| Error::usage(format!("option `syntax`: {error}, found `{name}`")))?,
        };
        let (lines, pages, _) = Lines::with_pages(options)?;
        let setup = Setup {
            top: options.length(&TOP),
            lines,
            pages,
            syntax,
            arch: trace.meta().arch,
            has_instrs: has.has(Columns::INSTRS),
            has_codes: has.has(Columns::INSTRS | Columns::INSTR_CODE),
            has_classes: has.has(Columns::INSTRS | Columns::INSTR_CLASS),
            has_accesses: has.has(Columns::ACCESSES),
        };
        Ok(Box::new(Split::new(Heat::new(setup), options, trace)))
    }
}

result! {
    /// The hottest instructions and lines.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Hottest {
        pub executed: Option<u64> => "Executed instructions; null if the trace has no instructions.";
        pub distinct_instructions: u64 => "Distinct instructions.";
        pub instructions: Vec<HotInstr> =>
            "Most executed instructions, by count; equal counts by ascending address, then by bytes.";
        pub code: Option<HotCode>, flat =>
            "Basic blocks and functions; null if the trace does not mark branches.";
        pub line_size: u64 => "Bytes in a line.";
        pub accesses: Option<u64> =>
            "Reads and writes, each counted once for every line that it touches; null if the trace has no accesses.";
        pub distinct_lines: u64 => "Distinct lines of data.";
        pub lines: Vec<HotLine> => "Most used lines, by count; equal counts by ascending address.";
        pub page_size: u64 => "Bytes in a page.";
        pub distinct_pages: u64 => "Distinct pages of instructions and data.";
        pub pages: Vec<HotPage> => "Most used pages, by count; equal counts by ascending address.";
    }
}

result! {
    /// One instruction.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HotInstr {
        pub pc: u64 as Hex => "Address of the instruction.";
        pub text: Option<String> => "Disassembly.";
        pub count: u64 => "Number of executions.";
        pub share: f64 => "Share of all executed instructions, 0 to 1.";
    }
}

result! {
    /// One line of data.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct HotLine {
        pub addr: u64 as Hex => "Address at which the line begins.";
        pub reads: u64 => "Reads.";
        pub writes: u64 => "Writes.";
        pub share: f64 => "Share of all reads and writes, 0 to 1.";
    }
}

#[derive(Clone, Copy)]
struct Setup {
    top: usize,
    lines: Lines,
    pages: Lines,
    syntax: Syntax,
    arch: Option<Arch>,
    has_instrs: bool,
    has_codes: bool,
    has_classes: bool,
    has_accesses: bool,
}

/// Adds reads and writes to each of the lines of a large access.
#[cold]
fn add_all(lines: &mut Spans<(u64, u64)>, first: u64, last: u64, (reads, writes): (u64, u64)) {
    lines.change(first, last, |uses| {
        let uses = uses.unwrap_or((0, 0));
        (uses.0 + reads, uses.1 + writes)
    });
}

/// Splits a run of lines with equal counts by page: an address in the page, its reads and its writes.
fn in_pages(
    lines: Lines,
    pages: Lines,
    first: u64,
    last: u64,
    (reads, writes): (u64, u64),
) -> impl Iterator<Item = (u64, u64, u64)> {
    let n_lines = lines.coarser(pages).map_or(1, |coarser| 1u64 << coarser);
    (first / n_lines..=last / n_lines).map(move |page| {
        let begin = first.max(page * n_lines);
        let n_used = last.min(page * n_lines + (n_lines - 1)) - begin + 1;
        (lines.addr(begin), reads.saturating_mul(n_used), writes.saturating_mul(n_used))
    })
}

/// The pass.
#[derive(Clone)]
struct Heat {
    options: Setup,
    /// Executions in the reads of this pass itself.
    open: PerCode<Code>,
    /// Executions in passes that were merged into this one.
    codes: Map<Code, u64>,
    /// Executions of instructions without encoding, by address and length.
    pcs: Tally<(u64, u64)>,
    flow: Flow,
    reads: Tally<u64>,
    writes: Tally<u64>,
    /// Reads and writes of the lines of large accesses, which are not in `reads` and `writes`.
    wide: Spans<(u64, u64)>,
}

impl Heat {
    fn new(options: Setup) -> Heat {
        Heat {
            options,
            open: PerCode::default(),
            codes: Map::default(),
            pcs: Tally::default(),
            flow: Flow::default(),
            reads: Tally::default(),
            writes: Tally::default(),
            wide: Spans::default(),
        }
    }

    fn settle(&mut self) {
        let codes = &mut self.codes;
        std::mem::take(&mut self.open).drain(|code, count| *codes.entry(code).or_insert(0) += count);
    }
}

impl Part for Heat {
    type Answer = Hottest;

    fn consume(&mut self, batch: &Batch) {
        let instrs = &batch.instrs;
        let places = instrs.pc.iter().zip(&instrs.size).map(|(&pc, &size)| (pc, u64::from(size)));
        if !self.options.has_codes {
            places.for_each(|place| self.pcs.add(place));
        } else if self.open.consume(batch, |code| *code) > 0 {
            let without = places.zip(&instrs.code).filter(|(_, code)| **code == NO_CODE);
            without.for_each(|(place, _)| self.pcs.add(place));
        }
        if self.options.has_classes {
            self.flow.consume(batch);
        }
        let (lines, accesses) = (self.options.lines, &batch.accesses);
        for ((&addr, &size), &kind) in accesses.addr.iter().zip(&accesses.size).zip(&accesses.kind) {
            match kind {
                AccessKind::Read => lines.each(
                    addr,
                    size,
                    |line| self.reads.add(line),
                    |first, last| add_all(&mut self.wide, first, last, (1, 0)),
                ),
                AccessKind::Write => lines.each(
                    addr,
                    size,
                    |line| self.writes.add(line),
                    |first, last| add_all(&mut self.wide, first, last, (0, 1)),
                ),
                _ => {}
            }
        }
    }

    fn merge(&mut self, mut later: Heat) {
        later.settle();
        for (code, count) in later.codes {
            *self.codes.entry(code).or_insert(0) += count;
        }
        self.pcs.merge(later.pcs);
        self.flow.merge(later.flow);
        self.reads.merge(later.reads);
        self.writes.merge(later.writes);
        for (first, last, uses) in later.wide.iter() {
            add_all(&mut self.wide, first, last, uses);
        }
    }

    fn answer(mut self) -> Hottest {
        self.settle();
        let Setup { top, lines, pages, syntax, arch, has_classes, .. } = self.options;
        let without = self.pcs.into_map().into_iter();
        // Lengths have 16 bits in every row.
        let without = without.map(|((pc, size), count)| (Code::new(pc, size as u16, &[]), count));
        let executed: Vec<(Code, u64)> = self.codes.into_iter().chain(without).collect();
        let n_executed = executed.iter().map(|(_, count)| count).sum();
        let distinct_instructions = executed.len() as u64;
        let mut decoder = arch.and_then(|arch| Decoder::new(arch, syntax).ok());
        let code = has_classes.then(|| self.flow.finish(&executed, decoder.as_mut(), top));

        let mut used: Map<u64, (u64, u64)> =
            self.reads.into_map().into_iter().map(|(line, reads)| (line, (reads, 0))).collect();
        for (line, writes) in self.writes.into_map() {
            used.entry(line).or_insert((0, 0)).1 = writes;
        }
        gather(&mut used, &mut self.wide, |uses, more| (uses.0 + more.0, uses.1 + more.1));
        let by_line = used.iter().map(|(&line, &(reads, writes))| (lines.addr(line), reads, writes));
        let by_page =
            self.wide.iter().flat_map(|(first, last, uses)| in_pages(lines, pages, first, last, uses));
        let used_pages = places::pages(&executed, by_line.chain(by_page), pages);
        let hottest = top_by(executed, top, |(code, count)| {
            (Reverse(*count), code.pc, code.size, code.bytes().to_vec())
        });
        let n_narrow: u64 = used.values().map(|(reads, writes)| reads + writes).sum();
        let wide = self.wide.iter();
        let n_accesses = wide.fold(n_narrow, |sum, (first, last, (reads, writes))| {
            sum.saturating_add((last - first + 1).saturating_mul(reads + writes))
        });
        let distinct_lines = used.len() as u64 + self.wide.n_numbers();
        // All lines of a run are used equally often, so only its first ones can be among those listed.
        let wide = self
            .wide
            .iter()
            .flat_map(|(first, last, uses)| (first..=last).take(top).map(move |line| (line, uses)));
        let busiest = top_by(used.into_iter().chain(wide).collect(), top, |&(line, (reads, writes))| {
            (Reverse(reads + writes), line)
        });

        Hottest {
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
            code,
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
            page_size: pages.bytes(),
            distinct_pages: used_pages.len() as u64,
            pages: top_by(used_pages, top, |page| (Reverse(page.uses()), page.addr)),
        }
    }
}

fn text_of(decoder: Option<&mut Decoder>, code: &Code) -> Option<String> {
    let decoder = decoder.filter(|_| !code.bytes().is_empty())?;
    let mut text = String::new();
    decoder.text(code.pc, code.bytes(), &mut text);
    Some(text.trim_end().to_owned())
}

/// Number of rows of each list in a brief document.
const BRIEF_ROWS: usize = 5;

impl Answer for Hottest {
    fn document(&self, detail: Detail, filtered: Filtered) -> Document {
        let shown = if detail == Detail::Brief { BRIEF_ROWS } else { usize::MAX };
        let mut document = Document::new("Hottest");
        // A brief document has no empty lists.
        let is_shown = |n_rows: u64| detail == Detail::Full || n_rows > 0;
        if let Some(executed) = self.executed.filter(|_| is_shown(self.distinct_instructions)) {
            document.blocks.push(Block::Grid(self.instr_grid(executed, shown, filtered)));
            if let Some(code) = self.code.as_ref().filter(|_| detail == Detail::Full) {
                document.blocks.extend(code.blocks(executed, filtered));
            }
        }
        if self.accesses.is_some() && is_shown(self.distinct_lines) {
            document.blocks.push(Block::Grid(self.line_grid(shown)));
        }
        if detail == Detail::Full {
            document.blocks.push(Block::Grid(self.page_grid(filtered)));
        }
        document
    }
}

impl Hottest {
    fn instr_grid(&self, executed: u64, shown: usize, filtered: Filtered) -> Grid {
        let row = |instr: &HotInstr| {
            let text = instr.text.clone().map_or(Cell::Empty, Cell::Code);
            vec![Cell::Addr(instr.pc), Cell::Count(instr.count), share_cell(instr.count, executed), text]
        };
        let rows: Vec<_> = self.instructions.iter().take(shown).map(row).collect();
        Grid {
            title: "instructions".to_owned(),
            head: ["pc", filtered.executed(), filtered.share_of_executed(), "instruction"]
                .map(str::to_owned)
                .into(),
            more: self.distinct_instructions - rows.len() as u64,
            rows,
        }
    }

    fn page_grid(&self, filtered: Filtered) -> Grid {
        let row = |page: &HotPage| {
            vec![
                Cell::Addr(page.addr),
                Cell::Count(page.executed),
                Cell::Count(page.reads),
                Cell::Count(page.writes),
                Cell::Share(page.share),
            ]
        };
        Grid {
            title: format!("pages of {} bytes", self.page_size),
            head: ["page", filtered.executed(), "reads", "writes", "share of all three"]
                .map(str::to_owned)
                .into(),
            rows: self.pages.iter().map(row).collect(),
            more: self.distinct_pages - self.pages.len() as u64,
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
            head: ["line", "reads", "writes", "share of reads and writes"].map(str::to_owned).into(),
            more: self.distinct_lines - rows.len() as u64,
            rows,
        }
    }
}
