//! See `quipu_fuzzing::streams::types`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::streams::types(bytes));
