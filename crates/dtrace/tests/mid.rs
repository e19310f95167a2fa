//! Buffers that describe themselves: read, written, damaged.

use crate::samples::{bytes, cases, classic, name_of, printed, root};
use quipu_dtrace::{DTRACE, mid};
use quipu_model::{Confidence, Format, OpenOptions};
use quipu_source::Source;
use quipu_wire::record::Producer;

fn producer() -> Producer {
    Producer { uuid: [7; 16], program: Some("test".to_owned()), ..Producer::default() }
}

/// A buffer that another program wrote from the description of the format.
fn sample() -> Vec<u8> {
    bytes(&root().join("../stream/padding.midbuf"))
}

#[test]
fn a_buffer_with_its_descriptions_prints_what_the_consumer_printed() {
    let capture = mid::read("padding.midbuf", sample()).unwrap();
    assert!(capture.findings.is_empty(), "{:?}", capture.findings);
    let expected = bytes(&root().join("classic/padding/stdout"));
    assert_eq!(String::from_utf8_lossy(&printed(capture, true).out), String::from_utf8_lossy(&expected));
    let source = Source::from_bytes("padding.midbuf", sample());
    assert_eq!(DTRACE.probe(&source), Confidence::Sure);
    // Descriptions that stand among records are no gap between them.
    let trace = DTRACE.open(&source, &OpenOptions::default()).unwrap();
    assert_eq!(trace.meta().findings, []);
}

#[test]
fn buffers_of_all_cases_carry_their_descriptions() {
    let mut n = 0;
    for path in cases("classic") {
        let name = name_of(&path);
        let mut capture = classic(&path);
        // A buffer has no room for those of other CPUs, nor for aggregations.
        capture.settings.temporal = false;
        (capture.began_on, capture.ended_on) = (None, None);
        capture.states.clear();
        let buffers = std::mem::take(&mut capture.buffers);
        for mut buffer in buffers {
            (buffer.drops, buffer.cpu) = (0, 0);
            capture.buffers = vec![buffer.clone()];
            let written = mid::write(&capture, &buffer, producer()).unwrap();
            let mut read = mid::read("buffer", written.clone()).unwrap();
            assert!(read.findings.is_empty(), "{name}: {:?}", read.findings);
            read.status = capture.status;
            let again = mid::write(&read, &read.buffers[0], producer()).unwrap();
            assert_eq!(again, written, "{name}");
            let (ours, theirs) = (printed(read, true), printed(capture.clone(), true));
            assert_eq!(String::from_utf8_lossy(&ours.out), String::from_utf8_lossy(&theirs.out), "{name}");
            n += 1;
        }
    }
    assert!(n > 40, "{n}");
}

#[test]
fn damaged_descriptions_are_found_and_not_used() {
    let good = sample();
    // A byte of the probe `read`, in a record in the middle.
    let at = good.windows(4).position(|window| window == b"read").unwrap();
    let mut bad = good.clone();
    bad[at] ^= 1;
    let capture = mid::read("bad", bad).unwrap();
    let rules: Vec<&str> = capture.findings.iter().map(|finding| &*finding.rule).collect();
    assert_eq!(rules, ["dtrace/description-checksum"]);
    for end in (0..good.len()).step_by(7) {
        if let Ok(capture) = mid::read("cut", good[..end].to_vec()) {
            printed(capture, false);
        }
    }
}
