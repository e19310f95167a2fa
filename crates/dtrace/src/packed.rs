//! Aggregations on one line each, for the options `agghist` and `aggpack`.
//!
//! SPEC: dtrace.md#aggregation-text

use crate::action::Function;
use crate::aggregate::Entry;
use crate::aggtext::Context;
use crate::bars::{self, Bars};
use crate::bytes::until_nul;
use crate::describe::Rec;
use crate::histogram;
use crate::put;
use crate::value::Value;
use quipu_model::buckets::{self, Linear, ZERO_CELL};
use rustc_hash::FxHashMap;

/// Properties that the entries of a variable share.
#[derive(Clone, Copy, Debug)]
struct Shared {
    bars: Bars,
    /// First and last cell to print.
    range: (usize, usize),
}

/// Prints entries of some variables in packed form.
#[derive(Debug, Default)]
pub(crate) struct Packer {
    shared: FxHashMap<u64, Shared>,
    last: Option<u64>,
}

/// Characters for the height of a cell, for positive and negative counts.
const POSITIVE: &[u8; 8] = b"__xxxxXX";
const NEGATIVE: &[u8; 6] = b"vvvvVV";

impl Packer {
    /// Prepares the packed form of all entries, if options request it.
    pub(crate) fn new(context: &Context<'_>, all: &[&Entry]) -> Packer {
        let mut packer = Packer::default();
        if !context.settings.agghist && !context.settings.aggpack {
            return packer;
        }
        let settings = context.settings;
        for part in all.chunk_by(|a, b| a.variable == b.variable) {
            let Some(first) = part.first() else { continue };
            let is_packed = match first.value.function {
                Function::Count | Function::Sum => settings.agghist,
                Function::Quantize | Function::Lquantize => settings.aggpack,
                _ => false,
            };
            if is_packed {
                let counts = part.iter().map(|entry| entry.value.number(1));
                let bars = Bars::of_entries(counts, settings.aggzoom, settings.utf8);
                packer.shared.insert(first.variable, Shared { bars, range: range_of(part) });
            }
        }
        packer
    }

    /// Prints an entry; false if it has no packed form.
    pub(crate) fn entry(&mut self, context: &Context<'_>, entry: &Entry, out: &mut Vec<u8>) -> bool {
        let Some(shared) = self.shared.get(&entry.variable).copied() else { return false };
        let keys = &context.capture.aggregations[entry.aggregation].keys;
        let is_new = self.last.replace(entry.variable) != Some(entry.variable);
        let width: usize = keys.iter().map(|rec| key_width(rec) + 1).sum();
        let normal = context.aggregates.normal(entry.variable);
        let is_bar = matches!(entry.value.function, Function::Count | Function::Sum);
        if is_bar {
            if is_new {
                let (title, width): (&[u8], usize) =
                    if keys.is_empty() { (b"value", 16) } else { (b"key", width) };
                histogram::heading(out, width, title);
            }
            keys.iter().for_each(|rec| key(context, rec, rec.of(&entry.key), out));
            out.push(b' ');
            let count = entry.value.number(1);
            shared.bars.put(out, count, bars::divide(count, normal));
        } else {
            if is_new {
                pack_heading(&entry.value, shared.range, (width, keys.is_empty()), out);
            }
            keys.iter().for_each(|rec| key(context, rec, rec.of(&entry.key), out));
            row(context, &entry.value, shared.range, normal, out);
        }
        out.push(b'\n');
        true
    }
}

/// The range of cells to print for all entries of a variable.
fn range_of(entries: &[&Entry]) -> (usize, usize) {
    let Some(first) = entries.first().filter(|entry| entry.value.function == Function::Quantize) else {
        return (0, entries.first().map_or(0, |entry| entry.value.cells.len().saturating_sub(1)));
    };
    let last_cell = first.value.cells.len().saturating_sub(1);
    let of = |value: &Value| {
        let first = value.cells.iter().position(|cell| *cell != 0).unwrap_or(ZERO_CELL);
        let last = value.cells.iter().rposition(|cell| *cell != 0).unwrap_or(ZERO_CELL);
        (first, last)
    };
    let ranges = entries.iter().map(|entry| of(&entry.value));
    let (from, to) =
        ranges.fold((usize::MAX, 0), |(from, to), (first, last)| (from.min(first), to.max(last)));
    let from = if from == 0 || from == ZERO_CELL { from } else { from - 1 };
    (from, (to + 1).min(last_cell))
}

/// Width of a member of the key in columns.
fn key_width(rec: &Rec) -> usize {
    match rec.size {
        1 => 3,
        2 => 5,
        4 => 8,
        _ => 16,
    }
}

fn key(context: &Context<'_>, rec: &Rec, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b' ');
    let order = context.capture.order;
    match bytes.len() {
        1 | 2 => put::unsigned(out, order.number(bytes), key_width(rec)),
        4 | 8 => put::signed(out, order.signed(bytes), key_width(rec)),
        _ => put::right(out, until_nul(bytes), key_width(rec)),
    }
}

/// Width of a number in the heading in columns, with one less for a power of ten.
fn digits(value: i64) -> usize {
    let mut n = 1 + usize::from(value < 0);
    let mut power = 10u64;
    // QUIRK: a power of ten counts one digit short.
    while value.unsigned_abs() > power {
        n += 1;
        power = power.saturating_mul(10);
        if power == u64::MAX {
            break;
        }
    }
    n.max(4)
}

/// Widths of the numbers left and right of the cells.
fn widths(value: &Value, range: (usize, usize)) -> (usize, usize) {
    match value.function {
        Function::Quantize => {
            (digits(buckets::quantize_value(range.0)), digits(buckets::quantize_value(range.1)))
        }
        _ => (7, 8),
    }
}

fn pack_heading(value: &Value, range: (usize, usize), (width, is_empty): (usize, bool), out: &mut Vec<u8>) {
    let (min, max) = widths(value, range);
    out.push(b'\n');
    put::right(out, if is_empty { b"" } else { b"key" }, width);
    out.push(b' ');
    put::right(out, b"min", min);
    out.extend_from_slice(b" .");
    put::fill(out, b'-', range.1 + 1 - range.0);
    out.extend_from_slice(b". ");
    put::left(out, b"max", max);
    out.extend_from_slice(b" | count\n");
}

fn row(context: &Context<'_>, value: &Value, range: (usize, usize), normal: u64, out: &mut Vec<u8>) {
    let (min, max) = widths(value, range);
    let linear = Linear::of(value.param);
    let is_linear = value.function == Function::Lquantize;
    out.push(b' ');
    let start = out.len();
    if is_linear {
        out.extend_from_slice(b"< ");
        put::signed(out, i64::from(linear.base), 0);
        put::shift(out, start, min);
    } else {
        put::signed(out, buckets::quantize_value(range.0), min);
    }
    out.extend_from_slice(b" :");
    let cells = value.cells.get(range.0..=range.1).unwrap_or(&[]);
    let bars = Bars::of(cells.iter().copied(), context.settings.aggzoom, false);
    for cell in cells {
        match cell {
            0 => out.push(b' '),
            1.. => {
                let step = bars.step(*cell, 7);
                if context.settings.utf8 {
                    let block = char::from_u32(0x2581 + step as u32).unwrap_or(' '); // At most 7.
                    out.extend_from_slice(block.encode_utf8(&mut [0; 4]).as_bytes());
                } else {
                    out.push(POSITIVE[step]);
                }
            }
            _ => out.push(NEGATIVE[bars.step(*cell, 5)]),
        }
    }
    out.extend_from_slice(b": ");
    let start = out.len();
    if is_linear {
        out.extend_from_slice(b">= ");
        put::signed(out, linear.bound(linear.n_cells() - 1), 0);
    } else {
        put::signed(out, buckets::quantize_value(range.1), 0);
    }
    put::widen(out, start, max);
    out.extend_from_slice(b" | ");
    put::signed(out, bars::divide(value.sum(), normal), 0);
}
