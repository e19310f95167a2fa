//! Throughput in bytes per second: writing and reading plain rows, compared with copying and with the bare codec; searching
//! for the next frame; opening large files.
//!
//! `cargo bench -p quipu-stream`. With `-- ratios` it prints each time as a share of the bare codec's, measured alternately,
//! so that load on the machine cancels out.

use divan::Bencher;
use divan::counter::BytesCount;
use quipu_stream::batch::Batch;
use quipu_stream::codec::Codec;
use quipu_stream::decode::{Body, Decoder};
use quipu_stream::frame::{Header, encoding, kind};
use quipu_stream::index::Directory;
use quipu_stream::input::FileInput;
use quipu_stream::meta::Metadata;
use quipu_stream::reader::StreamReader;
use quipu_stream::record::Record;
use quipu_stream::scan::find_header;
use quipu_stream::write::{Options, Writer};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::sync::Arc;

fn main() {
    if std::env::args().any(|arg| arg == "ratios") {
        return ratios();
    }
    divan::main();
}

/// Times two workloads alternately and prints the median ratio with its quartiles.
fn ratio(name: &str, mut bare: impl FnMut(), mut whole: impl FnMut()) {
    let time = |work: &mut dyn FnMut()| {
        let start = std::time::Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    let mut all: Vec<f64> = (0..200).map(|_| time(&mut bare) / time(&mut whole)).collect();
    all.sort_by(f64::total_cmp);
    println!("{name}: {:.3} of the bare codec; quarters {:.3} and {:.3}", all[100], all[50], all[150]);
}

fn ratios() {
    let payload = payload();
    let mut zstd = zstd::bulk::Compressor::new(1).expect("a level");
    let mut out = Vec::with_capacity(1 << 21);
    let frames: Vec<Vec<u8>> =
        payload.chunks(960 << 10).map(|frame| zstd.compress(frame).expect("room enough")).collect();
    let mut unzstd = zstd::bulk::Decompressor::new().expect("a decompressor");
    let mut back = Vec::with_capacity(1 << 21);
    let bytes = write_to(Vec::new(), codec("zstd1")).into_inner().expect("the only writer");
    let bare = || {
        for frame in &frames {
            back.clear();
            unzstd.decompress_to_buffer(frame, &mut back).expect("room enough");
        }
    };
    ratio("reading", bare, || assert_eq!(read(&bytes), ROWS as usize));
    let bare = || {
        for frame in payload.chunks(960 << 10) {
            out.clear();
            zstd.compress_to_buffer(frame, &mut out).expect("room enough");
        }
    };
    ratio("writing", bare, || drop(write_to(Nowhere, codec("zstd1"))));
}

/// Reads a stream to its end and returns the number of rows.
fn read(bytes: &[u8]) -> usize {
    let mut reader = StreamReader::new(bytes);
    let mut n = 0;
    while let Some(part) = reader.next_part().expect("memory can be read") {
        if let quipu_stream::reader::Content::Rows(batch) = part.content {
            n += batch.n_rows();
        }
    }
    n
}

#[derive(Record)]
struct Access {
    addr: u64,
    pc: u64,
    size: u32,
    kind: u32,
}

/// Rows of 40 bytes each: 64 MB in all, so that the one-time setup of a reader or writer does not count.
const ROWS: u64 = 1_600_000;
const BYTES: u64 = 40 * ROWS;

/// A writer that discards its input.
#[derive(Debug)]
struct Nowhere;

impl Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One row of a loop with some irregularity, as real programs have.
fn row(n: u64) -> Access {
    let jump = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 50;
    Access {
        addr: 0x7F00_0000_0000 + 8 * n + (jump & 0xFFF8),
        pc: 0x40_1000 + 4 * (n % 50),
        size: 8,
        kind: n.is_multiple_of(3).into(),
    }
}

fn write_to<W: Write>(out: W, codec: Codec) -> Writer<W> {
    let writer = Writer::new(out, Options { codec, ..Options::new("bench") });
    let access = writer.schema_of::<Access>().expect("a small schema");
    let mut stream = writer.stream(0).expect("a stream");
    for n in 0..ROWS {
        stream.write(access, n, &row(n)).expect("memory takes it");
    }
    stream.finish().expect("memory takes it");
    writer.finish().expect("memory takes it");
    writer
}

const CODECS: [&str; 3] = ["none", "lz4", "zstd1"];

fn codec(name: &str) -> Codec {
    match name {
        "none" => Codec::None,
        "lz4" => Codec::Lz4,
        _ => Codec::Zstd(1),
    }
}

#[divan::bench(args = CODECS, sample_count = 30)]
fn write_rows(bencher: Bencher<'_, '_>, name: &str) {
    bencher.counter(BytesCount::new(BYTES)).bench_local(|| write_to(Nowhere, codec(name)));
}

/// Concatenated payloads of a stream of these rows.
fn payload() -> Vec<u8> {
    let mut payload = Vec::new();
    for n in 0..ROWS {
        let Access { addr, pc, size, kind } = row(n);
        payload.extend_from_slice(&(16_u64 | 40 << 32).to_le_bytes());
        [n, addr, pc].iter().for_each(|word| payload.extend_from_slice(&word.to_le_bytes()));
        payload.extend_from_slice(&size.to_le_bytes());
        payload.extend_from_slice(&kind.to_le_bytes());
    }
    payload
}

#[divan::bench(sample_count = 30)]
fn bare_zstd1(bencher: Bencher<'_, '_>) {
    let payload = payload();
    let mut zstd = zstd::bulk::Compressor::new(1).expect("a level");
    let mut out = Vec::with_capacity(1 << 21);
    bencher.counter(BytesCount::new(BYTES)).bench_local(|| {
        for frame in payload.chunks(960 << 10) {
            out.clear();
            zstd.compress_to_buffer(frame, &mut out).expect("room enough");
        }
    });
}

#[divan::bench(sample_count = 30)]
fn bare_unzstd1(bencher: Bencher<'_, '_>) {
    let payload = payload();
    let mut zstd = zstd::bulk::Compressor::new(1).expect("a level");
    let frames: Vec<Vec<u8>> =
        payload.chunks(960 << 10).map(|frame| zstd.compress(frame).expect("room enough")).collect();
    let mut back = zstd::bulk::Decompressor::new().expect("a decompressor");
    let mut out = Vec::with_capacity(1 << 21);
    bencher.counter(BytesCount::new(BYTES)).bench_local(|| {
        for frame in &frames {
            out.clear();
            back.decompress_to_buffer(frame, &mut out).expect("room enough");
        }
    });
}

#[divan::bench(sample_count = 30)]
fn copy(bencher: Bencher<'_, '_>) {
    let payload = payload();
    let mut out = vec![0; payload.len()];
    bencher.counter(BytesCount::new(BYTES)).bench_local(|| out.copy_from_slice(divan::black_box(&payload)));
}

/// Decodes plain rows into columns, without frames.
#[divan::bench(sample_count = 30)]
fn decode_plain_rows(bencher: Bencher<'_, '_>) {
    let payload = payload();
    let writer = write_to(Vec::new(), Codec::None);
    let mut metadata = Arc::new(writer.metadata());
    let header =
        Header { kind: kind::DATA, encoding: encoding::PLAIN, records: ROWS as u32, ..Header::default() };
    let mut batch = Batch::new();
    bencher.counter(BytesCount::new(BYTES)).bench_local(|| {
        for frame in payload.chunks(40 * 24_576) {
            let body = Body { header: &header, payload: frame, is_open: false, tag: 0 };
            Decoder::new().next(&body, &mut metadata, &mut batch, &mut Vec::new());
        }
        batch.n_rows()
    });
}

/// Reads a whole stream from memory: both scans, checksums, codec, columns.
#[divan::bench(args = CODECS, sample_count = 30)]
fn read_stream(bencher: Bencher<'_, '_>, name: &str) {
    let bytes = write_to(Vec::new(), codec(name)).into_inner().expect("the only writer");
    bencher.counter(BytesCount::new(BYTES)).bench_local(|| read(&bytes));
}

#[divan::bench(sample_count = 30)]
fn search_for_a_frame(bencher: Bencher<'_, '_>) {
    let mut state = 1_u64;
    let bytes: Vec<u8> = (0..32 << 17)
        .flat_map(|_| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (state ^ state >> 31).to_le_bytes()
        })
        .collect();
    bencher
        .counter(BytesCount::new(bytes.len()))
        .bench_local(|| find_header(&mut &bytes[..], 1).expect("memory can be read"));
}

/// A sparse file of 100 GB with an index after every 1024 frames; the frames between indexes are holes.
fn large_file() -> (File, u64) {
    let mut file = tempfile::tempfile().expect("a file");
    let frame_len = 1_000_000_u64 / 8 * 8 + 104;
    // One real frame at the start. The backward walk ends at the first index, which names this frame first.
    let mut start = Vec::new();
    let mut header = Header { kind: kind::PAD, ..Header::default() };
    quipu_stream::frame::write_frame(&mut header, 0, &mut [], &mut start).expect("an empty frame");
    file.write_all(&start).expect("room");
    let start_len = start.len() as u64;
    let mut at = start_len;
    let mut back = 0;
    let mut seq = 1_u64;
    for part in 0..100 {
        let first = at;
        at += 1024 * frame_len;
        let mut frames: Vec<(u64, u64, u8)> =
            (0..1024).map(|n| (first + n * frame_len, frame_len, kind::DATA)).collect();
        if part == 0 {
            frames.insert(0, (0, start_len, kind::PAD));
        }
        let mut payload = Vec::new();
        payload.extend_from_slice(&(frames.len() as u64).to_le_bytes());
        payload.extend_from_slice(&u64::to_le_bytes(back));
        for (offset, len, kind) in frames {
            payload.extend_from_slice(&(at - offset).to_le_bytes());
            payload.extend_from_slice(&(len as u32).to_le_bytes());
            payload.extend_from_slice(&[kind, 0, 16, 0]);
            [7, 0, seq, seq, seq]
                .iter()
                .for_each(|word: &u64| payload.extend_from_slice(&word.to_le_bytes()));
            seq += 1;
        }
        let mut header = Header { kind: kind::INDEX, encoding: encoding::INDEX, seq, ..Header::default() };
        let mut frame = Vec::new();
        let raw_len = payload.len() as u32;
        quipu_stream::frame::write_frame(&mut header, raw_len, &mut payload, &mut frame)
            .expect("an index within the limits");
        file.seek(io::SeekFrom::Start(at)).expect("a sparse file");
        file.write_all(&frame).expect("room");
        seq += 1;
        back = 1024 * frame_len + frame.len() as u64;
        at += frame.len() as u64;
    }
    (file, at)
}

#[divan::bench(sample_count = 20)]
fn open_100_gigabytes(bencher: Bencher<'_, '_>) {
    let (file, size) = large_file();
    let file = Arc::new(file);
    bencher.bench_local(|| {
        let mut input = FileInput::new(Arc::clone(&file)).expect("a file");
        let directory = Directory::read(&mut input, size).expect("the file can be read");
        directory.expect("an index that leads to the first frame")
    });
}

/// Metadata of an epoch with a thousand types and schemas.
#[divan::bench(sample_count = 20)]
fn resolve_a_thousand_schemas(bencher: Bencher<'_, '_>) {
    let writer = Writer::new(Vec::new(), Options::new("bench"));
    for n in 0..1000 {
        let spec = quipu_stream::spec::SchemaSpec::new(&format!("schema {n}"));
        writer.schema(&spec.field("a", quipu_stream::spec::Ty::Fixed(n + 1))).expect("room");
    }
    bencher.bench_local(|| -> Metadata { writer.metadata() });
}
