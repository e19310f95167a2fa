//! Tests of `syscalls` on traces of a few rows.

use super::*;
use crate::sample::{assert_batches_do_not_show, json, report_of, trace};
use quipu_model::pass::Detail;
use quipu_model::{ShardKind, doc::Block};
use quipu_testkit::{MemoryShard, MemoryTrace, Record, Rng};
use serde_json::json;

#[test]
fn calls_are_counted_with_their_names_errors_and_latencies() {
    let text = "
        clock 100\ninstr 0x10 2\nclock 110\ncpu 1\nsyscall 202\nmay-block 0\nfailed 11\nclock 150\ncpu 1
        instr 0x12 4\nclock 151\nsyscall 202\nclock 152\ninstr 0x16 4
        instr 0x16 4\nsyscall 999";
    let found = json(&Syscalls, "", text);
    assert_eq!((&found["calls"], &found["failed"]), (&json!(3), &json!(1)));
    assert_eq!(
        found["syscalls"][0],
        json!({
            "number": 202, "name": "futex", "calls": 2, "failed": 1,
            "errors": [{ "error": 11, "name": "EAGAIN", "count": 1 }],
            "may_block": 1, "switched": 0,
            "latency": {
                "timed": 2, "total_ticks": 41, "mean_ticks": 20.5, "min_ticks": 1, "max_ticks": 40,
                "histogram": [
                    { "from_ticks": 1, "to_ticks": 1, "count": 1 },
                    { "from_ticks": 32, "to_ticks": 63, "count": 1 }]
            },
            "kernel": null
        })
    );
    assert_eq!(found["syscalls"][1]["name"], json!(null));
}

#[test]
fn a_reading_that_does_not_frame_the_call_gives_no_latency() {
    for text in [
        // Too far before.
        "clock 100\nnofetch 1 1\nnofetch 1 1\nnofetch 1 1\nnofetch 1 1\nsyscall 1\nclock 200",
        // The thread has continued before the reading.
        "clock 100\nsyscall 1\ninstr 0x10 4\nclock 200",
        // No reading after it.
        "clock 100\nsyscall 1",
        // Invalid readings.
        "clock 0\nsyscall 1\nclock 100",
        "clock 100\nsyscall 1\nclock 0xffffffffffffffff",
    ] {
        assert_eq!(json(&Syscalls, "", text)["syscalls"][0]["latency"], json!(null), "{text}");
    }
}

#[test]
fn an_error_before_any_call_is_of_an_unknown_call() {
    let found = json(&Syscalls, "", "failed 4\nsyscall 1\ninstr 0 4\nfailed 9");
    assert_eq!(found["unknown_errors"], json!([{ "error": 4, "name": "EINTR", "count": 1 }]));
    assert_eq!(found["syscalls"][0]["errors"][0]["name"], "EBADF");
}

/// Thread 1 makes a call, thread 2 runs, thread 1 continues inside its call, then outside it.
fn switched(kind: ShardKind) -> MemoryTrace {
    let shard = MemoryShard::new("core.0")
        .kind(kind)
        .thread(1, 1)
        .record(Record::Thread { what: ThreadEvent::Syscall, value: 24 })
        .thread(2, 1)
        .instr(4, 4)
        .thread(1, 1)
        .instr(8, 4);
    MemoryTrace::new(vec![shard])
}

#[test]
fn a_switch_in_the_middle_of_a_call_is_seen_with_and_without_threads_apart() {
    for options in ["", "per-thread"] {
        let report = report_of(&Syscalls, options, &switched(ShardKind::Core));
        assert_eq!(report.json()["syscalls"][0]["switched"], 1, "{options}");
    }
    // Turns of threads in one file are not switches of a core.
    let report = report_of(&Syscalls, "", &switched(ShardKind::Mixed));
    assert_eq!(report.json()["syscalls"][0]["switched"], 0);
}

#[test]
fn threads_are_told_apart() {
    let text = "thread 7 1\nsyscall 1\nthread 8 1\nsyscall 2\nsyscall 2";
    let found = json(&Syscalls, "per-thread", text);
    assert_eq!(found["calls"], 3);
    assert_eq!(found["threads"][1]["thread"], 8);
    assert_eq!(found["threads"][1]["syscalls"][0], found["syscalls"][0]);
}

#[test]
fn people_see_columns_only_where_something_stands_in_them() {
    let report = report_of(&Syscalls, "", &trace("syscall 1\nfailed 9"));
    let document = report.document(Detail::Full);
    let Some(Block::Grid(grid)) = document.blocks.get(1) else { panic!("{document:?}") };
    assert_eq!(grid.head, ["call", "number", "calls", "failed", "may block"]);
    let Some(Block::Grid(errors)) = document.blocks.get(2) else { panic!("{document:?}") };
    assert_eq!(errors.rows, [["write".into(), "EBADF".into(), quipu_model::doc::Cell::Count(1)]]);
}

#[test]
fn the_division_into_batches_does_not_show() {
    for seed in 0..10 {
        let mut rng = Rng::new(seed);
        let mut clock = 1000;
        let mut shard = MemoryShard::new("random").kind(ShardKind::Core).thread(1, 1);
        for _ in 0..600 {
            clock += rng.below(100);
            shard = match rng.below(8) {
                0 => shard.thread(rng.below(3), 1),
                1 | 2 => shard.clock(clock),
                3 => shard.instr(0x10, 4),
                _ => {
                    let what = [
                        ThreadEvent::Syscall,
                        ThreadEvent::Failed,
                        ThreadEvent::MayBlock,
                        ThreadEvent::KernelEnter,
                        ThreadEvent::KernelLeave,
                    ][rng.below(5) as usize];
                    shard.record(Record::Thread { what, value: rng.below(4) })
                }
            };
        }
        assert_batches_do_not_show(&Syscalls, "", &MemoryTrace::new(vec![shard]));
    }
}
