//! Tests of `working-set` on traces of a few rows.

use super::*;
use crate::sample::{assert_division_of_does_not_show, json, report, report_of, trace};
use quipu_engine::plan;
use quipu_model::Given;
use quipu_testkit::{ALL_COLUMNS, MemoryShard, MemoryTrace, Rng};
use serde_json::json;
use std::fmt::Write as _;

#[test]
fn lines_and_pages_count_once_however_often_they_are_touched() {
    let text = "
        instr 0x1000 4
        read 0x1008 4
        instr 0x1004 4
        write 0x5000 128
        instr 0x1008 4
        prefetch 0x9000 1
        flush-data 0xa000 64";
    let set = json(&WorkingSet, "", text);
    assert_eq!(set["lines"], json!({ "total": 4, "instr": 1, "data": 4 }));
    assert_eq!(set["pages"], json!({ "total": 3, "instr": 1, "data": 3 }));
    assert_eq!(set["axis"], "instructions");
    assert_eq!(set["data_lines"], json!([1, 2, 1]));
    assert_eq!(set["data_lines_so_far"], json!([1, 3, 4]));
    assert_eq!(set["instr_lines"], json!([1, 1, 1]));
    assert_eq!(set["shards"], serde_json::Value::Null);
}

/// Instructions that each touch a line: line `i % 10`, and from instruction 500 on line `i`.
fn long(n: u64) -> String {
    let mut text = String::new();
    for i in 0..n {
        let line = if i < 500 { i % 10 } else { i };
        let _ = write!(text, "instr 0x40 4\nread {} 8\n", line * 64);
    }
    text
}

#[test]
fn intervals_are_few_and_begin_at_multiples_of_their_width() {
    let report = report(&WorkingSet, "", &long(1000));
    let set = report.as_any().downcast_ref::<crate::PerThread<Footprints>>().unwrap();
    assert_eq!((set.total.total.interval, set.total.total.start), (16, 0));
    // Instruction 500 is in interval 31, with 4 of the 10 lines and 12 new ones.
    let expected: Vec<u64> = (0..63)
        .map(|i| match i {
            0..31 => 10,
            31 => 4 + 12,
            62 => 8,
            _ => 16,
        })
        .collect();
    assert_eq!(set.total.total.data_lines, expected);
    assert_eq!(set.total.total.data_lines_so_far[30..34], [10, 22, 38, 54]);
    assert_eq!(set.total.total.data_lines_so_far.last(), Some(&510));
}

#[test]
fn a_line_that_two_shards_touch_counts_once_in_all() {
    let text = "shard a\ninstr 0x40 4\nread 0x100 4\nshard b\ninstr 0x40 4\nread 0x100 4\nread 0x200 4";
    let set = json(&WorkingSet, "", text);
    assert_eq!(set["lines"], json!({ "total": 3, "instr": 1, "data": 2 }));
    assert_eq!(set["shards"][0]["lines"], json!({ "total": 2, "instr": 1, "data": 1 }));
    assert_eq!(set["shards"][1]["data_lines"], json!([2]));
}

#[test]
fn threads_that_share_a_shard_are_told_apart_and_add_up() {
    let text = "
        thread 7 1
        instr 0x40 4
        read 0x100 4
        thread 8 1
        instr 0x40 4
        read 0x100 4
        read 0x200 4
        thread 7 1
        instr 0x40 4
        read 0x300 4";
    let mut set = json(&WorkingSet, "per-thread", text);
    let threads = set.as_object_mut().unwrap().remove("threads").unwrap();
    assert_eq!(set, json(&WorkingSet, "", text));
    assert_eq!((&threads[0]["thread"], &threads[1]["thread"]), (&json!(7), &json!(8)));
    assert_eq!(threads[0]["lines"], json!({ "total": 3, "instr": 1, "data": 2 }));
    assert_eq!(threads[1]["lines"], json!({ "total": 3, "instr": 1, "data": 2 }));
    assert_eq!(threads[0]["data_lines"], json!([1, 0, 1]));
    // A thread begins where it is switched to, which is after the other's instruction 0.
    assert_eq!(threads[1]["data_lines"], json!([0, 2]));
    assert_eq!(threads[1]["start"], 0);
}

#[test]
fn without_fetches_positions_are_records() {
    let trace = trace("read 0x100 4\nread 0x200 4\nmark 1 1\nread 0x100 4");
    let set =
        report_of(&WorkingSet, "", &trace.with_columns(ALL_COLUMNS.minus(Columns::ACCESS_FETCH))).json();
    assert_eq!(set["axis"], "records");
    assert_eq!(set["data_lines"], json!([1, 1, 0, 1]));
}

#[test]
fn pages_smaller_than_lines_are_refused() {
    let mut given = Given::default();
    given.add("page-size", "32");
    let error = plan(&WorkingSet, &given, &trace("")).err().unwrap();
    assert_eq!(error.message(), "option `page-size` wants at least `line-size` (64), found `32`");
}

#[test]
fn nothing_touched_is_nothing_shown() {
    let set = json(&WorkingSet, "", "mark 1 1");
    assert_eq!(set["lines"], json!({ "total": 0, "instr": 0, "data": 0 }));
    assert_eq!(set["data_lines"], json!([0]));
}

/// Two shards of instructions with any number of accesses each, other records between them, and pieces at any place.
fn random(seed: u64) -> MemoryTrace {
    let mut rng = Rng::new(seed);
    let shards = (0..2).map(|shard| {
        let mut rows = MemoryShard::new("random").thread(shard, 1);
        for _ in 0..1500 {
            rows = match rng.below(10) {
                0 => rows.mark(1, 1),
                1 if rng.below(8) == 0 => rows.piece(),
                1..5 => rows.instr(0x40_0000 + rng.below(3000), 4),
                _ => rows.read(0x7000_0000 + rng.below(1 << 18), 1 << rng.below(8)),
            };
        }
        rows
    });
    MemoryTrace::new(shards.collect())
}

#[test]
fn the_division_of_the_work_does_not_show() {
    for seed in 0..10 {
        assert_division_of_does_not_show(&WorkingSet, "", &random(seed));
        assert_division_of_does_not_show(&WorkingSet, "per-thread", &random(seed));
        assert_division_of_does_not_show(&WorkingSet, "line-size=16 page-size=1024", &random(seed));
        let without = random(seed).with_columns(ALL_COLUMNS.minus(Columns::ACCESS_FETCH));
        assert_division_of_does_not_show(&WorkingSet, "", &without);
    }
    let text = long(3000).replace("instr 0x40 4\nread 64000 8", "piece\ninstr 0x40 4\nread 64000 8");
    assert_division_of_does_not_show(&WorkingSet, "", &trace(&text));
}

#[test]
fn shards_are_named_by_their_threads_or_cores() {
    let full = |shard: fn(u64) -> MemoryShard| {
        let shards = [3, 7].map(|number| shard(number).instr(0, 4).read(64, 8));
        let report = report_of(&WorkingSet, "", &MemoryTrace::new(shards.to_vec()));
        let titles = report.document(Detail::Full).blocks.into_iter().filter_map(|block| match block {
            Block::Series(series) => Some(series.title),
            _ => None,
        });
        (titles.collect::<Vec<_>>(), report.json())
    };
    let (titles, json) = full(|thread| MemoryShard::new("file").thread(thread, 1));
    assert_eq!(titles, ["", "thread 3", "thread 7"]);
    assert_eq!((&json["shards"][1]["thread"], &json["shards"][1]["core"]), (&json!(7), &json!(null)));
    let (titles, json) = full(|core| MemoryShard::new("file").core(core).thread(1, 1));
    assert_eq!(titles, ["", "core 3", "core 7"]);
    assert_eq!((&json["shards"][1]["thread"], &json["shards"][1]["core"]), (&json!(null), &json!(7)));
}
