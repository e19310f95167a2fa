//! Damage to frames of streams: for any contents, frame and kind of damage, all verbs exit alike, report the same place, and
//! report the same loss.

use crate::damage::samples::{self, Sample};
use quipu_testkit::fixtures;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Contents of streams: files of every format that they carry, rows, aggregations, cells, buffers of DTrace.
const SAMPLES: &[&str] = &[
    "drmemtrace.carried",
    "drmemtrace.frames",
    "drmemtrace-raw.carried",
    "apitrace.frames",
    "cacheray.carried",
    "lackey.carried",
    "din.carried",
    "prism.quipu",
    "dtrace.quipu",
    "recording",
    "stream",
];

/// Verbs; `@` is the stream, `%` the output. Verbs that fail on the undamaged stream are skipped.
const VERBS: &[&[&str]] = &[
    &["check", "@"],
    &["info", "@"],
    &["view", "@"],
    &["report", "@"],
    &["describe", "@"],
    &["analyze", "schedule", "@"],
    &["sim", "cache", "@"],
    &["trim", "--take", "1000000", "@", "-o", "%"],
    &["split", "@", "-o", "%"],
    &["merge", "@", "-o", "%"],
    &["convert", "@", "-o", "%"],
    &["convert", "@", "-o", "%.quipu"],
    &["convert", "@", "-o", "%.arrow"],
    &["convert", "@", "-o", "%.parquet"],
    &["convert", "@", "-o", "-"],
    &["diff", "@", "@"],
];

/// Verbs whose output is not an object.
const PRINTERS: &[&str] = &["view", "diff"];

/// A frame: its position, kind, the position and length of its payload, and the position of the next frame.
#[derive(Clone, Copy)]
struct Frame {
    at: usize,
    kind: u8,
    payload: usize,
    len: usize,
    end: usize,
}

/// Names of the frame kinds to damage.
const KINDS: &[(u8, &str)] = &[(1, "META"), (2, "DATA"), (4, "INDEX"), (5, "END"), (6, "AGG"), (8, "BLOB")];

/// The frames of a stream, located by their headers as documented for the format.
fn frames(bytes: &[u8]) -> Vec<Frame> {
    let (mut at, mut found) = (0, Vec::new());
    while let Some(header) = bytes.get(at..at + 96) {
        let len = u32::from_le_bytes(header[16..20].try_into().unwrap()) as usize;
        let payload = at + 8 * usize::from(header[11]);
        let end = (payload + len).next_multiple_of(8) + 8;
        found.push(Frame { at, kind: header[9], payload, len, end });
        at = end;
    }
    found
}

/// A damaged stream.
struct Harm {
    name: String,
    bytes: Vec<u8>,
    /// The expected exit code of all verbs, where the format's documentation defines it.
    code: Option<i32>,
    /// Text that every verb has to print.
    said: &'static str,
}

/// Every kind of damage to a frame of each kind, and truncated streams.
fn harms(bytes: &[u8]) -> Vec<Harm> {
    let all = frames(bytes);
    let mut harms = Vec::new();
    let mut harm = |name: String, bytes: Vec<u8>, code, said| harms.push(Harm { name, bytes, code, said });
    for (kind, name) in KINDS {
        let own: Vec<Frame> = all.iter().copied().filter(|frame| frame.kind == *kind).collect();
        // The second one, if there are several: the first contains the header of the carried trace.
        let Some(frame) = own.get(1.min(own.len().saturating_sub(1))) else { continue };
        let is_data = matches!(*name, "DATA" | "AGG");
        let code = if is_data { Some(1) } else { None };
        let flipped = |at: usize| {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= 0x21;
            bytes
        };
        let is_auxiliary = matches!(*name, "INDEX" | "END");
        let (of_payload, said) = match is_auxiliary {
            true => (Some(0), "/auxiliary-frame]"),
            false => (code, ""),
        };
        if frame.len > 0 {
            harm(format!("{name} payload"), flipped(frame.payload + frame.len / 2), of_payload, said);
        }
        harm(format!("{name} header"), flipped(frame.at + 41), code, "");
        harm(format!("{name} trailer"), flipped(frame.end - 3), code, "");
        let mut zeros = bytes.to_vec();
        zeros[frame.at..frame.at + 64].fill(0);
        harm(format!("{name} zeros"), zeros, code, "");
        harm(format!("{name} deleted"), [&bytes[..frame.at], &bytes[frame.end..]].concat(), code, "");
        if is_data {
            harm(format!("{name} doubled"), [&bytes[..frame.end], &bytes[frame.at..]].concat(), None, "");
        }
    }
    let data: Vec<&Frame> = all.iter().filter(|frame| matches!(frame.kind, 2 | 6)).collect();
    let middle = data[data.len() / 2];
    harm("cut".to_owned(), bytes[..(middle.payload + middle.len / 2)].to_vec(), Some(1), "");
    harm("cut at the end".to_owned(), bytes[..bytes.len() - 20].to_vec(), None, "");
    harms
}

/// Exit code of a verb, and what it reported about damage.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    code: i32,
    /// Place of the first error.
    place: Option<u64>,
    /// The reported loss.
    lost: String,
}

/// Runs a verb in a folder.
fn run(call: &[&str], stream: &Path, folder: &Path, flags: &[&str]) -> (i32, String, String) {
    let out = folder.join("out");
    let _ = fs::remove_dir_all(&out);
    let _ = fs::remove_file(&out);
    let _ = fs::remove_file(folder.join("out.quipu"));
    let _ = fs::remove_file(folder.join("out.arrow"));
    let _ = fs::remove_dir_all(folder.join("out.parquet"));
    let args = call.iter().map(|arg| match *arg {
        "@" => stream.to_str().unwrap().to_owned(),
        arg => arg.replace('%', out.to_str().unwrap()),
    });
    let mut quipu = Command::new(env!("CARGO_BIN_EXE_quipu"));
    let done = quipu.args(["-j", "1"]).args(args).args(flags).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
}

/// Parses the lines of a verb.
fn told(code: i32, text: &str) -> Told {
    let errors = || text.lines().filter_map(|line| line.strip_prefix("error: "));
    let offset = |line: &str| {
        let (_, rest) = line.split_once("offset 0x")?;
        let digits = rest.split(|c: char| !c.is_ascii_hexdigit()).next()?;
        u64::from_str_radix(digits, 16).ok()
    };
    let is_sum = |line: &&str| line.contains(" lost") && line.contains("; ") && !line.ends_with(']');
    let lost = errors().find(is_sum).map_or("", |line| {
        ["; ", " between ", " after ", " in "].iter().fold(line, |line, end| line.split(end).next().unwrap())
    });
    let of_file = errors().filter(|line| !is_sum(line) && line.contains(".quipu: "));
    Told { code, place: of_file.filter_map(offset).min(), lost: lost.to_owned() }
}

/// The same for JSON output.
fn told_by(code: i32, answer: &Value) -> Told {
    let findings = answer["findings"].as_array().into_iter().flatten();
    let errors = findings.filter(|finding| finding["severity"] == "error").chain([&answer["error"]]);
    let of_file =
        errors.filter(|error| error["place"]["file"].as_str().is_some_and(|file| file.ends_with(".quipu")));
    let place = of_file.filter_map(|error| error["place"]["offset"].as_u64()).min();
    let lost = &answer["lost"];
    let lost = if lost.is_null() { String::new() } else { lost["records"].to_string() };
    Told { code, place, lost }
}

/// Applies all kinds of damage to a stream; returns the differences between verbs.
fn walk(name: &str, stream: &Path, n_walked: &AtomicUsize) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(stream).unwrap();
    let able: Vec<&&[&str]> =
        VERBS.iter().filter(|call| run(call, stream, folder.path(), &["-q"]).0 == 0).collect();
    assert!(able.len() >= 5, "{name}: {able:?}");
    let damaged = folder.path().join("damaged.quipu");
    let mut wrong = Vec::new();
    for harm in harms(&whole) {
        fs::write(&damaged, &harm.bytes).unwrap();
        let mut first: Option<(&str, Told)> = None;
        let mut first_answer: Option<(&str, Told)> = None;
        for call in &able {
            n_walked.fetch_add(1, Ordering::Relaxed);
            let verb = call[0];
            let written = ["out", "out.quipu", "out.arrow", "out.parquet"];
            let has_output = || written.iter().any(|name| folder.path().join(name).exists());
            let (code, out, errors) = run(call, &damaged, folder.path(), &[]);
            let text = if verb == "check" { out + &errors } else { errors };
            let own = told(code, &text);
            let mut complain = |what: String| wrong.push(format!("{name}, {}: {what}", harm.name));
            if harm.code.is_some_and(|expected| expected != code) || !text.contains(harm.said) {
                complain(format!("{verb} ends with {code}: {text}"));
            }
            let is_all_lost = name == "recording" && harm.name.starts_with("META") && code == 2;
            if !is_all_lost && code == 2 {
                complain(format!("{verb} cannot do it: {text}"));
            }
            if code == 1 && (own.place.is_none() || has_output()) {
                complain(format!("{verb} names no place, or writes: {text}"));
            }
            let is_doubted = text.contains("standard output: after record ");
            if call.contains(&"-") && code == 1 && !is_doubted && !text.contains("there is no answer") {
                complain(format!("does not say from which record on a pipe is doubtful: {text}"));
            }
            // Without descriptions, a recording cannot be decoded; verbs that list its events do not read its page.
            if name == "recording" && harm.name.starts_with("META") {
                continue;
            }
            match &first {
                None => first = Some((verb, own)),
                Some((of, other)) if *other != own => {
                    complain(format!("{of} {other:?}, {verb} {own:?}: {text}"));
                }
                Some(_) => {}
            }
            let flags: &[&str] = if PRINTERS.contains(&verb) { &["-q"] } else { &["-q", "--json"] };
            let (quiet, out, errors) = run(call, &damaged, folder.path(), flags);
            if quiet != code {
                complain(format!("{verb} {flags:?} ends with {quiet}: {errors}"));
            }
            let Some(answer) = serde_json::from_str::<Value>(&out).ok().filter(|_| flags.len() > 1) else {
                continue;
            };
            let own = told_by(quiet, &answer);
            match &first_answer {
                None => first_answer = Some((verb, own)),
                Some((of, other)) if *other != own => {
                    complain(format!("--json: {of} {other:?}, {verb} {own:?}"));
                }
                Some(_) => {}
            }
        }
    }
    wrong
}

#[test]
fn every_verb_says_the_same_of_a_damaged_frame() {
    let folder = tempfile::tempdir().unwrap();
    let made = samples::some(folder.path(), &|name| SAMPLES.contains(&name));
    assert_eq!(made.len(), SAMPLES.len());
    let path = |sample: Sample| (sample.name, named(sample.trace));
    let mut streams: Vec<(&str, PathBuf)> = made.into_iter().map(path).collect();
    streams.push(("aggregations", fixtures("stream").join("agg-rows.quipu")));
    let (streams, wrong, n_walked) = (Mutex::new(streams), Mutex::new(Vec::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some((name, stream)) = streams.lock().unwrap().pop() else { break };
                    let found = walk(name, &stream, &n_walked);
                    wrong.lock().unwrap().extend(found);
                }
            });
        }
    });
    let (wrong, n_walked) = (wrong.into_inner().unwrap(), n_walked.into_inner());
    assert!(wrong.is_empty(), "{} of {n_walked} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(n_walked > 1000, "{n_walked}");
}

/// A stream with a critical frame of an unknown kind inserted after the first half of its data frames.
fn with_critical(bytes: &[u8]) -> Vec<u8> {
    let all = frames(bytes);
    let data: Vec<&Frame> = all.iter().filter(|frame| matches!(frame.kind, 2 | 6)).collect();
    let last = data[(data.len() - 1) / 2];
    [&bytes[..last.end], &critical(&bytes[last.at..]), &bytes[last.end..]].concat()
}

/// A critical frame of an unknown kind, with the producer of another frame.
pub(crate) fn critical(other: &[u8]) -> Vec<u8> {
    use quipu_stream::frame::{Header, encoding, flag, write_frame};
    let producer = Header::read(other).unwrap().producer;
    let mut header = Header {
        kind: 200,
        encoding: encoding::CBOR,
        flags: flag::CRITICAL,
        producer,
        stream: 0xFFFF,
        ..Header::default()
    };
    let mut frame = Vec::new();
    write_frame(&mut header, 8, &mut [7; 8], &mut frame).unwrap();
    frame
}

/// Most lines that printers print at the end.
const ENDING_LINES: usize = 4;

/// Inserts a frame into a stream that only a newer program understands; returns what verbs do wrong.
fn stops(name: &str, stream: &Path) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let able: Vec<&&[&str]> =
        VERBS.iter().filter(|call| run(call, stream, folder.path(), &["-q"]).0 == 0).collect();
    let stopped = folder.path().join("stopped.quipu");
    let whole = fs::read(stream).unwrap();
    fs::write(&stopped, with_critical(&whole)).unwrap();
    let mut wrong = Vec::new();
    let mut first: Option<(&str, Told)> = None;
    for call in able {
        let verb = call[0];
        let mut complain = |what: String| wrong.push(format!("{name}: {call:?} {what}"));
        let (code, out, errors) = run(call, &stopped, folder.path(), &[]);
        let line = errors.lines().next().unwrap_or_default();
        if code != 2 || !line.contains("only a newer program understands what follows; ") {
            complain(format!("ends with {code}: {errors}"));
        }
        let text = if verb == "check" { format!("{out}{errors}") } else { errors };
        let own = told(code, &text);
        match &first {
            None => first = Some((verb, own)),
            Some((of, other)) if *other != own => complain(format!("{own:?}, {of} {other:?}: {text}")),
            Some(_) => {}
        }
        let written = || fs::read_dir(folder.path()).unwrap().count() > 1;
        let is_into_pipe = call.contains(&"-");
        let is_writer = call.contains(&"-o") && !is_into_pipe;
        if written() {
            complain(format!("writes: {text}"));
        }
        let (code, out, errors) = match (is_writer, verb) {
            (true, _) => run(call, &stopped, folder.path(), &["--keep-damaged", "--json", "-q"]),
            _ if is_into_pipe => run(call, &stopped, folder.path(), &["-q"]),
            (_, "view" | "diff") => run(call, &stopped, folder.path(), &["-q"]),
            _ => run(call, &stopped, folder.path(), &["--json", "-q"]),
        };
        if code != 2 || is_writer && !written() {
            complain(format!("-q ends with {code}, writes {}: {errors}", written()));
        }
        let answer: Value = serde_json::from_str(&out).unwrap_or_default();
        if answer.is_object() && answer["lost"].is_null() {
            complain(format!("--json loses nothing: {out}"));
        }
        match verb {
            "view" => {
                let (_, all, _) = run(call, stream, folder.path(), &["-q"]);
                let n_said = out.lines().count();
                // Some verbs end with a sum.
                let n_all = all.lines().count();
                let own = out.lines().take(n_said.saturating_sub(ENDING_LINES).max(1));
                // The instructions are in a file that is attached after them.
                let has_instrs = name == "drmemtrace-raw.carried";
                let is_begin = has_instrs || all.lines().zip(own).all(|(one, other)| one == other);
                if !is_begin || n_said < 2 || n_said > n_all {
                    complain(format!("prints {n_said} lines of {n_all}"));
                }
            }
            "analyze" => {
                let threads =
                    answer["results"]["schedule"]["threads"].as_array().cloned().unwrap_or_default();
                let n_records: u64 = threads.iter().filter_map(|thread| thread["records"].as_u64()).sum();
                if n_records == 0 {
                    complain(format!("has no records: {out}"));
                }
            }
            _ => {}
        }
    }
    wrong
}

#[test]
fn what_precedes_a_frame_that_must_be_understood_is_delivered_by_every_verb() {
    let folder = tempfile::tempdir().unwrap();
    let made = samples::some(folder.path(), &|name| SAMPLES.contains(&name));
    let mut wrong = Vec::new();
    for Sample { name, trace, .. } in made {
        wrong.extend(stops(name, &named(trace)));
    }
    // Records are printed as they arrive, and no more can follow.
    let stream = folder.path().join("minimal.quipu");
    let whole = fs::read(fixtures("stream").join("minimal.quipu")).unwrap();
    fs::write(&stream, with_critical(&whole)).unwrap();
    wrong.extend(stops("minimal", &fixtures("stream").join("minimal.quipu")));
    let (code, out, errors) = run(&["view", "--follow", "@"], &stream, folder.path(), &[]);
    let (_, all, _) = run(&["view", "@"], &fixtures("stream").join("minimal.quipu"), folder.path(), &[]);
    let (n_said, n_all) = (out.lines().count(), all.lines().count());
    assert!(code == 2 && n_said > 1 && n_said < n_all, "{code}, {n_said} of {n_all}: {errors}");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// For frames that a recorder fills in place, the checksum of the payload is meaningless.
#[test]
fn an_open_frame_that_must_be_understood_ends_every_verb_and_its_copy_says_so() {
    use quipu_stream::frame::{Header, flag};
    let folder = tempfile::tempdir().unwrap();
    let stopped = folder.path().join("stopped.quipu");
    let whole = fs::read(fixtures("stream").join("open-frames.quipu")).unwrap();
    let first = frames(&whole).into_iter().find(|frame| frame.kind == 9).unwrap();
    let header = Header::read(&whole[first.at..]).unwrap();
    for header in [Header { kind: 200, ..header }, Header { encoding: 0x8001, ..header }] {
        let mut bytes = whole.clone();
        let header = Header { flags: header.flags | flag::CRITICAL, ..header };
        bytes[first.at..first.at + 96].copy_from_slice(&header.to_bytes());
        fs::write(&stopped, bytes).unwrap();
        for call in
            [&["check", "@"][..], &["view", "@"], &["info", "@"], &["report", "@"], &["describe", "@"]]
        {
            let (code, _, errors) = run(call, &stopped, folder.path(), &[]);
            assert!(
                code == 2 && errors.contains("only a newer program understands"),
                "{call:?}: {code} {errors}"
            );
        }
        let copy = ["convert", "@", "-o", "%.quipu"];
        let (code, _, errors) = run(&copy, &stopped, folder.path(), &["--keep-damaged"]);
        let copied = folder.path().join("copied.quipu");
        fs::rename(folder.path().join("out.quipu"), &copied).unwrap();
        let (checked, out, said) = run(&["check", "@"], &copied, folder.path(), &[]);
        assert!(
            code == 2 && checked == 1 && out.contains("[stream/lost]"),
            "{code} {errors}, {checked} {out}{said}"
        );
    }
}

#[test]
fn an_index_hides_no_frame_that_must_be_understood() {
    use quipu_stream::frame::{Header, flag, write_frame};
    let folder = tempfile::tempdir().unwrap();
    let stopped = folder.path().join("stopped.quipu");
    for name in ["minimal.quipu", "prism-fixed.quipu", "carried-lackey.quipu"] {
        let whole = fs::read(fixtures("stream").join(name)).unwrap();
        let all = frames(&whole);
        let at = all.iter().find(|frame| frame.kind == 2).unwrap().end;
        let hidden = critical(&whole);
        let index = all.iter().find(|frame| frame.kind == 4).unwrap();
        // The index lists all frames except the new one, whose bytes its distances skip.
        let mut header = Header::read(&whole[index.at..]).unwrap();
        let mut payload = whole[index.payload..index.payload + index.len].to_vec();
        for entry in payload[16..].chunks_exact_mut(56) {
            let back = u64::from_le_bytes(entry[..8].try_into().unwrap());
            if index.at as u64 - back < at as u64 {
                entry[..8].copy_from_slice(&(back + hidden.len() as u64).to_le_bytes());
            }
        }
        let (len, mut forged) = (payload.len() as u32, Vec::new());
        write_frame(&mut header, len, &mut payload, &mut forged).unwrap();
        assert_eq!(forged.len(), index.end - index.at);
        let passed_over =
            [&whole[..at], &hidden, &whole[at..index.at], &forged, &whole[index.end..]].concat();
        // Or the index lists a frame with the kind that it had before.
        let last = all.iter().rfind(|frame| frame.kind == 2).unwrap().at;
        let header = Header::read(&whole[last..]).unwrap();
        let mut called_another = whole.clone();
        let header = Header { kind: 200, flags: header.flags | flag::CRITICAL, ..header };
        let payload = last + header.len_bytes() as usize;
        let header = header.to_bytes_with(&whole[last + 96..payload]);
        called_another[last..payload].copy_from_slice(&header);
        for (way, bytes) in [("passed over", passed_over), ("called another", called_another)] {
            fs::write(&stopped, bytes).unwrap();
            for call in
                [&["check", "@"][..], &["view", "@"], &["info", "@"], &["report", "@"], &["describe", "@"]]
            {
                let (code, _, errors) = run(call, &stopped, folder.path(), &[]);
                let is_told = errors.contains("only a newer program understands");
                // Verbs that read no frames trust the index.
                let reads = way == "passed over" || call[0] != "info";
                assert!(!reads || code == 2 && is_told, "{name} {way} {call:?}: {code} {errors}");
            }
        }
    }
}

#[test]
fn traces_that_differ_before_a_frame_that_must_be_understood_end_with_its_code() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(fixtures("stream").join("minimal.quipu")).unwrap();
    let [stopped, other] = ["stopped.quipu", "other.quipu"].map(|name| folder.path().join(name));
    fs::write(&stopped, with_critical(&whole)).unwrap();
    fs::copy(fixtures("stream").join("two-producers.quipu"), &other).unwrap();
    for [old, new] in [[&stopped, &other], [&other, &stopped]] {
        let (code, out, errors) = run(&["diff", old.to_str().unwrap(), "@"], new, folder.path(), &[]);
        assert!(
            code == 2 && !out.is_empty() && errors.contains("only a newer program"),
            "{code}: {out}{errors}"
        );
    }
}

#[test]
fn a_first_frame_that_must_be_understood_ends_every_verb_alike() {
    let folder = tempfile::tempdir().unwrap();
    let made = samples::some(folder.path(), &|name| SAMPLES.contains(&name));
    let stopped = folder.path().join("stopped.quipu");
    let mut wrong = Vec::new();
    for Sample { name, trace, .. } in made {
        // Nothing of the trace precedes it.
        let whole = fs::read(named(trace)).unwrap();
        let first = frames(&whole).into_iter().find(|frame| matches!(frame.kind, 2 | 6)).unwrap().at;
        fs::write(&stopped, [&whole[..first], &critical(&whole[first..])].concat()).unwrap();
        for call in [&["check", "@"][..], &["view", "-q", "@"], &["info", "@"], &["report", "@"]] {
            let (code, _, errors) = run(call, &stopped, folder.path(), &[]);
            let line = errors.lines().next().unwrap_or_default();
            if code != 2 || !line.contains("only a newer program understands what follows") {
                wrong.push(format!("{name}: {call:?} ends with {code}: {errors}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Verbs that copy a stream; `@` is the stream, `%` the copy. Those after the first are for streams of rows.
const COPIERS: &[&[&str]] = &[
    &["convert", "@", "-o", "%.quipu"],
    &["merge", "@", "-o", "%.quipu"],
    &["trim", "--take", "1000000", "@", "-o", "%.quipu"],
    &["split", "@", "-o", "%"],
];

/// Copies a stream with all kinds of damage, and the copy again; returns differences between the reported losses.
fn copies(name: &str, stream: &Path, copiers: &[&[&str]], n_copied: &AtomicUsize) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(stream).unwrap();
    let [damaged, again, last] =
        ["damaged.quipu", "again.quipu", "last.quipu"].map(|file| folder.path().join(file));
    let checked = |stream: &Path| {
        let (code, out, errors) = run(&["check", "@"], stream, folder.path(), &[]);
        let mut told = Told { place: None, ..told(code, &errors) };
        told.lost = told.lost.replace(stream.to_str().unwrap(), "@");
        (told, out + &errors)
    };
    let mut wrong = Vec::new();
    for harm in harms(&whole) {
        fs::write(&damaged, &harm.bytes).unwrap();
        let (wanted, text) = checked(&damaged);
        for copier in copiers {
            let mut complain =
                |what: String| wrong.push(format!("{name}, {}, {}: {what}", harm.name, copier[0]));
            let (code, _, errors) = run(copier, &damaged, folder.path(), &["--keep-damaged"]);
            let mut copy = folder.path().join("out.quipu");
            if copier[0] == "split" {
                copy.set_extension("");
            }
            if !copy.exists() {
                // Nothing is left to copy.
                if code != 1 || !errors.contains("there is no answer") {
                    complain(format!("no copy ({code}): {errors}"));
                }
                continue;
            }
            n_copied.fetch_add(1, Ordering::Relaxed);
            let _ = fs::remove_dir_all(&again);
            let _ = fs::remove_file(&again);
            fs::rename(&copy, &again).unwrap();
            let (own, said) = checked(&again);
            // An index may state the size of the loss, which the copy then reports.
            let is_known = own.code == 1 && wanted.lost.contains("unknown") && own.lost.contains(" record");
            if own != wanted && !is_known
                || text.contains("/no-end-frame]") && !said.contains("/no-end-frame]")
            {
                complain(format!("{wanted:?}, but the copy {own:?}: {said}"));
            }
            let (_, _, errors) = run(COPIERS[0], &again, folder.path(), &["--keep-damaged"]);
            fs::rename(folder.path().join("out.quipu"), &last).unwrap();
            let (third, said) = checked(&last);
            if third != own {
                complain(format!("{own:?}, but a copy of the copy {third:?}: {said}{errors}"));
            }
        }
    }
    wrong
}

#[test]
fn copies_of_damaged_streams_say_what_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    const ROWS: &[&str] = &["stream", "recording"];
    const COPIED: &[&str] = &["lackey.carried", "apitrace.frames", "drmemtrace.frames", "prism.quipu"];
    let made = samples::some(folder.path(), &|name| ROWS.contains(&name) || COPIED.contains(&name));
    let (mut wrong, n_copied) = (Vec::new(), AtomicUsize::new(0));
    for Sample { name, trace, .. } in made {
        let copiers = if ROWS.contains(&name) { COPIERS } else { &COPIERS[..1] };
        wrong.extend(copies(name, &named(trace), copiers, &n_copied));
    }
    let n_copied = n_copied.into_inner();
    assert!(wrong.is_empty(), "{} of {n_copied} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(n_copied > 150, "{n_copied}");
}

#[test]
fn a_stream_says_what_the_file_that_was_put_into_it_had_lost() {
    let folder = tempfile::tempdir().unwrap();
    let packed = fs::read(fixtures("lackey").join("nodes.lackey.gz")).unwrap();
    let cut = folder.path().join("cut.lackey.gz");
    fs::write(&cut, &packed[..packed.len() / 2]).unwrap();
    let mut wrong_checksum = packed.clone();
    let at = packed.len() - 6;
    wrong_checksum[at] ^= 1;
    let summed = folder.path().join("summed.lackey.gz");
    fs::write(&summed, &wrong_checksum).unwrap();
    let stream = folder.path().join("stream.quipu");
    for from in [fixtures("apitrace").join("zlib-no-eof.trace"), cut, summed] {
        let verbs: &[&[&str]] =
            &[&["convert", "@", "-o", "%.quipu"], &["trim", "--calls", "0-20", "@", "-o", "%.quipu"]];
        let is_apitrace = from.extension().is_some_and(|ending| ending == "trace");
        for verb in &verbs[..if is_apitrace { 2 } else { 1 }] {
            let (code, _, errors) = run(verb, &from, folder.path(), &["--keep-damaged"]);
            assert_eq!(code, 1, "{from:?} {verb:?}: {errors}");
            fs::rename(folder.path().join("out.quipu"), &stream).unwrap();
            for read in [&["check", "@"][..], &["view", "@"], &["report", "@"], &["info", "@"]] {
                let (code, _, errors) = run(read, &stream, folder.path(), &[]);
                assert_eq!(code, 1, "{from:?} {verb:?} {read:?}: {errors}");
                let told = told(code, &errors).lost;
                assert_eq!(told, "an unknown number of records is lost", "{read:?}: {errors}");
            }
            // It cannot be converted back as if it were undamaged.
            let (code, _, errors) = run(&["convert", "@", "-o", "%"], &stream, folder.path(), &[]);
            assert!(code == 1 && !folder.path().join("out").exists(), "{errors}");
        }
    }
}

/// The same file under a name by which its format is recognised.
fn named(stream: PathBuf) -> PathBuf {
    let name = stream.with_extension("quipu");
    if name != stream {
        fs::rename(&stream, &name).unwrap();
    }
    name
}
