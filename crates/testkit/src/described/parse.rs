//! Parses the text of a trace that describes itself.

use quipu_model::schema::{Fidelity, Field, Missing, Names, Role, Schema, Storage, Type, Unit};
use quipu_model::{Column, Error, Result};
use std::sync::Arc;

/// A line after the description.
#[derive(Clone, Debug)]
pub(super) enum Line {
    /// A row of the table with this number, cell by cell.
    Row(usize, Vec<String>),
    /// A rule that was broken, and the message.
    Finding(String, String),
}

/// Returns the schemas, and the lines that follow them.
pub(super) fn parse(bytes: &[u8]) -> Result<(Vec<Arc<Schema>>, Vec<Line>)> {
    let text = String::from_utf8_lossy(bytes);
    let (mut schemas, mut lines): (Vec<Schema>, Vec<Line>) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate().skip(1) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let added = match (word, schemas.last_mut()) {
            ("", _) => Ok(()),
            ("table", _) => {
                let (name, doc) = rest.split_once(' ').unwrap_or((rest, ""));
                schemas.push(Schema::new(name.to_owned(), Fidelity::Derived, doc.to_owned(), Vec::new()));
                Ok(())
            }
            ("field", Some(schema)) => field(rest).map(|field| schema.fields.push(field)),
            ("row", Some(_)) => {
                let cells = rest.split(' ').map(str::to_owned).collect();
                lines.push(Line::Row(schemas.len() - 1, cells));
                Ok(())
            }
            ("finding", _) => {
                let (rule, message) = rest.split_once(' ').unwrap_or((rest, ""));
                lines.push(Line::Finding(rule.to_owned(), message.to_owned()));
                Ok(())
            }
            _ => Err(Error::malformed(format!("`{word}` says nothing"))),
        };
        added.map_err(|error| Error::malformed(format!("line {}: {}", number + 1, error.message())))?;
    }
    Ok((schemas.into_iter().map(Arc::new).collect(), lines))
}

fn field(text: &str) -> Result<Field> {
    let mut words = text.split(' ');
    let name = words.next().unwrap_or("").to_owned();
    let ty = words.next().unwrap_or("");
    let words: Vec<&str> = words.collect();
    let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let mut field = Field::new(name, type_of(ty, &value)?, "");
    for word in &words {
        field = match word.split_once('=') {
            Some(("role", role)) => field.role(Role(narrow(number(role)?)?)),
            Some(("unit", unit)) => field.unit(Unit(Some(unit.to_owned().into()))),
            Some(("missing", sentinel)) => field.missing(number(sentinel)?),
            Some(("names" | "group", _)) => field,
            None if *word == "optional" => field.optional(),
            None if *word == "hex" => field.hex(),
            _ => return Err(Error::malformed(format!("`{word}` says nothing of a field"))),
        };
    }
    Ok(field)
}

fn type_of<'t>(text: &'t str, value: &dyn Fn(&str) -> Option<&'t str>) -> Result<Type> {
    let (word, rest) = text.split_once(':').unwrap_or((text, ""));
    Ok(match word {
        "bool" => Type::Bool,
        "u8" => Type::U8,
        "u16" => Type::U16,
        "u32" => Type::U32,
        "u64" => Type::U64,
        "i8" => Type::I8,
        "i16" => Type::I16,
        "i32" => Type::I32,
        "i64" => Type::I64,
        "f32" => Type::F32,
        "f64" => Type::F64,
        "fixed" => Type::Fixed(narrow(number(rest)?)?),
        "address" => Type::Address,
        "text" => Type::Text,
        "bytes" => Type::Bytes,
        "time" => Type::Time { clock: narrow(number(rest)?)? },
        "dict" => Type::Dict(narrow(number(rest)?)?),
        "list" => Type::List(Arc::new(Field::new("item", type_of(rest, &|_| None)?, ""))),
        "struct" => {
            let member = |member: &str| {
                let (name, ty) = member.split_once('=').unwrap_or((member, ""));
                Ok(Field::new(name.to_owned(), type_of(ty, &|_| None)?, ""))
            };
            Type::Struct(rest.split(',').map(member).collect::<Result<Vec<_>>>()?.into())
        }
        "enum" | "flags" => {
            let pair = |pair: &str| {
                let (number, name) = pair.split_once(':').unwrap_or((pair, ""));
                Ok((self::number(number)?, name.to_owned()))
            };
            let pairs = value("names").unwrap_or("").split(',').map(pair).collect::<Result<Vec<_>>>()?;
            let mut names = Names::new(storage(rest)?, pairs);
            if let Some((word, members)) = value("group").and_then(|group| group.split_once(':')) {
                names = names.with_group(word.to_owned(), &members.split(',').collect::<Vec<_>>());
            }
            if word == "enum" { Type::Enum(names.shared()) } else { Type::Flags(names.shared()) }
        }
        _ => return Err(Error::malformed(format!("`{text}` is no type"))),
    })
}

fn storage(text: &str) -> Result<Storage> {
    match text {
        "u8" => Ok(Storage::U8),
        "u16" => Ok(Storage::U16),
        "u32" => Ok(Storage::U32),
        "u64" => Ok(Storage::U64),
        _ => Err(Error::malformed(format!("names do not stand for numbers of `{text}`"))),
    }
}

/// Appends a cell to a column; `dict` gives the index of a text in a dictionary.
pub(super) fn push(
    column: &mut Column,
    field: &Field,
    cell: &str,
    dict: &mut dyn FnMut(u32, &str) -> u32,
) -> Result<()> {
    if cell == "-" {
        if field.missing == Missing::Never && !matches!(field.ty, Type::List(_)) {
            return Err(Error::malformed(format!("`{}` has to have a value", field.name)));
        }
        column.push_missing(field.missing);
        return Ok(());
    }
    match &field.ty {
        Type::Text | Type::Bytes | Type::Fixed(_) => column.push_bytes(cell.as_bytes()),
        Type::Dict(number) => column.push(dict(*number, cell).into()),
        Type::F32 => column.push(float(cell).map(|value| u64::from((value as f32).to_bits()))?),
        Type::F64 => column.push(float(cell)?.to_bits()),
        Type::List(item) => {
            column.push_list(|items| cell.split(',').try_for_each(|part| push(items, item, part, &mut *dict)))
        }
        Type::Struct(members) => column.push_members(|columns| {
            let cells = cell.split(';').zip(members.iter()).zip(columns);
            cells.into_iter().try_for_each(|((cell, member), column)| push(column, member, cell, &mut *dict))
        }),
        _ => column.push(number(cell)?),
    }
}

fn float(text: &str) -> Result<f64> {
    text.parse().map_err(|_| Error::malformed(format!("`{text}` is no number")))
}

/// Parses a number; a negative one becomes its two's complement.
fn number(text: &str) -> Result<u64> {
    let number = match (text.strip_prefix("0x"), text.starts_with('-')) {
        (Some(hex), _) => u64::from_str_radix(hex, 16).ok(),
        (None, true) => text.parse::<i64>().ok().map(|number| number as u64),
        (None, false) => text.parse().ok(),
    };
    number.ok_or_else(|| Error::malformed(format!("`{text}` is no number")))
}

fn narrow<T: TryFrom<u64>>(number: u64) -> Result<T> {
    T::try_from(number).map_err(|_| Error::malformed(format!("`{number}` is too large here")))
}
