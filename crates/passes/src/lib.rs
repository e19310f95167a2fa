//! Analyses over lenses: each reads columns that any format may fill, and none depends on a format.
//!
//! Each analysis has its own folder, with its [`Tool`], its pass, its report and its tests. The folder's module
//! documentation is the tool's manual page; it describes what is counted and which columns are needed. Keys and columns of
//! its result are described with the report itself ([`result!`](quipu_model::result!)). [`TOOLS`] lists the analyses in the
//! order of a report.
//!
//! Code that several analyses share has its own file: `tally` counts keys, `keyed` has a value for each key, `axis` divides
//! a long range into a few intervals, `lines` cuts accesses into cache lines, `bins` makes histograms, `executed` counts
//! executions of distinct instructions, `filtered` has the labels for filtered traces, `split` keeps threads apart,
//! `sharded` is for analyses that must read a shard from its beginning.

#![warn(missing_docs)]

mod axis;
mod bins;
mod executed;
mod filtered;
mod keyed;
mod lines;
mod number;
mod sharded;
mod split;
mod tally;

pub mod aggregate;
pub mod branches;
pub mod categories;
pub mod functions;
pub mod heatmap;
pub mod histogram;
pub mod hot;
pub mod miss_ratio;
pub mod mix;
pub mod opcodes;
pub mod reuse_distance;
pub mod reuse_time;
pub mod schedule;
pub mod syscalls;
pub mod working_set;

#[cfg(test)]
mod sample;

use quipu_model::Tool;

pub use filtered::Filtered;
pub use sharded::{OfShard, PerShard, Row};
pub use split::{Answer, OfThread, PerThread};

/// Every analysis, in the order of a report.
pub const TOOLS: &[&dyn Tool] = &[
    &schedule::Schedule,
    &mix::Mix,
    &branches::Branches,
    &working_set::WorkingSet,
    &hot::Hot,
    &functions::Functions,
    &syscalls::Syscalls,
    &opcodes::Opcodes,
    &categories::CategoryMix,
    &histogram::Histogram,
    &heatmap::Heatmap,
    &reuse_distance::ReuseDistance,
    &reuse_time::ReuseTime,
    &miss_ratio::MissRatio,
    &aggregate::Aggregate,
];

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_model::pass::Detail;

    #[test]
    fn names_of_tools_are_different_and_their_options_have_defaults() {
        let names: std::collections::BTreeSet<&str> = TOOLS.iter().map(|tool| tool.info().name).collect();
        assert_eq!(names.len(), TOOLS.len());
        for option in TOOLS.iter().flat_map(|tool| tool.info().options) {
            assert!(!option.default.is_empty(), "{}", option.name);
        }
    }

    #[test]
    fn a_trace_of_nothing_gives_reports_without_a_brief_document() {
        for tool in TOOLS.iter().filter(|tool| tool.info().in_report && tool.info().name != "schedule") {
            let document = sample::report(*tool, "", "").document(Detail::Brief);
            assert_eq!(document.blocks, [], "{}", tool.info().name);
        }
    }

    #[test]
    fn documents_and_json_survive_the_largest_numbers() {
        let text = "
            clock 1\nclock 0xfffffffffffffffe\nclock 1\nclock 0xfffffffffffffffe
            instr 0xffffffffffffffff 65535 indirect-call taken ->0xffffffffffffffff
            read 0xffffffffffffffff 0xffffffff\nwrite 0 0xffffffff\nenter 0xffffffffffffffff";
        for tool in TOOLS {
            let report = sample::report(*tool, "", text);
            assert!(report.json().is_object());
            report.document(Detail::Full);
        }
    }
}
