//! Slices of streams, rings, and streams that are continued after a crash.

use crate::damage::read;
use crate::vectors::{bytes, findings_differ, summary_of};
use quipu_stream::codec::Codec;
use quipu_stream::frame::{Header, kind};
use quipu_stream::loss::{Loss, MANY, cause};
use quipu_stream::scan::Scanner;
use quipu_stream::select::{Choice, Everything, Row, Select};
use quipu_stream::slice::{Ring, continuation, producers, select, select_lossy, slice};
use quipu_stream::spec::{SchemaSpec, Ty};
use quipu_stream::wire::{crc32c, crc32c_append};
use quipu_stream::write::{Options, Writer};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;

fn offsets(mut bytes: &[u8]) -> Vec<u64> {
    let mut scanner = Scanner::new();
    let mut all = Vec::new();
    while let Some(frame) = scanner.next(&mut bytes).unwrap() {
        all.push(frame.offset);
    }
    all
}

/// A stream with the numbers from 0 up to `n` (excluded) on stream 1.
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

/// All records as text.
fn lines(records: &BTreeMap<u64, Vec<String>>) -> Vec<String> {
    records.values().flatten().cloned().collect()
}

/// The records of the frames that begin in a range.
fn lines_in(whole: &[u8], range: Range<u64>) -> Vec<String> {
    lines(&read(whole).0.range(range).map(|(offset, lines)| (*offset, lines.clone())).collect())
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
            assert_eq!(lines(&read(&out).0), lines_in(&whole, all[from]..end), "{from} to {to}");
            let summary = summary_of(&out);
            let names: Vec<&str> =
                summary["findings"].as_array().unwrap().iter().map(|f| f["name"].as_str().unwrap()).collect();
            // After a cut at the front, stream 1 does not begin with number 0.
            assert!(names.iter().all(|name| *name == "sequence-gap"), "{from} to {to}: {names:?}");
        }
    }
    // Frames from the middle keep their records.
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
    // The last frames are missing, and the one before them is cut.
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

/// Offset of a frame with a metadata record between its rows, which defines a schema that later frames use.
const DEFINING: u64 = 864;

#[test]
fn what_stands_between_rows_goes_into_snapshots() {
    let whole = bytes("minimal");
    let end = whole.len() as u64;
    for from in offsets(&whole).into_iter().filter(|from| *from > DEFINING) {
        let mut out = Vec::new();
        slice(&mut &whole[..], from..end, &mut out).unwrap();
        assert_eq!(lines(&read(&out).0), lines_in(&whole, from..end), "from {from}");
    }
    for from in offsets(&whole).into_iter().filter(|from| *from > DEFINING && *from < end - 200) {
        let mut ring = Ring::new((end - from) as usize);
        ring.write_all(&whole).unwrap();
        let mut out = Vec::new();
        ring.dump(&mut out).unwrap();
        assert_eq!(lines(&read(&out).0), lines_in(&whole, from..end), "a ring from {from}");
    }
}

/// The stream with headers one word longer than today's.
fn with_longer_headers(whole: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for at in offsets(whole) {
        let header = Header::read(&whole[at as usize..]).unwrap();
        let longer = Header { words: 13, ..header };
        let mut head = [header.to_bytes().as_slice(), &[9; 8]].concat();
        head[11] = 13;
        let crc = crc32c_append(crc32c(&head[..92]), &head[96..]);
        head[92..96].copy_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&head);
        out.extend_from_slice(&whole[at as usize + 96..(at + header.frame_len() - 8) as usize]);
        out.extend_from_slice(&(longer.frame_len() as u32).to_le_bytes());
        out.extend_from_slice(b"QPUE");
    }
    out
}

#[test]
fn longer_headers_are_cut_to_the_length_of_today() {
    let whole = with_longer_headers(&numbers(Vec::new(), 200));
    let wanted = lines(&read(&whole).0);
    assert_eq!(wanted.len(), 200);
    let mut out = Vec::new();
    slice(&mut &whole[..], 0..whole.len() as u64, &mut out).unwrap();
    assert_eq!((lines(&read(&out).0), summary_of(&out)["findings"].clone()), (wanted.clone(), json!([])));
    let mut ring = Ring::new(1000);
    ring.write_all(&whole).unwrap();
    out.clear();
    ring.dump(&mut out).unwrap();
    let there = lines(&read(&out).0);
    assert!(!there.is_empty() && wanted.ends_with(&there), "{there:?}");
    // The same finding as for any ring that has dropped its oldest frames.
    let wanted = json!([{"name": "sequence-gap", "stream": 1}]);
    assert_eq!(findings_differ(&summary_of(&out)["findings"], &wanted), None);
}

#[test]
fn a_ring_has_no_index_and_its_frames_lead_back_to_its_snapshot() {
    let options = Options { codec: Codec::None, frame_bytes: 100, ..Options::new("test") };
    let writer = Writer::new(Ring::new(60_000), options);
    let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
    let mut stream = writer.stream(1).unwrap();
    for n in 0..8000_u64 {
        stream.row(id, n, 8, |body| body.put(0, &n.to_le_bytes())).unwrap();
    }
    stream.finish().unwrap();
    writer.finish().unwrap();
    let ring = writer.into_inner().unwrap();
    let mut out = Vec::new();
    ring.dump(&mut out).unwrap();
    let headers: Vec<(u64, Header)> =
        offsets(&out).into_iter().map(|at| (at, Header::read(&out[at as usize..]).unwrap())).collect();
    assert!(headers.iter().all(|(_, header)| header.kind != kind::INDEX));
    assert!(headers.iter().any(|(_, header)| header.kind == kind::PAD));
    for (at, header) in &headers {
        assert_eq!(header.meta_back, *at, "one snapshot stands at the beginning");
    }
}

#[test]
fn the_highest_numbers_are_no_reason_to_panic() {
    let mut whole = numbers(Vec::new(), 20);
    for at in offsets(&whole) {
        let at = at as usize;
        let header = Header { seq: u64::MAX, epoch: u32::MAX, ..Header::read(&whole[at..]).unwrap() };
        whole[at..at + 96].copy_from_slice(&header.to_bytes());
    }
    slice(&mut &whole[..], 0..whole.len() as u64, &mut Vec::new()).unwrap();
    let mut ring = Ring::new(100);
    ring.write_all(&whole).unwrap();
    ring.dump(&mut Vec::new()).unwrap();
    let producer = Header::read(&whole).unwrap().producer;
    assert!(continuation(&mut &whole[..], producer).is_err());
}

/// Keeps every third record.
struct EveryThird;

impl Select for EveryThird {
    fn frame(&mut self, frame: &quipu_stream::scan::FrameAt) -> Choice {
        if matches!(frame.header.kind, kind::DATA | kind::OPEN) { Choice::Rows } else { Choice::Whole }
    }

    fn row(&mut self, _: &quipu_stream::scan::FrameAt, row: &Row) -> bool {
        row.time.is_multiple_of(3)
    }
}

#[test]
fn some_records_of_any_encoding_are_a_stream_without_a_gap() {
    let writer = Writer::new(Vec::new(), Options::new("test"));
    let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64)).delta()).unwrap();
    let mut stream = writer.stream(1).unwrap();
    for frame in 0..4_u64 {
        let metadata = writer.metadata();
        let schema = metadata.schema(id).unwrap();
        let mut packed = quipu_stream::pack::PackedRows::default();
        for n in 10 * frame..10 * frame + 10 {
            let values = vec![quipu_stream::datum::Datum::Int(u128::from(7 * n))];
            match frame {
                0 => stream.values(schema, n, &values).unwrap(),
                _ => packed.push(schema, n, values).unwrap(),
            }
        }
        if frame > 0 {
            stream.packed(&packed.finish(frame > 1), frame > 1).unwrap();
        }
    }
    stream.finish().unwrap();
    writer.finish().unwrap();
    let whole = writer.into_inner().unwrap();
    let mut out = Vec::new();
    let sliced = select(&mut &whole[..], 0..whole.len() as u64, &mut EveryThird, &mut out).unwrap();
    let wanted: Vec<String> = lines(&read(&whole).0)
        .into_iter()
        .enumerate()
        .filter(|(n, _)| n % 3 == 0)
        .map(|(_, line)| line)
        .collect();
    assert_eq!(lines(&read(&out).0), wanted);
    assert_eq!((sliced.records, wanted.len()), (14, 14));
    assert_eq!(summary_of(&out)["findings"], json!([]));
    // Rows of open frames become frames of their own.
    let open = bytes("open-frames");
    let mut out = Vec::new();
    select(&mut &open[..], 0..open.len() as u64, &mut EveryThird, &mut out).unwrap();
    let is_kept = |line: &&String| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap().is_multiple_of(3);
    let mut wanted: Vec<String> = lines(&read(&open).0).iter().filter(is_kept).cloned().collect();
    let mut there = lines(&read(&out).0);
    wanted.sort();
    there.sort();
    assert_eq!(there, wanted);
}

#[test]
fn what_describes_later_records_stays_where_no_record_does() {
    struct Newest;
    impl Select for Newest {
        fn frame(&mut self, frame: &quipu_stream::scan::FrameAt) -> Choice {
            let is_old = frame.header.kind == kind::DATA && frame.offset <= DEFINING;
            if is_old { Choice::Padding } else { Choice::Whole }
        }
    }
    let whole = bytes("minimal");
    let mut out = Vec::new();
    select(&mut &whole[..], 0..whole.len() as u64, &mut Newest, &mut out).unwrap();
    assert_eq!(lines(&read(&out).0), lines_in(&whole, DEFINING + 1..u64::MAX));
    assert_eq!(summary_of(&out)["findings"], json!([]));
}

/// Copies all frames.
fn copied(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    slice(&mut &bytes[..], 0..bytes.len() as u64, &mut out).unwrap();
    out
}

#[test]
fn a_copy_says_what_was_lost_before_it_and_whether_its_producer_ended() {
    let whole = bytes("minimal");
    let all = offsets(&whole);
    let names = |summary: &serde_json::Value| -> Vec<String> {
        let names = summary["findings"].as_array().unwrap().iter();
        names.map(|finding| finding["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        (summary_of(&copied(&whole))["findings"].clone(), summary_of(&whole)["findings"].clone()),
        (json!([]), json!([]))
    );
    for (nth, at) in all.iter().enumerate().skip(1) {
        for cut in [*at, at + 50, at + 100] {
            let (cut, is_between) = (&whole[..cut as usize], cut == *at);
            let copy = summary_of(&copied(cut));
            assert!(names(&copy).contains(&"no-end-frame".to_owned()), "{nth}: {copy}");
            let own = |loss: &&serde_json::Value| loss["cause"] == 20;
            let told: Vec<_> = copy["losses"].as_array().unwrap().iter().filter(own).cloned().collect();
            assert_eq!(told.len(), usize::from(!is_between), "{nth}: {copy}");
            // A second copy adds nothing.
            let again = summary_of(&copied(&copied(cut)));
            assert_eq!((&again["losses"], &again["lost"]), (&copy["losses"], &copy["lost"]));
        }
    }
    // For a frame with a damaged header, an index has the number of its records; the copy reports it.
    let mut damaged = whole.clone();
    damaged[all[7] as usize + 40] ^= 1;
    let copy = summary_of(&copied(&damaged));
    let wanted = json!({"kind": "crc", "cause": 17, "stream": 1, "count": 64, "bytes": all[8] - all[7], "text": "lost sync"});
    assert_eq!(copy["losses"][1], wanted);
    assert_eq!((&copy["lost"]["1"], &copy["lost"]["0"]), (&json!(64), &json!(7)));
    // Frames that only the END counts, and losses of the input's compression.
    let without = [&whole[..all[7] as usize], &whole[all[8] as usize..]].concat();
    let copy = summary_of(&copied(&without));
    assert_eq!(copy["losses"][1]["cause"], 16, "{copy}");
    assert!(!names(&copy).contains(&"no-end-frame".to_owned()));
    let mut out = Vec::new();
    let known = [Loss { cause: cause::TRUNCATED, records: Some(MANY), ..Loss::default() }];
    let end = whole.len() as u64;
    select_lossy(&mut &whole[..], 0..end, &known, &mut Everything, &mut out).unwrap();
    assert_eq!(summary_of(&out)["losses"][1]["kind"], "truncated");
}

#[test]
fn a_copy_of_what_was_continued_after_its_end_has_no_gap() {
    let first = numbers(Vec::new(), 20);
    let producer = Header::read(&first).unwrap().producer;
    let uuid = producers(&mut &first[..]).unwrap()[&producer];
    let end = offsets(&first).last().copied().unwrap();
    let number = Header::read(&first[end as usize..]).unwrap().seq;
    let mut options = Options { epoch: 2, next: vec![(0, number + 1)], ..Options::new("later") };
    options.producer.uuid = uuid;
    let writer = Writer::new(first, options);
    writer.finish().unwrap();
    let whole = writer.into_inner().unwrap();
    assert_eq!(summary_of(&whole)["findings"], json!([]));
    assert_eq!(summary_of(&copied(&whole))["findings"], json!([]));
}
