//! A file with one wrong bit near its beginning is still recognised, in every container, and the damage is located.

use quipu::FORMATS;
use quipu::model::{ErrorKind, OpenOptions, Scan, ShardId};
use quipu::source::{Codec, PackOptions, Packer, Packing, Pool, Source};
use quipu_testkit::{Depth, Reading, ReadingOptions, fixtures};
use std::collections::BTreeSet;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of bytes in which every bit is flipped.
const FLIPPED_BYTES: usize = 32;

/// A trace in a container.
struct Sample {
    name: &'static str,
    format: &'static str,
    codec: Codec,
    bytes: Vec<u8>,
    /// Whether the container has checksums, so that a wrong bit in the data is noticed.
    has_checksums: bool,
}

fn samples() -> Vec<Sample> {
    let file = |name: &str| std::fs::read(fixtures("").join(name)).unwrap();
    let small = file("drmemtrace/small/drmemtrace.small.x64.trace");
    let structs = file("cacheray/structs.trace");
    let dtrace = file("dtrace/linux/printf_str/raw.jsonl");
    let sample = |name, format, codec, bytes| Sample {
        name,
        format,
        codec,
        bytes,
        has_checksums: !matches!(codec, Codec::Plain | Codec::SnappyChunks),
    };
    vec![
        sample("drmemtrace", "drmemtrace", Codec::Plain, small.clone()),
        sample("drmemtrace in zip", "drmemtrace", Codec::Zip, packed(&small, Packing::Zip)),
        sample("drmemtrace in gzip", "drmemtrace", Codec::Gzip, packed(&small, Packing::Gzip)),
        sample("drmemtrace in LZ4", "drmemtrace", Codec::Lz4, packed(&small, Packing::Lz4)),
        sample("drmemtrace in snappy", "drmemtrace", Codec::Snappy, packed(&small, Packing::Snappy)),
        sample("drmemtrace in zstd", "drmemtrace", Codec::Zstd, packed(&small, Packing::Zstd)),
        sample("apitrace", "apitrace", Codec::SnappyChunks, file("apitrace/kinds.trace")),
        sample("apitrace in gzip", "apitrace", Codec::Gzip, file("apitrace/kinds.gzip.trace")),
        sample("apitrace in zstd", "apitrace", Codec::Zstd, file("apitrace/kinds.zstd.trace")),
        sample("DTrace in gzip", "dtrace", Codec::Gzip, packed(&dtrace, Packing::Gzip)),
        sample("Cacheray in gzip", "cacheray", Codec::Gzip, packed(&structs, Packing::Gzip)),
    ]
}

fn packed(bytes: &[u8], packing: Packing) -> Vec<u8> {
    let pool = Pool::new(1).unwrap();
    let mut packer = Packer::new(Cursor::new(Vec::new()), &pool, &PackOptions::new(packing));
    packer.member("chunk.00000000").unwrap();
    packer.write(bytes).unwrap();
    packer.finish().unwrap().0.into_inner()
}

/// Reads a trace: its format, the number of records, and whether anything is reported.
fn read(source: &Source) -> quipu::model::Result<(String, usize, bool)> {
    let trace = quipu::open(source, &OpenOptions::default())?;
    let format = trace.meta().format.clone().into_owned();
    let scan = Scan::new(ShardId(0));
    let options = ReadingOptions { scan, max_records: 1 << 20, depth: Depth::Lenses };
    let reading = Reading::of(&*trace, &options)?;
    let complains = reading.complains() || !trace.meta().findings.is_empty();
    Ok((format, reading.records.len(), complains))
}

/// The problem with recognising a damaged sample; `None` if there is none.
fn misnamed(sample: &Sample, name: &str, bit: usize) -> Option<String> {
    let mut bytes = sample.bytes.clone();
    bytes[bit / 8] ^= 1 << (bit % 8);
    let whole = read(&Source::from_bytes("file", sample.bytes.clone())).unwrap();
    match read(&Source::from_bytes(name, bytes)) {
        Ok((format, ..)) if format != sample.format => Some(format!("called {format}")),
        // Some fields, such as times, may have any value.
        Ok((_, n_records, false)) if sample.has_checksums && n_records != whole.1 => {
            Some(format!("`{n_records}` records of `{}`, and nothing is reported", whole.1))
        }
        Ok(_) => None,
        Err(error) => {
            use ErrorKind::{Damaged, Limit, Malformed, Truncated};
            let is_damage = matches!(error.kind(), Damaged | Malformed | Truncated | Limit);
            let is_refused = error.kind() == ErrorKind::Unsupported && error.message().contains("needs a");
            let has_place = error.place().file.is_some() && error.place().offset.is_some();
            let says_codec = error.message().contains(sample.codec.name());
            // A wrong bit in the version looks like a newer version.
            let is_newer =
                sample.format == "apitrace" && error.message().contains("is newer than this program");
            let is_well = (is_damage || is_refused) && says_codec || is_newer;
            (!is_well || !has_place).then(|| format!("{:?}: {error}", error.kind()))
        }
    }
}

#[test]
fn a_file_with_a_wrong_bit_near_its_front_is_called_what_it_is() {
    let mut wrong = Vec::new();
    // Names do not count as content: one that looks like another format's changes nothing.
    for name in ["file", "drmemtrace.app.1.trace.zip"] {
        for sample in samples() {
            let bits = 0..8 * FLIPPED_BYTES.min(sample.bytes.len());
            wrong.extend(bits.filter_map(|bit| {
                let what = misnamed(&sample, name, bit)?;
                Some(format!("{} as `{name}`, byte {} bit {}: {what}", sample.name, bit / 8, bit % 8))
            }));
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_name_makes_no_trace_of_other_bytes() {
    for name in ["drmemtrace.app.1.trace.zip", "app.memtrace.gz", "app.x64"] {
        for bytes in [&b""[..], b"short", b"#!/bin/sh\nexit 0\n", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 7]] {
            let source = Source::from_bytes(name, bytes);
            let claims: Vec<&str> = FORMATS
                .iter()
                .filter(|format| format.probe(&source) != quipu::model::Confidence::No)
                .map(|format| format.info().name)
                .collect();
            assert!(claims.is_empty(), "{name}: {}: {claims:?}", bytes.escape_ascii());
        }
    }
}

#[test]
fn a_version_that_no_trace_has_is_reported_when_a_trace_is_opened() {
    let path = fixtures("drmemtrace/small/drmemtrace.small.x64.trace");
    let whole = std::fs::read(path).unwrap();
    for (version, shown, rules) in [
        (1u64, Some("1"), &[][..]),
        (0, None, &["drmemtrace/no-header"]),
        (8, Some("8"), &["drmemtrace/newer-version"]),
        (1 << 62 | 7, None, &["drmemtrace/no-header"]),
    ] {
        let mut bytes = whole.clone();
        bytes[4..12].copy_from_slice(&version.to_le_bytes());
        let trace = quipu::open(&Source::from_bytes("file", bytes), &OpenOptions::default()).unwrap();
        let meta = trace.meta();
        assert_eq!(meta.version.as_deref(), shown, "{version}");
        assert_eq!(meta.findings.iter().map(|found| &*found.rule).collect::<Vec<_>>(), rules, "{version}");
    }
}

/// Collects the files in a folder and below it.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn nothing_of_a_trace_stays_in_memory_once_it_is_closed() {
    let mut paths = Vec::new();
    files(&fixtures(""), &mut paths);
    let mut formats = BTreeSet::new();
    for path in paths {
        let bytes: Arc<[u8]> = std::fs::read(&path).unwrap().into();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Ok(trace) = quipu::open(&Source::from_bytes(name, bytes.clone()), &OpenOptions::default()) else {
            continue;
        };
        formats.insert(trace.meta().format.clone());
        if let Some(shard) = trace.shards().first() {
            let mut reader = trace.scan(&Scan::new(shard.id)).unwrap();
            let _ = reader.read();
        }
        drop(trace);
        // Threads that inflate ahead may not have ended yet.
        let until = Instant::now() + Duration::from_secs(20);
        while Arc::strong_count(&bytes) > 1 && Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(Arc::strong_count(&bytes), 1, "{}", path.display());
    }
    assert_eq!(formats.len(), FORMATS.len(), "{formats:?}");
}
