//! Files of programs that record themselves and are killed.

use crate::vectors::{findings_differ, summary_of};
use quipu_stream::codec::Codec;
use quipu_stream::frame::{Header, encoding, flag, kind, write_frame};
use quipu_stream::open::{Begin, begin, close, store, vacant};
use quipu_stream::spec::{SchemaSpec, Ty};
use quipu_stream::write::{Options, Writer};
use serde_json::json;

const ROOM: u32 = 512;

/// A stream with metadata and one record and without an end, its producer, and the id of its schema.
fn beginning() -> (Vec<u8>, u64, u32) {
    let options = Options { codec: Codec::None, ..Options::new("test") };
    let writer = Writer::new(Vec::new(), options);
    let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
    let mut stream = writer.stream(1).unwrap();
    stream.row(id, 0, 8, |body| body.put(0, &0_u64.to_le_bytes())).unwrap();
    stream.finish().unwrap();
    let bytes = writer.into_inner().unwrap();
    let producer = Header::read(&bytes).unwrap().producer;
    (bytes, producer, id)
}

fn room(producer: u64) -> Vec<u8> {
    vacant(producer, 1, ROOM)
}

fn payload(frame: &mut [u8]) -> &mut [u8] {
    let end = 96 + 64 + ROOM as usize;
    &mut frame[96..end]
}

#[test]
fn what_was_stored_when_the_program_died_is_read() {
    let (bytes, producer, id) = beginning();
    let mut frame = room(producer);
    begin(payload(&mut frame), &Begin { stream: 1, seq: 1, meta_version: 3, ..Begin::default() });
    let mut at = 0;
    for n in 1..=10_u64 {
        let before = at;
        at = store(payload(&mut frame), at, id, n, &n.to_le_bytes()).unwrap();
        for done in 0..=24 {
            // The program dies while it stores the record, so only the first `done` bytes, in the order of storing, are there.
            let mut killed = frame.clone();
            let row = &mut payload(&mut killed)[64 + before..64 + at];
            row[..4].fill(0);
            row[8 + done.min(16)..].fill(0);
            if done < 8 {
                row.fill(0);
            }
            let summary = summary_of(&[&bytes[..], &killed].concat());
            assert_eq!(findings_differ(&summary["findings"], &json!([{"name": "no-end-frame"}])), None);
            assert_eq!(summary["records_decoded"], n, "the first one and {} in the room", n - 1);
        }
    }
    let summary = summary_of(&[&bytes[..], &frame].concat());
    assert_eq!(summary["records_decoded"], 11);
}

#[test]
fn a_closed_room_is_guarded_and_its_number_fills_a_gap() {
    let (bytes, producer, id) = beginning();
    let mut frame = room(producer);
    begin(payload(&mut frame), &Begin { stream: 1, seq: 1, meta_version: 3, lost: 4, ts_first: 5 });
    let used = store(payload(&mut frame), 0, id, 5, &5_u64.to_le_bytes()).unwrap();
    close(payload(&mut frame), used as u32, 1, 5);
    let summary = summary_of(&[&bytes[..], &frame].concat());
    assert_eq!(findings_differ(&summary["findings"], &json!([{"name": "no-end-frame"}])), None);
    assert_eq!((&summary["records_decoded"], &summary["lost"]), (&json!(2), &json!({"1": 4})));

    let mut damaged = frame.clone();
    payload(&mut damaged)[64 + 20] ^= 1;
    let summary = summary_of(&[&bytes[..], &damaged].concat());
    let wanted = json!([{"name": "no-end-frame"}, {"name": "payload-crc", "records": 1}]);
    assert_eq!(findings_differ(&summary["findings"], &wanted), None);

    // The same number twice, and an unknown encoding.
    let summary = summary_of(&[&bytes[..], &frame, &frame].concat());
    assert_eq!((&summary["records_decoded"], &summary["duplicates"]), (&json!(2), &json!(1)));
    let mut private = frame.clone();
    let header = Header::read(&private).unwrap();
    private[..96].copy_from_slice(&Header { encoding: 0x8001, ..header }.to_bytes());
    let offset = bytes.len();
    let summary = summary_of(&[&bytes[..], &private].concat());
    let wanted = json!([{"name": "no-end-frame"}, {"name": "unknown-encoding", "offset": offset}]);
    assert_eq!(findings_differ(&summary["findings"], &wanted), None);
    private[..96].copy_from_slice(&Header { encoding: 0x8001, flags: flag::CRITICAL, ..header }.to_bytes());
    let summary = summary_of(&[&bytes[..], &private].concat());
    assert_eq!(findings_differ(&summary["findings"], &json!([{"name": "needs-newer-program"}])), None);
}

#[test]
fn an_open_frame_is_used_if_its_closed_copy_is_damaged() {
    let (bytes, producer, id) = beginning();
    let mut frame = room(producer);
    begin(payload(&mut frame), &Begin { stream: 1, seq: 1, meta_version: 3, lost: 4, ts_first: 5 });
    let used = store(payload(&mut frame), 0, id, 5, &5_u64.to_le_bytes()).unwrap();
    let mut rows = payload(&mut frame)[64..64 + used].to_vec();
    let mut header = Header {
        kind: kind::DATA,
        encoding: encoding::PLAIN,
        producer,
        stream: 1,
        epoch: 1,
        meta_version: 3,
        records: 1,
        seq: 1,
        lost: 4,
        ..Header::default()
    };
    let mut closed = Vec::new();
    write_frame(&mut header, used as u32, &mut rows, &mut closed).unwrap();
    let whole = summary_of(&[&bytes[..], &closed, &frame].concat());
    assert_eq!((&whole["records_decoded"], &whole["duplicates"]), (&json!(2), &json!(1)));
    closed[96 + 20] ^= 1;
    for parts in [[&bytes[..], &closed, &frame], [&bytes[..], &frame, &closed]] {
        let summary = summary_of(&parts.concat());
        let wanted = json!([{"name": "no-end-frame"}, {"name": "payload-crc", "records": 1}]);
        assert_eq!(findings_differ(&summary["findings"], &wanted), None);
        assert_eq!((&summary["records_decoded"], &summary["duplicates"]), (&json!(2), &json!(0)));
        assert_eq!((&summary["records"][1]["n"], &summary["lost"]), (&json!(5), &json!({"1": 4})));
    }
}
