//! Any bytes as the words of a raw file: all of them are shown, in each form.
#![no_main]

#[path = "../../crates/drmemtrace/tests/fuzzing/raw.rs"]
mod fuzzing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::raw(bytes));
