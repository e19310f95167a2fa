//! Building blocks for Quipu's command lines: its own verbs, and the programs of other projects.
//!
//! Each file has one subject: choosing a trace (`input`) and its parts between marks (`between`), numbers and ranges
//! (`number`), the standard streams (`screen`, `terminal`), errors and findings for people (`complaint`, `absent`), reading
//! with progress and signals (`session`), printing records (`stream`), reports about the inputs of comparisons
//! (`comparison`), parts of a run (`parts`), flags made from descriptions of options (`flags`), where traces must not be
//! written (`places`), transforms (`rewrite`), inputs of simulators besides their settings (`simulation`), threads on cores
//! (`sched`).

#![warn(missing_docs)]

mod absent;
mod between;
mod common;
pub mod comparison;
mod complaint;
pub mod flags;
pub mod follow;
pub mod input;
pub mod number;
pub mod parts;
pub mod places;
pub mod rewrite;
pub mod sched;
pub mod screen;
pub mod session;
pub mod simulation;
pub mod stream;
pub mod terminal;

pub use between::BetweenMarks;
pub use common::Common;
