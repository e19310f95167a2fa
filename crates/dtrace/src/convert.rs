//! Prints values by the conversions of a format.
//!
//! SPEC: dtrace.md#conversions

use crate::action::Action;
use crate::bytes::{ByteOrder, until_nul};
use crate::describe::{Capture, Dialect, Rec};
use crate::float;
use crate::format::{Amount, Conversion, Length, MAX_WIDTH};
use crate::host::Words;
use crate::locale::Locale;
use crate::put::{self, Digits};
use crate::stack;
use crate::symbols::{Address, Shown};

/// A conversion with known width and precision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) of: Conversion,
    pub(crate) width: usize,
    pub(crate) is_left: bool,
    pub(crate) precision: Option<usize>,
}

impl Spec {
    /// Makes a specification; `width` and `precision` are the arguments for `*`, if there are any.
    #[inline]
    pub(crate) fn new(of: Conversion, width: Option<i64>, precision: Option<i64>) -> Spec {
        let fixed = |amount: Amount| match amount {
            Amount::Is(n) => i64::from(n),
            _ => 0,
        };
        let limit = i64::from(MAX_WIDTH);
        let width = width.unwrap_or_else(|| fixed(of.width)).clamp(-limit, limit);
        let precision = precision.unwrap_or_else(|| fixed(of.precision)).clamp(0, limit);
        Spec {
            of,
            width: width.unsigned_abs() as usize, // At most the limit.
            is_left: of.is_left || width < 0,
            // The consumers ignore a precision of 0.
            precision: (precision > 0).then_some(precision as usize),
        }
    }

    /// Pads the text appended since `start` to the width.
    fn justify(&self, out: &mut Vec<u8>, start: usize) {
        match self.is_left {
            true => put::widen(out, start, self.width),
            false => put::shift(out, start, self.width),
        }
    }
}

/// An argument that does not fit its conversion, so the rest of the record cannot be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    pub(crate) letter: u8,
    pub(crate) size: usize,
}

/// Whether a conversion prints a number as signed; `None` for conversions that do not print numbers.
pub(crate) fn sign(dialect: Dialect, letter: u8, rec: &Rec, size: usize) -> Option<bool> {
    Some(match (letter, dialect) {
        (b'i', Dialect::Classic | Dialect::ClassicV0) => true,
        // QUIRK: `d` in a format of the classic kernel does not sign-extend small numbers.
        (b'd', Dialect::Classic | Dialect::ClassicV0) => rec.signed.unwrap_or(size >= 4),
        (b'd' | b'i', Dialect::Linux) => rec.signed.unwrap_or(true),
        (b'u' | b'o' | b'x' | b'X' | b'p', _) => false,
        _ => return None,
    })
}

/// Prints an argument by a conversion.
pub(crate) fn argument(
    capture: &Capture,
    words: Words<'_>,
    spec: &Spec,
    rec: &Rec,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Mismatch> {
    let order = capture.order;
    let letter = spec.of.letter;
    let mismatch = Mismatch { letter, size: bytes.len() };
    let is_number = matches!(bytes.len(), 1 | 2 | 4 | 8);
    let start = out.len();
    match letter {
        b'd' | b'i' if is_number => {
            let is_signed = sign(capture.dialect, letter, rec, bytes.len()).unwrap_or(true);
            let value = if is_signed { order.signed(bytes) } else { order.number(bytes) as i64 };
            if is_signed || bytes.len() < 8 {
                signed(spec, value, words.locale, out);
            } else {
                unsigned(spec, b'u', value as u64, words.locale, out);
            }
        }
        b'u' | b'o' | b'x' | b'X' if is_number => {
            unsigned(spec, letter, order.number(bytes), words.locale, out)
        }
        b'p' if is_number => {
            // The kernel replaces it with `x`, which formats of Linux do not have yet.
            let is_alternate = capture.dialect != Dialect::Linux || spec.of.is_alternate;
            let spec = Spec { of: Conversion { is_alternate, length: Length::None, ..spec.of }, ..*spec };
            unsigned(&spec, b'x', order.number(bytes), words.locale, out);
        }
        b'c' if spec.of.length == Length::Wide => {
            // QUIRK: the C library of the consumer does not support `%wc`, and prints it literally.
            out.extend_from_slice(b"%wc");
        }
        b'c' if is_number => {
            match (spec.of.length, char::from_u32(order.number(bytes) as u32)) {
                (Length::Long, Some(letter)) => {
                    out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => out.push(order.number(bytes) as u8), // The lowest byte.
            }
            spec.justify(out, start);
        }
        b'C' if is_number => {
            escape(order.number(bytes) as u8, out);
            spec.justify(out, start);
        }
        b's' if matches!(spec.of.length, Length::Long | Length::Wide) => {
            for word in bytes.chunks_exact(4) {
                match order.number(word) as u32 {
                    0 => break,
                    point => {
                        let letter = char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER);
                        out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                    }
                }
            }
            spec.justify(out, start);
        }
        b's' | b'I' => {
            let text = until_nul(bytes);
            let text = if letter == b'I' { words.names.host(text) } else { text };
            let text = &text[..text.len().min(spec.precision.unwrap_or(usize::MAX))];
            match spec.is_left {
                true => put::left(out, text, spec.width),
                false => put::right(out, text, spec.width),
            }
        }
        b'S' => {
            let is_cut = spec.precision.unwrap_or(usize::MAX);
            for byte in bytes {
                escape(*byte, out);
                if *byte == 0 {
                    break;
                }
            }
            out.truncate(out.len().min(start.saturating_add(is_cut)));
            spec.justify(out, start);
        }
        b'e' | b'E' | b'f' | b'g' | b'G' => {
            floating(spec, float(order, bytes).ok_or(mismatch)?, words.locale, out);
        }
        b'a' if matches!(bytes.len(), 4 | 8) => {
            capture.symbols.text(order.number(bytes), false, shown_of(rec.action), out);
            spec.justify(out, start);
        }
        b'A' if matches!(bytes.len(), 4 | 8 | 16) => {
            let address = if bytes.len() == 16 { &bytes[8..] } else { bytes };
            capture.symbols.text(order.number(address), true, shown_of(rec.action), out);
            spec.justify(out, start);
        }
        b'k' => stack::conversion(capture, rec, bytes, spec.width, spec.is_left, out),
        b'Y' if bytes.len() == 8 => {
            words.zone.plain(order.number(bytes), words.locale, out);
            spec.justify(out, start);
        }
        b'T' if bytes.len() == 8 => {
            words.zone.mail(order.number(bytes), words.locale, out);
            spec.justify(out, start);
        }
        b'P' if is_number => {
            let port = order.number(bytes) as u16; // A port has no more bits.
            match words.names.services.get(&port) {
                Some(name) => out.extend_from_slice(name.as_bytes()),
                None => put::unsigned(out, port.into(), 0),
            }
            spec.justify(out, start);
        }
        _ => return Err(mismatch),
    }
    Ok(())
}

/// Reads a floating-point number of any size that C has; `None` for other sizes.
pub(crate) fn float(order: ByteOrder, bytes: &[u8]) -> Option<f64> {
    let mut little = [0; 16];
    let turned = little.get_mut(..bytes.len())?;
    turned.copy_from_slice(bytes);
    if order == ByteOrder::Big {
        turned.reverse();
    }
    float::of_bytes(turned)
}

/// The form in which a key with a symbol or module is printed.
fn shown_of(action: Action) -> Shown {
    Address::kind_of(action).map_or(Shown::Whole, |(_, shown)| shown)
}

/// Prints the value of an aggregation by a conversion.
pub(crate) fn value(spec: &Spec, value: i64, locale: &Locale, out: &mut Vec<u8>) {
    match spec.of.letter {
        b'd' | b'i' => signed(spec, value, locale, out),
        b'p' => unsigned(spec, b'x', value as u64, locale, out),
        letter => unsigned(spec, letter, value as u64, locale, out),
    }
}

#[inline]
fn signed(spec: &Spec, value: i64, locale: &Locale, out: &mut Vec<u8>) {
    let value = match spec.of.length {
        Length::Byte => i64::from(value as i8),
        Length::Short => i64::from(value as i16),
        _ => value,
    };
    let sign: &[u8] = match (value < 0, spec.of.has_plus, spec.of.has_blank) {
        (true, ..) => b"-",
        (_, true, _) => b"+",
        (_, _, true) => b" ",
        _ => b"",
    };
    let text = Digits::decimal(value.unsigned_abs());
    match spec.of.has_groups {
        true => groups(spec, sign, text.as_slice(), locale, out),
        false => digits(spec, sign, text.as_slice(), out),
    }
}

#[inline]
fn unsigned(spec: &Spec, letter: u8, value: u64, locale: &Locale, out: &mut Vec<u8>) {
    let value = match spec.of.length {
        Length::Byte => value & 0xff,
        Length::Short => value & 0xffff,
        _ => value,
    };
    let (text, prefix): (Digits, &[u8]) = match letter {
        b'x' => (Digits::power(value, 4, false), b"0x"),
        b'X' => (Digits::power(value, 4, true), b"0X"),
        b'o' => (Digits::power(value, 3, false), b"0"),
        _ => (Digits::decimal(value), b""),
    };
    let prefix = if spec.of.is_alternate && value != 0 { prefix } else { b"" };
    match spec.of.has_groups && letter == b'u' {
        true => groups(spec, prefix, text.as_slice(), locale, out),
        false => digits(spec, prefix, text.as_slice(), out),
    }
}

/// Like [`digits`], with digit groups.
#[cold]
fn groups(spec: &Spec, prefix: &[u8], digits: &[u8], locale: &Locale, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(prefix);
    let first = out.len();
    put::fill(out, b'0', spec.precision.unwrap_or(0).saturating_sub(digits.len()));
    locale.put_grouped(digits, out);
    if spec.of.is_zero_padded && !spec.is_left && spec.precision.is_none() {
        let missing = spec.width.saturating_sub(out.len() - start);
        put::fill(out, b'0', missing);
        out[first..].rotate_right(missing);
    }
    spec.justify(out, start);
}

/// Prints digits after a prefix, padded.
#[inline]
fn digits(spec: &Spec, prefix: &[u8], digits: &[u8], out: &mut Vec<u8>) {
    let mut zeros = spec.precision.unwrap_or(0).saturating_sub(digits.len());
    let n_all = prefix.len() + zeros + digits.len();
    let mut blanks = spec.width.saturating_sub(n_all);
    if spec.of.is_zero_padded && !spec.is_left && spec.precision.is_none() {
        zeros += std::mem::take(&mut blanks);
    }
    if !spec.is_left {
        put::fill(out, b' ', blanks);
    }
    out.extend_from_slice(prefix);
    put::fill(out, b'0', zeros);
    out.extend_from_slice(digits);
    if spec.is_left {
        put::fill(out, b' ', blanks);
    }
}

fn floating(spec: &Spec, value: f64, locale: &Locale, out: &mut Vec<u8>) {
    let start = out.len();
    let sign: &[u8] = match (value.is_sign_negative() && !value.is_nan(), spec.of.has_plus, spec.of.has_blank)
    {
        (true, ..) => b"-",
        (_, true, _) => b"+",
        (_, _, true) => b" ",
        _ => b"",
    };
    out.extend_from_slice(sign);
    let first = out.len();
    float::digits(out, value, spec.of.letter, spec.precision, spec.of.is_alternate);
    locale.put_point(out, first, spec.of.has_groups && matches!(spec.of.letter, b'f' | b'g' | b'G'));
    if spec.of.is_zero_padded && !spec.is_left && value.is_finite() {
        let missing = spec.width.saturating_sub(out.len() - start);
        put::fill(out, b'0', missing);
        out[first..].rotate_right(missing);
    }
    spec.justify(out, start);
}

/// Prints a byte as an escape sequence of a C string.
pub(crate) fn escape(byte: u8, out: &mut Vec<u8>) {
    let letter = match byte {
        0 => b'0',
        7 => b'a',
        8 => b'b',
        12 => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        11 => b'v',
        b'"' | b'\\' => byte,
        b' '..=b'~' => return out.push(byte),
        _ => {
            let digit = |shift: u32| b'0' + (byte >> shift & 7);
            return out.extend_from_slice(&[b'\\', digit(6), digit(3), digit(0)]);
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}
