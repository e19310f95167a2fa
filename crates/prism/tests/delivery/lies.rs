//! Producers that violate the protocol, and files that are truncated: errors with their place, and never a crash.

use super::{Keep, SMALL, connect};
use proptest::prelude::*;
use quipu_prism::batch::Batch;
use quipu_prism::delivery::fault::Place;
use quipu_prism::delivery::producer::{ChunkHead, Connection, Encoding, KIND_EVENTS, Options, Put};
use quipu_prism::delivery::receiver::{End, Outcome, Receiver, Wish};
use quipu_prism::delivery::{Fault, Wrong};
use quipu_prism::hooks::Sink;
use quipu_prism::{Detail, Error, Result, fault};
use quipu_ring::{BadGroup, BadName};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Offset of the head of the first slot.
const SLOT: u64 = 4096;
const NOTE: u64 = SLOT + 80;
const TAIL: u64 = SLOT + 128;
/// Offset of the first ring, after 16 heads of slots.
const RING: u64 = 12_288;

fn file(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

fn put(file: &File, at: u64, words: &[u64]) {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    file.write_all_at(&bytes, at).unwrap();
}

/// Publishes `tail` words that begin with `words`, and returns the receiver's result.
fn published(encoding: Encoding, words: &[u64], tail: u64) -> (Keep, Outcome) {
    let base = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::create_in(base.path(), SMALL, Detail::ALL).unwrap();
    let connection = connect(&receiver);
    let writer = connection.writer(Options { encoding, ..Options::default() }).unwrap();
    let file = file(receiver.path());
    put(&file, RING, words);
    put(&file, TAIL, &[tail]);
    let mut keep = Keep::default();
    let outcome = receiver.run(&mut keep, &mut |_| Wish::End).unwrap();
    // The writer's own state no longer agrees with the ring.
    std::mem::forget(writer);
    (keep, outcome)
}

/// The words of a chunk with the right length in its head, with events and the rest.
fn chunk(head: ChunkHead, events: &[u8], rest: &[u64]) -> Vec<u64> {
    let mut words = vec![0; 3];
    for bytes in events.chunks(8) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        words.push(u64::from_ne_bytes(word));
    }
    words.extend(rest);
    let n_words = words.len();
    words[..2].copy_from_slice(&head.pack(n_words));
    words
}

fn head(n_events: u32, event_bytes: u32) -> ChunkHead {
    ChunkHead { kind: KIND_EVENTS, flags: 0, n_events, event_bytes, name_bytes: 0, n_references: 0 }
}

fn check(encoding: Encoding, words: &[u64], what: Wrong) {
    check_tail(encoding, words, words.len() as u64, what);
}

fn check_tail(encoding: Encoding, words: &[u64], tail: u64, what: Wrong) {
    let (_, outcome) = published(encoding, words, tail);
    let expected = End::Wrong(Fault { place: Place::Ring { ring: 0, word: 0 }, what });
    assert_eq!(outcome.producers[0].end, expected);
}

#[test]
fn sizes_that_cannot_be_are_errors() {
    let variable = Encoding::Variable;
    let published = BadGroup::Published { n_words: 1 << 40, room: 1 << 13 };
    check_tail(variable, &[], 1 << 40, Wrong::Group(published));
    let length = BadGroup::Length { n_words: 101, n_published: 5 };
    check_tail(variable, &[100], 5, Wrong::Group(length));
    let length = BadGroup::Length { n_words: 5000, n_published: 8000 };
    check_tail(variable, &[4999], 8000, Wrong::Group(length));
    check(variable, &chunk(ChunkHead { kind: 9, ..head(0, 0) }, &[], &[]), Wrong::UnknownChunk(9));
    check(
        variable,
        &chunk(ChunkHead { kind: 9, ..head(0, 0) }, &[], &[])[..1],
        Wrong::Group(BadGroup::Length { n_words: 3, n_published: 1 }),
    );
    check(variable, &[0], Wrong::ChunkLength { announced: 0, found: 1 });
    let words = chunk(head(1, 1 << 30), &[0; 8], &[]);
    check(variable, &words, Wrong::ChunkLength { announced: 3 + (1 << 27), found: 4 });
    let head = ChunkHead { n_references: 3, name_bytes: 9, flags: 1, ..head(2, 9) };
    check(variable, &chunk(head, &[0; 8], &[]), Wrong::ChunkLength { announced: 12, found: 4 });
}

#[test]
fn events_that_are_wrong_are_errors_with_their_offset() {
    let event = |offset, what| Wrong::Event(fault::Fault { offset, what });
    let block = [0x62, 0x4d, 1, 0, 0, 0, 0, 0];
    let unknown = [&block[..], &[0xe0]].concat();
    check(Encoding::Variable, &chunk(head(2, 9), &unknown, &[]), event(8, fault::Wrong::UnknownKind(7)));
    check(Encoding::Variable, &chunk(head(1, 7), &block[..7], &[]), event(0, fault::Wrong::Truncated));
    let words = chunk(head(2, 8), &block, &[]);
    check(Encoding::Variable, &words, Wrong::EventCount { announced: 2, found: 1 });
    let mut named = [0; 18];
    (named[0], named[1], named[2], named[6]) = (4, 3, 7, 5);
    let beyond = fault::Wrong::NameBeyond { index: 7, len: 5, used: 0 };
    check(Encoding::Fixed, &chunk(head(1, 18), &named, &[]), event(0, beyond));
    check(Encoding::Fixed, &chunk(head(1, 17), &named[..17], &[]), event(0, fault::Wrong::Truncated));
}

#[test]
fn references_to_no_name_are_errors() {
    let head = |n_events, event_bytes| ChunkHead { n_references: 1, ..head(n_events, event_bytes) };
    let name = |number| Wrong::Name { number, why: BadName::Number { n_words: 0 } };
    let context = [0x63, 0, 0];
    check(Encoding::Variable, &chunk(head(1, 3), &context, &[99]), name(99));
    check(Encoding::Variable, &chunk(head(1, 3), &context, &[1 << 32 | 1]), Wrong::Reference { at: 1 });
    check(Encoding::Variable, &chunk(head(1, 3), &context, &[u64::MAX]), Wrong::Reference { at: u32::MAX });
    let mut slot = [0; 18];
    slot[0] = 4;
    check(Encoding::Fixed, &chunk(head(1, 18), &slot, &[99]), name(99));
    check(Encoding::Fixed, &chunk(head(1, 18), &slot, &[1 << 32]), Wrong::Reference { at: 1 });
    check(Encoding::Fixed, &chunk(head(1, 18), &slot, &[18 << 32]), Wrong::Reference { at: 18 });
}

#[test]
fn what_came_before_is_delivered_and_other_producers_are_not_concerned() {
    let base = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::create_in(base.path(), SMALL, Detail::ALL).unwrap();
    let connection = connect(&receiver);
    let liar = connection.writer(Options::default()).unwrap();
    let block = [0x62, 0x4d, 1, 0, 0, 0, 0, 0];
    let mut words = chunk(head(1, 8), &block, &[]);
    words.extend(chunk(ChunkHead { kind: 3, ..head(0, 0) }, &[], &[]));
    put(&file(receiver.path()), RING, &words);
    put(&file(receiver.path()), TAIL, &[words.len() as u64]);
    let mut honest = connection.writer(Options::default()).unwrap();
    assert_eq!(honest.memory(1, 4, 0x1000, 0), Put::Taken);
    honest.close();
    let mut keep = Keep::default();
    let outcome = receiver.run(&mut keep, &mut |_| Wish::End).unwrap();
    assert_eq!(keep.events.len(), 2);
    let ends: Vec<_> =
        outcome.producers.iter().map(|producer| (producer.ring, producer.end.clone())).collect();
    let wrong = Fault { place: Place::Ring { ring: 0, word: 4 }, what: Wrong::UnknownChunk(3) };
    assert_eq!(wrong.to_string(), "ring 0, word 0x4: a chunk of the unknown kind 3");
    assert!(ends.contains(&(0, End::Wrong(wrong))) && ends.contains(&(1, End::Left)), "{ends:?}");
    std::mem::forget(liar);
}

#[test]
fn producers_of_other_versions_and_encodings_are_refused() {
    for (terms, what) in [
        (2_u64 << 48 | 2 << 40, Wrong::Version(2)),
        (1 << 48 | 8 << 40, Wrong::Encoding(8)),
        (1 << 48, Wrong::Encoding(0)),
    ] {
        let base = tempfile::tempdir().unwrap();
        let mut receiver = Receiver::create_in(base.path(), SMALL, Detail::ALL).unwrap();
        let connection = connect(&receiver);
        let mut writer = connection.writer(Options::default()).unwrap();
        put(&file(receiver.path()), NOTE, &[terms]);
        assert_eq!(writer.memory(1, 4, 0x1000, 0), Put::Taken);
        writer.close();
        let mut keep = Keep::default();
        let outcome = receiver.run(&mut keep, &mut super::when_ended(1)).unwrap();
        let expected = End::Wrong(Fault { place: Place::Ring { ring: 0, word: 0 }, what });
        assert_eq!((&outcome.producers[0].end, keep.events.len()), (&expected, 0));
    }
}

#[test]
fn a_receiver_of_another_version_is_refused() {
    let base = tempfile::tempdir().unwrap();
    let receiver = Receiver::create_in(base.path(), SMALL, Detail::ALL).unwrap();
    let path = std::ffi::CString::new(receiver.path().to_str().unwrap()).unwrap();
    let refused = || Connection::open(&path).unwrap_err().to_string();
    put(&file(receiver.path()), 48, &[2 << 48 | 3 << 40]);
    assert_eq!(refused(), "the recorder speaks version 2 of the protocol, this producer 1");
    put(&file(receiver.path()), 48, &[1 << 48 | 1 << 40]);
    let connection = Connection::open(&path).unwrap();
    let refusal = connection.writer(Options::default()).unwrap_err().to_string();
    assert_eq!(refusal, "the recorder does not take the encoding Variable");
    put(&file(receiver.path()), 8, &[5 | 16 << 32]);
    assert_eq!(refused(), "no shared memory of this version");
}

/// Truncates the file at the first batch.
struct Cuts<'a>(&'a File);

impl Sink for Cuts<'_> {
    fn detail(&self) -> Detail {
        Detail::ALL
    }

    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn take(&mut self, _: &Batch) -> Result<()> {
        self.0.set_len(RING).unwrap();
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_file_that_is_cut_is_an_error() {
    for (len, begins) in [(Some(0), true), (Some(4096), true), (Some(RING), true), (None, false)] {
        let base = tempfile::tempdir().unwrap();
        let mut receiver = Receiver::create_in(base.path(), SMALL, Detail::ALL).unwrap();
        let connection = connect(&receiver);
        let mut writer = connection.writer(Options::default()).unwrap();
        for _ in 0..2 {
            assert_eq!(writer.memory(1, 4, 0x1000, 0), Put::Taken);
            assert!(writer.flush());
        }
        let file = file(receiver.path());
        if let Some(len) = len {
            file.set_len(len).unwrap();
        }
        // This process maps the memory twice; its writer must not touch it any more.
        std::mem::forget(writer);
        let mut cuts = Cuts(&file);
        let error = receiver.run(&mut cuts, &mut |_| Wish::Drain).unwrap_err();
        let place = Place::File(receiver.path().to_owned());
        let Error::Other(cause) = &error else { panic!("{error}") };
        assert_eq!(cause.downcast_ref(), Some(&Fault { place, what: Wrong::Cut }), "{begins}");
        assert!(error.to_string().ends_with("/events: the file was cut while it was mapped"), "{error}");
    }
}

#[test]
fn rings_that_killed_producers_claimed_are_free_again() {
    let base = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::create_in(base.path(), SMALL, Detail::ALL).unwrap();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let file = file(receiver.path());
    for slot in 0..16 {
        file.write_all_at(&(pid << 2 | 1).to_ne_bytes(), SLOT + 384 * slot).unwrap();
    }
    let connection = connect(&receiver);
    assert!(connection.writer(Options::default()).is_err(), "all are claimed");
    let (mut keep, mut has_sent) = (Keep::default(), false);
    let mut wish = |_| {
        if has_sent {
            return Wish::Drain;
        }
        if let Ok(mut writer) = connection.writer(Options::default()) {
            assert_eq!(writer.memory(1, 4, 0, 0), Put::Taken);
            writer.close();
            has_sent = true;
        }
        Wish::Wait
    };
    let outcome = receiver.run(&mut keep, &mut wish).unwrap();
    assert_eq!((outcome.producers.len(), outcome.producers[0].end.clone()), (1, End::Left));
    assert_eq!(keep.events.len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_published_is_events_or_an_error(
        heads in proptest::collection::vec((0_u64..40, 0_u8..3, 0_u8..2, 0_u32..9, 0_u32..80, 0_u16..20, 0_u16..3), 1..8),
        words in proptest::collection::vec(prop_oneof![any::<u64>(), 0_u64..256], 400),
        is_fixed in any::<bool>(),
        tail in prop_oneof![0_u64..400, any::<u64>()],
    ) {
        let mut words = words;
        let mut at = 0;
        for (n_words, kind, flags, n_events, event_bytes, name_bytes, n_references) in heads {
            let head = ChunkHead { kind, flags, n_events, event_bytes, name_bytes, n_references };
            // Mostly right lengths.
            let n = if n_words < 30 { head.n_words() } else { n_words as usize };
            words[at..at + 2].copy_from_slice(&head.pack(n));
            at += n;
            if at + 2 > words.len() {
                break;
            }
        }
        let encoding = if is_fixed { Encoding::Fixed } else { Encoding::Variable };
        let (keep, outcome) = published(encoding, &words, tail);
        prop_assert_eq!(keep.events.len() as u64, outcome.producers[0].n_events);
    }
}
