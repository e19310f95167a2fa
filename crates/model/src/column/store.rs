//! The types that a column of a structure of vectors may have.

use super::{Bits, Cells, CellsRef, Column, ColumnRef, Lists, Strings};
use crate::schema::{Field, Type};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The values of one column of [`rows!`](crate::rows!): a vector of numbers or of enumerated values, texts, lists.
///
/// A column that was not asked for has no values, whatever the number of rows.
pub trait Store: fmt::Debug + Default + Send + 'static {
    /// The type of the values, unless the column declares another.
    fn ty() -> Type;

    /// Builds the schema's field for such a column.
    fn field(name: &'static str, ty: Type, doc: &'static str) -> Field {
        Field::new(name, ty, doc)
    }

    /// Number of values.
    fn n_values(&self) -> usize;

    /// Borrows the values as a column.
    fn lend(&self) -> ColumnRef<'_>;

    /// Converts the values into a column.
    fn give(self) -> Column;

    /// Keeps the first `rows` rows.
    fn cut(&mut self, rows: usize);

    /// Appends rows of another column; nothing if that was not asked for.
    fn append(&mut self, from: &Self, rows: Range<usize>);
}

macro_rules! numbers {
    ($($ty:ident $Variant:ident),*) => {$(
        impl Store for Vec<$ty> {
            fn ty() -> Type {
                Type::$Variant
            }

            fn n_values(&self) -> usize {
                self.len()
            }

            fn lend(&self) -> ColumnRef<'_> {
                ColumnRef::of(CellsRef::$Variant(self))
            }

            fn give(self) -> Column {
                Column { cells: Cells::$Variant(self), valid: None }
            }

            fn cut(&mut self, rows: usize) {
                self.truncate(rows);
            }

            #[inline]
            fn append(&mut self, from: &Self, rows: Range<usize>) {
                self.extend_from_slice(from.get(rows).unwrap_or(&[]));
            }
        }
    )*};
}

numbers!(u8 U8, u16 U16, u32 U32, u64 U64, i8 I8, i16 I16, i32 I32, i64 I64, f32 F32, f64 F64);

impl Store for Strings {
    fn ty() -> Type {
        Type::Text
    }

    fn n_values(&self) -> usize {
        self.len()
    }

    fn lend(&self) -> ColumnRef<'_> {
        ColumnRef::of(CellsRef::Strings(self))
    }

    fn give(self) -> Column {
        Column { cells: Cells::Strings(self), valid: None }
    }

    fn cut(&mut self, rows: usize) {
        self.truncate(rows);
    }

    fn append(&mut self, from: &Self, rows: Range<usize>) {
        self.extend_rows(from, rows);
    }
}

impl Store for Lists {
    fn ty() -> Type {
        Type::List(Arc::new(Field::new("item", Type::U64, "")))
    }

    fn n_values(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    fn lend(&self) -> ColumnRef<'_> {
        ColumnRef::of(CellsRef::Nested { offsets: &self.offsets, items: &self.items })
    }

    fn give(self) -> Column {
        Column { cells: Cells::Nested { offsets: self.offsets, items: self.items }, valid: None }
    }

    fn cut(&mut self, rows: usize) {
        self.truncate(rows);
    }

    fn append(&mut self, from: &Self, rows: Range<usize>) {
        for row in rows.start..rows.end.min(from.n_values()) {
            self.push(from.get(row).iter().copied());
        }
    }
}

/// A column in which some rows have no value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maybe<S> {
    /// The values, with a placeholder in each row that has none.
    pub values: S,
    /// A bit for each row that has a value.
    pub valid: Bits,
}

impl<T: Copy + Default> Maybe<Vec<T>> {
    /// The number in a row, if it has one.
    pub fn get(&self, row: usize) -> Option<T> {
        self.valid.get(row).then(|| self.values.get(row).copied().unwrap_or_default())
    }

    /// Appends a row; `None` for a row without a value.
    pub fn push(&mut self, value: Option<T>) {
        self.values.push(value.unwrap_or_default());
        self.valid.push(value.is_some());
    }
}

impl Maybe<Strings> {
    /// The text of a row, if it has one.
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        self.valid.get(row).then(|| self.values.get(row))
    }

    /// Appends a text; bytes that are not UTF-8 are replaced.
    pub fn push_text(&mut self, text: &[u8]) {
        self.values.push_text(text);
        self.valid.push(true);
    }

    /// Appends `times` rows without a text.
    pub fn push_missing(&mut self, times: usize) {
        self.values.push_empty(times);
        self.valid.push_all(false, times);
    }
}

impl<S: Store> Store for Maybe<S> {
    fn ty() -> Type {
        S::ty()
    }

    fn field(name: &'static str, ty: Type, doc: &'static str) -> Field {
        Field::new(name, ty, doc).optional()
    }

    fn n_values(&self) -> usize {
        self.values.n_values()
    }

    fn lend(&self) -> ColumnRef<'_> {
        ColumnRef { valid: Some(&self.valid), ..self.values.lend() }
    }

    fn give(self) -> Column {
        Column { valid: Some(self.valid), ..self.values.give() }
    }

    fn cut(&mut self, rows: usize) {
        self.values.cut(rows);
        self.valid.truncate(rows);
    }

    fn append(&mut self, from: &Self, rows: Range<usize>) {
        self.values.append(&from.values, rows.clone());
        self.valid.extend_rows(&from.valid, rows.start..rows.end.min(from.valid.len()));
    }
}
