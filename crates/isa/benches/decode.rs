//! Instructions decoded and printed per second, over the real instructions of the tests.
//!
//! `cargo bench -p quipu-isa`

use divan::counter::ItemsCount;
use quipu_isa::{Arch, Decoder, Syntax};

const X86_64: &str = include_str!("../tests/data/x86-64.regdeps.txt");
const AARCH64: &str = include_str!("../tests/data/aarch64.txt");

/// One instruction of the corpus.
struct Code {
    pc: u64,
    bytes: Vec<u8>,
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(&String::from_utf8_lossy(pair), 16).unwrap_or_default();
    digits.chunks(2).map(byte).collect()
}

/// Reads the column of bytes from the data file: real x86-64 code or its REGDEPS form; or the AArch64 goldens.
fn corpus(arch: Arch) -> Vec<Code> {
    let data = if arch == Arch::Aarch64 { AARCH64 } else { X86_64 };
    let lines = data.lines().filter(|line| !line.starts_with(['#', ' ']));
    let code = |line: &str| {
        let mut columns = line.split(' ');
        if arch == Arch::Aarch64 {
            return Code { pc: 0x40_1000, bytes: bytes(line) };
        }
        let pc = columns.next().and_then(|pc| u64::from_str_radix(pc, 16).ok()).unwrap_or_default();
        let mut bytes = bytes(columns.nth(usize::from(arch == Arch::Regdeps)).unwrap_or_default());
        if arch == Arch::Regdeps {
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        Code { pc, bytes }
    };
    lines.map(code).collect()
}

const ARCHES: [Arch; 3] = [Arch::X86_64, Arch::Aarch64, Arch::Regdeps];

#[divan::bench(args = ARCHES)]
fn decode(bencher: divan::Bencher<'_, '_>, arch: Arch) {
    let corpus = corpus(arch);
    let Ok(mut decoder) = Decoder::new(arch, Syntax::Att) else { return };
    bencher.counter(ItemsCount::new(corpus.len())).bench_local(|| {
        corpus
            .iter()
            .filter(|code| decoder.decode(code.pc, &code.bytes).is_ok_and(|i| i.reads_memory()))
            .count()
    });
}

#[divan::bench(args = ARCHES)]
fn text(bencher: divan::Bencher<'_, '_>, arch: Arch) {
    let corpus = corpus(arch);
    let Ok(mut decoder) = Decoder::new(arch, Syntax::Att) else { return };
    let mut text = String::new();
    bencher.counter(ItemsCount::new(corpus.len())).bench_local(|| {
        text.clear();
        corpus.iter().for_each(|code| decoder.text(code.pc, &code.bytes, &mut text));
        text.len()
    });
}

fn main() {
    divan::main();
}
