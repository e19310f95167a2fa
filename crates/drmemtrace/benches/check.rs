//! Speed of checking entries, with and without decoding, from memory.
//!
//! Runs on the nine-thread fixture, or on the trace that `QUIPU_BENCH_TRACE` names: `./dev big-trace` makes a large one.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::check::CHECK;
use quipu_drmemtrace::record::ENTRY_BYTES;
use quipu_model::{Batch, Columns, Format, Given, OpenOptions, Scan, Shard, Tool, Trace};
use quipu_source::Source;
use std::path::PathBuf;

fn main() {
    divan::main();
}

fn trace() -> Box<dyn Trace> {
    let fixture = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/drmemtrace/threadsig.x64");
    let path = std::env::var_os("QUIPU_BENCH_TRACE").map_or(fixture, PathBuf::from);
    DRMEMTRACE.open(&Source::open(&path).expect("fixture"), &OpenOptions::default()).expect("fixture opens")
}

/// The raw batches of a shard, as the reader hands them out.
fn batches(trace: &dyn Trace, shard: &Shard) -> Vec<Batch> {
    let mut reader = trace.scan(&Scan::new(shard.id).columns(Columns::RAW)).expect("scan");
    let mut batches = Vec::new();
    while let Some(batch) = reader.read().expect("read") {
        let block = batch.raw().to_vec();
        batches.push(Batch { raw: 0..block.len(), block, span: batch.span, ..Batch::default() });
    }
    batches
}

fn check(bencher: Bencher<'_, '_>, no_decode: &str) {
    let trace = trace();
    let shards: Vec<_> = trace.shards().iter().map(|shard| (shard, batches(&*trace, shard))).collect();
    let n_bytes: usize = shards.iter().flat_map(|(_, batches)| batches).map(|batch| batch.raw.len()).sum();
    let mut given = Given::default();
    given.add("no-decode", no_decode);
    let pass = CHECK.build(&CHECK.info().parse(&given).expect("an option"), &*trace).expect("check builds");
    bencher.counter(ItemsCount::new(n_bytes / ENTRY_BYTES)).bench_local(|| {
        for (shard, batches) in &shards {
            let mut pass = pass.fork(shard);
            for batch in batches {
                pass.consume(black_box(batch)).expect("check");
            }
            black_box(&pass);
        }
    });
}

/// Every rule: each distinct instruction is decoded once, and looked up at each execution.
#[divan::bench]
fn check_with_decoding(bencher: Bencher<'_, '_>) {
    check(bencher, "true");
}

/// Only the rules that need no encodings.
#[divan::bench]
fn check_without_decoding(bencher: Bencher<'_, '_>) {
    check(bencher, "false");
}
