//! Tests of `categories` on traces of a few rows.

use super::*;
use crate::sample::{assert_division_does_not_show, json, report_of, trace};
use quipu_isa::Arch;
use serde_json::json;

#[test]
fn an_instruction_counts_under_the_set_of_its_categories() {
    let text = "
        instr 0x10 3 =4801d8
        instr 0x20 3 =488b03
        instr 0x30 3 =480303
        instr 0x20 3 =488b03
        instr 0x40 1";
    assert_eq!(
        json(&CategoryMix, "", text),
        json!({ "executed": 5, "sets": [
            { "categories": ["load"], "count": 2 },
            { "categories": ["uncategorized"], "count": 1 },
            { "categories": ["math"], "count": 1 },
            { "categories": ["load", "math"], "count": 1 }] })
    );
}

#[test]
fn regdeps_says_its_categories_itself() {
    let text = "instr 0x10 4 =1101040006060600\ninstr 0x14 7 =0100010004050000";
    let regdeps = trace(text).with_meta(|meta| meta.arch = Some(Arch::Regdeps));
    assert_eq!(
        report_of(&CategoryMix, "", &regdeps).json()["sets"],
        json!([{ "categories": ["move"], "count": 1 }, { "categories": ["math"], "count": 1 }])
    );
}

#[test]
fn the_division_of_the_work_does_not_show() {
    assert_division_does_not_show(&CategoryMix, "");
    assert_division_does_not_show(&CategoryMix, "per-thread");
}
