//! Tests of `reuse-distance` on traces of a few rows.

use super::*;
use crate::sample::{assert_batches_do_not_show, json, report_of};
use quipu_testkit::{MemoryShard, MemoryTrace};
use serde_json::json;

/// Lines by their first use: a, b, c of data and i of instructions.
const TEXT: &str = "
    instr 0x1000 4
    read 0x10000 8
    instr 0x1004 4
    write 0x1003f 8
    prefetch 0x20000 1
    flush-data 0x30000 64
    prefetch-instr 0x1010 1
    read 0x10000 0";

#[test]
fn distances_count_the_distinct_lines_used_since() {
    let found = json(&ReuseDistance, "bins=1", TEXT);
    // i a i(1) a(1) b i(2) a(2)
    assert_eq!(
        found["histogram"],
        json!([
            { "min": 1, "max": 1, "count": 2, "data": 1 },
            { "min": 2, "max": 2, "count": 2, "data": 2 }])
    );
    assert_eq!(
        (&found["mean"], &found["median"], &found["deviation"]),
        (&json!(1.5), &json!(1), &json!(0.5))
    );
    assert_eq!(
        (&found["accesses"], &found["instr_accesses"], &found["data_accesses"]),
        (&json!(7), &json!(2), &json!(5))
    );
    assert_eq!((&found["lines"], &found["reuses"], &found["moves"]), (&json!(3), &json!(4), &json!(7)));
}

#[test]
fn lists_have_their_own_order() {
    let found = json(&ReuseDistance, "threshold=1", TEXT);
    assert_eq!(
        found["referenced"],
        json!([
            { "addr": "0x1000", "references": 3, "distant": 1 },
            { "addr": "0x10000", "references": 3, "distant": 1 },
            { "addr": "0x20000", "references": 1, "distant": 0 }])
    );
    let found = json(&ReuseDistance, "threshold=0 top=1", TEXT);
    assert_eq!(found["distant"], json!([{ "addr": "0x1000", "references": 3, "distant": 2 }]));
}

#[test]
fn a_line_that_comes_back_after_pruning_begins_anew() {
    let found = json(&ReuseDistance, "limit=1", "read 0 8\nread 0 8\nread 64 8\nread 0 8\nread 0 8");
    assert_eq!(
        (&found["pruned"], &found["pruned_hits"], &found["reuses"]),
        (&json!(2), &json!(1), &json!(2))
    );
    assert_eq!(found["lines"], 2);
    assert_eq!(found["referenced"], json!([{ "addr": "0x0", "references": 2, "distant": 0 }]));
}

#[test]
fn each_thread_has_a_stack_of_its_own() {
    let text = "
        shard a
        thread 1 1
        read 0 8\nread 64 8\nread 0 8
        shard b
        thread 2 1
        read 0 8\nread 0 8";
    let found = json(&ReuseDistance, "bins=1", text);
    assert_eq!(found["lines"], 2);
    assert_eq!(found["histogram"][0], json!({ "min": 0, "max": 0, "count": 1, "data": 1 }));
    let shards = found["shards"].as_array().unwrap();
    let of = |key: &str| shards.iter().map(|shard| shard[key].clone()).collect::<Vec<_>>();
    assert_eq!((of("thread"), of("lines")), (vec![json!(1), json!(2)], vec![json!(2), json!(1)]));
}

#[test]
fn a_total_counts_a_line_where_it_is_still_on_the_stack() {
    // The first thread prunes line 0 after two uses, whichever of the two is added first.
    let pruning = "thread 1 1\nread 0 8\nread 0 8\nread 64 8\nread 128 8";
    let keeping = "thread 2 1\nread 0 8";
    for (a, b) in [(pruning, keeping), (keeping, pruning)] {
        let found = json(&ReuseDistance, "limit=2", &format!("shard a\n{a}\nshard b\n{b}"));
        let lines = found["referenced"].as_array().unwrap();
        let line = lines.iter().find(|line| line["addr"] == "0x0").unwrap();
        assert_eq!(line["references"], 1, "{a}");
    }
}

#[test]
fn a_trace_without_accesses_has_no_mean() {
    let found = json(&ReuseDistance, "", "clock 1");
    assert_eq!(
        (&found["accesses"], &found["mean"], &found["histogram"]),
        (&json!(0), &json!(null), &json!([]))
    );
}

#[test]
fn neither_batches_nor_threads_show() {
    for seed in 0..4 {
        let trace = MemoryTrace::random(seed, 1 + seed as usize % 3, 1500);
        assert_batches_do_not_show(&ReuseDistance, "threshold=3 top=30", &trace);
        assert_batches_do_not_show(&ReuseDistance, "limit=5 per-thread", &trace);
    }
}

#[test]
fn cores_are_named_by_their_numbers() {
    let core = |number| MemoryShard::new("core").core(number).thread(1, 1).instr(0, 4).read(64, 8);
    let found = report_of(&ReuseDistance, "", &MemoryTrace::new(vec![core(3), core(7)])).json();
    assert_eq!([&found["shards"][0]["core"], &found["shards"][1]["core"]], [&json!(3), &json!(7)]);
}
