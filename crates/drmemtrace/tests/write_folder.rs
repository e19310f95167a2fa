//! Folders and files after an edit: complete under their name, or absent.

// The helpers of a test may panic as the test may.

use crate::rewriting;
use crate::rewriting::{entries, fixtures, open};
use quipu_drmemtrace::schedule;
use quipu_drmemtrace::write::{NoEdit, Replace, Summary, WriteOptions, rewrite};
use quipu_model::transform::Progress;
use quipu_model::transform::Silent;
use quipu_model::{Damaged, ErrorKind, Result};
use quipu_source::{PackOptions, Packing, Source};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

fn convert(name: &str, path: &Path, options: &WriteOptions, progress: &dyn Progress) -> Result<Summary> {
    let (source, trace) = open(name);
    rewrite(&trace, &source, path, options, &|_| Some(NoEdit), progress)
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn the_schedules_are_those_that_the_original_wrote() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["threadsig.x64", "thr", "as_traced", "tiny.chunk1000", "thr.kernel_injected"] {
        let path = folder.path().join(name);
        convert(name, &path, &WriteOptions::new(), &Silent).unwrap();
        for file in ["serial_schedule.bin.gz", "cpu_schedule.bin.zip"] {
            let read = |folder: &Path| {
                let mut members = schedule::read(&Source::open(&folder.join(file)).unwrap()).unwrap();
                members.sort_by(|a, b| a.0.cmp(&b.0));
                members
            };
            assert_eq!(read(&path), read(&fixtures().join(name)), "{name}: {file}");
        }
    }
}

#[test]
fn schedules_are_written_for_containers_where_the_original_leaves_them_empty() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    convert("tiny.lz4", &path, &WriteOptions::new(), &Silent).unwrap();
    let serial = schedule::read(&Source::open(&path.join("serial_schedule.bin.gz")).unwrap()).unwrap();
    let expected =
        schedule::read(&Source::open(&fixtures().join("tiny.chunk1000/serial_schedule.bin.gz")).unwrap())
            .unwrap();
    assert_eq!(serial, expected);
}

#[test]
fn the_number_of_threads_changes_no_byte() {
    let folder = tempfile::tempdir().unwrap();
    let read = |threads: usize, packing| {
        let path = folder.path().join(format!("{threads}.{packing:?}"));
        let options = WriteOptions { threads, pack: PackOptions::new(packing), ..WriteOptions::new() };
        convert("thr", &path, &options, &Silent).unwrap();
        names(&path).iter().map(|name| (name.clone(), fs::read(path.join(name)).unwrap())).collect::<Vec<_>>()
    };
    for packing in Packing::ALL {
        let expected = read(1, packing);
        assert!(read(2, packing) == expected && read(7, packing) == expected, "{packing:?}");
    }
}

#[test]
fn what_lies_beside_the_traces_comes_along() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    convert("tiny.func", &path, &WriteOptions::new(), &Silent).unwrap();
    assert_eq!(
        names(&path),
        [
            "cpu_schedule.bin.zip",
            "drmemtrace.tiny.05726.5914.trace.zip",
            "funclist.log",
            "serial_schedule.bin.gz"
        ]
    );
    assert_eq!(
        fs::read(path.join("funclist.log")).unwrap(),
        fs::read(fixtures().join("tiny.func/funclist.log")).unwrap()
    );
}

#[test]
fn nothing_is_written_over_unless_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let (out, file) = (folder.path().join("out"), folder.path().join("a.zip"));
    let allowed = WriteOptions { replace: Replace::Allowed, ..WriteOptions::new() };
    convert("tiny.plain", &out, &WriteOptions::new(), &Silent).unwrap();
    let before = entries(&Source::open(&out.join("drmemtrace.tiny.05701.3845.trace.zip")).unwrap());
    let error = convert("tiny.func", &out, &WriteOptions::new(), &Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert_eq!(entries(&Source::open(&out.join("drmemtrace.tiny.05701.3845.trace.zip")).unwrap()), before);
    convert("tiny.func", &out, &allowed, &Silent).unwrap();
    assert!(out.join("funclist.log").exists() && !out.join("drmemtrace.tiny.05701.3845.trace.zip").exists());

    // A folder that holds anything else is kept, whatever the options.
    fs::write(out.join("thesis.tex"), "years of work").unwrap();
    let error = convert("tiny.func", &out, &allowed, &Silent).unwrap_err();
    assert!(error.to_string().contains("the folder holds more than a trace: `thesis.tex`"), "{error}");
    assert!(out.join("thesis.tex").exists());

    convert("small", &file, &WriteOptions::new(), &Silent).unwrap();
    assert_eq!(convert("small", &file, &WriteOptions::new(), &Silent).unwrap_err().kind(), ErrorKind::Usage);
    convert("small", &file, &allowed, &Silent).unwrap();
    assert_eq!(convert("small", &out, &allowed, &Silent).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(names(folder.path()), ["a.zip", "out"], "nothing else is left behind");
}

/// Cancels after this many entries were read.
struct Impatient {
    limit: u64,
    seen: AtomicU64,
}

impl Progress for Impatient {
    fn advance(&self, records: u64, _: u64) {
        self.seen.fetch_add(records, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.seen.load(Ordering::Relaxed) >= self.limit
    }
}

#[test]
fn what_is_cancelled_leaves_nothing_and_harms_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (out, file) = (folder.path().join("out"), folder.path().join("a.zip"));
    fs::write(&file, "what was there").unwrap();
    let allowed = WriteOptions { replace: Replace::Allowed, ..WriteOptions::new() };
    for limit in [0, 1, 40_000, 500_000] {
        let progress = Impatient { limit, seen: AtomicU64::new(0) };
        let error = convert("threadsig.x64", &out, &allowed, &progress).unwrap_err();
        assert!(error.to_string().contains("interrupted"), "{error}");
        assert_eq!(names(folder.path()), ["a.zip"]);
    }
    let progress = Impatient { limit: 1, seen: AtomicU64::new(0) };
    convert("small", &file, &allowed, &progress).unwrap_err();
    assert_eq!(fs::read(&file).unwrap(), b"what was there");
    assert_eq!(names(folder.path()), ["a.zip"]);
}

#[test]
fn a_damaged_trace_is_told_and_what_is_whole_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = fs::read(fixtures().join("small/drmemtrace.small.x64.trace")).unwrap();
    bytes.truncate(1000);
    let trace = rewriting::open_bytes(bytes.clone());
    let source = Source::from_bytes("cut", bytes.clone());
    let path = folder.path().join("cut.trace");
    let options = WriteOptions { pack: PackOptions::new(Packing::Plain), ..WriteOptions::new() };
    let refused = rewrite(&trace, &source, &path, &options, &|_| Some(NoEdit), &Silent).unwrap_err();
    assert_eq!((refused.kind(), path.exists()), (ErrorKind::Damaged, false));
    let options = WriteOptions { damaged: Damaged::Keep, ..options };
    let summary = rewrite(&trace, &source, &path, &options, &|_| Some(NoEdit), &Silent).unwrap();
    assert!(!summary.findings.is_empty());
    let written = fs::read(&path).unwrap();
    // 83 entries are whole; a footer closes the rest.
    assert_eq!(written[..83 * 12], bytes[..83 * 12]);
    assert_eq!(written.len(), 84 * 12);
    let strict = WriteOptions { strict: true, replace: Replace::Allowed, ..options };
    rewrite(&trace, &source, &path, &strict, &|_| Some(NoEdit), &Silent).unwrap_err();
    assert_eq!(fs::read(&path).unwrap(), written, "what was there stays");
}
