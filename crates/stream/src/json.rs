//! Values as JSON: prints records for programs, and reads rows from JSON lines.

use crate::batch::{Batch, Rows};
use crate::column::Column;
use crate::meta::Metadata;
use crate::text;
use quipu_wire::cbor;
use quipu_wire::f16_value;
use quipu_wire::layout::{Layout, Shape};
use quipu_wire::types::Type;
use std::fmt;
use std::sync::Arc;

/// A JSON value with 128-bit integers.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// Null.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// An integer above 2¹²⁷−1.
    Wide(u128),
    /// A floating-point number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// Names and values, in insertion order.
    Object(Vec<(String, Json)>),
}

impl From<u64> for Json {
    fn from(n: u64) -> Json {
        Json::Int(n.into())
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Text(text.to_owned())
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(yes) => write!(f, "{yes}"),
            Json::Int(n) => write!(f, "{n}"),
            Json::Wide(n) => write!(f, "{n}"),
            Json::Float(x) if x.is_finite() => write!(f, "{x:?}"),
            // JSON has no infinities and no NaN.
            Json::Float(x) => write!(f, "\"{x}\""),
            Json::Text(text) => f.write_str(&quoted(text)),
            Json::List(items) => {
                f.write_str("[")?;
                for (n, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if n == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Json::Object(pairs) => {
                f.write_str("{")?;
                for (n, (name, value)) in pairs.iter().enumerate() {
                    write!(f, "{}{}: {value}", if n == 0 { "" } else { ", " }, quoted(name))?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Formats bytes in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    put_hex(bytes, &mut text);
    String::from_utf8(text).unwrap_or_default()
}

/// Appends bytes in hexadecimal.
pub fn put_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(2 * bytes.len());
    for byte in bytes {
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// Converts a CBOR value.
#[must_use]
pub fn of_cbor(value: &cbor::Value) -> Json {
    match value {
        cbor::Value::Uint(n) => Json::Int((*n).into()),
        cbor::Value::Nint(n) => Json::Int(-1 - i128::from(*n)),
        cbor::Value::Bytes(bytes) => Json::Text(hex(bytes)),
        cbor::Value::Text(text) => Json::Text(text.clone()),
        cbor::Value::Array(items) => Json::List(items.iter().map(of_cbor).collect()),
        cbor::Value::Map(pairs) => Json::Object(
            pairs
                .iter()
                .map(|(key, value)| {
                    let key = match key {
                        cbor::Value::Text(text) => text.clone(),
                        other => of_cbor(other).to_string(),
                    };
                    (key, of_cbor(value))
                })
                .collect(),
        ),
        cbor::Value::Bool(yes) => Json::Bool(*yes),
        cbor::Value::Null => Json::Null,
        cbor::Value::Simple(n) => Json::Int((*n).into()),
        cbor::Value::Float(x) => Json::Float(*x),
    }
}

/// The value of a row as JSON.
#[must_use]
pub fn value(column: &Column, layout: &Layout, row: usize) -> Json {
    let elements = |child: &Column, element: &Layout, range: std::ops::Range<usize>| {
        Json::List(range.map(|at| value(child, element, at)).collect())
    };
    match (column, &layout.shape) {
        (Column::U128(values), _) => i128::try_from(values[row]).map_or(Json::Wide(values[row]), Json::Int),
        (Column::F16(values), _) => Json::Float(f16_value(values[row])),
        (Column::F32(values), _) => Json::Float(values[row].into()),
        (Column::F64(values), _) => Json::Float(values[row]),
        (Column::Bool(values), _) => Json::Bool(values[row] != 0),
        (Column::Text(strings), _) => Json::Text(String::from_utf8_lossy(strings.get(row)).into_owned()),
        (Column::Bytes(strings), _) => Json::Text(hex(strings.get(row))),
        (Column::Fixed { width, bytes }, _) => Json::Text(hex(&bytes[row * width..(row + 1) * width])),
        (Column::Struct(columns), Shape::Struct(members)) => {
            let Type::Struct { members: named, .. } = &layout.ty else { return Json::Null };
            let all = columns.iter().zip(members).zip(named);
            Json::Object(
                all.map(|((column, (_, member)), named)| (named.name.clone(), value(column, member, row)))
                    .collect(),
            )
        }
        (Column::Array { count, child }, Shape::Array { element, .. }) => {
            elements(child, element, row * count..(row + 1) * count)
        }
        (Column::List { offsets, child }, shape) => {
            let range = offsets[row] as usize..offsets[row + 1] as usize;
            match (shape, &**child) {
                (Shape::Vector(element), child) => elements(child, element, range),
                (_, Column::U64(frames)) => {
                    Json::List(frames[range].iter().map(|pc| Json::from(*pc)).collect())
                }
                _ => Json::Null,
            }
        }
        (Column::Optional { offsets, child }, Shape::Optional(_, inner)) => {
            if offsets[row] == offsets[row + 1] {
                Json::Null
            } else {
                value(child, inner, offsets[row] as usize)
            }
        }
        (Column::Variant { cases, rows, children }, Shape::Variant(layouts)) => {
            let case = cases[row] as usize;
            let inner = value(&children[case].1, &layouts[case].1, rows[row] as usize);
            Json::List(vec![Json::from(u64::from(children[case].0)), inner])
        }
        _ => {
            let n = column.as_int(row).unwrap_or_default();
            match &layout.ty {
                Type::Enum { names, .. } => names
                    .iter()
                    .find(|(known, _)| *known == n)
                    .map_or(Json::Int(n), |(_, name)| Json::Text(name.clone())),
                _ => Json::Int(n),
            }
        }
    }
}

/// A record: its schema, its time, its fields by name, and its text if it has a format. A field whose text is not UTF-8 is
/// given in hexadecimal under its name with `_hex`; the record then has no text.
#[must_use]
pub fn record(rows: &Rows, row: usize, metadata: &Metadata) -> Vec<(String, Json)> {
    let mut pairs = vec![
        ("schema".to_owned(), Json::Text(rows.schema.name())),
        ("ts".to_owned(), rows.times[row].into()),
    ];
    let mut is_text = true;
    for (column, field) in rows.columns.iter().zip(&rows.schema.fields) {
        let name = field.field.name.clone();
        pairs.push(match column {
            Column::Text(strings) if std::str::from_utf8(strings.get(row)).is_err() => {
                is_text = false;
                (name + "_hex", Json::Text(hex(strings.get(row))))
            }
            _ => (name, value(column, &field.layout, row)),
        });
    }
    if is_text && let Some(text) = text::of_record(rows, row, metadata) {
        pairs.push(("text".to_owned(), Json::Text(text)));
    }
    pairs
}

/// Decodes rows from JSON objects, one per line. Returns the number of decoded and of undecoded rows, and whether a line was
/// not such an object or did not fit its schema.
pub(crate) fn decode_lines(payload: &[u8], metadata: &Metadata, batch: &mut Batch) -> (u64, u64, bool) {
    let (mut decoded, mut undecoded, mut invalid) = (0, 0, false);
    let lines = payload.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    for line in lines {
        let ordinal = (decoded + undecoded) as u32; // A payload has at most 256 MiB.
        let object = serde_json::from_slice::<serde_json::Value>(line);
        let Some(object) = object.as_ref().ok().and_then(serde_json::Value::as_object) else {
            undecoded += 1;
            invalid = true;
            continue;
        };
        let name = object.get("_s").and_then(serde_json::Value::as_str).unwrap_or_default();
        let Some(schema) = metadata.schema_named(name) else {
            undecoded += 1;
            continue;
        };
        let schema = Arc::clone(schema);
        let slot = batch.slot(&schema);
        let rows = batch.rows_mut(slot);
        let n = rows.len();
        let time = object.get("_t").and_then(serde_json::Value::as_u64);
        let mut fields = rows.columns.iter_mut().zip(&schema.fields);
        let is_right = time.is_some()
            && fields.all(|(column, field)| {
                let null = serde_json::Value::Null;
                let given = object.get(&field.field.name).unwrap_or(&null);
                push_json(column, &field.layout, given).is_some()
            });
        if is_right {
            rows.times.push(time.unwrap_or_default());
            rows.ordinals.push(ordinal);
            decoded += 1;
        } else {
            rows.columns.iter_mut().for_each(|column| column.truncate(n));
            undecoded += 1;
            invalid = true;
        }
    }
    batch.settle();
    (decoded, undecoded, invalid)
}

/// Adds a value in the form in which [`value`] prints it.
fn push_json(column: &mut Column, layout: &Layout, given: &serde_json::Value) -> Option<()> {
    let bytes = |given: &serde_json::Value| -> Option<Vec<u8>> {
        let text = given.as_str()?;
        let pair = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
        (text.len() % 2 == 0).then_some(())?;
        (0..text.len()).step_by(2).map(pair).collect()
    };
    match (column, &layout.shape) {
        (Column::F32(values), _) => values.push(given.as_f64()? as f32), // Rounded.
        (Column::F64(values), _) => values.push(given.as_f64()?),
        // JSON rows have no half-precision numbers.
        (Column::F16(_), _) => return None,
        (Column::Bool(values), _) => values.push(given.as_bool()?.into()),
        (column @ (Column::Text(_) | Column::Bytes(_) | Column::Fixed { .. }), _) => {
            let bytes = match column {
                Column::Text(_) => given.as_str()?.as_bytes().to_vec(),
                _ => bytes(given)?,
            };
            return column.push_bytes(&bytes);
        }
        (Column::Struct(columns), Shape::Struct(members)) => {
            let Type::Struct { members: named, .. } = &layout.ty else { return None };
            for ((column, (_, member)), named) in columns.iter_mut().zip(members).zip(named) {
                push_json(column, member, given.get(&named.name)?)?;
            }
        }
        (Column::Array { count, child }, Shape::Array { element, .. }) => {
            let items = given.as_array().filter(|items| items.len() == *count)?;
            items.iter().try_for_each(|item| push_json(child, element, item))?;
        }
        (Column::List { offsets, child }, shape) => {
            for item in given.as_array()? {
                match (shape, &mut **child) {
                    (Shape::Vector(element), child) => push_json(child, element, item)?,
                    (_, Column::U64(frames)) => frames.push(item.as_u64()?),
                    _ => return None,
                }
            }
            offsets.push(u32::try_from(child.len()).ok()?);
        }
        (Column::Optional { offsets, child }, Shape::Optional(_, inner)) => {
            if !given.is_null() {
                push_json(child, inner, given)?;
            }
            offsets.push(u32::try_from(child.len()).ok()?);
        }
        (Column::Variant { cases, rows, children }, Shape::Variant(layouts)) => {
            let [tag, inner] = given.as_array()?.as_slice() else { return None };
            let case = layouts.iter().position(|(known, _)| Some(u64::from(*known)) == tag.as_u64())?;
            let child = &mut children[case].1;
            let row = child.len();
            if push_json(child, &layouts[case].1, inner).is_none() {
                child.truncate(row);
                return None;
            }
            cases.push(case as u32); // Few.
            rows.push(u32::try_from(row).ok()?);
        }
        (column, Shape::Int { bytes, signed }) => {
            let n = match (&layout.ty, given) {
                (Type::Enum { names, .. }, serde_json::Value::String(name)) => {
                    names.iter().find(|(_, known)| known == name)?.0
                }
                (_, given) => given
                    .as_u64()
                    .map(i128::from)
                    .or_else(|| given.as_i64().map(i128::from))
                    // Numbers of more than 64 bits are given as texts.
                    .or_else(|| given.as_str()?.parse().ok())?,
            };
            let bits = u32::from(*bytes) * 8;
            let fits = match (signed, bits) {
                (_, 128) => *signed || n >= 0,
                (false, _) => (0..1 << bits).contains(&n),
                (true, _) => (-(1 << (bits - 1))..1 << (bits - 1)).contains(&n),
            };
            fits.then(|| column.push_int(n as u128))?; // The same bits.
        }
        _ => return None,
    }
    Some(())
}
