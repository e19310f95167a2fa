//! Records in other layouts: the old header, both byte orders, random descriptions, and any partition of CPUs.

use crate::samples::{cases, classic, name_of, printed};
use quipu_dtrace::action::Action;
use quipu_dtrace::aggregate::Aggregates;
use quipu_dtrace::buffer::Cursor;
use quipu_dtrace::bytes::ByteOrder;
use quipu_dtrace::carry::Encoded;
use quipu_dtrace::describe::{Buffer, Enabling, Event, Probe, Rec};
use quipu_dtrace::layout::{self, BufferWriter};
use quipu_dtrace::walk::Walk;
use quipu_dtrace::{Capture, Dialect, carried, carry, export, linux, mid, raw};
use quipu_testkit::Rng;
use quipu_wire::record::Producer;
use std::collections::BTreeSet;

/// The same records with the 4-byte headers of classic-v0.
fn with_old_headers(capture: &Capture) -> Capture {
    let mut old = Capture { dialect: Dialect::ClassicV0, ..capture.clone() };
    for enabling in &mut old.enablings {
        layout::place(enabling, Dialect::ClassicV0);
    }
    for (buffer, from) in old.buffers.iter_mut().zip(&capture.buffers) {
        let mut writer = BufferWriter::new(Dialect::ClassicV0, capture.order);
        let mut cursor = Cursor::new(from);
        loop {
            match cursor.next_record(capture, from) {
                Ok(Some(record)) => {
                    let (_, enabling) = old_enabling(&old.enablings, record.enabling.id);
                    let values = layout::values(&record.enabling.recs, record.bytes);
                    writer.record(enabling, 0, values).unwrap();
                }
                Ok(None) => break,
                Err(_) => {
                    // A record without a description in one form has none in the other.
                    writer.raw(&from.bytes[cursor.offset()..]);
                    break;
                }
            }
        }
        (buffer.bytes, buffer.oldest) = (writer.into_bytes(), 0);
    }
    old
}

fn old_enabling(all: &[Enabling], id: u32) -> (usize, &Enabling) {
    all.iter().enumerate().find(|(_, enabling)| enabling.id == id).unwrap()
}

#[test]
fn old_headers_hold_the_same_text() {
    for path in cases("classic") {
        let name = name_of(&path);
        let mut capture = classic(&path);
        let mut old = with_old_headers(&capture);
        if capture.settings.temporal {
            let error = Walk::new(&old).unwrap_err();
            assert!(error.to_string().contains("no temporal order"), "{name}: {error}");
            (capture.settings.temporal, old.settings.temporal) = (false, false);
        }
        let (ours, theirs) = (printed(old, true), printed(capture, true));
        assert_eq!(String::from_utf8_lossy(&ours.out), String::from_utf8_lossy(&theirs.out), "{name}");
        assert_eq!(ours.messages, theirs.messages, "{name}");
        assert_eq!(ours.faults.len(), theirs.faults.len(), "{name}");
    }
}

#[test]
fn laying_out_the_parts_again_changes_no_description() {
    for path in cases("classic") {
        for enabling in &classic(&path).enablings {
            let mut again = enabling.clone();
            layout::place(&mut again, Dialect::Classic);
            let offsets =
                |enabling: &Enabling| enabling.recs.iter().map(|rec| rec.offset).collect::<Vec<_>>();
            let is_bare = enabling.recs.iter().all(|rec| rec.size == 0);
            assert_eq!(offsets(&again), offsets(enabling), "{}", name_of(&path));
            assert!(
                is_bare || again.size == enabling.size || enabling.size > again.size,
                "{}",
                name_of(&path)
            );
        }
    }
}

#[test]
fn descriptions_of_the_device_are_those_of_the_samples() {
    let mut n = 0;
    for path in cases("classic") {
        let text: serde_json::Value =
            serde_json::from_slice(&crate::samples::bytes(&path.join("meta.json"))).unwrap();
        let capture = classic(&path);
        for described in text["eprobes"].as_array().unwrap() {
            let bytes = described["raw_eprobedesc"].as_str().unwrap();
            let bytes: Vec<u8> = (0..bytes.len() / 2)
                .map(|at| u8::from_str_radix(&bytes[2 * at..2 * at + 2], 16).unwrap())
                .collect();
            let found = raw::enabling(&bytes, ByteOrder::Little, Dialect::Classic).unwrap();
            let (_, expected) = capture.enabling(found.id).unwrap();
            assert_eq!(&found, expected, "{}", name_of(&path));
            assert_eq!(raw::put_enabling(expected, ByteOrder::Little), bytes, "{}", name_of(&path));
            n += 1;
        }
        for described in text["aggregations"].as_array().unwrap() {
            let bytes = described["raw_aggdesc"].as_str().unwrap();
            let bytes: Vec<u8> = (0..bytes.len() / 2)
                .map(|at| u8::from_str_radix(&bytes[2 * at..2 * at + 2], 16).unwrap())
                .collect();
            let found = raw::aggregation(&bytes, ByteOrder::Little, Dialect::Classic).unwrap();
            let expected = &capture.aggregations[capture.aggregation(found.id).unwrap()];
            assert_eq!((found.size, found.recs.last()), (expected.size, Some(&expected.value)));
            assert_eq!(&found.recs[1..found.recs.len() - 1], &expected.keys[..]);
            n += 1;
        }
    }
    assert!(n > 150, "{n}");
}

/// Formats of random parts: types or texts.
const FORMATS: [&[u8]; 3] = [b"module`1", b"text %s\n", b"100%%"];

/// A random part: a value of any size, or an action with a fixed size.
fn part(dice: &mut Rng) -> Rec {
    let sizes = [0, 1, 2, 3, 4, 7, 8, 12, 16, 17, 33, 256];
    let any = sizes[dice.below(sizes.len() as u64) as usize];
    let n = dice.below(5) + 1;
    let (code, size, arg) = match dice.below(12) {
        0..=3 => (1, any, dice.next()),
        4 => (2, 4, 0),
        5 => (6, any, dice.next()),
        6 => (7, 8, 0),
        7 => (8, any.max(8), 0),
        8 => (0x401, 8 * n as u32, n),
        9 => (0x401, 4 * n as u32, n),
        10 => (0x101, (8 * (n + 1) + 16) as u32, n | 16 << 32),
        _ => ([0x402, 0x403, 0x602][dice.below(3) as usize], 8, dice.next()),
    };
    let format = if code == 1 { dice.below(FORMATS.len() as u64 + 1) as u16 } else { 0 };
    let action = Action::of(code, Dialect::Classic);
    let uarg = dice.below(3);
    Rec { action, code, size, offset: 0, alignment: 1, format, arg, uarg, signed: None }
}

/// A random description of an enabling.
fn enabling(dice: &mut Rng, id: u32, dialect: Dialect) -> Enabling {
    let recs = (0..dice.below(9)).map(|_| part(dice)).collect();
    let mut enabling = Enabling { id, probe: 1, recs, ..Enabling::default() };
    layout::place(&mut enabling, dialect);
    if enabling.size == 0 {
        // An enabling that stores nothing leaves no record.
        enabling.recs.clear();
        layout::place(&mut enabling, dialect);
    }
    enabling
}

/// The descriptions, with statements renumbered in order of appearance, since only their equality matters.
fn described(capture: &Capture) -> Vec<Enabling> {
    let mut all = capture.enablings.clone();
    let mut known = vec![0];
    for rec in all.iter_mut().flat_map(|enabling| &mut enabling.recs) {
        let at = known.iter().position(|uarg| *uarg == rec.uarg).unwrap_or_else(|| {
            known.push(rec.uarg);
            known.len() - 1
        });
        rec.uarg = at as u64;
    }
    all
}

/// The records of the only buffer: number, time and values.
fn records(capture: &Capture) -> Vec<(u32, u64, Vec<Vec<u8>>)> {
    let Some(buffer) = capture.buffers.first() else { return Vec::new() };
    let mut cursor = Cursor::new(buffer);
    let mut found = Vec::new();
    while let Some(record) = cursor.next_record(capture, buffer).unwrap() {
        let values = layout::values(&record.enabling.recs, record.bytes).map(<[u8]>::to_vec).collect();
        found.push((record.enabling.id, record.time, values));
    }
    found
}

#[test]
fn random_records_come_back_from_their_buffers() {
    let mut dice = Rng::new(1);
    let (mut actions, mut n_records) = (BTreeSet::new(), 0);
    for round in 0..200 {
        let dialect = if round % 3 == 0 { Dialect::ClassicV0 } else { Dialect::Classic };
        let order = if round % 2 == 0 { ByteOrder::Little } else { ByteOrder::Big };
        let enablings: Vec<Enabling> = (1..=4).map(|id| enabling(&mut dice, id, dialect)).collect();
        for enabling in &enablings {
            let bytes = raw::put_enabling(enabling, order);
            assert_eq!(raw::enabling(&bytes, order, dialect).unwrap(), *enabling);
        }
        let mut writer = BufferWriter::new(dialect, order);
        let mut expected = Vec::new();
        for time in 0..dice.below(50) {
            let enabling = &enablings[dice.below(4) as usize];
            let values: Vec<Vec<u8>> = enabling
                .recs
                .iter()
                .map(|rec| (0..rec.size).map(|_| dice.below(256) as u8).collect())
                .collect();
            writer.record(enabling, time << 31, values.iter().map(Vec::as_slice)).unwrap();
            let time = if dialect == Dialect::Classic { time << 31 } else { 0 };
            expected.push((enabling.id, time, values));
        }
        for enabling in &enablings {
            actions.extend(enabling.recs.iter().map(|rec| rec.code));
        }
        let by_epid = (0u32..).zip(&enablings).map(|(at, enabling)| (enabling.id, at)).collect();
        let formats = FORMATS.into_iter().map(std::sync::Arc::from).collect();
        let probes = [(1, Probe { id: 1, provider: "p".into(), name: "n".into(), ..Probe::default() })];
        let probes = probes.into_iter().collect();
        let mut capture = Capture {
            dialect,
            order,
            pointer_bytes: 8,
            probes,
            formats,
            enablings,
            by_epid,
            ..Capture::default()
        };
        capture.buffers = vec![Buffer { bytes: writer.into_bytes(), ..Buffer::default() }];
        assert_eq!(records(&capture), expected, "round {round}");
        // The same through streams in both encodings, and through a self-describing buffer.
        let producer = || Producer { uuid: [7; 16], ..Producer::default() };
        for encoded in [Encoded::Plain, Encoded::Dense] {
            let stream = carry::write(&capture, producer(), encoded, Vec::new()).unwrap();
            let read = carried::read("stream", &stream).unwrap();
            assert!(read.findings.is_empty(), "round {round}: {:?}", read.findings);
            assert_eq!(described(&read), described(&capture), "round {round}");
            assert_eq!(records(&read), expected, "round {round} {encoded:?}");
            assert!(
                expected.is_empty() || read.buffers[0].bytes == capture.buffers[0].bytes,
                "round {round}"
            );
        }
        if dialect == Dialect::Classic {
            let buffer = mid::write(&capture, &capture.buffers[0], producer()).unwrap();
            let read = mid::read("buffer", buffer).unwrap();
            assert!(read.findings.is_empty(), "round {round}: {:?}", read.findings);
            assert_eq!(records(&read), expected, "round {round}");
        }
        n_records += expected.len();
    }
    assert!(actions.len() == 10 && n_records > 3000, "{actions:?} {n_records}");
}

/// A random statement of Linux; offsets count from the size word.
fn statement(dice: &mut Rng, id: u32) -> Enabling {
    let mut enabling = Enabling { id, align: 8, ..Enabling::default() };
    let mut offset = Dialect::Linux.header_bytes();
    for _ in 0..dice.below(6) {
        let sizes = [1, 2, 4, 8, 3, 17, 65];
        let size = sizes[dice.below(sizes.len() as u64) as usize];
        let alignment = if size > 8 { 1 } else { layout::alignment(size) };
        offset = offset.next_multiple_of(u32::from(alignment));
        let by_reference = if size > 8 { 4 } else { dice.below(2) };
        enabling.recs.push(Rec {
            action: Action::of(1, Dialect::Linux),
            code: 1,
            size,
            offset,
            alignment,
            format: 0,
            arg: by_reference,
            uarg: dice.below(3),
            signed: None,
        });
        offset += size;
    }
    enabling.size = offset.next_multiple_of(8);
    enabling
}

#[test]
fn random_samples_of_linux_come_back_from_lines_and_streams() {
    let mut dice = Rng::new(11);
    let mut n_samples = 0;
    for round in 0..100u32 {
        let enablings: Vec<Enabling> = (0..4).map(|id| statement(&mut dice, id)).collect();
        let mut events = Vec::new();
        for offset in 0..dice.below(60) {
            let of = &enablings[dice.below(4) as usize];
            let mut bytes = Vec::new();
            for word in [of.size - 4, 0, 1, of.id] {
                bytes.extend(word.to_le_bytes());
            }
            bytes.resize(of.size as usize, 0);
            for rec in &of.recs {
                let part = &mut bytes[rec.offset as usize..(rec.offset + rec.size) as usize];
                part.iter_mut().for_each(|byte| *byte = dice.below(256) as u8);
            }
            let cpu = dice.below(3) as u32;
            events.push(Event::Sample { cpu, offset, bytes: bytes.into() });
        }
        let probe = Probe { id: 1, provider: "p".into(), name: "n".into(), ..Probe::default() };
        let capture = Capture {
            dialect: Dialect::Linux,
            pointer_bytes: 8,
            library_base: 46,
            probes: [(1, probe)].into_iter().collect(),
            by_epid: (0u32..).zip(&enablings).map(|(at, of)| (of.id, at)).collect(),
            enablings,
            events,
            ..Capture::default()
        };
        let samples = |capture: &Capture| -> Vec<(u32, Box<[u8]>)> {
            let sample = |event: &Event| match event {
                Event::Sample { cpu, bytes, .. } => Some((*cpu, bytes.clone())),
                Event::State { .. } => None,
            };
            capture.events.iter().filter_map(sample).collect()
        };
        let text = |capture: Capture| {
            let printed = printed(capture, true);
            assert!(printed.faults.is_empty(), "round {round}: {:?}", printed.faults);
            printed.out
        };
        let expected = text(capture.clone());
        let files = export::files(&capture);
        let (_, lines) = files.iter().find(|(name, _)| name == linux::FILE).unwrap();
        let mut reads = vec![linux::read(linux::FILE, lines).unwrap()];
        for encoded in [Encoded::Plain, Encoded::Dense] {
            let producer = Producer { uuid: [7; 16], ..Producer::default() };
            let stream = carry::write(&capture, producer, encoded, Vec::new()).unwrap();
            reads.push(carried::read("stream", &stream).unwrap());
        }
        for read in reads {
            assert!(read.findings.is_empty(), "round {round}: {:?}", read.findings);
            assert_eq!(samples(&read), samples(&capture), "round {round}");
            let parts = |capture: &Capture| -> Vec<(u32, u32, Vec<u32>)> {
                let offsets = |of: &Enabling| of.recs.iter().map(|rec| rec.offset).collect();
                capture.enablings.iter().map(|of| (of.id, of.size, offsets(of))).collect()
            };
            assert_eq!(parts(&read), parts(&capture), "round {round}");
            assert_eq!(text(read), expected, "round {round}");
        }
        n_samples += capture.events.len();
    }
    assert!(n_samples > 1500, "{n_samples}");
}

#[test]
fn any_partition_of_cpus_gives_the_same_aggregations() {
    let mut dice = Rng::new(7);
    for path in cases("classic") {
        let capture = classic(&path);
        let mut whole = Aggregates::new(false);
        for buffer in &capture.states {
            whole.take(&capture, buffer).unwrap();
        }
        for _ in 0..4 {
            let mut parts: Vec<Aggregates> = (0..3).map(|_| Aggregates::new(false)).collect();
            for buffer in &capture.states {
                parts[dice.below(3) as usize].take(&capture, buffer).unwrap();
            }
            // The parts are merged in a random order, from the left or from the right.
            let (first, second, third) =
                (parts.remove(dice.below(3) as usize), parts.pop().unwrap(), parts.pop().unwrap());
            let (mut left, mut right) = (first.clone(), second);
            left.absorb(right.clone());
            left.absorb(third.clone());
            right.absorb(third);
            let mut other = first;
            other.absorb(right);
            for all in [&left, &other] {
                assert_eq!(sorted(all), sorted(&whole), "{}", name_of(&path));
            }
        }
    }
}

pub(crate) type Row = (usize, Box<[u8]>, Box<[i64]>);

/// Rows of all aggregations, sorted, so that the order in which they were made does not matter.
pub(crate) fn sorted(all: &Aggregates) -> Vec<Row> {
    let mut rows: Vec<_> = all
        .entries()
        .map(|entry| (entry.aggregation, entry.key.clone(), entry.value.cells.clone()))
        .collect();
    rows.sort();
    rows
}
