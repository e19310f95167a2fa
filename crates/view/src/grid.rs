//! Rows and columns: widths, alignment, what is cut when the surface is too narrow.

use crate::document::INDENT;
use crate::look::{Ink, Look};
use crate::value::{cell_ink, cell_text, columns, count_text, cut, harmless, is_number};
use quipu_model::doc::{Cell, Grid};

/// What stands between columns.
pub(crate) const GAP: &str = "  ";

/// No column is cut below this.
const MIN_COLUMN: usize = 8;

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

/// The head, the rows, and a word on rows that are not shown. Columns of numbers have their heads at the right too.
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
        look.label().write(&format!("{} more", count_text(grid.more)), out);
        out.push('\n');
    }
}

/// Writes lines of columns, each column as wide as its widest text. Where that is too much, the widest columns of
/// words are cut.
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

/// The width of each column, `total` at most with the gaps as far as cutting words allows.
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
    while over > 0 {
        let widest =
            (0..n_columns).filter(|&c| words[c] && widths[c] > MIN_COLUMN).max_by_key(|&c| widths[c]);
        let Some(column) = widest else { break };
        // Down to the next widest column of words, so that equals shrink together.
        let next = (0..n_columns).filter(|&c| words[c] && c != column).map(|c| widths[c]).max().unwrap_or(0);
        let floor = if next < widths[column] { next } else { widths[column] - 1 };
        let step = over.min(widths[column] - floor.max(MIN_COLUMN)).max(1);
        widths[column] -= step;
        over -= step;
    }
    widths
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
}
