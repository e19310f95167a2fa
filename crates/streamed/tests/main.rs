//! All integration tests of the crate in one program, since linking takes longer than most tests.

#![allow(clippy::unwrap_used, unreachable_pub)]

use flate2::Compression;
use flate2::write::GzEncoder;
use quipu_model::lens::{AccessKind, MAX_ACCESS_BYTES, MAX_RANGE_BYTES};
use quipu_model::print::Ordinals;
use quipu_model::{
    Columns, Confidence, Finding, Format, OpenOptions, Paint, Predicate, Scan, ShardId, Sieve, Tool, Trace,
    Window,
};
use quipu_source::Source;
use quipu_stream::codec::Codec;
use quipu_stream::frame::{encoding, kind};
use quipu_stream::reader::{Content, StreamReader};
use quipu_stream::scan::{FrameAt, Scanner};
use quipu_stream::spec::{SchemaSpec, Ty};
use quipu_stream::wire::record::role;
use quipu_stream::write::{Options, Writer};
use quipu_streamed::STREAM;
use quipu_streamed::trace::{self, StreamTrace};
use quipu_testkit::fuzz;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

fn samples() -> Vec<(String, PathBuf)> {
    let folder = Path::new("../../traces/stream");
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.extension().is_some_and(|ending| ending == "quipu"));
    all.sort();
    all.into_iter().map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), path)).collect()
}

fn open(bytes: &[u8]) -> StreamTrace {
    trace::open(&Source::from_bytes("stream", bytes), &OpenOptions::default()).unwrap()
}

/// All rows of one table as lines, and the findings.
fn rows(trace: &StreamTrace, table: usize, window: Window) -> (Vec<String>, Vec<Finding>) {
    let (mut lines, mut findings) = (Vec::new(), trace.meta().findings.clone());
    for shard in trace.shards() {
        let scan = Scan { tables: vec![table], window: window.clone(), ..Scan::new(shard.id) };
        let mut reader = trace.scan(&scan).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            findings.append(&mut batch.findings);
            let rows = &batch.tables[0];
            let schema = rows.schema().clone();
            for row in 0..rows.n_rows() {
                let cells = schema.fields.iter().enumerate().map(|(at, field)| {
                    let column = rows.column(at);
                    match column.bytes(row) {
                        _ if column.is_missing(field.missing, row) => format!("{}=-", field.name),
                        [] => format!("{}={}", field.name, column.number(row)),
                        text => format!("{}={}", field.name, String::from_utf8_lossy(text)),
                    }
                });
                lines.push(cells.collect::<Vec<_>>().join(" "));
            }
        }
    }
    (lines, findings)
}

#[test]
fn samples_are_recognised_and_have_the_records_that_the_container_has() {
    let mut n_samples = 0;
    for (name, path) in samples() {
        let bytes = std::fs::read(&path).unwrap();
        let source = Source::open(&path).unwrap();
        if STREAM.probe(&source) == Confidence::No {
            assert!(name.contains("midbuf") || name.starts_with("hostile"), "{name}");
            continue;
        }
        n_samples += 1;
        let trace = match trace::open(&source, &OpenOptions::default()) {
            Ok(trace) => trace,
            Err(error) => panic!("{name}: {error}"),
        };
        let mut reader = StreamReader::new(&bytes[..]).with_registry(quipu_streamed::bodies::registry());
        let mut wanted = 0;
        while let Some(part) = reader.next_part().unwrap() {
            if let Content::Rows(batch) = part.content {
                wanted += batch.n_rows();
            }
        }
        let (lines, findings) = rows(&trace, 0, Window::All);
        assert_eq!(lines.len(), wanted, "{name}: {findings:?}");
        // Findings of the container appear here, too.
        let said =
            |name: &str| findings.iter().any(|finding| finding.rule.strip_prefix("stream/") == Some(name));
        for finding in &reader.session().findings {
            assert!(said(finding.name), "{name}: {finding} is not said: {findings:?}");
        }
        // The rows of all schema tables together are the records.
        let n_rows: usize = trace.details(0).map(|table| rows(&trace, table, Window::All).0.len()).sum();
        assert_eq!(n_rows, wanted, "{name}");
        for shard in trace.shards() {
            fuzz::same_records(&trace, shard);
        }
        assert!(
            !quipu_streamed::describe::lines(&quipu_streamed::describe::json(&trace).unwrap()).is_empty()
        );
    }
    assert!(n_samples >= 20, "{n_samples} samples");
}

#[test]
fn fields_of_all_types_keep_their_values() {
    let bytes = std::fs::read("../../traces/stream/all-types.quipu").unwrap();
    let trace = open(&bytes);
    let tables = trace.tables().unwrap();
    let table = tables.iter().position(|schema| schema.fields.len() > 20).unwrap();
    let names: BTreeSet<&str> = tables[table].fields.iter().map(|field| &*field.name).collect();
    assert_eq!(names.len(), tables[table].fields.len());
    let (lines, _) = rows(&trace, table, Window::All);
    let expected = std::fs::read("../../traces/stream/all-types.quipu.expect.json").unwrap();
    let expected: serde_json::Value = serde_json::from_slice(&expected).unwrap();
    let records = expected["records"].as_array().unwrap();
    assert_eq!(lines.len(), records.len());
    for (line, record) in lines.iter().zip(records) {
        for field in ["u8", "u16", "u32", "u64", "string", "pid"] {
            let value = record[field].to_string().replace('"', "");
            assert!(format!("{line} ").contains(&format!(" {field}={value} ")), "{field} is {value}: {line}");
        }
    }
}

/// A stream with accesses of two threads, and marks.
fn accesses(n: u64, codec: Codec, frame_bytes: usize) -> Vec<u8> {
    let writer = Writer::new(Vec::new(), Options { codec, frame_bytes, ..Options::new("test") });
    let names = vec![(0, "load".to_owned()), (1, "store".to_owned())];
    let spec = SchemaSpec::new("access")
        .field("tid", Ty::Uint(32))
        .role(role::TID)
        .field("addr", Ty::Address)
        .role(role::ADDRESS)
        .field("size", Ty::Uint(16))
        .role(role::ACCESS_SIZE)
        .field("kind", Ty::Enum { name: "kind".into(), base: Box::new(Ty::Uint(8)), names })
        .role(role::ACCESS_KIND);
    let access = writer.schema(&spec).unwrap();
    let mark = writer.schema(&SchemaSpec::new("phase").field("n", Ty::Uint(64)).role(role::COUNT)).unwrap();
    let mut stream = writer.stream(1).unwrap();
    for n in 0..n {
        if n % 100 == 99 {
            stream.row(mark, 10 * n, 8, |body| body.put(0, &n.to_le_bytes())).unwrap();
            continue;
        }
        stream
            .row(access, 10 * n, 24, |body| {
                body.put(0, &(7 + n as u32 / 50 % 2).to_le_bytes());
                body.put(8, &(0x1000 + 8 * n).to_le_bytes());
                body.put(16, &8_u16.to_le_bytes());
                body.put(18, &[u8::from(n % 3 == 0)]);
            })
            .unwrap();
    }
    stream.finish().unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn roles_fill_lenses() {
    let trace = open(&accesses(1000, Codec::Zstd(1), 5000));
    let columns = Columns::ACCESSES | Columns::THREADS | Columns::THREAD_CLOCK | Columns::MARKS;
    assert!(trace.columns().has(columns));
    let mut reader = trace.scan(&Scan::new(ShardId(0)).columns(columns)).unwrap();
    let (mut n_reads, mut n_writes, mut marks, mut threads) = (0, 0, Vec::new(), BTreeSet::new());
    let mut next = 0;
    while let Some(batch) = reader.read().unwrap() {
        assert_eq!(batch.span.first_record, next);
        next += u64::from(batch.span.records);
        threads.insert(batch.span.thread.tid);
        n_reads += batch.accesses.kind.iter().filter(|kind| **kind == AccessKind::Read).count();
        n_writes += batch.accesses.kind.iter().filter(|kind| **kind == AccessKind::Write).count();
        for row in 0..batch.marks.kind.len() {
            marks.push((trace.mark_name(batch.marks.kind[row]).into_owned(), batch.marks.value[row]));
        }
    }
    assert_eq!((next, n_reads + n_writes, marks.len()), (1000, 990, 10));
    assert_eq!(marks[3], ("phase".to_owned(), 399));
    assert!(threads.is_superset(&[7, 8].into()), "{threads:?}");
}

#[test]
fn a_window_in_the_middle_reads_little_of_the_file() {
    let bytes = accesses(4_000_000, Codec::None, 256 << 10);
    let trace = open(&bytes);
    let wanted = 2_000_000..2_000_010;
    let (lines, findings) = rows(&trace, 0, Window::Records(wanted.clone()));
    assert_eq!((lines.len(), findings.len()), (10, 0));
    assert!(lines[0].starts_with("record=2000001 time=20000000 "), "{}", lines[0]);
    let n_read = trace.n_bytes_read();
    assert!(n_read * 100 < bytes.len() as u64, "{n_read} of {} bytes", bytes.len());
    let (by_clock, _) = rows(&trace, 0, Window::Clock(20_000_000..20_000_100));
    assert_eq!(by_clock, lines);
}

#[test]
fn pieces_are_frames_that_can_be_read_alone() {
    let trace = open(&accesses(20_000, Codec::Lz4, 30_000));
    let n_pieces = trace.shards()[0].pieces;
    assert!(n_pieces > 10);
    let (whole, _) = rows(&trace, 0, Window::All);
    let mut parts = 0;
    for piece in 0..n_pieces {
        let scan = Scan { tables: vec![0], pieces: Some(piece..piece + 1), ..Scan::new(ShardId(0)) };
        let mut reader = trace.scan(&scan).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            assert_eq!(batch.span.first_record, parts);
            parts += u64::from(batch.span.records);
        }
    }
    assert_eq!(parts, whole.len() as u64);
}

#[test]
fn check_says_what_is_wrong_with_frames_that_an_index_hides() {
    let mut bytes = accesses(10_000, Codec::None, 30_000);
    let report = |bytes: &[u8]| {
        let trace = open(bytes);
        let check = &quipu_streamed::check::CHECK;
        let mut pass = check.build(&quipu_model::Options::default(), &trace).unwrap();
        for shard in trace.shards() {
            let mut reader = trace.scan(&Scan::new(shard.id)).unwrap();
            let mut fork = pass.fork(shard);
            while let Some(batch) = reader.read().unwrap() {
                fork.consume(batch).unwrap();
            }
            pass.merge(fork).unwrap();
        }
        let report = pass.finish().unwrap();
        let rules: Vec<String> = report.findings().iter().map(|finding| finding.rule.to_string()).collect();
        (rules, report.is_flawed())
    };
    assert_eq!(report(&bytes), (vec![], false));
    let whole = bytes.clone();
    let survey = quipu_stream::survey::Survey::of_headers(&mut &whole[..], &Default::default()).unwrap();
    let frames: Vec<usize> = survey.session.frames().iter().map(|frame| frame.offset as usize).collect();
    // Flips a bit in the payload, the header and the trailer of each frame: an index must hide none of it.
    let mut hidden = Vec::new();
    for (n, at) in frames.iter().enumerate() {
        let end = frames.get(n + 1).copied().unwrap_or(whole.len());
        for (place, rule) in [
            ((at + 96 + end - 8) / 2, "stream/payload-crc"),
            (at + 40, "stream/lost-sync"),
            (end - 3, "stream/torn-frame"),
        ] {
            bytes.copy_from_slice(&whole);
            bytes[place] ^= 1;
            let (rules, is_flawed) = report(&bytes);
            // Bytes before the first whole frame break another rule. Readers do not need the payloads of the index and the
            // end.
            let is_auxiliary = n + 2 >= frames.len() && rule == "stream/payload-crc";
            let rule = if is_auxiliary { "stream/auxiliary-frame" } else { rule };
            let is_said =
                rules.iter().any(|said| said == rule || (*at == 0 && said == "stream/leading-garbage"));
            if !is_said || is_flawed == is_auxiliary && *at > 0 {
                hidden.push(format!("frame {n}, byte {place}: {rules:?}"));
            }
        }
    }
    assert!(hidden.is_empty(), "{} of {} frames: {hidden:#?}", hidden.len(), frames.len());
}

/// Bytes, and the number of bytes read.
struct Counted(Vec<u8>, std::sync::atomic::AtomicU64);

impl quipu_source::Content for Counted {
    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> std::io::Result<usize> {
        let rest = self.0.get(at as usize..).unwrap_or_default();
        let n = rest.len().min(out.len());
        out[..n].copy_from_slice(&rest[..n]);
        self.1.fetch_add(n as u64, std::sync::atomic::Ordering::Relaxed);
        Ok(n)
    }
}

#[test]
fn a_stream_is_looked_at_once_whatever_is_asked_of_it() {
    let mut bytes = accesses(100_000, Codec::None, 2000);
    // Without the end, no index is found.
    bytes.truncate(bytes.len() - 8);
    let counted = std::sync::Arc::new(Counted(bytes, Default::default()));
    let source = Source::of_content("stream", counted.clone());
    let n_read = || counted.1.load(std::sync::atomic::Ordering::Relaxed);
    assert!(STREAM.carried(&source).unwrap().is_empty());
    let first = n_read();
    let trace = trace::open(&source, &OpenOptions::default()).unwrap();
    assert_eq!(rows(&trace, 0, Window::Records(0..1)).0.len(), 1);
    let opened = n_read();
    assert!(opened < first + first / 4, "{first} bytes were read first, then {}", opened - first);
    // Describing reads the rows once, for the remarks between them and for damage, and nothing else.
    STREAM.describe(&source.clone(), &OpenOptions::default()).unwrap();
    let described = n_read() - opened;
    assert!(described < 2 * first + first / 4, "{first} bytes were read first, then {described} for all");
}

#[test]
fn a_name_tells_what_a_file_is_whose_first_frames_are_damaged() {
    let mut bytes = accesses(20_000, Codec::None, 30_000);
    bytes[..100_000].fill(0xaa);
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, &bytes).unwrap();
        Source::open(&path).unwrap()
    };
    assert_eq!(STREAM.probe(&of("a.trace")), Confidence::No);
    let named = of("a.quipu");
    assert_eq!(STREAM.probe(&named), Confidence::Maybe);
    let trace = trace::open(&named, &OpenOptions::default()).unwrap();
    assert!(trace.meta().findings.iter().any(|finding| finding.rule == "stream/leading-garbage"));
    // The first frame, now lost, described the records.
    assert!(rows(&trace, 0, Window::All).1.iter().any(|finding| finding.rule == "stream/metadata-gap"));
}

#[test]
fn pipes_and_packed_files_are_streams_too() {
    let bytes = std::fs::read("../../traces/stream/minimal.quipu").unwrap();
    let (wanted, _) = rows(&open(&bytes), 0, Window::All);
    let pipe = Source::from_reader("pipe", std::io::Cursor::new(bytes.clone()));
    assert_eq!(STREAM.probe(&pipe), Confidence::Sure);
    let trace = trace::open(&pipe, &OpenOptions::default()).unwrap();
    assert_eq!(rows(&trace, 0, Window::All).0, wanted);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packed");
    let mut packer = GzEncoder::new(std::fs::File::create(&path).unwrap(), Compression::fast());
    packer.write_all(&bytes).unwrap();
    packer.finish().unwrap();
    let packed = Source::open(&path).unwrap();
    assert_eq!(STREAM.probe(&packed), Confidence::Sure);
    let trace = trace::open(&packed, &OpenOptions::default()).unwrap();
    assert_eq!(rows(&trace, 0, Window::All).0, wanted);
}

#[test]
fn records_of_several_producers_are_in_the_order_of_unix_time() {
    let bytes = std::fs::read("../../traces/stream/two-producers.quipu").unwrap();
    let trace = open(&bytes);
    assert_eq!(
        trace.meta().clock.map(|clock| (clock.per_second, clock.unix_epoch)),
        Some((1_000_000_000, Some(0)))
    );
    let mut times = Vec::new();
    for shard in trace.shards() {
        let scan = Scan { cut: quipu_model::Cut::CLOCK, tables: vec![0], ..Scan::new(shard.id) };
        let mut reader = trace.scan(&scan).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            times.push((batch.span.opens.unwrap(), shard.id, batch.span.first_record, batch.span.records));
        }
    }
    times.sort_unstable();
    // The expected records according to the container reader, ordered by clock instead of ticks, as the description of the
    // sample says.
    let mut wanted = Vec::new();
    let mut reader = StreamReader::new(&bytes[..]);
    while let Some(part) = reader.next_part().unwrap() {
        let Content::Rows(batch) = part.content else { continue };
        let producer = part.header.producer;
        for (rows, row) in batch.in_order() {
            wanted.push((producer, rows.times[row]));
        }
    }
    let session = reader.session();
    let unix = |(producer, ticks): (u64, u64)| {
        let (id, epoch) = session.epochs().range((producer, 0)..=(producer, u32::MAX)).next_back().unwrap();
        let clock = epoch.metadata.clock(1).unwrap();
        let own = session.clocks().into_iter().filter(|at| at.from.0 == id.0 && at.clock == clock.id);
        let ns = quipu_stream::clock::Timeline::new(clock, own).unix_ns(ticks).unwrap().0;
        u64::try_from(ns).unwrap()
    };
    let ticks: Vec<u64> = wanted.iter().map(|(_, ticks)| *ticks).collect();
    let mut wanted: Vec<(u64, u64)> = wanted.into_iter().map(|record| (unix(record), record.0)).collect();
    wanted.sort_unstable();
    assert!(!ticks.is_sorted(), "the sample has them in another order: {ticks:?}");
    assert_eq!(
        times.iter().map(|(ns, ..)| *ns).collect::<Vec<_>>(),
        wanted.iter().map(|(ns, _)| *ns).collect::<Vec<_>>()
    );
    // The ticks of the other host are small, but its records come last.
    assert_ne!(wanted[0].1, wanted[wanted.len() - 1].1);
    assert_ne!(times[0].1, times[times.len() - 1].1);
    assert!(times.iter().all(|(ns, ..)| (1_577_836_800..1_577_836_900).contains(&(ns / 1_000_000_000))));
}

/// Runs a transform of the format.
fn transformed(
    name: &str,
    source: &Source,
    given: &[(&str, &str)],
    output: &Path,
) -> quipu_model::Result<quipu_model::transform::Transformed> {
    let transform = STREAM.transforms().iter().find(|one| one.info().name == name).unwrap();
    let given: quipu_model::Given =
        given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let opening = OpenOptions::default();
    let job = quipu_model::transform::TransformJob {
        source,
        opening: &opening,
        options: &transform.info().parse("stream", &given).unwrap(),
        output,
        replace: false,
        container: None,
        level: None,
        damaged: quipu_model::Damaged::Refuse,
        strict: false,
        threads: 1,
        sequence: &quipu_model::transform::OneShard,
    };
    transform.run(&job, &quipu_model::transform::Silent)
}

/// The contents of the records of a file, without their numbers.
fn said(path: &Path) -> Vec<String> {
    let trace = trace::open(&Source::open(path).unwrap(), &OpenOptions::default()).unwrap();
    let (lines, findings) = rows(&trace, 0, Window::All);
    assert!(
        findings.iter().all(|finding| finding.rule == "stream/order-of-producers"),
        "{path:?}: {findings:?}"
    );
    lines.into_iter().map(|line| line.split_once(" time=").unwrap().1.to_owned()).collect()
}

#[test]
fn a_part_of_a_stream_is_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole.quipu");
    std::fs::write(&whole, accesses(20_000, Codec::Lz4, 30_000)).unwrap();
    let (source, all) = (Source::open(&whole).unwrap(), said(&whole));
    let parts = [
        (&[("skip", "3"), ("take", "5000")][..], 3..5003),
        (&[("skip", "19990")], 19_990..20_000),
        (&[("since", "100000"), ("until", "100500")], 10_000..10_050),
        (&[("take", "1")], 0..1),
    ];
    for (n, (given, wanted)) in parts.into_iter().enumerate() {
        let output = folder.path().join(format!("{n}.quipu"));
        transformed("trim", &source, given, &output).unwrap();
        assert_eq!(said(&output), all[wanted], "{given:?}");
    }
    assert!(transformed("trim", &source, &[], &folder.path().join("none.quipu")).is_err());
    // Records of some kind.
    let output = folder.path().join("filtered.quipu");
    transformed("filter", &source, &[("drop", "access")], &output).unwrap();
    let marks: Vec<String> = all.iter().filter(|line| line.contains(" schema=phase ")).cloned().collect();
    assert_eq!((said(&output), marks.len()), (marks, 200));
    let unknown = transformed("filter", &source, &[("drop", "acces")], &folder.path().join("none.quipu"));
    assert!(unknown.unwrap_err().to_string().contains("`acces`"));
}

/// A stream of one host with this clock offset and uncertainty, and records at these ticks.
fn host(program: &str, unix_ns: i64, uncertainty_ns: u64, ticks: impl Iterator<Item = u64>) -> Vec<u8> {
    use quipu_stream::wire::record::{Clock, Stream};
    let options = Options { codec: Codec::None, frame_bytes: 200, ..Options::new(program) };
    let writer = Writer::new(Vec::new(), options);
    writer
        .define(Clock {
            id: 1,
            ticks_per_s: 1_000_000_000,
            unix_ns: Some(unix_ns),
            uncertainty_ns: Some(uncertainty_ns),
            ..Clock::default()
        })
        .unwrap();
    writer.define(Stream { number: 1, clock: Some(1), ..Stream::default() }).unwrap();
    let id = writer.schema(&SchemaSpec::new(program).field("n", Ty::Uint(64))).unwrap();
    let mut stream = writer.stream(1).unwrap();
    for tick in ticks {
        stream.row(id, tick, 8, |body| body.put(0, &tick.to_le_bytes())).unwrap();
    }
    stream.finish().unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn streams_of_several_hosts_become_one_in_the_order_of_their_clocks_and_come_apart_again() {
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    std::fs::create_dir(&hosts).unwrap();
    // The ticks of b are the same as those of a, but 50 µs later.
    std::fs::write(hosts.join("a.quipu"), host("a", 1_000_000_000, 40, (0..100).map(|n| 1000 * n))).unwrap();
    std::fs::write(hosts.join("b.quipu"), host("b", 1_000_050_000, 25, (0..100).map(|n| 1000 * n))).unwrap();
    let source = Source::open(&hosts).unwrap();
    assert_eq!(STREAM.probe(&source), Confidence::Sure);
    let merged = folder.path().join("merged.quipu");
    let done = transformed("merge", &source, &[], &merged).unwrap();
    let open = "pairs of frames of different producers overlap, the first at offset 0x";
    assert!(done.notes.len() == 1 && done.notes[0].contains(open), "{:?}", done.notes);
    let bytes = std::fs::read(&merged).unwrap();
    let mut reader = StreamReader::new(&bytes[..]);
    let mut schemas = Vec::new();
    while let Some(part) = reader.next_part().unwrap() {
        let Content::Rows(batch) = part.content else { continue };
        schemas.push((batch.in_order().next().unwrap().0.schema.name().to_owned(), part.header.ts_first));
    }
    assert_eq!(reader.session().findings, []);
    // Frames are in the order of Unix time; those of the two hosts alternate.
    let unix = |(name, ticks): &(String, u64)| ticks + if name == "b" { 50_000 } else { 0 };
    assert!(schemas.iter().map(unix).is_sorted(), "{schemas:?}");
    assert!(schemas.windows(2).filter(|pair| pair[0].0 != pair[1].0).count() > 5, "{schemas:?}");
    let mut all = said(&merged);
    let apart = folder.path().join("apart");
    transformed("split", &Source::open(&merged).unwrap(), &[], &apart).unwrap();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&apart).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 2);
    let mut parts: Vec<String> = files.iter().flat_map(|path| said(path)).collect();
    all.sort();
    parts.sort();
    assert_eq!(parts, all);
}

/// Frames other than metadata and those that a copy writes anew: kind, stream, number of records and checksum.
fn payloads(bytes: &[u8]) -> Vec<(u8, u32, u32, u32)> {
    let (mut scanner, mut input) = (Scanner::new(), bytes);
    let mut all = Vec::new();
    while let Some(FrameAt { header, .. }) = scanner.next(&mut input).unwrap() {
        if !matches!(header.kind, kind::META | kind::INDEX | kind::PAD | kind::END) {
            all.push((header.kind, header.stream, header.records, header.payload_crc));
        }
    }
    all
}

#[test]
fn a_copy_keeps_what_a_producer_says_it_lost_and_what_only_others_read() {
    let folder = tempfile::tempdir().unwrap();
    for (name, word) in
        [("minimal", "dropped"), ("clock-blob-pad", "dropped"), ("unknown-kinds", "unknown kind")]
    {
        let whole = format!("../../traces/stream/{name}.quipu");
        let output = folder.path().join(name);
        let done = transformed("convert", &Source::open(Path::new(&whole)).unwrap(), &[], &output).unwrap();
        assert!(done.notes.iter().any(|note| note.contains(word)), "{name}: {:?}", done.notes);
        assert_eq!(done.reading.doubtful_from, None, "{name}");
        let frames = payloads(&std::fs::read(&output).unwrap());
        assert_eq!(frames, payloads(&std::fs::read(&whole).unwrap()), "{name}");
    }
    // Damage is refused by default.
    let damaged = Source::open(Path::new("../../traces/stream/payload-bitflip.quipu")).unwrap();
    assert!(transformed("convert", &damaged, &[], &folder.path().join("none")).is_err());
}

#[test]
fn a_part_of_a_split_has_aggregations_and_bodies_too() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["agg-rows", "arrow-body", "dtrace-agg_scalar"] {
        let whole = std::fs::read(format!("../../traces/stream/{name}.quipu")).unwrap();
        let apart = folder.path().join(name);
        transformed("split", &Source::from_bytes(name, &*whole), &[], &apart).unwrap();
        let mut parts: Vec<_> = std::fs::read_dir(&apart)
            .unwrap()
            .flat_map(|entry| payloads(&std::fs::read(entry.unwrap().path()).unwrap()))
            .collect();
        let mut all = payloads(&whole);
        // Frames that concern all streams are in each file.
        let is_of_one = |frame: &(u8, u32, u32, u32)| matches!(frame.0, kind::DATA | kind::AGG);
        all.retain(is_of_one);
        parts.retain(is_of_one);
        all.sort_unstable();
        parts.sort_unstable();
        assert!(!all.is_empty(), "{name}");
        assert_eq!(parts, all, "{name}");
    }
}

/// The report of `aggregations` as JSON, and its findings.
fn aggregations_of(bytes: &[u8]) -> (serde_json::Value, Vec<Finding>) {
    let trace = open(bytes);
    let tool = STREAM.tools().iter().find(|tool| tool.info().name == "aggregations").unwrap();
    let pass = tool.build(&quipu_model::Options::default(), &trace).unwrap();
    let report = pass.finish().unwrap();
    (report.json(), report.findings())
}

#[test]
fn aggregations_come_to_what_the_sample_expects() {
    let text = std::fs::read_to_string("../../traces/stream/agg-rows.quipu.expect.json").unwrap();
    let wanted: serde_json::Value = serde_json::from_str(&text).unwrap();
    let bytes = std::fs::read("../../traces/stream/agg-rows.quipu").unwrap();
    let (said, findings) = aggregations_of(&bytes);
    assert_eq!(findings, []);
    let mut n_compared = 0;
    for variable in said["variables"].as_array().unwrap() {
        let merged = &wanted["merged"][variable["name"].as_str().unwrap()];
        for key in variable["keys"].as_array().unwrap() {
            let cells = key["cells"].as_array().unwrap();
            let there = if key["key"] == "" { merged } else { &merged[key["key"].as_str().unwrap()] };
            let total = match there.as_object() {
                None => there.as_i64(),
                Some(all) => {
                    assert_eq!(all.len(), cells.len());
                    for cell in cells {
                        let label = match cell["bound"].as_i64().unwrap() {
                            i64::MIN => "<0".to_owned(),
                            64 => ">=64".to_owned(),
                            bound => bound.to_string(),
                        };
                        assert_eq!(all[&label], cell["count"], "{label}");
                    }
                    Some(all.values().filter_map(serde_json::Value::as_i64).sum())
                }
            };
            assert_eq!(key["value"].as_i64(), total, "{variable}");
            n_compared += 1;
        }
    }
    assert_eq!(n_compared, 4);
    // A damaged frame is left out and reported.
    let at = payloads_at(&bytes, kind::AGG);
    let mut damaged = bytes.clone();
    damaged[at] ^= 1;
    let (less, findings) = aggregations_of(&damaged);
    assert_ne!(less, said);
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].rule, "stream/payload-crc");
}

/// Offset of the payload of the first frame of a kind.
fn payloads_at(bytes: &[u8], kind: u8) -> usize {
    let (mut scanner, mut input) = (Scanner::new(), bytes);
    while let Some(frame) = scanner.next(&mut input).unwrap() {
        if frame.header.kind == kind {
            return frame.payload_at() as usize;
        }
    }
    panic!("there is no such frame")
}

#[test]
fn segments_of_a_flight_recorder_are_one_stream() {
    let folder = tempfile::tempdir().unwrap();
    let segments = quipu_stream::recorder::Segments::new(folder.path(), 2, 20_000).unwrap();
    let options =
        Options { codec: Codec::None, frame_bytes: 2000, snapshot_bytes: 10_000, ..Options::new("test") };
    let writer = Writer::new(segments, options);
    let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
    let mut stream = writer.stream(1).unwrap();
    for n in 0..20_000_u64 {
        stream.row(id, n, 8, |body| body.put(0, &n.to_le_bytes())).unwrap();
    }
    stream.finish().unwrap();
    writer.finish().unwrap();
    let source = Source::open(folder.path()).unwrap();
    assert_eq!(STREAM.probe(&source), Confidence::Sure);
    let trace = trace::open(&source, &OpenOptions::default()).unwrap();
    let (lines, findings) = rows(&trace, 0, Window::All);
    let n = lines.len() as u64;
    assert!((500..10_000).contains(&n) && lines[n as usize - 1].contains(" time=19999 "), "{n}");
    let lost: Vec<&Finding> = findings.iter().filter(|finding| finding.rule == "stream/lost").collect();
    let said = format!("the producer dropped {} records of stream 1 before this frame", 20_000 - n);
    assert_eq!(lost.iter().map(|finding| finding.message.clone()).collect::<Vec<_>>(), [said]);
}

#[test]
fn losses_after_the_last_frame_are_said_once() {
    use quipu_stream::loss::Loss;
    for with_index in [true, false] {
        let writer = Writer::new(Vec::new(), Options { with_index, ..Options::new("test") });
        let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
        let loss = |records: u64| Loss { cause: 1, records: Some(records), ..Loss::default() };
        let mut stream = writer.stream(1).unwrap();
        // The header of the frame after this loss states it, too.
        writer.loss(1, &loss(5)).unwrap();
        stream.lose(5);
        stream.row(id, 1, 8, |_| {}).unwrap();
        stream.finish().unwrap();
        writer.loss(1, &loss(3)).unwrap();
        writer.loss(2, &loss(9)).unwrap();
        writer.finish().unwrap();
        let trace = open(&writer.into_inner().unwrap());
        let (_, findings) = rows(&trace, 0, Window::All);
        let mut said: Vec<String> = findings.into_iter().map(|finding| finding.message.to_string()).collect();
        said.sort();
        let wanted = [
            "the producer dropped 3 records of stream 1 after its last frame",
            "the producer dropped 5 records of stream 1 before this frame",
            "the producer dropped 9 records of stream 2 after its last frame",
        ];
        assert_eq!(said, wanted, "with an index: {with_index}");
    }
}

/// The printed rows of a trace that pass a predicate.
fn printed(trace: &StreamTrace, predicate: &Predicate, window: Window) -> Vec<String> {
    let mut sieve = Sieve::new(predicate, trace, 0).unwrap();
    let mut printer = trace.printer(&Default::default()).unwrap();
    let (mut out, mut chosen) = (Vec::new(), Vec::new());
    for shard in trace.shards() {
        let tables = std::iter::once(0).chain(sieve.tables()).collect();
        let scan = Scan { tables, window: window.clone(), ..Scan::new(shard.id) };
        let mut reader = trace.scan(&scan).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            sieve.choose(batch, Ordinals::default(), &mut chosen).unwrap();
            printer.print(batch, &chosen, Ordinals::default(), &Paint::PLAIN, &mut out);
        }
    }
    String::from_utf8(out).unwrap().lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn rows_of_all_records_are_chosen_by_what_their_own_schemas_have() {
    let trace = open(&accesses(1000, Codec::Zstd(1), 5000));
    let numbers = |predicate: Predicate| -> Vec<u64> {
        let lines = printed(&trace, &predicate, Window::All);
        lines.iter().map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect()
    };
    // Record n + 1 is an access of eight bytes at 0x1000 + 8 n, except that every hundredth record is a mark.
    let is_mark = |n: &u64| n % 100 == 99;
    let addr = Some(0x1000 + 8 * 97 + 7..=0x1000 + 8 * 100);
    let by_addr = Predicate { addr: addr.clone(), ..Predicate::default() };
    assert_eq!(numbers(by_addr.clone()), [98, 99, 101], "a mark has no address");
    let kinds = |words: &[&str]| Predicate {
        kinds: words.iter().map(|word| (*word).to_owned()).collect(),
        ..Predicate::default()
    };
    let stores: Vec<u64> = (0..1000).filter(|n| n % 3 == 0 && !is_mark(n)).map(|n| n + 1).collect();
    assert_eq!(numbers(kinds(&["store"])), stores);
    let marks: Vec<u64> = (0..1000).filter(is_mark).map(|n| n + 1).collect();
    assert_eq!(numbers(kinds(&["phase"])), marks, "the name of a schema is a kind");
    assert_eq!(numbers(kinds(&["phase", "access"])).len(), 1000);
    assert_eq!(numbers(Predicate { kinds: kinds(&["load"]).kinds, ..by_addr.clone() }), [98, 99, 101]);
    let of_thread = Predicate { threads: vec![7.into()], ..by_addr };
    assert_eq!(numbers(of_thread), [101]);
    let refused = |predicate: Predicate| Sieve::new(&predicate, &trace, 0).unwrap_err();
    let error = refused(kinds(&["stoer"]));
    assert_eq!(error.advice(), Some("kinds: access, phase, load, store"));
    let error = refused(Predicate { pc: Some(0..=1), ..Predicate::default() });
    assert_eq!(error.message(), "rows of table `records` cannot be chosen by `pc`");
}

#[test]
fn ranges_fill_accesses_in_pieces_and_one_beyond_the_limit_is_found_by_every_read() {
    let writer = Writer::new(Vec::new(), Options { codec: Codec::None, ..Options::new("test") });
    let names = vec![(0, "read".to_owned()), (4, "flush-data".to_owned())];
    let spec = SchemaSpec::new("copy")
        .field("addr", Ty::Address)
        .role(role::ADDRESS)
        .field("size", Ty::Uint(64))
        .role(role::ACCESS_SIZE)
        .field("kind", Ty::Enum { name: "kind".into(), base: Box::new(Ty::Uint(8)), names })
        .role(role::ACCESS_KIND);
    let copy = writer.schema(&SchemaSpec { category: Some("range".to_owned()), ..spec }).unwrap();
    let mut stream = writer.stream(1).unwrap();
    let first = [(8, 0), (MAX_RANGE_BYTES, 0), (MAX_RANGE_BYTES + 1, 0), (u64::MAX, 4), (8, 0)];
    let rows = first.into_iter().chain([(MAX_RANGE_BYTES, 0); 10]);
    for (nth, (size, kind)) in (0_u64..).zip(rows) {
        let row = stream.row(copy, nth, 24, |body| {
            body.put(0, &(nth << 32).to_le_bytes());
            body.put(8, &size.to_le_bytes());
            body.put(16, &[kind]);
        });
        row.unwrap();
    }
    stream.finish().unwrap();
    writer.finish().unwrap();
    let trace = open(&writer.into_inner().unwrap());
    let all: Vec<[Option<u64>; 2]> = [Columns::NONE, Columns::ACCESSES]
        .into_iter()
        .map(|columns| {
            let mut reader = trace.scan(&Scan::new(ShardId(0)).columns(columns)).unwrap();
            let (mut sizes, mut found, mut n_records) = (Vec::new(), Vec::new(), 0);
            while let Some(batch) = reader.read().unwrap() {
                // Records of many pieces do not share a batch, so that a run can be interrupted between them.
                assert!(batch.accesses.size.len() < 100, "{} accesses", batch.accesses.size.len());
                sizes.extend_from_slice(&batch.accesses.size);
                n_records += batch.span.records;
                found.append(&mut batch.findings);
            }
            assert_eq!(n_records, 15);
            if columns == Columns::ACCESSES {
                let pieces = [MAX_ACCESS_BYTES; 16];
                let first = [&[8][..], &pieces, &[u32::MAX, 8]].concat();
                assert_eq!(sizes, [first, pieces.repeat(10)].concat());
            }
            let [found] = &found[..] else { panic!("{found:?}") };
            assert!(found.message.contains("an access of 16777217 bytes"), "{found:?}");
            [found.place.offset, found.place.record]
        })
        .collect();
    assert_eq!(all[0], all[1]);
    assert!(all[0][0].is_some() && all[0][1] == Some(2), "{all:?}");
}

#[test]
fn remarks_between_records_are_shown_at_their_places() {
    let writer = Writer::new(Vec::new(), Options::new("test"));
    let tick = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
    let mut stream = writer.stream(1).unwrap();
    let row = |schema: u32, time: u64, body: &[u8]| {
        let size = (16 + body.len()).next_multiple_of(8);
        let mut row = [&schema.to_le_bytes()[..], &(size as u32).to_le_bytes()].concat();
        row.extend_from_slice(&time.to_le_bytes());
        row.extend_from_slice(body);
        row.resize(size, 0);
        row
    };
    // A CBOR text.
    let remark = |time: u64, text: &str| {
        let mut body = vec![0x60 + text.len() as u8];
        body.extend_from_slice(text.as_bytes());
        row(4, time, &body)
    };
    let tick = |n: u64| row(tick, 10 * n, &n.to_le_bytes());
    let first = [remark(1, "begins"), tick(1), tick(2), remark(25, "two\nlines"), tick(3)].concat();
    stream.foreign(encoding::PLAIN, 3, (1, 30), &first).unwrap();
    let second = [remark(35, "of the next"), tick(4), remark(45, "ends")].concat();
    stream.foreign(encoding::PLAIN, 1, (35, 45), &second).unwrap();
    stream.finish().unwrap();
    writer.finish().unwrap();
    let trace = open(&writer.into_inner().unwrap());
    let said = |window: Window| -> Vec<String> {
        let lines = printed(&trace, &Predicate::default(), window);
        lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    let all = [
        "1 remark begins",
        "1 10 1 tick n=1",
        "2 20 1 tick n=2",
        "25 remark two\\x0alines",
        "3 30 1 tick n=3",
        "35 remark of the next",
        "4 40 1 tick n=4",
        "45 remark ends",
    ];
    assert_eq!(said(Window::All), all);
    // A part includes the remarks before its records.
    assert_eq!(said(Window::Records(2..3)), &all[3..5]);
    let described = quipu_streamed::describe::json(&trace).unwrap();
    let remarks: Vec<String> = described["remarks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|remark| format!("{} {} {}", remark["records_before"], remark["time"], remark["text"]))
        .collect();
    assert_eq!(remarks, ["0 1 \"begins\"", "2 25 \"two\\nlines\"", "3 35 \"of the next\"", "4 45 \"ends\""]);
    assert_eq!(described["unread_frames"], 0);
    assert!(quipu_streamed::describe::lines(&described).contains("text=ends"));
}

#[test]
fn rows_in_a_body_of_arrow_are_those_that_its_schema_has() {
    let bytes = std::fs::read("../../traces/stream/arrow-body.quipu").unwrap();
    let text = std::fs::read_to_string("../../traces/stream/arrow-body.quipu.expect.json").unwrap();
    let wanted: serde_json::Value = serde_json::from_str(&text).unwrap();
    let wanted = wanted["records"].as_array().unwrap();
    let trace = STREAM.open(&Source::from_bytes("arrow-body", bytes), &OpenOptions::default()).unwrap();
    assert_eq!(trace.meta().findings, []);
    let tables = trace.tables().unwrap();
    let mut n_rows = 0;
    for (at, schema) in tables.iter().enumerate().skip(1) {
        let mut reader = trace.scan(&Scan { tables: vec![at], ..Scan::new(ShardId(0)) }).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            assert!(batch.findings.is_empty(), "{:?}", batch.findings);
            let rows = &batch.tables[0];
            for row in 0..rows.n_rows() {
                let record = rows.column(0).number(row) as usize;
                let said = &wanted[record - 1];
                assert_eq!(said["schema"].as_str(), Some(&*schema.name), "{said}");
                assert_eq!(said["ts"].as_u64(), Some(rows.column(1).number(row)), "{said}");
                for (column, field) in schema.fields.iter().enumerate().skip(2) {
                    let number = said[&*field.name].as_u64();
                    let name = said[&*field.name].as_str();
                    match &field.ty {
                        quipu_model::schema::Type::Enum(names) => {
                            let own = names.get(rows.column(column).number(row));
                            assert!(name.is_none() || own == name, "{said} {}", field.name);
                        }
                        _ => assert!(
                            number.is_none_or(|n| n == rows.column(column).number(row)),
                            "{said} {}",
                            field.name
                        ),
                    }
                }
                n_rows += 1;
            }
        }
    }
    assert_eq!(n_rows, wanted.len());
}
