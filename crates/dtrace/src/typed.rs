//! Typed values as the classic consumer's `print()` shows them; for Linux see [`tree`](crate::tree).
//!
//! SPEC: dtrace.md#print

use crate::bytes::until_nul;
use crate::convert::escape;
use crate::describe::Capture;
use crate::float;
use crate::locale::Locale;
use crate::put;
use crate::symbols::Shown;
use crate::types::{Kind, Member, Type};
use std::io::Write as _;

/// Maximum nesting depth of types; it also ends types that contain themselves.
const MAX_DEPTH: usize = 32;

/// Maximum length of the text of a value, in bytes.
const MAX_TEXT: usize = 1 << 20;

struct Printer<'c> {
    capture: &'c Capture,
    locale: &'c Locale,
    /// Length of the output before this value.
    start: usize,
}

/// Prints a value of the classic dialects; returns false if its type is unknown.
pub(crate) fn classic(capture: &Capture, locale: &Locale, id: &str, value: &[u8], out: &mut Vec<u8>) -> bool {
    // Types that another program described have only a number as id.
    let number = || id.rsplit('`').next().and_then(|number| capture.types.get(number));
    let Some(ty) = capture.types.get(id).or_else(number) else { return false };
    let printer = Printer { capture, locale, start: out.len() };
    out.push(b'\n');
    printer.value(ty, value, (0, 0), out);
    out.push(b'\n');
    true
}

impl Printer<'_> {
    /// Prints a value; `at` is its indent and its nesting depth.
    fn value(&self, ty: &Type, value: &[u8], at: (usize, usize), out: &mut Vec<u8>) {
        self.shown(ty, value, at, false, out);
    }

    fn shown(&self, ty: &Type, value: &[u8], at: (usize, usize), is_member: bool, out: &mut Vec<u8>) {
        let (indent, depth) = at;
        if depth > MAX_DEPTH || out.len() - self.start > MAX_TEXT {
            return out.extend_from_slice(b"...");
        }
        let real = self.capture.types.resolved(ty);
        match &real.kind {
            Kind::Struct { members } | Kind::Union { members } => {
                // A member begins with its type. Writing to a vector cannot fail.
                let _ = match is_member {
                    true => writeln!(out, "{{"),
                    false => writeln!(out, "{} {{", ty.name),
                };
                for member in members {
                    if out.len() - self.start > MAX_TEXT {
                        out.extend_from_slice(b"...\n");
                        break;
                    }
                    self.member(member, value, (indent + 4, depth + 1), out);
                }
                put::fill(out, b' ', indent);
                out.push(b'}');
            }
            Kind::Array { of, count } => self.array(of, *count, value, at, out),
            _ => self.scalar(real, value, out),
        }
    }

    fn member(&self, member: &Member, value: &[u8], at: (usize, usize), out: &mut Vec<u8>) {
        let Some(ty) = self.capture.types.get(&member.ty) else { return };
        let start = usize::try_from(member.bit / 8).unwrap_or(usize::MAX);
        let size = usize::try_from(ty.size).unwrap_or(usize::MAX);
        let end = start.saturating_add(size).min(value.len());
        let bytes = value.get(start..end).unwrap_or(&[]);
        put::fill(out, b' ', at.0);
        let glue = if ty.name.ends_with('*') { "" } else { " " };
        let _ = write!(out, "{}{glue}{}", ty.name, member.name);
        if let Some(bits) = member.bits {
            let _ = write!(out, " :{bits}");
        }
        out.extend_from_slice(b" = ");
        match member.bits {
            Some(bits) => self.bit_field((member.bit % 8) as u32, bits, bytes, out), // The remainder is below 8.
            None => self.shown(ty, bytes, at, true, out),
        }
        out.push(b'\n');
    }

    fn bit_field(&self, first: u32, bits: u32, bytes: &[u8], out: &mut Vec<u8>) {
        let word = self.capture.order.number(&bytes[..bytes.len().min(8)]);
        let mask = u64::MAX.checked_shr(64u32.saturating_sub(bits)).unwrap_or(0);
        number(word >> first & mask, out);
    }

    fn array(&self, of: &str, count: u64, value: &[u8], at: (usize, usize), out: &mut Vec<u8>) {
        let (indent, depth) = at;
        let Some(element) = self.capture.types.get(of) else { return out.extend_from_slice(b"[ ]") };
        let real = self.capture.types.resolved(element);
        if matches!(real.kind, Kind::Int { char: true, .. }) {
            let text = until_nul(value);
            let is_text =
                text.len() < value.len() && text.iter().all(|byte| matches!(byte, b' '..=b'~' | 7..=13));
            if is_text {
                let brackets = depth > 0;
                out.extend_from_slice(if brackets { b"[ \"" } else { b"\"" });
                text.iter().for_each(|byte| escape(*byte, out));
                out.extend_from_slice(if brackets { b"\" ]" } else { b"\"" });
                return;
            }
        }
        let is_compound = matches!(real.kind, Kind::Struct { .. } | Kind::Union { .. });
        let size = usize::try_from(element.size).unwrap_or(usize::MAX).max(1);
        out.extend_from_slice(b"[");
        let n = usize::try_from(count).unwrap_or(usize::MAX);
        for (at, bytes) in value.chunks(size).take(n).enumerate() {
            if out.len() - self.start > MAX_TEXT {
                out.extend_from_slice(b" ...");
                break;
            }
            out.extend_from_slice(if at > 0 { b"," } else { b"" });
            if is_compound {
                out.push(b'\n');
                put::fill(out, b' ', indent + 4);
            } else {
                out.push(b' ');
            }
            self.value(element, bytes, (indent + 4, depth + 1), out);
        }
        if is_compound {
            out.push(b'\n');
            put::fill(out, b' ', indent);
            out.push(b']');
        } else {
            out.extend_from_slice(b" ]");
        }
    }

    fn scalar(&self, ty: &Type, value: &[u8], out: &mut Vec<u8>) {
        let order = self.capture.order;
        match &ty.kind {
            Kind::Int { char: true, .. } if value.len() == 1 => {
                out.push(b'\'');
                escape(value[0], out);
                out.push(b'\'');
            }
            Kind::Float => {
                let Some(float) = float::of_bytes(value) else { return out.extend_from_slice(b"?") };
                out.push(if float.is_sign_negative() { b'-' } else { b'+' });
                let start = out.len();
                match value.len() {
                    16 => float::digits(out, float, b'E', Some(16), false),
                    _ => float::digits(out, float, b'e', Some(7), false),
                }
                self.locale.put_point(out, start, false);
            }
            Kind::Enum { values } => {
                let number = order.signed(value);
                match values.iter().find(|(_, value)| *value == number) {
                    Some((name, _)) => out.extend_from_slice(name.as_bytes()),
                    None => put::signed(out, number, 0),
                }
            }
            Kind::Pointer { function: true } => {
                self.capture.symbols.text(order.number(value), false, Shown::Symbol, out);
            }
            _ => number(order.number(value), out),
        }
    }
}

/// Appends a number in hexadecimal, but zero as `0`.
fn number(value: u64, out: &mut Vec<u8>) {
    match value {
        0 => out.push(b'0'),
        _ => put::hex(out, value),
    }
}
