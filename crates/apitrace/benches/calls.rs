//! Benchmarks of decoding, surveying and printing calls, on one thread.
//!
//! The input repeats the calls of a trace from the repository as one stream of about a million calls.

// A bench may panic.
#![allow(clippy::unwrap_used)]

use divan::counter::ItemsCount;
use quipu_apitrace::encode::{self, Encoder};
use quipu_apitrace::reader::CallReader;
use quipu_apitrace::survey::{Frames, survey};
use quipu_apitrace::table::CALLS_TABLE;
use quipu_apitrace::trace::{self, ApiTrace};
use quipu_model::print::Ordinals;
use quipu_model::trace::PrintOptions;
use quipu_model::{Columns, OpenOptions, Paint, Reader, Scan, ShardId, Trace};
use quipu_source::Source;
use std::sync::LazyLock;

fn main() {
    divan::main();
}

/// Minimum number of calls in the stream.
const LEAST_CALLS: u64 = 1_000_000;

/// The input trace: the one named by `QUIPU_BENCH_TRACE`, or the one in the repository.
fn source() -> Source {
    let path = std::env::var("QUIPU_BENCH_TRACE").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/apitrace/glxgears-300.trace").to_owned()
    });
    Source::open(path.as_ref()).unwrap()
}

static LARGE: LazyLock<(Source, u64)> = LazyLock::new(|| {
    let trace = trace::open(&source(), &OpenOptions::default()).unwrap();
    let mut stream = Vec::new();
    encode::header(trace.header(), &mut stream);
    let mut encoder = Encoder::default();
    let mut n_calls = 0;
    while n_calls < LEAST_CALLS {
        let scan = Scan::new(ShardId(0)).columns(Columns::CALL_VALUES);
        let mut reader = CallReader::new(trace.container(), &scan).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            for call in &batch.values.calls {
                encoder.call(call, &batch.values, &batch.types, &mut stream);
                n_calls += 1;
            }
        }
    }
    (Source::from_bytes("large", stream), n_calls)
});

fn large() -> (ApiTrace, ItemsCount) {
    let trace = trace::open(&LARGE.0, &OpenOptions::default()).unwrap();
    (trace, ItemsCount::new(LARGE.1))
}

#[divan::bench(sample_count = 10)]
fn decode(bencher: divan::Bencher<'_, '_>) {
    let (trace, calls) = large();
    bencher.counter(calls).bench_local(|| {
        let mut reader = CallReader::new(trace.container(), &Scan::new(ShardId(0))).unwrap();
        let mut n = 0;
        while let Some(batch) = reader.read().unwrap() {
            n += batch.values.calls.len();
        }
        n
    });
}

#[divan::bench(sample_count = 10)]
fn info(bencher: divan::Bencher<'_, '_>) {
    let (trace, calls) = large();
    bencher.counter(calls).bench_local(|| survey(trace.container(), Frames::Counted, &|| false).0.calls);
}

#[divan::bench(sample_count = 10)]
fn view(bencher: divan::Bencher<'_, '_>) {
    let (trace, calls) = large();
    bencher.counter(calls).bench_local(|| {
        let scan = Scan { tables: vec![CALLS_TABLE], ..Scan::new(ShardId(0)) };
        let mut reader = trace.scan(&scan).unwrap();
        let mut printer = trace.printer(&PrintOptions::default()).unwrap();
        let (mut out, mut n_bytes, mut rows) = (Vec::new(), 0, Vec::new());
        while let Some(batch) = reader.read().unwrap() {
            rows.clear();
            rows.extend(0..batch.span.records);
            printer.print(batch, &rows, Ordinals::default(), &Paint::PLAIN, &mut out);
            n_bytes += out.len();
            out.clear();
        }
        n_bytes
    });
}
