//! Prints strings, numbers and colours in the format of `apitrace dump`.

use quipu_model::Paint;

/// Escape sequences for the colours of each sort of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink {
    /// After any of the others.
    pub normal: &'static [u8],
    /// Before names of functions.
    pub bold: &'static [u8],
    /// Before errors.
    pub red: &'static [u8],
    /// Before addresses and raw memory.
    pub green: &'static [u8],
    /// Before literals.
    pub blue: &'static [u8],
}

impl Ink {
    /// No colour.
    pub const PLAIN: Ink = Ink { normal: b"", bold: b"", red: b"", green: b"", blue: b"" };

    /// apitrace's colours, in the form of `paint`.
    pub fn of(paint: &Paint) -> Ink {
        Ink {
            normal: paint.reset.as_bytes(),
            bold: paint.bold.as_bytes(),
            red: paint.fault.as_bytes(),
            green: paint.code.as_bytes(),
            blue: paint.literal.as_bytes(),
        }
    }
}

/// The escapes for strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escapes {
    /// apitrace's: the string ends at the first NUL, and control characters and bytes that are not ASCII are garbled.
    Dump {
        /// Whether ends of lines are escaped too.
        in_one_line: bool,
    },
    /// The whole string: UTF-8 unchanged, other bytes as `\xHH`, ends of lines escaped.
    Whole,
}

/// Appends a number in decimal.
#[inline]
pub fn decimal(number: u64, out: &mut Vec<u8>) {
    if number < 100_000_000 {
        let digits = eight_digits(number as u32); // Below 2^27.
        let n_zeros = (digits.trailing_zeros() / 8).min(7);
        let text = ((digits | ASCII) >> (8 * n_zeros)).to_le_bytes();
        return push_short(text, 8 - n_zeros as usize, out); // At most 7.
    }
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a signed number in decimal.
pub fn signed(number: i64, out: &mut Vec<u8>) {
    if number < 0 {
        out.push(b'-');
    }
    decimal(number.unsigned_abs(), out);
}

/// Appends the hex digits of a number, without `0x`.
pub fn hex(number: u64, out: &mut Vec<u8>) {
    let n_digits = (67 - (number | 1).leading_zeros() as usize) / 4;
    let first = number << (64 - 4 * n_digits); // At least one digit.
    let mut text = [0; 16];
    for (i, digit) in text.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(first >> (60 - 4 * i) & 15) as usize];
    }
    push_short(text, n_digits, out);
}

/// Added to eight digits, turns them into ASCII.
pub(super) const ASCII: u64 = 0x3030_3030_3030_3030;

/// The last eight digits of a number, the first in the lowest byte. All are computed at once: two halves, four pairs, eight
/// digits.
#[inline]
pub(super) fn eight_digits(number: u32) -> u64 {
    let halves = u64::from(number / 10_000 % 10_000) | u64::from(number % 10_000) << 32;
    let hundreds = (halves * 10_486) >> 20 & 0x0000_007f_0000_007f;
    let pairs = hundreds | (halves - hundreds * 100) << 16;
    let tens = (pairs * 103) >> 10 & 0x000f_000f_000f_000f;
    tens | (pairs - tens * 10) << 8
}

/// Appends the first bytes of an array. PERF: copying all and truncating is faster than copying some (`view`).
#[inline]
pub(super) fn push_short<const N: usize>(text: [u8; N], n_bytes: usize, out: &mut Vec<u8>) {
    let before = out.len();
    out.extend_from_slice(&text);
    out.truncate(before + n_bytes);
}

/// Appends a string in quotes.
pub fn string(bytes: &[u8], escapes: Escapes, ink: &Ink, out: &mut Vec<u8>) {
    out.extend_from_slice(ink.blue);
    out.push(b'"');
    match escapes {
        Escapes::Dump { in_one_line } => {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            let mut rest = &bytes[..end];
            while let Some(&byte) = rest.first() {
                let n_plain = rest.iter().take_while(|byte| is_plain(**byte)).count();
                if n_plain > 0 {
                    out.extend_from_slice(&rest[..n_plain]);
                    rest = &rest[n_plain..];
                    continue;
                }
                dump_unit(byte.into(), in_one_line, ink, out);
                rest = &rest[1..];
            }
        }
        Escapes::Whole => {
            for chunk in bytes.utf8_chunks() {
                chunk.valid().chars().for_each(|unit| whole_unit(unit, out));
                for byte in chunk.invalid() {
                    out.extend_from_slice(b"\\x");
                    hex_byte(*byte, out);
                }
            }
        }
    }
    out.push(b'"');
    out.extend_from_slice(ink.normal);
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x20..=0x7e | b'\t') && byte != b'"' && byte != b'\\'
}

/// Appends a string of wide characters, given as 32 bits each.
pub fn wide(bytes: &[u8], escapes: Escapes, ink: &Ink, out: &mut Vec<u8>) {
    out.extend_from_slice(ink.blue);
    out.push(b'L');
    out.extend_from_slice(ink.blue);
    out.push(b'"');
    let units = bytes.as_chunks::<4>().0.iter().map(|unit| u32::from_le_bytes(*unit));
    match escapes {
        Escapes::Dump { in_one_line } => {
            units.take_while(|unit| *unit != 0).for_each(|unit| dump_unit(unit, in_one_line, ink, out));
        }
        Escapes::Whole => {
            // Windows writes UTF-16 units with surrogate pairs, Linux code points.
            let units: Vec<u32> = units.collect();
            let mut at = 0;
            while let Some(&unit) = units.get(at) {
                let low = units.get(at + 1).copied().filter(|low| (0xdc00..0xe000).contains(low));
                let code = match low {
                    Some(low) if (0xd800..0xdc00).contains(&unit) => {
                        at += 1;
                        0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00)
                    }
                    _ => unit,
                };
                match char::from_u32(code) {
                    Some(unit) => whole_unit(unit, out),
                    None => out.extend_from_slice(format!("\\u{{{code:x}}}").as_bytes()),
                }
                at += 1;
            }
        }
    }
    out.push(b'"');
    out.extend_from_slice(ink.normal);
}

/// QUIRK: apitrace's wrong octal escapes, which cannot be read back; the golden files contain them.
fn dump_unit(unit: u32, in_one_line: bool, ink: &Ink, out: &mut Vec<u8>) {
    match unit {
        0x22 => out.extend_from_slice(b"\\\""),
        0x5c => out.extend_from_slice(b"\\\\"),
        0x20..=0x7e | 9 => out.push(unit as u8), // ASCII.
        13 => {}
        10 if in_one_line => out.extend_from_slice(b"\\n"),
        10 => {
            out.extend_from_slice(ink.normal);
            out.push(b'\n');
            out.extend_from_slice(ink.blue);
        }
        _ => {
            let digit = |bits: u32| b'0' + (bits & 7) as u8; // Three bits.
            let (high, low) = (digit(unit >> 3), digit(unit));
            out.push(b'\\');
            if high != b'0' {
                out.extend_from_slice(&[high, high]);
            }
            out.push(low);
        }
    }
}

/// Appends a character of a string, escaped if it is special or a control character.
pub(crate) fn whole_unit(unit: char, out: &mut Vec<u8>) {
    match unit {
        '"' => out.extend_from_slice(b"\\\""),
        '\\' => out.extend_from_slice(b"\\\\"),
        '\n' => out.extend_from_slice(b"\\n"),
        '\r' => out.extend_from_slice(b"\\r"),
        '\t' => out.extend_from_slice(b"\\t"),
        '\0'..' ' | '\x7f' => {
            out.extend_from_slice(b"\\x");
            hex_byte(unit as u8, out); // ASCII.
        }
        _ => out.extend_from_slice(unit.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// Appends a byte as two hex digits.
pub fn hex_byte(byte: u8, out: &mut Vec<u8>) {
    out.push(b"0123456789abcdef"[usize::from(byte >> 4)]);
    out.push(b"0123456789abcdef"[usize::from(byte & 15)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8], escapes: Escapes) -> String {
        let mut out = Vec::new();
        string(bytes, escapes, &Ink::PLAIN, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn escapes_are_those_of_the_original() {
        let dump = Escapes::Dump { in_one_line: false };
        assert_eq!(shown(b"a\"b\\c\td\re\nf", dump), "\"a\\\"b\\\\c\tde\nf\"");
        assert_eq!(shown(b"\x07\x08\x1b\x7f", dump), "\"\\7\\110\\333\\777\"");
        assert_eq!(shown("\u{e9}".as_bytes(), dump), "\"\\3\\551\"");
        assert_eq!(shown(b"cut\0off", dump), "\"cut\"");
        assert_eq!(shown(b"a\nb", Escapes::Dump { in_one_line: true }), "\"a\\nb\"");
        let mut out = Vec::new();
        wide(&0x4e2du32.to_le_bytes(), dump, &Ink::PLAIN, &mut out);
        assert_eq!(out, b"L\"\\555\"");
    }

    #[test]
    fn whole_strings_lose_nothing() {
        assert_eq!(shown("a\0\u{e9}\n\"".as_bytes(), Escapes::Whole), "\"a\\x00\u{e9}\\n\\\"\"");
        assert_eq!(shown(b"\xff\x1b", Escapes::Whole), "\"\\xff\\x1b\"");
    }

    #[test]
    fn hex_has_the_digits_that_the_number_needs() {
        for number in [0, 1, 0xf, 0x10, 0xabc, u64::MAX] {
            let mut out = Vec::new();
            hex(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{number:x}"));
        }
    }
}
