//! Text traces through the verbs: viewing, simulation and conversion.

// A test whose setup fails has failed.
use crate::damage::{self, VERBS};
use quipu_testkit::fixtures;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn quipu(args: &[&str]) -> Output {
    let traces = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces");
    Command::new(env!("CARGO_BIN_EXE_quipu")).current_dir(traces).args(args).output().unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = quipu(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}: {errors}"))
}

/// The exit code, and the conversion report as outcome, item, count.
fn converted(args: &[&str]) -> (Option<i32>, Vec<(String, String, u64)>) {
    let output = quipu(&[&["convert", "--json"], args].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"));
    let text = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    let ledger = answer["ledger"].as_array().unwrap().iter();
    let ledger =
        ledger.map(|line| (text(line, "outcome"), text(line, "what"), line["count"].as_u64().unwrap()));
    (output.status.code(), ledger.collect())
}

fn ledger(lines: &[(&str, &str, u64)]) -> Vec<(String, String, u64)> {
    lines.iter().map(|(outcome, what, count)| ((*outcome).to_owned(), (*what).to_owned(), *count)).collect()
}

/// Counts of the default caches for data.
fn data_caches(trace: &str) -> Value {
    json(&["sim", "cache", "--json", trace])["results"]["caches"]["caches"].clone()
}

#[test]
fn lackey_becomes_entries_with_all_its_records() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("nodes.zip").to_str().unwrap().to_owned();
    let (code, found) = converted(&["lackey/nodes.lackey.gz", "-o", &to, "--to", "drmemtrace"]);
    // A modification is a read and a write: 7662 loads, 3249 stores, 25 that do both.
    let expected = ledger(&[
        ("kept", "accesses", 10_961),
        ("kept", "PCs of accesses", 10_961),
        ("kept", "instructions", 45_588),
        ("kept", "beginnings of threads", 1),
        ("dropped", "messages of Valgrind", 25),
        ("made up", "ends of threads", 1),
        ("made up", "size of lines", 1),
        ("made up", "size of pages", 1),
    ]);
    assert_eq!((code, found), (Some(0), expected));
    let checked = quipu(&["check", &to]);
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
    // Any machine gives the same results for both.
    let (here, there) = (data_caches("lackey/nodes.lackey.gz"), data_caches(&to));
    assert!(here.as_array().is_some_and(|caches| caches.len() >= 3), "{here}");
    assert_eq!(here, there);
}

#[test]
fn what_is_lost_is_counted_and_ends_with_1_if_nothing_must_be() {
    let folder = tempfile::tempdir().unwrap();
    let to = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (code, found) =
        converted(&["lackey/nodes.lackey.gz", "-o", &to("a.trace"), "--to", "cacheray", "--lossless"]);
    let expected = ledger(&[
        // 34 of the reads have 32 bytes.
        ("kept", "reads", 7_653),
        ("kept", "accesses of 17 to 127 bytes, which Cacheray never writes", 34),
        ("kept", "writes", 3_274),
        ("kept", "beginnings of threads", 1),
        ("dropped", "instructions", 45_588),
        ("dropped", "PCs of accesses", 10_961),
        ("dropped", "messages of Valgrind", 25),
        ("dropped", "numbers of processes", 1),
    ]);
    let sorted = |mut lines: Vec<(String, String, u64)>| {
        lines.sort();
        lines
    };
    assert_eq!((code, sorted(found)), (Some(1), sorted(expected)));
    // A format for data accesses with sizes has room for all of it.
    let data = folder.path().join("data.din");
    std::fs::write(&data, "0 1000\n1 1008\n0 7ffe0010\n").unwrap();
    let data = data.to_str().unwrap();
    let lossless = |name: &str, more: &[&str]| {
        converted(&[&[data, "-o", &to(name), "--to", "cacheray", "--lossless"], more].concat())
    };
    let (code, found) = lossless("b.trace", &["--open", "word=8"]);
    assert_eq!(code, Some(0), "{found:?}");
    assert_eq!(
        found,
        ledger(&[("kept", "reads", 2), ("kept", "writes", 1), ("kept", "beginnings of threads", 1)])
    );
    let (code, found) = converted(&["din/labels.din", "-o", &to("d.trace"), "--to", "cacheray"]);
    assert_eq!(code, Some(0));
    assert!(found.contains(&("dropped".into(), "marks".into(), 2)), "{found:?}");
}

#[test]
fn wide_accesses_are_told_apart_and_split_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (from, kept, split) = (path("wide.xdin"), path("kept.trace"), path("split.trace"));
    // Accesses of 16, 17, 127, 128, 255, 256 and 40 bytes, in hexadecimal.
    let lines = "r 1000 10\nr 2000 11\nw 3000 7f\nw 4000 80\nr 5000 ff\nr 6000 100\nw 7000 28\n";
    std::fs::write(&from, lines).unwrap();
    let to = |output: &str, more: &[&str]| {
        converted(&[&[&from, "-o", output, "--to", "cacheray", "--lossless"], more].concat())
    };
    let sizes = |trace: &str| {
        let rows = String::from_utf8(quipu(&["view", "--csv", trace]).stdout).unwrap();
        let of = |name: &str| rows.lines().next().unwrap().split(',').position(|column| column == name);
        let (addr, size) = (of("addr").unwrap(), of("size").unwrap());
        let row = |line: &str| {
            let fields: Vec<&str> = line.split(',').collect();
            format!("{},{}", fields[addr], fields[size])
        };
        rows.lines().skip(1).map(row).collect::<Vec<_>>()
    };
    let (code, found) = to(&kept, &[]);
    let expected = ledger(&[
        ("kept", "reads", 1),
        ("kept", "accesses of 17 to 127 bytes, which Cacheray never writes", 3),
        ("kept", "accesses of 128 to 255 bytes, whose sizes Cacheray takes for negative", 2),
        ("kept", "beginnings of threads", 1),
        ("changed", "accesses of more than 255 bytes, written as several of 16", 1),
    ]);
    assert_eq!((code, found), (Some(1), expected));
    let rows = sizes(&kept);
    assert_eq!(rows.len(), 6 + 16, "{rows:?}");
    assert_eq!(rows[..6], ["0x1000,16", "0x2000,17", "0x3000,127", "0x4000,128", "0x5000,255", "0x6000,16"]);
    let (code, found) = to(&split, &["--set", "wide=split"]);
    let expected = ledger(&[
        ("kept", "reads", 1),
        ("kept", "beginnings of threads", 1),
        ("changed", "accesses of more than 16 bytes, written as several of 16", 6),
    ]);
    assert_eq!((code, found), (Some(1), expected));
    let rows = sizes(&split);
    assert_eq!(rows.len(), 1 + 2 + 8 + 8 + 16 + 16 + 3, "{rows:?}");
    assert_eq!(rows[..3], ["0x1000,16", "0x2000,16", "0x2010,1"]);
    assert_eq!(rows[rows.len() - 3..], ["0x7000,16", "0x7010,16", "0x7020,8"]);
    let output = quipu(&["convert", &from, "-o", &path("x"), "--to", "cacheray", "--set", "wide=all"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn an_access_of_a_megabyte_becomes_few_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (from, to) = (path("huge.xdin"), path("huge.trace"));
    // Accesses of 64 KiB, one byte more, and 1 MiB, in hexadecimal.
    std::fs::write(&from, "r 100000 10000\nr 200000 10001\nw 300000 100000\nr 400000 8\n").unwrap();
    let (code, found) = converted(&[&from, "-o", &to, "--to", "cacheray", "--lossless"]);
    let expected = ledger(&[
        ("kept", "reads", 1),
        ("kept", "beginnings of threads", 1),
        ("changed", "accesses of more than 255 bytes, written as several of 16", 1),
        ("changed", "accesses of more than 64 KiB, cut off there", 2),
    ]);
    assert_eq!((code, found), (Some(1), expected));
    let counted = quipu(&["info", "--json", &to]);
    let info: serde_json::Value = serde_json::from_slice(&counted.stdout).unwrap();
    assert!(info.to_string().contains(&format!("{}", 3 * 4096 + 1)), "{info}");
}

#[test]
fn the_same_accesses_give_the_same_misses_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("nodes.zip").to_str().unwrap().to_owned();
    let (code, _) = converted(&["din/nodes.xdin.gz", "-o", &to, "--to", "drmemtrace"]);
    assert_eq!(code, Some(0));
    assert_eq!(data_caches("din/nodes.xdin.gz"), data_caches(&to));
}

#[test]
fn every_verb_takes_them() {
    for trace in ["lackey/mixed.lackey", "lackey/nodes.lackey.gz", "din/nodes.din.gz", "din/labels.din"] {
        for verb in
            [&["view", "--take", "5"][..], &["info"], &["check"], &["report"], &["analyze", "histogram"]]
        {
            let output = quipu(&[verb, &[trace]].concat());
            // A line of the program among the records is a warning, and so are addresses beyond 4 GiB.
            let allowed = if trace == "lackey/mixed.lackey" { &[0, 1][..] } else { &[0] };
            let code = output.status.code().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(allowed.contains(&code), "{verb:?} {trace}: {code}: {errors}");
            assert!(!output.stdout.is_empty(), "{verb:?} {trace}");
        }
    }
    let output = quipu(&["view", "--csv", "--kind", "store", "--take", "9", "lackey/mixed.lackey"]);
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "record,line,type,addr,size,pc\n2,7,store,0x1fff00077c,4,0x401000\n9,14,store,0x403000,4,0x401019\n"
    );
}

/// Every verb begins with the same sentence about damage within a text or a Cacheray trace, up to the consequence for that
/// verb.
#[test]
fn damage_within_a_trace_has_one_first_line_for_all_verbs() {
    let folder = tempfile::tempdir().unwrap();
    let lackey = "I  0000000004000000,3\n L 000000001ffe0000,8\n".repeat(3000);
    let din = "2 400000\n0 7ff000\n".repeat(3000);
    let cacheray = std::fs::read(fixtures("cacheray").join("reorder-good.trace")).unwrap();
    let zeros = |bytes: &[u8], at: usize| {
        let mut damaged = bytes.to_vec();
        damaged[at..at + 300].fill(0);
        damaged
    };
    for (name, bytes, loss) in [
        ("zeros.lackey", zeros(lackey.as_bytes(), 60_000), "bytes are lost, an unknown number of records"),
        ("cut.lackey", lackey.as_bytes()[..60_005].to_vec(), "bytes are lost, an unknown number of records"),
        ("bad.din", zeros(din.as_bytes(), 20_000), "bytes are lost, an unknown number of records"),
        ("cut.din", din.as_bytes()[..20_005].to_vec(), "bytes are lost, an unknown number of records"),
        ("zeros.cacheray", zeros(&cacheray, 7000), "bytes are lost, an unknown number of records"),
        ("cut.cacheray", cacheray[..14_207].to_vec(), "bytes are lost, an unknown number of records"),
    ] {
        std::fs::write(folder.path().join(name), bytes).unwrap();
        let mut first_lines = std::collections::BTreeSet::new();
        let mut n_verbs = 0;
        for (verb, call) in VERBS {
            let Some(call) = call else { continue };
            let words = call.iter().map(|word| damage::word(word, name, "out"));
            let mut run = Command::new(env!("CARGO_BIN_EXE_quipu"));
            let output = run.current_dir(folder.path()).arg("-q").args(words).output().unwrap();
            if output.status.code() == Some(2) {
                // The verb does not support such traces.
                continue;
            }
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let (first, _) = said.lines().next().unwrap_or_default().rsplit_once("; ").unwrap_or_default();
            assert!(output.status.code() == Some(1) && first.contains(loss), "{verb} {name}: {said}");
            first_lines.insert(first.to_owned());
            n_verbs += 1;
        }
        assert!(first_lines.len() == 1 && n_verbs >= 5, "{name}: {n_verbs} {first_lines:#?}");
    }
}
