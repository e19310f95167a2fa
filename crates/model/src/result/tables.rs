//! Results as tables: one table for each list, at each level of nesting.

use super::{Fields, Kind, Shape, Value, What};
use crate::column::Column;
use crate::schema::{Fidelity, Field, Missing, Schema, Type};
use crate::table::{ColumnTable, Table};
use std::slice::IterMut;
use std::sync::Arc;

/// Converts a result to tables. The first has one row and is called `name`; it is left out if the result consists of lists
/// only. Each list has a table whose name is the path to the list. Rows of a nested list begin with the key columns of the
/// row that they belong to, or with its position, counted from 0, if it has no key columns.
pub fn tables<R: Fields>(name: &str, result: &R) -> Vec<ColumnTable> {
    let mut root = Level::new(name.to_owned(), &R::shape(), Vec::new());
    root.add(result, Row { columns: &[], keys: &[], at: 0 });
    let mut tables = Vec::new();
    root.collect(&mut tables);
    if tables.first().is_some_and(|table| table.columns.is_empty()) {
        tables.remove(0);
    }
    tables
}

/// The schemas of the tables that [`tables`] makes from a result of this shape, in the same order.
pub fn schemas(name: &str, shape: &Shape) -> Vec<Arc<Schema>> {
    let mut tables = Vec::new();
    Level::new(name.to_owned(), shape, Vec::new()).collect(&mut tables);
    tables.iter().map(|table| table.schema().clone()).filter(|schema| !schema.fields.is_empty()).collect()
}

/// Fills the columns of one row.
pub struct Cells<'a> {
    columns: IterMut<'a, Column>,
}

/// Fills the tables of the lists in one row.
pub struct Rows<'a> {
    levels: IterMut<'a, Level>,
    row: Row<'a>,
}

/// A row that contains lists, whose rows begin with its key columns.
#[derive(Clone, Copy)]
struct Row<'a> {
    columns: &'a [Column],
    /// Positions of its key columns. If a nested table expects more columns than this, it gets the row's position.
    keys: &'a [usize],
    at: usize,
}

/// A table that is being filled, with the tables of nested lists.
struct Level {
    table: ColumnTable,
    /// Number of columns that come from the rows above.
    n_inherited: usize,
    /// Positions of the columns that rows of nested lists begin with.
    keys: Vec<usize>,
    below: Vec<Level>,
}

impl Cells<'_> {
    fn add(&mut self, fill: impl FnOnce(&mut Column)) {
        if let Some(column) = self.columns.next() {
            fill(column);
        }
    }

    /// Fills the next column with a number: signed values as a two's complement, floats as their bits.
    pub fn number(&mut self, number: u64) {
        // The column accepts such numbers, so this cannot fail.
        self.add(|column| drop(column.push(number)));
    }

    /// Fills the next column with a text.
    pub fn text(&mut self, text: &str) {
        self.add(|column| drop(column.push_bytes(text.as_bytes())));
    }

    /// Fills the next column with a list. `fill` passes each item to its argument, which writes it.
    pub fn list(&mut self, fill: impl FnOnce(&mut dyn FnMut(&dyn Fn(&mut Cells<'_>)))) {
        self.add(|column| {
            let filled = column.push_list(|items| {
                fill(&mut |item| {
                    item(&mut Cells { columns: std::slice::from_mut(&mut *items).iter_mut() });
                });
                Ok(())
            });
            drop(filled);
        });
    }

    /// Leaves the next `n` columns without a value.
    pub fn nothing(&mut self, n: usize) {
        (0..n).for_each(|_| self.add(|column| column.push_missing(Missing::Bitmap)));
    }
}

impl Rows<'_> {
    /// Skips the next `n` tables.
    pub fn skip(&mut self, n: usize) {
        self.levels.by_ref().take(n).for_each(|_| {});
    }

    /// Appends one row for each structure to the next table.
    pub fn list<V: Value>(&mut self, items: &[V]) {
        if let Some(level) = self.levels.next() {
            items.iter().for_each(|item| level.add(item, self.row));
        }
    }
}

impl Level {
    /// Creates an empty table for rows of this shape, which begin with the `inherited` columns.
    fn new(name: String, shape: &Shape, inherited: Vec<Field>) -> Level {
        let n_inherited = inherited.len();
        let mut columns = Columns { fields: inherited, keys: (0..n_inherited).collect(), lists: Vec::new() };
        let mut n_own_keys = 0;
        columns.add(shape, "", false, false, &mut n_own_keys);
        columns.make_names_differ(n_inherited, name.rsplit('.').nth(1).unwrap_or_default());
        let Columns { fields, keys, lists } = columns;
        let mut below: Vec<Field> = keys.iter().filter_map(|key| fields.get(*key).cloned()).collect();
        // The first table has one row, so its nested tables need no key.
        if let Some((_, own)) = name.rsplit_once('.').filter(|_| n_own_keys == 0) {
            let doc = "Position of the row that this belongs to, from 0.";
            below.push(Field::new(format!("{own}.row"), Type::U64, doc));
        }
        let lists = lists
            .into_iter()
            .map(|(path, shape)| Level::new(format!("{name}.{path}"), &shape, below.clone()));
        let below = lists.collect();
        let schema = Schema::new(name, Fidelity::Derived, shape.about(), fields);
        Level { table: ColumnTable::new(Arc::new(schema)), n_inherited, keys, below }
    }

    /// Appends a row that begins with the key columns of the row `above`.
    fn add<V: Value>(&mut self, value: &V, above: Row<'_>) {
        let at = self.table.n_rows();
        let (first, own) = self.table.columns.split_at_mut(self.n_inherited);
        for (position, column) in first.iter_mut().enumerate() {
            match above.keys.get(position).and_then(|key| above.columns.get(*key)) {
                Some(key) => column.extend_rows(key.as_ref(), above.at..above.at + 1),
                // This column was made for positions.
                None => drop(column.push(above.at as u64)),
            }
        }
        value.cells(&mut Cells { columns: own.iter_mut() });
        if !self.below.is_empty() {
            let row = Row { columns: &self.table.columns, keys: &self.keys, at };
            value.rows(&mut Rows { levels: self.below.iter_mut(), row });
        }
    }

    fn collect(self, tables: &mut Vec<ColumnTable>) {
        tables.push(self.table);
        self.below.into_iter().for_each(|level| level.collect(tables));
    }
}

/// The columns of a table that is being planned.
struct Columns {
    fields: Vec<Field>,
    keys: Vec<usize>,
    /// Nested lists, each with the path to it.
    lists: Vec<(String, Shape)>,
}

impl Columns {
    fn add(&mut self, shape: &Shape, prefix: &str, is_nullable: bool, is_key: bool, n_keys: &mut usize) {
        for member in &shape.members {
            let marks = member.marks;
            let name = if marks.is_flat { String::new() } else { format!("{prefix}{}", marks.key) };
            let (is_key, is_nullable) = (is_key || marks.is_key, is_nullable || member.kind.is_nullable);
            match &member.kind {
                Kind { what: What::Cell(ty), .. } => {
                    if is_key {
                        self.keys.push(self.fields.len());
                        *n_keys += 1;
                    }
                    let field = Field::new(name, ty.clone(), member.doc);
                    self.fields.push(if is_nullable { field.optional() } else { field });
                }
                Kind { what: What::Fields(shape) | What::Items(shape), .. } => {
                    let prefix = if marks.is_flat { prefix.to_owned() } else { format!("{name}.") };
                    self.add(&shape(), &prefix, is_nullable, is_key, n_keys);
                }
                Kind { what: What::Rows(shape), .. } => self.lists.push((name, shape())),
            }
        }
    }

    /// Renames inherited columns that have the same name as a column of the row itself.
    fn make_names_differ(&mut self, n_inherited: usize, above: &str) {
        let (inherited, own) = self.fields.split_at_mut(n_inherited);
        for field in inherited {
            if own.iter().any(|other| other.name == field.name) {
                field.name = format!("{above}.{}", field.name).into();
            }
        }
    }
}
