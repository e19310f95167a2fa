//! What `hot` promises, on traces of a few rows.

use super::*;
use crate::sample::{assert_division_does_not_show, json, report_of, trace};
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
    let error = Hot.build(&Args::default(), &calls).err().unwrap();
    assert_eq!(error.message(), "tool `hot` needs instrs or accesses, and this trace carries neither");
}

#[test]
fn an_unknown_syntax_is_refused() {
    let mut args = Args::default();
    args.set("syntax", "masm");
    let error = Hot.build(&args, &trace("")).err().unwrap();
    assert_eq!(
        error.message(),
        "option `syntax`: unknown assembler syntax, expected att or intel, found `masm`"
    );
}

#[test]
fn the_division_of_the_work_does_not_show() {
    assert_division_does_not_show(&Hot, "top=30");
}
