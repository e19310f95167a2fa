//! Verbs that write traces: their output on disk, their messages, and their exit codes.
//!
//! `files`: threads and cores in files of their own, or several in one; nothing is dropped silently.
//! `original`: the emulated command line of DynamoRIO's `record_filter`.
//! `rules`: edits break no rule of the format that the source follows.

// A test whose setup fails has failed.
mod files;
mod original;
mod rules;

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

/// The inflated bytes of each member of a file.
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
    // The same for a folder, and for everything that has to be moved aside.
    assert_eq!(convert("thr", "real", &[]), Some(0));
    symlink(at("real"), at("link")).unwrap();
    assert_eq!(convert("tiny.gz", "link", &["--force"]), Some(0));
    assert!(at("link").symlink_metadata().unwrap().is_symlink());
    assert!(names(&at("real")).iter().any(|name| name.contains("tiny")));
    // A dangling link, and a link to something of the other kind.
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
    // Kernel code and program code share this address: three bytes of one, two of the other.
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
    // Synthetic instructions are not changed again.
    quipu(&["filter", "--regdeps", &once, "-o", &twice]).assert().code(0);
    for name in names(Path::new(&once)) {
        let members_of = |folder: &str| members(&Path::new(folder).join(&name));
        assert!(members_of(&once) == members_of(&twice), "{name}");
    }
}

/// The JSON report of an edit that writes to `out`.
fn told(args: &[&str], out: &str) -> serde_json::Value {
    let args: Vec<&str> = args.iter().copied().chain(["-o", out, "--force", "--json"]).collect();
    serde_json::from_slice(&quipu(&args).assert().code(0).get_output().stdout).unwrap()
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
        // The architecture is missing.
        (&legacy, &["7"][..]),
        // A lower version, or one that does not exist.
        (&newest, &["6"]),
        (&allasm, &["8"]),
        (&allasm, &["1"]),
        // Only one of these options is allowed.
        (&allasm, &["7", "--sharding", "cores"]),
        // A trace of another format.
        (&graphics, &["7"]),
    ] {
        assert_eq!(raised(input, &at("no.trace"), more), Some(2), "{input}: {more:?}");
        assert_eq!(names(folder.path()), ["6", "7"], "{input}: {more:?}");
    }
}

/// Output lines of `view` with these options, without the header.
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
            // The verb finished first, so all files exist.
            assert_eq!(names(&out).len(), 11);
            std::fs::remove_dir_all(&out).unwrap();
        }
    }
}

/// The rules that a trace breaks, except for notes.
fn broken_rules(trace: &str) -> BTreeSet<String> {
    let assert = quipu(&["check", "--json", trace]).assert();
    let answer: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
    let rules = answer["rules"].as_array().unwrap().iter().filter(|rule| rule["severity"] != "note");
    rules.map(|rule| rule["rule"].as_str().unwrap().to_owned()).collect()
}

/// Applies edits one after the other; returns the path of the result, or an error with the last exit code.
fn edited(input: &str, edits: &str, folder: &Path, threads: &[u64]) -> Result<String, String> {
    let mut input = input.to_owned();
    for (i, edit) in edits.split(", ").enumerate() {
        // The output may be a file where the previous one was a folder, or the reverse.
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
