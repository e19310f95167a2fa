//! The derived table of a trace in memory, and the printer of its rows.

use super::shard::Record;
use quipu_model::lens::{CallEdge, NO_CODE, instr_flags};
use quipu_model::print::{Ordinals, Paint, Printer};
use quipu_model::schema::{Names, Storage, Type};
use quipu_model::{Batch, rows};
use std::io::Write as _;
use std::sync::{Arc, LazyLock};

rows! {
    /// The only table: one row for each record. The kind's names are those of the text form; see
    /// [`MemoryTrace::parse`](super::MemoryTrace::parse).
    pub(crate) struct Records: "records" derived "The rows that the trace was built from.", codes code {
        kind: Vec<u8> as Type::Enum(KINDS.clone()) => "What the record is.";
        value: Vec<u64>, hex() => "Address or value of the record.";
        size: Vec<u32> => "Bytes touched.";
        code: Vec<u32> as Type::Code, missing(NO_CODE) => "The instruction.";
    }
}

static KINDS: LazyLock<Arc<Names>> = LazyLock::new(|| Names::dense(Storage::U8, KIND_NAMES).shared());

/// The kinds of records by number: instructions, then accesses, then events of threads, then the rest.
pub(super) const KIND_NAMES: &[&str] = &[
    "instr",
    "nofetch",
    "read",
    "write",
    "prefetch",
    "prefetch-instr",
    "flush-data",
    "flush-instr",
    "fetch",
    "start",
    "stop",
    "clock",
    "cpu",
    "idle",
    "wait",
    "syscall",
    "may-block",
    "interrupt",
    "resume",
    "failed",
    "kernel-enter",
    "kernel-leave",
    "switch-to",
    "park",
    "wake",
    "timeout",
    "mark",
    "enter",
    "leave",
];

/// Kind, value and size of a record.
fn row(record: &Record) -> (u8, u64, u32) {
    match record {
        Record::Instr(instr) => {
            (u8::from(instr.flags & instr_flags::NO_FETCH != 0), instr.pc, u32::from(instr.size))
        }
        Record::Access { kind, addr, size } => (2 + *kind as u8, *addr, *size),
        Record::Thread { what, value } => (9 + *what as u8, *value, 0),
        Record::Mark { value, .. } => (26, *value, 0),
        Record::Call { function, edge: CallEdge::Enter, .. } => (27, *function, 0),
        Record::Call { function, edge: CallEdge::Leave, .. } => (28, *function, 0),
    }
}

/// Adds a record as a row of the table.
pub(super) fn push_row(rows: &mut Records, record: &Record, code: u32) {
    let (kind, value, size) = row(record);
    rows.kind.push(kind);
    rows.value.push(value);
    rows.size.push(size);
    rows.code.push(code);
}

/// Prints `record instr thread: kind 0xvalue size`, one line a row.
pub(super) struct MemoryPrinter;

impl Printer for MemoryPrinter {
    fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"record instr thread\n");
    }

    fn print(&mut self, batch: &Batch, rows: &[u32], ordinals: Ordinals, paint: &Paint, out: &mut Vec<u8>) {
        let Some(table) = batch.tables.first().and_then(|table| table.get::<Records>()) else { return };
        let mut instrs = batch.span.first_instr.wrapping_add(ordinals.instrs);
        let mut next = 0;
        for row in 0..table.len() {
            instrs += u64::from(table.kind[row] == 0);
            if rows.get(next).is_none_or(|wanted| *wanted as usize != row) {
                continue;
            }
            next += 1;
            let record = batch.span.first_record.wrapping_add(ordinals.records) + row as u64 + 1;
            let kind = KIND_NAMES.get(usize::from(table.kind[row])).unwrap_or(&"?");
            // Writing to memory cannot fail.
            let _ =
                write!(out, "{}{record} {instrs} {}{}: {kind}", paint.dim, batch.span.thread, paint.reset);
            let _ = write!(out, " {:#x} {}", table.value[row], table.size[row]);
            if let Some(code) = batch.codes.get(table.code[row]) {
                let _ = write!(out, " {}{:02x?}{}", paint.code, code.bytes(), paint.reset);
            }
            out.push(b'\n');
        }
    }

    fn end(&mut self, _out: &mut Vec<u8>) {}
}
