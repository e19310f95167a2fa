//! Machines of real processors: their list, their files as copies to edit, and what the simulations say about them.

use quipu_testkit::fixtures;
use serde_json::Value;
use std::fs;
use std::process::{Command, Output};

fn quipu(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quipu")).args(args).output().unwrap()
}

/// Standard output of a command that succeeds.
fn answer(args: &[&str]) -> String {
    let output = quipu(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&answer(args)).unwrap()
}

fn trace() -> String {
    fixtures("drmemtrace/thr").to_str().unwrap().to_owned()
}

#[test]
fn a_listed_machine_is_simulated_as_a_copy_of_its_file_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("copy.conf");
    let (file, trace) = (file.to_str().unwrap(), trace());
    let list = json(&["sim", "cache", "--machine", "list", "--json"]);
    let machines = list.as_array().unwrap();
    assert!(machines.len() > 8);
    let table = answer(&["sim", "tlb", "--machine", "list"]);
    assert_eq!(answer(&["sim", "--machine", "list"]), table, "also without a simulation");
    for (line, help) in [
        (&["sim", "--machine", "amd-zen3"][..], "quipu sim cache --machine amd-zen3"),
        (&["sim", "-q"][..], "quipu sim cache TRACE"),
    ] {
        let output = quipu(line);
        assert_eq!(output.status.code(), Some(2), "{line:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains(help), "{line:?}");
    }
    for machine in machines {
        let name = machine["name"].as_str().unwrap();
        assert!(table.contains(name), "{name} in {table}");
        assert!(machine["source"].as_str().is_some_and(|source| source.len() > 10), "{name}");
        let text = answer(&["sim", "cache", "--machine", name, "--print-machine"]);
        assert!(text.contains(machine["title"].as_str().unwrap()));
        fs::write(file, text).unwrap();
        for kind in ["cache", "tlb"] {
            let of = |flag: &str, value: &str| {
                let mut answer = json(&["sim", kind, flag, value, "--json", "--top", "3", &trace]);
                let results = answer["results"].as_object_mut().unwrap();
                let (_, result) = results.iter_mut().next().unwrap();
                let described = result["machine"].as_str().unwrap().to_owned();
                result["machine"] = Value::Null;
                (described, answer)
            };
            let ((described, preset), (of_copy, copy)) = (of("--machine", name), of("--config", file));
            assert_eq!(preset, copy, "{name}");
            assert_eq!(described.strip_prefix(name), of_copy.strip_prefix(file), "{name}");
        }
    }
}

#[test]
fn the_machine_is_named_with_its_misses() {
    let trace = trace();
    let usual = "machine: 4 cores; L1I: 32 KiB, 8-way LRU; L1D: 32 KiB, 8-way LRU, next-line prefetcher; LL: 8 MiB, \
                 16-way LRU, shared by all cores; lines of 64 bytes";
    // Long lines are wrapped.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for args in [["sim", "cache", &trace], ["analyze", "caches", &trace], ["analyze", "misses", &trace]] {
        let shown = words(&answer(&args));
        assert!(shown.contains(usual), "{args:?}: {shown}");
    }
    let preset = words(&answer(&["sim", "cache", "--machine", "raspberry-pi-4", "--cores", "2", &trace]));
    let pi = "machine: raspberry-pi-4: 2 cores; L1I: 48 KiB, 3-way LRU; L1D: 32 KiB, 2-way LRU, stride prefetcher; L2: 1 \
              MiB, 16-way LRU, inclusive, shared by all cores; lines of 64 bytes; coherent";
    assert!(preset.contains(pi), "{preset}");
    let tlbs = words(&answer(&["sim", "tlb", "--machine", "raspberry-pi-4", "--page-size", "64K", &trace]));
    let pi = "machine: raspberry-pi-4: 4 cores; ITLB: 48 entries, fully associative LRU; DTLB: 32 entries, fully \
              associative LRU; L2TLB: 1024 entries, 4-way LRU; pages of 64 KiB";
    assert!(tlbs.contains(pi), "{tlbs}");
    // The machine says the size of its pages.
    for args in [&["sim", "tlb", "--machine", "apple-m1"][..], &["analyze", "tlbs", "-O", "machine=apple-m1"]]
    {
        let tlbs = words(&answer(&[args, &[trace.as_str()]].concat()));
        let m1 = "machine: apple-m1: 4 cores; ITLB: 192 entries, fully associative LRU; DTLB: 160 entries, 5-way LRU; \
                  L2TLB: 3072 entries, 12-way LRU; pages of 16 KiB";
        assert!(tlbs.contains(m1), "{args:?}: {tlbs}");
    }
    let sweep = words(&answer(&["sim", "sweep", "--sizes", "16K", "--ways", "8", &trace]));
    assert!(sweep.contains("machine: 4 cores, each with one of these L1 data caches"), "{sweep}");
    let args =
        ["sim", "sweep", "--level", "ll", "--sizes", "1M", "--ways", "8", "--line-sizes", "64,32", &trace];
    let around = "machine: 4 cores; L1I: 32 KiB, 8-way LRU; L1D: 32 KiB, 8-way LRU, next-line prefetcher; lines of 32 or 64 \
                  bytes; and one of these caches, shared by all cores";
    let sweep = words(&answer(&args));
    assert!(sweep.contains(around), "{sweep}");
}

#[test]
fn evictions_are_listed_and_change_no_count() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("evictions.csv");
    let (file, trace) = (file.to_str().unwrap(), trace());
    let small = [
        "sim",
        "cache",
        "--cores",
        "1",
        "--l1d-size",
        "1K",
        "--l1d-assoc",
        "2",
        "--ll-size",
        "8K",
        "--json",
        &trace,
    ];
    let plain = json(&small);
    assert_eq!(json(&[&small[..], &["--evictions", file]].concat()), plain);
    let text = fs::read_to_string(file).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0], ["process", "pc", "cache", "address", "reason", "written_back"]);
    let caches = plain["results"]["caches"]["caches"].as_array().unwrap();
    for cache in caches {
        let name = cache["name"].as_str().unwrap();
        let of_cache: Vec<&Vec<&str>> = rows.iter().filter(|row| row[2] == name).collect();
        assert!(of_cache.iter().all(|row| row[4] == "replaced"), "{name}");
        // Each line that came either left again or is still there.
        let came = cache["misses"].as_u64().unwrap() + cache["prefetch_misses"].as_u64().unwrap();
        let held = cache["size"].as_u64().unwrap() / 64;
        let left = of_cache.len() as u64;
        assert!(left <= came && left + held >= came, "{name}: {left} {came}");
        let written = of_cache.iter().filter(|row| row[5] == "true").count();
        assert_eq!(written > 0, name != "L1I0", "{name}");
    }
    let again = [&small[..], &["--evictions", file]].concat();
    let output = quipu(&again);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("--force"), "{said}");
    assert_eq!(json(&[&again[..], &["--force"]].concat()), plain);
    assert_eq!(fs::read_to_string(file).unwrap(), text);
    let output = quipu(&["sim", "cache", "--evictions", "-", &trace]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let output = quipu(&["sim", "cache", "--policy", "OPT", "--evictions", file, "--force", &trace]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn options_that_a_machine_makes_itself_are_refused_with_it() {
    let trace = trace();
    for option in
        [&["--l1d-size", "48K"][..], &["--policy", "FIFO"], &["--config", "x"], &["--miss-file", "x"]]
    {
        let mut args = vec!["sim", "cache", "--machine", "amd-zen3"];
        args.extend_from_slice(option);
        args.push(&trace);
        let output = quipu(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {output:?}");
    }
    let output = quipu(&["sim", "cache", "--print-machine"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
