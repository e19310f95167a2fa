//! See `quipu_fuzzing::events::threads`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::events::threads(bytes));
