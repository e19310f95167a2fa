//! The examples in C and C++, built with the compilers of this machine, run, and read back.

#![allow(clippy::unwrap_used)]

use quipu_stream::json::Json;
use quipu_stream::reader::StreamReader;
use quipu_stream::summary;
use std::path::{Path, PathBuf};
use std::process::Command;

// The library is linked by the examples; this keeps it a dependency of the test.
use quipu_stream_c as _;

/// The newest static library that cargo has built for this test.
fn library() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let deps = exe.parent().unwrap();
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("libquipu_stream_c") && name.ends_with(".a")
    };
    let all = [deps, deps.parent().unwrap()].into_iter().flat_map(|folder| {
        std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(is_library)
            .collect::<Vec<_>>()
    });
    all.max_by_key(|path| path.metadata().unwrap().modified().unwrap())
        .expect("the library was built with the test")
}

/// Builds and runs an example, and gives what is in its file.
fn run(compiler: &str, source: &str) -> Vec<(String, Json)> {
    let folder = tempfile::tempdir().unwrap();
    let (program, file) = (folder.path().join("program"), folder.path().join("out.quipu"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = Command::new(compiler)
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(root.join("include"))
        .arg(root.join("examples").join(source))
        .arg(library())
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .status()
        .unwrap();
    assert!(built.success(), "{source} does not compile");
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
    let said = run("cc", "accesses.c");
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
    let said = run("c++", "points.cpp");
    assert_eq!(get(&said, "findings").to_string(), "[]");
    let records = get(&said, "records").to_string();
    assert!(
        records
            .starts_with(r#"[{"schema": "point", "ts": 0, "x": -2.5, "y": 2.5, "index": -5, "stream": 0}"#)
    );
}
