//! Single values of any type, for writing rows without a structure of the program.

use crate::column::Column;
use crate::packed::{put_sv, put_uv};
use quipu_wire::layout::{Layout, Shape};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// An integer as its bits, sign-extended.
    Int(u128),
    /// A floating-point number as its bits.
    Float(u64),
    /// True or false.
    Bool(bool),
    /// A text, or a byte string of variable or fixed length.
    Bytes(Vec<u8>),
    /// Elements, members or return addresses.
    List(Vec<Datum>),
    /// An optional value.
    Maybe(Option<Box<Datum>>),
    /// A case of a variant: its tag and the value.
    Case(u32, Box<Datum>),
}

/// The value of a row.
#[must_use]
pub fn of_column(column: &Column, row: usize) -> Datum {
    let range = |child: &Column, range: std::ops::Range<usize>| {
        Datum::List(range.map(|at| of_column(child, at)).collect())
    };
    match column {
        Column::F16(values) => Datum::Float(values[row].into()),
        Column::F32(values) => Datum::Float(values[row].to_bits().into()),
        Column::F64(values) => Datum::Float(values[row].to_bits()),
        Column::Bool(values) => Datum::Bool(values[row] != 0),
        Column::Text(strings) | Column::Bytes(strings) => Datum::Bytes(strings.get(row).to_vec()),
        Column::Fixed { width, bytes } => Datum::Bytes(bytes[row * width..(row + 1) * width].to_vec()),
        Column::Struct(members) => Datum::List(members.iter().map(|member| of_column(member, row)).collect()),
        Column::List { offsets, child } => range(child, offsets[row] as usize..offsets[row + 1] as usize),
        Column::Array { count, child } => range(child, row * count..(row + 1) * count),
        Column::Optional { offsets, child } => {
            let is_there = offsets[row] < offsets[row + 1];
            Datum::Maybe(is_there.then(|| Box::new(of_column(child, offsets[row] as usize))))
        }
        Column::Variant { cases, rows, children } => {
            let (tag, child) = &children[cases[row] as usize];
            Datum::Case(*tag, Box::new(of_column(child, rows[row] as usize)))
        }
        _ => Datum::Int(column.int_bits(row)),
    }
}

/// Writes the plain form of `value` at offset `at` of the body that begins at `start` of `out`; variable parts are appended.
/// `None` if the value is not of this type.
pub fn put_plain(layout: &Layout, value: &Datum, out: &mut Vec<u8>, start: usize, at: usize) -> Option<()> {
    let place = start + at;
    let put = |out: &mut Vec<u8>, bytes: &[u8]| {
        out.get_mut(place..place + bytes.len()).map(|place| place.copy_from_slice(bytes))
    };
    let piece = |offset: usize, n: usize| {
        let (offset, n) = (u32::try_from(offset).ok()?, u32::try_from(n).ok()?);
        Some((u64::from(offset) | u64::from(n) << 32).to_le_bytes())
    };
    match (&layout.shape, value) {
        (Shape::Int { bytes, .. }, Datum::Int(n)) => put(out, &n.to_le_bytes()[..usize::from(*bytes)])?,
        (Shape::Float(bytes), Datum::Float(bits)) => put(out, &bits.to_le_bytes()[..usize::from(*bytes)])?,
        (Shape::Bool, Datum::Bool(yes)) => put(out, &[u8::from(*yes)])?,
        (Shape::Fixed(n), Datum::Bytes(bytes)) if bytes.len() == *n as usize => put(out, bytes)?,
        (Shape::Text | Shape::Bytes, Datum::Bytes(bytes)) => {
            let head = piece(out.len() - start, bytes.len())?;
            put(out, &head)?;
            out.extend_from_slice(bytes);
        }
        (Shape::Struct(members), Datum::List(values)) if members.len() == values.len() => {
            for ((offset, member), value) in members.iter().zip(values) {
                put_plain(member, value, out, start, at + *offset as usize)?;
            }
        }
        (Shape::Array { count, element }, Datum::List(values)) if values.len() == *count as usize => {
            for (n, value) in values.iter().enumerate() {
                put_plain(element, value, out, start, at + n * element.size as usize)?;
            }
        }
        (Shape::Stack, Datum::List(frames)) => {
            let head = piece(out.len() - start, frames.len())?;
            put(out, &head)?;
            for frame in frames {
                let Datum::Int(pc) = frame else { return None };
                out.extend_from_slice(&(*pc as u64).to_le_bytes()); // Addresses have 64 bits.
            }
        }
        (Shape::Vector(element), Datum::List(values)) => {
            let offset = (out.len() - start).next_multiple_of(element.align as usize);
            let head = piece(offset, values.len())?;
            put(out, &head)?;
            out.resize(start + offset + values.len() * element.size as usize, 0);
            for (n, value) in values.iter().enumerate() {
                put_plain(element, value, out, start, offset + n * element.size as usize)?;
            }
        }
        (Shape::Optional(..), Datum::Maybe(None)) => put(out, &[0])?,
        (Shape::Optional(offset, inner), Datum::Maybe(Some(value))) => {
            put(out, &[1])?;
            put_plain(inner, value, out, start, at + *offset as usize)?;
        }
        (Shape::Variant(cases), Datum::Case(tag, value)) => {
            let (_, case) = cases.iter().find(|(known, _)| known == tag)?;
            let offset = (out.len() - start).next_multiple_of(8);
            let head = piece(*tag as usize, offset)?;
            put(out, &head)?;
            out.resize(start + offset + case.size as usize, 0);
            put_plain(case, value, out, start, offset)?;
        }
        _ => return None,
    }
    Some(())
}

/// Appends the packed form; `None` if the value is not of this type.
pub fn put_packed(layout: &Layout, value: &Datum, out: &mut Vec<u8>) -> Option<()> {
    match (&layout.shape, value) {
        (Shape::Int { bytes, signed }, Datum::Int(n)) => {
            let unused = 128 - 8 * u32::from(*bytes);
            if *signed {
                put_sv((*n as i128) << unused >> unused, out);
            } else {
                put_uv(n << unused >> unused, out);
            }
        }
        (Shape::Float(bytes), Datum::Float(bits)) => {
            out.extend_from_slice(&bits.to_le_bytes()[..usize::from(*bytes)]);
        }
        (Shape::Bool, Datum::Bool(yes)) => out.push((*yes).into()),
        (Shape::Fixed(n), Datum::Bytes(bytes)) if bytes.len() == *n as usize => out.extend_from_slice(bytes),
        (Shape::Text | Shape::Bytes, Datum::Bytes(bytes)) => {
            put_uv(bytes.len() as u128, out);
            out.extend_from_slice(bytes);
        }
        (Shape::Struct(members), Datum::List(values)) if members.len() == values.len() => {
            for ((_, member), value) in members.iter().zip(values) {
                put_packed(member, value, out)?;
            }
        }
        (Shape::Array { count, element }, Datum::List(values)) if values.len() == *count as usize => {
            values.iter().try_for_each(|value| put_packed(element, value, out))?;
        }
        (Shape::Stack, Datum::List(frames)) => {
            put_uv(frames.len() as u128, out);
            let mut before = 0_u64;
            for frame in frames {
                let Datum::Int(pc) = frame else { return None };
                let pc = *pc as u64; // Addresses have 64 bits.
                put_sv((pc.wrapping_sub(before) as i64).into(), out);
                before = pc;
            }
        }
        (Shape::Vector(element), Datum::List(values)) => {
            put_uv(values.len() as u128, out);
            values.iter().try_for_each(|value| put_packed(element, value, out))?;
        }
        (Shape::Optional(..), Datum::Maybe(None)) => out.push(0),
        (Shape::Optional(_, inner), Datum::Maybe(Some(value))) => {
            out.push(1);
            put_packed(inner, value, out)?;
        }
        (Shape::Variant(cases), Datum::Case(tag, value)) => {
            let (_, case) = cases.iter().find(|(known, _)| known == tag)?;
            put_uv((*tag).into(), out);
            put_packed(case, value, out)?;
        }
        _ => return None,
    }
    Some(())
}
