//! Benchmarks: lines decoded into lenses, from plain bytes.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use quipu_model::{Columns, Format, OpenOptions, Scan, ShardId};
use quipu_plaintext::{DIN, LACKEY};
use quipu_source::Source;
use std::path::PathBuf;

fn main() {
    divan::main();
}

/// A trace repeated many times, and its number of lines.
fn text(name: &str) -> (Source, usize) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces").join(name);
    let once = Source::open(&path).and_then(|source| source.head(1 << 24)).expect("fixture");
    let text = once.repeat((64 << 20) / once.len());
    let n_lines = text.iter().filter(|byte| **byte == b'\n').count();
    (Source::from_bytes("in", text), n_lines)
}

fn scan(bencher: Bencher<'_, '_>, format: &dyn Format, name: &str, columns: Columns) {
    let (source, n_lines) = text(name);
    let trace = format.open(&source, &OpenOptions::default()).expect("fixture opens");
    bencher.counter(ItemsCount::new(n_lines)).bench_local(|| {
        let mut reader = trace.scan(&Scan::new(ShardId(0)).columns(columns)).expect("scan");
        while let Some(batch) = reader.read().expect("read") {
            black_box(batch);
        }
    });
}

/// Only splits lines; fills no column.
#[divan::bench]
fn lackey_without_columns(bencher: Bencher<'_, '_>) {
    scan(bencher, &LACKEY, "lackey/nodes.lackey.gz", Columns::NONE);
}

/// The columns that simulators of data caches use.
#[divan::bench]
fn lackey_accesses(bencher: Bencher<'_, '_>) {
    scan(bencher, &LACKEY, "lackey/nodes.lackey.gz", Columns::ACCESSES);
}

/// The columns that simulators of all caches use.
#[divan::bench]
fn lackey_accesses_with_fetches(bencher: Bencher<'_, '_>) {
    let columns = Columns::ACCESSES | Columns::ACCESS_PC | Columns::ACCESS_FETCH;
    scan(bencher, &LACKEY, "lackey/nodes.lackey.gz", columns);
}

#[divan::bench]
fn din_accesses(bencher: Bencher<'_, '_>) {
    scan(bencher, &DIN, "din/nodes.din.gz", Columns::ACCESSES | Columns::ACCESS_FETCH);
}

#[divan::bench]
fn xdin_accesses(bencher: Bencher<'_, '_>) {
    scan(bencher, &DIN, "din/nodes.xdin.gz", Columns::ACCESSES | Columns::ACCESS_FETCH);
}
