//! Compares decodes of real x86-64 instructions with DynamoRIO's results for the same bytes.
//!
//! The oracle is DynamoRIO's own conversion of the instructions to REGDEPS, which records categories, flags and registers.
//! See the head of the data file for its origin.

// The lint allows panics in test functions, not in their helpers.
use quipu_isa::{Arch, Decoder, Instr, Reg, RegSet, Syntax, Work};

const DATA: &str = include_str!("data/x86-64.regdeps.txt");

struct Case {
    line: &'static str,
    ours: Instr,
    theirs: Instr,
    text: String,
    /// The computations of both.
    works: [Option<Work>; 2],
}

fn cases() -> Vec<Case> {
    let mut x86 = Decoder::new(Arch::X86_64, Syntax::Att).unwrap();
    let mut regdeps = Decoder::new(Arch::Regdeps, Syntax::Att).unwrap();
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    };
    let case = |line: &'static str| {
        let [pc, code, encoding] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let pc = u64::from_str_radix(pc, 16).unwrap();
        let mut padded = bytes(encoding);
        padded.resize(padded.len().next_multiple_of(4), 0);
        let mut text = String::new();
        x86.text(pc, &bytes(code), &mut text);
        let ours = x86.decode(pc, &bytes(code)).unwrap();
        assert_eq!(usize::from(ours.len), bytes(code).len(), "{line}");
        let theirs = regdeps.decode(0, &padded).unwrap();
        let works = [x86.work(&ours, pc, &bytes(code)), regdeps.work(&theirs, 0, &padded)];
        Case { line, ours, theirs, text, works }
    };
    DATA.lines().filter(|line| !line.starts_with('#')).map(case).collect()
}

/// Returns the lines for which `same` is false, each with the text of its instruction.
fn differences(same: impl Fn(&Case) -> bool, show: impl Fn(&Case) -> String) -> Vec<String> {
    let cases = cases();
    assert_eq!(cases.len(), 1070);
    cases
        .iter()
        .filter(|case| !same(case))
        .map(|c| format!("{} | {} | {}", c.line, c.text, show(c)))
        .collect()
}

#[test]
fn categories_equal_those_of_dynamorio() {
    let show = |c: &Case| format!("ours `{}` theirs `{}`", c.ours.categories, c.theirs.categories);
    let wrong = differences(|c| c.ours.categories == c.theirs.categories, show);
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn hints_that_do_nothing_are_other() {
    let mut decoder = Decoder::new(Arch::X86_64, Syntax::Att).unwrap();
    // nop, endbr64, rdsspq %rax, rdsspd %eax
    let hints: [&[u8]; 4] = [
        &[0x0f, 0x1f, 0x44, 0, 0],
        &[0xf3, 0x0f, 0x1e, 0xfa],
        &[0xf3, 0x48, 0x0f, 0x1e, 0xc8],
        &[0xf3, 0x0f, 0x1e, 0xc8],
    ];
    for bytes in hints {
        let instr = decoder.decode(0x1000, bytes).unwrap();
        assert_eq!(instr.categories.to_string(), "other", "{}", instr.opcode);
    }
}

#[test]
fn flags_equal_those_of_dynamorio() {
    let flags = |instr: &Instr| (instr.reads_flags, instr.writes_flags);
    let show = |c: &Case| format!("ours {:?} theirs {:?}", flags(&c.ours), flags(&c.theirs));
    let wrong = differences(|c| flags(&c.ours) == flags(&c.theirs), show);
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

/// Our general and vector registers under the numbers of REGDEPS.
fn renumbered(set: &RegSet) -> RegSet {
    let number = |reg: Reg| match reg.0 {
        general @ 0..16 => Some(Reg(general + 2)),
        vector @ 32..64 => Some(Reg(vector - 32 + 72)),
        _ => None,
    };
    set.iter().filter_map(number).collect()
}

/// DynamoRIO's general and vector registers.
fn comparable(set: &RegSet) -> RegSet {
    set.iter().filter(|reg| matches!(reg.0, 2..18 | 72..104)).collect()
}

/// Operations whose register sets differ on purpose: ours omit registers on which the result does not depend.
const DIFFERENT: [&str; 9] = [
    "cmove",      // keeps its destination when the condition fails, so it reads it
    "cmovne",     // the same
    "cvtsi2sd",   // keeps the upper half of its destination
    "leave",      // takes the stack pointer from the frame pointer
    "nop",        // reads nothing, whatever its operand
    "pxor",       // of a register with itself is zero
    "vpternlogd", // has three sources, the destination is one of them
    "vzeroupper", // changes every vector register
    "xor",        // of a register with itself is zero
];

#[test]
fn registers_equal_those_of_dynamorio_but_for_explained_differences() {
    let sets = |c: &Case| {
        let ours = (renumbered(&c.ours.writes), renumbered(&c.ours.reads));
        (ours, (comparable(&c.theirs.writes), comparable(&c.theirs.reads)))
    };
    let same = |c: &Case| sets(c).0 == sets(c).1;
    let wrong = differences(|c| same(c) || DIFFERENT.contains(&c.ours.opcode.name()), |_| String::new());
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
    for name in DIFFERENT {
        assert!(cases().iter().any(|c| c.ours.opcode.name() == name && !same(c)), "{name} does not differ");
    }
}

/// Instructions whose synthetic form gives a different answer on whether they compute: there, vector work on memory and
/// `movzx` count as plain loads, and `cmpxchg` as a load and store.
const HIDDEN: [&str; 4] = ["vpcmpeqb", "cmpxchg", "movzx", "movslq"];

#[test]
fn synthetic_instructions_compute_where_real_ones_do() {
    let wrong = differences(
        |c| c.works[0].is_some() == c.works[1].is_some() || HIDDEN.contains(&c.ours.opcode.name()),
        |c| format!("{:?}", c.works),
    );
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
    let cases = cases();
    let both: Vec<_> = cases.iter().filter_map(|c| Some((c, c.works[0]?, c.works[1]?))).collect();
    assert_eq!(both.len(), 437);
    for (case, ours, theirs) in &both {
        assert_eq!(ours.is_float, theirs.is_float, "{}", case.text);
        // Moves stay moves in both forms.
        let is_move = case.theirs.categories.contains(quipu_isa::Categories::MOVE);
        assert!(!is_move || theirs.operation == quipu_isa::Operation::Move, "{}", case.text);
        // The synthetic form hides constants, and its sources include the registers of addresses.
        assert!(ours.arity.abs_diff(theirs.arity) <= 1, "{}: {ours:?} {theirs:?}", case.text);
    }
    // For the remaining ones REGDEPS gives the size of a source, or one form has no size.
    let n_same = both.iter().filter(|(_, ours, theirs)| ours.bytes == theirs.bytes).count();
    assert_eq!(n_same, 366);
}
