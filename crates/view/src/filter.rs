//! Choosing rows by what their columns say.
//!
//! The columns are found by name: `tid`, `pc`, `addr` with `size`, `time`, and every column of names for kinds.

use quipu_model::{Column, ColumnType, Error, Family, Result, Rows, TableSchema, ThreadId};
use std::ops::RangeInclusive;

/// Which rows are wanted. What is empty or `None` asks for nothing; all that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowFilter {
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
}

impl RowFilter {
    /// True if every row passes.
    pub fn is_empty(&self) -> bool {
        *self == RowFilter::default()
    }
}

/// A filter made ready for one table.
#[derive(Debug)]
pub struct Chosen {
    tests: Vec<(usize, Test)>,
    kinds: Vec<(usize, Vec<bool>)>,
}

#[derive(Debug)]
enum Test {
    OneOf(Vec<u64>),
    Within(RangeInclusive<u64>),
    /// The value is the first address touched; the column with the count of bytes follows.
    Touches(RangeInclusive<u64>, Option<usize>),
}

impl Chosen {
    /// Finds the columns. `families` are words for several kinds, as [`Trace::families`](quipu_model::Trace::families)
    /// has them.
    ///
    /// # Errors
    /// `Usage` if the table lacks a column that the filter asks about, or no column knows a kind.
    pub fn new(filter: &RowFilter, schema: &TableSchema, families: &[Family]) -> Result<Chosen> {
        let column = |name: &str| {
            schema.position(name).ok_or_else(|| {
                Error::usage(format!("rows of table `{}` cannot be chosen by `{name}`", schema.name))
                    .hint(choices(schema))
            })
        };
        let mut tests = Vec::new();
        if !filter.threads.is_empty() {
            // The column has what the trace has, which packs further traces' threads.
            let threads = filter.threads.iter().map(|thread| thread.packed()).collect();
            tests.push((column("tid")?, Test::OneOf(threads)));
        }
        if let Some(range) = &filter.pc {
            tests.push((column("pc")?, Test::Within(range.clone())));
        }
        if let Some(range) = &filter.addr {
            tests.push((column("addr")?, Test::Touches(range.clone(), schema.position("size"))));
        }
        if let Some(range) = &filter.time {
            tests.push((column("time")?, Test::Within(range.clone())));
        }
        Ok(Chosen { tests, kinds: kinds(&filter.kinds, schema, families)? })
    }

    /// Replaces `out` by the numbers of the rows that pass, ascending.
    pub fn choose(&self, rows: &Rows, out: &mut Vec<u32>) {
        out.clear();
        out.extend(0..rows.len() as u32); // A batch has some thousand rows.
        for (position, test) in &self.tests {
            let Some(column) = rows.columns.get(*position) else { continue };
            match test {
                Test::OneOf(values) => out.retain(|&row| values.contains(&column.get(row as usize))),
                Test::Within(range) => out.retain(|&row| range.contains(&column.get(row as usize))),
                Test::Touches(range, size) => {
                    let size = size.and_then(|position| rows.columns.get(position));
                    out.retain(|&row| touches(range, column.get(row as usize), bytes(size, row)));
                }
            }
        }
        if !self.kinds.is_empty() {
            out.retain(|&row| {
                self.kinds.iter().any(|(position, wanted)| {
                    let value = rows.columns.get(*position).map(|column| column.get(row as usize));
                    value.is_some_and(|value| wanted.get(value as usize) == Some(&true))
                })
            });
        }
    }
}

/// What rows of a table can be chosen by.
fn choices(schema: &TableSchema) -> String {
    let columns = [("tid", "thread"), ("pc", "pc"), ("addr", "addr"), ("time", "time")];
    let mut known: Vec<&str> =
        columns.iter().filter(|(name, _)| schema.position(name).is_some()).map(|(_, word)| *word).collect();
    if schema.columns.iter().any(|column| matches!(column.kind, ColumnType::Name(_))) {
        known.push("kind");
    }
    match known[..] {
        [] => "they can be chosen by nothing but their position".to_owned(),
        _ => format!("they can be chosen by: {}", known.join(", ")),
    }
}

/// Which names of which columns the words stand for.
fn kinds(words: &[String], schema: &TableSchema, families: &[Family]) -> Result<Vec<(usize, Vec<bool>)>> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    let named = || {
        schema.columns.iter().enumerate().filter_map(|(position, column)| match column.kind {
            ColumnType::Name(names) => Some((position, names)),
            _ => None,
        })
    };
    if named().next().is_none() {
        return Err(
            Error::usage(format!("rows of table `{}` have no kinds", schema.name)).hint(choices(schema))
        );
    }
    let mut wanted: Vec<&str> = Vec::new();
    for word in words {
        let word = word.replace('-', "_");
        let mut names = named().flat_map(|(_, names)| names.iter().copied()).filter(|name| !name.is_empty());
        if let Some(family) = families.iter().find(|family| is_same(family.word, &word)) {
            wanted.extend(family.names);
        } else if let Some(name) = names.find(|name| is_same(name, &word)) {
            wanted.push(name);
        } else {
            let names = named().flat_map(|(_, names)| names.iter().copied()).filter(|name| !name.is_empty());
            return Err(unknown_kind(
                &word,
                families.iter().map(|family| family.word).chain(names).collect(),
            ));
        }
    }
    let chosen = |names: &[&str]| names.iter().map(|name| wanted.contains(name)).collect();
    Ok(named().map(|(position, names)| (position, chosen(names))).collect())
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

fn bytes(size: Option<&Column>, row: u32) -> u64 {
    size.map_or(1, |column| column.get(row as usize))
}

/// True if an access of `size` bytes at `addr` has a byte in `range`; one of no bytes counts as one byte.
fn touches(range: &RangeInclusive<u64>, addr: u64, size: u64) -> bool {
    let last = addr.saturating_add(size.saturating_sub(1));
    addr <= *range.end() && last >= *range.start()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_model::ColumnSchema;
    use quipu_model::table::Width;
    use std::borrow::Cow;

    static DEMO: TableSchema = TableSchema {
        name: Cow::Borrowed("demo"),
        derived: true,
        columns: Cow::Borrowed(&[
            column("tid", ColumnType::Count),
            column("type", ColumnType::Name(&["read", "write", "instr", "jump", "marker"])),
            column("size", ColumnType::Count),
            column("addr", ColumnType::Hex),
            column("pc", ColumnType::Hex),
            column("marker", ColumnType::Name(&["timestamp", "cpu-id"])),
        ]),
        doc: Cow::Borrowed(""),
    };

    const fn column(name: &'static str, kind: ColumnType) -> ColumnSchema {
        ColumnSchema::new(name, Width::U64, kind, "")
    }

    const NONE: u64 = u64::MAX;
    const FAMILIES: &[Family] = &[Family { word: "code", names: &["instr", "jump"] }];

    fn check(filter: RowFilter, expected: &[u32]) {
        let mut rows = Rows::new(&DEMO);
        for values in [
            [7, 2, 4, 0, 0x1000, NONE],
            [7, 0, 8, 0x8000, 0x1000, NONE],
            [7, 3, 2, 0, 0x1004, NONE],
            [8, 1, 16, 0x7ffc, 0x2000, NONE],
            [8, 4, 0, 0, 0, 0],
            [8, 4, 0, 0, 0, 1],
        ] {
            for (column, value) in rows.columns.iter_mut().zip(values) {
                column.push(value).unwrap();
            }
        }
        let mut out = vec![99];
        Chosen::new(&filter, &DEMO, FAMILIES).unwrap().choose(&rows, &mut out);
        assert_eq!(out, expected);
    }

    fn kinds(words: &[&str]) -> RowFilter {
        RowFilter { kinds: words.iter().map(|word| (*word).to_owned()).collect(), ..RowFilter::default() }
    }

    #[test]
    fn an_empty_filter_keeps_all_rows() {
        check(RowFilter::default(), &[0, 1, 2, 3, 4, 5]);
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
        check(RowFilter { threads: vec![7.into()], pc: Some(0x1000..=0x1003), ..kinds(&["read"]) }, &[1]);
        check(RowFilter { threads: vec![9.into()], ..RowFilter::default() }, &[]);
    }

    #[test]
    fn an_access_that_reaches_into_the_range_counts() {
        check(RowFilter { addr: Some(0x8000..=0x8000), ..RowFilter::default() }, &[1, 3]);
        check(RowFilter { addr: Some(0x800c..=0x9000), ..RowFilter::default() }, &[]);
    }

    #[test]
    fn an_unknown_kind_is_an_error_that_lists_the_known_ones() {
        let error = Chosen::new(&kinds(&["call"]), &DEMO, FAMILIES).unwrap_err();
        assert_eq!(error.message(), "no kind of record is called `call`");
        assert_eq!(error.advice(), Some("kinds: code, read, write, instr, jump, marker, timestamp, cpu-id"));
    }

    #[test]
    fn a_part_of_a_kind_proposes_the_kinds_that_contain_it() {
        let error = Chosen::new(&kinds(&["stamp"]), &DEMO, FAMILIES).unwrap_err();
        assert_eq!(error.advice(), Some("kinds: timestamp"));
    }

    #[test]
    fn parts_of_a_kind_may_be_joined_either_way() {
        check(kinds(&["cpu_id"]), &[5]);
        check(kinds(&["cpu-id"]), &[5]);
    }

    #[test]
    fn a_table_without_the_column_is_an_error() {
        let error = Chosen::new(&RowFilter { time: Some(0..=1), ..RowFilter::default() }, &DEMO, FAMILIES)
            .unwrap_err();
        assert_eq!(error.message(), "rows of table `demo` cannot be chosen by `time`");
    }
}
