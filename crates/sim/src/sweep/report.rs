//! The result of a sweep: counts of each cache, as a table and as curves over sizes.

use super::space::{Level, Point, RULE};
use crate::describe::size;
use crate::machine::Counts;
use crate::physical::Translation;
use crate::recording::{Instructions, Recording};
use crate::report::{COMPULSORY, rate};
use crate::spec::Prefetch;
use quipu_model::ReportBody;
use quipu_model::doc::{Block, Cell, Curve, CurveLine, Document, Figure, Grid};
use quipu_model::number::counted as counted_words;
use quipu_model::pass::Detail;
use quipu_model::result;

/// Most combinations for which curves are drawn; the table has all.
const MAX_CURVES: usize = 16;

result! {
    /// Hits and misses of the caches of a sweep.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Swept {
        pub level: &'static str, key => "Level that was varied: `l1i`, `l1d`, `l1` or `ll`.";
        pub cores: u64 => "Cores of the machine.";
        pub machine: String => "The machine around the caches that were varied, in words.";
        pub recorded: Recording => "Completeness of fetches and data in the trace.";
        pub instructions: Option<u64> => "Instructions that count; `null` if the trace has none.";
        pub executed: Option<u64> =>
            "Instructions executed in the simulated part: the same number, unless the trace is filtered; then the number \
             that its marks give, or `null`.";
        pub accesses: u64 => "Accesses of the trace that count, of all kinds.";
        pub incomplete: Vec<String> => "Reasons why the result is incomplete, in sentences; empty if it is complete.";
        pub translation: Option<Translation> =>
            "Translation of virtual addresses; `null` if they were used untranslated.";
        pub impossible: u64 => "Combinations that are not valid caches.";
        pub points: Vec<PointCounts> => "Simulated caches.";
    }
}

result! {
    /// One simulated cache; if each core has its own, the sum over all cores.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PointCounts {
        pub size: u64 => "Size in bytes.";
        pub assoc: u64 => "Associativity: lines in a set.";
        pub sets: u64 => "Number of sets.";
        pub line_size: u64 => "Bytes in a line.";
        pub policy: &'static str => "Replacement policy.";
        pub prefetcher: &'static str => "Prefetcher.";
        pub hits: u64 => "Accesses that hit.";
        pub misses: u64 => "Accesses that missed.";
        pub miss_rate: Option<f64> => "Share of accesses that missed; `null` without accesses.";
        pub mpki: Option<f64> =>
            "Misses per 1,000 instructions; `null` if the number of executed instructions is unknown.";
        pub compulsory_misses: u64 => "Misses, including those of prefetches, of lines that never missed here before.";
        pub prefetch_hits: u64 => "Prefetches that hit.";
        pub prefetch_misses: u64 => "Prefetches that missed.";
        pub bytes_in: u64 => "Bytes read from the next level.";
        pub bound_misses: Option<u64> =>
            "Misses under Belady's policy without prefetches; `null` without `bound`.";
    }
}

impl PointCounts {
    pub(super) fn new(
        point: &Point,
        counts: Counts,
        bound_misses: Option<u64>,
        instrs: Option<u64>,
    ) -> PointCounts {
        PointCounts {
            size: point.size,
            assoc: point.ways,
            sets: point.sets(),
            line_size: point.line_size,
            policy: point.policy.name(),
            prefetcher: point.prefetch.name(),
            hits: counts.hits,
            misses: counts.misses,
            miss_rate: rate(counts.misses, counts.hits + counts.misses),
            mpki: instrs.and_then(|instrs| Some(1000.0 * rate(counts.misses, instrs)?)),
            compulsory_misses: counts.compulsory,
            prefetch_hits: counts.prefetch_hits,
            prefetch_misses: counts.prefetch_misses,
            bytes_in: (counts.misses + counts.prefetch_misses).saturating_mul(point.line_size),
            bound_misses,
        }
    }

    /// Name of a curve: everything except the size, in words.
    fn sort(&self, all: &[PointCounts]) -> String {
        let mut words = vec![counted_words(self.assoc, "way")];
        let differs = |of: fn(&PointCounts) -> u64| all.iter().any(|other| of(other) != of(self));
        if all.iter().any(|other| other.policy != self.policy) {
            words.push(self.policy.to_owned());
        }
        if differs(|point| point.line_size) {
            words.push(format!("lines of {}", self.line_size));
        }
        if all.iter().any(|other| other.prefetcher != self.prefetcher) {
            words.push(match self.prefetcher {
                none if none == Prefetch::None.name() => "no prefetcher".to_owned(),
                name => name.to_owned(),
            });
        }
        words.join(", ")
    }
}

impl ReportBody for Swept {
    fn document(&self, detail: Detail) -> Document {
        let mut document = Document::new("Caches tried");
        let notes = |texts: Vec<String>| texts.into_iter().map(Block::Note);
        document.blocks.extend(notes(self.incomplete.clone()));
        if self.points.iter().all(|point| point.miss_rate.is_none()) {
            if self.incomplete.is_empty() {
                document
                    .blocks
                    .push(Block::Note(format!("nothing came to the caches tried, {}", self.level)));
            }
            return document;
        }
        let is_of_both = self.level == Level::First.name() || self.level == Level::Last.name();
        let what = is_of_both.then_some("accesses");
        let counted = Instructions { in_trace: self.instructions, executed: self.executed };
        document.blocks.push(Block::Note(format!("machine: {}", self.machine)));
        document.blocks.extend(notes(self.recorded.notes(what, counted)));
        document.blocks.push(Block::Figures(self.figures()));
        if self.impossible > 0 {
            let n = counted_words(self.impossible, "combination");
            document.blocks.push(Block::Note(format!("{n} left out: {RULE}")));
        }
        if detail == Detail::Full {
            document.blocks.push(Block::Curve(self.curve()));
            document.blocks.push(Block::Grid(self.grid()));
            if self.points.iter().any(|point| point.compulsory_misses > point.misses) {
                document.blocks.push(Block::Note(COMPULSORY.to_owned()));
            }
        }
        document
    }

    fn is_flawed(&self) -> bool {
        !self.incomplete.is_empty()
    }
}

/// A miss rate of up to this multiple of the lowest counts as close to it; the document says 5 %.
const NEAR: f64 = 1.05;

impl Swept {
    fn figures(&self) -> Vec<Figure> {
        let rate_of = |point: &PointCounts| point.miss_rate.unwrap_or_default();
        let by_rate = |point: &&PointCounts| (rate_of(point) * 1e15) as u64; // Shares are at most 1.
        let figure = |label: &str, point: &PointCounts| Figure {
            label: label.to_owned(),
            value: Cell::Share(rate_of(point)),
            note: format!("{}, {}", size(point.size), point.sort(&self.points)),
        };
        let best = self.points.iter().min_by_key(|point| (by_rate(point), point.size));
        let worst = self.points.iter().max_by_key(|point| (by_rate(point), point.size));
        if let (Some(best), Some(worst)) = (best, worst)
            && by_rate(&best) == by_rate(&worst)
        {
            let label = if self.points.len() > 1 { "miss rate of all, from" } else { "miss rate" };
            return vec![figure(label, best)];
        }
        let near = best.and_then(|best| {
            let near = self.points.iter().filter(|point| rate_of(point) <= NEAR * rate_of(best));
            near.min_by_key(|point| (point.size, by_rate(point)))
        });
        let named =
            [("lowest miss rate", best), ("smallest within 5 % of it", near), ("highest miss rate", worst)];
        named.into_iter().filter_map(|(label, point)| Some(figure(label, point?))).collect()
    }

    /// Miss rates over sizes, with a curve for each combination of the other values.
    fn curve(&self) -> Curve {
        let mut lines: Vec<CurveLine> = Vec::new();
        for point in &self.points {
            let name = point.sort(&self.points);
            let at = lines.iter().position(|line| line.name == name).unwrap_or(lines.len());
            if at == MAX_CURVES {
                continue;
            }
            if at == lines.len() {
                lines.push(CurveLine { name, points: Vec::new() });
            }
            lines[at].points.push((point.size, point.miss_rate.unwrap_or_default()));
        }
        Curve { title: "miss rate by size".to_owned(), axis: "bytes".to_owned(), lines, falls: true }
    }

    fn grid(&self) -> Grid {
        let has_bound = self.points.iter().any(|point| point.bound_misses.is_some());
        let mut head =
            vec!["size", "ways", "sets", "line", "policy", "prefetcher", "hits", "misses", "miss rate"];
        let has_mpki = self.executed.is_some();
        if has_mpki {
            head.push("MPKI");
        }
        head.extend(["compulsory", "prefetches", "read from next level"]);
        if has_bound {
            head.extend(["Belady's misses", "above it"]);
        }
        let row = |point: &PointCounts| {
            let mut row = vec![
                Cell::Bytes(point.size),
                Cell::Count(point.assoc),
                Cell::Count(point.sets),
                Cell::Bytes(point.line_size),
                Cell::from(point.policy),
                Cell::from(point.prefetcher),
                Cell::Count(point.hits),
                Cell::Count(point.misses),
                point.miss_rate.map_or(Cell::Empty, Cell::Share),
            ];
            if has_mpki {
                row.push(point.mpki.map_or(Cell::Empty, |mpki| Cell::Real(mpki, 2)));
            }
            row.push(Cell::Count(point.compulsory_misses));
            row.push(Cell::Count(point.prefetch_hits + point.prefetch_misses));
            row.push(Cell::Bytes(point.bytes_in));
            if let Some(bound) = point.bound_misses {
                row.push(Cell::Count(bound));
                row.push(rate(point.misses.saturating_sub(bound), bound).map_or(Cell::Empty, Cell::Share));
            }
            row
        };
        Grid {
            title: "caches tried".to_owned(),
            head: head.into_iter().map(str::to_owned).collect(),
            rows: self.points.iter().map(row).collect(),
            more: 0,
        }
    }
}
