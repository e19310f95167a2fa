//! Traces of programs compiled with instrumentation.
//!
//! Such a program writes a recording, which survives a crash; this module converts it to a Cacheray trace.
//!
//! | file | what |
//! |---|---|
//! | [`control`] | pausing, resuming and copying a recording while its program runs |
//! | [`mod@file`] | recordings, whole or damaged |
//! | [`merge`] | events of all threads, in an order in which they can have happened |
//! | [`trace`] | conversion of events to records |
//! | [`show`] | textual form of events |
//! | [`sites`] | types of allocations |
//! | [`record`](mod@record) | running such a program and converting its recording |
//! | [`wrap`] | compilers for such programs |
//!
//! Recordings are streams, described in docs/formats/stream.md.

pub mod control;
pub mod file;
pub mod merge;
pub mod record;
pub mod show;
pub mod sites;
pub mod trace;
pub mod wrap;

pub use file::{Capture, Ending, is_capture};
pub use trace::{MADE, Summary, collect};
