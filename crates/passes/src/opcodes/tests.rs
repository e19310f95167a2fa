//! Tests of `opcodes` on traces of a few rows.

use super::*;
use crate::sample::{assert_division_does_not_show, json, report_of, trace};
use serde_json::json;

/// `nop`, `ret`, `mov (%rbx),%rax`, bytes that are not an instruction, and an instruction without encoding.
const TEXT: &str = "
    instr 0x10 1 =90
    instr 0x11 1 =c3
    instr 0x10 1 =90
    instr 0x20 3 =488b03
    nofetch 0x20 3 =488b03
    instr 0x30 1 =06
    instr 0x40 1";

#[test]
fn each_executed_instruction_counts_under_its_operation() {
    assert_eq!(
        json(&Opcodes, "", TEXT),
        json!({ "executed": 7, "undecoded": 2, "without_encoding": 1, "opcodes": [
            { "opcode": "mov", "count": 2 }, { "opcode": "nop", "count": 2 }, { "opcode": "ret", "count": 1 }] })
    );
}

#[test]
fn regdeps_has_no_operations() {
    let regdeps = trace("instr 0x10 3 =1101040006060600").with_meta(|meta| meta.arch = Some(Arch::Regdeps));
    let mix = report_of(&Opcodes, "", &regdeps).json();
    assert_eq!(mix, json!({ "executed": 1, "undecoded": 1, "without_encoding": 0, "opcodes": [] }));
}

#[test]
fn changed_bytes_at_an_address_are_another_instruction() {
    let mix = json(&Opcodes, "", "instr 0x10 1 =90\ninstr 0x10 1 =c3");
    assert_eq!(mix["opcodes"], json!([{ "opcode": "nop", "count": 1 }, { "opcode": "ret", "count": 1 }]));
}

#[test]
fn a_trace_that_hides_its_architecture_is_refused() {
    let unknown = trace(TEXT).with_meta(|meta| meta.arch = None);
    let error = Opcodes.build(&Options::default(), &unknown).err().unwrap();
    assert_eq!(
        error.message(),
        "tool `opcodes` needs to know the architecture, which this trace does not say"
    );
    let arm = trace(TEXT).with_meta(|meta| meta.arch = Some(Arch::Arm32));
    let error = Opcodes.build(&Options::default(), &arm).err().unwrap();
    assert_eq!(error.message(), "tool `opcodes`: there is no instruction decoder for arm32");
}

#[test]
fn the_division_of_the_work_does_not_show() {
    assert_division_does_not_show(&Opcodes, "");
    assert_division_does_not_show(&Opcodes, "per-thread");
}
