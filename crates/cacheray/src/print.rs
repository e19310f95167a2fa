//! Records as people read them: a line each, in columns.
//!
//! ```text
//!       record  thread  kind                              address   size  type
//!            1       0  add                        0x55c97748d490     24  struct.Basic
//!            2       0  write                      0x55c97748d490      4
//! ```

use crate::table::{KINDS, Records};
use quipu_model::print::Ordinals;
use quipu_model::{Batch, Paint, Printer};
use std::io::Write as _;

/// Room for a kind with its flags.
const KIND_CHARS: usize = 22;

/// Prints rows of the table of records.
#[derive(Debug, Default)]
pub struct RecordPrinter;

impl Printer for RecordPrinter {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(
            b"      record  thread  kind                              address   size  type\n",
        );
    }

    fn print(&mut self, batch: &Batch, rows: &[u32], ordinals: Ordinals, paint: &Paint, out: &mut Vec<u8>) {
        let Some(table) = batch.tables.first().and_then(|table| table.get::<Records>()) else { return };
        for row in rows.iter().map(|row| *row as usize) {
            let (record, thread) = (table.record[row].wrapping_add(ordinals.records), table.thread[row]);
            let kind = KINDS.get(usize::from(table.kind[row])).copied().unwrap_or("?");
            let flags = match (table.atomic[row], table.unaligned[row]) {
                (0, 0) => "",
                (_, 0) => " atomic",
                (0, _) => " unaligned",
                _ => " atomic unaligned",
            };
            let is_access = matches!(table.kind[row], 0 | 1);
            let colour = if is_access { paint.data } else { paint.mark };
            // Writing to a vector cannot fail.
            let _ = write!(out, "{}{record:>12} {thread:>7}{}  ", paint.dim, paint.reset);
            let room = KIND_CHARS - kind.len();
            let _ = write!(out, "{colour}{kind}{flags:<room$} {:>18} ", Hex(table.addr[row]));
            let _ = match (is_access, table.type_name.get(row)) {
                (true, _) => write!(out, "{:>6}", table.size[row]),
                (false, None) => Ok(()),
                (false, Some(name)) => {
                    let (element_bytes, n_elements) = (table.element_bytes[row], table.n_elements[row]);
                    let name = String::from_utf8_lossy(name);
                    match n_elements {
                        1 => write!(out, "{element_bytes:>6}  {name}"),
                        _ => write!(out, "{element_bytes:>6}  {name} × {n_elements}"),
                    }
                }
            };
            out.extend_from_slice(paint.reset.as_bytes());
            while out.last() == Some(&b' ') {
                out.pop();
            }
            out.push(b'\n');
        }
    }

    fn end(&mut self, _: &mut Vec<u8>) {}
}

/// A number in hex that takes padding.
struct Hex(u64);

impl std::fmt::Display for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{:#x}", self.0))
    }
}
