//! Conditions that select rows, and the parts of them that readers can evaluate.
//!
//! In a chain of `AND`, comparisons of a column with constants become conditions of a [`Predicate`]: a range of numbers, or a
//! set of texts. A range of times or positions lets a reader skip ahead; a single thread lets it skip files. The rest is
//! evaluated for each row.

use crate::bind::{Bound, Cells, Node, Op, Read, Shift, Ty, Value};
use crate::eval::Input;
use crate::fault::Source;
use crate::parse::parse;
use crate::tree::{Binary, Expr, ExprKind, children};
use quipu_model::schema::{Role, Schema};
use quipu_model::{
    Accept, Beside, ColumnRef, Condition, Filter, Predicate, Result, RowFilter, RowTest, ThreadId,
};
use std::sync::Arc;

/// A condition that selects rows.
#[derive(Clone, Debug)]
pub struct Where {
    source: Source,
    /// The operands of `AND`, or a single condition.
    list: Vec<Expr>,
}

impl Where {
    /// Parses a condition.
    ///
    /// # Errors
    /// As for [`parse`](crate::parse()).
    pub fn new(text: &str) -> Result<Where> {
        let source = Source::new(text);
        let expr = parse(&source)?;
        let list = match expr.kind {
            ExprKind::And(list) => list,
            kind => vec![Expr { kind, ..expr }],
        };
        Ok(Where { source, list })
    }

    /// Converts the condition to a filter of a [`Predicate`].
    #[must_use]
    pub fn filter(self) -> Filter {
        Filter(Arc::new(self))
    }

    /// The names of its columns, each with whether it is quoted.
    pub fn columns(&self) -> impl Iterator<Item = (&str, bool)> {
        self.list.iter().flat_map(Expr::columns)
    }

    fn bound(&self, schema: &Schema) -> Result<Vec<Bound>> {
        let bind = |expr: &Expr| {
            let bound = Bound::new(&self.source, expr, schema)?;
            match bound.ty() {
                Ty::Bool | Ty::Null => Ok(bound),
                other => Err(bound.refuse(&format!("expected true or false, found {}", other.words()))),
            }
        };
        self.list.iter().map(bind).collect()
    }
}

impl RowFilter for Where {
    fn text(&self) -> &str {
        self.source.text()
    }

    fn narrow(&self, schema: &Schema, predicate: &mut Predicate) -> Option<Filter> {
        // Errors of binding are reported when the filter is bound.
        let Ok(bound) = self.bound(schema) else { return Some(self.clone().filter()) };
        let mut ranges: Vec<(usize, i128, i128)> = Vec::new();
        let mut left = Vec::new();
        for (expr, bound) in self.list.iter().zip(&bound) {
            if let Some((position, low, high)) = range(&bound.root) {
                match ranges.iter_mut().find(|(known, ..)| *known == position) {
                    Some((_, known_low, known_high)) => {
                        (*known_low, *known_high) = ((*known_low).max(low), (*known_high).min(high));
                    }
                    None => ranges.push((position, low, high)),
                }
            } else if let Some((position, texts)) = texts(&bound.root) {
                let column = schema.fields[position].name.to_string();
                predicate.columns.push(Condition { column, accept: Accept::Texts(texts) });
            } else {
                left.push(expr.clone());
            }
        }
        for (position, low, high) in ranges {
            let field = &schema.fields[position];
            let is_first = field.role.is_some_and(|role| schema.position_of(role) == Some(position));
            let unsigned = |number: i128| u64::try_from(number.clamp(0, u64::MAX.into())).unwrap_or(u64::MAX);
            match field.role {
                Some(Role::THREAD) if is_first && low == high && predicate.threads.is_empty() => {
                    predicate.threads.extend(u64::try_from(low).ok().map(ThreadId::from_packed));
                }
                Some(Role::TIME) if is_first && predicate.time.is_none() && low <= high && high >= 0 => {
                    predicate.time = Some(unsigned(low)..=unsigned(high));
                }
                _ => {}
            }
            let column = field.name.to_string();
            predicate.columns.push(Condition { column, accept: Accept::Between(low..=high) });
        }
        (!left.is_empty()).then(|| Where { list: left, ..self.clone() }.filter())
    }

    fn has_text(&self, text: &str) -> bool {
        fn walk(expr: &Expr, text: &str) -> bool {
            let mut found = matches!(&expr.kind, ExprKind::Text(other) if other == text);
            children(expr, &mut |child| found |= walk(child, text));
            found
        }
        self.list.iter().any(|expr| walk(expr, text))
    }

    fn bind(&self, schema: &Schema) -> Result<Box<dyn RowTest>> {
        let list = self.bound(schema)?;
        let mut columns: Vec<usize> = list.iter().flat_map(|bound| bound.columns()).copied().collect();
        columns.sort_unstable();
        columns.dedup();
        Ok(Box::new(Test { list, columns }))
    }
}

/// The range of a column's numbers that satisfies a condition; `None` if the condition is not a range.
fn range(node: &Node) -> Option<(usize, i128, i128)> {
    let column = |node: &Node| match &node.op {
        Op::Column(Cells { position, read: Read::Unsigned | Read::Signed, .. }) => Some(*position),
        _ => None,
    };
    let number = |node: &Node| match &node.op {
        Op::Const(Value::Int(number)) => Some(*number),
        _ => None,
    };
    match &node.op {
        Op::Compare(binary, left, right) => {
            let (position, binary, number) = match column(left) {
                Some(position) => (position, *binary, number(right)?),
                None => (column(right)?, binary.flipped(), number(left)?),
            };
            let (low, high) = match binary {
                Binary::Eq => (number, number),
                Binary::Lt => (i128::MIN, number.checked_sub(1)?),
                Binary::Le => (i128::MIN, number),
                Binary::Gt => (number.checked_add(1)?, i128::MAX),
                Binary::Ge => (number, i128::MAX),
                _ => return None,
            };
            Some((position, low, high))
        }
        Op::Between(three, false) => {
            let [of, low, high] = &**three;
            Some((column(of)?, number(low)?, number(high)?))
        }
        _ => None,
    }
}

/// The texts of a column that satisfy a condition; `None` if the condition is not such a test.
fn texts(node: &Node) -> Option<(usize, Vec<String>)> {
    let column = |node: &Node, text: &str| match &node.op {
        Op::Column(Cells { position, read, shift: Shift::None, .. }) => match read {
            // A text that is not a name may be the digits of a number without a name.
            Read::Names(names) if names.number(text).is_some() => Some(*position),
            Read::Dict(_) | Read::Strings => Some(*position),
            _ => None,
        },
        _ => None,
    };
    let text = |node: &Node| match &node.op {
        Op::Const(Value::Text(text)) => String::from_utf8(text.clone()).ok(),
        _ => None,
    };
    match &node.op {
        Op::Compare(Binary::Eq, left, right) => {
            let (of, text) = match text(right) {
                Some(text) => (left, text),
                None => (right, text(left)?),
            };
            Some((column(of, &text)?, vec![text]))
        }
        Op::In(of, list, false) => {
            let texts = list.iter().map(text).collect::<Option<Vec<_>>>()?;
            let position = texts.iter().map(|text| column(of, text)).collect::<Option<Vec<_>>>()?;
            Some((*position.first()?, texts))
        }
        _ => None,
    }
}

/// A condition that is bound to a table.
#[derive(Debug)]
struct Test {
    list: Vec<Bound>,
    columns: Vec<usize>,
}

impl RowTest for Test {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn retain<'c>(
        &self,
        n_rows: usize,
        column_at: &dyn Fn(usize) -> ColumnRef<'c>,
        beside: Beside<'_>,
        rows: &mut Vec<u32>,
    ) -> Result<()> {
        #[expect(clippy::redundant_closure, reason = "the closure shortens what its columns are lent for")]
        let input = Input::new(n_rows, |position| column_at(position), beside);
        for bound in &self.list {
            let values = match rows.len() == n_rows {
                true => bound.eval(&input)?,
                false => bound.eval_some(&input, rows)?,
            };
            let mut at = 0;
            rows.retain(|_| {
                at += 1;
                values.truth(at - 1) == Some(true)
            });
        }
        Ok(())
    }
}
