//! What `branches` promises, on traces of a few rows.

use super::*;
use crate::sample::{assert_division_does_not_show, json, report_of, trace};
use quipu_testkit::ALL_COLUMNS;
use serde_json::json;

const TEXT: &str = "
    instr 0x10 2 conditional-jump taken
    instr 0x20 2 conditional-jump untaken
    instr 0x22 2 conditional-jump taken
    instr 0x30 2 conditional-jump unknown
    instr 0x32 5 direct-jump taken
    instr 0x40 5 direct-call taken
    instr 0x50 1 return taken ->0x45
    instr 0x45 2 indirect-call taken ->0x60
    instr 0x60 1 return taken ->0x47
    instr 0x47 2 indirect-jump taken ->0x45
    instr 0x45 2 indirect-call taken ->0x70
    instr 0x70 2
    nofetch 0x70 2";

#[test]
fn branches_count_by_sort_and_outcome() {
    let counts = json(&Branches, "", TEXT);
    for (key, value) in [
        ("instructions", 12),
        ("branches", 11),
        ("direct_jumps", 1),
        ("indirect_jumps", 1),
        ("direct_calls", 1),
        ("indirect_calls", 2),
        ("returns", 2),
    ] {
        assert_eq!(counts[key], value, "{key}");
    }
    assert_eq!(
        counts["conditional"],
        json!({ "total": 4, "taken": 2, "not_taken": 1, "unknown": 1, "taken_rate": 2.0 / 3.0 })
    );
}

#[test]
fn a_site_has_its_distinct_targets() {
    let counts = json(&Branches, "", TEXT);
    assert_eq!(
        counts["computed"],
        json!({ "sites": 2, "targets": 3, "max_targets": 2, "single_target_sites": 1, "top": [
            { "pc": "0x45", "targets": 2, "executed": 2 }, { "pc": "0x47", "targets": 1, "executed": 1 }] })
    );
    assert_eq!(counts["return_sites"]["sites"], 2);
}

#[test]
fn outcomes_that_the_trace_does_not_carry_are_unknown() {
    let without = ALL_COLUMNS.minus(Columns::INSTR_TAKEN | Columns::INSTR_TARGET);
    let counts = report_of(&Branches, "", &trace(TEXT).with_columns(without)).json();
    assert_eq!(
        counts["conditional"],
        json!({ "total": 4, "taken": 0, "not_taken": 0, "unknown": 4, "taken_rate": null })
    );
    assert_eq!(counts["computed"]["sites"], 0);
}

#[test]
fn the_division_of_the_work_does_not_show() {
    assert_division_does_not_show(&Branches, "top=3");
    assert_division_does_not_show(&Branches, "per-thread");
}
