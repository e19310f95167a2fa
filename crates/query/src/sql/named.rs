//! Named arguments of table functions: `miss_ratio(t, line_size => 64)`.
//!
//! The engine's planner accepts only arguments without names; each named one becomes a text with its name and value.

use super::tool::NAMED;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannedRelation, PlannerResult, RawBinaryExpr, RelationPlanner, RelationPlannerContext,
    RelationPlanning,
};
use datafusion::logical_expr::{Expr as LogicalExpr, ExprSchemable, lit};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, Ident, TableFactor, Value,
};

/// Rewrites named arguments as texts.
#[derive(Debug)]
pub(super) struct NamedArguments;

/// The text of an argument: the content of a string, a name, or the expression as written.
fn text(expr: &Expr) -> String {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        Expr::Identifier(Ident { value, .. }) => value.clone(),
        other => other.to_string(),
    }
}

fn literal(text: String) -> FunctionArg {
    let value = Value::SingleQuotedString(text).with_empty_span();
    FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))
}

impl RelationPlanner for NamedArguments {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Table { args: Some(args), .. } = &mut relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let mut is_changed = false;
        for arg in &mut args.args {
            let text = match arg {
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } => {
                    format!("{NAMED}{}={}", name.value, text(expr))
                }
                FunctionArg::ExprNamed { name, arg: FunctionArgExpr::Expr(expr), .. } => {
                    format!("{NAMED}{}={}", text(name), text(expr))
                }
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr @ Expr::Identifier(_))) => text(expr),
                _ => continue,
            };
            *arg = literal(text);
            is_changed = true;
        }
        if !is_changed {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        // The plan includes the alias.
        let plan = context.plan(relation)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// Divides unsigned numbers by constants as integers. The engine's own division would produce fractions, because constants are
/// signed.
#[derive(Debug)]
pub(super) struct WholeDivision;

impl ExprPlanner for WholeDivision {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_one = matches!(expr.op, BinaryOperator::Divide | BinaryOperator::Modulo);
        let is_unsigned = expr.left.get_type(schema).is_ok_and(|ty| ty == DataType::UInt64);
        if let (true, true, LogicalExpr::Literal(ScalarValue::Int64(Some(number)), _)) =
            (is_one, is_unsigned, &expr.right)
            && let Ok(number) = u64::try_from(*number)
        {
            expr.right = lit(number);
        }
        Ok(PlannerResult::Original(expr))
    }
}
