//! Buffers in streams that describe themselves.

use crate::samples::{bytes, cases, classic, name_of, printed, root};
use quipu_dtrace::{DTRACE, carried};
use quipu_model::{Confidence, Format};
use quipu_source::Source;
use quipu_wire::record::Producer;

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
        let stream = carried::write(&capture, producer.clone(), Vec::new()).unwrap();
        let read = carried::read(&name, &stream).unwrap();
        assert!(read.findings.is_empty(), "{name}: {:?}", read.findings);
        // The buffers are the same bytes, those of rings from the oldest record on.
        for (from, to) in capture.buffers.iter().zip(&read.buffers).filter(|(from, _)| from.oldest == 0) {
            assert_eq!(from.bytes, to.bytes, "{name}");
        }
        // Empty buffers leave nothing.
        if capture.buffers.iter().chain(&capture.states).all(|buffer| !buffer.bytes.is_empty()) {
            let again = carried::write(&read, producer, Vec::new()).unwrap();
            assert!(again == stream, "{name} becomes another stream");
        }
        let (ours, theirs) = (printed(read, true), printed(capture, true));
        assert_eq!(String::from_utf8_lossy(&ours.out), String::from_utf8_lossy(&theirs.out), "{name}");
        assert_eq!(ours.messages, theirs.messages, "{name}");
    }
}
