//! Decoders of bodies in other encodings: complete Arrow streams (encoding 18), each with one schema.
//!
//! SPEC: stream.md#rows: the column `_ts` holds the times, the others are named after the fields of the schema.
//! `quipu.schema` in the Arrow metadata is the number of the schema.

use quipu_stream::decode::Registry;

/// Returns the decoders of bodies, for readers of frames.
pub fn registry() -> Registry {
    #[cfg_attr(not(feature = "arrow"), expect(unused_mut))]
    let mut registry = Registry::default();
    #[cfg(feature = "arrow")]
    registry.register(quipu_stream::frame::encoding::ARROW, std::sync::Arc::new(arrow::ArrowRows));
    registry
}

#[cfg(feature = "arrow")]
mod arrow {
    use quipu_arrow::read::StreamRows;
    use quipu_model::column::{Column, ColumnRef};
    use quipu_model::schema::{Field, Missing, Storage, Type};
    use quipu_stream::batch::Batch;
    use quipu_stream::column::{Column as Values, Strings};
    use quipu_stream::decode::RowDecoder;
    use quipu_stream::frame::Header;
    use quipu_stream::meta::Metadata;
    use quipu_stream::wire::layout::{Layout, Shape};
    use quipu_stream::wire::types::Type as Described;
    use std::ops::Range;

    /// Name of the column with the times.
    const TIMES: &str = "_ts";
    /// Key of the Arrow metadata that holds the number of the schema.
    const SCHEMA: &str = "quipu.schema";

    /// Decoder of Arrow bodies.
    pub(super) struct ArrowRows;

    impl RowDecoder for ArrowRows {
        fn decode(&self, _: &Header, payload: &[u8], metadata: &Metadata, batch: &mut Batch) -> (u64, bool) {
            let Ok((stream, cut)) = StreamRows::of(payload) else { return (0, false) };
            let id = stream.about(SCHEMA).and_then(|id| id.parse().ok());
            // Rows of an undescribed schema are skipped, like those of unknown encodings.
            let Some(schema) = id.and_then(|id| metadata.schema(id)) else { return (0, true) };
            let columns = stream.schema();
            let at = |name: &str| columns.position(name);
            let fields: Option<Vec<usize>> =
                schema.fields.iter().map(|field| at(&field.field.name)).collect();
            let (Some(times), Some(fields)) = (at(TIMES), fields) else { return (0, false) };
            let is_alike = schema
                .fields
                .iter()
                .zip(&fields)
                .all(|(field, at)| fits(&field.layout, &columns.fields[*at].ty));
            if !is_alike {
                return (0, false);
            }
            let rows = batch.table_mut(schema);
            let mut is_whole = cut.is_none();
            for part in stream.batches() {
                let Ok(part) = part else {
                    is_whole = false;
                    break;
                };
                let n = part.columns.get(times).map_or(0, Column::len);
                let first = rows.ordinals.len();
                let Ok(end) = u32::try_from(first + n) else {
                    is_whole = false;
                    break;
                };
                rows.ordinals.extend(first as u32..end); // At most `end`.
                let of = part.columns[times].as_ref();
                rows.times.extend((0..n).map(|row| of.number(row)));
                for ((to, field), at) in rows.columns.iter_mut().zip(&schema.fields).zip(&fields) {
                    fill(to, &field.layout, &columns.fields[*at], part.columns[*at].as_ref(), 0..n);
                }
            }
            let n = rows.len() as u64;
            batch.settle();
            (n, is_whole)
        }
    }

    /// True if a column of type `ty` can hold the values of a field.
    fn fits(layout: &Layout, ty: &Type) -> bool {
        let is_number = !matches!(
            ty.storage(),
            Storage::Strings
                | Storage::Nested
                | Storage::Members
                | Storage::Fixed(_)
                | Storage::F32
                | Storage::F64
        );
        match (&layout.shape, ty) {
            (Shape::Int { bytes: 16, .. }, Type::Fixed(16)) => true,
            // Enumerators may be stored as texts.
            (Shape::Int { .. }, Type::Text | Type::Enum(_)) => matches!(layout.ty, Described::Enum { .. }),
            (Shape::Int { .. } | Shape::Bool, _) => is_number,
            (Shape::Float(2 | 4), ty) => *ty == Type::F32,
            (Shape::Float(_), ty) => *ty == Type::F64,
            (Shape::Text, ty) => *ty == Type::Text,
            (Shape::Bytes, ty) => *ty == Type::Bytes,
            (Shape::Fixed(n), ty) => *ty == Type::Fixed(*n),
            (Shape::Struct(members), Type::Struct(fields)) => {
                members.len() == fields.len()
                    && members.iter().zip(fields.iter()).all(|((_, member), field)| fits(member, &field.ty))
            }
            (Shape::Array { element, .. } | Shape::Vector(element), Type::List(item)) => {
                fits(element, &item.ty)
            }
            (Shape::Stack, Type::List(item)) => matches!(item.ty, Type::U64 | Type::Address),
            (Shape::Optional(_, inner), ty) => fits(inner, ty),
            _ => false,
        }
    }

    /// Appends `rows` of a column that [`fits`].
    fn fill(to: &mut Values, layout: &Layout, field: &Field, from: ColumnRef<'_>, rows: Range<usize>) {
        macro_rules! numbers {
            ($to:expr, $ty:ty) => {
                // Truncates to the width of the field; wider numbers are not values of it.
                $to.extend(rows.map(|row| number(layout, field, from, row) as $ty))
            };
        }
        match (to, &layout.shape) {
            (Values::U8(to) | Values::Bool(to), _) => numbers!(to, u8),
            (Values::U16(to), _) => numbers!(to, u16),
            (Values::U32(to), _) => numbers!(to, u32),
            (Values::U64(to), _) => numbers!(to, u64),
            (Values::I8(to), _) => numbers!(to, i8),
            (Values::I16(to), _) => numbers!(to, i16),
            (Values::I32(to), _) => numbers!(to, i32),
            (Values::I64(to), _) => numbers!(to, i64),
            (Values::U128(to), _) => to.extend(rows.map(|row| wide(from, row, false) as u128)),
            (Values::I128(to), _) => to.extend(rows.map(|row| wide(from, row, true))),
            (Values::F16(to), _) => to.extend(rows.map(|row| half(f32::from_bits(from.number(row) as u32)))),
            (Values::F32(to), _) => to.extend(rows.map(|row| f32::from_bits(from.number(row) as u32))),
            (Values::F64(to), _) => to.extend(rows.map(|row| f64::from_bits(from.number(row)))),
            (Values::Text(to) | Values::Bytes(to), _) => rows.for_each(|row| push(to, from.bytes(row))),
            (Values::Fixed { bytes: to, .. }, _) => {
                rows.for_each(|row| to.extend_from_slice(from.bytes(row)))
            }
            (Values::Struct(to), Shape::Struct(members)) => {
                let (Type::Struct(fields), quipu_model::column::CellsRef::Members(columns)) =
                    (&field.ty, from.cells)
                else {
                    return;
                };
                for (((to, (_, layout)), field), from) in
                    to.iter_mut().zip(members).zip(fields.iter()).zip(columns)
                {
                    fill(to, layout, field, from.as_ref(), rows.clone());
                }
            }
            (Values::List { offsets, child }, shape) => {
                let Type::List(item) = &field.ty else { return };
                for row in rows {
                    if let Some((items, range)) = from.items(row) {
                        match (shape, &mut **child) {
                            (Shape::Vector(element), child) => {
                                fill(child, element, item, items.as_ref(), range)
                            }
                            (_, Values::U64(to)) => to.extend(range.map(|at| items.as_ref().number(at))),
                            _ => {}
                        }
                    }
                    offsets.push(u32::try_from(child.len()).unwrap_or(u32::MAX));
                }
            }
            (Values::Array { count, child }, Shape::Array { element, .. }) => {
                let Type::List(item) = &field.ty else { return };
                for row in rows {
                    let n_before = child.len();
                    if let Some((items, range)) = from.items(row) {
                        let end = range.end.min(range.start + *count);
                        fill(child, element, item, items.as_ref(), range.start..end);
                    }
                    // An array has a fixed number of elements: missing ones become zero.
                    let missing = (n_before + *count).saturating_sub(child.len());
                    let none = Column::new(item);
                    (0..missing).for_each(|_| fill(child, element, item, none.as_ref(), 0..1));
                }
            }
            (Values::Optional { offsets, child }, Shape::Optional(_, inner)) => {
                for row in rows {
                    if !from.is_missing(missing_of(field), row) {
                        fill(child, inner, field, from, row..row + 1);
                    }
                    offsets.push(u32::try_from(child.len()).unwrap_or(u32::MAX));
                }
            }
            _ => {}
        }
    }

    fn missing_of(field: &Field) -> Missing {
        field.missing
    }

    /// The number in a row. The name of an enumerator becomes its number.
    fn number(layout: &Layout, field: &Field, from: ColumnRef<'_>, row: usize) -> u64 {
        match (&field.ty, &layout.ty) {
            (Type::Text, Described::Enum { names, .. }) => {
                let text = String::from_utf8_lossy(from.bytes(row));
                let known = names.iter().find(|(_, name)| **name == *text).map(|(number, _)| *number as u64);
                known.or_else(|| text.parse().ok()).unwrap_or(0)
            }
            _ => from.number(row),
        }
    }

    /// A 16-byte number, or a narrower one extended to 16 bytes.
    fn wide(from: ColumnRef<'_>, row: usize, signed: bool) -> i128 {
        match from.bytes(row).try_into() {
            Ok(bytes) => i128::from_le_bytes(bytes),
            Err(_) if signed => i128::from(from.number(row) as i64),
            Err(_) => i128::from(from.number(row)),
        }
    }

    fn push(to: &mut Strings, bytes: &[u8]) {
        to.bytes.extend_from_slice(bytes);
        // A payload has at most 256 MiB, but dictionaries can expand it: values past 4 GiB become empty.
        match u32::try_from(to.bytes.len()) {
            Ok(end) => to.offsets.push(end),
            Err(_) => {
                let last = to.offsets.last().copied().unwrap_or(0);
                to.bytes.truncate(last as usize);
                to.offsets.push(last);
            }
        }
    }

    /// Converts a single-precision number back to the half-precision bits that it was widened from.
    fn half(number: f32) -> u16 {
        let bits = number.to_bits();
        let sign = (bits >> 16 & 0x8000) as u16;
        let (exponent, fraction) = ((bits >> 23 & 0xff) as i32 - 127, bits & 0x7f_ffff);
        match exponent {
            128 => sign | 0x7c00 | (fraction >> 13) as u16,
            -14..=15 => sign | ((exponent + 15) as u16) << 10 | (fraction >> 13) as u16,
            // A subnormal number: the leading one becomes part of the fraction.
            -24..=-15 => sign | ((fraction | 0x80_0000) >> (-exponent - 1)) as u16,
            _ => sign,
        }
    }

    #[cfg(test)]
    mod tests {
        use super::half;
        use quipu_stream::wire::f16_value;

        #[test]
        fn all_numbers_of_half_precision_come_back() {
            for bits in 0..=u16::MAX {
                let number = f16_value(bits) as f32;
                assert!(half(number) == bits || number.is_nan(), "{bits:#x}: {number}");
            }
        }
    }
}
