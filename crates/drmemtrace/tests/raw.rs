//! Raw folders, whole and damaged.

// A test that cannot set its scene has failed.
#![allow(clippy::unwrap_used)]

use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::raw::{self, RawFolder};
use quipu_model::Format;
use quipu_source::Source;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/drmemtrace/threadsig.aarch64.raw")
}

/// The lines, and the rules broken.
fn dumped(folder: &RawFolder, wanted: std::ops::Range<u64>) -> (Vec<String>, Vec<&'static str>) {
    let mut text = Vec::new();
    let found = raw::dump(folder, wanted, &mut |part| {
        text.extend_from_slice(part);
        true
    });
    let rules = found.unwrap().into_vec().iter().map(|finding| finding.rule).collect();
    (String::from_utf8(text).unwrap().lines().map(str::to_owned).collect(), rules)
}

fn bytes_of_words() -> Vec<u8> {
    let path = folder().join("raw/drmemtrace.threadsig.16275.7075.raw.gz");
    Source::open(&path).unwrap().head(1 << 20).unwrap()
}

fn file(bytes: Vec<u8>) -> RawFolder {
    RawFolder { threads: vec![Source::from_bytes("x.raw", bytes)], ..RawFolder::default() }
}

#[test]
fn a_raw_folder_is_shown_with_its_modules_and_all_its_words() {
    let source = Source::open(&folder()).unwrap();
    let (lines, rules) = dumped(&raw::list(&source).unwrap(), 0..u64::MAX);
    assert_eq!(rules, [] as [&str; 0]);
    assert!(lines[0].ends_with("/threadsig.aarch64/binaries/threadsig"), "{}", lines[0]);
    let first = lines.iter().position(|line| line.starts_with("file ")).unwrap() + 1;
    assert_eq!(lines.len() - first, bytes_of_words().len() / 8);
    assert!(lines[first].contains("header"), "{}", lines[first]);
    assert!(lines.last().unwrap().contains("footer"));
    assert!(lines.iter().any(|line| line.contains("instructions at module 0 threadsig+0x")));
}

#[test]
fn only_the_words_asked_for_are_shown() {
    let source = Source::open(&folder()).unwrap();
    let list = raw::list(&source).unwrap();
    let (all, _) = dumped(&list, 0..u64::MAX);
    let (some, _) = dumped(&list, 3..5);
    let first = all.iter().position(|line| line.starts_with("file ")).unwrap() + 1;
    assert_eq!(some[first..], all[first + 3..first + 5]);
}

#[test]
fn damage_is_named_with_its_place() {
    let bytes = bytes_of_words();
    assert_eq!(dumped(&file(bytes.clone()), 0..u64::MAX).1, [] as [&str; 0]);
    assert_eq!(dumped(&file(bytes[..803].to_vec()), 0..u64::MAX).1, ["drmemtrace/raw-cut"]);
    assert_eq!(dumped(&file(bytes[..800].to_vec()), 0..u64::MAX).1, ["drmemtrace/raw-no-footer"]);
    assert_eq!(dumped(&file(bytes[8..].to_vec()), 0..u64::MAX).1, ["drmemtrace/raw-no-header"]);
    assert_eq!(dumped(&file(Vec::new()), 0..u64::MAX).1, ["drmemtrace/raw-no-footer"]);
}

#[test]
fn any_bytes_give_a_line_for_each_word() {
    let mut rng = quipu_testkit::Rng::new(7);
    for _ in 0..200 {
        let n = rng.below(400) as usize;
        let bytes: Vec<u8> = (0..n).map(|_| rng.below(256) as u8).collect();
        let (lines, _) = dumped(&file(bytes), 0..u64::MAX);
        // Bytes that look packed are another matter; random ones hardly ever do.
        assert!(lines.len() <= 1 + n / 8, "{n}");
    }
}

#[test]
fn opening_a_raw_folder_says_how_to_look_at_it() {
    let source = Source::open(&folder()).unwrap();
    let error = DRMEMTRACE.open(&source, &Default::default()).err().unwrap();
    assert!(error.advice().unwrap().contains("quipu view --raw"), "{error}");
}
