//! Rows that analyses hand on while they read, on their way to the engine.

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

/// Where batches of an analysis go.
pub(super) type Batches = Sender<std::result::Result<RecordBatch, DataFusionError>>;

/// All columns of the rows of an analysis.
pub(super) fn schema(tool: &dyn RowTool) -> Arc<Schema> {
    lens_schema(tool.rows())
}

/// What is wanted of the rows of an analysis.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// The columns, by their positions.
    pub(super) columns: Vec<usize>,
    /// Shards whose rows a condition leaves out need not be read.
    pub(super) predicate: Predicate,
    /// Whether rows come in the order of the trace.
    pub(super) is_ordered: bool,
}

/// Lets an analysis hand on its rows.
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

/// Makes batches of rows.
#[derive(Debug)]
struct Taker {
    wanted: Wanted,
    all: Arc<Schema>,
    /// The columns that are wanted.
    part: Arc<Schema>,
    /// Those that no thread uses right now.
    encoders: Mutex<Vec<Encoder>>,
    /// Where the last batch of each shard began, and whether batches before it come once more: what proves damaged is read again,
    /// and rows that were given away stay.
    met: Mutex<Vec<(u64, bool)>>,
    to: Batches,
}

impl Taker {
    /// True of a batch that was not met before.
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
