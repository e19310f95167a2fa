//! Paints a document from top to bottom; `grid` paints tables, `chart` and `map` paint drawings.

use crate::bytes;
use crate::chart;
use crate::grid::{self, Slot};
use crate::look::Look;
use crate::map;
use crate::value::{cell_text, columns, harmless, is_number};
use quipu_model::doc::{Block, Cell, Document, Figure, Listing, Picture, Pictures};
use quipu_model::number::counted;

/// The start of every line of a block.
pub(crate) const INDENT: &str = "  ";

const NO_BREAK_SPACE: char = '\u{a0}';

/// Minimum number of purely numeric facts that are painted side by side.
const PACK_FROM: usize = 6;

/// Appends `document` to `out`: the title, then the blocks, indented. Ends with a newline; separate documents with an empty
/// line.
///
/// ```
/// use quipu_model::doc::{Block, Cell, Document};
/// use quipu_view::{Look, paint};
///
/// let counts = Block::Facts(vec![("loads".into(), vec![Cell::Count(1234), Cell::Share(0.25)])]);
/// let mut out = String::new();
/// paint(&Document::new("Counts").with(counts), &Look::page(80), &mut out);
/// assert_eq!(out, "Counts\n  loads  1,234  25.0 %\n");
/// ```
pub fn paint(document: &Document, look: &Look, out: &mut String) {
    if !document.title.is_empty() {
        paint_title(&document.title, "", look, out);
    }
    for (i, block) in document.blocks.iter().enumerate() {
        if i > 0 && !title_of(block).is_empty() {
            out.push('\n');
        }
        paint_block(block, look, out);
    }
}

pub(crate) fn title_of(block: &Block) -> &str {
    match block {
        Block::Note(_) | Block::Figures(_) | Block::Facts(_) => "",
        Block::Grid(grid) => &grid.title,
        Block::Bars(bars) => &bars.title,
        Block::Series(series) => &series.title,
        Block::Lanes(lanes) => &lanes.title,
        Block::HeatMap(map) => &map.title,
        Block::Curve(curve) => &curve.title,
        Block::ByteMap(map) => &map.title,
        Block::Pictures(pictures) => &pictures.title,
        Block::Listing(listing) => &listing.title,
        Block::Folds(folds) => &folds.title,
    }
}

fn paint_block(block: &Block, look: &Look, out: &mut String) {
    let title = title_of(block);
    if !title.is_empty() {
        paint_title(title, INDENT, look, out);
    }
    match block {
        Block::Note(text) => wrap(text, look, out),
        Block::Figures(figures) => paint_facts(&figure_facts(figures), look, out),
        Block::Facts(facts) => paint_facts(facts, look, out),
        Block::Grid(grid) => grid::paint_grid(grid, look, out),
        Block::Bars(bars) => chart::paint_bars(bars, look, out),
        Block::Series(series) => chart::paint_series(series, look, out),
        Block::Lanes(lanes) => chart::paint_lanes(lanes, look, out),
        Block::HeatMap(heat) => map::paint_heat(heat, look, out),
        Block::Curve(curve) => map::paint_curve(curve, look, out),
        Block::ByteMap(map) => bytes::paint_bytes(map, look, out),
        Block::Pictures(pictures) => paint_facts(&picture_facts(pictures), look, out),
        Block::Listing(listing) => paint_listing(listing, out),
        Block::Folds(folds) => {
            let n = folds.folds.len() as u64;
            wrap(&format!("{}, on pages only", counted(n, &folds.noun)), look, out);
        }
    }
}

/// A headline, on several lines where a line that is too wide would wrap.
fn paint_title(title: &str, indent: &str, look: &Look, out: &mut String) {
    let title = harmless(title);
    let is_wide = indent.len() + columns(&title) > look.width;
    out.push_str(indent);
    let lines = if look.cuts() && is_wide { folded(&title, indent, look) } else { title };
    look.heading().write(&lines, out);
    out.push('\n');
}

/// A sentence, broken between words.
fn wrap(text: &str, look: &Look, out: &mut String) {
    out.push_str(INDENT);
    out.push_str(&folded(&harmless(text), INDENT, look));
    out.push('\n');
}

/// Breaks a text between words into lines that fit after `indent`, which is missing before the first; no-break spaces keep
/// words together.
fn folded(text: &str, indent: &str, look: &Look) -> String {
    let mut lines = String::with_capacity(text.len());
    let mut used = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let width = columns(word);
        if used == 0 {
            used = indent.len() + width;
        } else if used + 1 + width > look.width {
            lines.push('\n');
            lines.push_str(indent);
            used = indent.len() + width;
        } else {
            lines.push(' ');
            used += 1 + width;
        }
        lines.push_str(&word.replace(NO_BREAK_SPACE, " "));
    }
    lines
}

/// Figures as facts: characters have only one size.
fn figure_facts(figures: &[Figure]) -> Vec<(String, Vec<Cell>)> {
    let note =
        |figure: &Figure| if figure.note.is_empty() { Cell::Empty } else { figure.note.clone().into() };
    let fact = |figure: &Figure| (figure.label.clone(), vec![figure.value.clone(), note(figure)]);
    figures.iter().map(fact).collect()
}

/// Pictures as facts: only their names can be shown.
fn picture_facts(pictures: &Pictures) -> Vec<(String, Vec<Cell>)> {
    let fact = |picture: &Picture| (picture.name.clone(), vec![Cell::Text(picture.note.clone())]);
    pictures.pictures.iter().map(fact).collect()
}

/// Paints the lines unchanged, indented.
fn paint_listing(listing: &Listing, out: &mut String) {
    for line in listing.text.lines() {
        out.push_str(INDENT);
        out.push_str(INDENT);
        out.push_str(&harmless(&line.replace('\t', "    ")));
        out.push('\n');
    }
}

/// Paints labels with values. A long list of plain numbers is folded into two or three lists side by side.
fn paint_facts(facts: &[(String, Vec<Cell>)], look: &Look, out: &mut String) {
    let mere_numbers = facts.iter().all(|(_, cells)| matches!(cells.as_slice(), [cell] if is_number(cell)));
    let n_lists = if mere_numbers { lists_that_fit(facts, look) } else { 1 };
    let n_lines = facts.len().div_ceil(n_lists);
    let mut lines = Vec::with_capacity(n_lines);
    for line in 0..n_lines {
        let mut slots = Vec::new();
        for (label, cells) in facts.iter().skip(line).step_by(n_lines.max(1)) {
            slots.push(Slot { text: harmless(label), right: false, ink: Some(look.label()) });
            slots.extend(cells.iter().map(|cell| Slot::of(cell, look)));
        }
        lines.push(slots);
    }
    grid::write_lines(lines, look, out);
}

fn lists_that_fit(facts: &[(String, Vec<Cell>)], look: &Look) -> usize {
    if facts.len() < PACK_FROM {
        return 1;
    }
    let label = facts.iter().map(|(label, _)| columns(label)).max().unwrap_or(0);
    let value = facts.iter().flat_map(|(_, cells)| cells).map(|cell| columns(&cell_text(cell))).max();
    let list = label + value.unwrap_or(0) + 2 * grid::GAP.len();
    (look.width.saturating_sub(INDENT.len()) / list.max(1)).clamp(1, 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::Overflow;
    use quipu_model::Paint;
    use quipu_model::doc::Grid;

    fn check(document: &Document, look: &Look, expected: &str) {
        let mut out = String::new();
        paint(document, look, &mut out);
        assert_eq!(out, expected);
    }

    #[test]
    fn facts_line_up() {
        let facts = Block::Facts(vec![
            ("format".into(), vec!["drmemtrace".into(), "version 7".into()]),
            ("size".into(), vec![Cell::Bytes(65536), "on disk".into()]),
        ]);
        check(
            &Document::new("Trace").with(facts),
            &Look::page(80),
            "Trace\n  format  drmemtrace  version 7\n  size      64.0 KiB  on disk\n",
        );
    }

    #[test]
    fn headlines_are_folded_where_lines_would_wrap() {
        let title = "a headline of more than forty characters, all of them needed";
        let rows = vec![vec![Cell::Count(1)]];
        let grid = Grid { title: title.into(), head: vec!["n".into()], rows, more: 0 };
        let document = Document::new(title).with(Block::Grid(grid));
        let mut out = String::new();
        paint(&document, &Look::page(40), &mut out);
        let folded = "a headline of more than forty\ncharacters, all of them needed\n";
        assert!(out.starts_with(folded) && out.contains("\n  characters, all of them needed\n"), "{out}");
        out.clear();
        paint(&document, &Look { overflow: Overflow::Run, ..Look::page(40) }, &mut out);
        assert!(out.starts_with(&format!("{title}\n")), "{out}");
    }

    #[test]
    fn figures_are_facts_with_a_note() {
        let figure =
            |label: &str, value, note: &str| Figure { label: label.into(), value, note: note.into() };
        let figures = vec![figure("loads", Cell::Count(12), "of 48"), figure("time", Cell::Micros(5), "")];
        check(
            &Document::new("").with(Block::Figures(figures)),
            &Look::page(80),
            "  loads       12  of 48\n  time   5.00 µs\n",
        );
    }

    #[test]
    fn many_mere_numbers_stand_side_by_side() {
        let facts = (0..7).map(|i| (format!("name{i}"), vec![Cell::Count(10u64.pow(i))])).collect();
        check(
            &Document::new("").with(Block::Facts(facts)),
            &Look::page(50),
            concat!(
                "  name0      1  name4     10,000\n",
                "  name1     10  name5    100,000\n",
                "  name2    100  name6  1,000,000\n",
                "  name3  1,000\n",
            ),
        );
    }

    #[test]
    fn a_titled_block_stands_apart_from_the_one_before() {
        let grid = Grid { title: "Second".into(), head: vec!["n".into()], rows: vec![], more: 0 };
        check(
            &Document::new("D").with(Block::Note("first".into())).with(Block::Grid(grid)),
            &Look::page(80),
            "D\n  first\n\n  Second\n  n\n",
        );
    }

    #[test]
    fn a_long_sentence_breaks_between_words() {
        check(
            &Document::new("").with(Block::Note("aaaa ".repeat(12))),
            &Look::page(40),
            "  aaaa aaaa aaaa aaaa aaaa aaaa aaaa\n  aaaa aaaa aaaa aaaa aaaa\n",
        );
    }

    #[test]
    fn no_break_spaces_keep_words_together() {
        check(
            &Document::new("").with(Block::Note(format!("{}bb\u{a0}cc", "aaaa ".repeat(7)))),
            &Look::page(40),
            "  aaaa aaaa aaaa aaaa aaaa aaaa aaaa\n  bb cc\n",
        );
    }

    #[test]
    fn colour_wraps_titles_and_labels_only() {
        let facts = Block::Facts(vec![("a".into(), vec![Cell::Count(1)])]);
        check(
            &Document::new("T").with(facts),
            &Look { paint: Paint::ANSI, ..Look::page(80) },
            "\x1b[1mT\x1b[0m\n  \x1b[2ma\x1b[0m  1\n",
        );
    }
}
