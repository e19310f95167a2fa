//! Helpers that open and print fixtures.

use quipu_model::{Finding, Format, OpenOptions, Scan, ShardId, Trace};
use quipu_plaintext::{DIN, LACKEY};
use quipu_source::Source;
use quipu_testkit::printed;
use std::path::PathBuf;

/// All traces.
pub const ALL: [&str; 5] = [
    "lackey/nodes.lackey.gz",
    "lackey/mixed.lackey",
    "din/nodes.din.gz",
    "din/nodes.xdin.gz",
    "din/labels.din",
];

pub fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces").join(name)
}

pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap()
}

/// The text of a trace.
pub fn text(name: &str) -> Vec<u8> {
    Source::open(&path(name)).unwrap().head(1 << 20).unwrap()
}

pub fn format(name: &str) -> &'static dyn Format {
    if name.starts_with("lackey") { &LACKEY } else { &DIN }
}

pub fn trace(name: &str) -> Box<dyn Trace> {
    format(name).open(&Source::open(&path(name)).unwrap(), &OpenOptions::default()).unwrap()
}

pub fn lackey(text: &[u8]) -> Box<dyn Trace> {
    LACKEY.open(&Source::from_bytes("in", text), &OpenOptions::default()).unwrap()
}

pub fn din(text: &[u8], settings: &[(&str, &str)]) -> Box<dyn Trace> {
    let given = settings.iter().copied().collect();
    DIN.open(&Source::from_bytes("in", text), &OpenOptions { given, ..OpenOptions::default() }).unwrap()
}

/// The records as printed, without the head, and the findings.
pub fn lines_of(trace: &dyn Trace, scan: &Scan) -> (Vec<String>, Vec<Finding>) {
    printed(trace, &Scan { columns: trace.columns(), ..scan.clone() })
}

pub fn lines(trace: &dyn Trace) -> (Vec<String>, Vec<Finding>) {
    lines_of(trace, &Scan::new(ShardId(0)))
}
