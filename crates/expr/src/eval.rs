//! Evaluates expressions for a batch of rows: each node processes all rows in one loop.
//!
//! A branch of `CASE`, or an operand of `AND` or `OR` after the first, is evaluated only for the rows that reach it, so a
//! division that is guarded by a condition does not fail.

mod calls;
mod join;

use crate::bind::{Bound, Cells, Node, Op, Read, Shift, Ty, Value};
use crate::fault::Source;
use crate::like::Pattern;
use crate::tree::{Binary, CastTo};
use crate::vector::{Data, Texts, Vector};
use join::Join;
use quipu_model::column::CellsRef;
use quipu_model::predicate::Beside;
use quipu_model::schema::Missing;
use quipu_model::{ColumnRef, Result, Table};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

/// The rows of a batch.
pub struct Input<'a> {
    n_rows: usize,
    column: Box<dyn Fn(usize) -> ColumnRef<'a> + 'a>,
    beside: Beside<'a>,
}

impl std::fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("n_rows", &self.n_rows).finish_non_exhaustive()
    }
}

impl<'a> Input<'a> {
    /// An input without additional data.
    pub fn of(rows: &'a dyn Table) -> Input<'a> {
        Input::new(rows.n_rows(), |position| rows.column(position), Beside::default())
    }

    /// An input whose columns are borrowed one by one, with additional data.
    pub fn new(n_rows: usize, column: impl Fn(usize) -> ColumnRef<'a> + 'a, beside: Beside<'a>) -> Input<'a> {
        Input { n_rows, column: Box::new(column), beside }
    }

    /// A single row without columns.
    pub(crate) fn row() -> Input<'a> {
        Input::new(1, |_| ColumnRef::of(CellsRef::Constant(0, 0)), Beside::default())
    }

    /// Number of rows.
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// The record number of a row, if known.
    pub(crate) fn record(&self, position: Option<usize>, row: usize) -> Option<u64> {
        let column = position.map(|position| (self.column)(position)).filter(|column| column.len() > row)?;
        Some(column.number(row).wrapping_add(self.beside.ordinals.records))
    }
}

/// The rows to evaluate.
#[derive(Clone, Copy)]
enum Rows<'r> {
    All(usize),
    Some(&'r [u32]),
}

impl Rows<'_> {
    fn len(self) -> usize {
        match self {
            Rows::All(n) => n,
            Rows::Some(rows) => rows.len(),
        }
    }

    #[inline]
    fn at(self, position: usize) -> usize {
        match self {
            Rows::All(_) => position,
            Rows::Some(rows) => rows[position] as usize,
        }
    }
}

/// The subset of `rows` whose indices are in `open`.
fn narrow<'r>(rows: Rows<'r>, open: &[u32], buffer: &'r mut Vec<u32>) -> Rows<'r> {
    if open.len() == rows.len() {
        return rows;
    }
    buffer.clear();
    buffer.extend(open.iter().map(|position| rows.at(*position as usize) as u32)); // Row indices have 32 bits.
    Rows::Some(buffer)
}

/// Evaluates all rows.
pub(crate) fn all<'a>(bound: &Bound, input: &Input<'a>) -> Result<Vector<'a>> {
    Eval { source: &bound.source, record: bound.record, input }.node(&bound.root, Rows::All(input.n_rows))
}

/// Evaluates some rows.
pub(crate) fn some<'a>(bound: &Bound, input: &Input<'a>, rows: &[u32]) -> Result<Vector<'a>> {
    Eval { source: &bound.source, record: bound.record, input }.node(&bound.root, Rows::Some(rows))
}

/// An error in a row, with the index of the row among those evaluated.
struct Fault {
    position: usize,
    message: &'static str,
}

const OVERFLOW: &str = "the result has more than 127 bits";
const BY_ZERO: &str = "division by zero";
const SHIFT: &str = "a number is shifted by 0 to 127 bits";

struct Eval<'e, 'a> {
    source: &'e Source,
    record: Option<usize>,
    input: &'e Input<'a>,
}

impl<'a> Eval<'_, 'a> {
    /// Converts a fault to an error.
    #[cold]
    fn fault(&self, fault: &Fault, span: &Range<u32>, rows: Rows<'_>) -> quipu_model::Error {
        let record = self.input.record(self.record, rows.at(fault.position));
        self.source.error_at(fault.message, span, record)
    }

    fn node(&self, node: &Node, rows: Rows<'_>) -> Result<Vector<'a>> {
        let n = rows.len();
        let done = |result: std::result::Result<Vector<'a>, Fault>| {
            result.map_err(|fault| self.fault(&fault, &node.span, rows))
        };
        match &node.op {
            Op::Const(value) => Ok(constant(value)),
            Op::Column(cells) => Ok(self.column(cells, rows)),
            Op::Not(of) => {
                let of = self.node(of, rows)?;
                let data = match of.data {
                    Data::Bool(cells) => Data::Bool(cells.into_iter().map(|cell| !cell).collect()),
                    Data::AllBool(value) => Data::AllBool(!value),
                    other => other,
                };
                Ok(Vector { data, valid: of.valid })
            }
            Op::Neg(of) => {
                let of = self.node(of, rows)?;
                match node.ty {
                    Ty::Float => Ok(floats(&of, n, |number| -number)),
                    _ => done(ints(&of, n, |number| number.checked_neg().ok_or(OVERFLOW))),
                }
            }
            Op::BitNot(of) => done(ints(&self.node(of, rows)?, n, |number| Ok(!number))),
            Op::Arith(binary, left, right) => {
                let (left, right) = (self.node(left, rows)?, self.node(right, rows)?);
                match node.ty {
                    Ty::Text => Ok(joined(&left, &right, n)),
                    Ty::Float => Ok(float_arith(*binary, &left, &right, n)),
                    _ => done(int_arith(*binary, &left, &right, n)),
                }
            }
            Op::Compare(binary, left, right) => {
                Ok(compare(*binary, &self.node(left, rows)?, &self.node(right, rows)?, n))
            }
            Op::And(list) => self.chain(list, true, rows),
            Op::Or(list) => self.chain(list, false, rows),
            Op::IsNull(of, is_negated) => {
                let of = self.node(of, rows)?;
                Ok(Vector::of(Data::Bool((0..n).map(|row| of.has(row) == *is_negated).collect())))
            }
            Op::Between(three, is_negated) => {
                let [of, low, high] = &**three;
                let of = self.node(of, rows)?;
                let low = compare(Binary::Ge, &of, &self.node(low, rows)?, n);
                let high = compare(Binary::Le, &of, &self.node(high, rows)?, n);
                Ok(truths(n, |row| match (low.truth(row), high.truth(row)) {
                    (Some(false), _) | (_, Some(false)) => Some(*is_negated),
                    (Some(true), Some(true)) => Some(!is_negated),
                    _ => None,
                }))
            }
            Op::InInts(of, list, has_null, is_negated) => {
                let of = self.node(of, rows)?;
                Ok(truths(n, |row| match of.int(row) {
                    Some(number) if list.binary_search(&number).is_ok() => Some(!is_negated),
                    Some(_) if !has_null => Some(*is_negated),
                    _ => None,
                }))
            }
            Op::In(of, list, is_negated) => {
                let of = self.node(of, rows)?;
                let list = list.iter().map(|item| Ok(compare(Binary::Eq, &of, &self.node(item, rows)?, n)));
                let list = list.collect::<Result<Vec<_>>>()?;
                Ok(truths(n, |row| {
                    let mut answer = Some(*is_negated);
                    for is_equal in &list {
                        match is_equal.truth(row) {
                            Some(true) => return Some(!is_negated),
                            Some(false) => {}
                            None => answer = None,
                        }
                    }
                    answer
                }))
            }
            Op::Like(of, pattern, is_negated) => {
                let of = self.node(of, rows)?;
                Ok(of_texts(&of, n, |text| pattern.fits(text) != *is_negated))
            }
            Op::LikeOf(of, pattern, how) => {
                let (of, pattern) = (self.node(of, rows)?, self.node(pattern, rows)?);
                Ok(truths(n, |row| {
                    let (text, pattern) = (of.text(row)?, pattern.text(row)?);
                    Some(Pattern::new(pattern, *how).fits(text) != how.is_negated)
                }))
            }
            Op::Case(of, whens, otherwise) => {
                self.case(node.ty, of.as_deref(), whens, otherwise.as_deref(), rows)
            }
            Op::Cast(of, to) => done(cast(&self.node(of, rows)?, of.ty, *to, n)),
            Op::Call(function, args) => self.call(*function, args, node, rows),
        }
    }

    /// Evaluates operands of `AND` or `OR`: each one only for the rows that earlier ones have not decided.
    fn chain(&self, list: &[Node], is_and: bool, rows: Rows<'_>) -> Result<Vector<'a>> {
        let n = rows.len();
        let mut open: Vec<u32> = (0..n as u32).collect(); // A batch has a few thousand rows.
        let mut answers = vec![is_and; n];
        let mut unknown: Option<Vec<bool>> = None;
        let mut buffer = Vec::new();
        for node in list {
            if open.is_empty() {
                break;
            }
            let values = self.node(node, narrow(rows, &open, &mut buffer))?;
            let mut at = 0;
            open.retain(|position| {
                let truth = values.truth(at);
                at += 1;
                match truth {
                    Some(truth) if truth != is_and => {
                        answers[*position as usize] = truth;
                        false
                    }
                    Some(_) => true,
                    None => {
                        unknown.get_or_insert_with(|| vec![false; n])[*position as usize] = true;
                        true
                    }
                }
            });
        }
        // A decided row has a value, even if another operand was `NULL`.
        let valid = unknown.map(|unknown| {
            let pairs = unknown.iter().zip(&answers);
            pairs.map(|(unknown, answer)| !unknown || *answer != is_and).collect()
        });
        Ok(Vector { data: Data::Bool(answers), valid })
    }

    fn case(
        &self,
        ty: Ty,
        of: Option<&Node>,
        whens: &[(Node, Node)],
        otherwise: Option<&Node>,
        rows: Rows<'_>,
    ) -> Result<Vector<'a>> {
        let n = rows.len();
        let of = of.map(|of| self.node(of, rows)).transpose()?;
        let mut open: Vec<u32> = (0..n as u32).collect(); // A batch has a few thousand rows.
        let mut join = Join::new(ty, n);
        let mut buffer = Vec::new();
        for (when, then) in whens {
            if open.is_empty() {
                break;
            }
            let values = self.node(when, narrow(rows, &open, &mut buffer))?;
            let values = match &of {
                Some(of) => {
                    let mut taken = Join::new(values_ty(of), open.len());
                    taken.put_some(of, &open);
                    compare(Binary::Eq, &taken.finish(), &values, open.len())
                }
                None => values,
            };
            let mut at = 0;
            let mut here = Vec::new();
            open.retain(|position| {
                let holds = values.truth(at) == Some(true);
                at += 1;
                if holds {
                    here.push(*position);
                }
                !holds
            });
            if !here.is_empty() {
                join.put(&self.node(then, narrow(rows, &here, &mut buffer))?, &here);
            }
        }
        if let (Some(otherwise), false) = (otherwise, open.is_empty()) {
            join.put(&self.node(otherwise, narrow(rows, &open, &mut buffer))?, &open);
        }
        Ok(join.finish())
    }

    fn column(&self, cells: &Cells, rows: Rows<'_>) -> Vector<'a> {
        let column = (self.input.column)(cells.position);
        let n = rows.len();
        if column.is_empty() {
            return Vector::null();
        }
        // A column that is shorter than the others is `NULL` in the remaining rows.
        let is_short = column.len() < self.input.n_rows;
        let valid = (is_short || cells.missing != Missing::Never)
            .then(|| (0..n).map(|at| !column.is_missing(cells.missing, rows.at(at))).collect::<Vec<_>>())
            .filter(|valid| valid.contains(&false));
        let shift = match cells.shift {
            Shift::None => 0,
            Shift::Records => self.input.beside.ordinals.records,
            Shift::Instrs => self.input.beside.ordinals.instrs,
        };
        let data = match &cells.read {
            Read::Bool => Data::Bool(numbers(column, rows, |number| number != 0)),
            Read::Signed => Data::I128(numbers(column, rows, |number| i128::from(number as i64))), // Two's complement.
            Read::Float => Data::F64(match column.cells {
                CellsRef::F32(_) => {
                    numbers(column, rows, |bits| f64::from(f32::from_bits(bits as u32))) // 32 bits, widened.
                }
                _ => numbers(column, rows, f64::from_bits),
            }),
            Read::Unsigned => match (column.cells, rows) {
                (CellsRef::U64(cells), Rows::All(_)) if shift == 0 && !is_short => {
                    Data::U64(Cow::Borrowed(&cells[..n]))
                }
                (CellsRef::Constant(number, _), _) => Data::AllInt(number.wrapping_add(shift).into()),
                _ => Data::U64(numbers(column, rows, |number| number.wrapping_add(shift)).into()),
            },
            Read::Names(names) => Data::Text(pooled(
                n,
                |at| column.number(rows.at(at)),
                |number, out| {
                    match names.get(number) {
                        Some(name) => out.extend_from_slice(name.as_bytes()),
                        // A number without a name is shown in digits.
                        None => out.extend_from_slice(number.to_string().as_bytes()),
                    }
                },
            )),
            Read::Dict(dict) => {
                let dicts = self.input.beside.dicts;
                Data::Text(pooled(
                    n,
                    |at| column.number(rows.at(at)),
                    |number, out| {
                        let index = u32::try_from(number).ok();
                        let text = dicts.zip(index).and_then(|(dicts, index)| dicts.get(*dict, index));
                        out.extend_from_slice(text.unwrap_or(&[]));
                    },
                ))
            }
            Read::Function => {
                let types = self.input.beside.types;
                Data::Text(pooled(
                    n,
                    |at| column.number(rows.at(at)),
                    |number, out| {
                        let index = u32::try_from(number).ok();
                        let function = types.zip(index).and_then(|(types, index)| types.function(index));
                        out.extend_from_slice(function.map_or(&[][..], |function| &function.name));
                    },
                ))
            }
            Read::Strings => {
                let mut texts = Texts::default();
                (0..n).for_each(|at| texts.push(|out| out.extend_from_slice(column.bytes(rows.at(at)))));
                Data::Text(texts)
            }
        };
        Vector { data, valid }
    }
}

/// The type of values, for values that are only compared.
fn values_ty(values: &Vector<'_>) -> Ty {
    match values.data {
        Data::Null => Ty::Null,
        Data::Bool(_) | Data::AllBool(_) => Ty::Bool,
        Data::U64(_) | Data::I128(_) | Data::AllInt(_) => Ty::Int,
        Data::F64(_) | Data::AllFloat(_) => Ty::Float,
        Data::Text(_) => Ty::Text,
    }
}

fn constant<'a>(value: &Value) -> Vector<'a> {
    Vector::of(match value {
        Value::Null => Data::Null,
        Value::Bool(value) => Data::AllBool(*value),
        Value::Int(number) => Data::AllInt(*number),
        Value::Float(number) => Data::AllFloat(*number),
        Value::Text(text) => Data::Text(Texts::same(text)),
    })
}

/// Converts the numbers of a column.
fn numbers<T: Copy>(column: ColumnRef<'_>, rows: Rows<'_>, make: impl Fn(u64) -> T) -> Vec<T> {
    // PERF: a loop for each width, so that all rows of a batch are widened at once.
    macro_rules! widths {
        ($($Width:ident)*) => {
            match (column.cells, rows) {
                $((CellsRef::$Width(cells), Rows::All(n)) if cells.len() >= n => {
                    cells[..n].iter().map(|cell| make(u64::from(*cell))).collect()
                })*
                _ => (0..rows.len()).map(|at| make(column.number(rows.at(at)))).collect(),
            }
        };
    }
    widths!(U8 U16 U32 U64)
}

/// Texts for numbers, each distinct number converted once.
fn pooled(n: usize, number: impl Fn(usize) -> u64, write: impl Fn(u64, &mut Vec<u8>)) -> Texts {
    let mut texts = Texts::default();
    let mut known: FxHashMap<u64, u32> = FxHashMap::default();
    let mut last: Option<(u64, u32)> = None;
    for at in 0..n {
        let number = number(at);
        let position = match last {
            Some((same, position)) if same == number => position,
            _ => *known.entry(number).or_insert_with(|| texts.add(|out| write(number, out))),
        };
        last = Some((number, position));
        texts.push_at(position);
    }
    texts
}

/// Truth values, `NULL` where `truth` returns `None`.
fn truths<'a>(n: usize, truth: impl Fn(usize) -> Option<bool>) -> Vector<'a> {
    let mut valid: Option<Vec<bool>> = None;
    let mut cells = Vec::with_capacity(n);
    for row in 0..n {
        let truth = truth(row);
        if truth.is_none() {
            valid.get_or_insert_with(|| vec![true; n])[row] = false;
        }
        cells.push(truth.unwrap_or(false));
    }
    Vector { data: Data::Bool(cells), valid }
}

/// Tests texts, each distinct text once.
fn of_texts<'a>(of: &Vector<'_>, n: usize, find: impl Fn(&[u8]) -> bool) -> Vector<'a> {
    match &of.data {
        Data::Text(texts) => Vector { data: Data::Bool(texts.each(n, find)), valid: of.valid.clone() },
        _ => Vector::null(),
    }
}

/// Unsigned integers: one for each row, or the same one for all.
#[derive(Clone, Copy)]
enum Unsigned<'v> {
    Cells(&'v [u64]),
    Same(u64),
}

impl Unsigned<'_> {
    fn of<'v>(vector: &'v Vector<'_>) -> Option<Unsigned<'v>> {
        match &vector.data {
            Data::U64(cells) => Some(Unsigned::Cells(cells)),
            Data::AllInt(number) => u64::try_from(*number).ok().map(Unsigned::Same),
            _ => None,
        }
    }
}

/// Calls `make` for each pair of numbers, with a separate loop for each combination of representations.
fn pairs<T>(left: Unsigned<'_>, right: Unsigned<'_>, n: usize, make: impl Fn(u64, u64) -> T) -> Vec<T> {
    match (left, right) {
        (Unsigned::Cells(left), Unsigned::Cells(right)) => {
            left.iter().zip(right).map(|(left, right)| make(*left, *right)).collect()
        }
        (Unsigned::Cells(left), Unsigned::Same(right)) => {
            left.iter().map(|left| make(*left, right)).collect()
        }
        (Unsigned::Same(left), Unsigned::Cells(right)) => {
            right.iter().map(|right| make(left, *right)).collect()
        }
        (Unsigned::Same(left), Unsigned::Same(right)) => (0..n).map(|_| make(left, right)).collect(),
    }
}

fn compare<'a>(binary: Binary, left: &Vector<'_>, right: &Vector<'_>, n: usize) -> Vector<'a> {
    let holds = |ordering: Ordering| match binary {
        Binary::Eq => ordering.is_eq(),
        Binary::Ne => ordering.is_ne(),
        Binary::Lt => ordering.is_lt(),
        Binary::Le => ordering.is_le(),
        Binary::Gt => ordering.is_gt(),
        _ => ordering.is_ge(),
    };
    if matches!(left.data, Data::Null) || matches!(right.data, Data::Null) {
        return Vector::null();
    }
    let valid = left.valid_with(right);
    let cells = match (&left.data, &right.data) {
        (Data::Text(texts), Data::Text(same)) if same.is_same() => {
            texts.each(n, |text| holds(text.cmp(same.get(0))))
        }
        (Data::Text(same), Data::Text(texts)) if same.is_same() => {
            texts.each(n, |text| holds(same.get(0).cmp(text)))
        }
        (Data::Text(left), Data::Text(right)) => {
            (0..n).map(|row| holds(left.get(row).cmp(right.get(row)))).collect()
        }
        _ => match (Unsigned::of(left), Unsigned::of(right)) {
            // PERF: a separate loop for each comparison, which is vectorised.
            (Some(left), Some(right)) => match binary {
                Binary::Eq => pairs(left, right, n, |left, right| left == right),
                Binary::Ne => pairs(left, right, n, |left, right| left != right),
                Binary::Lt => pairs(left, right, n, |left, right| left < right),
                Binary::Le => pairs(left, right, n, |left, right| left <= right),
                Binary::Gt => pairs(left, right, n, |left, right| left > right),
                _ => pairs(left, right, n, |left, right| left >= right),
            },
            _ => (0..n).map(|row| number_order(left, right, row).is_some_and(holds)).collect(),
        },
    };
    Vector { data: Data::Bool(cells), valid }
}

/// Compares two numbers; an integer and a floating-point number are compared as floating-point numbers.
fn number_order(left: &Vector<'_>, right: &Vector<'_>, row: usize) -> Option<Ordering> {
    match (left.int(row), right.int(row)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.float(row)?.partial_cmp(&right.float(row)?),
    }
}

/// Converts integers one by one.
fn ints<'a>(
    of: &Vector<'_>,
    n: usize,
    make: impl Fn(i128) -> std::result::Result<i128, &'static str>,
) -> std::result::Result<Vector<'a>, Fault> {
    if let (Data::AllInt(number), None) = (&of.data, &of.valid) {
        let number = make(*number).map_err(|message| Fault { position: 0, message })?;
        return Ok(Vector::of(Data::AllInt(number)));
    }
    if matches!(of.data, Data::Null) {
        return Ok(Vector::null());
    }
    let cells = (0..n).map(|position| match of.int(position) {
        Some(number) => make(number).map_err(|message| Fault { position, message }),
        None => Ok(0),
    });
    Ok(Vector { data: Data::I128(cells.collect::<std::result::Result<_, _>>()?), valid: of.valid.clone() })
}

fn floats<'a>(of: &Vector<'_>, n: usize, make: impl Fn(f64) -> f64) -> Vector<'a> {
    if matches!(of.data, Data::Null) {
        return Vector::null();
    }
    let cells = (0..n).map(|row| of.float(row).map_or(0.0, &make)).collect();
    Vector { data: Data::F64(cells), valid: of.valid.clone() }
}

fn float_arith<'a>(binary: Binary, left: &Vector<'_>, right: &Vector<'_>, n: usize) -> Vector<'a> {
    if matches!(left.data, Data::Null) || matches!(right.data, Data::Null) {
        return Vector::null();
    }
    let make = |left: f64, right: f64| match binary {
        Binary::Add => left + right,
        Binary::Sub => left - right,
        Binary::Mul => left * right,
        Binary::Div => left / right,
        _ => left % right,
    };
    let cells = (0..n).map(|row| match (left.float(row), right.float(row)) {
        (Some(left), Some(right)) => make(left, right),
        _ => 0.0,
    });
    Vector { data: Data::F64(cells.collect()), valid: left.valid_with(right) }
}

/// Integer arithmetic: exact, or a fault.
fn int_arith<'a>(
    binary: Binary,
    left: &Vector<'_>,
    right: &Vector<'_>,
    n: usize,
) -> std::result::Result<Vector<'a>, Fault> {
    if matches!(left.data, Data::Null) || matches!(right.data, Data::Null) {
        return Ok(Vector::null());
    }
    let valid = left.valid_with(right);
    // PERF: addresses and sizes are unsigned, and results computed from them usually fit into 64 bits.
    if let (Some(left), Some(right), None) = (Unsigned::of(left), Unsigned::of(right), &valid)
        && let Some(cells) = unsigned_arith(binary, left, right, n)
    {
        return Ok(Vector::of(Data::U64(cells.into())));
    }
    let cells = (0..n).map(|position| match (left.int(position), right.int(position)) {
        (Some(left), Some(right)) => {
            int_result(binary, left, right).map_err(|message| Fault { position, message })
        }
        _ => Ok(0),
    });
    Ok(Vector { data: Data::I128(cells.collect::<std::result::Result<_, _>>()?), valid })
}

/// Arithmetic with unsigned 64-bit integers; `None` if a result does not fit.
fn unsigned_arith(binary: Binary, left: Unsigned<'_>, right: Unsigned<'_>, n: usize) -> Option<Vec<u64>> {
    let mut is_good = true;
    let checked = |make: fn(u64, u64) -> Option<u64>, is_good: &mut bool| {
        let flag = std::cell::Cell::new(true);
        let cells = pairs(left, right, n, |left, right| {
            make(left, right).unwrap_or_else(|| {
                flag.set(false);
                0
            })
        });
        *is_good = flag.get();
        cells
    };
    let cells = match binary {
        Binary::Add => checked(u64::checked_add, &mut is_good),
        Binary::Sub => checked(u64::checked_sub, &mut is_good),
        Binary::Mul => checked(u64::checked_mul, &mut is_good),
        Binary::Div => checked(u64::checked_div, &mut is_good),
        Binary::Rem => checked(u64::checked_rem, &mut is_good),
        Binary::BitAnd => pairs(left, right, n, |left, right| left & right),
        Binary::BitOr => pairs(left, right, n, |left, right| left | right),
        Binary::BitXor => pairs(left, right, n, |left, right| left ^ right),
        Binary::Shr => checked(|left, by| left.checked_shr(u32::try_from(by).ok()?), &mut is_good),
        _ => return None,
    };
    is_good.then_some(cells)
}

fn int_result(binary: Binary, left: i128, right: i128) -> std::result::Result<i128, &'static str> {
    let bits = || u32::try_from(right).ok().filter(|bits| *bits < 128).ok_or(SHIFT);
    match binary {
        Binary::Add => left.checked_add(right).ok_or(OVERFLOW),
        Binary::Sub => left.checked_sub(right).ok_or(OVERFLOW),
        Binary::Mul => left.checked_mul(right).ok_or(OVERFLOW),
        Binary::Div | Binary::Rem if right == 0 => Err(BY_ZERO),
        Binary::Div => left.checked_div(right).ok_or(OVERFLOW),
        Binary::Rem => left.checked_rem(right).ok_or(OVERFLOW),
        Binary::BitAnd => Ok(left & right),
        Binary::BitOr => Ok(left | right),
        Binary::BitXor => Ok(left ^ right),
        Binary::Shr => Ok(left >> bits()?),
        _ => {
            let bits = bits()?;
            let shifted = left << bits;
            if shifted >> bits == left { Ok(shifted) } else { Err(OVERFLOW) }
        }
    }
}

/// Concatenates texts.
fn joined<'a>(left: &Vector<'_>, right: &Vector<'_>, n: usize) -> Vector<'a> {
    let (Data::Text(one), Data::Text(other)) = (&left.data, &right.data) else { return Vector::null() };
    let valid = left.valid_with(right);
    let both = |one: &[u8], other: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(one);
        out.extend_from_slice(other);
    };
    let texts = if other.is_same() {
        one.map(|text, out| both(text, other.get(0), out))
    } else if one.is_same() {
        other.map(|text, out| both(one.get(0), text, out))
    } else {
        let mut texts = Texts::default();
        (0..n).for_each(|row| texts.push(|out| both(one.get(row), other.get(row), out)));
        texts
    };
    Vector { data: Data::Text(texts), valid }
}

const NO_INT: &str = "the value is no whole number of this type";
const NO_NUMBER: &str = "the text is no number";
const NO_BOOL: &str = "the text is neither true nor false";

fn cast<'a>(of: &Vector<'_>, from: Ty, to: CastTo, n: usize) -> std::result::Result<Vector<'a>, Fault> {
    use std::io::Write as _;
    if matches!(of.data, Data::Null) {
        return Ok(Vector::null());
    }
    let valid = of.valid.clone();
    let at = |position: usize, message: &'static str| Fault { position, message };
    let word = |row: usize| of.text(row).map(|text| String::from_utf8_lossy(text.trim_ascii()).into_owned());
    let data = match to {
        CastTo::Int(low, high) => {
            let fits = |number: &i128| (low..=high).contains(number);
            let cells = (0..n).map(|row| {
                let number = match from {
                    // The cast requests truncation; numbers that are too large are outside of every integer type.
                    Ty::Float => {
                        of.float(row).map(|number| if number.is_nan() { i128::MAX } else { number as i128 })
                    }
                    Ty::Text => match word(row) {
                        Some(word) => Some(int_of(&word).ok_or_else(|| at(row, NO_INT))?),
                        None => None,
                    },
                    _ => of.int(row),
                };
                match number {
                    Some(number) => Some(number).filter(fits).ok_or_else(|| at(row, NO_INT)),
                    None => Ok(0),
                }
            });
            Data::I128(cells.collect::<std::result::Result<_, _>>()?)
        }
        CastTo::Float => {
            let cells = (0..n).map(|row| match (from, word(row)) {
                (Ty::Text, Some(word)) => word.parse().map_err(|_| at(row, NO_NUMBER)),
                _ => Ok(of.float(row).unwrap_or(0.0)),
            });
            Data::F64(cells.collect::<std::result::Result<_, _>>()?)
        }
        CastTo::Bool => {
            let cells = (0..n).map(|row| match (from, word(row)) {
                (Ty::Text, Some(word)) => match word.to_lowercase().as_str() {
                    "true" | "t" | "1" => Ok(true),
                    "false" | "f" | "0" => Ok(false),
                    _ => Err(at(row, NO_BOOL)),
                },
                (Ty::Float, _) => Ok(of.float(row).is_some_and(|number| number != 0.0)),
                _ => Ok(of.int(row).is_some_and(|number| number != 0)),
            });
            Data::Bool(cells.collect::<std::result::Result<_, _>>()?)
        }
        CastTo::Text => match &of.data {
            Data::Text(texts) => Data::Text(texts.clone()),
            _ => {
                let mut texts = Texts::default();
                for row in 0..n {
                    // Writing to a vector cannot fail.
                    texts.push(|out| match from {
                        Ty::Bool => out.extend_from_slice(match of.truth(row) {
                            Some(true) => b"true",
                            _ => b"false",
                        }),
                        Ty::Float => drop(write!(out, "{:?}", of.float(row).unwrap_or(0.0))),
                        _ => drop(write!(out, "{}", of.int(row).unwrap_or(0))),
                    });
                }
                Data::Text(texts)
            }
        },
    };
    Ok(Vector { data, valid })
}

/// Parses an integer in decimal or hexadecimal.
fn int_of(text: &str) -> Option<i128> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) if digits.starts_with(|c: char| c.is_ascii_hexdigit()) => {
            i128::from_str_radix(digits, 16).ok()?.checked_mul(sign)
        }
        Some(_) => None,
        None => text.parse().ok(),
    }
}
