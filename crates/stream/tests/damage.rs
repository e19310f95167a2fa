//! Streams that are cut, damaged, shuffled and read in parts: the intact frames are delivered, and the missing ones are reported.

use crate::vectors::{bytes, names, summary_of};
use quipu_stream::frame::kind;
use quipu_stream::reader::{Content, StreamReader};
use quipu_stream::scan::{FrameAt, Scanner};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The frames of a file.
fn frames(bytes: &[u8]) -> Vec<FrameAt> {
    frames_of(bytes, Scanner::new())
}

fn frames_of(mut bytes: &[u8], mut scanner: Scanner) -> Vec<FrameAt> {
    let mut frames = Vec::new();
    while let Some(frame) = scanner.next(&mut bytes).unwrap() {
        frames.push(frame);
    }
    frames
}

/// The records of each frame as text, and the findings and other counts as text.
pub fn read(bytes: &[u8]) -> (BTreeMap<u64, Vec<String>>, Vec<String>) {
    read_with(bytes, false)
}

fn read_with(bytes: &[u8], is_once: bool) -> (BTreeMap<u64, Vec<String>>, Vec<String>) {
    let mut reader = if is_once { StreamReader::once(bytes) } else { StreamReader::new(bytes) };
    let mut records = BTreeMap::<u64, Vec<String>>::new();
    while let Some(part) = reader.next_part().unwrap() {
        let lines = records.entry(part.offset).or_default();
        match part.content {
            Content::Rows(batch) | Content::Aggregations(batch, _) => {
                for (rows, row) in batch.in_order() {
                    let values: Vec<_> = rows
                        .columns
                        .iter()
                        .map(|column| quipu_stream::datum::of_column(column, row))
                        .collect();
                    lines.push(format!("{} {} {values:?}", rows.schema.name(), rows.times[row]));
                }
            }
            Content::Foreign(body) => lines.push(format!("{body:?}")),
        }
    }
    let mut said: Vec<String> = reader.session().findings.iter().map(ToString::to_string).collect();
    said.push(format!("{} duplicates", reader.session().duplicates()));
    said.push(format!("{} bytes never written", reader.unwritten_bytes()));
    (records, said)
}

/// The records of all other frames if this frame is missing, by their offset in the whole file.
fn read_without(whole: &[u8], frame: &FrameAt) -> BTreeMap<u64, Vec<String>> {
    let (start, end) = (frame.offset, frame.end());
    let (records, _) = read(&[&whole[..start as usize], &whole[end as usize..]].concat());
    records.into_iter().map(|(at, lines)| (if at < start { at } else { at + end - start }, lines)).collect()
}

#[test]
fn every_flipped_bit_is_noticed_and_costs_its_frame_only() {
    for name in names() {
        let whole = bytes(&name);
        let is_damaged =
            ["payload-bitflip", "header-damaged", "appended-after-crash", "truncated", "hostile-length"]
                .contains(&name.as_str())
                || name.starts_with("joined");
        if whole.len() > 5000 || is_damaged {
            continue;
        }
        let (records, said) = read(&whole);
        let all = frames(&whole);
        // The records that other frames have without this frame. They may lose no more than what this frame alone defines.
        let without: BTreeMap<u64, _> =
            all.iter().map(|frame| (frame.offset, read_without(&whole, frame))).collect();
        for bit in 0..whole.len() * 8 {
            let at = (bit / 8) as u64;
            let hit = all.iter().find(|frame| (frame.offset..frame.end()).contains(&at));
            // Open frames have no checksum unless they are closed in place.
            let is_open =
                hit.is_some_and(|frame| frame.header.kind == kind::OPEN && at >= frame.payload_at());
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let (left, says) = read(&flipped);
            if !is_open && hit.is_some() {
                assert_ne!(says, said, "{name}: bit {bit} of byte {at} is not noticed");
            }
            let Some(hit) = hit else { continue };
            let missing = &without[&hit.offset];
            for (offset, lines) in records.iter().filter(|(offset, _)| **offset != hit.offset) {
                let there = left.get(offset);
                // Either an open frame or its closed form is used.
                let is_kept = there == Some(lines) || there == missing.get(offset) || name == "open-frames";
                assert!(is_kept, "{name}: bit {bit} of byte {at} costs records of the frame at {offset}");
            }
        }
    }
}

#[test]
fn a_file_that_is_cut_anywhere_gives_what_comes_before() {
    for name in ["minimal", "all-types", "stride-runs", "two-producers", "agg-rows", "clock-blob-pad"] {
        let whole = bytes(name);
        let (records, _) = read(&whole);
        for len in 0..whole.len() {
            let (left, said) = read(&whole[..len]);
            for (offset, lines) in &left {
                assert_eq!(records.get(offset), Some(lines), "{name} cut at {len}");
            }
            let n_whole = frames(&whole).iter().filter(|frame| frame.end() <= len as u64).count();
            let n_data = records
                .keys()
                .filter(|offset| frames(&whole)[..n_whole].iter().any(|f| f.offset == **offset));
            assert_eq!(left.len(), n_data.count(), "{name} cut at {len}");
            // The cut is between two streams, so nothing is missing.
            let is_between = matches!((name, len), ("two-producers", 1992) | ("agg-rows", 1976));
            assert!(said.len() > 2 || is_between, "{name} cut at {len}: nothing is said");
        }
    }
    // For the other samples: a cut file gives no record that the whole file does not have.
    for name in names() {
        let whole = bytes(&name);
        if whole.len() >= 5000 {
            continue;
        }
        let in_whole: BTreeSet<String> = read(&whole).0.into_values().flatten().collect();
        for len in 0..whole.len() {
            for line in read(&whole[..len]).0.into_values().flatten() {
                assert!(in_whole.contains(&line), "{name} cut at {len}: {line}");
            }
        }
    }
}

#[test]
fn a_frame_that_is_taken_out_is_missed() {
    for name in names() {
        let whole = bytes(&name);
        let (_, said) = read(&whole);
        let all = frames(&whole);
        if all.last().is_none_or(|last| last.header.kind != kind::END) {
            continue;
        }
        // Not the first frame: without it, a stream looks as if it was joined later.
        for frame in &all[1..] {
            let rest = [&whole[..frame.offset as usize], &whole[frame.end() as usize..]].concat();
            let (_, says) = read(&rest);
            assert_ne!(says, said, "{name} without the frame at {}", frame.offset);
        }
    }
}

#[test]
fn frames_that_come_twice_or_in_another_order_are_used_once() {
    let whole = bytes("minimal");
    let (records, _) = read(&whole);
    let lines = |records: BTreeMap<u64, Vec<String>>| {
        let mut lines: Vec<String> = records.into_values().flatten().collect();
        lines.sort();
        lines
    };
    let wanted = lines(records);
    let all = frames(&whole);
    let cut = |frame: &FrameAt| whole[frame.offset as usize..frame.end() as usize].to_vec();
    for i in 0..all.len() {
        let mut parts: Vec<Vec<u8>> = all.iter().map(cut).collect();
        parts.insert(i, parts[i].clone());
        let (records, said) = read(&parts.concat());
        assert_eq!(lines(records), wanted, "frame {i} twice");
        assert!(said.contains(&"1 duplicates".to_owned()), "{said:?}");
        if i > 0 {
            let mut parts: Vec<Vec<u8>> = all.iter().map(cut).collect();
            parts.swap(i - 1, i);
            assert_eq!(lines(read(&parts.concat()).0), wanted, "frames {i} and before swapped");
        }
    }
}

#[test]
fn producers_may_follow_each_other_in_any_order() {
    let (first, second) = (bytes("two-producers"), bytes("agg-rows"));
    let split = 1992;
    let parts = [&first[..split], &first[split..]];
    let sorted = |bytes: &[u8]| {
        let mut lines: Vec<String> = read(bytes).0.into_values().flatten().collect();
        lines.sort();
        lines
    };
    let wanted = sorted(&first);
    assert_eq!(wanted.len(), 8);
    let swapped = [parts[1], parts[0]].concat();
    assert_eq!(sorted(&swapped), wanted);
    assert_eq!(summary_of(&swapped)["findings"], Value::Array(Vec::new()));
    assert_eq!(
        summary_of(&second)["merged"],
        summary_of(&[&second[1976..], &second[..1976]].concat())["merged"]
    );
}

#[test]
fn ranges_of_bytes_side_by_side_find_the_frames_of_one_walk() {
    let mut files: Vec<Vec<u8>> =
        ["minimal", "header-damaged", "two-producers", "appended-after-crash", "open-frames"]
            .iter()
            .map(|name| bytes(name))
            .collect();
    let mut torn = bytes("minimal");
    torn.truncate(1700);
    torn.extend_from_slice(&bytes("two-producers"));
    files.push(torn);
    for whole in files {
        let wanted = frames(&whole);
        let end = whole.len() as u64;
        for cut in 0..=end {
            let mut there = frames_of(&whole, Scanner::over(0..cut));
            there.extend(frames_of(&whole, Scanner::over(cut..end)));
            assert_eq!(there, wanted, "cut at {cut}");
        }
        for n in [3, 7, 50] {
            let bounds: Vec<u64> = (0..=n).map(|i| end * i / n).collect();
            let there: Vec<FrameAt> = bounds
                .windows(2)
                .flat_map(|pair| frames_of(&whole, Scanner::over(pair[0]..pair[1])))
                .collect();
            assert_eq!(there, wanted, "{n} parts");
        }
    }
}

#[test]
fn what_is_no_stream_says_only_that() {
    for bytes in [&b""[..], b"no stream at all", &[0; 64], &bytes("minimal")[..50]] {
        assert_eq!(read(bytes).1, ["no-frames", "0 duplicates", "0 bytes never written"]);
    }
}

#[test]
fn a_critical_frame_that_is_not_known_stops_reading() {
    let mut whole = bytes("unknown-kinds");
    let frame = frames(&whole)[1];
    let mut header = frame.header;
    header.flags |= quipu_stream::frame::flag::CRITICAL;
    whole[520..520 + 96].copy_from_slice(&header.to_bytes());
    let (records, said) = read(&whole);
    assert!(records.is_empty());
    assert_eq!(said[0], "needs-newer-program offset=520");
    assert_eq!(said.len(), 3, "{said:?}");
}

/// Offset of the frame with the damaged payload in `payload-bitflip`.
const FLIPPED: u64 = 864;

#[test]
fn a_later_copy_of_a_damaged_frame_is_used_in_its_place() {
    let whole = bytes("minimal");
    let all = frames(&whole);
    let data = all.iter().find(|frame| frame.header.kind == kind::DATA).unwrap();
    let copy = whole[data.offset as usize..data.end() as usize].to_vec();
    let lines = |records: BTreeMap<u64, Vec<String>>| {
        let mut lines: Vec<String> = records.into_values().flatten().collect();
        lines.sort();
        lines
    };
    let (records, said) = read(&whole);
    let wanted = lines(records);
    let mut twice = [&whole[..data.end() as usize], &copy[..], &whole[data.end() as usize..]].concat();
    twice[data.payload_at() as usize] ^= 1;
    for is_once in [false, true] {
        let (records, says) = read_with(&twice, is_once);
        assert_eq!(lines(records), wanted, "once: {is_once}");
        let names: Vec<&str> = says.iter().filter_map(|line| line.split(' ').next()).collect();
        for name in ["payload-crc", "late-frame"] {
            assert!(names.contains(&name), "once: {is_once}: {says:?}");
        }
        assert!(says.contains(&"0 duplicates".to_owned()), "{says:?}");
    }
    assert_eq!(said.last(), read(&twice).1.last());
}

#[test]
fn two_workers_decode_what_one_reader_does() {
    for name in
        ["minimal", "all-types", "two-producers", "stride-runs", "payload-bitflip", "joined-midstream"]
    {
        let whole = bytes(name);
        let mut reader = StreamReader::new(&whole[..]);
        let frames = reader.data_frames().unwrap();
        let session = reader.session();
        let lines_of = |half: usize| {
            let mut worker = quipu_stream::work::Worker::default();
            let mut lines = BTreeMap::new();
            for frame in frames.iter().skip(half).step_by(2) {
                let metadata = session.metadata(&frame.header);
                let mut of_frame = Vec::new();
                let work = worker.rows(frame, &mut &whole[..], &metadata, |batch| {
                    for (rows, row) in batch.in_order() {
                        let values: Vec<_> = rows
                            .columns
                            .iter()
                            .map(|column| quipu_stream::datum::of_column(column, row))
                            .collect();
                        of_frame.push(format!("{} {} {values:?}", rows.schema.name(), rows.times[row]));
                    }
                });
                let damaged = name == "payload-bitflip" && frame.offset == FLIPPED;
                assert_eq!(work.unwrap().is_damaged, damaged, "{name}: the frame at {}", frame.offset);
                lines.insert(frame.offset, of_frame);
            }
            lines
        };
        let mut both = std::thread::scope(|scope| {
            let other = scope.spawn(|| lines_of(1));
            let mut lines = lines_of(0);
            lines.append(&mut other.join().unwrap());
            lines
        });
        let (wanted, _) = read(&whole);
        both.retain(|offset, _| wanted.contains_key(offset));
        both.values_mut().for_each(|lines| lines.shrink_to_fit());
        assert_eq!(both, wanted, "{name}");
    }
}
