//! Throughput of reading events and of the back ends: one core, with the samples repeated.
//!
//! Goals: 200 M events/s of the fixed encoding, 150 M of the variable one, 50 M through SynchroTraceGen as text.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use quipu_prism::files::Files;
use quipu_prism::hooks::{Sink, run_dump};
use quipu_prism::simplecount::SimpleCount;
use quipu_prism::stgen::{Form, Options, Stgen};
use quipu_prism::variable::{Decoder, Dialect};
use quipu_prism::{Batch, Detail, dump};
use std::io::Read;
use std::path::PathBuf;

fn main() {
    divan::main();
}

/// The bytes of a sample, decompressed.
fn sample(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/prism").join(name);
    let packed = std::fs::read(path).expect("sample");
    if name.ends_with(".zst") {
        return zstd::decode_all(packed.as_slice()).expect("sample");
    }
    let mut bytes = Vec::new();
    flate2::read::MultiGzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).expect("sample");
    bytes
}

/// A dump repeated `times` times, and the number of its events.
fn dump_of(name: &str, times: usize) -> (Vec<u8>, usize) {
    let bytes = sample(name);
    let (mut reader, mut batch, mut n_events) =
        (dump::Reader::new(&bytes, Detail::VALGRIND), Batch::default(), 0);
    while reader.read(&mut batch).expect("sample") {
        n_events += batch.events.len();
    }
    (bytes.repeat(times), n_events * times)
}

#[divan::bench]
fn fixed(bencher: Bencher<'_, '_>) {
    let (bytes, n_events) = dump_of("fixed/prodcons.full.fixed18.zst", 4);
    let mut batch = Batch::default();
    bencher.counter(ItemsCount::new(n_events)).bench_local(|| {
        let mut reader = dump::Reader::new(&bytes, Detail::VALGRIND);
        while reader.read(&mut batch).expect("read") {
            black_box(&batch);
        }
    });
}

#[divan::bench]
fn variable(bencher: Bencher<'_, '_>) {
    let bytes = sample("variable/prodcons.sigrind.bin.gz");
    // The end mark is cut off, so that the stream can be repeated.
    let bytes = bytes[..bytes.len() - 1].repeat(16);
    let n_events: usize = 55_717 * 16;
    let mut batch = Batch::default();
    bencher.counter(ItemsCount::new(n_events)).bench_local(|| {
        let mut decoder = Decoder::new(Detail::SIGRIND, Dialect::Strict);
        let mut used = 0;
        while used < bytes.len() {
            used += decoder.decode(&bytes[used..], &mut batch).expect("decode").used;
            black_box(&batch);
        }
    });
}

#[divan::bench]
fn counting_hook(bencher: Bencher<'_, '_>) {
    let (bytes, n_events) = dump_of("fixed/prodcons.full.fixed18.zst", 4);
    bencher.counter(ItemsCount::new(n_events)).bench_local(|| {
        let mut counts = SimpleCount::default();
        run_dump(&bytes, Detail::VALGRIND, &mut counts).expect("run");
        counts
    });
}

/// SynchroTraceGen with text files, as in the goal.
#[divan::bench]
fn stgen_text(bencher: Bencher<'_, '_>) {
    let (bytes, n_events) = dump_of("fixed/prodcons.full.fixed18.zst", 16);
    let folder = tempfile::tempdir().expect("folder");
    bencher.counter(ItemsCount::new(n_events)).bench_local(|| {
        let out = Files::each(folder.path());
        let mut stgen = Stgen::new(Options { out, ..Options::default() });
        run_dump(&bytes, Detail::VALGRIND, &mut stgen).expect("run");
    });
}

/// The same with a hundred million events in one run.
#[divan::bench(sample_count = 3, sample_size = 1)]
fn stgen_text_100_million(bencher: Bencher<'_, '_>) {
    let (bytes, n_events) = dump_of("fixed/prodcons.full.fixed18.zst", 1);
    let n_times = 100_000_000_usize.div_ceil(n_events);
    let folder = tempfile::tempdir().expect("folder");
    let mut batch = Batch::default();
    bencher.counter(ItemsCount::new(n_events * n_times)).bench_local(|| {
        let out = Files::each(folder.path());
        let mut stgen = Stgen::new(Options { out, ..Options::default() });
        stgen.start().expect("run");
        for _ in 0..n_times {
            let mut reader = dump::Reader::new(&bytes, Detail::VALGRIND);
            while reader.read(&mut batch).expect("read") {
                stgen.take(&batch).expect("run");
            }
        }
        stgen.finish().expect("run");
    });
}

/// SynchroTraceGen without files: only the computation.
#[divan::bench]
fn stgen(bencher: Bencher<'_, '_>) {
    let (bytes, n_events) = dump_of("fixed/prodcons.full.fixed18.zst", 2);
    bencher.counter(ItemsCount::new(n_events)).bench_local(|| {
        let mut stgen = Stgen::new(Options { form: Form::Null, ..Options::default() });
        run_dump(&bytes, Detail::VALGRIND, &mut stgen).expect("run");
    });
}
