//! All integration tests of the crate in one program, because linking takes longer than most tests.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod archives;
mod codecs;
mod damage;
mod faults;
mod folders;
mod pack;
mod packing;
mod samples;
mod threads;
mod unframed;
