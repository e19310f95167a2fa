//! Workload events, and the hooks that take them: everything that a tool needs.
//!
//! A tool implements [`Hooks`], which has a method for each kind of event, and [`Tool`], which creates instances from
//! options. [`export!`] makes a library of it that `quipu run --tool` loads. By default, this crate depends on no other one,
//! so that a tool compiles in seconds.
//!
//! | file | what |
//! |---|---|
//! | [`event`], [`batch`], [`detail`] | events; batches of one thread; the fields that events have |
//! | [`hooks`] | the trait of analyses, and the delivery of batches |
//! | [`error`] | the reasons why a run ends early |
//! | [`tool`] | tools: hooks with a name and options, several of them in one run |
//! | [`abi`] | the table of functions between the program and a tool, as `include/quipu_tool.h` describes it for C |
//! | [`mod@export`] | that table for a tool written in Rust |
//! | `load` | the other side: loads a library, whose tools are hooks (feature `load`) |
//!
//! docs/hooks.md is a tutorial.

pub mod abi;
pub mod batch;
pub mod detail;
pub mod error;
pub mod event;
pub mod export;
pub mod hooks;
#[cfg(feature = "load")]
pub mod load;
pub mod tool;

pub use batch::{At, Batch};
pub use detail::Detail;
pub use error::{Error, Result};
pub use event::Event;
pub use hooks::{Hooks, Sink};
pub use tool::{Host, Instances, Tool};
