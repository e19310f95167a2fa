//! See `quipu_fuzzing::dtrace::stream`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::dtrace::stream(bytes));
