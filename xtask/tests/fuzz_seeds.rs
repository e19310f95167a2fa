//! Every fuzz seed, and every small trace of the repository, goes through the body of its fuzz target.
//!
//! So an input that once made a target fail is tried by each plain test run.

// The helpers of a test may panic as the test may.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// What a fuzz run copies into its corpus has at most this size, too.
const MAX_BYTES: u64 = 24 << 10;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files in `folder` and below, up to a size.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if fs::metadata(&path).unwrap().len() <= MAX_BYTES {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Runs `body` on each file and names all that fail.
fn run(folder: &str, least: usize, body: impl Fn(&[u8])) {
    let files = files(&root().join(folder));
    assert!(files.len() >= least, "{folder} has only {} files", files.len());
    let fails = |file: &PathBuf| {
        let bytes = fs::read(file).unwrap();
        let failed = catch_unwind(AssertUnwindSafe(|| body(&bytes))).is_err();
        if failed {
            eprintln!("fails: {}", file.display());
        }
        failed
    };
    assert_eq!(files.iter().filter(|file| fails(file)).count(), 0, "files that fail");
}

#[test]
fn source_survives_its_seeds() {
    run("fuzz/seeds/source", 20, quipu_testkit::fuzz::source);
}

#[test]
fn source_survives_the_seeds_of_drmemtrace() {
    run("fuzz/seeds/drmemtrace", 25, quipu_testkit::fuzz::source);
}

#[test]
fn drmemtrace_survives_its_seeds() {
    run("fuzz/seeds/drmemtrace", 25, |bytes| {
        quipu_testkit::fuzz::format(&quipu::drmemtrace::DRMEMTRACE, bytes)
    });
}

#[test]
fn drmemtrace_survives_the_seeds_of_source() {
    run("fuzz/seeds/source", 20, |bytes| quipu_testkit::fuzz::format(&quipu::drmemtrace::DRMEMTRACE, bytes));
}

fn check(bytes: &[u8]) {
    use quipu::drmemtrace::{DRMEMTRACE, check::CHECK};
    quipu_testkit::fuzz::tool(&DRMEMTRACE, &CHECK, bytes);
}

#[test]
fn check_survives_the_seeds_of_drmemtrace() {
    run("fuzz/seeds/drmemtrace", 25, check);
}

#[test]
fn check_survives_the_small_traces() {
    run("traces/drmemtrace", 30, check);
}

#[test]
fn apitrace_survives_its_seeds() {
    run("fuzz/seeds/apitrace", 5, |bytes| {
        quipu_testkit::fuzz::source(bytes);
        quipu_testkit::fuzz::format(&quipu::apitrace::APITRACE, bytes);
    });
}

#[test]
fn apitrace_survives_the_seeds_of_source() {
    run("fuzz/seeds/source", 20, |bytes| quipu_testkit::fuzz::format(&quipu::apitrace::APITRACE, bytes));
}

#[test]
fn both_survive_the_small_traces() {
    run("traces/drmemtrace", 30, |bytes| {
        quipu_testkit::fuzz::source(bytes);
        quipu_testkit::fuzz::format(&quipu::drmemtrace::DRMEMTRACE, bytes);
    });
}
