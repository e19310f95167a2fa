//! Columns of values, the building blocks of every table.
//!
//! Rows that are filled in hot loops are structures of plain vectors ([`rows!`](crate::rows!)); a vector is lent as a
//! [`ColumnRef`] or converted into a [`Column`], without a copy. Tables whose columns are known only at run time, from the
//! trace, are lists of columns from the start.

mod bits;
mod lists;
mod store;
mod strings;

pub use bits::Bits;
pub use lists::Lists;
pub use store::{Maybe, Store};
pub use strings::Strings;

use crate::error::{Error, Result};
use crate::schema::{Field, Missing, Storage, Type};
use std::ops::Range;

/// The values of one column, and the rows that have one.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The values.
    pub cells: Cells,
    /// A bit for each row that has a value; only for columns whose [`Missing`] is a bitmap.
    pub valid: Option<Bits>,
}

/// A borrowed column.
#[derive(Clone, Copy, Debug)]
pub struct ColumnRef<'a> {
    /// The values; empty if the column was not asked for.
    pub cells: CellsRef<'a>,
    /// A bit for each row that has a value; `None` if all have.
    pub valid: Option<&'a Bits>,
}

macro_rules! cells {
    ($($(#[$doc:meta])* $Variant:ident $ty:ty;)*) => {
        /// Values of one type, stored end to end.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Cells {
            $($(#[$doc])* $Variant(Vec<$ty>),)*
            /// Byte strings of one fixed width.
            Fixed {
                /// Bytes in each value.
                width: u32,
                /// The bytes of all values.
                bytes: Vec<u8>,
            },
            /// Texts, or byte strings of any length.
            Strings(Strings),
            /// Lists.
            Nested {
                /// Start of each list in `items`, followed by the end of the last; empty if there are no rows.
                offsets: Vec<i32>,
                /// The items of all lists.
                items: Box<Column>,
            },
            /// Structures: a column for each member.
            Members(Vec<Column>),
        }

        /// Borrowed values.
        #[derive(Clone, Copy, Debug)]
        pub enum CellsRef<'a> {
            $($(#[$doc])* $Variant(&'a [$ty]),)*
            /// Byte strings of one fixed width.
            Fixed {
                /// Bytes in each value.
                width: u32,
                /// The bytes of all values.
                bytes: &'a [u8],
            },
            /// Texts, or byte strings of any length.
            Strings(&'a Strings),
            /// Lists.
            Nested {
                /// Start of each list in `items`, followed by the end of the last; empty if there are no rows.
                offsets: &'a [i32],
                /// The items of all lists.
                items: &'a Column,
            },
            /// Structures: a column for each member.
            Members(&'a [Column]),
            /// The same number in each row, and the number of rows: for values that a whole batch has in common.
            Constant(u64, usize),
        }

        impl Cells {
            /// Borrows the values.
            pub fn as_ref(&self) -> CellsRef<'_> {
                match self {
                    $(Cells::$Variant(cells) => CellsRef::$Variant(cells),)*
                    Cells::Fixed { width, bytes } => CellsRef::Fixed { width: *width, bytes },
                    Cells::Strings(strings) => CellsRef::Strings(strings),
                    Cells::Nested { offsets, items } => CellsRef::Nested { offsets, items },
                    Cells::Members(members) => CellsRef::Members(members),
                }
            }

            /// Keeps the first `rows` rows.
            pub fn truncate(&mut self, rows: usize) {
                match self {
                    $(Cells::$Variant(cells) => cells.truncate(rows),)*
                    Cells::Fixed { width, bytes } => bytes.truncate(rows.saturating_mul(*width as usize)),
                    Cells::Strings(strings) => strings.truncate(rows),
                    Cells::Nested { offsets, items } => {
                        offsets.truncate(rows + 1);
                        items.truncate(offsets.last().map_or(0, |end| *end as usize));
                    }
                    Cells::Members(members) => members.iter_mut().for_each(|member| member.truncate(rows)),
                }
            }

            /// Appends rows of another column of the same variant. Rows past its end are ignored, and so is a column of
            /// another variant.
            pub fn extend_rows(&mut self, from: CellsRef<'_>, rows: Range<usize>) {
                match (self, from) {
                    $((Cells::$Variant(to), CellsRef::$Variant(from)) => {
                        to.extend_from_slice(from.get(rows).unwrap_or(&[]));
                    })*
                    (Cells::Fixed { width, bytes }, CellsRef::Fixed { width: theirs, bytes: from }) if *width == theirs => {
                        let bytes_of = rows.start * theirs as usize..rows.end * theirs as usize;
                        bytes.extend_from_slice(from.get(bytes_of).unwrap_or(&[]));
                    }
                    (Cells::U64(to), CellsRef::Constant(number, n)) => {
                        to.extend(std::iter::repeat_n(number, n.min(rows.end).saturating_sub(rows.start)));
                    }
                    (Cells::Strings(to), CellsRef::Strings(from)) => to.extend_rows(from, rows),
                    (Cells::Nested { offsets, items }, CellsRef::Nested { offsets: theirs, items: from }) => {
                        for row in rows {
                            let Some([start, end]) = theirs.get(row..row + 2) else { break };
                            items.extend_rows(from.as_ref(), *start as usize..*end as usize);
                            lists::end_row(offsets, items.len());
                        }
                    }
                    (Cells::Members(to), CellsRef::Members(from)) => {
                        for (to, from) in to.iter_mut().zip(from) {
                            to.extend_rows(from.as_ref(), rows.clone());
                        }
                    }
                    _ => {}
                }
            }
        }

        impl CellsRef<'_> {
            /// Number of rows.
            pub fn len(self) -> usize {
                match self {
                    $(CellsRef::$Variant(cells) => cells.len(),)*
                    CellsRef::Fixed { width, bytes } => bytes.len() / (width.max(1) as usize),
                    CellsRef::Strings(strings) => strings.len(),
                    CellsRef::Nested { offsets, .. } => offsets.len().saturating_sub(1),
                    CellsRef::Members(members) => members.first().map_or(0, Column::len),
                    CellsRef::Constant(_, rows) => rows,
                }
            }
        }
    };
}

cells! {
    /// One byte each.
    U8 u8;
    /// Two bytes each.
    U16 u16;
    /// Four bytes each.
    U32 u32;
    /// Eight bytes each.
    U64 u64;
    /// Signed, one byte each.
    I8 i8;
    /// Signed, two bytes each.
    I16 i16;
    /// Signed, four bytes each.
    I32 i32;
    /// Signed, eight bytes each.
    I64 i64;
    /// Floating-point numbers of four bytes each.
    F32 f32;
    /// Floating-point numbers of eight bytes each.
    F64 f64;
}

impl CellsRef<'_> {
    /// True if there are no rows.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The number in a row, widened to 64 bits: signed values as a two's complement, floats as their bits; 0 if there is no
    /// number.
    #[inline]
    pub fn number(self, row: usize) -> u64 {
        let number = match self {
            CellsRef::U8(cells) => cells.get(row).map(|cell| u64::from(*cell)),
            CellsRef::U16(cells) => cells.get(row).map(|cell| u64::from(*cell)),
            CellsRef::U32(cells) => cells.get(row).map(|cell| u64::from(*cell)),
            CellsRef::U64(cells) => cells.get(row).copied(),
            CellsRef::I8(cells) => cells.get(row).map(|cell| i64::from(*cell) as u64),
            CellsRef::I16(cells) => cells.get(row).map(|cell| i64::from(*cell) as u64),
            CellsRef::I32(cells) => cells.get(row).map(|cell| i64::from(*cell) as u64),
            CellsRef::I64(cells) => cells.get(row).map(|cell| *cell as u64),
            CellsRef::F32(cells) => cells.get(row).map(|cell| u64::from(cell.to_bits())),
            CellsRef::F64(cells) => cells.get(row).map(|cell| cell.to_bits()),
            CellsRef::Constant(number, _) => Some(number),
            _ => None,
        };
        number.unwrap_or(0)
    }
}

impl<'a> ColumnRef<'a> {
    /// A column in which every row has a value.
    pub fn of(cells: CellsRef<'a>) -> ColumnRef<'a> {
        ColumnRef { cells, valid: None }
    }

    /// Number of rows.
    pub fn len(self) -> usize {
        self.cells.len()
    }

    /// True if there are no rows.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// See [`CellsRef::number`].
    #[inline]
    pub fn number(self, row: usize) -> u64 {
        self.cells.number(row)
    }

    /// The bytes of a row of texts or of fixed-width values; empty for other columns and past the end.
    pub fn bytes(self, row: usize) -> &'a [u8] {
        match self.cells {
            CellsRef::Strings(strings) => strings.get(row),
            CellsRef::Fixed { width, bytes } => {
                let start = row.saturating_mul(width as usize);
                bytes.get(start..start.saturating_add(width as usize)).unwrap_or(&[])
            }
            _ => &[],
        }
    }

    /// The items of a row of lists: a range of the returned column of items.
    pub fn items(self, row: usize) -> Option<(&'a Column, Range<usize>)> {
        match self.cells {
            CellsRef::Nested { offsets, items } => match offsets.get(row..row.saturating_add(2)) {
                Some([start, end]) => Some((items, *start as usize..*end as usize)),
                _ => None,
            },
            _ => None,
        }
    }

    /// True if the row has no value, by the field's convention for missing values, or if the column was not asked for.
    #[inline]
    pub fn is_missing(self, missing: Missing, row: usize) -> bool {
        match missing {
            Missing::Never => row >= self.len(),
            Missing::Is(sentinel) => self.number(row) == sentinel || row >= self.len(),
            Missing::Bitmap => self.valid.is_some_and(|valid| !valid.get(row)) || row >= self.len(),
        }
    }
}

impl Column {
    /// An empty column that fits a field.
    pub fn new(field: &Field) -> Column {
        let cells = match (&field.ty, field.ty.storage()) {
            (Type::List(item), _) => {
                Cells::Nested { offsets: Vec::new(), items: Box::new(Column::new(item)) }
            }
            (Type::Struct(members), _) => Cells::Members(members.iter().map(Column::new).collect()),
            (_, Storage::U8) => Cells::U8(Vec::new()),
            (_, Storage::U16) => Cells::U16(Vec::new()),
            (_, Storage::U32) => Cells::U32(Vec::new()),
            (_, Storage::I8) => Cells::I8(Vec::new()),
            (_, Storage::I16) => Cells::I16(Vec::new()),
            (_, Storage::I32) => Cells::I32(Vec::new()),
            (_, Storage::I64) => Cells::I64(Vec::new()),
            (_, Storage::F32) => Cells::F32(Vec::new()),
            (_, Storage::F64) => Cells::F64(Vec::new()),
            (_, Storage::Fixed(width)) => Cells::Fixed { width, bytes: Vec::new() },
            (_, Storage::Strings) => Cells::Strings(Strings::default()),
            (_, Storage::U64 | Storage::Nested | Storage::Members) => Cells::U64(Vec::new()),
        };
        Column { cells, valid: (field.missing == Missing::Bitmap).then(Bits::default) }
    }

    /// Borrows the column.
    pub fn as_ref(&self) -> ColumnRef<'_> {
        ColumnRef { cells: self.cells.as_ref(), valid: self.valid.as_ref() }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.as_ref().len()
    }

    /// True if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a number (a two's complement, or the bits of a float) to a column of numbers.
    ///
    /// # Errors
    /// `Limit` if the number is too wide for the column, `Usage` if the column does not hold numbers.
    pub fn push(&mut self, number: u64) -> Result<()> {
        let too_wide = |limit: u64| Error::limit("bits in a column value", number, limit);
        let signed = number as i64; // Interprets the number as a two's complement.
        match &mut self.cells {
            Cells::U8(cells) => cells.push(u8::try_from(number).map_err(|_| too_wide(u8::MAX.into()))?),
            Cells::U16(cells) => cells.push(u16::try_from(number).map_err(|_| too_wide(u16::MAX.into()))?),
            Cells::U32(cells) => cells.push(u32::try_from(number).map_err(|_| too_wide(u32::MAX.into()))?),
            Cells::U64(cells) => cells.push(number),
            Cells::I8(cells) => cells.push(i8::try_from(signed).map_err(|_| too_wide(i8::MAX as u64))?),
            Cells::I16(cells) => cells.push(i16::try_from(signed).map_err(|_| too_wide(i16::MAX as u64))?),
            Cells::I32(cells) => cells.push(i32::try_from(signed).map_err(|_| too_wide(i32::MAX as u64))?),
            Cells::I64(cells) => cells.push(signed),
            Cells::F32(cells) => {
                let bits = u32::try_from(number).map_err(|_| too_wide(u32::MAX.into()))?;
                cells.push(f32::from_bits(bits));
            }
            Cells::F64(cells) => cells.push(f64::from_bits(number)),
            _ => return Err(Error::usage("a number does not go into a column of other values")),
        }
        self.push_valid(true);
        Ok(())
    }

    /// Appends a text, or a value of fixed width.
    ///
    /// # Errors
    /// `Usage` if the column has another type or width.
    pub fn push_bytes(&mut self, value: &[u8]) -> Result<()> {
        match &mut self.cells {
            Cells::Strings(strings) => strings.push(value),
            Cells::Fixed { width, bytes } if *width as usize == value.len() => bytes.extend_from_slice(value),
            _ => return Err(Error::usage("bytes do not go into a column of other values")),
        }
        self.push_valid(true);
        Ok(())
    }

    /// Appends a row to a column of lists; `fill` appends the items of this row to the column that it gets.
    ///
    /// # Errors
    /// `Usage` if the column does not hold lists.
    pub fn push_list(&mut self, fill: impl FnOnce(&mut Column) -> Result<()>) -> Result<()> {
        let Cells::Nested { offsets, items } = &mut self.cells else {
            return Err(Error::usage("a list does not go into a column of other values"));
        };
        fill(items)?;
        lists::end_row(offsets, items.len());
        self.push_valid(true);
        Ok(())
    }

    /// Appends a row to a column of structures; `fill` appends one value to each member.
    ///
    /// # Errors
    /// `Usage` if the column does not hold structures.
    pub fn push_members(&mut self, fill: impl FnOnce(&mut [Column]) -> Result<()>) -> Result<()> {
        let Cells::Members(members) = &mut self.cells else {
            return Err(Error::usage("a structure does not go into a column of other values"));
        };
        fill(members)?;
        self.push_valid(true);
        Ok(())
    }

    /// Appends a row without a value: the cell is 0, empty, or the sentinel of the field.
    pub fn push_missing(&mut self, missing: Missing) {
        let number = match missing {
            Missing::Is(sentinel) => sentinel,
            Missing::Never | Missing::Bitmap => 0,
        };
        match &mut self.cells {
            Cells::Strings(strings) => strings.push_empty(1),
            Cells::Fixed { width, bytes } => bytes.resize(bytes.len() + *width as usize, 0),
            Cells::Nested { offsets, items } => lists::end_row(offsets, items.len()),
            Cells::Members(members) => {
                members.iter_mut().for_each(|member| member.push_missing(Missing::Bitmap));
            }
            // A sentinel has the width of its column.
            _ => drop(self.push(number)),
        }
        if let Some(valid) = &mut self.valid {
            valid.truncate(self.cells.as_ref().len().saturating_sub(1));
            valid.push(false);
        }
    }

    fn push_valid(&mut self, bit: bool) {
        if let Some(valid) = &mut self.valid {
            valid.push(bit);
        }
    }

    /// Appends rows of another column of the same type. Rows past its end are ignored, and so is a column of another type.
    pub fn extend_rows(&mut self, from: ColumnRef<'_>, rows: Range<usize>) {
        let before = self.len();
        self.cells.extend_rows(from.cells, rows.clone());
        let added = self.len() - before;
        match (&mut self.valid, from.valid) {
            (Some(valid), Some(theirs)) => valid.extend_rows(theirs, rows.start..rows.start + added),
            (Some(valid), None) => valid.push_all(true, added),
            (None, _) => {}
        }
    }

    /// Keeps the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        self.cells.truncate(rows);
        if let Some(valid) = &mut self.valid {
            valid.truncate(rows);
        }
    }

    /// Removes all rows but keeps the buffers.
    pub fn clear(&mut self) {
        self.truncate(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// A column of each type, with three rows; the second has no value.
    fn filled() -> Vec<(Field, Column)> {
        let item = Arc::new(Field::new("item", Type::I16, ""));
        let members: Arc<[Field]> =
            [Field::new("a", Type::U8, ""), Field::new("b", Type::Text, "").optional()].into();
        let types = [
            Type::Bool,
            Type::U64,
            Type::I32,
            Type::F64,
            Type::Fixed(3),
            Type::Text,
            Type::List(item),
            Type::Struct(members),
        ];
        let fill = |ty: Type| {
            let field = Field::new("column", ty, "").optional();
            let mut column = Column::new(&field);
            for row in 0..3u64 {
                let added = match &column.cells {
                    _ if row == 1 => {
                        column.push_missing(field.missing);
                        Ok(())
                    }
                    Cells::Strings(_) => column.push_bytes(b"text"),
                    Cells::Fixed { .. } => column.push_bytes(b"abc"),
                    Cells::Nested { .. } => column.push_list(|items| {
                        items.push(row)?;
                        items.push(u64::MAX)
                    }),
                    Cells::Members(_) => column.push_members(|members| {
                        members[0].push(row)?;
                        members[1].push_bytes(b"b")
                    }),
                    _ => column.push(row / 2),
                };
                added.unwrap();
            }
            (field, column)
        };
        types.map(fill).into()
    }

    #[test]
    fn rows_are_appended_copied_and_cut_off_in_columns_of_each_sort() {
        for (field, column) in filled() {
            let missing: Vec<bool> =
                (0..4).map(|row| column.as_ref().is_missing(field.missing, row)).collect();
            assert_eq!(missing, [false, true, false, true], "{:?}", field.ty);
            let mut copy = Column::new(&field);
            copy.extend_rows(column.as_ref(), 0..1);
            copy.extend_rows(column.as_ref(), 1..3);
            assert_eq!(copy, column);
            copy.extend_rows(column.as_ref(), 2..3);
            copy.truncate(3);
            assert_eq!(copy, column);
            copy.clear();
            assert!(copy.is_empty());
        }
    }

    #[test]
    fn signed_numbers_are_widened_with_their_sign() {
        let mut column = Column::new(&Field::new("i", Type::I8, ""));
        column.push(-5i64 as u64).unwrap();
        assert_eq!(column.as_ref().number(0) as i64, -5);
        assert!(column.push(200).is_err() && column.push_bytes(b"x").is_err());
    }

    #[test]
    fn lists_have_their_items() {
        let (_, column) = filled().remove(6);
        let (items, range) = column.as_ref().items(2).unwrap();
        let items: Vec<i64> = range.map(|at| items.as_ref().number(at) as i64).collect();
        assert_eq!(items, [2, -1]);
    }
}
