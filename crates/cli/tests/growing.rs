//! Traces that come while they are read: through a socket, or in a file that grows.

use quipu_testkit::fixtures;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

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
                // A reader that has seen enough hangs up.
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

/// Where frames begin.
fn frames(stream: &[u8]) -> Vec<usize> {
    (0..stream.len()).filter(|at| stream[*at..].starts_with(b"\xF5QPU1\r\n\x1A")).collect()
}

/// A program that prints what stands in a file while it is written, and its lines so far.
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
    // Half a frame, and the rest of it with half of the next.
    for start in frames(&whole) {
        let middle = start + 60;
        file.write_all(&whole[at..middle]).unwrap();
        at = middle;
        std::thread::sleep(Duration::from_millis(30));
    }
    // All but the end of the last frame, which is an end.
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

#[test]
fn traces_that_do_not_say_where_they_end_are_not_followed() {
    let (code, _, said) = quipu(&["view", "--follow", path(&fixtures("cacheray").join("shapes.trace"))]);
    assert!(code == Some(2) && said.contains("do not say where they end"), "{said}");
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
