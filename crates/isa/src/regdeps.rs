//! REGDEPS: drmemtrace's synthetic instructions, which keep dependencies and hide what was executed.
//!
//! SPEC: docs/formats/drmemtrace.md, *REGDEPS encodings* and *view*.
//!
//! ```text
//!  0                   4       5                                    padded to 4·n, at most 36
//!  +-------------------+-------+-----------------+----------------+---------+
//!  | u32 header, LE    | size  | destination ids | source ids     | padding |
//!  +-------------------+-------+-----------------+----------------+---------+
//!   header: 0–3 destinations · 4–7 sources · 8 writes flags · 9 reads flags · 10–31 categories
//! ```
//!
//! Without any register the header stands alone. Encodings from real programs have at most 16 bytes; the counts
//! allow 36, which is accepted.

use std::fmt::Write as _;

use crate::{Categories, Class, DecodeError, Instr, Opcode, Reg};

const HEADER_BYTES: usize = 4;

/// The parts of an encoding, borrowed from it.
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

/// Appends the text that drmemtrace's viewer prints after the words of the encoding; false if undecodable.
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

/// Bytes for an operation-size code, `None` for codes without a known meaning.
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
        // 36, 44, 48 … 60 and 64 … 104: the multiples of four that no older code has.
        58 => 36,
        59..=63 => 44 + 4 * (u16::from(code) - 59),
        64..=74 => 64 + 4 * (u16::from(code) - 64),
        75..=79 => 112 + 4 * (u16::from(code) - 75),
        _ => return None,
    };
    Some(bytes)
}
