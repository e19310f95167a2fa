//! Output streams and exit codes in cases that a transcript cannot show: pipes, colours, broken traces.

// A test whose setup fails has failed.
use assert_cmd::Command;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

fn trace(name: &str) -> PathBuf {
    quipu_testkit::fixtures("drmemtrace").join(name)
}

fn quipu(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(args).env_remove("NO_COLOR");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A plain trace of the repository, truncated in the middle of an entry.
fn cut_trace() -> Vec<u8> {
    let mut bytes = std::fs::read(trace("small/drmemtrace.small.x64.trace")).unwrap();
    bytes.truncate(1000);
    bytes
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_quipu"))
        .args(["view".as_ref(), trace("threadsig.x64").as_os_str()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    // The pipe is closed at the end of this statement, long before the last of a million lines.
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "Output format:\n");
    let mut complaints = String::new();
    child.stderr.take().unwrap().read_to_string(&mut complaints).unwrap();
    assert_eq!(complaints, "");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_trace_may_come_through_standard_input() {
    let bytes = std::fs::read(trace("small/drmemtrace.small.x64.trace")).unwrap();
    let piped = quipu(&["analyze", "counts", "--json"]).write_stdin(bytes.clone()).assert().code(0);
    let dash = quipu(&["analyze", "counts", "--json", "-"]).write_stdin(bytes).assert().code(0);
    let total = |stdout: &[u8]| {
        let answer: serde_json::Value = serde_json::from_slice(stdout).unwrap();
        answer["results"]["counts"]["total"]["instructions"].clone()
    };
    assert_eq!(total(&piped.get_output().stdout), 173);
    assert_eq!(total(&dash.get_output().stdout), 173);
}

#[test]
fn a_damaged_trace_gives_what_is_whole_and_exit_code_1() {
    let assert = quipu(&["view"]).write_stdin(cut_trace()).assert().code(1);
    let output = assert.get_output();
    // 83 entries are whole; the message gives the end of the next one.
    assert!(text(&output.stdout).contains("View tool results:"), "{}", text(&output.stdout));
    let complaints = text(&output.stderr);
    assert!(complaints.contains("error: ") && complaints.contains("offset 0x3e4"), "{complaints}");
}

#[test]
fn a_strict_run_has_no_answer_about_a_damaged_trace() {
    for verb in ["report", "view"] {
        let assert = quipu(&[verb, "--strict"]).write_stdin(cut_trace()).assert().code(2);
        assert!(text(&assert.get_output().stderr).starts_with("error: "));
    }
}

#[test]
fn quiet_keeps_warnings_back_but_not_errors() {
    let assert = quipu(&["analyze", "counts", "-q"]).write_stdin(cut_trace()).assert().code(1);
    assert!(text(&assert.get_output().stderr).contains("error: "));
}

#[test]
fn verbose_says_how_fast() {
    let small = trace("small/drmemtrace.small.x64.trace");
    let assert = quipu(&["analyze", "counts", "-v", small.to_str().unwrap()]).assert().code(0);
    assert!(text(&assert.get_output().stderr).contains("records/s"));
}

#[test]
fn colours_are_off_in_a_pipe_and_on_when_asked_for() {
    let small = trace("small/drmemtrace.small.x64.trace");
    let shown = |args: &[&str], no_color: bool| {
        let mut command = quipu(args);
        command.arg(&small);
        if no_color {
            command.env("NO_COLOR", "1");
        }
        text(&command.assert().code(0).get_output().stdout)
    };
    for verb in ["report", "view"] {
        let plain = shown(&[verb], false);
        assert!(!plain.contains('\x1b'));
        assert!(shown(&[verb, "--color", "always"], false).contains('\x1b'));
        // The flag takes precedence over the environment.
        assert!(shown(&[verb, "--color=always"], true).contains('\x1b'));
        assert_eq!(shown(&[verb, "--color", "never"], false), plain);
    }
}

#[test]
fn json_and_csv_have_a_line_for_each_record() {
    let small = trace("small/drmemtrace.small.x64.trace");
    let lines = |form: &str| {
        let assert = quipu(&["view", form, small.to_str().unwrap()]).assert().code(0);
        text(&assert.get_output().stdout).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let json = lines("--json");
    assert_eq!(json.len(), 232);
    for line in &json {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        // Markers and thread exits have no address.
        let has_address = !matches!(row["type"].as_str(), Some("marker" | "thread_exit"));
        assert!(row["record"].is_u64() && row["addr"].is_string() == has_address, "{line}");
    }
    let csv = lines("--csv");
    assert_eq!(csv.len(), 233);
    assert!(csv[0].starts_with("record,instr,pid,tid,type,"), "{}", csv[0]);
}

#[test]
fn every_shell_gets_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let assert = quipu(&["completions", shell]).assert().code(0);
        assert!(text(&assert.get_output().stdout).contains("analyze"), "{shell}");
    }
}

/// JSON output of a verb on a trace that repeats these bytes without end, until a signal ends the verb.
#[cfg(unix)]
fn interrupted(args: &[&str], bytes: Vec<u8>) -> serde_json::Value {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_quipu"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    // The trace never ends: only the signal can end the run.
    let feeder = std::thread::spawn(move || while input.write_all(&bytes).is_ok() {});
    std::thread::sleep(Duration::from_millis(500));
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    assert!(text(&output.stderr).contains("interrupted: "), "{args:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
#[cfg(unix)]
fn ctrl_c_ends_with_what_is_known_so_far() {
    let entries = std::fs::read(trace("small/drmemtrace.small.x64.trace")).unwrap();
    let answer = interrupted(&["analyze", "counts", "--json"], entries);
    assert_eq!(answer["complete"], false);
    assert!(answer["results"]["counts"]["total"]["instructions"].as_u64() > Some(0));
    let lackey = b"I  04001000,3\n S 1ffefffe98,8\n".repeat(1000);
    let answer = interrupted(&["info", "--json"], lackey);
    assert!(answer["facts"]["records"].as_u64() > Some(0), "{answer}");
}

#[test]
fn a_window_behind_the_end_of_a_damaged_trace_ends() {
    for window in [["--skip", "200"], ["--skip-instrs", "100"], ["--since", "99999999999999999"]] {
        quipu(&["view"])
            .args(window)
            .write_stdin(cut_trace())
            .timeout(Duration::from_secs(20))
            .assert()
            .code(1);
    }
}

/// Files of one producer in a folder are one stream; a finding names the file, and the offset in it.
#[test]
fn a_finding_in_a_folder_of_streams_names_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(quipu_testkit::fixtures("stream").join("all-types.quipu")).unwrap();
    let sync = b"\xF5QPU1\r\n\x1A";
    let starts: Vec<usize> =
        (0..bytes.len() - sync.len()).filter(|at| bytes[*at..].starts_with(sync)).collect();
    let (first, second) = bytes.split_at(starts[2]);
    let mut second = second.to_vec();
    // The end of a frame's body.
    second[starts[3] - starts[2] - 5] ^= 0x55;
    let files = [("a.quipu", first.to_vec()), ("b.quipu", second)];
    let trace = folder.path().join("run");
    std::fs::create_dir(&trace).unwrap();
    for (name, bytes) in &files {
        std::fs::write(trace.join(name), bytes).unwrap();
    }
    let trace = trace.to_str().unwrap();
    let mut told = Vec::new();
    for verb in [&["check", "--json"][..], &["info", "--json"], &["report", "--no-machine", "--json"]] {
        let run = quipu(verb).arg(trace).assert().code(1);
        let answer: serde_json::Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
        let found = answer["findings"].as_array().unwrap();
        for place in found.iter().map(|finding| &finding["place"]) {
            let file = place["file"].as_str().unwrap();
            let (_, bytes) = files.iter().find(|(name, _)| file == format!("{trace}/{name}")).unwrap();
            assert!(place["offset"].as_u64().unwrap() <= bytes.len() as u64, "{verb:?}: {place}");
        }
        let torn = found.iter().find(|finding| finding["rule"] == "stream/torn-frame").unwrap();
        let stopped = &answer["lost"]["gaps"][0]["stopped"];
        assert_eq!(stopped["file"], torn["place"]["file"], "{verb:?}: {answer}");
        told.push((torn["place"].clone(), torn["message"].clone()));
    }
    assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
    assert_eq!(told[0].0["file"], format!("{trace}/b.quipu"));
    assert_eq!(told[0].0["offset"].as_u64(), Some(0));
    // The next frame of the same file.
    assert_eq!(told[0].1, format!("torn frame: resynced at {}", starts[3] - starts[2]));
}

/// The records that `view` prints, by their numbers, and what it says on standard error.
fn numbered(path: &std::path::Path) -> (std::collections::BTreeMap<u64, String>, String) {
    let run = quipu(&["view"]).arg(path).assert();
    let output = run.get_output();
    let printed = text(&output.stdout);
    let numbered = printed.lines().filter_map(|line| {
        let number = line.split_whitespace().next()?.parse().ok()?;
        Some((number, line.to_owned()))
    });
    (numbered.collect(), text(&output.stderr))
}

/// A change to the bytes of a trace.
type Harm = fn(&mut Vec<u8>);

/// A place counts the records before it, whatever the family: `view` prints as many that are good.
#[test]
fn a_place_of_damage_is_the_number_of_good_records_in_every_family() {
    let sample = |name: &str| std::fs::read(quipu_testkit::fixtures(name)).unwrap();
    let din: Vec<u8> =
        (0..60).flat_map(|nth| format!("r {:x} 4\n", 0x1000 + 16 * nth).into_bytes()).collect();
    let tiny = "drmemtrace/tiny.plain/drmemtrace.tiny.05701.3845.trace";
    let cases: [(&str, Vec<u8>, Harm, u64); 5] = [
        ("a.din", din, |bytes| bytes[32 * 9] = b'x', 32),
        ("a.lackey", sample("lackey/mixed.lackey"), |bytes| bytes[0x442..0x452].fill(0), 60),
        ("cacheray.trace", sample("cacheray/structs.trace"), |bytes| bytes.truncate(0x70), 2),
        ("drmemtrace.trace", sample(tiny), |bytes| bytes[12 * 1000] = 200, 892),
        ("a.quipu", sample("stream/all-types.quipu"), |bytes| bytes[0x739] ^= 0x80, 2),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, mut bytes, harm, n_good) in cases {
        let path = folder.path().join(name);
        std::fs::write(&path, &bytes).unwrap();
        let (whole, said) = numbered(&path);
        assert!(!said.contains("doubtful"), "{name}: {said}");
        harm(&mut bytes);
        std::fs::write(&path, &bytes).unwrap();
        let (left, said) = numbered(&path);
        let is_same = |number: &u64| whole.get(number) == left.get(number);
        assert!((1..=n_good).all(|number| is_same(&number)), "{name}");
        assert!(!is_same(&(n_good + 1)), "{name}");
        assert!(
            said.contains(&format!("after record {n_good}, what was printed is doubtful")),
            "{name}: {said}"
        );
        let is_place =
            |line: &str| line.contains(&format!(", record {n_good}")) && line.contains(": offset 0x");
        assert!(said.lines().any(is_place), "{name}: {said}");
        let check = quipu(&["check", "--json"]).arg(&path).assert().code(1);
        let answer: serde_json::Value = serde_json::from_slice(&check.get_output().stdout).unwrap();
        let records = answer["findings"].as_array().unwrap().iter();
        let errors = records.filter(|finding| finding["severity"] == "error");
        let first = errors.filter_map(|finding| finding["place"]["record"].as_u64()).min();
        assert_eq!(first, Some(n_good), "{name}: {answer}");
    }
}
