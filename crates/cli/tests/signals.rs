//! Signals that ask the program to end: it cleans up first.

use quipu_testkit::fixtures;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const ENDING: [(&str, i32); 3] = [("INT", 2), ("TERM", 15), ("HUP", 1)];

const PATIENCE: Duration = Duration::from_secs(20);

fn quipu(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.current_dir(folder).args(line.split(' ')).env("TMPDIR", folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// A conversion that takes long.
fn convert() -> String {
    let trace = fixtures("drmemtrace").join("threadsig.x64");
    format!("convert {} --container zstd --level 19 -j 1 -o out", trace.display())
}

fn send(child: &Child, signal: &str) {
    let kill = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: it does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn names(folder: &Path) -> Vec<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn end(child: Child) -> (ExitStatus, String) {
    let output = child.wait_with_output().unwrap();
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn each_signal_that_ends_a_conversion_leaves_nothing() {
    for (signal, _) in ENDING {
        let folder = tempfile::tempdir().unwrap();
        let child = quipu(folder.path(), &convert()).spawn().unwrap();
        wait_until("a hidden folder", || names(folder.path()).iter().any(|name| name.ends_with(".part")));
        send(&child, signal);
        let (status, said) = end(child);
        assert_eq!(status.code(), Some(2), "{signal}: {said}");
        assert!(said.contains("interrupted"), "{signal}: {said}");
        assert_eq!(names(folder.path()), [""; 0], "{signal}");
    }
}

#[test]
fn a_signal_ends_what_waits_for_its_input_and_removes_its_temporary_files() {
    for (signal, number) in ENDING {
        let folder = tempfile::tempdir().unwrap();
        let mut child = quipu(folder.path(), "diff - other").stdin(Stdio::piped()).spawn().unwrap();
        // Input is copied once its format is known, which takes some thousand bytes.
        let trace = fs::read(fixtures("drmemtrace").join("small/drmemtrace.small.x64.trace")).unwrap();
        child.stdin.as_mut().unwrap().write_all(&trace.repeat(8)).unwrap();
        wait_until("a temporary file", || !names(folder.path()).is_empty());
        send(&child, signal);
        let status = {
            let mut child = child;
            let input = child.stdin.take();
            let status = child.wait().unwrap();
            drop(input);
            status
        };
        assert_eq!(status.signal(), Some(number), "{signal}: {status}");
        assert_eq!(names(folder.path()), [""; 0], "{signal}");
    }
}

#[test]
fn a_signal_that_the_shell_ignores_stays_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("trap '' HUP; exec {} {}", env!("CARGO_BIN_EXE_quipu"), convert());
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("a hidden folder", || names(folder.path()).iter().any(|name| name.ends_with(".part")));
    send(&child, "HUP");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(child.try_wait().unwrap(), None);
    send(&child, "TERM");
    assert_eq!(end(child).0.code(), Some(2));
    assert_eq!(names(folder.path()), [""; 0]);
}

/// Whether any process has this argument.
fn runs(argument: &str) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| {
        let mut words = line.split(|byte| *byte == 0).skip_while(|word| !word.ends_with(b"sleep"));
        words.nth(1) == Some(argument.as_bytes())
    })
}

#[test]
fn a_signal_ends_a_recording_its_program_and_nothing_else() {
    let list = Command::new(env!("CARGO_BIN_EXE_quipu")).args(["record", "--list"]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let usable = list.lines().skip_while(|line| !line.starts_with("qemu")).nth(1);
    if usable != Some("  usable here") {
        eprintln!("passed over: qemu is not usable here");
        return;
    }
    for (signal, number) in ENDING {
        let folder = tempfile::tempdir().unwrap();
        let argument = format!("7{}.{number}", std::process::id());
        let line = format!("record --with qemu -o out -- sleep {argument}");
        let child = quipu(folder.path(), &line).spawn().unwrap();
        wait_until("the program", || runs(&argument));
        std::thread::sleep(Duration::from_millis(300));
        send(&child, signal);
        let (status, said) = end(child);
        assert_eq!(status.code(), Some(128 + number), "{signal}: {said}");
        assert!(!runs(&argument), "{signal}: the program runs on");
        let left = names(folder.path());
        assert!(left.iter().all(|name| name == "out"), "{signal}: {left:?}");
    }
}

#[test]
fn a_signal_ends_the_reading_of_one_line_without_an_end() {
    const LINE_BYTES: usize = 256 << 20;
    static BLOCK: [u8; 64 << 10] = [b'L'; 64 << 10];
    let folder = tempfile::tempdir().unwrap();
    for line in ["view -", "check -", "analyze schedule -"] {
        let mut child = quipu(folder.path(), line).stdin(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"I  04000,3\n").unwrap();
        let mut n_passed = 0;
        // A pipe holds little, so whatever it accepts has been read.
        while n_passed < LINE_BYTES && input.write_all(&BLOCK).is_ok() {
            n_passed += BLOCK.len();
            if n_passed == 8 << 20 {
                send(&child, "TERM");
            }
        }
        drop(input);
        let (status, said) = end(child);
        assert!(n_passed < LINE_BYTES / 2, "{line}: {n_passed} bytes are passed: {said}");
        assert!(status.code() == Some(1) && said.contains("interrupted"), "{line}: {status} {said}");
    }
}
