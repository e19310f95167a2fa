//! Real traces next to the repository, if they are there: each of them inflates to whole entries.

use std::path::{Path, PathBuf};

use crate::packing::{ahead, inline, pipe, read};
use quipu_source::{Codec, Source};

fn samples() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/samples/drmemtrace");
    if !folder.is_dir() {
        eprintln!("skipped: there is no folder of sample traces beside the repository");
        return None;
    }
    Some(folder)
}

fn walk(source: &Source, found: &mut Vec<Source>) {
    for entry in source.files().unwrap() {
        if entry.is_folder() { walk(&entry, found) } else { found.push(entry) }
    }
}

#[test]
fn every_sample_inflates_without_a_fault_and_to_whole_entries() {
    let Some(folder) = samples() else { return };
    let mut files = Vec::new();
    walk(&Source::open(&folder).unwrap(), &mut files);
    let mut codecs = Vec::new();
    let mut n_traces = 0;
    for file in files {
        let container = file.container().unwrap();
        assert!(container.damage().is_empty(), "{:?}", container.damage());
        let read = read(&container, &ahead(196_608, 4, 2));
        assert!(read.errors.is_empty(), "{:?}", read.errors);
        // A header entry: kind 25, size 0, a small version.
        let is_trace = matches!(read.members.first().map(Vec::as_slice), Some([25, 0, 0, 0, 1..=7, 0, ..]));
        if is_trace {
            n_traces += 1;
            codecs.push(container.codec());
            for member in &read.members {
                assert_eq!(member.len() % 12, 0, "{}", file.name());
            }
        }
        assert_eq!(
            file.head(12).unwrap(),
            read.bytes()[..read.bytes().len().min(12).min(read.members[0].len())]
        );
    }
    assert!(n_traces > 30, "{n_traces} traces found");
    for codec in [Codec::Plain, Codec::Gzip, Codec::Zip, Codec::Lz4, Codec::Snappy] {
        assert!(codecs.contains(&codec), "{codec:?}");
    }
}

#[test]
fn the_four_containers_of_one_trace_hold_the_same_entries() {
    let Some(folder) = samples() else { return };
    let entries = |name: &str| {
        let mut files = Vec::new();
        walk(&Source::open(&folder.join("derived").join(name)).unwrap(), &mut files);
        let traces = files.into_iter().filter(|file| file.name().contains(".trace"));
        let [trace] = &traces.collect::<Vec<_>>()[..] else { panic!("one trace in {name}") };
        let packed = std::fs::read(trace.path().unwrap()).unwrap();
        let bytes = read(&trace.container().unwrap(), &inline(10_000)).bytes();
        assert!(
            read(&pipe(&packed).container().unwrap(), &inline(12_345)).bytes() == bytes,
            "{name} on a pipe"
        );
        bytes
    };
    let plain = entries("tiny.plain");
    assert_eq!(plain.len(), 8461 * 12);
    assert!(entries("tiny.lz4") == plain && entries("tiny.gz") == plain);
}
