//! Workload events of Prism through the verbs: what they show, check, convert and run.

use quipu_testkit::fixtures;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn quipu(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quipu")).args(args).output().unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = quipu(args);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{args:?}: {output:?}"))
}

fn sample(name: &str) -> String {
    fixtures("prism").join(name).to_str().unwrap().to_owned()
}

fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut out).unwrap();
    out
}

/// Files of a folder by name, unpacked.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let bytes = std::fs::read(&path).unwrap();
        match name.strip_suffix(".gz") {
            Some(stem) => all.insert(stem.to_owned(), gunzip(&bytes)),
            None => all.insert(name, bytes),
        };
    }
    all.retain(|name, _| !name.ends_with(".json"));
    all
}

/// A file in a folder.
fn put(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A buffer of the fixed encoding: what each slot begins with, and names.
fn buffer(slots: &[&[u8]], names: &[u8]) -> Vec<u8> {
    let mut bytes = [(slots.len() as u64).to_le_bytes(), (names.len() as u64).to_le_bytes()].concat();
    for slot in slots {
        bytes.extend_from_slice(slot);
        bytes.extend(std::iter::repeat_n(0xee, 18 - slot.len()));
    }
    bytes.extend_from_slice(names);
    bytes
}

fn sync(kind: u8, data: u64) -> Vec<u8> {
    [&[5, kind][..], &data.to_le_bytes(), &[0; 8]].concat()
}

fn named(kind: u8, index: u32, len: u32) -> Vec<u8> {
    [&[4, kind][..], &index.to_le_bytes(), &len.to_le_bytes()].concat()
}

/// Each rule with bytes that break it, and their encoding.
fn broken() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let swap = sync(5, 1);
    let with = |slots: &[&[u8]], names: &[u8]| {
        let slots: Vec<&[u8]> = std::iter::once(&swap[..]).chain(slots.iter().copied()).collect();
        buffer(&slots, names)
    };
    let configured =
        |rest: &[u8]| [&[0xa0, 0xe0, 0xa4, 0x80, 0x45, 1, 0, 0, 0, 0, 0, 0, 0][..], rest].concat();
    let store = [&[1][..], &0x1000u64.to_le_bytes(), &[0, 0, 2]].concat();
    let (whole, head) = (with(&[], b""), [&9999u64.to_le_bytes()[..], &[0; 8]].concat());
    vec![
        ("empty", "fixed", Vec::new()),
        ("cut", "fixed", whole[..30].to_vec()),
        ("cut", "variable", configured(&[0x0b, 1, 2])),
        ("unknown-kind", "variable", configured(&[0xe0, 1, 2, 3])),
        ("unknown-kind", "variable", configured(&[0x7f, 1, 2, 3])),
        ("unknown-tag", "fixed", with(&[&[9]], b"")),
        ("buffer", "fixed", [whole.clone(), head].concat()),
        ("name", "fixed", with(&[&named(3, 2, 9)], b"main\0")),
        ("name", "fixed", with(&[&named(3, 0, 4)], b"main\0")),
        ("unknown-configuration", "variable", configured(&[0xbc, 0xff])),
        ("no-configuration", "variable", vec![0x45, 1, 0, 0, 0, 0, 0, 0, 0]),
        ("no-thread", "fixed", buffer(&[&store[..9]], b"")),
        ("wait-without-mutex", "fixed", with(&[&sync(8, 7)], b"")),
        ("no-bytes", "fixed", with(&[&store], b"")),
        ("unlock-without-lock", "fixed", with(&[&sync(7, 7)], b"")),
        ("lock-held", "fixed", with(&[&sync(6, 7)], b"")),
        ("join-without-create", "fixed", with(&[&sync(2, 7)], b"")),
        ("exit-without-enter", "fixed", with(&[&named(4, 0, 5)], b"main\0")),
    ]
}

#[test]
fn each_rule_of_prism_is_broken_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = Vec::new();
    let rules = quipu::format_named("prism").unwrap().rules();
    for (nth, (rule, encoding, bytes)) in broken().into_iter().enumerate() {
        let path = put(folder.path(), &format!("{nth}.bin"), &bytes);
        let open = format!("encoding={encoding}");
        let output = quipu(&["check", "--json", "--format", "prism", "--open", &open, &path]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let full = format!("prism/{rule}");
        assert!(said.contains(&full), "{nth} {rule}: {said} {}", String::from_utf8_lossy(&output.stderr));
        let severity = rules.iter().find(|rule| rule.name == full).unwrap().severity;
        let code = i32::from(severity == quipu::model::Severity::Error);
        assert_eq!(output.status.code(), Some(code), "{nth} {rule}: {said}");
        seen.push(full);
    }
    for rule in rules {
        assert!(seen.iter().any(|seen| seen == rule.name), "{} is broken by no bytes", rule.name);
    }
}

#[test]
fn a_wrong_name_loses_its_event_alone() {
    let folder = tempfile::tempdir().unwrap();
    let slots = [&sync(5, 1)[..], &named(3, 2, 9), &sync(6, 0x40), &named(3, 0, 5)];
    let path = put(folder.path(), "name.bin", &buffer(&slots, b"main\0"));
    let output = quipu(&["view", "--format", "prism", &path]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("lock") && text.contains("0x40") && text.contains("main"), "{text}");
}

#[test]
fn streams_of_both_encodings_hold_the_same_events() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let dump = sample("fixed/prodcons.main.fixed18.gz");
    let convert = |args: &[&str]| {
        let output = quipu(&[&["convert", "-q"], args].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    convert(&["--format", "prism", "--open", "encoding=fixed", &dump, "-o", &at("fixed.prism")]);
    convert(&[&at("fixed.prism"), "--events", "variable", "-o", &at("variable.prism")]);
    convert(&[&at("variable.prism"), "--events", "fixed", "-o", &at("back.quipu")]);
    convert(&[&at("fixed.prism"), "--plain", "-o", &at("plain.bin")]);
    // Bytes that mean nothing are kept where buffers are copied.
    assert!(std::fs::read(at("plain.bin")).unwrap() == gunzip(&std::fs::read(&dump).unwrap()));
    let rows = |path: &str| {
        let output = quipu(&["view", "--table", "events", "--csv", path]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        // Configuration events come first; numbers of records differ by them.
        let text = String::from_utf8(output.stdout).unwrap();
        let rows = text.lines().skip(1).filter(|line| !line.contains("configure-"));
        rows.map(|line| line.split_once(',').unwrap().1.to_owned()).collect::<Vec<_>>()
    };
    let fixed = rows(&at("fixed.prism"));
    assert_eq!(fixed.len(), 55_605);
    assert!(rows(&at("variable.prism")) == fixed && rows(&at("back.quipu")) == fixed);
    let info = json(&["info", "--json", &at("back.quipu")]);
    assert_eq!((&info["format"], &info["facts"]["encoding"]), (&"prism".into(), &"fixed".into()));
    let counts = json(&["info", "--json", &at("variable.prism")]);
    assert_eq!(counts["facts"]["by_type"]["enter"], 315, "{counts}");
    // What an encoding has no room for is refused, with the event.
    let ids = quipu(&[
        "convert",
        "--format",
        "prism",
        &sample("variable/vector-75.bin"),
        "--events",
        "fixed",
        "-o",
        &at("no"),
    ]);
    assert_eq!(ids.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ids.stderr).contains("no room for ids"), "{ids:?}");
    assert!(!Path::new(&at("no")).exists());
}

/// Runs stgen over a sample and compares all files with what Prism wrote.
fn golden(program: &str, form: &str, count: u32, folder: &Path) {
    let name = format!("stgen/{program}.stgen-{form}-c{count}");
    let out = folder.join(format!("{program}-{form}-{count}"));
    let backend = format!("stgen,c={count},l={form}");
    let input = sample(&format!("fixed/{program}.full.fixed18.zst"));
    let output = quipu(&[
        "run",
        "-q",
        "--format",
        "prism",
        "--open",
        "encoding=fixed",
        "--backend",
        &backend,
        "--quirks",
        &input,
        "-o",
        out.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let (expected, written) = (files(&fixtures("prism").join(&name)), files(&out));
    assert!(expected.len() >= 4, "{name}");
    for (file, expected) in &expected {
        // Messages are divided in another way.
        if !file.contains(".capn.") {
            assert!(written.get(file) == Some(expected), "{name}: {file} differs");
        }
    }
    assert_eq!(written.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{name}");
}

#[test]
fn back_ends_write_what_prism_writes() {
    let folder = tempfile::tempdir().unwrap();
    for form in ["text", "textv2"] {
        for count in [1, 10, 100] {
            golden("prodcons", form, count, folder.path());
        }
    }
    golden("prodcons", "capnp", 100, folder.path());
    let out = folder.path().join("several");
    let input = sample("fixed/threads.full.fixed18.zst");
    let output = quipu(&[
        "run",
        "-q",
        "--format",
        "prism",
        "--backend",
        "SimpleCount",
        "--backend",
        "sigilclassic",
        "--backend",
        "stgen",
        &input,
        "-o",
        out.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines = std::fs::read(out.join("simplecount/simplecount.txt")).unwrap();
    assert!(lines == std::fs::read(sample("stgen/threads.simplecount.txt")).unwrap());
    assert!(out.join("sigilclassic/sigilclassic.tsv").is_file());
    assert!(out.join("stgen/sigil.stats.out").is_file());
    // Values are right where quirks are not asked for: barriers have theirs.
    let stats = std::fs::read_to_string(out.join("stgen/sigil.stats.out")).unwrap();
    assert!(stats.contains("Barrier: 1097856\n\tIOPs: ") && !stats.contains("IOPs: \n"), "{stats}");
    // A folder is replaced if that is asked for, and else kept.
    let again = |more: &[&str]| {
        let args =
            ["run", "-q", "--format", "prism", "--backend", "null", &input, "-o", out.to_str().unwrap()];
        quipu(&[&args[..], more].concat()).status.code()
    };
    assert_eq!(again(&[]), Some(2));
    assert!(out.join("stgen/sigil.stats.out").is_file());
    assert_eq!(again(&["--force"]), Some(0));
}

#[test]
fn wrong_back_ends_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    for (backend, said) in [
        (&["--backend", "stgn"][..], "there is no back end `stgn`"),
        (&["--backend", "stgen,x=1"], "stgen has no such option"),
        (&["--backend", "null,c=1"], "null has no option `c=1`"),
        (&[], "`--backend` is missing"),
    ] {
        let input = sample("variable/vector-75.bin");
        let args = ["run", "--format", "prism", &input, "-o", out.to_str().unwrap()];
        let output = quipu(&[&args[..], backend].concat());
        assert_eq!(output.status.code(), Some(2), "{backend:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(said), "{output:?}");
        assert!(!out.exists());
    }
}

#[test]
fn prism_s_own_options_give_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (sample("fixed/prodcons.full.fixed18.zst"), folder.path().to_str().unwrap());
    let executable = format!("--executable={input}");
    let run = quipu(&["as", "prism", "--backend=stgen", "-c10", "-l", "textv2", "-o", out, &executable]);
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert!(files(folder.path()) == files(&fixtures("prism").join("stgen/prodcons.stgen-textv2-c10")));
    // Files are replaced, as Prism does.
    let run = quipu(&["as", "prism", "--backend=stgen", "-c", "10", "-o", out, "--executable", &input]);
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert!(files(folder.path()) == files(&fixtures("prism").join("stgen/prodcons.stgen-text-c10")));
    let run = quipu(&["as", "prism", "--backend=simplecount", &executable]);
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    assert!(run.stderr == std::fs::read(sample("stgen/prodcons.simplecount.txt")).unwrap(), "{run:?}");
    for (args, said) in [
        (
            &["--frontend=valgrind", "--at-func=main", "--backend=null"][..],
            "`--at-func=main` is about watching",
        ),
        (&["--backend=null", "-x"], "back end null has no such option"),
        (&["--num-threads=17"], "a number from 1 to 16"),
        (&["--nonsense"], "no such option"),
    ] {
        let run = quipu(&[&["as", "prism"], args, &[&executable]].concat());
        assert_eq!(run.status.code(), Some(2), "{args:?}: {run:?}");
        assert!(String::from_utf8_lossy(&run.stderr).contains(said), "{args:?}: {run:?}");
    }
}

/// Loads, stores and instructions of a trace, as its analyses count them.
fn counted(trace: &str) -> [u64; 3] {
    if trace.contains("cacheray") {
        let info = json(&["info", "--json", trace]);
        return [info["facts"]["reads"].as_u64().unwrap(), info["facts"]["writes"].as_u64().unwrap(), 0];
    }
    let mix = json(&["analyze", "--json", "mix", trace]);
    let found = |key: &str| find(&mix, key).unwrap_or_else(|| panic!("{key}: {mix}"));
    [found("loads"), found("stores"), found("instructions")]
}

/// The first number of this name, wherever it stands.
fn find(value: &Value, key: &str) -> Option<u64> {
    match value {
        Value::Object(map) => match map.get(key).and_then(Value::as_u64) {
            Some(number) => Some(number),
            None => map.values().find_map(|value| find(value, key)),
        },
        Value::Array(items) => items.iter().find_map(|value| find(value, key)),
        _ => None,
    }
}

fn traces() -> [PathBuf; 4] {
    [
        fixtures("drmemtrace").join("thr"),
        fixtures("drmemtrace").join("tiny.gz/drmemtrace.tiny.05701.3845.trace.gz"),
        fixtures("lackey").join("nodes.lackey.gz"),
        fixtures("cacheray").join("structs.trace"),
    ]
}

#[test]
fn recorded_traces_give_as_many_events_as_they_have_records() {
    let folder = tempfile::tempdir().unwrap();
    for (nth, trace) in traces().iter().enumerate() {
        let trace = trace.to_str().unwrap();
        let out = folder.path().join(format!("{nth}.prism"));
        let out = out.to_str().unwrap();
        let output = quipu(&["convert", "-q", trace, "-o", out, "--set", "events=fixed"]);
        assert_eq!(output.status.code(), Some(0), "{trace}: {}", String::from_utf8_lossy(&output.stderr));
        let info = json(&["info", "--json", out]);
        let of = |name: &str| info["facts"]["by_type"][name].as_u64().unwrap_or(0);
        let has_instrs = !trace.contains("cacheray");
        let [loads, stores, instrs] = counted(trace);
        assert_eq!([of("load"), of("store")], [loads, stores], "{trace}");
        if has_instrs {
            assert_eq!(of("instruction"), instrs, "{trace}");
        }
        let run = folder.path().join(format!("{nth}.run"));
        let output = quipu(&[
            "run",
            "-q",
            "--backend",
            "stgen",
            "--backend",
            "simplecount",
            trace,
            "-o",
            run.to_str().unwrap(),
        ]);
        assert_eq!(output.status.code(), Some(0), "{trace}: {}", String::from_utf8_lossy(&output.stderr));
        let lines = std::fs::read_to_string(run.join("simplecount/simplecount.txt")).unwrap();
        let line = |name: &str| {
            let start = format!("[SimpleCount] Total {name:<9} Events: ");
            let found = lines.lines().find_map(|line| line.strip_prefix(&start));
            found.unwrap().parse::<u64>().unwrap()
        };
        assert_eq!([line("ReadMem"), line("WriteMem"), line("Instr")], [loads, stores, of("instruction")]);
        let (reads, writes) = totals(&run.join("stgen/sigil.stats.out"));
        assert_eq!([reads, writes], [loads, stores], "{trace}");
    }
}

/// Reads and writes of all threads.
fn totals(stats: &Path) -> (u64, u64) {
    let text = std::fs::read_to_string(stats).unwrap();
    let sum = |name: &str| {
        let numbers = text.lines().filter_map(|line| line.trim().strip_prefix(name));
        numbers.filter_map(|number| number.trim().parse::<u64>().ok()).sum()
    };
    (sum("Reads :"), sum("Writes:"))
}
