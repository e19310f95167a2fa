//! Entries as a recorder makes them → batches of lens rows, without files and bytes in between.
//!
//! The entries are those of one thread in order, from the header on. The recorder made them just now, so there are no
//! findings about them.

use crate::decode::{Interp, Limits, Stop};
use crate::lens::Fill;
use crate::record::Entry;
use quipu_model::code::{CodeTable, SharedCodes};
use quipu_model::lens::ThreadEvent;
use quipu_model::{Batch, Columns, Result, ThreadId};
use std::sync::Arc;

/// Maximum number of records in a batch.
const BATCH_RECORDS: u64 = 1024;
/// Size in bytes up to which buffers for runs of plain entries and for encodings may grow.
const BUFFER_BYTES: usize = 1 << 20;

/// Decodes the entries of one thread.
pub struct Push {
    interp: Interp,
    fill: Fill,
    batch: Batch,
    columns: Columns,
    /// The shard of its batches.
    shard: u32,
    /// The process of the thread, as the workload of its batches.
    workload: u16,
}

impl Push {
    /// Decodes into these columns; batches are of this shard and this workload, and their instructions are in `codes`.
    pub fn new(columns: Columns, shard: u32, workload: u16, codes: Arc<SharedCodes>) -> Push {
        let fill = Fill::new(columns, false, BUFFER_BYTES);
        let batch = Batch { codes: CodeTable::sharing(Some(codes)), ..Batch::default() };
        Push { interp: Interp::new(), fill, batch, columns, shard, workload }
    }

    /// Passes the batches of further entries to `take`, which may replace them by others with the same shared instructions.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn feed(&mut self, entries: &[Entry], take: &mut dyn FnMut(&mut Batch) -> Result<()>) -> Result<()> {
        self.run(entries, false, take)
    }

    /// Passes on a call whose values could have continued: there are no more entries.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn close(&mut self, take: &mut dyn FnMut(&mut Batch) -> Result<()>) -> Result<()> {
        self.run(&[], true, take)
    }

    fn run(
        &mut self,
        entries: &[Entry],
        is_end: bool,
        take: &mut dyn FnMut(&mut Batch) -> Result<()>,
    ) -> Result<()> {
        let limits = Limits { batch: BATCH_RECORDS, ..Limits::NONE };
        let mut rest = entries;
        loop {
            self.batch.clear();
            self.interp.begin_batch();
            let instrs_before = self.interp.instrs;
            let mut filling = self.fill.into_batch(&mut self.batch, None);
            let (n, stop) = self.interp.run(rest, &limits, &mut filling);
            let is_over = stop == Stop::End;
            if stop == Stop::Thread || is_over && is_end {
                filling.end_call_here(&self.interp);
            }
            drop(filling);
            self.fill.findings.clear();
            self.fill.dropped.clear();
            rest = rest.get(n..).unwrap_or(&[]);
            if self.interp.batch_len() > 0 || !self.batch.calls.is_empty() {
                self.place(instrs_before);
                take(&mut self.batch)?;
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// Sets the span of the batch.
    fn place(&mut self, instrs_before: u64) {
        let interp = &self.interp;
        if interp.batch_starts_thread && self.columns.has(Columns::THREADS) && interp.batch_len() > 0 {
            let threads = &mut self.batch.threads;
            threads.at.insert(0, 0);
            threads.what.insert(0, ThreadEvent::Start);
            threads.value.insert(0, interp.batch_pid);
        }
        let span = &mut self.batch.span;
        span.shard = self.shard;
        span.first_instr = instrs_before;
        span.first_record = interp.batch_start;
        // Bounded by the size of a batch.
        (span.records, span.instrs) = (interp.batch_len() as u32, (interp.instrs - instrs_before) as u32);
        span.thread = ThreadId { workload: self.workload, ..ThreadId::from_packed(interp.batch_tid) };
        span.process = interp.batch_pid;
        span.cpu = (interp.cpu != u64::MAX).then_some(interp.cpu);
        span.clock = interp.timestamp;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{FileType, Marker, NEWEST_VERSION, Type};

    fn header() -> Vec<Entry> {
        vec![
            Entry::new(Type::HEADER, 0, NEWEST_VERSION),
            Entry::marker(Marker::VERSION, NEWEST_VERSION),
            Entry::marker(Marker::FILETYPE, FileType::ENCODINGS.0),
            Entry::new(Type::THREAD, 4, 7),
            Entry::new(Type::PID, 4, 6),
        ]
    }

    #[test]
    fn rows_do_not_depend_on_how_entries_are_divided() {
        let mut entries = header();
        entries.push(Entry::new(Type::ENCODING, 1, 0x90));
        entries.push(Entry::new(Type::INSTR, 1, 0x1000));
        entries.push(Entry::new(Type::READ, 8, 0x2000));
        entries.push(Entry::marker(Marker::FUNC_ID, 1 << 32));
        entries.push(Entry::marker(Marker::FUNC_ARG, 5));
        entries.push(Entry::new(Type::INSTR, 1, 0x1000));
        let columns = Columns::INSTRS | Columns::INSTR_CODE | Columns::ACCESSES | Columns::CALLS;
        let mut all = Vec::new();
        for size in 1..=entries.len() {
            let mut push = Push::new(columns, 3, 2, Arc::default());
            let (mut pcs, mut codes, mut addrs, mut args) = (vec![], vec![], vec![], vec![]);
            let mut take = |batch: &mut Batch| {
                assert_eq!(batch.span.thread, ThreadId { workload: 2, tid: 7 });
                assert_eq!((batch.span.shard, batch.span.process), (3, 6));
                pcs.extend(&batch.instrs.pc);
                codes.extend(&batch.instrs.code);
                addrs.extend(&batch.accesses.addr);
                args.extend((0..batch.calls.at.len()).map(|row| batch.calls.args.get(row).to_vec()));
                Ok(())
            };
            for part in entries.chunks(size) {
                push.feed(part, &mut take).unwrap();
            }
            push.close(&mut take).unwrap();
            all.push((pcs, codes, addrs, args));
        }
        assert_eq!(all[0], (vec![0x1000; 2], vec![0; 2], vec![0x2000], vec![vec![5]]));
        assert!(all.iter().all(|rows| *rows == all[0]), "{all:?}");
    }
}
