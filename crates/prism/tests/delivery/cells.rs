//! Cells of instrumented programs, sent by hand. SPEC: prism.md#cells.

use super::{Keep, SMALL, when_ended};
use quipu_cells::cell::{LOW, access, kind, sync as done};
use quipu_prism::Detail;
use quipu_prism::delivery::producer::{
    CELLS, CHUNK_HEAD_WORDS, ChunkHead, Encoding, KIND_EVENTS, OFF, PROTOCOL, SETTLED, Said, Terms,
};
use quipu_prism::delivery::receiver::{End, Outcome, Receiver};
use quipu_prism::event::{Event, Kind, context, sync};
use quipu_ring::{Claim, Producer, Shared};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

/// Words of cells.
type Cells = Vec<u64>;

fn head(kind: u8, n_following: u64, value: u64) -> u64 {
    u64::from(kind) << 56 | n_following << 48 | value
}

fn synchronized(what: u64, stamp: u64, object: u64, value: u64) -> Cells {
    vec![head(kind::SYNC, 2, object), 0x40, stamp, what, value, 0]
}

fn write(addr: u64, pc: u64) -> Cells {
    vec![u64::from(access::WRITE | 3) << 48 | addr, pc]
}

/// Publishes whole events as a chunk.
fn publish(producer: &mut Producer<'_>, events: &[Cells]) {
    let cells = events.concat();
    let head = ChunkHead {
        kind: KIND_EVENTS,
        flags: 0,
        n_events: events.len() as u32,
        event_bytes: 8 * cells.len() as u32,
        name_bytes: 0,
        n_references: 0,
    };
    let mut words = vec![0; CHUNK_HEAD_WORDS];
    words.extend_from_slice(&cells);
    let n_words = words.len();
    words[..2].copy_from_slice(&head.pack(n_words));
    assert!(producer.push_group(&words));
}

/// A receiver, and its memory as producers map it.
fn delivery(asked: Detail) -> (tempfile::TempDir, Receiver, Shared) {
    let base = tempfile::tempdir().unwrap();
    let receiver = Receiver::create_in(base.path(), SMALL, asked).unwrap();
    let path = CString::new(receiver.path().as_os_str().as_bytes()).unwrap();
    (base, receiver, Shared::open(&path).unwrap())
}

/// Thread `tid` of this process as a producer of cells of `program`.
fn claim(shared: &Shared, tid: u32, program: u64) -> Producer<'_> {
    let asked = Terms::unpack(shared.note()[0]);
    assert!(asked.encodings & CELLS != 0);
    let [memory, _, _, sync, context] = asked.fields;
    let terms = Terms { version: PROTOCOL, encodings: CELLS, fields: [memory, OFF, OFF, sync, context] };
    let note = Said { terms, thread: program }.pack();
    Producer::claim_for(shared, &Claim { pid: 1 << 20, tid, note, ..Claim::default() }).unwrap()
}

/// The events of a run, without places.
fn run(receiver: &mut Receiver, n: usize) -> (Vec<(Option<u64>, Event)>, Outcome) {
    let mut keep = Keep::default();
    let outcome = receiver.run(&mut keep, &mut when_ended(n)).unwrap();
    (keep.events.into_iter().map(|(thread, _, _, event, _)| (thread, event)).collect(), outcome)
}

/// The threads that did something other than begin, with their locks and writes, in the order of events.
fn story(events: &[(Option<u64>, Event)]) -> Vec<(u64, String)> {
    let told = |(thread, event): &(Option<u64>, Event)| {
        let text = match event {
            Event::Memory(memory) => format!("{:x}", memory.address?),
            Event::Sync(done) if done.kind == sync::LOCK => "lock".to_owned(),
            Event::Sync(done) if done.kind == sync::UNLOCK => "unlock".to_owned(),
            _ => return None,
        };
        Some(((*thread)?, text))
    };
    events.iter().filter_map(told).collect()
}

#[test]
fn cells_of_threads_become_events_in_the_order_of_their_stamps() {
    let (_base, mut receiver, shared) = delivery(Detail::ALL);
    // The thread that is created has the lower slot, and what it did is published first.
    let mut created = claim(&shared, 2, 7);
    let mut first = claim(&shared, 1, 7);
    publish(
        &mut created,
        &[
            synchronized(done::START, 3, 0xabc0, 1),
            write(0x2000, 0x44),
            synchronized(done::LOCK, 5, 0x9000, 0),
            write(0x1000, 0x45),
            synchronized(done::END, 6, 0xabc0, 0),
        ],
    );
    publish(
        &mut first,
        &[
            synchronized(done::START, 1, 0xdef0, 0),
            synchronized(done::CREATE, 2, 0, 1),
            write(0x1000, 0x46),
            synchronized(done::UNLOCK, 4, 0x9000, 0),
            synchronized(done::JOIN, 7, 0xabc0, 0),
            write(0x3000, 0x47),
        ],
    );
    // A thread of another program has stamps of its own.
    let mut other = claim(&shared, 1, 8);
    publish(&mut other, &[synchronized(done::START, 1, 0xdef0, 0), write(0x8000, 0x50)]);
    for producer in [created, first, other] {
        producer.leave();
    }
    let (events, outcome) = run(&mut receiver, 3);
    let expected =
        [(2, "2000"), (1, "1000"), (1, "unlock"), (2, "lock"), (2, "1000"), (1, "3000"), (3, "8000")];
    let told = story(&events);
    // An access without a stamp before it may come earlier.
    let of_locks: Vec<_> = told.iter().filter(|(_, text)| !["2000", "8000"].contains(&&**text)).collect();
    let expected: Vec<(u64, String)> =
        expected.iter().map(|(thread, text)| (*thread, (*text).to_owned())).collect();
    let expected_of_locks: Vec<_> =
        expected.iter().filter(|(_, text)| !["2000", "8000"].contains(&&**text)).collect();
    assert_eq!(of_locks, expected_of_locks, "{told:?}");
    assert_eq!(told.len(), expected.len(), "{told:?}");
    let syncs = |kind: u8| -> Vec<u64> {
        let of = |(_, event): &(Option<u64>, Event)| match event {
            Event::Sync(sync) if sync.kind == kind => Some(sync.data),
            _ => None,
        };
        events.iter().filter_map(of).collect()
    };
    // The creation and the join name the number of the creation.
    assert_eq!((syncs(sync::CREATE), syncs(sync::JOIN)), (vec![1], vec![1]));
    let threads = |(_, event): &(Option<u64>, Event)| matches!(event, Event::Context(context) if context.kind == context::THREAD);
    assert_eq!(events.iter().filter(|event| threads(event)).count(), 3);
    assert!(outcome.producers.iter().all(|producer| producer.end == End::Left));
    let mut threads: Vec<u64> = outcome.producers.iter().map(|producer| producer.thread).collect();
    threads.sort_unstable();
    assert_eq!(threads, [1, 2, 3]);
    let n_events: u64 = outcome.producers.iter().map(|producer| producer.n_events).sum();
    assert_eq!(n_events, events.len() as u64);
}

#[test]
fn kinds_that_cells_do_not_have_are_absent_and_not_missing() {
    let asked = Detail { memory: Detail::TYPE, compute: Detail::TYPE, ..Detail::NONE }.without(Kind::Context);
    let (_base, mut receiver, shared) = delivery(asked);
    let mut producer = claim(&shared, 1, 7);
    let entered = vec![head(kind::ENTER, 0, 0x99), 0x40];
    publish(&mut producer, &[synchronized(done::START, 1, 0xdef0, 0), entered, write(0x1000, 0x44)]);
    producer.leave();
    let (events, outcome) = run(&mut receiver, 1);
    let memory = Event::Memory(quipu_prism::event::Memory { access: Some(2), ..Default::default() });
    assert_eq!(events[1..], [(Some(1), memory)], "{events:?}");
    let producer = &outcome.producers[0];
    assert_eq!((producer.encoding, producer.missing), (None::<Encoding>, Detail::NONE));
    assert_eq!(producer.absent(asked).collect::<Vec<_>>(), [Kind::Compute, Kind::Control]);
}

#[test]
fn a_thread_that_has_sent_all_may_end_without_leaving() {
    for settles in [false, true] {
        let (_base, mut receiver, shared) = delivery(Detail::ALL);
        let mut producer = claim(&shared, 1, 7);
        publish(&mut producer, &[synchronized(done::START, 1, 0xdef0, 0)]);
        if settles {
            producer.set_note(SETTLED, producer.position());
        }
        // No process has the number that it claims to have.
        let (_, outcome) = run(&mut receiver, 1);
        assert_eq!(outcome.producers[0].end, if settles { End::Left } else { End::Died });
    }
}

#[test]
fn a_side_with_other_bits_is_read_without_them() {
    let (_base, mut receiver, shared) = delivery(Detail::ALL);
    let mut producer = claim(&shared, 1, 7);
    let mut odd = write(0x1000, 0x44);
    odd[1] |= !LOW;
    publish(&mut producer, &[odd]);
    producer.leave();
    let (events, _) = run(&mut receiver, 1);
    let place = quipu_prism::event::Place::Address(0x44);
    assert!(
        events.iter().any(|(_, event)| matches!(event, Event::Context(context) if context.place == place))
    );
}
