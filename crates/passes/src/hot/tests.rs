//! Tests of `hot` on traces of a few rows.

use super::*;
use crate::sample::{assert_division_does_not_show, json, report_of, trace};
use quipu_engine::plan;
use quipu_model::Given;
use quipu_testkit::ALL_COLUMNS;
use serde_json::json;

const TEXT: &str = "
    instr 0x10 3 =488b03
    read 0x13c 8
    instr 0x20 1 =90
    instr 0x10 3 =488b03
    write 0x140 8
    nofetch 0x10 3 =488b03
    instr 0x30 1
    prefetch 0x140 8";

#[test]
fn the_hottest_instructions_come_first_with_their_text() {
    let hottest = json(&Hot, "", TEXT);
    assert_eq!(hottest["executed"], 5);
    assert_eq!(
        hottest["instructions"],
        json!([
            { "pc": "0x10", "text": "mov    (%rbx),%rax", "count": 3, "share": 0.6 },
            { "pc": "0x20", "text": "nop", "count": 1, "share": 0.2 },
            { "pc": "0x30", "text": null, "count": 1, "share": 0.2 }])
    );
}

#[test]
fn disassembly_follows_the_syntax_asked_for() {
    let hottest = json(&Hot, "syntax=intel top=1", TEXT);
    assert_eq!(hottest["instructions"][0]["text"], "mov    rax,QWORD PTR [rbx]");
    assert_eq!(hottest["distinct_instructions"], 3);
}

#[test]
fn a_line_has_its_reads_and_writes() {
    let third = 1.0 / 3.0;
    assert_eq!(
        json(&Hot, "", TEXT)["lines"],
        json!([
            { "addr": "0x140", "reads": 1, "writes": 1, "share": 2.0 * third },
            { "addr": "0x100", "reads": 1, "writes": 0, "share": third }])
    );
}

#[test]
fn without_encodings_addresses_are_counted() {
    let hottest =
        report_of(&Hot, "", &trace(TEXT).with_columns(ALL_COLUMNS.minus(Columns::INSTR_CODE))).json();
    assert_eq!(hottest["instructions"][0], json!({ "pc": "0x10", "text": null, "count": 3, "share": 0.6 }));
}

#[test]
fn a_trace_of_calls_has_nothing_hot() {
    let calls = trace("enter 1").with_columns(Columns::CALLS);
    let error = Hot.build(&Options::default(), &calls).err().unwrap();
    assert_eq!(error.message(), "tool `hot` needs instrs or accesses, and this trace carries neither");
}

#[test]
fn an_unknown_syntax_is_refused() {
    let mut given = Given::default();
    given.add("syntax", "masm");
    let error = plan(&Hot, &given, &trace("")).err().unwrap();
    assert_eq!(
        error.message(),
        "option `syntax`: unknown assembler syntax, expected att or intel, found `masm`"
    );
}

/// A loop of two blocks that calls 0x40, known from the encoding, and 0x60, known from the trace; 0x40 has a string loop.
const FLOW: &str = "
    instr 0x10 1 =90
    instr 0x11 5 direct-call taken =e82a000000
    instr 0x40 2 =f3a4
    nofetch 0x40 2 =f3a4
    instr 0x42 1 return taken ->0x16 =c3
    instr 0x16 1 =90
    instr 0x17 2 conditional-jump taken =75f7
    instr 0x10 1 =90
    instr 0x11 5 direct-call taken =e82a000000
    instr 0x40 2 =f3a4
    instr 0x42 1 return taken ->0x16 =c3
    instr 0x16 1 =90
    instr 0x17 2 conditional-jump untaken =75f7
    instr 0x19 2 indirect-call taken ->0x60 =ffd0
    instr 0x60 1 =90
    read 0x1010 8";

#[test]
fn blocks_end_with_branches_and_where_control_enters() {
    let hottest = json(&Hot, "", FLOW);
    let blocks: Vec<_> = hottest["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| {
            let numbers =
                ["instructions", "bytes", "executions", "executed"].map(|key| block[key].as_u64().unwrap());
            (block["pc"].as_str().unwrap(), numbers)
        })
        .collect();
    let expected = [
        ("0x40", [2, 3, 2, 5]),
        ("0x10", [2, 6, 2, 4]),
        ("0x16", [2, 3, 2, 4]),
        ("0x19", [1, 2, 1, 1]),
        ("0x60", [1, 1, 1, 1]),
    ];
    assert_eq!(blocks, expected);
    assert_eq!(hottest["distinct_blocks"], 5);
    // A jump into a run of adjacent instructions: the target is fetched more often than the one before.
    let entered = json(&Hot, "", "instr 0x10 1\ninstr 0x11 1\ninstr 0x12 1\ninstr 0x11 1\ninstr 0x12 1");
    assert_eq!(entered["blocks"][0]["pc"], "0x11");
    assert_eq!(entered["blocks"][0]["executions"], 2);
    assert_eq!(entered["distinct_blocks"], 2);
}

#[test]
fn functions_are_the_places_called_with_what_is_executed_behind_them() {
    let hottest = json(&Hot, "", FLOW);
    assert_eq!(
        hottest["functions"],
        json!([
            { "pc": "0x40", "calls": 2, "executed": 5, "share": 5.0 / 15.0 },
            { "pc": "0x60", "calls": 1, "executed": 1, "share": 1.0 / 15.0 }])
    );
    assert_eq!(hottest["outside_functions"], 9);
    assert_eq!(hottest["calls_to_unknown"], 0);
    let far = json(
        &Hot,
        "",
        "instr 0x10 2 indirect-call ->0x20\ninstr 0x20 1\ninstr 0x100020 1\ninstr 0x30 5 direct-call",
    );
    assert_eq!(far["functions"][0]["executed"], 2);
    assert_eq!((&far["outside_functions"], &far["calls_to_unknown"]), (&json!(2), &json!(1)));
}

#[test]
fn a_page_has_its_instructions_reads_and_writes() {
    let hottest = json(&Hot, "page-size=256", TEXT);
    assert_eq!(
        hottest["pages"],
        json!([
            { "addr": "0x0", "executed": 5, "reads": 0, "writes": 0, "share": 5.0 / 8.0 },
            { "addr": "0x100", "executed": 0, "reads": 2, "writes": 1, "share": 3.0 / 8.0 }])
    );
    let mut given = Given::default();
    given.add("page-size", "32");
    let error = plan(&Hot, &given, &trace("")).err().unwrap();
    assert_eq!(error.message(), "option `page-size` wants at least `line-size` (64), found `32`");
}

#[test]
fn without_classes_there_are_neither_blocks_nor_functions() {
    let without = trace(FLOW).with_columns(ALL_COLUMNS.minus(Columns::INSTR_CLASS));
    let hottest = report_of(&Hot, "", &without).json();
    assert_eq!((hottest.get("blocks"), hottest.get("functions")), (None, None));
    assert_eq!(hottest["executed"], 15);
}

#[test]
fn the_division_of_the_work_does_not_show() {
    assert_division_does_not_show(&Hot, "top=30");
    assert_division_does_not_show(&Hot, "top=30 per-thread");
}
