//! Lays out rows and columns: widths, alignment, and cutting if the surface is too narrow.

use crate::document::INDENT;
use crate::look::{Ink, Look};
use crate::value::{cell_ink, cell_text, columns, cut, grouped, harmless, is_number};
use quipu_model::doc::{Cell, Grid};
use std::collections::HashSet;

/// The space between columns.
pub(crate) const GAP: &str = "  ";

/// Minimum width to which a column is cut.
const MIN_COLUMN: usize = 8;
/// Minimum width to which the first column of words is cut, because it names the row.
const MIN_FIRST: usize = 16;

/// One text in a line of columns.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) text: String,
    /// Whether the text ends at the column's right edge.
    pub(crate) right: bool,
    pub(crate) ink: Option<Ink>,
}

impl Slot {
    pub(crate) fn of(cell: &Cell, look: &Look) -> Slot {
        Slot { text: cell_text(cell), right: is_number(cell), ink: cell_ink(cell, look) }
    }
}

/// Paints the head, the rows, and the number of rows left out. Heads of numeric columns are right-aligned like their cells.
pub(crate) fn paint_grid(grid: &Grid, look: &Look, out: &mut String) {
    let numeric = |column: usize| {
        let mut cells = grid.rows.iter().filter_map(|row| row.get(column));
        cells.any(is_number)
    };
    let head = grid.head.iter().enumerate().map(|(column, text)| Slot {
        text: harmless(text),
        right: numeric(column),
        ink: Some(look.label()),
    });
    let rows = grid.rows.iter().map(|row| row.iter().map(|cell| Slot::of(cell, look)).collect());
    write_lines(std::iter::once(head.collect()).chain(rows).collect(), look, out);
    if grid.more > 0 {
        out.push_str(INDENT);
        look.label().write(&format!("{} more", grouped(grid.more)), out);
        out.push('\n');
    }
}

/// Writes lines of columns, each column as wide as its widest text. If that is too wide, cuts the widest columns of words.
pub(crate) fn write_lines(mut lines: Vec<Vec<Slot>>, look: &Look, out: &mut String) {
    let widths = fit(&lines, look.width.saturating_sub(INDENT.len()));
    for line in &mut lines {
        out.push_str(INDENT);
        // Spaces before a text are written with it, so a line never ends in spaces.
        let mut pending = 0;
        for (slot, &width) in line.iter_mut().zip(&widths) {
            let text = cut(&slot.text, width);
            let fill = width - columns(&text);
            if !text.is_empty() {
                let before = pending + if slot.right { fill } else { 0 };
                out.extend(std::iter::repeat_n(' ', before));
                match slot.ink {
                    Some(ink) => ink.write(&text, out),
                    None => out.push_str(&text),
                }
                pending = if slot.right { 0 } else { fill };
            } else {
                pending += width;
            }
            pending += GAP.len();
        }
        out.push('\n');
    }
}

/// The width of each column; with the gaps, at most `total` as far as cutting words permits. The first column of words names
/// the row: it is cut last, and never so far that different rows look the same.
fn fit(lines: &[Vec<Slot>], total: usize) -> Vec<usize> {
    let n_columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let mut widths = vec![0; n_columns];
    let mut words = vec![true; n_columns];
    for line in lines {
        for (column, slot) in line.iter().enumerate() {
            widths[column] = widths[column].max(columns(&slot.text));
            words[column] &= !slot.right;
        }
    }
    let mut over =
        (widths.iter().sum::<usize>() + GAP.len() * n_columns.saturating_sub(1)).saturating_sub(total);
    let Some(first) = words.iter().position(|is_words| *is_words).filter(|_| over > 0) else { return widths };
    let all: Vec<usize> = (0..n_columns).filter(|column| words[*column]).collect();
    let rest: Vec<usize> = all.iter().copied().filter(|column| *column != first).collect();
    shrink(&mut widths, &rest, MIN_COLUMN, &mut over);
    let least = telling(lines, first, widths[first]).max(widths[first].min(MIN_FIRST));
    shrink(&mut widths, &[first], least, &mut over);
    widths
}

/// Narrows the widest columns in `among`, until `over` is 0 or all have the width `least`.
fn shrink(widths: &mut [usize], among: &[usize], least: usize, over: &mut usize) {
    while *over > 0 {
        let widest = among.iter().copied().filter(|&c| widths[c] > least).max_by_key(|&c| widths[c]);
        let Some(column) = widest else { break };
        // Down to the next widest column, so that equals shrink together.
        let next = among.iter().filter(|&&c| c != column).map(|&c| widths[c]).max().unwrap_or(0);
        let floor = if next < widths[column] { next } else { widths[column] - 1 };
        let step = (*over).min(widths[column] - floor.max(least)).max(1);
        widths[column] -= step;
        *over -= step;
    }
}

/// The smallest width at which cutting makes no two different texts of a column equal.
fn telling(lines: &[Vec<Slot>], column: usize, full: usize) -> usize {
    let texts: HashSet<&str> =
        lines.iter().filter_map(|line| line.get(column)).map(|slot| slot.text.as_str()).collect();
    let differ = |width: usize| texts.iter().map(|text| cut(text, width)).collect::<HashSet<_>>().len();
    (MIN_COLUMN..full).find(|width| differ(*width) == texts.len()).unwrap_or(full)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(grid: &Grid, width: usize, expected: &str) {
        let mut out = String::new();
        paint_grid(grid, &Look::page(width), &mut out);
        assert_eq!(out, expected);
    }

    #[test]
    fn numbers_stand_at_the_right_and_words_at_the_left() {
        let grid = Grid {
            title: String::new(),
            head: vec!["pc".into(), "count".into(), "what".into()],
            rows: vec![
                vec![Cell::Addr(0x401000), Cell::Count(1234), Cell::Code("ret".into())],
                vec![Cell::Addr(0x7f), Cell::Count(5), Cell::Empty],
            ],
            more: 12,
        };
        check(&grid, 80, "        pc  count  what\n  0x401000  1,234  ret\n      0x7f      5\n  12 more\n");
    }

    #[test]
    fn the_widest_words_are_cut_first() {
        let grid = Grid {
            title: String::new(),
            head: vec!["a".into(), "b".into(), "n".into()],
            rows: vec![vec!["x".repeat(50).into(), "short".into(), Cell::Count(1)]],
            more: 0,
        };
        let cut = format!("{}…", "x".repeat(27));
        check(&grid, 40, &format!("  {:28}  b      n\n  {cut}  short  1\n", "a"));
    }
    #[test]
    fn what_tells_rows_apart_is_not_cut() {
        let row = |name: &str, place: &str| vec![Cell::from(name), Cell::from(place), Cell::Count(1)];
        let grid = Grid {
            title: String::new(),
            head: vec!["field".into(), "declared".into(), "n".into()],
            rows: vec![
                row("position.of.the.current.thing.x", "a_rather_long_name.c:12"),
                row("position.of.the.current.thing.y", "a_rather_long_name.c:13"),
            ],
            more: 0,
        };
        let lines = [
            "  field                            declared  n\n",
            "  position.of.the.current.thing.x  a_rathe…  1\n",
            "  position.of.the.current.thing.y  a_rathe…  1\n",
        ];
        check(&grid, 40, &lines.concat());
    }
}
