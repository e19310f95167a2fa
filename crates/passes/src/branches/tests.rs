//! Tests of `branches` on traces of a few rows.

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

/// Text of a trace with this many executions of each outcome.
fn site_text(pc: u64, class: &str, outcomes: &[(&str, usize)]) -> String {
    outcomes.iter().map(|(outcome, n)| format!("instr {pc} 2 {class} {outcome}\n").repeat(*n)).collect()
}

#[test]
fn conditions_rank_by_entropy_times_executions() {
    let text = [
        site_text(0x10, "conditional-jump", &[("taken", 8), ("untaken", 8), ("unknown", 5)]),
        site_text(0x20, "conditional-jump", &[("taken", 30), ("untaken", 10)]),
        site_text(0x30, "conditional-jump", &[("taken", 1000)]),
        site_text(0x40, "conditional-jump", &[("taken", 8), ("untaken", 8)]),
    ];
    let found = json(&Branches, "top=2", &text.concat());
    let found = &found["unpredictable_conditional"];
    assert_eq!(found["sites"], 3);
    // 3/4 and 1/4: 2 - 3/4 log2 3 bits.
    let entropy = 2.0 - 0.75 * 3f64.log2();
    let first = &found["top"][0];
    assert_eq!((&first["pc"], &first["executed"]), (&json!("0x20"), &json!(40)));
    assert_eq!((&first["taken"], &first["not_taken"]), (&json!(30), &json!(10)));
    assert!((first["entropy"].as_f64().unwrap() - entropy).abs() < 1e-12);
    assert!((first["bits"].as_f64().unwrap() - 40.0 * entropy).abs() < 1e-9);
    assert!((found["bits"].as_f64().unwrap() - 40.0 * entropy - 32.0).abs() < 1e-9);
    let second = json!({ "pc": "0x10", "executed": 16, "taken": 8, "not_taken": 8, "outcomes": 2,
        "entropy": 1.0, "bits": 16.0 });
    assert_eq!(found["top"], json!([first, second]));
}

#[test]
fn computed_branches_and_returns_rank_by_the_entropy_of_their_targets() {
    let text = [
        site_text(0x10, "indirect-jump", &[("->1", 4), ("->2", 4), ("->3", 4), ("->4", 4)]),
        site_text(0x20, "return", &[("->1", 50), ("->2", 50)]),
        site_text(0x30, "indirect-call", &[("->7", 900)]),
    ];
    assert_eq!(
        json(&Branches, "", &text.concat())["unpredictable_computed"],
        json!({ "sites": 2, "bits": 132.0, "top": [
            { "pc": "0x20", "executed": 100, "outcomes": 2, "entropy": 1.0, "bits": 100.0 },
            { "pc": "0x10", "executed": 16, "outcomes": 4, "entropy": 2.0, "bits": 32.0 }] })
    );
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
