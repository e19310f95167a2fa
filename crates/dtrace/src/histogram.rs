//! Histograms: prints `quantize()`, `lquantize()` and `llquantize()` as rows of bars.
//!
//! SPEC: dtrace.md#aggregation-text

use crate::action::Function;
use crate::bars::{self, Bars};
use crate::describe::Dialect;
use crate::put;
use crate::quirks::{Quirks, Which};
use crate::value::Value;
use quipu_model::buckets::{self, Linear, Logarithmic, ZERO_CELL};
use std::io::Write as _;

/// Options of the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) dialect: Dialect,
    pub(crate) is_zoomed: bool,
    pub(crate) is_utf8: bool,
    pub(crate) quirks: Quirks,
    pub(crate) normal: u64,
}

/// The label of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    Is(i64),
    Below(i64),
    AtLeast(i64),
    AtMost(i64),
    Within(i64),
}

impl Label {
    fn put(self, out: &mut Vec<u8>) {
        let start = out.len();
        // Writing to a vector cannot fail.
        let _ = match self {
            Label::Is(value) => return put::signed(out, value, 16),
            Label::Below(value) => write!(out, "< {value}"),
            Label::AtLeast(value) => write!(out, ">= {value}"),
            Label::AtMost(value) => write!(out, "<= {value}"),
            Label::Within(value) => write!(out, "abs() < {value}"),
        };
        put::shift(out, start, 16);
    }
}

/// Prints the line above the rows.
pub(crate) fn heading(out: &mut Vec<u8>, width: usize, title: &[u8]) {
    out.push(b'\n');
    put::right(out, title, width);
    out.push(b' ');
    put::right(out, b"------------- Distribution -------------", 41);
    out.push(b' ');
    put::left(out, b"count", 9);
    out.push(b'\n');
}

/// Prints a histogram with its heading.
pub(crate) fn print(value: &Value, style: &Style, out: &mut Vec<u8>) {
    let rows = rows(value, style);
    heading(out, 16, b"value");
    let bars = Bars::of(rows.iter().map(|(_, count)| *count), style.is_zoomed, style.is_utf8);
    for (label, count) in rows {
        label.put(out);
        out.push(b' ');
        bars.put(out, count, normalized(count, style.normal));
        out.push(b'\n');
    }
}

/// The labels and counts of the rows that are shown.
pub(crate) fn labelled(value: &Value, dialect: Dialect) -> Vec<(String, i64)> {
    let style = Style { dialect, is_zoomed: false, is_utf8: false, quirks: Quirks::NONE, normal: 1 };
    let label = |(label, count): (Label, i64)| {
        let mut out = Vec::new();
        label.put(&mut out);
        (String::from_utf8_lossy(out.trim_ascii()).into_owned(), count)
    };
    rows(value, &style).into_iter().map(label).collect()
}

fn normalized(count: i64, normal: u64) -> i64 {
    bars::divide(count, normal)
}

fn rows(value: &Value, style: &Style) -> Vec<(Label, i64)> {
    let cells = &value.cells;
    match value.function {
        Function::Quantize => {
            let last = cells.len().saturating_sub(1);
            let only_last =
                cells.split_last().is_some_and(|(_, others)| others.iter().all(|cell| *cell == 0));
            // QUIRK: the classic consumer ignores data that is only in the last cell.
            let is_blind = style.quirks.has(Which::LastCell) && style.dialect != Dialect::Linux && only_last;
            let shown = if is_blind { None } else { around(cells) };
            let (from, to) = shown.unwrap_or((ZERO_CELL - 1, ZERO_CELL + 1));
            pick(cells, from, to.min(last), |cell| Label::Is(buckets::quantize_value(cell)))
        }
        Function::Lquantize => {
            let linear = Linear::of(value.param);
            let last = cells.len().saturating_sub(1);
            let (from, to) = around(cells).unwrap_or((0, 2));
            pick(cells, from, to.min(last), |cell| match cell {
                0 => Label::Below(i64::from(linear.base)),
                _ if cell == last => Label::AtLeast(linear.bound(cell)),
                _ => Label::Is(linear.bound(cell)),
            })
        }
        _ if style.dialect == Dialect::Linux => signed_rows(value),
        _ => {
            let ll = Logarithmic::classic(value.param);
            let bounds = ll.bounds();
            let (from, to) = around(cells).unwrap_or((0, 1));
            let last = bounds.len().min(cells.len().saturating_sub(1));
            pick(cells, from, to.min(last), |cell| match cell {
                0 => Label::Below(ll.start()),
                _ if cell == bounds.len() => Label::AtLeast(bounds[cell - 1]),
                _ => Label::Is(bounds[cell - 1]),
            })
        }
    }
}

/// The rows of a Linux `llquantize()`, which also counts negative numbers.
fn signed_rows(value: &Value) -> Vec<(Label, i64)> {
    let ll = Logarithmic::of(value.param, true);
    let zero = ll.underflow_cell(true);
    let bounds = ll.signed_bounds();
    let end = ll.bounds().last().copied().unwrap_or(0);
    if value.cells.len() != ll.n_signed_cells() || bounds.is_empty() {
        return Vec::new();
    }
    let mut all: Vec<(Label, i64)> = vec![(Label::AtMost(-end), value.cells[0])];
    all.extend(bounds.iter().rev().map(|(at, bound)| (Label::Is(-bound), value.cells[zero - at])));
    let small = all.len();
    all.push((if ll.start() == 1 { Label::Is(0) } else { Label::Within(ll.start()) }, value.cells[zero]));
    all.extend(bounds.iter().map(|(at, bound)| (Label::Is(*bound), value.cells[zero + at])));
    all.push((Label::AtLeast(end), value.cells.last().copied().unwrap_or(0)));
    let counts: Vec<i64> = all.iter().map(|(_, count)| *count).collect();
    let (from, to) = around(&counts).unwrap_or((small.saturating_sub(1), small + 1));
    if from >= small
        && let (Label::Within(start), count) = all[small]
    {
        all[small] = (Label::Below(start), count);
    }
    all[from..=to].to_vec()
}

/// The first and the last nonzero cell, extended by one cell on each side; `None` if all cells are zero.
fn around(cells: &[i64]) -> Option<(usize, usize)> {
    let first = cells.iter().position(|cell| *cell != 0)?;
    let last = cells.iter().rposition(|cell| *cell != 0)?;
    Some((first.saturating_sub(1), (last + 1).min(cells.len() - 1)))
}

fn pick(cells: &[i64], from: usize, to: usize, label: impl Fn(usize) -> Label) -> Vec<(Label, i64)> {
    let cells = cells.iter().enumerate().take(to + 1).skip(from);
    cells.map(|(cell, count)| (label(cell), *count)).collect()
}
