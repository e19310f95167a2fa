//! The results as a document.

use super::UNKNOWN;
use super::report::{FieldRow, Numbers, PartRow, TypeReport, TypeRow};
use quipu_model::ReportBody;
use quipu_model::doc::{Block, ByteCell, ByteMap, BytePart, ByteRow, Cell, Document, Figure, Grid};
use quipu_model::number::{counted, grouped};
use quipu_model::pass::Detail;
use quipu_symbols::layout::Cell as Byte;

/// Types shown on a screen that also has other results.
const BRIEF_TYPES: usize = 5;
/// Types shown with a byte map.
const MAX_PICTURES: usize = 10;
/// Lines of a type that are drawn.
const MAX_LINES: usize = 32;

impl ReportBody for TypeReport {
    fn document(&self, detail: Detail) -> Document {
        let mut document = Document::new("Types and fields");
        if self.all.accesses == 0 || (detail == Detail::Brief && self.types.is_empty()) {
            return document;
        }
        document.blocks.push(Block::Note(format!("machine: {}", self.machine)));
        document.blocks.push(Block::Figures(self.figures()));
        if !self.has_types {
            let how = "There is no debug information and no file of types: types are names of annotations, and have no fields.";
            document.blocks.push(Block::Note(how.to_owned()));
        } else if self.all.accesses == self.unknown.accesses {
            let how = "No access has a type: allocations have types in recordings of programs that were compiled with `quipu cc -g` or `quipu c++ -g`, global variables if `--base` is where the program was loaded.";
            document.blocks.push(Block::Note(how.to_owned()));
        }
        if detail == Detail::Brief {
            document.blocks.push(Block::Grid(self.type_grid(BRIEF_TYPES)));
            return document;
        }
        document.blocks.push(Block::Grid(self.type_grid(usize::MAX)));
        for row in self.types.iter().filter(|row| row.numbers.accesses > 0 && row.is_known).take(MAX_PICTURES)
        {
            document.blocks.push(Block::Grid(self.field_grid(row)));
            if !row.bytes.is_empty() {
                document.blocks.push(Block::ByteMap(self.picture(row)));
            }
        }
        if !self.sites.is_empty() {
            document.blocks.push(Block::Grid(self.site_grid()));
        }
        if self.threads.len() > 1 {
            document.blocks.push(Block::Grid(self.thread_grid()));
            document.blocks.push(Block::Note(format!(
                "Moves of lines from thread to thread: {} for data, {} for nothing but the line (false sharing).",
                grouped(self.moves),
                grouped(self.false_sharing)
            )));
            if !self.shared.is_empty() {
                document.blocks.push(Block::Grid(self.shared_grid()));
            }
        }
        if self.regions_left_out > 0 {
            let n = counted(self.regions_left_out, "region");
            let what = format!("Left out, because too many are live at once: {n}.");
            document.blocks.push(Block::Note(what));
        }
        document
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64 // Shares of counts.
}

/// File name and line of a place. The folders are left out here; the JSON form has them.
fn file_and_line(place: &str) -> &str {
    place.rsplit('/').next().unwrap_or(place)
}

/// Table cells: accesses, reads, writes, lines, misses.
fn cells(numbers: &Numbers) -> Vec<Cell> {
    let counts = [numbers.accesses, numbers.reads, numbers.writes, numbers.lines];
    counts.iter().chain(&numbers.misses).map(|count| Cell::Count(*count)).collect()
}

impl TypeReport {
    fn figures(&self) -> Vec<Figure> {
        let known = self.all.accesses - self.unknown.accesses - self.untyped.accesses;
        let mut figures = vec![
            Figure {
                label: "accesses with a type".into(),
                value: Cell::Share(share(known, self.all.accesses)),
                note: format!(
                    "{:.1} % in no region, {:.1} % in regions of types that were not found",
                    100.0 * share(self.unknown.accesses, self.all.accesses),
                    100.0 * share(self.untyped.accesses, self.all.accesses)
                ),
            },
            Figure { label: "accesses".into(), value: Cell::Count(self.all.accesses), note: String::new() },
        ];
        for (name, misses) in self.levels.iter().zip(&self.all.misses) {
            let label = format!("{name} misses");
            figures.push(Figure { label, value: Cell::Count(*misses), note: String::new() });
        }
        figures
    }

    /// Column heads for [`cells`].
    fn heads(&self) -> Vec<String> {
        let heads = ["accesses", "reads", "writes", "lines"].map(str::to_owned).into_iter();
        heads.chain(self.levels.iter().map(|level| format!("{level} misses"))).collect()
    }

    fn type_grid(&self, limit: usize) -> Grid {
        let mut head = vec!["type".to_owned(), "bytes".to_owned(), "regions".to_owned()];
        head.extend(self.heads());
        head.extend(["straddling", "fetched", "never used", "padding"].map(str::to_owned));
        let row = |row: &TypeRow| {
            // Variables of unknown type were not searched, so they are not marked as not found.
            let is_found = row.is_known || row.name.starts_with(UNKNOWN);
            let name = if is_found { row.name.clone() } else { format!("{} (not found)", row.name) };
            let size = if row.is_known { Cell::Count(row.size) } else { Cell::Empty };
            let mut all = vec![Cell::Text(name), size, Cell::Count(row.regions)];
            all.extend(cells(&row.numbers));
            all.extend([
                Cell::Count(row.straddling),
                Cell::Bytes(row.fetched),
                Cell::Share(share(row.fetched - row.used, row.fetched)),
                Cell::Bytes(row.padding.fetched - row.padding.used),
            ]);
            all
        };
        let other = |name: &str, numbers: &Numbers| {
            let mut all = vec![Cell::from(name), Cell::Empty, Cell::Empty];
            all.extend(cells(numbers));
            all.resize(head.len(), Cell::Empty);
            all
        };
        let mut rows: Vec<Vec<Cell>> = self.types.iter().take(limit).map(row).collect();
        rows.push(other("(no region)", &self.unknown));
        rows.push(other("total", &self.all));
        let left = self.types.len().saturating_sub(limit) as u64;
        Grid { title: "Types".into(), head, rows, more: self.more_types + left }
    }

    fn field_grid(&self, of: &TypeRow) -> Grid {
        let mut head =
            vec!["offset", "field", "type", "bytes"].into_iter().map(str::to_owned).collect::<Vec<_>>();
        head.extend(self.heads());
        head.extend(["straddling", "used", "heat"].map(str::to_owned));
        // Files of types have no places; an empty column would take room from the others.
        let has_places = of.fields.iter().any(|field| field.declared.is_some());
        if has_places {
            head.push("declared".to_owned());
        }
        let part = |part: &PartRow| {
            let mut all = cells(&part.numbers);
            all.push(Cell::Count(part.straddling));
            all.push(if part.fetched > 0 {
                Cell::Share(share(part.used, part.fetched))
            } else {
                Cell::Empty
            });
            all
        };
        let field = |row: &FieldRow| {
            let name = if row.path.is_empty() { "(all)" } else { &row.path };
            let size =
                if row.count > 1 { format!("{} × {}", row.count, row.size) } else { row.size.to_string() };
            let mut all = vec![
                Cell::Count(row.offset),
                Cell::from(name),
                Cell::Code(row.text.clone()),
                Cell::Text(size),
            ];
            all.extend(part(&row.part));
            all.push(Cell::from(row.heat));
            if has_places {
                all.push(row.declared.as_deref().map_or(Cell::Empty, |place| file_and_line(place).into()));
            }
            all
        };
        let rest = |name: &str, of: &PartRow| {
            let mut all = vec![Cell::Empty, Cell::from(name), Cell::Empty, Cell::Empty];
            all.extend(part(of));
            all.resize(head.len(), Cell::Empty);
            all
        };
        let mut rows: Vec<Vec<Cell>> = of.fields.iter().map(field).collect();
        if of.padding.fetched > 0 || of.padding.numbers.accesses > 0 {
            rows.push(rest("(padding)", &of.padding));
        }
        if of.trailing.fetched > 0 || of.trailing.numbers.accesses > 0 {
            rows.push(rest("(trailing)", &of.trailing));
        }
        let place = of.declared.as_deref().map(|place| format!(", {}", file_and_line(place)));
        let place = place.unwrap_or_default();
        Grid { title: format!("{} ({}{place})", of.name, counted(of.size, "byte")), head, rows, more: 0 }
    }

    /// Byte map of a type whose first element begins a line: each field, with its misses in the first level.
    fn picture(&self, of: &TypeRow) -> ByteMap {
        let width = usize::try_from(self.line_size).unwrap_or(64).clamp(8, 64);
        let heat = |numbers: &Numbers| numbers.misses.first().copied().unwrap_or(0);
        let parts = of.fields.iter().map(|field| BytePart {
            name: if field.path.is_empty() { of.name.clone() } else { field.path.clone() },
            note: field.heat.to_owned(),
            heat: heat(&field.part.numbers),
        });
        let cell = |byte: &Byte| match byte {
            Byte::Leaf(field) => ByteCell::Part(*field),
            Byte::Hole | Byte::Padding => ByteCell::Hole,
            Byte::Outside => ByteCell::Outside,
        };
        let row = |(at, bytes): (usize, &[Byte])| ByteRow {
            name: (at * width).to_string(),
            cells: bytes.iter().map(cell).collect(),
            note: String::new(),
        };
        ByteMap {
            title: format!("{}, if it begins with a line", of.name),
            unit: self.levels.first().map_or_else(String::new, |level| format!("{level} misses")),
            width,
            parts: parts.collect(),
            rows: of.bytes.chunks(width).take(MAX_LINES).enumerate().map(row).collect(),
            more: of.bytes.chunks(width).len().saturating_sub(MAX_LINES) as u64,
        }
    }

    fn site_grid(&self) -> Grid {
        let mut head = vec!["allocated", "as", "type", "bytes", "regions"]
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        head.extend(self.heads());
        let rows = self.sites.iter().map(|site| {
            let mut all = vec![
                Cell::from(site.allocated.as_deref().unwrap_or(&site.name)),
                Cell::from(site.kind),
                site.of.as_deref().map_or(Cell::Empty, Cell::from),
                Cell::Bytes(site.bytes),
                Cell::Count(site.regions),
            ];
            all.extend(cells(&site.numbers));
            all
        });
        Grid { title: "Where memory was got".into(), head, rows: rows.collect(), more: self.more_sites }
    }

    fn thread_grid(&self) -> Grid {
        let mut head = vec!["thread".to_owned()];
        head.extend(self.heads());
        let rows = self.threads.iter().map(|row| {
            let mut all = vec![Cell::Text(row.thread.to_string())];
            all.extend(cells(&row.numbers));
            all
        });
        Grid { title: "Threads".into(), head, rows: rows.collect(), more: 0 }
    }

    fn shared_grid(&self) -> Grid {
        let head = ["addr", "false sharing", "true sharing", "parts"].map(str::to_owned).into();
        let rows = self.shared.iter().map(|line| {
            let parts: Vec<String> =
                line.parts.iter().map(|part| format!("{}: {}", part.thread, part.spelled())).collect();
            vec![
                Cell::Addr(line.addr),
                Cell::Count(line.false_sharing),
                Cell::Count(line.moves),
                Cell::Text(parts.join(", ")),
            ]
        });
        Grid { title: "Lines shared for nothing".into(), head, rows: rows.collect(), more: self.more_shared }
    }
}
