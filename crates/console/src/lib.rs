//! What every command line of Quipu shares, that of its own verbs and those of other projects' programs.
//!
//! A file for each subject: how to say which trace (`input`), numbers and ranges (`number`), what goes to the standard
//! streams (`screen`, `terminal`), errors and findings for people (`complaint`), reading with progress and signals
//! (`session`), records on their way to a stream (`stream`), what comparing two traces says of either
//! (`comparison`), parts of a run (`parts`), flags made from descriptions of options (`flags`), where no trace is written
//! (`places`), what formats make of their traces (`rewrite`), what simulators need beside their settings (`simulation`),
//! threads on cores (`sched`).

#![warn(missing_docs)]

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

pub use common::Common;
