//! See `quipu_fuzzing::traces::dtrace`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::traces::dtrace(bytes));
