//! Tests of `mix` on traces of a few rows.

use super::*;
use crate::sample::{assert_division_does_not_show, json, report_of, trace};
use quipu_testkit::ALL_COLUMNS;
use serde_json::json;

const TEXT: &str = "
    instr 0x10 3 =488b03
    read 0x100 8
    instr 0x13 3 =480303
    read 0x100 8
    instr 0x16 2 conditional-jump taken =75fe
    instr 0x20 2 =f3a4
    read 0x100 1
    write 0x200 1
    nofetch 0x20 2 =f3a4
    read 0x101 1
    write 0x201 1";

#[test]
fn parts_are_sets_of_categories_where_encodings_are_known() {
    let mix = json(&Mix, "", TEXT);
    assert_eq!(mix["by"], "categories");
    assert_eq!(
        mix["parts"],
        json!([
            { "name": "load store", "count": 2, "share": 0.4 },
            { "name": "load", "count": 1, "share": 0.2 },
            { "name": "branch", "count": 1, "share": 0.2 },
            { "name": "load math", "count": 1, "share": 0.2 }])
    );
}

#[test]
fn ratios_are_for_each_fetched_instruction() {
    let mix = json(&Mix, "", TEXT);
    for (key, value) in [("instructions", 4), ("executed", 5), ("no_fetch", 1), ("loads", 4), ("stores", 2)] {
        assert_eq!(mix[key], value, "{key}");
    }
    for (key, value) in
        [("loads_per_instruction", 1.0), ("stores_per_instruction", 0.5), ("mean_length", 2.5)]
    {
        assert_eq!(mix[key], value, "{key}");
    }
}

#[test]
fn parts_are_classes_where_encodings_are_unknown() {
    let without = ALL_COLUMNS
        .minus(Columns::INSTR_CODE | Columns::ACCESSES | Columns::ACCESS_PC | Columns::ACCESS_FETCH);
    let mix = report_of(&Mix, "", &trace(TEXT).with_columns(without)).json();
    assert_eq!(mix["by"], "class");
    assert_eq!(
        mix["parts"],
        json!([
            { "name": "non-branch", "count": 4, "share": 0.8 },
            { "name": "conditional-jump", "count": 1, "share": 0.2 }])
    );
    assert_eq!(mix["loads"], serde_json::Value::Null);
}

#[test]
fn a_length_that_the_trace_does_not_say_has_no_mean() {
    let mix = json(&Mix, "", "shard a\ninstr 0x1000 0\ninstr 0x1004 0\n");
    assert_eq!(mix["instructions"], 2);
    assert_eq!(mix["mean_length"], serde_json::Value::Null);
}

#[test]
fn a_trace_of_nothing_has_no_shares() {
    let mix = json(&Mix, "", "");
    assert_eq!(mix["executed"], 0);
    assert_eq!(mix["mean_length"], serde_json::Value::Null);
}

#[test]
fn the_division_of_the_work_does_not_show() {
    assert_division_does_not_show(&Mix, "");
    assert_division_does_not_show(&Mix, "per-thread");
}
