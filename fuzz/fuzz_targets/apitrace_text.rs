//! See `quipu_fuzzing::traces::apitrace_text`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::traces::apitrace_text(bytes));
