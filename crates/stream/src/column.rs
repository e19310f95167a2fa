//! Columns of any type: each field of the rows is decoded into one column, nested types into columns of columns.
//!
//! A column keeps its memory when it is cleared, so decoding a frame allocates only if the frame is larger than all before it.

use crate::packed::Cursor;
use quipu_wire::layout::{Layout, Shape};

/// Byte strings, concatenated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strings {
    /// The offset of each string, and the end of the last one.
    pub offsets: Vec<u32>,
    /// The bytes of all strings.
    pub bytes: Vec<u8>,
}

impl Default for Strings {
    fn default() -> Self {
        Strings { offsets: vec![0], bytes: Vec::new() }
    }
}

impl Strings {
    /// Number of strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no strings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of string `row`.
    #[must_use]
    pub fn get(&self, row: usize) -> &[u8] {
        &self.bytes[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let end = u32::try_from(self.bytes.len() + bytes.len()).ok()?;
        self.bytes.extend_from_slice(bytes);
        self.offsets.push(end);
        Some(())
    }

    fn truncate(&mut self, n: usize) {
        self.offsets.truncate(n + 1);
        self.bytes.truncate(self.offsets[n] as usize);
    }
}

/// The values of one field, or of one part of it.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Column {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    U128(Vec<u128>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    I128(Vec<i128>),
    /// Half-precision numbers as their bits.
    F16(Vec<u16>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    /// Booleans as 0 or 1.
    Bool(Vec<u8>),
    /// Texts, which need not be UTF-8.
    Text(Strings),
    Bytes(Strings),
    /// Byte strings of one length.
    Fixed {
        width: usize,
        bytes: Vec<u8>,
    },
    /// One column per member.
    Struct(Vec<Column>),
    /// Elements of all rows, concatenated; the offsets work like those of [`Strings`].
    List {
        offsets: Vec<u32>,
        child: Box<Column>,
    },
    /// `count` elements for each row.
    Array {
        count: usize,
        child: Box<Column>,
    },
    /// Like a list in which each row has one element or none.
    Optional {
        offsets: Vec<u32>,
        child: Box<Column>,
    },
    /// `cases`: the case of each row, an index into `children`. `rows`: its row in that child. `children`: tag and column of
    /// each case.
    Variant {
        cases: Vec<u32>,
        rows: Vec<u32>,
        children: Vec<(u32, Column)>,
    },
}

/// Calls a macro with every variant that holds numbers in a vector.
macro_rules! for_numbers {
    ($this:expr, $values:ident => $number:expr, $($rest:tt)*) => {
        match $this {
            Column::U8($values) => $number,
            Column::U16($values) => $number,
            Column::U32($values) => $number,
            Column::U64($values) => $number,
            Column::U128($values) => $number,
            Column::I8($values) => $number,
            Column::I16($values) => $number,
            Column::I32($values) => $number,
            Column::I64($values) => $number,
            Column::I128($values) => $number,
            Column::F16($values) => $number,
            Column::F32($values) => $number,
            Column::F64($values) => $number,
            Column::Bool($values) => $number,
            $($rest)*
        }
    };
}

/// Like `for_numbers`, for integers only, with the element type as an alias.
macro_rules! for_integers {
    ($this:expr, $values:ident: $ty:ident => $number:expr, $($rest:tt)*) => {
        match $this {
            Column::U8($values) => { type $ty = u8; $number }
            Column::U16($values) => { type $ty = u16; $number }
            Column::U32($values) => { type $ty = u32; $number }
            Column::U64($values) => { type $ty = u64; $number }
            Column::U128($values) => { type $ty = u128; $number }
            Column::I8($values) => { type $ty = i8; $number }
            Column::I16($values) => { type $ty = i16; $number }
            Column::I32($values) => { type $ty = i32; $number }
            Column::I64($values) => { type $ty = i64; $number }
            Column::I128($values) => { type $ty = i128; $number }
            $($rest)*
        }
    };
}

/// The `N` bytes at an offset.
fn array<const N: usize>(body: &[u8], at: usize) -> Option<[u8; N]> {
    body.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The offset and the length of a variable part, from its 8-byte reference.
fn piece(body: &[u8], at: usize) -> Option<(usize, usize)> {
    let word = u64::from_le_bytes(array(body, at)?);
    Some(((word & 0xFFFF_FFFF) as usize, (word >> 32) as usize))
}

/// The bytes of a variable part. Its length is subtracted from `left`, the bytes that the record's variable parts may still have.
fn part<'a>(body: &'a [u8], offset: usize, len: usize, left: &mut usize) -> Option<&'a [u8]> {
    *left = left.checked_sub(len)?;
    if len == 0 {
        return Some(&[]);
    }
    body.get(offset..offset.checked_add(len)?)
}

impl Column {
    /// An empty column for values of a type.
    #[must_use]
    pub fn new(layout: &Layout) -> Column {
        match &layout.shape {
            Shape::Int { bytes, signed } => match (bytes, signed) {
                (1, false) => Column::U8(Vec::new()),
                (2, false) => Column::U16(Vec::new()),
                (4, false) => Column::U32(Vec::new()),
                (8, false) => Column::U64(Vec::new()),
                (_, false) => Column::U128(Vec::new()),
                (1, true) => Column::I8(Vec::new()),
                (2, true) => Column::I16(Vec::new()),
                (4, true) => Column::I32(Vec::new()),
                (8, true) => Column::I64(Vec::new()),
                (_, true) => Column::I128(Vec::new()),
            },
            Shape::Float(2) => Column::F16(Vec::new()),
            Shape::Float(4) => Column::F32(Vec::new()),
            Shape::Float(_) => Column::F64(Vec::new()),
            Shape::Bool => Column::Bool(Vec::new()),
            Shape::Text => Column::Text(Strings::default()),
            Shape::Bytes => Column::Bytes(Strings::default()),
            Shape::Fixed(n) => Column::Fixed { width: *n as usize, bytes: Vec::new() },
            Shape::Struct(members) => {
                Column::Struct(members.iter().map(|(_, member)| Column::new(member)).collect())
            }
            Shape::Array { count, element } => {
                Column::Array { count: *count as usize, child: Box::new(Column::new(element)) }
            }
            Shape::Vector(element) => {
                Column::List { offsets: vec![0], child: Box::new(Column::new(element)) }
            }
            Shape::Stack => Column::List { offsets: vec![0], child: Box::new(Column::U64(Vec::new())) },
            Shape::Optional(_, inner) => {
                Column::Optional { offsets: vec![0], child: Box::new(Column::new(inner)) }
            }
            Shape::Variant(cases) => Column::Variant {
                cases: Vec::new(),
                rows: Vec::new(),
                children: cases.iter().map(|(tag, case)| (*tag, Column::new(case))).collect(),
            },
        }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        for_numbers!(self, values => values.len(),
            Column::Text(strings) | Column::Bytes(strings) => strings.len(),
            Column::Fixed { width, bytes } => bytes.len() / width,
            Column::Struct(members) => members.first().map_or(0, Column::len),
            Column::List { offsets, .. } | Column::Optional { offsets, .. } => offsets.len() - 1,
            Column::Array { count, child } => child.len() / count,
            Column::Variant { rows, .. } => rows.len(),
        )
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops rows `n` and later.
    pub fn truncate(&mut self, n: usize) {
        for_numbers!(self, values => values.truncate(n),
            Column::Text(strings) | Column::Bytes(strings) => {
                if strings.len() > n {
                    strings.truncate(n);
                }
            }
            Column::Fixed { width, bytes } => bytes.truncate(n * *width),
            Column::Struct(members) => members.iter_mut().for_each(|member| member.truncate(n)),
            Column::List { offsets, child } | Column::Optional { offsets, child } => {
                offsets.truncate(n + 1);
                // A row that failed may have left elements without an offset.
                child.truncate(offsets.last().map_or(0, |end| *end as usize));
            }
            Column::Array { count, child } => child.truncate(n * *count),
            Column::Variant { cases, rows, children } => {
                while rows.len() > n {
                    if let (Some(case), Some(row)) = (cases.pop(), rows.pop()) {
                        children[case as usize].1.truncate(row as usize);
                    }
                }
            }
        );
    }

    /// Drops all rows and keeps the memory.
    pub fn clear(&mut self) {
        match self {
            Column::Variant { cases, rows, children } => {
                cases.clear();
                rows.clear();
                children.iter_mut().for_each(|(_, child)| child.clear());
            }
            _ => self.truncate(0),
        }
    }

    /// Adds an integer, truncated to the width of the column.
    ///
    /// # Panics
    /// Panics if the column does not hold integers.
    pub(crate) fn push_int(&mut self, bits: u128) {
        for_integers!(self, values: T => values.push(bits as T), // The bits that there are.
            _ => unreachable!("only integers have differences"),
        );
    }

    /// Adds the values at `offset` of the bodies that begin at `bodies` in the payload. The bodies must be long enough, and
    /// any bytes must be a valid value of the type.
    pub(crate) fn extend_plain(&mut self, payload: &[u8], bodies: &[u32], offset: u32) {
        macro_rules! copy {
            ($values:expr, $ty:ty) => {
                $values.extend(bodies.iter().map(|body| {
                    let at = *body as usize + offset as usize;
                    payload
                        .get(at..at + size_of::<$ty>())
                        .and_then(|bytes| bytes.try_into().ok())
                        .map_or_else(Default::default, <$ty>::from_le_bytes)
                }))
            };
        }
        match self {
            Column::U8(values) => copy!(values, u8),
            Column::U16(values) | Column::F16(values) => copy!(values, u16),
            Column::U32(values) => copy!(values, u32),
            Column::U64(values) => copy!(values, u64),
            Column::U128(values) => copy!(values, u128),
            Column::I8(values) => copy!(values, i8),
            Column::I16(values) => copy!(values, i16),
            Column::I32(values) => copy!(values, i32),
            Column::I64(values) => copy!(values, i64),
            Column::I128(values) => copy!(values, i128),
            Column::F32(values) => copy!(values, f32),
            Column::F64(values) => copy!(values, f64),
            Column::Fixed { width, bytes } => {
                for body in bodies {
                    let at = *body as usize + offset as usize;
                    bytes.extend_from_slice(payload.get(at..at + *width).unwrap_or_default());
                }
            }
            _ => debug_assert!(false, "a type that has to be checked"),
        }
    }

    /// Makes room for `n` more numbers.
    pub(crate) fn reserve(&mut self, n: usize) {
        for_numbers!(self, values => values.reserve(n),
            Column::Fixed { width, bytes } => bytes.reserve(n * *width),
            _ => {}
        );
    }

    /// Adds the values at offset `at` of rows that all have `size` bytes. Like [`Column::extend_plain`], but with a constant
    /// stride.
    pub(crate) fn extend_alike(&mut self, rows: &[u8], size: usize, at: usize) {
        macro_rules! copy {
            ($values:expr, $ty:ty) => {
                $values.extend(rows.chunks_exact(size).map(|row| {
                    row.get(at..at + size_of::<$ty>())
                        .and_then(|bytes| bytes.try_into().ok())
                        .map_or_else(Default::default, <$ty>::from_le_bytes)
                }))
            };
        }
        match self {
            Column::U8(values) => copy!(values, u8),
            Column::U16(values) | Column::F16(values) => copy!(values, u16),
            Column::U32(values) => copy!(values, u32),
            Column::U64(values) => copy!(values, u64),
            Column::U128(values) => copy!(values, u128),
            Column::I8(values) => copy!(values, i8),
            Column::I16(values) => copy!(values, i16),
            Column::I32(values) => copy!(values, i32),
            Column::I64(values) => copy!(values, i64),
            Column::I128(values) => copy!(values, i128),
            Column::F32(values) => copy!(values, f32),
            Column::F64(values) => copy!(values, f64),
            Column::Fixed { width, bytes } => {
                for row in rows.chunks_exact(size) {
                    bytes.extend_from_slice(row.get(at..at + *width).unwrap_or_default());
                }
            }
            _ => debug_assert!(false, "a type that has to be checked"),
        }
    }

    /// Adds the plain value at offset `at` of a record's body. `left` is the number of bytes that its variable parts may
    /// still have. Returns `None` if the value cannot be decoded; parts of it may then be in the column, and
    /// [`Column::truncate`] removes them.
    pub(crate) fn push_plain(
        &mut self,
        layout: &Layout,
        body: &[u8],
        at: usize,
        left: &mut usize,
    ) -> Option<()> {
        match (self, &layout.shape) {
            (Column::U8(values), _) => values.push(*body.get(at)?),
            (Column::U16(values) | Column::F16(values), _) => {
                values.push(u16::from_le_bytes(array(body, at)?));
            }
            (Column::U32(values), _) => values.push(u32::from_le_bytes(array(body, at)?)),
            (Column::U64(values), _) => values.push(u64::from_le_bytes(array(body, at)?)),
            (Column::U128(values), _) => values.push(u128::from_le_bytes(array(body, at)?)),
            (Column::I8(values), _) => values.push(i8::from_le_bytes(array(body, at)?)),
            (Column::I16(values), _) => values.push(i16::from_le_bytes(array(body, at)?)),
            (Column::I32(values), _) => values.push(i32::from_le_bytes(array(body, at)?)),
            (Column::I64(values), _) => values.push(i64::from_le_bytes(array(body, at)?)),
            (Column::I128(values), _) => values.push(i128::from_le_bytes(array(body, at)?)),
            (Column::F32(values), _) => values.push(f32::from_le_bytes(array(body, at)?)),
            (Column::F64(values), _) => values.push(f64::from_le_bytes(array(body, at)?)),
            (Column::Bool(values), _) => values.push(*body.get(at).filter(|byte| **byte < 2)?),
            (Column::Text(strings) | Column::Bytes(strings), _) => {
                let (offset, len) = piece(body, at)?;
                strings.push(part(body, offset, len, left)?)?;
            }
            (Column::Fixed { width, bytes }, _) => bytes.extend_from_slice(body.get(at..at + *width)?),
            (Column::Struct(columns), Shape::Struct(members)) => {
                for (column, (offset, member)) in columns.iter_mut().zip(members) {
                    column.push_plain(member, body, at + *offset as usize, left)?;
                }
            }
            (Column::Array { count, child }, Shape::Array { element, .. }) => {
                for n in 0..*count {
                    child.push_plain(element, body, at + n * element.size as usize, left)?;
                }
            }
            (Column::List { offsets, child }, shape) => {
                let (offset, count) = piece(body, at)?;
                let size = match shape {
                    Shape::Vector(element) => element.size as usize,
                    _ => 8,
                };
                part(body, offset, count.checked_mul(size)?, left)?;
                match (shape, &mut **child) {
                    (Shape::Vector(element), child) => {
                        for n in 0..count {
                            child.push_plain(element, body, offset + n * size, left)?;
                        }
                    }
                    (_, Column::U64(frames)) => {
                        for n in 0..count {
                            frames.push(u64::from_le_bytes(array(body, offset + n * 8)?));
                        }
                    }
                    _ => return None,
                }
                offsets.push(u32::try_from(child.len()).ok()?);
            }
            (Column::Optional { offsets, child }, Shape::Optional(offset, inner)) => match body.get(at)? {
                0 => offsets.push(*offsets.last()?),
                1 => {
                    child.push_plain(inner, body, at + *offset as usize, left)?;
                    offsets.push(u32::try_from(child.len()).ok()?);
                }
                _ => return None,
            },
            (Column::Variant { cases, rows, children }, Shape::Variant(layouts)) => {
                let (tag, offset) = piece(body, at)?;
                let case = layouts.iter().position(|(known, _)| *known as usize == tag)?;
                let (layout, child) = (&layouts[case].1, &mut children[case].1);
                part(body, offset, layout.size as usize, left)?;
                let row = u32::try_from(child.len()).ok()?;
                if child.push_plain(layout, body, offset, left).is_none() {
                    child.truncate(row as usize);
                    return None;
                }
                cases.push(case as u32); // Fewer than the bytes of a record.
                rows.push(row);
            }
            _ => return None,
        }
        Some(())
    }

    /// Adds the packed value at the cursor. Fails like [`Column::push_plain`].
    pub(crate) fn push_packed(&mut self, layout: &Layout, from: &mut Cursor<'_>) -> Option<()> {
        match (self, &layout.shape) {
            (Column::U8(values), _) => values.push(from.uv()?.try_into().ok()?),
            (Column::U16(values), Shape::Int { .. }) => values.push(from.uv()?.try_into().ok()?),
            (Column::U32(values), _) => values.push(from.uv()?.try_into().ok()?),
            (Column::U64(values), _) => values.push(from.uv()?),
            (Column::U128(values), _) => values.push(from.uv128()?),
            (Column::I8(values), _) => values.push(from.sv()?.try_into().ok()?),
            (Column::I16(values), _) => values.push(from.sv()?.try_into().ok()?),
            (Column::I32(values), _) => values.push(from.sv()?.try_into().ok()?),
            (Column::I64(values), _) => values.push(from.sv()?),
            (Column::I128(values), _) => values.push(from.sv128()?),
            (Column::F16(values) | Column::U16(values), _) => {
                values.push(u16::from_le_bytes(from.take(2)?.try_into().ok()?));
            }
            (Column::F32(values), _) => values.push(f32::from_le_bytes(from.take(4)?.try_into().ok()?)),
            (Column::F64(values), _) => values.push(f64::from_le_bytes(from.take(8)?.try_into().ok()?)),
            (Column::Bool(values), _) => values.push(u8::try_from(from.uv()?).ok().filter(|bit| *bit < 2)?),
            (Column::Text(strings) | Column::Bytes(strings), _) => {
                let len = usize::try_from(from.uv()?).ok()?;
                strings.push(from.take(len)?)?;
            }
            (Column::Fixed { width, bytes }, _) => bytes.extend_from_slice(from.take(*width)?),
            (Column::Struct(columns), Shape::Struct(members)) => {
                for (column, (_, member)) in columns.iter_mut().zip(members) {
                    column.push_packed(member, from)?;
                }
            }
            (Column::Array { count, child }, Shape::Array { element, .. }) => {
                for _ in 0..*count {
                    child.push_packed(element, from)?;
                }
            }
            (Column::List { offsets, child }, shape) => {
                let count = from.count()?;
                match (shape, &mut **child) {
                    (Shape::Vector(element), child) => {
                        for _ in 0..count {
                            child.push_packed(element, from)?;
                        }
                    }
                    (_, Column::U64(frames)) => {
                        let mut frame = 0_u64;
                        for _ in 0..count {
                            frame = frame.wrapping_add(from.sv()? as u64); // The same bits.
                            frames.push(frame);
                        }
                    }
                    _ => return None,
                }
                offsets.push(u32::try_from(child.len()).ok()?);
            }
            (Column::Optional { offsets, child }, Shape::Optional(_, inner)) => match from.take(1)? {
                [0] => offsets.push(*offsets.last()?),
                [1] => {
                    child.push_packed(inner, from)?;
                    offsets.push(u32::try_from(child.len()).ok()?);
                }
                _ => return None,
            },
            (Column::Variant { cases, rows, children }, Shape::Variant(layouts)) => {
                let tag = from.uv()?;
                let case = layouts.iter().position(|(known, _)| u64::from(*known) == tag)?;
                let (layout, child) = (&layouts[case].1, &mut children[case].1);
                let row = u32::try_from(child.len()).ok()?;
                if child.push_packed(layout, from).is_none() {
                    child.truncate(row as usize);
                    return None;
                }
                cases.push(case as u32); // Fewer than the bytes of a record.
                rows.push(row);
            }
            _ => return None,
        }
        Some(())
    }

    /// Adds a byte string to a column of byte strings. `None` if the column has another type or another width.
    pub(crate) fn push_bytes(&mut self, more: &[u8]) -> Option<()> {
        match self {
            Column::Text(strings) | Column::Bytes(strings) => strings.push(more),
            Column::Fixed { width, bytes } if *width == more.len() => {
                bytes.extend_from_slice(more);
                Some(())
            }
            _ => None,
        }
    }

    /// The integer of a row as bits, sign-extended.
    #[allow(clippy::unnecessary_cast)] // One of the types is `u128` already.
    pub(crate) fn int_bits(&self, row: usize) -> u128 {
        for_integers!(self, values: T => values[row] as T as u128, // Sign-extended if the type is signed.
            Column::Bool(values) => values[row].into(),
            _ => 0,
        )
    }

    /// The integer of a row; unsigned 128-bit numbers above `i128::MAX` wrap. `None` for columns of other types.
    #[must_use]
    pub fn as_int(&self, row: usize) -> Option<i128> {
        let is_int = for_integers!(self, values: T => size_of::<T>() == size_of_val(&values[row]),
            Column::Bool(_) => true,
            _ => false,
        );
        is_int.then(|| self.int_bits(row) as i128) // The same bits.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_wire::layout::resolve;
    use quipu_wire::types::Type;

    #[test]
    fn variable_parts_may_not_come_to_more_than_the_body() {
        let byte = resolve(None, &Type::Uint(8), |_| None).unwrap();
        let bytes = resolve(None, &Type::Vector(1), |_| Some(byte.clone())).unwrap();
        let many = resolve(None, &Type::Vector(2), |_| Some(bytes.clone())).unwrap();
        // Two inner vectors that share the same 20 bytes.
        let mut body = vec![0_u8; 48];
        let mut put = |at: usize, words: [u32; 2]| {
            body[at..at + 4].copy_from_slice(&words[0].to_le_bytes());
            body[at + 4..at + 8].copy_from_slice(&words[1].to_le_bytes());
        };
        put(0, [8, 2]);
        put(8, [24, 20]);
        put(16, [24, 20]);
        let mut column = Column::new(&many);
        assert_eq!(column.push_plain(&many, &body, 0, &mut 48), None);
        column.truncate(0);
        assert_eq!(column, Column::new(&many));
        assert_eq!(column.push_plain(&many, &body, 0, &mut 56), Some(()));
    }
}
