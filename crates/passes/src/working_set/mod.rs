//! `working-set`: the amount of memory in use, in total and over time.
//!
//! Counts distinct cache lines and pages: those of instructions (fetches and prefetches of instructions) and those of data
//! (reads, writes and all other prefetches; flushes do not count), as in [`histogram`](crate::histogram).
//!
//! Over time: each shard is divided into at most 64 intervals of equal width. The width is the smallest power of two that
//! suffices, and intervals begin at multiples of it. Positions are instructions of the shard, counted from 0; an
//! access belongs to the instruction before it. In a trace without instruction fetches, positions are records. For each
//! interval the tool reports the distinct lines touched in it, and those touched up to its end. For the series of the whole
//! trace, shards are overlaid by position, and a line that two of them touch counts once. `per-thread` adds the same for each
//! thread, at the positions of its shard. (Position is the progress of each shard, not time.)
//!
//! Memory grows with the number of distinct lines of each shard, about 20 to 40 bytes each (the lines of an access to more
//! than 64 lines are stored together); it does not grow with the length of the trace.
//!
//! * **Needs** `accesses`; uses `accesses.fetch`.
//! * **Options** `line-size` (bytes, default 64), `page-size` (bytes, default 4096, at least `line-size`), `per-thread`.

mod footprint;

use crate::axis::Positions;
use crate::filtered::Filtered;
use crate::keyed::Keyed;
use crate::lines::{DATA, INSTR, LINE_SIZE, Lines, PAGE_SIZE, side_of};
use crate::number::{grouped, noun};
use crate::split::{Answer, PER_THREAD, Part, PerThread, Split};
use footprint::Footprint;
use quipu_model::ThreadId;
use quipu_model::doc::{Block, Cell, Document, Series, SeriesLine};
use quipu_model::lens::AccessKind;
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Needs, Options, Order, Result, Shard, ShardKind, Tool, ToolInfo, Trace,
};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The tool `working-set`.
#[derive(Debug)]
pub struct WorkingSet;

static INFO: ToolInfo = ToolInfo {
    name: "working-set",
    summary: "distinct cache lines and pages, in total and over time",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: Columns::ACCESS_FETCH },
    order: Order::Pieces,
    options: &[LINE_SIZE, PAGE_SIZE, PER_THREAD],
    in_report: true,
};

impl Tool for WorkingSet {
    fn result(&self) -> Shape {
        PerThread::<Footprints>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let (lines, _, lines_in_page) = Lines::with_pages(options)?;
        let axis = Positions::of(trace.columns());
        let who = |shard: &Shard| Who {
            thread: shard.thread.filter(|_| shard.kind == ShardKind::Thread),
            core: shard.core_number(),
        };
        let who = trace.shards().iter().map(who).collect();
        let empty = Touched { who, lines, lines_in_page, axis, shards: Keyed::default() };
        Ok(Box::new(Split::new(empty, options, trace)))
    }
}

result! {
    /// Distinct lines and pages in use.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Footprints {
        pub line_size: u64 => "Bytes in a line.";
        pub page_size: u64 => "Bytes in a page.";
        pub axis: &'static str => "Unit of positions: instructions or records.";
        pub total: Footing, flat => "The whole trace.";
        pub shards: Vec<ShardFooting>, perhaps => "Shards, if there are several.";
    }
}

result! {
    /// Distinct lines and pages used by one shard.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ShardFooting {
        pub shard: u32 => "The shard's number.";
        pub thread: Option<ThreadId>, flat => "The thread, if the shard is one.";
        pub core: Option<u64>, perhaps =>
            "Number of the core, if the shard is one; the shard's number if the trace does not have it.";
        pub footing: Footing, flat => "Lines and pages of the shard.";
    }
}

result! {
    /// Distinct lines and pages used by a trace or shard.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Footing {
        pub lines: Distinct => "Distinct lines.";
        pub pages: Distinct => "Distinct pages.";
        pub interval: u64 => "Width of an interval, in positions.";
        pub start: u64 => "Position at which the first interval begins.";
        pub instr_lines: Vec<u64> => "Distinct instruction lines of each interval.";
        pub data_lines: Vec<u64> => "Distinct data lines of each interval.";
        pub data_pages: Vec<u64> => "Distinct data pages of each interval.";
        pub instr_lines_so_far: Vec<u64> => "Distinct instruction lines up to the end of each interval.";
        pub data_lines_so_far: Vec<u64> => "Distinct data lines up to the end of each interval.";
        pub data_pages_so_far: Vec<u64> => "Distinct data pages up to the end of each interval.";
    } beside {
        pub end: u64 => "Position after the last one. The last interval may reach further.";
    }
}

result! {
    /// Distinct lines or pages.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Distinct {
        pub total: u64 => "Touched by instructions or data; one with both counts once.";
        pub instr: u64 => "Touched by instruction fetches and prefetches.";
        pub data: u64 => "Touched by data accesses.";
    }
}

/// Footprints of one shard: instructions, then data. Both have the same axis.
#[derive(Clone, Default)]
struct Sides([Footprint; 2]);

impl Sides {
    fn cover(&mut self, first: u64, last: u64) {
        self.0.iter_mut().for_each(|side| side.cover(first, last));
    }

    fn go_to(&mut self, position: u64) {
        self.0.iter_mut().for_each(|side| side.go_to(position));
    }

    #[inline]
    fn touch(&mut self, lines: Lines, addr: u64, size: u32, kind: AccessKind) {
        if let Some(side) = side_of(kind) {
            let side = &mut self.0[side];
            // Both closures would borrow the side, and only one of them can.
            let mut wide = None;
            lines.each(addr, size, |line| side.touch(line), |first, last| wide = Some((first, last)));
            if let Some((first, last)) = wide {
                side.touch_all(first, last);
            }
        }
    }

    fn merge(&mut self, other: Sides) {
        self.0.iter_mut().zip(other.0).for_each(|(side, other)| side.merge(other));
    }

    fn instr(&self) -> &Footprint {
        &self.0[INSTR]
    }

    fn data(&self) -> &Footprint {
        &self.0[DATA]
    }
}

/// Thread or core of a shard.
#[derive(Clone, Copy, Debug, Default)]
struct Who {
    thread: Option<ThreadId>,
    core: Option<u64>,
}

/// The pass.
#[derive(Clone)]
struct Touched {
    /// Thread or core of each shard of the trace.
    who: Arc<[Who]>,
    lines: Lines,
    /// Lines in a page, as a power of two.
    lines_in_page: u32,
    axis: Positions,
    shards: Keyed<u32, Sides>,
}

impl Part for Touched {
    type Answer = Footprints;

    fn consume(&mut self, batch: &Batch) {
        let span = &batch.span;
        if span.records == 0 {
            return;
        }
        let sides = self.shards.entry(span.shard, Sides::default);
        let (first, last) = self.axis.ends(span);
        sides.cover(first, last);
        sides.go_to(first);
        let accesses = &batch.accesses;
        let rows = accesses.addr.iter().zip(&accesses.size).zip(&accesses.kind);
        if sides.data().is_one_interval(first, last) {
            for ((&addr, &size), &kind) in rows {
                sides.touch(self.lines, addr, size, kind);
            }
        } else {
            let mut next_instr = span.first_instr;
            for (((&addr, &size), &kind), &at) in rows.zip(&accesses.at) {
                next_instr += u64::from(kind == AccessKind::Fetch);
                let position = match self.axis {
                    Positions::Instrs => next_instr.saturating_sub(1),
                    Positions::Records => span.first_record + u64::from(at),
                };
                sides.go_to(position.min(last));
                sides.touch(self.lines, addr, size, kind);
            }
        }
    }

    fn merge(&mut self, later: Touched) {
        self.shards.merge(later.shards, Sides::merge);
    }

    fn answer(self) -> Footprints {
        let mut shards = Vec::new();
        let mut total = Sides::default();
        for (shard, mut sides) in self.shards.into_items() {
            sides.0.iter_mut().for_each(Footprint::settle);
            let Who { thread, core } = self.who.get(shard as usize).copied().unwrap_or_default();
            let footing = Footing::new(&sides, self.lines_in_page);
            shards.push(ShardFooting { shard, thread, core, footing });
            total.merge(sides);
        }
        Footprints {
            line_size: self.lines.bytes(),
            page_size: self.lines.bytes() << self.lines_in_page,
            axis: self.axis.name(),
            total: Footing::new(&total, self.lines_in_page),
            shards: if shards.len() > 1 { shards } else { Vec::new() },
        }
    }
}

impl Footing {
    fn new(sides: &Sides, lines_in_page: u32) -> Footing {
        let pages = Sides(sides.0.each_ref().map(|side| side.coarser(lines_in_page)));
        let (instr_lines, instr_lines_so_far) = sides.instr().over_time();
        let (data_lines, data_lines_so_far) = sides.data().over_time();
        let (data_pages, data_pages_so_far) = pages.data().over_time();
        Footing {
            lines: Distinct::new(sides),
            pages: Distinct::new(&pages),
            interval: sides.data().axis().width(),
            start: sides.data().axis().start(),
            end: sides.data().axis().end(),
            instr_lines,
            data_lines,
            data_pages,
            instr_lines_so_far,
            data_lines_so_far,
            data_pages_so_far,
        }
    }
}

impl Distinct {
    fn new(sides: &Sides) -> Distinct {
        let (instr, data) = (sides.instr().len(), sides.data().len());
        Distinct { total: instr + data - sides.instr().n_shared(sides.data()), instr, data }
    }
}

impl Answer for Footprints {
    fn document(&self, detail: Detail, _: Filtered) -> Document {
        let total = &self.total;
        if detail == Detail::Brief && total.lines.total == 0 {
            return Document::new("Working set");
        }
        let row = |lines: u64, pages: u64| {
            let bytes = lines.saturating_mul(self.line_size);
            let words = [noun(lines, "line"), noun(pages, "page")].map(Cell::Text);
            let [of_lines, of_pages] = words;
            vec![Cell::Count(lines), of_lines, Cell::Bytes(bytes), Cell::Count(pages), of_pages]
        };
        let mut facts = vec![("data".to_owned(), row(total.lines.data, total.pages.data))];
        // A trace without fetches does not show the addresses of instructions, which is not a count of 0.
        if total.lines.instr > 0 {
            facts.push(("instructions".to_owned(), row(total.lines.instr, total.pages.instr)));
        }
        let mut document = Document::new("Working set")
            .with(Block::Facts(facts))
            .with(Block::Series(self.series("", total, detail)));
        if detail == Detail::Full {
            for shard in &self.shards {
                let title = match (shard.core, shard.thread) {
                    (Some(core), _) => format!("core {core}"),
                    (None, Some(thread)) => format!("thread {}", thread),
                    (None, None) => format!("shard {}", shard.shard),
                };
                document.blocks.push(Block::Series(self.series(&title, &shard.footing, detail)));
            }
        }
        document
    }
}

impl Footprints {
    fn series(&self, title: &str, footing: &Footing, detail: Detail) -> Series {
        let has_instrs = self.total.lines.instr > 0;
        let mut lines = vec![
            series_line("data lines", &footing.data_lines, "max"),
            series_line("data lines so far", &footing.data_lines_so_far, "all"),
        ];
        if has_instrs {
            lines.push(series_line("instr lines", &footing.instr_lines, "max"));
        }
        if detail == Detail::Full {
            if has_instrs {
                lines.push(series_line("instr lines so far", &footing.instr_lines_so_far, "all"));
            }
            lines.push(series_line("data pages", &footing.data_pages, "max"));
            lines.push(series_line("data pages so far", &footing.data_pages_so_far, "all"));
        }
        let of_each = if title.is_empty() && !self.shards.is_empty() { " of each part" } else { "" };
        Series {
            title: title.to_owned(),
            axis: format!("{}{of_each}, {} a step", self.axis, grouped(footing.interval)),
            ends: (grouped(footing.start), grouped(footing.end)),
            lines,
        }
    }
}

fn series_line(name: &str, values: &[u64], word: &str) -> SeriesLine {
    let max = values.iter().max().copied().unwrap_or(0);
    SeriesLine {
        name: name.to_owned(),
        values: values.iter().map(|&value| value as f64).collect(),
        note: format!("{word} {}", grouped(max)),
        unit: if name.contains("pages") { "pages" } else { "lines" }.to_owned(),
    }
}
