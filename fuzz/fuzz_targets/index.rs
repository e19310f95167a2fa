//! See `quipu_fuzzing::beside::index`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::beside::index(bytes));
