//! Traces of programs that were compiled with instrumentation.
//!
//! Such a program leaves a recording, whatever becomes of it; this makes a Cacheray trace of one.
//!
//! | file | what |
//! |---|---|
//! | [`mod@file`] | what is in a recording, whole or not |
//! | [`merge`] | what all threads did, in an order that it can have happened in |
//! | [`trace`] | events → records |
//! | [`show`] | events in words |
//! | [`sites`] | the type that memory was allocated for |
//! | [`record`](mod@record) | running such a program and making its trace |
//! | [`wrap`] | compilers that make such programs |
//!
//! Recordings are streams, described in docs/formats/stream.md.

pub mod file;
pub mod merge;
pub mod record;
pub mod show;
pub mod sites;
pub mod trace;
pub mod wrap;

pub use file::{Capture, Ending, is_capture};
pub use trace::{MADE, Summary, collect};
