//! Analyses as table functions: `SELECT * FROM miss_ratio_points(t, line_size => 64)`.
//!
//! Planning knows the columns from the description of a tool's result; the analysis runs when its rows are asked for.

use super::fault;
use super::reading::{Ended, Readings};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, SendableRecordBatchStream,
};
use quipu_arrow::{Encoder, Interop};
use quipu_engine::{RunOptions, plan, run};
use quipu_model::result::schemas;
use quipu_model::{Error, Given, Options, Schema, Table, Tool, Trace};
use std::fmt;
use std::sync::Arc;

/// How a named argument stands among the others, which the planner takes as texts.
pub(super) const NAMED: char = '\u{1}';

/// The name of a table of a result in SQL.
pub(super) fn sql_name(table: &str) -> String {
    table.replace(['-', '.'], "_")
}

/// The tables that a tool's result has.
pub(super) fn tables(tool: &dyn Tool) -> Vec<Arc<Schema>> {
    schemas(tool.info().name, &tool.result())
}

/// A tool as a function.
pub(super) struct ToolFunction {
    pub(super) tool: &'static dyn Tool,
    /// The table of the result.
    pub(super) table: Arc<Schema>,
    /// The traces by their aliases; the first is meant if none is named.
    pub(super) traces: Vec<(String, Arc<dyn Trace>)>,
    pub(super) readings: Arc<Readings>,
}

impl fmt::Debug for ToolFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolFunction").field("table", &self.table.name).finish_non_exhaustive()
    }
}

impl ToolFunction {
    /// What is given to the tool, and the trace that is meant.
    fn arguments(&self, exprs: &[Expr]) -> Result<(Arc<dyn Trace>, Given)> {
        let name = self.tool.info().name;
        let (mut trace, mut given) = (None, Given::default());
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
                None => return plan_err!("`{text}`: options of `{name}` are given as `option => value`"),
            }
        }
        let trace = trace.or_else(|| self.traces.first().map(|(_, trace)| trace.clone()));
        match trace {
            Some(trace) => Ok((trace, given)),
            None => plan_err!("there is no trace that `{name}` could read"),
        }
    }
}

/// A literal, or a name that stands for itself.
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
        let info = self.tool.info();
        let options = info.parse(&given).map_err(fault::planning)?;
        info.needs.of(info.name, &*trace).map_err(fault::planning)?;
        let arrow = quipu_arrow::arrow_schema(&self.table, Interop::Any, &[]).map_err(fault::planning)?;
        Ok(Arc::new(ToolTable {
            trace,
            tool: self.tool,
            given,
            _options: options,
            table: self.table.clone(),
            arrow: Arc::new(arrow),
            readings: self.readings.clone(),
        }))
    }
}

/// A table of a result that is yet to be made.
pub(super) struct ToolTable {
    trace: Arc<dyn Trace>,
    tool: &'static dyn Tool,
    given: Given,
    _options: Options,
    table: Arc<Schema>,
    arrow: SchemaRef,
    readings: Arc<Readings>,
}

impl ToolTable {
    /// A table of a tool's result with its options as they are.
    ///
    /// # Errors
    /// `Missing` if the trace lacks what the tool needs.
    pub(super) fn new(
        trace: Arc<dyn Trace>,
        tool: &'static dyn Tool,
        table: Arc<Schema>,
        readings: Arc<Readings>,
    ) -> quipu_model::Result<ToolTable> {
        let info = tool.info();
        info.needs.of(info.name, &*trace)?;
        let arrow = Arc::new(quipu_arrow::arrow_schema(&table, Interop::Any, &[])?);
        let (given, options) = (Given::default(), Options::default());
        Ok(ToolTable { trace, tool, given, _options: options, table, arrow, readings })
    }
}

impl fmt::Debug for ToolTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolTable").field("table", &self.table.name).finish_non_exhaustive()
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

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(projection) => Arc::new(self.arrow.project(projection)?),
            None => self.arrow.clone(),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Ok(Arc::new(ToolScan {
            trace: self.trace.clone(),
            tool: self.tool,
            given: self.given.clone(),
            table: self.table.clone(),
            projection: projection.cloned(),
            properties: Arc::new(properties),
            readings: self.readings.clone(),
        }))
    }
}

/// One run of an analysis.
struct ToolScan {
    trace: Arc<dyn Trace>,
    tool: &'static dyn Tool,
    given: Given,
    table: Arc<Schema>,
    projection: Option<Vec<usize>>,
    properties: Arc<PlanProperties>,
    readings: Arc<Readings>,
}

impl fmt::Debug for ToolScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolScan").field("table", &self.table.name).finish_non_exhaustive()
    }
}

impl DisplayAs for ToolScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ToolScan: tool={}, table={}", self.tool.info().name, self.table.name)?;
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
        let (table, projection, readings) =
            (self.table.clone(), self.projection.clone(), self.readings.clone());
        let batch_rows = context.session_config().batch_size();
        builder.spawn_blocking(move || {
            let all = result(&*trace, tool, &given, &table, &readings).map_err(fault::external)?;
            let all = match &projection {
                Some(projection) => all.project(projection)?,
                None => all,
            };
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

/// Runs an analysis, and gives one table of its result.
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
        // What is left out of a result has no rows.
        None => encoder.encode(Box::new(quipu_model::ColumnTable::new(Arc::new(wanted.clone())))),
    }
}
