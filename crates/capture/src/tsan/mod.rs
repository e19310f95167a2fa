//! Traces of programs that were compiled with instrumentation.
//!
//! Such a program leaves a capture file, whatever becomes of it; this makes a Cacheray trace of one.
//!
//! | file | what |
//! |---|---|
//! | [`mod@file`] | what is in a capture file, whole or not |
//! | [`merge`] | what all threads did, in an order that it can have happened in |
//! | [`trace`] | events → records |
//! | [`show`] | events in words |
//! | [`sites`] | the type that memory was allocated for |
//! | [`record`](mod@record) | running such a program and making its trace |
//! | `rules` | what is reported of damaged files |
//! | [`wrap`] | compilers that make such programs |
//!
//! Capture files are described in docs/formats/capture.md.

pub mod file;
pub mod merge;
pub mod record;
mod rules;
pub mod show;
pub mod sites;
pub mod trace;
pub mod wrap;

pub use file::{Capture, is_capture};
pub use rules::RULES;
pub use trace::{Ending, Summary, collect};
