//! What `functions` promises, on traces of a few rows.

use super::*;
use crate::sample::{assert_division_does_not_show, report_of, trace};
use quipu_isa::Arch;
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
    Function { id, names: names.iter().map(|name| name.to_string()).collect(), n_args: 1, noret: false }
}

#[test]
fn calls_and_returns_count_by_function_and_system_call() {
    let trace = trace(TEXT)
        .with_meta(|meta| meta.functions = vec![named(1, &["fib", "fib_alias"]), named(2, &["idle"])]);
    assert_eq!(
        report_of(&Functions, "", &trace).json(),
        json!({ "functions": [
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
    assert_eq!(counts.functions[0].label(), "system call 3");
}

#[test]
fn people_see_only_what_occurs_unless_they_ask_for_all() {
    let trace =
        trace("enter 1").with_meta(|meta| meta.functions = vec![named(1, &["fib"]), named(2, &["idle"])]);
    let report = report_of(&Functions, "", &trace);
    let rows = |detail| match &report.document(detail).blocks[..] {
        [Block::Grid(grid)] => (grid.rows.len(), grid.more),
        other => panic!("{other:?}"),
    };
    assert_eq!(rows(Detail::Brief), (1, 0));
    assert_eq!(rows(Detail::Full), (2, 0));
}

#[test]
fn the_division_of_the_work_does_not_show() {
    assert_division_does_not_show(&Functions, "");
}
