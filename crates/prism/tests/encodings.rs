//! Both encodings: bytes, round trips for every level of detail, faults.

use crate::samples::sample;
use proptest::prelude::*;
use quipu_prism::batch::Batch;
use quipu_prism::event::{
    Compute, Config, Context, Control, Event, Kind, Memory, Place, Sync, context, sync,
};
use quipu_prism::fault::{Fault, Wrong};
use quipu_prism::variable::{Dialect, MAX_EVENT_BYTES};
use quipu_prism::{Detail, convert, dump, fixed, variable};

/// All events of a stream, each with its name, and the fault that ends it.
fn decode_variable(bytes: &[u8], detail: Detail) -> (Vec<(Event, Vec<u8>)>, Option<Fault>) {
    let mut decoder = variable::Decoder::new(detail, Dialect::Strict);
    let (mut all, mut batch, mut used) = (Vec::new(), Batch::default(), 0);
    while used < bytes.len() {
        match decoder.decode(&bytes[used..], &mut batch) {
            Ok(progress) => {
                assert!(progress.used > 0);
                used += progress.used;
                all.extend(named(&batch));
                if progress.has_ended {
                    break;
                }
            }
            Err(fault) => return (all, Some(fault)),
        }
    }
    (all, None)
}

/// Events with their names, so that events of different batches can be compared.
fn named(batch: &Batch) -> Vec<(Event, Vec<u8>)> {
    let mut all = Vec::new();
    for event in &batch.events {
        let name = match event {
            Event::Context(Context { kind, place: Place::Name(name) }) => {
                let anonymous = Context { kind: *kind, place: Place::Name(Default::default()) };
                all.push((Event::Context(anonymous), batch.name(*name).to_vec()));
                continue;
            }
            _ => Vec::new(),
        };
        all.push((*event, name));
    }
    all
}

fn decode_dump(bytes: &[u8], detail: Detail) -> Vec<(Event, Vec<u8>)> {
    let mut reader = dump::Reader::new(bytes, detail);
    let (mut all, mut batch) = (Vec::new(), Batch::default());
    while reader.read(&mut batch).unwrap() {
        let swaps = batch.events.iter().skip(1).filter_map(Event::swap);
        assert!(swaps.into_iter().all(|thread| Some(thread) == batch.thread), "a batch holds one thread");
        all.extend(named(&batch));
    }
    all
}

/// Makes a batch of named events.
fn batch_of(events: &[(Event, Vec<u8>)]) -> Batch {
    let mut batch = Batch::default();
    for (event, name) in events {
        let event = match event {
            Event::Context(Context { kind, place: Place::Name(_) }) => {
                let place = Place::Name(batch.add_name(name));
                Event::Context(Context { kind: *kind, place })
            }
            other => *other,
        };
        batch.events.push(event);
    }
    batch
}

#[test]
fn the_vector_is_read_and_written_to_the_byte() {
    let bytes = sample("variable/vector-75.bin").unwrap();
    let (events, fault) = decode_variable(&bytes, Detail::NONE);
    assert_eq!(fault, None);
    let expected = [
        Event::Config(Config { kind: Kind::Memory, fields: 0xf0 }),
        Event::Config(Config { kind: Kind::Compute, fields: 0xf8 }),
        Event::Memory(Memory {
            access: Some(2),
            size: Some(2),
            address: Some(0xad_beef_baad_f00d),
            id: Some(12),
        }),
        Event::Compute(Compute {
            format: Some(1),
            width: Some(16),
            operation: Some(3),
            arguments: Some(2),
            ids: Some([12, 111, 0, 0]),
        }),
        Event::Sync(Sync { kind: sync::CREATE, data: 101, second: None }),
        Event::Context(Context { kind: context::ENTER, place: Place::Name(Default::default()) }),
        Event::Context(Context { kind: context::BLOCK, place: Place::Address(333) }),
        Event::Context(Context { kind: context::INSTRUCTION, place: Place::Address(111) }),
        Event::Config(Config { kind: Kind::Memory, fields: 0xd0 }),
        Event::Memory(Memory { access: Some(1), size: Some(16), address: None, id: Some(90) }),
    ];
    assert_eq!(events.iter().map(|(event, _)| *event).collect::<Vec<_>>(), expected);
    assert_eq!(events[5].1, b"aCoolFunctionBeingProfiled");
    let batch = batch_of(&events);
    let mut encoder = variable::Encoder::agreed(Detail::NONE);
    batch.events.iter().for_each(|event| encoder.put(event, &batch).unwrap());
    encoder.end();
    assert_eq!(encoder.out, bytes);
}

fn detail() -> impl Strategy<Value = Detail> {
    (0..16u8, 0..32u8, 0..16u8).prop_map(|(memory, compute, control)| Detail {
        memory: memory << 4,
        compute: compute << 3,
        control: control << 4,
        sync: 0,
        context: 0,
    })
}

/// An event with exactly the fields of a level of detail, in the range of both encodings.
fn event(detail: Detail) -> impl Strategy<Value = (Event, Vec<u8>)> {
    let of = |fields: u8, field: u8| fields & field != 0;
    let address = 0..1u64 << 56;
    let memory =
        (0..4u8, 0..8u32, address.clone(), any::<u8>()).prop_map(move |(access, size, address, id)| {
            let event = Event::Memory(Memory {
                access: of(detail.memory, Detail::TYPE).then_some(access),
                size: of(detail.memory, Detail::SIZE).then_some(1 << size),
                address: of(detail.memory, Detail::ADDRESS).then_some(address),
                id: of(detail.memory, Detail::ID).then_some(id),
            });
            (event, Vec::new())
        });
    let compute = (0..4u8, 0..8u32, 0..64u8, 1..5u8, any::<[u8; 4]>()).prop_map(
        move |(format, width, operation, count, mut ids)| {
            ids[usize::from(count)..].fill(0);
            let has_arity = of(detail.compute, Detail::ARITY);
            let event = Event::Compute(Compute {
                format: of(detail.compute, Detail::TYPE).then_some(format),
                width: of(detail.compute, Detail::SIZE).then_some(1 << width),
                operation: of(detail.compute, Detail::OPERATION).then_some(operation),
                arguments: has_arity.then_some(count),
                ids: (has_arity && of(detail.compute, Detail::IDS)).then_some(ids),
            });
            (event, Vec::new())
        },
    );
    // In the variable encoding, the largest address stands for an unknown target, and type 5 for a branch of unknown outcome.
    let kinds = prop_oneof![0..5u8, 6..8u8];
    let targets = prop::option::of(0..(1u64 << 56) - 1);
    let control = (kinds, prop::option::of(any::<bool>()), any::<bool>(), targets).prop_map(
        move |(kind, taken, indirect, target)| {
            let has_type = of(detail.control, Detail::TYPE);
            let may_be_blind = !has_type || kind == 2;
            let taken = if may_be_blind { taken } else { Some(taken.unwrap_or(true)) };
            let event = Event::Control(Control {
                kind: has_type.then_some(kind),
                taken: taken.filter(|_| of(detail.control, Detail::TAKEN)),
                indirect: of(detail.control, Detail::INDIRECT).then_some(indirect),
                target: target.filter(|_| of(detail.control, Detail::TARGET)),
            });
            (event, Vec::new())
        },
    );
    let sync = (0..32u8, any::<u64>(), any::<u64>()).prop_map(|(kind, data, second)| {
        let second = (kind == sync::WAIT).then_some(second);
        (Event::Sync(Sync { kind, data, second }), Vec::new())
    });
    let place = (prop_oneof![Just(1u8), Just(2), Just(5)], address).prop_map(|(kind, address)| {
        (Event::Context(Context { kind, place: Place::Address(address) }), Vec::new())
    });
    let name = (prop_oneof![Just(3u8), Just(4), 6..10u8], prop::collection::vec(any::<u8>(), 1..=256))
        .prop_map(|(kind, name)| {
            (Event::Context(Context { kind, place: Place::Name(Default::default()) }), name)
        });
    prop_oneof![memory, compute, control, sync, place, name]
}

fn stream() -> impl Strategy<Value = (Detail, Vec<(Event, Vec<u8>)>)> {
    detail().prop_flat_map(|detail| (Just(detail), prop::collection::vec(event(detail), 0..60)))
}

fn written(events: &[(Event, Vec<u8>)], detail: Detail) -> Vec<u8> {
    let batch = batch_of(events);
    let mut encoder = variable::Encoder::agreed(detail);
    for event in &batch.events {
        let before = encoder.out.len();
        encoder.put(event, &batch).unwrap();
        assert!((1..=MAX_EVENT_BYTES).contains(&(encoder.out.len() - before)));
    }
    encoder.end();
    encoder.out
}

/// Every level of detail that changes a length or makes a field absent.
#[test]
fn every_level_of_detail_is_read_as_it_was_written() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for number in 0..1u32 << 13 {
        let byte = |shift: u32, bits: u32| (number >> shift & ((1 << bits) - 1)) as u8;
        let detail = Detail {
            memory: byte(0, 4) << 4,
            compute: byte(4, 5) << 3,
            control: byte(9, 4) << 4,
            sync: 0,
            context: 0,
        };
        let events: Vec<_> = (0..6).map(|_| event(detail).new_tree(&mut runner).unwrap().current()).collect();
        let bytes = written(&events, detail);
        assert_eq!(decode_variable(&bytes, detail), (events, None), "{detail:?}");
    }
}

proptest! {
    #[test]
    fn variable_events_are_read_as_they_were_written((detail, events) in stream()) {
        let bytes = written(&events, detail);
        prop_assert_eq!(decode_variable(&bytes, detail), (events, None));
    }

    #[test]
    fn a_stream_may_change_its_detail_at_any_point(
        parts in prop::collection::vec(stream(), 1..5),
    ) {
        let mut all = Vec::new();
        for (detail, events) in parts {
            all.extend(detail.events().map(|config| (Event::Config(config), Vec::new())));
            all.extend(events);
        }
        let bytes = written(&all, Detail::ALL);
        prop_assert_eq!(decode_variable(&bytes, Detail::SIGRIND), (all, None));
    }

    #[test]
    fn conversion_to_fixed_and_back_loses_nothing((detail, events) in stream()) {
        let detail = Detail { memory: detail.memory & !Detail::ID, compute: detail.compute & !Detail::IDS, ..detail };
        let events: Vec<_> = events.into_iter().map(|(event, name)| (match event {
            Event::Memory(memory) => Event::Memory(Memory { id: None, ..memory }),
            Event::Compute(compute) => Event::Compute(Compute { ids: None, ..compute }),
            other => other,
        }, name)).collect();
        let batch = batch_of(&events);
        let mut encoder = variable::Encoder::stored(detail);
        batch.events.iter().for_each(|event| encoder.put(event, &batch).unwrap());
        encoder.end();
        let (fixed, fields) = convert::to_fixed(&encoder.out, Detail::NONE, Dialect::Strict).unwrap();
        if !events.is_empty() {
            prop_assert_eq!(fields, detail);
            prop_assert_eq!(decode_dump(&fixed, fields), events);
            prop_assert_eq!(convert::to_variable(&fixed, fields).unwrap(), encoder.out);
        }
    }

    #[test]
    fn any_bytes_end_with_events_or_a_fault_within_them(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let (_, fault) = decode_variable(&bytes, Detail::ALL);
        prop_assert!(fault.is_none_or(|fault| fault.offset < bytes.len() as u64));
        let mut reader = dump::Reader::new(&bytes, Detail::FIXED);
        let mut batch = Batch::default();
        for _ in 0..bytes.len() {
            match reader.read(&mut batch) {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => prop_assert!(fault.offset <= bytes.len() as u64),
            }
        }
    }

    #[test]
    fn any_slots_are_read_or_refused(
        slots in prop::collection::vec(any::<[u8; 18]>(), 1..20),
        names in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut bytes = Vec::new();
        let events = slots.concat();
        dump::Buffer { events: &events, names: &names }.write(&mut bytes);
        let mut reader = dump::Reader::new(&bytes, Detail::FIXED);
        let mut batch = Batch::default();
        let mut seen = 0;
        loop {
            match reader.read(&mut batch) {
                Ok(true) => seen += batch.events.len(),
                Ok(false) => break,
                Err(_) => seen += 1,
            }
        }
        prop_assert_eq!(seen, slots.len());
    }
}

#[test]
fn faults_say_where_they_are() {
    let fault = |bytes: &[u8]| decode_variable(bytes, Detail::SIGRIND).1;
    let at = |offset, what| Some(Fault { offset, what });
    let instruction = [0x61, 1, 2, 3, 4, 5, 6, 7];
    let after = |bytes: &[u8]| [&instruction, bytes].concat();
    assert_eq!(fault(&after(&[0xe3])), at(8, Wrong::UnknownKind(7)));
    assert_eq!(fault(&after(&[0x6a, 0, 0, 0, 0, 0, 0, 0])), at(8, Wrong::UnknownContext(10)));
    assert_eq!(fault(&after(&[0xb8, 0])), at(8, Wrong::UnknownConfig(6)));
    assert_eq!(fault(&after(&[0x63, 4, b'a'])), at(8, Wrong::Truncated));
    assert_eq!(fault(&after(&[0x61, 1])), at(8, Wrong::Truncated));
    assert_eq!(fault(&after(&[0xc1, 0xff, 0xff])), None);

    let mut bytes = Vec::new();
    let mut slot = [0u8; 18];
    (slot[0], slot[1], slot[2], slot[6]) = (4, context::ENTER, 1, 3);
    let swap = [5, sync::SWAP, 7, 0, 0, 0, 0, 0, 0, 0, 0xaa, 0xbb, 0, 0, 0, 0, 0, 0];
    dump::Buffer { events: &[swap, slot, swap].concat(), names: b"ab\0" }.write(&mut bytes);
    let mut reader = dump::Reader::new(&bytes, Detail::VALGRIND);
    let mut batch = Batch::default();
    assert!(reader.read(&mut batch).unwrap());
    assert_eq!((batch.thread, batch.events.len()), (Some(7), 1));
    let beyond = Wrong::NameBeyond { index: 1, len: 3, used: 3 };
    assert_eq!(reader.read(&mut batch), Err(Fault { offset: 34, what: beyond }));
    assert!(reader.read(&mut batch).unwrap());
    assert_eq!((batch.first, batch.events.len()), (2, 1));
    assert!(!reader.read(&mut batch).unwrap());

    let mut huge = vec![0; 16];
    huge[2] = 1;
    let refused = dump::Reader::new(&huge, Detail::VALGRIND).read(&mut batch);
    assert_eq!(refused, Err(Fault { offset: 0, what: Wrong::TooManyEvents(65536) }));
}

#[test]
fn what_an_encoding_has_no_room_for_is_refused() {
    let batch = Batch::default();
    let put = |event: Event, detail| variable::Encoder::agreed(detail).put(&event, &batch);
    let memory = Memory { access: Some(1), size: Some(8), address: Some(1), id: None };
    assert_eq!(put(Event::Memory(memory), Detail::SIGRIND), Ok(()));
    let ten = Memory { size: Some(10), ..memory };
    assert_eq!(put(Event::Memory(ten), Detail::SIGRIND), Err(Wrong::NoSize(10)));
    let high = Memory { address: Some(1 << 56), ..memory };
    assert_eq!(
        put(Event::Memory(high), Detail::SIGRIND),
        Err(Wrong::NoRoom("an address of more than 56 bits"))
    );
    assert_eq!(put(Event::Memory(memory), Detail::ALL), Err(Wrong::Missing("id")));
    assert_eq!(put(Event::Memory(memory), Detail::NONE), Err(Wrong::NoRoom("type")));
    let mut fixed = fixed::Encoder::new(Detail::VALGRIND);
    let config = Event::Config(Config { kind: Kind::Memory, fields: 0 });
    assert_eq!(fixed.put(&config, &batch), Err(Wrong::NoRoom("configuration events")));
}

#[test]
fn a_sample_is_converted_and_back() {
    let bytes = sample("fixed/threads.full.fixed18").unwrap();
    let stream = convert::to_variable(&bytes, Detail::VALGRIND).unwrap();
    let (again, fields) = convert::to_fixed(&stream, Detail::NONE, Dialect::Strict).unwrap();
    assert_eq!(fields, Detail::VALGRIND);
    assert!(decode_dump(&again, fields) == decode_dump(&bytes, Detail::VALGRIND));
    assert!(stream.len() < bytes.len() / 2);
}
