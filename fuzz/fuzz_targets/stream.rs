//! See `quipu_fuzzing::streams::stream`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::streams::stream(bytes));
