//! Selecting rows by the values of their columns: one description for `view`, queries and other programs.
//!
//! Columns are found by their roles, or else by their names: `tid`, `pc`, `addr` with `size`, `time`. Kinds are looked up in
//! all columns of names; any other column is found by its name ([`Condition`]).

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
use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Selects rows. Empty and `None` fields impose no condition; all other conditions must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Predicate {
    /// Rows of these threads.
    pub threads: Vec<ThreadId>,
    /// Rows that have one of these names, or a name of one of these families, in a column of names.
    pub kinds: Vec<String>,
    /// Rows whose instruction is at one of these addresses.
    pub pc: Option<RangeInclusive<u64>>,
    /// Rows that touch at least one of these addresses.
    pub addr: Option<RangeInclusive<u64>>,
    /// Rows whose clock reading is in this range.
    pub time: Option<RangeInclusive<u64>>,
    /// Conditions on columns given by name.
    pub columns: Vec<Condition>,
    /// A condition of arbitrary form.
    pub filter: Option<Filter>,
}

/// A condition of arbitrary form over the columns of a table, such as an SQL expression. It is not bound to a table yet.
pub trait RowFilter: fmt::Debug + Send + Sync {
    /// The source text. Two filters with the same text select the same rows.
    fn text(&self) -> &str;

    /// Moves the parts that can be written as simpler conditions into `predicate`, which a reader may use to skip parts of a
    /// trace. Returns the rest of the filter.
    fn narrow(&self, schema: &Schema, predicate: &mut Predicate) -> Option<Filter>;

    /// True if the filter compares a column with this text.
    fn has_text(&self, text: &str) -> bool;

    /// Binds the filter to the columns of a table.
    ///
    /// # Errors
    /// `Usage` for an unknown column, and for values whose types do not fit.
    fn bind(&self, schema: &Schema) -> Result<Box<dyn RowTest>>;
}

/// A [`RowFilter`] bound to a table.
pub trait RowTest: fmt::Debug + Send + Sync {
    /// The positions of the columns that it reads.
    fn columns(&self) -> &[usize];

    /// Removes from `rows` those that do not pass; `column_at` lends the columns of all `n_rows` rows of a batch.
    ///
    /// # Errors
    /// `Usage` for a row on which the filter cannot be evaluated.
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

/// Context of the rows of a batch: what indexes in rows refer to, and offsets for ordinals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'b> {
    /// The dictionaries; `None` if rows contain texts instead of indexes.
    pub dicts: Option<&'b Dicts>,
    /// The types, which have the names of functions.
    pub types: Option<&'b Types>,
    /// Offsets that are added to columns of ordinals.
    pub ordinals: Ordinals,
}

impl<'b> Beside<'b> {
    /// The context that a batch provides.
    pub fn of(batch: &'b Batch, ordinals: Ordinals) -> Beside<'b> {
        Beside { dicts: Some(&batch.dicts), types: Some(&batch.types), ordinals }
    }
}

/// A condition on one column.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Name of the column.
    pub column: String,
    /// Accepted values. A row without a value fails every test but [`Accept::Present`].
    pub accept: Accept,
}

/// The values that pass a test.
#[derive(Clone, Debug, PartialEq)]
pub enum Accept {
    /// Numbers in this range, whether whole or with a fraction.
    Between(RangeInclusive<i128>),
    /// Numbers with a fraction in this range.
    Floats(RangeInclusive<f64>),
    /// Any of these texts: a text, the name of a number, or an entry of a dictionary.
    Texts(Vec<String>),
    /// Rows that have a value if true, rows that have none if false.
    Present(bool),
}

impl Predicate {
    /// True if every row passes.
    pub fn is_empty(&self) -> bool {
        *self == Predicate::default()
    }

    /// Moves conditions on columns of this table out of the filter and into simpler conditions.
    #[must_use]
    pub fn narrowed(mut self, schema: &Schema) -> Predicate {
        if let Some(filter) = self.filter.take() {
            self.filter = filter.0.narrow(schema, &mut self);
        }
        self
    }
}

/// A predicate bound to one table.
#[derive(Debug, Default)]
pub struct Chosen {
    tests: Vec<(usize, Test)>,
    kinds: Kinds,
    filter: Option<Box<dyn RowTest>>,
}

/// Columns of names, each with the numbers of the selected names.
type Kinds = Vec<(usize, Vec<u64>)>;

#[derive(Debug)]
enum Test {
    OneOf(Vec<u64>),
    Within(RangeInclusive<u64>),
    /// The value is the first address touched; the second field is the column with the number of bytes.
    Touches(RangeInclusive<u64>, Option<usize>),
    /// A condition on a named column, with its convention for missing values.
    Named(Value, Missing, Shift),
}

/// The condition on a value, by the type of its column.
#[derive(Debug)]
enum Value {
    Unsigned(RangeInclusive<u64>),
    Signed(RangeInclusive<i64>),
    Float(RangeInclusive<f64>),
    OneOf(Vec<u64>),
    Texts(Vec<String>),
    /// Entries of the dictionary with this number that are one of these texts.
    OfDict(u32, Vec<String>),
    Present(bool),
}

/// The offset to add to a column of ordinals.
#[derive(Clone, Copy, Debug)]
enum Shift {
    None,
    Records,
    Instrs,
}

/// Built-in choices: the role of the column, its usual name, and the word for people.
const CHOICES: [(Role, &str, &str); 4] = [
    (Role::THREAD, "tid", "thread"),
    (Role::PC, "pc", "pc"),
    (Role::ADDRESS, "addr", "addr"),
    (Role::TIME, "time", "time"),
];

/// The position of a column, by its role or else by its name.
fn position(schema: &Schema, role: Role, name: &str) -> Option<usize> {
    schema.position_of(role).or_else(|| schema.position(name))
}

/// True unless the column has a bitmap that says that the row has no value.
fn is_there(column: ColumnRef<'_>, row: u32) -> bool {
    column.valid.is_none_or(|valid| valid.get(row as usize))
}

impl Chosen {
    /// Binds a predicate to the columns of a table.
    ///
    /// # Errors
    /// `Usage` if the table lacks a column of the predicate, if a column has values of the wrong type, or if no column knows
    /// a kind.
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
            // The column contains thread ids as the trace packs them, together with the number of a further trace.
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

    /// The columns that are read.
    pub fn columns(&self) -> impl Iterator<Item = usize> {
        let sizes = self.tests.iter().filter_map(|(_, test)| match test {
            Test::Touches(_, size) => *size,
            _ => None,
        });
        let tested = self.tests.iter().map(|(position, _)| *position);
        let filtered = self.filter.iter().flat_map(|filter| filter.columns().iter().copied());
        tested.chain(sizes).chain(self.kinds.iter().map(|(position, _)| *position)).chain(filtered)
    }

    /// Replaces `out` by the indexes of the rows that pass, ascending.
    ///
    /// # Errors
    /// `Usage` for a row on which the filter cannot be evaluated.
    pub fn choose(&self, rows: &dyn Table, beside: Beside<'_>, out: &mut Vec<u32>) -> Result<()> {
        self.choose_from(rows.n_rows(), |position| rows.column(position), beside, out)
    }

    /// Like [`choose`](Chosen::choose), for rows whose columns are lent one by one.
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

/// A predicate bound to a table and to the tables that hold [details](Trace::details) of its rows. Conditions on columns that
/// the table lacks are evaluated on the detail table of each row. A row whose detail table lacks the column does not pass.
#[derive(Debug, Default)]
pub struct Sieve {
    own: Chosen,
    /// Whether some conditions are evaluated on detail tables.
    is_detailed: bool,
    details: Vec<(usize, Chosen)>,
    rows: Vec<u32>,
    records: Vec<u64>,
}

impl Sieve {
    /// Binds a predicate to the table and to its detail tables.
    ///
    /// # Errors
    /// As [`Chosen::new`], if neither the table nor any of its detail tables has a column or knows a kind.
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
            // This error says which column is missing, and what can be chosen instead.
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

    /// The detail tables to read after the table whose rows are selected, in this order.
    pub fn tables(&self) -> impl Iterator<Item = usize> {
        self.details.iter().map(|(number, _)| *number)
    }

    /// Replaces `out` by the indexes of the rows of the batch's first table that pass, ascending. The batch's further tables
    /// must be [the detail tables](Sieve::tables).
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
                // These are indexes into data of a batch, so numeric ranges mean nothing.
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
            Value::Signed(range) => range.contains(&(number() as i64)), // Interprets the number as a two's complement.
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

/// The part of a range that numbers of a type can represent, if any.
fn within<T>(
    range: &RangeInclusive<i128>,
    least: i128,
    most: i128,
    narrow: impl Fn(i128) -> T,
) -> Option<RangeInclusive<T>> {
    let (start, end) = ((*range.start()).max(least), (*range.end()).min(most));
    (start <= end).then(|| narrow(start)..=narrow(end))
}

/// For error messages: the words by which rows of a table can be selected.
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

/// The columns of names, with their positions.
fn named(schema: &Schema) -> impl Iterator<Item = (usize, &Arc<Names>)> {
    schema.fields.iter().enumerate().filter_map(|(position, field)| match &field.ty {
        Type::Enum(names) => Some((position, names)),
        _ => None,
    })
}

/// Columns of names with the numbers that these words stand for.
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

/// The same for several tables, whose own names also count as kinds. `None` for tables without any of the kinds; no columns,
/// and so no condition, for tables whose name is one of the kinds.
fn kinds_of(words: &[String], schemas: &[&Schema]) -> Result<Vec<Option<Kinds>>> {
    if words.is_empty() {
        return Ok(vec![Some(Vec::new()); schemas.len()]);
    }
    // If several tables have the same name, all but the first have a number after it.
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

/// The names in columns of names that a word stands for. A word for a group takes precedence over a single name.
fn names_for<'s>(word: &str, schemas: &[&'s Schema]) -> Vec<&'s str> {
    let columns = || schemas.iter().flat_map(|schema| named(schema)).map(|(_, names)| names);
    let mut groups = columns().flat_map(|names| names.groups().map(move |group| (names, group)));
    if let Some((names, (_, numbers))) = groups.find(|(_, (group, _))| is_same(group, word)) {
        return numbers.iter().filter_map(|number| names.get(*number)).collect();
    }
    let mut names = columns().flat_map(|names| names.iter()).map(|(_, name)| name);
    names.find(|name| !name.is_empty() && is_same(name, word)).into_iter().collect()
}

/// All words that columns of names accept.
fn known_kinds<'s>(schemas: &[&'s Schema]) -> Vec<&'s str> {
    let columns = || schemas.iter().flat_map(|schema| named(schema)).map(|(_, names)| names);
    let groups = columns().flat_map(|names| names.groups()).map(|(group, _)| group);
    let names = columns().flat_map(|names| names.iter()).map(|(_, name)| name);
    groups.chain(names.filter(|name| !name.is_empty())).collect()
}

/// For each column of names, the numbers of the wanted names.
fn numbers_of(wanted: &[&str], schema: &Schema) -> Kinds {
    let chosen = |names: &Names| -> Vec<u64> {
        names.iter().filter(|(_, name)| wanted.contains(name)).map(|(number, _)| number).collect()
    };
    named(schema).map(|(position, names)| (position, chosen(names))).collect()
}

/// True if two words differ at most in `-` and `_`.
fn is_same(name: &str, word: &str) -> bool {
    name == word || name.replace('-', "_") == word
}

/// The error for an unknown kind; it suggests the kinds that contain the word, or else all.
fn unknown_kind(word: &str, mut known: Vec<&str>) -> Error {
    // A kind may be in several tables, or share its name with a group of kinds.
    let mut listed = BTreeSet::new();
    known.retain(|name| listed.insert(*name));
    if known.iter().any(|name| name.contains(word)) {
        known.retain(|name| name.contains(word));
    }
    Error::usage(format!("no kind of record is called `{word}`")).hint(format!("kinds: {}", known.join(", ")))
}

fn bytes(size: Option<ColumnRef<'_>>, row: u32) -> u64 {
    size.map_or(1, |column| column.number(row as usize))
}

/// True if an access of `size` bytes at `addr` touches an address in `range`; a size of 0 counts as one byte.
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
    fn a_kind_of_several_tables_is_listed_once() {
        let error = unknown_kind("call", vec!["instr", "read", "instr"]);
        assert_eq!(error.advice(), Some("kinds: instr, read"));
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
