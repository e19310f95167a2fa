//! All integration tests of the crate as one program, since linking takes longer than most tests.

#![allow(clippy::unwrap_used, unreachable_pub)]

mod aarch64_against_trace;
mod hostile;
mod instructions;
mod regdeps_against_view;
mod regdeps_encoding;
mod work;
mod x86_against_dynamorio;
