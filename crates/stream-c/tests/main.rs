//! The examples in C and C++, built with the compilers of this machine, run, and read back.

#![allow(clippy::unwrap_used)]

use quipu_stream::json::Json;
use quipu_stream::reader::StreamReader;
use quipu_stream::summary;
use quipu_stream::wire::record::Record;
use quipu_testkit::CLibrary;
use std::process::Command;

// The library is linked by the examples; this keeps it a dependency of the test.
use quipu_stream_c as _;

const LIBRARY: CLibrary = CLibrary { root: env!("CARGO_MANIFEST_DIR"), name: "quipu_stream_c" };

/// Builds and runs an example, and returns the summary of the file that it writes.
fn run(source: &str) -> Vec<(String, Json)> {
    let folder = tempfile::tempdir().unwrap();
    let (program, file) = (folder.path().join("program"), folder.path().join("out.quipu"));
    LIBRARY.build(source, &program);
    assert!(Command::new(&program).arg(&file).status().unwrap().success(), "{source} fails");
    let bytes = std::fs::read(&file).unwrap();
    match summary::of(&mut StreamReader::new(&bytes[..])).unwrap() {
        Json::Object(pairs) => pairs,
        other => panic!("{other}"),
    }
}

fn get<'a>(pairs: &'a [(String, Json)], name: &str) -> &'a Json {
    &pairs.iter().find(|(known, _)| known == name).unwrap().1
}

#[test]
fn a_program_in_c_writes_from_threads_and_a_signal_handler() {
    let said = run("examples/accesses.c");
    assert_eq!(get(&said, "findings").to_string(), "[]");
    assert_eq!(get(&said, "records_decoded").to_string(), "100011");
    let records = get(&said, "records").to_string();
    assert!(records.contains(r#""status": 404, "path": "/page/3", "text": "/page/3: 404", "stream": 2"#));
    assert!(
        records.contains(r#""addr": 804080, "size": 8, "is_write": false, "stream": 1"#),
        "a late access"
    );
    assert!(
        records.contains(r#""ts": 7, "addr": 10, "size": 1, "is_write": false, "stream": 3"#),
        "the signal's"
    );
}

#[test]
fn a_program_in_cpp_writes_its_structures() {
    let said = run("examples/points.cpp");
    assert_eq!(get(&said, "findings").to_string(), "[]");
    let records = get(&said, "records").to_string();
    assert!(
        records
            .starts_with(r#"[{"schema": "point", "ts": 0, "x": -2.5, "y": 2.5, "index": -5, "stream": 0}"#)
    );
}

#[test]
fn a_program_in_c_says_who_it_is_and_sends_its_records_in_time() {
    let said = run("examples/live.c");
    let findings = get(&said, "findings").to_string();
    assert_eq!(findings, "[]", "{said:?}");
    let records = get(&said, "records").to_string();
    let first = r#"{"schema": "event", "ts": 0, "addr": 28672, "kind": "read", "flags": 3, "corners": [0, 1], "stream": 1}"#;
    assert!(records.starts_with(&format!("[{first}")), "{records}");
    assert!(records.contains(r#""ts": 6000000000, "addr": 28675, "kind": "write""#), "{records}");
    assert_eq!(get(&said, "lost").to_string(), r#"{"1": 2}"#);
    let attachments = get(&said, "attachments").to_string();
    assert!(attachments.contains(r#""name": "notes.txt""#), "{attachments}");
}

#[test]
fn what_a_program_in_c_says_of_itself_is_read_and_old_records_do_not_wait() {
    let folder = tempfile::tempdir().unwrap();
    let (program, file) = (folder.path().join("program"), folder.path().join("out.quipu"));
    LIBRARY.build("examples/live.c", &program);
    assert!(Command::new(&program).arg(&file).status().unwrap().success());
    let bytes = std::fs::read(&file).unwrap();
    let mut reader = StreamReader::new(&bytes[..]);
    let frames = reader.data_frames().unwrap();
    let of = |at: usize| (frames[at].header.records, frames[at].header.lost);
    // Records dropped after these are counted in the next frame, because this frame had been written by then.
    assert_eq!((frames.len(), of(0), of(1)), (2, (4, 0), (0, 2)));
    while reader.next_part().unwrap().is_some() {}
    let metadata = reader.session().metadata(&frames[0].header);
    let stream = metadata.stream(1).unwrap();
    let clock = metadata.clock(stream.clock.unwrap()).unwrap();
    assert_eq!((stream.name.as_deref(), stream.cpu, stream.tid), (Some("cpu 5"), Some(5), None));
    assert_eq!(
        (clock.name.as_deref(), clock.ticks_per_s, clock.unix_ns),
        (Some("cycles"), 2_000_000_000, None)
    );
    let first = metadata.entries().next().and_then(|(_, entry)| entry.record.clone());
    let Some(Record::Producer(producer)) = first.as_deref() else { panic!("a producer comes first") };
    assert_eq!(
        (producer.host.as_deref(), producer.zone.as_deref(), producer.zone_s),
        (Some("lab-3"), Some("Europe/Zurich"), Some(3600))
    );
    assert_eq!(producer.argv.as_deref(), Some(&["live".to_owned(), "--example".to_owned()][..]));
}
