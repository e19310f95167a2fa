//! Prints records for people: a line each, in columns.
//!
//! ```text
//!       record        line  kind                  address   size
//!            1           7  instr               0x401ab70      3
//!            2           9  store            0x1fff000688      8
//! ```

use quipu_model::print::Ordinals;
use quipu_model::schema::Type;
use quipu_model::{Batch, Paint, Printer, TableBuf};
use std::io::Write as _;

/// The column of kinds; columns before it say where the record is.
const KIND: &str = "type";

/// A printed column of the first table: numbers are right-aligned, names of kinds left-aligned.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    name: &'static str,
    head: &'static str,
    width: usize,
    gap: usize,
    hides_zero: bool,
}

impl Form {
    /// A column with this name in the schema, with its head and width.
    pub const fn new(name: &'static str, head: &'static str, width: usize) -> Form {
        Form { name, head, width, gap: 1, hides_zero: false }
    }

    /// The same with two blanks before it, to begin another group of columns.
    pub const fn apart(self) -> Form {
        Form { gap: 2, ..self }
    }

    /// The same with an empty cell for 0.
    pub const fn unless_zero(self) -> Form {
        Form { hides_zero: true, ..self }
    }

    /// Appends a text with its padding.
    fn put(&self, text: &[u8], out: &mut Vec<u8>) {
        let blanks = |n: usize| std::iter::repeat_n(b' ', n);
        let room = self.width.saturating_sub(text.len());
        out.extend(blanks(self.gap));
        if self.name == KIND {
            out.extend_from_slice(text);
            out.extend(blanks(room));
        } else {
            out.extend(blanks(room));
            out.extend_from_slice(text);
        }
    }
}

/// The colour class of a kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// An instruction.
    Code,
    /// An access.
    Data,
    /// Something else.
    Mark,
}

/// Writes the cell of a row in the column with this name in the family's own form; false to have it written according to its
/// type.
pub type OwnCell = fn(table: &dyn TableBuf, row: usize, column: &str, out: &mut Vec<u8>) -> bool;

/// Prints rows of a table.
#[derive(Debug)]
pub struct RowPrinter {
    forms: &'static [Form],
    /// The colour class of each kind.
    sorts: Vec<Sort>,
    own: OwnCell,
    /// The cell under construction.
    text: Vec<u8>,
}

impl RowPrinter {
    /// A printer with these columns and colour classes.
    pub fn new(forms: &'static [Form], sorts: Vec<Sort>) -> RowPrinter {
        RowPrinter { forms, sorts, own: |_, _, _, _| false, text: Vec::new() }
    }

    /// The same with the family's own form of cells.
    pub fn with_own(self, own: OwnCell) -> RowPrinter {
        RowPrinter { own, ..self }
    }
}

impl Printer for RowPrinter {
    fn begin(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        self.forms.iter().for_each(|form| form.put(form.head.as_bytes(), out));
        // There is no gap before the first column.
        out.drain(start..start + self.forms.first().map_or(0, |form| form.gap));
        out.push(b'\n');
    }

    fn print(&mut self, batch: &Batch, rows: &[u32], ordinals: Ordinals, paint: &Paint, out: &mut Vec<u8>) {
        let Some(table) = batch.tables.first().map(|table| &**table) else { return };
        let RowPrinter { forms, sorts, own, text } = self;
        let fields = &table.schema().fields;
        let positions =
            |form: &Form| table.schema().position(form.name).map(|at| (*form, at, table.column(at)));
        let columns: Vec<_> = forms.iter().filter_map(positions).collect();
        for row in rows.iter().map(|row| *row as usize) {
            out.extend_from_slice(paint.dim.as_bytes());
            let start = out.len();
            for (form, position, column) in &columns {
                let number = column.number(row);
                let ty = &fields[*position].ty;
                if form.name == KIND {
                    out.extend_from_slice(paint.reset.as_bytes());
                }
                text.clear();
                if !own(table, row, form.name, text) {
                    // Writing to a vector cannot fail.
                    let _ = match ty {
                        Type::Enum(names) => write!(text, "{}", names.get(number).unwrap_or("?")),
                        Type::Address => write!(text, "{number:#x}"),
                        _ if form.name == "record" => {
                            write!(text, "{}", number.wrapping_add(ordinals.records))
                        }
                        _ if form.hides_zero && number == 0 => Ok(()),
                        _ => write!(text, "{number}"),
                    };
                }
                if form.name == KIND {
                    let colour = match sorts.get(number as usize) {
                        Some(Sort::Code) => paint.code,
                        Some(Sort::Data) => paint.data,
                        Some(Sort::Mark) | None => paint.mark,
                    };
                    // The colour begins after the gap.
                    let gap = Form { width: 0, ..*form };
                    gap.put(b"", out);
                    out.extend_from_slice(colour.as_bytes());
                    Form { gap: 0, ..*form }.put(text, out);
                } else if !text.is_empty() {
                    form.put(text, out);
                }
            }
            out.drain(start..start + columns.first().map_or(0, |(form, ..)| form.gap));
            out.extend_from_slice(paint.reset.as_bytes());
            while out.last() == Some(&b' ') {
                out.pop();
            }
            out.push(b'\n');
        }
    }

    fn end(&mut self, _: &mut Vec<u8>) {}
}
