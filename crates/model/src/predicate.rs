//! Choosing rows by what their columns say: one description for `view`, queries and other programs.
//!
//! The columns are found by their roles, or else by their names: `tid`, `pc`, `addr` with `size`, `time`; every column of
//! names for kinds; any other by its name ([`Condition`]).

use crate::batch::Batch;
use crate::column::{CellsRef, ColumnRef};
use crate::dicts::Dicts;
use crate::error::{Error, Result};
use crate::print::Ordinals;
use crate::schema::{Field, Missing, Names, Role, Schema, Storage, Type};
use crate::table::Table;
use crate::thread::ThreadId;
use crate::trace::Trace;
use crate::values::Types;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Which rows are wanted. What is empty or `None` asks for nothing; all that is given must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predicate {
    /// Rows of these threads.
    pub threads: Vec<ThreadId>,
    /// Rows with one of these names in a column of names, or of one of these families.
    pub kinds: Vec<String>,
    /// Rows of instructions at these addresses.
    pub pc: Option<RangeInclusive<u64>>,
    /// Rows that touch at least one of these addresses.
    pub addr: Option<RangeInclusive<u64>>,
    /// Rows between these readings of the clock.
    pub time: Option<RangeInclusive<u64>>,
    /// What columns must hold that are named.
    pub columns: Vec<Condition>,
    /// A condition of any shape.
    pub filter: Option<Filter>,
}

/// A condition of any shape over the columns of a table, such as an expression of SQL. It knows no table yet.
pub trait RowFilter: fmt::Debug + Send + Sync {
    /// The text that it was made of. Two of the same text choose the same rows.
    fn text(&self) -> &str;

    /// Moves what simpler conditions say of it into `predicate`, which a reader may use to leave out parts of a trace, and
    /// returns what is left of it.
    fn narrow(&self, schema: &Schema, predicate: &mut Predicate) -> Option<Filter>;

    /// True if it compares something with this text.
    fn has_text(&self, text: &str) -> bool;

    /// Matches it with the columns of a table.
    ///
    /// # Errors
    /// `Usage` for a column that there is not, and for values that do not go together.
    fn bind(&self, schema: &Schema) -> Result<Box<dyn RowTest>>;
}

/// A [`RowFilter`] that is ready for the rows of a table.
pub trait RowTest: fmt::Debug + Send + Sync {
    /// The positions of the columns that it looks at.
    fn columns(&self) -> &[usize];

    /// Keeps those of `rows` that pass; `column_at` lends the columns of all `n_rows` rows of a batch.
    ///
    /// # Errors
    /// `Usage` for a row that it cannot be computed for.
    fn retain<'c>(
        &self,
        n_rows: usize,
        column_at: &dyn Fn(usize) -> ColumnRef<'c>,
        beside: Beside<'_>,
        rows: &mut Vec<u32>,
    ) -> Result<()>;
}

/// A [`RowFilter`] that several readers share.
#[derive(Clone, Debug)]
pub struct Filter(pub Arc<dyn RowFilter>);

impl PartialEq for Filter {
    fn eq(&self, other: &Filter) -> bool {
        self.0.text() == other.0.text()
    }
}

/// What stands beside the rows of a batch: what their indexes point into, and what is added to positions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'b> {
    /// The dictionaries; none for rows that have texts in their place.
    pub dicts: Option<&'b Dicts>,
    /// The functions.
    pub types: Option<&'b Types>,
    /// What is added to columns of ordinals.
    pub ordinals: Ordinals,
}

impl<'b> Beside<'b> {
    /// What a batch has.
    pub fn of(batch: &'b Batch, ordinals: Ordinals) -> Beside<'b> {
        Beside { dicts: Some(&batch.dicts), types: Some(&batch.types), ordinals }
    }
}

/// What one column must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Its name.
    pub column: String,
    /// Its value. A row without a value fails every test but [`Accept::Present`].
    pub accept: Accept,
}

/// Which values pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Accept {
    /// Whole numbers within a range; numbers with a fraction, too.
    Between(RangeInclusive<i128>),
    /// Numbers with a fraction within a range.
    Floats(RangeInclusive<f64>),
    /// One of these texts, names of numbers or entries of a dictionary.
    Texts(Vec<String>),
    /// That there is a value, or that there is none.
    Present(bool),
}

impl Predicate {
    /// True if every row passes.
    pub fn is_empty(&self) -> bool {
        *self == Predicate::default()
    }

    /// The same, with what the filter says of columns of this table as simpler conditions.
    #[must_use]
    pub fn narrowed(mut self, schema: &Schema) -> Predicate {
        if let Some(filter) = self.filter.take() {
            self.filter = filter.0.narrow(schema, &mut self);
        }
        self
    }
}

/// A predicate made ready for one table.
#[derive(Debug, Default)]
pub struct Chosen {
    tests: Vec<(usize, Test)>,
    kinds: Kinds,
    filter: Option<Box<dyn RowTest>>,
}

/// Columns of names with the numbers that are wanted.
type Kinds = Vec<(usize, Vec<u64>)>;

#[derive(Debug)]
enum Test {
    OneOf(Vec<u64>),
    Within(RangeInclusive<u64>),
    /// The value is the first address touched; the column with the count of bytes follows.
    Touches(RangeInclusive<u64>, Option<usize>),
    /// What a column that is named must hold, and how its rows say that they have no value.
    Named(Value, Missing, Shift),
}

/// What a value must be, by the type of its column.
#[derive(Debug)]
enum Value {
    Unsigned(RangeInclusive<u64>),
    Signed(RangeInclusive<i64>),
    Float(RangeInclusive<f64>),
    OneOf(Vec<u64>),
    Texts(Vec<String>),
    /// Entries of the dictionary with this number.
    OfDict(u32, Vec<String>),
    Present(bool),
}

/// What is added to a column of ordinals.
#[derive(Clone, Copy, Debug)]
enum Shift {
    None,
    Records,
    Instrs,
}

/// What rows can be chosen by: the role of the column, its usual name, and what people call it.
const CHOICES: [(Role, &str, &str); 4] = [
    (Role::THREAD, "tid", "thread"),
    (Role::PC, "pc", "pc"),
    (Role::ADDRESS, "addr", "addr"),
    (Role::TIME, "time", "time"),
];

/// The column for something, by its role or else by its name.
fn position(schema: &Schema, role: Role, name: &str) -> Option<usize> {
    schema.position_of(role).or_else(|| schema.position(name))
}

/// Whether the bitmap of a column, if it has one, says that a row has a value.
fn is_there(column: ColumnRef<'_>, row: u32) -> bool {
    column.valid.is_none_or(|valid| valid.get(row as usize))
}

impl Chosen {
    /// Finds the columns.
    ///
    /// # Errors
    /// `Usage` if the table lacks a column that the predicate asks about, if a column has no values of the sort that is asked
    /// for, or no column knows a kind.
    pub fn new(predicate: &Predicate, schema: &Schema) -> Result<Chosen> {
        let column = |role: Role| {
            let name = CHOICES.iter().find(|(other, ..)| *other == role).map_or("", |(_, name, _)| *name);
            position(schema, role, name).ok_or_else(|| {
                Error::usage(format!("rows of table `{}` cannot be chosen by `{name}`", schema.name))
                    .hint(choices(schema))
            })
        };
        let mut tests = Vec::new();
        if !predicate.threads.is_empty() {
            // The column has what the trace has, which packs further traces' threads.
            let threads = predicate.threads.iter().map(|thread| thread.packed()).collect();
            tests.push((column(Role::THREAD)?, Test::OneOf(threads)));
        }
        if let Some(range) = &predicate.pc {
            tests.push((column(Role::PC)?, Test::Within(range.clone())));
        }
        if let Some(range) = &predicate.addr {
            let size = position(schema, Role::SIZE, "size");
            tests.push((column(Role::ADDRESS)?, Test::Touches(range.clone(), size)));
        }
        if let Some(range) = &predicate.time {
            tests.push((column(Role::TIME)?, Test::Within(range.clone())));
        }
        for condition in &predicate.columns {
            let position = schema.column_named(&condition.column)?;
            let field = &schema.fields[position];
            let value = Value::new(&condition.accept, field).ok_or_else(|| {
                Error::usage(format!("rows cannot be chosen by such values of column `{}`", field.name))
            })?;
            let shift = match field.role {
                Some(Role::RECORD) => Shift::Records,
                Some(Role::INSTR) => Shift::Instrs,
                _ => Shift::None,
            };
            tests.push((position, Test::Named(value, field.missing, shift)));
        }
        let filter = predicate.filter.as_ref().map(|filter| filter.0.bind(schema)).transpose()?;
        Ok(Chosen { tests, kinds: kinds(&predicate.kinds, schema)?, filter })
    }

    /// True if every row passes.
    pub fn is_all(&self) -> bool {
        self.tests.is_empty() && self.kinds.is_empty() && self.filter.is_none()
    }

    /// The columns that are looked at.
    pub fn columns(&self) -> impl Iterator<Item = usize> {
        let sizes = self.tests.iter().filter_map(|(_, test)| match test {
            Test::Touches(_, size) => *size,
            _ => None,
        });
        let tested = self.tests.iter().map(|(position, _)| *position);
        let filtered = self.filter.iter().flat_map(|filter| filter.columns().iter().copied());
        tested.chain(sizes).chain(self.kinds.iter().map(|(position, _)| *position)).chain(filtered)
    }

    /// Replaces `out` by the numbers of the rows that pass, ascending.
    ///
    /// # Errors
    /// `Usage` for a row that the filter cannot be computed for.
    pub fn choose(&self, rows: &dyn Table, beside: Beside<'_>, out: &mut Vec<u32>) -> Result<()> {
        self.choose_from(rows.n_rows(), |position| rows.column(position), beside, out)
    }

    /// The same for rows whose columns are lent one by one.
    ///
    /// # Errors
    /// As [`choose`](Chosen::choose).
    pub fn choose_from<'c>(
        &self,
        n_rows: usize,
        column_at: impl Fn(usize) -> ColumnRef<'c>,
        beside: Beside<'_>,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let ordinals = beside.ordinals;
        out.clear();
        out.extend(0..n_rows as u32); // A batch has some thousand rows.
        for (position, test) in &self.tests {
            let column = column_at(*position);
            match test {
                Test::OneOf(values) => {
                    out.retain(|&row| is_there(column, row) && values.contains(&column.number(row as usize)))
                }
                Test::Within(range) => {
                    out.retain(|&row| is_there(column, row) && range.contains(&column.number(row as usize)))
                }
                Test::Touches(range, size) => {
                    let size = size.map(&column_at);
                    out.retain(|&row| {
                        is_there(column, row) && touches(range, column.number(row as usize), bytes(size, row))
                    });
                }
                Test::Named(value, missing, shift) => {
                    let shift = match shift {
                        Shift::None => 0,
                        Shift::Records => ordinals.records,
                        Shift::Instrs => ordinals.instrs,
                    };
                    out.retain(|&row| value.has(column, *missing, row as usize, shift, beside.dicts));
                }
            }
        }
        if !self.kinds.is_empty() {
            let columns: Vec<_> =
                self.kinds.iter().map(|(position, wanted)| (column_at(*position), wanted)).collect();
            out.retain(|&row| {
                columns.iter().any(|(column, wanted)| wanted.contains(&column.number(row as usize)))
            });
        }
        match &self.filter {
            Some(filter) if !out.is_empty() => filter.retain(n_rows, &column_at, beside, out),
            _ => Ok(()),
        }
    }
}

/// A predicate made ready for a table and for those that [say more](Trace::details) of its rows: what the table has no column
/// for is asked of each row's own table. A row whose own table has no such column does not pass.
#[derive(Debug, Default)]
pub struct Sieve {
    own: Chosen,
    /// Whether rows are chosen by those of other tables as well.
    is_detailed: bool,
    details: Vec<(usize, Chosen)>,
    rows: Vec<u32>,
    records: Vec<u64>,
}

impl Sieve {
    /// Finds the columns.
    ///
    /// # Errors
    /// As [`Chosen::new`], where neither the table nor one that says more of its rows has such a column, or knows the kind.
    pub fn new(predicate: &Predicate, trace: &dyn Trace, table: usize) -> Result<Sieve> {
        let schemas = trace.tables()?;
        let schema = &schemas[table];
        let numbers: Vec<usize> = trace.details(table).collect();
        let lacks = |role: Role, name: &str| position(schema, role, name).is_none();
        let predicate = &predicate.clone().narrowed(schema);
        let mut own = predicate.clone();
        let mut asked = Predicate::default();
        if lacks(Role::PC, "pc") {
            asked.pc = own.pc.take();
        }
        if lacks(Role::ADDRESS, "addr") {
            asked.addr = own.addr.take();
        }
        if named(schema).next().is_none() {
            asked.kinds = std::mem::take(&mut own.kinds);
        }
        if numbers.is_empty() || asked.is_empty() {
            return Ok(Sieve { own: Chosen::new(predicate, schema)?, ..Sieve::default() });
        }
        let all: Vec<&Schema> = numbers.iter().map(|number| &*schemas[*number]).collect();
        let has = |schema: &Schema, role: Role, name: &str| position(schema, role, name).is_some();
        let has_pc = |schema: &Schema| asked.pc.is_none() || has(schema, Role::PC, "pc");
        let has_addr = |schema: &Schema| asked.addr.is_none() || has(schema, Role::ADDRESS, "addr");
        if !all.iter().any(|schema| has_pc(schema)) || !all.iter().any(|schema| has_addr(schema)) {
            // Which of both there is not, and what there is instead.
            return Err(Chosen::new(predicate, schema)
                .err()
                .unwrap_or_else(|| Error::usage("no such column")));
        }
        let kinds = kinds_of(&asked.kinds, &all)?;
        let places = Predicate { kinds: Vec::new(), ..asked.clone() };
        let mut details = Vec::new();
        for ((number, schema), kinds) in numbers.into_iter().zip(all).zip(kinds) {
            if !has_pc(schema) || !has_addr(schema) {
                continue;
            }
            let Some(kinds) = kinds else { continue };
            details.push((number, Chosen { kinds, ..Chosen::new(&places, schema)? }));
        }
        let own = Chosen::new(&own, schema)?;
        Ok(Sieve { own, is_detailed: true, details, ..Sieve::default() })
    }

    /// The tables that must be read after the one whose rows are chosen, in this order.
    pub fn tables(&self) -> impl Iterator<Item = usize> {
        self.details.iter().map(|(number, _)| *number)
    }

    /// Replaces `out` by the numbers of the rows of the batch's first table that pass, ascending. After it, the batch has
    /// [those](Sieve::tables) that say more of its rows.
    ///
    /// # Errors
    /// As [`Chosen::choose`].
    pub fn choose(&mut self, batch: &Batch, ordinals: Ordinals, out: &mut Vec<u32>) -> Result<()> {
        out.clear();
        let Some((first, further)) = batch.tables.split_first() else { return Ok(()) };
        let beside = Beside::of(batch, ordinals);
        self.own.choose(&**first, beside, out)?;
        if !self.is_detailed {
            return Ok(());
        }
        self.records.clear();
        for ((_, chosen), table) in self.details.iter().zip(further) {
            let Some(record) = table.schema().position_of(Role::RECORD) else { continue };
            chosen.choose(&**table, beside, &mut self.rows)?;
            let column = table.column(record);
            self.records.extend(self.rows.iter().map(|row| column.number(*row as usize)));
        }
        self.records.sort_unstable();
        let Some(record) = first.schema().position_of(Role::RECORD) else {
            out.clear();
            return Ok(());
        };
        let column = first.column(record);
        out.retain(|row| self.records.binary_search(&column.number(*row as usize)).is_ok());
        Ok(())
    }
}

impl Value {
    /// The test for columns of this type; `None` if none of their values can pass it.
    fn new(accept: &Accept, field: &Field) -> Option<Value> {
        match accept {
            Accept::Present(present) => Some(Value::Present(*present)),
            Accept::Floats(range) => Value::float(range.clone(), &field.ty),
            Accept::Between(range) => match &field.ty {
                // Positions in what a batch has beside its rows, which mean nothing to others.
                Type::Dict(_) | Type::Code | Type::Function | Type::Value => None,
                Type::F32 | Type::F64 => Value::float(*range.start() as f64..=*range.end() as f64, &field.ty),
                ty => match ty.storage() {
                    Storage::U8 | Storage::U16 | Storage::U32 | Storage::U64 => Some(
                        within(range, u64::MIN.into(), u64::MAX.into(), |number| number as u64)
                            .map_or(Value::OneOf(Vec::new()), Value::Unsigned),
                    ),
                    Storage::I8 | Storage::I16 | Storage::I32 | Storage::I64 => Some(
                        within(range, i64::MIN.into(), i64::MAX.into(), |number| number as i64)
                            .map_or(Value::OneOf(Vec::new()), Value::Signed),
                    ),
                    _ => None,
                },
            },
            Accept::Texts(texts) => match &field.ty {
                Type::Enum(names) => {
                    let is_wanted = |name: &str| texts.iter().any(|text| text == name);
                    let wanted = names.iter().filter(|(_, name)| is_wanted(name));
                    Some(Value::OneOf(wanted.map(|(number, _)| number).collect()))
                }
                Type::Text | Type::Bytes => Some(Value::Texts(texts.clone())),
                Type::Dict(dict) => Some(Value::OfDict(*dict, texts.clone())),
                _ => None,
            },
        }
    }

    fn float(range: RangeInclusive<f64>, ty: &Type) -> Option<Value> {
        matches!(ty, Type::F32 | Type::F64).then_some(Value::Float(range))
    }

    fn has(
        &self,
        column: ColumnRef<'_>,
        missing: Missing,
        row: usize,
        shift: u64,
        dicts: Option<&Dicts>,
    ) -> bool {
        let is_missing = column.is_missing(missing, row);
        if let Value::Present(present) = self {
            return is_missing != *present;
        }
        if is_missing {
            return false;
        }
        let number = || column.number(row).wrapping_add(shift);
        let is_one = |texts: &[String], value: &[u8]| texts.iter().any(|text| text.as_bytes() == value);
        match self {
            Value::Unsigned(range) => range.contains(&number()),
            Value::Signed(range) => range.contains(&(number() as i64)), // A two's complement.
            Value::Float(range) => match column.cells {
                CellsRef::F32(cells) => cells.get(row).is_some_and(|cell| range.contains(&f64::from(*cell))),
                CellsRef::F64(cells) => cells.get(row).is_some_and(|cell| range.contains(cell)),
                _ => false,
            },
            Value::OneOf(numbers) => numbers.contains(&number()),
            Value::Texts(texts) => is_one(texts, column.bytes(row)),
            Value::OfDict(dict, texts) => {
                let index = u32::try_from(column.number(row)).ok();
                dicts
                    .zip(index)
                    .and_then(|(dicts, index)| dicts.get(*dict, index))
                    .is_some_and(|text| is_one(texts, text))
            }
            Value::Present(_) => false,
        }
    }
}

/// The part of a range that numbers of a type can reach, if there is one.
fn within<T>(
    range: &RangeInclusive<i128>,
    least: i128,
    most: i128,
    narrow: impl Fn(i128) -> T,
) -> Option<RangeInclusive<T>> {
    let (start, end) = ((*range.start()).max(least), (*range.end()).min(most));
    (start <= end).then(|| narrow(start)..=narrow(end))
}

/// What rows of a table can be chosen by.
fn choices(schema: &Schema) -> String {
    let mut known: Vec<&str> = CHOICES
        .iter()
        .filter(|(role, name, _)| position(schema, *role, name).is_some())
        .map(|(.., word)| *word)
        .collect();
    if named(schema).next().is_some() {
        known.push("kind");
    }
    match known[..] {
        [] => "they can be chosen by nothing but their position".to_owned(),
        _ => format!("they can be chosen by: {}", known.join(", ")),
    }
}

/// The columns of names.
fn named(schema: &Schema) -> impl Iterator<Item = (usize, &Arc<Names>)> {
    schema.fields.iter().enumerate().filter_map(|(position, field)| match &field.ty {
        Type::Enum(names) => Some((position, names)),
        _ => None,
    })
}

/// The columns and numbers that the words stand for.
fn kinds(words: &[String], schema: &Schema) -> Result<Kinds> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    if named(schema).next().is_none() {
        return Err(
            Error::usage(format!("rows of table `{}` have no kinds", schema.name)).hint(choices(schema))
        );
    }
    let mut wanted: Vec<&str> = Vec::new();
    for word in words {
        let word = word.replace('-', "_");
        let names = names_for(&word, &[schema]);
        if names.is_empty() {
            return Err(unknown_kind(&word, known_kinds(&[schema])));
        }
        wanted.extend(names);
    }
    Ok(numbers_of(&wanted, schema))
}

/// The same for tables that may each be a kind themselves, by their names: `None` for those without any of the kinds, no
/// columns for those that are one.
fn kinds_of(words: &[String], schemas: &[&Schema]) -> Result<Vec<Option<Kinds>>> {
    if words.is_empty() {
        return Ok(vec![Some(Vec::new()); schemas.len()]);
    }
    // Of several tables of one name, all but the first have a number after it.
    let is_table = |schema: &Schema, word: &str| {
        let first = schema.name.rsplit_once('@').map_or(&*schema.name, |(first, _)| first);
        is_same(&schema.name, word) || is_same(first, word)
    };
    let words: Vec<String> = words.iter().map(|word| word.replace('-', "_")).collect();
    let mut wanted: Vec<&str> = Vec::new();
    for word in &words {
        let names = names_for(word, schemas);
        if names.is_empty() && !schemas.iter().any(|schema| is_table(schema, word)) {
            let tables = schemas.iter().map(|schema| &*schema.name);
            return Err(unknown_kind(word, tables.chain(known_kinds(schemas)).collect()));
        }
        wanted.extend(names);
    }
    let of_table = |schema: &&Schema| {
        if words.iter().any(|word| is_table(schema, word)) {
            return Some(Vec::new());
        }
        let numbers = numbers_of(&wanted, schema);
        numbers.iter().any(|(_, numbers)| !numbers.is_empty()).then_some(numbers)
    };
    Ok(schemas.iter().map(of_table).collect())
}

/// The names that a word stands for in columns of names. A word for several kinds goes before a kind of that name.
fn names_for<'s>(word: &str, schemas: &[&'s Schema]) -> Vec<&'s str> {
    let columns = || schemas.iter().flat_map(|schema| named(schema)).map(|(_, names)| names);
    let mut groups = columns().flat_map(|names| names.groups().map(move |group| (names, group)));
    if let Some((names, (_, numbers))) = groups.find(|(_, (group, _))| is_same(group, word)) {
        return numbers.iter().filter_map(|number| names.get(*number)).collect();
    }
    let mut names = columns().flat_map(|names| names.iter()).map(|(_, name)| name);
    names.find(|name| !name.is_empty() && is_same(name, word)).into_iter().collect()
}

/// All words that columns of names know.
fn known_kinds<'s>(schemas: &[&'s Schema]) -> Vec<&'s str> {
    let columns = || schemas.iter().flat_map(|schema| named(schema)).map(|(_, names)| names);
    let groups = columns().flat_map(|names| names.groups()).map(|(group, _)| group);
    let names = columns().flat_map(|names| names.iter()).map(|(_, name)| name);
    groups.chain(names.filter(|name| !name.is_empty())).collect()
}

/// The numbers of names in each column of names.
fn numbers_of(wanted: &[&str], schema: &Schema) -> Kinds {
    let chosen = |names: &Names| -> Vec<u64> {
        names.iter().filter(|(_, name)| wanted.contains(name)).map(|(number, _)| number).collect()
    };
    named(schema).map(|(position, names)| (position, chosen(names))).collect()
}

/// True if two words differ at most in how their parts are joined.
fn is_same(name: &str, word: &str) -> bool {
    name == word || name.replace('-', "_") == word
}

/// The error for a word that stands for nothing; proposes what contains it, or else everything.
fn unknown_kind(word: &str, mut known: Vec<&str>) -> Error {
    if known.iter().any(|name| name.contains(word)) {
        known.retain(|name| name.contains(word));
    }
    Error::usage(format!("no kind of record is called `{word}`")).hint(format!("kinds: {}", known.join(", ")))
}

fn bytes(size: Option<ColumnRef<'_>>, row: u32) -> u64 {
    size.map_or(1, |column| column.number(row as usize))
}

/// True if an access of `size` bytes at `addr` has a byte in `range`; one of no bytes counts as one byte.
fn touches(range: &RangeInclusive<u64>, addr: u64, size: u64) -> bool {
    let last = addr.saturating_add(size.saturating_sub(1));
    addr <= *range.end() && last >= *range.start()
}

#[cfg(test)]
#[expect(dead_code, unreachable_pub, clippy::empty_docs, reason = "`rows!` makes tables for other crates")]
mod tests {
    use super::*;
    use crate::rows;
    use crate::schema::Fidelity;
    use crate::table::ColumnTable;

    fn names(names: &[&'static str]) -> Names {
        Names::dense(Storage::U64, names)
    }

    rows! {
        struct Demo: "demo" derived "" {
            tid: Vec<u64> => "";
            kind("type"): Vec<u64> as Type::Enum(
                names(&["read", "write", "instr", "jump", "marker"]).with_group("code", &["instr", "jump"]).shared()
            ) => "";
            size: Vec<u64> => "";
            addr: Vec<u64> as Type::Address => "";
            code: Vec<u64> as Type::Address, role(Role::PC) => "";
            marker: Vec<u64> as Type::Enum(names(&["timestamp", "cpu-id"]).shared()), missing(NONE) => "";
        }
    }

    const NONE: u64 = u64::MAX;

    fn check(predicate: Predicate, expected: &[u32]) {
        let mut rows = Demo::default();
        for [tid, kind, size, addr, code, marker] in [
            [7, 2, 4, 0, 0x1000, NONE],
            [7, 0, 8, 0x8000, 0x1000, NONE],
            [7, 3, 2, 0, 0x1004, NONE],
            [8, 1, 16, 0x7ffc, 0x2000, NONE],
            [8, 4, 0, 0, 0, 0],
            [8, 4, 0, 0, 0, 1],
        ] {
            rows.tid.push(tid);
            rows.kind.push(kind);
            rows.size.push(size);
            rows.addr.push(addr);
            rows.code.push(code);
            rows.marker.push(marker);
        }
        let mut out = vec![99];
        let chosen = Chosen::new(&predicate, Demo::table_schema()).unwrap();
        chosen.choose(&rows, Beside::default(), &mut out).unwrap();
        assert_eq!(out, expected);
    }

    fn kinds(words: &[&str]) -> Predicate {
        Predicate { kinds: words.iter().map(|word| (*word).to_owned()).collect(), ..Predicate::default() }
    }

    #[test]
    fn an_empty_predicate_keeps_all_rows() {
        check(Predicate::default(), &[0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_family_stands_for_its_kinds() {
        check(kinds(&["code"]), &[0, 2]);
        check(kinds(&["jump"]), &[2]);
        check(kinds(&["read", "write"]), &[1, 3]);
    }

    #[test]
    fn a_kind_may_name_a_marker() {
        check(kinds(&["marker"]), &[4, 5]);
        check(kinds(&["timestamp", "read"]), &[1, 4]);
    }

    #[test]
    fn all_conditions_must_hold() {
        check(Predicate { threads: vec![7.into()], pc: Some(0x1000..=0x1003), ..kinds(&["read"]) }, &[1]);
        check(Predicate { threads: vec![9.into()], ..Predicate::default() }, &[]);
    }

    #[test]
    fn an_access_that_reaches_into_the_range_counts() {
        check(Predicate { addr: Some(0x8000..=0x8000), ..Predicate::default() }, &[1, 3]);
        check(Predicate { addr: Some(0x800c..=0x9000), ..Predicate::default() }, &[]);
    }

    #[test]
    fn an_unknown_kind_is_an_error_that_lists_the_known_ones() {
        let error = Chosen::new(&kinds(&["call"]), Demo::table_schema()).unwrap_err();
        assert_eq!(error.message(), "no kind of record is called `call`");
        assert_eq!(error.advice(), Some("kinds: code, read, write, instr, jump, marker, timestamp, cpu-id"));
    }

    #[test]
    fn a_part_of_a_kind_proposes_the_kinds_that_contain_it() {
        let error = Chosen::new(&kinds(&["stamp"]), Demo::table_schema()).unwrap_err();
        assert_eq!(error.advice(), Some("kinds: timestamp"));
    }

    #[test]
    fn parts_of_a_kind_may_be_joined_either_way() {
        check(kinds(&["cpu_id"]), &[5]);
        check(kinds(&["cpu-id"]), &[5]);
    }

    #[test]
    fn a_table_without_the_column_is_an_error() {
        let error =
            Chosen::new(&Predicate { time: Some(0..=1), ..Predicate::default() }, Demo::table_schema())
                .unwrap_err();
        assert_eq!(error.message(), "rows of table `demo` cannot be chosen by `time`");
    }

    fn named(column: &str, accept: Accept) -> Predicate {
        let columns = vec![Condition { column: column.to_owned(), accept }];
        Predicate { columns, ..Predicate::default() }
    }

    #[test]
    fn columns_are_tested_by_name_whatever_their_type() {
        check(named("size", Accept::Between(4..=8)), &[0, 1]);
        check(named("size", Accept::Between(-5..=2)), &[2, 4, 5]);
        check(named("size", Accept::Between(-5..=-1)), &[]);
        check(named("type", Accept::Texts(vec!["read".into(), "jump".into()])), &[1, 2]);
        check(named("marker", Accept::Present(true)), &[4, 5]);
        check(named("marker", Accept::Between(0..=i128::MAX)), &[4, 5]);
        check(named("marker", Accept::Present(false)), &[0, 1, 2, 3]);
        let error = Chosen::new(&named("siz", Accept::Present(true)), Demo::table_schema()).unwrap_err();
        assert_eq!(
            (error.message(), error.advice()),
            ("table `demo` has no column `siz`", Some("did you mean `size`?"))
        );
        let error = Chosen::new(&named("size", Accept::Texts(Vec::new())), Demo::table_schema()).unwrap_err();
        assert_eq!(error.message(), "rows cannot be chosen by such values of column `size`");
    }

    #[test]
    fn signs_fractions_texts_and_dictionaries_are_compared_as_what_they_are() {
        let fields = vec![
            Field::new("i", Type::I16, ""),
            Field::new("f", Type::F32, ""),
            Field::new("text", Type::Text, "").optional(),
            Field::new("dict", Type::Dict(2), ""),
            Field::new("record", Type::U64, "").role(Role::RECORD),
        ];
        let mut rows = ColumnTable::new(Schema::new("t", Fidelity::Derived, "", fields).into());
        let mut dicts = Dicts::default();
        dicts.push(2, b"one");
        dicts.push(2, b"two");
        for (row, i) in [-7i64, 0, 7].into_iter().enumerate() {
            rows.columns[0].push(i as u64).unwrap();
            rows.columns[1].push((i as f32 / 2.0).to_bits().into()).unwrap();
            match row {
                1 => rows.columns[2].push_missing(Missing::Bitmap),
                _ => rows.columns[2].push_bytes(format!("t{row}").as_bytes()).unwrap(),
            }
            rows.columns[3].push(row as u64 % 2).unwrap();
            rows.columns[4].push(row as u64 + 1).unwrap();
        }
        let chosen = |column: &str, accept: Accept| {
            let chosen = Chosen::new(&named(column, accept), rows.schema()).unwrap();
            let mut out = Vec::new();
            let ordinals = Ordinals { records: 100, instrs: 0 };
            chosen
                .choose(&rows, Beside { dicts: Some(&dicts), ordinals, ..Beside::default() }, &mut out)
                .unwrap();
            out
        };
        let texts = |texts: &[&str]| Accept::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(chosen("i", Accept::Between(i128::MIN..=-1)), [0]);
        assert_eq!(chosen("i", Accept::Between(0..=i128::MAX)), [1, 2]);
        assert_eq!(chosen("f", Accept::Floats(-3.5..=0.0)), [0, 1]);
        assert_eq!(chosen("f", Accept::Between(1..=4)), [2]);
        assert_eq!(chosen("text", texts(&["t0", "t1"])), [0]);
        assert_eq!(chosen("text", Accept::Present(false)), [1]);
        assert_eq!(chosen("dict", texts(&["two", "three"])), [1]);
        assert_eq!(chosen("record", Accept::Between(102..=102)), [1]);
    }
}
