//! Tests of self-describing buffers: reading, writing and damage.

use crate::samples::{bytes, cases, classic, name_of, printed, root};
use quipu_dtrace::carry::Encoded;
use quipu_dtrace::symbols::{Symbol, Symbols};
use quipu_dtrace::{Capture, DTRACE, carry, export, mid};
use quipu_model::{Confidence, Format, OpenOptions};
use quipu_source::Source;
use quipu_wire::record::Producer;

fn producer() -> Producer {
    Producer { uuid: [7; 16], program: Some("test".to_owned()), ..Producer::default() }
}

/// A buffer that another program wrote from the specification of the format.
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
    // Descriptions among records are no gap between them.
    let trace = DTRACE.open(&source, &OpenOptions::default()).unwrap();
    assert_eq!(trace.meta().findings, []);
}

#[test]
fn buffers_of_all_cases_carry_their_descriptions() {
    let mut n = 0;
    for path in cases("classic") {
        let name = name_of(&path);
        let mut capture = classic(&path);
        // A buffer has no place for settings that concern other CPUs, nor for aggregations.
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
    let n_described = end_of_descriptions(&good);
    for end in (0..good.len()).step_by(7) {
        if let Ok(capture) = mid::read("cut", good[..end].to_vec()) {
            // Without the end of the descriptions, the missing ones are reported.
            assert!(end >= n_described || !capture.findings.is_empty(), "cut at {end}");
            printed(capture, false);
        }
    }
}

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize
}

/// Offset of the end of the first descriptions.
fn end_of_descriptions(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let (kind, end) = (word(bytes, at + 16), (at + 24 + word(bytes, at + 20)).next_multiple_of(4));
        at = end;
        if kind == 3 {
            return at;
        }
    }
}

#[test]
fn a_description_that_is_missing_is_found() {
    let good = sample();
    let word = |at: usize| word(&good, at);
    let (mut at, mut n) = (0, 0);
    while at < end_of_descriptions(&good) {
        let end = (at + 24 + word(at + 20)).next_multiple_of(4);
        if word(at + 16) == 1 {
            let without = [&good[..at], &good[end..]].concat();
            let found = mid::read("without", without).map(|capture| capture.findings);
            let is_said = |found: &quipu_model::Finding| found.message.contains("descriptions are announced");
            assert!(found.is_err() || found.unwrap().iter().any(is_said), "the one at {at}");
            n += 1;
        }
        at = end;
    }
    assert!(n > 10, "{n}");
}

#[test]
fn descriptions_without_their_beginning_are_found() {
    let good = sample();
    let mut at = 0;
    let mut n = 0;
    // Cut before each record of the first descriptions except the beginning, and before their end.
    loop {
        at = (at + 24 + word(&good, at + 20)).next_multiple_of(4);
        let Ok(capture) = mid::read("front", good[at..].to_vec()) else { panic!("the one at {at}") };
        let found = capture.findings.iter().any(|found| {
            found.rule == "dtrace/cut-record" && found.message.contains("descriptions have no beginning")
        });
        assert!(found, "the one at {at}: {:?}", capture.findings);
        n += 1;
        if word(&good, at + 16) == 3 {
            break;
        }
    }
    assert!(n > 10, "{n}");
}

#[test]
fn after_a_description_with_a_wrong_length_reading_begins_with_the_next() {
    let (_, written) = long();
    let at = snapshots(&written);
    let lines = |bytes: &[u8]| text(mid::read("buffer", bytes.to_vec()).unwrap()).lines().count();
    let all = lines(&written);
    // The first record after a beginning claims to be longer than the rest, or to contain many records.
    for snapshot in [at[0], at[1]] {
        let first = snapshot + 24;
        let second = first + 24 + word(&written, first + 20).next_multiple_of(4);
        for len in [0x7fff_ffff, 16 << 10] {
            let mut bad = written.clone();
            bad[first + 20..first + 24].copy_from_slice(&u32::to_le_bytes(len));
            let read = mid::read("bad", bad.clone()).unwrap();
            let loss = read.findings.iter().find_map(|found| found.loss.as_ref()).expect("a loss");
            assert_eq!(loss.bytes.exactly(), Some((second - first) as u64), "{snapshot} {len}");
            assert_eq!(lines(&bad), all, "{snapshot} {len}");
        }
    }
}

#[test]
fn a_damaged_beginning_of_the_only_descriptions_loses_nothing_else() {
    let expected = text(mid::read("good", sample()).unwrap());
    for byte in 12..24 {
        for bit in [0, 3, 7] {
            let mut bad = sample();
            bad[byte] ^= 1 << bit;
            let read = load(&bad);
            assert!(!read.findings.is_empty(), "{byte} {bit}");
            assert_eq!(text(read), expected, "{byte} {bit}");
        }
    }
}

/// A capture and its buffer, which is long enough for several descriptions.
fn long() -> (Capture, Vec<u8>) {
    let mut capture = classic(&root().join("classic/mixed_1000"));
    capture.settings.temporal = false;
    capture.states.clear();
    let mut buffer = capture.buffers[0].clone();
    for _ in 0..8 {
        let again = buffer.bytes[..capture.buffers[0].bytes.len()].to_vec();
        buffer.bytes.extend(again);
    }
    (buffer.drops, buffer.cpu) = (0, 0);
    (capture.began_on, capture.ended_on) = (None, None);
    capture.buffers = vec![buffer];
    let written = mid::write(&capture, &capture.buffers[0], producer()).unwrap();
    assert!(written.len() > 3 * mid::REPEAT_BYTES, "{}", written.len());
    (capture, written)
}

fn load(bytes: &[u8]) -> Capture {
    let source = Source::from_bytes("buffer", bytes);
    assert_eq!(DTRACE.probe(&source).max(DTRACE.probe_far(&source)), Confidence::Sure);
    quipu_dtrace::trace::load(&source, &OpenOptions::default()).unwrap()
}

fn text(capture: Capture) -> String {
    String::from_utf8_lossy(&printed(capture, true).out).into_owned()
}

/// Offsets at which descriptions begin.
fn snapshots(bytes: &[u8]) -> Vec<usize> {
    let begins = |at: &usize| bytes[*at..*at + 4] == [0xff; 4] && bytes[*at + 16..*at + 20] == [2, 0, 0, 0];
    (0..bytes.len() - 24).step_by(4).filter(begins).collect()
}

#[test]
fn descriptions_are_repeated_and_change_nothing() {
    let (capture, written) = long();
    assert!(snapshots(&written).len() >= 3, "{:?}", snapshots(&written));
    let read = load(&written);
    assert_eq!(read.findings, []);
    assert_eq!(text(read.clone()), text(capture));
    // The same holds for streams and folders that are made from it.
    let stream = carry::write(&read, producer(), Encoded::Plain, Vec::new()).unwrap();
    let again = load(&stream);
    assert_eq!(again.findings, []);
    let dense = carry::write(&read, producer(), Encoded::Dense, Vec::new()).unwrap();
    assert_eq!(load(&dense).findings, []);
    assert_eq!(text(again.clone()), text(read));
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in export::files(&again) {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let folder = Source::open(folder.path()).unwrap();
    let back = quipu_dtrace::trace::load(&folder, &OpenOptions::default()).unwrap();
    assert_eq!(back.findings, []);
    assert_eq!(text(back), text(again));
}

#[test]
fn the_rest_of_a_ring_is_read_from_its_first_whole_descriptions() {
    let (_, written) = long();
    let at = snapshots(&written);
    let whole = text(load(&written));
    for start in [at[1], at[1] - 400, at[0] + 100] {
        let rest = load(&written[start..]);
        let (first, n) = if start == at[1] { (at[1], 0) } else { (at[1], at[1] - start) };
        let rules: Vec<&str> = rest.findings.iter().map(|finding| &*finding.rule).collect();
        assert_eq!(rules, if n == 0 { vec![] } else { vec!["dtrace/lost"] }, "{start}");
        if n > 0 {
            let message = &rest.findings[0].message;
            assert!(
                message.contains(&format!("overwritten: {n} bytes before the first whole descriptions")),
                "{message}"
            );
        }
        let rest = text(rest);
        let lines: Vec<&str> = rest.lines().skip(1).collect();
        assert!(
            lines.len() > 500 && whole.ends_with(&format!("{}\n\n", lines[..lines.len() - 1].join("\n"))),
            "{first}"
        );
    }
}

#[test]
fn after_a_record_that_nothing_describes_reading_begins_with_the_next_descriptions() {
    let (_, mut written) = long();
    let at = snapshots(&written);
    let bad = at[1] - 200;
    let bad = (bad..).step_by(4).find(|at| written[*at..*at + 4] == [1, 0, 0, 0]).unwrap_or(bad);
    let end = at[1];
    written[bad..end].fill(0x77);
    let read = load(&written);
    let rules: Vec<&str> = read.findings.iter().map(|finding| &*finding.rule).collect();
    assert_eq!(rules.iter().filter(|rule| **rule == "dtrace/unknown-id").count(), 1, "{:?}", read.findings);
    let found = read.findings.iter().find(|finding| finding.rule == "dtrace/unknown-id").unwrap();
    assert!(found.message.contains("up to the next descriptions"), "{}", found.message);
    assert!(found.loss.as_ref().unwrap().bytes.exactly().unwrap() <= (end - bad + 400) as u64);
    assert!(text(read).lines().count() > 1000);
}

/// Head of a record with the reserved number.
fn reserved(crc: u32, kind: u32, len: u32) -> Vec<u8> {
    [u32::MAX, 0, 0, crc, kind, len].iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn records_that_claim_all_that_follows_take_time_for_their_bytes_only() {
    let begin = || {
        let payload: Vec<u8> = [2_u32, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
        reserved(quipu_wire::crc32c(&payload), 2, 0)
    };
    // Beginnings that claim the whole rest, and correct ones before a description that claims it.
    for (heads, between) in
        [(vec![false], 4), (vec![true, false], 4), (vec![false], 0), (vec![false, true], 0)]
    {
        let mut hostile = [sample(), vec![0x77; between]].concat();
        let end = hostile.len() + (3 << 20);
        while hostile.len() < end {
            for is_right in &heads {
                let rest = (end - hostile.len() - 24) as u32;
                let kind = if heads.len() == 1 { 2 } else { 1 };
                hostile.extend(if *is_right { begin() } else { reserved(1, kind, rest) });
            }
        }
        let started = std::time::Instant::now();
        let capture = mid::read("hostile", hostile.clone()).unwrap();
        assert!(capture.buffers[0].bytes.len() == hostile.len());
        assert!(!mid::is_within(&hostile[sample().len()..]));
        assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
        // Whole descriptions after some of these are still found.
        if between > 0 {
            let start = sample().len();
            let good = [&hostile[start..start + 4800], &sample()].concat();
            let capture = mid::read("good", good).unwrap();
            assert!(capture.findings.is_empty() && capture.lost[0].text.starts_with("4800 bytes"));
        }
    }
}

#[test]
fn descriptions_that_all_lead_to_the_same_zeros_are_passed_in_time_for_their_bytes() {
    let record = |kind: u32, payload: &[u8]| {
        let said = [&kind.to_le_bytes()[..], &(payload.len() as u32).to_le_bytes(), payload].concat();
        let mut record = reserved(quipu_wire::crc32c(&said), kind, payload.len() as u32);
        record.extend_from_slice(payload);
        record.resize(record.len().next_multiple_of(4), 0);
        record
    };
    // Descriptions of an enabling of this size.
    let described = |size: u32| {
        let head = [0xa6, 0, 15, 1, 1, 2, 0x18, 100, 3, 0, 4, 0x1a];
        let enabling = [&head[..], &size.to_be_bytes(), &[5, 0x80]].concat();
        [record(2, &[]), record(1, &enabling), record(3, &1_u32.to_le_bytes())].concat()
    };
    let mut hostile = [[0x77; 40].to_vec(), described(12), 9_u32.to_le_bytes().to_vec()].concat();
    let each = described(1 << 20).len() + 4;
    let n = (1 << 20) / each;
    let end = hostile.len() + n * each;
    for _ in 0..n {
        let size = end - (hostile.len() + each - 4);
        hostile.extend(described(size as u32));
        hostile.extend(1_u32.to_le_bytes());
    }
    hostile.resize(hostile.len() + (1 << 20), 0);
    hostile.extend([0x77; 4]);
    let started = std::time::Instant::now();
    assert_eq!(DTRACE.probe_far(&Source::from_bytes("hostile", hostile)), Confidence::No);
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
}

/// A buffer whose descriptions are long, and therefore repeated rarely.
fn with_many_symbols(n: u64) -> Vec<u8> {
    let (mut capture, _) = long();
    let symbol = |at: u64| Symbol {
        lo: at << 12,
        hi: (at << 12) + 64,
        object: "kernel".into(),
        name: format!("function_{at}"),
        user: false,
    };
    capture.symbols = Symbols::new((1..n).map(symbol).collect());
    let one = capture.buffers[0].bytes.clone();
    let written = |capture: &Capture| mid::write(capture, &capture.buffers[0], producer()).unwrap();
    while snapshots(&written(&capture)).len() < 2 {
        capture.buffers[0].bytes.extend_from_slice(&one);
    }
    // Also records after them.
    (0..4).for_each(|_| capture.buffers[0].bytes.extend_from_slice(&one));
    written(&capture)
}

#[test]
fn long_descriptions_are_found_where_the_beginning_is_missing() {
    let written = with_many_symbols(2000);
    let at = snapshots(&written);
    assert!(at[1] > 256 << 10, "{at:?}");
    // The part that is inspected for other captures contains no description.
    let start = (at[1] - (200 << 10)).next_multiple_of(4);
    let rest = load(&written[start..]);
    let rules: Vec<&str> = rest.findings.iter().map(|finding| &*finding.rule).collect();
    assert_eq!(rules, ["dtrace/lost"]);
    assert!(text(rest).lines().count() > 1000);
}

#[test]
fn a_capture_that_somebody_says_it_is_is_searched_to_its_end() {
    let far = [vec![0x11; 5 << 20], sample()].concat();
    let source = Source::from_bytes("far", far);
    assert_eq!(DTRACE.probe(&source).max(DTRACE.probe_far(&source)), Confidence::No);
    let capture = quipu_dtrace::trace::load(&source, &OpenOptions::default()).unwrap();
    assert!(capture.lost[0].text.starts_with("5242880 bytes before the first whole descriptions"));
    assert!(!text(capture).trim().is_empty());
    let source = Source::from_bytes("none", vec![0x11; 1 << 20]);
    let error = quipu_dtrace::trace::load(&source, &OpenOptions::default()).unwrap_err();
    assert!(error.to_string().contains("no whole descriptions stand in it as in a buffer"), "{error}");
}

#[test]
fn a_buffer_within_another_file_is_not_the_rest_of_a_ring() {
    // In an archive, the bytes before the buffer are no record, although zeros end them.
    let mut archive = b"README.md: text of a file\n".repeat(40);
    archive.resize(2048, 0);
    archive.extend(sample());
    assert!(!mid::is_within(&archive));
    assert_eq!(DTRACE.probe(&Source::from_bytes("archive", archive)), Confidence::No);
}

/// Offsets of the zeros about which a capture has warnings.
fn cleared_places(capture: Capture) -> Vec<u64> {
    let stream = carry::write(&capture, producer(), Encoded::Plain, Vec::new()).unwrap();
    let findings = load(&stream).findings;
    let cleared = findings.iter().filter(|finding| finding.rule == "dtrace/cleared-records");
    cleared.filter_map(|finding| finding.place.offset).collect()
}

/// A tar archive of one file.
fn archive(file: &[u8]) -> Vec<u8> {
    let mut archive = b"buffer.midbuf".to_vec();
    archive.resize(257, 0);
    archive.extend_from_slice(b"ustar");
    archive.resize(512, 0);
    archive.extend_from_slice(file);
    archive.resize(archive.len().next_multiple_of(512) + 1024, 0);
    archive
}

#[test]
fn the_rest_of_a_ring_with_one_damaged_place_is_recognised() {
    let (_, written) = long();
    let at = snapshots(&written);
    let probed = |bytes: &[u8]| {
        let source = Source::from_bytes("buffer", bytes);
        [DTRACE.probe(&source), DTRACE.probe_far(&source)]
    };
    // Damage among the records before the first descriptions: those after it lead to them.
    let mut rest = written[1000..].to_vec();
    rest[5000..5040].fill(0xa7);
    assert_eq!(probed(&rest), [Confidence::Sure; 2]);
    let read = load(&rest);
    let first = at[1] - 1000;
    assert!(
        read.lost[0].text.starts_with(&format!("{first} bytes before the first whole")),
        "{:?}",
        read.lost
    );
    let n_lines = text(load(&written[at[1]..])).lines().count();
    assert_eq!(text(read).lines().count(), n_lines);
    // Damage of all that precedes them: the records after them lead to the next descriptions, or to the end.
    for end in [written.len(), at[2] - 200] {
        let mut rest = written[at[1] - 2000..end].to_vec();
        rest[..2000].fill(0xa7);
        assert_eq!(probed(&rest), [Confidence::No, Confidence::Sure], "{end}");
        assert!(text(load(&rest)).lines().count() > 500, "{end}");
    }
    // The first descriptions have a wrong checksum.
    let mut rest = written[at[1] - 400..].to_vec();
    rest[400 + 24 + 30] ^= 1;
    assert_eq!(probed(&rest), [Confidence::Sure; 2]);
    assert_eq!(text(load(&rest)).lines().count(), text(load(&written[at[2]..])).lines().count());
    // A whole buffer within another file is not the rest of a ring.
    assert_eq!(probed(&archive(&written)), [Confidence::No; 2]);
    assert_eq!(probed(&[vec![0x11; 4096], sample(), vec![0x11; 4096]].concat()), [Confidence::No; 2]);
}

#[test]
fn gaps_between_records_are_losses_of_a_bare_buffer() {
    let (mut capture, _) = long();
    let clear = |capture: &mut Capture, n: usize| {
        let records: Vec<(usize, usize)> = {
            let buffer = &capture.buffers[0];
            let mut cursor = quipu_dtrace::buffer::Cursor::new(buffer);
            std::iter::from_fn(|| cursor.next_record(capture, buffer).unwrap())
                .map(|record| (record.offset, record.bytes.len()))
                .collect()
        };
        for (start, len) in records.iter().skip(1).step_by(3).take(n) {
            capture.buffers[0].bytes[*start..start + len].fill(0);
        }
        load(&mid::write(capture, &capture.buffers[0], producer()).unwrap())
    };
    let mut two = capture.clone();
    let read = clear(&mut two, 2);
    let lost: Vec<&str> = read.lost.iter().map(|lost| &*lost.text).collect();
    assert!(lost.len() == 2 && lost[0].contains("zero bytes stood before a record, at 0x"), "{lost:?}");
    assert_eq!(read.findings.iter().filter(|finding| finding.rule == "dtrace/lost").count(), 2);
    // Each has the offset of the corresponding warning of the capture.
    let places: Vec<String> = cleared_places(two).iter().map(|at| format!("at {at:#x}")).collect();
    assert!(places.len() == 2 && lost.iter().zip(&places).all(|(text, at)| text.ends_with(at)), "{places:?}");
    let read = clear(&mut capture, 150);
    assert_eq!(read.lost.len(), 101);
    assert!(read.lost[0].text.starts_with("50 more gaps between records have"), "{:?}", read.lost[0]);
}
