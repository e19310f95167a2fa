//! The frames of a stream: an index gives the same result as all headers, and takes far less reading.

use quipu_stream::codec::Codec;
use quipu_stream::decode::Registry;
use quipu_stream::frame::{Header, flag, kind};
use quipu_stream::input::Input;
use quipu_stream::spec::{SchemaSpec, Ty};
use quipu_stream::survey::{Survey, is_same};
use quipu_stream::wire::crc32c;
use quipu_stream::write::{Options, Writer};
use std::io;

/// An input, and the number of bytes requested from it.
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
    // Replaces a frame with one of another stream than the index has.
    let survey = Survey::of(&mut &whole[..], whole.len() as u64, &Registry::default()).unwrap();
    let at = survey.frames.last().unwrap().offset as usize;
    let header = Header { stream: 7, ..Header::read(&whole[at..]).unwrap() };
    whole[at..at + 96].copy_from_slice(&header.to_bytes());
    let survey = Survey::of(&mut &whole[..], whole.len() as u64, &Registry::default()).unwrap();
    assert!(!survey.is_indexed);
    let names: Vec<&str> = survey.session.findings.iter().map(|finding| finding.name).collect();
    assert!(names.contains(&"index-mismatch"), "{names:?}");
}

/// A stream of attachments from pieces: name, total length, offset, bytes.
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
    // A reader that reads the stream from beginning to end gets the bytes.
    let mut reader = quipu_stream::reader::StreamReader::new(&bytes[..]);
    while reader.next_part().unwrap().is_some() {}
    assert_eq!(reader.session().attachments()[0].bytes().as_deref(), Some(&b"abcdef"[..]));
}

/// Changes the kind and codec of a frame, in its header and in the index that lists it, and flags it as critical.
fn critical(bytes: &[u8], at: u64, kind: u8, codec: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let seal = |bytes: &mut Vec<u8>, header: &mut Header, at: usize| {
        let payload = at + 96..at + 96 + header.stored_len as usize;
        header.payload_crc = crc32c(&bytes[payload]);
        bytes[at..at + 96].copy_from_slice(&header.to_bytes());
    };
    let mut header = Header::read(&bytes[at as usize..]).unwrap();
    (header.kind, header.codec, header.flags) = (kind, codec, flag::CRITICAL);
    seal(&mut bytes, &mut header, at as usize);
    let mut index_at = 0;
    while index_at < bytes.len() {
        let mut header = Header::read(&bytes[index_at..]).unwrap();
        if header.kind == kind::INDEX {
            for entry in (index_at + 112..index_at + 96 + header.stored_len as usize).step_by(56) {
                let back = u64::from_le_bytes(bytes[entry..entry + 8].try_into().unwrap());
                if index_at as u64 - back == at {
                    (bytes[entry + 12], bytes[entry + 13]) = (kind, codec);
                }
            }
            seal(&mut bytes, &mut header, index_at);
        }
        index_at += header.frame_len() as usize;
    }
    bytes
}

#[test]
fn an_index_that_names_a_frame_that_must_be_understood_leads_no_further() {
    let whole = stream(2000, 500);
    let of = |bytes: &[u8]| Survey::of(&mut &*bytes, bytes.len() as u64, &Registry::default()).unwrap();
    let known = of(&whole);
    assert!(known.is_indexed && known.frames.len() > 4, "{}", known.frames.len());
    let third = known.frames[2].offset;
    for (kind, codec) in [(200, 0), (kind::DATA, 9)] {
        let stopped = of(&critical(&whole, third, kind, codec));
        assert!(stopped.session.is_stopped() && !stopped.is_indexed, "{kind} {codec}");
        let offsets: Vec<u64> = stopped.frames.iter().map(|frame| frame.offset).collect();
        assert_eq!(offsets, [known.frames[0].offset, known.frames[1].offset], "{kind} {codec}");
    }
}
