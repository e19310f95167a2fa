//! `quipu send` and `quipu collect`: two processes connected only by a socket.

mod strangers;
mod trial;

use crate::tutorial::{docs, shape, steps};
use quipu_cells::layout::process;
use quipu_cells::whole;
use quipu_stream::codec::Codec;
use quipu_stream::frame::SYNC;
use quipu_stream::recorder::Segments;
use quipu_stream::spec::{SchemaSpec, Ty};
use quipu_stream::wire::record::Clock;
use quipu_stream::write::{Options, Writer};
use quipu_testkit::fixtures;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A collector process, which is killed at the end of the test.
pub(crate) struct Collecting {
    pub(crate) child: Child,
    pub(crate) address: SocketAddr,
}

impl Collecting {
    pub(crate) fn start(args: &[&str]) -> Collecting {
        Collecting::at("127.0.0.1:0", args)
    }

    fn at(listen: &str, args: &[&str]) -> Collecting {
        Collecting::by(Command::new(env!("CARGO_BIN_EXE_quipu")), listen, args)
    }

    fn by(mut program: Command, listen: &str, args: &[&str]) -> Collecting {
        let mut child = program
            .args(["collect", "--listen", listen])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening at ").unwrap_or_else(|| panic!("{line}"));
        let address = address.parse().unwrap();
        // Read the rest, so that the pipe does not fill up.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Collecting { child, address }
    }

    /// Asks the collector to end; returns its exit code and output.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.answer()
    }

    /// Exit code and output of a collector that ends by itself.
    fn answer(&mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().code(), text)
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn quipu(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quipu")).args(args).output().unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The producer of a stream's first frame, as in file names.
pub(crate) fn producer(stream: &[u8]) -> String {
    format!("{:016x}", u64::from_le_bytes(stream[24..32].try_into().unwrap()))
}

/// Streams of all kinds of contents: traces of each format that converts to a stream, rows, and a recording of an
/// instrumented program.
fn families(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut all = Vec::new();
    for trace in [
        "drmemtrace/threadsig.x64",
        "drmemtrace/thr",
        "drmemtrace/small/drmemtrace.small.x64.trace",
        "cacheray/shapes.trace",
        "apitrace/tri.trace",
        "lackey/mixed.lackey",
        "din/labels.din",
        "prism/prodcons.prism",
        "drmemtrace-raw/threadsig.aarch64",
        "dtrace/linux/agg_llquantize",
        "dtrace/linux/flowindent",
        "dtrace/classic/agg_ops",
    ] {
        let out = folder.join(format!("{}.quipu", trace.replace('/', "-")));
        let made = quipu(&["convert", path(&fixtures("").join(trace)), "-o", path(&out)]);
        assert!(made.status.success(), "{trace}: {}", text(&made.stderr));
        all.push((trace.to_owned(), out));
    }
    let vectors = fs::read_dir(fixtures("stream")).unwrap().map(|entry| entry.unwrap().path());
    for vector in vectors.filter(|path| path.extension().is_some_and(|end| end == "quipu")) {
        let bytes = fs::read(&vector).unwrap();
        let checked = quipu(&["check", "-q", path(&vector)]);
        let info = quipu(&["describe", "--json", path(&vector)]);
        // Copies of damaged streams lack the damaged frames, and several producers get a file each.
        let is_plain = checked.status.success() && info.status.success() && bytes.starts_with(&SYNC);
        if is_plain && n_producers(&bytes) == 1 {
            all.push((path(vector.strip_prefix(fixtures("")).unwrap()).to_owned(), vector));
        }
    }
    let recording = folder.join("recording.quipu");
    let store_of_8 = 0x13 << 48;
    let cells: Vec<[u64; 2]> =
        (0..200).map(|n| [store_of_8 | (0x10_0000 + 8 * n), 0x40_0000 + 4 * n]).collect();
    let halves = cells.split_at(90);
    fs::write(&recording, whole::recording(&[(17, &[halves.0, halves.1]), (18, &[&cells])])).unwrap();
    all.push(("a recording".to_owned(), recording));
    all
}

fn n_producers(stream: &[u8]) -> usize {
    let frames = (0..stream.len().saturating_sub(96)).filter(|at| stream[*at..].starts_with(&SYNC));
    let ids: std::collections::BTreeSet<_> = frames.map(|at| stream[at + 24..at + 32].to_vec()).collect();
    ids.len()
}

#[test]
fn every_family_is_printed_there_as_it_is_here() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    assert!(quipu(&["collect", "--new-token", path(&token)]).status.success());
    let all = families(folder.path());
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.iter().filter(|name| name.contains("dtrace")).count() > 6 && all.len() > 20, "{names:?}");
    for (nth, (name, stream)) in all.iter().enumerate() {
        // Some of these have the same producer, but are not parts of one stream.
        let out = folder.path().join(nth.to_string());
        let collecting = Collecting::start(&["--token", path(&token), "-o", path(&out), "--json"]);
        let to = collecting.address.to_string();
        let sent = quipu(&["send", "--to", &to, "--token", path(&token), "--no-follow", path(stream)]);
        assert_eq!(sent.status.code(), Some(0), "{name}: {}{}", text(&sent.stdout), text(&sent.stderr));
        let (_, answer) = collecting.stop();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!((&answer["senders"], &answer["refused"]), (&1.into(), &0.into()), "{name}: {answer}");
        // Frames that are missing in the source are missing in the copy.
        let is_checked = quipu(&["check", "-q", path(stream)]).status.success();
        assert!(!is_checked || answer["files"][0]["gaps"] == 0, "{name}: {answer}");
        let there = out.join(format!("{}.quipu", producer(&fs::read(stream).unwrap())));
        for line in [&["view"][..], &["view", "--json"], &["check", "-q"]] {
            let print = |stream: &Path| quipu(&[line, &[path(stream)]].concat());
            let (here, there) = (print(stream), print(&there));
            assert_eq!(there.status.code(), here.status.code(), "{name}: {}", text(&there.stderr));
            // `check` prints the name of the file.
            let is_same = there.stdout == here.stdout || line[0] == "check";
            assert!(is_same, "{name}, {line:?}: the text differs");
        }
    }
}

#[test]
fn a_pipe_is_sent_and_the_spool_is_empty_then() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("collected");
    let spool = folder.path().join("spool");
    let mut collecting = Collecting::start(&["-o", path(&out), "--producers", "1", "--json"]);
    let stream = fs::read(fixtures("stream").join("all-types.quipu")).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .args(["send", "--to", &collecting.address.to_string(), "--spool", path(&spool), "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&stream).unwrap();
    let sent = child.wait_with_output().unwrap();
    let said: Value = serde_json::from_slice(&sent.stdout).unwrap();
    assert_eq!(sent.status.code(), Some(0), "{said}");
    assert_eq!((&said["complete"], &said["dropped_frames"]), (&true.into(), &0.into()), "{said}");
    assert_eq!(fs::read_dir(&spool).unwrap().count(), 0);
    // The collector ends by itself.
    let (code, answer) = collecting.answer();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((code, &answer["files"][0]["ended"]), (Some(0), &true.into()), "{answer}");
    assert_eq!(answer["files"][0]["records"], said["records"]);
}

#[test]
fn a_frame_that_was_damaged_before_it_was_sent_is_missing_there_until_it_comes() {
    let folder = tempfile::tempdir().unwrap();
    let (out, good) = (folder.path().join("collected"), folder.path().join("good.quipu"));
    let stream = trial::stream(9, 30_000);
    fs::write(&good, &stream).unwrap();
    // A byte in the middle of the records.
    let mut damaged = stream.clone();
    damaged[stream.len() / 2] ^= 0xff;
    let bad = folder.path().join("bad.quipu");
    fs::write(&bad, &damaged).unwrap();
    let collect = |stream: &Path, sends: i32, collects: i32| {
        let collecting = Collecting::start(&["-o", path(&out), "--json"]);
        let to = collecting.address.to_string();
        let sent = quipu(&["send", "--to", &to, "--no-follow", path(stream)]);
        assert_eq!(sent.status.code(), Some(sends), "{}", text(&sent.stderr));
        let (code, answer) = collecting.stop();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(code, Some(collects), "{answer}");
        answer["files"][0].clone()
    };
    let lacking = collect(&bad, 1, 1);
    assert_eq!((&lacking["gaps"], &lacking["ended"]), (&1.into(), &true.into()), "{lacking}");
    let whole = collect(&good, 0, 0);
    assert_eq!((&whole["gaps"], &whole["ended"]), (&0.into(), &true.into()), "{whole}");
    assert_eq!(whole["records"].as_u64(), Some(30_000));
    let there = out.join(format!("{}.quipu", producer(&stream)));
    same_but_late(&good, &there, 1..2);
}

/// Asserts that every verb reads the collector's file like the stream that was sent, with a note for each late frame.
fn same_but_late(here: &Path, there: &Path, n_late: Range<u64>) {
    let name = path(there);
    for line in
        [&["view"][..], &["view", "--json"], &["view", "--follow"], &["info"], &["report", "--no-machine"]]
    {
        let print = |stream: &Path| quipu(&[line, &[path(stream)]].concat());
        let (here_said, there_said) = (print(here), print(there));
        assert_eq!(there_said.status.code(), Some(0), "{line:?}: {}", text(&there_said.stderr));
        assert!(text(&there_said.stderr).contains("late frame"), "{line:?}: {}", text(&there_said.stderr));
        let (mut got, mut wanted) =
            (text(&there_said.stdout).replace(name, path(here)), text(&here_said.stdout));
        // The index has become padding there.
        let without_size =
            |text: &str| text.lines().filter(|line| !line.contains("on disk")).collect::<Vec<_>>().join("\n");
        (got, wanted) = (without_size(&got), without_size(&wanted));
        if line.contains(&"--follow") {
            // Records are printed in the order of arrival.
            let sorted = |text: &str| {
                let mut lines: Vec<&str> = text.lines().map(|line| line.split_at(12).1).collect();
                lines.sort_unstable();
                lines.join("\n")
            };
            (got, wanted) = (sorted(&got), sorted(&wanted));
        }
        assert!(got == wanted, "{line:?}: the text differs");
    }
    let checked = quipu(&["check", "--json", name]);
    let said: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(checked.status.code(), Some(0), "{said}");
    let rules = said["findings"].as_array().unwrap().iter();
    assert!(rules.clone().all(|finding| finding["rule"] == "stream/late-frame"), "{said}");
    let n = rules.map(|finding| finding["count"].as_u64().unwrap_or(1)).sum::<u64>();
    assert!(n_late.contains(&n), "{n} of {n_late:?}: {said}");
}

#[test]
fn the_rest_of_a_stream_may_come_after_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (out, source) = (folder.path().join("collected"), folder.path().join("source.quipu"));
    // One of the two streams has records in the first half of the time only.
    let options =
        Options { codec: Codec::None, frame_bytes: 2000, with_index: false, ..Options::new("rest") };
    let writer = Writer::new(Vec::new(), options);
    writer.define(Clock { id: 1, ticks_per_s: 10, ..Clock::default() }).unwrap();
    let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
    let mut streams = [writer.stream(1).unwrap(), writer.stream(2).unwrap()];
    for n in 0..2000_u64 {
        let stream = &mut streams[usize::from(n % 3 == 0 && n < 1000)];
        stream.row(id, n, 8, |body| body.put(0, &n.to_le_bytes())).unwrap();
    }
    streams.into_iter().for_each(|stream| stream.finish().unwrap());
    writer.finish().unwrap();
    let stream = writer.into_inner().unwrap();
    fs::write(&source, &stream).unwrap();
    let collecting = Collecting::start(&["-o", path(&out), "--json"]);
    let to = collecting.address.to_string();
    let send = |more: &[&str]| {
        let sent = quipu(&[&["send", "--to", &to, "--json", path(&source)], more].concat());
        let said: Value = serde_json::from_slice(&sent.stdout).unwrap();
        assert_eq!(sent.status.code(), Some(0), "{said}");
        ["frames", "records", "already_there"].map(|key| said[key].as_u64().unwrap())
    };
    let (end, rest) = (send(&["--since", "30s"]), send(&[]));
    assert!(
        (300..400).contains(&end[1]) && end[1] + rest[1] == 2000 && rest[2] == end[0],
        "{end:?} {rest:?}"
    );
    let (code, answer) = collecting.stop();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let file = &answer["files"][0];
    assert_eq!((code, &file["ended"], &file["gaps"]), (Some(0), &true.into(), &0.into()), "{answer}");
    assert_eq!(file["records"].as_u64(), Some(2000));
    same_but_late(&source, &out.join(format!("{}.quipu", producer(&stream))), 1..rest[0]);
}

#[test]
fn a_full_spool_drops_records_and_both_sides_say_how_many() {
    let folder = tempfile::tempdir().unwrap();
    let (out, spool) = (folder.path().join("collected"), folder.path().join("spool"));
    // There is no collector while the program writes.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    const N_RECORDS: u64 = 30_000;
    let stream = trial::stream(9, N_RECORDS);
    let mut child = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .args(["send", "--to", &address, "--spool", path(&spool), "--spool-size", "100Ki", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&stream).unwrap();
    let collecting = Collecting::at(&address, &["-o", path(&out), "--json"]);
    let sent = child.wait_with_output().unwrap();
    let said: Value = serde_json::from_slice(&sent.stdout).unwrap();
    let dropped = said["dropped_records"].as_u64().unwrap();
    assert_eq!((sent.status.code(), &said["complete"]), (Some(1), &true.into()), "{said}");
    assert!(dropped > 1000 && dropped + said["records"].as_u64().unwrap() == N_RECORDS, "{said}");
    let number = quipu::model::number::grouped(dropped);
    assert!(text(&sent.stderr).contains(&format!("{number} records were dropped")), "{}", text(&sent.stderr));
    let (code, answer) = collecting.stop();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((code, &answer["files"][0]["lost"]), (Some(1), &dropped.into()), "{answer}");
    let there = out.join(format!("{}.quipu", producer(&stream)));
    // Only records are missing, and each verb reports their number.
    let viewed = quipu(&["view", "-q", path(&there)]);
    assert_eq!(text(&viewed.stdout).lines().skip(1).count() as u64, N_RECORDS - dropped);
    for line in [&["check"][..], &["view"], &["info"]] {
        let output = quipu(&[line, &[path(&there)]].concat());
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line:?}: {said}");
        assert!(said.contains(&number), "{line:?}: {number} in {said}");
    }
    let checked = quipu(&["check", "--json", path(&there)]);
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    let rules: Vec<&str> =
        checked["findings"].as_array().unwrap().iter().map(|f| f["rule"].as_str().unwrap()).collect();
    assert!(rules.iter().all(|rule| *rule == "stream/lost"), "{rules:?}");
}

/// A flight recorder's folder with three segments and a clock of ten ticks per second; returns the number of its last
/// record.
fn flight_recorder(folder: &Path) -> u64 {
    const N: u64 = 100_000;
    let segments = Segments::new(folder, 3, 20_000).unwrap();
    let options =
        Options { codec: Codec::None, frame_bytes: 2000, snapshot_bytes: 10_000, ..Options::new("recorder") };
    let writer = Writer::new(segments, options);
    writer.define(Clock { id: 1, ticks_per_s: 10, ..Clock::default() }).unwrap();
    let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
    let mut stream = writer.stream(1).unwrap();
    for n in 0..N {
        // Values that do not repeat cannot be compressed.
        let value = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        stream.row(id, n, 8, |body| body.put(0, &value.to_le_bytes())).unwrap();
    }
    stream.finish().unwrap();
    writer.finish().unwrap();
    N - 1
}

#[test]
fn the_end_of_a_flight_recorder_is_sent_and_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = folder.path().join("recorder");
    let last = flight_recorder(&recorder);
    let numbers = |trace: &Path| -> Vec<u64> {
        let viewed = quipu(&["view", "--json", path(trace)]);
        let lines = text(&viewed.stdout);
        let rows = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.filter_map(|row| row["time"].as_u64()).collect()
    };
    for since in [None, Some("30s"), Some("1m")] {
        let out = folder.path().join(since.unwrap_or("all"));
        let collecting = Collecting::start(&["-o", path(&out)]);
        let to = collecting.address.to_string();
        let mut line = vec!["send", "--to", &to, path(&recorder)];
        line.extend(since.iter().flat_map(|since| ["--since", since]));
        let sent = quipu(&line);
        assert_eq!(sent.status.code(), Some(0), "{since:?}: {}", text(&sent.stderr));
        // Sending everything reports what was overwritten earlier; sending the end does not mention what came before it.
        assert_eq!(collecting.stop().0, Some(i32::from(since.is_none())), "{since:?}");
        let there = fs::read_dir(&out).unwrap().next().unwrap().unwrap().path();
        let got = numbers(&there);
        let wanted = match since {
            None => numbers(&recorder),
            // The frame in which the period begins is sent completely.
            Some(since) => {
                let n = if since == "30s" { 300 } else { 600 };
                assert!((n..n + 150).contains(&got.len()), "{since}: {}", got.len());
                (last + 1 - got.len() as u64..=last).collect()
            }
        };
        assert!(got == wanted && got.last() == Some(&last), "{since:?}: {} of {}", got.len(), wanted.len());
    }
}

#[test]
fn a_growing_stream_is_printed_at_the_collector_while_it_grows() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("collected");
    let collecting = Collecting::start(&["-o", path(&out)]);
    let whole = trial::stream(5, 500);
    let source = folder.path().join("source.quipu");
    fs::write(&source, &whole).unwrap();
    let (begin, rest) = whole.split_at(whole.len() / 2);
    let growing = folder.path().join("growing.quipu");
    fs::write(&growing, begin).unwrap();
    let mut sender = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .args(["send", "-q", "--to", &collecting.address.to_string(), path(&growing)])
        .spawn()
        .unwrap();
    let there = out.join(format!("{}.quipu", producer(&whole)));
    let begun = std::time::Instant::now();
    while !fs::metadata(&there).is_ok_and(|meta| meta.len() > 200) {
        assert!(begun.elapsed().as_secs() < 20, "nothing arrives");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let follow = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .args(["view", "--follow", path(&there)])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(&growing).unwrap();
    for piece in rest.chunks(700) {
        file.write_all(piece).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // Both end because the stream does.
    assert!(sender.wait().unwrap().success());
    let followed = follow.wait_with_output().unwrap();
    assert!(followed.status.success());
    let lines = |text: &[u8]| {
        let mut lines: Vec<String> =
            String::from_utf8_lossy(text).lines().map(|line| line.split_at(12).1.to_owned()).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(lines(&followed.stdout), lines(&quipu(&["view", path(&source)]).stdout));
}

#[test]
fn a_collector_that_cannot_write_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (out, source) = (folder.path().join("collected"), folder.path().join("source.quipu"));
    let stream = trial::stream(5, 30_000);
    fs::write(&source, &stream).unwrap();
    // Files are limited to 200 blocks of 512 or 1024 bytes: writing more fails as on a full disk.
    let mut limited = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\"";
    limited.args(["-c", script, env!("CARGO_BIN_EXE_quipu")]);
    let collecting = Collecting::by(limited, "127.0.0.1:0", &["-o", path(&out)]);
    let address = collecting.address.to_string();
    // A sender without patience prints the reason.
    let sent = quipu(&["send", "--to", &address, "--give-up", "0s", path(&source)]);
    assert_eq!(sent.status.code(), Some(2), "{}", text(&sent.stderr));
    assert!(text(&sent.stderr).contains("the collector refuses: cannot write"), "{}", text(&sent.stderr));
    let sender = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .args(["send", "--to", &address, path(&source)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    // Acknowledged frames are kept.
    assert_eq!(collecting.stop().0, Some(1));
    let there = out.join(format!("{}.quipu", producer(&stream)));
    assert!((50_000..300_000).contains(&fs::metadata(&there).unwrap().len()));
    let mut collecting = Collecting::at(&address, &["-o", path(&out), "--producers", "1"]);
    let sent = sender.wait_with_output().unwrap();
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert_eq!(collecting.answer().0, Some(0));
    assert!(quipu(&["check", path(&there)]).status.success());
    assert!(quipu(&["view", path(&there)]).stdout == quipu(&["view", path(&source)]).stdout);
}

#[test]
fn a_sender_that_is_interrupted_says_that_the_stream_had_not_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (out, source) = (folder.path().join("collected"), folder.path().join("source.quipu"));
    let whole = trial::stream(5, 5000);
    fs::write(&source, &whole[..whole.len() / 2]).unwrap();
    let collecting = Collecting::start(&["-o", path(&out)]);
    let to = collecting.address.to_string();
    let there = out.join(format!("{}.quipu", producer(&whole)));
    for signal in ["-TERM", "-INT"] {
        let sender = Command::new(env!("CARGO_BIN_EXE_quipu"))
            .args(["send", "--to", &to, "--json", path(&source)])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begun = std::time::Instant::now();
        while !fs::metadata(&there).is_ok_and(|meta| meta.len() > 10_000) {
            assert!(begun.elapsed().as_secs() < 20, "nothing arrives");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(Command::new("kill").args([signal, &sender.id().to_string()]).status().unwrap().success());
        let sent = sender.wait_with_output().unwrap();
        let said = text(&sent.stderr);
        assert_eq!(sent.status.code(), Some(1), "{signal}: {said}");
        assert!(said.contains("had not ended"), "{signal}: {said}");
        let answer: Value = serde_json::from_slice(&sent.stdout).unwrap();
        assert_eq!(answer["complete"], false, "{answer}");
    }
    fs::write(&source, &whole).unwrap();
    let sent = quipu(&["send", "--to", &to, path(&source)]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert_eq!(collecting.stop().0, Some(0));
}

/// A recording while its program runs, and after the program has ended.
fn live_and_ended() -> (Vec<u8>, Vec<u8>) {
    let cells: Vec<[u64; 2]> =
        (0..200).map(|n| [0x13 << 48 | (0x10_0000 + 8 * n), 0x40_0000 + 4 * n]).collect();
    let ended = whole::recording(&[(17, &[&cells])]);
    // The process buffer has no exit yet, and the END frame is missing.
    let end = ended.windows(SYNC.len()).rposition(|bytes| bytes == SYNC).unwrap();
    let mut live = ended[..end].to_vec();
    let exited = process::FIRST_ROW + process::ROW_BYTES;
    live[exited..exited + process::ROW_BYTES].fill(0);
    (live, ended)
}

/// Sends a recording with these options while its program runs, and again after its end.
fn sends_while_it_runs(options: &[&str], live: &[u8], ended: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let (out, source) = (folder.path().join("collected"), folder.path().join("source.quipu"));
    fs::write(&source, live).unwrap();
    // Takes the lock, as the program does.
    let program = fs::OpenOptions::new().write(true).open(&source).unwrap();
    program.lock().unwrap();
    let collecting = Collecting::start(&["-o", path(&out), "--json"]);
    let to = collecting.address.to_string();
    let sent = quipu(&[&["send", "--to", &to, "--json", path(&source)], options].concat());
    let answer: Value = serde_json::from_slice(&sent.stdout).unwrap();
    assert_eq!((sent.status.code(), &answer["open_buffers"]), (Some(1), &1.into()), "{answer}");
    assert!(
        text(&sent.stderr).contains("1 buffer that the program may still be writing"),
        "{}",
        text(&sent.stderr)
    );
    fs::write(&source, ended).unwrap();
    drop(program);
    let sent = quipu(&["send", "--to", &to, path(&source)]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let (code, answer) = collecting.stop();
    assert_eq!(code, Some(0), "{answer}");
    let there = out.join(format!("{}.quipu", producer(ended)));
    for verb in ["view", "check"] {
        let (here, there) = (quipu(&[verb, path(&source)]), quipu(&[verb, path(&there)]));
        assert_eq!(there.status.code(), here.status.code(), "{verb}: {}", text(&there.stderr));
        assert!(verb == "check" || here.stdout == there.stdout, "the text differs");
    }
}

#[test]
fn buffers_of_a_program_that_runs_are_sent_when_it_has_ended() {
    let (live, ended) = live_and_ended();
    sends_while_it_runs(&["--no-follow"], &live, &ended);
    // Stamps are not times, so the last seconds of a recording can only be determined before its first record.
    sends_while_it_runs(&["--since", "30s"], &live[..whole::head().len()], &ended);
}

#[test]
fn a_sender_that_is_interrupted_says_how_buffers_of_a_program_that_is_gone_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (out, source) = (folder.path().join("collected"), folder.path().join("source.quipu"));
    // The program was killed: no END, and no lock.
    fs::write(&source, live_and_ended().0).unwrap();
    let collecting = Collecting::start(&["-o", path(&out)]);
    let to = collecting.address.to_string();
    let mut sender = Command::new(env!("CARGO_BIN_EXE_quipu"));
    sender.args(["send", "--to", &to, path(&source)]);
    let sender = sender.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(Command::new("kill").args(["-INT", &sender.id().to_string()]).status().unwrap().success());
    let sent = sender.wait_with_output().unwrap();
    let said = text(&sent.stderr);
    assert_eq!(sent.status.code(), Some(1), "{said}");
    assert!(said.contains("1 buffer of a program that is gone") && said.contains("--no-follow"), "{said}");
    let sent = quipu(&["send", "--to", &to, "--no-follow", path(&source)]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    collecting.stop();
}

#[test]
fn a_buffer_that_was_sent_too_early_is_missing_there() {
    let folder = tempfile::tempdir().unwrap();
    let (out, source) = (folder.path().join("collected"), folder.path().join("source.quipu"));
    let (live, ended) = live_and_ended();
    let collecting = Collecting::start(&["-o", path(&out), "--json"]);
    let to = collecting.address.to_string();
    // A copy of the file has no running program.
    for (stream, options) in [(&live, &["--no-follow"][..]), (&ended, &[])] {
        fs::write(&source, stream).unwrap();
        let sent = quipu(&[&["send", "--to", &to, path(&source)], options].concat());
        assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    }
    let (code, answer) = collecting.stop();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let file = &answer["files"][0];
    assert_eq!((code, &file["ended"], &file["gaps"]), (Some(1), &true.into(), &0.into()), "{answer}");
    assert_eq!(file["missing_records"], 1, "{answer}");
    // Also as text, with what another collector finds there.
    let mut collecting = Collecting::start(&["-o", path(&out), "--producers", "1"]);
    let sent = quipu(&["send", "--to", &collecting.address.to_string(), path(&source)]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let (code, answer) = collecting.answer();
    assert!(code == Some(1) && answer.contains("1 record that its end counts did not arrive"), "{answer}");
}

#[test]
fn a_sender_that_fails_says_what_it_dropped_and_where_the_rest_is() {
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut sender = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .args(["send", "--to", &closed, "--spool", path(&spool), "--spool-size", "100Ki"])
        .args(["--give-up", "100ms", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    sender.stdin.take().unwrap().write_all(&trial::stream(9, 30_000)).unwrap();
    let sent = sender.wait_with_output().unwrap();
    let said = text(&sent.stderr);
    assert!(sent.status.code() == Some(2) && said.contains("cannot be reached"), "{said}");
    assert!(said.contains("records were dropped, because the spool was full"), "{said}");
    assert!(said.contains(&format!("what was not sent is in {}", spool.display())), "{said}");
}

#[test]
fn a_sender_that_is_refused_again_and_again_is_told_of_once() {
    let folder = tempfile::tempdir().unwrap();
    let (out, stream) = (folder.path().join("collected"), folder.path().join("run.quipu"));
    fs::write(&stream, trial::stream(9, 30_000)).unwrap();
    let mut collector = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .args(["collect", "--listen", "127.0.0.1:0", "--max-size", "50Ki", "-o", path(&out)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(collector.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let to = line.trim().strip_prefix("listening at ").unwrap().to_owned();
    let sent = quipu(&["send", "--to", &to, "--give-up", "1500ms", path(&stream)]);
    assert_eq!(sent.status.code(), Some(2), "{}", text(&sent.stderr));
    assert!(Command::new("kill").args(["-TERM", &collector.id().to_string()]).status().unwrap().success());
    let mut all = String::new();
    said.read_to_string(&mut all).unwrap();
    collector.wait().unwrap();
    let count = |what: &str| all.matches(what).count();
    assert!(count("refused:") > 2 && count("began") == 1 && count("continued after") <= 1, "{all}");
}

#[test]
fn a_spool_is_of_one_sender() {
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let line = ["send", "--to", &closed, "--spool", path(&spool), "-"];
    let mut first = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .args(line)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = std::time::Instant::now();
    while !spool.join(".lock").exists() {
        assert!(begun.elapsed().as_secs() < 20, "there is no spool");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    let second = quipu(&line);
    let said = text(&second.stderr);
    assert!(second.status.code() == Some(2) && said.contains("another sender uses this spool"), "{said}");
    first.kill().unwrap();
    first.wait().unwrap();
}

#[test]
fn a_sender_that_is_interrupted_without_a_collector_says_so() {
    let stream = fixtures("stream").join("minimal.quipu");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for signal in ["-TERM", "-INT"] {
        let mut sender = Command::new(env!("CARGO_BIN_EXE_quipu"))
            .args(["send", "--to", &closed, "--json", path(&stream)])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // When it prints that there is no collector, it already handles signals.
        let mut said = BufReader::new(sender.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.contains("trying again"), "{line}");
        assert!(Command::new("kill").args([signal, &sender.id().to_string()]).status().unwrap().success());
        said.read_to_string(&mut line).unwrap();
        let sent = sender.wait_with_output().unwrap();
        assert_eq!(sent.status.code(), Some(1), "{signal}: {line}");
        assert!(line.contains("interrupted: not all was sent") && !line.contains("is no stream"), "{line}");
        let answer: Value = serde_json::from_slice(&sent.stdout).unwrap();
        assert_eq!((&answer["complete"], &answer["frames"]), (&false.into(), &0.into()), "{answer}");
    }
}

#[test]
fn what_cannot_be_done_is_said_with_the_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let stream = fixtures("stream").join("minimal.quipu");
    let no_stream = fixtures("din").join("labels.din");
    let collecting = Collecting::start(&["-o", path(&out)]);
    let to = collecting.address.to_string();
    let token = folder.path().join("token");
    assert!(quipu(&["collect", "--new-token", path(&token)]).status.success());
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for (line, said) in [
        (&["collect", "--listen", "0.0.0.0:0", "-o", path(&out)][..], "--new-token"),
        (&["collect", "--listen", &to, "-o", path(&out)], "cannot collect at"),
        (&["collect", "--new-token", path(&token)], "cannot write"),
        (&["collect", "--token", path(&stream), "-o", path(&out)], "cannot read"),
        (&["send", "--to", "192.0.2.1:7480", path(&stream)], "--new-token"),
        (&["send", "--to", "nonsense", path(&stream)], "HOST:PORT"),
        (&["send", "--to", &to, "no-such.quipu"], "cannot read no-such.quipu"),
        (&["send", "--to", &to, "--no-follow", path(&no_stream)], "quipu convert"),
        (&["send", "--to", &to, "--token", path(&token), path(&stream)], "--token"),
        (&["send", "--to", &closed, "--give-up", "100ms", path(&stream)], "cannot be reached"),
        (&["send", "--to", &to, "--since", "3 days", path(&stream)], "500ms, 30s"),
    ] {
        let output = quipu(line);
        let text = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {text}");
        assert!(text.contains(said), "{line:?}: {text}");
        assert!(output.stdout.is_empty(), "{line:?}");
    }
}

#[test]
fn the_page_about_collecting_can_be_typed() {
    let folder = tempfile::tempdir().unwrap();
    let page = fs::read_to_string(docs().join("collect.md")).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let (tutorial, _) = page.split_once("## The sender").unwrap();
    let steps = steps(tutorial);
    assert!(steps.len() > 8, "{}", steps.len());
    let script: String = steps.iter().map(|step| step.command.replace("7480", &port) + "\n").collect();
    let bin = Path::new(env!("CARGO_BIN_EXE_quipu")).parent().unwrap();
    let path = format!("{}:{}", path(bin), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-e", "-c", &script])
        .current_dir(&folder)
        .env("PATH", path)
        .env("TRACES", fixtures(""))
        .output()
        .unwrap();
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{script}\n{printed}{said}");
    let printed: Vec<String> = printed.lines().map(shape).collect();
    for line in steps.iter().flat_map(|step| &step.shown) {
        let wanted = shape(line);
        assert!(printed.contains(&wanted), "`{line}` was not printed:\n{}\n{said}", printed.join("\n"));
    }
}
