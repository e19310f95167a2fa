//! Written traces read back as the same.

// The helpers of a test may panic as the test may.

use crate::common;
use crate::common::{dump, options};
use crate::fuzzing;
use quipu_apitrace::APITRACE;
use quipu_apitrace::decode::Header;
use quipu_apitrace::edits::rewrite;
use quipu_apitrace::edits::trim::{Chooser, Selection};
use quipu_apitrace::encode::{self, Encoder, Incomplete};
use quipu_apitrace::pack::StreamWriter;
use quipu_apitrace::record::{FAKE, INCOMPLETE};
use quipu_apitrace::survey::{Frames, survey};
use quipu_apitrace::trace::{self, Packing};
use quipu_apitrace::write::{TraceWriter, WriteOptions, repack};
use quipu_model::transform::Silent;
use quipu_model::values::{
    Arg, Call, Frame, FunctionType, Kind, NO_NODE, NO_TYPE, NamedNumbers, Node, StructType, Type,
};
use quipu_model::{Columns, Damaged, Format, OpenOptions, Paint, Reader, Scan, ShardId, Types, Values};
use quipu_source::Source;
use quipu_testkit::Rng;
use std::sync::Arc;

const PACKINGS: [Packing; 6] =
    [Packing::Snappy, Packing::SeekableZstd, Packing::Zstd, Packing::Gzip, Packing::Brotli, Packing::Plain];

fn text(source: &Source, settings: &[(String, String)]) -> Vec<u8> {
    let trace = APITRACE.open(source, &OpenOptions::default()).unwrap();
    dump(&*trace, &options(true, settings), &Paint::PLAIN)
}

/// All calls, encoded again as a stream of version 6.
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
            if stream.is_empty() && matches!(packing, Packing::Plain | Packing::Brotli) {
                // An empty stream cannot be recognised as a trace.
                continue;
            }
            let path = folder.path().join(format!("{name}.{packing:?}"));
            let level = Some(1);
            // One of them is truncated, and copied up to its end.
            let options = WriteOptions { packing, level, damaged: Damaged::Keep, ..WriteOptions::USUAL };
            repack(&trace, &path, &options, &Silent).unwrap();
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
fn whoever_cannot_copy_a_damaged_stream_is_told_who_can_save_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = common::bytes("kinds.zstd");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 40].fill(0xa5);
    let trace = trace::open(&Source::from_bytes("bad", bytes), &OpenOptions::default()).unwrap();
    let error = repack(&trace, &folder.path().join("out"), &WriteOptions::USUAL, &Silent).unwrap_err();
    let advice = "`quipu recover bad -o FILE` writes what can be saved of it";
    assert!(error.advice().is_some_and(|said| said.ends_with(advice)), "{error}: {:?}", error.advice());
}

#[test]
fn a_file_is_replaced_only_if_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    std::fs::write(&path, "precious").unwrap();
    let trace = trace::open(&common::source("tri"), &OpenOptions::default()).unwrap();
    let options = WriteOptions { packing: Packing::Gzip, ..WriteOptions::USUAL };
    assert!(repack(&trace, &path, &options, &Silent).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    repack(&trace, &path, &WriteOptions { replace: true, ..options }, &Silent).unwrap();
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
        // With several threads, calls are renumbered in the order of completion.
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

/// Types of all kinds, and calls with values of all kinds, some deeply nested or unusual.
fn random_calls(rng: &mut Rng) -> (Values, Types) {
    let mut types = Types::default();
    let name = |rng: &mut Rng| -> Vec<u8> { (0..rng.below(9)).map(|_| rng.next() as u8).collect() };
    let number = |rng: &mut Rng| rng.next() >> rng.below(64);
    let n_types = 3;
    for id in 0..n_types {
        let names: Vec<_> = (0..rng.below(5)).map(|_| (name(rng), number(rng))).collect();
        let members: Vec<_> = (0..rng.below(4)).map(|_| name(rng)).collect();
        let id = id * (1 + rng.below(1 << 40));
        for ty in [
            Type::Function(FunctionType {
                id,
                name: format!("vg{id:x}").into_bytes(),
                args: members.clone(),
                flags: 0,
            }),
            Type::Struct(StructType { id, name: name(rng), members }),
            Type::Enum(NamedNumbers::new(id, names.clone())),
            Type::Flags(NamedNumbers::new(id, names)),
            Type::Frame(Frame { id, module: Some(name(rng)), line: Some(number(rng)), ..Frame::default() }),
        ] {
            types.push(Arc::new(ty));
        }
    }
    let of_kind = |rng: &mut Rng, kind: u64| (rng.below(n_types) * 5 + kind) as u32;
    let mut values = Values::default();
    for number in 0..40 {
        let first_arg = values.args.len() as u32;
        for index in 0..rng.below(5) as u32 {
            let node = values.nodes.len() as u32;
            random_value(rng, &types, &mut values, 0);
            values.args.push(Arg { index: index * 2, node });
        }
        let has_result = rng.below(2) == 0;
        let result = if has_result { values.nodes.len() as u32 } else { NO_NODE };
        if has_result {
            random_value(rng, &types, &mut values, 0);
        }
        let first_frame = values.frames.len() as u32;
        let has_stack = rng.below(3) == 0;
        if has_stack {
            let n_frames = rng.below(3);
            (0..n_frames).for_each(|_| values.frames.push(of_kind(rng, 4)));
        }
        // Calls that never return come last, as a reader delivers them.
        let is_incomplete = number > 35;
        let stored_flags = rng.below(4);
        values.calls.push(Call {
            number,
            thread: rng.below(3) << rng.below(40),
            function: of_kind(rng, 0),
            flags: stored_flags as u32 & FAKE | if is_incomplete { INCOMPLETE } else { 0 },
            stored_flags,
            args: (first_arg, values.args.len() as u32),
            result: if is_incomplete { NO_NODE } else { result },
            stack: (first_frame, values.frames.len() as u32),
            has_stack,
            stream_bytes: 0,
        });
    }
    (values, types)
}

fn random_value(rng: &mut Rng, types: &Types, values: &mut Values, depth: u32) {
    let number = rng.next() >> rng.below(64);
    let bytes = |values: &mut Values, bytes: Vec<u8>, kind| {
        let payload = Node::join(values.bytes.len() as u32, bytes.len() as u32);
        values.bytes.extend(bytes);
        values.nodes.push(Node { kind, ty: NO_TYPE, payload });
    };
    let n_kinds = if depth < 4 { 16 } else { 13 };
    let kind = rng.below(n_kinds);
    let ty = |rng: &mut Rng, kind: u64| (rng.below(types.len() as u64 / 5) * 5 + kind) as u32;
    match kind {
        0 => values.nodes.push(Node::scalar(Kind::Null, 0)),
        1 => values.nodes.push(Node::scalar(Kind::False, 0)),
        2 => values.nodes.push(Node::scalar(Kind::True, 0)),
        3 => values.nodes.push(Node::scalar(Kind::Negative, number)),
        4 => values.nodes.push(Node::scalar(Kind::Unsigned, number)),
        5 => values.nodes.push(Node::scalar(Kind::Float, number & 0xffff_ffff)),
        6 => values.nodes.push(Node::scalar(Kind::Double, number)),
        7 => values.nodes.push(Node::scalar(Kind::Pointer, number)),
        8 | 9 => {
            let content = (0..rng.below(20)).map(|_| rng.next() as u8).collect();
            bytes(values, content, if kind == 8 { Kind::Text } else { Kind::Blob });
        }
        10 => {
            let units =
                (0..rng.below(9)).flat_map(|_| (rng.next() as u32 >> rng.below(32)).to_le_bytes()).collect();
            bytes(values, units, Kind::Wide);
        }
        11 => {
            let ty = ty(rng, 2);
            values.nodes.push(Node { kind: Kind::Enum, ty, payload: number });
        }
        12 => {
            let ty = ty(rng, 3);
            values.nodes.push(Node { kind: Kind::Flags, ty, payload: number });
        }
        _ => {
            let (kind, ty, n_parts) = match kind {
                13 => (Kind::Array, NO_TYPE, rng.below(4)),
                14 => (Kind::Pair, NO_TYPE, 2),
                _ => {
                    let ty = ty(rng, 1);
                    let Some(Type::Struct(structure)) = types.get(ty) else { panic!("no structure") };
                    (Kind::Struct, ty, structure.members.len() as u64)
                }
            };
            let head = values.nodes.len();
            values.nodes.push(Node { kind, ty, payload: 0 });
            (0..n_parts).for_each(|_| random_value(rng, types, values, depth + 1));
            values.nodes[head].payload = Node::join(n_parts as u32, values.nodes.len() as u32);
        }
    }
}

#[test]
fn random_calls_are_read_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let (values, types) = random_calls(&mut rng);
        let packing = PACKINGS[seed as usize % PACKINGS.len()];
        let path = folder.path().join(format!("{seed}.trace"));
        let options = WriteOptions { packing, level: Some(1), ..WriteOptions::USUAL };
        // A property identifies the stream as a trace, whatever the names of its functions.
        let header =
            Header { version: 6, semantic_version: 5, properties: vec![(b"a".to_vec(), b"b".to_vec())] };
        let mut writer = TraceWriter::create(&path, &header, &options).unwrap();
        values.calls.iter().for_each(|call| writer.call(call, &values, &types).unwrap());
        assert_eq!(writer.finish().unwrap().calls, 40);
        let trace = trace::open(&Source::open(&path).unwrap(), &OpenOptions::default()).unwrap();
        assert_eq!(trace.header(), &header);
        let scan = Scan::new(ShardId(0)).columns(Columns::CALL_VALUES);
        let mut reader = quipu_apitrace::reader::CallReader::new(trace.container(), &scan).unwrap();
        let mut read = Vec::new();
        while let Some(batch) = reader.read().unwrap() {
            for call in &batch.values.calls {
                assert_eq!(call.number, read.len() as u64, "seed {seed}");
                read.push(fuzzing::shown(call, &batch.values, &batch.types));
            }
        }
        let written: Vec<_> = values.calls.iter().map(|call| fuzzing::shown(call, &values, &types)).collect();
        assert_eq!(read, written, "seed {seed}");
        if seed < 60 {
            fuzzing::same_text(&trace);
        }
    }
}

#[test]
fn all_calls_of_every_trace_are_read_as_they_were_written() {
    for name in common::traces() {
        fuzzing::write(&common::bytes(&name));
    }
}

#[test]
fn an_unreturned_call_returns_only_if_asked_for() {
    for (incomplete, n_incomplete) in [(Incomplete::Kept, 1), (Incomplete::Completed, 0)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let trace = trace::open(&common::source("incomplete-call"), &OpenOptions::default()).unwrap();
        let options = WriteOptions { incomplete, ..WriteOptions::USUAL };
        let mut all = Chooser::new(Selection::all());
        rewrite(&trace, trace.header(), &path, &options, &mut all, &Silent).unwrap();
        let again = trace::open(&Source::open(&path).unwrap(), &OpenOptions::default()).unwrap();
        let (survey, done) = survey(again.container(), Frames::Counted, &|| false);
        done.unwrap();
        assert_eq!((survey.calls, survey.incomplete), (8, n_incomplete), "{incomplete:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_link_stays_and_what_it_leads_to_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link, lost) =
        (folder.path().join("real"), folder.path().join("link"), folder.path().join("lost"));
    std::fs::write(&real, "old").unwrap();
    std::os::unix::fs::symlink("real", &link).unwrap();
    std::os::unix::fs::symlink("nothing", &lost).unwrap();
    let trace = trace::open(&common::source("tri"), &OpenOptions::default()).unwrap();
    let write = |path, replace| {
        repack(&trace, path, &WriteOptions { replace, ..WriteOptions::USUAL }, &Silent).map(drop)
    };
    assert!(write(&link, false).is_err());
    write(&link, true).unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_ne!(std::fs::read(&real).unwrap(), b"old");
    assert!(write(&lost, false).is_err());
    assert!(write(&lost, true).unwrap_err().to_string().contains("cannot follow it"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn an_empty_stream_is_recognised_where_its_container_tells_that_nothing_is_in_it() {
    use quipu_model::{Confidence, Trace};
    let folder = tempfile::tempdir().unwrap();
    let trace = trace::open(&common::source("header-only-2-bytes"), &OpenOptions::default()).unwrap();
    for (name, packing, confidence) in [
        ("empty.trace", Packing::SeekableZstd, Confidence::Likely),
        ("one-frame.trace", Packing::Zstd, Confidence::Likely),
        ("gzip.trace", Packing::Gzip, Confidence::Likely),
        // Other formats may use these extensions.
        ("empty.zst", Packing::Zstd, Confidence::Maybe),
        ("empty.gz", Packing::Gzip, Confidence::Maybe),
        ("empty.br", Packing::Brotli, Confidence::Likely),
    ] {
        let path = folder.path().join(name);
        repack(&trace, &path, &WriteOptions { packing, ..WriteOptions::USUAL }, &Silent).unwrap();
        let source = Source::open(&path).unwrap();
        assert_eq!(APITRACE.probe(&source), confidence, "{name}");
        let again = trace::open(&source, &OpenOptions::default()).unwrap();
        assert_eq!(again.packing(), packing, "{name}");
        let mut reader = again.scan(&Scan::new(ShardId(0))).unwrap();
        let mut rules = Vec::new();
        while let Some(batch) = reader.read().unwrap() {
            assert_eq!(batch.span.records, 0, "{name}");
            rules.extend(batch.findings.iter().map(|finding| finding.rule.clone()));
        }
        assert_eq!(rules, ["apitrace/empty"], "{name}");
    }
}
