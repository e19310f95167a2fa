//! Analyses as table functions: `SELECT * FROM miss_ratio_points(t, line_size => 64)`.
//!
//! Planning takes the columns from the description of a tool's result; the analysis runs when its rows are requested. Rows that
//! a tool delivers while it reads are streamed.

use super::fault;
use super::filter::{self, Pushed};
use super::handed::{self, Wanted};
use super::reading::{Ended, Readings};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ScalarValue, plan_err};
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
use quipu_engine::{RunOptions, plan, run};
use quipu_model::result::schemas;
use quipu_model::{Error, Given, Options, Order, Predicate, RowTool, Schema, Table, Tool, ToolInfo, Trace};
use std::fmt;
use std::sync::Arc;

/// Prefix that marks a named argument, since the planner takes all arguments as texts.
pub(super) const NAMED: char = '\u{1}';

/// The SQL name of a table of a result.
pub(super) fn sql_name(table: &str) -> String {
    table.replace(['-', '.'], "_")
}

/// Schemas of the tables in a tool's result.
pub(super) fn tables(tool: &dyn Tool) -> Vec<Arc<Schema>> {
    schemas(tool.info().name, &tool.result())
}

/// A table that a tool offers.
#[derive(Clone)]
pub(super) enum Answer {
    /// A table of its result.
    Result(Arc<Schema>),
    /// Rows that it delivers while it reads.
    Rows(&'static dyn RowTool),
}

impl Answer {
    /// The tables that a tool offers, with the names of their functions. If its rows and a table of its result have the same
    /// name, that table's name gets the suffix `_summary`.
    pub(super) fn of(tool: &dyn Tool) -> Vec<(String, Answer)> {
        let rows = tool.rows().map(|rows| (sql_name(rows.info().name), Answer::Rows(rows)));
        let taken = rows.as_ref().map(|(name, _)| name.clone());
        let named = |table: Arc<Schema>| {
            let name = sql_name(&table.name);
            let is_taken = taken.as_ref() == Some(&name);
            (if is_taken { format!("{name}_summary") } else { name }, Answer::Result(table))
        };
        let results: Vec<(String, Answer)> = tables(tool).into_iter().map(named).collect();
        rows.into_iter().chain(results).collect()
    }

    /// The schema of the table.
    pub(super) fn schema(&self) -> Arc<Schema> {
        match self {
            Answer::Result(table) => table.clone(),
            Answer::Rows(rows) => handed::schema(*rows),
        }
    }

    /// Name, needs and options of the tool, or of the tool that delivers its rows.
    fn info(&self, tool: &dyn Tool) -> &'static ToolInfo {
        match self {
            Answer::Result(_) => tool.info(),
            Answer::Rows(rows) => rows.info(),
        }
    }

    /// The option whose value may be given without the option's name.
    fn leading(&self) -> Option<&'static str> {
        match self {
            Answer::Result(_) => None,
            Answer::Rows(rows) => rows.leading().map(|option| option.name),
        }
    }
}

/// A table function that runs a tool.
pub(super) struct ToolFunction {
    pub(super) tool: &'static dyn Tool,
    pub(super) answer: Answer,
    /// Traces with their aliases; the first is used if an argument names none.
    pub(super) traces: Vec<(String, Arc<dyn Trace>)>,
    pub(super) readings: Arc<Readings>,
}

impl fmt::Debug for ToolFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolFunction").field("tool", &self.tool.info().name).finish_non_exhaustive()
    }
}

impl ToolFunction {
    /// Parses the arguments: the trace to read and the options for the tool.
    fn arguments(&self, exprs: &[Expr]) -> Result<(Arc<dyn Trace>, Given)> {
        let name = self.answer.info(self.tool).name;
        let (mut trace, mut given) = (None, Given::default());
        let mut leading = self.answer.leading();
        for expr in exprs {
            let Some(text) = text_of(expr) else {
                return plan_err!("`{expr}` is no argument of `{name}`: a trace, or `option => value`");
            };
            match text.strip_prefix(NAMED).and_then(|pair| pair.split_once('=')) {
                Some((option, value)) => {
                    let option = option.replace('_', "-");
                    given.add(option, value);
                }
                None if trace.is_none() => {
                    let found = self.traces.iter().find(|(alias, _)| *alias == text);
                    let Some((_, found)) = found else {
                        let known: Vec<&str> = self.traces.iter().map(|(alias, _)| alias.as_str()).collect();
                        return plan_err!("no trace is called `{text}`; traces: {}", known.join(", "));
                    };
                    trace = Some(found.clone());
                }
                None => match leading.take() {
                    Some(option) => given.add(option, text),
                    None => {
                        return plan_err!("`{text}`: options of `{name}` are given as `option => value`");
                    }
                },
            }
        }
        let trace = trace.or_else(|| self.traces.first().map(|(_, trace)| trace.clone()));
        match trace {
            Some(trace) => Ok((trace, given)),
            None => plan_err!("there is no trace that `{name}` could read"),
        }
    }
}

/// The text of a literal or of a name.
fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => {
            Some(text.clone())
        }
        Expr::Literal(value, _) if !value.is_null() => Some(value.to_string()),
        Expr::Column(column) => Some(column.name.clone()),
        _ => None,
    }
}

impl TableFunctionImpl for ToolFunction {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let (trace, given) = self.arguments(args.exprs())?;
        let table = ToolTable::new(trace, self.tool, self.answer.clone(), given, self.readings.clone());
        Ok(Arc::new(table.map_err(fault::planning)?))
    }
}

/// A table that an analysis computes when it is scanned.
pub(super) struct ToolTable {
    trace: Arc<dyn Trace>,
    tool: &'static dyn Tool,
    answer: Answer,
    given: Given,
    options: Options,
    arrow: SchemaRef,
    readings: Arc<Readings>,
}

impl ToolTable {
    /// Creates a table of a tool with these options.
    ///
    /// # Errors
    /// `Missing` if the trace lacks what the tool needs; `Usage` for options that it does not have.
    pub(super) fn new(
        trace: Arc<dyn Trace>,
        tool: &'static dyn Tool,
        answer: Answer,
        given: Given,
        readings: Arc<Readings>,
    ) -> quipu_model::Result<ToolTable> {
        let info = answer.info(tool);
        let options = info.parse(&given)?;
        info.needs.of(info.name, &*trace)?;
        let arrow = Arc::new(quipu_arrow::arrow_schema(&answer.schema(), Interop::Any, &[])?);
        Ok(ToolTable { trace, tool, answer, given, options, arrow, readings })
    }
}

impl fmt::Debug for ToolTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolTable").field("tool", &self.tool.info().name).finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl TableProvider for ToolTable {
    fn schema(&self) -> SchemaRef {
        self.arrow.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    /// If a tool reads each shard on its own, shards that a condition excludes are not read. Other conditions are not passed to
    /// the tool, because leaving out rows might change later results.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let is_by_shard = matches!(&self.answer, Answer::Rows(rows) if rows.info().order == Order::Shards);
        let schema = self.answer.schema();
        let support = |filter: &&Expr| match filter::pushed(filter, &schema) {
            Some(Pushed::Threads(..)) if is_by_shard => TableProviderFilterPushDown::Inexact,
            Some(Pushed::Columns(all)) if is_by_shard && all.iter().all(|of| of.column == "shard") => {
                TableProviderFilterPushDown::Inexact
            }
            _ => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut predicate = Predicate::default();
        let schema = self.answer.schema();
        for pushed in filters.iter().filter_map(|filter| filter::pushed(filter, &schema)) {
            filter::join(&mut predicate, pushed);
        }
        let columns = projection.cloned().unwrap_or_else(|| (0..self.arrow.fields().len()).collect());
        let emission = match &self.answer {
            Answer::Result(_) => EmissionType::Final,
            Answer::Rows(_) => EmissionType::Incremental,
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::new(self.arrow.project(&columns)?)),
            Partitioning::UnknownPartitioning(1),
            emission,
            Boundedness::Bounded,
        );
        let is_ordered = state.config().target_partitions() == 1;
        Ok(Arc::new(ToolScan {
            trace: self.trace.clone(),
            tool: self.tool,
            answer: self.answer.clone(),
            given: self.given.clone(),
            options: self.options.clone(),
            wanted: Wanted { columns, predicate, is_ordered },
            properties: Arc::new(properties),
            readings: self.readings.clone(),
        }))
    }
}

/// One run of an analysis.
struct ToolScan {
    trace: Arc<dyn Trace>,
    tool: &'static dyn Tool,
    answer: Answer,
    given: Given,
    options: Options,
    wanted: Wanted,
    properties: Arc<PlanProperties>,
    readings: Arc<Readings>,
}

impl fmt::Debug for ToolScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolScan").field("tool", &self.tool.info().name).finish_non_exhaustive()
    }
}

impl DisplayAs for ToolScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let schema = self.answer.schema();
        match &self.answer {
            Answer::Result(table) => {
                write!(f, "ToolScan: tool={}, table={}", self.tool.info().name, table.name)?;
            }
            Answer::Rows(rows) => {
                let columns: Vec<&str> =
                    self.wanted.columns.iter().map(|at| &*schema.fields[*at].name).collect();
                write!(f, "ToolScan: rows={}, columns=[{}]", rows.info().name, columns.join(", "))?;
            }
        }
        let condition = filter::text(&self.wanted.predicate);
        if !condition.is_empty() {
            write!(f, ", shards where {condition}")?;
        }
        let options: Vec<String> = self.given.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if options.is_empty() { Ok(()) } else { write!(f, ", options=[{}]", options.join(", ")) }
    }
}

impl ExecutionPlan for ToolScan {
    fn name(&self) -> &str {
        "ToolScan"
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

    fn execute(&self, _: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut builder = RecordBatchReceiverStreamBuilder::new(self.schema(), 1);
        let sender = builder.tx();
        let (trace, tool, given) = (self.trace.clone(), self.tool, self.given.clone());
        let (wanted, readings) = (self.wanted.clone(), self.readings.clone());
        let table = match &self.answer {
            Answer::Result(table) => table.clone(),
            Answer::Rows(rows) => {
                let (rows, options) = (*rows, self.options.clone());
                builder.spawn_blocking(move || {
                    handed::hand_on(&*trace, rows, &options, &wanted, sender, &readings)
                        .map_err(fault::external)
                });
                return Ok(builder.build());
            }
        };
        let batch_rows = context.session_config().batch_size();
        builder.spawn_blocking(move || {
            let all = result(&*trace, tool, &given, &table, &readings).map_err(fault::external)?;
            let all = all.project(&wanted.columns)?;
            for start in (0..all.num_rows()).step_by(batch_rows.max(1)) {
                let batch = all.slice(start, batch_rows.min(all.num_rows() - start));
                if sender.blocking_send(Ok(batch)).is_err() {
                    break;
                }
            }
            Ok(())
        });
        Ok(builder.build())
    }
}

/// Runs an analysis and returns one table of its result.
fn result(
    trace: &dyn Trace,
    tool: &'static dyn Tool,
    given: &Given,
    wanted: &Schema,
    readings: &Readings,
) -> quipu_model::Result<datafusion::arrow::record_batch::RecordBatch> {
    let watch = Arc::new(quipu_engine::Watch::new());
    readings.begin(&watch);
    let options = RunOptions { threads: readings.n_threads(), ..RunOptions::new(&watch) };
    let outcome = run(trace, vec![plan(tool, given, trace)?], &options)?;
    if outcome.cancelled {
        return Err(Error::new(quipu_model::ErrorKind::Io, "interrupted"));
    }
    readings.end(&watch, Ended { found: outcome.findings, error: outcome.error, is_doubtful: false });
    let mut encoder = Encoder::new(wanted, Interop::Any, &[])?;
    let reports = outcome.reports.into_iter();
    let mut tables = reports.flat_map(|report| report.tables(tool.info().name));
    match tables.find(|table| table.schema().name == wanted.name) {
        Some(table) => encoder.encode(Box::new(table)),
        // A table that the result leaves out has no rows.
        None => encoder.encode(Box::new(quipu_model::ColumnTable::new(Arc::new(wanted.clone())))),
    }
}
