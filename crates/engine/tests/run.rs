//! The outcome of a run: the same for any number of threads, in the trace's order, whatever goes wrong.

use crate::tools::{PIECES, SHARDS, SIZES, STOP, TIME};
use quipu_engine::{DispatchOptions, Outcome, RunOptions, Watch, WindowOf, dispatch, plan, run};
use quipu_model::lens::AccessKind;
use quipu_model::{Columns, Error, ErrorKind, Found, Given, Result, ThreadId, Tool, Window};
use quipu_testkit::{MemoryShard, MemoryTrace};
use std::fmt::Write as _;

fn outcome(
    trace: &MemoryTrace,
    tools: &[&dyn Tool],
    change: impl FnOnce(&mut RunOptions<'_>),
) -> Result<Outcome> {
    let watch = Watch::new();
    let mut options = RunOptions::new(&watch);
    change(&mut options);
    let planned = tools.iter().map(|tool| plan(*tool, &Given::default(), trace)).collect::<Result<_>>()?;
    run(trace, planned, &options)
}

fn values(outcome: &Outcome, report: usize) -> Vec<u64> {
    let json = outcome.reports[report].json();
    json["values"].as_array().unwrap().iter().map(|value| value.as_u64().unwrap()).collect()
}

fn messages(found: &Found) -> Vec<String> {
    found.as_slice().iter().map(ToString::to_string).collect()
}

/// The values that the marks tool sees in a trace given as text, on one thread.
fn seen(text: &str, tool: &dyn Tool, window: Window) -> Vec<u64> {
    let trace = MemoryTrace::parse(text).unwrap();
    let outcome =
        outcome(&trace, &[tool], |options| (options.threads, options.window) = (1, window)).unwrap();
    values(&outcome, 0)
}

/// Everything in an outcome that a caller can see.
fn everything(result: &Result<Outcome>) -> String {
    match result {
        Err(error) => format!("failed: {error}"),
        Ok(outcome) => {
            let mut text = format!("{} {} {:?}", outcome.records, outcome.instrs, outcome.error);
            for report in &outcome.reports {
                write!(text, "\n{}", report.json()).unwrap();
            }
            for finding in outcome.findings.as_slice() {
                write!(text, "\n{finding}").unwrap();
            }
            text
        }
    }
}

const TWO_SHARDS: &str = "
shard a
mark 0 1
clock 10
mark 0 2
piece
mark 0 3
clock 30
mark 0 4
shard b
clock 20
mark 0 5
clock 40
mark 0 6";

#[test]
fn pieces_and_shards_arrive_in_the_order_of_the_trace() {
    assert_eq!(seen(TWO_SHARDS, &PIECES, Window::All), [1, 2, 3, 4, 5, 6]);
    assert_eq!(seen(TWO_SHARDS, &SHARDS, Window::All), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_stream_arrives_in_the_order_of_clocks() {
    assert_eq!(seen(TWO_SHARDS, &TIME, Window::All), [1, 2, 3, 5, 4, 6]);
}

#[test]
fn a_pass_that_does_not_need_the_stream_sees_whole_shards_beside_one_that_does() {
    let trace = MemoryTrace::parse(TWO_SHARDS).unwrap();
    let outcome = outcome(&trace, &[&PIECES, &TIME, &SHARDS], |_| {}).unwrap();
    assert_eq!(values(&outcome, 0), [1, 2, 3, 4, 5, 6]);
    assert_eq!(values(&outcome, 1), [1, 2, 3, 5, 4, 6]);
    assert_eq!(values(&outcome, 2), [1, 2, 3, 4, 5, 6]);
    assert_eq!((outcome.records, outcome.instrs), (10, 0));
}

#[test]
fn windows_count_along_the_merged_sequence() {
    // 1, 10, 2, 3 | 20, 5 | 30, 4 | 40, 6
    for tool in [&PIECES as &dyn Tool, &SHARDS] {
        assert_eq!(seen(TWO_SHARDS, tool, Window::Records(0..4)), [1, 2, 3]);
        assert_eq!(seen(TWO_SHARDS, tool, Window::Records(3..7)), [3, 5]);
        assert_eq!(seen(TWO_SHARDS, tool, Window::Records(4..9)), [4, 5]);
        assert_eq!(seen(TWO_SHARDS, tool, Window::Records(7..u64::MAX)), [4, 6]);
        assert_eq!(seen(TWO_SHARDS, tool, Window::Records(99..100)), Vec::<u64>::new());
    }
    assert_eq!(seen(TWO_SHARDS, &TIME, Window::Records(3..7)), [3, 5]);
    assert_eq!(seen(TWO_SHARDS, &TIME, Window::Records(7..u64::MAX)), [4, 6]);
    assert_eq!(seen(TWO_SHARDS, &TIME, Window::Clock(20..40)), [5, 4]);
    assert_eq!(seen(TWO_SHARDS, &PIECES, Window::Clock(20..40)), [4, 5]);
}

#[test]
fn windows_of_instructions_take_what_belongs_to_them() {
    let text = "
shard a
clock 10
instr 0 1
mark 0 1
instr 0 1
mark 0 2
clock 30
mark 0 3
instr 0 1
mark 0 4
shard b
clock 20
mark 0 5
nofetch 0 1
instr 0 1
mark 0 6";
    for tool in [&PIECES as &dyn Tool, &SHARDS, &TIME] {
        assert_eq!(seen(text, tool, Window::Instrs(0..1)), [1]);
        assert_eq!(seen(text, tool, Window::Instrs(1..2)), [2, 5]);
        assert_eq!(seen(text, tool, Window::Instrs(3..4)), [4]);
    }
    assert_eq!(seen(text, &TIME, Window::Instrs(2..9)), [6, 3, 4]);
    assert_eq!(seen(text, &PIECES, Window::Instrs(2..9)), [3, 4, 6]);
}

#[test]
fn the_outcome_is_the_same_for_any_number_of_threads() {
    for seed in 0..6 {
        let trace = MemoryTrace::random(seed, 5, 3000);
        for tools in [&[&PIECES as &dyn Tool][..], &[&SHARDS], &[&TIME, &PIECES]] {
            for window in [Window::All, Window::Records(700..9000), Window::Instrs(100..2000)] {
                let run = |threads| {
                    outcome(&trace, tools, |options| {
                        (options.threads, options.window) = (threads, window.clone())
                    })
                };
                let expected = everything(&run(1));
                for threads in [2, 3, 8] {
                    assert_eq!(
                        everything(&run(threads)),
                        expected,
                        "{threads} threads, seed {seed}, {window:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_fault_ends_its_piece_and_the_others_go_on() {
    let text =
        "mark 0 1\nfault broken\nmark 0 2\npiece\nmark 0 3\nshard b\nmark 0 4\nfault cut\nshard c\nmark 0 5";
    let trace = MemoryTrace::parse(text).unwrap();
    for threads in [1, 4] {
        let outcome = outcome(&trace, &[&PIECES], |options| options.threads = threads).unwrap();
        assert_eq!(values(&outcome, 0), [1, 3, 4, 5]);
        assert_eq!(outcome.error.as_ref().map(Error::message), Some("broken"));
        assert_eq!(
            messages(&outcome.findings),
            ["error engine/unreadable: offset 0x10, record 1, instr 0: reading stops here: cut"]
        );
    }
    let outcome = outcome(&trace, &[&TIME], |_| {}).unwrap();
    assert_eq!(values(&outcome, 0), [1, 4, 5]);
    assert_eq!(outcome.error.as_ref().map(Error::message), Some("broken"));
}

#[test]
fn a_strict_run_ends_with_the_first_mistake_in_the_order_of_the_trace() {
    let text = "mark 0 1\nfinding warning odd\nshard b\nfinding error wrong\nshard c\nfault broken";
    let trace = MemoryTrace::parse(text).unwrap();
    for tool in [&PIECES as &dyn Tool, &SHARDS] {
        for threads in [1, 3] {
            let strict =
                outcome(&trace, &[tool], |options| (options.threads, options.strict) = (threads, true));
            assert_eq!(strict.err().unwrap().message(), "wrong (memory/finding)");
        }
    }
    let tolerant = outcome(&trace, &[&PIECES], |_| {}).unwrap();
    assert_eq!(tolerant.findings.total(), 2);
    assert_eq!(tolerant.error.as_ref().map(Error::message), Some("broken"));
}

#[test]
fn a_strict_run_minds_what_was_wrong_when_the_trace_was_opened() {
    let trace = MemoryTrace::parse("finding error wrong").unwrap();
    let finding = outcome(&trace, &[&PIECES], |_| {}).unwrap().findings.into_vec().remove(0);
    let trace = MemoryTrace::parse("mark 0 1").unwrap().with_meta(|meta| meta.findings.push(finding));
    assert!(outcome(&trace, &[&PIECES], |_| {}).unwrap().findings.is_empty());
    let strict = outcome(&trace, &[&PIECES], |options| options.strict = true);
    assert_eq!(strict.err().unwrap().message(), "wrong (memory/finding)");
}

#[test]
fn findings_come_in_the_order_of_the_trace_and_are_bounded() {
    let mut text = String::new();
    for shard in 0..40 {
        writeln!(text, "shard {shard}\nfinding warning number {shard}\nmark 0 {shard}").unwrap();
    }
    let trace = MemoryTrace::parse(&text).unwrap();
    for threads in [1, 8] {
        let found = outcome(&trace, &[&PIECES], |options| options.threads = threads).unwrap().findings;
        assert_eq!(found.total(), 40);
        let kept: Vec<String> = found.into_vec().into_iter().map(|finding| finding.message).collect();
        assert_eq!(kept, (0..8).map(|shard| format!("number {shard}")).collect::<Vec<_>>());
    }
}

#[test]
fn a_panic_is_an_internal_error_and_hangs_nobody() {
    let trace = MemoryTrace::parse("mark 0 1\nshard b\ncrash bug\nshard c\nmark 0 2").unwrap();
    for threads in [1, 2, 8] {
        let error = outcome(&trace, &[&PIECES], |options| options.threads = threads).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Internal);
        assert_eq!(error.message(), "a part of the work panicked: bug");
    }
    let error = outcome(&trace, &[&TIME], |_| {}).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Internal);
}

#[test]
fn what_a_pass_cannot_do_ends_the_run() {
    let trace = MemoryTrace::parse("mark 0 1\nmark 0 2\nmark 0 3").unwrap();
    let mut given = Given::default();
    given.add("limit", "2");
    let watch = Watch::new();
    let planned = vec![plan(&PIECES, &given, &trace).unwrap()];
    let error = run(&trace, planned, &RunOptions::new(&watch)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

#[test]
fn a_cancelled_run_brings_what_it_has() {
    let trace = MemoryTrace::random(1, 3, 5000);
    let watch = Watch::new();
    watch.cancel();
    for tool in [&PIECES as &dyn Tool, &SHARDS, &TIME] {
        for window in [Window::All, Window::Records(10..1000)] {
            let planned = vec![plan(tool, &Given::default(), &trace).unwrap()];
            let outcome = run(&trace, planned, &RunOptions { window, ..RunOptions::new(&watch) }).unwrap();
            assert!(outcome.cancelled);
            assert_eq!((outcome.records, values(&outcome, 0)), (0, vec![]));
        }
    }
}

#[test]
fn a_run_that_is_cancelled_on_its_way_keeps_what_it_has_seen() {
    let trace =
        MemoryTrace::parse("thread 1\nmark 0 1\nthread 2\nmark 0 2\nthread 3\nmark 0 3\npiece\nmark 0 4")
            .unwrap();
    let mut given = Given::default();
    given.add("cancel-at", "2");
    let planned = vec![plan(&PIECES, &given, &trace).unwrap()];
    let outcome = run(&trace, planned, &RunOptions { threads: 1, ..RunOptions::new(&STOP) }).unwrap();
    assert!(outcome.cancelled);
    assert_eq!((outcome.records, values(&outcome, 0)), (2, vec![1, 2]));
}

#[test]
fn a_run_ends_when_no_pass_wants_more() {
    let mut text = String::new();
    for i in 0..100 {
        let _ = writeln!(text, "thread {}\nmark 0 {i}", 1 + i % 2);
    }
    let trace = MemoryTrace::parse(&text).unwrap();
    let read = |tools: &[(&dyn Tool, &str)]| {
        let planned = tools.iter().map(|(tool, enough)| {
            let mut given = Given::default();
            given.add("enough", *enough);
            plan(*tool, &given, &trace).unwrap()
        });
        let watch = Watch::new();
        let options =
            RunOptions { threads_wanted: [1, 2, 3].map(ThreadId::from).to_vec(), ..RunOptions::new(&watch) };
        run(&trace, planned.collect(), &options).unwrap()
    };
    let stopped = read(&[(&TIME, "7")]);
    assert_eq!((stopped.records, values(&stopped, 0)), (7, (0..7).collect()));
    assert!(!stopped.cancelled && stopped.absent_threads.is_empty(), "thread 3 may have come later");
    let whole = read(&[(&TIME, "7"), (&TIME, "1000")]);
    assert_eq!((whole.records, values(&whole, 1).len()), (100, 100));
    assert_eq!(whole.absent_threads, [3.into()]);
}

#[test]
fn a_run_tells_how_far_it_has_come() {
    let shards = (0..4).map(|i| MemoryShard::new("s").packed_bytes(1000).mark(0, i).mark(0, i));
    let trace = MemoryTrace::new(shards.collect());
    for tool in [&PIECES as &dyn Tool, &TIME] {
        let watch = Watch::new();
        run(&trace, vec![plan(tool, &Given::default(), &trace).unwrap()], &RunOptions::new(&watch)).unwrap();
        let progress = watch.progress();
        assert_eq!(progress.records, 8);
        assert_eq!((progress.packed_bytes, progress.total_packed_bytes), (4000, Some(4000)));
    }
}

#[test]
fn an_empty_trace_leaves_empty_reports() {
    let trace = MemoryTrace::new(Vec::new());
    for tool in [&PIECES as &dyn Tool, &SHARDS, &TIME] {
        let outcome = outcome(&trace, &[tool], |_| {}).unwrap();
        assert_eq!((outcome.records, values(&outcome, 0)), (0, vec![]));
    }
}

#[test]
fn a_plan_names_what_is_missing_and_what_is_unknown() {
    let trace = MemoryTrace::parse("mark 0 1").unwrap().with_columns(Columns::ACCESSES);
    let error = plan(&PIECES, &Given::default(), &trace).err().unwrap();
    assert_eq!(error.message(), "tool `marks` needs marks, which this trace does not carry");
    let mut given = Given::default();
    given.add("limmit", "3");
    let error = plan(&PIECES, &given, &trace).err().unwrap();
    assert_eq!(error.message(), "tool `marks` has no option `limmit`");
    assert_eq!(error.advice(), Some("did you mean `limit`?"));
}

#[test]
fn a_plan_asks_for_what_the_trace_has_of_the_optional_columns() {
    let trace = MemoryTrace::parse("mark 0 1").unwrap();
    let planned = plan(&PIECES, &Given::default(), &trace).unwrap();
    assert_eq!(planned.reads.columns, Columns::MARKS | Columns::THREADS);
    let planned = plan(&PIECES, &Given::default(), &trace.with_columns(Columns::MARKS)).unwrap();
    assert_eq!(planned.reads.columns, Columns::MARKS);
}

#[test]
fn thousands_of_shards_and_pieces_are_read_in_order() {
    let shards = (0..2000).map(|i| MemoryShard::new("s").clock(5000 - i).mark(0, i).piece().mark(0, i));
    let trace = MemoryTrace::new(shards.collect());
    let in_order: Vec<u64> = (0..2000).flat_map(|i| [i, i]).collect();
    let outcome = |tool, threads| outcome(&trace, &[tool], |options| options.threads = threads).unwrap();
    assert_eq!(values(&outcome(&PIECES, 4), 0), in_order);
    assert_eq!(values(&outcome(&SHARDS, 4), 0), in_order);
    assert_eq!(values(&outcome(&TIME, 4), 0), in_order.into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn a_window_of_each_shard_and_a_limit_hold_for_each() {
    let trace = MemoryTrace::parse(
        "shard a\nclock 1\nmark 0 1\nmark 0 2\nmark 0 3\nmark 0 4\nshard b\nclock 2\nmark 0 5\nmark 0 6\nmark 0 7",
    )
    .unwrap();
    for tool in [&PIECES as &dyn Tool, &SHARDS, &TIME] {
        let outcome = outcome(&trace, &[tool], |options| {
            options.window = Window::Records(2..u64::MAX);
            options.window_of = WindowOf::EachShard;
            options.most_records = 2;
        });
        assert_eq!(values(&outcome.unwrap(), 0), [2, 3, 6, 7]);
    }
}

#[test]
fn cores_side_by_side_are_for_those_who_know_them_and_for_each_core_alone() {
    let threads = MemoryTrace::parse(
        "shard a\nthread 1 1\nclock 1\ninstr 0x10 4\nmark 1 1\nshard b\nthread 2 1\nclock 1\ninstr 0x10 4\nmark 1 2",
    );
    let options = DispatchOptions { cores: 2, end_share: 0.0, ..DispatchOptions::default() };
    let cores = dispatch(Box::new(threads.unwrap()), options).unwrap();
    let watch = Watch::new();
    let of = |tool: &dyn Tool| {
        let planned = plan(tool, &Given::default(), &*cores).unwrap();
        run(&*cores, vec![planned], &RunOptions::new(&watch))
    };
    for tool in [&PIECES, &SHARDS] {
        let mut marks = values(&of(tool).unwrap(), 0);
        marks.sort_unstable();
        assert_eq!(marks, [1, 2]);
    }
    let error = of(&TIME).err().unwrap();
    assert_eq!(error.to_string(), "this analysis takes threads one after the other, not cores side by side");
}

#[test]
fn no_pass_in_any_order_is_given_an_access_beyond_the_limit() {
    let text = "
shard a
clock 1
read 0x1000 0x100000
write 0x2000 0x100001
piece
read 0x3000 4
flush 0x4000 0xffffffff
shard b
clock 2
read 0x5000 0xffffffff
read 0x6000 8
";
    let flush = AccessKind::FlushData.name();
    let trace = MemoryTrace::parse(&text.replace("flush", flush)).unwrap();
    for tool in &SIZES {
        for threads in [1, 4] {
            let outcome = outcome(&trace, &[tool], |options| options.threads = threads).unwrap();
            assert_eq!(values(&outcome, 0), [0x10_0000, 4, 0xffff_ffff, 8]);
            let found = messages(&outcome.findings);
            assert_eq!(found.len(), 2, "{found:?}");
            assert!(found[0].contains("record 2: an access of 1048577 bytes"), "{found:?}");
            assert!(found[1].contains("record 1: an access of 4294967295 bytes"), "{found:?}");
        }
    }
}
