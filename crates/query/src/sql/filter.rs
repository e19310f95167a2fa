//! Conditions of a query that readers of a trace can apply: they become a predicate, and conditions on positions or the clock
//! become a window.
//!
//! A condition is handed over only if it means the same to the reader as to the query engine, which then need not check rows
//! again.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use quipu_model::schema::{Missing, Role, Storage, Type};
use quipu_model::{Accept, Condition, Field, Predicate, Schema, ThreadId, Trace};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A condition in the form in which it is handed to the reader.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Pushed {
    /// Name of the column, and the packed numbers of the threads.
    Threads(String, Vec<u64>),
    Time(RangeInclusive<u64>),
    Columns(Vec<Condition>),
}

/// Translates a condition for the reader; `None` if the query engine must evaluate it row by row.
pub(super) fn pushed(filter: &Expr, schema: &Schema) -> Option<Pushed> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            match (pushed(left, schema)?, pushed(right, schema)?) {
                (Pushed::Columns(mut left), Pushed::Columns(right)) => {
                    left.extend(right);
                    Some(Pushed::Columns(left))
                }
                _ => None,
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (name, value, op) = match (column(left), column(right)) {
                (Some(name), None) => (name, literal(right)?, *op),
                (None, Some(name)) => (name, literal(left)?, op.swap()?),
                _ => return None,
            };
            let field = field(schema, name)?;
            match (op, &value) {
                (Operator::Eq, Value::Text(text)) => texts(field, vec![text.clone()]),
                (Operator::Eq, Value::Number(number)) => numbers(field, *number..=*number),
                (Operator::Lt, Value::Number(number)) => numbers(field, i128::MIN..=number.checked_sub(1)?),
                (Operator::LtEq, Value::Number(number)) => numbers(field, i128::MIN..=*number),
                (Operator::Gt, Value::Number(number)) => numbers(field, number.checked_add(1)?..=i128::MAX),
                (Operator::GtEq, Value::Number(number)) => numbers(field, *number..=i128::MAX),
                _ => None,
            }
        }
        Expr::Between(Between { expr, negated: false, low, high }) => {
            let field = field(schema, column(expr)?)?;
            match (literal(low)?, literal(high)?) {
                (Value::Number(low), Value::Number(high)) if low <= high => numbers(field, low..=high),
                _ => None,
            }
        }
        Expr::InList(list) if !list.negated => {
            let field = field(schema, column(&list.expr)?)?;
            let values = list.list.iter().map(literal).collect::<Option<Vec<_>>>()?;
            let as_text = |value: &Value| match value {
                Value::Text(text) => Some(text.clone()),
                Value::Number(_) => None,
            };
            if let Some(words) = values.iter().map(as_text).collect::<Option<Vec<_>>>() {
                return texts(field, words);
            }
            let as_number = |value: &Value| match value {
                Value::Number(number) => u64::try_from(*number).ok(),
                Value::Text(_) => None,
            };
            let threads = values.iter().map(as_number).collect::<Option<Vec<_>>>()?;
            is_role(field, Role::THREAD).then(|| Pushed::Threads(field.name.to_string(), threads))
        }
        Expr::IsNotNull(inner) => present(field(schema, column(inner)?)?, true),
        Expr::IsNull(inner) => present(field(schema, column(inner)?)?, false),
        _ => None,
    }
}

enum Value {
    Number(i128),
    Text(String),
}

/// The name of a column; `None` for any other expression.
fn column(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Column(column) => Some(&column.name),
        _ => None,
    }
}

fn field<'s>(schema: &'s Schema, name: &str) -> Option<&'s Field> {
    schema.fields.iter().find(|field| field.name == name)
}

fn literal(expr: &Expr) -> Option<Value> {
    let Expr::Literal(value, _) = expr else { return None };
    value_of(value)
}

fn value_of(value: &ScalarValue) -> Option<Value> {
    Some(match value {
        ScalarValue::Int8(Some(number)) => Value::Number((*number).into()),
        ScalarValue::Int16(Some(number)) => Value::Number((*number).into()),
        ScalarValue::Int32(Some(number)) => Value::Number((*number).into()),
        ScalarValue::Int64(Some(number)) => Value::Number((*number).into()),
        ScalarValue::UInt8(Some(number)) => Value::Number((*number).into()),
        ScalarValue::UInt16(Some(number)) => Value::Number((*number).into()),
        ScalarValue::UInt32(Some(number)) => Value::Number((*number).into()),
        ScalarValue::UInt64(Some(number)) => Value::Number((*number).into()),
        ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => Value::Text(text.clone()),
        ScalarValue::Dictionary(_, inner) => return value_of(inner),
        _ => return None,
    })
}

fn is_number(field: &Field) -> bool {
    let is_plain = !matches!(field.ty, Type::Enum(_) | Type::Bool | Type::F32 | Type::F64);
    let storage = field.ty.storage();
    is_plain && !matches!(storage, Storage::Fixed(_) | Storage::Strings | Storage::Nested | Storage::Members)
}

fn numbers(field: &Field, range: RangeInclusive<i128>) -> Option<Pushed> {
    if !is_number(field) {
        return None;
    }
    let is_one = range.start() == range.end();
    match u64::try_from(*range.start()) {
        Ok(thread) if is_one && is_role(field, Role::THREAD) => {
            Some(Pushed::Threads(field.name.to_string(), vec![thread]))
        }
        // A time of 0 means that there was no clock reading yet; no window contains such rows.
        Ok(start) if start > 0 && *range.end() >= *range.start() && is_role(field, Role::TIME) => {
            Some(Pushed::Time(start..=u64::try_from(*range.end()).unwrap_or(u64::MAX)))
        }
        _ => Some(Pushed::Columns(vec![Condition {
            column: field.name.to_string(),
            accept: Accept::Between(range),
        }])),
    }
}

/// True if a column has this role and each row has a value. Selection by role in readers does not handle missing values, except
/// for a time of 0, which no window contains.
fn is_role(field: &Field, role: Role) -> bool {
    let is_there = field.missing == Missing::Never || role == Role::TIME && field.missing == Missing::Is(0);
    field.role == Some(role) && is_there
}

fn texts(field: &Field, texts: Vec<String>) -> Option<Pushed> {
    // Only names of the column: the text of a number without a name means something to the query engine alone.
    let is_known = |text: &String| match &field.ty {
        Type::Enum(names) => names.number(text).is_some_and(|number| names.get(number) == Some(text)),
        _ => false,
    };
    if !texts.iter().all(is_known) {
        return None;
    }
    Some(Pushed::Columns(vec![Condition { column: field.name.to_string(), accept: Accept::Texts(texts) }]))
}

fn present(field: &Field, is_present: bool) -> Option<Pushed> {
    let accept = Accept::Present(is_present);
    Some(Pushed::Columns(vec![Condition { column: field.name.to_string(), accept }]))
}

/// Adds a condition to the others, which must all hold.
pub(super) fn join(predicate: &mut Predicate, pushed: Pushed) {
    match pushed {
        Pushed::Columns(more) => more.into_iter().for_each(|condition| join_column(predicate, condition)),
        Pushed::Threads(column, threads) => {
            let threads: Vec<ThreadId> = threads.into_iter().map(ThreadId::from_packed).collect();
            if predicate.threads.is_empty() {
                predicate.threads = threads;
                return;
            }
            predicate.threads.retain(|thread| threads.contains(thread));
            if predicate.threads.is_empty() {
                // An empty list would select all threads, so a condition that no row meets is added.
                predicate
                    .columns
                    .push(Condition { column, accept: Accept::Between(RangeInclusive::new(1, 0)) });
            }
        }
        Pushed::Time(range) => {
            let all = predicate.time.take().unwrap_or(0..=u64::MAX);
            predicate.time = Some(*all.start().max(range.start())..=*all.end().min(range.end()));
        }
    }
}

/// Adds a condition on a column. Two ranges become their intersection, because a window is made from a single one.
fn join_column(predicate: &mut Predicate, condition: Condition) {
    let same = predicate.columns.iter_mut().find(|other| other.column == condition.column);
    match (same.map(|same| &mut same.accept), condition.accept) {
        (Some(Accept::Between(both)), Accept::Between(range)) => {
            *both = *both.start().max(range.start())..=*both.end().min(range.end());
        }
        (_, accept) => predicate.columns.push(Condition { column: condition.column, accept }),
    }
}

/// Formats a predicate for people.
pub(super) fn text(predicate: &Predicate) -> String {
    let mut parts = Vec::new();
    if !predicate.threads.is_empty() {
        let threads: Vec<String> = predicate.threads.iter().map(ToString::to_string).collect();
        parts.push(format!("thread in [{}]", threads.join(", ")));
    }
    if let Some(time) = &predicate.time {
        parts.push(format!("time in {}..={}", time.start(), time.end()));
    }
    for Condition { column, accept } in &predicate.columns {
        parts.push(match accept {
            Accept::Between(range) => match (*range.start(), *range.end()) {
                (i128::MIN, end) => format!("{column} <= {end}"),
                (start, i128::MAX) => format!("{column} >= {start}"),
                (start, end) if start == end => format!("{column} = {start}"),
                (start, end) => format!("{column} in {start}..={end}"),
            },
            Accept::Texts(texts) => format!("{column} in [{}]", texts.join(", ")),
            Accept::Present(true) => format!("{column} is not null"),
            Accept::Present(false) => format!("{column} is null"),
            other => format!("{column} {other:?}"),
        });
    }
    parts.join(" and ")
}

/// Formats the window of the trace that is read, for people; `None` if there is none.
pub(super) fn window(predicate: &Predicate, trace: &Arc<dyn Trace>, table: &str) -> Option<String> {
    let selection =
        quipu_engine::Selection { predicate: predicate.clone(), ..quipu_engine::Selection::new(table) };
    match quipu_engine::row_window(&**trace, &selection).ok()? {
        quipu_model::Window::Records(range) => Some(format!("records {}..{}", range.start, range.end)),
        quipu_model::Window::Clock(range) => Some(format!("clock {}..{}", range.start, range.end)),
        _ => None,
    }
}
