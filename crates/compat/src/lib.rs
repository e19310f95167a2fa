//! Command lines of other projects' programs, for existing scripts: same options and output, implemented with our own tools.
//!
//! `quipu as PROGRAM …` runs them; [compatibility](../../docs/compatibility.md) lists the differences and their reasons.

#![warn(missing_docs)]

pub mod apitrace;
pub mod cacheray;
pub mod drmemtrace;
pub mod dtrace;
pub mod prism;
