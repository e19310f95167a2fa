//! Every input that is kept, and every small trace of the repository, goes through the body of its fuzz target.
//!
//! So an input that once made a target fail is tried by each plain test run.

// The helpers of a test may panic as the test may.
#![allow(clippy::unwrap_used)]

use quipu_fuzzing::{Body, TARGETS};
use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Larger files of the repository are not for fuzzers; no seed is as large.
const MAX_BYTES: u64 = 4 << 10;

/// Seeds that a target takes besides its own, because they are traces of a format or files of a container that it reads.
const BORROWED: &[(&str, &[&str])] = &[
    ("source", &["drmemtrace", "apitrace"]),
    ("drmemtrace", &["source", "rewrite"]),
    ("check", &["drmemtrace", "rewrite"]),
    ("rewrite", &["drmemtrace"]),
    ("apitrace", &["source"]),
    ("apitrace_text", &["apitrace"]),
    ("simulate", &["lackey", "din", "cacheray", "drmemtrace"]),
    ("convert", &["lackey", "din", "cacheray", "drmemtrace"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files in `folder` and below.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn body(target: &str) -> Body {
    TARGETS.iter().find(|(name, _)| *name == target).unwrap().1
}

/// Runs a target on each file and names all that fail.
fn run(target: &str, files: &[PathBuf]) {
    let body = body(target);
    let fails = |file: &&PathBuf| {
        let bytes = fs::read(file).unwrap();
        let failed = catch_unwind(AssertUnwindSafe(|| body(&bytes))).is_err();
        if failed {
            eprintln!("{target} fails: {}", file.display());
        }
        failed
    };
    assert_eq!(files.iter().filter(fails).count(), 0, "files that fail");
}

/// The names of what lies in a folder, without endings.
fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn every_target_has_its_program_and_its_seeds() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(targets.len(), TARGETS.len(), "a target stands twice in the list");
    assert_eq!(names("fuzz/fuzz_targets"), targets, "programs of targets");
    assert_eq!(names("fuzz/seeds"), targets, "folders of seeds");
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    for target in targets {
        assert!(manifest.contains(&format!("name = \"{target}\"")), "fuzz/Cargo.toml does not name {target}");
        assert!(!files(&root().join("fuzz/seeds").join(&target)).is_empty(), "{target} has no seed");
    }
}

#[test]
fn every_format_has_a_target() {
    for format in quipu::FORMATS {
        let name = format.info().name;
        assert!(TARGETS.iter().any(|(target, _)| *target == name), "`{name}` has no fuzz target");
    }
}

#[test]
fn every_seed_is_short() {
    for seed in files(&root().join("fuzz/seeds")) {
        let n_bytes = fs::metadata(&seed).unwrap().len();
        assert!(n_bytes <= MAX_BYTES, "{} has {n_bytes} bytes of at most {MAX_BYTES}", seed.display());
    }
}

/// A test for each target, so that they run side by side.
macro_rules! seeds_hold {
    ($($target:ident)*) => {
        $(
            #[test]
            fn $target() {
                let target = stringify!($target);
                let seeds = root().join("fuzz/seeds");
                let mut all = files(&seeds.join(target));
                for (_, others) in BORROWED.iter().filter(|(name, _)| *name == target) {
                    all.extend(others.iter().flat_map(|other| files(&seeds.join(other))));
                }
                run(target, &all);
            }
        )*

        #[test]
        fn every_target_has_its_test() {
            let tested = [$(stringify!($target)),*];
            assert_eq!(tested.as_slice(), TARGETS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        }
    };
}

mod seeds_hold {
    use super::*;

    seeds_hold! {
        source drmemtrace check rewrite apitrace apitrace_text cacheray lackey din simulate convert raw lists schedule index
        capture cells dtrace stream cbor stream_types packed_rows configuration call_set instructions types_file dwarf
    }
}

#[test]
fn the_small_traces_hold_in_the_targets_of_traces() {
    let is_small = |path: &PathBuf| fs::metadata(path).unwrap().len() <= 24 << 10;
    for (folder, targets) in
        [("drmemtrace", ["source", "drmemtrace", "check"].as_slice()), ("apitrace", &["source", "apitrace"])]
    {
        let mut traces = files(&root().join("traces").join(folder));
        traces.retain(is_small);
        assert!(traces.len() >= 15, "{folder} has only {} small files", traces.len());
        targets.iter().for_each(|target| run(target, &traces));
    }
}
