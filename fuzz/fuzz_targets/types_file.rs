//! See `quipu_fuzzing::texts::types_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::texts::types_file(bytes));
