//! All integration tests of the crate in one program, since linking takes longer than most tests.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod arrow;
mod cells;
mod damage;
// The example is a program; here it is a module, whose `main` is not called.
#[allow(dead_code)]
#[path = "../examples/expect/main.rs"]
mod expect;
mod live;
mod open;
mod slice;
mod survey;
mod vectors;
mod write;
