//! All tests of the crate from outside: one program, since linking takes longer than most tests.

#![allow(clippy::unwrap_used, unreachable_pub)]

use flate2::Compression;
use flate2::write::GzEncoder;
use quipu_model::lens::AccessKind;
use quipu_model::{Columns, Confidence, Finding, Format, OpenOptions, Scan, ShardId, Tool, Trace, Window};
use quipu_source::Source;
use quipu_stream::codec::Codec;
use quipu_stream::reader::{Content, StreamReader};
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

/// All that a trace has in one table, as lines, and what was found.
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
        let mut reader = StreamReader::new(&bytes[..]);
        let mut wanted = 0;
        while let Some(part) = reader.next_part().unwrap() {
            if let Content::Rows(batch) = part.content {
                wanted += batch.n_rows();
            }
        }
        let (lines, findings) = rows(&trace, 0, Window::All);
        assert_eq!(lines.len(), wanted, "{name}: {findings:?}");
        // What the container says is wrong is said here, too.
        let said =
            |name: &str| findings.iter().any(|finding| finding.rule.strip_prefix("stream/") == Some(name));
        for finding in &reader.session().findings {
            assert!(said(finding.name), "{name}: {finding} is not said: {findings:?}");
        }
        // Rows of all tables together are the records.
        let n_tables = trace.tables().unwrap().len();
        let n_rows: usize = (1..n_tables).map(|table| rows(&trace, table, Window::All).0.len()).sum();
        assert_eq!(n_rows, wanted, "{name}");
        for shard in trace.shards() {
            fuzz::same_records(&trace, shard);
        }
        assert!(!quipu_streamed::describe::lines(&trace).is_empty());
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

/// A stream of accesses of two threads, and of marks.
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
        let check = &quipu_streamed::check::Check;
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
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let (rules, is_flawed) = report(&bytes);
    assert!(is_flawed && rules.contains(&"stream/payload-crc".to_owned()), "{rules:?}");
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
    // What describes the records is lost with the first frame.
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
    for shard in trace.shards() {
        let scan = Scan { cut: quipu_model::Cut::CLOCK, ..Scan::new(shard.id) };
        let mut reader = trace.scan(&scan).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            let second = batch.span.opens.unwrap() / 1_000_000_000;
            assert!((1_577_836_800..1_577_836_900).contains(&second), "{second}");
        }
    }
}
