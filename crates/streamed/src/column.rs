//! Converts columns of a stream to columns of tables.
//!
//! Numbers, texts, bytes, lists and structures keep their shape. Types that tables lack become text: 128-bit numbers,
//! variants and references to tables of the stream.

use quipu_model::column::Cells;
use quipu_model::schema::{Field, Names, Storage, Type};
use quipu_model::{Column, Result};
use quipu_stream::column::Column as Values;
use quipu_stream::json;
use quipu_stream::meta::Metadata;
use quipu_stream::wire::cbor::Value;
use quipu_stream::wire::f16_value;
use quipu_stream::wire::layout::{Layout, Shape};
use quipu_stream::wire::types::Type as Described;
use std::ops::Range;
use std::sync::Arc;

/// How values of a type are represented in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A number of at most 64 bits.
    Number,
    /// Text in place of a type that tables lack.
    Said,
    /// The same shape as in the stream.
    Same,
}

impl Form {
    pub(crate) fn of(layout: &Layout) -> Form {
        match (&layout.ty, &layout.shape) {
            (Described::Reference(_), _) | (_, Shape::Variant(_)) => Form::Said,
            (_, Shape::Int { bytes, .. }) if *bytes > 8 => Form::Said,
            (_, Shape::Int { .. } | Shape::Bool) => Form::Number,
            _ => Form::Same,
        }
    }
}

/// The storage of an integer of `bytes` bytes.
fn storage(bytes: u8, signed: bool) -> Storage {
    match (bytes, signed) {
        (1, false) => Storage::U8,
        (2, false) => Storage::U16,
        (4, false) => Storage::U32,
        (_, false) => Storage::U64,
        (1, true) => Storage::I8,
        (2, true) => Storage::I16,
        (4, true) => Storage::I32,
        (_, true) => Storage::I64,
    }
}

/// The names of an enumeration or of flags, if the layout has some.
pub(crate) fn names_of(layout: &Layout) -> Option<Names> {
    let (Described::Enum { names, .. } | Described::Flags { names, .. }) = &layout.ty else { return None };
    let Shape::Int { bytes: bytes @ 1..=8, signed } = layout.shape else { return None };
    // Columns hold negative numbers as 64-bit two's complement.
    let number = |n: i128| match n < 0 {
        true => i64::try_from(n).ok().map(|n| n as u64),
        false => u64::try_from(n).ok(),
    };
    let names = names.iter().filter_map(|(n, name)| Some((number(*n)?, name.clone())));
    Some(Names::new(storage(bytes, signed), names))
}

/// The column of a field, without role, unit and flags of the schema.
pub(crate) fn field_of(name: String, layout: &Layout) -> Field {
    let field = |ty: Type| Field::new(name.clone(), ty, "");
    if Form::of(layout) == Form::Said {
        return field(Type::Text);
    }
    match (&layout.shape, &layout.ty) {
        (Shape::Optional(_, inner), _) => field_of(name, inner).optional(),
        (Shape::Bool, _) => field(Type::Bool),
        (Shape::Int { .. }, Described::Enum { .. }) => match names_of(layout) {
            Some(names) => field(Type::Enum(names.shared())),
            None => field(Type::Text),
        },
        (Shape::Int { .. }, Described::Flags { .. }) => match names_of(layout) {
            Some(names) => field(Type::Flags(names.shared())),
            None => field(Type::Text),
        },
        (Shape::Int { bytes: 8, signed: false }, Described::Timestamp(clock)) => {
            field(Type::Time { clock: *clock })
        }
        (Shape::Int { bytes, signed }, ty) => {
            let is_address = matches!(ty, Described::Address { .. } | Described::Pointer { .. });
            let number = match storage(*bytes, *signed) {
                Storage::U64 if is_address => Type::Address,
                storage => Type::of_numbers(storage).unwrap_or(Type::U64),
            };
            let field = field(number);
            if is_address { field.hex() } else { field }
        }
        (Shape::Float(2 | 4), _) => field(Type::F32),
        (Shape::Float(_), _) => field(Type::F64),
        (Shape::Text, _) => field(Type::Text),
        (Shape::Bytes, _) => field(Type::Bytes),
        (Shape::Fixed(n), _) => field(Type::Fixed(*n)),
        (Shape::Array { element, .. } | Shape::Vector(element), _) => {
            field(Type::List(Arc::new(field_of("item".to_owned(), element))))
        }
        (Shape::Stack, _) => field(Type::List(Arc::new(Field::new("frame", Type::Address, "").hex()))),
        (Shape::Struct(members), Described::Struct { members: named, .. }) => {
            let fields = members.iter().zip(named);
            field(Type::Struct(
                fields.map(|((_, layout), named)| field_of(named.name.clone(), layout)).collect(),
            ))
        }
        (Shape::Struct(_) | Shape::Variant(_), _) => field(Type::Text),
    }
}

/// Appends some rows of a column of a stream.
///
/// # Errors
/// `Limit` if a column is full.
pub(crate) fn extend(
    to: &mut Column,
    from: &Values,
    layout: &Layout,
    rows: Range<usize>,
    metadata: &Metadata,
) -> Result<()> {
    macro_rules! copy {
        ($to:expr, $from:expr) => {
            $to.extend_from_slice($from.get(rows.clone()).unwrap_or_default())
        };
    }
    if Form::of(layout) == Form::Said {
        for row in rows {
            to.push_bytes(said(from, layout, row, metadata).as_bytes())?;
        }
        return Ok(());
    }
    match (from, &mut to.cells) {
        (Values::U8(from) | Values::Bool(from), Cells::U8(to)) => copy!(to, from),
        (Values::U16(from), Cells::U16(to)) => copy!(to, from),
        (Values::U32(from), Cells::U32(to)) => copy!(to, from),
        (Values::U64(from), Cells::U64(to)) => copy!(to, from),
        (Values::I8(from), Cells::I8(to)) => copy!(to, from),
        (Values::I16(from), Cells::I16(to)) => copy!(to, from),
        (Values::I32(from), Cells::I32(to)) => copy!(to, from),
        (Values::I64(from), Cells::I64(to)) => copy!(to, from),
        (Values::F16(from), Cells::F32(to)) => {
            // Every half-precision number is representable in single precision.
            to.extend(from.get(rows).unwrap_or_default().iter().map(|bits| f16_value(*bits) as f32));
        }
        (Values::F32(from), Cells::F32(to)) => copy!(to, from),
        (Values::F64(from), Cells::F64(to)) => copy!(to, from),
        (Values::Text(from), Cells::Strings(to)) => {
            rows.for_each(|row| to.push(String::from_utf8_lossy(from.get(row)).as_bytes()));
        }
        (Values::Bytes(from), Cells::Strings(to)) => rows.for_each(|row| to.push(from.get(row))),
        (Values::Fixed { width, bytes }, Cells::Fixed { bytes: to, .. }) => {
            to.extend_from_slice(bytes.get(rows.start * width..rows.end * width).unwrap_or_default());
        }
        (Values::Struct(columns), Cells::Members(members)) => {
            let Shape::Struct(layouts) = &layout.shape else { return Ok(()) };
            for ((to, from), (_, layout)) in members.iter_mut().zip(columns).zip(layouts) {
                extend(to, from, layout, rows.clone(), metadata)?;
            }
        }
        (Values::Array { count, child }, _) => {
            let Shape::Array { element, .. } = &layout.shape else { return Ok(()) };
            for row in rows {
                let items = row * count..(row + 1) * count;
                to.push_list(|to| extend(to, child, element, items, metadata))?;
            }
        }
        (Values::List { offsets, child }, _) => {
            for row in rows {
                let items = offsets[row] as usize..offsets[row + 1] as usize;
                to.push_list(|to| match (&layout.shape, &**child, &mut to.cells) {
                    (Shape::Vector(element), child, _) => extend(to, child, element, items, metadata),
                    (_, Values::U64(frames), Cells::U64(to)) => {
                        to.extend_from_slice(frames.get(items).unwrap_or_default());
                        Ok(())
                    }
                    _ => Ok(()),
                })?;
            }
        }
        (Values::Optional { offsets, child }, _) => {
            let Shape::Optional(_, inner) = &layout.shape else { return Ok(()) };
            for row in rows {
                let at = offsets[row] as usize;
                if offsets[row] == offsets[row + 1] {
                    to.push_missing(quipu_model::schema::Missing::Bitmap);
                } else {
                    extend(to, child, inner, at..at + 1, metadata)?;
                }
            }
        }
        _ => {}
    }
    // Marks the values that were appended in bulk as valid.
    let n_rows = to.cells.as_ref().len();
    if let Some(valid) = &mut to.valid {
        valid.push_all(true, n_rows.saturating_sub(valid.len()));
    }
    Ok(())
}

/// A value as text.
fn said(from: &Values, layout: &Layout, row: usize, metadata: &Metadata) -> String {
    if let Described::Reference(table) = layout.ty
        && let Some(index) = from.as_int(row)
    {
        let values = metadata.tables().get(&table).map(|table| &table.values);
        return match values.and_then(|values| values.get(&u64::try_from(index).ok()?)) {
            Some(Value::Text(text)) => text.clone(),
            Some(other) => json::of_cbor(other).to_string(),
            None => index.to_string(),
        };
    }
    plain(&json::value(from, layout, row))
}

/// A JSON value as text, without quotes around strings.
pub(crate) fn plain(value: &json::Json) -> String {
    match value {
        json::Json::Text(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The number in a row, sign-extended to 64 bits; 0 for values that are not numbers.
#[inline]
pub(crate) fn number(from: &Values, row: usize) -> u64 {
    match from {
        Values::U8(values) | Values::Bool(values) => values[row].into(),
        Values::U16(values) => values[row].into(),
        Values::U32(values) => values[row].into(),
        Values::U64(values) => values[row],
        Values::I8(values) => i64::from(values[row]) as u64,
        Values::I16(values) => i64::from(values[row]) as u64,
        Values::I32(values) => i64::from(values[row]) as u64,
        Values::I64(values) => values[row] as u64,
        _ => 0,
    }
}
