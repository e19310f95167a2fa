//! See `quipu_fuzzing::streams::packed_rows`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::streams::packed_rows(bytes));
