//! `miss-ratio`: the share of accesses that a cache of each size would miss.
//!
//! For each shard (a thread, or a core) there is a cache of its own under LRU, of one set, so that any line may stand anywhere;
//! the total adds up what the shards have. A cache of `n` lines misses an access if `n` or more other lines were used since
//! the last use of its line, or if there was none. So one list of distances has the miss ratio of every size. Fetches, reads,
//! writes and prefetches of all sorts count, as accesses to the line of their first byte; flushes do not. Sizes are powers of
//! two and one and a half times these.
//!
//! With `sample`, only some lines are looked at: those whose hash is below a threshold, all accesses to them, and distances
//! count for as much more as there are lines for each one sampled (Waldspurger and others, *SHARDS*, 2015). `sample=0.01`
//! takes this share of the lines; `sample=8192` takes at most this many lines, whatever the trace, by lowering the threshold as
//! lines come, so that memory stays the same. How far the sampled ratios may be off is estimated from eight parts of the
//! sample, each with a curve of its own, by the standard error of their mean, and from the distances: where a size falls
//! among lines with few in the sample, a steep place of the curve may stand a little before it or after it, in all
//! parts alike. `error` is both together. It knows nothing of lines that are too few to be in the sample: with fewer than two
//! thousand lines in it, which is reported, or very uneven use of them, be generous. Sizes that the parts cannot tell apart are
//! left out: those of fewer lines than eight times as many as there are for each one sampled (with `sample=0.1`, fewer than 80).
//!
//! Memory grows with the number of distinct lines, by about 100 bytes each, or of those in the sample; not with the length of
//! the trace.
//!
//! * **Needs** `accesses`; uses `accesses.fetch`, without which data alone counts.
//! * **Options** `line-size` (bytes, a power of two, default 64), `sample` (`none`, a share of the lines below 1, or a number
//!   of lines; default `none`), `side` (`all`, `instr` or `data`, default `all`), `per-thread`.

mod sample;

use crate::filtered::Filtered;
use crate::lines::{DATA, INSTR, LINE_SIZE, Lines, side_of};
use crate::sharded::{BY_THREAD, PerShard, Row, Sharded, Shards};
use crate::split::Answer;
use quipu_model::doc::{Block, Cell, Curve, CurveLine, Document, Grid};
use quipu_model::options::Kind;
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::trace::Recorded;
use quipu_model::{
    Batch, Columns, DynPass, Error, Needs, OptionSpec, Options, Order, Result, Tool, ToolInfo, Trace, number,
};
use sample::{Sample, Sampler, Sums};

#[cfg(test)]
mod tests;

/// The tool `miss-ratio`.
#[derive(Debug)]
pub struct MissRatio;

const SAMPLE: OptionSpec = OptionSpec::new(
    "sample",
    Kind::Text,
    "none",
    "sample this share of the lines (below 1), or at most this many lines",
)
.value("SAMPLE");
const SIDE: OptionSpec = OptionSpec::new(
    "side",
    Kind::Choice(&["all", "instr", "data"]),
    "all",
    "which accesses: all, instr or data",
)
.value("SIDE");

static INFO: ToolInfo = ToolInfo {
    name: "miss-ratio",
    summary: "the share of accesses that a cache of each size would miss",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: Columns::ACCESS_FETCH },
    order: Order::Shards,
    options: &[LINE_SIZE, SAMPLE, SIDE, BY_THREAD],
    in_report: false,
};

impl Tool for MissRatio {
    fn result(&self) -> Shape {
        PerShard::<Ratios>::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let sides = match options.word(&SIDE) {
            "instr" => [true, false],
            "data" => [false, true],
            _ => [true, true],
        };
        let has = [trace.columns().has(Columns::ACCESS_FETCH), trace.meta().data != Recorded::Nothing];
        if let Some(what) = nothing_of(sides, has) {
            return Err(Error::missing(format!(
                "tool `{}` was asked for {what}, but this trace has none",
                INFO.name
            )));
        }
        let setup = Setup { lines: Lines::of(options), sample: sample(options)?, sides };
        Ok(Box::new(Shards::new(setup, options, trace)))
    }
}

/// The requested side, if a trace that has these sides lacks it.
fn nothing_of(asked: [bool; 2], has: [bool; 2]) -> Option<&'static str> {
    match (asked, has) {
        ([true, false], [false, _]) => Some("fetches of instructions"),
        ([false, true], [_, false]) => Some("accesses to data"),
        _ => None,
    }
}

fn sample(options: &Options) -> Result<Sample> {
    let Some(text) = options.text(&SAMPLE) else { return Ok(Sample::All) };
    let wrong = || {
        Error::usage(format!(
            "option `sample` wants `none`, a share such as 0.01, or a number of lines such as 8192, found `{text}`"
        ))
    };
    if text.contains('.') {
        let share = text.parse().ok().filter(|share| (1e-6..1.0).contains(share));
        return share.map(Sample::Share).ok_or_else(wrong);
    }
    let lines = number::count(text).map_err(|_| wrong())?;
    usize::try_from(lines).ok().filter(|lines| *lines >= 64).map(Sample::Lines).ok_or_else(|| {
        Error::usage(format!(
            "option `sample` wants 64 lines or more, or a share such as 0.01, found `{text}`"
        ))
    })
}

#[derive(Clone)]
struct Setup {
    lines: Lines,
    sample: Sample,
    /// Whether instructions are counted, and whether data is.
    sides: [bool; 2],
}

/// Number of lines in a sample above which its errors are reliable.
const ENOUGH_LINES: u64 = 2000;

result! {
    /// Miss ratios of a trace or shard.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Ratios {
        pub line_size: u64 => "Bytes in a line.";
        pub accesses: u64 => "Accesses that count.";
        pub sampled: Option<u64> => "Those that were looked at.";
        pub sampled_lines: Option<u64> => "Distinct lines that were looked at.";
        pub is_coarse: Option<bool> => "Whether these are so few that errors may be larger than they say.";
        pub lines: u64 => "Distinct lines; with a sample, an estimate.";
        pub mean_error: Option<f64> => "The mean of the errors of all sizes.";
        pub largest_error: Option<f64> => "The largest of them.";
        pub points: Vec<Point> => "The ratios, by size.";
    }
}

result! {
    /// One size.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Point {
        pub size: u64 => "Bytes in the cache.";
        pub miss_ratio: f64 => "The share of accesses that it misses.";
        pub error: Option<f64> =>
            "The standard error of that, of the sample's lines and of the place of the size among them; null \
             without a sample.";
    }
}

impl Sharded for Setup {
    type Open = Sampler;
    type Total = Sums;
    type Answer = Ratios;

    fn open(&self) -> Sampler {
        Sampler::new(self.sample)
    }

    fn consume(&self, sampler: &mut Sampler, batch: &Batch) -> Result<()> {
        let accesses = &batch.accesses;
        for (&addr, &kind) in accesses.addr.iter().zip(&accesses.kind) {
            if let Some(side @ (INSTR | DATA)) = side_of(kind)
                && self.sides[side]
            {
                sampler.access(self.lines.line(addr))?;
            }
        }
        Ok(())
    }

    fn close(&self, sampler: Sampler, total: &mut Sums) -> Ratios {
        let sums = sampler.into_sums();
        let answer = self.sum_up(&sums);
        total.add(&sums);
        answer
    }

    fn merge(&self, total: &mut Sums, later: Sums) {
        total.add(&later);
    }

    fn answer(&self, total: Sums) -> Ratios {
        self.sum_up(&total)
    }
}

impl Setup {
    fn sum_up(&self, sums: &Sums) -> Ratios {
        let is_sampled = self.sample != Sample::All;
        let point = |(lines, miss_ratio, error): (u64, f64, f64)| Point {
            size: lines.saturating_mul(self.lines.bytes()),
            miss_ratio,
            error: is_sampled.then_some(error),
        };
        let points: Vec<Point> = sums.ratios().into_iter().map(point).collect();
        let errors = || points.iter().filter_map(|point| point.error);
        let has_errors = is_sampled && !points.is_empty();
        let mean = errors().sum::<f64>() / points.len() as f64;
        Ratios {
            line_size: self.lines.bytes(),
            accesses: sums.accesses,
            sampled: is_sampled.then_some(sums.sampled),
            sampled_lines: is_sampled.then_some(sums.held),
            is_coarse: is_sampled.then_some(sums.is_part() && sums.held < ENOUGH_LINES),
            lines: sums.lines(),
            mean_error: has_errors.then_some(mean),
            largest_error: has_errors.then(|| errors().fold(0.0, f64::max)),
            points,
        }
    }
}

impl Answer for Ratios {
    fn document(&self, detail: Detail, _: Filtered) -> Document {
        let mut facts = vec![
            ("accesses", vec![Cell::Count(self.accesses)]),
            ("distinct lines", vec![Cell::Count(self.lines)]),
        ];
        if let Some(sampled) = self.sampled {
            facts.push(("looked at", vec![Cell::Count(sampled)]));
        }
        if let Some(lines) = self.sampled_lines {
            facts.push(("lines looked at", vec![Cell::Count(lines)]));
        }
        if let (Some(mean), Some(largest)) = (self.mean_error, self.largest_error) {
            facts.push(("standard error, mean", vec![points(mean)]));
            facts.push(("standard error, largest", vec![points(largest)]));
        }
        let facts = facts.into_iter().map(|(name, cells)| (name.to_owned(), cells));
        let mut document = Document::new("Miss ratios").with(Block::Facts(facts.collect()));
        if self.is_coarse == Some(true) {
            let text = format!(
                "the sample has fewer than {ENOUGH_LINES} lines: errors may be larger than they say; a larger sample tells more"
            );
            document.blocks.push(Block::Note(text));
        }
        if detail == Detail::Full && !self.points.is_empty() {
            let points = self.points.iter().map(|point| (point.size, point.miss_ratio)).collect();
            document.blocks.push(Block::Curve(Curve {
                title: "misses by size".to_owned(),
                axis: format!("bytes, in lines of {}", self.line_size),
                lines: vec![CurveLine { name: "all accesses".to_owned(), points }],
                falls: true,
            }));
            document.blocks.push(Block::Grid(self.grid()));
        }
        document
    }
}

/// An error in percentage points; ratios are shown with one digit of these.
fn points(error: f64) -> Cell {
    Cell::Text(format!("{:.3} %", 100.0 * error))
}

impl Ratios {
    fn grid(&self) -> Grid {
        let mut head = vec!["size", "miss ratio"];
        if self.sampled.is_some() {
            head.push("standard error");
        }
        let row = |point: &Point| {
            let mut row = vec![Cell::Bytes(point.size), Cell::Share(point.miss_ratio)];
            row.extend(point.error.map(points));
            row
        };
        Grid {
            title: "sizes".to_owned(),
            head: head.into_iter().map(str::to_owned).collect(),
            rows: self.points.iter().map(row).collect(),
            more: 0,
        }
    }
}

impl Row for Ratios {
    fn heads() -> Vec<&'static str> {
        vec!["accesses", "lines", "smallest cache misses", "largest misses"]
    }

    fn row(&self) -> Vec<Cell> {
        let share = |point: Option<&Point>| point.map_or(Cell::Empty, |point| Cell::Share(point.miss_ratio));
        vec![
            Cell::Count(self.accesses),
            Cell::Count(self.lines),
            share(self.points.first()),
            share(self.points.last()),
        ]
    }
}
