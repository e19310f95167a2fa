//! Converts errors of the query engine to the library's, with the place in the text and similar names.

use super::depth::{MAX_DEPTH, nesting};
use super::inlined::{Excess, MAX_REPEATED, MAX_STEPS};
use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;
use quipu_model::options::nearest;
use quipu_model::{Error, ErrorKind};
use std::error::Error as _;
use std::sync::Arc;

/// Carries an error of a trace through the query engine.
#[derive(Debug)]
struct OfTrace(Arc<Error>);

impl std::fmt::Display for OfTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for OfTrace {}

/// Wraps an error of reading for the query engine.
pub(super) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(OfTrace(Arc::new(error))))
}

/// Wraps an error of planning for the query engine.
pub(super) fn planning(error: Error) -> DataFusionError {
    external(error)
}

/// The error for a query that nests too deeply at this line and column.
#[cold]
pub(super) fn too_deep(sql: &str, (line, column): (u64, u64)) -> Error {
    let mark = pointed(sql, line, column);
    let message =
        format!("the question nests more than {MAX_DEPTH} times, at line {line}, column {column}{mark}");
    Error::new(ErrorKind::Limit, message).hint("a list such as `x IN (…)` says the same as a chain of `OR`")
}

/// The error for a query that becomes too large when queries of its `WITH` replace their names.
#[cold]
pub(super) fn of_excess(sql: &str, excess: Excess) -> Error {
    let (what, (line, column)) = match excess {
        Excess::Repeats(at) => {
            (format!("queries of WITH repeat more than {MAX_REPEATED} parts where they are used"), at)
        }
        Excess::Depth(at) => {
            (format!("queries of WITH nest more than {MAX_STEPS} times where they are used"), at)
        }
    };
    let mark = pointed(sql, line, column);
    let message = format!("{what}, at line {line}, column {column}{mark}");
    Error::new(ErrorKind::Limit, message).hint("each use of such a query is planned and run anew")
}

/// Converts an error of the engine about the query `sql`. `tables` are the known tables, for suggestions; `memory_option` is
/// the option that allows more memory.
pub(super) fn told(error: &DataFusionError, sql: &str, tables: &[String], memory_option: &str) -> Error {
    let root = root(error);
    if let DataFusionError::External(cause) = root
        && let Some(OfTrace(error)) = cause.downcast_ref::<OfTrace>()
    {
        let copy = Error::new(error.kind(), error.message().to_owned()).at(error.place());
        return match error.advice() {
            Some(advice) => copy.hint(advice),
            None => copy,
        };
    }
    let at = error
        .diagnostic()
        .and_then(|diagnostic| diagnostic.span)
        .map(|span| (span.start.line, span.start.column));
    let (kind, message, meant) = match root {
        // The parser does not state the place of this error.
        DataFusionError::SQL(error, _) if **error == ParserError::RecursionLimitExceeded => {
            let (line, column) = nesting(sql).innermost.unwrap_or((1, 1));
            let mark = pointed(sql, line, column);
            let message =
                format!("the recursion of the question is too deep, at line {line}, column {column}{mark}");
            return Error::new(ErrorKind::Limit, message);
        }
        DataFusionError::SQL(error, _) => {
            let text = error.to_string();
            (ErrorKind::Usage, text.strip_prefix("sql parser error: ").unwrap_or(&text).to_owned(), None)
        }
        DataFusionError::SchemaError(error, _) => match &**error {
            SchemaError::FieldNotFound { field, valid_fields } => {
                let known: Vec<String> = valid_fields.iter().map(|field| field.name.clone()).collect();
                let message = format!("there is no column `{}`", field.flat_name());
                (ErrorKind::Usage, message, Some(near(&field.name, &known, "columns")))
            }
            other => (ErrorKind::Usage, other.to_string(), None),
        },
        DataFusionError::ResourcesExhausted(message) => {
            let first = message.lines().next().unwrap_or_default().to_owned();
            let hint = format!("allow more with {memory_option}, or ask for less at once");
            return Error::new(ErrorKind::Limit, format!("the memory is used up: {first}")).hint(hint);
        }
        DataFusionError::Plan(message) | DataFusionError::Execution(message) => {
            let first = message.split("\n").next().unwrap_or_default();
            match first.strip_prefix("table '").and_then(|rest| rest.strip_suffix("' not found")) {
                Some(name) => {
                    let own =
                        name.strip_prefix("quipu.public.").or(name.strip_prefix("quipu.")).unwrap_or(name);
                    (
                        ErrorKind::Usage,
                        format!("there is no table `{own}`"),
                        Some(near(own, tables, "tables")),
                    )
                }
                None => (ErrorKind::Usage, first.to_owned(), None),
            }
        }
        DataFusionError::NotImplemented(message) => (ErrorKind::Unsupported, message.clone(), None),
        DataFusionError::Internal(message) => (ErrorKind::Internal, message.clone(), None),
        other => (ErrorKind::Usage, other.strip_backtrace(), None),
    };
    let at = at.or_else(|| place_in(&message));
    let name = quoted(&message);
    let at = at.or_else(|| name.and_then(|name| find(sql, name)));
    // The parser has put the place into the message already.
    let message = match message.find(" at Line: ") {
        Some(end) if at.is_some() => message[..end].to_owned(),
        _ => message,
    };
    let message = match at {
        Some((line, column)) => {
            format!("{message}, at line {line}, column {column}{}", pointed(sql, line, column))
        }
        None => message,
    };
    match meant {
        Some(meant) => Error::new(kind, message).hint(meant),
        None => Error::new(kind, message),
    }
}

/// The innermost error within contexts and collections.
fn root(error: &DataFusionError) -> &DataFusionError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => root(inner),
        DataFusionError::Shared(inner) => root(inner),
        DataFusionError::Collection(all) => all.first().map_or(error, root),
        DataFusionError::External(cause) => {
            cause.downcast_ref::<DataFusionError>().map(root).unwrap_or(error)
        }
        DataFusionError::ArrowError(cause, _) => {
            cause.source().and_then(|cause| cause.downcast_ref::<DataFusionError>()).map_or(error, root)
        }
        other => other,
    }
}

fn near(name: &str, known: &[String], what: &str) -> String {
    match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let more = if known.len() > 12 { ", …" } else { "" };
            let first: Vec<&str> = known.iter().take(12).map(String::as_str).collect();
            format!("{what}: {}{more}", first.join(", "))
        }
    }
}

/// Parses the place from a message of the parser with `Line: 1, Column: 23`.
fn place_in(message: &str) -> Option<(u64, u64)> {
    let (_, rest) = message.split_once("Line: ")?;
    let (line, rest) = rest.split_once(", Column: ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Some((line.parse().ok()?, digits.parse().ok()?))
}

/// The first quoted name in a message.
fn quoted(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once(['`', '\''])?;
    let (name, _) = rest.split_once(['`', '\''])?;
    (!name.is_empty()).then_some(name)
}

/// Line and column of the first occurrence of a name in the text.
fn find(sql: &str, name: &str) -> Option<(u64, u64)> {
    let name = name.rsplit('.').next().unwrap_or(name);
    let at = sql.to_ascii_lowercase().find(&name.to_ascii_lowercase())?;
    let before = sql.get(..at)?;
    let line = before.matches('\n').count() as u64 + 1;
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) as u64 + 1;
    Some((line, column))
}

/// Returns the line of the text with a mark below the column; empty for a long line.
fn pointed(sql: &str, line: u64, column: u64) -> String {
    let text = usize::try_from(line).ok().and_then(|line| sql.lines().nth(line.saturating_sub(1)));
    let Some(text) = text.filter(|text| text.chars().count() <= MAX_LINE) else { return String::new() };
    let indent = usize::try_from(column.saturating_sub(1)).unwrap_or(0).min(MAX_LINE);
    format!("\n    {text}\n    {}^", " ".repeat(indent))
}

/// Maximum number of characters of a line that is shown in an error.
const MAX_LINE: usize = 200;
