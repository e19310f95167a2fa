//! Any bytes as a drmemtrace trace, written again and edited: what comes out can be read, and comes out the same again.
#![no_main]

#[path = "../../crates/drmemtrace/tests/fuzzing/mod.rs"]
mod fuzzing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::rewrite(bytes));
