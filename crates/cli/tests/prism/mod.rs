//! Prism's workload events through the verbs: viewing, checking, conversion and back ends.

mod damage;
mod recorded;

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

/// Inflated files of a folder, by name.
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

/// Writes a file into a folder; returns its path.
fn put(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A buffer of the fixed encoding, from the first bytes of each slot and the names.
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
    // Padding bytes are preserved when buffers are copied.
    assert!(std::fs::read(at("plain.bin")).unwrap() == gunzip(&std::fs::read(&dump).unwrap()));
    let rows = |path: &str| {
        let output = quipu(&["view", "--table", "events", "--csv", path]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        // Configuration events come first, so the record numbers differ.
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
    // An event that an encoding cannot represent is refused.
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

/// Runs stgen on a sample and compares all files with Prism's.
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
        // Messages are divided differently.
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
    // Values are right unless quirks are requested; Prism omits those of barriers.
    let stats = std::fs::read_to_string(out.join("stgen/sigil.stats.out")).unwrap();
    assert!(stats.contains("Barrier: 1097856\n\tIOPs: ") && !stats.contains("IOPs: \n"), "{stats}");
    // A folder is replaced only on request.
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
    // Files are replaced, as in Prism.
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

/// Reads and writes of all threads.
fn totals(stats: &Path) -> (u64, u64) {
    let text = std::fs::read_to_string(stats).unwrap();
    let sum = |name: &str| {
        let numbers = text.lines().filter_map(|line| line.trim().strip_prefix(name));
        numbers.filter_map(|number| number.trim().parse::<u64>().ok()).sum()
    };
    (sum("Reads :"), sum("Writes:"))
}

#[test]
fn configuration_events_make_no_thread_and_reach_those_that_are_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let convert = |args: &[&str]| {
        let output = quipu(&[&["convert", "-q"], args].concat());
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let threads = |path: &str| json(&["info", "--json", path])["facts"]["threads"].as_u64().unwrap();
    let dump = sample("fixed/threads.full.fixed18.zst");
    convert(&["--format", "prism", &dump, "-o", &at("fixed.prism")]);
    convert(&[&at("fixed.prism"), "--events", "variable", "-o", &at("variable.prism")]);
    assert_eq!(threads(&at("variable.prism")), threads(&at("fixed.prism")));
    for name in ["fixed.prism", "variable.prism"] {
        let one = at(&format!("one-{name}"));
        convert(&["--thread", "2", &at(name), "-o", &one]);
        assert_eq!(threads(&one), 1, "{name}");
        let events = |path: &str| {
            let output = quipu(&["view", "--table", "events", "--csv", "--thread", "2", path]);
            let text = String::from_utf8(output.stdout).unwrap();
            let rows = text.lines().skip(1).filter(|line| !line.contains("configure-"));
            rows.map(|line| line.split_once(',').unwrap().1.to_owned()).collect::<Vec<_>>()
        };
        assert!(events(&one) == events(&at(name)) && events(&one).len() > 1000, "{name}");
    }
    let trace = fixtures("drmemtrace").join("thr");
    convert(&[trace.to_str().unwrap(), "-o", &at("thr.prism")]);
    assert_eq!(threads(&at("thr.prism")), 4);
}

#[test]
fn options_of_reading_may_be_set_too() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let vector = sample("variable/vector-75.bin");
    let said = |option: &str| {
        let args = ["view", "--format", "prism", option, "encoding=variable", option, "detail=all", &vector];
        let output = quipu(&args);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        output.stdout
    };
    assert!(!said("--set").is_empty() && said("--set") == said("--open"));
    let dump = sample("fixed/prodcons.main.fixed18.gz");
    // An option that only reading has is one of reading; all others belong to the output.
    for option in ["--set", "--open"] {
        let name = at(&format!("{option}.prism"));
        done(&[
            "convert",
            "-q",
            "--format",
            "prism",
            option,
            "encoding=fixed",
            "--set",
            "events=variable",
            &dump,
            "-o",
            &name,
        ]);
    }
    assert!(std::fs::read(at("--set.prism")).unwrap() == std::fs::read(at("--open.prism")).unwrap());
    let wrong = quipu(&["info", "--format", "prism", "--set", "encodin=fixed", &dump]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("encodin"), "{wrong:?}");
}

#[test]
fn fields_that_only_an_option_says_are_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    // A swap, an access and a computation without fields.
    let bytes = [&[0x45][..], &1u64.to_le_bytes(), &[0x08, 0x20, 0xc0]].concat();
    let plain = put(folder.path(), "none.bin", &bytes);
    let out = folder.path().join("none.prism").to_str().unwrap().to_owned();
    let open = ["--format", "prism", "--open", "encoding=variable", "--open", "detail=none"];
    let output = quipu(&[&["convert", "-q"], &open[..], &[&plain, "-o", &out]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let info = json(&["info", "--json", &out]);
    assert_eq!(info["facts"]["by_type"]["access"], 1, "{info}");
    assert_eq!(info["facts"]["by_type"]["compute"], 1, "{info}");
}

#[test]
fn names_in_the_table_of_sigilclassic_are_fields_of_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let name = b"=cmd\x1b]0;p\x07\tA\n1\t2\0";
    let load = [&[1][..], &0x1000u64.to_le_bytes(), &[8, 0, 1]].concat();
    let slots: [&[u8]; 3] = [&sync(5, 1), &named(3, 0, name.len() as u32), &load];
    let path = put(folder.path(), "names.bin", &buffer(&slots, name));
    let out = folder.path().join("out");
    let run = quipu(&[
        "run",
        "-q",
        "--backend",
        "sigilclassic",
        "--format",
        "prism",
        &path,
        "-o",
        out.to_str().unwrap(),
    ]);
    assert_eq!(run.status.code(), Some(0), "{run:?}");
    let table = std::fs::read_to_string(out.join("sigilclassic.tsv")).unwrap();
    assert!(table.contains("\t'=cmd\\x1b]0;p\\x07\\x09A\\x0a1\\x092\t"), "{table}");
    for part in table.split("\n\n") {
        let n_fields: Vec<usize> = part.lines().map(|line| line.split('\t').count()).collect();
        assert!(n_fields.iter().all(|n| *n == n_fields[0]), "{table}");
    }
}

#[test]
fn the_report_says_who_works_who_talks_and_who_is_waited_for() {
    let trace = sample("fixed/prodcons.full.fixed18.zst");
    let open = ["--format", "prism", "--open", "encoding=fixed"];
    let report = json(&[&["report", "--json", "--no-machine"], &open[..], &[&trace]].concat());
    let workload = &report["results"]["workload"];
    let sum = |list: &str, key: &str| {
        let items = workload[list].as_array().unwrap();
        items.iter().map(|item| item[key].as_u64().unwrap()).sum::<u64>()
    };
    // As in SimpleCount.
    let counts = std::fs::read_to_string(sample("stgen/prodcons.simplecount.txt")).unwrap();
    let line = |name: &str| {
        let start = format!("[SimpleCount] Total {name:<9} Events: ");
        counts.lines().find_map(|line| line.strip_prefix(&start)).unwrap().parse::<u64>().unwrap()
    };
    for list in ["threads", "functions"] {
        assert_eq!(sum(list, "integer"), line("IOP"), "{list}");
        assert_eq!(sum(list, "float"), line("FLOP"), "{list}");
        assert_eq!([sum(list, "loads"), sum(list, "stores")], [line("ReadMem"), line("WriteMem")], "{list}");
    }
    let path = workload["critical_path"].as_u64().unwrap();
    assert_eq!(sum("threads", "on_critical_path"), path);
    let busiest = workload["threads"].as_array().unwrap().iter().map(|thread| {
        ["integer", "float", "other", "loads", "stores"]
            .iter()
            .map(|key| thread[key].as_u64().unwrap())
            .sum::<u64>()
    });
    let work = workload["work"].as_u64().unwrap();
    assert!(busiest.max().unwrap() <= path && path <= work, "{path} of {work}");
    assert!(sum("communication", "bytes") > 0);
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let output = quipu(&[&["report", "-q", "--html", page.to_str().unwrap()], &open[..], &[&trace]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("bytes from thread (rows) to thread (columns)") && page.contains("critical path"));
}

/// The example of `prism-c`, built with this machine's compiler.
fn front_end(folder: &Path) -> PathBuf {
    let programs = Path::new(env!("CARGO_BIN_EXE_quipu")).parent().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../prism-c");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--offline", "-p", "quipu-prism-c", "--target-dir"]);
    cargo.arg(programs.parent().unwrap()).current_dir(&root);
    if programs.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success());
    let program = folder.join("workload");
    let built = Command::new("cc")
        .args(["-O1", "-I"])
        .arg(root.join("include"))
        .arg(root.join("examples/workload.c"))
        .arg(programs.join("libquipu_prism_c.a"))
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .status();
    assert!(built.unwrap().success());
    program
}

#[test]
fn a_program_that_sends_its_events_runs_with_back_ends() {
    let folder = tempfile::tempdir().unwrap();
    let program = front_end(folder.path());
    let program = program.to_str().unwrap();
    let out = folder.path().join("out").to_str().unwrap().to_owned();
    let output = quipu(&["run", "--json", "--backend", "simplecount", "-o", &out, "--", program]);
    assert_eq!(output.status.code(), Some(1), "an event has no room: {output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("child: thread of its own\ndropped 1\n"), "{said}");
    // Standard output contains only the result.
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["front_ends"], 3, "{answer}");
    assert!(answer["notes"][0].as_str().unwrap().contains("1 event could not be sent"), "{answer}");
    let counts = std::fs::read_to_string(Path::new(&out).join("simplecount.txt")).unwrap();
    let line = |name: &str| counts.lines().any(|line| line == format!("[SimpleCount] {name}"));
    assert!(line("Total ReadMem   Events: 100000") && line("Total IOP       Events: 100000"), "{counts}");
    assert!(line("Total WriteMem  Events: 3") && line("Total Spawn     Events: 1"), "{counts}");

    // Front ends that are started separately.
    let out = folder.path().join("listened").to_str().unwrap().to_owned();
    let mut listener = Command::new(env!("CARGO_BIN_EXE_quipu"));
    listener.args(["run", "--listen", "--backend", "simplecount", "-o", &out]);
    let mut listener =
        listener.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut complaint = std::io::BufReader::new(listener.stderr.take().unwrap());
    let mut first = String::new();
    std::io::BufRead::read_line(&mut complaint, &mut first).unwrap();
    let path = first.trim().strip_prefix("QUIPU_PRISM=").unwrap();
    let ran = Command::new(program).env("QUIPU_PRISM", path).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(listener.wait().unwrap().code(), Some(1));
    let listened = std::fs::read_to_string(Path::new(&out).join("simplecount.txt")).unwrap();
    assert_eq!(listened, counts);

    // A trace and a program exclude each other; a missing program leaves no output.
    let both = quipu(&["run", "--backend", "null", "-o", &out, "x.prism", "--", program]);
    assert_eq!(both.status.code(), Some(2), "{both:?}");
    let out = folder.path().join("none").to_str().unwrap().to_owned();
    let none = quipu(&["run", "--backend", "simplecount", "-o", &out, "--", "/nowhere/program"]);
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    assert!(!Path::new(&out).exists());
}

/// A front end that uses Prism's own delivery, built with this machine's compiler.
fn prism_front_end(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../prism/tests/delivery/front_end.c");
    let program = folder.join("front_end");
    let built = Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(built.success());
    program
}

#[test]
fn front_ends_of_prism_deliver_as_they_do() {
    let folder = tempfile::tempdir().unwrap();
    let program = prism_front_end(folder.path());
    let program = program.to_str().unwrap();
    let run = |delivery: &str, args: &[&str], name: &str| {
        let out = folder.path().join(name).to_str().unwrap().to_owned();
        let first = ["run", "--json", "--backend", "simplecount", "--delivery", delivery, "-o", &out, "--"];
        let output = quipu(&[&first[..], args].concat());
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let counts = std::fs::read_to_string(Path::new(&out).join("simplecount.txt")).unwrap_or_default();
        (output.status.code(), answer, counts, String::from_utf8(output.stderr).unwrap())
    };
    let has = |counts: &str, n: u64| {
        counts.lines().any(|line| line == format!("[SimpleCount] Total WriteMem  Events: {n}"))
            || counts.lines().any(|line| line == format!("[SimpleCount] Total ReadMem   Events: {n}"))
    };
    for (delivery, prefix, layout) in [
        ("prism", "prism", "fixed"),
        ("prism,layout=clocked", "prism", "clocked"),
        ("prism,layout=variable,prefix=sgl2", "sgl2", "variable"),
    ] {
        let args = [program, "{}", prefix, "0", layout, "right", "20000"];
        let (code, answer, counts, said) = run(delivery, &args, layout);
        assert_eq!(code, Some(0), "{delivery}: {said}");
        assert_eq!(answer["channels"], 1, "{answer}");
        assert!(has(&counts, 20_000), "{delivery}: {counts}");
    }
    // A program that opens nothing, one of two channels, and a crash: the events that arrived are kept, and the fault is
    // reported.
    let (code, answer, _, said) = run("prism", &["true"], "nothing");
    assert_eq!(code, Some(1), "{said}");
    assert!(answer["notes"][0].as_str().unwrap().contains("no front end opened this FIFO"), "{answer}");
    let args = [program, "{}", "prism", "0", "fixed", "right", "5000"];
    let (code, answer, counts, _) = run("prism,channels=2", &args, "two");
    assert_eq!((code, &answer["channels"]), (Some(1), &Value::from(2)), "{answer}");
    assert!(answer["notes"][0].as_str().unwrap().starts_with("channel 1: "), "{answer}");
    assert!(has(&counts, 5000), "{counts}");
    for wrong in
        ["prism,layout=odd", "prism,channels=0", "prism,prefix=a/b", "prism,fields=1", "quipu,x=1", "other"]
    {
        let (code, _, _, said) = run(wrong, &["true"], "wrong");
        assert_eq!(code, Some(2), "{wrong}: {said}");
    }

    // `--delivery` does not apply to traces.
    let trace = fixtures("prism").join("prodcons.prism");
    let output = quipu(&["run", "--backend", "null", "--delivery", "prism", trace.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");

    // Separately started front ends get the folder.
    let out = folder.path().join("listened").to_str().unwrap().to_owned();
    let mut listener = Command::new(env!("CARGO_BIN_EXE_quipu"));
    listener.args(["run", "-q", "--listen", "--delivery", "prism", "--backend", "simplecount", "-o", &out]);
    let mut listener = listener.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let mut complaint = std::io::BufReader::new(listener.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut complaint, &mut first).unwrap();
    let status = Command::new(program).args([first.trim(), "prism", "0", "fixed", "right", "7000"]).status();
    assert!(status.unwrap().success());
    assert_eq!(listener.wait().unwrap().code(), Some(0));
    assert!(has(&std::fs::read_to_string(Path::new(&out).join("simplecount.txt")).unwrap(), 7000));
    assert!(!Path::new(first.trim()).exists());
}

#[test]
fn shadow_memory_of_sigilclassic_has_a_bound_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let slot = |page: u64| {
        let mut slot = [0; 18];
        slot[0] = 1;
        slot[1..9].copy_from_slice(&(page << 12).to_le_bytes());
        slot[9] = 8;
        slot[11] = 2;
        slot
    };
    let slots: Vec<[u8; 18]> = (0..20).map(slot).collect();
    let slots: Vec<&[u8]> = slots.iter().map(|slot| &slot[..]).collect();
    let trace = put(folder.path(), "pages.bin", &buffer(&slots, &[]));
    let run = |backend: &str, name: &str| {
        let out = folder.path().join(name).to_str().unwrap().to_owned();
        let output = quipu(&["run", "--format", "prism", "--backend", backend, "-o", &out, &trace]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap(), Path::new(&out).exists())
    };
    let (code, said, is_there) = run("sigilclassic,pages=20", "enough");
    assert_eq!((code, is_there), (Some(0), true), "{said}");
    let (code, said, is_there) = run("sigilclassic,pages=19", "less");
    assert_eq!((code, is_there), (Some(2), false), "{said}");
    assert!(said.contains("touch more than 19 pages of 4096 bytes") && said.contains("`pages=N`"), "{said}");
    assert_eq!(run("sigilclassic,pages=0", "none").0, Some(2));
    assert_eq!(run("sigilclassic,c=1", "none").0, Some(2));
}

/// Rows of the table of events, as CSV.
fn rows(args: &[&str]) -> Vec<String> {
    let output = quipu(&[&["view", "--table", "events", "--csv"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn done(args: &[&str]) {
    let output = quipu(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn files_of_threads_are_one_trace_and_merge_into_what_was_split() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let dump = sample("fixed/threads.full.fixed18.zst");
    done(&["convert", "-q", "--format", "prism", &dump, "-o", &at("fixed.prism")]);
    done(&["convert", "-q", &at("fixed.prism"), "--events", "variable", "-o", &at("variable.prism")]);
    // Two threads with events that change state shared by all.
    let swap = |thread: u8| [&[0x45, thread][..], &[0; 7]].concat();
    let access = |bytes: &[u8]| [&[0x0b][..], bytes].concat();
    let changing = [
        &[0xa0, 0xc0, 0xa4, 0x80][..],
        &swap(1),
        &access(&[]),
        &[0xa0, 0xe0],
        &access(&[1, 2, 3, 4, 5, 6, 0]),
        &swap(2),
        &access(&[2, 2, 3, 4, 5, 6, 0]),
        &[0xa0, 0xf0, 0xa0, 0xf0],
        &access(&[3, 2, 3, 4, 5, 6, 0, 77]),
        &swap(1),
        &access(&[4, 2, 3, 4, 5, 6, 0, 78]),
        &[0xc0],
    ];
    let changing = put(folder.path(), "changing.bin", &changing.concat());
    let open = ["--format", "prism", "--open", "encoding=variable"];
    done(&[&["convert", "-q"], &open[..], &[&changing, "-o", &at("changing.prism")]].concat());
    for (name, n_threads) in [("fixed", 5), ("variable", 5), ("changing", 2)] {
        let (whole, threads, again) =
            (at(&format!("{name}.prism")), at(&format!("{name}.dir")), at(&format!("{name}.again.prism")));
        done(&["split", "-q", &whole, "-o", &threads]);
        let files: Vec<_> = std::fs::read_dir(&threads).unwrap().map(|file| file.unwrap().path()).collect();
        assert_eq!(files.len(), n_threads, "{name}");
        let all = rows(&[&whole]);
        assert!(rows(&[&threads]) == all, "{name}");
        done(&["check", "-q", &threads]);
        done(&["merge", "-q", &threads, "-o", &again]);
        assert!(rows(&[&again]) == all, "{name}");
        if name != "fixed" {
            // Buffers of the fixed encoding end with turns.
            assert!(std::fs::read(&again).unwrap() == std::fs::read(&whole).unwrap(), "{name}");
        }
        // Each file is a trace, and so is the folder without one of them, with the other threads' events in their order.
        let without_ordinal = |rows: Vec<String>, thread: &str| {
            let rows = rows.into_iter().skip(1).map(|row| row.split_once(',').unwrap().1.to_owned());
            let of_thread = rows.filter(|row| row.starts_with(thread) && !row.contains(",configure-"));
            of_thread.collect::<Vec<_>>()
        };
        let first = format!("{threads}/thread-1.prism");
        let own = without_ordinal(rows(&[&first]), "1,");
        assert!(!own.is_empty() && own == without_ordinal(rows(&[&whole]), "1,"), "{name}");
        std::fs::remove_file(&first).unwrap();
        let left = quipu(&["view", "--table", "events", "--csv", &threads]);
        let said = String::from_utf8_lossy(&left.stderr).into_owned();
        assert_eq!(left.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains("missing files: thread-1.prism"), "{name}: {said}");
        let left = String::from_utf8(left.stdout).unwrap().lines().map(str::to_owned).collect();
        let rest = without_ordinal(left, "2,");
        assert!(!rest.is_empty() && rest == without_ordinal(rows(&[&whole]), "2,"), "{name}");
    }
    // There are more threads than files that can be written at once, and they take turns twice.
    let slots: Vec<Vec<u8>> = (0..400).flat_map(|n| [sync(5, 1 + n % 200), sync(6, n)]).collect();
    let slots: Vec<&[u8]> = slots.iter().map(Vec::as_slice).collect();
    let many = put(folder.path(), "many.bin", &buffer(&slots, b""));
    done(&["convert", "-q", "--format", "prism", "--open", "encoding=fixed", &many, "-o", &at("many.prism")]);
    done(&["split", "-q", &at("many.prism"), "-o", &at("many.dir")]);
    assert_eq!(std::fs::read_dir(at("many.dir")).unwrap().count(), 200);
    assert!(rows(&[&at("many.dir")]) == rows(&[&at("many.prism")]));
    // Files of different traces do not form a trace.
    std::fs::copy(at("fixed.prism"), folder.path().join("fixed.dir/other.prism")).unwrap();
    let output = quipu(&["view", &at("fixed.dir")]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("not those of the threads of one trace"), "{said}");
}

#[test]
fn parts_of_events_say_their_thread_and_fields() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let dump = sample("fixed/threads.full.fixed18.zst");
    done(&["convert", "-q", "--format", "prism", &dump, "-o", &at("fixed.prism")]);
    done(&["convert", "-q", &at("fixed.prism"), "--events", "variable", "-o", &at("variable.prism")]);
    let tail = |rows: &[String]| -> Vec<String> {
        rows.iter().map(|row| row.split_once(',').unwrap().1.to_owned()).collect()
    };
    for name in ["fixed", "variable"] {
        let (whole, part) = (at(&format!("{name}.prism")), at(&format!("{name}.part.prism")));
        let all = rows(&[&whole]);
        done(&["trim", "-q", "--force", "--skip", "5000", "--take", "3000", &whole, "-o", &part]);
        let found = rows(&[&part]);
        // The ordinals are new; a configuration event and a swap precede the events.
        let extra = found.len() - 1 - 3000;
        assert!(extra == if name == "fixed" { 1 } else { 4 }, "{name}: {extra}");
        assert!(tail(&found[1 + extra..]) == tail(&all[5001..8001]), "{name}");
        done(&["trim", "-q", "--force", "--skip-instrs", "100", "--take-instrs", "50", &whole, "-o", &part]);
        let found = rows(&[&part]);
        let instrs = |rows: &[String]| rows.iter().filter(|row| row.contains(",instruction,")).count();
        assert_eq!(instrs(&found), 50, "{name}");
        let first =
            all.iter().enumerate().filter(|(_, row)| row.contains(",instruction,")).nth(100).unwrap().0;
        assert!(tail(&found[1 + extra..]) == tail(&all[first..first + found.len() - 1 - extra]), "{name}");

        done(&["filter", "-q", "--force", "--drop", "computation,instruction", &whole, "-o", &part]);
        let is_kept = |row: &&String| {
            let kind = row.split(',').nth(2).unwrap();
            !["compute", "integer", "float", "instruction"].contains(&kind)
        };
        let kept: Vec<String> = all.iter().filter(is_kept).cloned().collect();
        assert!(tail(&rows(&[&part])) == tail(&kept), "{name}");
        done(&["check", "-q", &part]);
    }
    let whole = at("fixed.prism");
    for (wrong, why) in [
        (&["trim", &whole, "-o", "x"][..], "no part is named"),
        (&["trim", "--since", "5", &whole, "-o", "x"], "no clock"),
        (&["filter", &whole, "-o", "x"], "nothing is left out"),
        (&["filter", "--drop", "nonsense", &whole, "-o", "x"], "no records of kind `nonsense`"),
        (&["filter", "--drop", "swap", &whole, "-o", "x"], "stay"),
        (&["trim", "--skip", "100M", &whole, "-o", "x"], "fewer records"),
    ] {
        let output = quipu(wrong);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(why), "{wrong:?}: {said}");
    }
}

#[test]
fn a_stream_of_the_valgrind_front_end_stays_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let bytes = sample("variable/prodcons.sigrind.bin.gz");
    let open = ["--format", "prism", "--open", "encoding=variable", "--open", "sizes=sigrind"];
    done(&[&["convert", "-q"], &open[..], &[&bytes, "-o", &at("a.prism")]].concat());
    done(&["convert", "-q", &at("a.prism"), "-o", &at("b.prism")]);
    done(&["trim", "-q", "--skip", "0", &at("b.prism"), "-o", &at("c.prism")]);
    // Undecidable values are null, as in the source.
    let of_source = rows(&[&open[..], &[&bytes]].concat());
    let tail = |rows: &[String]| -> Vec<String> {
        rows.iter().map(|row| row.split_once(',').unwrap().1.to_owned()).collect()
    };
    assert!(of_source.iter().filter(|row| row.contains(",access,")).count() == 402);
    // A part says the fields of its events first; what is converted whole has no other events than the source.
    for (name, n_configs) in [("a.prism", 0), ("b.prism", 0), ("c.prism", 3)] {
        let found = rows(&[&at(name)]);
        assert!(tail(&found[1 + n_configs..]) == tail(&of_source[1..]), "{name}");
        let info = json(&["info", "--json", &at(name)]);
        assert_eq!(info["facts"]["dialect"], "as Prism's front end for Valgrind writes them", "{info}");
    }
    done(&["convert", "-q", "--plain", &at("b.prism"), "-o", &at("d.bin")]);
    done(&[&["convert", "-q", "--plain"], &open[..], &[&bytes, "-o", &at("e.bin")]].concat());
    let wanted = gunzip(&std::fs::read(&bytes).unwrap());
    for name in ["d.bin", "e.bin"] {
        assert!(std::fs::read(at(name)).unwrap() == wanted, "{name}: to the byte, without a configuration");
    }
    // Where an option says the fields, nothing but the events could say them in a plain file.
    let said = [&open[..], &["--open", "detail=sigrind"]].concat();
    done(&[&["convert", "-q", "--plain"], &said[..], &[&bytes, "-o", &at("f.bin")]].concat());
    assert!(std::fs::read(at("f.bin")).unwrap()[6..] == wanted, "to the byte, after the configuration");
    // A stream says them, so that it leaves them out again.
    done(&[&["convert", "-q"], &said[..], &[&bytes, "-o", &at("g.prism")]].concat());
    done(&["convert", "-q", "--plain", &at("g.prism"), "-o", &at("g.bin")]);
    assert!(std::fs::read(at("g.bin")).unwrap() == wanted);
}
