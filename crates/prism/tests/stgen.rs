//! Compares SimpleCount and SynchroTraceGen with the output of Prism's back ends for the same events.

use crate::capnp::{self, Message};
use crate::samples::{folder, gunzip, sample};
use quipu_prism::batch::Batch;
use quipu_prism::event::{Compute, Context, Event, Memory, Place, Sync, access, context, sync};
use quipu_prism::files::Files;
use quipu_prism::hooks::{Sink, run_dump};
use quipu_prism::simplecount::SimpleCount;
use quipu_prism::stgen::{Form, Options, Stgen};
use quipu_prism::{Detail, Error};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const PROGRAMS: [&str; 3] = ["mm8", "prodcons", "threads"];

/// Files of a folder by name, decompressed.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let bytes = fs::read(&path).unwrap();
        match name.rsplit_once('.') {
            Some((stem, "gz")) => all.insert(stem.to_owned(), gunzip(&bytes)),
            _ => all.insert(name, bytes),
        };
    }
    all.retain(|name, _| !name.ends_with(".json"));
    all
}

fn run(events: &[u8], form: Form, aggregation: u64, has_quirks: bool) -> BTreeMap<String, Vec<u8>> {
    let out = tempfile::tempdir().unwrap();
    let options =
        Options { out: Files::each(out.path()), aggregation, form, has_quirks, ..Options::default() };
    let mut stgen = Stgen::new(options);
    run_dump(events, Detail::VALGRIND, &mut stgen).unwrap();
    assert_eq!(stgen.unplaced(), 0);
    files(out.path())
}

/// The form and aggregation in the name of a folder of goldens.
fn settings(name: &str) -> (Form, u64) {
    let (form, aggregation) = name.rsplit_once("-c").unwrap();
    let form = match form.rsplit_once('-').unwrap().1 {
        "text" => Form::Text,
        "textv2" => Form::TextV2,
        "capnp" => Form::Capnp,
        other => panic!("{other}"),
    };
    (form, aggregation.parse().unwrap())
}

#[test]
fn simplecount_prints_what_prism_prints() {
    let mut seen = 0;
    for program in PROGRAMS {
        let Some(events) = sample(&format!("fixed/{program}.full.fixed18")) else { continue };
        let mut counts = SimpleCount::default();
        run_dump(&events, Detail::VALGRIND, &mut counts).unwrap();
        let expected = fs::read_to_string(folder().join(format!("stgen/{program}.simplecount.txt"))).unwrap();
        assert_eq!(counts.to_string(), expected, "{program}");
        let mut twice = counts;
        twice.add(&counts);
        assert_eq!((twice.context, twice.syncs[7]), (2 * counts.context, 2 * counts.syncs[7]));
        seen += 1;
    }
    assert!(seen >= 2);
}

#[test]
fn stgen_writes_what_prism_writes_with_its_defects() {
    let digests = fs::read_to_string(folder().join("stgen/threads.digests.txt")).unwrap_or_default();
    let digests: BTreeMap<_, _> = digests.lines().filter_map(|line| line.split_once(' ')).collect();
    let mut seen = 0;
    for program in PROGRAMS {
        let Some(events) = sample(&format!("fixed/{program}.full.fixed18")) else { continue };
        let mut names: Vec<_> =
            fs::read_dir(folder().join("stgen")).unwrap().map(|entry| entry.unwrap().path()).collect();
        names
            .retain(|path| path.is_dir() && path.file_name().unwrap().to_str().unwrap().starts_with(program));
        for path in names {
            let name = path.file_name().unwrap().to_str().unwrap();
            let (form, aggregation) = settings(name);
            let (expected, written) = (files(&path), run(&events, form, aggregation, true));
            for (file, bytes) in &expected {
                let ours = &written[file];
                if file.ends_with(".bin") {
                    // The library that wrote the messages chose other segments; the events are the same.
                    assert!(capnp::read(ours) == capnp::read(bytes), "{name}/{file}");
                } else if ours != bytes {
                    let pairs = ours.split(|b| *b == b'\n').zip(bytes.split(|b| *b == b'\n'));
                    let (at, (ours, theirs)) = pairs.enumerate().find(|(_, (a, b))| a != b).unwrap();
                    let text = String::from_utf8_lossy;
                    panic!("{name}/{file}, line {}:\n{}\n{}", at + 1, text(ours), text(theirs));
                }
                seen += 1;
            }
            for (file, bytes) in &written {
                if let Some(digest) = digests.get(format!("{name}/{file}.gz").as_str()) {
                    let mut crc = flate2::Crc::new();
                    crc.update(bytes);
                    assert_eq!(format!("{} {}", bytes.len(), crc.sum()), *digest, "{name}/{file}");
                    seen += 1;
                }
            }
            if !name.starts_with("threads") {
                assert!(written.keys().eq(expected.keys()), "{name}");
            }
        }
    }
    assert!(seen >= 80, "{seen}");
}

/// The differences between correct values and Prism's on the sample.
#[test]
fn right_values_differ_where_prism_is_wrong() {
    let events = sample("fixed/threads.full.fixed18").unwrap();
    let (ours, quirks) = (run(&events, Form::TextV2, 100, false), run(&events, Form::TextV2, 100, true));
    let differing: Vec<_> =
        ours.iter().filter(|(name, bytes)| quirks[*name] != **bytes).map(|(name, _)| name).collect();
    assert_eq!(differing, ["sigil.stats.out"], "the texts of threads have no defect here");
    let lines = |bytes: &[u8]| {
        String::from_utf8(bytes.to_vec()).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let (right, wrong) = (lines(&ours["sigil.stats.out"]), lines(&quirks["sigil.stats.out"]));
    assert_eq!(right.len(), wrong.len());
    for (right, wrong) in right.iter().zip(&wrong).filter(|(right, wrong)| right != wrong) {
        let is_communication = right.starts_with("\t\tCommunication: ");
        let has_value = right.starts_with(wrong.as_str()) && wrong.ends_with(": ");
        assert!(is_communication || has_value, "{right:?} for {wrong:?}");
    }
    let of = |what: &str| right.iter().filter(|line| line.starts_with(what)).cloned().collect::<Vec<_>>();
    assert_eq!(
        of("\tIOPs: "),
        [format!("\tIOPs: {}", 4061 + 3 * 2340)],
        "the sum over all threads at the barrier"
    );

    // In messages, the ranges read are those of the text.
    let (ours, quirks) = (run(&events, Form::Capnp, 100, false), run(&events, Form::Capnp, 100, true));
    let name = "sigil.events.out-3.compressed.capn.bin";
    let pairs = capnp::read(&ours[name]).into_iter().zip(capnp::read(&quirks[name]));
    let mut differ = 0;
    for (right, wrong) in pairs {
        match (right, wrong) {
            (Message::Computation(counts, written, read), Message::Computation(as_before, same, copy)) => {
                assert_eq!((counts, &written, &written), (as_before, &same, &copy));
                differ += u64::from(read != copy);
            }
            (right, wrong) => assert_eq!(right, wrong),
        }
    }
    assert!(differ > 0);
}

/// A batch of events of one thread.
fn batch(thread: u64, events: &[Event]) -> Batch {
    let swap = Event::Sync(Sync { kind: sync::SWAP, data: thread, second: None });
    Batch { thread: Some(thread), events: [&[swap], events].concat(), ..Batch::default() }
}

fn memory(kind: u8, address: u64, size: u16) -> Event {
    Event::Memory(Memory { access: Some(kind), size: Some(size), address: Some(address), id: None })
}

fn written(aggregation: u64, has_quirks: bool, batches: &[Batch]) -> BTreeMap<String, String> {
    let out = tempfile::tempdir().unwrap();
    let options = Options {
        out: Files::each(out.path()),
        aggregation,
        form: Form::Text,
        has_quirks,
        ..Options::default()
    };
    let mut stgen = Stgen::new(options);
    stgen.start().unwrap();
    batches.iter().for_each(|batch| stgen.take(batch).unwrap());
    stgen.finish().unwrap();
    files(out.path()).into_iter().map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap())).collect()
}

#[test]
fn shadow_memory_has_the_full_width_and_quirks_have_that_of_prism() {
    let high = 0x7fff_ffff_f000;
    let batches = [
        batch(1, &[memory(access::STORE, high, 8), memory(access::STORE, u64::MAX - 3, 8)]),
        batch(2, &[memory(access::LOAD, high + 4, 8), memory(access::LOAD, u64::MAX, 1)]),
    ];
    let right = written(100, false, &batches);
    let expected = "0,1,0,0,0,2 $ 0x7ffffffff000 0x7ffffffff007 $ 0xfffffffffffffffc 0xffffffffffffffff\n";
    assert_eq!(right["sigil.events.out-1"], expected);
    let expected = "0,2,0,0,0,0 * 0x7ffffffff008 0x7ffffffff00b\n\
                    1,2 # 1 0 0x7ffffffff004 0x7ffffffff007 # 1 0 0xffffffffffffffff 0xffffffffffffffff\n";
    assert_eq!(right["sigil.events.out-2"], expected);
    let quirks = written(100, true, &batches);
    assert_eq!(
        quirks["sigil.events.out-2"],
        "0,2,0,0,2,0 * 0x7ffffffff004 0x7ffffffff00b * 0xffffffffffffffff 0xffffffffffffffff\n"
    );
}

#[test]
fn locks_in_locks_count_from_their_own_lock() {
    let sync = |kind, data| Event::Sync(Sync { kind, data, second: None });
    let iop = Event::Compute(Compute { format: Some(1), ..Compute::default() });
    let events = [
        sync(sync::LOCK, 1),
        iop,
        sync(sync::LOCK, 2),
        iop,
        sync(sync::UNLOCK, 2),
        iop,
        sync(sync::UNLOCK, 1),
    ];
    let iops = |has_quirks| {
        let files = written(100, has_quirks, &[batch(1, &events)]);
        let lines = files["sigil.stats.out"].lines().filter(|line| line.starts_with("\t\tIOPs: "));
        lines.map(|line| line[8..].parse().unwrap()).collect::<Vec<u64>>()
    };
    assert_eq!(iops(false), [1, 3]);
    assert_eq!(iops(true), [2, 0]);
}

#[test]
fn threads_that_any_thread_creates_are_listed() {
    let create = |handle| Event::Sync(Sync { kind: sync::CREATE, data: handle, second: None });
    let batches = [batch(1, &[create(100)]), batch(2, &[create(200), create(300)]), batch(3, &[])];
    assert_eq!(written(100, false, &batches)["sigil.pthread.out"], "##100,2\n##200,3\n");
    assert_eq!(written(100, true, &batches)["sigil.pthread.out"], "##100,2\n");
}

#[test]
fn events_before_the_first_swap_are_of_thread_0_or_end_the_run() {
    let place = Place::Address(1);
    let events =
        vec![Event::Context(Context { kind: context::INSTRUCTION, place }), memory(access::STORE, 16, 4)];
    let first = Batch { events, ..Batch::default() };
    let files = written(100, false, std::slice::from_ref(&first));
    assert_eq!(files["sigil.events.out-0"], "0,0,0,0,0,1 $ 0x10 0x13\n");
    let mut stgen = Stgen::new(Options { form: Form::Null, has_quirks: true, ..Options::default() });
    assert!(matches!(stgen.take(&first), Err(Error::Stop(_))));
}

#[test]
fn threads_that_deliver_in_turn_are_apart_without_swaps() {
    let of = |thread, address| Batch {
        thread: Some(thread),
        events: vec![memory(access::STORE, address, 4)],
        ..Batch::default()
    };
    for aggregation in [1, 100] {
        let files = written(aggregation, false, &[of(5, 0x10), of(9, 0x20), of(5, 0x30)]);
        assert!(files["sigil.events.out-5"].contains("0x30") && files["sigil.events.out-9"].contains("0x20"));
        assert!(!files["sigil.events.out-5"].contains("0x20"), "{files:?}");
    }
}

#[test]
fn shadow_memory_grows_with_the_pages_that_are_touched() {
    let mut stgen = Stgen::new(Options { form: Form::Null, ..Options::default() });
    for _ in 0..10 {
        let events = [memory(access::STORE, 4090, 16), memory(access::LOAD, 1 << 60, 1)];
        stgen.take(&batch(1, &events)).unwrap();
    }
    assert_eq!(stgen.pages(), 3);
}

#[test]
fn more_pages_than_are_allowed_end_the_run_with_a_sentence() {
    let mut stgen = Stgen::new(Options { form: Form::Null, max_pages: 10, ..Options::default() });
    let touch = |page: u64| batch(1, &[memory(access::STORE, page * 4096, 8)]);
    (0..10).for_each(|page| stgen.take(&touch(page)).unwrap());
    let error = stgen.take(&touch(10)).unwrap_err().to_string();
    assert!(error.contains("more than 10 pages") && error.contains("`pages=N`"), "{error}");
}

#[test]
fn what_far_threads_read_counts_as_pages_until_it_is_written() {
    let options = Options { form: Form::Null, max_pages: 7, ..Options::default() };
    let mut stgen = Stgen::new(options);
    (1..=130).for_each(|thread| stgen.take(&batch(thread, &[memory(access::LOAD, 0, 1)])).unwrap());
    let read = |thread: u64, page: u64| batch(thread, &[memory(access::LOAD, page * 4096, 4096)]);
    // Two pages, plus 68 bytes for each of their bytes, which is more than five pages.
    stgen.take(&read(130, 0)).unwrap();
    assert_eq!(stgen.pages(), 1 + 2);
    stgen.take(&batch(1, &[memory(access::STORE, 0, 4096)])).unwrap();
    assert_eq!(stgen.pages(), 1, "nothing is known of readers of what was written");
    stgen.take(&read(130, 0)).unwrap();
    stgen.take(&read(130, 1)).unwrap();
    let error = stgen.take(&read(130, 2)).unwrap_err().to_string();
    assert!(error.contains("more than 7 pages"), "{error}");
}

/// Threads after the first 128 have the same edges as the threads before.
#[test]
fn any_number_of_threads_communicates_and_quirks_end_with_the_129th() {
    let load = |thread: u64| batch(thread, &[memory(access::LOAD, 0x1000, 8)]);
    let store = |thread: u64| batch(thread, &[memory(access::STORE, 0x1000, 8)]);
    let mut batches = vec![store(1)];
    batches.extend((2..=300).map(load));
    // A second read is local; after a write, all threads have to read anew, the earlier ones and a new one.
    batches.extend([load(2), load(299), store(300), load(299), load(2), load(301)]);
    let files = written(100, false, &batches);
    let of = |thread: u64| &files[&format!("sigil.events.out-{thread}")];
    for thread in 3..=298 {
        assert_eq!(*of(thread), format!("0,{thread} # 1 0 0x1000 0x1007\n"));
    }
    for thread in [2, 299] {
        let expected = format!(
            "0,{thread} # 1 0 0x1000 0x1007\n1,{thread},0,0,1,0 * 0x1000 0x1007\n2,{thread} # 300 1 0x1000 0x1007\n"
        );
        assert_eq!(*of(thread), expected);
    }
    assert_eq!(*of(301), "0,301 # 300 1 0x1000 0x1007\n");
    let plain = written(1, false, &batches);
    assert_eq!(plain["sigil.events.out-299"].lines().count(), 3);
    let mut quirks = Stgen::new(Options { form: Form::Null, has_quirks: true, ..Options::default() });
    let refused = batches.iter().find_map(|batch| quirks.take(batch).err()).unwrap();
    assert_eq!(refused.to_string(), "SynchroTraceGen takes at most 128 threads");
}
