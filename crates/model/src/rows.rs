//! The `.rows` text form: any native table as lines that a person can read, write and review.
//!
//! ```text
//! entries type=read size=8 addr=0x7f10
//! ```
//!
//! One row a line: the table's name, then `column=value` in the schema's order. Columns left out are 0. `#` starts a
//! comment line. Instructions (the code column) have no text form here: derived tables are printed elsewhere.

use crate::error::{Error, Result};
use crate::table::{ColumnType, Rows, TableSchema};
use std::fmt::Write as _;

/// Prints all rows.
pub fn print(rows: &Rows) -> String {
    let mut out = String::new();
    for row in 0..rows.len() {
        out.push_str(&rows.schema.name);
        for (column, values) in rows.schema.columns.iter().zip(&rows.columns) {
            let value = values.get(row);
            let name = match column.kind {
                ColumnType::Name(names) => usize::try_from(value).ok().and_then(|i| names.get(i)),
                _ => None,
            };
            // Writing to a string cannot fail.
            let _ = match (column.kind, name) {
                (_, Some(name)) => write!(out, " {}={name}", column.name),
                (ColumnType::Hex, None) => write!(out, " {}={value:#x}", column.name),
                _ => write!(out, " {}={value}", column.name),
            };
        }
        out.push('\n');
    }
    out
}

/// Parses text that [`print()`] made, or a person wrote, into rows of one of `schemas` each, grouped by table in
/// the order of `schemas`. Errors name the line.
pub fn parse(text: &str, schemas: &[&TableSchema]) -> Result<Vec<Rows>> {
    let mut tables: Vec<Rows> = schemas.iter().map(|schema| Rows::new(schema)).collect();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        parse_line(line, &mut tables)
            .map_err(|error| Error::malformed(format!("line {}: {}", number + 1, error.message())))?;
    }
    Ok(tables)
}

fn parse_line(line: &str, tables: &mut [Rows]) -> Result<()> {
    let mut words = line.split_ascii_whitespace();
    let table = words.next().unwrap_or("");
    let rows = tables
        .iter_mut()
        .find(|rows| rows.schema.name == table)
        .ok_or_else(|| Error::malformed(format!("no table is called `{table}`")))?;
    let mut values = vec![0u64; rows.schema.columns.len()];
    for word in words {
        let (name, value) = word
            .split_once('=')
            .ok_or_else(|| Error::malformed(format!("expected `column=value`, found `{word}`")))?;
        let position = rows
            .schema
            .position(name)
            .ok_or_else(|| Error::malformed(format!("table `{table}` has no column `{name}`")))?;
        values[position] = parse_value(value, rows.schema.columns[position].kind)?;
    }
    for (column, value) in rows.columns.iter_mut().zip(values) {
        column.push(value)?;
    }
    Ok(())
}

fn parse_value(text: &str, kind: ColumnType) -> Result<u64> {
    if let ColumnType::Name(names) = kind
        && let Some(index) = names.iter().position(|name| *name == text)
    {
        return Ok(index as u64);
    }
    let number = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number.map_err(|_| Error::malformed(format!("`{text}` is neither a number nor a known name")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{ColumnSchema, Width};
    use std::borrow::Cow;

    static DEMO: TableSchema = TableSchema {
        name: Cow::Borrowed("demo"),
        derived: false,
        columns: Cow::Borrowed(&[
            ColumnSchema::new("type", Width::U16, ColumnType::Name(&["read", "write"]), ""),
            ColumnSchema::new("size", Width::U16, ColumnType::Count, ""),
            ColumnSchema::new("addr", Width::U64, ColumnType::Hex, ""),
        ]),
        doc: Cow::Borrowed(""),
    };

    #[test]
    fn printed_rows_parse_back_to_the_same_rows() {
        let text = "demo type=write size=8 addr=0x7f10\ndemo type=77 size=65535 addr=0xffffffffffffffff\n";
        let tables = parse(text, &[&DEMO]).unwrap();
        assert_eq!(print(&tables[0]), text);
    }

    #[test]
    fn columns_left_out_are_zero() {
        let tables = parse("# a comment\n\ndemo size=4\n", &[&DEMO]).unwrap();
        assert_eq!(print(&tables[0]), "demo type=read size=4 addr=0x0\n");
    }

    #[test]
    fn mistakes_name_the_line() {
        for (text, message) in [
            ("demo size=1\ndemo sise=2", "line 2: table `demo` has no column `sise`"),
            ("demo size=x", "line 1: `x` is neither a number nor a known name"),
            ("other", "line 1: no table is called `other`"),
            ("demo size=65536", "line 1: too many bits in a column value: `65536`, limit `65535`"),
        ] {
            assert_eq!(parse(text, &[&DEMO]).unwrap_err().message(), message);
        }
    }
}
