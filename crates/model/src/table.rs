//! Native tables: a format's own records as typed columns.
//!
//! A table is lossless unless its schema says *derived*: bytes → rows → bytes is the identity. The schema alone is
//! enough to print rows as JSON or CSV, so no viewer knows a format; only values of any shape are written by the format
//! that they come from ([`RowForm`](crate::print::RowForm)). Schemas are constants, or learned while reading a trace.

use crate::error::{Error, Result};
use std::borrow::Cow;
use std::sync::Arc;

/// How wide the values of a column are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// One byte.
    U8,
    /// Two bytes.
    U16,
    /// Four bytes.
    U32,
    /// Eight bytes.
    U64,
}

impl Width {
    /// All bits set, which stands for "none" where a column may have none.
    pub fn none(self) -> u64 {
        match self {
            Width::U8 => u8::MAX.into(),
            Width::U16 => u16::MAX.into(),
            Width::U32 => u32::MAX.into(),
            Width::U64 => u64::MAX,
        }
    }
}

/// What the values of a column mean to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A number, printed in decimal.
    Count,
    /// An address or bit pattern, printed in hex.
    Hex,
    /// An index into fixed names; values beyond them are printed as numbers. All bits set means that the row has no
    /// such name.
    Name(&'static [&'static str]),
    /// 0 or 1.
    Flag,
    /// An index into [`Batch::codes`](crate::Batch::codes), or [`NO_CODE`](crate::lens::NO_CODE): an instruction.
    Code,
    /// An index into [`Batch::types`](crate::Batch::types): a function.
    Function,
    /// A position among others, printed in decimal. All bits set means that the row has none.
    Position,
    /// An argument of a function by its name: the function's index into [`Batch::types`](crate::Batch::types) in the upper
    /// half, the argument's position in the lower. All bits set means that it has no name.
    Argument,
    /// An index into the nodes of [`Batch::values`](crate::Batch::values), or
    /// [`NO_NODE`](crate::values::NO_NODE): a value of any shape.
    Value,
    /// A text among the nodes of [`Batch::values`](crate::Batch::values), or
    /// [`NO_NODE`](crate::values::NO_NODE) for none.
    Text,
}

/// One column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSchema {
    /// Name, as in SQL and JSON.
    pub name: Cow<'static, str>,
    /// Storage.
    pub width: Width,
    /// Meaning.
    pub kind: ColumnType,
    /// One sentence for people.
    pub doc: Cow<'static, str>,
}

impl ColumnSchema {
    /// A column that is known without a trace.
    pub const fn new(name: &'static str, width: Width, kind: ColumnType, doc: &'static str) -> ColumnSchema {
        ColumnSchema { name: Cow::Borrowed(name), width, kind, doc: Cow::Borrowed(doc) }
    }
}

/// One table of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    /// Name, as in SQL and in `.rows` text.
    pub name: Cow<'static, str>,
    /// True if the rows are an interpretation: they cannot be turned back into the same bytes.
    pub derived: bool,
    /// The columns, in order.
    pub columns: Cow<'static, [ColumnSchema]>,
    /// One sentence for people.
    pub doc: Cow<'static, str>,
}

impl TableSchema {
    /// Position of the column called `name`.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// The values of one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// One byte each.
    U8(Vec<u8>),
    /// Two bytes each.
    U16(Vec<u16>),
    /// Four bytes each.
    U32(Vec<u32>),
    /// Eight bytes each.
    U64(Vec<u64>),
}

impl Column {
    /// An empty column.
    pub fn new(width: Width) -> Column {
        match width {
            Width::U8 => Column::U8(Vec::new()),
            Width::U16 => Column::U16(Vec::new()),
            Width::U32 => Column::U32(Vec::new()),
            Width::U64 => Column::U64(Vec::new()),
        }
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        match self {
            Column::U8(values) => values.len(),
            Column::U16(values) => values.len(),
            Column::U32(values) => values.len(),
            Column::U64(values) => values.len(),
        }
    }

    /// True without values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of row `row`, widened. Panics if there is no such row, as slices do.
    pub fn get(&self, row: usize) -> u64 {
        match self {
            Column::U8(values) => u64::from(values[row]),
            Column::U16(values) => u64::from(values[row]),
            Column::U32(values) => u64::from(values[row]),
            Column::U64(values) => values[row],
        }
    }

    /// Appends a value; an error if it is too wide for the column.
    pub fn push(&mut self, value: u64) -> Result<()> {
        let too_wide = |limit: u64| Error::limit("bits in a column value", value, limit);
        match self {
            Column::U8(values) => values.push(u8::try_from(value).map_err(|_| too_wide(u8::MAX.into()))?),
            Column::U16(values) => values.push(u16::try_from(value).map_err(|_| too_wide(u16::MAX.into()))?),
            Column::U32(values) => values.push(u32::try_from(value).map_err(|_| too_wide(u32::MAX.into()))?),
            Column::U64(values) => values.push(value),
        }
        Ok(())
    }

    /// Appends some values of a column of the same width; of another width, nothing.
    pub fn extend(&mut self, from: &Column, rows: std::ops::Range<usize>) {
        match (self, from) {
            (Column::U8(to), Column::U8(from)) => to.extend_from_slice(from.get(rows).unwrap_or(&[])),
            (Column::U16(to), Column::U16(from)) => to.extend_from_slice(from.get(rows).unwrap_or(&[])),
            (Column::U32(to), Column::U32(from)) => to.extend_from_slice(from.get(rows).unwrap_or(&[])),
            (Column::U64(to), Column::U64(from)) => to.extend_from_slice(from.get(rows).unwrap_or(&[])),
            _ => {}
        }
    }

    /// Removes all values, keeping the buffer.
    pub fn clear(&mut self) {
        match self {
            Column::U8(values) => values.clear(),
            Column::U16(values) => values.clear(),
            Column::U32(values) => values.clear(),
            Column::U64(values) => values.clear(),
        }
    }
}

/// Rows of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// What the columns mean.
    pub schema: Arc<TableSchema>,
    /// The columns, as the schema lists them; all of one length.
    pub columns: Vec<Column>,
}

impl Rows {
    /// No rows of `schema`.
    pub fn new(schema: &TableSchema) -> Rows {
        Rows::of(Arc::new(schema.clone()))
    }

    /// No rows of a schema that others share.
    pub fn of(schema: Arc<TableSchema>) -> Rows {
        let columns = schema.columns.iter().map(|column| Column::new(column.width)).collect();
        Rows { schema, columns }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, Column::len)
    }

    /// True without rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The column called `name`.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.schema.position(name).and_then(|i| self.columns.get(i))
    }

    /// Appends some rows of a table with the same columns; `rename` gives each index into the code table its new value.
    pub fn extend(&mut self, from: &Rows, rows: std::ops::Range<usize>, rename: impl Fn(u32) -> u32) {
        let first = self.len();
        for ((to, from), column) in self.columns.iter_mut().zip(&from.columns).zip(self.schema.columns.iter())
        {
            to.extend(from, rows.clone());
            if let (ColumnType::Code, Column::U32(codes)) = (&column.kind, to) {
                codes.iter_mut().skip(first).for_each(|code| *code = rename(*code));
            }
        }
    }

    /// Removes all rows, keeping the buffers.
    pub fn clear(&mut self) {
        self.columns.iter_mut().for_each(Column::clear);
    }
}
