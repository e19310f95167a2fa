//! All integration tests of the crate in one program, because linking takes longer than most tests.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod between;
mod conversion;
mod merge;
mod rows;
mod run;
mod tools;
