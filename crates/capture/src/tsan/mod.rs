//! Traces of programs compiled with instrumentation.
//!
//! Such a program writes a recording, which survives a crash; this module converts it to a Cacheray trace.
//!
//! | file | what |
//! |---|---|
//! | [`control`] | pausing, resuming and copying a recording while its program runs |
//! | [`mod@file`] | recordings, whole or damaged |
//! | [`merge`] | events of all threads, in an order in which they can have happened |
//! | [`callers`] | call stacks |
//! | [`trace`] | conversion of events to records |
//! | `freed` | freed memory that became stacks |
//! | [`show`] | textual form of events |
//! | [`sites`] | types of allocations |
//! | [`record`](mod@record) | running such a program and converting its recording |
//! | [`runtime`] | the runtime that programs have, or that is loaded into them |
//! | [`wrap`] | compilers for such programs |
//! | [`build_files`] | files with which build systems compile such programs |
//! | [`link`] | linking such programs |
//!
//! Recordings are streams, described in docs/formats/stream.md.

pub mod build_files;
pub mod callers;
pub mod control;
pub mod file;
mod freed;
pub mod link;
pub mod merge;
pub mod record;
pub mod runtime;
pub mod show;
pub mod sites;
pub mod trace;
pub mod wrap;

pub use file::{Capture, Ending, is_capture};
pub use trace::{MADE, Summary, collect};
