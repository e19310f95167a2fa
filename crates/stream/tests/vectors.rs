//! Compares every sample with its expectation, as the page of the samples describes: a finding matches an expected one that
//! has its name and its keys, and there must be no other findings. The example `expect` prints the samples, so it reads them.

use crate::expect;
use quipu_stream::input::Pipe;
use quipu_stream::reader::StreamReader;
use quipu_stream::summary;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;

pub const FOLDER: &str = "../../traces/stream";

pub fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(FOLDER)
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".quipu")?.to_owned()))
        .collect();
    names.sort();
    names
}

pub fn bytes(name: &str) -> Vec<u8> {
    fs::read(format!("{FOLDER}/{name}.quipu")).unwrap()
}

/// The summary of a file with these bytes.
pub fn summary_of(bytes: &[u8]) -> Value {
    let summary = summary::of(&mut StreamReader::new(bytes)).unwrap();
    parsed(&summary)
}

/// Converts our JSON to serde's; integers above 64 bits become texts.
pub fn parsed(json: &quipu_stream::json::Json) -> Value {
    use quipu_stream::json::Json;
    match json {
        Json::Null => Value::Null,
        Json::Bool(yes) => (*yes).into(),
        Json::Int(n) => u64::try_from(*n)
            .map(Value::from)
            .or_else(|_| i64::try_from(*n).map(Value::from))
            .unwrap_or_else(|_| n.to_string().into()),
        Json::Wide(n) => n.to_string().into(),
        Json::Float(x) => (*x).into(),
        Json::Text(text) => text.as_str().into(),
        Json::List(items) => items.iter().map(parsed).collect(),
        Json::Object(pairs) => pairs.iter().map(|(name, value)| (name.clone(), parsed(value))).collect(),
    }
}

/// Whether `there` has everything in `wanted`.
fn has(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| there.get(key).is_some_and(|there| has(there, value)))
        }
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(there, wanted)| has(there, wanted))
        }
        // 128-bit integers are texts here and floating-point numbers there.
        (Value::String(text), Value::Number(n)) => {
            n.is_f64() && text.parse::<f64>().is_ok_and(|big| Some(big) == n.as_f64())
        }
        (there, wanted) => {
            // Compared as floating-point numbers only if one of them is: large integers that differ in their last digits
            // would be equal.
            let is_float = there.is_f64() || wanted.is_f64();
            there == wanted || is_float && there.as_f64().is_some_and(|x| wanted.as_f64() == Some(x))
        }
    }
}

/// Compares findings as sets; returns the difference as text.
pub fn findings_differ(there: &Value, wanted: &Value) -> Option<String> {
    let mut left: Vec<&Value> = there.as_array().unwrap().iter().collect();
    for finding in wanted.as_array().unwrap() {
        match left.iter().position(|there| has(there, finding)) {
            Some(at) => {
                left.remove(at);
            }
            None => return Some(format!("{finding} is missing among {there}")),
        }
    }
    (!left.is_empty()).then(|| format!("unexpected: {left:?}"))
}

/// Returns the differences between a summary and an expectation.
pub fn differences(name: &str, summary: &Value, wanted: &Value) -> Vec<String> {
    let none = Value::Array(Vec::new());
    let mut differences = Vec::new();
    differences.extend(findings_differ(&summary["findings"], wanted.get("findings").unwrap_or(&none)));
    let records = summary["records"].as_array().unwrap();
    let by_number = |record: &Value| {
        let mut record = record.clone();
        if name == "all-types" {
            // The expectation has the enumeration as a number.
            record["colour"] = u64::from(record["colour"] == "green").into();
        }
        record
    };
    for (key, value) in wanted.as_object().unwrap() {
        let is_right = match (key.as_str(), value) {
            (
                "what" | "notes" | "findings" | "golden" | "lines" | "first_sync" | "payload_bytes",
                Value::String(_) | Value::Array(_) | Value::Number(_),
            ) if key != "notes" || value.is_string() => true,
            ("records", Value::Number(n)) => n.as_u64() == Some(records.len() as u64),
            ("records", _) => has(&records.iter().map(by_number).collect(), value),
            ("records_before_the_compressed_frames", _) => {
                let n = value.as_array().unwrap().len();
                has(&records[..n].to_vec().into(), value)
            }
            ("compressed_frames", _) => is_compressed_part(&records[14..]),
            ("complete_frames", _) => {
                let offsets =
                    summary["frames"].as_array().unwrap().iter().map(|frame| frame["offset"].clone());
                offsets.collect::<Value>() == *value
            }
            ("attachment", _) => has(&summary["attachments"][0], value),
            ("first" | "last" | "sha256_of_lines", _) => true,
            _ => has(&summary[key], value),
        };
        if !is_right {
            differences.push(format!("{key}: wanted {value}, there is {}", summary[key]));
        }
    }
    differences
}

fn is_compressed_part(records: &[Value]) -> bool {
    records.len() == 128
        && records.iter().enumerate().all(|(at, record)| {
            let i = at as u64 % 64;
            record["ts"] == 5000 + i
                && record["addr"] == 0x60_0000 + 4 * i
                && record["pc"] == 0x40_1010
                && record["size"] == 4
                && record["kind"] == "read"
        })
}

#[test]
fn every_sample_says_what_its_expectation_says() {
    let mut wrong = Vec::new();
    let names = names();
    assert!(names.len() >= 22);
    for name in names {
        let text = fs::read_to_string(format!("{FOLDER}/{name}.quipu.expect.json")).unwrap();
        let wanted: Value = serde_json::from_str(&text).unwrap();
        let bytes = bytes(&name);
        let (summary, _) = expect::summary_of(&format!("{FOLDER}/{name}.quipu")).unwrap();
        let summary = parsed(&summary);
        for difference in differences(&name, &summary, &wanted) {
            wrong.push(format!("{name}: {difference}"));
        }
        // Reads from a pipe that delivers a few bytes at a time.
        let reader = StreamReader::once(Pipe::new(Few(&bytes)));
        let piped = summary::of(&mut reader.with_registry(expect::arrow::registry())).unwrap();
        if parsed(&piped) != summary && !name.starts_with("joined-midstream") {
            wrong.push(format!("{name}: a pipe gives {piped} and not {summary}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A reader that returns at most seven bytes at a time.
struct Few<'a>(&'a [u8]);

impl std::io::Read for Few<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = buffer.len().min(7).min(self.0.len());
        buffer[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

#[test]
fn a_bare_buffer_begins_with_metadata_records() {
    let bytes = fs::read(format!("{FOLDER}/padding.midbuf")).unwrap();
    let (records, at) = quipu_stream::bare::records(&bytes).unwrap();
    assert_eq!(records.len(), 16);
    // The buffer's own records follow, as in a frame of the stream.
    let stream = self::bytes("dtrace-padding");
    assert!(stream.windows(bytes.len() - at).any(|window| window == &bytes[at..]));
    let mut damaged = bytes.clone();
    damaged[60] ^= 1;
    assert_eq!(quipu_stream::bare::records(&damaged), None);
    assert_eq!(quipu_stream::bare::records(&stream), None);
}

#[test]
fn repetitions_make_the_records_that_they_stand_for() {
    let bytes = bytes("stride-runs");
    let mut reader = StreamReader::new(&bytes[..]);
    let mut lines = String::new();
    while let Some(part) = reader.next_part().unwrap() {
        let quipu_stream::reader::Content::Rows(batch) = part.content else { panic!() };
        for (rows, row) in batch.in_order() {
            lines += &format!("{} {}", rows.schema.id(), rows.times[row]);
            for column in &rows.columns {
                lines += &format!(" {}", column.as_int(row).unwrap());
            }
            lines += "\n";
        }
    }
    let hash: String = Sha256::digest(lines).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hash, "991a7b3918e2c9ffc0a0cfc9a3ebd2c23dba2df8fa0121f2c4b780b9004c5334");
}
