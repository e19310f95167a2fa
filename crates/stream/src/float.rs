//! Formats floating-point numbers like C's `%e`, `%f` and `%g`.

use std::io::Write as _;

/// Digits after the point if the format gives no precision.
const DEFAULT_PRECISION: usize = 6;

/// Upper limit on the precision, so that hostile formats cannot make huge texts.
const MAX_PRECISION: usize = 512;

/// Appends the digits of a number without its sign: `letter` is one of `e`, `E`, `f`, `g`, `G`.
pub fn digits(out: &mut Vec<u8>, value: f64, letter: u8, precision: Option<usize>, is_alternate: bool) {
    let value = value.abs();
    let start = out.len();
    let precision = precision.unwrap_or(DEFAULT_PRECISION).min(MAX_PRECISION);
    if !value.is_finite() {
        out.extend_from_slice(if value.is_nan() { b"nan" } else { b"inf" });
    } else {
        match letter.to_ascii_lowercase() {
            b'f' => fixed(out, value, precision, is_alternate),
            b'e' => scientific(out, value, precision, is_alternate),
            _ => shortest(out, value, precision.max(1), is_alternate),
        }
    }
    if letter.is_ascii_uppercase() {
        out[start..].make_ascii_uppercase();
    }
}

// Writing to a vector cannot fail.
fn fixed(out: &mut Vec<u8>, value: f64, precision: usize, is_alternate: bool) {
    let _ = write!(out, "{value:.precision$}");
    if is_alternate && precision == 0 {
        out.push(b'.');
    }
}

fn scientific(out: &mut Vec<u8>, value: f64, precision: usize, is_alternate: bool) {
    let start = out.len();
    let _ = write!(out, "{value:.precision$e}");
    let mark = out[start..].iter().rposition(|byte| *byte == b'e').map_or(out.len(), |at| start + at);
    let exponent = exponent_at(&out[mark..]);
    out.truncate(mark);
    if is_alternate && precision == 0 {
        out.push(b'.');
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let _ = write!(out, "e{sign}{:02}", exponent.unsigned_abs());
}

/// The exponent in a text like `e-7`.
fn exponent_at(text: &[u8]) -> i32 {
    let digits = text.get(1..).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn shortest(out: &mut Vec<u8>, value: f64, precision: usize, is_alternate: bool) {
    // The exponent of the number once it is rounded to this many significant digits.
    let start = out.len();
    let _ = write!(out, "{value:.*e}", precision - 1);
    let mark = out[start..].iter().rposition(|byte| *byte == b'e').map_or(out.len(), |at| start + at);
    let exponent = exponent_at(&out[mark..]);
    out.truncate(start);
    let is_fixed = exponent >= -4 && i64::from(exponent) < precision as i64;
    if is_fixed {
        // Of the significant digits, those that remain for the fraction.
        let after = (precision as i64 - 1 - i64::from(exponent)).max(0) as usize; // A few digits.
        fixed(out, value, after, is_alternate);
        if !is_alternate {
            trim(out, start, out.len());
        }
    } else {
        scientific(out, value, precision - 1, is_alternate);
        if !is_alternate {
            let end = out[start..].iter().rposition(|byte| *byte == b'e').map_or(out.len(), |at| start + at);
            trim(out, start, end);
        }
    }
}

/// Removes trailing zeros of a fraction, and the point if no digit is left after it.
fn trim(out: &mut Vec<u8>, start: usize, end: usize) {
    if !out[start..end].contains(&b'.') {
        return;
    }
    let mut keep = end;
    while out[keep - 1] == b'0' {
        keep -= 1;
    }
    if out[keep - 1] == b'.' {
        keep -= 1;
    }
    out.drain(keep..end);
}

/// Formats a number with its sign like C's `%g`.
#[must_use]
pub fn general(value: f64) -> String {
    let mut out = Vec::new();
    if value.is_sign_negative() && !value.is_nan() {
        out.push(b'-');
    }
    digits(&mut out, value, b'g', None, false);
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: f64, letter: u8, precision: Option<usize>) -> String {
        let mut out = Vec::new();
        digits(&mut out, value, letter, precision, false);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_read_as_c_prints_them() {
        assert_eq!(text(1.5, b'e', None), "1.500000e+00");
        assert_eq!(text(2.25e10, b'E', None), "2.250000E+10");
        assert_eq!(text(-3.125, b'f', None), "3.125000");
        assert_eq!(text(1e-7, b'g', None), "1e-07");
        assert_eq!(text(12_345_678.9, b'G', None), "1.23457E+07");
        assert_eq!(text(0.5, b'g', None), "0.5");
        assert_eq!(text(100_000.0, b'g', None), "100000");
        assert_eq!(text(1_000_000.0, b'g', None), "1e+06");
        assert_eq!(text(999_999.9, b'g', None), "1e+06");
        assert_eq!(text(0.0, b'g', None), "0");
        assert_eq!(text(0.0001, b'g', None), "0.0001");
        assert_eq!(text(31_415.9, b'e', Some(3)), "3.142e+04");
        assert_eq!(text(f64::INFINITY, b'E', None), "INF");
        assert_eq!(text(1e300, b'e', Some(0)), "1e+300");
        assert_eq!(general(-0.25), "-0.25");
    }
}
