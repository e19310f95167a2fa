//! Any bytes as a trace of graphics calls: it is read to its end, or the reader says what is wrong.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_testkit::fuzz::format(&quipu_apitrace::APITRACE, bytes));
