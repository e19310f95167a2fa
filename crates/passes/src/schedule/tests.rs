//! Tests of `schedule` on traces of a few rows.

use super::*;
use crate::sample::{
    assert_division_does_not_show, assert_division_of_does_not_show, json, report_of, trace,
};
use quipu_model::ShardKind;
use quipu_model::doc::Block;
use quipu_model::pass::Detail;
use quipu_testkit::{MemoryShard, MemoryTrace, Record, Rng};
use serde_json::json;

#[test]
fn what_a_thread_did_is_counted() {
    let text = "
        thread 7 3
        clock 100
        cpu 2
        instr 0x10 4
        read 0x100 8
        syscall 1
        clock 160
        cpu 2
        interrupt 0x14
        clock 180
        cpu 5
        nofetch 0x10 4";
    let schedule = json(&Schedule, "", text);
    let thread = &schedule["threads"][0];
    for (key, value) in [
        ("thread", 7),
        ("process", 3),
        ("records", 11),
        ("instructions", 1),
        ("first_clock", 100),
        ("last_clock", 180),
        ("slices", 1),
        ("migrations", 1),
        ("syscalls", 1),
        ("may_block", 0),
        ("interrupts", 1),
        ("busy_ticks", 80),
        ("idle_ticks", 0),
        ("unclear_ticks", 0),
    ] {
        assert_eq!(thread[key], value, "{key}");
    }
    assert_eq!(thread["cpus"], json!([2, 5]));
    assert_eq!(schedule["clock_per_second"], 1_000_000);
}

#[test]
fn letters_stand_for_files_where_threads_were_arranged() {
    let arranged = [ThreadId::from(50), ThreadId::from(28)];
    let (of_files, of_numbers) = (cores::Letters::new(1, &arranged), cores::Letters::new(1, &[]));
    assert_eq!((of_files.of(arranged[0]), of_files.of(arranged[1])), (0, 1));
    assert_eq!((of_numbers.of(arranged[0]), of_numbers.of(arranged[1])), (50 % 26, 28 % 26));
}

#[test]
fn rests_come_together_where_no_other_record_is_between_them() {
    use ThreadEvent::{Clock, Idle, Wait};
    let events = Threads {
        at: vec![0, 1, 2, 4, 5, 6, 6, 7],
        what: vec![Idle, Idle, Idle, Idle, Wait, Wait, Clock, Wait],
        value: vec![0, 0, 0, 0, 0, 0, 9, 0],
    };
    let runs: Vec<Run> = runs(&events).collect();
    let run = |what, value, at, n| Run { what, value, at, n };
    let expected =
        [run(Idle, 0, 0, 3), run(Idle, 0, 4, 1), run(Wait, 0, 5, 2), run(Clock, 9, 6, 1), run(Wait, 0, 7, 1)];
    assert_eq!(runs, expected);
}

#[test]
fn time_in_a_framed_call_that_may_block_is_idle() {
    let text = "clock 100\ninstr 0x10 4\nclock 110\ncpu 1\nsyscall 0\nmay-block 0\nclock 150\ncpu 1\ninstr 0x14 4\nclock 155";
    let schedule = json(&Schedule, "", text);
    let thread = &schedule["threads"][0];
    assert_eq!((&thread["busy_ticks"], &thread["idle_ticks"]), (&json!(15), &json!(40)));
    let busy: Vec<u64> =
        thread["busy"].as_array().unwrap().iter().map(|busy| busy.as_u64().unwrap()).collect();
    assert_eq!(schedule["steps"], json!({ "start": 100, "ticks": 1, "count": 56 }));
    let expected: Vec<u64> =
        (100..156).map(|tick| u64::from(tick < 110 || (150..155).contains(&tick))).collect();
    assert_eq!(busy, expected);
}

#[test]
fn time_with_an_unframed_call_that_may_block_is_unclear() {
    let text = "clock 100\ninstr 0x10 4\ninstr 0x14 4\ninstr 0x18 4\ninstr 0x1c 4\nmay-block 0\nclock 150";
    let thread = &json(&Schedule, "", text)["threads"][0];
    assert_eq!(
        (&thread["busy_ticks"], &thread["idle_ticks"], &thread["unclear_ticks"]),
        (&json!(50), &json!(0), &json!(50))
    );
}

#[test]
fn readings_that_say_nothing_and_clocks_that_run_back_add_no_time() {
    let text = "clock 0\nclock 100\nclock 0xffffffffffffffff\ncpu 0xffffffffffffffff\nclock 90\nclock 95";
    let schedule = json(&Schedule, "", text);
    assert_eq!((&schedule["first_clock"], &schedule["last_clock"]), (&json!(90), &json!(100)));
    assert_eq!(schedule["threads"][0]["busy_ticks"], 5);
    assert_eq!(schedule["threads"][0]["cpus"], json!([]));
}

#[test]
fn a_slice_begins_where_a_shard_turns_to_a_thread() {
    let text = "thread 1 1\nmark 1 1\nthread 2 1\nmark 1 1\nthread 1 1\nmark 1 1\npiece\nmark 1 1";
    let schedule = json(&Schedule, "", text);
    let slices: Vec<_> =
        schedule["threads"].as_array().unwrap().iter().map(|thread| &thread["slices"]).collect();
    assert_eq!(slices, [&json!(2), &json!(1)]);
}

/// Core 0 runs thread 1 for 6 records, idles for 4, runs thread 2; core 1 never runs.
fn cores() -> MemoryTrace {
    let idle = Record::Thread { what: ThreadEvent::Idle, value: 0 };
    let mut busy = MemoryShard::new("core.0").kind(ShardKind::Core).thread(1, 1).clock(1000);
    for pc in 0..5 {
        busy = busy.instr(pc, 1);
    }
    busy = busy.thread(u64::MAX, u64::MAX);
    for _ in 0..4 {
        busy = busy.record(idle.clone());
    }
    busy = busy.thread(2, 1).clock(1100).instr(9, 1).clock(1110);
    let asleep = MemoryShard::new("core.1").kind(ShardKind::Core).thread(u64::MAX, u64::MAX).clock(u64::MAX);
    MemoryTrace::new(vec![busy, asleep.record(idle.clone()).record(idle)])
}

#[test]
fn a_core_is_busy_for_its_share_of_records() {
    let schedule = report_of(&Schedule, "", &cores()).json();
    let core = &schedule["cores"][0];
    for (key, value) in [
        ("shard", 0),
        ("records", 13),
        ("instructions", 6),
        ("slices", 2),
        ("idles", 4),
        ("busy_ticks", 70),
        ("idle_ticks", 40),
    ] {
        assert_eq!(core[key], value, "{key}");
    }
    assert_eq!(schedule["cores"][1]["idles"], 2);
    assert_eq!(schedule["cores"][1]["busy_ticks"], 0);
    let threads: Vec<_> =
        schedule["threads"].as_array().unwrap().iter().map(|thread| &thread["thread"]).collect();
    assert_eq!(threads, [&json!(1), &json!(2)]);
    assert_eq!(schedule["threads"][0]["busy"], json!([]));
}

#[test]
fn switches_are_counted_where_a_thread_is_left() {
    let switching = report_of(&Schedule, "letter=2", &cores()).json()["switching"].clone();
    assert_eq!(switching["total"]["switches"], 1);
    assert_eq!(switching["total"]["threads"], json!([1, 2]));
    // Threads 1 and 2 are B and C; a letter represents two instructions or idles.
    assert_eq!(switching["cores"][0]["schedule"], "Bbb__C");
    assert_eq!(switching["cores"][1]["schedule"], "_");
    assert_eq!(
        switching["cores"][0]["switch_outs"],
        json!([{ "thread": 1, "start_instr": 1, "instructions": 5, "syscall": null, "latency": null,
                 "voluntary": false, "direct": false }])
    );
    assert_eq!(switching["instruction_ratio"], json!(null));
}

#[test]
fn a_switch_is_voluntary_behind_a_call_and_direct_to_the_thread_asked_for() {
    let text =
        "shard c core\nthread 1 1\ninstr 0 4\nclock 100\nsyscall 24\nswitch-to 2\nclock 107\nthread 2 1
        instr 4 4\nthread 1 1\ninstr 8 4\nstop\nthread 2 1\ninstr 12 4";
    let switching = json(&Schedule, "", text)["switching"].clone();
    let total = &switching["total"];
    for (key, count) in [("switches", 3), ("voluntary", 2), ("direct", 1), ("direct_requests", 1)] {
        assert_eq!(total[key], count, "{key}");
    }
    let bins = json!([{ "number": 24, "bins": [{ "from": 5, "to": 10, "count": 1 }] }]);
    assert_eq!((&total["switched_latencies"], &total["other_latencies"]), (&bins, &json!([])));
}

#[test]
fn a_thread_migrates_when_it_comes_to_another_core_by_the_clock() {
    let core = |text: &str| format!("shard c core\n{text}");
    let text = core(
        "thread 1 1\nclock 10\ninstr 0 4\nthread 2 1\nclock 30\ninstr 0 4\nthread 1 1\nclock 50\ninstr 0 4\n",
    ) + &core("thread 3 1\nclock 20\ninstr 0 4\nthread 1 1\nclock 40\ninstr 0 4");
    let switching = json(&Schedule, "", &text)["switching"].clone();
    // Each clock reading comes after the thread's arrival, so the one before counts: 1 comes to the second core at 20.
    assert_eq!(switching["total"]["migrations"], 2);
    assert_eq!(
        switching["cores_per_thread"],
        json!([{ "from": 1, "to": 2, "count": 2 }, { "from": 2, "to": 3, "count": 1 }])
    );
}

#[test]
fn lanes_are_cores_where_shards_are_cores() {
    let report = report_of(&Schedule, "", &cores());
    let document = report.document(Detail::Brief);
    let Some(Block::Lanes(lanes)) = document.blocks.get(1) else { panic!("{document:?}") };
    assert_eq!(lanes.ends, ("0 µs".to_owned(), "110 µs".to_owned()));
    assert_eq!(lanes.lanes.iter().map(|lane| lane.name.as_str()).collect::<Vec<_>>(), ["core 0", "core 1"]);
    assert_eq!(lanes.lanes[0].note, "6 instrs, 2 slices");
    // 1000 to 1060 is busy, 1100 to 1110 again; steps of 2 ticks.
    let busy: Vec<bool> = lanes.lanes[0].busy.iter().map(|busy| *busy > 0.5).collect();
    let expected: Vec<bool> = (0..56).map(|step| step < 30 || (50..55).contains(&step)).collect();
    assert_eq!(busy, expected);
}

#[test]
fn only_the_threads_with_the_most_records_are_drawn() {
    let mut text = String::new();
    for thread in 0..20 {
        let records = if thread == 3 { 1 } else { 2 };
        text.push_str(&format!(
            "shard t\nthread {thread} 1\nclock 5\n{}clock 900\n",
            "mark 1 1\n".repeat(records)
        ));
    }
    let report = report_of(&Schedule, "", &trace(&text));
    let Some(Block::Lanes(lanes)) = report.document(Detail::Brief).blocks.get(1).cloned() else {
        panic!("no lanes")
    };
    assert_eq!((lanes.lanes.len(), lanes.more), (16, 4));
    assert!(lanes.lanes.iter().all(|lane| lane.name != "thread 3"));
}

/// Rows of random threads, with every event, clocks that mostly advance, and pieces at any place.
fn random(seed: u64, kind: ShardKind) -> MemoryTrace {
    let mut rng = Rng::new(seed);
    let shards = (0..2).map(|shard| {
        let mut clock = rng.below(10_000);
        let mut rows = MemoryShard::new("random").kind(kind).thread(shard, 1);
        for _ in 0..800 {
            rows = match rng.below(12) {
                0 => rows.piece(),
                1 => rows.thread(rng.below(3), 1),
                2 | 3 => {
                    clock = (clock + rng.below(300)).saturating_sub(if rng.below(20) == 0 { 200 } else { 0 });
                    rows.clock(clock)
                }
                4 => rows.instr(0x10, 1),
                _ => {
                    let what = ThreadEvent::ALL[2 + rng.below(7) as usize];
                    let value = if what == ThreadEvent::Clock { clock } else { rng.below(3) };
                    rows.record(Record::Thread { what, value })
                }
            };
        }
        rows
    });
    MemoryTrace::new(shards.collect())
}

#[test]
fn the_division_of_the_work_does_not_show() {
    assert_division_does_not_show(&Schedule, "");
    for seed in 0..10 {
        for kind in [ShardKind::Thread, ShardKind::Mixed, ShardKind::Core] {
            assert_division_of_does_not_show(&Schedule, "", &random(seed, kind));
        }
    }
}

#[test]
fn more_steps_divide_the_same_time_more_finely() {
    let clocks: String = (0..=1000).map(|i| format!("clock {}\ninstr 0x10 4\n", 1000 + 10 * i)).collect();
    let text = format!("thread 7 3\n{clocks}");
    let sums = [("", 32..=64), ("steps=512", 256..=512), ("steps=1", 1..=1)].map(|(options, expected)| {
        let schedule = json(&Schedule, options, &text);
        let count = schedule["steps"]["count"].as_u64().unwrap();
        assert!(expected.contains(&count), "{options}: {count}");
        let busy = schedule["threads"][0]["busy"].as_array().unwrap();
        assert_eq!(busy.len() as u64, count, "{options}");
        busy.iter().map(|ticks| ticks.as_u64().unwrap()).sum::<u64>()
    });
    assert_eq!(sums, [10_000; 3]);
}
