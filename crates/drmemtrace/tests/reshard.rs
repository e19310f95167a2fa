//! Files of threads become files of cores and one stream, and are split again into the same files.

// The helpers of a test may panic as the test may.

use crate::rewriting::{assert_same, entries, fixtures, open};
use quipu_drmemtrace::record::{Entry, FileType, Marker, Type};
use quipu_drmemtrace::schedule;
use quipu_drmemtrace::trace::{self, DrmemTrace};
use quipu_drmemtrace::write::{Sharding, WriteOptions, reshard};
use quipu_model::OpenOptions;
use quipu_model::transform::Silent;
use quipu_source::Source;
use std::path::Path;
use zerocopy::IntoBytes;

fn to(source: &Source, trace: &DrmemTrace, path: &Path, sharding: Sharding) -> (Source, DrmemTrace) {
    let summary = reshard(trace, source, path, sharding, &[], &WriteOptions::new(), &Silent).unwrap();
    let written = if sharding == Sharding::Stream { path.parent().unwrap() } else { path };
    for file in &summary.files {
        let name = file.name.as_deref().unwrap();
        assert!(written.join(name).is_file(), "no file is called `{name}`");
    }
    let source = Source::open(path).unwrap();
    let trace = trace::open(&source, &OpenOptions::default()).unwrap();
    assert!(trace_findings(&trace).is_empty(), "{:?}", trace_findings(&trace));
    (source, trace)
}

fn trace_findings(trace: &DrmemTrace) -> Vec<quipu_model::Finding> {
    use quipu_model::Trace;
    trace.meta().findings.clone()
}

/// The entries that a thread's file must keep: all except chunks, the value of the footer, and repeated encodings.
fn of_thread(entries: &[Entry]) -> Vec<Entry> {
    let mut repeats = false;
    let mut kept = Vec::new();
    for entry in entries {
        match (entry.kind(), Marker(entry.size.get())) {
            (Type::MARKER, Marker::RECORD_ORDINAL) => repeats = true,
            (Type::MARKER, Marker::TIMESTAMP) if repeats => {}
            (Type::MARKER, Marker::CPU_ID) if repeats => repeats = false,
            (Type::MARKER, Marker::CHUNK_FOOTER) | (Type::ENCODING | Type::FOOTER, _) => {}
            _ => kept.push(*entry),
        }
    }
    kept
}

fn by_thread(trace: &DrmemTrace) -> Vec<(u64, Vec<Entry>)> {
    let of =
        |file: &std::sync::Arc<trace::File>| (file.header.tid, of_thread(&entries(file.container.source())));
    let mut threads: Vec<_> = trace.files().iter().map(of).collect();
    threads.sort_by_key(|(tid, _)| *tid);
    threads
}

fn assert_threads(found: &DrmemTrace, expected: &DrmemTrace, what: &str) {
    let (found, expected) = (by_thread(found), by_thread(expected));
    assert_eq!(found.len(), expected.len(), "{what}: threads");
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.0, expected.0);
        assert_same(&found.1, &expected.1, &format!("{what}, thread {}", found.0));
    }
}

#[test]
fn threads_become_cores_and_threads_again() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["thr", "threadsig.x64", "tiny.chunk1000", "as_traced"] {
        let (source, trace) = open(name);
        let (cores, on_cores) =
            to(&source, &trace, &folder.path().join(format!("{name}.cores")), Sharding::Cores);
        let recorded =
            schedule::read(&Source::open(&fixtures().join(name).join("cpu_schedule.bin.zip")).unwrap());
        assert_eq!(on_cores.files().len(), recorded.unwrap().len(), "{name}: one file for each processor");
        for file in on_cores.files() {
            assert!(file.header.filetype.any(FileType::CORE_SHARDED));
            let entries = entries(file.container.source());
            let cpus: Vec<u64> = entries
                .iter()
                .filter(|e| e.is_marker(Marker::CPU_ID))
                .map(|entry| entry.addr.get())
                .collect();
            assert!(cpus.iter().all(|cpu| *cpu == cpus[0]), "{}", file.name);
            assert_eq!(entries.last().unwrap().kind(), Type::FOOTER);
        }
        let (_, again) =
            to(&cores, &on_cores, &folder.path().join(format!("{name}.threads")), Sharding::Threads);
        assert_threads(&again, &trace, name);
    }
}

#[test]
fn threads_become_one_stream_and_threads_again() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["thr", "legacy-for-record-filter"] {
        let (source, trace) = open(name);
        let (stream, merged) =
            to(&source, &trace, &folder.path().join(format!("{name}.zip")), Sharding::Stream);
        assert_eq!(merged.files().len(), 1);
        let (_, again) =
            to(&stream, &merged, &folder.path().join(format!("{name}.threads")), Sharding::Threads);
        let n = |trace: &DrmemTrace| {
            by_thread(trace).iter().map(|(_, entries)| instrs(entries)).collect::<Vec<_>>()
        };
        assert_eq!(n(&again), n(&trace), "{name}");
    }
}

/// The instructions and data of a thread, in order.
fn instrs(entries: &[Entry]) -> Vec<(u16, u64)> {
    let wanted = |entry: &&Entry| entry.kind() != Type::MARKER && entry.kind().0 != Type::PID.0;
    entries.iter().filter(wanted).map(|entry| (entry.kind.get(), entry.addr.get())).collect()
}

#[test]
fn schedules_of_cores_are_those_of_their_threads() {
    let folder = tempfile::tempdir().unwrap();
    let (source, trace) = open("thr");
    to(&source, &trace, &folder.path().join("cores"), Sharding::Cores);
    let read = |folder: &Path| {
        let mut members =
            schedule::read(&Source::open(&folder.join("cpu_schedule.bin.zip")).unwrap()).unwrap();
        members.sort_by(|a, b| a.0.cmp(&b.0));
        members
    };
    assert_eq!(read(&folder.path().join("cores")), read(&fixtures().join("thr")));
}

#[test]
fn encodings_of_no_instruction_stay_where_they_stand() {
    let folder = tempfile::tempdir().unwrap();
    let (_, trace) = open("tiny.plain");
    let mut all = entries(trace.files()[0].container.source());
    let stray: Vec<Entry> = (0..70).map(|i| Entry::new(Type::ENCODING, 8, i)).collect();
    assert_eq!(all.pop().unwrap().kind(), Type::FOOTER);
    all.extend_from_slice(&stray);
    all.push(Entry::new(Type::FOOTER, 0, 0));
    let path = folder.path().join("drmemtrace.tiny.00001.0000.trace");
    std::fs::write(&path, all.as_bytes()).unwrap();
    let source = Source::open(&path).unwrap();
    let trace = trace::open(&source, &OpenOptions::default()).unwrap();
    let (_, written) = to(&source, &trace, &folder.path().join("threads"), Sharding::Threads);
    let found = entries(written.files()[0].container.source());
    assert_same(&found[found.len() - 71..found.len() - 1], &stray, "the end");
}
