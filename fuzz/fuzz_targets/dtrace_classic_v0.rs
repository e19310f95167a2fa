//! See `quipu_fuzzing::dtrace::classic_v0`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_fuzzing::dtrace::classic_v0(bytes));
