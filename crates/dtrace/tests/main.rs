//! Integration tests of DTrace captures, in one program, because linking takes longer than most tests.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod carried;
mod family;
mod goldens;
mod host;
mod hostile;
mod layouts;
mod mid;
mod partitions;
mod quirks;
mod rules;
mod samples;
mod typed;
