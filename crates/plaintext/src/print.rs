//! Records as people read them: a line each, in columns.
//!
//! ```text
//!       record        line  kind                  address   size
//!            1           7  instr               0x401ab70      3
//!            2           9  store            0x1fff000688      8
//! ```

use crate::table::columns;
use quipu_model::print::Ordinals;
use quipu_model::{Batch, Paint, Printer};
use std::io::Write as _;

/// Prints rows of the table of records.
#[derive(Debug)]
pub(crate) struct RecordPrinter {
    /// Names of the kinds.
    pub(crate) kinds: &'static [&'static str],
    /// The kind of instructions.
    pub(crate) instr: u64,
}

impl Printer for RecordPrinter {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"      record        line  kind                  address   size\n");
    }

    fn print(&mut self, batch: &Batch, rows: &[u32], ordinals: Ordinals, paint: &Paint, out: &mut Vec<u8>) {
        let Some(table) = batch.tables.first() else { return };
        let columns = columns(&**table);
        for &row in rows {
            let value = |column: usize| columns[column].number(row as usize);
            let (record, line, kind) = (value(0).wrapping_add(ordinals.records), value(1), value(2));
            let name = self.kinds.get(kind as usize).copied().unwrap_or("?"); // One byte.
            let colour = if kind == self.instr { paint.code } else { paint.data };
            // Writing to a vector cannot fail.
            let _ = write!(out, "{}{record:>12} {line:>11}{}  ", paint.dim, paint.reset);
            let _ = write!(out, "{colour}{name:<10} {:>#18x}", value(3));
            let _ = if value(4) > 0 { write!(out, " {:>6}", value(4)) } else { Ok(()) };
            out.extend_from_slice(paint.reset.as_bytes());
            out.push(b'\n');
        }
    }

    fn end(&mut self, _: &mut Vec<u8>) {}
}
