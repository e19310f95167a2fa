//! All tests of the crate from outside: one program, since linking takes longer than most tests.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod conversion;
mod merge;
mod rows;
mod run;
mod tools;
