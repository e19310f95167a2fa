//! See `quipu_fuzzing::captures::file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::captures::file(bytes));
