//! What programs in C write of the classic cases, read back and printed.

#![allow(clippy::unwrap_used)]

use quipu_dtrace::Capture;
use quipu_source::Source;
use quipu_testkit::CLibrary;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

// The library is linked by the programs; this keeps it a dependency of the test.
use quipu_dtrace_c as _;

const LIBRARY: CLibrary = CLibrary { root: env!("CARGO_MANIFEST_DIR"), name: "quipu_dtrace_c" };

fn hex(bytes: &[u8]) -> String {
    match bytes {
        [] => "-".to_owned(),
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// A probe as the device describes it.
fn probe(of: &Value) -> Vec<u8> {
    let mut bytes = (of["id"].as_u64().unwrap() as u32).to_le_bytes().to_vec();
    for (field, size) in [("provider", 64), ("module", 64), ("function", 192), ("name", 64)] {
        let start = bytes.len();
        bytes.extend(of[field].as_str().unwrap().bytes());
        bytes.resize(start + size, 0);
    }
    bytes
}

/// A case as lines; see `examples/case.h`.
fn lines(case: &Path) -> String {
    let meta: Value = serde_json::from_slice(&std::fs::read(case.join("meta.json")).unwrap()).unwrap();
    let list = |key: &str| meta[key].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines = String::new();
    let options = text(&meta["options"]);
    // A comma alone is an empty list.
    writeln!(lines, "options {}", if options.is_empty() { "," } else { &options }).unwrap();
    writeln!(lines, "session {} {} {}", meta["began_on"], meta["ended_on"], meta["stopped"]).unwrap();
    writeln!(lines, "base {}", meta["libact_base"]).unwrap();
    writeln!(lines, "service 80 http\nhost 10.0.0.1 gateway").unwrap();
    for of in list("symbols") {
        let user = u8::from(of["user"].as_bool().unwrap_or(false));
        let (object, name) = (text(&of["object"]), text(&of["name"]));
        writeln!(lines, "symbol {} {} {user} {object} {name}", of["lo"], of["hi"]).unwrap();
    }
    for of in list("formats") {
        writeln!(lines, "format {} {}", of["id"], hex(text(&of["string"]).as_bytes())).unwrap();
    }
    for of in list("probes") {
        writeln!(lines, "probe {}", hex(&probe(&of))).unwrap();
    }
    for of in list("eprobes") {
        writeln!(lines, "eprobe {}", text(&of["raw_eprobedesc"])).unwrap();
    }
    for of in list("aggregations") {
        writeln!(lines, "agg {} {}", of["varid"], text(&of["raw_aggdesc"])).unwrap();
    }
    for (key, kind) in [("buffers", "buf"), ("aggbuffers", "aggbuf")] {
        for of in list(key) {
            let bytes = std::fs::read(case.join(text(&of["file"]))).unwrap();
            let oldest = of["oldest"].as_u64().unwrap_or(0);
            writeln!(lines, "{kind} {} {} {oldest} {}", of["cpu"], of["drops"], hex(&bytes)).unwrap();
        }
    }
    lines
}

fn cases() -> Vec<PathBuf> {
    let folder = quipu_testkit::fixtures("dtrace").join("classic");
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

fn load(path: &Path) -> Capture {
    let source = Source::open(path).unwrap();
    quipu_dtrace::trace::load(&source, &quipu_model::OpenOptions::default()).unwrap()
}

fn printed(capture: Capture) -> String {
    let printed = quipu_dtrace::print(&Arc::new(capture), true.into()).unwrap();
    String::from_utf8_lossy(&printed.out).into_owned()
}

fn golden(case: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(case.join("stdout")).unwrap()).into_owned()
}

#[test]
fn a_program_in_c_writes_all_cases_as_streams_and_buffers() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("capture");
    LIBRARY.build("examples/capture.c", &program);
    let (text, stream, buffer) =
        (folder.path().join("case"), folder.path().join("out.quipu"), folder.path().join("out.midbuf"));
    let (mut n_streams, mut n_buffers) = (0, 0);
    for case in cases() {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        std::fs::write(&text, lines(&case)).unwrap();
        let n_cpus = lines(&case).lines().filter(|line| line.starts_with("buf ")).count();
        let has_more = lines(&case).contains("\naggbuf ");
        let mut run = Command::new(&program);
        run.args([&text, &stream]);
        // A buffer with its descriptions ends where it cannot be read on, so none is written.
        let has_buffer = n_cpus == 1 && name != "unknown_epid";
        if has_buffer {
            run.arg(&buffer);
        }
        let output = run.output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        // That there are records, or states, is what makes a file one of DTrace.
        if n_cpus == 0 && !has_more {
            continue;
        }
        let read = load(&stream);
        assert_eq!(read.names.services.get(&80).map(String::as_str), Some("http"), "{name}");
        assert_eq!(read.names.hosts.get("10.0.0.1").map(String::as_str), Some("gateway"), "{name}");
        assert_eq!(printed(read), golden(&case), "{name}");
        n_streams += 1;
        // Descriptions in a buffer have no room for these.
        if has_buffer && !has_more && !name.starts_with("drops") {
            assert_eq!(printed(load(&buffer)), golden(&case), "{name}: buffer");
            n_buffers += 1;
        }
    }
    assert!(n_streams > 55 && n_buffers > 15, "{n_streams}, {n_buffers}");
}

#[test]
fn device_calls_of_a_consumer_are_recorded() {
    if !cfg!(target_os = "linux") {
        eprintln!("passed over: the fake device is loaded as libraries of Linux are");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let library = LIBRARY.path();
    let shared = ["-shared", "-fPIC", library.to_str().unwrap()];
    LIBRARY.compile("preload/record.c", &path("record.so"), &shared);
    LIBRARY.compile("tests/device.c", &path("device.so"), &shared[..2]);
    LIBRARY.compile("tests/consumer.c", &path("illumos"), &[]);
    LIBRARY.compile("tests/consumer.c", &path("freebsd"), &["-DFREEBSD"]);
    let preload = format!("{}:{}", path("record.so").display(), path("device.so").display());
    let mut n = 0;
    for case in cases() {
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let text = lines(&case);
        // The device knows no symbols, and a case without buffers is no capture.
        let has_addresses = text.contains("\nsymbol ");
        if has_addresses || !text.contains("\nbuf ") && !text.contains("\naggbuf ") {
            continue;
        }
        std::fs::write(path("case"), &text).unwrap();
        let options = text.lines().next().unwrap().trim_start_matches("options ").to_owned();
        for consumer in ["illumos", "freebsd"] {
            let output = Command::new(path(consumer))
                .env("LD_PRELOAD", &preload)
                .env("QUIPU_FAKE_CASE", path("case"))
                .env("QUIPU_DTRACE_CAPTURE", path("out.quipu"))
                .env("QUIPU_DTRACE_OPTIONS", &options)
                .env("TZ", "UTC0")
                .output()
                .unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{name}: {output:?}");
            let mut capture = load(&path("out.quipu"));
            // Where tracing did not stop, the consumer of this test stops it.
            capture.is_stopped &= text.contains("session -1 -1 1") || !text.contains("session -1");
            assert_eq!(printed(capture), golden(&case), "{name}, {consumer}");
        }
        n += 1;
    }
    assert!(n > 40, "{n}");
    // What is given in vain is said, and the program runs on.
    let output = Command::new(path("illumos"))
        .env("LD_PRELOAD", &preload)
        .env("QUIPU_FAKE_CASE", path("case"))
        .env("QUIPU_DTRACE_CAPTURE", path("out.quipu"))
        .env("QUIPU_DTRACE_OPTIONS", "quit,flowindent")
        .env("QUIPU_DTRACE_ACTIONS", "abc")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.lines().count() == 2, "{said}");
    assert!(said.contains("QUIPU_DTRACE_OPTIONS: `-x quit` is about tracing, or unknown"), "{said}");
    assert!(said.contains("QUIPU_DTRACE_ACTIONS is no number: abc"), "{said}");
    assert!(load(&path("out.quipu")).settings.flowindent);
    // A consumer that takes no buffer is not recorded in silence.
    std::fs::write(path("case"), "options ,\n").unwrap();
    let output = Command::new(path("illumos"))
        .env("LD_PRELOAD", &preload)
        .env("QUIPU_FAKE_CASE", path("case"))
        .env("QUIPU_DTRACE_CAPTURE", path("empty.quipu"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "quipu: the consumer took no buffer, so the capture is empty\n");
    // The zone of the host travels, and its locale, and services if a format asks for them.
    let text = lines(&cases().into_iter().find(|case| case.ends_with("trace_basic")).unwrap());
    std::fs::write(path("case"), text + &format!("format 1 {}\n", hex(b"%8P\n"))).unwrap();
    let output = Command::new(path("illumos"))
        .env("LD_PRELOAD", &preload)
        .env("QUIPU_FAKE_CASE", path("case"))
        .env("QUIPU_DTRACE_CAPTURE", path("out.quipu"))
        .env("TZ", "ABC-2")
        .env("QUIPU_FAKE_LOCALE", "yes")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let Capture { zone, locale, names, .. } = load(&path("out.quipu"));
    assert_eq!((zone.offset_s, &*zone.name), (7200, "ABC"));
    assert_eq!((&*locale.name, &*locale.decimal_point, &*locale.thousands_separator), ("C", ",", "."));
    assert_eq!((&locale.grouping[..], &*locale.months[2], &*locale.days[6]), (&[3, 0][..], "Mrz", "Sat"));
    assert_eq!(names.services.into_iter().collect::<Vec<_>>(), [(80, "http".to_owned())]);
}
