//! `quipu as dtrace` over the captures of the samples: text, messages and exit status of the consumer.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn quipu(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quipu")).args(args).output().unwrap()
}

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/dtrace/classic");
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

#[test]
fn captures_print_what_the_consumer_printed_with_its_exit_status() {
    for case in cases() {
        let output = quipu(&["as", "dtrace", case.to_str().unwrap()]);
        let expected = |name: &str| std::fs::read(case.join(name)).unwrap();
        assert!(output.stdout == expected("stdout"), "{}: stdout", case.display());
        let is_unknown = case.ends_with("unknown_epid");
        if !is_unknown {
            assert!(output.stderr == expected("stderr"), "{}: stderr", case.display());
        }
        let meta: serde_json::Value = serde_json::from_slice(&expected("meta.json")).unwrap();
        let status = if is_unknown { Some(1) } else { meta["result"]["exit_status"].as_i64() };
        assert_eq!(output.status.code().map(i64::from), status, "{}", case.display());
    }
}

/// A copy of a case whose files can be damaged.
fn copied(name: &str, folder: &Path) -> PathBuf {
    let home = folder.join(name);
    std::fs::create_dir(&home).unwrap();
    quipu_testkit::copy_files(&quipu_testkit::fixtures("dtrace").join("classic").join(name), &home);
    home
}

#[test]
fn a_cut_or_missing_buffer_is_an_error_of_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let case = copied("mixed_1000", folder.path());
    let buffer = case.join("buf.cpu0.bin");
    let whole = std::fs::read(&buffer).unwrap();
    // 6,000 is the end of a record, so that only the length says it.
    for (kept, rules) in [
        (Some(6000), &["dtrace/buffer-size"][..]),
        (Some(5991), &["dtrace/buffer-size", "dtrace/cut-record"]),
        (None, &["dtrace/missing-buffer"]),
    ] {
        match kept {
            Some(kept) => std::fs::write(&buffer, &whole[..kept]).unwrap(),
            None => std::fs::remove_file(&buffer).unwrap(),
        }
        let case = case.to_str().unwrap();
        for verb in ["info", "view", "check", "report", "describe"] {
            let output = quipu(&[verb, case]);
            let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
            assert_eq!(output.status.code(), Some(1), "{verb} {kept:?}: {said}");
            for rule in rules {
                assert!(said.contains(&format!("[{rule}]")), "{verb} {kept:?}: {said}");
            }
        }
        let written = folder.path().join("written.quipu");
        let line = ["convert", case, "-o", written.to_str().unwrap()];
        let refused = quipu(&line);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(!written.exists());
        let kept = quipu(&[&line[..], &["--keep-damaged", "--force"]].concat());
        assert!(kept.status.code() == Some(1) && written.exists(), "{kept:?}");
        std::fs::remove_file(&written).unwrap();
    }
}

#[test]
fn a_line_that_cannot_be_read_is_lost_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("raw.jsonl");
    let from = quipu_testkit::fixtures("dtrace").join("linux/trace_ints/raw.jsonl");
    let text = std::fs::read_to_string(from).unwrap();
    let n_lines = text.lines().count();
    std::fs::write(&path, &text[..text.len() - 9]).unwrap();
    let output = quipu(&["check", path.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("record {n_lines}: line {n_lines} cannot be read")), "{said}");
}

#[test]
fn convert_says_what_it_has_no_room_for() {
    let folder = tempfile::tempdir().unwrap();
    let case = copied("drops", folder.path());
    let meta = case.join("meta.json");
    let mut description: serde_json::Value = serde_json::from_slice(&std::fs::read(&meta).unwrap()).unwrap();
    description["types"] = serde_json::json!([{"id": "a`1", "name": "int", "kind": "int", "size": 4}]);
    description["eprobes"][0]["recs"][0]["signed"] = false.into();
    description["buffers"].as_array_mut().unwrap().truncate(1);
    std::fs::write(&meta, description.to_string()).unwrap();
    for (ending, losses) in [
        ("quipu", &["types of `print()`: 1", "signs of values: 1"][..]),
        ("midbuf", &["types of `print()`: 1", "signs of values: 1", "counts of drops: "]),
    ] {
        let written = folder.path().join(format!("written.{ending}"));
        let output = quipu(&["convert", case.to_str().unwrap(), "-o", written.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr);
        for loss in losses {
            assert!(said.contains(&format!("no room for {loss}")), "{ending}: {said}");
        }
    }
}

#[test]
fn options_about_printing_are_taken_and_others_refused() {
    let case = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/dtrace/classic");
        folder.join(name).to_str().unwrap().to_owned()
    };
    let quiet = quipu(&["as", "dtrace", "-q", &case("trace_basic")]);
    assert_eq!(quiet.stdout, std::fs::read(Path::new(&case("trace_basic_quiet")).join("stdout")).unwrap());
    let sorted = quipu(&["as", "dtrace", "-x", "aggsortrev", "-x", "aggsortkey", &case("agg_sort_default")]);
    assert_eq!(sorted.stdout, std::fs::read(Path::new(&case("agg_sort_key_rev")).join("stdout")).unwrap());
    let refused = quipu(&["as", "dtrace", "-n", "BEGIN", &case("trace_basic")]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("`-n` is about tracing"));
    let refused = quipu(&["as", "dtrace", "-x", "bufsize=4m", &case("trace_basic")]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("`-x bufsize` is about tracing"));
}

#[test]
fn captures_become_streams_and_buffers_that_print_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for (name, ending) in
        [("mixed_1000", "quipu"), ("agg_scalar", "quipu"), ("printf", "quipu"), ("stacks", "midbuf")]
    {
        let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/dtrace/classic").join(name);
        let written = folder.path().join(format!("{name}.{ending}"));
        let convert = quipu(&["convert", case.to_str().unwrap(), "-o", written.to_str().unwrap()]);
        assert!(convert.status.success(), "{name}: {convert:?}");
        let printed = quipu(&["view", "--quirks", written.to_str().unwrap()]);
        assert!(printed.stdout == std::fs::read(case.join("stdout")).unwrap(), "{name}: {printed:?}");
    }
}

#[test]
fn streams_become_the_folders_that_they_came_from() {
    let folder = tempfile::tempdir().unwrap();
    for (family, name, is_dense) in [
        ("classic", "mixed_1000", true),
        ("classic", "agg_key_types", false),
        ("linux", "syscall_lat", false),
    ] {
        let case = quipu_testkit::fixtures("dtrace").join(family).join(name);
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (stream, back) = (path(&format!("{name}.quipu")), path(name));
        let encoding = if is_dense { &["--encoding", "dense"][..] } else { &[] };
        let convert = quipu(&[&["convert", case.to_str().unwrap(), "-o", &stream][..], encoding].concat());
        assert!(convert.status.success(), "{name}: {convert:?}");
        let convert = quipu(&["convert", &stream, "-o", &back]);
        assert!(convert.status.success(), "{name}: {convert:?}");
        for entry in std::fs::read_dir(&case).unwrap().map(|entry| entry.unwrap()) {
            let file = entry.file_name().into_string().unwrap();
            if file.ends_with(".bin") {
                // An empty buffer leaves nothing.
                let written = std::fs::read(Path::new(&back).join(&file)).unwrap_or_default();
                assert!(written == std::fs::read(entry.path()).unwrap(), "{name}: {file}");
            }
        }
        for written in [&stream, &back] {
            let printed = quipu(&["view", "--quirks", written]);
            assert!(printed.stdout == std::fs::read(case.join("stdout")).unwrap(), "{written}: {printed:?}");
        }
        let refused = quipu(&["convert", &stream, "-o", &path("again.midbuf"), "--encoding", "dense"]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
}
