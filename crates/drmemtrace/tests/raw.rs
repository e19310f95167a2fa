//! Raw folders, whole and damaged.

// A test that cannot set its scene has failed.
#[path = "fuzzing/raw.rs"]
mod fuzzing;

use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::raw::{self, RawFolder};
use quipu_model::Format;
use quipu_model::trace::DumpForm;
use quipu_source::Source;
use std::path::PathBuf;

fn folder() -> PathBuf {
    quipu_testkit::fixtures("drmemtrace").join("threadsig.aarch64.raw")
}

/// The lines, and the rules broken.
fn dumped(folder: &RawFolder, wanted: std::ops::Range<u64>) -> (Vec<String>, Vec<String>) {
    dumped_as(DumpForm::Text, folder, wanted)
}

fn dumped_as(form: DumpForm, folder: &RawFolder, wanted: std::ops::Range<u64>) -> (Vec<String>, Vec<String>) {
    let mut text = Vec::new();
    let found = raw::dump(folder, wanted, form, &mut |part| {
        text.extend_from_slice(part);
        true
    });
    let rules = found.unwrap().into_vec().iter().map(|finding| finding.rule.to_string()).collect();
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
fn words_are_rows_for_programs() {
    let list = raw::list(&Source::open(&folder()).unwrap()).unwrap();
    let n_words = bytes_of_words().len() / 8;
    let (lines, _) = dumped_as(DumpForm::Json, &list, 0..u64::MAX);
    let rows: Vec<serde_json::Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), n_words);
    assert_eq!(rows[0]["sort"], "header");
    assert!(rows[0]["version"].is_u64());
    let block = rows.iter().find(|row| row["sort"] == "block").unwrap();
    assert!(block["path"].as_str().unwrap().starts_with('/') && block["instrs"].as_u64() > Some(0));
    let (csv, _) = dumped_as(DumpForm::Csv, &list, 0..u64::MAX);
    assert_eq!(csv.len(), n_words + 1);
    let keys: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
    let names: Vec<&str> = csv[0].split(',').collect();
    assert_eq!(names.len(), keys.len());
    assert!(names.iter().all(|name| rows[0].get(name).is_some()), "{names:?}");
    for (row, line) in rows.iter().zip(&csv[1..]) {
        let cells: Vec<&str> = line.split(',').collect();
        for (name, cell) in names.iter().zip(cells) {
            let expected = match &row[*name] {
                serde_json::Value::Null => String::new(),
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(cell, expected, "{name}: {line}");
        }
    }
}

#[test]
fn any_damage_to_words_leaves_rows_that_can_be_read() {
    let bytes = bytes_of_words();
    let bytes = &bytes[..bytes.len().min(8 * 600)];
    let mut rng = quipu_testkit::Rng::new(3);
    for round in 0..200u64 {
        let mut damaged = bytes.to_vec();
        for _ in 0..=rng.below(4) {
            let at = rng.below(damaged.len() as u64) as usize;
            damaged[at] = rng.below(256) as u8;
        }
        damaged.truncate(bytes.len() - (round as usize % 40) * 11);
        fuzzing::raw(&damaged);
    }
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
