//! Records as people read them: a line each.
//!
//! ```text
//!       record               time  stream  schema            what
//!            1                100       1  access            addr=0x1000 size=8 kind=read
//! ```

use crate::schema::N_OWN;
use quipu_model::print::Ordinals;
use quipu_model::{Batch, Paint, Printer};
use std::io::Write as _;

/// Prints rows of the table of all records.
#[derive(Debug, Default)]
pub struct RecordPrinter;

impl Printer for RecordPrinter {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"      record                 time  stream  schema            what\n");
    }

    fn print(&mut self, batch: &Batch, rows: &[u32], ordinals: Ordinals, paint: &Paint, out: &mut Vec<u8>) {
        let Some(table) = batch.tables.first() else { return };
        for row in rows.iter().map(|row| *row as usize) {
            let number = |position: usize| table.column(position).number(row);
            let text = |position: usize| String::from_utf8_lossy(table.column(position).bytes(row));
            let record = number(0).wrapping_add(ordinals.records);
            let (time, stream) = (number(1), number(N_OWN));
            let (schema, what) = (text(N_OWN + 2), text(N_OWN + 3));
            // Writing to a vector cannot fail.
            let _ = write!(out, "{}{record:>12} {time:>20} {stream:>7}{}  ", paint.dim, paint.reset);
            let _ = write!(out, "{}{schema:<16}{}  ", paint.mark, paint.reset);
            // One line for each record, whatever its text has.
            for part in what.split_inclusive(|c: char| c.is_control()) {
                match part.char_indices().last() {
                    Some((at, control)) if control.is_control() => {
                        let _ = write!(out, "{}{}", &part[..at], control.escape_default());
                    }
                    _ => out.extend_from_slice(part.as_bytes()),
                }
            }
            while out.last() == Some(&b' ') {
                out.pop();
            }
            out.push(b'\n');
        }
    }

    fn end(&mut self, _: &mut Vec<u8>) {}
}
