//! Scalar functions: their names, and what they take.

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

/// What is known of a function.
#[derive(Debug)]
pub(crate) struct Info {
    pub(crate) name: &'static str,
    pub(crate) function: Function,
    /// How many arguments it takes, at least and at most.
    pub(crate) least: usize,
    pub(crate) most: usize,
    pub(crate) takes: Takes,
}

/// What the arguments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Numbers; the result has their type.
    Numbers,
    /// Numbers; the result has a fraction.
    Float,
    /// Whole numbers; so is the result.
    Ints,
    /// A whole number; the result is a text.
    IntToText,
    /// Values of one type, which the result has.
    Alike,
    /// Texts; so is the result.
    Texts,
    /// Texts; the result is true or false.
    TextsToBool,
    /// A text; the result is a whole number.
    TextToInt,
    /// A text, then whole numbers; the result is a text.
    TextAndInts,
    /// Values of any type, which are made texts.
    Any,
}

const fn info(name: &'static str, function: Function, least: usize, most: usize, takes: Takes) -> Info {
    Info { name, function, least, most, takes }
}

/// Values that a function takes at most, where their number is open.
const MANY: usize = 64;

/// Every function, by name; some have two.
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

/// The function of a name.
pub(crate) fn find(name: &str) -> Option<&'static Info> {
    FUNCTIONS.iter().find(|info| info.name == name)
}

/// The names of all functions.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    FUNCTIONS.iter().map(|info| info.name)
}

/// Words of other dialects and places, with what to write instead.
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
    /// What an argument must be, for errors.
    pub(crate) fn wanted(self, position: usize) -> Option<Ty> {
        match self {
            Takes::Ints | Takes::IntToText => Some(Ty::Int),
            Takes::Texts | Takes::TextsToBool | Takes::TextToInt => Some(Ty::Text),
            Takes::TextAndInts => Some(if position == 0 { Ty::Text } else { Ty::Int }),
            Takes::Numbers | Takes::Float | Takes::Alike | Takes::Any => None,
        }
    }
}
