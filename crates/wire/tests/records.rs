//! Reads records from bytes that another program made, and refuses invalid ones.

use quipu_wire::cbor::{Value, decode};
use quipu_wire::record::{Record, Setting, Table};
use sha2::{Digest, Sha256};

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

#[test]
fn records_of_another_program_are_read_and_written_the_same() {
    let text = std::fs::read_to_string("../../traces/stream/metadata-records.json").unwrap();
    let cases: serde_json::Value = serde_json::from_str(&text).unwrap();
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 14);
    for case in cases {
        let bytes = bytes_of(case["cbor"].as_str().unwrap());
        let item = decode(&bytes).unwrap();
        assert!(item.canonical && item.len_bytes == bytes.len());
        let record = Record::read(&item.value).unwrap();
        assert_eq!(record.to_bytes(), bytes, "{record:?}");
        let hash = Sha256::digest(&bytes);
        let hash: String = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, case["sha256_128"].as_str().unwrap());
    }
}

fn map(pairs: &[(u64, Value)]) -> Value {
    Value::Map(pairs.iter().map(|(key, value)| (Value::Uint(*key), value.clone())).collect())
}

#[test]
fn records_that_cannot_be_are_refused() {
    let uint = Value::Uint;
    let cases = [
        map(&[(1, uint(1))]),
        map(&[(0, uint(2)), (1, uint(0)), (3, uint(1))]),
        map(&[(0, uint(2)), (1, uint(1 << 32)), (3, uint(1))]),
        map(&[(0, uint(5)), (1, uint(15)), (3, Value::Array(vec![]))]),
        map(&[(0, uint(4)), (1, uint(1)), (3, uint(23))]),
        map(&[(0, uint(4)), (1, uint(1)), (3, uint(1)), (4, uint(12))]),
        map(&[(0, uint(13)), (1, uint(0x7FFF))]),
        map(&[(0, uint(1024)), (2, Value::Text("no dot".into()))]),
        Record::from(Setting { name: "x".into(), value: Value::Bool(false) }).to_value(),
        Record::from(Table { id: 1, first: u64::MAX, values: vec![uint(1)], ..Table::default() }).to_value(),
        uint(4),
    ];
    for case in cases {
        assert!(Record::read(&case).is_err(), "{case:?}");
    }
}

#[test]
fn unknown_keys_and_kinds_do_no_harm() {
    let note = map(&[(0, Value::Uint(14)), (2, Value::Text("a".into())), (99, Value::Null)]);
    assert!(matches!(Record::read(&note), Ok(Record::Note(note)) if note.text == "a"));
    assert_eq!(Record::read(&map(&[(0, Value::Uint(77))])), Ok(Record::Other(77)));
    let stream = map(&[(0, Value::Uint(3)), (1, Value::Uint(0))]);
    assert!(Record::read(&stream).is_ok(), "stream 0 is one");
}
