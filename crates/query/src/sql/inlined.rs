//! Measures the size of a query after queries of its `WITH` have replaced their names.
//!
//! The query engine plans such a query again at each use. With ten names, each of which uses the one before twice, this makes a
//! thousand queries, and with thirty, more than can be planned. Repeats are counted here, in the parsed text, before it is
//! planned. Depth adds up in the same way; [`depth`](super::depth) measures the depth of the text itself.

use datafusion::sql::parser::{CopyToSource, CopyToStatement, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, ObjectName, Query, Select, SetExpr, Visit, Visitor,
};
use std::ops::ControlFlow;

/// Maximum number of queries, tables and expressions that uses after the first may repeat. Planning this many took 3 seconds on
/// a busy machine, and its time grows faster than their number.
pub(super) const MAX_REPEATED: u64 = 10_000;
/// Maximum number of plan steps and expressions between the root and the innermost part. Projections of nested queries are
/// merged into one, so their expressions add up: 10,000 overflowed the stack, 4000 did not.
pub(super) const MAX_STEPS: usize = 1000;

/// The limit that a query exceeds, and the line and column where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    Repeats((u64, u64)),
    Depth((u64, u64)),
}

/// Checks a query against both limits; `None` if it exceeds neither.
pub(super) fn excess(statement: &Statement) -> Option<Excess> {
    let mut walk = Walk::default();
    let walked = match statement {
        Statement::Statement(parsed) => parsed.visit(&mut walk),
        Statement::Explain(explained) => return excess(&explained.statement),
        Statement::CopyTo(CopyToStatement { source: CopyToSource::Query(query), .. }) => {
            query.visit(&mut walk)
        }
        _ => return None,
    };
    match walked {
        ControlFlow::Break(excess) => Some(excess),
        ControlFlow::Continue(()) => None,
    }
}

/// Size of a query.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    n_parts: u64,
    /// Number of steps between its root and its innermost part.
    depth: usize,
}

/// A query of a `WITH`.
struct Common {
    /// Identifies the query by its address, until the query was visited.
    query: *const Query,
    name: Ident,
    size: Option<Size>,
    is_used: bool,
}

/// A query that is being visited.
#[derive(Default)]
struct Open {
    size: Size,
    /// Its own steps, including joins and set operations: in the plan, each is the parent of everything before it.
    steps: usize,
    /// Number of expressions around the current place, and the largest such number so far.
    links: usize,
    most_links: usize,
    common: Vec<Common>,
}

#[derive(Default)]
struct Walk {
    open: Vec<Open>,
    n_repeated: u64,
}

impl Walk {
    fn count(&mut self) {
        if let Some(open) = self.open.last_mut() {
            open.size.n_parts = open.size.n_parts.saturating_add(1);
        }
    }

    /// Adds the size of a part to the query that is being visited.
    fn add(&mut self, size: Size) {
        if let Some(open) = self.open.last_mut() {
            open.size.n_parts = open.size.n_parts.saturating_add(size.n_parts);
            open.size.depth = open.size.depth.max(size.depth);
        }
    }
}

impl Visitor for Walk {
    type Break = Excess;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Excess> {
        let common = query.with.iter().flat_map(|with| &with.cte_tables).map(|table| Common {
            query: &raw const *table.query,
            name: table.alias.name.clone(),
            size: None,
            is_used: false,
        });
        let ends = usize::from(query.order_by.is_some()) + usize::from(query.limit_clause.is_some());
        let steps = 1 + steps(&query.body) + ends;
        self.open.push(Open { common: common.collect(), steps, ..Open::default() });
        self.count();
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<Excess> {
        let Some(open) = self.open.pop() else { return ControlFlow::Continue(()) };
        let own = open.steps + open.most_links;
        let size = Size { depth: open.size.depth.saturating_add(own), ..open.size };
        let outer = self.open.last_mut().map(|outer| &mut outer.common);
        match outer.and_then(|all| all.iter_mut().find(|common| std::ptr::eq(common.query, query))) {
            Some(common) => common.size = Some(size),
            None => self.add(size),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<Excess> {
        self.count();
        let [part] = &relation.0[..] else { return ControlFlow::Continue(()) };
        let Some(name) = part.as_ident() else { return ControlFlow::Continue(()) };
        // The innermost query with a name hides outer ones. A query that uses itself has no size yet.
        let mut all = self.open.iter_mut().rev().flat_map(|open| &mut open.common);
        let found = all.find(|common| common.size.is_some() && is_same(&common.name, name));
        let Some(Common { size: Some(size), is_used, .. }) = found else {
            return ControlFlow::Continue(());
        };
        let (size, is_again) = (*size, std::mem::replace(is_used, true));
        if is_again {
            self.n_repeated = self.n_repeated.saturating_add(size.n_parts);
        }
        self.add(size);
        let at = name.span.start;
        let depth: usize = self.open.iter().map(|open| open.steps + open.most_links).sum();
        if depth.saturating_add(size.depth) > MAX_STEPS {
            return ControlFlow::Break(Excess::Depth((at.line, at.column)));
        }
        if self.n_repeated > MAX_REPEATED {
            return ControlFlow::Break(Excess::Repeats((at.line, at.column)));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, _: &Select) -> ControlFlow<Excess> {
        self.count();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<Excess> {
        self.count();
        if let Some(open) = self.open.last_mut() {
            open.links += 1;
            open.most_links = open.most_links.max(open.links);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<Excess> {
        if let Some(open) = self.open.last_mut() {
            open.links = open.links.saturating_sub(1);
        }
        ControlFlow::Continue(())
    }
}

/// True if two names are equal; names without quotes are not case-sensitive.
fn is_same(one: &Ident, other: &Ident) -> bool {
    let folded = |name: &Ident| match name.quote_style {
        None => name.value.to_ascii_lowercase(),
        Some(_) => name.value.clone(),
    };
    folded(one) == folded(other)
}

/// Number of nested steps in the plan of a query body. This recurses no deeper than the limit on the nesting of the text.
fn steps(body: &SetExpr) -> usize {
    match body {
        SetExpr::SetOperation { left, right, .. } => 1 + steps(left).max(steps(right)),
        SetExpr::Select(select) => {
            let joins: usize = select.from.iter().map(|tables| 1 + tables.joins.len()).sum();
            let has_groups = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
            let others = [
                select.distinct.is_some(),
                select.selection.is_some(),
                has_groups,
                select.having.is_some(),
                select.qualify.is_some(),
            ];
            1 + joins + others.into_iter().filter(|is_there| *is_there).count()
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::parser::DFParser;

    fn of(sql: &str) -> Option<Excess> {
        excess(DFParser::parse_sql(sql).unwrap().front().unwrap())
    }

    /// `n` queries, each of which uses the one before in `body` as `{}`.
    fn with(n: usize, body: &str) -> String {
        let first = "WITH a0 AS (SELECT 1 x)".to_owned();
        let more = (1..=n).map(|at| format!(", a{at} AS ({})", body.replace("{}", &format!("a{}", at - 1))));
        format!("{first}{} SELECT * FROM a{n}", more.collect::<String>())
    }

    #[test]
    fn uses_that_double_are_counted() {
        let twice = "SELECT * FROM {} UNION ALL SELECT * FROM {}";
        assert_eq!(of(&with(8, twice)), None);
        for body in [
            twice,
            "SELECT l.x FROM {} l JOIN {} r ON l.x = r.x",
            "SELECT x FROM {} WHERE x IN (SELECT x FROM {})",
            "SELECT x, (SELECT max(x) FROM {}) FROM {}",
            "WITH b AS (SELECT * FROM {}) SELECT * FROM b, b c",
        ] {
            assert!(matches!(of(&with(30, body)), Some(Excess::Repeats(_))), "{body}");
            assert!(of(&format!("EXPLAIN {}", with(30, body))).is_some(), "{body}");
            assert!(of(&format!("EXPLAIN COPY ({}) TO 'x'", with(30, body))).is_some(), "{body}");
        }
        // The walk ends at the place where the limit is exceeded, before it has visited everything.
        let Some(Excess::Repeats((1, column))) = of(&with(4000, twice)) else { panic!("no excess") };
        assert!(column < 1000, "{column}");
    }

    #[test]
    fn uses_once_repeat_nothing() {
        let once = "SELECT x + 1 AS x FROM {} WHERE x > 0";
        assert_eq!(of(&with(100, once)), None);
        let list = "1, ".repeat(20_000);
        assert_eq!(of(&format!("WITH a AS (SELECT 1 x WHERE 1 IN ({list}1)) SELECT * FROM a")), None);
        assert!(of(&format!("WITH a AS (SELECT 1 x WHERE 1 IN ({list}1)) SELECT * FROM a, a b")).is_some());
        assert_eq!(
            of("WITH RECURSIVE r AS (SELECT 1 x UNION ALL SELECT x + 1 FROM r) SELECT * FROM r"),
            None
        );
        // Tables of another schema with the same name, and quoted names.
        assert_eq!(of(&with(30, "SELECT * FROM s.{} UNION ALL SELECT * FROM s.{}")), None);
        assert!(
            of(&with(30, "SELECT * FROM \"{}\" UNION ALL SELECT * FROM \"{}\"").replace("A", "a")).is_some()
        );
    }

    #[test]
    fn depth_adds_up() {
        for (body, n) in [
            (format!("SELECT x FROM {}{{}}{}", "(SELECT * FROM ".repeat(10), ")".repeat(10)), 20),
            (format!("SELECT x{} AS x FROM {{}}", " + 1".repeat(40)), 20),
            ("SELECT DISTINCT x FROM {} WHERE x > 0 ORDER BY x LIMIT 5".to_owned(), 100),
            ("SELECT x FROM {} UNION SELECT 1".to_owned(), 150),
        ] {
            assert_eq!(of(&with(n, &body)), None, "{body}");
            assert!(matches!(of(&with(10 * n, &body)), Some(Excess::Depth(_))), "{body}");
        }
    }
}
