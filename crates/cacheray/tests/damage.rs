//! Truncated, changed and hostile traces, and traces written and read again.

// The helpers of a test may panic as the test may.

use crate::common::{GOOD, bytes, lines, of_bytes, path, trace};
use quipu_cacheray::CACHERAY;
use quipu_cacheray::record::Dialect;
use quipu_cacheray::write::{Convert, TraceWriter};
use quipu_model::fresh::Replace;
use quipu_model::transform::{OneShard, Silent, Transform, TransformJob};
use quipu_model::{Columns, OpenOptions, Scan, ShardId, Trace};
use quipu_source::{PackOptions, Packing, Pool, Source};
use quipu_testkit::damage::{self, Damage};
use quipu_testkit::fuzz;
use std::path::Path;

#[test]
fn damaged_traces_are_survived() {
    let is_full = std::env::var_os("QUIPU_DAMAGE").is_some_and(|value| value == "full");
    for name in ["structs", "atomics", "grand", "shapes", "derived/random", "mt-interleaved.cut"] {
        let bytes = bytes(name);
        let is_small = bytes.len() < 12_000;
        let (truncations, changes) = match is_full {
            true => (bytes.len(), 5000),
            false if is_small => (200, 500),
            false => (40, 100),
        };
        // If threads are mixed, later bytes decide whether bytes are a record.
        let keeps_prefix = name != "mt-interleaved.cut";
        let damage = Damage { truncations, changes, keeps_prefix, has_open_end: true, ..Damage::default() };
        let survived = damage::format(&CACHERAY, name, &bytes, &damage);
        assert!(survived.complained > truncations / 2, "{name}: {survived:?}");
    }
}

#[test]
fn pieces_that_bytes_arrive_in_make_no_difference() {
    for name in
        ["structs", "atomics", "threads", "derived/bad-tag", "derived/grand.cut-1000", "mt-interleaved.cut"]
    {
        let bytes = bytes(name);
        quipu_testkit::records::chunk_independence(
            &of_bytes(&bytes),
            &bytes,
            if bytes.len() < 12_000 { 40 } else { 4 },
        );
    }
}

#[test]
fn every_beginning_gives_the_whole_records() {
    for name in ["structs", "atomics", "derived/bad-tag"] {
        let bytes = bytes(name);
        let (whole, _) = lines(&of_bytes(&bytes));
        let mut last = 0;
        for n_bytes in 0..=bytes.len() {
            let (cut, _) = lines(&of_bytes(&bytes[..n_bytes]));
            if name != "derived/bad-tag" {
                assert_eq!(cut[..], whole[..cut.len()], "{name} {n_bytes}");
                assert!(cut.len() >= last, "{name} {n_bytes}");
            }
            last = cut.len();
        }
        assert_eq!(last, whole.len());
    }
}

#[test]
fn garbage_is_passed_over_and_what_stands_behind_it_is_read() {
    let good = bytes("shapes");
    let (whole, _) = lines(&of_bytes(&good));
    let mut rng = quipu_testkit::Rng::new(7);
    for n_garbage in [1, 17, 300, 5000, 300_000] {
        // Inserts bytes after the third record.
        let at = 40 + 18 * 2;
        let mut bytes = good[..at].to_vec();
        bytes.extend((0..n_garbage).map(|_| rng.below(256) as u8 | 0x08));
        bytes.extend_from_slice(&good[at..]);
        let (read, findings) = lines(&of_bytes(&bytes));
        let behind = |line: &String| line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>();
        let tail = whole.len() - 10;
        assert!(read.len() + 1 >= whole.len(), "{n_garbage}: {} of {}", read.len(), whole.len());
        let ends = |lines: &[String]| lines[lines.len() - tail..].iter().map(behind).collect::<Vec<_>>();
        assert!(ends(&read) == ends(&whole), "{n_garbage}");
        assert!(!findings.is_empty());
    }
}

#[test]
fn a_byte_too_many_within_a_record_costs_a_record_or_two() {
    let good = bytes("shapes");
    let (whole, _) = lines(&of_bytes(&good));
    // Inserts a byte at each place within the fifth record, an access.
    for at in 40 + 18 * 3..40 + 18 * 4 {
        let mut bytes = good.clone();
        bytes.insert(at, 0);
        let (read, findings) = lines(&of_bytes(&bytes));
        assert!(read.len() + 2 >= whole.len(), "{at}: {} of {}", read.len(), whole.len());
        assert_eq!(findings.len(), 1, "{at}: {findings:?}");
        // A zero among the zeros of a thread id cannot be distinguished from its neighbours.
        assert!(findings[0].place.offset.is_some_and(|offset| offset <= at as u64 + 8), "{at}: {findings:?}");
    }
}

fn rewritten(name: &str, dialect: Option<&str>, to: &Path) -> Vec<u8> {
    let source = Source::open(&path(name)).unwrap();
    let mut given = quipu_model::Given::default();
    if let Some(dialect) = dialect {
        given.add("dialect", dialect);
    }
    let opening = OpenOptions::default();
    let job = TransformJob {
        source: &source,
        opening: &opening,
        options: &Convert.info().parse("cacheray", &given).unwrap(),
        output: to,
        replace: true,
        container: None,
        level: None,
        damaged: quipu_model::Damaged::Refuse,
        strict: false,
        threads: 1,
        sequence: &OneShard,
    };
    Convert.run(&job, &Silent).unwrap();
    std::fs::read(to).unwrap()
}

#[test]
fn what_is_written_is_what_was_read_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    for name in GOOD {
        assert_eq!(rewritten(name, None, &folder.path().join("out.trace")), bytes(name), "{name}");
    }
    let other = rewritten("shapes", Some("be64"), &folder.path().join("be.trace"));
    assert_eq!(other, bytes("derived/shapes.big-endian"));
    // Writes and reads again in each container.
    for extension in ["zip", "gz", "lz4", "sz", "zst"] {
        let packed = folder.path().join(format!("out.trace.{extension}"));
        rewritten("derived/random", None, &packed);
        let source = Source::open(&packed).unwrap();
        let (again, findings) =
            lines(&quipu_cacheray::trace::open(&source, &OpenOptions::default()).unwrap());
        assert_eq!((again, findings.len()), (lines(&trace("derived/random")).0, 0), "{extension}");
    }
}

#[test]
fn odd_records_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("odd.trace");
    let mut bytes = Vec::new();
    for tag in [0xc0u8, 0xc1, 0x40, 0x81] {
        bytes.extend([tag, 0, 1, 2, 3, 4, 5, 0, 0, 16, 1, 0, 0, 0, 0, 0, 0, 0]);
    }
    bytes.extend([2, 0, 1, 2, 3, 4, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
    bytes.extend(b"a\xffb");
    bytes.extend([3, 0, 1, 2, 3, 4, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    let source = of_bytes(&bytes);
    let pool = Pool::new(1).unwrap();
    let options = PackOptions::new(Packing::Plain);
    let mut writer = TraceWriter::create(&path, Dialect::Le64, &options, Replace::Never, &pool).unwrap();
    let scan = Scan { tables: vec![0], ..Scan::new(ShardId(0)).columns(Columns::REGIONS) };
    let mut reader = source.scan(&scan).unwrap();
    while let Some(batch) = reader.read().unwrap() {
        writer.rows(batch).unwrap();
    }
    assert_eq!(writer.finish().unwrap().records, 6);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

#[test]
fn seeds_and_traces_hold_what_fuzzing_asks_for() {
    for name in GOOD {
        fuzz::format(&CACHERAY, &bytes(name));
    }
}
