//! Parts of streams, rings, and streams that are continued after a crash.

use crate::vectors::{bytes, findings_differ, summary_of};
use quipu_stream::codec::Codec;
use quipu_stream::scan::Scanner;
use quipu_stream::slice::{Ring, continuation, producers, slice};
use quipu_stream::spec::{SchemaSpec, Ty};
use quipu_stream::write::{Options, Writer};
use serde_json::json;
use std::io::Write;

fn offsets(mut bytes: &[u8]) -> Vec<u64> {
    let mut scanner = Scanner::new();
    let mut all = Vec::new();
    while let Some(frame) = scanner.next(&mut bytes).unwrap() {
        all.push(frame.offset);
    }
    all
}

/// A stream of numbers, 0 to `n`, on stream 1.
fn numbers<W: Write>(out: W, n: u64) -> W {
    let options = Options { codec: Codec::Lz4, frame_bytes: 300, with_index: false, ..Options::new("test") };
    let writer = Writer::new(out, options);
    let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
    let mut stream = writer.stream(1).unwrap();
    for n in 0..n {
        stream.row(id, n, 8, |body| body.put(0, &n.to_le_bytes())).unwrap();
    }
    stream.finish().unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn a_slice_anywhere_can_be_read_alone() {
    let whole = numbers(Vec::new(), 200);
    let all = offsets(&whole);
    for from in 0..all.len() - 1 {
        for to in [from + 1, from + 3, all.len()] {
            let end = all.get(to).copied().unwrap_or(whole.len() as u64);
            let mut out = Vec::new();
            slice(&mut &whole[..], all[from]..end, &mut out).unwrap();
            let summary = summary_of(&out);
            let wanted: Vec<_> = summary_of(&whole)["records"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|record| {
                    let n = record["n"].as_u64().unwrap();
                    let frame = all.iter().filter(|at| **at < end && **at >= all[from]).count();
                    frame > 0 && summary["records"].as_array().unwrap().iter().any(|kept| kept["n"] == n)
                })
                .cloned()
                .collect();
            assert_eq!(summary["records"], serde_json::Value::from(wanted), "{from} to {to}");
            let names: Vec<&str> =
                summary["findings"].as_array().unwrap().iter().map(|f| f["name"].as_str().unwrap()).collect();
            // Cut off at the front, the frames of stream 1 do not begin with number 0.
            assert!(names.iter().all(|name| *name == "sequence-gap"), "{from} to {to}: {names:?}");
        }
    }
    // A frame of data in the middle has its records.
    let mut out = Vec::new();
    slice(&mut &whole[..], all[3]..all[5], &mut out).unwrap();
    assert_eq!(summary_of(&out)["records_decoded"], 26);
}

#[test]
fn a_ring_keeps_the_newest_frames_and_says_what_it_dropped() {
    let ring = numbers(Ring::new(2000), 1000);
    let mut out = Vec::new();
    ring.dump(&mut out).unwrap();
    let summary = summary_of(&out);
    let n = summary["records_decoded"].as_u64().unwrap();
    assert!((10..200).contains(&n), "{n} records");
    assert_eq!(summary["records"][n as usize - 1]["n"], 999);
    assert_eq!(summary["lost"]["1"], 1000 - n, "{}", summary["findings"]);
}

#[test]
fn a_stream_is_continued_after_a_crash() {
    let whole = bytes("minimal");
    // The last frames are missing, and the one before is cut.
    let cut = whole[..1900].to_vec();
    let found = producers(&mut &cut[..]).unwrap();
    let (&id, &uuid) = found.iter().next().unwrap();
    let (epoch, next) = continuation(&mut &cut[..], id).unwrap().unwrap();
    assert_eq!((epoch, next.as_slice()), (2, &[(0, 7), (1, 2)][..]));
    assert_eq!(continuation(&mut &cut[..], 1).unwrap(), None);
    let mut options = Options { epoch, next, codec: Codec::None, ..Options::new("later") };
    options.producer.uuid = uuid;
    let writer = Writer::new(cut, options);
    let schema = writer.schema(&SchemaSpec::new("later").field("n", Ty::Uint(8))).unwrap();
    let mut stream = writer.stream(1).unwrap();
    stream.row(schema, 1, 1, |body| body.put(0, &[5])).unwrap();
    stream.finish().unwrap();
    writer.finish().unwrap();
    let summary = summary_of(&writer.into_inner().unwrap());
    let wanted = json!([{"name": "torn-frame", "offset": 1800}, {"name": "sequence-gap", "stream": 0},
        {"name": "sequence-gap", "stream": 1}]);
    assert_eq!(findings_differ(&summary["findings"], &wanted), None, "{}", summary["findings"]);
    assert_eq!(summary["records"][78]["n"], 5);
}
