//! Tests of `functions` on traces of a few rows.

use super::*;
use crate::sample::{assert_division_does_not_show, assert_division_of_does_not_show, report_of, trace};
use quipu_isa::Arch;
use quipu_model::doc::Block;
use quipu_model::pass::Detail;
use quipu_model::trace::Function;
use serde_json::json;

const TEXT: &str = "
    enter 1 5
    enter 1 4
    leave 1 0
    enter 4294967297 1 0x10 3
    leave 4294967297 3
    enter 9
    leave 1 0";

fn named(id: u64, names: &[&str]) -> Function {
    let names = names.iter().map(|name| name.to_string()).collect();
    Function { id, workload: 0, names, n_args: 1, noret: false }
}

#[test]
fn calls_and_returns_count_by_function_and_system_call() {
    let trace = trace(TEXT)
        .with_meta(|meta| meta.functions = vec![named(1, &["fib", "fib_alias"]), named(2, &["idle"])]);
    assert_eq!(
        report_of(&Functions, "tree=0", &trace).json(),
        json!({ "tree": [], "syscalls": 0, "functions": [
            { "id": 1, "kind": "function", "number": null, "names": ["fib", "fib_alias"], "calls": 2, "returns": 2 },
            { "id": 4294967297u64, "kind": "syscall", "number": 1, "names": [], "calls": 1, "returns": 1 },
            { "id": 9, "kind": "function", "number": null, "names": [], "calls": 1, "returns": 0 },
            { "id": 2, "kind": "function", "number": null, "names": ["idle"], "calls": 0, "returns": 0 }] })
    );
}

#[test]
fn system_calls_of_32_bit_programs_have_smaller_ids() {
    let trace = trace("enter 65539").with_meta(|meta| meta.arch = Some(Arch::X86_32));
    let report = report_of(&Functions, "", &trace);
    let counts = report.as_any().downcast_ref::<FunctionCounts>().unwrap();
    assert_eq!((counts.functions[0].kind, counts.functions[0].number), (CalleeKind::Syscall, Some(3)));
    assert_eq!(counts.functions[0].label, "system call 3 (read)");
}

#[test]
fn functions_that_are_known_by_their_address_are_no_system_calls() {
    let report = report_of(&Functions, "", &trace("enter 94610976182394\nenter 4198694\nenter 70000"));
    let counts = report.as_any().downcast_ref::<FunctionCounts>().unwrap();
    let found: Vec<_> = counts.functions.iter().map(|f| (f.kind, f.label.as_str())).collect();
    let function = CalleeKind::Function;
    let labels = ["function 0x11170", "function 0x401126", "function 0x560c55a0907a"];
    assert_eq!(found, labels.map(|label| (function, label)));
}

#[test]
fn functions_of_several_traces_are_told_apart() {
    let text = "thread 7 1\nenter 1\nleave 1 0\nthread W1.T7 1\nenter 1\nenter 2\nleave 1 0";
    let exit = Function { workload: 1, noret: true, ..named(1, &["exit"]) };
    let trace = trace(text).with_meta(|meta| meta.functions = vec![named(1, &["fib"]), exit]);
    let report = report_of(&Functions, "", &trace);
    let counts = report.as_any().downcast_ref::<FunctionCounts>().unwrap();
    let found: Vec<_> =
        counts.functions.iter().map(|f| (f.workload, f.id, f.label.as_str(), f.calls)).collect();
    assert_eq!(found, [(0, 1, "fib", 1), (1, 1, "W1.exit", 1), (1, 2, "W1.function 2", 1)]);
    assert_eq!(counts.tree[1].calls.iter().map(|call| call.depth).collect::<Vec<_>>(), [0, 0]);
    let json = report.json();
    assert_eq!(
        (&json["functions"][0]["workload"], &json["functions"][1]["workload"]),
        (&json!(null), &json!(1))
    );
    assert_eq!((&json["tree"][0]["workload"], &json["tree"][1]["workload"]), (&json!(null), &json!(1)));
}

#[test]
fn a_thread_has_the_functions_that_it_calls_with_their_names() {
    let trace = trace("thread 7 1\nenter 1\nleave 1 0\nthread 8 1\nenter 1\nenter 3\nthread 9 1\ninstr 0 4")
        .with_meta(|meta| meta.functions = vec![named(1, &["fib"]), named(2, &["idle"])]);
    let report = report_of(&Functions, "per-thread", &trace);
    let counts = report.as_any().downcast_ref::<FunctionCounts>().unwrap();
    assert_eq!(
        counts.functions.iter().map(|f| (f.id, f.calls)).collect::<Vec<_>>(),
        [(1, 2), (3, 1), (2, 0)]
    );
    let threads = counts.threads.iter().map(|of| {
        let functions = of.result.functions.iter().map(|f| (f.label.as_str(), f.calls, f.returns));
        (of.thread.tid, functions.collect::<Vec<_>>())
    });
    let expected =
        [(7, vec![("fib", 1, 1)]), (8, vec![("fib", 1, 0), ("function 3", 1, 0)]), (9, Vec::new())];
    assert_eq!(threads.collect::<Vec<_>>(), expected);
    // A thread without calls has no list.
    let titles: Vec<_> = report
        .document(Detail::Brief)
        .blocks
        .iter()
        .map(|block| match block {
            Block::Grid(grid) => grid.title.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(titles, ["", "thread 7", "thread 8"]);
}

#[test]
fn people_see_only_what_occurs_unless_they_ask_for_all() {
    let trace =
        trace("enter 1").with_meta(|meta| meta.functions = vec![named(1, &["fib"]), named(2, &["idle"])]);
    let report = report_of(&Functions, "", &trace);
    let rows = |detail| match &report.document(detail).blocks[..] {
        [Block::Grid(grid), ..] => (grid.rows.len(), grid.more),
        other => panic!("{other:?}"),
    };
    assert_eq!(rows(Detail::Brief), (1, 0));
    assert_eq!(rows(Detail::Full), (2, 0));
}

#[test]
fn system_calls_without_arguments_are_said_in_true_sentences() {
    let function = FunctionCount {
        id: 0x1_0000_0001,
        workload: 0,
        label: "write".to_owned(),
        kind: CalleeKind::Syscall,
        number: Some(1),
        names: Vec::new(),
        calls: 1,
        returns: 1,
    };
    let said = |calls, syscalls| {
        let functions = vec![FunctionCount { calls, ..function.clone() }];
        let counts =
            FunctionCounts { functions, tree: Vec::new(), syscalls: Some(syscalls), threads: Vec::new() };
        match counts.document(Detail::Full).blocks.pop() {
            Some(Block::Note(note)) => note,
            _ => String::new(),
        }
    };
    assert_eq!(said(1, 17), "Of 17 system calls, 1 is traced with its arguments; `syscalls` lists all.");
    assert_eq!(said(2, 17), "Of 17 system calls, 2 are traced with their arguments; `syscalls` lists all.");
    assert_eq!(said(0, 17), "None of 17 system calls is traced with its arguments; `syscalls` lists all.");
    assert_eq!(said(0, 1), "The only system call is traced without its arguments; `syscalls` lists all.");
    assert_eq!(said(17, 17), "");
}

/// Depth, function and result of each listed call.
fn tree(options: &str, trace: &quipu_testkit::MemoryTrace) -> (Vec<(u64, u64, Option<u64>)>, u64) {
    let report = report_of(&Functions, options, trace);
    let counts = report.as_any().downcast_ref::<FunctionCounts>().unwrap();
    let thread = &counts.tree[0];
    (thread.calls.iter().map(|call| (call.depth, call.function, call.result)).collect(), thread.more)
}

#[test]
fn calls_are_nested_in_those_that_have_not_returned() {
    let (calls, more) = tree("", &trace(TEXT));
    assert_eq!(more, 0);
    assert_eq!(calls, [(0, 1, Some(0)), (1, 1, Some(0)), (1, 4294967297, Some(3)), (1, 9, None)]);
}

#[test]
fn a_listed_call_has_its_result_even_if_others_inside_it_are_not_listed() {
    let text =
        "enter 1\nenter 2\nenter 3\nenter 2\nleave 2 7\nleave 3 8\nleave 2 9\nenter 4\nleave 4 1\nleave 1 5";
    assert_eq!(tree("tree=2", &trace(text)), (vec![(0, 1, Some(5)), (1, 2, Some(9))], 3));
}

#[test]
fn functions_that_never_return_add_no_depth() {
    let exit = Function { noret: true, ..named(5, &["exit"]) };
    let trace = trace("enter 5\nenter 1\nleave 1 3").with_meta(|meta| meta.functions = vec![exit]);
    assert_eq!(tree("", &trace).0, [(0, 5, None), (0, 1, Some(3))]);
}

#[test]
fn arguments_and_results_are_written_in_hex_with_the_place_of_the_call() {
    let report = report_of(&Functions, "", &trace("instr 0 4\nenter 1 7 255\nleave 1 16"));
    assert_eq!(
        report.json()["tree"][0]["calls"][0],
        json!({ "function": 1, "name": "function 1", "depth": 0, "record": 2, "return_to": "0x0",
                "args": ["0x7", "0xff"], "result": "0x10" })
    );
}

#[test]
fn the_division_of_the_work_does_not_show() {
    assert_division_does_not_show(&Functions, "");
    assert_division_does_not_show(&Functions, "tree=3");
    assert_division_does_not_show(&Functions, "tree=3 per-thread");
    let mut rng = quipu_testkit::Rng::new(5);
    for _ in 0..10 {
        let mut text = String::new();
        let mut depth = 0;
        for _ in 0..200 {
            match rng.below(5) {
                0 => text.push_str("piece\n"),
                1 | 2 if depth > 0 => {
                    depth -= 1;
                    text.push_str("leave 1 5\n");
                }
                _ => {
                    depth += 1;
                    text.push_str("enter 1 5\n");
                }
            }
        }
        assert_division_of_does_not_show(&Functions, "tree=20", &trace(&text));
    }
}

#[test]
fn system_calls_without_arguments_are_told_and_counted() {
    let text = |text: &str| {
        let report = report_of(&Functions, "", &trace(text));
        let Block::Note(note) = report.document(Detail::Full).blocks.pop().unwrap() else {
            panic!("no note")
        };
        note
    };
    let none = "No call of a traced function occurs, and no system call.";
    assert_eq!(text("thread 7 1"), none);
    assert_eq!(
        text("thread 7 1\nsyscall 1\nsyscall 3"),
        "No call of a traced function occurs. System calls occur, without their arguments: 2. `syscalls` lists them."
    );
    let report = report_of(
        &Functions,
        "tree=0",
        &trace("syscall 1\nenter 4294967297 1\nleave 4294967297 3\nsyscall 3"),
    );
    assert_eq!(report.json()["syscalls"], 2);
    let said = "Of 2 system calls, 1 is traced with its arguments; `syscalls` lists all.";
    assert!(report.document(Detail::Full).blocks.contains(&Block::Note(said.to_owned())));
}
