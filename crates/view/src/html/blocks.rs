//! Text, figures, facts and tables on a page.

use super::terms::Terms;
use super::text::{cut, escape, short};
use crate::value::{cell_text, grouped, is_number};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use quipu_model::doc::{Cell, Figure, Grid, Listing, Picture};
use std::fmt::Write as _;

/// Maximum number of rows of a table, and the number of bytes after which a table ends.
const MAX_ROWS: usize = 300;
const MAX_GRID_BYTES: usize = 192 << 10;

/// Maximum number of facts or figures in a list, and of columns in a table.
const MAX_FACTS: usize = 200;
const MAX_COLUMNS: usize = 32;

/// Maximum length of text in a cell, and of a sentence.
const MAX_CELL: usize = 240;
const MAX_NOTE: usize = 2000;

/// A table with more rows than this scrolls by itself.
const SCROLL_FROM: usize = 24;

/// Facts that are mere numbers stand in several columns once there are this many of them.
const PACK_FROM: usize = 5;

pub(super) fn note(note: &str, out: &mut String) {
    let _ = writeln!(out, "<p>{}</p>", escape(&cut(note, MAX_NOTE)));
}

/// Maximum number and size of pictures in one place, and maximum length of a listing.
const MAX_PICTURES: usize = 100;
const MAX_PICTURE_BYTES: usize = 64 << 10;
const MAX_LISTING: usize = 64 << 10;

/// Small pictures side by side, each with its name, embedded in the page.
pub(super) fn pictures<'a>(pictures: impl Iterator<Item = &'a Picture>, out: &mut String) {
    let shown = pictures.filter(|picture| picture.png.len() <= MAX_PICTURE_BYTES);
    let mut shown = shown.take(MAX_PICTURES).peekable();
    if shown.peek().is_none() {
        return;
    }
    out.push_str("<div class=\"pictures\">");
    for picture in shown {
        let name = escape(&cut(&picture.name, MAX_CELL));
        let _ = write!(
            out,
            "<figure><img alt=\"{name}\" width=\"{}\" height=\"{}\" src=\"data:image/png;base64,{}\">\
             <figcaption>{name}<br>{}</figcaption></figure>",
            picture.width,
            picture.height,
            BASE64_STANDARD.encode(&picture.png),
            escape(&cut(&picture.note, MAX_CELL))
        );
    }
    out.push_str("</div>\n");
}

/// A text with its lines unchanged.
pub(super) fn listing(listing: &Listing, out: &mut String) {
    let mut text = String::new();
    for line in listing.text.lines() {
        text.push_str(&escape(&line.replace('\t', "    ")));
        text.push('\n');
        if text.len() > MAX_LISTING {
            text.push_str("…\n");
            break;
        }
    }
    let _ = writeln!(out, "<pre class=\"listing\" tabindex=\"0\">{text}</pre>");
}

/// A note on the number of items left out.
pub(super) fn more(n: u64, what: &str, out: &mut String) {
    let _ = writeln!(out, "<p class=\"more\">{} more {what}</p>", grouped(n));
}

pub(super) fn figures(figures: &[Figure], terms: Terms<'_>, out: &mut String) {
    let terms = terms.of(figures.iter().map(|figure| figure.label.as_str()));
    out.push_str("<dl class=\"figures\">");
    for figure in figures.iter().take(MAX_FACTS) {
        let _ = write!(
            out,
            "<div><dt{}>{}</dt><dd>{}</dd><dd class=\"note\">{}</dd></div>",
            terms.title(&figure.label),
            escape(&cut(&figure.label, MAX_CELL)),
            cell(&figure.value),
            escape(&cut(&figure.note, MAX_CELL))
        );
    }
    out.push_str("</dl>\n");
}

/// Labels with values: a list, in several columns if there are many plain numbers; a table if labels have several values.
/// `words` name the table for those who do not see it.
pub(super) fn facts(facts: &[(String, Vec<Cell>)], words: &str, terms: Terms<'_>, out: &mut String) {
    let terms = terms.of(facts.iter().map(|(label, _)| label.as_str()));
    let shown = &facts[..facts.len().min(MAX_FACTS)];
    if shown.iter().all(|(_, cells)| cells.len() <= 1) {
        let mere_numbers = shown.iter().all(|(_, cells)| cells.iter().all(is_number));
        let many = if mere_numbers && shown.len() >= PACK_FROM { " many" } else { "" };
        let _ = write!(out, "<dl class=\"facts{many}\">");
        for (label, cells) in shown {
            let value = cells.first().map(cell).unwrap_or_default();
            let (title, label) = (terms.title(label), escape(&cut(label, MAX_CELL)));
            let _ = write!(out, "<div><dt{title}>{label}</dt><dd>{value}</dd></div>");
        }
        out.push_str("</dl>\n");
    } else {
        open_wide("", words, out);
        out.push_str("<table class=\"facts\">");
        for (label, cells) in shown {
            let (title, label) = (terms.title(label), escape(&cut(label, MAX_CELL)));
            let _ = write!(out, "<tr><th scope=\"row\"{title}>{label}</th>");
            cells.iter().take(MAX_COLUMNS).for_each(|cell| table_cell(cell, out));
            out.push_str("</tr>");
        }
        out.push_str("</table></div>\n");
    }
    if facts.len() > shown.len() {
        more((facts.len() - shown.len()) as u64, "facts", out);
    }
}

/// The opening element around something that may be too wide, which scrolls by itself, also with keys.
pub(super) fn open_wide(class: &str, words: &str, out: &mut String) {
    let words = escape(&cut(words, MAX_CELL));
    let _ = write!(out, "<div class=\"wide{class}\" role=\"group\" aria-label=\"{words}\" tabindex=\"0\">");
}

/// A table; a click on the head of a column sorts by it. `words` name it for those who do not see it.
pub(super) fn grid(grid: &Grid, words: &str, terms: Terms<'_>, out: &mut String) {
    let terms = terms.of(grid.head.iter().map(String::as_str));
    let columns = grid.head.len().min(MAX_COLUMNS);
    let (rows, total) = match grid.rows.split_last() {
        Some((last, rows)) if is_total(last) && !rows.is_empty() => (rows, Some(last)),
        _ => (grid.rows.as_slice(), None),
    };
    let scroll = if rows.len() > SCROLL_FROM { " scroll" } else { "" };
    open_wide(scroll, words, out);
    out.push_str("<table class=\"grid\"><thead><tr>");
    for (column, head) in grid.head.iter().take(columns).enumerate() {
        let is_numeric = rows.iter().filter_map(|row| row.get(column)).any(is_number);
        let class = if is_numeric { " class=\"n\"" } else { "" };
        let (unit, title) = (unit_of(rows, column), terms.title(head));
        let head = escape(&cut(head, MAX_CELL));
        let _ =
            write!(out, "<th scope=\"col\"{class}{unit}{title}><button type=\"button\">{head}</button></th>");
    }
    out.push_str("</tr></thead>\n<tbody>");
    let start = out.len();
    let mut n_shown = 0;
    for row in rows.iter().take(MAX_ROWS) {
        if out.len() - start > MAX_GRID_BYTES {
            break;
        }
        table_row(row, columns, out);
        n_shown += 1;
    }
    out.push_str("</tbody>");
    if let Some(total) = total {
        out.push_str("<tfoot>");
        table_row(total, columns, out);
        out.push_str("</tfoot>");
    }
    out.push_str("</table></div>\n");
    let n_more = grid.more.saturating_add((rows.len() - n_shown) as u64);
    if n_more > 0 {
        more(n_more, "not shown", out);
    }
}

/// The attribute with the unit of a column's values as cells carry them for sorting and copying, with a leading space; empty
/// if they are written as they are.
fn unit_of(rows: &[Vec<Cell>], column: usize) -> &'static str {
    let unit = |row: &Vec<Cell>| match row.get(column)? {
        Cell::Bytes(_) => Some(" data-unit=\"bytes\""),
        Cell::Micros(_) => Some(" data-unit=\"µs\""),
        Cell::Share(_) => Some(" data-unit=\"0 to 1\""),
        Cell::Empty | Cell::Text(_) | Cell::Code(_) | Cell::Count(_) | Cell::Addr(_) | Cell::Real(..) => None,
    };
    rows.iter().find_map(unit).unwrap_or_default()
}

fn is_total(row: &[Cell]) -> bool {
    matches!(row.first(), Some(Cell::Text(text)) if text == "total")
}

fn table_row(row: &[Cell], columns: usize, out: &mut String) {
    out.push_str("<tr>");
    row.iter().take(columns).for_each(|cell| table_cell(cell, out));
    out.push_str("</tr>\n");
}

/// A cell of a table. If sorting by its text would be wrong, it carries the value to sort by.
fn table_cell(value: &Cell, out: &mut String) {
    let (class, key) = match value {
        Cell::Empty => ("", None),
        // A number that names something, such as a thread, is a text that sorts as a number.
        Cell::Text(_) => ("", None),
        Cell::Code(_) => (" class=\"c\"", None),
        Cell::Count(_) => (" class=\"n\"", None),
        Cell::Addr(_) => (" class=\"n c\"", None),
        Cell::Bytes(number) | Cell::Micros(number) => (" class=\"n\"", Some(number.to_string())),
        Cell::Share(number) => (" class=\"n s\"", Some(format!("{number:.9}"))),
        Cell::Real(number, _) => (" class=\"n\"", Some(format!("{number:.9}"))),
    };
    let _ = match key {
        Some(key) => write!(out, "<td{class} data-v=\"{key}\">"),
        None => write!(out, "<td{class}>"),
    };
    if let Cell::Share(share) = value {
        let width = short(share.clamp(0.0, 1.0) * 100.0);
        let _ = write!(
            out,
            "<svg class=\"meter\" viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
             <rect width=\"{width}\" height=\"1\"/></svg>"
        );
    }
    out.push_str(&cell(value));
    out.push_str("</td>");
}

fn cell(cell: &Cell) -> String {
    escape(&cut(&cell_text(cell), MAX_CELL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_stands_in_the_page_itself() {
        let png = b"foobar".to_vec();
        let picture =
            Picture { name: "a".to_owned(), note: String::new(), width: 1, height: 2, png, at: None };
        let mut out = String::new();
        pictures([&picture].into_iter(), &mut out);
        assert!(out.contains("src=\"data:image/png;base64,Zm9vYmFy\""), "{out}");
    }
}
