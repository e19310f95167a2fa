//! Documents as comma-separated values: one line for each cell, so that tables of any shape fit into one file.

use quipu_model::doc::{Block, Cell, Document};
use quipu_model::harmless;
use std::fmt::Write as _;

/// Names of the columns that [`document_cells`] fills.
pub const CELL_COLUMNS: &str = "table,row,column,value";

/// Appends a line for each cell of a document: what `before` holds (which ends in a comma, or is empty), the table's title,
/// the row, the column and the value. Rows are counted from 1 where they have no name of their own, columns of several values
/// likewise. Values are bare: counts without separators, shares from 0 to 1, times in microseconds.
pub fn document_cells(document: &Document, before: &str, out: &mut String) {
    let mut lines = Lines { before, table: &document.title, out };
    for block in &document.blocks {
        lines.table = match title(block) {
            "" => &document.title,
            title => title,
        };
        lines.block(block);
    }
}

fn title(block: &Block) -> &str {
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
    }
}

struct Lines<'a> {
    before: &'a str,
    table: &'a str,
    out: &'a mut String,
}

impl Lines<'_> {
    fn block(&mut self, block: &Block) {
        match block {
            // Sentences are for people.
            Block::Note(_) => {}
            Block::Pictures(pictures) => {
                for picture in &pictures.pictures {
                    self.cell(&picture.name, "note", &Cell::Text(picture.note.clone()));
                }
            }
            Block::ByteMap(map) => {
                for part in &map.parts {
                    self.cell(&part.name, &map.unit, &Cell::Count(part.heat));
                }
            }
            Block::Listing(listing) => {
                for (n, line) in (1u64..).zip(listing.text.lines()) {
                    self.cell(&n.to_string(), "text", &Cell::Text(line.to_owned()));
                }
            }
            Block::Figures(figures) => {
                figures.iter().for_each(|figure| self.cell(&figure.label, "value", &figure.value));
            }
            Block::Facts(facts) => {
                for (name, cells) in facts {
                    (1u64..).zip(cells).for_each(|(n, cell)| self.cell(name, &n.to_string(), cell));
                }
            }
            Block::Grid(grid) => {
                for (n, row) in (1u64..).zip(&grid.rows) {
                    for (head, cell) in grid.head.iter().zip(row) {
                        self.cell(&n.to_string(), head, cell);
                    }
                }
            }
            Block::Bars(bars) => {
                bars.bars.iter().for_each(|(name, part)| self.cell(name, "value", &Cell::Count(*part)));
            }
            Block::Series(series) => {
                for line in &series.lines {
                    self.numbers(&line.name, line.values.iter().copied());
                }
            }
            Block::Lanes(lanes) => {
                for lane in &lanes.lanes {
                    self.numbers(&lane.name, lane.busy.iter().map(|busy| f64::from(*busy)));
                }
            }
            Block::HeatMap(map) => {
                for row in map.bands.iter().flat_map(|band| &band.rows) {
                    for (n, count) in (1u64..).zip(&row.cells) {
                        self.cell(&row.name, &n.to_string(), &Cell::Count(*count));
                    }
                }
            }
            Block::Curve(curve) => {
                for line in &curve.lines {
                    for (value, share) in &line.points {
                        self.cell(&line.name, &value.to_string(), &Cell::Share(*share));
                    }
                }
            }
        }
    }

    fn numbers(&mut self, row: &str, values: impl Iterator<Item = f64>) {
        for (n, value) in (1u64..).zip(values) {
            self.cell(row, &n.to_string(), &Cell::Share(value));
        }
    }

    fn cell(&mut self, row: &str, column: &str, cell: &Cell) {
        self.out.push_str(self.before);
        for text in [self.table, row, column] {
            csv_text(text, self.out);
            self.out.push(',');
        }
        // Writing to a string cannot fail.
        let _ = match cell {
            Cell::Empty => Ok(()),
            Cell::Text(text) | Cell::Code(text) => {
                csv_text(text, self.out);
                Ok(())
            }
            Cell::Count(number) | Cell::Bytes(number) | Cell::Micros(number) => write!(self.out, "{number}"),
            Cell::Addr(addr) => write!(self.out, "{addr:#x}"),
            Cell::Share(share) => write!(self.out, "{share}"),
            Cell::Real(number, digits) => write!(self.out, "{number:.*}", usize::from(*digits)),
        };
        self.out.push('\n');
    }
}

/// Appends a text as a cell.
fn csv_text(text: &str, out: &mut String) {
    let mut cell = Vec::new();
    harmless::csv_cell(text.as_bytes(), false, &mut cell);
    out.push_str(&String::from_utf8_lossy(&cell));
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_model::doc::Grid;

    #[test]
    fn each_cell_has_a_line_of_its_own() {
        let facts = Block::Facts(vec![("distinct lines".into(), vec![Cell::Count(1234), Cell::Bytes(64)])]);
        let grid = Grid {
            title: "hot, or not".into(),
            head: vec!["pc".into(), "text".into(), "share".into()],
            rows: vec![vec![Cell::Addr(16), Cell::Code("mov \"a\",b".into()), Cell::Share(0.25)]],
            more: 7,
        };
        let document = Document::new("Lines").with(facts).with(Block::Grid(grid));
        let mut out = String::new();
        document_cells(&document, "hot,", &mut out);
        assert_eq!(
            out,
            "hot,Lines,distinct lines,1,1234\n\
             hot,Lines,distinct lines,2,64\n\
             hot,\"hot, or not\",1,pc,0x10\n\
             hot,\"hot, or not\",1,text,\"mov \"\"a\"\",b\"\n\
             hot,\"hot, or not\",1,share,0.25\n"
        );
    }
}
