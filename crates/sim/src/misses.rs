//! `misses`: loads that miss the last-level cache with a steady stride, so that a prefetch would help.
//!
//! The machine of `caches` runs, and each read that misses all caches is recorded with its line. A load that misses often
//! enough, and mostly with the same stride from its previous miss, is listed with that stride: a prefetch of that distance,
//! without keeping the line in the nearer caches, would have brought the line in time. *Often enough* is a share of all such
//! misses, at most a fixed count. (SPEC: drmemtrace.md#miss_analyzer.)
//!
//! In SQL, the table function `misses(t, cache => 'L1D')` gives each miss of the named cache, by any kind of access.
//!
//! Memory grows with the number of distinct loads that miss and the distinct strides of each.
//!
//! * **Needs** `accesses`, `accesses.pc`; uses `accesses.fetch`, without which instructions occupy no lines of the last cache.

/// Options of the machine and of the part of the trace to simulate, between the options `$before` and `$after`.
macro_rules! machine_options {
    ([$($before:ident),*] [$($after:ident),*]) => {
        &[
            $($before,)*
            crate::options::CORES,
            crate::options::LINE_SIZE,
            crate::options::L1I_SIZE,
            crate::options::L1I_ASSOC,
            crate::options::L1D_SIZE,
            crate::options::L1D_ASSOC,
            crate::options::LL_SIZE,
            crate::options::LL_ASSOC,
            crate::options::POLICY,
            crate::options::PREFETCHER,
            crate::options::COHERENCE,
            crate::options::MACHINE,
            crate::options::SKIP_REFS,
            crate::options::WARMUP_REFS,
            crate::options::WARMUP_FRACTION,
            crate::options::SIM_REFS,
            crate::options::CPU_SCHEDULING,
            $($after,)*
        ]
    };
}

mod rows;

pub(crate) use rows::Teller;

use crate::caches;
use crate::options::{fit_trace, option};
use crate::simulate::{OPTIONAL, Setup};
use hashbrown::HashMap;
use quipu_model::ReportBody;
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::options::Kind;
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Hex, Shape};
use quipu_model::trace::Recorded;
use quipu_model::{
    Columns, DynPass, Error, Needs, OptionSpec, Options, Order, Result, RowTool, Tool, ToolInfo, Trace,
};
use rustc_hash::FxBuildHasher;

/// The tool `misses`.
#[derive(Debug)]
pub struct MissTool;

const COUNT: OptionSpec =
    option("count", Kind::Count, "50000", "report loads with at least this many misses", "");
const SHARE: OptionSpec =
    option("share", Kind::Share, "0.005", "or with at least this share of all misses, 0.0 to 1.0", "");
const CONFIDENCE: OptionSpec = option(
    "confidence",
    Kind::Share,
    "0.75",
    "minimum share of a load's misses with the same stride, 0.0 to 1.0",
    "",
);

/// Static description of the tool.
pub static INFO: ToolInfo = ToolInfo {
    name: "misses",
    summary: "loads that miss the last-level cache with a steady stride",
    needs: Needs {
        format: None,
        required: Columns::ACCESSES.or(Columns::ACCESS_PC),
        optional: OPTIONAL.or(Columns::INSTRS),
    },
    order: Order::Time,
    options: machine_options!([] [COUNT, SHARE, CONFIDENCE]),
    in_report: false,
};

impl Tool for MissTool {
    fn result(&self) -> Shape {
        Misses::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn rows(&self) -> Option<&'static dyn RowTool> {
        Some(&rows::Each)
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let options = &fit_trace(options, trace);
        if trace.meta().data == Recorded::Nothing {
            return Err(Error::missing(format!(
                "tool `{}` looks at loads that miss, and this trace has no accesses to data",
                INFO.name
            )));
        }
        settings(options)?.pass(options, INFO.name, trace)
    }
}

/// Builds settings from options.
///
/// # Errors
/// `Usage` for an invalid value.
pub fn settings(options: &Options) -> Result<Setup> {
    let strides = Limits {
        count: options.count(&COUNT),
        share: options.share(&SHARE),
        confidence: options.share(&CONFIDENCE),
    };
    Ok(Setup { strides: Some(strides), ..caches::settings(options, None)? })
}

/// Conditions for listing a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// A load with this many misses is always listed.
    pub count: u64,
    /// A load with this share of all misses is listed, too.
    pub share: f64,
    /// Share of a load's misses that must have the same distance.
    pub confidence: f64,
}

result! {
    /// Loads that miss the last-level cache with a steady stride.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Misses {
        pub machine: String => "The machine, in words.";
        pub read_misses: u64 => "Reads that missed all caches.";
        pub threshold: u64 => "Minimum number of such misses for a load to be listed.";
        pub hints: Vec<Hint> => "Loads, by ascending address.";
    }
}

result! {
    /// One load.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Hint {
        pub pc: u64 as Hex => "Address of the load.";
        pub stride: i64 => "Bytes from one missed line to the next; negative if addresses decrease.";
        pub misses: u64 => "Misses of the load.";
        pub steady: u64 => "Misses with that stride.";
    }
}

/// Counts the distances between the misses of each load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strides {
    total: u64,
    loads: HashMap<u64, Load, FxBuildHasher>,
}

#[derive(Clone, Debug, Default)]
struct Load {
    misses: u64,
    last: u64,
    strides: HashMap<i64, u64, FxBuildHasher>,
}

impl Strides {
    /// Records that the load at `pc` missed this line.
    pub(crate) fn add(&mut self, pc: u64, line: u64) {
        self.total += 1;
        let load = self.loads.entry(pc).or_default();
        if load.misses > 0 {
            let stride = line.wrapping_sub(load.last) as i64; // The distance may be negative.
            if stride != 0 {
                *load.strides.entry(stride).or_default() += 1;
            }
        }
        load.misses += 1;
        load.last = line;
    }

    /// The loads that meet the limits.
    pub(crate) fn report(self, limits: Limits, line_bytes: u64) -> Misses {
        // QUIRK: as in DynamoRIO's miss_analyzer, both shares of counts are rounded down.
        let threshold = limits.count.min((limits.share * self.total as f64) as u64);
        let mut hints = Vec::new();
        for (pc, load) in self.loads {
            // Among equally frequent distances, the nearest; of two equally near ones, the positive.
            let best = load
                .strides
                .iter()
                .max_by_key(|(stride, count)| (**count, std::cmp::Reverse(stride.unsigned_abs()), **stride));
            if let Some((stride, steady)) = best
                && load.misses >= threshold
                && *steady >= (limits.confidence * load.misses as f64) as u64
            {
                let stride = stride.saturating_mul(i64::try_from(line_bytes).unwrap_or(i64::MAX));
                hints.push(Hint { pc, stride, misses: load.misses, steady: *steady });
            }
        }
        hints.sort_unstable_by_key(|hint| hint.pc);
        Misses { machine: String::new(), read_misses: self.total, threshold, hints }
    }
}

impl ReportBody for Misses {
    fn document(&self, detail: Detail) -> Document {
        let mut document = Document::new("Loads that miss at a steady distance");
        if self.read_misses == 0 {
            return document.with(Block::Note("no read missed the last cache".to_owned()));
        }
        document.blocks.push(Block::Note(format!("machine: {}", self.machine)));
        document.blocks.push(Block::Facts(vec![
            ("reads that no cache had".into(), vec![Cell::Count(self.read_misses)]),
            ("enough for a load to be listed".into(), vec![Cell::Count(self.threshold)]),
            ("loads at a steady distance".into(), vec![Cell::Count(self.hints.len() as u64)]),
        ]));
        let limit = if detail == Detail::Full { usize::MAX } else { 0 };
        let row = |hint: &Hint| {
            vec![
                Cell::Addr(hint.pc),
                Cell::from(hint.stride.to_string()),
                Cell::Count(hint.misses),
                Cell::Share(hint.steady as f64 / hint.misses.max(1) as f64),
            ]
        };
        if limit > 0 && !self.hints.is_empty() {
            document.blocks.push(Block::Grid(Grid {
                title: String::new(),
                head: ["load", "bytes ahead", "misses", "share at that distance"].map(str::to_owned).into(),
                rows: self.hints.iter().map(row).collect(),
                more: 0,
            }));
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { count: 50_000, share: 0.005, confidence: 0.75 };

    #[test]
    fn a_load_at_a_steady_distance_is_listed() {
        let mut strides = Strides::default();
        for i in 0..100 {
            strides.add(0x10, 1000 - 3 * i);
            strides.add(0x20, (i * i * 7919) % 4096);
            strides.add(0x30, 5);
        }
        let misses = strides.report(LIMITS, 64);
        assert_eq!((misses.read_misses, misses.threshold), (300, 1));
        assert_eq!(misses.hints, [Hint { pc: 0x10, stride: -192, misses: 100, steady: 99 }]);
    }

    #[test]
    fn a_share_of_misses_is_rounded_down() {
        let mut strides = Strides::default();
        // Three of five misses have the same distance; 0.75 of five is 3.75, rounded down.
        for line in [10, 11, 12, 13, 99] {
            strides.add(0x10, line);
        }
        // Two of five.
        for line in [10, 11, 12, 50, 99] {
            strides.add(0x20, line);
        }
        let misses = strides.report(LIMITS, 64);
        assert_eq!(misses.hints, [Hint { pc: 0x10, stride: 64, misses: 5, steady: 3 }]);
    }

    #[test]
    fn a_load_that_misses_rarely_is_not_listed() {
        let mut strides = Strides::default();
        (0..1000).for_each(|i| strides.add(0x10, i));
        (0..4).for_each(|i| strides.add(0x20, i));
        let misses = strides.report(LIMITS, 64);
        assert_eq!(misses.hints.iter().map(|hint| hint.pc).collect::<Vec<_>>(), [0x10]);
    }
}
