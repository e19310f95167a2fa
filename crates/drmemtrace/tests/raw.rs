//! Raw folders, whole and damaged.

// A test whose setup fails has failed.

use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::raw::{self, RAW, RawTrace, Words};
use quipu_model::{
    Columns, Confidence, Format, OpenOptions, Reader as _, Scan, ShardId, TableBuf as _, Trace, Window,
};
use quipu_source::Source;
use quipu_testkit::damage::{self, Damage};
use std::path::PathBuf;

fn folder() -> PathBuf {
    quipu_testkit::fixtures("drmemtrace-raw").join("threadsig.aarch64")
}

fn whole() -> RawTrace {
    raw::open(&Source::open(&folder()).unwrap(), &OpenOptions::default()).unwrap()
}

fn bytes_of_words() -> Vec<u8> {
    let path = folder().join("raw/drmemtrace.threadsig.16275.7075.raw.gz");
    Source::open(&path).unwrap().head(1 << 20).unwrap()
}

fn file(bytes: Vec<u8>) -> RawTrace {
    raw::open(&Source::from_bytes("x.raw", bytes), &OpenOptions::default()).unwrap()
}

/// The rows of a window, and the rules broken.
fn read(trace: &RawTrace, window: Window) -> (Words, Vec<String>) {
    let scan = Scan { tables: vec![0], window, ..Scan::new(ShardId(0)) };
    let (mut all, mut rules) = (Words::default(), Vec::new());
    let mut reader = trace.read(&scan).unwrap();
    while let Some(batch) = reader.read().unwrap() {
        rules.extend(batch.findings.iter().map(|finding| finding.rule.to_string()));
        let rows = batch.tables[0].get::<Words>().unwrap();
        all.extend_rows(rows, 0..rows.len(), &|code| code);
    }
    (all, rules)
}

#[test]
fn a_raw_folder_is_read_with_its_modules_and_all_its_words() {
    let trace = whole();
    let (rows, rules) = read(&trace, Window::All);
    assert_eq!(rules, [] as [&str; 0]);
    assert_eq!(rows.len(), bytes_of_words().len() / 8);
    let modules = trace.meta().facts.iter().find(|fact| fact.key == "modules").unwrap();
    assert!(modules.value[0].as_str().unwrap().ends_with("/threadsig.aarch64/binaries/threadsig"));
    let shard = &trace.shards()[0];
    assert_eq!((shard.thread, shard.process), (Some(16275.into()), Some(16274)));
    // The words themselves, compared with the bytes.
    let words: Vec<u64> =
        bytes_of_words().chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(rows.word, words);
    assert!(rows.thread.iter().all(|thread| *thread == 16275));
    assert_eq!((rows.version.get(0), rows.offset[1], rows.record[1]), (Some(3), 8, 2), "{:#x}", words[0]);
    let block = (0..rows.len()).find(|row| rows.instrs.get(*row).is_some()).unwrap();
    assert_eq!((words[block] >> 49 & 0xfff) as u32, rows.instrs.get(block).unwrap());
    assert!(rows.path.get(block).unwrap().ends_with(b"/threadsig"));
    assert_eq!(rows.module.get(block), Some(0));
}

#[test]
fn a_window_has_the_words_of_the_whole() {
    let trace = whole();
    let (all, _) = read(&trace, Window::All);
    let (some, rules) = read(&trace, Window::Records(3..5));
    assert_eq!(some.word, all.word[3..5]);
    assert_eq!(some.offset, [24, 32]);
    assert_eq!(rules, [] as [&str; 0]);
}

#[test]
fn markers_are_marks_and_upper_halves_belong_to_the_next_marker() {
    let marker = |kind: u64, value: u64| 0xc200_0000_0000_0000 | kind << 48 | value;
    let words = [0xc408_0000_0000_0e40, 0x4000_0000_0000_0007, marker(8, 0xabcd), marker(3, 0x1234_5678)];
    let trace = file(
        [&words[..], &[0xc100_0000_0000_0000]].concat().iter().flat_map(|word| word.to_le_bytes()).collect(),
    );
    let scan = Scan { columns: Columns::MARKS, ..Scan::new(ShardId(0)) };
    let mut reader = trace.read(&scan).unwrap();
    let batch = reader.read().unwrap().unwrap();
    let split = quipu_drmemtrace::record::Marker::SPLIT_VALUE.0;
    assert_eq!(split, 8, "the number in the words above");
    assert_eq!(batch.marks.kind, [8, 3]);
    assert_eq!(batch.marks.value, [0xabcd, 0xabcd_1234_5678]);
}

#[test]
fn damage_is_named_with_its_place() {
    let bytes = bytes_of_words();
    let rules = |bytes: &[u8]| read(&file(bytes.to_vec()), Window::All).1;
    assert_eq!(rules(&bytes), [] as [&str; 0]);
    assert_eq!(rules(&bytes[..803]), ["drmemtrace-raw/cut", "drmemtrace-raw/no-footer"]);
    assert_eq!(rules(&bytes[..800]), ["drmemtrace-raw/no-footer"]);
    assert_eq!(rules(&bytes[8..]), ["drmemtrace-raw/no-header"]);
    assert_eq!(rules(&[]), ["drmemtrace-raw/no-footer"]);
}

#[test]
fn words_that_make_no_sense_are_lost_and_no_others() {
    let bytes = bytes_of_words();
    let whole = read(&file(bytes.clone()), Window::All).0;
    let mut rng = quipu_testkit::Rng::new(5);
    let random: Vec<u8> = (0..8000).map(|_| rng.below(256) as u8).collect();
    for damage in [vec![0; 8000], vec![0xff; 8000], random] {
        let mut damaged = bytes.clone();
        damaged[30_000..38_000].copy_from_slice(&damage);
        let (rows, rules) = read(&file(damaged), Window::All);
        assert_eq!(rules, ["drmemtrace-raw/nonsense"]);
        assert!(rows.thread.iter().all(|thread| *thread == 16275));
        // The rule accepts a few words before the others, and some after them may make sense by chance.
        let n_lost = whole.len() - rows.len();
        assert!((950..=1070).contains(&n_lost), "{n_lost}");
        assert_eq!(rows.word[..3750], whole.word[..3750]);
        assert_eq!(rows.word[rows.len() - 3900..], whole.word[whole.len() - 3900..]);
    }
}

#[test]
fn damaged_words_are_survived() {
    let bytes = bytes_of_words();
    let bytes = &bytes[..bytes.len().min(8 * 300)];
    let damage = Damage { truncations: 200, changes: 200, ..Damage::default() };
    damage::format(&RAW, "x.raw", bytes, &damage);
    quipu_testkit::records::chunk_independence(&file(bytes.to_vec()), bytes, 20);
}

#[test]
fn what_a_tracer_left_is_told_from_what_was_made_of_it() {
    let source = Source::open(&folder()).unwrap();
    assert_eq!((RAW.probe(&source), DRMEMTRACE.probe(&source)), (Confidence::Sure, Confidence::No));
    let made = Source::open(&quipu_testkit::fixtures("drmemtrace").join("threadsig.x64")).unwrap();
    assert_eq!((RAW.probe(&made), DRMEMTRACE.probe(&made)), (Confidence::No, Confidence::Sure));
    for (bytes, confidence) in [(bytes_of_words(), Confidence::Sure), (b"text".to_vec(), Confidence::Maybe)] {
        assert_eq!(RAW.probe(&Source::from_bytes("app.1.raw", bytes)), confidence);
    }
    let error = DRMEMTRACE.open(&source, &OpenOptions::default()).err().unwrap();
    assert!(error.advice().unwrap().contains("drmemtrace-raw"), "{error}");
}
