//! Compares the computations of instructions with sources other than the decoder: manuals, and the text of GNU objdump.

use quipu_isa::{Arch, Decoder, Operation, Syntax, Work};
use std::process::Command;

use Operation::{Add, Divide, Move, Multiply, Other, Shift, Subtract};

/// The computation of an instruction: operation, whether it is floating point, bytes, number of values.
type Expected = Option<(Operation, bool, u16, u8)>;

/// Bytes of an instruction, and its computation according to manuals.
type Known = (&'static [u8], Expected);

fn check(arch: Arch, known: &[Known]) {
    let mut decoder = Decoder::new(arch, Syntax::Intel).unwrap();
    for (bytes, expected) in known {
        let mut text = String::new();
        decoder.text(0x1000, bytes, &mut text);
        let instr = decoder.decode(0x1000, bytes).unwrap();
        let work = decoder.work(&instr, 0x1000, bytes);
        let found =
            work.map(|Work { operation, is_float, bytes, arity }| (operation, is_float, bytes, arity));
        assert_eq!(found, *expected, "{text}");
    }
}

#[test]
fn x86_instructions_compute_what_manuals_say() {
    check(
        Arch::X86_64,
        &[
            // add rax, rbx; add eax, ebx; add ax, bx; add al, bl; add dword [rbx], 5
            (&[0x48, 0x01, 0xd8], Some((Add, false, 8, 2))),
            (&[0x01, 0xd8], Some((Add, false, 4, 2))),
            (&[0x66, 0x01, 0xd8], Some((Add, false, 2, 2))),
            (&[0x00, 0xd8], Some((Add, false, 1, 2))),
            (&[0x83, 0x03, 0x05], Some((Add, false, 4, 2))),
            // imul rax, rbx; imul eax, ebx, 3; mul rcx; idiv ecx; sbb eax, eax; neg rax; inc dl
            (&[0x48, 0x0f, 0xaf, 0xc3], Some((Multiply, false, 8, 2))),
            (&[0x6b, 0xc3, 0x03], Some((Multiply, false, 4, 2))),
            (&[0x48, 0xf7, 0xe1], Some((Multiply, false, 8, 2))),
            (&[0xf7, 0xf9], Some((Divide, false, 4, 2))),
            (&[0x19, 0xc0], Some((Subtract, false, 4, 2))),
            (&[0x48, 0xf7, 0xd8], Some((Subtract, false, 8, 1))),
            (&[0xfe, 0xc2], Some((Add, false, 1, 1))),
            // cmp qword [rsi], 0; test al, al; xor eax, eax; shl rax, 3; shld rax, rbx, cl; sete al
            (&[0x48, 0x83, 0x3e, 0x00], Some((Subtract, false, 8, 2))),
            (&[0x84, 0xc0], Some((Other, false, 1, 2))),
            (&[0x31, 0xc0], Some((Other, false, 4, 2))),
            (&[0x48, 0xc1, 0xe0, 0x03], Some((Shift, false, 8, 2))),
            (&[0x48, 0x0f, 0xa5, 0xd8], Some((Shift, false, 8, 3))),
            (&[0x0f, 0x94, 0xc0], Some((Other, false, 1, 1))),
            // lea rdi, [rbp-0x20]; lea rax, [rbx+rcx*8+16]; mov rax, rbx; mov rax, [rbx]; mov [rbx], rax
            (&[0x48, 0x8d, 0x7d, 0xe0], Some((Add, false, 8, 2))),
            (&[0x48, 0x8d, 0x44, 0xcb, 0x10], Some((Add, false, 8, 3))),
            (&[0x48, 0x89, 0xd8], Some((Move, false, 8, 1))),
            (&[0x48, 0x8b, 0x03], None),
            (&[0x48, 0x89, 0x03], None),
            // movzx eax, byte [rsi]; movsxd rax, edi; cdqe; xchg rax, rbx; ret; push rbp; nop; syscall; call
            (&[0x0f, 0xb6, 0x06], Some((Move, false, 4, 1))),
            (&[0x48, 0x63, 0xc7], Some((Move, false, 8, 1))),
            (&[0x48, 0x98], Some((Move, false, 8, 1))),
            (&[0x48, 0x93], Some((Move, false, 8, 2))),
            (&[0xc3], None),
            (&[0x55], None),
            (&[0x90], None),
            (&[0x0f, 0x05], None),
            (&[0xe8, 0, 0, 0, 0], None),
            // cmpxchg [rdi], rsi; xadd [rdi], eax; popcnt eax, ecx; rep movsb; repne scasb
            (&[0x48, 0x0f, 0xb1, 0x37], Some((Subtract, false, 8, 3))),
            (&[0x0f, 0xc1, 0x07], Some((Add, false, 4, 2))),
            (&[0xf3, 0x0f, 0xb8, 0xc1], Some((Other, false, 4, 1))),
            (&[0xf3, 0xa4], None),
            (&[0xf2, 0xae], Some((Subtract, false, 1, 2))),
            // divsd xmm0, xmm1; addss xmm0, [rsi]; addps xmm0, xmm1; vaddpd ymm0, ymm1, ymm2; vfmadd213sd
            (&[0xf2, 0x0f, 0x5e, 0xc1], Some((Divide, true, 8, 2))),
            (&[0xf3, 0x0f, 0x58, 0x06], Some((Add, true, 4, 2))),
            (&[0x0f, 0x58, 0xc1], Some((Add, true, 16, 2))),
            (&[0xc5, 0xf5, 0x58, 0xc2], Some((Add, true, 32, 2))),
            (&[0xc4, 0xe2, 0xf1, 0xa9, 0xc2], Some((Multiply, true, 8, 3))),
            // cvtsi2sd xmm0, eax; cvttsd2si rax, xmm0; cvtss2sd xmm0, xmm1; comisd xmm0, xmm1; sqrtsd xmm0, xmm1
            (&[0xf2, 0x0f, 0x2a, 0xc0], Some((Move, true, 8, 1))),
            (&[0xf2, 0x48, 0x0f, 0x2c, 0xc0], Some((Move, false, 8, 1))),
            (&[0xf3, 0x0f, 0x5a, 0xc1], Some((Move, true, 8, 1))),
            (&[0x66, 0x0f, 0x2f, 0xc1], Some((Subtract, true, 8, 2))),
            (&[0xf2, 0x0f, 0x51, 0xc1], Some((Other, true, 8, 1))),
            // paddd xmm0, xmm1; pmuludq xmm0, xmm1; vpaddq zmm0, zmm1, zmm2; pcmpeqb xmm0, [rdi]; pmovmskb eax, xmm0
            (&[0x66, 0x0f, 0xfe, 0xc1], Some((Add, false, 16, 2))),
            (&[0x66, 0x0f, 0xf4, 0xc1], Some((Multiply, false, 16, 2))),
            (&[0x62, 0xf1, 0xf5, 0x48, 0xd4, 0xc2], Some((Add, false, 64, 2))),
            (&[0x66, 0x0f, 0x74, 0x07], Some((Other, false, 16, 2))),
            (&[0x66, 0x0f, 0xd7, 0xc0], Some((Other, false, 4, 1))),
            // movdqa xmm0, xmm1; movdqa xmm0, [rsi]; movd xmm0, eax; pslld xmm0, 3; pshufd xmm0, xmm1, 0; psrlw mm0, 1
            (&[0x66, 0x0f, 0x6f, 0xc1], Some((Move, false, 16, 1))),
            (&[0x66, 0x0f, 0x6f, 0x06], None),
            (&[0x66, 0x0f, 0x6e, 0xc0], Some((Move, false, 4, 1))),
            (&[0x66, 0x0f, 0x72, 0xf0, 0x03], Some((Shift, false, 16, 2))),
            (&[0x66, 0x0f, 0x70, 0xc1, 0x00], Some((Move, false, 16, 2))),
            (&[0x0f, 0x71, 0xd0, 0x01], Some((Shift, false, 8, 2))),
            // fadd st0, st1; fmul qword [rsi]; fld qword [rsi]; fstp tbyte [rsi]; fsqrt; fchs
            (&[0xd8, 0xc1], Some((Add, true, 10, 2))),
            (&[0xdc, 0x0e], Some((Multiply, true, 10, 2))),
            (&[0xdd, 0x06], None),
            (&[0xdb, 0x3e], None),
            (&[0xd9, 0xfa], Some((Other, true, 10, 1))),
            (&[0xd9, 0xe0], Some((Subtract, true, 10, 1))),
            // mov cr0, rax; mov rax, dr7; mov ds, ax; mov eax, fs; vfmulcph xmm0, xmm1, xmm2; vdpbf16ps; tdpbf16ps
            (&[0x0f, 0x22, 0xc0], None),
            (&[0x0f, 0x21, 0xf8], None),
            (&[0x8e, 0xd8], None),
            (&[0x8c, 0xe0], None),
            (&[0x62, 0xf6, 0x76, 0x08, 0xd6, 0xc2], Some((Multiply, true, 16, 2))),
            (&[0x62, 0xf2, 0x76, 0x08, 0x52, 0xc2], Some((Multiply, true, 16, 3))),
            (&[0xc4, 0xe2, 0x6a, 0x5c, 0xc1], Some((Multiply, true, 0, 3))),
        ],
    );
}

#[test]
fn aarch64_instructions_compute_what_manuals_say() {
    let words: &[(u32, Expected)] = &[
        // add x0, x1, x2; add w0, w1, #4; adds xzr, x0, #1 (cmn); sub x0, x1, x2, lsl #3; madd x0, x1, x2, x3
        (0x8b02_0020, Some((Add, false, 8, 2))),
        (0x1100_1020, Some((Add, false, 4, 2))),
        (0xb100_041f, Some((Add, false, 8, 2))),
        (0xcb02_0c20, Some((Subtract, false, 8, 2))),
        (0x9b02_0c20, Some((Multiply, false, 8, 3))),
        // udiv w0, w1, w2; lsl x0, x1, #3 (ubfm); lslv x0, x1, x2; movz x0, #7; movk x0, #7, lsl #16; csel x0, x1, x2, eq
        (0x1ac2_0820, Some((Divide, false, 4, 2))),
        (0xd37d_f020, Some((Shift, false, 8, 2))),
        (0x9ac2_2020, Some((Shift, false, 8, 2))),
        (0xd280_00e0, Some((Move, false, 8, 1))),
        (0xf2a0_00e0, Some((Move, false, 8, 2))),
        (0x9a82_0020, Some((Move, false, 8, 2))),
        // adr x0, #4; and x0, x1, x2; mov x1, x2; ldr x0, [x1]; b .+4; ret; nop; svc #0
        (0x1000_0020, Some((Add, false, 8, 1))),
        (0x8a02_0020, Some((Other, false, 8, 2))),
        (0xaa02_03e1, Some((Move, false, 8, 1))),
        (0xf940_0020, None),
        (0x1400_0001, None),
        (0xd65f_03c0, None),
        (0xd503_201f, None),
        (0xd400_0001, None),
        // fadd d0, d1, d2; fmadd s0, s1, s2, s3; fcmp d0, d1; scvtf d0, w1; fcvtzs x0, d1; fmov d0, d1; fmov x0, d1
        (0x1e62_2820, Some((Add, true, 8, 2))),
        (0x1f02_0c20, Some((Multiply, true, 4, 3))),
        (0x1e61_2000, Some((Subtract, true, 8, 2))),
        (0x1e62_0020, Some((Move, true, 8, 1))),
        (0x9e78_0020, Some((Move, false, 8, 1))),
        (0x1e60_4020, Some((Move, true, 8, 1))),
        (0x9e66_0020, Some((Move, false, 8, 1))),
        // add v0.4s, v1.4s, v2.4s; fadd v0.2d, v1.2d, v2.2d; fmla v0.4s, v1.4s, v2.4s; mul v0.2s, v1.2s, v2.2s
        (0x4ea2_8420, Some((Add, false, 16, 2))),
        (0x4e62_d420, Some((Add, true, 16, 2))),
        (0x4e22_cc20, Some((Multiply, true, 16, 3))),
        (0x0ea2_9c20, Some((Multiply, false, 8, 2))),
        // mov v0.16b, v1.16b; orr v0.16b, v1.16b, v2.16b; sqrdmlah v0.4s, v1.4s, v2.4s
        (0x4ea1_1c20, Some((Move, false, 16, 1))),
        (0x4ea2_1c20, Some((Other, false, 16, 2))),
        (0x6e82_8420, Some((Multiply, false, 16, 3))),
        // ldadd w1, w2, [x0]; stadd w1, [x0]; ldaddalb w1, w2, [x0]; ldset x1, x2, [x0]; swp w1, w2, [x0]; ldapr w0, [x1]
        (0xb821_0002, Some((Add, false, 4, 2))),
        (0xb821_001f, Some((Add, false, 4, 2))),
        (0x38e1_0002, Some((Add, false, 1, 2))),
        (0xf821_3002, Some((Other, false, 8, 2))),
        (0xb821_8002, None),
        (0xb8bf_c020, None),
        // cas w1, w2, [x0]; casal x1, x2, [x0]; casp w0, w1, w2, w3, [x4]; caspal x0, x1, x2, x3, [x4]; ldxr w0, [x1]
        (0x88a1_7c02, Some((Subtract, false, 4, 3))),
        (0xc8e1_fc02, Some((Subtract, false, 8, 3))),
        (0x0820_7c82, Some((Subtract, false, 8, 3))),
        (0x4860_fc82, Some((Subtract, false, 16, 3))),
        (0x885f_7c20, None),
        // add z0.s, p0/m, z0.s, z1.s; fmla z0.d, p0/m, z1.d, z2.d; mul z0.s, z1.s, #…; fsub z0.d, z1.d, z2.d
        (0x0480_0020, Some((Add, false, 0, 2))),
        (0x65e2_0020, Some((Multiply, true, 0, 3))),
        (0x25b0_c0e0, Some((Multiply, false, 0, 2))),
        (0x65c2_0420, Some((Subtract, true, 0, 2))),
        // whilelo p0.s, x1, x2; ptrue p0.s; cntw x0; incw x0; faddv s0, p0, z1.s; ld1w {z0.s}, p0/z, [x0]; st1w
        (0x25a2_1c20, Some((Subtract, false, 0, 2))),
        (0x2598_e3e0, Some((Other, false, 0, 1))),
        (0x04a0_e3e0, Some((Other, false, 8, 1))),
        (0x04b0_e3e0, Some((Add, false, 8, 2))),
        (0x6580_2020, Some((Add, true, 4, 1))),
        (0xa540_a000, None),
        (0xe540_e000, None),
        // fmopa za0.s, p0/m, p1/m, z0.s, z1.s; smopa za0.s, p0/m, p1/m, z0.b, z1.b
        (0x8081_2000, Some((Multiply, true, 0, 3))),
        (0xa081_2000, Some((Multiply, false, 0, 3))),
    ];
    let bytes: Vec<[u8; 4]> = words.iter().map(|(word, _)| word.to_le_bytes()).collect();
    let known: Vec<(&[u8], _)> =
        bytes.iter().zip(words).map(|(bytes, (_, known))| (&bytes[..], *known)).collect();
    let mut decoder = Decoder::new(Arch::Aarch64, Syntax::Att).unwrap();
    for (bytes, expected) in known {
        let mut text = String::new();
        decoder.text(0x1000, bytes, &mut text);
        let instr = decoder.decode(0x1000, bytes).unwrap();
        let work = decoder.work(&instr, 0x1000, bytes);
        let found =
            work.map(|Work { operation, is_float, bytes, arity }| (operation, is_float, bytes, arity));
        assert_eq!(found, expected, "{text}");
    }
}

/// Operations of scalable and atomic instructions by the names that objdump prints. All others are of another kind.
const NAMES: &[(Operation, &str)] = &[
    (
        Add,
        "add addha addva addhn? addp addpl addspl addsvl addvl adclb adclt saddv uaddv adr inc? sqinc? uqinc? raddhn? saddl* \
         uaddl* saddw? uaddw? sadalp uadalp shadd uhadd srhadd urhadd sqadd uqadd suqadd usqadd saba* uaba* cadd sqcadd fadd \
         faddp faddv fadda fcadd ldadd* stadd*",
    ),
    (
        Subtract,
        "sub subr subhn? rsubhn? sbclb sbclt dec? sqdec? uqdec? neg fneg sqneg sabd* uabd* fabd shsub uhsub shsubr uhsubr sqsub \
         uqsub sqsubr uqsubr ssubl* usubl* ssubw? usubw? fsub fsubr fcmeq fcmne fcmge fcmgt fcmle fcmlt \
         fcmuo while* cterm* cas*",
    ),
    (
        Multiply,
        "mul pmul pmull? mla mls mad msb smulh umulh smull? umull? sqdmul* sqrdm* sqrdcmlah smlal? umlal? smlsl? umlsl? sqdmlal* \
         sqdmlsl* cmla cdot sdot udot usdot sudot smmla ummla usmmla fmul fmulx fmla* fmls* fmad fmsb fnm* fcmla fmmla bfmmla \
         bfmlal? bfdot ftmad ftsmul fmop? bfmop? smop? umop? sumop? usmop?",
    ),
    (Divide, "sdiv udiv sdivr udivr fdiv fdivr"),
    (
        Shift,
        "asr asrd asrr lsl lslr lsr lsrr sqshl* uqshl* sqrshl* uqrshl* srshl* urshl* srshr urshr ssra usra srsra ursra shrn? \
         rshrn? sqshrn? uqshrn? sqrshrn? uqrshrn? sqshrun? sqrshrun? sshll? ushll? sli sri xar",
    ),
    (
        Move,
        "mov movprfx dup dupm cpy fmov ext tbl tbx trn? uzp? zip? sel splice compact last? clast? insr rev rev? sxt? uxt? sunpk* \
         uunpk* punpk* psel sqxt* uqxt* fcvt fcvtnt fcvtlt fcvtx* fcvtz? scvtf ucvtf bfcvt bfcvtnt wrffr setffr",
    ),
];

/// Names of operations whose result consists of floating-point numbers.
const FLOATS: &str = "fabs fadd fadda faddp faddv fcadd fcmla fcvt fcvtlt fcvtnt fcvtx fcvtxnt fdiv fdivr fexpa fabd fm* fn* \
     frecp* frint* frsqrt* fscale fsqrt fsub fsubr ftmad ftsmul ftssel scvtf ucvtf bf*";

/// Whether a name matches one of these patterns: `?` stands for one letter, and `*` at the end for any number of characters.
fn is_one(patterns: &str, name: &str) -> bool {
    patterns.split_whitespace().any(|pattern| {
        let (stem, is_open) = pattern.strip_suffix('*').map_or((pattern, false), |stem| (stem, true));
        let is_long = if is_open { name.len() >= stem.len() } else { name.len() == stem.len() };
        is_long && stem.bytes().zip(name.bytes()).all(|(p, n)| p == b'?' || p == n)
    })
}

/// Returns the computation that objdump's text of an instruction shows: operation, whether it is floating point, bytes.
fn of_text(word: u32, name: &str, operands: &str) -> Option<(Operation, bool, u16)> {
    let first = operands.split([',', ' ']).next().unwrap_or_default();
    let is_predicate = first.starts_with('p');
    let mut bytes = match (first.as_bytes(), first.get(1..).unwrap_or_default()) {
        _ if first.starts_with("pn") || first == "sp" => u16::from(first == "sp") * 8,
        ([kind, ..], rest) if rest == "zr" || rest.parse::<u8>().is_ok() => match kind {
            b'b' => 1,
            b'h' => 2,
            b's' | b'w' => 4,
            b'd' | b'x' => 8,
            b'q' => 16,
            _ => 0,
        },
        _ => 0,
    };
    let is_scalable = word >> 25 & 0xf == 0b0010 || (word >> 31 == 1 && word >> 25 & 0xf == 0);
    if !is_scalable {
        // Atomic updates; other accesses to memory compute nothing.
        let is_atomic = ["ldadd", "ldclr", "ldeor", "ldset", "ldsmax", "ldsmin", "ldumax", "ldumin", "cas"];
        let is_stored = ["stadd", "stclr", "steor", "stset", "stsmax", "stsmin", "stumax", "stumin"];
        if !is_atomic.iter().chain(&is_stored).any(|known| name.starts_with(known)) {
            return None;
        }
        bytes = match name.as_bytes().last() {
            Some(b'b') => 1,
            Some(b'h') => 2,
            _ if name.starts_with("casp") => 2 * bytes,
            _ => bytes,
        };
    }
    let operation =
        NAMES.iter().find(|(_, patterns)| is_one(patterns, name)).map_or(Other, |(known, _)| *known);
    let operation = match name {
        // A copy of a predicate or vector, unless it merges, is a logical operation of the source with itself.
        "mov" | "movs" if is_predicate && !operands.contains("/m") => Other,
        "mov" if word >> 24 == 0x04 => Other,
        "ctermeq" | "ctermne" => return Some((Subtract, false, 0)),
        _ => operation,
    };
    Some((operation, is_one(FLOATS, name), bytes))
}

#[test]
fn scalable_and_atomic_instructions_compute_what_objdump_calls_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("words");
    const GROUPS: [u32; 23] = [
        0x04, 0x05, 0x24, 0x25, 0x44, 0x45, 0x64, 0x65, 0x80, 0x81, 0xa0, 0xa1, 0xc0, 0x38, 0x78, 0xb8, 0xf8,
        0x08, 0x48, 0x88, 0xc8, 0x84, 0xe5,
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = (0..150_000).map(|n| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        GROUPS[n % GROUPS.len()] << 24 | (state >> 40) as u32
    });
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    std::fs::write(&path, bytes).unwrap();
    let objdump = Command::new("aarch64-linux-gnu-objdump")
        .args(["-D", "-b", "binary", "-m", "aarch64"])
        .arg(&path)
        .output();
    let Ok(output) = objdump else { return eprintln!("passed over: there is no objdump for AArch64") };
    let text = String::from_utf8_lossy(&output.stdout);
    let mut decoder = Decoder::new(Arch::Aarch64, Syntax::Att).unwrap();
    let (mut n_checked, mut wrong) = (0, Vec::new());
    for line in text.lines() {
        let mut columns = line.split('\t');
        let (Some(_), Some(word), Some(name)) = (columns.next(), columns.next(), columns.next()) else {
            continue;
        };
        let operands = columns.next().unwrap_or_default().split("//").next().unwrap_or_default().trim();
        let word = u32::from_str_radix(word.trim(), 16).unwrap();
        let is_memory =
            matches!(word >> 24, 0xa0 | 0xa1) && word >> 23 & 1 == 0 || matches!(word >> 24, 0x84 | 0xe5);
        // Unallocated encodings, or those that need a later version of objdump.
        if name.starts_with('.') || name == "udf" {
            continue;
        }
        let expected = if is_memory || name == "zero" { None } else { of_text(word, name, operands) };
        let Ok(instr) = decoder.decode(0x1000, &word.to_le_bytes()) else { continue };
        let work = decoder.work(&instr, 0x1000, &word.to_le_bytes());
        let found = work.map(|work| (work.operation, work.is_float, work.bytes));
        if found != expected && wrong.len() < 40 {
            wrong.push(format!("{line}: {found:?} instead of {expected:?}"));
        }
        n_checked += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n_checked > 50_000, "{n_checked}");
}

#[test]
fn a_program_of_scalable_vectors_computes_with_every_instruction_but_loads_and_stores() {
    const SOURCE: &str = "
        double dot(const double *a, const double *b, long n) {
            double sum = 0;
            for (long i = 0; i < n; i++) sum += a[i] * b[i];
            return sum;
        }
        void mix(int *a, const int *b, const short *c, long n) {
            for (long i = 0; i < n; i++) a[i] = b[i] > 3 ? a[i] * b[i] + c[i] : a[i] >> 2;
        }";
    let folder = tempfile::tempdir().unwrap();
    let (source, object) = (folder.path().join("a.c"), folder.path().join("a.o"));
    std::fs::write(&source, SOURCE).unwrap();
    let compiled = Command::new("aarch64-linux-gnu-gcc")
        .args(["-O3", "-ffast-math", "-march=armv8.5-a+sve2", "-c", "-o"])
        .args([&object, &source])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        return eprintln!("passed over: there is no compiler for SVE");
    }
    let output = Command::new("aarch64-linux-gnu-objdump").arg("-d").arg(&object).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let mut decoder = Decoder::new(Arch::Aarch64, Syntax::Att).unwrap();
    let (mut n_checked, mut n_float) = (0, 0);
    for line in text.lines() {
        let columns: Vec<&str> = line.split('\t').collect();
        let [_, word, name, ..] = columns[..] else { continue };
        let word = u32::from_str_radix(word.trim(), 16).unwrap();
        let is_scalable = word >> 25 & 0xf == 0b0010;
        if !is_scalable || word >> 31 == 1 {
            continue;
        }
        let operands = columns.get(3).copied().unwrap_or_default();
        let instr = decoder.decode(0x1000, &word.to_le_bytes()).unwrap();
        let work = decoder.work(&instr, 0x1000, &word.to_le_bytes());
        let found = work.map(|work| (work.operation, work.is_float, work.bytes));
        assert_eq!(found, of_text(word, name, operands), "{line}");
        (n_checked, n_float) = (n_checked + 1, n_float + usize::from(work.unwrap().is_float));
    }
    assert!(n_checked > 12 && n_float >= 2, "{n_checked}, {n_float}");
}

/// Returns the bytes of a register from its name in AT&T syntax.
fn register_bytes(name: &str) -> Option<u16> {
    let name = name.strip_prefix('%')?;
    const LOW: &[&str] = &["al", "bl", "cl", "dl", "ah", "bh", "ch", "dh", "sil", "dil", "bpl", "spl"];
    const WORDS: &[&str] = &["ax", "bx", "cx", "dx", "si", "di", "bp", "sp"];
    match name {
        _ if LOW.contains(&name) => Some(1),
        _ if WORDS.contains(&name) => Some(2),
        _ if name.starts_with("xmm") => Some(16),
        _ if name.starts_with("ymm") => Some(32),
        _ if name.starts_with("zmm") => Some(64),
        _ => match (
            name.as_bytes(),
            name.strip_prefix('r').map(|rest| rest.trim_start_matches(char::is_numeric)),
        ) {
            ([b'e', ..], _) => Some(4),
            (_, Some("d")) => Some(4),
            (_, Some("w")) => Some(2),
            (_, Some("b")) => Some(1),
            (_, Some(_)) => Some(8),
            _ => None,
        },
    }
}

/// Returns integer operations with the width that objdump's text shows: of the last operand if it is a register, else of the
/// suffix.
fn width_in_text(text: &str) -> Option<(&str, u16)> {
    const NAMES: &[&str] = &[
        "add", "sub", "and", "or", "xor", "cmp", "test", "adc", "sbb", "shl", "shr", "sar", "imul", "not",
        "neg",
    ];
    const VECTORS: &[&str] =
        &["paddd", "paddq", "pxor", "por", "pand", "psubb", "pminub", "pcmpeqb", "addps", "mulpd"];
    const SCALARS: &[(&str, u16)] = &[("addsd", 8), ("mulsd", 8), ("subss", 4), ("divsd", 8), ("ucomisd", 8)];
    let text = text.strip_prefix("lock ").unwrap_or(text);
    let (mnemonic, operands) = text.split_once(' ')?;
    let last = operands.trim().rsplit([',', ' ']).next()?;
    if let Some((name, bytes)) = SCALARS.iter().find(|(name, _)| mnemonic.trim_start_matches('v') == *name) {
        return Some((name, *bytes));
    }
    let vector = VECTORS.iter().find(|name| mnemonic.trim_start_matches('v') == **name);
    if let Some(name) = vector {
        return Some((name, register_bytes(last)?));
    }
    if let Some(name) = NAMES.iter().find(|name| mnemonic == **name) {
        // If the last operand is memory, a register among the others has the width; but `%cl` is only a count of shifts.
        let bytes = register_bytes(last).or_else(|| {
            let first = operands.trim().split(',').next()?;
            if ["shl", "shr", "sar"].contains(name) { None } else { register_bytes(first) }
        });
        return Some((name, bytes?));
    }
    let (name, suffix) = mnemonic.split_at_checked(mnemonic.len().checked_sub(1)?)?;
    let bytes = match suffix {
        "b" => 1,
        "w" => 2,
        "l" => 4,
        "q" => 8,
        _ => return None,
    };
    NAMES.iter().find(|known| **known == name).map(|name| (*name, bytes))
}

#[test]
#[cfg(target_arch = "x86_64")]
fn widths_are_those_of_the_text_of_objdump() {
    let Ok(loaded) = std::fs::read_to_string("/proc/self/maps") else { return };
    let library = loaded
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.contains("libc.so"));
    let Some(library) = library else { return };
    let Ok(output) = Command::new("objdump").args(["-d", "-w", "-j", ".text", library]).output() else {
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let mut decoder = Decoder::new(Arch::X86_64, Syntax::Att).unwrap();
    let mut n_checked = 0;
    for line in text.lines().step_by(3) {
        let mut columns = line.split('\t');
        let (Some(_), Some(bytes), Some(text)) = (columns.next(), columns.next(), columns.next()) else {
            continue;
        };
        let Some((name, expected)) = width_in_text(text.split(['<', '#']).next().unwrap().trim()) else {
            continue;
        };
        let bytes: Option<Vec<u8>> =
            bytes.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        let bytes = bytes.unwrap();
        let Ok(instr) = decoder.decode(0x1000, &bytes) else { continue };
        let work =
            decoder.work(&instr, 0x1000, &bytes).unwrap_or_else(|| panic!("{line}: nothing is computed"));
        assert_eq!(work.bytes, expected, "{line}");
        let is_scalar = ["addsd", "mulsd", "subss", "divsd", "ucomisd", "addps", "mulpd"].contains(&name);
        assert_eq!(work.is_float, is_scalar, "{line}");
        n_checked += 1;
    }
    assert!(n_checked > 10_000, "{n_checked}");
}
