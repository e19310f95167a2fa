//! Compares sample streams with the counts of an independent decoder.

use quipu_prism::event::{Event, context, sync};
use quipu_prism::variable::{Dialect, Encoder};
use quipu_prism::{Batch, Detail, dump, variable};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

/// The folder of samples. `QUIPU_PRISM_SAMPLES` may name another folder with the same layout.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os("QUIPU_PRISM_SAMPLES").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/prism")),
        PathBuf::from,
    )
}

pub(crate) fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut out).unwrap();
    out
}

/// The decompressed bytes of a sample; `None` if the folder has no such file.
pub(crate) fn sample(name: &str) -> Option<Vec<u8>> {
    let path = |extension: &str| folder().join(format!("{name}{extension}"));
    if let Ok(bytes) = std::fs::read(path(".zst")) {
        return Some(zstd::decode_all(bytes.as_slice()).unwrap());
    }
    if let Ok(bytes) = std::fs::read(path(".gz")) {
        return Some(gunzip(&bytes));
    }
    std::fs::read(path("")).ok()
}

fn facts() -> Map<String, Value> {
    serde_json::from_slice(&std::fs::read(folder().join("facts.json")).unwrap()).unwrap()
}

fn kind_of(event: &Event) -> String {
    match event {
        Event::Memory(memory) => match memory.access {
            Some(1) => "mem load".to_owned(),
            Some(2) => "mem store".to_owned(),
            other => format!("mem {other:?}"),
        },
        Event::Compute(compute) => match compute.format {
            Some(1) => "comp iop".to_owned(),
            Some(2) => "comp flop".to_owned(),
            other => format!("comp {other:?}"),
        },
        Event::Context(place) => match place.kind {
            context::INSTRUCTION => "cxt instr".to_owned(),
            context::ENTER => "cxt enter".to_owned(),
            context::EXIT => "cxt exit".to_owned(),
            other => format!("cxt {other}"),
        },
        Event::Sync(event) => {
            let name = match event.kind {
                sync::CREATE => "create",
                sync::JOIN => "join",
                sync::BARRIER => "barrier",
                sync::SWAP => "swap",
                sync::LOCK => "lock",
                sync::UNLOCK => "unlock",
                sync::WAIT => "condwait",
                sync::SIGNAL => "condsignal",
                sync::BROADCAST => "condbroadcast",
                sync::SPIN_LOCK => "spinlock",
                sync::SPIN_UNLOCK => "spinunlock",
                _ => "other",
            };
            format!("sync {name}")
        }
        other => format!("{other:?}"),
    }
}

fn assert_counts(expected: &Value, counted: &BTreeMap<String, u64>, what: &str) {
    let expected: BTreeMap<String, u64> = expected
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, count)| (key.clone(), count.as_u64().unwrap()))
        .collect();
    assert_eq!(&expected, counted, "{what}");
}

#[test]
fn fixed_samples_have_the_events_that_were_counted() {
    let mut seen = 0;
    for (name, facts) in facts().iter().filter(|(name, _)| name.starts_with("fixed/")) {
        let Some(bytes) = sample(name.trim_end_matches(".gz")) else { continue };
        seen += 1;
        assert_eq!(facts["raw_bytes"], bytes.len(), "{name}");
        let mut reader = dump::Reader::new(&bytes, Detail::VALGRIND);
        let mut batch = Batch::default();
        let (mut kinds, mut sizes, mut arities) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (mut threads, mut entered, mut total) = (Vec::new(), BTreeMap::<String, u64>::new(), 0);
        while reader.read(&mut batch).unwrap() {
            assert_eq!(batch.first, total, "{name}");
            total += batch.events.len() as u64;
            let thread = batch.thread.unwrap();
            if !threads.contains(&thread) {
                threads.push(thread);
            }
            for event in &batch.events {
                *kinds.entry(kind_of(event)).or_default() += 1;
                match event {
                    Event::Memory(memory) => *sizes.entry(memory.size.unwrap().to_string()).or_default() += 1,
                    Event::Compute(compute) => {
                        let code = compute.arguments.unwrap() + 1;
                        *arities.entry(code.to_string()).or_default() += 1;
                        assert_eq!((compute.operation, compute.width), (None, None), "{name}: stale bytes");
                    }
                    Event::Context(place) if place.kind == context::ENTER => {
                        let quipu_prism::event::Place::Name(of) = place.place else { panic!("{place:?}") };
                        let function = String::from_utf8(batch.name(of).to_vec()).unwrap();
                        *entered.entry(function).or_default() += 1;
                    }
                    _ => {}
                }
            }
        }
        assert_eq!(
            (facts["events"].as_u64(), facts["buffers"].as_u64()),
            (Some(total), Some(reader.buffers()))
        );
        assert_counts(&facts["by_kind"], &kinds, name);
        assert_counts(&facts["memory_sizes"], &sizes, name);
        assert_counts(&facts["compute_arity_codes"], &arities, name);
        assert_eq!(facts["threads_in_order"], Value::from(threads), "{name}");
        for (function, count) in facts["most_entered"].as_object().unwrap() {
            assert_eq!(count.as_u64(), entered.get(function).copied(), "{name}: {function}");
        }
    }
    assert!(seen >= 4, "{seen}");
}

#[test]
fn copied_buffers_keep_all_bytes() {
    let bytes = sample("fixed/prodcons.main.fixed18").unwrap();
    let (mut copy, mut rest) = (Vec::new(), bytes.as_slice());
    while !rest.is_empty() {
        let buffer = dump::Buffer::read(rest, 0).unwrap();
        buffer.write(&mut copy);
        rest = &rest[buffer.len()..];
    }
    assert!(copy == bytes);
}

#[test]
fn variable_samples_have_the_codes_that_were_counted_and_are_written_again_as_they_were() {
    for name in ["prodcons.sigrind.bin", "threads.sigrind.bin"] {
        let (facts, bytes) =
            (&facts()[&format!("variable/{name}")], sample(&format!("variable/{name}")).unwrap());
        assert_eq!(facts["bytes"], bytes.len());
        let mut decoder = variable::Decoder::new(Detail::SIGRIND, Dialect::Strict);
        let mut encoder = Encoder::agreed(Detail::SIGRIND);
        let mut batch = Batch::default();
        let (mut kinds, mut codes, mut used) = (BTreeMap::from([("end".to_owned(), 1)]), BTreeMap::new(), 0);
        loop {
            let progress = decoder.decode(&bytes[used..], &mut batch).unwrap();
            used += progress.used;
            for event in &batch.events {
                encoder.put(event, &batch).unwrap();
                let kind = match event {
                    Event::Memory(memory) => {
                        let (access, size) = (memory.access.unwrap(), memory.size.unwrap().trailing_zeros());
                        *codes.entry(format!("type {access} size code {size}")).or_default() += 1;
                        format!("mem type {access}")
                    }
                    Event::Compute(compute) => format!("comp format {}", compute.format.unwrap()),
                    other => kind_of(other),
                };
                *kinds.entry(kind).or_default() += 1;
            }
            if progress.has_ended {
                break;
            }
        }
        encoder.end();
        assert_eq!(used, bytes.len());
        assert!(encoder.out == bytes, "{name}");
        assert_counts(&facts["by_kind"], &kinds, name);
        assert_counts(&facts["memory_codes"], &codes, name);
    }
}

#[test]
fn sizes_of_sigrind_are_bytes_where_they_can_be_decided() {
    let bytes = sample("variable/prodcons.sigrind.bin").unwrap();
    let mut decoder = variable::Decoder::new(Detail::SIGRIND, Dialect::Sigrind);
    let (mut batch, mut used, mut sizes) = (Batch::default(), 0, BTreeMap::<_, u64>::new());
    loop {
        let progress = decoder.decode(&bytes[used..], &mut batch).unwrap();
        used += progress.used;
        for event in &batch.events {
            if let Event::Memory(memory) = event {
                *sizes.entry((memory.access, memory.size)).or_default() += 1;
            }
        }
        if progress.has_ended {
            break;
        }
    }
    let expected = [
        ((None, None), 402),
        ((Some(1), None), 971),
        ((Some(1), Some(2)), 46),
        ((Some(1), Some(4)), 607),
        ((Some(1), Some(8)), 3325),
        ((Some(2), None), 43),
        ((Some(2), Some(4)), 275),
        ((Some(2), Some(8)), 3398),
    ];
    assert_eq!(sizes, BTreeMap::from(expected));
}
