//! SQL queries over traces.
//!
//! A [`Session`] has one or several traces, each under an alias. Native tables and lenses are tables; analyses are table
//! functions, `SELECT * FROM hot_lines(t, top => 20)`; a few results have names of their own, such as `syscalls`. Rows are read
//! directly from the compressed trace: columns of lenses that a query does not name are not decoded, and conditions on
//! positions and the clock become windows, so that chunks outside them are not decompressed. Files of threads that a condition
//! excludes are not read. `EXPLAIN` shows columns, conditions and windows.
//!
//! Sums of 64-bit numbers are exact. Above a memory limit, sorts, groups and joins use temporary files.

mod catalog;
mod collect;
mod depth;
mod fault;
mod filter;
mod functions;
mod handed;
mod inlined;
mod named;
mod output;
mod reading;
mod sum;
mod symbols;
mod table;
mod tool;

pub use collect::Collected;
pub use functions::FUNCTIONS;
pub use output::{Answer, Looks};
pub use reading::Losses;
pub use symbols::Binary;

use catalog::{CATALOG, Catalog, FIRST, Named};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNode;
use datafusion::dataframe::DataFrame;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{FunctionRegistry, SessionStateBuilder};
use datafusion::logical_expr::{AggregateUDF, LogicalPlan};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use quipu_engine::Progress;
use quipu_model::{Error, ErrorKind, Result, Tool, Trace};
use reading::Readings;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use sum::ExactSum;
use symbols::{Missing, Names};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{Sender, channel};
use tool::ToolFunction;

/// Returns the analyses for traces of the format with this name.
pub type Tools = fn(&str) -> Vec<&'static dyn Tool>;

/// Interval at which progress is reported and cancellation is checked.
const GLANCE: Duration = Duration::from_millis(50);

/// Stack size of each thread; unused parts take no memory. See [`depth::MAX_DEPTH`].
const STACK_BYTES: usize = 32 << 20;
/// Time that a session waits for cancelled work to end when it is dropped.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Number of batches of an answer that may wait for the consumer.
const WAITING_BATCHES: usize = 1;

/// Number of the largest consumers of memory that an error names.
const NAMED_CONSUMERS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// Settings of a session.
#[derive(Clone)]
pub struct Settings {
    /// Maximum number of bytes that groups, sorts, joins and a collected answer together hold in memory.
    pub memory_bytes: usize,
    /// The option by which users set that limit, for advice in errors.
    pub memory_option: &'static str,
    /// Number of threads that read, and also of threads that compute; 0 for as many as there are cores.
    pub threads: usize,
    /// Analyses to offer as table functions.
    pub tools: Tools,
    /// Programs and libraries in which addresses of code are looked up, in addition to those that traces name.
    pub binaries: Vec<Binary>,
}

/// Traces that can be queried.
pub struct Session {
    /// `None` only while the session is dropped.
    runtime: Option<Runtime>,
    context: SessionContext,
    memory_bytes: usize,
    memory_option: &'static str,
    traces: Vec<Named>,
    readings: Arc<Readings>,
    functions: Vec<(String, Arc<quipu_model::Schema>)>,
    missing: Arc<Missing>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Planning does not check for cancellation; it continues until its thread ends.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(LAST_WORDS);
        }
    }
}

/// The schema of an answer, and a batch of its rows.
type Rows = (SchemaRef, Option<RecordBatch>);

/// Receives the rows of an answer: its schema first, without rows, then batches.
pub type Take<'a> = &'a mut dyn FnMut(&SchemaRef, Option<RecordBatch>) -> Result<()>;

impl Session {
    /// Creates a session over traces with their aliases. Tables of the first trace can be used without its alias.
    ///
    /// # Errors
    /// `Usage` for an alias that is given twice; `Io` if threads cannot be started.
    pub fn new(traces: Vec<(String, Arc<dyn Trace>)>, settings: Settings) -> Result<Session> {
        for (at, (alias, _)) in traces.iter().enumerate() {
            if traces[..at].iter().any(|(other, _)| other == alias) {
                return Err(
                    Error::usage(format!("two traces are called `{alias}`")).hint("name them: b=PATH")
                );
            }
        }
        let cannot =
            |what: &str, cause: &dyn std::fmt::Display| Error::new(ErrorKind::Io, format!("{what}: {cause}"));
        let n_threads = match settings.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(n_threads)
            .thread_stack_size(STACK_BYTES)
            .enable_all()
            .build()
            .map_err(|cause| cannot("no threads can be started", &cause))?;
        let readings = Arc::new(Readings::new(settings.threads));
        let named: Vec<Named> = traces
            .iter()
            .map(|(alias, trace)| Named {
                alias: alias.clone(),
                trace: trace.clone(),
                readings: readings.clone(),
                tools: settings.tools,
            })
            .collect();
        let pool = TrackConsumersPool::new(FairSpillPool::new(settings.memory_bytes), NAMED_CONSUMERS);
        let environment = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(pool))
            .build_arc()
            .map_err(|cause| cannot("no temporary files can be made", &cause))?;
        let mut config = SessionConfig::new()
            .with_target_partitions(n_threads)
            .with_information_schema(true)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(CATALOG, FIRST);
        config.options_mut().sql_parser.collect_spans = true;
        // Each sort reserves this much memory for merging its temporary files; the default of 10 MB may exceed the limit.
        let spared = settings.memory_bytes / (8 * n_threads);
        config.options_mut().execution.sort_spill_reservation_bytes = spared.min(10 << 20);
        let context = SessionContext::new_with_config_rt(config, environment);
        context.register_catalog(CATALOG, Arc::new(Catalog(named.clone())));
        let of = |get: fn(&quipu_model::Meta) -> Option<u64>| {
            traces.first().and_then(|(_, trace)| get(trace.meta()))
        };
        let arch = traces.first().and_then(|(_, trace)| trace.meta().arch);
        let missing = Arc::<Missing>::default();
        let binaries: Arc<[Binary]> = settings.binaries.into();
        let names_of =
            |trace: &Arc<dyn Trace>| Arc::new(Names::new(trace.clone(), binaries.clone(), missing.clone()));
        let names: Vec<(String, Arc<Names>)> =
            traces.iter().map(|(alias, trace)| (alias.clone(), names_of(trace))).collect();
        let (line_bytes, page_bytes) = (of(|meta| meta.line_bytes), of(|meta| meta.page_bytes));
        for function in functions::all(line_bytes, page_bytes, arch, &names) {
            context.register_udf(function);
        }
        context.register_udaf(AggregateUDF::from(ExactSum::default()));
        context
            .register_relation_planner(Arc::new(named::NamedArguments))
            .map_err(|cause| cannot("the planner", &cause))?;
        context
            .state_ref()
            .write()
            .register_expr_planner(Arc::new(named::WholeDivision))
            .map_err(|cause| cannot("the planner", &cause))?;
        let mut functions: Vec<(String, Arc<quipu_model::Schema>)> = Vec::new();
        for (_, trace) in &traces {
            for tool in (settings.tools)(&trace.meta().format) {
                for (name, answer) in tool::Answer::of(tool) {
                    if functions.iter().any(|(known, _)| *known == name) {
                        continue;
                    }
                    functions.push((name.clone(), answer.schema()));
                    let (traces, readings) = (traces.clone(), readings.clone());
                    context.register_udtf(&name, Arc::new(ToolFunction { tool, answer, traces, readings }));
                }
            }
        }
        Ok(Session {
            runtime: Some(runtime),
            context,
            memory_bytes: settings.memory_bytes,
            memory_option: settings.memory_option,
            traces: named,
            readings,
            functions,
            missing,
        })
    }

    /// Answers a query. Calls `goes_on` regularly with the progress of reading; if it returns false, the query is cancelled.
    ///
    /// # Errors
    /// `Usage` for an invalid query, with the place in it; `Limit` if it nests too deeply or needs more memory than the limit;
    /// `Io` if it was cancelled; errors of reading and of `take`.
    pub fn ask(
        &self,
        sql: &str,
        goes_on: &mut dyn FnMut(Progress) -> bool,
        take: Take<'_>,
    ) -> Result<Losses> {
        self.readings.take();
        let n_known: Vec<usize> = self.traces.iter().map(Named::n_tables).collect();
        let answered = self.answer(sql, goes_on, take);
        // The rows of reads in progress are no longer needed.
        if answered.is_err() {
            self.readings.cancel();
        }
        let mut losses = self.readings.take();
        for ((at, named), n_known) in self.traces.iter().enumerate().zip(n_known) {
            let prefix = if at == 0 { String::new() } else { format!("{}_", named.alias) };
            let learned = named.trace.tables().unwrap_or_default().into_iter().skip(n_known);
            losses.learned.extend(learned.map(|table| format!("{prefix}{}", quoted(&table.name))));
        }
        match answered {
            Ok(()) => Ok(losses),
            Err(Failed::Engine(error)) => Err(self.told(&error, sql)),
            Err(Failed::Ours(error)) => Err(error),
        }
    }

    /// Converts an error of the query engine.
    fn told(&self, error: &DataFusionError, sql: &str) -> Error {
        fault::told(error, sql, &self.table_names(), self.memory_option)
    }

    /// Answers on a thread of the session, whose stack is large enough for deep queries, and calls `take` on this thread.
    fn answer(
        &self,
        sql: &str,
        goes_on: &mut dyn FnMut(Progress) -> bool,
        take: Take<'_>,
    ) -> Result<(), Failed> {
        if let Some(place) = depth::nesting(sql).too_deep {
            return Err(Failed::Ours(fault::too_deep(sql, place)));
        }
        let (sender, mut rows) = channel(WAITING_BATCHES);
        let (context, question) = (self.context.clone(), sql.trim().trim_end_matches(';').to_owned());
        let Some(runtime) = &self.runtime else { return Ok(()) };
        let answering = runtime.spawn(async move { feed(&context, &question, &sender).await });
        runtime.block_on(async {
            let mut clock = tokio::time::interval(GLANCE);
            loop {
                tokio::select! {
                    row = rows.recv() => match row {
                        Some((schema, batch)) => take(&schema, batch).map_err(Failed::Ours)?,
                        None => break,
                    },
                    _ = clock.tick() => {
                        if !goes_on(self.readings.progress()) {
                            self.readings.cancel();
                            answering.abort();
                            return Err(Failed::Ours(Error::new(ErrorKind::Io, "interrupted")));
                        }
                    }
                }
            }
            let fault = |_| Error::new(ErrorKind::Internal, "a thread that answers a question panicked");
            answering.await.map_err(|cause| Failed::Ours(fault(cause)))?
        })
    }

    /// Names and schemas of all tables known so far; names in traces after the first begin with the alias.
    ///
    /// # Errors
    /// Errors of reading, if a schema has to be read first.
    pub fn tables(&self) -> Result<Vec<(String, Arc<quipu_model::Schema>)>> {
        let mut all = Vec::new();
        for (at, named) in self.traces.iter().enumerate() {
            let prefix = if at == 0 { String::new() } else { format!("{}.", named.alias) };
            let known = named.known()?;
            all.extend(known.into_iter().map(|known| (format!("{prefix}{}", known.name), known.schema)));
        }
        Ok(all)
    }

    /// Programs and libraries that were needed and do not exist. Each is returned by one call only.
    pub fn missing_files(&self) -> Vec<std::path::PathBuf> {
        self.missing.take()
    }

    /// Names of the table functions and schemas of their rows.
    pub fn functions(&self) -> &[(String, Arc<quipu_model::Schema>)] {
        &self.functions
    }

    fn table_names(&self) -> Vec<String> {
        let tables = self.tables().unwrap_or_default().into_iter().map(|(name, _)| name);
        tables.chain(self.functions.iter().map(|(name, _)| name.clone())).collect()
    }
}

/// The name of a learned table as written in a query: the part after the first dot is quoted, which preserves capitals.
fn quoted(name: &str) -> String {
    match name.split_once('.') {
        Some((family, rest)) => format!("{family}.\"{rest}\""),
        None => format!("\"{name}\""),
    }
}

/// Plans a query and sends the rows of its answer until there are no more, or the receiver is gone.
async fn feed(context: &SessionContext, sql: &str, rows: &Sender<Rows>) -> Result<(), Failed> {
    let state = context.state();
    let statement = state.sql_to_statement(sql, &state.config().options().sql_parser.dialect)?;
    if let Some(excess) = inlined::excess(&statement) {
        return Err(Failed::Ours(fault::of_excess(sql, excess)));
    }
    let plan = state.statement_to_plan(statement).await?;
    SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).verify_plan(&plan)?;
    let frame = match plan {
        // Statements such as SET change the session.
        LogicalPlan::Statement(_) => context.execute_logical_plan(plan).await?,
        plan if shows_order(&plan)? => {
            let config = state.config().clone().with_target_partitions(1);
            let state = SessionStateBuilder::new_from_existing(state).with_config(config).build();
            DataFrame::new(state, plan)
        }
        plan => DataFrame::new(state, plan),
    };
    let mut stream = frame.execute_stream().await?;
    let schema = stream.schema();
    let mut is_wanted = rows.send((schema.clone(), None)).await.is_ok();
    while is_wanted && let Some(batch) = stream.next().await {
        let batch = batch?;
        is_wanted = batch.num_rows() == 0 || rows.send((schema.clone(), Some(batch))).await.is_ok();
    }
    Ok(())
}

/// The reason why a query has no answer.
enum Failed {
    Engine(Box<DataFusionError>),
    Ours(Error),
}

impl From<DataFusionError> for Failed {
    fn from(error: DataFusionError) -> Failed {
        Failed::Engine(Box::new(error))
    }
}

/// True if the rows of an answer are in the order in which they are read, so that users expect the trace's order.
fn shows_order(plan: &LogicalPlan) -> Result<bool, DataFusionError> {
    let mixes = plan.exists(|plan| {
        Ok(matches!(
            plan,
            LogicalPlan::Aggregate(_)
                | LogicalPlan::Join(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Window(_)
                | LogicalPlan::Distinct(_)
                | LogicalPlan::RecursiveQuery(_)
        ))
    })?;
    Ok(!mixes)
}
