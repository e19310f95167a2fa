//! Parses expressions by operator precedence, with the grammar of DataFusion's parser.
//!
//! A text has at most [`MAX_BYTES`], and a tree at most [`MAX_NODES`], nested at most [`MAX_DEPTH`] deep, so a hostile text
//! cannot cause unbounded recursion or memory use.

use crate::fault::Source;
use crate::lex::{Token, TokenKind, tokens};
use crate::tree::{Binary, CastTo, Expr, ExprKind, Like, TYPES, Unary, children};
use quipu_model::options::nearest;
use quipu_model::{Error, Result};
use std::ops::Range;

/// Maximum bytes of a text.
pub const MAX_BYTES: usize = 64 << 10;

/// Maximum number of nodes of a tree.
pub const MAX_NODES: usize = 8192;

/// Maximum depth of a tree.
pub const MAX_DEPTH: u16 = 96;

/// Binding powers, the same as in DataFusion's parser.
mod power {
    pub(super) const OR: u8 = 5;
    pub(super) const AND: u8 = 10;
    pub(super) const NOT: u8 = 15;
    pub(super) const IS: u8 = 17;
    pub(super) const LIKE: u8 = 19;
    pub(super) const COMPARE: u8 = 20;
    pub(super) const BIT_OR: u8 = 21;
    pub(super) const BIT_XOR: u8 = 22;
    pub(super) const BIT_AND: u8 = 23;
    pub(super) const ADD: u8 = 30;
    pub(super) const MUL: u8 = 40;
    pub(super) const CAST: u8 = 50;
}

/// Words that must be quoted to be names of columns.
const RESERVED: &[&str] = &[
    "and", "or", "not", "is", "null", "between", "in", "like", "ilike", "escape", "case", "when", "then",
    "else", "end", "cast", "as", "true", "false",
];

/// An expression with an optional name from `AS`.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// The expression.
    pub expr: Expr,
    /// The name after `AS`, if there is one.
    pub name: Option<String>,
}

/// Parses an expression.
///
/// # Errors
/// `Usage`, with marks under the place, for a text that is invalid or exceeds the limits.
pub fn parse(source: &Source) -> Result<Expr> {
    let mut parser = Parser::new(source)?;
    let expr = parser.expr(0)?;
    parser.end()?;
    Ok(expr)
}

/// Parses a comma-separated list of expressions, each with an optional name after `AS`.
///
/// # Errors
/// As for [`parse`].
pub fn parse_list(source: &Source) -> Result<Vec<Named>> {
    let mut parser = Parser::new(source)?;
    let mut list = Vec::new();
    loop {
        let expr = parser.expr(0)?;
        let name = match parser.takes_word("as") {
            true => Some(parser.name()?),
            false => None,
        };
        list.push(Named { expr, name });
        if !parser.takes(",") {
            break;
        }
    }
    parser.end()?;
    Ok(list)
}

struct Parser<'s> {
    source: &'s Source,
    tokens: Vec<Token>,
    at: usize,
    n_nodes: usize,
    depth: u16,
}

impl<'s> Parser<'s> {
    fn new(source: &'s Source) -> Result<Parser<'s>> {
        let n_bytes = source.text().len();
        if n_bytes > MAX_BYTES {
            return Err(Error::usage(format!("an expression of {n_bytes} bytes, more than {MAX_BYTES}")));
        }
        Ok(Parser { source, tokens: tokens(source)?, at: 0, n_nodes: 0, depth: 0 })
    }

    fn token(&self) -> &Token {
        // The last token is the end, which is never consumed.
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn step(&mut self) -> Token {
        let token = self.token().clone();
        self.at += 1;
        token
    }

    /// The current word in lower case.
    fn word(&self) -> Option<String> {
        match &self.token().kind {
            TokenKind::Word(word) => Some(word.to_lowercase()),
            _ => None,
        }
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_it = matches!(self.token().kind, TokenKind::Sign(found) if found == sign);
        self.at += usize::from(is_it);
        is_it
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_it = self.word().is_some_and(|found| found == word);
        self.at += usize::from(is_it);
        is_it
    }

    /// The error for the current token.
    #[cold]
    fn unexpected(&self, wanted: &str) -> Error {
        let span = &self.token().span;
        let found = match self.token().kind {
            TokenKind::End => "the end".to_owned(),
            _ => format!("`{}`", &self.source.text()[span.start as usize..span.end as usize]),
        };
        self.source.error(&format!("expected {wanted}, found {found}"), span)
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.takes(sign) { Ok(()) } else { Err(self.unexpected(&format!("`{sign}`"))) }
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.takes_word(word) {
            return Ok(());
        }
        Err(self.unexpected(&format!("`{}`", word.to_uppercase())))
    }

    fn end(&self) -> Result<()> {
        match self.token().kind {
            TokenKind::End => Ok(()),
            _ => Err(self.unexpected("an operator or the end")),
        }
    }

    fn name(&mut self) -> Result<String> {
        match &self.token().kind {
            TokenKind::Word(name) | TokenKind::Quoted(name) if !name.is_empty() => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    /// A node for the tokens from `start` up to the current one.
    fn node(&mut self, kind: ExprKind, start: u32) -> Result<Expr> {
        let end =
            self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(start, |last| last.span.end);
        self.node_over(kind, start..end)
    }

    fn node_over(&mut self, kind: ExprKind, span: Range<u32>) -> Result<Expr> {
        self.n_nodes += 1;
        if self.n_nodes > MAX_NODES {
            let message = format!("an expression of more than {MAX_NODES} parts");
            return Err(self.source.error(&message, &span));
        }
        let mut expr = Expr { kind, span, depth: 0 };
        let mut depth = 0;
        children(&expr, &mut |child| depth = depth.max(child.depth + 1));
        expr.depth = depth;
        if depth > MAX_DEPTH {
            return Err(self.too_deep(&expr.span));
        }
        Ok(expr)
    }

    #[cold]
    fn too_deep(&self, span: &Range<u32>) -> Error {
        self.source.error(&format!("expressions are nested more than {MAX_DEPTH} times"), span)
    }

    /// Parses an expression whose operators all bind more tightly than `least`.
    fn expr(&mut self, least: u8) -> Result<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_deep(&self.token().span));
        }
        let mut left = self.prefix()?;
        while let Some(power) = self.power().filter(|power| *power > least) {
            left = self.infix(left, power)?;
        }
        self.depth -= 1;
        Ok(left)
    }

    /// The binding power of the current operator; `None` if there is none.
    fn power(&self) -> Option<u8> {
        Some(match &self.token().kind {
            TokenKind::Sign(sign) => match *sign {
                "::" => power::CAST,
                "*" | "/" | "%" | "||" => power::MUL,
                "+" | "-" => power::ADD,
                "&" => power::BIT_AND,
                "^" | "<<" | ">>" => power::BIT_XOR,
                "|" => power::BIT_OR,
                "=" | "<>" | "!=" | "<" | "<=" | ">" | ">=" => power::COMPARE,
                _ => return None,
            },
            TokenKind::Word(_) => match self.word()?.as_str() {
                "or" => power::OR,
                "and" => power::AND,
                "is" => power::IS,
                "like" | "ilike" => power::LIKE,
                "between" | "in" => power::COMPARE,
                // The operator after `NOT` determines the power.
                "not" => match self.tokens.get(self.at + 1).map(|token| &token.kind) {
                    Some(TokenKind::Word(next)) => match next.to_lowercase().as_str() {
                        "between" | "in" => power::COMPARE,
                        "like" | "ilike" => power::LIKE,
                        _ => return None,
                    },
                    _ => return None,
                },
                _ => return None,
            },
            _ => return None,
        })
    }

    fn infix(&mut self, left: Expr, power: u8) -> Result<Expr> {
        let start = left.span.start;
        let token = self.step();
        if let TokenKind::Sign(sign) = token.kind {
            if sign == "::" {
                let to = self.cast_to()?;
                return self.node(ExprKind::Cast(Box::new(left), to), start);
            }
            let binary = match sign {
                "+" => Binary::Add,
                "-" => Binary::Sub,
                "*" => Binary::Mul,
                "/" => Binary::Div,
                "%" => Binary::Rem,
                "&" => Binary::BitAnd,
                "|" => Binary::BitOr,
                "^" => Binary::BitXor,
                "<<" => Binary::Shl,
                ">>" => Binary::Shr,
                "||" => Binary::Concat,
                "=" => Binary::Eq,
                "<>" | "!=" => Binary::Ne,
                "<" => Binary::Lt,
                "<=" => Binary::Le,
                ">" => Binary::Gt,
                _ => Binary::Ge,
            };
            let right = self.expr(power)?;
            return self.node(ExprKind::Binary(binary, Box::new(left), Box::new(right)), start);
        }
        let TokenKind::Word(word) = &token.kind else { return Err(self.unexpected("an operator")) };
        let mut word = word.to_lowercase();
        let is_negated = word == "not";
        if is_negated {
            word = self.word().unwrap_or_default();
            self.at += 1;
        }
        match word.as_str() {
            "and" | "or" => {
                let right = self.expr(power)?;
                self.join(left, right, word == "and")
            }
            "is" => {
                let is_negated = self.takes_word("not");
                self.expect_word("null")?;
                self.node(ExprKind::IsNull(Box::new(left), is_negated), start)
            }
            "between" => {
                let low = self.expr(power)?;
                self.expect_word("and")?;
                let high = self.expr(power)?;
                self.node(ExprKind::Between(Box::new([left, low, high]), is_negated), start)
            }
            "in" => {
                self.expect("(")?;
                let list = self.list()?;
                self.node(ExprKind::In(Box::new(left), list, is_negated), start)
            }
            _ => {
                let pattern = self.expr(power)?;
                let escape = if self.takes_word("escape") { self.escape()? } else { '\\' };
                let how = Like { is_negated, is_caseless: word == "ilike", escape };
                self.node(ExprKind::Like(Box::new(left), Box::new(pattern), how), start)
            }
        }
    }

    /// Appends an operand to a chain of `AND` or `OR`, so that a long chain is not deeply nested.
    fn join(&mut self, left: Expr, right: Expr, is_and: bool) -> Result<Expr> {
        let span = left.span.start..right.span.end;
        let mut list = match left.kind {
            ExprKind::And(list) if is_and => list,
            ExprKind::Or(list) if !is_and => list,
            kind => vec![Expr { kind, ..left }],
        };
        list.push(right);
        let kind = if is_and { ExprKind::And(list) } else { ExprKind::Or(list) };
        self.node_over(kind, span)
    }

    fn escape(&mut self) -> Result<char> {
        if let TokenKind::Text(text) = &self.token().kind {
            let mut letters = text.chars();
            if let (Some(letter), None) = (letters.next(), letters.next()) {
                self.at += 1;
                return Ok(letter);
            }
        }
        Err(self.unexpected("a text of one letter"))
    }

    /// Parses expressions up to the closing parenthesis.
    fn list(&mut self) -> Result<Vec<Expr>> {
        let mut list = Vec::new();
        loop {
            list.push(self.expr(0)?);
            if self.takes(")") {
                return Ok(list);
            }
            if !self.takes(",") {
                return Err(self.unexpected("`,` or `)`"));
            }
        }
    }

    fn prefix(&mut self) -> Result<Expr> {
        let start = self.token().span.start;
        let kind = match &self.token().kind {
            TokenKind::Int(number) => ExprKind::Int(*number),
            TokenKind::Float(number) => ExprKind::Float(*number),
            TokenKind::Text(text) => ExprKind::Text(text.clone()),
            TokenKind::Quoted(name) => ExprKind::Column { name: name.clone(), is_quoted: true },
            TokenKind::Sign(sign) => return self.sign(sign, start),
            TokenKind::Word(word) => {
                let word = word.clone();
                return self.of_word(&word, start);
            }
            TokenKind::End => return Err(self.unexpected("a value")),
        };
        self.at += 1;
        self.node(kind, start)
    }

    fn sign(&mut self, sign: &str, start: u32) -> Result<Expr> {
        let unary = match sign {
            "(" => {
                self.at += 1;
                let mut inner = self.expr(0)?;
                self.expect(")")?;
                inner.span = start..self.tokens[self.at - 1].span.end;
                // A parenthesised chain stays separate: the surrounding chain must not absorb its operands.
                return match &inner.kind {
                    ExprKind::And(_) => self.node(ExprKind::And(vec![inner]), start),
                    ExprKind::Or(_) => self.node(ExprKind::Or(vec![inner]), start),
                    _ => Ok(inner),
                };
            }
            "-" => Some(Unary::Neg),
            "~" => Some(Unary::BitNot),
            "+" => None,
            _ => return Err(self.unexpected("a value")),
        };
        self.at += 1;
        let of = self.expr(power::MUL)?;
        match unary {
            Some(unary) => self.node(ExprKind::Unary(unary, Box::new(of)), start),
            None => Ok(of),
        }
    }

    fn of_word(&mut self, word: &str, start: u32) -> Result<Expr> {
        let lower = word.to_lowercase();
        let kind = match lower.as_str() {
            "null" => ExprKind::Null,
            "true" => ExprKind::Bool(true),
            "false" => ExprKind::Bool(false),
            "not" => {
                self.at += 1;
                let of = self.expr(power::NOT)?;
                return self.node(ExprKind::Unary(Unary::Not, Box::new(of)), start);
            }
            "case" => return self.case(start),
            "cast" => {
                self.at += 1;
                self.expect("(")?;
                let of = self.expr(0)?;
                self.expect_word("as")?;
                let to = self.cast_to()?;
                self.expect(")")?;
                return self.node(ExprKind::Cast(Box::new(of), to), start);
            }
            reserved if RESERVED.contains(&reserved) => return Err(self.unexpected("a value")),
            _ => {
                self.at += 1;
                if self.takes("(") {
                    return self.call(lower, start);
                }
                return self.node(ExprKind::Column { name: word.to_owned(), is_quoted: false }, start);
            }
        };
        self.at += 1;
        self.node(kind, start)
    }

    fn call(&mut self, name: String, start: u32) -> Result<Expr> {
        let is_star = self.takes("*");
        let args = if is_star {
            self.expect(")")?;
            Vec::new()
        } else if self.takes(")") {
            Vec::new()
        } else {
            self.list()?
        };
        self.node(ExprKind::Call { name, args, is_star }, start)
    }

    fn case(&mut self, start: u32) -> Result<Expr> {
        self.at += 1;
        let of = match self.word().as_deref() {
            Some("when") => None,
            _ => Some(Box::new(self.expr(0)?)),
        };
        let mut whens = Vec::new();
        self.expect_word("when")?;
        loop {
            let when = self.expr(0)?;
            self.expect_word("then")?;
            whens.push((when, self.expr(0)?));
            if !self.takes_word("when") {
                break;
            }
        }
        let otherwise = match self.takes_word("else") {
            true => Some(Box::new(self.expr(0)?)),
            false => None,
        };
        self.expect_word("end")?;
        self.node(ExprKind::Case { of, whens, otherwise }, start)
    }

    fn cast_to(&mut self) -> Result<CastTo> {
        let Some(name) = self.word() else { return Err(self.unexpected("a type")) };
        let names = TYPES.iter().map(|(name, _)| *name);
        let Some((_, to)) = TYPES.iter().find(|(known, _)| *known == name) else {
            let error = self.unexpected("a type");
            let hint = match nearest(&name, names.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("types: {}", names.collect::<Vec<_>>().join(", ")),
            };
            return Err(error.hint(hint));
        };
        self.at += 1;
        if name == "double" {
            self.takes_word("precision");
        }
        match *to {
            CastTo::Int(low, high) if self.takes_word("unsigned") => Ok(CastTo::Int(0, high - low)),
            to => Ok(to),
        }
    }
}
