//! Computations of x86 instructions: operation by mnemonic; widths, formats and sources from iced's operands.
//!
//! The categories are DynamoRIO's and have gaps (`sbb`, vector multiplications), so this file has tables of its own.

use iced_x86::{Code, Instruction, InstructionInfo, MemorySize, OpAccess, OpKind, Register};

use std::collections::HashMap;

use crate::work::{Operations, Work, named};
use crate::{Class, Instr, Operation};

/// Operations on general registers.
const SCALAR: &Operations = &[
    (Operation::Add, "add adc adcx adox inc xadd lea aadd"),
    (Operation::Subtract, "sub sbb dec neg cmp cmpxchg cmpxchg8b cmpxchg16b cmps? scas?"),
    (Operation::Multiply, "mul imul mulx"),
    (Operation::Divide, "div idiv"),
    (Operation::Shift, "shl shr sal sar rol ror rcl rcr shld shrd shlx shrx sarx rorx"),
    (Operation::Move, "mov movzx movsx movsxd movbe cmov* xchg bswap cbw cwde cdqe cwd cdq cqo"),
    (
        Operation::Other,
        "and or xor not test aand aor axor andn bextr bls* blc* t1mskc tzmsk bzhi bs? bt bt? crc32",
    ),
    (Operation::Other, "lzcnt tzcnt popcnt pdep pext set? set?? set???"),
];

/// Operations of the x87 unit.
const X87: &Operations = &[
    (Operation::Other, "fld1 fldl2? fldpi fldlg2 fldln2 fldz"),
    (Operation::Add, "fadd* fiadd"),
    (Operation::Subtract, "fsub* fisub* fchs fcom* fucom* ficom* ftst"),
    (Operation::Multiply, "fmul* fimul"),
    (Operation::Divide, "fdiv* fidiv*"),
    (Operation::Move, "fld fild fbld fst fstp fist fistp fisttp fbstp fxch fcmov*"),
    (
        Operation::Other,
        "fabs fsqrt frndint fscale fxtract fprem fprem1 f2xm1 fyl2x fyl2xp1 fsin fcos fsincos fptan fpatan fxam",
    ),
];

/// Vector operations, without the `v` of AVX. Those that match no pattern are [`Operation::Other`].
const VECTOR: &Operations = &[
    // Comparisons for equality and order produce no difference.
    (Operation::Other, "pcmp* pmin* pmax* psadbw pavg* psign* pmovmskb popcnt*"),
    (Operation::Subtract, "sub?? fmsubadd* psub* phsub* hsub?? cmp?? comis? ucomis?"),
    (Operation::Multiply, "mul?? pmul* pmadd* fmadd* fmsub* fnmadd* fnmsub* pclmul* dp?? pdp* pmac*"),
    (Operation::Multiply, "fmulc* fcmulc* fcmadd* dpbf16ps tdp* tcmm*"),
    (Operation::Divide, "div??"),
    (Operation::Add, "add?? addsub?? padd* phadd* hadd??"),
    (Operation::Shift, "psll* psrl* psra* pro? pro?? pro??? psha* pshl* pshr*"),
    (
        Operation::Move,
        "mov* lddqu cvt* pmov* pack* punpck* unpck* shuf* pshuf* perm* pperm* palignr align? broadcast*",
    ),
    (
        Operation::Move,
        "pbroadcast* blend* pblend* insert* extract* pinsr* pextr* compress* expand* pcompress* pexpand*",
    ),
    (Operation::Move, "maskmov* kmov? kunpck*"),
    (Operation::Add, "kadd?"),
    (Operation::Shift, "kshift*"),
];

/// Operations looked up in the tables so far, by iced's code, which identifies an encoding together with the kinds of its
/// operands.
///
/// PERF: names are compared once for each code, not for each instruction.
#[derive(Debug, Default)]
pub(super) struct Known(HashMap<Code, Option<Named>>);

/// The operation and unit that a mnemonic stands for.
#[derive(Clone, Copy, Debug)]
struct Named {
    operation: Operation,
    is_x87: bool,
    is_vector: bool,
}

impl Named {
    fn of(code: &Instruction, whole: &str) -> Option<Named> {
        // Instructions on segment, control and debug registers manage the processor's state.
        if registers(code).any(|register| {
            register.is_segment_register() || register.is_cr() || register.is_dr() || register.is_tr()
        }) {
            return None;
        }
        let (is_x87, is_vector) = (named(X87, whole).is_some(), has_vector(code));
        let name = short(whole, is_vector);
        let operation = match (is_x87, is_vector) {
            (true, _) => named(X87, name)?,
            (_, true) if computes_nothing(name) => return None,
            (_, true) => named(VECTOR, name).unwrap_or(Operation::Other),
            _ => named(SCALAR, name)?,
        };
        Some(Named { operation, is_x87, is_vector })
    }
}

/// Returns a mnemonic without the `v` that most vector instructions begin with.
fn short(whole: &str, is_vector: bool) -> &str {
    if is_vector { whole.strip_prefix('v').unwrap_or(whole) } else { whole }
}

/// Returns the computation of `code`, whose class and memory operands are already in `instr`.
pub(super) fn of(
    code: &Instruction,
    instr: &Instr,
    info: &InstructionInfo,
    known: &mut Known,
) -> Option<Work> {
    if instr.class != Class::Other {
        return None;
    }
    let whole = instr.opcode;
    let whole = whole.name();
    let Named { operation, is_x87, is_vector } =
        (*known.0.entry(code.code()).or_insert_with(|| Named::of(code, whole)))?;
    let name = short(whole, is_vector);
    // A move to or from memory is a load or store, unless it changes the value.
    let has_memory = instr.reads_memory() || instr.writes_memory();
    if operation == Operation::Move && has_memory && !changes(name) {
        return None;
    }
    let bytes = if is_x87 { X87_BYTES } else { bytes(code, name, is_vector, info) };
    let is_float = is_x87 || is_vector && is_float(code, name);
    Some(Work { operation, is_float, bytes, arity: arity(code, name, is_x87, info) })
}

fn registers(code: &Instruction) -> impl Iterator<Item = Register> + '_ {
    (0..code.op_count()).filter(|i| code.op_kind(*i) == OpKind::Register).map(|i| code.op_register(i))
}

/// Whether an operand is a vector, mask or tile register.
fn has_vector(code: &Instruction) -> bool {
    registers(code).any(|register| {
        register.is_vector_register() || register.is_mm() || register.is_k() || register.is_tmm()
    })
}

/// Whether a vector instruction has no result that depends on values, or only gathers or scatters data.
fn computes_nothing(name: &str) -> bool {
    const NONE: &[&str] =
        &["zero", "emms", "femms", "gather", "scatter", "pgather", "pscatter", "tile", "ld", "st"];
    NONE.iter().any(|none| name.starts_with(none))
}

/// Whether a move changes values: conversions, and permutations that combine elements with others from memory.
fn changes(name: &str) -> bool {
    const PLAIN: &[&str] =
        &["mov", "lddqu", "broadcast", "pbroadcast", "extract", "pextr", "maskmov", "kmov"];
    const WIDER: &[&str] = &["movzx", "movsx", "movbe"];
    // `fld` and similar ones convert between the formats of memory and registers, as any load does.
    WIDER.iter().any(|wider| name.starts_with(wider))
        || !name.starts_with('f')
            && !PLAIN.iter().any(|plain| name.starts_with(plain))
            && name != "xchg"
            && !name.starts_with("cmov")
}

/// Bytes of an x87 register, whatever the size of a number in memory.
const X87_BYTES: u16 = 10;

/// Returns the bytes of the element if only one is computed: `addsd`, `vfmadd213ss`, `cvtsi2sd`.
fn scalar_float(code: &Instruction, name: &str) -> Option<u16> {
    // A complex number of two half-precision numbers.
    if name.ends_with("csh") {
        return Some(4);
    }
    let bytes = match name.get(name.len().checked_sub(2)?..)? {
        "ss" => 4,
        "sd" => 8,
        "sh" => 2,
        _ => return None,
    };
    let info = code.memory_size().info();
    let is_one = !info.is_packed() && !info.is_broadcast() && info.size() > 0;
    let is_converted = name.starts_with("cvt");
    (!name.starts_with("broadcast") && (is_converted || is_one && is_float_size(code.memory_size())))
        .then_some(bytes)
}

fn is_float_size(size: MemorySize) -> bool {
    use MemorySize::{
        BFloat16, Float16, Float32, Float64, Float80, Float128, Packed32_BFloat16, Packed32_Float16,
    };
    // The last two are complex numbers, and pairs whose products are added.
    let is_one = matches!(size.element_type(), Float16 | BFloat16 | Float32 | Float64 | Float80 | Float128);
    is_one || matches!(size.element_type(), Packed32_Float16 | Packed32_BFloat16)
}

/// Whether the result of a vector operation consists of floating-point numbers.
fn is_float(code: &Instruction, name: &str) -> bool {
    const INTEGERS: &[&str] = &["si", "usi", "dq", "udq", "pi", "qq", "uqq", "w", "uw"];
    if let Some(kinds) = name.strip_prefix("cvt") {
        let to = kinds.rsplit('2').next().unwrap_or_default();
        return !INTEGERS.contains(&to);
    }
    let into_general =
        code.op_count() > 0 && code.op_kind(0) == OpKind::Register && code.op0_register().is_gpr();
    let into_mask = code.op_count() > 0 && code.op_kind(0) == OpKind::Register && code.op0_register().is_k();
    // These results are integers and masks.
    if into_general || into_mask {
        return false;
    }
    // The names of floating-point permutations begin like those of integer operations.
    let is_permutation = name.starts_with("perm");
    if (name.starts_with('p') && !is_permutation) || name.starts_with('k') {
        return false;
    }
    match code.memory_size() {
        // An operation without memory operand: its name tells.
        MemorySize::Unknown => {
            ["ps", "pd", "ss", "sd", "ph", "sh"].iter().any(|ending| name.ends_with(ending))
        }
        size => is_float_size(size),
    }
}

/// Returns the bytes of the result.
fn bytes(code: &Instruction, name: &str, is_vector: bool, info: &InstructionInfo) -> u16 {
    let size = |register: Register| register.size() as u16; // At most 64.
    let has_register = code.op_count() > 0 && code.op_kind(0) == OpKind::Register;
    let register = if has_register { code.op0_register() } else { Register::None };
    if is_vector && !register.is_gpr() {
        if let Some(bytes) = scalar_float(code, name) {
            return bytes;
        }
        match name {
            "movd" => return 4,
            "movq" => return 8,
            _ => {}
        }
        if registers(code).any(Register::is_tmm) {
            // The size of a tile depends on its configuration.
            return 0;
        }
        if register.is_k() {
            // For operations on masks the last letter gives the width; a comparison produces one bit per element.
            let whole = if name.starts_with('k') { name } else { "" };
            return match whole.as_bytes().last() {
                Some(b'b') => 1,
                Some(b'w') => 2,
                Some(b'd') => 4,
                Some(b'q') => 8,
                _ => registers(code).map(size).max().unwrap_or(0),
            };
        }
    }
    match name {
        // These have no explicit operand.
        "cbw" => 2,
        "cwde" => 4,
        // These produce only the upper half.
        "cwd" => 2,
        "cdq" => 4,
        "cdqe" | "cqo" | "cmpxchg8b" => 8,
        "cmpxchg16b" => 16,
        _ if code.is_string_instruction() => code.memory_size().size() as u16, // At most 8.
        _ if has_register => size(register),
        _ if code.op_count() > 0 && code.op0_kind() == OpKind::Memory => {
            let used = info.used_memory().first().map_or(0, |used| used.memory_size().size());
            used as u16 // At most 64.
        }
        _ => 0,
    }
}

/// Returns the number of values that an instruction takes.
fn arity(code: &Instruction, name: &str, is_x87: bool, info: &InstructionInfo) -> u8 {
    let n_operands = code.op_count();
    let count = match name {
        "lea" => {
            let parts = [code.memory_base(), code.memory_index()];
            let n_registers = parts.iter().filter(|part| **part != Register::None && !part.is_ip()).count();
            let has_constant = code.memory_displacement64() != 0 || code.is_ip_rel_memory_operand();
            n_registers + usize::from(has_constant)
        }
        // These multiply or divide the accumulator by their operand.
        "mul" | "imul" | "div" | "idiv" if n_operands == 1 => 2,
        "mulx" => 2,
        "cbw" | "cwde" | "cdqe" | "cwd" | "cdq" | "cqo" => 1,
        _ if name.starts_with("set") => 1,
        // The value in memory, the expected one and the new one.
        "cmpxchg" | "cmpxchg8b" | "cmpxchg16b" => 3,
        _ if code.is_string_instruction() => 2,
        _ if is_x87 => x87_arity(name),
        // The elements that a scalar form keeps come from a further operand, which does not count.
        _ if ["cvt", "sqrts", "rcps", "rsqrts", "movs"].iter().any(|start| name.starts_with(start)) => 1,
        _ => {
            let is_same = n_operands == 2
                && code.op_kind(0) == OpKind::Register
                && code.op_kind(1) == OpKind::Register
                && code.op0_register() == code.op1_register();
            let reads = |i: u32| match info.op_access(i) {
                OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite => true,
                // iced knows that `xor` of a register with itself gives zero, and reports no access.
                OpAccess::None => code.op_kind(i) == OpKind::Register,
                OpAccess::Write | OpAccess::CondWrite => {
                    i == 0 && is_same && info.op_access(1) == OpAccess::None
                }
                OpAccess::NoMemAccess => false,
            };
            (0..n_operands).filter(|i| reads(*i)).count()
        }
    };
    count.clamp(1, 4) as u8
}

/// Returns the number of values that an operation on the x87 stack takes; most do not name the top of the stack.
fn x87_arity(name: &str) -> usize {
    match name {
        "fld1" | "fldl2t" | "fldl2e" | "fldpi" | "fldlg2" | "fldln2" | "fldz" => 1,
        "fabs" | "fchs" | "fsqrt" | "frndint" | "fsin" | "fcos" | "fsincos" | "fptan" | "f2xm1"
        | "fxtract" => 1,
        "fxam" | "ftst" => 1,
        _ if name.starts_with("fst") || name.starts_with("fld") || name.starts_with("fcmov") => 1,
        _ => 2,
    }
}
