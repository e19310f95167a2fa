//! Tables and lenses of a trace as tables of the query engine. Columns, conditions and limits of a query are passed to the
//! reader.

use super::filter;
use super::reading::{Ended, Readings};
use crate::sql::fault;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, SendableRecordBatchStream,
};
use quipu_arrow::{Encoder, Interop};
use quipu_engine::{RowOrder, RowStream, Selection, row_schema, rows};
use quipu_model::{Predicate, Schema, Trace};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Number of batches of a partition that may wait to be taken.
const WAITING_BATCHES: usize = 2;

/// A table or lens of a trace.
pub(super) struct TraceTable {
    trace: Arc<dyn Trace>,
    /// Name in selections, such as `memrefs` or `lens.accesses`.
    name: String,
    schema: Arc<Schema>,
    arrow: SchemaRef,
    readings: Arc<Readings>,
}

impl fmt::Debug for TraceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceTable").field("name", &self.name).finish_non_exhaustive()
    }
}

impl TraceTable {
    /// # Errors
    /// As [`rows`].
    pub(super) fn new(
        trace: Arc<dyn Trace>,
        name: &str,
        readings: Arc<Readings>,
    ) -> quipu_model::Result<TraceTable> {
        let schema = row_schema(&*trace, &Selection::new(name))?;
        let arrow = Arc::new(quipu_arrow::arrow_schema(&schema, Interop::Any, &[])?);
        Ok(TraceTable { trace, name: name.to_owned(), schema, arrow, readings })
    }

    /// The schema of the table.
    pub(super) fn about(&self) -> &Arc<Schema> {
        &self.schema
    }
}

#[async_trait::async_trait]
impl TableProvider for TraceTable {
    fn schema(&self) -> SchemaRef {
        self.arrow.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| match filter::pushed(filter, &self.schema) {
                Some(_) => TableProviderFilterPushDown::Exact,
                None => TableProviderFilterPushDown::Unsupported,
            })
            .collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.schema.fields.len()).collect();
        let wanted = projection.unwrap_or(&all);
        let mut predicate = Predicate::default();
        for filter in filters {
            if let Some(pushed) = filter::pushed(filter, &self.schema) {
                filter::join(&mut predicate, pushed);
            }
        }
        let n_partitions = state.config().target_partitions().max(1);
        let selection = Selection {
            fields: Some(wanted.iter().map(|at| self.schema.fields[*at].name.to_string()).collect()),
            predicate,
            limit: limit.map_or(u64::MAX, |limit| limit as u64),
            // A single partition means that the order of rows is visible.
            order: if n_partitions == 1 { RowOrder::Trace } else { RowOrder::Any },
            batch_rows: u32::try_from(state.config().batch_size()).unwrap_or(8192),
            threads: self.readings.n_threads(),
            ..Selection::new(self.name.as_str())
        };
        let schema = Arc::new(self.arrow.project(wanted)?);
        Ok(Arc::new(TraceScan::new(
            self.trace.clone(),
            selection,
            schema,
            n_partitions,
            self.readings.clone(),
        )))
    }
}

/// One read of a table. All partitions take batches from one stream of rows, which reading threads fill by shard and piece; an
/// idle partition takes the next batch.
struct TraceScan {
    trace: Arc<dyn Trace>,
    selection: Selection,
    properties: Arc<PlanProperties>,
    readings: Arc<Readings>,
    runs: Mutex<Runs>,
}

/// Streams by run: the engine may execute each partition several times, and the n-th executions of all partitions share a
/// stream.
#[derive(Default)]
struct Runs {
    n_begun: HashMap<usize, usize>,
    streams: HashMap<usize, Arc<Shared>>,
}

/// A stream that partitions share.
#[derive(Default)]
struct Shared(Mutex<State>);

#[derive(Default)]
enum State {
    #[default]
    Waiting,
    Open(Box<RowStream>),
    Over,
}

impl fmt::Debug for TraceScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceScan").field("table", &self.selection.table).finish_non_exhaustive()
    }
}

impl TraceScan {
    fn new(
        trace: Arc<dyn Trace>,
        selection: Selection,
        schema: SchemaRef,
        n_partitions: usize,
        readings: Arc<Readings>,
    ) -> TraceScan {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(n_partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        TraceScan { trace, selection, properties: Arc::new(properties), readings, runs: Mutex::default() }
    }

    /// The stream for the next execution of this partition.
    fn stream(&self, partition: usize) -> Arc<Shared> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let n_begun = runs.n_begun.entry(partition).or_default();
        let run = *n_begun;
        *n_begun += 1;
        runs.streams.entry(run).or_default().clone()
    }
}

impl DisplayAs for TraceScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.selection.fields.as_deref().unwrap_or_default();
        write!(f, "TraceScan: table={}, columns=[{}]", self.selection.table, fields.join(", "))?;
        let condition = filter::text(&self.selection.predicate);
        if !condition.is_empty() {
            write!(f, ", read where {condition}")?;
        }
        if let Some(window) = filter::window(&self.selection.predicate, &self.trace, &self.selection.table) {
            write!(f, ", window={window}")?;
        }
        if self.selection.limit != u64::MAX {
            write!(f, ", limit={}", self.selection.limit)?;
        }
        let shards = self.trace.shards();
        let n_pieces: u64 = shards.iter().map(|shard| u64::from(shard.pieces)).sum();
        write!(f, ", shards={}, pieces={n_pieces}", shards.len())
    }
}

impl ExecutionPlan for TraceScan {
    fn name(&self) -> &str {
        "TraceScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.schema();
        let mut builder = RecordBatchReceiverStreamBuilder::new(schema, WAITING_BATCHES);
        let sender = builder.tx();
        let shared = self.stream(partition);
        let (trace, selection, readings) =
            (self.trace.clone(), self.selection.clone(), self.readings.clone());
        builder.spawn_blocking(move || {
            let mut encoder = None;
            loop {
                let batch = match shared.next(&trace, &selection, &readings) {
                    Ok(Some(batch)) => batch,
                    Ok(None) => return Ok(()),
                    Err(error) => return Err(fault::external(error)),
                };
                let encoder = match &mut encoder {
                    Some(encoder) => encoder,
                    none => {
                        let made = Encoder::new(quipu_model::Table::schema(&batch), Interop::Any, &[]);
                        none.insert(made.map_err(fault::external)?)
                    }
                };
                let batch = encoder.encode(Box::new(batch)).map_err(fault::external)?;
                if sender.blocking_send(Ok(batch)).is_err() {
                    return Ok(());
                }
            }
        });
        Ok(builder.build())
    }
}

impl Shared {
    /// Returns the next rows of the stream; the first call starts the read.
    fn next(
        &self,
        trace: &Arc<dyn Trace>,
        selection: &Selection,
        readings: &Arc<Readings>,
    ) -> quipu_model::Result<Option<quipu_engine::RowBatch>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Waiting = *state {
            let stream = rows(trace.clone(), selection)?;
            readings.begin(stream.watch());
            *state = State::Open(Box::new(stream));
        }
        let State::Open(stream) = &mut *state else { return Ok(None) };
        match stream.next() {
            Some(Ok(batch)) => Ok(Some(batch)),
            Some(Err(error)) => {
                *state = State::Over;
                Err(error)
            }
            None => {
                if let State::Open(stream) = std::mem::take(&mut *state) {
                    let is_doubtful = stream.has_delivered_damaged();
                    let watch = stream.watch().clone();
                    let (found, error) = stream.into_losses();
                    readings.end(&watch, Ended { found, error, is_doubtful });
                }
                *state = State::Over;
                Ok(None)
            }
        }
    }
}
