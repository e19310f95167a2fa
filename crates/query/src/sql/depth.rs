//! Measures the nesting depth of a query before it is parsed.
//!
//! The parser limits parentheses, but builds `1 + 1 + 1 + …` and `… UNION … UNION …` in a loop, as trees as deep as the chain
//! is long. The query engine and the destructors of these trees recurse, so the depth is limited here, at the cost of one pass
//! over the tokens of the text.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};

/// Maximum number of links between the root of a query and its innermost part. A stack of twice the size has room for 3000 set
/// operations, but the engine's time grows faster than their number: 2000 additions took it half a minute on a busy machine.
pub(super) const MAX_DEPTH: usize = 500;

/// An open bracket, or the whole text.
#[derive(Default)]
struct Open {
    /// Links outside this bracket.
    outside: usize,
    /// Joins, set operations and tables of a list: in the tree, each is the parent of everything before it.
    chain: usize,
    /// ANDs and ORs since the last comma that separates values.
    junctions: usize,
    /// Depth of the deepest operand of these ANDs and ORs.
    joined: usize,
    /// Operators since the last AND or OR; they all bind tighter.
    links: usize,
    /// Depth of the deepest bracket that was closed since then.
    inner: usize,
    /// Depth of the deepest value so far.
    deepest: usize,
    /// Whether a comma adds to the chain, as it does after FROM and WITH.
    is_list_of_tables: bool,
}

impl Open {
    fn depth(&self) -> usize {
        self.chain + self.deepest.max(self.junctions + self.joined.max(self.links + self.inner))
    }

    fn join(&mut self) {
        self.joined = self.joined.max(self.links + self.inner);
        self.junctions += 1;
        (self.links, self.inner) = (0, 0);
    }

    fn end_value(&mut self) {
        let joined = self.joined.max(self.links + self.inner);
        self.deepest = self.deepest.max(self.junctions + joined);
        (self.junctions, self.joined, self.links, self.inner) = (0, 0, 0, 0);
    }
}

/// The nesting of a query. Places are pairs of line and column.
pub(super) struct Nesting {
    /// The place where the depth exceeds [`MAX_DEPTH`].
    pub(super) too_deep: Option<(u64, u64)>,
    /// The first place where the number of open brackets is largest.
    pub(super) innermost: Option<(u64, u64)>,
}

/// Measures the nesting of a query. Text that cannot be split into tokens has none; the parser will report it.
pub(super) fn nesting(sql: &str) -> Nesting {
    let mut nesting = Nesting { too_deep: None, innermost: None };
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location() else { return nesting };
    let mut brackets: Vec<Open> = Vec::new();
    let (mut open, mut most_brackets) = (Open::default(), 0);
    for token in &tokens {
        let place = |at: Location| (at.line, at.column);
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                open.links += 1;
                let outside = open.outside + open.chain + open.junctions + open.links;
                let inner = Open { outside, ..Open::default() };
                brackets.push(std::mem::replace(&mut open, inner));
                if brackets.len() > most_brackets {
                    most_brackets = brackets.len();
                    nesting.innermost = Some(place(token.span.start));
                }
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                if let Some(outer) = brackets.pop() {
                    let depth = open.depth();
                    open = outer;
                    open.inner = open.inner.max(depth);
                }
            }
            Token::Comma if open.is_list_of_tables => open.chain += 1,
            Token::Comma => open.end_value(),
            Token::Word(word) => match word.keyword {
                // A quoted name.
                _ if word.quote_style.is_some() => {}
                Keyword::NoKeyword => {}
                Keyword::WHEN | Keyword::THEN | Keyword::ELSE => open.end_value(),
                Keyword::AND | Keyword::OR => open.join(),
                Keyword::FROM | Keyword::WITH => open.is_list_of_tables = true,
                Keyword::SELECT | Keyword::WHERE | Keyword::GROUP | Keyword::HAVING | Keyword::ORDER => {
                    open.is_list_of_tables = false;
                    open.end_value();
                }
                Keyword::JOIN | Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::MINUS => {
                    open.chain += 1;
                }
                // Most keywords link nothing, but some that do, such as EXPLAIN and INTERVAL, would be missed by a list.
                _ => open.links += 1,
            },
            Token::Number(..) | Token::SingleQuotedString(_) | Token::Period | Token::Whitespace(_) => {}
            Token::SemiColon | Token::EOF => {}
            _ => open.links += 1,
        }
        if nesting.too_deep.is_none() && open.outside + open.depth() > MAX_DEPTH {
            nesting.too_deep = Some(place(token.span.start));
        }
    }
    nesting
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_deep(sql: &str) -> bool {
        nesting(sql).too_deep.is_some()
    }

    #[test]
    fn chains_and_brackets_are_deep_and_lists_are_not() {
        let n = MAX_DEPTH + 1;
        for deep in [
            format!("SELECT 1{}", " + 1".repeat(n)),
            format!("SELECT {}1{}", "(".repeat(n), ")".repeat(n)),
            format!("SELECT {}1", "NOT ".repeat(n)),
            format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(n)),
            format!("SELECT * FROM a{}", ", a".repeat(n)),
            format!("SELECT * FROM a{}", " JOIN a USING (b)".repeat(n)),
            format!("SELECT x{}", "[1]".repeat(n)),
            format!("SELECT x{}", "::int".repeat(n)),
            format!("{}SELECT 1", "EXPLAIN ".repeat(n)),
            format!("SELECT {}'1'", "INTERVAL ".repeat(n)),
            format!("SELECT {}", "f(1, ".repeat(n)),
            format!("WITH a AS (SELECT 1){} SELECT 1", ", b AS (SELECT 1)".repeat(n)),
            format!("SELECT 1 WHERE a{}", " OR a = 1".repeat(n)),
            format!("SELECT a{}", " BETWEEN 1 AND 2".repeat(n)),
        ] {
            assert!(is_deep(&deep), "{}", &deep[..60]);
        }
        for flat in [
            format!("SELECT 1{}", ", 1 + 1".repeat(n)),
            format!("SELECT * FROM a WHERE b IN (1{})", ", 1".repeat(n)),
            format!("VALUES (1, 2){}", ", (1, 2)".repeat(n)),
            format!("SELECT CASE{} END", " WHEN a = 1 THEN 2".repeat(n)),
            format!("SELECT 1 WHERE a{}", " OR a + 1 = b + 1".repeat(n - 10)),
        ] {
            assert!(!is_deep(&flat), "{}", &flat[..60]);
        }
    }

    #[test]
    fn the_place_is_where_the_limit_is_passed() {
        let sql = format!("SELECT\n1{}", "+1".repeat(MAX_DEPTH + 1));
        assert_eq!(nesting(&sql).too_deep, Some((2, 2 + 2 * MAX_DEPTH as u64)));
        assert_eq!(nesting("SELECT (1), ((2))").innermost, Some((1, 14)));
    }
}
