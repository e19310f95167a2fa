//! Tables and lenses as Parquet and Arrow files.

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
    // The output is replaced only on request, and its bytes do not depend on the number of threads.
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
fn a_condition_selects_the_rows_that_are_written() {
    let place = tempfile::tempdir().unwrap();
    for (name, table, condition) in [
        ("drmemtrace/threadsig.x64", "lens.accesses", "kind = 'write' AND size = 8"),
        ("cacheray/structs.trace", "records", "type = 'write' OR size > 4"),
        ("apitrace/tri.trace", "calls", "function LIKE 'gl%'"),
        ("din/labels.din", "lens.accesses", "addr >= 4096"),
    ] {
        let trace = trace(name);
        let counting = ["analyze", "aggregate", "--json", "--agg", "count()", "--of", table];
        let counted = quipu(&[&counting[..], &["--where", condition, &trace]].concat());
        let counted: Value = serde_json::from_slice(&counted.stdout).unwrap();
        let n_rows = counted["results"]["aggregate"]["rows"].as_u64().unwrap();
        assert!(n_rows > 0, "{name}");
        for file in ["out.parquet", "out.arrow"] {
            let out = place.path().join(file);
            let call = ["convert", "--json", "--force", "--table", table, "--where", condition, &trace, "-o"];
            let done = quipu(&[&call[..], &[out.to_str().unwrap()]].concat());
            assert_eq!(done.status.code(), Some(0), "{name}: {done:?}");
            let answer: Value = serde_json::from_slice(&done.stdout).unwrap();
            let key = if file == "out.arrow" { "rows" } else { table };
            assert_eq!(answer[key].as_u64(), Some(n_rows), "{name}: {answer}");
        }
    }
    let out = place.path().join("refused.parquet");
    let trace = trace("cacheray/structs.trace");
    for (more, words) in [
        (&["--where", "size > 4"][..], "name one with --table"),
        (&["--table", "records", "--where", "sise > 4"], "did you mean `size`?"),
    ] {
        let done = quipu(&[&["convert", &trace, "-o", out.to_str().unwrap()], more].concat());
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(2) && said.contains(words), "{more:?}: {said}");
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

/// Exit codes and errors of verbs that read a trace; `%` is an output file.
fn told(trace: &Path, calls: &[&[&str]]) -> Vec<(String, Option<i32>, String)> {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let run = |call: &&[&str]| {
        let words = call.iter().map(|word| word.replace('%', out.to_str().unwrap()));
        let mut quipu = Command::new(env!("CARGO_BIN_EXE_quipu"));
        let done = quipu.arg(call[0]).arg(trace).args(words.skip(1)).output().unwrap();
        assert!(std::fs::read_dir(place.path()).unwrap().next().is_none(), "{call:?} writes");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let text =
            if call[0] == "check" { text(&done.stdout) + &text(&done.stderr) } else { text(&done.stderr) };
        let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("error: ")).collect();
        (call.join(" "), done.status.code(), errors.join("\n"))
    };
    calls.iter().map(run).collect()
}

const VERBS: &[&[&str]] = &[
    &["check"],
    &["view"],
    &["report"],
    &["info"],
    &["convert", "-o", "%.quipu"],
    &["convert", "-o", "%.parquet"],
    &["convert", "-o", "-"],
];

/// A Parquet file and an Arrow file.
fn files(place: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let arrow = place.join("whole.arrow");
    let shapes = trace("cacheray/shapes.trace");
    let done = quipu(&["convert", "-q", "--table", "records", &shapes, "-o", arrow.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let parquet = std::fs::read(fixtures("columnar").join("pyarrow.parquet")).unwrap();
    vec![("parquet", parquet), ("arrow", std::fs::read(&arrow).unwrap())]
}

#[test]
fn a_damaged_head_or_footer_is_damage_to_every_verb() {
    let place = tempfile::tempdir().unwrap();
    for (ending, whole) in files(place.path()) {
        let flipped = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x90;
            bytes
        };
        let n = whole.len();
        let zeros = [vec![0; 64], whole[64..].to_vec()].concat();
        let blank = [whole[..12].to_vec(), vec![0xff; n - 12]].concat();
        let is_parquet = ending == "parquet";
        // What is damaged, and whether this loses all rows.
        for (what, bytes, is_all) in [
            ("head", flipped(0), false),
            ("mark at the end", flipped(n - 1), false),
            ("length of the footer", flipped(if is_parquet { n - 6 } else { n - 8 }), is_parquet),
            ("no last byte", whole[..n - 1].to_vec(), is_parquet),
            ("cut", whole[..n * 65 / 100].to_vec(), is_parquet),
            ("first bytes zeros", zeros, false),
            ("all but the first bytes", blank, true),
            ("no bytes", Vec::new(), true),
        ] {
            let path = place.path().join(format!("damaged.{ending}"));
            std::fs::write(&path, bytes).unwrap();
            let told = told(&path, VERBS);
            let first = &told[0].2;
            assert!(first.contains(&format!("damaged.{ending}: offset 0x")), "{ending}, {what}: {first}");
            let n_said = told.iter().filter(|(_, code, errors)| {
                let has_loss = errors.lines().next().unwrap_or_default().contains(" lost after ");
                *code == Some(1)
                    && (!is_all || has_loss && errors.contains("nothing of the file can be read"))
            });
            assert_eq!(n_said.count(), VERBS.len(), "{ending}, {what}: {told:#?}");
            // All verbs report the same place.
            let at = |errors: &str| {
                let line = errors.lines().find(|line| line.contains("offset 0x") && !line.contains(" lost "));
                line.map(|line| {
                    line.split_once(": ").unwrap().1.split(": ").take(2).collect::<Vec<_>>().join(": ")
                })
            };
            let is_same = |(_, _, errors): &(String, Option<i32>, String)| match at(first) {
                Some(place) => errors.contains(&place),
                None => false,
            };
            assert!(told.iter().all(is_same), "{ending}, {what}: {told:#?}");
        }
    }
}

#[test]
fn a_folder_without_its_manifest_is_damaged() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("t.parquet");
    let trace = trace("cacheray/shapes.trace");
    let done = quipu(&["convert", "-q", &trace, "-o", out.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let manifest = std::fs::read(out.join("quipu.json")).unwrap();
    std::fs::write(out.join("quipu.json"), &manifest[..manifest.len() / 2]).unwrap();
    let cut = told(&out, VERBS);
    std::fs::remove_file(out.join("quipu.json")).unwrap();
    for (call, code, errors) in cut.into_iter().chain(told(&out, VERBS)) {
        assert!(code == Some(1) && errors.contains(" lost after "), "{call}: {code:?} {errors}");
        assert!(errors.contains("nothing of the file can be read: "), "{call}: {errors}");
    }
}

#[test]
fn an_arrow_file_is_read_on_after_a_damaged_message() {
    let place = tempfile::tempdir().unwrap();
    let [path, undamaged] = ["damaged.arrow", "whole.arrow"].map(|name| place.path().join(name));
    let nodes = trace("lackey/nodes.lackey.gz");
    let done = quipu(&["convert", "-q", "--table", "records", &nodes, "-o", undamaged.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let whole = std::fs::read(&undamaged).unwrap();
    let lines = |path: &Path| {
        let done = quipu(&["view", "-q", path.to_str().unwrap()]);
        String::from_utf8_lossy(&done.stdout).lines().count()
    };
    let n_all = lines(&undamaged);
    // Starts of messages: a marker and a length.
    let is_head = |at: &usize| {
        let length = whole[at + 4..at + 8].iter().rev().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
        whole[*at..].starts_with(&[0xff; 4]) && (1..4096).contains(&length)
    };
    let heads: Vec<usize> = (8..whole.len() - 8).step_by(8).filter(is_head).collect();
    assert!(heads.len() > 3, "{heads:?}");
    let mut n_read_on = 0;
    for head in &heads {
        let mut bytes = whole.clone();
        bytes[*head..head + 8].fill(0x11);
        std::fs::write(&path, bytes).unwrap();
        for (call, code, errors) in told(&path, VERBS) {
            assert!(
                code == Some(1) && errors.contains(&format!("offset {head:#x}")),
                "{call}: {code:?} {errors}"
            );
        }
        let n = lines(&path);
        assert!(n <= n_all);
        n_read_on += usize::from(n > 2 && n < n_all);
    }
    assert!(n_read_on > 0, "{n_read_on} of {}", heads.len());
}

/// Either a message or the footer is enough; that they contradict each other is reported by all verbs, in one line.
#[test]
fn an_arrow_file_whose_footer_and_messages_differ_is_read_by_what_is_good() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("odd.arrow");
    let whole = std::fs::read(fixtures("columnar").join("mixed.arrow")).unwrap();
    let rows = |path: &Path| quipu(&["view", "-q", path.to_str().unwrap()]).stdout;
    std::fs::write(&path, &whole).unwrap();
    let all = rows(&path);
    let zeros = |at: usize, n: usize| {
        let mut bytes = whole.clone();
        bytes[at..at + n].fill(0);
        bytes
    };
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        bytes
    };
    for (what, bytes, said) in [
        ("count of batches", zeros(7348, 1), "the footer leaves out 1 messages that stand in the file"),
        ("place of batches", zeros(4826, 1), "the footer leaves out 1 messages that stand in the file"),
        ("count of dictionaries", zeros(7380, 1), "the footer leaves out 1 messages that stand in the file"),
        ("place of a batch", flipped(7352), "the footer leaves out 1 messages that stand in the file"),
        ("schema of the head", zeros(1059, 64), "the first message and the footer have different schemas"),
        ("head of the schema", flipped(1648), ""),
        ("footer", flipped(7218), "the footer is damaged: "),
    ] {
        std::fs::write(&path, bytes).unwrap();
        for (call, code, errors) in told(&path, VERBS) {
            assert!(
                code == Some(1) && errors.contains(said) && errors.contains("odd.arrow: offset 0x"),
                "{what}: {call}: {code:?} {errors}"
            );
        }
        let check = quipu(&["check", path.to_str().unwrap()]);
        let check = String::from_utf8_lossy(&check.stdout);
        assert!(check.contains("columnar/damaged-mark"), "{what}: {check}");
        assert!(!check.contains("verifying"), "{what}: {check}");
        assert!(rows(&path) == all, "{what}: {check}");
    }
}

/// A stream made of damaged tables records their losses, like copies in every other format.
#[test]
fn a_stream_of_damaged_tables_carries_what_they_lost() {
    let place = tempfile::tempdir().unwrap();
    let nodes = trace("lackey/nodes.lackey.gz");
    let out = place.path().join("kept.quipu");
    for ending in ["arrow", "arrows", "parquet"] {
        let path = place.path().join(format!("whole.{ending}"));
        let done = quipu(&["convert", "-q", "--table", "records", &nodes, "-o", path.to_str().unwrap()]);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
        let file = if ending == "parquet" { path.join("records/shard-00000.parquet") } else { path.clone() };
        let whole = std::fs::read(&file).unwrap();
        let mut flipped = whole.clone();
        // Arrow values have no checksum, so the start of a message is damaged instead.
        let is_head = |at: &usize| whole[*at..].starts_with(&[0xff; 4]) && whole[at + 6..at + 8] == [0, 0];
        let at = (whole.len() / 3..).find(|at| ending == "parquet" || at % 8 == 0 && is_head(at)).unwrap();
        flipped[at..at + 64].fill(0x11);
        for bytes in [flipped, whole[..whole.len() * 2 / 3].to_vec()] {
            std::fs::write(&file, bytes).unwrap();
            let kept =
                quipu(&["convert", "--keep-damaged", path.to_str().unwrap(), "-o", out.to_str().unwrap()]);
            let said = String::from_utf8_lossy(&kept.stderr).into_owned();
            assert_eq!(kept.status.code(), Some(1), "{ending}: {said}");
            // From a Parquet file without its footer, nothing can be kept.
            assert!(out.exists() || said.contains("nothing of the trace can be read"), "{ending}: {said}");
            if said.contains(" lost ") && out.exists() {
                for verb in ["check", "info", "view"] {
                    let done = quipu(&[verb, out.to_str().unwrap()]);
                    let said = String::from_utf8_lossy(&done.stderr).into_owned();
                    assert!(
                        done.status.code() == Some(1) && said.contains("lost"),
                        "{ending}: {verb}: {said}"
                    );
                }
                std::fs::remove_file(&out).unwrap();
            }
        }
    }
}

/// A folder whose only table is damaged has no rows for a stream; but it would be wrong to report that it has no table.
#[test]
fn a_table_that_is_not_there_or_damaged_is_lost() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("s.parquet");
    let copy = |table: &str, name: &str| {
        std::fs::create_dir_all(path.join(table)).unwrap();
        let from = fixtures("columnar/shapes.parquet").join(table).join(name);
        std::fs::copy(from, path.join(table).join(name)).unwrap();
    };
    copy("", "quipu.json");
    for table in ["records", "lens.accesses", "lens.threads", "lens.regions"] {
        copy(table, "shard-00000.parquet");
    }
    let file = path.join("records/shard-00000.parquet");
    let whole = std::fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() - 20] ^= 0x41;
    for bytes in [None, Some(whole[..whole.len() / 2].to_vec()), Some(flipped)] {
        match &bytes {
            Some(bytes) => std::fs::write(&file, bytes).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        for (call, code, errors) in told(&path, VERBS) {
            let is_told = errors.contains(" lost after ") && errors.contains("records/shard-00000.parquet");
            assert!(code == Some(1) && is_told, "{call}: {code:?} {errors}");
        }
    }
}

/// If the damaged page belongs to a table that no lens needs, analyses may not notice it, but `check` does.
#[test]
fn check_reads_every_column_of_every_table() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("t.parquet");
    let trace = trace("lackey/nodes.lackey.gz");
    let done = quipu(&["convert", "-q", &trace, "-o", out.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let said = |path: &str| {
        let done = quipu(&["check", "-q", path]);
        (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let mut n_files = 0;
    for table in std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path()) {
        if !table.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(&table).unwrap().map(|entry| entry.unwrap().path()) {
            let whole = std::fs::read(&file).unwrap();
            let mut footer = [0; 4];
            footer.copy_from_slice(&whole[whole.len() - 8..whole.len() - 4]);
            let n_pages = whole.len() - 8 - u32::from_le_bytes(footer) as usize;
            // An index of pages follows them.
            let has_rows = n_pages > 20_000;
            for part in (1..18).filter(|_| has_rows) {
                let mut bytes = whole.clone();
                bytes[n_pages * part / 20] ^= 0x10;
                std::fs::write(&file, bytes).unwrap();
                let (code, text) = said(out.to_str().unwrap());
                let name = file.strip_prefix(&out).unwrap().to_str().unwrap();
                let is_told = code == Some(1) && text.contains(name) && text.contains("[columnar/");
                assert!(is_told, "{name} {part}: {code:?} {text}");
            }
            std::fs::write(&file, whole).unwrap();
            n_files += usize::from(has_rows);
        }
    }
    assert!(n_files > 2, "{n_files}");
}
