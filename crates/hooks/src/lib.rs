//! Workload events, and the hooks that take them: all that a tool needs.
//!
//! A tool implements [`Hooks`], a method for each kind of event, and [`Tool`], which says how it is made and what its options
//! are. [`export!`] makes a library of it that `quipu run --tool` loads. This crate depends on no other one, so that a tool
//! compiles in seconds.
//!
//! | file | what |
//! |---|---|
//! | [`event`], [`batch`], [`detail`] | events; batches of one thread; which fields events have |
//! | [`hooks`] | what analyses implement, and how batches reach them |
//! | [`error`] | why a run ends early |
//! | [`tool`] | tools: hooks with a name and options, several of them side by side |
//! | [`abi`] | the table of functions between the program and a tool, as `include/quipu_tool.h` describes it for C |
//! | [`mod@export`] | that table for a tool in Rust |
//! | `load` | the other side: a library is loaded, and its tools are hooks (feature `load`) |
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
