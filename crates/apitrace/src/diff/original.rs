//! Prints differences as apitrace's `diff --tool=python` does, with values in Python's notation.
//!
//! apitrace aligns with Python's difflib, which prefers long equal runs; Quipu's alignment has the fewest differences. Where
//! the two alignments differ, different calls are compared with each other.

use super::{At, Difference, Names, Rules, Show, Summary};
use crate::print::text::{decimal, hex, hex_byte, signed};
use quipu_model::values::{Kind, NO_NODE, Type, Types, Values};
use quipu_model::{Error, ErrorKind, Result};
use std::io::Write;

/// Functions that apitrace ignores.
const IGNORED: &[&str] = &[
    "glGetString",
    "glXGetClientString",
    "glXGetCurrentDisplay",
    "glXGetCurrentContext",
    "glXGetFBConfigAttrib",
    "glXGetProcAddress",
    "glXGetProcAddressARB",
    "wglGetProcAddress",
];

/// apitrace's rules for equality: addresses must be equal, and a NaN is not even equal to itself.
pub fn rules() -> Rules {
    Rules { names: Names::Exact, nan_is_equal: false, ignored: IGNORED, ..Rules::ours() }
}

/// Prints differences as apitrace does.
pub struct Original<'o> {
    /// The output.
    pub out: &'o mut dyn Write,
    /// Whether calls are prefixed with their numbers.
    pub call_nos: bool,
    /// Whether equal calls are omitted.
    pub suppress_common_lines: bool,
    /// Widths of the numbers last printed, of the old and the new call.
    width: (usize, usize),
    line: Vec<u8>,
}

impl<'o> Original<'o> {
    /// A printer that shows all equal calls, and no call numbers.
    pub fn new(out: &'o mut dyn Write) -> Original<'o> {
        Original { out, call_nos: false, suppress_common_lines: false, width: (0, 0), line: Vec::new() }
    }

    fn begin(&mut self, sign: u8, old: Option<At<'_>>, new: Option<At<'_>>) {
        self.line.clear();
        self.line.extend_from_slice(&[sign, b' ']);
        if !self.call_nos {
            return;
        }
        let number =
            |at: Option<At<'_>>| at.and_then(|at| at.side()).map(|side| side.call.number.to_string());
        let (old, new) = (number(old), number(new));
        if let (Some(old), Some(new)) = (&old, &new)
            && old == new
        {
            self.width = (old.len(), old.len());
            self.line.extend_from_slice(old.as_bytes());
            self.line.push(b' ');
            return;
        }
        for (number, width) in [(old, &mut self.width.0), (new, &mut self.width.1)] {
            match number {
                Some(number) => {
                    *width = number.len();
                    self.line.extend_from_slice(number.as_bytes());
                }
                None => self.line.extend(std::iter::repeat_n(b' ', *width)),
            }
            self.line.push(b' ');
        }
    }

    /// Prints the call of the new trace, with the old value of each argument that differs.
    fn call(&mut self, old: At<'_>, new: At<'_>, difference: &Difference) {
        let (Some(a), Some(b)) = (old.side(), new.side()) else { return };
        self.line.extend_from_slice(new.name());
        self.line.push(b'(');
        let names = b.types.function(b.call.function).map_or(&[][..], |function| &function.args);
        for (index, name) in (0u32..).zip(names) {
            if index > 0 {
                self.line.extend_from_slice(b", ");
            }
            self.line.extend_from_slice(name);
            self.line.extend_from_slice(b" = ");
            let node = |side: &super::CallSide<'_>| {
                side.values
                    .args_of(side.call)
                    .iter()
                    .find(|arg| arg.index == index)
                    .map_or(NO_NODE, |arg| arg.node)
            };
            if difference.args.contains(&index) {
                value(a.values, a.types, node(&a), &mut self.line);
                self.line.extend_from_slice(b" -> ");
            }
            value(b.values, b.types, node(&b), &mut self.line);
        }
        self.line.push(b')');
        if a.call.result != NO_NODE || b.call.result != NO_NODE {
            self.line.extend_from_slice(b" = ");
            if difference.result || difference.completion {
                value(a.values, a.types, a.call.result, &mut self.line);
                self.line.extend_from_slice(b" -> ");
            }
            value(b.values, b.types, b.call.result, &mut self.line);
        }
    }

    fn finish(&mut self) -> Result<()> {
        self.line.push(b'\n');
        self.out
            .write_all(&self.line)
            .map_err(|cause| Error::new(ErrorKind::Io, "cannot write the differences").because(cause))
    }
}

impl Show for Original<'_> {
    fn same(&mut self, old: At<'_>, new: At<'_>) -> Result<()> {
        if self.suppress_common_lines {
            return Ok(());
        }
        self.begin(b' ', Some(old), Some(new));
        self.call(new, new, &Difference::default());
        self.finish()
    }

    fn changed(&mut self, old: At<'_>, new: At<'_>, difference: &Difference) -> Result<()> {
        self.begin(b'|', Some(old), Some(new));
        self.call(old, new, difference);
        self.finish()
    }

    fn deleted(&mut self, old: At<'_>) -> Result<()> {
        self.begin(b'-', Some(old), None);
        self.call(old, old, &Difference::default());
        self.finish()
    }

    fn inserted(&mut self, new: At<'_>) -> Result<()> {
        self.begin(b'+', None, Some(new));
        self.call(new, new, &Difference::default());
        self.finish()
    }

    fn end(&mut self, _: &Summary) -> Result<()> {
        Ok(())
    }
}

/// Prints a value in Python's notation.
fn value(values: &Values, types: &Types, index: u32, out: &mut Vec<u8>) {
    if index == NO_NODE {
        return out.extend_from_slice(b"None");
    }
    let node = values.node(index);
    match node.kind {
        Kind::Null => out.push(b'0'),
        Kind::True => out.extend_from_slice(b"True"),
        Kind::False => out.extend_from_slice(b"False"),
        Kind::Negative => {
            out.push(b'-');
            decimal(node.payload, out);
        }
        // QUIRK: unsigned 64-bit numbers become signed in Python.
        Kind::Unsigned => signed(node.payload.cast_signed(), out),
        Kind::Float => float(f32::from_bits(node.payload as u32).into(), out), // Its bits.
        Kind::Double => float(f64::from_bits(node.payload), out),
        Kind::Text => string(values.bytes_of(node), out),
        Kind::Wide => {
            let units = values.bytes_of(node).as_chunks::<4>().0.iter().map(|unit| u32::from_le_bytes(*unit));
            let text: Vec<u8> =
                units.map(|unit| u8::try_from(unit).ok().filter(u8::is_ascii).unwrap_or(b'?')).collect();
            string(&text, out);
        }
        Kind::Blob => {
            out.extend_from_slice(b"blob(");
            decimal(values.bytes_of(node).len() as u64, out);
            out.push(b')');
        }
        Kind::Pointer => {
            out.extend_from_slice(b"0x");
            hex(node.payload, out);
        }
        Kind::Enum => {
            let name = match types.get(node.ty) {
                Some(Type::Enum(names)) => names.name(node.payload),
                _ => None,
            };
            match name {
                Some(name) => out.extend_from_slice(name),
                None => signed(node.payload.cast_signed(), out),
            }
        }
        Kind::Flags => flags(types, node.ty, node.payload, out),
        Kind::Pair => value(values, types, index + 1, out),
        Kind::Array => {
            let (n_parts, _) = node.halves();
            parts(values, types, index, n_parts, out);
        }
        Kind::Struct => structure(values, types, index, out),
    }
}

fn parts(values: &Values, types: &Types, index: u32, n_parts: u32, out: &mut Vec<u8>) {
    let mut part = index + 1;
    if n_parts == 1 {
        out.push(b'&');
        return value(values, types, part, out);
    }
    out.push(b'{');
    for i in 0..n_parts {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        value(values, types, part, out);
        part = values.behind(part);
    }
    out.push(b'}');
}

fn structure(values: &Values, types: &Types, index: u32, out: &mut Vec<u8>) {
    let Some(Type::Struct(structure)) = types.get(values.node(index).ty) else { return };
    let mut part = index + 1;
    out.push(b'{');
    for (i, name) in structure.members.iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(name);
        out.extend_from_slice(b" = ");
        value(values, types, part, out);
        part = values.behind(part);
    }
    out.push(b'}');
}

/// Prints a set of flags as a tuple of names and the remaining bits.
fn flags(types: &Types, ty: u32, number: u64, out: &mut Vec<u8>) {
    let names = match types.get(ty) {
        Some(Type::Flags(names)) => &names.names[..],
        _ => &[],
    };
    let (mut rest, mut n_named) = (number, 0);
    let mut glue = |out: &mut Vec<u8>| {
        if n_named > 0 {
            out.extend_from_slice(b", ");
        }
        n_named += 1;
    };
    out.push(b'(');
    for (name, flag) in names {
        if (*flag != 0 && rest & flag == *flag) || (*flag == 0 && number == 0) {
            glue(out);
            out.extend_from_slice(name);
            rest &= !flag;
        }
        if rest == 0 {
            break;
        }
    }
    if rest != 0 {
        glue(out);
        signed(rest.cast_signed(), out);
    }
    out.push(b')');
}

/// Prints a string without quotes if it could be an identifier, else with quotes.
fn string(bytes: &[u8], out: &mut Vec<u8>) {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    if bytes.first().is_some_and(|first| !first.is_ascii_digit()) && bytes.iter().all(is_part) {
        return out.extend_from_slice(bytes);
    }
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { b'"' } else { b'\'' };
    out.push(quote);
    for byte in bytes {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            byte if *byte == quote => out.extend_from_slice(&[b'\\', quote]),
            0x20..=0x7e => out.push(*byte),
            0x80.. => out.push(b'?'),
            _ => {
                out.extend_from_slice(b"\\x");
                hex_byte(*byte, out);
            }
        }
    }
    out.push(quote);
}

/// Prints a number with the fewest digits that identify it: with an exponent from 1e16 on and below 1e-4, else with a decimal
/// point.
fn float(number: f64, out: &mut Vec<u8>) {
    if number.is_nan() {
        return out.extend_from_slice(b"nan");
    }
    if number.is_infinite() {
        return out.extend_from_slice(if number < 0.0 { b"-inf" } else { b"inf" });
    }
    let shown = format!("{number:e}");
    let (digits, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("{digits}e{sign}{:02}", exponent.unsigned_abs()).as_bytes());
        return;
    }
    let plain = format!("{number}");
    out.extend_from_slice(plain.as_bytes());
    if !plain.contains('.') {
        out.extend_from_slice(b".0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (number, text) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e-5, "1.5e-05"),
            (0.0001, "0.0001"),
            (1e100, "1e+100"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::from(1.4e-45f32), "1.401298464324817e-45"),
        ] {
            let mut out = Vec::new();
            float(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn strings_are_written_as_python_writes_them() {
        for (string, text) in [
            ("pos", "pos"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "\"it's\""),
            ("it's \"q\"", "'it\\'s \"q\"'"),
            ("\u{e9}\x01\n", "'??\\x01\\n'"),
        ] {
            let mut out = Vec::new();
            super::string(string.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }
}
