//! Targets for captures of DTrace, one for each dialect and form.
//!
//! A fuzzer that must keep hexadecimal digits and checksums valid makes little progress. Inputs therefore contain
//! descriptions as text and records as bytes; digits and checksums are generated.

use crate::streams;
use quipu::dtrace::bytes::ByteOrder;
use quipu::dtrace::carry::{self, Encoded};
use quipu::dtrace::options::Settings;
use quipu::dtrace::{Capture, DTRACE, Printed, carried, mid, objects_to, print, trace};
use quipu::model::{Error, Finding, OpenOptions};
use quipu::source::Source;
use quipu_stream::wire::crc32c;
use quipu_stream::wire::record::Producer;
use quipu_testkit::fuzz;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Reads any bytes as a capture in one of its forms: records, findings and the text, with and without quirks, must be the
/// same however it is read.
///
/// # Panics
/// If they differ.
pub fn any(bytes: &[u8]) {
    all_of(bytes, None);
}

/// Reads any bytes as `meta.json`, a zero byte, and the bytes of its buffers, in the dialect classic; checks them like
/// [`any`].
///
/// # Panics
/// As for [`any`].
pub fn classic(bytes: &[u8]) {
    folder(bytes, "classic");
}

/// Does the same in the dialect classic-v0.
///
/// # Panics
/// As for [`any`].
pub fn classic_v0(bytes: &[u8]) {
    folder(bytes, "classic-v0");
}

/// Reads any bytes as command options on a line that begins with `#`, lines of `raw.jsonl`, a zero byte, and samples and
/// states of Linux; checks them like [`any`].
///
/// # Panics
/// As for [`any`].
pub fn linux(bytes: &[u8]) {
    let (text, rest) = apart(bytes);
    let (options, text) = match text.strip_prefix(b"#") {
        Some(line) => line.split_at(line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len())),
        None => (&b""[..], text),
    };
    let mut lines = String::from_utf8_lossy(text.trim_ascii()).into_owned();
    lines.push('\n');
    put_events(rest, &mut lines);
    all_of(lines.as_bytes(), Some(Settings::of_command(&String::from_utf8_lossy(options))));
}

/// Reads any bytes as a principal buffer that contains its descriptions, unchanged and with corrected checksums; checks them
/// like [`any`].
///
/// # Panics
/// As for [`any`].
pub fn buffer(bytes: &[u8]) {
    all_of(bytes, None);
    all_of(&with_right_checksums(bytes), None);
}

/// Reads any bytes as a stream with DTrace bodies, unchanged and with corrected checksums; checks them like [`any`].
///
/// # Panics
/// As for [`any`].
pub fn stream(bytes: &[u8]) {
    all_of(bytes, None);
    all_of(&streams::repaired(bytes), None);
}

/// Splits at the first zero byte: the text before it, and the bytes after it.
fn apart(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == 0) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[]),
    }
}

/// Makes a single file of a description and the bytes of its buffers.
fn folder(bytes: &[u8], dialect: &str) {
    let (text, mut rest) = apart(bytes);
    let Ok(Json::Object(mut meta)) = serde_json::from_slice(text) else { return };
    meta.insert("dialect".to_owned(), dialect.into());
    for list in ["buffers", "aggbuffers"] {
        let buffers = meta.get_mut(list).and_then(Json::as_array_mut).into_iter().flatten();
        for buffer in buffers.filter_map(Json::as_object_mut) {
            let size = buffer.get("size").and_then(Json::as_u64).and_then(|n| usize::try_from(n).ok());
            let (own, after) = rest.split_at(size.unwrap_or(rest.len()).min(rest.len()));
            rest = after;
            buffer.insert("size".to_owned(), own.len().into());
            buffer.insert("hex".to_owned(), hex(own).into());
        }
    }
    all_of(Json::Object(meta).to_string().as_bytes(), None);
}

/// Flag in the first byte of an event: a state instead of a sample.
const STATE: u8 = 0x80;

/// Appends lines for samples and states. Each event has a byte with the CPU; then a sample has two bytes with its length and
/// its data, and a state has its key and value, each preceded by two bytes with its length, and a byte with its aggregation.
fn put_events(mut rest: &[u8], lines: &mut String) {
    while let Some((kind, after)) = rest.split_first() {
        rest = after;
        let mut part = || {
            let (length, after) = rest.split_first_chunk::<2>()?;
            let (part, after) = after.split_at(usize::from(u16::from_le_bytes(*length)).min(after.len()));
            rest = after;
            Some(hex(part))
        };
        let cpu = kind & !STATE;
        // Writing to a text cannot fail.
        let _ = match kind & STATE {
            0 => {
                let Some(raw) = part() else { return };
                writeln!(lines, "{{\"t\":\"sample\",\"cpu\":{cpu},\"raw\":\"{raw}\"}}")
            }
            _ => {
                let Some((key, data)) = part().zip(part()) else { return };
                let Some((id, after)) = rest.split_first() else { return };
                rest = after;
                writeln!(
                    lines,
                    "{{\"t\":\"aggsnap\",\"id\":{id},\"cpu\":{cpu},\"key\":\"{key}\",\"data\":\"{data}\"}}"
                )
            }
        };
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Corrects the checksums of descriptions, which a fuzzer never gets right.
fn with_right_checksums(bytes: &[u8]) -> Vec<u8> {
    const HEAD: usize = 24;
    let mut buffer = bytes.to_vec();
    let little = ByteOrder::Little.u32_at(bytes, 16).is_some_and(|kind| kind < 1 << 16);
    let order = if little { ByteOrder::Little } else { ByteOrder::Big };
    let mut at = 0;
    while at + HEAD <= buffer.len() {
        let is_description = order.u32_at(&buffer, at) == Some(mid::RESERVED);
        let len = order.u32_at(&buffer, at + 20).map_or(usize::MAX, |len| len as usize);
        let end = (at + HEAD).saturating_add(len);
        if !is_description || end > buffer.len() {
            at += 4;
            continue;
        }
        let mut sum = Vec::new();
        order.put(&mut sum, crc32c(&buffer[at + 16..end]).into(), 4);
        buffer[at + 12..at + 16].copy_from_slice(&sum);
        at = end.next_multiple_of(4);
    }
    buffer
}

/// Time limit for an input. Inputs have at most 1 MiB, but machines may be busy.
const LONGEST: Duration = Duration::from_secs(60);

/// Reads a capture in all ways, prints it, and round-trips it through streams.
fn all_of(bytes: &[u8], settings: Option<Settings>) {
    let started = Instant::now();
    fuzz::format(&DTRACE, bytes);
    let source = Source::from_bytes("fuzz", bytes);
    let Ok(mut capture) = trace::load(&source, &OpenOptions::default()) else { return };
    capture.settings = settings.unwrap_or(capture.settings);
    let is_damaged = capture.findings.iter().any(Finding::is_damage);
    let capture = Arc::new(capture);
    let text = |capture: &Arc<Capture>, has_quirks: bool| {
        print(capture, has_quirks.into())
            .ok()
            .map(|Printed { out, messages, status, .. }| (out, messages, status))
    };
    for has_quirks in [false, true] {
        assert_eq!(text(&capture, has_quirks), text(&capture, has_quirks), "two prints");
    }
    let mut object = Vec::new();
    let listed = objects_to::<Error>(&capture, usize::MAX, &mut |part| {
        object.extend_from_slice(part);
        Ok(())
    });
    if let Ok(rest) = listed {
        object.extend(rest.out);
        assert!(serde_json::from_slice::<Json>(&object).is_ok(), "the objects are no JSON");
    }
    // A stream has one drop count for each CPU, not for each buffer.
    let mut cpus = BTreeSet::new();
    let all = [&capture.buffers, &capture.states].into_iter().zip([false, true]);
    let mut all = all.flat_map(|(buffers, is_states)| buffers.iter().map(move |buffer| (is_states, buffer)));
    let is_apart = all.all(|(is_states, buffer)| {
        cpus.insert((is_states, buffer.cpu))
            || (buffer.cpu >> 20 == 0 && buffer.drops == 0 && cpus.len() < 1000)
    });
    for encoded in [Encoded::Plain, Encoded::Dense] {
        let producer = Producer { uuid: [7; 16], ..Producer::default() };
        let written = carry::write(&capture, producer, encoded, Vec::new()).expect("a capture is written");
        let read = carried::read("fuzz", &written);
        // Damaged captures may contradict themselves.
        if !is_damaged && is_apart {
            let read = Arc::new(read.expect("what was written is read"));
            for has_quirks in [false, true] {
                assert_eq!(
                    text(&read, has_quirks),
                    text(&capture, has_quirks),
                    "the text of a stream ({encoded:?})"
                );
            }
        }
    }
    // Larger CPU numbers leave no room for those of other hosts.
    if !is_damaged && is_apart && capture.events.iter().all(|event| event.cpu() >> 20 == 0) {
        several(&capture);
    }
    let elapsed = started.elapsed();
    assert!(elapsed < LONGEST, "{} bytes took {elapsed:?}", bytes.len());
}

/// Makes streams of the same capture from three hosts, two with different properties: merging them at once or step by step
/// must print the same.
fn several(capture: &Capture) {
    let of = |number: u8| {
        let mut capture = capture.clone();
        if number > 1 {
            capture.zone.offset_s = i32::from(number) * 3600;
            capture.settings.quiet ^= number == 2;
        }
        let producer = Producer { uuid: [number; 16], ..Producer::default() };
        carry::write(&capture, producer, Encoded::Plain, Vec::new()).expect("a capture is written")
    };
    let streams = [of(1), of(2), of(3)];
    let Ok(all) = carried::read("fuzz", &streams.concat()) else { return };
    let merged = |capture: &Capture| {
        let producer = Producer { uuid: [9; 16], ..Producer::default() };
        carry::write(capture, producer, Encoded::Plain, Vec::new()).expect("what is several is written")
    };
    let text = |capture: Capture| print(&Arc::new(capture), true.into()).ok().map(|printed| printed.out);
    let expected = text(all.clone());
    let again = carried::read("fuzz", &merged(&all)).expect("what was merged is read");
    assert_eq!(text(again), expected, "the text of what was merged");
    let two = carried::read("fuzz", &streams[..2].concat()).expect("two of three are read");
    let by_steps = carried::read("fuzz", &[merged(&two), streams[2].clone()].concat());
    assert_eq!(
        text(by_steps.expect("two and one are read")),
        expected,
        "the text of what was merged by steps"
    );
}
