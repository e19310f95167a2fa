//! Tests of `reuse-time` on traces of a few rows.

use super::*;
use crate::sample::{assert_batches_do_not_show, json};
use quipu_testkit::MemoryTrace;
use serde_json::json;

#[test]
fn the_clock_counts_accesses_of_data_only() {
    let text = "
        instr 0x0 4
        read 0x10 8
        instr 0x4 4
        write 0x3f 8
        prefetch 0x40 1
        flush-data 0x40 64
        prefetch-instr 0x80 1
        read 0x20 8";
    let found = json(&ReuseTime, "bins=1", text);
    assert_eq!(
        found["histogram"],
        json!([{ "min": 1, "max": 1, "count": 1 }, { "min": 3, "max": 3, "count": 1 }])
    );
    assert_eq!((&found["accesses"], &found["instructions"]), (&json!(5), &json!(2)));
    assert_eq!((&found["mean"], &found["median"]), (&json!(2.0), &json!(1)));
}

#[test]
fn long_times_are_exact_too() {
    let others: String = (1..6000).map(|i| format!("read {} 8\n", 64 * i)).collect();
    let found = json(&ReuseTime, "bins=1", &format!("read 0 8\n{others}read 0 8"));
    assert_eq!(found["histogram"], json!([{ "min": 6000, "max": 6000, "count": 1 }]));
}

#[test]
fn neither_batches_nor_threads_show() {
    for seed in 0..4 {
        let trace = MemoryTrace::random(seed, 1 + seed as usize % 3, 1500);
        assert_batches_do_not_show(&ReuseTime, "bins=3", &trace);
        assert_batches_do_not_show(&ReuseTime, "per-thread", &trace);
    }
}
