//! A trace in memory, built from plain rows, for tests of the engine, of passes and of viewers.
//!
//! It keeps every promise of [`Trace`] and [`Reader`](quipu_model::Reader) (windows, pieces, cuts, batch sizes), and
//! misbehaves exactly where a test asks for it (faults, findings, panics). It is deliberately slow and simple: other code is
//! compared with it.

mod print;
mod random;
mod reader;
mod shard;
mod text;

pub use shard::{Instr, MemoryShard, Record};

use print::MemoryPrinter;
use quipu_model::print::Printer;
use quipu_model::schema::Schema;
use quipu_model::trace::{Clock, PrintOptions};
use quipu_model::{Columns, Error, Meta, Reader, Result, Scan, Shard, ShardId, Trace};
use reader::MemoryReader;
use std::sync::Arc;

/// Every column that the rows of a [`MemoryShard`] can fill: all lenses except regions and calls with all values.
pub const ALL_COLUMNS: Columns = Columns::OF_LENSES.minus(Columns::REGIONS.or(Columns::CALL_VALUES));

/// A trace in memory.
///
/// ```
/// use quipu_model::{Columns, Reader, Scan, ShardId, Trace};
/// use quipu_testkit::{MemoryShard, MemoryTrace};
///
/// let trace = MemoryTrace::new(vec![MemoryShard::new("a").thread(7, 1).instr(0x1000, 4).read(0x2000, 8)]);
/// let mut reader = trace.scan(&Scan::new(ShardId(0)).columns(Columns::ACCESSES)).unwrap();
/// let batch = reader.read().unwrap().unwrap();
/// assert_eq!((batch.span.records, batch.span.instrs), (2, 1));
/// assert_eq!(batch.accesses.addr, [0x2000]);
/// assert!(reader.read().unwrap().is_none());
/// ```
#[derive(Clone)]
pub struct MemoryTrace {
    meta: Meta,
    columns: Columns,
    infos: Vec<Shard>,
    shards: Vec<Arc<MemoryShard>>,
}

impl MemoryTrace {
    /// A trace of these shards, in this order, without an architecture, with a clock of microseconds, 64-byte lines and 4-KiB
    /// pages.
    pub fn new(shards: Vec<MemoryShard>) -> MemoryTrace {
        let infos = shards.iter().enumerate().map(|(i, shard)| shard.info(i)).collect();
        let meta = Meta {
            format: "memory".into(),
            title: "rows in memory".into(),
            clock: Some(Clock { per_second: 1_000_000, unix_epoch: None, frames_calls: true }),
            line_bytes: Some(64),
            page_bytes: Some(4096),
            n_files: shards.len() as u64,
            ..Meta::default()
        };
        MemoryTrace { meta, columns: ALL_COLUMNS, infos, shards: shards.into_iter().map(Arc::new).collect() }
    }

    /// Parses the text form. Each line is a record, or applies to the records after it:
    ///
    /// ```text
    /// # a comment
    /// shard worker.7                     begins a shard (a first one without a name is there from the start)
    /// thread 7 1                         the records that follow are of thread 7 in process 1; `W1.T7` is of a further trace
    /// clock 100                          start stop cpu idle wait syscall may-block interrupt resume: the same way
    /// instr 0x1000 4 conditional-jump taken =7402
    /// instr 0x1004 2 indirect-call taken ->0x2000
    /// nofetch 0x1006 2                   a further iteration of a string loop
    /// read 0x7f10 8                      write prefetch prefetch-instr flush-data flush-instr: the same way
    /// mark 4 12                          kind and value
    /// enter 3 10 20                      a function's id and arguments
    /// leave 3 0                          a function's id and result
    /// piece                              begins a piece of the shard
    /// finding warning it is odd          the reader reports a finding of rule `memory/finding`
    /// fault it is broken                 the reader fails here
    /// crash it is worse                  the reader panics here
    /// ```
    pub fn parse(text: &str) -> Result<MemoryTrace> {
        text::parse(text).map(MemoryTrace::new)
    }

    /// A trace of random records, the same for the same arguments: threads switch, clocks tick, pieces begin anywhere.
    pub fn random(seed: u64, n_shards: usize, records_per_shard: usize) -> MemoryTrace {
        MemoryTrace::new(random::shards(seed, n_shards, records_per_shard))
    }

    /// The same trace, claiming to fill only `columns`.
    pub fn with_columns(mut self, columns: Columns) -> MemoryTrace {
        self.columns = columns.and(ALL_COLUMNS);
        self
    }

    /// The same trace with changed metadata.
    pub fn with_meta(mut self, change: impl FnOnce(&mut Meta)) -> MemoryTrace {
        change(&mut self.meta);
        self
    }

    /// The rows that a shard was built from.
    pub fn rows(&self, shard: ShardId) -> Option<&MemoryShard> {
        self.shards.get(shard.0 as usize).map(|shard| &**shard)
    }
}

impl Trace for MemoryTrace {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shards(&self) -> &[Shard] {
        &self.infos
    }

    fn columns(&self) -> Columns {
        self.columns
    }

    fn tables(&self) -> Result<Vec<Arc<Schema>>> {
        Ok(vec![print::Records::table_schema().clone()])
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        let shard = self
            .shards
            .get(scan.shard.0 as usize)
            .ok_or_else(|| Error::usage(format!("no shard has number {}", scan.shard.0)))?;
        Ok(Box::new(MemoryReader::new(Arc::clone(shard), scan)?))
    }

    fn printer(&self, _options: &PrintOptions) -> Result<Box<dyn Printer>> {
        Ok(Box::new(MemoryPrinter))
    }
}
