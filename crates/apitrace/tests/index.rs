//! Reading from the middle gives the same as reading from the beginning, with or without an index, even a bad one.

// The helpers of a test may panic as the test may.

use crate::common;
use quipu_apitrace::decode::skim::Skimmer;
use quipu_apitrace::feed::Feed;
use quipu_apitrace::index::{self, Wanted, store};
use quipu_apitrace::pack::StreamWriter;
use quipu_apitrace::table::CALLS_TABLE;
use quipu_apitrace::trace::{self, ApiTrace, Packing};
use quipu_model::print::Ordinals;
use quipu_model::trace::PrintOptions;
use quipu_model::{Given, OpenOptions, Paint, Scan, ShardId, Trace, Window};
use quipu_source::{Source, StreamOptions};
use std::path::Path;

/// Writes the calls of a trace, repeated, into a container.
fn write(path: &Path, name: &str, times: usize, packing: Packing) {
    let mut writer = StreamWriter::new(std::fs::File::create(path).unwrap(), packing, Some(1)).unwrap();
    writer.write(&common::repeated(name, times)).unwrap();
    writer.finish().unwrap();
}

fn open(path: &Path, index: &str) -> ApiTrace {
    let given = Given::from([("index", index)]);
    trace::open(&Source::open(path).unwrap(), &OpenOptions { given, ..OpenOptions::default() }).unwrap()
}

/// The printed calls of a window.
fn text(trace: &ApiTrace, window: Window, settings: &[(&str, &str)]) -> String {
    let scan = Scan { tables: vec![CALLS_TABLE], window, ..Scan::new(ShardId(0)) };
    let mut reader = trace.scan(&scan).unwrap();
    let given = settings.iter().copied().collect();
    let options = PrintOptions { verbose: true, given, ..PrintOptions::default() };
    let mut printer = trace.printer(&options).unwrap();
    let mut out = Vec::new();
    while !printer.is_done()
        && let Some(batch) = reader.read().unwrap()
    {
        let rows: Vec<u32> = (0..batch.span.records).collect();
        printer.print(batch, &rows, Ordinals::default(), &Paint::PLAIN, &mut out);
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[test]
fn an_index_does_not_change_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    // Threads whose calls overlap; values of all kinds with blobs.
    for (name, times) in [("threads-3x20", 200), ("kinds", 400)] {
        for packing in [Packing::Snappy, Packing::SeekableZstd, Packing::Plain] {
            let path = folder.path().join(format!("{name}.{packing:?}"));
            write(&path, name, times, packing);
            let (with, without) = (open(&path, "beside"), open(&path, "no"));
            let index = with.index().unwrap();
            assert!(index.n_checkpoints() > 0, "{name} {packing:?}");
            assert!(without.index().is_none());
            let n = index.n_records;
            for start in [n / 2, n - 700, n - 1, n, n + 5] {
                let container = with.container();
                let scan = Scan {
                    tables: vec![CALLS_TABLE],
                    window: Window::Records(start..start + 400),
                    ..Scan::new(ShardId(0))
                };
                let from = index.start(with.header(), Wanted::Record(start));
                assert!(from.as_ref().map_or(start < n / 10 * 9, |from| from.n_records() <= start));
                let mut reader = quipu_apitrace::reader::CallReader::from(container, &scan, from).unwrap();
                let mut plain = without.scan(&scan).unwrap();
                loop {
                    let (one, other) =
                        (quipu_model::Reader::read(&mut reader).unwrap(), plain.read().unwrap());
                    let (Some(one), Some(other)) = (one, other) else { break };
                    assert_eq!(one.span.records, other.span.records);
                    let head = |batch: &quipu_model::Batch| -> Vec<u64> {
                        let cells = |at| batch.tables[0].column(at);
                        (0..4)
                            .flat_map(|at| (0..cells(at).len()).map(move |row| cells(at).number(row)))
                            .collect()
                    };
                    assert_eq!(head(one), head(other));
                }
                let window = Window::Records(start..start + 400);
                assert_eq!(text(&with, window.clone(), &[]), text(&without, window, &[]));
            }
        }
    }
}

#[test]
fn windows_of_calls_and_frames_are_reached_by_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    write(&path, "threads-3x20", 300, Packing::Snappy);
    let (with, without) = (open(&path, "beside"), open(&path, "no"));
    for settings in [[("calls", "200000-200300")], [("frames", "9000-9002")]] {
        let options = PrintOptions { given: settings.iter().copied().collect(), ..PrintOptions::default() };
        let window = with.narrow(&options).unwrap();
        assert!(matches!(window, Window::Records(ref records) if records.start > 50_000), "{window:?}");
        assert_eq!(without.narrow(&options).unwrap(), Window::All);
        let all = text(&without, Window::All, &settings);
        assert!(all.lines().count() > 30);
        // Properties stand at the beginning of both.
        assert_eq!(text(&with, window, &settings), all);
    }
}

#[test]
fn an_index_of_a_small_trace_is_made_where_one_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (path, kept) = (folder.path().join("trace"), folder.path().join("trace.quipu-index"));
    write(&path, "kinds", 40, Packing::Snappy);
    for (how, is_kept) in [("auto", false), ("no", false), ("beside", true)] {
        let passed_over = text(&open(&path, how), Window::Records(700..702), &[]);
        assert_eq!(passed_over, text(&open(&path, "no"), Window::Records(700..702), &[]), "{how}");
        assert_eq!(kept.exists(), is_kept, "{how}");
    }
    std::fs::remove_file(&kept).unwrap();
    let given = Given::from([("calls", "700-702")]);
    let options = PrintOptions { given, ..PrintOptions::default() };
    for (how, is_kept) in [("auto", false), ("beside", true)] {
        open(&path, how).narrow(&options).unwrap();
        assert_eq!(kept.exists(), is_kept, "{how}");
    }
}

#[test]
fn a_damaged_or_foreign_index_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    write(&path, "kinds", 400, Packing::Snappy);
    let first = open(&path, "beside").index().unwrap().clone();
    let kept = folder.path().join("trace.quipu-index");
    let bytes = std::fs::read(&kept).unwrap();
    assert!(bytes.len() < 300_000, "{}", bytes.len());
    for at in (0..bytes.len()).step_by(bytes.len() / 50) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&kept, &damaged).unwrap();
        assert!(store::load(open(&path, "no").container(), store::Keep::Beside).is_none(), "{at}");
        std::fs::write(&kept, &bytes[..at]).unwrap();
        assert!(store::load(open(&path, "no").container(), store::Keep::Beside).is_none(), "{at}");
    }
    assert_eq!(open(&path, "beside").index(), Some(&first));
    assert_eq!(std::fs::read(&kept).unwrap(), bytes);
    // Another trace under the same name.
    write(&path, "kinds", 401, Packing::Snappy);
    assert!(store::load(open(&path, "no").container(), store::Keep::Beside).is_none());
    let second = open(&path, "beside").index().unwrap().clone();
    assert_ne!(second.n_records, first.n_records);
}

#[test]
fn what_cannot_be_read_from_its_middle_has_no_index() {
    let folder = tempfile::tempdir().unwrap();
    for packing in [Packing::Gzip, Packing::Brotli] {
        let path = folder.path().join(format!("{packing:?}"));
        write(&path, "kinds", 2, packing);
        let trace = open(&path, "beside");
        assert!(!index::can_have(trace.container()) && trace.index().is_none());
        assert_eq!(
            text(&trace, Window::Records(300..302), &[]).lines().filter(|l| l.contains('(')).count(),
            2
        );
    }
}

#[test]
fn skimming_sees_the_calls_that_decoding_sees() {
    for name in common::traces() {
        let source = common::source(&name);
        let trace = trace::open(&source, &OpenOptions::default()).unwrap();
        let mut feed = Feed::new(trace.container(), &StreamOptions::default()).unwrap();
        if !feed.begin().unwrap() {
            continue;
        }
        let mut skimmer = Skimmer::new(feed.header());
        let mut skimmed = Vec::new();
        while let Some(event) = feed.next(&mut skimmer).unwrap() {
            skimmed.extend(event);
        }
        skimmed.extend(std::iter::from_fn(|| skimmer.take_oldest()));
        let mut reader = trace.scan(&Scan::new(ShardId(0))).unwrap();
        let mut skimmed = skimmed.into_iter();
        while let Some(batch) = reader.read().unwrap() {
            for call in &batch.values.calls {
                let other = skimmed.next().unwrap();
                let flags = call.flags & !quipu_apitrace::record::VERBOSE;
                assert_eq!(
                    (call.number, call.thread, call.function, flags, call.has_stack),
                    (
                        other.number,
                        other.thread,
                        other.function,
                        other.flags & !quipu_apitrace::record::VERBOSE,
                        other.has_stack
                    ),
                    "{name}"
                );
            }
        }
        assert_eq!(skimmed.next(), None, "{name}");
    }
}
