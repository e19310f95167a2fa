//! Follows the guide step by step: the files from the templates build and pass their tests with no other file changed.
//!
//! The tests work in a copy of the repository below the target folder, and build into the target folder itself, so that only
//! new code is compiled.

use super::*;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Files outside its crate that a new family changes or adds.
const OUTSIDE: [&str; 4] =
    ["CHANGELOG.md", "crates/quipu/Cargo.toml", "crates/quipu/src/lib.rs", "docs/formats/toy.md"];

/// Limit for the lines of code that following the guide takes.
const MAX_LINES: usize = 120;

/// The target folder that holds this test's program.
fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program
        .ancestors()
        .find(|path| path.file_name().is_some_and(|name| name == "debug"))
        .unwrap()
        .parent()
        .unwrap()
        .into()
}

/// Makes a copy of the repository called `name`, without the files that an earlier run added.
fn copied(name: &str) -> PathBuf {
    let copy = target().join("scratch").join(name);
    scratch::copy(&crate::root(), &copy).unwrap();
    copy
}

/// Runs cargo in a copy, offline.
fn cargo(copy: &Path, words: &[&str]) {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(copy)
        .args(words)
        .arg("--offline")
        .env("CARGO_TARGET_DIR", target())
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "cargo {words:?}: {said}");
}

#[test]
fn a_new_family_touches_four_files_outside_its_crate_and_passes_its_tests() {
    let copy = copied("family");
    write(&copy, What::Format, "toy", "accesses that a toy prints").unwrap();
    let changed = scratch::changed(&crate::root(), &copy).unwrap();
    let outside: Vec<&str> =
        changed.iter().map(String::as_str).filter(|path| !path.starts_with("crates/toy/")).collect();
    assert_eq!(outside, OUTSIDE);
    let lines = ["src/lib.rs", "tests/cases.rs"]
        .map(|path| fs::read_to_string(copy.join("crates/toy").join(path)).unwrap());
    assert!(lines[0].lines().count() <= MAX_LINES, "{} lines", lines[0].lines().count());
    cargo(&copy, &["test", "--quiet", "-p", "quipu-toy"]);
    // Tests the library with this family alone: recognition and the walks over all cases.
    let only = ["--no-default-features", "--features", "toy"];
    cargo(
        &copy,
        &[&["test", "--quiet", "-p", "quipu", "--test", "suite"][..], &only, &["families"]].concat(),
    );
}

#[test]
fn a_new_analysis_and_a_new_lens_build_and_pass_their_tests() {
    let copy = copied("analysis");
    write(&copy, What::Tool, "toy-count", "how many accesses there are").unwrap();
    let changed = scratch::changed(&crate::root(), &copy).unwrap();
    assert_eq!(changed, ["CHANGELOG.md", "crates/passes/src/lib.rs", "crates/passes/src/toy_count/mod.rs"]);
    // Listed in alphabetical order, so that the formatter does not move it.
    let list = fs::read_to_string(copy.join("crates/passes/src/lib.rs")).unwrap();
    assert!(list.contains("pub mod syscalls;\npub mod toy_count;\npub mod working_set;\n"), "{list}");
    cargo(&copy, &["test", "--quiet", "-p", "quipu-passes", "--lib", "toy_count"]);
    let copy = copied("lens");
    write(&copy, What::Lens, "moods", "moods of a toy").unwrap();
    let changed = scratch::changed(&crate::root(), &copy).unwrap();
    assert_eq!(changed, ["CHANGELOG.md", "crates/model/src/lens.rs"]);
    cargo(&copy, &["check", "--quiet", "-p", "quipu-engine"]);
}

#[test]
fn names_that_no_crate_can_have_are_refused() {
    let copy = target().join("scratch/none");
    for name in ["", "Toy", "9", "a b", "a/b", "mod", "self"] {
        assert!(write(&copy, What::Format, name, "").is_err(), "{name}");
    }
}
