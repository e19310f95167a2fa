//! Memory operands and registers of AArch64 loads and stores, from the fields of their encoding.

use super::{Word, ZERO};
use crate::registers::{A64_SP, A64_VEC};
use crate::{Access, Instr, Mem, Reg};

/// Direction of an access, which decides whether its data registers are written or read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Load,
    Store,
    Prefetch,
}

impl Kind {
    fn access(self) -> Access {
        match self {
            Kind::Load => Access::Read,
            Kind::Store => Access::Write,
            Kind::Prefetch => Access::Prefetch,
        }
    }
}

/// Fills the memory operand and all registers of a load or store. For scalable ones only the address is known.
pub(super) fn fill(word: Word, pc: u64, instr: &mut Instr) {
    match (word.bits(29, 28), word.bit(26)) {
        _ if word.bits(28, 25) == 0b0010 => scalable(word, instr),
        (0b00, true) => structures(word, instr),
        (0b00, false) => exclusive(word, instr),
        (0b01, _) if !word.bit(24) => literal(word, pc, instr),
        (0b01, _) => ordered_or_tags(word, instr),
        (0b10, _) => pair(word, instr),
        _ => single(word, instr),
    }
}

/// Returns the name in Arm's manuals and the access of a cache maintenance operation by address that user code may execute.
/// The architecture encodes them as system instructions; only the processor knows the sizes of its lines and blocks.
pub(super) fn cache_operation(word: Word) -> Option<(&'static str, Access)> {
    // sys #3, c7, cM, #op2, xT
    if !word.is(0xffff_f000, 0xd50b_7000) {
        return None;
    }
    Some(match (word.bits(11, 8), word.bits(7, 5)) {
        (4, 1) => ("dc zva", Access::Write),
        (4, 3) => ("dc gva", Access::Write),
        (4, 4) => ("dc gzva", Access::Write),
        (5, 1) => ("ic ivau", Access::Flush),
        (10, 1) => ("dc cvac", Access::Flush),
        (11, 1) => ("dc cvau", Access::Flush),
        (12, 1) => ("dc cvap", Access::Flush),
        (13, 1) => ("dc cvadp", Access::Flush),
        (14, 1) => ("dc civac", Access::Flush),
        _ => return None,
    })
}

/// Fills the memory operand of cache maintenance.
pub(super) fn fill_cache_operation(word: Word, instr: &mut Instr) {
    if let Some((_, access)) = cache_operation(word) {
        let base = general(word.reg(0));
        instr.push_mem(Mem { base, access, ..Mem::NONE });
        instr.reads.extend_one(base);
    }
}

/// Returns the general register with this number; `None` for the zero register.
fn general(number: u8) -> Option<Reg> {
    (number != ZERO).then_some(Reg(number))
}

/// Returns the base register of an address with this number: 31 is the stack pointer.
fn base(number: u8) -> Reg {
    if number == ZERO { Reg(A64_SP) } else { Reg(number) }
}

/// Returns the data register with this number in the general or the vector file.
fn data(number: u8, vector: bool) -> Option<Reg> {
    if vector { Some(Reg(A64_VEC + number)) } else { general(number) }
}

/// Adds the data register of an access: written by a load, read by a store.
fn transfer(instr: &mut Instr, kind: Kind, reg: Option<Reg>) {
    match kind {
        Kind::Load => instr.writes.extend_one(reg),
        Kind::Store => instr.reads.extend_one(reg),
        Kind::Prefetch => {}
    }
}

/// Adds a memory operand at `[base + disp]`, and the base to the registers read.
fn simple(word: Word, instr: &mut Instr, bytes: u32, disp: i64, access: Access) {
    let base = base(word.reg(5));
    instr.reads.insert(base);
    // At most four vectors of 16 bytes, or a 64-byte line.
    let bytes = bytes as u16;
    instr.push_mem(Mem { base: Some(base), disp, bytes, access, ..Mem::NONE });
}

/// Marks the base as written, because pre- or post-indexing changes it.
fn write_back(word: Word, instr: &mut Instr) {
    instr.writes.insert(base(word.reg(5)));
}

/// Exclusive and ordered accesses, compare-and-swap.
fn exclusive(word: Word, instr: &mut Instr) {
    let size = 1 << word.bits(31, 30);
    let (status, second, first) = (word.reg(16), word.reg(10), word.reg(0));
    let load = word.bit(22);
    let kind = if load { Kind::Load } else { Kind::Store };
    let swap_pair = |instr: &mut Instr| {
        for number in [status, status | 1] {
            instr.reads.extend_one(general(number));
            instr.writes.extend_one(general(number));
        }
        instr.reads.extend_one(general(first));
        instr.reads.extend_one(general(first | 1));
    };
    match (word.bit(23), word.bit(21)) {
        // casp: pairs of words or double words, chosen by bit 30.
        (false, true) if !word.bit(31) => {
            simple(word, instr, if word.bit(30) { 16 } else { 8 }, 0, Access::ReadWrite);
            swap_pair(instr);
        }
        (false, pair) => {
            simple(word, instr, if pair { 2 * size } else { size }, 0, kind.access());
            transfer(instr, kind, general(first));
            if pair {
                transfer(instr, kind, general(second));
            }
            if !load {
                instr.writes.extend_one(general(status));
            }
        }
        // cas
        (true, true) => {
            simple(word, instr, size, 0, Access::ReadWrite);
            instr.reads.extend_one(general(status));
            instr.writes.extend_one(general(status));
            instr.reads.extend_one(general(first));
        }
        // ldar, ldlar, stlr, stllr
        (true, false) => {
            simple(word, instr, size, 0, kind.access());
            transfer(instr, kind, general(first));
        }
    }
}

/// Advanced SIMD structures: ld1 … ld4, st1 … st4, whole registers, lanes or replicated.
fn structures(word: Word, instr: &mut Instr) {
    let kind = if word.bit(22) { Kind::Load } else { Kind::Store };
    let single = word.bit(24);
    let (registers, bytes, partial) = if single {
        let registers = 1 + (u32::from(word.bit(13)) << 1 | u32::from(word.bit(21)));
        let element = match (word.bits(15, 14), word.bits(11, 10)) {
            (0b00, _) => 1,
            (0b01, _) => 2,
            (0b10, size) if size & 1 == 0 => 4,
            (0b10, _) => 8,
            // Load and replicate to all lanes.
            (_, size) => 1 << size,
        };
        (registers, registers * element, word.bits(15, 14) != 0b11)
    } else {
        let registers = match word.bits(15, 12) {
            0b0000 | 0b0010 => 4,
            0b0100 | 0b0110 => 3,
            0b0111 => 1,
            _ => 2,
        };
        (registers, registers * if word.bit(30) { 16 } else { 8 }, false)
    };
    simple(word, instr, bytes, 0, kind.access());
    for i in 0..registers as u8 {
        let reg = data((word.reg(0) + i) % 32, true);
        transfer(instr, kind, reg);
        if kind == Kind::Load && partial {
            instr.reads.extend_one(reg);
        }
    }
    if word.bit(23) {
        write_back(word, instr);
        // Register 31 means that the base advances by the number of bytes accessed.
        instr.reads.extend_one(general(word.reg(16)));
    }
}

/// Loads of a constant relative to the pc.
fn literal(word: Word, pc: u64, instr: &mut Instr) {
    let vector = word.bit(26);
    let (kind, bytes) = match (word.bits(31, 30), vector) {
        (0b11, false) => (Kind::Prefetch, 1),
        (0b00, _) => (Kind::Load, 4),
        (0b01, _) => (Kind::Load, 8),
        // ldrsw
        (_, false) => (Kind::Load, 4),
        (_, true) => (Kind::Load, 16),
    };
    let disp = pc.wrapping_add_signed(word.signed(23, 5) * 4).cast_signed();
    instr.push_mem(Mem { disp, bytes, access: kind.access(), ..Mem::NONE });
    transfer(instr, kind, data(word.reg(0), vector));
}

/// Mixed encodings: ldapur and stlur, memory copies, 128-bit atomics, memory tags.
fn ordered_or_tags(word: Word, instr: &mut Instr) {
    let (size, opc, vector) = (word.bits(31, 30), word.bits(23, 22), word.bit(26));
    match (word.bit(21), word.bits(11, 10)) {
        (false, 0b01) => copy_or_set(word, instr),
        (false, _) => {
            let wide = vector && opc & 0b10 != 0;
            let kind = if opc == 0 || (wide && opc == 0b10) { Kind::Store } else { Kind::Load };
            simple(word, instr, if wide { 16 } else { 1 << size }, word.signed(20, 12), kind.access());
            transfer(instr, kind, data(word.reg(0), vector));
        }
        // ldclrp, ldsetp, swpp
        (true, 0b00) if size == 0 => {
            simple(word, instr, 16, 0, Access::ReadWrite);
            for number in [word.reg(0), word.reg(16)] {
                instr.reads.extend_one(general(number));
                instr.writes.extend_one(general(number));
            }
        }
        // stzg and stz2g also clear the granules that they tag.
        (true, 1..) if opc & 1 == 1 => simple(word, instr, 16 << (opc >> 1), 0, Access::Write),
        // Other tag operations touch no data: they depend on the address only.
        (true, _) => instr.reads.insert(base(word.reg(5))),
    }
}

/// cpy and set: a whole memory copy or fill, split into three instructions. Each processor chooses how many bytes each of
/// them moves.
fn copy_or_set(word: Word, instr: &mut Instr) {
    let (target, count, source) = (general(word.reg(0)), general(word.reg(5)), general(word.reg(16)));
    let fill = word.bits(23, 22) == 0b11;
    if !fill {
        instr.push_mem(Mem { base: source, access: Access::Read, ..Mem::NONE });
        instr.writes.extend_one(source);
    }
    instr.push_mem(Mem { base: target, access: Access::Write, ..Mem::NONE });
    for reg in [target, count] {
        instr.reads.extend_one(reg);
        instr.writes.extend_one(reg);
    }
    instr.reads.extend_one(source);
}

/// ldp, stp and their relatives.
fn pair(word: Word, instr: &mut Instr) {
    let vector = word.bit(26);
    let kind = if word.bit(22) { Kind::Load } else { Kind::Store };
    let bytes = match (word.bits(31, 30), vector) {
        (opc, true) => 4 << opc.min(2),
        (0b10, false) => 8,
        // ldp of words, ldpsw; stgp moves double words and has its offset in granules of 16.
        (0b01, false) if kind == Kind::Store => 8,
        _ => 4,
    };
    let granule = if word.is(0xc440_0000, 0x4000_0000) { 16 } else { i64::from(bytes) };
    let post = word.bits(24, 23) == 0b01;
    let disp = if post { 0 } else { word.signed(21, 15) * granule };
    simple(word, instr, 2 * bytes, disp, kind.access());
    transfer(instr, kind, data(word.reg(0), vector));
    transfer(instr, kind, data(word.reg(10), vector));
    if word.bit(23) {
        write_back(word, instr);
    }
}

/// Loads and stores of one register, and the atomic updates among them.
fn single(word: Word, instr: &mut Instr) {
    let (size, opc, vector) = (word.bits(31, 30), word.bits(23, 22), word.bit(26));
    let scale = if vector && opc & 0b10 != 0 { 4 } else { size };
    let bytes = 1 << scale.min(4);
    let kind = match (vector, size, opc) {
        (true, _, _) if opc & 1 == 0 => Kind::Store,
        (true, ..) => Kind::Load,
        (false, _, 0) => Kind::Store,
        (false, 0b11, 0b10) => Kind::Prefetch,
        _ => Kind::Load,
    };
    let bytes = if kind == Kind::Prefetch { 1 } else { bytes };
    let rt = data(word.reg(0), vector);
    if word.bit(24) {
        simple(word, instr, bytes, i64::from(word.bits(21, 10)) << scale.min(4), kind.access());
        transfer(instr, kind, rt);
        return;
    }
    match (word.bit(21), word.bits(11, 10)) {
        // Unscaled, post-indexed, unprivileged, pre-indexed.
        (false, mode) => {
            let disp = if mode == 0b01 { 0 } else { word.signed(20, 12) };
            simple(word, instr, bytes, disp, kind.access());
            transfer(instr, kind, rt);
            if mode & 1 == 1 {
                write_back(word, instr);
            }
        }
        (true, 0b00) => atomic(word, instr),
        (true, 0b10) => {
            let shift = if word.bit(12) { scale.min(4) } else { 0 };
            let (base, index) = (base(word.reg(5)), general(word.reg(16)));
            let (scale, bytes, access) = (1 << shift, bytes as u16, kind.access());
            instr.push_mem(Mem { base: Some(base), index, scale, bytes, access, ..Mem::NONE });
            instr.reads.insert(base);
            instr.reads.extend_one(index);
            transfer(instr, kind, rt);
        }
        // ldraa, ldrab: a ten-bit offset in double words, with its sign in bit 22.
        (true, _) => {
            let offset = (i64::from(word.bits(20, 12)) - if word.bit(22) { 512 } else { 0 }) * 8;
            simple(word, instr, 8, offset, Access::Read);
            transfer(instr, Kind::Load, rt);
            if word.bit(11) {
                write_back(word, instr);
            }
        }
    }
}

/// Atomic updates, and the loads and stores in the same encoding space.
fn atomic(word: Word, instr: &mut Instr) {
    let bytes = 1 << word.bits(31, 30);
    let (source, target) = (general(word.reg(16)), general(word.reg(0)));
    match (word.bit(15), word.bits(14, 12)) {
        // ldapr
        (true, 0b100) => {
            simple(word, instr, bytes, 0, Access::Read);
            instr.writes.extend_one(target);
        }
        // st64b, st64bv0, st64bv, ld64b: eight registers from the first.
        (true, opcode @ (0b001 | 0b010 | 0b011 | 0b101)) => {
            let kind = if opcode == 0b101 { Kind::Load } else { Kind::Store };
            simple(word, instr, 64, 0, kind.access());
            (0..8).for_each(|i| transfer(instr, kind, general((word.reg(0) + i) % 32)));
        }
        _ => {
            simple(word, instr, bytes, 0, Access::ReadWrite);
            instr.reads.extend_one(source);
            instr.writes.extend_one(target);
        }
    }
}

/// SVE: only direction and base. The size depends on the vector length, and the offset is a multiple of it.
fn scalable(word: Word, instr: &mut Instr) {
    let kind = match word.bits(31, 29) {
        0b100..=0b110 => Kind::Load,
        0b111 => Kind::Store,
        _ => return,
    };
    simple(word, instr, 0, 0, kind.access());
}

/// Inserts a register unless it is the zero register (`None`).
trait ExtendOne {
    fn extend_one(&mut self, reg: Option<Reg>);
}

impl ExtendOne for crate::RegSet {
    fn extend_one(&mut self, reg: Option<Reg>) {
        if let Some(reg) = reg {
            self.insert(reg);
        }
    }
}
