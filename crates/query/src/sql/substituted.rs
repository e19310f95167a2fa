//! How large expressions become where each column of an inner query is replaced by the expression that it stands for.
//!
//! The engine's optimizer moves conditions and projections down to the tables, and writes expressions in the place of columns
//! for that. `SELECT x + x AS x FROM …` in itself 18 times is 18 additions as it is planned, and 262,143 after that. The
//! module counts that over the plan, before the optimizer sees it. [`inlined`](super::inlined) does the same for tables.

use super::inlined::{Excess, MAX_REPEATED};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef, JoinType};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};

/// Looks at a plan that is not optimized.
pub(super) fn excess(plan: &LogicalPlan) -> Result<Option<Excess>, DataFusionError> {
    let mut count = Count::default();
    count.columns(plan)?;
    Ok(count.excess)
}

/// An input of a step of the plan.
struct Input<'p> {
    schema: &'p DFSchemaRef,
    /// The number of expressions that each column stands for; 0 for a column of a table.
    sizes: Vec<u64>,
    /// Whether the step has used the column.
    is_used: Vec<bool>,
}

#[derive(Default)]
struct Count {
    /// Expressions that uses of a column after the first in a step repeat, in all steps.
    n_repeated: u64,
    excess: Option<Excess>,
}

impl Count {
    /// The number of expressions that each column of a step stands for. The plan is no deeper than the limits of the text allow.
    fn columns(&mut self, plan: &LogicalPlan) -> Result<Vec<u64>, DataFusionError> {
        let n_columns = plan.schema().fields().len();
        if self.excess.is_some() {
            return Ok(vec![0; n_columns]);
        }
        let mut inputs = Vec::new();
        for input in plan.inputs() {
            let sizes = self.columns(input)?;
            inputs.push(Input { schema: input.schema(), is_used: vec![false; sizes.len()], sizes });
        }
        plan.apply_subqueries(|subquery| {
            self.columns(subquery)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        let mut own = Vec::new();
        plan.apply_expressions(|expr| {
            own.push(self.expression(expr, &mut inputs)?);
            Ok(TreeNodeRecursion::Continue)
        })?;
        let mut inputs = inputs.into_iter().map(|input| input.sizes);
        let mut sizes: Vec<u64> = match plan {
            LogicalPlan::Projection(_) => own,
            LogicalPlan::Distinct(Distinct::On(on)) => own.split_off(on.on_expr.len().min(own.len())),
            // Sums stay where they are; with sets of groups, so do the groups.
            LogicalPlan::Aggregate(step) => {
                let has_sets = step.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)));
                own.truncate(if has_sets { 0 } else { step.group_expr.len() });
                own
            }
            LogicalPlan::Join(join) => {
                let (left, right) = (inputs.next().unwrap_or_default(), inputs.next().unwrap_or_default());
                match join.join_type {
                    JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => right,
                    _ => [left, right].concat(),
                }
            }
            LogicalPlan::Union(_) => {
                let mut largest = inputs.next().unwrap_or_default();
                for sizes in inputs {
                    largest.iter_mut().zip(sizes).for_each(|(largest, size)| *largest = size.max(*largest));
                }
                largest
            }
            // The columns of the input, and after them those of a window.
            LogicalPlan::Filter(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Distinct(Distinct::All(_)) => inputs.next().unwrap_or_default(),
            _ => Vec::new(),
        };
        sizes.resize(n_columns, 0);
        Ok(sizes)
    }

    /// The number of expressions that one comes to. Names cost nothing.
    fn expression(&mut self, expr: &Expr, inputs: &mut [Input<'_>]) -> Result<u64, DataFusionError> {
        let mut size = 0u64;
        expr.apply(|part| {
            let added = match part {
                Expr::Alias(_) => 0,
                Expr::Column(column) => self.size_of(column, inputs),
                _ => 1,
            };
            size = size.saturating_add(added);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(size)
    }

    /// The number of expressions that a column of the inputs stands for, which are repeated if it was used before.
    fn size_of(&mut self, column: &Column, inputs: &mut [Input<'_>]) -> u64 {
        let found = inputs.iter_mut().find_map(|input| {
            let at = input.schema.maybe_index_of_column(column)?;
            let is_again = std::mem::replace(input.is_used.get_mut(at)?, true);
            Some((input.sizes.get(at).copied()?, is_again))
        });
        let Some((size, is_again)) = found else { return 0 };
        if is_again {
            self.n_repeated = self.n_repeated.saturating_add(size);
        }
        if self.n_repeated > MAX_REPEATED && self.excess.is_none() {
            let at = column.spans().first().map(|span| (span.start.line, span.start.column));
            self.excess = Some(Excess::Expressions(at));
        }
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::SessionContext;

    /// The planner needs more stack for nested queries than the thread of a test has.
    fn of(sql: &str) -> Option<Excess> {
        let planned = || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let plan = runtime.block_on(SessionContext::new().state().create_logical_plan(sql)).unwrap();
            excess(&plan).unwrap()
        };
        std::thread::scope(|scope| {
            let planner = std::thread::Builder::new().stack_size(256 << 20).spawn_scoped(scope, planned);
            planner.unwrap().join().unwrap()
        })
    }

    /// `n` queries, each of which uses the one before in `body` as `{}`.
    fn with(n: usize, body: &str) -> String {
        let first = "WITH a0 AS (SELECT x, y FROM (VALUES (1, 2)) t (x, y))".to_owned();
        let more = (1..=n).map(|at| format!(", a{at} AS ({})", body.replace("{}", &format!("a{}", at - 1))));
        format!("{first}{} SELECT * FROM a{n}", more.collect::<String>())
    }

    #[test]
    fn expressions_that_double_are_counted() {
        for body in [
            "SELECT x + x AS x FROM {}",
            "SELECT x + y AS x, x - y AS y FROM {}",
            "SELECT x + x AS x FROM (SELECT * FROM {} WHERE x > 0 ORDER BY x LIMIT 5) AS inner_one",
            "SELECT DISTINCT -x + x AS x FROM {}",
            "SELECT CASE WHEN x > 1 THEN x ELSE -x END AS x FROM {}",
            "SELECT x * x AS x FROM {} UNION ALL SELECT 1",
            "SELECT x + x AS x, count(*) AS n FROM {} GROUP BY x + x",
        ] {
            assert_eq!(of(&with(4, body)), None, "{body}");
            for sql in [with(18, body), format!("EXPLAIN {}", with(18, body))] {
                assert!(matches!(of(&sql), Some(Excess::Expressions(_))), "{sql}");
            }
        }
        // Queries in each other without `WITH`, and as a condition.
        let nested = (0..18)
            .fold("SELECT 1 AS x".to_owned(), |inner, _| format!("SELECT x + x AS x FROM ({inner}) AS t"));
        assert!(of(&nested).is_some());
        assert!(of(&format!("SELECT 1 WHERE 1 IN ({nested})")).is_some());
    }

    #[test]
    fn expressions_that_are_used_once_and_columns_of_tables_repeat_nothing() {
        for body in [
            "SELECT x + 1 AS x FROM {} WHERE x > 0",
            "SELECT y AS x, x AS y FROM {}",
            "SELECT x, x AS y FROM {}",
            // A sum is computed once, and not moved.
            "SELECT sum(x) + 1 AS x FROM (SELECT x, x AS y FROM {}) AS t",
        ] {
            assert_eq!(of(&with(60, body)), None, "{body}");
        }
        let uses = "x + ".repeat(200);
        assert_eq!(of(&format!("SELECT {uses}1 FROM (VALUES (1)) t (x)")), None);
    }
}
