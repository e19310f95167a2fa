//! Producers in threads of the test: the events that arrive, with their fields, names and clocks.

use super::{Keep, Order, SMALL, connect, folders, on_processor, when_ended};
use proptest::prelude::*;
use quipu_prism::Detail;
use quipu_prism::delivery::producer::{self, Encoding, Options, Put, Refused};
use quipu_prism::delivery::receiver::{End, Receiver, Wish};
use quipu_prism::event::{
    Compute, Config, Context, Control, Event, Kind, Memory, Name, Place, Sync, context, sync,
};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

fn options(encoding: Encoding) -> Options {
    Options { encoding, ..Options::default() }
}

fn receiver(asked: Detail) -> (tempfile::TempDir, Receiver) {
    let base = tempfile::tempdir().unwrap();
    let receiver = Receiver::create_in(base.path(), SMALL, asked).unwrap();
    (base, receiver)
}

#[test]
fn events_of_all_kinds_arrive_with_the_fields_that_were_asked_for() {
    for encoding in [Encoding::Fixed, Encoding::Variable] {
        let (_base, mut receiver) = receiver(Detail { memory: 0xe0, compute: 0xb0, ..Detail::ALL });
        let connection = connect(&receiver);
        let mut writer =
            connection.writer(Options { thread: Some(7), clocks: true, ..options(encoding) }).unwrap();
        assert_eq!(writer.fields()[..2], [0xe0, 0xb0], "no ids and no width");
        let main = connection.intern(b"main").unwrap();
        let compute = producer::Compute { format: 2, width: 3, operation: 3, n_arguments: 2, ids: &[1, 2] };
        let control =
            producer::Control { kind: 3, taken: Some(true), indirect: true, target: Some(0x40_1000) };
        let puts = [
            writer.memory(1, 4, 0x7fff_0000_1234, 9),
            writer.compute(&compute),
            writer.control(&control),
            writer.sync(sync::SWAP, 8, 0),
            writer.sync(sync::WAIT, 0x10, 0x20),
            writer.context(context::INSTRUCTION, 0x40_1000),
            writer.context_number(context::ENTER, main),
            writer.context_name(context::ENTER, b"inline"),
            writer.context_number(context::EXIT, main),
        ];
        assert!(puts.iter().all(|put| *put == Put::Taken), "{puts:?}");
        writer.set_clock(77);
        assert_eq!(writer.memory(2, 8, 0x1000, 0), Put::Taken);
        writer.close();
        let mut keep = Keep::default();
        let outcome = receiver.run(&mut keep, &mut when_ended(1)).unwrap();
        let named = |kind| Event::Context(Context { kind, place: Place::Name(Name::default()) });
        let memory = |access, size, address| {
            let (access, size, address) = (Some(access), Some(size), Some(address));
            Event::Memory(Memory { access, size, address, id: None })
        };
        let compute =
            Compute { format: Some(2), width: None, operation: Some(3), arguments: Some(2), ids: None };
        let (taken, indirect) = (Some(true), Some(true));
        let control = Control { kind: Some(3), taken, indirect, target: Some(0x40_1000) };
        let place = Place::Address(0x40_1000);
        let expected: [(Option<u64>, Event, &[u8]); 10] = [
            (Some(7), memory(1, 4, 0x7fff_0000_1234), b""),
            (Some(7), Event::Compute(compute), b""),
            (Some(7), Event::Control(control), b""),
            (Some(8), Event::Sync(Sync { kind: sync::SWAP, data: 8, second: None }), b""),
            (Some(8), Event::Sync(Sync { kind: sync::WAIT, data: 0x10, second: Some(0x20) }), b""),
            (Some(8), Event::Context(Context { kind: context::INSTRUCTION, place }), b""),
            (Some(8), named(context::ENTER), b"main"),
            (Some(8), named(context::ENTER), b"inline"),
            (Some(8), named(context::EXIT), b"main"),
            (Some(8), memory(2, 8, 0x1000), b""),
        ];
        assert_eq!(keep.events.len(), expected.len());
        for (n, (found, (thread, event, name))) in keep.events.iter().zip(expected).enumerate() {
            let clock = if n == 9 { 77 } else { 0 };
            assert_eq!(*found, (thread, n as u64, Some(clock), event, name.to_vec()), "{encoding:?}");
        }
        let producer = &outcome.producers[0];
        assert_eq!((producer.encoding, producer.thread, producer.n_events), (Some(encoding), 7, 10));
        assert_eq!(producer.detail.memory, 0xe0);
        assert_eq!(producer.missing, Detail::NONE);
        assert_eq!((&producer.end, producer.n_dropped), (&End::Left, 0));
    }
}

#[test]
fn a_producer_that_lacks_fields_says_so() {
    let (_base, mut receiver) = receiver(Detail::COMMUNICATION);
    let connection = connect(&receiver);
    let can = [0xc0, 0, 0, 0, 0];
    let mut writer = connection.writer(Options { can, ..Options::default() }).unwrap();
    assert_eq!(writer.memory(1, 4, 0x1000, 0), Put::Taken);
    writer.close();
    let mut keep = Keep::default();
    let outcome = receiver.run(&mut keep, &mut when_ended(1)).unwrap();
    let missing = Detail { memory: Detail::ADDRESS, compute: 0x80, ..Detail::NONE };
    assert_eq!(outcome.producers[0].missing, missing);
    let memory = Memory { access: Some(1), size: Some(4), address: None, id: None };
    assert_eq!(keep.events[0].3, Event::Memory(memory));
}

#[test]
fn the_level_of_detail_changes_in_the_variable_encoding() {
    let (_base, mut receiver) = receiver(Detail::ALL);
    let connection = connect(&receiver);
    let mut writer = connection.writer(options(Encoding::Variable)).unwrap();
    assert_eq!(writer.configure(0, 0x20), Put::Taken);
    assert_eq!(writer.memory(1, 3, 0x1000, 5), Put::Taken);
    writer.close();
    let mut fixed = connection.writer(options(Encoding::Fixed)).unwrap();
    assert_eq!(fixed.configure(0, 0x20), Put::NoRoom);
    fixed.close();
    let mut keep = Keep::default();
    let outcome = receiver.run(&mut keep, &mut when_ended(2)).unwrap();
    let memory = Memory { address: Some(0x1000), ..Memory::default() };
    assert_eq!(keep.events[0].3, Event::Config(Config { kind: Kind::Memory, fields: 0x20 }));
    assert_eq!(keep.events[1].3, Event::Memory(memory));
    assert_eq!(outcome.producers.iter().map(|producer| producer.n_dropped).sum::<u64>(), 1);
}

#[test]
fn names_of_the_heap_that_the_encoding_has_no_room_for_cost_nothing_else() {
    for (encoding, taken) in [(Encoding::Variable, &[1, 256][..]), (Encoding::Fixed, &[0, 1, 256, 257, 4095])]
    {
        let (_base, mut receiver) = receiver(Detail::ALL);
        let connection = connect(&receiver);
        let mut writer = connection.writer(options(encoding)).unwrap();
        for len in [0, 1, 256, 257, 4095] {
            let number = connection.intern(&vec![b'n'; len]).unwrap();
            let expected = if taken.contains(&len) { Put::Taken } else { Put::NoRoom };
            assert_eq!(writer.context_number(context::ENTER, number), expected, "{encoding:?} {len}");
        }
        assert_eq!(writer.memory(1, 4, 0, 0), Put::Taken);
        writer.close();
        let mut keep = Keep::default();
        let outcome = receiver.run(&mut keep, &mut when_ended(1)).unwrap();
        assert_eq!(outcome.producers[0].end, End::Left);
        assert_eq!(outcome.producers[0].n_dropped, 5 - taken.len() as u64);
        assert_eq!(keep.events.len(), taken.len() + 1);
    }
}

#[test]
fn fields_that_were_not_asked_for_are_not_configured() {
    let (_base, mut receiver) = receiver(Detail { memory: 0xc0, ..Detail::ALL });
    let connection = connect(&receiver);
    let mut writer = connection.writer(options(Encoding::Variable)).unwrap();
    assert_eq!(writer.configure(0, 0xe0), Put::Taken);
    assert_eq!(writer.memory(1, 4, 0x1000, 0), Put::Taken);
    writer.close();
    let mut keep = Keep::default();
    receiver.run(&mut keep, &mut when_ended(1)).unwrap();
    let memory = Memory { access: Some(1), size: Some(4), address: None, id: None };
    assert_eq!(keep.events[1].3, Event::Memory(memory));
}

#[test]
fn events_that_an_encoding_has_no_room_for_are_refused_and_counted() {
    let (_base, mut receiver) = receiver(Detail::ALL);
    let connection = connect(&receiver);
    let mut writer = connection.writer(options(Encoding::Variable)).unwrap();
    let compute =
        |width, n_arguments| producer::Compute { format: 1, width, operation: 1, n_arguments, ids: &[1] };
    let puts = [
        writer.memory(1, 10, 0, 0),
        writer.memory(1, 8, 1 << 56, 0),
        writer.compute(&compute(3, 1)),
        writer.compute(&compute(4, 0)),
        writer.compute(&compute(4, 2)),
        writer.context_name(context::ENTER, b""),
        writer.context_name(context::ENTER, &[b'x'; 257]),
        writer.context_name(context::INSTRUCTION, b"main"),
        writer.context(context::ENTER, 1),
        writer.context_number(context::ENTER, 0),
        writer.sync(32, 0, 0),
    ];
    assert!(puts.iter().all(|put| *put == Put::NoRoom), "{puts:?}");
    assert_eq!(writer.compute(&compute(4, 1)), Put::Taken);
    assert_eq!(writer.n_dropped(), 11);
    writer.close();
    let mut keep = Keep::default();
    let outcome = receiver.run(&mut keep, &mut when_ended(1)).unwrap();
    assert_eq!((keep.events.len(), outcome.producers[0].n_dropped), (1, 11));
}

#[test]
fn a_receiver_that_stalls_makes_producers_wait_and_loses_nothing() {
    let (_base, mut receiver) = receiver(Detail::COMMUNICATION);
    let connection = connect(&receiver);
    let mut order = Order { stall: Some((4, Duration::from_millis(150))), ..Order::default() };
    std::thread::scope(|scope| {
        for encoding in [Encoding::Fixed, Encoding::Variable] {
            let connection = &connection;
            scope.spawn(move || {
                let mut writer = connection.writer(options(encoding)).unwrap();
                assert!((0..50_000).all(|n| writer.memory(2, 8, n, 0) == Put::Taken));
                let me = format!("self/task/{}", quipu_ring::life::thread_id());
                // Far less than the stall, so the thread slept.
                assert!(on_processor(&me) < 400_000_000, "{}", on_processor(&me));
            });
        }
        let outcome = receiver.run(&mut order, &mut when_ended(2)).unwrap();
        assert!(super::all_left(&outcome), "{outcome:?}");
    });
    assert_eq!(order.next, [(1, 50_000), (2, 50_000)].into());
}

#[test]
fn a_receiver_without_work_sleeps() {
    let (_base, mut receiver) = receiver(Detail::ALL);
    let connection = connect(&receiver);
    let writer = connection.writer(Options::default()).unwrap();
    let me = format!("self/task/{}", quipu_ring::life::thread_id());
    let (begun, before) = (Instant::now(), on_processor(&me));
    let mut wish = |_| if begun.elapsed() < Duration::from_millis(1500) { Wish::Wait } else { Wish::End };
    let outcome = receiver.run(&mut Keep::default(), &mut wish).unwrap();
    assert!(on_processor(&me) - before < 150_000_000, "{}", on_processor(&me) - before);
    assert_eq!(outcome.producers[0].end, End::Open);
    drop(writer);
}

#[test]
fn a_sink_that_stops_lets_producers_go_on_and_count() {
    /// Stops at once.
    struct Stops;
    impl quipu_prism::Hooks for Stops {
        fn on_memory(&mut self, _: quipu_prism::batch::At, _: &Memory) -> quipu_prism::Result<()> {
            Err(quipu_prism::Error::Stop("enough".to_owned()))
        }
    }
    let (_base, mut receiver) = receiver(Detail::COMMUNICATION);
    let connection = connect(&receiver);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut writer = connection.writer(Options::default()).unwrap();
            let n_taken = (0..1_000_000).filter(|n| writer.memory(2, 8, *n, 0) == Put::Taken).count();
            writer.flush();
            // Events of the current chunk count as dropped after they were taken.
            assert!(n_taken as u64 + writer.n_dropped() >= 1_000_000 && writer.n_dropped() > 900_000);
        });
        let error = receiver.run(&mut Stops, &mut when_ended(1)).unwrap_err();
        assert_eq!(error.to_string(), "enough");
        sender.join().unwrap();
    });
    assert!(matches!(connection.writer(Options::default()), Err(Refused::NoRing)));
}

#[test]
fn the_folder_is_private_and_goes_with_its_receiver() {
    let (base, receiver) = receiver(Detail::ALL);
    assert_eq!(folders(base.path()), [receiver.folder()]);
    assert_eq!(receiver.folder().metadata().unwrap().mode() & 0o777, 0o700);
    assert_eq!(receiver.path().metadata().unwrap().mode() & 0o777, 0o600);
    drop(receiver);
    assert!(folders(base.path()).is_empty());
}

#[test]
fn more_producers_than_rings_are_refused_and_counted() {
    let (_base, mut receiver) = receiver(Detail::ALL);
    let connection = connect(&receiver);
    let writers: Vec<_> = (0..16).map(|_| connection.writer(Options::default()).unwrap()).collect();
    assert!(matches!(connection.writer(Options::default()), Err(Refused::NoRing)));
    drop(writers);
    let outcome = receiver.run(&mut Keep::default(), &mut when_ended(16)).unwrap();
    assert_eq!((outcome.producers.len(), outcome.n_refused), (16, 1));
}

#[derive(Clone, Debug)]
enum Sent {
    Memory(u8, u16, u64, u8),
    Compute(u8, u16, u8, Vec<u8>),
    Control(u8, Option<bool>, bool, Option<u64>),
    Sync(u8, u64, u64),
    Context(u8, u64),
    Name(u8, String),
    Interned(u8, String),
}

fn sent() -> impl Strategy<Value = Sent> {
    let size = (0_u32..8).prop_map(|log| 1_u16 << log);
    let address = 0_u64..1 << 56;
    let named = prop_oneof![3_u8..5, 6_u8..10];
    let name = "[a-z]{1,200}";
    prop_oneof![
        (0_u8..4, size.clone(), address.clone(), any::<u8>())
            .prop_map(|(a, b, c, d)| Sent::Memory(a, b, c, d)),
        (0_u8..4, size, 0_u8..64, proptest::collection::vec(any::<u8>(), 1..5))
            .prop_map(|(a, b, c, d)| Sent::Compute(a, b, c, d)),
        (0_u8..5, any::<bool>(), any::<bool>(), proptest::option::of(0_u64..(1 << 56) - 1))
            .prop_map(|(a, b, c, d)| Sent::Control(a, Some(b), c, d)),
        (any::<bool>(), address.clone()).prop_map(|(a, b)| Sent::Control(2, None, a, Some(b >> 1))),
        (0_u8..32, any::<u64>(), any::<u64>()).prop_map(|(a, b, c)| Sent::Sync(a, b, c)),
        (prop_oneof![Just(1_u8), Just(2), Just(5)], address).prop_map(|(a, b)| Sent::Context(a, b)),
        (named.clone(), name).prop_map(|(a, b)| Sent::Name(a, b)),
        (named, name).prop_map(|(a, b)| Sent::Interned(a, b)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// All sent events arrive, with the requested fields, for any level of detail and both encodings.
    #[test]
    fn all_that_is_sent_arrives(
        all in proptest::collection::vec(sent(), 1..300),
        memory in 0_u8..16,
        compute in 0_u8..32,
        control in 0_u8..16,
        is_fixed in any::<bool>(),
    ) {
        let detail = Detail { memory: memory << 4, compute: compute << 3, control: control << 4, ..Detail::NONE };
        let base = tempfile::tempdir().unwrap();
        // All events fit into the ring, because they are sent before any is read.
        let shape = quipu_ring::Shape { ring_words: 1 << 14, ..SMALL };
        let mut receiver = Receiver::create_in(base.path(), shape, detail).unwrap();
        let connection = connect(&receiver);
        let encoding = if is_fixed { Encoding::Fixed } else { Encoding::Variable };
        let mut writer = connection.writer(options(encoding)).unwrap();
        let mut expected = Vec::new();
        let on = |fields: u8, field: u8| fields & field != 0;
        for sent in &all {
            let (put, event, name) = match sent {
                Sent::Memory(access, size, address, id) => {
                    let fields = detail.memory;
                    (writer.memory(*access, *size, *address, *id), Event::Memory(Memory {
                        access: on(fields, 0x80).then_some(*access),
                        size: on(fields, 0x40).then_some(*size),
                        address: on(fields, 0x20).then_some(*address),
                        id: (on(fields, 0x10) && !is_fixed).then_some(*id),
                    }), "")
                }
                Sent::Compute(format, width, operation, ids) => {
                    let fields = detail.compute;
                    let n_arguments = ids.len() as u8;
                    let compute = producer::Compute {
                        format: *format, width: *width, operation: *operation, n_arguments, ids,
                    };
                    let mut padded = [0; 4];
                    padded[..ids.len()].copy_from_slice(ids);
                    (writer.compute(&compute), Event::Compute(Compute {
                        format: on(fields, 0x80).then_some(*format),
                        width: on(fields, 0x40).then_some(*width),
                        operation: on(fields, 0x20).then_some(*operation),
                        arguments: on(fields, 0x10).then_some(n_arguments),
                        ids: (on(fields, 0x10) && on(fields, 0x08) && !is_fixed).then_some(padded),
                    }), "")
                }
                Sent::Control(kind, taken, indirect, target) => {
                    let fields = detail.control;
                    let (kind, taken, indirect, target) = (*kind, *taken, *indirect, *target);
                    (writer.control(&producer::Control { kind, taken, indirect, target }), Event::Control(Control {
                        kind: on(fields, 0x80).then_some(kind),
                        taken: taken.filter(|_| on(fields, 0x40)),
                        indirect: on(fields, 0x10).then_some(indirect),
                        target: target.filter(|_| on(fields, 0x20)),
                    }), "")
                }
                Sent::Sync(kind, data, second) => {
                    let wait = (*kind == sync::WAIT).then_some(*second);
                    let event = Event::Sync(Sync { kind: *kind, data: *data, second: wait });
                    (writer.sync(*kind, *data, *second), event, "")
                }
                Sent::Context(kind, address) => {
                    let place = Place::Address(*address);
                    (writer.context(*kind, *address), Event::Context(Context { kind: *kind, place }), "")
                }
                Sent::Name(kind, name) | Sent::Interned(kind, name) => {
                    let place = Place::Name(Name::default());
                    let put = match (sent, connection.intern(name.as_bytes())) {
                        (Sent::Interned(..), Some(number)) => writer.context_number(*kind, number),
                        _ => writer.context_name(*kind, name.as_bytes()),
                    };
                    (put, Event::Context(Context { kind: *kind, place }), name.as_str())
                }
            };
            prop_assert_eq!(put, Put::Taken);
            expected.push((event, name.as_bytes().to_vec()));
        }
        writer.close();
        let mut keep = Keep::default();
        let outcome = receiver.run(&mut keep, &mut when_ended(1)).unwrap();
        prop_assert_eq!(&outcome.producers[0].end, &End::Left);
        let found: Vec<_> = keep.events.into_iter().map(|(_, _, _, event, name)| (event, name)).collect();
        prop_assert_eq!(found, expected);
    }
}

/// Sends an event of each kind, except a swap.
fn send_all(writer: &mut producer::Writer<'_>) -> Vec<(Kind, Put)> {
    let compute = producer::Compute { format: 1, width: 8, operation: 1, n_arguments: 2, ids: &[1, 2] };
    let control = producer::Control { kind: 2, taken: None, indirect: false, target: None };
    vec![
        (Kind::Memory, writer.memory(1, 8, 0x1000, 1)),
        (Kind::Compute, writer.compute(&compute)),
        (Kind::Control, writer.control(&control)),
        (Kind::Context, writer.context(context::INSTRUCTION, 0x40_1000)),
        (Kind::Context, writer.context_name(context::ENTER, b"main")),
        (Kind::Sync, writer.sync(sync::LOCK, 0x10, 0)),
    ]
}

#[test]
fn kinds_that_are_not_asked_for_are_not_sent_but_swaps_are() {
    const KINDS: [Kind; 5] = [Kind::Memory, Kind::Compute, Kind::Control, Kind::Sync, Kind::Context];
    for encoding in [Encoding::Fixed, Encoding::Variable] {
        for off in 0..1_u32 << KINDS.len() {
            let is_off =
                |kind: Kind| KINDS.iter().position(|known| *known == kind).is_some_and(|n| off >> n & 1 == 1);
            let asked = KINDS.into_iter().filter(|kind| is_off(*kind)).fold(Detail::ALL, Detail::without);
            let (_base, mut receiver) = receiver(asked);
            let connection = connect(&receiver);
            // The fields that the front end can provide do not matter for this.
            let can = [0xf0, 0xf8, 0xf0, 0, 0];
            let mut writer = connection.writer(Options { can, ..options(encoding) }).unwrap();
            for (kind, put) in send_all(&mut writer) {
                assert_eq!(
                    put,
                    if is_off(kind) { Put::Unasked } else { Put::Taken },
                    "{kind:?} of {off:05b}"
                );
            }
            assert_eq!(writer.sync(sync::SWAP, 5, 0), Put::Taken);
            assert_eq!(writer.n_dropped(), 0);
            writer.close();
            let mut keep = Keep::default();
            let outcome = receiver.run(&mut keep, &mut when_ended(1)).unwrap();
            let producer = &outcome.producers[0];
            assert_eq!((&producer.end, producer.n_dropped, producer.n_unknown), (&End::Left, 0, 0));
            let n_expected = 7 - off.count_ones() - u32::from(is_off(Kind::Context));
            assert_eq!(producer.n_events, u64::from(n_expected), "{off:05b}");
            assert!(keep.events.iter().all(|(.., event, _)| asked.wants(event)), "{off:05b}");
            let missing = producer.missing;
            assert_eq!([missing.memory & 1, missing.compute & 1, missing.sync, missing.context], [0; 4]);
        }
    }
}

#[test]
fn a_kind_is_off_for_a_run_where_no_tool_wants_it() {
    let one = Detail::COMMUNICATION.without(Kind::Control).without(Kind::Sync);
    let other = Detail::ALL.without(Kind::Control).without(Kind::Memory);
    let both = Detail::NOTHING.with(one).with(other);
    assert_eq!(both, Detail { memory: 0xe0, compute: 0xf8, control: Detail::OFF, sync: 0, context: 0 });
}

#[test]
fn events_of_unknown_types_are_counted_for_their_producer() {
    let (_base, mut receiver) = receiver(Detail::ALL);
    let connection = connect(&receiver);
    let mut writer = connection.writer(options(Encoding::Fixed)).unwrap();
    let puts = [
        writer.sync(31, 1, 0),
        writer.memory(4, 8, 16, 0),
        writer.context(77, 1),
        writer.sync(sync::LOCK, 1, 0),
    ];
    assert_eq!(puts, [Put::Taken; 4]);
    writer.close();
    let outcome = receiver.run(&mut Keep::default(), &mut when_ended(1)).unwrap();
    assert_eq!((outcome.producers[0].n_events, outcome.producers[0].n_unknown), (4, 3));
}
