//! See `quipu_fuzzing::dtrace::classic`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::dtrace::classic(bytes));
