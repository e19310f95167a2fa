//! Speed of decompression: libraries compared with each other, and whole streams.
//!
//! `cargo bench -p quipu-source` prints times and MB/s of inflated output. The data is a real trace from the repository, or
//! the one that `QUIPU_BENCH_TRACE` names. Figures are in docs/performance.md.

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use quipu_source::{Ahead, Source, StreamOptions};

fn main() {
    divan::main();
}

/// The trace that `QUIPU_BENCH_TRACE` names, or else a real one repeated.
static TRACE: LazyLock<Vec<u8>> = LazyLock::new(|| match std::env::var_os("QUIPU_BENCH_TRACE") {
    Some(path) => read_all(&Source::open(path.as_ref()).expect("the named trace opens"), &inline()),
    None => BUSY.repeat(10),
});

/// The threads of a real trace, 4 MiB.
static BUSY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/drmemtrace/threadsig.x64");
    let files = std::fs::read_dir(folder).expect("the fixture is there");
    let mut paths: Vec<_> = files.map(|file| file.expect("it can be listed").path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(".trace.zip"));
    paths.sort();
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend(read_all(&Source::open(&path).expect("it exists"), &inline()));
    }
    bytes.truncate(4 << 20);
    bytes
});

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(6));
    out.write_all(bytes).expect("memory takes all");
    out.finish().expect("memory takes all")
}

fn zip_of(bytes: &[u8], member_bytes: usize) -> Vec<u8> {
    let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    for (index, part) in bytes.chunks(member_bytes).enumerate() {
        out.start_file(format!("chunk.{index:08}"), options).expect("memory takes all");
        out.write_all(part).expect("memory takes all");
    }
    out.finish().expect("memory takes all").into_inner()
}

fn inline() -> StreamOptions {
    StreamOptions { ahead: Ahead::Inline, ..StreamOptions::default() }
}

fn ahead(workers: usize) -> StreamOptions {
    StreamOptions { ahead: Ahead::Thread { blocks: 8 }, workers, ..StreamOptions::default() }
}

fn read_all(source: &Source, options: &StreamOptions) -> Vec<u8> {
    let container = source.container().expect("sound input");
    let mut stream = container.stream(container.all_members(), options).expect("not a pipe");
    let (mut block, mut bytes) = (Vec::new(), Vec::new());
    while stream.next(&mut block).expect("sound input").is_some() {
        bytes.extend_from_slice(&block);
    }
    bytes
}

/// Streams a source and reads one byte of each block.
fn drain(source: &Source, options: &StreamOptions) -> u64 {
    let container = source.container().expect("sound input");
    let mut stream = container.stream(container.all_members(), options).expect("not a pipe");
    let (mut block, mut sum) = (Vec::new(), 0);
    while stream.next(&mut block).expect("sound input").is_some() {
        sum += u64::from(black_box(block.as_slice())[0]);
    }
    sum
}

/// Deflate libraries on one member in memory, without checksums.
mod deflate_library {
    use super::*;

    fn data(which: &str) -> &'static [u8] {
        if which == "busy" { &BUSY } else { &TRACE }
    }

    #[divan::bench(args = ["busy", "regular"])]
    fn libdeflate_whole(bencher: Bencher<'_, '_>, which: &str) {
        let bytes = data(which);
        let packed = deflate(bytes);
        let mut out = vec![0; bytes.len()];
        let mut library = libdeflater::Decompressor::new();
        bencher
            .counter(BytesCount::new(bytes.len()))
            .bench_local(|| library.deflate_decompress(&packed, &mut out));
    }

    #[divan::bench(args = ["busy", "regular"], consts = [32, 64, 192, 1024])]
    fn zlib_rs_blocks_kib<const KIB: usize>(bencher: Bencher<'_, '_>, which: &str) {
        let bytes = data(which);
        let packed = deflate(bytes);
        let mut out = vec![0; KIB << 10];
        let mut library = flate2::Decompress::new(false);
        bencher.counter(BytesCount::new(bytes.len())).bench_local(|| {
            library.reset(false);
            loop {
                let rest = &packed[library.total_in() as usize..];
                match library.decompress(rest, &mut out, flate2::FlushDecompress::None) {
                    Ok(flate2::Status::StreamEnd) => break,
                    Ok(_) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
}

/// Checksums over one block that fits into the cache.
mod checksum {
    use super::*;

    #[divan::bench]
    fn crc32_libdeflate(bencher: Bencher<'_, '_>) {
        let block = &BUSY[..192 << 10];
        bencher.counter(BytesCount::new(block.len())).bench(|| libdeflater::crc32(black_box(block)));
    }

    #[divan::bench]
    fn crc32c_crate(bencher: Bencher<'_, '_>) {
        let block = &BUSY[..192 << 10];
        bencher.counter(BytesCount::new(block.len())).bench(|| crc32c::crc32c(black_box(block)));
    }
}

/// Whole streams with checksums, from memory.
mod stream {
    use super::*;

    fn bench(bencher: Bencher<'_, '_>, packed: Vec<u8>, options: &StreamOptions) {
        let source = Source::from_bytes("memory", packed);
        bencher.counter(BytesCount::new(TRACE.len())).bench(|| drain(&source, options));
    }

    #[divan::bench]
    fn zip_one_member_inline(bencher: Bencher<'_, '_>) {
        bench(bencher, zip_of(&TRACE, usize::MAX), &inline());
    }

    #[divan::bench]
    fn zip_members_of_120_kb_inline(bencher: Bencher<'_, '_>) {
        bench(bencher, zip_of(&TRACE, 120_000), &inline());
    }

    #[divan::bench]
    fn zip_members_of_3_mb_inline(bencher: Bencher<'_, '_>) {
        bench(bencher, zip_of(&TRACE, 3_000_000), &inline());
    }

    #[divan::bench(args = [1, 2])]
    fn zip_members_of_120_kb_ahead(bencher: Bencher<'_, '_>, workers: usize) {
        bench(bencher, zip_of(&TRACE, 120_000), &ahead(workers));
    }

    #[divan::bench]
    fn gzip_inline(bencher: Bencher<'_, '_>) {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        out.write_all(&TRACE).expect("memory takes all");
        bench(bencher, out.finish().expect("memory takes all"), &inline());
    }

    #[divan::bench]
    fn lz4_inline(bencher: Bencher<'_, '_>) {
        let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
        out.write_all(&TRACE).expect("memory takes all");
        bench(bencher, out.finish().expect("memory takes all"), &inline());
    }

    #[divan::bench]
    fn snappy_inline(bencher: Bencher<'_, '_>) {
        let mut out = snap::write::FrameEncoder::new(Vec::new());
        out.write_all(&TRACE).expect("memory takes all");
        bench(bencher, out.into_inner().expect("memory takes all"), &inline());
    }

    #[divan::bench]
    fn zstd_inline(bencher: Bencher<'_, '_>) {
        bench(bencher, zstd::bulk::compress(&TRACE, 3).expect("memory takes all"), &inline());
    }
}

/// A plain file in the page cache, 16 times as large as the trace.
mod plain_file {
    use super::*;

    fn bench(bencher: Bencher<'_, '_>, written: SystemTime) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path: PathBuf = folder.path().join("plain");
        let mut file = std::fs::File::create(&path).expect("a temporary file");
        for _ in 0..16 {
            file.write_all(&TRACE).expect("room for a temporary file");
        }
        file.set_modified(written).expect("our own file");
        let source = Source::open(&path).expect("it was just written");
        bencher.counter(BytesCount::new(TRACE.len() * 16)).bench(|| drain(&source, &inline()));
    }

    /// Written just now, so it is not mapped.
    #[divan::bench(max_time = 1)]
    fn by_reads(bencher: Bencher<'_, '_>) {
        bench(bencher, SystemTime::now() + Duration::from_secs(3600));
    }

    /// Written long ago, so it is mapped.
    #[divan::bench(max_time = 1)]
    fn by_windows_of_a_map(bencher: Bencher<'_, '_>) {
        bench(bencher, SystemTime::now() - Duration::from_secs(3600));
    }
}
