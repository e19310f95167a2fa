//! Rows of traces for other programs.
//!
//! [`export`] writes tables and lenses as a folder of Parquet, or one of them as a file or stream of Arrow. With the feature
//! `sql`, the module of that name answers questions straight off a trace.

#![warn(missing_docs)]

pub mod export;
#[cfg(feature = "sql")]
pub mod sql;

pub use quipu_arrow::Form;
