//! See `quipu_fuzzing::texts::expression`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::texts::expression(bytes));
