//! What the parser leaves: a tree whose nodes know their places in the text.

use std::ops::Range;

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// The bytes of the text that it stands in.
    pub span: Range<u32>,
    /// How many nodes are nested in it, the longest way.
    pub(crate) depth: u16,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `NULL`.
    Null,
    /// `TRUE`, `FALSE`.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// `'text'`.
    Text(String),
    /// A column.
    Column {
        /// Its name as it stands there, without quotes.
        name: String,
        /// Whether quotes stand around it, so that its case counts.
        is_quoted: bool,
    },
    /// An operator before one operand.
    Unary(Unary, Box<Expr>),
    /// An operator between two operands.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// Operands with `AND` between them.
    And(Vec<Expr>),
    /// Operands with `OR` between them.
    Or(Vec<Expr>),
    /// `x IS [NOT] NULL`.
    IsNull(Box<Expr>, bool),
    /// `x [NOT] BETWEEN low AND high`.
    Between(Box<[Expr; 3]>, bool),
    /// `x [NOT] IN (list)`.
    In(Box<Expr>, Vec<Expr>, bool),
    /// `x [NOT] LIKE pattern`.
    Like(Box<Expr>, Box<Expr>, Like),
    /// `CASE [of] WHEN … THEN … [ELSE …] END`.
    Case {
        /// What the values after `WHEN` are compared with; without it they are conditions.
        of: Option<Box<Expr>>,
        /// Conditions with values.
        whens: Vec<(Expr, Expr)>,
        /// The value where none holds.
        otherwise: Option<Box<Expr>>,
    },
    /// `CAST(x AS type)`.
    Cast(Box<Expr>, CastTo),
    /// A function.
    Call {
        /// Its name, in lower case.
        name: String,
        /// Its arguments.
        args: Vec<Expr>,
        /// Whether a star stands in place of arguments, as in `count(*)`.
        is_star: bool,
    },
}

/// Operators before one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// `NOT`.
    Not,
    /// `-`.
    Neg,
    /// `~`.
    BitNot,
}

/// How a pattern is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Like {
    /// `NOT LIKE`.
    pub is_negated: bool,
    /// `ILIKE`: whatever the case.
    pub is_caseless: bool,
    /// The letter after which signs stand for themselves.
    pub escape: char,
}

/// Operators between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Rem,
    /// `&`
    BitAnd,
    /// `|`
    BitOr,
    /// `^`
    BitXor,
    /// `<<`
    Shl,
    /// `>>`
    Shr,
    /// `||`
    Concat,
    /// `=`
    Eq,
    /// `<>`, `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl Binary {
    /// True for comparisons.
    pub fn is_comparison(self) -> bool {
        matches!(self, Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge)
    }

    /// The comparison with both sides exchanged.
    pub(crate) fn flipped(self) -> Binary {
        match self {
            Binary::Lt => Binary::Gt,
            Binary::Le => Binary::Ge,
            Binary::Gt => Binary::Lt,
            Binary::Ge => Binary::Le,
            other => other,
        }
    }
}

/// Types that values are turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastTo {
    /// Whole numbers from the first to the last.
    Int(i128, i128),
    /// Floating-point numbers.
    Float,
    /// Texts.
    Text,
    /// True or false.
    Bool,
}

/// Names of types, with what they stand for.
pub(crate) const TYPES: &[(&str, CastTo)] = {
    const fn signed(bits: u32) -> CastTo {
        CastTo::Int(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    }
    &[
        ("tinyint", signed(8)),
        ("smallint", signed(16)),
        ("int", signed(32)),
        ("integer", signed(32)),
        ("bigint", signed(64)),
        ("double", CastTo::Float),
        ("float", CastTo::Float),
        ("real", CastTo::Float),
        ("varchar", CastTo::Text),
        ("char", CastTo::Text),
        ("text", CastTo::Text),
        ("string", CastTo::Text),
        ("boolean", CastTo::Bool),
        ("bool", CastTo::Bool),
    ]
};

/// Calls `each` with the nodes directly below.
pub(crate) fn children<'e>(expr: &'e Expr, each: &mut dyn FnMut(&'e Expr)) {
    match &expr.kind {
        ExprKind::Null
        | ExprKind::Bool(_)
        | ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Text(_)
        | ExprKind::Column { .. } => {}
        ExprKind::Unary(_, of) | ExprKind::IsNull(of, _) | ExprKind::Cast(of, _) => each(of),
        ExprKind::Binary(_, left, right) => {
            each(left);
            each(right);
        }
        ExprKind::Like(of, pattern, _) => {
            each(of);
            each(pattern);
        }
        ExprKind::And(list) | ExprKind::Or(list) | ExprKind::Call { args: list, .. } => {
            list.iter().for_each(each);
        }
        ExprKind::Between(three, _) => three.iter().for_each(each),
        ExprKind::In(of, list, _) => {
            each(of);
            list.iter().for_each(each);
        }
        ExprKind::Case { of, whens, otherwise } => {
            of.iter().for_each(|of| each(of));
            for (when, then) in whens {
                each(when);
                each(then);
            }
            otherwise.iter().for_each(|otherwise| each(otherwise));
        }
    }
}

impl Expr {
    /// The names of the columns in it, with the places of the first of each; those without quotes in any case.
    pub fn columns(&self) -> Vec<(&str, bool)> {
        fn walk<'e>(expr: &'e Expr, found: &mut Vec<(&'e str, bool)>) {
            if let ExprKind::Column { name, is_quoted } = &expr.kind
                && !found.contains(&(name.as_str(), *is_quoted))
            {
                found.push((name, *is_quoted));
            }
            children(expr, &mut |child| walk(child, found));
        }
        let mut found = Vec::new();
        walk(self, &mut found);
        found
    }
}
