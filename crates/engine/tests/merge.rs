//! The batches of a merge: ordered by time, with ordinals of the sequence, and windows of it.

use quipu_engine::{Merge, Watch};
use quipu_model::{Columns, Scan, ShardId, ShardKind, Trace, Window};
use quipu_testkit::{MemoryShard, MemoryTrace};

/// Each mark of the sequence with its ordinal there; there must be no errors.
fn marks_of(trace: &MemoryTrace, change: impl FnOnce(&mut Scan)) -> Vec<(u64, u64)> {
    let (marks, errors) = marks_and_errors(trace, change);
    assert_eq!(errors, Vec::<String>::new());
    marks
}

fn marks_and_errors(trace: &MemoryTrace, change: impl FnOnce(&mut Scan)) -> (Vec<(u64, u64)>, Vec<String>) {
    let mut scan = Scan::new(ShardId(0)).columns(Columns::MARKS);
    change(&mut scan);
    let watch = Watch::new();
    let mut merge = Merge::new(trace, &scan, &watch).unwrap();
    let (mut marks, mut errors) = (Vec::new(), Vec::new());
    loop {
        match merge.read() {
            Ok(None) => break,
            Err(error) => errors.push(error.message().to_owned()),
            Ok(Some(merged)) => {
                let rows = merged.batch.marks.at.iter().zip(&merged.batch.marks.value);
                for (at, value) in rows.filter(|(at, _)| merged.records.contains(at)) {
                    let ordinal = merged.batch.span.first_record + u64::from(*at);
                    marks.push((ordinal.wrapping_add(merged.ordinals.records), *value));
                }
            }
        }
    }
    assert!(merge.read().unwrap().is_none());
    (marks, errors)
}

fn order_of(text: &str, window: Window) -> Vec<u64> {
    let trace = MemoryTrace::parse(text).unwrap();
    marks_of(&trace, |scan| scan.window = window).into_iter().map(|(_, value)| value).collect()
}

const THREE_SHARDS: &str = "
shard a
mark 0 1
clock 10
mark 0 2
clock 30
mark 0 3
shard b
clock 20
mark 0 4
clock 30
mark 0 5
shard c
clock 5
mark 0 6
clock 40
mark 0 7";

#[test]
fn the_earliest_segment_comes_first_and_of_equals_the_first_shard() {
    let time = order_of(THREE_SHARDS, Window::All);
    assert_eq!(time, [6, 1, 2, 4, 3, 5, 7]);
}

#[test]
fn a_segment_is_never_split_even_if_it_takes_many_batches() {
    let trace = MemoryTrace::parse(THREE_SHARDS).unwrap();
    let marks = marks_of(&trace, |scan| scan.batch_records = 1);
    assert_eq!(marks.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [6, 1, 2, 4, 3, 5, 7]);
}

#[test]
fn a_clock_that_runs_backwards_goes_first() {
    let text =
        "shard a\nclock 10\nmark 0 1\nclock 3\nmark 0 2\nshard b\nclock 5\nmark 0 3\nclock 50\nmark 0 4";
    assert_eq!(order_of(text, Window::All), [3, 1, 2, 4]);
}

#[test]
fn a_shard_without_a_clock_goes_first() {
    let text = "shard a\nclock 1\nmark 0 1\nshard b\nmark 0 2\nshard c";
    assert_eq!(order_of(text, Window::All), [2, 1]);
}

#[test]
fn ordinals_count_along_the_sequence() {
    let trace = MemoryTrace::parse(THREE_SHARDS).unwrap();
    let expected = [(1, 6), (2, 1), (4, 2), (6, 4), (8, 3), (10, 5), (12, 7)];
    assert_eq!(marks_of(&trace, |_| {}), expected);
}

#[test]
fn instruction_ordinals_count_along_the_sequence() {
    let text = "shard a\nclock 2\ninstr 0 1\ninstr 0 1\nclock 4\ninstr 0 1\nshard b\nclock 3\ninstr 0 1";
    let trace = MemoryTrace::parse(text).unwrap();
    let watch = Watch::new();
    let mut merge = Merge::new(&trace, &Scan::new(ShardId(0)), &watch).unwrap();
    let mut firsts = Vec::new();
    while let Some(merged) = merge.read().unwrap() {
        firsts.push(merged.batch.span.first_instr.wrapping_add(merged.ordinals.instrs));
    }
    assert_eq!(firsts, [0, 2, 3]);
}

#[test]
fn any_window_of_the_sequence_is_a_part_of_the_whole() {
    for seed in 0..20 {
        let trace = MemoryTrace::random(seed, 4, 300);
        let all = marks_of(&trace, |_| {});
        for (start, end) in [(0, 100), (1, 2), (57, 900), (123, 124), (500, u64::MAX), (1199, 5000), (7, 7)] {
            for batch_records in [1, 64, 1024] {
                let window = marks_of(&trace, |scan| {
                    (scan.window, scan.batch_records) = (Window::Records(start..end), batch_records);
                });
                let expected: Vec<_> =
                    all.iter().copied().filter(|(ordinal, _)| (start..end).contains(ordinal)).collect();
                assert_eq!(window, expected, "seed {seed}, {start}..{end}, {batch_records}");
            }
        }
    }
}

#[test]
fn windows_of_instructions_join_without_gap_or_overlap() {
    for seed in 0..10 {
        let trace = MemoryTrace::random(seed, 3, 300);
        let all = marks_of(&trace, |_| {});
        let part = |range| marks_of(&trace, |scan| scan.window = Window::Instrs(range));
        let parts: Vec<_> =
            [0..1, 1..2, 2..200, 200..201, 201..u64::MAX].into_iter().flat_map(part).collect();
        assert_eq!(parts, all, "seed {seed}");
    }
}

#[test]
fn a_window_ends_before_its_last_instruction_even_inside_a_batch() {
    let text = "shard a\nmark 0 1\ninstr 0 1\nmark 0 2\ninstr 0 1\nmark 0 3\nshard b\nclock 1\nmark 0 4\ninstr 0 1\nmark 0 5";
    assert_eq!(order_of(text, Window::Instrs(0..1)), [1, 2]);
    assert_eq!(order_of(text, Window::Instrs(1..2)), [3, 4]);
    assert_eq!(order_of(text, Window::Instrs(2..9)), [5]);
}

#[test]
fn a_window_of_time_is_one_of_each_shard_and_ordinals_count_what_it_skips() {
    let trace = MemoryTrace::parse(THREE_SHARDS).unwrap();
    let marks = marks_of(&trace, |scan| scan.window = Window::Clock(20..40));
    // Shard c has no record in the window, so its reader does not count the two records before it.
    assert_eq!(marks, [(4, 4), (6, 3), (8, 5)]);
}

#[test]
fn the_window_of_a_lone_shard_is_left_to_its_reader() {
    let trace = MemoryTrace::parse("mark 0 1\nmark 0 2\nmark 0 3\nmark 0 4").unwrap();
    let marks = marks_of(&trace, |scan| scan.window = Window::Records(1..3));
    assert_eq!(marks, [(1, 2), (2, 3)]);
}

#[test]
fn an_error_ends_its_shard_and_the_others_go_on() {
    let text = "shard a\nfault cannot begin\nshard b\nclock 1\nmark 0 1\nfault cannot go on\nmark 0 2\nshard c\nclock 2\nmark 0 3";
    let trace = MemoryTrace::parse(text).unwrap();
    let (marks, errors) = marks_and_errors(&trace, |_| {});
    assert_eq!(marks.into_iter().map(|(_, value)| value).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(errors, ["cannot begin", "cannot go on"]);
}

#[test]
fn an_error_in_what_a_window_skips_is_reported_once() {
    let text = "shard a\nclock 1\nmark 0 1\nfault broken\nmark 0 2\nshard b\nclock 2\nmark 0 3\nmark 0 4";
    let trace = MemoryTrace::parse(text).unwrap();
    let (marks, errors) = marks_and_errors(&trace, |scan| scan.window = Window::Records(4..9));
    assert_eq!(marks, [(4, 4)]);
    assert_eq!(errors, ["broken"]);
}

#[test]
fn findings_are_lent_with_their_batch() {
    let trace =
        MemoryTrace::parse("shard a\nfinding note odd\nmark 0 1\nshard b\nfinding note empty").unwrap();
    let watch = Watch::new();
    let mut merge = Merge::new(&trace, &Scan::new(ShardId(0)), &watch).unwrap();
    let mut messages = Vec::new();
    while let Some(merged) = merge.read().unwrap() {
        messages.extend(merged.batch.findings.drain(..).map(|finding| finding.message));
    }
    assert_eq!(messages, ["odd", "empty"]);
}

#[test]
fn a_cancelled_skip_leaves_nothing() {
    let trace = MemoryTrace::parse(THREE_SHARDS).unwrap();
    let watch = Watch::new();
    watch.cancel();
    let scan = Scan { window: Window::Records(3..9), ..Scan::new(ShardId(0)) };
    assert!(Merge::new(&trace, &scan, &watch).unwrap().read().unwrap().is_none());
}

#[test]
fn cores_are_merged_by_time_like_threads() {
    let mark = |core: &str, clock: u64, value: u64| {
        MemoryShard::new(core)
            .kind(ShardKind::Core)
            .clock(clock)
            .mark(0, value)
            .clock(clock + 20)
            .mark(0, value + 1)
    };
    let trace = MemoryTrace::new(vec![mark("0", 20, 3), mark("1", 10, 1)]);
    let values: Vec<u64> = marks_of(&trace, |_| {}).into_iter().map(|(_, value)| value).collect();
    assert_eq!(values, [1, 3, 2, 4]);
}

#[test]
fn thousands_of_shards_merge_in_small_batches() {
    let shard = |i: u64| {
        let marks = (0..500).fold(MemoryShard::new("s").clock(i % 100), |shard, _| shard.mark(0, i));
        marks.clock(1000 - i % 50)
    };
    let trace = MemoryTrace::new((0..2000).map(shard).collect());
    let watch = Watch::new();
    let mut merge = Merge::new(&trace, &Scan::new(ShardId(0)), &watch).unwrap();
    let mut opened = Vec::new();
    let mut n_records = 0;
    while let Some(merged) = merge.read().unwrap() {
        assert!(merged.batch.span.records <= 128);
        n_records += u64::from(merged.batch.span.records);
        opened.extend(merged.batch.span.opens.map(|clock| (clock, merged.batch.span.shard)));
    }
    assert_eq!(n_records, 2000 * 502);
    assert!(opened.is_sorted());
    assert_eq!(opened.len(), 4000);
    assert_eq!(trace.shards().len(), 2000);
}

#[test]
fn a_window_of_each_shard_is_numbered_from_its_first_record() {
    let trace = MemoryTrace::parse(THREE_SHARDS).unwrap();
    let scan = Scan { window: Window::Records(2..4), ..Scan::new(ShardId(0)).columns(Columns::MARKS) };
    let mut merge = Merge::of_each_shard(&trace, &scan).unwrap();
    let mut marks = Vec::new();
    while let Some(merged) = merge.read().unwrap() {
        for (at, value) in merged.batch.marks.at.iter().zip(&merged.batch.marks.value) {
            let ordinal = merged.batch.span.first_record + u64::from(*at);
            marks.push((ordinal.wrapping_add(merged.ordinals.records), *value));
        }
    }
    // Two records of each shard: its mark and a clock reading. Only in the first shard does the mark come first.
    assert_eq!(marks, [(0, 2), (3, 5), (5, 7)]);
}

#[test]
fn shards_that_say_when_they_begin_come_in_the_same_order() {
    let trace = |says: bool| {
        let shard = |nth: u64| {
            let first = nth * 37 % 50;
            let shard = MemoryShard::new(format!("{nth}")).clock(first).mark(0, nth);
            let shard = shard.clock(first + 20).mark(0, 1000 + nth);
            // A known begin may be earlier than the first record.
            if says { shard.begins(first.saturating_sub(nth % 3)) } else { shard }
        };
        MemoryTrace::new((0..40).map(shard).collect())
    };
    for window in [Window::All, Window::Records(0..50), Window::Records(33..90), Window::Clock(30..50)] {
        let [said, unsaid] =
            [true, false].map(|says| marks_of(&trace(says), |scan| scan.window = window.clone()));
        assert_eq!(said, unsaid, "{window:?}");
        assert!(said.len() > 20, "{window:?}: {}", said.len());
    }
}
