//! Prints floating-point numbers like C's `%.7g` and `%.16g`.

use super::text::{ASCII, decimal, eight_digits, push_short};
use std::io::Write as _;

/// Powers of ten that an `f64` represents exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// A cache of the texts of 32-bit numbers: calls repeat the same few numbers. PERF: `view`.
#[derive(Debug)]
pub(super) struct Floats {
    /// The bits of the number in each slot.
    bits: [u32; N_FLOATS],
    /// Their texts, with the length in the last byte.
    texts: [[u8; 16]; N_FLOATS],
}

/// Number of slots.
const N_FLOATS: usize = 256;

impl Default for Floats {
    fn default() -> Floats {
        // Every slot begins with 0; another number replaces it when it is printed.
        let mut zero = [b'0'; 16];
        zero[15] = 1;
        Floats { bits: [0; N_FLOATS], texts: [zero; N_FLOATS] }
    }
}

impl Floats {
    /// Appends a number like [`float`].
    #[inline]
    pub(super) fn push(&mut self, number: f32, out: &mut Vec<u8>) {
        let bits = number.to_bits();
        let place = (bits.wrapping_mul(0x9e37_79b1) >> 24) as usize; // Eight bits.
        if self.bits[place] == bits {
            let text = self.texts[place];
            return push_short(text, usize::from(text[15]), out);
        }
        self.write(place, number, out);
    }

    #[inline(never)]
    fn write(&mut self, place: usize, number: f32, out: &mut Vec<u8>) {
        let before = out.len();
        float(number, out);
        let text = &out[before..];
        if text.len() < 16 {
            self.bits[place] = number.to_bits();
            self.texts[place][..text.len()].copy_from_slice(text);
            self.texts[place][15] = text.len() as u8; // Checked above.
        }
    }
}

/// Appends a 32-bit number with at most 7 significant digits.
pub fn float(number: f32, out: &mut Vec<u8>) {
    let wide = f64::from(number);
    let size = wide.abs();
    // A cast is exact if casting back gives the same number; unlike rounding, it is one instruction on every processor.
    if size < 1e7 && f64::from(size as u32) == size && (wide != 0.0 || wide.is_sign_positive()) {
        if wide < 0.0 {
            out.push(b'-');
        }
        return decimal((size as u32).into(), out);
    }
    match seven_digits(size) {
        Some(digits) => digits.layout(wide < 0.0, out),
        None => general(wide, 7, out),
    }
}

/// Appends a 64-bit number with at most 16 significant digits.
pub fn double(number: f64, out: &mut Vec<u8>) {
    if number.abs() < 1e15 && (number as i64) as f64 == number && (number != 0.0 || number.is_sign_positive())
    {
        out.extend_from_slice(itoa::Buffer::new().format(number as i64).as_bytes());
        return;
    }
    general(number, 16, out);
}

/// Seven significant digits and the decimal exponent of the first.
struct Digits {
    digits: u32,
    exponent: i32,
}

/// The first seven digits of a positive number converted from 32 bits, rounded. `None` if that is uncertain: the number is
/// far from 1, or too close to the middle between two results.
#[inline]
fn seven_digits(number: f64) -> Option<Digits> {
    if !(1e-10..1e20).contains(&number) {
        return None;
    }
    // Estimated from the binary exponent, which is above -35: 1233/4096 is slightly less than log10(2). The estimate may be
    // one too low.
    let binary = (number.to_bits() >> 52) as i32 - 1023; // Eleven bits.
    let mut exponent = (binary * 1233) >> 12;
    if exponent >= -1 && number >= POWERS[(exponent + 1) as usize] {
        exponent += 1; // At most 19 before.
    }
    // Multiplying or dividing by an exact power rounds once, with an error of about a billionth at this size.
    let scale = |exponent: i32| -> Option<f64> {
        let shift = 6 - exponent;
        let size = *POWERS.get(shift.unsigned_abs() as usize)?;
        Some(if shift >= 0 { number * size } else { number / size })
    };
    let mut scaled = scale(exponent)?;
    // Below 1, powers of ten are inexact and cannot be compared with: the number of digits decides.
    if scaled >= 1e7 {
        exponent += 1;
        scaled = scale(exponent)?;
    } else if scaled < 1e6 {
        exponent -= 1;
        scaled = scale(exponent)?;
    }
    let whole = scaled as u32; // Below 1e7 and a little.
    let fraction = scaled - f64::from(whole);
    if (fraction - 0.5).abs() < 1e-6 {
        return None;
    }
    let mut digits = whole + u32::from(fraction > 0.5);
    if digits >= 10_000_000 {
        digits /= 10;
        exponent += 1;
    }
    (digits >= 1_000_000).then_some(Digits { digits, exponent })
}

impl Digits {
    /// Writes the digits without trailing zeros.
    #[inline]
    fn layout(&self, is_negative: bool, out: &mut Vec<u8>) {
        let (digits, exponent) = (eight_digits(self.digits) >> 8, self.exponent);
        // The first digit is not 0, so at least one is kept.
        let kept = 8 - digits.leading_zeros() as usize / 8;
        if !(-4..7).contains(&exponent) {
            if is_negative {
                out.push(b'-');
            }
            return layout(&(digits | ASCII).to_le_bytes()[..7], exponent, out);
        }
        // PERF: shifts, because short copies compile to calls (`view`). The first byte of the text is the lowest.
        let ascii = u128::from(digits | ASCII);
        let (text, n_bytes) = if exponent < 0 {
            let n_before = 1 + exponent.unsigned_abs() as usize; // Zeros and the point, 2 to 5.
            let before = u128::from(u64::from_le_bytes(*b"0.000000") & ((1 << (8 * n_before)) - 1));
            (before | ascii << (8 * n_before), n_before + kept)
        } else {
            let n_whole = exponent as usize + 1; // 1 to 7.
            if kept > n_whole {
                // All digits after the point move by one byte.
                let whole = ascii & ((1 << (8 * n_whole)) - 1);
                let behind = (ascii >> (8 * n_whole)) << 8 | u128::from(b'.');
                (whole | behind << (8 * n_whole), kept + 1)
            } else {
                (ascii, n_whole)
            }
        };
        let (text, n_bytes) =
            if is_negative { (text << 8 | u128::from(b'-'), n_bytes + 1) } else { (text, n_bytes) };
        push_short(text.to_le_bytes(), n_bytes, out);
    }
}

/// Appends any number with this many significant digits, exactly rounded.
fn general(number: f64, n_digits: usize, out: &mut Vec<u8>) {
    if number.is_sign_negative() {
        out.push(b'-');
    }
    if number.is_nan() {
        return out.extend_from_slice(b"nan");
    }
    if number.is_infinite() {
        return out.extend_from_slice(b"inf");
    }
    let number = number.abs();
    if number == 0.0 {
        return out.push(b'0');
    }
    let mut buffer = [0u8; 40];
    let mut rest = &mut buffer[..];
    // The buffer has room for 16 digits, a point and an exponent.
    let _ = write!(rest, "{number:.*e}", n_digits - 1);
    let n_left = rest.len();
    let text = &buffer[..buffer.len() - n_left];
    let point = text.iter().position(|byte| *byte == b'e').unwrap_or(text.len());
    let exponent =
        std::str::from_utf8(&text[(point + 1).min(text.len())..]).unwrap_or("0").parse().unwrap_or(0);
    let mut digits = [b'0'; 16];
    for (place, digit) in digits.iter_mut().zip(text[..point].iter().filter(|byte| byte.is_ascii_digit())) {
        *place = *digit;
    }
    layout(&digits[..n_digits.min(16)], exponent, out);
}

/// Writes digits without trailing zeros; the first has the value `10^exponent`.
fn layout(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    let n_digits = digits.len() as i32; // 7 or 16.
    let kept = digits.iter().rposition(|digit| *digit != b'0').map_or(1, |last| last + 1);
    if exponent < -4 || exponent >= n_digits {
        out.push(digits[0]);
        if kept > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..kept]);
        }
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        let exponent = exponent.unsigned_abs();
        if exponent < 10 {
            out.push(b'0');
        }
        out.extend_from_slice(itoa::Buffer::new().format(exponent).as_bytes());
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', (-exponent - 1) as usize)); // At most 3.
        out.extend_from_slice(&digits[..kept]);
    } else {
        let n_whole = exponent as usize + 1; // At most as many as there are.
        out.extend_from_slice(&digits[..n_whole]);
        if kept > n_whole {
            out.push(b'.');
            out.extend_from_slice(&digits[n_whole..kept]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn float_text(number: f32) -> String {
        let mut out = Vec::new();
        float(number, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn double_text(number: f64) -> String {
        let mut out = Vec::new();
        double(number, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn floats_are_written_as_c_writes_them() {
        // The second of each pair is the output of `printf("%.7g")`.
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (9_999_999.0, "9999999"),
            (1e7, "1e+07"),
            (12_345_678.0, "1.234568e+07"),
            (f32::from_bits(1), "1.401298e-45"),
            (3.402_823_5e38, "3.402823e+38"),
            (std::f32::consts::PI, "3.141593"),
            (16_777_216.0, "1.677722e+07"),
            (0.333_333_34, "0.3333333"),
            (123.456, "123.456"),
            (f32::NAN, "nan"),
            (-f32::NAN, "-nan"),
            (f32::INFINITY, "inf"),
            (f32::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(float_text(number), text);
        }
    }

    #[test]
    fn doubles_are_written_as_c_writes_them() {
        // The second of each pair is the output of `printf("%.16g")`.
        for (number, text) in [
            (0.1, "0.1"),
            (9.7, "9.699999999999999"),
            (-0.123_456_789_012_345_7, "-0.1234567890123457"),
            (1e10, "10000000000"),
            (1e15, "1000000000000000"),
            (1e16, "1e+16"),
            (1.797_693_134_862_315_7e308, "1.797693134862316e+308"),
            (5e-324, "4.940656458412465e-324"),
            (-0.0, "-0"),
            (1.0 / 3.0, "0.3333333333333333"),
        ] {
            assert_eq!(double_text(number), text);
        }
    }

    proptest! {
        #[test]
        fn the_fast_way_writes_what_the_exact_one_writes(bits in any::<u32>()) {
            let number = f32::from_bits(bits);
            let mut exact = Vec::new();
            general(f64::from(number), 7, &mut exact);
            prop_assert_eq!(float_text(number).into_bytes(), exact);
        }

        #[test]
        fn texts_that_were_kept_are_those_of_their_numbers(
            numbers in proptest::collection::vec(prop_oneof![any::<u32>(), 0u32..4], 1..600)
        ) {
            let (mut floats, mut kept, mut fresh) = (Floats::default(), Vec::new(), Vec::new());
            for bits in numbers.iter().chain(&numbers) {
                floats.push(f32::from_bits(*bits), &mut kept);
                float(f32::from_bits(*bits), &mut fresh);
            }
            prop_assert_eq!(kept, fresh);
        }

        #[test]
        fn the_fast_way_is_exact_for_everyday_numbers(number in -10_000.0f32..10_000.0) {
            let mut exact = Vec::new();
            general(f64::from(number), 7, &mut exact);
            prop_assert_eq!(float_text(number).into_bytes(), exact);
        }
    }
}
