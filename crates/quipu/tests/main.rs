//! All tests of the crate from outside: one program, since linking takes longer than most tests.

#![allow(clippy::unwrap_used, unreachable_pub)]

#[cfg(feature = "arrow")]
mod arrow;
mod carried;
mod examples;
mod parts;
mod passes_golden;
mod per_thread;
mod recognition;
mod results;
mod sweep;
mod threads;
mod types;
