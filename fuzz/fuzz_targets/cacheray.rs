//! Any bytes as a trace of typed accesses: it is read to its end, or the reader says what is wrong.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_testkit::fuzz::format(&quipu_cacheray::CACHERAY, bytes));
