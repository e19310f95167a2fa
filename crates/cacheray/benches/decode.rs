//! Benchmark: records decoded per second, from plain bytes into the lenses.
//!
//! `cargo bench -p quipu-cacheray`

use divan::Bencher;
use divan::counter::ItemsCount;
use quipu_cacheray::decode::encode;
use quipu_cacheray::record::{Access, Add, Dialect, Record};
use quipu_cacheray::trace::open;
use quipu_model::{Columns, OpenOptions, Scan, ShardId, Trace};
use quipu_source::Source;

fn main() {
    divan::main();
}

/// 75 MB, which are read from memory, and 1.5 MB, which fit into a cache.
const RECORDS: [u64; 2] = [4 << 20, 80 << 10];

/// Accesses of one thread, with an annotation every 200 records.
fn bytes(n_records: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for at in 0..n_records {
        let addr = 0x5555_5555_0000 + at * 8 % (1 << 24);
        let record = if at % 200 == 0 {
            Record::Add(Add {
                tag: 2,
                addr,
                thread: 0,
                element_bytes: 64,
                n_elements: 1,
                name: b"struct.Node",
            })
        } else {
            Record::Access(Access { tag: (at % 3 == 0).into(), addr, size: 8, thread: 0 })
        };
        encode(Dialect::Le64, &record, &mut bytes).expect("the dialect has room");
    }
    bytes
}

/// The lenses that analyses ask for.
#[divan::bench(sample_count = 20, args = RECORDS)]
fn decode_into_lenses(bencher: Bencher<'_, '_>, n_records: u64) {
    let source = Source::from_bytes("bench", bytes(n_records));
    let trace = open(&source, &OpenOptions::default()).expect("the bytes are a trace");
    let columns = Columns::ACCESSES | Columns::REGIONS | Columns::THREADS;
    bencher.counter(ItemsCount::new(n_records)).bench_local(|| {
        let scan = Scan { columns, ..Scan::new(ShardId(0)) };
        let mut reader = trace.scan(&scan).expect("the trace can be read");
        let mut n = 0;
        while let Some(batch) = reader.read().expect("the trace is whole") {
            n += batch.accesses.len();
        }
        n
    });
}
