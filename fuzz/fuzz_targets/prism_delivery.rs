//! See `quipu_fuzzing::events::delivery`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::events::delivery(bytes));
