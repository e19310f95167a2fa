//! Writes types, names, strings and numbers as text.

use super::is_bare;
use super::names::{Space, key_of};
use crate::print::text::{decimal, hex, hex_byte, signed, whole_unit};
use quipu_model::values::{NamedNumbers, Type};

/// Writes the declaration of a type, as a statement.
pub(super) fn put_type(ty: &Type, out: &mut Vec<u8>) {
    let (space, id) = key_of(ty);
    out.extend_from_slice(match space {
        Space::Function => b"function ".as_slice(),
        Space::Struct => b"struct ",
        Space::Enum => b"enum ",
        Space::Flags => b"flags ",
        Space::Frame => b"frame ",
    });
    decimal(id, out);
    out.push(b' ');
    let list = |names: &[Vec<u8>], out: &mut Vec<u8>| {
        for (i, name) in names.iter().enumerate() {
            if i > 0 {
                out.extend_from_slice(b", ");
            }
            put_name(name, out);
        }
    };
    match ty {
        Type::Function(function) => {
            put_name(&function.name, out);
            out.push(b'(');
            list(&function.args, out);
            out.push(b')');
        }
        Type::Struct(structure) => {
            put_name(&structure.name, out);
            out.extend_from_slice(b" {");
            list(&structure.members, out);
            out.push(b'}');
        }
        Type::Enum(names) => numbers(names, |number, out| signed(number.cast_signed(), out), out),
        Type::Flags(names) => {
            let bits = |number, out: &mut Vec<u8>| {
                out.extend_from_slice(b"0x");
                hex(number, out);
            };
            numbers(names, bits, out);
        }
        Type::Frame(frame) => {
            out.push(b'{');
            for (word, text) in
                [("module", &frame.module), ("function", &frame.function), ("file", &frame.file)]
            {
                if let Some(text) = text {
                    out.extend_from_slice(format!(" {word} ").as_bytes());
                    put_string(text, out);
                }
            }
            for (word, number) in [("line", frame.line), ("offset", frame.offset)] {
                if let Some(number) = number {
                    out.extend_from_slice(format!(" {word} ").as_bytes());
                    decimal(number, out);
                }
            }
            out.extend_from_slice(b" }");
        }
    }
    out.push(b'\n');
}

/// Writes names with their numbers, one a line.
fn numbers(names: &NamedNumbers, number: impl Fn(u64, &mut Vec<u8>), out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\n");
    for (name, value) in &names.names {
        out.extend_from_slice(b"  ");
        put_name(name, out);
        out.extend_from_slice(b" = ");
        number(*value, out);
        out.push(b'\n');
    }
    out.push(b'}');
}

/// Writes a name, in quotes if necessary.
pub(super) fn put_name(name: &[u8], out: &mut Vec<u8>) {
    if is_bare(name) { out.extend_from_slice(name) } else { put_string(name, out) }
}

/// Writes a string; after each line end in it, it continues on a new line of the text.
pub(super) fn put_string(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut left = bytes.len();
    for chunk in bytes.utf8_chunks() {
        for unit in chunk.valid().chars() {
            left -= unit.len_utf8();
            match unit {
                '\n' if left > 0 => out.extend_from_slice(b"\\n\"\n    \""),
                _ => whole_unit(unit, out),
            }
        }
        for byte in chunk.invalid() {
            left -= 1;
            out.extend_from_slice(b"\\x");
            hex_byte(*byte, out);
        }
    }
    out.push(b'"');
}

/// Writes a unit of a wide string: a character, or its number if it is not a character.
pub(super) fn put_unit(unit: u64, out: &mut Vec<u8>) {
    match u32::try_from(unit).ok().and_then(char::from_u32) {
        Some(unit) => whole_unit(unit, out),
        None => {
            out.extend_from_slice(b"\\u{");
            hex(unit, out);
            out.push(b'}');
        }
    }
}

/// Writes raw bytes as hex digits.
pub(super) fn put_hex(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"hex \"");
    bytes.iter().for_each(|byte| hex_byte(*byte, out));
    out.push(b'"');
}

pub(super) fn put_float(number: f32, out: &mut Vec<u8>) {
    if number.is_finite() {
        out.extend_from_slice(format!("{number:?}f").as_bytes());
    } else {
        out.extend_from_slice(format!("float({:#x})", number.to_bits()).as_bytes());
    }
}

pub(super) fn put_double(number: f64, out: &mut Vec<u8>) {
    if number.is_finite() {
        out.extend_from_slice(format!("{number:?}").as_bytes());
    } else {
        out.extend_from_slice(format!("double({:#x})", number.to_bits()).as_bytes());
    }
}
