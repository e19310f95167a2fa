//! Round trips: any schema, any encoding, many threads, epochs and attachments.

use crate::vectors::{findings_differ, summary_of};
use proptest::prelude::*;
use quipu_stream::batch::Batch;
use quipu_stream::codec::Codec;
use quipu_stream::column::Column;
use quipu_stream::datum::{Datum, of_column};
use quipu_stream::decode::{Registry, RowDecoder};
use quipu_stream::frame::{Header, SYNC, encoding, kind};
use quipu_stream::loss::Loss;
use quipu_stream::meta::Metadata;
use quipu_stream::pack::PackedRows;
use quipu_stream::reader::{Content, StreamReader};
use quipu_stream::record::{FieldValue, Record};
use quipu_stream::schema::Schema;
use quipu_stream::spec::{SchemaSpec, Ty};
use quipu_stream::wire::cbor::Value;
use quipu_stream::wire::crc32c;
use quipu_stream::work::Worker;
use quipu_stream::write::{Options, Writer};
use std::sync::Arc;

fn options(codec: Codec) -> Options {
    Options { codec, ..Options::new("test 1.0") }
}

/// A pseudo-random number generator.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 ^ self.0 >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) ^ self.0 >> 32
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

fn any_type(numbers: &mut Numbers, depth: u32) -> Ty {
    let inner = |numbers: &mut Numbers| Box::new(any_type(numbers, depth - 1));
    let bits = [8, 16, 32, 64, 128][numbers.below(5) as usize];
    match numbers.below(if depth == 0 { 12 } else { 17 }) {
        0 | 1 => Ty::Uint(bits),
        2 | 3 => Ty::Sint(bits),
        4 => Ty::Float([16, 32, 64][numbers.below(3) as usize]),
        5 => Ty::Bool,
        6 => Ty::Text,
        7 => Ty::Bytes,
        8 => Ty::Fixed(1 + numbers.below(20) as u32),
        9 => Ty::Address,
        10 => Ty::Stack,
        11 => Ty::Enum {
            name: "e".into(),
            base: Box::new(Ty::Uint(8)),
            names: vec![(0, "zero".into()), (1, "one".into())],
        },
        12 => Ty::Vector(inner(numbers)),
        13 => Ty::Optional(inner(numbers)),
        14 => {
            let n = 1 + numbers.below(3) as u32;
            Ty::Array(inner(numbers), n)
        }
        _ => {
            let n = 1 + numbers.below(3);
            Ty::Struct {
                name: "s".into(),
                members: (0..n).map(|n| (format!("m{n}"), *inner(numbers))).collect(),
            }
        }
    }
}

fn any_value(numbers: &mut Numbers, ty: &Ty) -> Datum {
    let int = |numbers: &mut Numbers, bits: u32, signed: bool| {
        let wide = u128::from(numbers.next()) << 64 | u128::from(numbers.next());
        let unused = 128 - bits + numbers.below(u64::from(bits)) as u32;
        Datum::Int(if signed {
            ((wide << unused) as i128 >> unused) as u128
        } else {
            wide << unused >> unused
        })
    };
    match ty {
        Ty::Uint(bits) => int(numbers, *bits, false),
        Ty::Sint(bits) => int(numbers, *bits, true),
        Ty::Float(bits) => Datum::Float(numbers.next() >> (64 - bits)),
        Ty::Bool => Datum::Bool(numbers.below(2) == 1),
        Ty::Text => {
            let n = numbers.below(9);
            Datum::Bytes((0..n).map(|_| b'a' + numbers.below(26) as u8).collect())
        }
        Ty::Bytes if numbers.below(4) == 0 => Datum::Bytes(SYNC.to_vec()),
        Ty::Bytes => Datum::Bytes(numbers.next().to_le_bytes()[..numbers.below(9) as usize].to_vec()),
        Ty::Fixed(n) => Datum::Bytes((0..*n).map(|_| numbers.next() as u8).collect()),
        Ty::Enum { .. } => Datum::Int(numbers.below(3).into()),
        Ty::Struct { members, .. } => {
            Datum::List(members.iter().map(|(_, ty)| any_value(numbers, ty)).collect())
        }
        Ty::Array(inner, n) => Datum::List((0..*n).map(|_| any_value(numbers, inner)).collect()),
        Ty::Vector(inner) => {
            let n = numbers.below(4);
            Datum::List((0..n).map(|_| any_value(numbers, inner)).collect())
        }
        Ty::Stack => {
            let n = numbers.below(4);
            Datum::List((0..n).map(|_| Datum::Int(numbers.next().into())).collect())
        }
        Ty::Optional(inner) => {
            Datum::Maybe((numbers.below(2) == 1).then(|| Box::new(any_value(numbers, inner))))
        }
        _ => Datum::Int(numbers.next().into()),
    }
}

/// A schema with a few fields; some of those that may be differences are.
fn any_schema(numbers: &mut Numbers, name: &str) -> SchemaSpec {
    let mut spec = SchemaSpec::new(name);
    for n in 0..1 + numbers.below(6) {
        let ty = any_type(numbers, 3);
        let may_be_delta = matches!(ty, Ty::Uint(_) | Ty::Sint(_) | Ty::Address | Ty::Enum { .. });
        spec = spec.field(&format!("f{n}"), ty);
        if may_be_delta && numbers.below(2) == 1 {
            spec = spec.delta();
        }
    }
    spec
}

type Rows = Vec<(u32, u64, Vec<Datum>)>;

fn read_rows(bytes: &[u8]) -> (Rows, Vec<String>) {
    let mut reader = StreamReader::new(bytes);
    let mut all = Vec::new();
    while let Some(part) = reader.next_part().unwrap() {
        let Content::Rows(batch) = part.content else { panic!("rows are expected") };
        for (rows, row) in batch.in_order() {
            let values = rows.columns.iter().map(|column| of_column(column, row)).collect();
            all.push((rows.schema.id(), rows.times[row], values));
        }
    }
    (all, reader.session().findings.iter().map(ToString::to_string).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn rows_of_any_schema_come_back_in_every_encoding(seed in any::<u64>()) {
        let mut numbers = Numbers(seed);
        let codec = [Codec::None, Codec::Lz4, Codec::Zstd(1)][numbers.below(3) as usize];
        let writer = Writer::new(Vec::new(), Options { frame_bytes: 2000, ..options(codec) });
        let specs: Vec<SchemaSpec> =
            (0..1 + numbers.below(3)).map(|n| any_schema(&mut numbers, &format!("schema {n}"))).collect();
        let ids: Vec<u32> = specs.iter().map(|spec| writer.schema(spec).unwrap()).collect();
        let metadata = writer.metadata();
        let schemas: Vec<Arc<Schema>> =
            ids.iter().map(|id| Arc::clone(metadata.schema(*id).expect("it was defined"))).collect();
        let mut stream = writer.stream(0).unwrap();
        let mut wanted = Vec::new();
        for how in [encoding::PLAIN, encoding::PACKED, encoding::RUNS] {
            let mut packed = PackedRows::default();
            for _ in 0..numbers.below(20) {
                let which = numbers.below(specs.len() as u64) as usize;
                let values: Vec<Datum> =
                    specs[which].fields.iter().map(|field| any_value(&mut numbers, &field.ty)).collect();
                // Sometimes a run of equal rows.
                for _ in 0..1 + numbers.below(2) * numbers.below(9) {
                    let time = numbers.next() >> numbers.below(64);
                    if how == encoding::PLAIN {
                        stream.values(&schemas[which], time, &values).unwrap();
                    } else {
                        packed.push(&schemas[which], time, values.clone()).unwrap();
                    }
                    wanted.push((ids[which], time, values.clone()));
                }
            }
            if !packed.is_empty() {
                let packed = packed.finish(how == encoding::RUNS);
                stream.packed(&packed, how == encoding::RUNS).unwrap();
            }
        }
        stream.finish().unwrap();
        writer.finish().unwrap();
        let bytes = writer.into_inner().unwrap();
        let (rows, findings) = read_rows(&bytes);
        prop_assert_eq!(findings, Vec::<String>::new());
        prop_assert_eq!(rows, wanted);
    }

    #[test]
    fn a_stream_that_is_turned_round_loses_no_record(seed in any::<u64>()) {
        let mut numbers = Numbers(seed);
        let writer = Writer::new(Vec::new(), options(Codec::None));
        let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
        for n in 0..20 {
            let mut stream = writer.stream(n % 3).unwrap();
            stream.row(id, n.into(), 8, |body| body.put(0, &u64::from(n).to_le_bytes())).unwrap();
            stream.finish().unwrap();
            if numbers.below(3) == 0 {
                writer.snapshot().unwrap();
            }
        }
        writer.finish().unwrap();
        let bytes = writer.into_inner().unwrap();
        let frames = StreamReaderFrames::of(&bytes);
        let cut = frames[numbers.below(frames.len() as u64) as usize] as usize;
        let turned = [&bytes[cut..], &bytes[..cut]].concat();
        let sorted = |bytes: &[u8]| {
            let mut rows = read_rows(bytes).0;
            rows.sort_by_key(|row| row.1);
            rows
        };
        prop_assert_eq!(sorted(&turned), sorted(&bytes));
    }
}

/// Offsets of frames.
struct StreamReaderFrames;

impl StreamReaderFrames {
    fn of(mut bytes: &[u8]) -> Vec<u64> {
        let mut scanner = quipu_stream::scan::Scanner::new();
        let mut frames = Vec::new();
        while let Some(frame) = scanner.next(&mut bytes).unwrap() {
            frames.push(frame.offset);
        }
        frames
    }
}

#[test]
fn loops_become_repetitions() {
    let writer = Writer::new(Vec::new(), options(Codec::None));
    let spec = SchemaSpec::new("access").field("addr", Ty::Address).delta().field("pc", Ty::Address).delta();
    let id = writer.schema(&spec).unwrap();
    let schema = Arc::clone(writer.metadata().schema(id).unwrap());
    let mut packed = PackedRows::default();
    for n in 0..100_000_u64 {
        for (pc, stride) in [(0x40_1000, 8), (0x40_1008, 4096)] {
            let values = vec![Datum::Int((0x1_0000 + n * stride).into()), Datum::Int(pc)];
            packed.push(&schema, 10 * n, values).unwrap();
        }
    }
    let packed = packed.finish(true);
    assert_eq!(packed.records, 200_000);
    assert!(packed.payload.len() < 80, "{} bytes", packed.payload.len());
    let mut stream = writer.stream(0).unwrap();
    stream.packed(&packed, true).unwrap();
    stream.finish().unwrap();
    writer.finish().unwrap();
    let (rows, findings) = read_rows(&writer.into_inner().unwrap());
    assert_eq!((rows.len(), findings.len()), (200_000, 0));
    assert_eq!(rows[199_999].2, [Datum::Int((0x1_0000 + 99_999 * 4096_u64).into()), Datum::Int(0x40_1008)]);
}

#[test]
fn threads_write_one_stream_each_and_nothing_is_lost() {
    let writer = Writer::new(Vec::new(), Options { frame_bytes: 4096, ..options(Codec::Lz4) });
    let spec =
        SchemaSpec::new("count").field("thread", Ty::Uint(32)).field("n", Ty::Uint(64)).text("{thread}: {n}");
    let id = writer.schema(&spec).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let mut stream = writer.stream(thread).unwrap();
            scope.spawn(move || {
                for n in 0..5000_u64 {
                    stream
                        .row(id, n, 16, |body| {
                            body.put(0, &thread.to_le_bytes());
                            body.put(8, &n.to_le_bytes());
                        })
                        .unwrap();
                }
                stream.finish().unwrap();
            });
        }
    });
    writer.attach("maps.txt", Some("text/plain"), b"all of it").unwrap();
    writer.clock(1, 10, 20, 30).unwrap();
    writer.finish().unwrap();
    let summary = summary_of(&writer.into_inner().unwrap());
    assert_eq!(findings_differ(&summary["findings"], &serde_json::json!([])), None);
    assert_eq!(summary["records_decoded"], 20_000);
    assert_eq!(summary["attachments"][0]["text"], "all of it");
    assert_eq!(summary["clocks"][0]["ticks"], 10);
    assert_eq!(
        summary["records"][0]["text"],
        "0: 0".replacen('0', &summary["records"][0]["thread"].to_string(), 1)
    );
}

#[test]
fn losses_epochs_and_runs_that_continue_are_told() {
    let first = options(Codec::None);
    let producer = first.producer.clone();
    let writer = Writer::new(Vec::new(), first);
    let spec = SchemaSpec::new("a").field("x", Ty::Uint(8));
    let id = writer.schema(&spec).unwrap();
    let mut stream = writer.stream(1).unwrap();
    stream.row(id, 1, 1, |body| body.put(0, &[7])).unwrap();
    stream.flush().unwrap();
    writer.loss(1, &Loss { cause: 1, records: Some(5), ..Loss::default() }).unwrap();
    stream.lose(5);
    stream.row(id, 2, 1, |body| body.put(0, &[8])).unwrap();
    stream.flush().unwrap();
    writer.new_epoch();
    let other = writer.schema(&SchemaSpec::new("b").field("y", Ty::Text)).unwrap();
    assert_eq!(other, id, "ids begin anew");
    stream.row(other, 3, 8, |body| body.append(0, b"text", 4)).unwrap();
    stream.finish().unwrap();
    writer.finish().unwrap();
    let bytes = writer.into_inner().unwrap();
    let summary = summary_of(&bytes);
    assert_eq!(findings_differ(&summary["findings"], &serde_json::json!([])), None);
    assert_eq!(summary["lost"], serde_json::json!({"1": 5}));
    assert_eq!(summary["records"][2]["y"], "text");

    // A later run of the same producer continues the file.
    let again = Options { producer, epoch: 3, next: vec![(0, 100), (1, 50)], ..options(Codec::None) };
    let writer = Writer::new(bytes, again);
    let id = writer.schema(&spec).unwrap();
    let mut stream = writer.stream(1).unwrap();
    stream.row(id, 9, 1, |body| body.put(0, &[9])).unwrap();
    stream.finish().unwrap();
    writer.finish().unwrap();
    let summary = summary_of(&writer.into_inner().unwrap());
    let gaps =
        serde_json::json!([{"name": "sequence-gap", "stream": 0}, {"name": "sequence-gap", "stream": 1}]);
    assert_eq!(findings_differ(&summary["findings"], &gaps), None);
    assert_eq!(summary["records_decoded"], 4);
}

#[test]
fn rows_as_lines_of_json_are_read() {
    let writer = Writer::new(Vec::new(), options(Codec::Zstd(3)));
    let spec = SchemaSpec::new("log")
        .field(
            "level",
            Ty::Enum { name: "l".into(), base: Box::new(Ty::Uint(8)), names: vec![(3, "error".into())] },
        )
        .field("text", Ty::Text)
        .field("where", Ty::Optional(Box::new(Ty::Stack)));
    writer.schema(&spec).unwrap();
    let mut stream = writer.stream(0).unwrap();
    let lines = "{\"_s\":\"log\",\"_t\":5,\"level\":\"error\",\"text\":\"a\",\"where\":[1,2]}\n\
                 {\"_s\":\"log\",\"_t\":6,\"level\":300,\"text\":\"a\",\"where\":null}\n\
                 {\"_s\":\"log\",\"_t\":7,\"level\":4,\"text\":\"b\",\"where\":null}\n\
                 {\"_s\":\"none\",\"_t\":7}\n";
    stream.foreign(encoding::JSON, 4, (5, 7), lines.as_bytes()).unwrap();
    stream.finish().unwrap();
    writer.finish().unwrap();
    let summary = summary_of(&writer.into_inner().unwrap());
    let wanted = serde_json::json!([
        {"name": "record-invalid"}, {"name": "records-undecodable", "records": 2}
    ]);
    assert_eq!(findings_differ(&summary["findings"], &wanted), None);
    let records = serde_json::json!([
        {"schema": "log", "ts": 5, "level": "error", "text": "a", "where": [1, 2], "stream": 0},
        {"schema": "log", "ts": 7, "level": 4, "text": "b", "where": null, "stream": 0}
    ]);
    assert_eq!(summary["records"], records);
}

/// The folder into which cargo builds examples.
fn examples() -> std::path::PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().parent().unwrap().join("examples")
}

#[test]
fn the_example_of_a_recording_program_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.quipu");
    let ran = std::process::Command::new(examples().join("record")).arg(&file).status().unwrap();
    assert!(ran.success());
    let summary = summary_of(&std::fs::read(&file).unwrap());
    assert_eq!(findings_differ(&summary["findings"], &serde_json::json!([])), None);
    assert_eq!(summary["records_decoded"], 100_010);
    let records = summary["records"].as_array().unwrap();
    let request = records.iter().find(|record| record["status"] == 404).unwrap();
    let wanted = serde_json::json!(["GET /page/3: 404", "not found", [3, 3], 2]);
    assert_eq!(
        serde_json::json!([request["text"], request["error"], request["sizes"], request["stream"]]),
        wanted
    );
    let last = records.iter().rfind(|record| record["schema"] == "access").unwrap();
    let wanted = serde_json::json!([0x1000 + 8 * 99_999, 8, "Write"]);
    assert_eq!(serde_json::json!([last["addr"], last["size"], last["kind"]]), wanted);
}

#[test]
fn the_example_prints_a_summary_and_ends_with_2_where_it_has_to_stop() {
    let expect = |path: &std::path::Path| {
        std::process::Command::new(examples().join("expect")).arg(path).output().unwrap()
    };
    let out = expect(std::path::Path::new("../../traces/stream/minimal.quipu"));
    assert_eq!(out.status.code(), Some(0));
    let printed: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(printed["losses"][0]["count"], 7);
    let mut bytes = crate::vectors::bytes("unknown-kinds");
    let header = quipu_stream::frame::Header::read(&bytes[520..]).unwrap();
    let critical = quipu_stream::frame::Header { flags: quipu_stream::frame::flag::CRITICAL, ..header };
    bytes[520..616].copy_from_slice(&critical.to_bytes());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("critical.quipu");
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(expect(&file).status.code(), Some(2));
}

#[test]
fn an_index_finds_frames_by_time_and_by_record() {
    use quipu_stream::index::{Directory, frame_at};
    let write = |name: &str| {
        let writer = Writer::new(Vec::new(), Options { frame_bytes: 200, ..options(Codec::None) });
        let id = writer.schema(&SchemaSpec::new(name).field("n", Ty::Uint(64))).unwrap();
        let mut stream = writer.stream(5).unwrap();
        for n in 0..10_000_u64 {
            stream.row(id, 3 * n, 8, |body| body.put(0, &n.to_le_bytes())).unwrap();
        }
        stream.finish().unwrap();
        writer.finish().unwrap();
        writer.into_inner().unwrap()
    };
    let first = write("a");
    let both = [first.clone(), write("b")].concat();
    let directory = Directory::read(&mut &both[..], both.len() as u64).unwrap().unwrap();
    let wanted: Vec<u64> = StreamReaderFrames::of(&both);
    let frame = |at: u64| frame_at(&mut &both[..], at).unwrap().unwrap();
    let is_listed = |at: &u64| !matches!(frame(*at).header.kind, 4 | 5);
    let wanted: Vec<u64> = wanted.into_iter().filter(is_listed).collect();
    assert_eq!(directory.entries.iter().map(|entry| entry.offset).collect::<Vec<_>>(), wanted);

    let (at, skip) = directory.seek_record(12_345).unwrap();
    let entry = directory.entries[at];
    let row = u64::from(entry.times.0 as u32) / 3 + skip;
    assert_eq!((row, entry.offset > first.len() as u64), (2345, true));
    assert_eq!(directory.seek_record(20_000), None);
    let at = directory.seek_time(directory.entries[0].producer, 5, 15_000).unwrap();
    let times = directory.entries[at].times;
    assert!((times.0..=times.1).contains(&15_000), "{times:?}");
}

/// The result expected from the Python reader for a sample, derived from this reader's. It knows no encodings, codecs and
/// kinds of level 2, and so none of their records.
#[test]
fn a_reader_in_python_reads_the_first_level_from_the_description_alone() {
    let python = "../../examples/quipu_stream.py";
    for name in crate::vectors::names() {
        let path = format!("../../traces/stream/{name}.quipu");
        let out = std::process::Command::new("python3").arg(python).arg(&path).output().unwrap();
        assert!(out.status.success(), "{name}: {}", String::from_utf8_lossy(&out.stderr));
        let there: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let ours = summary_of(&crate::vectors::bytes(&name));
        // The Python reader only counts the parts of level 2 that it does not read.
        let beyond = ["unknown-kind", "unknown-encoding", "unknown-codec", "records-undecodable"];
        let known = |value: &serde_json::Value| -> Vec<String> {
            let all = value["findings"].as_array().unwrap().iter();
            let all = all.filter(|finding| !beyond.contains(&finding["name"].as_str().unwrap()));
            let keys = [
                "name",
                "offset",
                "bytes_missing",
                "expected",
                "got",
                "have",
                "need",
                "first_offset",
                "ordinal",
            ];
            let mut said: Vec<String> = all
                .filter(|finding| name != "agg-rows" || finding["name"] != "end-mismatch")
                .map(|finding| keys.map(|key| finding[key].to_string()).join(" "))
                .map(|said| said.split(" null").collect())
                .collect();
            said.sort();
            said
        };
        let without_places = |mut value: serde_json::Value| {
            // Gaps have an offset here, which the samples do not give.
            for finding in value["findings"].as_array_mut().unwrap() {
                if finding["name"] == "sequence-gap" {
                    finding.as_object_mut().unwrap().remove("offset");
                }
            }
            value
        };
        assert_eq!(known(&without_places(there.clone())), known(&without_places(ours.clone())), "{name}");
        let is_plain = |summary: &serde_json::Value| summary["lost"].clone();
        assert_eq!(is_plain(&there), is_plain(&ours), "{name}");
        // Every record that it reads is one of ours, except for texts and numbers of more than 64 bits.
        for record in there["records"].as_array().unwrap() {
            let is_ours = ours["records"].as_array().unwrap().iter().any(|ours| {
                record.as_object().unwrap().iter().all(|(key, value)| key == "u128" || ours[key] == *value)
            });
            assert!(is_ours, "{name}: {record}");
        }
        let n_least = match name.as_str() {
            "minimal" => 9,
            "two-producers" => 8,
            "all-types" | "clock-blob-pad" | "open-frames" => 2,
            _ => 0,
        };
        assert!(there["records"].as_array().unwrap().len() >= n_least, "{name}");
    }
}

/// Runs the Python reader on some bytes: returns the names of its findings, and its whole output.
fn python_of(bytes: &[u8]) -> (Vec<String>, serde_json::Value) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.quipu");
    std::fs::write(&path, bytes).unwrap();
    let out = std::process::Command::new("python3")
        .args(["../../examples/quipu_stream.py", path.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let there: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let names = there["findings"].as_array().unwrap().iter();
    (names.map(|finding| finding["name"].as_str().unwrap().to_owned()).collect(), there)
}

#[test]
fn the_reader_in_python_notices_missing_frames_and_outlives_wrong_metadata() {
    let whole = crate::vectors::bytes("minimal");
    // The last frame of stream 1 is missing: only the END counts it.
    let without = [&whole[..0x708], &whole[0x9d0..]].concat();
    assert!(python_of(&without).0.contains(&"end-mismatch".to_owned()));
    let (_, there) = python_of(&whole);
    assert_eq!(there["lost"], serde_json::json!({"0": 7}));
    // An index that contradicts the frames.
    let mut index = whole.clone();
    let at = 0x9d0 + 96 + 16 + 56 + 28;
    index[at] ^= 1;
    let crc = crc32c(&index[0x9d0 + 96..0x9d0 + 96 + (16 + 8 * 56)]);
    index[0x9d0 + 84..0x9d0 + 88].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c(&index[0x9d0..0x9d0 + 92]);
    index[0x9d0 + 92..0x9d0 + 96].copy_from_slice(&crc.to_le_bytes());
    let found = python_of(&index).0;
    assert!(found.contains(&"index-mismatch".to_owned()), "{found:?}");
    // Invalid metadata: a type without an id, fields that are not a list, an alias of itself, a name that is a list, bits
    // that are a text. Everything else is read.
    let map = |pairs: &[(u64, Value)]| {
        Value::Map(pairs.iter().map(|(key, value)| (Value::Uint(*key), value.clone())).collect())
    };
    let text = |text: &str| Value::Text(text.to_owned());
    let wrong = [
        map(&[(0, Value::Uint(4)), (3, Value::Uint(1))]),
        map(&[(0, Value::Uint(5)), (1, Value::Uint(99)), (3, text("fields"))]),
        map(&[(0, Value::Uint(4)), (1, Value::Uint(77)), (3, Value::Uint(22)), (4, Value::Uint(77))]),
        map(&[(0, Value::Uint(6)), (1, Value::Uint(9)), (2, Value::Array(Vec::new()))]),
        map(&[(0, Value::Uint(4)), (1, Value::Uint(78)), (3, Value::Uint(1)), (4, text("64"))]),
    ];
    let header = Header::read(&whole[0x208..]).unwrap();
    let mut out = whole[..0x208].to_vec();
    let mut payload: Vec<u8> = wrong.iter().flat_map(Value::to_bytes).collect();
    let mut meta = Header {
        kind: kind::META,
        encoding: encoding::CBOR,
        producer: header.producer,
        stream: 7,
        epoch: header.epoch,
        meta_version: 105,
        records: 5,
        ..Header::default()
    };
    let raw_len = payload.len() as u32;
    quipu_stream::frame::write_frame(&mut meta, raw_len, &mut payload, &mut out).unwrap();
    out.extend_from_slice(&whole[0x208..]);
    let (found, there) = python_of(&out);
    assert_eq!(found.iter().filter(|name| *name == "metadata-invalid").count(), 5, "{found:?}");
    let (_, before) = python_of(&whole);
    assert_eq!(there["records"], before["records"]);
}

#[test]
fn a_body_that_packs_too_well_is_stored_as_it_is() {
    let writer = Writer::new(Vec::new(), options(Codec::Zstd(3)));
    let mut stream = writer.stream(1).unwrap();
    let body = vec![0; 20 << 20];
    stream.foreign(40, 1, (0, 0), &body).unwrap();
    // Readers also refuse frames with more records than bytes.
    let error = stream.foreign(40, 9, (0, 0), b"a line\n").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    stream.finish().unwrap();
    writer.finish().unwrap();
    let bytes = writer.into_inner().unwrap();
    let mut reader = StreamReader::new(&bytes[..]);
    let part = reader.next_part().unwrap().unwrap();
    assert!(matches!(part.content, Content::Foreign(there) if there == body));
    assert_eq!(part.header.codec, 0);
    assert!(reader.next_part().unwrap().is_none());
    assert_eq!(reader.session().findings, []);
}

const BASE: i32 = 70_000;

#[derive(Clone, Copy, Record)]
enum Wide {
    A = 1000,
    B,
}

#[derive(Clone, Copy, Record)]
enum Below {
    A = -129,
}

#[derive(Clone, Copy, Record)]
enum Said {
    A = BASE as isize,
}

#[derive(Record)]
struct Enums {
    wide: Wide,
    other: Wide,
    below: Below,
    said: Said,
}

#[test]
fn an_enumeration_is_as_wide_as_its_values() {
    let writer = Writer::new(Vec::new(), options(Codec::None));
    let id = writer.schema_of::<Enums>().unwrap();
    let mut stream = writer.stream(1).unwrap();
    let row = Enums { wide: Wide::A, other: Wide::B, below: Below::A, said: Said::A };
    stream.write(id, 5, &row).unwrap();
    stream.finish().unwrap();
    let (rows, _) = read_rows(&writer.into_inner().unwrap());
    let values = [1000, 1001, -129, i128::from(BASE)].map(|n| Datum::Int(n as u128));
    assert_eq!(rows[0].2, values);
    assert_eq!((Enums::FIXED_BYTES, <Wide as FieldValue>::SIZE, <Below as FieldValue>::SIZE), (16, 2, 2));
}

/// Decodes each byte as a row with one number.
struct Numbered;

impl RowDecoder for Numbered {
    fn decode(&self, _: &Header, payload: &[u8], metadata: &Metadata, batch: &mut Batch) -> (u64, bool) {
        let rows = batch.table_mut(metadata.schema_named("tick").unwrap());
        for (n, byte) in (0..).zip(payload) {
            rows.ordinals.push(n);
            rows.times.push(100 + u64::from(n));
            let Column::U8(values) = &mut rows.columns[0] else { panic!() };
            values.push(*byte);
        }
        batch.settle();
        (payload.len() as u64, true)
    }
}

#[test]
fn a_private_encoding_is_read_by_its_decoder_and_is_unknown_to_a_worker() {
    const PRIVATE: u16 = 0x8001;
    let writer = Writer::new(Vec::new(), options(Codec::None));
    writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(8))).unwrap();
    let mut stream = writer.stream(1).unwrap();
    stream.foreign(PRIVATE, 3, (100, 102), &[7, 8, 9]).unwrap();
    stream.finish().unwrap();
    writer.finish().unwrap();
    let bytes = writer.into_inner().unwrap();
    let mut registry = Registry::default();
    registry.register(PRIVATE, Arc::new(Numbered));
    let mut reader = StreamReader::new(&bytes[..]).with_registry(registry);
    let frames = reader.data_frames().unwrap();
    let part = reader.next_part().unwrap().unwrap();
    let Content::Rows(batch) = part.content else { panic!("rows are expected") };
    let rows = batch.tables().next().unwrap();
    assert_eq!((rows.times.as_slice(), rows.columns[0].as_int(2)), (&[100, 101, 102][..], Some(9)));
    assert!(reader.next_part().unwrap().is_none());
    assert_eq!(reader.session().findings, []);

    let metadata = reader.session().metadata(&frames[0].header);
    let work = Worker::default().rows(&frames[0], &mut &bytes[..], &metadata, |_| panic!("no rows")).unwrap();
    assert_eq!(work.outcome.undecoded, 3);
    assert_eq!(work.findings[0].name, "unknown-encoding");
}

#[test]
fn an_epoch_begins_where_metadata_have_grown_and_a_reader_joins_in_any() {
    use quipu_stream::frame::{flag, kind};
    use quipu_stream::wire::cbor::Value;
    use quipu_stream::wire::record::Table;

    const N: u32 = 40_000;
    let name =
        |n: u32| format!("a name that was met once, number {n:05}, {:0>64}", n.wrapping_mul(0x9e37_79b9));
    let writer = Writer::new(Vec::new(), Options { snapshot_bytes: 64 << 10, ..options(Codec::None) });
    // Ids do not change, even for schemas that are not used for long.
    let seldom = writer.schema(&SchemaSpec::new("seldom").field("n", Ty::Uint(64))).unwrap();
    let met = SchemaSpec::new("met").field("n", Ty::Uint(64)).field("name", Ty::Reference(1));
    let met = writer.schema(&met).unwrap();
    let (mut stream, mut other) = (writer.stream(1).unwrap(), writer.stream(2).unwrap());
    let mut n_seldom = 0;
    for n in 0..N {
        let values = vec![Value::Text(name(n))];
        writer.define(Table { id: 1, name: None, first: n.into(), values }).unwrap();
        // Some names are used again much later.
        for index in [n, n / 2] {
            stream
                .row(met, n.into(), 16, |body| {
                    body.put(0, &u64::from(n).to_le_bytes());
                    body.put(8, &index.to_le_bytes());
                })
                .unwrap();
        }
        if n % 500 == 0 {
            stream.flush().unwrap();
        }
        if n % 5000 == 0 {
            other.row(seldom, n.into(), 8, |body| body.put(0, &u64::from(n).to_le_bytes())).unwrap();
            other.flush().unwrap();
            n_seldom += 1;
            writer.snapshot().unwrap();
        }
    }
    other.finish().unwrap();
    stream.finish().unwrap();
    writer.finish().unwrap();
    let bytes = writer.into_inner().unwrap();

    // Returns the number of records of each schema and the findings, and checks the names of the records.
    let read = |bytes: &[u8], once: bool| {
        let mut reader = match once {
            true => StreamReader::once(bytes),
            false => StreamReader::new(bytes),
        };
        let (mut n_met, mut n_seldom) = (0, 0);
        while let Some(part) = reader.next_part().unwrap() {
            let Content::Rows(batch) = part.content else { continue };
            for (table, row) in batch.in_order() {
                let int = |column: usize| table.columns[column].as_int(row).unwrap() as u32;
                if table.schema.name() == "seldom" {
                    n_seldom += 1;
                    continue;
                }
                let known = part.metadata.tables().get(&1).and_then(|table| table.values.get(&int(1).into()));
                assert_eq!(known.and_then(Value::as_text), Some(&*name(int(1))), "row of {}", int(0));
                n_met += 1;
            }
        }
        let findings: Vec<&str> = reader.session().findings.iter().map(|finding| finding.name).collect();
        (n_met, n_seldom, findings)
    };
    for once in [false, true] {
        assert_eq!(read(&bytes, once), (2 * N, n_seldom, vec![]));
    }
    let mut frames = quipu_stream::scan::Scanner::new();
    let (mut input, mut snapshots) = (&bytes[..], Vec::new());
    while let Some(frame) = frames.next(&mut input).unwrap() {
        let header = frame.header;
        if header.kind == kind::META && header.has(flag::SNAPSHOT_START) {
            snapshots.push((frame.offset, header.epoch));
        }
    }
    let n_epochs = snapshots.last().unwrap().1;
    assert!((4..20).contains(&n_epochs), "{n_epochs} epochs, {} bytes", bytes.len());
    // All definitions together are several times as large as any snapshot.
    let last = snapshots.iter().rposition(|(_, epoch)| *epoch < n_epochs).unwrap() + 1;
    for at in [snapshots.len() / 2, last] {
        let part = &bytes[snapshots[at].0 as usize..];
        let (n_met, _, findings) = read(part, true);
        assert!(n_met > 0 && findings.is_empty(), "{n_met} records, {findings:?}");
    }
}
