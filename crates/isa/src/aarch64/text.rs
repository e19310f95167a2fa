//! AArch64 disassembly: yaxpeax-arm's text, with branch targets and literals as absolute addresses.

use std::fmt::Write as _;

use super::memory::cache_operation;
use super::{Group, Word, ZERO, name};

/// Appends the disassembly; returns false if the bytes are not an instruction.
pub(crate) fn text(pc: u64, bytes: &[u8], out: &mut String) -> bool {
    let Ok(word) = Word::from_bytes(bytes) else { return false };
    if let Some((name, _)) = cache_operation(word) {
        _ = match word.reg(0) {
            ZERO => write!(out, "{name}, xzr"),
            number => write!(out, "{name}, x{number}"),
        };
        return true;
    }
    let Some(named) = name(word) else {
        let known = word.group() != Group::Reserved;
        if known {
            _ = write!(out, ".inst {:#010x}", word.0);
        }
        return known;
    };
    let start = out.len();
    _ = write!(out, "{named}");
    make_absolute(pc, word, start, out);
    true
}

/// Replaces a pc-relative offset, which yaxpeax-arm writes `$+0x8` or `$-0x8`, by the address.
fn make_absolute(pc: u64, word: Word, start: usize, out: &mut String) {
    let Some(at) = out[start..].find('$').map(|at| start + at) else { return };
    let Some(digits) = out.get(at + 2..).and_then(|rest| rest.strip_prefix("0x")) else { return };
    let len = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    let Ok(offset) = u64::from_str_radix(&digits[..len], 16) else { return };
    // adrp counts from the start of the page.
    let pc = if word.is(0x9f00_0000, 0x9000_0000) { pc & !0xfff } else { pc };
    let address =
        if out[at + 1..].starts_with('-') { pc.wrapping_sub(offset) } else { pc.wrapping_add(offset) };
    out.replace_range(at..at + 4 + len, &format!("{address:#x}"));
}
