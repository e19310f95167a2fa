//! Tables and lenses as files of Parquet and Arrow.

use quipu_testkit::fixtures;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn quipu(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quipu")).args(args).output().unwrap()
}

fn trace(name: &str) -> String {
    fixtures(name).to_str().unwrap().to_owned()
}

fn manifest(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("quipu.json")).unwrap()).unwrap()
}

#[test]
fn a_folder_of_parquet_has_what_the_trace_has() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("t.parquet");
    let trace = trace("drmemtrace/threadsig.x64");
    let done = quipu(&["convert", "--json", &trace, "-o", out.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let counts = quipu(&["analyze", "counts", "--json", &trace]);
    let counts: Value = serde_json::from_slice(&counts.stdout).unwrap();
    let total = &counts["results"]["counts"]["total"];
    let manifest = manifest(&out);
    let rows = |name: &str| {
        let tables = manifest["tables"].as_array().unwrap();
        tables.iter().find(|table| table["name"] == name).map(|table| table["rows"].as_u64().unwrap())
    };
    let number = |key: &str| total[key].as_u64().unwrap_or_else(|| panic!("{key} of {total}"));
    assert_eq!(rows("lens.accesses"), Some(number("loads") + number("stores") + number("prefetches")));
    assert_eq!(rows("lens.instrs"), Some(number("instructions") + number("no_fetch_instructions")));
    let shards = std::fs::read_dir(out.join("memrefs")).unwrap().count();
    assert_eq!(shards, 9);
    // It is replaced only if that is asked for, and the bytes do not depend on the number of threads.
    let first = std::fs::read(out.join("memrefs/shard-00003.parquet")).unwrap();
    let refused = quipu(&["convert", &trace, "-o", out.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let again = ["convert", "-q", "--threads", "1", "--force", "--table", "memrefs", &trace, "-o"];
    let again = quipu(&[&again[..], &[out.to_str().unwrap()]].concat());
    assert_eq!(again.status.code(), Some(0), "{again:?}");
    assert!(!out.join("entries").exists());
    assert_eq!(std::fs::read(out.join("memrefs/shard-00003.parquet")).unwrap(), first);
}

#[test]
fn a_stream_of_arrow_goes_into_a_pipe() {
    let trace = trace("cacheray/shapes.trace");
    let done = quipu(&["convert", &trace, "-o", "-"]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    // The marker of a message, and the one that ends a stream.
    assert!(
        done.stdout.starts_with(&[0xff; 4]) && done.stdout.ends_with(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])
    );
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(said.contains("records"), "{said}");
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("x.arrows");
    let done = quipu(&["convert", "-q", "--table", "records", &trace, "-o", file.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    assert!(std::fs::read(&file).unwrap().starts_with(&[0xff; 4]));
}

#[test]
fn names_that_there_are_not_are_refused_with_those_that_there_are() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("x.arrow");
    let (trace, out_text) = (trace("drmemtrace/threadsig.x64"), out.to_str().unwrap());
    for (table, words) in [
        ("memref", "tables: memrefs"),
        ("lens.regions", "no rows of lens `regions`"),
        ("memrefs,entries", "a file of Arrow holds one table"),
    ] {
        let done = quipu(&["convert", "--table", table, &trace, "-o", out_text]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(2) && said.contains(words), "{table}: {said}");
        assert!(!out.exists());
    }
}

#[test]
fn of_a_damaged_trace_nothing_is_written_unless_it_is_to_be_kept() {
    let place = tempfile::tempdir().unwrap();
    let (cut, out) = (place.path().join("cut.trace"), place.path().join("t.parquet"));
    let whole = std::fs::read(fixtures("cacheray/shapes.trace")).unwrap();
    std::fs::write(&cut, &whole[..whole.len() - 5]).unwrap();
    let args = ["convert", "-q", cut.to_str().unwrap(), "-o", out.to_str().unwrap()];
    let done = quipu(&args);
    assert!(done.status.code() == Some(1) && !out.exists(), "{done:?}");
    let kept = quipu(&[&args[..], &["--keep-damaged"]].concat());
    assert!(kept.status.code() == Some(1), "{kept:?}");
    assert!(manifest(&out)["tables"][0]["rows"].as_u64().unwrap() > 0);
}
