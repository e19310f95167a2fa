//! See `quipu_fuzzing::run_format`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::run_format(bytes));
