//! What an instruction computes, by its name and the kinds of work that it does.
//!
//! SPEC: prism.md#recorded-traces

use quipu_isa::{Categories, Instr};

/// No operation of the list.
const UNDEFINED: u8 = 0;

/// Operations by the beginnings of names, without the `v` of AVX; the first that fits counts.
const NAMES: &[(u8, &[&str])] = &[
    (
        3,
        &[
            "mul", "imul", "pmul", "fmul", "smul", "umul", "mul", "pclmul", "fmadd", "fmsub", "fnmadd",
            "fnmsub", "madd", "msub", "pmadd", "smadd", "umadd",
        ],
    ),
    (4, &["div", "idiv", "fdiv", "sdiv", "udiv", "fidiv"]),
    (
        5,
        &[
            "shl", "shr", "sar", "sal", "rol", "ror", "rcl", "rcr", "psll", "psrl", "psra", "lsl", "lsr",
            "asr", "ubfm", "sbfm",
        ],
    ),
    (
        2,
        &[
            "sub", "sbb", "sbc", "dec", "neg", "cmp", "psub", "fsub", "fisub", "comis", "ucomis", "fcom",
            "fucom",
        ],
    ),
    (1, &["add", "adc", "inc", "xadd", "lea", "padd", "fadd", "fiadd", "hadd", "adr", "cmn"]),
    (6, &["mov", "cmov", "xchg", "fld", "fst", "fmov", "csel", "bswap", "push", "pop"]),
];

/// Operations of one argument.
const UNARY: &[&str] = &["inc", "dec", "neg", "not", "sqrt", "fsqrt", "fabs", "fchs", "pabs", "bswap", "cvt"];
/// Operations of three.
const TERNARY: &[&str] =
    &["fmadd", "fmsub", "fnmadd", "fnmsub", "madd", "msub", "shld", "shrd", "smadd", "umadd"];

/// Whether an instruction computes on floating-point numbers, its operation, and how many arguments that has; none of one
/// that computes nothing.
pub(crate) fn of(instr: &Instr) -> Option<(bool, u8, u8)> {
    let does = |what: Categories| instr.categories.contains(what);
    if !does(Categories::MATH) && !does(Categories::CONVERT) && !does(Categories::MOVE) {
        return None;
    }
    let whole = instr.opcode.name();
    // What else begins with it computes nothing.
    let name = whole.strip_prefix('v').unwrap_or(whole);
    let begins = |names: &[&str]| names.iter().any(|known| name.starts_with(known));
    let operation = match NAMES.iter().find(|(_, names)| begins(names)) {
        Some((operation, _)) => *operation,
        None if does(Categories::MOVE) => 6,
        None => UNDEFINED,
    };
    let arguments = match () {
        () if begins(TERNARY) => 3,
        () if begins(UNARY) || operation == 6 || does(Categories::CONVERT) => 1,
        () => 2,
    };
    Some((does(Categories::FP), operation, arguments))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_isa::{Arch, Decoder, Syntax};

    #[test]
    fn instructions_have_their_operation_format_and_arguments() {
        let mut decoder = Decoder::new(Arch::X86_64, Syntax::Intel).unwrap();
        for (bytes, expected) in [
            // add rax, rbx; imul rax, rbx; sub rax, 1; shl rax, 3; mov rax, rbx; inc rax
            (&[0x48, 0x01, 0xd8][..], Some((false, 1, 2))),
            (&[0x48, 0x0f, 0xaf, 0xc3], Some((false, 3, 2))),
            (&[0x48, 0x83, 0xe8, 0x01], Some((false, 2, 2))),
            (&[0x48, 0xc1, 0xe0, 0x03], Some((false, 5, 2))),
            (&[0x48, 0x89, 0xd8], Some((false, 6, 1))),
            (&[0x48, 0xff, 0xc0], Some((false, 1, 1))),
            // divsd xmm0, xmm1; vaddpd ymm0, ymm1, ymm2; vfmadd213sd xmm0, xmm1, xmm2
            (&[0xf2, 0x0f, 0x5e, 0xc1], Some((true, 4, 2))),
            (&[0xc5, 0xf5, 0x58, 0xc2], Some((true, 1, 2))),
            (&[0xc4, 0xe2, 0xf1, 0xa9, 0xc2], Some((true, 3, 3))),
            // xor eax, eax; ret; mov rax, [rbx]
            (&[0x31, 0xc0], Some((false, 0, 2))),
            (&[0xc3], None),
            (&[0x48, 0x8b, 0x03], None),
        ] {
            let instr = decoder.decode(0x1000, bytes).unwrap();
            assert_eq!(of(&instr), expected, "{}", instr.opcode.name());
        }
    }
}
