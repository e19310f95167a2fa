//! Analyses over lenses: each reads columns that any format may fill, none knows a format.
//!
//! One folder holds one analysis: its [`Tool`], its pass, its report and its tests. The folder's module documentation is
//! the tool's manual page; it says what is counted, which columns it needs, and which JSON keys it prints.
//! [`TOOLS`] lists them in the order in which a report shows them.
//!
//! What several analyses share has a file of its own: `tally` counts keys, `keyed` has a value for each key, `axis` divides a long
//! stretch into few intervals, `lines` cuts accesses into cache lines, `executed` counts executions of distinct
//! instructions, `split` keeps threads apart.

#![warn(missing_docs)]

mod axis;
mod executed;
mod keyed;
mod lines;
mod number;
mod split;
mod tally;

pub mod branches;
pub mod categories;
pub mod functions;
pub mod histogram;
pub mod hot;
pub mod mix;
pub mod opcodes;
pub mod schedule;
pub mod working_set;

#[cfg(test)]
mod sample;

use quipu_model::Tool;

pub use split::{Answer, OfThread, PerThread};

/// Every analysis, in the order of a report.
pub const TOOLS: &[&dyn Tool] = &[
    &schedule::Schedule,
    &mix::Mix,
    &branches::Branches,
    &working_set::WorkingSet,
    &hot::Hot,
    &functions::Functions,
    &opcodes::Opcodes,
    &categories::CategoryMix,
    &histogram::Histogram,
];
