//! Scalar functions for a batch of rows.

use super::join::Join;
use super::{Eval, Fault, OVERFLOW, Rows, compare, floats, ints, narrow, of_texts, truths};
use crate::bind::{Node, Ty};
use crate::functions::Function;
use crate::tree::Binary;
use crate::vector::{Data, Texts, Vector};
use quipu_model::Result;
use std::io::Write as _;

/// Default bytes of a line and of a page.
const LINE_BYTES: i128 = 64;
const PAGE_BYTES: i128 = 4096;

/// Maximum bytes of the texts that a function creates for a batch.
const MAX_TEXT_BYTES: usize = 256 << 20;

const NO_SIZE: &str = "lines and pages have one byte at least";
const TOO_LONG: &str = "texts of a batch have more than 256 MiB";

impl<'a> Eval<'_, 'a> {
    pub(super) fn call(
        &self,
        function: Function,
        args: &[Node],
        node: &Node,
        rows: Rows<'_>,
    ) -> Result<Vector<'a>> {
        let n = rows.len();
        if function == Function::Coalesce {
            return self.coalesce(args, node.ty, rows);
        }
        let values = args.iter().map(|arg| self.node(arg, rows)).collect::<Result<Vec<_>>>()?;
        let done = |result: std::result::Result<Vector<'a>, Fault>| {
            result.map_err(|fault| self.fault(&fault, &node.span, rows))
        };
        let is_float = node.ty == Ty::Float;
        let first = &values[0];
        match function {
            Function::Abs if is_float => Ok(floats(first, n, f64::abs)),
            Function::Abs => done(ints(first, n, |number| number.checked_abs().ok_or(OVERFLOW))),
            Function::Sign if is_float => {
                Ok(floats(first, n, |number| if number == 0.0 { 0.0 } else { number.signum() }))
            }
            Function::Sign => done(ints(first, n, |number| Ok(number.signum()))),
            Function::Round if is_float => Ok(floats(first, n, f64::round)),
            Function::Floor if is_float => Ok(floats(first, n, f64::floor)),
            Function::Ceil if is_float => Ok(floats(first, n, f64::ceil)),
            Function::Round | Function::Floor | Function::Ceil => {
                Ok(values.into_iter().next().unwrap_or(Vector::null()))
            }
            Function::Log2 => Ok(floats(first, n, f64::log2)),
            Function::Greatest => Ok(extreme(&values, node.ty, n, Binary::Gt)),
            Function::Least => Ok(extreme(&values, node.ty, n, Binary::Lt)),
            Function::Coalesce => Ok(Vector::null()),
            Function::Nullif => {
                let is_equal = compare(Binary::Eq, first, &values[1], n);
                let mut join = Join::new(node.ty, n);
                let left: Vec<u32> =
                    (0..n as u32) // A batch has a few thousand rows.
                        .filter(|row| is_equal.truth(*row as usize) != Some(true))
                        .collect();
                let mut kept = Join::new(node.ty, left.len());
                kept.put_some(first, &left);
                join.put(&kept.finish(), &left);
                Ok(join.finish())
            }
            Function::Lower => Ok(texts(first, |text, out| case(text, out, str::to_lowercase))),
            Function::Upper => Ok(texts(first, |text, out| case(text, out, str::to_uppercase))),
            Function::Trim => Ok(texts(first, |text, out| out.extend_from_slice(text.trim_ascii()))),
            Function::Length => Ok(match &first.data {
                Data::Text(texts) => {
                    let length = |text: &[u8]| String::from_utf8_lossy(text).chars().count() as u64;
                    Vector { data: Data::U64(texts.each(n, length).into()), valid: first.valid.clone() }
                }
                _ => Vector::null(),
            }),
            Function::Substr => Ok(substr(&values, n)),
            Function::StartsWith => Ok(test(&values, n, <[u8]>::starts_with)),
            Function::EndsWith => Ok(test(&values, n, <[u8]>::ends_with)),
            Function::Contains => Ok(test(&values, n, contains)),
            Function::Replace => done(replace(&values, n)),
            Function::Concat => Ok(concat(&values, n)),
            Function::Hex => Ok(hex(first, n)),
            Function::Line => done(aligned(&values, n, LINE_BYTES)),
            Function::Page => done(aligned(&values, n, PAGE_BYTES)),
        }
    }

    /// The first value that is not `NULL`. Further arguments are evaluated only for the rows that need them.
    fn coalesce(&self, args: &[Node], ty: Ty, rows: Rows<'_>) -> Result<Vector<'a>> {
        let n = rows.len();
        let mut open: Vec<u32> = (0..n as u32).collect(); // A batch has a few thousand rows.
        let mut join = Join::new(ty, n);
        let mut buffer = Vec::new();
        for arg in args {
            if open.is_empty() {
                break;
            }
            let values = self.node(arg, narrow(rows, &open, &mut buffer))?;
            if open.len() == n && values.has_all() {
                return Ok(values);
            }
            join.put(&values, &open);
            let mut at = 0;
            open.retain(|_| {
                at += 1;
                !values.has(at - 1)
            });
        }
        Ok(join.finish())
    }
}

/// The largest or smallest of the values that are not `NULL`.
fn extreme<'a>(values: &[Vector<'_>], ty: Ty, n: usize, better: Binary) -> Vector<'a> {
    let mut best = Join::new(ty, n);
    let all: Vec<u32> = (0..n as u32).collect(); // A batch has a few thousand rows.
    best.put(&values[0], &all);
    let mut best = best.finish();
    for value in &values[1..] {
        let is_better = compare(better, value, &best, n);
        let taken = |row: &u32| {
            let row = *row as usize;
            value.has(row) && (!best.has(row) || is_better.truth(row) == Some(true))
        };
        let taken: Vec<u32> = all.iter().copied().filter(taken).collect();
        let mut join = Join::new(ty, n);
        join.put(&best, &all);
        let mut part = Join::new(ty, taken.len());
        part.put_some(value, &taken);
        join.put(&part.finish(), &taken);
        best = join.finish();
    }
    best
}

fn case(text: &[u8], out: &mut Vec<u8>, change: impl Fn(&str) -> String) {
    match std::str::from_utf8(text) {
        Ok(text) => out.extend_from_slice(change(text).as_bytes()),
        // Invalid UTF-8 stays as it is.
        Err(_) => out.extend_from_slice(text),
    }
}

fn texts<'a>(of: &Vector<'_>, change: impl Fn(&[u8], &mut Vec<u8>)) -> Vector<'a> {
    match &of.data {
        Data::Text(texts) => Vector { data: Data::Text(texts.map(change)), valid: of.valid.clone() },
        _ => Vector::null(),
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || find(text, part).is_some()
}

/// The offset of a part in a text.
fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    let (first, last) = (*part.first()?, text.len().checked_sub(part.len())?);
    (0..=last).find(|at| text[*at] == first && text[*at..].starts_with(part))
}

/// Tests pairs of texts.
fn test<'a>(values: &[Vector<'_>], n: usize, find: impl Fn(&[u8], &[u8]) -> bool) -> Vector<'a> {
    match &values[1].data {
        Data::Text(same) if same.is_same() => of_texts(&values[0], n, |text| find(text, same.get(0))),
        _ => truths(n, |row| Some(find(values[0].text(row)?, values[1].text(row)?))),
    }
}

/// Characters from a position on, counted from 1. Positions before the text count towards the length, but contain no
/// characters.
fn substr<'a>(values: &[Vector<'_>], n: usize) -> Vector<'a> {
    let mut texts = Texts::default();
    let mut valid = vec![true; n];
    for (row, is_valid) in valid.iter_mut().enumerate() {
        let from = values[1].int(row);
        let count = values.get(2).map(|count| count.int(row));
        let (Some(text), Some(from), false) = (values[0].text(row), from, count == Some(None)) else {
            *is_valid = false;
            texts.push(|_| {});
            continue;
        };
        let end = count.flatten().map_or(i128::MAX, |count| from.saturating_add(count.max(0)));
        let start = usize::try_from(from.max(1) - 1).unwrap_or(usize::MAX);
        let n_letters = usize::try_from(end.saturating_sub(from.max(1))).unwrap_or(if end > from {
            usize::MAX
        } else {
            0
        });
        let text = String::from_utf8_lossy(text);
        texts.push(|out| {
            let mut letter = [0; 4];
            for c in text.chars().skip(start).take(n_letters) {
                out.extend_from_slice(c.encode_utf8(&mut letter).as_bytes());
            }
        });
    }
    Vector { data: Data::Text(texts), valid: valid.contains(&false).then_some(valid) }
}

fn replace<'a>(values: &[Vector<'_>], n: usize) -> std::result::Result<Vector<'a>, Fault> {
    let mut texts = Texts::default();
    let mut valid = vec![true; n];
    for (row, is_valid) in valid.iter_mut().enumerate() {
        let all = [0, 1, 2].map(|at: usize| values[at].text(row));
        let [Some(text), Some(part), Some(by)] = all else {
            *is_valid = false;
            texts.push(|_| {});
            continue;
        };
        let most = text.len().saturating_mul(by.len().saturating_add(1));
        if texts.bytes_used().saturating_add(most) > MAX_TEXT_BYTES {
            return Err(Fault { position: row, message: TOO_LONG });
        }
        texts.push(|out| {
            let mut rest = text;
            while let Some(at) = find(rest, part) {
                out.extend_from_slice(&rest[..at]);
                out.extend_from_slice(by);
                rest = &rest[at + part.len()..];
            }
            out.extend_from_slice(rest);
        });
    }
    Ok(Vector { data: Data::Text(texts), valid: valid.contains(&false).then_some(valid) })
}

/// Concatenates the texts that are not `NULL`.
fn concat<'a>(values: &[Vector<'_>], n: usize) -> Vector<'a> {
    let mut texts = Texts::default();
    for row in 0..n {
        texts.push(|out| {
            values.iter().filter_map(|value| value.text(row)).for_each(|text| out.extend_from_slice(text))
        });
    }
    Vector::of(Data::Text(texts))
}

fn hex<'a>(of: &Vector<'_>, n: usize) -> Vector<'a> {
    if matches!(of.data, Data::Null) {
        return Vector::null();
    }
    let mut texts = Texts::default();
    for row in 0..n {
        let number = of.int(row).unwrap_or(0);
        let sign = if number < 0 { "-" } else { "" };
        // Writing to a vector cannot fail.
        texts.push(|out| drop(write!(out, "{sign}{:#x}", number.unsigned_abs())));
    }
    Vector { data: Data::Text(texts), valid: of.valid.clone() }
}

/// The start address of the line or page that contains an address.
fn aligned<'a>(values: &[Vector<'_>], n: usize, usual: i128) -> std::result::Result<Vector<'a>, Fault> {
    let addrs = &values[0];
    let size = match values.get(1) {
        None => Some(usual),
        Some(Vector { data: Data::AllInt(size), valid: None }) => Some(*size),
        Some(_) => None,
    };
    let make = |addr: i128, size: i128| match size {
        1.. => addr.checked_sub(addr.rem_euclid(size)).ok_or(OVERFLOW),
        _ => Err(NO_SIZE),
    };
    if let (Data::U64(cells), Some(Ok(size))) = (&addrs.data, size.map(u64::try_from))
        && size > 0
    {
        // PERF: most sizes are powers of two.
        let cells: Vec<u64> = match size.is_power_of_two() {
            true => cells.iter().map(|addr| addr & !(size - 1)).collect(),
            false => cells.iter().map(|addr| addr - addr % size).collect(),
        };
        return Ok(Vector { data: Data::U64(cells.into()), valid: addrs.valid.clone() });
    }
    if let Some(size) = size {
        return ints(addrs, n, |addr| make(addr, size));
    }
    let sizes = &values[1];
    if matches!(addrs.data, Data::Null) || matches!(sizes.data, Data::Null) {
        return Ok(Vector::null());
    }
    let cells = (0..n).map(|position| match (addrs.int(position), sizes.int(position)) {
        (Some(addr), Some(size)) => make(addr, size).map_err(|message| Fault { position, message }),
        _ => Ok(0),
    });
    let cells = cells.collect::<std::result::Result<_, _>>()?;
    Ok(Vector { data: Data::I128(cells), valid: addrs.valid_with(sizes) })
}
