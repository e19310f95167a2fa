//! Formats the text of a record, by the format of its schema.
//!
//! There are two families of formats: braces (`{name}`), and percent signs like those of C and DTrace, whose conversions
//! take the fields in order. A conversion that does not fit its field prints the field's plain value: formatting never
//! fails.

use crate::batch::Rows;
use crate::column::Column;
use crate::float;
use crate::json::{self, Json};
use crate::meta::Metadata;
use quipu_wire::layout::Layout;
use quipu_wire::types::Type;

/// Upper limit for widths and precisions; larger ones are reduced to it.
const MAX_WIDTH: usize = 4096;

/// The text of a row; `None` if its schema has no format, or one of an unknown dialect.
#[must_use]
pub fn of_record(rows: &Rows, row: usize, metadata: &Metadata) -> Option<String> {
    let format = metadata.format(rows.schema.record.format?)?;
    Some(match format.dialect {
        Some(3) => braces(&format.text, rows, row),
        None | Some(1 | 2 | 4) => percent(&format.text, rows, row),
        Some(_) => return None,
    })
}

/// The plain text of a value.
fn plain(column: &Column, layout: &Layout, row: usize) -> String {
    match json::value(column, layout, row) {
        Json::Text(text) => text,
        other => other.to_string(),
    }
}

fn braces(format: &str, rows: &Rows, row: usize) -> String {
    let mut out = String::new();
    let mut rest = format;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let (brace, after) = rest[at..].split_at(1);
        rest = after;
        if let Some(after) = rest.strip_prefix(brace) {
            out.push_str(brace);
            rest = after;
            continue;
        }
        let name = (brace == "{").then(|| rest.split_once('}')).flatten();
        let field = name.and_then(|(name, _)| {
            let at = rows.schema.fields.iter().position(|field| field.field.name == name)?;
            Some((&rows.columns[at], &rows.schema.fields[at].layout))
        });
        match (field, name) {
            (Some((column, layout)), Some((_, after))) => {
                out.push_str(&plain(column, layout, row));
                rest = after;
            }
            _ => out.push_str(brace),
        }
    }
    out + rest
}

/// One conversion specification, such as `%-8x`.
#[derive(Default)]
struct Conversion {
    left: bool,
    zero: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
    letter: char,
}

/// Reads a conversion after its percent sign; also returns its length in bytes.
fn conversion(text: &str, mut star: impl FnMut() -> i128) -> Option<(Conversion, usize)> {
    let mut conversion = Conversion::default();
    let mut chars = text.char_indices().peekable();
    while let Some((_, flag)) = chars.peek().copied() {
        match flag {
            '-' => conversion.left = true,
            '0' => conversion.zero = true,
            '+' => conversion.plus = true,
            ' ' => conversion.space = true,
            '#' => conversion.alternate = true,
            '\'' | '@' | '?' => {}
            _ => break,
        }
        chars.next();
    }
    let mut number = |chars: &mut std::iter::Peekable<std::str::CharIndices<'_>>| {
        if chars.next_if(|(_, c)| *c == '*').is_some() {
            let n = star();
            return (n.unsigned_abs().min(MAX_WIDTH as u128) as usize, n < 0); // At most the limit.
        }
        let mut n = 0_usize;
        while let Some((_, digit)) = chars.next_if(|(_, c)| c.is_ascii_digit()) {
            n = (n * 10 + digit as usize - '0' as usize).min(MAX_WIDTH);
        }
        (n, false)
    };
    let (width, is_negative) = number(&mut chars);
    conversion.width = width;
    conversion.left |= is_negative;
    if chars.next_if(|(_, c)| *c == '.').is_some() {
        let (n, is_negative) = number(&mut chars);
        conversion.precision = (!is_negative).then_some(n);
    }
    while chars.next_if(|(_, c)| matches!(c, 'h' | 'l' | 'L' | 'w' | 'q' | 'j' | 'z' | 't')).is_some() {}
    let (at, letter) = chars.next()?;
    conversion.letter = letter;
    Some((conversion, at + letter.len_utf8()))
}

fn percent(format: &str, rows: &Rows, row: usize) -> String {
    let mut fields = rows.columns.iter().zip(&rows.schema.fields);
    let mut out = String::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let star = || fields.next().and_then(|(column, _)| column.as_int(row)).unwrap_or_default();
        let Some((conversion, len)) = conversion(after, star) else {
            out.push('%');
            rest = after;
            continue;
        };
        rest = &after[len..];
        if let Some((column, field)) = fields.next() {
            converted(&conversion, column, &field.layout, row, &mut out);
        }
    }
    out + rest
}

fn converted(how: &Conversion, column: &Column, layout: &Layout, row: usize, out: &mut String) {
    let int = column.as_int(row);
    let float = match column {
        Column::F16(values) => Some(quipu_wire::f16_value(values[row])),
        Column::F32(values) => Some(f64::from(values[row])),
        Column::F64(values) => Some(values[row]),
        _ => None,
    };
    let bits = layout.size.min(16) * 8;
    // The bits of a negative number, in the width of its type.
    let unsigned = |n: i128| if bits >= 128 { n as u128 } else { n as u128 & ((1 << bits) - 1) };
    let digits = |text: String| match how.precision {
        Some(n) if text.len() < n => format!("{text:0>n$}"),
        _ => text,
    };
    let (mut sign, body) = match (how.letter, int, float) {
        ('d' | 'i', Some(n), _) => (if n < 0 { "-" } else { "" }, digits(n.unsigned_abs().to_string())),
        ('u', Some(n), _) => ("", digits(unsigned(n).to_string())),
        ('o', Some(n), _) => (if how.alternate { "0" } else { "" }, digits(format!("{:o}", unsigned(n)))),
        ('x', Some(n), _) => {
            (if how.alternate && n != 0 { "0x" } else { "" }, digits(format!("{:x}", unsigned(n))))
        }
        ('X', Some(n), _) => {
            (if how.alternate && n != 0 { "0X" } else { "" }, digits(format!("{:X}", unsigned(n))))
        }
        ('p' | 'a' | 'A', Some(n), _) => ("0x", format!("{:x}", unsigned(n))),
        ('c', Some(n), _) => {
            let letter = u32::try_from(unsigned(n)).ok().and_then(char::from_u32);
            ("", letter.unwrap_or(char::REPLACEMENT_CHARACTER).to_string())
        }
        ('f' | 'F' | 'e' | 'E' | 'g' | 'G', _, Some(x)) => {
            let mut text = Vec::new();
            float::digits(&mut text, x, how.letter as u8, how.precision, how.alternate); // It is one of six of ASCII.
            let text = String::from_utf8(text).unwrap_or_default();
            (if x.is_sign_negative() { "-" } else { "" }, text)
        }
        _ => {
            let mut text = plain(column, layout, row);
            if let (Some(n), Type::String) = (how.precision, &layout.ty) {
                text = text.chars().take(n).collect();
            }
            ("", text)
        }
    };
    let is_signed = matches!(how.letter, 'd' | 'i' | 'f' | 'F' | 'e' | 'E' | 'g' | 'G');
    if sign.is_empty() && is_signed {
        sign = if how.plus {
            "+"
        } else if how.space {
            " "
        } else {
            ""
        };
    }
    let len = sign.len() + body.chars().count();
    let room = how.width.saturating_sub(len);
    let is_number = int.is_some() || float.is_some();
    if how.left {
        out.push_str(&format!("{sign}{body}{:room$}", ""));
    } else if how.zero && is_number && (how.precision.is_none() || float.is_some()) {
        out.push_str(&format!("{sign}{}{body}", "0".repeat(room)));
    } else {
        out.push_str(&format!("{:room$}{sign}{body}", ""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_wire::layout;

    #[test]
    fn numbers_with_a_point_are_those_of_c() {
        let layout = layout::resolve(None, &Type::Float(64), |_| None).unwrap();
        let text = |format: &str, value: f64| {
            let (how, _) = conversion(format, || 0).unwrap();
            let mut out = String::new();
            converted(&how, &Column::F64(vec![value]), &layout, 0, &mut out);
            out
        };
        assert_eq!(text("g", 1e-7), "1e-07");
        assert_eq!(text("12.3g", -1234.5), "   -1.23e+03");
        assert_eq!(text("G", 1e9), "1E+09");
        assert_eq!(text("+.2e", 1.5), "+1.50e+00");
        assert_eq!(text("f", f64::NAN), "nan");
    }
}
