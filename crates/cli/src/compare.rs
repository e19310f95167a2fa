//! Reports of two traces side by side: the most important numbers of each, and how they change.

use crate::page;
use crate::summary::Form;
use crate::verbs::report::Told;
use quipu::model::doc::{Block, Cell, Document, Grid};
use quipu::model::pass::Detail;
use quipu::model::result;
use quipu_console::comparison::SIDES;
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session;
use quipu_view::{bytes_text, grouped, ticks_text};
use serde_json::{Map, Value};

result! {
    /// Changes from one trace to another.
    struct Changes {
        changes: Vec<Change> => "The numbers of both traces.";
    }
}

result! {
    /// A number of both traces.
    struct Change {
        number: String => "What the number is.";
        old: Option<f64> => "Its value in the old trace; null if that has none. Sizes are in bytes, shares from 0 to 1.";
        new: Option<f64> => "Its value in the new trace. Times are in microseconds.";
        change: Option<f64> => "By how much it grows; null without one of the values.";
        percent: Option<f64> => "The same in percent of the old value; null if that is 0.";
    }
}

/// Prints the numbers of two reports, the old one first, and the verdicts on both. Differences are an answer, not a
/// flaw.
pub(crate) fn print(sides: &[Told; 2], form: Form<'_>, screen: &Screen) -> Result<Outcome> {
    let [old, new] = sides;
    let names = SIDES.map(|side| format!("{side} trace: "));
    session::say_lost_of(&names, [&old.verdict, &new.verdict], old.verdict.meaning, screen);
    let sections = sections(old, new);
    let changes = || Changes { changes: sections.iter().flat_map(Section::changes).collect() };
    if form.json {
        let mut answer = Map::new();
        for (side, told) in SIDES.iter().zip(sides) {
            answer.insert((*side).to_owned(), told.json());
        }
        answer.insert("changes".to_owned(), result::json(&changes().changes));
        screen.json(&Value::Object(answer))?;
    } else if let Some(text) = form.csv.text("report.changes", || result::tables("report", &changes()))? {
        screen.text(&text)?;
    } else {
        let facts = SIDES.iter().zip(sides).map(|(side, told)| {
            let format = Cell::Text(told.trace.meta().format.to_string());
            ((*side).to_owned(), vec![Cell::Text(told.name.clone()), format])
        });
        let about = Document::new("Two traces").with(Block::Facts(facts.collect()));
        let documents = sections.iter().filter(|section| !section.rows.is_empty()).map(Section::document);
        let all: Vec<Document> = std::iter::once(about).chain(documents).collect();
        screen.documents(&all)?;
    }
    let of_old = old.verdict.tell(screen);
    Ok(of_old.and(new.verdict.tell(screen)))
}

/// Numbers under a title.
struct Section {
    title: String,
    /// What the names of its numbers begin with for other programs; empty for the first section.
    key: &'static str,
    rows: Vec<Row>,
}

/// A number of both traces.
struct Row {
    label: String,
    sides: [Option<Cell>; 2],
}

fn sections(old: &Told, new: &Told) -> Vec<Section> {
    let mut all =
        vec![Section { title: "Numbers".to_owned(), key: "", rows: rows([numbers(old), numbers(new)]) }];
    for (tool, title) in [("caches", "Caches"), ("tlbs", "TLBs")] {
        let machine = if old.machine.records.is_some() { &old.machine } else { &new.machine };
        let rows = rows([levels(old, tool), levels(new, tool)]);
        all.push(Section { title: machine.title(title), key: tool, rows });
    }
    all
}

/// The most important numbers of a trace.
fn numbers(told: &Told) -> Vec<(String, Cell)> {
    let meta = told.trace.meta();
    let size = meta.disk_bytes.or(meta.packed_bytes);
    let mut all = vec![("records".to_owned(), Cell::Count(told.records))];
    all.extend(size.map(|bytes| ("size on disk".to_owned(), Cell::Bytes(bytes))));
    let documents: Vec<_> = told.reports.iter().map(|report| report.document(Detail::Full)).collect();
    for block in page::figures(&*told.trace, &told.reports, &documents, &[]).blocks {
        if let Block::Figures(figures) = block {
            // The family may count the records, too.
            let others = figures.into_iter().filter(|figure| figure.label != "records");
            all.extend(others.map(|figure| (figure.label, figure.value)));
        }
    }
    all
}

/// Misses at each level of a simulated hierarchy.
fn levels(told: &Told, tool: &str) -> Vec<(String, Cell)> {
    let machine = &told.machine;
    let report = machine.names.iter().zip(&machine.reports).find(|(name, _)| **name == tool);
    let json = report.map(|(_, report)| report.json()).unwrap_or_default();
    let mut all = Vec::new();
    for level in json["levels"].as_array().into_iter().flatten() {
        let name = level["name"].as_str().unwrap_or_default();
        let misses = level["misses"].as_u64().map(Cell::Count);
        let rate = level["miss_rate"].as_f64().map(Cell::Share);
        let mpki = level["mpki"].as_f64().map(|mpki| Cell::Real(mpki, 2));
        for (what, cell) in [("misses", misses), ("miss rate", rate), ("MPKI", mpki)] {
            all.extend(cell.map(|cell| (format!("{name} {what}"), cell)));
        }
    }
    all
}

/// Pairs the numbers of two traces by their labels, in the order of the old trace; those that only the new one has follow.
fn rows([old, new]: [Vec<(String, Cell)>; 2]) -> Vec<Row> {
    let mut rows: Vec<Row> =
        old.into_iter().map(|(label, cell)| Row { label, sides: [Some(cell), None] }).collect();
    for (label, cell) in new {
        match rows.iter_mut().find(|row| row.label == label) {
            Some(row) => row.sides[1] = Some(cell),
            None => rows.push(Row { label, sides: [None, Some(cell)] }),
        }
    }
    rows
}

impl Section {
    fn document(&self) -> Document {
        let [old, new] = SIDES;
        let head = ["", old, new, "change", "percent"].map(str::to_owned).into();
        let rows = self.rows.iter().map(Row::cells).collect();
        Document::new(&*self.title).with(Block::Grid(Grid { title: String::new(), head, rows, more: 0 }))
    }

    fn changes(&self) -> Vec<Change> {
        let name = |row: &Row| {
            let label = row.label.replace(' ', "_");
            if self.key.is_empty() { label } else { format!("{}.{label}", self.key) }
        };
        let change = |row: &Row| {
            let [old, new] = row.amounts();
            Change { number: name(row), old, new, change: row.change(), percent: row.percent() }
        };
        // Texts are for people only.
        self.rows.iter().filter(|row| row.amounts().iter().any(Option::is_some)).map(change).collect()
    }
}

impl Row {
    fn amounts(&self) -> [Option<f64>; 2] {
        [0, 1].map(|side| self.sides[side].as_ref().and_then(amount))
    }

    fn change(&self) -> Option<f64> {
        let [old, new] = self.amounts();
        Some(new? - old?)
    }

    fn percent(&self) -> Option<f64> {
        let [old, _] = self.amounts();
        let old = old.filter(|old| *old != 0.0)?;
        Some(self.change()? / old * 100.0)
    }

    fn cells(&self) -> Vec<Cell> {
        let side = |side: usize| self.sides[side].clone().unwrap_or(Cell::Empty);
        let change = match (&self.sides, self.change()) {
            ([old, new], None) if old == new => "none".into(),
            (_, None) => Cell::Empty,
            (_, Some(0.0)) => "none".into(),
            ([Some(Cell::Count(old)), Some(Cell::Count(new))], _) => signed(*old, *new, grouped),
            ([Some(Cell::Bytes(old)), Some(Cell::Bytes(new))], _) => signed(*old, *new, bytes_text),
            ([Some(Cell::Micros(old)), Some(Cell::Micros(new))], _) => {
                signed(*old, *new, |micros| ticks_text(micros, 1_000_000))
            }
            ([Some(Cell::Share(_)), _], Some(change)) => points(change * 100.0),
            (_, Some(change)) => format!("{change:+.2}").into(),
        };
        let percent = match (self.change(), self.percent()) {
            (Some(change), Some(percent)) if change != 0.0 => format!("{percent:+.1} %").into(),
            _ => Cell::Empty,
        };
        vec![Cell::Text(self.label.clone()), side(0), side(1), change, percent]
    }
}

/// A difference of shares in percent. Small ones have more digits, so that they are not printed as 0.
fn points(change: f64) -> Cell {
    let digits = if change.abs() < 0.05 { 3 } else { 1 };
    Cell::Text(format!("{change:+.digits$} points"))
}

/// A difference with its sign.
fn signed(old: u64, new: u64, text: impl Fn(u64) -> String) -> Cell {
    let sign = if new < old { '-' } else { '+' };
    Cell::Text(format!("{sign}{}", text(old.abs_diff(new))))
}

/// The amount in a cell that is a number. Counts beyond 2^53 are rounded.
fn amount(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Count(n) | Cell::Bytes(n) | Cell::Micros(n) => Some(*n as f64),
        Cell::Share(share) => Some(*share),
        Cell::Real(value, _) => Some(*value),
        Cell::Empty | Cell::Text(_) | Cell::Code(_) | Cell::Addr(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_paired_by_their_labels_and_changes_have_signs() {
        let of = |cells: &[(&str, Cell)]| {
            cells.iter().map(|(label, cell)| ((*label).to_owned(), cell.clone())).collect()
        };
        let rows = rows([
            of(&[("loads", Cell::Count(1000)), ("rate", Cell::Share(0.5)), ("old", Cell::Count(0))]),
            of(&[("rate", Cell::Share(0.25)), ("loads", Cell::Count(3000)), ("new", Cell::Bytes(64))]),
        ]);
        let text = |row: &Row| match &row.cells()[3..] {
            [Cell::Text(change), Cell::Text(percent)] => format!("{} {change} {percent}", row.label),
            _ => row.label.clone(),
        };
        let texts: Vec<String> = rows.iter().map(text).collect();
        assert_eq!(texts, ["loads +2,000 +200.0 %", "rate -25.0 points -50.0 %", "old", "new"]);
        let same = Row { label: "n".into(), sides: [Some(Cell::Count(7)), Some(Cell::Count(7))] };
        assert_eq!(same.cells()[3..], [Cell::from("none"), Cell::Empty]);
        assert_eq!((same.change(), same.percent()), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn times_have_a_change_and_texts_are_for_people_only() {
        let row = |label: &str, old: Cell, new: Cell| Row {
            label: label.to_owned(),
            sides: [Some(old), Some(new)],
        };
        let span = row("time span", Cell::Micros(9_550), Cell::Micros(148_000));
        assert_eq!(span.cells()[3], "+138 ms".into());
        let api = row("API", "OpenGL".into(), "OpenGL".into());
        assert_eq!(api.cells()[3..], [Cell::from("none"), Cell::Empty]);
        let rate = row("miss rate", Cell::Share(0.045), Cell::Share(0.0453));
        assert_eq!(rate.cells()[3], "+0.030 points".into());
        let section = Section { title: String::new(), key: "", rows: vec![span, api] };
        let changes = section.changes();
        assert_eq!(changes.len(), 1);
        assert_eq!((&*changes[0].number, changes[0].change), ("time_span", Some(138_450.0)));
    }
}
