//! Any bytes as a trace of graphics calls, written again and as text, and any bytes as such a text: what comes out says the same.
#![no_main]

#[path = "../../crates/apitrace/tests/fuzzing/mod.rs"]
mod fuzzing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::write_and_text(bytes));
