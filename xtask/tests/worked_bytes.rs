//! The bytes that the page on drmemtrace explains stand in the traces that it names.

// The helpers of a test may panic as the test may.
#![allow(clippy::unwrap_used)]

use quipu::source::{Source, StreamOptions};
use std::fs;
use std::path::Path;

/// The files of the traces that the page takes bytes from.
const TRACES: &[&str] = &[
    "allasm/drmemtrace.allasm_x86_64.trace.zip",
    "allasm.regdeps/drmemtrace.allasm_x86_64.trace.zip",
    "as_traced/serial_schedule.bin.gz",
    "thr.core_sharded_kernel/drmemtrace.core.000000.trace.zip",
    "tiny.chunk1000/drmemtrace.tiny.05701.3845.trace.zip",
];

/// All members of a file, inflated, one after the other.
fn inflate(path: &Path) -> Vec<u8> {
    let container = Source::open(path).unwrap().container().unwrap();
    let mut stream = container.stream(container.all_members(), &StreamOptions::default()).unwrap();
    let (mut bytes, mut block) = (Vec::new(), Vec::new());
    while stream.next(&mut block).unwrap().is_some() {
        bytes.extend_from_slice(&block);
    }
    bytes
}

/// The bytes that a line of the page begins with: pairs of hex digits, perhaps with bars between fields.
fn bytes_of(line: &str) -> Vec<u8> {
    let words = line.split(' ').filter(|word| *word != "|");
    words.map_while(|word| if word.len() == 2 { u8::from_str_radix(word, 16).ok() } else { None }).collect()
}

#[test]
fn worked_bytes_stand_in_the_traces() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let traces: Vec<Vec<u8>> =
        TRACES.iter().map(|trace| inflate(&root.join("traces/drmemtrace").join(trace))).collect();
    let page = fs::read_to_string(root.join("docs/formats/drmemtrace.md")).unwrap();
    let lines: Vec<&str> = page.lines().filter(|line| bytes_of(line).len() >= 8).collect();
    assert!(lines.len() > 25, "the page has only {} lines of bytes", lines.len());
    for line in lines {
        let bytes = bytes_of(line);
        let stands = |trace: &Vec<u8>| trace.windows(bytes.len()).any(|window| window == bytes);
        assert!(traces.iter().any(stands), "in no trace: {line}");
    }
}
