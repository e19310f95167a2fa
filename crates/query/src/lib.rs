//! Rows of traces for other programs.
//!
//! [`export`] writes tables and lenses as a Parquet folder, or one of them as an Arrow file or stream. With the feature `sql`,
//! the module `sql` answers SQL queries directly from a trace.

#![warn(missing_docs)]

pub mod export;
#[cfg(feature = "sql")]
pub mod sql;

pub use quipu_arrow::Form;
