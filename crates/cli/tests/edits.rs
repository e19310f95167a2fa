//! Verbs that write traces: what they leave on disk, what they say, and how they end.

// A test that cannot set its scene has failed.
use assert_cmd::Command;
use quipu::source::{Source, StreamOptions};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

fn trace(name: &str) -> String {
    quipu_testkit::fixtures("drmemtrace").join(name).display().to_string()
}

fn quipu(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(args).env("NO_COLOR", "1");
    command
}

/// The plain bytes of each member of a file.
fn members(path: &Path) -> Vec<Vec<u8>> {
    let container = Source::open(path).unwrap().container().unwrap();
    let read = |i: usize| {
        let mut stream = container.stream(i..i + 1, &StreamOptions::default()).unwrap();
        let (mut block, mut bytes) = (Vec::new(), Vec::new());
        while stream.next(&mut block).unwrap().is_some() {
            bytes.extend_from_slice(&block);
        }
        bytes
    };
    (0..container.members().len()).map(read).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Runs the original's filter; returns its text and its folder.
fn record_filter(input: &str, options: &str) -> (String, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (trace(input), folder.path().join("out"));
    let mut args = vec!["as", "drmemtrace", "-tool", "record_filter", "-indir", &input, "-outdir"];
    args.push(out.to_str().unwrap());
    args.extend(options.split_whitespace());
    let assert = quipu(&args).assert().code(0);
    (String::from_utf8(assert.get_output().stderr.clone()).unwrap(), folder)
}

#[test]
fn record_filter_says_and_writes_what_the_original_does() {
    let options = "-trim_before_timestamp 13352268558646120 -trim_after_timestamp 13352268558646661";
    let (text, folder) = record_filter("allasm", options);
    assert_eq!(text, "Output 288 entries from 329 entries.\n");
    let name = "drmemtrace.allasm_x86_64.trace.zip";
    let golden = PathBuf::from(trace("allasm.trim_timestamp"));
    assert!(members(&folder.path().join("out").join(name)) == members(&golden.join(name)));
    for schedule in ["serial_schedule.bin.gz", "cpu_schedule.bin.zip"] {
        let written = members(&folder.path().join("out").join(schedule));
        assert!(written == members(&golden.join(schedule)), "{schedule}");
    }
    let (text, _) = record_filter("allasm", "-trim_before_instr 31 -trim_after_instr 65");
    assert_eq!(text, "Output 104 entries from 329 entries.\n");
}

#[test]
fn record_filter_takes_the_names_of_both_programs() {
    let name = "drmemtrace.threadsig.872901.9125.trace.zip";
    for options in ["-filter_cache_size 4096", "-cache_filter_size 4096"] {
        let (_, folder) = record_filter("threadsig.x64", &format!("-only_thread 872901 {options}"));
        let golden = PathBuf::from(trace("threadsig.dcache_filter")).join(name);
        assert!(members(&folder.path().join("out").join(name)) == members(&golden));
    }
    let markers = "-filter_marker_types 19,25,27,28,30,40,41 -filter_keep_func_ids 4294967498";
    let options =
        format!("-only_thread 872906 -filter_encodings2regdeps {markers} -filter_modify_marker_value 3,-1");
    let (_, folder) = record_filter("threadsig.x64", &options);
    let name = "drmemtrace.threadsig.872906.1041.trace.zip";
    let golden = PathBuf::from(trace("threadsig.regdeps")).join(name);
    assert!(members(&folder.path().join("out").join(name)) == members(&golden));
}

#[test]
fn edits_say_what_they_wrote_and_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    let input = trace("tiny.chunk1000");
    let answer = |args: &[&str]| -> serde_json::Value {
        serde_json::from_slice(&quipu(args).assert().code(0).get_output().stdout).unwrap()
    };
    let all = answer(&["convert", &input, "-o", out, "--json"]);
    assert_eq!((&all["read"]["records"], &all["written"]["records"]), (&7846.into(), &7846.into()));
    assert_eq!(all["dropped"]["records"], 0);
    assert_eq!(all["files"][0]["members"], 6);
    let part = answer(&[
        "trim",
        &input,
        "--skip-instrs",
        "100",
        "--take-instrs",
        "50",
        "-o",
        out,
        "--force",
        "--json",
    ]);
    assert_eq!(part["written"]["instrs"], 50);
    assert_eq!(part["dropped"]["instrs"], 5952 - 50);
    let less = answer(&["filter", &input, "--instr-only", "-o", out, "--force", "--json"]);
    assert_eq!(less["written"]["instrs"], 5952);
    assert!(less["dropped"]["records"].as_u64().unwrap() > 1000);
    assert!(less["findings"].as_array().unwrap().is_empty());
}

#[test]
fn a_part_of_several_threads_counts_along_their_sequence() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let args = ["--skip-instrs", "100k", "--take-instrs", "50k", "-o", out.to_str().unwrap(), "--json"];
    let input = trace("threadsig.x64");
    let trim = |more: &[&str]| -> serde_json::Value {
        let args: Vec<&str> = ["trim", &input].into_iter().chain(args).chain(more.iter().copied()).collect();
        serde_json::from_slice(&quipu(&args).assert().code(0).get_output().stdout).unwrap()
    };
    let along = trim(&[]);
    assert_eq!(along["written"]["instrs"], 50_000);
    let each = trim(&["--per-thread", "--force"]);
    assert!(each["written"]["instrs"].as_u64().unwrap() > 50_000);
    let analysed = quipu(&["analyze", "counts", "--json", out.to_str().unwrap()]).assert().code(0);
    let counts: serde_json::Value = serde_json::from_slice(&analysed.get_output().stdout).unwrap();
    assert_eq!(counts["results"]["counts"]["total"]["instructions"], each["written"]["instrs"]);
}

#[test]
fn nothing_is_written_where_something_is_or_where_the_request_makes_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a.zip");
    std::fs::write(&out, "mine").unwrap();
    let (input, out) = (trace("small/drmemtrace.small.x64.trace"), out.to_str().unwrap());
    let (folder_of_threads, folder_like_a_file) =
        (trace("thr"), folder.path().join("b.lz4").display().to_string());
    for args in [
        &["convert", &input, "-o", out][..],
        &["convert", &input, "-o", out, "--force", "--level", "12"],
        &["convert", &input, "-o", out, "--force", "--container", "lz4", "--level", "3"],
        &["trim", &input, "-o", out, "--force"],
        &["filter", &input, "-o", out, "--force", "--cache", "1000"],
        &["filter", &input, "-o", out, "--force", "--drop", "nonsense"],
        &["filter", &input, "-o", out, "--force", "--regdeps"],
        &["filter", &input, "-o", out, "--force", "--icache", "4096"],
        &["filter", &input, "-o", out, "--force", "--cache", "4096", "--until", "99999999999999999"],
        &["filter", &folder_of_threads, "-o", out, "--force", "--no-encodings", "--until", "1"],
        &["filter", &folder_of_threads, "-o", out, "--force", "--regdeps", "--until", "1"],
        &["convert", &input],
        &["convert", &input, "-o", "-"],
        &["convert", &folder_of_threads, "-o", &folder_like_a_file],
        &["split", &input, "-o", "-"],
        &["convert", &input, "-o", out, "--force", "--order", "cores"],
        &["merge", &input, "-o", out, "--force", "--order", "cores"],
    ] {
        quipu(args).assert().code(2).stdout("");
        assert_eq!(std::fs::read(out).unwrap(), b"mine", "{args:?}");
        assert_eq!(names(folder.path()), ["a.zip"], "{args:?}");
    }
    assert!(!Path::new("-").exists());
}

#[cfg(unix)]
#[test]
fn a_link_stays_and_what_it_leads_to_is_replaced() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let convert = |input: &str, out: &str, more: &[&str]| {
        let (input, out) = (trace(input), at(out).display().to_string());
        quipu(&[&["convert", &input, "-o", &out, "--quiet"], more].concat())
            .assert()
            .get_output()
            .status
            .code()
    };
    let (file, link) = ("small/drmemtrace.small.x64.trace", "link.trace");
    std::fs::write(at("real.trace"), "old").unwrap();
    symlink("real.trace", at(link)).unwrap();
    assert_eq!(convert(file, link, &[]), Some(2));
    assert_eq!(std::fs::read(at("real.trace")).unwrap(), b"old");
    assert_eq!(convert(file, link, &["--force"]), Some(0));
    assert!(at(link).symlink_metadata().unwrap().is_symlink());
    let original = Path::new(&trace("small")).join("drmemtrace.small.x64.trace");
    assert!(members(&at("real.trace")) == members(&original));
    // A folder, too, and whatever has to step aside.
    assert_eq!(convert("thr", "real", &[]), Some(0));
    symlink(at("real"), at("link")).unwrap();
    assert_eq!(convert("tiny.gz", "link", &["--force"]), Some(0));
    assert!(at("link").symlink_metadata().unwrap().is_symlink());
    assert!(names(&at("real")).iter().any(|name| name.contains("tiny")));
    // A link to nowhere, and one to a thing of the other kind.
    symlink("nothing", at("dangling")).unwrap();
    symlink("real.trace", at("a-file")).unwrap();
    assert_eq!(convert(file, "dangling", &["--force"]), Some(2));
    assert_eq!(convert("thr", "dangling", &["--force"]), Some(2));
    assert_eq!(convert("thr", "a-file", &["--force"]), Some(2));
    assert_eq!(
        names(folder.path()),
        ["a-file", "dangling", "link", "link.trace", "real", "real.trace"],
        "nothing is left over"
    );
}

#[test]
fn an_instruction_gets_no_bytes_of_another_length() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let input = trace("thr.core_sharded_kernel");
    quipu(&["split", &input, "-o", &path("threads"), "--container", "zip"]).assert().code(0);
    quipu(&["merge", &input, "-o", &path("all.gz")]).assert().code(0);
    // Code of the kernel and of the program share this address: three bytes of one, two of the other.
    for trace in [&input, &path("threads"), &path("all.gz")] {
        let assert = quipu(&["view", "--pc", "0x40100b", trace]).assert();
        let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("@ 0x000000000040100b")).collect();
        assert!(lines.iter().any(|line| line.contains("2 byte(s)") && line.contains("0f 07")), "{text}");
        assert!(!lines.iter().any(|line| line.contains("2 byte(s)") && line.contains("48 85 c0")), "{text}");
        assert!(lines.iter().any(|line| line.contains("3 byte(s)") && line.contains("48 85 c0")), "{text}");
    }
}

#[test]
fn synthetic_encodings_are_written_as_they_are_published() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").display().to_string();
    quipu(&["filter", "--regdeps", &trace("threadsig.x64"), "-o", &out]).assert().code(0);
    let broken = broken_rules(&out);
    assert!(!broken.iter().any(|rule| rule.contains("regdeps")), "{broken:?}");
}

#[test]
fn synthetic_encodings_of_aarch64_check_and_read_as_dependencies() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (once, twice) = (path("once"), path("twice"));
    let window = ["--thread", "2444839", "--take-instrs", "20k"];
    let input = path("input");
    quipu(&["trim", &trace("aarch64"), "-o", &input]).args(window).assert().code(0);
    quipu(&["filter", "--regdeps", &input, "-o", &once]).assert().code(0);
    quipu(&["check", &once]).assert().code(0);
    let view = quipu(&["view", &once, "--take", "200"]).assert().code(0);
    let text = String::from_utf8_lossy(&view.get_output().stdout).into_owned();
    assert!(text.contains("%rv") && text.contains("load"), "{text}");
    assert!(!text.contains("undecodable"), "{text}");
    // What is synthetic already stays as it is.
    quipu(&["filter", "--regdeps", &once, "-o", &twice]).assert().code(0);
    for name in names(Path::new(&once)) {
        let members_of = |folder: &str| members(&Path::new(folder).join(&name));
        assert!(members_of(&once) == members_of(&twice), "{name}");
    }
}

#[test]
fn threads_get_names_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").display().to_string();
    let input = trace("threadsig.x64");
    for (names, what) in [
        ("872901=872902", "the trace has a thread 872902 already"),
        ("872901=7,872902=7", "another thread is given 7 already"),
        ("872901=7,872901=8", "thread 872901 has got a name already"),
        ("7=8", "the trace has no thread 7"),
    ] {
        let assert = quipu(&["filter", &input, "--rename-thread", names, "-o", &out]).assert().code(2);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(text.contains(what), "{names}: {text}");
        assert!(!Path::new(&out).exists(), "{names}");
    }
    let swap = "872901=872902,872902=872901";
    quipu(&["filter", &input, "--rename-thread", swap, "-o", &out]).assert().code(0);
    let files = |path: &Path| names(path).iter().filter(|name| name.contains(".trace.")).count();
    assert_eq!(files(Path::new(&out)), files(Path::new(&input)));
}

#[test]
fn record_filter_refuses_what_it_would_ignore_or_destroy() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in");
    std::fs::create_dir(&input).unwrap();
    let name = "drmemtrace.allasm_x86_64.trace.zip";
    std::fs::copy(Path::new(&trace("allasm")).join(name), input.join(name)).unwrap();
    let (input, file) = (input.display().to_string(), input.join(name).display().to_string());
    let out = folder.path().join("out").display().to_string();
    let start = ["as", "drmemtrace", "-tool", "record_filter"];
    for (more, what) in [
        (&["-indir", &input, "-outdir", &out, "-jobs", "x"][..], "`x` is no number"),
        (&["-indir", &input, "-outdir", &input], "is where the trace is"),
        (&["-infile", &file, "-outdir", &input], "is where the trace is"),
    ] {
        let args: Vec<&str> = start.iter().chain(more).copied().collect();
        let assert = quipu(&args).assert().code(2);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(text.contains(what), "{more:?}: {text}");
        assert_eq!(names(Path::new(&input)), [name]);
    }
}

#[test]
fn threads_go_to_cores_and_into_one_file_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let counts = |trace: &str| -> serde_json::Value {
        let answer = quipu(&["analyze", "counts", "--json", trace]).assert().code(0);
        let answer: serde_json::Value = serde_json::from_slice(&answer.get_output().stdout).unwrap();
        let total = &answer["results"]["counts"]["total"];
        serde_json::json!([total["instructions"], total["loads"], total["stores"]])
    };
    let expected = counts(&trace("thr"));
    quipu(&["convert", &trace("thr"), "--sharding", "cores", "-o", &path("cores")]).assert().code(0);
    assert_eq!(counts(&path("cores")), expected);
    quipu(&["split", &path("cores"), "-o", &path("threads")]).assert().code(0);
    assert_eq!(counts(&path("threads")), expected);
    quipu(&["merge", &path("threads"), "-o", &path("all.trace.gz")]).assert().code(0);
    assert_eq!(counts(&path("all.trace.gz")), expected);
    quipu(&["split", &path("all.trace.gz"), "-o", &path("again"), "--container", "zip"]).assert().code(0);
    assert_eq!(counts(&path("again")), expected);
    assert_eq!(names(&folder.path().join("again")).len(), 6);
}

/// What an edit that writes to `out` says of itself.
fn told(args: &[&str], out: &str) -> serde_json::Value {
    let args: Vec<&str> = args.iter().copied().chain(["-o", out, "--force", "--json"]).collect();
    serde_json::from_slice(&quipu(&args).assert().code(0).get_output().stdout).unwrap()
}

#[test]
fn what_comes_in_other_files_is_not_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (cores, threads, again) = (path("cores"), path("threads"), path("again"));
    let nothing = serde_json::json!({ "records": 0, "instrs": 0 });
    for name in ["threadsig.x64", "thr", "tiny.chunk1000"] {
        let input = trace(name);
        let to_cores = told(&["convert", "--sharding", "cores", &input], &cores);
        assert_eq!(to_cores["dropped"], nothing, "{name}");
        assert_eq!(to_cores["read"]["instrs"], to_cores["written"]["instrs"], "{name}");
        assert!(to_cores["files"][0]["read"].is_null(), "a core's file comes from several");
        // Copies at the heads of chunks are no records.
        let same = told(&["convert", &input], &again);
        assert_eq!(same["read"]["records"], to_cores["read"]["records"], "{name}");
        let to_threads = told(&["split", &input], &threads);
        assert_eq!(to_threads["dropped"], nothing, "{name}");
        assert_eq!(to_threads["written"]["records"], same["written"]["records"], "{name}");
        let back = told(&["split", &cores], &threads);
        assert_eq!(back["dropped"]["instrs"], 0, "{name}");
        assert_eq!(back["written"]["instrs"], same["written"]["instrs"], "{name}");
    }
}

#[test]
fn records_of_the_layout_are_told_where_their_number_changes() {
    let folder = tempfile::tempdir().unwrap();
    let number = |of: &serde_json::Value| of.as_u64().unwrap();
    for (name, n_fewer) in [("threadsig.x64", 41), ("thr", 16), ("tiny.chunk1000", 6)] {
        let input = trace(name);
        for (i, line) in [
            &["merge"][..],
            &["split"],
            &["convert", "--sharding", "cores"],
            &["convert", "--container", "gzip"],
        ]
        .into_iter()
        .enumerate()
        {
            let out = folder.path().join(format!("{name}{i}")).display().to_string();
            let args = [line, &[input.as_str()]].concat();
            let answer = told(&args, &out);
            let layout = &answer["layout"];
            let kept_of = |side: &str| number(&answer[side]["records"]) - number(&layout[side]);
            assert_eq!(
                kept_of("read") - number(&answer["dropped"]["records"]),
                kept_of("written"),
                "{args:?}"
            );
            let output = quipu(&[&args[..], &["-o", &out, "--force"]].concat()).assert().code(0);
            let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
            let is_told = said.contains("belong to the layout of files");
            assert_eq!(is_told, layout["read"] != layout["written"], "{args:?}: {said}");
            if line == ["merge"] {
                assert_eq!(number(&layout["read"]) - number(&layout["written"]), n_fewer, "{name}");
            }
        }
    }
}

#[test]
fn what_is_left_out_of_other_files_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (all, one, cores) = (path("all.gz"), path("one"), path("cores"));
    told(&["merge", &trace("thr")], &all);
    let part = told(&["split", "--thread", "5750", &all], &one);
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let (read, written, dropped) = (&part["read"], &part["written"], &part["dropped"]);
    assert_eq!(number(&dropped["instrs"]), number(&read["instrs"]) - number(&written["instrs"]));
    assert!(number(&dropped["instrs"]) > 0);
    // The one header of the stream is that of the thread.
    assert_eq!(number(&dropped["records"]), number(&read["records"]) - number(&written["records"]));
    // Kernel code of switches goes where others switch.
    told(&["split", &trace("thr.core_sharded_kernel")], &one);
    let moved = told(&["convert", "--sharding", "cores", &one], &cores);
    let (read, written, dropped) = (&moved["read"], &moved["written"], &moved["dropped"]);
    assert_eq!(number(&dropped["instrs"]), number(&read["instrs"]) - number(&written["instrs"]));
    assert!(number(&dropped["instrs"]) > 0);
    let left =
        quipu(&["view", "--json", "--kind", "context_switch_start,context_switch_end", &cores]).assert();
    assert!(left.code(0).get_output().stdout.is_empty());
}

#[test]
fn windows_are_numbered_in_the_order_of_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").display().to_string();
    let windows = |parts: &str| -> (u64, Vec<String>) {
        let written = told(&["trim", "--instrs", parts, &trace("tiny.chunk1000")], &out);
        let shown = quipu(&["view", "--json", "--kind", "window_id", &out]).assert().code(0);
        let text = String::from_utf8_lossy(&shown.get_output().stdout).into_owned();
        let ids = text.lines().map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["value"].as_str().unwrap().to_owned()
        });
        (written["written"]["instrs"].as_u64().unwrap(), ids.collect())
    };
    let apart = windows("100..300,700..900");
    assert_eq!(apart.1, ["0x0", "0x1"]);
    assert_eq!(windows("700..900,100..300"), apart);
    assert_eq!(windows("700..800,100..200,750..900,200..300"), apart);
    assert_eq!(windows("5..10,3..7"), windows("3..10"));
    assert!(windows("5..10,3..7").1.is_empty());
}

#[test]
fn a_thread_that_is_not_there_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (all, out) = (path("all.gz"), path("out"));
    told(&["merge", &trace("thr")], &all);
    for input in [all.clone(), trace("thr"), trace("threadsig.core_sharded")] {
        for args in [&["analyze", "counts"][..], &["report"], &["view"], &["view", "--kind", "read"]] {
            let args: Vec<&str> = args.iter().copied().chain(["--thread", "1", &input]).collect();
            quipu(&args).assert().code(2);
        }
    }
    let text = |args: &[&str]| {
        let assert = quipu(args).assert().code(2);
        String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
    };
    assert!(text(&["analyze", "counts", "--thread", "5750,77", &all]).contains("no thread `77`"));
    // A part of a file of several threads counts all of them, and may have nothing of the one that was chosen.
    let part = ["--skip-instrs", "100", "--take-instrs", "3", "--thread", "5750", &all];
    let hint = "parts count the records of all";
    assert!(text(&[&["view"][..], &part].concat()).contains(hint));
    assert!(text(&[&["trim", "-o", &out][..], &part].concat()).contains(hint));
    assert!(
        text(&["analyze", "counts", "--skip", "100", "--take", "50", "--thread", "5750", &all])
            .contains(hint)
    );
    quipu(&["view", "--thread", "5750", "--take", "0", &trace("thr")]).assert().code(0);
}

#[test]
fn a_version_is_raised_or_refused_with_nothing_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let raised = |input: &str, out: &str, more: &[&str]| -> Option<i32> {
        let args = [&["convert", input, "-o", out, "--quiet", "--format-version"], more].concat();
        quipu(&args).assert().get_output().status.code()
    };
    let version = |trace: &str| -> serde_json::Value {
        let assert = quipu(&["info", "--json", trace]).assert().code(0);
        let info: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
        info["version"].clone()
    };
    let (allasm, newest, legacy) = (trace("allasm"), trace("tiny.gz"), trace("small"));
    assert_eq!(version(&allasm), "6");
    assert_eq!((raised(&allasm, &at("7"), &["7"]), version(&at("7"))), (Some(0), "7".into()));
    assert_eq!((raised(&allasm, &at("6"), &["source"]), version(&at("6"))), (Some(0), "6".into()));
    quipu(&["check", &at("7")]).assert().code(0);
    let graphics = quipu_testkit::fixtures("apitrace").join("tri.trace").display().to_string();
    for (input, more) in [
        // The architecture is not told.
        (&legacy, &["7"][..]),
        // It would be a step back, or there is no such version.
        (&newest, &["6"]),
        (&allasm, &["8"]),
        (&allasm, &["1"]),
        // One thing at a time.
        (&allasm, &["7", "--sharding", "cores"]),
        // Of another format.
        (&graphics, &["7"]),
    ] {
        assert_eq!(raised(input, &at("no.trace"), more), Some(2), "{input}: {more:?}");
        assert_eq!(names(folder.path()), ["6", "7"], "{input}: {more:?}");
    }
}

/// What of a trace a view with these options shows, a line each, without the header.
fn shown(trace: &str, options: &[&str]) -> Vec<String> {
    let assert = quipu(&[&["view", trace, "--csv"], options].concat()).assert().code(0);
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    text.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn filters_keep_what_they_are_told_to_and_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (trace("tiny.func"), folder.path().join("out").display().to_string());
    let filter = |options: &[&str]| {
        quipu(&[&["filter", &input, "-o", &out, "--force", "--quiet"], options].concat()).assert().code(0);
    };
    let n = |options: &[&str]| (shown(&input, options).len(), shown(&out, options).len());
    let (functions, args) = (&["--kind", "func_id"], &["--kind", "func_arg"]);
    let (calls, clocks) = (&["--kind", "syscall"], &["--kind", "timestamp"]);

    filter(&["--function", "0"]);
    let of_fib = shown(&input, functions).iter().filter(|line| line.contains(",0x0,,,")).count();
    assert!(of_fib > 0 && n(functions) == (422, of_fib));
    assert_eq!(n(calls), (4, 4));

    filter(&["--keep-marker", "func_id,func_arg"]);
    assert_eq!((n(functions), n(args), n(calls)), ((422, 422), (313, 313), (4, 0)));
    assert_eq!(n(clocks).0, n(clocks).1);

    filter(&["--drop-marker", "func_id"]);
    assert_eq!((n(functions), n(args), n(calls)), ((422, 0), (313, 313), (4, 4)));

    filter(&["--set-marker", "cpu_id=5"]);
    let cpus = shown(&out, &["--kind", "cpu_id"]);
    assert!(cpus.iter().all(|line| line.contains(",0x5,,,")) && !cpus.is_empty(), "{cpus:?}");

    let part = ["--addr", "0x403290..0x4032a0"];
    filter(&part);
    let (wanted, others) = (["--kind", "read,write", part[0], part[1]], ["--kind", "read,write"]);
    assert_eq!(n(&wanted), (n(&wanted).0, n(&wanted).0));
    assert_eq!(n(&others).1, n(&wanted).0);
    assert!(n(&wanted).0 > 0 && n(&others).0 > n(&others).1);
}

#[test]
fn no_order_is_offered_or_taken_where_files_are_read_as_they_stand() {
    for verb in
        ["check", "convert", "diff", "disassemble", "edit", "filter", "merge", "recover", "split", "trim"]
    {
        let assert = quipu(&[verb, "--help"]).assert().code(0);
        assert!(!String::from_utf8_lossy(&assert.get_output().stdout).contains("--order"), "{verb}");
        for option in [["--order", "cores"], ["--sched", "seed=1"]] {
            let assert = quipu(&[verb, option[0], option[1], &trace("thr")]).assert().code(2);
            let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
            assert!(text.contains(&format!("unexpected argument '{}'", option[0])), "{verb}: {text}");
        }
    }
}

/// The rules that a trace breaks, but for notes.
fn broken_rules(trace: &str) -> BTreeSet<String> {
    let assert = quipu(&["check", "--json", trace]).assert();
    let answer: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    let rules = answer["rules"].as_array().unwrap().iter().filter(|rule| rule["severity"] != "note");
    rules.map(|rule| rule["rule"].as_str().unwrap().to_owned()).collect()
}

/// Edits of any trace of threads, with what stands behind the name of the output.
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

/// Does edits one after the other; the last one's exit code if it is not 0, and where the result is.
fn edited(input: &str, edits: &str, folder: &Path, threads: &[u64]) -> Result<String, String> {
    let mut input = input.to_owned();
    for (i, edit) in edits.split(", ").enumerate() {
        // What is written may be a folder or a file, where the one before was the other.
        let name = if edit.starts_with("merge") { format!("{i}.gz") } else { format!("{i}") };
        let out = folder.join(name).display().to_string();
        let _ = std::fs::remove_dir_all(&out).or_else(|_| std::fs::remove_file(&out));
        let mut args: Vec<String> = edit.split(' ').map(str::to_owned).collect();
        match args.last().map(String::as_str) {
            Some("--thread") => args.push(threads[threads.len() / 2].to_string()),
            Some("--rename-thread") => args.push(format!("{}=77", threads[0])),
            Some("--since" | "--until") => args.push(clock_amid(&input)),
            _ => {}
        }
        args.extend([input, "-o".to_owned(), out.clone(), "--force".to_owned(), "--quiet".to_owned()]);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let assert = quipu(&args).assert();
        let output = assert.get_output();
        if output.status.code() != Some(0) {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{edit}: exit code {:?}: {text}", output.status.code()));
        }
        input = out;
    }
    Ok(input)
}

/// A clock reading in the middle of a trace.
fn clock_amid(trace: &str) -> String {
    let assert = quipu(&["view", trace, "--kind", "timestamp", "--csv"]).assert().code(0);
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let column = lines.next().unwrap().iter().position(|name| *name == "value").unwrap();
    let clocks: Vec<_> = lines.map(|line| line[column].to_owned()).collect();
    clocks[clocks.len() / 2].clone()
}

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

/// Which rules the result of each of the edits breaks that the source keeps.
fn assert_breaks_nothing_new(name: &str, edits: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let input = trace(name);
    let (before, threads) = (broken_rules(&input), threads_of(name));
    let mut wrong = Vec::new();
    for edit in edits {
        match edited(&input, edit, folder.path(), threads) {
            // A part may have idle time only.
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
        // Kernel code would stand behind nothing.
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
        // What looks at single records only, the smaller one shows as well.
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
fn threads_are_chosen_from_files_that_hold_several() {
    let folder = tempfile::tempdir().unwrap();
    let counts = |trace: &str| -> Vec<serde_json::Value> {
        let assert = quipu(&["analyze", "counts", "--json", trace]).assert().code(0);
        let answer: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
        let total = &answer["results"]["counts"]["total"];
        ["instructions", "loads", "stores", "threads"].iter().map(|key| total[key].clone()).collect()
    };
    let chosen =
        |input: &str, edits: &str, tid: u64| counts(&edited(input, edits, folder.path(), &[tid]).unwrap());
    for tid in [872805, 872901, 872906] {
        let input = trace("threadsig.x64");
        let expected = chosen(&input, "convert --thread", tid);
        assert_eq!(expected[3], 1);
        for edits in [
            "merge, convert --thread",
            "merge, filter --thread",
            "merge, split --thread",
            "convert --sharding cores, convert --thread, split",
            "convert --sharding cores, split --thread",
            "merge, trim --skip-instrs 0 --thread",
        ] {
            assert_eq!(chosen(&input, edits, tid), expected, "{tid}: {edits}");
        }
    }
    // Kernel code of switches belongs to the thread that they lead to.
    let input = trace("thr.core_sharded_kernel");
    assert_eq!(chosen(&input, "filter --thread", 5751), chosen(&input, "split --thread", 5751));
    let out = folder.path().join("none").display().to_string();
    quipu(&["filter", "--thread", "1", &input, "-o", &out]).assert().code(2);
    assert!(!Path::new(&out).exists());
}

#[test]
fn splitting_files_of_cores_gives_the_threads_that_were_there() {
    // Both fixtures are of one recording, but for kernel code of switches.
    let folder = tempfile::tempdir().unwrap();
    let out =
        edited(&trace("thr.core_sharded_kernel"), "split, filter --drop-kernel", folder.path(), &[]).unwrap();
    let other = tempfile::tempdir().unwrap();
    let expected = edited(&trace("thr.kernel_injected"), "filter --drop-kernel", other.path(), &[]).unwrap();
    let of = |folder: &str| -> Vec<(u64, Vec<String>)> {
        let mut threads = Vec::new();
        for name in names(Path::new(folder)).iter().filter(|name| name.contains(".trace.")) {
            let file = Path::new(folder).join(name).display().to_string();
            let assert = quipu(&["view", "--json", &file]).assert().code(0);
            let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
            let records: Vec<serde_json::Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let records: Vec<_> = records.into_iter().filter(|record| record["type"] != "marker").collect();
            let tid = records[0]["tid"].as_u64().unwrap();
            let shown = |record: &serde_json::Value| {
                format!("{} {} {} {}", record["type"], record["addr"], record["size"], record["encoding"])
            };
            threads.push((tid, records.iter().map(shown).collect()));
        }
        threads.sort();
        threads
    };
    assert!(of(&out) == of(&expected));
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
            // Windows of several cores are no windows of one stream: they are not in the order of time.
            let are_cores_windows = name.contains("core") && edit.contains(',');
            let stream = if are_cores_windows { "" } else { ", merge" };
            let more = ["", stream, ", split", ", filter --drop-kernel"][rng.below(4) as usize];
            let edits = format!("{edit}{more}");
            let out = match edited(&input, &edits, folder.path(), &[thread]) {
                Ok(out) => out,
                // A part may have idle time only.
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
fn a_program_that_is_killed_leaves_no_final_name() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    for millis in [0, 20, 60, 120] {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_quipu"))
            .args([
                "convert",
                &trace("threadsig.x64"),
                "--level",
                "9",
                "-j",
                "1",
                "-o",
                out.to_str().unwrap(),
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(millis));
        child.kill().unwrap();
        child.wait().unwrap();
        if out.exists() {
            // It was quicker: then all of it is there.
            assert_eq!(names(&out).len(), 11);
            std::fs::remove_dir_all(&out).unwrap();
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
    // The record that ends an archive is cut: its directory cannot be found, its members can.
    let whole = Path::new(&trace("threadsig.x64")).join("drmemtrace.threadsig.872894.3824.trace.zip");
    let bytes = std::fs::read(whole).unwrap();
    let cut = folder.path().join("cut.trace.zip");
    std::fs::write(&cut, &bytes[..bytes.len() - 10]).unwrap();
    let assert = quipu(&["check", cut.to_str().unwrap()]).assert().code(1);
    assert!(String::from_utf8_lossy(&assert.get_output().stdout).contains("source/truncated"));
    // A file in a folder of traces that is none.
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
