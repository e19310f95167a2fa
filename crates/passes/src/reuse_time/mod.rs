//! `reuse-time`: how many data accesses lie between two uses of a line.
//!
//! In each shard (a thread, or a core) a clock counts data accesses: reads, writes and prefetches of all kinds. The reuse
//! time of an access is the number of ticks since the previous access to the same cache line: 1 if that was the access
//! right before. A line's first use has no time. An access counts on the line of its first byte. The total adds up the
//! results of the shards. (SPEC: drmemtrace.md#reuse_time.)
//!
//! With intervals, each begins with no line used yet. (DynamoRIO has no intervals for this tool.)
//!
//! Memory grows with the number of distinct lines of each shard and of distinct times, by about 30 bytes each.
//!
//! * **Needs** `accesses`; uses `accesses.fetch` to count instructions.
//! * **Options** `line-size` (bytes, a power of two, default 64), `bins` (width of each histogram bin relative to the one
//!   before, at least 1; 1 gives each time its own bin, default 2), `per-thread`.

use crate::bins::{self, Bins};
use crate::filtered::Filtered;
use crate::lines::{LINE_SIZE, Lines};
use crate::number::share_cell;
use crate::sharded::{BY_THREAD, PerShard, Row, Sharded, Shards};
use crate::split::Answer;
use crate::tally::Map;
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::lens::AccessKind;
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::{Batch, Columns, DynPass, Needs, Options, Order, Result, Tool, ToolInfo, Trace};

#[cfg(test)]
mod tests;

/// The tool `reuse-time`.
#[derive(Debug)]
pub struct ReuseTime;

static INFO: ToolInfo = ToolInfo {
    name: "reuse-time",
    summary: "how many data accesses lie between two uses of a cache line",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: Columns::ACCESS_FETCH },
    order: Order::Shards,
    options: &[LINE_SIZE, bins::OPTION, BY_THREAD],
    in_report: false,
};

impl Tool for ReuseTime {
    fn result(&self) -> Shape {
        PerShard::<Times>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let lines = Lines::of(options);
        Ok(Box::new(Shards::new(Setup { lines, bins: Bins::new(options)? }, options, trace)))
    }
}

result! {
    /// Reuse times of a trace or shard, in data accesses.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Times {
        pub line_size: u64 => "Bytes in a line.";
        pub accesses: u64 => "Data accesses.";
        pub instructions: u64 => "Instructions fetched.";
        pub reuses: u64 => "Accesses that have a time.";
        pub mean: Option<f64> => "Mean time.";
        pub median: Option<u64> => "Median: the smallest time that at least half of the reuses do not exceed.";
        pub bins: f64 => "Width of each bin relative to the one before.";
        pub histogram: Vec<TimeBin> => "Reuses by time; empty bins are left out.";
    } beside {
        pub exact: Vec<TimeBin> => "Number of reuses after each time that occurs, in ascending order. Not in JSON.";
    }
}

result! {
    /// Reuses within a range of times.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TimeBin {
        pub min: u64 => "Shortest time of the bin.";
        pub max: u64 => "Longest time of the bin; for the last bin, the longest that occurs.";
        pub count: u64 => "Reuses after these times.";
    }
}

#[derive(Clone)]
struct Setup {
    lines: Lines,
    bins: Bins,
}

/// Times below this are counted in a plain array.
const N_SHORT: usize = 4096;

/// State of one shard.
struct Clock {
    now: u64,
    instructions: u64,
    last_use: Map<u64, u64>,
    short: Vec<u64>,
    long: Map<u64, u64>,
}

/// Sums of several shards.
#[derive(Default)]
struct Total {
    accesses: u64,
    instructions: u64,
    reuses: Map<u64, u64>,
}

impl Sharded for Setup {
    type Open = Clock;
    type Total = Total;
    type Answer = Times;

    fn open(&self) -> Clock {
        Clock {
            now: 0,
            instructions: 0,
            last_use: Map::default(),
            short: vec![0; N_SHORT],
            long: Map::default(),
        }
    }

    fn consume(&self, clock: &mut Clock, batch: &Batch) -> Result<()> {
        let accesses = &batch.accesses;
        for (&addr, &kind) in accesses.addr.iter().zip(&accesses.kind) {
            match kind {
                AccessKind::Fetch => clock.instructions += 1,
                AccessKind::Read | AccessKind::Write | AccessKind::Prefetch | AccessKind::PrefetchInstr => {
                    clock.access(self.lines.line(addr));
                }
                AccessKind::FlushData | AccessKind::FlushInstr => {}
            }
        }
        Ok(())
    }

    fn close(&self, clock: Clock, total: &mut Total) -> Times {
        let mut reuses = clock.long;
        let short = (0..).zip(clock.short).filter(|(_, count)| *count > 0);
        reuses.extend(short);
        let own = Total { accesses: clock.now, instructions: clock.instructions, reuses };
        let answer = self.sum_up(&own);
        self.merge(total, own);
        answer
    }

    fn merge(&self, total: &mut Total, mut later: Total) {
        total.accesses += later.accesses;
        total.instructions += later.instructions;
        if later.reuses.len() > total.reuses.len() {
            std::mem::swap(&mut later.reuses, &mut total.reuses);
        }
        for (time, count) in later.reuses {
            *total.reuses.entry(time).or_insert(0) += count;
        }
    }

    fn answer(&self, total: Total) -> Times {
        self.sum_up(&total)
    }
}

impl Clock {
    #[inline]
    fn access(&mut self, line: u64) {
        self.now += 1;
        if let Some(last) = self.last_use.insert(line, self.now) {
            let time = self.now - last;
            match self.short.get_mut(time as usize) {
                Some(count) => *count += 1,
                None => *self.long.entry(time).or_insert(0) += 1,
            }
        }
    }
}

impl Setup {
    fn sum_up(&self, total: &Total) -> Times {
        let mut exact: Vec<TimeBin> =
            total.reuses.iter().map(|(&time, &count)| TimeBin { min: time, max: time, count }).collect();
        exact.sort_unstable_by_key(|bin| bin.min);
        let counted = || exact.iter().map(|bin| (bin.min, bin.count));
        let spread = bins::Spread::of(counted());
        let mut histogram: Vec<TimeBin> = Vec::new();
        self.bins.each(counted().map(|(time, _)| time), |index, min, max| {
            let count = exact[index].count;
            match histogram.last_mut().filter(|bin| bin.min == min) {
                Some(bin) => bin.count += count,
                None => histogram.push(TimeBin { min, max, count }),
            }
        });
        Times {
            line_size: self.lines.bytes(),
            accesses: total.accesses,
            instructions: total.instructions,
            reuses: spread.n,
            mean: spread.mean,
            median: spread.median,
            bins: self.bins.factor(),
            histogram,
            exact,
        }
    }
}

impl Answer for Times {
    fn document(&self, detail: Detail, _: Filtered) -> Document {
        let facts = [
            ("accesses of data", Cell::Count(self.accesses)),
            ("instructions", Cell::Count(self.instructions)),
            ("mean time", self.mean.map_or(Cell::Empty, |mean| Cell::Real(mean, 2))),
            ("median time", self.median.map_or(Cell::Empty, Cell::Count)),
        ];
        let facts = facts.map(|(name, cell)| (name.to_owned(), vec![cell]));
        let mut document = Document::new("Reuse times").with(Block::Facts(facts.into()));
        if detail == Detail::Full {
            document.blocks.push(Block::Grid(self.grid()));
        }
        document
    }
}

impl Times {
    fn grid(&self) -> Grid {
        let mut so_far = 0;
        let row = |bin: &TimeBin| {
            so_far += bin.count;
            vec![
                Cell::Text(bins::range(bin.min, bin.max)),
                Cell::Count(bin.count),
                share_cell(bin.count, self.reuses),
                share_cell(so_far, self.reuses),
            ]
        };
        Grid {
            title: "times".to_owned(),
            head: ["time", "reuses", "share of reuses", "up to here"].map(str::to_owned).into(),
            rows: self.histogram.iter().map(row).collect(),
            more: 0,
        }
    }
}

impl Row for Times {
    fn heads() -> Vec<&'static str> {
        vec!["accesses", "instructions", "mean", "median"]
    }

    fn row(&self) -> Vec<Cell> {
        vec![
            Cell::Count(self.accesses),
            Cell::Count(self.instructions),
            self.mean.map_or(Cell::Empty, |mean| Cell::Real(mean, 2)),
            self.median.map_or(Cell::Empty, Cell::Count),
        ]
    }
}
