//! See `quipu_fuzzing::traces::prism`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::traces::prism(bytes));
