//! Choosing rows by what their columns say.
//!
//! The columns are found by their roles, or else by their names: `tid`, `pc`, `addr` with `size`, `time`; and every column of
//! names for kinds.

use quipu_model::schema::{Names, Role, Type};
use quipu_model::{ColumnRef, Error, Result, Schema, TableBuf, ThreadId};
use std::ops::RangeInclusive;
use std::sync::Arc;

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
    /// Columns of names with the numbers that are wanted.
    kinds: Vec<(usize, Vec<u64>)>,
}

#[derive(Debug)]
enum Test {
    OneOf(Vec<u64>),
    Within(RangeInclusive<u64>),
    /// The value is the first address touched; the column with the count of bytes follows.
    Touches(RangeInclusive<u64>, Option<usize>),
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

impl Chosen {
    /// Finds the columns.
    ///
    /// # Errors
    /// `Usage` if the table lacks a column that the filter asks about, or no column knows a kind.
    pub fn new(filter: &RowFilter, schema: &Schema) -> Result<Chosen> {
        let column = |role: Role| {
            let name = CHOICES.iter().find(|(other, ..)| *other == role).map_or("", |(_, name, _)| *name);
            position(schema, role, name).ok_or_else(|| {
                Error::usage(format!("rows of table `{}` cannot be chosen by `{name}`", schema.name))
                    .hint(choices(schema))
            })
        };
        let mut tests = Vec::new();
        if !filter.threads.is_empty() {
            // The column has what the trace has, which packs further traces' threads.
            let threads = filter.threads.iter().map(|thread| thread.packed()).collect();
            tests.push((column(Role::THREAD)?, Test::OneOf(threads)));
        }
        if let Some(range) = &filter.pc {
            tests.push((column(Role::PC)?, Test::Within(range.clone())));
        }
        if let Some(range) = &filter.addr {
            let size = position(schema, Role::SIZE, "size");
            tests.push((column(Role::ADDRESS)?, Test::Touches(range.clone(), size)));
        }
        if let Some(range) = &filter.time {
            tests.push((column(Role::TIME)?, Test::Within(range.clone())));
        }
        Ok(Chosen { tests, kinds: kinds(&filter.kinds, schema)? })
    }

    /// Replaces `out` by the numbers of the rows that pass, ascending.
    pub fn choose(&self, rows: &dyn TableBuf, out: &mut Vec<u32>) {
        out.clear();
        out.extend(0..rows.n_rows() as u32); // A batch has some thousand rows.
        for (position, test) in &self.tests {
            let column = rows.column(*position);
            match test {
                Test::OneOf(values) => out.retain(|&row| values.contains(&column.number(row as usize))),
                Test::Within(range) => out.retain(|&row| range.contains(&column.number(row as usize))),
                Test::Touches(range, size) => {
                    let size = size.map(|position| rows.column(position));
                    out.retain(|&row| touches(range, column.number(row as usize), bytes(size, row)));
                }
            }
        }
        if !self.kinds.is_empty() {
            let columns: Vec<_> =
                self.kinds.iter().map(|(position, wanted)| (rows.column(*position), wanted)).collect();
            out.retain(|&row| {
                columns.iter().any(|(column, wanted)| wanted.contains(&column.number(row as usize)))
            });
        }
    }
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
fn kinds(words: &[String], schema: &Schema) -> Result<Vec<(usize, Vec<u64>)>> {
    if words.is_empty() {
        return Ok(Vec::new());
    }
    if named(schema).next().is_none() {
        return Err(
            Error::usage(format!("rows of table `{}` have no kinds", schema.name)).hint(choices(schema))
        );
    }
    // A word for several kinds goes before a kind of that name.
    let mut wanted: Vec<&str> = Vec::new();
    for word in words {
        let word = word.replace('-', "_");
        let groups = || named(schema).flat_map(|(_, names)| names.groups().map(move |group| (names, group)));
        let all = || named(schema).flat_map(|(_, names)| names.iter()).map(|(_, name)| name);
        let mut names = all().filter(|name| !name.is_empty());
        if let Some((names, (_, numbers))) = groups().find(|(_, (group, _))| is_same(group, &word)) {
            wanted.extend(numbers.iter().filter_map(|number| names.get(*number)));
        } else if let Some(name) = names.find(|name| is_same(name, &word)) {
            wanted.push(name);
        } else {
            let groups = groups().map(|(_, (group, _))| group);
            return Err(unknown_kind(&word, groups.chain(all().filter(|name| !name.is_empty())).collect()));
        }
    }
    let chosen = |names: &Names| -> Vec<u64> {
        names.iter().filter(|(_, name)| wanted.contains(name)).map(|(number, _)| number).collect()
    };
    Ok(named(schema).map(|(position, names)| (position, chosen(names))).collect())
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
mod tests {
    use super::*;
    use quipu_model::rows;
    use quipu_model::schema::Storage;

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

    fn check(filter: RowFilter, expected: &[u32]) {
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
        Chosen::new(&filter, Demo::table_schema()).unwrap().choose(&rows, &mut out);
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
            Chosen::new(&RowFilter { time: Some(0..=1), ..RowFilter::default() }, Demo::table_schema())
                .unwrap_err();
        assert_eq!(error.message(), "rows of table `demo` cannot be chosen by `time`");
    }
}
