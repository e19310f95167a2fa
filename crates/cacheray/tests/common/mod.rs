//! Helpers that open and print fixtures.

use quipu_cacheray::trace::{CacherayTrace, open};
use quipu_model::{Finding, OpenOptions, Scan, ShardId, Trace};
use quipu_source::Source;
use quipu_testkit::printed;
use std::path::PathBuf;

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/cacheray")
}

/// Fixtures without damage.
pub const GOOD: [&str; 12] = [
    "atomics",
    "grand",
    "reorder-bad",
    "reorder-good",
    "shapes",
    "structs",
    "threads",
    "upstream/big",
    "upstream/structs-old",
    "derived/random",
    "derived/shapes.big-endian",
    "derived/shapes.ilp32",
];

pub fn path(name: &str) -> PathBuf {
    folder().join(format!("{name}.trace"))
}

pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap()
}

pub fn trace(name: &str) -> CacherayTrace {
    open(&Source::open(&path(name)).unwrap(), &OpenOptions::default()).unwrap()
}

pub fn of_bytes(bytes: &[u8]) -> CacherayTrace {
    open(&Source::from_bytes("in", bytes), &OpenOptions::default()).unwrap()
}

/// The printed lines of a trace, without the head, and the findings.
pub fn lines(trace: &dyn Trace) -> (Vec<String>, Vec<Finding>) {
    printed(trace, &Scan::new(ShardId(0)))
}
