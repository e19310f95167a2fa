//! Values as `trace()` prints them, and hexadecimal dumps.
//!
//! SPEC: dtrace.md#text-of-records

use crate::bytes::ByteOrder;
use crate::describe::{Capture, Dialect, Rec};
use crate::options::Settings;
use crate::put::{self, Digits};
use crate::quirks::{Quirks, Which};

/// Width of a string in columns.
const STRING_WIDTH: usize = 33;

/// Width of a string in the key of an aggregation, and of symbols, in columns.
pub(crate) const KEY_WIDTH: usize = 50;

/// Form in which a value of these bytes is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bytes<'b> {
    /// A string, followed only by zeros.
    String(&'b [u8]),
    /// Printable up to the last byte.
    Unended(&'b [u8]),
    /// Neither of these.
    Raw,
}

/// Determines the form of some bytes.
pub(crate) fn kind_of(bytes: &[u8]) -> Bytes<'_> {
    let is_printable = |byte: &u8| matches!(byte, b' '..=b'~' | 7..=13);
    let n = bytes.iter().take_while(|byte| is_printable(byte)).count();
    if n == bytes.len() {
        return if n == 0 { Bytes::Raw } else { Bytes::Unended(bytes) };
    }
    let rest = &bytes[n..];
    if n > 0 && rest.iter().all(|byte| *byte == 0) { Bytes::String(&bytes[..n]) } else { Bytes::Raw }
}

/// Prints a value of `trace()`.
pub(crate) fn trace(
    capture: &Capture,
    settings: &Settings,
    quirks: Quirks,
    rec: &Rec,
    bytes: &[u8],
    out: &mut Vec<u8>,
) {
    if capture.dialect == Dialect::Linux {
        return linux(capture.order, settings, rec, bytes, out);
    }
    // QUIRK: small numbers are printed unsigned, large ones signed, whatever the script says.
    let quirk = if bytes.len() >= 4 { Which::SignedLarge } else { Which::UnsignedSmall };
    let is_signed = rec.signed.filter(|_| !quirks.has(quirk)).unwrap_or(bytes.len() >= 4);
    let width = match bytes.len() {
        1 => 3,
        2 => 5,
        4 => 8,
        8 => 16,
        _ => return untyped(settings, quirks, bytes, out),
    };
    let width = if settings.quiet {
        0
    } else {
        out.push(b' ');
        width
    };
    match is_signed {
        true => put::signed(out, capture.order.signed(bytes), width),
        false => put::unsigned(out, capture.order.number(bytes), width),
    }
}

fn untyped(settings: &Settings, quirks: Quirks, bytes: &[u8], out: &mut Vec<u8>) {
    if bytes.is_empty() {
        return;
    }
    match kind_of(bytes) {
        _ if settings.rawbytes => dump(bytes, out),
        Bytes::String(text) if settings.quiet => out.extend_from_slice(text),
        // QUIRK: bytes that are printable to the last are padded even in quiet mode.
        Bytes::Unended(text) if settings.quiet && !quirks.has(Which::PaddedBytes) => {
            out.extend_from_slice(text)
        }
        Bytes::String(text) | Bytes::Unended(text) => {
            out.extend_from_slice(b"  ");
            put::left(out, text, STRING_WIDTH);
        }
        Bytes::Raw => dump(bytes, out),
    }
}

/// Bit of `arg` in records of Linux: the value is the data that an address points to.
const BY_REFERENCE: u64 = 4;

fn linux(order: ByteOrder, settings: &Settings, rec: &Rec, bytes: &[u8], out: &mut Vec<u8>) {
    if settings.rawbytes {
        return dump(bytes, out);
    }
    let is_signed = rec.signed.unwrap_or(rec.arg & 1 == 1);
    let widths = match bytes.len() {
        _ if rec.arg & BY_REFERENCE != 0 => None,
        1 => Some((3, 3)),
        2 => Some((5, 5)),
        4 => Some((10, 10)),
        8 => Some((19, 20)),
        _ => None,
    };
    let Some((of_signed, of_unsigned)) = widths else {
        if rec.alignment != 1 {
            return dump(bytes, out);
        }
        let text = crate::bytes::until_nul(bytes);
        if settings.quiet {
            return out.extend_from_slice(text);
        }
        out.extend_from_slice(b"  ");
        return put::left(out, text, STRING_WIDTH);
    };
    let width = if is_signed { of_signed } else { of_unsigned };
    let width = if settings.quiet {
        0
    } else {
        out.push(b' ');
        width
    };
    match is_signed {
        true => put::signed(out, order.signed(bytes), width),
        false => put::unsigned(out, order.number(bytes), width),
    }
}

/// Appends a dump of bytes in hexadecimal and as characters, 16 per line.
pub(crate) fn dump(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'\n');
    put::fill(out, b' ', 11);
    for digit in b"0123456789abcdef" {
        out.extend_from_slice(b"  ");
        out.push(*digit);
    }
    out.extend_from_slice(b"  0123456789abcdef\n");
    for (line, part) in bytes.chunks(16).enumerate() {
        put::fill(out, b' ', 5);
        put::right(out, Digits::power(line as u64 * 16, 4, false).as_slice(), 5);
        out.push(b':');
        for at in 0..16 {
            match part.get(at) {
                None => put::fill(out, b' ', 3),
                Some(byte) => {
                    let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
                    out.extend_from_slice(&[b' ', digit(byte >> 4), digit(byte & 15)]);
                }
            }
        }
        out.extend_from_slice(b"  ");
        out.extend(part.iter().map(|byte| if matches!(byte, b' '..=b'~') { *byte } else { b'.' }));
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_strings_only_with_zeros_to_the_end() {
        assert_eq!(kind_of(b"hello\0\0"), Bytes::String(b"hello"));
        assert_eq!(kind_of(b"abc\0xyz\0"), Bytes::Raw);
        assert_eq!(kind_of(b"no nul"), Bytes::Unended(b"no nul"));
        assert_eq!(kind_of(b"\0\0"), Bytes::Raw);
        assert_eq!(kind_of(b"bell\x07\x08\0"), Bytes::String(b"bell\x07\x08"));
        assert_eq!(kind_of(b""), Bytes::Raw);
    }
}
