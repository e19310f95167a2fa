//! See `quipu_fuzzing::texts::call_set`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::texts::call_set(bytes));
