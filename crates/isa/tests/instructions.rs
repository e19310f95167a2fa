//! Golden decodes: one file of instructions for each architecture, with all decoded facts about each.
//!
//! In the files, a line begins with the bytes of an instruction; the indented lines below it are the expected result.
//! `BLESS=1` rewrites the indented lines. All instructions are at address 0x401000.

// The lint allows panics in test functions, not in their helpers.
use std::fmt::Write as _;
use std::path::Path;

use quipu_isa::{Arch, Decoder, Instr, Mem, RegSet, Syntax, Work};

const PC: u64 = 0x40_1000;

fn check(file: &str, arch: Arch, syntax: Syntax) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
    let expected = std::fs::read_to_string(&path).unwrap();
    let mut decoder = Decoder::new(arch, syntax).unwrap();
    let mut actual = String::new();
    for line in expected.lines().filter(|line| !line.starts_with(' ')) {
        actual += line;
        actual.push('\n');
        if !line.starts_with('#') && !line.is_empty() {
            let bytes: Vec<u8> = line.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
            describe(&mut decoder, &bytes, &mut actual);
        }
    }
    if std::env::var_os("BLESS").is_some() {
        return std::fs::write(&path, &actual).unwrap();
    }
    assert!(actual == expected, "{file} differs; run with BLESS=1 and look at the difference\n{actual}");
}

fn describe(decoder: &mut Decoder, bytes: &[u8], out: &mut String) {
    out.push_str("    ");
    decoder.text(PC, bytes, out);
    match decoder.decode(PC, bytes) {
        Ok(instr) => {
            let work = decoder.work(&instr, PC, bytes);
            facts(&instr, work, decoder.arch(), out);
        }
        Err(error) => writeln!(out, "\n    {error}").unwrap(),
    }
}

fn facts(instr: &Instr, work: Option<Work>, arch: Arch, out: &mut String) {
    write!(out, "\n    {} {}: {}", instr.opcode, instr.class.name(), instr.categories).unwrap();
    let flags = [
        (instr.reads_flags, "reads flags"),
        (instr.writes_flags, "writes flags"),
        (instr.conditional, "conditional"),
        (instr.repeated, "repeated"),
    ];
    flags.iter().filter(|(set, _)| *set).for_each(|(_, name)| write!(out, ", {name}").unwrap());
    if let Some(target) = instr.target {
        write!(out, ", to {target:#x}").unwrap();
    }
    if let Some(bytes) = instr.operation_bytes {
        write!(out, ", operates on {bytes} bytes").unwrap();
    }
    out.push('\n');
    if let Some(Work { operation, is_float, bytes, arity }) = work {
        let format = if is_float { "float" } else { "integer" };
        writeln!(out, "    computes {}, {format} of {bytes} bytes, from {arity}", operation.name()).unwrap();
    }
    let registers = |name: &str, set: &RegSet, out: &mut String| {
        if !set.is_empty() {
            let names: Vec<String> = set.iter().map(|reg| reg.name(arch).to_string()).collect();
            writeln!(out, "    {name} {}", names.join(" ")).unwrap();
        }
    };
    registers("writes", &instr.writes, out);
    registers("reads", &instr.reads, out);
    instr.mems().iter().for_each(|mem| memory(mem, arch, out));
}

fn memory(mem: &Mem, arch: Arch, out: &mut String) {
    write!(out, "    {:?} {} bytes at ", mem.access, mem.bytes).unwrap();
    if let Some(segment) = mem.segment {
        write!(out, "{}:", segment.name(arch)).unwrap();
    }
    let base = mem.base.map(|base| base.name(arch).to_string());
    let index = mem.index.map(|index| format!("{} * {}", index.name(arch), mem.scale));
    let registers: Vec<String> = [base, index].into_iter().flatten().collect();
    match mem.disp {
        _ if registers.is_empty() => write!(out, "{:#x}", mem.disp).unwrap(),
        0 => write!(out, "{}", registers.join(" + ")).unwrap(),
        disp if disp < 0 => write!(out, "{} - {:#x}", registers.join(" + "), disp.unsigned_abs()).unwrap(),
        disp => write!(out, "{} + {disp:#x}", registers.join(" + ")).unwrap(),
    }
    out.push_str(if mem.is_gather(arch) { ", one for each element\n" } else { "\n" });
}

#[test]
fn x86_64_att() {
    check("x86-64.txt", Arch::X86_64, Syntax::Att);
}

#[test]
fn x86_64_intel() {
    check("x86-64.intel.txt", Arch::X86_64, Syntax::Intel);
}

#[test]
fn x86_32_att() {
    check("x86-32.txt", Arch::X86_32, Syntax::Att);
}

#[test]
fn aarch64() {
    check("aarch64.txt", Arch::Aarch64, Syntax::Att);
}

#[test]
fn regdeps() {
    check("regdeps.txt", Arch::Regdeps, Syntax::Att);
}
