//! `--format NAME`: a trace is read in this format, regardless of its content.

// A test whose setup fails has failed.
use quipu_testkit::fixtures;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Verbs that read no trace: they run programs, describe formats, or read other files.
const OTHERS: &[&str] = &[
    "assemble",
    "record",
    "layout",
    "formats",
    "tools",
    "as",
    "send",
    "collect",
    "cc",
    "c++",
    "rustc-flags",
    "new-tool",
    "completions",
    "help",
];

fn quipu(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quipu")).args(args).output().unwrap()
}

/// All commands below `command` that have no subcommands.
fn leaves(command: &clap::Command, words: &str, found: &mut Vec<(String, clap::Command)>) {
    let below: Vec<_> = command.get_subcommands().filter(|sub| sub.get_name() != "help").collect();
    if below.is_empty() {
        found.push((words.to_owned(), command.clone()));
    }
    for sub in below {
        leaves(sub, format!("{words} {}", sub.get_name()).trim(), found);
    }
}

#[test]
fn every_verb_that_reads_a_trace_takes_a_format() {
    let mut found = Vec::new();
    for verb in quipu_cli::command().get_subcommands().filter(|verb| !OTHERS.contains(&verb.get_name())) {
        leaves(verb, verb.get_name(), &mut found);
    }
    assert!(found.len() >= 14, "{}", found.len());
    let known: Vec<&str> = quipu::FORMATS.iter().map(|format| format.info().name).collect();
    for (words, command) in found {
        let format = command.get_arguments().find(|arg| arg.get_long() == Some("format"));
        let format = format.unwrap_or_else(|| panic!("`quipu {words}` has no --format"));
        let names: Vec<String> =
            format.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        assert_eq!(names, known, "{words}");
    }
}

fn format_of(output: &Output) -> String {
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    answer["format"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_forced_format_is_the_one_that_is_read() {
    let trace = fixtures("drmemtrace/small/drmemtrace.small.x64.trace");
    let trace = trace.to_str().unwrap();
    for format in quipu::FORMATS.iter().map(|format| format.info().name) {
        let info = quipu(&["info", "--quick", "--json", "--format", format, trace]);
        // Frames are searched for everywhere, without success; a buffer cannot be read without descriptions.
        let refused = [
            ("stream", "no frame of a stream"),
            ("dtrace", "no whole descriptions stand in it"),
            ("columnar", "no file of Parquet or Arrow begins so"),
        ];
        if let Some((_, why)) = refused.iter().find(|(name, _)| *name == format) {
            let text = String::from_utf8_lossy(&info.stderr);
            assert!(info.status.code() == Some(2) && text.contains(why), "{info:?}");
            continue;
        }
        assert_eq!(format_of(&info), format, "{info:?}");
    }
    let unknown = quipu(&["info", "--format", "nonsense", trace]);
    assert_eq!(unknown.status.code(), Some(2));
    let text = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(text.contains("drmemtrace, drmemtrace-raw, apitrace, cacheray, lackey, din"), "{text}");
}

#[test]
fn a_file_that_no_format_recognises_is_read_as_the_forced_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let read = |args: &[&str], path: &Path| {
        let path = path.to_str().unwrap();
        quipu(&[args, &[path]].concat())
    };
    // The header and some entries are overwritten, so the format is not recognisable.
    let mut bytes = std::fs::read(fixtures("drmemtrace/small/drmemtrace.small.x64.trace")).unwrap();
    bytes[..60].fill(0xee);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(read(&["info"], &path).status.code(), Some(2));
    let forced = read(&["info", "--format", "drmemtrace"], &path);
    assert_eq!(forced.status.code(), Some(1), "{forced:?}");
    let said = String::from_utf8_lossy(&forced.stderr).into_owned();
    assert!(said.contains("offset 0x0: the first entry is no header: its version is unknown"), "{said}");
    assert!(!String::from_utf8_lossy(&forced.stdout).contains("version 0"), "{forced:?}");
    let counts = read(&["analyze", "counts", "--json", "--format", "drmemtrace"], &path);
    assert_eq!(counts.status.code(), Some(1), "{counts:?}");
    // A stream of calls without its beginning.
    let mut bytes = std::fs::read(fixtures("apitrace/kinds.trace")).unwrap();
    bytes[..2].fill(0xee);
    std::fs::write(&path, &bytes).unwrap();
    assert_eq!(read(&["info"], &path).status.code(), Some(2));
    let forced = read(&["info", "--json", "--format", "apitrace"], &path);
    assert_eq!((forced.status.code(), format_of(&forced)), (Some(1), "apitrace".to_owned()), "{forced:?}");
}
