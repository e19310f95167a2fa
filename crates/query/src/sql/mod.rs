//! SQL over traces.
//!
//! A [`Session`] has one trace or several, each under an alias. Native tables and lenses are tables; analyses are table
//! functions, `SELECT * FROM hot_lines(t, top => 20)`; a few results have names of their own, such as `syscalls`. Rows come
//! straight off the compressed trace: columns of lenses that a query does not name are not decoded, conditions on positions, the
//! clock and threads become windows, so that chunks outside are not inflated. `EXPLAIN` shows both.
//!
//! Sums of numbers of 64 bits are exact. Memory has a limit, past which sorts, groups and joins go to temporary files.

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
mod substituted;
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

/// The analyses for traces of a format.
pub type Tools = fn(&str) -> Vec<&'static dyn Tool>;

/// How often a query is looked at from outside.
const GLANCE: Duration = Duration::from_millis(50);

/// The stack of each thread; what is not used of it takes no memory. See [`depth::MAX_DEPTH`].
const STACK_BYTES: usize = 32 << 20;
/// How long a session waits for work that was interrupted.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Batches of an answer that wait for who takes them.
const WAITING_BATCHES: usize = 1;

/// How many of those that hold memory an error names.
const NAMED_CONSUMERS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// How a session works.
#[derive(Clone)]
pub struct Settings {
    /// Most bytes that groups, sorts and joins hold in memory together, and an answer that is collected.
    pub memory_bytes: usize,
    /// How people say that, for advice.
    pub memory_option: &'static str,
    /// Threads that read, and threads that compute; 0 for as many as there are cores.
    pub threads: usize,
    /// The analyses.
    pub tools: Tools,
    /// Programs and libraries that say what is where, besides those that traces know.
    pub binaries: Vec<Binary>,
}

/// Traces that can be asked.
pub struct Session {
    /// Nothing only while it is dropped.
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
        // Planning looks for no interrupt. What it still does ends with its thread.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(LAST_WORDS);
        }
    }
}

/// The schema of an answer, and rows of it.
type Rows = (SchemaRef, Option<RecordBatch>);

/// Receives the rows of an answer: its schema first, without rows, then batches.
pub type Take<'a> = &'a mut dyn FnMut(&SchemaRef, Option<RecordBatch>) -> Result<()>;

impl Session {
    /// A session over traces by their aliases. The first one's tables need no alias.
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
        // What each sort keeps free for merging what it has put into files; the usual 10 MB may be more than there is.
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

    /// Answers a question. `goes_on` is asked now and then, and told how far reading has come.
    ///
    /// # Errors
    /// `Usage` for a question that makes no sense, with the place in it; `Limit` if it needs more memory than there is; `Io` if
    /// it was interrupted; what reading and `take` say.
    pub fn ask(
        &self,
        sql: &str,
        goes_on: &mut dyn FnMut(Progress) -> bool,
        take: Take<'_>,
    ) -> Result<Losses> {
        self.readings.take();
        let n_known: Vec<usize> = self.traces.iter().map(Named::n_tables).collect();
        let answered = self.answer(sql, goes_on, take);
        // Reads whose rows are no longer wanted.
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

    /// An error of the engine as our own.
    fn told(&self, error: &DataFusionError, sql: &str) -> Error {
        fault::told(error, sql, &self.table_names(), self.memory_option)
    }

    /// Answers on a thread of the session, whose stack has room for deep questions, and takes the rows on this one.
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

    /// The tables that can be named, with their columns; those of further traces after their alias.
    ///
    /// # Errors
    /// What reading says, where a schema has to be read first.
    pub fn tables(&self) -> Result<Vec<(String, Arc<quipu_model::Schema>)>> {
        let mut all = Vec::new();
        for (at, named) in self.traces.iter().enumerate() {
            let prefix = if at == 0 { String::new() } else { format!("{}.", named.alias) };
            let known = named.known()?;
            all.extend(known.into_iter().map(|known| (format!("{prefix}{}", known.name), known.schema)));
        }
        Ok(all)
    }

    /// The programs and libraries that were looked for and are not there, each once.
    pub fn missing_files(&self) -> Vec<std::path::PathBuf> {
        self.missing.take()
    }

    /// The table functions, with their columns.
    pub fn functions(&self) -> &[(String, Arc<quipu_model::Schema>)] {
        &self.functions
    }

    fn table_names(&self) -> Vec<String> {
        let tables = self.tables().unwrap_or_default().into_iter().map(|(name, _)| name);
        tables.chain(self.functions.iter().map(|(name, _)| name.clone())).collect()
    }
}

/// The name of a learned table as a query has it: the part after the first dot keeps its capitals in quotes.
fn quoted(name: &str) -> String {
    match name.split_once('.') {
        Some((family, rest)) => format!("{family}.\"{rest}\""),
        None => format!("\"{name}\""),
    }
}

/// Plans a question and sends the rows of its answer until there are no more, or no one takes them.
async fn feed(context: &SessionContext, sql: &str, rows: &Sender<Rows>) -> Result<(), Failed> {
    let state = context.state();
    let statement = state.sql_to_statement(sql, &state.config().options().sql_parser.dialect)?;
    if let Some(excess) = inlined::excess(&statement) {
        return Err(Failed::Ours(fault::of_excess(sql, excess)));
    }
    let plan = state.statement_to_plan(statement).await?;
    SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).verify_plan(&plan)?;
    if let Some(excess) = substituted::excess(&plan)? {
        return Err(Failed::Ours(fault::of_excess(sql, excess)));
    }
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

/// Why there is no answer.
enum Failed {
    Engine(Box<DataFusionError>),
    Ours(Error),
}

impl From<DataFusionError> for Failed {
    fn from(error: DataFusionError) -> Failed {
        Failed::Engine(Box::new(error))
    }
}

/// True if rows come as they stand in the trace, so that people expect its order.
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
