//! What the program makes of traces of graphics calls is what the original makes of them.

// The helpers of a test may panic as the test may.
#![allow(clippy::unwrap_used)]

use assert_cmd::Command;
use std::path::PathBuf;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/apitrace")
}

fn quipu(args: &[&str]) -> std::process::Output {
    Command::cargo_bin("quipu").unwrap().current_dir(folder()).args(args).output().unwrap()
}

/// A golden, unpacked by our own reader.
fn golden(name: &str) -> Vec<u8> {
    let source = quipu::source::Source::open(&folder().join(name)).unwrap();
    source.head(64 << 20).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The words of a command line of the goldens, which has no quotes: a set of calls may be several words.
fn words(line: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        match words.last_mut() {
            Some(last) if last.starts_with("--calls") && word.starts_with(|c: char| c.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

#[test]
fn the_command_lines_of_the_original_give_its_output_and_exit_code() {
    let mut n_compared = 0;
    for entry in std::fs::read_dir(folder().join("golden-cli")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some(case) = name.strip_suffix(".cmd") else { continue };
        let command = text(&golden(&format!("golden-cli/{name}")));
        let mut args = vec!["as".to_owned(), "apitrace".to_owned()];
        args.extend(words(command.trim()));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let output = quipu(&args);
        let expected = golden(&format!("golden-cli/{case}.out.gz"));
        assert_eq!(text(&output.stdout), text(&expected), "{case}");
        let errors = text(&golden(&format!("golden-cli/{case}.err")));
        let (errors, code) = errors.trim_end().rsplit_once("rc ").unwrap();
        assert_eq!(output.status.code().map(|code| code.to_string()).as_deref(), Some(code), "{case}");
        assert_eq!(text(&output.stderr), errors, "{case}");
        n_compared += 1;
    }
    assert_eq!(n_compared, 18);
}

#[test]
fn info_of_every_trace_is_what_the_original_prints() {
    for name in [
        "kinds",
        "kinds.brotli",
        "kinds.zstd",
        "kinds.zstd-noseek",
        "synth-d3d-kinds",
        "header-only-2-bytes",
        "threads-3x20",
        "tri",
        "glxgears-300",
    ] {
        let output = quipu(&["as", "apitrace", "info", "--dump-frames", &format!("{name}.trace")]);
        assert_eq!(text(&output.stdout), text(&golden(&format!("golden/{name}.info.json"))), "{name}");
        assert_eq!(output.status.code(), Some(0), "{name}");
    }
}

#[test]
fn view_prints_what_the_original_dumps() {
    for (args, file) in [
        (&["view", "kinds.trace"][..], "golden/kinds.dump.txt.gz"),
        (&["view", "-q", "glxgears-300.trace"], "golden/glxgears-300.dump.txt.gz"),
        (&["view", "--multiline=no", "kinds.trace"], "golden-cli/dump-oneline.out.gz"),
        (&["view", "--thread-ids", "threads-3x20.trace"], "golden-cli/dump-threads2.out.gz"),
        (&["view", "--call-nos=no", "tri.trace"], "golden-cli/dump-nonos.out.gz"),
        (&["view", "--verbose", "--calls", "draw", "kinds.trace"], "golden-cli/dump-draw.out.gz"),
        (&["view", "--color=always", "kinds.trace"], "golden-cli/dump-color.out.gz"),
    ] {
        let output = quipu(args);
        assert_eq!(text(&output.stdout), text(&golden(file)), "{args:?}");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
    }
}

#[test]
fn json_has_one_typed_object_for_each_call() {
    let output = quipu(&["view", "--json", "synth-d3d-kinds.trace"]);
    let lines: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 20);
    assert_eq!(lines[0]["args"][0]["value"]["struct"], "GUID");
    assert_eq!(lines[5]["args"][1]["value"], u64::MAX);
    assert_eq!(lines[6]["args"][2]["value"]["rest"], 4);
    assert_eq!(lines[18]["incomplete"], true);
    assert_eq!(lines[14]["stack"][0]["line"], 42);
    assert_eq!(lines[5]["args"][2]["value"].to_string(), "1e-45");
}

#[test]
fn rows_for_other_programs_name_the_functions() {
    let output = quipu(&["view", "--csv", "--take", "2", "tri.trace"]);
    assert_eq!(
        text(&output.stdout),
        "record,call,tid,frame,function,args,fake,incomplete\n1,0,0,0,glXQueryExtension,3,0,0\n\
         2,1,0,0,glXChooseFBConfig,4,0,0\n"
    );
}

#[test]
fn blobs_go_to_files() {
    let target = tempfile::tempdir().unwrap();
    let blobs = format!("--blobs={}", target.path().display());
    let output = quipu(&["view", "--calls", "draw", &blobs, "kinds.trace"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let whole = quipu(&["view", &blobs, "kinds.trace"]);
    assert!(text(&whole.stdout).contains("blob(\"blob_call"), "files are named");
    for entry in std::fs::read_dir(target.path()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(text(&whole.stdout).contains(&name), "{name}");
    }
    assert!(std::fs::read_dir(target.path()).unwrap().count() > 3);
}

#[test]
fn the_stream_is_copied_between_containers() {
    let target = tempfile::tempdir().unwrap();
    let golden = text(&golden("golden/kinds.dump.txt.gz"));
    for (verb, name, container) in [
        (&["convert", "kinds.trace", "-o"][..], "a.trace", "Zstandard (seekable)"),
        (&["convert", "kinds.trace", "-o"], "a.trace.br", "Brotli"),
        (&["convert", "kinds.zstd.trace", "--container", "snappy", "-o"], "b.trace", "Snappy"),
        (&["as", "apitrace", "repack", "--zlib", "kinds.brotli.trace"], "c.trace", "ZLib"),
        (&["as", "apitrace", "repack", "-z=1", "kinds.trace"], "d.trace", "Zstandard (seekable)"),
    ] {
        let path = target.path().join(name);
        let path = path.to_str().unwrap();
        let output = quipu(&[verb, &[path]].concat());
        assert_eq!(output.status.code(), Some(0), "{verb:?}: {}", text(&output.stderr));
        assert_eq!(text(&quipu(&["view", path]).stdout), golden, "{verb:?}");
        let info: serde_json::Value =
            serde_json::from_slice(&quipu(&["as", "apitrace", "info", path]).stdout).unwrap();
        assert_eq!(info["ContainerType"], container, "{verb:?}");
        assert_eq!(info["ActualDataSize"], 130_202, "{verb:?}");
    }
    let refused = quipu(&["convert", "kinds.trace", "-o", "x.zip"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_wrong_set_of_calls_is_an_error() {
    for args in
        [&["view", "--calls", "x", "tri.trace"][..], &["as", "apitrace", "dump", "--calls=1-x", "tri.trace"]]
    {
        let output = quipu(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(text(&output.stdout), "");
    }
}

#[test]
fn info_says_what_only_reading_tells() {
    let output = quipu(&["info", "--json", "kinds.zstd.trace"]);
    let info: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(info["format"], "apitrace");
    assert_eq!(info["facts"]["calls"], 257);
    assert_eq!(info["facts"]["frames"], 5);
    assert_eq!(info["facts"]["api"], "OpenGL + GLX/WGL/CGL");
    assert_eq!(info["facts"]["container"], "Zstandard (seekable)");
}
