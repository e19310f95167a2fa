//! `aggregate`: counts, sums and histograms of any columns, by any keys.
//!
//! Rows come from a native table, a lens, or `syscalls`: system calls with their latency, paired as by the tool of that name.
//! Without `of`, the tool reads the table or lens that has all columns named in keys, aggregations and the condition; if
//! several have them, the error lists them. If no column is named, records are counted.
//!
//! `by` is a list of keys and `agg` a list of aggregations, separated by commas; each may be named with `AS`. Keys, the
//! arguments of aggregations and the condition `where` are scalar expressions of SQL (`docs/expressions.md`). Aggregations are
//! those of DTrace: `count()`,
//! `sum(x)`, `avg(x)`, `min(x)`, `max(x)`, `stddev(x)`, `quantize(x)`, `lquantize(x, low, high, step)`,
//! `llquantize(x, factor, low, high, steps)` (SPEC: dtrace.md#aggregating-functions). `count(x)` counts the rows with a value.
//!
//! Sums, means and deviations are exact, and rounded once, when they are shown: whole numbers use 128 bits, their squares 192,
//! and sums of floating-point numbers are lossless. A sum of more than 127 bits, or a number of more than 63 bits in
//! `quantize`, is an error that names the record. The deviation is the population standard deviation, as in DTrace. Rows
//! without a value are left out and counted. Unlike the kernel, `lquantize` uses all bits of a number.
//!
//! Keys are sorted by the first aggregation, largest first (histograms by their number of values), then by the key, ascending.
//! Memory grows with the number of distinct keys, a few hundred bytes each; more than `keys-limit` keys are an error.
//!
//! * **Needs** the columns that are named.
//! * **Options** `by`, `agg`, `where`, `of`, `top` (keys listed, default 20; 0 for all), `keys-limit` (default 1,000,000).

mod calls;
mod exact;
mod keys;
mod show;
mod spec;
#[cfg(test)]
mod tests;
mod values;

pub use show::{Aggregated, Aggregation, Group, GroupValue};

use calls::Calls;
use keys::Groups;
use quipu_expr::{Input, Vector};
use quipu_model::options::Kind;
use quipu_model::predicate::Beside;
use quipu_model::print::Ordinals;
use quipu_model::result::{Fields, Shape};
use quipu_model::row_source::{LentRows, positions};
use quipu_model::{
    Batch, ColumnRef, Columns, DynPass, Error, Needs, OptionSpec, Options, Order, Pass, Reads, Report,
    Result, Shard, Table, Tool, ToolInfo, Trace,
};
use spec::{From, Plan};
use std::sync::Arc;
use values::Values;

/// The tool `aggregate`.
#[derive(Debug)]
pub struct Aggregate;

const BY: OptionSpec = OptionSpec::new(
    "by",
    Kind::Text,
    "none",
    "keys: comma-separated expressions, each optionally with `AS name`",
)
.value("EXPRS");
const AGG: OptionSpec = OptionSpec::new(
    "agg",
    Kind::Text,
    "count()",
    "comma-separated aggregations: count, sum, avg, min, max, stddev, quantize, lquantize, llquantize",
)
.value("AGGS");
const WHERE: OptionSpec =
    OptionSpec::new("where", Kind::Text, "all", "only rows for which this expression is true").value("EXPR");
const OF: OptionSpec =
    OptionSpec::new("of", Kind::Text, "any", "table or lens whose rows are aggregated").value("NAME");
const TOP: OptionSpec = OptionSpec::new("top", Kind::Count, "20", "how many keys to list; 0 for all");
const KEYS_LIMIT: OptionSpec =
    OptionSpec::new("keys-limit", Kind::Count, "1000000", "maximum number of keys");

static INFO: ToolInfo = ToolInfo {
    name: "aggregate",
    summary: "counts, sums and histograms of any columns, by any keys",
    needs: Needs { format: None, required: Columns::NONE, optional: Columns::NONE },
    order: Order::Pieces,
    options: &[BY, AGG, WHERE, OF, TOP, KEYS_LIMIT],
    in_report: false,
};

impl Tool for Aggregate {
    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn result(&self) -> Shape {
        Aggregated::shape()
    }

    fn reads(&self, options: &Options, trace: &dyn Trace) -> Result<Reads> {
        Ok(Plan::new(options, trace)?.reads)
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let plan = Plan::new(options, trace)?;
        let calls = matches!(plan.from, From::Calls).then(|| Calls::new(trace.meta().arch));
        Ok(Box::new(Aggregating::new(plan.into(), calls)))
    }
}

/// The pass.
struct Aggregating {
    plan: Arc<Plan>,
    groups: Groups,
    values: Vec<Values>,
    /// Rows without a value, for each aggregation.
    missing: Vec<u64>,
    rows: u64,
    calls: Option<Calls>,
    buffers: Buffers,
}

/// Buffers that are filled for each batch.
#[derive(Default)]
struct Buffers {
    chosen: Vec<u32>,
    groups: Vec<u32>,
    records: Vec<u64>,
}

impl Aggregating {
    fn new(plan: Arc<Plan>, calls: Option<Calls>) -> Aggregating {
        Aggregating {
            groups: Groups::new(plan.keys_limit),
            values: plan.specs.iter().map(Values::new).collect(),
            missing: vec![0; plan.specs.len()],
            rows: 0,
            calls,
            buffers: Buffers::default(),
            plan,
        }
    }

    /// Aggregates rows of borrowed columns.
    fn take<'c>(
        &mut self,
        n_rows: usize,
        column: &dyn Fn(usize) -> ColumnRef<'c>,
        beside: Beside<'_>,
    ) -> Result<()> {
        let plan = self.plan.clone();
        let mut buffers = std::mem::take(&mut self.buffers);
        let taken = self.take_into(&plan, n_rows, column, beside, &mut buffers);
        self.buffers = buffers;
        taken
    }

    fn take_into<'c>(
        &mut self,
        plan: &Plan,
        n_rows: usize,
        column: &dyn Fn(usize) -> ColumnRef<'c>,
        beside: Beside<'_>,
        buffers: &mut Buffers,
    ) -> Result<()> {
        let chosen = match plan.chosen.is_all() {
            true => None,
            false => {
                plan.chosen.choose_from(n_rows, column, beside, &mut buffers.chosen)?;
                Some(&buffers.chosen[..]).filter(|chosen| chosen.len() < n_rows)
            }
        };
        let n = chosen.map_or(n_rows, <[u32]>::len);
        if n == 0 {
            return Ok(());
        }
        #[expect(clippy::redundant_closure, reason = "the closure shortens what its columns are lent for")]
        let input = Input::new(n_rows, |position| column(position), beside);
        let values = |bound: &quipu_expr::Bound| match chosen {
            Some(chosen) => bound.eval_some(&input, chosen),
            None => bound.eval(&input),
        };
        let keys = plan.keys.iter().map(|key| values(&key.of)).collect::<Result<Vec<Vector<'_>>>>()?;
        self.groups.of(&keys, n, &mut buffers.groups)?;
        self.rows += n as u64;
        for ((kept, missing), spec) in self.values.iter_mut().zip(&mut self.missing).zip(&plan.specs) {
            kept.resize(self.groups.len());
            let of = spec.of.as_ref().map(&values).transpose()?;
            *missing += kept.take(spec, of.as_ref(), &buffers.groups).map_err(|refused| {
                let row = chosen.map_or(refused.row, |chosen| chosen[refused.row] as usize);
                match &spec.of {
                    Some(of) => of.refuse_row(refused.message, &input, row),
                    None => Error::usage(refused.message),
                }
            })?;
        }
        Ok(())
    }

    /// Aggregates the calls that are still open at the end.
    fn close(&mut self) -> Result<()> {
        let Some(mut calls) = self.calls.take() else { return Ok(()) };
        calls.close()?;
        self.take(calls.rows.n_rows(), &|position| calls.rows.column(position), Beside::default())?;
        self.calls = Some(calls);
        Ok(())
    }
}

impl Pass for Aggregating {
    fn fork(&self, _: &Shard) -> Aggregating {
        Aggregating::new(self.plan.clone(), self.calls.as_ref().map(Calls::fork))
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        let plan = self.plan.clone();
        let beside = Beside::of(batch, Ordinals::default());
        match &plan.from {
            From::Records => {
                let none = |_| ColumnRef::of(quipu_model::column::CellsRef::Constant(0, 0));
                self.take(batch.span.records as usize, &none, beside)
            }
            From::Calls => {
                let Some(mut calls) = self.calls.take() else { return Ok(()) };
                let taken = calls.consume(batch).and_then(|()| {
                    self.take(calls.rows.n_rows(), &|position| calls.rows.column(position), beside)
                });
                self.calls = Some(calls);
                taken
            }
            From::Rows(source) => match source.lens {
                Some(_) => {
                    let mut records = std::mem::take(&mut self.buffers.records);
                    if plan.has_positions
                        && let Some((_, rows)) = source.lens.and_then(|lens| batch.lenses().nth(lens))
                    {
                        positions(&batch.span, rows, &mut records);
                    }
                    // The regions of records before a window come in batches without records.
                    let rows = source.of_lens(batch, &records).filter(|_| batch.span.records > 0);
                    let taken = match rows {
                        Some(rows) => self.take(rows.n_rows(), &|position| rows.column(position), beside),
                        None => Ok(()),
                    };
                    self.buffers.records = records;
                    taken
                }
                None => {
                    let is_it = |schema: &Arc<_>| Arc::ptr_eq(schema, &plan.schema) || *schema == plan.schema;
                    let table = batch.tables.iter().find(|table| is_it(table.schema()));
                    let Some(table) = table else { return Ok(()) };
                    let rows = LentRows::of_table(&**table);
                    self.take(rows.n_rows(), &|position| rows.column(position), beside)
                }
            },
        }
    }

    fn merge(&mut self, mut later: Aggregating) -> Result<()> {
        self.close()?;
        later.close()?;
        let groups = self.groups.merge(&later.groups)?;
        self.rows += later.rows;
        for (missing, more) in self.missing.iter_mut().zip(&later.missing) {
            *missing += more;
        }
        for ((kept, more), spec) in self.values.iter_mut().zip(later.values).zip(&self.plan.specs) {
            kept.resize(self.groups.len());
            kept.merge(more, spec, &groups)
                .map_err(|message| Error::usage(format!("{}: {message}", spec.name)))?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Box<dyn Report>> {
        self.close()?;
        let Aggregating { plan, groups, mut values, missing, rows, .. } = self;
        values.iter_mut().for_each(|values| values.resize(groups.len()));
        Ok(Box::new(Aggregated::new(&plan, groups, &values, &missing, rows)))
    }
}
