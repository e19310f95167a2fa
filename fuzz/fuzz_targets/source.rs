//! Any bytes as a file: the containers find their members and inflate them, or say what is wrong.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_testkit::fuzz::source(bytes));
