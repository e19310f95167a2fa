//! All integration tests of the crate in one program, since linking takes longer than most tests.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod arrow;
mod cells;
mod damage;
mod live;
mod open;
mod slice;
mod survey;
mod vectors;
mod write;
