//! Lays out rows and columns: widths, alignment, and cutting if the surface is too narrow.

use crate::document::INDENT;
use crate::look::{Ink, Look};
use crate::value::{cell_ink, cell_text, columns, cut, grouped, harmless, is_number, is_number_text};
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

/// Maximum number of columns that are repeated where a table is folded.
const MAX_KEYS: usize = 6;

/// Paints the head, the rows, and the number of rows left out. Heads of numeric columns are right-aligned like their cells. A
/// table that stays too wide is folded: the columns without room follow below, after those that tell the rows apart.
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
    let lines: Vec<Vec<Slot>> = std::iter::once(head.collect()).chain(rows).collect();
    for (i, part) in folded(lines, look).into_iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        write_lines(part, look, out);
    }
    if grid.more > 0 {
        out.push_str(INDENT);
        look.label().write(&format!("{} more", grouped(grid.more)), out);
        out.push('\n');
    }
}

/// Divides the columns of a table with a head into parts that fit into the width.
fn folded(lines: Vec<Vec<Slot>>, look: &Look) -> Vec<Vec<Vec<Slot>>> {
    let room = look.width.saturating_sub(INDENT.len());
    let all = |widths: &[usize]| widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
    let widths = if look.cuts() { fit(&lines, room) } else { Vec::new() };
    let n_columns = widths.len();
    if all(&widths) <= room || n_columns < 2 {
        return vec![lines];
    }
    let n_keys = n_keys(&lines).min(n_columns - 1);
    // Keys that take most of the room would be repeated for each single column.
    let n_keys = if all(&widths[..n_keys]) > room / 2 { 1 } else { n_keys };
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut used = 0;
    for (column, width) in widths.iter().enumerate().skip(n_keys) {
        let width = GAP.len() + width;
        match parts.last_mut() {
            Some(part) if used + width <= room => part.push(column),
            _ => {
                used = all(&widths[..n_keys]);
                parts.push((0..n_keys).chain([column]).collect());
            }
        }
        used += width;
    }
    let of = |part: &Vec<usize>| -> Vec<Vec<Slot>> {
        lines
            .iter()
            .map(|line| part.iter().filter_map(|column| line.get(*column)).cloned().collect())
            .collect()
    };
    parts.iter().map(of).collect()
}

/// Number of columns at the left that tell the rows apart: one if a few do not suffice.
fn n_keys(lines: &[Vec<Slot>]) -> usize {
    let differ = |n: &usize| {
        let keys: HashSet<Vec<&str>> =
            lines.iter().map(|line| line.iter().take(*n).map(|slot| slot.text.as_str()).collect()).collect();
        keys.len() == lines.len()
    };
    (1..=MAX_KEYS).find(differ).unwrap_or(1)
}

/// Writes lines of columns, each column as wide as its widest text. If that is too wide, cuts the widest columns of words.
pub(crate) fn write_lines(mut lines: Vec<Vec<Slot>>, look: &Look, out: &mut String) {
    let room = if look.cuts() { look.width.saturating_sub(INDENT.len()) } else { usize::MAX };
    let widths = fit(&lines, room);
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
    let mut least = vec![MIN_COLUMN; n_columns];
    for line in lines {
        for (column, slot) in line.iter().enumerate() {
            let width = columns(&slot.text);
            widths[column] = widths[column].max(width);
            words[column] &= !slot.right;
            if is_number_text(&slot.text) {
                least[column] = least[column].max(width);
            }
        }
    }
    let mut over =
        (widths.iter().sum::<usize>() + GAP.len() * n_columns.saturating_sub(1)).saturating_sub(total);
    let Some(first) = words.iter().position(|is_words| *is_words).filter(|_| over > 0) else { return widths };
    let all: Vec<usize> = (0..n_columns).filter(|column| words[*column]).collect();
    let rest: Vec<usize> = all.iter().copied().filter(|column| *column != first).collect();
    shrink(&mut widths, &rest, &least, &mut over);
    least[first] = least[first].max(telling(lines, first, widths[first])).max(widths[first].min(MIN_FIRST));
    shrink(&mut widths, &[first], &least, &mut over);
    widths
}

/// Narrows the widest columns in `among`, until `over` is 0 or all have their `least` width.
fn shrink(widths: &mut [usize], among: &[usize], least: &[usize], over: &mut usize) {
    while *over > 0 {
        let widest = among.iter().copied().filter(|&c| widths[c] > least[c]).max_by_key(|&c| widths[c]);
        let Some(column) = widest else { break };
        // Down to the next widest column, so that equals shrink together.
        let next = among.iter().filter(|&&c| c != column).map(|&c| widths[c]).max().unwrap_or(0);
        let floor = if next < widths[column] { next } else { widths[column] - 1 };
        let step = (*over).min(widths[column] - floor.max(least[column])).max(1);
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
    use crate::look::Overflow;

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
    fn a_table_of_many_numbers_continues_below_itself() {
        let row = |name: &str, n: u64| {
            vec![Cell::from(name), Cell::Count(n), Cell::Count(2 * n), Cell::Count(3 * n)]
        };
        let grid = Grid {
            title: String::new(),
            head: ["level", "hits of all", "misses of all", "evicted lines"].map(str::to_owned).into(),
            rows: vec![row("L1D", 1_000_000), row("LL", 7)],
            more: 3,
        };
        let lines = [
            "  level  hits of all  misses of all\n",
            "  L1D      1,000,000      2,000,000\n",
            "  LL               7             14\n",
            "\n",
            "  level  evicted lines\n",
            "  L1D        3,000,000\n",
            "  LL                21\n",
            "  3 more\n",
        ];
        check(&grid, 40, &lines.concat());
        // In a file, lines are as long as they are.
        let mut out = String::new();
        paint_grid(&grid, &Look { overflow: Overflow::Run, ..Look::page(40) }, &mut out);
        assert!(out.starts_with("  level  hits of all  misses of all  evicted lines\n"), "{out}");
    }

    #[test]
    fn numbers_in_columns_of_words_are_not_cut() {
        let row = |place: &str, tid: &str| vec![Cell::from(place), Cell::from(tid), Cell::Count(1)];
        let grid = Grid {
            title: String::new(),
            head: ["place", "thread", "n"].map(str::to_owned).into(),
            rows: vec![row("a_rather_long_name_of_a_place.c:12", "18446744073709551615")],
            more: 0,
        };
        let mut out = String::new();
        paint_grid(&grid, &Look::page(40), &mut out);
        assert!(out.contains("18446744073709551615"), "{out}");
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
        check(&grid, 46, &lines.concat());
    }
}
