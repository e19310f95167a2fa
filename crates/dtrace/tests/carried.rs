//! Buffers in streams that describe themselves.

use crate::samples::{bytes, cases, classic, linux_capture, name_of, printed, root};
use quipu_dtrace::carried::Encoded;
use quipu_dtrace::{Capture, DTRACE, carried, dense, export, linux, meta};
use quipu_model::{Confidence, Format};
use quipu_source::Source;
use quipu_stream::write::{Options, Writer};
use quipu_wire::record::{Encoding, Producer};

#[test]
fn streams_of_another_program_print_what_the_consumer_printed() {
    let names = ["agg_scalar", "flowindent", "mixed_1000", "padding", "printf", "ring_wrapped", "stacks"];
    for name in names {
        let stream = bytes(&root().join(format!("../stream/dtrace-{name}.quipu")));
        assert_eq!(DTRACE.probe(&Source::from_bytes(name, stream.clone())), Confidence::Sure, "{name}");
        let capture = carried::read(name, &stream).unwrap();
        assert!(capture.findings.is_empty(), "{name}: {:?}", capture.findings);
        let expected = bytes(&root().join("classic").join(name).join("stdout"));
        assert_eq!(
            String::from_utf8_lossy(&printed(capture, true).out),
            String::from_utf8_lossy(&expected),
            "{name}"
        );
    }
}

#[test]
fn captures_become_streams_and_print_the_same() {
    for path in cases("classic") {
        let name = name_of(&path);
        let capture = classic(&path);
        let producer = Producer { uuid: [7; 16], ..Producer::default() };
        let stream = carried::write(&capture, producer.clone(), Encoded::Plain, Vec::new()).unwrap();
        let read = carried::read(&name, &stream).unwrap();
        assert!(read.findings.is_empty(), "{name}: {:?}", read.findings);
        // The buffers are the same bytes, those of rings from the oldest record on.
        for (from, to) in capture.buffers.iter().zip(&read.buffers).filter(|(from, _)| from.oldest == 0) {
            assert_eq!(from.bytes, to.bytes, "{name}");
        }
        // Empty buffers leave nothing.
        if capture.buffers.iter().chain(&capture.states).all(|buffer| !buffer.bytes.is_empty()) {
            let again = carried::write(&read, producer, Encoded::Plain, Vec::new()).unwrap();
            assert!(again == stream, "{name} becomes another stream");
        }
        let (ours, theirs) = (printed(read, true), printed(capture, true));
        assert_eq!(String::from_utf8_lossy(&ours.out), String::from_utf8_lossy(&theirs.out), "{name}");
        assert_eq!(ours.messages, theirs.messages, "{name}");
    }
}

fn written(capture: &Capture, encoded: Encoded) -> Vec<u8> {
    let producer = Producer { uuid: [7; 16], ..Producer::default() };
    carried::write(capture, producer, encoded, Vec::new()).unwrap()
}

fn text(capture: Capture) -> (String, String) {
    let printed = printed(capture, true);
    (String::from_utf8(printed.out).unwrap(), String::from_utf8(printed.messages).unwrap())
}

#[test]
fn dense_bodies_give_the_same_buffers() {
    for path in cases("classic") {
        let name = name_of(&path);
        let capture = classic(&path);
        let stream = written(&capture, Encoded::Dense);
        if !capture.buffers.is_empty() {
            let source = Source::from_bytes(&*name, stream.clone());
            assert_eq!(DTRACE.probe(&source), Confidence::Sure, "{name}");
        }
        let read = carried::read(&name, &stream).unwrap();
        assert!(read.findings.is_empty(), "{name}: {:?}", read.findings);
        let plain = carried::read(&name, &written(&capture, Encoded::Plain)).unwrap();
        assert_eq!(read.buffers, plain.buffers, "{name}");
        assert_eq!(text(read), text(capture), "{name}");
    }
    let capture = classic(&root().join("classic/mixed_1000"));
    let (n_plain, n_dense) = capture.buffers.iter().fold((0, 0), |(plain, packed), buffer| {
        (plain + buffer.bytes.len(), packed + dense::pack(&capture, buffer).unwrap().len())
    });
    assert!(4 * n_dense < 2 * n_plain, "{n_dense} of {n_plain} bytes");
}

#[test]
fn dense_bodies_that_are_cut_give_their_first_records() {
    let capture = classic(&root().join("classic/mixed_1000"));
    let buffer = &capture.buffers[0];
    let body = dense::pack(&capture, buffer).unwrap();
    let whole = dense::unpack(&capture, &body);
    assert!(whole.is_whole && whole.bytes == buffer.bytes);
    for end in (0..body.len()).step_by(13) {
        let cut = dense::unpack(&capture, &body[..end]);
        assert!(cut.n_records <= whole.n_records);
        // Zeros stand for what follows where a cut is not noticed.
        let n = cut.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        assert_eq!(cut.bytes[..n], buffer.bytes[..n], "{end}");
    }
}

#[test]
fn bodies_of_an_unknown_encoding_are_counted_and_others_printed() {
    let capture = classic(&root().join("classic/trace_basic"));
    let stream = written(&capture, Encoded::Plain);
    let writer = Writer::new(
        Vec::new(),
        Options { producer: Producer { uuid: [7; 16], ..Producer::default() }, ..Options::new("quipu") },
    );
    let encoding =
        Encoding { id: 0x9000, name: Some("other".to_owned()), based_on: Some(32), ..Encoding::default() };
    writer.define(encoding).unwrap();
    let mut body = writer.stream(1).unwrap();
    body.foreign(0x9000, 3, (0, 0), b"whatever").unwrap();
    body.finish().unwrap();
    writer.finish().unwrap();
    let both = [stream, writer.into_inner().unwrap()].concat();
    let read = carried::read("both", &both).unwrap();
    let [finding] = &read.findings[..] else { panic!("{:?}", read.findings) };
    assert_eq!(finding.rule, "dtrace/unknown-encoding");
    assert_eq!(finding.loss.as_ref().unwrap().records.least(), 3);
    assert_eq!(text(read), text(capture));
    // A body of this number that nothing announces is another program's.
    let producer = Producer { uuid: [7; 16], ..Producer::default() };
    let writer = Writer::new(Vec::new(), Options { producer, ..Options::new("quipu") });
    let mut body = writer.stream(1).unwrap();
    body.foreign(dense::NUMBER, 3, (0, 0), b"whatever").unwrap();
    body.finish().unwrap();
    writer.finish().unwrap();
    let stream = writer.into_inner().unwrap();
    assert_eq!(DTRACE.probe(&Source::from_bytes("other", stream)), Confidence::No);
}

#[test]
fn captures_of_linux_become_streams_and_lines_and_print_the_same() {
    for path in cases("linux") {
        let name = name_of(&path);
        let mut capture = linux_capture(&path);
        // Streams have no room for these.
        let recs = capture.enablings.iter_mut().flat_map(|enabling| &mut enabling.recs);
        recs.for_each(|rec| rec.signed = None);
        if name == "print_types" {
            capture.types = quipu_dtrace::types::Types::default();
        }
        let read = carried::read(&name, &written(&capture, Encoded::Plain)).unwrap();
        assert!(read.findings.is_empty(), "{name}: {:?}", read.findings);
        assert_eq!(read.events.len(), capture.events.len(), "{name}");
        assert_eq!(written(&read, Encoded::Plain), written(&capture, Encoded::Plain), "{name}");
        let [(_, lines), (_, options)] = &export::files(&read)[..] else { panic!("{name}") };
        let mut again = linux::read(linux::FILE, lines).unwrap();
        assert!(again.findings.is_empty(), "{name}: {:?}", again.findings);
        again.settings = quipu_dtrace::options::Settings::of_command(&String::from_utf8_lossy(options));
        let expected = text(capture);
        assert_eq!(text(read), expected, "{name}");
        assert_eq!(text(again), expected, "{name}");
    }
}

#[test]
fn folders_that_are_written_have_the_same_buffers_and_print_the_same() {
    for path in cases("classic") {
        let name = name_of(&path);
        let capture = classic(&path);
        let read = carried::read(&name, &written(&capture, Encoded::Plain)).unwrap();
        for from in [&read, &capture] {
            let files = export::files(from);
            let file =
                |name: &str| files.iter().find(|(file, _)| file == name).map(|(_, bytes)| bytes.clone());
            let again =
                meta::read("meta.json", &file(meta::FILE).unwrap(), &mut |name| Ok(file(name).unwrap()))
                    .unwrap();
            assert!(again.findings.is_empty(), "{name}: {:?}", again.findings);
            let bytes = |capture: &Capture| {
                capture.buffers.iter().chain(&capture.states).map(|of| of.bytes.clone()).collect::<Vec<_>>()
            };
            assert_eq!(bytes(&again), bytes(from), "{name}");
            assert_eq!(text(again), text(capture.clone()), "{name}");
        }
    }
}
