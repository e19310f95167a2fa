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
