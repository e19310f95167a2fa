//! Tests of captures in self-describing streams.

use crate::samples::{bytes, cases, classic, linux_capture, name_of, printed, raw, root};
use quipu_dtrace::carry::Encoded;
use quipu_dtrace::describe::{Buffer, Event};
use quipu_dtrace::origin::Origin;
use quipu_dtrace::{Capture, DTRACE, carried, carry, dense, export, linux, meta};

use quipu_model::{Confidence, Format};
use quipu_source::Source;
use quipu_stream::frame::{Header, encoding};
use quipu_stream::write::{Options, Writer};
use quipu_wire::record::{Encoding, Producer};

#[test]
fn streams_of_another_program_print_what_the_consumer_printed() {
    let names = ["agg_scalar", "flowindent", "mixed_1000", "padding", "printf", "ring_wrapped", "stacks"];
    for name in names {
        let stream = bytes(&root().join(format!("../stream/dtrace-{name}.quipu")));
        assert_eq!(DTRACE.probe(&Source::from_bytes(name, stream.clone())), Confidence::Sure, "{name}");
        let capture = carried::read(name, &stream).unwrap();
        assert!(capture.findings.is_empty(), "{name}: {:?}", capture.findings);
        let expected = bytes(&root().join("classic").join(name).join("stdout"));
        assert_eq!(
            String::from_utf8_lossy(&printed(capture, true).out),
            String::from_utf8_lossy(&expected),
            "{name}"
        );
    }
}

#[test]
fn captures_become_streams_and_print_the_same() {
    for path in cases("classic") {
        let name = name_of(&path);
        let capture = classic(&path);
        let producer = Producer { uuid: [7; 16], ..Producer::default() };
        let stream = carry::write(&capture, producer.clone(), Encoded::Plain, Vec::new()).unwrap();
        let read = carried::read(&name, &stream).unwrap();
        assert!(read.findings.is_empty(), "{name}: {:?}", read.findings);
        let beside = |buffer: &Buffer| (buffer.cpu, buffer.errors, buffer.timestamp, buffer.turned().bytes);
        let all = |of: &Capture| of.buffers.iter().chain(&of.states).map(beside).collect::<Vec<_>>();
        assert_eq!(all(&read), all(&capture), "{name}");
        let again = carry::write(&read, producer, Encoded::Plain, Vec::new()).unwrap();
        assert!(again == stream, "{name} becomes another stream");
        let (ours, theirs) = (printed(read, true), printed(capture, true));
        assert_eq!(String::from_utf8_lossy(&ours.out), String::from_utf8_lossy(&theirs.out), "{name}");
        assert_eq!(ours.messages, theirs.messages, "{name}");
    }
}

fn written(capture: &Capture, encoded: Encoded) -> Vec<u8> {
    let producer = Producer { uuid: [7; 16], ..Producer::default() };
    carry::write(capture, producer, encoded, Vec::new()).unwrap()
}

fn text(capture: Capture) -> (String, String) {
    let printed = printed(capture, true);
    (String::from_utf8(printed.out).unwrap(), String::from_utf8(printed.messages).unwrap())
}

#[test]
fn dense_bodies_give_the_same_buffers() {
    for path in cases("classic") {
        let name = name_of(&path);
        let capture = classic(&path);
        let stream = written(&capture, Encoded::Dense);
        if !capture.buffers.is_empty() {
            let source = Source::from_bytes(&*name, stream.clone());
            assert_eq!(DTRACE.probe(&source), Confidence::Sure, "{name}");
        }
        let read = carried::read(&name, &stream).unwrap();
        assert!(read.findings.is_empty(), "{name}: {:?}", read.findings);
        let plain = carried::read(&name, &written(&capture, Encoded::Plain)).unwrap();
        assert_eq!(read.buffers, plain.buffers, "{name}");
        assert_eq!(text(read), text(capture), "{name}");
    }
    let capture = classic(&root().join("classic/mixed_1000"));
    let (n_plain, n_dense) = capture.buffers.iter().fold((0, 0), |(plain, packed), buffer| {
        (plain + buffer.bytes.len(), packed + dense::pack(&capture, buffer).unwrap().len())
    });
    assert!(4 * n_dense < 2 * n_plain, "{n_dense} of {n_plain} bytes");
}

#[test]
fn dense_bodies_that_are_cut_give_their_first_records() {
    let capture = classic(&root().join("classic/mixed_1000"));
    let buffer = &capture.buffers[0];
    let body = dense::pack(&capture, buffer).unwrap();
    let whole = dense::unpack(&capture, &body);
    assert!(whole.is_whole && whole.bytes == buffer.bytes);
    for end in (0..body.len()).step_by(13) {
        let cut = dense::unpack(&capture, &body[..end]);
        assert!(cut.n_records <= whole.n_records);
        // After an undetected cut, the rest is zeros.
        let n = cut.bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        assert_eq!(cut.bytes[..n], buffer.bytes[..n], "{end}");
    }
}

#[test]
fn bodies_of_an_unknown_encoding_are_counted_and_others_printed() {
    let capture = classic(&root().join("classic/trace_basic"));
    let stream = written(&capture, Encoded::Plain);
    let writer = Writer::new(
        Vec::new(),
        Options { producer: Producer { uuid: [8; 16], ..Producer::default() }, ..Options::new("quipu") },
    );
    let encoding =
        Encoding { id: 0x9000, name: Some("other".to_owned()), based_on: Some(32), ..Encoding::default() };
    writer.define(encoding).unwrap();
    let mut body = writer.stream(1).unwrap();
    body.foreign(0x9000, 3, (0, 0), b"whatever").unwrap();
    body.finish().unwrap();
    writer.finish().unwrap();
    let both = [stream, writer.into_inner().unwrap()].concat();
    let read = carried::read("both", &both).unwrap();
    let [finding] = &read.findings[..] else { panic!("{:?}", read.findings) };
    assert_eq!(finding.rule, "dtrace/unknown-encoding");
    assert_eq!(finding.loss.as_ref().unwrap().records.least(), 3);
    assert_eq!(text(read), text(capture));
    // A body with this number, but without a record that announces it, belongs to another program.
    let producer = Producer { uuid: [7; 16], ..Producer::default() };
    let writer = Writer::new(Vec::new(), Options { producer, ..Options::new("quipu") });
    let mut body = writer.stream(1).unwrap();
    body.foreign(dense::NUMBER, 3, (0, 0), b"whatever").unwrap();
    body.finish().unwrap();
    writer.finish().unwrap();
    let stream = writer.into_inner().unwrap();
    assert_eq!(DTRACE.probe(&Source::from_bytes("other", stream)), Confidence::No);
}

#[test]
fn captures_of_linux_become_streams_and_lines_and_print_the_same() {
    for path in cases("linux") {
        let name = name_of(&path);
        let capture = linux_capture(&path);
        let read = carried::read(&name, &written(&capture, Encoded::Plain)).unwrap();
        assert!(read.findings.is_empty(), "{name}: {:?}", read.findings);
        assert_eq!(read.events.len(), capture.events.len(), "{name}");
        assert_eq!(written(&read, Encoded::Plain), written(&capture, Encoded::Plain), "{name}");
        assert_eq!(read.types, capture.types, "{name}");
        let signs = |capture: &Capture| {
            let recs = capture.enablings.iter().flat_map(|enabling| &enabling.recs);
            recs.map(|rec| rec.signed).collect::<Vec<_>>()
        };
        assert_eq!(signs(&read), signs(&capture), "{name}");
        let dense = carried::read(&name, &written(&capture, Encoded::Dense)).unwrap();
        assert!(dense.findings.is_empty(), "{name}: {:?}", dense.findings);
        let samples = |capture: &Capture| {
            let sample = |event: &Event| match event {
                Event::Sample { cpu, bytes, .. } => (*cpu, bytes.clone()),
                Event::State { cpu, key, data, .. } => (*cpu, [&**key, data].concat().into()),
            };
            capture.events.iter().map(sample).collect::<Vec<_>>()
        };
        assert_eq!(samples(&dense), samples(&capture), "{name}");
        // Without the lines that the capture came from.
        let unknown = Capture { origin: Origin::Unknown, ..read.clone() };
        let [(_, lines), (_, options)] = &export::files(&unknown)[..] else { panic!("{name}") };
        let mut again = linux::read(linux::FILE, lines).unwrap();
        assert!(again.findings.is_empty(), "{name}: {:?}", again.findings);
        again.settings = quipu_dtrace::options::Settings::of_command(&String::from_utf8_lossy(options));
        let expected = text(capture);
        assert_eq!(text(read), expected, "{name}");
        assert_eq!(text(dense), expected, "{name}");
        assert_eq!(text(again), expected, "{name}");
    }
}

#[test]
fn lines_come_back_byte_for_byte() {
    for path in cases("linux") {
        let name = name_of(&path);
        let lines = raw(&path);
        for encoded in [Encoded::Plain, Encoded::Dense] {
            let capture = linux::read(linux::FILE, &lines).unwrap();
            let read = carried::read(&name, &written(&capture, encoded)).unwrap();
            let files = export::files(&read);
            assert_eq!(files.len(), 1, "{name}");
            assert!(files[0].1 == lines, "{name}: {}", String::from_utf8_lossy(&files[0].1));
        }
    }
    // Blanks, unknown members and kinds, samples with bytes after their end, and a last line without a newline.
    let text = concat!(
        "{\"t\": \"probe\", \"id\":1,\"prv\":\"dtrace\",\"mod\":\"\",\"fun\":\"\",\"prb\":\"BEGIN\"}\r\n\n",
        "{\"t\":\"datadesc\",\"stid\":0,\"uarg\":77,\"size\":0,\"more\":[1],\"recs\":[{\"action\":1,\"size\":4,\"offset\":16,\"alignment\":4,\"arg\":1}]}\n",
        "{\"t\":\"sample\",\"cpu\":1,\"raw\":\"100000000000000001000000000000000a000000\"}\n",
        "{\"t\":\"sample\",\"cpu\":1,\"raw\":\"100000000000000001000000000000000b000000\"}\n",
        "{\"t\":\"later\",\"what\":2}\n",
        "{\"t\":\"sample\",\"cpu\":0,\"raw\":\"100000000000000001000000000000000C000000\"}\n",
        "{\"t\":\"sample\",\"cpu\":0,\"raw\":\"100000000000000001000000000000000d00000000000000\"}\n",
        "{\"t\":\"sample\", \"cpu\":0,\"raw\":\"100000000000000001000000000000000e000000\"}",
    );
    let capture = linux::read(linux::FILE, text.as_bytes()).unwrap();
    assert_eq!(capture.events.len(), 5);
    let mut read = carried::read("lines", &written(&capture, Encoded::Plain)).unwrap();
    let files = export::files(&read);
    assert_eq!(String::from_utf8_lossy(&files[0].1), text);
    // Lines that no longer agree with the capture are written anew.
    read.enablings[0].recs[0].size = 2;
    let files = export::files(&read);
    assert!(files[0].1 != text.as_bytes() && files.len() == 2);
    assert_eq!(linux::read(linux::FILE, &files[0].1).unwrap().events.len(), 5);
}

#[test]
fn folders_come_back_byte_for_byte() {
    for path in cases("classic") {
        let name = name_of(&path);
        let mut capture = classic(&path);
        capture.beside = vec![("stdout".to_owned(), bytes(&path.join("stdout")))];
        let read = carried::read(&name, &written(&capture, Encoded::Dense)).unwrap();
        let files = export::files(&read);
        assert_eq!(files.len(), capture.buffers.len() + capture.states.len() + 2, "{name}");
        for (file, found) in files {
            assert!(found == bytes(&path.join(&file)), "{name}: {file}");
        }
    }
}

#[test]
fn long_buffers_are_cut_between_records() {
    let capture = classic(&root().join("classic/mixed_1000"));
    let mut long = capture.clone();
    for buffer in long.buffers.iter_mut().chain(&mut long.states) {
        buffer.bytes = buffer.bytes.repeat(3_000_000 / buffer.bytes.len().max(1));
    }
    for encoded in [Encoded::Plain, Encoded::Dense] {
        let stream = written(&long, encoded);
        let mut registry = quipu_stream::decode::Registry::default();
        registry.hand_out(dense::NUMBER);
        let reader = quipu_stream::reader::StreamReader::new(&*stream);
        let mut reader = reader.with_registry(registry);
        let frames = reader.data_frames().unwrap();
        assert!(frames.len() > 3 * long.buffers.len(), "{}", frames.len());
        assert!(frames.iter().all(|frame| frame.header.raw_len <= 960 << 10));
        let n_records: u64 = frames.iter().map(|frame| u64::from(frame.header.records)).sum();
        assert!(n_records > 100_000, "{n_records}");
        let read = carried::read("long", &stream).unwrap();
        assert!(read.findings.is_empty(), "{:?}", read.findings);
        for (from, to) in long.buffers.iter().zip(&read.buffers).chain(long.states.iter().zip(&read.states)) {
            assert!(from.bytes == to.bytes, "{encoded:?}: CPU {}", from.cpu);
        }
    }
}

#[test]
fn folders_that_are_written_have_the_same_buffers_and_print_the_same() {
    for path in cases("classic") {
        let name = name_of(&path);
        let capture = classic(&path);
        let read = carried::read(&name, &written(&capture, Encoded::Plain)).unwrap();
        for from in [&read, &capture] {
            // Without the text that the capture came from.
            let from = &Capture { origin: Origin::Unknown, ..from.clone() };
            let files = export::files(from);
            let file =
                |name: &str| files.iter().find(|(file, _)| file == name).map(|(_, bytes)| bytes.clone());
            let again =
                meta::read("meta.json", &file(meta::FILE).unwrap(), &mut |name| Ok(file(name).unwrap()))
                    .unwrap();
            assert!(again.findings.is_empty(), "{name}: {:?}", again.findings);
            let bytes = |capture: &Capture| {
                capture.buffers.iter().chain(&capture.states).map(|of| of.bytes.clone()).collect::<Vec<_>>()
            };
            assert_eq!(bytes(&again), bytes(from), "{name}");
            assert_eq!(text(again), text(capture.clone()), "{name}");
        }
    }
}

/// A stream of the producer with this number.
fn of_producer(capture: &Capture, number: u8) -> Vec<u8> {
    let producer = Producer { uuid: [number; 16], ..Producer::default() };
    carry::write(capture, producer, Encoded::Plain, Vec::new()).unwrap()
}

/// Name, key and cells of all aggregations, sorted, because the order is undefined if CPUs are of several machines.
fn aggregations(capture: &Capture) -> Vec<(Option<String>, Vec<u8>, Vec<i64>)> {
    let all = quipu_dtrace::table::merged(capture);
    let mut rows: Vec<_> = all
        .entries()
        .map(|entry| {
            let described = &capture.aggregations[entry.aggregation];
            // The key without the variable, whose number may differ.
            (
                described.name.clone(),
                entry.key[16.min(entry.key.len())..].to_vec(),
                entry.value.cells.to_vec(),
            )
        })
        .collect();
    rows.sort();
    rows
}

#[test]
fn captures_of_several_machines_become_one_whose_aggregations_merge() {
    let (mut n, mut n_machines) = (0, 0);
    for path in cases("classic") {
        let name = name_of(&path);
        let whole = classic(&path);
        if whole.states.len() < 2 {
            continue;
        }
        // Each CPU on its own machine, in any order.
        let machine = |cpu: &u32| {
            let mut part = whole.clone();
            part.buffers.retain(|buffer| buffer.cpu == *cpu);
            part.states.retain(|buffer| buffer.cpu == *cpu);
            part
        };
        let mut cpus: Vec<u32> = whole.states.iter().map(|buffer| buffer.cpu).collect();
        cpus.dedup();
        for turn in 0..cpus.len() {
            let streams = cpus.iter().map(|cpu| of_producer(&machine(cpu), 100 + *cpu as u8));
            let read = carried::read("all", &streams.collect::<Vec<_>>().concat()).unwrap();
            assert!(read.findings.is_empty(), "{name}: {:?}", read.findings);
            assert_eq!(aggregations(&read), aggregations(&whole), "{name} {turn}");
            assert_eq!(read.enablings, whole.enablings, "{name}");
            cpus.rotate_left(1);
            n_machines += 1;
        }
        n += 1;
    }
    assert!(n > 10 && n_machines > 30, "{n} cases");
}

#[test]
fn numbers_that_mean_something_else_on_another_machine_get_new_ones() {
    let (one, other) =
        (classic(&root().join("classic/agg_scalar")), classic(&root().join("classic/agg_ops")));
    let streams = [of_producer(&one, 1), of_producer(&other, 2)];
    let both = carried::read("both", &streams.concat()).unwrap();
    let reverse = carried::read("both", &[&*streams[1], &streams[0]].concat()).unwrap();
    let mut expected = [aggregations(&one), aggregations(&other)].concat();
    expected.sort();
    assert_eq!(aggregations(&both), expected);
    assert_eq!(aggregations(&reverse), expected);
    // Records keep their probes and their text.
    let (mut one, other) =
        (classic(&root().join("classic/printf")), classic(&root().join("classic/trace_basic")));
    one.settings = other.settings;
    let both = carried::read("both", &[of_producer(&one, 1), of_producer(&other, 2)].concat()).unwrap();
    let lines = |capture: Capture| {
        let mut lines: Vec<String> = text(capture).0.lines().skip(1).map(str::to_owned).collect();
        lines.retain(|line| !line.is_empty());
        lines
    };
    let firing = |line: &String| line.split_whitespace().skip(2).map(str::to_owned).collect::<Vec<_>>();
    let mut found: Vec<Vec<String>> = lines(both).iter().map(firing).collect();
    let mut expected: Vec<Vec<String>> = lines(one).iter().chain(&lines(other)).map(firing).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    // Streams that cannot be merged correctly are refused.
    let mut big = classic(&root().join("classic/trace_basic"));
    big.order = quipu_dtrace::bytes::ByteOrder::Big;
    let mixed = [of_producer(&classic(&root().join("classic/printf")), 1), of_producer(&big, 2)].concat();
    let error = carried::read("mixed", &mixed).unwrap_err();
    assert!(error.to_string().contains("several producers with different"), "{error}");
}

#[test]
fn speculations_and_aggregations_of_several_linux_machines_stay_apart() {
    for name in ["speculation", "agg_scalar", "syscall_count", "end_aggs"] {
        let capture = linux_capture(&root().join("linux").join(name));
        let capture = carried::read(name, &of_producer(&capture, 1)).unwrap();
        let both = [of_producer(&capture, 1), of_producer(&capture, 2)].concat();
        let read = carried::read("both", &both).unwrap();
        assert!(read.findings.is_empty(), "{name}: {:?}", read.findings);
        assert_eq!(read.enablings, capture.enablings, "{name}");
        let n_values = |capture: &Capture| {
            let all = quipu_dtrace::table::merged(capture);
            let counts =
                all.entries().filter(|entry| entry.value.function == quipu_dtrace::action::Function::Count);
            counts.map(|entry| entry.value.cells[0]).sum::<i64>()
        };
        assert_eq!(n_values(&read), 2 * n_values(&capture), "{name}");
        let n_lines = |capture: Capture| text(capture).0.lines().filter(|line| line.contains(':')).count();
        if name == "speculation" {
            assert_eq!(n_lines(read) - 1, 2 * (n_lines(capture) - 1));
        }
    }
}

#[test]
fn streams_are_recognised_after_long_descriptions_and_damage() {
    let mut capture = classic(&root().join("classic/trace_basic"));
    let probe = capture.probes.values().next().unwrap().clone();
    for id in 1000..80_000 {
        capture.probes.insert(
            id,
            quipu_dtrace::describe::Probe { id, function: format!("function_{id}"), ..probe.clone() },
        );
    }
    let stream = written(&capture, Encoded::Dense);
    let at = stream.windows(2).rposition(|pair| pair == b"QP").unwrap();
    assert!(at > 200_000, "{at}: no head that is looked at holds so much");
    assert_eq!(DTRACE.probe(&Source::from_bytes("long", stream)), Confidence::Sure);
    let good = bytes(&root().join("../stream/dtrace-mixed_1000.quipu"));
    let mut flipped = good.clone();
    flipped[40] ^= 1;
    let garbage = [&[7; 300], &*good].concat();
    for (what, stream) in
        [("flipped", flipped), ("garbage", garbage.clone()), ("middle", good[50..].to_vec())]
    {
        let source = Source::from_bytes(what, stream.clone());
        assert_eq!(DTRACE.probe(&source), Confidence::Sure, "{what}");
        let read = carried::read(what, &stream).unwrap();
        assert!(!read.findings.is_empty(), "{what}");
    }
    // Garbage alone loses nothing.
    let read = carried::read("garbage", &garbage).unwrap();
    assert_eq!(text(read).0, text(carried::read("good", &good).unwrap()).0);
}

#[test]
fn hosts_with_equal_buffers_are_others_if_their_descriptions_are() {
    let one = classic(&root().join("classic/agg_scalar"));
    let mut other = one.clone();
    other.probes.values_mut().for_each(|probe| probe.function = format!("{}2", probe.function));
    assert_ne!(quipu_dtrace::build::id_of(&one), quipu_dtrace::build::id_of(&other));
    assert_eq!(quipu_dtrace::build::id_of(&one), quipu_dtrace::build::id_of(&one.clone()));
}

#[test]
fn a_ring_whose_end_is_zeros_is_good_in_every_form_and_comes_back() {
    let from = root().join("classic/ring_wrapped");
    let folder = tempfile::tempdir().unwrap();
    quipu_testkit::copy_files(&from, folder.path());
    // A record of 24 bytes does not fit into the last 16, so the kernel clears them.
    let mut ring = bytes(&from.join("buf.cpu0.bin"));
    assert_eq!(ring.len(), 240);
    ring.extend([0; 16]);
    let text = String::from_utf8(bytes(&from.join("meta.json"))).unwrap();
    let longer = text.replace("\"size\": 240", "\"size\": 256");
    assert_ne!(longer, text);
    let files = [("buf.cpu0.bin", ring.clone()), ("meta.json", longer.into_bytes())];
    files.iter().for_each(|(name, bytes)| std::fs::write(folder.path().join(name), bytes).unwrap());
    let load = |source: Source| {
        let capture = quipu_dtrace::trace::load(&source, &quipu_model::OpenOptions::default()).unwrap();
        assert_eq!(capture.findings, []);
        capture
    };
    let expected = String::from_utf8_lossy(&bytes(&from.join("stdout"))).into_owned();
    let text = |capture: Capture| String::from_utf8_lossy(&printed(capture, true).out).into_owned();
    let capture = load(Source::open(folder.path()).unwrap());
    assert_eq!(text(capture.clone()), expected);
    let producer = || Producer { uuid: [7; 16], ..Producer::default() };
    for encoded in [Encoded::Plain, Encoded::Dense] {
        let stream = carry::write(&capture, producer(), encoded, Vec::new()).unwrap();
        let read = load(Source::from_bytes("stream", stream));
        assert_eq!(text(read.clone()), expected);
        let back: std::collections::BTreeMap<_, _> = export::files(&read).into_iter().collect();
        for (name, bytes) in &files {
            assert_eq!(back.get(*name), Some(bytes), "{name}");
        }
        // Without the text that the capture came from, the folder says where the ring ended.
        let other = Capture { origin: Origin::Unknown, ..read };
        let home = tempfile::tempdir().unwrap();
        for (name, bytes) in export::files(&other) {
            std::fs::write(home.path().join(name), bytes).unwrap();
        }
        assert_eq!(text(load(Source::open(home.path()).unwrap())), expected);
    }
    let buffer = quipu_dtrace::mid::write(&capture, &capture.buffers[0], producer()).unwrap();
    assert_eq!(text(load(Source::from_bytes("buffer", buffer))), expected);
    // The builder gives the same if a consumer passes the ring to it.
    let mut builder = quipu_dtrace::build::Builder::new();
    let snapshot = quipu_dtrace::build::Snapshot { bytes: &ring, oldest: 96, ..Default::default() };
    builder.buffer(&snapshot).unwrap();
    builder.buffer(&snapshot).unwrap();
    assert_eq!(builder.finish().unwrap().buffers[0].gaps, [140..160, 396..416]);
}

#[test]
fn captures_that_are_the_same_are_one_unless_their_machines_have_other_names() {
    for case in ["classic/agg_scalar", "linux/agg_scalar"] {
        let path = root().join(case);
        let capture = if case.starts_with("classic") { classic(&path) } else { linux_capture(&path) };
        let of = |machine: Option<&str>| {
            let capture = Capture { machine: machine.map(str::to_owned), ..capture.clone() };
            carry::write(&capture, quipu_dtrace::build::producer_of(&capture), Encoded::Plain, Vec::new())
                .unwrap()
        };
        let count = |streams: [Vec<u8>; 2]| {
            let read = carried::read("both", &streams.concat()).unwrap();
            let said: Vec<String> = read.findings.iter().map(|found| found.message.to_string()).collect();
            let all = quipu_dtrace::table::merged(&read);
            (all.entries().map(|entry| entry.value.cells[0]).sum::<i64>(), said)
        };
        let (once, said) = count([of(None), of(None)]);
        assert!(said.len() == 1 && said[0].contains("frames stand again and count once"), "{said:?}");
        let (again, said) = count([of(Some("a")), of(Some("a"))]);
        assert_eq!((again, said.len()), (once, 1));
        let (both, said) = count([of(Some("a")), of(Some("b"))]);
        assert_eq!(said, [""; 0]);
        assert!(both.abs() > once.abs(), "{case}: {both} {once}");
        assert_eq!(carried::read("a", &of(Some("a"))).unwrap().machine.as_deref(), Some("a"));
        // Merging in steps counts the same number.
        let step = |names: [&str; 2]| {
            let merged = carried::read("two", &names.map(|name| of(Some(name))).concat()).unwrap();
            let producer = quipu_dtrace::build::producer_of(&merged);
            carry::write(&merged, producer, Encoded::Plain, Vec::new()).unwrap()
        };
        let (four, said) = count([step(["a", "b"]), step(["c", "d"])]);
        assert_eq!(said, [""; 0]);
        let (at_once, _) = count([["a", "b"], ["c", "d"]].map(|two| two.map(|name| of(Some(name))).concat()));
        assert_eq!(four, at_once, "{case}");
        // A capture without a name counts as a different one in each merge.
        let with_unnamed = |name: &str| {
            let merged = carried::read("two", &[of(Some(name)), of(None)].concat()).unwrap();
            let producer = quipu_dtrace::build::producer_of(&merged);
            carry::write(&merged, producer, Encoded::Plain, Vec::new()).unwrap()
        };
        let (sum, said) = count([with_unnamed("a"), with_unnamed("b")]);
        assert_eq!((sum, said), (at_once, Vec::new()), "{case}");
        // This holds for names of any length.
        let long = "n".repeat(200);
        let [c, d] = ["c", "d"].map(|end| format!("{long}{end}"));
        assert_eq!(count([step(["a", "b"]), step([&c, &d])]).0, at_once, "{case}");
    }
}

#[test]
fn a_stream_that_lost_a_frame_says_nothing_of_gaps_of_its_cpu() {
    let mut capture = classic(&root().join("classic/mixed_1000"));
    (capture.states, capture.origin) = (Vec::new(), Origin::Unknown);
    capture.buffers.truncate(1);
    let one = capture.buffers[0].bytes.clone();
    let buffer = &mut capture.buffers[0];
    while buffer.bytes.len() < 2_500_000 {
        buffer.bytes.extend_from_slice(&one);
    }
    // The end of a ring.
    let end = buffer.bytes.len();
    buffer.bytes.extend([0; 64]);
    buffer.gaps.push(end..end + 64);
    buffer.bytes.extend_from_slice(&one);
    let stream = written(&capture, Encoded::Plain);
    let found = |stream: &[u8]| {
        let source = Source::from_bytes("ring", stream);
        let capture = quipu_dtrace::trace::load(&source, &quipu_model::OpenOptions::default()).unwrap();
        capture.findings.into_iter().map(|finding| finding.rule.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found(&stream), [""; 0]);
    let mut flipped = stream.clone();
    let (mut at, mut length) = (0, 0);
    while let Ok(header) = Header::read(&stream[at + length..]) {
        (at, length) = (at + length, header.frame_len() as usize);
        if header.encoding == encoding::DTRACE {
            break;
        }
    }
    flipped[at + length / 2] ^= 1;
    assert_eq!(found(&flipped), ["dtrace/stream"]);
}
