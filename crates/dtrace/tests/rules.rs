//! Breaks each rule of the checker once, by name, so that a rule without a capture that breaks it is noticed.

use crate::family::{open, view};
use crate::samples::{bytes, classic, linux_capture, root};
use quipu_dtrace::carry::Encoded;
use quipu_dtrace::lost::Lost;
use quipu_dtrace::{Capture, carry, rules};
use quipu_model::Window;
use quipu_stream::frame::{Header, SYNC, encoding, flag, write_frame};
use quipu_stream::write::{Options, Writer};
use quipu_wire::crc32c;
use quipu_wire::record::{Encoding, Producer};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Makes a capture that breaks a rule in a folder; returns the path to open.
type Broken = fn(&Path) -> PathBuf;

/// Copies a case and returns the folder of the copy.
fn copied(case: &str, home: &Path) -> PathBuf {
    let to = home.join("case");
    fs::create_dir(&to).unwrap();
    quipu_testkit::copy_files(&root().join(case), &to);
    to
}

/// Copies a case, with some text of a file replaced.
fn changed(case: &str, file: &str, (from, to): (&str, &str), home: &Path) -> PathBuf {
    let case = copied(case, home);
    let text = fs::read_to_string(case.join(file)).unwrap();
    assert!(text.contains(from), "{from}");
    fs::write(case.join(file), text.replacen(from, to, 1)).unwrap();
    case
}

fn put(home: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = home.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

fn producer() -> Producer {
    Producer { uuid: [7; 16], ..Producer::default() }
}

fn stream(capture: &Capture) -> Vec<u8> {
    carry::write(capture, producer(), Encoded::Plain, Vec::new()).unwrap()
}

/// Copies a case of Linux, with its first sample changed.
fn with_sample(home: &Path, change: fn(&mut Vec<u8>)) -> PathBuf {
    let case = copied("linux/trace_ints", home);
    let text = fs::read_to_string(case.join("raw.jsonl")).unwrap();
    let (before, raw) = text.split_once("\"raw\":\"").unwrap();
    let (raw, after) = raw.split_once('"').unwrap();
    let digits = |at: usize| u8::from_str_radix(&raw[at..at + 2], 16).unwrap();
    let mut sample: Vec<u8> = (0..raw.len()).step_by(2).map(digits).collect();
    change(&mut sample);
    let raw: String = sample.iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(case.join("raw.jsonl"), format!("{before}\"raw\":\"{raw}\"{after}")).unwrap();
    case
}

/// A self-describing buffer with one more metadata record at its end.
fn with_record(kind: u32, payload: &[u8]) -> Vec<u8> {
    let mut all = bytes(&root().join("../stream/padding.midbuf"));
    let start = all.len().next_multiple_of(4);
    all.resize(start, 0);
    for word in [u32::MAX, 0, 0, 0, kind, payload.len() as u32] {
        all.extend_from_slice(&word.to_le_bytes());
    }
    all.extend_from_slice(payload);
    let sum = crc32c(&all[start + 16..]);
    all[start + 12..start + 16].copy_from_slice(&sum.to_le_bytes());
    all.resize(all.len().next_multiple_of(4), 0);
    all
}

const BROKEN: &[(&str, Broken)] = &[
    ("dtrace/unknown-id", |_| root().join("classic/unknown_epid")),
    ("dtrace/cut-record", |home| {
        let case = copied("classic/mixed_1000", home);
        let buffer = fs::read(case.join("buf.cpu0.bin")).unwrap();
        fs::write(case.join("buf.cpu0.bin"), &buffer[..5991]).unwrap();
        case
    }),
    // The same in buffers of aggregations and in samples of Linux.
    ("dtrace/unknown-id", |home| {
        let case = copied("classic/mixed_1000", home);
        let mut buffer = fs::read(case.join("agg.cpu1.bin")).unwrap();
        buffer[..4].copy_from_slice(&77u32.to_le_bytes());
        fs::write(case.join("agg.cpu1.bin"), buffer).unwrap();
        case
    }),
    ("dtrace/cut-record", |home| {
        let case = copied("classic/mixed_1000", home);
        let name = case.join("agg.cpu1.bin");
        let buffer = fs::read(&name).unwrap();
        fs::write(&name, &buffer[..buffer.len() - 4]).unwrap();
        let text = fs::read_to_string(case.join("meta.json")).unwrap();
        let (from, to) = (format!("\"size\": {}", buffer.len()), format!("\"size\": {}", buffer.len() - 4));
        fs::write(case.join("meta.json"), text.replace(&from, &to)).unwrap();
        case
    }),
    ("dtrace/unknown-id", |home| {
        with_sample(home, |sample| sample[12..16].copy_from_slice(&77u32.to_le_bytes()))
    }),
    ("dtrace/cut-record", |home| with_sample(home, |sample| sample.truncate(sample.len() - 4))),
    ("dtrace/cut-record", |home| {
        // As long as its size word says, but shorter than its parts.
        with_sample(home, |sample| {
            sample.truncate(20);
            sample[..4].copy_from_slice(&16u32.to_le_bytes());
        })
    }),
    ("dtrace/unknown-probe", |home| {
        changed("classic/cpu_order", "meta.json", ("\"id\": 100,", "\"id\": 99100,"), home)
    }),
    ("dtrace/unknown-probe", |home| {
        let case = copied("linux/flowindent", home);
        let text = fs::read_to_string(case.join("raw.jsonl")).unwrap();
        let is_probe = |line: &&str| line.contains("\"t\":\"probe\"");
        assert!(text.lines().any(|line| is_probe(&line)));
        let without: Vec<&str> = text.lines().filter(|line| !is_probe(line)).collect();
        fs::write(case.join("raw.jsonl"), without.join("\n")).unwrap();
        case
    }),
    ("dtrace/time-order", |home| {
        let case = copied("classic/flowindent", home);
        let mut buffer = fs::read(case.join("buf.cpu0.bin")).unwrap();
        buffer[0x18..0x1c].copy_from_slice(&5u32.to_le_bytes());
        fs::write(case.join("buf.cpu0.bin"), buffer).unwrap();
        case
    }),
    ("dtrace/cleared-records", |home| {
        let case = copied("classic/mixed_1000", home);
        let mut buffer = fs::read(case.join("buf.cpu0.bin")).unwrap();
        buffer[0x7e0..0x820].fill(0);
        fs::write(case.join("buf.cpu0.bin"), buffer).unwrap();
        case
    }),
    ("dtrace/cleared-records", |home| {
        let case = copied("classic/agg_scalar", home);
        let mut buffer = fs::read(case.join("agg.cpu0.bin")).unwrap();
        buffer[40..80].fill(0);
        fs::write(case.join("agg.cpu0.bin"), buffer).unwrap();
        case
    }),
    ("dtrace/buffer-size", |home| {
        let case = copied("classic/mixed_1000", home);
        let buffer = fs::read(case.join("buf.cpu0.bin")).unwrap();
        fs::write(case.join("buf.cpu0.bin"), &buffer[..6000]).unwrap();
        case
    }),
    ("dtrace/missing-buffer", |home| {
        let case = copied("classic/mixed_1000", home);
        fs::remove_file(case.join("buf.cpu2.bin")).unwrap();
        case
    }),
    ("dtrace/format", |home| {
        changed("classic/printf", "meta.json", ("\"string\": \"%i\\n\"", "\"string\": \"%n\\n\""), home)
    }),
    ("dtrace/description-checksum", |home| {
        let mut buffer = bytes(&root().join("../stream/padding.midbuf"));
        let at = buffer.windows(4).position(|window| window == b"read").unwrap();
        buffer[at] ^= 1;
        put(home, "bad.midbuf", &buffer)
    }),
    // A map without a key that its kind requires, and a loss that is no map.
    ("dtrace/description-invalid", |home| put(home, "bad.midbuf", &with_record(1, &[0xa1, 0x00, 0x0f]))),
    ("dtrace/description-invalid", |home| put(home, "bad.midbuf", &with_record(4, &[0xff]))),
    ("dtrace/line", |home| {
        changed(
            "linux/trace_ints",
            "raw.jsonl",
            ("\"t\":\"sample\",\"cpu\":", "\"t\":\"sample\",\"cpu\":-"),
            home,
        )
    }),
    // A state that is longer than in its description.
    ("dtrace/line", |home| {
        changed("linux/agg_scalar", "raw.jsonl", ("\"data\":\"", "\"data\":\"1111111111111111"), home)
    }),
    ("dtrace/unknown-encoding", |home| {
        let writer = Writer::new(Vec::new(), Options { producer: producer(), ..Options::new("quipu") });
        let name = Some("other".to_owned());
        writer.define(Encoding { id: 0x9000, name, based_on: Some(32), ..Encoding::default() }).unwrap();
        let mut body = writer.stream(1).unwrap();
        body.foreign(0x9000, 3, (0, 0), b"whatever").unwrap();
        body.finish().unwrap();
        writer.finish().unwrap();
        let good = stream(&classic(&root().join("classic/trace_basic")));
        put(home, "both.quipu", &[good, writer.into_inner().unwrap()].concat())
    }),
    ("dtrace/several-hosts", |home| {
        let one = classic(&root().join("classic/trace_basic"));
        let mut other = one.clone();
        other.settings.temporal = true;
        let of = |capture: &Capture, number| {
            let producer = Producer { uuid: [number; 16], ..Producer::default() };
            carry::write(capture, producer, Encoded::Plain, Vec::new()).unwrap()
        };
        put(home, "both.quipu", &[of(&one, 1), of(&other, 2)].concat())
    }),
    ("dtrace/repeated-frames", |home| {
        let good = stream(&classic(&root().join("classic/trace_basic")));
        put(home, "twice.quipu", &[&good[..], &good].concat())
    }),
    ("dtrace/stream", |home| {
        let mut stream = stream(&classic(&root().join("classic/trace_basic")));
        let at = stream.len() / 2;
        stream[at] ^= 1;
        put(home, "flipped.quipu", &stream)
    }),
    ("dtrace/odd-stream", |home| {
        let stream = stream(&classic(&root().join("classic/trace_basic")));
        let end = (0..stream.len()).rfind(|at| stream[*at..].starts_with(&SYNC)).unwrap();
        put(home, "without-end.quipu", &stream[..end])
    }),
    ("dtrace/needs-newer-program", |home| {
        let mut stream = stream(&classic(&root().join("classic/trace_basic")));
        let mut header = Header {
            kind: 200,
            encoding: encoding::CBOR,
            flags: flag::CRITICAL,
            producer: 7,
            ..Header::default()
        };
        write_frame(&mut header, 8, &mut [7; 8], &mut stream).unwrap();
        put(home, "newer.quipu", &stream)
    }),
    ("dtrace/drops", |_| root().join("classic/drops")),
    ("dtrace/lost", |home| {
        let mut capture = linux_capture(&root().join("linux/trace_ints"));
        capture.lost.push(Lost { cause: 20, records: Some(3), text: "cut".to_owned() });
        put(home, "lost.quipu", &stream(&capture))
    }),
    ("dtrace/error-record", |_| root().join("classic/error_probe")),
];

#[test]
fn gaps_beyond_a_hundred_are_one() {
    // Two records of one probe, 301 times with 16 bytes between them.
    let mut capture = classic(&root().join("classic/trace_basic"));
    let buffer = &mut capture.buffers[0];
    let size =
        capture.enablings.iter().find(|of| buffer.bytes.starts_with(&of.id.to_le_bytes())).unwrap().size;
    let record = [&buffer.bytes[..size as usize], &[0; 16 + 8]].concat();
    let length = record.len().next_multiple_of(8);
    let record = [record.clone(), vec![0; length - record.len()]].concat();
    buffer.bytes = record.repeat(301);
    buffer.oldest = 0;
    let home = tempfile::tempdir().unwrap();
    let (_, findings) =
        view(&*open(&put(home.path(), "gaps.quipu", &stream(&capture)), &[]), true, Window::All);
    let found: Vec<_> = findings.iter().filter(|finding| finding.rule == "dtrace/cleared-records").collect();
    assert_eq!(found.len(), 101);
    // It is the first, since only a few findings of a rule are shown.
    let message = &found[0].message;
    assert!(
        message.starts_with("`200` more gaps between records, beside the first `100`, have"),
        "{message}"
    );
}

#[test]
fn what_counts_the_others_of_a_rule_stands_first() {
    let case = root().join("linux/trace_ints");
    let good = String::from_utf8(bytes(&case.join("raw.jsonl"))).unwrap();
    let findings = |text: String| quipu_dtrace::linux::read("raw.jsonl", text.as_bytes()).unwrap().findings;
    let first = |text: String, rule: &str| {
        let mut of_rule = findings(text).into_iter().filter(|found| found.rule == rule);
        let first = of_rule.next().unwrap().message.to_string();
        (first, of_rule.count())
    };
    let odd = "{\"t\":\"zone\",\"offset_s\":\"x\"}\n";
    let (message, n) = first(format!("{}{good}", odd.repeat(120)), "dtrace/description-invalid");
    assert_eq!((&*message, n), ("`20` more words of hosts cannot be, beside the first `100`", 100));
    let wrong = "{\"t\":\"sample\",\"cpu\":-1}\n";
    let (message, n) = first(format!("{good}{}", wrong.repeat(130)), "dtrace/line");
    assert_eq!((&*message, n), ("`30` more lines cannot be read, beside the first `100`", 100));
    // With exactly as many as are reported one by one, no summary is needed.
    let (message, n) = first(format!("{good}{}", wrong.repeat(100)), "dtrace/line");
    assert!(message.starts_with("line ") && n == 99, "{message}");
    // Losses of a capture.
    let mut capture = linux_capture(&case);
    let lost = |n: u64| Lost { cause: 18, records: Some(n), text: format!("part {n}") };
    capture.lost = (1..=110).map(lost).collect();
    let home = tempfile::tempdir().unwrap();
    let trace = open(&put(home.path(), "lost.quipu", &stream(&capture)), &[]);
    let lost: Vec<_> = trace.meta().findings.iter().filter(|found| found.rule == "dtrace/lost").collect();
    assert_eq!(lost.len(), 101);
    assert_eq!(lost[0].message, "`10` more losses are declared, beside the first `100`");
    let loss = lost[0].loss.as_ref().unwrap();
    assert_eq!(loss.records.exactly(), Some((101..=110).sum()));
}

#[test]
fn each_rule_is_broken_once() {
    for (rule, make) in BROKEN {
        let home = tempfile::tempdir().unwrap();
        let path = make(home.path());
        let (_, findings) = view(&*open(&path, &[]), true, Window::All);
        let found = findings.iter().find(|finding| finding.rule == *rule);
        let found = found.unwrap_or_else(|| panic!("{rule}: {findings:?}"));
        let known = rules::RULES.iter().find(|known| known.name == *rule).unwrap();
        assert_eq!(found.severity, known.severity, "{rule}");
        assert!(!found.place.is_empty() && !found.message.is_empty(), "{rule}: {found:?}");
    }
    let mut broken: BTreeSet<&str> = BROKEN.iter().map(|(rule, _)| *rule).collect();
    // A damaged index or end is reported for streams of all contents; the command line's test of damaged frames breaks this rule.
    broken.insert("dtrace/auxiliary-frame");
    assert_eq!(broken, rules::RULES.iter().map(|rule| rule.name).collect());
}
