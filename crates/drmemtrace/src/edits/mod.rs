//! Edits: which entries of a trace are kept, and in what form.
//!
//! | file | what |
//! |---|---|
//! | [`trim`] | parts of the trace, cut at instructions |
//! | [`filter`] | kinds of records, in the order in which DynamoRIO applies its filters |
//! | [`cache`] | accesses and instructions that miss a small cache |
//! | [`clock_trim`] | trimming at clock readings, as DynamoRIO does it |
//!
//! Each is an [`EntryEdit`](crate::write::EntryEdit) of one file, or a part of one. SPEC: drmemtrace.md#editing.

pub mod cache;
pub mod clock_trim;
pub mod filter;
pub mod trim;

pub use filter::{Filter, FilterSpec};
pub use trim::{Position, Trim};
