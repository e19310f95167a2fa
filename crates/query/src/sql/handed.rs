//! Passes rows that analyses deliver while they read on to the query engine.

use super::reading::{Ended, Readings};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::DataFusionError;
use quipu_arrow::{Encoder, Interop};
use quipu_engine::{Planned, RowBatch, RunOptions, Watch, run};
use quipu_model::column::Column;
use quipu_model::row_source::{LentRows, lens_schema, positions};
use quipu_model::{
    Accept, Error, ErrorKind, Options, Predicate, Result, RowTaker, RowTool, Schema, Shard, ShardKind, Span,
    TableBuf, Trace,
};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::Sender;

/// The channel for batches of an analysis.
pub(super) type Batches = Sender<std::result::Result<RecordBatch, DataFusionError>>;

/// The schema of the rows of an analysis, with all columns.
pub(super) fn schema(tool: &dyn RowTool) -> Arc<Schema> {
    lens_schema(tool.rows())
}

/// Columns, conditions and order that a query asks of the rows of an analysis.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// Positions of the columns.
    pub(super) columns: Vec<usize>,
    /// Conditions on rows. A shard without rows that meet them need not be read.
    pub(super) predicate: Predicate,
    /// Whether rows must come in the trace's order.
    pub(super) is_ordered: bool,
}

/// Runs an analysis and sends its rows to `to`.
pub(super) fn hand_on(
    trace: &dyn Trace,
    tool: &dyn RowTool,
    options: &Options,
    wanted: &Wanted,
    to: Batches,
    readings: &Readings,
) -> Result<()> {
    let all = schema(tool);
    let fields = wanted.columns.iter().map(|at| all.fields[*at].clone()).collect();
    let taker = Arc::new(Taker {
        wanted: wanted.clone(),
        part: Arc::new(Schema { fields, ..(*all).clone() }),
        all,
        encoders: Mutex::default(),
        met: Mutex::default(),
        to,
    });
    let watch = Arc::new(Watch::new());
    readings.begin(&watch);
    let n_threads = if wanted.is_ordered { 1 } else { readings.n_threads() };
    let settings = RunOptions { threads: n_threads, ..RunOptions::new(&watch) };
    let reads = tool.reads(options, trace, &*taker)?;
    let pass = tool.build(options, trace, taker)?;
    let n_damaged = trace.n_delivered_damaged();
    let outcome = run(trace, vec![Planned { info: tool.info(), reads, pass }], &settings)?;
    if outcome.cancelled {
        return Err(Error::new(ErrorKind::Io, "interrupted"));
    }
    let is_doubtful = trace.n_delivered_damaged() != n_damaged;
    readings.end(&watch, Ended { found: outcome.findings, error: outcome.error, is_doubtful });
    Ok(())
}

/// Encodes the rows of an analysis as batches and sends them.
#[derive(Debug)]
struct Taker {
    wanted: Wanted,
    all: Arc<Schema>,
    /// Schema of the requested columns.
    part: Arc<Schema>,
    /// Encoders that no thread uses at the moment.
    encoders: Mutex<Vec<Encoder>>,
    /// First record of the last new batch of each shard, and whether earlier batches are being repeated: data that proves
    /// damaged is read again, but rows that were sent cannot be taken back.
    met: Mutex<Vec<(u64, bool)>>,
    to: Batches,
}

impl Taker {
    /// True for a batch that was not delivered before.
    fn is_new(&self, span: &Span) -> bool {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let shard = span.shard as usize;
        if met.len() <= shard {
            met.resize(shard + 1, (0, false));
        }
        let (last, is_again) = &mut met[shard];
        *is_again = span.first_record < *last || (*is_again && span.first_record == *last);
        if *is_again {
            return false;
        }
        *last = span.first_record;
        true
    }
}

impl RowTaker for Taker {
    fn wants(&self, column: &str) -> bool {
        self.part.position(column).is_some()
    }

    fn wants_shard(&self, shard: &Shard) -> bool {
        let Predicate { threads, columns, .. } = &self.wanted.predicate;
        let is_thread = shard.kind == ShardKind::Thread;
        let has_thread = match shard.thread.filter(|_| is_thread && !threads.is_empty()) {
            Some(thread) => threads.contains(&thread),
            None => true,
        };
        has_thread
            && columns.iter().all(|condition| match &condition.accept {
                Accept::Between(range) if condition.column == "shard" => {
                    range.contains(&i128::from(shard.id.0))
                }
                _ => true,
            })
    }

    fn take(&self, span: &Span, rows: &dyn TableBuf) -> Result<bool> {
        if !self.is_new(span) {
            return Ok(true);
        }
        let mut records = Vec::new();
        if self.wants("record") {
            positions(span, rows, &mut records);
        }
        let n_rows = rows.n_rows();
        let lent = LentRows::of_lens(span, rows, &records);
        let column = |at: &usize| {
            let mut column = Column::new(&self.all.fields[*at]);
            column.extend_rows(lent.column(*at), 0..n_rows);
            column
        };
        let columns = self.wanted.columns.iter().map(column).collect();
        let spare = self.encoders.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut encoder = match spare {
            Some(encoder) => encoder,
            None => Encoder::new(&self.part, Interop::Any, &[])?,
        };
        let batch = encoder.encode(Box::new(RowBatch::new(self.part.clone(), columns, n_rows)))?;
        self.encoders.lock().unwrap_or_else(PoisonError::into_inner).push(encoder);
        Ok(self.to.blocking_send(Ok(batch)).is_ok())
    }
}
