//! Reading and writing back gives the same entries in the same members, and other containers have the same content.

// The helpers of a test may panic as the test may.

use crate::rewriting;
use crate::rewriting::{TRACES, assert_same, entries, fixtures, members, open, packing_of, rewritten};
use quipu_drmemtrace::record::{Entry, Marker, Type};
use quipu_drmemtrace::write::{NoEdit, WriteOptions};
use quipu_source::{PackOptions, Packing};

fn into(packing: Packing, chunk_instrs: Option<u64>) -> WriteOptions {
    WriteOptions { pack: PackOptions::new(packing), chunk_instrs, ..WriteOptions::new() }
}

#[test]
fn every_fixture_comes_back_member_by_member() {
    for name in TRACES {
        let (_, trace) = open(name);
        for (shard, file) in trace.files().iter().enumerate() {
            let source = file.container.source();
            let expected = members(source);
            let found = members(&rewritten(&trace, shard, NoEdit, &into(packing_of(source), None)));
            assert_eq!(found.len(), expected.len(), "{}: members", file.name);
            for (found, expected) in found.iter().zip(&expected) {
                let what = format!("{} {}", file.name, expected.0);
                assert_same(&found.1, &expected.1, &what);
            }
        }
    }
}

#[test]
fn no_fixture_is_left_out() {
    let mut folders: Vec<String> = std::fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| name != "golden" && !name.ends_with(".raw"))
        .collect();
    folders.sort();
    assert_eq!(folders, TRACES);
}

/// The entries that every chunk size must preserve: all except those that only chunks need, and the marker with their size.
fn without_chunks(entries: &[Entry]) -> Vec<Entry> {
    let mut plain = Vec::new();
    let mut repeats = false;
    for entry in entries {
        if entry.kind() == Type::MARKER {
            match Marker(entry.size.get()) {
                Marker::RECORD_ORDINAL => repeats = true,
                Marker::TIMESTAMP if repeats => {}
                Marker::CPU_ID if repeats => repeats = false,
                Marker::CHUNK_FOOTER | Marker::CHUNK_INSTR_COUNT => {}
                _ => plain.push(*entry),
            }
        } else if entry.kind() != Type::ENCODING {
            plain.push(*entry);
        }
    }
    plain
}

#[test]
fn the_original_made_the_same_chunks_of_the_same_entries() {
    let (_, plain) = open("tiny.plain");
    let (_, chunks) = open("tiny.chunk1000");
    let expected = members(chunks.files()[0].container.source());
    let found = members(&rewritten(&plain, 0, NoEdit, &into(Packing::Zip, Some(1000))));
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.0, expected.0);
        assert_same(&found.1, &expected.1, &expected.0);
    }
}

#[test]
fn the_original_wrote_the_same_entries_into_other_containers() {
    let (_, chunks) = open("tiny.chunk1000");
    for (name, packing) in
        [("tiny.plain", Packing::Plain), ("tiny.gz", Packing::Gzip), ("tiny.lz4", Packing::Lz4)]
    {
        let (_, other) = open(name);
        let expected = entries(other.files()[0].container.source());
        let chunk_instrs = Some(10_000_000);
        let found = entries(&rewritten(&chunks, 0, NoEdit, &into(packing, chunk_instrs)));
        assert_same(&found, &expected, name);
    }
}

#[test]
fn chunks_of_any_size_hold_the_same_and_come_back() {
    let cases: [(&str, &[u64]); 5] = [
        ("tiny.func", &[1, 7, 1000]),
        ("as_traced", &[777, 123_456]),
        ("thr", &[1000]),
        ("tiny.multiwin", &[20]),
        ("thr.core_sharded_kernel", &[5000]),
    ];
    for (name, sizes) in cases {
        let (_, trace) = open(name);
        let source = trace.files()[0].container.source();
        let original = members(source);
        let expected = without_chunks(&entries(source));
        for &chunk_instrs in sizes {
            let other = rewritten(&trace, 0, NoEdit, &into(Packing::Zip, Some(chunk_instrs)));
            assert_same(&without_chunks(&entries(&other)), &expected, name);
            let mut trace = rewriting::open_bytes(bytes(&other));
            assert_eq!(trace.files()[0].header.chunk_instrs, chunk_instrs);
            // Back to DynamoRIO's chunks, by way of a file without any.
            let plain = rewritten(&trace, 0, NoEdit, &into(Packing::Plain, None));
            trace = rewriting::open_bytes(bytes(&plain));
            let size = original_chunk_instrs(&original);
            let back = members(&rewritten(&trace, 0, NoEdit, &into(Packing::Zip, Some(size))));
            // On cores that ran code of several sequences, DynamoRIO repeats encodings irregularly.
            if name != "thr.core_sharded_kernel" {
                assert_eq!(back.len(), original.len());
                for (back, original) in back.iter().zip(&original) {
                    assert_same(&back.1, &original.1, &format!("{name}: chunks of {chunk_instrs} and back"));
                }
            }
        }
    }
}

fn bytes(source: &quipu_source::Source) -> Vec<u8> {
    let size = source.size_bytes().unwrap() as usize;
    source.packed_head(size).unwrap()
}

fn original_chunk_instrs(members: &rewriting::Members) -> u64 {
    let marker = members[0].1.iter().find(|entry| entry.is_marker(Marker::CHUNK_INSTR_COUNT));
    marker.unwrap().addr.get()
}

#[test]
fn chunks_say_what_stands_before_them() {
    // The hand-made numbers of the format's worked example: seven members, the second beginning with ordinal 40.
    let (_, trace) = open("allasm");
    let found = members(&rewritten(&trace, 0, NoEdit, &into(Packing::Zip, None)));
    let lens: Vec<usize> = found.iter().map(|(_, entries)| entries.len()).collect();
    assert_eq!(lens, [53, 50, 44, 50, 44, 50, 38]);
    assert_eq!(found[1].0, "chunk.00000001");
    assert_eq!(found[1].1[0], Entry::marker(Marker::RECORD_ORDINAL, 40));
    assert_eq!(found[1].1[1], Entry::marker(Marker::TIMESTAMP, 13_352_268_558_646_552));
    assert_eq!(found[0].1[52], Entry::marker(Marker::CHUNK_FOOTER, 0));
}
