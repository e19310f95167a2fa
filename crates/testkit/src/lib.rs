//! Shared code of Quipu's tests; for development only, never shipped.
//!
//! It depends on the model, the engine and sources of bytes, and on no format: a test passes its format, its trace, or a
//! closure that opens one.
//!
//! - [`MemoryTrace`]: a trace in memory, built from rows.
//! - [`assert_golden`]: compares a text with a golden file.
//! - [`diff`]: the difference of two texts.
//! - [`fixtures`], [`copy_files`]: the traces of the repository, and copies of them.
//! - [`report_of`], [`broken_rules`]: a tool's report on a trace, and the findings of a check.
//! - [`printed`]: the lines of a trace, as printed for people.
//! - [`same_report_for_any_threads`]: a tool's outcome depends only on the trace.
//! - [`CLibrary`]: builds programs in C against one of our static libraries.
//! - [`cases`]: test cases as files.
//! - [`damage`]: cuts and changes a good input in thousands of ways.
//! - [`fuzz`]: the bodies of fuzz targets.
//! - [`records`]: a family of flat records gives the same batches for bytes in pieces of any size.
//! - [`described`]: a trace that describes itself.
//! - [`Reading`]: everything that a reader delivers, for comparing two readings.

#![warn(missing_docs)]

mod c;
pub mod cases;
pub mod damage;
pub mod described;
mod diff;
mod fixtures;
pub mod fuzz;
mod golden;
mod memory;
mod memory_use;
mod printed;
mod property;
mod reading;
pub mod records;
mod report;
mod rng;

pub use c::CLibrary;
pub use diff::diff;
pub use fixtures::{copy_files, fixtures};
pub use golden::assert_golden;
pub use memory::{ALL_COLUMNS, Instr, MemoryShard, MemoryTrace, Record};
pub use memory_use::PeakMemory;
pub use printed::printed;
pub use property::{same_outcome, same_report_for_any_threads};
pub use reading::{Depth, Reading, ReadingOptions};
pub use report::{broken_rules, report_of};
pub use rng::Rng;
