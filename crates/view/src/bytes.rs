//! Maps of the bytes of something in memory, drawn with a letter for each byte.

use crate::document::INDENT;
use crate::grid::{self, Slot};
use crate::look::Look;
use crate::map::heat;
use crate::value::{grouped, harmless};
use quipu_model::doc::{ByteCell, ByteMap, BytePart, Cell};

/// Letters for parts; all further parts share `OTHER`.
const SYMBOLS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// The letter of all further parts.
const OTHER: char = '*';
/// Stands for a byte that belongs to no part.
const HOLE: char = '.';

/// The letter of a part.
pub(crate) fn symbol(part: u32) -> char {
    SYMBOLS.get(part as usize).map_or(OTHER, |letter| char::from(*letter))
}

/// Heat of each part relative to the hottest, from 0 to 1.
pub(crate) fn heats(map: &ByteMap) -> Vec<f64> {
    let hottest = map.parts.iter().map(|part| part.heat).max().unwrap_or(0);
    map.parts.iter().map(|part| heat(part.heat as f64, hottest as f64)).collect() // Shown in a few shades.
}

/// True if a part is drawn.
pub(crate) fn is_drawn(map: &ByteMap, part: usize) -> bool {
    let is_it = |cell: &ByteCell| matches!(cell, ByteCell::Part(other) if *other as usize == part);
    map.rows.iter().any(|row| row.cells.iter().any(is_it))
}

/// A line for each row of bytes, then a legend of the letters. Letters are coloured by heat.
pub(crate) fn paint_bytes(map: &ByteMap, look: &Look, out: &mut String) {
    let heats = heats(map);
    let width = map.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    for row in &map.rows {
        let name = harmless(&row.name);
        out.push_str(INDENT);
        look.label().write(&format!("{name:>width$}"), out);
        out.push_str("  ");
        for run in row.cells.chunk_by(|a, b| a == b) {
            let (letter, ink) = match run[0] {
                ByteCell::Part(part) => {
                    (symbol(part), look.heat(heats.get(part as usize).copied().unwrap_or(0.0)))
                }
                ByteCell::Hole => (HOLE, look.label()),
                ByteCell::Outside => (' ', look.label()),
            };
            ink.write(&letter.to_string().repeat(run.len()), out);
        }
        if !row.note.is_empty() {
            out.push_str("  ");
            out.push_str(&harmless(&row.note));
        }
        while out.ends_with(' ') {
            out.pop();
        }
        out.push('\n');
    }
    let more = |n: u64, what: &str, out: &mut String| {
        out.push_str(INDENT);
        look.label().write(&format!("{} more {what}", grouped(n)), out);
        out.push('\n');
    };
    if map.more > 0 {
        more(map.more, "rows", out);
    }
    let drawn = || map.parts.iter().enumerate().filter(|(at, _)| is_drawn(map, *at));
    let legend = drawn().take(SYMBOLS.len()).map(|(at, part)| {
        let heat = heats.get(at).copied().unwrap_or(0.0);
        let letter = symbol(u32::try_from(at).unwrap_or(u32::MAX)).to_string();
        let mut slots = vec![
            Slot { text: letter, right: false, ink: Some(look.heat(heat)) },
            Slot::of(&part.name.as_str().into(), look),
        ];
        slots.push(Slot::of(&Cell::Count(part.heat), look));
        slots.push(Slot { text: note(part, &map.unit), right: false, ink: Some(look.label()) });
        slots
    });
    let has_holes = map.rows.iter().any(|row| row.cells.contains(&ByteCell::Hole));
    let hole = has_holes.then(|| {
        vec![
            Slot { text: HOLE.to_string(), right: false, ink: Some(look.label()) },
            Slot { text: "no field".to_owned(), right: false, ink: Some(look.label()) },
        ]
    });
    grid::write_lines(legend.chain(hole).collect(), look, out);
    let left = drawn().count().saturating_sub(SYMBOLS.len());
    if left > 0 {
        more(left as u64, &format!("fields, {OTHER}"), out);
    }
}

fn note(part: &BytePart, unit: &str) -> String {
    let unit = harmless(unit);
    if part.note.is_empty() { unit } else { format!("{unit}, {}", harmless(&part.note)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_model::Paint;
    use quipu_model::doc::ByteRow;

    #[test]
    fn bytes_are_letters_and_holes_are_seen_without_colour() {
        let part = |name: &str, heat| BytePart { name: name.to_owned(), note: "hot".to_owned(), heat };
        let map = ByteMap {
            title: "T".to_owned(),
            unit: "misses".to_owned(),
            width: 4,
            parts: vec![part("key", 1200), part("value", 0)],
            rows: vec![
                ByteRow {
                    name: "0".to_owned(),
                    cells: vec![ByteCell::Part(0), ByteCell::Hole, ByteCell::Part(1), ByteCell::Part(1)],
                    note: String::new(),
                },
                ByteRow {
                    name: "16".to_owned(),
                    cells: vec![ByteCell::Part(1), ByteCell::Outside, ByteCell::Outside, ByteCell::Outside],
                    note: "end".to_owned(),
                },
            ],
            more: 3,
        };
        let mut out = String::new();
        paint_bytes(&map, &Look::page(60), &mut out);
        assert_eq!(
            out,
            "   0  A.BB\n  16  B     end\n  3 more rows\n  A  key       1,200  misses, hot\n  B  value         0  misses, hot\n  .  no field\n"
        );
        let mut coloured = String::new();
        paint_bytes(&map, &Look { paint: Paint::ANSI, ..Look::page(60) }, &mut coloured);
        assert!(coloured.contains("\u{1b}[1m\u{1b}[31mA"), "{coloured:?}");
    }
}
