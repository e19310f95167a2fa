//! Traces that arrive while they are read: through a socket, or in a growing file.

use crate::frames::critical;
use quipu::model::transform::{OneShard, Silent, TransformJob};
use quipu::model::{Damaged, OpenOptions, Options, Transform};
use quipu::source::Source;
use quipu::streamed::carry::IntoStream;
use quipu_testkit::fixtures;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(arguments);
    command
}

fn quipu(arguments: &[&str]) -> (Option<i32>, String, String) {
    let out = command(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (out.status.code(), text(out.stdout), text(out.stderr))
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[cfg(unix)]
#[test]
fn a_trace_may_come_through_a_socket() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["stream/two-producers.quipu", "cacheray/shapes.trace", "lackey/mixed.lackey"] {
        let original = fixtures("").join(name);
        let bytes = fs::read(&original).unwrap();
        for (nth, verb) in ["view", "report", "check", "info", "convert"].into_iter().enumerate() {
            let socket = folder.path().join(format!("{nth}.socket"));
            let _ = fs::remove_file(&socket);
            let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
            let bytes = bytes.clone();
            let writer = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                // A reader that needs no more hangs up.
                let _ = stream.write_all(&bytes);
            });
            let out = folder.path().join(format!("{nth}.out"));
            let more: &[&str] = if verb == "convert" { &["-o", path(&out), "--force"] } else { &[] };
            let (code, text, said) = quipu(&[&[verb, path(&socket)], more].concat());
            writer.join().unwrap();
            let wanted = quipu(&[&[verb, path(&original)], more].concat());
            assert_eq!(code, wanted.0, "{verb} {name}: {said}");
            assert!(verb != "view" || text == wanted.1, "{verb} {name}: {text}");
        }
    }
}

/// Positions of frames.
fn frames(stream: &[u8]) -> Vec<usize> {
    (0..stream.len()).filter(|at| stream[*at..].starts_with(b"\xF5QPU1\r\n\x1A")).collect()
}

/// A process that prints a growing file, and a function that returns its next line.
fn following(file: &Path) -> (Child, impl FnMut() -> String + use<>) {
    let mut child = command(&["view", "--follow", path(file)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, move || lines.next().map_or(String::new(), Result::unwrap))
}

#[test]
fn records_are_printed_as_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(fixtures("stream").join("minimal.quipu")).unwrap();
    let grown = folder.path().join("grown.quipu");
    let wanted = quipu(&["view", path(&fixtures("stream").join("minimal.quipu"))]);
    let mut wanted_lines: Vec<&str> = wanted.1.lines().map(|line| line.split_at(12).1).collect();
    wanted_lines.sort_unstable();
    let mut file = File::create(&grown).unwrap();
    let (mut child, mut next) = following(&grown);
    let (mut at, mut lines) = (0, Vec::new());
    // Half a frame, then the rest of it with half of the next.
    for start in frames(&whole) {
        let middle = start + 60;
        file.write_all(&whole[at..middle]).unwrap();
        at = middle;
        std::thread::sleep(Duration::from_millis(30));
    }
    // All but the end of the last frame, which is an END.
    file.write_all(&whole[at..whole.len() - 20]).unwrap();
    while lines.len() < wanted_lines.len() {
        lines.push(next());
    }
    assert_eq!(child.try_wait().unwrap(), None, "it waits for the end");
    file.write_all(&whole[whole.len() - 20..]).unwrap();
    assert_eq!(child.wait().unwrap().code(), wanted.0);
    let mut lines: Vec<&str> = lines.iter().map(|line| line.split_at(12).1).collect();
    lines.sort_unstable();
    assert_eq!(lines, wanted_lines);
}

/// Another producer may come first among the shards; records already printed of the others must neither be repeated nor
/// skipped.
#[test]
fn a_producer_that_joins_shifts_no_other() {
    use quipu_stream::frame::Header;
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(fixtures("stream").join("minimal.quipu")).unwrap();
    let starts = frames(&whole);
    let end = *starts.last().unwrap();
    // The same stream of another producer with fewer records, whose frames come first when the file is rewritten.
    let mut other = whole.clone();
    for at in &starts {
        let header = Header::read(&other[*at..]).unwrap();
        let header = Header { producer: header.producer.wrapping_sub(1), ..header };
        other[*at..at + 96].copy_from_slice(&header.to_bytes());
    }
    let is_data = |at: &usize| whole[at + 9] == 2;
    let last = starts.iter().rposition(is_data).unwrap();
    other.drain(starts[last]..starts[last + 1]);
    let grown = folder.path().join("grown.quipu");
    fs::write(&grown, &whole[..end]).unwrap();
    let (mut child, text, said) = followed(&grown);
    let n_first = quipu(&["view", path(&fixtures("stream").join("minimal.quipu"))]).1.lines().count();
    let begun = Instant::now();
    while text.lock().unwrap().lines().count() < n_first {
        assert!(begun.elapsed().as_secs() < 30, "{}", text.lock().unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
    let both = folder.path().join("both.quipu");
    fs::write(&both, [&other[..], &whole].concat()).unwrap();
    fs::rename(&both, &grown).unwrap();
    let said = said.join().unwrap();
    child.wait().unwrap();
    let all = quipu(&["view", path(&grown)]).1;
    // Times of two producers are printed in another unit than those of one.
    let n_printed = text.lock().unwrap().lines().count();
    assert_eq!(n_printed, all.lines().count(), "{said}");
}

#[cfg(unix)]
#[test]
fn following_ends_when_it_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(fixtures("stream").join("two-producers.quipu")).unwrap();
    let grown = folder.path().join("grown.quipu");
    fs::write(&grown, &whole[..*frames(&whole).last().unwrap()]).unwrap();
    let (mut child, mut next) = following(&grown);
    assert!(next().contains("record"));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// A trace in a stream of small frames.
fn in_small_frames(name: &str, folder: &Path, frame_bytes: usize) -> PathBuf {
    let original = fixtures("").join(name);
    if name.ends_with(".quipu") {
        return original;
    }
    let source = Source::open(&original).unwrap();
    let options = OpenOptions::default();
    let format = quipu::format_of(&source, &options).unwrap().unwrap();
    let output = folder.join("whole.quipu");
    let job = TransformJob {
        source: &source,
        opening: &options,
        options: &Options::default(),
        output: &output,
        replace: true,
        container: None,
        level: None,
        damaged: Damaged::Refuse,
        strict: false,
        threads: 1,
        sequence: &OneShard,
    };
    let into = IntoStream { frame_bytes, ..IntoStream::new(format, None) };
    into.run(&job, &Silent).unwrap();
    output
}

/// The same, with all of its output and messages.
fn followed(file: &Path) -> (Child, Arc<Mutex<String>>, JoinHandle<String>) {
    let mut child = command(&["view", "--follow", path(file)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut out, mut said) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let text: Arc<Mutex<String>> = Arc::default();
    let printed = Arc::clone(&text);
    let said = std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        loop {
            match out.read(&mut bytes).unwrap() {
                0 => break,
                n => printed.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..n])),
            }
        }
        let mut text = String::new();
        said.read_to_string(&mut text).unwrap();
        text
    });
    (child, text, said)
}

#[test]
fn what_a_stream_carries_is_printed_as_it_arrives() {
    let folder = tempfile::tempdir().unwrap();
    // Frames end anywhere: within records, and within long lines.
    for (name, frame_bytes) in [
        ("drmemtrace/tiny.chunk1000", 5000),
        ("drmemtrace/tiny.gz", 5003),
        ("drmemtrace/thr", 100_000),
        ("drmemtrace-raw/threadsig.aarch64", 7001),
        ("apitrace/threads-3x20.trace", 301),
        ("apitrace/incomplete-call.trace", 40),
        ("cacheray/shapes.trace", 999),
        ("lackey/mixed.lackey", 400),
        ("lackey/mixed.lackey", 7),
        ("din/labels.din", 20),
        ("stream/prism-fixed.quipu", 0),
    ] {
        let stream = in_small_frames(name, folder.path(), frame_bytes);
        let (code, whole_text, whole_said) = quipu(&["view", path(&stream)]);
        let bytes = fs::read(&stream).unwrap();
        let starts = frames(&bytes);
        assert!(starts.len() > 8, "{name}: {} frames", starts.len());
        let grown = folder.path().join("grown.quipu");
        let mut file = File::create(&grown).unwrap();
        let (mut child, text, said) = followed(&grown);
        let (mut at, mut n_early) = (0, 0);
        for (nth, start) in starts.iter().enumerate() {
            // Half a frame, then the rest of it with half of the next.
            let middle = start + 60;
            file.write_all(&bytes[at..middle]).unwrap();
            at = middle;
            if nth % (starts.len() / 3) == 0 {
                std::thread::sleep(Duration::from_millis(250));
            }
            if nth == starts.len() * 2 / 3 {
                // Some of the earlier records have to be printed in any case.
                let so_far = folder.path().join("so-far.quipu");
                fs::write(&so_far, &bytes[..starts[nth / 2]]).unwrap();
                n_early = quipu(&["view", path(&so_far)]).1.lines().count() / 2;
                let begun = Instant::now();
                while text.lock().unwrap().lines().count() < n_early {
                    assert!(begun.elapsed().as_secs() < 30, "{name}: {} lines", n_early);
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
        assert!(n_early > 0 || name.contains("incomplete"), "{name}");
        // All but the end of the last frame, which is an END.
        file.write_all(&bytes[at..bytes.len() - 20]).unwrap();
        assert_eq!(child.try_wait().unwrap(), None, "{name}: it waits for the end");
        file.write_all(&bytes[bytes.len() - 20..]).unwrap();
        let now = said.join().unwrap();
        assert_eq!(child.wait().unwrap().code(), code, "{name}: {now}");
        let text = std::mem::take(&mut *text.lock().unwrap());
        if name == "drmemtrace/thr" {
            // Threads are not ordered by their clocks, so there are fewer separator lines.
            let sorted = |text: &str| {
                let lines = text.lines().filter(|line| !line.starts_with("---"));
                let mut lines: Vec<String> =
                    lines.map(|line| line.get(26..).unwrap_or(line).to_owned()).collect();
                lines.sort_unstable();
                lines
            };
            assert!(sorted(&text) == sorted(&whole_text), "{name}");
        } else if name.starts_with("drmemtrace-raw") {
            // The names of modules are in a file that arrives after the words.
            let bare = |line: &str| match (line.find(" at module "), line.find("+0x")) {
                (Some(module), Some(place)) => line[..module].to_owned() + &line[place..],
                _ => line.to_owned(),
            };
            assert!(text.lines().map(bare).eq(whole_text.lines().map(bare)), "{name}");
        } else {
            let differs = text.lines().zip(whole_text.lines()).find(|(there, here)| there != here);
            assert!(text == whole_text, "{name} {frame_bytes}: {differs:?}");
        }
        let bare = |said: &str, file: &Path| said.replace(path(file), "");
        assert_eq!(bare(&now, &grown), bare(&whole_said, &stream), "{name}");
    }
}

#[test]
fn following_ends_where_nothing_of_what_has_ended_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let damaged = folder.path().join("damaged.quipu");
    for name in ["cacheray/shapes.trace", "lackey/mixed.lackey"] {
        let whole = fs::read(in_small_frames(name, folder.path(), 1 << 20)).unwrap();
        // The second byte after the version is the kind of a frame; rows and bodies have kind 2.
        let body = *frames(&whole).iter().find(|at| whole[**at + 9] == 2).unwrap();
        let mut flipped = whole.clone();
        flipped[body + 100] ^= 0x41;
        let stopped = [&whole[..body], &critical(&whole[body..]), &whole[body..]].concat();
        for (bytes, code) in [(flipped.clone(), 1), (stopped, 2)] {
            fs::write(&damaged, &bytes).unwrap();
            assert_eq!(quipu(&["view", path(&damaged)]).0, Some(code), "{name}");
            let (mut child, _, said) = followed(&damaged);
            let begun = Instant::now();
            while child.try_wait().unwrap().is_none() {
                if begun.elapsed().as_secs() > 30 {
                    child.kill().unwrap();
                    panic!("{name}: it waits for what cannot come");
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            let said = said.join().unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(code), "{name}: {said}");
            assert!(said.contains("nothing of the file can be read"), "{name}: {said}");
        }
        // A stream without an end may still grow.
        fs::write(&damaged, &flipped[..*frames(&flipped).last().unwrap()]).unwrap();
        let (mut child, _, _) = followed(&damaged);
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(child.try_wait().unwrap(), None, "{name}: it waits for the end");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn traces_that_do_not_say_where_they_end_are_not_followed() {
    for name in ["cacheray/shapes.trace", "stream/dtrace-printf.quipu"] {
        let (code, _, said) = quipu(&["view", "--follow", path(&fixtures("").join(name))]);
        assert!(code == Some(2) && said.contains("do not say where they end"), "{said}");
        assert!(said.contains("`quipu view` without --follow"), "{said}");
    }
}

#[test]
fn streams_are_compared_record_by_record() {
    let folder = tempfile::tempdir().unwrap();
    let original = fixtures("stream").join("two-producers.quipu");
    let less = folder.path().join("less.quipu");
    let records = |of: &Path| {
        let (_, text, _) = quipu(&["view", "--json", path(of)]);
        text.lines().count()
    };
    let (code, _, said) = quipu(&["trim", "--skip", "2", path(&original), "-o", path(&less)]);
    assert_eq!(code, Some(0), "{said}");
    let n = records(&original);
    let (code, text, said) = quipu(&["diff", path(&original), path(&original)]);
    assert_eq!(
        (code, text.lines().last()),
        (Some(0), Some(&*format!("{n} equal, 0 only in the old, 0 only in the new"))),
        "{said}"
    );
    let (code, text, _) = quipu(&["diff", path(&original), path(&less)]);
    assert_eq!(code, Some(1));
    assert_eq!(text.lines().filter(|line| line.starts_with("- ")).count(), n - records(&less), "{text}");
    assert!(!text.lines().any(|line| line.starts_with("+ ")), "{text}");
    let (_, text, _) = quipu(&["diff", "--json", path(&less), path(&original)]);
    let inserted = text.lines().filter(|line| line.contains("\"op\":\"inserted\"")).count();
    assert_eq!(inserted, n - records(&less), "{text}");
}
