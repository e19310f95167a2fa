//! `reuse-distance`: how many other cache lines are used between two uses of a line.
//!
//! Each shard (a thread, or a core) has an LRU stack of lines, of instructions and data together. The distance of an access
//! is the number of distinct lines above its own on the stack: 0 if the access before was to the same line. A line's first
//! use has no distance. Fetches, reads, writes and prefetches of all kinds count, as accesses to the line of their first
//! byte; flushes do not count. Distances are exact, and each access takes O(log n) for n distinct lines. The total adds up
//! the results of the shards; it does not interleave threads.
//! (SPEC: drmemtrace.md#reuse_distance.)
//!
//! With intervals, each begins with an empty stack, so that a line's first use in it has no distance. (DynamoRIO has no
//! intervals for this tool.)
//!
//! With `limit`, the lowest line of a stack that would exceed the limit is *pruned*: its next use counts as a first use.
//!
//! Memory grows with the number of distinct lines of each shard, by about 100 bytes each, and not with the length of the trace.
//!
//! In SQL, the table function `reuse_distance(t, 'line')` gives the distance of each access.
//!
//! * **Needs** `accesses`; uses `accesses.fetch`, without which data alone counts.
//! * **Options** `line-size` (bytes, a power of two, default 64), `threshold` (references farther than this are *distant*,
//!   default 100), `limit` (most lines on a stack, default 0 for no limit), `bins` (width of each histogram bin relative to the
//!   one before, at least 1; 1 gives each distance its own bin, default 2), `top` (lines in each list, default 10),
//!   `per-thread`.

pub mod rows;
pub(crate) mod stack;

use crate::bins::{self, Bins, Spread};
use crate::filtered::Filtered;
use crate::lines::{LINE_SIZE, Lines};
use crate::number::{share, share_cell};
use crate::sharded::{BY_THREAD, PerShard, Row, Sharded, Shards};
use crate::split::Answer;
use crate::tally::{Map, top_by};
use quipu_model::doc::{Block, Cell, Curve, CurveLine, Document, Grid};
use quipu_model::lens::AccessKind;
use quipu_model::options::Kind;
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Hex, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Needs, OptionSpec, Options, Order, Result, RowTool, Tool, ToolInfo, Trace,
};
use stack::{DATA, INSTR, Stack};
use std::cmp::Reverse;
use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// The tool `reuse-distance`.
#[derive(Debug)]
pub struct ReuseDistance;

const THRESHOLD: OptionSpec =
    OptionSpec::new("threshold", Kind::Count, "100", "distance above which a reference counts as distant")
        .value("LINES");
const LIMIT: OptionSpec = OptionSpec::new(
    "limit",
    Kind::Count,
    "0",
    "maximum number of lines on a stack; the lowest is pruned; 0 for no limit",
)
.value("LINES");
const TOP: OptionSpec = OptionSpec::new("top", Kind::Count, "10", "number of lines in each list");

static INFO: ToolInfo = ToolInfo {
    name: "reuse-distance",
    summary: "how many other cache lines are used between two uses of a line",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: Columns::ACCESS_FETCH },
    order: Order::Shards,
    options: &[LINE_SIZE, THRESHOLD, LIMIT, bins::OPTION, TOP, BY_THREAD],
    in_report: false,
};

impl Tool for ReuseDistance {
    fn result(&self) -> Shape {
        PerShard::<Distances>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn rows(&self) -> Option<&'static dyn RowTool> {
        Some(&rows::Each)
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let setup = Setup {
            lines: Lines::of(options),
            threshold: options.count(&THRESHOLD),
            limit: options.count(&LIMIT),
            bins: Bins::new(options)?,
            top: options.length(&TOP),
        };
        Ok(Box::new(Shards::new(setup, options, trace)))
    }
}

result! {
    /// Reuse distances of a trace or shard, in cache lines.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Distances {
        pub line_size: u64 => "Bytes in a line.";
        pub limit: u64 => "Maximum lines on a stack; 0 for no limit.";
        pub threshold: u64 => "References at more than this distance are distant.";
        pub accesses: u64 => "Accesses that count.";
        pub instr_accesses: u64 => "Instruction fetches among them.";
        pub data_accesses: u64 => "All other accesses.";
        pub moves: u64 => "Accesses to a different line than the access before.";
        pub lines: u64 => "Distinct lines.";
        pub pruned: u64 => "Lines pruned from a stack.";
        pub pruned_hits: u64 => "Uses of a line after it was pruned.";
        pub reuses: u64 => "Accesses that have a distance.";
        pub mean: Option<f64> => "Mean distance.";
        pub median: Option<u64> => "Median: the smallest distance that at least half of the reuses do not exceed.";
        pub deviation: Option<f64> => "Standard deviation of the distances.";
        pub bins: f64 => "Width of each bin relative to the one before.";
        pub histogram: Vec<Bin> => "Reuses by distance; empty bins are left out.";
        pub referenced: Vec<LineReuse> =>
            "Most used lines; equal counts by distant references, then by ascending address.";
        pub distant: Vec<LineReuse> =>
            "Lines with the most distant references; equal counts by references, then by ascending address.";
    } beside {
        pub exact: Vec<Bin> => "Number of reuses at each distance that occurs, in ascending order. Not in JSON.";
    }
}

result! {
    /// Reuses within a range of distances.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Bin {
        pub min: u64 => "Smallest distance of the bin.";
        pub max: u64 => "Largest distance of the bin; for the last bin, the largest that occurs.";
        pub count: u64 => "Reuses at these distances.";
        pub data: u64 => "Data accesses among them.";
    }
}

result! {
    /// One line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LineReuse {
        pub addr: u64 as Hex => "Address at which the line begins.";
        pub references: u64 => "Uses of the line since it last entered the stack.";
        pub distant: u64 => "Uses at a distance above the threshold.";
    }
}

#[derive(Clone)]
struct Setup {
    lines: Lines,
    threshold: u64,
    limit: u64,
    bins: Bins,
    top: usize,
}

/// Sums of several shards.
#[derive(Default)]
struct Total {
    instr_accesses: u64,
    data_accesses: u64,
    moves: u64,
    pruned: u64,
    pruned_hits: u64,
    reuses: BTreeMap<u64, [u64; 2]>,
    lines: Map<u64, Use>,
}

/// A line in a total; if it is not kept, it is on no stack any more. Shards that pruned it add nothing to it.
#[derive(Clone, Copy, Default)]
struct Use {
    references: u64,
    distant: u64,
    is_kept: bool,
}

impl Use {
    fn add(&mut self, other: Use) {
        self.is_kept |= other.is_kept;
        self.references += other.references;
        self.distant += other.distant;
    }
}

/// The side of the stack that counts an access; `None` if it is not counted.
const SIDES: [Option<usize>; AccessKind::ALL.len()] = {
    let mut sides = [None; AccessKind::ALL.len()];
    sides[AccessKind::Fetch as usize] = Some(INSTR);
    // QUIRK: DynamoRIO counts only fetches as accesses of instructions.
    sides[AccessKind::PrefetchInstr as usize] = Some(DATA);
    sides[AccessKind::Prefetch as usize] = Some(DATA);
    sides[AccessKind::Read as usize] = Some(DATA);
    sides[AccessKind::Write as usize] = Some(DATA);
    sides
};

impl Sharded for Setup {
    type Open = Stack;
    type Total = Total;
    type Answer = Distances;

    fn open(&self) -> Stack {
        Stack::new(self.threshold, self.limit)
    }

    fn consume(&self, stack: &mut Stack, batch: &Batch) -> Result<()> {
        let accesses = &batch.accesses;
        for (&addr, &kind) in accesses.addr.iter().zip(&accesses.kind) {
            if let Some(side) = SIDES[kind as usize] {
                stack.access(self.lines.line(addr), side)?;
            }
        }
        Ok(())
    }

    fn close(&self, stack: Stack, total: &mut Total) -> Distances {
        let [instr_accesses, data_accesses] = stack.accesses();
        let mut own = Total {
            instr_accesses,
            data_accesses,
            moves: stack.moves,
            pruned: stack.pruned,
            pruned_hits: stack.pruned_hits,
            reuses: stack.reuses().filter(|(_, counts)| *counts != [0; 2]).collect(),
            lines: Map::default(),
        };
        let uses = |line: &stack::Line| {
            // The uses of a line before it was pruned are dropped, as when it comes back.
            let kept = Use { references: line.references, distant: line.distant, is_kept: true };
            (line.line, if line.is_kept() { kept } else { Use::default() })
        };
        let answer = self.sum_up(&own, stack.lines().iter().map(uses), stack.lines().len() as u64);
        own.lines = stack.lines().iter().map(uses).collect();
        drop(stack);
        self.merge(total, own);
        answer
    }

    fn merge(&self, total: &mut Total, mut later: Total) {
        total.instr_accesses += later.instr_accesses;
        total.data_accesses += later.data_accesses;
        total.moves += later.moves;
        total.pruned += later.pruned;
        total.pruned_hits += later.pruned_hits;
        for (distance, [instr, data]) in later.reuses {
            let counts = total.reuses.entry(distance).or_default();
            counts[INSTR] += instr;
            counts[DATA] += data;
        }
        if later.lines.len() > total.lines.len() {
            std::mem::swap(&mut later.lines, &mut total.lines);
        }
        for (line, uses) in later.lines {
            total.lines.entry(line).or_default().add(uses);
        }
    }

    fn answer(&self, total: Total) -> Distances {
        self.sum_up(&total, total.lines.iter().map(|(line, uses)| (*line, *uses)), total.lines.len() as u64)
    }
}

impl Setup {
    /// The result for `total` with these lines; the lines in `total` itself are ignored.
    fn sum_up(&self, total: &Total, lines: impl Iterator<Item = (u64, Use)>, n_lines: u64) -> Distances {
        let kept: Vec<LineReuse> = lines
            .filter(|(_, uses)| uses.is_kept)
            .map(|(line, uses)| LineReuse {
                addr: self.lines.addr(line),
                references: uses.references,
                distant: uses.distant,
            })
            .collect();
        let distant =
            top_by(kept.clone(), self.top, |line| (Reverse((line.distant, line.references)), line.addr));
        let referenced = top_by(kept, self.top, |line| (Reverse((line.references, line.distant)), line.addr));
        let exact: Vec<Bin> = total
            .reuses
            .iter()
            .map(|(&distance, counts)| Bin {
                min: distance,
                max: distance,
                count: counts[INSTR] + counts[DATA],
                data: counts[DATA],
            })
            .collect();
        let spread = Spread::of(exact.iter().map(|bin| (bin.min, bin.count)));
        Distances {
            line_size: self.lines.bytes(),
            limit: self.limit,
            threshold: self.threshold,
            accesses: total.instr_accesses + total.data_accesses,
            instr_accesses: total.instr_accesses,
            data_accesses: total.data_accesses,
            moves: total.moves,
            lines: n_lines,
            pruned: total.pruned,
            pruned_hits: total.pruned_hits,
            reuses: spread.n,
            mean: spread.mean,
            median: spread.median,
            deviation: spread.deviation,
            bins: self.bins.factor(),
            histogram: binned(&exact, self.bins),
            referenced,
            distant,
            exact,
        }
    }
}

/// Collects exact distances into bins.
fn binned(exact: &[Bin], bins: Bins) -> Vec<Bin> {
    let mut histogram: Vec<Bin> = Vec::new();
    bins.each(exact.iter().map(|bin| bin.min), |index, min, max| {
        let Bin { count, data, .. } = exact[index];
        match histogram.last_mut().filter(|bin| bin.min == min) {
            Some(bin) => {
                bin.count += count;
                bin.data += data;
            }
            None => histogram.push(Bin { min, max, count, data }),
        }
    });
    histogram
}

impl Answer for Distances {
    fn document(&self, detail: Detail, _: Filtered) -> Document {
        let real = |number: Option<f64>| number.map_or(Cell::Empty, |number| Cell::Real(number, 2));
        let mut facts = vec![
            ("accesses", Cell::Count(self.accesses)),
            ("of instructions", Cell::Count(self.instr_accesses)),
            ("of data", Cell::Count(self.data_accesses)),
            ("distinct lines", Cell::Count(self.lines)),
            ("mean distance", real(self.mean)),
            ("median distance", self.median.map_or(Cell::Empty, Cell::Count)),
            ("standard deviation", real(self.deviation)),
        ];
        if self.limit > 0 {
            facts.push(("pruned lines", Cell::Count(self.pruned)));
            facts.push(("uses of pruned lines", Cell::Count(self.pruned_hits)));
        }
        let facts = facts.into_iter().map(|(name, cell)| (name.to_owned(), vec![cell]));
        let mut document = Document::new("Reuse distances").with(Block::Facts(facts.collect()));
        if detail == Detail::Full {
            if self.reuses > 0 {
                document.blocks.push(Block::Curve(self.curve()));
            }
            document.blocks.push(Block::Grid(self.histogram_grid()));
            document.blocks.push(Block::Grid(line_grid("lines used most", &self.referenced)));
            let title = format!("lines used most at a distance over {}", self.threshold);
            document.blocks.push(Block::Grid(line_grid(&title, &self.distant)));
        }
        document
    }
}

impl Distances {
    /// The share of accesses up to each distance. The rest at the end are first uses of lines.
    fn curve(&self) -> Curve {
        let line = |name: &str, whole: u64, count: fn(&Bin) -> u64| {
            let points = self.exact.iter().scan(0, |so_far, bin| {
                *so_far += count(bin);
                Some((bin.max, share(*so_far, whole)))
            });
            CurveLine { name: name.to_owned(), points: points.collect() }
        };
        let mut lines = vec![line("all accesses", self.accesses, |bin| bin.count)];
        if self.instr_accesses > 0 && self.data_accesses > 0 {
            lines.push(line("data", self.data_accesses, |bin| bin.data));
        }
        Curve {
            title: "accesses up to a distance".to_owned(),
            axis: format!("distance in lines of {} bytes", self.line_size),
            lines,
            falls: false,
        }
    }

    fn histogram_grid(&self) -> Grid {
        let mut so_far = 0;
        let row = |bin: &Bin| {
            so_far += bin.count;
            vec![
                Cell::Text(bins::range(bin.min, bin.max)),
                Cell::Count(bin.count),
                share_cell(bin.count, self.reuses),
                share_cell(so_far, self.reuses),
                Cell::Count(bin.data),
            ]
        };
        Grid {
            title: "distances".to_owned(),
            head: ["distance", "reuses", "share of reuses", "up to here", "by data"]
                .map(str::to_owned)
                .into(),
            rows: self.histogram.iter().map(row).collect(),
            more: 0,
        }
    }
}

fn line_grid(title: &str, lines: &[LineReuse]) -> Grid {
    let row = |line: &LineReuse| {
        vec![Cell::Addr(line.addr), Cell::Count(line.references), Cell::Count(line.distant)]
    };
    Grid {
        title: title.to_owned(),
        head: ["line", "references", "distant"].map(str::to_owned).into(),
        rows: lines.iter().map(row).collect(),
        more: 0,
    }
}

impl Row for Distances {
    fn heads() -> Vec<&'static str> {
        vec!["accesses", "lines", "mean", "median"]
    }

    fn row(&self) -> Vec<Cell> {
        vec![
            Cell::Count(self.accesses),
            Cell::Count(self.lines),
            self.mean.map_or(Cell::Empty, |mean| Cell::Real(mean, 2)),
            self.median.map_or(Cell::Empty, Cell::Count),
        ]
    }
}
