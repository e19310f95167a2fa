//! REGDEPS: drmemtrace's synthetic instructions, which keep dependencies and hide the real operations.
//!
//! SPEC: drmemtrace.md#regdeps-encodings, drmemtrace.md#view.
//!
//! ```text
//!  0                   4       5                                    padded to 4·n, at most 36
//!  +-------------------+-------+-----------------+----------------+---------+
//!  | u32 header, LE    | size  | destination ids | source ids     | padding |
//!  +-------------------+-------+-----------------+----------------+---------+
//!   header: 0–3 destinations · 4–7 sources · 8 writes flags · 9 reads flags · 10–31 categories
//! ```
//!
//! Without any register, the encoding is the header alone. Encodings from real programs have at most 16 bytes; the counts
//! allow 36, which is accepted.

use std::fmt::Write as _;

use crate::{
    Arch, Categories, Class, DecodeError, Decoder, Instr, Opcode, Operation, Reg, RegSet, Syntax, Work,
};

const HEADER_BYTES: usize = 4;

/// The fields of an encoding, borrowed from its bytes.
struct Parts<'a> {
    len: u8,
    header: u32,
    operation_size: Option<u8>,
    destinations: &'a [u8],
    sources: &'a [u8],
}

impl Parts<'_> {
    fn categories(&self) -> Categories {
        // The upper bits have no published meaning; the named ones fit 16 bits.
        Categories::from_bits((self.header >> 10 & 0xffff) as u16)
    }
}

/// Decodes one synthetic instruction.
pub(crate) fn decode(bytes: &[u8]) -> Result<Instr, DecodeError> {
    let parts = split(bytes)?;
    let mut instr = Instr::new(parts.len, Opcode::new("undecoded"));
    instr.categories = parts.categories();
    instr.class =
        if instr.categories.contains(Categories::BRANCH) { Class::UnknownBranch } else { Class::Other };
    instr.writes = parts.destinations.iter().copied().map(Reg).collect();
    instr.reads = parts.sources.iter().copied().map(Reg).collect();
    instr.writes_flags = parts.header >> 8 & 1 == 1;
    instr.reads_flags = parts.header >> 9 & 1 == 1;
    instr.operation_bytes = parts.operation_size.and_then(operation_bytes);
    Ok(instr)
}

/// Returns the computation as far as the categories, the size and the registers still show it. The kind of arithmetic is
/// hidden, and so are constants: an operation on a register and a constant takes one value here. The size is that of the
/// largest source.
///
/// Vector instructions that load or store are taken for plain moves unless they count as arithmetic. Instructions without a
/// category are those that DynamoRIO does not classify, such as `sbb`, `set` and `cdq`: they compute if they turn registers
/// or flags into others.
pub(crate) fn work(instr: &Instr, bytes: &[u8]) -> Option<Work> {
    let n_sources = split(bytes).ok()?.sources.len();
    const NOTHING: [Categories; 3] = [Categories::BRANCH, Categories::STATE, Categories::OTHER];
    let is = |category| instr.categories.contains(category);
    let has_memory = is(Categories::LOAD) || is(Categories::STORE);
    let operation = if NOTHING.into_iter().any(is) {
        return None;
    } else if is(Categories::MATH) {
        Operation::Other
    } else if is(Categories::CONVERT) || is(Categories::MOVE) && !has_memory {
        Operation::Move
    } else if has_memory || instr.writes.is_empty() && instr.reads.is_empty() {
        return None;
    } else {
        Operation::Other
    };
    Some(Work {
        operation,
        is_float: is(Categories::FP),
        bytes: instr.operation_bytes.unwrap_or(0),
        arity: n_sources.clamp(1, 4) as u8,
    })
}

/// Appends the text that drmemtrace's viewer prints after the words of the encoding; returns false if they are undecodable.
pub(crate) fn text(bytes: &[u8], out: &mut String) -> bool {
    let Ok(parts) = split(bytes) else { return false };
    for name in parts.categories().names() {
        out.push_str(name);
        out.push(' ');
    }
    // A register list always follows a size; without one, or with size 0, the column stays narrow.
    match parts.operation_size.map(|code| (code, operation_bytes(code))) {
        None | Some((_, Some(0))) => {}
        Some((_, Some(bytes))) => _ = write!(out, "[{bytes}byte]"),
        Some((code, None)) => _ = write!(out, "[size code {code}]"),
    }
    if parts.operation_size.is_none() {
        return true;
    }
    out.push_str("       ");
    let list = |ids: &[u8], out: &mut String| {
        for (i, &id) in ids.iter().enumerate() {
            let gap = if i == 0 { "" } else { " " };
            _ = write!(out, "{gap}%{}", Reg(id).name(crate::Arch::Regdeps));
        }
    };
    list(parts.sources, out);
    if !parts.destinations.is_empty() {
        out.push_str(" -> ");
        list(parts.destinations, out);
    }
    true
}

fn split(bytes: &[u8]) -> Result<Parts<'_>, DecodeError> {
    let header = bytes.first_chunk::<HEADER_BYTES>().ok_or(DecodeError::Truncated)?;
    let header = u32::from_le_bytes(*header);
    let n_destinations = (header & 0xf) as usize;
    let n_sources = (header >> 4 & 0xf) as usize;
    let n_registers = n_destinations + n_sources;
    if n_registers == 0 {
        return Ok(Parts { len: 4, header, operation_size: None, destinations: &[], sources: &[] });
    }
    let len = (HEADER_BYTES + 1 + n_registers).next_multiple_of(4);
    let body = bytes.get(HEADER_BYTES..len).ok_or(DecodeError::Truncated)?;
    let (size, ids) = body.split_first().ok_or(DecodeError::Truncated)?;
    let (destinations, rest) = ids.split_at(n_destinations);
    // At most 4 + 1 + 30, rounded up to 36.
    let len = len as u8;
    Ok(Parts { len, header, operation_size: Some(*size), destinations, sources: &rest[..n_sources] })
}

/// Returns the bytes of an operation-size code, `None` for codes without a known meaning.
fn operation_bytes(code: u8) -> Option<u16> {
    let bytes = match code {
        1 => 0,
        2 => 1,
        3 => 2,
        4 => 4,
        5 => 6,
        6 => 8,
        7 => 10,
        8 => 16,
        9 => 14,
        10 => 28,
        11 => 94,
        12 => 108,
        13 => 512,
        32 => 12,
        33 => 32,
        34 => 40,
        40 => 15,
        41 => 3,
        56 => 20,
        57 => 24,
        // 36, 44, 48 … 60 and 64 … 104: the multiples of four that have no older code.
        58 => 36,
        59..=63 => 44 + 4 * (u16::from(code) - 59),
        64..=74 => 64 + 4 * (u16::from(code) - 64),
        75..=79 => 112 + 4 * (u16::from(code) - 75),
        _ => return None,
    };
    Some(bytes)
}

/// Bytes of the longest encoding that [`Encoder`] produces.
pub const MAX_BYTES: usize = 36;

/// Registers and sizes of an instruction's operands, gathered by the decoder of its architecture.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Operands {
    writes: RegSet,
    reads: RegSet,
    /// Bytes of the largest source.
    source_bytes: usize,
    /// Categories in addition to those of the instruction.
    categories: Categories,
    /// Whether arithmetic flags are read, in addition to the instruction's own use of them.
    reads_flags: bool,
}

impl Operands {
    pub(crate) fn write(&mut self, register: Option<u8>) {
        register.into_iter().for_each(|id| self.writes.insert(Reg(id)));
    }

    pub(crate) fn read(&mut self, register: Option<u8>, bytes: usize) {
        if let Some(id) = register {
            self.reads.insert(Reg(id));
            self.source(bytes);
        }
    }

    pub(crate) fn category(&mut self, categories: Categories) {
        self.categories |= categories;
    }

    pub(crate) fn read_flags(&mut self) {
        self.reads_flags = true;
    }

    pub(crate) fn source(&mut self, bytes: usize) {
        self.source_bytes = self.source_bytes.max(bytes);
    }
}

/// Converts real instructions to synthetic encodings.
pub struct Encoder(Decoder);

impl Encoder {
    /// Returns an encoder for the instructions of `arch`; `None` if `arch` has no decoder, or is REGDEPS itself.
    pub fn new(arch: Arch) -> Option<Encoder> {
        let decoder = Decoder::new(arch, Syntax::Att).ok()?;
        (arch != Arch::Regdeps).then_some(Encoder(decoder))
    }

    /// Writes the synthetic encoding of the instruction at `pc` to the front of `out`, and returns its length. Bytes that
    /// cannot be decoded give an encoding without registers and categories.
    pub fn encode(&mut self, pc: u64, bytes: &[u8], out: &mut [u8; MAX_BYTES]) -> usize {
        *out = [0; MAX_BYTES];
        let Ok(instr) = self.0.decode(pc, bytes) else { return HEADER_BYTES };
        let Ok(operands) = self.0.operands(&instr, pc, bytes) else { return HEADER_BYTES };
        // Each count has four bits; no real instruction has more registers of a kind.
        let n_writes = operands.writes.len().min(15);
        let n_reads = operands.reads.len().min(15);
        let header = n_writes as u32
            | (n_reads as u32) << 4
            | u32::from(instr.writes_flags) << 8
            | u32::from(instr.reads_flags || operands.reads_flags) << 9
            | u32::from((instr.categories | operands.categories).bits()) << 10;
        out[..HEADER_BYTES].copy_from_slice(&header.to_le_bytes());
        if n_writes + n_reads == 0 {
            return HEADER_BYTES;
        }
        out[HEADER_BYTES] = size_code(operands.source_bytes);
        let ids = operands.writes.iter().take(n_writes).chain(operands.reads.iter().take(n_reads));
        for (slot, reg) in out[HEADER_BYTES + 1..].iter_mut().zip(ids) {
            *slot = reg.0;
        }
        (HEADER_BYTES + 1 + n_writes + n_reads).next_multiple_of(4)
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Encoder").field(&self.0).finish()
    }
}

/// Returns the code for a size, or for the next larger size that has a code.
fn size_code(bytes: usize) -> u8 {
    let fits = |code: &u8| operation_bytes(*code).is_some_and(|size| usize::from(size) >= bytes);
    (1..=79).filter(fits).min_by_key(|code| operation_bytes(*code)).unwrap_or(13)
}
