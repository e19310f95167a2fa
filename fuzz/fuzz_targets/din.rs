//! Any bytes as what Dinero reads: they are read to their end, or the reader says what is wrong.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_testkit::fuzz::format(&quipu_plaintext::DIN, bytes));
