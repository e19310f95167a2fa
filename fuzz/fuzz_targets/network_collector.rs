//! See `quipu_fuzzing::network::collector`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::network::collector(bytes));
