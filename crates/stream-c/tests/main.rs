//! The examples in C and C++, built with the compilers of this machine, run, and read back.

#![allow(clippy::unwrap_used)]

use quipu_stream::json::Json;
use quipu_stream::reader::StreamReader;
use quipu_stream::summary;
use quipu_testkit::CLibrary;
use std::process::Command;

// The library is linked by the examples; this keeps it a dependency of the test.
use quipu_stream_c as _;

const LIBRARY: CLibrary = CLibrary { root: env!("CARGO_MANIFEST_DIR"), name: "quipu_stream_c" };

/// Builds and runs an example, and gives what is in its file.
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
