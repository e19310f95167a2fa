//! The parsed tree, whose nodes have their places in the text.

use std::ops::Range;

/// A node of the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The kind of the node.
    pub kind: ExprKind,
    /// The byte range of the node in the text.
    pub span: Range<u32>,
    /// Depth of the deepest node below it.
    pub(crate) depth: u16,
}

/// The kind of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `NULL`.
    Null,
    /// `TRUE`, `FALSE`.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// `'text'`.
    Text(String),
    /// A column.
    Column {
        /// Name of the column, without quotes.
        name: String,
        /// Whether the name is quoted, so that its case matters.
        is_quoted: bool,
    },
    /// A unary operator.
    Unary(Unary, Box<Expr>),
    /// A binary operator.
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// Operands joined by `AND`.
    And(Vec<Expr>),
    /// Operands joined by `OR`.
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
        /// The value to compare with those after `WHEN`; if absent, those are conditions.
        of: Option<Box<Expr>>,
        /// Conditions or values, with results.
        whens: Vec<(Expr, Expr)>,
        /// The result if none applies.
        otherwise: Option<Box<Expr>>,
    },
    /// `CAST(x AS type)`.
    Cast(Box<Expr>, CastTo),
    /// A function call.
    Call {
        /// Its name, in lower case.
        name: String,
        /// Its arguments.
        args: Vec<Expr>,
        /// Whether a star replaces the arguments, as in `count(*)`.
        is_star: bool,
    },
}

/// Unary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unary {
    /// `NOT`.
    Not,
    /// `-`.
    Neg,
    /// `~`.
    BitNot,
}

/// Variants of pattern matching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Like {
    /// `NOT LIKE`.
    pub is_negated: bool,
    /// `ILIKE`: ignores case.
    pub is_caseless: bool,
    /// The character that makes the next one stand for itself.
    pub escape: char,
}

/// Binary operators.
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

    /// The comparison with its sides exchanged.
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

/// Types of `CAST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CastTo {
    /// Integers from the first to the last.
    Int(i128, i128),
    /// Floating-point numbers.
    Float,
    /// Texts.
    Text,
    /// True or false.
    Bool,
}

/// Names of types in `CAST`.
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

/// Calls `each` for the children of a node.
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
    /// The distinct names of columns in it, in order of appearance, each with whether it is quoted.
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
