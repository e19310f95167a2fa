//! Parts of a trace between marks: which records they have, along the sequence of all threads.

use crate::tools::{PIECES, SHARDS, TIME};
use quipu_engine::{Between, Merge, RunOptions, Watch, between, plan, ranges_between, run};
use quipu_model::{Columns, Error, Given, Scan, ShardId, Trace, Window};
use quipu_testkit::MemoryTrace;

/// Each mark of the sequence with its ordinal there.
fn marks_of(trace: &dyn Trace, batch_records: u32, window: Window) -> Vec<(u64, u64)> {
    let scan = Scan { batch_records, window, ..Scan::new(ShardId(0)).columns(Columns::MARKS) };
    let watch = Watch::new();
    let mut merge = Merge::new(trace, &scan, &watch).unwrap();
    let mut marks = Vec::new();
    while let Some(merged) = merge.read().unwrap() {
        let rows = merged.batch.marks.at.iter().zip(&merged.batch.marks.value);
        for (at, value) in rows.filter(|(at, _)| merged.records.contains(at)) {
            let ordinal = merged.batch.span.first_record + u64::from(*at);
            marks.push((ordinal.wrapping_add(merged.ordinals.records), *value));
        }
    }
    marks
}

fn parts(text: &str, wanted: &str) -> Result<Box<dyn Trace>, Error> {
    let trace = MemoryTrace::parse(text).unwrap();
    between(Box::new(trace), &wanted.parse()?, &|_| Vec::new(), &Watch::new())
}

fn values(text: &str, wanted: &str) -> Vec<u64> {
    let trace = parts(text, wanted).unwrap();
    marks_of(&*trace, 1024, Window::All).into_iter().map(|(_, value)| value).collect()
}

/// Kind 1 begins a part, kind 2 ends one. The threads take turns at each clock reading: 10, 1, 20, 21, 2, 3, 4, 22, 5.
const TWO_THREADS: &str = "
shard a
clock 10
mark 0 1
mark 1 100
mark 0 2
clock 30
mark 0 3
mark 2 200
mark 0 4
clock 50
mark 1 101
mark 0 5
mark 2 201
shard b
clock 5
mark 0 10
clock 20
mark 0 20
mark 0 21
clock 40
mark 0 22";

#[test]
fn parts_have_the_records_of_all_threads_between_two_marks() {
    assert_eq!(values(TWO_THREADS, "mark 1,mark 2"), [100, 2, 20, 21, 3, 101, 5]);
    assert_eq!(values(TWO_THREADS, "mark 1=101,mark 2"), [101, 5]);
    assert_eq!(values(TWO_THREADS, "mark 2,mark 1"), [200, 4, 22]);
    assert_eq!(values(TWO_THREADS, ",mark 1"), [10, 1]);
    assert_eq!(values(TWO_THREADS, "mark 2=201,"), [201]);
    // The mark that ends a part may begin the next one.
    assert_eq!(values(TWO_THREADS, "mark 1,mark 1"), [100, 2, 20, 21, 3, 200, 4, 22]);
}

#[test]
fn records_keep_their_places_in_the_trace_for_batches_of_any_size() {
    let whole = MemoryTrace::parse(TWO_THREADS).unwrap();
    let all = marks_of(&whole, 1024, Window::All);
    let part = parts(TWO_THREADS, "mark 1,mark 2").unwrap();
    let ranges =
        ranges_between(&whole, &"mark 1,mark 2".parse().unwrap(), &|_| Vec::new(), &Watch::new()).unwrap();
    let is_inside = |ordinal: &u64| ranges.iter().any(|range| range.contains(ordinal));
    let expected: Vec<_> = all.into_iter().filter(|(ordinal, _)| is_inside(ordinal)).collect();
    for batch_records in [1, 2, 3, 1024] {
        assert_eq!(marks_of(&*part, batch_records, Window::All), expected, "batches of {batch_records}");
    }
    // A window counts along the whole trace.
    let second = ranges[1].start;
    let later = expected.iter().filter(|(ordinal, _)| *ordinal >= second).map(|(_, value)| *value);
    let windowed = marks_of(&*part, 1024, Window::Records(second..u64::MAX)).into_iter();
    assert_eq!(windowed.map(|(_, value)| value).collect::<Vec<_>>(), later.collect::<Vec<_>>());
}

#[test]
fn functions_whose_addresses_are_known_serve_as_marks() {
    let text = "
shard a
instr 0x10 4
mark 0 1
instr 0x20 4
mark 0 2
instr 0x30 4
mark 0 3
instr 0x20 4
mark 0 4
instr 0x30 4";
    let addresses = |name: &str| match name {
        "parse" => vec![0x20],
        "render" => vec![0x30],
        _ => Vec::new(),
    };
    let trace = MemoryTrace::parse(text).unwrap();
    let wanted: Between = "parse,render".parse().unwrap();
    let part = between(Box::new(trace), &wanted, &addresses, &Watch::new()).unwrap();
    let values: Vec<u64> = marks_of(&*part, 1024, Window::All).into_iter().map(|(_, value)| value).collect();
    assert_eq!(values, [2, 4]);
    assert!(part.meta().title.ends_with(", from `parse` to `render`, 2 parts"), "{}", part.meta().title);
}

#[test]
fn a_mark_that_is_absent_is_an_error_that_lists_the_others() {
    let error = parts(TWO_THREADS, "mark 1,mark 7").err().unwrap();
    assert_eq!(error.message(), "the trace has no mark `mark 7`, and no call of a function of that name");
    let advice = error.advice().unwrap_or_default();
    assert_eq!(advice, "its marks, and how many of each: mark 0 (9), mark 1 (2), mark 2 (2)");
    let error = parts(TWO_THREADS, "mark 2=201,mark 1").err().unwrap();
    assert_eq!(error.message(), "no mark `mark 1` comes after a mark `mark 2=201`");
    assert!("alone".parse::<Between>().is_err() && ",".parse::<Between>().is_err());
}

#[test]
fn analyses_see_the_parts_only() {
    let trace = parts(TWO_THREADS, "mark 2,mark 1").unwrap();
    let watch = Watch::new();
    for tool in [&PIECES, &SHARDS, &TIME] {
        for threads in [1, 4] {
            let planned = vec![plan(tool, &Given::default(), &*trace).unwrap()];
            let outcome = run(&*trace, planned, &RunOptions { threads, ..RunOptions::new(&watch) }).unwrap();
            assert_eq!(outcome.reports[0].json()["values"], serde_json::json!([200, 4, 22]));
            assert_eq!((outcome.records, outcome.error.is_none()), (5, true));
        }
    }
}
