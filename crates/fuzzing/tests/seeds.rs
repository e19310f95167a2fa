//! Runs every stored input, and every small trace of the repository, through its fuzz target.
//!
//! An input that once made a target fail is thus tried in every test run.

// Helpers of tests may panic, too.
#![allow(clippy::unwrap_used)]

use quipu_fuzzing::{PROGRAM, TARGETS, targets};
use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Maximum size of files of the repository that are used; all seeds are smaller.
const MAX_BYTES: u64 = 4 << 10;

/// For some targets, other targets whose seeds they also use, since these are traces or containers that they read.
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

/// The files in `folder` and below it.
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

/// Runs a target on each file, and prints the files that fail.
fn run(target: &str, files: &[PathBuf]) {
    let fails = |file: &&PathBuf| {
        let bytes = fs::read(file).unwrap();
        let failed = catch_unwind(AssertUnwindSafe(|| quipu_fuzzing::run(target, &bytes))).is_err();
        if failed {
            eprintln!("{target} fails: {}", file.display());
        }
        failed
    };
    assert_eq!(files.iter().filter(fails).count(), 0, "files that fail");
}

/// The names of the entries of a folder, without extensions.
fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

/// The seeds of a target: its folder, and for a format the cases of its crate.
fn seeds(target: &str) -> Vec<PathBuf> {
    let folder = root().join("fuzz/seeds").join(target);
    let mut seeds = if folder.is_dir() { files(&folder) } else { Vec::new() };
    seeds.extend(quipu_testkit::cases::inputs(target));
    seeds
}

#[test]
fn every_target_has_its_program_and_its_seeds() {
    let by_hand: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(by_hand.len(), TARGETS.len(), "a target stands twice in the list");
    let mut programs = names("fuzz/fuzz_targets");
    assert!(programs.remove(PROGRAM), "the program for formats");
    assert_eq!(programs, by_hand, "programs of targets");
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    for program in by_hand.iter().map(String::as_str).chain([PROGRAM]) {
        assert!(
            manifest.contains(&format!("name = \"{program}\"")),
            "fuzz/Cargo.toml does not name {program}"
        );
    }
    for target in targets() {
        assert!(!seeds(target).is_empty(), "{target} has no seed");
    }
    let all: BTreeSet<String> = targets().into_iter().map(str::to_owned).collect();
    assert!(names("fuzz/seeds").is_subset(&all), "seeds of no target");
}

#[test]
fn every_format_has_a_target() {
    for format in quipu::FORMATS {
        let name = format.info().name;
        assert!(targets().contains(&name), "`{name}` has no fuzz target");
    }
}

#[test]
fn every_seed_is_short() {
    for seed in files(&root().join("fuzz/seeds")) {
        let n_bytes = fs::metadata(&seed).unwrap().len();
        assert!(n_bytes <= MAX_BYTES, "{} has {n_bytes} bytes of at most {MAX_BYTES}", seed.display());
    }
}

/// Runs a target on its own seeds and on those that it borrows.
fn all_hold(target: &str) {
    let borrowed = BORROWED.iter().filter(|(name, _)| *name == target).flat_map(|(_, others)| *others);
    let all: Vec<PathBuf> =
        seeds(target).into_iter().chain(borrowed.flat_map(|other| seeds(other))).collect();
    run(target, &all);
}

/// A test for each handwritten target, so that they run in parallel.
macro_rules! seeds_hold {
    ($($target:ident)*) => {
        $(
            #[test]
            fn $target() {
                all_hold(stringify!($target));
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
        source check rewrite apitrace_text simulate convert lists schedule index
        cells dtrace dtrace_classic dtrace_classic_v0 dtrace_linux dtrace_buffer dtrace_stream
        prism prism_delivery prism_threads stream cbor stream_types packed_rows
        network_collector network_sender configuration call_set
        expression instructions types_file dwarf
    }
}

#[test]
fn seeds_of_every_format_hold() {
    let formats: Vec<&str> =
        targets().into_iter().filter(|name| TARGETS.iter().all(|(own, _)| own != name)).collect();
    std::thread::scope(|scope| {
        for format in formats {
            scope.spawn(move || all_hold(format));
        }
    });
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
