//! Any bytes as a drmemtrace trace: it is checked to its end, with the same findings for buffers of any size.
#![no_main]

use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::check::CHECK;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| quipu_testkit::fuzz::tool(&DRMEMTRACE, &CHECK, bytes));
