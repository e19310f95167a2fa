//! Which frames a stream has: what an index says is what all headers say, and takes far less reading.

use quipu_stream::codec::Codec;
use quipu_stream::decode::Registry;
use quipu_stream::frame::Header;
use quipu_stream::input::Input;
use quipu_stream::spec::{SchemaSpec, Ty};
use quipu_stream::survey::{Survey, is_same};
use quipu_stream::write::{Options, Writer};
use std::io;

/// Bytes, and how many were asked for.
struct Counted<'a>(&'a [u8], usize);

impl Input for Counted<'_> {
    fn get(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let bytes = Input::get(&mut self.0, at, len)?;
        self.1 += bytes.len().min(len);
        Ok(bytes)
    }
}

/// Frames of `frame_bytes` on two streams.
fn stream(frame_bytes: usize, n: u64) -> Vec<u8> {
    let options = Options { codec: Codec::None, frame_bytes, ..Options::new("test") };
    let writer = Writer::new(Vec::new(), options);
    let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
    let mut streams = [writer.stream(1).unwrap(), writer.stream(2).unwrap()];
    for n in 0..n {
        streams[n as usize % 2].row(id, n, 8, |body| body.put(0, &n.to_le_bytes())).unwrap();
    }
    streams.into_iter().for_each(|stream| stream.finish().unwrap());
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn an_index_says_what_all_headers_say() {
    let whole = stream(2000, 200_000);
    let mut input = Counted(&whole, 0);
    let indexed = Survey::of(&mut input, whole.len() as u64, &Registry::default()).unwrap();
    let scanned = Survey::of_headers(&mut &whole[..], &Registry::default()).unwrap();
    assert!(indexed.is_indexed && !scanned.is_indexed);
    assert!(indexed.frames.len() > 2000, "{} frames", indexed.frames.len());
    assert_eq!(indexed.frames.len(), scanned.frames.len());
    for (said, there) in indexed.frames.iter().zip(&scanned.frames) {
        assert_eq!(said.offset, there.offset);
        assert!(is_same(&said.header, &there.header), "{said:?} is {there:?}");
        assert_eq!(
            (said.header.ts_first, said.header.ts_last),
            (there.header.ts_first, there.header.ts_last)
        );
    }
    assert_eq!((&indexed.session.findings, &scanned.session.findings), (&vec![], &vec![]));
    let metadata =
        |survey: &Survey| survey.session.epochs().values().next().unwrap().metadata.schemas().len();
    assert_eq!((metadata(&indexed), metadata(&scanned)), (1, 1));
}

#[test]
fn no_payload_is_read() {
    let whole = stream(960 << 10, 3_000_000);
    let mut input = Counted(&whole, 0);
    let survey = Survey::of(&mut input, whole.len() as u64, &Registry::default()).unwrap();
    assert!(survey.is_indexed && survey.frames.len() > 50);
    assert!(input.1 * 200 < whole.len(), "{} of {} bytes", input.1, whole.len());
}

#[test]
fn an_index_that_lies_is_not_believed() {
    let mut whole = stream(2000, 2000);
    // A frame of another stream where the index has one.
    let survey = Survey::of(&mut &whole[..], whole.len() as u64, &Registry::default()).unwrap();
    let at = survey.frames.last().unwrap().offset as usize;
    let header = Header { stream: 7, ..Header::read(&whole[at..]).unwrap() };
    whole[at..at + 96].copy_from_slice(&header.to_bytes());
    let survey = Survey::of(&mut &whole[..], whole.len() as u64, &Registry::default()).unwrap();
    assert!(!survey.is_indexed);
    let names: Vec<&str> = survey.session.findings.iter().map(|finding| finding.name).collect();
    assert!(names.contains(&"index-mismatch"), "{names:?}");
}

/// A stream of attachments: pieces by name, length in all and place.
fn attached(pieces: &[(&str, u64, u64, &[u8])]) -> Vec<u8> {
    use quipu_stream::wire::cbor::Value;
    let uint = Value::Uint;
    let writer = Writer::new(Vec::new(), Options::new("test"));
    writer.snapshot().unwrap();
    let mut all = writer.into_inner().unwrap();
    let first = Header::read(&all).unwrap();
    for (seq, (name, len, at, bytes)) in (1..).zip(pieces) {
        let pairs = [(0, Value::Text((*name).to_owned())), (2, uint(*len)), (3, uint(*at))];
        let mut payload =
            Value::Map(pairs.into_iter().map(|(key, value)| (uint(key), value)).collect()).to_bytes();
        Value::Bytes(bytes.to_vec()).encode(&mut payload);
        let mut header = Header {
            kind: quipu_stream::frame::kind::BLOB,
            encoding: 1,
            producer: first.producer,
            epoch: first.epoch,
            seq,
            ..Header::default()
        };
        let raw_len = payload.len() as u32;
        quipu_stream::frame::write_frame(&mut header, raw_len, &mut payload, &mut all).unwrap();
    }
    all
}

#[test]
fn attachments_are_left_where_they_stand() {
    let bytes = attached(&[
        ("whole", 6, 3, b"def"),
        ("whole", 6, 0, b"abcd"),
        ("cut", 9, 2, b"cde"),
        ("odd", 4, 0, b"abc"),
        ("odd", 4, 2, b"xd"),
    ]);
    let survey = Survey::of_headers(&mut &bytes[..], &Registry::default()).unwrap();
    let names: Vec<&str> = survey.session.findings.iter().map(|finding| finding.name).collect();
    assert_eq!(
        names,
        ["attachment-conflict", "no-end-frame", "attachment-incomplete", "attachment-incomplete"],
        "what differs from a piece that was left is noticed"
    );
    let [whole, cut, odd] = survey.session.attachments() else { panic!("three attachments") };
    assert_eq!((whole.is_complete(), cut.is_complete(), odd.is_complete()), (true, false, false));
    assert_eq!(whole.bytes(), None, "no bytes are held");
    let ranges = |sections: Vec<quipu_stream::blob::Section>| {
        let range = |section: quipu_stream::blob::Section| (section.range, section.frame.is_some());
        sections.into_iter().map(range).collect::<Vec<_>>()
    };
    assert_eq!(ranges(whole.sections()), [(0..4, true), (4..6, true)]);
    assert_eq!(ranges(cut.sections()), [(0..2, false), (2..5, true), (5..9, false)]);
    // Who reads it from the beginning to the end has the bytes.
    let mut reader = quipu_stream::reader::StreamReader::new(&bytes[..]);
    while reader.next_part().unwrap().is_some() {}
    assert_eq!(reader.session().attachments()[0].bytes().as_deref(), Some(&b"abcdef"[..]));
}
