//! Disks that fail while verbs read and write: the result is a typed error, with no partial file and no death by a signal.
//!
//! `faults.c` is compiled here and preloaded before the C library, so that the program itself is unmodified. Without a C
//! compiler, these tests are skipped with a message.

use crate::damage::{self, VERBS, samples};
use crate::outputs::{Place, ROWS, content, run_with};
use quipu_testkit::fixtures;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

/// The library that simulates disk faults; `None` if it cannot be built here.
fn library(folder: &Path) -> Option<PathBuf> {
    if !cfg!(target_os = "linux") {
        eprintln!("passed over: libraries are loaded before others on Linux only");
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/faults.c");
    let library = folder.join("faults.so");
    let mut cc = Command::new("cc");
    match cc.args(["-shared", "-fPIC", "-O1", "-o"]).args([&library, &source]).arg("-ldl").status() {
        Ok(status) => assert!(status.success(), "faults.c cannot be compiled"),
        Err(_) => {
            eprintln!("passed over: there is no cc");
            return None;
        }
    }
    Some(library)
}

/// Calls `each` with all items, on a few threads.
fn in_parallel<T: Send>(items: Vec<T>, each: impl Fn(T) + Sync) {
    let items = Mutex::new(items);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some(item) = items.lock().unwrap().pop() else { break };
                    each(item);
                }
            });
        }
    });
}

/// Names in a folder, including hidden ones.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Runs a verb on a trace whose file cannot be read from byte `at` on.
fn read_failing(library: &Path, sample: &samples::Sample, call: &[&str], at: u64, out: &Path) -> Output {
    let (trace, out) = (sample.trace.to_str().unwrap(), out.to_str().unwrap());
    let words = call.iter().map(|word| damage::word(word, trace, out));
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(["-j", "2"]).args(words).env("LD_PRELOAD", library);
    command.env("QUIPU_FAULT_READ", &sample.file).env("QUIPU_FAULT_AT", at.to_string()).output().unwrap()
}

/// Whether a message names the disk fault, as reported by a read or by a mapped page.
fn names_the_fault(said: &str) -> bool {
    said.contains("Input/output error") || said.contains("its disk failed")
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_is_an_error_of_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = library(folder.path()) else { return };
    let samples = samples::all(folder.path());
    let n_noticed = Mutex::new(0);
    in_parallel(samples.iter().collect(), |sample| {
        let len = fs::metadata(&sample.file).unwrap().len();
        for (verb, call) in VERBS.iter().filter_map(|(verb, call)| Some((*verb, (*call)?))) {
            let place = tempfile::tempdir().unwrap();
            let out = place.path().join("out");
            // Nothing can be read, or only half of it.
            let whole = read_failing(&library, sample, call, u64::MAX >> 1, &out);
            let is_able = whole.status.code() == Some(0);
            for at in [0, len / 2] {
                for name in names(place.path()) {
                    let path = place.path().join(name);
                    let _ = fs::remove_file(&path);
                    let _ = fs::remove_dir_all(&path);
                }
                let output = read_failing(&library, sample, call, at, &out);
                let said = [output.stdout, output.stderr].concat();
                let said = String::from_utf8_lossy(&said);
                let what = format!("{verb} of {} from byte {at}", sample.name);
                let code = output.status.code();
                // Headers may precede the fault; all other verbs meet it.
                let is_header = verb == "info" && sample.is_headed && at > 0 && code == Some(0);
                if is_able && !is_header {
                    assert!(matches!(code, Some(1 | 2)), "{what}: {:?} {said}", output.status);
                    assert!(names_the_fault(&said), "{what}: {said}");
                    *n_noticed.lock().unwrap() += 1;
                } else {
                    assert!(code.is_some(), "{what}: {:?} {said}", output.status);
                }
                // Output may remain only if the verb reports that it kept what it could.
                let left = names(place.path());
                assert!(code != Some(2) || left.is_empty(), "{what}: {left:?} {said}");
                assert!(left.iter().all(|name| !name.ends_with(".part")), "{what}: {left:?}");
            }
        }
    });
    let n_noticed = n_noticed.into_inner().unwrap();
    assert!(n_noticed > 200, "{n_noticed} runs met the fault");
}

#[test]
fn a_disk_that_fails_in_the_middle_of_a_record_has_not_cut_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = library(folder.path()) else { return };
    // Several blocks; the last one cannot be read.
    let threads = fs::read(fixtures("cacheray").join("threads.trace")).unwrap();
    let lackey = b"I  04001000,3\n L 1ffefff5a0,8\n".repeat(20_000);
    let din = b"2 4001000\n0 1ffefff5a0\n".repeat(20_000);
    for (name, bytes) in [("threads.sample", &threads), ("loop.lackey", &lackey), ("loop.din", &din)] {
        let file = folder.path().join(name);
        fs::write(&file, bytes).unwrap();
        let sample =
            samples::Sample { name, trace: file.clone(), file, has_checksums: false, is_headed: false };
        let at = bytes.len() as u64 * 4 / 5 / 5 * 5 + 1;
        for call in [
            &["view", "@"][..],
            &["check", "@"],
            &["report", "--no-machine", "@"],
            &["convert", "--to", "drmemtrace", "@", "-o", "%"],
        ] {
            let out = folder.path().join("out");
            let output = read_failing(&library, &sample, call, at, &out);
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            let end: String = said.lines().rev().take(8).collect::<Vec<_>>().join("\n");
            assert!(matches!(output.status.code(), Some(1 | 2)), "{call:?} {name}: {end}");
            assert!(names_the_fault(&said), "{call:?} {name}: {end}");
            assert!(!said.contains("/cut]") && !said.contains("/bad-line]"), "{call:?} {name}: {end}");
            assert!(!out.exists(), "{call:?} {name}");
        }
    }
}

#[test]
fn a_message_of_which_a_failing_disk_gives_a_part_is_not_counted() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = library(folder.path()) else { return };
    let (records, message) =
        (b"I  04001000,3\n L 1ffefff5a0,8\n".repeat(20_000), b"==12== a message of 28 bytes\n");
    let n_messages = 40_000;
    let bytes = [&records[..], &message.repeat(n_messages)].concat();
    let file = folder.path().join("messages.lackey");
    fs::write(&file, &bytes).unwrap();
    let name = "messages.lackey";
    let sample = samples::Sample { name, trace: file.clone(), file, has_checksums: false, is_headed: false };
    // A mapped file is read in whole blocks of 64 KiB.
    let at = 18 << 16;
    let n_whole = (at - records.len()) / message.len();
    assert!((at - records.len()) % message.len() > 2, "the message has a beginning");
    let output =
        read_failing(&library, &sample, &["info", "--json", "@"], at as u64, &folder.path().join("out"));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(names_the_fault(&said), "{said}");
    // Read-ahead may fail earlier, at the beginning of the mapped window.
    let n_counted = answer["facts"]["messages"].as_u64().unwrap();
    assert!((1..=n_whole as u64).contains(&n_counted), "{n_whole} whole ones: {:#}", answer["facts"]);
}

#[test]
fn a_disk_that_fills_at_any_write_leaves_no_half_file() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = library(folder.path()) else { return };
    in_parallel(ROWS.iter().collect(), |row| {
        let place = Place::new(row);
        let (code, said) = place.write("new", false);
        assert!(code < 2, "{}: {code} {said}", row.line);
        let n_bytes: usize = content(&place.path("new")).iter().map(|(_, bytes)| bytes.len()).sum();
        let before = names(place.folder.path());
        // No space at all, space for half of it, and for all but the last byte.
        for room in [0, n_bytes / 2, n_bytes - 1] {
            let faults = [
                ("LD_PRELOAD", library.as_os_str().to_owned()),
                ("QUIPU_FAULT_WRITE", place.folder.path().canonicalize().unwrap().into()),
                ("QUIPU_FAULT_ROOM", room.to_string().into()),
            ];
            let (code, said) = run_with(place.folder.path(), &row.words("other"), &faults);
            assert_eq!(code, 2, "{} with room for {room} of {n_bytes} bytes: {said}", row.line);
            assert!(said.contains("No space left"), "{}: {said}", row.line);
            assert_eq!(names(place.folder.path()), before, "{} with room for {room} bytes", row.line);
        }
    });
}

#[test]
fn a_disk_that_proves_full_when_a_file_is_closed_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let Some(library) = library(folder.path()) else { return };
    in_parallel(ROWS.iter().collect(), |row| {
        let place = Place::new(row);
        let before = names(place.folder.path());
        let faults = [
            ("LD_PRELOAD", library.as_os_str().to_owned()),
            ("QUIPU_FAULT_CLOSE", place.folder.path().canonicalize().unwrap().into()),
        ];
        let (code, said) = run_with(place.folder.path(), &row.words("other"), &faults);
        assert_eq!(code, 2, "{}: {said}", row.line);
        assert!(said.contains("cannot write it") && said.contains("No space left"), "{}: {said}", row.line);
        assert_eq!(names(place.folder.path()), before, "{}: {said}", row.line);
    });
}
