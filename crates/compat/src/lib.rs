//! The command lines of other projects' programs, for people who have scripts: same options, same output, our own tools.
//!
//! `quipu as PROGRAM …` calls them; [compatibility](../../docs/compatibility.md) lists what differs and why.

#![warn(missing_docs)]

pub mod apitrace;
pub mod cacheray;
pub mod drmemtrace;
pub mod dtrace;
pub mod prism;
