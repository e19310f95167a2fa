//! Synthetic encodings that we make, against those that DynamoRIO made of the same instructions.

// A test may stop where it stands; the lint excuses test functions, not their helpers.
#![allow(clippy::unwrap_used)]

use quipu_isa::Arch;
use quipu_isa::regdeps::{Encoder, MAX_BYTES};

const DATA: &str = include_str!("data/x86-64.regdeps.txt");

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn each_instruction_is_encoded_as_by_dynamorio() {
    let mut encoder = Encoder::new(Arch::X86_64).unwrap();
    let mut wrong = Vec::new();
    let mut n_cases = 0;
    for line in DATA.lines().filter(|line| !line.starts_with('#')) {
        let [pc, code, expected] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let mut expected = bytes(expected);
        expected.resize(expected.len().next_multiple_of(4), 0);
        let mut out = [0; MAX_BYTES];
        let n = encoder.encode(u64::from_str_radix(pc, 16).unwrap(), &bytes(code), &mut out);
        n_cases += 1;
        if out[..n] != expected[..] {
            let ours: String = out[..n].iter().map(|byte| format!("{byte:02x}")).collect();
            wrong.push(format!("{line} | ours {ours}"));
        }
    }
    assert_eq!(n_cases, 1070);
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_cannot_be_decoded_has_no_registers() {
    let mut encoder = Encoder::new(Arch::X86_64).unwrap();
    let mut out = [0; MAX_BYTES];
    assert_eq!(encoder.encode(0x1000, &[], &mut out), 4);
    assert_eq!(encoder.encode(0x1000, &[0x06], &mut out), 4);
    assert_eq!(out, [0; MAX_BYTES]);
    assert!(Encoder::new(Arch::Regdeps).is_none());
}
