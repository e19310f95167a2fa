//! What Quipu's tests share; for development only, never shipped.
//!
//! It knows the model, the engine and sources of bytes, and no format: a test hands over its format, its trace, or a
//! closure that opens one.
//!
//! - [`MemoryTrace`]: a trace in memory, built from rows.
//! - [`assert_golden`]: a text and the file that it must equal.
//! - [`diff`]: where two texts differ.
//! - [`fixtures`], [`copy_files`]: the traces of the repository, and copies of them.
//! - [`report_of`], [`broken_rules`]: what a tool leaves of a trace, and what a check finds in it.
//! - [`printed`]: the lines of a trace, as people read them.
//! - [`same_report_for_any_threads`]: a tool's outcome depends on nothing but the trace.
//! - [`CLibrary`]: programs in C against a static library of ours.
//! - [`cases`]: test cases as files.
//! - [`damage`]: a good input cut and changed in thousands of ways.
//! - [`fuzz`]: the bodies of fuzz targets.
//! - [`records`]: whatever pieces its bytes arrive in, a family of flat records gives the same batches.
//! - [`described`]: a trace that describes itself.
//! - [`Reading`]: all that a reader delivers, for comparing two readings.

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
