//! SigilClassic on events with known communication.

use quipu_prism::Detail;
use quipu_prism::batch::Batch;
use quipu_prism::event::{Compute, Context, Event, Memory, Place, Sync, access, context, sync};
use quipu_prism::hooks::{Sink, run_dump};
use quipu_prism::sigilclassic::{Bytes, SigilClassic};

/// A step of a test's program.
#[derive(Clone, Copy)]
enum Do {
    Swap(u64),
    Enter(&'static str),
    Exit(&'static str),
    Load(u64, u16),
    Store(u64, u16),
    Add,
}

fn run(steps: &[Do]) -> SigilClassic {
    let mut classic = SigilClassic::default();
    classic.start().unwrap();
    let mut batch = Batch::default();
    let access = |kind, address, size| {
        Event::Memory(Memory { access: Some(kind), size: Some(size), address: Some(address), id: None })
    };
    for step in steps {
        let event = match *step {
            Do::Swap(thread) => {
                classic.take(&batch).unwrap();
                batch.clear();
                batch.thread = Some(thread);
                Event::Sync(Sync { kind: sync::SWAP, data: thread, second: None })
            }
            Do::Enter(name) => Event::Context(Context {
                kind: context::ENTER,
                place: Place::Name(batch.add_name(name.as_bytes())),
            }),
            Do::Exit(name) => Event::Context(Context {
                kind: context::EXIT,
                place: Place::Name(batch.add_name(name.as_bytes())),
            }),
            Do::Load(address, size) => access(access::LOAD, address, size),
            Do::Store(address, size) => access(access::STORE, address, size),
            Do::Add => Event::Compute(Compute { format: Some(1), ..Compute::default() }),
        };
        batch.events.push(event);
    }
    classic.take(&batch).unwrap();
    classic.finish().unwrap();
    classic
}

fn edges(classic: &SigilClassic) -> Vec<(String, String, u64, u64)> {
    let name = |entity: &quipu_prism::sigilclassic::Entity| {
        format!("{}:{}", entity.thread.unwrap_or(0), String::from_utf8_lossy(&entity.function))
    };
    classic
        .edges()
        .map(|(writer, reader, bytes)| {
            (writer.map_or("-".to_owned(), name), name(reader), bytes.unique, bytes.again)
        })
        .collect()
}

#[test]
fn bytes_go_from_the_function_that_wrote_them_to_those_that_read_them() {
    use Do::*;
    let classic = run(&[
        Swap(1),
        Enter("main"),
        Enter("produce"),
        Store(0x100, 8),
        Load(0x100, 4),
        Add,
        Exit("produce"),
        Enter("consume"),
        Load(0x100, 8),
        Load(0x104, 8),
        Exit("consume"),
        Load(0x100, 8),
        Exit("main"),
    ]);
    let edge = |from: &str, to: &str, unique, again| (from.to_owned(), to.to_owned(), unique, again);
    assert_eq!(
        edges(&classic),
        [
            edge("1:produce", "1:main", 8, 0),
            edge("1:produce", "1:consume", 8, 4),
            edge("-", "1:consume", 4, 0),
        ]
    );
    let produce = classic.entities().iter().find(|entity| entity.function == b"produce").unwrap();
    assert_eq!((produce.calls, produce.iops), (1, 1));
    assert_eq!(produce.local, Bytes { unique: 4, again: 0 });
    assert_eq!(produce.written, Bytes { unique: 8, again: 0 });
    let consume = classic.entities().iter().find(|entity| entity.function == b"consume").unwrap();
    assert_eq!(consume.input, Bytes { unique: 12, again: 4 });
}

#[test]
fn threads_are_apart_and_a_write_makes_bytes_new() {
    use Do::*;
    let classic = run(&[
        Swap(1),
        Enter("work"),
        Store(0x10, 4),
        Store(0x10, 4),
        Swap(2),
        Enter("work"),
        Load(0x10, 4),
        Load(0x10, 4),
        Swap(1),
        Store(0x10, 4),
        Swap(2),
        Load(0x10, 4),
    ]);
    assert_eq!(edges(&classic), [("1:work".to_owned(), "2:work".to_owned(), 8, 4)]);
    let writer = classic.entities().iter().find(|entity| entity.thread == Some(1)).unwrap();
    assert_eq!(
        writer.written,
        Bytes { unique: 8, again: 4 },
        "the second store overwrites bytes that nothing read"
    );
}

#[test]
fn an_exit_without_an_enter_changes_nothing_and_one_ends_what_is_inside() {
    use Do::*;
    let classic = run(&[
        Swap(1),
        Exit("odd"),
        Enter("outer"),
        Enter("inner"),
        Exit("outer"),
        Add,
        Enter("again"),
        Exit("odd"),
        Add,
    ]);
    let iops = |name: &[u8]| {
        classic.entities().iter().find(|entity| entity.function == name).map(|entity| entity.iops)
    };
    assert_eq!((iops(b""), iops(b"again"), iops(b"inner")), (Some(1), Some(1), Some(0)));
    assert_eq!(iops(b"odd"), None);
}

#[test]
fn every_byte_of_a_sample_is_counted_once() {
    let events = crate::samples::sample("fixed/prodcons.main.fixed18").unwrap();
    let mut classic = SigilClassic::default();
    run_dump(&events, Detail::VALGRIND, &mut classic).unwrap();
    let (mut loaded, mut stored) = (0, 0);
    let mut reader = quipu_prism::dump::Reader::new(&events, Detail::VALGRIND);
    let mut batch = Batch::default();
    while reader.read(&mut batch).unwrap() {
        for event in &batch.events {
            if let Event::Memory(memory) = event {
                let bytes = u64::from(memory.size.unwrap());
                if memory.is_load() { loaded += bytes } else { stored += bytes }
            }
        }
    }
    let all = classic.entities().iter();
    let sum = |bytes: Bytes| bytes.unique + bytes.again;
    let (read, written) = all.fold((0, 0), |(read, written), entity| {
        (read + sum(entity.local) + sum(entity.input), written + sum(entity.written))
    });
    assert_eq!((read, written), (loaded, stored));
    let between: u64 = classic.edges().map(|(_, _, bytes)| sum(bytes)).sum();
    assert_eq!(between, classic.entities().iter().map(|entity| sum(entity.input)).sum::<u64>());
    let threads =
        classic.edges().filter(|(writer, reader, _)| writer.is_some_and(|w| w.thread != reader.thread));
    assert!(threads.count() > 0);
    let text = classic.to_string();
    assert!(text.lines().any(|line| line.contains("pthread_mutex_lock*")), "{text}");
}
