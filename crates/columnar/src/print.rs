//! Prints rows for people: one line each, with the columns that have a value.
//!
//! ```text
//!       record  addr=0x7ffd0 size=8 kind=read
//! ```

use quipu_model::column::{Column, ColumnRef};
use quipu_model::print::Ordinals;
use quipu_model::schema::{Field, Role, Storage, Type};
use quipu_model::{Batch, Paint, Printer, Schema};
use std::io::Write as _;
use std::sync::Arc;

/// Prints rows of the first table of a batch.
#[derive(Debug)]
pub struct TablePrinter {
    schema: Arc<Schema>,
    record: Option<usize>,
}

impl TablePrinter {
    pub(crate) fn new(schema: &Arc<Schema>) -> TablePrinter {
        TablePrinter { record: schema.position_of(Role::RECORD), schema: schema.clone() }
    }
}

impl Printer for TablePrinter {
    fn begin(&mut self, out: &mut Vec<u8>) {
        // Writing to a vector cannot fail.
        let _ = writeln!(out, "{:>12}  {}", "record", self.schema.name);
    }

    fn print(&mut self, batch: &Batch, rows: &[u32], ordinals: Ordinals, paint: &Paint, out: &mut Vec<u8>) {
        let Some(table) = batch.tables.first() else { return };
        for row in rows.iter().map(|row| *row as usize) {
            let record = match self.record {
                Some(at) => table.column(at).number(row),
                None => batch.span.first_record + row as u64 + 1,
            };
            let record = record.wrapping_add(ordinals.records);
            let _ = write!(out, "{}{record:>12}{} ", paint.dim, paint.reset);
            for (at, field) in self.schema.fields.iter().enumerate() {
                let column = table.column(at);
                if Some(at) == self.record || column.is_missing(field.missing, row) {
                    continue;
                }
                let _ = write!(out, " {}=", field.name);
                value(field, column, row, out);
            }
            out.push(b'\n');
        }
    }

    fn end(&mut self, _: &mut Vec<u8>) {}
}

/// Maximum number of items of a list that are printed.
const MAX_ITEMS: usize = 32;

/// Writes the value of a row in the form of its type.
fn value(field: &Field, column: ColumnRef<'_>, row: usize, out: &mut Vec<u8>) {
    let number = column.number(row);
    // Writing to a vector cannot fail.
    let _ = match &field.ty {
        Type::Bool => write!(out, "{}", if number == 0 { "no" } else { "yes" }),
        Type::Enum(names) => match names.get(number) {
            Some(name) => write!(out, "{name}"),
            None => write!(out, "{number}"),
        },
        Type::Flags(names) => {
            let set: Vec<&str> = names
                .iter()
                .filter(|(bit, _)| *bit != 0 && number & bit == *bit)
                .map(|(_, name)| name)
                .collect();
            match set.is_empty() {
                true => write!(out, "{number:#x}"),
                false => write!(out, "{}", set.join("|")),
            }
        }
        Type::Text => {
            let text = String::from_utf8_lossy(column.bytes(row)).into_owned();
            match text.chars().all(|c| !c.is_control() && c != ' ') && !text.is_empty() {
                true => write!(out, "{text}"),
                false => write!(out, "{text:?}"),
            }
        }
        Type::Bytes | Type::Fixed(_) => {
            column.bytes(row).iter().try_for_each(|byte| write!(out, "{byte:02x}"))
        }
        Type::List(item) => {
            out.push(b'[');
            if let Some((items, rows)) = column.items(row) {
                inner(item, items, rows.clone().take(MAX_ITEMS), out);
                if rows.len() > MAX_ITEMS {
                    out.extend_from_slice(" …".as_bytes());
                }
            }
            out.push(b']');
            Ok(())
        }
        Type::Struct(members) => {
            out.push(b'{');
            if let quipu_model::column::CellsRef::Members(columns) = column.cells {
                for (at, (member, column)) in members.iter().zip(columns).enumerate() {
                    if at > 0 {
                        out.push(b' ');
                    }
                    let _ = write!(out, "{}=", member.name);
                    value(member, column.as_ref(), row, out);
                }
            }
            out.push(b'}');
            Ok(())
        }
        Type::F32 => write!(out, "{}", f32::from_bits(number as u32)),
        Type::F64 => write!(out, "{}", f64::from_bits(number)),
        _ if field.is_hex() => write!(out, "{number:#x}"),
        ty if matches!(ty.storage(), Storage::I8 | Storage::I16 | Storage::I32 | Storage::I64) => {
            write!(out, "{}", number as i64)
        }
        _ => write!(out, "{number}"),
    };
}

fn inner(item: &Field, items: &Column, rows: impl Iterator<Item = usize>, out: &mut Vec<u8>) {
    for (at, row) in rows.enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        value(item, items.as_ref(), row, out);
    }
}
