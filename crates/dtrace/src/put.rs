//! Appends text without allocations: numbers and strings, padded like C's `printf`.

/// Appends `n` times the same byte.
#[inline]
pub fn fill(out: &mut Vec<u8>, byte: u8, n: usize) {
    out.resize(out.len() + n, byte);
}

/// Appends text, right-justified.
#[inline]
pub fn right(out: &mut Vec<u8>, text: &[u8], width: usize) {
    fill(out, b' ', width.saturating_sub(text.len()));
    out.extend_from_slice(text);
}

/// Appends text, left-justified.
#[inline]
pub fn left(out: &mut Vec<u8>, text: &[u8], width: usize) {
    out.extend_from_slice(text);
    fill(out, b' ', width.saturating_sub(text.len()));
}

/// Pads the text appended since `start` with blanks to a width.
#[inline]
pub fn widen(out: &mut Vec<u8>, start: usize, width: usize) {
    let width = width.saturating_sub(out.len() - start);
    fill(out, b' ', width);
}

/// Right-justifies the text appended since `start`.
pub fn shift(out: &mut Vec<u8>, start: usize, width: usize) {
    let missing = width.saturating_sub(out.len() - start);
    fill(out, b' ', missing);
    out[start..].rotate_right(missing);
}

/// The digits of a number, in a fixed-size buffer.
#[derive(Clone, Copy)]
pub struct Digits {
    bytes: [u8; 24],
    start: usize,
}

impl Digits {
    /// Formats a number in decimal.
    #[inline]
    pub fn decimal(mut value: u64) -> Digits {
        let mut digits = Digits { bytes: [b'0'; 24], start: 24 };
        loop {
            digits.start -= 1;
            digits.bytes[digits.start] = b'0' + (value % 10) as u8; // A digit.
            value /= 10;
            if value == 0 {
                return digits;
            }
        }
    }

    /// Formats a number in base 8 or 16; `bits` is the number of bits per digit.
    #[inline]
    pub fn power(mut value: u64, bits: u32, is_upper: bool) -> Digits {
        let letters: &[u8; 16] = if is_upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
        let mut digits = Digits { bytes: [b'0'; 24], start: 24 };
        loop {
            digits.start -= 1;
            digits.bytes[digits.start] = letters[(value & ((1 << bits) - 1)) as usize];
            value >>= bits;
            if value == 0 {
                return digits;
            }
        }
    }

    /// The digits as bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// Appends `0x` and hexadecimal digits.
pub fn hex(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(b"0x");
    out.extend_from_slice(Digits::power(value, 4, false).as_slice());
}

/// Appends a signed number, right-justified.
#[inline]
pub fn signed(out: &mut Vec<u8>, value: i64, width: usize) {
    let digits = Digits::decimal(value.unsigned_abs());
    let is_negative = value < 0;
    fill(out, b' ', width.saturating_sub(digits.as_slice().len() + usize::from(is_negative)));
    if is_negative {
        out.push(b'-');
    }
    out.extend_from_slice(digits.as_slice());
}

/// Appends an unsigned number, right-justified.
#[inline]
pub fn unsigned(out: &mut Vec<u8>, value: u64, width: usize) {
    right(out, Digits::decimal(value).as_slice(), width);
}

/// Appends a signed number, left-justified.
#[inline]
pub fn signed_left(out: &mut Vec<u8>, value: i64, width: usize) {
    let start = out.len();
    signed(out, value, 0);
    widen(out, start, width);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_padded_as_printf_does() {
        let mut out = Vec::new();
        signed(&mut out, -5, 4);
        unsigned(&mut out, 70, 3);
        signed_left(&mut out, i64::MIN, 22);
        hex(&mut out, 0xdead);
        assert_eq!(String::from_utf8(out).unwrap(), "  -5 70-9223372036854775808  0xdead");
        let mut out = b"ab".to_vec();
        shift(&mut out, 1, 3);
        assert_eq!(out, b"a  b");
    }
}
