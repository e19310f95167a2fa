//! All output of verbs can be read again; output that could not be is refused with a message, and nothing is written.

use quipu_testkit::fixtures;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn quipu(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quipu")).args(["-q", "-j", "1"]).args(args).output().unwrap()
}

/// Number of records of a kind, or of calls, in a trace.
fn count(trace: &Path, kind: Option<&str>) -> usize {
    let kind = kind.map(|kind| ["--kind", kind]);
    let args: Vec<&str> =
        ["view", "--json", trace.to_str().unwrap()].into_iter().chain(kind.into_iter().flatten()).collect();
    let done = quipu(&args);
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    done.stdout.iter().filter(|byte| **byte == b'\n').count()
}

/// A trace, the kind of records to count in it, and edits to apply.
struct Case {
    trace: PathBuf,
    kind: Option<&'static str>,
    edits: Vec<Vec<&'static str>>,
}

/// Small traces, normal and odd ones, of all formats that can be written.
fn cases(folder: &Path) -> Vec<Case> {
    let containers = |names: &[&'static str]| {
        names.iter().map(|name| vec!["convert", "--container", *name]).collect::<Vec<_>>()
    };
    let with = |mut edits: Vec<Vec<&'static str>>, more: &[&[&'static str]]| {
        edits.extend(more.iter().map(|edit| edit.to_vec()));
        edits
    };
    let odd = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let plain = fs::read(fixtures("drmemtrace").join("tiny.plain/drmemtrace.tiny.05701.3845.trace")).unwrap();
    let entry = |nth: usize| &plain[12 * nth..12 * nth + 12];
    let (head, tail) = (&plain[..120], &plain[plain.len() - 24..]);
    let of_thread = |nth: usize| [&entry(nth)[..4], &((1_u64 << 62) + 5).to_le_bytes()].concat();
    let n_entries = plain.len() / 12;
    let huge_thread = [
        &plain[..36],
        &of_thread(3),
        &of_thread(4),
        &plain[60..132],
        &of_thread(n_entries - 2),
        entry(n_entries - 1),
    ]
    .concat();
    let mut cases = Vec::new();
    for trace in [
        fixtures("drmemtrace").join("tiny.chunk1000"),
        fixtures("drmemtrace").join("thr"),
        fixtures("drmemtrace").join("allasm"),
        odd("no-records.trace", &[head, tail].concat()),
        odd("one-record.trace", &[head, entry(10), entry(11), tail].concat()),
        odd("huge-thread.trace", &huge_thread),
        odd("nothing.trace", b""),
    ] {
        let edits = with(
            containers(&["zip", "gzip", "lz4", "snappy", "zstd", "plain"]),
            &[
                &["convert", "--to", "cacheray"],
                &["split"],
                &["merge"],
                &["trim", "--skip-instrs", "2", "--take-instrs", "5"],
                &["trim", "--take", "0"],
                &["filter", "--drop", "prefetch"],
            ],
        );
        cases.push(Case { trace, kind: Some("instr"), edits });
    }
    for name in ["header-only-2-bytes", "synth-v0", "kinds", "threads-3x20", "incomplete-call"] {
        let edits = with(
            containers(&["zstd", "zstd-noseek", "snappy", "gzip", "brotli", "plain"]),
            &[
                &["trim", "--take", "0"],
                &["trim", "--take", "1"],
                &["edit", "--property", "a=b"],
                &["disassemble"],
                &["recover"],
            ],
        );
        cases.push(Case { trace: fixtures("apitrace").join(format!("{name}.trace")), kind: None, edits });
    }
    let cacheray = fixtures("cacheray");
    let shapes = fs::read(cacheray.join("shapes.trace")).unwrap();
    for trace in [
        cacheray.join("shapes.trace"),
        cacheray.join("derived/shapes.ilp32.trace"),
        cacheray.join("structs.trace"),
        odd("one.cacheray", &shapes[..46]),
        odd("empty.cacheray", b""),
    ] {
        let edits = with(
            containers(&["plain", "gzip", "lz4", "snappy", "zstd", "zip"]),
            &[
                &["convert", "--set", "dialect=be64"],
                &["convert", "--thread", "99"],
                &["convert", "--to", "drmemtrace"],
            ],
        );
        cases.push(Case { trace, kind: None, edits });
    }
    cases
}

/// Whether an edit keeps all records, so that the counts agree.
fn keeps_all(edit: &[&str]) -> bool {
    let is_whole = ["convert", "split", "edit", "disassemble", "recover"].contains(&edit[0]);
    is_whole && !edit.contains(&"--to") && !edit.contains(&"--thread")
}

#[test]
fn what_is_written_can_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (mut n_written, mut n_refused, mut wrong) = (0, 0, Vec::new());
    for Case { trace, kind, edits } in cases(folder.path()) {
        for edit in edits {
            let home = tempfile::tempdir().unwrap();
            let mut out = home.path().join("out");
            let first = out.clone();
            let args = [&edit[..], &[trace.to_str().unwrap(), "-o", first.to_str().unwrap()]].concat();
            let done = quipu(&args);
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            if !out.exists() {
                n_refused += 1;
                if done.status.success() || !said.contains("error: ") {
                    wrong.push(format!("{args:?} writes nothing and says: {said}"));
                }
                continue;
            }
            n_written += 1;
            if edit[0] == "disassemble" {
                let text = std::mem::replace(&mut out, home.path().join("back"));
                let back = quipu(&["assemble", text.to_str().unwrap(), "-o", out.to_str().unwrap()]);
                assert!(back.status.success(), "{args:?}: {}", String::from_utf8_lossy(&back.stderr));
            }
            for verb in ["info", "view"] {
                let read = quipu(&[verb, out.to_str().unwrap()]);
                // The output for an odd input may have findings, but it is a trace.
                let is_read =
                    read.status.success() || !done.status.success() && read.status.code() == Some(1);
                if !is_read {
                    wrong.push(format!("{args:?}: {verb} says: {}", String::from_utf8_lossy(&read.stderr)));
                }
            }
            if keeps_all(&edit) && done.status.success() && count(&trace, kind) != count(&out, kind) {
                wrong.push(format!("{args:?}: {} became {}", count(&trace, kind), count(&out, kind)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n_written > 100 && n_refused > 5, "{n_written} written, {n_refused} refused");
}
