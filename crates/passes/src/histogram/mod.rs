//! `histogram`: how often each cache line is touched.
//!
//! There are two histograms. The instruction side counts instruction fetches and prefetches of instructions; further
//! iterations of a string loop are not fetches. The data side counts reads, writes and all other prefetches. Flushes count
//! on neither side. An access counts once on *each* line in `addr .. addr + size`, so one that straddles two lines
//! counts twice; one of 0 bytes counts on its line unless its address is exactly the line's start.
//! (SPEC: drmemtrace.md#histogram.)
//!
//! Memory grows with the number of distinct lines, not with the length of the trace.
//!
//! * **Needs** `accesses`; uses `accesses.fetch`, without which the instruction side has prefetches only.
//! * **Options** `line-size` (bytes, a power of two, default 64), `top` (lines listed on each side, default 10),
//!   `per-thread`.

use crate::filtered::Filtered;
use crate::lines::{LINE_SIZE, Lines, gather, side_of};
use crate::split::{Answer, PER_THREAD, Part, PerThread, Split};
use crate::tally::{self, Tally};
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::options::Kind;
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Hex, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Needs, OptionSpec, Options, Order, Result, Spans, Tool, ToolInfo, Trace,
};
use std::cmp::Reverse;

#[cfg(test)]
mod tests;

/// The tool `histogram`.
#[derive(Debug)]
pub struct Histogram;

const TOP: OptionSpec = OptionSpec::new("top", Kind::Count, "10", "number of lines to list on each side");

static INFO: ToolInfo = ToolInfo {
    name: "histogram",
    summary: "how often each cache line is touched",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: Columns::ACCESS_FETCH },
    order: Order::Pieces,
    options: &[LINE_SIZE, TOP, PER_THREAD],
    in_report: false,
};

impl Tool for Histogram {
    fn result(&self) -> Shape {
        PerThread::<LineHistogram>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let lines = Lines::of(options);
        let top = options.count(&TOP);
        Ok(Box::new(Split::new(
            Touches { lines, top, sides: Default::default(), wide: Default::default() },
            options,
            trace,
        )))
    }
}

result! {
    /// How often each cache line is touched.
    #[derive(Clone, Debug, PartialEq)]
    pub struct LineHistogram {
        pub line_size: u64 => "Bytes in a line.";
        pub icache: Side => "Instruction fetches and prefetches.";
        pub dcache: Side => "Reads, writes and data prefetches.";
    }
}

result! {
    /// One side of the histogram.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Side {
        pub unique_lines: u64 => "Distinct lines touched.";
        pub touches: u64 => "Accesses, each counted once for every line that it touches.";
        pub top: Vec<LineCount> => "Most touched lines, by count; equal counts by ascending address.";
    }
}

result! {
    /// One line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LineCount {
        pub addr: u64 as Hex => "Address at which the line begins.";
        pub count: u64 => "Accesses that touch the line.";
    }
}

/// The pass.
#[derive(Clone)]
struct Touches {
    lines: Lines,
    top: u64,
    /// Touches of each line, on the instruction side and on the data side.
    sides: [Tally<u64>; 2],
    /// Touches of the lines of large accesses, which are not in `sides`.
    wide: [Spans<u64>; 2],
}

impl Part for Touches {
    type Answer = LineHistogram;

    fn consume(&mut self, batch: &Batch) {
        let lines = self.lines;
        let accesses = &batch.accesses;
        for ((&addr, &size), &kind) in accesses.addr.iter().zip(&accesses.size).zip(&accesses.kind) {
            if let Some(side) = side_of(kind) {
                let (side, wide) = (&mut self.sides[side], &mut self.wide[side]);
                lines.each(addr, size, |line| side.add(line), |first, last| add_all(wide, first, last, 1));
            }
        }
    }

    fn merge(&mut self, later: Touches) {
        for (side, later) in self.sides.iter_mut().zip(later.sides) {
            side.merge(later);
        }
        for (wide, later) in self.wide.iter_mut().zip(later.wide) {
            later.iter().for_each(|(first, last, count)| add_all(wide, first, last, count));
        }
    }

    fn answer(self) -> LineHistogram {
        let [mut instr, mut data] = self.wide;
        let top = usize::try_from(self.top).unwrap_or(usize::MAX);
        let side = |tally: Tally<u64>, wide: &mut Spans<u64>| {
            let mut counts = tally.into_map();
            gather(&mut counts, wide, |count, more| count + more);
            let n_narrow: u64 = counts.values().sum();
            let touches = wide.iter().fold(n_narrow, |sum, (first, last, count)| {
                sum.saturating_add((last - first + 1).saturating_mul(count))
            });
            let unique_lines = counts.len() as u64 + wide.n_numbers();
            // All lines of a run have the same count, so only its first ones can be among those listed.
            let wide =
                wide.iter().flat_map(|(first, last, n)| (first..=last).take(top).map(move |line| (line, n)));
            let busiest = tally::top_by(counts.into_iter().chain(wide).collect(), top, |&(line, count)| {
                (Reverse(count), line)
            });
            Side {
                unique_lines,
                touches,
                top: busiest
                    .into_iter()
                    .map(|(line, count)| LineCount { addr: self.lines.addr(line), count })
                    .collect(),
            }
        };
        let [instr_side, data_side] = self.sides;
        let (icache, dcache) = (side(instr_side, &mut instr), side(data_side, &mut data));
        LineHistogram { line_size: self.lines.bytes(), icache, dcache }
    }
}

/// Adds `count` to each of the lines of a large access.
#[cold]
fn add_all(lines: &mut Spans<u64>, first: u64, last: u64, count: u64) {
    lines.change(first, last, |known| known.unwrap_or(0) + count);
}

impl Answer for LineHistogram {
    fn document(&self, detail: Detail, _: Filtered) -> Document {
        let sides = [("instruction lines", &self.icache), ("data lines", &self.dcache)];
        let facts = sides.map(|(name, side)| {
            let bytes = side.unique_lines.saturating_mul(self.line_size);
            (name.to_owned(), vec![Cell::Count(side.unique_lines), Cell::Bytes(bytes)])
        });
        let mut document = Document::new("Cache lines touched").with(Block::Facts(facts.into()));
        if detail == Detail::Full {
            for (name, side) in sides {
                document.blocks.push(Block::Grid(grid(name, side)));
            }
        }
        document
    }
}

fn grid(name: &str, side: &Side) -> Grid {
    let row = |line: &LineCount| {
        vec![
            Cell::Addr(line.addr),
            Cell::Count(line.count),
            crate::number::share_cell(line.count, side.touches),
        ]
    };
    Grid {
        title: format!("hottest {name}"),
        head: ["line", "touches", "share of touches"].map(str::to_owned).into(),
        rows: side.top.iter().map(row).collect(),
        more: side.unique_lines - side.top.len() as u64,
    }
}
