//! Fixtures, and the entries of files, member by member.

use quipu_drmemtrace::record::Entry;
use quipu_drmemtrace::trace::{self, DrmemTrace};
use quipu_drmemtrace::write::{EntryEdit, WriteOptions, rewrite_file};
use quipu_model::OpenOptions;
use quipu_model::transform::Silent;
use quipu_source::{Codec, Packer, Packing, Pool, Source, StreamOptions};
use std::io::Cursor;
use std::path::PathBuf;
use zerocopy::FromBytes;

pub fn fixtures() -> PathBuf {
    quipu_testkit::fixtures("drmemtrace")
}

/// Every folder of the fixtures that holds traces.
pub const TRACES: &[&str] = &[
    "aarch64",
    "allasm",
    "allasm.regdeps",
    "allasm.trim_timestamp",
    "as_traced",
    "chase-snappy",
    "func-trace",
    "legacy-for-record-filter",
    "mock_syscall",
    "small",
    "thr",
    "thr.core_sharded_kernel",
    "thr.kernel_injected",
    "threadsig.core_sharded",
    "threadsig.dcache_filter",
    "threadsig.regdeps",
    "threadsig.x64",
    "tiny.chunk1000",
    "tiny.dfiltered",
    "tiny.func",
    "tiny.gz",
    "tiny.ifiltered",
    "tiny.instronly",
    "tiny.lz4",
    "tiny.multiwin",
    "tiny.physical",
    "tiny.plain",
];

pub fn open(name: &str) -> (Source, DrmemTrace) {
    let mut source = Source::open(&fixtures().join(name)).unwrap();
    if name == "mock_syscall" || name == "small" {
        source = source.files().unwrap().remove(0);
    }
    let trace = trace::open(&source, &OpenOptions::default()).unwrap();
    (source, trace)
}

pub fn open_bytes(bytes: Vec<u8>) -> DrmemTrace {
    trace::open(&Source::from_bytes("memory", bytes), &OpenOptions::default()).unwrap()
}

/// Name and entries of each member.
pub type Members = Vec<(String, Vec<Entry>)>;

pub fn members(source: &Source) -> Members {
    let container = source.container().unwrap();
    assert!(container.damage().is_empty(), "{:?}", container.damage());
    let read = |(i, member): (usize, &quipu_source::Member)| {
        let mut stream = container.stream(i..i + 1, &StreamOptions::default()).unwrap();
        let (mut block, mut bytes) = (Vec::new(), Vec::new());
        while stream.next(&mut block).unwrap().is_some() {
            bytes.extend_from_slice(&block);
        }
        (member.name.clone(), <[Entry]>::ref_from_bytes(&bytes).unwrap().to_vec())
    };
    container.members().iter().enumerate().map(read).collect()
}

/// All entries of a file, across its members.
pub fn entries(source: &Source) -> Vec<Entry> {
    members(source).into_iter().flat_map(|(_, entries)| entries).collect()
}

/// The packing of a file.
pub fn packing_of(source: &Source) -> Packing {
    match source.container().unwrap().codec() {
        Codec::Zip => Packing::Zip,
        Codec::Gzip => Packing::Gzip,
        Codec::Lz4 => Packing::Lz4,
        Codec::Snappy => Packing::Snappy,
        Codec::Zstd => Packing::Zstd,
        _ => Packing::Plain,
    }
}

/// Rewrites one file into memory.
pub fn rewritten<E: EntryEdit>(trace: &DrmemTrace, shard: usize, edit: E, options: &WriteOptions) -> Source {
    let pool = Pool::new(2).unwrap();
    let packer = Packer::new(Cursor::new(Vec::new()), &pool, &options.pack);
    let (result, reading) = rewrite_file(trace, shard, packer, edit, options, &Silent).unwrap();
    assert!(reading.findings.is_empty(), "{reading:?}");
    let source = Source::from_bytes("written", result.out.into_inner());
    assert_eq!(result.written.entries, entries(&source).len() as u64, "entries are counted");
    source
}

/// Fails with a description of the first place where two lists differ.
pub fn assert_same(found: &[Entry], expected: &[Entry], what: &str) {
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    if let Some(at) = differs {
        let show = |entries: &[Entry]| {
            let near = at.saturating_sub(4)..entries.len().min(at + 5);
            entries[near]
                .iter()
                .map(|e| format!("    {:?} {} {:#x}", e.kind().name(), e.size, e.addr))
                .collect::<Vec<_>>()
        };
        panic!(
            "{what}: entry {at} differs\n  found\n{}\n  expected\n{}",
            show(found).join("\n"),
            show(expected).join("\n")
        );
    }
    assert_eq!(found.len(), expected.len(), "{what}: number of entries");
}
