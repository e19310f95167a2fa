//! Maps of bytes on a page: a row of boxes for each row of bytes, darker where more accesses happened.

use super::blocks;
use super::plot::MAX_WORDS;
use super::raster::SHADES;
use super::text::{cut, escape};
use crate::bytes::{heats, is_drawn, symbol};
use crate::value::grouped;
use quipu_model::doc::{ByteCell, ByteMap};
use std::fmt::Write as _;

/// Width and height of a byte in the drawing's own units.
const WIDTH: usize = 10;
const HEIGHT: usize = 18;
/// Maximum number of rows drawn.
const MAX_ROWS: usize = 256;
/// Maximum number of parts in the legend.
const MAX_PARTS: usize = 200;

/// Rows of boxes, and a legend of the letters.
pub(super) fn byte_map(map: &ByteMap, out: &mut String) {
    let heats = heats(map);
    let class = |part: u32| match heats.get(part as usize) {
        Some(heat) => (heat * SHADES as f64).ceil().clamp(0.0, SHADES as f64) as usize, // A small number.
        None => 0,
    };
    let n_rows = map.rows.len().min(MAX_ROWS);
    let title = escape(&cut(&map.title, MAX_WORDS));
    let (left, width) = (6 * WIDTH, map.width.max(1) * WIDTH);
    out.push_str("<figure class=\"bytes\">");
    blocks::open_wide("", &map.title, out);
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {} {}\" role=\"img\"><title>{title}</title>",
        left + width,
        n_rows * (HEIGHT + 4),
    );
    for (at, row) in map.rows.iter().take(n_rows).enumerate() {
        let y = at * (HEIGHT + 4);
        let name = escape(&cut(&row.name, 12));
        let _ = write!(out, "<text class=\"at\" x=\"{}\" y=\"{}\">{name}</text>", left - WIDTH, y + 13);
        let mut x = left;
        for run in row.cells.chunk_by(|a, b| a == b) {
            let width = run.len() * WIDTH;
            match run[0] {
                ByteCell::Part(part) => {
                    let of = map.parts.get(part as usize);
                    let (name, heat) = of.map_or(("", 0), |of| (of.name.as_str(), of.heat));
                    let _ = write!(
                        out,
                        "<g><title>{}: {} {}</title><rect class=\"part h0{}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" \
                         height=\"{HEIGHT}\"/><text x=\"{}\" y=\"{}\">{}</text></g>",
                        escape(&cut(name, MAX_WORDS)),
                        grouped(heat),
                        escape(&cut(&map.unit, MAX_WORDS)),
                        class(part),
                        x + width / 2,
                        y + 13,
                        symbol(part)
                    );
                }
                ByteCell::Hole => {
                    let _ = write!(
                        out,
                        "<rect class=\"hole\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{HEIGHT}\"><title>no field</title></rect>"
                    );
                }
                ByteCell::Outside => {}
            }
            x += width;
        }
    }
    out.push_str("</svg></div><ul class=\"legend\">");
    let drawn = map.parts.iter().enumerate().filter(|(part, _)| is_drawn(map, *part));
    for (at, part) in drawn.take(MAX_PARTS) {
        let number = u32::try_from(at).unwrap_or(u32::MAX);
        let note = if part.note.is_empty() { String::new() } else { format!(", {}", part.note) };
        let _ = write!(
            out,
            "<li><svg width=\"12\" height=\"10\" aria-hidden=\"true\"><rect class=\"part h0{}\" width=\"12\" height=\"10\"/></svg> \
             <b>{}</b> {}: {} {}{}</li>",
            class(number),
            symbol(number),
            escape(&cut(&part.name, MAX_WORDS)),
            grouped(part.heat),
            escape(&cut(&map.unit, MAX_WORDS)),
            escape(&cut(&note, MAX_WORDS)),
        );
    }
    out.push_str("</ul></figure>\n");
    let more = map.more + (map.rows.len() - n_rows) as u64;
    if more > 0 {
        blocks::more(more, "rows", out);
    }
}
