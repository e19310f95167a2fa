//! Speed of rewriting a trace, compared with the compressors alone on the same bytes and number of threads.
//!
//! Runs on the longest thread of the nine-thread fixture, or on the file that `QUIPU_BENCH_TRACE` names.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use quipu_drmemtrace::edits::{Filter, FilterSpec};
use quipu_drmemtrace::trace::{self, DrmemTrace};
use quipu_drmemtrace::write::{EntryEdit, NoEdit, WriteOptions, rewrite_file};
use quipu_model::OpenOptions;
use quipu_model::transform::Silent;
use quipu_source::{PackOptions, Packer, Packing, Pool, Source, StreamOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;

fn main() {
    divan::main();
}

/// A writer that discards everything, because writing to a disk is not measured.
struct Nowhere;

impl Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(black_box(bytes).len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Nowhere {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        Ok(0)
    }
}

fn open() -> DrmemTrace {
    let fixture = "../../traces/drmemtrace/threadsig.x64/drmemtrace.threadsig.872884.3060.trace.zip";
    let fixture = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(fixture);
    let path = std::env::var_os("QUIPU_BENCH_TRACE").map_or(fixture, PathBuf::from);
    let source = Source::open(&path).expect("fixture");
    trace::open(&source, &OpenOptions::default()).expect("fixture opens")
}

/// The plain bytes of each member.
fn members(trace: &DrmemTrace) -> Vec<Vec<u8>> {
    let container = &trace.files()[0].container;
    let read = |i: usize| {
        let mut stream = container.stream(i..i + 1, &StreamOptions::default()).expect("fixture");
        let (mut block, mut bytes) = (Vec::new(), Vec::new());
        while stream.next(&mut block).expect("fixture").is_some() {
            bytes.extend_from_slice(&block);
        }
        bytes
    };
    (0..container.members().len()).map(read).collect()
}

fn n_bytes(trace: &DrmemTrace) -> u64 {
    trace.files()[0].container.members().iter().filter_map(|member| member.len).sum()
}

fn n_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

const PACKINGS: [Packing; 4] = [Packing::Zip, Packing::Gzip, Packing::Zstd, Packing::Lz4];

/// The compressor alone, on all cores: bytes in memory, with the members of the source.
#[divan::bench(args = PACKINGS)]
fn pack_alone(bencher: Bencher<'_, '_>, packing: Packing) {
    let trace = open();
    let members = members(&trace);
    let pool = Pool::new(n_threads()).expect("threads");
    bencher.counter(BytesCount::new(n_bytes(&trace))).bench(|| {
        let mut packer = Packer::new(Nowhere, &pool, &PackOptions::new(packing));
        for member in &members {
            packer.member("chunk.00000000").expect("a short name");
            packer.write(member).expect("nothing can fail");
        }
        packer.finish().expect("nothing can fail").1
    });
}

fn rewrite<E: EntryEdit>(bencher: Bencher<'_, '_>, packing: Packing, edit: impl Fn(&DrmemTrace) -> E + Sync) {
    let trace = open();
    let pool = Pool::new(n_threads()).expect("threads");
    let options = WriteOptions { pack: PackOptions::new(packing), ..WriteOptions::new() };
    bencher.counter(BytesCount::new(n_bytes(&trace))).bench(|| {
        let packer = Packer::new(Nowhere, &pool, &options.pack);
        let (done, _) =
            rewrite_file(&trace, 0, packer, edit(&trace), &options, &Silent).expect("fixture is sound");
        done.packed
    });
}

/// From an archive to another container, on all cores.
#[divan::bench(args = [Packing::Zip, Packing::Gzip, Packing::Zstd, Packing::Lz4, Packing::Plain])]
fn convert(bencher: Bencher<'_, '_>, packing: Packing) {
    rewrite(bencher, packing, |_| NoEdit);
}

/// The same through a filter that checks each entry and drops nothing.
#[divan::bench(args = [Packing::Zip, Packing::Plain])]
fn filter(bencher: Bencher<'_, '_>, packing: Packing) {
    let spec = Arc::new(FilterSpec::default());
    rewrite(bencher, packing, |trace| {
        Filter::new(spec.clone(), trace.files()[0].header.filetype).expect("nothing is asked for")
    });
}
