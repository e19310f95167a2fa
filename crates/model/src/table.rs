//! Tables: rows stored as columns, with a schema that describes them.
//!
//! JSON, CSV, filters, queries and other programs see native records, lenses and results only as [`Table`]s. A [`TableBuf`]
//! is a table that a reader fills again and again: rows of a structure of vectors ([`rows!`](crate::rows!)), or a
//! [`ColumnTable`], whose columns are known only at run time.

use crate::column::{Cells, Column, ColumnRef};
use crate::schema::{Schema, Type};
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Rows, column by column.
pub trait Table: Send {
    /// The schema: names, types and meaning of the columns.
    fn schema(&self) -> &Arc<Schema>;

    /// Number of rows.
    fn n_rows(&self) -> usize;

    /// The column at this position of the schema; it has no values if it was not asked for.
    ///
    /// # Panics
    /// If the schema has no such column, as slices do.
    fn column(&self, position: usize) -> ColumnRef<'_>;

    /// Converts the table into its columns without copying.
    fn into_columns(self: Box<Self>) -> Vec<Column>
    where
        Self: 'static;
}

/// A table that can be filled, copied and cleared.
pub trait TableBuf: Table + Any + fmt::Debug {
    /// Removes all rows but keeps the buffers.
    fn clear(&mut self);

    /// Creates an empty table with the same schema.
    fn fresh(&self) -> Box<dyn TableBuf>;

    /// Appends rows of a table of the same type; does nothing for another type. `rename` maps each index into the code table
    /// to its new value.
    fn extend_rows(&mut self, from: &dyn TableBuf, rows: Range<usize>, rename: &dyn Fn(u32) -> u32);
}

impl dyn TableBuf {
    /// The table as its concrete type.
    pub fn get<T: TableBuf>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// The table as its concrete type, for filling.
    pub fn get_mut<T: TableBuf>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }

    /// The column called `name`.
    pub fn column_named(&self, name: &str) -> Option<ColumnRef<'_>> {
        self.schema().position(name).map(|position| self.column(position))
    }
}

/// A table whose columns are known only from its schema.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnTable {
    schema: Arc<Schema>,
    /// The columns in the order of the schema; all have the same length.
    pub columns: Vec<Column>,
}

impl ColumnTable {
    /// Creates a table without rows.
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
