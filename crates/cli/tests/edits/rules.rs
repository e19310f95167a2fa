//! Edits break no rule of the format that the source follows.

use super::*;

/// Edits for any trace of threads, with the arguments after the output name.
const EDITS: &[&str] = &[
    "convert",
    "convert --container lz4",
    "convert --chunk-instrs 777",
    "trim --skip-instrs 1000 --take-instrs 3000",
    "trim --per-thread --skip-instrs 500 --take-instrs 1500",
    "trim --per-thread --instrs 100..300,700..900",
    "trim --instrs 100..300,700..900,2000..2900",
    "trim --skip 5000 --take 900",
    "trim --since",
    "trim --per-thread --until",
    "filter --drop data",
    "filter --drop prefetch",
    "filter --drop flush",
    "filter --addr 0x7f0000000000..0xffffffffffff",
    "filter --function 0",
    "filter --keep-marker func_id,func_arg",
    "filter --set-marker cpu_id=3",
    "filter --cache 4096",
    "filter --icache 4096",
    "filter --icache 8192 --cache 8192",
    "filter --instr-only",
    "filter --no-encodings",
    "filter --drop-marker func_id,func_arg,func_retval,func_retaddr",
    "filter --regdeps",
    "filter --drop-kernel",
    "filter --drop-kernel=all-but-syscalls",
    "filter --rename-thread",
    "filter --cache 4096 --until 99999999999999999",
    "filter --icache 4096 --until 99999999999999999",
    "filter --cache 4096 --until",
    "filter --icache 4096 --until",
    "filter --drop data --until",
    "filter --keep-marker func_id --until",
    "split",
    "merge",
    "convert --thread",
    "convert --sharding cores",
    "convert --sharding cores, split",
    "convert --sharding cores, merge, split",
    "convert --sharding cores, trim --skip-instrs 1000 --take-instrs 3000, split",
    "convert --sharding cores, filter --thread",
    "merge, convert --thread",
    "merge, filter --cache 4096 --until 99999999999999999",
    "merge, filter --cache 4096 --until 99999999999999999 --thread",
    "merge, trim --instrs 100..900,3000..4000",
];

/// Some threads of a fixture.
fn threads_of(name: &str) -> &'static [u64] {
    match name {
        "threadsig.x64" => &[872805, 872901, 872906],
        "threadsig.core_sharded" => &[872884, 872901, 872906],
        "tiny.chunk1000" => &[5701],
        "as_traced" => &[1674735],
        "tiny.func" => &[5726],
        _ => &[5747, 5751, 5752],
    }
}

/// Asserts that the result of each edit breaks no rules that the source follows.
fn assert_breaks_nothing_new(name: &str, edits: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let input = trace(name);
    let (before, threads) = (broken_rules(&input), threads_of(name));
    let mut wrong = Vec::new();
    for edit in edits {
        match edited(&input, edit, folder.path(), threads) {
            // A part may contain nothing but idle time.
            Err(what) if what.contains("nothing of the trace is left") => {}
            Err(what) => wrong.push(format!("{name}: {what}")),
            Ok(out) => {
                let after = broken_rules(&out);
                let new: Vec<&String> = after.difference(&before).collect();
                if !new.is_empty() {
                    wrong.push(format!("{name}: {edit}: {new:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_edit_breaks_no_rule_that_was_kept_before() {
    for name in ["threadsig.x64", "thr", "tiny.chunk1000", "as_traced", "tiny.func"] {
        assert_breaks_nothing_new(name, EDITS);
        // Kernel code would not follow anything.
        assert_breaks_nothing_new(name, &["filter --drop-marker syscall,maybe_blocking_syscall"]);
    }
}

#[test]
fn an_edit_of_kernel_code_breaks_no_rule_that_was_kept_before() {
    assert_breaks_nothing_new("thr.kernel_injected", EDITS);
}

#[test]
fn chunks_may_end_anywhere_in_kernel_code() {
    for name in ["thr.kernel_injected", "thr.core_sharded_kernel"] {
        assert_breaks_nothing_new(
            name,
            &[
                "convert --chunk-instrs 100",
                "convert --chunk-instrs 7",
                "trim --skip-instrs 20000 --take-instrs 2000, convert --chunk-instrs 1",
                "trim --skip-instrs 40000 --take-instrs 2000, convert --chunk-instrs 2",
            ],
        );
    }
}

#[test]
fn an_edit_of_files_of_cores_breaks_no_rule_that_was_kept_before() {
    let of_threads = ["convert --sharding cores", "--per-thread", "--rename-thread"];
    let edits: Vec<&str> =
        EDITS.iter().copied().filter(|edit| !of_threads.iter().any(|part| edit.contains(part))).collect();
    for name in ["thr.core_sharded_kernel", "threadsig.core_sharded"] {
        // Edits that examine single records are covered by the smaller trace.
        let of_records = ["--addr", "--function", "--set-marker", "--keep-marker", "--drop "];
        let is_small = name != "threadsig.core_sharded";
        let edits =
            edits.iter().filter(|edit| is_small || !of_records.iter().any(|part| edit.contains(part)));
        assert_breaks_nothing_new(name, &edits.copied().collect::<Vec<_>>());
        assert_breaks_nothing_new(
            name,
            &[
                "filter --thread",
                "split --thread",
                "merge --thread",
                "split, convert --sharding cores",
                "split, convert --sharding cores, split",
                "filter --cache 4096 --until 13439646279985000",
                "filter --cache 4096 --until 99999999999999999 --thread",
                "trim --skip-instrs 20000 --take-instrs 30000, split",
            ],
        );
    }
}

#[test]
fn a_trim_anywhere_breaks_no_rule_that_was_kept_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = quipu_testkit::Rng::new(7);
    for name in ["thr", "thr.kernel_injected", "thr.core_sharded_kernel", "threadsig.core_sharded"] {
        let input = trace(name);
        let (before, threads) = (broken_rules(&input), threads_of(name));
        for _ in 0..12 {
            let mut edges: Vec<u64> = (0..4).map(|_| rng.below(64_000)).collect();
            edges.sort_unstable();
            let (a, b, c, d) = (edges[0], edges[1] + 1, edges[2] + 2, edges[3] + 3);
            let one =
                [format!("trim --instrs {a}..{b},{c}..{d}"), format!("trim --skip {a} --take {}", b - a)];
            let edit = &one[rng.below(2) as usize];
            let thread = threads[rng.below(threads.len() as u64) as usize];
            // Windows of several cores do not form one stream, because they are not in the order of time.
            let are_cores_windows = name.contains("core") && edit.contains(',');
            let stream = if are_cores_windows { "" } else { ", merge" };
            let more = ["", stream, ", split", ", filter --drop-kernel"][rng.below(4) as usize];
            let edits = format!("{edit}{more}");
            let out = match edited(&input, &edits, folder.path(), &[thread]) {
                Ok(out) => out,
                // A part may contain nothing but idle time.
                Err(what) if what.contains("nothing of the trace is left") => continue,
                Err(what) => panic!("{name}: {edits}: {what}"),
            };
            let after = broken_rules(&out);
            let new: Vec<&String> = after.difference(&before).collect();
            assert!(new.is_empty(), "{name}: {edits}: {new:?}");
        }
    }
}

#[test]
fn checking_decides_by_what_was_counted() {
    quipu(&["check", "--max-per-rule", "0", &trace("small")]).assert().code(1);
    quipu(&["analyze", "check", &trace("small")]).assert().code(1);
    quipu(&["analyze", "check", &trace("thr")]).assert().code(0);
}

#[test]
fn checking_refuses_parts_of_traces() {
    let thr = trace("thr");
    for part in [&["--skip", "5"][..], &["--take", "5"], &["--per-core"], &["--interval-instrs", "100"]] {
        let output = quipu(&[&["analyze", "counts,check"], part, &[&thr]].concat()).assert().code(2);
        let text = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
        assert!(text.contains("judges whole traces only"), "{text}");
    }
    quipu(&["check", "--order", "cores", &thr]).assert().code(2);
}

#[test]
fn merged_and_filtered_traces_pass_the_checks() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    for name in ["thr", "threadsig.x64"] {
        let merged = at(&format!("{name}.zip"));
        quipu(&["merge", &trace(name), "-o", &merged]).assert().success();
        quipu(&["check", &merged]).assert().code(0);
    }
    for name in ["thr", "thr.kernel_injected", "tiny.func"] {
        let filtered = at(name);
        quipu(&["filter", "--icache", "8Ki", &trace(name), "-o", &filtered]).assert().success();
        quipu(&["check", &filtered]).assert().code(0);
    }
}

#[test]
fn what_is_found_when_a_trace_is_opened_is_checked_too() {
    let folder = tempfile::tempdir().unwrap();
    // The archive's end record is truncated: its directory cannot be found, but its members can.
    let whole = Path::new(&trace("threadsig.x64")).join("drmemtrace.threadsig.872894.3824.trace.zip");
    let bytes = std::fs::read(whole).unwrap();
    let cut = folder.path().join("cut.trace.zip");
    std::fs::write(&cut, &bytes[..bytes.len() - 10]).unwrap();
    let assert = quipu(&["check", cut.to_str().unwrap()]).assert().code(1);
    assert!(String::from_utf8_lossy(&assert.get_output().stdout).contains("source/truncated"));
    // A file in a folder of traces that is not a trace.
    let stray = folder.path().join("stray");
    std::fs::create_dir(&stray).unwrap();
    for entry in std::fs::read_dir(trace("thr")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, stray.join(path.file_name().unwrap())).unwrap();
    }
    std::fs::write(stray.join("junk.bin"), b"junk").unwrap();
    let assert = quipu(&["check", stray.to_str().unwrap(), "--rule", "stray-file"]).assert().code(0);
    assert!(String::from_utf8_lossy(&assert.get_output().stdout).contains("drmemtrace/stray-file"));
}
