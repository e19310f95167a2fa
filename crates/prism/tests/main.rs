//! All integration tests of the crate.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod capnp;
mod delivery;
mod encodings;
mod hooks;
mod samples;
mod sigilclassic;
mod stgen;
mod workload;
