//! The stream as text: it preserves every byte, people can change it, and mistakes are reported with their places.

// The helpers of a test may panic as the test may.

use crate::common;
use crate::fuzzing;
use quipu_apitrace::text::{MAGIC, assemble, disassemble};
use quipu_apitrace::trace;
use quipu_apitrace::write::WriteOptions;
use quipu_model::damaged::{Damaged, Intake};
use quipu_model::transform::Silent;
use quipu_model::{Error, OpenOptions, Paint, Result, Severity};
use quipu_source::Source;
use quipu_testkit::Rng;

fn open(stream: &[u8]) -> trace::ApiTrace {
    trace::open(&Source::from_bytes("test", stream), &OpenOptions::default()).unwrap()
}

/// The stream that a text describes.
fn assembled(text: &str) -> Result<Vec<u8>> {
    let mut stream = Vec::new();
    let mut no_blobs = |_: &str| Err(Error::usage("there are no files"));
    assemble::stream(text.as_bytes(), "text", &mut no_blobs, &mut |part| {
        stream.extend_from_slice(part);
        Ok(())
    })?;
    Ok(stream)
}

/// A text's stream, as apitrace dumps it.
fn dumped(text: &str) -> String {
    let trace = open(&assembled(text).unwrap());
    let settings = [("strings".to_owned(), "whole".to_owned()), ("thread-ids".to_owned(), "yes".to_owned())];
    let out = common::dump(&trace, &common::options(true, &settings), &Paint::PLAIN);
    String::from_utf8(out).unwrap()
}

fn disassembled(trace: &trace::ApiTrace) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    disassemble::disassemble(trace, &path, false, Intake::new(Damaged::Keep), &Silent).unwrap();
    std::fs::read_to_string(&path).unwrap()
}

#[test]
fn the_text_of_every_trace_says_its_stream_byte_for_byte() {
    for name in common::traces() {
        let trace = trace::open(&common::source(&name), &OpenOptions::default()).unwrap();
        fuzzing::same_text(&trace);
    }
}

#[test]
fn what_text_cannot_say_stands_there_as_bytes() {
    let stream = common::stream("synth-d3d-kinds");
    let trace = open(&stream);
    let whole = disassembled(&trace);
    assert!(!whole.contains("raw "), "{whole}");
    // Cut within an event, and followed by bytes that form no event.
    let cut = &stream[..stream.len() - 1];
    fuzzing::same_text(&open(cut));
    assert!(disassembled(&open(cut)).contains("tail "));
    let mut followed = stream.clone();
    followed.extend_from_slice(b"\x07garbage");
    fuzzing::same_text(&open(&followed));
    // A number that is longer than necessary: thread 0 in two bytes.
    let header_end = stream.iter().position(|byte| *byte == 0).unwrap() + 1;
    let events = stream[header_end..].to_vec();
    assert_eq!(events[0], 0, "an event begins");
    let long = [&stream[..header_end], &[0, 0x80 | events[1], 0], &events[2..]].concat();
    fuzzing::same_text(&open(&long));
    assert!(disassembled(&open(&long)).contains("raw "));
    // The same in the header: the end of its properties in two bytes.
    let of_header = [&b"\x06\x06\x07os.name\x04none\x80\0"[..], &events].concat();
    fuzzing::same_text(&open(&of_header));
    let text = disassembled(&open(&of_header));
    assert_eq!(assembled(&text).unwrap(), of_header);
    let cut = text.replacen("8000\"", "80\"", 1);
    assert_ne!(cut, text);
    let error = assembled(&cut).unwrap_err().to_string();
    assert!(error.contains("not the header of a stream"), "{error}");
    // Only the exit code shows it.
    let folder = tempfile::tempdir().unwrap();
    // The trace has a call that is left but was never entered.
    let unentered = ("apitrace/never-entered", Severity::Warning);
    let raw = ("apitrace/not-understood", Severity::Error);
    for (name, stream, findings) in [("whole", &stream, &[unentered][..]), ("long", &long, &[unentered, raw])]
    {
        let done = disassemble::disassemble(
            &open(stream),
            &folder.path().join(name),
            true,
            Intake::new(Damaged::Keep),
            &Silent,
        )
        .unwrap();
        let found: Vec<_> =
            done.reading.findings.iter().map(|found| (&*found.rule, found.severity)).collect();
        assert_eq!(found, findings);
    }
}

#[test]
fn arguments_beyond_what_readers_take_are_refused() {
    let text = |position: u64| {
        format!("{}\nversion 6 semantic 6\nfunction 0 glFoo(a, b)\nglFoo(#{position} = 1)\n", MAGIC)
    };
    assert_eq!(dumped(&text(1025)).lines().count(), 1);
    for position in [1026, 4_000_000_000, u64::MAX] {
        let error = assembled(&text(position)).unwrap_err();
        let expected = format!("the position of an argument is `{position}`, and must be below `1026`");
        assert!(error.to_string().contains(&expected), "{error}");
    }
}

#[test]
fn changed_streams_keep_their_bytes() {
    let mut rng = Rng::new(7);
    for name in ["synth-d3d-kinds", "incomplete-call", "synth-v0", "threads-3x20"] {
        let stream = common::stream(name);
        for _ in 0..60 {
            let mut changed = stream.clone();
            let at = 1 + rng.below(changed.len() as u64 - 1) as usize;
            changed[at] = rng.next() as u8;
            let source = Source::from_bytes("changed", changed);
            if let Ok(trace) = trace::open(&source, &OpenOptions::default()) {
                fuzzing::same_text(&trace);
            }
        }
    }
}

const HEAD: &str = "\
quipu-text apitrace 1
version 6
semantic 6
property \"process.name\" = \"/bin/x\"

function 1 glFoo(a, b)
function 2 \"I::Bar(int)\"(this)
enum 5 { GL_A = 1  GL_B = 2, GL_C = -3 }
flags 6 { BIT_A = 1 BIT_B = 2 }
struct 7 Point {x, y}
frame 9 { module \"m\" function \"f\" line 3 offset 16 }
";

#[test]
fn people_can_write_calls() {
    let text = format!(
        "{HEAD}
# A comment, and calls with all kinds of values.
glFoo(a = GL_A, b = [GL_B, enum 5(77), GL_C]) = \"line\\n\"
    \"next\\\"\"
@2 glFoo(a = BIT_A | BIT_B, b = flags 6(0x4 | BIT_A)) !fake -> (b = null) = 0x10
glFoo(a = Point{{x = -1, y = 1.5f}}, b = hex \"0aff\")
3: enter glFoo(#5 = L\"wide\") !stack [9]
\"I::Bar(int)\"(this = pair(true, 1e300))
leave 3 () = float(0x7fc00000)
enter glFoo()
"
    );
    assert_eq!(
        dumped(&text),
        "// process.name = \"/bin/x\"
0 @0 glFoo(a = GL_A, b = {GL_B, 77, GL_C}) = \"line\\nnext\\\"\"
1 @2 glFoo(a = BIT_A | BIT_B, b = NULL) = 0x10 // fake
2 @0 glFoo(a = {x = -1, y = 1.5}, b = blob(2))
4 @0 I::Bar(int)(this = true)
3 @0 glFoo(a = ?, b = ?, ?, ?, ?, L\"wide\") = nan
Backtrace:
m: f+0x10
5 @0 glFoo(a = ?, b = ?) // incomplete
"
    );
}

#[test]
fn calls_may_be_inserted_and_deleted_without_counting() {
    let stream = common::stream("threads-3x20");
    let text = disassembled(&open(&stream));
    let line = text.lines().find(|line| line.contains("glClear(mask = ")).unwrap();
    let (_, call) = line.split_once(": ").unwrap();
    let inserted = call.replace("enter ", "");
    let changed: String = text
        .lines()
        .flat_map(|other| [if other == line { inserted.as_str() } else { "" }, other])
        .filter(|line| !line.is_empty())
        .map(|line| format!("{line}\n"))
        .collect();
    let count = |stream: &[u8]| {
        let text = disassembled(&open(stream));
        (
            text.matches("glClear(mask = ").count(),
            text.matches("leave ").count(),
            text.matches("enter ").count(),
        )
    };
    let (before, after) = (count(&stream), count(&assembled(&changed).unwrap()));
    assert_eq!(after, (before.0 + 1, before.1, before.2));
}

#[test]
fn mistakes_are_told_with_line_and_column() {
    let n_head = HEAD.lines().count() + 1;
    for (line, message) in [
        ("glBar()", "column 1: there is no function `glBar`"),
        ("glFoo(c = 1)", "column 7: there is no argument `c`"),
        ("glFoo(a = GL_D)", "column 11: there is no name `GL_D` among the types so far"),
        ("glFoo(a = 1 b = 2)", "column 13: expected `,`, found `b`"),
        ("glFoo(a = Point{x = 1})", "column 22: expected `,`, found `}`"),
        ("glFoo(a = Point{y = 1, x = 2})", "column 17: expected member `x`"),
        ("glFoo(a = Circle{})", "column 11: there is no structure `Circle`"),
        ("glFoo(a = BIT_A | GL_A)", "column 19: `GL_A` is not of the same type"),
        ("glFoo(a = 99999999999999999999)", "column 11: `99999999999999999999` is no number"),
        ("glFoo(a = hex \"0\")", "column 15: expected pairs of hex digits"),
        ("glFoo(a = blob \"x\")", "column 11: raw memory is missing"),
        ("glFoo() !stack [8]", "column 17: there is no frame `8`"),
        ("glFoo() !odd", "column 10: expected `fake`, `flags` or `stack`"),
        ("leave 7 ()", "column 7: call `7` is not open"),
        ("enum 5 { X = 1 }", "column 1: there is a enum `5` already"),
        ("7: leave 3 ()", "column 4: expected a call, found `leave`"),
        ("version 6", "column 1: `version` stands at the front, before all types and calls"),
        ("raw hex \"07\"", "column 5: these bytes are not one event"),
        ("tail hex \"07\" glFoo()", "column 15: expected nothing after `tail`, found `g`"),
        ("glFoo(a = ", "column 1: expected a value, found the end of the text"),
        ("?", "column 1: expected a statement, found `?`"),
    ] {
        let error = assembled(&format!("{HEAD}{line}\n")).unwrap_err().to_string();
        let at_end = n_head + usize::from(line.ends_with(' '));
        assert_eq!(error, format!("text: line {at_end}, {message}"), "{line}");
    }
    for (text, message) in [
        ("", "line 1, column 1: a text begins with `quipu-text apitrace 1`"),
        ("quipu-text drmemtrace 1", "line 1, column 1: a text begins with `quipu-text apitrace 1`"),
        (
            "quipu-text apitrace 1 version 7",
            "line 1, column 31: there is no version `7` of the stream, the newest is `6`",
        ),
    ] {
        assert_eq!(assembled(text).unwrap_err().to_string(), format!("text: {message}"));
    }
    let deep = format!("{HEAD}glFoo(a = {})", "[".repeat(100_000));
    assert!(assembled(&deep).unwrap_err().to_string().contains("values are nested deeper than `256`"));
}

#[test]
fn nothing_is_replaced_or_left_behind_unless_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (text, path) = (folder.path().join("text"), folder.path().join("trace"));
    let trace = trace::open(&common::source("kinds"), &OpenOptions::default()).unwrap();
    disassemble::disassemble(&trace, &text, false, Intake::new(Damaged::Keep), &Silent).unwrap();
    assert!(disassemble::disassemble(&trace, &text, false, Intake::new(Damaged::Keep), &Silent).is_err());
    disassemble::disassemble(&trace, &text, true, Intake::new(Damaged::Keep), &Silent).unwrap();
    // A folder that contains other files is not removed.
    let other = disassemble::blob_folder(&text).join("diary");
    std::fs::write(&other, "precious").unwrap();
    assert!(disassemble::disassemble(&trace, &text, true, Intake::new(Damaged::Keep), &Silent).is_err());
    std::fs::remove_file(other).unwrap();
    let mut changed = std::fs::read_to_string(&text).unwrap();
    changed.push_str("nonsense");
    std::fs::write(&text, changed).unwrap();
    assert!(assemble::assemble(&text, &path, &WriteOptions::USUAL, &Silent).is_err());
    assert!(!path.exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn files_of_raw_memory_are_looked_for_in_their_folder_only() {
    let folder = tempfile::tempdir().unwrap();
    let (text, path) = (folder.path().join("text"), folder.path().join("trace"));
    for name in ["../secret", "/etc/hostname", ".."] {
        std::fs::write(&text, format!("{HEAD}glFoo(a = blob \"{name}\")")).unwrap();
        std::fs::create_dir_all(disassemble::blob_folder(&text)).unwrap();
        std::fs::write(folder.path().join("secret"), "x").unwrap();
        let error = assemble::assemble(&text, &path, &WriteOptions::USUAL, &Silent).unwrap_err();
        assert!(error.to_string().contains("raw memory is missing"), "{error}");
    }
}

#[test]
fn the_seeds_of_fuzzing_say_the_same_again() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");
    let n_seeds = quipu_testkit::fuzz::each_file(format!("{folder}/apitrace"), fuzzing::write_and_text);
    let n_texts = quipu_testkit::fuzz::each_file(format!("{folder}/apitrace_text"), fuzzing::write_and_text);
    assert!(n_seeds >= 5 && n_texts >= 3, "{n_seeds} {n_texts}");
}
