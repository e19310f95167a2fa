//! Tables: rows as columns, with the schema that says what they mean.
//!
//! [`Table`] is all that JSON, CSV, choosing, queries and other programs ever see of native records, of lenses and of results.
//! [`TableBuf`] is a table that a reader fills again and again: rows of a structure of vectors ([`rows!`](crate::rows!)), or
//! [`ColumnTable`], whose columns only a trace knows.

use crate::column::{Cells, Column, ColumnRef};
use crate::schema::{Schema, Type};
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Rows, column by column.
pub trait Table: Send {
    /// What the columns mean.
    fn schema(&self) -> &Arc<Schema>;

    /// How many rows there are.
    fn n_rows(&self) -> usize;

    /// The column at this position of the schema; without values if it was not asked for.
    ///
    /// # Panics
    /// If the schema has no such column, as slices do.
    fn column(&self, position: usize) -> ColumnRef<'_>;

    /// All columns, given away without a copy.
    fn into_columns(self: Box<Self>) -> Vec<Column>
    where
        Self: 'static;
}

/// Rows that are filled, copied and emptied.
pub trait TableBuf: Table + Any + fmt::Debug {
    /// Removes all rows, keeping the buffers.
    fn clear(&mut self);

    /// An empty table of the same schema.
    fn fresh(&self) -> Box<dyn TableBuf>;

    /// Appends some rows of a table of the same kind; of another one, nothing. `rename` gives each index into the code table
    /// its new value.
    fn extend_rows(&mut self, from: &dyn TableBuf, rows: Range<usize>, rename: &dyn Fn(u32) -> u32);
}

impl dyn TableBuf {
    /// The rows as what they are.
    pub fn get<T: TableBuf>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// The rows as what they are, to be filled.
    pub fn get_mut<T: TableBuf>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }

    /// The column called `name`.
    pub fn column_named(&self, name: &str) -> Option<ColumnRef<'_>> {
        self.schema().position(name).map(|position| self.column(position))
    }
}

/// Rows whose columns only their schema knows.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnTable {
    schema: Arc<Schema>,
    /// The columns, as the schema lists them; all of one length.
    pub columns: Vec<Column>,
}

impl ColumnTable {
    /// No rows.
    pub fn new(schema: Arc<Schema>) -> ColumnTable {
        let columns = schema.fields.iter().map(Column::new).collect();
        ColumnTable { schema, columns }
    }
}

impl Table for ColumnTable {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn n_rows(&self) -> usize {
        self.columns.first().map_or(0, Column::len)
    }

    fn column(&self, position: usize) -> ColumnRef<'_> {
        self.columns[position].as_ref()
    }

    fn into_columns(self: Box<Self>) -> Vec<Column> {
        self.columns
    }
}

impl TableBuf for ColumnTable {
    fn clear(&mut self) {
        self.columns.iter_mut().for_each(Column::clear);
    }

    fn fresh(&self) -> Box<dyn TableBuf> {
        Box::new(ColumnTable::new(self.schema.clone()))
    }

    fn extend_rows(&mut self, from: &dyn TableBuf, rows: Range<usize>, rename: &dyn Fn(u32) -> u32) {
        if from.schema() != &self.schema {
            return;
        }
        let first = self.n_rows();
        for (position, (column, field)) in self.columns.iter_mut().zip(&self.schema.fields).enumerate() {
            column.extend_rows(from.column(position), rows.clone());
            if let (Type::Code, Cells::U32(codes)) = (&field.ty, &mut column.cells) {
                codes.iter_mut().skip(first).for_each(|code| *code = rename(*code));
            }
        }
    }
}
