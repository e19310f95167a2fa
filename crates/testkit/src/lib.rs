//! What Quipu's tests share; for development only, never shipped.
//!
//! It knows the model and the engine, no format: a test hands over its trace, or a closure that opens one.
//!
//! - [`MemoryTrace`]: a trace in memory, built from rows.

#![warn(missing_docs)]

mod memory;
mod rng;

pub use memory::{ALL_COLUMNS, Instr, MemoryShard, MemoryTrace, Record};
pub use rng::Rng;
