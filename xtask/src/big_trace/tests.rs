//! The repeated trace obeys the format: every entry is checked against the rules, independently of the code that wrote it.

use super::*;
use std::io::{Cursor, Read};

/// Splits an archive member or a plain file into entries.
fn entries(bytes: &[u8]) -> Vec<Entry> {
    let (entries, rest) = bytes.as_chunks::<12>();
    assert!(rest.is_empty());
    entries.iter().map(|bytes| Entry(*bytes)).collect()
}

/// The members of an archive, found by their local headers.
fn members(archive: &[u8]) -> Vec<Vec<Entry>> {
    let u32_at = |at: usize| u32::from_le_bytes(archive[at..at + 4].try_into().unwrap()) as usize;
    let mut members = Vec::new();
    let mut at = 0;
    while archive[at..].starts_with(b"PK\x03\x04") {
        let data = at + 30 + usize::from(archive[at + 26]);
        let packed = u32_at(at + 18);
        let mut bytes = Vec::new();
        flate2::read::DeflateDecoder::new(&archive[data..data + packed]).read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len(), u32_at(at + 22));
        members.push(entries(&bytes));
        at = data + packed;
    }
    members
}

fn template() -> Template {
    Template::read(&fs::read(crate::root().join(TEMPLATE)).unwrap()).unwrap()
}

fn is_marker(entry: &Entry, kind: u16) -> bool {
    entry.kind() == template::MARKER && entry.size() == kind
}

fn is_counted(entry: &Entry) -> bool {
    Step { entry: *entry, target: None, code: None }.counts()
}

const CHUNK: u64 = 50_000;

/// Writes an archive of more than two repetitions; returns its members and the writer's counts.
fn archive() -> (Vec<Vec<Entry>>, Written) {
    let template = template();
    let mut bytes = Cursor::new(Vec::new());
    let out = Out::Zip(Box::new(ZipWriter::new(&mut bytes)));
    let written = Repeater::new(&template, out, CHUNK, 3).run(500_000).unwrap();
    (members(&bytes.into_inner()), written)
}

#[test]
fn chunks_hold_exactly_their_instructions_and_state_their_ordinals() {
    let (members, written) = archive();
    assert_eq!(members.len() as u64, written.chunks);
    assert_eq!(members.iter().map(Vec::len).sum::<usize>() as u64, written.entries);
    let mut records = 0;
    for (i, member) in members.iter().enumerate() {
        let last = i + 1 == members.len();
        let instrs = member.iter().filter(|entry| is_counted(entry)).count() as u64;
        assert!(if last { instrs <= CHUNK } else { instrs == CHUNK }, "chunk {i}: {instrs}");
        let mut seen = member.as_slice();
        if i > 0 {
            assert_eq!(seen[0], marker(template::RECORD_ORDINAL, records));
            assert!(is_marker(&seen[1], TIMESTAMP) && is_marker(&seen[2], CPU_ID));
            let before = members[..i].iter().flatten();
            assert_eq!(before.clone().rfind(|entry| is_marker(entry, TIMESTAMP)), Some(&seen[1]));
            assert_eq!(before.clone().rfind(|entry| is_marker(entry, CPU_ID)), Some(&seen[2]));
            seen = &seen[3..];
        }
        records += seen.iter().filter(|entry| entry.is_record()).count() as u64;
        if last {
            assert_eq!(member.last().map(Entry::kind), Some(template::FOOTER));
        } else {
            assert_eq!(*member.last().unwrap(), marker(template::CHUNK_FOOTER, i as u64));
        }
    }
    assert_eq!(records, written.records);
}

#[test]
fn each_chunk_has_the_encodings_of_its_own_instructions() {
    let (members, _) = archive();
    for member in &members {
        let mut known = std::collections::HashSet::new();
        let mut pending = 0;
        for entry in member {
            if entry.kind() == 47 {
                pending += entry.size();
            } else if is_counted(entry) {
                assert!(pending == 0 || pending == entry.size());
                let given = known.insert(entry.value());
                assert!(!given || pending > 0, "no encoding for {:#x}", entry.value());
                pending = 0;
            }
        }
    }
}

#[test]
fn time_goes_up() {
    let (members, _) = archive();
    let clocks: Vec<u64> =
        members.iter().flatten().filter(|entry| is_marker(entry, TIMESTAMP)).map(Entry::value).collect();
    assert!(clocks.len() > 500);
    assert!(clocks.is_sorted());
}

#[test]
fn bare_entries_are_those_of_the_archive_without_what_chunks_add() {
    let template = template();
    let mut bytes = Cursor::new(Vec::new());
    let written = Repeater::new(&template, Out::Plain(&mut bytes), CHUNK, 0).run(300_000).unwrap();
    let entries = entries(&bytes.into_inner());
    assert_eq!(entries.len() as u64, written.entries);
    assert_eq!(entries.iter().filter(|entry| entry.is_record()).count() as u64, written.records);
    assert!(!entries.iter().any(|entry| is_marker(entry, template::CHUNK_FOOTER)));
    assert_eq!(entries.iter().filter(|entry| is_counted(entry)).count() as u64, written.instrs);
}

#[test]
fn one_repetition_is_the_template_itself_up_to_its_last_instruction() {
    let path = crate::root().join(TEMPLATE);
    let original = members(&fs::read(path).unwrap()).concat();
    let template = template();
    let mut bytes = Cursor::new(Vec::new());
    Repeater::new(&template, Out::Plain(&mut bytes), 10_000_000, 0).run(200_000).unwrap();
    let ours = entries(&bytes.into_inner());
    let same = ours.len() - 2;
    assert!(ours[..same] == original[..same]);
}
