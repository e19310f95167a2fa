//! Compares Quipu's synthetic encodings with those that DynamoRIO made of the same instructions.

// The lint allows panics in test functions, not in their helpers.
use quipu_isa::regdeps::{Encoder, MAX_BYTES};
use quipu_isa::{Arch, Categories, Decoder, Syntax};

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

/// Returns the encoding of one instruction, in hex.
fn encoded(arch: Arch, code: &str) -> String {
    let mut out = [0; MAX_BYTES];
    let n = Encoder::new(arch).unwrap().encode(0x40_1000, &bytes(code), &mut out);
    out[..n].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn operands_of_x86_are_those_that_dynamorio_lists() {
    for (code, expected, text) in [
        ("48f7e2", "220104000602040204000000", "mul %rdx: a source, and a destination that no operand names"),
        ("f0410fb107", "2119000004020211", "lock cmpxchg %eax,(%r15)"),
        ("660f164f08", "114c000006490900", "movhpd 0x8(%rdi),%xmm1: half of the destination is kept"),
        ("4898", "1100000003020200", "cdqe"),
        ("f2ae", "420b00000603090203092200", "repne scas: reads the flags that it writes"),
        ("f30f1efa", "1000080004040000", "endbr64"),
        ("62e17f2a6f16", "21480000215a086a", "vmovdqu8 (%rsi),%ymm18{%k2}"),
        ("c4e2dd9104c8", "3248000021484c02494c0000", "vgatherqpd %ymm4,(%rax,%ymm1,8),%ymm0"),
        ("c4e1f97ec0", "1140000006024800", "vmovq %xmm0,%rax"),
        ("c4e3e922c701", "214000000648094a", "vpinsrq $1,%rdi,%xmm2,%xmm0"),
        ("c4e3f916c201", "1140000006044800", "vpextrq $1,%xmm0,%rdx"),
    ] {
        assert_eq!(encoded(Arch::X86_64, code), expected, "{text}");
    }
}

#[test]
fn instructions_of_aarch64_are_encoded_as_worked_out_by_hand() {
    for (code, expected, text) in [
        ("ff8300d1", "1100040006212100", "sub sp, sp, #0x20"),
        ("fd7bbfa9", "3110000006211f2021000000", "stp x29, x30, [sp, #-0x10]!"),
        ("fd7bc1a8", "13080000081f202121000000", "ldp x29, x30, [sp], #0x10"),
        ("3f0400f1", "1001040006030000", "cmp x1, #0x1: the zero register is none"),
        ("01ffff54", "00220000", "b.ne"),
        ("c0035fd6", "1020000006200000", "ret"),
        ("00040094", "0120000001200000", "bl"),
        ("600c80d2", "0100040003020000", "mov x0, #0x63"),
        ("820e40f9", "1108000006041600", "ldr x2, [x20, #0x18]"),
        ("82024039", "1108000002041600", "ldrb w2, [x20]"),
        ("82020039", "2010000004041600", "strb w2, [x20]"),
        ("820208f8", "2010000006041600", "stur x2, [x20, #0x80]"),
        ("40d03bd5", "112000000602b300", "mrs x0, tpidr_el0"),
        ("201ca14e", "1140000008232400", "mov v0.16b, v1.16b"),
        ("0004c1ac", "134c00002102232402000000", "ldp q0, q1, [x0], #0x20"),
        ("2028611e", "1104040006232400", "fadd d0, d1, d1"),
        ("010000d4", "00200000", "svc #0x0"),
        ("20740bd5", "1030000001020000", "dc zva, x0: writes memory"),
        ("410020b8", "2118000004030204", "ldadd w0, w1, [x2]: reads and writes memory"),
    ] {
        assert_eq!(encoded(Arch::Aarch64, code), expected, "{text}");
    }
}

#[test]
fn old_registers_of_x86_are_named_too() {
    let decoded = |code: &str| {
        let hex = encoded(Arch::X86_64, code);
        let mut decoder = Decoder::new(Arch::Regdeps, Syntax::Att).unwrap();
        let instr = decoder.decode(0, &bytes(&hex)).unwrap();
        let ids = |set: quipu_isa::RegSet| set.iter().map(|reg| reg.0).collect::<Vec<_>>();
        (ids(instr.writes), ids(instr.reads), instr.operation_bytes)
    };
    for (code, writes, reads, bytes, text) in [
        ("dd45f8", &[26][..], &[7][..], 8, "fldl -0x8(%rbp)"),
        ("d8c1", &[26], &[26, 27], 10, "fadd %st(1),%st"),
        ("dec1", &[27], &[26, 27], 10, "faddp %st,%st(1)"),
        ("d945f8", &[26], &[7], 4, "flds -0x8(%rbp)"),
        ("d845f8", &[26], &[7, 26], 10, "fadds -0x8(%rbp)"),
        ("d91c24", &[], &[6, 26], 10, "fstps (%rsp)"),
        ("d9c9", &[26, 27], &[26, 27], 10, "fxch %st(1)"),
        ("d9fb", &[26, 27], &[26], 10, "fsincos"),
        ("dae9", &[], &[26, 27], 10, "fucompp"),
        ("0ffcc1", &[18], &[18, 19], 8, "paddb %mm1,%mm0"),
        ("0f6f00", &[18], &[2], 8, "movq (%rax),%mm0"),
        ("f3a4", &[3, 8, 9], &[3, 8, 9, 34, 37], 8, "rep movsb"),
    ] {
        assert_eq!(decoded(code), (writes.to_vec(), reads.to_vec(), Some(bytes)), "{text}");
    }
}

#[test]
fn every_instruction_of_a_trace_of_aarch64_has_an_encoding_that_says_the_same() {
    let mut encoder = Encoder::new(Arch::Aarch64).unwrap();
    let mut real = Decoder::new(Arch::Aarch64, Syntax::Att).unwrap();
    let mut synthetic = Decoder::new(Arch::Regdeps, Syntax::Att).unwrap();
    let lines = include_str!("data/aarch64.records.txt").lines().filter(|line| !line.starts_with('#'));
    let mut n_cases = 0;
    for line in lines {
        let mut columns = line.split(' ');
        let pc = u64::from_str_radix(columns.next().unwrap(), 16).unwrap();
        let code = bytes(columns.next().unwrap());
        let instr = real.decode(pc, &code).unwrap();
        let mut out = [0; MAX_BYTES];
        let n = encoder.encode(pc, &code, &mut out);
        let made = synthetic.decode(pc, &out[..n]).unwrap();
        assert_eq!(usize::from(made.len), n, "{line}");
        assert!(made.categories.contains(instr.categories), "{line}");
        assert_eq!(made.categories.contains(Categories::STORE), instr.writes_memory(), "{line}");
        if instr.reads_memory() {
            assert!(made.categories.contains(Categories::LOAD), "{line}");
        }
        assert_eq!((made.reads_flags, made.writes_flags), (instr.reads_flags, instr.writes_flags), "{line}");
        // System registers have numbers in REGDEPS, but none in `Instr`.
        assert!(made.writes.len() >= instr.writes.len() && made.reads.len() >= instr.reads.len(), "{line}");
        let most = instr.mems().iter().filter(|mem| mem.access.is_read()).map(|mem| mem.bytes).max();
        if n > 4 {
            assert!(made.operation_bytes >= most, "{line}: {:?}", made.operation_bytes);
        }
        n_cases += 1;
    }
    assert_eq!(n_cases, 1410);
}
