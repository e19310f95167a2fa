//! What is written reads back as the same.

// The helpers of a test may panic as the test may.
#![allow(clippy::unwrap_used)]

mod common;

use common::{dump, options};
use quipu_apitrace::APITRACE;
use quipu_apitrace::encode::{self, Encoder};
use quipu_apitrace::pack::StreamWriter;
use quipu_apitrace::trace::{self, Packing};
use quipu_apitrace::write::{RepackOptions, repack};
use quipu_model::{Columns, Format, OpenOptions, Paint, Reader, Scan, ShardId};
use quipu_source::Source;

const PACKINGS: [Packing; 6] =
    [Packing::Snappy, Packing::SeekableZstd, Packing::Zstd, Packing::Gzip, Packing::Brotli, Packing::Plain];

fn text(source: &Source, settings: &[(String, String)]) -> Vec<u8> {
    let trace = APITRACE.open(source, &OpenOptions::default()).unwrap();
    dump(&*trace, &options(true, settings), &Paint::PLAIN)
}

/// All calls, written anew as a stream of version 6.
fn encoded(source: &Source) -> Vec<u8> {
    let trace = trace::open(source, &OpenOptions::default()).unwrap();
    let mut out = Vec::new();
    encode::header(trace.header(), &mut out);
    let mut encoder = Encoder::default();
    let mut reader = quipu_apitrace::reader::CallReader::new(
        trace.container(),
        &Scan::new(ShardId(0)).columns(Columns::CALL_VALUES),
    )
    .unwrap();
    while let Some(batch) = reader.read().unwrap() {
        for call in &batch.values.calls {
            encoder.call(call, &batch.values, &batch.types, &mut out);
        }
    }
    out
}

#[test]
fn every_stream_comes_back_from_every_container_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    for name in common::traces() {
        let trace = trace::open(&common::source(&name), &OpenOptions::default()).unwrap();
        let stream = common::stream(&name);
        for packing in PACKINGS {
            if stream.is_empty() && packing != Packing::Snappy {
                // Nothing says of an empty stream that it is a trace.
                continue;
            }
            let path = folder.path().join(format!("{name}.{packing:?}"));
            let level = Some(1);
            repack(&trace, &path, &RepackOptions { packing, level, replace: false }).unwrap();
            let again = trace::open(&Source::open(&path).unwrap(), &OpenOptions::default()).unwrap();
            assert_eq!(again.packing(), packing, "{name}");
            let container = again.container();
            let mut blocks = container.stream(container.all_members(), &Default::default()).unwrap();
            let (mut block, mut bytes) = (Vec::new(), Vec::new());
            while blocks.next(&mut block).unwrap().is_some() {
                bytes.extend_from_slice(&block);
            }
            assert!(bytes == stream, "{name} in {packing:?}");
        }
    }
}

#[test]
fn a_file_is_replaced_only_if_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    std::fs::write(&path, "precious").unwrap();
    let trace = trace::open(&common::source("tri"), &OpenOptions::default()).unwrap();
    let options = RepackOptions { packing: Packing::Gzip, level: None, replace: false };
    assert!(repack(&trace, &path, &options).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    repack(&trace, &path, &RepackOptions { replace: true, ..options }).unwrap();
    assert_ne!(std::fs::read(&path).unwrap(), b"precious");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn calls_written_anew_print_the_same() {
    for name in common::traces() {
        if name == "header-only-2-bytes" {
            continue;
        }
        let source = common::source(&name);
        // With several threads, the numbers become those of the order of completion.
        let settings = [("call-nos".to_owned(), "no".to_owned()), ("strings".to_owned(), "whole".to_owned())];
        let again = Source::from_bytes("again", encoded(&source));
        let (before, after) = (text(&source, &settings), text(&again, &settings));
        common::assert_same(&after, &before, &name);
    }
}

#[test]
fn writing_twice_changes_nothing() {
    for name in common::traces() {
        if name == "header-only-2-bytes" {
            continue;
        }
        let once = encoded(&common::source(&name));
        let twice = encoded(&Source::from_bytes("once", once.clone()));
        assert!(once == twice, "{name}");
    }
}

#[test]
fn signatures_are_written_once() {
    let stream = encoded(&common::source("kinds"));
    let count = |text: &[u8]| stream.windows(text.len()).filter(|bytes| *bytes == text).count();
    assert_eq!(count(b"GL_TRIANGLE_STRIP_ADJACENCY"), 1);
    assert_eq!(count(b"glXChooseVisual"), 1);
}

#[test]
fn a_large_stream_is_cut_into_blocks() {
    let bytes: Vec<u8> = (0..5_000_000u32).map(|i| (i / 3) as u8).collect();
    let mut writer = StreamWriter::new(Vec::new(), Packing::SeekableZstd, None).unwrap();
    bytes.chunks(70_001).for_each(|part| writer.write(part).unwrap());
    let packed = writer.finish().unwrap();
    // Three frames: 3 * 8 + 17 bytes.
    assert_eq!(&packed[packed.len() - 9..], [3, 0, 0, 0, 0, 0xb1, 0xea, 0x92, 0x8f]);
    assert_eq!(zstd::stream::decode_all(&packed[..]).unwrap(), bytes);
}
