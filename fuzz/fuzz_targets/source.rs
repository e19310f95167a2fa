//! See `quipu_fuzzing::source`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::source(bytes));
