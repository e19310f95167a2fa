//! Scalar functions: names and arguments.

use crate::bind::Ty;

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Abs,
    Sign,
    Round,
    Floor,
    Ceil,
    Log2,
    Greatest,
    Least,
    Coalesce,
    Nullif,
    Lower,
    Upper,
    Trim,
    Length,
    Substr,
    StartsWith,
    EndsWith,
    Contains,
    Replace,
    Concat,
    Line,
    Page,
    Hex,
}

/// Description of a function.
#[derive(Debug)]
pub(crate) struct Info {
    pub(crate) name: &'static str,
    pub(crate) function: Function,
    /// Minimum and maximum number of arguments.
    pub(crate) least: usize,
    pub(crate) most: usize,
    pub(crate) takes: Takes,
}

/// Types of the arguments and of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Numbers; the result has the same type.
    Numbers,
    /// Numbers; the result is a floating-point number.
    Float,
    /// Integers; the result is an integer.
    Ints,
    /// An integer; the result is a text.
    IntToText,
    /// Values of one type; the result has that type.
    Alike,
    /// Texts; the result is a text.
    Texts,
    /// Texts; the result is a truth value.
    TextsToBool,
    /// A text; the result is an integer.
    TextToInt,
    /// A text, then integers; the result is a text.
    TextAndInts,
    /// Values of any type, which are converted to texts.
    Any,
}

const fn info(name: &'static str, function: Function, least: usize, most: usize, takes: Takes) -> Info {
    Info { name, function, least, most, takes }
}

/// Maximum number of arguments of functions that accept any number.
const MANY: usize = 64;

/// All functions; some have two names.
pub(crate) const FUNCTIONS: &[Info] = &[
    info("abs", Function::Abs, 1, 1, Takes::Numbers),
    info("ceil", Function::Ceil, 1, 1, Takes::Numbers),
    info("coalesce", Function::Coalesce, 1, MANY, Takes::Alike),
    info("concat", Function::Concat, 1, MANY, Takes::Any),
    info("contains", Function::Contains, 2, 2, Takes::TextsToBool),
    info("ends_with", Function::EndsWith, 2, 2, Takes::TextsToBool),
    info("floor", Function::Floor, 1, 1, Takes::Numbers),
    info("greatest", Function::Greatest, 1, MANY, Takes::Alike),
    info("hex", Function::Hex, 1, 1, Takes::IntToText),
    info("least", Function::Least, 1, MANY, Takes::Alike),
    info("length", Function::Length, 1, 1, Takes::TextToInt),
    info("line", Function::Line, 1, 2, Takes::Ints),
    info("log2", Function::Log2, 1, 1, Takes::Float),
    info("lower", Function::Lower, 1, 1, Takes::Texts),
    info("nullif", Function::Nullif, 2, 2, Takes::Alike),
    info("page", Function::Page, 1, 2, Takes::Ints),
    info("replace", Function::Replace, 3, 3, Takes::Texts),
    info("round", Function::Round, 1, 1, Takes::Numbers),
    info("sign", Function::Sign, 1, 1, Takes::Numbers),
    info("starts_with", Function::StartsWith, 2, 2, Takes::TextsToBool),
    info("substr", Function::Substr, 2, 3, Takes::TextAndInts),
    info("trim", Function::Trim, 1, 1, Takes::Texts),
    info("upper", Function::Upper, 1, 1, Takes::Texts),
];

/// Returns the function with this name.
pub(crate) fn find(name: &str) -> Option<&'static Info> {
    FUNCTIONS.iter().find(|info| info.name == name)
}

/// Returns the names of all functions.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    FUNCTIONS.iter().map(|info| info.name)
}

/// Names from other dialects and contexts, with the replacement to suggest.
pub(crate) const ELSEWHERE: &[(&str, &str)] = &[
    ("min", "`least` takes the smaller of some values; the smallest of a column is an aggregation"),
    ("max", "`greatest` takes the larger of some values; the largest of a column is an aggregation"),
    ("count", "aggregations stand in --agg"),
    ("sum", "aggregations stand in --agg"),
    ("avg", "aggregations stand in --agg"),
    ("stddev", "aggregations stand in --agg"),
    ("quantize", "aggregations stand in --agg"),
    ("lquantize", "aggregations stand in --agg"),
    ("llquantize", "aggregations stand in --agg"),
    ("symbol", "no trace says the functions of addresses; `hot` lists the places that are called"),
    ("source", "no trace says the source lines of addresses"),
    ("char_length", "did you mean `length`?"),
    ("ifnull", "did you mean `coalesce`?"),
    ("substring", "did you mean `substr`?"),
    ("strpos", "did you mean `contains`?"),
    ("ceiling", "did you mean `ceil`?"),
];

impl Takes {
    /// The required type of an argument; `None` if several are possible.
    pub(crate) fn wanted(self, position: usize) -> Option<Ty> {
        match self {
            Takes::Ints | Takes::IntToText => Some(Ty::Int),
            Takes::Texts | Takes::TextsToBool | Takes::TextToInt => Some(Ty::Text),
            Takes::TextAndInts => Some(if position == 0 { Ty::Text } else { Ty::Int }),
            Takes::Numbers | Takes::Float | Takes::Alike | Takes::Any => None,
        }
    }
}
