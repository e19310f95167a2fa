//! Rows of traces for other programs.
//!
//! [`export`] writes tables and lenses as a folder of Parquet, or one of them as a file or stream of Arrow.

#![warn(missing_docs)]

pub mod export;

pub use quipu_arrow::Form;
