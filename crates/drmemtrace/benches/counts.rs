//! Speed of counting and reading entries, compared with only inflating them.
//!
//! Runs on the nine-thread fixture, or on the trace that `QUIPU_BENCH_TRACE` names: `./dev big-trace` makes a large one.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::record::ENTRY_BYTES;
use quipu_drmemtrace::table::MEMREFS_TABLE;
use quipu_drmemtrace::tools::counts::COUNTS;
use quipu_model::{Batch, Columns, Format, OpenOptions, Options, Scan, Tool, Trace};
use quipu_source::{Ahead, Source, StreamOptions};
use std::path::PathBuf;

fn main() {
    divan::main();
}

/// Number of bytes that the reader inflates at a time.
const BLOCK_BYTES: usize = 16 * 1024 * ENTRY_BYTES;

fn trace() -> Box<dyn Trace> {
    let fixture = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/drmemtrace/threadsig.x64");
    let path = std::env::var_os("QUIPU_BENCH_TRACE").map_or(fixture, PathBuf::from);
    DRMEMTRACE.open(&Source::open(&path).expect("fixture"), &OpenOptions::default()).expect("fixture opens")
}

/// Number of entries of all shards.
fn n_entries(trace: &dyn Trace) -> u64 {
    let known = trace.meta().inflated_bytes.map(|bytes| bytes / ENTRY_BYTES as u64);
    known.unwrap_or_else(|| bytes(trace).iter().map(|bytes| (bytes.len() / ENTRY_BYTES) as u64).sum())
}

/// The inflated bytes of every shard.
fn bytes(trace: &dyn Trace) -> Vec<Vec<u8>> {
    trace.shards().iter().map(|shard| inflate(&shard.name)).collect()
}

fn inflate(path: &str) -> Vec<u8> {
    let container = Source::open(path.as_ref()).and_then(|source| source.container()).expect("fixture");
    let options = StreamOptions { ahead: Ahead::Inline, ..StreamOptions::default() };
    let mut stream = container.stream(container.all_members(), &options).expect("fixture");
    let (mut block, mut all) = (Vec::new(), Vec::new());
    while stream.next(&mut block).expect("fixture").is_some() {
        all.extend_from_slice(&block);
    }
    all
}

/// Counting alone: the entries are in level-2 cache, where the inflater leaves them.
#[divan::bench]
fn count_entries_in_cache(bencher: Bencher<'_, '_>) {
    const ROUNDS: usize = 20;
    let trace = trace();
    let shard = &trace.shards()[0];
    let mut bytes = inflate(&shard.name);
    bytes.truncate(BLOCK_BYTES * 4);
    let batches: Vec<Batch> = bytes
        .chunks(BLOCK_BYTES)
        .map(|chunk| Batch { block: chunk.to_vec(), raw: 0..chunk.len(), ..Batch::default() })
        .collect();
    let pass = COUNTS.build(&Options::default(), trace.as_ref()).expect("counts builds");
    bencher.counter(ItemsCount::new(ROUNDS * bytes.len() / ENTRY_BYTES)).bench_local(|| {
        let mut pass = pass.fork(shard);
        for batch in (0..ROUNDS).flat_map(|_| &batches) {
            pass.consume(black_box(batch)).expect("counts");
        }
        black_box(&pass);
    });
}

/// Counting from the file, in one thread: inflating, checking the entry types, counting.
#[divan::bench]
fn count_entries_of_file(bencher: Bencher<'_, '_>) {
    let trace = trace();
    let pass = COUNTS.build(&Options::default(), trace.as_ref()).expect("counts builds");
    bencher.counter(ItemsCount::new(n_entries(trace.as_ref()))).bench_local(|| {
        for shard in trace.shards() {
            let mut pass = pass.fork(shard);
            let mut reader = trace.scan(&Scan::new(shard.id).columns(Columns::RAW)).expect("scan");
            while let Some(batch) = reader.read().expect("read") {
                pass.consume(batch).expect("counts");
            }
            black_box(&pass);
        }
    });
}

/// The reader without columns, tables or counting: inflating and checking the entry types.
#[divan::bench]
fn read_raw_blocks(bencher: Bencher<'_, '_>) {
    scan(bencher, Columns::RAW, &[]);
}

/// The lenses that cache simulators read.
#[divan::bench]
fn read_accesses_with_fetches(bencher: Bencher<'_, '_>) {
    scan(bencher, Columns::ACCESSES | Columns::ACCESS_PC | Columns::ACCESS_FETCH, &[]);
}

/// The lens that instruction statistics read.
#[divan::bench]
fn read_instrs_with_code(bencher: Bencher<'_, '_>) {
    scan(bencher, Columns::INSTRS | Columns::INSTR_CLASS | Columns::INSTR_TAKEN | Columns::INSTR_CODE, &[]);
}

/// The rows that the viewer prints.
#[divan::bench]
fn read_memref_rows(bencher: Bencher<'_, '_>) {
    scan(bencher, Columns::NONE, &[MEMREFS_TABLE]);
}

fn scan(bencher: Bencher<'_, '_>, columns: Columns, tables: &[usize]) {
    let trace = trace();
    bencher.counter(ItemsCount::new(n_entries(trace.as_ref()))).bench_local(|| {
        for shard in trace.shards() {
            let scan = Scan { tables: tables.to_vec(), ..Scan::new(shard.id).columns(columns) };
            let mut reader = trace.scan(&scan).expect("scan");
            while let Some(batch) = reader.read().expect("read") {
                black_box(batch);
            }
        }
    });
}

/// Only inflating the same files: the baseline of the other figures.
#[divan::bench]
fn inflate_only(bencher: Bencher<'_, '_>) {
    let trace = trace();
    let n_entries = n_entries(trace.as_ref());
    let containers: Vec<_> = trace
        .shards()
        .iter()
        .map(|shard| {
            Source::open(shard.name.as_ref()).and_then(|source| source.container()).expect("fixture")
        })
        .collect();
    let options =
        StreamOptions { ahead: Ahead::Inline, block_bytes: BLOCK_BYTES, ..StreamOptions::default() };
    bencher.counter(ItemsCount::new(n_entries)).bench_local(|| {
        let mut block = Vec::new();
        for container in &containers {
            let mut stream = container.stream(container.all_members(), &options).expect("stream");
            while stream.next(&mut block).expect("inflate").is_some() {
                black_box(&block);
            }
        }
    });
}
