//! Prints records for people: a line each.
//!
//! ```text
//!       record               time  stream  schema            what
//!            1                100       1  access            addr=0x1000 size=8 kind=read
//! ```

use crate::schema::N_OWN;
use quipu_model::print::Ordinals;
use quipu_model::{Batch, Paint, Printer, Remark, harmless};
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
        // A remark is printed with the record after it, remarks at the end with a batch without records.
        let mut remarks = batch.remarks.iter().peekable();
        for row in rows.iter().map(|row| *row as usize) {
            while let Some(remark) = remarks.next_if(|remark| remark.at as usize <= row) {
                if remark.at as usize == row {
                    remarked(remark, paint, out);
                }
            }
            let number = |position: usize| table.column(position).number(row);
            let text = |position: usize| String::from_utf8_lossy(table.column(position).bytes(row));
            let record = number(0).wrapping_add(ordinals.records);
            let (time, stream) = (number(1), number(N_OWN));
            let (schema, what) = (text(N_OWN + 2), text(N_OWN + 3));
            // Writing to a vector cannot fail.
            let _ = write!(out, "{}{record:>12} {time:>20} {stream:>7}{}  ", paint.dim, paint.reset);
            let _ = write!(out, "{}{schema:<16}{}  ", paint.mark, paint.reset);
            one_line(&what, out);
            while out.last() == Some(&b' ') {
                out.pop();
            }
            out.push(b'\n');
        }
        if batch.span.records == 0 {
            remarks.for_each(|remark| remarked(remark, paint, out));
        }
    }

    fn end(&mut self, _: &mut Vec<u8>) {}
}

/// Prints a remark on a line of its own, without the number of a record.
fn remarked(remark: &Remark, paint: &Paint, out: &mut Vec<u8>) {
    let (clock, (dim, reset)) = (remark.clock, (paint.dim, paint.reset));
    // Writing to a vector cannot fail.
    let _ = write!(out, "{dim}{:>12} {clock:>20} {:>7}  {:<16}  ", "", "", "remark");
    one_line(&remark.text, out);
    let _ = writeln!(out, "{reset}");
}

/// Writes text on one line, with control characters escaped.
fn one_line(what: &str, out: &mut Vec<u8>) {
    harmless::append(what.as_bytes(), |c| !c.is_control(), out);
}
